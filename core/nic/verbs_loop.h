/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair connected to itself: for requests that change keys of this side (a window is bound, a list
 * of regions is written) and need no peer.
 */
#ifndef VERBS_LOOP_H
#define VERBS_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ibv_context;
struct ibv_cq;
struct ibv_mw;
struct ibv_mw_bind_info;
struct ibv_pd;
struct ibv_qp;
struct ibv_send_wr;
struct verbs_domain;

#define VERBS_LOOP_DEPTH 4 /* requests of one queue pair */

/* What failed, and how. */
struct verbs_failure {
	const char *step, *text;
	int err; /* errno */
};

/* Fills why; the errno. */
int verbs_failed(struct verbs_failure *why, const char *step, int err);

/* Where the queue pair lives. */
struct verbs_loop_site {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint8_t port;
	int gid_index;		     /* < 0: the first */
	unsigned int access;	     /* IBV_ACCESS_* for requests that it sends itself */
	struct verbs_domain *domain; /* whose device may go; NULL: nobody asks */
	/* For queue pairs of a provider's own kind.  NULL with errno; NULL: an ordinary one. */
	struct ibv_qp *(*make_qp)(const struct verbs_loop_site *site, struct ibv_cq *cq);
};

struct verbs_loop {
	pthread_mutex_t lock; /* protects the queue pair: one request at a time; innermost */
	struct ibv_cq *cq;    /* owned */
	struct ibv_qp *qp;    /* owned */
	struct verbs_domain *domain;
	bool broken; /* a request failed or did not end: a late completion must not be taken for another's */
};

/* These return 0, or an errno and why. */
int verbs_loop_open(const struct verbs_loop_site *site, struct verbs_loop **loop,
		    struct verbs_failure *why);
/* Post one signalled request and wait for its completion.  Serialised. */
int verbs_loop_run(struct verbs_loop *loop, struct ibv_send_wr *wr, struct verbs_failure *why);
/* The same of ibv_bind_mw. */
int verbs_loop_bind(struct verbs_loop *loop, struct ibv_mw *mw, const struct ibv_mw_bind_info *info,
		    struct verbs_failure *why);
/* NULL does nothing. */
void verbs_loop_close(struct verbs_loop *loop);

/* Around a request that the caller posts itself.  After a begin that fails there is no end. */
int verbs_loop_begin(struct verbs_loop *loop, struct verbs_failure *why);
/* err: of the posting, whose name is step. */
int verbs_loop_end(struct verbs_loop *loop, int err, const char *step, struct verbs_failure *why);

#endif
