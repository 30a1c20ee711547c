/* SPDX-License-Identifier: BSD-2-Clause */
/* ROCr memory as a dma-buf. */
#include <fcntl.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/refusal.h"
#include "hmem/rocr.h"

/* struct hmem_export.hold: how the fd goes back. */
enum {
	BACK_TO_RUNTIME,
	BACK_BY_CLOSE
};

static int refuse(const void *addr, enum hmreg_cause cause, const char *why)
{
	HM_REFUSE(FI_LOG_MR, cause, "rocr: no dma-buf of the memory at %p: %s", addr, why);
	return -FI_EOPNOTSUPP;
}

/* The newest call that the runtime has; what an older one does not know is left out (FN-24). */
static rocr_status export_range(const void *addr, size_t len, uint32_t flags, int *fd,
				uint64_t *offset)
{
	rocr_status status;

	if ((flags & HMEM_EXPORT_PCIE) && rocr_api.hsa_amd_portable_export_dmabuf_v2) {
		status = rocr_api.hsa_amd_portable_export_dmabuf_v2(addr, len, fd, offset,
								    ROCR_DMABUF_PCIE);
		if (status != ROCR_ERROR_INVALID_ARGUMENT)
			return status;
	}
	return rocr_api.hsa_amd_portable_export_dmabuf(addr, len, fd, offset);
}

static int export_allocation(const struct hmem_facts *facts, uint64_t addr, size_t len,
			     uint32_t flags, struct hmem_export *out)
{
	uint64_t begin = addr & ~(uint64_t)(ROCR_EXPORT_UNIT - 1), offset = 0;
	uint64_t end = (addr + len + ROCR_EXPORT_UNIT - 1) & ~(uint64_t)(ROCR_EXPORT_UNIT - 1);
	rocr_status status;
	int fd = -1;

	/* whole pages, but nothing outside of the allocation */
	begin = begin < facts->base ? facts->base : begin;
	end = end > facts->base + facts->len ? facts->base + facts->len : end;
	status = export_range((const void *)(uintptr_t)begin, end - begin, flags, &fd, &offset);
	if (status == ROCR_ERROR_INVALID_AGENT)
		atomic_store_explicit(&rocr_world.devices[facts->device].export_status, status,
				      memory_order_relaxed);
	if (status != ROCR_SUCCESS)
		return rocr_result(status, "hsa_amd_portable_export_dmabuf");
	*out = (struct hmem_export){ .fd = fd,
				     .offset = offset + (addr - begin),
				     .hold = BACK_TO_RUNTIME };
	return 0;
}

bool rocr_exports_mapped(void)
{
	return rocr_api.hsa_amd_vmem_retain_alloc_handle && rocr_api.hsa_amd_vmem_handle_release &&
	       rocr_api.hsa_amd_vmem_export_shareable_handle;
}

/* The fd is of the whole piece that was mapped there: from the piece's beginning on. */
static int export_mapping(const struct hmem_facts *facts, uint64_t addr, struct hmem_export *out)
{
	rocr_vmem handle;
	int fd = -1, ret;

	if (!rocr_exports_mapped() || (facts->flags & HMEM_FACT_NO_EXPORT))
		return refuse((void *)(uintptr_t)addr, HMREG_CAUSE_EXPORT_OLD,
			      "the runtime does not export mapped memory, or not tell its pieces");
	ret = ROCR_CALL(hsa_amd_vmem_retain_alloc_handle, &handle, (void *)(uintptr_t)addr);
	if (ret != 0)
		return ret;
	ret = ROCR_CALL(hsa_amd_vmem_export_shareable_handle, &fd, handle, 0);
	if (ROCR_CALL(hsa_amd_vmem_handle_release, handle) != 0 && ret == 0) {
		close(fd);
		ret = -FI_EIO;
	}
	if (ret == 0)
		*out = (struct hmem_export){ .fd = fd,
					     .offset = addr - facts->base,
					     .hold = BACK_BY_CLOSE };
	return ret;
}

int rocr_export_start(const struct hmem_memory *memory, const void *addr, size_t len,
		      uint32_t flags, struct hmem_export *out)
{
	struct hmem_facts facts;
	int ret;

	if (rocr_world.no_dmabuf)
		return refuse(addr, rocr_world.no_dmabuf_cause, rocr_world.no_dmabuf);
	if (memory->kind != HMEM_DEVICE && memory->kind != HMEM_VMM)
		return refuse(addr, memory->cause ? memory->cause : HMREG_CAUSE_EXPORT_REFUSED,
			      memory->reason[0] ? memory->reason
						: "it is the host's, and registered as such");
	/* the piece at addr, as it is now */
	ret = rocr_look(addr, &facts);
	if (ret == 0 && facts.device == memory->device && !(facts.flags & HMEM_FACT_ON_HOST) &&
	    ((facts.flags & HMEM_FACT_NO_EXPORT) ||
	     len <= facts.base + facts.len - (uintptr_t)addr)) {
		ret = memory->kind == HMEM_VMM
			      ? export_mapping(&facts, (uintptr_t)addr, out)
			      : export_allocation(&facts, (uintptr_t)addr, len, flags, out);
		if (ret == 0 && fcntl(out->fd, F_SETFD, FD_CLOEXEC) != 0)
			HM_INFO(FI_LOG_MR, "rocr: the dma-buf stays open in programs executed");
		return ret;
	}
	if (ret != 0 && ret != -FI_ENOENT)
		return ret;
	HM_WARN(FI_LOG_MR, "rocr: [%p, +%zu) is not inside one allocation of device %d any more",
		addr, len, memory->device);
	return -FI_EINVAL;
}

void rocr_export_end(const struct hmem_export *exported)
{
	if (exported->hold == BACK_BY_CLOSE)
		close(exported->fd);
	else
		ROCR_CALL(hsa_amd_portable_close_dmabuf, exported->fd);
}
