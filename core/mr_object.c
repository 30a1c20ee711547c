/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions as an application holds them: the fid and its operations over core/mr. */
#include <string.h>

#include "core/core.h"
#include "core/mr/kept.h"

static struct fi_ops mr_fid_ops, kept_fid_ops, part_fid_ops, kept_part_fid_ops;

static struct hm_mr_kept *kept_of(struct fid *fid)
{
	return hm_container(hm_mr_of(fid), struct hm_mr_kept, face);
}

static bool is_kept(const struct fid *fid)
{
	return fid->ops == &kept_fid_ops || fid->ops == &kept_part_fid_ops;
}

/* The region behind a fid, which may be shared. */
static struct hm_mr *mr_behind(struct fid *fid)
{
	return is_kept(fid) ? kept_of(fid)->shared : hm_mr_of(fid);
}

/* The other half, after hm_mr_begin_close. */
static int end_mr(struct fid *fid)
{
	struct hm_mr *mr = hm_mr_of(fid);
	int ret;

	/* the element is free for others as soon as this returns, so the fid is marked before */
	hm_fid_end(fid);
	ret = hm_mr_close(mr);
	if (ret != 0) { /* it is as it was */
		__atomic_store_n(&fid->fclass, FI_CLASS_MR, __ATOMIC_RELAXED);
		hm_mr_cancel_close(mr);
	}
	return ret;
}

static int close_mr(struct fid *fid)
{
	int ret = hm_mr_begin_close(hm_mr_of(fid));

	if (ret != 0)
		return ret == -FI_EALREADY ? -FI_EINVAL : ret;
	return end_mr(fid);
}

static int close_kept(struct fid *fid)
{
	struct hm_mr_kept *kept = kept_of(fid);

	hm_fid_end(fid);
	hm_mr_unkeep(kept);
	return 0;
}

/* Asynchronous registration: mr is written before the event can be read, as fi_mr(3) promises. */
static int tell_eq(struct hm_domain *domain, struct hm_mr *mr, struct fid_mr **out, void *context)
{
	struct fi_eq_entry entry = { .fid = &mr->mr.fid, .context = context };
	struct fid_mr *before = *out;
	int ret;

	*out = &mr->mr;
	ret = hm_eq_push(domain->reg_eq, FI_MR_COMPLETE, &entry);
	if (ret != 0)
		*out = before;
	return ret;
}

/* Without its fid. */
static int make_mr(struct hm_domain *domain, const struct fi_mr_attr *attr, struct hm_mr *base,
		   uint64_t flags, struct hm_mr **mr)
{
	struct hm_mr_kept *kept;
	int ret;

	if (!(flags & HMREG_MR_CACHE))
		return hm_mr_register_part(&domain->mr, attr, base, flags, mr);
	ret = hm_mr_keep(&domain->mr, attr, flags, &kept);
	if (ret == 0)
		*mr = &kept->face;
	return ret;
}

static int register_mr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		       struct fid_mr **out)
{
	struct hm_domain *domain;
	struct hm_mr *mr;
	int ret;

	if (!fid || fid->fclass != FI_CLASS_DOMAIN || !attr || !out) {
		HM_WARN(FI_LOG_MR, "%s",
			!attr  ? "attr is NULL"
			: !out ? "mr is NULL: nowhere to put the region"
			       : "the object is not a domain");
		return -FI_EINVAL;
	}
	domain = hm_domain_of(fid);
	ret = make_mr(domain, attr, NULL, flags, &mr);
	if (ret != 0)
		return ret;
	mr->mr.fid = (struct fid){ FI_CLASS_MR, attr->context,
				   flags & HMREG_MR_CACHE ? &kept_fid_ops : &mr_fid_ops };
	if (!domain->reg_eq) {
		*out = &mr->mr;
		return 0;
	}
	ret = tell_eq(domain, mr, out, attr->context);
	if (ret != 0)
		mr->mr.fid.ops->close(&mr->mr.fid);
	return ret;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr)
{
	return register_mr(fid, attr, flags, mr);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		   void *context)
{
	struct fi_mr_attr attr = { .mr_iov = iov,
				   .iov_count = count,
				   .access = access,
				   .offset = offset,
				   .requested_key = requested_key,
				   .context = context };

	if (flags & FI_MR_DMABUF) {
		HM_WARN(FI_LOG_MR,
			"FI_MR_DMABUF goes with fi_mr_regattr, which has a place for it");
		return -FI_EBADFLAGS;
	}
	return register_mr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr hm_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};

static int bind_mr(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct hm_mr *mr = hm_mr_of(fid);

	if (bfid && bfid->fclass == FI_CLASS_CNTR) {
		struct hm_cntr *cntr = hm_cntr_of(bfid);

		return hm_mr_bind_cntr(mr, cntr->domain->mr.nic, &cntr->nic, flags);
	}
	if (bfid && bfid->fclass == FI_CLASS_EP)
		return hm_mr_bind_ep(mr, hm_ep_of(bfid)->nic, flags);
	HM_WARN(FI_LOG_MR, "a region is bound to a counter or an endpoint only");
	return -FI_EINVAL;
}

/* Without FI_XPU: what the NIC's own work requests call the region. */
static int plain_desc(const struct nic_region *region, const struct fi_mr_xpu_desc *desc)
{
	uint8_t raw[NIC_DESC_MAX];
	size_t have, size;
	int ret;

	if (!desc || !desc->len || desc->flags || desc->ctx) {
		HM_WARN(FI_LOG_MR, "fi_mr_get_xpu_desc: %s",
			!desc	      ? "FI_GET_MR_XPU_DESC without struct fi_mr_xpu_desc"
			: !desc->len  ? "no length"
			: desc->flags ? "flags beside FI_XPU"
				      : "a context without FI_XPU");
		return -FI_EINVAL;
	}
	ret = region->domain->ops->region_desc(region, raw, &size);
	if (ret != 0)
		return ret;
	have = *desc->len;
	if (have >= size && !desc->buf) {
		HM_WARN(FI_LOG_MR, "fi_mr_get_xpu_desc: no buffer");
		return -FI_EINVAL;
	}
	*desc->len = size;
	if (have < size) {
		HM_WARN(FI_LOG_MR,
			"fi_mr_get_xpu_desc: %zu bytes are needed, there is room for %zu", size,
			have);
		return -FI_ETOOSMALL;
	}
	memcpy(desc->buf, raw, size);
	return 0;
}

static inline int get_desc(const struct nic_region *region, const struct fi_mr_xpu_desc *desc)
{
	struct hm_domain *domain =
		hm_container(region->domain->regions, struct hm_domain, mr.regions);

	if (desc && desc->flags == FI_XPU)
		return hm_xpu_desc(domain, desc->ctx, region, desc->buf, desc->len);
	return plain_desc(region, desc);
}

static int control_mr(struct fid *fid, int command, void *arg)
{
	struct hm_mr *mr = hm_mr_of(fid);

	switch (command) {
	case FI_GET_RAW_MR:
		return hm_mr_raw_attr(mr, arg);
	case FI_ENABLE:
		return hm_mr_enable(mr);
	case FI_REFRESH:
		return hm_mr_refresh(mr, arg);
	case FI_GET_MR_XPU_DESC:
		return get_desc(&mr->region, arg);
	default:
		return hm_no_control(fid, command, arg);
	}
}

/* ---- what hmreg adds ---- */

static int check_ext(const struct fid *fid, const size_t *size)
{
	return hm_ext_check(fid, FI_CLASS_MR, size, FI_LOG_MR,
			    "not a region, or no room for the answer");
}

static int region_info(struct fid *fid, struct hmreg_region_info *out)
{
	struct hmreg_region_info info = { .size = sizeof(info) };
	const struct nic_region *region;
	int ret = check_ext(fid, out ? &out->size : NULL);

	if (ret != 0)
		return ret;
	region = &mr_behind(fid)->region;
	info.len = region->len;
	ret = region->domain->ops->region_info(region, &info);
	if (ret != 0)
		return ret;
	hm_ext_give(out, &info, sizeof(info));
	return 0;
}

static int region_part(struct fid *fid, size_t index, struct hmreg_verbs_part *out)
{
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	const struct nic_region *region;
	int ret = check_ext(fid, out ? &out->size : NULL);

	if (ret != 0)
		return ret;
	region = &mr_behind(fid)->region;
	ret = region->domain->ops->region_part(region, index, &part);
	if (ret == -FI_ENOSYS)
		HM_WARN(FI_LOG_MR, "a region of %s has no verbs regions behind it",
			region->domain->port->domain_name);
	if (ret != 0)
		return ret;
	hm_ext_give(out, &part, sizeof(part));
	return 0;
}

static struct hmreg_mr_ops mr_ext_ops = {
	.size = sizeof(struct hmreg_mr_ops),
	.info = region_info,
	.verbs_part = region_part,
};

static int mr_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)context;
	return hm_ext_open(fid, FI_LOG_MR, name, flags, ops, HMREG_MR_OPS, &mr_ext_ops);
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = close_mr,
	.bind = bind_mr,
	.control = control_mr,
	.ops_open = mr_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

/* ---- regions that share what is kept ---- */

static int bind_kept(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid;
	(void)bfid;
	(void)flags;
	HM_WARN(FI_LOG_MR, "a region of HMREG_MR_CACHE is shared, and bound to nothing");
	return -FI_EINVAL;
}

static int control_kept(struct fid *fid, int command, void *arg)
{
	if (command == FI_GET_MR_XPU_DESC)
		return get_desc(&kept_of(fid)->shared->region, arg);
	if (command != FI_ENABLE && command != FI_REFRESH)
		return hm_no_control(fid, command, arg);
	HM_WARN(FI_LOG_MR, "a region of HMREG_MR_CACHE is shared: %s",
		command == FI_ENABLE ? "it is enabled already"
				     : "close it and register it anew in place of a refresh");
	return command == FI_ENABLE ? -FI_EOPBADSTATE : -FI_ENOSYS;
}

static struct fi_ops kept_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = close_kept,
	.bind = bind_kept,
	.control = control_kept,
	.ops_open = mr_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

/* ---- regions that one handle holds ---- */

static int close_part(struct fid *fid)
{
	(void)fid;
	HM_WARN(FI_LOG_MR, "the region is one of a handle's (HMREG_MULTI_OPS), which is closed in "
			   "its place");
	return -FI_EBUSY;
}

static struct fi_ops part_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = close_part,
	.bind = bind_mr,
	.control = control_mr,
	.ops_open = mr_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

static struct fi_ops kept_part_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = close_part,
	.bind = bind_kept,
	.control = control_kept,
	.ops_open = mr_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

int hm_mr_part_open(struct hm_domain *domain, const struct fi_mr_attr *attr, struct fid_mr *base,
		    uint64_t flags, struct fid_mr **out)
{
	struct hm_mr *mr;
	int ret = make_mr(domain, attr, base ? hm_mr_of(&base->fid) : NULL, flags, &mr);

	if (ret != 0)
		return ret;
	mr->mr.fid = (struct fid){ FI_CLASS_MR, attr->context,
				   flags & HMREG_MR_CACHE ? &kept_part_fid_ops : &part_fid_ops };
	*out = &mr->mr;
	return 0;
}

int hm_mr_part_begin_close(struct fid_mr *mr)
{
	return is_kept(&mr->fid) ? 0 : hm_mr_begin_close(hm_mr_of(&mr->fid));
}

void hm_mr_part_cancel_close(struct fid_mr *mr)
{
	if (!is_kept(&mr->fid))
		hm_mr_cancel_close(hm_mr_of(&mr->fid));
}

int hm_mr_part_close(struct fid_mr *mr)
{
	return is_kept(&mr->fid) ? close_kept(&mr->fid) : end_mr(&mr->fid);
}

void hm_mr_part_abandon(struct fid_mr *mr)
{
	if (is_kept(&mr->fid))
		close_kept(&mr->fid);
	else
		hm_mr_abandon(hm_mr_of(&mr->fid));
}
