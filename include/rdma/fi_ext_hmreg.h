/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What hmreg offers beyond the libfabric interface: causes of failed operations, and figures about a
 * domain.  A program that includes this header and runs over another provider gets -FI_ENOSYS from
 * fi_open_ops and can go on.
 */
#ifndef RDMA_FI_EXT_HMREG_H
#define RDMA_FI_EXT_HMREG_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Why an operation failed: prov_errno of struct fi_cq_err_entry.  fi_cq_strerror(3) gives each as a
 * sentence.  The value in parentheses is the err field that comes with it.
 */
enum hmreg_error {
	HMREG_OK = 0,
	HMREG_KEY_UNKNOWN = 1,	  /* no region of the target has this key (FI_ENOKEY) */
	HMREG_KEY_CLOSED = 2,	  /* the region of this key has been closed (FI_ENOKEY) */
	HMREG_OUT_OF_BOUNDS = 3,  /* the range is not inside the region (FI_EINVAL) */
	HMREG_NO_RIGHT = 4,	  /* the region does not grant this access (FI_EACCES) */
	HMREG_DISABLED = 5,	  /* the region is not enabled (FI_EOPBADSTATE) */
	HMREG_KEY_USED_UP = 6,	  /* a single-use key, used already (FI_ENOKEY) */
	HMREG_OTHER_ENDPOINT = 7, /* the region is bound to another endpoint (FI_EACCES) */
	HMREG_KEY_NOT_MAPPED = 8, /* raw keys must be mapped before use (FI_EKEYREJECTED) */
	HMREG_KEY_FORGED = 9,	  /* the raw key's secret part is wrong (FI_EKEYREJECTED) */
	HMREG_PEER_GONE = 10,	  /* no enabled endpoint has this address (FI_EHOSTUNREACH) */
	HMREG_PEER_NO_CAP = 11,	  /* the target endpoint lacks the capability (FI_EOPNOTSUPP) */
	HMREG_LOCAL_REGION = 12,  /* the local region was closed meanwhile (FI_ENOMR) */
	HMREG_TRUNCATED = 13,	  /* message longer than the receive buffer (FI_ETRUNC) */
	HMREG_FAULT = 14,	  /* memory on either side is not mapped (FI_EFAULT) */
	HMREG_CANCELED = 15,	  /* canceled by the application (FI_ECANCELED) */
	HMREG_MISALIGNED = 16,	  /* atomic target not naturally aligned (FI_EINVAL) */
	HMREG_REFRESHING = 17,	  /* the region is being refreshed (FI_EOPBADSTATE) */
	HMREG_PEER_REGION = 18,	  /* the receiver closed its buffer's region (FI_EREMOTEIO) */
	HMREG_ERROR_LAST
};

/* Figures of a domain, a snapshot.  size is set by the caller to sizeof(struct hmreg_domain_stats). */
struct hmreg_domain_stats {
	size_t size;
	uint64_t regions;	   /* regions registered and not closed */
	uint64_t registered_bytes; /* sum of their lengths */
	uint64_t mapped_keys;	   /* raw keys mapped and not unmapped */
	uint64_t endpoints;
};

/*
 * Operations of a domain: fi_open_ops(&domain->fid, HMREG_DOMAIN_OPS, 0, (void **) &ops, NULL).
 * The table is constant and lives as long as the process.  Thread safe.
 */
#define HMREG_DOMAIN_OPS "hmreg_domain_ops"

struct hmreg_domain_ops {
	size_t size;
	/* Fills the fields that stats->size covers.  -FI_EINVAL: NULL, size 0, not a domain. */
	int (*stats)(struct fid *domain, struct hmreg_domain_stats *stats);
};

#ifdef __cplusplus
}
#endif

#endif
