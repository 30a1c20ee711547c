/* SPDX-License-Identifier: BSD-2-Clause */
/* Why the library refused: read with rdma/fi_ext_hmreg.h, whose hmreg_fabric_ops tells it. */
#ifndef RDMA_FI_EXT_HMREG_CAUSE_H
#define RDMA_FI_EXT_HMREG_CAUSE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The cause of a refusal: of a registration, of a device that is not listed, of a driver that does not start.
 * hmreg-check(1) has a remedy for each.  Numbers stay what they are.
 */
enum hmreg_cause {
	HMREG_CAUSE_NONE = 0,
	/* The driver of a memory interface. */
	HMREG_CAUSE_IFACE_OFF = 10,	 /* left out by FI_HMEM */
	HMREG_CAUSE_LIBRARY_ABSENT = 11, /* its library is not found */
	HMREG_CAUSE_LIBRARY_BROKEN = 12, /* found, but it cannot be loaded */
	HMREG_CAUSE_LIBRARY_OLD = 13,	 /* a function is missing in it */
	HMREG_CAUSE_LIBRARY_STUB = 14,	 /* a stand-in to link programs to */
	HMREG_CAUSE_MODULE_ABSENT = 15, /* it does not start, and its kernel module is not loaded */
	HMREG_CAUSE_MODULE_MISMATCH = 16,   /* library and kernel module are of two versions */
	HMREG_CAUSE_DEVICE_PERMISSION = 17, /* this user may not use the device */
	HMREG_CAUSE_DRIVER_FAILED = 18,	    /* it does not start */
	HMREG_CAUSE_DEVICE_NONE = 19,	    /* it knows no device */
	HMREG_CAUSE_DEVICE_UNKNOWN = 20,    /* it has no device of this number */
	HMREG_CAUSE_DRIVER_CALL = 21,	    /* a call of the driver fails */
	HMREG_CAUSE_DEVICE_MEMORY = 22,	    /* the device has no memory left */
	HMREG_CAUSE_NO_SUCH_MEMORY = 23,    /* the interface allocates no memory of this kind */
	/* What the memory is. */
	HMREG_CAUSE_RANGE_NONE = 30,	   /* of length 0, or beyond the address space */
	HMREG_CAUSE_RANGE_ENDS = 31,	   /* longer than its allocation */
	HMREG_CAUSE_RANGE_MIXED = 32,	   /* begins in host memory and ends in a device's */
	HMREG_CAUSE_OWNER_OTHER = 33,	   /* not of the interface and device that were named */
	HMREG_CAUSE_MEMORY_FREED = 34,	   /* said to be a device's, and nobody's now */
	HMREG_CAUSE_MEMORY_UNKNOWN = 35,   /* the driver does not say what it is */
	HMREG_CAUSE_MEMORY_IMPORTED = 36,  /* another process's, device registers, graphics */
	HMREG_CAUSE_MEMORY_MANAGED = 37,   /* moves between host and device */
	HMREG_CAUSE_MEMORY_NO_RDMA = 38,   /* made without the attribute that lets NICs reach it */
	HMREG_CAUSE_MEMORY_NO_EXPORT = 39, /* not made for export */
	HMREG_CAUSE_MEMORY_POOL = 40,	   /* of a pool that cannot be exported */
	HMREG_CAUSE_MEMORY_UNMAPPED = 41,  /* no memory there */
	HMREG_CAUSE_MEMORY_READ_ONLY =
		42, /* mapped for reading alone, and rights that write asked for */
	HMREG_CAUSE_MEMORY_NO_ACCESS = 43, /* mapped without the right to read */
	HMREG_CAUSE_MEMORY_OF_DEVICE = 44, /* a device's mapping, without pages to pin */
	HMREG_CAUSE_MEMORY_UNPINNABLE =
		45, /* mapped, but its pages cannot be had: of a file that ended */
	/* Its export as a dma-buf. */
	HMREG_CAUSE_EXPORT_OLD = 50,	     /* the driver is older than dma-bufs */
	HMREG_CAUSE_EXPORT_UNSUPPORTED = 51, /* the device says that it exports nothing */
	HMREG_CAUSE_EXPORT_REFUSED = 52,     /* the driver refuses this memory */
	HMREG_CAUSE_EXPORT_FAILED = 53,	     /* the driver's call fails */
	HMREG_CAUSE_P2P_OFF = 54,	     /* FI_HMEM_DISABLE_P2P forbids it */
	HMREG_CAUSE_NO_WAY = 55,      /* the NIC takes neither dma-bufs nor addresses of devices */
	HMREG_CAUSE_WAYS_FAILED = 56, /* every way has failed before, for good */
	/* The NIC. */
	HMREG_CAUSE_NIC_UNKNOWN = 70,	 /* no device of this name */
	HMREG_CAUSE_NIC_LEFT_OUT = 71,	 /* left out by a variable */
	HMREG_CAUSE_NIC_LIBRARY = 72,	 /* libibverbs or librdmacm is missing, or too old */
	HMREG_CAUSE_NIC_MODULE = 73,	 /* ib_uverbs is not loaded */
	HMREG_CAUSE_NIC_FILE = 74,	 /* its file is not there */
	HMREG_CAUSE_NIC_PERMISSION = 75, /* its file may not be opened */
	HMREG_CAUSE_NIC_PROVIDER = 76,	 /* libibverbs has no provider for it */
	HMREG_CAUSE_NIC_LATE = 77,	 /* it appeared after the process had looked */
	HMREG_CAUSE_NIC_NO_ANSWER = 78,	 /* it cannot be opened, or does not say what it is */
	HMREG_CAUSE_NIC_PORT_DOWN = 79,
	HMREG_CAUSE_NIC_NO_PORT = 80,	     /* it has no port of this number */
	HMREG_CAUSE_NIC_NO_ADDRESS = 81,     /* no IP address, so no endpoints */
	HMREG_CAUSE_NIC_NO_CONNECTIONS = 82, /* no reliable connections, so no endpoints */
	HMREG_CAUSE_NIC_CM = 83,	     /* rdma_cm does not work */
	HMREG_CAUSE_NIC_CM_PERMISSION = 84,  /* /dev/infiniband/rdma_cm may not be opened */
	HMREG_CAUSE_NIC_FILES = 85,	     /* too many open files */
	HMREG_CAUSE_NIC_PD = 86,	     /* it gives no protection domain */
	HMREG_CAUSE_NIC_GONE = 87,	     /* it was removed, or has failed */
	/* Registration. */
	HMREG_CAUSE_MEMLOCK = 100,	 /* the limit of locked memory is reached */
	HMREG_CAUSE_MEMLOCK_ZERO = 101,	 /* and is 0 */
	HMREG_CAUSE_REGIONS_FULL = 102,	 /* the device's or the domain's table of regions is full */
	HMREG_CAUSE_NIC_MEMORY = 103,	 /* kernel memory or translation entries are short */
	HMREG_CAUSE_NIC_KEYS = 104,	 /* keys or translation entries are used up */
	HMREG_CAUSE_CGROUP = 105,	 /* the control group's limit of RDMA objects */
	HMREG_CAUSE_OPEN_FILES = 106,	 /* RLIMIT_NOFILE */
	HMREG_CAUSE_FORBIDDEN = 107,	 /* the kernel forbids it to this process */
	HMREG_CAUSE_TOO_LONG = 108,	 /* longer than one region can be */
	HMREG_CAUSE_RIGHTS = 109,	 /* rights that the device or its driver lacks */
	HMREG_CAUSE_ALIGNMENT = 110,	 /* address and device address differ within the page */
	HMREG_CAUSE_RANGE_REFUSED = 111, /* the device refuses the range or the rights */
	HMREG_CAUSE_KEY_IN_USE = 112,	 /* the key asked for is another region's */
	HMREG_CAUSE_DMABUF_NO_FILE = 113,     /* no open descriptor */
	HMREG_CAUSE_DMABUF_OTHER_FILE = 114,  /* a descriptor of something else */
	HMREG_CAUSE_DMABUF_RANGE = 115,	      /* beyond the dma-buf's end */
	HMREG_CAUSE_DMABUF_RIGHTS = 116,      /* the dma-buf does not grant the rights */
	HMREG_CAUSE_DMABUF_UNSUPPORTED = 117, /* the NIC's driver imports none */
	HMREG_CAUSE_DMABUF_NO_ROOM = 118,     /* PCI window, IOMMU space or translation entries */
	HMREG_CAUSE_DMABUF_REFUSED = 119,     /* exporter and NIC do not agree: IOMMU, ACS */
	HMREG_CAUSE_NO_REASON = 120,	      /* the driver gives no error number */
	HMREG_CAUSE_UNEXPLAINED = 121,	      /* an error number that means nothing known here */
	HMREG_CAUSE_NIC_BUSY = 122	      /* the driver does not end an object that is in use */
};

/* One refusal.  size is set by the caller to sizeof(struct hmreg_refusal). */
struct hmreg_refusal {
	size_t size;
	enum hmreg_cause cause;
	char text[640]; /* what the log says of it, at level warn */
};

#ifdef __cplusplus
}
#endif

#endif
