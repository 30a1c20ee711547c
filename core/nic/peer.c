/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors: entries in chunks that never move, a heap of free entries that gives the lowest
 * index first as fi_av(3) asks for tables, and a hash from peer handle back to entry.
 *
 *            | peer (no lock) | add        | remove     | reverse
 *   peer     | yes            | yes        | yes        | yes
 *   add      |                | serialised | serialised | serialised
 *   remove   |                |            | serialised | serialised
 *
 * A reader that races a remove gets the old handle or 0; with FI_AV_MAP never the handle of the slot's
 * next use: the generation changes between the two stores of peer, and the reader looks at it after
 * peer.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/nic/peer.h"

#define CHUNK0		  (1u << NIC_AV_CHUNK0_BITS)
#define MAX_ENTRIES	  (UINT32_MAX - CHUNK0) /* so that index + CHUNK0 does not wrap */
#define MIN_BUCKETS	  64u
#define MAX_FIRST_BUCKETS (1u << 20) /* the hint of a caller is not trusted beyond this */
#define MARKED		  UINT32_MAX

static uint32_t hash_peer(const struct nic_av *av, uint64_t peer)
{
	peer ^= peer >> 33;
	peer *= UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(peer >> 32) & (av->bucket_count - 1);
}

static fi_addr_t addr_of(uint32_t index, struct nic_av_entry *entry)
{
	return (uint64_t)atomic_load_explicit(&entry->generation, memory_order_relaxed) << 32 |
	       index;
}

/* ---- the heap of free entries: a skew heap, all links are index + 1 ---- */

static uint32_t heap_merge(struct nic_av *av, uint32_t a, uint32_t b)
{
	uint32_t root = 0, *link = &root;

	while (a && b) {
		struct nic_av_entry *entry;
		uint32_t right;

		if (b < a) {
			uint32_t swap = a;

			a = b;
			b = swap;
		}
		entry = nic_av_slot(av, a - 1);
		*link = a;
		right = entry->free_right;
		entry->free_right = entry->free_left;
		link = &entry->free_left;
		a = right;
	}
	*link = a ? a : b;
	return root;
}

static void heap_push(struct nic_av *av, uint32_t index)
{
	struct nic_av_entry *entry = nic_av_slot(av, index);

	entry->free_left = 0;
	entry->free_right = 0;
	av->free_root = heap_merge(av, av->free_root, index + 1);
}

static uint32_t heap_pop(struct nic_av *av)
{
	uint32_t index = av->free_root - 1;
	struct nic_av_entry *entry = nic_av_slot(av, index);

	av->free_root = heap_merge(av, entry->free_left, entry->free_right);
	entry->free_left = 0;
	entry->free_right = 0;
	return index;
}

/* ---- the reverse index ---- */

static void index_add(struct nic_av *av, uint32_t index, struct nic_av_entry *entry, uint64_t peer)
{
	uint32_t *bucket = &av->buckets[hash_peer(av, peer)];

	entry->next_same = *bucket;
	*bucket = index + 1;
}

static void index_remove(struct nic_av *av, uint32_t index, uint64_t peer)
{
	uint32_t *link = &av->buckets[hash_peer(av, peer)];

	while (*link != index + 1)
		link = &nic_av_slot(av, *link - 1)->next_same;
	*link = nic_av_slot(av, index)->next_same;
}

/* Twice the buckets.  Without memory for them the chains just get longer. */
static void index_grow(struct nic_av *av)
{
	uint32_t old_count = av->bucket_count;
	uint32_t *old = av->buckets, *buckets;

	if (old_count > UINT32_MAX / 2)
		return;
	buckets = calloc(2 * (size_t)old_count, sizeof(*buckets));
	if (!buckets)
		return;
	av->buckets = buckets;
	av->bucket_count = 2 * old_count;
	for (uint32_t i = 0; i < old_count; i++) {
		for (uint32_t at = old[i], next; at; at = next) {
			struct nic_av_entry *entry = nic_av_slot(av, at - 1);

			next = entry->next_same;
			index_add(av, at - 1, entry,
				  atomic_load_explicit(&entry->peer, memory_order_relaxed));
		}
	}
	free(old);
}

/* ---- set-up ---- */

int nic_av_init(struct nic_av *av, enum fi_av_type type, size_t count)
{
	uint32_t buckets = MIN_BUCKETS;

	while (buckets < count && buckets < MAX_FIRST_BUCKETS)
		buckets *= 2;
	av->buckets = calloc(buckets, sizeof(*av->buckets));
	if (!av->buckets)
		return -FI_ENOMEM;
	if (pthread_mutex_init(&av->lock, NULL)) {
		free(av->buckets);
		av->buckets = NULL;
		return -FI_ENOMEM;
	}
	av->type = type == FI_AV_MAP ? FI_AV_MAP : FI_AV_TABLE;
	av->keys = NULL;
	av->key_limit = 0;
	av->bucket_count = buckets;
	av->free_root = 0;
	av->live = 0;
	atomic_init(&av->next, 0);
	atomic_init(&av->users, 0);
	for (unsigned i = 0; i < NIC_AV_CHUNKS; i++)
		atomic_init(&av->chunk[i], NULL);
	return 0;
}

void nic_av_destroy(struct nic_av *av)
{
	if (!av->buckets)
		return;
	nic_av_keys_destroy(av);
	for (unsigned i = 0; i < NIC_AV_CHUNKS; i++)
		free(atomic_load_explicit(&av->chunk[i], memory_order_relaxed));
	free(av->buckets);
	av->buckets = NULL;
	pthread_mutex_destroy(&av->lock);
}

/* ---- entries; the lock is held ---- */

/* Memory for the entry behind the last.  It is not visible yet: next is raised when it is filled. */
static int extend(struct nic_av *av, uint32_t index)
{
	uint32_t at;
	unsigned n = hm_chunk_of(index, NIC_AV_CHUNK0_BITS, &at);
	struct nic_av_entry *chunk;

	if (at != 0 || atomic_load_explicit(&av->chunk[n], memory_order_relaxed))
		return 0;
	chunk = calloc((size_t)CHUNK0 << n, sizeof(*chunk));
	if (!chunk)
		return -FI_ENOMEM;
	atomic_store_explicit(&av->chunk[n], chunk, memory_order_release);
	return 0;
}

static int take_index(struct nic_av *av, uint32_t *index)
{
	uint32_t next = atomic_load_explicit(&av->next, memory_order_relaxed);
	int ret;

	if (av->free_root) {
		*index = heap_pop(av);
		return 0;
	}
	if (next >= MAX_ENTRIES)
		return -FI_ENOSPC;
	ret = extend(av, next);
	if (ret)
		return ret;
	*index = next;
	return 0;
}

static void release_index(struct nic_av *av, uint32_t index)
{
	struct nic_av_entry *entry = nic_av_slot(av, index);
	uint32_t generation = atomic_load_explicit(&entry->generation, memory_order_relaxed);

	index_remove(av, index, atomic_load_explicit(&entry->peer, memory_order_relaxed));
	atomic_store_explicit(&entry->peer, 0, memory_order_release);
	av->live--;
	entry->free_right = 0;
	if (av->type == FI_AV_MAP) {
		/* An entry whose generations are used up is not used again. */
		if (generation == UINT32_MAX)
			return;
		atomic_store_explicit(&entry->generation, generation + 1, memory_order_relaxed);
	}
	heap_push(av, index);
}

/* ---- calls ---- */

int nic_av_add_locked(struct nic_av *av, uint64_t peer, fi_addr_t *addr)
{
	struct nic_av_entry *entry;
	uint32_t index;
	int ret = take_index(av, &index);

	if (ret) {
		HM_WARN(FI_LOG_AV, "no room for address %u of the vector: %s", av->live,
			ret == -FI_ENOMEM ? "out of memory" : "it is full");
		return ret;
	}
	entry = nic_av_slot(av, index);
	index_add(av, index, entry, peer);
	atomic_store_explicit(&entry->peer, peer, memory_order_release);
	if (index == atomic_load_explicit(&av->next, memory_order_relaxed))
		atomic_store_explicit(&av->next, index + 1, memory_order_release);
	if (++av->live > av->bucket_count)
		index_grow(av);
	*addr = addr_of(index, entry);
	return 0;
}

int nic_av_add(struct nic_av *av, uint64_t peer, fi_addr_t *addr)
{
	int ret;

	if (peer == 0)
		return -FI_EINVAL;
	pthread_mutex_lock(&av->lock);
	ret = nic_av_add_locked(av, peer, addr);
	pthread_mutex_unlock(&av->lock);
	return ret;
}

int nic_av_remove_all(struct nic_av *av, const fi_addr_t *addrs, size_t count, size_t *bad)
{
	size_t checked;
	int ret = 0;

	pthread_mutex_lock(&av->lock);
	for (checked = 0; checked < count; checked++) {
		struct nic_av_entry *entry;

		if (!nic_av_peer(av, addrs[checked]))
			break;
		entry = nic_av_slot(av, (uint32_t)addrs[checked]);
		if (entry->free_right == MARKED)
			break;
		entry->free_right = MARKED;
	}
	if (checked < count) {
		*bad = checked;
		ret = -FI_EINVAL;
	}
	for (size_t i = 0; i < checked; i++) {
		if (ret)
			nic_av_slot(av, (uint32_t)addrs[i])->free_right = 0;
		else
			release_index(av, (uint32_t)addrs[i]);
	}
	pthread_mutex_unlock(&av->lock);
	return ret;
}

int nic_av_remove(struct nic_av *av, fi_addr_t addr)
{
	size_t bad;

	return nic_av_remove_all(av, &addr, 1, &bad);
}

fi_addr_t nic_av_reverse(struct nic_av *av, uint64_t peer)
{
	fi_addr_t lowest = FI_ADDR_NOTAVAIL;

	pthread_mutex_lock(&av->lock);
	for (uint32_t at = av->buckets[hash_peer(av, peer)]; at;) {
		struct nic_av_entry *entry = nic_av_slot(av, at - 1);
		fi_addr_t addr = addr_of(at - 1, entry);

		if (atomic_load_explicit(&entry->peer, memory_order_relaxed) == peer &&
		    addr < lowest)
			lowest = addr;
		at = entry->next_same;
	}
	pthread_mutex_unlock(&av->lock);
	return lowest;
}
