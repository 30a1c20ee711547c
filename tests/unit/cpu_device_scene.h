/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the CPU device, what they share: a device and what must be as before.  Include after <cmocka.h>. */
#ifndef HM_TEST_CPU_DEVICE_SCENE_H
#define HM_TEST_CPU_DEVICE_SCENE_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "samples/xpu/kernel.h"
#include "samples/xpu/cpu_device.h"
#include "tests/fds.h"
#include "tests/threads.h"

static enum cpu_device_mode in_process = CPU_DEVICE_PROCESS, in_threads = CPU_DEVICE_THREADS;

/* A test for one mode, and for each. */
#define CPU_DEVICE_TEST(name, mode)                                                                \
	{                                                                                          \
#name " (" #mode ")", name, NULL, NULL, &(mode)                                    \
	}
#define CPU_DEVICE_TESTS(name) CPU_DEVICE_TEST(name, in_process), CPU_DEVICE_TEST(name, in_threads)

struct scene {
	enum cpu_device_mode mode;
	size_t fds, mappings, threads;
	struct cpu_device *device;
	uint64_t number;
};

/* Of devices' memory, in this process. */
static inline size_t scene_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	size_t count = 0;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, "memfd:cpu-device") != NULL;
	fclose(file);
	return count;
}

static inline void *scene_nothing(void *argument)
{
	return argument;
}

static inline void scene_open(struct scene *scene, void **state)
{
	pthread_t first;

	/* With the first thread comes one of the sanitizer's, to stay. */
	assert_int_equal(pthread_create(&first, NULL, scene_nothing, NULL), 0);
	pthread_join(first, NULL);
	scene->mode = *(enum cpu_device_mode *)*state;
	scene->fds = test_fds();
	scene->mappings = scene_mappings();
	scene->threads = test_threads();
	assert_int_equal(cpu_device_open(scene->mode, &scene->device), 0);
	scene->number = cpu_device_number(scene->device);
}

/* All is as it was, and every alloc and import had its free. */
static inline void scene_close(struct scene *scene)
{
	struct cpu_device_counts counts = cpu_device_counts(scene->device);

	assert_int_equal(counts.allocs + counts.imports, counts.frees);
	cpu_device_close(scene->device);
	assert_int_equal(test_fds(), scene->fds);
	assert_int_equal(scene_mappings(), scene->mappings);
	assert_true(test_threads_back(scene->threads));
}

static inline void *scene_pages(size_t count)
{
	void *pages = mmap(NULL, count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	return pages;
}

static inline void scene_run(const struct scene *scene, cpu_device_kernel *kernel, const void *args,
			     size_t len, unsigned blocks, unsigned threads)
{
	assert_int_equal(cpu_device_launch(scene->device, kernel, args, len, blocks, threads), 0);
	assert_int_equal(cpu_device_wait(scene->device, -1), 0);
}

/* Says that it runs, and does until it is let go. */
struct hold_args {
	uint64_t *started, *release;
};

XPU_KERNEL(hold, struct hold_args)
{
	__atomic_fetch_add(args.started, 1, __ATOMIC_RELEASE);
	while (!xpu_load(args.release))
		xpu_pause();
}

/* Two words that host and device reach, for hold; host[0] counts who runs, host[1] lets go. */
static inline void scene_hold(const struct scene *scene, uint64_t **words, uint64_t **on_device,
			      unsigned threads)
{
	struct hold_args args;
	void *device, *host;

	assert_int_equal(cpu_device_alloc(scene->device, 4096, &device, &host), 0);
	*words = host;
	*on_device = device;
	args = (struct hold_args){ *on_device, *on_device + 1 };
	assert_int_equal(cpu_device_launch(scene->device, hold, &args, sizeof(args), 1, threads),
			 0);
	while (__atomic_load_n(*words, __ATOMIC_ACQUIRE) < threads)
		usleep(100);
}

static inline void scene_release(const struct scene *scene, uint64_t *words)
{
	__atomic_store_n(&words[1], 1, __ATOMIC_RELEASE);
	assert_int_equal(cpu_device_wait(scene->device, -1), 0);
}

#endif
