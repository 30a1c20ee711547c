/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel tells of devices in sysfs, all of which is optional. */
#ifndef HM_BASE_SYSFS_H
#define HM_BASE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

/* Where it is: what hm_sysfs_set_root was given, or else HMREG_SYSFS of the environment, or /sys. */
const char *hm_sysfs_root(void);
/* For tests: a tree of their own, before anything reads it.  The text stays the caller's. */
void hm_sysfs_set_root(const char *root);

/* First line of a file below the root, without its end.  False: it cannot be read; out is "". */
bool hm_sysfs_read(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same of any file. */
bool hm_file_read(char *out, size_t size, const char *path);

/* Last component of what a symbolic link below the root leads to.  False: no such link; out is "". */
bool hm_sysfs_link(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Is there a file or directory of this name below the root? */
bool hm_sysfs_exists(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
