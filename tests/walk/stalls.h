/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that reach into each other's memory, beside their walks.  Each has a stall: lanes, one for each
 * thread, in a sub-MR that it registers, refreshes and closes again and again, over a base that
 * stays; the others write to it by keys that may be dead.  What comes of a write is not foretold, but
 * after fi_close has returned none gets through.
 */
#ifndef HM_WALK_STALLS_H
#define HM_WALK_STALLS_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/walk/world.h"

#define STALLS_MAX 32

struct stall_notice {
	pthread_mutex_t lock; /* protects what is below, but closed */
	uint64_t generation;  /* 0: there never was one */
	uint64_t addr, key, base;
	uint8_t raw[16];
	size_t raw_size;
	_Atomic uint64_t closed; /* the latest generation whose fi_close has returned */
};

struct stall {
	struct stalls *all;
	unsigned thread;
	uint64_t random;
	struct fid_domain *domain;
	int mode;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	uint8_t name[32];
	uint64_t *lanes;
	uint64_t out; /* what is written to others */
	struct fid_mr *base, *sub, *local;
	struct stall_notice notice;
	uint64_t hits, misses, busy;
};

struct stalls {
	unsigned count;
	_Atomic uint64_t next_key;
	struct stall stall[STALLS_MAX];
};

/* world has three domains open, which the threads share; each call is for all threads' stalls. */
void stalls_open(struct stalls *all, unsigned count, const struct world *world);
void stalls_close(struct stalls *all);
/* Something that the stall's own thread does; arg is a struct stall. */
void stall_act(void *arg);

#endif
