/* SPDX-License-Identifier: BSD-2-Clause */
/* A part of <rdma/fi_ext_hmreg.h>: one buffer registered with several NICs by one call. */
#ifndef RDMA_FI_EXT_HMREG_MULTI_H
#define RDMA_FI_EXT_HMREG_MULTI_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Operations of a domain: fi_open_ops(&domain->fid, HMREG_MULTI_OPS, 0, (void **) &ops, NULL), which are about
 * any set of domains of this library, of one fabric or of several.  The table is constant and lives as long as
 * the process.  Thread safe, apart from closing an object in use.
 */
#define HMREG_MULTI_OPS "hmreg_multi_ops"

#define HMREG_CLASS_MULTI 0x686d6d72 /* hmreg_multi.fid.fclass */

/*
 * A buffer, or a part of one, registered with several domains; made by reg and sub, closed by fi_close(3) of
 * &multi->fid, which closes all its regions.  While one of them is in use (a part that sub made of it)
 * that is -FI_EBUSY and nothing is closed.  Where a device's driver refuses to end a region, the driver's
 * error is returned, the others are closed, and closing may be tried again.
 *
 * The regions are those of fi_mr(3), and fi_mr_key, fi_mr_desc, fi_mr_raw_attr, fi_mr_bind, fi_mr_enable,
 * fi_mr_refresh are for each of them; fi_close of one alone is -FI_EBUSY.
 */
struct hmreg_multi {
	struct fid fid;
	size_t count;
	/* count regions, in the order of the domains; NULL: closed, where a close has failed half way */
	struct fid_mr *const *mr;
};

/*
 * How a call is made, and what became of it.  size is set by the caller to sizeof(struct hmreg_multi_call),
 * the others of the first part to 0 where they are not needed.
 */
struct hmreg_multi_call {
	size_t size;
	/*
	 * Most threads, the caller's own included, that NICs and pages are divided among.  0: the library's
	 * choice: NICs one after the other; and up to HMREG_MULTI_THREADS for missing pages of host memory of
	 * HMREG_MULTI_SIZE bytes and more on NICs that pin it.
	 */
	unsigned int threads;
	/*
	 * Not NULL: as soon as it is other than 0 nothing more is begun, and the call ends with -FI_ECANCELED.
	 * Another thread or a signal handler may set it at any time.
	 */
	const int *stop;

	/* ---- filled by a call that failed ---- */
	size_t refused;	  /* which domain, by its index; count: none of them */
	char reason[256]; /* why, as in the log */

	/* ---- filled by every call ---- */
	unsigned int used; /* threads, at most at a time */
};

struct hmreg_multi_ops {
	size_t size;
	/*
	 * Register what attr says with each of count domains, as fi_mr_regattr(3) with these flags would with
	 * one, or with none: where a domain refuses, what was made is closed again, *multi is not written, and
	 * the first refusal is returned, with one line in the log that names the domain.  Memory of an
	 * accelerator is exported once for all NICs.  base_mr is NULL; requested_key is asked for in every
	 * domain.  No FI_MR_COMPLETE event comes.  call may be NULL.
	 * The errors of fi_mr_regattr; -FI_EINVAL: no domains, a base_mr; -FI_ENOMEM; -FI_ECANCELED.
	 */
	int (*reg)(struct fid_domain *const *domains, size_t count, const struct fi_mr_attr *attr,
		   uint64_t flags, struct hmreg_multi_call *call, struct hmreg_multi **multi);
	/*
	 * The same of [addr, addr + len), which lies inside one buffer of base: a sub-MR of each of its regions,
	 * which shares what is pinned, with keys and rights of its own.  base cannot be closed before it.
	 * -FI_EBADFLAGS: HMREG_MR_CACHE or FI_MR_DMABUF; -FI_EINVAL: not inside, or base was registered with
	 * HMREG_MR_CACHE.
	 */
	int (*sub)(struct hmreg_multi *base, const void *addr, size_t len, uint64_t access,
		   uint64_t requested_key, uint64_t flags, struct hmreg_multi_call *call,
		   struct hmreg_multi **multi);
	/*
	 * fi_mr_key and fi_mr_desc of all, into arrays of multi->count; either may be NULL.  A key of its own
	 * form (FI_MR_RAW) is FI_KEY_NOTAVAIL: fi_mr_raw_attr of multi->mr[i] gives it.  -FI_EINVAL.
	 */
	int (*keys)(const struct hmreg_multi *multi, uint64_t *keys, void **descs);
};

#ifdef __cplusplus
}
#endif

#endif
