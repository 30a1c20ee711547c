/* SPDX-License-Identifier: BSD-2-Clause */
/* Where reports of monitors go: the caches that joined, and the thread that gives back what has ended. */
#include "core/mr/monitor.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/cancel.h"
#include "core/base/cond.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/mr/changes.h"
#include "core/mr/monitor_priv.h"

#define CACHES	   1024u
#define REAP_NANOS 100000000L /* what has ended is given back after this long at the latest */
#define LOOKS	   64	      /* at a report under way, before the processor is given away */
#define SWITCH_SECONDS                                                                             \
	3 /* for another thread's start of a monitor; it may wait for what this one has */

struct slot {
	_Alignas(64) _Atomic(struct hm_cache *) cache;
	_Atomic bool busy; /* the reaper is at it */
};

static struct slot slot[CACHES];
static _Atomic uint32_t slots; /* those that ever were used */

_Atomic uint32_t hm_monitor_attention;
_Thread_local unsigned hm_monitor_depth;

/*
 * Protects what follows: joining and leaving.  The monitor and the reaper are started and stopped without it,
 * by the one thread that has set switching; who wants to join waits for it, but not for ever: a start waits
 * for the loader's lock, and the constructor of a library that is being loaded may join, or fork.  Nobody
 * leaves meanwhile as the last: no cache has joined then, or the one for which the reaper is started.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t switched = PTHREAD_COND_INITIALIZER;
static bool switching;
static pthread_t switcher;
static uint32_t joined;
static pthread_t reaper;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static bool reaping;

/* ---- reports ---- */

static uint32_t tell(uint64_t begin, uint64_t end)
{
	uint32_t count = atomic_load(&slots), killed = 0;

	for (uint32_t i = 0; i < count; i++) {
		/* it stays until this has been told: hm_changes_wait_told */
		struct hm_cache *cache = atomic_load(&slot[i].cache);

		if (cache)
			killed += hm_cache_invalidate(cache, begin, end);
	}
	return killed;
}

unsigned hm_monitor_report(uint64_t begin, uint64_t end)
{
	unsigned number = hm_changes_begin(begin, end);

	tell(begin, end);
	hm_changes_told(number);
	return number;
}

unsigned hm_monitor_begin(uint64_t begin, uint64_t end)
{
	unsigned number = hm_changes_begin(begin, end);
	bool killed = tell(begin, end) > 0;

	hm_changes_told(number);
	if (killed)
		hm_monitor_skip(begin, end);
	return number;
}

void hm_monitor_end(unsigned number)
{
	hm_changes_end(number);
}

void hm_monitor_changed(uint64_t begin, uint64_t end)
{
	hm_monitor_end(hm_monitor_report(begin, end));
}

/* ---- what hits look at ---- */

void hm_monitor_busy(void)
{
	atomic_fetch_add(&hm_monitor_attention, 1);
}

void hm_monitor_done(void)
{
	atomic_fetch_sub_explicit(&hm_monitor_attention, 1, memory_order_release);
}

void hm_monitor_raise(uint32_t bits)
{
	atomic_fetch_or(&hm_monitor_attention, bits);
}

void hm_monitor_lower(uint32_t bits)
{
	atomic_fetch_and(&hm_monitor_attention, ~bits);
}

void hm_monitor_settle_slow(void)
{
	const struct hm_monitor *monitor = hm_monitor_used();

	if ((atomic_load(&hm_monitor_attention) & HM_MONITOR_ASK) && monitor && monitor->settle)
		monitor->settle();
	for (int looks = 0;
	     atomic_load_explicit(&hm_monitor_attention, memory_order_acquire) & HM_MONITOR_REPORTS;
	     looks++)
		if (looks >= LOOKS)
			sched_yield();
}

/* ---- giving back ---- */

static void reap_all(void)
{
	uint32_t count = atomic_load(&slots);

	for (uint32_t i = 0; i < count; i++) {
		struct hm_cache *cache;

		atomic_store(&slot[i].busy, true);
		cache = atomic_load(&slot[i].cache);
		if (cache)
			hm_cache_reap(cache);
		atomic_store(&slot[i].busy, false);
	}
}

static void *reap(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (joined > 0) {
		hm_cond_wait_for(&wake, &lock, REAP_NANOS);
		/* What a removal calls may take its time, and locks. */
		pthread_mutex_unlock(&lock);
		reap_all();
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Without the lock, by who has set switching. */
static void start_reaper(void)
{
	int err = hm_thread_start(&reaper, "hmreg-reaper", reap, NULL);

	reaping = err == 0;
	if (err)
		HM_WARN(FI_LOG_MR,
			"no thread (errno %d) to end registrations of memory that is gone: they "
			"end with the next one made",
			err);
}

/* ---- one thread at a time starts and stops the monitor ---- */

/* lock held.  False: the other thread takes too long. */
static bool wait_switched(void)
{
	struct timespec until;
	int err = 0, cancel;

	if (!switching)
		return true;
	cancel = hm_cancel_off();
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += SWITCH_SECONDS;
	while (switching && err != ETIMEDOUT)
		err = pthread_cond_clockwait(&switched, &lock, CLOCK_MONOTONIC, &until);
	hm_cancel_restore(cancel);
	return !switching;
}

/* lock held, and let go */
static void begin_switch(void)
{
	switching = true;
	switcher = pthread_self();
	pthread_mutex_unlock(&lock);
}

/* takes the lock again */
static void end_switch(void)
{
	pthread_mutex_lock(&lock);
	switching = false;
	pthread_cond_broadcast(&switched);
}

bool hm_monitor_inside(void)
{
	return hm_monitor_depth > 0;
}

bool hm_monitor_hold(void)
{
	pthread_mutex_lock(&lock);
	return joined > 0 || switching;
}

void hm_monitor_let(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- forks ---- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&lock);
	if (switching && !pthread_equal(switcher, pthread_self()))
		wait_switched();
	hm_monitor_why_hold();
}

static void fork_parent(void)
{
	hm_monitor_why_let();
	pthread_mutex_unlock(&lock);
}

/* The thread that forked is the only one: nobody looks at a cache, reports, or reaps. */
static void fork_child(void)
{
	for (uint32_t i = 0; i < slots; i++)
		atomic_store(&slot[i].busy, false);
	hm_monitor_lower(HM_MONITOR_REPORTS);
	switched = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	reaping = false;
	/* a start that was not waited for has no thread here that would end it */
	switching = switching && pthread_equal(switcher, pthread_self());
	hm_monitor_why_let();
	hm_changes_forked();
	hm_monitor_forked();
	pthread_mutex_unlock(&lock);
}

static void follow_forks(void)
{
	int err = pthread_atfork(fork_prepare, fork_parent, fork_child);

	if (err)
		HM_WARN(FI_LOG_MR,
			"forks cannot be followed (errno %d): children must not use "
			"what was opened before",
			err);
}

/* ---- caches ---- */

/* lock held.  NULL: all are taken. */
static struct slot *free_slot(void)
{
	for (uint32_t i = 0; i < CACHES; i++) {
		if (atomic_load(&slot[i].cache))
			continue;
		if (i >= atomic_load(&slots))
			atomic_store(&slots, i + 1);
		return &slot[i];
	}
	return NULL;
}

int hm_monitor_join(struct hm_cache *cache)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct slot *mine;
	int ret = 0, cancel;

	if (hm_monitor_inside())
		return -FI_EBUSY;
	cancel = hm_cancel_off();
	pthread_once(&once, follow_forks);
	pthread_mutex_lock(&lock);
	if (!wait_switched()) {
		ret = -FI_EBUSY;
	} else if (joined == 0) {
		begin_switch();
		ret = hm_monitor_choose(false);
		end_switch();
	} else if (!hm_monitor_used()) {
		ret = -FI_ENOSYS;
	}
	mine = ret == 0 ? free_slot() : NULL;
	if (mine) {
		atomic_store(&mine->cache, cache);
		joined++;
		if (!reaping) { /* a child of fork(2) has none, either */
			begin_switch();
			start_reaper();
			end_switch();
		}
	} else if (ret == 0) {
		ret = -FI_ENOSPC;
	}
	pthread_mutex_unlock(&lock);
	hm_cancel_restore(cancel);
	return ret;
}

/* lock held.  NULL: it has not joined. */
static struct slot *slot_of(const struct hm_cache *cache)
{
	for (uint32_t i = 0; i < slots; i++)
		if (atomic_load(&slot[i].cache) == cache)
			return &slot[i];
	return NULL;
}

/* lock held, and let go meanwhile */
static void last_left(void)
{
	pthread_cond_signal(&wake);
	begin_switch();
	if (reaping)
		pthread_join(reaper, NULL);
	reaping = false;
	hm_monitor_release();
	end_switch();
}

void hm_monitor_leave(struct hm_cache *cache)
{
	int cancel = hm_cancel_off();
	struct slot *mine;

	pthread_mutex_lock(&lock);
	mine = slot_of(cache);
	if (mine) {
		atomic_store(&mine->cache, NULL);
		if (--joined == 0)
			last_left();
	}
	pthread_mutex_unlock(&lock);
	if (mine) {
		hm_changes_wait_told();
		while (atomic_load(&mine->busy))
			sched_yield();
	}
	hm_cancel_restore(cancel);
}

bool hm_monitor_tell(char *name, size_t name_size, char *why, size_t why_size)
{
	const struct hm_monitor *monitor;
	bool trial;
	int cancel;

	cancel = hm_cancel_off();
	pthread_mutex_lock(&lock);
	/* this thread may be the one that starts it */
	trial = !hm_monitor_inside() && wait_switched() && joined == 0;
	if (trial) {
		begin_switch();
		hm_monitor_choose(true);
	}
	monitor = hm_monitor_used();
	snprintf(name, name_size, "%s", monitor ? monitor->name : "");
	hm_monitor_why(why, why_size);
	if (trial) {
		hm_monitor_release();
		end_switch();
	}
	pthread_mutex_unlock(&lock);
	hm_cancel_restore(cancel);
	return monitor;
}
