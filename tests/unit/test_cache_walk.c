/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random walks over the registration cache beside a simple model of it: a list of what is kept, with the time
 * of its last use and the generation of its pages.  HMREG_WALK_SEEDS in the environment: how many walks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define REGIONS 64 /* no more are registered at once */
#include "tests/unit/cache_world.h"

#define SEEDS 3000
#define STEPS 150
#define PAGES 48u
#define HOLDS 6u

/* What the model knows of region n of the world. */
struct kept {
	bool findable;
	unsigned got,
		put; /* when last, in misses that were kept: as fine as the cache's own clock */
	unsigned generation[PAGES];
};

static struct model {
	uint64_t random;
	unsigned generation[PAGES]; /* of the memory */
	struct kept kept[REGIONS];
	unsigned misses;
	bool getting; /* a get is under way: what ends is evicted */
} model;

static unsigned draw(unsigned most)
{
	model.random ^= model.random << 13;
	model.random ^= model.random >> 7;
	model.random ^= model.random << 17;
	return (unsigned)(model.random >> 20) % most;
}

static bool satisfies(const struct region *region, const struct hm_cache_key *key)
{
	return region->key.begin <= key->begin && region->key.end >= key->end &&
	       !(key->rights & ~region->key.rights) && region->key.kind == key->kind &&
	       region->key.id == key->id;
}

static bool is_kept(const struct hm_cache_key *key)
{
	for (unsigned n = 0; n < REGIONS; n++)
		if (model.kept[n].findable && satisfies(&world.region[n], key))
			return true;
	return false;
}

/* Nothing stays that is findable, not held, and was let go before this one was asked for. */
static void evicted(struct region *region)
{
	struct kept *kept = &model.kept[region - world.region];

	if (kept->findable && model.getting)
		for (unsigned n = 0; n < REGIONS; n++)
			if (model.kept[n].findable && world.region[n].held == 0)
				assert_true(model.kept[n].put >= kept->got);
	kept->findable = false;
}

static void draw_key(struct hm_cache_key *key)
{
	unsigned count = 1 + draw(draw(8) == 0 ? 20 : 5), first = draw(PAGES - count);

	*key = range(AT(first) + draw(2) * draw(4096), AT(first + count) - draw(2) * draw(4096));
	if (key->begin >= key->end)
		*key = pages(first, count);
	key->rights = draw(4);
	key->kind = draw(8) == 0;
	key->id = draw(8) == 0;
}

static unsigned page_of(uint64_t address)
{
	return (unsigned)((address - AT(0)) / PAGE);
}

/* Nothing that a hit gives is of memory that has changed since it was registered. */
static void note(const struct hm_cache_key *key, const struct hm_cache_hold *hold, bool was_kept)
{
	struct region *region = hold->data;
	struct kept *kept = &model.kept[region - world.region];

	if (!was_kept) {
		*kept = (struct kept){ .findable = hold->entry != HM_CACHE_PRIVATE };
		memcpy(kept->generation, model.generation, sizeof(kept->generation));
		model.misses += hold->entry != HM_CACHE_PRIVATE;
	}
	kept->got = model.misses;
	for (unsigned p = page_of(key->begin); p <= page_of(key->end - 1); p++)
		assert_int_equal(kept->generation[p], model.generation[p]);
}

static void get(struct hm_cache_hold *hold)
{
	struct hm_cache_key key;
	unsigned added = world.added;
	bool kept;

	draw_key(&key);
	kept = is_kept(&key);
	model.getting = true;
	assert_int_equal(world_get(&key, hold), 0);
	model.getting = false;
	assert_int_equal(world.added - added, !kept);
	note(&key, hold, kept);
}

static void put(const struct hm_cache_hold *hold)
{
	model.kept[(struct region *)hold->data - world.region].put = model.misses;
	world_put(hold);
}

static void change_some(void)
{
	unsigned count = 1 + draw(4), first = draw(PAGES - count);

	for (unsigned p = first; p < first + count; p++)
		model.generation[p]++;
	for (unsigned n = 0; n < REGIONS; n++)
		if (world.region[n].key.begin < AT(first + count) &&
		    world.region[n].key.end > AT(first))
			model.kept[n].findable = false;
	change(AT(first) + draw(2) * draw(2048), AT(first + count) - draw(2) * draw(2048));
}

static void walk(uint64_t seed)
{
	struct hm_cache_hold hold[HOLDS];
	bool held[HOLDS] = { false };

	memset(&model, 0, sizeof(model));
	model.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	world_open(1 + draw(20), (1 + draw(60)) * PAGE);
	world.when_removed = evicted;
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned what = draw(20), n = draw(HOLDS);

		if (what == 0) {
			change_some();
		} else if (what == 1) {
			hm_cache_reap(&world.cache);
		} else if (held[n]) {
			put(&hold[n]);
			held[n] = false;
		} else {
			get(&hold[n]);
			held[n] = true;
		}
	}
	for (unsigned n = 0; n < HOLDS; n++)
		if (held[n])
			put(&hold[n]);
	world_close();
}

static void cache_02_cache_03_cache_04_walks_beside_a_model(void **state)
{
	const char *seeds = getenv("HMREG_WALK_SEEDS");
	unsigned count = seeds ? (unsigned)atoi(seeds) : SEEDS;

	(void)state;
	for (unsigned seed = 1; seed <= count; seed++) {
		if (seed % 500 == 0)
			print_message("seed %u\n", seed);
		walk(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_02_cache_03_cache_04_walks_beside_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
