/* SPDX-License-Identifier: BSD-2-Clause */
/* What is special about SynapseAI: device addresses that are none of the process's, devices to acquire. */
#include "tests/unit/hmem_over.h"

#include <errno.h>

#include "core/base/range.h"
#include "hmem/synapseai_abi.h"

#define EXPORT "hlthunk_device_mapped_memory_export_dmabuf_fd"

static void attr_02_devices(void **state)
{
	struct hmem_status status;
	struct hmem_device device;

	(void)state;
	hmem_status(FI_HMEM_SYNAPSEAI, &status);
	assert_non_null(strstr(status.driver, "libSynapse.so"));
	assert_string_equal(status.version, "1.22.0.emulated");
	assert_int_equal(ops->device_count(), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(ops->device_info(i, &device), 0);
		assert_int_equal(device.memory, 256u << 20);
		assert_string_equal(device.pci, i ? "0000:34:00.0" : "0000:33:00.0");
		assert_true(device.dmabuf);
	}
	check_owners();
}

static void fn_15_memory_of_others(void **state)
{
	struct made made = made_on(1, 128 * KIB);
	struct hmem_memory memory = judged((char *)made.addr + 70 * KIB, 4 * KIB);

	(void)state;
	assert_int_equal(memory.iface, FI_HMEM_SYNAPSEAI);
	assert_int_equal(memory.kind, HMEM_DEVICE);
	assert_int_equal(memory.device, 1);
	assert_false(memory.range_known);
	assert_false(memory.host_access);
	/* no kernel module translates its addresses for NICs */
	assert_int_equal(memory.ways, HMEM_WAY_DMABUF | HMEM_WAY_COPY);
	assert_int_equal(hmem_classify_as(FI_HMEM_SYNAPSEAI, 1, FI_HMEM_DEVICE_ONLY, made.addr,
					  made.len, &memory),
			 0);
	forget_log("");
	assert_int_equal(hmem_classify(made.addr, made.len + 1, &memory), -FI_EINVAL);
	check_log("no memory is there");
	maker->drop(&made);
	forget_log("");
	assert_int_equal(hmem_classify((void *)memory.base, 64, &memory), -FI_EINVAL);
	check_log("no memory is there");
}

/* A device's address where the process has memory of its own is the process's, unless the caller says. */
static void fn_15_host_memory_at_a_device_address(void **state)
{
	struct made made = made_on(0, 64 * KIB);
	char *free_space = (char *)made.addr + 1024 * KIB;
	struct hmem_memory memory;
	void *host = mmap(free_space, 64 * KIB, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	(void)state;
	assert_ptr_equal(host, free_space);
	memory = judged(host, 4096);
	assert_int_equal(memory.iface, FI_HMEM_SYSTEM);
	check_refused(FI_HMEM_SYNAPSEAI, 0, 0, host, 4096, -FI_EINVAL, "is host");
	mmap(host, 64 * KIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
	     0);
	maker->drop(&made);
}

/* A device that tells nothing any more: what may be its memory is nobody else's, and the host's stays so. */
static void fn_15_device_that_fails(void **state)
{
	struct made made = made_on(1, 64 * KIB);
	struct hmem_memory memory;
	struct hmem_device device;
	struct hmem_facts facts;
	char *host = malloc(4096);

	(void)state;
	hooks->fail_on("synDeviceGetInfoV2", 1, SYN_CODE_DEVICE_RESET);
	forget_log("");
	assert_int_equal(hmem_classify(made.addr, made.len, &memory), -FI_EIO);
	assert_int_equal(logged.lines, 1);
	check_log("synDeviceGetInfoV2: synDeviceReset (17)");
	assert_int_equal(ops->claim(1, made.addr, made.len, &facts), -FI_EIO);
	assert_int_equal(ops->device_info(1, &device), -FI_EIO);
	assert_int_equal(ops->alloc(1, 4096, HMEM_ALLOC_DEVICE, &(void *){ NULL }), -FI_EIO);
	assert_int_equal(logged.lines, 4);
	assert_int_equal(judged(host, 4096).iface, FI_HMEM_SYSTEM);
	assert_int_equal(logged.lines, 4);
	hooks->fail_on("synDeviceGetInfoV2", 0, 0);
	assert_int_equal(judged(made.addr, made.len).device, 1);
	free(host);
	maker->drop(&made);
}

static void fn_15_claims_are_confirmed(void **state)
{
	struct made made = made_on(0, 64 * KIB);
	struct hmem_facts facts;
	char *host = malloc(4096);

	(void)state;
	assert_int_equal(ops->claim(0, made.addr, made.len, &facts), 0);
	assert_int_equal(facts.device, 0);
	assert_int_equal(ops->claim(1, made.addr, made.len, &facts), -FI_ENOENT);
	assert_int_equal(ops->claim(0, made.addr, made.len + 1, &facts), -FI_ENOENT);
	assert_int_equal(ops->claim(0, host, 64, &facts), -FI_ENOENT);
	free(host);
	maker->drop(&made);
}

static void fn_19_own_memory(void **state)
{
	struct hmem_memory memory;

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *addr = own_on(i, 100 * KIB);

		memory = judged(addr + 5000, 1000);
		assert_int_equal(memory.device, i);
		assert_ptr_equal(memory.base, addr);
		assert_int_equal(memory.len, 100 * KIB);
		assert_int_not_equal(memory.id, 0);
		assert_int_equal(hmem_classify(addr, 100 * KIB + 1, &memory), -FI_EINVAL);
		drop_own(i, addr);
		assert_int_equal(ops->free(i, addr, HMEM_ALLOC_DEVICE), -FI_EINVAL);
	}
	assert_int_equal(ops->alloc(2, 4096, HMEM_ALLOC_DEVICE, &(void *){ NULL }), -FI_ENODEV);
	forget_log("");
	assert_int_equal(ops->alloc(0, 1u << 30, HMEM_ALLOC_DEVICE, &(void *){ NULL }), -FI_ENOMEM);
	check_log("synDeviceMalloc: synOutOfDeviceMemory (4)");
}

/* ---- exports ---- */

static void fn_10_interior_that_is_refused(void **state)
{
	struct made made = made_on(0, 128 * KIB);
	char *inside = (char *)made.addr + 64 * KIB;
	struct hmem_memory memory = judged(inside, 4096);
	struct baseline before = now();
	struct hmem_export exported;

	(void)state;
	forget_log("");
	assert_int_equal(ops->export_start(&memory, inside, 4096, 0, &exported), -FI_EINVAL);
	check_log(EXPORT);
	assert_int_equal(ops->export_start(&memory, inside + 8, 4096, 0, &exported), -FI_EINVAL);
	/* the first Gaudi gives the dma-buf of an allocation and does not tell where in it addr is */
	setenv("EMU_SYNAPSEAI", "type=2,interior=1", 1);
	memory = judged(inside, 4096);
	forget_log("");
	assert_int_equal(ops->export_start(&memory, inside, 4096, 0, &exported), -FI_EINVAL);
	check_log("does not tell where");
	memory = judged(made.addr, made.len);
	assert_int_equal(ops->export_start(&memory, made.addr, made.len, 0, &exported), 0);
	check_export(&exported, made.addr, made.len);
	ops->export_end(&exported);
	unsetenv("EMU_SYNAPSEAI");
	check_baseline(before);
	maker->drop(&made);
}

/* Without synDeviceGetInfoV2 nothing tells where the mapping begins that an export is a part of. */
static void fn_20_export_is_asked_per_device(void **state)
{
	struct made made = made_on(0, 64 * KIB);
	struct hmem_memory memory = judged(made.addr, made.len);
	struct hmem_export exported;
	struct hmem_device device;

	(void)state;
	assert_int_equal(memory.ways, HMEM_WAY_COPY);
	assert_true(memory.reason[0]);
	assert_int_equal(ops->device_info(0, &device), 0);
	assert_false(device.dmabuf);
	assert_non_null(strstr(device.dmabuf_reason, "does not tell where device memory begins"));
	assert_int_equal(ops->export_start(&memory, made.addr, made.len, 0, &exported),
			 -FI_EOPNOTSUPP);
	/* the first Gaudi has no such mapping */
	setenv("EMU_SYNAPSEAI", "type=2", 1);
	assert_int_equal(ops->device_info(0, &device), 0);
	assert_true(device.dmabuf);
	memory = judged(made.addr, made.len);
	assert_int_equal(ops->export_start(&memory, made.addr, made.len, 0, &exported), 0);
	check_export(&exported, made.addr, made.len);
	ops->export_end(&exported);
	unsetenv("EMU_SYNAPSEAI");
	maker->drop(&made);
}

/* ---- host memory ---- */

static void host_memory_is_mapped_for_all_devices(void **state)
{
	char *host = aligned_alloc(4096, 8192);
	long before = hooks->live("host mapping");
	struct hmem_memory memory;

	(void)state;
	assert_int_equal(ops->host_register(host, 8192), 0);
	assert_int_equal(hooks->live("host mapping"), before + 2);
	memory = judged(host + 100, 1000);
	assert_int_equal(memory.iface, FI_HMEM_SYNAPSEAI);
	assert_int_equal(memory.kind, HMEM_HOST_ALLOC);
	assert_int_equal(memory.device, HMEM_NO_DEVICE);
	assert_int_equal(ops->host_unregister(host), 0);
	assert_int_equal(ops->host_unregister(host), -FI_EINVAL);
	assert_int_equal(hooks->live("host mapping"), before);
	/* the second device refuses: the first does not keep it */
	forget_log("");
	(hooks->fail)("synHostMap", 2, SYN_CODE_OUT_OF_RESOURCES);
	assert_int_equal(ops->host_register(host, 8192), -FI_ENOMEM);
	check_log("synHostMap: synOutOfResources (27)");
	assert_int_equal(hooks->live("host mapping"), before);
	assert_int_equal(judged(host, 8192).iface, FI_HMEM_SYSTEM);
	free(host);
}

/* ---- */

static void every_call_fails_once(void **state)
{
	/* without them a device has no name and no address */
	static const char *const silent[] = { "synDeviceGetName", "synDeviceGetPCIBusId", NULL };

	(void)state;
	fail_each(SYN_CODE_FAIL, silent);
	fail_each(SYN_CODE_OUT_OF_RESOURCES, silent);
}

/* The buffers and streams that copies keep are made again after a failure. */
static void copies_fail_while_they_are_set_up(void **state)
{
	static const char *const calls[] = { "synStreamCreateGeneric", "synHostMalloc",
					     "synMemCopyAsync", "synStreamSynchronize" };
	void *own = own_on(0, 64 * KIB);
	char host[64];

	(void)state;
	for (size_t i = 0; i < count_of(calls); i++) {
		/* a failed copy gives up what it had; then each call is made anew */
		(hooks->fail)("synMemCopyAsync", 1, SYN_CODE_FAIL);
		assert_int_equal(ops->copy(own, 0, host, HMEM_NO_DEVICE, 64), -FI_EIO);
		forget_log(calls[i]);
		(hooks->fail)(calls[i], 1, SYN_CODE_OUT_OF_RESOURCES);
		assert_int_equal(ops->copy(own, 0, host, HMEM_NO_DEVICE, 64), -FI_ENOMEM);
		assert_true(logged.seen);
		assert_int_equal(ops->copy(own, 0, host, HMEM_NO_DEVICE, 64), 0);
	}
	drop_own(0, own);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(attr_02_devices),
		cmocka_unit_test(fn_15_memory_of_others),
		cmocka_unit_test(fn_15_host_memory_at_a_device_address),
		cmocka_unit_test(fn_15_device_that_fails),
		cmocka_unit_test(fn_15_claims_are_confirmed),
		cmocka_unit_test(fn_19_own_memory),
		cmocka_unit_test(fn_07_own_memory_with_its_offset),
		cmocka_unit_test(fn_10_interior_that_is_refused),
		cmocka_unit_test(fn_01_a_thousand_exports),
		cmocka_unit_test(host_memory_is_mapped_for_all_devices),
		cmocka_unit_test(copies),
		cmocka_unit_test(copies_fail_while_they_are_set_up),
		cmocka_unit_test(every_call_fails_once),
		cmocka_unit_test(two_threads),
	};
	static const struct CMUnitTest old_tests[] = {
		cmocka_unit_test(fn_20_export_is_asked_per_device),
		cmocka_unit_test(fn_19_own_memory),
		cmocka_unit_test(copies),
	};

	(void)argv;
	if (start_over(&make_synapseai) != 0)
		return 1;
	return argc > 1 ? cmocka_run_group_tests(old_tests, NULL, NULL)
			: cmocka_run_group_tests(tests, NULL, NULL);
}
