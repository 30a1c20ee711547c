/* SPDX-License-Identifier: BSD-2-Clause */
/* The object behind fi_open("mr_cache"): what takes an application's memory monitor. */
#include <stdlib.h>

#include "core/core.h"
#include "core/mr/monitor_import.h"

/* What is imported stays: fi_import opens, imports and closes. */
static int cache_close(struct fid *fid)
{
	hm_fid_end(fid);
	free(fid);
	return 0;
}

static int cache_bind(struct fid *fid, struct fid *monitor, uint64_t flags)
{
	(void)fid;
	if (flags != 0) {
		HM_WARN(FI_LOG_MR, "unknown flags 0x%lx", (unsigned long)flags);
		return -FI_EBADFLAGS;
	}
	return hm_import_monitor(monitor ? hm_container(monitor, struct fid_mem_monitor, fid)
					 : NULL);
}

static struct fi_ops cache_ops = {
	.size = sizeof(struct fi_ops),
	.close = cache_close,
	.bind = cache_bind,
	.control = hm_no_control,
	.ops_open = hm_no_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

int hm_mr_cache_open(size_t attr_len, uint64_t flags, struct fid **fid, void *context)
{
	struct fid *cache;

	if (attr_len != 0 || flags != 0) {
		HM_WARN(FI_LOG_MR,
			"mr_cache has no attributes and no flags; %zu bytes, 0x%lx given", attr_len,
			(unsigned long)flags);
		return attr_len != 0 ? -FI_EINVAL : -FI_EBADFLAGS;
	}
	cache = malloc(sizeof(*cache));
	if (!cache) {
		HM_WARN(FI_LOG_MR, "no memory for the mr_cache object");
		return -FI_ENOMEM;
	}
	*cache = (struct fid){ FI_CLASS_MR_CACHE, context, &cache_ops };
	*fid = cache;
	return 0;
}
