/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trees in place of /sys, of the shape that machines with several accelerators and NICs have.  What is in them
 * is what the kernel shows: directories of functions below those of the bridges above them, links from
 * bus/pci/devices, the first bytes of configuration space, NUMA nodes, IOMMU groups.
 *
 *   dgx    two sockets; four switches with two GPUs and two NICs each
 *   hgx    two sockets; eight switches with a GPU and a NIC each
 *   oam    two sockets of two NUMA nodes and four PCI domains; in each domain two accelerators at a switch,
 *          and two NICs at a second switch below the first
 *   flat   a virtual machine: four GPUs and four virtual functions on the root bus, no NUMA node told
 *   cloud  a virtual machine: each function in a PCI domain of its own, behind a hypervisor's bus
 *
 * GPUs have the addresses of the emulated CUDA devices (oam: of the emulated ROCr devices), NICs are emu0 to
 * emu7, as the emulated RDMA devices are.
 */
#ifndef TESTS_TOPOLOGY_MACHINES_H
#define TESTS_TOPOLOGY_MACHINES_H

#include <stddef.h>
#include <stdint.h>

/* What configuration space shows. */
enum machine_view {
	MACHINE_USER,	 /* 64 bytes */
	MACHINE_ACS_OFF, /* all, as root sees it; the bridges do not redirect */
	MACHINE_ACS_ON,	 /* the downstream ports of switches do */
};

struct machine {
	const char *root; /* an empty folder; the caller's */
	enum machine_view view;
	int groups; /* IOMMU groups so far */
};

/* Of one of the names above.  It ends the program with a message where it fails. */
void machine_make(struct machine *machine, const char *name);

/* ---- parts, for other trees ---- */

/* path is below root; folders are made. */
void machine_text(const struct machine *machine, const char *path, const char *text);
void machine_bytes(const struct machine *machine, const char *path, const void *bytes, size_t len);
/* Both below root; target need not be there. */
void machine_link(const struct machine *machine, const char *path, const char *target);

/* NUMA nodes with two processors each, dealt out to the sockets in order. */
void machine_nodes(const struct machine *machine, int sockets, int nodes);

struct machine_function {
	uint32_t vendor, device, class; /* class with its programming interface */
	int node;			/* as numa_node has it */
	const char *iommu;		/* type of its group; NULL: it has none */
};

/* folder is below devices/, and its last part is the address. */
void machine_function(struct machine *machine, const char *folder,
		      const struct machine_function *what);
/* port: Device/Port Type of PCI Express.  The buses below it are first to last. */
void machine_bridge(struct machine *machine, const char *folder, int node, int port, int first,
		    int last);
/* emuN's device link */
void machine_nic(const struct machine *machine, int number, const char *folder);

#endif
