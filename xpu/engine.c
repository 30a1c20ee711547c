/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread of a context.  xpu.h explains it. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "core/base/params.h"
#include "core/base/thread.h"
#include "xpu/xpu.h"

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- the lock ---- */

/* A mutex goes to whoever comes first, which the thread would always be. */
static void lock(struct xpu_engine *engine)
{
	atomic_fetch_add(&engine->wanted, 1);
	pthread_mutex_lock(&engine->lock);
	atomic_fetch_sub(&engine->wanted, 1);
}

static void unlock(struct xpu_engine *engine)
{
	pthread_cond_signal(&engine->unwanted);
	pthread_mutex_unlock(&engine->lock);
}

/* The thread's, which has the lock. */
static void let_others(struct xpu_engine *engine)
{
	while (atomic_load(&engine->wanted) > 0)
		pthread_cond_wait(&engine->unwanted, &engine->lock);
}

/* ---- the thread ---- */

/* One look at everything.  How much has moved. */
static unsigned look(struct xpu_engine *engine)
{
	unsigned moved = 0;

	if (hm_list_empty(&engine->parts))
		return 0;
	engine->nic->ops->progress(engine->nic);
	hm_list_for_each(link, &engine->parts)
	{
		struct hm_xpu_part *part = hm_list_entry(link, struct hm_xpu_part, link);

		moved += part->poll(part);
	}
	return moved;
}

/* The same at what nothing signals: a word of each part that the device moves on. */
static unsigned glance(struct xpu_engine *engine)
{
	unsigned moved = 0;

	hm_list_for_each(link, &engine->parts)
	{
		struct hm_xpu_part *part = hm_list_entry(link, struct hm_xpu_part, link);

		if (part->word && xpu_load(part->word) != part->still)
			moved += part->poll(part);
	}
	return moved;
}

static int64_t sleep_for(const struct xpu_engine *engine, int64_t idle)
{
	int64_t nanos = idle / XPU_SLEEP_SHARE;

	if (hm_list_empty(&engine->parts))
		return -1;
	if (idle > XPU_IDLE_NANOS)
		nanos = idle / XPU_IDLE_SHARE;
	else if (nanos > XPU_SLEEP_MOST)
		nanos = XPU_SLEEP_MOST;
	if (nanos < XPU_SLEEP_LEAST)
		nanos = XPU_SLEEP_LEAST;
	return nanos > engine->longest ? engine->longest : nanos;
}

static bool spins(const struct xpu_engine *engine, int64_t idle)
{
	if (engine->longest == 0 && !hm_list_empty(&engine->parts))
		return true;
	return idle < engine->awake;
}

/* Looks until nothing has moved for some time.  When it last did. */
static int64_t spin(struct xpu_engine *engine)
{
	int64_t moved = now();

	do {
		let_others(engine);
		engine->changed = false;
		if (look(engine) > 0)
			moved = now();
		else
			sched_yield();
	} while (!engine->stop && spins(engine, now() - moved));
	return moved;
}

/*
 * Sleeps until something has moved, or changed.  The first look is at everything, and so is each after a signal:
 * what comes in between is signalled.  It is ready before that: a completion in its queue, whose lock or
 * sequentially consistent value poll looks at, and stop and changed by the lock.  (wait.h)
 *
 * A signal may come at any time, also after a sleep has ended and before the next glance.  So what is compared is
 * how many there were before the last look at everything, not whether one has ended the sleep.
 */
static void rest(struct xpu_engine *engine, int64_t moved)
{
	unsigned heard, looked = 0;
	bool first = true;

	hm_wait_listen(&engine->wake);
	for (;; first = false) {
		int64_t nanos;

		let_others(engine);
		heard = atomic_load(&engine->wake.signals);
		if (engine->stop || engine->changed ||
		    (first || heard != looked ? look(engine) : glance(engine)) > 0)
			break;
		looked = heard;
		nanos = sleep_for(engine, now() - moved);
		pthread_mutex_unlock(&engine->lock);
		hm_wait_nap(&engine->wake, heard, nanos);
		pthread_mutex_lock(&engine->lock);
	}
	hm_wait_ignore(&engine->wake);
}

static void *run(void *arg)
{
	struct xpu_engine *engine = arg;

	prctl(PR_SET_TIMERSLACK, XPU_TIMER_SLACK);
	pthread_mutex_lock(&engine->lock);
	while (!engine->stop)
		rest(engine, spin(engine));
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

/* ---- what others call ---- */

/* A setting, within reason; -1 is the most, as elsewhere. */
static int64_t up_to(enum hm_param id, int most)
{
	int value = hm_param_int(id);

	return value < 0 || value > most ? most : value;
}

int xpu_engine_init(struct xpu_engine *engine, struct nic_domain *nic)
{
	memset(engine, 0, sizeof(*engine));
	if (pthread_mutex_init(&engine->lock, NULL) != 0)
		goto no_memory;
	if (pthread_cond_init(&engine->unwanted, NULL) != 0)
		goto destroy_lock;
	if (hm_wait_init(&engine->wake, FI_WAIT_UNSPEC) != 0)
		goto destroy_cond; /* it has said so itself */
	engine->nic = nic;
	engine->longest = XPU_MILLISECOND * up_to(HM_PARAM_XPU_MAX_SLEEP, XPU_MS_MOST);
	engine->awake = XPU_MICROSECOND * up_to(HM_PARAM_XPU_SPIN_TIME, XPU_US_MOST);
	engine->pid = getpid();
	hm_list_init(&engine->parts);
	return 0;

destroy_cond:
	pthread_cond_destroy(&engine->unwanted);
	pthread_mutex_destroy(&engine->lock);
	return -FI_ENOMEM;
destroy_lock:
	pthread_mutex_destroy(&engine->lock);
no_memory:
	HM_WARN(FI_LOG_DOMAIN, "no memory for the thread of an XPU context");
	return -FI_ENOMEM;
}

bool xpu_engine_inherited(const struct xpu_engine *engine)
{
	return engine->pid != getpid();
}

void xpu_engine_end(struct xpu_engine *engine)
{
	if (xpu_engine_inherited(engine))
		return;
	assert(hm_list_empty(&engine->parts));
	if (engine->started) {
		lock(engine);
		engine->stop = true;
		unlock(engine);
		hm_wait_signal(&engine->wake);
		pthread_join(engine->thread, NULL);
	}
	hm_wait_destroy(&engine->wake);
	pthread_cond_destroy(&engine->unwanted);
	pthread_mutex_destroy(&engine->lock);
}

/* Under the lock. */
static int start(struct xpu_engine *engine)
{
	int err;

	if (engine->started)
		return 0;
	err = hm_thread_start(&engine->thread, "hmreg-xpu", run, engine);
	if (err != 0) {
		HM_WARN(FI_LOG_DOMAIN, "no thread for an XPU context: %s", strerror(err));
		return err == EAGAIN ? -FI_EAGAIN : -FI_ENOMEM;
	}
	engine->started = true;
	return 0;
}

int xpu_engine_add(struct xpu_engine *engine, struct hm_xpu_part *part)
{
	int ret;

	lock(engine);
	ret = start(engine);
	if (ret == 0) {
		hm_list_add_tail(&engine->parts, &part->link);
		engine->changed = true;
	}
	unlock(engine);
	hm_wait_signal(&engine->wake);
	return ret;
}

void xpu_engine_remove(struct xpu_engine *engine, struct hm_xpu_part *part)
{
	if (xpu_engine_inherited(engine))
		return;
	lock(engine);
	hm_list_del(&part->link);
	unlock(engine);
}
