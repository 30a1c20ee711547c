/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies and fills.  Addresses are unified: each may be of any device or the host's.  Mapped memory is
 * out of reach for a device that cuMemSetAccess did not name.  Ranges that overlap are refused, where a
 * real device does whatever it likes.
 */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <sys/mman.h>

static bool host_mapped(const char *addr, size_t len)
{
	unsigned char there;
	char *first = (char *)((uintptr_t)addr & ~(uintptr_t)4095);
	char *last = (char *)(((uintptr_t)addr + len - 1) & ~(uintptr_t)4095);

	return mincore(first, 4096, &there) == 0 && mincore(last, 4096, &there) == 0;
}

cu_result emu_reachable(const struct CUctx_st *context, const void *addr, size_t len)
{
	const char *at = addr, *end = at + len;
	struct emu_found found;

	if (!emu_find(addr, &found))
		return host_mapped(addr, len) ? CU_OK : CU_INVALID_VALUE;
	for (;;) {
		if (!found.map_start)
			return CU_INVALID_VALUE;
		if (found.kind == EMU_VMM &&
		    !(found.memory.devices & (1u << (unsigned int)context->ordinal)))
			return CU_ILLEGAL_ADDRESS;
		at = found.map_start + found.map_len;
		if (at >= end)
			return CU_OK;
		if (found.kind != EMU_VMM || !emu_find(at, &found))
			return CU_INVALID_VALUE;
	}
}

static cu_result submit(const struct CUctx_st *to, void *dst, const struct CUctx_st *from,
			const void *src, int value, size_t len, cu_stream stream)
{
	cu_result result;

	if (len == 0)
		return CU_OK;
	result = emu_reachable(to, dst, len);
	if (result == CU_OK && src)
		result = emu_reachable(from, src, len);
	if (result != CU_OK)
		return result;
	if (src && (const char *)src < (char *)dst + len && (char *)dst < (const char *)src + len)
		return CU_INVALID_VALUE;
	if (stream && !emu_stream_valid(stream))
		return CU_INVALID_HANDLE;
	return emu_submit(stream, dst, src, value, len);
}

#define ADDR(value) ((void *)(uintptr_t)(value))
#define COPY(name, dst, src, len, stream)                                                          \
	struct CUctx_st *context;                                                                  \
	EMU_CALL_IN(name, context);                                                                \
	return submit(context, ADDR(dst), context, ADDR(src), 0, len, stream)

cu_result cuMemcpy(cu_ptr dst, cu_ptr src, size_t len)
{
	COPY(cuMemcpy, dst, src, len, NULL);
}

cu_result cuMemcpyAsync(cu_ptr dst, cu_ptr src, size_t len, cu_stream stream)
{
	COPY(cuMemcpyAsync, dst, src, len, stream);
}

cu_result cuMemcpyHtoD_v2(cu_ptr dst, const void *src, size_t len)
{
	COPY(cuMemcpyHtoD_v2, dst, src, len, NULL);
}

cu_result cuMemcpyDtoH_v2(void *dst, cu_ptr src, size_t len)
{
	COPY(cuMemcpyDtoH_v2, dst, src, len, NULL);
}

cu_result cuMemcpyDtoD_v2(cu_ptr dst, cu_ptr src, size_t len)
{
	COPY(cuMemcpyDtoD_v2, dst, src, len, NULL);
}

cu_result cuMemcpyHtoDAsync_v2(cu_ptr dst, const void *src, size_t len, cu_stream stream)
{
	COPY(cuMemcpyHtoDAsync_v2, dst, src, len, stream);
}

cu_result cuMemcpyDtoHAsync_v2(void *dst, cu_ptr src, size_t len, cu_stream stream)
{
	COPY(cuMemcpyDtoHAsync_v2, dst, src, len, stream);
}

cu_result cuMemcpyDtoDAsync_v2(cu_ptr dst, cu_ptr src, size_t len, cu_stream stream)
{
	COPY(cuMemcpyDtoDAsync_v2, dst, src, len, stream);
}

static cu_result copy_peer(cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t len,
			   cu_stream stream)
{
	if (!emu_context_alive(to) || !emu_context_alive(from))
		return CU_INVALID_CONTEXT;
	return submit(to, ADDR(dst), from, ADDR(src), 0, len, stream);
}

cu_result cuMemcpyPeer(cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t len)
{
	EMU_CALL(cuMemcpyPeer);
	return copy_peer(dst, to, src, from, len, NULL);
}

cu_result cuMemcpyPeerAsync(cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t len,
			    cu_stream stream)
{
	EMU_CALL(cuMemcpyPeerAsync);
	return copy_peer(dst, to, src, from, len, stream);
}

cu_result cuMemsetD8_v2(cu_ptr addr, unsigned char value, size_t len)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuMemsetD8_v2, context);
	return submit(context, ADDR(addr), context, NULL, value, len, NULL);
}

cu_result cuMemsetD8Async(cu_ptr addr, unsigned char value, size_t len, cu_stream stream)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuMemsetD8Async, context);
	return submit(context, ADDR(addr), context, NULL, value, len, stream);
}
