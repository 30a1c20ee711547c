/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Level Zero's copies, between devices and drivers; every call of the vendor failing in turn; threads.
 */
#include "tests/unit/ze_drivers.h"

/* ---- copies ---- */

static void fill_bytes(unsigned char *bytes, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (unsigned char)(i * 31 + (i >> 8) + seed);
}

static void check_copy(int from, int to, bool async)
{
	unsigned char *bytes = malloc(LEN), *back = malloc(LEN);
	struct made a, b;
	uint64_t event;

	fill_bytes(bytes, LEN, (unsigned int)(from + to));
	make(MAKE_DEVICE, from, &a);
	make(MAKE_PRIVATE, to, &b);
	assert_int_equal(ze->copy(a.addr, from, bytes, HMEM_NO_DEVICE, LEN), 0);
	if (async) {
		assert_int_equal(
			ze->copy_start((char *)b.addr + 3, to, a.addr, from, LEN - 3, &event), 0);
		assert_int_not_equal(event, 0);
		assert_int_equal(ze->copy_end(event, true), 0);
	} else {
		assert_int_equal(ze->copy((char *)b.addr + 3, to, a.addr, from, LEN - 3), 0);
	}
	assert_int_equal(ze->copy(back, HMEM_NO_DEVICE, (char *)b.addr + 3, to, LEN - 3), 0);
	assert_memory_equal(bytes, back, LEN - 3);
	make_ze.drop(&a);
	make_ze.drop(&b);
	free(bytes);
	free(back);
}

static void copies_between_devices_and_drivers(void **state)
{
	static const char *const settings[] = { "delay=1", "nopeer=1" };

	(void)state;
	for (size_t s = 0; s < 2; s++) {
		setenv("EMU_ZE", settings[s], 1);
		for (int i = 0; i < 4; i++)
			for (int k = 0; k < 4; k++)
				check_copy(id_of(i / 2, i % 2), id_of(k / 2, k % 2), (i + k) % 2);
	}
}

/* The emulated engine copies from the first byte on, whatever it overwrites. */
static void copies_that_overlap(void **state)
{
	unsigned char *bytes = malloc(LEN), *back = malloc(LEN);
	size_t far = 777;
	struct made made;

	(void)state;
	make(MAKE_DEVICE, 0, &made);
	for (int backward = 0; backward < 2; backward++) {
		char *low = made.addr, *high = low + far;

		fill_bytes(bytes, LEN - far, 3);
		assert_int_equal(
			ze->copy(backward ? low : high, 0, bytes, HMEM_NO_DEVICE, LEN - far), 0);
		assert_int_equal(
			ze->copy(backward ? high : low, 0, backward ? low : high, 0, LEN - far), 0);
		assert_int_equal(
			ze->copy(back, HMEM_NO_DEVICE, backward ? high : low, 0, LEN - far), 0);
		assert_memory_equal(bytes, back, LEN - far);
	}
	make_ze.drop(&made);
	free(bytes);
	free(back);
}

static void copies_under_way(void **state)
{
	unsigned char *bytes = malloc(LEN), *back = calloc(1, LEN);
	struct made made;
	uint64_t event;

	(void)state;
	fill_bytes(bytes, LEN, 9);
	make(MAKE_DEVICE, 0, &made);
	assert_int_equal(make_ze.write(&made, 0, bytes, LEN), 0);
	/* EMU_ZE=delay=2 */
	assert_int_equal(ze->copy_start(back, HMEM_NO_DEVICE, made.addr, 0, LEN, &event), 0);
	assert_int_equal(ze->copy_end(event, false), -FI_EAGAIN);
	assert_int_equal(ze->copy_end(event, false), -FI_EAGAIN);
	assert_int_equal(ze->copy_end(event, false), 0);
	assert_memory_equal(bytes, back, LEN);
	make_ze.drop(&made);
	free(bytes);
	free(back);
}

static void copies_of_no_device(void **state)
{
	char byte = 0;
	uint64_t event;

	(void)state;
	assert_refused(ze->copy(&byte, HMEM_NO_DEVICE, &byte, 77, 1), -FI_ENODEV);
	assert_refused(ze->copy(&byte, id_of(3, 0), &byte, 0, 1), -FI_ENODEV);
	assert_refused(ze->copy_start(&byte, HMEM_NO_DEVICE, &byte, HMEM_NO_DEVICE, 1, &event),
		       -FI_ENODEV);
}

/* ---- failures ---- */

static int first_copy_fails(const char *nth)
{
	char byte = 1, back = 0;
	void *addr;

	if (make_ze.open() || !(hooks = make_ze.hooks()) || !(ze = hmem_get(FI_HMEM_ZE)) ||
	    ze->alloc(0, 1, HMEM_ALLOC_DEVICE, &addr) != 0)
		return 1;
	live = hooks->live("*");
	arm("zeDeviceGetCommandQueueGroupProperties", nth[0] == '1' ? 1 : 2, L0_DEVICE_LOST);
	if (ze->copy(addr, 0, &byte, HMEM_NO_DEVICE, 1) != -FI_EIO || hooks->live("*") != live)
		return 2;
	return ze->copy(addr, 0, &byte, HMEM_NO_DEVICE, 1) == 0 &&
			       ze->copy(&back, HMEM_NO_DEVICE, addr, 0, 1) == 0 && back == byte
		       ? 0
		       : 3;
}

static void errors_of_the_first_copy(void **state)
{
	(void)state;
	assert_int_equal(in_child(first_copy_fails, "1"), 0);
	assert_int_equal(in_child(first_copy_fails, "2"), 0);
}

/* Everything that the interface does; the first error, or 0. */
static int do_all(void)
{
	static const enum hmem_alloc kinds[] = { HMEM_ALLOC_DEVICE, HMEM_ALLOC_HOST,
						 HMEM_ALLOC_MANAGED };
	struct hmem_memory memory;
	struct hmem_export out;
	char byte = 1;
	void *addr[3] = { NULL, NULL, NULL };
	uint64_t event;
	int ret = 0, freed;

	for (int i = 0; ret == 0 && i < 3; i++)
		ret = ze->alloc(1, LEN, kinds[i], &addr[i]);
	if (ret == 0)
		ret = hmem_classify(addr[0], LEN, &memory);
	if (ret == 0)
		ret = ze->export_start(&memory, addr[0], 4096, 0, &out);
	if (ret == 0)
		ze->export_end(&out);
	if (ret == 0)
		ret = ze->copy(addr[0], 1, &byte, HMEM_NO_DEVICE, 1);
	if (ret == 0)
		ret = ze->copy_start(&byte, HMEM_NO_DEVICE, addr[0], 1, 1, &event);
	if (ret == 0) {
		do
			ret = ze->copy_end(event, false);
		while (ret == -FI_EAGAIN);
	}
	for (int i = 0; i < 3; i++) {
		freed = addr[i] ? ze->free(1, addr[i], kinds[i]) : 0;
		if (freed != 0) /* failed by the test: once more */
			assert_int_equal(ze->free(1, addr[i], kinds[i]), 0);
		ret = ret ? ret : freed;
	}
	return ret;
}

/* Lanes are kept: without them, making one is part of what can fail. */
static void forget_lanes(void)
{
	struct ze_device *d = ze_device_of(1);

	while (d->idle) {
		struct ze_lane *lane = d->idle;
		uint64_t event;
		char byte = 0;
		void *addr;

		/* a copy that fails takes its lane with it */
		assert_int_equal(ze->alloc(1, 1, HMEM_ALLOC_DEVICE, &addr), 0);
		assert_int_equal(ze->copy_start(&byte, HMEM_NO_DEVICE, addr, 1, 1, &event), 0);
		assert_true(event == (uintptr_t)lane);
		arm("zeEventHostSynchronize", 1, L0_DEVICE_LOST);
		assert_int_equal(ze->copy_end(event, true), -FI_EIO);
		assert_int_equal(ze->free(1, addr, HMEM_ALLOC_DEVICE), 0);
	}
}

/* Fails the nth call of a name; what do_all then says. */
static int failing(const char *name, unsigned int nth, const char *setting)
{
	long before;
	size_t open_before;
	int ret;

	setenv("EMU_ZE", setting, 1);
	forget_lanes();
	arm("*", 0, 0);
	before = hooks->live("*");
	open_before = test_fds();
	warning_count = 0;
	arm(name, nth, L0_DEVICE_LOST);
	ret = do_all();
	arm(name, 0, 0);
	assert_true(ret == 0 || (ret == -FI_EIO && warning_count > 0));
	assert_int_equal(test_fds(), open_before);
	forget_lanes();
	assert_int_equal(hooks->live("*"), before);
	assert_int_equal(hooks->live("stolen fd"), 0);
	assert_int_equal(do_all(), 0);
	return ret;
}

static void errors_of_each_call(void **state)
{
	static const char *const settings[] = { "cached=0", "cached=1" };
	static char names[64][48];
	size_t count = 0;

	(void)state;
	forget_lanes();
	live = hooks->live("*");
	hooks->reset();
	assert_int_equal(do_all(), 0);
	for (const char *name; count < 64 && (name = hooks->name(count)); count++)
		snprintf(names[count], sizeof(names[count]), "%s", name);
	assert_true(count >= 14);
	for (size_t s = 0; s < count_of(settings); s++)
		for (size_t i = 0; i < count; i++) {
			unsigned int failed = 0, nth = 1;

			/* a destroy that fails leaves its object, which is the driver's doing */
			if (strstr(names[i], "Destroy"))
				continue;
			for (; nth <= 8; nth++)
				failed += failing(names[i], nth, settings[s]) != 0;
			if (strcmp(names[i], "zeVirtualMemGetAccessAttribute") != 0 &&
			    strcmp(names[i], "zeEventHostReset") != 0)
				assert_true(failed > 0);
		}
	forget_lanes();
}

static int export_made(const struct made *made, struct hmem_export *out)
{
	struct hmem_memory memory;

	look_at(made, &memory);
	return ze->export_start(&memory, made->addr, 4096, 0, out);
}

/* A failure that passes says nothing about the memory. */
static void fn_22_passing_failure_is_not_remembered(void **state)
{
	struct hmem_memory memory;
	struct hmem_export out;
	struct made made;

	(void)state;
	make(MAKE_DEVICE, id_of(0, 0), &made);
	for (unsigned int nth = 2; nth <= 3; nth++) {
		arm("zeMemGetAllocProperties", nth, L0_OUT_OF_HOST_MEMORY);
		look_at(&made, &memory);
		assert_true(memory.ways & HMEM_WAY_DMABUF);
	}
	assert_int_equal(export_made(&made, &out), 0);
	ze->export_end(&out);
	make_ze.drop(&made);
}

/* ---- threads ---- */

struct worker {
	int device;
	int failed;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 200 && !w->failed; i++) {
		unsigned char out[256], back[256];
		struct hmem_memory memory;
		struct hmem_export export;
		void *addr;

		fill_bytes(out, sizeof(out), (unsigned int)(i + w->device));
		memset(back, 0, sizeof(back));
		w->failed |= ze->alloc(w->device, LEN, HMEM_ALLOC_DEVICE, &addr) != 0 ||
			     hmem_classify(addr, LEN, &memory) != 0 || memory.device != w->device ||
			     ze->export_start(&memory, addr, 4096, 0, &export) != 0;
		if (w->failed)
			break;
		ze->export_end(&export);
		w->failed |= ze->copy(addr, w->device, out, HMEM_NO_DEVICE, sizeof(out)) != 0 ||
			     ze->copy(back, HMEM_NO_DEVICE, addr, w->device, sizeof(back)) != 0 ||
			     memcmp(out, back, sizeof(out)) != 0;
		w->failed |= ze->free(w->device, addr, HMEM_ALLOC_DEVICE) != 0;
	}
	return NULL;
}

static void threads_at_once(void **state)
{
	(void)state;
	for (int cached = 0; cached < 2; cached++) {
		struct worker workers[4] = { { 0, 0 }, { 0, 0 }, { 1, 0 }, { 0x10000, 0 } };
		pthread_t threads[4];

		setenv("EMU_ZE", cached ? "cached=1" : "cached=0", 1);
		for (int i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
		for (int i = 0; i < 4; i++) {
			pthread_join(threads[i], NULL);
			assert_int_equal(workers[i].failed, 0);
		}
		assert_int_equal(hooks->live("stolen fd"), 0);
	}
	live = hooks->live("*"); /* more lanes than before, which stay */
	assert_int_equal(hooks->live("memory"), 0);
}

int main(void)
{
	static const struct CMUnitTest first[] = { cmocka_unit_test(errors_of_the_first_copy) };
	static const struct CMUnitTest tests[] = {
		TEST(copies_between_devices_and_drivers),
		TEST(copies_that_overlap),
		TEST(copies_under_way),
		TEST(copies_of_no_device),
		TEST(errors_of_each_call),
		TEST(fn_22_passing_failure_is_not_remembered),
		TEST(threads_at_once),
	};
	int failed, ret = find_loader();

	if (ret != 0)
		return ret;
	failed = cmocka_run_group_tests_name("first", first, NULL, NULL);
	if (start_all() != 0)
		return 1;
	return failed + cmocka_run_group_tests_name("ze", tests, NULL, NULL);
}
