/* SPDX-License-Identifier: BSD-2-Clause */
/* Logging: what is printed when, the shape of a line, the sink, and threads that log first. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <regex.h>

#include "core/base/log.h"
#include "tests/unit/child.h"

#define ENV(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct child child;

static const struct fi_provider foreign = { .name = "other" };
static const struct fi_provider ours = { .name = "hmreg" };

static bool matches(const char *text, const char *pattern)
{
	regex_t regex;
	int rc;

	assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	rc = regexec(&regex, text, 0, NULL, 0);
	regfree(&regex);
	return rc == 0;
}

/* ---- what is printed ---- */

static void log_every_level(void)
{
	HM_WARN(FI_LOG_MR, "a warning");
	HM_TRACE(FI_LOG_MR, "a trace");
	HM_INFO(FI_LOG_MR, "an info");
	HM_DEBUG(FI_LOG_MR, "a debug");
}

static void log_every_subsys(void)
{
	for (int i = 0; i < FI_LOG_SUBSYS_MAX; i++)
		HM_WARN((enum fi_log_subsys)i, "[%d]", i);
}

static void log_every_provider(void)
{
	fi_log(NULL, FI_LOG_WARN, FI_LOG_CQ, "f", 1, "library\n");
	fi_log(&ours, FI_LOG_WARN, FI_LOG_CQ, "f", 1, "ours\n");
	fi_log(&foreign, FI_LOG_WARN, FI_LOG_CQ, "f", 1, "foreign\n");
}

static void api_20_log_unset_or_empty_level_prints_nothing(void **state)
{
	(void)state;
	child_run(&child, NULL, log_every_level);
	assert_int_equal(child.len, 0);
	child_run(&child, ENV("FI_LOG_LEVEL="), log_every_level);
	assert_int_equal(child.len, 0);
	child_run(&child, ENV("FI_LOG_SUBSYS=mr"), log_every_level);
	assert_int_equal(child.len, 0);
}

static void api_20_log_line_has_the_documented_form(void **state)
{
	char pattern[256];

	(void)state;
	child_run(&child, ENV("FI_LOG_LEVEL=warn"), log_every_level);
	assert_int_equal(child.writes, 1);
	assert_true(child.whole_lines);
	snprintf(pattern, sizeof(pattern),
		 "^hmreg:%d:1[0-9]{9}:mr:log_every_level\\(\\):[0-9]+<warn> a warning\n$",
		 child.pid);
	assert_true(matches(child.text, pattern));
}

static void api_20_log_level_includes_those_before_it(void **state)
{
	static const struct {
		const char *env;
		size_t lines;
	} cases[] = {
		{ "FI_LOG_LEVEL=warn", 1 },  { "FI_LOG_LEVEL=trace", 2 },
		{ "FI_LOG_LEVEL=info", 3 },  { "FI_LOG_LEVEL=debug", 4 },
		{ "FI_LOG_LEVEL=DEBUG", 4 },
	};
	static const char *const marks[] = { "<warn> a warning", "<trace> a trace",
					     "<info> an info", "<debug> a debug" };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		child_run(&child, ENV(cases[i].env), log_every_level);
		assert_int_equal(child.writes, cases[i].lines);
		for (size_t n = 0; n < 4; n++)
			assert_int_equal(strstr(child.text, marks[n]) != NULL, n < cases[i].lines);
	}
}

static void api_20_log_subsystems_are_selected_by_list(void **state)
{
	static const struct {
		const char *env;
		const char *shown; /* numbers of the subsystems */
	} cases[] = {
		{ "FI_LOG_SUBSYS=", "0123456789" },
		{ "FI_LOG_SUBSYS=mr", "8" },
		{ "FI_LOG_SUBSYS=mr,core", "08" },
		{ "FI_LOG_SUBSYS= MR , ep_data,", "48" },
		{ "FI_LOG_SUBSYS=^mr,cq", "01234579" },
		{ "FI_LOG_SUBSYS=^", "0123456789" },
		{ "FI_LOG_SUBSYS=core,fabric,domain,ep_ctrl,ep_data,av,cq,eq,mr,cntr",
		  "0123456789" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		child_run(&child, ENV("FI_LOG_LEVEL=debug", cases[i].env), log_every_subsys);
		assert_int_equal(child.writes, strlen(cases[i].shown));
		for (int n = 0; n < FI_LOG_SUBSYS_MAX; n++) {
			char mark[] = { '[', (char)('0' + n), ']', '\0' };

			assert_int_equal(strstr(child.text, mark) != NULL,
					 strchr(cases[i].shown, '0' + n) != NULL);
		}
	}
}

static void api_20_log_providers_are_selected_by_list(void **state)
{
	static const struct {
		const char *env;
		bool own, other;
	} cases[] = {
		{ "FI_LOG_PROV=", true, true },	      { "FI_LOG_PROV=hmreg", true, false },
		{ "FI_LOG_PROV=HMREG", true, false }, { "FI_LOG_PROV=^hmreg", false, true },
		{ "FI_LOG_PROV=other", false, true }, { "FI_LOG_PROV=^other", true, false },
		{ "FI_LOG_PROV=none", false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		child_run(&child, ENV("FI_LOG_LEVEL=warn", cases[i].env), log_every_provider);
		assert_int_equal(strstr(child.text, ":cq:f():1<warn> library\n") != NULL,
				 cases[i].own);
		assert_int_equal(strstr(child.text, ":cq:f():1<warn> ours\n") != NULL,
				 cases[i].own);
		assert_int_equal(strstr(child.text, ":other:cq:f():1<warn> foreign\n") != NULL,
				 cases[i].other);
	}
}

static void api_20_log_wrong_settings_are_reported_once(void **state)
{
	(void)state;
	/* The word counts as warn. */
	child_run(&child, ENV("FI_LOG_LEVEL=loud"), log_every_level);
	assert_int_equal(child.writes, 2);
	assert_non_null(
		strstr(child.text, "FI_LOG_LEVEL=loud is not one of warn, trace, info, debug"));
	assert_non_null(strstr(child.text, "a warning"));

	/* Reported although the list selects no subsystem to report it in. */
	child_run(&child, ENV("FI_LOG_LEVEL=info", "FI_LOG_SUBSYS=mrr"), log_every_subsys);
	assert_int_equal(child.writes, 1);
	assert_non_null(strstr(child.text, "FI_LOG_SUBSYS=mrr: \"mrr\" names no subsystem"));

	child_run(&child, ENV("FI_LOG_LEVEL=loud", "FI_LOG_PROV=^hmreg"), log_every_level);
	assert_int_equal(child.writes, 0);
}

/* ---- what is in a line ---- */

static void log_awkward_text(void)
{
	static char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	HM_WARN(FI_LOG_CORE, "%s", text);
	HM_WARN(FI_LOG_CORE, "one\ntwo\r\tthree\x7f%s\n\n", "");
	HM_WARN(FI_LOG_CORE, "%s", "");
	fi_log(NULL, FI_LOG_WARN, FI_LOG_CORE, text, 1, "long name");
	fi_log(NULL, FI_LOG_WARN, FI_LOG_CORE, NULL, 1, "no name");
}

static void api_20_log_any_text_is_one_line(void **state)
{
	const char *second;

	(void)state;
	child_run(&child, ENV("FI_LOG_LEVEL=warn"), log_awkward_text);
	assert_int_equal(child.writes, 5);
	assert_true(child.whole_lines);
	second = strchr(child.text, '\n') + 1;
	assert_true(second - child.text <= 2048);
	assert_memory_equal(second - 5, "x...\n", 5);
	assert_non_null(strstr(second, "<warn> one two  three \n"));
	assert_true(matches(second, "<warn> \n"));
	assert_non_null(strstr(second, "x():1<warn> long name\n"));
	assert_non_null(strstr(second, ":core:?():1<warn> no name\n"));
}

static void log_and_keep_errno(void)
{
	errno = 4711;
	HM_WARN(FI_LOG_CORE, "first");
	CHECK(errno == 4711);
	fi_log(NULL, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "second");
	CHECK(errno == 4711);
	CHECK(fi_log_enabled(NULL, FI_LOG_WARN, FI_LOG_CORE) == 1);
	CHECK(errno == 4711);
	close(STDERR_FILENO);
	HM_WARN(FI_LOG_CORE, "nobody listens");
	CHECK(errno == 4711);
}

static void api_20_log_keeps_errno(void **state)
{
	(void)state;
	child_run(&child, ENV("FI_LOG_LEVEL=warn"), log_and_keep_errno);
	assert_int_equal(child.writes, 2);
}

static int evaluated;

static int evaluate(void)
{
	return ++evaluated;
}

static void log_nothing(void)
{
	HM_INFO(FI_LOG_MR, "%d", evaluate());
	CHECK(evaluated == 0);
	HM_WARN(FI_LOG_MR, "%d", evaluate());
	CHECK(evaluated == 1);
}

static void log_arguments_are_not_evaluated_when_off(void **state)
{
	(void)state;
	child_run(&child, ENV("FI_LOG_LEVEL=warn"), log_nothing);
	assert_int_equal(child.writes, 1);
}

/* ---- the provider interface ---- */

static void ask_what_is_enabled(void)
{
	CHECK(fi_log_enabled(NULL, FI_LOG_INFO, FI_LOG_MR) == 1);
	CHECK(fi_log_enabled(&foreign, FI_LOG_TRACE, FI_LOG_MR) == 1);
	CHECK(fi_log_enabled(NULL, FI_LOG_DEBUG, FI_LOG_MR) == 0);
	CHECK(fi_log_enabled(NULL, FI_LOG_WARN, FI_LOG_CQ) == 0);
	CHECK(fi_log_enabled(NULL, FI_LOG_MAX, FI_LOG_MR) == 0);
	CHECK(fi_log_enabled(NULL, FI_LOG_WARN, FI_LOG_SUBSYS_MAX) == 0);
	CHECK(fi_log_enabled(NULL, (enum fi_log_level) - 1, FI_LOG_MR) == 0);
	CHECK(fi_log_enabled(NULL, FI_LOG_WARN, (enum fi_log_subsys)1000) == 0);
	fi_log(NULL, (enum fi_log_level)77, FI_LOG_MR, "f", 1, "never");
	fi_log(NULL, FI_LOG_WARN, (enum fi_log_subsys)77, "f", 1, "never");
	fi_log(NULL, FI_LOG_WARN, FI_LOG_CQ, "f", 1, "never");
}

static void api_01_fi_log_enabled_follows_the_settings(void **state)
{
	(void)state;
	child_run(&child, ENV("FI_LOG_LEVEL=info", "FI_LOG_SUBSYS=mr"), ask_what_is_enabled);
	assert_int_equal(child.len, 0);
}

static void ready_within_interval(void)
{
	uint64_t first = 0, second = 0;

	CHECK(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_MR, NULL) == 0);
	CHECK(fi_log_ready(NULL, FI_LOG_INFO, FI_LOG_MR, &first) == 0);
	CHECK(first == 0);
	CHECK(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_MR, &first) == 1);
	CHECK(first != 0);
	CHECK(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_MR, &first) == 0);
	CHECK(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_MR, &second) == 1);
}

static void ready_after_interval(void)
{
	uint64_t showtime = 0;

	CHECK(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_MR, &showtime) == 1);
	CHECK(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_MR, &showtime) == 0);
	usleep(25000);
	CHECK(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_MR, &showtime) == 1);
}

static void ready_always(void)
{
	uint64_t showtime = 0;

	for (int i = 0; i < 5; i++)
		CHECK(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_MR, &showtime) == 1);
}

static void api_01_fi_log_ready_limits_the_rate(void **state)
{
	(void)state;
	child_run(&child, ENV("FI_LOG_LEVEL=warn", "FI_LOG_INTERVAL=100000"),
		  ready_within_interval);
	child_run(&child, ENV("FI_LOG_LEVEL=warn", "FI_LOG_INTERVAL=20"), ready_after_interval);
	child_run(&child, ENV("FI_LOG_LEVEL=warn", "FI_LOG_INTERVAL=0"), ready_always);
	child_run(&child, ENV("FI_LOG_LEVEL=warn", "FI_LOG_INTERVAL=-5"), ready_always);
}

/* ---- the sink ---- */

static struct {
	int calls;
	enum fi_log_level level;
	enum fi_log_subsys subsys;
	char func[64];
	char text[256];
} seen;

static void note(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		 const char *text, void *arg)
{
	CHECK(arg == &seen);
	CHECK(line > 0);
	seen.calls++;
	seen.level = level;
	seen.subsys = subsys;
	snprintf(seen.func, sizeof(seen.func), "%s", func);
	snprintf(seen.text, sizeof(seen.text), "%s", text);
	HM_WARN(FI_LOG_CORE, "from within the sink");
}

static void use_sink(void)
{
	hm_log_set_sink(note, &seen);
	log_every_level();
	CHECK(seen.calls == 1);
	CHECK(seen.level == FI_LOG_WARN && seen.subsys == FI_LOG_MR);
	CHECK(strcmp(seen.func, "log_every_level") == 0);
	CHECK(strcmp(seen.text, "a warning") == 0);
	CHECK(fi_log_enabled(&foreign, FI_LOG_WARN, FI_LOG_CQ) == 1);
	CHECK(fi_log_enabled(NULL, FI_LOG_TRACE, FI_LOG_CQ) == 0);
	fi_log(&foreign, FI_LOG_WARN, FI_LOG_CQ, "f", 3, "foreign\n");
	CHECK(seen.calls == 2 && strcmp(seen.text, "foreign") == 0);
	hm_log_set_sink(NULL, NULL);
	log_every_level();
	CHECK(seen.calls == 2);
	CHECK(!hm_log_on(FI_LOG_WARN, FI_LOG_MR));
}

static void use_sink_with_info(void)
{
	hm_log_set_sink(note, &seen);
	log_every_level();
	CHECK(seen.calls == 3);
	CHECK(strcmp(seen.text, "an info") == 0);
	HM_WARN(FI_LOG_CQ, "filtered out on standard error only");
	CHECK(seen.calls == 4);
}

static void api_20_log_sink_sees_warnings_without_settings(void **state)
{
	(void)state;
	child_run(&child, NULL, use_sink);
	assert_int_equal(child.len, 0);
}

static void api_20_log_sink_sees_what_is_enabled(void **state)
{
	(void)state;
	child_run(&child, ENV("FI_LOG_LEVEL=info", "FI_LOG_SUBSYS=mr"), use_sink_with_info);
	assert_int_equal(child.writes, 3);
	assert_null(strstr(child.text, "filtered"));
}

/* ---- threads ---- */

enum {
	THREADS = 8,
	LINES = 40
};

static pthread_barrier_t barrier;
static uint64_t shared_showtime;
static atomic_int ready_count;

static void *log_from_thread(void *arg)
{
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < LINES; i++) {
		HM_WARN(FI_LOG_MR, "thread %d line %d.", (int)(intptr_t)arg, i);
		if (fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_CQ, &shared_showtime))
			atomic_fetch_add(&ready_count, 1);
	}
	return NULL;
}

static void log_from_threads(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, log_from_thread, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	CHECK(atomic_load(&ready_count) == 1);
}

static void api_19_log_first_messages_race(void **state)
{
	(void)state;
	child_run(&child, ENV("FI_LOG_LEVEL=nonsense", "FI_LOG_INTERVAL=100000"), log_from_threads);
	/* Every line whole, none lost, and one complaint about the level. */
	assert_int_equal(child.writes, THREADS * LINES + 1);
	assert_true(child.whole_lines);
	for (int t = 0; t < THREADS; t++) {
		for (int i = 0; i < LINES; i++) {
			char mark[64];

			snprintf(mark, sizeof(mark), "<warn> thread %d line %d.\n", t, i);
			assert_non_null(strstr(child.text, mark));
		}
	}
}

static void count(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		  const char *text, void *arg)
{
	(void)level, (void)subsys, (void)func, (void)line, (void)text;
	/* Not atomic: calls of the sink are serialised. */
	++*(int *)arg;
}

static void *log_many(void *arg)
{
	for (int i = 0; i < 500; i++)
		HM_WARN(FI_LOG_MR, "%p", arg);
	return NULL;
}

static void change_sink_while_logging(void)
{
	pthread_t threads[2];
	int calls = 0, after;

	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, log_many, NULL) == 0);
	for (int i = 0; i < 200; i++) {
		hm_log_set_sink(count, &calls);
		hm_log_set_sink(NULL, NULL);
		after = calls;
		sched_yield();
		CHECK(calls == after);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void api_19_log_sink_changes_while_others_log(void **state)
{
	(void)state;
	child_run(&child, NULL, change_sink_while_logging);
	assert_int_equal(child.len, 0);
}

static void log_names_outside_the_enumerations_are_null(void **state)
{
	(void)state;
	assert_string_equal(hm_log_level_name(FI_LOG_DEBUG), "debug");
	assert_string_equal(hm_log_subsys_name(FI_LOG_CNTR), "cntr");
	assert_null(hm_log_level_name(FI_LOG_MAX));
	assert_null(hm_log_level_name((enum fi_log_level) - 1));
	assert_null(hm_log_subsys_name(FI_LOG_SUBSYS_MAX));
	assert_null(hm_log_subsys_name((enum fi_log_subsys) - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_20_log_unset_or_empty_level_prints_nothing),
		cmocka_unit_test(api_20_log_line_has_the_documented_form),
		cmocka_unit_test(api_20_log_level_includes_those_before_it),
		cmocka_unit_test(api_20_log_subsystems_are_selected_by_list),
		cmocka_unit_test(api_20_log_providers_are_selected_by_list),
		cmocka_unit_test(api_20_log_wrong_settings_are_reported_once),
		cmocka_unit_test(api_20_log_any_text_is_one_line),
		cmocka_unit_test(api_20_log_keeps_errno),
		cmocka_unit_test(log_arguments_are_not_evaluated_when_off),
		cmocka_unit_test(api_01_fi_log_enabled_follows_the_settings),
		cmocka_unit_test(api_01_fi_log_ready_limits_the_rate),
		cmocka_unit_test(api_20_log_sink_sees_warnings_without_settings),
		cmocka_unit_test(api_20_log_sink_sees_what_is_enabled),
		cmocka_unit_test(api_19_log_first_messages_race),
		cmocka_unit_test(api_19_log_sink_changes_while_others_log),
		cmocka_unit_test(log_names_outside_the_enumerations_are_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
