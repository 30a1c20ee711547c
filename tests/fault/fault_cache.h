/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the cases of fault_cache.c stand on: the software NIC behind doors that can be shut, once as it is and
 * once as one that cannot do without registrations; a monitor that says what it is told to; calls without
 * a descriptor; and what must be as it was.
 */
#ifndef HM_TEST_FAULT_CACHE_H
#define HM_TEST_FAULT_CACHE_H

#include "core/core.h"
#include "core/mr/local.h"
#include "tests/fault/fault.h"

#define PAGE  4096u
#define PAGES 4u /* of buf; calls leave the last alone */

/* ---- the NIC ---- */

enum slot {
	REGISTER,
	DEREGISTER, /* refuses with a log line each time */
	POST,
	POST_RECV,
	EP_CLOSE,
	DOMAIN_CLOSE,
	OPEN /* no door is shut */
};

enum profile {
	FREE, /* does without registrations */
	PINS,
	PROFILES
};

extern const char *const profiles[PROFILES];
extern _Atomic unsigned refusals; /* since a door was shut */
extern _Atomic long alive;	  /* regions of the NIC */

void shut_door(enum slot slot, int err);
void heal(void);

/* ---- the monitor ---- */

extern int start_error, watch_error;
extern _Atomic long watched;

/* Or those that there are. */
void use_mock(bool use);

/* ---- calls ---- */

struct call {
	const char *name;
	int (*run)(struct scene *s); /* and looks at what it did; a code, or a completion's */
	unsigned regions;	     /* that it asks the cache for */
	enum slot door;		     /* of the post */
};

#define CALLS 7u
extern const struct call calls[CALLS];
extern uint8_t *buf; /* of the calls; PAGES */

int bare_write(struct scene *s);
/* A write with HMREG_NO_CACHE. */
int bare_alone(struct scene *s);
/* Registered twice by the program (HMREG_MR_CACHE), with the same registration under both. */
int keep_region(struct scene *s);
int done(struct fid_cq *cq);
int finish(struct scene *s, ssize_t ret);

/* ---- a case: opened, failing, as before, closed ---- */

extern struct mark outside, inside;
extern long outside_alive;

struct hm_mr_domain *domain_of(struct scene *s);
struct hmreg_cache_stats figures(struct scene *s);
void open_case(struct scene *s, const char *profile);
/* Nothing is held, so that all that is kept can go; then it has. */
void check_idle(struct scene *s);
void close_case(struct scene *s);
/* The call works, and what it registered is kept. */
void works(struct scene *s, const struct call *call);

int cache_set_up(void **state);
int cache_tear_down(void **state);

#endif
