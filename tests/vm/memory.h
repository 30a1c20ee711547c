/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is a dma-buf, from each exporter that a kernel without devices has. */
#ifndef VM_MEMORY_H
#define VM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum memory_kind {
	MEMORY_UDMABUF,	     /* pages of a memfd; mapping is the memfd's own */
	MEMORY_UDMABUF_LIST, /* the same, put together from two pieces in the other order */
	MEMORY_HEAP,	     /* /dev/dma_heap/system; mapped through the dma-buf */
	MEMORY_VGEM, /* a buffer object of the virtual graphics driver, mapped through the dma-buf */
	MEMORY_KINDS
};

struct memory {
	const char *name;
	int fd; /* the dma-buf; owned, -1 when closed */
	size_t len;
	/* Byte i of the dma-buf is map[(i + turn) % len]: what the processor sees, apart from RDMA. */
	uint8_t *map;
	size_t turn;
};

const char *memory_name(enum memory_kind kind);
/* len is a multiple of two pages.  Ends the test when there is no such memory. */
void memory_make(struct memory *memory, enum memory_kind kind, size_t len);
void memory_close_fd(struct memory *memory);
/* Unmaps, and closes what is open. */
void memory_free(struct memory *memory);
/* Reading and writing the dma-buf's bytes from off through the mapping. */
void memory_get(const struct memory *memory, size_t off, void *to, size_t len);
void memory_set(const struct memory *memory, size_t off, const void *from, size_t len);
/* Bytes that differ from those of other seeds and places. */
void memory_pattern(void *to, size_t len, uint32_t seed);
/* Prints the first bytes from off, as the mapping shows them. */
void memory_show(const struct memory *memory, size_t off, const char *when);

#endif
