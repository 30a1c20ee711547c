/* SPDX-License-Identifier: BSD-2-Clause */
/* Sub-MRs by memory windows: each call fails, the device goes, many threads at once. */
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
	       "devices=5,emu4.mw=0,emu4.rereg=1,emu1.max_mr_size=64K,emu1.max_mw=8,emu3.mw_dmabuf="
	       "1",
	       1);
	return 0;
}

/* ---- the making ---- */

/* What fails leaves nothing, and the next one works. */
static void sub_05_each_call_fails_once(void **state)
{
	static const struct {
		const char *call, *text;
		int nth, error, code;
	} cases[] = {
		{ "ibv_alloc_mw", "out of memory, or", 1, ENOMEM, -FI_ENOMEM },
		{ "ibv_alloc_mw", "no memory windows left", 1, ENOSPC, -FI_ENOSPC },
		{ "ibv_alloc_mw", "rdma.max", 1, EAGAIN, -FI_ENOSPC },
		{ "ibv_alloc_mw", "no cause is known", 1, EINVAL, -FI_EINVAL },
		{ "ibv_create_cq", "a completion queue", 1, ENOMEM, -FI_ENOMEM },
		{ "ibv_create_qp", "a queue pair to itself", 1, ENOMEM, -FI_ENOMEM },
		{ "ibv_modify_qp", "connecting", 2, EINVAL, -FI_EINVAL },
		{ "ibv_bind_mw", "ibv_bind_mw: ", 1, ENOMEM, -FI_ENOMEM },
		{ "ibv_poll_cq", "cannot be read", 1, EIO, -FI_EIO },
	};
	struct emu_verbs_counts registered;
	struct fid_mr *base, *one;

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		open_domain("emu0", MODES);
		base = reg_base(memory, MOST, ALL, 0, 0);
		registered = now();
		assert_int_equal(emu_verbs_fail(cases[i].call, cases[i].nth, cases[i].error), 1);
		assert_refused(try_sub(base, memory, 100, ALL, 0, &one), cases[i].code);
		if (!strstr(last_warning, cases[i].text))
			fail_msg("\"%s\" is not in: %s", cases[i].text, last_warning);
		assert_int_equal(now().mrs, registered.mrs);
		assert_int_equal(now().mws, registered.mws);
		assert_int_equal(now().bound, registered.bound);
		one = sub(base, memory, 100, ALL);
		assert_true(is_window(one));
		assert_ok(put(one, 0, 100));
		assert_ok(fi_close(&one->fid));
		assert_ok(fi_close(&base->fid));
		assert_int_equal(seconds, 0);
		close_domain();
	}
}

/* The device says one thing and its driver another: no windows in this domain from now on. */
static void sub_05_binding_is_not_supported_after_all(void **state)
{
	struct emu_verbs_counts registered;
	struct fid_mr *base, *one, *two;
	long binds;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, ALL, 0, 0);
	registered = now();
	emu_verbs_fail("ibv_bind_mw", 1, EOPNOTSUPP);
	one = sub(base, memory, 100, ALL);
	binds = emu_verbs_calls("ibv_bind_mw");
	two = sub(base, memory, 100, ALL);
	assert_int_equal(emu_verbs_calls("ibv_bind_mw"), binds);
	assert_false(is_window(one) || is_window(two));
	assert_int_equal(now().mrs, registered.mrs + 2);
	assert_int_equal(now().mws, registered.mws);
	assert_int_equal(warnings, 0);
	assert_int_equal(seconds, 1);
	assert_non_null(strstr(last_second, "not supported"));
	assert_ok(fi_close(&two->fid));
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* The device holds 8; every part of a sub-MR takes one, and one that finds too few takes none. */
static void sub_05_the_table_of_windows_is_full(void **state)
{
	struct fid_mr *base, *one[8], *more;
	struct emu_verbs_counts full;

	(void)state;
	open_domain("emu1", MODES);
	base = reg_base(memory, 3 * MOST, ALL, 0, 0);
	for (size_t i = 0; i < 6; i++)
		one[i] = sub(base, memory + i, 1, ALL);
	full = now();
	assert_refused(try_sub(base, memory, 3 * MOST, ALL, 0, &more), -FI_ENOSPC);
	assert_int_equal(now().mws, full.mws);
	assert_int_equal(now().bound, full.bound);
	for (size_t i = 6; i < 8; i++)
		one[i] = sub(base, memory + i, 1, ALL);
	assert_refused(try_sub(base, memory, 1, ALL, 0, &more), -FI_ENOSPC);
	assert_non_null(strstr(last_warning, "8 of the 8"));
	for (size_t i = 0; i < 8; i++) {
		assert_ok(put(one[i], 0, 1));
		assert_ok(fi_close(&one[i]->fid));
	}
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* One of several windows cannot be had, and the first not be ended: it ends with the domain, and holds nothing. */
static void sub_05_fn_06_what_was_made_is_not_lost(void **state)
{
	struct fid_mr *base, *one;

	(void)state;
	for (size_t ready = 0; ready < 2; ready++) {
		open_domain("emu1", MODES);
		base = reg_base(memory, 3 * MOST, ALL, 0, ready);
		emu_verbs_fail("ibv_alloc_mw", 3 - (int)ready, ENOMEM);
		emu_verbs_fail("ibv_dealloc_mw", -1, EBUSY);
		warnings = 0;
		assert_int_equal(try_sub(base, memory, 3 * MOST, ALL, 0, &one), -FI_ENOMEM);
		/* why not, and what the driver keeps */
		assert_int_equal(warnings, ready ? 2 : 3);
		assert_int_equal(now().bound, before.bound);
		emu_verbs_fail("ibv_dealloc_mw", 0, 0);
		emu_verbs_fail("ibv_dealloc_mw", 1, EBUSY); /* once more it may */
		assert_int_equal(try_sub(base, memory, 3 * MOST, ALL, 0, &one), 0);
		assert_refused(fi_close(&one->fid), -FI_EBUSY);
		assert_ok(fi_close(&one->fid));
		assert_ok(fi_close(&base->fid));
		close_domain();
	}
}

/* The same of regions. */
static void fn_06_what_was_registered_is_not_lost(void **state)
{
	struct iovec iov = { memory, 3 * MOST };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = ALL };
	struct fid_mr *mr;

	(void)state;
	open_domain("emu1", MODES);
	emu_verbs_fail("ibv_reg_mr_iova2", 3, ENOMEM);
	emu_verbs_fail("ibv_dereg_mr", 1, EBUSY);
	warnings = 0;
	assert_int_equal(fi_mr_regattr(domain, &attr, 0, &mr), -FI_ENOMEM);
	assert_int_equal(warnings, 2);
	close_domain();
}

/* ---- dma-bufs whose sub-MRs are no windows after all ---- */

static struct fid_mr *reg_dmabuf(int fd, uint64_t flags, size_t subs)
{
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .len = MOST, .base_addr = memory };
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .access = ALL, .sub_mr_cnt = subs };
	struct fid_mr *mr;

	assert_ok(fi_mr_regattr(domain, &attr, FI_MR_DMABUF | flags, &mr));
	return mr;
}

static void sub_05_fn_03_dmabufs_without_windows_after_all(void **state)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);
	struct fid_mr *base, *one;

	(void)state;
	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, MOST));
	for (int i = 0; i < 4; i++) {
		uint64_t flags = i & 1 ? HMREG_MR_RELAXED_ORDERING : 0;
		size_t subs = i & 2 ? 1 : 0;
		uint8_t byte = 0;
		int theirs = dup(fd);

		open_domain("emu3", MODES);
		base = reg_dmabuf(theirs, flags, subs);
		if (subs) /* then one is kept */
			close(theirs);
		if (!flags)
			emu_verbs_fail("ibv_bind_mw", 1, EOPNOTSUPP);
		one = sub(base, memory + 100, 10, ALL);
		assert_false(is_window(one));
		assert_int_equal(seconds, 1);
		assert_ok(put(one, 0, 1));
		assert_int_equal(pread(fd, &byte, 1, 100), 1);
		assert_int_equal(byte, 0xab);
		byte = 0;
		assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
		assert_ok(fi_close(&one->fid));
		assert_ok(fi_close(&base->fid));
		if (!subs)
			close(theirs);
		fds_before--; /* theirs was open then */
		close_domain();
	}
	close(fd);
}

/* What is announced leaves windows for others. */
static void sub_05_announced_windows_are_not_all(void **state)
{
	struct fid_mr *base[3], *one[4];

	(void)state;
	open_domain("emu1", MODES); /* which has 8 */
	for (size_t i = 0; i < 3; i++)
		base[i] = reg_base(memory, MOST, ALL, 0, SIZE_MAX);
	assert_int_equal(now().mws, before.mws + 4);
	for (size_t i = 0; i < 4; i++)
		one[i] = sub(base[2], memory, 100, ALL);
	for (size_t i = 0; i < 4; i++)
		assert_ok(fi_close(&one[i]->fid));
	for (size_t i = 0; i < 3; i++)
		assert_ok(fi_close(&base[i]->fid));
	assert_int_equal(warnings, 0);
	close_domain();
}

/* ---- refresh ---- */

/* What has pages of its own does not follow, so that nothing does. */
static void sub_05_api_15_registered_a_second_time(void **state)
{
	struct fid_mr *base, *one, *inner;

	(void)state;
	open_domain("emu4", MODES | FI_MR_VIRT_ADDR);
	base = reg_base(memory, MOST, ALL, 0, 0);
	assert_ok(fi_mr_refresh(base, NULL, 0, 0));
	one = sub(base, memory, 100, ALL);
	inner = sub(one, memory, 50, ALL);
	assert_false(is_window(one) || is_window(inner));
	assert_ok(fi_mr_refresh(inner, NULL, 0, 0));
	assert_refused(fi_mr_refresh(one, NULL, 0, 0), -FI_EBUSY);
	assert_refused(fi_mr_refresh(base, NULL, 0, 0), -FI_EBUSY);
	assert_non_null(strstr(last_warning, "close them first"));
	emu_verbs_fail("ibv_dereg_mr", 1, EBUSY);
	assert_refused(fi_close(&inner->fid), -FI_EBUSY);
	assert_refused(fi_mr_refresh(one, NULL, 0, 0), -FI_EBUSY);
	assert_ok(fi_close(&inner->fid));
	assert_ok(fi_mr_refresh(one, NULL, 0, 0));
	assert_refused(fi_mr_refresh(base, NULL, 0, 0), -FI_EBUSY);
	emu_verbs_fail("ibv_reg_mr_iova2", 1, ENOMEM);
	assert_refused(try_sub(one, memory, 50, ALL, 0, &inner), -FI_ENOMEM);
	assert_ok(fi_mr_refresh(one, NULL, 0, 0));
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_mr_refresh(base, NULL, 0, 0));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* ---- the end ---- */

static void sub_06_a_refused_end_changes_nothing(void **state)
{
	struct fid_mr *base, *one;
	uint64_t key;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, ALL, 0, 0);
	one = sub(base, memory + 100, 100, ALL);
	key = fi_mr_key(one);
	for (unsigned int i = 0; i < 3; i++) {
		emu_verbs_fail("ibv_dealloc_mw", 1, EBUSY);
		assert_refused(fi_close(&one->fid), -FI_EBUSY);
		assert_refused(fi_close(&base->fid), -FI_EBUSY);
		assert_int_equal(fi_mr_key(one), key);
		assert_ok(put(one, 0, 100));
		check_written(100, 100);
	}
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* The others are bound again, under the key that the region has. */
static void sub_06_a_refused_end_of_several_parts(void **state)
{
	struct fid_mr *base, *one;
	uint64_t key;

	(void)state;
	open_domain("emu1", MODES);
	base = reg_base(memory, 3 * MOST, ALL, 0, 0);
	one = sub(base, memory, 3 * MOST, ALL);
	key = fi_mr_key(one);
	for (int nth = 1; nth <= 3; nth++) {
		emu_verbs_fail("ibv_dealloc_mw", nth, EBUSY);
		assert_refused(fi_close(&one->fid), -FI_EBUSY);
		assert_int_equal(fi_mr_key(one), key);
		for (size_t i = 0; i < 3; i++) {
			struct hmreg_verbs_part part = part_of(one, i);

			assert_ok(access_at(IBV_WR_RDMA_WRITE, part.rkey, part.iova, 8));
			check_written(i * MOST, 8);
		}
	}
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* As many windows are ready as may be: one more is ended, or stays as it is. */
static void sub_06_a_refused_end_beside_a_full_pool(void **state)
{
	struct fid_mr *base, *one, *two;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, ALL, 0, 1);
	one = sub(base, memory, 100, ALL);
	two = sub(base, memory, 100, ALL);
	assert_ok(fi_close(&two->fid));
	for (unsigned int i = 0; i < 2; i++) {
		struct hmreg_verbs_part part = part_of(one, 0);

		emu_verbs_fail("ibv_dealloc_mw", 1, EBUSY);
		assert_refused(fi_close(&one->fid), -FI_EBUSY);
		assert_int_equal(part_of(one, 0).rkey, part.rkey);
		assert_ok(put(one, 0, 100));
		check_written(0, 100);
	}
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* A window that does not go back to the others is ended. */
static void sub_06_unbinding_fails(void **state)
{
	struct emu_verbs_counts registered;
	struct hmreg_verbs_part part;
	struct fid_mr *base, *one;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, ALL, 0, 2);
	registered = now();
	one = sub(base, memory, 100, ALL);
	part = part_of(one, 0);
	emu_verbs_fail("ibv_bind_mw", 1, EIO);
	assert_ok(fi_close(&one->fid));
	assert_int_equal(now().mws, registered.mws - 1);
	assert_int_equal(now().bound, registered.bound);
	assert_int_not_equal(access_at(IBV_WR_RDMA_WRITE, part.rkey, part.iova, 1), 0);
	one = sub(base, memory, 100, ALL);
	emu_verbs_fail("ibv_bind_mw", 1, EIO);
	emu_verbs_fail("ibv_dealloc_mw", 1, EBUSY);
	assert_refused(fi_close(&one->fid), -FI_EBUSY);
	assert_ok(put(one, 0, 100));
	assert_ok(fi_close(&one->fid));
	assert_ok(fi_close(&base->fid));
	close_domain();
}

/* A window of the pool that stays with the driver ends with the domain. */
static void fn_06_a_pool_that_is_kept(void **state)
{
	struct fid_mr *base;

	(void)state;
	open_domain("emu0", MODES);
	base = reg_base(memory, MOST, ALL, 0, 2);
	emu_verbs_fail("ibv_dealloc_mw", 1, EBUSY);
	assert_refused(fi_close(&base->fid), 0); /* the line is the driver's */
	close_domain();
}

/* ---- the device goes ---- */

static void fn_38_the_device_goes(void **state)
{
	struct fid_mr *base, *one, *two, *more;

	(void)state;
	for (size_t ready = 0; ready < 3; ready++) {
		open_domain("emu2", MODES);
		base = reg_base(memory, MOST, ALL, 0, ready);
		one = sub(base, memory, 100, ALL);
		two = sub(one, memory, 10, ALL);
		assert_ok(emu_verbs_remove_device("emu2"));
		warnings = 0;
		assert_int_equal(try_sub(base, memory, 100, ALL, 0, &more), -FI_ENODEV);
		assert_int_equal(warnings, 2); /* that it is gone, and what did not work */
		assert_true(about(two).state & HMREG_REGION_REVOKED);
		assert_ok(fi_close(&two->fid));
		assert_ok(fi_close(&one->fid));
		assert_ok(fi_close(&base->fid));
		assert_ok(fi_close(&domain->fid));
		assert_ok(fi_close(&fabric->fid));
		fi_freeinfo(info);
		emu_verbs_reset();
	}
}

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS	300

static struct fid_mr *shared;

static void *churn(void *arg)
{
	uint8_t *mine = arg;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct fid_mr *a, *b;

		if (try_sub(shared, mine, 100, ALL, 0, &a) != 0 ||
		    try_sub(a, mine + 10, 10, FI_REMOTE_READ, 0, &b) != 0 ||
		    fi_close(&b->fid) != 0 || fi_close(&a->fid) != 0)
			return arg;
	}
	return NULL;
}

static void sub_06_windows_come_and_go_on_many_threads(void **state)
{
	pthread_t thread[THREADS];

	(void)state;
	for (size_t ready = 0; ready < 2; ready++) {
		open_domain("emu0", MODES);
		shared = reg_base(memory, MOST, ALL, 0, ready * THREADS / 2);
		for (size_t i = 0; i < THREADS; i++)
			assert_ok(pthread_create(&thread[i], NULL, churn, memory + i * PAGE));
		for (size_t i = 0; i < THREADS; i++) {
			void *failed;

			assert_ok(pthread_join(thread[i], &failed));
			assert_null(failed);
		}
		assert_int_equal(now().bound, before.bound);
		assert_ok(fi_close(&shared->fid));
		assert_int_equal(warnings, 0);
		close_domain();
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(sub_05_each_call_fails_once),
		CASE(sub_05_binding_is_not_supported_after_all),
		CASE(sub_05_the_table_of_windows_is_full),
		CASE(sub_05_fn_06_what_was_made_is_not_lost),
		CASE(fn_06_what_was_registered_is_not_lost),
		CASE(sub_05_fn_03_dmabufs_without_windows_after_all),
		CASE(sub_05_announced_windows_are_not_all),
		CASE(sub_05_api_15_registered_a_second_time),
		CASE(sub_06_a_refused_end_changes_nothing),
		CASE(sub_06_a_refused_end_of_several_parts),
		CASE(sub_06_a_refused_end_beside_a_full_pool),
		CASE(sub_06_unbinding_fails),
		CASE(fn_06_a_pool_that_is_kept),
		CASE(fn_38_the_device_goes),
		CASE(sub_06_windows_come_and_go_on_many_threads),
	};

	return cmocka_run_group_tests_name("verbs_window_fails", tests, open_group, NULL);
}
