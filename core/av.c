/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors, fi_av(3): the fid around a nic_av.  How addresses get in: av_insert.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/av.h"
#include "core/tostr.h"

#define ADDRESS_MAX 128 /* bytes of an address in any format */

/* ---- removal and look-up ---- */

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct hm_av *av = hm_av_of(&fid->fid);
	size_t bad;
	int ret;

	if (flags && (flags != FI_AUTH_KEY || !av->domain->nic->av_keys)) {
		HM_WARN(FI_LOG_AV, "fi_av_remove: flags 0x%" PRIx64 " are %s", flags,
			flags == FI_AUTH_KEY ? "for domains of FI_AV_AUTH_KEY" : "unknown");
		return flags == FI_AUTH_KEY ? -FI_ENOSYS : -FI_EBADFLAGS;
	}
	if (!fi_addr && count) {
		HM_WARN(FI_LOG_AV, "fi_av_remove: fi_addr is NULL");
		return -FI_EINVAL;
	}
	if (flags)
		return hm_av_remove_auth_keys(av, fi_addr, count);
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
	if (flags & FI_XPU)
		return hm_xpu_addr(hm_av_of(&fid->fid), ctx, fi_addr, buf, len);
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
	*len = hm_straddr(buf, *len, format, addr, hm_av_address_size(format)) + 1;
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
	.insert = hm_av_insert,
	.insertsvc = hm_av_insertsvc,
	.insertsym = hm_av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = no_av_set,
	.insert_auth_key = hm_av_insert_auth_key,
	.lookup_auth_key = hm_av_lookup_auth_key,
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

static int init_vector(struct nic_av *av, const struct fi_av_attr *attr, uint32_t keys)
{
	int ret = nic_av_init(av, attr->type, attr->count);

	if (ret || !keys)
		return ret;
	ret = nic_av_keys_init(av, keys);
	if (ret)
		nic_av_destroy(av);
	return ret;
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
	if (!av || init_vector(&av->nic, attr, hm_domain_of(&domain->fid)->nic->av_keys)) {
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
