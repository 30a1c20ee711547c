/* SPDX-License-Identifier: BSD-2-Clause */
/* See crew.h. */
#include "core/base/crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "core/base/cancel.h"
#include "core/base/thread.h"

struct crew {
	void (*work)(void *arg, size_t i);
	void *arg;
	size_t count;
	_Atomic size_t next;
};

static void *take_turns(void *arg)
{
	struct crew *crew = arg;
	size_t i;

	while ((i = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed)) < crew->count)
		crew->work(crew->arg, i);
	return NULL;
}

unsigned int hm_crew_run(void (*work)(void *arg, size_t i), void *arg, size_t count,
			 unsigned int threads)
{
	struct crew crew = { .work = work, .arg = arg, .count = count };
	pthread_t others[HM_CREW_MAX - 1];
	unsigned int started = 0, most = threads < HM_CREW_MAX ? threads : HM_CREW_MAX;
	int cancel;

	if (most > count)
		most = (unsigned int)count;
	if (most <= 1) {
		for (size_t i = 0; i < count; i++)
			work(arg, i);
		return 1;
	}
	cancel = hm_cancel_off(); /* the threads work on this stack */
	while (started + 1 < most &&
	       hm_thread_start(&others[started], "hmreg-crew", take_turns, &crew) == 0)
		started++;
	take_turns(&crew);
	for (unsigned int i = 0; i < started; i++)
		pthread_join(others[i], NULL);
	hm_cancel_restore(cancel);
	return started + 1;
}

unsigned int hm_crew_processors(void)
{
	cpu_set_t set;
	int count = 1;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		count = CPU_COUNT(&set);
	return count < 1 ? 1 : count > HM_CREW_MAX ? HM_CREW_MAX : (unsigned int)count;
}
