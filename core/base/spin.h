/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks for sections of a few dozen instructions, where the atomic operation that a mutex needs to
 * unlock would double the cost.  A waiter soon sleeps between looks, so that a holder who lost its
 * processor gets it back whatever the waiter's priority.
 *
 * While the process has one thread, as the C library tells, nobody can hold a lock when it is taken,
 * and a plain store does; no section starts a thread.
 */
#ifndef HM_SPIN_H
#define HM_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define HM_ALONE __libc_single_threaded
#endif
#endif
#ifndef HM_ALONE
#define HM_ALONE false
#endif

struct hm_spin {
	_Atomic int held;
};

/*
 * Wait until none of the bits is set in word: for holders of references who are done soon and take no
 * new ones.  Soon sleeps between looks, too.
 */
void hm_spin_drain(_Atomic uint64_t *word, uint64_t bits);

/* Sleeps and tries until the lock is taken. */
void hm_spin_wait(struct hm_spin *lock);

static inline void hm_spin_init(struct hm_spin *lock)
{
	atomic_init(&lock->held, 0);
}

static inline bool hm_spin_try(struct hm_spin *lock)
{
	return !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

static inline void hm_spin_lock(struct hm_spin *lock)
{
	if (HM_ALONE)
		atomic_store_explicit(&lock->held, 1, memory_order_relaxed);
	else if (__builtin_expect(!hm_spin_try(lock), 0))
		hm_spin_wait(lock);
}

static inline void hm_spin_unlock(struct hm_spin *lock)
{
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif
