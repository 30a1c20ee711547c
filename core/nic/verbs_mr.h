/* SPDX-License-Identifier: BSD-2-Clause */
/* What verbs_mr.c and verbs_parts.c share: one ibv_mr made and undone. */
#ifndef VERBS_MR_H
#define VERBS_MR_H

#include "core/nic/verbs.h"

#define VERBS_FD_GONE (-2)

/* Where parts come from. */
struct verbs_source {
	struct verbs_domain *domain;
	int access; /* IBV_ACCESS_* */
	int fd;	    /* dma-buf, the caller's; -1: host memory; VERBS_FD_GONE: not there any more */
	uint64_t fd_offset; /* of the region's first byte in the dma-buf */
	/* one for each segment, with which fd and fd_offset change; NULL: they are the same for all */
	const struct fi_mr_dmabuf *files;
};

/* Register part: all its fields but mr are given.  The NIC's error, with one log line. */
int verbs_part_register(const struct verbs_source *source, struct verbs_part *part);
/*
 * Undo it; part->mr becomes NULL.  Nothing to do where it is NULL.  An error, with one log line, leaves
 * the part as it is.
 */
int verbs_part_deregister(struct verbs_domain *domain, struct verbs_part *part);
/* What a peer or a work request calls the byte at addr: addr, or where it lies in its page. */
uint64_t verbs_iova_of(const struct verbs_domain *domain, uint64_t addr);

/*
 * Register segments that are several or longer than the device takes in one: adjacent ones are joined,
 * long ones split at page boundaries.  All or nothing.
 */
int verbs_parts_register(struct nic_region *region, const struct verbs_source *source,
			 const struct iovec *iov, size_t count);
/*
 * On success parts is freed.  A failure: the device does not let all of it go.  Parts that were gone
 * already are registered anew from source, under the key that the region has; where that fails, or source
 * has no memory to do so (a dma-buf), the mr of those that are gone is NULL and the region can only be
 * closed, which a further line tells.
 */
int verbs_parts_deregister(const struct verbs_source *source, struct verbs_parts *parts);

/* verbs_local.c: the region may (not) serve local buffers that come without a descriptor. */
void verbs_local_offer(struct verbs_domain *domain, struct verbs_region *region);
void verbs_local_withdraw(struct verbs_domain *domain, struct verbs_region *region);

#endif
