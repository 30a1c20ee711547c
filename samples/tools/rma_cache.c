/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: see rma_cache.h. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */

#include "rma_cache.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "rma_report.h"
#include "tool_text.h"

void rma_cache_figures(struct sample_end *end, struct hmreg_cache_stats *stats)
{
	struct hmreg_domain_ops *ops;

	memset(stats, 0, sizeof(*stats));
	stats->size = sizeof(*stats);
	if (fi_open_ops(&end->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL) ||
	    ops->size < offsetof(struct hmreg_domain_ops, cache) + sizeof(ops->cache))
		return;
	ops->cache(&end->domain->fid, stats);
}

int rma_cache_forget(struct rma_buffer *buffer)
{
	struct tool_block *block = &buffer->block;

	if (buffer->dmabuf.map || !block->len || block->place.iface != FI_HMEM_SYSTEM)
		return 0;
	if (mmap(block->memory, block->len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
		return 0;
	return sample_fail("mmap", -errno);
}

void rma_report_no_desc(FILE *out, const struct rma_result *result)
{
	const struct rma_row *row;
	char text[3][32];

	fprintf(out, "\nWithout descriptors; monitor %s\n\n", tool_or_dash(result->monitor));
	fprintf(out, "%9s  %-13s %12s %12s %14s %12s %12s %8s  %s\n", "size", "operation", "first",
		"later", "bandwidth", "hits", "misses", "unkept", "verified");
	for (row = result->rows; row < result->rows + result->count; row++) {
		fprintf(out, "%9s  %-13s %12s %12s %9.1f MB/s %12llu %12llu %8llu  %s\n",
			tool_size_text(row->size, text[0], sizeof(text[0])), row->operation,
			rma_time_text(row->no_desc.first_ns, text[1], sizeof(text[1])),
			rma_time_text(row->no_desc.latency_ns, text[2], sizeof(text[2])),
			row->no_desc.bytes_per_s / 1e6, (unsigned long long)row->no_desc.hits,
			(unsigned long long)row->no_desc.misses,
			(unsigned long long)row->no_desc.unkept, row->verified ? "yes" : "NO");
	}
	fputs("\nfirst: of memory that was never sent from; each miss is a registration, each hit "
	      "saved one, and what\nis unkept was for one operation. FI_MR_CACHE_MAX_COUNT=0 in "
	      "the environment shows the same without the cache.\n",
	      out);
}

void rma_report_no_desc_json(FILE *out, const struct rma_row *row)
{
	fprintf(out,
		", \"no_desc\": {\"first_ns\": %.1f, \"latency_ns\": %.1f, \"bytes_per_s\": %.0f, "
		"\"hits\": %llu, \"misses\": %llu, \"unkept\": %llu}",
		row->no_desc.first_ns, row->no_desc.latency_ns, row->no_desc.bytes_per_s,
		(unsigned long long)row->no_desc.hits, (unsigned long long)row->no_desc.misses,
		(unsigned long long)row->no_desc.unkept);
}
