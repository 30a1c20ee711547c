/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts the warnings that the library logs, for tests of "exactly one line per bad argument". */
#ifndef HM_TEST_WARNINGS_H
#define HM_TEST_WARNINGS_H

#include "core/base/log.h"

static unsigned int warning_count;

static void count_warning(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
			  int line, const char *text, void *arg)
{
	(void)subsys;
	(void)func;
	(void)line;
	(void)text;
	(void)arg;
	warning_count += level == FI_LOG_WARN;
}

__attribute__((unused)) static int warnings_start(void **state)
{
	(void)state;
	hm_log_set_sink(count_warning, NULL);
	return 0;
}

static int warnings_stop(void **state)
{
	(void)state;
	hm_log_set_sink(NULL, NULL);
	return 0;
}

/* The expression has this value and logs one warning. */
#define assert_refused(expression, code)                                                           \
	do {                                                                                       \
		warning_count = 0;                                                                 \
		assert_int_equal((expression), (code));                                            \
		assert_int_equal(warning_count, 1);                                                \
	} while (0)

#endif
