/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Key table: elements reached by a 64-bit handle, or by a key that the user chose.
 *
 * Elements live in chunks that never move and are never given back before the table is destroyed, so
 * a reader may touch an element that was freed under it and find out from its generation.
 *
 *   handle = generation (39 bits) | slot (25 bits)
 *   word   = generation (39 bits) | live (1 bit) | references (24 bits)
 *
 * Every re-use of a slot takes the next generation; a slot whose generations are used up is retired.
 * So a handle names one element for the life of the table and never its successor.  The first
 * generation is random per table, which keeps the handles of two tables apart.
 *
 * Concurrency (call against call, any threads):
 *
 *            | acquire | alloc | publish | kill        | free
 *   acquire  | yes     | yes   | yes     | kill waits  | not before kill
 *   alloc    |         | yes   | yes     | yes         | yes
 *   publish  |         |       | yes     | yes         | yes
 *   kill     |         |       |         | one wins    | not before kill
 *
 * acquire takes no lock: one compare-and-swap.  The index by user key (key_index.c) is a split-ordered
 * list per stripe: growth adds entry points and moves no node, so a reader never loses a key that is
 * present; a miss is repeated if a node left the stripe meanwhile.  Writers hold the index lock.  A
 * link carries the place of what it leads to, so that most walks end without touching another element;
 * keys that follow each other have entry points that do, so that counting up stays within few cache
 * lines.
 */
#ifndef HM_KEY_TABLE_H
#define HM_KEY_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/chunk.h"
#include "core/base/spin.h"

#define HM_KEY_SLOT_BITS     25
#define HM_KEY_GEN_BITS	     39
#define HM_KEY_CAPACITY_MAX  ((UINT32_C(1) << HM_KEY_SLOT_BITS) - 1)
#define HM_KEY_LIVE	     (UINT64_C(1) << 24)
#define HM_KEY_REFS	     (HM_KEY_LIVE - 1)
#define HM_KEY_STRIPES	     64
#define HM_KEY_RESERVE_MOST  ((size_t)1 << 16)
#define HM_KEY_FIRST_ENTRIES 8 /* entry points of an empty stripe, one cache line */
#define HM_KEY_CHUNK0_BITS   6
#define HM_KEY_CHUNKS	     (HM_KEY_SLOT_BITS - HM_KEY_CHUNK0_BITS + 1)

/* Part of every element.  slot, stripe and indexed are the table's own, of whoever holds the element. */
struct hm_key_node {
	_Atomic uint64_t word;
	_Atomic uint64_t key; /* the user's key while indexed; free list link while free */
	uint32_t slot;
	uint16_t stripe; /* whose slot it is */
	bool indexed;
};

/*
 * A share of the table: the slots of some threads, and the index of some keys.  The two have a lock
 * and cache lines each, since a thread's slots and its keys fall to different stripes.  slot_lock
 * protects the slots' fields, index_lock those of the index but for what readers load.  Both are
 * innermost but for the grow lock, and no two are held at once.
 */
struct hm_key_stripe {
	_Alignas(64) struct hm_spin slot_lock;
	uint32_t free_head; /* slot + 1 */
	uint32_t reserved_next, reserved_end;
	uint64_t live; /* elements between alloc and free */
	int64_t bytes; /* the sum of what alloc was told of them */

	_Alignas(64) struct hm_spin index_lock;
	_Atomic uint32_t removals; /* nodes that left the index */
	_Atomic uint32_t size;	   /* entry points in the list, a power of two */
	uint32_t count;		   /* nodes in the list */
	_Alignas(64) _Atomic uint64_t first[HM_KEY_FIRST_ENTRIES];
	_Atomic(_Atomic uint64_t *) entry[HM_KEY_SLOT_BITS]; /* the first few lead into first */
};

struct hm_key_table {
	_Atomic(char *) chunk[HM_KEY_CHUNKS];
	_Atomic uint64_t *links[HM_KEY_CHUNKS]; /* index: each slot's link; stored before the chunk */
	void *chunk_raw[HM_KEY_CHUNKS];		/* owned allocations, freed by destroy */
	size_t element_size, node_offset;
	uint64_t first_gen;
	uint32_t capacity;
	bool user_keys;
	_Atomic uint32_t next_slot; /* slots below have memory */
	pthread_mutex_t grow_lock;  /* protects chunk creation; taken inside a slot lock */
	struct hm_key_stripe *stripes;
};

/* element_size is rounded up to 64; capacity at most HM_KEY_CAPACITY_MAX.  -FI_ENOMEM, -FI_EINVAL. */
int hm_key_table_init(struct hm_key_table *table, size_t element_size, size_t node_offset,
		      size_t capacity, bool user_keys);
/* The table must hold no element in use. */
void hm_key_table_destroy(struct hm_key_table *table);

/*
 * Take an element: not live yet, private to the caller.  With a key, which needs a table with user
 * keys, the key is the element's from now until free, and found once the element is published.
 * -FI_ENOKEY: another element has the key.  -FI_ENOSPC: capacity is reached.  -FI_ENOMEM.
 * bytes is added to what hm_key_count reports until free.
 */
int hm_key_alloc(struct hm_key_table *table, uint64_t bytes, const uint64_t *key, void **element);
/*
 * Have memory for so many elements beside those that there are, so that taking them asks for none (but for the
 * index, which can do without).  A hint: at most HM_KEY_RESERVE_MOST of it are heeded, and where there is no
 * memory now, it is asked for on taking.
 */
void hm_key_reserve(struct hm_key_table *table, size_t count);
/* The handle that publish will make valid (or has made). */
static inline uint64_t hm_key_handle(const struct hm_key_node *node)
{
	/* C11 loads want no const */
	uint64_t word =
		atomic_load_explicit(&((struct hm_key_node *)node)->word, memory_order_relaxed);
	uint64_t gen = (word >> HM_KEY_SLOT_BITS) + (word & HM_KEY_LIVE ? 0 : 1);

	return gen << HM_KEY_SLOT_BITS | node->slot;
}
/* Make the element's handle and key valid. */
void hm_key_publish(struct hm_key_node *node);
/*
 * End the validity of handle and key, and wait until nobody holds a reference.  False if it was not
 * live (already killed).  The caller then owns the element alone and gives it back with hm_key_free.
 */
bool hm_key_kill(struct hm_key_node *node);
/* Undo kill, by whom it returned true to: handle and key are valid again. */
static inline void hm_key_revive(struct hm_key_node *node)
{
	atomic_fetch_or_explicit(&node->word, HM_KEY_LIVE, memory_order_release);
}
/* For an element that was killed or never published. */
void hm_key_free(struct hm_key_table *table, struct hm_key_node *node, uint64_t bytes);

/* Elements between alloc and free, and the sum of their bytes.  A snapshot. */
void hm_key_count(struct hm_key_table *table, uint64_t *elements, uint64_t *bytes);
/* Was this handle ever valid here, and is it no more? */
bool hm_key_expired(struct hm_key_table *table, uint64_t handle);
/* As hm_key_acquire, by the user's key. */
struct hm_key_node *hm_key_find(struct hm_key_table *table, uint64_t key);

static inline struct hm_key_node *hm_key_slot_node(struct hm_key_table *table, uint32_t slot)
{
	uint32_t at;
	unsigned n = hm_chunk_of(slot, HM_KEY_CHUNK0_BITS, &at);
	char *chunk = atomic_load_explicit(&table->chunk[n], memory_order_acquire);

	return (struct hm_key_node *)(chunk + (size_t)at * table->element_size +
				      table->node_offset);
}

static inline void hm_key_release(struct hm_key_node *node)
{
	atomic_fetch_sub_explicit(&node->word, 1, memory_order_release);
}

/*
 * One reference more, if word still is live and of handle's generation.  By compare-and-swap, so that
 * nobody changes the word of an element that is not his: publish can store.
 */
static inline bool hm_key_reference(struct hm_key_node *node, uint64_t handle)
{
	uint64_t word = atomic_load_explicit(&node->word, memory_order_relaxed);

	do {
		if (__builtin_expect((word ^ handle) >> HM_KEY_SLOT_BITS || !(word & HM_KEY_LIVE),
				     0))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&node->word, &word, word + 1, memory_order_acquire, memory_order_relaxed));
	return true;
}

/* Reference the live element of this handle, or NULL.  Lock-free; undone by hm_key_release. */
static inline struct hm_key_node *hm_key_acquire(struct hm_key_table *table, uint64_t handle)
{
	uint32_t slot = (uint32_t)(handle & ((1u << HM_KEY_SLOT_BITS) - 1));
	struct hm_key_node *node;

	if (slot >= atomic_load_explicit(&table->next_slot, memory_order_acquire))
		return NULL;
	node = hm_key_slot_node(table, slot);
	return hm_key_reference(node, handle) ? node : NULL;
}

#endif
