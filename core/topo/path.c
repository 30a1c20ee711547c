/* SPDX-License-Identifier: BSD-2-Clause */
/* What lies between two places. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sysfs.h"
#include "core/topo/place.h"

#define NODES_MAX 1024

__attribute__((format(printf, 2, 3))) static void tell(struct topo_path *path, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(path->reason, sizeof(path->reason), fmt, args);
	va_end(args);
}

/* ---- by NUMA nodes ---- */

/* As node a's line of distances has it, which counts the nodes that are online. */
static uint32_t read_distance(int a, int b)
{
	char text[4096];
	const char *at = text;
	int nodes[NODES_MAX];
	size_t count = topo_nodes(nodes, NODES_MAX);

	hm_sysfs_read(text, sizeof(text), "devices/system/node/node%d/distance", a);
	for (size_t i = 0; i < count && i < NODES_MAX; i++) {
		int value;

		at += strspn(at, " ");
		value = pci_number(at, &at);
		if (value < 0)
			return 0;
		if (nodes[i] == b)
			return (uint32_t)value;
	}
	return 0;
}

static void compare_nodes(const struct topo_place *a, const struct topo_place *b,
			  struct topo_path *path)
{
	const struct topo_place *unknown = a->node < 0 ? a : b->node < 0 ? b : NULL;

	if (unknown) {
		path->distance = HMREG_DISTANCE_UNKNOWN;
		tell(path, "%s%s%.90s", unknown->pci, *unknown->pci ? ": " : "", unknown->reason);
		return;
	}
	path->numa_distance = read_distance(a->node, b->node);
	if (a->node == b->node) {
		path->distance = HMREG_DISTANCE_NODE;
	} else if (a->socket >= 0 && b->socket >= 0) {
		path->distance = a->socket == b->socket ? HMREG_DISTANCE_SOCKET
							: HMREG_DISTANCE_SYSTEM;
	} else {
		path->distance = HMREG_DISTANCE_UNKNOWN;
		tell(path, "NUMA nodes %d and %d: not told which sockets they are of", a->node,
		     b->node);
	}
}

/* ---- by PCI ---- */

/* Bridges from the host's on that are above both. */
static size_t common_bridges(const struct topo_place *a, const struct topo_place *b)
{
	size_t n = 0;

	while (n < a->bridges && n < b->bridges &&
	       strcmp(a->bridge[n].name, b->bridge[n].name) == 0)
		n++;
	return n;
}

/* Virtual functions are of the device of their physical one. */
static bool is_one_device(const struct topo_place *a, const struct topo_place *b)
{
	const char *first = *a->physical ? a->physical : a->pci;
	const char *second = *b->physical ? b->physical : b->pci;
	size_t len = strcspn(first, ".");

	return len == strcspn(second, ".") && memcmp(first, second, len) == 0;
}

static void judge_acs(const struct topo_bridge *bridge, struct topo_path *path)
{
	if (bridge->acs == HMREG_ACS_REDIRECTS && path->acs != HMREG_ACS_REDIRECTS)
		memcpy(path->acs_at, bridge->name, sizeof(path->acs_at));
	if (path->acs == HMREG_ACS_REDIRECTS || bridge->acs == HMREG_ACS_NONE)
		return;
	if (path->acs != HMREG_ACS_UNREADABLE || bridge->acs == HMREG_ACS_REDIRECTS)
		path->acs = bridge->acs;
}

/* Bridges on one side, from the first that is not above both. */
static void add_side(const struct topo_place *place, size_t common, struct topo_path *path)
{
	/* without a common host bridge, the host's own is no PCI bridge either */
	for (size_t i = common ? common : 1; i < place->bridges; i++, path->bridges++)
		judge_acs(&place->bridge[i], path);
}

static enum hmreg_distance below_one_port(const struct topo_place *a, const struct topo_place *b,
					  size_t common)
{
	bool direct = a->bridges <= common + 1 && b->bridges <= common + 1;

	return direct && a->bridge[common - 1].kind == HMREG_BRIDGE_SWITCH
		       ? HMREG_DISTANCE_SWITCH
		       : HMREG_DISTANCE_ROOT_PORT;
}

void topo_compare(const struct topo_place *a, const struct topo_place *b, struct topo_path *path)
{
	const struct topo_place *lost = !a->bridges && !a->host ? a : NULL;
	size_t common = common_bridges(a, b);

	*path = (struct topo_path){ .distance = HMREG_DISTANCE_UNKNOWN };
	if (!lost)
		lost = !b->bridges && !b->host ? b : NULL;
	if (lost) {
		tell(path, "%s", lost->reason);
		return;
	}
	if (!a->host && !b->host && is_one_device(a, b)) {
		path->distance = HMREG_DISTANCE_DEVICE;
		return;
	}
	add_side(a, common, path);
	add_side(b, common, path);
	if (common == 0) {
		compare_nodes(a, b, path);
	} else if (common == 1) {
		path->distance = HMREG_DISTANCE_HOST_BRIDGE;
		if (a->bridges == 1 && b->bridges == 1)
			tell(path, "both on the root bus itself, as in virtual machines, whose "
				   "tree does not show the host's");
	} else {
		path->bridges++; /* the one in common */
		path->distance = below_one_port(a, b, common);
	}
}
