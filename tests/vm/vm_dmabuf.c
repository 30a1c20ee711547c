/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dma-bufs as regions (FI_MR_DMABUF) on a verbs device, through the public interface: a peer writes and
 * reads them by RDMA, and the bytes are looked at through the memory's own mapping.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fds.h"
#include "region.h"

#define LENGTH ((size_t)64 * 1024)

static const struct conf_opts with_hmem = { .caps = VM_CAPS };

/* A writes from its buffer of LENGTH bytes to memory of b. */
struct scene {
	struct conf_end *a, *b;
	fi_addr_t to;
	uint8_t *buf;
	struct conf_region *local;
	struct memory memory;
	uint8_t before[LENGTH], now[LENGTH];
};

static struct scene *open_scene(struct conf *c, enum memory_kind kind)
{
	static struct scene scene;
	struct scene *s = &scene;

	conf_pair(c, &with_hmem, &s->a, &s->b);
	s->to = conf_addr(s->a, s->b);
	s->buf = conf_alloc(c, LENGTH);
	s->local = conf_reg(s->a, s->buf, LENGTH, CONF_ALL);
	memory_make(&s->memory, kind, LENGTH);
	memory_pattern(s->before, LENGTH, 1);
	memory_set(&s->memory, 0, s->before, LENGTH);
	return s;
}

static void put(struct scene *s, const struct conf_region *region, size_t off, size_t len)
{
	assert_ok(fi_write(s->a->ep, s->buf, len, s->local->desc, s->to, region->addr + off,
			   fi_mr_key(region->mr), s));
	conf_done(s->a->tx, s);
}

static void get(struct scene *s, const struct conf_region *region, size_t off, size_t len)
{
	assert_ok(fi_read(s->a->ep, s->buf, len, s->local->desc, s->to, region->addr + off,
			  fi_mr_key(region->mr), s));
	conf_done(s->a->tx, s);
}

/* [off, off + len) is a region; a peer writes and reads all of it; the rest of the memory stays. */
static void write_and_read(struct conf *c, enum memory_kind kind, size_t off, size_t len,
			   bool with_base)
{
	struct scene *s = open_scene(c, kind);
	struct conf_region *region = vm_reg_dmabuf(s->b, &s->memory, off, len,
						   with_base ? s->memory.map : NULL, CONF_ALL);
	enum hmreg_path path;

	vm_region_state(region, &path);
	assert_int_equal(path, HMREG_PATH_DMABUF);
	printf("%s, fd %d, offset %zu, length %zu: key 0x%llx, addressed from 0x%llx\n",
	       s->memory.name, s->memory.fd, off, len, (unsigned long long)fi_mr_key(region->mr),
	       (unsigned long long)region->addr);
	memory_close_fd(&s->memory); /* ours to close, and not needed any more */
	memory_show(&s->memory, off, "before the write");

	memory_pattern(s->buf, len, 2);
	put(s, region, 0, len);
	memory_show(&s->memory, off, "after the write");
	memory_get(&s->memory, 0, s->now, LENGTH);
	memcpy(s->before + off, s->buf, len);
	assert_memory_equal(s->now, s->before, LENGTH);

	memory_pattern(s->now, len, 3);
	memory_set(&s->memory, off, s->now, len);
	get(s, region, 0, len);
	assert_memory_equal(s->buf, s->now, len);
	conf_drop_region(region);
	memory_free(&s->memory);
}

static void attr_08_udmabuf(struct conf *c)
{
	write_and_read(c, MEMORY_UDMABUF, 0, LENGTH, true);
}

static void attr_08_udmabuf_list(struct conf *c)
{
	write_and_read(c, MEMORY_UDMABUF_LIST, 0, LENGTH, true);
}

static void attr_08_dma_heap(struct conf *c)
{
	write_and_read(c, MEMORY_HEAP, 0, LENGTH, true);
}

static void attr_08_vgem(struct conf *c)
{
	write_and_read(c, MEMORY_VGEM, 0, LENGTH, true);
}

/* Neither on a page's border, nor a whole number of pages. */
static void reg_06_part(struct conf *c)
{
	write_and_read(c, MEMORY_UDMABUF, 4196, 20000, true);
}

static void reg_06_part_without_base(struct conf *c)
{
	write_and_read(c, MEMORY_HEAP, 8292, 20001, false);
}

static void attr_08_no_base(struct conf *c)
{
	write_and_read(c, MEMORY_VGEM, 0, LENGTH, false);
}

/* As the local side: what the peer gets is what the memory holds. */
static void mode_03_local_dmabuf(struct conf *c)
{
	struct scene *s = open_scene(c, MEMORY_UDMABUF);
	uint8_t *target = conf_alloc(c, LENGTH);
	struct conf_region *local =
		vm_reg_dmabuf(s->a, &s->memory, 0, LENGTH, s->memory.map, CONF_ALL);
	struct conf_region *remote = conf_reg(s->b, target, LENGTH, CONF_ALL);

	assert_ok(fi_write(s->a->ep, s->memory.map + 100, LENGTH - 100, local->desc, s->to,
			   remote->addr + 100, fi_mr_key(remote->mr), s));
	conf_done(s->a->tx, s);
	assert_memory_equal(target + 100, s->before + 100, LENGTH - 100);
	conf_fill(c, target, LENGTH);
	assert_ok(fi_read(s->a->ep, s->memory.map, LENGTH, local->desc, s->to, remote->addr,
			  fi_mr_key(remote->mr), s));
	conf_done(s->a->tx, s);
	memory_get(&s->memory, 0, s->now, LENGTH);
	assert_memory_equal(s->now, target, LENGTH);
	conf_drop_region(remote);
	conf_drop_region(local);
	memory_free(&s->memory);
}

static void attr_01_dmabuf_rights(struct conf *c)
{
	struct scene *s = open_scene(c, MEMORY_UDMABUF);
	struct conf_region *region =
		vm_reg_dmabuf(s->b, &s->memory, 0, LENGTH, s->memory.map, FI_REMOTE_READ);
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_data_entry entry;
	ssize_t ret;

	get(s, region, 0, LENGTH);
	assert_memory_equal(s->buf, s->before, LENGTH);
	assert_ok(fi_write(s->a->ep, s->buf, 64, s->local->desc, s->to, region->addr,
			   fi_mr_key(region->mr), s));
	while ((ret = fi_cq_read(s->a->tx, &entry, 1)) == -FI_EAGAIN)
		;
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(s->a->tx, &error, 0), 1);
	assert_int_equal(error.err, FI_EACCES);
	memory_get(&s->memory, 0, s->now, LENGTH);
	assert_memory_equal(s->now, s->before, LENGTH);
	memory_free(&s->memory);
}

static void fn_03_fd_stays_the_callers(struct conf *c)
{
	struct scene *s = open_scene(c, MEMORY_HEAP);
	size_t fds = test_fds();
	struct conf_region *region =
		vm_reg_dmabuf(s->b, &s->memory, 0, LENGTH, s->memory.map, CONF_ALL);

	assert_true(fcntl(s->memory.fd, F_GETFD) >= 0);
	assert_int_equal(test_fds(), fds);
	conf_drop_region(region);
	assert_true(fcntl(s->memory.fd, F_GETFD) >= 0);
	assert_int_equal(test_fds(), fds);
	memory_free(&s->memory);
}

/* Registering this is refused, and nothing is left of it. */
static void refused(struct conf_end *end, const struct memory *memory, const struct fi_mr_dmabuf *d,
		    int code)
{
	struct fid_mr *untouched = (struct fid_mr *)0x10, *mr = untouched;
	struct fi_mr_dmabuf dmabuf;
	struct fi_mr_attr attr;

	vm_dmabuf_attr(&attr, &dmabuf, memory, 0, LENGTH, NULL);
	attr.dmabuf = d;
	assert_refused(fi_mr_regattr(end->domain, &attr, FI_MR_DMABUF, &mr), code);
	assert_ptr_equal(mr, untouched);
	conf_check_stats(end, 0, 0, 0);
}

static void flag_05_refusals(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = VM_CAPS, .no_ep = true });
	int file = memfd_create("no dma-buf", MFD_CLOEXEC);
	struct memory memory;

	assert_true(file >= 0);
	memory_make(&memory, MEMORY_UDMABUF, LENGTH);
	const struct {
		struct fi_mr_dmabuf dmabuf;
		int code;
	} cases[] = {
		{ { -1, 0, LENGTH, NULL }, -FI_EBADF },
		{ { 1000, 0, LENGTH, NULL }, -FI_EBADF },
		{ { file, 0, LENGTH, NULL }, -FI_EINVAL },
		{ { memory.fd, 0, LENGTH + 1, NULL }, -FI_EINVAL },
		{ { memory.fd, LENGTH, 1, NULL }, -FI_EINVAL },
		{ { memory.fd, 4096, LENGTH, NULL }, -FI_EINVAL },
		{ { memory.fd, UINT64_MAX - 4095, LENGTH, NULL }, -FI_EINVAL },
		{ { memory.fd, 0, 0, NULL }, -FI_EINVAL },
		{ { memory.fd, 0, LENGTH, memory.map + 1 }, -FI_EINVAL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		printf("case %zu\n", i);
		refused(end, &memory, &cases[i].dmabuf, cases[i].code);
	}
	close(file);
	memory_free(&memory);
}

/* A dma-buf that is read as an array of buffers would be a crash, or a region of other memory. */
static void fn_12_never_read_as_buffers(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = VM_CAPS, .no_ep = true });
	struct memory memory;
	struct conf_region *region;

	memory_make(&memory, MEMORY_UDMABUF, LENGTH);
	region = vm_reg_dmabuf(end, &memory, 0, 8192, memory.map, CONF_ALL);
	conf_check_stats(end, 1, 8192, 0);
	conf_drop_region(region);
	memory_free(&memory);
}

static void flag_05_needs_hmem(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fi_mr_dmabuf dmabuf;
	struct fi_mr_attr attr;
	struct memory memory;
	struct fid_mr *mr;

	memory_make(&memory, MEMORY_UDMABUF, LENGTH);
	vm_dmabuf_attr(&attr, &dmabuf, &memory, 0, LENGTH, NULL);
	assert_refused_with(fi_mr_regattr(end->domain, &attr, FI_MR_DMABUF, &mr), -FI_EBADFLAGS,
			    "FI_HMEM");
	memory_free(&memory);
}

static void flag_05_no_base_region(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = VM_CAPS, .no_ep = true });
	struct conf_region *base;
	struct fi_mr_dmabuf dmabuf;
	struct fi_mr_attr attr;
	struct memory memory;
	struct fid_mr *mr;

	memory_make(&memory, MEMORY_UDMABUF, LENGTH);
	base = conf_reg(end, memory.map, 4096, CONF_ALL);
	vm_dmabuf_attr(&attr, &dmabuf, &memory, 0, LENGTH, NULL);
	attr.base_mr = base->mr;
	assert_refused(fi_mr_regattr(end->domain, &attr, FI_MR_DMABUF, &mr), -FI_EINVAL);
	conf_drop_region(base);
	memory_free(&memory);
}

int main(int argc, char **argv)
{
	static const struct conf_case cases[] = {
		CONF(attr_08_udmabuf),		CONF(attr_08_udmabuf_list),
		CONF(attr_08_dma_heap),		CONF(attr_08_vgem),
		CONF(attr_08_no_base),		CONF(reg_06_part),
		CONF(reg_06_part_without_base), CONF(mode_03_local_dmabuf),
		CONF(attr_01_dmabuf_rights),	CONF(fn_03_fd_stays_the_callers),
		CONF(flag_05_refusals),		CONF(fn_12_never_read_as_buffers),
		CONF(flag_05_needs_hmem),	CONF(flag_05_no_base_region),
	};

	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
