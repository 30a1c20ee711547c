/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads for the time of one call: started for it, ended with it, so that nothing is left of them. */
#ifndef HM_CREW_H
#define HM_CREW_H

#include <stddef.h>

#define HM_CREW_MAX 64 /* threads of one call, the caller's included */

/*
 * Call work(arg, i) for each i below count, the lowest first, on up to threads threads of which one is the
 * caller's.  Returns when all are done: how many threads there were, at least 1.  Those that cannot be started
 * are done without.  Cancellation of the caller is off meanwhile, and signals go to no thread but the
 * program's.
 */
unsigned int hm_crew_run(void (*work)(void *arg, size_t i), void *arg, size_t count,
			 unsigned int threads);

/* Processors that the calling thread may run on, at least 1 and at most HM_CREW_MAX. */
unsigned int hm_crew_processors(void);

#endif
