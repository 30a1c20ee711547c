/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registration: attributes -> request -> region -> keys.
 *
 *   attr.c    checks what the caller gave and normalises it into a struct hm_mr_request
 *   memory.c  finds out whose memory it is
 *   auth.c    who may reach it: authorization keys
 *   path.c    chooses how the NIC gets at it: dma-buf, peer memory, or copies
 *   mr.c      makes, binds, enables and closes a region
 *   kept.c    regions that a program wants kept
 *   local.c   regions that the library makes itself, and those that it keeps
 *   refresh.c takes up what is at its addresses now
 *   sub.c     regions that are a part of another one (base_mr)
 *   raw.c     raw keys, both sides
 *
 * core/mr_object.c dresses regions as fids.
 *
 * Concurrency: registrations and closings run on any threads at once; a peer's access holds a
 * reference to the region's node, and close waits for it.  Bind, enable and refresh of one region
 * are the application's to order, as fi_mr(3) has it.
 */
#ifndef HM_MR_H
#define HM_MR_H

#include <assert.h>
#include <pthread.h>

#include "core/base/log.h"
#include "core/base/range.h"
#include "core/base/use.h"
#include "core/nic/nic.h"
#include "hmem/hmem.h"

struct hm_cache_shown;
struct hm_mr_local; /* local.h */

/* What registration needs of a domain; part of struct hm_domain. */
struct hm_mr_domain {
	struct nic_domain *nic;
	uint32_t api_version;
	struct hm_key_table regions; /* elements are struct hm_mr */
	struct hm_key_table mapped;  /* elements are struct nic_mapped_key */
	uint64_t raw_seed[2];	     /* of the unguessable part of raw keys */
	pthread_mutex_t map_lock;    /* protects nic_mapped_key.uses against map and unmap */
	struct hm_mr_learnt *learnt; /* path.c: what failed for good, and is not tried again */
	_Atomic(struct hm_mr *) abandoned; /* by fid.context; hm_mr_abandon */
	pthread_mutex_t learnt_lock;	   /* protects both lists */
	/* The vector behind a fid; NULL: none of this domain.  Core's, for domains of FI_AV_AUTH_KEY. */
	struct nic_av *(*find_av)(const struct hm_mr_domain *domain, struct fid_av *av);
	_Atomic uint64_t refused; /* regions that the NIC did not end when they were closed */
	/* Figures of the registration cache (stats.h), which outlives calls about the domain; NULL: none so far. */
	_Atomic(const struct hm_cache_shown *) shown;
	_Atomic(struct hm_mr_local *) local; /* owned; NULL: not needed yet */
	pthread_mutex_t local_lock;	     /* of who makes it */
};

/*
 * A memory region: an element of hm_mr_domain.regions, so it is never unmapped while the domain
 * lives, and a stale pointer meets an element whose generation tells.  The NIC's private part
 * follows.
 */
struct hm_mr {
	struct fid_mr mr;
	_Atomic uint32_t subs; /* sub-MRs of this region, or HM_MR_CLOSING; sub.c */
	struct nic_region region;
};

/* In hm_mr.subs: the region is not made yet, being closed, or closed, so that it gets no sub-MRs. */
#define HM_MR_CLOSING (UINT32_C(1) << 31)

static_assert(sizeof(struct hm_mr) <= 128, "a region takes two cache lines");
static_assert(sizeof(void *) == sizeof(uint64_t), "a descriptor is a handle as a pointer value");

/*
 * Who is to reach a region, as the attributes have it.  Where av and key_size are 0 the rest is not filled:
 * whoever has the domain's key.
 */
struct hm_mr_auth {
	const uint8_t *key; /* the caller's */
	size_t key_size;
	struct nic_av *av; /* with FI_AV_AUTH_KEY */
	uint64_t peer;	   /* as in struct nic_region_auth */
	uint32_t id;	   /* number of the one key of av; 0: all */
};

/*
 * A checked registration.  nic.iov is the caller's, for the call's time; with FI_MR_DMABUF it is place,
 * and nic.dmabuf is dmabuf, so that the request must not be copied.
 */
struct hm_mr_request {
	struct nic_region_request nic;
	uint64_t len; /* sum of the segments */
	uint64_t requested_key;
	struct hm_mr_auth auth;
	/* What this is to be a part of; NULL: nothing.  Not looked at before hm_mr_take_base. */
	struct hm_mr *base;
	struct fi_mr_dmabuf dmabuf;
	struct iovec place;
	/* Whose each segment is.  on_device: any of them is not the host's; else memory is not filled. */
	bool on_device;
	struct hmem_memory memory[NIC_IOV_MAX];
};

/* Bits that a region's access may have. */
#define HM_MR_ACCESS                                                                               \
	(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE)
static_assert(HM_MR_ACCESS <= UINT32_MAX, "struct nic_region has 32 bits for it");

/*
 * The tables and the lock; nic and api_version are the caller's to set, before.  -FI_ENOMEM, -FI_EIO
 * (no random numbers), with one log line.
 */
int hm_mr_domain_init(struct hm_mr_domain *domain);
/* No region and no mapped key may be left. */
void hm_mr_domain_destroy(struct hm_mr_domain *domain);

/* Fill request from attributes.  Logs the cause of a refusal. */
int hm_mr_check(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
		struct hm_mr_request *request);
/* What attr names, of interfaces whose attributes have a base_mr; NULL: nothing. */
struct hm_mr *hm_mr_base_of(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr);
/* hm_mr_check of a part of base, which attr does not name. */
int hm_mr_check_sub(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, struct hm_mr *base,
		    uint64_t flags, struct hm_mr_request *request);
/* A part of a region, for refresh: -FI_EINVAL unless inside it. */
int hm_mr_check_part(const struct nic_region *region, const struct iovec *iov);

/* A table for regions of this domain.  -FI_ENOMEM. */
int hm_mr_table_init(const struct hm_mr_domain *domain, struct hm_key_table *table, size_t capacity,
		     bool user_keys);
/*
 * The region of a request, which has been checked.  nic.internal: in the library's own table, enabled, without
 * a key.  The errors of hm_mr_register.
 */
int hm_mr_make(struct hm_mr_domain *domain, struct hm_mr_request *request, struct hm_mr **out);
/*
 * Make a region; desc and key are set, the fid is the caller's to fill.  -FI_EINVAL, -FI_EBADFLAGS,
 * -FI_ENOKEY, -FI_EKEYREJECTED, -FI_ENOSPC, -FI_ENOMEM, -FI_EFAULT, or the NIC's error.
 */
int hm_mr_register(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
		   struct hm_mr **mr);
/* The same of a part of base, which attr does not name; NULL: as hm_mr_register. */
int hm_mr_register_part(struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
			struct hm_mr *base, uint64_t flags, struct hm_mr **mr);
/*
 * The first half of closing: the region gets no sub-MRs any more.  -FI_EBUSY: it has some, and nothing is
 * changed.  -FI_EALREADY: closed already, or about to be.
 */
int hm_mr_begin_close(struct hm_mr *mr);
/*
 * The other half.  Waits for accesses that are under way.  -FI_EBUSY: something of the program's holds the
 * region at the NIC (a memory window); or the NIC's error: it works as before, but for sub-MRs, which the
 * caller allows again by hm_mr_cancel_close.
 */
int hm_mr_close(struct hm_mr *mr);
void hm_mr_cancel_close(struct hm_mr *mr);
/*
 * Close a region that no program has heard of, between the two halves.  What the NIC refuses to end now is
 * left to the domain, which asks again (hm_mr_end_abandoned) when it is closed itself.
 */
void hm_mr_abandon(struct hm_mr *mr);
/* Ask again.  What is refused once more counts in domain->refused. */
void hm_mr_end_abandoned(struct hm_mr_domain *domain);
/*
 * Count remote writes; owner is the counter's domain.  -FI_EINVAL, -FI_ENOSYS: the domain has no
 * FI_RMA_EVENT, -FI_EOPBADSTATE: enabled already where the mode makes that too late.
 */
int hm_mr_bind_cntr(struct hm_mr *mr, struct nic_domain *owner, struct nic_cntr *cntr,
		    uint64_t flags);
/* Accessible through this endpoint only.  -FI_EINVAL, -FI_EOPBADSTATE: enabled already. */
int hm_mr_bind_ep(struct hm_mr *mr, struct nic_ep *ep, uint64_t flags);
/* -FI_EOPBADSTATE: enabled already, or what the mode demands is not bound. */
int hm_mr_enable(struct hm_mr *mr);

/* refresh.c */
/*
 * The pages of these parts changed (none given: of the whole region).  Where the domain has
 * FI_MR_MMU_NOTIFY, accesses are refused meanwhile.  -FI_EINVAL, -FI_EBADFLAGS; -FI_EFAULT: memory of a
 * device is not there any more; -FI_ENOSYS: it is other memory, and the NIC cannot follow; or the NIC's error.
 */
int hm_mr_refresh(struct hm_mr *mr, const struct fi_mr_modify *modify);

/* memory.c */
/*
 * Fill request->memory for a domain with FI_HMEM.  -FI_EINVAL, -FI_ENOSYS, -FI_ENODEV, -FI_EIO, with one
 * log line.
 */
int hm_mr_find_memory(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
		      uint64_t flags, struct hm_mr_request *request);
/*
 * A local buffer without a descriptor, in a domain with FI_HMEM and FI_MR_HMEM: -FI_EINVAL unless it is
 * the host's.
 */
int hm_mr_check_local(const struct nic_domain *nic, const void *addr, size_t len, const char *call);

/* auth.c */
/*
 * One key that a program gives to call; size is not 0.  -FI_EINVAL, -FI_ENOSYS: the NIC enforces none, with one
 * log line.
 */
int hm_mr_check_auth_key(const struct nic_port *port, enum fi_log_subsys subsys, const char *call,
			 const uint8_t *key, size_t size);
/* flags: FI_AUTH_KEY is looked at.  -FI_EINVAL, -FI_ENOSYS: the NIC enforces none, with one log line. */
int hm_mr_check_auth_given(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
			   uint64_t flags, struct hm_mr_auth *auth);

/* Most programs have no such keys, and do not pay for them. */
static inline int hm_mr_check_auth(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
				   uint64_t flags, struct hm_mr_auth *auth)
{
	auth->key_size = 0;
	auth->av = NULL;
	if (__builtin_expect(attr->auth_key_size == 0 && !domain->nic->av_keys, 1))
		return 0;
	return hm_mr_check_auth_given(domain, attr, flags, auth);
}
/*
 * The region's part of it; NULL: no limit.  enabled: it is so from its birth.  -FI_ENOMEM, -FI_ENOSPC;
 * -FI_EINVAL: the vector has no keys, with one log line.
 */
int hm_mr_take_auth_given(const struct hm_mr_auth *from, bool enabled,
			  struct nic_region_auth **out);

static inline int hm_mr_take_auth(struct nic_domain *nic, const struct hm_mr_auth *from,
				  bool enabled, struct nic_region_auth **out)
{
	*out = nic->auth.keys ? &nic->auth : NULL;
	if (__builtin_expect(!from->av && from->key_size == 0, 1))
		return 0;
	return hm_mr_take_auth_given(from, enabled, out);
}

/* Before the region is enabled: the keys that its vector has now.  The same errors.  NULL is fine. */
int hm_mr_enable_auth(struct nic_region_auth *auth);
void hm_mr_drop_auth(struct nic_domain *nic, struct nic_region_auth *auth);

/* sub.c */
/*
 * Keep request->base from being closed, for a sub-MR's life.  -FI_EINVAL: it is no region of this domain, or
 * is being closed; or the request is not inside one of its segments.  -FI_ENOSPC: too many sub-MRs.
 */
int hm_mr_take_base(const struct hm_mr_domain *domain, const struct hm_mr_request *request);
void hm_mr_drop_base(struct hm_mr *base);
/* Where base's memory is, for a part of it: as many places as request has segments. */
void hm_mr_base_places(const struct hm_mr_request *request, struct nic_place *places);
/* The NIC's part of a new sub-MR.  The NIC's error; -FI_EOPNOTSUPP: a dma-buf that the NIC cannot share. */
int hm_mr_register_sub(struct hm_mr_domain *domain, struct nic_region *region,
		       struct hm_mr_request *request);

/* path.c */
/* A way to register memory. */
enum hm_mr_way {
	HM_MR_AS_HOST,
	HM_MR_DMABUF,	    /* exported, the whole allocation */
	HM_MR_DMABUF_EXACT, /* exported, the range alone */
	HM_MR_PEER,
	HM_MR_COPY,
	HM_MR_WAYS
};
/* What decides. */
struct hm_mr_choice {
	uint32_t memory; /* HMEM_WAY_* of the memory */
	uint32_t nic;	 /* NIC_WAY_* */
	uint32_t failed; /* bits of enum hm_mr_way that have failed for good, for this device and NIC */
	bool disable_p2p; /* FI_HMEM_DISABLE_P2P */
};
/* The ways to try, in order; returns how many.  0: there is none, and *why says so. */
size_t hm_mr_ways(const struct hm_mr_choice *choice, enum hm_mr_way way[HM_MR_WAYS],
		  const char **why, enum hmreg_cause *cause);
/* Register by the first way that works.  The last way's error; a log line for each. */
int hm_mr_register_by_path(struct hm_mr_domain *domain, struct nic_region *region,
			   struct hm_mr_request *request);
/*
 * A sub-MR by the dma-bufs that a base of it keeps: the memory is exported once.  -FI_ENOSYS, silent: none
 * keeps one for all of it; else the NIC's error.
 */
int hm_mr_register_by_base(struct nic_region *region, const struct nic_region_request *req);
void hm_mr_exports_free(struct hm_mr_exports *exports);
void hm_mr_learnt_free(struct hm_mr_domain *domain);

/* raw.c */
/* The domain's seed for the unguessable part of raw keys.  -FI_EIO: no random numbers. */
int hm_raw_init(struct hm_mr_domain *domain);
/* That part of the key of the region with this handle: 48 bits. */
uint64_t hm_raw_secret(const struct hm_mr_domain *domain, uint64_t handle);
/* fi_mr_raw_attr(3).  -FI_EINVAL, -FI_EBADFLAGS, -FI_ETOOSMALL: *key_size is what it takes. */
int hm_mr_raw_attr(struct hm_mr *mr, const struct fi_mr_raw_attr *raw);
/* fi_mr_map_raw(3) and back.  -FI_EINVAL, -FI_EBADFLAGS, -FI_ENOSPC, -FI_ENOMEM. */
int hm_mr_map_raw(struct hm_mr_domain *domain, const struct fi_mr_map_raw *map);
int hm_mr_unmap_key(struct hm_mr_domain *domain, const uint64_t *key);

#endif
