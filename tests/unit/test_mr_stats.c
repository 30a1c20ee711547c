/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of registration caches: asked for, and in the file that HMREG_CACHE_STATS asks for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "core/mr/stats.h"
#include "tests/threads.h"
#include "tests/unit/child.h"
#include "tests/unit/whole_pages.h"

#define PAGE 4096u

static struct child child;
static char folder[64], setting[96];

/* ---- a cache that registers nothing ---- */

static int add(void *context, const struct hm_cache_key *key, void **data)
{
	(void)key;
	*data = context;
	return 0;
}

static int take_away(void *context, void *data)
{
	(void)context, (void)data;
	return 0;
}

static const struct hm_cache_ops ops = { whole_pages, add, take_away };

struct shown_cache {
	struct hm_cache cache;
	struct hm_cache_shown shown;
};

static void cache_open(struct shown_cache *c, const char *domain, uint64_t most)
{
	CHECK(hm_cache_init(&c->cache, &ops, c, most, UINT64_C(1) << 30) == 0);
	hm_cache_show(&c->shown, &c->cache, domain);
}

static void cache_close(struct shown_cache *c)
{
	hm_cache_hide(&c->shown);
	CHECK(hm_cache_destroy(&c->cache) == 0);
}

/* Get and put one page at this address. */
static void use(struct shown_cache *c, uint64_t at, uint32_t kind)
{
	struct hm_cache_key key = { .begin = at, .end = at + 100, .rights = 1, .kind = kind };
	struct hm_cache_hold hold;

	CHECK(hm_cache_get(&c->cache, &key, &hold) == 0);
	hm_cache_put(&c->cache, &hold);
}

/* ---- the file ---- */

static const char *file_name(pid_t pid)
{
	static char name[128];

	snprintf(name, sizeof(name), "%s/hmreg-cache.%d", folder, (int)pid);
	return name;
}

/* The rows that are in use; returns how many. */
static size_t read_file(struct hmreg_cache_file *head, struct hmreg_cache_row *rows)
{
	int fd = open(file_name(getpid()), O_RDONLY);
	size_t count = 0;

	CHECK(fd >= 0);
	CHECK(read(fd, head, sizeof(*head)) == (ssize_t)sizeof(*head));
	CHECK(head->magic == HMREG_CACHE_FILE_MAGIC && head->version == HMREG_CACHE_FILE_VERSION);
	CHECK(head->header_size == sizeof(*head) && head->row_size == sizeof(*rows));
	for (uint32_t i = 0; i < head->rows; i++) {
		CHECK(read(fd, &rows[count], sizeof(*rows)) == (ssize_t)sizeof(*rows));
		count += rows[count].state != 0;
	}
	CHECK(read(fd, &(char){ 0 }, 1) == 0);
	close(fd);
	return count;
}

/* Threads of the library: those that there are more than when the body began. */
static size_t threads_before;

static size_t our_threads(void)
{
	return test_threads() - threads_before;
}

static bool there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static size_t entries_of_folder(void)
{
	DIR *dir = opendir(folder);
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

/* Run body in a process with the folder set; afterwards nothing is left there. */
static void run(void (*body)(void))
{
	const char *const env[] = { setting, "FI_LOG_LEVEL=warn", NULL };

	child_run(&child, env, body);
}

static void until(bool (*holds)(void))
{
	for (unsigned i = 0; i < 1000 && !holds(); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	CHECK(holds());
}

/* ---- figures that are asked for ---- */

static void body_figures(void)
{
	static struct shown_cache c;
	struct hmreg_cache_stats stats;

	threads_before = test_threads();
	hm_cache_figures(NULL, &stats);
	CHECK(stats.since == 0 && stats.max_entries == 0 && stats.all.misses == 0);
	CHECK(strlen(stats.monitor) > 0);
	cache_open(&c, "one", 2);
	use(&c, 0x10000, 0);
	use(&c, 0x20000, 0);
	use(&c, 0x30000, 0);
	use(&c, 0x30000, 0);
	CHECK(hm_cache_invalidate(&c.cache, 0x30000, 0x30001) == 1);
	hm_cache_reap(&c.cache);
	hm_cache_figures(&c.shown, &stats);
	CHECK(stats.size == sizeof(stats) && stats.since > 0);
	CHECK(stats.max_entries == 2 && stats.max_bytes == UINT64_C(1) << 30);
	CHECK(stats.all.misses == 3 && stats.all.evictions == 1 && stats.all.invalidations == 1);
	CHECK(stats.all.entries == 1 && stats.all.bytes == PAGE && stats.all.unkept == 0);
	cache_close(&c);
	CHECK(our_threads() == 0);
}

static void cache_stats_are_what_happened(void **state)
{
	(void)state;
	child_run(&child, NULL, body_figures);
}

static void cache_stats_no_setting_no_file(void **state)
{
	(void)state;
	assert_int_equal(entries_of_folder(), 0);
}

/* ---- the file ---- */

static struct shown_cache one, two;

static bool two_misses(void)
{
	struct hmreg_cache_file head;
	static struct hmreg_cache_row rows[HMREG_CACHE_FILE_ROWS + 1];

	return read_file(&head, rows) == 2 && rows[0].all.misses + rows[1].all.misses == 2;
}

static void body_file(void)
{
	static struct hmreg_cache_row rows[HMREG_CACHE_FILE_ROWS + 1];
	struct hmreg_cache_file head;
	struct stat st;

	threads_before = test_threads();
	CHECK(!there(file_name(getpid())));
	cache_open(&one, "first", 100);
	CHECK(lstat(file_name(getpid()), &st) == 0 && S_ISREG(st.st_mode));
	CHECK((st.st_mode & 0777) == 0600);
	CHECK(read_file(&head, rows) == 1 && strcmp(rows[0].domain, "first") == 0);
	CHECK(head.pid == (uint64_t)getpid() && head.started > 0 && head.hidden == 0);
	CHECK(rows[0].max_entries == 100 && rows[0].since > 0 && head.monitor[0]);
	cache_open(&two, "second", 100);
	use(&one, 0x10000, 0);
	use(&two, 0x10000, 0);
	until(two_misses);
	CHECK(our_threads() == 1);
	cache_close(&one);
	cache_close(&two);
	CHECK(our_threads() == 0);
	CHECK(read_file(&head, rows) == 0);
	cache_open(&one, "again", 100);
	CHECK(read_file(&head, rows) == 1 && strcmp(rows[0].domain, "again") == 0);
	CHECK(our_threads() == 1);
}

static void cache_stats_file_follows(void **state)
{
	(void)state;
	run(body_file);
	assert_int_equal(child.writes, 0);
	assert_int_equal(entries_of_folder(), 0); /* removed at exit, although a cache was left */
}

static bool all_rows(void)
{
	static struct hmreg_cache_row rows[HMREG_CACHE_FILE_ROWS + 1];
	struct hmreg_cache_file head;

	return read_file(&head, rows) == HMREG_CACHE_FILE_ROWS && head.hidden == 2;
}

static void body_many(void)
{
	enum {
		MANY = HMREG_CACHE_FILE_ROWS + 2
	};
	static struct hmreg_cache_row rows[HMREG_CACHE_FILE_ROWS + 1];
	static struct shown_cache many[MANY];
	struct hmreg_cache_file head;

	for (int i = 0; i < MANY; i++)
		cache_open(&many[i], "many", 4);
	until(all_rows);
	cache_close(&many[MANY - 1]);
	cache_close(&many[0]);
	cache_open(&many[0], "many", 4);
	for (int i = 0; i < MANY - 1; i++)
		cache_close(&many[i]);
	CHECK(read_file(&head, rows) == 0 && head.hidden == 0);
}

static void cache_stats_file_has_an_end(void **state)
{
	(void)state;
	run(body_many);
	assert_int_equal(entries_of_folder(), 0);
}

/* ---- what is in the way ---- */

static char precious[96];

static void body_link(void)
{
	struct stat st;

	CHECK(symlink(precious, file_name(getpid())) == 0);
	cache_open(&one, "one", 4);
	CHECK(lstat(file_name(getpid()), &st) == 0 && S_ISREG(st.st_mode));
	CHECK(stat(precious, &st) == 0 && st.st_size == 5);
	cache_close(&one);
}

static void cache_stats_link_is_not_followed(void **state)
{
	int fd;

	(void)state;
	fd = open(precious, O_WRONLY | O_CREAT | O_EXCL, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hello", 5), 5);
	close(fd);
	run(body_link);
	assert_int_equal(unlink(precious), 0);
	assert_int_equal(entries_of_folder(), 0);
}

static void body_leftover(void)
{
	static struct hmreg_cache_row rows[HMREG_CACHE_FILE_ROWS + 1];
	struct hmreg_cache_file head;
	int fd = open(file_name(getpid()), O_WRONLY | O_CREAT | O_EXCL, 0644);

	head = (struct hmreg_cache_file){ .magic = HMREG_CACHE_FILE_MAGIC,
					  .pid = (uint64_t)getpid(),
					  .started = 1 };
	CHECK(fd >= 0 && write(fd, &head, sizeof(head)) == (ssize_t)sizeof(head));
	close(fd);
	cache_open(&one, "one", 4);
	CHECK(read_file(&head, rows) == 1 && head.started > 1);
	cache_close(&one);
}

static void cache_stats_leftover_is_replaced(void **state)
{
	(void)state;
	run(body_leftover);
	assert_int_equal(child.writes, 0);
	assert_int_equal(entries_of_folder(), 0);
}

static void body_folder_in_the_way(void)
{
	CHECK(mkdir(file_name(getpid()), 0700) == 0);
	cache_open(&one, "one", 4);
	cache_open(&two, "two", 4);
	use(&one, 0x10000, 0);
	cache_close(&two);
	cache_close(&one);
	CHECK(rmdir(file_name(getpid())) == 0);
}

static void cache_stats_without_a_file_one_warning(void **state)
{
	(void)state;
	run(body_folder_in_the_way);
	assert_int_equal(child.writes, 1);
	assert_non_null(strstr(child.text, folder));
	assert_non_null(strstr(child.text, "hmreg-cache."));
}

static void body_no_folder(void)
{
	threads_before = test_threads();
	cache_open(&one, "one", 4);
	cache_open(&two, "two", 4);
	use(&one, 0x10000, 0);
	CHECK(our_threads() == 0);
	cache_close(&two);
	cache_close(&one);
}

static void cache_stats_bad_folder_one_warning(void **state)
{
	static const char *const bad[] = { "HMREG_CACHE_STATS=/nonexistent/folder",
					   "HMREG_CACHE_STATS=/dev/null",
					   "HMREG_CACHE_STATS=/proc" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const env[] = { bad[i], "FI_LOG_LEVEL=warn", NULL };

		child_run(&child, env, body_no_folder);
		assert_int_equal(child.writes, 1);
		assert_non_null(strstr(child.text, bad[i]));
	}
}

/* ---- forks, and others who touch the file ---- */

/* The sanitizer asks whether to look for leaks at exit: in a child it misses the parent's threads, and says so. */
static int forked;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return forked;
}

static void body_fork(void)
{
	static struct hmreg_cache_row rows[HMREG_CACHE_FILE_ROWS + 1];
	struct hmreg_cache_file head;
	int status;
	pid_t pid;

	cache_open(&one, "one", 4);
	use(&one, 0x10000, 0);
	pid = test_fork();
	CHECK(pid >= 0);
	if (pid == 0) { /* first none, then one of its own with both caches */
		forked = true;
		threads_before = test_threads();
		CHECK(!there(file_name(getpid())));
		CHECK(there(file_name(getppid())));
		cache_open(&two, "two", 4);
		CHECK(read_file(&head, rows) == 2 && head.pid == (uint64_t)getpid());
		CHECK(our_threads() == 1);
		cache_close(&two);
		cache_close(&one);
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(!there(file_name(pid)));
	CHECK(read_file(&head, rows) == 1 && head.pid == (uint64_t)getpid());
	cache_close(&one);
}

static void cache_stats_child_has_its_own(void **state)
{
	(void)state;
	run(body_fork);
	assert_int_equal(child.writes, 0);
	assert_int_equal(entries_of_folder(), 0);
}

static bool alone(void)
{
	return our_threads() == 0;
}

static void body_cut(void)
{
	threads_before = test_threads();
	hm_guard_install();
	cache_open(&one, "one", 4);
	CHECK(truncate(file_name(getpid()), 0) == 0);
	use(&one, 0x10000, 0);
	until(alone);
	use(&one, 0x20000, 0);
	cache_close(&one);
}

static void cache_stats_cut_file_is_no_crash(void **state)
{
	(void)state;
	run(body_cut);
	assert_int_equal(child.writes, 1);
	assert_non_null(strstr(child.text, "cut short"));
	assert_int_equal(entries_of_folder(), 0);
}

static _Atomic bool came_back;

static void *open_cancelled(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	cache_open(&one, "one", 4);
	cache_close(&one);
	atomic_store(&came_back, true);
	pthread_testcancel();
	return NULL;
}

static void body_cancelled(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, open_cancelled, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(atomic_load(&came_back));
	cache_open(&two, "two", 4); /* no lock was left taken */
	cache_close(&two);
}

static void cache_stats_of_a_cancelled_thread(void **state)
{
	(void)state;
	run(body_cancelled);
	assert_int_equal(child.writes, 0);
	assert_int_equal(entries_of_folder(), 0);
}

static void body_taken(void)
{
	int fd;

	cache_open(&one, "one", 4);
	CHECK(unlink(file_name(getpid())) == 0);
	fd = open(file_name(getpid()), O_WRONLY | O_CREAT | O_EXCL, 0644);
	CHECK(fd >= 0);
	close(fd);
	cache_close(&one);
}

static void cache_stats_other_file_stays(void **state)
{
	(void)state;
	run(body_taken);
	assert_int_equal(entries_of_folder(), 1);
	assert_int_equal(unlink(file_name(child.pid)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_stats_are_what_happened),
		cmocka_unit_test(cache_stats_no_setting_no_file),
		cmocka_unit_test(cache_stats_file_follows),
		cmocka_unit_test(cache_stats_file_has_an_end),
		cmocka_unit_test(cache_stats_link_is_not_followed),
		cmocka_unit_test(cache_stats_leftover_is_replaced),
		cmocka_unit_test(cache_stats_without_a_file_one_warning),
		cmocka_unit_test(cache_stats_bad_folder_one_warning),
		cmocka_unit_test(cache_stats_child_has_its_own),
		cmocka_unit_test(cache_stats_cut_file_is_no_crash),
		cmocka_unit_test(cache_stats_of_a_cancelled_thread),
		cmocka_unit_test(cache_stats_other_file_stays),
	};
	int failed;

	snprintf(folder, sizeof(folder), "/tmp/hmreg-stats-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	snprintf(setting, sizeof(setting), "HMREG_CACHE_STATS=%s", folder);
	snprintf(precious, sizeof(precious), "%s.precious", folder);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
