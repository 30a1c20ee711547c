/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What calls for several NICs stand on: threads for one call (crew.h), pages that are brought in before they are
 * pinned (populate.h), and warnings that a thread keeps (log.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/crew.h"
#include "core/base/log.h"
#include "core/mr/populate.h"

#define ITEMS 1000

/* ---- crew ---- */

static _Atomic unsigned done[ITEMS];

static void note(void *arg, size_t i)
{
	assert_ptr_equal(arg, done);
	done[i]++;
}

static void fn_26_each_item_once(void **state)
{
	static const unsigned threads[] = { 0, 1, 2, 7, HM_CREW_MAX, 1000 };

	(void)state;
	for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++)
		for (size_t count = 0; count <= ITEMS; count = count * 10 + 1) {
			unsigned used;

			memset(done, 0, sizeof(done));
			used = hm_crew_run(note, done, count, threads[t]);
			assert_true(used >= 1 && used <= HM_CREW_MAX);
			assert_true(used <= threads[t] || used == 1);
			assert_true(used <= count || used == 1);
			for (size_t i = 0; i < ITEMS; i++)
				assert_int_equal(done[i], i < count);
		}
	assert_true(hm_crew_processors() >= 1 && hm_crew_processors() <= HM_CREW_MAX);
}

/* ---- pages ---- */

#define LARGE ((size_t)80 << 20)

static char *map(size_t len, int protection)
{
	char *buf = mmap(NULL, len, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(buf, MAP_FAILED);
	madvise(buf, len, MADV_NOHUGEPAGE);
	return buf;
}

static size_t resident(char *buf, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0, pages = len / page;
	unsigned char *there = malloc(pages);

	assert_non_null(there);
	assert_int_equal(mincore(buf, len, there), 0);
	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	free(there);
	return n;
}

/* How many threads brought in what of [buf + off, + len). */
static unsigned populate(char *buf, size_t len, unsigned threads, const int *stop, int expected)
{
	struct iovec iov = { buf, len };
	unsigned used = 0;

	assert_int_equal(hm_populate(&iov, 1, len, threads, stop, &used), expected);
	return used;
}

static bool kernel_populates(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *buf = map(page, PROT_READ | PROT_WRITE);
	bool does = madvise(buf, page, 23 /* MADV_POPULATE_WRITE */) == 0;

	munmap(buf, page);
	return does;
}

static void fn_26_pages_come_in_pieces(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	(void)state;
	if (!kernel_populates())
		skip();
	for (unsigned threads = 1; threads <= 3; threads++) {
		char *buf = map(LARGE + 4 * page, PROT_READ | PROT_WRITE);

		assert_int_equal(populate(buf + 2 * page + 5, LARGE - 10, threads, NULL, 0),
				 threads);
		/* every page that the range touches, and no other */
		assert_int_equal(resident(buf, LARGE + 4 * page), LARGE / page);
		assert_int_equal(resident(buf, 2 * page), 0);
		for (size_t i = 0; i < LARGE; i += page)
			assert_int_equal(buf[i], 0);
		/* there is nothing left to do */
		assert_int_equal(populate(buf, LARGE, threads, NULL, 0), 1);
		munmap(buf, LARGE + 4 * page);
	}
}

/* What is written stays. */
static void fn_26_contents_are_kept(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *buf = map(LARGE, PROT_READ | PROT_WRITE);

	(void)state;
	for (size_t i = 0; i < LARGE; i += 16 * page)
		buf[i] = (char)(i / page + 1);
	populate(buf, LARGE, 2, NULL, 0);
	for (size_t i = 0; i < LARGE; i += 16 * page)
		assert_int_equal(buf[i], (char)(i / page + 1));
	munmap(buf, LARGE);
}

static void fn_26_small_ranges_are_left(void **state)
{
	char *buf = map(LARGE, PROT_READ | PROT_WRITE);

	(void)state;
	populate(buf, HM_POPULATE_LEAST - 1, 2, NULL, 0);
	assert_int_equal(resident(buf, LARGE), 0);
	munmap(buf, LARGE);
}

static void fn_26_stopped(void **state)
{
	char *buf = map(LARGE, PROT_READ | PROT_WRITE);
	int stop = 1;

	(void)state;
	populate(buf, LARGE, 2, &stop, -FI_ECANCELED);
	assert_int_equal(resident(buf, LARGE), 0);
	stop = 0;
	populate(buf, LARGE, 2, &stop, 0);
	munmap(buf, LARGE);
}

/* What cannot be brought in is the registration's to refuse. */
static void fn_26_bad_ranges_are_left(void **state)
{
	char *buf = map(LARGE, PROT_READ), *holed = map(LARGE, PROT_READ | PROT_WRITE);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	(void)state;
	populate(buf, LARGE, 2, NULL, 0);
	assert_int_equal(resident(buf, LARGE), 0);
	munmap(holed + LARGE / 2, LARGE / 2);
	populate(holed, LARGE, 2, NULL, 0);
	populate((char *)(UINTPTR_MAX - LARGE), LARGE, 2, NULL, 0);
	populate((char *)(UINTPTR_MAX - page), LARGE, 2, NULL, 0);
	populate(NULL, SIZE_MAX, 2, NULL, 0);
	munmap(holed, LARGE / 2);
	munmap(buf, LARGE);
}

/* More than may be pinned is not taken from the machine first. */
static void fn_26_limits_are_looked_at(void **state)
{
	struct rlimit limit, small = { 4096, 4096 };
	char *buf = map(LARGE, PROT_READ | PROT_WRITE);

	(void)state;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || seteuid(65534) != 0)
		skip(); /* the limit does not count for who has the capability */
	small.rlim_max = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &small), 0);
	populate(buf, LARGE, 2, NULL, 0);
	assert_int_equal(resident(buf, LARGE), 0);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	assert_int_equal(seteuid(0), 0);
	munmap(buf, LARGE);
}

/* ---- warnings ---- */

static char said[4][256];
static unsigned lines;

static void sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		 const char *text, void *arg)
{
	(void)level, (void)subsys, (void)func, (void)line, (void)arg;
	if (lines < 4)
		snprintf(said[lines], sizeof(said[0]), "%s", text);
	lines++;
}

static void api_20_warnings_are_kept(void **state)
{
	struct hm_log_kept kept = { .text = "" };

	(void)state;
	hm_log_set_sink(sink, NULL);
	hm_log_kept = &kept;
	HM_WARN(FI_LOG_MR, "first %d", 1);
	assert_int_equal(lines, 0);
	assert_string_equal(kept.text, "first 1");
	assert_int_equal(kept.subsys, FI_LOG_MR);
	HM_WARN(FI_LOG_DOMAIN, "second\n");
	assert_int_equal(lines, 1);
	assert_string_equal(said[0], "first 1");
	assert_string_equal(kept.text, "second");
	/* milder ones are none of it */
	hm_log_mild = true;
	HM_WARN(FI_LOG_MR, "mild");
	hm_log_mild = false;
	assert_string_equal(kept.text, "second");
	hm_log_kept = NULL;
	HM_WARN(FI_LOG_MR, "third");
	assert_int_equal(lines, 2);
	assert_string_equal(said[1], "third");
	hm_log_set_sink(NULL, NULL);
	/* kept whoever listens */
	hm_log_kept = &kept;
	HM_WARN(FI_LOG_MR, "%0300d", 7);
	hm_log_kept = NULL;
	assert_int_equal(strlen(kept.text), sizeof(kept.text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_26_each_item_once),
		cmocka_unit_test(fn_26_pages_come_in_pieces),
		cmocka_unit_test(fn_26_contents_are_kept),
		cmocka_unit_test(fn_26_small_ranges_are_left),
		cmocka_unit_test(fn_26_stopped),
		cmocka_unit_test(fn_26_bad_ranges_are_left),
		cmocka_unit_test(fn_26_limits_are_looked_at),
		cmocka_unit_test(api_20_warnings_are_kept),
	};

	return cmocka_run_group_tests_name("test_multi", tests, NULL, NULL);
}
