/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A NIC for the registration cache that registers nothing: what it was asked to add and to remove, failures
 * to order, and something to be done while it adds.  One thread.  Include after <cmocka.h>.
 */
#ifndef HM_TEST_CACHE_WORLD_H
#define HM_TEST_CACHE_WORLD_H

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/mr/cache.h"
#include "core/mr/changes.h"
#include "tests/unit/whole_pages.h"

#define PAGE  UINT64_C(4096)
#define AT(n) (UINT64_C(0x700000000000) + (uint64_t)(n)*PAGE)
#ifndef REGIONS
#define REGIONS 4096
#endif

struct region {
	struct hm_cache_key key;
	bool live;
	unsigned held;
};

static struct world {
	struct hm_cache cache;
	struct region region[REGIONS];
	unsigned added, removed; /* calls that did it */
	unsigned add_calls, remove_calls;
	int add_fails;		/* with this code, */
	unsigned add_fails_for; /* that often */
	unsigned remove_fails_for;
	void (*while_adding)(const struct hm_cache_key *key);
	void (*when_removed)(struct region *region);
} world;

static int world_add(void *context, const struct hm_cache_key *key, void **data)
{
	unsigned n = 0;

	assert_ptr_equal(context, &world);
	world.add_calls++;
	if (world.while_adding)
		world.while_adding(key);
	if (world.add_fails_for > 0) {
		world.add_fails_for--;
		return world.add_fails;
	}
	while (world.region[n].live)
		assert_in_range(++n, 1, REGIONS - 1);
	world.region[n] = (struct region){ *key, true, 0 };
	world.added++;
	*data = &world.region[n];
	return 0;
}

static int world_remove(void *context, void *data)
{
	struct region *region = data;

	assert_ptr_equal(context, &world);
	world.remove_calls++;
	assert_true(region->live);
	assert_int_equal(region->held, 0);
	if (world.remove_fails_for > 0) {
		world.remove_fails_for--;
		return -FI_EBUSY;
	}
	if (world.when_removed)
		world.when_removed(region);
	region->live = false;
	world.removed++;
	return 0;
}

static const struct hm_cache_ops world_ops = { whole_pages, world_add, world_remove };

static void world_open(uint64_t max_count, uint64_t max_bytes)
{
	memset(&world, 0, sizeof(world));
	assert_int_equal(hm_cache_init(&world.cache, &world_ops, &world, max_count, max_bytes), 0);
}

static void world_close(void)
{
	assert_int_equal(hm_cache_destroy(&world.cache), 0);
	assert_int_equal(world.added, world.removed);
}

/* [begin, end) in bytes */
static inline struct hm_cache_key range(uint64_t begin, uint64_t end)
{
	return (struct hm_cache_key){ .begin = begin, .end = end, .rights = 1 };
}

static inline struct hm_cache_key pages(unsigned first, unsigned count)
{
	return range(AT(first), AT(first + count));
}

static struct hm_cache_counts counts(void)
{
	struct hm_cache_counts now;

	hm_cache_count(&world.cache, HM_CACHE_ALL, &now);
	assert_true(now.entries <= world.cache.max_count);
	assert_true(now.bytes <= world.cache.max_bytes);
	return now;
}

/* What get gave satisfies the key. */
static int world_get(const struct hm_cache_key *key, struct hm_cache_hold *hold)
{
	struct region *region;
	int ret = hm_cache_get(&world.cache, key, hold);

	counts();
	if (ret != 0)
		return ret;
	region = hold->data;
	assert_true(region->live);
	assert_true(region->key.begin <= key->begin && region->key.end >= key->end);
	assert_int_equal(key->rights & ~region->key.rights, 0);
	assert_int_equal(region->key.kind, key->kind);
	assert_int_equal(region->key.id, key->id);
	region->held++;
	return 0;
}

static void world_put(const struct hm_cache_hold *hold)
{
	((struct region *)hold->data)->held--;
	hm_cache_put(&world.cache, hold);
	counts();
}

/* Get and put.  True: nothing was registered for it. */
static inline bool hits(const struct hm_cache_key *key)
{
	unsigned before = world.added;
	struct hm_cache_hold hold;

	assert_int_equal(world_get(key, &hold), 0);
	world_put(&hold);
	return world.added == before;
}

static inline bool hits_pages(unsigned first, unsigned count)
{
	struct hm_cache_key key = pages(first, count);

	return hits(&key);
}

/* As a monitor does it. */
static inline unsigned change_begin(uint64_t begin, uint64_t end)
{
	unsigned number = hm_changes_begin(begin, end);

	hm_cache_invalidate(&world.cache, begin, end);
	hm_changes_told(number);
	return number;
}

static inline void change(uint64_t begin, uint64_t end)
{
	hm_changes_end(change_begin(begin, end));
}

#endif
