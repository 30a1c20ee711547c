/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Constants of the fabric interface that every other header shares: capabilities, flags, modes,
 * address formats, protocols and object classes. Programs include <rdma/fabric.h>.
 */
#ifndef FI_CONST_H
#define FI_CONST_H

#include <stdint.h>

/*
 * Names that the interface keeps for old programs only. They compile without a word unless the
 * program defines FI_WARN_DEPRECATED before it includes this header.
 */
#if defined(FI_WARN_DEPRECATED) && defined(__GNUC__)
#define FI_DEPRECATED_NAME __attribute__((deprecated))
#else
#define FI_DEPRECATED_NAME
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifdef FI_WARN_DEPRECATED
enum {
	fi_deprecated_constant FI_DEPRECATED_NAME = 0
};
#define FI_DEPRECATED_VALUE(value) ((value) + fi_deprecated_constant)
#else
#define FI_DEPRECATED_VALUE(value) (value)
#endif

/* Set in a value that only one provider understands. */
#define FI_PROV_SPECIFIC (1U << 31)

/*
 * One 64-bit space holds capabilities, operation flags and mode bits. Bits shared by several calls
 * grow from 0 upwards, those of a single call or class from 59 downwards; 60 and above belong to
 * providers.
 */

/* Capabilities. fi_getinfo(3) */
#define FI_MSG	      (1ULL << 1)
#define FI_RMA	      (1ULL << 2)
#define FI_TAGGED     (1ULL << 3)
#define FI_ATOMIC     (1ULL << 4)
#define FI_ATOMICS    FI_ATOMIC
#define FI_MULTICAST  (1ULL << 5)
#define FI_COLLECTIVE (1ULL << 6)

/* Directions, as capabilities and as the access rights of a memory region. fi_mr(3) */
#define FI_READ		(1ULL << 8)
#define FI_WRITE	(1ULL << 9)
#define FI_RECV		(1ULL << 10)
#define FI_SEND		(1ULL << 11)
#define FI_TRANSMIT	FI_SEND
#define FI_REMOTE_READ	(1ULL << 12)
#define FI_REMOTE_WRITE (1ULL << 13)

/* Operation and completion flags. fi_endpoint(3), fi_cq(3) */
#define FI_MULTI_RECV	     (1ULL << 16)
#define FI_REMOTE_CQ_DATA    (1ULL << 17)
#define FI_MORE		     (1ULL << 18)
#define FI_PEEK		     (1ULL << 19)
#define FI_TRIGGER	     (1ULL << 20)
#define FI_FENCE	     (1ULL << 21)
#define FI_COMPLETION	     (1ULL << 24)
#define FI_EVENT	     FI_COMPLETION
#define FI_INJECT	     (1ULL << 25)
#define FI_INJECT_COMPLETE   (1ULL << 26)
#define FI_TRANSMIT_COMPLETE (1ULL << 27)
#define FI_DELIVERY_COMPLETE (1ULL << 28)
#define FI_AFFINITY	     (1ULL << 29)
#define FI_COMMIT_COMPLETE   (1ULL << 30)
#define FI_MATCH_COMPLETE    (1ULL << 31)

/* Secondary capabilities and the flags of fi_getinfo(). fi_getinfo(3) */
#define FI_RESCAN		(1ULL << 35)
#define FI_PEER_TRANSFER	(1ULL << 36)
#define FI_AV_USER_ID		(1ULL << 41)
#define FI_FIREWALL_ADDR	(1ULL << 42)
#define FI_PEER			(1ULL << 43)
#define FI_XPU			(1ULL << 44)
#define FI_TAGGED_DIRECTED_RECV (1ULL << 45)
#define FI_TAGGED_MULTI_RECV	(1ULL << 46)
#define FI_HMEM			(1ULL << 47)
#define FI_EXACT_DIRECTED_RECV	(1ULL << 48)
#define FI_RMA_PMEM		(1ULL << 49)
#define FI_SOURCE_ERR		(1ULL << 50)
#define FI_LOCAL_COMM		(1ULL << 51)
#define FI_REMOTE_COMM		(1ULL << 52)
#define FI_SHARED_AV		(1ULL << 53)
#define FI_PROV_ATTR_ONLY	(1ULL << 54)
#define FI_NUMERICHOST		(1ULL << 55)
#define FI_RMA_EVENT		(1ULL << 56)
#define FI_SOURCE		(1ULL << 57)
#define FI_NAMED_RX_CTX		(1ULL << 58)
#define FI_DIRECTED_RECV	(1ULL << 59)
#define FI_VARIABLE_MSG		FI_DEPRECATED_VALUE(0ULL) /* withdrawn from the interface */

/* Tagged and buffered receives. fi_tagged(3) */
#define FI_CLAIM   (1ULL << 59)
#define FI_DISCARD (1ULL << 58)

/* Registration limited to one authorization key. fi_mr(3) */
#define FI_AUTH_KEY (1ULL << 57)

/* Address formats, for struct fi_info and address vectors. fi_av(3) */
enum {
	FI_FORMAT_UNSPEC,
	FI_SOCKADDR,	 /* struct sockaddr */
	FI_SOCKADDR_IN,	 /* struct sockaddr_in */
	FI_SOCKADDR_IN6, /* struct sockaddr_in6 */
	FI_SOCKADDR_IB,	 /* struct sockaddr_ib */
	FI_ADDR_PSMX,
	FI_ADDR_GNI,
	FI_ADDR_BGQ,
	FI_ADDR_MLX,
	FI_ADDR_STR, /* NUL-terminated text: scheme://... */
	FI_ADDR_PSMX2,
	FI_ADDR_IB_UD,
	FI_ADDR_EFA,
	FI_ADDR_PSMX3,
	FI_ADDR_OPX,
	FI_ADDR_CXI,
	FI_ADDR_UCX,
	FI_SOCKADDR_IP /* struct sockaddr_in or sockaddr_in6 */
};

/* A peer as an address vector names it: an index (FI_AV_TABLE) or an opaque value (FI_AV_MAP). */
typedef uint64_t fi_addr_t;

#define FI_ADDR_UNSPEC	  ((uint64_t)-1) /* any peer */
#define FI_ADDR_NOTAVAIL  ((uint64_t)-1) /* no address known */
#define FI_KEY_NOTAVAIL	  ((uint64_t)-1) /* the region has no 64-bit key (yet) */
#define FI_SHARED_CONTEXT SIZE_MAX	 /* tx_ctx_cnt, rx_ctx_cnt: use a shared context */
#define FI_AV_AUTH_KEY	  SIZE_MAX	 /* auth_key_size: keys come from the address vector */

enum fi_av_type {
	FI_AV_UNSPEC,
	FI_AV_MAP,
	FI_AV_TABLE
};

/*
 * Memory registration modes. In hints a bit says "I can do this", in a result "you must do this".
 * FI_MR_BASIC and FI_MR_SCALABLE are the two models of interface versions below 1.5, never combined
 * with other bits. fi_mr(3), fi_domain(3)
 */
enum fi_mr_mode {
	FI_MR_UNSPEC FI_DEPRECATED_NAME = 0,
	FI_MR_BASIC FI_DEPRECATED_NAME = 1,
	FI_MR_SCALABLE FI_DEPRECATED_NAME = 2
};
#define FI_MR_LOCAL	 (1 << 2)  /* local buffers need a descriptor */
#define FI_MR_RAW	 (1 << 3)  /* keys longer than 64 bits: fi_mr_raw_attr() */
#define FI_MR_VIRT_ADDR	 (1 << 4)  /* peers address by virtual address, else by offset from 0 */
#define FI_MR_ALLOCATED	 (1 << 5)  /* pages must exist when registered */
#define FI_MR_PROV_KEY	 (1 << 6)  /* the provider chooses keys */
#define FI_MR_MMU_NOTIFY (1 << 7)  /* fi_mr_refresh() after page changes */
#define FI_MR_RMA_EVENT	 (1 << 8)  /* regions with counters are enabled by fi_mr_enable() */
#define FI_MR_ENDPOINT	 (1 << 9)  /* regions are bound to an endpoint, then enabled */
#define FI_MR_HMEM	 (1 << 10) /* device memory must be registered with its interface named */
#define FI_MR_COLLECTIVE (1 << 11) /* regions for collectives need FI_COLLECTIVE */
#define FI_MR_XPU_DESC	 (1 << 12) /* device-initiated transfers need fi_mr_get_xpu_desc() */

/* Who drives progress: the provider, or the application by reading its queues. fi_domain(3) */
enum fi_progress {
	FI_PROGRESS_UNSPEC,
	FI_PROGRESS_AUTO,
	FI_PROGRESS_MANUAL,
	FI_PROGRESS_CONTROL_UNIFIED
};

/* What the application promises to serialise itself. fi_domain(3) */
enum fi_threading {
	FI_THREAD_UNSPEC,
	FI_THREAD_SAFE,
	FI_THREAD_FID,
	FI_THREAD_DOMAIN,
	FI_THREAD_COMPLETION,
	FI_THREAD_ENDPOINT
};

/* Whether the provider guards queues against overrun. fi_domain(3) */
enum fi_resource_mgmt {
	FI_RM_UNSPEC,
	FI_RM_DISABLED,
	FI_RM_ENABLED
};

/* Message order: the second letter's operation stays behind the first's. fi_endpoint(3) */
#define FI_ORDER_NONE	    0ULL
#define FI_ORDER_RAR	    (1ULL << 0)
#define FI_ORDER_RAW	    (1ULL << 1)
#define FI_ORDER_RAS	    (1ULL << 2)
#define FI_ORDER_WAR	    (1ULL << 3)
#define FI_ORDER_WAW	    (1ULL << 4)
#define FI_ORDER_WAS	    (1ULL << 5)
#define FI_ORDER_SAR	    (1ULL << 6)
#define FI_ORDER_SAW	    (1ULL << 7)
#define FI_ORDER_SAS	    (1ULL << 8)
#define FI_ORDER_STRICT	    0x1FF
#define FI_ORDER_DATA	    (1ULL << 16)
#define FI_ORDER_RMA_RAR    (1ULL << 32)
#define FI_ORDER_RMA_RAW    (1ULL << 33)
#define FI_ORDER_RMA_WAR    (1ULL << 34)
#define FI_ORDER_RMA_WAW    (1ULL << 35)
#define FI_ORDER_ATOMIC_RAR (1ULL << 36)
#define FI_ORDER_ATOMIC_RAW (1ULL << 37)
#define FI_ORDER_ATOMIC_WAR (1ULL << 38)
#define FI_ORDER_ATOMIC_WAW (1ULL << 39)

enum fi_ep_type {
	FI_EP_UNSPEC,
	FI_EP_MSG,   /* connected, reliable */
	FI_EP_DGRAM, /* connectionless, unreliable */
	FI_EP_RDM    /* connectionless, reliable */
};
#define FI_EP_SOCK_STREAM FI_DEPRECATED_VALUE(0) /* withdrawn from the interface */

/* First values past the point-to-point atomic types and operations of old interface versions. */
#define FI_DATATYPE_LAST  FI_DEPRECATED_VALUE(14)
#define FI_ATOMIC_OP_LAST FI_DEPRECATED_VALUE(19)

/* Wire protocols: endpoints of the same protocol and version can talk to each other. */
enum {
	FI_PROTO_UNSPEC,
	FI_PROTO_RDMA_CM_IB_RC,
	FI_PROTO_IWARP,
	FI_PROTO_IB_UD,
	FI_PROTO_PSMX,
	FI_PROTO_UDP,
	FI_PROTO_SOCK_TCP,
	FI_PROTO_MXM,
	FI_PROTO_IWARP_RDM,
	FI_PROTO_IB_RDM,
	FI_PROTO_GNI,
	FI_PROTO_RXM,
	FI_PROTO_RXD,
	FI_PROTO_MLX,
	FI_PROTO_NETWORKDIRECT,
	FI_PROTO_PSMX2,
	FI_PROTO_SHM,
	FI_PROTO_MRAIL,
	FI_PROTO_RSTREAM,
	FI_PROTO_RDMA_CM_IB_XRC,
	FI_PROTO_EFA,
	FI_PROTO_PSMX3,
	FI_PROTO_RXM_TCP,
	FI_PROTO_OPX,
	FI_PROTO_CXI,
	FI_PROTO_XNET,
	FI_PROTO_COLL,
	FI_PROTO_UCX,
	FI_PROTO_SM2,
	FI_PROTO_CXI_RNR,
	FI_PROTO_LPP,
	FI_PROTO_LNX
};

/* Traffic classes, or a DSCP value through fi_tc_dscp_set(). fi_endpoint(3) */
enum {
	FI_TC_UNSPEC = 0,
	FI_TC_DSCP = 0x100,
	FI_TC_LABEL = 0x200,
	FI_TC_BEST_EFFORT = FI_TC_LABEL,
	FI_TC_LOW_LATENCY,
	FI_TC_DEDICATED_ACCESS,
	FI_TC_BULK_DATA,
	FI_TC_SCAVENGER,
	FI_TC_NETWORK_CTRL
};

/* Layouts of mem_tag_format below FI_TAG_MAX_FORMAT; larger values are bit patterns. */
enum {
	FI_TAG_BITS,
	FI_TAG_MPI,
	FI_TAG_CCL,
	FI_TAG_MAX_FORMAT = 1 << 16
};

/* Mode bits: what the provider asks of the application. fi_getinfo(3) */
#define FI_CONTEXT	     (1ULL << 59) /* every operation brings a struct fi_context */
#define FI_MSG_PREFIX	     (1ULL << 58)
#define FI_ASYNC_IOV	     (1ULL << 57)
#define FI_RX_CQ_DATA	     (1ULL << 56)
#define FI_LOCAL_MR	     FI_DEPRECATED_VALUE(1ULL << 55) /* FI_MR_LOCAL since interface 1.5 */
#define FI_NOTIFY_FLAGS_ONLY FI_DEPRECATED_VALUE(0ULL)	     /* withdrawn from the interface */
#define FI_RESTRICTED_COMP   FI_DEPRECATED_VALUE(0ULL)	     /* withdrawn from the interface */
#define FI_CONTEXT2	     (1ULL << 52) /* every operation brings a struct fi_context2 */

/* Kinds of object, the value of struct fid's fclass. */
enum {
	FI_CLASS_UNSPEC,
	FI_CLASS_FABRIC,
	FI_CLASS_DOMAIN,
	FI_CLASS_EP,
	FI_CLASS_SEP,
	FI_CLASS_RX_CTX,
	FI_CLASS_SRX_CTX,
	FI_CLASS_TX_CTX,
	FI_CLASS_STX_CTX,
	FI_CLASS_PEP,
	FI_CLASS_INTERFACE,
	FI_CLASS_AV,
	FI_CLASS_MR,
	FI_CLASS_EQ,
	FI_CLASS_CQ,
	FI_CLASS_CNTR,
	FI_CLASS_WAIT,
	FI_CLASS_POLL,
	FI_CLASS_CONNREQ,
	FI_CLASS_MC,
	FI_CLASS_NIC,
	FI_CLASS_AV_SET,
	FI_CLASS_MR_CACHE,
	FI_CLASS_MEM_MONITOR,
	FI_CLASS_PEER_CQ,
	FI_CLASS_PEER_SRX,
	FI_CLASS_LOG,
	FI_CLASS_PEER_AV,
	FI_CLASS_PEER_AV_SET,
	FI_CLASS_PEER_CNTR,
	FI_CLASS_PROFILE,
	FI_CLASS_XPU_CTX
};

/* Binding flag: complete only what asks for FI_COMPLETION. fi_endpoint(3) */
#define FI_SELECTIVE_COMPLETION (1ULL << 59)

#ifdef __cplusplus
}
#endif

#endif /* FI_CONST_H */
