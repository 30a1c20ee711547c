/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwloc and this library read the same trees, and say the same of every two functions in them: which bridge is
 * above both, how many are in between, which NUMA nodes and sockets they are of.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <hwloc.h>

#include "core/base/sysfs.h"
#include "core/topo/place.h"
#include "tests/topology/machines.h"

#define FUNCTIONS_MAX 64

static char root[64], sysfs[80];
static hwloc_topology_t topology;

static void begin(const char *name)
{
	struct machine machine = { .root = sysfs };

	snprintf(root, sizeof(root), "/tmp/hmreg-hwloc-XXXXXX");
	assert_non_null(mkdtemp(root));
	snprintf(sysfs, sizeof(sysfs), "%s/sys", root);
	assert_int_equal(mkdir(sysfs, 0755), 0);
	machine_make(&machine, name);
	hm_sysfs_set_root(sysfs);
	setenv("HWLOC_FSROOT", root, 1);
	setenv("HWLOC_COMPONENTS", "linux,stop", 1);
	assert_int_equal(hwloc_topology_init(&topology), 0);
	hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
	assert_int_equal(hwloc_topology_load(topology), 0);
}

static void finish(void)
{
	char command[128];

	hwloc_topology_destroy(topology);
	hm_sysfs_set_root(NULL);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	assert_int_equal(system(command), 0);
}

/* ---- what hwloc says ---- */

static hwloc_obj_t find(const char *pci)
{
	hwloc_obj_t found = hwloc_get_pcidev_by_busidstring(topology, pci);

	if (!found)
		print_error("hwloc does not find %s\n", pci);
	assert_non_null(found);
	return found;
}

static bool is_bridge(hwloc_obj_t object, hwloc_obj_bridge_type_t upstream)
{
	return object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == upstream;
}

/* PCI bridges from the object, without it, to the one that is above it, without that. */
static uint32_t bridges_below(hwloc_obj_t object, hwloc_obj_t above)
{
	uint32_t count = 0;

	for (object = object->parent; object && object != above; object = object->parent)
		count += is_bridge(object, HWLOC_OBJ_BRIDGE_PCI);
	return count;
}

/* hwloc's own function goes by depths, which do not order objects of I/O. */
static hwloc_obj_t common(hwloc_obj_t first, hwloc_obj_t second)
{
	for (; first; first = first->parent)
		for (hwloc_obj_t above = second; above; above = above->parent)
			if (above == first)
				return first;
	return NULL;
}

static int node_of(hwloc_obj_t object)
{
	object = hwloc_get_non_io_ancestor_obj(topology, object);
	return hwloc_bitmap_weight(object->nodeset) == 1 ? hwloc_bitmap_first(object->nodeset) : -1;
}

static hwloc_obj_t package_of(hwloc_obj_t object)
{
	object = hwloc_get_non_io_ancestor_obj(topology, object);
	return object->type == HWLOC_OBJ_PACKAGE
		       ? object
		       : hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
}

struct verdict {
	enum hmreg_distance distance;
	uint32_t bridges;
};

/* hwloc tells no kinds of bridges: below one root port is one thing. */
static struct verdict hwloc_says(const char *a, const char *b)
{
	hwloc_obj_t first = find(a), second = find(b);
	hwloc_obj_t above = common(first, second);
	struct verdict verdict = { .bridges = bridges_below(first, above) +
					      bridges_below(second, above) };

	if (is_bridge(above, HWLOC_OBJ_BRIDGE_PCI)) {
		verdict.bridges++;
		verdict.distance = HMREG_DISTANCE_ROOT_PORT;
	} else if (is_bridge(above, HWLOC_OBJ_BRIDGE_HOST)) {
		verdict.distance = HMREG_DISTANCE_HOST_BRIDGE;
	} else if (node_of(first) >= 0 && node_of(first) == node_of(second)) {
		verdict.distance = HMREG_DISTANCE_NODE;
	} else if (package_of(first) && package_of(first) == package_of(second)) {
		verdict.distance = HMREG_DISTANCE_SOCKET;
	} else {
		verdict.distance = HMREG_DISTANCE_SYSTEM;
	}
	return verdict;
}

/* ---- what the library says ---- */

static struct verdict we_say(const char *a, const char *b)
{
	struct topo_place first, second;
	struct topo_path path;

	topo_place_read(a, "", &first);
	topo_place_read(b, "", &second);
	topo_compare(&first, &second, &path);
	if (path.distance == HMREG_DISTANCE_SWITCH)
		path.distance = HMREG_DISTANCE_ROOT_PORT;
	return (struct verdict){ path.distance, path.bridges };
}

/* ---- the two ---- */

/* Functions that are no bridges. */
static size_t list_functions(char names[FUNCTIONS_MAX][TOPO_PCI])
{
	char folder[128], class[16];
	struct dirent *entry;
	size_t count = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/bus/pci/devices", sysfs);
	dir = opendir(folder);
	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (!hm_sysfs_read(class, sizeof(class), "bus/pci/devices/%s/class",
				   entry->d_name) ||
		    strncmp(class, "0x0604", 6) == 0)
			continue;
		assert_true(count < FUNCTIONS_MAX);
		snprintf(names[count++], TOPO_PCI, "%.15s", entry->d_name);
	}
	closedir(dir);
	return count;
}

static void compare(const char *machine, size_t functions)
{
	char names[FUNCTIONS_MAX][TOPO_PCI];
	size_t count;

	begin(machine);
	count = list_functions(names);
	assert_int_equal(count, functions);
	for (size_t a = 0; a < count; a++) {
		for (size_t b = a + 1; b < count; b++) {
			struct verdict theirs = hwloc_says(names[a], names[b]);
			struct verdict ours = we_say(names[a], names[b]);

			if (theirs.distance != ours.distance || theirs.bridges != ours.bridges)
				print_error("%s, %s to %s: hwloc %d, %u bridges; we %d, %u\n",
					    machine, names[a], names[b], theirs.distance,
					    theirs.bridges, ours.distance, ours.bridges);
			assert_int_equal(theirs.distance, ours.distance);
			assert_int_equal(theirs.bridges, ours.bridges);
		}
	}
	finish();
}

static void fn_37_hwloc_says_the_same_of_switches(void **state)
{
	(void)state;
	compare("dgx", 16);
	compare("hgx", 16);
}

static void fn_37_hwloc_says_the_same_of_domains(void **state)
{
	(void)state;
	compare("oam", 16);
}

static void fn_37_hwloc_says_the_same_of_virtual_machines(void **state)
{
	(void)state;
	compare("flat", 8);
	compare("cloud", 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_37_hwloc_says_the_same_of_switches),
		cmocka_unit_test(fn_37_hwloc_says_the_same_of_domains),
		cmocka_unit_test(fn_37_hwloc_says_the_same_of_virtual_machines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
