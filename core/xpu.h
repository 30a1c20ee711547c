/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What core's objects ask of xpu/, which is above them and implements it: contexts of devices that start
 * transfers, and what is exported to them.  fi_xpu(3)
 *
 * An object that belongs to a context holds one of its users from open to close.  An exported object has a
 * part (struct hm_xpu_part), which the context's engine looks at until hm_xpu_part_end.
 */
#ifndef HM_XPU_H
#define HM_XPU_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_xpu.h>

struct hm_av;
struct hm_cntr;
struct hm_cq;
struct hm_domain;
struct hm_ep;
struct hm_xpu_part;
struct nic_region;
struct nic_xpu_ops;

/* The interface that brought devices as initiators; programs of older ones see nothing of them. */
#define HM_XPU_VERSION FI_VERSION(2, 6)

/* Contexts of a domain: max_xpu_ctx_cnt of every port that has endpoints. */
#define HM_XPU_CTX_MAX 64u

/*
 * A context.  A domain's are an array that lives as long as the domain, so that one which is closed, or
 * another domain's, is told from those that are open without a lock.
 */
struct hm_xpu_ctx {
	struct fid_xpu_ctx ctx;
	_Atomic bool open;
	_Atomic uint32_t users;		     /* endpoints, queues, counters */
	struct hm_domain *domain;	     /* holds one of its users while open */
	struct hm_xpu_own *own;		     /* xpu/'s, owned; NULL: the element is free */
	const struct nic_xpu_ops *transport; /* the NIC's own, or the ring */
};

static_assert(sizeof(struct hm_xpu_ctx) == 64, "an element is found without a division");

/* Not looked into: is it an open context of the domain whose contexts these are (NULL: it has none yet)? */
static inline struct hm_xpu_ctx *hm_xpu_find(struct hm_xpu_ctx *contexts,
					     const struct fid_xpu_ctx *fid)
{
	uintptr_t at = (uintptr_t)fid - (uintptr_t)contexts;

	if (!contexts || at >= HM_XPU_CTX_MAX * sizeof(*contexts) || at % sizeof(*contexts) != 0 ||
	    !atomic_load_explicit(&contexts[at / sizeof(*contexts)].open, memory_order_acquire))
		return NULL;
	return &contexts[at / sizeof(*contexts)];
}

/*
 * For an object that is being opened with FI_XPU (asked) or without: its context with one more user, to be
 * given back by hm_xpu_ctx_put, or NULL where none was asked for.  named is where the attributes name it,
 * NULL if they do not; it is not looked at for interfaces below 2.6, whose attributes end before.  cap is one of
 * FI_XPU_CAP_*.  With one log line naming call: -FI_EINVAL: a context without FI_XPU; none, a closed one or
 * another domain's with it.  -FI_ENOSYS: the domain has no FI_XPU, or the context cannot export this.
 */
int hm_xpu_ctx_get(struct hm_domain *domain, bool asked, struct fid_xpu_ctx *const *named,
		   uint64_t cap, const char *call, struct hm_xpu_ctx **ctx);
void hm_xpu_ctx_put(struct hm_xpu_ctx *ctx); /* NULL: nothing */

/*
 * Behind fi_*_export_xpu.  -FI_ENOSYS: the object belongs to no context.  -FI_EOPBADSTATE: an endpoint that is
 * not enabled.  -FI_EBADFLAGS: there are none.  -FI_EINVAL: nowhere to put it.  An object is exported once:
 * -FI_EALREADY.  -FI_EOPNOTSUPP: in a forked child.  -FI_ENOMEM, or what the context's memory operations answer;
 * nothing is exported then.
 * The object's part is set before this returns, and *out is filled as a whole.
 */
int hm_xpu_ep_export(struct hm_ep *ep, uint64_t flags, struct fid_xpu_ep *out);
int hm_xpu_cq_export(struct hm_cq *cq, uint64_t flags, struct fid_xpu_cq *out);
int hm_xpu_cntr_export(struct hm_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *out);
/*
 * Before the object closes: when this returns the engine does not know it any more.  Requests that were
 * not taken from the ring are lost.  part NULL: it was not exported, and ctx may be NULL, too.  The device's addresses are not to be used
 * any more.
 */
void hm_xpu_part_end(const struct hm_xpu_ctx *ctx, struct hm_xpu_part *part);

/*
 * fi_mr_get_xpu_desc and fi_av_lookup2 with FI_XPU; fid may be anything.  No lock, no allocation.  With one log
 * line: -FI_EINVAL: not an open context of the domain, no len, no buffer, an address that is not in the vector.
 * -FI_ETOOSMALL: *len is what is needed, mr_desc_size or av_addr_size.  An address of a domain without FI_XPU:
 * -FI_ENOSYS.
 */
int hm_xpu_desc(struct hm_domain *domain, const struct fid_xpu_ctx *fid,
		const struct nic_region *region, void *buf, size_t *len);
int hm_xpu_addr(struct hm_av *av, const struct fid_xpu_ctx *fid, fi_addr_t addr, void *buf,
		size_t *len);

/* The domain closes: no context is open. */
void hm_xpu_contexts_end(struct hm_domain *domain);

#endif
