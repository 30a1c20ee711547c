/* SPDX-License-Identifier: BSD-2-Clause */
/* Small files and links of sysfs. */
#include "core/base/sysfs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/params.h"

static const char *set_root; /* by a test, before there are threads */

const char *hm_sysfs_root(void)
{
	return set_root ? set_root : hm_param_str(HM_PARAM_SYSFS);
}

void hm_sysfs_set_root(const char *root)
{
	set_root = root;
}

/* False: it does not fit. */
static bool make_path(char path[PATH_MAX], const char *fmt, va_list args)
{
	int used = snprintf(path, PATH_MAX, "%s/", hm_sysfs_root()), more;

	if (used < 0 || used >= PATH_MAX)
		return false;
	more = vsnprintf(path + used, (size_t)(PATH_MAX - used), fmt, args);
	return more >= 0 && more < PATH_MAX - used;
}

bool hm_file_read(char *out, size_t size, const char *path)
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

bool hm_sysfs_read(char *out, size_t size, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list args;
	bool fits;

	out[0] = '\0';
	va_start(args, fmt);
	fits = make_path(path, fmt, args);
	va_end(args);
	return fits && hm_file_read(out, size, path);
}

bool hm_sysfs_link(char *out, size_t size, const char *fmt, ...)
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

bool hm_sysfs_exists(const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list args;
	bool fits;

	va_start(args, fmt);
	fits = make_path(path, fmt, args);
	va_end(args);
	return fits && access(path, F_OK) == 0;
}
