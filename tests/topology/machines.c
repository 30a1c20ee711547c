/* SPDX-License-Identifier: BSD-2-Clause */
/* Trees in place of /sys: the parts of one.  machine_shapes.c puts them together. */
#include "tests/topology/machines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void stop(const char *what, const char *path)
{
	fprintf(stderr, "%s of %s: %s\n", what, path, strerror(errno));
	abort();
}

/* ---- files ---- */

static void whole(const struct machine *machine, const char *path, char full[PATH_MAX])
{
	snprintf(full, PATH_MAX, "%s/%s", machine->root, path);
	for (char *at = full + strlen(machine->root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		if (mkdir(full, 0755) && errno != EEXIST)
			stop("mkdir", full);
		*at = '/';
	}
}

void machine_bytes(const struct machine *machine, const char *path, const void *bytes, size_t len)
{
	char full[PATH_MAX];
	int fd;

	whole(machine, path, full);
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len || close(fd))
		stop("writing", full);
}

void machine_text(const struct machine *machine, const char *path, const char *text)
{
	machine_bytes(machine, path, text, strlen(text));
}

void machine_link(const struct machine *machine, const char *path, const char *target)
{
	char full[PATH_MAX], up[PATH_MAX] = "";

	whole(machine, path, full);
	for (const char *at = path; (at = strchr(at, '/')) != NULL; at++)
		strcat(up, "../");
	strncat(up, target, sizeof(up) - strlen(up) - 1);
	unlink(full);
	if (symlink(up, full))
		stop("symlink", full);
}

__attribute__((format(printf, 3, 4))) static void line(const struct machine *machine,
						       const char *path, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text) - 1, fmt, args);
	va_end(args);
	strcat(text, "\n");
	machine_text(machine, path, text);
}

/* ---- processors ---- */

#define CPUS 2 /* of each node */

void machine_nodes(const struct machine *machine, int sockets, int nodes)
{
	char path[128], distances[256];

	line(machine, "devices/system/node/online", nodes > 1 ? "0-%d" : "%d", nodes - 1);
	line(machine, "devices/system/cpu/online", "0-%d", CPUS * nodes - 1);
	line(machine, "devices/system/cpu/possible", "0-%d", CPUS * nodes - 1);
	line(machine, "devices/system/cpu/present", "0-%d", CPUS * nodes - 1);
	for (int node = 0; node < nodes; node++) {
		int socket = node * sockets / nodes, used = 0;

		for (int other = 0; other < nodes; other++)
			used += snprintf(distances + used, sizeof(distances) - (size_t)used, "%d ",
					 other == node			     ? 10
					 : other * sockets / nodes == socket ? 12
									     : 32);
		snprintf(path, sizeof(path), "devices/system/node/node%d/distance", node);
		line(machine, path, "%s", distances);
		snprintf(path, sizeof(path), "devices/system/node/node%d/cpulist", node);
		line(machine, path, "%d-%d", CPUS * node, CPUS * node + CPUS - 1);
		snprintf(path, sizeof(path), "devices/system/node/node%d/cpumap", node);
		line(machine, path, "%x", 3u << CPUS * node);
		snprintf(path, sizeof(path), "devices/system/node/node%d/meminfo", node);
		line(machine, path, "Node %d MemTotal: 1048576 kB", node);
		for (int cpu = CPUS * node; cpu < CPUS * node + CPUS; cpu++) {
			static const char *const files[] = { "physical_package_id", "core_id",
							     "thread_siblings", "core_siblings" };
			const unsigned int values[] = { (unsigned int)socket, (unsigned int)cpu,
							1u << cpu,
							(0xffu >> (8 - CPUS * nodes / sockets))
								<< CPUS * nodes / sockets *
									   socket };

			for (int i = 0; i < 4; i++) {
				snprintf(path, sizeof(path), "devices/system/cpu/cpu%d/topology/%s",
					 cpu, files[i]);
				line(machine, path, i < 2 ? "%u" : "%x", values[i]);
			}
		}
	}
}

/* ---- functions ---- */

static void little(uint8_t *at, uint32_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

/* Header, PCI Express capability, and of a port the access control: port -1 is no bridge. */
static void config(struct machine *machine, const char *path, const struct machine_function *what,
		   int port, int first, int last)
{
	uint8_t bytes[4096] = { 0 };
	int bus = (int)strtol(strrchr(path, '/') - 7, NULL, 16);

	little(bytes, what->vendor, 2);
	little(bytes + 2, what->device, 2);
	bytes[6] = 0x10; /* there is a list of capabilities */
	little(bytes + 9, what->class, 3);
	bytes[0x34] = 0x40;
	bytes[0x40] = 0x10;
	bytes[0x42] = (uint8_t)(port < 0 ? 0x02 : port << 4 | 2);
	if (port >= 0) {
		bytes[0x0e] = 1;
		bytes[0x18] = (uint8_t)bus;
		bytes[0x19] = (uint8_t)first;
		bytes[0x1a] = (uint8_t)last;
		little(bytes + 0x100, 0x000d | 1u << 16, 4);
		bytes[0x106] = machine->view == MACHINE_ACS_ON && port == 6 ? 0x1d : 0x01;
	}
	machine_bytes(machine, path, bytes, machine->view == MACHINE_USER ? 64 : sizeof(bytes));
}

static void group(struct machine *machine, const char *folder, const char *type)
{
	char path[PATH_MAX], target[64];

	snprintf(target, sizeof(target), "kernel/iommu_groups/%d", machine->groups++);
	snprintf(path, sizeof(path), "%s/type", target);
	line(machine, path, "%s", type);
	snprintf(path, sizeof(path), "%s/iommu_group", folder);
	machine_link(machine, path, target);
}

static void add(struct machine *machine, const char *folder, const struct machine_function *what,
		int port, int first, int last)
{
	const char *address = strrchr(folder, '/') + 1;
	char base[PATH_MAX / 2], path[PATH_MAX];

	snprintf(base, sizeof(base), "devices/%s", folder);
#define FILE_OF(name, ...)                                                                         \
	(snprintf(path, sizeof(path), "%s/" name, base), line(machine, path, __VA_ARGS__))
	FILE_OF("vendor", "0x%04x", what->vendor);
	FILE_OF("device", "0x%04x", what->device);
	FILE_OF("subsystem_vendor", "0x0000");
	FILE_OF("subsystem_device", "0x0000");
	FILE_OF("class", "0x%06x", what->class);
	FILE_OF("numa_node", "%d", what->node);
	FILE_OF("local_cpus", "%x", what->node < 0 ? 0xffu : 3u << CPUS * what->node);
#undef FILE_OF
	snprintf(path, sizeof(path), "%s/config", base);
	config(machine, path, what, port, first, last);
	snprintf(path, sizeof(path), "bus/pci/devices/%s", address);
	machine_link(machine, path, base);
	if (what->iommu)
		group(machine, base, what->iommu);
}

void machine_function(struct machine *machine, const char *folder,
		      const struct machine_function *what)
{
	add(machine, folder, what, -1, 0, 0);
}

void machine_bridge(struct machine *machine, const char *folder, int node, int port, int first,
		    int last)
{
	const struct machine_function what = { 0x1000, 0xc030, 0x060400, node, NULL };

	add(machine, folder, &what, port, first, last);
}

void machine_nic(const struct machine *machine, int number, const char *folder)
{
	char path[64], target[PATH_MAX];

	snprintf(path, sizeof(path), "class/infiniband/emu%d/device", number);
	snprintf(target, sizeof(target), "devices/%s", folder);
	machine_link(machine, path, target);
}
