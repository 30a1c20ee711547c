/* SPDX-License-Identifier: BSD-2-Clause */
/* memhooks: functions that change mappings. */
#include "core/base/cancel.h"
#include "core/mr/monitor_hooks.h"
#include "core/mr/monitor_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define MADV_GUARD_INSTALLED 102 /* MADV_GUARD_INSTALL of newer headers */
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

#define PAGE UINT64_C(4096) /* no processor here has smaller ones */
#if defined(__x86_64__)
#define HUGE_LEAST (UINT64_C(2) << 20)
#else
#define HUGE_LEAST (UINT64_C(64) << 10)
#endif
#define HUGE_MOST (UINT64_C(16) << 30)

uint64_t hm_hook_range_end(uint64_t begin, uint64_t len)
{
	uint64_t end = len > UINT64_MAX - begin ? UINT64_MAX : begin + len;

	return end > UINT64_MAX - PAGE ? UINT64_MAX : (end + PAGE - 1) & ~(PAGE - 1);
}

static unsigned begin_range(const void *addr, size_t len)
{
	uint64_t begin = (uint64_t)(uintptr_t)addr;

	return len ? hm_hook_begin(begin & ~(PAGE - 1), hm_hook_range_end(begin, len))
		   : HM_HOOK_NOTHING;
}

/*
 * Mappings of huge pages begin at one, and the kernel takes whole ones whatever length it is given.  How large they
 * are is not known here, but no larger than what the address is a multiple of.
 */
static size_t whole_huge(const void *addr, size_t len)
{
	uint64_t at = (uint64_t)(uintptr_t)addr | HUGE_MOST, page = at & -at;

	if (page < HUGE_LEAST || len > SIZE_MAX - page)
		return len;
	return (len + page - 1) & ~(page - 1);
}

static size_t mapped_len(const void *addr, size_t len, int flags, int fd)
{
	size_t whole = whole_huge(addr, len);
	struct statfs file;
	int err = errno;
	bool huge = flags & MAP_HUGETLB;

	if (whole != len && !(flags & (MAP_HUGETLB | MAP_ANONYMOUS))) {
		huge = fstatfs(fd, &file) == 0 && file.f_type == HUGETLBFS_MAGIC;
		errno = err;
	}
	return huge ? whole : len;
}

/*
 * What is new at a place that the kernel chose.  Nothing is kept there, unless the memory before it went away
 * by a way that is not seen: that ends here, before anybody can use the new.
 */
static void report_new(const void *addr, size_t len)
{
	if (addr != MAP_FAILED)
		hm_hook_end(begin_range(addr, len));
}

/* ---- mmap, munmap ---- */

HM_HOOK_OF(mmap);
HM_HOOK_OF(mmap64);
HM_HOOK_OF(munmap);

static inline void *map(__typeof__(&mmap) before, void *addr, size_t len, int prot, int flags,
			int fd, off_t offset)
{
	unsigned number;
	void *at;

	if (!(flags & MAP_FIXED)) {
		at = before(addr, len, prot, flags, fd, offset);
		if (at != MAP_FAILED)
			report_new(at, mapped_len(at, len, flags, fd));
		return at;
	}
	number = begin_range(addr, mapped_len(addr, len, flags, fd));
	at = before(addr, len, prot, flags, fd, offset);
	hm_hook_end(number);
	return at;
}

static void *do_mmap(unsigned v, void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return map(HM_BEFORE(mmap, v), addr, len, prot, flags, fd, offset);
}
HM_HOOK(void *, mmap, (void *addr, size_t len, int prot, int flags, int fd, off_t offset), addr,
	len, prot, flags, fd, offset);

static void *do_mmap64(unsigned v, void *addr, size_t len, int prot, int flags, int fd,
		       off_t offset)
{
	return map((__typeof__(&mmap))HM_BEFORE(mmap64, v), addr, len, prot, flags, fd, offset);
}
HM_HOOK(void *, mmap64, (void *addr, size_t len, int prot, int flags, int fd, off_t offset), addr,
	len, prot, flags, fd, offset);

static int do_munmap(unsigned v, void *addr, size_t len)
{
	unsigned number = begin_range(addr, len);
	int ret = HM_BEFORE(munmap, v)(addr, len);

	hm_hook_end(number);
	return ret;
}
HM_HOOK(int, munmap, (void *addr, size_t len), addr, len);

/* ---- mremap ---- */

HM_HOOK_OF(mremap);

/* What is left of the old range keeps its pages, unless they may move.  They may be huge ones. */
static unsigned begin_old(const void *old, size_t old_len, size_t len, int flags)
{
	uint64_t begin = (uint64_t)(uintptr_t)old;
	uint64_t end = hm_hook_range_end(begin, old_len ? whole_huge(old, old_len) : 0);
	uint64_t kept = hm_hook_range_end(begin, len);
	/* by the length as given: where the pages are not huge ones, that is what the kernel goes by */
	bool grows = kept > hm_hook_range_end(begin, old_len);

	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) || (flags & MREMAP_MAYMOVE && grows))
		return hm_hook_begin(begin, end);
	return hm_hook_begin(kept, end); /* nothing, where it grows in its place */
}

/* What is new: all, or what it grew by. */
static void report_moved(const void *old, size_t old_len, const void *at, size_t len)
{
	if (at == MAP_FAILED)
		return;
	if (at != old)
		report_new(at, whole_huge(at, len));
	else if (len > old_len)
		report_new((const char *)at + old_len, len - old_len);
}

/*
 * The part of a mapping that userfaultfd follows is a mapping of its own for the kernel, which resizes no two
 * at once: -EFAULT.  Nothing of the range is kept or followed from now on, until the number is ended; so the
 * parts are one again.  Keeps errno.
 */
static unsigned begin_whole(const void *old, size_t old_len)
{
	uint64_t begin = (uint64_t)(uintptr_t)old, end = hm_hook_range_end(begin, old_len);
	int err = errno;
	unsigned number = hm_hook_begin(begin, end);

	if (number != HM_HOOK_NOTHING)
		hm_monitor_skip(begin, end);
	errno = err;
	return number;
}

static void *do_mremap(unsigned v, void *old, size_t old_len, size_t len, int flags, void *fixed)
{
	unsigned from = begin_old(old, old_len, len, flags), to = HM_HOOK_NOTHING;
	unsigned whole = HM_HOOK_NOTHING;
	void *at;

	if (flags & MREMAP_FIXED)
		to = begin_range(fixed, whole_huge(fixed, len));
	at = HM_BEFORE(mremap, v)(old, old_len, len, flags, fixed);
	if (at == MAP_FAILED && errno == EFAULT) {
		whole = begin_whole(old, old_len);
		if (whole != HM_HOOK_NOTHING)
			at = HM_BEFORE(mremap, v)(old, old_len, len, flags, fixed);
	}
	if (!(flags & MREMAP_FIXED))
		report_moved(old, old_len, at, len);
	hm_hook_end(whole);
	hm_hook_end(to);
	hm_hook_end(from);
	return at;
}
/* The real one takes a variable number; here it costs nothing to read an argument that is not there. */
HM_HOOK(void *, mremap, (void *old, size_t old_len, size_t len, int flags, void *fixed), old,
	old_len, len, flags, fixed);

/* ---- madvise ---- */

HM_HOOK_OF(madvise);
HM_HOOK_OF(process_madvise);

/*
 * Advice after which the addresses have other pages.  Pages that are registered are pinned, so that what
 * only pages out, merges or moves them does nothing to them (COLD, PAGEOUT, MERGEABLE, COLLAPSE).
 * posix_madvise never drops pages in glibc.
 */
static bool drops(int advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_FREE:
	case MADV_REMOVE:
	case MADV_HWPOISON:
	case MADV_DONTNEED_LOCKED:
	case MADV_GUARD_INSTALLED:
		return true;
	default:
		return false;
	}
}

static int do_madvise(unsigned v, void *addr, size_t len, int advice)
{
	unsigned number = drops(advice) ? begin_range(addr, len) : HM_HOOK_NOTHING;
	int ret = HM_BEFORE(madvise, v)(addr, len, advice);

	hm_hook_end(number);
	return ret;
}
HM_HOOK(int, madvise, (void *addr, size_t len, int advice), addr, len, advice);

/* All between the first and the last: whether it is this process is not worth finding out. */
static unsigned begin_vector(const struct iovec *iov, size_t count)
{
	uint64_t begin = UINT64_MAX, end = 0;

	/* what the kernel refuses may be anything */
	for (size_t i = 0; iov && count <= IOV_MAX && i < count; i++) {
		uint64_t from = (uint64_t)(uintptr_t)iov[i].iov_base;
		uint64_t to = hm_hook_range_end(from, iov[i].iov_len);

		begin = from < begin ? from : begin;
		end = to > end ? to : end;
	}
	return hm_hook_begin(begin, end);
}

static ssize_t do_process_madvise(unsigned v, int pidfd, const struct iovec *iov, size_t count,
				  int advice, unsigned flags)
{
	ssize_t (*before)(int, const struct iovec *, size_t, int, unsigned) =
		(ssize_t(*)(int, const struct iovec *, size_t, int, unsigned))atomic_load_explicit(
			&hook_process_madvise.before[v], memory_order_relaxed);
	unsigned number = drops(advice) ? begin_vector(iov, count) : HM_HOOK_NOTHING;
	ssize_t ret = before(pidfd, iov, count, advice, flags);

	hm_hook_end(number);
	return ret;
}
HM_HOOK(ssize_t, process_madvise,
	(int pidfd, const struct iovec *iov, size_t count, int advice, unsigned flags), pidfd, iov,
	count, advice, flags);

HM_HOOK_OF(remap_file_pages);

static int do_remap_file_pages(unsigned v, void *addr, size_t len, int prot, size_t pgoff,
			       int flags)
{
	unsigned number = begin_range(addr, len);
	int ret = HM_BEFORE(remap_file_pages, v)(addr, len, prot, pgoff, flags);

	hm_hook_end(number);
	return ret;
}
HM_HOOK(int, remap_file_pages, (void *addr, size_t len, int prot, size_t pgoff, int flags), addr,
	len, prot, pgoff, flags);

/* ---- the break ---- */

HM_HOOK_OF(brk);
HM_HOOK_OF(sbrk);

/* From the new break to the one now. */
static unsigned begin_break(uint64_t to)
{
	uint64_t now = (uint64_t)syscall(SYS_brk, 0);

	hm_hook_called();
	return to < now ? hm_hook_begin(to & ~(PAGE - 1), hm_hook_range_end(now, 0))
			: HM_HOOK_NOTHING;
}

static int do_brk(unsigned v, void *addr)
{
	unsigned number = begin_break((uint64_t)(uintptr_t)addr);
	int ret = HM_BEFORE(brk, v)(addr);

	hm_hook_end(number);
	return ret;
}
HM_HOOK(int, brk, (void *addr), addr);

static void *do_sbrk(unsigned v, intptr_t by)
{
	unsigned number = HM_HOOK_NOTHING;
	void *at;

	if (by < 0)
		number = begin_break((uint64_t)syscall(SYS_brk, 0) + (uint64_t)by);
	else
		hm_hook_called();
	at = HM_BEFORE(sbrk, v)(by);
	if (by > 0)
		report_new(at, (size_t)by);
	hm_hook_end(number);
	return at;
}
HM_HOOK(void *, sbrk, (intptr_t by), by);

/* ---- System V shared memory ---- */

HM_HOOK_OF(shmat);
HM_HOOK_OF(shmdt);

static uint64_t segment_bytes(int id)
{
	struct shmid_ds segment;
	int err = errno;
	bool known = shmctl(id, IPC_STAT, &segment) == 0;

	errno = err;
	return known ? segment.shm_segsz : 0;
}

static void *do_shmat(unsigned v, int id, const void *addr, int flags)
{
	uint64_t at = (uint64_t)(uintptr_t)addr, bytes = 0;
	unsigned number = HM_HOOK_NOTHING;
	void *got;

	if (flags & SHM_RND)
		at &= ~((uint64_t)SHMLBA - 1);
	if (atomic_load_explicit(&hm_hooks_on, memory_order_relaxed))
		bytes = segment_bytes(id);
	if (flags & SHM_REMAP)
		number = begin_range((void *)at, whole_huge((void *)at, bytes));
	got = HM_BEFORE(shmat, v)(id, addr, flags);
	if (!(flags & SHM_REMAP))
		report_new(got, bytes);
	hm_hook_end(number);
	return got;
}
HM_HOOK(void *, shmat, (int id, const void *addr, int flags), id, addr, flags);

/* Lines of /proc/self/maps, read into what a stack has room for. */
struct lines {
	int fd;
	size_t at, have;
	char text[1024];
};

/* The next line; false: there is none. */
static bool next_line(struct lines *l, char *line, size_t size)
{
	size_t n = 0;

	for (;;) {
		if (l->at == l->have) {
			ssize_t got = read(l->fd, l->text, sizeof(l->text));

			if (got <= 0)
				return false;
			l->have = (size_t)got;
			l->at = 0;
		}
		if (l->text[l->at] == '\n')
			break;
		if (n + 1 < size)
			line[n++] = l->text[l->at];
		l->at++;
	}
	l->at++;
	line[n] = '\0';
	return true;
}

static uint64_t hex(const char **at)
{
	uint64_t value = 0;

	for (; (**at >= '0' && **at <= '9') || (**at >= 'a' && **at <= 'f'); (*at)++)
		value = value * 16 + (uint64_t)(**at <= '9' ? **at - '0' : **at - 'a' + 10);
	return value;
}

/* "from-to perms offset device inode name": of the same object as the one at `begin`, as it was attached? */
static void extend(const char *line, uint64_t begin, char *object, size_t size, uint64_t *end)
{
	uint64_t from = hex(&line), to, offset;

	line++;
	to = hex(&line);
	line += strlen(" rw-s ");
	offset = hex(&line);
	if (from == begin) {
		strncpy(object, line, size - 1);
		*end = to;
	} else if (*end && offset == from - begin && strncmp(object, line, size - 1) == 0) {
		*end = to;
	}
}

/* Where the segment ends that is attached at an address: all memory, if that cannot be found out. */
static uint64_t attached_end(uint64_t begin)
{
	int cancel = hm_cancel_off();
	struct lines lines = { .fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC) };
	char line[160], object[64] = "";
	uint64_t end = 0;

	while (lines.fd >= 0 && next_line(&lines, line, sizeof(line)))
		extend(line, begin, object, sizeof(object), &end);
	if (lines.fd >= 0)
		close(lines.fd);
	hm_cancel_restore(cancel);
	return end ? end : UINT64_MAX;
}

static int do_shmdt(unsigned v, const void *addr)
{
	uint64_t begin = (uint64_t)(uintptr_t)addr;
	unsigned number = HM_HOOK_NOTHING;
	int err = errno, ret;

	if (atomic_load_explicit(&hm_hooks_on, memory_order_relaxed)) {
		number = hm_hook_begin(begin, attached_end(begin));
		errno = err;
	}
	ret = HM_BEFORE(shmdt, v)(addr);
	hm_hook_end(number);
	return ret;
}
HM_HOOK(int, shmdt, (const void *addr), addr);

/* ---- by number ---- */

HM_HOOK_OF(syscall);

/* What such a call changes, before it; two where it is mremap. */
static void begin_numbered(long n, const long a[6], unsigned number[2])
{
	switch (n) {
	case SYS_munmap:
	case SYS_remap_file_pages:
		number[0] = begin_range((void *)a[0], (size_t)a[1]);
		break;
	case SYS_mmap:
		if (a[3] & MAP_FIXED)
			number[0] = begin_range((void *)a[0], mapped_len((void *)a[0], (size_t)a[1],
									 (int)a[3], (int)a[4]));
		break;
	case SYS_mremap:
		number[0] = begin_old((void *)a[0], (size_t)a[1], (size_t)a[2], (int)a[3]);
		if (a[3] & MREMAP_FIXED)
			number[1] =
				begin_range((void *)a[4], whole_huge((void *)a[4], (size_t)a[2]));
		break;
	case SYS_madvise:
		if (drops((int)a[2]))
			number[0] = begin_range((void *)a[0], (size_t)a[1]);
		break;
	case SYS_process_madvise:
		if (drops((int)a[3]))
			number[0] = begin_vector((void *)a[1], (size_t)a[2]);
		break;
	case SYS_brk:
		if (a[0] != 0)
			number[0] = begin_break((uint64_t)a[0]);
		break;
	case SYS_shmdt:
		number[0] = hm_hook_begin((uint64_t)a[0], attached_end((uint64_t)a[0]));
		break;
	case SYS_shmat:
		if (a[2] & SHM_REMAP)
			number[0] = begin_range((void *)a[1],
						whole_huge((void *)a[1], segment_bytes((int)a[0])));
		break;
	default:
		break;
	}
}

static bool changes_memory(long n)
{
	return n == SYS_munmap || n == SYS_mmap || n == SYS_mremap || n == SYS_madvise ||
	       n == SYS_brk || n == SYS_shmat || n == SYS_shmdt || n == SYS_remap_file_pages ||
	       n == SYS_process_madvise;
}

static long do_syscall(unsigned v, long n, long a0, long a1, long a2, long a3, long a4, long a5)
{
	unsigned number[2] = { HM_HOOK_NOTHING, HM_HOOK_NOTHING }, whole = HM_HOOK_NOTHING;
	const long a[6] = { a0, a1, a2, a3, a4, a5 };
	int err = errno;
	long ret;

	if (!changes_memory(n) || !atomic_load_explicit(&hm_hooks_on, memory_order_relaxed))
		return HM_BEFORE(syscall, v)(n, a0, a1, a2, a3, a4, a5);
	begin_numbered(n, a, number);
	errno = err;
	ret = HM_BEFORE(syscall, v)(n, a0, a1, a2, a3, a4, a5);
	if (n == SYS_mremap && ret == -1 && errno == EFAULT) {
		whole = begin_whole((void *)a0, (size_t)a1);
		if (whole != HM_HOOK_NOTHING)
			ret = HM_BEFORE(syscall, v)(n, a0, a1, a2, a3, a4, a5);
	}
	if (n == SYS_mmap && !(a3 & MAP_FIXED) && ret != -1)
		report_new((void *)ret, mapped_len((void *)ret, (size_t)a1, (int)a3, (int)a4));
	if (n == SYS_mremap && !(a3 & MREMAP_FIXED))
		report_moved((void *)a0, (size_t)a1, (void *)ret, (size_t)a2);
	hm_hook_end(whole);
	hm_hook_end(number[1]);
	hm_hook_end(number[0]);
	return ret;
}
HM_HOOK(long, syscall, (long n, long a0, long a1, long a2, long a3, long a4, long a5), n, a0, a1,
	a2, a3, a4, a5);

struct hm_hook *const hm_hooks_map[] = {
	&hook_mmap,
	&hook_mmap64,
	&hook_munmap,
	&hook_mremap,
	&hook_madvise,
	&hook_brk,
	&hook_sbrk,
	&hook_shmat,
	&hook_shmdt,
	&hook_remap_file_pages,
	&hook_process_madvise,
	&hook_syscall,
	NULL,
};
