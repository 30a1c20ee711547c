/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations that the library makes itself, for buffers that come without a descriptor: kept in the
 * domain's cache (cache.h), followed by a monitor (monitor.h), or made for one operation where neither is
 * to be had.  Those that a program asks to be kept, by HMREG_MR_CACHE, are in the same cache (kept.h).
 *
 * A registration here is a region like any other, but in a table of its own and without a key or rights
 * for peers, unless a program asked.
 *
 * WHAT IS REGISTERED.  Of host memory, the whole pages of the buffer, for the NIC to read (FI_SEND and
 * FI_WRITE, memory may be read-only) or to write as well (all four).  Of a device's memory, the whole allocation
 * if that is at most HM_LOCAL_WHOLE bytes, else the buffer, its ends rounded to HM_LOCAL_GRAIN inside the
 * allocation: whole allocations are what drivers export, but what is registered takes of the device's window.
 *
 * WHAT IS KEPT.  What is guarded against being found when other memory is at its addresses: hmem/owner.c has
 * the table (FN-29).  Limits are those of FI_MR_CACHE_MAX_SIZE and FI_MR_CACHE_MAX_COUNT (by itself the first
 * is what the process may lock at most, where host memory is pinned).  What is kept makes way where the NIC
 * has no memory for another registration, the program's own included.
 */
#ifndef HM_MR_LOCAL_H
#define HM_MR_LOCAL_H

#include "core/mr/cache.h"
#include "core/mr/mr.h"

#define HM_LOCAL_WHOLE (UINT64_C(4) << 20)
#define HM_LOCAL_GRAIN (UINT64_C(64) << 10)

/* hm_cache_key.kind */
#define HM_LOCAL_IFACE	 7u	   /* enum fi_hmem_iface */
#define HM_LOCAL_RELAXED (1u << 3) /* relaxed ordering */
#define HM_LOCAL_DMABUF	 (1u << 4) /* a dma-buf that the program gave */
#define HM_LOCAL_KEPT	 (1u << 5) /* a program's: HMREG_MR_CACHE */
#define HM_LOCAL_PAGES	 (1u << 6) /* a monitor has to follow its pages */
#define HM_LOCAL_PEERS(n)                                                                          \
	((uint32_t)(n) << 7) /* 2 bits: remote rights, which are never more than asked */
#define HM_LOCAL_PAGE(n)                                                                           \
	((uint32_t)(n) << 9) /* 6 bits: log2 of the page size that was given, or 0 */
#define HM_LOCAL_OWNER(n) ((uint32_t)(n) << 15) /* 17 bits: the device */
static_assert(FI_HMEM_SYNAPSEAI <= HM_LOCAL_IFACE, "interfaces have three bits");

/*
 * What is kept and not in use is closed; for closing the domain.  A NIC's refusal is returned, and what it
 * refused is kept; -FI_EBUSY with one log line: something is in use.
 */
int hm_mr_local_flush(struct hm_mr_domain *domain);
/* After a flush. */
void hm_mr_local_destroy(struct hm_mr_domain *domain);

/*
 * A registration for the buffer of seg, len > 0, that grants access (FI_SEND, FI_RECV, FI_READ, FI_WRITE:
 * what the NIC does with it).  keep false: for this operation alone.  Sets seg->hold to hold, which is given
 * back by hm_mr_local_put, by any thread, or by the NIC (nic_domain.hold_end).  0 without a region: none is
 * needed; or it cannot be had, and the operation is to fail at the NIC: there is no such memory (one log
 * line), or no device.  Others as hm_mr_check_local and fi_mr_regattr(3), with one log line that names call or
 * the cause.
 */
int hm_mr_local_get(struct hm_mr_domain *domain, struct nic_seg *seg, uint64_t access, bool keep,
		    const char *call, struct nic_hold *hold);
void hm_mr_local_put(struct nic_domain *nic, struct nic_hold *hold);

/* Is anything kept now? */
bool hm_mr_local_keeps(struct hm_mr_domain *domain);
/* All that is not in use is closed. */
void hm_mr_local_evict(struct hm_mr_domain *domain);
/* The table of the library's own regions; there is one once a get has been. */
struct hm_key_table *hm_mr_local_regions(struct hm_mr_domain *domain);

/* local_owner.c */
/*
 * While a domain may keep registrations of device memory: an interface that is told of memory that its driver
 * frees calls changed, which is hm_monitor_changed.  Counted.
 */
void hm_mr_local_follow(hmem_gone_fn *changed);
void hm_mr_local_unfollow(void);

/*
 * Whose memory a buffer is, and what guards a registration of it that is kept: asked before every lookup, id
 * and what else of owner the lookup depends on go into its key.  With owner->guards 0 nothing may be kept:
 * neither looked up nor entered.  -FI_E: no guards either; registering it tells what is wrong.
 *
 * What is found under the key of plain host memory is that, without asking: memory of a driver is not put
 * at addresses of the host's without their mapping being changed, of which the monitor of pages tells.
 */
static inline int hm_mr_local_owner(const struct nic_domain *nic, const void *addr, size_t len,
				    struct hmem_owner *owner)
{
	if (nic->caps & FI_HMEM)
		return hmem_owner_of(addr, len, owner);
	*owner = hmem_plain_owner();
	return 0;
}

#endif
