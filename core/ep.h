/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the endpoint share: its tables, and checks of arguments on their way to the NIC. */
#ifndef HM_EP_H
#define HM_EP_H

#include "core/core.h"

extern struct fi_ops_msg hm_ep_msg_ops;		 /* ep_msg.c */
extern struct fi_ops_rma hm_ep_rma_ops;		 /* ep_rma.c */
extern struct fi_ops_atomic hm_ep_atomic_ops;	 /* ep_atomic.c */
extern struct fi_ops_tagged hm_ep_no_tagged_ops; /* ep_refuse.c */
extern struct fi_ops_collective hm_ep_no_collective_ops;

/* Point the endpoint at all its tables; what it does not offer refuses with -FI_ENOSYS (ep_ops.c). */
void hm_ep_set_ops(struct fid_ep *ep);

/* Local segments of one call; the regions are referenced until hm_locals_release. */
struct hm_locals {
	uint32_t count;
	size_t len; /* sum of the segments */
	struct nic_seg seg[NIC_IOV_MAX];
};

/* Flags that a message, RMA or atomic call with a flags parameter takes. */
#define HM_TX_FLAGS                                                                                \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
	 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_REMOTE_CQ_DATA | FI_FENCE | FI_MORE)
#define HM_RX_FLAGS (FI_COMPLETION | FI_MORE | FI_AUTH_KEY)
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
 * Add one local segment; access is what the call does with it.  inject: the NIC reads it before the
 * call returns, so that no region is needed.  -FI_EINVAL, -FI_EACCES, with a log line.
 */
int hm_locals_add(struct hm_ep *ep, struct hm_locals *locals, const void *buf, size_t len,
		  void *desc, uint64_t access, bool inject, const char *call);
int hm_locals_addv(struct hm_ep *ep, struct hm_locals *locals, const struct iovec *iov, void **desc,
		   size_t count, uint64_t access, bool inject, const char *call);
void hm_locals_release(struct hm_locals *locals);

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
