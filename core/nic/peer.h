/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors as a NIC sees them: fi_addr_t to the NIC's own peer handle, and back.
 * core/av.c dresses one as a fid.
 *
 * nic_av_peer takes no lock: entries live in chunks that never move, and one 8-byte load gives the
 * handle.  A removed fi_addr_t gives 0.  With FI_AV_MAP the fi_addr_t carries a generation, so that a
 * stale one is not confused with the slot's next use; FI_AV_TABLE counts from 0 as fi_av(3) wants.
 */
#ifndef HM_NIC_PEER_H
#define HM_NIC_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>

#include "core/base/chunk.h"

#define NIC_AV_CHUNK0_BITS 6
#define NIC_AV_CHUNKS	   26

struct nic_av_entry {
	_Atomic uint64_t peer; /* the NIC's handle, 0: free */
	_Atomic uint32_t generation;
	uint32_t free_left;  /* free: links of the heap of free entries, index + 1 */
	uint32_t free_right; /* live: a mark while nic_av_remove_all looks */
	uint32_t next_same;  /* reverse index chain, index + 1 */
};

struct nic_av {
	enum fi_av_type type;
	_Atomic uint32_t next; /* entries below have memory */
	_Atomic(struct nic_av_entry *) chunk[NIC_AV_CHUNKS];
	pthread_mutex_t lock; /* protects all but what nic_av_peer reads */
	uint32_t free_root;   /* heap of free entries, the lowest index on top; index + 1 */
	uint32_t live;
	uint32_t *buckets; /* reverse index: hash of peer to index + 1 */
	uint32_t bucket_count;
	_Atomic uint32_t users; /* endpoints bound */
};

/* count is a hint: how many addresses are expected.  -FI_ENOMEM. */
int nic_av_init(struct nic_av *av, enum fi_av_type type, size_t count);
void nic_av_destroy(struct nic_av *av);
/*
 * Enter a non-zero peer handle at the lowest free index.  The same handle may be entered more than
 * once.  -FI_ENOMEM, -FI_ENOSPC.
 */
int nic_av_add(struct nic_av *av, uint64_t peer, fi_addr_t *addr);
/* -FI_EINVAL: not an address of this vector (or removed already). */
int nic_av_remove(struct nic_av *av, fi_addr_t addr);
/*
 * All of them or, when one is no address of this vector or comes twice, none: -FI_EINVAL, and the
 * place of the first such in *bad.
 */
int nic_av_remove_all(struct nic_av *av, const fi_addr_t *addrs, size_t count, size_t *bad);
/* The lowest live fi_addr_t of this peer, or FI_ADDR_NOTAVAIL. */
fi_addr_t nic_av_reverse(struct nic_av *av, uint64_t peer);

static inline struct nic_av_entry *nic_av_slot(struct nic_av *av, uint32_t index)
{
	uint32_t at;
	unsigned n = hm_chunk_of(index, NIC_AV_CHUNK0_BITS, &at);

	return atomic_load_explicit(&av->chunk[n], memory_order_acquire) + at;
}

/* The NIC's handle of this peer, 0 if addr is not (any more) in the vector. */
static inline uint64_t nic_av_peer(struct nic_av *av, fi_addr_t addr)
{
	uint32_t index = (uint32_t)addr;
	uint32_t generation = (uint32_t)(addr >> 32);
	struct nic_av_entry *entry;
	uint64_t peer;

	if (index >= atomic_load_explicit(&av->next, memory_order_acquire))
		return 0;
	entry = nic_av_slot(av, index);
	peer = atomic_load_explicit(&entry->peer, memory_order_acquire);
	if (atomic_load_explicit(&entry->generation, memory_order_relaxed) != generation)
		return 0;
	return peer;
}

#endif
