/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges of addresses whose memory is changing now: being unmapped, moved, given back.  Process-wide.
 * No lock, no allocation: hooks begin and end changes, and registrations ask.
 */
#ifndef HM_CHANGES_H
#define HM_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * [begin, end) changes from now until the change ends.  What is inserted in a cache afterwards sees it;
 * what was inserted before can be found by whoever begins it.  The number is for ending it.
 */
unsigned hm_changes_begin(uint64_t begin, uint64_t end);
/* Who began it looks at caches no more. */
void hm_changes_told(unsigned number);
void hm_changes_end(unsigned number);
/* Is any of the range changing?  May say yes of a neighbour, by a thousandth of the change's size. */
bool hm_changes_overlap(uint64_t begin, uint64_t end);
/* Until nobody looks at a cache any more that cannot be found since before this call. */
void hm_changes_wait_told(void);
/* In the child after fork(2): its one thread changes nothing now. */
void hm_changes_forked(void);

#endif
