/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of the interface's flags and enumerators, by the field they are used in. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_trigger.h>

#include "core/tostr_priv.h"

#define N(constant)                                                                                \
	{                                                                                          \
		(uint64_t)(constant), #constant                                                    \
	}
#define NAMES(set)                                                                                 \
	const struct hm_names hm_names_##set = { set##_table,                                      \
						 sizeof(set##_table) / sizeof(set##_table[0]) }

const char *hm_name_of(const struct hm_names *names, uint64_t value)
{
	for (size_t i = 0; i < names->count; i++) {
		if (names->names[i].value == value)
			return names->names[i].name;
	}
	return NULL;
}

static const struct hm_name caps_table[] = {
	N(FI_MSG),
	N(FI_RMA),
	N(FI_TAGGED),
	N(FI_ATOMIC),
	N(FI_MULTICAST),
	N(FI_COLLECTIVE),
	N(FI_READ),
	N(FI_WRITE),
	N(FI_RECV),
	N(FI_SEND),
	N(FI_REMOTE_READ),
	N(FI_REMOTE_WRITE),
	N(FI_MULTI_RECV),
	N(FI_REMOTE_CQ_DATA),
	N(FI_MORE),
	N(FI_PEEK),
	N(FI_TRIGGER),
	N(FI_FENCE),
	N(FI_AV_USER_ID),
	N(FI_FIREWALL_ADDR),
	N(FI_PEER),
	N(FI_XPU),
	N(FI_TAGGED_DIRECTED_RECV),
	N(FI_TAGGED_MULTI_RECV),
	N(FI_HMEM),
	N(FI_EXACT_DIRECTED_RECV),
	N(FI_RMA_PMEM),
	N(FI_SOURCE_ERR),
	N(FI_LOCAL_COMM),
	N(FI_REMOTE_COMM),
	N(FI_SHARED_AV),
	N(FI_RMA_EVENT),
	N(FI_SOURCE),
	N(FI_NAMED_RX_CTX),
	N(FI_DIRECTED_RECV),
};
NAMES(caps);

static const struct hm_name mode_table[] = {
	N(FI_CONTEXT),	  N(FI_MSG_PREFIX), N(FI_ASYNC_IOV),
	N(FI_RX_CQ_DATA), N(FI_LOCAL_MR),   N(FI_CONTEXT2),
};
NAMES(mode);

static const struct hm_name mr_mode_table[] = {
	N(FI_MR_BASIC),	    N(FI_MR_SCALABLE),	N(FI_MR_LOCAL),	   N(FI_MR_RAW),
	N(FI_MR_VIRT_ADDR), N(FI_MR_ALLOCATED), N(FI_MR_PROV_KEY), N(FI_MR_MMU_NOTIFY),
	N(FI_MR_RMA_EVENT), N(FI_MR_ENDPOINT),	N(FI_MR_HMEM),	   N(FI_MR_COLLECTIVE),
	N(FI_MR_XPU_DESC),
};
NAMES(mr_mode);

/* Flags of operations and of calls in general: kinds of transfer, then what modifies them. */
static const struct hm_name op_flags_table[] = {
	N(FI_MSG),
	N(FI_RMA),
	N(FI_TAGGED),
	N(FI_ATOMIC),
	N(FI_MULTICAST),
	N(FI_COLLECTIVE),
	N(FI_READ),
	N(FI_WRITE),
	N(FI_RECV),
	N(FI_SEND),
	N(FI_REMOTE_READ),
	N(FI_REMOTE_WRITE),
	N(FI_MULTI_RECV),
	N(FI_REMOTE_CQ_DATA),
	N(FI_MORE),
	N(FI_PEEK),
	N(FI_TRIGGER),
	N(FI_FENCE),
	N(FI_XPU),
	N(FI_COMPLETION),
	N(FI_INJECT),
	N(FI_INJECT_COMPLETE),
	N(FI_TRANSMIT_COMPLETE),
	N(FI_DELIVERY_COMPLETE),
	N(FI_AFFINITY),
	N(FI_COMMIT_COMPLETE),
	N(FI_MATCH_COMPLETE),
	N(FI_RESCAN),
	N(FI_PEER_TRANSFER),
	N(FI_MR_DMABUF),
	N(FI_MR_SINGLE_USE),
	N(FI_HMEM_HOST_ALLOC),
	N(FI_HMEM_DEVICE_ONLY),
	N(FI_RMA_EVENT),
	N(FI_AUTH_KEY),
	N(FI_DISCARD),
	N(FI_CLAIM),
};
NAMES(op_flags);

static const struct hm_name cq_flags_table[] = {
	N(FI_MSG),	   N(FI_RMA),
	N(FI_TAGGED),	   N(FI_ATOMIC),
	N(FI_MULTICAST),   N(FI_COLLECTIVE),
	N(FI_READ),	   N(FI_WRITE),
	N(FI_RECV),	   N(FI_SEND),
	N(FI_REMOTE_READ), N(FI_REMOTE_WRITE),
	N(FI_MULTI_RECV),  N(FI_REMOTE_CQ_DATA),
	N(FI_MORE),	   N(FI_COMPLETION),
	N(FI_CLAIM),
};
NAMES(cq_flags);

static const struct hm_name av_flags_table[] = {
	N(FI_READ),	N(FI_EVENT),	N(FI_AV_USER_ID), N(FI_PEER),
	N(FI_UNIVERSE), N(FI_SYNC_ERR), N(FI_SYMMETRIC),
};
NAMES(av_flags);

#define ORDER_NAMES                                                                                \
	N(FI_ORDER_RAR), N(FI_ORDER_RAW), N(FI_ORDER_RAS), N(FI_ORDER_WAR), N(FI_ORDER_WAW),       \
		N(FI_ORDER_WAS), N(FI_ORDER_SAR), N(FI_ORDER_SAW), N(FI_ORDER_SAS)

static const struct hm_name msg_order_table[] = {
	ORDER_NAMES,
	N(FI_ORDER_DATA),
	N(FI_ORDER_RMA_RAR),
	N(FI_ORDER_RMA_RAW),
	N(FI_ORDER_RMA_WAR),
	N(FI_ORDER_RMA_WAW),
	N(FI_ORDER_ATOMIC_RAR),
	N(FI_ORDER_ATOMIC_RAW),
	N(FI_ORDER_ATOMIC_WAR),
	N(FI_ORDER_ATOMIC_WAW),
};
NAMES(msg_order);

/* FI_ORDER_STRICT is several bits, so it comes before the names of each of them. */
static const struct hm_name comp_order_table[] = {
	N(FI_ORDER_NONE),
	N(FI_ORDER_STRICT),
	ORDER_NAMES,
	N(FI_ORDER_DATA),
};
NAMES(comp_order);

static const struct hm_name ep_type_table[] = {
	N(FI_EP_UNSPEC),
	N(FI_EP_MSG),
	N(FI_EP_DGRAM),
	N(FI_EP_RDM),
};
NAMES(ep_type);

static const struct hm_name addr_format_table[] = {
	N(FI_FORMAT_UNSPEC), N(FI_SOCKADDR),	N(FI_SOCKADDR_IN), N(FI_SOCKADDR_IN6),
	N(FI_SOCKADDR_IB),   N(FI_ADDR_PSMX),	N(FI_ADDR_GNI),	   N(FI_ADDR_BGQ),
	N(FI_ADDR_MLX),	     N(FI_ADDR_STR),	N(FI_ADDR_PSMX2),  N(FI_ADDR_IB_UD),
	N(FI_ADDR_EFA),	     N(FI_ADDR_PSMX3),	N(FI_ADDR_OPX),	   N(FI_ADDR_CXI),
	N(FI_ADDR_UCX),	     N(FI_SOCKADDR_IP),
};
NAMES(addr_format);

static const struct hm_name protocol_table[] = {
	N(FI_PROTO_UNSPEC),	   N(FI_PROTO_RDMA_CM_IB_RC),
	N(FI_PROTO_IWARP),	   N(FI_PROTO_IB_UD),
	N(FI_PROTO_PSMX),	   N(FI_PROTO_UDP),
	N(FI_PROTO_SOCK_TCP),	   N(FI_PROTO_MXM),
	N(FI_PROTO_IWARP_RDM),	   N(FI_PROTO_IB_RDM),
	N(FI_PROTO_GNI),	   N(FI_PROTO_RXM),
	N(FI_PROTO_RXD),	   N(FI_PROTO_MLX),
	N(FI_PROTO_NETWORKDIRECT), N(FI_PROTO_PSMX2),
	N(FI_PROTO_SHM),	   N(FI_PROTO_MRAIL),
	N(FI_PROTO_RSTREAM),	   N(FI_PROTO_RDMA_CM_IB_XRC),
	N(FI_PROTO_EFA),	   N(FI_PROTO_PSMX3),
	N(FI_PROTO_RXM_TCP),	   N(FI_PROTO_OPX),
	N(FI_PROTO_CXI),	   N(FI_PROTO_XNET),
	N(FI_PROTO_COLL),	   N(FI_PROTO_UCX),
	N(FI_PROTO_SM2),	   N(FI_PROTO_CXI_RNR),
	N(FI_PROTO_LPP),	   N(FI_PROTO_LNX),
};
NAMES(protocol);

static const struct hm_name threading_table[] = {
	N(FI_THREAD_UNSPEC), N(FI_THREAD_SAFE),	      N(FI_THREAD_FID),
	N(FI_THREAD_DOMAIN), N(FI_THREAD_COMPLETION), N(FI_THREAD_ENDPOINT),
};
NAMES(threading);

static const struct hm_name progress_table[] = {
	N(FI_PROGRESS_UNSPEC),
	N(FI_PROGRESS_AUTO),
	N(FI_PROGRESS_MANUAL),
	N(FI_PROGRESS_CONTROL_UNIFIED),
};
NAMES(progress);

static const struct hm_name resource_mgmt_table[] = {
	N(FI_RM_UNSPEC),
	N(FI_RM_DISABLED),
	N(FI_RM_ENABLED),
};
NAMES(resource_mgmt);

static const struct hm_name av_type_table[] = {
	N(FI_AV_UNSPEC),
	N(FI_AV_MAP),
	N(FI_AV_TABLE),
};
NAMES(av_type);

static const struct hm_name datatype_table[] = {
	N(FI_INT8),	     N(FI_UINT8),
	N(FI_INT16),	     N(FI_UINT16),
	N(FI_INT32),	     N(FI_UINT32),
	N(FI_INT64),	     N(FI_UINT64),
	N(FI_FLOAT),	     N(FI_DOUBLE),
	N(FI_FLOAT_COMPLEX), N(FI_DOUBLE_COMPLEX),
	N(FI_LONG_DOUBLE),   N(FI_LONG_DOUBLE_COMPLEX),
	N(FI_INT128),	     N(FI_UINT128),
	N(FI_FLOAT16),	     N(FI_BFLOAT16),
	N(FI_FLOAT8_E4M3),   N(FI_FLOAT8_E5M2),
	N(FI_VOID),
};
NAMES(datatype);

static const struct hm_name atomic_op_table[] = {
	N(FI_MIN),	   N(FI_MAX),	       N(FI_SUM),      N(FI_PROD),     N(FI_LOR),
	N(FI_LAND),	   N(FI_BOR),	       N(FI_BAND),     N(FI_LXOR),     N(FI_BXOR),
	N(FI_ATOMIC_READ), N(FI_ATOMIC_WRITE), N(FI_CSWAP),    N(FI_CSWAP_NE), N(FI_CSWAP_LE),
	N(FI_CSWAP_LT),	   N(FI_CSWAP_GE),     N(FI_CSWAP_GT), N(FI_MSWAP),    N(FI_DIFF),
	N(FI_NOOP),
};
NAMES(atomic_op);

static const struct hm_name eq_event_table[] = {
	N(FI_NOTIFY),	   N(FI_CONNREQ),     N(FI_CONNECTED),	   N(FI_SHUTDOWN),
	N(FI_MR_COMPLETE), N(FI_AV_COMPLETE), N(FI_JOIN_COMPLETE),
};
NAMES(eq_event);

static const struct hm_name op_type_table[] = {
	N(FI_OP_RECV),		 N(FI_OP_SEND),	    N(FI_OP_TRECV),    N(FI_OP_TSEND),
	N(FI_OP_READ),		 N(FI_OP_WRITE),    N(FI_OP_ATOMIC),   N(FI_OP_FETCH_ATOMIC),
	N(FI_OP_COMPARE_ATOMIC), N(FI_OP_CNTR_SET), N(FI_OP_CNTR_ADD),
};
NAMES(op_type);

static const struct hm_name collective_op_table[] = {
	N(FI_BARRIER),	      N(FI_BROADCAST), N(FI_ALLTOALL), N(FI_ALLREDUCE), N(FI_ALLGATHER),
	N(FI_REDUCE_SCATTER), N(FI_REDUCE),    N(FI_SCATTER),  N(FI_GATHER),
};
NAMES(collective_op);

static const struct hm_name hmem_iface_table[] = {
	N(FI_HMEM_SYSTEM), N(FI_HMEM_CUDA),   N(FI_HMEM_ROCR),
	N(FI_HMEM_ZE),	   N(FI_HMEM_NEURON), N(FI_HMEM_SYNAPSEAI),
};
NAMES(hmem_iface);

static const struct hm_name cq_format_table[] = {
	N(FI_CQ_FORMAT_UNSPEC), N(FI_CQ_FORMAT_CONTEXT), N(FI_CQ_FORMAT_MSG),
	N(FI_CQ_FORMAT_DATA),	N(FI_CQ_FORMAT_TAGGED),
};
NAMES(cq_format);

static const struct hm_name wait_cond_table[] = {
	N(FI_CQ_COND_NONE),
	N(FI_CQ_COND_THRESHOLD),
};
NAMES(wait_cond);

static const struct hm_name wait_obj_table[] = {
	N(FI_WAIT_NONE),       N(FI_WAIT_UNSPEC), N(FI_WAIT_SET),    N(FI_WAIT_FD),
	N(FI_WAIT_MUTEX_COND), N(FI_WAIT_YIELD),  N(FI_WAIT_POLLFD),
};
NAMES(wait_obj);

static const struct hm_name cntr_events_table[] = {
	N(FI_CNTR_EVENTS_COMP),
	N(FI_CNTR_EVENTS_BYTES),
};
NAMES(cntr_events);

static const struct hm_name bus_type_table[] = {
	N(FI_BUS_UNKNOWN),
	N(FI_BUS_PCI),
};
NAMES(bus_type);

static const struct hm_name link_state_table[] = {
	N(FI_LINK_UNKNOWN),
	N(FI_LINK_DOWN),
	N(FI_LINK_UP),
};
NAMES(link_state);

static const struct hm_name class_table[] = {
	N(FI_CLASS_UNSPEC),  N(FI_CLASS_FABRIC),      N(FI_CLASS_DOMAIN),
	N(FI_CLASS_EP),	     N(FI_CLASS_SEP),	      N(FI_CLASS_RX_CTX),
	N(FI_CLASS_SRX_CTX), N(FI_CLASS_TX_CTX),      N(FI_CLASS_STX_CTX),
	N(FI_CLASS_PEP),     N(FI_CLASS_INTERFACE),   N(FI_CLASS_AV),
	N(FI_CLASS_MR),	     N(FI_CLASS_EQ),	      N(FI_CLASS_CQ),
	N(FI_CLASS_CNTR),    N(FI_CLASS_WAIT),	      N(FI_CLASS_POLL),
	N(FI_CLASS_CONNREQ), N(FI_CLASS_MC),	      N(FI_CLASS_NIC),
	N(FI_CLASS_AV_SET),  N(FI_CLASS_MR_CACHE),    N(FI_CLASS_MEM_MONITOR),
	N(FI_CLASS_PEER_CQ), N(FI_CLASS_PEER_SRX),    N(FI_CLASS_LOG),
	N(FI_CLASS_PEER_AV), N(FI_CLASS_PEER_AV_SET), N(FI_CLASS_PEER_CNTR),
	N(FI_CLASS_PROFILE), N(FI_CLASS_XPU_CTX),
};
NAMES(class);
