/* SPDX-License-Identifier: BSD-2-Clause */
/* A caller's dma-buf in this process's memory, for the NIC that is software. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/range.h"
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

/* What lies beyond a file's end can be mapped and not accessed.  A file that tells no size is judged by its exporter. */
static bool is_too_short(int fd, uint64_t offset, size_t len)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_size > 0 &&
	       !hm_range_ok((uint64_t)st.st_size, offset, len);
}

int dmabuf_map(int fd, uint64_t offset, size_t len, bool write, struct dmabuf_mapping *mapping)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = offset % page;
	int protection = write ? PROT_READ | PROT_WRITE : PROT_READ;
	void *map;

	if (is_too_short(fd, offset, len)) {
		HM_INFO(FI_LOG_MR, "fd %d ends before %zu bytes at %lu do", fd, len,
			(unsigned long)offset);
		return -FI_EINVAL;
	}
	map = mmap(NULL, len + skip, protection, MAP_SHARED, fd, (off_t)(offset - skip));
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
