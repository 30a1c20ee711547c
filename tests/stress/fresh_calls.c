/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that change memory, and what drops the invalidations that come of them. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/mr/monitor.h"
#include "tests/stress/fresh.h"
#include "tests/unit/raw_call.h"

bool fresh_toy;
_Atomic bool fresh_raw, fresh_drop;

uint32_t __real_hm_cache_invalidate(struct hm_cache *cache, uint64_t begin, uint64_t end);
uint32_t __wrap_hm_cache_invalidate(struct hm_cache *cache, uint64_t begin, uint64_t end);

/* Every report of a monitor comes by here. */
uint32_t __wrap_hm_cache_invalidate(struct hm_cache *cache, uint64_t begin, uint64_t end)
{
	fresh_note(fresh_drop ? "invalidation dropped" : "invalidated", begin, end, 0);
	return fresh_drop ? 0 : __real_hm_cache_invalidate(cache, begin, end);
}

void fresh_forget(uintptr_t begin, uintptr_t end)
{
	__real_hm_cache_invalidate(&fresh_cache, begin, end);
}

/* ---- the toy: a monitor that is told by who makes the calls ---- */

static int start_toy(char *why, size_t size)
{
	(void)why;
	(void)size;
	return 0;
}

static void stop_toy(void)
{
}

static const struct hm_monitor toy_monitor = { .name = "toy",
					       .start = start_toy,
					       .stop = stop_toy };

void fresh_use_toy(void)
{
	fresh_toy = true;
	CHECK_OK(hm_monitor_import(&toy_monitor));
}

/* ---- the calls ---- */

/* As syscall(2), but that nobody can stand in between.  Negative error numbers. */
static long call_kernel(long number, long a, long b, long c, long d, long e)
{
	long result;

	if (HAVE_RAW_CALL)
		return raw_call(number, a, b, c, d, e, 0);
	result = syscall(number, a, b, c, d, e, 0L);
	return result == -1 ? -errno : result;
}

/* The same as functions of the C library do it. */
static long call(long number, long a, long b, long c, long d, long e)
{
	long result = call_kernel(number, a, b, c, d, e);

	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}

static unsigned before(const char *what, uintptr_t begin, size_t len)
{
	fresh_note(what, begin, begin + len, 0);
	return fresh_toy ? hm_monitor_begin(begin, begin + len) : 0;
}

static void after(const char *what, uintptr_t begin, size_t len, unsigned number)
{
	if (fresh_toy)
		hm_monitor_end(number);
	fresh_note(what, begin, begin + len, 0);
}

uintptr_t fresh_mmap(uintptr_t at, size_t len, int flags, int fd)
{
	bool over = flags & MAP_FIXED;
	unsigned number = over ? before("mmap over it ...", at, len) : 0;
	void *got = fresh_raw ? (void *)call(SYS_mmap, (long)at, (long)len, PROT_READ | PROT_WRITE,
					     flags, fd)
			      : mmap((void *)at, len, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (over)
		after("... mmap over it", at, len, number);
	if (got == MAP_FAILED)
		return 0;
	if (at != 0 && (uintptr_t)got != at) { /* a kernel that does not know MAP_FIXED_NOREPLACE */
		CHECK_OK(munmap(got, len));
		return 0;
	}
	if (!over)
		fresh_note("mmap", (uintptr_t)got, (uintptr_t)got + len, 0);
	return (uintptr_t)got;
}

void fresh_munmap(uintptr_t begin, size_t len)
{
	unsigned number = before("munmap ...", begin, len);

	CHECK_OK(fresh_raw ? call(SYS_munmap, (long)begin, (long)len, 0, 0, 0)
			   : munmap((void *)begin, len));
	after("... munmap", begin, len, number);
}

uintptr_t fresh_mremap(uintptr_t begin, size_t len, size_t now, int flags, uintptr_t to)
{
	bool fixed = flags & MREMAP_FIXED;
	unsigned number = before("mremap from ...", begin, len);
	unsigned second = fixed ? before("mremap to ...", to, now) : 0;
	void *got = fresh_raw ? (void *)call(SYS_mremap, (long)begin, (long)len, (long)now, flags,
					     (long)to)
			      : mremap((void *)begin, len, now, flags, to);

	int err = got == MAP_FAILED ? errno : 0;

	if (fixed)
		after("... mremap to", to, now, second);
	after("... mremap from", begin, len, number);
	CHECK(err == 0 || err == EFAULT);
	if (err != 0)
		return 0;
	fresh_note("mremap result", (uintptr_t)got, (uintptr_t)got + now, 0);
	return (uintptr_t)got;
}

int fresh_madvise(uintptr_t begin, size_t len, int advice)
{
	unsigned number = before("madvise ...", begin, len);
	int ret = fresh_raw ? (int)call(SYS_madvise, (long)begin, (long)len, advice, 0, 0)
			    : madvise((void *)begin, len, advice);

	after("... madvise", begin, len, number);
	return ret;
}

uintptr_t fresh_shmat(int id, uintptr_t at, size_t len)
{
	void *got = shmat(id, (void *)at, 0);

	if ((intptr_t)got == -1)
		return 0;
	fresh_note("shmat", (uintptr_t)got, (uintptr_t)got + len, 0);
	return (uintptr_t)got;
}

void fresh_shmdt(uintptr_t begin, size_t len)
{
	unsigned number = before("shmdt ...", begin, len);

	CHECK_OK(fresh_raw ? call(SYS_shmdt, (long)begin, 0, 0, 0, 0) : shmdt((void *)begin));
	after("... shmdt", begin, len, number);
}

uintptr_t fresh_sbrk(intptr_t by)
{
	uintptr_t end = (uintptr_t)sbrk(0);
	size_t less = by < 0 ? (size_t)-by : 0;
	unsigned number = less ? before("sbrk down ...", end - less, less) : 0;
	void *got = sbrk(by);

	if (less)
		after("... sbrk down", end - less, less, number);
	return got == (void *)-1 ? 0 : (uintptr_t)got;
}
