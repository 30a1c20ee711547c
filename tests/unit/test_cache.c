/* SPDX-License-Identifier: BSD-2-Clause */
/* The registration cache over a NIC that registers nothing: what is a hit, limits, failures, counts. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/cache_world.h"

#define MANY UINT64_MAX

/* ---- what is a hit ---- */

static void cache_03_same_or_wider_range_hits(void **state)
{
	(void)state;
	world_open(100, MANY);
	assert_false(hits_pages(10, 8));
	for (unsigned first = 4; first < 20; first++)
		for (unsigned count = 1; count < 14; count++) {
			struct hm_cache_key key = range(AT(first) + 1, AT(first + count) - 1);
			bool inside = first >= 10 && first + count <= 18;

			if (inside)
				assert_true(hits(&key));
		}
	assert_false(hits_pages(9, 2));	 /* begins before it */
	assert_false(hits_pages(17, 2)); /* ends behind it */
	assert_false(hits_pages(9, 10)); /* holds it */
	assert_true(hits_pages(9, 10));
	world_close();
}

static void cache_03_fn_30_rights_kind_and_id_are_part_of_a_hit(void **state)
{
	struct hm_cache_key key = pages(1, 1);

	(void)state;
	world_open(100, MANY);
	key.rights = 6;
	assert_false(hits(&key));
	for (uint32_t rights = 0; rights < 8; rights++) {
		key.rights = rights;
		if (!(rights & ~6u))
			assert_true(hits(&key));
	}
	key.rights = 1;
	assert_false(hits(&key)); /* none has both */
	key.rights = 7;
	assert_false(hits(&key));
	key.kind = 1;
	assert_false(hits(&key));
	assert_true(hits(&key));
	key.id = 1;
	assert_false(hits(&key));
	assert_true(hits(&key));
	key.id = 0;
	assert_true(hits(&key));
	world_close();
}

/* Relaxed ordering is a bit of the kind: strict and relaxed registrations lie beside each other. */
static void fn_35_ordering_is_part_of_a_hit(void **state)
{
	struct hm_cache_key strict = pages(1, 4), relaxed = strict;

	(void)state;
	relaxed.kind = 1u << 31;
	world_open(100, MANY);
	assert_false(hits(&strict));
	assert_false(hits(&relaxed));
	assert_true(hits(&strict));
	assert_true(hits(&relaxed));
	world_close();
}

/* A buffer id that changed is another buffer at the same address. */
static void fn_29_cache_02_buffer_id_tells_buffers_apart(void **state)
{
	struct hm_cache_key key = pages(1, 4);

	(void)state;
	world_open(100, MANY);
	for (key.id = 1; key.id < 50; key.id++)
		assert_false(hits(&key));
	for (key.id = 1; key.id < 50; key.id++)
		assert_true(hits(&key));
	world_close();
}

static void cache_03_every_width_and_alignment(void **state)
{
	(void)state;
	world_open(4, MANY);
	for (unsigned bits = 0; bits < 40; bits++)
		for (unsigned i = 0; i < 64; i++) {
			uint64_t len = (UINT64_C(1) << bits) + i % 3 - (bits > 0);
			uint64_t at = (UINT64_C(1) << 46) + i * 0x5555555555u % (len * 2 + 1);
			struct hm_cache_key key = range(at, at + (len ? len : 1));
			struct hm_cache_key first = range(at, at + 1), last = first;

			last.begin = key.end - 1;
			last.end = key.end;
			hits(&key);
			assert_true(hits(&key));
			assert_true(hits(&first));
			assert_true(hits(&last));
			change(key.end - 1, key.end);
			assert_false(hits(&last));
			change(0, MANY);
		}
	world_close();
}

/* ---- what a change ends ---- */

static void cache_02_change_ends_what_it_touches(void **state)
{
	(void)state;
	world_open(1000, MANY);
	for (unsigned len = 1; len <= 64; len *= 2)
		for (unsigned first = 96; first < 224; first++) {
			bool touched = first < 161 && first + len > 160;

			assert_false(hits_pages(first, len));
			change(AT(160) + 1, AT(160) + 2);
			assert_int_equal(hits_pages(first, len), !touched);
			change(0, MANY);
			hm_cache_reap(&world.cache);
			assert_int_equal(counts().entries, 0);
		}
	world_close();
}

static void cache_02_change_of_everything(void **state)
{
	(void)state;
	world_open(1000, MANY);
	for (unsigned i = 0; i < 500; i++)
		assert_false(hits_pages(i * 3, 1 + i % 2));
	change(0, MANY);
	assert_int_equal(counts().invalidations, 500);
	assert_int_equal(hm_cache_reap(&world.cache), 0);
	assert_int_equal(counts().entries, 0);
	assert_int_equal(counts().bytes, 0);
	for (unsigned i = 0; i < 500; i++)
		assert_false(hits_pages(i * 3, 1 + i % 2));
	world_close();
}

/* It is no range, and nothing ends. */
static void cache_02_empty_and_reversed_changes(void **state)
{
	(void)state;
	world_open(10, MANY);
	assert_false(hits_pages(1, 1));
	change(AT(1), AT(1));
	change(AT(2), AT(1));
	change(AT(2), AT(1) + 5);
	assert_true(hits_pages(1, 1));
	world_close();
}

/* Used until it is let go, found never again, and ended then. */
static void cache_02_cache_04_changed_while_held(void **state)
{
	struct hm_cache_key key = pages(1, 1);
	struct hm_cache_hold old, young;

	(void)state;
	world_open(10, MANY);
	assert_int_equal(world_get(&key, &old), 0);
	change(AT(1), AT(2));
	assert_int_equal(hm_cache_reap(&world.cache), 1);
	assert_int_equal(world.removed, 0);
	assert_int_equal(world_get(&key, &young), 0);
	assert_ptr_not_equal(old.data, young.data);
	assert_int_equal(counts().entries, 2);
	world_put(&old);
	assert_int_equal(hm_cache_reap(&world.cache), 0);
	assert_int_equal(world.removed, 1);
	world_put(&young);
	assert_true(hits(&key));
	world_close();
}

/* ---- limits ---- */

static void cache_04_least_recently_used_goes_first(void **state)
{
	(void)state;
	world_open(8, MANY);
	for (unsigned i = 0; i < 8; i++)
		assert_false(hits_pages(i * 2, 1));
	assert_true(hits_pages(0, 1)); /* the oldest, used again */
	assert_false(hits_pages(100, 1));
	assert_true(hits_pages(0, 1));
	assert_true(hits_pages(100, 1));
	for (unsigned i = 2; i < 8; i++)
		assert_true(hits_pages(i * 2, 1));
	assert_int_equal(counts().evictions, 1);
	assert_false(hits_pages(2, 1)); /* it was that one */
	world_close();
}

static void cache_04_in_use_is_never_evicted(void **state)
{
	struct hm_cache_hold hold[8], more;
	struct hm_cache_key key;

	(void)state;
	world_open(8, MANY);
	for (unsigned i = 0; i < 8; i++) {
		key = pages(i * 2, 1);
		assert_int_equal(world_get(&key, &hold[i]), 0);
	}
	key = pages(100, 1);
	assert_int_equal(world_get(&key, &more), 0);
	assert_int_equal(more.entry, HM_CACHE_PRIVATE);
	assert_int_equal(world.removed, 0);
	assert_int_equal(counts().unkept, 1);
	world_put(&more);
	assert_int_equal(world.removed, 1);
	world_put(&hold[5]);
	assert_false(hits(&key));
	assert_true(hits(&key)); /* in the place of that one */
	for (unsigned i = 0; i < 8; i++)
		if (i != 5) {
			assert_true(hits_pages(i * 2, 1));
			world_put(&hold[i]);
		}
	world_close();
}

static void cache_04_bytes_are_limited(void **state)
{
	(void)state;
	world_open(100, 10 * PAGE);
	assert_false(hits_pages(0, 4));
	assert_false(hits_pages(10, 4));
	assert_false(hits_pages(20, 2));
	assert_int_equal(counts().bytes, 10 * PAGE);
	assert_false(hits_pages(30, 7)); /* two must go for it */
	assert_int_equal(counts().entries, 2);
	assert_int_equal(counts().bytes, 9 * PAGE);
	assert_true(hits_pages(20, 2));
	world_close();
}

static void cache_04_larger_than_the_cache_is_not_kept(void **state)
{
	struct hm_cache_hold hold;
	struct hm_cache_key key = pages(100, 11);

	(void)state;
	world_open(100, 10 * PAGE);
	assert_false(hits_pages(0, 10));
	assert_int_equal(world_get(&key, &hold), 0);
	assert_int_equal(hold.entry, HM_CACHE_PRIVATE);
	world_put(&hold);
	assert_false(hits(&key));
	assert_true(hits_pages(0, 10)); /* nothing was evicted for it */
	world_close();
}

static void cache_04_nothing_is_kept_in_a_cache_of_none(void **state)
{
	static const struct {
		uint64_t count, bytes;
	} none[] = { { 0, MANY }, { MANY, 0 }, { 0, 0 } };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		world_open(none[i].count, none[i].bytes);
		assert_false(hits_pages(1, 1));
		assert_false(hits_pages(1, 1));
		assert_int_equal(counts().unkept, 2);
		assert_int_equal(counts().misses, 2);
		change(0, MANY);
		assert_int_equal(hm_cache_evict(&world.cache, 10), 0);
		assert_int_equal(hm_cache_reap(&world.cache), 0);
		world_close();
	}
}

/* A second thread looks at the counts all the time. */
static void *look_at_counts(void *stop)
{
	struct hm_cache_counts now;
	uint64_t looks = 0;

	do {
		hm_cache_count(&world.cache, HM_CACHE_ALL, &now);
		if (now.entries > 50 || now.bytes > 120 * PAGE)
			return "over the limit";
		looks++;
	} while (!atomic_load((_Atomic bool *)stop) || looks < 100);
	return NULL;
}

static void cache_04_limits_hold_at_every_instant(void **state)
{
	_Atomic bool stop = false;
	struct hm_cache_hold hold[20];
	pthread_t thread;
	void *wrong;

	(void)state;
	world_open(50, 120 * PAGE);
	assert_int_equal(pthread_create(&thread, NULL, look_at_counts, &stop), 0);
	for (unsigned i = 0; i < 40000; i++) {
		struct hm_cache_key key = pages(i * 7919u % 1000, 1 + i % 5);

		if (i >= 20)
			world_put(&hold[i % 20]);
		assert_int_equal(world_get(&key, &hold[i % 20]), 0);
		if (i % 16 == 0)
			change(AT(i % 1000), AT(i % 1000 + 20));
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, &wrong), 0);
	assert_null(wrong);
	for (unsigned i = 0; i < 20; i++)
		world_put(&hold[i]);
	world_close();
}

/* ---- failures ---- */

static void cache_add_fails_with_its_code(void **state)
{
	static const int codes[] = { -FI_EFAULT, -FI_EACCES, -FI_EINVAL, -FI_ENOSPC, -FI_EIO };
	struct hm_cache_key key = pages(1, 2);
	struct hm_cache_hold hold = { NULL, 7 };

	(void)state;
	world_open(10, MANY);
	assert_false(hits_pages(50, 1));
	for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		world.add_fails = codes[i];
		world.add_fails_for = 1;
		assert_int_equal(world_get(&key, &hold), codes[i]);
		assert_null(hold.data);
		assert_int_equal(hold.entry, 7);
		assert_int_equal(counts().entries, 1);
		assert_int_equal(counts().misses, 1);
	}
	assert_false(hits(&key));
	assert_true(hits(&key));
	world_close();
}

static void cache_04_no_memory_evicts_and_tries_again(void **state)
{
	struct hm_cache_key key = pages(1000, 1), held_key = pages(2000, 1);
	struct hm_cache_hold hold, held;

	(void)state;
	world_open(100, MANY);
	assert_int_equal(world_get(&held_key, &held), 0);
	for (unsigned i = 0; i < 64; i++)
		assert_false(hits_pages(i * 2, 1));
	world.add_fails = -FI_ENOMEM;
	world.add_fails_for = 1;
	assert_int_equal(world_get(&key, &hold), 0);
	world_put(&hold);
	assert_in_range(counts().evictions, 1, 32); /* not everything for one failure */
	world.add_fails_for = 3;
	assert_false(hits_pages(3000, 1));
	assert_int_equal(counts().entries, 2); /* the held one, and that */
	world.add_fails_for = 100;
	assert_int_equal(world_get(&key, &hold), -FI_ENOMEM);
	assert_in_range(world.add_fails_for, 90, 99); /* and not for ever */
	world.add_fails_for = 0;
	assert_int_equal(counts().entries, 1);
	world_put(&held);
	assert_true(hits(&held_key));
	world_close();
}

/* What died, but could not be reaped so far, is what memory pressure ends first. */
static void cache_04_no_memory_reaps(void **state)
{
	(void)state;
	world_open(100, MANY);
	assert_false(hits_pages(1, 1));
	change(AT(1), AT(2));
	assert_false(hits_pages(5, 1));
	world.add_fails = -FI_ENOMEM;
	world.add_fails_for = 1;
	assert_false(hits_pages(9, 1));
	assert_int_equal(world.removed, 1);
	assert_true(hits_pages(5, 1));
	world_close();
}

static void cache_remove_refuses_and_is_tried_again(void **state)
{
	(void)state;
	world_open(2, MANY);
	assert_false(hits_pages(1, 1));
	assert_false(hits_pages(3, 1));
	world.remove_fails_for = 1;
	assert_false(hits_pages(5, 1)); /* the next one goes in its place */
	assert_int_equal(world.removed, 1);
	assert_false(hits_pages(1, 1)); /* not found although it is registered */
	assert_int_equal(hm_cache_reap(&world.cache), 0);
	world.remove_fails_for = 1000;
	assert_int_equal(hm_cache_destroy(&world.cache), -FI_EBUSY);
	world.remove_fails_for = 0;
	assert_false(hits_pages(9, 1)); /* as good as ever */
	assert_true(hits_pages(9, 1));
	world_close();
}

static void cache_remove_refuses_what_is_not_kept(void **state)
{
	(void)state;
	world_open(0, 0);
	world.remove_fails_for = 3;
	assert_false(hits_pages(1, 1));
	assert_int_equal(hm_cache_reap(&world.cache), 1);
	assert_int_equal(hm_cache_destroy(&world.cache), -FI_EBUSY);
	assert_int_equal(hm_cache_reap(&world.cache), 0);
	world_close();
}

static void cache_destroy_with_something_held(void **state)
{
	struct hm_cache_key key = pages(1, 1);
	struct hm_cache_hold hold;

	(void)state;
	world_open(10, MANY);
	assert_int_equal(world_get(&key, &hold), 0);
	assert_int_equal(hm_cache_destroy(&world.cache), -FI_EBUSY);
	assert_true(hits(&key));
	world_put(&hold);
	world_close();
}

/* Each allocation fails once: what is asked for is had all the same. */
static void cache_without_memory_nothing_is_kept(void **state)
{
	bool failed = true;
	long live = alloc_live;

	(void)state;
	for (unsigned call = 1; failed; call++) {
		memset(&world, 0, sizeof(world));
		alloc_fail_at(call);
		if (hm_cache_init(&world.cache, &world_ops, &world, 1000, MANY) == 0) {
			for (unsigned i = 0; i < 1000; i++)
				hits_pages(i * 2, 1);
			world.remove_fails_for = 1;
			change(AT(0), AT(1));
			hm_cache_reap(&world.cache);
			hm_cache_reap(&world.cache);
			failed = alloc_failed();
			world_close();
		} else {
			failed = alloc_failed();
			assert_true(failed);
		}
		assert_int_equal(alloc_live, live);
	}
}

/* ---- counts ---- */

static void cache_counts_by_group(void **state)
{
	struct hm_cache_counts now, sum = { .hits = 0 };

	(void)state;
	world_open(100, MANY);
	for (uint32_t g = 0; g < HM_CACHE_GROUPS; g++)
		for (uint32_t i = 0; i <= g; i++) {
			struct hm_cache_key key = pages(g * 100 + i * 2, 2);

			key.group = g;
			key.kind = g;
			assert_false(hits(&key));
			for (uint32_t h = 0; h < g; h++)
				assert_true(hits(&key));
		}
	change(AT(700), AT(704)); /* two of group 7 */
	assert_int_equal(hm_cache_reap(&world.cache), 0);
	for (uint32_t g = 0; g < HM_CACHE_GROUPS; g++) {
		uint64_t left = g + 1 - (g == 7 ? 2 : 0);

		hm_cache_count(&world.cache, g, &now);
		assert_int_equal(now.misses, g + 1);
		assert_int_equal(now.hits, (g + 1) * g);
		assert_int_equal(now.entries, left);
		assert_int_equal(now.bytes, left * 2 * PAGE);
		assert_int_equal(now.invalidations, g == 7 ? 2 : 0);
		sum.hits += now.hits;
		sum.entries += now.entries;
	}
	assert_int_equal(counts().hits, sum.hits);
	assert_int_equal(counts().entries, sum.entries);
	assert_int_equal(hm_cache_evict(&world.cache, UINT32_MAX), sum.entries);
	for (uint32_t g = 0; g < HM_CACHE_GROUPS; g++) {
		hm_cache_count(&world.cache, g, &now);
		assert_int_equal(now.evictions, g + 1 - (g == 7 ? 2 : 0));
		assert_int_equal(now.entries, 0);
	}
	world_close();
	world_open(100, MANY); /* under the same numbers, and all is 0 */
	assert_int_equal(counts().hits, 0);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_03_same_or_wider_range_hits),
		cmocka_unit_test(cache_03_fn_30_rights_kind_and_id_are_part_of_a_hit),
		cmocka_unit_test(fn_35_ordering_is_part_of_a_hit),
		cmocka_unit_test(fn_29_cache_02_buffer_id_tells_buffers_apart),
		cmocka_unit_test(cache_03_every_width_and_alignment),
		cmocka_unit_test(cache_02_change_ends_what_it_touches),
		cmocka_unit_test(cache_02_change_of_everything),
		cmocka_unit_test(cache_02_empty_and_reversed_changes),
		cmocka_unit_test(cache_02_cache_04_changed_while_held),
		cmocka_unit_test(cache_04_least_recently_used_goes_first),
		cmocka_unit_test(cache_04_in_use_is_never_evicted),
		cmocka_unit_test(cache_04_bytes_are_limited),
		cmocka_unit_test(cache_04_larger_than_the_cache_is_not_kept),
		cmocka_unit_test(cache_04_nothing_is_kept_in_a_cache_of_none),
		cmocka_unit_test(cache_04_limits_hold_at_every_instant),
		cmocka_unit_test(cache_add_fails_with_its_code),
		cmocka_unit_test(cache_04_no_memory_evicts_and_tries_again),
		cmocka_unit_test(cache_04_no_memory_reaps),
		cmocka_unit_test(cache_remove_refuses_and_is_tried_again),
		cmocka_unit_test(cache_remove_refuses_what_is_not_kept),
		cmocka_unit_test(cache_destroy_with_something_held),
		cmocka_unit_test(cache_without_memory_nothing_is_kept),
		cmocka_unit_test(cache_counts_by_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
