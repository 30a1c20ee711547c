/* SPDX-License-Identifier: BSD-2-Clause */
/* A program's own memory monitor, by fi_open("mr_cache"): honest ones, and ones that lie and re-enter. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include "monitor_scene.h"
#include "tests/threads.h"

#define BASE ((char *)0x7f1234560000)
#define LEN  (16 * PAGE)

static struct scene scene, other;
static struct fid *cache;

/* What the monitor does, and what was asked of it. */
static struct {
	int start_code, subscribe_code;
	bool invalid;
	void (*in_start)(void), (*in_stop)(void), (*in_subscribe)(void), (*in_unsubscribe)(void);
	void (*in_valid)(void);
	_Atomic unsigned started, stopped, subscribed, unsubscribed, asked;
} told;

static struct fid_mem_monitor monitor;

static int my_start(struct fid_mem_monitor *m)
{
	assert_ptr_equal(m, &monitor);
	told.started++;
	if (told.in_start)
		told.in_start();
	return told.start_code;
}

static void my_stop(struct fid_mem_monitor *m)
{
	assert_ptr_equal(m, &monitor);
	told.stopped++;
	if (told.in_stop)
		told.in_stop();
}

static int my_subscribe(struct fid_mem_monitor *m, const void *addr, size_t len)
{
	assert_ptr_equal(m, &monitor);
	assert_int_equal(((uintptr_t)addr | len) % PAGE, 0);
	if (told.in_subscribe)
		told.in_subscribe();
	if (told.subscribe_code == 0)
		told.subscribed++;
	return told.subscribe_code;
}

static void my_unsubscribe(struct fid_mem_monitor *m, const void *addr, size_t len)
{
	assert_ptr_equal(m, &monitor);
	(void)addr;
	(void)len;
	told.unsubscribed++;
	if (told.in_unsubscribe)
		told.in_unsubscribe();
}

static bool my_valid(struct fid_mem_monitor *m, const void *addr, size_t len)
{
	assert_ptr_equal(m, &monitor);
	assert_ptr_equal(addr, BASE);
	assert_int_equal(len, LEN);
	told.asked++;
	if (told.in_valid)
		told.in_valid();
	return !told.invalid;
}

static struct fi_ops_mem_monitor my_ops = {
	.size = sizeof(struct fi_ops_mem_monitor),
	.start = my_start,
	.stop = my_stop,
	.subscribe = my_subscribe,
	.unsubscribe = my_unsubscribe,
	.valid = my_valid,
};

static void report(const void *addr, size_t len)
{
	monitor.import_ops->notify(&monitor, addr, len);
}

static size_t fds_before;

static int set_up(void **state)
{
	(void)state;
	memset(&told, 0, sizeof(told));
	memset(&logged, 0, sizeof(logged));
	monitor = (struct fid_mem_monitor){ .fid = { .fclass = FI_CLASS_MEM_MONITOR },
					    .export_ops = &my_ops };
	fds_before = test_fds();
	hm_log_set_sink(remember_line, NULL);
	return fi_open(FI_VERSION(2, 7), "mr_cache", NULL, 0, 0, &cache, &scene);
}

static int set_up_imported(void **state)
{
	int ret = set_up(state);

	return ret == 0 ? fi_import_fid(cache, &monitor.fid, 0) : ret;
}

static int open_scene(void **state)
{
	int ret = set_up_imported(state);

	return ret == 0 ? scene_open(&scene) : ret;
}

/* Taken out, and everything given back. */
static int tear_down(void **state)
{
	int ret = fi_import_fid(cache, NULL, 0);

	(void)state;
	if (ret == 0)
		ret = fi_close(cache);
	hm_log_set_sink(NULL, NULL);
	return ret == 0 && test_fds() == fds_before && told.subscribed == told.unsubscribed &&
			       told.started - (told.start_code != 0) == told.stopped
		       ? 0
		       : -1;
}

static int close_scene(void **state)
{
	scene_close(&scene);
	return tear_down(state);
}

#define REFUSED(code, text, ...)                                                                   \
	do {                                                                                       \
		logged.warnings = 0;                                                               \
		assert_int_equal((__VA_ARGS__), (code));                                           \
		assert_int_equal(logged.warnings, 1);                                              \
		assert_non_null(strstr(logged.warning, (text)));                                   \
	} while (0)

static void cache_05_the_object(void **state)
{
	struct fid *fid = NULL;
	int attr = 0;

	(void)state;
	assert_int_equal(cache->fclass, FI_CLASS_MR_CACHE);
	assert_ptr_equal(cache->context, &scene);
	REFUSED(-FI_EINVAL, "no attributes",
		fi_open(FI_VERSION(2, 7), "mr_cache", &attr, sizeof(attr), 0, &fid, NULL));
	REFUSED(-FI_EBADFLAGS, "0x10",
		fi_open(FI_VERSION(2, 7), "mr_cache", NULL, 0, 0x10, &fid, NULL));
	REFUSED(-FI_ENOSYS, "version",
		fi_open(FI_VERSION(3, 0), "mr_cache", NULL, 0, 0, &fid, NULL));
	REFUSED(-FI_ENOSYS, "mr_cash",
		fi_open(FI_VERSION(2, 7), "mr_cash", NULL, 0, 0, &fid, NULL));
	assert_null(fid);
	assert_int_equal(fi_control(cache, 0, NULL), -FI_ENOSYS);
}

static void cache_05_what_is_no_monitor_is_refused(void **state)
{
	struct fi_ops_mem_monitor ops = my_ops;

	(void)state;
	monitor.export_ops = &ops;
	REFUSED(-FI_EBADFLAGS, "flags", fi_import_fid(cache, &monitor.fid, 1));
	monitor.fid.fclass = FI_CLASS_LOG;
	REFUSED(-FI_EINVAL, "FI_CLASS_MEM_MONITOR", fi_import_fid(cache, &monitor.fid, 0));
	monitor.fid.fclass = FI_CLASS_MEM_MONITOR;
	monitor.export_ops = NULL;
	REFUSED(-FI_EINVAL, "export_ops", fi_import_fid(cache, &monitor.fid, 0));
	monitor.export_ops = &ops;
	for (size_t size = 0; size < sizeof(ops); size += 8) {
		ops.size = size;
		REFUSED(-FI_EINVAL, "size", fi_import_fid(cache, &monitor.fid, 0));
	}
	ops.size = sizeof(ops);
	for (size_t i = 1; i < sizeof(ops) / sizeof(void *); i++) {
		ops = my_ops;
		memset((char *)&ops + i * sizeof(void *), 0, sizeof(void *));
		REFUSED(-FI_EINVAL, "NULL", fi_import_fid(cache, &monitor.fid, 0));
	}
	assert_null(monitor.import_ops);
	/* A newer one, with more. */
	ops = my_ops;
	ops.size += 64;
	assert_int_equal(fi_import_fid(cache, &monitor.fid, 0), 0);
	assert_true(monitor.import_ops->size >= sizeof(struct fi_ops_mem_notify));
	REFUSED(-FI_EBUSY, "already", fi_import_fid(cache, &monitor.fid, 0));
	monitor.export_ops = &my_ops;
}

static void cache_05_an_imported_monitor_is_used(void **state)
{
	uint64_t first, second;
	char text[256];

	(void)state;
	assert_int_equal(told.started, 1);
	assert_string_equal(hm_monitor_text(text, sizeof(text)), "import");
	first = scene_use(&scene, BASE, LEN);
	assert_int_equal(told.subscribed, 1);
	assert_int_equal(scene_use(&scene, BASE, LEN), first);
	assert_true(told.asked >= 1);
	report(BASE + LEN - 1, 1);
	second = scene_use(&scene, BASE, LEN);
	assert_int_not_equal(second, first);
	told.invalid = true;
	assert_int_not_equal(scene_use(&scene, BASE, LEN), second);
	/* In use: it stays, whoever asks. */
	REFUSED(-FI_EBUSY, "in use", fi_import_fid(cache, NULL, 0));
	REFUSED(-FI_EBUSY, "already", fi_import_fid(cache, &monitor.fid, 0));
}

static void cache_05_no_monitor_is_imported_while_a_cache_is_in_use(void **state)
{
	(void)state;
	if (scene_open(&scene) == 0) {
		REFUSED(-FI_EBUSY, "in use", fi_import_fid(cache, &monitor.fid, 0));
		scene_close(&scene);
	} else {
		assert_int_equal(hm_cache_destroy(&scene.cache), 0);
	}
	assert_int_equal(fi_import_fid(cache, &monitor.fid, 0), 0);
}

/* fi_import opens, imports and closes. */
static void cache_05_it_stays_when_the_object_is_closed(void **state)
{
	(void)state;
	assert_int_equal(fi_import(FI_VERSION(2, 7), "mr_cache", NULL, 0, 0, &monitor.fid, NULL),
			 0);
	assert_int_equal(scene_open(&scene), 0);
	assert_int_equal(told.started, 1);
	scene_close(&scene);
	assert_int_equal(told.stopped, 1);
}

static void cache_05_a_monitor_that_lies_ends_no_more_than_it_names(void **state)
{
	static const struct {
		const char *addr;
		size_t len;
		bool ends;
	} lie[] = {
		{ BASE, 0, false },
		{ NULL, 0, false },
		{ NULL, 1, false },
		{ BASE - PAGE, PAGE, false },
		{ BASE + LEN, SIZE_MAX, false }, /* past the end of memory */
		{ (char *)UINTPTR_MAX, SIZE_MAX, false },
		{ BASE + 5, 1, true },
		{ BASE - 1, SIZE_MAX, true },
		{ NULL, SIZE_MAX, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lie) / sizeof(lie[0]); i++) {
		uint64_t first = scene_use(&scene, BASE, LEN);

		report(lie[i].addr, lie[i].len);
		if ((scene_use(&scene, BASE, LEN) != first) != lie[i].ends)
			fail_msg("lie %zu", i);
	}
}

static void cache_05_one_that_refuses_memory_has_it_not_kept(void **state)
{
	uint64_t first;

	(void)state;
	told.subscribe_code = -FI_ENOMEM;
	first = scene_use(&scene, BASE, LEN);
	assert_int_equal(scene.watch_code, -FI_ENOMEM);
	assert_int_not_equal(scene_use(&scene, BASE, LEN), first);
	told.subscribe_code = 17;
	scene_use(&scene, BASE, LEN);
	assert_true(scene.watch_code < 0);
	assert_int_equal(logged.warnings, 0);
	told.subscribe_code = 0;
}

static void fn_32_one_that_does_not_start_leaves_nothing_kept(void **state)
{
	char text[256];

	(void)state;
	told.start_code = -FI_EIO;
	assert_int_equal(scene_open(&scene), -FI_ENOSYS);
	assert_null(hm_monitor_used());
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(hm_monitor_text(text, sizeof(text)), "does not start"));
	assert_int_equal(hm_cache_destroy(&scene.cache), 0);
}

/* ---- re-entry ---- */

static int inner_join, inner_import;

static void report_all(void)
{
	report(NULL, SIZE_MAX);
}

static void cache_05_a_report_inside_its_functions(void **state)
{
	uint64_t first;

	(void)state;
	told.in_start = told.in_stop = told.in_unsubscribe = report_all;
	assert_int_equal(scene_open(&scene), 0);
	told.in_subscribe = report_all;
	/* It says that the memory changes while it is registered. */
	first = scene_use(&scene, BASE, LEN);
	assert_int_not_equal(scene_use(&scene, BASE, LEN), first);
	told.in_subscribe = NULL;
	first = scene_use(&scene, BASE, LEN);
	assert_int_equal(scene_use(&scene, BASE, LEN), first);
	scene_close(&scene);
}

/* Of which an odd byte was unmapped, the whole page is gone, and what is registered in it beside that byte. */
static void cache_02_cache_05_a_report_of_bytes_is_one_of_pages(void **state)
{
	struct hm_cache_key key = { .begin = (uintptr_t)BASE + 200,
				    .end = (uintptr_t)BASE + 300,
				    .rights = 1,
				    .kind = EXACT };
	struct hm_cache_hold hold;

	(void)state;
	for (int last = 0; last < 2; last++) {
		assert_int_equal(hm_cache_get(&scene.cache, &key, &hold), 0);
		hm_cache_put(&scene.cache, &hold);
		assert_true(hm_cache_find(&scene.cache, &key, &hold));
		hm_cache_put(&scene.cache, &hold);
		report(BASE + last * (PAGE - 1), 1);
		assert_false(hm_cache_find(&scene.cache, &key, &hold));
	}
}

static bool inner_valid;

static void ask_inside(void)
{
	if (told.asked < 3)
		inner_valid = hm_monitor_hit_ok((uintptr_t)BASE, (uintptr_t)BASE + LEN, 0);
}

/* It is not asked by itself, and what it uses meanwhile is not kept; what was kept is. */
static void cache_05_a_hit_inside_valid(void **state)
{
	uint64_t first = scene_use(&scene, BASE, LEN);

	(void)state;
	told.in_valid = ask_inside;
	inner_valid = true;
	assert_int_equal(told.asked, 1);
	assert_int_equal(scene_use(&scene, BASE, LEN), first);
	assert_int_equal(told.asked, 2);
	assert_false(inner_valid);
}

static unsigned inner_tells;

static void tell_inside(void)
{
	char name[32], why[256];

	hm_monitor_tell(name, sizeof(name), why, sizeof(why));
	inner_tells++;
}

static void cache_05_what_is_used_is_told_inside_its_functions(void **state)
{
	(void)state;
	inner_tells = 0;
	told.in_start = told.in_stop = told.in_subscribe = told.in_unsubscribe = tell_inside;
	assert_int_equal(scene_open(&scene), 0);
	scene_use(&scene, BASE, LEN);
	scene_close(&scene);
	assert_true(inner_tells >= 4);
	inner_tells = 0;
	tell_inside(); /* a trial */
	assert_int_equal(inner_tells, 3);
}

static void use_everything(void)
{
	struct fid *again;

	assert_true(hm_monitor_inside());
	memset(&other, 0, sizeof(other));
	inner_join = hm_monitor_join(&other.cache);
	inner_import = fi_import_fid(cache, NULL, 0);
	assert_int_equal(fi_open(FI_VERSION(2, 7), "mr_cache", NULL, 0, 0, &again, NULL), 0);
	assert_int_equal(fi_close(again), 0);
}

static void assert_all_busy(void)
{
	assert_int_equal(inner_join, -FI_EBUSY);
	assert_int_equal(inner_import, -FI_EBUSY);
	inner_join = inner_import = 0;
}

static void cache_05_cache_06_caches_and_the_object_inside_its_functions(void **state)
{
	(void)state;
	told.in_start = use_everything;
	assert_int_equal(scene_open(&scene), 0);
	assert_all_busy();
	told.in_subscribe = use_everything;
	scene_use(&scene, BASE, LEN);
	assert_all_busy();
	told.in_subscribe = NULL;
	told.in_unsubscribe = use_everything;
	report_all();
	hm_cache_reap(&scene.cache);
	while (told.unsubscribed == 0)
		sched_yield();
	hm_cache_reap(&scene.cache);
	assert_all_busy();
	told.in_unsubscribe = NULL;
	told.in_stop = use_everything;
	scene_close(&scene);
	assert_all_busy();
}

static void fork_inside(void)
{
	pid_t child = test_fork();
	int status;

	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void cache_06_forks_inside_its_functions(void **state)
{
	(void)state;
	told.in_start = told.in_stop = told.in_subscribe = told.in_unsubscribe = fork_inside;
	assert_int_equal(scene_open(&scene), 0);
	scene_use(&scene, BASE, LEN);
	scene_close(&scene);
}

/* ---- threads ---- */

static _Atomic bool stop;

static void *report_on(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop))
		report(BASE, PAGE);
	return NULL;
}

static void cache_05_reports_of_several_threads_and_after_the_end(void **state)
{
	pthread_t thread[3];

	(void)state;
	atomic_store(&stop, false);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, report_on, NULL), 0);
	for (int round = 0; round < 20; round++) {
		assert_int_equal(scene_open(&scene), 0);
		for (int i = 0; i < 100; i++)
			scene_use(&scene, BASE, LEN);
		scene_close(&scene);
	}
	assert_int_equal(fi_import_fid(cache, NULL, 0), 0);
	report(BASE, PAGE);
	atomic_store(&stop, true);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(fi_import_fid(cache, &monitor.fid, 0), 0);
}

#define TEST(f, up, down) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cache_05_the_object, set_up, tear_down),
		TEST(cache_05_what_is_no_monitor_is_refused, set_up, tear_down),
		TEST(cache_05_an_imported_monitor_is_used, open_scene, close_scene),
		TEST(cache_05_no_monitor_is_imported_while_a_cache_is_in_use, set_up, tear_down),
		TEST(cache_05_it_stays_when_the_object_is_closed, set_up, tear_down),
		TEST(cache_05_a_monitor_that_lies_ends_no_more_than_it_names, open_scene,
		     close_scene),
		TEST(cache_05_one_that_refuses_memory_has_it_not_kept, open_scene, close_scene),
		TEST(fn_32_one_that_does_not_start_leaves_nothing_kept, set_up_imported, tear_down),
		TEST(cache_05_a_report_inside_its_functions, set_up_imported, tear_down),
		TEST(cache_02_cache_05_a_report_of_bytes_is_one_of_pages, open_scene, close_scene),
		TEST(cache_05_a_hit_inside_valid, open_scene, close_scene),
		TEST(cache_05_what_is_used_is_told_inside_its_functions, set_up_imported,
		     tear_down),
		TEST(cache_05_cache_06_caches_and_the_object_inside_its_functions, set_up_imported,
		     tear_down),
		TEST(cache_06_forks_inside_its_functions, set_up_imported, tear_down),
		TEST(cache_05_reports_of_several_threads_and_after_the_end, set_up_imported,
		     tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
