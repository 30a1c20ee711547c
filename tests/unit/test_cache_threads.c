/* SPDX-License-Identifier: BSD-2-Clause */
/* The registration cache and threads that have no memory for counts, or are cancelled. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/cache_world.h"

#define MANY UINT64_MAX

/* What another thread keeps is there, but this one has no memory for the count by which it would hold it. */
static void *get_without_counts(void *unused)
{
	struct hm_cache_key key = pages(1, 1);
	struct hm_cache_hold hold;

	(void)unused;
	alloc_fail_at(ALLOC_EVERY);
	assert_int_equal(world_get(&key, &hold), 0);
	assert_int_equal(hold.entry, HM_CACHE_PRIVATE);
	world_put(&hold);
	assert_true(alloc_failed());
	return NULL;
}

static void cache_03_a_thread_without_counts_registers_for_itself(void **state)
{
	pthread_t thread;

	(void)state;
	world_open(100, MANY);
	assert_false(hits_pages(1, 1));
	assert_int_equal(pthread_create(&thread, NULL, get_without_counts, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(counts().unkept, 1);
	assert_int_equal(counts().entries, 1);
	assert_true(hits_pages(1, 1));
	world_close();
}

/* ---- threads that are cancelled ---- */

static _Atomic bool came_back;

static void cancellation_point(const struct hm_cache_key *key)
{
	(void)key;
	pthread_testcancel();
}

/* Not for the address sanitizer, which does not know that a cancelled thread has left the frame. */
static __attribute__((no_sanitize("address"))) void *get_cancelled(void *unused)
{
	struct hm_cache_key key = pages(1, 1), large = pages(1, 50);
	struct hm_cache_hold hold;

	(void)unused;
	pthread_cancel(pthread_self());
	if (hm_cache_get(&world.cache, &key, &hold) == 0)
		hm_cache_put(&world.cache, &hold);
	if (hm_cache_get(&world.cache, &large, &hold) == 0)
		hm_cache_put(&world.cache, &hold);
	atomic_store(&came_back, true);
	pthread_testcancel();
	atomic_store(&came_back, false);
	return NULL;
}

static void removal_point(struct region *region)
{
	(void)region;
	pthread_testcancel();
}

/* Whoever is cancelled in what add and remove call is not before the call has ended; others do not wait for him. */
static void cache_04_a_cancelled_thread_leaves_nothing_behind(void **state)
{
	pthread_t thread;
	void *result;

	(void)state;
	world_open(10, 20 * PAGE);
	world.while_adding = cancellation_point;
	world.when_removed = removal_point;
	assert_int_equal(pthread_create(&thread, NULL, get_cancelled, NULL), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(atomic_load(&came_back));
	assert_int_equal(world.added, 2);
	assert_int_equal(world.removed, 1);
	assert_true(hits_pages(1, 1));
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first: no thread has ended so far whose counts could be taken over */
		cmocka_unit_test(cache_03_a_thread_without_counts_registers_for_itself),
		cmocka_unit_test(cache_04_a_cancelled_thread_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
