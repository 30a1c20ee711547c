/* SPDX-License-Identifier: BSD-2-Clause */
/* What is special about Neuron: addresses that the runtime cannot be asked about, exports without offset. */
#include "tests/unit/hmem_over.h"

#include "core/base/range.h"
#include "hmem/neuron.h"

#include <sys/resource.h>

static void fn_21_the_runtime_is_left_alone(void **state)
{
	struct hmem_status status;
	char *host = malloc(64);

	(void)state;
	hmem_status(FI_HMEM_NEURON, &status);
	assert_int_equal(status.state, HMEM_READY);
	assert_non_null(strstr(status.driver, "libnrt.so.1"));
	assert_string_equal(status.version, "2.29.0.0");
	/* the program calls nrt_init; the maker did */
	assert_int_equal(hooks->calls("nrt_init"), 1);
	assert_int_equal(judged(host, 64).iface, FI_HMEM_SYSTEM);
	free(host);
}

static void attr_02_devices(void **state)
{
	struct hmem_device device;

	(void)state;
	assert_int_equal(ops->device_count(), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(ops->device_info(i, &device), 0);
		assert_int_equal(device.id, i);
		assert_int_equal(device.memory, 256u << 20);
		assert_true(device.dmabuf);
	}
	assert_int_equal(ops->device_info(2, &device), -FI_ENODEV);
	check_owners();
}

static void fn_19_own_memory_is_on_the_device_asked_for(void **state)
{
	struct hmem_memory memory;

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *addr = own_on(i, 100 * KIB);

		memory = judged(addr + 5000, 1000);
		assert_int_equal(memory.device, i);
		assert_true(memory.range_known);
		assert_ptr_equal(memory.base, addr);
		assert_int_equal(memory.len, 100 * KIB);
		assert_int_not_equal(memory.id, 0);
		forget_log("");
		assert_int_equal(hmem_classify(addr, 100 * KIB + 1, &memory), -FI_EINVAL);
		check_log("ends at");
		drop_own(i, addr);
		assert_int_equal(ops->free(i, addr, HMEM_ALLOC_DEVICE), -FI_EINVAL);
	}
	forget_log("");
	assert_int_equal(ops->alloc(2, 4096, HMEM_ALLOC_DEVICE, &(void *){ NULL }), -FI_ENODEV);
	check_log("no visible NeuronCore is on Neuron device 2");
	assert_int_equal(ops->alloc(0, 4096, HMEM_ALLOC_MANAGED, &(void *){ NULL }), -FI_ENOSYS);
}

static void fn_15_memory_of_others(void **state)
{
	struct made made = made_on(1, 128 * KIB);
	struct hmem_memory memory = judged((char *)made.addr + 70 * KIB, 4 * KIB);

	(void)state;
	assert_int_equal(memory.iface, FI_HMEM_NEURON);
	assert_int_equal(memory.kind, HMEM_DEVICE);
	assert_int_equal(memory.device, 1);
	assert_false(memory.range_known);
	assert_true(memory.host_access);
	assert_int_equal(memory.ways, HMEM_WAY_DMABUF | HMEM_WAY_PEER | HMEM_WAY_COPY);
	/* past its end */
	forget_log("");
	assert_int_equal(hmem_classify(made.addr, made.len + 1, &memory), -FI_EINVAL);
	check_log("no memory is there");
	maker->drop(&made);
}

static void fn_15_freed_memory_is_refused(void **state)
{
	struct made made = made_on(0, 64 * KIB);
	void *addr = made.addr;
	struct hmem_memory memory;

	(void)state;
	judged(addr, 64);
	maker->drop(&made);
	forget_log("");
	assert_int_equal(hmem_classify(addr, 64, &memory), -FI_EINVAL);
	assert_int_equal(hmem_classify_as(FI_HMEM_NEURON, 0, 0, addr, 64, &memory), -FI_EINVAL);
	check_log("no memory is there");
}

static void flag_03_the_host_reaches_it(void **state)
{
	struct made made = made_on(0, 64 * KIB);

	(void)state;
	check_refused(FI_HMEM_NEURON, 0, FI_HMEM_DEVICE_ONLY, made.addr, 64, -FI_EINVAL,
		      "DEVICE_ONLY");
	maker->drop(&made);
}

/* ---- exports ---- */

static void fn_10_interior_of_others_is_refused(void **state)
{
	struct made made = made_on(0, 128 * KIB);
	char *inside = (char *)made.addr + 64 * KIB;
	struct hmem_memory memory = judged(inside, 4096);
	struct baseline before = now();
	struct hmem_export exported;

	(void)state;
	assert_int_equal(ops->export_start(&memory, inside, 4096, 0, &exported), -FI_EINVAL);
	/* a runtime that takes the address, and does not say where in the dma-buf it is */
	setenv("EMU_NEURON", "interior=1", 1);
	forget_log("");
	assert_int_equal(ops->export_start(&memory, inside, 4096, 0, &exported), -FI_EINVAL);
	check_log("does not tell where");
	memory = judged(made.addr, 4096);
	assert_int_equal(ops->export_start(&memory, made.addr, 4096, 0, &exported), 0);
	assert_int_equal(exported.offset, 0);
	check_export(&exported, made.addr, 4096);
	ops->export_end(&exported);
	unsetenv("EMU_NEURON");
	assert_int_equal(ops->export_start(&memory, (char *)made.addr + 8, 4096, 0, &exported),
			 -FI_EINVAL);
	check_baseline(before);
	maker->drop(&made);
}

/* ---- what the caller says ---- */

static void fn_15_claims_are_confirmed(void **state)
{
	struct made made = made_on(0, 64 * KIB);
	struct hmem_facts facts;
	char *host = malloc(4096);

	(void)state;
	assert_int_equal(ops->claim(0, made.addr, made.len, &facts), 0);
	assert_true(facts.flags & HMEM_FACT_NO_RANGE);
	assert_int_equal(ops->claim(0, made.addr, made.len + 1, &facts), -FI_ENOENT);
	assert_int_equal(ops->claim(0, host, 4096, &facts), -FI_ENOENT);
	free(host);
	maker->drop(&made);
}

/* Without what newer runtimes tell: only the caller's word, as far as an export confirms it. */
static void fn_15_old_runtime(void **state)
{
	struct made made = made_on(0, 64 * KIB);
	struct hmem_memory memory;
	struct hmem_export exported;
	char *host = malloc(4096), *own = own_on(0, 64 * KIB);

	(void)state;
	assert_int_equal(ops->device_count(), 1);
	assert_int_equal(hmem_classify_as(FI_HMEM_NEURON, 0, 0, made.addr, made.len, &memory), 0);
	assert_int_equal(memory.iface, FI_HMEM_NEURON);
	assert_int_equal(memory.device, 0);
	assert_false(memory.range_known);
	assert_int_equal(memory.len, made.len);
	assert_true(memory.host_access);
	assert_int_equal(ops->export_start(&memory, made.addr, made.len, 0, &exported), 0);
	check_export(&exported, made.addr, made.len);
	ops->export_end(&exported);
	check_refused(FI_HMEM_NEURON, 0, 0, host, 4096, -FI_EINVAL, "is host");
	check_refused(FI_HMEM_NEURON, 0, 0, made.addr, made.len + 1, -FI_EINVAL, "is host");
	check_refused(FI_HMEM_NEURON, 1, 0, made.addr, made.len, -FI_ENODEV, "no device 1");
	assert_int_equal(judged(own, 64 * KIB).device, 0);
	drop_own(0, own);
	free(host);
	maker->drop(&made);
}

/* ---- where it is mapped ---- */

static void fn_15_mappings_of_the_device(void **state)
{
	static const char text[] =
		"55d000000000-55d000001000 r-xp 00000000 08:01 77    /usr/bin/dev\n"
		"7f0000000000-7f0000010000 rw-s 100000000 00:05 613   /dev/neuron3\n"
		"7f0000010000-7f0000020000 r--s 100010000 00:05 620   /dev/neuron12\n"
		"7f0000020000-7f0000030000 rw-p 00000000 00:00 0\n"
		"7f0000030000-7f0000040000 rw-s 00000000 00:05 9      /dev/neuron3x\n"
		"7f0000040000-7f0000050000 rw-s 00000000 00:05 9      /home/dev/neuron3\n";
	static const struct {
		uintptr_t addr;
		int device; /* -1: none */
		bool host_access;
	} cases[] = {
		{ 0x55d000000000, -1, false }, { 0x7effffffffff, -1, false },
		{ 0x7f0000000000, 3, true },   { 0x7f000000ffff, 3, true },
		{ 0x7f0000010000, 12, false }, { 0x7f0000020000, -1, false },
		{ 0x7f0000030000, -1, false }, { 0x7f0000040000, -1, false },
		{ 0x7f0000050000, -1, false },
	};
	char path[] = "/tmp/maps.XXXXXX";
	int file = mkstemp(path);

	(void)state;
	assert_int_equal(write(file, text, sizeof(text) - 1), sizeof(text) - 1);
	close(file);
	for (size_t i = 0; i < count_of(cases); i++) {
		int device = -1;
		bool host_access = false;
		int ret = neuron_mapping(path, (const void *)cases[i].addr, &device, &host_access);

		assert_int_equal(ret, cases[i].device < 0 ? -FI_ENOENT : 0);
		assert_int_equal(device, cases[i].device);
		assert_int_equal(host_access, cases[i].host_access);
	}
	unlink(path);
	assert_int_equal(neuron_mapping(path, path, &(int){ 0 }, &(bool){ 0 }), -FI_ENOENT);
}

/* Without a descriptor to spare nobody can look, which does not make it the host's. */
static void fn_15_no_descriptor_to_look_with(void **state)
{
	struct rlimit limit, none;
	int ret;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ret = neuron_mapping("/proc/self/maps", &limit, &(int){ 0 }, &(bool){ 0 });
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(ret, -FI_EIO);
	assert_int_equal(neuron_mapping("/proc/self/maps", &limit, &(int){ 0 }, &(bool){ 0 }),
			 -FI_ENOENT);
}

/* ---- */

static void every_call_fails_once(void **state)
{
	/* asked where a wrong answer does no harm, and calls that have no answer */
	static const char *const silent[] = { "nrt_get_attached_efa_bdf", "nrt_tensor_free", NULL };
	/* a core whose memory is used up is not the device's only one */
	static const char *const other_core[] = { "nrt_get_attached_efa_bdf", "nrt_tensor_free",
						  "nrt_tensor_allocate", NULL };

	(void)state;
	fail_each(NRT_CODE_RESOURCE, other_core);
	fail_each(NRT_CODE_FAILURE, silent);
}

static void no_address_for_device_memory(void **state)
{
	struct baseline before = now();

	(void)state;
	setenv("EMU_NEURON", "map=0", 1);
	forget_log("");
	assert_int_equal(ops->alloc(0, 4096, HMEM_ALLOC_DEVICE, &(void *){ NULL }), -FI_EOPNOTSUPP);
	check_log("NEURON_RT_MAP_HBM");
	unsetenv("EMU_NEURON");
	check_baseline(before);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_21_the_runtime_is_left_alone),
		cmocka_unit_test(attr_02_devices),
		cmocka_unit_test(fn_19_own_memory_is_on_the_device_asked_for),
		cmocka_unit_test(fn_15_memory_of_others),
		cmocka_unit_test(fn_15_freed_memory_is_refused),
		cmocka_unit_test(flag_03_the_host_reaches_it),
		cmocka_unit_test(fn_07_own_memory_with_its_offset),
		cmocka_unit_test(fn_10_interior_of_others_is_refused),
		cmocka_unit_test(fn_01_a_thousand_exports),
		cmocka_unit_test(fn_15_claims_are_confirmed),
		cmocka_unit_test(fn_15_mappings_of_the_device),
		cmocka_unit_test(fn_15_no_descriptor_to_look_with),
		cmocka_unit_test(copies),
		cmocka_unit_test(every_call_fails_once),
		cmocka_unit_test(two_threads),
		cmocka_unit_test(no_address_for_device_memory),
	};
	static const struct CMUnitTest old_tests[] = {
		cmocka_unit_test(fn_15_old_runtime),
		cmocka_unit_test(fn_07_own_memory_with_its_offset),
	};

	(void)argv;
	if (start_over(&make_neuron) != 0)
		return 1;
	return argc > 1 ? cmocka_run_group_tests(old_tests, NULL, NULL)
			: cmocka_run_group_tests(tests, NULL, NULL);
}
