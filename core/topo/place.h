/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where things are: PCI functions and host memory, and what lies between two of them.
 *
 *   pci.c     the branch of the tree that leads to a function; configuration space
 *   place.c   all that sysfs tells of a function's place
 *   memory.c  the NUMA node of host memory
 *   path.c    two places compared
 *   order.c   in which order NICs are taken for a place
 *
 * Nothing is kept between calls and nothing is locked: all of it is thread safe.
 */
#ifndef HM_TOPO_PLACE_H
#define HM_TOPO_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_ext_hmreg.h>

#include "core/topo/pci.h"

#define TOPO_PCI    16 /* bytes of an address and of a host bridge's name, with the end */
#define TOPO_REASON 128

struct topo_bridge {
	char name[TOPO_PCI];
	enum hmreg_bridge_kind kind;
	enum hmreg_acs acs;
};

struct topo_place {
	char pci[TOPO_PCI]; /* in lower case; "": no PCI function */
	/* from the host bridge to the one above the function; none: it is not in sysfs, or host memory */
	struct topo_bridge bridge[PCI_BRIDGES_MAX + 1];
	size_t bridges;
	uint32_t vendor, class; /* class without its programming interface; 0: not told */
	int node, socket;	/* -1: not told */
	int iommu_group;	/* -1: none */
	char iommu[PCI_IOMMU_TYPE];
	char physical[TOPO_PCI];  /* of a virtual function, its physical one; "" */
	bool host;		  /* host memory */
	char reason[TOPO_REASON]; /* what is not known and why, "" */
};

/* Of the function at this address, as a driver writes it; "": why_none is the reason. */
void topo_place_read(const char *pci, const char *why_none, struct topo_place *place);
/* Of host memory on this node; -1: reason says why it is not known. */
void topo_place_memory(int node, const char *reason, struct topo_place *place);
/* The NUMA nodes that are online, in their order: their number, at most room are written. */
size_t topo_nodes(int *nodes, size_t room);

/*
 * The node of most pages of host memory, as looked at in up to 16 places; pages that are not there yet
 * count for the calling thread's.  -1: reason says why.
 */
int topo_memory_node(const void *addr, size_t len, char reason[TOPO_REASON]);
/* The calling thread's; -1 likewise. */
int topo_thread_node(char reason[TOPO_REASON]);

struct topo_path {
	enum hmreg_distance distance; /* not HMREG_DISTANCE_SOFTWARE */
	uint32_t bridges;
	uint32_t numa_distance; /* 0: not told */
	enum hmreg_acs acs;
	char acs_at[TOPO_PCI];
	char reason[TOPO_REASON];
};

void topo_compare(const struct topo_place *a, const struct topo_place *b, struct topo_path *path);

#endif
