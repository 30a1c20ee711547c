/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wait objects: what a queue or counter uses to wake those who wait for it.
 *
 * FI_WAIT_NONE   nobody may sleep
 * FI_WAIT_UNSPEC sleep on a condition variable
 * FI_WAIT_FD     the same in the library, and an eventfd for poll(2) in the application; it is
 *                readable while something may be ready, until hm_wait_try drains it
 * FI_WAIT_YIELD  waiters yield the processor between looks
 *
 * Use: a producer makes the thing ready, then calls hm_wait_signal, which is one load while nobody
 * listens.  A consumer calls hm_wait_until or hm_wait_try with a predicate.
 *
 * Why no wake-up is lost.  A consumer first announces itself in listeners and then looks; a producer
 * first makes ready and then reads listeners.  It must not happen that both miss each other, which
 * acquire and release order alone would allow.  Producer and predicate therefore do one of two:
 *
 *   - the producer makes ready with a sequentially consistent write, which the predicate reads with
 *     a sequentially consistent load.  With the accesses to listeners, which are so too, four
 *     operations stand in one total order: if the producer's load comes before the announcement,
 *     its write comes before the consumer's look.
 *   - the producer makes ready while it holds a mutex that the predicate takes for its look.  If the
 *     look comes first, the announcement happens before the producer takes the mutex, so that it
 *     reads it; if the look comes second, it finds the thing ready.
 */
#ifndef HM_WAIT_H
#define HM_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_ext.h>

#define HM_WAIT_ARMED	1u /* in listeners: the eventfd is to be written at the next signal */
#define HM_WAIT_ONWARD	2u /* in listeners: another wait object is signalled, too */
#define HM_WAIT_SLEEPER 4u /* in listeners: one thread in hm_wait_until, or that listens */

struct hm_wait {
	_Atomic unsigned int
		listeners; /* HM_WAIT_ARMED, _ONWARD, and HM_WAIT_SLEEPER times the sleepers */
	_Atomic unsigned int kicks;   /* hm_wait_kick calls: each ends the sleeps that were on */
	_Atomic unsigned int signals; /* wake-ups given to sleepers; written under lock */
	enum fi_wait_obj obj;
	struct hm_wait *onward; /* constant while HM_WAIT_ONWARD is set */
	int fd;			/* FI_WAIT_FD: owned eventfd, closed by destroy; else -1 */
	pthread_mutex_t lock;	/* protects sleeping against signalling; innermost of all */
	pthread_cond_t cond;	/* CLOCK_MONOTONIC */
};

/*
 * May an object be opened with this wait object?  Else -FI_ENOSYS (not offered) or -FI_EINVAL (no
 * such value) with one log line that names call.
 */
int hm_wait_check(enum fi_wait_obj obj, enum fi_log_subsys subsys, const char *call);

/* obj has passed hm_wait_check.  -FI_ENOMEM, -FI_EMFILE: no eventfd; with one log line. */
int hm_wait_init(struct hm_wait *wait, enum fi_wait_obj obj);
void hm_wait_destroy(struct hm_wait *wait);

/* The part of hm_wait_signal for when somebody listens. */
void hm_wait_wake(struct hm_wait *wait);

/* Wake every sleeper so that it looks again; make the fd readable. */
static inline void hm_wait_signal(struct hm_wait *wait)
{
	if (__builtin_expect(atomic_load(&wait->listeners) != 0, 0))
		hm_wait_wake(wait);
}

/*
 * From now on each signal is one of another wait object, too, by whose sleepers many things are waited for;
 * while these do not sleep it costs two loads.  NULL: no more, where nobody signals at the same time.
 */
void hm_wait_pass_on(struct hm_wait *wait, struct hm_wait *onward);

/* As signal, and sleepers return -FI_EAGAIN even if nothing is ready (fi_cq_signal). */
void hm_wait_kick(struct hm_wait *wait);

/*
 * Sleep until ready(arg), a kick, or timeout (milliseconds, negative: for ever).  0 when ready,
 * -FI_EAGAIN after a kick or the timeout.  -FI_ENOSYS for FI_WAIT_NONE.  ready is called without
 * any lock of the wait object, may change what arg points to, and is not called again once it has
 * answered true.
 */
int hm_wait_until(struct hm_wait *wait, bool (*ready)(void *arg), void *arg, int timeout);

/*
 * For a thread that sleeps for signals and looks at what nothing signals whenever a time has passed.  From listen
 * to ignore each signal counts signals up.  The thread reads that, then looks, and naps until it is another than
 * was heard, or for nanos (negative: for ever).  Whether there was a signal is told by signals alone, read again
 * before the next look: what ended the nap would not tell of one that comes after it.
 */
void hm_wait_listen(struct hm_wait *wait);
void hm_wait_nap(struct hm_wait *wait, unsigned int heard, int64_t nanos);
void hm_wait_ignore(struct hm_wait *wait);

/*
 * For fi_trywait: 0 when nothing is ready and the fd will become readable as soon as something is,
 * -FI_EAGAIN when something is ready already.  -FI_EINVAL: there is no fd.
 */
int hm_wait_try(struct hm_wait *wait, bool (*ready)(void *arg), void *arg);

/*
 * fi_control on the object that owns the wait object: FI_GETWAIT writes the fd through arg as int
 * (-FI_ENODATA: there is none), FI_GETWAITOBJ the kind.  -FI_ENOSYS: another command.  -FI_EINVAL:
 * NULL arg.  Every failure logs one line.
 */
int hm_wait_control(const struct hm_wait *wait, enum fi_log_subsys subsys, int command, void *arg);

#endif
