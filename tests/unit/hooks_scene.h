/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of memhooks: what is reported of an address, who calls, and a process for each case.  A program that has
 * this wraps hm_monitor_begin and hm_monitor_end.  Include after <cmocka.h>.
 */
#ifndef HM_TEST_HOOKS_SCENE_H
#define HM_TEST_HOOKS_SCENE_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "core/mr/monitor.h"
#include "hooks_calls.h"

#define PAGE  ((size_t)4096)
#define PAGES (8 * PAGE)
#define HUGE  ((size_t)2 << 20)
#define BIG   ((size_t)40 << 20) /* a block with a mapping of its own */
#define INNER ((size_t)4 << 20)	 /* one in the heap, that would be trimmed */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- what was reported ---- */

static struct {
	uint64_t at;	     /* reports that hold this address are looked at */
	uint64_t begin, end; /* of the last */
	unsigned number, reports, ends;
	int before, after;	 /* the page there as it began and as it ended */
	void (*meanwhile)(void); /* called after begin */
} seen;

/* A page: unmapped, without memory, with it; for assert_seen: whichever. */
enum {
	ABSENT,
	EMPTY,
	PRESENT,
	ANY
};

static int page_at(uint64_t at)
{
	unsigned char present = 0;
	int err = errno, state;

	state = mincore((void *)(at & ~(PAGE - 1)), 1, &present) != 0 ? ABSENT
		: (present & 1)					      ? PRESENT
								      : EMPTY;
	errno = err;
	return state;
}

unsigned __real_hm_monitor_begin(uint64_t begin, uint64_t end);
unsigned __wrap_hm_monitor_begin(uint64_t begin, uint64_t end);
void __real_hm_monitor_end(unsigned number);
void __wrap_hm_monitor_end(unsigned number);

unsigned __wrap_hm_monitor_begin(uint64_t begin, uint64_t end)
{
	/* what is new beside it may be taken for huge pages, and be reported with it, while this is under way */
	bool under_way = seen.reports > 0 && seen.number != UINT32_MAX;
	bool looked = seen.at && begin <= seen.at && seen.at < end && !under_way;
	int before = looked ? page_at(seen.at) : ABSENT;
	unsigned number = __real_hm_monitor_begin(begin, end);

	if (!looked)
		return number;
	seen.reports++;
	seen.begin = begin;
	seen.end = end;
	seen.before = before;
	seen.number = number;
	if (seen.meanwhile)
		seen.meanwhile();
	return number;
}

void __wrap_hm_monitor_end(unsigned number)
{
	if (seen.at && seen.reports > 0 && number == seen.number) {
		seen.after = page_at(seen.at);
		seen.ends++;
		seen.number = UINT32_MAX; /* may be another's now */
	}
	__real_hm_monitor_end(number);
}

static void look_for(const void *at)
{
	memset(&seen, 0, sizeof(seen));
	seen.at = (uint64_t)(uintptr_t)at;
}

static inline void assert_seen(const void *begin, size_t len, int before, int after)
{
	assert_int_equal(seen.reports, 1);
	assert_int_equal(seen.begin, (uintptr_t)begin);
	assert_int_equal(seen.end, (uintptr_t)begin + len);
	assert_int_equal(seen.before, before);
	assert_int_equal(seen.ends, 1);
	if (after != ANY)
		assert_int_equal(seen.after, after);
	seen.at = 0;
}

static inline void assert_nothing(void)
{
	assert_int_equal(seen.reports, 0);
	seen.at = 0;
}

/* ---- who calls ---- */

#define CALLERS 3
static const struct hooks_calls *caller[CALLERS] = { &hooks_calls };
static const char *const modules[CALLERS] = { NULL, HOOKS_NOW, HOOKS_LAZY };

static const struct hooks_calls *load(int i)
{
	void *so = dlopen(modules[i], i == 2 ? RTLD_LAZY : RTLD_NOW);
	const void *calls;

	if (!so)
		fail_msg("%s", dlerror());
	calls = dlsym(so, "hooks_calls");
	assert_non_null(calls);
	return calls;
}

/* The second is there before the start, the third comes after it. */
static void start(void)
{
	char why[256] = "";

	caller[1] = load(1);
	if (hm_monitor_hooks.start(why, sizeof(why)) != 0)
		fail_msg("%s", why);
	caller[2] = load(2);
}

static inline char *map(const struct hooks_calls *c)
{
	/* may be clobbered where a test that calls this comes back by longjmp */
	char *volatile at = c->mmap(NULL, 2 * PAGES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	/* not where huge pages may begin, of which more is reported */
	if ((uintptr_t)at % HUGE == 0) {
		c->munmap(at, PAGES);
		at += PAGES;
	} else {
		c->munmap(at + PAGES, PAGES);
	}
	memset(at, 1, PAGES);
	return at;
}

/* Each case: for every caller. */
static inline void each(void (*body)(const struct hooks_calls *c))
{
	start();
	for (int i = 0; i < CALLERS; i++)
		body(caller[i]);
	hm_monitor_hooks.stop();
}

/* ---- each in a process ---- */

static void in_child(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("CMOCKA_TEST_ABORT", "1", 1); /* failed assertions end it, in any thread */
		alarm(300);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CASE(name, run)                                                                            \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		in_child(run);                                                                     \
	}
#define CASE_EACH(name, by)                                                                        \
	static void name##_body(void)                                                              \
	{                                                                                          \
		each(by);                                                                          \
	}                                                                                          \
	CASE(name, name##_body)

#endif
