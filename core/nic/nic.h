/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC contract: what core asks of any NIC, software or hardware.
 *
 * Who owns what: core allocates domains, endpoints and regions with the NIC's private size behind the
 * common head declared here, calls the NIC to fill and empty its part, and frees.  A NIC keeps no
 * pointer into an object after the call that closes it has returned success.
 *
 * Every function returns 0 (or a count) or a negative FI_E code and changes nothing when it fails.
 * Slots marked optional are filled with a refusal when the NIC is registered (nic_register).
 */
#ifndef HM_NIC_H
#define HM_NIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "core/base/auth.h"
#include "core/base/key_table.h"
#include "core/nic/comp.h"
#include "core/nic/peer.h"

#define NIC_IOV_MAX	 16 /* segments of a region and of one operation's local side, all NICs */
#define NIC_RMA_IOV_MAX	 16
#define NIC_RAW_KEY_SIZE 16 /* bytes of a key in a domain with FI_MR_RAW, all NICs */

struct nic_domain;
struct nic_ep;
struct nic_hold;
struct nic_ops;
struct nic_xpu_ops;

/* How a NIC reaches memory that is not the host's. */
#define NIC_WAY_DMABUF 1u /* it registers dma-bufs */
#define NIC_WAY_PEER   2u /* it registers addresses of devices, with a kernel module's help */
#define NIC_WAY_COPY   4u /* it has the memory's interface copy (nic_region_ext.places) */

/* Uses of local buffers: payloads of sends and RMA; operands, results and compares of atomics; receives. */
#define NIC_LOCAL_PAYLOAD  1u
#define NIC_LOCAL_ATOMICS  2u
#define NIC_LOCAL_RECEIVES 4u

/* One usable port: what fi_getinfo turns into a struct fi_info.  Static for the process's life. */
struct nic_port {
	const struct nic_ops *ops;
	const char *fabric_name;
	const char *domain_name;
	uint64_t caps;		/* everything it can offer */
	uint64_t optional_caps; /* of these, what is off unless hints ask for it */
	int mr_mode;		/* bits it needs */
	uint32_t ways;		/* NIC_WAY_*: how it reaches memory that is not the host's */
	int mr_mode_kept; /* bits it can do without, but keeps where an application offers them */
	bool alternate;	  /* listed only when hints or an address ask for its addr_format */
	uint32_t addr_format;
	uint32_t protocol;
	size_t mr_key_size;
	size_t mr_iov_limit;
	size_t max_msg_size;
	size_t inject_size;
	size_t iov_limit, rma_iov_limit;
	size_t tx_size, rx_size;
	size_t max_mr_count;
	size_t auth_key_size;	/* bytes of an authorization key, at most; 0: it enforces none */
	size_t max_ep_auth_key; /* keys of an endpoint, at most NIC_AV_KEYS_MAX */
	size_t ep_count;
	uint64_t msg_order;
	size_t cq_data_size;
	/*
	 * Local buffers without a descriptor, where FI_MR_LOCAL was not agreed: what core registers them
	 * for, NIC_LOCAL_*.  Sends and writes of at most local_copied bytes in all, none of whose buffers
	 * has a descriptor, are left out: the processor copies these.
	 */
	uint32_t local;
	size_t local_copied;
	bool pins; /* what is registered of host memory is pinned, and an unregistered buffer out of reach */
	const struct fid_nic *nic; /* device, bus and link attributes; copied by fi_getinfo */
	/*
	 * Not NULL: the port is for registration alone; why no endpoint works over it and what to do, as
	 * a whole line.  Then caps has nothing that only endpoints do, and limits of endpoints are 0.
	 */
	const char *no_endpoints;
	enum hmreg_cause no_endpoints_cause;
	int no_endpoints_code; /* what fi_getinfo returns where endpoints are asked for by this name */
};

/* ---- memory regions ---- */

#define NIC_DESC_MAX 8 /* bytes of the longest descriptor */

/* State bits of a region; an access from a peer needs NIC_REGION_ENABLED. */
#define NIC_REGION_ENABLED    1u
#define NIC_REGION_SINGLE_USE 2u /* one remote operation, then USED_UP */
#define NIC_REGION_USED_UP    4u
#define NIC_REGION_WANTS_CNTR 16u  /* FI_MR_RMA_EVENT: a counter must be bound before enabling */
#define NIC_REGION_REFUSED    32u  /* the NIC did not end it when it was closed last */
#define NIC_REGION_IMPORTED   64u  /* a dma-buf that the program gave, or part of one */
#define NIC_REGION_KEPT	      128u /* core/mr's: the registration cache's, whoever asked for it */
#define NIC_REGION_INTERNAL   256u /* core/mr's: for the library's own use, in a table of its own */
#define NIC_REGION_REFRESH                                                                         \
	(1u << 20) /* one refresh that is under way; the bits from here on count */
#define NIC_REGION_REFRESHING (~0u << 20)

/* Where the bytes of a segment are reached, if not at its address in host memory. */
struct nic_place {
	enum fi_hmem_iface iface;
	int device; /* as fi_mr_attr.device; -1: the host reaches at */
	void *at;
	/* Of a device's allocation, which changes when it is freed; 0: not told.  Refreshing changes it. */
	_Atomic uint64_t id;
	const struct nic_place *base; /* of a sub-MR: its base's, refreshed for both; else NULL */
	void *map;		      /* the NIC's own: a mapping to undo, map_len bytes */
	size_t map_len;
};

/* Who may reach a region. */
struct nic_region_auth {
	/*
	 * One of these keys is the initiator's and the target endpoint's.  Owned; NULL: any key or none,
	 * or not taken yet, which with av is when the region is enabled.
	 */
	struct hm_auth *keys;
	uint64_t peer;	   /* address part of the one initiator's handle; 0: any */
	struct nic_av *av; /* FI_AV_AUTH_KEY: where the keys are from; holds one of its users */
};

/* What few regions need: kept apart, or behind the region where the domain gives one to each. */
struct nic_region_ext {
	uint32_t iov_count;
	enum hmreg_path path;	  /* of accelerator memory and dma-bufs; else 0 */
	struct iovec *iov;	  /* segments, in order; NULL when there is one */
	struct nic_place *places; /* of each segment; NULL: host memory at their addresses */
	_Atomic(struct nic_cntr *)
		cntr;	   /* counts remote writes and atomics; holds one of its users */
	struct nic_ep *ep; /* FI_MR_ENDPOINT: only through this endpoint; holds one of its users */
	uint64_t secret;   /* the unguessable part of a raw key */
	struct hm_mr_exports *exports; /* core/mr's: exported dma-bufs kept for the region */
	uint64_t identity; /* core/mr's: of the allocations that were exported; 0: not told */
	struct nic_region_auth *auth; /* owned, or the domain's; NULL: no limit */
};

/*
 * A registered region.  The part that a peer's access reads is in the first two cache lines of the
 * element; constant while the node is live, apart from state, and ext until enabled.
 */
struct nic_region {
	struct hm_key_node node;
	struct nic_domain *domain;
	uint64_t base;	 /* first byte of the (first) segment in this process */
	uint64_t len;	 /* sum of all segments */
	uint32_t access; /* FI_SEND ... FI_REMOTE_WRITE, FI_COLLECTIVE's bit is below 32 as well */
	_Atomic uint32_t state;
	struct nic_region_ext *ext;
	struct nic_region *parent; /* a sub-MR's base, which lives as long as this one; else NULL */
};

/* What core asks a NIC to register; checked already. */
struct nic_region_request {
	const struct iovec *iov;
	size_t iov_count;
	uint64_t access;
	uint64_t flags;
	size_t page_size; /* 0: the library chooses */
	/*
	 * What to register are dma-bufs, one for each entry of iov, which says where the bytes are in
	 * addresses: base_addr + offset.  The fds are the caller's.  Else NULL.
	 */
	const struct fi_mr_dmabuf *dmabuf;
	/* By its address, although it is a device's: a kernel module has to know it. */
	bool peer_memory;
	size_t sub_mr_cnt; /* sub-MRs to be expected: a hint */
	/*
	 * For a local buffer that came without a descriptor: no peer and no sub-MR will use it, its pages
	 * are pinned where the NIC pins any, and where the device is gone it is -FI_ENODEV, silent.
	 */
	bool internal;
};

/* ---- domains ---- */
struct nic_domain {
	const struct nic_ops *ops;
	const struct nic_port *port;
	int mr_mode;		      /* as agreed with the application */
	uint64_t caps;		      /* as agreed */
	struct hm_key_table *regions; /* owned by core: handles are desc and provider keys */
	struct hm_key_table *mapped;  /* owned by core: raw keys this side has mapped */
	/* Owned by core: the default key (keys NULL: none).  Regions without one of their own share it. */
	struct nic_region_auth auth;
	bool keyed;	  /* its regions have keys: auth's, or with av_keys those of vectors */
	uint32_t av_keys; /* FI_AV_AUTH_KEY: keys that an address vector may have; else 0 */
	const struct hmreg_verbs_adopt
		*adopt; /* the program's objects, during domain_open; or NULL */
	/* Owned by core: give back what nic_seg.hold was; any thread, hold->region not NULL. */
	void (*hold_end)(struct nic_domain *domain, struct nic_hold *hold);
};

/* An element of nic_domain.mapped: a peer's raw key. */
struct nic_mapped_key {
	struct hm_key_node node;
	uint64_t handle; /* the peer's region */
	uint64_t secret;
	uint64_t base_addr; /* as the region's owner told it */
	uint32_t uses;	    /* map calls not yet unmapped; protected by the domain's map lock */
	bool wide;	    /* of a 16-byte key: what was given out is the node's handle */
};

/* ---- endpoints ---- */
enum nic_cntr_slot {
	NIC_CNTR_SEND,
	NIC_CNTR_RECV,
	NIC_CNTR_READ,
	NIC_CNTR_WRITE,
	NIC_CNTR_REMOTE_READ,
	NIC_CNTR_REMOTE_WRITE,
	NIC_CNTR_SLOTS
};

struct nic_ep {
	struct nic_domain *domain;
	struct nic_av *av;
	struct nic_cq *tx_cq, *rx_cq; /* either may be NULL */
	struct nic_cntr *cntr[NIC_CNTR_SLOTS];
	uint64_t caps;
	size_t rx_size;
	bool rx_selective;	/* receive completions only with FI_COMPLETION */
	struct hm_auth *auth;	/* owned by core, constant once enabled: its keys; NULL: none */
	_Atomic uint32_t users; /* regions bound */
};

/* ---- work requests ---- */
enum nic_op {
	NIC_OP_SEND,
	NIC_OP_WRITE,
	NIC_OP_READ,
	NIC_OP_ATOMIC,
	NIC_OP_FETCH,
	NIC_OP_COMPARE
};

static inline bool nic_is_atomic(enum nic_op op)
{
	return op == NIC_OP_ATOMIC || op == NIC_OP_FETCH || op == NIC_OP_COMPARE;
}

/* A registration that the library made or found for a local buffer without a descriptor. */
struct nic_hold {
	struct nic_region *region; /* NULL: nothing is held */
	uint32_t entry;		   /* core/mr's */
};

/*
 * One local segment.  region is referenced by the caller for the call's time; NULL: no desc given, and none
 * is needed.  hold: not NULL where region is the library's own; a NIC that needs region beyond the call takes
 * it over: copies *hold, sets hold->region to NULL, and calls nic_domain.hold_end when it is done.
 */
struct nic_seg {
	void *addr;
	size_t len;
	struct nic_region *region;
	struct nic_hold *hold;
};

struct nic_wr {
	enum nic_op op;
	enum fi_datatype datatype; /* atomics */
	enum fi_op atomic_op;
	uint64_t flags;	     /* effective; FI_COMPLETION: an entry on success, too */
	uint64_t comp_flags; /* FI_RMA | FI_WRITE and the like, for the completion entry */
	uint64_t peer; /* from nic_av_peer; with av_keys of the domain it may carry a key's number */
	const struct nic_seg *local, *result, *compare;
	const struct fi_rma_iov *remote; /* atomics: len in bytes */
	uint32_t local_count, result_count, compare_count, remote_count;
	size_t len; /* sum of local (of remote where local is empty, as for FI_ATOMIC_READ) */
	void *context;
	uint64_t data; /* FI_REMOTE_CQ_DATA */
};

/*
 * ---- completing what was posted, whose CQ room is reserved ----
 * nic_fail: an error entry, and a failure counted.  nic_succeed: an entry where one was asked for (else
 * the room is given back), and the operation counted.
 */

/* The counter of an initiator's operation, or NULL. */
static inline struct nic_cntr *nic_initiator_cntr(const struct nic_ep *ep, enum nic_op op)
{
	switch (op) {
	case NIC_OP_SEND:
		return ep->cntr[NIC_CNTR_SEND];
	case NIC_OP_WRITE:
	case NIC_OP_ATOMIC:
		return ep->cntr[NIC_CNTR_WRITE];
	default:
		return ep->cntr[NIC_CNTR_READ];
	}
}

/* Of wr, both look at op, flags, comp_flags, len and context. */
static inline void nic_fail(struct nic_ep *ep, const struct nic_wr *wr, enum hmreg_error why)
{
	struct nic_cntr *cntr = nic_initiator_cntr(ep, wr->op);

	if (cntr)
		nic_cntr_failed(cntr);
	if (ep->tx_cq) {
		struct nic_comp comp = { .op_context = wr->context,
					 .flags = wr->comp_flags,
					 .src_addr = FI_ADDR_NOTAVAIL,
					 .err = nic_error_code(why),
					 .prov_errno = (int)why,
					 .olen = wr->len };

		nic_cq_push(ep->tx_cq, &comp);
	}
}

static inline void nic_succeed(struct nic_ep *ep, const struct nic_wr *wr)
{
	struct nic_cntr *cntr = nic_initiator_cntr(ep, wr->op);

	if (ep->tx_cq) {
		if (wr->flags & FI_COMPLETION) {
			struct nic_comp comp = { .op_context = wr->context,
						 .flags = wr->comp_flags,
						 .len = wr->len,
						 .src_addr = FI_ADDR_NOTAVAIL };

			nic_cq_push(ep->tx_cq, &comp);
		} else {
			nic_cq_unreserve(ep->tx_cq);
		}
	}
	if (cntr)
		nic_cntr_done(cntr, wr->len);
}

/* A receive to post.  desc are handles of regions, kept and looked up when a message arrives. */
struct nic_recv {
	const struct iovec *iov;
	void **desc; /* may be NULL */
	size_t count;
	uint64_t src_peer; /* 0: from anybody */
	uint32_t src_key;  /* 0: by any key */
	uint64_t flags;	   /* effective */
	void *context;
	/* As nic_seg.hold, count of them, region NULL where there is none; or NULL: none at all. */
	struct nic_hold *hold;
};

struct nic_ops {
	const char *name;
	size_t domain_size, ep_size; /* bytes including the common head */
	size_t region_private;	     /* bytes behind struct nic_region's end in an element */
	/* Of the registration flags that not every NIC can honour, FI_MR_SINGLE_USE: those that this one can. */
	uint64_t region_flags;

	/*
	 * Ports that are usable.  The array is the NIC's and lives as long as the process; its elements
	 * are port_size bytes (0: sizeof(struct nic_port)), a struct nic_port first.
	 */
	size_t port_size;
	int (*ports)(const struct nic_port **ports, size_t *count);
	/*
	 * Optional (nothing to do): look again for ports that could not be used before; they are added
	 * at the end of the array.
	 */
	void (*look)(void);
	/*
	 * Optional (-FI_ENOSYS): the address of an endpoint that asks for none, as far as it is known
	 * before one is open.  len as in fi_getname(3).  This slot and the next two are not called for a
	 * port without endpoints.
	 */
	int (*port_address)(const struct nic_port *port, void *addr, size_t *len);
	/*
	 * Optional (any IPv4 loopback address): can an endpoint of this port reach this address?
	 * -FI_EHOSTUNREACH.  Logs nothing.
	 */
	int (*port_reaches)(const struct nic_port *port, const void *addr, size_t len);
	/* Optional (port_reaches): the same of an address that an endpoint is to have itself. */
	int (*port_has)(const struct nic_port *port, const void *addr, size_t len);

	/*
	 * Optional (-FI_ENODATA, silent): why no port has this domain name, one log line where the NIC
	 * knows such a device: -FI_ENODEV (port down, no address, no driver), -FI_EACCES.
	 */
	int (*port_missing)(const char *domain_name);
	/* Optional (-FI_ENOSYS): all fields but size. */
	int (*port_describe)(const struct nic_port *port, struct hmreg_device *device);

	int (*domain_open)(struct nic_domain *domain);
	int (*domain_close)(struct nic_domain *domain);
	/* Optional (-FI_ENOSYS): all fields but size. */
	int (*domain_verbs)(struct nic_domain *domain, struct hmreg_verbs_domain *verbs);
	/*
	 * Optional (nothing to do): move on what has no thread of its own, so that completions that
	 * are there get into their queues.  Any thread, at any time; called by readers that find nothing.
	 */
	void (*progress)(struct nic_domain *domain);

	/*
	 * Make the memory known.  node is not live yet; ext->iov is filled already for several
	 * segments.  FI_MR_ALLOCATED agreed and pages missing: -FI_EFAULT.
	 */
	int (*region_register)(struct nic_region *region, const struct nic_region_request *req);
	/*
	 * Optional (-FI_ENOSYS): make a part of base known, which may be a part itself, by what base
	 * has pinned and translated.  req->iov lies inside base's segments; ext->places are base's,
	 * moved, but without mappings to undo; region->parent is base, which is deregistered after
	 * region.  Rights that base lacks: where the memory allows them, else -FI_EACCES.
	 * -FI_ENOSYS, whose reason the NIC logs once: this memory must be registered a second time.
	 */
	int (*region_derive)(struct nic_region *region, struct nic_region *base,
			     const struct nic_region_request *req);
	/*
	 * node is killed.  A failure, as of a driver that refuses, or because something outside this
	 * library holds the region: peers may reach it as before, and it will be closed again.
	 */
	int (*region_deregister)(struct nic_region *region);
	/* Optional (-FI_ENOSYS): pages of these parts changed; parts lie inside the region. */
	int (*region_refresh)(struct nic_region *region, const struct iovec *iov, size_t count);
	/*
	 * Optional (NULL): a region of the program's that holds a buffer which cannot be registered,
	 * because it is where the program has mapped the region's dma-buf.  Referenced as by
	 * nic_local_acquire; writes: the region must grant that.
	 */
	struct nic_region *(*region_at)(struct nic_domain *domain, const void *addr, size_t len,
					bool writes);
	/*
	 * Optional (the region's handle): the key with FI_MR_PROV_KEY.  Asked once, after
	 * region_register.
	 */
	uint64_t (*region_key)(const struct nic_region *region);
	/*
	 * Optional (the region's handle): what the NIC's own work requests call the region, up to
	 * NIC_DESC_MAX bytes.  -FI_EOPNOTSUPP: it has no one name there.
	 */
	int (*region_desc)(const struct nic_region *region, void *desc, size_t *size);
	/* May be NULL, as ever ~0: the same of 4 bytes, for devices.  ~0, silent: it has no one name there. */
	uint32_t (*region_lkey)(const struct nic_region *region);
	/* Optional (software path, no parts). */
	int (*region_info)(const struct nic_region *region, struct hmreg_region_info *info);
	/* Optional (-FI_ENOSYS). */
	int (*region_part)(const struct nic_region *region, size_t part,
			   struct hmreg_verbs_part *out);

	/* src_addr NULL: the NIC chooses one.  -FI_EADDRINUSE, -FI_EADDRNOTAVAIL. */
	int (*ep_open)(struct nic_ep *ep, const void *src_addr, size_t len);
	int (*ep_enable)(struct nic_ep *ep);
	/* Waits for operations of peers that are under way; queued receives are dropped. */
	int (*ep_close)(struct nic_ep *ep);
	int (*ep_name)(struct nic_ep *ep, void *addr, size_t *len); /* as fi_getname(3) */

	/* Address bytes to peer handle (never 0) and back.  -FI_EINVAL: not an address of this NIC. */
	int (*peer_resolve)(struct nic_domain *domain, const void *addr, size_t *len,
			    uint64_t *peer);
	int (*peer_address)(struct nic_domain *domain, uint64_t peer, void *addr, size_t *len);

	/* 0: accepted, its completion will come.  -FI_EAGAIN: no room now, nothing done. */
	ssize_t (*post)(struct nic_ep *ep, const struct nic_wr *wr);
	ssize_t (*post_recv)(struct nic_ep *ep, const struct nic_recv *recv);
	/*
	 * The first posted receive with this context completes with FI_ECANCELED.  -FI_ENOENT: there
	 * is none.  -FI_EAGAIN: no room for its completion.
	 */
	ssize_t (*cancel)(struct nic_ep *ep, void *context);

	/* Optional (-FI_EOPNOTSUPP). kind: NIC_OP_ATOMIC, NIC_OP_FETCH, NIC_OP_COMPARE. */
	int (*atomic_valid)(struct nic_domain *domain, enum nic_op kind, enum fi_datatype datatype,
			    enum fi_op op, size_t *count, size_t *size);

	/* Optional (xpu/'s ring): devices post to the NIC, and see its completions, themselves (nic_xpu.h). */
	const struct nic_xpu_ops *xpu;

	/* Text for an enum hmreg_error or the NIC's own code; constant string. */
	const char *(*strerror)(int prov_errno);
};

/* Registration of NICs; called by core/init.c before any other use. */
#define NIC_MAX 4
int nic_register(struct nic_ops *ops);
/*
 * Let every NIC look again for ports that it could not use before.  Nobody may walk through the ports
 * meanwhile who wants each of them once.
 */
void nic_look(void);
/* Walk the ports of every registered NIC; index counts over all.  NULL past the end. */
const struct nic_port *nic_port_at(size_t index);
/* The first NIC's answer that knows why no port has this name (port_missing), or -FI_ENODATA. */
int nic_port_missing(const char *domain_name);

/* Is [addr, addr + len) inside one segment of the region? */
bool nic_region_holds(const struct nic_region *region, uint64_t addr, uint64_t len);
/*
 * Is the byte at addr, which the region holds, in a segment that is host memory at that address?  Its pages may
 * be others later; those of a device or a dma-buf are not.
 */
bool nic_region_on_host(const struct nic_region *region, uint64_t addr);

/*
 * Reference the region that desc names for a local access: it must be a live region of this domain,
 * hold [addr, addr + len) inside one of its segments, and grant access.  -FI_EINVAL / -FI_EACCES with
 * one log line naming call.  NULL desc: *region = NULL, or -FI_EINVAL when the domain has
 * FI_MR_LOCAL and len is not 0.
 */
int nic_local_acquire(struct nic_domain *domain, void *desc, const void *addr, size_t len,
		      uint64_t access, const char *call, struct nic_region **region);

/*
 * Bytes that the processor moves between the library and a buffer of the program, which in a domain with
 * FI_HMEM may be a device's.  0, -FI_EFAULT (not mapped), or the memory interface's error.
 */
int nic_from_app(const struct nic_domain *domain, void *to, const void *app, size_t len);
int nic_to_app(const struct nic_domain *domain, void *app, const void *from, size_t len);

static inline void nic_local_release(struct nic_region *region)
{
	if (region)
		hm_key_release(&region->node);
}

/* Is it for the library's own use?  That is settled before anybody else sees it. */
static inline bool nic_region_is_internal(const struct nic_region *region)
{
	/* C11 loads want no const */
	return atomic_load_explicit((_Atomic uint32_t *)&region->state, memory_order_relaxed) &
	       NIC_REGION_INTERNAL;
}

static inline struct nic_region *nic_region_of(struct hm_key_node *node)
{
	return (struct nic_region *)((char *)node - offsetof(struct nic_region, node));
}

#endif
