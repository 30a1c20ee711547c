/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA-bufs: the layer between memory interfaces and NICs.
 *
 *   export.c    memory of an interface as a dma-buf; regions of one allocation share one export
 *   import.c    a caller's dma-buf: what it is, and mapped for the software NIC
 *   identity.c  which dma-buf a file descriptor is, whatever its number
 *
 * File descriptors of exports belong to this layer; a caller's stays the caller's.  Thread safe; no
 * driver or NIC is called under a lock of this layer.
 */
#ifndef DMABUF_H
#define DMABUF_H

#include <pthread.h>

#include "hmem/hmem.h"

/* ---- identity ---- */

/* Two descriptors are of one dma-buf where these are equal. */
struct dmabuf_id {
	uint64_t device, inode;
};
/* size is that of the buffer, 0 where the kernel does not tell.  -FI_EBADF: no open descriptor. */
int dmabuf_identify(int fd, struct dmabuf_id *id, uint64_t *size);

/* ---- export ---- */

/* An export: one fd.  Counted; those of one allocation are found again while somebody holds them. */
struct dmabuf;

/*
 * [addr, addr + len), inside one allocation, as a dma-buf: one that there is already and that holds it,
 * or a new one of the whole allocation.  exact, for where the whole did not do: of just the range, with its
 * ends rounded to what the interface exports.  flags are HMEM_EXPORT_*.  The interface's error, with one log
 * line.
 */
int dmabuf_export(const struct hmem_memory *memory, const void *addr, size_t len, uint32_t flags,
		  bool exact, struct dmabuf **out);
/* The same of an address whose owner is not known yet.  -FI_EOPNOTSUPP, silent: it is the host's. */
int dmabuf_of(const void *addr, size_t len, struct dmabuf **out);
int dmabuf_fd(const struct dmabuf *dmabuf);
/* How many bytes of the export are at addr and behind it; 0: addr is not in it. */
uint64_t dmabuf_reach(const struct dmabuf *dmabuf, const void *addr);
/* Of an address inside the export. */
uint64_t dmabuf_offset(const struct dmabuf *dmabuf, const void *addr);
/*
 * The NIC has it now.  True: the caller keeps its hold, so that the allocation's next region finds the
 * export; false: as many as HMREG_DMABUF_KEEP are kept already, and the hold is given back.
 */
bool dmabuf_keep(struct dmabuf *dmabuf);
/* kept: what dmabuf_keep answered true for. */
void dmabuf_put(struct dmabuf *dmabuf, bool kept);

/*
 * Exports for one call on behalf of several NICs: those that were made since it began are found again by every
 * thread that has joined, even where nothing tells allocations apart or exports are not kept, since the memory
 * stays for the call's time.
 */
struct dmabuf_batch {
	pthread_mutex_t lock; /* held while an export is made, so that nobody makes it twice */
	size_t count;
	struct dmabuf *held[32]; /* counted; what comes after these is not shared so */
};
void dmabuf_batch_begin(struct dmabuf_batch *batch);
void dmabuf_batch_end(struct dmabuf_batch *batch);
/* The calling thread's from now on; NULL: none.  Returns what was it before. */
struct dmabuf_batch *dmabuf_batch_join(struct dmabuf_batch *batch);

struct dmabuf_figures {
	uint64_t exports; /* made so far */
	uint64_t shared;  /* asked for and found */
	uint64_t open;	  /* now, each a file descriptor */
};
void dmabuf_figures(struct dmabuf_figures *figures);

/* The memory that an export of ours is of.  False: fd is none. */
bool dmabuf_origin(int fd, enum fi_hmem_iface *iface, int *device, void **addr, uint64_t *len);

/* ---- import ---- */

/* A part of a dma-buf in this process's memory. */
struct dmabuf_mapping {
	void *at; /* the part's first byte */
	void *map;
	size_t map_len;
};
/* -FI_EOPNOTSUPP: the exporter lets nobody map it; -FI_EACCES: not for writing; -FI_EINVAL, -FI_ENOMEM. */
int dmabuf_map(int fd, uint64_t offset, size_t len, bool write, struct dmabuf_mapping *mapping);
void dmabuf_unmap(const struct dmabuf_mapping *mapping);

#endif
