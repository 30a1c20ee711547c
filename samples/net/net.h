/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shape in which collective libraries take a network: a table of functions in a shared object, which they load.
 * This one has of it what memory registration is about, named as in NCCL's net API of version 8 (regMr, regMrDmaBuf,
 * deregMr, getDeviceMr, with the same arguments), and as much more as a caller needs to move a byte.
 *
 * Functions return 0 or a negative FI_E code, and have then said why on standard error.  All are thread safe, apart
 * from open and close.
 */
#ifndef SAMPLES_NET_H
#define SAMPLES_NET_H

#include <stddef.h>
#include <stdint.h>

#define NET_SYMBOL "hmreg_net_v1" /* of the table in the shared object */

/* Kinds of pointers: what regMr takes as type, and which of them a device serves. */
#define NET_PTR_HOST   1
#define NET_PTR_CUDA   2
#define NET_PTR_DMABUF 4

struct net_properties {
	char name[64];		/* of the NIC domain */
	int pointers;		/* NET_PTR_ bits */
	int registers_globally; /* a handle serves every connection of its comm */
};

/* What a peer has to know of registered memory: plain bytes. */
struct net_remote {
	unsigned char bytes[128];
};

/* What a kernel on the device needs to name the memory in requests of its own: plain bytes, for its arguments. */
struct net_device_mr {
	size_t len;
	unsigned char desc[64];
};

struct net_counts {
	uint64_t bases, parts;	 /* registrations that pin memory, and what is derived from them */
	uint64_t bytes;		 /* of the bases */
	uint64_t domain_regions; /* as the library counts: all of this comm's */
};

struct net_api {
	const char *name;
	/* domain NULL: all there are. */
	int (*init)(const char *domain);
	void (*fini)(void); /* every comm is closed */
	int (*devices)(int *count);
	int (*getProperties)(int device, struct net_properties *properties);
	int (*open)(int device, void **comm);
	int (*close)(void *comm); /* -FI_EBUSY: something is registered */
	/* To one peer: its address, as address gives it there. */
	int (*address)(void *comm, void *buf, size_t *len);
	int (*connect)(void *comm, const void *address, size_t len);

	int (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
	/* data is at offset of the dma-buf; fd may be closed when all handles of this memory have been given back. */
	int (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
			   void **mhandle);
	int (*deregMr)(void *comm, void *mhandle);
	/* *device_mr is valid until deregMr.  -FI_EOPNOTSUPP: no device starts transfers here. */
	int (*getDeviceMr)(void *comm, void *mhandle, void **device_mr);

	int (*share)(void *comm, void *mhandle, struct net_remote *remote);
	/* Write into what the peer has shared, and wait.  One at a time for each comm. */
	int (*put)(void *comm, void *mhandle, const void *data, size_t size,
		   const struct net_remote *remote, uint64_t offset);
	int (*counts)(void *comm, struct net_counts *counts);
};

#endif
