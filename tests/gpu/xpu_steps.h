/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a kernel of gpu_xpu does: a list of steps, in memory of the device, which all its threads take together as
 * one scope.  The kernel writes into each step how it went.
 */
#ifndef GPU_XPU_STEPS_H
#define GPU_XPU_STEPS_H

#include "samples/xpu/link.h"

enum step_op {
	STEP_FILL,  /* own memory at from, with the pattern of seed */
	STEP_CHECK, /* the same, bytes that are not the pattern's are counted in wrong */
	STEP_WRITE, /* from own memory at from to the peer's at to */
	STEP_READ,  /* into own memory at from, from the peer's at to */
	STEP_ADD,   /* the word at from to the peer's at to */
	STEP_FETCH, /* the same, and what was there to own memory at result */
	STEP_SWAP, /* the word at from to the peer's at to if it is what is at compare; fetched as above */
	STEP_SEND,
	STEP_RECV,
	STEP_WAIT,  /* until all requests so far are done, as the counter says */
	STEP_ENTRY, /* the next completion of the device's queue, to entry */
	STEP_ERROR  /* the error entry that is next in the queue, to entry */
};

/* struct xpu_step.bad: what the request has in place of what it should have. */
enum {
	BAD_KEY = 1,
	BAD_DESC = 2,
	NO_DESC = 4
};

struct xpu_step {
	uint32_t op; /* enum step_op */
	uint32_t bad;
	uint32_t repeat; /* requests; 0: one */
	uint32_t seed;
	uint64_t from, to, len;
	uint64_t result, compare;
	uint64_t data; /* for the peer's queue; 0: none */
	/* how it went */
	int64_t ret;	/* as the first thread had it */
	uint64_t sum;	/* of ret, as unsigned numbers, over all threads */
	uint64_t again; /* times that the ring was full */
	uint64_t wrong;
	uint64_t entry[12]; /* struct fi_cq_data_entry, or struct fi_cq_err_entry */
};

struct steps_args {
	struct xpu_link link;
	struct xpu_step *steps;
	uint32_t count;
	int32_t scope;	 /* which all threads of the launch are one of */
	int32_t timeout; /* ms for one step */
};

/* The byte at k of a pattern. */
#define STEP_BYTE(seed, k) ((unsigned char)((seed)*89 + (k)*7 + (k) / 256 + 1))

#ifndef __CUDACC__
void steps(void *args); /* xpu_steps.c */
#endif

#endif
