/* SPDX-License-Identifier: BSD-2-Clause */
/* See memory.h. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int open_memfd(struct net_memory *memory)
{
	memory->fd = memfd_create("buffer", MFD_CLOEXEC);
	if (memory->fd < 0 || ftruncate(memory->fd, (off_t)memory->len))
		return sample_fail("a file in memory", -FI_ENOMEM);
	memory->addr = mmap(NULL, memory->len, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
	if (memory->addr != MAP_FAILED)
		return 0;
	memory->addr = NULL;
	return sample_fail("mapping a file", -FI_ENOMEM);
}

/* Like the others; its descriptor and mapping are in host. */
static int open_dmabuf(struct net_memory *memory)
{
	int ret = dmabuf_host_open(memory->len, &memory->host);

	if (ret)
		return ret == -FI_ENOSYS ? -FI_ENODEV : ret;
	memory->fd = memory->host.fd;
	memory->addr = memory->host.map;
	return 0;
}

static int open_device(struct net_memory *memory, const char *kind)
{
	struct hmreg_hmem_iface iface = { .size = sizeof(iface) };
	struct hmreg_hmem_device device = { .size = sizeof(device) };
	struct fid *fabric = &memory->fabric->fid;
	int ret;

	for (int i = FI_HMEM_CUDA; i <= FI_HMEM_SYNAPSEAI; i++) {
		if (memory->ops->iface(fabric, (enum fi_hmem_iface)i, &iface) ||
		    strcmp(kind, iface.name))
			continue;
		if (!iface.devices ||
		    memory->ops->device(fabric, (enum fi_hmem_iface)i, 0, &device)) {
			fprintf(stderr, "%s: %s\n", kind, iface.reason);
			return -FI_ENODEV;
		}
		memory->place = (struct sample_place){ (enum fi_hmem_iface)i, device.id };
		ret = memory->ops->alloc(fabric, memory->place.iface, device.id, HMREG_HMEM_DEVICE,
					 memory->len, &memory->addr);
		return ret ? sample_fail("allocating on the device", ret) : 0;
	}
	fprintf(stderr, "\"%s\": memory is of the kinds " NET_MEMORY_KINDS "\n", kind);
	return -FI_EINVAL;
}

int net_memory_open(struct fid_fabric *fabric, const char *kind, size_t len,
		    struct net_memory *memory)
{
	int ret;

	*memory = (struct net_memory){ .fabric = fabric, .fd = -1, .len = len };
	ret = fi_open_ops(&fabric->fid, HMREG_HMEM_OPS, 0, (void **)&memory->ops, NULL);
	if (ret)
		return sample_fail("fi_open_ops of " HMREG_HMEM_OPS, ret);
	if (!strcmp(kind, "host"))
		ret = posix_memalign(&memory->addr, (size_t)sysconf(_SC_PAGESIZE), len)
			      ? sample_fail("allocating", -FI_ENOMEM)
			      : 0;
	else if (!strcmp(kind, "memfd"))
		ret = open_memfd(memory);
	else if (!strcmp(kind, "dmabuf"))
		ret = open_dmabuf(memory);
	else
		ret = open_device(memory, kind);
	if (ret)
		net_memory_close(memory);
	return ret;
}

void net_memory_close(struct net_memory *memory)
{
	if (memory->host.map) {
		dmabuf_host_close(&memory->host);
	} else if (memory->place.iface != FI_HMEM_SYSTEM && memory->addr) {
		memory->ops->free(&memory->fabric->fid, memory->place.iface, memory->place.device,
				  HMREG_HMEM_DEVICE, memory->addr);
	} else if (memory->fd >= 0) {
		if (memory->addr)
			munmap(memory->addr, memory->len);
		close(memory->fd);
	} else {
		free(memory->addr);
	}
	*memory = (struct net_memory){ .fd = -1 };
}

static int copy(struct net_memory *memory, void *to, const void *from, size_t len)
{
	int ret;

	if (memory->place.iface == FI_HMEM_SYSTEM) {
		memcpy(to, from, len);
		return 0;
	}
	ret = memory->ops->copy(&memory->fabric->fid, to, from, len);
	return ret ? sample_fail("copying", ret) : 0;
}

int net_memory_write(struct net_memory *memory, size_t at, const void *from, size_t len)
{
	return copy(memory, (char *)memory->addr + at, from, len);
}

int net_memory_read(struct net_memory *memory, size_t at, void *to, size_t len)
{
	return copy(memory, to, (char *)memory->addr + at, len);
}
