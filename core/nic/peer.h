/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors as a NIC sees them: fi_addr_t to the NIC's own peer handle, and back.
 * core/av.c dresses one as a fid.
 *
 * nic_av_peer takes no lock: entries live in chunks that never move, and one 8-byte load gives the
 * handle.  A removed fi_addr_t gives 0.  With FI_AV_MAP the fi_addr_t carries a generation, so that a
 * stale one is not confused with the slot's next use; FI_AV_TABLE counts from 0 as fi_av(3) wants.
 *
 * In a domain of FI_AV_AUTH_KEY a vector holds authorization keys, too (peer_keys.c).  Their fi_addr_t end
 * in numbers that no address has, and carry a generation.  An address that was inserted with a key has the
 * key's number in the peer handle's upper bits; NICs with such domains leave those free.
 */
#ifndef HM_NIC_PEER_H
#define HM_NIC_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>

#include "core/base/auth.h"
#include "core/base/chunk.h"

#define NIC_AV_CHUNK0_BITS 6
#define NIC_AV_CHUNKS	   26
#define NIC_AV_KEYS_MAX	   32 /* authorization keys of a vector */

/* The parts of a peer handle in a domain of FI_AV_AUTH_KEY. */
#define NIC_PEER_KEY_SHIFT (64 - HM_AUTH_ID_BITS)
#define NIC_PEER_ADDRESS   ((UINT64_C(1) << NIC_PEER_KEY_SHIFT) - 1)

struct nic_av_entry {
	_Atomic uint64_t peer; /* the NIC's handle, 0: free */
	_Atomic uint32_t generation;
	uint32_t free_left;  /* free: links of the heap of free entries, index + 1 */
	uint32_t free_right; /* live: a mark while nic_av_remove_all looks */
	uint32_t next_same;  /* reverse index chain, index + 1 */
};

/* An authorization key of a vector. */
struct nic_av_key {
	struct hm_auth_key *key; /* held; NULL: free */
	uint32_t generation;
	uint32_t users; /* endpoints and regions that were given it */
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
	struct nic_av_key *keys; /* key_limit of them; NULL: not in a domain of FI_AV_AUTH_KEY */
	uint32_t key_limit;
	_Atomic uint32_t users; /* endpoints bound, regions that took keys here */
};

/* count is a hint: how many addresses are expected.  -FI_ENOMEM. */
int nic_av_init(struct nic_av *av, enum fi_av_type type, size_t count);
void nic_av_destroy(struct nic_av *av);
/*
 * Enter a non-zero peer handle at the lowest free index.  The same handle may be entered more than
 * once.  -FI_ENOMEM, -FI_ENOSPC.
 */
int nic_av_add(struct nic_av *av, uint64_t peer, fi_addr_t *addr);
/* The same, with the vector's lock held and a peer that is not 0. */
int nic_av_add_locked(struct nic_av *av, uint64_t peer, fi_addr_t *addr);
/* -FI_EINVAL: not an address of this vector (or removed already). */
int nic_av_remove(struct nic_av *av, fi_addr_t addr);
/*
 * All of them or, when one is no address of this vector or comes twice, none: -FI_EINVAL, and the
 * place of the first such in *bad.
 */
int nic_av_remove_all(struct nic_av *av, const fi_addr_t *addrs, size_t count, size_t *bad);
/* The lowest live fi_addr_t of this peer, or FI_ADDR_NOTAVAIL. */
fi_addr_t nic_av_reverse(struct nic_av *av, uint64_t peer);

/* ---- authorization keys (peer_keys.c) ---- */

/* Give the vector room for keys: 1 to NIC_AV_KEYS_MAX.  -FI_ENOMEM.  nic_av_destroy ends it. */
int nic_av_keys_init(struct nic_av *av, uint32_t limit);
void nic_av_keys_destroy(struct nic_av *av);
/* A key that is there already keeps its fi_addr_t.  -FI_ENOMEM, -FI_ENOSPC, with one log line. */
int nic_av_key_add(struct nic_av *av, const void *bytes, size_t size, fi_addr_t *addr);
/*
 * All of them or none.  -FI_EINVAL: not a key of this vector, or twice in the list; -FI_EBUSY: an
 * endpoint, a region or an address of the vector has it; *bad: which.
 */
int nic_av_keys_remove(struct nic_av *av, const fi_addr_t *addrs, size_t count, size_t *bad);
/* The number of the key behind a key's fi_addr_t; 0: it is none. */
uint32_t nic_av_key_id(struct nic_av *av, fi_addr_t addr);
/*
 * The key of a key's or an address's fi_addr_t: as many bytes as fit, and in *size all that there are.
 * -FI_EINVAL: not in the vector; -FI_ENOKEY: an address without a key.
 */
int nic_av_key_copy(struct nic_av *av, fi_addr_t addr, void *bytes, size_t *size);
/* As nic_av_add, for the peer by the key behind key_addr.  -FI_EINVAL: no key of this vector. */
int nic_av_add_by_key(struct nic_av *av, uint64_t peer, fi_addr_t key_addr, fi_addr_t *addr);
/*
 * A set of the key with this number, or (0) of all keys, for an endpoint or a region, until
 * nic_av_keys_return.  -FI_ENOMEM; -FI_ENOKEY: there is none.
 */
int nic_av_keys_lend(struct nic_av *av, uint32_t id, struct hm_auth **set);
/* NULL is fine. */
void nic_av_keys_return(struct nic_av *av, struct hm_auth *set);

static inline struct nic_av_entry *nic_av_slot(struct nic_av *av, uint32_t index)
{
	uint32_t at;
	unsigned n = hm_chunk_of(index, NIC_AV_CHUNK0_BITS, &at);

	return atomic_load_explicit(&av->chunk[n], memory_order_acquire) + at;
}

/* The number of the key that a peer handle carries in a domain of FI_AV_AUTH_KEY; 0: none. */
static inline uint32_t nic_peer_key(uint64_t peer)
{
	return (uint32_t)(peer >> NIC_PEER_KEY_SHIFT);
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
