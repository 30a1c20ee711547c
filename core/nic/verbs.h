/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs NIC, its inner contracts: devices and ports, domains, regions.  Endpoints: verbs_ep.h.
 *
 *   verbs_lib.c     libibverbs and librdmacm as tables of functions
 *   verbs_device.c  devices, ports, addresses, fid_nic; what the device can do, found out by asking it
 *   verbs_path.c    PCI path, IOMMU and ACS out of sysfs, for diagnostics
 *   verbs_domain.c  context and protection domain, own or adopted; asynchronous events; revocation
 *   verbs_mr.c      one region: host memory or dma-buf, rights, iova, paging, ordering
 *   verbs_parts.c   regions of several parts behind one handle and one key
 *   verbs_indirect.c  that key as one of the device; verbs_indirect_try.c: does the device have such
 *   verbs_window.c  sub-MRs: memory windows inside their base; verbs_window_try.c: does the device keep to them
 *   verbs_file.c    sub-MRs of dma-bufs that the program gave: the file found again
 *   verbs_loop.c    a queue pair to itself, by which keys are written and windows bound
 *   verbs_trial.c   what these trials of the device are made on
 *   verbs_cause.c   errno of a registration -> cause, evidence, FI_E code and log line
 *   verbs_evidence.c  what /proc and /sys tell about memory, limits and dma-bufs
 *   verbs_kept.c    objects that the driver refused to end
 *   verbs_local.c   dma-bufs of the program that buffers without a descriptor lie in
 *   verbs_ep.c ...  see verbs_ep.h
 *   verbs_nic.c     the ops table
 *
 * KEYS.  With FI_MR_PROV_KEY, which this NIC always needs, fi_mr_key gives 64 bits:
 *
 *   bits 0-31   rkey of the (only) part
 *   bits 32-62  interior: added to the remote address.  0 with FI_MR_VIRT_ADDR.  Without it, a peer
 *               addresses from 0, but hardware wants iova and address to agree modulo the page size,
 *               so iova is the first byte's offset in its page, and the initiator adds it.  A window is
 *               addressed as the region that it is in, so its interior goes on from there; one that
 *               begins 2 GiB inside or more has a composite key for its only part.
 *   bit 63      set: a composite region.  The key then is VERBS_KEY_COMPOSITE | the region's handle
 *               folded into 63 bits; the initiator asks the target for the table of parts once
 *               (verbs_keys.c).
 *
 * So where a program agreed to FI_MR_VIRT_ADDR, the key of a plain region is its rkey, fit for queue
 * pairs of its own.
 */
#ifndef VERBS_H
#define VERBS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/base/list.h"
#include "core/nic/nic.h"
#include "core/nic/verbs_lib.h"
#include "dmabuf/dmabuf.h"

#define VERBS_KEY_COMPOSITE	  (UINT64_C(1) << 63)
#define VERBS_KEY(rkey, interior) ((uint64_t)(rkey) | (uint64_t)(interior) << 32)
#define VERBS_KEY_RKEY(key)	  ((uint32_t)(key))
#define VERBS_KEY_INTERIOR_MOST	  UINT64_C(0x7fffffff)
#define VERBS_KEY_INTERIOR(key)	  ((key) >> 32 & VERBS_KEY_INTERIOR_MOST)

/* ---- devices and ports; all of them live as long as the process ---- */

struct verbs_device {
	struct ibv_device *ibv; /* out of a device list that is never freed */
	const char *name;
	bool asked;   /* what it can do is known */
	bool tried;   /* keys over several regions and windows were */
	bool settled; /* it is not looked at again */
	struct ibv_device_attr attr;
	uint64_t can;		   /* HMREG_CAN_* */
	uint64_t odp_caps;	   /* IBV_ODP_SUPPORT_* over reliable connections */
	const char *dmabuf_reason; /* "" or why dma-buf regions do not work */
	char indirect_reason[160]; /* "" or why there are no keys over several regions */
	char windows_reason[160];  /* "" or why sub-MRs are no windows */
	uint64_t max_mr_size;	   /* of one part: the device's, or HMREG_VERBS_MAX_MR_SIZE */
	char pci[32];
	char path[160]; /* verbs_path.c */
};

struct verbs_port {
	struct nic_port port; /* first: nic_port and verbs_port are converted by cast */
	struct verbs_device *device;
	uint8_t number;
	int gid_index;		      /* -1: none */
	struct sockaddr_storage addr; /* ss_family 0: none, and port.no_endpoints says why */
	socklen_t addr_len;
	const char *link;
};

static inline const struct verbs_port *verbs_port_of(const struct nic_port *port)
{
	return (const struct verbs_port *)port;
}

extern struct nic_ops verbs_nic_ops;

/* verbs_device.c: the slots of the ops table, as nic.h describes them */
int verbs_ports(const struct nic_port **ports, size_t *count);
int verbs_port_address(const struct nic_port *port, void *addr, size_t *len);
int verbs_port_reaches(const struct nic_port *port, const void *addr, size_t len);
int verbs_port_has(const struct nic_port *port, const void *addr, size_t len);
int verbs_port_missing(const char *domain_name);
int verbs_port_describe(const struct nic_port *port, struct hmreg_device *out);
void verbs_look(void);

/* verbs_path.c: text into path: switch and root port, IOMMU group, ACS where readable. */
void verbs_path_describe(const char *sysfs_root, const char *ibdev_name, char *pci, size_t pci_len,
			 char *path, size_t path_len);

/* ---- domains ---- */

struct verbs_progress; /* verbs_progress.c */

/* What windows of a domain stand on (verbs_window.c). */
struct verbs_windows {
	pthread_mutex_t lock;	 /* protects loop and pools; loop's own lock is taken inside it */
	struct verbs_loop *loop; /* owned; NULL until one is bound */
	_Atomic bool off;	 /* binding is not supported after all; set once */
	_Atomic uint32_t told;	 /* reasons that were logged */
	_Atomic uint64_t held;	 /* ibv_mw that there are */
};

struct verbs_domain {
	struct nic_domain domain; /* first */
	const struct verbs_port *port;
	struct verbs_device *device;
	struct ibv_context *context;
	struct ibv_pd *pd;
	bool owns_context, owns_pd;
	_Atomic bool shown;		 /* the program has had verbs objects of this domain */
	unsigned int forks;		 /* verbs_forks when it was opened */
	bool zero_based;		 /* FI_MR_VIRT_ADDR not agreed: peers address from 0 */
	bool on_demand;			 /* FI_MR_ALLOCATED not agreed: pages by on-demand paging */
	_Atomic bool gone;		 /* the device was removed or failed; set once */
	_Atomic uint64_t parts;		 /* ibv_mr held for regions */
	struct verbs_progress *progress; /* owned; NULL until the first endpoint is enabled */
	pthread_mutex_t lock;		 /* protects eps, progress' start and end, addresses */
	struct hm_list eps;		 /* verbs_ep, by their link */
	/* protects composites, dmabufs and kept; innermost: key queries are answered and local buffers looked
	   up under an endpoint's lock.  Made and destroyed with lock */
	pthread_mutex_t composites_lock;
	struct hm_list composites;	   /* verbs_parts of live regions, for key queries */
	struct hm_list dmabufs;		   /* verbs_region by their link (verbs_local.c) */
	struct hm_list kept;		   /* owned; verbs_kept.c */
	struct verbs_addresses *addresses; /* owned; interned IPv6 addresses (verbs_addr.c) */
	struct verbs_loop *loop;  /* owned; NULL until a key over several regions is made */
	_Atomic bool no_indirect; /* no such keys in this domain, which was told; set once */
	struct verbs_windows windows;
};

static inline struct verbs_domain *verbs_domain_of(struct nic_domain *domain)
{
	return (struct verbs_domain *)domain;
}

/*
 * Was the domain opened by this process's parent?  Its verbs objects are the parent's then, behind file
 * descriptors that both have, and its thread is not here: nothing of it may be used, waited for or
 * destroyed.  Closing in the child succeeds and leaves all to the parent.
 */
static inline bool verbs_inherited(const struct verbs_domain *domain)
{
	return domain->forks != atomic_load_explicit(&verbs_forks, memory_order_relaxed);
}

int verbs_domain_open(struct nic_domain *domain);
int verbs_domain_close(struct nic_domain *domain);
int verbs_domain_handles(struct nic_domain *domain, struct hmreg_verbs_domain *out);
/*
 * The device is gone: marks the domain and logs one line.  Takes no lock.  The progress thread tells the
 * endpoints in the pass it is in, or in its next one.  Idempotent.
 */
void verbs_domain_gone(struct verbs_domain *domain, const char *why);
/* Read and acknowledge asynchronous events that are there; called when async_fd is readable. */
void verbs_domain_async(struct verbs_domain *domain);
/*
 * A call failed with errno err.  Because the device is not there any more?  Its events and a call that
 * does not fail on a device that is there decide, since a driver may refuse with any number.  What a
 * lost device had is gone with it.
 */
bool verbs_domain_lost(struct verbs_domain *domain, int err);

/* ---- objects that the driver may refuse to end: verbs_kept.c ---- */

enum verbs_kind {
	VERBS_KIND_MW,
	VERBS_KIND_MR,
	VERBS_KIND_CM_ID,
	VERBS_KIND_EVENTS,
	VERBS_KIND_SRQ,
	VERBS_KIND_CQ,
	VERBS_KIND_CHANNEL,
};

/*
 * End an object that nothing uses any more; NULL: nothing to do.  memory, which may be NULL, is mapped
 * memory that it is over, and is unmapped with it.  What the driver refuses stays with the domain, with
 * one log line.
 */
void verbs_end(struct verbs_domain *domain, enum verbs_kind kind, void *object, void *memory,
	       size_t size);
/*
 * Ask the driver once more for all that is kept.  0, or the errno of the first that it still refuses,
 * and which call that was.
 */
int verbs_kept_end(struct verbs_domain *domain, const char **verb);
/* What is still kept is about to end with the device's context. */
void verbs_kept_forget(struct verbs_domain *domain);

/* ---- regions ---- */

#define VERBS_REGION_DMABUF    (1u << 0)
#define VERBS_REGION_ON_DEMAND (1u << 1)
#define VERBS_REGION_RELAXED   (1u << 2)
#define VERBS_REGION_ZERO_BASE (1u << 3)
#define VERBS_REGION_BINDABLE  (1u << 4) /* windows may be bound to its ibv_mr */
#define VERBS_REGION_WINDOW    (1u << 5) /* a sub-MR whose parts are windows into its base's ibv_mr */

/* One ibv_mr, or window into one.  offset + len: its place in the whole region; iova: of its first byte. */
struct verbs_part {
	struct ibv_mr *mr; /* owned; of a window: the base's, and NULL once that is gone */
	struct ibv_mw *mw; /* owned; NULL: no window */
	uint64_t addr;	   /* host address (or base_addr + offset of a dma-buf) of its first byte */
	uint64_t offset, len;
	uint64_t iova;
};

static inline uint32_t verbs_part_rkey(const struct verbs_part *part)
{
	return part->mw ? part->mw->rkey : part->mr->rkey;
}

/* Parts behind one composite key. */
struct verbs_parts {
	struct hm_list link;		 /* in verbs_domain.composites; unlinked: leads to itself */
	uint64_t key;			 /* VERBS_KEY_COMPOSITE | ... */
	struct verbs_indirect *indirect; /* owned; one key of the device over all parts, or NULL */
	bool ascending;			 /* each part lies above those before it */
	size_t count;
	struct verbs_part part[];
};

/* Which dma-buf a region was made of, for sub-MRs that need it a second time (verbs_file.c). */
struct verbs_file {
	int fd;	  /* the program's, which may have closed it since; -1: none */
	int kept; /* owned; -1: none */
	uint64_t offset;
	struct dmabuf_id id;
};

/* The private part of a region's element: directly behind struct nic_region. */
struct verbs_region {
	struct verbs_part one;	   /* count 1; mr NULL when there are parts */
	struct verbs_parts *parts; /* owned; NULL: one */
	struct hm_list link;	   /* in verbs_domain.dmabufs; unlinked: leads to itself */
	uint32_t flags;		   /* VERBS_REGION_* */
	_Atomic uint32_t again;	   /* sub-MRs below it whose memory is registered a second time */
	struct verbs_pool *pool;   /* owned; windows for its sub-MRs, or NULL */
	struct verbs_file file;
};

static inline struct verbs_region *verbs_region_of(const struct nic_region *region)
{
	return (struct verbs_region *)(uintptr_t)(region + 1);
}

int verbs_region_register(struct nic_region *region, const struct nic_region_request *req);
int verbs_region_derive(struct nic_region *region, struct nic_region *base,
			const struct nic_region_request *req);
int verbs_region_deregister(struct nic_region *region);
int verbs_region_refresh(struct nic_region *region, const struct iovec *iov, size_t count);
uint64_t verbs_region_key(const struct nic_region *region);
int verbs_region_desc(const struct nic_region *region, void *desc, size_t *size);
/* ~0: a region of several parts, or half closed. */
uint32_t verbs_region_lkey(const struct nic_region *region);
int verbs_region_info(const struct nic_region *region, struct hmreg_region_info *info);
int verbs_region_part(const struct nic_region *region, size_t part, struct hmreg_verbs_part *out);

/*
 * The local side of a transfer: [addr, addr + len) of this region (checked to be inside) as
 * scatter/gather entries, lkey and iova of each part it touches.  At most room entries: returns how
 * many, and *covered the bytes they cover (all of len unless room was short).
 */
size_t verbs_region_sges(const struct nic_region *region, uint64_t addr, uint64_t len,
			 struct ibv_sge *sge, size_t room, uint64_t *covered);

/* verbs_cause.c: a registration or another verbs call failed with errno err. */
enum verbs_call {
	VERBS_CALL_REG_MR,
	VERBS_CALL_REG_DMABUF,
	VERBS_CALL_DEREG,
	VERBS_CALL_ADVISE,
	VERBS_CALL_REREG,
	VERBS_CALL_ALLOC_MW,
	VERBS_CALL_DEALLOC_MW,
};
/* What was registered, as evidence for the log. */
struct verbs_attempt {
	const struct verbs_domain *domain;
	enum verbs_call call;
	const void *addr;
	uint64_t len;
	uint64_t access; /* IBV_ACCESS_* */
	uint64_t iova;
	int fd;		 /* dma-buf; else -1 */
	uint64_t offset; /* in the dma-buf */
};
/* One log line with cause, evidence and remedy; the FI_E code to return. */
int verbs_cause(const struct verbs_attempt *attempt, int err);

/* verbs_local.c: the slot of the ops table. */
struct nic_region *verbs_region_at(struct nic_domain *domain, const void *addr, size_t len,
				   bool writes);

#endif
