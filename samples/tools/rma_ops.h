/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: the operations that it runs, on a local buffer and the target's region. */
#ifndef HMREG_RMA_OPS_H
#define HMREG_RMA_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common.h"

#define RMA_KINDS 6

enum rma_kind {
	KIND_WRITE,
	KIND_READ,
	KIND_SUM,
	KIND_BXOR,
	KIND_FETCH_SUM,
	KIND_SWAP
};

struct rma_kind_names {
	const char *name, *call;
	unsigned int op; /* RMA_OP_... */
};
extern const struct rma_kind_names rma_kinds[RMA_KINDS];

/* The words that fetching and comparing operations need at the initiator. */
struct rma_words {
	uint64_t result, compare;
};

/* What operations work on. */
struct rma_path {
	struct sample_end *end;	 /* the initiator */
	uint8_t *data;		 /* its buffer */
	struct rma_words *words; /* its result and comparison */
	struct fid_mr *data_mr, *words_mr;
	bool no_desc;		 /* operations name neither */
	uint64_t address, key;	 /* of the target's first byte */
	size_t chunk[RMA_KINDS]; /* most bytes that one call may move; 0: not offered */
};

/* Does this kind of operation make sense at this size? */
bool rma_kind_fits(enum rma_kind kind, size_t size);
/* And does the NIC do it in a sensible number of calls? */
bool rma_kind_offered(const struct rma_path *path, enum rma_kind kind, size_t size);

/* Ask the NIC what it offers of ops (RMA_OP_...): path->chunk. */
int rma_find_limits(struct rma_path *path, unsigned int ops);

/*
 * Run the operation n times over size bytes: each finished before the next starts, or (pipelined)
 * as many under way as the NIC takes.
 */
int rma_transfer(struct rma_path *path, enum rma_kind kind, size_t size, unsigned int n,
		 bool pipelined);

#endif
