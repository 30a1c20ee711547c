/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What changes memory, called by an object of its own: the program, one that binds at once, one that binds
 * lazily.  Each has this compiled in, so that calls go through its own relocated words.
 */
#ifndef HM_TEST_HOOKS_CALLS_H
#define HM_TEST_HOOKS_CALLS_H

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

struct hooks_calls {
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, void *);
	int (*madvise)(void *, size_t, int);
	int (*posix_madvise)(void *, size_t, int);
	int (*remap_file_pages)(void *, size_t, int, size_t, int);
	int (*brk)(void *);
	void *(*sbrk)(intptr_t);
	void *(*shmat)(int, const void *, int);
	int (*shmdt)(const void *);
	long (*syscall)(long, long, long, long, long, long, long);
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*realloc)(void *, size_t);
	void *(*reallocarray)(void *, size_t, size_t);
	int (*malloc_trim)(size_t);
	int (*mallopt)(int, int);
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*thrd_create)(thrd_t *, thrd_start_t, void *);
	void *(*dlopen)(const char *, int);
	int (*dlclose)(void *);
};

extern const struct hooks_calls hooks_calls;

#endif
