/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is used of AMD's ROCr (libhsa-runtime64.so.1): HSA Runtime Programmer's Reference Manual 1.2 and
 * the AMD extension's interface.  Checked against the vendor's headers where they are installed.
 */
#ifndef HMEM_ROCR_ABI_H
#define HMEM_ROCR_ABI_H

#include <stddef.h>
#include <stdint.h>

#define ROCR_LIBRARY "libhsa-runtime64.so.1"

/* ---- types ---- */

typedef uint32_t rocr_status;	 /* hsa_status_t */
typedef uint32_t rocr_attribute; /* of a system, an agent, a pool, a pool as an agent has it */
typedef uint32_t rocr_permission;
typedef uint32_t rocr_memory_type;
typedef uint32_t rocr_condition;
typedef uint32_t rocr_wait_state;
typedef int64_t rocr_value; /* of a signal */

typedef struct {
	uint64_t handle;
} rocr_agent;

typedef struct {
	uint64_t handle;
} rocr_signal;

typedef struct {
	uint64_t handle;
} rocr_pool;

typedef struct {
	uint64_t handle;
} rocr_vmem;

/* Grows within a major version: size is what both sides know of it. */
typedef struct {
	uint32_t size;
	uint32_t type; /* ROCR_POINTER_* */
	void *agent_base;
	void *host_base;
	size_t bytes;
	void *user_data;
	rocr_agent owner;
	uint32_t global_flags; /* ROCR_POOL_FLAG_* */
} rocr_pointer_info;

typedef struct {
	uint64_t attribute;
	uint64_t value;
} rocr_svm_attribute;

/* Registers of a device: a write flushes what its host data path holds. */
typedef struct {
	uint32_t *memory;
	uint32_t *registers;
} rocr_hdp;

/* ---- values ---- */

enum {
	ROCR_SUCCESS = 0,
	ROCR_INFO_BREAK = 1,
	ROCR_ERROR = 0x1000,
	ROCR_ERROR_INVALID_ARGUMENT = 0x1001,
	ROCR_ERROR_INVALID_ALLOCATION = 0x1003,
	ROCR_ERROR_INVALID_AGENT = 0x1004,
	ROCR_ERROR_INVALID_SIGNAL = 0x1006,
	ROCR_ERROR_OUT_OF_RESOURCES = 0x1008,
	ROCR_ERROR_RESOURCE_FREE = 0x100a,
	ROCR_ERROR_NOT_INITIALIZED = 0x100b,
	ROCR_ERROR_INVALID_MEMORY_POOL = 40
};

enum {
	ROCR_SYSTEM_VERSION_MAJOR = 0,	    /* uint16_t */
	ROCR_SYSTEM_VERSION_MINOR = 1,	    /* uint16_t */
	ROCR_SYSTEM_BUILD_VERSION = 0x200,  /* const char * */
	ROCR_SYSTEM_SVM_SUPPORTED = 0x201,  /* bool */
	ROCR_SYSTEM_SVM_BY_DEFAULT = 0x202, /* bool: devices reach all host memory */
	ROCR_SYSTEM_DMABUF = 0x204,	    /* bool */
	ROCR_SYSTEM_EXT_MAJOR = 0x207,	    /* uint16_t: of AMD's extension */
	ROCR_SYSTEM_EXT_MINOR = 0x208	    /* uint16_t */
};

/* From this version of the extension on, pointer info tells mapped memory apart. */
#define ROCR_EXT_TELLS_VMEM 12

enum {
	ROCR_AGENT_NAME = 0,		  /* char[64] */
	ROCR_AGENT_DEVICE = 17,		  /* uint32_t: ROCR_DEVICE_* */
	ROCR_AGENT_BDFID = 0xa006,	  /* uint32_t: bus, device, function */
	ROCR_AGENT_PRODUCT_NAME = 0xa009, /* char[64] */
	ROCR_AGENT_HDP_FLUSH = 0xa00e,	  /* rocr_hdp */
	ROCR_AGENT_DOMAIN = 0xa00f	  /* uint32_t */
};

enum {
	ROCR_DEVICE_CPU = 0,
	ROCR_DEVICE_GPU = 1
};

enum {
	ROCR_POOL_SEGMENT = 0,	     /* uint32_t: ROCR_SEGMENT_GLOBAL or one without addresses */
	ROCR_POOL_GLOBAL_FLAGS = 1,  /* uint32_t */
	ROCR_POOL_SIZE = 2,	     /* size_t */
	ROCR_POOL_ALLOC_ALLOWED = 5, /* bool */
	ROCR_POOL_ALLOC_GRANULE = 6, /* size_t */
	ROCR_SEGMENT_GLOBAL = 0,
	ROCR_POOL_FLAG_KERNARG = 1,
	ROCR_POOL_FLAG_FINE = 2,
	ROCR_POOL_FLAG_COARSE = 4,
	ROCR_AGENT_POOL_ACCESS = 0, /* uint32_t: */
	ROCR_ACCESS_NEVER = 0,
	ROCR_ACCESS_BY_DEFAULT = 1,
	ROCR_ACCESS_ON_REQUEST = 2
};

enum {
	ROCR_POINTER_UNKNOWN = 0,
	ROCR_POINTER_HSA = 1,
	ROCR_POINTER_LOCKED = 2,
	ROCR_POINTER_GRAPHICS = 3,
	ROCR_POINTER_IPC = 4,
	ROCR_POINTER_RESERVED = 5, /* reserved addresses where nothing is mapped */
	ROCR_POINTER_VMEM = 6
};

enum {
	ROCR_SVM_PREFERRED_LOCATION = 4, /* an agent's handle, or 0 */
	ROCR_SVM_ACCESSIBLE = 0x200,	 /* with page faults */
	ROCR_SVM_ACCESSIBLE_IN_PLACE = 0x201,
	ROCR_SVM_NO_ACCESS = 0x202,
	ROCR_SVM_ACCESS_QUERY = 0x203 /* asked of an agent; answered by one of these three */
};

enum {
	ROCR_DMABUF_PCIE = 1, /* hsa_amd_portable_export_dmabuf_v2's flags */
	ROCR_CONDITION_LT = 2,
	ROCR_WAIT_BLOCKED = 0
};

/* ---- functions ---- */

/* X(result, name, (parameters)) */
#define ROCR_FUNCTIONS(X)                                                                          \
	X(rocr_status, hsa_init, (void))                                                           \
	X(rocr_status, hsa_shut_down, (void))                                                      \
	X(rocr_status, hsa_status_string, (rocr_status, const char **))                            \
	X(rocr_status, hsa_system_get_info, (rocr_system_attribute, void *))                       \
	X(rocr_status, hsa_iterate_agents, (rocr_status(*)(rocr_agent, void *), void *))           \
	X(rocr_status, hsa_agent_get_info, (rocr_agent, rocr_agent_attribute, void *))             \
	X(rocr_status, hsa_signal_create,                                                          \
	  (rocr_value, uint32_t, const rocr_agent *, rocr_signal *))                               \
	X(rocr_status, hsa_signal_destroy, (rocr_signal))                                          \
	X(void, hsa_signal_store_relaxed, (rocr_signal, rocr_value))                               \
	X(rocr_value, hsa_signal_load_scacquire, (rocr_signal))                                    \
	X(rocr_value, hsa_signal_wait_scacquire,                                                   \
	  (rocr_signal, rocr_condition, rocr_value, uint64_t, rocr_wait_state))                    \
	X(rocr_status, hsa_amd_agent_iterate_memory_pools,                                         \
	  (rocr_agent, rocr_status(*)(rocr_pool, void *), void *))                                 \
	X(rocr_status, hsa_amd_memory_pool_get_info, (rocr_pool, rocr_pool_attribute, void *))     \
	X(rocr_status, hsa_amd_agent_memory_pool_get_info,                                         \
	  (rocr_agent, rocr_pool, rocr_agent_pool_attribute, void *))                              \
	X(rocr_status, hsa_amd_memory_pool_allocate, (rocr_pool, size_t, uint32_t, void **))       \
	X(rocr_status, hsa_amd_memory_pool_free, (void *))                                         \
	X(rocr_status, hsa_amd_agents_allow_access,                                                \
	  (uint32_t, const rocr_agent *, const uint32_t *, const void *))                          \
	X(rocr_status, hsa_amd_pointer_info,                                                       \
	  (const void *, rocr_pointer_info *, void *(*)(size_t), uint32_t *, rocr_agent **))       \
	X(rocr_status, hsa_amd_memory_lock, (void *, size_t, rocr_agent *, int, void **))          \
	X(rocr_status, hsa_amd_memory_unlock, (void *))                                            \
	X(rocr_status, hsa_amd_memory_async_copy,                                                  \
	  (void *, rocr_agent, const void *, rocr_agent, size_t, uint32_t, const rocr_signal *,    \
	   rocr_signal))

/* Absent from older runtimes, in the order in which they came. */
#define ROCR_SVM_FUNCTIONS(X)                                                                      \
	X(rocr_status, hsa_amd_svm_attributes_get, (void *, size_t, rocr_svm_attribute *, size_t))
#define ROCR_DMABUF_FUNCTIONS(X)                                                                   \
	X(rocr_status, hsa_amd_portable_export_dmabuf, (const void *, size_t, int *, uint64_t *))  \
	X(rocr_status, hsa_amd_portable_close_dmabuf, (int))
#define ROCR_VMEM_FUNCTIONS(X)                                                                     \
	X(rocr_status, hsa_amd_vmem_retain_alloc_handle, (rocr_vmem *, void *))                    \
	X(rocr_status, hsa_amd_vmem_handle_release, (rocr_vmem))                                   \
	X(rocr_status, hsa_amd_vmem_export_shareable_handle, (int *, rocr_vmem, uint64_t))         \
	X(rocr_status, hsa_amd_vmem_get_alloc_properties_from_handle,                              \
	  (rocr_vmem, rocr_pool *, rocr_memory_type *))
/* From hsa_amd_memory_pool_free: (address, user data), once, before the address is given out again. */
#define ROCR_GONE_FUNCTIONS(X)                                                                     \
	X(rocr_status, hsa_amd_register_deallocation_callback,                                     \
	  (void *, void (*)(void *, void *), void *))                                              \
	X(rocr_status, hsa_amd_deregister_deallocation_callback, (void *, void (*)(void *, void *)))
#define ROCR_DMABUF2_FUNCTIONS(X)                                                                  \
	X(rocr_status, hsa_amd_portable_export_dmabuf_v2,                                          \
	  (const void *, size_t, int *, uint64_t *, uint64_t))
#define ROCR_OPTIONAL_FUNCTIONS(X)                                                                 \
	ROCR_GONE_FUNCTIONS(X)                                                                     \
	ROCR_SVM_FUNCTIONS(X)                                                                      \
	ROCR_DMABUF_FUNCTIONS(X)                                                                   \
	ROCR_VMEM_FUNCTIONS(X)                                                                     \
	ROCR_DMABUF2_FUNCTIONS(X)

/* Distinct enumerations of the vendor's, one size. */
typedef rocr_attribute rocr_system_attribute, rocr_agent_attribute, rocr_pool_attribute,
	rocr_agent_pool_attribute;

#define ROCR_MEMBER(result, name, parameters) result(*name) parameters;
struct rocr_api {
	ROCR_FUNCTIONS(ROCR_MEMBER)
	ROCR_OPTIONAL_FUNCTIONS(ROCR_MEMBER)
};
#undef ROCR_MEMBER

#endif
