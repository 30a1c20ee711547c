/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getinfo(3): which ports there are, and which of them do what a program asks for. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/addr.h"
#include "core/base/export.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/base/refusal.h"
#include "core/core.h"
#include "core/info.h"
#include "core/tostr.h"

/* Capabilities that have a meaning without endpoints. */
#define DOMAIN_ALONE (FI_HMEM | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define OLD_MODELS   (FI_MR_BASIC | FI_MR_SCALABLE)

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
	struct hm_node parsed;	     /* node and service */
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
	if (flags & ~HM_INFO_FLAGS) {
		HM_WARN(FI_LOG_CORE, "fi_getinfo: unknown flags 0x%llx",
			(unsigned long long)(flags & ~HM_INFO_FLAGS));
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
	struct address parsed = { &req->parsed.addr, 0, "(node, service)" };

	if (node || service) {
		int ret = hm_addr_parse(node, service, req->flags & FI_NUMERICHOST, "fi_getinfo",
					&req->parsed);

		if (ret)
			return ret;
		parsed.len = hm_addr_len(req->parsed.addr.any.sa_family);
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
	union hm_addr addr;
	char bytes[128];
};

/* Is the address of this family, as far as one can be told?  Others are the NIC's to judge. */
static bool same_family(const struct nic_port *port, const struct address *address)
{
	sa_family_t ours = hm_addr_format_family(port->addr_format);
	sa_family_t theirs = hm_addr_family(address->addr, address->len);

	return !ours || !theirs || ours == theirs;
}

static bool reached(const struct nic_port *port, const struct address *address)
{
	return same_family(port, address) &&
	       port->ops->port_reaches(port, address->addr, address->len) == 0;
}

/* The same of an address that an endpoint is to have itself. */
static bool had(const struct nic_port *port, const struct address *address)
{
	return same_family(port, address) &&
	       port->ops->port_has(port, address->addr, address->len) == 0;
}

static bool refuse_address(const struct nic_port *port, const struct address *address)
{
	char text[64];

	hm_straddr(text, sizeof(text), FI_SOCKADDR, address->addr, address->len);
	return hm_offer_refuse(port, address->field, "%s is not reached from here", text);
}

/* Did node and service give this address? */
static bool is_parsed(const struct request *req, const struct address *address)
{
	return address->addr == &req->parsed.addr;
}

/* The address as this port takes it: a loopback address that named no family is of the port's. */
static struct address for_port(const struct nic_port *port, const struct request *req,
			       const struct address *address, union hm_addr *room)
{
	struct address result = *address;
	sa_family_t family = hm_addr_format_family(port->addr_format);

	if (!is_parsed(req, address) || !req->parsed.loopback || !family)
		return result;
	*room = hm_addr_loopback(family, hm_addr_port(&req->parsed.addr));
	result.addr = room;
	result.len = hm_addr_len(family);
	return result;
}

/* May the port put its own host in: the wildcard, or no host at all and none at loopback? */
static bool takes_own_host(const struct nic_port *port, const struct request *req,
			   const struct address *src)
{
	union hm_addr addr;
	sa_family_t family = src->addr ? hm_addr_family(src->addr, src->len) : AF_UNSPEC;

	if (!family)
		return false;
	memcpy(&addr, src->addr, hm_addr_len(family));
	if (hm_addr_is_any(&addr))
		return same_family(port, src);
	return is_parsed(req, &req->src) && !req->parsed.named && !had(port, src);
}

/*
 * Does the call ask for what only endpoints have?  Limits of theirs are compared with those of the port,
 * which has none then.
 */
static bool asks_endpoints(const struct request *req)
{
	const struct fi_info *hints = req->hints;
	uint64_t caps;

	if (req->src.addr || req->dest.addr)
		return true;
	if (!hints)
		return false;
	caps = hints->caps | (hints->tx_attr ? hints->tx_attr->caps : 0) |
	       (hints->rx_attr ? hints->rx_attr->caps : 0);
	return (caps & ~DOMAIN_ALONE) || hints->addr_format != FI_FORMAT_UNSPEC ||
	       (hints->ep_attr &&
		(hints->ep_attr->type != FI_EP_UNSPEC || hints->ep_attr->protocol != 0));
}

/* May this port be used by who calls?  Where not, the reason is a line at level info. */
static bool suffices(const struct nic_port *port, const struct request *req)
{
	if (!port->no_endpoints || !asks_endpoints(req))
		return true;
	HM_INFO(FI_LOG_CORE, "%s/%s does not match, since it is for registration alone: %s",
		port->fabric_name, port->domain_name, port->no_endpoints);
	return false;
}

/* The source address: what was asked for, or the port's own host with the number asked for. */
static bool find_source(const struct nic_port *port, const struct request *req,
			union address_room *room, struct fi_info *info)
{
	struct address src = for_port(port, req, &req->src, &room->addr);
	bool own = takes_own_host(port, req, &src);
	in_port_t number = 0;
	size_t len = sizeof(*room);

	if (port->no_endpoints)
		return true;
	if (src.addr && !own) {
		info->src_addr = (void *)(uintptr_t)src.addr;
		info->src_addrlen = src.len;
		return had(port, &src) || refuse_address(port, &src);
	}
	if (own) {
		union hm_addr asked;

		memcpy(&asked, src.addr, hm_addr_len(hm_addr_family(src.addr, src.len)));
		number = hm_addr_port(&asked);
	}
	if (port->ops->port_address(port, room, &len) || len > sizeof(*room)) {
		if (!own)
			return true;
		room->addr = hm_addr_loopback(hm_addr_format_family(port->addr_format), 0);
		len = hm_addr_len(room->addr.any.sa_family);
	}
	if (own)
		hm_addr_set_port(&room->addr, number);
	info->src_addr = room;
	info->src_addrlen = len;
	return true;
}

static bool find_destination(const struct nic_port *port, const struct request *req,
			     union hm_addr *room, struct fi_info *info)
{
	struct address dest = for_port(port, req, &req->dest, room);

	if (!dest.addr)
		return true;
	info->dest_addr = (void *)(uintptr_t)dest.addr;
	info->dest_addrlen = dest.len;
	return reached(port, &dest) || refuse_address(port, &dest);
}

/* Is this address one of the port's format and no other's? */
static bool asks_for(const struct request *req, const struct address *address, uint32_t addr_format)
{
	sa_family_t family = hm_addr_format_family(addr_format);

	if (!address->addr || !family || (is_parsed(req, address) && req->parsed.loopback))
		return false;
	return hm_addr_family(address->addr, address->len) == family;
}

/* Ports that stand beside another of the same name are for those who ask for their addresses. */
static bool is_wanted(const struct nic_port *port, const struct request *req)
{
	const struct fi_info *hints = req->hints;

	if (!port->alternate || asks_for(req, &req->src, port->addr_format) ||
	    asks_for(req, &req->dest, port->addr_format))
		return true;
	if (!hints)
		return false;
	return hints->addr_format == port->addr_format ||
	       (hints->domain_attr && hints->domain_attr->domain &&
		hm_domain_of(&hints->domain_attr->domain->fid)->nic->port == port);
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
	union hm_addr dest_room;

	*entry = NULL;
	hm_offer_init(&offer, port, req->version);
	if (!is_wanted(port, req) || !suffices(port, req) ||
	    !hm_offer_narrow(&offer, req->hints, req->version) ||
	    !find_source(port, req, &room, &offer.info) ||
	    !find_destination(port, req, &dest_room, &offer.info))
		return 0;
	*entry = fi_dupinfo(&offer.info);
	return *entry ? 0 : -FI_ENOMEM;
}

/* Append entries for the ports with endpoints, or for those without.  *last: where the list ends. */
static int append_ports(const struct request *req, bool endpoints, struct fi_info ***last)
{
	const struct nic_port *port;

	for (size_t i = 0; (port = nic_port_at(i)) != NULL; i++) {
		int ret = !port->no_endpoints == endpoints ? list_port(port, req, *last) : 0;

		if (ret)
			return ret;
		if (**last)
			*last = &(**last)->next;
	}
	return 0;
}

/* Programs take the first entry: those for registration alone come behind all others. */
static int list_ports(const struct request *req, struct fi_info **info)
{
	struct fi_info *first = NULL, **last = &first;
	int ret = append_ports(req, true, &last);

	if (!ret)
		ret = append_ports(req, false, &last);
	if (ret) {
		fi_freeinfo(first);
		return ret;
	}
	if (!first)
		return -FI_ENODATA;
	*info = first;
	return 0;
}

/* ---- names that no port has ---- */

static const char *domain_name(const struct nic_port *port)
{
	return port->domain_name;
}

static const char *fabric_name(const struct nic_port *port)
{
	return port->fabric_name;
}

static bool is_known(const char *name, const char *(*name_of)(const struct nic_port *port))
{
	const struct nic_port *port;

	for (size_t i = 0; (port = nic_port_at(i)) != NULL; i++)
		if (strcmp(name, name_of(port)) == 0)
			return true;
	return false;
}

/* The one line about a name that is asked for in vain: those that there are, each once. */
static void tell_names(const char *what, const char *name,
		       const char *(*name_of)(const struct nic_port *port))
{
	const char *before = "";
	const struct nic_port *port;
	char known[512] = "none";
	size_t len = 0;

	for (size_t i = 0; (port = nic_port_at(i)) != NULL; i++) {
		if (strcmp(before, name_of(port)) == 0)
			continue;
		before = name_of(port);
		if (len < sizeof(known))
			len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s",
						len ? ", " : "", before);
	}
	HM_REFUSE(FI_LOG_CORE, HMREG_CAUSE_NIC_UNKNOWN,
		  "fi_getinfo: no %s of the name \"%s\"; there are: %s", what, name, known);
}

/* Is the named port one without endpoints, from which some were asked for? */
static const struct nic_port *lacks_endpoints(const struct request *req, const char *name)
{
	const struct nic_port *port;

	for (size_t i = 0; (port = nic_port_at(i)) != NULL; i++)
		if (strcmp(name, port->domain_name) == 0 && port->no_endpoints &&
		    asks_endpoints(req))
			return port;
	return NULL;
}

/* Nothing is listed.  Where a name is why, the NICs know more, or the names help. */
static int explain_names(const struct request *req)
{
	const struct fi_info *hints = req->hints;
	const struct nic_port *port;
	const char *domain = hints && hints->domain_attr ? hints->domain_attr->name : NULL;
	const char *fabric = hints && hints->fabric_attr ? hints->fabric_attr->name : NULL;
	int ret = -FI_ENODATA;

	if (domain && !is_known(domain, domain_name)) {
		ret = nic_port_missing(domain);
		if (ret == -FI_ENODATA)
			tell_names("device", domain, domain_name);
	} else if (domain && (port = lacks_endpoints(req, domain)) != NULL) {
		HM_REFUSE(FI_LOG_CORE, port->no_endpoints_cause, "%s is for registration alone: %s",
			  domain, port->no_endpoints);
		ret = port->no_endpoints_code;
	} else if (fabric && !is_known(fabric, fabric_name)) {
		tell_names("fabric", fabric, fabric_name);
	}
	return ret;
}

/* Held for writing while ports may be added, for reading while each is listed once; outermost. */
static pthread_rwlock_t ports_lock = PTHREAD_RWLOCK_INITIALIZER;

static int list(const struct request *req, struct fi_info **info)
{
	int ret;

	pthread_rwlock_wrlock(&ports_lock);
	nic_look();
	pthread_rwlock_unlock(&ports_lock);
	pthread_rwlock_rdlock(&ports_lock);
	ret = list_ports(req, info);
	if (ret == -FI_ENODATA)
		ret = explain_names(req);
	pthread_rwlock_unlock(&ports_lock);
	return ret;
}

static int getinfo(struct request *req, const char *node, const char *service, bool chosen,
		   struct fi_info **info)
{
	int ret;

	hm_init();
	if (!info) {
		HM_WARN(FI_LOG_CORE, "fi_getinfo: info is NULL");
		return -FI_EINVAL;
	}
	ret = check_request(req, node, service);
	if (!ret && !chosen && !provider_selected(req->hints))
		ret = -FI_ENODATA;
	if (!ret && (req->flags & FI_PROV_ATTR_ONLY))
		return list_provider(info);
	if (!ret)
		ret = find_addresses(req, node, service);
	if (!ret)
		ret = list(req, info);
	/* fi_getinfo(3) wants NULL where nothing matches; programs free it without a look at ret. */
	if (ret == -FI_ENODATA || ret == -FI_ENODEV || ret == -FI_EACCES)
		*info = NULL;
	return ret;
}

HM_EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			 const struct fi_info *hints, struct fi_info **info)
{
	struct request req = { .version = version, .flags = flags, .hints = hints };

	return getinfo(&req, node, service, false, info);
}

int hm_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	struct request req = { .version = version, .flags = flags, .hints = hints };

	return getinfo(&req, node, service, true, info);
}

static bool has_names(const struct nic_port *port, const struct fi_info *info)
{
	if (strcmp(port->domain_name, info->domain_attr->name))
		return false;
	return !info->fabric_attr || !info->fabric_attr->name ||
	       strcmp(port->fabric_name, info->fabric_attr->name) == 0;
}

const struct nic_port *hm_info_port(const struct fi_info *info)
{
	const struct nic_port *port, *first = NULL;

	if (!info || !info->domain_attr || !info->domain_attr->name)
		return NULL;
	for (size_t i = 0; (port = nic_port_at(i)) != NULL; i++) {
		if (!has_names(port, info))
			continue;
		if (port->addr_format == info->addr_format)
			return port;
		if (!first)
			first = port;
	}
	return first;
}
