/* SPDX-License-Identifier: BSD-2-Clause */
/* Refusals: kept for the thread that met them, whatever the log's level. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/refusal.h"

static struct hmreg_refusal get(size_t index)
{
	struct hmreg_refusal refusal = { .size = sizeof(refusal) };

	assert_true(hm_refusal_get(index, &refusal));
	return refusal;
}

static size_t count(void)
{
	struct hmreg_refusal refusal;
	size_t n = 0;

	while (hm_refusal_get(n, &refusal))
		n++;
	return n;
}

static int forget(void **state)
{
	(void)state;
	hm_refusal_forget();
	return 0;
}

static void fn_27_oldest_first_until_forgotten(void **state)
{
	struct hmreg_refusal one, other;

	(void)state;
	errno = ENOTTY;
	HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_MEMLOCK, "%d bytes", 7);
	HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_TOO_LONG, "more");
	assert_int_equal(errno, ENOTTY);
	one = get(0);
	other = get(1);
	assert_int_equal(one.cause, HMREG_CAUSE_MEMLOCK);
	assert_string_equal(one.text, "7 bytes");
	assert_int_equal(other.cause, HMREG_CAUSE_TOO_LONG);
	assert_string_equal(other.text, "more");
	assert_int_equal(count(), 2);
	hm_refusal_forget();
	assert_int_equal(count(), 0);
}

static void newest_is_told_anew(void **state)
{
	(void)state;
	hm_refusal_note(HMREG_CAUSE_DRIVER_CALL, "first");
	hm_refusal_note(HMREG_CAUSE_DRIVER_CALL, "last");
	hm_refusal_recast(HMREG_CAUSE_DRIVER_CALL, HMREG_CAUSE_EXPORT_FAILED);
	assert_int_equal(get(0).cause, HMREG_CAUSE_DRIVER_CALL);
	assert_int_equal(get(1).cause, HMREG_CAUSE_EXPORT_FAILED);
	/* one that the interface knew better stays */
	hm_refusal_recast(HMREG_CAUSE_DRIVER_CALL, HMREG_CAUSE_EXPORT_REFUSED);
	assert_int_equal(get(1).cause, HMREG_CAUSE_EXPORT_FAILED);
	assert_int_equal(get(0).cause, HMREG_CAUSE_DRIVER_CALL);
}

static void *of_another_thread(void *arg)
{
	size_t *seen = arg;

	*seen = count();
	hm_refusal_note(HMREG_CAUSE_CGROUP, "the other's");
	hm_refusal_recast(HMREG_CAUSE_MEMLOCK, HMREG_CAUSE_CGROUP);
	return NULL;
}

static void threads_see_their_own(void **state)
{
	pthread_t thread;
	size_t seen = 9;

	(void)state;
	hm_refusal_note(HMREG_CAUSE_MEMLOCK, "mine");
	assert_int_equal(pthread_create(&thread, NULL, of_another_thread, &seen), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(seen, 0);
	assert_int_equal(count(), 1);
	assert_int_equal(get(0).cause, HMREG_CAUSE_MEMLOCK);
}

static void room_is_limited_and_the_newest_stay(void **state)
{
	char text[32];
	size_t kept;

	(void)state;
	for (int i = 0; i < 1000; i++)
		hm_refusal_note(HMREG_CAUSE_RIGHTS, "number %d", i);
	kept = count();
	assert_true(kept >= 16 && kept < 1000);
	assert_string_equal(get(kept - 1).text, "number 999");
	snprintf(text, sizeof(text), "number %d", 1000 - (int)kept);
	assert_string_equal(get(0).text, text);
}

static void long_texts_are_cut(void **state)
{
	struct hmreg_refusal refusal;
	char text[2000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	hm_refusal_note(HMREG_CAUSE_FORBIDDEN, "%s", text);
	refusal = get(0);
	assert_int_equal(strlen(refusal.text), sizeof(refusal.text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(fn_27_oldest_first_until_forgotten, forget),
		cmocka_unit_test_teardown(newest_is_told_anew, forget),
		cmocka_unit_test_teardown(threads_see_their_own, forget),
		cmocka_unit_test_teardown(room_is_limited_and_the_newest_stay, forget),
		cmocka_unit_test_teardown(long_texts_are_cut, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
