/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a kernel knows of a connection to a peer: plain bytes, which the host fills (side.h) and copies to the
 * device.  Read by kernels and by the host.
 */
#ifndef XPU_LINK_H
#define XPU_LINK_H

#include <stdint.h>

#include <rdma/fi_xpu_device.h>

#define XPU_DESC_WORDS 8 /* mr_desc_size and av_addr_size of a provider fit */
#define XPU_ADDR_WORDS 8

struct xpu_link {
	struct fid_xpu_ep ep;
	struct fid_xpu_cntr sent; /* what the endpoint has written, read and updated */
	struct fid_xpu_cq done;	  /* the same and what it received, where the host asked for it */
	/* The link's own memory: where kernels find it, and as calls take it. */
	unsigned char *mem, *registered;
	uint64_t len;
	uint64_t desc[XPU_DESC_WORDS];
	/* The peer's: by whose address, and at which it begins. */
	uint64_t peer[XPU_ADDR_WORDS];
	uint64_t peer_mem, peer_key;
	uint64_t posted; /* requests so far, for who waits for their end */
};

#endif
