/* SPDX-License-Identifier: BSD-2-Clause */
/* The registration cache: get and put.  cache.h explains it. */
#include "core/mr/cache.h"

#include <assert.h>

#include <rdma/fi_errno.h>

#include "core/base/cancel.h"
#include "core/mr/changes.h"

#define PRESSURE_TRIES 3u /* registrations that fail for want of memory evict and are tried again */

/* ---- hits ---- */

static inline void note_use(const struct hm_cache *cache, struct hm_cache_entry *e)
{
	uint32_t now = atomic_load_explicit(&cache->clock, memory_order_relaxed);

	if (__builtin_expect(atomic_load_explicit(&e->used, memory_order_relaxed) != now, 0))
		atomic_store_explicit(&e->used, now, memory_order_relaxed);
}

/* Entry n - 1, if it will do.  0: no. */
static inline uint32_t look_at(const struct hm_cache *cache, const struct hm_cache_key *key,
			       uint32_t n, uint64_t *state)
{
	if (n == 0)
		return 0;
	*state = atomic_load_explicit(&cache->entry[n - 1].state, memory_order_acquire);
	if (hm_cache_phase(*state) != HM_CACHE_LIVE ||
	    !hm_cache_satisfies(&cache->entry[n - 1], key))
		return 0;
	return n;
}

/* An entry that will do, and its state; what is at hand of the table's words decides.  0: none. */
static uint32_t look(const struct hm_cache *cache, const struct hm_cache_key *key, uint64_t hash,
		     uint64_t *state)
{
	struct hm_cache_table table = hm_cache_table_of(cache, hash);
	uint32_t word, tag = hm_cache_tag(hash);

	if (!table.word)
		return 0;
	for (uint32_t at = hm_cache_home(hash, table);
	     (word = atomic_load_explicit(&table.word[at], memory_order_acquire)) != 0;
	     at = hm_cache_next(at, table)) {
		uint32_t n = word & HM_CACHE_WORD_ENTRY;

		if (hm_cache_has_tag(word, tag) && look_at(cache, key, n, state))
			return n;
	}
	return 0;
}

/*
 * The number of a word's entry, if that has the tag, or else no less than HM_CACHE_WORD_ENTRY; or other, if
 * that is less.  No branch, which would be guessed wrong.
 */
static inline uint32_t choose(const _Atomic uint32_t *at, uint32_t tag, uint32_t other)
{
	uint32_t n = atomic_load_explicit(at, memory_order_acquire) - tag - 1;

	return n < other ? n : other;
}

/* The same as look, among the words at home alone, where most are. */
static inline __attribute__((always_inline)) uint32_t look_home(const struct hm_cache *cache,
								const struct hm_cache_key *key,
								uint64_t hash, uint64_t *state)
{
	struct hm_cache_table table = hm_cache_table_of(cache, hash);
	uint32_t n = HM_CACHE_WORD_ENTRY, tag = hm_cache_tag(hash);

	if (__builtin_expect(!table.word, 0))
		return 0;
	table.word += hm_cache_home(hash, table);
	n = choose(&table.word[0], tag, n);
	/* in the smallest tables it is the first one so often that a branch is guessed right */
	if (table.shift < HM_CACHE_SMALLEST || __builtin_expect(n == HM_CACHE_WORD_ENTRY, 0)) {
		n = choose(&table.word[1], tag, n);
		n = choose(&table.word[2], tag, n);
		n = choose(&table.word[3], tag, n);
	}
	return n < HM_CACHE_WORD_ENTRY ? look_at(cache, key, n + 1, state) : 0;
}

/* What was entered last where this range begins; the largest first, whose hints are fewer. */
static uint32_t look_hints(const struct hm_cache *cache, const struct hm_cache_key *key,
			   uint64_t classes, uint64_t *state)
{
	uint32_t n = 0;

	for (unsigned sort = HM_CACHE_HINT_SORTS; n == 0 && sort-- > 0;) {
		unsigned shift = hm_cache_hint_shift(sort);
		const _Atomic uint32_t *hint = hm_cache_hint(cache, sort, key->begin >> shift);

		/* none is of this sort: their lines are not fetched */
		if (classes >> shift <= 1)
			continue;
		n = look_at(cache, key, atomic_load_explicit(&hint[0], memory_order_relaxed),
			    state);
		if (n == 0)
			n = look_at(cache, key,
				    atomic_load_explicit(&hint[1], memory_order_relaxed), state);
	}
	return n;
}

/* This thread holds entry n: if it still is what its state said, that is a hit. */
static inline bool take(struct hm_cache *cache, uint32_t n, uint64_t state,
			struct hm_cache_hold *hold)
{
	struct hm_cache_entry *e = &cache->entry[n];

	if (__builtin_expect(atomic_load_explicit(&e->state, memory_order_acquire) != state, 0))
		return false;
	hm_tally_held(hm_cache_tally_number(cache, hm_cache_group(state), HM_CACHE_HITS), 1);
	note_use(cache, e);
	*hold = (struct hm_cache_hold){ e->data, n };
	return true;
}

static bool hit_block(struct hm_cache *cache, const struct hm_cache_key *key, uint64_t hash,
		      struct hm_cache_hold *hold)
{
	uint64_t state;
	uint32_t n;

	while ((n = look(cache, key, hash, &state)) != 0) {
		if (!hm_hold(cache->first_number + n - 1))
			return false;
		if (take(cache, n - 1, state, hold))
			return true;
		hm_drop(cache->first_number + n - 1);
	}
	return false;
}

static bool hit_hint(struct hm_cache *cache, const struct hm_cache_key *key,
		     struct hm_cache_hold *hold)
{
	unsigned k = hm_cache_class(key->end - key->begin);
	uint64_t classes, state;
	uint32_t n;

	/* in the child of a fork, too, there is nothing to be found at first */
	classes = atomic_load_explicit(&cache->classes, memory_order_acquire);
	if (classes >> k == 0)
		return false;
	n = look_hints(cache, key, classes, &state);
	if (n == 0 || !hm_hold(cache->first_number + n - 1))
		return false;
	if (take(cache, n - 1, state, hold))
		return true;
	hm_drop(cache->first_number + n - 1);
	return false;
}

/* A range of class c that holds this one begins in its block or in the one before. */
static bool hit_class(struct hm_cache *cache, const struct hm_cache_key *key, unsigned c,
		      struct hm_cache_hold *hold)
{
	uint64_t block = key->begin >> c;

	/* a single page holds nothing of the next block */
	return hit_block(cache, key, hm_cache_hash(block, c), hold) ||
	       (c > HM_CACHE_MIN_CLASS && hit_block(cache, key, hm_cache_hash(block - 1, c), hold));
}

/* All places where it may be. */
static bool hit(struct hm_cache *cache, const struct hm_cache_key *key, struct hm_cache_hold *hold)
{
	unsigned k = hm_cache_class(key->end - key->begin);
	uint64_t classes = atomic_load_explicit(&cache->classes, memory_order_relaxed) >> k << k;

	while (classes) {
		uint64_t level = hm_cache_level((unsigned)__builtin_ctzll(classes)) & classes;

		classes &= ~level;
		if (!hm_cache_near(cache, (unsigned)__builtin_ctzll(level), key->begin))
			continue;
		for (; level; level &= level - 1)
			if (hit_class(cache, key, (unsigned)__builtin_ctzll(level), hold))
				return true;
	}
	return false;
}

/* Not in the first place that was looked at. */
static __attribute__((noinline)) bool
find_further(struct hm_cache *cache, const struct hm_cache_key *key, struct hm_cache_hold *hold)
{
	if (!hit_hint(cache, key, hold) && !hit(cache, key, hold))
		return false;
	HM_PROBE(hit, cache->context, key->begin, key->end - key->begin, key->group, 0);
	return true;
}

/* ---- misses ---- */

/* Register, and if there is no memory for that, evict more and more, and try again. */
static int add(struct hm_cache *cache, const struct hm_cache_key *key, void **data)
{
	int ret = cache->ops.add(cache->context, key, data);

	for (unsigned i = 0; ret == -FI_ENOMEM && i < PRESSURE_TRIES; i++) {
		uint64_t count = atomic_load_explicit(&cache->count, memory_order_relaxed);
		uint64_t most = i + 1 == PRESSURE_TRIES ? count : count / (i == 0 ? 8 : 2) + 1;

		hm_cache_collect(cache, true);
		if (hm_cache_end_ready(cache, UINT32_MAX) == 0 &&
		    hm_cache_evict(cache, (uint32_t)most) == 0)
			break;
		ret = cache->ops.add(cache->context, key, data);
	}
	return ret;
}

/* Not kept: registered for this hold alone. */
static int get_private(struct hm_cache *cache, const struct hm_cache_key *key,
		       struct hm_cache_hold *hold)
{
	void *data;
	int ret = add(cache, key, &data);

	if (ret != 0)
		return ret;
	*hold = (struct hm_cache_hold){ data, HM_CACHE_PRIVATE };
	hm_cache_count_miss(cache, key, false);
	return 0;
}

/* Somebody registers the range of entry n: wait until he has.  Cancellation is off. */
static void wait_for(struct hm_cache *cache, uint32_t n, uint64_t pending)
{
	struct hm_cache_entry *e = &cache->entry[n];

	pthread_mutex_lock(&cache->wait_lock);
	atomic_fetch_add(&cache->waiters, 1);
	while (atomic_load(&e->state) == pending)
		pthread_cond_wait(&cache->settled, &cache->wait_lock);
	atomic_fetch_sub(&cache->waiters, 1);
	pthread_mutex_unlock(&cache->wait_lock);
}

/* The state of the entry has been changed, seq_cst: either who waits sees that, or is seen here. */
static void tell_waiters(struct hm_cache *cache)
{
	if (atomic_load(&cache->waiters) == 0)
		return;
	pthread_mutex_lock(&cache->wait_lock);
	pthread_cond_broadcast(&cache->settled);
	pthread_mutex_unlock(&cache->wait_lock);
}

/* An entry that will do or is about to.  Stripe lock held.  False: none. */
static bool find(struct hm_cache *cache, const struct hm_cache_key *key, uint64_t hash, uint32_t *n,
		 uint64_t *state)
{
	struct hm_cache_table table = hm_cache_table_of(cache, hash);
	uint32_t word, tag = hm_cache_tag(hash);

	if (!table.word)
		return false;
	for (uint32_t at = hm_cache_home(hash, table);
	     (word = atomic_load_explicit(&table.word[at], memory_order_relaxed)) != 0;
	     at = hm_cache_next(at, table)) {
		if (!hm_cache_has_tag(word, tag))
			continue;
		*n = (word & HM_CACHE_WORD_ENTRY) - 1;
		*state = atomic_load_explicit(&cache->entry[*n].state, memory_order_acquire);
		if ((hm_cache_phase(*state) == HM_CACHE_LIVE ||
		     hm_cache_phase(*state) == HM_CACHE_PENDING) &&
		    hm_cache_satisfies(&cache->entry[*n], key))
			return true;
	}
	return false;
}

static void fill(struct hm_cache *cache, uint32_t n, const struct hm_cache_key *key)
{
	struct hm_cache_entry *e = &cache->entry[n];
	uint64_t generation = atomic_load_explicit(&e->state, memory_order_relaxed) &
			      ~(HM_CACHE_GENERATION - 1);

	atomic_store_explicit(&e->begin, key->begin, memory_order_relaxed);
	atomic_store_explicit(&e->end, key->end, memory_order_relaxed);
	atomic_store_explicit(&e->id, key->id, memory_order_relaxed);
	atomic_store_explicit(&e->rights, key->rights, memory_order_relaxed);
	atomic_store_explicit(&e->kind, key->kind, memory_order_relaxed);
	atomic_store_explicit(&e->state,
			      generation | (uint64_t)key->group << HM_CACHE_GROUP_BIT |
				      HM_CACHE_PENDING,
			      memory_order_release);
}

enum outcome {
	INSERTED,
	FOUND,
	WAIT,
	NO_ROOM,
	NO_MEMORY
};

/* insert, stripe lock held; NO_MEMORY: the table is full. */
static enum outcome insert_locked(struct hm_cache *cache, const struct hm_cache_key *key,
				  uint64_t hash, uint32_t *n, uint64_t *state)
{
	uint64_t class_bit = UINT64_C(1) << hm_cache_class(key->end - key->begin);

	if (find(cache, key, hash, n, state))
		return hm_cache_phase(*state) == HM_CACHE_LIVE ? FOUND : WAIT;
	if (!hm_cache_take_entry(cache, key->end - key->begin, n))
		return NO_ROOM;
	fill(cache, *n, key);
	hm_cache_near_add(cache, &cache->entry[*n], 1);
	if (!hm_cache_table_enter(cache, hash, *n)) {
		hm_cache_near_add(cache, &cache->entry[*n], UINT32_MAX);
		hm_cache_give_entry(cache, *n, key->end - key->begin);
		return NO_MEMORY;
	}
	if (!(atomic_load_explicit(&cache->classes, memory_order_relaxed) & class_bit))
		atomic_fetch_or(&cache->classes, class_bit);
	hm_cache_tally(cache, key->group, HM_CACHE_ENTRIES, 1);
	hm_cache_tally(cache, key->group, HM_CACHE_BYTES, key->end - key->begin);
	return INSERTED;
}

/* Where a range of more than a page was entered. */
static void hint(struct hm_cache *cache, const struct hm_cache_key *key, uint32_t n)
{
	unsigned k = hm_cache_class(key->end - key->begin), sort = HM_CACHE_HINT_SORTS, shift;
	uint64_t first, last;

	while (sort > 0 && k <= hm_cache_hint_shift(sort - 1))
		sort--;
	if (sort == 0)
		return;
	shift = hm_cache_hint_shift(--sort);
	first = key->begin >> shift;
	last = (key->end - 1) >> shift;
	for (uint64_t i = 0; i <= last - first && i < HM_CACHE_HINTS; i++)
		atomic_store_explicit(hm_cache_hint(cache, sort, first + i) +
					      (key->begin > (first + i) << shift),
				      n + 1, memory_order_relaxed);
}

static enum outcome insert(struct hm_cache *cache, const struct hm_cache_key *key, uint32_t *n,
			   uint64_t *state)
{
	unsigned k = hm_cache_class(key->end - key->begin);
	uint64_t hash = hm_cache_hash(key->begin >> k, k);
	struct hm_cache_stripe *stripe = &cache->stripe[HM_CACHE_STRIPE(hash)];

	for (;;) {
		enum outcome outcome;

		hm_spin_lock(&stripe->lock);
		outcome = insert_locked(cache, key, hash, n, state);
		hm_spin_unlock(&stripe->lock);
		if (outcome == INSERTED)
			hint(cache, key, *n);
		if (outcome != NO_MEMORY)
			return outcome;
		if (hm_cache_table_grow(cache, HM_CACHE_STRIPE(hash)) != 0)
			return NO_MEMORY;
	}
}

/* The PENDING entry n, which this thread inserted and holds: register it. */
static int complete(struct hm_cache *cache, const struct hm_cache_key *key, uint32_t n,
		    struct hm_cache_hold *hold)
{
	struct hm_cache_entry *e = &cache->entry[n];
	uint64_t state;
	void *data;
	int ret;

	/* it can be found; so either a change that begins now kills it, or it is known here */
	atomic_thread_fence(memory_order_seq_cst);
	if (hm_changes_overlap(key->begin, key->end))
		hm_cache_kill(cache, n, key->begin, key->end);
	ret = add(cache, key, &data);
	if (ret != 0) {
		hm_drop(cache->first_number + n);
		hm_cache_free_entry(cache, n);
		tell_waiters(cache);
		return ret;
	}
	e->data = data;
	*hold = (struct hm_cache_hold){ data, n };
	hm_cache_count_miss(cache, key, true);
	state = atomic_load_explicit(&e->state, memory_order_relaxed);
	if (hm_cache_phase(state) != HM_CACHE_PENDING ||
	    !atomic_compare_exchange_strong(&e->state, &state,
					    hm_cache_state(state, HM_CACHE_LIVE))) {
		atomic_store(&e->state, hm_cache_state(state, HM_CACHE_DEAD));
		hm_cache_push_dead(cache, n);
	}
	tell_waiters(cache);
	return 0;
}

/* The first use in the child after fork(2): nothing that the parent kept is found any more. */
static void forget_parent(struct hm_cache *cache)
{
	hm_cache_kill_all(cache, 0, UINT64_MAX);
	atomic_store(&cache->forked, false);
}

static int register_or_find(struct hm_cache *cache, const struct hm_cache_key *wanted,
			    struct hm_cache_hold *hold)
{
	struct hm_cache_key key = *wanted;
	uint64_t bytes, state;
	uint32_t n;

	cache->ops.widen(cache->context, &key);
	bytes = key.end - key.begin;
	if (__builtin_expect(atomic_load_explicit(&cache->forked, memory_order_acquire), 0))
		forget_parent(cache);
	if (bytes > cache->max_bytes || cache->max_count == 0)
		return get_private(cache, &key, hold);
	for (;;) {
		enum outcome outcome = NO_ROOM;

		if (hm_cache_has_room(cache, bytes))
			outcome = insert(cache, &key, &n, &state);
		if (outcome == INSERTED) {
			if (hm_hold(cache->first_number + n))
				return complete(cache, &key, n, hold);
			hm_cache_free_entry(cache, n);
			tell_waiters(cache);
		}
		if (outcome == INSERTED || outcome == NO_MEMORY ||
		    (outcome == NO_ROOM && !hm_cache_make_room(cache, bytes)))
			return get_private(cache, &key, hold);
		if (outcome == WAIT)
			wait_for(cache, n, state);
		if (outcome != NO_ROOM && find_further(cache, wanted, hold))
			return 0;
		/* it may be found again and again by a thread that has no memory to hold it */
		if (outcome == FOUND && !hm_held_slow(cache->first_number + n))
			return get_private(cache, &key, hold);
	}
}

/* What is PENDING is waited for by others: its thread may not be cancelled in what add calls. */
static __attribute__((noinline)) int miss(struct hm_cache *cache, const struct hm_cache_key *wanted,
					  struct hm_cache_hold *hold)
{
	int cancel = hm_cancel_off();
	int ret = register_or_find(cache, wanted, hold);

	hm_cancel_restore(cancel);
	return ret;
}

/* What is left to do where it is not in the first place that was looked at. */
typedef int further_fn(struct hm_cache *cache, const struct hm_cache_key *key,
		       struct hm_cache_hold *hold);

static __attribute__((noinline)) int
find_only(struct hm_cache *cache, const struct hm_cache_key *key, struct hm_cache_hold *hold)
{
	return find_further(cache, key, hold) ? 0 : -FI_ENOENT;
}

static __attribute__((noinline)) int
find_or_make(struct hm_cache *cache, const struct hm_cache_key *key, struct hm_cache_hold *hold)
{
	return find_further(cache, key, hold) ? 0 : miss(cache, key, hold);
}

static __attribute__((noinline)) int drop_and(struct hm_cache *cache,
					      const struct hm_cache_key *key,
					      struct hm_cache_hold *hold, uint32_t n,
					      further_fn *further)
{
	hm_drop(cache->first_number + n);
	return further(cache, key, hold);
}

/*
 * Most requests are for what was asked for before, and that is found where ranges of this size are.  All
 * that is not is left to functions of their own, so that nothing needs to be saved for calls.
 */
static inline __attribute__((always_inline)) int quick(struct hm_cache *cache,
						       const struct hm_cache_key *key,
						       struct hm_cache_hold *hold,
						       further_fn *further)
{
	unsigned k = hm_cache_class(key->end - key->begin);
	uint64_t state;
	uint32_t n;

	if (!(atomic_load_explicit(&cache->classes, memory_order_relaxed) >> k & 1))
		return further(cache, key, hold);
	n = look_home(cache, key, hm_cache_hash(key->begin >> k, k), &state);
	if (__builtin_expect(n == 0 || !hm_hold_now(cache->first_number + n - 1), 0))
		return further(cache, key, hold);
	if (__builtin_expect(!take(cache, n - 1, state, hold), 0))
		return drop_and(cache, key, hold, n - 1, further);
	HM_PROBE(hit, cache->context, key->begin, key->end - key->begin, key->group, 0);
	return 0;
}

int hm_cache_get(struct hm_cache *cache, const struct hm_cache_key *key, struct hm_cache_hold *hold)
{
	assert(key->begin < key->end && key->group < HM_CACHE_GROUPS);
	return quick(cache, key, hold, find_or_make);
}

bool hm_cache_find(struct hm_cache *cache, const struct hm_cache_key *key,
		   struct hm_cache_hold *hold)
{
	return quick(cache, key, hold, find_only) == 0;
}

static __attribute__((noinline)) void end_private(struct hm_cache *cache, void *data)
{
	int cancel = hm_cancel_off();

	if (cache->ops.remove(cache->context, data) != 0)
		hm_cache_adopt(cache, data);
	hm_cancel_restore(cancel);
}

void hm_cache_put(struct hm_cache *cache, const struct hm_cache_hold *hold)
{
	if (__builtin_expect(hold->entry != HM_CACHE_PRIVATE, 1))
		hm_drop(cache->first_number + hold->entry);
	else
		end_private(cache, hold->data);
}
