/* SPDX-License-Identifier: BSD-2-Clause */
/* kdreg2 as the monitor of a cache, with a device that the test is. */
#include <errno.h>
#include <fcntl.h>
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

#include <rdma/fi_errno.h>

#include "core/mr/monitor_kdreg2.h"
#include "monitor_scene.h"
#include "tests/threads.h"

#define REGIONS 2048
#define BASE	((char *)0x7f1234560000)
#define LEN	(16 * PAGE)

/* As the driver: a place for each region, whose state has a generation above the bit that says it is in use. */
static struct {
	struct kdreg2_status status;
	_Atomic uint32_t state[REGIONS];
	struct {
		uint64_t begin, end, cookie;
		bool watched;
	} region[REGIONS];
	int open_error, config_error, monitor_error;
	size_t most; /* regions that it accepts */
	int node;    /* the descriptor that was given */
	int events;  /* the end that events are written to; the other is the program's */
	unsigned watched, bad_unmonitors;
} device;

static int device_open(const char *path, int flags)
{
	int fds[2];

	assert_string_equal(path, "/dev/kdreg2");
	assert_int_equal(flags & O_ACCMODE, O_RDWR);
	if (device.open_error) {
		errno = device.open_error;
		return -1;
	}
	assert_int_equal(pipe2(fds, flags & (O_CLOEXEC | O_NONBLOCK)), 0);
	device.events = fds[1];
	device.node = fds[0];
	return fds[0];
}

static int refuse(int err)
{
	errno = err;
	return -1;
}

static int device_config(struct kdreg2_config *config)
{
	if (device.config_error)
		return refuse(device.config_error);
	if (config->max_regions > device.most)
		return refuse(ENOSPC);
	device.status.max_regions = config->max_regions;
	device.status.state = device.state;
	config->status = &device.status;
	return 0;
}

static int device_monitor(struct kdreg2_monitor *ask)
{
	if (device.monitor_error)
		return refuse(device.monitor_error);
	if (ask->length == 0 || ask->cookie == UINT64_MAX)
		return refuse(EINVAL);
	for (size_t i = 0; i < REGIONS; i++)
		if (device.region[i].watched && device.region[i].cookie == ask->cookie)
			return refuse(EBUSY);
	for (size_t i = 0; i < device.status.max_regions && i < REGIONS; i++) {
		if (device.region[i].watched)
			continue;
		device.region[i].begin = (uintptr_t)ask->addr;
		device.region[i].end = (uintptr_t)ask->addr + ask->length;
		device.region[i].cookie = ask->cookie;
		device.region[i].watched = true;
		device.watched++;
		ask->params.location = i;
		ask->params.generation = atomic_fetch_add(&device.state[i], 1) + 1;
		return 0;
	}
	return refuse(ENOSPC);
}

static void drop(size_t i)
{
	device.region[i].watched = false;
	device.watched--;
	atomic_fetch_add(&device.state[i], 1);
}

static int device_unmonitor(const struct kdreg2_unmonitor *ask)
{
	size_t i = ask->params.location;

	if (i >= REGIONS || !device.region[i].watched || device.region[i].cookie != ask->cookie ||
	    atomic_load(&device.state[i]) != ask->params.generation) {
		device.bad_unmonitors++;
		return refuse(i >= REGIONS ? EINVAL : ESRCH);
	}
	drop(i);
	return 0;
}

static int device_ioctl(int fd, unsigned long request, void *arg)
{
	assert_true(fd >= 0);
	switch (request) {
	case KDREG2_CONFIG:
		return device_config(arg);
	case KDREG2_MONITOR:
		return device_monitor(arg);
	case KDREG2_UNMONITOR:
		return device_unmonitor(arg);
	default:
		return refuse(ENOTTY);
	}
}

/* What the kernel does when memory changes; the event only if it is wanted. */
static void memory_changes(const void *addr, size_t len, bool event)
{
	uint64_t begin = (uintptr_t)addr, end = begin + len;

	for (size_t i = 0; i < REGIONS; i++) {
		struct kdreg2_event e = { .type = KDREG2_MAPPING_CHANGE };

		if (!device.region[i].watched || device.region[i].begin >= end ||
		    device.region[i].end <= begin)
			continue;
		e.addr = (void *)(uintptr_t)device.region[i].begin;
		e.len = device.region[i].end - device.region[i].begin;
		e.cookie = device.region[i].cookie;
		drop(i);
		if (event)
			assert_int_equal(write(device.events, &e, sizeof(e)), sizeof(e));
	}
}

static const struct hm_monitor *const only_kdreg2[] = { &hm_monitor_kdreg2 };
static struct scene scene;
static size_t fds_before;

static int set_up(void **state)
{
	(void)state;
	memset(&device, 0, sizeof(device));
	device.most = REGIONS;
	memset(&logged, 0, sizeof(logged));
	hm_kdreg2_calls = (struct hm_kdreg2_calls){ device_open, device_ioctl };
	hm_log_set_sink(remember_line, NULL);
	hm_monitor_override("kdreg2", only_kdreg2, 1);
	fds_before = test_fds();
	return 0;
}

static int open_scene(void **state)
{
	set_up(state);
	return scene_open(&scene);
}

static int tear_down(void **state)
{
	(void)state;
	hm_log_set_sink(NULL, NULL);
	if (device.events > 0)
		close(device.events);
	return device.watched == 0 && test_fds() == fds_before ? 0 : -1;
}

static int close_scene(void **state)
{
	scene_close(&scene);
	return tear_down(state);
}

static void cache_02_a_change_is_seen_without_an_event(void **state)
{
	uint64_t first, second;

	(void)state;
	first = scene_use(&scene, BASE, LEN);
	assert_int_equal(device.watched, 1);
	assert_int_equal(scene_use(&scene, BASE + PAGE, 100), first);
	memory_changes(BASE + 3 * PAGE, PAGE, false);
	second = scene_use(&scene, BASE, LEN);
	assert_int_not_equal(second, first);
	assert_int_equal(scene_use(&scene, BASE, LEN), second);
	/* Elsewhere. */
	memory_changes(BASE + LEN, LEN, false);
	assert_int_equal(scene_use(&scene, BASE, LEN), second);
}

static void cache_02_what_changes_while_it_is_registered_is_not_found(void **state)
{
	uint64_t mark, first;

	(void)state;
	assert_int_equal(hm_monitor_watch((uintptr_t)BASE, (uintptr_t)BASE + LEN, &mark), 0);
	assert_true(hm_monitor_hit_ok((uintptr_t)BASE, (uintptr_t)BASE + LEN, mark));
	memory_changes(BASE, PAGE, false);
	assert_false(hm_monitor_hit_ok((uintptr_t)BASE, (uintptr_t)BASE + LEN, mark));
	hm_monitor_unwatch((uintptr_t)BASE, (uintptr_t)BASE + LEN, mark);
	/* Its place is another's now; the old mark stays wrong. */
	first = scene_use(&scene, BASE, LEN);
	assert_false(hm_monitor_hit_ok((uintptr_t)BASE, (uintptr_t)BASE + LEN, mark));
	assert_int_not_equal(scene_use(&scene, BASE, LEN), first);
}

static void cache_02_events_end_what_is_kept(void **state)
{
	(void)state;
	scene_use(&scene, BASE, LEN);
	memory_changes(BASE, LEN, true);
	/* Without a hit that would ask. */
	do {
		sched_yield();
		hm_cache_reap(&scene.cache);
	} while (atomic_load(&scene.removed) == 0);
	assert_int_equal(atomic_load(&scene.removed), 1);
}

static void cache_02_ranges_beyond_the_drivers_limit_are_not_kept(void **state)
{
	uint64_t first;

	(void)state;
	for (size_t i = 0; i < REGIONS; i++)
		scene_use(&scene, BASE + 2 * i * PAGE, PAGE);
	assert_int_equal(scene.watch_code, 0);
	first = scene_use(&scene, BASE - 2 * PAGE, PAGE);
	assert_int_equal(scene.watch_code, -FI_ENOSPC);
	assert_int_not_equal(scene_use(&scene, BASE - 2 * PAGE, PAGE), first);
	assert_int_equal(device.bad_unmonitors, 0);
}

static void fn_32_a_device_of_another_process_ends_everything_kept(void **state)
{
	uint64_t first;

	(void)state;
	first = scene_use(&scene, BASE, LEN);
	device.monitor_error = EIO;
	scene_use(&scene, BASE + LEN, LEN);
	assert_null(hm_monitor_used());
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(logged.warning, "kdreg2"));
	assert_int_not_equal(scene_use(&scene, BASE, LEN), first);
	device.monitor_error = 0;
}

static void fn_32_events_that_cannot_be_read_end_everything_kept(void **state)
{
	(void)state;
	scene_use(&scene, BASE, LEN);
	close(device.events);
	device.events = 0;
	while (hm_monitor_used())
		sched_yield();
	scene_use(&scene, BASE, LEN);
	assert_int_equal(scene.watch_code, -FI_ENOSYS);
}

/* The node's number is another file's at once: what that has to read stays there, and it stays open. */
static void fn_32_a_descriptor_that_the_program_closes_ends_everything_kept(void **state)
{
	int fd = device.node, mine[2];
	uint64_t word = 77;

	(void)state;
	scene_use(&scene, BASE, LEN);
	assert_int_equal(pipe2(mine, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(write(mine[1], &word, sizeof(word)), sizeof(word));
	assert_int_equal(dup3(mine[0], fd, O_CLOEXEC), fd);
	assert_int_equal(close(mine[0]), 0);
	close(device.events); /* wakes who waits for the node that was */
	device.events = 0;
	while (hm_monitor_used())
		sched_yield();
	scene_close(&scene);
	word = 0;
	assert_int_equal(read(fd, &word, sizeof(word)), sizeof(word));
	assert_int_equal(word, 77);
	close(fd);
	close(mine[1]);
	assert_int_equal(scene_open(&scene), 0);
}

static void fn_32_a_child_keeps_nothing(void **state)
{
	int status;
	pid_t child;

	(void)state;
	scene_use(&scene, BASE, LEN);
	child = test_fork();
	if (child == 0) {
		uint64_t number = scene_use(&scene, BASE, LEN);
		bool fine = !hm_monitor_used() && scene_use(&scene, BASE, LEN) != number;

		_exit(fine ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_ptr_equal(hm_monitor_used(), &hm_monitor_kdreg2);
}

static void fn_32_without_the_device_it_says_so(void **state)
{
	static const struct {
		int *fail;
		int err;
		const char *text;
	} way[] = {
		{ &device.open_error, ENOENT, "there is no device node /dev/kdreg2" },
		{ &device.open_error, EACCES, "cannot open /dev/kdreg2" },
		{ &device.config_error, EINVAL, "refuses to follow" },
		{ &device.config_error, ENOMEM, "refuses to follow 1024 ranges" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
		char text[512];

		logged.warnings = 0;
		*way[i].fail = way[i].err;
		assert_int_equal(scene_open(&scene), -FI_ENOSYS);
		*way[i].fail = 0;
		assert_int_equal(logged.warnings, 1);
		assert_non_null(strstr(logged.warning, way[i].text));
		assert_non_null(strstr(hm_monitor_text(text, sizeof(text)), way[i].text));
		hm_cache_destroy(&scene.cache);
		if (device.events > 0)
			close(device.events);
		device.events = 0;
		assert_int_equal(test_fds(), fds_before);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_scene, close_scene)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cache_02_a_change_is_seen_without_an_event),
		TEST(cache_02_what_changes_while_it_is_registered_is_not_found),
		TEST(cache_02_events_end_what_is_kept),
		TEST(cache_02_ranges_beyond_the_drivers_limit_are_not_kept),
		TEST(fn_32_a_device_of_another_process_ends_everything_kept),
		TEST(fn_32_events_that_cannot_be_read_end_everything_kept),
		TEST(fn_32_a_descriptor_that_the_program_closes_ends_everything_kept),
		TEST(fn_32_a_child_keeps_nothing),
		cmocka_unit_test_setup_teardown(fn_32_without_the_device_it_says_so, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
