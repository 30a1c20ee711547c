/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of values, and functions without effect here. */
#include "tests/drivers/verbs/emu.h"

#define NAME(prefix, value) [prefix##value] = #value

static const char *name_of(const char *const *names, size_t count, size_t value)
{
	return value < count && names[value] ? names[value] : "unknown";
}

#define NAME_OF(names, value) name_of(names, sizeof(names) / sizeof((names)[0]), (size_t)(value))

static const char *const node_names[] = {
	NAME(IBV_NODE_, CA),	      NAME(IBV_NODE_, SWITCH), NAME(IBV_NODE_, ROUTER),
	NAME(IBV_NODE_, RNIC),	      NAME(IBV_NODE_, USNIC),  NAME(IBV_NODE_, USNIC_UDP),
	NAME(IBV_NODE_, UNSPECIFIED),
};

static const char *const port_names[] = {
	NAME(IBV_PORT_, NOP),	NAME(IBV_PORT_, DOWN),	 NAME(IBV_PORT_, INIT),
	NAME(IBV_PORT_, ARMED), NAME(IBV_PORT_, ACTIVE), NAME(IBV_PORT_, ACTIVE_DEFER),
};

static const char *const event_names[] = {
	NAME(IBV_EVENT_, CQ_ERR),
	NAME(IBV_EVENT_, QP_FATAL),
	NAME(IBV_EVENT_, QP_REQ_ERR),
	NAME(IBV_EVENT_, QP_ACCESS_ERR),
	NAME(IBV_EVENT_, COMM_EST),
	NAME(IBV_EVENT_, SQ_DRAINED),
	NAME(IBV_EVENT_, PATH_MIG),
	NAME(IBV_EVENT_, PATH_MIG_ERR),
	NAME(IBV_EVENT_, DEVICE_FATAL),
	NAME(IBV_EVENT_, PORT_ACTIVE),
	NAME(IBV_EVENT_, PORT_ERR),
	NAME(IBV_EVENT_, LID_CHANGE),
	NAME(IBV_EVENT_, PKEY_CHANGE),
	NAME(IBV_EVENT_, SM_CHANGE),
	NAME(IBV_EVENT_, SRQ_ERR),
	NAME(IBV_EVENT_, SRQ_LIMIT_REACHED),
	NAME(IBV_EVENT_, QP_LAST_WQE_REACHED),
	NAME(IBV_EVENT_, CLIENT_REREGISTER),
	NAME(IBV_EVENT_, GID_CHANGE),
	NAME(IBV_EVENT_, WQ_FATAL),
};

static const char *const status_names[] = {
	NAME(IBV_WC_, SUCCESS),		  NAME(IBV_WC_, LOC_LEN_ERR),
	NAME(IBV_WC_, LOC_QP_OP_ERR),	  NAME(IBV_WC_, LOC_EEC_OP_ERR),
	NAME(IBV_WC_, LOC_PROT_ERR),	  NAME(IBV_WC_, WR_FLUSH_ERR),
	NAME(IBV_WC_, MW_BIND_ERR),	  NAME(IBV_WC_, BAD_RESP_ERR),
	NAME(IBV_WC_, LOC_ACCESS_ERR),	  NAME(IBV_WC_, REM_INV_REQ_ERR),
	NAME(IBV_WC_, REM_ACCESS_ERR),	  NAME(IBV_WC_, REM_OP_ERR),
	NAME(IBV_WC_, RETRY_EXC_ERR),	  NAME(IBV_WC_, RNR_RETRY_EXC_ERR),
	NAME(IBV_WC_, LOC_RDD_VIOL_ERR),  NAME(IBV_WC_, REM_INV_RD_REQ_ERR),
	NAME(IBV_WC_, REM_ABORT_ERR),	  NAME(IBV_WC_, INV_EECN_ERR),
	NAME(IBV_WC_, INV_EEC_STATE_ERR), NAME(IBV_WC_, FATAL_ERR),
	NAME(IBV_WC_, RESP_TIMEOUT_ERR),  NAME(IBV_WC_, GENERAL_ERR),
};

static const char *const cm_event_names[] = {
	NAME(RDMA_CM_EVENT_, ADDR_RESOLVED),   NAME(RDMA_CM_EVENT_, ADDR_ERROR),
	NAME(RDMA_CM_EVENT_, ROUTE_RESOLVED),  NAME(RDMA_CM_EVENT_, ROUTE_ERROR),
	NAME(RDMA_CM_EVENT_, CONNECT_REQUEST), NAME(RDMA_CM_EVENT_, CONNECT_RESPONSE),
	NAME(RDMA_CM_EVENT_, CONNECT_ERROR),   NAME(RDMA_CM_EVENT_, UNREACHABLE),
	NAME(RDMA_CM_EVENT_, REJECTED),	       NAME(RDMA_CM_EVENT_, ESTABLISHED),
	NAME(RDMA_CM_EVENT_, DISCONNECTED),    NAME(RDMA_CM_EVENT_, DEVICE_REMOVAL),
	NAME(RDMA_CM_EVENT_, MULTICAST_JOIN),  NAME(RDMA_CM_EVENT_, MULTICAST_ERROR),
	NAME(RDMA_CM_EVENT_, ADDR_CHANGE),     NAME(RDMA_CM_EVENT_, TIMEWAIT_EXIT),
};

const char *ibv_node_type_str(enum ibv_node_type node_type)
{
	return NAME_OF(node_names, node_type);
}

const char *ibv_port_state_str(enum ibv_port_state port_state)
{
	return NAME_OF(port_names, port_state);
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return NAME_OF(event_names, event);
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return NAME_OF(status_names, status);
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	return NAME_OF(cm_event_names, event);
}

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}
