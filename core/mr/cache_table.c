/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache's hash table: open addressing in stripes with a lock each.  A word that leaves is filled by moving
 * later ones up, so that tables do not fill with marks; a reader without the lock may miss a word that is
 * being moved, and looks again under the lock, or at the stripe's version.
 */
#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "core/base/pages.h"
#include "core/mr/cache.h"

#define FIRST_LOG (32 - HM_CACHE_SMALLEST) /* of the words of the smallest table */
#define PAGE	  ((uintptr_t)4096)
#define HUGE_FROM (2 * HM_HUGE_PAGE) /* bytes of all tables of a size */

uint64_t hm_cache_entry_hash(const struct hm_cache_entry *e)
{
	uint64_t begin = atomic_load_explicit(&e->begin, memory_order_relaxed);
	unsigned k = hm_cache_class(atomic_load_explicit(&e->end, memory_order_relaxed) - begin);

	return hm_cache_hash(begin >> k, k);
}

static void place(struct hm_cache_table table, uint64_t hash, uint32_t n)
{
	uint32_t at = hm_cache_home(hash, table);

	while (atomic_load_explicit(&table.word[at], memory_order_relaxed) != 0)
		at = hm_cache_next(at, table);
	/* whoever finds the word sees the entry as it is */
	atomic_store_explicit(&table.word[at], hm_cache_tag(hash) | (n + 1), memory_order_release);
}

/* Up to a half: then a group of words at home seldom overflows.  The smallest: few are not the first there. */
static bool has_room(struct hm_cache_table table, uint32_t count)
{
	uint32_t share = table.shift == HM_CACHE_SMALLEST ? 4 : 2;

	return table.word && count < hm_cache_mask(table) / share;
}

bool hm_cache_table_enter(struct hm_cache *cache, uint64_t hash, uint32_t n)
{
	struct hm_cache_stripe *stripe = &cache->stripe[HM_CACHE_STRIPE(hash)];
	struct hm_cache_table table = hm_cache_table_of(cache, hash);

	if (!has_room(table, stripe->count))
		return false;
	place(table, hash, n);
	stripe->count++;
	return true;
}

static uint32_t entry_of(uint32_t word)
{
	return (word & HM_CACHE_WORD_ENTRY) - 1;
}

static void begin_move(struct hm_cache_stripe *stripe)
{
	atomic_fetch_add_explicit(&stripe->version, 1, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
}

static void end_move(struct hm_cache_stripe *stripe)
{
	atomic_fetch_add_explicit(&stripe->version, 1, memory_order_release);
}

/* Words behind a gap move into it, if that is not before their home. */
static void close_gap(const struct hm_cache *cache, struct hm_cache_table table, uint32_t gap)
{
	uint32_t at = gap;

	for (;;) {
		uint32_t word, home;

		at = hm_cache_next(at, table);
		word = atomic_load_explicit(&table.word[at], memory_order_relaxed);
		if (word == 0)
			break;
		home = hm_cache_home(hm_cache_entry_hash(&cache->entry[entry_of(word)]), table);
		if (((at - home) & hm_cache_mask(table)) < ((at - gap) & hm_cache_mask(table)))
			continue;
		atomic_store_explicit(&table.word[gap], word, memory_order_release);
		gap = at;
	}
	atomic_store_explicit(&table.word[gap], 0, memory_order_release);
}

void hm_cache_table_leave(struct hm_cache *cache, uint64_t hash, uint32_t n)
{
	struct hm_cache_stripe *stripe = &cache->stripe[HM_CACHE_STRIPE(hash)];
	struct hm_cache_table table = hm_cache_table_of(cache, hash);
	uint32_t at = hm_cache_home(hash, table);

	while (entry_of(atomic_load_explicit(&table.word[at], memory_order_relaxed)) != n)
		at = hm_cache_next(at, table);
	begin_move(stripe);
	close_gap(cache, table, at);
	end_move(stripe);
	stripe->count--;
}

/* ---- memory: the tables of all stripes that have the same size are side by side ---- */

static size_t table_bytes(unsigned size)
{
	return sizeof(uint32_t) << (FIRST_LOG + size);
}

static char *block_of(struct hm_cache *cache, unsigned size)
{
	size_t bytes = table_bytes(size) * HM_CACHE_STRIPES;
	char *block = atomic_load_explicit(&cache->block[size], memory_order_acquire), *made;

	if (block)
		return block;
	made = hm_pages_map(bytes, PROT_READ | PROT_WRITE);
	if (made && bytes >= HUGE_FROM)
		hm_pages_huge(made, bytes);
	if (made && !atomic_compare_exchange_strong(&cache->block[size], &block, made)) {
		munmap(made, bytes);
		made = block;
	}
	return made;
}

/*
 * A stripe has a larger table than that of this size.  Its memory goes, as far as it has pages of its own,
 * and that of the others with the last of them; who still reads it finds no words there, and looks at
 * the new one.
 */
static void leave_size(struct hm_cache *cache, unsigned size, unsigned s)
{
	char *block = atomic_load_explicit(&cache->block[size], memory_order_acquire);
	size_t bytes = table_bytes(size);

	if (atomic_fetch_add(&cache->left[size], 1) + 1 == HM_CACHE_STRIPES)
		madvise(block, bytes * HM_CACHE_STRIPES, MADV_DONTNEED);
	else if (bytes >= PAGE)
		madvise(block + bytes * s, bytes, MADV_DONTNEED);
}

static void copy(const struct hm_cache *cache, struct hm_cache_table from, struct hm_cache_table to)
{
	for (uint32_t i = 0; i <= hm_cache_mask(from); i++) {
		uint32_t word = atomic_load_explicit(&from.word[i], memory_order_relaxed);

		if (word != 0)
			place(to, hm_cache_entry_hash(&cache->entry[entry_of(word)]),
			      entry_of(word));
	}
}

int hm_cache_table_grow(struct hm_cache *cache, unsigned s)
{
	struct hm_cache_stripe *stripe = &cache->stripe[s];
	uint64_t old = atomic_load_explicit(&cache->table[s], memory_order_acquire), table;
	unsigned size = old ? hm_cache_table_log(old) + 1 - FIRST_LOG : 0;
	char *block = size < HM_CACHE_TABLE_SIZES ? block_of(cache, size) : NULL;
	bool late;

	if (!block)
		return -FI_ENOMEM;
	table = hm_cache_pack_table(block + table_bytes(size) * s, FIRST_LOG + size);
	hm_spin_lock(&stripe->lock);
	late = atomic_load_explicit(&cache->table[s], memory_order_relaxed) != old;
	if (!late) {
		if (old)
			copy(cache, hm_cache_table(old), hm_cache_table(table));
		begin_move(stripe);
		atomic_store_explicit(&cache->table[s], table, memory_order_release);
		end_move(stripe);
	}
	hm_spin_unlock(&stripe->lock);
	if (!late && old)
		leave_size(cache, size - 1, s);
	return 0;
}

void hm_cache_table_destroy(struct hm_cache *cache)
{
	for (unsigned size = 0; size < HM_CACHE_TABLE_SIZES; size++) {
		char *block = atomic_load(&cache->block[size]);

		if (block)
			munmap(block, table_bytes(size) * HM_CACHE_STRIPES);
	}
}
