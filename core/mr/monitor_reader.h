/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread of a monitor that learns of changes by reading a descriptor. */
#ifndef HM_MONITOR_READER_H
#define HM_MONITOR_READER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct hm_reader {
	const char *name; /* of the thread, 15 characters at most */
	/* How long to wait at most, in milliseconds; -1: for ever.  NULL: always that. */
	int (*patience)(void);
	/* There is something to read.  False: no more is to be read. */
	bool (*readable)(void);
	/* The thread ends, by whichever way: told so by hm_reader_stop, by readable, or from outside. */
	void (*ended)(bool told);

	/* hm_reader's */
	int fd;	  /* the monitor's */
	int wake; /* an eventfd; -1: none */
	pthread_t thread;
	bool threaded;
	_Atomic bool told; /* to end; wake only wakes, and may have been closed by the program */
};

/* Reads until stopped.  A negative code: nothing is left of it. */
int hm_reader_start(struct hm_reader *reader, int fd);
/* Once it has returned, the thread is no more.  Nothing is done to fd.  Does nothing twice. */
void hm_reader_stop(struct hm_reader *reader);
/* In the child of a fork, which has no such thread. */
void hm_reader_forked(struct hm_reader *reader);

#endif
