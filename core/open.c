/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_open(3): objects reached by name. */
#include <string.h>

#include "core/base/export.h"
#include "core/core.h"

HM_EXPORT int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len,
		      uint64_t flags, struct fid **fid, void *context)
{
	(void)attr; /* what has attributes looks at attr_len first */
	hm_init();
	if (!name || !fid) {
		HM_WARN(FI_LOG_CORE, "no name, or nowhere to put the object");
		return -FI_EINVAL;
	}
	if (FI_VERSION_LT(HM_API_VERSION, version)) {
		HM_WARN(FI_LOG_CORE, "interface version %u.%u is newer than this library's",
			FI_MAJOR(version), FI_MINOR(version));
		return -FI_ENOSYS;
	}
	if (strcmp(name, "mr_cache") == 0)
		return hm_mr_cache_open(attr_len, flags, fid, context);
	HM_WARN(FI_LOG_CORE, "no object named \"%s\" can be opened", name);
	return -FI_ENOSYS;
}
