/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * This provider's part of fi_xpu_device.h: what an exported object is on the device, and the functions
 * that post to it and read it. fi_xpu(3)
 *
 * The transport is a ring in memory that host and device both reach.  Every object that the host exports
 * has a control block (struct hmreg_xpu_ep, _cq, _cntr) at the device address prov_ctx; it is constant
 * but for the words that a comment calls changing.  Addresses in it are the device's.  All words are in
 * the byte order of the host, which is the device's.
 *
 * A ring of mask + 1 slots is written by one side and read by the other.  A slot's seq says whose turn it
 * is: number n (counted from 0, without end) goes to slot n & mask, which may be written while seq == n
 * and read while seq == n + 1; who has read it sets seq to n + mask + 1, so that number n + mask + 1 may
 * be written.  seq is loaded with acquire and stored with release order, at the scope of the system, after
 * everything else in the slot: so a slot is never seen half written, and what was written to any memory
 * before a request was posted is there before its transfer reads it; likewise what a completion stands
 * for is there before the completion is.
 *
 * Several threads may post to an endpoint, or read a queue, at the same time without sharing a scope: each
 * takes its number by a compare-and-swap on a word of the device's own.  A thread that dies between that and its
 * store of seq leaves a number that never comes: the ring gets full behind it, and -FI_EAGAIN is all there is until
 * the host closes the object, which it can at any time.
 *
 * SCOPES.  All threads of a scope make the call, with the same arguments; buf and src_addr of a read are memory that
 * all of them reach.  They wait for each other when it begins and when it ends, as at a barrier of the scope, and one
 * of them acts between.  So what any of them has written goes with the request, and all see what a completion
 * stands for.
 *
 *   FI_XPU_SUBGROUP    all threads of the warp that have not exited; on AMD and SYCL those that run together
 *   FI_XPU_WORK_GROUP  all threads of the block, none of which has exited
 *   FI_XPU_DEVICE      those of all blocks of the grid, which have to run at the same time, as a cooperative launch
 *		        has them; one grid at a time, as the blocks meet by words of the object.  A kernel that dies in
 *		        such a call leaves them as they are: the object is to be closed
 *
 * MEMORY.  The control block and the ring are in memory that the device reaches coherently: imported host memory
 * (on AMD fine-grained, in SYCL USM of the host's).  For SYCL the device has the aspect atomic64.
 */
#ifndef FI_XPU_DEVICE_H
#include <rdma/fi_xpu_device.h> /* which includes this file where its declarations are done */
#elif !defined(FI_XPU_DEVICE_HMREG_H)
#define FI_XPU_DEVICE_HMREG_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_xpu_device_hmreg_arch.h>

/* fid_xpu.prov_id of what this provider exports. */
#define FI_XPU_PROV_HMREG	    0x686d

/* struct hmreg_xpu_ep.version and the like: host and device headers must be of one layout. */
#define HMREG_XPU_VERSION	    1u

/* What fi_mr_get_xpu_desc() gives, mr_desc_size bytes. */
struct hmreg_xpu_desc {
	uint64_t region; /* the region's name on the host, never 0 */
	uint32_t lkey; /* what the NIC's own work requests call it; ~0: it has no one name there */
	uint32_t zero;
};

/* What fi_av_lookup2() gives, av_addr_size bytes. */
struct hmreg_xpu_addr {
	uint64_t addr; /* the fi_addr_t */
};

/* What a request does. */
enum {
	HMREG_XPU_SEND = 1,
	HMREG_XPU_RECV,
	HMREG_XPU_WRITE,
	HMREG_XPU_READ,
	HMREG_XPU_ATOMIC,
	HMREG_XPU_FETCH_ATOMIC,
	HMREG_XPU_COMPARE_ATOMIC
};

/* A slot of an endpoint's ring: one request, written by the device. */
struct hmreg_xpu_wr {
	uint64_t seq; /* changing */
	uint8_t op;   /* HMREG_XPU_SEND ... */
	uint8_t datatype, atomic_op;
	uint8_t zero;
	uint32_t zero2;
	uint64_t flags; /* FI_REMOTE_CQ_DATA, FI_COMPLETION and the like */
	uint64_t buf;	/* as the host registered it, whatever the device calls it */
	uint64_t len;	/* bytes; elements of atomics */
	uint64_t desc;	/* struct hmreg_xpu_desc.region; 0: none was given */
	uint64_t data;
	uint64_t peer; /* struct hmreg_xpu_addr.addr; ~0: none was given, as a receive from anybody */
	uint64_t addr, key;
	uint64_t context;
	uint64_t result, result_desc;	/* of fetching atomics, as buf and desc */
	uint64_t compare, compare_desc; /* of comparing ones */
	uint64_t zero3;
};

/* A slot of a completion queue's ring, written by the host. */
struct hmreg_xpu_cqe {
	uint64_t seq; /* changing */
	uint64_t context;
	uint64_t flags, len, buf, data;
	uint64_t src_addr; /* fi_addr_t; ~0: none */
	uint64_t olen;
	int32_t err; /* positive FI_E code; 0: success.  Atomic, relaxed: looked at before the slot is taken */
	int32_t prov_errno;
	uint64_t zero[7];
};

/* Changing words of the device alone, zero at first; in memory of the device's own where it has any. */
struct hmreg_xpu_own {
	uint64_t next;	      /* number of the next request to post, or completion to read */
	uint64_t add, adderr; /* of a counter: what the device has added to value and error value */
	uint64_t seen;	      /* of a counter: the error value that the device was told last */
	/* Groups of threads of the whole device that make a call together: */
	uint64_t arrived; /* in this round */
	uint64_t round;
	int64_t result; /* of the call, for all */
	uint64_t zero;
};

/* An exported endpoint's control block. */
struct hmreg_xpu_ep {
	uint32_t version;
	uint32_t mask;
	uint64_t ring; /* mask + 1 struct hmreg_xpu_wr */
	uint64_t own;  /* struct hmreg_xpu_own */
	uint64_t zero[5];
};

/* An exported completion queue's. */
struct hmreg_xpu_cq {
	uint32_t version;
	uint32_t mask;
	uint64_t ring;	     /* mask + 1 struct hmreg_xpu_cqe */
	uint64_t own;	     /* struct hmreg_xpu_own */
	uint32_t format;     /* enum fi_cq_format: 1 context, 2 message, 3 data */
	uint32_t entry_size; /* bytes of an entry of this format */
	uint64_t zero[4];
};

/* An exported counter's.  Its value is value + own.add, modulo 2^64, its error value errors + own.adderr. */
struct hmreg_xpu_cntr {
	uint32_t version;
	uint32_t zero;
	uint64_t own; /* struct hmreg_xpu_own */
	uint64_t zero2[6];
	uint64_t value;	 /* changing, by the host: acquire */
	uint64_t errors; /* changing, by the host: acquire */
	uint64_t zero3[6];
};

/* Codes of fi_errno.h. */
#define HMREG_XPU_EAGAIN	    11
#define HMREG_XPU_EINVAL	    22
#define HMREG_XPU_EAVAIL	    259
#define HMREG_XPU_EBADFLAGS	    260

/* An address of a control block or a slot, on the device. */
#define HMREG_XPU_AT(type, address) ((type *)(uintptr_t)(address))

/* ---- threads that make a call together ---- */

/* One call of one thread, from hmreg_xpu_begin to hmreg_xpu_end. */
struct hmreg_xpu_call {
	int scope;
	int acts; /* this thread is the one that acts for all */
	uint32_t who;
	uint64_t round;
};

/*
 * Groups meet, which run at the same time: the last of count to come is told so, and acts for all.  The others
 * wait in hmreg_xpu_part for what it gives.  A group comes again only after it has parted, and the last one opens
 * the next round after all have come to this one, so round and arrived are never a round off.
 */
FI_XPU_FUNC int hmreg_xpu_meet(struct hmreg_xpu_own *own, uint64_t count, uint64_t *round)
{
	*round = hmreg_xpu_own_load(&own->round);
	return hmreg_xpu_own_add(&own->arrived, 1) + 1 == count;
}

FI_XPU_FUNC int64_t hmreg_xpu_part(struct hmreg_xpu_own *own, int acts, uint64_t round,
				   int64_t result)
{
	uint64_t looks = 0;

	if (acts) {
		own->result = result;
		hmreg_xpu_own_store(&own->arrived, 0);
		hmreg_xpu_store(&own->round, round + 1);
		return result;
	}
	while (hmreg_xpu_load(&own->round) == round)
		hmreg_xpu_pause(++looks);
	return own->result;
}

/*
 * All threads of the scope have come, and what they wrote is there for the one that acts.  A scope that is none of
 * FI_XPU_WORK_ITEM and so on is taken for the thread alone.
 */
FI_XPU_FUNC int hmreg_xpu_begin(struct hmreg_xpu_call *call, struct hmreg_xpu_own *own, int scope)
{
	call->scope = scope;
	call->acts = 1;
	call->who = 0;
	call->round = 0;
	(void)own;
	if (scope <= FI_XPU_WORK_ITEM || scope > FI_XPU_DEVICE)
		return 1;
#if defined(HMREG_XPU_PROCESSOR) && defined(HMREG_XPU_RANK)
	HMREG_XPU_SYNC(scope);
	call->acts = HMREG_XPU_RANK(scope) == 0;
#elif !defined(HMREG_XPU_PROCESSOR)
	if (scope == FI_XPU_SUBGROUP) {
		call->acts = hmreg_xpu_subgroup_begin(&call->who);
		return call->acts;
	}
	hmreg_xpu_group_sync();
	call->acts = hmreg_xpu_group_first();
	if (scope == FI_XPU_DEVICE && call->acts)
		call->acts = hmreg_xpu_meet(own, hmreg_xpu_groups(), &call->round);
#endif
	return call->acts;
}

/* The result of the one that acted, for all; what it has seen is there for all. */
FI_XPU_FUNC int64_t hmreg_xpu_end(const struct hmreg_xpu_call *call, struct hmreg_xpu_own *own,
				  int64_t result)
{
	int scope = call->scope;

	(void)own;
	if (scope <= FI_XPU_WORK_ITEM || scope > FI_XPU_DEVICE)
		return result;
#if defined(HMREG_XPU_PROCESSOR) && defined(HMREG_XPU_RANK)
	return (int64_t)HMREG_XPU_SHARE(scope, (long long)result);
#elif defined(HMREG_XPU_PROCESSOR)
	return result;
#else
	if (scope == FI_XPU_SUBGROUP)
		return hmreg_xpu_subgroup_end(call->who, result);
	if (scope == FI_XPU_DEVICE && hmreg_xpu_group_first())
		result = hmreg_xpu_part(own, call->acts, call->round, result);
	return hmreg_xpu_group_share(result);
#endif
}

/* ---- time ---- */

/* A wait of one thread; timeout in milliseconds, negative: without end. */
struct hmreg_xpu_wait {
	int timeout;
	uint64_t looks, start;
};

FI_XPU_FUNC void hmreg_xpu_wait_begin(struct hmreg_xpu_wait *wait, int timeout)
{
	wait->timeout = timeout;
	wait->looks = 0;
	wait->start = timeout > 0 ? hmreg_xpu_now(0) : 0;
}

/* After a look that was in vain: is the time over?  Pauses if it is not. */
FI_XPU_FUNC int hmreg_xpu_wait_over(struct hmreg_xpu_wait *wait)
{
	uint64_t limit = (uint64_t)wait->timeout * 1000000u;

	if (!wait->timeout)
		return 1;
	wait->looks++;
	/* The clock may cost more than a look. */
	if (wait->timeout > 0 && !(wait->looks & 15) &&
	    hmreg_xpu_now(wait->looks) - wait->start >= limit)
		return 1;
	hmreg_xpu_pause(wait->looks);
	return 0;
}

/* ---- requests ---- */

/* One that has all that every request may have; desc and peer are still pointers, which are read by the one that acts. */
FI_XPU_FUNC struct hmreg_xpu_wr hmreg_xpu_request(uint8_t op, const void *buf, size_t len,
						  const void *desc, const void *peer, uint64_t addr,
						  uint64_t key, void *context, uint64_t flags)
{
	struct hmreg_xpu_wr wr;

	wr.seq = 0;
	wr.op = op;
	wr.datatype = wr.atomic_op = wr.zero = 0;
	wr.zero2 = 0;
	wr.flags = flags;
	wr.buf = (uint64_t)(uintptr_t)buf;
	wr.len = len;
	wr.desc = (uint64_t)(uintptr_t)desc;
	wr.data = 0;
	wr.peer = (uint64_t)(uintptr_t)peer;
	wr.addr = addr;
	wr.key = key;
	wr.context = (uint64_t)(uintptr_t)context;
	wr.result = wr.result_desc = wr.compare = wr.compare_desc = wr.zero3 = 0;
	return wr;
}

FI_XPU_FUNC uint64_t hmreg_xpu_region(uint64_t desc)
{
	return desc ? HMREG_XPU_AT(const struct hmreg_xpu_desc, desc)->region : 0;
}

FI_XPU_FUNC uint64_t hmreg_xpu_peer(uint64_t addr)
{
	return addr ? HMREG_XPU_AT(const struct hmreg_xpu_addr, addr)->addr : ~(uint64_t)0;
}

/* All of a slot but its seq, which other threads may be looking at. */
FI_XPU_FUNC void hmreg_xpu_fill(struct hmreg_xpu_wr *slot, const struct hmreg_xpu_wr *wr)
{
	const hmreg_xpu_word *from = (const hmreg_xpu_word *)wr;
	hmreg_xpu_word *to = (hmreg_xpu_word *)slot;
	size_t i;

	for (i = 1; i < sizeof(*wr) / sizeof(*from); i++)
		to[i] = from[i];
}

/*
 * Into the ring, by one thread.  The number is taken before the slot is written, and the slot is told to be there last,
 * so a thread that is killed between leaves a slot that never comes: the host can close everything none the less.
 */
FI_XPU_FUNC int hmreg_xpu_put(const struct hmreg_xpu_ep *ep, struct hmreg_xpu_wr *wr)
{
	struct hmreg_xpu_own *own = HMREG_XPU_AT(struct hmreg_xpu_own, ep->own);
	struct hmreg_xpu_wr *ring = HMREG_XPU_AT(struct hmreg_xpu_wr, ep->ring), *slot;
	uint64_t n = hmreg_xpu_own_load(&own->next), seq, was;

	/* First: a pointer that is wrong kills the kernel, before it has taken a number. */
	wr->desc = hmreg_xpu_region(wr->desc);
	wr->result_desc = hmreg_xpu_region(wr->result_desc);
	wr->compare_desc = hmreg_xpu_region(wr->compare_desc);
	wr->peer = hmreg_xpu_peer(wr->peer);
	for (;;) {
		slot = &ring[n & ep->mask];
		seq = hmreg_xpu_load(&slot->seq);
		if (seq == n) {
			was = hmreg_xpu_own_swap(&own->next, n, n + 1);
			if (was == n)
				break;
			n = was;
		} else if ((int64_t)(seq - n) < 0) {
			return -HMREG_XPU_EAGAIN;
		} else { /* another thread's by now */
			n = hmreg_xpu_own_load(&own->next);
		}
	}
	hmreg_xpu_fill(slot, wr);
	hmreg_xpu_store(&slot->seq, n + 1);
	return 0;
}

/*
 * What is needed of a control block, which may be in the host's memory, is read once: what a device keeps of such
 * memory is gone after each load with acquire order.
 */
FI_XPU_FUNC struct hmreg_xpu_ep hmreg_xpu_ep_at(const struct fid_xpu_ep *ep)
{
	const struct hmreg_xpu_ep *from = HMREG_XPU_AT(const struct hmreg_xpu_ep, ep->fid.prov_ctx);
	struct hmreg_xpu_ep at;

	at.version = from->version;
	at.mask = from->mask;
	at.ring = from->ring;
	at.own = from->own;
	return at;
}

/* The same, by the threads of the scope. */
FI_XPU_FUNC int hmreg_xpu_post(struct fid_xpu_ep *ep, struct hmreg_xpu_wr *wr, int scope)
{
	const struct hmreg_xpu_ep at = hmreg_xpu_ep_at(ep);
	struct hmreg_xpu_own *own = HMREG_XPU_AT(struct hmreg_xpu_own, at.own);
	struct hmreg_xpu_call call;
	int ret = 0;

	if (at.version != HMREG_XPU_VERSION)
		return -FI_XPU_ENOSYS;
	if (hmreg_xpu_begin(&call, own, scope))
		ret = hmreg_xpu_put(&at, wr);
	return (int)hmreg_xpu_end(&call, own, ret);
}

FI_XPU_FUNC int hmreg_xpu_write(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc,
				uint64_t data, void *dest_addr, uint64_t addr, uint64_t key,
				void *context, uint64_t flags, int scope)
{
	struct hmreg_xpu_wr wr = hmreg_xpu_request(HMREG_XPU_WRITE, buf, len, desc, dest_addr, addr,
						   key, context, flags);

	wr.data = data;
	return hmreg_xpu_post(ep, &wr, scope);
}

FI_XPU_FUNC int hmreg_xpu_read(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
			       void *src_addr, uint64_t addr, uint64_t key, void *context,
			       uint64_t flags, int scope)
{
	struct hmreg_xpu_wr wr = hmreg_xpu_request(HMREG_XPU_READ, buf, len, desc, src_addr, addr,
						   key, context, flags);

	return hmreg_xpu_post(ep, &wr, scope);
}

FI_XPU_FUNC int hmreg_xpu_send(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc,
			       uint64_t data, void *dest_addr, void *context, uint64_t flags,
			       int scope)
{
	struct hmreg_xpu_wr wr =
		hmreg_xpu_request(HMREG_XPU_SEND, buf, len, desc, dest_addr, 0, 0, context, flags);

	wr.data = data;
	return hmreg_xpu_post(ep, &wr, scope);
}

FI_XPU_FUNC int hmreg_xpu_recv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
			       void *src_addr, void *context, uint64_t flags, int scope)
{
	struct hmreg_xpu_wr wr =
		hmreg_xpu_request(HMREG_XPU_RECV, buf, len, desc, src_addr, 0, 0, context, flags);

	return hmreg_xpu_post(ep, &wr, scope);
}

/* An atomic request of any kind; what it has besides is in wr already. */
FI_XPU_FUNC int hmreg_xpu_post_atomic(struct fid_xpu_ep *ep, struct hmreg_xpu_wr *wr, int datatype,
				      int op, int scope)
{
	/* The host knows which there are; a slot has no more room. */
	if (datatype < 0 || datatype > 0xff || op < 0 || op > 0xff)
		return -HMREG_XPU_EINVAL;
	wr->datatype = (uint8_t)datatype;
	wr->atomic_op = (uint8_t)op;
	return hmreg_xpu_post(ep, wr, scope);
}

FI_XPU_FUNC int hmreg_xpu_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count, void *desc,
				 void *dest_addr, uint64_t addr, uint64_t key, int datatype, int op,
				 void *context, uint64_t flags, int scope)
{
	struct hmreg_xpu_wr wr = hmreg_xpu_request(HMREG_XPU_ATOMIC, buf, count, desc, dest_addr,
						   addr, key, context, flags);

	return hmreg_xpu_post_atomic(ep, &wr, datatype, op, scope);
}

FI_XPU_FUNC int hmreg_xpu_fetch_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count,
				       void *desc, void *result, void *result_desc, void *dest_addr,
				       uint64_t addr, uint64_t key, int datatype, int op,
				       void *context, uint64_t flags, int scope)
{
	struct hmreg_xpu_wr wr = hmreg_xpu_request(HMREG_XPU_FETCH_ATOMIC, buf, count, desc,
						   dest_addr, addr, key, context, flags);

	wr.result = (uint64_t)(uintptr_t)result;
	wr.result_desc = (uint64_t)(uintptr_t)result_desc;
	return hmreg_xpu_post_atomic(ep, &wr, datatype, op, scope);
}

FI_XPU_FUNC int hmreg_xpu_compare_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count,
					 void *desc, const void *compare, void *compare_desc,
					 void *result, void *result_desc, void *dest_addr,
					 uint64_t addr, uint64_t key, int datatype, int op,
					 void *context, uint64_t flags, int scope)
{
	struct hmreg_xpu_wr wr = hmreg_xpu_request(HMREG_XPU_COMPARE_ATOMIC, buf, count, desc,
						   dest_addr, addr, key, context, flags);

	wr.compare = (uint64_t)(uintptr_t)compare;
	wr.compare_desc = (uint64_t)(uintptr_t)compare_desc;
	wr.result = (uint64_t)(uintptr_t)result;
	wr.result_desc = (uint64_t)(uintptr_t)result_desc;
	return hmreg_xpu_post_atomic(ep, &wr, datatype, op, scope);
}

#include <rdma/fi_xpu_device_hmreg_comp.h>

#endif /* FI_XPU_DEVICE_HMREG_H */
