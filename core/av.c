/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors, fi_av(3): the fid around a nic_av, and the ways to put addresses in. */
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/addr.h"
#include "core/core.h"
#include "core/tostr.h"

#define ADDRESS_MAX 128 /* bytes of an address in any format */

/* ---- addresses of an insertion ---- */

/*
 * Where the addresses come from: an array of the caller's, or hosts and services counted up from a
 * first one.
 */
struct source {
	const char *array; /* NULL: counted up */
	size_t stride;
	struct sockaddr_in first;
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

static const void *source_at(const struct source *source, size_t index, struct sockaddr_in *room)
{
	uint32_t host;
	uint16_t service;

	if (source->array)
		return source->array + index * source->stride;
	host = ntohl(source->first.sin_addr.s_addr) + (uint32_t)(index / source->services);
	service = (uint16_t)(ntohs(source->first.sin_port) + index % source->services);
	*room = source->first;
	room->sin_addr.s_addr = htonl(host);
	room->sin_port = htons(service);
	return room;
}

static size_t address_size(uint32_t addr_format)
{
	switch (addr_format) {
	case FI_SOCKADDR:
	case FI_SOCKADDR_IN:
		return sizeof(struct sockaddr_in);
	case FI_SOCKADDR_IN6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

static int check_flags(const struct hm_av *av, const struct insertion *ins)
{
	uint64_t unsupported = FI_AV_USER_ID | FI_AUTH_KEY | FI_FIREWALL_ADDR;
	uint64_t known = FI_MORE | FI_SYNC_ERR | unsupported;

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
	if (av->nic.type == FI_AV_MAP && count && !ins->fi_addr) {
		HM_WARN(FI_LOG_AV, "%s: fi_addr is NULL, which only FI_AV_TABLE allows", ins->call);
		return -FI_EINVAL;
	}
	return 0;
}

static int insert_one(struct hm_av *av, const void *addr, fi_addr_t *fi_addr)
{
	struct nic_domain *nic = av->domain->nic;
	size_t len = address_size(nic->port->addr_format);
	uint64_t peer;
	int ret = nic->ops->peer_resolve(nic, addr, &len, &peer);

	return ret ? ret : nic_av_add(&av->nic, peer, fi_addr);
}

/* Number inserted.  A failure is in fi_addr and, with FI_SYNC_ERR, its code in context. */
static int insert_now(struct hm_av *av, const struct source *source, const struct insertion *ins)
{
	int *codes = ins->flags & FI_SYNC_ERR ? ins->context : NULL;
	int inserted = 0;

	for (size_t i = 0; i < source->count; i++) {
		struct sockaddr_in room;
		fi_addr_t fi_addr = FI_ADDR_NOTAVAIL;
		int ret = insert_one(av, source_at(source, i, &room), &fi_addr);

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

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
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
	source.stride = address_size(av->domain->nic->port->addr_format);
	if (!source.stride) {
		HM_WARN(FI_LOG_AV,
			"fi_av_insert: addresses of format %" PRIu32 " have no fixed size",
			av->domain->nic->port->addr_format);
		return -FI_ENOSYS;
	}
	return insert_all(av, &source, &ins);
}

/* The first address, and how far counting up leads. */
static int count_up(struct hm_av *av, const struct insertion *ins, const char *node, size_t nodecnt,
		    const char *service, size_t svccnt, struct source *source)
{
	uint32_t host;
	uint16_t port;
	int ret;

	if (av->domain->nic->port->addr_format != FI_SOCKADDR_IN) {
		HM_WARN(FI_LOG_AV, "%s: nodes and services need FI_SOCKADDR_IN", ins->call);
		return -FI_ENOSYS;
	}
	if (!node || (!service && !strstr(node, "://"))) {
		HM_WARN(FI_LOG_AV, "%s: %s is NULL", ins->call, node ? "service" : "node");
		return -FI_EINVAL;
	}
	ret = hm_addr_parse(node, service, false, ins->call, &source->first);
	if (ret)
		return ret;
	host = ntohl(source->first.sin_addr.s_addr);
	port = ntohs(source->first.sin_port);
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

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct insertion ins = { "fi_av_insertsvc", fi_addr, flags, context };

	return insert_named(hm_av_of(&fid->fid), &ins, node, 1, service, 1);
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
			size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct insertion ins = { "fi_av_insertsym", fi_addr, flags, context };

	return insert_named(hm_av_of(&fid->fid), &ins, node, nodecnt, service, svccnt);
}

/* ---- removal and look-up ---- */

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct hm_av *av = hm_av_of(&fid->fid);
	size_t bad;
	int ret;

	if (flags) {
		HM_WARN(FI_LOG_AV, "fi_av_remove: flags 0x%" PRIx64 " are %s", flags,
			flags == FI_AUTH_KEY ? "not supported" : "unknown");
		return flags == FI_AUTH_KEY ? -FI_ENOSYS : -FI_EBADFLAGS;
	}
	if (!fi_addr && count) {
		HM_WARN(FI_LOG_AV, "fi_av_remove: fi_addr is NULL");
		return -FI_EINVAL;
	}
	ret = nic_av_remove_all(&av->nic, fi_addr, count, &bad);
	if (ret)
		HM_WARN(FI_LOG_AV,
			"fi_av_remove: fi_addr[%zu] 0x%" PRIx64
			" is not in the vector, or twice in "
			"the list; nothing is removed",
			bad, fi_addr[bad]);
	return ret;
}

/* A short buffer gets what fits, and 0 is returned: fi_av(3). */
static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct hm_av *av = hm_av_of(&fid->fid);
	struct nic_domain *nic = av->domain->nic;
	uint64_t peer = nic_av_peer(&av->nic, fi_addr);
	char full[ADDRESS_MAX];
	size_t len = sizeof(full);
	int ret;

	if (!addrlen || (!addr && *addrlen)) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup: %s is NULL", addrlen ? "addr" : "addrlen");
		return -FI_EINVAL;
	}
	if (!peer) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup: fi_addr 0x%" PRIx64 " is not in the vector",
			fi_addr);
		return -FI_EINVAL;
	}
	ret = nic->ops->peer_address(nic, peer, full, &len);
	if (ret)
		return ret;
	if (*addrlen)
		memcpy(addr, full, *addrlen < len ? *addrlen : len);
	*addrlen = len;
	return 0;
}

static int av_lookup2(struct fid_av *fid, fi_addr_t fi_addr, void *buf, size_t *len, uint64_t flags,
		      struct fid_xpu_ctx *ctx)
{
	if (flags & ~FI_XPU) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup2: unknown flags 0x%llx", flags & ~FI_XPU);
		return -FI_EBADFLAGS;
	}
	if (flags & FI_XPU) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup2: XPU contexts are not supported");
		return -FI_ENOSYS;
	}
	if (ctx) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup2: a context is given without FI_XPU");
		return -FI_EINVAL;
	}
	return av_lookup(fid, fi_addr, buf, len);
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	uint32_t format = hm_av_of(&fid->fid)->domain->nic->port->addr_format;

	if (!addr || !len || (!buf && *len)) {
		HM_WARN(FI_LOG_AV, "fi_av_straddr: %s is NULL",
			!addr  ? "addr"
			: !len ? "len"
			       : "buf");
		return NULL;
	}
	*len = hm_straddr(buf, *len, format, addr, address_size(format)) + 1;
	return buf;
}

/* ---- what is not offered ---- */

static int no_av_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **set,
		     void *context)
{
	(void)fid;
	(void)attr;
	(void)set;
	(void)context;
	HM_WARN(FI_LOG_AV, "fi_av_set: collectives are not supported");
	return -FI_ENOSYS;
}

static int no_insert_auth_key(struct fid_av *fid, const void *key, size_t size, fi_addr_t *fi_addr,
			      uint64_t flags)
{
	(void)fid;
	(void)key;
	(void)size;
	(void)fi_addr;
	(void)flags;
	HM_WARN(FI_LOG_AV, "fi_av_insert_auth_key: the domain is not of FI_AV_AUTH_KEY");
	return -FI_ENOSYS;
}

static int no_lookup_auth_key(struct fid_av *fid, fi_addr_t addr, void *key, size_t *size)
{
	(void)fid;
	(void)addr;
	(void)key;
	(void)size;
	HM_WARN(FI_LOG_AV, "fi_av_lookup_auth_key: the domain is not of FI_AV_AUTH_KEY");
	return -FI_ENOSYS;
}

static int no_set_user_id(struct fid_av *fid, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)
{
	(void)fid;
	(void)fi_addr;
	(void)user_id;
	(void)flags;
	HM_WARN(FI_LOG_AV, "fi_av_set_user_id: FI_AV_USER_ID is not supported");
	return -FI_ENOSYS;
}

/* ---- the object ---- */

static int check_bind(const struct hm_av *av, const struct fid *bfid, uint64_t flags)
{
	const char *why = NULL;

	if (flags) {
		HM_WARN(FI_LOG_AV, "fi_av_bind: flags 0x%" PRIx64 ", none are defined", flags);
		return -FI_EBADFLAGS;
	}
	if (!bfid || bfid->fclass != FI_CLASS_EQ)
		why = "only an event queue can be bound";
	else if (!(av->flags & FI_EVENT))
		why = "the vector was opened without FI_EVENT";
	else if (hm_container(bfid, const struct hm_eq, eq.fid)->fabric != av->domain->fabric)
		why = "the event queue belongs to another fabric";
	if (!why)
		return 0;
	HM_WARN(FI_LOG_AV, "fi_av_bind: %s", why);
	return -FI_EINVAL;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct hm_av *av = hm_av_of(fid);
	struct hm_eq *eq;
	bool bound;
	int ret = check_bind(av, bfid, flags);

	if (ret)
		return ret;
	eq = hm_eq_of(bfid);
	pthread_mutex_lock(&av->nic.lock);
	bound = av->eq != NULL;
	if (!bound) {
		hm_use(&eq->users);
		av->eq = eq;
	}
	pthread_mutex_unlock(&av->nic.lock);
	if (bound) {
		HM_WARN(FI_LOG_AV, "fi_av_bind: an event queue is bound already");
		return -FI_EINVAL;
	}
	return 0;
}

static int av_close(struct fid *fid)
{
	struct hm_av *av = hm_av_of(fid);
	int ret = hm_check_unused(&av->nic.users, "address vector");

	if (ret)
		return ret;
	hm_fid_end(fid);
	nic_av_destroy(&av->nic);
	if (av->eq)
		hm_unuse(&av->eq->users);
	hm_unuse(&av->domain->users);
	free(av);
	return 0;
}

static struct fi_ops av_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = hm_no_control,
	.ops_open = hm_no_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = no_av_set,
	.insert_auth_key = no_insert_auth_key,
	.lookup_auth_key = no_lookup_auth_key,
	.set_user_id = no_set_user_id,
	.lookup2 = av_lookup2,
};

static int check_attr(const struct fi_av_attr *attr)
{
	uint64_t unsupported = FI_READ | FI_AV_USER_ID | FI_SHARED_AV | FI_PEER;
	uint64_t known = FI_EVENT | FI_SYMMETRIC | unsupported;

	if (attr->flags & ~known) {
		HM_WARN(FI_LOG_AV, "fi_av_open: unknown flags 0x%" PRIx64, attr->flags & ~known);
		return -FI_EBADFLAGS;
	}
	if (attr->flags & unsupported) {
		HM_WARN(FI_LOG_AV, "fi_av_open: flags 0x%" PRIx64 " are not supported",
			attr->flags & unsupported);
		return -FI_ENOSYS;
	}
	if (attr->name) {
		HM_WARN(FI_LOG_AV, "fi_av_open: named (shared) address vectors are not supported");
		return -FI_ENOSYS;
	}
	if ((unsigned)attr->type > FI_AV_TABLE) {
		HM_WARN(FI_LOG_AV, "fi_av_open: unknown type %d", (int)attr->type);
		return -FI_EINVAL;
	}
	if (attr->rx_ctx_bits) {
		HM_WARN(FI_LOG_AV, "fi_av_open: rx_ctx_bits %d, there are no scalable endpoints",
			attr->rx_ctx_bits);
		return -FI_EINVAL;
	}
	return 0;
}

int hm_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_fid,
	       void *context)
{
	struct hm_av *av;
	int ret;

	if (!domain || !attr || !av_fid) {
		HM_WARN(FI_LOG_AV, "fi_av_open: %s is NULL",
			!domain ? "domain"
			: !attr ? "attr"
				: "av");
		return -FI_EINVAL;
	}
	ret = check_attr(attr);
	if (ret)
		return ret;
	av = calloc(1, sizeof(*av));
	if (!av || nic_av_init(&av->nic, attr->type, attr->count)) {
		HM_WARN(FI_LOG_AV, "fi_av_open: out of memory");
		free(av);
		return -FI_ENOMEM;
	}
	av->av.fid.fclass = FI_CLASS_AV;
	av->av.fid.context = context;
	av->av.fid.ops = &av_fi_ops;
	av->av.ops = &av_ops;
	av->domain = hm_domain_of(&domain->fid);
	av->flags = attr->flags;
	hm_use(&av->domain->users);
	/* fi_av(3): the type that was chosen is told to the caller. */
	attr->type = av->nic.type;
	*av_fid = &av->av;
	return 0;
}
