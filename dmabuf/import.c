/* SPDX-License-Identifier: BSD-2-Clause */
/* A caller's dma-buf in this process's memory, for the NIC that is software. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "dmabuf/dmabuf.h"

static int map_error(int err)
{
	switch (err) {
	case EACCES:
	case EPERM:
		return -FI_EACCES;
	case ENODEV:
	case ENXIO:
	case EOPNOTSUPP:
	case ENOTTY:
		return -FI_EOPNOTSUPP;
	case ENOMEM:
		return -FI_ENOMEM;
	case EBADF:
		return -FI_EBADF;
	default:
		return -FI_EINVAL;
	}
}

int dmabuf_map(int fd, uint64_t offset, size_t len, bool write, struct dmabuf_mapping *mapping)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = offset % page;
	int protection = write ? PROT_READ | PROT_WRITE : PROT_READ;
	void *map = mmap(NULL, len + skip, protection, MAP_SHARED, fd, (off_t)(offset - skip));

	if (map == MAP_FAILED) {
		int err = errno;

		HM_INFO(FI_LOG_MR, "fd %d cannot be mapped for %s: %s", fd,
			write ? "writing" : "reading", strerror(err));
		return map_error(err);
	}
	*mapping = (struct dmabuf_mapping){ (char *)map + skip, map, len + skip };
	return 0;
}

void dmabuf_unmap(const struct dmabuf_mapping *mapping)
{
	munmap(mapping->map, mapping->map_len);
}
