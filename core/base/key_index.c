/* SPDX-License-Identifier: BSD-2-Clause */
/* The key table's index by user key: a split-ordered list in each stripe. */
#include "core/base/key_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/spin.h"

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
#define LINK_NONE  UINT64_C(0) /* an entry point that growth has not come to */
#define LINK_END   UINT64_C(0xffffffff00000000)
#define LINK_ENTRY UINT64_C(0x80000000)

#define FIRST_LEVELS 4 /* arrays of entry points that a stripe has in itself: 1 + 1 + 2 + 4 */
static_assert(HM_KEY_FIRST_ENTRIES == 1 << (FIRST_LEVELS - 1), "first holds these levels");

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
	uint64_t hash = hm_key_mix(key >> (TURN_BITS + NEAR_BITS));
	uint64_t turn = key & ((1u << TURN_BITS) - 1);
	uint32_t near = (uint32_t)(key >> TURN_BITS) & ((1u << NEAR_BITS) - 1);
	struct place place = { .stripe = &table->stripes[(hash ^ turn) % HM_KEY_STRIPES],
			       .hash = (uint32_t)(hash >> 32) };

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
	uint32_t at;
	unsigned n = hm_chunk_of(slot, HM_KEY_CHUNK0_BITS, &at);

	return &table->links[n][at];
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

/* First list position at or after order, from entry point i.  Index lock held. */
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
 * Readers go on meanwhile.  Index lock held.
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

/* Failing costs speed only.  Index lock held. */
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

/* Where a node with this key goes; NULL: one has it.  Index lock held. */
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

int hm_key_index_enter(struct hm_key_table *table, struct hm_key_node *node, uint64_t key)
{
	struct place place = place_of(table, key);
	struct hm_key_stripe *stripe = place.stripe;
	_Atomic uint64_t *at;

	hm_spin_lock(&stripe->index_lock);
	at = seek_free(table, &place, key);
	if (!at) {
		hm_spin_unlock(&stripe->index_lock);
		return -FI_ENOKEY;
	}
	atomic_store_explicit(&node->key, key, memory_order_relaxed);
	atomic_store_explicit(slot_link(table, node->slot),
			      atomic_load_explicit(at, memory_order_relaxed), memory_order_release);
	atomic_store_explicit(at, link_to_slot(node->slot, place.order), memory_order_release);
	/* at least two entry points a node, so that most hold none and few walks meet a stranger */
	if (++stripe->count * 2 > atomic_load_explicit(&stripe->size, memory_order_relaxed))
		grow_entries(table, stripe);
	hm_spin_unlock(&stripe->index_lock);
	return 0;
}

void hm_key_index_leave(struct hm_key_table *table, struct hm_key_node *node)
{
	struct place place =
		place_of(table, atomic_load_explicit(&node->key, memory_order_relaxed));
	struct hm_key_stripe *stripe = place.stripe;
	uint64_t mine = link_to_slot(node->slot, place.order), link;
	_Atomic uint64_t *at;
	uint32_t size;

	hm_spin_lock(&stripe->index_lock);
	size = atomic_load_explicit(&stripe->size, memory_order_relaxed);
	at = seek(table, stripe, place.hash & (size - 1), place.order);
	while ((link = atomic_load_explicit(at, memory_order_relaxed)) != mine)
		at = link_next(table, stripe, link);
	atomic_store_explicit(
		at, atomic_load_explicit(slot_link(table, node->slot), memory_order_relaxed),
		memory_order_release);
	/*
	 * Before the node can be taken again: a reader that follows it into another list, which it
	 * can only do after seeing the store that put it there, then sees this count as well.  And
	 * after it is out of the list: a reader that begins with this count does not come to it.
	 */
	atomic_store_explicit(&stripe->removals,
			      atomic_load_explicit(&stripe->removals, memory_order_relaxed) + 1,
			      memory_order_release);
	stripe->count--;
	hm_spin_unlock(&stripe->index_lock);
}

void hm_key_index_init(struct hm_key_table *table, struct hm_key_stripe *stripe)
{
	hm_spin_init(&stripe->index_lock);
	atomic_init(&stripe->size, 1);
	atomic_init(&stripe->entry[0], stripe->first);
	atomic_init(&stripe->first[0], LINK_END);
	for (unsigned n = 1; n < HM_KEY_FIRST_ENTRIES; n *= 2)
		add_entries(table, stripe, &stripe->first[n]);
}

void hm_key_index_destroy(struct hm_key_stripe *stripe)
{
	for (unsigned i = FIRST_LEVELS; i < HM_KEY_SLOT_BITS; i++)
		free((void *)atomic_load(&stripe->entry[i]));
}

/* ---- readers ---- */

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
