/* SPDX-License-Identifier: BSD-2-Clause */
#include "hooks_calls.h"

#include <dlfcn.h>

static void *call_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	return mmap(at, len, prot, flags, fd, offset);
}

static int call_munmap(void *at, size_t len)
{
	return munmap(at, len);
}

static void *call_mremap(void *old, size_t old_len, size_t len, int flags, void *to)
{
	return mremap(old, old_len, len, flags, to);
}

static int call_madvise(void *at, size_t len, int advice)
{
	return madvise(at, len, advice);
}

static int call_posix_madvise(void *at, size_t len, int advice)
{
	return posix_madvise(at, len, advice);
}

static int call_remap_file_pages(void *at, size_t len, int prot, size_t page, int flags)
{
	return remap_file_pages(at, len, prot, page, flags);
}

static int call_brk(void *to)
{
	return brk(to);
}

static void *call_sbrk(intptr_t by)
{
	return sbrk(by);
}

static void *call_shmat(int id, const void *at, int flags)
{
	return shmat(id, at, flags);
}

static int call_shmdt(const void *at)
{
	return shmdt(at);
}

static long call_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	return syscall(n, a, b, c, d, e, f);
}

static void *call_malloc(size_t size)
{
	return malloc(size);
}

static void call_free(void *block)
{
	free(block);
}

static void *call_realloc(void *block, size_t size)
{
	return realloc(block, size);
}

static void *call_reallocarray(void *block, size_t count, size_t size)
{
	return reallocarray(block, count, size);
}

static int call_malloc_trim(size_t pad)
{
	return malloc_trim(pad);
}

static int call_mallopt(int param, int value)
{
	return mallopt(param, value);
}

static int call_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			       void *(*routine)(void *), void *arg)
{
	return pthread_create(thread, attr, routine, arg);
}

static int call_thrd_create(thrd_t *thread, thrd_start_t routine, void *arg)
{
	return thrd_create(thread, routine, arg);
}

static void *call_dlopen(const char *file, int mode)
{
	return dlopen(file, mode);
}

static int call_dlclose(void *so)
{
	return dlclose(so);
}

__attribute__((visibility("default"))) const struct hooks_calls hooks_calls = {
	.mmap = call_mmap,
	.munmap = call_munmap,
	.mremap = call_mremap,
	.madvise = call_madvise,
	.posix_madvise = call_posix_madvise,
	.remap_file_pages = call_remap_file_pages,
	.brk = call_brk,
	.sbrk = call_sbrk,
	.shmat = call_shmat,
	.shmdt = call_shmdt,
	.syscall = call_syscall,
	.malloc = call_malloc,
	.free = call_free,
	.realloc = call_realloc,
	.reallocarray = call_reallocarray,
	.malloc_trim = call_malloc_trim,
	.mallopt = call_mallopt,
	.pthread_create = call_pthread_create,
	.thrd_create = call_thrd_create,
	.dlopen = call_dlopen,
	.dlclose = call_dlclose,
};
