/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fuzz_mr_attr works on: memory between guards, and for each profile a domain with an endpoint
 * that reaches itself.  All of it lives as long as the process; what one input made is closed at its
 * end, and the domains' figures must then be back at zero.
 */
#ifndef HM_FUZZ_MR_WORLD_H
#define HM_FUZZ_MR_WORLD_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "tests/fuzz/input.h"

#define ARENA	65536u
#define MRS	12
#define KEYS	12
#define SEGS	16
#define WORLDS	4 /* three profiles, and one that registers through an event queue */
#define NOTHING ((struct fid_mr *)(uintptr_t)0x5a5a5a5a)

/* A region as this side knows it: what an access may touch. */
struct fuzz_mr {
	struct fid_mr *mr;    /* NULL: none */
	struct fuzz_mr *base; /* what it is a sub-MR of, or NULL */
	unsigned subs;
	size_t segs;
	struct iovec seg[SEGS];
	uint64_t len, access;
	bool enabled, bound, single_use, used;
	bool keyed; /* for peers with an authorization key: our endpoint has none */
};

struct fuzz_key {
	uint64_t key;
	struct fuzz_mr *mr; /* NULL: not of a region of ours, or closed since */
	bool mapped;
};

struct world {
	int mode;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq; /* registrations complete here; may be NULL */
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	fi_addr_t self;
	struct hmreg_domain_ops *ops;
	struct fuzz_mr mr[MRS];
	struct fuzz_key key[KEYS]; /* from fi_mr_map_raw */
};

extern struct world worlds[WORLDS];
/* ARENA bytes; a page of guard words on either side, and behind those a page that faults. */
extern uint8_t *arena;

void worlds_open(void);
struct hmreg_domain_stats world_stats(struct world *w);
/* The guard words are what they were. */
void arena_check(void);
bool in_arena(const void *addr, uint64_t len);
/* Memory that is not there. */
void *unmapped(void);

/* Closes all that the input has made, and checks that nothing is left. */
void world_clean(struct world *w);
/* One with sub-MRs stays, as it must. */
void close_mr(struct world *w, struct fuzz_mr *m);

/* One remote range: the region that it lies in, if this access is allowed; else NULL. */
struct fuzz_mr *allowed(struct world *w, const struct fi_rma_iov *remote, uint64_t access,
			uint64_t *offset);
/* The address of byte offset of a region. */
uint8_t *byte_of(const struct fuzz_mr *m, uint64_t offset);

/* Whichever the input chooses; mr of the result may be NULL. */
struct fuzz_mr *take_mr(struct input *in, struct world *w);

/* mr_data.c: one write, read or atomic, and what must come of it. */
void transfer(struct input *in, struct world *w);

#endif
