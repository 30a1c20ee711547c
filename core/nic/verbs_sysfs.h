/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel tells of RDMA devices in sysfs, all of which is optional, and their files in /dev. */
#ifndef VERBS_SYSFS_H
#define VERBS_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

/* "/sys"; a test puts a tree of its own here, before devices are looked for. */
extern const char *verbs_sysfs_root;

/* First line of a file below the root, without its end.  False: it cannot be read; out is "". */
bool verbs_sysfs_read(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same of any file. */
bool verbs_file_read(char *out, size_t size, const char *path);

/* Last component of what a symbolic link below the root leads to.  False: no such link; out is "". */
bool verbs_sysfs_link(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Is there a file or directory of this name below the root? */
bool verbs_sysfs_exists(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * libibverbs and librdmacm could not open /dev/infiniband/FILE, and say err: which may be ENOENT where
 * they looked elsewhere after a refusal.  EACCES where the file is there, but not for this user.
 */
int verbs_file_error(const char *file, int err);

/* Is /dev/infiniband/FILE there?  A container may have been given none. */
bool verbs_file_exists(const char *file);

#endif
