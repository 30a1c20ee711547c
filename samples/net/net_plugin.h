/* SPDX-License-Identifier: BSD-2-Clause */
/* The plug-in's own objects: instance, NIC, connection.  Functions return 0 or a negative FI_E code. */
#ifndef NET_PLUGIN_H
#define NET_PLUGIN_H

#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_xpu.h>

#include "net_regs.h"

#define NET_DEVICES 16
#define NET_RING    32 /* requests of a connection at a time */

struct net_nic {
	struct fi_info *info; /* owned; of fi_getinfo */
	char pci[32];
	/* Once somebody uses it; owned.  No endpoint is in it. */
	struct sample_end end;
	struct hmreg_hmem_ops *hmem;
	struct fid_xpu_ctx *xpu;     /* NULL: no calls for kernels */
	size_t desc_size, addr_size; /* of these */
	struct net_regs regs;	     /* not with FI_MR_ENDPOINT */
	atomic_uint_least64_t next_key;
	size_t users; /* connections, under the instance's lock */
};

struct net_instance {
	void (*log)(const char *line);
	size_t slices;
	pthread_mutex_t lock; /* opening and closing of NICs; no other lock is taken under it */
	struct net_nic nics[NET_DEVICES];
	int count;
};

/* What sides tell each other. */
struct net_message {
	enum {
		NET_HELLO = 1,
		NET_OFFER,
		NET_DONE
	} kind;
	uint32_t slot; /* of the receiver's request */
	int32_t tag, error;
	uint64_t size;
	struct sample_key key; /* NET_OFFER */
	uint64_t address[8];   /* NET_HELLO: the sender's */
};

/* What a completion is of. */
struct net_op {
	enum {
		NET_OP_TAKEN,
		NET_OP_SENT,
		NET_OP_WRITTEN
	} kind;
	uint32_t slot;
};

struct net_request {
	struct net_comm *comm;
	bool busy;
	enum {
		NET_WAITS,
		NET_WRITES,
		NET_ANSWERS,
		NET_ENDED
	} state;	     /* of a sender's */
	bool sent, answered; /* a receiver's */
	uint64_t turn;
	uintptr_t data;
	size_t size, moved;
	int tag, error;
	struct net_mr *mr;
	struct net_message offer; /* a sender's: what it was given */
	uint64_t key;
};

struct net_comm {
	struct net_instance *instance;
	struct net_nic *nic;
	enum {
		NET_LISTENS,
		NET_SENDS,
		NET_RECEIVES
	} kind;
	struct sample_end end;	      /* its own endpoint, vector and queue in the NIC's domain */
	struct net_regs own, *regs;   /* with FI_MR_ENDPOINT its own, else the NIC's */
	pthread_mutex_t lock;	      /* all below */
	struct net_message *messages; /* owned: NET_RING + 1 to send, as many to receive */
	struct fid_mr *messages_mr;   /* owned */
	struct net_op ops[3][NET_RING + 1];
	struct net_request requests[NET_RING];
	struct net_message offers[NET_RING]; /* a sender's: in the order of their coming */
	size_t offered;
	uint64_t turn;
	bool accepted;
	/* A sender's, for kernels: */
	struct sample_end xpu_end;
	struct fid_cntr *xpu_sent;
	struct net_device_comm device;
};

/* net_nics.c */
int net_nics_find(struct net_instance *instance, const char *domain);
void net_nics_forget(struct net_instance *instance);
int net_nic_use(struct net_instance *instance, int dev, struct net_nic **nic);
/* Handles of the NIC's are open, and only one connection is left that could close them. */
bool net_nic_busy(struct net_instance *instance, struct net_nic *nic);
int net_nic_leave(struct net_instance *instance, struct net_nic *nic);

/* net_comm.c.  Those with a comm that transfers take its lock. */
int net_comm_open(struct net_instance *instance, int dev, int kind, struct net_comm **comm);
int net_comm_close(struct net_comm *comm);
int net_comm_hello(struct net_comm *comm, const void *listener);
/* -FI_EAGAIN: nobody has come so far. */
int net_comm_accept(struct net_comm *comm);
/* -FI_EAGAIN: no room. */
int net_comm_begin(struct net_comm *comm, uintptr_t data, size_t size, int tag, struct net_mr *mr,
		   struct net_request **request);
/* -FI_EAGAIN: not yet. */
int net_comm_test(struct net_request *request, size_t *size);

/* net_xpu.c */
int net_xpu_open(struct net_nic *nic);
int net_xpu_connect(struct net_comm *comm, const void *listener);
int net_xpu_disconnect(struct net_comm *comm);
int net_xpu_region(struct net_comm *comm, struct net_mr *mr);

#endif
