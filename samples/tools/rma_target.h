/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: the target's side of a run, in this process or at a server. */
#ifndef HMREG_RMA_TARGET_H
#define HMREG_RMA_TARGET_H

#include <rdma/fabric.h>

#include "rma.h"
#include "rma_memory.h"
#include "rma_talk.h"

struct rma_target {
	bool remote;
	bool dmabuf;
	struct sample_place place; /* of its memory */
	/* in this process */
	struct sample_end end;
	struct rma_memory memory;
	/* at a server */
	struct rma_talk talk;
	char text[128]; /* what the server said of itself */
	bool greeted;
};

/*
 * Open it and connect initiator, whose endpoint is not enabled yet, to it.  Close it also after a
 * failure.
 */
int rma_target_open(struct rma_target *target, const struct rma_options *options,
		    struct sample_end *initiator, const struct fi_info *info);
/* Before the initiator is closed: says good-bye to a server. */
int rma_target_close(struct rma_target *target);

int rma_target_register(struct rma_target *target, size_t size, struct rma_registration *out);
int rma_target_unregister(struct rma_target *target);
int rma_target_fill(struct rma_target *target, size_t size, const struct content *content);
int rma_target_check(struct rma_target *target, size_t size, const struct content *content,
		     struct rma_check *check);

#endif
