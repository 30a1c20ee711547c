/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library that do something from time to time. */
#ifndef HM_COND_H
#define HM_COND_H

#include <pthread.h>
#include <time.h>

/* Wait for a signal, nanos (below a second) at most, whatever the machine's clock is set to meanwhile. */
static inline void hm_cond_wait_for(pthread_cond_t *cond, pthread_mutex_t *lock, long nanos)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += nanos;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &until);
}

#endif
