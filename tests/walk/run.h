/* SPDX-License-Identifier: BSD-2-Clause */
/* A walk through both sides, what is compared after each step, and what is made of a difference. */
#ifndef HM_WALK_RUN_H
#define HM_WALK_RUN_H

#include "tests/walk/model.h"
#include "tests/walk/world.h"

/* Steps of one episode that are drawn; behind them come some that close what there is. */
#define WALK_EPISODE 4000
#define WALK_CLOSING 96

struct walk_trace {
	struct walk_config config;
	uint32_t count;
	struct walk_step *step; /* room for WALK_EPISODE + WALK_CLOSING */
};

/* What the walk has met. */
struct walk_tally {
	uint64_t done[WALK_KINDS], refused[WALK_KINDS]; /* calls */
	uint64_t deepest;				/* a part of a part of ... */
	uint64_t subs, moved;		  /* sub-MRs made, operations that moved bytes */
	uint64_t cause[HMREG_ERROR_LAST]; /* completions by their cause */
};

struct walk_runner {
	struct world_ground *ground;
	const struct world *shared; /* whose domains are used, or NULL */
	enum model_break broken;
	struct model model;
	struct world world;
	struct walk_call call;
	struct walk_expect expect;
	struct world_result result;
	uint64_t calls;
	void (*between)(void *arg); /* called now and then between two steps, or NULL */
	void *between_arg;
	struct walk_tally tally;
	const struct walk_step *first; /* of the trace */
	struct walk_step *rewrite; /* of the trace: WALK_CLOSE_ANY becomes what it was; or NULL */
	FILE *print;		   /* where each call is told of, or NULL */
	char why[400];
};

/* Which domains worlds are made of: bits of walk_variants. */
#define WALK_ALL_VARIANTS ((1u << WALK_VARIANTS) - 1)

void walk_runner_init(struct walk_runner *r, struct world_ground *ground);
void walk_runner_fini(struct walk_runner *r);

/* The steps of an episode: a function of its arguments alone. */
void walk_draw(uint64_t seed, uint64_t episode, unsigned variants, uint32_t steps,
	       struct walk_trace *trace);
/*
 * A fresh world, the steps, and everything closed.  -1: no difference; else the step that showed it,
 * trace->count for one of the calls that open and close the world, and why in r->why.
 */
long walk_trace(struct walk_runner *r, const struct walk_trace *trace);

/* ---- compare.c: false where there is a difference, which r->why tells ---- */
bool walk_compare(struct walk_runner *r);
bool walk_compare_range(struct walk_runner *r, uint64_t at, uint64_t len);
/* False, for a difference that is told in words. */
bool walk_differs(struct walk_runner *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Make a trace that shows a difference shorter, and its operands simpler; it shows one still. */
void walk_shrink(struct walk_runner *r, struct walk_trace *trace);

/*
 * A difference that walk_trace has just shown: told, made short, and written to out as a program to read.
 * seed and episode are for the reader.
 */
void walk_report(FILE *out, struct walk_runner *r, struct walk_trace *trace, uint64_t seed,
		 uint64_t episode, long step);

/* ---- text.c ---- */
void walk_print_tally(FILE *out, const struct walk_tally *tally);
/* A call on one line, without the line's end. */
void walk_print_call(FILE *out, const struct walk_runner *r, const struct walk_call *c);
/* The step's bytes, before its call. */
void walk_print_step(FILE *out, const struct walk_step *step);
/* -1: there is none of this name. */
int walk_find_break(const char *word);
int walk_find_variant(const char *word);
/* As a program to read, which walk_load takes back. */
void walk_save(FILE *out, struct walk_runner *r, const struct walk_trace *trace);
/* False with a line on standard error: not such a file. */
bool walk_load(FILE *in, struct walk_runner *r, struct walk_trace *trace);

#endif
