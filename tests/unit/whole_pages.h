/* SPDX-License-Identifier: BSD-2-Clause */
/* hm_cache_ops.widen for tests of the cache: ranges become whole pages. */
#ifndef TESTS_WHOLE_PAGES_H
#define TESTS_WHOLE_PAGES_H

#include "core/mr/cache.h"

static inline void whole_pages(void *context, struct hm_cache_key *key)
{
	const uint64_t page = 4096;

	(void)context;
	key->begin &= ~(page - 1);
	key->end = (key->end + page - 1) & ~(page - 1);
}

#endif
