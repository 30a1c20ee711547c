/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of RDMA devices in /dev. */
#ifndef VERBS_SYSFS_H
#define VERBS_SYSFS_H

#include <stdbool.h>

/*
 * libibverbs and librdmacm could not open /dev/infiniband/FILE, and say err: which may be ENOENT where
 * they looked elsewhere after a refusal.  EACCES where the file is there, but not for this user.
 */
int verbs_file_error(const char *file, int err);

/* Is /dev/infiniband/FILE there?  A container may have been given none. */
bool verbs_file_exists(const char *file);

#endif
