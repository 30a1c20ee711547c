/* SPDX-License-Identifier: BSD-2-Clause */
/* A tree of files and links in place of /sys, below a temporary directory that is removed at the end. */
#ifndef HM_TEST_FAKE_SYSFS_H
#define HM_TEST_FAKE_SYSFS_H

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char sysfs_root[] = "/tmp/hmreg-sysfs-XXXXXX";

static inline void sysfs_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A shell command in the root. */
static inline void sysfs_run(const char *format, ...)
{
	char text[1024], command[1200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(command, sizeof(command), "cd %s && %s", sysfs_root, text);
	if (system(command))
		abort();
}

static inline int sysfs_start(void **state)
{
	(void)state;
	return mkdtemp(sysfs_root) ? 0 : -1;
}

static inline int sysfs_stop(void **state)
{
	(void)state;
	sysfs_run("rm -rf %s", sysfs_root);
	return 0;
}

/* path: of a file below the root, whose directory is made. */
static inline void sysfs_bytes(const char *path, const void *bytes, size_t len)
{
	char full[PATH_MAX];
	int fd;

	sysfs_run("mkdir -p $(dirname %s)", path);
	snprintf(full, sizeof(full), "%s/%s", sysfs_root, path);
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
		abort();
	close(fd);
}

static inline void sysfs_text(const char *path, const char *text)
{
	sysfs_bytes(path, text, strlen(text));
}

/* target: below the root as well. */
static inline void sysfs_link(const char *path, const char *target)
{
	sysfs_run("mkdir -p $(dirname %s) %s && ln -sfn %s/%s %s", path, target, sysfs_root, target,
		  path);
}

#endif
