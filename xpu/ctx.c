/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts for devices that start transfers.  No domain offers FI_XPU (max_xpu_ctx_cnt is 0), so
 * each request is refused, with its reason.
 */
#include "core/core.h"

int hm_xpu_ctx_open(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx,
		    void *context)
{
	(void)context;
	if (!domain || domain->fid.fclass != FI_CLASS_DOMAIN || !attr || !ctx) {
		HM_WARN(FI_LOG_DOMAIN, "not a domain, no attributes, or no result");
		return -FI_EINVAL;
	}
	HM_WARN(FI_LOG_DOMAIN, "the domain has no FI_XPU capability (max_xpu_ctx_cnt is 0)");
	return -FI_ENOSYS;
}
