/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache's limits, and what ends for them: the queue by last use, and eviction. */
#include "core/mr/cache.h"

#define BATCH	   256u /* entries that one barrier is for, at most */
#define SMALL	   128u /* a cache of fewer entries is evicted one by one, others by this share of it: */
#define SHARE	   32u
#define QUEUE_WALK 64u	/* steps to the place of an entry that was used */
#define LOOKS	   512u /* at entries, while the queue is locked */

/* ---- the queue: least recently used first; queue lock held ---- */

static uint32_t used_at(const struct hm_cache_entry *e)
{
	return atomic_load_explicit(&e->used, memory_order_relaxed) & ~HM_CACHE_SORTED;
}

/* Behind entry before (+ 1; 0: at the beginning). */
static void link_after(struct hm_cache *cache, uint32_t n, uint32_t before)
{
	struct hm_cache_entry *e = &cache->entry[n];
	uint32_t after = before ? cache->entry[before - 1].next : cache->first;

	e->prev = before;
	e->next = after;
	if (before)
		cache->entry[before - 1].next = n + 1;
	else
		cache->first = n + 1;
	if (after)
		cache->entry[after - 1].prev = n + 1;
	else
		cache->last = n + 1;
}

static void queue_remove(struct hm_cache *cache, uint32_t n)
{
	struct hm_cache_entry *e = &cache->entry[n];

	if (e->prev == HM_CACHE_UNQUEUED)
		return;
	if (e->prev)
		cache->entry[e->prev - 1].next = e->next;
	else
		cache->first = e->next;
	if (e->next)
		cache->entry[e->next - 1].prev = e->prev;
	else
		cache->last = e->prev;
	e->prev = HM_CACHE_UNQUEUED;
}

/* Put an entry where its last use, at that time, belongs. */
static void queue_sort(struct hm_cache *cache, uint32_t n, uint32_t time)
{
	uint32_t before;

	atomic_store_explicit(&cache->entry[n].used, time | HM_CACHE_SORTED, memory_order_relaxed);
	queue_remove(cache, n);
	before = cache->last;
	for (unsigned i = 0; before && i < QUEUE_WALK; i++) {
		/* the clock wraps after 2^31 ticks */
		if ((int32_t)((used_at(&cache->entry[before - 1]) - time) << 1) <= 0)
			break;
		before = cache->entry[before - 1].prev;
	}
	link_after(cache, n, before);
}

static void queue_last(struct hm_cache *cache, uint32_t n)
{
	queue_sort(cache, n, atomic_load_explicit(&cache->clock, memory_order_relaxed));
}

/* ---- the limits ---- */

bool hm_cache_has_room(struct hm_cache *cache, uint64_t bytes)
{
	return atomic_load_explicit(&cache->count, memory_order_relaxed) < cache->max_count &&
	       bytes <=
		       cache->max_bytes - atomic_load_explicit(&cache->bytes, memory_order_relaxed);
}

/* Queue lock held. */
static void count_up(struct hm_cache *cache, uint64_t count, uint64_t bytes)
{
	uint64_t now = atomic_load_explicit(&cache->count, memory_order_relaxed);

	atomic_store_explicit(&cache->count, now + count, memory_order_relaxed);
	now = atomic_load_explicit(&cache->bytes, memory_order_relaxed);
	atomic_store_explicit(&cache->bytes, now + bytes, memory_order_relaxed);
}

/* The clock ticks for each miss, or, in large caches, for some: hits write it in every entry.  Queue lock held. */
static void tick(struct hm_cache *cache)
{
	uint32_t step =
		(uint32_t)atomic_load_explicit(&cache->count, memory_order_relaxed) / 64 + 1;

	if (++cache->ticks % step == 0)
		atomic_store_explicit(&cache->clock, cache->ticks & ~HM_CACHE_SORTED,
				      memory_order_relaxed);
}

bool hm_cache_take_entry(struct hm_cache *cache, uint64_t bytes, uint32_t *n)
{
	bool room;

	hm_spin_lock(&cache->queue_lock);
	room = hm_cache_has_room(cache, bytes);
	if (room) {
		count_up(cache, 1, bytes);
		tick(cache);
		if (cache->free_head != 0) {
			*n = cache->free_head - 1;
			cache->free_head = cache->entry[*n].next;
		} else {
			*n = cache->next_entry++;
			cache->entry[*n].prev = HM_CACHE_UNQUEUED;
			atomic_store_explicit(&cache->touched, *n + 1, memory_order_release);
		}
		queue_last(cache, *n);
	}
	hm_spin_unlock(&cache->queue_lock);
	return room;
}

void hm_cache_give_entry(struct hm_cache *cache, uint32_t n, uint64_t bytes)
{
	struct hm_cache_entry *e = &cache->entry[n];
	uint64_t state = atomic_load(&e->state), next;

	/* a change may be killing it still */
	do {
		next = (state & ~(HM_CACHE_GENERATION - 1)) + HM_CACHE_GENERATION + HM_CACHE_FREE;
	} while (!atomic_compare_exchange_weak(&e->state, &state, next));
	hm_spin_lock(&cache->queue_lock);
	queue_remove(cache, n);
	e->next = cache->free_head;
	cache->free_head = n + 1;
	count_up(cache, UINT64_MAX, 0 - bytes);
	hm_spin_unlock(&cache->queue_lock);
}

/* ---- eviction ---- */

/* The queue's first entry is not to be evicted, or picked; in each case it is not the first any more. */
static bool pick_first(struct hm_cache *cache, uint32_t n)
{
	struct hm_cache_entry *e = &cache->entry[n];
	uint64_t state = atomic_load_explicit(&e->state, memory_order_relaxed);
	enum hm_cache_phase phase = hm_cache_phase(state);

	if (phase == HM_CACHE_DEAD || phase == HM_CACHE_DOOMED) {
		queue_remove(cache, n);
	} else if (phase == HM_CACHE_LIVE &&
		   !(atomic_load_explicit(&e->used, memory_order_relaxed) & HM_CACHE_SORTED)) {
		queue_sort(cache, n, used_at(e));
	} else if (phase != HM_CACHE_LIVE || hm_held_sum(cache->first_number + n) != 0) {
		queue_last(cache, n); /* in use now */
	} else if (atomic_compare_exchange_strong(&e->state, &state,
						  hm_cache_state(state, HM_CACHE_LEAVING))) {
		queue_remove(cache, n);
		return true;
	}
	return false;
}

/* LEAVING entries out of the queue's beginning, not held as far as can be told. */
static uint32_t pick(struct hm_cache *cache, uint32_t *picked, uint32_t most)
{
	uint64_t looks = atomic_load_explicit(&cache->count, memory_order_relaxed) * 2 + 1;
	uint32_t count = 0;

	while (looks > 0 && count < most) {
		hm_spin_lock(&cache->queue_lock);
		for (unsigned i = 0; i < LOOKS && looks > 0 && count < most && cache->first; i++) {
			uint32_t n = cache->first - 1;

			looks--;
			if (pick_first(cache, n))
				picked[count++] = n;
		}
		if (!cache->first)
			looks = 0;
		hm_spin_unlock(&cache->queue_lock);
	}
	return count;
}

/* It is held after all: in the queue again before it is LIVE, since it may end then. */
static void stay(struct hm_cache *cache, uint32_t n)
{
	struct hm_cache_entry *e = &cache->entry[n];
	uint64_t state = atomic_load(&e->state);

	hm_spin_lock(&cache->queue_lock);
	queue_last(cache, n);
	hm_spin_unlock(&cache->queue_lock);
	if (hm_cache_phase(state) != HM_CACHE_LEAVING ||
	    !atomic_compare_exchange_strong(&e->state, &state,
					    hm_cache_state(state, HM_CACHE_LIVE)))
		hm_cache_push_dead(cache, n); /* killed meanwhile */
}

uint32_t hm_cache_evict_batch(struct hm_cache *cache, uint32_t most)
{
	uint32_t picked[BATCH], ready[BATCH], left = 0, count;
	bool told;

	count = pick(cache, picked, most < BATCH ? most : BATCH);
	if (count == 0)
		return 0;
	told = hm_held_barrier();
	for (uint32_t i = 0; i < count; i++) {
		struct hm_cache_entry *e = &cache->entry[picked[i]];
		uint64_t state = atomic_load(&e->state);

		if (!told || hm_held_sum(cache->first_number + picked[i]) != 0) {
			stay(cache, picked[i]);
			continue;
		}
		if (hm_cache_phase(state) == HM_CACHE_LEAVING &&
		    atomic_compare_exchange_strong(&e->state, &state,
						   hm_cache_state(state, HM_CACHE_DEAD))) {
			hm_cache_tally(cache, hm_cache_group(state), HM_CACHE_EVICTIONS, 1);
			hm_cache_probe(evict, cache, e, state);
		}
		ready[left++] = picked[i];
	}
	hm_cache_push_ready(cache, ready, left);
	return left;
}

uint32_t hm_cache_evict(struct hm_cache *cache, uint32_t most)
{
	uint32_t ended = 0, batch;

	do {
		batch = hm_cache_evict_batch(cache, most - ended);
		ended += hm_cache_end_ready(cache, batch);
	} while (ended < most && batch > 0);
	return ended;
}

static uint32_t share(const struct hm_cache *cache)
{
	uint64_t count = atomic_load_explicit(&cache->count, memory_order_relaxed);

	return count < SMALL ? 1 : (uint32_t)(count / SHARE);
}

bool hm_cache_make_room(struct hm_cache *cache, uint64_t bytes)
{
	while (!hm_cache_has_room(cache, bytes))
		if (hm_cache_end_ready(cache, 1) == 0 && hm_cache_collect(cache, false) == 0 &&
		    hm_cache_evict_batch(cache, share(cache)) == 0)
			return hm_cache_has_room(cache, bytes);
	return true;
}
