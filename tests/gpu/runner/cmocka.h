/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * As much of CMocka's interface as the programs of tests/gpu use, for machines where CMocka is not
 * installed and cannot be.  Results are printed in CMocka's words.  Unlike CMocka it takes no signal: a
 * program that crashes ends, and whoever started it says so.
 */
#ifndef HM_GPU_CMOCKA_H
#define HM_GPU_CMOCKA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
	const char *name;
	void (*test_func)(void **state);
	CMFixtureFunction setup_func, teardown_func; /* NULL: none */
	void *initial_state;
};

#define cmocka_unit_test(f)                                                                        \
	{                                                                                          \
#f, f, NULL, NULL, NULL                                                            \
	}
#define cmocka_unit_test_setup_teardown(f, setup, teardown)                                        \
	{                                                                                          \
#f, f, setup, teardown, NULL                                                       \
	}

enum cm_message_output {
	CM_OUTPUT_STDOUT
};
static inline void cmocka_set_message_output(enum cm_message_output output)
{
	(void)output; /* it is the only one */
}

/* How many of the tests failed.  Functions around a whole group are not offered: both are NULL. */
int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
			    CMFixtureFunction setup, CMFixtureFunction teardown);
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
	_cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

/* On standard output, lest a program that watches its standard error takes them for the library's. */
void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define print_error print_message

/* The test ends here, as failed or as skipped. */
void _fail(const char *file, int line) __attribute__((noreturn));
void _skip(const char *file, int line) __attribute__((noreturn));

void _assert_true(uintmax_t holds, const char *text, const char *file, int line);
void _assert_int_equal(uintmax_t a, uintmax_t b, const char *file, int line);
void _assert_in_range(uintmax_t a, uintmax_t least, uintmax_t most, const char *file, int line);
void _assert_memory_equal(const void *a, const void *b, size_t len, const char *file, int line);

#define fail() _fail(__FILE__, __LINE__)
#define skip() _skip(__FILE__, __LINE__)
#define fail_msg(...)                                                                              \
	do {                                                                                       \
		print_error("failed: " __VA_ARGS__);                                               \
		print_error("\n");                                                                 \
		fail();                                                                            \
	} while (0)
#define assert_true(c)			_assert_true((c) ? 1 : 0, #c, __FILE__, __LINE__)
#define assert_non_null(p)		_assert_true((p) != NULL, #p " != NULL", __FILE__, __LINE__)
#define assert_null(p)			_assert_true((p) == NULL, #p " == NULL", __FILE__, __LINE__)
#define assert_ptr_equal(a, b)		_assert_int_equal((uintptr_t)(a), (uintptr_t)(b), __FILE__, __LINE__)
#define assert_int_equal(a, b)		_assert_int_equal((uintmax_t)(a), (uintmax_t)(b), __FILE__, __LINE__)
#define assert_ptr_not_equal(a, b)	assert_true((a) != (b))
#define assert_in_range(a, least, most) _assert_in_range(a, least, most, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)	assert_true((uintmax_t)(a) != (uintmax_t)(b))
#define assert_string_equal(a, b)	assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, len)	_assert_memory_equal(a, b, len, __FILE__, __LINE__)

#endif
