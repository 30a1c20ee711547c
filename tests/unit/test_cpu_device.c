/* SPDX-License-Identifier: BSD-2-Clause */
/* The CPU device's memory, in both modes: allocated, imported, freed, as fi_xpu_ops asks for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/resource.h>

#include "cpu_device_scene.h"

#define PAGE 4096u

/* Adds to every byte, so that what was there before is seen as well. */
struct add_args {
	unsigned char *bytes;
	size_t len;
	unsigned char value;
};

XPU_KERNEL(add, struct add_args)
{
	for (size_t i = xpu_thread(); i < args.len; i += xpu_threads())
		args.bytes[i] = (unsigned char)(args.bytes[i] + args.value);
}

static void add_on(const struct scene *scene, void *bytes, size_t len, unsigned char value)
{
	struct add_args args = { bytes, len, value };

	scene_run(scene, add, &args, sizeof(args), 1, 4);
}

static void assert_bytes(const unsigned char *bytes, size_t len, unsigned char value)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(bytes[i], value);
}

/* Nobody has mapped the address here. */
static void assert_not_here(void *address)
{
	unsigned char resident;

	assert_int_equal(mincore(address, PAGE, &resident), -1);
	assert_int_equal(errno, ENOMEM);
}

/* ---- of the device's own ---- */

static void xpu_02_memory_is_zeroed_and_both_reach_it(void **state)
{
	void *device, *host;
	struct scene scene;

	scene_open(&scene, state);
	for (size_t len = 1; len <= 3 * PAGE + 1; len += 3 * PAGE) {
		assert_int_equal(cpu_device_alloc(scene.device, len, &device, &host), 0);
		assert_bytes(host, len, 0);
		add_on(&scene, device, len, 3);
		assert_bytes(host, len, 3);
		memset(host, 5, len);
		add_on(&scene, device, len, 2);
		assert_bytes(host, len, 7);
		if (scene.mode == CPU_DEVICE_PROCESS)
			assert_not_here(device);
		else
			assert_ptr_equal(device, host);
		cpu_device_free(scene.device, device);
	}
	scene_close(&scene);
}

static void xpu_02_memory_is_refused_where_it_cannot_be(void **state)
{
	void *device = NULL, *host = NULL;
	struct scene scene;

	scene_open(&scene, state);
	assert_int_equal(cpu_device_alloc(scene.device, 0, &device, &host), -EINVAL);
	assert_int_equal(cpu_device_alloc(scene.device, SIZE_MAX, &device, &host), -ENOMEM);
	assert_int_equal(cpu_device_alloc(scene.device, 1ull << 60, &device, &host), -ENOMEM);
	assert_int_equal(cpu_device_alloc(scene.device, 1ull << 50, &device, &host), -ENOMEM);
	assert_null(device);
	assert_null(host);
	assert_int_equal(cpu_device_counts(scene.device).allocs, 0);
	scene_close(&scene);
}

/* Two devices: each has its memory, at addresses that are not the other's. */
static void xpu_02_devices_are_apart(void **state)
{
	struct scene one, two;
	void *device[2], *host[2];

	scene_open(&one, state);
	scene_open(&two, state);
	assert_int_not_equal(one.number, two.number);
	assert_int_equal(cpu_device_alloc(one.device, PAGE, &device[0], &host[0]), 0);
	assert_int_equal(cpu_device_alloc(two.device, PAGE, &device[1], &host[1]), 0);
	assert_ptr_not_equal(device[0], device[1]);
	add_on(&one, device[0], PAGE, 1);
	add_on(&two, device[1], PAGE, 2);
	assert_bytes(host[0], PAGE, 1);
	assert_bytes(host[1], PAGE, 2);
	cpu_device_free(one.device, device[0]);
	cpu_device_free(two.device, device[1]);
	scene_close(&two);
	scene_close(&one);
}

/* What is not freed goes with the device. */
static void xpu_02_close_frees_all(void **state)
{
	void *device, *host, *pages = scene_pages(1), *ptr;
	struct scene scene;

	scene_open(&scene, state);
	assert_int_equal(cpu_device_alloc(scene.device, PAGE, &device, &host), 0);
	assert_int_equal(cpu_device_ops()->import(scene.number, pages, PAGE, 0, &ptr), 0);
	cpu_device_close(scene.device);
	assert_int_equal(test_fds(), scene.fds);
	munmap(pages, PAGE);
	assert_int_equal(scene_mappings(), scene.mappings);
	assert_int_equal(cpu_device_ops()->import(scene.number, pages, PAGE, 0, &ptr), -ENODEV);
}

/* ---- fi_xpu_ops: alloc ---- */

static void xpu_02_alloc_gives_a_file_to_map(void **state)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	uint64_t offset = 77;
	struct scene scene;
	void *device, *host;
	int fd = -1;

	scene_open(&scene, state);
	assert_int_equal(ops->size, sizeof(*ops));
	assert_int_equal(ops->alloc(scene.number, 2 * PAGE, PAGE, FI_XPU_ALLOC_DMABUF, &device, &fd,
				    &offset),
			 0);
	assert_int_equal(offset, 0);
	host = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	assert_ptr_not_equal(host, MAP_FAILED);
	close(fd);
	add_on(&scene, device, 2 * PAGE, 9);
	assert_bytes(host, 2 * PAGE, 9);
	ops->free(scene.number, device);
	assert_bytes(host, 2 * PAGE, 9); /* it is the host's as long as this maps it */
	munmap(host, 2 * PAGE);
	scene_close(&scene);
}

static void xpu_02_alloc_is_aligned(void **state)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	void *device[24];
	struct scene scene;

	scene_open(&scene, state);
	for (unsigned i = 0; i < 24; i++) { /* 1 to 8 MiB */
		assert_int_equal(
			ops->alloc(scene.number, PAGE, 1ull << i, 0, &device[i], NULL, NULL), 0);
		assert_int_equal((uintptr_t)device[i] & ((1ull << i) - 1), 0);
		add_on(&scene, device[i], PAGE, 1);
	}
	for (unsigned i = 0; i < 24; i++)
		ops->free(scene.number, device[i]);
	scene_close(&scene);
}

static void xpu_02_alloc_is_refused_with_a_cause(void **state)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	void *device = NULL;
	struct scene scene;
	uint64_t offset;
	int fd = -1;

	scene_open(&scene, state);
	assert_int_equal(ops->alloc(0, PAGE, 0, 0, &device, NULL, NULL), -ENODEV);
	assert_int_equal(ops->alloc(scene.number, PAGE, 3, 0, &device, NULL, NULL), -EINVAL);
	assert_int_equal(ops->alloc(scene.number, PAGE, 0, 2, &device, NULL, NULL), -EINVAL);
	assert_int_equal(ops->alloc(scene.number, PAGE, 0, FI_XPU_ALLOC_DMABUF, &device, NULL,
				    NULL),
			 -EINVAL);
	assert_int_equal(ops->alloc(scene.number, 0, 0, FI_XPU_ALLOC_DMABUF, &device, &fd, &offset),
			 -EINVAL);
	assert_int_equal(ops->alloc(scene.number, 1ull << 60, 0, FI_XPU_ALLOC_DMABUF, &device, &fd,
				    &offset),
			 -ENOMEM);
	assert_int_equal(ops->alloc(scene.number, PAGE, 1ull << 60, 0, &device, NULL, NULL),
			 -ENOMEM);
	assert_null(device);
	assert_int_equal(fd, -1);
	assert_int_equal(cpu_device_counts(scene.device).allocs, 0);
	scene_close(&scene);
}

/* ---- import ---- */

static void xpu_02_import_shares_the_pages(void **state)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	unsigned char *pages = scene_pages(4);
	struct scene scene;
	void *device;

	scene_open(&scene, state);
	memset(pages, 1, 4 * PAGE);
	assert_int_equal(ops->import(scene.number, pages + PAGE, 2 * PAGE, FI_XPU_IMPORT_DEVICEMAP,
				     &device),
			 0);
	if (scene.mode == CPU_DEVICE_PROCESS)
		assert_not_here(device);
	else
		assert_ptr_equal(device, pages + PAGE);
	assert_bytes(pages, 4 * PAGE, 1); /* the content has stayed */
	add_on(&scene, device, 2 * PAGE, 1);
	assert_bytes(pages + PAGE, 2 * PAGE, 2);
	memset(pages + PAGE, 5, 2 * PAGE);
	add_on(&scene, device, 2 * PAGE, 1);
	ops->free(scene.number, device);
	assert_bytes(pages, PAGE, 1); /* and those around are not concerned */
	assert_bytes(pages + PAGE, 2 * PAGE, 6);
	assert_bytes(pages + 3 * PAGE, PAGE, 1);
	memset(pages, 0, 4 * PAGE); /* the host's as ever */
	munmap(pages, 4 * PAGE);
	scene_close(&scene);
}

static void xpu_02_import_is_refused_with_a_cause(void **state)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	unsigned char *pages = scene_pages(3);
	void *device = NULL, *first;
	struct scene scene;
	uint64_t number;

	scene_open(&scene, state);
	number = scene.number;
	memset(pages, 1, 3 * PAGE);
	assert_int_equal(ops->import(0, pages, PAGE, 0, &device), -ENODEV);
	assert_int_equal(ops->import(number, pages, 0, 0, &device), -EINVAL);
	assert_int_equal(ops->import(number, pages + 1, PAGE, 0, &device), -EINVAL);
	assert_int_equal(ops->import(number, pages, PAGE + 8, 0, &device), -EINVAL);
	assert_int_equal(ops->import(number, pages, PAGE, FI_XPU_IMPORT_IOMEMORY, &device),
			 -EOPNOTSUPP);
	assert_int_equal(ops->import(number, pages + PAGE, PAGE, 0, &first), 0);
	assert_int_equal(ops->import(number, pages, 3 * PAGE, 0, &device), -EBUSY);
	ops->free(number, first);
	munmap(pages + 2 * PAGE, PAGE);
	if (scene.mode == CPU_DEVICE_PROCESS) /* as threads there is nothing to do for it */
		assert_int_equal(ops->import(number, pages, 3 * PAGE, 0, &device), -EFAULT);
	assert_null(device);
	assert_int_equal(cpu_device_counts(scene.device).imports, 1);
	assert_bytes(pages, 2 * PAGE, 1);
	munmap(pages, 2 * PAGE);
	scene_close(&scene);
}

/* ---- free ---- */

static void xpu_02_a_free_too_many_is_counted(void **state)
{
	struct cpu_device_counts counts;
	void *device, *host;
	struct scene scene;

	scene_open(&scene, state);
	cpu_device_ops()->free(scene.number, NULL);
	assert_int_equal(cpu_device_alloc(scene.device, PAGE, &device, &host), 0);
	cpu_device_ops()->free(scene.number, device);
	counts = cpu_device_counts(scene.device);
	assert_int_equal(counts.allocs, 1);
	assert_int_equal(counts.frees, 1);
	cpu_device_ops()->free(scene.number, device);
	assert_int_equal(cpu_device_counts(scene.device).frees, 2);
	assert_int_equal(cpu_device_alloc(scene.device, PAGE, &device, &host), 0);
	scene_close(&scene);
}

/* Every thread for itself, while a kernel runs. */
static void *use_ops(void *argument)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	const struct scene *scene = argument;
	bool bad = false;

	for (int i = 0; i < 50 && !bad; i++) {
		void *device[2], *pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		bad = pages == MAP_FAILED ||
		      ops->import(scene->number, pages, PAGE, FI_XPU_IMPORT_DEVICEMAP,
				  &device[0]) ||
		      ops->alloc(scene->number, PAGE, 0, 0, &device[1], NULL, NULL);
		if (!bad) {
			ops->free(scene->number, device[0]);
			ops->free(scene->number, device[1]);
			munmap(pages, PAGE);
		}
	}
	return bad ? argument : NULL;
}

static void xpu_02_ops_come_from_any_thread(void **state)
{
	uint64_t *words, *on_device;
	pthread_t threads[4];
	struct scene scene;

	scene_open(&scene, state);
	scene_hold(&scene, &words, &on_device, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_ops, &scene), 0);
	for (int i = 0; i < 4; i++) {
		void *bad;

		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
	scene_release(&scene, words);
	assert_int_equal(cpu_device_counts(scene.device).imports, 200);
	assert_int_equal(cpu_device_counts(scene.device).allocs, 201);
	cpu_device_free(scene.device, on_device);
	scene_close(&scene);
}

/* ---- without file descriptors ---- */

static int use_device(enum cpu_device_mode mode)
{
	struct cpu_device *device;
	void *on_device, *on_host;
	int rc = cpu_device_open(mode, &device);

	if (rc)
		return rc;
	rc = cpu_device_alloc(device, PAGE, &on_device, &on_host);
	if (!rc)
		cpu_device_free(device, on_device);
	cpu_device_close(device);
	return rc;
}

/* With ever more of them, until they are enough. */
static void xpu_02_no_file_descriptors_leave_nothing(void **state)
{
	enum cpu_device_mode mode = *(enum cpu_device_mode *)*state;
	size_t fds = test_fds(), mappings = scene_mappings();
	struct rlimit before, few;
	int rc = -EMFILE, tries;

	if (getenv("HMREG_VALGRIND")) /* which has the last ones to itself */
		skip();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (tries = 0; rc == -EMFILE && tries < 64; tries++) {
		few = (struct rlimit){ (rlim_t)tries, before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		rc = use_device(mode);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(test_fds(), fds);
		assert_int_equal(scene_mappings(), mappings);
	}
	assert_int_equal(rc, 0);
	assert_true(tries > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CPU_DEVICE_TESTS(xpu_02_memory_is_zeroed_and_both_reach_it),
		CPU_DEVICE_TESTS(xpu_02_memory_is_refused_where_it_cannot_be),
		CPU_DEVICE_TESTS(xpu_02_devices_are_apart),
		CPU_DEVICE_TESTS(xpu_02_close_frees_all),
		CPU_DEVICE_TESTS(xpu_02_alloc_gives_a_file_to_map),
		CPU_DEVICE_TESTS(xpu_02_alloc_is_aligned),
		CPU_DEVICE_TESTS(xpu_02_alloc_is_refused_with_a_cause),
		CPU_DEVICE_TESTS(xpu_02_import_shares_the_pages),
		CPU_DEVICE_TESTS(xpu_02_import_is_refused_with_a_cause),
		CPU_DEVICE_TESTS(xpu_02_a_free_too_many_is_counted),
		CPU_DEVICE_TESTS(xpu_02_ops_come_from_any_thread),
		CPU_DEVICE_TESTS(xpu_02_no_file_descriptors_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
