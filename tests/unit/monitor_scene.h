/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A registration cache of host memory without a NIC, which one monitor follows.  Each registration has a
 * number of its own, so that a hit can be told from a new one.  Include after <cmocka.h>.
 */
#ifndef HM_TEST_MONITOR_SCENE_H
#define HM_TEST_MONITOR_SCENE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/mr/cache.h"
#include "core/mr/monitor.h"
#include "core/mr/monitor_priv.h"
#include "tests/fds.h"
#include "tests/unit/whole_pages.h"

#define PAGE  4096ul
#define EXACT 1u /* kind of a registration that is not widened to pages; its pages are watched */

struct kept {
	uint64_t number, begin, end, mark;
	bool watched;
};

struct scene {
	struct hm_cache cache;
	_Atomic uint64_t made, removed;
	_Atomic int watch_code; /* of the last watch */
};

static struct {
	unsigned warnings, infos;
	char warning[1024], info[1024]; /* the last */
} logged;

static inline void remember_line(enum fi_log_level level, enum fi_log_subsys subsys,
				 const char *func, int line, const char *text, void *arg)
{
	(void)subsys;
	(void)func;
	(void)line;
	(void)arg;
	if (level == FI_LOG_WARN) {
		logged.warnings++;
		snprintf(logged.warning, sizeof(logged.warning), "%s", text);
	}
	if (level == FI_LOG_INFO) {
		logged.infos++;
		snprintf(logged.info, sizeof(logged.info), "%s", text);
	}
}

static inline void scene_widen(void *context, struct hm_cache_key *key)
{
	if (key->kind != EXACT)
		whole_pages(context, key);
}

static inline int scene_add(void *context, const struct hm_cache_key *key, void **data)
{
	struct scene *s = context;
	struct kept *kept = calloc(1, sizeof(*kept));

	*kept = (struct kept){ .number = atomic_fetch_add(&s->made, 1) + 1,
			       .begin = key->begin & ~(PAGE - 1),
			       .end = (key->end + PAGE - 1) & ~(PAGE - 1) };
	s->watch_code = hm_monitor_watch(kept->begin, kept->end, &kept->mark);
	kept->watched = s->watch_code == 0;
	if (!kept->watched)
		hm_cache_invalidate(&s->cache, key->begin, key->end);
	*data = kept;
	return 0;
}

static inline int scene_remove(void *context, void *data)
{
	struct scene *s = context;
	struct kept *kept = data;

	if (kept->watched)
		hm_monitor_unwatch(kept->begin, kept->end, kept->mark);
	atomic_fetch_add(&s->removed, 1);
	free(kept);
	return 0;
}

/* The cache joins; the code of that. */
static inline int scene_open(struct scene *s)
{
	static const struct hm_cache_ops ops = { scene_widen, scene_add, scene_remove };

	memset(s, 0, sizeof(*s));
	assert_int_equal(hm_cache_init(&s->cache, &ops, s, 4096, UINT64_C(1) << 40), 0);
	return hm_monitor_join(&s->cache);
}

/* Everything registered is undone. */
static inline void scene_close(struct scene *s)
{
	hm_cache_evict(&s->cache, UINT32_MAX);
	hm_cache_reap(&s->cache);
	hm_monitor_leave(&s->cache);
	assert_int_equal(hm_cache_destroy(&s->cache), 0);
	assert_int_equal(atomic_load(&s->made), atomic_load(&s->removed));
}

static inline void scene_get(struct scene *s, const void *addr, size_t len,
			     struct hm_cache_hold *hold)
{
	struct hm_cache_key key = { .begin = (uintptr_t)addr, .end = (uintptr_t)addr + len };

	assert_int_equal(hm_cache_get(&s->cache, &key, hold), 0);
}

/* The number of the registration that a use of this memory gets. */
static inline uint64_t scene_use(struct scene *s, const void *addr, size_t len)
{
	struct hm_cache_hold hold;
	const struct kept *kept;
	uint64_t number;

	hm_monitor_settle();
	scene_get(s, addr, len, &hold);
	kept = hold.data;
	if (kept->watched && !hm_monitor_hit_ok(kept->begin, kept->end, kept->mark)) {
		hm_cache_put(&s->cache, &hold);
		scene_get(s, addr, len, &hold);
		kept = hold.data;
	}
	number = kept->number;
	hm_cache_put(&s->cache, &hold);
	return number;
}

/* The same, by somebody who does not ask what is being reported. */
static inline uint64_t scene_use_careless(struct scene *s, const void *addr, size_t len)
{
	struct hm_cache_hold hold;
	uint64_t number;

	scene_get(s, addr, len, &hold);
	number = ((const struct kept *)hold.data)->number;
	hm_cache_put(&s->cache, &hold);
	return number;
}

#endif
