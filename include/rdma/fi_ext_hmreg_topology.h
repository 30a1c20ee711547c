/* SPDX-License-Identifier: BSD-2-Clause */
/* A part of <rdma/fi_ext_hmreg.h>: which NIC is near which memory. */
#ifndef RDMA_FI_EXT_HMREG_TOPOLOGY_H
#define RDMA_FI_EXT_HMREG_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_ext_hmreg.h> /* enum hmreg_path */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Which NIC is near which memory: fi_open_ops(&fabric->fid, HMREG_TOPOLOGY_OPS, 0, (void **) &ops, NULL) of
 * any fabric.  The kernel's sysfs is read at each call, some milliseconds on a large machine: ask once for a
 * device, not for a buffer.  All are thread safe and change nothing but what they fill.
 */
#define HMREG_TOPOLOGY_OPS "hmreg_topology_ops"

/* What transfers between an accelerator, or host memory, and a NIC pass; nearest first. */
enum hmreg_distance {
	HMREG_DISTANCE_DEVICE = 1,  /* nothing: both are functions of one device */
	HMREG_DISTANCE_SWITCH,	    /* one PCIe switch */
	HMREG_DISTANCE_ROOT_PORT,   /* several switches or other bridges below one root port */
	HMREG_DISTANCE_HOST_BRIDGE, /* a host bridge, between two of its ports */
	HMREG_DISTANCE_NODE, /* host bridges of one NUMA node; of host memory: it is of the NIC's node */
	HMREG_DISTANCE_SOCKET,	/* two NUMA nodes of one socket */
	HMREG_DISTANCE_SYSTEM,	/* two sockets */
	HMREG_DISTANCE_UNKNOWN, /* reason says why it is not known */
	HMREG_DISTANCE_SOFTWARE /* nothing that counts: the NIC is the process itself */
};

/*
 * Access control services of bridges: where they redirect, transfers from one device to another go up to the
 * root instead of straight across the switch, which costs what a greater distance costs.
 */
enum hmreg_acs {
	HMREG_ACS_NONE = 0,   /* no bridge in question */
	HMREG_ACS_OFF,	      /* they do not redirect */
	HMREG_ACS_REDIRECTS,  /* one does */
	HMREG_ACS_UNREADABLE, /* the kernel shows it to root alone */
};

enum hmreg_bridge_kind {
	HMREG_BRIDGE_HOST = 1,	/* a root complex, or a part of one */
	HMREG_BRIDGE_ROOT_PORT, /* */
	HMREG_BRIDGE_SWITCH,	/* upstream port: the switch as a whole */
	HMREG_BRIDGE_PORT,	/* one of a switch's downstream ports */
	HMREG_BRIDGE_OTHER	/* to conventional PCI, or something else */
};

/* A NIC for some memory. */
struct hmreg_nic_choice {
	size_t size;
	const struct fi_info *info; /* in the list that was given: the first of this domain name */
	enum hmreg_distance distance;
	enum hmreg_path
		path; /* how it reaches the memory, as far as is known without trying; 0: not at all */
	uint32_t bridges;	/* PCI bridges in between; 0 also where distance is not by PCI */
	uint32_t numa_distance; /* as the firmware tells it, 10 is a node's own; 0: not told */
	uint64_t bits_per_s;	/* speed of the NIC's link; 0: not told */
	enum hmreg_acs acs;	/* of the bridges in between */
	char acs_at[16];	/* with HMREG_ACS_REDIRECTS, the first bridge that does */
	char reason[128]; /* of HMREG_DISTANCE_UNKNOWN; else what a reader should know of it, or "" */
};

/* A bridge above accelerators and NICs. */
struct hmreg_bridge {
	size_t size;
	char name[16]; /* "0000:3a:00.0"; of a host bridge "pci0000:3a" */
	enum hmreg_bridge_kind kind;
	size_t parent;	    /* index of the bridge above; SIZE_MAX: of a host bridge */
	int node, socket;   /* -1: not told */
	enum hmreg_acs acs; /* its own */
};

/* Where an accelerator or a NIC is. */
struct hmreg_place {
	size_t size;
	char name[64];		    /* "cuda:0"; of a NIC as in fi_domain_attr.name */
	char model[64];		    /* of an accelerator; else "" */
	enum fi_hmem_iface iface;   /* of an accelerator */
	int device;		    /* as fi_mr_attr.device has it */
	const struct fi_info *info; /* of a NIC; in the list that was given.  Else NULL */
	uint64_t bits_per_s;	    /* of a NIC */
	char pci[16];		    /* "": none */
	char physical[16]; /* of a virtual function, its physical function, where sysfs shows it; else "" */
	size_t bridge;	  /* index of the bridge above; SIZE_MAX: not known */
	int node, socket; /* -1: not told */
	int iommu_group;  /* -1: none */
	char iommu[16]; /* how addresses are translated, in the kernel's words: "identity" not at all */
	char reason[128]; /* what of this is not known, and why; "": all is */
};

/* All of it.  Elements are reached by pointers: a newer library's may be longer. */
struct hmreg_topology {
	size_t size;
	size_t bridge_count, accelerator_count, nic_count;
	const struct hmreg_bridge *const *bridges; /* each before those below it */
	const struct hmreg_place *const *accelerators, *const *nics;
	/* nic_count for each accelerator, best first: choices[accelerator * nic_count + rank] */
	const struct hmreg_nic_choice *const *choices;
};

/*
 * The order of NICs.  Those that reach the memory come before those that do not, hardware before software,
 * then the nearer, then the one behind fewer bridges where both are below one root port with the memory, then
 * that of the smaller NUMA distance, then the faster link.  Equal ones are dealt out: all functions of the
 * accelerator's vendor and type for which the same NICs are equal best take turns, by PCI address, whether
 * this process sees them or not; the n-th begins with the n-th NIC, by PCI address and name.  So each of
 * several processes with an accelerator of its own takes another NIC.  Host memory has no turn: it begins
 * with the first.
 */
struct hmreg_topology_ops {
	size_t size;
	/*
	 * The NICs of list (of fi_getinfo) for [addr, addr + len), len > 0, in this order.  out has room for
	 * *count entries, each as long as out[0].size says, which the caller sets; *count becomes the number
	 * filled, at most one for each domain name.  With *count 1, the best.  Host memory is of the NUMA
	 * node that most of its pages are on, as looked at in 16 places; pages that were not touched yet count
	 * for the node of the calling thread.  Loads all drivers of accelerators.
	 * -FI_EINVAL: NULL, no room, a size of 0 or that no header has, or errors of hmreg_hmem_ops.query; -FI_ENODEV: list names no NIC of
	 * this library; -FI_ENOMEM.
	 */
	int (*best)(struct fid *fabric, const struct fi_info *list, const void *addr, size_t len,
		    struct hmreg_nic_choice *out, size_t *count);
	/*
	 * The same for memory that is not allocated yet: of a device, or with FI_HMEM_SYSTEM of the calling
	 * thread's NUMA node.  Also -FI_ENOSYS: no driver, -FI_ENODEV: no such device.
	 */
	int (*best_for)(struct fid *fabric, const struct fi_info *list, enum fi_hmem_iface iface,
			int device, struct hmreg_nic_choice *out, size_t *count);
	/*
	 * Every accelerator, every NIC of list, the bridges above them, and the order of NICs for each
	 * accelerator.  list must outlive *out, which close frees (NULL: nothing).  Loads all drivers.
	 * -FI_EINVAL, -FI_ENODEV, -FI_ENOMEM as above.
	 */
	int (*open)(struct fid *fabric, const struct fi_info *list, struct hmreg_topology **out);
	void (*close)(struct hmreg_topology *topology);
};

#ifdef __cplusplus
}
#endif

#endif
