/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges of addresses, counted: how many watches cover each.  Memory is taken at the start, as addresses
 * only, so that nothing is allocated while a lock is held.  The caller locks.
 */
#ifndef HM_MONITOR_RANGES_H
#define HM_MONITOR_RANGES_H

#include <stdint.h>

/* Ranges that differ in count or do not touch; a tree by begin, a heap by order.  Links are numbers + 1. */
struct hm_ranges {
	struct hm_ranges_node *node;
	uint32_t root;
	uint32_t used, free; /* nodes that ever were; list of those given back, by left */
	uint32_t pieces;     /* now */
	uint32_t random;
};

/* -FI_ENOMEM */
int hm_ranges_init(struct hm_ranges *ranges);
void hm_ranges_destroy(struct hm_ranges *ranges);

/* One more for [begin, end), begin < end.  -FI_ENOSPC: there are too many pieces, and nothing has changed. */
int hm_ranges_add(struct hm_ranges *ranges, uint64_t begin, uint64_t end);
/*
 * One less, of a range that was added; gone is called for each longest part that nothing covers any more.
 * Where pieces have run out, a part stays counted for good.
 */
void hm_ranges_remove(struct hm_ranges *ranges, uint64_t begin, uint64_t end,
		      void (*gone)(uint64_t begin, uint64_t end));

#endif
