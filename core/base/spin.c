/* SPDX-License-Identifier: BSD-2-Clause */
/* The slow path of short locks. */
#include "core/base/spin.h"

#include <time.h>

#include "core/base/cancel.h"

#define LOOKS_AWAKE 200

void hm_spin_wait(pthread_spinlock_t *lock)
{
	static const struct timespec pause = {.tv_nsec = 1000};

	int cancel = hm_cancel_off();

	for (unsigned n = 0; pthread_spin_trylock(lock) != 0; n++)
		if (n >= LOOKS_AWAKE)
			nanosleep(&pause, NULL);
	hm_cancel_restore(cancel);
}
