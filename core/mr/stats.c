/* SPDX-License-Identifier: BSD-2-Clause */
/* Which registration caches there are, and their figures.  stats.h explains it. */
#include "core/mr/stats.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/cancel.h"
#include "core/base/cond.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/base/thread.h"
#include "core/mr/monitor.h"

#define PERIOD_NANOS 100000000L

/* Showing and hiding, one at a time, so that the thread starts and ends in order.  Outside lock. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
/* Protects all below, and the list of caches.  Inside, with nothing but the log and the caches' counts in it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER; /* the thread is to end */
static struct hm_cache_shown *shown_first;
static bool row_used[HMREG_CACHE_FILE_ROWS];
static uint64_t last_state; /* of rows, given out so far */
static uint64_t hidden;	    /* caches without a row */
static bool failed;	    /* no file, for this process's life */
static bool running, ending;
static pthread_t thread;
static union hm_stats_image image; /* the thread's; without one, that of the first to show a cache */

/* ---- figures ---- */

static uint64_t now_nanos(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static struct hmreg_cache_figures count(struct hm_cache *cache, uint32_t group)
{
	struct hm_cache_counts counts;

	hm_cache_count(cache, group, &counts);
	return (struct hmreg_cache_figures){
		.hits = counts.hits,
		.misses = counts.misses,
		.evictions = counts.evictions,
		.invalidations = counts.invalidations,
		.unkept = counts.unkept,
		.entries = counts.entries,
		.bytes = counts.bytes,
	};
}

void hm_cache_figures(const struct hm_cache_shown *shown, struct hmreg_cache_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	hm_monitor_text(out->monitor, sizeof(out->monitor));
	if (!shown)
		return;
	out->since = shown->since;
	out->max_entries = shown->cache->max_count;
	out->max_bytes = shown->cache->max_bytes;
	out->all = count(shown->cache, HM_CACHE_ALL);
	/* a group is an interface */
	for (uint32_t i = 0; i < HM_CACHE_GROUPS && i < sizeof(out->iface) / sizeof(out->iface[0]);
	     i++)
		out->iface[i] = count(shown->cache, i);
}

void hm_cache_monitor_tell(struct hmreg_cache_monitor *out)
{
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	out->in_use = hm_monitor_used() != NULL;
	hm_monitor_tell(out->name, sizeof(out->name), out->reason, sizeof(out->reason));
}

static void fill_row(struct hmreg_cache_row *row, const struct hm_cache_shown *shown)
{
	struct hmreg_cache_stats stats;

	hm_cache_figures(shown, &stats);
	row->state = shown->state;
	row->since = stats.since;
	row->max_entries = stats.max_entries;
	row->max_bytes = stats.max_bytes;
	snprintf(row->domain, sizeof(row->domain), "%s", shown->domain);
	row->all = stats.all;
	memcpy(row->iface, stats.iface, sizeof(row->iface));
}

/* lock held.  The image of now; updated stays as it was if nothing else changed. */
static void take_image(void)
{
	static union hm_stats_image before;

	before = image;
	memset(image.file.row, 0, sizeof(image.file.row));
	for (const struct hm_cache_shown *s = shown_first; s; s = s->next)
		if (s->state != 0)
			fill_row(&image.file.row[s->row], s);
	image.file.head.hidden = hidden;
	memset(image.file.head.monitor, 0, sizeof(image.file.head.monitor));
	hm_monitor_text(image.file.head.monitor, sizeof(image.file.head.monitor));
	if (memcmp(&before, &image, sizeof(image)) != 0)
		image.file.head.updated = now_nanos();
}

/* ---- the thread ---- */

static void *keep(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (!ending) {
		hm_cond_wait_for(&wake, &lock, PERIOD_NANOS);
		take_image();
		pthread_mutex_unlock(&lock);
		if (!hm_stats_file_write(&image)) {
			pthread_mutex_lock(&lock);
			failed = true;
			break;
		}
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* lock held */
static void start_thread(void)
{
	int err;

	ending = false;
	err = hm_thread_start(&thread, "hmreg-stats", keep, NULL);
	running = err == 0;
	if (!running)
		HM_WARN(FI_LOG_MR,
			"HMREG_CACHE_STATS: no thread (%s); the figures stay as they are",
			strerror(err));
}

/* ---- caches ---- */

/* lock held */
static void take_row(struct hm_cache_shown *shown)
{
	shown->state = 0;
	for (uint32_t i = 0; i < HMREG_CACHE_FILE_ROWS; i++) {
		if (row_used[i])
			continue;
		row_used[i] = true;
		shown->row = i;
		shown->state = ++last_state;
		return;
	}
	hidden++;
}

static void before_fork(void)
{
	pthread_mutex_lock(&turn);
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&turn);
}

/* The thread is the parent's, and so is the file; the child's next cache makes it one of its own. */
static void in_child(void)
{
	pthread_cond_init(&wake, NULL);
	running = false;
	hm_stats_file_forget();
	after_fork();
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* lock held */
static void show_in_file(const char *folder)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (failed || running)
		return;
	pthread_once(&once, watch_forks);
	if (!hm_stats_file_open(folder)) {
		failed = true;
		return;
	}
	take_image();
	failed = !hm_stats_file_write(&image);
	if (!failed)
		start_thread();
}

void hm_cache_show(struct hm_cache_shown *shown, struct hm_cache *cache, const char *domain)
{
	const char *folder = hm_param_str(HM_PARAM_CACHE_STATS);
	int cancel;

	*shown = (struct hm_cache_shown){ .cache = cache,
					  .domain = domain,
					  .since = now_nanos() / UINT64_C(1000000000) };
	if (!folder)
		return;
	cancel = hm_cancel_off();
	pthread_mutex_lock(&turn);
	pthread_mutex_lock(&lock);
	take_row(shown);
	shown->next = shown_first;
	shown_first = shown;
	show_in_file(folder);
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&turn);
	hm_cancel_restore(cancel);
}

void hm_cache_hide(struct hm_cache_shown *shown)
{
	struct hm_cache_shown **at;
	bool last;
	int cancel;

	if (!hm_param_str(HM_PARAM_CACHE_STATS))
		return;
	cancel = hm_cancel_off();
	pthread_mutex_lock(&turn);
	pthread_mutex_lock(&lock);
	for (at = &shown_first; *at != shown; at = &(*at)->next)
		;
	*at = shown->next;
	if (shown->state != 0)
		row_used[shown->row] = false;
	else
		hidden--;
	last = !shown_first && running;
	if (last) {
		ending = true;
		running = false;
		pthread_cond_signal(&wake);
	}
	pthread_mutex_unlock(&lock);
	if (last)
		pthread_join(thread, NULL);
	pthread_mutex_unlock(&turn);
	hm_cancel_restore(cancel);
}
