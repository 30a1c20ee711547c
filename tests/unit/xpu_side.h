/* SPDX-License-Identifier: BSD-2-Clause */
/* The host's side of exported objects, made by hand: rings of SIDE_SLOTS slots, and what a host does with them. */
#ifndef TEST_XPU_SIDE_H
#define TEST_XPU_SIDE_H

#include <string.h>

#include <rdma/fi_xpu_device.h>

#define SIDE_SLOTS 8u

struct side {
	struct hmreg_xpu_ep ep;
	struct hmreg_xpu_cq cq;
	struct hmreg_xpu_cntr cntr;
	struct hmreg_xpu_own ep_own, cq_own, cntr_own;
	struct hmreg_xpu_wr wr[SIDE_SLOTS];
	struct hmreg_xpu_cqe cqe[SIDE_SLOTS];
	uint64_t taken,
		put; /* numbers: of the next request to take, of the next completion to put */
	/* As exported: */
	struct fid_xpu_ep xpu_ep;
	struct fid_xpu_cq xpu_cq;
	struct fid_xpu_cntr xpu_cntr;
};

static inline uint64_t side_at(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* Numbers begin with first, as they would after so many requests and completions. */
static inline void side_init(struct side *side, uint64_t first)
{
	memset(side, 0, sizeof(*side));
	side->taken = side->put = side->ep_own.next = side->cq_own.next = first;
	for (uint64_t i = first; i != first + SIDE_SLOTS; i++) {
		side->wr[i % SIDE_SLOTS].seq = i;
		side->cqe[i % SIDE_SLOTS].seq = i;
	}
	side->ep.version = side->cq.version = side->cntr.version = HMREG_XPU_VERSION;
	side->ep.mask = side->cq.mask = SIDE_SLOTS - 1;
	side->ep.ring = side_at(side->wr);
	side->ep.own = side_at(&side->ep_own);
	side->cq.ring = side_at(side->cqe);
	side->cq.own = side_at(&side->cq_own);
	side->cq.format = 3;
	side->cq.entry_size = 40;
	side->cntr.own = side_at(&side->cntr_own);
	side->xpu_ep.fid.prov_id = side->xpu_cq.fid.prov_id = side->xpu_cntr.fid.prov_id =
		FI_XPU_PROV_HMREG;
	side->xpu_ep.fid.prov_ctx = side_at(&side->ep);
	side->xpu_cq.fid.prov_ctx = side_at(&side->cq);
	side->xpu_cntr.fid.prov_ctx = side_at(&side->cntr);
}

/* The next request, if there is one. */
static inline int side_take(struct side *side, struct hmreg_xpu_wr *wr)
{
	struct hmreg_xpu_wr *slot = &side->wr[side->taken % SIDE_SLOTS];

	if (__atomic_load_n(&slot->seq, __ATOMIC_ACQUIRE) != side->taken + 1)
		return 0;
	*wr = *slot;
	__atomic_store_n(&slot->seq, side->taken + SIDE_SLOTS, __ATOMIC_RELEASE);
	side->taken++;
	return 1;
}

/* A completion, if there is room; each word of it tells which it is.  err: 0, or what it failed with. */
static inline int side_put(struct side *side, uint64_t n, int err)
{
	struct hmreg_xpu_cqe *slot = &side->cqe[side->put % SIDE_SLOTS];

	if (__atomic_load_n(&slot->seq, __ATOMIC_ACQUIRE) != side->put)
		return 0;
	slot->context = n;
	slot->flags = n + 1;
	slot->len = n + 2;
	slot->buf = n + 3;
	slot->data = n + 4;
	slot->src_addr = n + 5;
	slot->olen = n + 6;
	slot->prov_errno = (int32_t)n + 7;
	__atomic_store_n(&slot->err, err, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->seq, ++side->put, __ATOMIC_RELEASE);
	return 1;
}

#endif
