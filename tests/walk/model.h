/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model: a domain's objects by what fi_mr(3), fi_rma(3), fi_atomic(3), fi_msg(3), fi_cq(3) and
 * fi_cntr(3) say of them, in a few arrays.  It knows the library by its public headers alone.
 *
 * A call that breaks several rules may be refused by any of them, since no page tells an order; one
 * that breaks none succeeds.
 */
#ifndef HM_WALK_MODEL_H
#define HM_WALK_MODEL_H

#include "tests/walk/walk.h"

/* Rules that can be broken on purpose, to see that the walk finds it. */
enum model_break {
	MODEL_SOUND,
	MODEL_FORGETS_BASE,	/* a sub-MR does not keep its base */
	MODEL_FORGETS_RIGHTS,	/* a sub-MR has its base's rights */
	MODEL_FORGETS_SINGLE,	/* a single-use key lasts */
	MODEL_FORGETS_COUNT,	/* a region's counter does not count atomics */
	MODEL_FORGETS_ENDPOINT, /* a region's endpoint does not matter */
	MODEL_FORGETS_KEPT,	/* an endpoint with regions can be closed */
	MODEL_OFF_BY_ONE,	/* a range may end one byte behind its region */
	MODEL_BREAKS
};
extern const char *const model_break_names[MODEL_BREAKS];

struct model_domain {
	bool live;
	uint32_t id;
	const struct walk_variant *variant;
	bool av; /* its address vector is open */
	struct {
		bool live;
		uint32_t ep; /* id */
	} addr[WALK_ADDRS];
	uint32_t av_users;
};

struct model_cq {
	bool live;
	int domain;
	uint32_t users;
};

struct model_cntr {
	bool live, bytes;
	int domain;
	uint32_t users;
	uint64_t value, errors;
};

#define MODEL_QUEUE 12

struct model_recv {
	struct walk_seg seg[WALK_SEGS];
	uint32_t id[WALK_SEGS]; /* of the regions */
	uint32_t segs, context;
	uint64_t flags;
};

struct model_message {
	uint32_t from, context; /* the sender's endpoint's id */
	uint64_t flags, data, len;
	bool waits; /* the sender is told when it is delivered */
	uint8_t bytes[128];
};

struct model_ep {
	bool live, enabled;
	uint32_t id;
	int domain;
	uint64_t caps;
	bool av;
	int tx, rx; /* completion queues */
	bool tx_selective, rx_selective;
	int cntr[6];  /* send, recv, read, write, remote read, remote write */
	uint32_t mrs; /* regions bound */
	uint32_t posted, messages;
	struct model_recv recv[MODEL_QUEUE];
	struct model_message message[MODEL_QUEUE];
};

struct model_mr {
	bool live, seen; /* seen: the slot has had a region */
	uint32_t id;
	int domain;
	uint64_t access, len;
	uint64_t requested;
	uint64_t key; /* where the library chooses it, what it has told (run.c) */
	uint32_t iov_count;
	struct walk_range iov[16];
	bool enabled, single, used, wants_cntr, raw;
	int cntr, ep;
	int base;	   /* slot of the region it is part of */
	uint32_t children; /* regions that are part of it */
};

struct model_map {
	bool live, seen, wide;
	int domain;
	uint32_t uses;
	uint64_t number; /* of a narrow one */
	int mr;		 /* slot and id of the region whose key it is */
	uint32_t mr_id;
	bool bad_base, forged;
};

struct model {
	enum model_break broken;
	struct walk_config config;
	uint32_t ids, contexts;
	struct model_domain domain[WALK_DOMAINS];
	struct model_cq cq[WALK_CQS];
	struct model_cntr cntr[WALK_CNTRS];
	struct model_ep ep[WALK_EPS];
	struct model_mr mr[WALK_MRS];
	struct model_map map[WALK_MAPS];
	uint8_t memory[WALK_BYTES];
	/* what the expectation being made is */
	struct walk_expect *e;
};

void model_init(struct model *m, const struct walk_config *config, enum model_break broken);
/* What the call does; where it may do either, the state is left as after a refusal (model_take). */
void model_call(struct model *m, const struct walk_call *c, struct walk_expect *e);
/* A call that might do either has succeeded. */
void model_take(struct model *m, const struct walk_call *c);
/* Figures of a domain. */
void model_stats(const struct model *m, int domain, struct hmreg_domain_stats *stats);

/* ---- between the model's files ---- */
void model_may_fail(struct model *m, int code);
bool model_has(const struct model *m, int domain, int mode_bit);
void model_add_error(struct walk_errors *errors, int err, int cause);
void model_complete(struct model *m, int cq, uint32_t context, uint64_t flags,
		    const struct walk_errors *errors);
void model_touch(struct model *m, const struct walk_range *range);
/* A counter's event: of len bytes, or a failure. */
void model_count(struct model *m, int cntr, uint64_t len);
void model_count_error(struct model *m, int cntr);
/* Is the range inside one entry? */
bool model_holds(const struct model_mr *mr, const struct walk_range *range);
bool model_readable(const struct walk_range *range);
bool model_writable(const struct walk_range *range);
int model_ep_by_id(const struct model *m, uint32_t id);
/* An operation's local entry: adds the codes that it may be refused with. */
void model_check_local(struct model *m, int domain, const struct walk_seg *seg, uint64_t access,
		       bool inject);
/* The endpoint's state and capabilities, and the peer's address. */
void model_check_ep(struct model *m, const struct walk_call *c, uint64_t need);
/* The endpoint behind c->to; WALK_NONE: none that is enabled. */
int model_target(const struct model *m, const struct walk_call *c);

void model_object(struct model *m, const struct walk_call *c);	 /* model_object.c */
void model_endpoint(struct model *m, const struct walk_call *c); /* model_ep.c */
void model_raw(struct model *m, const struct walk_call *c);	 /* model_raw.c */
void model_rma(struct model *m, const struct walk_call *c);	 /* model_rma.c: atomics as well */
void model_message(struct model *m, const struct walk_call *c);	 /* model_msg.c */
/* The mapping that the number in this slot stands for in this domain, or WALK_NONE. */
int model_find_map(const struct model *m, int domain, int slot);
/* Messages of a closing endpoint are answered. */
void model_drop_messages(struct model *m, struct model_ep *ep);

/* model_atomic.c: one element, at dst; false where there is no such operation. */
size_t model_atomic_size(enum fi_datatype datatype);
bool model_atomic_valid(int kind, enum fi_datatype datatype, enum fi_op op);
void model_atomic(enum fi_datatype datatype, enum fi_op op, uint8_t *dst, const uint8_t *src,
		  const uint8_t *compare);

#endif
