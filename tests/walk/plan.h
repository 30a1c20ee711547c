/* SPDX-License-Identifier: BSD-2-Clause */
/* From a step to a call: operands are bytes, 0 the simplest, taken modulo what the model has. */
#ifndef HM_WALK_PLAN_H
#define HM_WALK_PLAN_H

#include "tests/walk/model.h"

/* The kind is WALK_NOTHING where the step means nothing in this state. */
void walk_plan(const struct model *m, const struct walk_step *s, struct walk_call *c);

/* ---- between its files ---- */

/* A step's operands, one after another. */
struct operands {
	const struct model *m;
	const struct walk_step *s;
	unsigned at;
};

static inline unsigned take(struct operands *o)
{
	return o->at < sizeof(o->s->b) ? o->s->b[o->at++] : 0;
}

/* True once in n, for the large values. */
static inline bool seldom(struct operands *o, unsigned n)
{
	return take(o) >= 256 - 256 / n;
}

/* Where the memory that is used ends. */
static inline uint64_t plan_end(const struct operands *o)
{
	return o->m->config.faults ? WALK_BYTES : WALK_WRITABLE * WALK_PAGE;
}

typedef bool (*plan_test)(const struct model *m, int slot, int of);

/* The first slot from an operand on that passes the test; WALK_NONE: there is none. */
int plan_pick(struct operands *o, int slots, plan_test test, int of);
/* Where there is none, any that passes the other test. */
int plan_prefer(struct operands *o, int slots, plan_test best, plan_test other, int of);

bool plan_live_domain(const struct model *m, int slot, int of);
bool plan_live_ep(const struct model *m, int slot, int of);

void plan_object(struct operands *o, struct walk_call *c);    /* plan_object.c */
void plan_operation(struct operands *o, struct walk_call *c); /* plan_op.c */

#endif
