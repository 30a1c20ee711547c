/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getinfo(3): which ports there are, and which of them do what a program asks for. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/addr.h"
#include "core/base/export.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/core.h"
#include "core/info.h"
#include "core/tostr.h"

#define KNOWN_FLAGS (FI_NUMERICHOST | FI_SOURCE | FI_PROV_ATTR_ONLY | FI_RESCAN)
#define OLD_MODELS  (FI_MR_BASIC | FI_MR_SCALABLE)

/* ---- what a call asks for ---- */

/* An address out of the call or out of hints; NULL: none asked for. */
struct address {
	const void *addr;
	size_t len;
	const char *field; /* for the log */
};

struct request {
	uint32_t version;
	uint64_t flags;
	const struct fi_info *hints; /* may be NULL */
	struct sockaddr_in parsed;   /* node and service */
	struct address src, dest;
};

static int check_version(uint32_t version)
{
	if (FI_VERSION_LT(HM_API_VERSION, version)) {
		HM_WARN(FI_LOG_CORE, "fi_getinfo: interface version %u.%u is newer than %u.%u",
			FI_MAJOR(version), FI_MINOR(version), FI_MAJOR(HM_API_VERSION),
			FI_MINOR(HM_API_VERSION));
		return -FI_ENOSYS;
	}
	if (FI_VERSION_LT(version, FI_VERSION(1, 0))) {
		HM_WARN(FI_LOG_CORE,
			"fi_getinfo: 0x%x is no interface version; use FI_VERSION(major, minor)",
			version);
		return -FI_EINVAL;
	}
	return 0;
}

static int check_flags(uint64_t flags, const char *node, const char *service)
{
	if (flags & ~KNOWN_FLAGS) {
		HM_WARN(FI_LOG_CORE, "fi_getinfo: unknown flags 0x%llx",
			(unsigned long long)(flags & ~KNOWN_FLAGS));
		return -FI_EBADFLAGS;
	}
	if ((flags & FI_SOURCE) && !node && !service) {
		HM_WARN(FI_LOG_CORE, "fi_getinfo: FI_SOURCE needs a node or a service");
		return -FI_EINVAL;
	}
	return 0;
}

static int check_object(const char *field, const struct fid *fid, size_t fclass)
{
	if (!fid || fid->fclass == fclass)
		return 0;
	HM_WARN(FI_LOG_CORE, "fi_getinfo: hints->%s is not such an object (class %zu)", field,
		fid->fclass);
	return -FI_EINVAL;
}

static int check_domain_hints(const struct fi_domain_attr *attr)
{
	int ret = check_object("domain_attr->domain", attr->domain ? &attr->domain->fid : NULL,
			       FI_CLASS_DOMAIN);

	if (ret)
		return ret;
	if ((attr->mr_mode & OLD_MODELS) && attr->mr_mode != FI_MR_BASIC &&
	    attr->mr_mode != FI_MR_SCALABLE) {
		HM_WARN(FI_LOG_CORE,
			"fi_getinfo: hints->domain_attr->mr_mode 0x%x: FI_MR_BASIC and "
			"FI_MR_SCALABLE stand alone, without each other or further bits",
			(unsigned)attr->mr_mode);
		return -FI_ENODATA;
	}
	return 0;
}

static int check_hints(const struct fi_info *hints)
{
	const struct fi_fabric_attr *fabric = hints->fabric_attr;
	int ret = 0;

	if ((hints->src_addr && !hints->src_addrlen) ||
	    (hints->dest_addr && !hints->dest_addrlen)) {
		HM_WARN(FI_LOG_CORE, "fi_getinfo: hints->%s is given, but its length is 0",
			hints->src_addr && !hints->src_addrlen ? "src_addr" : "dest_addr");
		return -FI_EINVAL;
	}
	if (fabric)
		ret = check_object("fabric_attr->fabric",
				   fabric->fabric ? &fabric->fabric->fid : NULL, FI_CLASS_FABRIC);
	if (!ret && hints->domain_attr)
		ret = check_domain_hints(hints->domain_attr);
	return ret;
}

/* Where the addresses come from, as fi_getinfo(3) ranks node, service and hints. */
static int find_addresses(struct request *req, const char *node, const char *service)
{
	const struct fi_info *hints = req->hints;
	struct address parsed = { &req->parsed, sizeof(req->parsed), "(node, service)" };

	if (node || service) {
		int ret = hm_addr_parse(node, service, req->flags & FI_NUMERICHOST, "fi_getinfo",
					&req->parsed);

		if (ret)
			return ret;
	}
	if (req->flags & FI_SOURCE)
		req->src = parsed;
	else if (hints && hints->src_addr)
		req->src = (struct address){ hints->src_addr, hints->src_addrlen, "src_addr" };
	if ((node || service) && !(req->flags & FI_SOURCE))
		req->dest = parsed;
	else if (hints && hints->dest_addr)
		req->dest = (struct address){ hints->dest_addr, hints->dest_addrlen, "dest_addr" };
	return 0;
}

static int check_request(struct request *req, const char *node, const char *service)
{
	int ret = check_version(req->version);

	if (!ret)
		ret = check_flags(req->flags, node, service);
	if (!ret && req->hints)
		ret = check_hints(req->hints);
	return ret;
}

/* ---- addresses of a port ---- */

/* The room that any address format of a port needs. */
union address_room {
	struct sockaddr_in in;
	char bytes[128];
};

static bool is_any(const void *addr, size_t len)
{
	struct sockaddr_in in;

	if (len < sizeof(in))
		return false;
	memcpy(&in, addr, sizeof(in));
	return in.sin_family == AF_INET && in.sin_addr.s_addr == htonl(INADDR_ANY);
}

static bool reaches(const struct nic_port *port, const struct address *address)
{
	char text[64];

	if (!port->ops->port_reaches(port, address->addr, address->len))
		return true;
	hm_straddr(text, sizeof(text), port->addr_format, address->addr, address->len);
	return hm_offer_refuse(port, address->field, "%s is not reached from here", text);
}

/* The source address: what was asked for, with the port's own host in place of "any". */
static bool find_source(const struct nic_port *port, const struct request *req,
			union address_room *room, struct fi_info *info)
{
	const struct address *src = &req->src;
	size_t len = sizeof(*room);
	bool any = src->addr && is_any(src->addr, src->len);

	if (src->addr && !any) {
		info->src_addr = (void *)(uintptr_t)src->addr;
		info->src_addrlen = src->len;
		return reaches(port, src);
	}
	if (port->ops->port_address(port, room, &len) || len > sizeof(*room)) {
		if (!any)
			return true;
		room->in = (struct sockaddr_in){ .sin_family = AF_INET,
						 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		len = sizeof(room->in);
	}
	if (any)
		memcpy(&room->in.sin_port,
		       (const char *)src->addr + offsetof(struct sockaddr_in, sin_port),
		       sizeof(room->in.sin_port));
	info->src_addr = room;
	info->src_addrlen = len;
	return true;
}

static bool find_destination(const struct nic_port *port, const struct request *req,
			     struct fi_info *info)
{
	if (!req->dest.addr)
		return true;
	info->dest_addr = (void *)(uintptr_t)req->dest.addr;
	info->dest_addrlen = req->dest.len;
	return reaches(port, &req->dest);
}

/* ---- the list ---- */

/* Is this provider wanted at all: FI_PROVIDER, and the name in hints? */
static bool provider_selected(const struct fi_info *hints)
{
	const char *asked = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	const char *filter = hm_param_str(HM_PARAM_PROVIDER);

	if (!hm_list_selects(filter, HM_PROVIDER_NAME)) {
		HM_INFO(FI_LOG_CORE, "FI_PROVIDER=%s leaves out provider %s", filter,
			HM_PROVIDER_NAME);
		return false;
	}
	if (!hm_list_selects(asked, HM_PROVIDER_NAME)) {
		HM_INFO(FI_LOG_CORE, "hints->fabric_attr->prov_name: asked \"%s\", this is \"%s\"",
			asked, HM_PROVIDER_NAME);
		return false;
	}
	return true;
}

static int list_provider(struct fi_info **info)
{
	struct fi_info *entry = fi_dupinfo(NULL);

	if (!entry)
		return -FI_ENOMEM;
	entry->fabric_attr->prov_name = strdup(HM_PROVIDER_NAME);
	if (!entry->fabric_attr->prov_name) {
		HM_WARN(FI_LOG_CORE, "out of memory for the provider's name");
		fi_freeinfo(entry);
		return -FI_ENOMEM;
	}
	entry->fabric_attr->prov_version = HM_PROVIDER_VERSION;
	*info = entry;
	return 0;
}

/* An entry for this port; *entry NULL when it does not match. */
static int list_port(const struct nic_port *port, const struct request *req, struct fi_info **entry)
{
	struct hm_offer offer;
	union address_room room;

	*entry = NULL;
	hm_offer_init(&offer, port, req->version);
	if (!hm_offer_narrow(&offer, req->hints, req->version) ||
	    !find_source(port, req, &room, &offer.info) ||
	    !find_destination(port, req, &offer.info))
		return 0;
	*entry = fi_dupinfo(&offer.info);
	return *entry ? 0 : -FI_ENOMEM;
}

static int list_ports(const struct request *req, struct fi_info **info)
{
	struct fi_info *first = NULL, **last = &first;
	const struct nic_port *port;

	for (size_t i = 0; (port = nic_port_at(i)) != NULL; i++) {
		int ret = list_port(port, req, last);

		if (ret) {
			fi_freeinfo(first);
			return ret;
		}
		if (*last)
			last = &(*last)->next;
	}
	if (!first)
		return -FI_ENODATA;
	*info = first;
	return 0;
}

HM_EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			 const struct fi_info *hints, struct fi_info **info)
{
	struct request req = { .version = version, .flags = flags, .hints = hints };
	int ret;

	hm_init();
	if (!info) {
		HM_WARN(FI_LOG_CORE, "fi_getinfo: info is NULL");
		return -FI_EINVAL;
	}
	ret = check_request(&req, node, service);
	if (!ret && !provider_selected(hints))
		ret = -FI_ENODATA;
	if (!ret && (flags & FI_PROV_ATTR_ONLY))
		return list_provider(info);
	if (!ret)
		ret = find_addresses(&req, node, service);
	if (!ret)
		ret = list_ports(&req, info);
	/* fi_getinfo(3) wants NULL where nothing matches; programs free it without a look at ret. */
	if (ret == -FI_ENODATA)
		*info = NULL;
	return ret;
}

const struct nic_port *hm_info_port(const struct fi_info *info)
{
	const struct nic_port *port;

	if (!info || !info->domain_attr || !info->domain_attr->name)
		return NULL;
	for (size_t i = 0; (port = nic_port_at(i)) != NULL; i++) {
		if (strcmp(port->domain_name, info->domain_attr->name))
			continue;
		if (info->fabric_attr && info->fabric_attr->name &&
		    strcmp(port->fabric_name, info->fabric_attr->name))
			continue;
		return port;
	}
	return NULL;
}
