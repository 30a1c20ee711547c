/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the endpoint share: its tables, and checks of arguments on their way to the NIC. */
#ifndef HM_EP_H
#define HM_EP_H

#include "core/core.h"
#include "core/mr/local.h"

extern struct fi_ops_msg hm_ep_msg_ops;		 /* ep_msg.c */
extern struct fi_ops_rma hm_ep_rma_ops;		 /* ep_rma.c */
extern struct fi_ops_atomic hm_ep_atomic_ops;	 /* ep_atomic.c */
extern struct fi_ops_tagged hm_ep_no_tagged_ops; /* ep_refuse.c */
extern struct fi_ops_collective hm_ep_no_collective_ops;
/*
 * Of an endpoint that belongs to an XPU context: data calls are its device's, whose requests come by the tables
 * above, and each of the host's is -FI_EOPBADSTATE.
 */
extern struct fi_ops_msg hm_ep_xpu_msg_ops;
extern struct fi_ops_rma hm_ep_xpu_rma_ops;
extern struct fi_ops_atomic hm_ep_xpu_atomic_ops;
ssize_t hm_ep_xpu_refuse(void); /* -FI_EOPBADSTATE, with the log line */

/* Point the endpoint at all its tables; what it does not offer refuses with -FI_ENOSYS (ep_ops.c). */
void hm_ep_set_ops(struct hm_ep *ep);

/* What becomes of buffers without a descriptor. */
enum hm_bare {
	HM_BARE_AS_IT_IS, /* the processor moves it, or the call is refused */
	HM_BARE_KEPT,	  /* registered, by the domain's cache */
	HM_BARE_ALONE	  /* registered for this call (HMREG_NO_CACHE) */
};

/* Local segments of one call; the regions are referenced until hm_locals_release. */
struct hm_locals {
	uint32_t count;
	enum hm_bare bare;
	size_t len; /* sum of the segments */
	struct nic_seg seg[NIC_IOV_MAX];
	struct nic_hold hold[NIC_IOV_MAX]; /* of those whose seg.hold leads here */
};

/* Flags that a message, RMA or atomic call with a flags parameter takes. */
#define HM_TX_FLAGS                                                                                \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
	 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_REMOTE_CQ_DATA | FI_FENCE | FI_MORE |       \
	 HMREG_NO_CACHE)
#define HM_RX_FLAGS (FI_COMPLETION | FI_MORE | FI_AUTH_KEY | HMREG_NO_CACHE)
/* Of these, what may hold for every operation of an endpoint. */
#define HM_TX_OP_FLAGS                                                                             \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
	 FI_DELIVERY_COMPLETE)
#define HM_RX_OP_FLAGS FI_COMPLETION

/* 0, or -FI_EOPBADSTATE / -FI_EOPNOTSUPP with a log line: enabled, and opened for need. */
int hm_ep_refuse(const struct hm_ep *ep, uint64_t need, const char *call);

static inline int hm_ep_check(const struct hm_ep *ep, uint64_t need, const char *call)
{
	if (__builtin_expect(atomic_load_explicit(&((struct hm_ep *)ep)->enabled,
						  memory_order_acquire) &&
				     (ep->caps & need) == need,
			     1))
		return 0;
	return hm_ep_refuse(ep, need, call);
}

/* The NIC's handle of a destination; 0 with a log line when addr is not in the address vector. */
uint64_t hm_ep_peer(const struct hm_ep *ep, fi_addr_t addr, const char *call);

/*
 * For a use of local buffers, one bit of NIC_LOCAL_*; copies: of which the NIC copies short ones, and len is the
 * sum of them, none of which has a descriptor.
 */
static inline enum hm_bare hm_ep_bare(const struct hm_ep *ep, uint32_t use, bool copies, size_t len,
				      uint64_t flags)
{
	if (__builtin_expect(!(ep->local & use) || (flags & FI_INJECT), 0))
		return HM_BARE_AS_IT_IS;
	if (copies && len <= ep->local_copied)
		return HM_BARE_AS_IT_IS;
	return __builtin_expect(!!(flags & HMREG_NO_CACHE), 0) ? HM_BARE_ALONE : HM_BARE_KEPT;
}

/* The same for a list of buffers. */
enum hm_bare hm_ep_barev(const struct hm_ep *ep, uint32_t use, bool copies, const struct iovec *iov,
			 void **desc, size_t count, uint64_t flags);

/*
 * Add one local segment; access is what the call does with it.  inject: the NIC reads it before the
 * call returns, so that no region is needed.  -FI_EINVAL, -FI_EACCES, with a log line.
 */
int hm_locals_add(struct hm_ep *ep, struct hm_locals *locals, const void *buf, size_t len,
		  void *desc, uint64_t access, bool inject, const char *call);
int hm_locals_addv(struct hm_ep *ep, struct hm_locals *locals, const struct iovec *iov, void **desc,
		   size_t count, uint64_t access, bool inject, const char *call);
void hm_locals_release(struct hm_locals *locals);

/* One of them: a hold that the NIC has not taken over ends. */
static inline void hm_local_release(const struct nic_seg *seg)
{
	if (!seg->hold)
		nic_local_release(seg->region);
	else if (seg->hold->region)
		hm_mr_local_put(seg->region->domain, seg->hold);
}

/* Flags that a caller gave: 0, or -FI_EBADFLAGS with a log line. */
int hm_ep_check_flags(uint64_t flags, uint64_t allowed, const char *call);
/* The same, and -FI_EINVAL where there is no msg. */
int hm_ep_check_msg(const void *msg, uint64_t flags, uint64_t allowed, const char *call);
/* A payload that is to be injected, or sent at all, fits: 0, or -FI_EINVAL / -FI_EMSGSIZE, logged. */
int hm_ep_check_len(const struct hm_ep *ep, size_t len, uint64_t flags, const char *call);

/* Flags of a call without a flags parameter. */
static inline uint64_t hm_ep_tx_flags(const struct hm_ep *ep)
{
	return ep->tx_op_flags | (ep->tx_selective ? 0 : FI_COMPLETION);
}

/* Flags of a call that has its own. */
static inline uint64_t hm_ep_msg_flags(const struct hm_ep *ep, uint64_t flags)
{
	return flags | (ep->tx_selective ? 0 : FI_COMPLETION);
}

/* Flags of an inject call: no entry on success. */
static inline uint64_t hm_ep_inject_flags(const struct hm_ep *ep, uint64_t more)
{
	return (ep->tx_op_flags & ~FI_COMPLETION) | FI_INJECT | more;
}

#endif
