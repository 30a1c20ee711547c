/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host memory as a dma-buf, for samples that have no device to export one: from /dev/udmabuf, or from
 * the system heap of /dev/dma_heap.
 */
#ifndef SAMPLES_DMABUF_HOST_H
#define SAMPLES_DMABUF_HOST_H

#include <stdbool.h>
#include <stddef.h>

struct dmabuf_host {
	int fd;		    /* owned: the dma-buf */
	void *map;	    /* owned: its bytes in this process, page aligned */
	size_t len;	    /* a multiple of the page size */
	const char *origin; /* the device file that made it; constant string */
};

/*
 * len is rounded up to whole pages.  The bytes are 0.  0 or a negative FI_E code, with a message on
 * stderr that names both device files; -FI_ENOSYS: this machine has neither.
 */
int dmabuf_host_open(size_t len, struct dmabuf_host *buffer);
void dmabuf_host_close(struct dmabuf_host *buffer); /* nothing to do for a cleared structure */

/* Around the processor's own reading, or reading and writing, of the bytes. */
int dmabuf_host_begin(const struct dmabuf_host *buffer, bool writes);
int dmabuf_host_end(const struct dmabuf_host *buffer, bool writes);

#endif
