/* SPDX-License-Identifier: BSD-2-Clause */
/* What local.c and kept.c share. */
#ifndef HM_MR_LOCAL_PRIV_H
#define HM_MR_LOCAL_PRIV_H

#include "core/mr/local.h"
#include "core/mr/monitor.h"
#include "core/mr/stats.h"

struct hm_mr_local {
	struct hm_cache cache;
	struct hm_cache_shown shown;
	struct hm_mr_domain *domain;
	struct hm_key_table regions;
	uint64_t page;
	/* of HMREG_MR_CACHE (kept.c): regions in the domain's own table, what the program holds of them */
	_Atomic uint64_t kept_regions, kept_bytes, fids, fid_bytes;
	bool keeps; /* the cache may have entries */
	_Atomic bool
		joined; /* a monitor tells the cache of changed host memory; set under the domain's local_lock */
	_Atomic bool may_join; /* it could not when it was made, but another time it may */
	/* the NIC's last one to end a registration; told when it is that one's first, and by a flush */
	_Atomic int refusal;
	/* not the cache's, and the NIC did not end them; linked by their fid's context */
	_Atomic(struct hm_mr *) refused;
};

#define HM_LOCAL_READS	(FI_SEND | FI_WRITE)
#define HM_LOCAL_WRITES (FI_RECV | FI_READ)
#define HM_LOCAL_TRIES	4u /* hits that a monitor says are stale */

static inline struct hm_mr_local *hm_mr_local_find(struct hm_mr_domain *domain)
{
	return atomic_load_explicit(&domain->local, memory_order_acquire);
}

/* NULL with one log line: no memory. */
struct hm_mr_local *hm_mr_local_make(struct hm_mr_domain *domain);

static inline struct hm_mr_local *hm_mr_local_of(struct hm_mr_domain *domain)
{
	struct hm_mr_local *local = hm_mr_local_find(domain);

	return __builtin_expect(local != NULL, 1) ? local : hm_mr_local_make(domain);
}

static inline uint64_t hm_mr_local_page(const struct hm_mr_local *local, uint64_t addr)
{
	return addr & ~(local->page - 1);
}

static inline uint64_t hm_mr_local_pages_end(const struct hm_mr_local *local, uint64_t end)
{
	return (end + local->page - 1) & ~(local->page - 1);
}

/* What an owner is in a key. */
static inline void hm_mr_local_owned(const struct hmem_owner *owner, struct hm_cache_key *key)
{
	uint32_t device = (uint32_t)(owner->device + 1);

	key->kind |= owner->iface | HM_LOCAL_OWNER((device ^ device >> 12) & 0x1ffff);
	key->id = owner->id;
	key->group = (uint32_t)owner->iface;
	if (owner->guards & HMEM_GUARD_PAGES)
		key->kind |= HM_LOCAL_PAGES;
}

/* Is a registration with these guards true as long as it is kept? */
bool hm_mr_local_can_keep(struct hm_mr_local *local, uint32_t guards);
/* Are the pages behind what the cache gave those that were registered, as far as a monitor has to be asked? */
bool hm_mr_local_fresh_now(const struct hm_mr_local *local, const struct hm_mr *mr);

static inline bool hm_mr_local_fresh(const struct hm_mr_local *local, const struct hm_mr *mr)
{
	uint32_t attention = atomic_load_explicit(&hm_monitor_attention, memory_order_relaxed);

	return __builtin_expect(!(attention & HM_MONITOR_MARKS), 1) ||
	       hm_mr_local_fresh_now(local, mr);
}
/* What is given back is of one use alone; where the NIC refuses that now, it is tried again later. */
void hm_mr_local_end_alone(struct hm_mr_local *local, struct hm_mr *mr);
/* Of a region made here: are its pages watched, and under which mark? */
void hm_mr_local_note(struct hm_mr *mr, bool watched, uint64_t mark);

/* ---- kept.c ---- */

/* Which dma-buf a kept region is of; in its fid's ops. */
struct hm_mr_kept_file;
/* For a key with HM_LOCAL_KEPT, in the thread that asks for it. */
int hm_mr_kept_register(struct hm_mr_local *local, struct hm_mr **mr);
/* Such a region has ended. */
void hm_mr_kept_ended(struct hm_mr_local *local, uint64_t len, struct hm_mr_kept_file *file);

#endif
