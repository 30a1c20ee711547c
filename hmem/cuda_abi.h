/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * As much of NVIDIA's driver interface (libcuda.so.1) and of NVML (libnvidia-ml.so.1) as is used here,
 * under names of our own.  Handles have the vendor's tags, so that tests/unit/abi_cuda.c can compare
 * each function with the vendor's cuda.h.  Documents: "CUDA Driver API", "GPUDirect RDMA", "NVML API".
 */
#ifndef HMEM_CUDA_ABI_H
#define HMEM_CUDA_ABI_H

#include <stddef.h>

typedef unsigned int cu_result;	      /* CUresult */
typedef int cu_device;		      /* CUdevice: a handle, not an ordinal */
typedef unsigned long long cu_ptr;    /* CUdeviceptr */
typedef unsigned long long cu_memory; /* CUmemGenericAllocationHandle */
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUmemPoolHandle_st *cu_pool;

/* CUresult */
enum {
	CU_OK = 0,
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NOT_INITIALIZED = 3,
	CU_DEINITIALIZED = 4,
	CU_STUB_LIBRARY = 34,
	CU_NO_DEVICE = 100,
	CU_INVALID_DEVICE = 101,
	CU_INVALID_CONTEXT = 201,
	CU_INVALID_HANDLE = 400,
	CU_NOT_FOUND = 500,
	CU_NOT_READY = 600,
	CU_ILLEGAL_ADDRESS = 700,
	CU_CONTEXT_IS_DESTROYED = 709,
	CU_ALREADY_REGISTERED = 712, /* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */
	CU_NOT_REGISTERED = 713,     /* CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED */
	CU_NOT_PERMITTED = 800,
	CU_NOT_SUPPORTED = 801,
	CU_DRIVER_MISMATCH = 803, /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
	CU_UNKNOWN = 999
};

/* CUpointer_attribute, and the type that each is told in */
enum {
	CU_PTR_CONTEXT = 1,	   /* cu_context */
	CU_PTR_MEMORY_TYPE = 2,	   /* unsigned int, CU_MEMORY_* */
	CU_PTR_DEVICE_POINTER = 3, /* cu_ptr */
	CU_PTR_HOST_POINTER = 4,   /* void * */
	CU_PTR_SYNC_MEMOPS = 6,	   /* unsigned int */
	CU_PTR_BUFFER_ID = 7,	   /* unsigned long long */
	CU_PTR_IS_MANAGED = 8,	   /* unsigned int */
	CU_PTR_DEVICE_ORDINAL = 9, /* int */
	CU_PTR_LEGACY_IPC = 10,	   /* bool: IS_LEGACY_CUDA_IPC_CAPABLE */
	CU_PTR_RANGE_START = 11,   /* cu_ptr */
	CU_PTR_RANGE_SIZE = 12,	   /* size_t */
	CU_PTR_MAPPED = 13,	   /* bool */
	CU_PTR_HANDLE_TYPES = 14,  /* unsigned long long: ALLOWED_HANDLE_TYPES */
	CU_PTR_RDMA_CAPABLE = 15,  /* bool: IS_GPU_DIRECT_RDMA_CAPABLE */
	CU_PTR_POOL = 17,	   /* cu_pool: MEMPOOL_HANDLE */
	CU_PTR_MAPPING_SIZE = 18,  /* size_t */
	CU_PTR_MAPPING_BASE = 19,  /* cu_ptr: MAPPING_BASE_ADDR */
	CU_PTR_BLOCK_ID = 20	   /* unsigned long long: MEMORY_BLOCK_ID, of physical memory */
};

/* CUmemorytype */
enum {
	CU_MEMORY_HOST = 1,
	CU_MEMORY_DEVICE = 2
};

/* CUdevice_attribute */
enum {
	CU_DEV_PCI_BUS = 33,
	CU_DEV_PCI_DEVICE = 34,
	CU_DEV_UNIFIED_ADDRESSING = 41,
	CU_DEV_PCI_DOMAIN = 50,
	CU_DEV_MANAGED_MEMORY = 83,
	CU_DEV_VMM = 102,
	CU_DEV_RDMA_WITH_VMM = 110, /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
	CU_DEV_POOLS = 115,	    /* MEMORY_POOLS_SUPPORTED */
	CU_DEV_RDMA = 116,	    /* GPU_DIRECT_RDMA_SUPPORTED */
	CU_DEV_RDMA_FLUSH = 117,    /* GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: CU_FLUSH_BY_HOST */
	CU_DEV_RDMA_ORDER = 118,    /* GPU_DIRECT_RDMA_WRITES_ORDERING: CU_ORDER_* */
	CU_DEV_DMA_BUF = 124,	    /* DMA_BUF_SUPPORTED */
	CU_DEV_HOST_NUMA_VMM = 141, /* HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
	CU_DEV_HOST_VMM = 145	    /* HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
};

/* CUmemLocationType, CUmemAllocationType, CUmemAllocationHandleType */
enum {
	CU_LOCATION_DEVICE = 1,
	CU_LOCATION_HOST = 2,
	CU_LOCATION_HOST_NUMA = 3,
	CU_LOCATION_HOST_NUMA_CURRENT = 4
};
enum {
	CU_ALLOCATION_PINNED = 1
};
enum {
	CU_HANDLE_NONE = 0,
	CU_HANDLE_POSIX_FD = 1
};

/* CUGPUDirectRDMAWritesOrdering: who sees a NIC's writes in order without a flush */
enum {
	CU_ORDER_NONE = 0,
	CU_ORDER_OWNER = 100,
	CU_ORDER_ALL = 200
};

#define CU_FLUSH_BY_HOST    1u	 /* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST */
#define CU_FLUSH_CONTEXT    0u	 /* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX */
#define CU_FLUSH_TO_OWNER   100u /* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER */
#define CU_RANGE_DMA_BUF_FD 1u	 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
#define CU_RANGE_PCIE	    1u	 /* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, of CUDA 12.8 */
#define CU_STREAM_ALONE	    1u	 /* CU_STREAM_NON_BLOCKING */
#define CU_EVENT_NO_TIME    2u	 /* CU_EVENT_DISABLE_TIMING */
#define CU_ATTACH_GLOBAL    1u	 /* CU_MEM_ATTACH_GLOBAL */
#define CU_HOST_PORTABLE    1u	 /* CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE */

struct cu_location { /* CUmemLocation */
	unsigned int type;
	int id; /* an ordinal, or a NUMA node */
};

struct cu_memory_prop { /* CUmemAllocationProp */
	unsigned int type;
	unsigned int handle_types;
	struct cu_location location;
	void *win32;
	struct {
		unsigned char compression;
		unsigned char rdma; /* gpuDirectRDMACapable */
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
};

/*
 * The functions: our member, the library's symbol, its arguments.  Those of CUDA_FUNCTIONS every driver
 * since CUDA 11.0 has, those of CUDA_NEWER may be absent.
 */
#define CUDA_FUNCTIONS(F)                                                                          \
	F(init, cuInit, (unsigned int flags))                                                      \
	F(version, cuDriverGetVersion, (int *version))                                             \
	F(error_name, cuGetErrorName, (cu_result error, const char **text))                        \
	F(error_text, cuGetErrorString, (cu_result error, const char **text))                      \
	F(device_count, cuDeviceGetCount, (int *count))                                            \
	F(device, cuDeviceGet, (cu_device * device, int ordinal))                                  \
	F(device_name, cuDeviceGetName, (char *name, int len, cu_device device))                   \
	F(device_attr, cuDeviceGetAttribute, (int *value, unsigned int which, cu_device device))   \
	F(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, cu_device device))                  \
	F(device_pci, cuDeviceGetPCIBusId, (char *text, int len, cu_device device))                \
	F(primary_retain, cuDevicePrimaryCtxRetain, (cu_context * context, cu_device device))      \
	F(primary_release, cuDevicePrimaryCtxRelease_v2, (cu_device device))                       \
	F(ctx_current, cuCtxGetCurrent, (cu_context * context))                                    \
	F(ctx_push, cuCtxPushCurrent_v2, (cu_context context))                                     \
	F(ctx_pop, cuCtxPopCurrent_v2, (cu_context * context))                                     \
	F(alloc, cuMemAlloc_v2, (cu_ptr * addr, size_t len))                                       \
	F(free, cuMemFree_v2, (cu_ptr addr))                                                       \
	F(host_alloc, cuMemHostAlloc, (void **addr, size_t len, unsigned int flags))               \
	F(host_free, cuMemFreeHost, (void *addr))                                                  \
	F(managed_alloc, cuMemAllocManaged, (cu_ptr * addr, size_t len, unsigned int flags))       \
	F(host_register, cuMemHostRegister_v2, (void *addr, size_t len, unsigned int flags))       \
	F(host_unregister, cuMemHostUnregister, (void *addr))                                      \
	F(ptr_attr, cuPointerGetAttribute, (void *value, unsigned int which, cu_ptr addr))         \
	F(ptr_attrs, cuPointerGetAttributes,                                                       \
	  (unsigned int count, unsigned int *which, void **values, cu_ptr addr))                   \
	F(ptr_set, cuPointerSetAttribute, (const void *value, unsigned int which, cu_ptr addr))    \
	F(range, cuMemGetAddressRange_v2, (cu_ptr * base, size_t * len, cu_ptr addr))              \
	F(copy, cuMemcpyAsync, (cu_ptr dst, cu_ptr src, size_t len, cu_stream stream))             \
	F(copy_peer, cuMemcpyPeerAsync,                                                            \
	  (cu_ptr dst, cu_context dst_context, cu_ptr src, cu_context src_context, size_t len,     \
	   cu_stream stream))                                                                      \
	F(stream_make, cuStreamCreate, (cu_stream * stream, unsigned int flags))                   \
	F(stream_wait, cuStreamSynchronize, (cu_stream stream))                                    \
	F(stream_end, cuStreamDestroy_v2, (cu_stream stream))                                      \
	F(event_make, cuEventCreate, (cu_event * event, unsigned int flags))                       \
	F(event_record, cuEventRecord, (cu_event event, cu_stream stream))                         \
	F(event_query, cuEventQuery, (cu_event event))                                             \
	F(event_wait, cuEventSynchronize, (cu_event event))                                        \
	F(event_end, cuEventDestroy_v2, (cu_event event))

/* The last is compared by hand in abi_cuda.c, for its struct. */
#define CUDA_NEWER(F)                                                                              \
	F(range_handle, cuMemGetHandleForAddressRange,                                             \
	  (void *handle, cu_ptr addr, size_t len, unsigned int type, unsigned long long flags))    \
	F(vmm_retain, cuMemRetainAllocationHandle, (cu_memory * memory, void *addr))               \
	F(vmm_release, cuMemRelease, (cu_memory memory))                                           \
	F(flush, cuFlushGPUDirectRDMAWrites, (unsigned int target, unsigned int scope))

#define CUDA_WITH_STRUCTS(F)                                                                       \
	F(vmm_prop, cuMemGetAllocationPropertiesFromHandle,                                        \
	  (struct cu_memory_prop * prop, cu_memory memory))

/* ---- NVML ---- */

struct nvml_window { /* nvmlBAR1Memory_t, bytes */
	unsigned long long total, free, used;
};
typedef struct nvmlDevice_st *nvml_device;

/* nvmlReturn_t 0 is success */
#define NVML_FUNCTIONS(F)                                                                          \
	F(init, nvmlInit_v2, (void))                                                               \
	F(device, nvmlDeviceGetHandleByPciBusId_v2, (const char *pci, nvml_device *device))        \
	F(window, nvmlDeviceGetBAR1MemoryInfo, (nvml_device device, struct nvml_window * window))  \
	F(error_text, nvmlErrorString, (unsigned int error))

#endif
