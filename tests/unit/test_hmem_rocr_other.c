/* SPDX-License-Identifier: BSD-2-Clause */
/* ROCr: older runtimes, lesser machines, and a start that fails. */
#include <dlfcn.h>

#include "tests/unit/test_hmem_rocr.h"

#include "tests/unit/child.h"

/* ---- older runtimes and lesser machines ---- */

/* No function for it in the library: everything else works. */
static void fn_20_runtime_without_dmabufs(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, LARGE);
	struct hmem_memory memory = classified(made.addr, UNIT);
	unsigned char *host = calloc(1, LARGE);
	struct hmem_device device;
	struct hmem_export out;

	(void)state;
	assert_null(vendor_hsa_amd_portable_export_dmabuf);
	assert_null(vendor_hsa_amd_vmem_map);
	for (size_t i = 0; i < ops->device_count(); i++) {
		assert_int_equal(ops->device_info(i, &device), 0);
		assert_false(device.dmabuf);
		assert_non_null(strstr(device.dmabuf_reason, "older"));
	}
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), -FI_EOPNOTSUPP);
	assert_one_warning("older");
	assert_int_equal(ops->copy(made.addr, 0, host, HMEM_NO_DEVICE, LARGE), 0);
	free(host);
	make_rocr.drop(&made);
}

/* EMU_ROCR=dmabuf=0 */
static void fn_20_kernel_without_dmabufs(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, UNIT);
	struct hmem_memory memory = classified(made.addr, UNIT);
	struct hmem_device device;
	struct hmem_export out;

	(void)state;
	assert_int_equal(ops->device_info(0, &device), 0);
	assert_false(device.dmabuf);
	assert_non_null(strstr(device.dmabuf_reason, "kernel"));
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), -FI_EOPNOTSUPP);
	assert_one_warning("kernel");
	make_rocr.drop(&made);
}

/* EMU_ROCR=noexport=2: one device of several refuses; the others do not suffer for it. */
static void fn_20_one_device_exports_nothing(void **state)
{
	struct hmem_device device;

	(void)state;
	for (int i = 0; i < (int)ops->device_count(); i++) {
		struct made made = make_of(MAKE_DEVICE, i, UNIT);
		struct hmem_memory memory = classified(made.addr, UNIT);
		struct hmem_export out;
		int ret;

		warnings = 0;
		/* a passing error is not remembered */
		fail_call("hsa_amd_portable_export_dmabuf", 1, ROCR_ERROR_OUT_OF_RESOURCES);
		assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), -FI_ENOMEM);
		assert_one_warning("OUT_OF_RESOURCES");
		assert_int_equal(ops->device_info((size_t)i, &device), 0);
		assert_true(device.dmabuf);
		ret = ops->export_start(&memory, made.addr, UNIT, 0, &out);
		assert_int_equal(ret, i == 1 ? -FI_EOPNOTSUPP : 0);
		if (ret == 0)
			ops->export_end(&out);
		else
			assert_one_warning("INVALID_AGENT");
		assert_int_equal(ops->device_info((size_t)i, &device), 0);
		assert_int_equal(device.dmabuf, i != 1);
		assert_int_equal(device.dmabuf_reason[0] != 0, i == 1);
		make_rocr.drop(&made);
	}
}

/*
 * EMU_ROCR=ext=8: mapped memory is there, and pointer info does not know it.  It is the device's all
 * the same; where a piece begins is not told, so that nothing is exported.
 */
static void fn_09_mapped_memory_untold(void **state)
{
	struct made made = { .kind = MAKE_VMM };
	struct hmem_memory memory;
	unsigned char *host = malloc(UNIT);
	struct hmem_export out;
	long live = hooks->live("*");

	(void)state;
	assert_int_equal(make_rocr.make(MAKE_VMM, 1, 2 * UNIT, &made), 0);
	live = hooks->live("*") - live;
	memory = classified((char *)made.addr + 77, made.len - 77);
	assert_int_equal(memory.iface, FI_HMEM_ROCR);
	assert_int_equal(memory.kind, HMEM_VMM);
	assert_int_equal(memory.device, 1);
	assert_false(memory.range_known);
	assert_false(memory.ways & (HMEM_WAY_HOST | HMEM_WAY_DMABUF));
	assert_true(memory.reason[0]);
	warnings = 0;
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), -FI_EOPNOTSUPP);
	assert_int_equal(warnings, 1);
	memset(host, 9, UNIT);
	assert_int_equal(ops->copy(made.addr, 1, host, HMEM_NO_DEVICE, UNIT), 0);
	memset(host, 0, UNIT);
	assert_int_equal(ops->copy(host, HMEM_NO_DEVICE, made.addr, 1, UNIT), 0);
	assert_true(host[0] == 9 && host[UNIT - 1] == 9);
	/* handles that were asked for are given back */
	assert_int_equal(hooks->live("*"), live_before + live);
	free(host);
	make_rocr.drop(&made);
}

/* And an export of the PCIe mapping takes place without it. */
static void fn_24_unknown_mapping(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, UNIT);
	struct hmem_memory memory = classified(made.addr, UNIT);
	struct hmem_export out;

	(void)state;
	hooks->reset();
	warnings = 0;
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, HMEM_EXPORT_PCIE, &out), 0);
	assert_int_equal(hooks->calls("hsa_amd_portable_export_dmabuf_v2"), 1);
	assert_int_equal(hooks->calls("hsa_amd_portable_export_dmabuf"), 1);
	assert_int_equal(warnings, 0);
	ops->export_end(&out);
	make_rocr.drop(&made);
}

/* EMU_ROCR=bar=0,peer=0,xnack=1 */
static void fn_28_no_window(void **state)
{
	struct made a = make_of(MAKE_DEVICE, 0, LARGE), b = make_of(MAKE_DEVICE, 1, LARGE);
	struct made managed = make_of(MAKE_MANAGED, 1, UNIT);
	unsigned char *bytes = malloc(a.len);
	struct hmem_device device;
	struct hmem_memory memory;

	(void)state;
	assert_int_equal(ops->device_info(0, &device), 0);
	assert_int_equal(device.window, 0);
	assert_false(device.window_known);
	/* devices that are no peers */
	fill(&a);
	assert_int_equal(ops->copy(b.addr, 1, a.addr, 0, LARGE), 0);
	assert_int_equal(make_rocr.read(&b, 0, bytes, LARGE), 0);
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(bytes[i], (unsigned char)(i * 131 + (i >> 8)));
	/* where devices reach all memory, that they do makes nothing managed memory */
	assert_int_equal(classified(bytes, a.len).kind, HMEM_HOST);
	memory = classified(managed.addr, UNIT);
	assert_int_equal(memory.kind, HMEM_MANAGED);
	assert_int_equal(memory.device, 1);
	free(bytes);
	make_rocr.drop(&managed);
	make_rocr.drop(&a);
	make_rocr.drop(&b);
}

/* ---- start ---- */

static const char *failing;

static void start_with_a_failure(void)
{
	void *library = dlopen(ROCR_LIBRARY, RTLD_NOW);
	struct hmem_status status;
	long live;

	CHECK(library != NULL);
	hooks = dlsym(library, "emu_accel_hooks");
	fail_call(failing, 1, ROCR_ERROR_OUT_OF_RESOURCES);
	ops = hmem_get(FI_HMEM_ROCR);
	hmem_status(FI_HMEM_ROCR, &status);
	live = hooks->live("*");
	CHECK((ops != NULL) == (status.state == HMEM_READY));
	if (ops)
		return; /* a question that may fail */
	CHECK(status.state == HMEM_FAILED && status.reason[0]);
	CHECK(hmem_error(FI_HMEM_ROCR) == -FI_EIO);
	CHECK(live == 0);
}

static void no_device(void)
{
	struct hmem_status status;

	CHECK(hmem_get(FI_HMEM_ROCR) == NULL);
	hmem_status(FI_HMEM_ROCR, &status);
	CHECK(status.state == HMEM_EMPTY && strstr(status.reason, "no GPU"));
	CHECK(hmem_error(FI_HMEM_ROCR) == -FI_ENODEV);
}

static void fn_21_start_that_fails(void **state)
{
	const char *const names[] = { "hsa_init",
				      "hsa_system_get_info",
				      "hsa_iterate_agents",
				      "hsa_agent_get_info",
				      "hsa_amd_agent_iterate_memory_pools",
				      "hsa_amd_memory_pool_get_info",
				      "hsa_amd_agent_memory_pool_get_info",
				      "hsa_amd_memory_pool_allocate",
				      "hsa_amd_agents_allow_access",
				      "hsa_signal_create" };
	static struct child child;

	(void)state;
	for (size_t i = 0; i < count_of(names); i++) {
		failing = names[i];
		child_run(&child, (const char *[]){ "FI_LOG_LEVEL=warn", NULL },
			  start_with_a_failure);
		/* one line, which names the call; none of hsa_init, for machines without such a device */
		assert_int_equal(child.writes, strcmp(failing, "hsa_system_get_info") != 0 &&
						       strcmp(failing, "hsa_init") != 0);
		assert_true(child.writes == 0 || strstr(child.text, failing));
	}
	child_run(&child, (const char *[]){ "EMU_ROCR=devices=0", NULL }, no_device);
}

/* A cache must take it neither for the host's nor for memory whose end is told. */
static void fn_15_fn_29_mapped_memory_is_not_kept(void **state)
{
	struct made made = { .kind = MAKE_VMM };
	struct hmem_owner owner;

	(void)state;
	assert_int_equal(make_rocr.make(MAKE_VMM, 1, 2 * UNIT, &made), 0);
	warnings = 0;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(hmem_owner_of((char *)made.addr + 77, 100, &owner), 0);
		assert_int_equal(owner.iface, FI_HMEM_ROCR);
		assert_int_equal(owner.guards, 0);
	}
	assert_one_warning("mapped at an address");
	make_rocr.drop(&made);
}

/* EMU_ROCR=notice=0: nobody is told of memory that is freed. */
static void fn_32_no_notice(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, UNIT);
	struct hmem_owner owner;

	(void)state;
	warnings = 0;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(hmem_owner_of(made.addr, UNIT, &owner), 0);
		assert_int_equal(owner.iface, FI_HMEM_ROCR);
		assert_int_equal(owner.guards, 0);
	}
	assert_one_warning("hsa_amd_register_deallocation_callback");
	make_rocr.drop(&made);
}

/* A notice that cannot be had once is asked for again; what the device calls locked memory is no host memory. */
static void fn_29_notices_and_aliases(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, UNIT),
		    locked = make_of(MAKE_REGISTERED, 0, UNIT);
	struct hmem_owner owner;

	(void)state;
	fail_call("hsa_amd_register_deallocation_callback", 1, ROCR_ERROR_OUT_OF_RESOURCES);
	assert_int_equal(hmem_owner_of(made.addr, UNIT, &owner), 0);
	assert_int_equal(owner.guards, 0);
	assert_int_equal(hmem_owner_of(made.addr, UNIT, &owner), 0);
	assert_int_equal(owner.guards, HMEM_GUARD_ID);
	assert_int_equal(hmem_owner_of(locked.addr, UNIT, &owner), 0);
	assert_int_equal(owner.guards, HMEM_GUARD_PAGES);
	assert_int_equal(owner.iface, FI_HMEM_SYSTEM);
	assert_ptr_not_equal(locked.own[0], locked.addr);
	assert_int_equal(hmem_owner_of(locked.own[0], UNIT, &owner), 0);
	assert_int_equal(owner.guards, 0);
	make_rocr.drop(&locked);
	make_rocr.drop(&made);
	hmem_report_gone(NULL);
}

GROUP(old, TEST(fn_20_runtime_without_dmabufs))
GROUP(nodmabuf, TEST(fn_20_kernel_without_dmabufs))
GROUP(noexport, TEST(fn_20_one_device_exports_nothing))
GROUP(untold, TEST(fn_09_mapped_memory_untold), TEST(fn_24_unknown_mapping),
      TEST(fn_15_fn_29_mapped_memory_is_not_kept))
GROUP(unnoticed, TEST(fn_32_no_notice))
GROUP(noticed, TEST(fn_29_notices_and_aliases))
GROUP(nobar, TEST(fn_28_no_window))
GROUP(start, cmocka_unit_test(fn_21_start_that_fails))
