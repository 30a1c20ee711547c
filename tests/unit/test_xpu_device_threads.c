/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of a device that share an object, or make a call together.  What goes from one thread to another beside the
 * words that order it is written and read plainly, so that the thread sanitizer sees what is not ordered.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#define THREADS 4u
#define ROUNDS	2000u

/* A scope of every kind is all the threads of a test that calls with it. */
static __thread unsigned rank;
static pthread_barrier_t barrier;
static long long shared;

static void meet(void)
{
	pthread_barrier_wait(&barrier);
}

static long long share(long long value)
{
	if (rank == 0)
		shared = value;
	meet();
	value = shared;
	meet();
	return value;
}

#define HMREG_XPU_RANK(scope)	      ((void)(scope), rank)
#define HMREG_XPU_SYNC(scope)	      ((void)(scope), meet())
#define HMREG_XPU_SHARE(scope, value) ((void)(scope), share(value))

#include "tests/unit/xpu_side.h"

static struct side side;

static int set_up(void **state)
{
	(void)state;
	side_init(&side, 0);
	return 0;
}

/* cmocka's checks are for the main thread: the others count what is wrong. */
static unsigned wrong;

static void check(int ok, const char *what)
{
	if (ok)
		return;
	if (!__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "thread %u: not so: %s\n", rank, what);
}

#define CHECK(what) check(!!(what), #what)

struct worker {
	unsigned rank;
	void (*work)(void);
	pthread_t thread;
};

static void *run(void *arg)
{
	const struct worker *worker = arg;

	rank = worker->rank;
	worker->work();
	return NULL;
}

/* Threads that do work, and the host's part meanwhile in this one. */
static void with_threads(void (*work)(void), void (*host)(void))
{
	struct worker worker[THREADS];

	wrong = 0;
	assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){ .rank = i, .work = work };
		assert_int_equal(pthread_create(&worker[i].thread, NULL, run, &worker[i]), 0);
	}
	if (host)
		host();
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(worker[i].thread, NULL), 0);
	pthread_barrier_destroy(&barrier);
	assert_int_equal(wrong, 0);
}

/* ---- threads that know nothing of each other ---- */

static uint64_t payload[THREADS * ROUNDS];

static void post_each(void)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t *buf = &payload[rank * ROUNDS + i];
		int ret;

		*buf = ~i;
		do {
			ret = fi_xpu_write(&side.xpu_ep, buf, rank, NULL, i, NULL, 0, 0, NULL, 0,
					   FI_XPU_WORK_ITEM);
			if (ret == -FI_EAGAIN)
				sched_yield();
		} while (ret == -FI_EAGAIN);
		CHECK(ret == 0);
	}
}

/* Each request once, a thread's own in its order, and with what was written before it. */
static void take_each(void)
{
	uint64_t next[THREADS] = { 0 };

	for (unsigned n = 0; n < THREADS * ROUNDS; n++) {
		struct hmreg_xpu_wr wr;

		while (!side_take(&side, &wr))
			sched_yield();
		assert_true(wr.len < THREADS);
		assert_int_equal(wr.data, next[wr.len]++);
		assert_int_equal(*(const uint64_t *)(uintptr_t)wr.buf, ~wr.data);
	}
}

static void xpu_10_threads_post_to_one_ring(void **state)
{
	struct hmreg_xpu_wr wr;

	(void)state;
	with_threads(post_each, take_each);
	assert_false(side_take(&side, &wr));
	assert_int_equal(side.ep_own.next, THREADS * ROUNDS);
}

static unsigned char seen[THREADS * ROUNDS];
static uint64_t read_in_all;

static int fails(uint64_t n)
{
	return n % 7 == 3 ? FI_EIO : 0;
}

static void saw(uint64_t n, int err)
{
	CHECK(n < THREADS * ROUNDS);
	CHECK(err == fails(n));
	CHECK(payload[n] == ~n);
	CHECK(!seen[n]++);
	__atomic_fetch_add(&read_in_all, 1, __ATOMIC_RELAXED);
}

static void read_each(void)
{
	struct hmreg_xpu_addr from[3];
	struct fi_cq_data_entry entry[3];
	struct fi_cq_err_entry error = { 0 };

	while (__atomic_load_n(&read_in_all, __ATOMIC_RELAXED) < THREADS * ROUNDS) {
		int64_t n = fi_xpu_cq_readfrom(&side.xpu_cq, entry, 1 + rank % 3, from,
					       FI_XPU_WORK_ITEM);

		for (int64_t i = 0; i < n; i++) {
			CHECK(from[i].addr == (uintptr_t)entry[i].op_context + 5);
			CHECK(entry[i].data == (uintptr_t)entry[i].op_context + 4);
			saw((uintptr_t)entry[i].op_context, 0);
		}
		if (n == -FI_EAVAIL && fi_xpu_cq_readerr(&side.xpu_cq, &error, 0, 0) == 1)
			saw((uintptr_t)error.op_context, error.err);
		else if (n < 0)
			sched_yield();
	}
}

static void put_each(void)
{
	for (uint64_t n = 0; n < THREADS * ROUNDS; n++) {
		payload[n] = ~n;
		while (!side_put(&side, n, fails(n)))
			sched_yield();
	}
}

/* Each completion once, with what the host had seen before it. */
static void xpu_11_threads_read_one_queue(void **state)
{
	(void)state;
	memset(seen, 0, sizeof(seen));
	read_in_all = 0;
	with_threads(read_each, put_each);
	assert_int_equal(read_in_all, THREADS * ROUNDS);
}

static void wait_in_turn(void)
{
	for (uint64_t i = 0; i < ROUNDS / 10; i++) {
		fi_xpu_cntr_wait(&side.xpu_cntr, i * (THREADS + 1) + 1, -1, FI_XPU_WORK_ITEM);
		CHECK(payload[i] == ~i);
		CHECK(fi_xpu_cntr_add(&side.xpu_cntr, 1, FI_XPU_WORK_ITEM) == 0);
	}
}

static void count_in_turn(void)
{
	for (uint64_t i = 0; i < ROUNDS / 10; i++) {
		while (fi_xpu_cntr_read(&side.xpu_cntr, FI_XPU_WORK_ITEM) < i * (THREADS + 1))
			sched_yield();
		payload[i] = ~i;
		__atomic_fetch_add(&side.cntr.value, 1, __ATOMIC_RELEASE);
	}
}

static void xpu_11_threads_wait_for_one_counter(void **state)
{
	(void)state;
	with_threads(wait_in_turn, count_in_turn);
	assert_int_equal(fi_xpu_cntr_read(&side.xpu_cntr, 0), ROUNDS / 10 * (THREADS + 1));
}

/* A counter that the device's threads count for each other, and no host. */
static void count_for_the_next(void)
{
	for (uint64_t i = 0; i < ROUNDS / 10; i++) {
		uint64_t turn = i * THREADS + rank;

		fi_xpu_cntr_wait(&side.xpu_cntr, turn, -1, FI_XPU_WORK_ITEM);
		CHECK(payload[0] == turn);
		payload[0] = turn + 1;
		if (i % 2)
			CHECK(fi_xpu_cntr_add(&side.xpu_cntr, 1, FI_XPU_WORK_ITEM) == 0);
		else
			CHECK(fi_xpu_cntr_set(&side.xpu_cntr, turn + 1, FI_XPU_WORK_ITEM) == 0);
	}
}

static void xpu_11_threads_count_for_each_other(void **state)
{
	(void)state;
	payload[0] = 0;
	with_threads(count_for_the_next, NULL);
	assert_int_equal(payload[0], ROUNDS / 10 * THREADS);
}

/* ---- threads that make a call together ---- */

static const int scopes[] = { FI_XPU_SUBGROUP, FI_XPU_WORK_GROUP, FI_XPU_DEVICE };
#define SCOPED 200u

/* Each thread writes its part of a message; then all post it; the ring is full now and then. */
static void post_together(void)
{
	for (unsigned i = 0; i < SCOPED; i++) {
		int scope = scopes[i % 3], ret;

		payload[i * THREADS + rank] = i;
		do {
			ret = fi_xpu_send(&side.xpu_ep, &payload[i * THREADS], THREADS, NULL, i,
					  NULL, NULL, 0, scope);
			if (ret == -FI_EAGAIN)
				sched_yield();
		} while (ret == -FI_EAGAIN);
		CHECK(ret == 0);
	}
}

static void take_messages(void)
{
	for (unsigned i = 0; i < SCOPED; i++) {
		struct hmreg_xpu_wr wr;

		while (!side_take(&side, &wr))
			sched_yield();
		assert_int_equal(wr.data, i);
		for (unsigned j = 0; j < THREADS; j++)
			assert_int_equal(((const uint64_t *)(uintptr_t)wr.buf)[j], i);
	}
}

static void xpu_09_one_request_of_all_threads(void **state)
{
	struct hmreg_xpu_wr wr;

	(void)state;
	with_threads(post_together, take_messages);
	assert_false(side_take(&side, &wr));
}

/* The buffers that a read fills are one for all threads of a scope. */
static struct fi_cq_data_entry entries[SIDE_SLOTS];
static struct fi_cq_err_entry error_entry;

static void read_together(void)
{
	for (uint64_t i = 0; i < SCOPED; i++) {
		int scope = scopes[i % 3];
		int64_t n = fi_xpu_cq_sread(&side.xpu_cq, entries, 1, 1, scope);

		if (fails(i)) {
			CHECK(n == -FI_EAVAIL);
			CHECK(fi_xpu_cq_readerr(&side.xpu_cq, &error_entry, 0, scope) == 1);
			CHECK(error_entry.err == FI_EIO);
			CHECK((uintptr_t)error_entry.op_context == i);
		} else {
			CHECK(n == 1);
			CHECK((uintptr_t)entries[0].op_context == i);
		}
		CHECK(payload[i] == ~i);
	}
	CHECK(fi_xpu_cq_read(&side.xpu_cq, entries, 1, FI_XPU_DEVICE) == -FI_EAGAIN);
}

static void put_some(void)
{
	for (uint64_t n = 0; n < SCOPED; n++) {
		payload[n] = ~n;
		while (!side_put(&side, n, fails(n)))
			sched_yield();
	}
}

static void xpu_09_one_read_of_all_threads(void **state)
{
	(void)state;
	with_threads(read_together, put_some);
}

static void count_together(void)
{
	struct fid_xpu_cntr *cntr = &side.xpu_cntr;

	for (unsigned i = 0; i < 3; i++) {
		CHECK(fi_xpu_cntr_set(cntr, 10, scopes[i]) == 0);
		CHECK(fi_xpu_cntr_add(cntr, 5, scopes[i]) == 0);
		fi_xpu_cntr_wait(cntr, 15, -1, scopes[i]);
		CHECK(fi_xpu_cntr_read(cntr, scopes[i]) == 15);
		CHECK(fi_xpu_cntr_seterr(cntr, UINT64_MAX, scopes[i]) == 0);
		CHECK(fi_xpu_cntr_adderr(cntr, UINT64_MAX, scopes[i]) == 0);
		CHECK(fi_xpu_cntr_readerr(cntr, scopes[i]) == UINT64_MAX - 1);
		fi_xpu_cntr_wait(cntr, 16, 1, scopes[i]);
	}
}

static void xpu_09_one_change_of_a_counter(void **state)
{
	(void)state;
	with_threads(count_together, NULL);
}

/* No scope of fi_xpu_device.h: each thread by itself. */
static void post_alone(void)
{
	CHECK(fi_xpu_send(&side.xpu_ep, NULL, 0, NULL, 0, NULL, NULL, 0, -1) == 0);
	CHECK(fi_xpu_send(&side.xpu_ep, NULL, 0, NULL, 0, NULL, NULL, 0, 4) == 0);
}

static void xpu_09_what_is_no_scope_is_one_thread(void **state)
{
	struct hmreg_xpu_wr wr;

	(void)state;
	with_threads(post_alone, NULL);
	for (unsigned i = 0; i < 2 * THREADS; i++)
		assert_true(side_take(&side, &wr));
	assert_false(side_take(&side, &wr));
}

/* ---- groups that meet by words of the device, as a GPU's do ---- */

static uint64_t acted;

static void meet_often(void)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t round;
		int64_t result = -1;
		int acts;

		payload[rank] = i;
		acts = hmreg_xpu_meet(&side.ep_own, THREADS, &round);
		CHECK(round == i);
		if (acts) {
			for (unsigned j = 0; j < THREADS; j++)
				CHECK(payload[j] == i);
			acted++;
			result = (int64_t)i * 3;
		}
		result = hmreg_xpu_part(&side.ep_own, acts, round, result);
		CHECK(result == (int64_t)i * 3);
		CHECK(acted == i + 1);
	}
}

static void xpu_09_groups_of_a_device_meet(void **state)
{
	(void)state;
	acted = 0;
	with_threads(meet_often, NULL);
	assert_int_equal(acted, ROUNDS);
	assert_int_equal(side.ep_own.round, ROUNDS);
	assert_int_equal(side.ep_own.arrived, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(xpu_10_threads_post_to_one_ring, set_up),
		cmocka_unit_test_setup(xpu_11_threads_read_one_queue, set_up),
		cmocka_unit_test_setup(xpu_11_threads_wait_for_one_counter, set_up),
		cmocka_unit_test_setup(xpu_11_threads_count_for_each_other, set_up),
		cmocka_unit_test_setup(xpu_09_one_request_of_all_threads, set_up),
		cmocka_unit_test_setup(xpu_09_one_read_of_all_threads, set_up),
		cmocka_unit_test_setup(xpu_09_one_change_of_a_counter, set_up),
		cmocka_unit_test_setup(xpu_09_what_is_no_scope_is_one_thread, set_up),
		cmocka_unit_test_setup(xpu_09_groups_of_a_device_meet, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
