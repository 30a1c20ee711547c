/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shape of a plug-in by which a collective library reaches a network: a table of calls, found by name in a
 * shared object.  Written for these samples.  Names, their order and that of arguments are those of NCCL's net API,
 * version 8, for regMr, regMrDmaBuf, deregMr and getDeviceMr; what is around them is kept to what a program needs to
 * try these, with a context for each instance, as later versions have.  It is not binary compatible with any of them:
 * a real plug-in takes its vendor's header and the functions behind this one.
 */
#ifndef SAMPLES_NET_H
#define SAMPLES_NET_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_xpu_device.h>

#define NET_PLUGIN_SYMBOL "hmreg_net_plugin"
#define NET_HANDLE_SIZE	  128 /* of listen, which the library sends to who connects */

/* What calls return. */
enum net_result {
	NET_OK = 0,
	NET_SYSTEM_ERROR = 2,	  /* the NIC, its driver or the machine */
	NET_INVALID_ARGUMENT = 4, /* a value that cannot be right */
	NET_INVALID_USAGE = 5,	  /* a call that cannot be made now, or not on this NIC */
	NET_REMOTE_ERROR = 6,	  /* the peer */
};

/* type of regMr; net_properties.ptr_support has them as bits. */
enum net_pointer {
	NET_PTR_HOST = 1,
	NET_PTR_CUDA = 2,   /* of an accelerator, whichever it is */
	NET_PTR_DMABUF = 4, /* ptr_support alone: regMrDmaBuf is there */
};

struct net_properties {
	const char *name; /* of the NIC */
	const char *pci_path;
	int ptr_support;
	int reg_is_global; /* what one connection registered, all of this NIC may use */
	int max_recvs;	   /* of one irecv */
	int device_calls;  /* connect gives kernels an endpoint, and getDeviceMr works */
};

struct net_config {
	const char *domain; /* the only NIC that devices counts, or NULL: all */
	size_t slices;	    /* of one buffer, that are expected at a time; 0: unknown */
};

/* What registration cost so far, for whoever wants to know. */
struct net_figures {
	uint64_t registered; /* memory pinned, once each */
	uint64_t derived;    /* sub-MRs of what was registered */
	uint64_t shared; /* slices with the key of what they lie in, where sub-MRs would be pinned again */
	uint64_t open;	 /* handles */
	uint64_t pinned; /* registrations not closed */
};

#define NET_WORDS 8
/* What a kernel needs to put: the connection, and each side's memory (xpu/link.h has the same in one). */
struct net_device_comm {
	struct fid_xpu_ep ep;
	struct fid_xpu_cntr sent;
	uint64_t peer[NET_WORDS];
};
struct net_device_mr {
	uint64_t desc[NET_WORDS]; /* for own memory */
	uint64_t address;	  /* of its first byte, in own calls */
	uint64_t size;
	uint64_t remote_address,
		remote_key; /* for the peer's calls; the key is 0 where it is raw */
};

struct net_plugin {
	const char *name;
	/* log may be NULL: standard error.  It gets one line, without its end, for each call that fails. */
	enum net_result (*init)(void **ctx, const struct net_config *config,
				void (*log)(const char *line));
	enum net_result (*devices)(void *ctx, int *count);
	enum net_result (*getProperties)(void *ctx, int dev, struct net_properties *props);
	/* handle: NET_HANDLE_SIZE bytes.  A listener takes one connection. */
	enum net_result (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	/* device may be NULL; else it gets what kernels take, or NULL where the NIC has no such calls. */
	enum net_result (*connect)(void *ctx, int dev, const void *handle, void **send_comm,
				   struct net_device_comm **device);
	/* *recv_comm is NULL as long as nobody has connected: call again. */
	enum net_result (*accept)(void *listen_comm, void **recv_comm);
	enum net_result (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
	/* fd stays the caller's; data is where offset of it is mapped, as peers and kernels name it. */
	enum net_result (*regMrDmaBuf)(void *comm, void *data, size_t size, int type,
				       uint64_t offset, int fd, void **mhandle);
	enum net_result (*deregMr)(void *comm, void *mhandle);
	/* *request is NULL if there is no room for it now: call again. */
	enum net_result (*isend)(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				 void **request);
	enum net_result (*irecv)(void *recv_comm, void *data, size_t size, int tag, void *mhandle,
				 void **request);
	/* A request that is done is gone. */
	enum net_result (*test)(void *request, int *done, size_t *size);
	enum net_result (*closeComm)(void *comm); /* of any kind */
	/* In memory of the host's: 96 bytes that go to the kernel.  Valid as long as mhandle. */
	enum net_result (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);
	/* Not of the field's: */
	enum net_result (*figures)(void *comm, struct net_figures *figures);
	enum net_result (*finalize)(void *ctx);
};

#endif
