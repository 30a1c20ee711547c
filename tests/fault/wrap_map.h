/* SPDX-License-Identifier: BSD-2-Clause */
/* Mappings and threads behind --wrap, which fail by fault_fails.  Included once in a program. */
#ifndef HM_TEST_WRAP_MAP_H
#define HM_TEST_WRAP_MAP_H

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "tests/fault/fault.h"

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

#pragma GCC visibility push(default)
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
#pragma GCC visibility pop

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (!fault_fails(FAULT_MAP))
		return __real_mmap(addr, len, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return fault_fails(FAULT_THREAD) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

#endif
