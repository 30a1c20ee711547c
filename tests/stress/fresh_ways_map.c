/* SPDX-License-Identifier: BSD-2-Clause */
/* Mappings that a program changes itself. */
#include <errno.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/stress/fresh.h"

#define ANON	  (MAP_PRIVATE | MAP_ANONYMOUS)
#define HUGE_PAGE ((size_t)2 << 20)

size_t fresh_size(uint64_t *random)
{
	uint64_t r = stress_random(random);
	size_t most = r % 4 == 0 ? FRESH_MAX_PAGES : r % 4 == 1 ? 16 : 4;

	return (r / 4 % most + 1) * FRESH_PAGE;
}

void fresh_part(const struct fresh_place *place, uint64_t *random, uintptr_t *begin, size_t *len)
{
	size_t pages = place->len / FRESH_PAGE, first = stress_random(random) % pages;

	*begin = place->begin + first * FRESH_PAGE;
	*len = (stress_random(random) % (pages - first) + 1) * FRESH_PAGE;
}

/* ---- private memory ---- */

static bool make_anon(struct fresh_place *place, uint64_t *random)
{
	place->len = fresh_size(random);
	place->begin = fresh_mmap(0, place->len, ANON, -1);
	return place->begin != 0;
}

static void end_map(struct fresh_place *place)
{
	fresh_munmap(place->begin, place->len);
}

static void map_again(struct fresh_place *place, int flags, int fd)
{
	uintptr_t got = fresh_mmap(place->begin, place->len, flags | MAP_FIXED_NOREPLACE, fd);

	if (got == 0) /* another thread has it now */
		got = fresh_mmap(0, place->len, flags, fd);
	CHECK(got != 0);
	place->begin = got;
}

static void unmap_map(struct fresh_place *place, uint64_t *random)
{
	(void)random;
	fresh_munmap(place->begin, place->len);
	map_again(place, ANON, -1);
}

/* mremap(2) takes one mapping: what is left of several ones, changed in parts, is made anew. */
static void make_whole(struct fresh_place *place, uint64_t *random)
{
	unmap_map(place, random);
	fresh_claim(place->begin, place->begin + place->len);
	fresh_check(place->begin, place->begin + place->len, true);
}

/* A part goes, and comes back; or another thread was quicker, and what is in front of it is all that stays. */
static void unmap_part(struct fresh_place *place, uint64_t *random)
{
	uintptr_t begin;
	size_t len, front;

	fresh_part(place, random, &begin, &len);
	fresh_munmap(begin, len);
	if (fresh_mmap(begin, len, ANON | MAP_FIXED_NOREPLACE, -1) != 0)
		return;
	front = begin - place->begin;
	if (begin + len < place->begin + place->len)
		fresh_munmap(begin + len, place->begin + place->len - begin - len);
	place->len = front;
	if (front == 0)
		CHECK(make_anon(place, random));
}

static void map_over(struct fresh_place *place, uint64_t *random)
{
	uintptr_t begin;
	size_t len;

	fresh_part(place, random, &begin, &len);
	CHECK(fresh_mmap(begin, len, ANON | MAP_FIXED, -1) != 0);
}

/* Made larger, wherever there is room, and small again at its new address. */
static void remap_larger(struct fresh_place *place, uint64_t *random)
{
	size_t larger = place->len + fresh_size(random);
	uintptr_t to;

	make_whole(place, random);
	to = fresh_mremap(place->begin, place->len, larger, MREMAP_MAYMOVE, 0);
	if (to == 0)
		return;
	place->begin = to;
	CHECK(fresh_mremap(place->begin, larger, place->len, 0, 0) == place->begin);
}

/* What a registration knows of the end is gone when it comes back. */
static void remap_smaller(struct fresh_place *place, uint64_t *random)
{
	size_t smaller;
	uintptr_t to;

	if (place->len == FRESH_PAGE)
		return;
	make_whole(place, random);
	smaller = (stress_random(random) % (place->len / FRESH_PAGE - 1) + 1) * FRESH_PAGE;
	CHECK(fresh_mremap(place->begin, place->len, smaller, 0, 0) == place->begin);
	to = fresh_mremap(place->begin, smaller, place->len, MREMAP_MAYMOVE, 0);
	if (to == 0)
		place->len = smaller;
	else
		place->begin = to;
}

/* Moved over other memory, of which there is a registration. */
static void remap_fixed(struct fresh_place *place, uint64_t *random)
{
	uintptr_t to = fresh_mmap(0, place->len, ANON, -1);

	make_whole(place, random);
	CHECK(to != 0);
	fresh_claim(to, to + place->len);
	fresh_check(to, to + place->len, true);
	/*
	 * If it could not be, it is not told where it is: kernels from 6.17 on move one mapping after the other, and
	 * may stop between two of them.  What is left stays, and is nobody's.
	 */
	if (fresh_mremap(place->begin, place->len, place->len, MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
	    0)
		place->begin = to;
	else
		CHECK(make_anon(place, random));
}

/* The pages move away, and the addresses stay. */
static void remap_leaving(struct fresh_place *place, uint64_t *random)
{
#ifdef MREMAP_DONTUNMAP
	uintptr_t to;

	make_whole(place, random);
	to = fresh_mremap(place->begin, place->len, place->len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
			  0);
	CHECK(to != place->begin);
	if (to != 0)
		fresh_munmap(to, place->len);
#else
	unmap_map(place, random);
#endif
}

static void dontneed(struct fresh_place *place, uint64_t *random)
{
	uintptr_t begin;
	size_t len;

	fresh_part(place, random, &begin, &len);
	CHECK_OK(fresh_madvise(begin, len, MADV_DONTNEED));
}

/* The kernel takes such pages when it wants memory: here it is made to, behind the monitor's back. */
static void free_pages(struct fresh_place *place, uint64_t *random)
{
	uintptr_t begin;
	size_t len;

	fresh_part(place, random, &begin, &len);
	CHECK_OK(fresh_madvise(begin, len, MADV_FREE));
#ifdef MADV_PAGEOUT
	syscall(SYS_madvise, begin, len, MADV_PAGEOUT);
#endif
}

/* ---- shared memory: of a file in memory, and System V's ---- */

static int memory_file(size_t len)
{
	int fd = memfd_create("fresh", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_OK(ftruncate(fd, (off_t)len));
	return fd;
}

static bool make_shared(struct fresh_place *place, uint64_t *random)
{
	place->len = fresh_size(random);
	place->fd = memory_file(place->len);
	place->begin = fresh_mmap(0, place->len, MAP_SHARED, place->fd);
	return place->begin != 0;
}

static void end_shared(struct fresh_place *place)
{
	fresh_munmap(place->begin, place->len);
	close(place->fd);
}

static void remove_pages(struct fresh_place *place, uint64_t *random)
{
	uintptr_t begin;
	size_t len;

	fresh_part(place, random, &begin, &len);
	CHECK_OK(fresh_madvise(begin, len, MADV_REMOVE));
}

static void unmap_shared(struct fresh_place *place, uint64_t *random)
{
	(void)random;
	end_shared(place);
	place->fd = memory_file(place->len);
	map_again(place, MAP_SHARED, place->fd);
}

static uintptr_t attach(uintptr_t at, size_t len)
{
	int id = shmget(IPC_PRIVATE, len, IPC_CREAT | 0600);
	uintptr_t got;

	if (id < 0)
		return 0;
	got = fresh_shmat(id, at, len);
	if (got == 0 && at != 0)
		got = fresh_shmat(id, 0, len);
	shmctl(id, IPC_RMID, NULL);
	return got;
}

static bool make_sysv(struct fresh_place *place, uint64_t *random)
{
	place->len = fresh_size(random);
	place->begin = attach(0, place->len);
	return place->begin != 0;
}

static void end_sysv(struct fresh_place *place)
{
	fresh_shmdt(place->begin, place->len);
}

static void attach_again(struct fresh_place *place, uint64_t *random)
{
	(void)random;
	fresh_shmdt(place->begin, place->len);
	place->begin = attach(place->begin, place->len);
	CHECK(place->begin != 0);
}

/* ---- huge pages ---- */

static bool make_huge(struct fresh_place *place, uint64_t *random)
{
	(void)random;
	place->len = HUGE_PAGE;
	place->begin = fresh_mmap(0, place->len, ANON | MAP_HUGETLB, -1);
	return place->begin != 0;
}

static void map_huge_again(struct fresh_place *place, uint64_t *random)
{
	uintptr_t got;

	(void)random;
	fresh_munmap(place->begin, place->len);
	got = fresh_mmap(place->begin, place->len, ANON | MAP_HUGETLB | MAP_FIXED_NOREPLACE, -1);
	if (got != 0)
		place->begin = got;
	else /* the page is still pinned, and was the last */
		map_again(place, ANON, -1);
}

/* ---- the table ---- */

static const struct fresh_family anon = { .make = make_anon, .end = end_map };
static const struct fresh_family shared = { .make = make_shared, .end = end_shared };
static const struct fresh_family sysv = { .make = make_sysv, .end = end_sysv };
static const struct fresh_family huge = { .make = make_huge, .end = end_map };

const struct fresh_way fresh_map_ways[] = {
	{ "munmap_mmap", &anon, NULL, false },
	{ "munmap_mmap_fixed", &anon, unmap_map, false },
	{ "munmap_part", &anon, unmap_part, false },
	{ "mmap_over", &anon, map_over, false },
	{ "mremap_larger", &anon, remap_larger, false },
	{ "mremap_smaller", &anon, remap_smaller, false },
	{ "mremap_fixed", &anon, remap_fixed, false },
	{ "mremap_dontunmap", &anon, remap_leaving, false },
	{ "madvise_dontneed", &anon, dontneed, false },
	{ "madvise_free", &anon, free_pages, true },
	{ "madvise_remove", &shared, remove_pages, false },
	{ "munmap_shared", &shared, unmap_shared, false },
	{ "shmdt", &sysv, attach_again, false },
	{ "munmap_huge", &huge, map_huge_again, false },
	{ NULL, NULL, NULL, false },
};
