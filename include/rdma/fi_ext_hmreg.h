/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What hmreg offers beyond the libfabric interface: causes of failed operations, figures about a
 * domain, what a device can do, which path a region took, and the verbs objects behind a domain and a
 * region.  A program that includes this header and runs over another provider gets -FI_ENOSYS from
 * fi_open_ops and can go on.
 */
#ifndef RDMA_FI_EXT_HMREG_H
#define RDMA_FI_EXT_HMREG_H

#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_ext_hmreg_cause.h>

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
	/* What a hardware NIC tells, which is less exact: */
	HMREG_REMOTE_ACCESS = 19,  /* key, range or right refused by the target's NIC (FI_EACCES) */
	HMREG_REMOTE_INVALID = 20, /* the target's NIC cannot do what was asked (FI_EINVAL) */
	HMREG_PEER_LOST = 21,	   /* the peer stopped answering (FI_ECONNABORTED) */
	HMREG_DEVICE_GONE = 22,	   /* the device was removed or has failed (FI_ENODEV) */
	HMREG_TRANSPORT = 23,	   /* the NIC reports another failure, named in the log (FI_EIO) */
	HMREG_MEMORY = 24, /* the driver of accelerator memory failed, named in the log (FI_EIO) */
	/* Who may reach whom, which a target looks at before anything else: */
	HMREG_AUTH_KEY = 25,  /* the two sides have no authorization key in common (FI_EACCES) */
	HMREG_AUTH_PEER = 26, /* the region is for another peer or key (FI_EACCES) */
	/* Of a device's request (fi_xpu(3)), whose err says what a program's call would have returned: */
	HMREG_REFUSED = 27, /* not begun, for a reason that is named in the log (any) */
	HMREG_ERROR_LAST
};

/* Bytes of an authorization key, at most: fi_domain_attr, fi_ep_attr, fi_mr_attr, fi_av_insert_auth_key(3). */
#define HMREG_AUTH_KEY_MAX 64

/* Figures of a domain, a snapshot.  size is set by the caller to sizeof(struct hmreg_domain_stats). */
struct hmreg_domain_stats {
	size_t size;
	uint64_t regions;	   /* regions registered and not closed */
	uint64_t registered_bytes; /* sum of their lengths */
	uint64_t mapped_keys;	   /* raw keys mapped and not unmapped */
	uint64_t endpoints;
};

struct hmreg_verbs_domain; /* below */

/* Entries of hmreg_cache_stats.iface, by enum fi_hmem_iface. */
#define HMREG_CACHE_IFACES 6

/* Figures of a registration cache, or of that part of it which is memory of one interface. */
struct hmreg_cache_figures {
	uint64_t hits;		/* requests that a kept registration served */
	uint64_t misses;	/* requests that made one */
	uint64_t evictions;	/* ended to make room for others */
	uint64_t invalidations; /* ended because their memory changed */
	uint64_t unkept;	/* of the misses: registered for one operation alone */
	/* registered now and counted against the limits: what has ended, too, until the device gave it back */
	uint64_t entries, bytes;
};

/*
 * The registration cache of a domain, without locks: each figure is right by itself, but they are not of
 * one instant.  size is set by the caller to sizeof(struct hmreg_cache_stats).
 */
struct hmreg_cache_stats {
	size_t size;
	uint64_t since;	      /* seconds since 1970 when it was opened; 0: not used so far */
	uint64_t max_entries; /* limits; 0: nothing is kept */
	uint64_t max_bytes;   /* */
	char monitor[192];    /* what follows host memory, or "none: " and why */
	struct hmreg_cache_figures all;
	struct hmreg_cache_figures iface[HMREG_CACHE_IFACES];
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
	/* -FI_EINVAL; -FI_ENOSYS: the software NIC has none. */
	int (*verbs)(struct fid *domain, struct hmreg_verbs_domain *verbs);
	/* Figures of the registration cache.  -FI_EINVAL: NULL, size 0, not a domain. */
	int (*cache)(struct fid *domain, struct hmreg_cache_stats *stats);
};

/* Opaque here: struct ibv_context, ibv_pd and ibv_mr of infiniband/verbs.h. */
struct ibv_context;
struct ibv_pd;
struct ibv_mr;

/*
 * Flag of fi_mr_regattr(3): transfers to and from this region may be reordered inside the host
 * (PCIe relaxed ordering).  Fit for bulk data, not for a flag that a reader polls.  Never implied;
 * where the device has no such mode the region is ordered strictly, which is always right.
 */
#define HMREG_MR_RELAXED_ORDERING (1ULL << 60)

/*
 * Flag of fi_mr_regattr(3), for programs that register the same memory again and again: the region is out of
 * the domain's registration cache, and goes back there when it is closed.  Several regions over the same memory
 * with the same rights, ordering and page size share one registration, key and descriptor.  Both are valid
 * until the region is closed, whatever becomes of the memory; the key may stay valid after that, until memory
 * changes, or room or the domain's end asks for it, so that peers may reach what is not closed to them.  Where
 * FI_MR_VIRT_ADDR was agreed, the registration may be a wider one that this program asked for before with the
 * same rights.  Where nothing is kept (FI_MR_CACHE_MAX_COUNT=0, no monitor, memory whose driver does not tell),
 * each region has a registration of its own.  A dma-buf (FI_MR_DMABUF) is known again whatever its descriptor,
 * and held open while it is kept.
 * One range; not with base_mr, FI_RMA_EVENT, FI_MR_SINGLE_USE or authorization keys, and in domains with
 * FI_MR_PROV_KEY and without FI_MR_RAW and FI_MR_ENDPOINT: else -FI_EBADFLAGS or -FI_EINVAL.  Such a region
 * is bound to nothing and cannot be refreshed.
 */
#define HMREG_MR_CACHE (1ULL << 61)

/*
 * Flag of fi_sendmsg, fi_recvmsg, fi_readmsg, fi_writemsg and the fi_*atomicmsg calls: buffers of this call that
 * come without a descriptor are registered for it alone, whatever is kept registered of them, and nothing of
 * it is kept.  For memory that an allocator is about to give back, or that another cache looks after.
 */
#define HMREG_NO_CACHE (1ULL << 62)

/* ---- figures of caches in a file ---- */

/*
 * With HMREG_CACHE_STATS=FOLDER in its environment a process keeps the figures of its caches in a file
 * "hmreg-cache.PID" in that folder, from the first cache on until it exits: a header, and behind it
 * header.rows rows.  Whoever reads it reads a row twice, with some milliseconds between, and takes what has
 * the same state in both.
 */
#define HMREG_CACHE_FILE_MAGIC	 UINT64_C(0x6568636163726d68) /* "mhrcache", written last */
#define HMREG_CACHE_FILE_VERSION 1
#define HMREG_CACHE_FILE_ROWS	 128

struct hmreg_cache_file {
	uint64_t magic;
	uint32_t version;
	uint32_t header_size, row_size, rows;
	uint64_t pid;
	uint64_t started; /* when the process was, as the 22nd field of /proc/PID/stat */
	uint64_t updated; /* nanoseconds since 1970, when a figure changed last */
	uint64_t hidden;  /* caches for which there is no row */
	char monitor[192];
};

struct hmreg_cache_row {
	uint64_t state; /* 0: not in use; else another number for each cache */
	uint64_t since;
	uint64_t max_entries, max_bytes;
	char domain[64];
	struct hmreg_cache_figures all;
	struct hmreg_cache_figures iface[HMREG_CACHE_IFACES];
};

/* ---- devices ---- */

/* struct hmreg_device.can */
#define HMREG_CAN_DMABUF	     (1ULL << 0) /* as a trial of ibv_reg_dmabuf_mr showed; sw maps them */
#define HMREG_CAN_WINDOW_1	     (1ULL << 1) /* memory windows of type 1 */
#define HMREG_CAN_WINDOW_2A	     (1ULL << 2)
#define HMREG_CAN_WINDOW_2B	     (1ULL << 3)
#define HMREG_CAN_ON_DEMAND	     (1ULL << 4) /* on-demand paging, over reliable connections */
#define HMREG_CAN_ON_DEMAND_IMPLICIT (1ULL << 5) /* of the whole address space */
#define HMREG_CAN_ZERO_BASED	     (1ULL << 6) /* regions addressed from 0 (FI_MR_VIRT_ADDR unset) */
#define HMREG_CAN_RELAXED_ORDERING   (1ULL << 7)
#define HMREG_CAN_REREG		     (1ULL << 8)  /* ibv_rereg_mr */
#define HMREG_CAN_INDIRECT_KEYS	     (1ULL << 9)  /* one key over several regions, tried */
#define HMREG_CAN_ATOMICS	     (1ULL << 10) /* 8-byte fetch-add and compare-swap */
#define HMREG_CAN_SRQ		     (1ULL << 11)
#define HMREG_CAN_PREFETCH	     (1ULL << 12) /* ibv_advise_mr */
#define HMREG_CAN_ENDPOINTS	     (1ULL << 13) /* not set: the port is for registration alone */
#define HMREG_CAN_WINDOWS	     (1ULL << 14) /* sub-MRs are memory windows, tried */
#define HMREG_CAN_DMABUF_WINDOWS     (1ULL << 15) /* those of dma-bufs as well */

/* What a NIC port can do and how much.  Strings are constant and live as long as the process. */
struct hmreg_device {
	size_t size;	  /* set by the caller to sizeof(struct hmreg_device) */
	const char *name; /* as in fi_domain_attr.name */
	const char *kind; /* "verbs" or "sw" */
	const char *link; /* "RoCE v2", "InfiniBand", "iWARP", "unspecified", "in process", ... */
	const char *pci;  /* address in sysfs form, "" where there is none */
	/* why there is no HMREG_CAN_DMABUF; with it "", or what is taken beside dma-bufs */
	const char *dmabuf_reason;
	const char *path; /* IOMMU and ACS between the device and memory, as far as readable */
	uint32_t port;	  /* number on the device, from 1; 0: software */
	int gid_index;	  /* -1: none */
	uint64_t can;	  /* HMREG_CAN_* */
	int mr_mode;	  /* bits that the port needs */
	int mr_mode_kept; /* bits that it can do without, but keeps where a program offers them */
	uint64_t max_mr_size, max_mr, max_mw, max_qp, max_srq, max_cq, max_sge, max_qp_wr;
	uint64_t max_rd_atomic;
	const char *indirect_reason;  /* "" with HMREG_CAN_INDIRECT_KEYS, else why not */
	const char *endpoints_reason; /* "" with HMREG_CAN_ENDPOINTS, else why not and what to do */
	const char *windows_reason;   /* "" with HMREG_CAN_WINDOWS, else why not */
	enum hmreg_cause
		endpoints_cause; /* of endpoints_reason; HMREG_CAUSE_NONE with HMREG_CAN_ENDPOINTS */
};

/* Operations of a fabric: fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **) &ops, NULL). */
#define HMREG_FABRIC_OPS "hmreg_fabric_ops"

/* What a program has of a verbs device already.  Both stay the program's and outlive the domain. */
struct hmreg_verbs_adopt {
	size_t size;
	struct ibv_context *context; /* may be NULL: pd->context */
	struct ibv_pd *pd;	     /* may be NULL: the domain makes its own */
};

/* What tells registration caches that host memory changes. */
struct hmreg_cache_monitor {
	size_t size;
	int in_use;	  /* 0: it would be */
	char name[32];	  /* "" none: nothing is kept of host memory */
	char reason[192]; /* why none, "" */
};

struct hmreg_fabric_ops {
	size_t size;
	/*
	 * Describe the port that info (of fi_getinfo) stands for; fills what device->size covers.
	 * -FI_EINVAL, -FI_ENODEV: no such port.
	 */
	int (*device)(struct fid *fabric, const struct fi_info *info, struct hmreg_device *device);
	/*
	 * fi_domain(3) over an existing device context, or protection domain, or both.  Regions work with
	 * queue pairs that the program makes in that protection domain.  info must name the device.
	 * -FI_EINVAL: not a verbs port, another device, pd of another context; errors of fi_domain.
	 */
	int (*domain_over)(struct fid_fabric *fabric, struct fi_info *info,
			   const struct hmreg_verbs_adopt *verbs, struct fid_domain **domain,
			   void *context);
	/*
	 * What follows host memory for registration caches, in this process: the monitor in use, or that which
	 * would be, as a trial shows.  -FI_EINVAL.
	 */
	int (*cache_monitor)(struct fid *fabric, struct hmreg_cache_monitor *monitor);
	/*
	 * What calls of this thread were refused for, by this library, whatever object they were about: the
	 * oldest is index 0.  Kept until forgotten, the last few tens of all threads together.  A call that
	 * fails may leave several, as each way that was tried has its own; one that succeeds may, too.
	 * -FI_EINVAL; -FI_ENOENT: there are not so many.
	 */
	int (*refusal)(struct fid *fabric, size_t index, struct hmreg_refusal *refusal);
	/* Forget those of this thread.  -FI_EINVAL: not a fabric. */
	int (*forget)(struct fid *fabric);
};

/* ---- regions ---- */

enum hmreg_path {
	HMREG_PATH_SOFTWARE = 1, /* the software NIC: nothing is pinned */
	HMREG_PATH_HOST,	 /* ibv_reg_mr of host memory */
	HMREG_PATH_DMABUF,	 /* ibv_reg_dmabuf_mr */
	HMREG_PATH_PEER_MEMORY,	 /* ibv_reg_mr of device memory, through a kernel module */
	HMREG_PATH_COPY,	 /* the software NIC: the memory's interface copies */
	HMREG_PATH_MAPPED	 /* the software NIC: a dma-buf, mapped into this process */
};

#define HMREG_REGION_ON_DEMAND (1u << 0) /* pages are taken as they are used */
#define HMREG_REGION_RELAXED   (1u << 1) /* relaxed ordering is in force */
#define HMREG_REGION_REVOKED   (1u << 2) /* the device is gone; the key is dead, but not re-used */
#define HMREG_REGION_ZERO_BASE (1u << 3) /* addressed from 0 */
#define HMREG_REGION_WINDOW    (1u << 4) /* a sub-MR that is a memory window inside its base */

struct hmreg_region_info {
	size_t size;
	enum hmreg_path path;
	uint32_t state; /* HMREG_REGION_* */
	uint32_t parts; /* verbs regions, or windows, behind it; 0 on the software NIC */
	uint64_t len;
};

/* One verbs region behind a memory region. */
struct hmreg_verbs_part {
	size_t size;
	struct ibv_mr *mr; /* the library's, until the region is closed; of a window: its base's */
	uint32_t lkey, rkey;
	uint64_t iova;	 /* what a work request calls its first byte */
	uint64_t offset; /* of its first byte in the whole region */
	uint64_t len;
};

/* Operations of a region: fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **) &ops, NULL). */
#define HMREG_MR_OPS "hmreg_mr_ops"

struct hmreg_mr_ops {
	size_t size;
	/* -FI_EINVAL: NULL, size 0, not a region. */
	int (*info)(struct fid *mr, struct hmreg_region_info *info);
	/* part counts from 0.  -FI_ENOENT: there are not so many.  -FI_ENOSYS: a software region. */
	int (*verbs_part)(struct fid *mr, size_t part, struct hmreg_verbs_part *out);
};

/* The verbs objects of a domain; the library's unless adopted, valid until the domain is closed. */
struct hmreg_verbs_domain {
	size_t size;
	struct ibv_context *context;
	struct ibv_pd *pd;
};

/* ---- accelerator memory ---- */

/*
 * Operations of a fabric about the memory of accelerators:
 * fi_open_ops(&fabric->fid, HMREG_HMEM_OPS, 0, (void **) &ops, NULL).  All are thread safe, change no
 * current device or context of the calling thread, and return 0 or a negative FI_E code.  The first call
 * about an interface loads its driver.  Strings are constant and live as long as the process.
 */
#define HMREG_HMEM_OPS "hmreg_hmem_ops"

/* One of enum fi_hmem_iface on this machine. */
struct hmreg_hmem_iface {
	size_t size;
	const char *name;	/* "cuda" */
	const char *driver;	/* the library that was loaded, or would have been */
	const char *version;	/* as the driver tells it, "" unknown */
	const char *reason;	/* why it cannot be used, "" if it can */
	size_t devices;		/* 0 with a reason */
	enum hmreg_cause cause; /* of reason; HMREG_CAUSE_NONE: it can be used */
};

struct hmreg_hmem_device {
	size_t size;
	int id; /* as fi_mr_attr.device has it */
	char name[64];
	char pci[16];		/* "" unknown */
	uint64_t memory;	/* bytes */
	uint64_t window;	/* bytes that other PCI devices can address at once; 0 unknown */
	uint64_t window_free;	/* of these, not taken yet; UINT64_MAX unknown */
	int dmabuf;		/* its memory can be exported */
	char dmabuf_reason[96]; /* why not, "" if it can */
	enum hmreg_cause dmabuf_cause; /* of dmabuf_reason; HMREG_CAUSE_NONE: it can */
};

/* What an address is. */
struct hmreg_hmem_memory {
	size_t size;
	enum fi_hmem_iface iface; /* FI_HMEM_SYSTEM: host memory that no driver knows */
	int device;		  /* -1: the host's */
	const char *kind;	  /* "device", "host", "managed", "mapped", "pool", ... */
	int host_access;	  /* the host may load and store it */
	uint64_t base, len;	  /* the allocation, over all its segments */
	uint32_t segments;	  /* that the range touches */
	uint64_t id;		  /* changes when the address is allocated anew; 0: not told */
	const char *reason;	  /* why it cannot be exported, where it cannot, "" */
	enum hmreg_cause cause;	  /* of reason */
};

/* How a NIC would reach the memory of a device. */
struct hmreg_hmem_path {
	size_t size;
	enum hmreg_path path;	/* the first that would be tried; 0: none */
	int dmabuf, peer, copy; /* what the two of them can, as far as is known without trying */
	char dmabuf_reason[128], peer_reason[128], copy_reason[128]; /* why not, "" */
	enum hmreg_cause cause; /* why path is 0; HMREG_CAUSE_NONE: it is not */
};

enum hmreg_hmem_kind {
	HMREG_HMEM_DEVICE,
	HMREG_HMEM_HOST,
	HMREG_HMEM_MANAGED,
	HMREG_HMEM_PRIVATE /* a device's, where memory is exportable only if asked for, and without asking */
};

struct hmreg_hmem_ops {
	size_t size;
	/* -FI_EINVAL: no such interface.  An absent driver is no error: reason tells. */
	int (*iface)(struct fid *fabric, enum fi_hmem_iface iface, struct hmreg_hmem_iface *out);
	/* index counts from 0.  -FI_ENODEV: there are not so many; -FI_ENOSYS: no driver. */
	int (*device)(struct fid *fabric, enum fi_hmem_iface iface, size_t index,
		      struct hmreg_hmem_device *out);
	/* Asks every driver that is there.  -FI_EINVAL: [addr, addr + len) is not of one owner. */
	int (*query)(struct fid *fabric, const void *addr, size_t len,
		     struct hmreg_hmem_memory *out);
	/* info is one of fi_getinfo, and stands for the NIC. */
	int (*path)(struct fid *fabric, const struct fi_info *info, enum fi_hmem_iface iface,
		    int device, struct hmreg_hmem_path *out);
	/* Memory for tools and tests; free with the same arguments.  -FI_ENOSYS: the driver has none. */
	int (*alloc)(struct fid *fabric, enum fi_hmem_iface iface, int device,
		     enum hmreg_hmem_kind kind, size_t len, void **addr);
	int (*free)(struct fid *fabric, enum fi_hmem_iface iface, int device,
		    enum hmreg_hmem_kind kind, void *addr);
	/*
	 * Copy between any two places, each the host's or a device's; done when it returns.  -FI_EFAULT: not
	 * mapped; -FI_EIO: the driver failed.
	 */
	int (*copy)(struct fid *fabric, void *dst, const void *src, size_t len);
	/* Of the process: dma-bufs exported so far, found again, and open now. */
	int (*exports)(struct fid *fabric, uint64_t *made, uint64_t *shared, uint64_t *open);
};

#ifdef __cplusplus
}
#endif

#include <rdma/fi_ext_hmreg_multi.h>
#include <rdma/fi_ext_hmreg_topology.h>

#endif
