/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of each kind, made by a vendor's own calls, on the emulated drivers and on real ones alike.
 * make_<vendor>.c has one struct maker; what a driver cannot make is skipped with the reason.
 */
#ifndef HMEM_MAKER_H
#define HMEM_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>

#include "tests/drivers/emu_accel.h"

enum make {
	MAKE_DEVICE,	   /* plain device memory */
	MAKE_HOST,	   /* of the driver's host allocator */
	MAKE_REGISTERED,   /* the program's own host memory, registered with the driver */
	MAKE_MANAGED,	   /* managed or shared */
	MAKE_VMM,	   /* two allocations mapped side by side; the border is at len / 2 */
	MAKE_VMM_NO_RDMA,  /* mapped memory without what NICs need */
	MAKE_VMM_HOST,	   /* mapped memory on the host */
	MAKE_POOL,	   /* stream-ordered pool, exportable where pools can be */
	MAKE_POOL_PRIVATE, /* stream-ordered pool, not exportable */
	MAKE_IMPORTED,	   /* another process's or another interface's */
	MAKE_PRIVATE,	   /* device memory that was not allocated for export */
	MAKE_KINDS
};

struct made {
	enum make kind;
	int device; /* as fi_mr_attr.device */
	void *addr;
	size_t len;
	void *own[4]; /* the maker's */
};

struct maker {
	const char *name; /* as hmem_ops.name */
	enum fi_hmem_iface iface;
	/* Load the driver and start it; NULL, or why this machine has none.  Once. */
	const char *(*open)(void);
	size_t (*devices)(void);
	int (*device)(size_t index); /* its number as fi_mr_attr.device */
	/* NULL, or why the driver cannot make this kind. */
	const char *(*cannot)(enum make kind, int device);
	/* len is rounded up as the driver needs it. 0, or the driver's error. */
	int (*make)(enum make kind, int device, size_t len, struct made *made);
	void (*drop)(struct made *made);
	/* Other allocations at the addresses of a MAKE_VMM.  0, or the driver's error.  NULL: not made here. */
	int (*remap)(struct made *made);
	/* By the vendor's own copy calls.  0, or the driver's error. */
	int (*write)(const struct made *made, size_t offset, const void *from, size_t len);
	int (*read)(const struct made *made, size_t offset, void *to, size_t len);
	/* The emulated driver's hooks; NULL with a real one. */
	const struct emu_accel_hooks *(*hooks)(void);
};

extern const struct maker make_cuda, make_rocr, make_ze, make_neuron, make_synapseai;

/* The maker of an interface's name, or NULL. */
const struct maker *maker_of(const char *name);
const char *make_name(enum make kind);
/* Memory of every kind and copies to it, so that what the driver and the library make once and keep is there. */
void maker_warm_up(const struct maker *maker);

#endif
