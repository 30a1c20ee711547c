/* SPDX-License-Identifier: BSD-2-Clause */
/* Which monitor is used, what is said about it, and what happens when it fails; over monitors of the test's own. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "monitor_scene.h"

#define BASE ((char *)0x7f1234560000)
#define LEN  (16 * PAGE)

static struct {
	bool works;
	unsigned started, stopped, forked;
} mine[3];

static int begin(int n, char *why, size_t size)
{
	static const char *const reason[] = { "no device node", "not allowed", "no symbols" };

	if (!mine[n].works) {
		snprintf(why, size, "%s", reason[n]);
		return -FI_ENOSYS;
	}
	mine[n].started++;
	return 0;
}

static int start_0(char *why, size_t size)
{
	return begin(0, why, size);
}

static int start_1(char *why, size_t size)
{
	return begin(1, why, size);
}

static int start_2(char *why, size_t size)
{
	return begin(2, why, size);
}

static void stop_0(void)
{
	mine[0].stopped++;
}

static void stop_1(void)
{
	mine[1].stopped++;
}

static void stop_2(void)
{
	mine[2].stopped++;
}

static const struct hm_monitor fake[3] = {
	{ .name = "kdreg2", .start = start_0, .stop = stop_0 },
	{ .name = "userfaultfd", .start = start_1, .stop = stop_1 },
	{ .name = "memhooks", .start = start_2, .stop = stop_2 },
};
static const struct hm_monitor *const fakes[] = { &fake[0], &fake[1], &fake[2] };

static struct scene scene;

static void choose_from(const char *setting, bool a, bool b, bool c)
{
	memset(mine, 0, sizeof(mine));
	memset(&logged, 0, sizeof(logged));
	mine[0].works = a;
	mine[1].works = b;
	mine[2].works = c;
	hm_monitor_override(setting, fakes, 3);
}

static int set_up(void **state)
{
	(void)state;
	hm_log_set_sink(remember_line, NULL);
	/* As if nothing had been told before: another outcome in between. */
	choose_from(NULL, false, false, false);
	scene_open(&scene);
	return hm_cache_destroy(&scene.cache);
}

static int tear_down(void **state)
{
	(void)state;
	hm_log_set_sink(NULL, NULL);
	hm_monitor_override(NULL, NULL, 0);
	return hm_monitor_used() ? -1 : 0;
}

static void none_is_used(void)
{
	uint64_t number;

	assert_int_equal(scene_open(&scene), -FI_ENOSYS);
	assert_null(hm_monitor_used());
	number = scene_use(&scene, BASE, LEN);
	assert_int_equal(scene.watch_code, -FI_ENOSYS);
	assert_int_not_equal(scene_use(&scene, BASE, LEN), number);
	assert_int_equal(hm_cache_destroy(&scene.cache), 0);
}

static void cache_01_the_first_that_works(void **state)
{
	char name[32], why[256];

	(void)state;
	for (int first = 0; first < 3; first++) {
		choose_from(NULL, first == 0, first <= 1, true);
		assert_int_equal(scene_open(&scene), 0);
		assert_ptr_equal(hm_monitor_used(), &fake[first]);
		for (int i = 0; i < 3; i++)
			assert_int_equal(mine[i].started, i == first);
		assert_int_equal(logged.warnings, 0);
		assert_true(hm_monitor_tell(name, sizeof(name), why, sizeof(why)));
		assert_string_equal(name, fake[first].name);
		assert_int_equal(strstr(why, "kdreg2: no device node") != NULL, first > 0);
		assert_int_equal(strstr(why, "userfaultfd: not allowed") != NULL, first > 1);
		scene_close(&scene);
		assert_int_equal(mine[first].stopped, 1);
	}
}

static void cache_01_one_that_is_named_or_none(void **state)
{
	static const char *const name[] = { "kdreg2", "UserFaultFD", "memhooks" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		choose_from(name[i], true, true, true);
		assert_int_equal(scene_open(&scene), 0);
		assert_ptr_equal(hm_monitor_used(), &fake[i]);
		scene_close(&scene);
		choose_from(name[i], i != 0, i != 1, i != 2);
		none_is_used();
		assert_int_equal(mine[0].started + mine[1].started + mine[2].started, 0);
		assert_int_equal(logged.warnings, 1);
		assert_non_null(strstr(logged.warning, name[i]));
	}
}

static void cache_01_disabled(void **state)
{
	char text[256];

	(void)state;
	choose_from("disabled", true, true, true);
	none_is_used();
	assert_int_equal(mine[0].started + mine[1].started + mine[2].started, 0);
	assert_int_equal(logged.warnings, 0);
	assert_string_equal(hm_monitor_text(text, sizeof(text)),
			    "none: FI_MR_CACHE_MONITOR=disabled");
}

static void cache_01_a_name_that_is_none_is_told_once(void **state)
{
	(void)state;
	choose_from("userfaultd", false, true, true);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(scene_open(&scene), 0);
		assert_ptr_equal(hm_monitor_used(), &fake[1]);
		scene_close(&scene);
	}
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(logged.warning, "userfaultd"));
}

static void fn_32_without_any_nothing_is_kept_and_that_is_told_once(void **state)
{
	(void)state;
	/* Another outcome, so that this one is to be told. */
	choose_from("disabled", false, false, false);
	none_is_used();
	choose_from(NULL, false, false, false);
	for (int i = 0; i < 3; i++)
		none_is_used();
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(logged.warning, "kdreg2: no device node"));
	assert_non_null(strstr(logged.warning, "userfaultfd: not allowed"));
	assert_non_null(strstr(logged.warning, "memhooks: no symbols"));
}

static void fn_32_one_that_fails_ends_everything_kept_once(void **state)
{
	struct hm_cache_hold hold;
	uint64_t first;
	char text[256];

	(void)state;
	choose_from(NULL, true, true, true);
	assert_int_equal(scene_open(&scene), 0);
	first = scene_use(&scene, BASE, LEN);
	assert_int_equal(scene_use(&scene, BASE, LEN), first);
	/* With one in use, which stays its holder's. */
	scene_get(&scene, BASE, LEN, &hold);
	hm_monitor_failed("of a test");
	hm_monitor_failed("of the same test");
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(logged.warning, "of a test"));
	assert_string_equal(hm_monitor_text(text, sizeof(text)), "none: of a test");
	assert_null(hm_monitor_used());
	assert_int_equal(((struct kept *)hold.data)->number, first);
	first = scene_use(&scene, BASE, LEN);
	assert_int_equal(scene.watch_code, -FI_ENOSYS);
	assert_int_not_equal(scene_use(&scene, BASE, LEN), first);
	/* Nor of memory that was not there. */
	first = scene_use(&scene, BASE + 2 * LEN, LEN);
	assert_int_not_equal(scene_use(&scene, BASE + 2 * LEN, LEN), first);
	hm_cache_put(&scene.cache, &hold);
	scene_close(&scene);
	assert_int_equal(mine[0].stopped, 1);
	/* The next cache has a new start. */
	assert_int_equal(scene_open(&scene), 0);
	first = scene_use(&scene, BASE, LEN);
	assert_int_equal(scene_use(&scene, BASE, LEN), first);
	scene_close(&scene);
	assert_int_equal(mine[0].stopped, 2);
}

static void cache_01_a_trial_tells_without_a_trace(void **state)
{
	char name[32], why[256];

	(void)state;
	choose_from(NULL, false, true, true);
	assert_true(hm_monitor_tell(name, sizeof(name), why, sizeof(why)));
	assert_string_equal(name, "userfaultfd");
	assert_int_equal(mine[1].started, 1);
	assert_int_equal(mine[1].stopped, 1);
	assert_null(hm_monitor_used());
	choose_from("disabled", true, true, true);
	assert_false(hm_monitor_tell(name, sizeof(name), why, sizeof(why)));
	assert_string_equal(name, "");
	assert_string_equal(why, "FI_MR_CACHE_MONITOR=disabled");
	assert_int_equal(logged.warnings, 0);
}

/* ---- a start that waits for those who wait for it, as for the loader's lock in a constructor ---- */

static struct scene inner;
static int inner_join, inner_status;
static pthread_t waiters[3];

static void *join_meanwhile(void *unused)
{
	(void)unused;
	memset(&inner, 0, sizeof(inner));
	inner_join = hm_monitor_join(&inner.cache);
	return NULL;
}

static void *tell_meanwhile(void *unused)
{
	char name[32], why[256];

	(void)unused;
	hm_monitor_tell(name, sizeof(name), why, sizeof(why));
	return NULL;
}

static void *fork_meanwhile(void *unused)
{
	pid_t child = fork();

	(void)unused;
	if (child == 0) { /* which has no thread that starts a monitor */
		tell_meanwhile(NULL);
		_exit(0);
	}
	if (waitpid(child, &inner_status, 0) != child)
		inner_status = -1;
	return NULL;
}

static int start_waits(char *why, size_t size)
{
	static void *(*const run[3])(void *) = { join_meanwhile, tell_meanwhile, fork_meanwhile };

	(void)why;
	(void)size;
	if (mine[0].started++ > 0)
		return 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&waiters[i], NULL, run[i], NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(waiters[i], NULL);
	return 0;
}

static void cache_06_a_start_that_waits_for_who_waits_for_it(void **state)
{
	static const struct hm_monitor waits = { .name = "kdreg2",
						 .start = start_waits,
						 .stop = stop_0 };
	static const struct hm_monitor *const list[] = { &waits };

	(void)state;
	choose_from(NULL, true, true, true);
	hm_monitor_override(NULL, list, 1);
	inner_join = inner_status = 1;
	assert_int_equal(scene_open(&scene), 0);
	assert_int_equal(inner_join, -FI_EBUSY);
	assert_int_equal(inner_status, 0);
	assert_ptr_equal(hm_monitor_used(), &waits);
	assert_int_equal(scene_open(&inner), 0); /* another time it may */
	scene_close(&inner);
	scene_close(&scene);
	assert_int_equal(mine[0].started, 1);
}

/* The parameter's description, with what it has come to. */
static bool listed(const char *text)
{
	struct fi_param *params;
	bool found = false;
	int count;

	assert_int_equal(fi_getparams(&params, &count), 0);
	for (int i = 0; i < count; i++)
		if (strcmp(params[i].name, "FI_MR_CACHE_MONITOR") == 0)
			found = strstr(params[i].help_string, text);
	fi_freeparams(params);
	return found;
}

static void cache_01_the_listing_names_the_one_in_use(void **state)
{
	(void)state;
	choose_from(NULL, false, false, true);
	assert_int_equal(scene_open(&scene), 0);
	assert_true(listed("userfaultfd, memhooks, or disabled"));
	assert_true(listed("now: memhooks"));
	hm_monitor_failed("it was a test");
	assert_true(listed("now: none: it was a test"));
	scene_close(&scene);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cache_01_the_first_that_works),
		TEST(cache_01_one_that_is_named_or_none),
		TEST(cache_01_disabled),
		TEST(cache_01_a_name_that_is_none_is_told_once),
		TEST(fn_32_without_any_nothing_is_kept_and_that_is_told_once),
		TEST(fn_32_one_that_fails_ends_everything_kept_once),
		TEST(cache_01_a_trial_tells_without_a_trace),
		TEST(cache_01_the_listing_names_the_one_in_use),
		TEST(cache_06_a_start_that_waits_for_who_waits_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
