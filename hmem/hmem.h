/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory interfaces: how bytes of each kind of memory are reached.  One struct hmem_ops per
 * interface; host memory is the only one so far, and fi_getinfo offers no FI_HMEM.
 */
#ifndef HMEM_H
#define HMEM_H

#include <stdbool.h>
#include <stddef.h>

struct hmem_ops {
	/* Copy between two places that this interface reaches, which may overlap.  0 or -FI_EFAULT. */
	int (*copy)(void *dst, const void *src, size_t len);
	/* Is every page of the range there, and writable if asked?  0 or -FI_EFAULT.  len > 0. */
	int (*probe)(const void *addr, size_t len, bool write);
};

extern const struct hmem_ops hmem_system;

#endif
