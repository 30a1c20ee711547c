/* SPDX-License-Identifier: BSD-2-Clause */
/* Which dma-buf a descriptor is: since Linux 5.3 each has an inode of its own, and a size. */
#include <sys/stat.h>

#include <rdma/fi_errno.h>

#include "dmabuf/dmabuf.h"

int dmabuf_identify(int fd, struct dmabuf_id *id, uint64_t *size)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return -FI_EBADF;
	*id = (struct dmabuf_id){ st.st_dev, st.st_ino };
	*size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	return 0;
}
