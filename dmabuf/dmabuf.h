/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA-bufs: the layer between memory interfaces and NICs.  It will turn device memory into file
 * descriptors (export), a caller's descriptor into memory (import), and tell two descriptors of one
 * buffer from two buffers (identity).  Nothing registers DMA-bufs yet: FI_MR_DMABUF is refused with
 * -FI_EBADFLAGS by core/mr/attr.c because no domain offers FI_HMEM.
 */
#ifndef DMABUF_H
#define DMABUF_H

#endif
