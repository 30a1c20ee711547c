/* SPDX-License-Identifier: BSD-2-Clause */
/* Key table: slots with generations, shared out over stripes, and the index by user key. */
#include "core/base/key_table.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/spin.h"

#include "core/base/cancel.h"

/* Slots that a stripe takes from the table at once. */
#define BATCH 32u

/*
 * Where keys that follow each other go: four stripes take turns, so that threads with a key each meet
 * seldom, and within a stripe their entry points are neighbours for 32 keys, so that a thread which
 * counts up through keys seldom turns to a cache line that it has not.
 */
#define TURN_BITS 2
#define NEAR_BITS 5

/*
 * Links of an index list: the place of what it leads to, high, and what that is, low: a slot + 1, or
 * an entry point.
 */
#define LINK_NONE UINT64_C(0) /* an entry point that growth has not come to */
#define LINK_END UINT64_C(0xffffffff00000000)
#define LINK_ENTRY UINT64_C(0x80000000)

#define FIRST_LEVELS 4 /* arrays of entry points that a stripe has in itself: 1 + 1 + 2 + 4 */
static_assert(HM_KEY_FIRST_ENTRIES == 1 << (FIRST_LEVELS - 1), "first holds these levels");

#define GEN_ONE (UINT64_C(1) << HM_KEY_SLOT_BITS)
#define GEN_LAST ((UINT64_C(1) << HM_KEY_GEN_BITS) - 2) /* all ones is FI_KEY_NOTAVAIL's */

static uint64_t mix64(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	x ^= x >> 33;
	return x;
}

/* Generations start in the lower half of their range, at a place of each table's own. */
static uint64_t random_gen(void)
{
	static _Atomic uint64_t tables;
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = (uint64_t)time(NULL) ^ (uintptr_t)&seed;
	seed ^= mix64(atomic_fetch_add(&tables, 1) + 1);
	return 1 + (seed >> (64 - HM_KEY_GEN_BITS + 1));
}

static uint64_t word_gen(uint64_t word)
{
	return word >> HM_KEY_SLOT_BITS;
}

/* ---- memory ---- */

static void *alloc_lines(size_t size, void **raw)
{
	char *p = calloc(1, size + 63);

	*raw = p;
	return p ? p + (-(uintptr_t)p & 63) : NULL;
}

static int grow_to(struct hm_key_table *table, unsigned chunk)
{
	size_t n = (size_t)1 << (chunk + HM_KEY_CHUNK0_BITS);
	int ret = 0;

	pthread_mutex_lock(&table->grow_lock);
	if (!atomic_load_explicit(&table->chunk[chunk], memory_order_relaxed)) {
		char *memory = alloc_lines(n * table->element_size, &table->chunk_raw[chunk]);

		if (memory && table->user_keys)
			table->links[chunk] = calloc(n, sizeof(*table->links[chunk]));
		if (memory && (!table->user_keys || table->links[chunk])) {
			atomic_store_explicit(&table->chunk[chunk], memory, memory_order_release);
		} else {
			free(table->chunk_raw[chunk]);
			table->chunk_raw[chunk] = NULL;
			ret = -FI_ENOMEM;
		}
	}
	pthread_mutex_unlock(&table->grow_lock);
	return ret;
}

/* ---- index by user key: split-ordered lists ---- */

static uint32_t reverse_bits(uint32_t x)
{
	x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
	x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
	x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
	return __builtin_bswap32(x);
}

/* Where a key belongs.  order is odd for nodes and even for entry points, so they never tie. */
struct place {
	struct hm_key_stripe *stripe;
	uint32_t hash, order;
};

static struct place place_of(struct hm_key_table *table, uint64_t key)
{
	uint64_t hash = mix64(key >> (TURN_BITS + NEAR_BITS));
	uint64_t turn = key & ((1u << TURN_BITS) - 1);
	uint32_t near = (uint32_t)(key >> TURN_BITS) & ((1u << NEAR_BITS) - 1);
	struct place place = {.stripe = &table->stripes[(hash ^ turn) % HM_KEY_STRIPES],
			      .hash = (uint32_t)(hash >> 32)};

	place.hash = (place.hash & ~((1u << NEAR_BITS) - 1)) | near;
	place.order = reverse_bits(place.hash | 0x80000000u);
	return place;
}

/*
 * Entry point i stands in array number bit-length(i): 0 | 1 | 2,3 | 4..7 | ...  NULL: there is no
 * such array, which only a reader that went astray can meet.
 */
static _Atomic uint64_t *entry_point(struct hm_key_stripe *stripe, uint32_t i)
{
	unsigned level = i == 0 ? 0 : 32u - (unsigned)__builtin_clz(i);
	_Atomic uint64_t *array = atomic_load_explicit(&stripe->entry[level], memory_order_acquire);

	return array ? &array[i == 0 ? 0 : i - (1u << (level - 1))] : NULL;
}

static _Atomic uint64_t *slot_link(struct hm_key_table *table, uint32_t slot)
{
	uint32_t n = slot + (1u << HM_KEY_CHUNK0_BITS);
	unsigned top = 31u - (unsigned)__builtin_clz(n);

	return &table->links[top - HM_KEY_CHUNK0_BITS][n - (1u << top)];
}

static uint32_t link_order(uint64_t link)
{
	return (uint32_t)(link >> 32);
}

static uint64_t link_to_slot(uint32_t slot, uint32_t order)
{
	return (uint64_t)order << 32 | (slot + 1);
}

static uint32_t link_slot(uint64_t link)
{
	return (uint32_t)link - 1;
}

/* What a link leads to, as the place of the next link. */
static _Atomic uint64_t *link_next(struct hm_key_table *table, struct hm_key_stripe *stripe,
				   uint64_t link)
{
	if (link & LINK_ENTRY)
		return entry_point(stripe, (uint32_t)(link & (LINK_ENTRY - 1)));
	return slot_link(table, link_slot(link));
}

/* First list position at or after order, from entry point i.  Stripe lock held. */
static _Atomic uint64_t *seek(struct hm_key_table *table, struct hm_key_stripe *stripe, uint32_t i,
			      uint32_t order)
{
	_Atomic uint64_t *at = entry_point(stripe, i);

	for (;;) {
		uint64_t link = atomic_load_explicit(at, memory_order_relaxed);

		if (link == LINK_END || link_order(link) >= order)
			return at;
		at = link_next(table, stripe, link);
	}
}

/*
 * Double the entry points, the new ones in array: each goes into the list behind the one it splits.
 * Readers go on meanwhile.  Stripe lock held.
 */
static void add_entries(struct hm_key_table *table, struct hm_key_stripe *stripe,
			_Atomic uint64_t *array)
{
	uint32_t size = atomic_load_explicit(&stripe->size, memory_order_relaxed);
	unsigned level = 32u - (unsigned)__builtin_clz(size);

	atomic_store_explicit(&stripe->entry[level], array, memory_order_release);
	for (uint32_t i = 0; i < size; i++) {
		uint32_t order = reverse_bits(size + i);
		_Atomic uint64_t *at = seek(table, stripe, i, order);

		atomic_store_explicit(&array[i], atomic_load_explicit(at, memory_order_relaxed),
				      memory_order_release);
		atomic_store_explicit(at, (uint64_t)order << 32 | LINK_ENTRY | (size + i),
				      memory_order_release);
	}
	atomic_store_explicit(&stripe->size, size * 2, memory_order_release);
}

/* Failing costs speed only.  Stripe lock held. */
static void grow_entries(struct hm_key_table *table, struct hm_key_stripe *stripe)
{
	uint32_t size = atomic_load_explicit(&stripe->size, memory_order_relaxed);
	_Atomic uint64_t *array;

	if (size >= 1u << (HM_KEY_SLOT_BITS - 1))
		return;
	/* whole cache lines, so that no two stripes write to one */
	array = aligned_alloc(64, size * sizeof(*array));
	if (!array)
		return;
	memset((void *)array, 0, size * sizeof(*array));
	add_entries(table, stripe, array);
}

/* Where a node with this key goes; NULL: one has it.  Stripe lock held. */
static _Atomic uint64_t *seek_free(struct hm_key_table *table, const struct place *place,
				   uint64_t key)
{
	struct hm_key_stripe *stripe = place->stripe;
	uint32_t size = atomic_load_explicit(&stripe->size, memory_order_relaxed);
	_Atomic uint64_t *at = seek(table, stripe, place->hash & (size - 1), place->order);

	for (;;) {
		uint64_t link = atomic_load_explicit(at, memory_order_relaxed);

		if (link == LINK_END || link_order(link) != place->order)
			return at;
		if (atomic_load_explicit(&hm_key_slot_node(table, link_slot(link))->key,
					 memory_order_relaxed) == key)
			return NULL;
		at = link_next(table, stripe, link);
	}
}

/* Enter the node under key.  -FI_ENOKEY: another one has it. */
static int enter(struct hm_key_table *table, struct hm_key_node *node, uint64_t key)
{
	struct place place = place_of(table, key);
	struct hm_key_stripe *stripe = place.stripe;
	_Atomic uint64_t *at;

	hm_spin_lock(&stripe->lock);
	at = seek_free(table, &place, key);
	if (!at) {
		hm_spin_unlock(&stripe->lock);
		return -FI_ENOKEY;
	}
	atomic_store_explicit(&node->key, key, memory_order_relaxed);
	atomic_store_explicit(slot_link(table, node->slot),
			      atomic_load_explicit(at, memory_order_relaxed), memory_order_release);
	atomic_store_explicit(at, link_to_slot(node->slot, place.order), memory_order_release);
	/* at least two entry points a node, so that most hold none and few walks meet a stranger */
	if (++stripe->count * 2 > atomic_load_explicit(&stripe->size, memory_order_relaxed))
		grow_entries(table, stripe);
	hm_spin_unlock(&stripe->lock);
	return 0;
}

static void leave(struct hm_key_table *table, struct hm_key_node *node)
{
	struct place place =
		place_of(table, atomic_load_explicit(&node->key, memory_order_relaxed));
	struct hm_key_stripe *stripe = place.stripe;
	uint64_t mine = link_to_slot(node->slot, place.order), link;
	_Atomic uint64_t *at;
	uint32_t size;

	hm_spin_lock(&stripe->lock);
	size = atomic_load_explicit(&stripe->size, memory_order_relaxed);
	at = seek(table, stripe, place.hash & (size - 1), place.order);
	while ((link = atomic_load_explicit(at, memory_order_relaxed)) != mine)
		at = link_next(table, stripe, link);
	/*
	 * Before the node can be taken again: a reader that follows it into another list, which it
	 * can only do after seeing the store that put it there, then sees this count as well.
	 */
	atomic_store_explicit(&stripe->removals,
			      atomic_load_explicit(&stripe->removals, memory_order_relaxed) + 1,
			      memory_order_release);
	atomic_store_explicit(at,
			      atomic_load_explicit(slot_link(table, node->slot),
						   memory_order_relaxed),
			      memory_order_release);
	stripe->count--;
	hm_spin_unlock(&stripe->lock);
}

static int init_stripes(struct hm_key_table *table)
{
	table->stripes = aligned_alloc(64, HM_KEY_STRIPES * sizeof(*table->stripes));
	if (!table->stripes)
		return -FI_ENOMEM;
	memset(table->stripes, 0, HM_KEY_STRIPES * sizeof(*table->stripes));
	for (unsigned i = 0; i < HM_KEY_STRIPES; i++) {
		struct hm_key_stripe *stripe = &table->stripes[i];

		pthread_spin_init(&stripe->lock, PTHREAD_PROCESS_PRIVATE);
		atomic_init(&stripe->size, 1);
		atomic_init(&stripe->entry[0], stripe->first);
		atomic_init(&stripe->first[0], LINK_END);
		for (unsigned n = 1; n < HM_KEY_FIRST_ENTRIES; n *= 2)
			add_entries(table, stripe, &stripe->first[n]);
	}
	return 0;
}

/* ---- tables ---- */

int hm_key_table_init(struct hm_key_table *table, size_t element_size, size_t node_offset,
		      size_t capacity, bool user_keys)
{
	if (capacity == 0 || capacity > HM_KEY_CAPACITY_MAX)
		return -FI_EINVAL;
	memset(table, 0, sizeof(*table));
	table->element_size = (element_size + 63) & ~(size_t)63;
	table->node_offset = node_offset;
	table->capacity = (uint32_t)capacity;
	table->user_keys = user_keys;
	table->first_gen = random_gen();
	if (init_stripes(table) != 0)
		return -FI_ENOMEM;
	pthread_mutex_init(&table->grow_lock, NULL);
	return 0;
}

void hm_key_table_destroy(struct hm_key_table *table)
{
	for (unsigned i = 0; i < HM_KEY_STRIPES; i++) {
		pthread_spin_destroy(&table->stripes[i].lock);
		for (unsigned k = FIRST_LEVELS; k < HM_KEY_SLOT_BITS; k++)
			free((void *)atomic_load(&table->stripes[i].entry[k]));
	}
	free(table->stripes);
	for (unsigned i = 0; i < HM_KEY_CHUNKS; i++) {
		free((void *)table->links[i]);
		free(table->chunk_raw[i]);
	}
	pthread_mutex_destroy(&table->grow_lock);
}

void hm_key_count(struct hm_key_table *table, uint64_t *elements, uint64_t *bytes)
{
	uint64_t live = 0, sum = 0;

	for (unsigned i = 0; i < HM_KEY_STRIPES; i++) {
		struct hm_key_stripe *stripe = &table->stripes[i];

		hm_spin_lock(&stripe->lock);
		live += stripe->live;
		sum += (uint64_t)stripe->bytes;
		hm_spin_unlock(&stripe->lock);
	}
	*elements = live;
	if (bytes)
		*bytes = sum;
}

/* ---- taking and giving back ---- */

/* Whose slots a thread takes: threads are dealt out over the stripes in the order they come in. */
static struct hm_key_stripe *thread_stripe(struct hm_key_table *table)
{
	static _Atomic unsigned threads;
	static _Thread_local unsigned mine __attribute__((tls_model("initial-exec")));

	if (mine == 0)
		mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) %
				   HM_KEY_STRIPES;
	return &table->stripes[mine - 1];
}

/* Give the stripe a batch of slots that were never used.  Stripe lock held. */
static int reserve_batch(struct hm_key_table *table, struct hm_key_stripe *stripe)
{
	uint32_t first, end;
	int ret;

	first = atomic_load_explicit(&table->next_slot, memory_order_relaxed);
	do {
		if (first >= table->capacity)
			return -FI_ENOSPC;
		end = first + BATCH;
		if (end > table->capacity)
			end = table->capacity;
		/* memory first, so that every slot below next_slot has some */
		for (uint32_t at = first;; at = end - 1) {
			unsigned top = 31u - (unsigned)__builtin_clz(at + (1u << HM_KEY_CHUNK0_BITS));

			ret = grow_to(table, top - HM_KEY_CHUNK0_BITS);
			if (ret != 0)
				return ret;
			if (at == end - 1)
				break;
		}
	} while (!atomic_compare_exchange_weak_explicit(&table->next_slot, &first, end,
							memory_order_acq_rel, memory_order_relaxed));
	stripe->reserved_next = first;
	stripe->reserved_end = end;
	return 0;
}

/* A slot that the stripe has at hand, or NULL.  Stripe lock held. */
static struct hm_key_node *slot_at_hand(struct hm_key_table *table, struct hm_key_stripe *stripe)
{
	struct hm_key_node *node;

	if (stripe->free_head != 0) {
		node = hm_key_slot_node(table, stripe->free_head - 1);
		stripe->free_head =
			(uint32_t)atomic_load_explicit(&node->key, memory_order_relaxed);
		return node;
	}
	if (stripe->reserved_next == stripe->reserved_end)
		return NULL;
	node = hm_key_slot_node(table, stripe->reserved_next);
	node->slot = stripe->reserved_next++;
	atomic_store_explicit(&node->word, (table->first_gen - 1) * GEN_ONE, memory_order_relaxed);
	return node;
}

static void put_at_hand(struct hm_key_stripe *stripe, struct hm_key_node *node)
{
	/* in key and not in the link: a reader that stands on this node still finds its way on */
	atomic_store_explicit(&node->key, stripe->free_head, memory_order_relaxed);
	stripe->free_head = node->slot + 1;
}

/* Capacity is reached: move a slot that another stripe has at hand to this one.  No lock held. */
static int steal(struct hm_key_table *table, struct hm_key_stripe *stripe)
{
	for (unsigned i = 0; i < HM_KEY_STRIPES; i++) {
		struct hm_key_stripe *other = &table->stripes[i];
		struct hm_key_node *node;

		if (other == stripe)
			continue;
		hm_spin_lock(&other->lock);
		node = slot_at_hand(table, other);
		hm_spin_unlock(&other->lock);
		if (!node)
			continue;
		hm_spin_lock(&stripe->lock);
		put_at_hand(stripe, node);
		hm_spin_unlock(&stripe->lock);
		return 0;
	}
	return -FI_ENOSPC;
}

/* Take a slot, new ones if need be.  Stripe lock held. */
static int take(struct hm_key_table *table, struct hm_key_stripe *stripe, struct hm_key_node **node)
{
	int ret;

	*node = slot_at_hand(table, stripe);
	if (*node)
		return 0;
	ret = reserve_batch(table, stripe);
	if (ret == 0)
		*node = slot_at_hand(table, stripe);
	return ret;
}

int hm_key_alloc(struct hm_key_table *table, uint64_t bytes, const uint64_t *key, void **element)
{
	struct hm_key_stripe *stripe = thread_stripe(table);
	struct hm_key_node *node;
	int ret;

	do {
		hm_spin_lock(&stripe->lock);
		ret = take(table, stripe, &node);
		if (ret == 0) {
			stripe->live++;
			stripe->bytes += (int64_t)bytes;
		}
		hm_spin_unlock(&stripe->lock);
	} while (ret == -FI_ENOSPC && steal(table, stripe) == 0);
	if (ret != 0)
		return ret;
	node->stripe = (uint16_t)(stripe - table->stripes);
	node->indexed = false;
	if (key) {
		ret = enter(table, node, *key);
		if (ret != 0) {
			hm_key_free(table, node, bytes);
			return ret;
		}
		node->indexed = true;
	}
	*element = (char *)node - table->node_offset;
	return 0;
}

void hm_key_free(struct hm_key_table *table, struct hm_key_node *node, uint64_t bytes)
{
	struct hm_key_stripe *stripe = &table->stripes[node->stripe];
	uint64_t gen = word_gen(atomic_load_explicit(&node->word, memory_order_relaxed));

	if (node->indexed)
		leave(table, node);
	hm_spin_lock(&stripe->lock);
	stripe->live--;
	stripe->bytes -= (int64_t)bytes;
	if (gen < GEN_LAST) /* else the slot is retired */
		put_at_hand(stripe, node);
	hm_spin_unlock(&stripe->lock);
}

/* ---- life ---- */

uint64_t hm_key_handle(const struct hm_key_node *node)
{
	uint64_t word = atomic_load_explicit(&((struct hm_key_node *)node)->word,
					     memory_order_relaxed);
	uint64_t gen = word_gen(word) + (word & HM_KEY_LIVE ? 0 : 1);

	return gen << HM_KEY_SLOT_BITS | node->slot;
}

void hm_key_publish(struct hm_key_node *node)
{
	uint64_t word = atomic_load_explicit(&node->word, memory_order_relaxed);

	atomic_store_explicit(&node->word, word + GEN_ONE + HM_KEY_LIVE, memory_order_release);
}

static void wait_drained(struct hm_key_node *node)
{
	int cancel = hm_cancel_off();

	for (unsigned n = 0; atomic_load_explicit(&node->word, memory_order_acquire) & HM_KEY_REFS;
	     n++) {
		if (n < 100)
			sched_yield();
		else
			nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	}
	hm_cancel_restore(cancel);
}

bool hm_key_kill(struct hm_key_node *node)
{
	uint64_t word = atomic_fetch_and_explicit(&node->word, ~HM_KEY_LIVE, memory_order_acq_rel);

	if (!(word & HM_KEY_LIVE))
		return false;
	if (word & HM_KEY_REFS)
		wait_drained(node);
	return true;
}

bool hm_key_expired(struct hm_key_table *table, uint64_t handle)
{
	uint32_t slot = (uint32_t)(handle & (GEN_ONE - 1));
	uint64_t gen = handle >> HM_KEY_SLOT_BITS, now;
	bool live;

	if (slot >= atomic_load_explicit(&table->next_slot, memory_order_acquire))
		return false;
	now = atomic_load_explicit(&hm_key_slot_node(table, slot)->word, memory_order_acquire);
	live = now & HM_KEY_LIVE;
	now = word_gen(now);
	return gen >= table->first_gen && (gen < now || (gen == now && !live));
}

/* ---- readers of the index ---- */

/*
 * One walk.  NULL: not met.  A node that is taken again under a reader can lead it into another
 * stripe's list, and so to entry points that are none of this one's; then the caller looks again.
 * Every load is an acquire, so that the caller's look at removals comes after all of them.
 */
static struct hm_key_node *walk_for(struct hm_key_table *table, const struct place *place,
				    uint64_t key)
{
	struct hm_key_stripe *stripe = place->stripe;
	uint32_t i = place->hash & (atomic_load_explicit(&stripe->size, memory_order_acquire) - 1);
	_Atomic uint64_t *at = entry_point(stripe, i);

	while (at) {
		uint64_t link = atomic_load_explicit(at, memory_order_acquire);

		if (link == LINK_END || link == LINK_NONE)
			return NULL;
		if (link_order(link) > place->order)
			return NULL;
		if (link_order(link) == place->order) {
			struct hm_key_node *node = hm_key_slot_node(table, link_slot(link));

			if (atomic_load_explicit(&node->key, memory_order_acquire) == key)
				return node;
		}
		at = link_next(table, stripe, link);
	}
	return NULL;
}

struct hm_key_node *hm_key_find(struct hm_key_table *table, uint64_t key)
{
	struct place place = place_of(table, key);

	for (;;) {
		uint32_t before =
			atomic_load_explicit(&place.stripe->removals, memory_order_acquire);
		struct hm_key_node *node = walk_for(table, &place, key);

		/* dying or not published yet: absent, unless it has been replaced */
		if (node) {
			uint64_t word = atomic_load_explicit(&node->word, memory_order_acquire);

			if (hm_key_reference(node, word)) {
				if (atomic_load_explicit(&node->key, memory_order_relaxed) == key)
					return node;
				hm_key_release(node);
			}
		}
		if (atomic_load_explicit(&place.stripe->removals, memory_order_acquire) == before)
			return NULL;
	}
}
