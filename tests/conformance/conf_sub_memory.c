/* SPDX-License-Identifier: BSD-2-Clause */
/* Sub-MRs: whose memory they are (SUB-02), and that they share it with their base (SUB-05). */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/sub.h"
#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"

#define LEN 4096

/* ---- SUB-02 ---- */

static void sub_02_attributes_of_the_base_count(struct conf *c)
{
	struct conf_opts opts = { .caps = CONF_CAPS };
	int rounds = conf_offers(c, CONF_CAPS | FI_HMEM) ? 2 : 1;

	conf_need_endpoints();
	for (int round = 0; round < rounds; round++) {
		struct conf_region *sub;
		struct iovec iov;
		struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
		struct conf_link l;

		opts.caps = CONF_CAPS | (round ? FI_HMEM : 0);
		conf_link(c, &opts, 64, &l);
		iov = (struct iovec){ l.dst + 8, 48 };
		attr.base_mr = l.remote->mr;
		for (int i = 0; i < 4; i++) { /* none of them alone could be registered with */
			attr.iface = i & 1 ? FI_HMEM_CUDA : (enum fi_hmem_iface)77;
			attr.device.reserved = UINT64_C(0xdeadbeefdeadbeef);
			attr.hmem_data = i & 2 ? &attr : NULL;
			attr.page_size = i & 2 ? 12345 : SIZE_MAX;
			sub = conf_regattr(l.b, &attr, 0);
			sub_works(&l, sub, l.dst + 8, 48);
			conf_drop_region(sub);
		}
	}
}

/* The interface of before 2.0 has no base_mr, nor a page size: what is there is not looked at. */
static void sub_02_interface_without_it(struct conf *c)
{
	struct conf_end *end =
		conf_open(c, &(struct conf_opts){ .no_ep = !(c->mode & FI_MR_ENDPOINT),
						  .version = FI_VERSION(1, 22) });
	uint8_t *buf = conf_alloc(c, 64);
	struct iovec iov = { buf, 64 };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = CONF_ALL,
				   .page_size = 12345,
				   .base_mr = (struct fid_mr *)(uintptr_t)0xdead0,
				   .sub_mr_cnt = SIZE_MAX };

	conf_drop_region(conf_regattr(end, &attr, 0));
}

/* ---- of a dma-buf ---- */

/* What an emulated device has; false: the NIC is none. */
static bool device_counts(struct emu_verbs_counts *counts)
{
	void (*call)(struct emu_verbs_counts *);
	void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!verbs)
		return false;
	*(void **)&call = dlsym(verbs, "emu_verbs_counts");
	if (call)
		call(counts);
	dlclose(verbs);
	return call != NULL;
}

/* What a device's driver would export; the NICs here take what can be mapped. */
static int a_file(size_t len, int how)
{
	int fd = memfd_create("base", MFD_CLOEXEC), again;
	char path[64];

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	if (how == O_RDWR)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, how | O_CLOEXEC);
	assert_true(again >= 0);
	close(fd);
	return again;
}

static struct conf_region *reg_file(struct conf_end *end, int fd, size_t offset, size_t len,
				    uint64_t access)
{
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .offset = offset, .len = len, .base_addr = NULL };
	struct fi_mr_attr attr = { .access = access, .dmabuf = &dmabuf };

	return conf_regattr(end, &attr, FI_MR_DMABUF);
}

/* A sub-MR of it; NULL where the NIC can share none, which it says. */
static struct conf_region *sub_of_file(struct conf_region *base, size_t at, size_t len,
				       uint64_t access)
{
	struct iovec iov = { (void *)(uintptr_t)at, len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = access, .base_mr = base->mr
	};
	struct conf *c = base->end->conf;
	struct fid_mr *mr;

	if (c->profile->at_once)
		return conf_regattr(base->end, &attr, 0);
	attr.requested_key = 0xfeed;
	conf_log_mark(__FILE__, __LINE__);
	if (fi_mr_regattr(base->end->domain, &attr, 0, &mr) == -FI_EOPNOTSUPP) {
		conf_log_expect(1, NULL, "a part of a dma-buf", __FILE__, __LINE__);
		return NULL;
	}
	conf_log_expect(0, NULL, "a part of a dma-buf", __FILE__, __LINE__);
	assert_ok(fi_close(&mr->fid));
	return conf_regattr(base->end, &attr, 0);
}

static void sub_01_sub_05_of_a_dmabuf(struct conf *c)
{
	struct conf_opts opts = { .caps = CONF_CAPS | FI_HMEM };
	struct conf_region *base, *sub, *below;
	uint8_t want[3 * LEN];
	struct emu_verbs_counts counts;
	struct conf_link l;
	uint8_t *map;
	int fd;

	conf_need_caps(c, opts.caps);
	if (!c->profile->at_once && !device_counts(&counts))
		conf_skip(c, "the kernel takes no file for a dma-buf");
	conf_link(c, &opts, 3 * LEN, &l);
	fd = a_file(3 * LEN, O_RDWR);
	map = mmap(NULL, 3 * LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	base = reg_file(l.b, fd, LEN, 2 * LEN, CONF_ALL);
	close(fd); /* the caller's, and no more of it is needed */
	conf_fill(c, map, 3 * LEN);
	memcpy(want, map, 3 * LEN);
	sub = sub_of_file(base, LEN + 100, LEN, CONF_ALL);
	if (sub) {
		sub_works(&l, sub, map + LEN + 100, LEN);
		memcpy(want + LEN + 100, l.src, LEN);
		sub_fails(&l, sub, LEN, 1, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		below = sub_of_file(sub, LEN + 200, 50, CONF_ALL);
		sub_works(&l, below, map + LEN + 200, 50);
		memcpy(want + LEN + 200, l.src, 50);
		assert_memory_equal(map, want, 3 * LEN);
		sub_refused(base, (struct iovec){ (void *)(uintptr_t)(LEN - 1), 2 }, CONF_ALL, 0,
			    -FI_EINVAL);
		sub_refused(base, (struct iovec){ (void *)(uintptr_t)(3 * LEN), 1 }, CONF_ALL, 0,
			    -FI_EINVAL);
		conf_drop_region(below);
		conf_drop_region(sub);
	}
	sub_works(&l, base, map + LEN, 2 * LEN);
	conf_drop_region(base);
	munmap(map, 3 * LEN);
}

/* It has its pages, and what is at the program's addresses is nothing to parts of it either. */
static void api_15_sub_01_refresh_of_parts_of_a_dmabuf(struct conf *c)
{
	struct conf_region *base, *sub;
	struct emu_verbs_counts counts;
	struct conf_end *end;
	int fd;

	conf_need_caps(c, CONF_CAPS | FI_HMEM);
	if (!c->profile->at_once && !device_counts(&counts))
		conf_skip(c, "the kernel takes no file for a dma-buf");
	end = conf_open(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_HMEM });
	fd = a_file(3 * LEN, O_RDWR);
	base = reg_file(end, fd, 0, 3 * LEN, CONF_ALL);
	for (size_t parts = 1; parts <= 2 && parts <= end->info->domain_attr->mr_iov_limit;
	     parts++) {
		struct iovec part[2] = { { (void *)(uintptr_t)(2 * LEN), 100 },
					 { (void *)(uintptr_t)100, LEN } };
		struct fi_mr_attr attr = {
			.mr_iov = part, .iov_count = parts, .access = CONF_ALL, .base_mr = base->mr
		};

		sub = conf_regattr(end, &attr, 0);
		assert_ok(fi_mr_refresh(sub->mr, part, parts, 0));
		assert_ok(fi_mr_refresh(sub->mr, NULL, 0, 0));
		conf_drop_region(sub);
	}
	conf_drop_region(base);
	close(fd);
}

/* A dma-buf that can be read alone gives no right to write, whoever asks. */
static void sub_01_of_a_read_only_dmabuf(struct conf *c)
{
	struct conf_region *base, *sub;
	struct conf_end *end;
	int fd;

	conf_need_caps(c, CONF_CAPS | FI_HMEM);
	if (!c->profile->at_once)
		conf_skip(c, "the kernel keeps a device from writing to a dma-buf");
	end = conf_open(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_HMEM });
	fd = a_file(LEN, O_RDONLY);
	base = reg_file(end, fd, 0, LEN, FI_SEND | FI_REMOTE_READ);
	close(fd);
	sub = sub_of_file(base, 100, 100, FI_REMOTE_READ);
	sub_refused(base, (struct iovec){ (void *)(uintptr_t)8, 8 }, FI_REMOTE_WRITE, 0,
		    -FI_EACCES);
	sub_refused(sub, (struct iovec){ (void *)(uintptr_t)128, 8 }, FI_RECV, 0, -FI_EACCES);
	conf_drop_region(sub);
	conf_drop_region(base);
}

/* Whose memory it is need not be said, and what is said has to be true. */
static void sub_02_flags_about_memory(struct conf *c)
{
	struct conf_region *base;
	struct conf_end *end;
	uint8_t *buf;

	conf_need_caps(c, CONF_CAPS | FI_HMEM);
	end = conf_open(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_HMEM });
	buf = conf_alloc(c, 64);
	base = conf_reg(end, buf, 64, CONF_ALL);
	sub_refused(base, (struct iovec){ buf, 8 }, CONF_ALL, FI_HMEM_DEVICE_ONLY, -FI_EINVAL);
	sub_refused(base, (struct iovec){ buf, 8 }, CONF_ALL,
		    FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC, -FI_EINVAL);
	conf_drop_region(sub_with(base, buf, 8, CONF_ALL, FI_HMEM_HOST_ALLOC));
	conf_drop_region(base);
}

static void flag_05_sub_01_no_dmabuf_with_a_base(struct conf *c)
{
	struct conf_region *base;
	struct fi_mr_dmabuf dmabuf;
	struct fi_mr_attr attr = { .access = CONF_ALL, .dmabuf = &dmabuf, .requested_key = 99 };
	struct conf_end *end;
	uint8_t *buf;
	struct fid_mr *mr;
	int fd;

	conf_need_caps(c, CONF_CAPS | FI_HMEM);
	end = conf_open(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_HMEM });
	buf = conf_alloc(c, 64);
	base = conf_reg(end, buf, 64, CONF_ALL);
	fd = a_file(LEN, O_RDWR);
	dmabuf = (struct fi_mr_dmabuf){ .fd = fd, .len = 64 };
	attr.base_mr = base->mr;
	assert_refused_with(fi_mr_regattr(end->domain, &attr, FI_MR_DMABUF, &mr), -FI_EINVAL,
			    "base_mr");
	close(fd);
	conf_drop_region(base);
}

/* ---- SUB-05 ---- */

enum {
	MANY = 50
};

static size_t mappings_of_files(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	size_t n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:base") != NULL;
	fclose(f);
	return n;
}

/* One mapping, and no descriptor, however many parts. */
static void sub_05_one_mapping_of_a_dmabuf(struct conf *c)
{
	struct conf_end *end;
	struct conf_region *base, *sub[MANY];
	size_t fds, maps = mappings_of_files();
	int fd;

	conf_need_caps(c, CONF_CAPS | FI_HMEM);
	if (!c->profile->at_once)
		conf_skip(c, "the NIC maps nothing");
	end = conf_open(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_HMEM });
	fds = test_fds();
	fd = a_file(LEN, O_RDWR);
	base = reg_file(end, fd, 0, LEN, CONF_ALL);
	close(fd);
	assert_int_equal(mappings_of_files(), maps + 1);
	for (size_t i = 0; i < MANY; i++)
		sub[i] = sub_of_file(i ? sub[i - 1] : base, i, LEN - 2 * i, CONF_ALL);
	assert_int_equal(mappings_of_files(), maps + 1);
	assert_int_equal(test_fds(), fds);
	for (size_t i = MANY; i > 0; i--) {
		conf_drop_region(sub[i - 1]);
		assert_int_equal(mappings_of_files(), maps + 1);
	}
	conf_drop_region(base);
	assert_int_equal(mappings_of_files(), maps);
}

static void sub_05_nothing_is_pinned_again(struct conf *c)
{
	struct emu_verbs_counts before, with, after;
	struct conf_region *base, *sub[MANY];
	struct conf_end *end;
	uint8_t *buf;

	if (c->profile->at_once)
		conf_skip(c, "the NIC pins nothing");
	end = conf_open(c, NULL);
	buf = conf_alloc(c, 16 * LEN);
	base = conf_reg(end, buf, 16 * LEN, CONF_ALL);
	conf_drop_region(sub_of(base, buf, LEN, CONF_ALL)); /* what is made once is there */
	if (!device_counts(&before))
		conf_skip(c, "the device is no emulated one, which would tell");
	for (size_t i = 0; i < MANY; i++)
		sub[i] = sub_of(i % 3 ? sub[i - 1] : base, buf + i, 8 * LEN - 2 * i, CONF_REMOTE);
	assert_true(device_counts(&with));
	for (size_t i = MANY; i > 0; i--)
		conf_drop_region(sub[i - 1]);
	assert_true(device_counts(&after));
	assert_int_equal(after.mrs, before.mrs);
	assert_int_equal(after.pinned, before.pinned);
	if (with.mws < before.mws + MANY)
		conf_skip(c, "the device has no windows, so that memory is registered again");
	assert_int_equal(with.mrs, before.mrs);
	assert_int_equal(with.pinned, before.pinned);
}

/* The NIC looks at no page again, so that they need not be reachable now. */
static void sub_05_pages_are_not_looked_at_again(struct conf *c)
{
	struct conf_region *base, *sub;
	struct conf_link l;
	uint8_t *pages;

	conf_link(c, NULL, LEN, &l);
	if (!c->profile->at_once)
		conf_skip(c, "sub_05_nothing_is_pinned_again counts instead");
	pages = mmap(NULL, 4 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	base = conf_reg(l.b, pages, 4 * LEN, CONF_ALL);
	assert_int_equal(mprotect(pages, 4 * LEN, PROT_NONE), 0);
	sub = sub_of(base, pages + LEN, LEN, CONF_ALL);
	assert_posted(
		fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, sub->addr, conf_key(l.a, sub), c));
	conf_failed(l.a->tx, c, FI_EFAULT, HMREG_FAULT);
	assert_int_equal(mprotect(pages, 4 * LEN, PROT_READ | PROT_WRITE), 0);
	sub_works(&l, sub, pages + LEN, LEN);
	conf_drop_region(sub);
	conf_drop_region(base);
	munmap(pages, 4 * LEN);
}

static const struct conf_case cases[] = {
	CONF(sub_02_attributes_of_the_base_count),
	CONF(sub_02_interface_without_it),
	CONF(sub_01_sub_05_of_a_dmabuf),
	CONF(api_15_sub_01_refresh_of_parts_of_a_dmabuf),
	CONF(sub_01_of_a_read_only_dmabuf),
	CONF(sub_02_flags_about_memory),
	CONF(flag_05_sub_01_no_dmabuf_with_a_base),
	CONF(sub_05_one_mapping_of_a_dmabuf),
	CONF(sub_05_nothing_is_pinned_again),
	CONF_WITHOUT(sub_05_pages_are_not_looked_at_again, FI_MR_MMU_NOTIFY),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
