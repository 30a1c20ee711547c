/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that host and device both reach.  xpu.h explains it. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dmabuf/dmabuf.h"
#include "xpu/xpu.h"

static size_t whole_pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (len + page - 1) / page * page;
}

/* Words that change are atomic, and slots are moved in pieces of 16 bytes. */
static bool is_aligned(uint64_t address)
{
	return address % XPU_SLOT_SIZE == 0;
}

/* A forked child's program and drivers have no device to give anything back to. */
static void free_by_ops(const struct hm_xpu_own *ctx, const void *at)
{
	if (ctx->ops.free && !xpu_engine_inherited(&ctx->engine))
		ctx->ops.free(ctx->device, (void *)(uintptr_t)at);
}

/*
 * What an op of the program's answered: 0, or an error that the caller of the library gets, and what it gave has gone
 * back.
 */
static int answer(const struct hm_xpu_own *ctx, const char *op, size_t len, int ret,
		  const void *ptr)
{
	const char *what = "it answers";

	if (ret == 0 && ptr && is_aligned((uintptr_t)ptr))
		return 0;
	if (ret == 0)
		what = ptr ? "an address that is not aligned, and" : "no address, although";
	HM_WARN(FI_LOG_DOMAIN,
		"%s of the XPU context's operations, %zu bytes for device %lu: %s %d", op, len,
		(unsigned long)ctx->device, what, ret);
	if (ret == 0 && ptr)
		free_by_ops(ctx, ptr);
	return ret < 0 ? ret : -FI_EIO;
}

/* ---- the host's pages ---- */

/* Shared: a fork copies nothing of it, so that the device goes on seeing the same pages as this process. */
static int get_pages(struct xpu_memory *memory)
{
	void *pages =
		mmap(NULL, memory->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED) {
		HM_WARN(FI_LOG_DOMAIN, "no memory: %zu bytes that an XPU reaches", memory->len);
		return -FI_ENOMEM;
	}
	memory->host = pages;
	memory->device = (uintptr_t)pages;
	memory->how = XPU_MEMORY_HOST;
	return 0;
}

int nic_xpu_import(const struct hm_xpu_own *ctx, void *host, size_t len, uint64_t flags,
		   uint64_t *device)
{
	void *ptr = NULL;
	int ret;

	if (!ctx->has_ops && ctx->iface == FI_HMEM_SYSTEM) {
		*device = (uintptr_t)host;
		return 0;
	}
	if (!ctx->ops.import) {
		HM_INFO(FI_LOG_DOMAIN,
			"%zu bytes of the host's are not mapped for device %lu of %s: the XPU "
			"context "
			"has no operation import",
			len, (unsigned long)ctx->device, hmem_name(ctx->iface));
		return -FI_ENOSYS;
	}
	ret = ctx->ops.import(ctx->device, host, len, flags, &ptr);
	ret = answer(ctx, "import", len, ret, ptr);
	if (ret == 0)
		*device = (uintptr_t)ptr;
	return ret;
}

static int import_pages(const struct hm_xpu_own *ctx, struct xpu_memory *memory)
{
	int ret = get_pages(memory);

	if (ret != 0)
		return ret;
	ret = nic_xpu_import(ctx, memory->host, memory->len, FI_XPU_IMPORT_DEVICEMAP,
			     &memory->device);
	if (ret != 0) {
		munmap(memory->host, memory->len);
		return ret;
	}
	memory->how = XPU_MEMORY_IMPORTED;
	return 0;
}

/* ---- the device's ---- */

void nic_xpu_release(const struct hm_xpu_own *ctx, uint64_t device)
{
	free_by_ops(ctx, (const void *)(uintptr_t)device);
}

static int map_file(int fd, uint64_t offset, struct xpu_memory *memory)
{
	struct dmabuf_mapping mapping;
	int ret;

	if (fd < 0) {
		HM_WARN(FI_LOG_DOMAIN, "alloc of the XPU context's operations gives no dma-buf "
				       "(FI_XPU_ALLOC_DMABUF)");
		return -FI_EIO;
	}
	ret = is_aligned(offset) ? dmabuf_map(fd, offset, memory->len, true, &mapping) : -FI_EINVAL;
	if (ret != 0) {
		HM_WARN(FI_LOG_DOMAIN,
			"the dma-buf of the XPU context's alloc cannot be mapped at %lu: error %d",
			(unsigned long)offset, ret);
		return ret;
	}
	memory->host = mapping.at;
	memory->map = mapping.map;
	memory->map_len = mapping.map_len;
	memset(memory->host, 0, memory->len);
	return 0;
}

static int map_alloc(const struct hm_xpu_own *ctx, struct xpu_memory *memory)
{
	uint64_t offset = 0;
	void *ptr = NULL;
	int fd = -1, ret;

	ret = ctx->ops.alloc(ctx->device, memory->len, whole_pages(1), FI_XPU_ALLOC_DMABUF, &ptr,
			     &fd, &offset);
	if (ret != 0)
		fd = -1; /* what it has left there is nobody's, or somebody else's by now */
	ret = answer(ctx, "alloc", memory->len, ret, ptr);
	if (ret == 0) {
		ret = map_file(fd, offset, memory);
		if (ret != 0)
			free_by_ops(ctx, ptr);
	}
	if (fd >= 0)
		close(fd); /* ours; a mapping keeps the dma-buf */
	memory->device = (uintptr_t)ptr;
	memory->how = XPU_MEMORY_MAPPED;
	return ret;
}

/* ---- the interface's ---- */

static int get_from_iface(const struct hm_xpu_own *ctx, struct xpu_memory *memory)
{
	const struct hmem_ops *ops = hmem_get(ctx->iface);
	void *addr;
	int ret;

	if (!ops) {
		HM_WARN(FI_LOG_DOMAIN, "%s: %s", hmem_name(ctx->iface),
			hmem_tried(ctx->iface)->reason);
		return hmem_error(ctx->iface);
	}
	if (!ops->kernels_reach_host_alloc) {
		HM_WARN(FI_LOG_DOMAIN,
			"%s gives no memory that both host and kernels reach: the XPU context "
			"needs operations (fi_xpu_attr.ops)",
			ops->name);
		return -FI_ENOSYS;
	}
	ret = ops->alloc((int)ctx->device, memory->len, HMEM_ALLOC_HOST, &addr);
	if (ret != 0)
		return ret;
	memset(addr, 0, memory->len);
	memory->host = addr;
	memory->device = (uintptr_t)addr;
	memory->how = XPU_MEMORY_HMEM;
	return 0;
}

static void free_by_iface(const struct hm_xpu_own *ctx, void *addr, enum hmem_alloc how)
{
	if (!xpu_engine_inherited(&ctx->engine))
		hmem_get(ctx->iface)->free((int)ctx->device, addr, how);
}

/* ---- both ---- */

int xpu_memory_get(const struct hm_xpu_own *ctx, size_t len, struct xpu_memory *memory)
{
	struct xpu_memory made = { .len = whole_pages(len) };
	int ret;

	if (ctx->has_ops && ctx->ops.import) {
		ret = import_pages(ctx, &made);
	} else if (ctx->has_ops && ctx->ops.alloc) {
		ret = map_alloc(ctx, &made);
	} else if (ctx->has_ops) {
		HM_WARN(FI_LOG_DOMAIN,
			"the XPU context's operations have neither import nor alloc");
		ret = -FI_ENOSYS;
	} else if (ctx->iface == FI_HMEM_SYSTEM) {
		ret = get_pages(&made);
	} else {
		ret = get_from_iface(ctx, &made);
	}
	if (ret == 0)
		*memory = made;
	return ret;
}

/* The interface's copy reaches what the program's alloc gave, too. */
int xpu_memory_write(const struct hm_xpu_own *ctx, uint64_t device_addr, const void *from,
		     size_t len)
{
	const struct hmem_place to = { (void *)(uintptr_t)device_addr, ctx->iface,
				       (int)ctx->device };
	const struct hmem_place source = { (void *)(uintptr_t)from, FI_HMEM_SYSTEM,
					   HMEM_NO_DEVICE };

	return hmem_copy(&to, &source, len);
}

static int zero(const struct hm_xpu_own *ctx, const struct xpu_memory *memory)
{
	static const char zeroes[4096];
	int ret = 0;

	for (size_t at = 0; ret == 0 && at < memory->len; at += sizeof(zeroes)) {
		size_t left = memory->len - at;

		ret = xpu_memory_write(ctx, memory->device + at, zeroes,
				       left < sizeof(zeroes) ? left : sizeof(zeroes));
	}
	return ret;
}

void xpu_memory_get_own(const struct hm_xpu_own *ctx, size_t len, struct xpu_memory *memory)
{
	const struct hmem_ops *ops = ctx->iface == FI_HMEM_SYSTEM ? NULL : hmem_get(ctx->iface);
	struct xpu_memory made = { .len = whole_pages(len) };
	uint64_t offset = 0;
	void *ptr = NULL;
	int ret, fd = -1;

	*memory = (struct xpu_memory){ .how = XPU_MEMORY_NONE };
	/* where the library has a context of its own, its copies may not know the program's memory */
	if (!ops || !ops->kernels_reach_host_alloc || (ctx->has_ops && !ctx->ops.alloc))
		return;
	if (ctx->has_ops)
		ret = ctx->ops.alloc(ctx->device, made.len, whole_pages(1), 0, &ptr, &fd, &offset);
	else
		ret = ops->alloc((int)ctx->device, made.len, HMEM_ALLOC_DEVICE, &ptr);
	if (ret == 0 && fd >= 0)
		close(fd); /* a dma-buf that was not asked for */
	if (ret != 0 || !ptr)
		return;
	made.device = (uintptr_t)ptr;
	made.how = ctx->has_ops ? XPU_MEMORY_DEVICE : XPU_MEMORY_HMEM_DEVICE;
	if (is_aligned(made.device) && zero(ctx, &made) == 0)
		*memory = made;
	else
		xpu_memory_put(ctx, &made);
}

void xpu_memory_put(const struct hm_xpu_own *ctx, struct xpu_memory *memory)
{
	switch (memory->how) {
	case XPU_MEMORY_NONE:
		break;
	case XPU_MEMORY_IMPORTED:
		free_by_ops(ctx, (void *)(uintptr_t)memory->device);
		munmap(memory->host, memory->len);
		break;
	case XPU_MEMORY_MAPPED:
		munmap(memory->map, memory->map_len);
		free_by_ops(ctx, (void *)(uintptr_t)memory->device);
		break;
	case XPU_MEMORY_HOST:
		munmap(memory->host, memory->len);
		break;
	case XPU_MEMORY_DEVICE:
		free_by_ops(ctx, (void *)(uintptr_t)memory->device);
		break;
	case XPU_MEMORY_HMEM:
		free_by_iface(ctx, memory->host, HMEM_ALLOC_HOST);
		break;
	case XPU_MEMORY_HMEM_DEVICE:
		free_by_iface(ctx, (void *)(uintptr_t)memory->device, HMEM_ALLOC_DEVICE);
		break;
	}
	memory->how = XPU_MEMORY_NONE;
}
