/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

enum outcome {
	PASSED,
	FAILED,
	SKIPPED
};

static jmp_buf leave; /* out of the function that runs, with its outcome */

void print_message(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	fflush(stdout);
}

/* ---- assertions ---- */

void _fail(const char *file, int line)
{
	print_error("%s:%d: error: Failure!\n", file, line);
	longjmp(leave, FAILED);
}

void _skip(const char *file, int line)
{
	(void)file, (void)line;
	longjmp(leave, SKIPPED);
}

void _assert_true(uintmax_t holds, const char *text, const char *file, int line)
{
	if (holds)
		return;
	print_error("%s\n", text);
	_fail(file, line);
}

void _assert_int_equal(uintmax_t a, uintmax_t b, const char *file, int line)
{
	if (a == b)
		return;
	print_error("%jd != %jd (0x%jx != 0x%jx)\n", (intmax_t)a, (intmax_t)b, a, b);
	_fail(file, line);
}

void _assert_in_range(uintmax_t a, uintmax_t least, uintmax_t most, const char *file, int line)
{
	if (a >= least && a <= most)
		return;
	print_error("%jd is not from %jd to %jd\n", (intmax_t)a, (intmax_t)least, (intmax_t)most);
	_fail(file, line);
}

void _assert_memory_equal(const void *a, const void *b, size_t len, const char *file, int line)
{
	const unsigned char *x = a, *y = b;
	size_t i = 0;

	while (i < len && x[i] == y[i])
		i++;
	if (i == len)
		return;
	print_error("byte %zu of %zu: 0x%02x != 0x%02x\n", i, len, x[i], y[i]);
	_fail(file, line);
}

/* ---- tests ---- */

/* A fixture that fails by its result or by an assertion. */
static bool fixture_fails(CMFixtureFunction function, void **state, const char *what)
{
	int how;

	if (!function)
		return false;
	how = setjmp(leave);
	if (how == 0 && function(state) == 0)
		return false;
	print_error("the test's %s failed\n", what);
	return true;
}

static enum outcome run_function(const struct CMUnitTest *test, void **state)
{
	switch (setjmp(leave)) {
	case 0:
		test->test_func(state);
		return PASSED;
	case SKIPPED:
		return SKIPPED;
	default:
		return FAILED;
	}
}

static enum outcome run_test(const struct CMUnitTest *test)
{
	void *state = test->initial_state;
	enum outcome outcome;

	print_message("[ RUN      ] %s\n", test->name);
	if (fixture_fails(test->setup_func, &state, "setup"))
		outcome = FAILED;
	else
		outcome = run_function(test, &state);
	if (fixture_fails(test->teardown_func, &state, "teardown"))
		outcome = FAILED;
	print_message("%s %s\n",
		      outcome == PASSED	   ? "[       OK ]"
		      : outcome == SKIPPED ? "[  SKIPPED ]"
					   : "[  FAILED  ]",
		      test->name);
	return outcome;
}

int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
			    CMFixtureFunction setup, CMFixtureFunction teardown)
{
	size_t outcomes[SKIPPED + 1] = { 0 };

	if (setup || teardown) {
		print_error("%s: this runner knows no functions around a group\n", name);
		return (int)count;
	}
	print_message("[==========] %s: Running %zu test(s).\n", name, count);
	for (size_t i = 0; i < count; i++)
		outcomes[run_test(&tests[i])]++;
	print_message("[==========] %s: %zu passed, %zu failed, %zu skipped.\n", name,
		      outcomes[PASSED], outcomes[FAILED], outcomes[SKIPPED]);
	return (int)outcomes[FAILED];
}
