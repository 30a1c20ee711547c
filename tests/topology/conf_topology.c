/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HMREG_TOPOLOGY_OPS over emulated accelerators and RDMA devices, on a machine of our own: two GPUs and two NICs
 * at each of four switches (tests/topology/machines.h).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>

#include "tests/topology/machines.h"
#include "tests/unit/alloc_fail.h"

#define GPUS 8
#define NICS 8
#define ROOM 16
#define LEN  ((size_t)1 << 20)
/* all that the profiles ask for */
#define MODES                                                                                      \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |            \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE |     \
	 FI_MR_XPU_DESC)

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_realloc(void *memory, size_t size)
{
	void *grown = alloc_fails_now() ? NULL : __real_realloc(memory, size);

	alloc_live += !memory && grown;
	return grown;
}

static char root[] = "/tmp/hmreg-conf-topology-XXXXXX";
static struct fi_info *list;
static struct fid_fabric *fabric;
static struct hmreg_topology_ops *ops;
static struct hmreg_hmem_ops *memory_ops;

static int begin(void **state)
{
	struct machine machine = { .root = root, .view = MACHINE_ACS_ON };
	struct fi_info *hints = fi_allocinfo();

	(void)state;
	if (!mkdtemp(root) || !hints)
		return -1;
	machine_make(&machine, "dgx");
	setenv("HMREG_SYSFS", root, 1);
	hints->domain_attr->mr_mode = MODES;
	if (fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &list) != 0 ||
	    fi_fabric(list->fabric_attr, &fabric, NULL) != 0 ||
	    fi_open_ops(&fabric->fid, HMREG_TOPOLOGY_OPS, 0, (void **)&ops, NULL) != 0 ||
	    fi_open_ops(&fabric->fid, HMREG_HMEM_OPS, 0, (void **)&memory_ops, NULL) != 0)
		return -1;
	fi_freeinfo(hints);
	return 0;
}

static int end(void **state)
{
	char command[128];
	int ret = fabric ? fi_close(&fabric->fid) : 0;

	(void)state;
	fi_freeinfo(list);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return ret || system(command);
}

static const char *name_of(const struct hmreg_nic_choice *choice)
{
	return choice->info->domain_attr->name;
}

/* The choices for a device; returns their number. */
static size_t choose(int device, struct hmreg_nic_choice out[ROOM])
{
	size_t count = ROOM;

	out[0].size = sizeof(out[0]);
	assert_int_equal(ops->best_for(&fabric->fid, list, FI_HMEM_CUDA, device, out, &count), 0);
	return count;
}

/* ---- the order ---- */

static void fn_37_each_device_has_a_nic_of_its_own(void **state)
{
	struct hmreg_nic_choice out[ROOM];
	char want[16];

	(void)state;
	for (int device = 0; device < GPUS; device++) {
		size_t count = choose(device, out);

		assert_int_equal(count, NICS + 4);
		snprintf(want, sizeof(want), "emu%d", device);
		assert_string_equal(name_of(&out[0]), want);
		assert_int_equal(out[0].distance, HMREG_DISTANCE_SWITCH);
		assert_int_equal(out[0].path, HMREG_PATH_DMABUF);
		assert_int_equal(out[0].acs, HMREG_ACS_REDIRECTS);
		assert_int_equal(strncmp(out[0].acs_at, "0000:", 5), 0);
		assert_int_equal(out[1].distance, HMREG_DISTANCE_SWITCH);
		assert_int_equal(out[2].distance, HMREG_DISTANCE_NODE);
		assert_int_equal(out[4].distance, HMREG_DISTANCE_SYSTEM);
		for (size_t i = NICS; i < count; i++) {
			assert_int_equal(out[i].distance, HMREG_DISTANCE_SOFTWARE);
			assert_int_equal(out[i].path, HMREG_PATH_COPY);
		}
	}
}

static void fn_37_pointers_are_of_their_device(void **state)
{
	struct hmreg_nic_choice want[ROOM], out[ROOM];

	(void)state;
	for (int device = 0; device < GPUS; device++) {
		size_t count = ROOM, expected = choose(device, want);
		void *addr;

		assert_int_equal(memory_ops->alloc(&fabric->fid, FI_HMEM_CUDA, device,
						   HMREG_HMEM_DEVICE, LEN, &addr),
				 0);
		out[0].size = sizeof(out[0]);
		assert_int_equal(
			ops->best(&fabric->fid, list, (char *)addr + 64, LEN - 64, out, &count), 0);
		assert_int_equal(count, expected);
		for (size_t i = 0; i < count; i++) {
			assert_ptr_equal(out[i].info, want[i].info);
			assert_int_equal(out[i].distance, want[i].distance);
		}
		assert_int_equal(memory_ops->free(&fabric->fid, FI_HMEM_CUDA, device,
						  HMREG_HMEM_DEVICE, addr),
				 0);
	}
}

static void host_memory_has_nics_as_well(void **state)
{
	struct hmreg_nic_choice out[ROOM], other[ROOM];
	static char host[LEN];
	size_t count = ROOM;

	(void)state;
	memset(host, 1, LEN);
	out[0].size = sizeof(out[0]);
	assert_int_equal(ops->best(&fabric->fid, list, host, LEN, out, &count), 0);
	assert_int_equal(count, NICS + 4);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(out[i].path, i < NICS ? HMREG_PATH_HOST : HMREG_PATH_SOFTWARE);
	other[0].size = sizeof(other[0]);
	assert_int_equal(ops->best_for(&fabric->fid, list, FI_HMEM_SYSTEM, -1, other, &count), 0);
	assert_int_equal(count, NICS + 4);
}

/* The first entry says how long all are, and count how many; nothing behind is written. */
static void entries_are_as_long_as_the_caller_has_them(void **state)
{
	enum {
		SHORT = offsetof(struct hmreg_nic_choice, bits_per_s)
	};
	struct hmreg_nic_choice want[ROOM];
	_Alignas(struct hmreg_nic_choice) unsigned char bytes[4 * SHORT];
	size_t count = 3, size = SHORT;

	(void)state;
	choose(2, want);
	memset(bytes, 0xa5, sizeof(bytes));
	memcpy(bytes, &size, sizeof(size));
	assert_int_equal(ops->best_for(&fabric->fid, list, FI_HMEM_CUDA, 2,
				       (struct hmreg_nic_choice *)(void *)bytes, &count),
			 0);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < 3; i++) {
		struct hmreg_nic_choice got = { .size = 0 };

		memcpy(&got, bytes + i * SHORT, SHORT);
		assert_int_equal(got.size, SHORT);
		assert_ptr_equal(got.info, want[i].info);
		assert_int_equal(got.distance, want[i].distance);
	}
	for (size_t i = 3 * SHORT; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], 0xa5);
}

/* ---- the table ---- */

static void fn_37_table_and_choices_agree(void **state)
{
	struct hmreg_nic_choice want[ROOM];
	struct hmreg_topology *table;

	(void)state;
	assert_int_equal(ops->open(&fabric->fid, list, &table), 0);
	assert_int_equal(table->accelerator_count, GPUS);
	assert_int_equal(table->nic_count, NICS + 4);
	assert_int_equal(table->bridge_count, 4 * (3 + 4));
	for (size_t a = 0; a < GPUS; a++) {
		size_t count = choose(table->accelerators[a]->device, want);

		assert_int_equal(count, table->nic_count);
		for (size_t i = 0; i < count; i++)
			assert_memory_equal(table->choices[a * count + i], &want[i],
					    sizeof(want[i]));
	}
	for (size_t i = 0; i < table->bridge_count; i++) {
		const struct hmreg_bridge *bridge = table->bridges[i];

		assert_int_equal(bridge->parent == SIZE_MAX, bridge->kind == HMREG_BRIDGE_HOST);
		assert_true(bridge->parent == SIZE_MAX || bridge->parent < i);
		assert_int_equal(bridge->node, bridge->socket);
	}
	assert_string_equal(table->accelerators[3]->pci, "0000:77:00.0");
	assert_string_equal(table->accelerators[3]->iommu, "identity");
	assert_int_equal(table->accelerators[3]->bridge == SIZE_MAX, 0);
	ops->close(table);
	ops->close(NULL);
}

/* ---- refusals ---- */

static void bad_arguments_are_refused(void **state)
{
	struct fi_info *foreign = fi_dupinfo(list);
	struct fid other = { .fclass = FI_CLASS_DOMAIN };
	struct hmreg_nic_choice out[1] = { { .size = sizeof(out[0]) } };
	struct hmreg_topology *table = NULL;
	char byte[8];
	size_t one = 1, none = 0;

	(void)state;
#define BEST(...)     ops->best(__VA_ARGS__)
#define BEST_FOR(...) ops->best_for(__VA_ARGS__)
	assert_int_equal(BEST(NULL, list, byte, 8, out, &one), -FI_EINVAL);
	assert_int_equal(BEST(&other, list, byte, 8, out, &one), -FI_EINVAL);
	assert_int_equal(BEST(&fabric->fid, NULL, byte, 8, out, &one), -FI_EINVAL);
	assert_int_equal(BEST(&fabric->fid, list, NULL, 8, out, &one), -FI_EINVAL);
	assert_int_equal(BEST(&fabric->fid, list, byte, 0, out, &one), -FI_EINVAL);
	assert_int_equal(BEST(&fabric->fid, list, byte, 8, NULL, &one), -FI_EINVAL);
	assert_int_equal(BEST(&fabric->fid, list, byte, 8, out, NULL), -FI_EINVAL);
	assert_int_equal(BEST(&fabric->fid, list, byte, 8, out, &none), -FI_EINVAL);
	out[0].size = 0;
	assert_int_equal(BEST(&fabric->fid, list, byte, 8, out, &one), -FI_EINVAL);
	out[0].size = sizeof(out[0]) - 4;
	assert_int_equal(BEST(&fabric->fid, list, byte, 8, out, &one), -FI_EINVAL);
	out[0].size = sizeof(out[0]);
	assert_int_equal(BEST_FOR(&fabric->fid, list, (enum fi_hmem_iface)99, 0, out, &one),
			 -FI_EINVAL);
	assert_int_equal(BEST_FOR(&fabric->fid, list, FI_HMEM_CUDA, GPUS, out, &one), -FI_ENODEV);
	assert_int_equal(BEST_FOR(&fabric->fid, list, FI_HMEM_SYNAPSEAI, 0, out, &one), -FI_ENOSYS);
	free(foreign->domain_attr->name);
	foreign->domain_attr->name = strdup("nobody's");
	assert_int_equal(BEST(&fabric->fid, foreign, byte, 8, out, &one), -FI_ENODEV);
	assert_int_equal(ops->open(&fabric->fid, foreign, &table), -FI_ENODEV);
	assert_int_equal(ops->open(&fabric->fid, NULL, &table), -FI_EINVAL);
	assert_int_equal(ops->open(&fabric->fid, list, NULL), -FI_EINVAL);
	assert_int_equal(ops->open(NULL, list, &table), -FI_EINVAL);
	assert_null(table);
	assert_int_equal(one, 1);
	assert_int_equal(none, 0);
	fi_freeinfo(foreign);
}

/* Each allocation in turn: the call fails whole, and nothing is left of it. */
static void failing_allocations_leave_nothing(void **state)
{
	struct hmreg_nic_choice out[1];
	struct hmreg_topology *table;
	unsigned int failed = 0;
	long live;

	(void)state;
	for (unsigned int call = 1;; call++) {
		int ret;

		table = NULL;
		live = alloc_live;
		alloc_fail_at(call);
		ret = ops->open(&fabric->fid, list, &table);
		if (!alloc_failed()) {
			assert_int_equal(ret, 0);
			ops->close(table);
			break;
		}
		failed++;
		assert_int_equal(ret, -FI_ENOMEM);
		assert_null(table);
		assert_int_equal(alloc_live, live);
	}
	assert_true(failed > 20);
	for (unsigned int call = 1;; call++) {
		size_t count = 1;
		int ret;

		live = alloc_live;
		out[0].size = sizeof(out[0]);
		alloc_fail_at(call);
		ret = ops->best_for(&fabric->fid, list, FI_HMEM_CUDA, 0, out, &count);
		assert_int_equal(alloc_live, live);
		if (!alloc_failed()) {
			assert_int_equal(ret, 0);
			break;
		}
		assert_int_equal(ret, -FI_ENOMEM);
	}
}

/* ---- a NIC that takes no dma-bufs ---- */

static void fn_37_a_near_nic_that_does_not_reach_is_not_taken(void **state)
{
	struct hmreg_nic_choice out[ROOM];
	size_t count = choose(0, out);

	(void)state;
	assert_string_equal(name_of(&out[0]), "emu1");
	assert_string_equal(name_of(&out[count - 1]), "emu0");
	assert_int_equal(out[count - 1].path, 0);
	assert_int_equal(out[count - 1].distance, HMREG_DISTANCE_SWITCH);
	assert_true(*out[count - 1].reason);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_37_each_device_has_a_nic_of_its_own),
		cmocka_unit_test(fn_37_pointers_are_of_their_device),
		cmocka_unit_test(host_memory_has_nics_as_well),
		cmocka_unit_test(entries_are_as_long_as_the_caller_has_them),
		cmocka_unit_test(fn_37_table_and_choices_agree),
		cmocka_unit_test(bad_arguments_are_refused),
		cmocka_unit_test(failing_allocations_leave_nothing),
	};
	const struct CMUnitTest without_dmabuf[] = {
		cmocka_unit_test(fn_37_a_near_nic_that_does_not_reach_is_not_taken),
	};

	if (argc > 1 && strcmp(argv[1], "no-dmabuf") == 0)
		return cmocka_run_group_tests(without_dmabuf, begin, end);
	return cmocka_run_group_tests(tests, begin, end);
}
