/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the parts of the monitor memhooks, which interposes functions of the C library: whatever
 * loaded objects call them by, their relocated words (GOT), is pointed at ours.  No code is changed.
 *
 *   monitor_hooks.c         start and stop
 *   monitor_hooks_try.c     what is tried before it is relied on
 *   monitor_hooks_names.c   what the names mean in this program
 *   monitor_hooks_elf.c     the words: which there are, changing them, putting them back
 *   monitor_hooks_map.c     mmap, munmap, mremap, madvise, brk, shmat and their like
 *   monitor_hooks_alloc.c   free and its like: what the C library gives back without calling through words
 *   monitor_hooks_thread.c  threads, whose stacks end inside the C library
 *   monitor_hooks_load.c    dlopen, dlclose
 *
 * A hook reports the range, calls what the word held before, ends the report, and leaves errno as the call
 * did.  It takes no lock and allocates nothing.  Hooks stay callable for ever, since a thread may be inside
 * one, and a program may have copied a word: after stop they only call on, and the object that holds them is
 * pinned.
 *
 * Words that held different functions (an allocator's own munmap in one object, the C library's in another)
 * get different variants of the hook, so that each calls what was there before.
 *
 * mprotect is not hooked: pages that are registered stay what they are when their rights change.
 */
#ifndef HM_MONITOR_HOOKS_H
#define HM_MONITOR_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/mr/monitor.h"

#define HM_HOOK_VARIANTS 4

/*
 * Instrumented for the thread sanitizer, hooks cannot run before its runtime has set a thread up and after it is
 * done with it.  So the C library's own words, which it calls by there, are left alone: a block that the C
 * library itself frees for the program (getline, say) is not reported in such a build.
 */
#if defined(__SANITIZE_THREAD__)
#define HM_HOOKS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HM_HOOKS_TSAN 1
#endif
#endif
#ifndef HM_HOOKS_TSAN
#define HM_HOOKS_TSAN 0
#endif

/* What a hook of a function that frees does about a block. */
enum hm_hook_blocks {
	HM_BLOCKS_OTHER, /* the allocator gives memory back by functions that are hooked */
	HM_BLOCKS_GLIBC, /* glibc's: what is before the block tells */
	HM_BLOCKS_EVERY, /* nothing is known of it: each block is reported */
};

struct hm_hook {
	const char *name;
	void *ours[HM_HOOK_VARIANTS];
	_Atomic(void *) before[HM_HOOK_VARIANTS]; /* what a variant calls; set once */
	/* set by hm_hooks_resolve */
	void *usual; /* the function that the name means in the program: what lazy words would become */
	void *canonical; /* its address as the program compares it; of code in a fixed-address program perhaps */
	void *libc;	/* the C library's own */
	bool allocator; /* hm_hooks_alloc_take decides */
};

/*
 * static RETURN do_NAME(unsigned v, PARAMETERS) is the hook, and HM_BEFORE(NAME, v) the function to call.
 * HM_HOOK_OF comes before it, HM_HOOK after it, with the names of the parameters at its end.
 */
#define HM_HOOK_OF(fn) static struct hm_hook hook_##fn
#define HM_HOOK(ret, fn, params, ...)                                                              \
	static ret fn##_0 params                                                                   \
	{                                                                                          \
		return do_##fn(0, __VA_ARGS__);                                                    \
	}                                                                                          \
	static ret fn##_1 params                                                                   \
	{                                                                                          \
		return do_##fn(1, __VA_ARGS__);                                                    \
	}                                                                                          \
	static ret fn##_2 params                                                                   \
	{                                                                                          \
		return do_##fn(2, __VA_ARGS__);                                                    \
	}                                                                                          \
	static ret fn##_3 params                                                                   \
	{                                                                                          \
		return do_##fn(3, __VA_ARGS__);                                                    \
	}                                                                                          \
	static struct hm_hook hook_##fn = { .name = #fn, .ours = HM_VARIANTS(fn) }
#define HM_VARIANTS(fn)                                                                            \
	{                                                                                          \
		(void *)fn##_0, (void *)fn##_1, (void *)fn##_2, (void *)fn##_3                     \
	}
#define HM_BEFORE(name, v)                                                                         \
	((__typeof__(&name))atomic_load_explicit(&hook_##name.before[v], memory_order_relaxed))
#define HM_USUAL(name) ((__typeof__(&name))hook_##name.usual)

/* Lists of the parts, NULL at the end. */
extern struct hm_hook *const hm_hooks_map[],
	*const hm_hooks_alloc[], *const hm_hooks_thread[], *const hm_hooks_load[];
#define HM_HOOKS_MOST 48 /* in all lists */

/* Hooks report. */
extern _Atomic bool hm_hooks_on;

/* ---- reports; inline, since every free comes here ---- */

/*
 * What the trials at start look at: a report of a range that holds address `at` counts for them.
 * 0: no trial.
 */
struct hm_hooks_trial {
	_Atomic uint64_t at;
	_Atomic uint32_t reports; /* of ranges that hold it */
	_Atomic uint32_t calls;	  /* of hooks that say so */
};
extern struct hm_hooks_trial hm_hooks_trial;

#define HM_HOOK_NOTHING UINT32_MAX /* number of a report that was not made */

static inline unsigned hm_hook_begin(uint64_t begin, uint64_t end)
{
	uint64_t at;

	if (!atomic_load_explicit(&hm_hooks_on, memory_order_relaxed) || begin >= end)
		return HM_HOOK_NOTHING;
	at = atomic_load_explicit(&hm_hooks_trial.at, memory_order_relaxed);
	if (__builtin_expect(at != 0, 0) && begin <= at && at < end)
		atomic_fetch_add(&hm_hooks_trial.reports, 1);
	return hm_monitor_begin(begin, end);
}

static inline void hm_hook_end(unsigned number)
{
	if (number != HM_HOOK_NOTHING)
		hm_monitor_end(number);
}

static inline void hm_hook_changed(uint64_t begin, uint64_t end)
{
	hm_hook_end(hm_hook_begin(begin, end));
}

/* A hook was called that had nothing to report. */
static inline void hm_hook_called(void)
{
	if (__builtin_expect(atomic_load_explicit(&hm_hooks_trial.at, memory_order_relaxed) != 0,
			     0))
		atomic_fetch_add(&hm_hooks_trial.calls, 1);
}

/* The end of [begin, begin + len), or of all memory; whole pages, as the kernel takes it. */
uint64_t hm_hook_range_end(uint64_t begin, uint64_t len);

/* ---- monitor_hooks_names.c ---- */

/*
 * Find out what the names mean in this program, which the rest relies on.  False: why says what is missing.
 */
bool hm_hooks_resolve(char *why, size_t size);
/* NULL: no hook has this name.  After hm_hooks_resolve. */
struct hm_hook *hm_hooks_named(const char *name);
/* What `name` means for the whole program, past our own hooks; of the C library's own with libc. */
void *hm_hooks_lookup(const char *name, bool libc);
/* The object that holds our code is never unloaded. */
bool hm_hooks_pin(char *why, size_t size);

/* ---- monitor_hooks_elf.c ---- */

/*
 * Point words at hooks, of objects that are new since the last time, and forget objects that are gone.  Waits for
 * loads that other threads have under way.  False: why says of which object, and some words are changed.
 */
bool hm_hooks_walk(char *why, size_t size);
/* Put back all words that hold a hook. */
void hm_hooks_unwalk(void);
/* Has the library that holds this code words by which an allocator gives memory back? */
bool hm_hooks_calls_out(const void *code);

/* ---- monitor_hooks_alloc.c ---- */

/* Which blocks are whose, and what must be done about them.  Called before words are changed. */
void hm_hooks_alloc_find(void);
/* How words of functions that free are taken: with hooks or not, or the object cannot be followed. */
enum hm_hook_take {
	HM_TAKE,
	HM_LEAVE,
	HM_CANNOT
} hm_hooks_alloc_take(const struct hm_hook *hook, const void *before);
/* Keep memory in the arenas; undone by _release. */
bool hm_hooks_alloc_keep(char *why, size_t size);
void hm_hooks_alloc_release(void);
enum hm_hook_blocks hm_hooks_blocks(void);
/* What was found does not hold: report each block. */
void hm_hooks_alloc_doubt(void);

/* ---- monitor_hooks_thread.c ---- */

/* -FI_E code; the key of thread-specific data. */
int hm_hooks_thread_init(void);
/* Watch of the monitor: the thread that registers is one whose end is seen. */
int hm_hooks_thread_watch(uint64_t begin, uint64_t end, uint64_t *mark);

/* ---- monitor_hooks_try.c ---- */

/* Does each way of changing memory come to a report?  False: why names the one that did not. */
bool hm_hooks_try(char *why, size_t size);

#endif
