/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is special to Level Zero, through the vendor's loader and two emulated drivers: the start, device
 * ids, sub-devices, whose an exported fd is and what it describes.
 */
#include "tests/unit/ze_drivers.h"

extern char **environ;

static int export_made(const struct made *made, size_t at, struct hmem_export *out)
{
	struct hmem_memory memory;

	if (hmem_classify((char *)made->addr + at, 4096, &memory) != 0)
		return -FI_EOTHER;
	return ze->export_start(&memory, (char *)made->addr + at, 4096, 0, out);
}

/* ---- before anything is started: each in a process of its own ---- */

static bool loaded(const char *library)
{
	void *found = dlopen(library, RTLD_NOW | RTLD_NOLOAD);

	if (found)
		dlclose(found);
	return found != NULL;
}

static int nothing_loaded(const char *unused)
{
	struct hmem_status status;

	(void)unused;
	hmem_status(FI_HMEM_ZE, &status);
	if (loaded(LOADER) || status.state != HMEM_UNTRIED || strcmp(status.driver, LOADER) != 0)
		return 1;
	return hmem_get(FI_HMEM_ZE) && loaded(LOADER) ? 0 : 2;
}

static void fn_21_nothing_before_it_is_needed(void **state)
{
	(void)state;
	assert_int_equal(in_child(nothing_loaded, NULL), 0);
}

/* The driver reads the environment of the program, and finds there what the program has put there. */
static int environment_kept(const char *unused)
{
	size_t count = 0, now = 0;
	char **before;

	(void)unused;
	while (environ[count])
		count++;
	before = calloc(count, sizeof(*before));
	for (size_t i = 0; before && i < count; i++)
		before[i] = strdup(environ[i]);
	if (!before || !hmem_get(FI_HMEM_ZE))
		return 1;
	while (environ[now])
		now++;
	if (now != count)
		return 2;
	for (size_t i = 0; i < count; i++)
		if (strcmp(before[i], environ[i]) != 0)
			return 3;
	return 0;
}

static void fn_21_environment_kept(void **state)
{
	(void)state;
	if (getenv("HMREG_VALGRIND")) /* which ends children that lost what the loader unloaded */
		skip();
	assert_int_equal(in_child(environment_kept, NULL), 0);
}

static const struct emu_accel_hooks *hooks_of(const char *library)
{
	void *found = dlopen(library, RTLD_NOW | RTLD_NOLOAD);

	return found ? dlsym(found, "emu_accel_hooks") : NULL;
}

/* Of both drivers the nth call of this name fails while they start. */
static int start_fails(const char *what)
{
	struct hmem_status status = { .state = HMEM_UNTRIED };
	const struct emu_accel_hooks *first, *second;
	int ret;

	setenv("EMU_ZE_FAIL", what, 1);
	setenv("EMU_ZE2_FAIL", what, 1);
	ret = ze_start(&status);
	first = hooks_of("libze_emu.so.1");
	second = hooks_of("libze_emu2.so.1");
	if (strcmp(what, "zeInit:1:0x70000001") ==
	    0) /* the loader drops drivers that do not start */
		return ret == -FI_ENOSYS && status.state == HMEM_ABSENT && !first ? 0 : 6;
	if (!first || !second)
		return 1;
	if (ret == 0)
		return ze_state.device_count == 4 && first->live("context") == 1 ? 0 : 2;
	if (!status.reason[0] || status.state == HMEM_UNTRIED)
		return 3;
	if (first->live("*") != 0 || second->live("*") != 0 || ze_state.device_count != 0)
		return 4;
	/* the same calls work when asked again, each driver's in its turn */
	for (int i = 0; ret != 0 && i < 2; i++)
		ret = ze_start(&status);
	return ret == 0 && ze_state.device_count == 4 ? 0 : 5;
}

static void hmem_02_start_failing_at_each_call(void **state)
{
	static const char *const names[] = { "zeInit",
					     "zeDriverGet",
					     "zeDriverGetApiVersion",
					     "zeDriverGetProperties",
					     "zeDeviceGet",
					     "zeDeviceGetSubDevices",
					     "zeDeviceGetProperties",
					     "zeDeviceGetMemoryProperties",
					     "zeDeviceGetExternalMemoryProperties",
					     "zeDevicePciGetPropertiesExt",
					     "zeContextCreate" };
	char what[128];

	(void)state;
	for (size_t i = 0; i < count_of(names); i++)
		for (int nth = 1; nth <= (i == 0 ? 1 : 2); nth++) {
			snprintf(what, sizeof(what), "%s:%d:0x70000001", names[i], nth);
			assert_int_equal(in_child(start_fails, what), 0);
		}
}

/* One driver fails, and the other's devices keep their ids. */
static int one_driver_fails(const char *unused)
{
	struct hmem_status status;

	(void)unused;
	setenv("EMU_ZE_FAIL", "zeContextCreate:1:0x70000002", 1);
	if (ze_start(&status) != 0 || ze_state.device_count != 2)
		return 1;
	return !ze_device_of(id_of(0, 0)) && ze_device_of(id_of(1, 1)) ? 0 : 2;
}

static void attr_02_ids_stay_when_a_driver_fails(void **state)
{
	(void)state;
	assert_int_equal(in_child(one_driver_fails, NULL), 0);
}

static int no_device(const char *unused)
{
	(void)unused;
	setenv("EMU_ZE", "devices=0", 1);
	setenv("EMU_ZE2", "devices=0", 1);
	return hmem_error(FI_HMEM_ZE) == -FI_ENODEV ? 0 : 1;
}

static int no_driver(const char *unused)
{
	struct hmem_status status;

	(void)unused;
	setenv("ZE_ENABLE_ALT_DRIVERS", "libze_nobody.so.1", 1);
	if (hmem_error(FI_HMEM_ZE) != -FI_ENOSYS)
		return 1;
	hmem_status(FI_HMEM_ZE, &status);
	return status.state == HMEM_ABSENT && strstr(status.reason, "no GPU driver") ? 0 : 2;
}

static int left_out(const char *unused)
{
	(void)unused;
	setenv("FI_HMEM", "system,cuda", 1);
	return hmem_error(FI_HMEM_ZE) == -FI_ENOSYS && !loaded(LOADER) ? 0 : 1;
}

static void hmem_02_absent(void **state)
{
	(void)state;
	assert_int_equal(in_child(no_device, NULL), 0);
	assert_int_equal(in_child(no_driver, NULL), 0);
	assert_int_equal(in_child(left_out, NULL), 0);
}

/* ---- ids ---- */

static void api_16_ids_and_handles(void **state)
{
	struct hmem_device device;
	void *driver, *handle, *other;

	(void)state;
	assert_int_equal(ze->device_count(), 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(ze->device_info(i, &device), 0);
		assert_int_equal(device.id, id_of((int)i / 2, (int)i % 2));
		assert_int_equal(device.id >> 16, i / 2);
		assert_int_equal(device.id & 0xffff, i % 2);
		assert_int_equal(hmem_ze_handles(device.id, &driver, &handle), 0);
		assert_int_equal(hmem_ze_id(driver, handle), device.id);
		assert_int_equal(device.memory, UINT64_C(4) << 30);
		assert_string_not_equal(device.pci, "");
	}
	assert_int_equal(hmem_ze_handles(id_of(0, 0), &driver, &other), 0);
	/* the pair must fit together */
	assert_int_equal(hmem_ze_id(driver, handle), -FI_ENODEV);
	assert_int_equal(hmem_ze_id(handle, other), -FI_ENODEV);
	assert_int_equal(hmem_ze_handles(id_of(0, 2), &driver, &handle), -FI_ENODEV);
	assert_int_equal(hmem_ze_handles(id_of(2, 0), &driver, &handle), -FI_ENODEV);
	assert_int_equal(hmem_ze_handles(-1, &driver, &handle), -FI_ENODEV);
}

/* Memory of a sub-device is its root device's. */
static void fn_19_sub_devices(void **state)
{
	static const l0_device_alloc desc = { .stype = L0_STYPE_DEVICE_ALLOC_DESC };
	struct hmem_memory memory;
	void *addr;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		int id = id_of((int)i / 2, (int)i % 2);
		struct ze_device *d = ze_device_of(id);
		l0_device parts[2];
		uint32_t count = 2;

		assert_int_equal(ze_api.zeDeviceGetSubDevices(d->handle, &count, parts), 0);
		assert_int_equal(count, 2);
		for (uint32_t k = 0; k < count; k++) {
			assert_int_equal(hmem_ze_id(d->driver->handle, parts[k]), id);
			assert_int_equal(ze_api.zeMemAllocDevice(d->driver->context, &desc, LEN, 0,
								 parts[k], &addr),
					 0);
			assert_int_equal(hmem_classify(addr, LEN, &memory), 0);
			assert_int_equal(memory.device, id);
			assert_int_equal(hmem_classify_as(FI_HMEM_ZE, id, 0, addr, LEN, &memory),
					 0);
			assert_refused(hmem_classify_as(FI_HMEM_ZE, id ^ 0x10000, 0, addr, LEN,
							&memory),
				       -FI_EINVAL);
			assert_int_equal(ze_api.zeMemFree(d->driver->context, addr), 0);
		}
	}
}

/* ---- export ---- */

static void fn_20_each_device_is_asked(void **state)
{
	struct hmem_device device;
	struct hmem_memory memory;
	struct hmem_export out;
	struct made made;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		bool able = i != 3; /* EMU_ZE2=nodmabuf=2 */

		assert_int_equal(ze->device_info(i, &device), 0);
		assert_int_equal(device.dmabuf, able);
		assert_int_equal(!device.dmabuf_reason[0], able);
		make(MAKE_DEVICE, device.id, &made);
		look_at(&made, &memory);
		assert_int_equal(!!(memory.ways & HMEM_WAY_DMABUF), able);
		if (able) {
			assert_int_equal(export_made(&made, 0, &out), 0);
			ze->export_end(&out);
		} else {
			assert_refused(export_made(&made, 0, &out), -FI_EOPNOTSUPP);
		}
		make_ze.drop(&made);
	}
}

/* Whatever the driver answers for memory that was not allocated for export, it is not believed. */
static void fn_11_not_allocated_for_export(void **state)
{
	static const char *const answers[] = { "private=0", "private=1", "private=2", "private=3",
					       "private=1,cached=1" };
	struct hmem_memory memory;
	struct hmem_export out;
	struct made made;

	(void)state;
	for (size_t i = 0; i < count_of(answers); i++) {
		setenv("EMU_ZE", answers[i], 1);
		make(MAKE_PRIVATE, id_of(0, 1), &made);
		look_at(&made, &memory);
		assert_int_equal(memory.kind, HMEM_DEVICE);
		assert_int_equal(memory.ways & HMEM_WAY_DMABUF, 0);
		assert_string_not_equal(memory.reason, "");
		assert_refused(export_made(&made, 0, &out), -FI_EOPNOTSUPP);
		/* asked once per allocation, not at each look */
		hooks->reset();
		look_at(&made, &memory);
		assert_int_equal(hooks->calls("zeMemGetAllocProperties"), 1);
		assert_int_equal(memory.ways & HMEM_WAY_DMABUF, 0);
		make_ze.drop(&made);
	}
	/* allocated for export, it is */
	make(MAKE_DEVICE, id_of(0, 1), &made);
	assert_int_equal(export_made(&made, 0, &out), 0);
	ze->export_end(&out);
	make_ze.drop(&made);
}

/* FN-02: the fd given back is never the driver's, and none is left, whichever way the driver has. */
static void fn_02_whose_fd_it_is(void **state)
{
	(void)state;
	for (int cached = 0; cached < 2; cached++) {
		struct hmem_export out, kept;
		struct made made;
		struct stat a, b;
		size_t before;

		setenv("EMU_ZE", cached ? "cached=1" : "cached=0", 1);
		make(MAKE_DEVICE, id_of(0, 0), &made);
		assert_int_equal(export_made(&made, 0, &kept), 0);
		before = test_fds();
		for (int i = 0; i < 1000; i++) {
			assert_int_equal(export_made(&made, 8192, &out), 0);
			assert_int_equal(out.offset, 8192);
			ze->export_end(&out);
			assert_int_equal(test_fds(), before);
		}
		assert_int_equal(hooks->live("stolen fd"), 0);
		/* ours outlives the driver's */
		assert_int_equal(fstat(kept.fd, &a), 0);
		make_ze.drop(&made);
		assert_int_equal(fstat(kept.fd, &b), 0);
		assert_int_equal(a.st_ino, b.st_ino);
		ze->export_end(&kept);
		assert_int_equal(hooks->live("stolen fd"), 0);
		assert_int_equal(test_fds(), fds);
	}
}

static void fn_07_interior_offset(void **state)
{
	static const char text[] = "these bytes, and no others";
	struct hmem_export out;
	struct made made;
	char *mapped;

	(void)state;
	make(MAKE_DEVICE, id_of(1, 0), &made);
	assert_int_equal(make_ze.write(&made, 12288 + 5, text, sizeof(text)), 0);
	assert_int_equal(export_made(&made, 12288, &out), 0);
	assert_int_equal(out.offset, 12288);
	mapped = mmap(NULL, LEN, PROT_READ, MAP_SHARED, out.fd, 0);
	assert_true(mapped != MAP_FAILED);
	assert_memory_equal(mapped + out.offset + 5, text, sizeof(text));
	munmap(mapped, LEN);
	ze->export_end(&out);
	make_ze.drop(&made);
}

/* Two pieces told as one: refused, since the fd is of one of them. */
static void fn_08_pieces_told_as_one(void **state)
{
	struct hmem_memory memory;
	struct hmem_export out;
	struct made made;

	(void)state;
	make(MAKE_VMM, id_of(0, 0), &made);
	look_at(&made, &memory);
	assert_int_equal(memory.segments, 2);
	for (size_t half = 0; half < 2; half++) {
		assert_int_equal(export_made(&made, half * made.len / 2 + 4096, &out), 0);
		assert_int_equal(out.offset, 4096);
		assert_int_equal(lseek(out.fd, 0, SEEK_END), made.len / 2);
		ze->export_end(&out);
	}
	make_ze.drop(&made);

	setenv("EMU_ZE", "merge=1", 1);
	make(MAKE_VMM, id_of(0, 0), &made);
	look_at(&made, &memory);
	assert_int_equal(memory.kind, HMEM_VMM);
	assert_int_equal(memory.ways & HMEM_WAY_DMABUF, 0);
	assert_int_equal(memory.len, made.len);
	assert_refused(export_made(&made, 0, &out), -FI_EOPNOTSUPP);
	make_ze.drop(&made);
}

static void fn_09_range_not_told(void **state)
{
	struct hmem_memory memory;
	struct hmem_export out;
	struct made made;

	(void)state;
	setenv("EMU_ZE", "norange=1", 1);
	make(MAKE_VMM, id_of(0, 0), &made);
	look_at(&made, &memory);
	assert_int_equal(memory.iface, FI_HMEM_ZE);
	assert_int_equal(memory.device, id_of(0, 0));
	assert_false(memory.range_known);
	assert_refused(export_made(&made, 0, &out), -FI_EINVAL);
	make_ze.drop(&made);
}

static void fn_15_freed_and_foreign(void **state)
{
	struct hmem_memory memory;
	struct hmem_facts facts;
	struct hmem_export out;
	struct made made;

	(void)state;
	make(MAKE_DEVICE, id_of(0, 0), &made);
	look_at(&made, &memory);
	make_ze.drop(&made);
	assert_int_equal(ze->look(made.addr, &facts), -FI_ENOENT);
	assert_int_equal(ze->look(NULL, &facts), -FI_ENOENT);
	assert_int_equal(ze->look(&made, &facts), -FI_ENOENT);
	assert_refused(ze->export_start(&memory, made.addr, 4096, 0, &out), -FI_EINVAL);
}

int main(void)
{
	static const struct CMUnitTest first[] = {
		cmocka_unit_test(fn_21_nothing_before_it_is_needed),
		cmocka_unit_test(fn_21_environment_kept),
		cmocka_unit_test(hmem_02_start_failing_at_each_call),
		cmocka_unit_test(attr_02_ids_stay_when_a_driver_fails),
		cmocka_unit_test(hmem_02_absent),
	};
	static const struct CMUnitTest tests[] = {
		TEST(api_16_ids_and_handles),	  TEST(fn_19_sub_devices),
		TEST(fn_20_each_device_is_asked), TEST(fn_11_not_allocated_for_export),
		TEST(fn_02_whose_fd_it_is),	  TEST(fn_07_interior_offset),
		TEST(fn_08_pieces_told_as_one),	  TEST(fn_09_range_not_told),
		TEST(fn_15_freed_and_foreign),
	};
	int failed, ret = find_loader();

	if (ret != 0)
		return ret;
	failed = cmocka_run_group_tests_name("start", first, NULL, NULL);
	if (start_all() != 0)
		return 1;
	return failed + cmocka_run_group_tests_name("ze", tests, NULL, NULL);
}
