/* SPDX-License-Identifier: BSD-2-Clause */
/* What the emulated runtime and its tests have of ROCr besides what the library uses. */
#ifndef EMU_ROCR_ABI_H
#define EMU_ROCR_ABI_H

#include <stdbool.h>

#include "hmem/rocr_abi.h"

typedef uint32_t rocr_pointer_type;

typedef struct {
	uint32_t handle[8];
} rocr_ipc;

typedef struct {
	rocr_permission permissions;
	rocr_agent agent;
} rocr_access;

enum {
	ROCR_AGENT_VENDOR_NAME = 1,
	ROCR_AGENT_PROFILE = 4,
	ROCR_AGENT_NODE = 16,
	ROCR_AGENT_MEMORY_AVAIL = 0xa015, /* uint64_t, of runtimes from 5.3 on */
	ROCR_AGENT_NEAREST_CPU = 0xa113,  /* rocr_agent */
	ROCR_SYSTEM_VMEM = 0x205,	  /* bool */
	ROCR_SYSTEM_XNACK = 0x206,	  /* bool */
	ROCR_POOL_ALLOC_ALIGNMENT = 7,
	ROCR_POOL_ACCESSIBLE_BY_ALL = 15,
	ROCR_POOL_ALLOC_MAX_SIZE = 16,
	ROCR_SEGMENT_GROUP = 3,
	ROCR_PERMISSION_RO = 1,
	ROCR_PERMISSION_RW = 3,
	ROCR_MEMORY_NONE = 0,
	ROCR_MEMORY_PINNED = 1,
	ROCR_CONDITION_EQ = 0,
	ROCR_CONDITION_NE = 1,
	ROCR_CONDITION_GTE = 3
};

#define ROCR_MORE_FUNCTIONS(X)                                                                     \
	X(rocr_status, hsa_memory_copy, (void *, const void *, size_t))                            \
	X(rocr_value, hsa_signal_load_relaxed, (rocr_signal))                                      \
	X(void, hsa_signal_store_screlease, (rocr_signal, rocr_value))                             \
	X(rocr_value, hsa_signal_wait_relaxed,                                                     \
	  (rocr_signal, rocr_condition, rocr_value, uint64_t, rocr_wait_state))                    \
	X(rocr_status, hsa_amd_memory_lock_to_pool,                                                \
	  (void *, size_t, rocr_agent *, int, rocr_pool, uint32_t, void **))                       \
	X(rocr_status, hsa_amd_memory_fill, (void *, uint32_t, size_t))                            \
	X(rocr_status, hsa_amd_pointer_info_set_userdata, (const void *, void *))                  \
	X(rocr_status, hsa_amd_ipc_memory_create, (void *, size_t, rocr_ipc *))                    \
	X(rocr_status, hsa_amd_ipc_memory_attach,                                                  \
	  (const rocr_ipc *, size_t, uint32_t, const rocr_agent *, void **))                       \
	X(rocr_status, hsa_amd_ipc_memory_detach, (void *))                                        \
	X(rocr_status, hsa_amd_svm_attributes_set, (void *, size_t, rocr_svm_attribute *, size_t))

#define ROCR_MORE_VMEM_FUNCTIONS(X)                                                                \
	X(rocr_status, hsa_amd_vmem_address_reserve, (void **, size_t, uint64_t, uint64_t))        \
	X(rocr_status, hsa_amd_vmem_address_free, (void *, size_t))                                \
	X(rocr_status, hsa_amd_vmem_handle_create,                                                 \
	  (rocr_pool, size_t, rocr_memory_type, uint64_t, rocr_vmem *))                            \
	X(rocr_status, hsa_amd_vmem_map, (void *, size_t, size_t, rocr_vmem, uint64_t))            \
	X(rocr_status, hsa_amd_vmem_unmap, (void *, size_t))                                       \
	X(rocr_status, hsa_amd_vmem_set_access, (void *, size_t, const rocr_access *, size_t))     \
	X(rocr_status, hsa_amd_vmem_get_access, (void *, rocr_permission *, rocr_agent))

#define ROCR_ALL_FUNCTIONS(X)                                                                      \
	ROCR_FUNCTIONS(X)                                                                          \
	ROCR_OPTIONAL_FUNCTIONS(X)                                                                 \
	ROCR_MORE_FUNCTIONS(X)                                                                     \
	ROCR_MORE_VMEM_FUNCTIONS(X)

#endif
