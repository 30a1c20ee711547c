/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Proof that the registration cache never gives a stale registration.
 *
 * A cache of its own, whose registrations note what is behind each page, is joined to a monitor.  Memory is
 * freed and its addresses are used again in every way there is, while threads hit the cache.  Whoever hits
 * has the range to himself or shares it with readers alone, by means of the program's own, as a correct
 * program has; then what the registration noted must be what is behind the addresses now.
 *
 * What is behind a page is told in one of two ways:
 *   pin  the registration pins its pages, as a NIC does (a buffer registered with io_uring), and notes their
 *        numbers out of /proc/self/pagemap.  A pinned page neither moves nor becomes another's, so equal
 *        numbers mean the same page.  Needs the right to read them (root).
 *   tag  who makes memory writes a number of its own into each page, and registrations note that.  Not for
 *        memory whose pages others write into as well (an allocator).
 *
 *   stress_fresh.c      the program: threads, options, report
 *   fresh_truth.c       registrations, what they note, and the comparison
 *   fresh_history.c     what happened to a range, for the report of a failure
 *   fresh_watch.c       what ends a program that hangs
 *   fresh_fork.c        children in mid-flight
 *   fresh_calls.c       the calls that change memory
 *   fresh_ways_map.c    ways in which mappings change
 *   fresh_ways_heap.c   ways in which the C library changes them
 */
#ifndef HM_STRESS_FRESH_H
#define HM_STRESS_FRESH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/mr/cache.h"
#include "tests/stress/stress.h"

#define FRESH_PAGE ((size_t)4096)

/* ---- history ---- */

/* Any thread, any time, hooks included: no lock, no allocation.  what is constant. */
void fresh_note(const char *what, uintptr_t begin, uintptr_t end, uint64_t detail);
/* What is remembered of the range, oldest first. */
/* What the calling thread writes to, for a fault in it. */
extern _Thread_local uintptr_t fresh_claiming[2];
void fresh_print_history(uintptr_t begin, uintptr_t end);

/* ---- truth ---- */

enum fresh_truth {
	FRESH_PIN,
	FRESH_TAG
};

extern struct hm_cache fresh_cache;
extern bool fresh_expect_stale; /* count what is stale, rather than to die of it */
extern _Atomic bool fresh_drop; /* invalidations are dropped: what the tests are to notice */

/* What was done and found in one way. */
struct fresh_figures {
	_Atomic uint64_t changes, registrations, refused, hits, stale;
};
/* Of the way that the calling thread is at. */
extern _Thread_local struct fresh_figures *fresh_figures;

/* Called by a registration that has its pages, before it is done.  NULL: nothing. */
extern void (*fresh_registering)(void);
/* Called before a hit waits for what its monitor has to say. */
extern void (*fresh_waits)(void);
/* Nothing is waited for. */
extern _Atomic bool fresh_hasty;
/* The tag of a page; 0: it has none.  False: there is no memory. */
bool fresh_tag(uintptr_t page, uint64_t *tag);

/* False, and why: not on this machine. */
bool fresh_truth_start(enum fresh_truth truth, char *why, size_t size);
enum fresh_truth fresh_truth(void);
void fresh_cache_start(uint64_t max_count);
/* To the monitor that FI_MR_CACHE_MONITOR names, and no other that works.  False, and why. */
bool fresh_join(char *why, size_t size);
void fresh_cache_end(void);
/* The calling thread owns the range: every page is made present, and tagged where tags can be. */
void fresh_claim(uintptr_t begin, uintptr_t end);
/*
 * Get, compare, put.  The range cannot change meanwhile.  True: the registration had been kept.
 * compare false: it can, or tags do not stay; get and put alone.
 */
bool fresh_check(uintptr_t begin, uintptr_t end, bool compare);
/* Kill what is kept of the range, fresh_drop or not. */
void fresh_forget(uintptr_t begin, uintptr_t end);

/* ---- the calls, each with its lines of history; the toy monitor reports them ---- */

extern bool fresh_toy; /* no monitor but this: calls are reported by who makes them */
void fresh_use_toy(void);
extern _Atomic bool
	fresh_raw; /* past the C library, by system calls: for monitors that the kernel tells */

uintptr_t fresh_mmap(uintptr_t at, size_t len, int flags, int fd); /* 0: not to be had */
void fresh_munmap(uintptr_t begin, size_t len);
/* 0: EFAULT, where a monitor has split the mapping, and all is as it was, but that what was to be moved over may be gone. */
uintptr_t fresh_mremap(uintptr_t begin, size_t len, size_t now, int flags, uintptr_t to);
int fresh_madvise(uintptr_t begin, size_t len, int advice);
uintptr_t fresh_shmat(int id, uintptr_t at, size_t len);
void fresh_shmdt(uintptr_t begin, size_t len);
/* 0: no memory, or the end is another's now. */
uintptr_t fresh_sbrk(intptr_t by);

/* ---- ways ---- */

/* A range of addresses that passes between threads.  lock: changed by who writes, hit by who reads. */
struct fresh_place {
	pthread_rwlock_t lock;
	const struct fresh_way *way; /* NULL: there is nothing */
	uintptr_t begin;
	size_t len;
	int fd;
	void *thing; /* of the family */
};

/* Places made alike, which the same changes can be done to. */
struct fresh_family {
	/* False: all was done and undone in it, or it could not be had. */
	bool (*make)(struct fresh_place *place, uint64_t *random);
	void (*end)(struct fresh_place *place);
	bool hidden;	/* the C library's own calls change the memory: nothing for the toy */
	bool untagged;	/* others write into its pages */
	bool main_only; /* changed by the main thread alone */
};

struct fresh_way {
	const char *name; /* NULL: the last */
	const struct fresh_family *family;
	/* NULL: it is ended, and made again */
	void (*change)(struct fresh_place *place, uint64_t *random);
	bool pages_stay; /* while they are pinned; so only tags can tell */
};

extern const struct fresh_way fresh_map_ways[], fresh_heap_ways[];

/* ---- forks: fresh_fork.c ---- */

/* A child that allocates, and ends well. */
void fresh_fork(uint64_t *random);
/* Held while an object is loaded or unloaded, and over a fork. */
extern pthread_mutex_t fresh_loading;

/* ---- a thread that stands still for long ends the program, and where all threads are is shown ---- */

void fresh_watch_start(unsigned seconds);
/* Every thread that is to be shown. */
void fresh_watch_me(void);
/* There is progress. */
void fresh_watch_again(void);

#define FRESH_MAX_PAGES ((size_t)64)
/* Of 1 to FRESH_MAX_PAGES pages, most of them small. */
size_t fresh_size(uint64_t *random);
/* A part of a range, whole pages. */
void fresh_part(const struct fresh_place *place, uint64_t *random, uintptr_t *begin, size_t *len);

#endif
