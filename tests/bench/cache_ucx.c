/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subject that is UCX's registration cache, of Debian's libucx-dev: its header at compile time, its library at
 * run time.  Regions are in whole pages, as its own users have them at best, but where a row says otherwise.
 */
#include "tests/bench/cache_bench.h"

#include <dlfcn.h>

#include "tests/bench/bench.h"

#if defined(__has_include)
#if __has_include(<ucs/memory/rcache.h>) && __has_include(<ucm/api/ucm.h>)
#define HAVE_UCX
#endif
#endif

#ifdef HAVE_UCX

#include <ucm/api/ucm.h>
#include <ucs/memory/rcache.h>

static ucs_status_t (*create)(const ucs_rcache_params_t *, const char *, ucs_stats_node_t *,
			      ucs_rcache_t **);
static void (*destroy)(ucs_rcache_t *);
static ucs_status_t (*get)(ucs_rcache_t *, void *, size_t, int, void *, ucs_rcache_region_t **);
static void (*put)(ucs_rcache_t *, ucs_rcache_region_t *);
static bool monitored;

struct hold {
	ucs_rcache_region_t *region;
};

static ucs_status_t mem_reg(void *context, ucs_rcache_t *rcache, void *arg,
			    ucs_rcache_region_t *region, uint16_t flags)
{
	(void)context;
	(void)rcache;
	(void)arg;
	(void)region;
	(void)flags;
	bench_registration();
	return UCS_OK;
}

static void mem_dereg(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region)
{
	(void)context;
	(void)rcache;
	(void)region;
}

static void dump_region(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region, char *buf,
			size_t max)
{
	(void)context;
	(void)rcache;
	(void)region;
	if (max > 0)
		buf[0] = 0;
}

static void *cache_open(long most, bool fine)
{
	static const ucs_rcache_ops_t ops = { mem_reg, mem_dereg, dump_region };
	ucs_rcache_params_t params = {
		.region_struct_size = sizeof(ucs_rcache_region_t),
		.alignment = fine ? UCS_RCACHE_MIN_ALIGNMENT : PAGE,
		.max_alignment = PAGE,
		.ucm_events = monitored ? UCM_EVENT_VM_UNMAPPED : 0,
		.ucm_event_priority = 1000,
		.ops = &ops,
		.max_regions = (unsigned long)most,
		.max_size = SIZE_MAX,
		.max_unreleased = SIZE_MAX,
	};
	ucs_rcache_t *cache;

	check(create(&params, "bench", NULL, &cache) == UCS_OK ? 0 : -12, "ucs_rcache_create");
	return cache;
}

static void cache_close(void *cache)
{
	destroy(cache);
}

static inline void cache_get(void *cache, char *addr, size_t len, struct hold *hold)
{
	check(get(cache, addr, len, PROT_READ | PROT_WRITE, NULL, &hold->region), "ucs_rcache_get");
}

static inline void cache_put(void *cache, struct hold *hold)
{
	put(cache, hold->region);
}

#include "tests/bench/cache_rows.h"

static bool start(const struct subject *subject, char *why, size_t size)
{
	void *so = dlopen("libucs.so.0", RTLD_NOW | RTLD_GLOBAL);

	monitored = subject->monitored;
	if (!so) {
		snprintf(why, size, "no libucs.so.0 (%s)", dlerror());
		return false;
	}
	*(void **)&create = dlsym(so, "ucs_rcache_create");
	*(void **)&destroy = dlsym(so, "ucs_rcache_destroy");
	*(void **)&get = dlsym(so, "ucs_rcache_get");
	*(void **)&put = dlsym(so, "ucs_rcache_region_put");
	if (create && destroy && get && put)
		return true;
	snprintf(why, size, "libucs.so.0 does not export its registration cache");
	return false;
}

#else

static const struct row_code row_code[ROW_COUNT];

static bool start(const struct subject *subject, char *why, size_t size)
{
	(void)subject;
	snprintf(why, size, "built without UCX's headers: install libucx-dev and build again");
	return false;
}

#endif

const struct subject subject_ucx_off = { "ucx_off", { NULL }, start, row_code, false };
const struct subject subject_ucx = { "ucx", { NULL }, start, row_code, true };
