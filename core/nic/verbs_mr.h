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
	/* not NULL: parts are windows into this region's, and fd is -1 */
	const struct nic_region *base;
	/* one for each segment, with which fd and fd_offset change; NULL: they are the same for all */
	const struct fi_mr_dmabuf *files;
};

/* Register part: all its fields but mr are given.  The NIC's error, with one log line. */
int verbs_part_register(const struct verbs_source *source, struct verbs_part *part);
/*
 * Undo it; part->mr becomes NULL.  Nothing to do where it is NULL.  An error, with one log line, leaves
 * the part as it is.
 */
int verbs_part_deregister(const struct verbs_source *source, struct verbs_part *part);
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

/*
 * End a region that no program knows of, and that has no key: what the driver refuses to end now, with one
 * log line, ends with the domain.
 */
void verbs_region_abandon(const struct verbs_source *source, struct verbs_region *mine);

/* The part of a region that holds the byte at addr, or NULL. */
const struct verbs_part *verbs_part_at(const struct nic_region *region, uint64_t addr);

/* IBV_ACCESS_* that the region's rights need, and what its flags say of paging and ordering. */
int verbs_region_access(const struct nic_region *region);
/* Can the domain have regions still?  -FI_EOPBADSTATE, with one log line. */
int verbs_region_check(const struct verbs_domain *domain);

/* ---- windows: verbs_window.c ---- */

/* Bind part inside source->base: its mr, mw and iova are set. */
int verbs_window_open(const struct verbs_source *source, struct verbs_part *part);
/* Its key is dead when this returns 0.  As verbs_part_deregister. */
int verbs_window_close(const struct verbs_source *source, struct verbs_part *part);
/* The same of a window that nobody was told of: what the driver refuses to end now ends with the domain. */
void verbs_window_abandon(const struct verbs_source *source, struct verbs_part *part);
/* Would the interior of a window that begins at addr be too long for a plain key? */
bool verbs_window_is_deep(const struct verbs_source *source, uint64_t addr);
/* As many windows for sub-MRs of the region as can be had of these. */
void verbs_pool_fill(struct nic_region *region, size_t count);
/* The region is gone, and no window of its pool is bound. */
void verbs_pool_free(struct nic_region *region);

/* ---- dma-bufs of the program: verbs_file.c ---- */

/* Remember which dma-buf the region is of; keeps: with a descriptor of it. */
void verbs_file_note(struct verbs_region *region, const struct fi_mr_dmabuf *dmabuf, bool keeps);
void verbs_file_forget(struct verbs_region *region);
/*
 * Register a part of base a second time, from the same dma-buf.  -FI_ENOSYS: it cannot be found any more;
 * or the NIC's error.
 */
int verbs_file_again(struct nic_region *region, const struct nic_region *base,
		     const struct nic_region_request *req);

/* verbs_local.c: the region may (not) serve local buffers that come without a descriptor. */
void verbs_local_offer(struct verbs_domain *domain, struct verbs_region *region);
void verbs_local_withdraw(struct verbs_domain *domain, struct verbs_region *region);

#endif
