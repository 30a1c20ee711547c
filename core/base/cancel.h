/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that is cancelled (pthread_cancel(3)) must not leave with what a call of ours holds: system
 * calls that are cancellation points are made with cancellation off.  Only a wait that the
 * application asked for can be cancelled (wait.c).
 */
#ifndef HM_CANCEL_H
#define HM_CANCEL_H

#include <pthread.h>

static inline int hm_cancel_off(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void hm_cancel_restore(int before)
{
	pthread_setcancelstate(before, &(int){ 0 });
}

#endif
