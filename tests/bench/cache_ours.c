/* SPDX-License-Identifier: BSD-2-Clause */
/* The subject that is hmreg's own cache, with no monitor and with each. */
#include "core/mr/cache.h"
#include "core/mr/monitor.h"
#include "tests/bench/bench.h"
#include "tests/bench/cache_bench.h"

static bool monitored, watches; /* watches: its marks are to be kept */

struct hold {
	struct hm_cache_hold hold;
};

static void widen(void *context, struct hm_cache_key *key)
{
	(void)context;
	key->begin &= ~(PAGE - 1);
	key->end = (key->end + PAGE - 1) & ~(PAGE - 1);
}

/* What a monitor that watches ranges needs to know again; used again, so that no allocator is measured. */
struct watched {
	uint64_t begin, end, mark;
	struct watched *next;
};
static _Thread_local struct watched *unused;

static struct watched *take_watched(void)
{
	struct watched *watched = unused;

	if (!watched) {
		watched = malloc(sizeof(*watched));
		check(watched ? 0 : -12, "memory");
		watched->next = NULL;
	}
	unused = watched->next;
	return watched;
}

static void give_watched(struct watched *watched)
{
	watched->next = unused;
	unused = watched;
}

static int add(void *context, const struct hm_cache_key *key, void **data)
{
	struct watched *watched = NULL;
	uint64_t mark = 0;

	(void)context;
	if (monitored)
		check(hm_monitor_watch(key->begin, key->end, &mark), "watch");
	if (watches) {
		watched = take_watched();
		*watched = (struct watched){ .begin = key->begin, .end = key->end, .mark = mark };
	}
	bench_registration();
	*data = watched;
	return 0;
}

static int remove_watched(void *context, void *data)
{
	struct watched *watched = data;

	(void)context;
	if (!watched)
		return 0;
	hm_monitor_unwatch(watched->begin, watched->end, watched->mark);
	give_watched(watched);
	return 0;
}

static void *cache_open(long most, bool fine)
{
	static const struct hm_cache_ops ops = { widen, add, remove_watched };
	struct hm_cache *cache = aligned_alloc(64, (sizeof(*cache) + 63) / 64 * 64);

	(void)fine;
	check(cache ? hm_cache_init(cache, &ops, NULL, (uint64_t)most, UINT64_MAX) : -12,
	      "hm_cache_init");
	if (monitored)
		check(hm_monitor_join(cache), "hm_monitor_join");
	return cache;
}

static void cache_close(void *cache)
{
	if (monitored)
		hm_monitor_leave(cache);
	check(hm_cache_destroy(cache), "hm_cache_destroy");
	free(cache);
}

static inline void cache_get(void *cache, char *addr, size_t len, struct hold *hold)
{
	struct hm_cache_key key = { .begin = (uintptr_t)addr,
				    .end = (uintptr_t)addr + len,
				    .rights = 1 };
	const struct watched *watched;

	hm_monitor_settle();
	check(hm_cache_get(cache, &key, &hold->hold), "hm_cache_get");
	watched = hold->hold.data;
	check(hm_monitor_hit_ok(key.begin, key.end, watched ? watched->mark : 0) ? 0 : -11, "hit");
}

static inline void cache_put(void *cache, struct hold *hold)
{
	hm_cache_put(cache, &hold->hold);
}

#include "tests/bench/cache_rows.h"

/* The monitor is asked for with a cache that stays, so that it is the one of the whole process. */
static bool start(const struct subject *subject, char *why, size_t size)
{
	const struct hm_monitor *used;

	monitored = subject->monitored;
	if (!monitored)
		return true;
	monitored = false;
	if (hm_monitor_join(cache_open(1, false)) != 0) {
		hm_monitor_text(why, size);
		return false;
	}
	monitored = true;
	used = hm_monitor_used();
	watches = used->valid || used->unwatch;
	if (strstr(subject->env[0], used->name))
		return true;
	snprintf(why, size, "the monitor is %s", used->name);
	return false;
}

const struct subject subject_ours_off = { "hmreg_off", { NULL }, start, row_code, false };
const struct subject subject_ours_hooks = {
	"hmreg", { "FI_MR_CACHE_MONITOR=memhooks" }, start, row_code, true
};
const struct subject subject_ours_uffd = {
	"hmreg_uffd", { "FI_MR_CACHE_MONITOR=userfaultfd" }, start, row_code, true
};
