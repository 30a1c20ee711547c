/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs trees in which something is not as the kernel writes it: nothing is made up from them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/topology/machine_scene.h"

#define DGX_GPU	  "0000:17:00.0"
#define GPU_FILES "bus/pci/devices/" DGX_GPU

/* From the GPU's socket to the other one. */
static uint32_t numa_distance(void)
{
	struct topo_place near = place("0000:18:00.0"), far = place("0000:98:00.0");
	struct topo_path path;

	topo_compare(&near, &far, &path);
	return path.numa_distance;
}

/* What is no number is not known: it is not 0, nor the number that it begins with. */
static void fn_37_what_is_no_number_is_not_known(void **state)
{
	static const char *const none[] = { "",		"none\n",	"0x1\n",
					    "1 or 2\n", "4294967297\n", "99999999999999999999\n",
					    "-2\n",	"\xff\x01\n" };

	(void)state;
	begin("dgx", MACHINE_USER);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct topo_place found;

		machine_text(&machine, GPU_FILES "/numa_node", none[i]);
		found = place(DGX_GPU);
		assert_int_equal(found.node, -1);
		assert_int_equal(found.socket, -1);
		assert_non_null(strstr(found.reason, "NUMA node not known: "));
		machine_text(&machine, GPU_FILES "/numa_node", "1\n");
		assert_int_equal(place(DGX_GPU).socket, 1);
		machine_text(&machine, "devices/system/cpu/cpu2/topology/physical_package_id",
			     none[i]);
		assert_int_equal(place(DGX_GPU).socket, -1);
		machine_text(&machine, "devices/system/cpu/cpu2/topology/physical_package_id",
			     "1\n");
		machine_link(&machine, GPU_FILES "/iommu_group", *none[i] ? none[i] : "group");
		assert_int_equal(place(DGX_GPU).iommu_group, -1);
		machine_link(&machine, GPU_FILES "/iommu_group", "kernel/iommu_groups/7");
		assert_int_equal(place(DGX_GPU).iommu_group, 7);
		machine_text(&machine, "devices/system/node/node0/distance", none[i]);
		assert_int_equal(numa_distance(), 0);
	}
}

/* Lists of nodes: no list makes a node up, or takes long. */
static void fn_37_lists_that_are_none(void **state)
{
	static const struct {
		const char *list;
		size_t nodes;
	} rows[] = { { "0-1\n", 2 },
		     { "0,3-4,6\n", 4 },
		     { "0-2147483647\n", 1024 },
		     { "2147483646-2147483647\n", 2 },
		     { "4294967295\n", 0 },
		     { "0-4294967297\n", 0 },
		     { "3-1\n", 0 },
		     { "0-\n", 0 },
		     { "-1\n", 0 },
		     { "zero\n", 0 },
		     { "0;1\n", 0 },
		     { "0,,1\n", 1 },
		     { "", 0 } };
	int nodes[1024];

	(void)state;
	begin(NULL, MACHINE_USER);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		machine_text(&machine, "devices/system/node/online", rows[i].list);
		assert_int_equal(topo_nodes(nodes, 1024), rows[i].nodes);
		for (size_t n = 0; n < rows[i].nodes; n++)
			assert_true(nodes[n] >= 0);
	}
}

/* Deeper than there is room for: not known, and not taken for one of the bridges above. */
static void fn_37_what_is_too_deep_is_told(void **state)
{
	static const struct machine_function gpu = { .vendor = 0x10de, .class = 0x030200 };
	char folder[1024] = "pci0000:00", last[32];
	struct topo_place found;

	(void)state;
	begin(NULL, MACHINE_USER);
	machine_nodes(&machine, 1, 1);
	for (int i = 0; i < PCI_BRIDGES_MAX + 2; i++) {
		snprintf(last, sizeof(last), "0000:%02x:00.0", i);
		strcat(strcat(folder, "/"), last);
		machine_function(&machine, folder, &gpu);
		found = place(last);
		assert_int_equal(found.bridges, i <= PCI_BRIDGES_MAX ? i + 1 : 0);
	}
	assert_string_equal(found.reason, "0000:11:00.0 is below more than 16 bridges");
}

/* Links that lead in circles, to nothing, or to a name that is no address. */
static void fn_37_links_that_lead_nowhere(void **state)
{
	(void)state;
	begin("dgx", MACHINE_USER);
	machine_link(&machine, GPU_FILES "/physfn", "<b>\"&'");
	assert_string_equal(place(DGX_GPU).physical, "");
	machine_link(&machine, GPU_FILES, "bus/pci/devices/0000:18:00.0");
	machine_link(&machine, "bus/pci/devices/0000:18:00.0", GPU_FILES);
	assert_string_equal(place(DGX_GPU).reason, "sysfs does not show " DGX_GPU);
	machine_link(&machine, GPU_FILES, "devices/nowhere");
	assert_string_equal(place(DGX_GPU).reason, "sysfs does not show " DGX_GPU);
	machine_link(&machine, GPU_FILES, "devices/system");
	assert_string_equal(place(DGX_GPU).reason, "sysfs does not show " DGX_GPU);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(fn_37_what_is_no_number_is_not_known, end),
		cmocka_unit_test_teardown(fn_37_lists_that_are_none, end),
		cmocka_unit_test_teardown(fn_37_what_is_too_deep_is_told, end),
		cmocka_unit_test_teardown(fn_37_links_that_lead_nowhere, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
