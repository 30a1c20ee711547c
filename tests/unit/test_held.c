/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts per thread of what is held, and tallies. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/held.h"
#include "tests/unit/alloc_fail.h"

static uint32_t first; /* of a range for all tests */

static void in_thread(void *(*work)(void *), void *context)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, work, context), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *hold_one(void *n)
{
	return hm_hold(*(uint32_t *)n) ? n : NULL;
}

static void *drop_one(void *n)
{
	hm_drop(*(uint32_t *)n);
	return n;
}

static void *drop_many(void *n)
{
	hm_drop(*(uint32_t *)n);
	atomic_fetch_sub(&hm_held_self.count[*(uint32_t *)n], (UINT32_C(1) << 30) - 1);
	return n;
}

static void held_here_let_go_there(void **state)
{
	uint32_t n = first + 5;

	(void)state;
	for (unsigned i = 1; i <= 100; i++) {
		in_thread(hold_one, &n);
		assert_int_equal(hm_held_sum(n), i);
	}
	for (unsigned i = 100; i-- > 0;) {
		hm_drop(n);
		assert_int_equal(hm_held_sum(n), i);
	}
	assert_true(hm_hold(n));
	in_thread(drop_one, &n);
	assert_int_equal(hm_held_sum(n), 0);
	assert_int_equal(hm_held_sum(n + 1), 0);
}

/* A thread that only holds passes every limit of a count, and the sum stays right. */
static void held_counts_wrap(void **state)
{
	uint32_t n = first + 7;
	_Atomic uint32_t *count;

	(void)state;
	assert_true(hm_hold(n));
	count = &hm_held_self.count[n];
	in_thread(drop_one, &n);
	for (unsigned i = 0; i < 4; i++) {
		/* as after 2^30 rounds of holding here and letting go there */
		atomic_fetch_add(count, UINT32_C(1) << 30);
		in_thread(drop_many, &n);
		assert_int_equal(hm_held_sum(n), 0);
		assert_true(hm_hold(n));
		assert_int_equal(hm_held_sum(n), 1);
		in_thread(drop_one, &n);
		assert_int_equal(hm_held_sum(n), 0);
	}
}

static void held_ranges_do_not_overlap(void **state)
{
	uint32_t range[6], again;

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(hm_held_take_range(100 + i * 1000, &range[i]), 0);
		assert_int_equal(range[i] % 16, 0);
		if (i > 0)
			assert_true(range[i] >= range[i - 1] + 100 + (i - 1) * 1000);
	}
	hm_held_give_range(range[3]);
	assert_int_equal(hm_held_take_range(3100, &again), 0);
	assert_int_equal(again, range[3]); /* the gap is used */
	hm_held_give_range(again);
	assert_int_equal(hm_held_take_range(3200, &again), 0);
	assert_true(again > range[5]);
	hm_held_give_range(again);
	for (unsigned i = 0; i < 6; i++)
		if (i != 3)
			hm_held_give_range(range[i]);
}

static void held_ranges_come_to_an_end(void **state)
{
	uint32_t range = 12345, half;

	(void)state;
	assert_int_equal(hm_held_take_range(HM_HELD_NUMBERS + 1, &range), -FI_ENOSPC);
	assert_int_equal(hm_held_take_range(UINT32_MAX, &range), -FI_ENOSPC);
	assert_int_equal(hm_held_take_range(HM_HELD_NUMBERS / 2, &half), 0);
	assert_int_equal(hm_held_take_range(HM_HELD_NUMBERS / 2, &range), -FI_ENOSPC);
	assert_int_equal(range, 12345);
	/* the very last number */
	assert_int_equal(hm_held_take_range(HM_HELD_NUMBERS / 4, &range), 0);
	assert_true(hm_hold(range + HM_HELD_NUMBERS / 4 - 1));
	assert_int_equal(hm_held_sum(range + HM_HELD_NUMBERS / 4 - 1), 1);
	hm_drop(range + HM_HELD_NUMBERS / 4 - 1);
	hm_held_give_range(range);
	hm_held_give_range(half);
}

struct attempt {
	uint32_t n;
	unsigned fails;
	bool held, failed;
	uint64_t sum;
};

/* In a thread that has no counts: holding fails, letting go and tallies do not. */
static void *without_memory(void *context)
{
	struct attempt *a = context;

	alloc_fail_at(a->fails);
	a->held = hm_hold(a->n);
	hm_tally(a->n + 2, 5);
	a->sum = hm_tally_sum(a->n + 2);
	a->failed = alloc_failed();
	if (a->held)
		return NULL;
	alloc_fail_at(1);
	hm_drop(a->n);
	a->failed &= alloc_failed();
	return NULL;
}

static void held_no_memory_is_no_hold(void **state)
{
	struct attempt a = { .n = first + 20, .fails = 1 };
	uint32_t before;

	(void)state;
	assert_true(hm_hold(a.n));
	before = hm_held_sum(a.n);
	in_thread(without_memory, &a);
	assert_true(a.failed);
	assert_false(a.held); /* no thread has ended so far whose array could be taken over */
	assert_int_equal(hm_held_sum(a.n), before - 1);
	assert_int_equal(a.sum, 5);
	assert_true(hm_hold(a.n));
	hm_drop(a.n);
	assert_int_equal(hm_held_sum(a.n), 0);
}

static void *tally_many(void *n)
{
	for (unsigned i = 0; i < 100000; i++)
		hm_tally(*(uint32_t *)n, 3);
	return n;
}

static void tallies_add_up(void **state)
{
	uint32_t n = first + 32;
	uint64_t before = hm_tally_sum(n);
	pthread_t thread[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, tally_many, &n), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	tally_many(&n);
	assert_int_equal(hm_tally_sum(n) - before, 5 * 300000);
	hm_tally(n, UINT64_MAX - 1499999);
	assert_int_equal(hm_tally_sum(n), before);
}

/* ---- the protocol, between a holder and a looker ---- */

static _Atomic int open_; /* may be held */
static _Atomic uint64_t bad, good;
static _Atomic bool stop;
static _Atomic int in_use;
static uint32_t contested;

static void *holder(void *unused)
{
	while (!atomic_load(&stop)) {
		if (!hm_hold(contested))
			abort();
		if (atomic_load_explicit(&open_, memory_order_acquire)) {
			atomic_fetch_add(&in_use, 1);
			atomic_fetch_sub(&in_use, 1);
		}
		hm_drop(contested);
	}
	return unused;
}

static void held_sum_of_0_is_0(void **state)
{
	pthread_t thread[2];

	(void)state;
	contested = first + 40;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, holder, NULL), 0);
	while (atomic_load(&good) < 200) {
		atomic_store(&open_, 1);
		if (atomic_load(&good) % 64 == 0)
			sched_yield();
		atomic_store(&open_, 0);
		assert_true(hm_held_barrier());
		if (hm_held_sum(contested) != 0) {
			sched_yield(); /* who holds may not be running */
			continue;
		}
		atomic_fetch_add(&good, 1);
		if (atomic_load(&in_use) != 0)
			atomic_fetch_add(&bad, 1);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(hm_held_sum(contested), 0);
	assert_int_equal(atomic_load(&bad), 0);
}

static int open_range(void **state)
{
	(void)state;
	return hm_held_take_range(100, &first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(held_no_memory_is_no_hold),
		cmocka_unit_test(held_here_let_go_there),
		cmocka_unit_test(held_counts_wrap),
		cmocka_unit_test(held_ranges_do_not_overlap),
		cmocka_unit_test(held_ranges_come_to_an_end),
		cmocka_unit_test(tallies_add_up),
		cmocka_unit_test(held_sum_of_0_is_0),
	};

	return cmocka_run_group_tests(tests, open_range, NULL);
}
