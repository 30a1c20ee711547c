/* SPDX-License-Identifier: BSD-2-Clause */
/* Environment parameters: conversions, the table, what is reported, and libfabric's calls. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <pthread.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "tests/unit/child.h"

#define ENV(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct child child;

static struct fi_provider prov = { .name = "Some" };

/* ---- what was logged ---- */

static int lines;
static char last_line[1024];

static void note(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		 const char *text, void *arg)
{
	(void)subsys, (void)func, (void)line, (void)arg;
	CHECK(level == FI_LOG_WARN);
	lines++;
	snprintf(last_line, sizeof(last_line), "%s", text);
}

/* One line since the last time, with these words in it. */
static bool logged(const char *words)
{
	bool one = lines == 1 && strstr(last_line, words);

	lines = 0;
	return one;
}

static bool logged_nothing(void)
{
	bool none = lines == 0;

	lines = 0;
	return none;
}

/* ---- conversions ---- */

static void params_int_is_the_whole_text(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		int value;
	} cases[] = {
		{ "0", true, 0 },
		{ "-17", true, -17 },
		{ "+5", true, 5 },
		{ "0x10", true, 16 },
		{ "010", true, 8 },
		{ "2147483647", true, INT_MAX },
		{ "-2147483648", true, INT_MIN },
		{ "2147483648", false, 0 },
		{ "-2147483649", false, 0 },
		{ "99999999999999999999", false, 0 },
		{ "", false, 0 },
		{ " 1", false, 0 },
		{ "1 ", false, 0 },
		{ "1x", false, 0 },
		{ "x", false, 0 },
		{ "-", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int value = 4711;

		assert_int_equal(hm_parse_int(cases[i].text, &value), cases[i].ok);
		assert_int_equal(value, cases[i].ok ? cases[i].value : 4711);
	}
}

static void params_bool_knows_four_pairs_of_words(void **state)
{
	static const char *const on[] = { "1", "on", "true", "yes", "ON", "True", "yEs" };
	static const char *const off[] = { "0", "off", "false", "no", "OFF", "False", "nO" };
	static const char *const neither[] = { "",     "2",   "-1",	   "y", "n",
					       "yes ", " no", "truefalse", "00" };
	bool value;

	(void)state;
	for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
		value = false;
		assert_true(hm_parse_bool(on[i], &value) && value);
		value = true;
		assert_true(hm_parse_bool(off[i], &value) && !value);
	}
	for (size_t i = 0; i < sizeof(neither) / sizeof(neither[0]); i++) {
		value = true;
		assert_false(hm_parse_bool(neither[i], &value));
		assert_true(value);
	}
}

static void params_size_takes_a_unit_and_no_sign(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		size_t value;
	} cases[] = {
		{ "0", true, 0 },
		{ "1k", true, 1024 },
		{ "1K", true, 1024 },
		{ "3m", true, 3 << 20 },
		{ "2G", true, (size_t)2 << 30 },
		{ "1T", true, (size_t)1 << 40 },
		{ "0x10K", true, 16 << 10 },
		{ "18446744073709551615", true, SIZE_MAX },
		{ "-1", true, SIZE_MAX },
		{ "16777215T", true, (size_t)16777215 << 40 },
		{ "16777216T", false, 0 },
		{ "18446744073709551616", false, 0 },
		{ "18446744073709551615K", false, 0 },
		{ "-2", false, 0 },
		{ "+1", false, 0 },
		{ "", false, 0 },
		{ " 1", false, 0 },
		{ "1 K", false, 0 },
		{ "1KB", false, 0 },
		{ "1KK", false, 0 },
		{ "K", false, 0 },
		{ "1P", false, 0 },
		{ "1.5G", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t value = 4711;

		assert_int_equal(hm_parse_size(cases[i].text, &value), cases[i].ok);
		assert_true(value == (cases[i].ok ? cases[i].value : 4711));
	}
}

static void params_list_selects_or_leaves_out(void **state)
{
	static const struct {
		const char *list;
		bool selected;
	} cases[] = {
		{ NULL, true },	     { "", true },	    { "hmreg", true },
		{ "HMREG", true },   { "a,hmreg", true },   { " a , hmreg ,b", true },
		{ "hmreg,", true },  { "a", false },	    { "hmregx", false },
		{ "hm", false },     { "a,b", false },	    { ",", false },
		{ "^hmreg", false }, { "^a", true },	    { "^a,hmreg", false },
		{ "^", true },	     { "a,^hmreg", false }, { "hmreg;ofi", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hm_list_selects(cases[i].list, "hmreg"), cases[i].selected);
}

/* ---- the table ---- */

static void check_defaults(void)
{
	CHECK(hm_param_str(HM_PARAM_LOG_LEVEL) == NULL);
	CHECK(hm_param_str(HM_PARAM_LOG_PROV) == NULL);
	CHECK(hm_param_str(HM_PARAM_LOG_SUBSYS) == NULL);
	CHECK(hm_param_int(HM_PARAM_LOG_INTERVAL) == 2000);
	CHECK(hm_param_str(HM_PARAM_PROVIDER) == NULL);
	CHECK(hm_param_bool(HM_PARAM_SW_ENABLE));
	CHECK(hm_param_size(HM_PARAM_SW_MAX_UNEXPECTED) == (size_t)1 << 30);
	CHECK(hm_param_bool(HM_PARAM_SW_FAULT_GUARD));
	CHECK(hm_param_size(HM_PARAM_MR_MAX_COUNT) == 16777216);
}

static char provider_env[] = "FI_PROVIDER=^hmreg";

static void check_values(void)
{
	CHECK(strcmp(hm_param_str(HM_PARAM_LOG_LEVEL), "warn") == 0);
	CHECK(strcmp(hm_param_str(HM_PARAM_LOG_PROV), "x") == 0);
	CHECK(strcmp(hm_param_str(HM_PARAM_LOG_SUBSYS), "mr") == 0);
	CHECK(hm_param_int(HM_PARAM_LOG_INTERVAL) == -3);
	CHECK(strcmp(hm_param_str(HM_PARAM_PROVIDER), "^hmreg") == 0);
	CHECK(!hm_param_bool(HM_PARAM_SW_ENABLE));
	CHECK(hm_param_size(HM_PARAM_SW_MAX_UNEXPECTED) == 65536);
	CHECK(!hm_param_bool(HM_PARAM_SW_FAULT_GUARD));
	CHECK(hm_param_size(HM_PARAM_MR_MAX_COUNT) == SIZE_MAX);

	/* Read once, and kept apart from the environment. */
	setenv("HMREG_SW_ENABLE", "1", 1);
	memset(strchr(provider_env, '^'), 'x', 6);
	CHECK(strcmp(getenv("FI_PROVIDER"), "xxxxxx") == 0);
	CHECK(!hm_param_bool(HM_PARAM_SW_ENABLE));
	CHECK(strcmp(hm_param_str(HM_PARAM_PROVIDER), "^hmreg") == 0);
}

static void params_unset_or_empty_is_the_default(void **state)
{
	(void)state;
	child_run(&child, NULL, check_defaults);
	child_run(&child,
		  ENV("FI_LOG_LEVEL=", "FI_LOG_PROV=", "FI_LOG_SUBSYS=", "FI_LOG_INTERVAL=",
		      "FI_PROVIDER=", "HMREG_SW_ENABLE=", "HMREG_SW_MAX_UNEXPECTED=",
		      "HMREG_SW_FAULT_GUARD=", "HMREG_MR_MAX_COUNT="),
		  check_defaults);
	assert_int_equal(child.len, 0);
}

static void params_every_variable_is_read(void **state)
{
	(void)state;
	child_run(&child,
		  ENV("FI_LOG_LEVEL=warn", "FI_LOG_PROV=x", "FI_LOG_SUBSYS=mr",
		      "FI_LOG_INTERVAL=-3", provider_env, "HMREG_SW_ENABLE=no",
		      "HMREG_SW_MAX_UNEXPECTED=64K", "HMREG_SW_FAULT_GUARD=off",
		      "HMREG_MR_MAX_COUNT=-1"),
		  check_values);
	assert_int_equal(child.len, 0);
}

static void *read_in_thread(void *arg)
{
	pthread_barrier_wait(arg);
	CHECK(hm_param_int(HM_PARAM_LOG_INTERVAL) == 2000);
	CHECK(hm_param_bool(HM_PARAM_SW_ENABLE));
	CHECK(hm_param_size(HM_PARAM_MR_MAX_COUNT) == 16777216);
	return NULL;
}

static void read_in_threads(void)
{
	enum {
		THREADS = 8
	};
	pthread_barrier_t barrier;
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, read_in_thread, &barrier) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
}

static void api_20_params_bad_values_are_reported_once(void **state)
{
	(void)state;
	child_run(&child,
		  ENV("FI_LOG_LEVEL=warn", "HMREG_SW_ENABLE=maybe", "HMREG_MR_MAX_COUNT=many",
		      "FI_LOG_INTERVAL=soon", "HMREG_SW_MAX_UNEXPECTED=1Q"),
		  read_in_threads);
	assert_int_equal(child.writes, 4);
	assert_true(child.whole_lines);
	assert_non_null(strstr(child.text, "> HMREG_SW_ENABLE=maybe is not one of 0/1, off/on, "
					   "false/true, no/yes; the default 1 is used\n"));
	assert_non_null(strstr(child.text, "> HMREG_MR_MAX_COUNT=many is not a size"));
	assert_non_null(strstr(child.text, "; the default 16777216 is used\n"));
	assert_non_null(strstr(child.text, "> FI_LOG_INTERVAL=soon is not an integer; "
					   "the default 2000 is used\n"));
	assert_non_null(strstr(child.text, "> HMREG_SW_MAX_UNEXPECTED=1Q is not a size"));
}

/* ---- fi_getparams ---- */

static struct fi_param *find(struct fi_param *params, int count, const char *name)
{
	struct fi_param *found = NULL;

	for (int i = 0; i < count; i++) {
		if (strcmp(params[i].name, name) == 0) {
			CHECK(!found);
			found = &params[i];
		}
	}
	return found;
}

static void list_params(void)
{
	struct fi_param *params, *param;
	int count = -1;

	CHECK(fi_getparams(&params, &count) == 0);
	CHECK(count == HM_PARAM_COUNT);
	for (int i = 0; i < count; i++) {
		CHECK(params[i].name && params[i].help_string && *params[i].help_string);
		CHECK(find(params, count, params[i].name) == &params[i]);
		CHECK(strncmp(params[i].name, "FI_", 3) == 0 ||
		      strncmp(params[i].name, "HMREG_", 6) == 0);
	}
	param = find(params, count, "HMREG_SW_MAX_UNEXPECTED");
	CHECK(param && param->type == FI_PARAM_SIZE_T && !param->value);
	param = find(params, count, "HMREG_SW_ENABLE");
	CHECK(param && param->type == FI_PARAM_BOOL && strcmp(param->value, "off") == 0);
	/* Copies: the caller's environment and later calls do not reach them. */
	setenv("HMREG_SW_ENABLE", "on", 1);
	CHECK(strcmp(param->value, "off") == 0);
	fi_freeparams(params);

	CHECK(fi_getparams(&params, &count) == 0);
	CHECK(strcmp(find(params, count, "HMREG_SW_ENABLE")->value, "on") == 0);
	fi_freeparams(params);
	fi_freeparams(NULL);
}

static void list_params_wrongly(void)
{
	struct fi_param *params = (struct fi_param *)&lines;
	int count = 4711;

	hm_log_set_sink(note, NULL);
	CHECK(fi_getparams(NULL, &count) == -FI_EINVAL);
	CHECK(logged("fi_getparams: params is NULL"));
	CHECK(fi_getparams(&params, NULL) == -FI_EINVAL);
	CHECK(logged("fi_getparams: count is NULL"));
	CHECK(count == 4711 && params == (struct fi_param *)&lines);
}

static void api_01_getparams_lists_the_table(void **state)
{
	(void)state;
	child_run(&child, ENV("HMREG_SW_ENABLE=off"), list_params);
}

static void api_01_getparams_refuses_null(void **state)
{
	(void)state;
	child_run(&child, NULL, list_params_wrongly);
}

/* ---- fi_param_define and fi_param_get ---- */

static void define_and_get(void)
{
	struct fi_param *params, *param;
	size_t size = 11;
	char *text = NULL;
	int count, num = 12;

	hm_log_set_sink(note, NULL);
	CHECK(fi_param_define(&prov, "text", FI_PARAM_STRING, "help %d", 7) == 0);
	CHECK(fi_param_define(&prov, "num", FI_PARAM_INT, "a number") == 0);
	CHECK(fi_param_define(&prov, "on", FI_PARAM_BOOL, "a switch") == 0);
	CHECK(fi_param_define(&prov, "size", FI_PARAM_SIZE_T, "a size") == 0);
	CHECK(fi_param_define(NULL, "core_num", FI_PARAM_INT, "the library's") == 0);
	CHECK(fi_getparams(&params, &count) == 0);
	CHECK(count == HM_PARAM_COUNT + 5);
	param = find(params, count, "FI_SOME_TEXT");
	CHECK(param && strcmp(param->help_string, "Some: help 7") == 0 && !param->value);
	param = find(params, count, "FI_CORE_NUM");
	CHECK(param && strcmp(param->help_string, "the library's") == 0);
	fi_freeparams(params);

	CHECK(fi_param_get(&prov, "num", &num) == -FI_ENODATA && num == 12);
	setenv("FI_SOME_TEXT", "any text", 1);
	setenv("FI_SOME_NUM", "-5", 1);
	setenv("FI_SOME_ON", "yes", 1);
	setenv("FI_SOME_SIZE", "4K", 1);
	setenv("FI_CORE_NUM", "0x20", 1);
	CHECK(fi_param_get(&prov, "text", &text) == 0 && strcmp(text, "any text") == 0);
	CHECK(fi_param_get(&prov, "NUM", &num) == 0 && num == -5);
	CHECK(fi_param_get(&prov, "on", &num) == 0 && num == 1);
	CHECK(fi_param_get(&prov, "size", &size) == 0 && size == 4096);
	CHECK(fi_param_get(NULL, "core_num", &num) == 0 && num == 32);
	setenv("FI_SOME_ON", "0", 1);
	CHECK(fi_param_get(&prov, "on", &num) == 0 && num == 0);
	/* The library's own, too. */
	CHECK(fi_param_get(NULL, "log_interval", &num) == -FI_ENODATA);
	setenv("FI_LOG_INTERVAL", "7", 1);
	CHECK(fi_param_get(NULL, "log_interval", &num) == 0 && num == 7);
	CHECK(logged_nothing());
}

static void get_wrongly(void)
{
	static struct fi_provider nameless;
	size_t size = 11;
	int num = 12;

	hm_log_set_sink(note, NULL);
	CHECK(fi_param_define(&prov, "num", FI_PARAM_INT, "a number") == 0);
	CHECK(fi_param_define(&prov, "on", FI_PARAM_BOOL, "a switch") == 0);
	CHECK(fi_param_define(&prov, "size", FI_PARAM_SIZE_T, "a size") == 0);
	CHECK(logged_nothing());
	setenv("FI_SOME_NUM", "5 apples", 1);
	setenv("FI_SOME_ON", "perhaps", 1);
	setenv("FI_SOME_SIZE", "", 1);
	CHECK(fi_param_get(&prov, "num", &num) == -FI_EINVAL && num == 12);
	CHECK(logged("FI_SOME_NUM=5 apples is not an integer"));
	CHECK(fi_param_get(&prov, "on", &num) == -FI_EINVAL && num == 12);
	CHECK(logged("FI_SOME_ON=perhaps is not one of"));
	CHECK(fi_param_get(&prov, "size", &size) == -FI_EINVAL && size == 11);
	CHECK(logged("FI_SOME_SIZE= is not a size"));
	CHECK(fi_param_get(&prov, "never", &num) == -FI_ENOENT && num == 12);
	CHECK(logged("FI_SOME_NEVER was never defined"));
	CHECK(fi_param_get(NULL, "num", &num) == -FI_ENOENT);
	CHECK(logged("FI_NUM was never defined"));
	CHECK(fi_param_get(&prov, NULL, &num) == -FI_EINVAL);
	CHECK(logged("param_name is NULL"));
	CHECK(fi_param_get(&prov, "num", NULL) == -FI_EINVAL);
	CHECK(logged("value is NULL"));
	CHECK(fi_param_get(&nameless, "num", &num) == -FI_EINVAL);
	CHECK(logged("the provider's name is NULL"));
}

static int define(const struct fi_provider *provider, const char *name, int type, const char *help)
{
	return help ? fi_param_define(provider, name, (enum fi_param_type)type, "%s", help)
		    : fi_param_define(provider, name, (enum fi_param_type)type, NULL);
}

static void define_wrongly(void)
{
	static const struct fi_provider nameless, empty_name = { .name = "" };
	char nothing[] = ""; /* a constant would be noticed by the compiler */
	struct fi_param *params;
	int count;

	hm_log_set_sink(note, NULL);
	CHECK(define(&nameless, "x", FI_PARAM_INT, "help") == -FI_EINVAL);
	CHECK(logged("the provider has no name"));
	CHECK(define(&empty_name, "x", FI_PARAM_INT, "help") == -FI_EINVAL);
	CHECK(logged("the provider has no name"));
	CHECK(define(&prov, NULL, FI_PARAM_INT, "help") == -FI_EINVAL);
	CHECK(logged("param_name is NULL or empty"));
	CHECK(define(&prov, "", FI_PARAM_INT, "help") == -FI_EINVAL);
	CHECK(logged("param_name is NULL or empty"));
	CHECK(define(&prov, "x", FI_PARAM_INT, NULL) == -FI_EINVAL);
	CHECK(logged("the help string is NULL or empty"));
	CHECK(fi_param_define(&prov, "x", FI_PARAM_INT, nothing, 0) == -FI_EINVAL);
	CHECK(logged("the help string is NULL or empty"));
	CHECK(define(&prov, "x", 4, "help") == -FI_EINVAL);
	CHECK(logged("the type is none of enum fi_param_type"));
	CHECK(define(&prov, "x", -1, "help") == -FI_EINVAL);
	CHECK(logged("the type is none of enum fi_param_type"));

	/* The same again is no mistake, another type is. */
	CHECK(define(&prov, "x", FI_PARAM_INT, "help") == 0);
	CHECK(define(&prov, "X", FI_PARAM_INT, "other help") == 0);
	CHECK(logged_nothing());
	CHECK(define(&prov, "x", FI_PARAM_BOOL, "help") == -FI_EALREADY);
	CHECK(logged("FI_SOME_X is already defined with another type"));
	CHECK(define(NULL, "provider", FI_PARAM_INT, "help") == -FI_EALREADY);
	CHECK(logged("FI_PROVIDER is already defined with another type"));

	CHECK(fi_getparams(&params, &count) == 0);
	CHECK(count == HM_PARAM_COUNT + 1);
	CHECK(strcmp(find(params, count, "FI_SOME_X")->help_string, "Some: help") == 0);
	fi_freeparams(params);
}

static void api_01_param_define_and_get(void **state)
{
	(void)state;
	child_run(&child, NULL, define_and_get);
}

static void api_01_param_get_refuses_what_it_cannot_give(void **state)
{
	(void)state;
	child_run(&child, NULL, get_wrongly);
}

static void api_01_param_define_refuses_bad_arguments(void **state)
{
	(void)state;
	child_run(&child, NULL, define_wrongly);
}

enum {
	DEFINERS = 6,
	DEFINITIONS = 50
};

static void *define_in_thread(void *arg)
{
	pthread_barrier_wait(arg);
	for (int i = 0; i < DEFINITIONS; i++) {
		struct fi_param *params;
		char name[32];
		int count, num;

		/* All threads define the same names: one of them is first. */
		snprintf(name, sizeof(name), "param_%d", i);
		CHECK(fi_param_define(&prov, name, FI_PARAM_INT, "number %d", i) == 0);
		CHECK(fi_param_get(&prov, name, &num) == -FI_ENODATA);
		CHECK(fi_getparams(&params, &count) == 0);
		CHECK(count > HM_PARAM_COUNT + i);
		fi_freeparams(params);
	}
	return NULL;
}

static void define_in_threads(void)
{
	pthread_barrier_t barrier;
	pthread_t threads[DEFINERS];
	struct fi_param *params;
	int count;

	pthread_barrier_init(&barrier, NULL, DEFINERS);
	for (int i = 0; i < DEFINERS; i++)
		CHECK(pthread_create(&threads[i], NULL, define_in_thread, &barrier) == 0);
	for (int i = 0; i < DEFINERS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	CHECK(fi_getparams(&params, &count) == 0);
	CHECK(count == HM_PARAM_COUNT + DEFINITIONS);
	fi_freeparams(params);
}

static void api_19_params_defined_and_listed_by_threads(void **state)
{
	(void)state;
	child_run(&child, NULL, define_in_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(params_int_is_the_whole_text),
		cmocka_unit_test(params_bool_knows_four_pairs_of_words),
		cmocka_unit_test(params_size_takes_a_unit_and_no_sign),
		cmocka_unit_test(params_list_selects_or_leaves_out),
		cmocka_unit_test(params_unset_or_empty_is_the_default),
		cmocka_unit_test(params_every_variable_is_read),
		cmocka_unit_test(api_20_params_bad_values_are_reported_once),
		cmocka_unit_test(api_01_getparams_lists_the_table),
		cmocka_unit_test(api_01_getparams_refuses_null),
		cmocka_unit_test(api_01_param_define_and_get),
		cmocka_unit_test(api_01_param_get_refuses_what_it_cannot_give),
		cmocka_unit_test(api_01_param_define_refuses_bad_arguments),
		cmocka_unit_test(api_19_params_defined_and_listed_by_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
