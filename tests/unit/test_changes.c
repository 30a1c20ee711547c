/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranges that are changing. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/mr/changes.h"

#define PAGE UINT64_C(4096)

static void changes_are_known_until_they_end(void **state)
{
	unsigned number;

	(void)state;
	assert_false(hm_changes_overlap(0, UINT64_MAX));
	number = hm_changes_begin(10 * PAGE, 20 * PAGE);
	assert_true(hm_changes_overlap(19 * PAGE, 30 * PAGE));
	assert_true(hm_changes_overlap(0, 10 * PAGE + 1));
	assert_true(hm_changes_overlap(0, UINT64_MAX));
	assert_false(hm_changes_overlap(20 * PAGE, 30 * PAGE));
	assert_false(hm_changes_overlap(0, 10 * PAGE));
	hm_changes_told(number);
	assert_true(hm_changes_overlap(11 * PAGE, 12 * PAGE));
	hm_changes_end(number);
	assert_false(hm_changes_overlap(0, UINT64_MAX));
}

/* Rounded outwards by little, never inwards. */
static void changes_of_every_size_and_place(void **state)
{
	(void)state;
	for (unsigned from = 0; from < 64; from++)
		for (unsigned bits = 0; bits < 64; bits++)
			for (unsigned odd = 0; odd < 3; odd++) {
				uint64_t begin = (UINT64_C(1) << from) - odd % 2;
				uint64_t size = (UINT64_C(1) << bits) + odd;
				uint64_t end = size > UINT64_MAX - begin ? UINT64_MAX
									 : begin + size;
				uint64_t near = size / 500 + begin / (UINT64_C(1) << 44) + 2 * PAGE;
				unsigned number = hm_changes_begin(begin, end);

				assert_true(hm_changes_overlap(begin, begin + 1));
				assert_true(hm_changes_overlap(end - 1, end));
				assert_true(hm_changes_overlap(begin / 2 + end / 2, end));
				if (begin > near)
					assert_false(hm_changes_overlap(0, begin - near));
				if (end < UINT64_MAX - near)
					assert_false(hm_changes_overlap(end + near, UINT64_MAX));
				hm_changes_told(number);
				hm_changes_end(number);
			}
	assert_false(hm_changes_overlap(0, UINT64_MAX));
}

/* More than there are places for: everything changes, for all that is known, until they end. */
static void changes_more_than_places(void **state)
{
	unsigned number[200];

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		number[i] = hm_changes_begin((1000 + i) * PAGE, (1001 + i) * PAGE);
	for (unsigned i = 0; i < 200; i++)
		assert_true(hm_changes_overlap((1000 + i) * PAGE, (1001 + i) * PAGE));
	for (unsigned i = 0; i < 200; i++) {
		hm_changes_told(number[i]);
		hm_changes_end(number[i]);
		for (unsigned j = i + 1; j < 200; j++)
			assert_true(hm_changes_overlap((1000 + j) * PAGE, (1001 + j) * PAGE));
	}
	assert_false(hm_changes_overlap(0, UINT64_MAX));
	hm_changes_wait_told();
}

static _Atomic int step;

static void *wait_told(void *unused)
{
	hm_changes_wait_told();
	atomic_store(&step, 1);
	return unused;
}

/* Who waits does so for what was being told, not for the change's end. */
static void changes_waited_for_until_told(void **state)
{
	unsigned number[80];
	pthread_t thread;

	(void)state;
	for (unsigned i = 0; i < 80; i++)
		number[i] = hm_changes_begin(PAGE, 2 * PAGE);
	assert_int_equal(pthread_create(&thread, NULL, wait_told, NULL), 0);
	for (unsigned i = 0; i < 80; i++) {
		sched_yield();
		assert_int_equal(atomic_load(&step), 0);
		hm_changes_told(number[i]);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&step), 1);
	assert_true(hm_changes_overlap(PAGE, 2 * PAGE));
	for (unsigned i = 0; i < 80; i++)
		hm_changes_end(number[i]);
	assert_false(hm_changes_overlap(0, UINT64_MAX));
}

static void changes_are_gone_in_a_child(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		hm_changes_begin(PAGE, 2 * PAGE);
	hm_changes_forked();
	assert_false(hm_changes_overlap(0, UINT64_MAX));
	hm_changes_wait_told();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_are_known_until_they_end),
		cmocka_unit_test(changes_of_every_size_and_place),
		cmocka_unit_test(changes_more_than_places),
		cmocka_unit_test(changes_waited_for_until_told),
		cmocka_unit_test(changes_are_gone_in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
