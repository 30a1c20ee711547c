/* SPDX-License-Identifier: BSD-2-Clause */
/* The hand-written declarations of ROCr against the vendor's headers, as far as those go. */
#include <stddef.h>

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "tests/drivers/accel/rocr/abi.h"

#define SAME(ours, theirs)	  _Static_assert((long)(ours) == (long)(theirs), #theirs)
#define SIZE(ours, theirs)	  SAME(sizeof(ours), sizeof(theirs))
#define PLACE(ours, a, theirs, b) SAME(offsetof(ours, a), offsetof(theirs, b))

SIZE(rocr_status, hsa_status_t);
SIZE(rocr_attribute, hsa_system_info_t);
SIZE(rocr_attribute, hsa_agent_info_t);
SIZE(rocr_attribute, hsa_amd_memory_pool_info_t);
SIZE(rocr_attribute, hsa_amd_agent_memory_pool_info_t);
SIZE(rocr_permission, hsa_access_permission_t);
SIZE(rocr_condition, hsa_signal_condition_t);
SIZE(rocr_wait_state, hsa_wait_state_t);
SIZE(rocr_value, hsa_signal_value_t);
SIZE(rocr_agent, hsa_agent_t);
SIZE(rocr_signal, hsa_signal_t);
SIZE(rocr_pool, hsa_amd_memory_pool_t);
SIZE(rocr_ipc, hsa_amd_ipc_memory_t);
SIZE(rocr_svm_attribute, hsa_amd_svm_attribute_pair_t);
PLACE(rocr_svm_attribute, value, hsa_amd_svm_attribute_pair_t, value);
PLACE(rocr_pointer_info, size, hsa_amd_pointer_info_t, size);
PLACE(rocr_pointer_info, type, hsa_amd_pointer_info_t, type);
PLACE(rocr_pointer_info, agent_base, hsa_amd_pointer_info_t, agentBaseAddress);
PLACE(rocr_pointer_info, host_base, hsa_amd_pointer_info_t, hostBaseAddress);
PLACE(rocr_pointer_info, bytes, hsa_amd_pointer_info_t, sizeInBytes);
PLACE(rocr_pointer_info, user_data, hsa_amd_pointer_info_t, userData);
PLACE(rocr_pointer_info, owner, hsa_amd_pointer_info_t, agentOwner);
PLACE(rocr_pointer_info, global_flags, hsa_amd_pointer_info_t, global_flags);

PLACE(rocr_hdp, memory, hsa_amd_hdp_flush_t, HDP_MEM_FLUSH_CNTL);
PLACE(rocr_hdp, registers, hsa_amd_hdp_flush_t, HDP_REG_FLUSH_CNTL);
SAME(ROCR_AGENT_HDP_FLUSH, HSA_AMD_AGENT_INFO_HDP_FLUSH);

SAME(ROCR_SUCCESS, HSA_STATUS_SUCCESS);
SAME(ROCR_INFO_BREAK, HSA_STATUS_INFO_BREAK);
SAME(ROCR_ERROR, HSA_STATUS_ERROR);
SAME(ROCR_ERROR_INVALID_ARGUMENT, HSA_STATUS_ERROR_INVALID_ARGUMENT);
SAME(ROCR_ERROR_INVALID_ALLOCATION, HSA_STATUS_ERROR_INVALID_ALLOCATION);
SAME(ROCR_ERROR_INVALID_AGENT, HSA_STATUS_ERROR_INVALID_AGENT);
SAME(ROCR_ERROR_INVALID_SIGNAL, HSA_STATUS_ERROR_INVALID_SIGNAL);
SAME(ROCR_ERROR_OUT_OF_RESOURCES, HSA_STATUS_ERROR_OUT_OF_RESOURCES);
SAME(ROCR_ERROR_RESOURCE_FREE, HSA_STATUS_ERROR_RESOURCE_FREE);
SAME(ROCR_ERROR_NOT_INITIALIZED, HSA_STATUS_ERROR_NOT_INITIALIZED);
SAME(ROCR_ERROR_INVALID_MEMORY_POOL, HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
SAME(ROCR_SYSTEM_VERSION_MAJOR, HSA_SYSTEM_INFO_VERSION_MAJOR);
SAME(ROCR_SYSTEM_VERSION_MINOR, HSA_SYSTEM_INFO_VERSION_MINOR);
SAME(ROCR_SYSTEM_BUILD_VERSION, HSA_AMD_SYSTEM_INFO_BUILD_VERSION);
SAME(ROCR_SYSTEM_SVM_SUPPORTED, HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED);
SAME(ROCR_SYSTEM_SVM_BY_DEFAULT, HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT);
SAME(ROCR_AGENT_NAME, HSA_AGENT_INFO_NAME);
SAME(ROCR_AGENT_VENDOR_NAME, HSA_AGENT_INFO_VENDOR_NAME);
SAME(ROCR_AGENT_PROFILE, HSA_AGENT_INFO_PROFILE);
SAME(ROCR_AGENT_NODE, HSA_AGENT_INFO_NODE);
SAME(ROCR_AGENT_DEVICE, HSA_AGENT_INFO_DEVICE);
SAME(ROCR_AGENT_BDFID, HSA_AMD_AGENT_INFO_BDFID);
SAME(ROCR_AGENT_PRODUCT_NAME, HSA_AMD_AGENT_INFO_PRODUCT_NAME);
SAME(ROCR_AGENT_DOMAIN, HSA_AMD_AGENT_INFO_DOMAIN);
SAME(ROCR_DEVICE_CPU, HSA_DEVICE_TYPE_CPU);
SAME(ROCR_DEVICE_GPU, HSA_DEVICE_TYPE_GPU);
SAME(ROCR_POOL_SEGMENT, HSA_AMD_MEMORY_POOL_INFO_SEGMENT);
SAME(ROCR_POOL_GLOBAL_FLAGS, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS);
SAME(ROCR_POOL_SIZE, HSA_AMD_MEMORY_POOL_INFO_SIZE);
SAME(ROCR_POOL_ALLOC_ALLOWED, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED);
SAME(ROCR_POOL_ALLOC_GRANULE, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE);
SAME(ROCR_POOL_ALLOC_ALIGNMENT, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT);
SAME(ROCR_POOL_ACCESSIBLE_BY_ALL, HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL);
SAME(ROCR_POOL_ALLOC_MAX_SIZE, HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE);
SAME(ROCR_SEGMENT_GLOBAL, HSA_AMD_SEGMENT_GLOBAL);
SAME(ROCR_SEGMENT_GROUP, HSA_AMD_SEGMENT_GROUP);
SAME(ROCR_POOL_FLAG_KERNARG, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT);
SAME(ROCR_POOL_FLAG_FINE, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
SAME(ROCR_POOL_FLAG_COARSE, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
SAME(ROCR_AGENT_POOL_ACCESS, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS);
SAME(ROCR_ACCESS_NEVER, HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);
SAME(ROCR_ACCESS_BY_DEFAULT, HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
SAME(ROCR_ACCESS_ON_REQUEST, HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
SAME(ROCR_POINTER_UNKNOWN, HSA_EXT_POINTER_TYPE_UNKNOWN);
SAME(ROCR_POINTER_HSA, HSA_EXT_POINTER_TYPE_HSA);
SAME(ROCR_POINTER_LOCKED, HSA_EXT_POINTER_TYPE_LOCKED);
SAME(ROCR_POINTER_GRAPHICS, HSA_EXT_POINTER_TYPE_GRAPHICS);
SAME(ROCR_POINTER_IPC, HSA_EXT_POINTER_TYPE_IPC);
SAME(ROCR_SVM_PREFERRED_LOCATION, HSA_AMD_SVM_ATTRIB_PREFERRED_LOCATION);
SAME(ROCR_SVM_ACCESSIBLE, HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE);
SAME(ROCR_SVM_ACCESSIBLE_IN_PLACE, HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE_IN_PLACE);
SAME(ROCR_SVM_NO_ACCESS, HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS);
SAME(ROCR_SVM_ACCESS_QUERY, HSA_AMD_SVM_ATTRIB_ACCESS_QUERY);
SAME(ROCR_CONDITION_EQ, HSA_SIGNAL_CONDITION_EQ);
SAME(ROCR_CONDITION_NE, HSA_SIGNAL_CONDITION_NE);
SAME(ROCR_CONDITION_LT, HSA_SIGNAL_CONDITION_LT);
SAME(ROCR_CONDITION_GTE, HSA_SIGNAL_CONDITION_GTE);
SAME(ROCR_WAIT_BLOCKED, HSA_WAIT_STATE_BLOCKED);
SAME(ROCR_PERMISSION_RO, HSA_ACCESS_PERMISSION_RO);
SAME(ROCR_PERMISSION_RW, HSA_ACCESS_PERMISSION_RW);

#if HSA_AMD_INTERFACE_VERSION_MINOR >= 4
SIZE(rocr_vmem, hsa_amd_vmem_alloc_handle_t);
SIZE(rocr_memory_type, hsa_amd_memory_type_t);
SIZE(rocr_access, hsa_amd_memory_access_desc_t);
PLACE(rocr_access, agent, hsa_amd_memory_access_desc_t, agent_handle);
SAME(ROCR_SYSTEM_DMABUF, HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED);
SAME(ROCR_SYSTEM_VMEM, HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED);
SAME(ROCR_AGENT_MEMORY_AVAIL, HSA_AMD_AGENT_INFO_MEMORY_AVAIL);
SAME(ROCR_AGENT_NEAREST_CPU, HSA_AMD_AGENT_INFO_NEAREST_CPU);
SAME(ROCR_MEMORY_NONE, MEMORY_TYPE_NONE);
SAME(ROCR_MEMORY_PINNED, MEMORY_TYPE_PINNED);
#endif
#if HSA_AMD_INTERFACE_VERSION_MINOR >= 9
SAME(ROCR_SYSTEM_XNACK, HSA_AMD_SYSTEM_INFO_XNACK_ENABLED);
SAME(ROCR_SYSTEM_EXT_MAJOR, HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR);
SAME(ROCR_SYSTEM_EXT_MINOR, HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR);
SAME(ROCR_DMABUF_PCIE, HSA_AMD_DMABUF_MAPPING_TYPE_PCIE);
#endif
#if HSA_AMD_INTERFACE_VERSION_MINOR >= ROCR_EXT_TELLS_VMEM
SAME(ROCR_POINTER_RESERVED, HSA_EXT_POINTER_TYPE_RESERVED_ADDR);
SAME(ROCR_POINTER_VMEM, HSA_EXT_POINTER_TYPE_HSA_VMEM);
#endif

/* The lists of functions again, with the vendor's types in place of ours. */
#define rocr_status		  hsa_status_t
#define rocr_system_attribute	  hsa_system_info_t
#define rocr_agent_attribute	  hsa_agent_info_t
#define rocr_pool_attribute	  hsa_amd_memory_pool_info_t
#define rocr_agent_pool_attribute hsa_amd_agent_memory_pool_info_t
#define rocr_permission		  hsa_access_permission_t
#define rocr_condition		  hsa_signal_condition_t
#define rocr_wait_state		  hsa_wait_state_t
#define rocr_value		  hsa_signal_value_t
#define rocr_agent		  hsa_agent_t
#define rocr_signal		  hsa_signal_t
#define rocr_pool		  hsa_amd_memory_pool_t
#define rocr_ipc		  hsa_amd_ipc_memory_t
#define rocr_svm_attribute	  hsa_amd_svm_attribute_pair_t
#define rocr_pointer_info	  hsa_amd_pointer_info_t
#define rocr_vmem		  hsa_amd_vmem_alloc_handle_t
#define rocr_memory_type	  hsa_amd_memory_type_t
#define rocr_access		  hsa_amd_memory_access_desc_t

#define CHECK(result, name, parameters)                                                            \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters),      \
		       #name);
ROCR_FUNCTIONS(CHECK)
ROCR_SVM_FUNCTIONS(CHECK)
ROCR_MORE_FUNCTIONS(CHECK)
#if HSA_AMD_INTERFACE_VERSION_MINOR >= 4
ROCR_DMABUF_FUNCTIONS(CHECK)
ROCR_VMEM_FUNCTIONS(CHECK)
ROCR_MORE_VMEM_FUNCTIONS(CHECK)
#endif
#if HSA_AMD_INTERFACE_VERSION_MINOR >= 9
ROCR_DMABUF2_FUNCTIONS(CHECK)
#endif
