/* SPDX-License-Identifier: BSD-2-Clause */
/* The usable ports of a device, and the slots of the ops table that are about ports. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "core/nic/verbs_device.h"
#include "core/nic/verbs_evidence.h"
#include "core/nic/verbs_ep.h"
#include "core/nic/verbs_sysfs.h"

#define FABRIC_NAME "hmreg-verbs"

/* ---- what a port offers ---- */

#define BASE_CAPS                                                                                  \
	(FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |               \
	 FI_REMOTE_WRITE | FI_SOURCE | FI_DIRECTED_RECV | FI_FENCE | FI_XPU)

/* Of a port without endpoints: what registration and a program's own queue pairs can have. */
#define REGISTRATION_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)

/*
 * All that one endpoint asks of another goes over one reliable connection, posted in the order of the
 * calls, and such a connection carries requests out in the order in which they were posted.  So sends,
 * writes and atomics are ordered among themselves and after each other, and what reads (an RMA read, a
 * fetching atomic) sees everything posted before it.  What comes behind something that reads is not
 * ordered: the target may carry it out before the read, unless the initiator fences it, which costs a
 * round trip per read; FI_FENCE asks for that where it is wanted.  Atomics count as writes here: the
 * sender fences what follows one that is under way.
 */
#define ORDER                                                                                      \
	(FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAS | FI_ORDER_WAW | FI_ORDER_RAS | FI_ORDER_RAW | \
	 FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAW | FI_ORDER_ATOMIC_WAW | FI_ORDER_ATOMIC_RAW)

static bool pages_on_demand(const struct verbs_device *device)
{
	if (!(device->can & HMREG_CAN_ON_DEMAND))
		return false;
	return !(device->can & HMREG_CAN_ATOMICS) || (device->odp_caps & IBV_ODP_SUPPORT_ATOMIC);
}

/* Bits that the device needs, and those that it can do without. */
static void fill_modes(struct nic_port *port, const struct verbs_device *device)
{
	const int all = FI_MR_LOCAL | FI_MR_HMEM | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;

	port->mr_mode = FI_MR_PROV_KEY;
	if (!(device->can & HMREG_CAN_ZERO_BASED))
		port->mr_mode |= FI_MR_VIRT_ADDR;
	if (!pages_on_demand(device))
		port->mr_mode |= FI_MR_ALLOCATED;
	port->mr_mode_kept = all & ~port->mr_mode;
}

static size_t at_most(int count, size_t limit)
{
	return count > 0 && (size_t)count < limit ? (size_t)count : limit;
}

static void fill_registration_limits(struct nic_port *port, const struct verbs_device *device)
{
	size_t regions = hm_param_size(HM_PARAM_MR_MAX_COUNT);

	if (regions == 0 || regions > HM_KEY_CAPACITY_MAX)
		regions = HM_KEY_CAPACITY_MAX;
	port->mr_key_size = sizeof(uint64_t);
	port->mr_iov_limit = NIC_IOV_MAX;
	port->max_mr_count = at_most(device->attr.max_mr, regions);
}

static void fill_endpoint_limits(struct nic_port *port, const struct verbs_device *device,
				 const struct ibv_port_attr *attr)
{
	port->max_msg_size = attr->max_msg_sz ? attr->max_msg_sz : UINT32_C(1) << 30;
	port->inject_size = VERBS_FRAME;
	/* operands of atomics are taken by the processor, and messages put into receives */
	port->local = NIC_LOCAL_PAYLOAD;
	port->local_copied = VERBS_FRAME;
	port->pins = true;
	port->iov_limit = NIC_IOV_MAX;
	port->rma_iov_limit = NIC_RMA_IOV_MAX;
	port->tx_size = 256;
	port->rx_size = 1024;
	port->cq_data_size = sizeof(uint32_t); /* what a work request carries */
	/* each has two shared receive queues, a completion queue and one of 64,511 ports */
	port->ep_count =
		at_most(device->attr.max_srq / VERBS_LANES, at_most(device->attr.max_cq, 64511));
	port->msg_order = ORDER;
}

static const char *link_of(const struct verbs_device *device, const struct ibv_port_attr *attr,
			   const struct verbs_address *address)
{
	bool ethernet = attr->link_layer == IBV_LINK_LAYER_ETHERNET;

	if (device->ibv->transport_type == IBV_TRANSPORT_IWARP)
		return "iWARP";
	if (device->ibv->transport_type != IBV_TRANSPORT_IB)
		return ethernet ? "Ethernet" : "unspecified";
	if (!ethernet)
		return "InfiniBand";
	if (address->gid_index < 0)
		return "RoCE";
	return address->gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "RoCE v1";
}

/* What endpoints need beside all that is there for registration. */
static void fill_endpoints(struct nic_port *port, const struct verbs_device *device,
			   const struct ibv_port_attr *attr, const struct verbs_address *address)
{
	port->caps |= BASE_CAPS;
	port->caps |= device->can & HMREG_CAN_ATOMICS ? FI_ATOMIC : 0;
	port->addr_format = address->addr.ss_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
	port->protocol = device->ibv->transport_type == IBV_TRANSPORT_IWARP
				 ? FI_PROTO_IWARP
				 : FI_PROTO_RDMA_CM_IB_RC;
	fill_endpoint_limits(port, device, attr);
}

/* How it reaches accelerators: not at all where the operator forbids that (FI_HMEM_DISABLE_P2P). */
static uint32_t ways_of(const struct verbs_device *device)
{
	if (hm_param_bool(HM_PARAM_HMEM_DISABLE_P2P))
		return 0;
	return (device->can & HMREG_CAN_DMABUF ? NIC_WAY_DMABUF : 0) |
	       (verbs_evidence_peer_module() ? NIC_WAY_PEER : 0);
}

/* out->port says already whether there are endpoints. */
static int fill_port(struct verbs_port *out, struct verbs_device *device, uint8_t number,
		     const struct ibv_port_attr *attr, const struct verbs_address *address)
{
	struct nic_port *port = &out->port;
	char name[80];

	if (number == 1)
		snprintf(name, sizeof(name), "%s", device->name);
	else
		snprintf(name, sizeof(name), "%s:%u", device->name, number);
	port->ops = &verbs_nic_ops;
	port->fabric_name = FABRIC_NAME;
	port->domain_name = strdup(name);
	port->nic = verbs_nic_attr(device, attr, &address->gid);
	if (!port->domain_name || !port->nic) {
		free((void *)(uintptr_t)port->domain_name);
		free((void *)(uintptr_t)port->nic); /* first in its allocation */
		return -FI_ENOMEM;
	}
	port->caps = REGISTRATION_CAPS;
	port->ways = ways_of(device);
	port->caps |= port->ways ? FI_HMEM : 0;
	fill_modes(port, device);
	fill_registration_limits(port, device);
	if (!port->no_endpoints)
		fill_endpoints(port, device, attr, address);
	port->optional_caps = port->caps &
			      (FI_SOURCE | FI_DIRECTED_RECV | FI_FENCE | FI_HMEM | FI_XPU);
	out->device = device;
	out->number = number;
	out->gid_index = address->gid_index;
	out->addr = address->addr;
	out->addr_len = address->len;
	out->link = link_of(device, attr, address);
	return 0;
}

static int append(struct verbs_port_list *list, const struct verbs_port *port)
{
	if (list->count == list->room)
		return -FI_ENOMEM;
	list->port[list->count++] = *port;
	return 0;
}

/* ---- which ports ---- */

static const char *state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "initializing";
	case IBV_PORT_ARMED:
		return "armed";
	case IBV_PORT_ACTIVE_DEFER:
		return "active, but its link is failing";
	default:
		return "in no state that is known";
	}
}

/* Why endpoints do not work over a port on which regions do. */
struct obstacle {
	int code;
	enum hmreg_cause cause;
	char why[320]; /* "": nothing is in the way */
};

static void obstruct(struct obstacle *out, int code, enum hmreg_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void obstruct(struct obstacle *out, int code, enum hmreg_cause cause, const char *fmt, ...)
{
	va_list args;

	out->code = code;
	out->cause = cause;
	va_start(args, fmt);
	vsnprintf(out->why, sizeof(out->why), fmt, args);
	va_end(args);
}

static void no_addresses(uint8_t number, const struct ibv_port_attr *attr, int err,
			 struct obstacle *out)
{
	if (err == EACCES || err == EPERM)
		obstruct(out, -FI_EACCES, HMREG_CAUSE_NIC_CM_PERMISSION,
			 "no permission to open /dev/infiniband/rdma_cm, which endpoints need");
	else if (err)
		obstruct(out, -FI_ENODEV, HMREG_CAUSE_NIC_CM,
			 "librdmacm, which endpoints need, does not work (%s): is the module "
			 "rdma_ucm loaded, and /dev/infiniband/rdma_cm there?",
			 strerror(err));
	else
		obstruct(
			out, -FI_ENODATA, HMREG_CAUSE_NIC_NO_ADDRESS,
			"port %u has no IP address that rdma_cm finds it by, which endpoints need: "
			"give its network interface%s one, not a loopback address, and start the "
			"program again",
			number, attr->link_layer == IBV_LINK_LAYER_INFINIBAND ? " (IPoIB)" : "");
}

/* What keeps endpoints from working whatever the addresses. */
static void no_connections(const struct verbs_device *device, struct obstacle *out)
{
	enum ibv_transport_type type = device->ibv->transport_type;

	if (type != IBV_TRANSPORT_IB && type != IBV_TRANSPORT_IWARP)
		obstruct(out, -FI_ENODATA, HMREG_CAUSE_NIC_NO_CONNECTIONS,
			 "the device has no reliable connections that rdma_cm sets up (transport "
			 "%d), which endpoints need: use queue pairs of its own kind",
			 (int)type);
	else if (!(device->can & HMREG_CAN_SRQ))
		obstruct(out, -FI_ENODATA, HMREG_CAUSE_NIC_NO_CONNECTIONS,
			 "the device has no shared receive queues, which endpoints need");
}

static int add_found(struct verbs_port_list *list, struct verbs_device *device, uint8_t number,
		     const struct ibv_port_attr *attr, const struct verbs_address *found,
		     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct verbs_port port = { .port.alternate = i > 0 };
		int ret = fill_port(&port, device, number, attr, &found[i]);

		if (!ret)
			ret = append(list, &port);
		if (ret)
			return ret;
	}
	return 0;
}

static int add_without_endpoints(struct verbs_port_list *list, struct verbs_device *device,
				 struct ibv_context *context, uint8_t number,
				 const struct ibv_port_attr *attr, const struct obstacle *obstacle)
{
	char *why = strdup(obstacle->why); /* the process's, like the port */
	struct verbs_port port = { .port.no_endpoints = why,
				   .port.no_endpoints_code = obstacle->code,
				   .port.no_endpoints_cause = obstacle->cause };
	struct verbs_address address;
	int ret;

	if (!why)
		return -FI_ENOMEM;
	verbs_gid_of(device, context, number, attr, &address);
	ret = fill_port(&port, device, number, attr, &address);
	if (ret) {
		free(why);
		return ret;
	}
	HM_INFO(FI_LOG_CORE, "%s is for registration alone: %s", port.port.domain_name, why);
	return append(list, &port);
}

/* Errors of a process that is short of something now; the port is looked at again another time. */
static bool is_passing(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS;
}

static int add_active_port(struct verbs_port_list *list, struct verbs_device *device,
			   struct ibv_context *context, uint8_t number,
			   const struct ibv_port_attr *attr)
{
	struct obstacle obstacle = { 0 };
	struct verbs_address found[2];
	size_t count;
	int err;

	no_connections(device, &obstacle);
	if (!*obstacle.why) {
		err = verbs_addresses_of(device, context, number, attr, found, &count);
		if (is_passing(err)) {
			verbs_missing_add(device->name, number, -FI_ENODEV,
					  HMREG_CAUSE_NIC_NO_ANSWER,
					  "%s: port %u cannot be asked for its address now: %s",
					  device->name, number, strerror(err));
			return 0;
		}
		if (err || count == 0)
			no_addresses(number, attr, err ? verbs_file_error("rdma_cm", err) : 0,
				     &obstacle);
	}
	if (*obstacle.why)
		return add_without_endpoints(list, device, context, number, attr, &obstacle);
	return add_found(list, device, number, attr, found, count);
}

static int add_port(struct verbs_port_list *list, struct verbs_device *device,
		    struct ibv_context *context, uint8_t number)
{
	struct ibv_port_attr attr;
	int err = verbs_query_port(context, number, &attr);

	if (err) {
		verbs_missing_add(device->name, number, -FI_ENODEV, HMREG_CAUSE_NIC_NO_ANSWER,
				  "%s: port %u does not say what it is: %s", device->name, number,
				  strerror(err));
		return 0;
	}
	if (attr.state != IBV_PORT_ACTIVE) {
		verbs_missing_add(
			device->name, number, -FI_ENODEV, HMREG_CAUSE_NIC_PORT_DOWN,
			"%s: port %u is %s: is its network interface up, its cable in, and "
			"a subnet manager running where it is InfiniBand?",
			device->name, number, state_name(attr.state));
		return 0;
	}
	return add_active_port(list, device, context, number, &attr);
}

static bool is_listed(const struct verbs_port_list *list, const struct verbs_device *device,
		      unsigned number)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->port[i].device == device && list->port[i].number == number)
			return true;
	return false;
}

int verbs_ports_add(struct verbs_port_list *list, struct verbs_device *device,
		    struct ibv_context *context, bool *all)
{
	*all = true;
	for (unsigned number = 1; number <= device->attr.phys_port_cnt; number++) {
		int ret;

		if (is_listed(list, device, number))
			continue;
		ret = add_port(list, device, context, (uint8_t)number);
		if (ret) {
			*all = false;
			return ret;
		}
		*all &= is_listed(list, device, number);
	}
	return 0;
}

/* ---- slots ---- */

int verbs_port_address(const struct nic_port *port, void *addr, size_t *len)
{
	const struct verbs_port *vp = verbs_port_of(port);
	size_t room = *len;

	if (port->no_endpoints)
		return -FI_ENOSYS;
	memcpy(addr, &vp->addr, room < vp->addr_len ? room : vp->addr_len);
	*len = vp->addr_len;
	return room < vp->addr_len ? -FI_ETOOSMALL : 0;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 ==
		       IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static bool is_unspecified(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

/* Has the kernel a way from the port's address to this one?  Connecting a UDP socket sends nothing. */
static bool has_route(const struct verbs_port *port, const struct sockaddr_storage *to)
{
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage target = *to;
	bool ok;

	if (fd < 0)
		return true;
	/* a port of 0 is refused by some families */
	if (to->ss_family == AF_INET)
		((struct sockaddr_in *)&target)->sin_port = htons(9);
	else
		((struct sockaddr_in6 *)&target)->sin6_port = htons(9);
	/* where the address is not the machine's (any more), the answer is for any source */
	(void)!bind(fd, (const struct sockaddr *)&port->addr, port->addr_len);
	ok = connect(fd, (const struct sockaddr *)&target, port->addr_len) == 0;
	close(fd);
	return ok;
}

/* The address, if it is one that this port may have to do with. */
static bool take_address(const struct verbs_port *port, const void *addr, size_t len,
			 struct sockaddr_storage *out)
{
	if (port->port.no_endpoints || len < port->addr_len)
		return false;
	memset(out, 0, sizeof(*out));
	memcpy(out, addr, port->addr_len);
	return out->ss_family == port->addr.ss_family && !is_unspecified(out);
}

int verbs_port_reaches(const struct nic_port *port, const void *addr, size_t len)
{
	const struct verbs_port *vp = verbs_port_of(port);
	struct sockaddr_storage to;
	char name[VERBS_NAME];
	uint8_t number;

	if (!take_address(vp, addr, len, &to) || is_loopback(&to) != is_loopback(&vp->addr))
		return -FI_EHOSTUNREACH;
	if (!is_loopback(&to))
		return has_route(vp, &to) ? 0 : -FI_EHOSTUNREACH;
	/* behind a loopback address there is one of this machine's devices or nothing */
	if (verbs_bound_to((const struct sockaddr *)&to, name, &number) || !*name)
		return -FI_EHOSTUNREACH;
	return 0;
}

int verbs_port_has(const struct nic_port *port, const void *addr, size_t len)
{
	const struct verbs_port *vp = verbs_port_of(port);
	struct sockaddr_storage own;
	char name[VERBS_NAME];
	uint8_t number;

	if (!take_address(vp, addr, len, &own) ||
	    verbs_bound_to((const struct sockaddr *)&own, name, &number) ||
	    strcmp(name, vp->device->name) || number != vp->number)
		return -FI_EHOSTUNREACH;
	return 0;
}

static uint64_t limit_of(int value)
{
	return value > 0 ? (uint64_t)value : 0;
}

int verbs_port_describe(const struct nic_port *port, struct hmreg_device *out)
{
	const struct verbs_port *vp = verbs_port_of(port);
	const struct verbs_device *device = vp->device;
	const struct ibv_device_attr *attr = &device->attr;
	bool off = hm_param_bool(HM_PARAM_HMEM_DISABLE_P2P); /* ways_of */

	out->name = port->domain_name;
	out->kind = "verbs";
	out->link = vp->link;
	out->pci = device->pci;
	out->dmabuf_reason = off ? "FI_HMEM_DISABLE_P2P is set" : device->dmabuf_reason;
	out->indirect_reason = device->indirect_reason;
	out->windows_reason = device->windows_reason;
	out->path = device->path;
	out->port = vp->number;
	out->gid_index = vp->gid_index;
	out->can = device->can & ~(off ? HMREG_CAN_DMABUF : 0);
	out->can |= port->no_endpoints ? 0 : HMREG_CAN_ENDPOINTS;
	out->endpoints_reason = port->no_endpoints ? port->no_endpoints : "";
	out->endpoints_cause = port->no_endpoints_cause;
	out->mr_mode = port->mr_mode;
	out->mr_mode_kept = port->mr_mode_kept;
	out->max_mr_size = device->max_mr_size;
	out->max_mr = limit_of(attr->max_mr);
	out->max_mw = limit_of(attr->max_mw);
	out->max_qp = limit_of(attr->max_qp);
	out->max_srq = limit_of(attr->max_srq);
	out->max_cq = limit_of(attr->max_cq);
	out->max_sge = limit_of(attr->max_sge);
	out->max_qp_wr = limit_of(attr->max_qp_wr);
	out->max_rd_atomic = limit_of(attr->max_qp_rd_atom);
	return 0;
}
