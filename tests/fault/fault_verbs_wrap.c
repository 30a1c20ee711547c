/* SPDX-License-Identifier: BSD-2-Clause */
/* See fault_verbs.h.  Any thread may call these: the one that makes progress does. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "tests/fault/fault_verbs.h"

#define WRAPPED(X)                                                                                 \
	X(malloc)                                                                                  \
	X(calloc)                                                                                  \
	X(realloc)                                                                                 \
	X(aligned_alloc)                                                                           \
	X(posix_memalign)                                                                          \
	X(strdup)                                                                                  \
	X(eventfd)                                                                                 \
	X(epoll_create1)                                                                           \
	X(epoll_ctl)                                                                               \
	X(pthread_create)                                                                          \
	X(getrandom)                                                                               \
	X(mmap)                                                                                    \
	X(fcntl)

enum wrapped {
#define WRAPPED_ENUM(name) WRAP_##name,
	WRAPPED(WRAPPED_ENUM) WRAPPED_COUNT
};

#define WRAPPED_NAME(name) #name,
static const char *const names[] = { WRAPPED(WRAPPED_NAME) };

static _Atomic unsigned chosen = WRAPPED_COUNT, left;

bool fault_wrap_fail(const char *name, unsigned nth)
{
	for (unsigned i = 0; i < WRAPPED_COUNT; i++) {
		if (strcmp(name, names[i]) == 0) {
			left = nth;
			chosen = i;
			return true;
		}
	}
	return false;
}

bool fault_wrap_failed(void)
{
	return left == 0;
}

static bool fails(enum wrapped which)
{
	unsigned now = atomic_load(&left);

	if (atomic_load_explicit(&chosen, memory_order_relaxed) != which)
		return false;
	while (now > 0)
		if (atomic_compare_exchange_weak(&left, &now, now - 1))
			return now == 1;
	return false;
}

static bool refused(enum wrapped which, int error)
{
	if (!fails(which))
		return false;
	errno = error;
	return true;
}

#define memory_refused(name) refused(WRAP_##name, ENOMEM)
#include "tests/fault/wrap_memory.h"

long fault_wrap_live(void)
{
	return live;
}

int __real_eventfd(unsigned int value, int flags);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
ssize_t __real_getrandom(void *to, size_t size, unsigned flags);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __real_fcntl(int fd, int command, ...);

#pragma GCC visibility push(default)
int __wrap_eventfd(unsigned int value, int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __wrap_fcntl(int fd, int command, ...);
#pragma GCC visibility pop

int __wrap_eventfd(unsigned int value, int flags)
{
	return refused(WRAP_eventfd, EMFILE) ? -1 : __real_eventfd(value, flags);
}

int __wrap_epoll_create1(int flags)
{
	return refused(WRAP_epoll_create1, EMFILE) ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	/* taking a descriptor out that is there does not fail */
	if (op != EPOLL_CTL_DEL && refused(WRAP_epoll_ctl, ENOSPC))
		return -1;
	return __real_epoll_ctl(epoll, op, fd, event);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return fails(WRAP_pthread_create) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags)
{
	return refused(WRAP_getrandom, ENOSYS) ? -1 : __real_getrandom(to, size, flags);
}

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (refused(WRAP_mmap, ENOMEM))
		return MAP_FAILED;
	return __real_mmap(addr, len, prot, flags, fd, offset);
}

int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	long value;

	va_start(args, command);
	value = va_arg(args, long);
	va_end(args);
	return refused(WRAP_fcntl, EBADF) ? -1 : __real_fcntl(fd, command, value);
}
