/* SPDX-License-Identifier: BSD-2-Clause */
/* Key table: slots with generations, shared out over stripes.  The index is in key_index.c. */
#include "core/base/key_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/key_index.h"
#include "core/base/spin.h"

/* Slots that a stripe takes from the table at once. */
#define BATCH 32u

static_assert(HM_KEY_SLOT_BITS + HM_KEY_GEN_BITS == 64, "a handle is 64 bits");
static_assert(HM_KEY_LIVE == UINT64_C(1) << (HM_KEY_SLOT_BITS - 1),
	      "live and references take the place that a handle has for the slot");

#define GEN_ONE	 (UINT64_C(1) << HM_KEY_SLOT_BITS)
#define GEN_LAST ((UINT64_C(1) << HM_KEY_GEN_BITS) - 2) /* all ones is FI_KEY_NOTAVAIL's */

/* Generations start in the lower half of their range, at a place of each table's own. */
static uint64_t random_gen(void)
{
	static _Atomic uint64_t tables;
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = (uint64_t)time(NULL) ^ (uintptr_t)&seed;
	seed ^= hm_key_mix(atomic_fetch_add(&tables, 1) + 1);
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

static int init_stripes(struct hm_key_table *table)
{
	table->stripes = aligned_alloc(64, HM_KEY_STRIPES * sizeof(*table->stripes));
	if (!table->stripes)
		return -FI_ENOMEM;
	memset(table->stripes, 0, HM_KEY_STRIPES * sizeof(*table->stripes));
	for (unsigned i = 0; i < HM_KEY_STRIPES; i++) {
		struct hm_key_stripe *stripe = &table->stripes[i];

		hm_spin_init(&stripe->slot_lock);
		hm_key_index_init(table, stripe);
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
	for (unsigned i = 0; i < HM_KEY_STRIPES; i++)
		hm_key_index_destroy(&table->stripes[i]);
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

		hm_spin_lock(&stripe->slot_lock);
		live += stripe->live;
		sum += (uint64_t)stripe->bytes;
		hm_spin_unlock(&stripe->slot_lock);
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

/* Give the stripe a batch of slots that were never used.  Slot lock held. */
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
			uint32_t place;

			ret = grow_to(table, hm_chunk_of(at, HM_KEY_CHUNK0_BITS, &place));
			if (ret != 0)
				return ret;
			if (at == end - 1)
				break;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&table->next_slot, &first, end, memory_order_acq_rel, memory_order_relaxed));
	stripe->reserved_next = first;
	stripe->reserved_end = end;
	return 0;
}

void hm_key_reserve(struct hm_key_table *table, size_t count)
{
	uint32_t next = atomic_load_explicit(&table->next_slot, memory_order_acquire);
	uint32_t room = table->capacity - next, place;
	unsigned last;

	/* a thread takes slots by the batch */
	count = count < HM_KEY_RESERVE_MOST ? count + BATCH : HM_KEY_RESERVE_MOST;
	if (room == 0)
		return;
	last = hm_chunk_of(next + (uint32_t)(count < room ? count : room) - 1, HM_KEY_CHUNK0_BITS,
			   &place);
	for (unsigned chunk = hm_chunk_of(next, HM_KEY_CHUNK0_BITS, &place); chunk <= last; chunk++)
		if (!atomic_load_explicit(&table->chunk[chunk], memory_order_acquire) &&
		    grow_to(table, chunk) != 0)
			return;
}

/* A slot that the stripe has at hand, or NULL.  Slot lock held. */
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
		hm_spin_lock(&other->slot_lock);
		node = slot_at_hand(table, other);
		hm_spin_unlock(&other->slot_lock);
		if (!node)
			continue;
		hm_spin_lock(&stripe->slot_lock);
		put_at_hand(stripe, node);
		hm_spin_unlock(&stripe->slot_lock);
		return 0;
	}
	return -FI_ENOSPC;
}

/* Take a slot, new ones if need be.  Slot lock held. */
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
		hm_spin_lock(&stripe->slot_lock);
		ret = take(table, stripe, &node);
		if (ret == 0) {
			stripe->live++;
			stripe->bytes += (int64_t)bytes;
		}
		hm_spin_unlock(&stripe->slot_lock);
	} while (ret == -FI_ENOSPC && steal(table, stripe) == 0);
	if (ret != 0)
		return ret;
	node->stripe = (uint16_t)(stripe - table->stripes);
	node->indexed = false;
	if (key) {
		ret = hm_key_index_enter(table, node, *key);
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
		hm_key_index_leave(table, node);
	hm_spin_lock(&stripe->slot_lock);
	stripe->live--;
	stripe->bytes -= (int64_t)bytes;
	if (gen < GEN_LAST) /* else the slot is retired */
		put_at_hand(stripe, node);
	hm_spin_unlock(&stripe->slot_lock);
}

/* ---- life ---- */

void hm_key_publish(struct hm_key_node *node)
{
	uint64_t word = atomic_load_explicit(&node->word, memory_order_relaxed);

	atomic_store_explicit(&node->word, word + GEN_ONE + HM_KEY_LIVE, memory_order_release);
}

bool hm_key_kill(struct hm_key_node *node)
{
	uint64_t word = atomic_fetch_and_explicit(&node->word, ~HM_KEY_LIVE, memory_order_acq_rel);

	if (!(word & HM_KEY_LIVE))
		return false;
	if (word & HM_KEY_REFS)
		hm_spin_drain(&node->word, HM_KEY_REFS);
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
