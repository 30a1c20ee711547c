/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues and counters as a NIC sees them.  core/cq.c and core/cntr.c dress them as fids.
 *
 * A NIC reserves room before it starts an operation, so that a completion is never lost: reserve,
 * execute, then push (uses the reservation up) or unreserve.  A queue without room refuses the
 * reservation with -FI_EAGAIN and the operation is not started.
 *
 * Any call may run on any thread at the same time as any other on the same object, except destroy.
 */
#ifndef HM_NIC_COMP_H
#define HM_NIC_COMP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext_hmreg.h>

#include "core/base/spin.h"
#include "core/base/wait.h"

/*
 * One completion; err == 0 is success.  src_addr is FI_ADDR_NOTAVAIL where there is none.  It begins
 * as the public entries do, so that reading one is a copy of its front.
 */
struct nic_comp {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	fi_addr_t src_addr;
	/* errors only */
	int err;	/* positive FI_E code */
	int prov_errno; /* enum hmreg_error of fi_ext_hmreg.h */
	size_t olen;
};

/* A ring indexed by free-running counters; what every operation touches is in front. */
struct nic_cq {
	_Atomic uint32_t used;	     /* entries queued plus reserved, at most size */
	uint32_t size;		     /* room */
	uint32_t ring_mask;	     /* the ring has ring_mask + 1 entries, at least size */
	uint32_t errors;	     /* entries queued with err != 0 */
	_Atomic uint32_t head, tail; /* atomic so that a reader may look before it takes the lock */
	struct hm_spin lock;   /* protects head, tail, errors, ring; innermost but for wait's */
	struct nic_comp *ring; /* owned */
	struct hm_wait wait;
	_Atomic uint32_t users; /* endpoints bound */
};

/* The FI_E code, positive, that goes with a cause. */
int nic_error_code(enum hmreg_error why);
/* The cause as a sentence, constant; of prov_errno that is none, that it is unknown. */
const char *nic_error_text(int prov_errno);

#define NIC_CQ_SIZE_MAX (UINT32_C(1) << 24)

/*
 * size entries of room, 1 to NIC_CQ_SIZE_MAX; wait_obj has passed hm_wait_check.  -FI_ENOMEM, or the
 * error of the wait object, with one log line.
 */
int nic_cq_init(struct nic_cq *cq, size_t size, enum fi_wait_obj wait_obj);
void nic_cq_destroy(struct nic_cq *cq);
/* Push a completion into room that was reserved, and wake those who wait. */
void nic_cq_push(struct nic_cq *cq, const struct nic_comp *comp);
/*
 * Take up to count successful completions off the front, as entries of format (not _UNSPEC) in buf;
 * src_addr may be NULL.  Number taken, -FI_EAGAIN when empty, -FI_EAVAIL when an error stands at the
 * front.  With count 0 it takes nothing and answers 0 where it would have taken something, and looks under the
 * lock, as nic_cq_reached does.
 */
ssize_t nic_cq_take(struct nic_cq *cq, enum fi_cq_format format, void *buf, fi_addr_t *src_addr,
		    size_t count);
/* Take the error at the front: 1, or -FI_EAGAIN when none stands there. */
ssize_t nic_cq_take_error(struct nic_cq *cq, struct nic_comp *comp);
/*
 * Are count entries queued, or as many as there is room for, or an error among them?  It looks under
 * the lock, which makes it fit for hm_wait_until and hm_wait_try.
 */
bool nic_cq_reached(struct nic_cq *cq, size_t count);

/* Is anything queued? */
static inline bool nic_cq_ready(struct nic_cq *cq)
{
	return nic_cq_reached(cq, 1);
}

/*
 * used only counts; what is in the ring is handed over by the lock.  A refused reservation counts for
 * a moment, so that another one may be refused beside it although there is room: try again.
 */
static inline int nic_cq_reserve(struct nic_cq *cq)
{
	uint32_t used = atomic_fetch_add_explicit(&cq->used, 1, memory_order_relaxed);

	if (__builtin_expect(used < cq->size, 1))
		return 0;
	atomic_fetch_sub_explicit(&cq->used, 1, memory_order_relaxed);
	return -FI_EAGAIN;
}

static inline void nic_cq_unreserve(struct nic_cq *cq)
{
	atomic_fetch_sub_explicit(&cq->used, 1, memory_order_relaxed);
}

/* A counter of operations or bytes, and of failures; both wrap at 2^64. */
struct nic_cntr {
	_Atomic uint64_t value;
	_Atomic uint64_t errors;
	bool bytes; /* FI_CNTR_EVENTS_BYTES */
	struct hm_wait wait;
	_Atomic uint32_t users; /* endpoints and regions bound */
};

/* wait_obj has passed hm_wait_check.  The error of the wait object, with one log line. */
int nic_cntr_init(struct nic_cntr *cntr, enum fi_cntr_events events, enum fi_wait_obj wait_obj);
void nic_cntr_destroy(struct nic_cntr *cntr);

/*
 * One operation of len bytes is done: adds 1, or len for a byte counter; wakes waiters.  All accesses
 * to value and errors that waiting depends on are sequentially consistent, as wait.h demands.
 */
static inline void nic_cntr_done(struct nic_cntr *cntr, uint64_t len)
{
	atomic_fetch_add(&cntr->value, cntr->bytes ? len : 1);
	hm_wait_signal(&cntr->wait);
}

/* One operation failed. */
static inline void nic_cntr_failed(struct nic_cntr *cntr)
{
	atomic_fetch_add(&cntr->errors, 1);
	hm_wait_signal(&cntr->wait);
}

#endif
