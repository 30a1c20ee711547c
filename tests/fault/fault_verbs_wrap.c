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

static _Atomic long live;
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

long fault_wrap_live(void)
{
	return live;
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

static void *counted(void *memory)
{
	live += memory != NULL;
	return memory;
}

static bool refused(enum wrapped which, int error)
{
	if (!fails(which))
		return false;
	errno = error;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **memory, size_t align, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);
int __real_eventfd(unsigned int value, int flags);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
ssize_t __real_getrandom(void *to, size_t size, unsigned flags);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __real_fcntl(int fd, int command, ...);

/* the linker looks at shared libraries' references, too, and wants to see these there */
#pragma GCC visibility push(default)
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **memory, size_t align, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
int __wrap_eventfd(unsigned int value, int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __wrap_fcntl(int fd, int command, ...);
#pragma GCC visibility pop

void *__wrap_malloc(size_t size)
{
	return refused(WRAP_malloc, ENOMEM) ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return refused(WRAP_calloc, ENOMEM) ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
	void *moved;

	if (refused(WRAP_realloc, ENOMEM))
		return NULL;
	moved = __real_realloc(memory, size);
	live += moved && !memory;
	return moved;
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return refused(WRAP_aligned_alloc, ENOMEM) ? NULL
						   : counted(__real_aligned_alloc(align, size));
}

int __wrap_posix_memalign(void **memory, size_t align, size_t size)
{
	int ret = fails(WRAP_posix_memalign) ? ENOMEM : __real_posix_memalign(memory, align, size);

	live += ret == 0;
	return ret;
}

char *__wrap_strdup(const char *text)
{
	return refused(WRAP_strdup, ENOMEM) ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
	live -= memory != NULL;
	__real_free(memory);
}

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
