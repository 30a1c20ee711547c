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
 * acquire takes no lock: one fetch-add.  The index by user key is a split-ordered list per stripe:
 * growth adds entry points and moves no node, so a reader never loses a key that is present; a miss
 * is repeated if a node left the stripe meanwhile.  Writers hold the stripe's lock.  A link carries the
 * place of what it leads to, so that most walks end without touching another element; keys that
 * follow each other have entry points that do, so that counting up stays within few cache lines.
 */
#ifndef HM_KEY_TABLE_H
#define HM_KEY_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HM_KEY_SLOT_BITS 25
#define HM_KEY_GEN_BITS 39
#define HM_KEY_CAPACITY_MAX ((UINT32_C(1) << HM_KEY_SLOT_BITS) - 1)
#define HM_KEY_LIVE (UINT64_C(1) << 24)
#define HM_KEY_REFS (HM_KEY_LIVE - 1)
#define HM_KEY_SHARDS 16
#define HM_KEY_STRIPES 64
#define HM_KEY_CHUNK0_BITS 6
#define HM_KEY_CHUNKS (HM_KEY_SLOT_BITS - HM_KEY_CHUNK0_BITS + 1)

/* Part of every element.  slot and shard are constant once the element was taken for the first time. */
struct hm_key_node {
	_Atomic uint64_t word;
	_Atomic uint64_t key; /* the user's key while indexed; free list link while free */
	uint32_t slot;
	uint32_t shard;
};

/* One allocation shard; lock protects the rest of it and comes last in every lock order. */
struct hm_key_shard {
	_Alignas(64) pthread_mutex_t lock;
	uint32_t free_head; /* slot + 1 */
	uint32_t reserved_next, reserved_end;
	uint64_t live; /* elements between alloc and free */
	int64_t bytes; /* what hm_key_account added */
};

/* One index stripe; lock protects writers of the list, readers take none. */
struct hm_key_stripe {
	_Alignas(64) pthread_mutex_t lock;
	_Atomic uint32_t removals;
	_Atomic uint32_t size; /* entry points in the list, a power of two */
	uint32_t count;
	_Atomic(_Atomic uint64_t *) entry[HM_KEY_SLOT_BITS];
};

struct hm_key_table {
	_Atomic(char *) chunk[HM_KEY_CHUNKS];
	_Atomic uint64_t *links[HM_KEY_CHUNKS]; /* index: each slot's link; stored before the chunk */
	void *chunk_raw[HM_KEY_CHUNKS];		  /* owned allocations, freed by destroy */
	size_t element_size, node_offset;
	uint64_t first_gen;
	uint32_t capacity;
	_Atomic uint32_t next_slot; /* slots below have memory */
	pthread_mutex_t grow_lock;  /* protects chunk creation; taken inside a shard's lock */
	struct hm_key_shard *shards;
	struct hm_key_stripe *stripes; /* NULL: no user keys */
};

/* element_size is rounded up to 64; capacity at most 2^25 - 1.  -FI_ENOMEM, -FI_EINVAL. */
int hm_key_table_init(struct hm_key_table *table, size_t element_size, size_t node_offset,
		      size_t capacity, bool user_keys);
/* The table must hold no element in use. */
void hm_key_table_destroy(struct hm_key_table *table);

/*
 * Take an element: not live yet, private to the caller.  -FI_ENOSPC when capacity is reached,
 * -FI_ENOMEM.  bytes is added to what hm_key_count reports until free.
 */
int hm_key_alloc(struct hm_key_table *table, uint64_t bytes, void **element);
/* The handle that publish will make valid (or has made). */
uint64_t hm_key_handle(const struct hm_key_node *node);
/* Make the element's handle valid. */
void hm_key_publish(struct hm_key_node *node);
/* Also enter it in the index under key; before hm_key_publish.  -FI_ENOKEY: in use.  -FI_ENOMEM. */
int hm_key_index(struct hm_key_table *table, struct hm_key_node *node, uint64_t key);
void hm_key_unindex(struct hm_key_table *table, struct hm_key_node *node);
/*
 * End the handle's validity and wait until nobody holds a reference.  False if it was not live
 * (already killed).  The caller then owns the element alone and gives it back with hm_key_free.
 */
bool hm_key_kill(struct hm_key_node *node);
void hm_key_free(struct hm_key_table *table, struct hm_key_node *node, uint64_t bytes);

/* Elements between alloc and free, and the sum of their bytes.  A snapshot. */
void hm_key_count(struct hm_key_table *table, uint64_t *elements, uint64_t *bytes);
/* Was this handle ever valid here, and is it no more? */
bool hm_key_expired(struct hm_key_table *table, uint64_t handle);
/* As hm_key_acquire, through the index. */
struct hm_key_node *hm_key_find(struct hm_key_table *table, uint64_t key);

static inline struct hm_key_node *hm_key_slot_node(struct hm_key_table *table, uint32_t slot)
{
	uint32_t n = slot + (1u << HM_KEY_CHUNK0_BITS);
	unsigned top = 31u - (unsigned)__builtin_clz(n);
	char *chunk = atomic_load_explicit(&table->chunk[top - HM_KEY_CHUNK0_BITS],
					   memory_order_acquire);

	return (struct hm_key_node *)(chunk + (size_t)(n - (1u << top)) * table->element_size +
				      table->node_offset);
}

static inline void hm_key_release(struct hm_key_node *node)
{
	atomic_fetch_sub_explicit(&node->word, 1, memory_order_release);
}

/* Reference the live element of this handle, or NULL.  Lock-free; undone by hm_key_release. */
static inline struct hm_key_node *hm_key_acquire(struct hm_key_table *table, uint64_t handle)
{
	uint32_t slot = (uint32_t)(handle & ((1u << HM_KEY_SLOT_BITS) - 1));
	struct hm_key_node *node;
	uint64_t word;

	if (slot >= atomic_load_explicit(&table->next_slot, memory_order_acquire))
		return NULL;
	node = hm_key_slot_node(table, slot);
	word = atomic_fetch_add_explicit(&node->word, 1, memory_order_acquire);
	if (__builtin_expect(((word ^ handle) >> HM_KEY_SLOT_BITS) == 0 && (word & HM_KEY_LIVE), 1))
		return node;
	hm_key_release(node);
	return NULL;
}

#endif
