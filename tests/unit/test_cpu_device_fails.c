/* SPDX-License-Identifier: BSD-2-Clause */
/* The CPU device where memory, threads or processes cannot be had: each call fails in turn, and leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <spawn.h>

#include "alloc_fail.h"
#include "cpu_device_scene.h"

#define PAGE 4096u

/* The call that fails, from 1; 0: none. */
static unsigned mmap_fails, create_fails, spawn_fails;

void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *argument);
int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const argv[], char *const env[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const argv[], char *const env[]);

static bool is_last(unsigned *countdown)
{
	return *countdown && !--*countdown;
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (is_last(&mmap_fails)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(at, len, prot, flags, fd, offset);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *argument)
{
	return is_last(&create_fails) ? EAGAIN
				      : __real_pthread_create(thread, attr, start, argument);
}

int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	return is_last(&spawn_fails) ? EAGAIN
				     : __real_posix_spawn(pid, path, actions, attr, argv, env);
}

struct count_args {
	uint64_t *runs;
};

XPU_KERNEL(count, struct count_args)
{
	__atomic_fetch_add(args.runs, 1, __ATOMIC_RELAXED);
}

/* One call of each kind, all undone; the first that fails ends it. */
static int use_all(struct cpu_device *device, void *pages)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	uint64_t number = cpu_device_number(device), offset;
	struct count_args args;
	void *at, *host, *imported;
	int fd, rc = ops->alloc(number, PAGE, 2 * PAGE, FI_XPU_ALLOC_DMABUF, &at, &fd, &offset);

	if (rc)
		return rc;
	close(fd);
	ops->free(number, at);
	rc = ops->import(number, pages, PAGE, FI_XPU_IMPORT_DEVICEMAP, &imported);
	if (rc)
		return rc;
	ops->free(number, imported);
	rc = cpu_device_alloc(device, PAGE, &at, &host);
	if (rc)
		return rc;
	args.runs = at;
	rc = cpu_device_launch(device, count, &args, sizeof(args), 2, 5);
	if (!rc)
		rc = cpu_device_wait(device, -1);
	assert_int_equal(*(uint64_t *)host, rc ? 0 : 10);
	cpu_device_free(device, at);
	return rc;
}

static void assert_undone(const struct scene *scene, long live, size_t fds, size_t mappings)
{
	struct cpu_device_counts counts = cpu_device_counts(scene->device);

	assert_int_equal(counts.allocs + counts.imports, counts.frees);
	assert_int_equal(alloc_live, live);
	assert_int_equal(test_fds(), fds);
	assert_int_equal(scene_mappings(), mappings);
}

/* The n-th call of a kind fails, for every n, until all have passed. */
static void fail_each(void **state, unsigned *fails, int code, unsigned least)
{
	unsigned char *pages;
	struct scene scene;
	unsigned n = 1;
	long live;
	size_t fds, mappings;
	bool failed;

	scene_open(&scene, state);
	live = alloc_live;
	fds = test_fds();
	mappings = scene_mappings();
	do {
		int rc;

		pages = scene_pages(1);
		memset(pages, 7, PAGE);
		alloc_fail_at(fails ? 0 : n);
		if (fails)
			*fails = n;
		rc = use_all(scene.device, pages);
		failed = fails ? *fails == 0 : alloc_failed();
		if (fails)
			*fails = 0;
		assert_int_equal(rc, failed ? code : 0);
		for (size_t i = 0; i < PAGE; i++)
			assert_int_equal(pages[i], 7);
		munmap(pages, PAGE);
		assert_undone(&scene, live, fds, mappings);
	} while (failed && ++n);
	assert_true(n > least);
	scene_close(&scene);
}

static void xpu_02_memory_for_its_books_fails_in_turn(void **state)
{
	fail_each(state, NULL, -ENOMEM, 3);
}

static void xpu_02_mappings_fail_in_turn(void **state)
{
	fail_each(state, &mmap_fails, -ENOMEM, 3);
}

/* Ten and one: none of the others has run. */
static void xpu_09_threads_fail_in_turn(void **state)
{
	fail_each(state, &create_fails, -EAGAIN, 11);
}

static void xpu_02_open_fails_in_turn(void **state)
{
	enum cpu_device_mode mode = *(enum cpu_device_mode *)*state;
	struct cpu_device *device = NULL;
	size_t fds = test_fds();
	long live = alloc_live;
	unsigned n = 1;
	bool failed;

	do {
		int rc;

		alloc_fail_at(n);
		rc = cpu_device_open(mode, &device);
		failed = alloc_failed();
		assert_int_equal(rc, failed ? -ENOMEM : 0);
		if (failed)
			assert_null(device);
		else
			cpu_device_close(device);
		assert_int_equal(test_fds(), fds);
		assert_int_equal(alloc_live, live);
	} while (failed && ++n);
	assert_true(n > 1);
}

static void xpu_02_no_process_no_device(void **state)
{
	struct cpu_device *device = NULL;
	size_t fds = test_fds();
	long live = alloc_live;

	(void)state;
	spawn_fails = 1;
	assert_int_equal(cpu_device_open(CPU_DEVICE_PROCESS, &device), -EAGAIN);
	assert_int_equal(spawn_fails, 0);
	assert_null(device);
	assert_int_equal(test_fds(), fds);
	assert_int_equal(alloc_live, live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CPU_DEVICE_TESTS(xpu_02_memory_for_its_books_fails_in_turn),
		CPU_DEVICE_TESTS(xpu_02_mappings_fail_in_turn),
		CPU_DEVICE_TEST(xpu_09_threads_fail_in_turn, in_threads),
		CPU_DEVICE_TESTS(xpu_02_open_fails_in_turn),
		cmocka_unit_test(xpu_02_no_process_no_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
