/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A buffer to register: the host's, an accelerator's, or a dma-buf, read and written by copies whatever it is.
 * Functions return 0 or a negative FI_E code and have then said why on standard error.
 */
#ifndef NET_MEMORY_H
#define NET_MEMORY_H

#include <rdma/fi_ext_hmreg.h>

#include "../common.h"
#include "../dmabuf_host.h"

struct net_memory {
	struct fid_fabric *fabric; /* not owned */
	struct hmreg_hmem_ops *ops;
	struct sample_place place; /* as fi_mr_attr names it */
	int fd;			   /* owned; -1: it is not registered by a descriptor */
	struct dmabuf_host host;   /* owned, of kind "dmabuf" */
	void *addr;		   /* owned */
	size_t len;
};

#define NET_MEMORY_KINDS "host, memfd, dmabuf, cuda, rocr, ze, neuron or synapseai"

/*
 * kind: one of those.  memfd is a file in memory, which the software NIC takes for a dma-buf; dmabuf is a real one.
 * -FI_EINVAL: no such kind; -FI_ENODEV: nothing here makes such memory.
 */
int net_memory_open(struct fid_fabric *fabric, const char *kind, size_t len,
		    struct net_memory *memory);
void net_memory_close(struct net_memory *memory);

int net_memory_write(struct net_memory *memory, size_t at, const void *from, size_t len);
int net_memory_read(struct net_memory *memory, size_t at, void *to, size_t len);

#endif
