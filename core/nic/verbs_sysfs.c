/* SPDX-License-Identifier: BSD-2-Clause */
/* Device files of RDMA devices. */
#include "core/nic/verbs_sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

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
