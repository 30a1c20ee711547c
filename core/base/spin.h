/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks for sections of a few dozen instructions, where the atomic operation that a mutex needs to
 * unlock would double the cost.  A waiter soon sleeps between looks, so that a holder who lost its
 * processor gets it back whatever the waiter's priority.
 */
#ifndef HM_SPIN_H
#define HM_SPIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/*
 * Wait until none of the bits is set in word: for holders of references who are done soon and take no
 * new ones.  Soon sleeps between looks, too.
 */
void hm_spin_drain(_Atomic uint64_t *word, uint64_t bits);

/* Sleeps and tries until the lock is taken. */
void hm_spin_wait(pthread_spinlock_t *lock);

static inline void hm_spin_lock(pthread_spinlock_t *lock)
{
	if (__builtin_expect(pthread_spin_trylock(lock) != 0, 0))
		hm_spin_wait(lock);
}

static inline void hm_spin_unlock(pthread_spinlock_t *lock)
{
	pthread_spin_unlock(lock);
}

#endif
