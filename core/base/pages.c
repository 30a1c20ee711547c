/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that may be in huge pages; pages.h explains it. */
#include "core/base/pages.h"

#include <sys/mman.h>

static uintptr_t round_up(uintptr_t addr)
{
	return (addr + HM_HUGE_PAGE - 1) & ~(uintptr_t)(HM_HUGE_PAGE - 1);
}

void *hm_pages_map(size_t bytes, int prot)
{
	size_t all = bytes < HM_HUGE_PAGE ? bytes : bytes + HM_HUGE_PAGE, before;
	char *map, *begin;

	if (all < bytes)
		return NULL;
	map = mmap(NULL, all, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	if (all == bytes)
		return map;
	before = round_up((uintptr_t)map) - (uintptr_t)map;
	begin = map + before;
	if (before > 0)
		munmap(map, before);
	/* what of the last page is not used stays, up to where pages end */
	bytes = (bytes + 4095) & ~(size_t)4095;
	if (begin + bytes < map + all)
		munmap(begin + bytes, (size_t)(map + all - (begin + bytes)));
	return begin;
}

void hm_pages_huge(void *begin, size_t bytes)
{
	uintptr_t from = round_up((uintptr_t)begin);
	uintptr_t to = ((uintptr_t)begin + bytes) & ~(uintptr_t)(HM_HUGE_PAGE - 1);

	if (from < to)
		madvise((char *)begin + (from - (uintptr_t)begin), to - from, MADV_HUGEPAGE);
}
