/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * userfaultfd as the monitor of a cache: memory that is taken and given back past the C library, and the thread
 * that reads its events, held where a test wants it.
 */
#ifndef HM_TEST_UFFD_SCENE_H
#define HM_TEST_UFFD_SCENE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/mr/monitor_uffd.h"
#include "monitor_scene.h"
#include "raw_call.h"

#define LEN (16 * PAGE)

static const struct hm_monitor *const only_uffd[] = { &hm_monitor_uffd };
static char why_not[256];

static struct scene scene;

#define NEEDS_UFFD()                                                                               \
	do {                                                                                       \
		if (why_not[0]) {                                                                  \
			print_message("userfaultfd: %s\n", why_not);                               \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

static size_t fds_before;

static inline int open_scene(void **state)
{
	(void)state;
	if (why_not[0])
		return 0;
	fds_before = test_fds();
	hm_monitor_override("userfaultfd", only_uffd, 1);
	memset(&logged, 0, sizeof(logged));
	hm_log_set_sink(remember_line, NULL);
	hm_uffd_strict = hm_uffd_strict > 0;
	return scene_open(&scene);
}

static inline int open_strict_scene(void **state)
{
	hm_uffd_strict = 1;
	return open_scene(state);
}

static inline int close_scene(void **state)
{
	(void)state;
	if (why_not[0])
		return 0;
	hm_uffd_at = NULL;
	hm_uffd_grace_nanos = 100000000;
	hm_uffd_strict = 0;
	scene_close(&scene);
	hm_log_set_sink(NULL, NULL);
	return test_fds() == fds_before && !hm_monitor_used() ? 0 : -1;
}

/* ---- memory, past everybody who interposes functions ---- */

#define RAW(n, a, b, c, d, e, f, ...)                                                              \
	raw_call(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define raw(n, ...) RAW(n, __VA_ARGS__, 0, 0, 0, 0, 0, 0)

static inline char *raw_map(char *at, size_t len, int flags)
{
	void *p = (void *)raw(SYS_mmap, at, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1,
			      0);

	assert_true((intptr_t)p > 0);
	memset(p, 1, len);
	return p;
}

#define APART (1ul << 20)

/*
 * Apart from everything else: memhooks report the stack of a thread that starts, and some more, at a time of their
 * choice.
 */
static inline char *private_memory(void)
{
	char *around = (char *)raw(SYS_mmap, NULL, LEN + 2 * APART, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true((intptr_t)around > 0);
	return raw_map(around + APART, LEN, MAP_PRIVATE | MAP_FIXED);
}

static inline void raw_unmap(char *p, size_t len)
{
	assert_int_equal(raw(SYS_munmap, p, len), 0);
}

static inline char *again(char *p)
{
	return raw_map(p, LEN, MAP_PRIVATE | MAP_FIXED_NOREPLACE);
}

static inline void lose_by_dontneed(char *p)
{
	assert_int_equal(raw(SYS_madvise, p, LEN, MADV_DONTNEED), 0);
}

/* ---- the thread that reads, held where a test wants it ---- */

static _Atomic int held_at; /* -1: nowhere */
static _Atomic bool holding;
static _Atomic unsigned turn, let_go_of; /* a hold ends when it, or a later one, is let go of */
static _Atomic unsigned events;

static inline void hold(enum hm_uffd_stage stage)
{
	unsigned mine = atomic_load(&turn);
	int here = (int)stage;

	events += stage == HM_UFFD_READ;
	if (!atomic_compare_exchange_strong(&held_at, &here, -1))
		return;
	atomic_store(&holding, true);
	while (atomic_load(&let_go_of) < mine)
		sched_yield();
}

static inline void hold_at(int stage)
{
	atomic_fetch_add(&turn, 1);
	atomic_store(&holding, false);
	atomic_store(&held_at, stage);
	events = 0;
	hm_uffd_at = hold;
}

static inline void let_go(void)
{
	atomic_store(&let_go_of, atomic_load(&turn));
}

static inline void wait_for(_Atomic bool *flag)
{
	while (!atomic_load(flag))
		sched_yield();
}

static inline void *unmap_it(void *p)
{
	raw_unmap(p, LEN);
	return NULL;
}

static inline int can_be_had(void **state)
{
	(void)state;
	if (!HAVE_RAW_CALL) {
		snprintf(why_not, sizeof(why_not), "no system calls without a function here");
		return 0;
	}
	if (hm_monitor_uffd.start(why_not, sizeof(why_not)) == 0) {
		hm_monitor_uffd.stop();
		why_not[0] = 0;
	}
	return 0;
}

#define TEST(f)	       cmocka_unit_test_setup_teardown(f, open_scene, close_scene)
#define STRICT_TEST(f) cmocka_unit_test_setup_teardown(f, open_strict_scene, close_scene)

#endif
