/* SPDX-License-Identifier: BSD-2-Clause */
/* How registrations that the cache does not keep any more end. */
#include <stdlib.h>

#include "core/base/cancel.h"
#include "core/base/log.h"
#include "core/mr/cache.h"

#define SOME	   16u /* dead entries that a miss looks at */
#define HELD_LOOKS 64u /* at those that were held, if there are no others */

void hm_cache_free_entry(struct hm_cache *cache, uint32_t n)
{
	struct hm_cache_entry *e = &cache->entry[n];
	uint64_t hash = hm_cache_entry_hash(e), bytes = hm_cache_bytes(e);
	uint32_t group = hm_cache_group(atomic_load_explicit(&e->state, memory_order_relaxed));
	struct hm_cache_stripe *stripe = &cache->stripe[HM_CACHE_STRIPE(hash)];

	hm_spin_lock(&stripe->lock);
	hm_cache_table_leave(cache, hash, n);
	hm_spin_unlock(&stripe->lock);
	hm_cache_near_add(cache, e, UINT32_MAX);
	hm_cache_tally(cache, group, HM_CACHE_ENTRIES, UINT64_MAX);
	hm_cache_tally(cache, group, HM_CACHE_BYTES, 0 - bytes);
	hm_cache_give_entry(cache, n, bytes);
}

/* ---- lists ---- */

void hm_cache_push_dead(struct hm_cache *cache, uint32_t n)
{
	uint32_t head = atomic_load_explicit(&cache->dead, memory_order_relaxed);

	/* taken as a whole only: an entry that is the head again is the head */
	do {
		cache->entry[n].list_next = head;
	} while (!atomic_compare_exchange_weak_explicit(
		&cache->dead, &head, n + 1, memory_order_release, memory_order_relaxed));
}

void hm_cache_push_ready(struct hm_cache *cache, const uint32_t *n, uint32_t count)
{
	if (count == 0)
		return;
	hm_spin_lock(&cache->queue_lock);
	/* so that the first of them comes out first */
	for (uint32_t i = count; i-- > 0;) {
		cache->entry[n[i]].list_next = cache->ready;
		cache->ready = n[i] + 1;
	}
	hm_spin_unlock(&cache->queue_lock);
}

/* Entry + 1; 0: there is none. */
static uint32_t pop_ready(struct hm_cache *cache)
{
	uint32_t head;

	hm_spin_lock(&cache->queue_lock);
	head = cache->ready;
	if (head)
		cache->ready = cache->entry[head - 1].list_next;
	hm_spin_unlock(&cache->queue_lock);
	return head;
}

static void push_refused(struct hm_cache *cache, uint32_t n)
{
	hm_spin_lock(&cache->queue_lock);
	cache->entry[n].list_next = cache->refused;
	cache->refused = n + 1;
	cache->refused_count++;
	hm_spin_unlock(&cache->queue_lock);
}

/* What remove refused is ready for another try. */
static void retry_refused(struct hm_cache *cache)
{
	hm_spin_lock(&cache->queue_lock);
	while (cache->refused) {
		struct hm_cache_entry *e = &cache->entry[cache->refused - 1];
		uint32_t next = e->list_next;

		e->list_next = cache->ready;
		cache->ready = cache->refused;
		cache->refused = next;
	}
	cache->refused_count = 0;
	hm_spin_unlock(&cache->queue_lock);
}

/* ---- from dead to cool, from cool to ready, from ready to free ---- */

/* What is dead cools, if nothing else does.  reap_lock held.  False: nothing does, or the kernel refuses the barrier. */
static bool cool_dead(struct hm_cache *cache)
{
	uint32_t dead, next;

	if (cache->cool)
		return true;
	dead = atomic_exchange_explicit(&cache->dead, 0, memory_order_acquire);
	if (!dead || hm_held_barrier()) {
		/* as it is: to walk through all of them is not for one miss to do */
		cache->cool = dead;
		return dead != 0;
	}
	for (; dead; dead = next) {
		next = cache->entry[dead - 1].list_next;
		hm_cache_push_dead(cache, dead - 1);
	}
	return false;
}

/* The first of a list, which is not held any more; or it is in the list of held ones now, and 0.  reap_lock held. */
static uint32_t sift_first(struct hm_cache *cache, uint32_t *list)
{
	uint32_t first = *list;
	struct hm_cache_entry *e = &cache->entry[first - 1];

	*list = e->list_next;
	if (hm_held_sum(cache->first_number + first - 1) == 0)
		return first;
	/* to the end, so that each has its turn */
	e->list_next = 0;
	if (cache->held_count++ == 0)
		cache->held = first;
	else
		cache->entry[cache->held_last - 1].list_next = first;
	cache->held_last = first;
	return 0;
}

/* Look at that many, of those that cool first.  reap_lock held. */
static uint32_t sift(struct hm_cache *cache, uint32_t looks)
{
	uint32_t ready[SOME], count = 0, all = 0, held = cache->held_count;

	for (; looks > 0 && (cache->cool || held > 0); looks--) {
		bool cool = cache->cool != 0;
		uint32_t n;

		if (!cool) {
			held--;
			cache->held_count--;
		}
		n = sift_first(cache, cool ? &cache->cool : &cache->held);
		if (n == 0)
			continue;
		ready[count++] = n - 1;
		all++;
		if (count == SOME) {
			hm_cache_push_ready(cache, ready, count);
			count = 0;
		}
	}
	hm_cache_push_ready(cache, ready, count);
	return all;
}

uint32_t hm_cache_collect(struct hm_cache *cache, bool all)
{
	int cancel = hm_cancel_off();
	uint32_t count;

	pthread_mutex_lock(&cache->reap_lock);
	count = sift(cache, all ? UINT32_MAX : SOME);
	/* those that are held are not cool ones any more, so this ends */
	while ((all || count == 0) && cool_dead(cache))
		count += sift(cache, all ? UINT32_MAX : SOME);
	if (count == 0 && !all)
		count = sift(cache, HELD_LOOKS);
	pthread_mutex_unlock(&cache->reap_lock);
	hm_cancel_restore(cancel);
	return count;
}

uint32_t hm_cache_end_ready(struct hm_cache *cache, uint32_t most)
{
	int cancel = hm_cancel_off();
	uint32_t ended = 0, head;

	while (ended < most && (head = pop_ready(cache)) != 0) {
		if (cache->ops.remove(cache->context, cache->entry[head - 1].data) != 0) {
			push_refused(cache, head - 1);
			continue;
		}
		hm_cache_free_entry(cache, head - 1);
		ended++;
	}
	hm_cancel_restore(cancel);
	return ended;
}

/* ---- registrations without an entry that remove refused ---- */

struct hm_cache_orphan {
	struct hm_cache_orphan *next;
	void *data;
};

static void push_orphan(struct hm_cache *cache, struct hm_cache_orphan *orphan)
{
	int cancel = hm_cancel_off();

	pthread_mutex_lock(&cache->wait_lock);
	orphan->next = cache->orphans;
	cache->orphans = orphan;
	pthread_mutex_unlock(&cache->wait_lock);
	hm_cancel_restore(cancel);
}

void hm_cache_adopt(struct hm_cache *cache, void *data)
{
	struct hm_cache_orphan *orphan = malloc(sizeof(*orphan));

	if (!orphan) {
		HM_WARN(FI_LOG_MR,
			"no memory to try again to end a registration: it stays until the "
			"domain is closed");
		return;
	}
	orphan->data = data;
	push_orphan(cache, orphan);
}

static uint32_t end_orphans(struct hm_cache *cache)
{
	struct hm_cache_orphan *orphan, *next;
	uint32_t left = 0;
	int cancel = hm_cancel_off();

	pthread_mutex_lock(&cache->wait_lock);
	orphan = cache->orphans;
	cache->orphans = NULL;
	pthread_mutex_unlock(&cache->wait_lock);
	hm_cancel_restore(cancel);
	for (; orphan; orphan = next) {
		next = orphan->next;
		if (cache->ops.remove(cache->context, orphan->data) == 0) {
			free(orphan);
			continue;
		}
		push_orphan(cache, orphan);
		left++;
	}
	return left;
}

uint32_t hm_cache_reap(struct hm_cache *cache)
{
	uint32_t left;
	int cancel = hm_cancel_off();

	retry_refused(cache);
	hm_cache_collect(cache, true);
	hm_cache_end_ready(cache, UINT32_MAX);
	left = end_orphans(cache);
	pthread_mutex_lock(&cache->reap_lock);
	left += cache->held_count;
	pthread_mutex_unlock(&cache->reap_lock);
	hm_spin_lock(&cache->queue_lock);
	left += cache->refused_count;
	hm_spin_unlock(&cache->queue_lock);
	hm_cancel_restore(cancel);
	return left;
}
