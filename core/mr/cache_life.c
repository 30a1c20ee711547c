/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache's begin and end, what becomes of it in a child of fork(2), and what it counts. */
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "core/base/pages.h"
#include "core/mr/cache.h"

#define MOST_BYTES (UINT64_C(1) << 62) /* so that a size class has its bit */
#define PAGE	   4096u
#define HUGE_FROM  (UINT64_C(1) << 22) /* of entries: then a huge page is no more than they are */

/* ---- fork: every cache as it is between two calls ---- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* protects all; before every other */
static struct hm_cache *all;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
	pthread_mutex_lock(&all_lock);
	for (struct hm_cache *cache = all; cache; cache = cache->next) {
		pthread_mutex_lock(&cache->reap_lock);
		pthread_mutex_lock(&cache->wait_lock);
		for (unsigned s = 0; s < HM_CACHE_STRIPES; s++)
			hm_spin_lock(&cache->stripe[s].lock);
		hm_spin_lock(&cache->queue_lock);
	}
}

static void unlock(struct hm_cache *cache)
{
	hm_spin_unlock(&cache->queue_lock);
	for (unsigned s = 0; s < HM_CACHE_STRIPES; s++)
		hm_spin_unlock(&cache->stripe[s].lock);
	pthread_mutex_unlock(&cache->wait_lock);
	pthread_mutex_unlock(&cache->reap_lock);
}

static void after_fork_parent(void)
{
	for (struct hm_cache *cache = all; cache; cache = cache->next)
		unlock(cache);
	pthread_mutex_unlock(&all_lock);
}

static void after_fork_child(void)
{
	for (struct hm_cache *cache = all; cache; cache = cache->next) {
		/* found no more, and killed by the first miss: most children never have one */
		atomic_store(&cache->classes, 0);
		atomic_store(&cache->forked, true);
		/* who waited is not in this process */
		atomic_store(&cache->waiters, 0);
		pthread_cond_init(&cache->settled, NULL);
		unlock(cache);
	}
	pthread_mutex_unlock(&all_lock);
}

static void prepare(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static void add_to_all(struct hm_cache *cache)
{
	pthread_mutex_lock(&all_lock);
	cache->next = all;
	all = cache;
	pthread_mutex_unlock(&all_lock);
}

static void remove_from_all(const struct hm_cache *cache)
{
	struct hm_cache **at = &all;

	pthread_mutex_lock(&all_lock);
	while (*at != cache)
		at = &(*at)->next;
	*at = cache->next;
	pthread_mutex_unlock(&all_lock);
}

/* ---- begin and end ---- */

/* Entries, and behind them the counts of what begins where. */
static size_t entries_bytes(const struct hm_cache *cache)
{
	return (cache->max_count * sizeof(struct hm_cache_entry) + PAGE - 1) / PAGE * PAGE;
}

static size_t memory_bytes(const struct hm_cache *cache)
{
	return entries_bytes(cache) + hm_cache_near_size(cache->max_count) * sizeof(uint32_t) +
	       HM_CACHE_HINT_BYTES;
}

/* Large caches are looked up all over: what is far in is in huge pages, where there are any. */
static void use_huge_pages(const struct hm_cache *cache)
{
	if (entries_bytes(cache) > HUGE_FROM)
		hm_pages_huge((char *)cache->entry + HUGE_FROM, entries_bytes(cache) - HUGE_FROM);
}

static int take_numbers(struct hm_cache *cache)
{
	int ret = hm_held_take_range((uint32_t)cache->max_count + HM_CACHE_TALLY_NUMBERS,
				     &cache->first_tally);

	if (ret != 0)
		return ret;
	cache->first_number = cache->first_tally + HM_CACHE_TALLY_NUMBERS;
	for (uint32_t i = 0; i < HM_CACHE_GROUPS * HM_CACHE_TALLIES; i++)
		cache->base[i] = hm_tally_sum(cache->first_tally + i * 2);
	return 0;
}

int hm_cache_init(struct hm_cache *cache, const struct hm_cache_ops *ops, void *context,
		  uint64_t max_count, uint64_t max_bytes)
{
	char *memory;
	int ret;

	memset(cache, 0, sizeof(*cache));
	cache->ops = *ops;
	cache->context = context;
	cache->max_bytes = max_bytes < MOST_BYTES ? max_bytes : MOST_BYTES;
	cache->max_count = max_count < HM_HELD_NUMBERS / 2 ? max_count : HM_HELD_NUMBERS / 2;
	if (max_bytes == 0)
		cache->max_count = 0;
	atomic_store(&cache->clock, 1);
	/* a cache that keeps nothing counts all the same */
	ret = take_numbers(cache);
	if (ret != 0)
		return ret;
	memory = hm_pages_map(memory_bytes(cache), PROT_READ | PROT_WRITE);
	if (!memory) {
		hm_held_give_range(cache->first_tally);
		return -FI_ENOMEM;
	}
	cache->entry = (struct hm_cache_entry *)(void *)memory;
	cache->near = (_Atomic uint32_t *)(void *)(memory + entries_bytes(cache));
	cache->near_mask = hm_cache_near_size(cache->max_count) - 1;
	cache->hint = cache->near + cache->near_mask + 1;
	use_huge_pages(cache);
	pthread_mutex_init(&cache->reap_lock, NULL);
	pthread_mutex_init(&cache->wait_lock, NULL);
	pthread_cond_init(&cache->settled, NULL);
	pthread_once(&once, prepare);
	add_to_all(cache);
	return 0;
}

int hm_cache_destroy(struct hm_cache *cache)
{
	if (atomic_load(&cache->forked))
		hm_cache_kill_all(cache, 0, UINT64_MAX);
	hm_cache_evict(cache, UINT32_MAX);
	if (hm_cache_reap(cache) != 0 || atomic_load(&cache->count) != 0)
		return -FI_EBUSY;
	remove_from_all(cache);
	hm_held_give_range(cache->first_tally);
	munmap(cache->entry, memory_bytes(cache));
	hm_cache_table_destroy(cache);
	pthread_cond_destroy(&cache->settled);
	pthread_mutex_destroy(&cache->wait_lock);
	pthread_mutex_destroy(&cache->reap_lock);
	return 0;
}

/* ---- counts ---- */

static uint64_t sum(const struct hm_cache *cache, uint32_t group, enum hm_cache_tally what)
{
	uint32_t i = group * HM_CACHE_TALLIES + what;

	return hm_tally_sum(cache->first_tally + i * 2) - cache->base[i];
}

/* Of what comes and goes: the sum may miss a coming, and have its going. */
static uint64_t level(const struct hm_cache *cache, uint32_t group, enum hm_cache_tally what)
{
	uint64_t n = sum(cache, group, what);

	return n <= INT64_MAX ? n : 0;
}

static void add_group(const struct hm_cache *cache, uint32_t group, struct hm_cache_counts *counts)
{
	counts->hits += sum(cache, group, HM_CACHE_HITS);
	counts->misses += sum(cache, group, HM_CACHE_MISSES);
	counts->unkept += sum(cache, group, HM_CACHE_UNKEPT);
	counts->evictions += sum(cache, group, HM_CACHE_EVICTIONS);
	counts->invalidations += sum(cache, group, HM_CACHE_INVALIDATIONS);
	counts->entries += level(cache, group, HM_CACHE_ENTRIES);
	counts->bytes += level(cache, group, HM_CACHE_BYTES);
}

void hm_cache_count(struct hm_cache *cache, uint32_t group, struct hm_cache_counts *counts)
{
	*counts = (struct hm_cache_counts){ .hits = 0 };
	if (group != HM_CACHE_ALL) {
		add_group(cache, group, counts);
		return;
	}
	for (group = 0; group < HM_CACHE_GROUPS; group++)
		add_group(cache, group, counts);
	counts->entries = atomic_load(&cache->count);
	counts->bytes = atomic_load(&cache->bytes);
}
