/* SPDX-License-Identifier: BSD-2-Clause */
/* The registration cache while memory changes in the middle of a registration, with callers that wait, and over fork. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/cache_world.h"

/* ---- a change at every place around a registration ---- */

enum place {
	BEFORE, /* anything is asked */
	INSIDE, /* while the NIC registers */
	HELD,
	AFTER, /* it was let go */
	PLACES
};

static struct {
	enum place begin, end;
	uint64_t from, to;
	unsigned number;
} changing;

static void pass(enum place place)
{
	if (changing.begin == place)
		changing.number = change_begin(changing.from, changing.to);
	if (changing.end == place)
		hm_changes_end(changing.number);
}

static void pass_inside(const struct hm_cache_key *key)
{
	(void)key;
	world.while_adding = NULL;
	pass(INSIDE);
}

/* Is it found, once all is over? */
static bool found_after(enum place begin, enum place end, uint64_t from, uint64_t to)
{
	struct hm_cache_key key = pages(10, 4);
	struct hm_cache_hold hold;
	bool found;

	world_open(10, UINT64_MAX);
	changing.begin = begin;
	changing.end = end;
	changing.from = from;
	changing.to = to;
	world.while_adding = pass_inside;
	pass(BEFORE);
	assert_int_equal(world_get(&key, &hold), 0);
	pass(HELD);
	world_put(&hold);
	pass(AFTER);
	found = hits(&key);
	assert_int_equal(hits(&key), 1); /* what is made now is kept */
	world_close();
	return found;
}

/* The interleaving: the hook ran, memory is going, a registration takes the dying pages, memory is gone. */
static void cache_02_fn_29_registration_of_dying_memory_is_not_found(void **state)
{
	(void)state;
	assert_false(found_after(BEFORE, AFTER, AT(10), AT(14)));
	assert_false(found_after(BEFORE, HELD, AT(10), AT(14)));
	assert_false(found_after(BEFORE, INSIDE, AT(10), AT(14)));
}

static void cache_02_fn_29_every_order_of_change_and_registration(void **state)
{
	static const uint64_t touch[][2] = {
		{ 10, 14 }, { 0, 11 }, { 13, 100 }, { 11, 12 }, { 0, 999 }
	};
	static const uint64_t beside[][2] = { { 0, 10 }, { 14, 15 }, { 14, 999 } };

	(void)state;
	for (enum place b = BEFORE; b < PLACES; b++)
		for (enum place e = b; e < PLACES; e++) {
			for (unsigned i = 0; i < 5; i++)
				assert_int_equal(found_after(b, e, AT(touch[i][0]),
							     AT(touch[i][1])),
						 b == BEFORE && e == BEFORE);
			for (unsigned i = 0; i < 3; i++)
				assert_true(found_after(b, e, AT(beside[i][0]), AT(beside[i][1])));
		}
}

/* Several registrations during one change, and all of them for their callers alone. */
static void cache_02_all_during_a_change_are_used_once(void **state)
{
	unsigned number;

	(void)state;
	world_open(10, UINT64_MAX);
	number = change_begin(AT(1), AT(5));
	for (unsigned i = 0; i < 5; i++)
		assert_false(hits_pages(2, 1));
	assert_false(hits_pages(8, 1));
	assert_true(hits_pages(8, 1));
	hm_changes_end(number);
	assert_false(hits_pages(2, 1));
	assert_true(hits_pages(2, 1));
	assert_int_equal(hm_cache_reap(&world.cache), 0);
	assert_int_equal(counts().entries, 2);
	world_close();
}

/* ---- callers that want what another is registering ---- */

static struct {
	pthread_t thread;
	struct hm_cache_key key;
	struct hm_cache_hold hold;
	int ret;
	int fail_with;
	bool change;
} waiter;

static void *wait_for_it(void *unused)
{
	(void)unused;
	waiter.ret = hm_cache_get(&world.cache, &waiter.key, &waiter.hold);
	return NULL;
}

static void start_waiter(const struct hm_cache_key *key)
{
	(void)key;
	world.while_adding = NULL;
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_it, NULL), 0);
	while (atomic_load(&world.cache.waiters) == 0)
		sched_yield();
	if (waiter.fail_with) {
		world.add_fails = waiter.fail_with;
		world.add_fails_for = 1;
	}
	if (waiter.change)
		change(AT(1), AT(2));
}

/* Registrations that were made for the two. */
static unsigned two_ask(int fail_with, bool changes, bool narrower)
{
	struct hm_cache_key key = pages(1, 4);
	struct hm_cache_hold hold;
	unsigned added;

	world_open(10, UINT64_MAX);
	waiter.key = narrower ? range(AT(1) + 5, AT(2)) : key;
	waiter.fail_with = fail_with;
	waiter.change = changes;
	world.while_adding = start_waiter;
	assert_int_equal(hm_cache_get(&world.cache, &key, &hold), fail_with);
	assert_int_equal(pthread_join(waiter.thread, NULL), 0);
	assert_int_equal(waiter.ret, 0);
	added = world.added;
	if (changes)
		assert_ptr_not_equal(waiter.hold.data, hold.data);
	if (!fail_with)
		hm_cache_put(&world.cache, &hold);
	hm_cache_put(&world.cache, &waiter.hold);
	assert_true(hits(&waiter.key));
	world_close();
	return added;
}

static void cache_one_registers_and_the_other_waits(void **state)
{
	(void)state;
	assert_int_equal(two_ask(0, false, false), 1);
}

static void cache_who_waited_for_a_failure_registers(void **state)
{
	(void)state;
	assert_int_equal(two_ask(-FI_EIO, false, false), 1);
}

static void cache_02_who_waited_for_dying_memory_registers_again(void **state)
{
	(void)state;
	assert_int_equal(two_ask(0, true, false), 2);
}

/* ---- fork ---- */

static _Atomic int step;

static void stop_here(const struct hm_cache_key *key)
{
	(void)key;
	world.while_adding = NULL;
	atomic_store(&step, 1);
	while (atomic_load(&step) != 2)
		sched_yield();
}

static void *register_slowly(void *unused)
{
	struct hm_cache_key key = pages(50, 1);
	struct hm_cache_hold hold;

	(void)unused;
	if (hm_cache_get(&world.cache, &key, &hold) != 0)
		abort();
	hm_cache_put(&world.cache, &hold);
	return NULL;
}

/* No hit on anything of the parent's, and nothing hangs; whichever call comes first. */
static int child(unsigned first)
{
	struct hm_cache_key key = pages(1, 1), pending = pages(50, 1);
	struct hm_cache_hold hold;
	unsigned added = world.added;

	alarm(20);
	change(AT(0), AT(3));
	if (first == 0 && hm_cache_destroy(&world.cache) != -FI_EBUSY) /* one is pending for ever */
		return 1;
	if (first == 1 && hm_cache_evict(&world.cache, 100) != 10)
		return 2;
	if (hm_cache_get(&world.cache, &key, &hold) != 0 || world.added != added + 1)
		return 3;
	hm_cache_put(&world.cache, &hold);
	if (hm_cache_get(&world.cache, &pending, &hold) != 0 || world.added != added + 2)
		return 4;
	hm_cache_put(&world.cache, &hold);
	if (hm_cache_get(&world.cache, &pending, &hold) != 0 || world.added != added + 2)
		return 5;
	hm_cache_put(&world.cache, &hold);
	hm_cache_reap(&world.cache);
	return 0;
}

static void cache_after_fork_the_child_finds_nothing_and_nothing_hangs(void **state)
{
	pthread_t thread;

	(void)state;
	world_open(100, UINT64_MAX);
	for (unsigned i = 0; i < 10; i++)
		hits_pages(i * 2 + 1, 1);
	world.while_adding = stop_here;
	assert_int_equal(pthread_create(&thread, NULL, register_slowly, NULL), 0);
	while (atomic_load(&step) != 1)
		sched_yield();
	for (unsigned first = 0; first < 3; first++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			_exit(child(first));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	atomic_store(&step, 2);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (unsigned i = 0; i < 10; i++) /* the parent has all of its own */
		assert_true(hits_pages(i * 2 + 1, 1));
	assert_true(hits_pages(50, 1));
	world_close();
}

/* Forks while another thread uses the cache: no lock is left taken in the child. */
static void *use_all_the_time(void *stop)
{
	for (unsigned i = 0; !atomic_load((_Atomic bool *)stop); i++) {
		struct hm_cache_key key = pages(i % 40, 1 + i % 3);
		struct hm_cache_hold hold;

		if (hm_cache_get(&world.cache, &key, &hold) != 0)
			abort();
		hm_cache_put(&world.cache, &hold);
		change(AT(i % 50), AT(i % 50 + 2));
	}
	return NULL;
}

static void cache_06_fork_while_it_is_used(void **state)
{
	_Atomic bool stop = false;
	pthread_t thread;

	(void)state;
	world_open(20, UINT64_MAX);
	assert_int_equal(pthread_create(&thread, NULL, use_all_the_time, &stop), 0);
	for (unsigned i = 0; i < 60; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			alarm(20);
			for (unsigned n = 0; n < 60; n++) {
				struct hm_cache_key key = pages(n, 1);
				struct hm_cache_hold hold;

				if (hm_cache_get(&world.cache, &key, &hold) != 0)
					_exit(1);
				hm_cache_put(&world.cache, &hold);
			}
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_02_fn_29_registration_of_dying_memory_is_not_found),
		cmocka_unit_test(cache_02_fn_29_every_order_of_change_and_registration),
		cmocka_unit_test(cache_02_all_during_a_change_are_used_once),
		cmocka_unit_test(cache_one_registers_and_the_other_waits),
		cmocka_unit_test(cache_who_waited_for_a_failure_registers),
		cmocka_unit_test(cache_02_who_waited_for_dying_memory_registers_again),
		cmocka_unit_test(cache_after_fork_the_child_finds_nothing_and_nothing_hangs),
		cmocka_unit_test(cache_06_fork_while_it_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
