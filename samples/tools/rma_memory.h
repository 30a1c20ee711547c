/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: a buffer with guard words around it, and the target's memory with its region. */
#ifndef HMREG_RMA_MEMORY_H
#define HMREG_RMA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common.h"
#include "../dmabuf_host.h"
#include "rma_content.h"
#include "tool_accel.h"

/* data[0 .. size) with guard words right before and right behind it, on whatever device. */
struct rma_buffer {
	struct tool_block block;   /* owned; len 0: the memory is the dma-buf's */
	struct dmabuf_host dmabuf; /* owned; map NULL: none */
	uint8_t *data;		   /* GUARD_BYTES into the memory; the host may not reach it */
	uint8_t *host;		   /* the same bytes, or the copy of them that the host has */
};

/* In a dma-buf of host memory, or else at place, whose device has been found. */
int rma_buffer_open(struct rma_buffer *buffer, struct fid_fabric *fabric, size_t max, bool dmabuf,
		    const struct sample_place *place);
/* While the fabric is open. */
int rma_buffer_close(struct rma_buffer *buffer);
/* Register the first size bytes of data. */
int rma_buffer_register(const struct rma_buffer *buffer, struct sample_end *end, size_t size,
			uint64_t access, struct fid_mr **mr);

/* What was found in a buffer. */
struct rma_check {
	uint64_t wrong; /* the first byte that differs; the size: none */
	uint8_t byte;	/* which is there */
	bool guards;	/* they are intact */
};

static inline bool rma_check_right(const struct rma_check *check, size_t size)
{
	return check->wrong == size && check->guards;
}

/* Say on stderr what is wrong; nothing when all is right. */
void rma_check_print(const struct rma_check *check, const char *side, size_t size);

int rma_buffer_fill(struct rma_buffer *buffer, size_t size, uint64_t salt,
		    const struct content *content);
int rma_buffer_check(struct rma_buffer *buffer, size_t size, uint64_t salt,
		     const struct content *content, struct rma_check *check);

/* The target's memory, and its region at the present size. */
struct rma_memory {
	struct sample_end *end; /* the endpoint that it is registered with */
	struct rma_buffer buffer;
	struct fid_mr *mr; /* NULL: not registered */
};

/* Times are medians, each of the mean of a group. */
struct rma_registration {
	struct sample_key key;
	double register_ns, close_ns;
	uint64_t path; /* enum hmreg_path; 0: not told */
};

/* Time registration and closing at this size, and register for use. */
int rma_memory_register(struct rma_memory *memory, size_t size, struct rma_registration *out);
int rma_memory_unregister(struct rma_memory *memory); /* 0 where nothing is registered */

#endif
