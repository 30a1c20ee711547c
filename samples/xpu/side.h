/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's part of transfers that a device starts: contexts, endpoints, counters and memory are set up, handed
 * over to the device, and closed again.  Everything between is the kernels'.
 *
 * Functions that return int give 0 or a negative FI_E code, and have then said why on standard error.
 */
#ifndef XPU_SIDE_H
#define XPU_SIDE_H

#include <stdbool.h>

#include "../common.h"
#include "device.h"
#include "link.h"

/* A device, with a domain and a context for it. */
struct xpu_side {
	struct xpu_device *device; /* not owned */
	struct sample_end end;	   /* no endpoint is in it */
	struct fid_xpu_ctx *ctx;
};

/* What the other side has to be told: plain bytes. */
struct xpu_offer {
	struct sample_key key; /* of the memory */
	size_t len;	       /* of the address */
	unsigned char address[64];
};

/* One end of a connection, with what is needed to hand it over. */
struct xpu_channel {
	struct xpu_side *side;
	struct sample_end end; /* its own endpoint, vector and queue in the side's domain */
	bool queued; /* the queue is the device's; else the host's, which gets errors alone */
	struct fid_cntr *sent;
	struct fid_mr *mr;
	struct xpu_offer taken; /* the peer's, once it is reached */
	struct xpu_link link;	/* for the device, once the peer is reached */
};

int xpu_side_open(struct xpu_side *side, const char *domain, struct xpu_device *device);
int xpu_side_close(struct xpu_side *side);

/*
 * In this order: open, with len bytes of memory, at offset, which kernels read, write, and offer to the peer; offer;
 * and when the peer's offer has come, reach it.  Then it is the device's.
 */
int xpu_channel_open(struct xpu_channel *channel, struct xpu_side *side, bool queued,
		     const struct xpu_memory *memory, size_t offset, size_t len);
int xpu_channel_offer(struct xpu_channel *channel, struct xpu_offer *offer);
int xpu_channel_reach(struct xpu_channel *channel, const struct xpu_offer *peer);
/* No kernel uses it any more. */
int xpu_channel_close(struct xpu_channel *channel);

/* Two of this process. */
int xpu_connect(struct xpu_channel *one, struct xpu_channel *other);
/* What a host's own endpoint, which is enabled, offers of its memory. */
int xpu_host_offer(struct sample_end *end, struct fid_mr *mr, const void *first,
		   struct xpu_offer *offer);
/* What failed, as the host's queue tells; prints it.  How many. */
unsigned xpu_channel_errors(struct xpu_channel *channel);

#endif
