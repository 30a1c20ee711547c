/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory as a dma-buf.  As documented: begin and length are multiples of the host's page, the
 * whole range is mapped, of one device and with equal properties, and the file begins where the range
 * does.  Memory of pools is exported if the pool was made with handles; host and managed memory is not.
 */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <string.h>

static bool exportable(const struct emu_found *found)
{
	switch (found->kind) {
	case EMU_ALLOC:
		return true;
	case EMU_VMM:
		return found->has_memory && !found->on_host && found->memory.prop.flags.rdma;
	case EMU_POOL:
		return found->memory.handle_types & CU_HANDLE_POSIX_FD;
	default:
		return false;
	}
}

static bool same_properties(const struct emu_found *a, const struct emu_found *b)
{
	return a->kind == b->kind && a->ordinal == b->ordinal &&
	       (a->kind != EMU_VMM ||
		memcmp(&a->memory.prop, &b->memory.prop, sizeof(struct cu_memory_prop)) == 0);
}

static cu_result check_range(char *addr, size_t len)
{
	struct emu_found first, found;
	char *end = addr + len;

	if (!emu_find(addr, &first))
		return CU_INVALID_VALUE;
	if (!exportable(&first))
		return first.on_host ? CU_NOT_SUPPORTED : CU_INVALID_VALUE;
	if (!((accel_setting("dmabuf", -1) >> first.ordinal) & 1))
		return CU_NOT_SUPPORTED;
	found = first;
	for (;;) {
		/* pages of an allocation are its own to their end */
		size_t pages = (found.map_len + ACCEL_PAGE - 1) / ACCEL_PAGE * ACCEL_PAGE;

		if (found.map_start + pages >= end)
			return CU_OK;
		if (!emu_find(found.map_start + pages, &found) || !exportable(&found) ||
		    found.kind != EMU_VMM || !same_properties(&first, &found))
			return CU_INVALID_VALUE;
	}
}

static cu_result check_flags(unsigned long long flags)
{
	long pcie = accel_setting("pcie", 1);

	if (flags & ~(unsigned long long)CU_RANGE_PCIE)
		return CU_INVALID_VALUE;
	if (flags == 0 || pcie == 1)
		return CU_OK;
	return pcie == 0 ? CU_INVALID_VALUE : (cu_result)pcie;
}

cu_result cuMemGetHandleForAddressRange(void *handle, cu_ptr addr, size_t len, unsigned int type,
					unsigned long long flags)
{
	unsigned long long unit = (unsigned long long)accel_setting("unit", 4096);
	char *begin = (char *)(uintptr_t)addr;
	struct CUctx_st *context;
	cu_result result;
	int file;

	EMU_CALL_IN(cuMemGetHandleForAddressRange, context);
	if (type != CU_RANGE_DMA_BUF_FD || len == 0 || addr % unit != 0 || len % unit != 0)
		return CU_INVALID_VALUE;
	result = check_flags(flags);
	if (result == CU_OK)
		result = check_range(begin, len);
	if (result != CU_OK)
		return result;
	file = accel_dmabuf_exact(begin, len);
	if (file < 0)
		return CU_NOT_SUPPORTED;
	*(int *)handle = file;
	return CU_OK;
}
