/* SPDX-License-Identifier: BSD-2-Clause */
/* The ways to put addresses into an address vector, fi_av(3). */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/addr.h"
#include "core/av.h"

/* ---- addresses of an insertion ---- */

/*
 * Where the addresses come from: an array of the caller's, or hosts and services counted up from a
 * first one.
 */
struct source {
	const char *array; /* NULL: counted up */
	size_t stride;
	union hm_addr first;
	size_t services; /* per host */
	size_t count;
};

/* The caller's side of an insertion. */
struct insertion {
	const char *call;
	fi_addr_t *fi_addr; /* may be NULL for a table */
	uint64_t flags;
	void *context;
};

/* What counting hosts up counts: an IPv4 address, or the last four bytes of an IPv6 one. */
static uint32_t host_number(const union hm_addr *addr)
{
	uint32_t number = addr->in.sin_addr.s_addr;

	if (addr->any.sa_family == AF_INET6)
		memcpy(&number, &addr->in6.sin6_addr.s6_addr[12], sizeof(number));
	return ntohl(number);
}

static void set_host_number(union hm_addr *addr, uint32_t number)
{
	number = htonl(number);
	if (addr->any.sa_family == AF_INET6)
		memcpy(&addr->in6.sin6_addr.s6_addr[12], &number, sizeof(number));
	else
		addr->in.sin_addr.s_addr = number;
}

static const void *source_at(const struct source *source, size_t index, union hm_addr *room)
{
	uint16_t service;

	if (source->array)
		return source->array + index * source->stride;
	service = (uint16_t)(ntohs(hm_addr_port(&source->first)) + index % source->services);
	*room = source->first;
	set_host_number(room, host_number(&source->first) + (uint32_t)(index / source->services));
	hm_addr_set_port(room, htons(service));
	return room;
}

size_t hm_av_address_size(uint32_t addr_format)
{
	if (addr_format == FI_SOCKADDR)
		addr_format = FI_SOCKADDR_IN;
	return hm_addr_len(hm_addr_format_family(addr_format));
}

static int check_flags(const struct hm_av *av, const struct insertion *ins)
{
	uint64_t unsupported = FI_AV_USER_ID | FI_FIREWALL_ADDR |
			       (av->domain->nic->av_keys ? 0 : FI_AUTH_KEY);
	uint64_t known = FI_MORE | FI_SYNC_ERR | FI_AUTH_KEY | unsupported;

	if (ins->flags & ~known) {
		HM_WARN(FI_LOG_AV, "%s: unknown flags 0x%" PRIx64, ins->call, ins->flags & ~known);
		return -FI_EBADFLAGS;
	}
	if (ins->flags & unsupported) {
		HM_WARN(FI_LOG_AV, "%s: flags 0x%" PRIx64 " are not supported", ins->call,
			ins->flags & unsupported);
		return -FI_ENOSYS;
	}
	if (!(ins->flags & FI_SYNC_ERR))
		return 0;
	if (av->flags & FI_EVENT) {
		HM_WARN(FI_LOG_AV, "%s: FI_SYNC_ERR on a vector opened with FI_EVENT", ins->call);
		return -FI_EBADFLAGS;
	}
	if (!ins->context) {
		HM_WARN(FI_LOG_AV, "%s: FI_SYNC_ERR, but context is no array of int", ins->call);
		return -FI_EINVAL;
	}
	return 0;
}

static int check_insertion(const struct hm_av *av, const struct insertion *ins, size_t count)
{
	int ret = check_flags(av, ins);

	if (ret)
		return ret;
	if (count > INT_MAX) {
		HM_WARN(FI_LOG_AV, "%s: %zu addresses, at most %d at once", ins->call, count,
			INT_MAX);
		return -FI_EINVAL;
	}
	if ((ins->flags & FI_AUTH_KEY) && count && !ins->fi_addr) {
		HM_WARN(FI_LOG_AV, "%s: FI_AUTH_KEY, but fi_addr, which brings the keys, is NULL",
			ins->call);
		return -FI_EINVAL;
	}
	if (av->nic.type == FI_AV_MAP && count && !ins->fi_addr) {
		HM_WARN(FI_LOG_AV, "%s: fi_addr is NULL, which only FI_AV_TABLE allows", ins->call);
		return -FI_EINVAL;
	}
	return 0;
}

/* key: fi_addr of the authorization key that goes with the address, or NULL. */
static int insert_one(struct hm_av *av, const void *addr, const fi_addr_t *key, fi_addr_t *fi_addr)
{
	struct nic_domain *nic = av->domain->nic;
	size_t len = hm_av_address_size(nic->port->addr_format);
	uint64_t peer;
	int ret = nic->ops->peer_resolve(nic, addr, &len, &peer);

	if (ret)
		return ret;
	return key ? nic_av_add_by_key(&av->nic, peer, *key, fi_addr)
		   : nic_av_add(&av->nic, peer, fi_addr);
}

/* Number inserted.  A failure is in fi_addr and, with FI_SYNC_ERR, its code in context. */
static int insert_now(struct hm_av *av, const struct source *source, const struct insertion *ins)
{
	int *codes = ins->flags & FI_SYNC_ERR ? ins->context : NULL;
	bool by_key = ins->flags & FI_AUTH_KEY;
	int inserted = 0;

	for (size_t i = 0; i < source->count; i++) {
		union hm_addr room;
		fi_addr_t fi_addr = FI_ADDR_NOTAVAIL;
		int ret = insert_one(av, source_at(source, i, &room),
				     by_key ? &ins->fi_addr[i] : NULL, &fi_addr);

		if (!ret)
			inserted++;
		if (ins->fi_addr)
			ins->fi_addr[i] = fi_addr;
		if (codes)
			codes[i] = -ret;
	}
	return inserted;
}

/* ---- insertion with events (FI_EVENT) ---- */

static struct hm_eq *bound_eq(struct hm_av *av)
{
	struct hm_eq *eq;

	pthread_mutex_lock(&av->nic.lock);
	eq = av->eq;
	pthread_mutex_unlock(&av->nic.lock);
	return eq;
}

/* An error event for each failure, then the one that ends the insertion. */
static int push_events(struct hm_av *av, struct hm_eq *eq, const int *codes, size_t count,
		       int inserted, void *context)
{
	struct fi_eq_entry done = { .fid = &av->av.fid,
				    .context = context,
				    .data = (uint64_t)inserted };

	for (size_t i = 0; i < count; i++) {
		struct fi_eq_err_entry error = {
			.fid = &av->av.fid, .context = context, .data = i, .err = codes[i]
		};
		int ret = codes[i] ? hm_eq_push_error(eq, &error) : 0;

		if (ret)
			return ret;
	}
	return hm_eq_push(eq, FI_AV_COMPLETE, &done);
}

static int insert_with_events(struct hm_av *av, const struct source *source,
			      const struct insertion *ins)
{
	size_t count = source->count;
	struct hm_eq *eq = bound_eq(av);
	struct insertion inner = *ins;
	int *codes = calloc(count + 1, sizeof(*codes));
	fi_addr_t *addrs = malloc((count + 1) * sizeof(*addrs));
	int ret = -FI_ENOEQ;

	if (!eq) {
		HM_WARN(FI_LOG_AV, "%s: FI_EVENT, but no event queue is bound", ins->call);
		goto free_arrays;
	}
	ret = -FI_ENOMEM;
	if (!codes || !addrs) {
		HM_WARN(FI_LOG_AV, "%s: no memory for %zu addresses", ins->call, count);
		goto free_arrays;
	}
	if (ins->flags & FI_AUTH_KEY)
		memcpy(addrs, ins->fi_addr, count * sizeof(*addrs));
	inner.fi_addr = addrs;
	inner.flags |= FI_SYNC_ERR;
	inner.context = codes;
	ret = insert_now(av, source, &inner);
	if (ins->fi_addr && count)
		memcpy(ins->fi_addr, addrs, count * sizeof(*addrs));
	ret = push_events(av, eq, codes, count, ret, ins->context);
	/* Without its event the insertion has not happened. */
	for (size_t i = 0; ret && i < count; i++) {
		if (addrs[i] == FI_ADDR_NOTAVAIL)
			continue;
		nic_av_remove(&av->nic, addrs[i]);
		if (ins->fi_addr)
			ins->fi_addr[i] = FI_ADDR_NOTAVAIL;
	}
free_arrays:
	free(addrs);
	free(codes);
	return ret;
}

static int insert_all(struct hm_av *av, const struct source *source, const struct insertion *ins)
{
	if (av->flags & FI_EVENT)
		return insert_with_events(av, source, ins);
	return insert_now(av, source, ins);
}

/* ---- the insertion calls ---- */

int hm_av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		 uint64_t flags, void *context)
{
	struct hm_av *av = hm_av_of(&fid->fid);
	struct insertion ins = { "fi_av_insert", fi_addr, flags, context };
	struct source source = { .array = addr, .count = count };
	int ret = check_insertion(av, &ins, count);

	if (ret)
		return ret;
	if (!addr && count) {
		HM_WARN(FI_LOG_AV, "fi_av_insert: addr is NULL");
		return -FI_EINVAL;
	}
	source.stride = hm_av_address_size(av->domain->nic->port->addr_format);
	if (!source.stride) {
		HM_WARN(FI_LOG_AV,
			"fi_av_insert: addresses of format %" PRIu32 " have no fixed size",
			av->domain->nic->port->addr_format);
		return -FI_ENOSYS;
	}
	return insert_all(av, &source, &ins);
}

/* The first address, of the port's family. */
static int first_address(struct hm_av *av, const struct insertion *ins, const char *node,
			 const char *service, union hm_addr *first)
{
	uint32_t format = av->domain->nic->port->addr_format;
	sa_family_t family = hm_addr_format_family(format);
	struct hm_node parsed;
	int ret;

	if (!family) {
		HM_WARN(FI_LOG_AV, "%s: nodes and services need FI_SOCKADDR_IN or FI_SOCKADDR_IN6",
			ins->call);
		return -FI_ENOSYS;
	}
	if (!node || (!service && !strstr(node, "://"))) {
		HM_WARN(FI_LOG_AV, "%s: %s is NULL", ins->call, node ? "service" : "node");
		return -FI_EINVAL;
	}
	ret = hm_addr_parse(node, service, false, ins->call, &parsed);
	if (ret)
		return ret;
	if (parsed.loopback)
		parsed.addr = hm_addr_loopback(family, hm_addr_port(&parsed.addr));
	if (parsed.addr.any.sa_family != family) {
		HM_WARN(FI_LOG_AV, "%s: node \"%s\" is no %s address, as those of %s are",
			ins->call, node, family == AF_INET6 ? "IPv6" : "IPv4",
			av->domain->nic->port->domain_name);
		return -FI_EINVAL;
	}
	*first = parsed.addr;
	return 0;
}

/* The first address, and how far counting up leads. */
static int count_up(struct hm_av *av, const struct insertion *ins, const char *node, size_t nodecnt,
		    const char *service, size_t svccnt, struct source *source)
{
	int ret = first_address(av, ins, node, service, &source->first);
	uint32_t host;
	uint16_t port;

	if (ret)
		return ret;
	host = host_number(&source->first);
	port = ntohs(hm_addr_port(&source->first));
	if ((nodecnt && nodecnt - 1 > UINT32_MAX - host) ||
	    (svccnt && svccnt - 1 > (size_t)(UINT16_MAX - port)) ||
	    (svccnt && nodecnt > INT_MAX / svccnt)) {
		HM_WARN(FI_LOG_AV, "%s: %zu hosts from %s with %zu services from %u lead too far",
			ins->call, nodecnt, node, svccnt, port);
		return -FI_EINVAL;
	}
	if (nodecnt > 1 && strcmp(node, "localhost") == 0) {
		HM_WARN(FI_LOG_AV, "%s: node localhost ends in no number to count up from",
			ins->call);
		return -FI_EINVAL;
	}
	source->array = NULL;
	source->services = svccnt;
	source->count = nodecnt * svccnt;
	return 0;
}

static int insert_named(struct hm_av *av, const struct insertion *ins, const char *node,
			size_t nodecnt, const char *service, size_t svccnt)
{
	struct source source;
	int ret = check_flags(av, ins);

	if (!ret)
		ret = count_up(av, ins, node, nodecnt, service, svccnt, &source);
	if (!ret)
		ret = check_insertion(av, ins, source.count);
	return ret ? ret : insert_all(av, &source, ins);
}

int hm_av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr,
		    uint64_t flags, void *context)
{
	struct insertion ins = { "fi_av_insertsvc", fi_addr, flags, context };

	return insert_named(hm_av_of(&fid->fid), &ins, node, 1, service, 1);
}

int hm_av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
		    size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct insertion ins = { "fi_av_insertsym", fi_addr, flags, context };

	return insert_named(hm_av_of(&fid->fid), &ins, node, nodecnt, service, svccnt);
}
