/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The runner tells what fails: every assertion once as it holds and once as it does not, fixtures that
 * fail, and skipping.  The runner runs them, and this program compares how many have failed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static int zero, one = 1;
static int teardowns;
static void *nothing;

#define HOLDS(name, statement)                                                                     \
	static void holds_##name(void **state)                                                     \
	{                                                                                          \
		(void)state;                                                                       \
		statement;                                                                         \
	}
#define BREAKS(name, statement)                                                                    \
	static void breaks_##name(void **state)                                                    \
	{                                                                                          \
		(void)state;                                                                       \
		statement;                                                                         \
		teardowns += 1000; /* not reached */                                               \
	}

HOLDS(assertions, {
	assert_true(one);
	assert_non_null(&one);
	assert_null(nothing);
	assert_ptr_equal(&one, &one);
	assert_int_equal(one, 1);
	assert_int_equal(-1L, -1);
	assert_int_not_equal(one, zero);
	assert_string_equal("a", "a");
	assert_memory_equal("abc", "abd", 2);
})
BREAKS(true, assert_true(zero))
BREAKS(non_null, assert_non_null(nothing))
BREAKS(null, assert_null(&one))
BREAKS(ptr_equal, assert_ptr_equal(&one, &zero))
BREAKS(int_equal, assert_int_equal(one, zero))
BREAKS(int_not_equal, assert_int_not_equal(one, 1))
BREAKS(string_equal, assert_string_equal("a", "b"))
BREAKS(memory_equal, assert_memory_equal("abc", "abd", 3))
BREAKS(fail, fail())
BREAKS(fail_msg, fail_msg("%d", one))
BREAKS(skip, skip())

static int fixture_ok(void **state)
{
	(void)state;
	return 0;
}

static int fixture_bad(void **state)
{
	(void)state;
	return -1;
}

static int fixture_asserts(void **state)
{
	(void)state;
	assert_true(zero);
	return 0;
}

static int count_teardown(void **state)
{
	(void)state;
	teardowns++;
	return 0;
}

/* What the runner prints about failures that are meant is for nobody. */
static int run_silently(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup)
{
	int kept = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY), failures;

	fflush(stdout);
	dup2(nowhere, STDOUT_FILENO);
	failures = _cmocka_run_group_tests("silent", tests, count, setup, NULL);
	fflush(stdout);
	dup2(kept, STDOUT_FILENO);
	close(kept);
	close(nowhere);
	return failures;
}

/* How many are wrong: 0 or 1. */
static int check(const char *name, int have, int want)
{
	if (have != want)
		printf("%d, not %d\n", have, want);
	printf("%s %s\n", have == want ? "[       OK ]" : "[  FAILED  ]", name);
	return have != want;
}

#define RUN(tests, setup) run_silently(tests, sizeof(tests) / sizeof((tests)[0]), setup)
#define COUNTED(f)	  cmocka_unit_test_setup_teardown(f, fixture_ok, count_teardown)

int main(void)
{
	static const struct CMUnitTest good[] = { COUNTED(holds_assertions), COUNTED(breaks_skip) };
	static const struct CMUnitTest bad[] = {
		COUNTED(breaks_true),	      COUNTED(breaks_non_null),
		COUNTED(breaks_null),	      COUNTED(breaks_ptr_equal),
		COUNTED(breaks_int_equal),    COUNTED(breaks_int_not_equal),
		COUNTED(breaks_string_equal), COUNTED(breaks_memory_equal),
		COUNTED(breaks_fail),	      COUNTED(breaks_fail_msg),
	};
	static const struct CMUnitTest fixtures[] = {
		cmocka_unit_test_setup_teardown(holds_assertions, fixture_bad, NULL),
		cmocka_unit_test_setup_teardown(holds_assertions, fixture_asserts, NULL),
		cmocka_unit_test_setup_teardown(holds_assertions, NULL, fixture_bad),
		cmocka_unit_test_setup_teardown(breaks_skip, NULL, fixture_asserts),
	};
	const int count = sizeof(bad) / sizeof(bad[0]);
	int wrong = check("what_holds_passes", RUN(good, NULL), 0);

	wrong += check("what_does_not_hold_fails", RUN(bad, NULL), count);
	wrong += check("fixtures_that_fail", RUN(fixtures, NULL), 4);
	wrong += check("fixtures_of_a_group_are_refused", RUN(good, fixture_ok), 2);
	wrong += check("tests_end_there_and_are_torn_down", teardowns, count + 2);
	return wrong != 0;
}
