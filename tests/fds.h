/* SPDX-License-Identifier: BSD-2-Clause */
/* How many file descriptors are open: tests compare it with what it was. */
#ifndef HM_TEST_FDS_H
#define HM_TEST_FDS_H

#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>

static inline size_t test_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

#endif
