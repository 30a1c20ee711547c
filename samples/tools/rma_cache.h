/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma --no-desc: what the initiator's registration cache does meanwhile. */
#ifndef HMREG_RMA_CACHE_H
#define HMREG_RMA_CACHE_H

#include <rdma/fi_ext_hmreg.h>

#include "rma.h"
#include "rma_memory.h"

/* Figures of the cache; all 0 where the library has none to tell. */
void rma_cache_figures(struct sample_end *end, struct hmreg_cache_stats *stats);
/*
 * Other pages in place of a buffer's, which are given back to the kernel: its next use is that of a new one.
 * What is not memory of this process's own stays.
 */
int rma_cache_forget(struct rma_buffer *buffer);

/* The rows of result once more, for operations without descriptors. */
void rma_report_no_desc(FILE *out, const struct rma_result *result);
void rma_report_no_desc_json(FILE *out, const struct rma_row *row);

#endif
