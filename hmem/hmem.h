/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory interfaces: how bytes of each kind of memory are reached.  One struct hmem_ops per
 * interface, found through one registry.  Host memory is the only entry so far; a fabric that asks
 * for FI_HMEM is refused by fi_getinfo until the accelerators' entries exist.
 */
#ifndef HMEM_H
#define HMEM_H

#include <stddef.h>

#include <rdma/fi_domain.h>

struct hmem_ops {
	enum fi_hmem_iface iface;
	const char *name;
	/* Copy between two places that this interface reaches, which may overlap.  0 or -FI_EFAULT. */
	int (*copy)(void *dst, const void *src, size_t len);
	/* Is every page of the range there?  0 or -FI_EFAULT.  len > 0. */
	int (*probe)(const void *addr, size_t len);
};

extern const struct hmem_ops hmem_system;

/* The interface's entry, or NULL when this build knows none. */
const struct hmem_ops *hmem_find(enum fi_hmem_iface iface);

#endif
