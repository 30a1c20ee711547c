/* SPDX-License-Identifier: BSD-2-Clause */
/* Sub-MRs of the verbs NIC: memory windows, and second registrations where there can be none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "tests/unit/window_scene.h"

static int open_group(void **state)
{
	(void)state;
	scene_log();
	setenv("HMREG_EMU_VERBS",
	       "devices=8,emu1.mw=0,emu2.mw=2,emu3.mw_bounds=0,emu4.mw_dmabuf=1,emu5.odp=1,"
	       "emu6.rereg=1,emu7.max_mr_size=64K,emu7.max_mw=8",
	       1);
	return 0;
}

/* ---- windows ---- */

static void sub_05_a_window_pins_nothing(void **state)
{
	struct emu_verbs_counts registered;
	struct fid_mr *base, *one;

	(void)state;
	open_domain("emu0", MODES | FI_MR_VIRT_ADDR);
	base = reg_base(memory, MOST, ALL, 0, 0);
	registered = now();
	one = sub(base, memory + 5000, 100, ALL);
	assert_int_equal(now().mrs, registered.mrs);
	assert_int_equal(now().pinned, registered.pinned);
	assert_int_equal(now().mws, registered.mws + 1);
	assert_int_equal(now().bound, registered.bound + 1);
	assert_true(is_window(one));
	assert_false(is_window(base));
	assert_int_equal(about(one).path, HMREG_PATH_HOST);
	assert_int_equal(about(one).len, 100);
	assert_int_equal(about(one).parts, 1);
	assert_int_equal(part_of(one, 0).lkey, part_of(base, 0).lkey);
	assert_int_not_equal(part_of(one, 0).rkey, part_of(base, 0).rkey);
	assert_int_equal(fi_mr_key(one), part_of(one, 0).rkey);
	assert_int_equal(part_of(one, 0).iova, (uintptr_t)memory + 5000);
	assert_ok(fi_close(&one->fid));
	assert_int_equal(now().mws, registered.mws);
	assert_int_equal(now().bound, registered.bound);
	assert_ok(fi_close(&base->fid));
	assert_int_equal(warnings + seconds, 0);
	close_domain();
}

static void sub_01_it_keeps_to_its_range(void **state)
{
	struct fid_mr *base, *one;

	(void)state;
	for (unsigned int mode = 0; mode < 2; mode++) {
		open_domain("emu0", MODES | (mode ? FI_MR_VIRT_ADDR : 0));
		base = reg_base(memory + 10, MOST, ALL, 0, 0);
		one = sub(base, memory + 5000, 100, ALL);
		assert_ok(put(one, 0, 100));
		check_written(5000, 100);
		assert_ok(get(one, 99, 1));
		assert_int_not_equal(put(one, 1, 100), 0);
		assert_int_not_equal(put(one, 100, 1), 0);
		assert_int_not_equal(put(one, -UINT64_C(1), 1), 0);
		assert_int_not_equal(get(one, 0, 101), 0);
		check_written(0, 0);
		assert_ok(put(base, 0, 1)); /* as before */
		check_written(10, 1);
		assert_ok(fi_close(&one->fid));
		assert_ok(fi_close(&base->fid));
		close_domain();
	}
}

static void sub_01_it_has_rights_of_its_own(void **state)
{
	struct fid_mr *base, *reader, *writer, *local;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, FI_RECV, 0, 0);
	assert_int_not_equal(get(base, 0, 8), 0);
	reader = sub(base, memory, 64, FI_REMOTE_READ);
	writer = sub(base, memory, 64, FI_REMOTE_WRITE);
	local = sub(base, memory, 64, FI_SEND | FI_RECV);
	assert_true(is_window(reader) && is_window(writer) && is_window(local));
	assert_ok(get(reader, 0, 8));
	assert_int_not_equal(put(reader, 0, 8), 0);
	check_written(0, 0);
	assert_ok(put(writer, 0, 8));
	check_written(0, 8);
	assert_int_not_equal(get(writer, 0, 8), 0);
	assert_int_not_equal(get(local, 0, 8), 0);
	assert_int_not_equal(put(local, 0, 8), 0);
	assert_ok(fi_close(&local->fid));
	assert_ok(fi_close(&writer->fid));
	assert_ok(fi_close(&reader->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

static void sub_06_its_key_is_dead_at_once(void **state)
{
	struct hmreg_verbs_part part;
	struct fid_mr *base, *one, *other;

	(void)state;
	for (size_t ready = 0; ready < 3; ready++) {
		open_domain("emu0", MODES);
		base = reg_base(memory, MOST, ALL, 0, ready);
		other = sub(base, memory, 100, ALL);
		for (unsigned int i = 0; i < 10; i++) {
			one = sub(base, memory + 100, 100, ALL);
			part = part_of(one, 0);
			assert_ok(access_at(IBV_WR_RDMA_WRITE, part.rkey, part.iova, 1));
			assert_ok(fi_close(&one->fid));
			assert_int_not_equal(access_at(IBV_WR_RDMA_WRITE, part.rkey, part.iova, 1),
					     0);
			assert_ok(put(other, 0, 100));
			assert_ok(put(base, 0, 100));
		}
		assert_ok(fi_close(&other->fid));
		assert_ok(fi_close(&base->fid));
		close_domain();
	}
}

static void sub_03_a_base_with_sub_mrs_is_busy(void **state)
{
	struct fid_mr *base, *one;
	struct emu_verbs_counts counts;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, ALL, 0, 0);
	one = sub(base, memory, 100, ALL);
	counts = now();
	for (unsigned int i = 0; i < 3; i++)
		assert_refused(fi_close(&base->fid), -FI_EBUSY);
	assert_refused(fi_close(&domain->fid), -FI_EBUSY);
	assert_int_equal(now().mrs, counts.mrs);
	assert_int_equal(now().bound, counts.bound);
	assert_ok(put(one, 0, 100));
	assert_ok(put(base, 0, 100));
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

static void sub_04_windows_of_windows(void **state)
{
	struct fid_mr *mr[6];
	struct emu_verbs_counts registered;

	(void)state;
	open_domain("emu0", MODES);
	mr[0] = reg_base(memory, MOST, ALL, 0, 0);
	registered = now();
	for (size_t i = 1; i < 6; i++) {
		mr[i] = sub(mr[i - 1], memory + i * 10, 1000 - i * 20, ALL);
		assert_true(is_window(mr[i]));
		assert_int_equal(part_of(mr[i], 0).lkey, part_of(mr[0], 0).lkey);
	}
	assert_int_equal(now().pinned, registered.pinned);
	assert_ok(put(mr[5], 0, 900));
	check_written(50, 900);
	assert_int_not_equal(put(mr[5], 900, 1), 0);
	for (size_t i = 0; i < 5; i++)
		assert_refused(fi_close(&mr[i]->fid), -FI_EBUSY);
	for (size_t i = 6; i-- > 0;)
		assert_ok(fi_close(&mr[i]->fid));
	close_domain();
}

/* ---- keys ---- */

static void sub_05_interior_of_the_key(void **state)
{
	static const struct {
		uint64_t offset;
		bool composite;
	} cases[] = {
		{ 0, false },
		{ 100, false },
		{ 70000, false },
		{ 1u << 30, false },
		{ INT32_MAX - 100u, false },
		{ INT32_MAX, false },
		{ 1u << 31, true },
		{ UINT64_C(5) << 30, true },
	};
	const size_t size = (size_t)6 << 30;
	uint8_t *huge = mmap(NULL, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct fid_mr *base;

	(void)state;
	assert_true(huge != MAP_FAILED);
	open_domain("emu0", MODES);
	base = reg_base(huge, size, ALL, 0, 0);
	for (size_t i = 0; i < count_of(cases); i++) {
		struct fid_mr *one = sub(base, huge + cases[i].offset, 8, ALL);
		uint64_t key = fi_mr_key(one);

		assert_true(is_window(one));
		assert_int_equal(about(one).parts, 1);
		assert_int_equal(!!(key & VERBS_KEY_COMPOSITE), cases[i].composite);
		assert_int_equal(part_of(one, 0).iova, cases[i].offset);
		/* a peer that addresses from 0 gets there */
		if (!cases[i].composite)
			assert_ok(access_at(IBV_WR_RDMA_WRITE, VERBS_KEY_RKEY(key),
					    VERBS_KEY_INTERIOR(key), 8));
		else
			assert_ok(put(one, 0, 8));
		assert_int_equal(huge[cases[i].offset], 0xab);
		assert_int_equal(huge[cases[i].offset + 8], 0);
		assert_ok(fi_close(&one->fid));
	}
	assert_ok(fi_close(&base->fid));
	munmap(huge, size);
	close_domain();
}

static void sub_05_several_parts(void **state)
{
	struct emu_verbs_counts registered;
	struct fid_mr *base, *one, *inner;

	(void)state;
	for (unsigned int mode = 0; mode < 2; mode++) {
		open_domain("emu7", MODES | (mode ? FI_MR_VIRT_ADDR : 0));
		base = reg_base(memory, 3 * MOST, ALL, 0, 0);
		assert_int_equal(about(base).parts, 3);
		registered = now();
		one = sub(base, memory + MOST - 50, MOST + 100, ALL);
		assert_true(is_window(one));
		assert_int_equal(about(one).parts, 3);
		assert_true(fi_mr_key(one) & VERBS_KEY_COMPOSITE);
		assert_int_equal(part_of(one, 1).len, MOST);
		assert_int_equal(part_of(one, 2).offset, MOST + 50);
		assert_int_equal(part_of(one, 2).lkey, part_of(base, 2).lkey);
		assert_int_equal(now().pinned, registered.pinned);
		assert_int_equal(now().bound, registered.bound + 3);
		assert_ok(put(one, 0, 50));
		check_written(MOST - 50, 50);
		assert_int_not_equal(put(one, 50, 1), 0);
		inner = sub(one, memory + MOST, 10, ALL); /* begins where a part does */
		assert_int_equal(about(inner).parts, 1);
		assert_ok(put(inner, 0, 10));
		check_written(MOST, 10);
		assert_ok(fi_close(&inner->fid));
		assert_ok(fi_close(&one->fid));
		assert_int_equal(now().mws, registered.mws);
		assert_ok(fi_close(&base->fid));
		close_domain();
	}
}

/* ---- windows that are made before they are wanted ---- */

static void sub_05_announced_windows_are_ready(void **state)
{
	struct emu_verbs_counts empty;
	struct fid_mr *base, *one[5];
	long made;

	(void)state;
	open_domain("emu0", MODES);
	empty = now();
	base = reg_base(memory, MOST, ALL, 0, 3);
	assert_int_equal(now().mws, empty.mws + 3);
	assert_int_equal(now().bound, empty.bound);
	made = emu_verbs_calls("ibv_alloc_mw");
	for (unsigned int round = 0; round < 300; round++) {
		for (size_t i = 0; i < 3; i++)
			one[i] = sub(base, memory + i * 100, 100, ALL);
		assert_int_equal(now().mws, empty.mws + 3);
		assert_int_equal(now().bound, empty.bound + 3);
		for (size_t i = 0; i < 3; i++)
			assert_ok(fi_close(&one[i]->fid));
		assert_int_equal(now().bound, empty.bound);
	}
	assert_int_equal(emu_verbs_calls("ibv_alloc_mw"), made);
	for (size_t i = 0; i < 5; i++) /* the hint is no limit */
		one[i] = sub(base, memory + i * 100, 100, ALL);
	assert_int_equal(now().mws, empty.mws + 5);
	for (size_t i = 0; i < 5; i++)
		assert_ok(fi_close(&one[i]->fid));
	assert_int_equal(now().mws, empty.mws + 3);
	assert_ok(fi_close(&base->fid));
	assert_int_equal(now().mws, empty.mws);
	base = reg_base(memory, MOST, ALL, 0, SIZE_MAX); /* as many as are sensible */
	assert_true(now().mws > empty.mws && now().mws <= empty.mws + 65536);
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* ---- second registrations ---- */

/* A sub-MR that is no window, and works all the same; the reason is told the first time. */
static void check_second(struct fid_mr *base, uint64_t access, uint64_t flags, const char *why,
			 bool pins)
{
	struct emu_verbs_counts registered = now();
	struct fid_mr *one[3];

	for (size_t i = 0; i < 3; i++) {
		assert_ok(try_sub(base, memory + 100, 100, access, flags, &one[i]));
		assert_false(is_window(one[i]));
	}
	assert_int_equal(now().mrs, registered.mrs + 3);
	assert_int_equal(now().mws, registered.mws);
	assert_int_equal(now().pinned, registered.pinned + (pins ? 3 * PAGE : 0));
	assert_int_equal(seconds, 1);
	if (!strstr(last_second, why))
		fail_msg("\"%s\" is not in: %s", why, last_second);
	assert_ok(get(one[0], 0, 100));
	assert_int_not_equal(get(one[0], 0, 101), 0);
	assert_refused(fi_close(&base->fid), -FI_EBUSY);
	for (size_t i = 0; i < 3; i++)
		assert_ok(fi_close(&one[i]->fid));
	assert_int_equal(now().mrs, registered.mrs);
	seconds = 0;
}

static void sub_05_devices_without_windows(void **state)
{
	static const char *const device[][2] = {
		{ "emu1", "no memory windows" },
		{ "emu2", "type 2 alone" },
		{ "emu3", "beyond a window's end: the device does not refuse it" },
	};
	struct hmreg_device about_it = { .size = sizeof(about_it) };
	struct hmreg_fabric_ops *ops;
	struct fid_mr *base;

	(void)state;
	for (size_t i = 0; i < count_of(device); i++) {
		open_domain(device[i][0], MODES);
		assert_ok(fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL));
		assert_ok(ops->device(&fabric->fid, info, &about_it));
		assert_false(about_it.can & HMREG_CAN_WINDOWS);
		assert_non_null(strstr(about_it.windows_reason, device[i][1]));
		base = reg_base(memory, MOST, ALL, 0, 5);
		check_second(base, ALL, 0, device[i][1], true);
		assert_ok(fi_close(&base->fid));
		close_domain();
	}
	open_domain("emu0", MODES);
	assert_ok(fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->device(&fabric->fid, info, &about_it));
	assert_true(about_it.can & HMREG_CAN_WINDOWS);
	assert_false(about_it.can & HMREG_CAN_DMABUF_WINDOWS);
	assert_string_equal(about_it.windows_reason, "");
	close_domain();
}

static void sub_05_bases_without_windows(void **state)
{
	struct fid_mr *base;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, FI_SEND | FI_REMOTE_READ, 0, 0);
	check_second(base, ALL, 0, "no right that writes", true);
	assert_ok(fi_close(&base->fid));
	base = reg_base(memory, MOST, ALL, HMREG_MR_RELAXED_ORDERING, 0);
	check_second(base, ALL, 0, "ordered relaxed", true);
	assert_ok(fi_close(&base->fid));
	close_domain();
	open_domain("emu5", MODES & ~FI_MR_ALLOCATED);
	base = reg_base(memory, MOST, ALL, 0, 0);
	check_second(base, ALL, 0, "on demand", false);
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* Ordering that is asked for and not there is strict, which is right; where it is there it is shared. */
static void sub_05_relaxed_ordering(void **state)
{
	struct fid_mr *base, *one;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, ALL, HMREG_MR_RELAXED_ORDERING, 0);
	assert_ok(try_sub(base, memory, 8, ALL, HMREG_MR_RELAXED_ORDERING, &one));
	assert_true(is_window(one));
	assert_true(about(one).state & HMREG_REGION_RELAXED);
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	base = reg_base(memory, MOST, ALL, 0, 0);
	assert_ok(try_sub(base, memory, 8, ALL, HMREG_MR_RELAXED_ORDERING, &one));
	assert_true(is_window(one));
	assert_false(about(one).state & HMREG_REGION_RELAXED);
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* Memory that is only readable registers as ever, and gives no sub-MR that writes. */
static void sub_01_reg_02_read_only_memory(void **state)
{
	uint8_t *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct fid_mr *base, *one;

	(void)state;
	assert_true(page != MAP_FAILED);
	open_domain("emu0", MODES);
	base = reg_base(page, PAGE, FI_SEND | FI_REMOTE_READ, 0, 0);
	assert_refused(try_sub(base, page, 8, FI_REMOTE_WRITE, 0, &one), -FI_EACCES);
	assert_ok(try_sub(base, page, 8, FI_REMOTE_READ, 0, &one));
	assert_ok(get(one, 0, 8));
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	munmap(page, PAGE);
	close_domain();
}

/* ---- dma-bufs ---- */

static int make_dmabuf(void)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, MOST));
	return fd;
}

static struct fid_mr *reg_dmabuf(int fd, size_t subs)
{
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .offset = PAGE, .len = 4 * PAGE };
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .access = ALL, .sub_mr_cnt = subs };
	struct fid_mr *mr;

	assert_ok(fi_mr_regattr(domain, &attr, FI_MR_DMABUF, &mr));
	return mr;
}

/* Byte 0 of this sub-MR is this one of the dma-buf. */
static void check_dmabuf(struct fid_mr *mr, int fd, off_t at)
{
	uint8_t byte = 0;

	assert_ok(put(mr, 0, 1));
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	assert_int_equal(byte, 0xab);
	byte = 0;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static void sub_05_fn_03_dmabufs_are_found_again(void **state)
{
	int fd = make_dmabuf(), ours = dup(fd), other;
	uint8_t *addr = (uint8_t *)(uintptr_t)(PAGE + 100);
	struct fid_mr *base, *one, *inner;
	size_t fds;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_dmabuf(fd, 0);
	assert_int_equal(test_fds(), fds_before + 2); /* the context has one, and its events */
	fds = test_fds();
	one = sub(base, addr, 2 * PAGE, ALL);
	assert_false(is_window(one));
	assert_int_equal(about(one).path, HMREG_PATH_DMABUF);
	assert_int_equal(now().dmabufs, before.dmabufs + 2);
	inner = sub(one, addr + 1000, 5, ALL);
	check_dmabuf(one, ours, PAGE + 100);
	check_dmabuf(inner, ours, PAGE + 1100);
	assert_int_not_equal(put(inner, 0, 6), 0);
	assert_int_equal(test_fds(), fds);
	assert_int_equal(seconds, 1);
	assert_ok(fi_close(&inner->fid));
	/* closed, and its number another file's */
	close(fd);
	assert_refused(try_sub(base, addr, 10, ALL, 0, &inner), -FI_EOPNOTSUPP);
	other = make_dmabuf();
	assert_int_equal(other, fd);
	assert_refused(try_sub(base, addr, 10, ALL, 0, &inner), -FI_EOPNOTSUPP);
	check_dmabuf(one, ours, PAGE + 100);
	close(other);
	fds_before--; /* fd was open then */
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
	close(ours);
}

static void sub_05_announced_dmabufs_are_kept(void **state)
{
	uint8_t *addr = (uint8_t *)(uintptr_t)(PAGE + 100);
	struct fid_mr *base, *one;
	int fd, ours;
	size_t fds;

	(void)state;
	open_domain("emu0", MODES);
	fds = test_fds();
	fd = make_dmabuf();
	ours = dup(fd);
	base = reg_dmabuf(fd, 1);
	close(fd);
	one = sub(base, addr, 10, ALL);
	check_dmabuf(one, ours, PAGE + 100);
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close(ours);
	assert_int_equal(test_fds(), fds);
	close_domain();
}

static void sub_05_windows_of_dmabufs(void **state)
{
	uint8_t *addr = (uint8_t *)(uintptr_t)(PAGE + 100);
	int fd = make_dmabuf(), ours = dup(fd);
	struct emu_verbs_counts registered;
	struct fid_mr *base, *one;

	(void)state;
	open_domain("emu4", MODES);
	base = reg_dmabuf(fd, 0);
	close(fd);
	registered = now();
	one = sub(base, addr, 10, ALL);
	assert_true(is_window(one));
	assert_int_equal(about(one).path, HMREG_PATH_DMABUF);
	assert_int_equal(now().mrs, registered.mrs);
	check_dmabuf(one, ours, PAGE + 100);
	assert_int_not_equal(put(one, 0, 11), 0);
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	assert_int_equal(seconds, 0);
	fds_before--; /* fd was open then */
	close_domain();
	close(ours);
}

/* ---- refresh ---- */

static void sub_05_api_15_pages_are_the_base_s(void **state)
{
	struct fid_mr *base, *one;

	(void)state;
	open_domain("emu6", MODES | FI_MR_VIRT_ADDR);
	base = reg_base(memory, MOST, ALL, 0, 0);
	one = sub(base, memory, 100, ALL);
	assert_refused(fi_mr_refresh(one, NULL, 0, 0), -FI_ENOSYS);
	assert_refused(fi_mr_refresh(base, NULL, 0, 0), -FI_EBUSY);
	assert_ok(put(one, 0, 100));
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_mr_refresh(base, NULL, 0, 0));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(sub_05_a_window_pins_nothing),
		CASE(sub_01_it_keeps_to_its_range),
		CASE(sub_01_it_has_rights_of_its_own),
		CASE(sub_06_its_key_is_dead_at_once),
		CASE(sub_03_a_base_with_sub_mrs_is_busy),
		CASE(sub_04_windows_of_windows),
		CASE(sub_05_interior_of_the_key),
		CASE(sub_05_several_parts),
		CASE(sub_05_announced_windows_are_ready),
		CASE(sub_05_devices_without_windows),
		CASE(sub_05_bases_without_windows),
		CASE(sub_05_relaxed_ordering),
		CASE(sub_01_reg_02_read_only_memory),
		CASE(sub_05_fn_03_dmabufs_are_found_again),
		CASE(sub_05_announced_dmabufs_are_kept),
		CASE(sub_05_windows_of_dmabufs),
		CASE(sub_05_api_15_pages_are_the_base_s),
	};

	return cmocka_run_group_tests_name("verbs_window", tests, open_group, NULL);
}
