/* SPDX-License-Identifier: BSD-2-Clause */
/* See dmabuf_host.h. */
#include "dmabuf_host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

#include "common.h"

#define UDMABUF "/dev/udmabuf"
#define HEAP	"/dev/dma_heap/system"

/* A dma-buf over the pages of a memory file, which has to be sealed against shrinking. */
static int from_udmabuf(size_t len)
{
	int device = open(UDMABUF, O_RDWR | O_CLOEXEC), file, fd = -1;
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = len };

	if (device < 0)
		return -errno;
	file = memfd_create("dmabuf_host", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (file >= 0 && !ftruncate(file, (off_t)len) && !fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK)) {
		create.memfd = (unsigned int)file;
		fd = ioctl(device, UDMABUF_CREATE, &create);
	}
	fd = fd < 0 ? -errno : fd;
	if (file >= 0)
		close(file); /* the dma-buf holds the pages */
	close(device);
	return fd;
}

static int from_heap(size_t len)
{
	int heap = open(HEAP, O_RDONLY | O_CLOEXEC), ret;
	struct dma_heap_allocation_data data = { .len = len, .fd_flags = O_RDWR | O_CLOEXEC };

	if (heap < 0)
		return -errno;
	ret = ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data) < 0 ? -errno : (int)data.fd;
	close(heap);
	return ret;
}

int dmabuf_host_open(size_t len, struct dmabuf_host *buffer)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd, first;
	void *map;

	len = (len + page - 1) / page * page;
	buffer->origin = UDMABUF;
	fd = first = from_udmabuf(len);
	if (fd < 0) {
		buffer->origin = HEAP;
		fd = from_heap(len);
	}
	if (fd < 0) {
		fprintf(stderr, "%s%sno dma-buf of %zu bytes: " UDMABUF ": %s; " HEAP ": %s\n",
			sample_program ? sample_program : "", sample_program ? ": " : "", len,
			strerror(-first), strerror(-fd));
		return first == -ENOENT && fd == -ENOENT ? -FI_ENOSYS : -FI_ENODEV;
	}
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		first = -errno;
		close(fd);
		return sample_fail("mmap of a dma-buf", first);
	}
	buffer->fd = fd;
	buffer->map = map;
	buffer->len = len;
	return 0;
}

void dmabuf_host_close(struct dmabuf_host *buffer)
{
	if (!buffer->map)
		return;
	munmap(buffer->map, buffer->len);
	close(buffer->fd);
	memset(buffer, 0, sizeof(*buffer));
}

static int sync_bytes(const struct dmabuf_host *buffer, unsigned long long flags)
{
	struct dma_buf_sync sync = { .flags = flags };
	int ret;

	do {
		ret = ioctl(buffer->fd, DMA_BUF_IOCTL_SYNC, &sync);
	} while (ret < 0 && (errno == EINTR || errno == EAGAIN));
	return ret < 0 ? sample_fail("DMA_BUF_IOCTL_SYNC", -errno) : 0;
}

int dmabuf_host_begin(const struct dmabuf_host *buffer, bool writes)
{
	return sync_bytes(buffer,
			  DMA_BUF_SYNC_START | (writes ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ));
}

int dmabuf_host_end(const struct dmabuf_host *buffer, bool writes)
{
	return sync_bytes(buffer,
			  DMA_BUF_SYNC_END | (writes ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ));
}
