/* SPDX-License-Identifier: BSD-2-Clause */
/* Places, what lies between them, and the order of NICs, on machines of several shapes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/topo/order.h"
#include "tests/topology/machine_scene.h"

static struct topo_path between(const char *a, const char *b)
{
	struct topo_place first = place(a), second = place(b);
	struct topo_path path, back;

	topo_compare(&first, &second, &path);
	topo_compare(&second, &first, &back);
	assert_int_equal(path.distance, back.distance);
	assert_int_equal(path.bridges, back.bridges);
	assert_int_equal(path.numa_distance, back.numa_distance);
	assert_int_equal(path.acs, back.acs);
	return path;
}

struct row {
	const char *a, *b;
	enum hmreg_distance distance;
	uint32_t bridges, numa_distance;
};

static void check_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct topo_path path = between(rows[i].a, rows[i].b);

		if (path.distance != rows[i].distance || path.bridges != rows[i].bridges ||
		    path.numa_distance != rows[i].numa_distance)
			print_error("%s to %s: distance %d, %u bridges, NUMA %u\n", rows[i].a,
				    rows[i].b, path.distance, path.bridges, path.numa_distance);
		assert_int_equal(path.distance, rows[i].distance);
		assert_int_equal(path.bridges, rows[i].bridges);
		assert_int_equal(path.numa_distance, rows[i].numa_distance);
	}
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- distances ---- */

static void fn_37_distances_of_switches_on_two_sockets(void **state)
{
	static const struct row dgx[] = {
		{ "0000:17:00.0", "0000:18:00.0", HMREG_DISTANCE_SWITCH, 3, 0 },
		{ "0000:17:00.0", "0000:38:00.0", HMREG_DISTANCE_SWITCH, 3, 0 },
		{ "0000:17:00.0", "0000:58:00.0", HMREG_DISTANCE_NODE, 6, 10 },
		{ "0000:17:00.0", "0000:98:00.0", HMREG_DISTANCE_SYSTEM, 6, 32 },
		{ "0000:17:00.0", "0000:17:00.0", HMREG_DISTANCE_DEVICE, 0, 0 },
	};
	static const struct row hgx[] = {
		{ "0000:F7:00.0", "0000:f8:00.0", HMREG_DISTANCE_SWITCH, 3, 0 },
		{ "0000:F7:00.0", "0000:d8:00.0", HMREG_DISTANCE_NODE, 6, 10 },
		{ "0000:F7:00.0", "0000:18:00.0", HMREG_DISTANCE_SYSTEM, 6, 32 },
	};

	(void)state;
	begin("dgx", MACHINE_USER);
	CHECK_ROWS(dgx);
	end(NULL);
	begin("hgx", MACHINE_USER);
	CHECK_ROWS(hgx);
}

static void fn_37_distances_across_domains_and_nodes_of_a_socket(void **state)
{
	static const struct row oam[] = {
		{ "0000:20:03.0", "0000:15:00.0", HMREG_DISTANCE_ROOT_PORT, 5, 0 },
		{ "0000:20:03.0", "0000:21:03.0", HMREG_DISTANCE_SWITCH, 3, 0 },
		{ "0000:15:00.0", "0000:16:00.0", HMREG_DISTANCE_SWITCH, 3, 0 },
		{ "0001:22:03.0", "0001:16:00.0", HMREG_DISTANCE_ROOT_PORT, 5, 0 },
		{ "0000:20:03.0", "0001:15:00.0", HMREG_DISTANCE_SOCKET, 8, 12 },
		{ "0000:20:03.0", "0002:15:00.0", HMREG_DISTANCE_SYSTEM, 8, 32 },
	};

	(void)state;
	begin("oam", MACHINE_USER);
	CHECK_ROWS(oam);
}

static void fn_37_distances_of_virtual_machines(void **state)
{
	static const struct row flat[] = {
		{ "0000:00:05.0", "0000:00:09.0", HMREG_DISTANCE_HOST_BRIDGE, 0, 0 },
		{ "0000:00:05.0", "0000:00:0c.0", HMREG_DISTANCE_HOST_BRIDGE, 0, 0 },
	};
	static const struct row cloud[] = {
		{ "0000:17:00.0", "0101:00:00.0", HMREG_DISTANCE_NODE, 0, 10 },
		{ "0000:17:00.0", "0108:00:00.0", HMREG_DISTANCE_SYSTEM, 0, 32 },
	};
	struct topo_place gpu;

	(void)state;
	begin("flat", MACHINE_USER);
	CHECK_ROWS(flat);
	assert_non_null(strstr(between("0000:00:05.0", "0000:00:09.0").reason, "virtual"));
	/* numa_node is -1, and there is one node */
	gpu = place("0000:00:05.0");
	assert_int_equal(gpu.node, 0);
	assert_string_equal(gpu.reason, "");
	assert_int_equal(gpu.iommu_group, -1);
	end(NULL);
	begin("cloud", MACHINE_USER);
	CHECK_ROWS(cloud);
	gpu = place("0000:17:00.0");
	assert_int_equal(gpu.bridges, 1);
	assert_string_equal(gpu.bridge[0].name, "pci0000:17");
}

/* ---- what is not known is told ---- */

static const struct machine_function nic = { 0x15b3, 0x1021, 0x020700, -1, NULL };

static void fn_37_unknown_nodes_are_told(void **state)
{
	struct topo_path path;

	(void)state;
	begin(NULL, MACHINE_USER);
	machine_nodes(&machine, 2, 2);
	machine_function(&machine, "pci0000:10/0000:10:00.0", &nic);
	machine_function(&machine, "pci0000:20/0000:20:00.0", &nic);
	path = between("0000:10:00.0", "0000:20:00.0");
	assert_int_equal(path.distance, HMREG_DISTANCE_UNKNOWN);
	assert_string_equal(path.reason, "0000:10:00.0: NUMA node not known: numa_node is -1");
	assert_int_equal(place("0000:10:00.0").socket, -1);
}

static void fn_37_kernels_without_nodes_are_told(void **state)
{
	(void)state;
	begin(NULL, MACHINE_USER);
	machine_function(&machine, "pci0000:10/0000:10:00.0", &nic);
	assert_string_equal(place("0000:10:00.0").reason,
			    "NUMA node not known: this kernel tells of none");
}

/* A node of memory alone. */
static void fn_37_nodes_without_processors_are_of_no_socket(void **state)
{
	struct machine_function near = nic, far = nic;
	struct topo_path path;

	(void)state;
	begin(NULL, MACHINE_USER);
	machine_nodes(&machine, 2, 2);
	machine_text(&machine, "devices/system/node/online", "0-1,4\n");
	machine_text(&machine, "devices/system/node/node0/distance", "10 32 17\n");
	machine_text(&machine, "devices/system/node/node4/distance", "17 40 10\n");
	machine_text(&machine, "devices/system/node/node4/cpulist", "\n");
	near.node = 0;
	far.node = 4;
	machine_function(&machine, "pci0000:10/0000:10:00.0", &near);
	machine_function(&machine, "pci0000:20/0000:20:00.0", &far);
	path = between("0000:10:00.0", "0000:20:00.0");
	assert_int_equal(path.distance, HMREG_DISTANCE_UNKNOWN);
	assert_int_equal(path.numa_distance, 17);
	assert_non_null(strstr(path.reason, "NUMA nodes 0 and 4"));
	assert_non_null(strstr(place("0000:20:00.0").reason, "socket not known: NUMA node 4"));
}

/* Firmware that interleaves memory shows one node of two sockets. */
static void fn_37_one_node_of_two_sockets_is_of_none(void **state)
{
	(void)state;
	begin(NULL, MACHINE_USER);
	machine_nodes(&machine, 2, 2);
	machine_text(&machine, "devices/system/node/online", "0\n");
	machine_text(&machine, "devices/system/node/node0/cpulist", "0-3\n");
	machine_function(&machine, "pci0000:10/0000:10:00.0", &nic);
	assert_int_equal(place("0000:10:00.0").node, 0);
	assert_int_equal(place("0000:10:00.0").socket, -1);
}

static void fn_37_places_that_are_none_are_told(void **state)
{
	static const struct {
		const char *pci, *reason;
	} rows[] = {
		{ "", "none given" },
		{ "17:00.0", "\"17:00.0\" is no PCI address" },
		{ "0000:17:00", "\"0000:17:00\" is no PCI address" },
		{ "0000:ff:00.0", "sysfs does not show 0000:ff:00.0" },
		{ "123456789:ff:00.0", "\"123456789:ff:00.0\" is no PCI address" },
	};

	(void)state;
	begin("dgx", MACHINE_USER);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct topo_path path = between(rows[i].pci, "0000:18:00.0");

		assert_int_equal(path.distance, HMREG_DISTANCE_UNKNOWN);
		assert_string_equal(path.reason, rows[i].reason);
	}
}

/* ---- bridges ---- */

static void check_kinds(const char *pci)
{
	static const enum hmreg_bridge_kind kinds[] = { HMREG_BRIDGE_HOST, HMREG_BRIDGE_ROOT_PORT,
							HMREG_BRIDGE_SWITCH, HMREG_BRIDGE_PORT };
	struct topo_place at = place(pci);

	assert_int_equal(at.bridges, 4);
	for (size_t i = 0; i < at.bridges; i++)
		assert_int_equal(at.bridge[i].kind, kinds[i]);
	assert_string_equal(at.bridge[0].name, "pci0000:14");
	assert_string_equal(at.bridge[1].name, "0000:14:01.0");
	assert_string_equal(at.bridge[2].name, "0000:15:00.0");
	assert_string_equal(at.bridge[3].name, "0000:16:00.0");
}

static void fn_37_bridges_are_told_apart(void **state)
{
	static const uint8_t ordinary[256];

	(void)state;
	begin("dgx", MACHINE_USER);
	check_kinds("0000:17:00.0");
	end(NULL);
	begin("dgx", MACHINE_ACS_OFF);
	check_kinds("0000:17:00.0");
	/* one of conventional PCI, which has no such capability */
	machine_bytes(&machine, "bus/pci/devices/0000:15:00.0/config", ordinary, sizeof(ordinary));
	assert_int_equal(place("0000:17:00.0").bridge[2].kind, HMREG_BRIDGE_OTHER);
	assert_int_equal(between("0000:17:00.0", "0000:18:00.0").distance,
			 HMREG_DISTANCE_ROOT_PORT);
}

static void fn_37_access_control_is_told(void **state)
{
	struct topo_path path;

	(void)state;
	begin("dgx", MACHINE_USER);
	assert_int_equal(between("0000:17:00.0", "0000:18:00.0").acs, HMREG_ACS_UNREADABLE);
	end(NULL);
	begin("dgx", MACHINE_ACS_OFF);
	assert_int_equal(between("0000:17:00.0", "0000:18:00.0").acs, HMREG_ACS_OFF);
	end(NULL);
	begin("dgx", MACHINE_ACS_ON);
	path = between("0000:17:00.0", "0000:18:00.0");
	assert_int_equal(path.acs, HMREG_ACS_REDIRECTS);
	assert_string_equal(path.acs_at, "0000:16:00.0");
	end(NULL);
	begin("flat", MACHINE_USER);
	assert_int_equal(between("0000:00:05.0", "0000:00:09.0").acs, HMREG_ACS_NONE);
}

/* One bridge is known to redirect and the other cannot be read: known is known. */
static void fn_37_known_redirection_counts_more_than_unknown(void **state)
{
	static const uint8_t ordinary[64];

	(void)state;
	begin("dgx", MACHINE_ACS_ON);
	machine_bytes(&machine, "bus/pci/devices/0000:16:00.0/config", ordinary, sizeof(ordinary));
	assert_string_equal(between("0000:17:00.0", "0000:18:00.0").acs_at, "0000:16:01.0");
	end(NULL);
	begin("dgx", MACHINE_ACS_OFF);
	machine_bytes(&machine, "bus/pci/devices/0000:16:00.0/config", ordinary, sizeof(ordinary));
	assert_int_equal(between("0000:17:00.0", "0000:18:00.0").acs, HMREG_ACS_UNREADABLE);
}

static void fn_37_translation_is_told(void **state)
{
	struct topo_place a, b;

	(void)state;
	begin("dgx", MACHINE_USER);
	a = place("0000:17:00.0");
	b = place("0000:18:00.0");
	assert_string_equal(a.iommu, "identity");
	assert_string_equal(b.iommu, "DMA");
	assert_true(a.iommu_group >= 0 && b.iommu_group >= 0 && a.iommu_group != b.iommu_group);
}

/* ---- special functions ---- */

#define SLOT "pci0000:40/0000:40:01.0/0000:41:00."

static void fn_37_virtual_functions_are_of_their_device(void **state)
{
	struct machine_function local = nic;

	(void)state;
	begin("dgx", MACHINE_USER);
	local.node = 0;
	machine_bridge(&machine, "pci0000:40/0000:40:01.0", 0, 4, 0x41, 0x42);
	machine_function(&machine, SLOT "0", &local);
	machine_function(&machine, SLOT "1", &local);
	machine_function(&machine, "pci0000:40/0000:40:01.0/0000:41:08.2", &local);
	machine_link(&machine, "devices/pci0000:40/0000:40:01.0/0000:41:08.2/physfn",
		     "devices/" SLOT "0");
	assert_string_equal(place("0000:41:08.2").physical, "0000:41:00.0");
	assert_string_equal(place("0000:41:00.0").physical, "");
	assert_int_equal(between("0000:41:00.0", "0000:41:00.1").distance, HMREG_DISTANCE_DEVICE);
	assert_int_equal(between("0000:41:08.2", "0000:41:00.1").distance, HMREG_DISTANCE_DEVICE);
	assert_int_equal(between("0000:41:08.2", "0000:17:00.0").distance, HMREG_DISTANCE_NODE);
}

/* The tree begins anew behind a volume management device, in a domain of five digits. */
static void fn_37_domains_of_five_digits(void **state)
{
	struct machine_function local = nic;
	struct topo_place at;

	(void)state;
	begin("dgx", MACHINE_USER);
	local.node = 0;
	machine_function(&machine, "pci0000:00/0000:00:0e.0", &local);
	machine_bridge(&machine, "pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0", 0, 4, 1, 1);
	machine_function(&machine,
			 "pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0", &local);
	at = place("10000:01:00.0");
	assert_int_equal(at.bridges, 2);
	assert_string_equal(at.bridge[0].name, "pci10000:00");
	assert_int_equal(at.bridge[1].kind, HMREG_BRIDGE_ROOT_PORT);
	assert_int_equal(between("10000:01:00.0", "0000:17:00.0").distance, HMREG_DISTANCE_NODE);
}

/* ---- the order of NICs ---- */

struct scene {
	struct topo_place place[16];
	struct topo_nic nic[16];
	char name[16][16];
	size_t count;
};

static void add_nic(struct scene *scene, const char *pci)
{
	size_t i = scene->count++;

	snprintf(scene->name[i], sizeof(scene->name[i]), "nic%zu", i);
	if (pci)
		scene->place[i] = place(pci);
	scene->nic[i] = (struct topo_nic){ pci ? &scene->place[i] : NULL, scene->name[i], true,
					   UINT64_C(400000000000) };
}

/* Order the scene's NICs for a device. */
static void order(const struct scene *scene, const char *pci, size_t turn, struct topo_rank *ranks)
{
	struct topo_place at = place(pci), *peers;
	size_t count;

	assert_int_equal(topo_peers(&at, &peers, &count), 0);
	assert_int_equal(topo_order(&at, peers, count, turn, scene->nic, scene->count, ranks), 0);
	free(peers);
}

static const char *first(const struct scene *scene, const char *pci)
{
	struct topo_rank ranks[16];

	order(scene, pci, 0, ranks);
	return scene->nic[ranks[0].nic].place->pci;
}

static void each_gpu_has_a_nic_of_its_own_at_its_switch(void **state)
{
	struct scene scene = { .count = 0 };
	char pci[16], want[16];

	(void)state;
	begin("dgx", MACHINE_USER);
	/* in an order that is not that of addresses */
	for (int i = 7; i >= 0; i--) {
		snprintf(pci, sizeof(pci), "0000:%02x:00.0", 0x18 + 0x20 * i);
		add_nic(&scene, pci);
	}
	for (int i = 0; i < 8; i++) {
		snprintf(pci, sizeof(pci), "0000:%02x:00.0", 0x17 + 0x20 * i);
		snprintf(want, sizeof(want), "0000:%02x:00.0", 0x18 + 0x20 * i);
		assert_string_equal(first(&scene, pci), want);
	}
}

static void equal_nics_are_dealt_out(void **state)
{
	static const char *const flat[][2] = { { "0000:00:05.0", "0000:00:09.0" },
					       { "0000:00:06.0", "0000:00:0a.0" },
					       { "0000:00:07.0", "0000:00:09.0" },
					       { "0000:00:08.0", "0000:00:0a.0" } };
	static const char *const oam[][2] = { { "0000:20:03.0", "0000:15:00.0" },
					      { "0000:21:03.0", "0000:16:00.0" },
					      { "0003:26:03.0", "0003:15:00.0" },
					      { "0003:27:03.0", "0003:16:00.0" } };
	struct scene scene = { .count = 0 };

	(void)state;
	begin("flat", MACHINE_USER);
	add_nic(&scene, "0000:00:0a.0");
	add_nic(&scene, "0000:00:09.0");
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(first(&scene, flat[i][0]), flat[i][1]);
	end(NULL);
	begin("oam", MACHINE_USER);
	scene.count = 0;
	add_nic(&scene, "0000:15:00.0");
	add_nic(&scene, "0000:16:00.0");
	add_nic(&scene, "0003:15:00.0");
	add_nic(&scene, "0003:16:00.0");
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(first(&scene, oam[i][0]), oam[i][1]);
}

/* What comes behind the best is dealt out by the same turn: where the best fail, the others share the load. */
static void the_rest_is_dealt_out_as_well(void **state)
{
	struct scene scene = { .count = 0 };
	struct topo_rank ranks[16];

	(void)state;
	begin("dgx", MACHINE_USER);
	add_nic(&scene, "0000:18:00.0");
	add_nic(&scene, "0000:38:00.0");
	add_nic(&scene, "0000:58:00.0");
	add_nic(&scene, "0000:78:00.0");
	order(&scene, "0000:37:00.0", 0, ranks);
	assert_int_equal(ranks[0].nic, 1);
	assert_int_equal(ranks[1].nic, 0);
	assert_int_equal(ranks[2].nic, 3);
	assert_int_equal(ranks[3].nic, 2);
}

static void what_does_not_reach_and_software_come_last(void **state)
{
	struct scene scene = { .count = 0 };
	struct topo_rank ranks[16];

	(void)state;
	begin("dgx", MACHINE_USER);
	add_nic(&scene, NULL);
	add_nic(&scene, "0000:18:00.0");
	add_nic(&scene, "0000:98:00.0");
	add_nic(&scene, "");
	add_nic(&scene, NULL);
	scene.nic[1].reaches = false;
	order(&scene, "0000:17:00.0", 0, ranks);
	assert_int_equal(ranks[0].nic, 2);
	assert_int_equal(ranks[1].nic, 3);
	assert_int_equal(ranks[1].path.distance, HMREG_DISTANCE_UNKNOWN);
	assert_int_equal(ranks[2].nic, 0);
	assert_int_equal(ranks[3].nic, 4);
	assert_int_equal(ranks[4].nic, 1);
}

static void the_faster_of_equal_ones_is_first(void **state)
{
	struct scene scene = { .count = 0 };
	struct topo_rank ranks[16];

	(void)state;
	begin("dgx", MACHINE_USER);
	add_nic(&scene, "0000:18:00.0");
	add_nic(&scene, "0000:38:00.0");
	scene.nic[0].bits_per_s /= 2;
	for (int i = 0; i < 2; i++) {
		order(&scene, i ? "0000:37:00.0" : "0000:17:00.0", 0, ranks);
		assert_int_equal(ranks[0].nic, 1);
	}
}

/* What sysfs does not show takes the turn that it is given. */
static void unknown_places_take_their_number(void **state)
{
	struct scene scene = { .count = 0 };
	struct topo_rank ranks[16];

	(void)state;
	begin("dgx", MACHINE_USER);
	add_nic(&scene, "0000:18:00.0");
	add_nic(&scene, "0000:38:00.0");
	add_nic(&scene, "0000:58:00.0");
	for (size_t turn = 0; turn < 5; turn++) {
		order(&scene, "", turn, ranks);
		assert_int_equal(ranks[0].nic, turn % 3);
		assert_int_equal(ranks[0].path.distance, HMREG_DISTANCE_UNKNOWN);
	}
}

/* ---- host memory ---- */

static void host_memory_is_near_the_nics_of_its_node(void **state)
{
	struct topo_place memory, far;
	struct topo_path path;

	(void)state;
	begin("dgx", MACHINE_USER);
	far = place("0000:98:00.0");
	topo_place_memory(1, "", &memory);
	topo_compare(&memory, &far, &path);
	assert_int_equal(path.distance, HMREG_DISTANCE_NODE);
	topo_place_memory(0, "", &memory);
	topo_compare(&memory, &far, &path);
	assert_int_equal(path.distance, HMREG_DISTANCE_SYSTEM);
	assert_int_equal(path.numa_distance, 32);
	topo_place_memory(-1, "nobody knows", &memory);
	topo_compare(&memory, &far, &path);
	assert_int_equal(path.distance, HMREG_DISTANCE_UNKNOWN);
	assert_string_equal(path.reason, "nobody knows");
}

/* Looking at it makes no page. */
static void node_of_memory_is_asked_of_the_kernel(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 64 * page;
	char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char reason[TOPO_REASON] = "";
	unsigned char there[64];
	int touched, untouched;

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	untouched = topo_memory_node(memory, len, reason);
	assert_int_equal(mincore(memory, len, there), 0);
	for (size_t i = 0; i < 64; i++)
		assert_false(there[i] & 1);
	memset(memory, 1, len);
	touched = topo_memory_node(memory + 1, len - 2, reason);
	/* a sandbox may forbid both calls, and then says so */
	assert_true(untouched >= 0 || *reason);
	assert_true(touched >= 0 || *reason);
	munmap(memory, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(fn_37_distances_of_switches_on_two_sockets, end),
		cmocka_unit_test_teardown(fn_37_distances_across_domains_and_nodes_of_a_socket,
					  end),
		cmocka_unit_test_teardown(fn_37_distances_of_virtual_machines, end),
		cmocka_unit_test_teardown(fn_37_unknown_nodes_are_told, end),
		cmocka_unit_test_teardown(fn_37_kernels_without_nodes_are_told, end),
		cmocka_unit_test_teardown(fn_37_nodes_without_processors_are_of_no_socket, end),
		cmocka_unit_test_teardown(fn_37_one_node_of_two_sockets_is_of_none, end),
		cmocka_unit_test_teardown(fn_37_places_that_are_none_are_told, end),
		cmocka_unit_test_teardown(fn_37_bridges_are_told_apart, end),
		cmocka_unit_test_teardown(fn_37_access_control_is_told, end),
		cmocka_unit_test_teardown(fn_37_known_redirection_counts_more_than_unknown, end),
		cmocka_unit_test_teardown(fn_37_translation_is_told, end),
		cmocka_unit_test_teardown(fn_37_virtual_functions_are_of_their_device, end),
		cmocka_unit_test_teardown(fn_37_domains_of_five_digits, end),
		cmocka_unit_test_teardown(each_gpu_has_a_nic_of_its_own_at_its_switch, end),
		cmocka_unit_test_teardown(equal_nics_are_dealt_out, end),
		cmocka_unit_test_teardown(the_rest_is_dealt_out_as_well, end),
		cmocka_unit_test_teardown(what_does_not_reach_and_software_come_last, end),
		cmocka_unit_test_teardown(the_faster_of_equal_ones_is_first, end),
		cmocka_unit_test_teardown(unknown_places_take_their_number, end),
		cmocka_unit_test_teardown(host_memory_is_near_the_nics_of_its_node, end),
		cmocka_unit_test_teardown(node_of_memory_is_asked_of_the_kernel, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
