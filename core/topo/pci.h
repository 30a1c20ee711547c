/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PCI functions in sysfs.  The directory of a function lies below those of the bridges above it, so that
 * its path is the tree's branch to it: .../pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:00.1 is a function
 * below one bridge (3b) below another (3a) below a host bridge.  The whole of what is asked here is in such
 * paths and in files beside them; a library for it (hwloc has one) would be a dependency at run time for
 * a page of code.  tests/topology compares the two.
 */
#ifndef HM_TOPO_PCI_H
#define HM_TOPO_PCI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <rdma/fi_ext_hmreg.h>

#define PCI_BRIDGES_MAX 16

/* The decimal number that text begins with, and where it ends; -1: it begins with none, or it is no int. */
int pci_number(const char *text, const char **end);

/* A function, as the path of its directory; parts are lengths of that path. */
struct pci_chain {
	char path[PATH_MAX];
	size_t host;			  /* up to the host bridge; 0: there is none */
	size_t ends[PCI_BRIDGES_MAX + 1]; /* up to each PCI function, outermost first */
	size_t count;			  /* of these; the last one is the function itself */
};

/*
 * What a path below sysfs's devices/ leads through; it is cut after its last function.  False: none, or one
 * below more than PCI_BRIDGES_MAX bridges, which leaves count above that.
 */
bool pci_chain_of(const char *path, struct pci_chain *chain);
/* The same of a symbolic link, or of a directory. */
bool pci_chain_at(const char *link, struct pci_chain *chain);
/* The name of part i of the chain, as bytes of its path and their number. */
const char *pci_chain_name(const struct pci_chain *chain, size_t i, int *len);

/* "0000:3b:00.1": four or more digits, two, two, one, of any case. */
bool pci_is_address(const char *name, size_t len);

/* Access control of the function that is part i: does it send its neighbours' transfers to the root? */
enum hmreg_acs pci_acs(const struct pci_chain *chain, size_t i);
#define PCI_IOMMU_TYPE 16
/* The function's IOMMU group, -1 without one, and how it translates in the kernel's words, "" not told. */
int pci_iommu(const struct pci_chain *chain, char type[PCI_IOMMU_TYPE]);
/* What part i, which is above another, is: as its capability says where that is readable, else by its place. */
enum hmreg_bridge_kind pci_bridge_kind(const struct pci_chain *chain, size_t i);

#endif
