/* SPDX-License-Identifier: BSD-2-Clause */
/* What an address is: pointer attributes and ranges. */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <string.h>

static void describe_mapping(const struct accel_range *range, struct emu_found *found)
{
	struct emu_memory *memory = range->user;

	*found = (struct emu_found){ .kind = (enum emu_kind)range->kind,
				     .has_memory = true,
				     .memory = *memory,
				     .start = range->addr,
				     .len = memory->len,
				     .map_start = range->addr,
				     .map_len = memory->len,
				     .id = range->id,
				     .block_id = memory->block_id ? memory->block_id : range->id,
				     .ordinal = memory->ordinal,
				     .context = memory->context,
				     .on_host = range->kind == EMU_HOST ||
						accel_block_place(range->block) == ACCEL_ON_HOST };
}

bool emu_find(const void *addr, struct emu_found *found)
{
	struct accel_range range;
	bool mapped;

	emu_lock_memory();
	mapped = accel_find(addr, &range);
	if (mapped)
		describe_mapping(&range, found);
	emu_unlock_memory();
	if (mapped) {
		if (range.kind == EMU_VMM)
			emu_reserved(range.addr, found);
		/* it may stay when memory that was freed is given out again */
		if (range.kind == EMU_POOL)
			found->id = (uintptr_t)found->start;
		return (size_t)((const char *)addr - range.addr) < found->map_len;
	}
	if (emu_registered(addr, found))
		return true;
	*found = (struct emu_found){ .kind = EMU_VMM, .ordinal = -1 };
	return emu_reserved(addr, found);
}

/* ---- attributes ---- */

#define PUT(type, value) (*(type *)out = (type)(value))

static bool rdma_capable(const struct emu_found *found)
{
	switch (found->kind) {
	case EMU_ALLOC:
		return true;
	case EMU_VMM:
		return found->memory.prop.flags.rdma && !found->on_host;
	case EMU_POOL:
		return found->memory.handle_types & CU_HANDLE_POSIX_FD;
	default:
		return false;
	}
}

static unsigned int memory_type(const struct emu_found *found)
{
	if (!found->map_start)
		return 0;
	return found->on_host ? CU_MEMORY_HOST : CU_MEMORY_DEVICE;
}

/* found NULL: the defaults. */
static cu_result answer(void *out, unsigned int which, cu_ptr addr, const struct emu_found *found)
{
	static const struct emu_found nothing = { .kind = EMU_REGISTERED, .ordinal = -2 };
	const struct emu_found *f = found ? found : &nothing;
	bool host = f->on_host || f->kind == EMU_MANAGED;

	switch (which) {
	case CU_PTR_CONTEXT:
		return PUT(cu_context, f->context), CU_OK;
	case CU_PTR_MEMORY_TYPE:
		return PUT(unsigned int, memory_type(f)), CU_OK;
	case CU_PTR_DEVICE_POINTER:
		return PUT(cu_ptr, found ? addr : 0), CU_OK;
	case CU_PTR_HOST_POINTER:
		return PUT(uintptr_t, host ? addr : 0), CU_OK;
	case CU_PTR_SYNC_MEMOPS:
		return PUT(unsigned int, f->memory.sync_memops), CU_OK;
	case CU_PTR_BUFFER_ID:
		return PUT(unsigned long long, f->id), CU_OK;
	case CU_PTR_IS_MANAGED:
		return PUT(unsigned int, found && f->kind == EMU_MANAGED), CU_OK;
	case CU_PTR_DEVICE_ORDINAL:
		return PUT(int, f->ordinal), CU_OK;
	case CU_PTR_LEGACY_IPC:
		return PUT(bool, f->kind == EMU_ALLOC), CU_OK;
	case CU_PTR_RANGE_START:
		return PUT(cu_ptr, (uintptr_t)f->start), CU_OK;
	case CU_PTR_RANGE_SIZE:
		return PUT(size_t, f->len), CU_OK;
	case CU_PTR_MAPPED:
		return PUT(bool, f->map_start != NULL), CU_OK;
	case CU_PTR_HANDLE_TYPES:
		return PUT(unsigned long long, f->memory.handle_types), CU_OK;
	case CU_PTR_RDMA_CAPABLE:
		return PUT(bool, rdma_capable(f)), CU_OK;
	case CU_PTR_POOL:
		return PUT(cu_pool, f->memory.pool), CU_OK;
	case CU_PTR_MAPPING_SIZE:
		return PUT(size_t, f->map_len), CU_OK;
	case CU_PTR_MAPPING_BASE:
		return PUT(cu_ptr, (uintptr_t)f->map_start), CU_OK;
	case CU_PTR_BLOCK_ID:
		return PUT(unsigned long long, f->block_id), CU_OK;
	default:
		return CU_INVALID_VALUE;
	}
}

static bool attribute_known(unsigned int which)
{
	return which > 0 && which <= (unsigned int)accel_setting("newest", 20);
}

/* The manual of cuPointerGetAttributes lists these. */
static bool batch_knows(unsigned int which)
{
	return accel_setting("batch", 1) || (which <= CU_PTR_HANDLE_TYPES || which == CU_PTR_POOL);
}

cu_result cuPointerGetAttribute(void *value, unsigned int which, cu_ptr addr)
{
	struct emu_found found;

	EMU_CALL(cuPointerGetAttribute);
	if (which == CU_PTR_DEVICE_POINTER && !emu_current())
		return CU_INVALID_CONTEXT;
	if (!attribute_known(which) || !emu_find((void *)(uintptr_t)addr, &found))
		return CU_INVALID_VALUE;
	return answer(value, which, addr, &found);
}

/* An address that is nobody's is no error here. */
cu_result cuPointerGetAttributes(unsigned int count, unsigned int *which, void **values,
				 cu_ptr addr)
{
	struct emu_found found;
	bool any;

	EMU_CALL(cuPointerGetAttributes);
	for (unsigned int i = 0; i < count; i++) {
		if (!attribute_known(which[i]) || !batch_knows(which[i]))
			return CU_INVALID_VALUE;
		if (which[i] == CU_PTR_DEVICE_POINTER && !emu_current())
			return CU_INVALID_CONTEXT;
	}
	any = emu_find((void *)(uintptr_t)addr, &found);
	for (unsigned int i = 0; i < count; i++)
		answer(values[i], which[i], addr, any ? &found : NULL);
	return CU_OK;
}

cu_result cuPointerSetAttribute(const void *value, unsigned int which, cu_ptr addr)
{
	struct accel_range range;
	struct CUctx_st *context;
	struct emu_found found;

	EMU_CALL_IN(cuPointerSetAttribute, context);
	if (which != CU_PTR_SYNC_MEMOPS || !emu_find((void *)(uintptr_t)addr, &found) ||
	    !found.has_memory)
		return CU_INVALID_VALUE;
	/* of the classic allocators only */
	if (found.kind == EMU_VMM || found.kind == EMU_POOL)
		return CU_NOT_SUPPORTED;
	emu_lock_memory();
	if (accel_find((void *)(uintptr_t)addr, &range) && range.id == found.id)
		((struct emu_memory *)range.user)->sync_memops = *(const unsigned int *)value != 0;
	emu_unlock_memory();
	return CU_OK;
}

/* One mapping: what lies behind it is not seen. */
cu_result cuMemGetAddressRange_v2(cu_ptr *base, size_t *len, cu_ptr addr)
{
	struct CUctx_st *context;
	struct emu_found found;

	EMU_CALL_IN(cuMemGetAddressRange_v2, context);
	if (!emu_find((void *)(uintptr_t)addr, &found) || !found.map_start ||
	    (found.kind == EMU_VMM && !accel_setting("range", 1)))
		return CU_NOT_FOUND;
	if (base)
		*base = (uintptr_t)found.map_start;
	if (len)
		*len = found.map_len;
	return CU_OK;
}
