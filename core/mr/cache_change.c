/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changed memory: what is kept of it ends.  Runs in hooks: no lock, no allocation.
 *
 * Size classes are taken together in levels of four.  For each level there is a count of the entries that
 * begin in a granule of addresses, as large as the level's largest entry; granules share counts where the
 * address space is larger than the counts.  A change looks at the counts of its own granules and of the
 * one before, where an entry that reaches in may begin, and only where there are some at the table.
 */
#include <sched.h>

#include "core/mr/cache.h"

#define PATIENCE 64u	/* looks at a stripe whose words are being moved */
#define SALT	 40503u /* so that levels do not lie on each other */
#define FEWEST	 1024u	/* counts */

/* ---- near ---- */

static unsigned level_of(unsigned k)
{
	return (k - HM_CACHE_MIN_CLASS) / HM_CACHE_LEVELS;
}

static unsigned granule_shift(unsigned level)
{
	unsigned shift = HM_CACHE_MIN_CLASS + level * HM_CACHE_LEVELS + HM_CACHE_LEVELS - 1;

	return shift < 63 ? shift : 63;
}

/* Granules that follow each other have counts that do. */
static _Atomic uint32_t *near_count(const struct hm_cache *cache, unsigned level, uint64_t granule)
{
	return &cache->near[(granule + (granule >> 20) * SALT + (uint64_t)level * SALT) &
			    cache->near_mask];
}

uint64_t hm_cache_near_size(uint64_t max_count)
{
	uint64_t size = FEWEST;

	while (size < max_count)
		size *= 2;
	return size;
}

void hm_cache_near_add(struct hm_cache *cache, const struct hm_cache_entry *e, uint32_t more)
{
	unsigned level = level_of(hm_cache_class(hm_cache_bytes(e)));
	uint64_t begin = atomic_load_explicit(&e->begin, memory_order_relaxed);

	atomic_fetch_add(near_count(cache, level, begin >> granule_shift(level)), more);
}

bool hm_cache_near(const struct hm_cache *cache, unsigned k, uint64_t addr)
{
	unsigned level = level_of(k);
	uint64_t granule = addr >> granule_shift(level);

	return atomic_load_explicit(near_count(cache, level, granule), memory_order_relaxed) |
	       atomic_load_explicit(near_count(cache, level, granule - 1), memory_order_relaxed);
}

/* ---- killing ---- */

static bool overlaps(const struct hm_cache_entry *e, uint64_t begin, uint64_t end)
{
	return atomic_load_explicit(&e->begin, memory_order_relaxed) < end &&
	       atomic_load_explicit(&e->end, memory_order_relaxed) > begin;
}

bool hm_cache_kill(struct hm_cache *cache, uint32_t n, uint64_t begin, uint64_t end)
{
	struct hm_cache_entry *e = &cache->entry[n];
	uint64_t state = atomic_load(&e->state);

	for (;;) {
		enum hm_cache_phase phase = hm_cache_phase(state), next = HM_CACHE_DEAD;

		if (phase == HM_CACHE_PENDING)
			next = HM_CACHE_DOOMED;
		else if (phase != HM_CACHE_LIVE && phase != HM_CACHE_LEAVING)
			return false;
		/* the range is that of this generation, or the exchange fails */
		if (!overlaps(e, begin, end))
			return false;
		if (!atomic_compare_exchange_weak(&e->state, &state, hm_cache_state(state, next)))
			continue;
		/* who evicts it finds out; who registers it buries it */
		if (phase == HM_CACHE_LIVE)
			hm_cache_push_dead(cache, n);
		hm_cache_tally(cache, hm_cache_group(state), HM_CACHE_INVALIDATIONS, 1);
		hm_cache_probe(invalidate, cache, e, state);
		return true;
	}
}

static uint32_t kill_in_table(struct hm_cache *cache, struct hm_cache_table table, uint64_t hash,
			      uint64_t begin, uint64_t end)
{
	uint32_t killed = 0, word, tag = hm_cache_tag(hash);

	for (uint32_t at = hm_cache_home(hash, table);
	     (word = atomic_load_explicit(&table.word[at], memory_order_acquire)) != 0;
	     at = hm_cache_next(at, table))
		if (hm_cache_has_tag(word, tag))
			killed +=
				hm_cache_kill(cache, (word & HM_CACHE_WORD_ENTRY) - 1, begin, end);
	return killed;
}

/* One block, without missing a word that is being moved.  False: it always was. */
static bool kill_block(struct hm_cache *cache, uint64_t hash, uint64_t begin, uint64_t end,
		       uint32_t *killed)
{
	unsigned s = HM_CACHE_STRIPE(hash);
	struct hm_cache_stripe *stripe = &cache->stripe[s];

	for (unsigned i = 0; i < PATIENCE; i++) {
		uint32_t version = atomic_load(&stripe->version);
		struct hm_cache_table table = hm_cache_table(atomic_load(&cache->table[s]));

		if (version & 1) {
			sched_yield();
			continue;
		}
		if (table.word)
			*killed += kill_in_table(cache, table, hash, begin, end);
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load(&stripe->version) == version)
			return true;
	}
	return false;
}

/* Every entry there is: for large ranges, and where a stripe is not to be had. */
uint32_t hm_cache_kill_all(struct hm_cache *cache, uint64_t begin, uint64_t end)
{
	uint32_t entries, killed = 0;

	atomic_thread_fence(memory_order_seq_cst);
	entries = atomic_load(&cache->touched);
	for (uint32_t n = 0; n < entries; n++)
		if (overlaps(&cache->entry[n], begin, end))
			killed += hm_cache_kill(cache, n, begin, end);
	return killed;
}

/* ---- a change, of [begin, last] ---- */

struct change {
	uint64_t begin, last;
	uint32_t killed;
};

/* Entries of class k that begin in a granule.  False: a stripe is not to be had. */
static bool kill_class(struct hm_cache *cache, unsigned k, uint64_t granule, unsigned shift,
		       struct change *change)
{
	uint64_t first = change->begin >> k, last = change->last >> k;
	uint64_t low = granule << (shift - k), high = low + ((UINT64_C(1) << (shift - k)) - 1);

	first -= first != 0;
	first = first > low ? first : low;
	last = last < high ? last : high;
	for (uint64_t block = first; block <= last; block++)
		if (!kill_block(cache, hm_cache_hash(block, k), change->begin, change->last + 1,
				&change->killed))
			return false;
	return true;
}

/* Entries of a level.  False: all entries there are would be quicker. */
static bool kill_level(struct hm_cache *cache, unsigned level, uint64_t classes,
		       struct change *change)
{
	unsigned shift = granule_shift(level);
	uint64_t first = change->begin >> shift, last = change->last >> shift;

	first -= first != 0;
	if (last - first > atomic_load(&cache->touched) + 1)
		return false;
	for (uint64_t granule = first; granule <= last; granule++) {
		if (atomic_load(near_count(cache, level, granule)) == 0)
			continue;
		/* what was entered before the change was made known is found */
		atomic_thread_fence(memory_order_seq_cst);
		for (uint64_t left = classes; left; left &= left - 1)
			if (!kill_class(cache, (unsigned)__builtin_ctzll(left), granule, shift,
					change))
				return false;
	}
	return true;
}

uint32_t hm_cache_invalidate(struct hm_cache *cache, uint64_t begin, uint64_t end)
{
	uint64_t classes = atomic_load(&cache->classes);
	struct change change = { begin, end - 1, 0 };

	if (begin >= end)
		return 0;
	while (classes) {
		unsigned level = level_of((unsigned)__builtin_ctzll(classes));
		uint64_t mask = hm_cache_level((unsigned)__builtin_ctzll(classes));

		if (!kill_level(cache, level, classes & mask, &change))
			return change.killed + hm_cache_kill_all(cache, begin, end);
		classes &= ~mask;
	}
	return change.killed;
}
