/* SPDX-License-Identifier: BSD-2-Clause */
/* An application's own monitor of host memory. */
#ifndef HM_MONITOR_IMPORT_H
#define HM_MONITOR_IMPORT_H

#include <stdbool.h>

#include <rdma/fi_ext.h>

/*
 * Registration caches use this one from now on; it stays the application's, and is to live until it is taken
 * out.  NULL: take it out.  -FI_EINVAL: it is none.  -FI_EBUSY: a cache is in use, or another is imported.
 * One log line for each.
 */
int hm_import_monitor(struct fid_mem_monitor *monitor);

#endif
