/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory as a dma-buf: cuMemGetHandleForAddressRange.  It wants whole pages of the host and gives
 * a file that begins where the range does.  The file is the caller's: it ends with close(2).
 */
#include "hmem/cuda_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/refusal.h"

#define LARGE_PAGE UINT64_C(65536) /* what hosts with large pages want */

struct part {
	uint64_t begin, end;
};

static struct part whole_pages(uint64_t begin, uint64_t end, uint64_t page)
{
	return (struct part){ begin & ~(page - 1), (end + page - 1) & ~(page - 1) };
}

static bool same_part(const struct part *a, const struct part *b)
{
	return a->begin == b->begin && a->end == b->end;
}

/*
 * What to ask for, in this order: the pages of the range, larger pages, and all of the allocation, for
 * drivers that take nothing less.  How many of them.
 */
static size_t parts_of(const struct hmem_memory *memory, uint64_t addr, size_t len,
		       struct part parts[3])
{
	uint64_t page = hmem_cuda.export_unit;
	size_t count = 1;
	struct part part;

	parts[0] = whole_pages(addr, addr + len, page);
	part = whole_pages(addr, addr + len, LARGE_PAGE);
	if (page < LARGE_PAGE && !same_part(&part, &parts[0]))
		parts[count++] = part;
	if (!memory->range_known || addr < memory->base || addr - memory->base >= memory->len)
		return count;
	part = whole_pages(memory->base, memory->base + memory->len, page);
	if (!same_part(&part, &parts[0]) && part.begin <= addr && part.end >= addr + len)
		parts[count++] = part;
	return count;
}

/* The two errors by which drivers refuse a flag or a range. */
static bool refused(cu_result result)
{
	return result == CU_INVALID_VALUE || result == CU_NOT_SUPPORTED;
}

/* One range, with the flag, and without it where the driver does not know it. */
static cu_result ask_part(const struct part *part, uint32_t flags, int *file)
{
	size_t len = (size_t)(part->end - part->begin);
	cu_result result;

	if (flags & HMEM_EXPORT_PCIE) {
		result =
			cu.range_handle(file, part->begin, len, CU_RANGE_DMA_BUF_FD, CU_RANGE_PCIE);
		if (!refused(result))
			return result;
	}
	result = cu.range_handle(file, part->begin, len, CU_RANGE_DMA_BUF_FD, 0);
	if (result == CU_OK && (flags & HMEM_EXPORT_PCIE))
		HM_INFO(FI_LOG_MR,
			"0x%lx: exported without the PCIe mapping, which the driver does "
			"not offer here",
			(unsigned long)part->begin);
	return result;
}

static int ask_parts(const struct hmem_memory *memory, const void *addr, size_t len, uint32_t flags,
		     struct hmem_export *out)
{
	struct part parts[3];
	size_t count = parts_of(memory, (uintptr_t)addr, len, parts);
	cu_result result = CU_INVALID_VALUE;
	int file = -1;

	for (size_t i = 0; i < count && refused(result); i++) {
		result = ask_part(&parts[i], flags, &file);
		if (result == CU_OK) {
			*out = (struct hmem_export){ .fd = file,
						     .offset = (uintptr_t)addr - parts[i].begin };
			return 0;
		}
	}
	cuda_failed(result, "cuMemGetHandleForAddressRange", "%zu bytes at %p of device %d", len,
		    addr, memory->device);
	return refused(result) ? -FI_EOPNOTSUPP : -FI_EIO;
}

/* What needs no call to be told. */
static int check_exportable(const struct hmem_memory *memory, const struct cuda_device *device,
			    const void *addr)
{
	if (!(memory->ways & HMEM_WAY_DMABUF)) {
		HM_REFUSE(FI_LOG_MR, memory->cause ? memory->cause : HMREG_CAUSE_EXPORT_REFUSED,
			  "%p cannot be exported as a dma-buf: %s", addr,
			  memory->reason[0] ? memory->reason : "it is host memory");
		return -FI_EOPNOTSUPP;
	}
	if (device->dmabuf)
		return 0;
	HM_REFUSE(FI_LOG_MR, device->info.dmabuf_cause,
		  "%p cannot be exported as a dma-buf by device %d: %s", addr, memory->device,
		  device->info.dmabuf_reason);
	return -FI_EOPNOTSUPP;
}

/* As every fd of this library; the driver does not promise it. */
static void close_on_exec(int file)
{
	int flags = fcntl(file, F_GETFD);

	if (flags >= 0 && !(flags & FD_CLOEXEC))
		fcntl(file, F_SETFD, flags | FD_CLOEXEC);
}

int cuda_export_start(const struct hmem_memory *memory, const void *addr, size_t len,
		      uint32_t flags, struct hmem_export *out)
{
	struct cuda_device *device = cuda_device_of(memory->device);
	struct cuda_scope scope;
	int ret;

	if (!device && (memory->ways & HMEM_WAY_DMABUF)) {
		HM_WARN(FI_LOG_MR, "cuda has no device %d", memory->device);
		return -FI_ENODEV;
	}
	ret = check_exportable(memory, device, addr);
	if (ret == 0)
		ret = cuda_enter(device, &scope);
	if (ret != 0)
		return ret;
	ret = ask_parts(memory, addr, len, flags, out);
	cuda_leave(&scope);
	if (ret == 0)
		close_on_exec(out->fd);
	return ret;
}

void cuda_export_end(const struct hmem_export *exported)
{
	if (close(exported->fd) != 0)
		HM_WARN(FI_LOG_MR, "close of dma-buf fd %d: %s", exported->fd, strerror(errno));
}
