/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects handed to a device: each kind's part is the transport's, which is the NIC's own or the ring.
 *
 * An object's part is NULL, then under_way while it is exported, so that of two exports one is refused and
 * host calls that the device's would meet are refused from here on, then what the transport made of it.
 */
#include "core/nic/nic_xpu.h"
#include "xpu/xpu.h"

static struct hm_xpu_part under_way;

/* What is asked for can be exported now: claims *part. */
static int begin(const struct hm_xpu_ctx *ctx, _Atomic(struct hm_xpu_part *) *part, uint64_t flags,
		 const void *out, const char *call)
{
	struct hm_xpu_part *none = NULL;

	if (!ctx) {
		HM_WARN(FI_LOG_DOMAIN, "%s: the object belongs to no XPU context", call);
		return -FI_ENOSYS;
	}
	if (flags) {
		HM_WARN(FI_LOG_DOMAIN, "%s: flags 0x%llx, none are defined", call,
			(unsigned long long)flags);
		return -FI_EBADFLAGS;
	}
	if (!out) {
		HM_WARN(FI_LOG_DOMAIN, "%s: nowhere to put what is exported", call);
		return -FI_EINVAL;
	}
	if (!atomic_compare_exchange_strong(part, &none, &under_way)) {
		HM_WARN(FI_LOG_DOMAIN, "%s: the object is exported already", call);
		return -FI_EALREADY;
	}
	return 0;
}

/* What the transport answered.  A refusal leaves the object as it was. */
static int finish(int ret, _Atomic(struct hm_xpu_part *) *slot, struct hm_xpu_part *part,
		  struct fid_xpu *fid, size_t fclass)
{
	atomic_store(slot, ret == 0 ? part : NULL);
	fid->fclass = (uint32_t)fclass;
	return ret;
}

int hm_xpu_ep_export(struct hm_ep *ep, uint64_t flags, struct fid_xpu_ep *out)
{
	struct hm_xpu_part *part = NULL;
	struct fid_xpu_ep made = { 0 };
	int ret;

	if (ep->xpu && !atomic_load(&ep->enabled)) {
		HM_WARN(FI_LOG_EP_CTRL, "fi_ep_export_xpu: the endpoint is not enabled");
		return -FI_EOPBADSTATE;
	}
	ret = begin(ep->xpu, &ep->part, flags, out, "fi_ep_export_xpu");
	if (ret != 0)
		return ret;
	ret = ep->xpu->transport->ep_export(ep->xpu->own, ep->nic, ep, &made.fid, &part);
	ret = finish(ret, &ep->part, part, &made.fid, FI_CLASS_EP);
	if (ret == 0)
		*out = made;
	return ret;
}

int hm_xpu_cq_export(struct hm_cq *cq, uint64_t flags, struct fid_xpu_cq *out)
{
	struct hm_xpu_part *part = NULL;
	struct fid_xpu_cq made = { 0 };
	int ret = begin(cq->xpu, &cq->part, flags, out, "fi_cq_export_xpu");

	if (ret != 0)
		return ret;
	ret = cq->xpu->transport->cq_export(cq->xpu->own, &cq->nic, cq, &made.fid, &part);
	ret = finish(ret, &cq->part, part, &made.fid, FI_CLASS_CQ);
	if (ret != 0)
		return ret;
	*out = made;
	hm_wait_signal(&cq->nic.wait); /* readers that sleep are refused, too */
	return 0;
}

int hm_xpu_cntr_export(struct hm_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *out)
{
	struct hm_xpu_part *part = NULL;
	struct fid_xpu_cntr made = { 0 };
	int ret = begin(cntr->xpu, &cntr->part, flags, out, "fi_cntr_export_xpu");

	if (ret != 0)
		return ret;
	ret = cntr->xpu->transport->cntr_export(cntr->xpu->own, &cntr->nic, cntr, &made.fid, &part);
	ret = finish(ret, &cntr->part, part, &made.fid, FI_CLASS_CNTR);
	if (ret != 0)
		return ret;
	*out = made;
	hm_wait_signal(&cntr->nic.wait);
	return 0;
}

void hm_xpu_part_end(const struct hm_xpu_ctx *ctx, struct hm_xpu_part *part)
{
	if (part)
		ctx->transport->end(part);
}
