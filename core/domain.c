/* SPDX-License-Identifier: BSD-2-Clause */
/* Domains. */
#include <stdlib.h>
#include <string.h>

#include "core/auth.h"
#include "core/core.h"
#include "core/info.h"
#include "core/mr/kept.h"
#include "core/mr/local.h"
#include "core/mr/stats.h"

/* ---- figures ---- */

static int domain_stats(struct fid *fid, struct hmreg_domain_stats *out)
{
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };
	struct hm_domain *domain;
	int ret = hm_ext_check(fid, FI_CLASS_DOMAIN, out ? &out->size : NULL, FI_LOG_DOMAIN,
			       "not a domain, or no room for its figures");

	if (ret != 0)
		return ret;
	domain = hm_domain_of(fid);
	hm_mr_count(&domain->mr, &stats.regions, &stats.registered_bytes);
	hm_key_count(&domain->mr.mapped, &stats.mapped_keys, NULL);
	stats.endpoints = atomic_load(&domain->endpoints);
	hm_ext_give(out, &stats, sizeof(stats));
	return 0;
}

static int domain_verbs(struct fid *fid, struct hmreg_verbs_domain *out)
{
	struct hmreg_verbs_domain verbs = { .size = sizeof(verbs) };
	struct hm_domain *domain;
	int ret = hm_ext_check(fid, FI_CLASS_DOMAIN, out ? &out->size : NULL, FI_LOG_DOMAIN,
			       "not a domain, or no room for its verbs objects");

	if (ret != 0)
		return ret;
	domain = hm_domain_of(fid);
	ret = domain->nic->ops->domain_verbs(domain->nic, &verbs);
	if (ret != 0)
		return ret;
	hm_ext_give(out, &verbs, sizeof(verbs));
	return 0;
}

static int domain_cache(struct fid *fid, struct hmreg_cache_stats *out)
{
	struct hmreg_cache_stats stats;
	int ret = hm_ext_check(fid, FI_CLASS_DOMAIN, out ? &out->size : NULL, FI_LOG_DOMAIN,
			       "not a domain, or no room for the figures of its cache");

	if (ret != 0)
		return ret;
	hm_cache_figures(atomic_load(&hm_domain_of(fid)->mr.shown), &stats);
	hm_ext_give(out, &stats, sizeof(stats));
	return 0;
}

static struct hmreg_domain_ops domain_ext_ops = {
	.size = sizeof(struct hmreg_domain_ops),
	.stats = domain_stats,
	.verbs = domain_verbs,
	.cache = domain_cache,
};

static int domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
			   void *context)
{
	bool multi = name && strcmp(name, HMREG_MULTI_OPS) == 0;

	(void)context;
	return hm_ext_open(fid, FI_LOG_DOMAIN, name, flags, ops,
			   multi ? HMREG_MULTI_OPS : HMREG_DOMAIN_OPS,
			   multi ? (void *)&hm_multi_ext_ops : (void *)&domain_ext_ops);
}

/* ---- life ---- */

static int check_empty(struct hm_domain *domain)
{
	uint64_t regions, bytes, mapped, refused;
	int ret = hm_check_unused(&domain->users, "domain");

	if (ret != 0)
		return ret;
	hm_mr_end_abandoned(&domain->mr);
	hm_mr_count(&domain->mr, &regions, &bytes);
	hm_key_count(&domain->mr.mapped, &mapped, NULL);
	if (regions == 0 && mapped == 0)
		return 0;
	refused = atomic_load(&domain->mr.refused);
	if (regions == refused && mapped == 0)
		HM_WARN(FI_LOG_DOMAIN,
			"the device's driver refused to end %lu of the domain's regions when they "
			"were closed, so they are open: close them again",
			(unsigned long)refused);
	else
		HM_WARN(FI_LOG_DOMAIN,
			"domain has %lu open regions (%lu of them refused by the device's driver "
			"when "
			"they were closed) and %lu mapped keys; close them first",
			(unsigned long)regions, (unsigned long)refused, (unsigned long)mapped);
	return -FI_EBUSY;
}

static void free_domain(struct hm_domain *domain)
{
	hm_xpu_contexts_end(domain);
	hm_mr_domain_destroy(&domain->mr);
	hm_auth_release(domain->nic->auth.keys);
	free(domain->nic);
	free(domain);
}

static int domain_close(struct fid *fid)
{
	struct hm_domain *domain = hm_domain_of(fid);
	int ret = check_empty(domain);

	if (ret == 0)
		ret = hm_mr_local_flush(&domain->mr);
	if (ret == 0)
		ret = domain->nic->ops->domain_close(domain->nic);
	if (ret != 0)
		return ret;
	if (domain->reg_eq)
		hm_unuse(&domain->reg_eq->users);
	if (domain->eq)
		hm_unuse(&domain->eq->users);
	hm_unuse(&domain->fabric->users);
	hm_fid_end(fid);
	free_domain(domain);
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct hm_domain *domain = hm_domain_of(fid);
	struct hm_eq **slot = flags & FI_REG_MR ? &domain->reg_eq : &domain->eq;
	struct hm_eq *eq;

	if (!bfid || bfid->fclass != FI_CLASS_EQ || (flags & ~FI_REG_MR)) {
		HM_WARN(FI_LOG_DOMAIN, "a domain is bound to an event queue, with FI_REG_MR or 0");
		return flags & ~FI_REG_MR ? -FI_EBADFLAGS : -FI_EINVAL;
	}
	eq = hm_eq_of(bfid);
	if (eq->fabric != domain->fabric || *slot) {
		HM_WARN(FI_LOG_DOMAIN, *slot ? "the domain has this event queue already"
					     : "event queue and domain are of different fabrics");
		return -FI_EINVAL;
	}
	hm_use(&eq->users);
	*slot = eq;
	return 0;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
	struct hm_domain *domain = hm_domain_of(fid);

	switch (command) {
	case FI_MAP_RAW_MR:
		return hm_mr_map_raw(&domain->mr, arg);
	case FI_UNMAP_KEY:
		return hm_mr_unmap_key(&domain->mr, arg);
	default:
		return hm_no_control(fid, command, arg);
	}
}

/* ---- refusals ---- */

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
			  void *context)
{
	(void)domain;
	(void)info;
	(void)sep;
	(void)context;
	HM_WARN(FI_LOG_DOMAIN, "scalable endpoints are not offered");
	return -FI_ENOSYS;
}

static int no_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
			struct fid_poll **pollset)
{
	(void)domain;
	(void)attr;
	(void)pollset;
	HM_WARN(FI_LOG_DOMAIN, "poll sets are not offered: use FI_WAIT_FD and poll(2)");
	return -FI_ENOSYS;
}

static int no_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
		  void *context)
{
	(void)domain;
	(void)attr;
	(void)stx;
	(void)context;
	HM_WARN(FI_LOG_DOMAIN, "shared transmit contexts are not offered");
	return -FI_ENOSYS;
}

static int no_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
		  void *context)
{
	(void)domain;
	(void)attr;
	(void)rx_ep;
	(void)context;
	HM_WARN(FI_LOG_DOMAIN, "shared receive contexts are not offered");
	return -FI_ENOSYS;
}

static int no_collective(struct fid_domain *domain, enum fi_collective_op coll,
			 struct fi_collective_attr *attr, uint64_t flags)
{
	(void)domain;
	(void)coll;
	(void)attr;
	(void)flags;
	HM_WARN(FI_LOG_DOMAIN, "collectives are not offered");
	return -FI_ENOSYS;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = domain_control,
	.ops_open = domain_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = hm_av_open,
	.cq_open = hm_cq_open,
	.endpoint = hm_ep_open,
	.scalable_ep = no_scalable_ep,
	.cntr_open = hm_cntr_open,
	.poll_open = no_poll_open,
	.stx_ctx = no_stx,
	.srx_ctx = no_srx,
	.query_atomic = hm_query_atomic,
	.query_collective = no_collective,
	.endpoint2 = hm_ep_open2,
	.xpu_ctx = hm_xpu_ctx_open,
};

/* ---- opening ---- */

/* All mr_mode bits that stand beside others. */
#define HM_MR_MODES                                                                                \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |            \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE |     \
	 FI_MR_XPU_DESC)

/* The mode bits agreed on, in their modern form. */
static int agreed_mode(const struct fi_info *info, int *mode)
{
	int asked = info->domain_attr->mr_mode;

	if (asked == FI_MR_SCALABLE) {
		*mode = 0;
		return 0;
	}
	if (asked == FI_MR_BASIC) {
		*mode = HM_MR_BASIC_BITS;
		if (info->mode & FI_LOCAL_MR)
			*mode |= FI_MR_LOCAL;
		return 0;
	}
	if (asked & (FI_MR_BASIC | FI_MR_SCALABLE)) {
		HM_WARN(FI_LOG_DOMAIN,
			"FI_MR_BASIC and FI_MR_SCALABLE stand alone, mr_mode is 0x%x",
			(unsigned)asked);
		return -FI_EINVAL;
	}
	if (asked & ~HM_MR_MODES) {
		HM_WARN(FI_LOG_DOMAIN, "unknown mr_mode bits 0x%x",
			(unsigned)(asked & ~HM_MR_MODES));
		return -FI_EINVAL;
	}
	*mode = asked;
	return 0;
}

static int check_info(const struct hm_fabric *fabric, const struct fi_info *info,
		      const struct nic_port **port, int *mode)
{
	uint64_t offered;
	int ret, needed;

	*port = hm_info_port(info);
	if (!*port || strcmp((*port)->fabric_name, fabric->name) != 0) {
		HM_WARN(FI_LOG_DOMAIN, "the info names no domain of this fabric");
		return -FI_EINVAL;
	}
	ret = agreed_mode(info, mode);
	if (ret != 0)
		return ret;
	needed = (*port)->mr_mode;
	/* the basic mode of old has no bit for local registration: this NIC can do without */
	if (info->domain_attr->mr_mode == FI_MR_BASIC)
		needed &= ~FI_MR_LOCAL;
	if (needed & ~*mode) {
		HM_WARN(FI_LOG_DOMAIN, "mr_mode 0x%x lacks bits 0x%x that %s needs",
			(unsigned)*mode, (unsigned)(needed & ~*mode), (*port)->domain_name);
		return -FI_EINVAL;
	}
	*mode = needed | (*mode & ((*port)->mr_mode_kept | ((*port)->mr_mode & FI_MR_LOCAL)));
	offered = hm_port_caps(*port, fabric->fabric.api_version);
	if (info->caps & ~offered) {
		HM_WARN(FI_LOG_DOMAIN, "%s does not offer capabilities 0x%lx", (*port)->domain_name,
			(unsigned long)(info->caps & ~offered));
		return -FI_EINVAL;
	}
	return 0;
}

/* For regions of FI_AV_AUTH_KEY. */
static struct nic_av *find_av(const struct hm_mr_domain *mr, struct fid_av *fid)
{
	struct hm_av *av = fid && fid->fid.fclass == FI_CLASS_AV ? hm_av_of(&fid->fid) : NULL;

	return av && &av->domain->mr == mr ? &av->nic : NULL;
}

/* FI_XPU may have been asked for of the domain alone. */
static uint64_t agreed_caps(const struct fi_info *info, uint64_t offered)
{
	return info->caps ? info->caps | (info->domain_attr->caps & offered & FI_XPU) : offered;
}

/* Everything but what the NIC makes of it. */
static int new_domain(const struct hm_fabric *fabric, const struct nic_port *port,
		      const struct fi_info *info, int mode, struct hm_domain **out)
{
	struct hm_domain *domain = calloc(1, sizeof(*domain));
	struct nic_domain *nic = calloc(1, port->ops->domain_size);
	int ret = -FI_ENOMEM;

	if (!domain || !nic) {
		HM_WARN(FI_LOG_DOMAIN, "no memory for a domain");
		goto free_both;
	}
	nic->ops = port->ops;
	nic->port = port;
	nic->mr_mode = mode;
	nic->caps = agreed_caps(info, hm_port_caps(port, fabric->fabric.api_version));
	domain->nic = nic;
	domain->api_version = fabric->fabric.api_version;
	ret = hm_auth_of_domain(port, info->domain_attr, domain->api_version, &nic->auth.keys,
				&nic->av_keys);
	if (ret != 0)
		goto free_both;
	nic->keyed = nic->auth.keys || nic->av_keys;
	domain->ignores_desc = FI_VERSION_LT(domain->api_version, FI_VERSION(1, 22)) &&
			       !(mode & FI_MR_LOCAL);
	domain->mr.nic = nic;
	domain->mr.api_version = domain->api_version;
	domain->mr.find_av = find_av;
	ret = hm_mr_domain_init(&domain->mr);
	if (ret != 0)
		goto release_key;
	*out = domain;
	return 0;
release_key:
	hm_auth_release(nic->auth.keys);
free_both:
	free(nic);
	free(domain);
	return ret;
}

static int open_domain(struct fid_fabric *fid, struct fi_info *info,
		       const struct hmreg_verbs_adopt *adopt, struct fid_domain **out,
		       void *context)
{
	struct hm_domain *domain;
	const struct nic_port *port;
	struct hm_fabric *fabric = hm_fabric_of(&fid->fid);
	int ret, mode;

	ret = check_info(fabric, info, &port, &mode);
	if (ret != 0)
		return ret;
	ret = new_domain(fabric, port, info, mode, &domain);
	if (ret != 0)
		return ret;
	domain->nic->adopt = adopt;
	ret = port->ops->domain_open(domain->nic);
	domain->nic->adopt = NULL;
	if (ret != 0) {
		free_domain(domain);
		return ret;
	}
	domain->fabric = fabric;
	domain->domain.fid = (struct fid){ FI_CLASS_DOMAIN, context, &domain_fid_ops };
	domain->domain.ops = &domain_ops;
	domain->domain.mr = &hm_mr_ops;
	hm_use(&fabric->users);
	*out = &domain->domain;
	return 0;
}

static int check_open(const struct fid_fabric *fid, const struct fi_info *info,
		      struct fid_domain **out)
{
	if (fid && fid->fid.fclass == FI_CLASS_FABRIC && info && info->domain_attr && out)
		return 0;
	HM_WARN(FI_LOG_DOMAIN, "not a fabric, an info without domain_attr, or no result");
	return -FI_EINVAL;
}

int hm_domain_open2(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out,
		    uint64_t flags, void *context)
{
	int ret = check_open(fid, info, out);

	if (ret != 0)
		return ret;
	if (flags != 0) {
		HM_WARN(FI_LOG_DOMAIN, "flags 0x%lx are not offered", (unsigned long)flags);
		return flags == FI_PEER ? -FI_ENOSYS : -FI_EBADFLAGS;
	}
	return open_domain(fid, info, NULL, out, context);
}

int hm_domain_open_over(struct fid_fabric *fid, struct fi_info *info,
			const struct hmreg_verbs_adopt *adopt, struct fid_domain **out,
			void *context)
{
	int ret = check_open(fid, info, out);

	return ret ? ret : open_domain(fid, info, adopt, out, context);
}

int hm_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		   void *context)
{
	return hm_domain_open2(fabric, info, domain, 0, context);
}
