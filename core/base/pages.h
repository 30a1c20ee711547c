/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large memory that is looked up all over: in huge pages it takes the processor no look at page tables.  Of
 * those the kernel has, and where it has none, everything is as without them.
 */
#ifndef HM_PAGES_H
#define HM_PAGES_H

#include <stddef.h>
#include <stdint.h>

#define HM_HUGE_PAGE (UINT64_C(1) << 21)

/*
 * Zeroed memory, or with PROT_NONE addresses, that begin where a huge page may if they are that large; munmap
 * ends it.  NULL: none.
 */
void *hm_pages_map(size_t bytes, int prot);
/* Huge pages for those that lie whole in this part of it, when they are written first. */
void hm_pages_huge(void *begin, size_t bytes);

#endif
