/* SPDX-License-Identifier: BSD-2-Clause */
/* What the conformance programs about the registration cache share. */
#ifndef CONF_CACHE_H
#define CONF_CACHE_H

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/harness.h"

#define BULK ((size_t)65536) /* is copied into no frame */

static inline struct hmreg_cache_stats cache_stats(const struct conf_end *end)
{
	struct hmreg_cache_stats stats = { .size = sizeof(stats) };

	assert_non_null(end->ops);
	assert_int_equal(end->ops->cache(&end->domain->fid, &stats), 0);
	return stats;
}

static inline struct hmreg_cache_figures cache_figures(const struct conf_end *end)
{
	return cache_stats(end).all;
}

/* Host memory has to be followed; after the first use of the cache, which chooses by what. */
static inline void cache_need_kept(struct conf *c, const struct conf_end *end)
{
	struct hmreg_cache_stats stats = cache_stats(end);

	if (stats.max_entries == 0)
		conf_skip(c, "the environment lets nothing be kept");
	if (strncmp(stats.monitor, "none", 4) == 0)
		conf_skip(c, "no monitor follows host memory here");
}

/* Whole pages of their own, with random bytes in them. */
static inline uint8_t *cache_map(struct conf *c, void *at, size_t len)
{
	void *map = mmap(at, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	conf_fill(c, map, len);
	return map;
}

/*
 * How often a verb was called so far; -1: not over the emulated devices.  Looked up once: opening and closing
 * libraries changes memory, of which monitors tell.
 */
static inline long cache_verb_calls(const char *verb)
{
	static long (*calls)(const char *call);
	static bool looked;

	if (!looked) {
		void *verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);

		if (verbs)
			*(void **)&calls = dlsym(verbs, "emu_verbs_calls");
		looked = true; /* verbs stays open */
	}
	return calls ? calls(verb) : -1;
}

#endif
