/* SPDX-License-Identifier: BSD-2-Clause */
/* The subject that caches nothing: what unmapping and allocating take by themselves. */
#include "tests/bench/bench.h"
#include "tests/bench/cache_bench.h"

struct hold {
	char unused;
};

static void *cache_open(long most, bool fine)
{
	(void)most;
	(void)fine;
	return NULL;
}

static void cache_close(void *cache)
{
	(void)cache;
}

static inline void cache_get(void *cache, char *addr, size_t len, struct hold *hold)
{
	(void)cache;
	(void)hold;
	__asm__ volatile("" : : "r"(addr), "r"(len) : "memory");
}

static inline void cache_put(void *cache, struct hold *hold)
{
	(void)cache;
	(void)hold;
}

#include "tests/bench/cache_rows.h"

static bool start(const struct subject *subject, char *why, size_t size)
{
	(void)subject;
	(void)why;
	(void)size;
	return true;
}

const struct subject subject_bare = { "bare", { NULL }, start, row_code, false };
