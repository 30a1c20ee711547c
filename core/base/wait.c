/* SPDX-License-Identifier: BSD-2-Clause */
/* Wait objects.  The argument that no wake-up is lost stands in wait.h. */
#include "core/base/wait.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/log.h"

#define MILLISECOND INT64_C(1000000) /* in nanoseconds */
#define SECOND	    (1000 * MILLISECOND)

/* When a sleep ends: never, or at a time of CLOCK_MONOTONIC. */
struct deadline {
	bool never;
	struct timespec at;
};

int hm_wait_check(enum fi_wait_obj obj, enum fi_log_subsys subsys, const char *call)
{
	switch (obj) {
	case FI_WAIT_NONE:
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
	case FI_WAIT_YIELD:
		return 0;
	case FI_WAIT_SET:
	case FI_WAIT_MUTEX_COND:
	case FI_WAIT_POLLFD:
		HM_WARN(subsys,
			"%s: wait object %d is not offered, only FI_WAIT_NONE, _UNSPEC, _FD, "
			"_YIELD",
			call, (int)obj);
		return -FI_ENOSYS;
	}
	HM_WARN(subsys, "%s: %d is no wait object", call, (int)obj);
	return -FI_EINVAL;
}

static int init_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int ret;

	if (pthread_condattr_init(&attr))
		return -FI_ENOMEM;
	ret = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (!ret)
		ret = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return ret ? -FI_ENOMEM : 0;
}

int hm_wait_init(struct hm_wait *wait, enum fi_wait_obj obj)
{
	int ret;

	memset(wait, 0, sizeof(*wait));
	wait->obj = obj;
	wait->fd = -1;
	if (obj == FI_WAIT_FD) {
		wait->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (wait->fd < 0) {
			ret = errno == ENOMEM ? -FI_ENOMEM : -FI_EMFILE;
			HM_WARN(FI_LOG_CORE, "no eventfd for FI_WAIT_FD: %s", strerror(errno));
			return ret;
		}
		atomic_init(&wait->listeners, HM_WAIT_ARMED);
	}
	if (pthread_mutex_init(&wait->lock, NULL)) {
		ret = -FI_ENOMEM;
		goto close_fd;
	}
	ret = init_cond(&wait->cond);
	if (ret)
		goto destroy_lock;
	return 0;

destroy_lock:
	pthread_mutex_destroy(&wait->lock);
close_fd:
	if (wait->fd >= 0)
		close(wait->fd);
	HM_WARN(FI_LOG_CORE, "no memory for a wait object");
	return ret;
}

void hm_wait_destroy(struct hm_wait *wait)
{
	assert(atomic_load(&wait->listeners) < HM_WAIT_SLEEPER);
	int cancel = hm_cancel_off();

	pthread_cond_destroy(&wait->cond);
	pthread_mutex_destroy(&wait->lock);
	if (wait->fd >= 0)
		close(wait->fd);
	wait->fd = -1;
	hm_cancel_restore(cancel);
}

/* Writes the eventfd unless that has been done since it was last armed. */
static void make_readable(struct hm_wait *wait)
{
	const uint64_t one = 1;
	int cancel;

	if (!(atomic_fetch_and(&wait->listeners, ~HM_WAIT_ARMED) & HM_WAIT_ARMED))
		return;
	cancel = hm_cancel_off();
	/* It fails only when the eventfd's count would overflow, and then it is readable. */
	while (write(wait->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	hm_cancel_restore(cancel);
}

void hm_wait_wake(struct hm_wait *wait)
{
	unsigned int listeners = atomic_load(&wait->listeners);

	if (listeners & HM_WAIT_ONWARD)
		hm_wait_signal(wait->onward);
	if (listeners & HM_WAIT_ARMED)
		make_readable(wait);
	if (listeners < HM_WAIT_SLEEPER)
		return;
	pthread_mutex_lock(&wait->lock);
	atomic_fetch_add(&wait->signals, 1);
	pthread_cond_broadcast(&wait->cond);
	pthread_mutex_unlock(&wait->lock);
}

void hm_wait_pass_on(struct hm_wait *wait, struct hm_wait *onward)
{
	if (onward) {
		wait->onward = onward;
		atomic_fetch_or(&wait->listeners, HM_WAIT_ONWARD);
	} else {
		atomic_fetch_and(&wait->listeners, ~HM_WAIT_ONWARD);
	}
}

void hm_wait_kick(struct hm_wait *wait)
{
	atomic_fetch_add(&wait->kicks, 1);
	hm_wait_signal(wait);
}

static struct deadline deadline_after(int64_t nanos)
{
	struct deadline deadline = { .never = nanos < 0 };

	if (deadline.never)
		return deadline;
	clock_gettime(CLOCK_MONOTONIC, &deadline.at);
	deadline.at.tv_sec += nanos / SECOND;
	deadline.at.tv_nsec += nanos % SECOND;
	if (deadline.at.tv_nsec >= SECOND) {
		deadline.at.tv_nsec -= SECOND;
		deadline.at.tv_sec++;
	}
	return deadline;
}

static bool deadline_passed(const struct deadline *deadline)
{
	struct timespec now;

	if (deadline->never)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > deadline->at.tv_sec ||
	       (now.tv_sec == deadline->at.tv_sec && now.tv_nsec >= deadline->at.tv_nsec);
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

/* Sleeps until signals is no longer seen.  False: the deadline passed. */
static bool sleep_for_signal(struct hm_wait *wait, unsigned int seen,
			     const struct deadline *deadline)
{
	int ret = 0;

	pthread_mutex_lock(&wait->lock);
	pthread_cleanup_push(unlock, &wait->lock); /* the thread may be cancelled here */
	while (atomic_load(&wait->signals) == seen && !ret)
		ret = deadline->never
			      ? pthread_cond_wait(&wait->cond, &wait->lock)
			      : pthread_cond_timedwait(&wait->cond, &wait->lock, &deadline->at);
	pthread_cleanup_pop(1);
	return !ret;
}

/*
 * signals is read before the look: a producer that the look has missed counts it up afterwards, and
 * the sleep, which compares under the lock, does not begin or ends.
 */
static int sleep_until(struct hm_wait *wait, bool (*ready)(void *arg), void *arg,
		       unsigned int kicks, const struct deadline *deadline)
{
	bool in_time = true;

	for (;;) {
		unsigned int seen = atomic_load(&wait->signals);

		if (ready(arg))
			return 0;
		if (!in_time || atomic_load(&wait->kicks) != kicks)
			return -FI_EAGAIN;
		in_time = sleep_for_signal(wait, seen, deadline);
	}
}

static void stop_listening(void *wait)
{
	atomic_fetch_sub(&((struct hm_wait *)wait)->listeners, HM_WAIT_SLEEPER);
}

static int wait_sleeping(struct hm_wait *wait, bool (*ready)(void *arg), void *arg,
			 unsigned int kicks, const struct deadline *deadline)
{
	int ret;

	hm_wait_listen(wait);
	pthread_cleanup_push(stop_listening, wait);
	ret = sleep_until(wait, ready, arg, kicks, deadline);
	pthread_cleanup_pop(1);
	return ret;
}

static int wait_yielding(struct hm_wait *wait, bool (*ready)(void *arg), void *arg,
			 unsigned int kicks, const struct deadline *deadline)
{
	for (;;) {
		bool last = deadline_passed(deadline) || atomic_load(&wait->kicks) != kicks;

		if (ready(arg))
			return 0;
		if (last)
			return -FI_EAGAIN;
		sched_yield();
	}
}

int hm_wait_until(struct hm_wait *wait, bool (*ready)(void *arg), void *arg, int timeout)
{
	unsigned int kicks = atomic_load(&wait->kicks);
	struct deadline deadline;

	if (wait->obj == FI_WAIT_NONE)
		return -FI_ENOSYS;
	if (ready(arg))
		return 0;
	if (timeout == 0)
		return -FI_EAGAIN;
	deadline = deadline_after(timeout * MILLISECOND);
	if (wait->obj == FI_WAIT_YIELD)
		return wait_yielding(wait, ready, arg, kicks, &deadline);
	return wait_sleeping(wait, ready, arg, kicks, &deadline);
}

void hm_wait_listen(struct hm_wait *wait)
{
	atomic_fetch_add(&wait->listeners, HM_WAIT_SLEEPER);
}

void hm_wait_nap(struct hm_wait *wait, unsigned int heard, int64_t nanos)
{
	struct deadline deadline = deadline_after(nanos);

	sleep_for_signal(wait, heard, &deadline);
}

void hm_wait_ignore(struct hm_wait *wait)
{
	stop_listening(wait);
}

/*
 * The fd is drained before it is armed: in the other order a signal in between would be drained too.
 * It is written again when the second look finds something, because another thread may be polling
 * for what was drained.
 */
int hm_wait_try(struct hm_wait *wait, bool (*ready)(void *arg), void *arg)
{
	uint64_t count;
	int cancel;

	if (wait->fd < 0)
		return -FI_EINVAL;
	if (ready(arg))
		return -FI_EAGAIN;
	cancel = hm_cancel_off();
	while (read(wait->fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	hm_cancel_restore(cancel);
	atomic_fetch_or(&wait->listeners, HM_WAIT_ARMED);
	if (!ready(arg))
		return 0;
	make_readable(wait);
	return -FI_EAGAIN;
}

int hm_wait_control(const struct hm_wait *wait, enum fi_log_subsys subsys, int command, void *arg)
{
	if (command != FI_GETWAIT && command != FI_GETWAITOBJ) {
		HM_WARN(subsys, "fi_control: command %d is neither FI_GETWAIT nor FI_GETWAITOBJ",
			command);
		return -FI_ENOSYS;
	}
	if (!arg) {
		HM_WARN(subsys, "fi_control: NULL argument");
		return -FI_EINVAL;
	}
	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *)arg = wait->obj;
		return 0;
	}
	if (wait->fd < 0) {
		HM_WARN(subsys, "fi_control: FI_GETWAIT on an object that has no FI_WAIT_FD");
		return -FI_ENODATA;
	}
	*(int *)arg = wait->fd;
	return 0;
}
