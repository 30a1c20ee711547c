/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: which ports there are, what they can do, and which devices have none. */
#include "info.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "../common.h"
#include "tool_capture.h"
#include "tool_text.h"

#define SYSTEM_DEVICES "/sys/class/infiniband"

const struct info_capability info_capabilities[] = {
	{ HMREG_CAN_ENDPOINTS, "endpoints", "endpoints", "FI_MSG, FI_RMA, FI_ATOMIC" },
	{ HMREG_CAN_DMABUF, "dmabuf", "dma-buf regions", "FI_HMEM, FI_MR_DMABUF" },
	{ HMREG_CAN_ZERO_BASED, "zero_based", "zero-based regions", "FI_MR_VIRT_ADDR not needed" },
	{ HMREG_CAN_ON_DEMAND, "on_demand", "on-demand paging", "FI_MR_ALLOCATED not needed" },
	{ HMREG_CAN_ON_DEMAND_IMPLICIT, "on_demand_implicit", "on-demand, whole process",
	  "nothing so far" },
	{ HMREG_CAN_PREFETCH, "prefetch", "prefetch", "fi_mr_refresh fetches pages on demand" },
	{ HMREG_CAN_REREG, "rereg", "re-registration", "fi_mr_refresh pins other pages" },
	{ HMREG_CAN_RELAXED_ORDERING, "relaxed_ordering", "relaxed ordering",
	  "HMREG_MR_RELAXED_ORDERING has an effect" },
	{ HMREG_CAN_INDIRECT_KEYS, "indirect_keys", "indirect keys",
	  "regions of several parts have one rkey" },
	{ HMREG_CAN_WINDOW_1, "window_1", "memory windows, type 1",
	  "sub-MRs, where a trial of them succeeds" },
	{ HMREG_CAN_WINDOW_2A, "window_2a", "memory windows, type 2A", "nothing so far" },
	{ HMREG_CAN_WINDOW_2B, "window_2b", "memory windows, type 2B", "nothing so far" },
	{ HMREG_CAN_WINDOWS, "windows", "sub-MRs by windows",
	  "sub-MRs (base_mr) pin nothing a second time" },
	{ HMREG_CAN_DMABUF_WINDOWS, "dmabuf_windows", "the same of dma-bufs",
	  "sub-MRs of dma-bufs, too" },
	{ HMREG_CAN_ATOMICS, "atomics", "atomics of 8 bytes", "FI_ATOMIC" },
	{ HMREG_CAN_SRQ, "srq", "shared receive queues", "endpoints" },
};
const size_t info_capability_count = sizeof(info_capabilities) / sizeof(info_capabilities[0]);

#define LIMIT(member, name, bytes)                                                                 \
	{                                                                                          \
#member, name, offsetof(struct hmreg_device, member), bytes                        \
	}
const struct info_limit info_limits[] = {
	LIMIT(max_mr_size, "largest region part", true),
	LIMIT(max_mr, "regions", false),
	LIMIT(max_mw, "memory windows", false),
	LIMIT(max_qp, "queue pairs", false),
	LIMIT(max_srq, "shared receive queues", false),
	LIMIT(max_cq, "completion queues", false),
	LIMIT(max_sge, "pieces per request", false),
	LIMIT(max_qp_wr, "requests per queue", false),
	LIMIT(max_rd_atomic, "reads under way", false),
};
const size_t info_limit_count = sizeof(info_limits) / sizeof(info_limits[0]);

uint64_t info_limit_value(const struct info_limit *limit, const struct hmreg_device *device)
{
	uint64_t value;

	memcpy(&value, (const char *)device + limit->offset, sizeof(value));
	return value;
}

const char *info_address_text(const struct fi_info *info, char *text, size_t room)
{
	char host[INET6_ADDRSTRLEN];
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	snprintf(text, room, "-");
	if (info->src_addr && info->addr_format == FI_SOCKADDR_IN &&
	    info->src_addrlen >= sizeof(in)) {
		memcpy(&in, info->src_addr, sizeof(in));
		if (inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host)))
			snprintf(text, room, "%s:%u", host, ntohs(in.sin_port));
	} else if (info->src_addr && info->addr_format == FI_SOCKADDR_IN6 &&
		   info->src_addrlen >= sizeof(in6)) {
		memcpy(&in6, info->src_addr, sizeof(in6));
		if (inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host)) && in6.sin6_scope_id)
			snprintf(text, room, "[%s%%%u]:%u", host, in6.sin6_scope_id,
				 ntohs(in6.sin6_port));
		else
			snprintf(text, room, "[%s]:%u", host, ntohs(in6.sin6_port));
	}
	return text;
}

const char *info_link_state(const struct fi_info *info)
{
	if (!info->nic || !info->nic->link_attr)
		return "unknown";
	return info->nic->link_attr->state == FI_LINK_UP     ? "up"
	       : info->nic->link_attr->state == FI_LINK_DOWN ? "down"
							     : "unknown";
}

/* ---- the library's answer ---- */

/* fi_getinfo for every mode there is.  What the library said meanwhile is in reason. */
static int ask(const char *name, uint32_t addr_format, uint64_t caps, struct fi_info **list,
	       char *reason, size_t room)
{
	struct fi_info *hints = fi_allocinfo();
	struct tool_capture capture;
	int ret = -FI_ENOMEM;

	*list = NULL;
	reason[0] = '\0';
	if (!hints)
		return ret;
	hints->caps = caps;
	hints->domain_attr->mr_mode = SAMPLE_MR_MODES;
	hints->addr_format = addr_format;
	if (name) {
		hints->domain_attr->name = strdup(name);
		if (!hints->domain_attr->name)
			goto free_hints;
	}
	tool_capture_begin(&capture);
	ret = fi_getinfo(SAMPLE_API_VERSION, NULL, NULL, 0, hints, list);
	tool_capture_end(&capture, reason, room);
free_hints:
	fi_freeinfo(hints);
	return ret;
}

const char *info_why_not(const struct info_capability *c, const struct hmreg_device *device)
{
	const char *why = c->bit == HMREG_CAN_DMABUF	      ? device->dmabuf_reason
			  : c->bit == HMREG_CAN_INDIRECT_KEYS ? device->indirect_reason
			  : c->bit == HMREG_CAN_ENDPOINTS     ? device->endpoints_reason
			  : c->bit == HMREG_CAN_WINDOWS	      ? device->windows_reason
							      : "";

	return why ? why : "";
}

bool info_registers_only(const struct info_port *port)
{
	return port->described && !(port->device.can & HMREG_CAN_ENDPOINTS);
}

/* What the port can do when hints ask for it. */
static uint64_t caps_on_request(const struct info_port *port)
{
	const struct fi_info *info = port->info;
	static const uint64_t bits[] = { FI_RMA_EVENT,	FI_SOURCE,    FI_DIRECTED_RECV,
					 FI_FENCE,	FI_HMEM,      FI_TAGGED,
					 FI_MULTI_RECV, FI_SHARED_AV, FI_XPU };
	uint64_t found = 0;
	struct fi_info *list;
	char unwanted[256];
	size_t i;

	for (i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		if (info->caps & bits[i] || (info_registers_only(port) && bits[i] != FI_HMEM) ||
		    ask(info->domain_attr->name, info->addr_format, bits[i], &list, unwanted,
			sizeof(unwanted)))
			continue;
		found |= bits[i];
		fi_freeinfo(list);
	}
	return found;
}

/* Ask, once, what follows host memory; an older library has no such operation. */
static void ask_monitor(struct info_ports *ports, struct fid_fabric *fabric,
			const struct hmreg_fabric_ops *ops)
{
	if (ports->watched || ops->size < offsetof(struct hmreg_fabric_ops, cache_monitor) +
						  sizeof(ops->cache_monitor))
		return;
	ports->monitor.size = sizeof(ports->monitor);
	ports->watched = !ops->cache_monitor(&fabric->fid, &ports->monitor);
}

/* Ask the extension about one port. */
static int describe(struct info_ports *ports, struct info_port *port)
{
	struct hmreg_fabric_ops *ops;
	struct fid_fabric *fabric;
	int ret, failed;

	ret = fi_fabric(port->info->fabric_attr, &fabric, NULL);
	if (ret)
		return sample_fail("fi_fabric", ret);
	ret = fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL);
	if (!ret) {
		port->device.size = sizeof(port->device);
		ret = ops->device(&fabric->fid, port->info, &port->device);
		port->described = !ret;
		ask_monitor(ports, fabric, ops);
	}
	if (ret && ret != -FI_ENOSYS)
		sample_fail("asking about a port", ret);
	failed = fi_close(&fabric->fid);
	return failed ? sample_fail("fi_close of a fabric", failed) : 0;
}

/* The port of this name that is there already, or NULL. */
static struct info_port *listed(const struct info_ports *ports, const struct fi_info *info)
{
	size_t i;

	for (i = 0; i < ports->count; i++) {
		if (!strcmp(ports->port[i].info->domain_attr->name, info->domain_attr->name))
			return &ports->port[i];
	}
	return NULL;
}

static int add_ports(struct info_ports *ports, const struct fi_info *list)
{
	const struct fi_info *info;
	struct info_port *more;
	int ret;

	for (info = list; info; info = info->next) {
		more = listed(ports, info);
		if (more && more->info->addr_format != info->addr_format)
			more->other = info;
		if (more)
			continue;
		more = realloc(ports->port, (ports->count + 1) * sizeof(*more));
		if (!more)
			return sample_fail("realloc", -FI_ENOMEM);
		ports->port = more;
		more += ports->count++;
		*more = (struct info_port){ .info = info };
		ret = describe(ports, more);
		if (ret)
			return ret;
		more->on_request = caps_on_request(more);
	}
	return 0;
}

static int add_unusable(struct info_ports *ports, const char *name, const char *reason)
{
	struct info_unusable *more =
		realloc(ports->unusable, (ports->unusable_count + 1) * sizeof(*more));

	if (!more)
		return sample_fail("realloc", -FI_ENOMEM);
	ports->unusable = more;
	more += ports->unusable_count++;
	snprintf(more->name, sizeof(more->name), "%.*s", (int)sizeof(more->name) - 1, name);
	snprintf(more->reason, sizeof(more->reason), "%.*s", (int)sizeof(more->reason) - 1, reason);
	return 0;
}

/* Ports with addresses of this format.  -FI_ENODATA and other refusals of a name are no failure. */
static int find(const char *name, uint32_t addr_format, struct info_ports *ports,
		struct fi_info **list, char *reason, size_t room)
{
	int ret = ask(name, addr_format, 0, list, reason, room);

	if (!ret)
		return add_ports(ports, *list);
	if (ret != -FI_ENODATA && ret != -FI_ENODEV && ret != -FI_EACCES)
		return sample_fail("fi_getinfo", ret);
	if (!reason[0])
		snprintf(reason, room, "%s", fi_strerror(-ret));
	return 0;
}

/* Devices that the system shows and no port stands for. */
static int find_unusable(struct info_ports *ports)
{
	DIR *folder = opendir(SYSTEM_DEVICES);
	char reason[sizeof(ports->unusable->reason)];
	struct dirent *entry;
	struct fi_info *list;
	int ret = 0;
	size_t i;

	while (!ret && folder && (entry = readdir(folder)) != NULL) {
		for (i = 0; i < ports->count; i++) {
			if (!strcmp(tool_device_name(ports->port[i].info), entry->d_name))
				break;
		}
		if (entry->d_name[0] == '.' || i < ports->count)
			continue;
		ret = ask(entry->d_name, FI_FORMAT_UNSPEC, 0, &list, reason, sizeof(reason));
		fi_freeinfo(list);
		if (ret)
			ret = add_unusable(ports, entry->d_name,
					   reason[0] ? reason : fi_strerror(-ret));
	}
	if (folder)
		closedir(folder);
	return ret;
}

int info_ports_find(const char *name, struct info_ports *ports)
{
	char reason[2][sizeof(ports->unusable->reason)];
	int ret;

	memset(ports, 0, sizeof(*ports));
	ports->all = !name;
	tool_capture_setup();
	ret = find(name, FI_FORMAT_UNSPEC, ports, &ports->list[0], reason[0], sizeof(reason[0]));
	if (!ret)
		ret = find(name, FI_SOCKADDR_IN6, ports, &ports->list[1], reason[1],
			   sizeof(reason[1]));
	if (!ret && name && !ports->count)
		ret = add_unusable(ports, name, reason[0]);
	if (!ret && !name)
		ret = find_unusable(ports);
	return ret;
}

void info_ports_free(struct info_ports *ports)
{
	fi_freeinfo(ports->list[0]);
	fi_freeinfo(ports->list[1]);
	free(ports->port);
	free(ports->unusable);
	memset(ports, 0, sizeof(*ports));
}
