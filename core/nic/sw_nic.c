/* SPDX-License-Identifier: BSD-2-Clause */
/* The software NIC: its profiles, domains, regions, endpoints and addresses. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "core/base/guard.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/base/range.h"
#include "core/nic/sw.h"
#include "core/nic/sw_nic.h"
#include "dmabuf/dmabuf.h"

/* ---- profiles ---- */

#define SW_CAPS                                                                                    \
	(FI_MSG | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ |   \
	 FI_REMOTE_WRITE | FI_SOURCE | FI_DIRECTED_RECV | FI_RMA_EVENT | FI_FENCE |                \
	 FI_LOCAL_COMM | FI_HMEM | FI_XPU)
#define SW_OPTIONAL_CAPS (FI_SOURCE | FI_DIRECTED_RECV | FI_RMA_EVENT | FI_FENCE | FI_HMEM | FI_XPU)

#define SW_VERBS_MODE (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define SW_STRICT_MODE                                                                             \
	(SW_VERBS_MODE | FI_MR_RAW | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT |         \
	 FI_MR_HMEM | FI_MR_COLLECTIVE | FI_MR_XPU_DESC) /* every bit */

#define SW_MAX_MSG ((size_t)1 << 40)
#define SW_INJECT  4096

static char device_name[] = "sw0", vendor[] = "hmreg", driver[] = "hmreg-sw", version[] = "1.0",
	    link_type[] = "loopback";

static struct fi_device_attr device_attr = { .name = device_name,
					     .device_id = version,
					     .device_version = version,
					     .vendor_id = vendor,
					     .driver = driver,
					     .firmware = version };
static struct fi_bus_attr bus_attr = { .bus_type = FI_BUS_UNSPEC };
static struct fi_link_attr link_attr = {
	.mtu = 65536, .speed = 0, .state = FI_LINK_UP, .network_type = link_type
};
static const struct fid_nic nic_attr = { .fid = { .fclass = FI_CLASS_NIC },
					 .device_attr = &device_attr,
					 .bus_attr = &bus_attr,
					 .link_attr = &link_attr };

#define PROFILE(name, mode, kept, key_size)                                                        \
	{                                                                                          \
		.ops = &sw_nic_ops, .fabric_name = SW_FABRIC_NAME, .domain_name = name,            \
		.caps = SW_CAPS, .optional_caps = SW_OPTIONAL_CAPS, .mr_mode = (mode),             \
		.mr_mode_kept = (kept), .ways = NIC_WAY_COPY, .addr_format = FI_SOCKADDR_IN,       \
		.protocol = FI_PROTO_UNSPEC, .mr_key_size = (key_size),                            \
		.mr_iov_limit = NIC_IOV_MAX, .max_msg_size = SW_MAX_MSG, .inject_size = SW_INJECT, \
		.iov_limit = NIC_IOV_MAX, .rma_iov_limit = NIC_RMA_IOV_MAX, .tx_size = 1024,       \
		.rx_size = 4096, .auth_key_size = HMREG_AUTH_KEY_MAX,                              \
		.max_ep_auth_key = NIC_AV_KEYS_MAX, .ep_count = 64511, .cq_data_size = 8,          \
		.nic = &nic_attr,                                                                  \
		.local = NIC_LOCAL_PAYLOAD | NIC_LOCAL_ATOMICS | NIC_LOCAL_RECEIVES,               \
		.msg_order = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR |           \
			     FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAR | FI_ORDER_SAW |           \
			     FI_ORDER_SAS | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |                  \
			     FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |           \
			     FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW       \
	}

static struct nic_port profiles[] = {
	PROFILE("sw-scalable", 0, 0, 8),
	PROFILE("sw-verbs", SW_VERBS_MODE, 0, 8),
	PROFILE("sw-strict", SW_STRICT_MODE, 0, NIC_RAW_KEY_SIZE),
	/* whatever hints offer, so that each rule can be had with and without each other */
	PROFILE("sw-any", 0, SW_STRICT_MODE, NIC_RAW_KEY_SIZE),
};

#define PROFILES count_of(profiles)

static int sw_ports(const struct nic_port **ports, size_t *count)
{
	*ports = profiles;
	*count = hm_param_bool(HM_PARAM_SW_ENABLE) ? PROFILES : 0;
	return 0;
}

/* This process's own loopback address, host order; set once, by sw_nic_init. */
static uint32_t process_ip;

void sw_nic_init(void)
{
	uint32_t pid = (uint32_t)getpid();
	size_t most = hm_param_size(HM_PARAM_MR_MAX_COUNT);

	/* 127.64.0.0/10 with the process id, which has 22 bits: never 127.0.0.1 */
	process_ip = INADDR_LOOPBACK & 0xff000000u;
	process_ip |= 0x00400000u | (pid & 0x003fffffu);
	if (most == 0 || most > HM_KEY_CAPACITY_MAX) {
		HM_WARN(FI_LOG_CORE,
			"HMREG_MR_MAX_COUNT is %zu, but 1 to %u are possible; taking %u", most,
			HM_KEY_CAPACITY_MAX, HM_KEY_CAPACITY_MAX);
		most = HM_KEY_CAPACITY_MAX;
	}
	for (size_t i = 0; i < PROFILES; i++)
		profiles[i].max_mr_count = most;
	nic_register(&sw_nic_ops);
}

/* ---- domains and regions ---- */

static int sw_domain_open(struct nic_domain *domain)
{
	if (domain->adopt) {
		HM_WARN(FI_LOG_DOMAIN,
			"%s is of the software NIC, which has no use for verbs objects",
			domain->port->domain_name);
		return -FI_EINVAL;
	}
	hm_guard_install();
	return 0;
}

static int sw_domain_close(struct nic_domain *domain)
{
	(void)domain;
	return 0;
}

/* Rights by which the NIC writes into the region, so that its pages must be writable. */
#define WRITING_RIGHTS (FI_RECV | FI_READ | FI_REMOTE_WRITE)

static int check_mapped(const struct nic_region *region, const struct iovec *iov, size_t count)
{
	bool write = region->access & WRITING_RIGHTS;

	for (size_t i = 0; i < count; i++) {
		const void *base = iov[i].iov_base;
		size_t len = iov[i].iov_len;
		int ret = hm_guard_probe(base, len, write);

		if (ret == 0)
			continue;
		if (write && hm_guard_probe(base, len, false) == 0) {
			HM_WARN(FI_LOG_MR,
				"[%p, +%zu) is read only, at least in part, and FI_RECV, FI_READ "
				"and "
				"FI_REMOTE_WRITE write",
				base, len);
			return -FI_EACCES;
		}
		HM_WARN(FI_LOG_MR, "[%p, +%zu) is not mapped in full, as %s asks", base, len,
			region->domain->mr_mode & FI_MR_ALLOCATED ? "FI_MR_ALLOCATED"
								  : "FI_MR_MMU_NOTIFY");
		return ret;
	}
	return 0;
}

/* Memory of a device is there as long as its driver says so. */
static int check_host_parts(const struct nic_region *region, const struct iovec *iov, size_t count)
{
	const struct nic_place *places = region->ext ? region->ext->places : NULL;
	int ret = 0;

	for (size_t i = 0; i < count && ret == 0; i++)
		if (!places) {
			ret = check_mapped(region, &iov[i], 1);
		} else if (places[i].device == HMEM_NO_DEVICE) {
			struct iovec part = { places[i].at, iov[i].iov_len };

			ret = check_mapped(region, &part, 1);
		}
	return ret;
}

/*
 * A dma-buf is mapped, where its exporter allows that; one of ours is reached by the copies of the
 * interface that it came from, whether or not.
 */
static int take_dmabuf(struct nic_region *region, const struct fi_mr_dmabuf *dmabuf)
{
	struct nic_place *place = &region->ext->places[0];
	bool write = region->access & WRITING_RIGHTS;
	struct dmabuf_mapping mapping;
	uint64_t len;
	void *begin;
	int ret = dmabuf_map(dmabuf->fd, dmabuf->offset, dmabuf->len, write, &mapping);

	if (ret == 0) {
		place->at = mapping.at;
		place->map = mapping.map;
		place->map_len = mapping.map_len;
		region->ext->path = HMREG_PATH_MAPPED;
		return 0;
	}
	if (dmabuf_origin(dmabuf->fd, &place->iface, &place->device, &begin, &len) &&
	    hm_range_ok(len, dmabuf->offset, dmabuf->len)) {
		place->at = (char *)begin + dmabuf->offset;
		region->ext->path = HMREG_PATH_COPY;
		return 0;
	}
	HM_WARN(FI_LOG_MR,
		"dmabuf: fd %d cannot be mapped for %s, which is how the software NIC reaches a "
		"dma-buf of others",
		dmabuf->fd, write ? "writing" : "reading");
	return ret;
}

static int sw_region_register(struct nic_region *region, const struct nic_region_request *req)
{
	if (req->dmabuf)
		return take_dmabuf(region, req->dmabuf);
	/* a local buffer that is not there is the operation's failure */
	if (!(region->domain->mr_mode & FI_MR_ALLOCATED) || req->internal)
		return 0;
	return check_host_parts(region, req->iov, req->iov_count);
}

/*
 * There is no translation to share: what is left is to look whether the memory takes rights that its base
 * was not registered for.
 */
static int sw_region_derive(struct nic_region *region, struct nic_region *base,
			    const struct nic_region_request *req)
{
	if (!(region->access & WRITING_RIGHTS))
		return 0;
	for (; base; base = base->parent)
		if (base->access & WRITING_RIGHTS)
			return 0;
	if (region->ext && region->ext->path == HMREG_PATH_MAPPED) {
		HM_WARN(FI_LOG_MR, "the base is a dma-buf that was mapped for reading alone");
		return -FI_EACCES;
	}
	if (!(region->domain->mr_mode & FI_MR_ALLOCATED))
		return 0;
	return check_host_parts(region, req->iov, req->iov_count);
}

static int sw_region_deregister(struct nic_region *region)
{
	const struct nic_region_ext *ext = region->ext;

	if (ext && ext->places && ext->places[0].map)
		dmabuf_unmap(&(struct dmabuf_mapping){ .map = ext->places[0].map,
						       .map_len = ext->places[0].map_len });
	return 0;
}

static int sw_region_info(const struct nic_region *region, struct hmreg_region_info *info)
{
	info->path = region->ext && region->ext->path ? region->ext->path : HMREG_PATH_SOFTWARE;
	info->state = 0;
	info->parts = 0;
	return 0;
}

/*
 * The software NIC keeps no translation, so the new pages are reached anyway; what is left to do is
 * to find out that there are some where the agreed mode wants them.  A device's memory and a dma-buf do not
 * change their pages unseen.
 */
static int sw_region_refresh(struct nic_region *region, const struct iovec *iov, size_t count)
{
	if (!(region->domain->mr_mode & (FI_MR_ALLOCATED | FI_MR_MMU_NOTIFY)))
		return 0;
	for (size_t i = 0; i < count; i++) {
		int ret = nic_region_on_host(region, (uintptr_t)iov[i].iov_base)
				  ? check_mapped(region, &iov[i], 1)
				  : 0;

		if (ret != 0)
			return ret;
	}
	return 0;
}

/* ---- addresses ---- */

static bool is_ours(uint32_t ip)
{
	return ip == INADDR_LOOPBACK || ip == process_ip;
}

static int parse_address(const void *addr, size_t len, uint32_t *ip, uint16_t *number)
{
	struct sockaddr_in in;

	if (!addr || len < sizeof(in))
		return -FI_EINVAL;
	memcpy(&in, addr, sizeof(in));
	if (in.sin_family != AF_INET)
		return -FI_EINVAL;
	*ip = ntohl(in.sin_addr.s_addr);
	*number = ntohs(in.sin_port);
	return 0;
}

static int format_address(uint32_t ip, uint16_t number, void *addr, size_t *len)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(number),
				  .sin_addr.s_addr = htonl(ip) };
	size_t have = *len;

	*len = sizeof(in);
	if (have > sizeof(in))
		have = sizeof(in);
	if (have > 0)
		memcpy(addr, &in, have);
	return have == sizeof(in) ? 0 : -FI_ETOOSMALL;
}

static int sw_port_address(const struct nic_port *port, void *addr, size_t *len)
{
	(void)port;
	return format_address(process_ip, 0, addr, len);
}

static int sw_port_reaches(const struct nic_port *port, const void *addr, size_t len)
{
	uint32_t ip;
	uint16_t number;

	(void)port;
	if (parse_address(addr, len, &ip, &number) != 0 || !is_ours(ip))
		return -FI_EHOSTUNREACH;
	return 0;
}

static int sw_port_describe(const struct nic_port *port, struct hmreg_device *device)
{
	*device = (struct hmreg_device){
		.size = sizeof(*device),
		.name = port->domain_name,
		.kind = "sw",
		.link = "in process",
		.pci = "",
		.dmabuf_reason = "any file that can be mapped is taken, a dma-buf or not",
		.indirect_reason =
			"regions of the software NIC have one key each, whatever they are over",
		.path = "",
		.gid_index = -1,
		.can = HMREG_CAN_DMABUF | HMREG_CAN_ATOMICS | HMREG_CAN_ENDPOINTS,
		.mr_mode = port->mr_mode,
		.mr_mode_kept = port->mr_mode_kept,
		.max_mr_size = port->max_msg_size,
		.max_mr = port->max_mr_count,
		.max_qp = port->ep_count,
		.max_sge = port->iov_limit,
		.max_qp_wr = port->tx_size,
		.endpoints_reason = "",
		.windows_reason = "sub-MRs of the software NIC need none",
	};
	return 0;
}

static int sw_peer_resolve(struct nic_domain *domain, const void *addr, size_t *len, uint64_t *peer)
{
	uint32_t ip;
	uint16_t number;

	(void)domain;
	if (parse_address(addr, *len, &ip, &number) != 0 || number == 0) {
		HM_WARN(FI_LOG_AV, "not an IPv4 socket address with a port");
		return -FI_EINVAL;
	}
	if (!is_ours(ip)) {
		HM_WARN(FI_LOG_AV,
			"%u.%u.%u.%u is not of this process; the software NIC reaches no other",
			ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
		return -FI_EHOSTUNREACH;
	}
	*len = sizeof(struct sockaddr_in);
	*peer = SW_PEER(number);
	return 0;
}

static int sw_peer_address(struct nic_domain *domain, uint64_t peer, void *addr, size_t *len)
{
	(void)domain;
	return format_address(process_ip, (uint16_t)peer, addr, len);
}

/* ---- endpoints ---- */

static int sw_ep_open(struct nic_ep *nic, const void *src_addr, size_t len)
{
	struct sw_ep *ep = sw_ep_of(nic);
	uint16_t number = 0;
	int ret;

	ep->ip = process_ip;
	if (src_addr) {
		ret = parse_address(src_addr, len, &ep->ip, &number);
		if (ret != 0) {
			HM_WARN(FI_LOG_EP_CTRL, "source address is not an IPv4 socket address");
			return ret;
		}
		if (!is_ours(ep->ip)) {
			HM_WARN(FI_LOG_EP_CTRL, "source address is not of this process");
			return -FI_EADDRNOTAVAIL;
		}
	}
	nic_match_init(&ep->match);
	pthread_mutex_init(&ep->rx_lock, NULL);
	ret = sw_port_bind(ep, number);
	if (ret != 0)
		pthread_mutex_destroy(&ep->rx_lock);
	return ret;
}

static int sw_ep_enable(struct nic_ep *ep)
{
	sw_port_listen(sw_ep_of(ep));
	return 0;
}

static int sw_ep_close(struct nic_ep *nic)
{
	struct sw_ep *ep = sw_ep_of(nic);

	sw_port_unbind(ep);
	sw_msg_flush(ep);
	pthread_mutex_destroy(&ep->rx_lock);
	return 0;
}

static int sw_ep_name(struct nic_ep *nic, void *addr, size_t *len)
{
	struct sw_ep *ep = sw_ep_of(nic);

	return format_address(ep->ip, ep->number, addr, len);
}

static ssize_t sw_post(struct nic_ep *ep, const struct nic_wr *wr)
{
	return wr->op == NIC_OP_SEND ? sw_send(ep, wr) : sw_rma(ep, wr);
}

static int sw_atomic_offer(struct nic_domain *domain, enum nic_op kind, enum fi_datatype datatype,
			   enum fi_op op, size_t *count, size_t *size)
{
	(void)domain;
	if (!sw_atomic_valid(sw_atomic_kind_of(kind), datatype, op))
		return -FI_EOPNOTSUPP;
	*size = sw_atomic_size(datatype);
	*count = SW_MAX_MSG / *size;
	return 0;
}

struct nic_ops sw_nic_ops = {
	.name = "sw",
	.domain_size = sizeof(struct nic_domain),
	.ep_size = sizeof(struct sw_ep),
	.region_flags = FI_MR_SINGLE_USE,
	.ports = sw_ports,
	.port_address = sw_port_address,
	.port_reaches = sw_port_reaches,
	.port_describe = sw_port_describe,
	.domain_open = sw_domain_open,
	.domain_close = sw_domain_close,
	.region_register = sw_region_register,
	.region_derive = sw_region_derive,
	.region_deregister = sw_region_deregister,
	.region_refresh = sw_region_refresh,
	.region_info = sw_region_info,
	.ep_open = sw_ep_open,
	.ep_enable = sw_ep_enable,
	.ep_close = sw_ep_close,
	.ep_name = sw_ep_name,
	.peer_resolve = sw_peer_resolve,
	.peer_address = sw_peer_address,
	.post = sw_post,
	.post_recv = sw_post_recv,
	.cancel = sw_cancel,
	.atomic_valid = sw_atomic_offer,
	.strerror = nic_error_text,
};
