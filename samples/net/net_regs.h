/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a plug-in has registered: buffers once each, and any number of handles for slices of them.
 *
 * A buffer is pinned by a region, the root, that has no remote rights where the NIC can make sub-MRs of it.  Every
 * handle, that of the whole buffer too, is a sub-MR of its root: with a key of its own, which is dead once the handle
 * has gone, whichever goes first.  The root goes with the last.  Slices are made of a root only as long as a handle
 * for all of it is there: after that nobody says that the memory is still what it was.
 *
 * Where sub-MRs would be pinned again (no memory windows, or none for dma-bufs) handles share the root's key.
 *
 * Thread safe.  Functions return 0 or a negative FI_E code.
 */
#ifndef NET_REGS_H
#define NET_REGS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../common.h"
#include "net.h"

struct net_root {
	struct fid_mr *mr; /* owned */
	uintptr_t start, end;
	bool device;	    /* NET_PTR_CUDA */
	bool share;	    /* handles have this region's key */
	atomic_size_t refs; /* handles, and whoever is making one */
	size_t whole;	    /* handles for all of it, under regs->lock; 0: not in the list */
};

struct net_mr {
	struct fid_mr *mr;     /* owned, or the root's */
	struct net_root *root; /* a reference */
	uintptr_t addr;
	size_t size;
	bool whole;			  /* counted in root->whole */
	struct net_device_mr for_kernels; /* once it is asked for */
};

struct net_regs {
	/* Of the NIC: domain, info and, with FI_MR_ENDPOINT, the endpoint; not owned. */
	struct sample_end end;
	atomic_uint_least64_t *next_key; /* of the domain */
	bool can_sub, can_sub_dmabuf;	 /* without pinning again */
	size_t slices;			 /* that are expected of each root */

	pthread_rwlock_t lock;	 /* the list; no registration is made under it */
	struct net_root **roots; /* by start */
	uintptr_t *reach;	 /* the largest end of this one and those before it */
	size_t count, room;

	atomic_uint_least64_t registered, derived, shared, open, pinned;
};

int net_regs_open(struct net_regs *regs, const struct sample_end *end,
		  atomic_uint_least64_t *next_key);
/* -FI_EBUSY: there are handles. */
int net_regs_close(struct net_regs *regs);

/*
 * A handle for memory that lies inside what is registered: -FI_ENOENT if it does not, and the caller makes a root.
 */
int net_regs_find(struct net_regs *regs, uintptr_t addr, size_t size, bool device,
		  struct net_mr **mr);
/* A root, and the handle for all of it.  attr and flags: of fi_mr_regattr, without rights; the range is mr_iov's or addr. */
int net_regs_add(struct net_regs *regs, struct fi_mr_attr *attr, uint64_t flags, uintptr_t addr,
		 size_t size, bool device, struct net_mr **mr);
/* The handle is gone in any case. */
int net_regs_drop(struct net_regs *regs, struct net_mr *mr);

/* What a peer must know for the memory from addr on, inside mr. */
int net_regs_offer(struct net_regs *regs, struct net_mr *mr, uintptr_t addr,
		   struct sample_key *key);

/* off and len lie inside size. */
static inline bool net_inside(uintptr_t start, size_t size, uintptr_t addr, size_t len)
{
	return addr >= start && addr - start <= size && len <= size - (addr - start);
}

#endif
