/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library's own. */
#ifndef HM_THREAD_H
#define HM_THREAD_H

#include <pthread.h>
#include <signal.h>

/*
 * Start one: all signals are for the program's own threads, but for faults, which copies of the program's memory
 * and looks at files that others may cut short expect.  name: up to 15 characters.  pthread_create's code.
 */
static inline int hm_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg),
				  void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err == 0)
		pthread_setname_np(*thread, name);
	return err;
}

#endif
