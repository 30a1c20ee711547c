/* SPDX-License-Identifier: BSD-2-Clause */
/* What a device is tried out on: a protection domain and a page of memory. */
#ifndef VERBS_TRIAL_H
#define VERBS_TRIAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/nic/verbs_loop.h"

struct verbs_port;

struct verbs_trial {
	struct verbs_loop_site site; /* for a queue pair to itself that may read; site.pd: owned */
	uint8_t *page;		     /* owned */
	size_t size;
};

/* 0, or an errno and why.  Closed in either case. */
int verbs_trial_open(struct verbs_trial *trial, struct ibv_context *context,
		     const struct verbs_port *port, struct verbs_failure *why);
/* What was made on it is gone. */
void verbs_trial_close(struct verbs_trial *trial);

#endif
