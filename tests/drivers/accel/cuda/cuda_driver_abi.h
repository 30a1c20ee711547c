/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the emulated driver has, and programs that make CUDA memory call, beyond hmem/cuda_abi.h.  Our
 * text of the vendor's interface; tests/unit/abi_cuda.c compares it with cuda.h.
 */
#ifndef CUDA_DRIVER_ABI_H
#define CUDA_DRIVER_ABI_H

#include "hmem/cuda_abi.h"

enum {
	CU_MAP_FAILED = 205,
	CU_PEER_ALREADY = 704,
	CU_PEER_NOT_ENABLED = 705
};

enum {
	CU_ACCESS_NONE = 0,
	CU_ACCESS_READ = 1,
	CU_ACCESS_READ_WRITE = 3
};

#define CU_PTR_ACCESS_FLAGS    16
#define CU_GRANULARITY_MINIMUM 0u
#define CU_HOST_WRITE_COMBINED 4u

struct cu_access { /* CUmemAccessDesc */
	struct cu_location location;
	unsigned int flags;
};

struct cu_pool_prop { /* CUmemPoolProps */
	unsigned int type;
	unsigned int handle_types;
	struct cu_location location;
	void *win32;
	size_t most;
	unsigned short usage;
	unsigned char reserved[54];
};

struct cu_ipc_handle { /* CUipcMemHandle */
	char bytes[64];
};

struct cu_ctx_params { /* CUctxCreateParams, of cuCtxCreate_v4 */
	void *affinity;
	int affinities;
	void *cig;
};

/* Plain functions: compared with cuda.h by their types. */
#define CUDA_TEST_FUNCTIONS(F)                                                                     \
	F(primary_state, cuDevicePrimaryCtxGetState,                                               \
	  (cu_device device, unsigned int *flags, int *active))                                    \
	F(primary_reset, cuDevicePrimaryCtxReset_v2, (cu_device device))                           \
	F(ctx_set, cuCtxSetCurrent, (cu_context context))                                          \
	F(ctx_end, cuCtxDestroy_v2, (cu_context context))                                          \
	F(ctx_device, cuCtxGetDevice, (cu_device * device))                                        \
	F(ctx_sync, cuCtxSynchronize, (void))                                                      \
	F(peer_can, cuDeviceCanAccessPeer, (int *can, cu_device device, cu_device peer))           \
	F(peer_enable, cuCtxEnablePeerAccess, (cu_context peer, unsigned int flags))               \
	F(memory_info, cuMemGetInfo_v2, (size_t * left, size_t * total))                           \
	F(host_device_ptr, cuMemHostGetDevicePointer_v2,                                           \
	  (cu_ptr * device, void *addr, unsigned int flags))                                       \
	F(vmm_reserve, cuMemAddressReserve,                                                        \
	  (cu_ptr * addr, size_t len, size_t align, cu_ptr fixed, unsigned long long flags))       \
	F(vmm_unreserve, cuMemAddressFree, (cu_ptr addr, size_t len))                              \
	F(vmm_map, cuMemMap,                                                                       \
	  (cu_ptr addr, size_t len, size_t offset, cu_memory memory, unsigned long long flags))    \
	F(vmm_unmap, cuMemUnmap, (cu_ptr addr, size_t len))                                        \
	F(pool_end, cuMemPoolDestroy, (cu_pool pool))                                              \
	F(pool_default, cuDeviceGetDefaultMemPool, (cu_pool * pool, cu_device device))             \
	F(alloc_async, cuMemAllocAsync, (cu_ptr * addr, size_t len, cu_stream stream))             \
	F(pool_alloc, cuMemAllocFromPoolAsync,                                                     \
	  (cu_ptr * addr, size_t len, cu_pool pool, cu_stream stream))                             \
	F(free_async, cuMemFreeAsync, (cu_ptr addr, cu_stream stream))                             \
	F(stream_query, cuStreamQuery, (cu_stream stream))                                         \
	F(copy_now, cuMemcpy, (cu_ptr dst, cu_ptr src, size_t len))                                \
	F(to_device, cuMemcpyHtoD_v2, (cu_ptr dst, const void *src, size_t len))                   \
	F(to_host, cuMemcpyDtoH_v2, (void *dst, cu_ptr src, size_t len))                           \
	F(on_device, cuMemcpyDtoD_v2, (cu_ptr dst, cu_ptr src, size_t len))                        \
	F(to_device_async, cuMemcpyHtoDAsync_v2,                                                   \
	  (cu_ptr dst, const void *src, size_t len, cu_stream stream))                             \
	F(to_host_async, cuMemcpyDtoHAsync_v2,                                                     \
	  (void *dst, cu_ptr src, size_t len, cu_stream stream))                                   \
	F(on_device_async, cuMemcpyDtoDAsync_v2,                                                   \
	  (cu_ptr dst, cu_ptr src, size_t len, cu_stream stream))                                  \
	F(copy_peer_now, cuMemcpyPeer,                                                             \
	  (cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t len))                    \
	F(fill, cuMemsetD8_v2, (cu_ptr addr, unsigned char value, size_t len))                     \
	F(fill_async, cuMemsetD8Async,                                                             \
	  (cu_ptr addr, unsigned char value, size_t len, cu_stream stream))                        \
	F(ipc_close, cuIpcCloseMemHandle, (cu_ptr addr))

/* With a struct of the vendor's among their arguments. */
/* cuCtxCreate_v2 is hidden in newer headers, and every driver has it. */
#define CUDA_TEST_STRUCTS(F)                                                                       \
	F(ctx_make, cuCtxCreate_v2, (cu_context * context, unsigned int flags, cu_device device))  \
	F(ctx_make_v4, cuCtxCreate_v4,                                                             \
	  (cu_context * context, struct cu_ctx_params * params, unsigned int flags,                \
	   cu_device device))                                                                      \
	F(vmm_unit, cuMemGetAllocationGranularity,                                                 \
	  (size_t * unit, const struct cu_memory_prop *prop, unsigned int which))                  \
	F(vmm_create, cuMemCreate,                                                                 \
	  (cu_memory * memory, size_t len, const struct cu_memory_prop *prop,                      \
	   unsigned long long flags))                                                              \
	F(vmm_access, cuMemSetAccess,                                                              \
	  (cu_ptr addr, size_t len, const struct cu_access *access, size_t count))                 \
	F(pool_make, cuMemPoolCreate, (cu_pool * pool, const struct cu_pool_prop *prop))           \
	F(ipc_get, cuIpcGetMemHandle, (struct cu_ipc_handle * handle, cu_ptr addr))                \
	F(ipc_open, cuIpcOpenMemHandle_v2,                                                         \
	  (cu_ptr * addr, struct cu_ipc_handle handle, unsigned int flags))

#endif
