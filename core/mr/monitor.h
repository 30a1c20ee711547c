/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tells the registration caches that host memory changes.  One monitor serves the process; it is
 * chosen when the first cache joins, and stopped when the last one has left.
 *
 *   monitor.c              the caches, what monitors report to, the thread that reaps
 *   monitor_choose.c       which monitor
 *   monitor_hooks*.c       memhooks: functions of the C library that change mappings, interposed
 *   monitor_uffd.c         userfaultfd
 *   monitor_kdreg2.c       kdreg2
 *   monitor_import.c       an application's own, by fi_open("mr_cache")
 *   monitor_reader.c       the thread of those that read what the kernel tells
 *   monitor_ranges.c       ranges that are watched, counted
 *   changes.c              what is changing now
 *
 * Lock order: a monitor's lock, then none of a cache's: what monitors call here takes no lock and allocates
 * nothing, so that it may run inside an allocator and inside a hook.  Caches call watch and unwatch with no
 * lock held; start and stop are called with none held either.
 *
 * What a use of a cache looks like:
 *
 *   hm_monitor_settle()                       what is being reported is dealt with first
 *   hm_cache_get                              which calls hm_monitor_watch before it registers
 *   hm_monitor_hit_ok(begin, end, mark)       of the registration: the monitor that is asked agrees
 */
#ifndef HM_MONITOR_H
#define HM_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/mr/cache.h"

struct hm_monitor {
	const char *name; /* as FI_MR_CACHE_MONITOR has it */
	/*
	 * Follow the memory of the process.  -FI_ENOSYS and others: it cannot here, and why has a line for
	 * people.  Nothing is left of a start that failed.
	 */
	int (*start)(char *why, size_t size);
	void (*stop)(void);
	/*
	 * Optional (nothing to do).  Called before memory of these whole pages is registered for a cache:
	 * changes from now on are reported.  *mark (0 before) is the monitor's, for unwatch and valid.  A
	 * failure: this memory cannot be followed (a mapping of a file, say), and its registration is not
	 * kept; logged once a process by the monitor.  -FI_ENOSPC: so much is followed that it could be once
	 * something else is not any more.
	 */
	int (*watch)(uint64_t begin, uint64_t end, uint64_t *mark);
	/* Optional (nothing to do).  The registration that a watch was for is gone; once for each watch. */
	void (*unwatch)(uint64_t begin, uint64_t end, uint64_t mark);
	/*
	 * Optional (yes); asked while HM_MONITOR_MARKS is up: is the memory the one that was watched?
	 */
	bool (*valid)(uint64_t begin, uint64_t end, uint64_t mark);
	/* Optional.  Asked before a cache is, while HM_MONITOR_ASK is up: read all reports there are. */
	void (*settle)(void);
	/*
	 * Optional.  Somebody else reports that this range changes, so that the monitor need not.  Runs in
	 * hooks, inside allocators.
	 */
	void (*release)(uint64_t begin, uint64_t end);
	/*
	 * Optional (nothing to do, it goes on).  In the child of a fork, which it cannot follow: give back
	 * what the child has of it, without a lock.  stop is called later.
	 */
	void (*forked)(void);
};

extern const struct hm_monitor hm_monitor_hooks, hm_monitor_uffd, hm_monitor_kdreg2;

/* ---- for monitors ---- */

/*
 * [begin, end) is about to change: what is kept of it ends now, and what is registered of it meanwhile is
 * not kept.  To be ended by hm_monitor_end with the number it returns.
 */
unsigned hm_monitor_begin(uint64_t begin, uint64_t end);
void hm_monitor_end(unsigned number);
/* The same by a monitor that is told by the kernel; its own release is not called. */
unsigned hm_monitor_report(uint64_t begin, uint64_t end);
/* It has changed: reported and ended. */
void hm_monitor_changed(uint64_t begin, uint64_t end);
/*
 * For monitors that learn of a change after it: busy is called before a report is fetched, done after it was
 * dealt with; hits wait meanwhile.
 */
void hm_monitor_busy(void);
void hm_monitor_done(void);
/* Bits of hm_monitor_attention that a monitor raises in start and lowers in stop. */
void hm_monitor_raise(uint32_t bits);
void hm_monitor_lower(uint32_t bits);
/* The monitor does not work any more, why is constant: nothing is kept from now on.  One log line. */
void hm_monitor_failed(const char *why);

/* ---- for owners of caches ---- */

/*
 * Reports go to this cache as well.  -FI_ENOSYS: no monitor works, or FI_MR_CACHE_MONITOR=disabled, or
 * the one in use has failed: nothing may be kept of host memory.  One log line for the process says which
 * monitor is used, or why none.  -FI_ENOSPC: too many caches.  -FI_EBUSY: hm_monitor_inside, or another thread
 * is at it and does not come to an end; another time it may.
 */
int hm_monitor_join(struct hm_cache *cache);
/* No report goes to the cache any more, nor is one under way. */
void hm_monitor_leave(struct hm_cache *cache);
/* In add: before memory is registered.  A failure: it may be registered, but not kept. */
int hm_monitor_watch(uint64_t begin, uint64_t end, uint64_t *mark);
/* In remove: after it is no more; for each watch that did not fail, before the cache leaves. */
void hm_monitor_unwatch(uint64_t begin, uint64_t end, uint64_t mark);

/*
 * 0: hits have nothing to ask.  HM_MONITOR_REPORTS: how many reports are under way.  HM_MONITOR_ASK: the
 * monitor wants to be asked before.  HM_MONITOR_MARKS: and afterwards, about what was found.
 */
extern _Atomic uint32_t hm_monitor_attention;
#define HM_MONITOR_MARKS   (UINT32_C(1) << 31)
#define HM_MONITOR_ASK	   (UINT32_C(1) << 30)
#define HM_MONITOR_REPORTS (HM_MONITOR_ASK - 1)

void hm_monitor_settle_slow(void);
bool hm_monitor_valid(uint64_t begin, uint64_t end, uint64_t mark);

/* Before a cache is asked: a change that its caller can know of has ended what was kept when this returns. */
static inline void hm_monitor_settle(void)
{
	uint32_t attention = atomic_load_explicit(&hm_monitor_attention, memory_order_acquire);

	if (__builtin_expect((attention & ~HM_MONITOR_MARKS) != 0, 0))
		hm_monitor_settle_slow();
}

/*
 * After a cache gave what was registered of a range under this mark.  False: its memory has changed, and what is
 * kept of the range has ended; or hm_monitor_inside: let go, and register for this use alone, or ask the
 * cache again.
 */
static inline bool hm_monitor_hit_ok(uint64_t begin, uint64_t end, uint64_t mark)
{
	uint32_t attention = atomic_load_explicit(&hm_monitor_attention, memory_order_relaxed);

	return __builtin_expect(!(attention & HM_MONITOR_MARKS), 1) ||
	       hm_monitor_valid(begin, end, mark);
}

/*
 * Is this thread inside a function of an application's monitor?  Then nothing is kept, and no domain is
 * closed: the thread may be the one that registers, or reaps, what it would wait for.
 */
bool hm_monitor_inside(void);

/* The monitor in use; NULL: none.  Changes to NULL when it fails. */
const struct hm_monitor *hm_monitor_used(void);
/* Its name, or "none" and the reason, for people; returns text. */
char *hm_monitor_text(char *text, size_t size);
/*
 * The monitor in use, and why those before it are not; while none is, the one that a trial shows would be.
 * False: none, and why.  No trial where hm_monitor_join would be busy.
 */
bool hm_monitor_tell(char *name, size_t name_size, char *why, size_t why_size);

/*
 * Use the application's instead (monitor_import.c).  -FI_EBUSY: a cache has joined already, or another is
 * imported.  NULL: no more; -FI_EBUSY: a cache has joined.
 */
int hm_monitor_import(const struct hm_monitor *monitor);

#endif
