/* SPDX-License-Identifier: BSD-2-Clause */
/* The library's side: objects in the slots that the model has, and calls carried out on them. */
#ifndef HM_WALK_WORLD_H
#define HM_WALK_WORLD_H

#include <signal.h>

#include <rdma/fi_cm.h>

#include "tests/walk/walk.h"

/* What the objects of worlds are opened from; one for the process. */
struct world_ground {
	struct fi_info *info[WALK_VARIANTS];
	struct fid_fabric *fabric[WALK_VARIANTS];
	struct sigaction faults[2]; /* what the library does about them */
};

/* One completion or error as it was read. */
struct world_comp {
	int cq;
	struct fi_cq_data_entry entry;
	int err, cause;
};

/* What came of a call. */
struct world_result {
	long ret;
	uint64_t key, base;
	size_t size;
	const char *wrong; /* an output that must not or must have been written */
	uint32_t comps;
	struct world_comp comp[WALK_COMPS];
};

struct world {
	struct world_ground *ground;
	uint8_t *memory;
	struct fid_domain *domain[WALK_DOMAINS];
	struct hmreg_domain_ops *ops[WALK_DOMAINS];
	struct fid_eq *eq[WALK_DOMAINS]; /* where registrations are told, or NULL */
	struct fid_av *av[WALK_DOMAINS];
	fi_addr_t addr[WALK_DOMAINS][WALK_ADDRS];
	const struct walk_variant *variant[WALK_DOMAINS];
	struct fid_cq *cq[WALK_CQS];
	struct fid_cntr *cntr[WALK_CNTRS];
	struct fid_ep *ep[WALK_EPS];
	int ep_domain[WALK_EPS];
	uint8_t name[WALK_EPS][32];
	struct fid_mr *mr[WALK_MRS];
	/* of a region, and of a closed one until the slot is used again */
	uint64_t key[WALK_MRS], base[WALK_MRS];
	void *desc[WALK_MRS];
	uint8_t raw[WALK_MRS][16];
	size_t raw_size[WALK_MRS];
	uint64_t map_key[WALK_MAPS];
};

/* 77: pages of this machine are of another size.  Ends the process on any other trouble. */
int world_ground_open(struct world_ground *ground);
void world_ground_close(struct world_ground *ground);
/* Faults are the library's again, after CMocka has taken them for itself. */
void world_take_faults(const struct world_ground *ground);

/* With memory whose bytes are those at bytes (WALK_MAPPED of them), and nothing open. */
void world_init(struct world *w, struct world_ground *ground);
void world_fill(struct world *w, const uint8_t *bytes);
void world_fini(struct world *w);

/* The call, and every completion that is there after it. */
void world_call(struct world *w, const struct walk_call *c, struct world_result *r);
void world_operate(struct world *w, const struct walk_call *c, struct world_result *r);

/* An address of the memory; ranges that wrap are where they are said to be. */
static inline void *world_at(const struct world *w, uint64_t at)
{
	return (void *)(at >= WALK_WRAPS ? (uintptr_t)at : (uintptr_t)w->memory + (uintptr_t)at);
}

#endif
