/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs on the kernel's software RDMA device: memory windows, where the machine's driver keeps to their ends
 * (rxe_windows.c), and second registrations with the driver as it is.  What both do for a peer is the same.
 */
#include <inttypes.h>
#include <unistd.h>

#include "tests/conformance/sub.h"
#include "tests/fds.h"
#include "region.h"

#define LENGTH ((size_t)1024 * 1024)
#define CYCLES 500

/* Is the driver made to keep to the ends of windows? */
static bool with_windows(void)
{
	return access("/sys/module/rxe_windows", F_OK) == 0;
}

static bool is_window(const struct conf_region *region)
{
	return vm_region_state(region, NULL) & HMREG_REGION_WINDOW;
}

/* KiB that the kernel has pinned for this process. */
static unsigned long pinned(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	assert_non_null(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmPin: %lu", &kib) == 1)
			break;
	fclose(status);
	return kib;
}

/* The library's trial sees what the driver does, not what it says. */
static void sub_05_the_driver_is_seen_through(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = VM_CAPS, .no_ep = true });
	struct hmreg_device device = { .size = sizeof(device) };
	struct hmreg_fabric_ops *ops;

	assert_ok(fi_open_ops(&end->fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->device(&end->fabric->fid, end->info, &device));
	printf("windows of type 1: %s; used for sub-MRs: %s%s%s\n",
	       device.can & HMREG_CAN_WINDOW_1 ? "yes" : "no",
	       device.can & HMREG_CAN_WINDOWS ? "yes" : "no", *device.windows_reason ? ", " : "",
	       device.windows_reason);
	assert_true(device.can & HMREG_CAN_WINDOW_1);
	assert_int_equal(!!(device.can & HMREG_CAN_WINDOWS), with_windows());
	assert_false(device.can & HMREG_CAN_DMABUF_WINDOWS); /* no kernel takes such regions */
	if (with_windows())
		assert_string_equal(device.windows_reason, "");
	else
		assert_non_null(strstr(device.windows_reason, "beyond a window's end"));
}

static void sub_01_sub_05_a_peer_reaches_the_range_alone(struct conf *c)
{
	struct conf_region *one, *inner;
	struct vm_resources before, during;
	unsigned long kib;
	struct conf_link l;

	conf_link(c, &(struct conf_opts){ .caps = VM_CAPS }, LENGTH, &l);
	conf_works(&l);
	vm_resources(&before);
	kib = pinned();
	one = sub_of(l.remote, l.dst + 5000, 100000, CONF_ALL);
	inner = sub_of(one, l.dst + 70000, 8, CONF_ALL);
	assert_int_equal(is_window(one), with_windows());
	assert_int_equal(is_window(inner), with_windows());
	vm_resources(&during);
	printf("regions %u -> %u, pinned %lu -> %lu KiB; key 0x%" PRIx64 ", base's 0x%" PRIx64 "\n",
	       before.mr, during.mr, kib, pinned(), fi_mr_key(one->mr), fi_mr_key(l.remote->mr));
	assert_int_equal(during.mr, before.mr + (with_windows() ? 0 : 2));
	if (with_windows())
		assert_int_equal(pinned(), kib);
	sub_works(&l, one, l.dst + 5000, 100000);
	sub_works(&l, inner, l.dst + 70000, 8);
	memset(l.dst, 0x11, LENGTH);
	sub_fails(&l, one, 100000, 1, FI_EACCES, HMREG_REMOTE_ACCESS);
	sub_fails(&l, one, -1, 1, FI_EACCES, HMREG_REMOTE_ACCESS);
	sub_fails(&l, one, 99999, 5000, FI_EACCES, HMREG_REMOTE_ACCESS);
	sub_fails(&l, inner, 8, 1, FI_EACCES, HMREG_REMOTE_ACCESS);
	for (size_t i = 0; i < LENGTH; i++)
		assert_int_equal(l.dst[i], 0x11);
	sub_works(&l, one, l.dst + 5000, 100000);
	assert_refused(fi_close(&one->mr->fid), -FI_EBUSY);
	conf_drop_region(inner);
	conf_drop_region(one);
	conf_works(&l);
}

static void sub_01_rights_of_its_own(struct conf *c)
{
	struct conf_region *base, *reader, *writer;
	struct conf_link l;

	conf_link(c, &(struct conf_opts){ .caps = VM_CAPS }, LENGTH, &l);
	base = conf_reg(l.b, l.dst, LENGTH, FI_RECV);
	reader = sub_of(base, l.dst, 64, FI_REMOTE_READ);
	writer = sub_of(base, l.dst, 64, FI_REMOTE_WRITE);
	assert_int_equal(is_window(reader) && is_window(writer), with_windows());
	sub_get(&l, reader, l.dst, 0, 64);
	sub_put(&l, writer, l.dst, 0, 64);
	memset(l.dst, 0x22, 64);
	assert_posted(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, reader->addr,
			       fi_mr_key(reader->mr), c));
	conf_failed(l.a->tx, c, FI_EACCES, HMREG_REMOTE_ACCESS);
	assert_posted(fi_read(l.a->ep, l.src, 8, l.local->desc, l.to, writer->addr,
			      fi_mr_key(writer->mr), c));
	conf_failed(l.a->tx, c, FI_EACCES, HMREG_REMOTE_ACCESS);
	assert_int_equal(l.dst[0], 0x22);
}

static void sub_06_a_key_is_dead_at_once(struct conf *c)
{
	struct conf_region *one, *other;
	struct conf_link l;

	conf_link(c, &(struct conf_opts){ .caps = VM_CAPS }, LENGTH, &l);
	other = sub_of(l.remote, l.dst, 64, CONF_ALL);
	for (unsigned int i = 0; i < 20; i++) {
		uint64_t key, addr;

		one = sub_of(l.remote, l.dst + 4096, 64, CONF_ALL);
		key = fi_mr_key(one->mr);
		addr = one->addr;
		sub_works(&l, one, l.dst + 4096, 64);
		conf_drop_region(one);
		assert_posted(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, addr, key, c));
		conf_failed(l.a->tx, c, FI_EACCES, HMREG_REMOTE_ACCESS);
		sub_works(&l, other, l.dst, 64);
		conf_works(&l);
	}
}

/* A dma-buf's parts are registered a second time, from the descriptor that the program has. */
static void sub_05_part_of_a_dmabuf(struct conf *c)
{
	struct conf_region *base, *one;
	struct memory memory;
	struct conf_link l;
	size_t fds;

	conf_link(c, &(struct conf_opts){ .caps = VM_CAPS }, 65536, &l);
	memory_make(&memory, MEMORY_UDMABUF, 65536);
	base = vm_reg_dmabuf(l.b, &memory, 0, 65536, memory.map, CONF_ALL);
	fds = test_fds();
	one = sub_of(base, memory.map + 5000, 1000, CONF_ALL);
	assert_false(is_window(one));
	assert_int_equal(test_fds(), fds);
	sub_works(&l, one, memory.map + 5000, 1000);
	sub_fails(&l, one, 1000, 1, FI_EACCES, HMREG_REMOTE_ACCESS);
	memory_close_fd(&memory);
	assert_refused(
		fi_mr_regattr(l.b->domain,
			      &(struct fi_mr_attr){ .mr_iov = &(struct iovec){ memory.map, 8 },
						    .iov_count = 1,
						    .access = CONF_ALL,
						    .base_mr = base->mr },
			      0, &(struct fid_mr *){ NULL }),
		-FI_EOPNOTSUPP);
	sub_works(&l, one, memory.map + 5000, 1000);
	conf_drop_region(one);
	conf_drop_region(base);
	memory_free(&memory);
}

static void sub_06_nothing_is_left(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = VM_CAPS, .no_ep = true });
	uint8_t *host = conf_alloc(c, LENGTH);
	struct iovec iov = { host, LENGTH };
	struct vm_resources before, after;
	struct conf_region *base;
	unsigned long kib;
	size_t fds;

	for (size_t ready = 0; ready < 2; ready++) {
		struct fi_mr_attr attr = {
			.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .sub_mr_cnt = ready
		};

		base = conf_regattr(end, &attr, 0);
		conf_drop_region(sub_of(base, host, 4096, CONF_ALL)); /* what is kept is made */
		vm_resources(&before);
		kib = pinned();
		fds = test_fds();
		for (unsigned int i = 0; i < CYCLES; i++)
			conf_drop_region(sub_of(base, host + i, 4096, CONF_ALL));
		vm_resources(&after);
		vm_assert_same(&after, &before);
		assert_int_equal(pinned(), kib);
		assert_int_equal(test_fds(), fds);
		conf_check_stats(end, 1, LENGTH, 0);
		conf_drop_region(base);
	}
}

int main(int argc, char **argv)
{
	static const struct conf_case cases[] = {
		CONF(sub_05_the_driver_is_seen_through),
		CONF(sub_01_sub_05_a_peer_reaches_the_range_alone),
		CONF(sub_01_rights_of_its_own),
		CONF(sub_06_a_key_is_dead_at_once),
		CONF(sub_05_part_of_a_dmabuf),
		CONF(sub_06_nothing_is_left),
	};

	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
