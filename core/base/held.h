/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who holds what, counted per thread: to hold and to let go writes memory of the calling thread alone, so
 * that threads that hold the same thing do not fight over a count.
 *
 * Things have numbers out of one range for the process; each thread has an array of counts by number.
 * Letting go may happen on another thread than holding did: only the sum over all threads says how often
 * a thing is held.  Counts and sum are modulo 2^32, so that a thread which only ever holds and one which
 * only ever lets go may do so forever.  A thread's array outlives it and is taken over by a later thread.
 *
 * Holding is not synchronised with whoever looks at the sum.  The two meet so:
 *
 *   holder                              looker
 *     hold(n)                             say that n is not to be held any more
 *     is n still to be held?              hm_held_barrier()
 *     no: drop(n), and think again        hm_held_sum(n)
 *
 * The barrier is membarrier(2), which orders the holders' two steps from outside, so that they need
 * no fence themselves; where the kernel has none, hm_held_fenced is set and holders have one.  Once n is
 * not to be held, the looker sees every hold that was made, and no letting go without its hold (who thinks
 * again lets go in the array he held in); so a sum that is found to be 0, although it was added up while
 * it changed, is 0.
 *
 * Two numbers that follow each other, the first of them even, may be used as one tally of 64 bits instead:
 * what happened is counted there without shared lines as well.
 */
#ifndef HM_HELD_H
#define HM_HELD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HM_HELD_NUMBERS (UINT32_C(1) << 24)

/*
 * The calling thread's counts; limit: how many of them are backed by memory; unfenced: the same, or 0 where
 * holders have a fence.
 */
struct hm_held_self {
	_Atomic uint32_t *count;
	uint32_t limit, unfenced;
};

extern _Thread_local struct hm_held_self hm_held_self __attribute__((tls_model("initial-exec")));
extern bool hm_held_fenced;

/*
 * A range of numbers for one owner; first is a multiple of 16.  -FI_ENOMEM, -FI_ENOSPC.  Whatever is held
 * under them is to be let go before they are given back.  A tally starts anywhere: an owner notes its
 * sum, and subtracts that.
 */
int hm_held_take_range(uint32_t count, uint32_t *first);
void hm_held_give_range(uint32_t first);

/* Counts of this thread for number n; NULL: there is no memory for any. */
_Atomic uint32_t *hm_held_slow(uint32_t n);

/* False: the kernel refuses it, and no sum says anything. */
bool hm_held_barrier(void);
uint32_t hm_held_sum(uint32_t n);

/* To be held with hm_hold, if false: nothing is held. */
static inline bool hm_hold_now(uint32_t n)
{
	_Atomic uint32_t *count;

	if (__builtin_expect(n >= hm_held_self.unfenced, 0))
		return false;
	count = hm_held_self.count + n;
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

/* False: no memory, and nothing is held. */
static inline bool hm_hold(uint32_t n)
{
	_Atomic uint32_t *count;

	if (__builtin_expect(hm_hold_now(n), 1))
		return true;
	count = hm_held_slow(n);
	if (!count)
		return false;
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}

void hm_drop_shared(uint32_t n);

static inline void hm_drop(uint32_t n)
{
	_Atomic uint32_t *count;

	if (__builtin_expect(n < hm_held_self.limit, 1)) {
		count = hm_held_self.count + n;
	} else {
		count = hm_held_slow(n);
		if (!count) {
			hm_drop_shared(n);
			return;
		}
	}
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) - 1,
			      memory_order_release);
}

/* Allocates nothing and takes no lock: fit for hooks. */
void hm_tally_shared(uint32_t n, uint64_t more);
uint64_t hm_tally_sum(uint32_t n);

/* By who has just held a number above this one. */
static inline void hm_tally_held(uint32_t n, uint64_t more)
{
	_Atomic uint64_t *tally = (_Atomic uint64_t *)(void *)(hm_held_self.count + n);

	atomic_store_explicit(tally, atomic_load_explicit(tally, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

static inline void hm_tally(uint32_t n, uint64_t more)
{
	if (__builtin_expect(n >= hm_held_self.limit, 0))
		hm_tally_shared(n, more);
	else
		hm_tally_held(n, more);
}

#endif
