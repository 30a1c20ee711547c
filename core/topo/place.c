/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a PCI function is, as far as sysfs tells. */
#include "core/topo/place.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sysfs.h"

#define NODES_MAX 1024
#define LIST_MAX  4096 /* bytes of a list of numbers, "0-3,8" */

/* ---- numbers ---- */

/* The next range of the list "0-3,8": false at its end, or where it is none. */
static bool next_range(const char **at, int *first, int *last)
{
	*first = *last = pci_number(*at, at);
	if (*first >= 0 && **at == '-')
		*last = pci_number(*at + 1, at);
	if (*first < 0 || (**at != ',' && **at != '\0'))
		return false;
	*at += **at == ',';
	return *last >= *first;
}

/* -1: it holds no number, or what the kernel writes where the firmware does not tell: -1. */
static int whole_number(const char *text)
{
	int number = pci_number(text, &text);

	return *text ? -1 : number;
}

size_t topo_nodes(int *nodes, size_t room)
{
	char text[LIST_MAX];
	const char *at = text;
	size_t count = 0;
	int first, last;

	hm_sysfs_read(text, sizeof(text), "devices/system/node/online");
	while (next_range(&at, &first, &last))
		for (int i = 0; i <= last - first && count < NODES_MAX; i++, count++)
			if (count < room)
				nodes[count] = first + i;
	return count;
}

/* ---- sockets ---- */

static int package_of(int cpu)
{
	char text[16];

	return hm_sysfs_read(text, sizeof(text),
			     "devices/system/cpu/cpu%d/topology/physical_package_id", cpu)
		       ? whole_number(text)
		       : -1;
}

/* A node that has processors of several sockets, or none, is of no socket. */
static int socket_of(int node)
{
	char text[LIST_MAX];
	const char *at = text;
	int first, last, socket = -1;

	if (node < 0)
		return -1;
	hm_sysfs_read(text, sizeof(text), "devices/system/node/node%d/cpulist", node);
	while (next_range(&at, &first, &last)) {
		int found = package_of(first);

		if (found < 0 || found != package_of(last) || (socket >= 0 && socket != found))
			return -1;
		socket = found;
	}
	return socket;
}

/* ---- a function ---- */

__attribute__((format(printf, 2, 3))) static void tell(struct topo_place *place, const char *fmt,
						       ...)
{
	size_t used = strlen(place->reason);
	va_list args;

	if (used)
		used += (size_t)snprintf(place->reason + used, sizeof(place->reason) - used, "; ");
	if (used >= sizeof(place->reason))
		return;
	va_start(args, fmt);
	vsnprintf(place->reason + used, sizeof(place->reason) - used, fmt, args);
	va_end(args);
}

static void find_node(struct topo_place *place)
{
	size_t nodes;
	char text[16];
	int only;

	if (hm_sysfs_read(text, sizeof(text), "bus/pci/devices/%s/numa_node", place->pci))
		place->node = whole_number(text);
	if (place->node < 0) {
		nodes = topo_nodes(&only, 1);
		if (nodes == 1) /* the kernel says so of devices where there is no choice */
			place->node = only;
		else if (nodes == 0)
			tell(place, "NUMA node not known: this kernel tells of none");
		else
			tell(place,
			     *text ? "NUMA node not known: numa_node is %s"
				   : "NUMA node not known: there is no numa_node%s",
			     text);
	}
	place->socket = socket_of(place->node);
	if (place->node >= 0 && place->socket < 0)
		tell(place, "socket not known: NUMA node %d is not told to be of one", place->node);
}

static void copy_name(char out[TOPO_PCI], const char *name, size_t len)
{
	len = len < TOPO_PCI ? len : TOPO_PCI - 1;
	memcpy(out, name, len);
	out[len] = '\0';
}

static void find_bridges(const struct pci_chain *chain, struct topo_place *place)
{
	const char *name = chain->path + chain->host;
	int len;

	while (name > chain->path && name[-1] != '/')
		name--;
	copy_name(place->bridge[0].name, name, (size_t)(chain->path + chain->host - name));
	place->bridge[0].kind = HMREG_BRIDGE_HOST;
	place->bridge[0].acs = HMREG_ACS_NONE;
	place->bridges = 1;
	for (size_t i = 0; i + 1 < chain->count; i++) {
		struct topo_bridge *bridge = &place->bridge[place->bridges++];

		name = pci_chain_name(chain, i, &len);
		copy_name(bridge->name, name, (size_t)len);
		bridge->kind = pci_bridge_kind(chain, i);
		bridge->acs = pci_acs(chain, i);
	}
}

static uint32_t read_hex(const char *pci, const char *file)
{
	char text[16];

	return hm_sysfs_read(text, sizeof(text), "bus/pci/devices/%s/%s", pci, file)
		       ? (uint32_t)strtoul(text, NULL, 16)
		       : 0;
}

/* A driver may write it in capitals. */
static bool take_address(const char *pci, struct topo_place *place)
{
	size_t len = strlen(pci);

	if (len >= TOPO_PCI || !pci_is_address(pci, len))
		return false;
	for (size_t i = 0; i <= len; i++)
		place->pci[i] = (char)tolower((unsigned char)pci[i]);
	return true;
}

void topo_place_read(const char *pci, const char *why_none, struct topo_place *place)
{
	struct pci_chain chain = { .count = 0 };
	char link[PATH_MAX];
	bool found;

	*place = (struct topo_place){ .node = -1, .socket = -1, .iommu_group = -1 };
	if (!*pci) {
		tell(place, "%s", why_none);
		return;
	}
	if (!take_address(pci, place)) {
		tell(place, "\"%.20s\" is no PCI address", pci);
		return;
	}
	found = snprintf(link, sizeof(link), "%s/bus/pci/devices/%s", hm_sysfs_root(), place->pci) <
			(int)sizeof(link) &&
		pci_chain_at(link, &chain);
	if (!found && chain.count > PCI_BRIDGES_MAX) {
		tell(place, "%s is below more than %d bridges", place->pci, PCI_BRIDGES_MAX);
		return;
	}
	if (!found || !chain.host) {
		tell(place, "sysfs does not show %s", place->pci);
		return;
	}
	find_bridges(&chain, place);
	find_node(place);
	place->iommu_group = pci_iommu(&chain, place->iommu);
	place->vendor = read_hex(place->pci, "vendor");
	place->class = read_hex(place->pci, "class") >> 8;
	if (hm_sysfs_link(place->physical, sizeof(place->physical), "bus/pci/devices/%s/physfn",
			  place->pci) &&
	    !pci_is_address(place->physical, strlen(place->physical)))
		place->physical[0] = '\0';
}

void topo_place_memory(int node, const char *reason, struct topo_place *place)
{
	*place = (struct topo_place){ .host = true, .node = node, .iommu_group = -1 };
	place->socket = socket_of(node);
	if (node < 0)
		tell(place, "%s", reason);
	else if (place->socket < 0)
		tell(place, "socket not known: NUMA node %d is not told to be of one", node);
}
