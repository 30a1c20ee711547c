/* SPDX-License-Identifier: BSD-2-Clause */
/* The machines themselves. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/topology/machines.h"

#define ROOT_PORT  4
#define UPSTREAM   5
#define DOWNSTREAM 6

static const struct machine_function gpu = { 0x10de, 0x2330, 0x030200, 0, "identity" };
static const struct machine_function accelerator = { 0x1002, 0x74a1, 0x120000, 0, "DMA-FQ" };
static const struct machine_function nic = { 0x15b3, 0x1021, 0x020700, 0, "DMA" };

static struct machine_function on_node(const struct machine_function *what, int node)
{
	struct machine_function copy = *what;

	copy.node = node;
	return copy;
}

__attribute__((format(printf, 2, 3))) static void join(char path[PATH_MAX], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, PATH_MAX, fmt, args);
	va_end(args);
}

/* A function at its bus behind a downstream port of the switch. */
static void below(struct machine *m, const char *upstream, int ports_bus, int port, int bus,
		  const struct machine_function *what, int emu)
{
	char path[PATH_MAX];

	join(path, "%s/0000:%02x:%02x.0", upstream, ports_bus, port);
	machine_bridge(m, path, what->node, DOWNSTREAM, bus, bus);
	join(path, "%s/0000:%02x:%02x.0/0000:%02x:00.0", upstream, ports_bus, port, bus);
	machine_function(m, path, what);
	if (emu >= 0)
		machine_nic(m, emu, path);
}

/* A switch on a host bridge of its own with pairs of GPU and NIC. */
static void make_switch(struct machine *m, int root_bus, int node, int pairs, int first_nic)
{
	struct machine_function g = on_node(&gpu, node), n = on_node(&nic, node);
	int last = root_bus + 4 + 0x20 * (pairs - 1);
	char path[PATH_MAX];

	join(path, "pci0000:%02x/0000:%02x:01.0", root_bus, root_bus);
	machine_bridge(m, path, node, ROOT_PORT, root_bus + 1, last);
	join(path, "pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0", root_bus, root_bus, root_bus + 1);
	machine_bridge(m, path, node, UPSTREAM, root_bus + 2, last);
	for (int i = 0; i < pairs; i++) {
		int bus = root_bus + 3 + 0x20 * i;

		below(m, path, root_bus + 2, 2 * i, bus, &g, -1);
		below(m, path, root_bus + 2, 2 * i + 1, bus + 1, &n, first_nic + i);
	}
}

static void make_dgx(struct machine *m)
{
	machine_nodes(m, 2, 2);
	for (int i = 0; i < 4; i++)
		make_switch(m, 0x14 + 0x40 * i, i / 2, 2, 2 * i);
}

static void make_hgx(struct machine *m)
{
	machine_nodes(m, 2, 2);
	for (int i = 0; i < 8; i++)
		make_switch(m, 0x14 + 0x20 * i, i / 4, 1, i);
}

static void make_oam_domain(struct machine *m, int domain)
{
	struct machine_function a = on_node(&accelerator, domain), n = on_node(&nic, domain);
	char first[PATH_MAX], second[PATH_MAX], path[PATH_MAX];
	int bus = 0x20 + 2 * domain;

	join(path, "pci%04x:10/%04x:10:01.1", domain, domain);
	machine_bridge(m, path, domain, ROOT_PORT, 0x11, 0x2f);
	join(first, "pci%04x:10/%04x:10:01.1/%04x:11:00.0", domain, domain, domain);
	machine_bridge(m, first, domain, UPSTREAM, 0x12, 0x2f);
	for (int i = 0; i < 2; i++) {
		join(path, "%.200s/%04x:12:%02x.0", first, domain, i + 1);
		machine_bridge(m, path, domain, DOWNSTREAM, bus + i, bus + i);
		join(path, "%.200s/%04x:12:%02x.0/%04x:%02x:03.0", first, domain, i + 1, domain,
		     bus + i);
		machine_function(m, path, &a);
	}
	join(path, "%.200s/%04x:12:00.0", first, domain);
	machine_bridge(m, path, domain, DOWNSTREAM, 0x13, 0x16);
	join(second, "%.200s/%04x:12:00.0/%04x:13:00.0", first, domain, domain);
	machine_bridge(m, second, domain, UPSTREAM, 0x14, 0x16);
	for (int i = 0; i < 2; i++) {
		join(path, "%.300s/%04x:14:%02x.0", second, domain, i);
		machine_bridge(m, path, domain, DOWNSTREAM, 0x15 + i, 0x15 + i);
		join(path, "%.300s/%04x:14:%02x.0/%04x:%02x:00.0", second, domain, i, domain,
		     0x15 + i);
		machine_function(m, path, &n);
		machine_nic(m, 2 * domain + i, path);
	}
}

static void make_oam(struct machine *m)
{
	machine_nodes(m, 2, 4);
	for (int domain = 0; domain < 4; domain++)
		make_oam_domain(m, domain);
}

static void make_flat(struct machine *m)
{
	struct machine_function g = on_node(&gpu, -1), n = on_node(&nic, -1);
	char path[PATH_MAX];

	g.iommu = n.iommu = NULL;
	machine_nodes(m, 1, 1);
	for (int i = 0; i < 4; i++) {
		join(path, "pci0000:00/0000:00:%02x.0", 5 + i);
		machine_function(m, path, &g);
		join(path, "pci0000:00/0000:00:%02x.0", 9 + i);
		machine_function(m, path, &n);
		machine_nic(m, i, path);
	}
}

#define VMBUS "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00"

static void make_cloud(struct machine *m)
{
	char path[PATH_MAX];

	machine_nodes(m, 2, 2);
	for (int i = 0; i < 8; i++) {
		struct machine_function g = on_node(&gpu, i / 4), n = on_node(&nic, i / 4);
		int bus = 0x17 + 0x20 * i;

		g.iommu = n.iommu = NULL;
		join(path,
		     VMBUS "/47505500-%04d-0000-3130-444532323330/pci0000:%02x/0000:%02x:00.0", i,
		     bus, bus);
		machine_function(m, path, &g);
		join(path, VMBUS "/00000101-%04d-0000-3135-423331303231/pci%04x:00/%04x:00:00.0", i,
		     0x101 + i, 0x101 + i);
		machine_function(m, path, &n);
		machine_nic(m, i, path);
	}
}

void machine_make(struct machine *machine, const char *name)
{
	static const struct {
		const char *name;
		void (*make)(struct machine *machine);
	} shapes[] = {
		{ "dgx", make_dgx },   { "hgx", make_hgx },	{ "oam", make_oam },
		{ "flat", make_flat }, { "cloud", make_cloud },
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		if (strcmp(name, shapes[i].name) == 0) {
			shapes[i].make(machine);
			return;
		}
	}
	fprintf(stderr, "no machine \"%s\" here\n", name);
	abort();
}
