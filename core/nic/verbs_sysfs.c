/* SPDX-License-Identifier: BSD-2-Clause */
/* Small files and links of sysfs; device files. */
#include "core/nic/verbs_sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *verbs_sysfs_root = "/sys";

/* False: it does not fit. */
static bool make_path(char path[PATH_MAX], const char *fmt, va_list args)
{
	int used = snprintf(path, PATH_MAX, "%s/", verbs_sysfs_root), more;

	if (used < 0 || used >= PATH_MAX)
		return false;
	more = vsnprintf(path + used, (size_t)(PATH_MAX - used), fmt, args);
	return more >= 0 && more < PATH_MAX - used;
}

bool verbs_file_read(char *out, size_t size, const char *path)
{
	ssize_t got;
	int fd;

	out[0] = '\0';
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, out, size - 1);
	close(fd);
	out[got > 0 ? got : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return got > 0;
}

bool verbs_sysfs_read(char *out, size_t size, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list args;
	bool fits;

	out[0] = '\0';
	va_start(args, fmt);
	fits = make_path(path, fmt, args);
	va_end(args);
	return fits && verbs_file_read(out, size, path);
}

bool verbs_sysfs_link(char *out, size_t size, const char *fmt, ...)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *last;
	va_list args;
	ssize_t got;
	bool fits;

	out[0] = '\0';
	va_start(args, fmt);
	fits = make_path(path, fmt, args);
	va_end(args);
	if (!fits)
		return false;
	got = readlink(path, target, sizeof(target) - 1);
	if (got <= 0)
		return false;
	target[got] = '\0';
	last = strrchr(target, '/');
	last = last ? last + 1 : target;
	if (strlen(last) >= size)
		return false;
	strcpy(out, last);
	return true;
}

bool verbs_sysfs_exists(const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list args;
	bool fits;

	va_start(args, fmt);
	fits = make_path(path, fmt, args);
	va_end(args);
	return fits && access(path, F_OK) == 0;
}

static int try_file(const char *file, int mode)
{
	char path[PATH_MAX];
	int saved = errno, err = 0;

	if (snprintf(path, sizeof(path), "/dev/infiniband/%s", file) >= (int)sizeof(path))
		return ENAMETOOLONG;
	if (faccessat(AT_FDCWD, path, mode, AT_EACCESS))
		err = errno;
	errno = saved;
	return err;
}

int verbs_file_error(const char *file, int err)
{
	return try_file(file, R_OK | W_OK) == EACCES ? EACCES : err;
}

bool verbs_file_exists(const char *file)
{
	return try_file(file, F_OK) == 0;
}
