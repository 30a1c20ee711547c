/* SPDX-License-Identifier: BSD-2-Clause */
/* Another library that stands before the C library's functions: preloaded, it counts the calls and passes them on. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "core/base/export.h"

extern unsigned long fresh_interposed(void);
HM_EXPORT int munmap(void *addr, size_t len);
HM_EXPORT int madvise(void *addr, size_t len, int advice);

static _Atomic unsigned long calls;
static int (*next_munmap)(void *, size_t);
static int (*next_madvise)(void *, size_t, int);

HM_EXPORT unsigned long fresh_interposed(void)
{
	return atomic_load(&calls);
}

__attribute__((constructor)) static void find_next(void)
{
	next_munmap = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
	next_madvise = (int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "madvise");
}

int munmap(void *addr, size_t len)
{
	if (!next_munmap)
		find_next();
	atomic_fetch_add(&calls, 1);
	return next_munmap(addr, len);
}

int madvise(void *addr, size_t len, int advice)
{
	if (!next_madvise)
		find_next();
	atomic_fetch_add(&calls, 1);
	return next_madvise(addr, len, advice);
}
