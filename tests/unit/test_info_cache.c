/* SPDX-License-Identifier: BSD-2-Clause */
/* What hmreg-info --cache makes of files with figures: right ones, and whatever else may lie there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mr/stats.h"
#include "samples/tools/info_cache.h"

const char *sample_program = "test"; /* of the tool's */

#define ROWS 3

static char folder[64], path[128];
static union hm_stats_image image;
static const size_t right_size =
	sizeof(struct hmreg_cache_file) + ROWS * sizeof(struct hmreg_cache_row);
static struct info_cache cache;
static char why[128];

/* As the library writes it, with fewer rows: of this process. */
static void right_image(void)
{
	memset(&image, 0, sizeof(image));
	image.file.head = (struct hmreg_cache_file){
		.magic = HMREG_CACHE_FILE_MAGIC,
		.version = HMREG_CACHE_FILE_VERSION,
		.header_size = sizeof(struct hmreg_cache_file),
		.row_size = sizeof(struct hmreg_cache_row),
		.rows = ROWS,
		.pid = (uint64_t)getpid(),
		.monitor = "memhooks",
	};
	image.file.row[0].state = 4;
	strcpy(image.file.row[0].domain, "sw-scalable");
	image.file.row[0].all.hits = 70;
	image.file.row[2].state = 5;
	strcpy(image.file.row[2].domain, "mlx5_0");
}

static int parse(size_t size)
{
	/* exactly as long, so that reading past it shows */
	void *copy = malloc(size ? size : 1);
	int ret;

	assert_non_null(copy);
	memcpy(copy, &image, size);
	why[0] = '\0';
	ret = info_cache_parse(copy, size, &cache, why, sizeof(why));
	free(copy);
	return ret;
}

static void refused(const char *reason)
{
	assert_int_equal(parse(right_size), -1);
	assert_non_null(strstr(why, reason));
	right_image();
}

/* ---- the bytes ---- */

static void info_cache_right_file(void **state)
{
	(void)state;
	right_image();
	assert_int_equal(parse(right_size), 0);
	assert_int_equal(cache.count, 2);
	assert_string_equal(cache.row[0].domain, "sw-scalable");
	assert_int_equal(cache.row[0].all.hits, 70);
	assert_string_equal(cache.row[1].domain, "mlx5_0");
	assert_string_equal(cache.monitor, "memhooks");
	assert_int_equal(cache.pid, getpid());
	info_cache_free(&cache);
}

static void info_cache_every_length(void **state)
{
	(void)state;
	right_image();
	for (size_t size = 0; size < right_size; size++) {
		assert_int_equal(parse(size), -1);
		assert_true(why[0]);
	}
}

static void info_cache_wrong_header(void **state)
{
	struct hmreg_cache_file *head = &image.file.head;

	(void)state;
	right_image();
	head->magic = 0;
	refused("being made");
	head->magic ^= 1;
	refused("no file with figures");
	head->version = 2;
	refused("version 2");
	head->header_size = 8;
	refused("damaged");
	head->header_size = UINT32_MAX;
	refused("damaged");
	head->row_size = 0;
	refused("damaged");
	head->row_size = UINT32_MAX;
	refused("damaged");
	head->rows = UINT32_MAX;
	refused("damaged");
	head->rows = ROWS + 1;
	refused("damaged");
}

static void info_cache_text_is_made_harmless(void **state)
{
	(void)state;
	right_image();
	memset(image.file.head.monitor, 0x1b, sizeof(image.file.head.monitor));
	memset(image.file.row[0].domain, 0xff, sizeof(image.file.row[0].domain));
	assert_int_equal(parse(right_size), 0);
	assert_int_equal(strlen(cache.monitor), sizeof(cache.monitor) - 1);
	assert_int_equal(strlen(cache.row[0].domain), sizeof(cache.row[0].domain) - 1);
	assert_int_equal(strspn(cache.monitor, "?"), sizeof(cache.monitor) - 1);
	info_cache_free(&cache);
}

static void info_cache_rows_that_changed_are_left_out(void **state)
{
	struct info_cache later;

	(void)state;
	right_image();
	assert_int_equal(parse(right_size), 0);
	later = cache;
	image.file.row[0].state = 6;
	assert_int_equal(parse(right_size), 0);
	info_cache_confirm(&later, &cache);
	assert_int_equal(later.count, 1);
	assert_string_equal(later.row[0].domain, "mlx5_0");
	info_cache_free(&later);
	info_cache_free(&cache);
}

/* ---- the file ---- */

static void write_file(size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &image, size), size);
	close(fd);
}

static void info_cache_no_file(void **state)
{
	(void)state;
	assert_int_equal(info_cache_read(getpid(), folder, &cache), -1);
	assert_int_equal(info_cache_read(getpid(), "/nonexistent", &cache), -1);
}

static void info_cache_file_is_read(void **state)
{
	(void)state;
	right_image();
	write_file(right_size);
	assert_int_equal(info_cache_read(getpid(), folder, &cache), 0);
	assert_int_equal(cache.count, 2);
	assert_false(cache.ended);
	info_cache_free(&cache);
	/* by the variable */
	assert_int_equal(setenv("HMREG_CACHE_STATS", folder, 1), 0);
	assert_int_equal(info_cache_read(getpid(), NULL, &cache), 0);
	assert_int_equal(unsetenv("HMREG_CACHE_STATS"), 0);
	info_cache_free(&cache);
	/* a process of that number that was started at another time */
	image.file.head.started = 1;
	write_file(right_size);
	assert_int_equal(info_cache_read(getpid(), folder, &cache), 0);
	assert_true(cache.ended);
	info_cache_free(&cache);
	/* cut short, and of another process */
	write_file(right_size - 1);
	assert_int_equal(info_cache_read(getpid(), folder, &cache), -1);
	image.file.head.pid++;
	write_file(right_size);
	assert_int_equal(info_cache_read(getpid(), folder, &cache), -1);
	assert_int_equal(unlink(path), 0);
}

static void info_cache_other_things_there(void **state)
{
	char elsewhere[160];

	(void)state;
	right_image();
	write_file(right_size);
	snprintf(elsewhere, sizeof(elsewhere), "%s.moved", path);
	assert_int_equal(rename(path, elsewhere), 0);
	assert_int_equal(symlink(elsewhere, path), 0);
	assert_int_equal(info_cache_read(getpid(), folder, &cache), -1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(elsewhere), 0);
	assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes: it must not wait */
	assert_int_equal(info_cache_read(getpid(), folder, &cache), -1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(info_cache_read(getpid(), folder, &cache), -1);
	assert_int_equal(rmdir(path), 0);
	write_file(right_size);
	assert_int_equal(truncate(path, (off_t)INFO_CACHE_MOST_BYTES + 1), 0);
	assert_int_equal(info_cache_read(getpid(), folder, &cache), -1);
	assert_int_equal(unlink(path), 0);
}

/* A file of somebody who is neither the process's user, nor this one, nor root. */
static void info_cache_strangers_are_not_believed(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	right_image();
	write_file(right_size);
	assert_int_equal(chown(path, 12345, 12345), 0);
	assert_int_equal(info_cache_read(getpid(), folder, &cache), -1);
	assert_int_equal(unlink(path), 0);
}

/* ---- with the library's side ---- */

static int nothing(void *context, const struct hm_cache_key *key, void **data)
{
	(void)context, (void)key, (void)data;
	return -1;
}

static void child(void)
{
	static const struct hm_cache_ops ops = { .add = nothing };
	static struct hm_cache c;
	struct hm_cache_shown shown;
	struct info_cache seen;

	setenv("HMREG_CACHE_STATS", folder, 1);
	if (hm_cache_init(&c, &ops, NULL, 9, 1 << 20) != 0)
		_exit(1);
	hm_cache_show(&shown, &c, "a-domain");
	if (info_cache_read(getpid(), folder, &seen) != 0 || seen.count != 1)
		_exit(2);
	if (seen.row[0].max_entries != 9 || strcmp(seen.row[0].domain, "a-domain") || seen.ended)
		_exit(3);
	_exit(0); /* killed, as it were: the file stays */
}

static void info_cache_of_a_process_and_after_its_death(void **state)
{
	pid_t pid = fork();
	char left[128];
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		child();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(info_cache_read(pid, folder, &cache), 0);
	assert_true(cache.ended);
	assert_int_equal(cache.count, 1);
	info_cache_free(&cache);
	snprintf(left, sizeof(left), "%s/hmreg-cache.%d", folder, (int)pid);
	assert_int_equal(unlink(left), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info_cache_right_file),
		cmocka_unit_test(info_cache_every_length),
		cmocka_unit_test(info_cache_wrong_header),
		cmocka_unit_test(info_cache_text_is_made_harmless),
		cmocka_unit_test(info_cache_rows_that_changed_are_left_out),
		cmocka_unit_test(info_cache_no_file),
		cmocka_unit_test(info_cache_file_is_read),
		cmocka_unit_test(info_cache_other_things_there),
		cmocka_unit_test(info_cache_strangers_are_not_believed),
		cmocka_unit_test(info_cache_of_a_process_and_after_its_death),
	};
	int failed;

	strcpy(folder, "/tmp/hmreg-info-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	unsetenv("HMREG_CACHE_STATS");
	snprintf(path, sizeof(path), "%s/hmreg-cache.%d", folder, (int)getpid());
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
