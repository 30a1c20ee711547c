/* SPDX-License-Identifier: BSD-2-Clause */
/* The slow paths of short locks, and of waiting for references. */
#include "core/base/spin.h"

#include <sched.h>
#include <time.h>

#include "core/base/cancel.h"

#define LOOKS_AWAKE 200
#define YIELDS	    100

void hm_spin_wait(struct hm_spin *lock)
{
	static const struct timespec pause = { .tv_nsec = 1000 };
	int cancel = hm_cancel_off();

	for (unsigned n = 0; !hm_spin_try(lock); n++)
		if (n >= LOOKS_AWAKE)
			nanosleep(&pause, NULL);
	hm_cancel_restore(cancel);
}

void hm_spin_drain(_Atomic uint64_t *word, uint64_t bits)
{
	static const struct timespec pause = { .tv_nsec = 20000 };
	int cancel = hm_cancel_off();

	for (unsigned n = 0; atomic_load_explicit(word, memory_order_acquire) & bits; n++) {
		if (n < YIELDS)
			sched_yield();
		else
			nanosleep(&pause, NULL);
	}
	hm_cancel_restore(cancel);
}
