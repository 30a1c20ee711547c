/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmem/ze_abi.h and the emulated driver's ze_ddi.h against the vendor's own headers.  Compiling it is the
 * test.
 */
#include <stdlib.h>

#include <level_zero/ze_ddi.h>

#include "hmem/ze_abi.h"
#include "tests/drivers/accel/ze/ze_ddi.h"

#define SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define FIELD(ours, a, theirs, b)                                                                  \
	_Static_assert(offsetof(ours, a) == offsetof(theirs, b) &&                                 \
			       sizeof(((ours *)0)->a) == sizeof(((theirs *)0)->b),                 \
		       #theirs "." #b)
#define VALUE(ours, theirs) _Static_assert((uint32_t)(ours) == (uint32_t)(theirs), #theirs)

/* ---- structures ---- */

#define BEGIN(ours, theirs)                                                                        \
	SIZE(ours, theirs);                                                                        \
	FIELD(ours, stype, theirs, stype);                                                         \
	FIELD(ours, next, theirs, pNext)

BEGIN(l0_driver_properties, ze_driver_properties_t);
FIELD(l0_driver_properties, uuid, ze_driver_properties_t, uuid);
FIELD(l0_driver_properties, version, ze_driver_properties_t, driverVersion);

BEGIN(l0_device_properties, ze_device_properties_t);
FIELD(l0_device_properties, type, ze_device_properties_t, type);
FIELD(l0_device_properties, vendor, ze_device_properties_t, vendorId);
FIELD(l0_device_properties, device, ze_device_properties_t, deviceId);
FIELD(l0_device_properties, flags, ze_device_properties_t, flags);
FIELD(l0_device_properties, sub_device, ze_device_properties_t, subdeviceId);
FIELD(l0_device_properties, most_alloc, ze_device_properties_t, maxMemAllocSize);
FIELD(l0_device_properties, timer, ze_device_properties_t, timerResolution);
FIELD(l0_device_properties, uuid, ze_device_properties_t, uuid);
FIELD(l0_device_properties, name, ze_device_properties_t, name);

BEGIN(l0_device_memory, ze_device_memory_properties_t);
FIELD(l0_device_memory, flags, ze_device_memory_properties_t, flags);
FIELD(l0_device_memory, size, ze_device_memory_properties_t, totalSize);
FIELD(l0_device_memory, name, ze_device_memory_properties_t, name);

BEGIN(l0_device_external, ze_device_external_memory_properties_t);
FIELD(l0_device_external, imports, ze_device_external_memory_properties_t,
      memoryAllocationImportTypes);
FIELD(l0_device_external, exports, ze_device_external_memory_properties_t,
      memoryAllocationExportTypes);

BEGIN(l0_pci_properties, ze_pci_ext_properties_t);
FIELD(l0_pci_properties, domain, ze_pci_ext_properties_t, address.domain);
FIELD(l0_pci_properties, bus, ze_pci_ext_properties_t, address.bus);
FIELD(l0_pci_properties, device, ze_pci_ext_properties_t, address.device);
FIELD(l0_pci_properties, function, ze_pci_ext_properties_t, address.function);
FIELD(l0_pci_properties, generation, ze_pci_ext_properties_t, maxSpeed.genVersion);
FIELD(l0_pci_properties, bandwidth, ze_pci_ext_properties_t, maxSpeed.maxBandwidth);

BEGIN(l0_queue_group, ze_command_queue_group_properties_t);
FIELD(l0_queue_group, flags, ze_command_queue_group_properties_t, flags);
FIELD(l0_queue_group, fill_pattern, ze_command_queue_group_properties_t, maxMemoryFillPatternSize);
FIELD(l0_queue_group, queues, ze_command_queue_group_properties_t, numQueues);

BEGIN(l0_context_desc, ze_context_desc_t);
FIELD(l0_context_desc, flags, ze_context_desc_t, flags);

BEGIN(l0_queue_desc, ze_command_queue_desc_t);
FIELD(l0_queue_desc, ordinal, ze_command_queue_desc_t, ordinal);
FIELD(l0_queue_desc, index, ze_command_queue_desc_t, index);
FIELD(l0_queue_desc, flags, ze_command_queue_desc_t, flags);
FIELD(l0_queue_desc, mode, ze_command_queue_desc_t, mode);
FIELD(l0_queue_desc, priority, ze_command_queue_desc_t, priority);

BEGIN(l0_pool_desc, ze_event_pool_desc_t);
FIELD(l0_pool_desc, flags, ze_event_pool_desc_t, flags);
FIELD(l0_pool_desc, count, ze_event_pool_desc_t, count);

BEGIN(l0_event_desc, ze_event_desc_t);
FIELD(l0_event_desc, index, ze_event_desc_t, index);
FIELD(l0_event_desc, signal, ze_event_desc_t, signal);
FIELD(l0_event_desc, wait, ze_event_desc_t, wait);

BEGIN(l0_device_alloc, ze_device_mem_alloc_desc_t);
FIELD(l0_device_alloc, flags, ze_device_mem_alloc_desc_t, flags);
FIELD(l0_device_alloc, ordinal, ze_device_mem_alloc_desc_t, ordinal);

BEGIN(l0_host_alloc, ze_host_mem_alloc_desc_t);
FIELD(l0_host_alloc, flags, ze_host_mem_alloc_desc_t, flags);

BEGIN(l0_memory, ze_memory_allocation_properties_t);
FIELD(l0_memory, type, ze_memory_allocation_properties_t, type);
FIELD(l0_memory, id, ze_memory_allocation_properties_t, id);
FIELD(l0_memory, page, ze_memory_allocation_properties_t, pageSize);

BEGIN(l0_export_desc, ze_external_memory_export_desc_t);
FIELD(l0_export_desc, flags, ze_external_memory_export_desc_t, flags);

BEGIN(l0_export_fd, ze_external_memory_export_fd_t);
FIELD(l0_export_fd, flags, ze_external_memory_export_fd_t, flags);
FIELD(l0_export_fd, fd, ze_external_memory_export_fd_t, fd);

/* ---- values ---- */

VALUE(L0_SUCCESS, ZE_RESULT_SUCCESS);
VALUE(L0_NOT_READY, ZE_RESULT_NOT_READY);
VALUE(L0_DEVICE_LOST, ZE_RESULT_ERROR_DEVICE_LOST);
VALUE(L0_OUT_OF_HOST_MEMORY, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
VALUE(L0_OUT_OF_DEVICE_MEMORY, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
VALUE(L0_INSUFFICIENT_PERMISSIONS, ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS);
VALUE(L0_NOT_AVAILABLE, ZE_RESULT_ERROR_NOT_AVAILABLE);
VALUE(L0_DEPENDENCY_UNAVAILABLE, ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE);
VALUE(L0_UNINITIALIZED, ZE_RESULT_ERROR_UNINITIALIZED);
VALUE(L0_UNSUPPORTED_VERSION, ZE_RESULT_ERROR_UNSUPPORTED_VERSION);
VALUE(L0_UNSUPPORTED_FEATURE, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
VALUE(L0_INVALID_ARGUMENT, ZE_RESULT_ERROR_INVALID_ARGUMENT);
VALUE(L0_INVALID_NULL_HANDLE, ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
VALUE(L0_HANDLE_OBJECT_IN_USE, ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
VALUE(L0_INVALID_NULL_POINTER, ZE_RESULT_ERROR_INVALID_NULL_POINTER);
VALUE(L0_INVALID_SIZE, ZE_RESULT_ERROR_INVALID_SIZE);
VALUE(L0_UNSUPPORTED_SIZE, ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
VALUE(L0_UNSUPPORTED_ALIGNMENT, ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
VALUE(L0_INVALID_SYNCHRONIZATION_OBJECT, ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT);
VALUE(L0_INVALID_ENUMERATION, ZE_RESULT_ERROR_INVALID_ENUMERATION);
VALUE(L0_UNKNOWN, ZE_RESULT_ERROR_UNKNOWN);

VALUE(L0_STYPE_DRIVER_PROPERTIES, ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES);
VALUE(L0_STYPE_DEVICE_PROPERTIES, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES);
VALUE(L0_STYPE_QUEUE_GROUP_PROPERTIES, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES);
VALUE(L0_STYPE_DEVICE_MEMORY_PROPERTIES, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES);
VALUE(L0_STYPE_DEVICE_EXTERNAL_MEMORY, ZE_STRUCTURE_TYPE_DEVICE_EXTERNAL_MEMORY_PROPERTIES);
VALUE(L0_STYPE_CONTEXT_DESC, ZE_STRUCTURE_TYPE_CONTEXT_DESC);
VALUE(L0_STYPE_QUEUE_DESC, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
VALUE(L0_STYPE_EVENT_POOL_DESC, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
VALUE(L0_STYPE_EVENT_DESC, ZE_STRUCTURE_TYPE_EVENT_DESC);
VALUE(L0_STYPE_DEVICE_ALLOC_DESC, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
VALUE(L0_STYPE_HOST_ALLOC_DESC, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC);
VALUE(L0_STYPE_MEMORY_PROPERTIES, ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES);
VALUE(L0_STYPE_EXPORT_DESC, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC);
VALUE(L0_STYPE_EXPORT_FD, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD);
VALUE(L0_STYPE_PCI_PROPERTIES, ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES);

VALUE(L0_INIT_GPU_ONLY, ZE_INIT_FLAG_GPU_ONLY);
VALUE(L0_EXTERNAL_DMA_BUF, ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF);
VALUE(L0_GROUP_COMPUTE, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE);
VALUE(L0_GROUP_COPY, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY);
VALUE(L0_QUEUE_ASYNCHRONOUS, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
VALUE(L0_EVENT_HOST_VISIBLE, ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
VALUE(L0_SCOPE_HOST, ZE_EVENT_SCOPE_FLAG_HOST);
VALUE(L0_MEMORY_UNKNOWN, ZE_MEMORY_TYPE_UNKNOWN);
VALUE(L0_MEMORY_HOST, ZE_MEMORY_TYPE_HOST);
VALUE(L0_MEMORY_DEVICE, ZE_MEMORY_TYPE_DEVICE);
VALUE(L0_MEMORY_SHARED, ZE_MEMORY_TYPE_SHARED);

/* ---- the loader's tables ---- */

#define PLACE(index, table, member)                                                                \
	_Static_assert((size_t)(index) * sizeof(void *) == offsetof(table, member),                \
		       #table "." #member)

PLACE(DDI_GLOBAL_INIT, ze_global_dditable_t, pfnInit);
PLACE(DDI_DRIVER_GET, ze_driver_dditable_t, pfnGet);
PLACE(DDI_DRIVER_API_VERSION, ze_driver_dditable_t, pfnGetApiVersion);
PLACE(DDI_DRIVER_PROPERTIES, ze_driver_dditable_t, pfnGetProperties);
PLACE(DDI_DRIVER_IPC_PROPERTIES, ze_driver_dditable_t, pfnGetIpcProperties);
PLACE(DDI_DRIVER_EXTENSIONS, ze_driver_dditable_t, pfnGetExtensionProperties);
PLACE(DDI_DEVICE_GET, ze_device_dditable_t, pfnGet);
PLACE(DDI_DEVICE_PARTS, ze_device_dditable_t, pfnGetSubDevices);
PLACE(DDI_DEVICE_PROPERTIES, ze_device_dditable_t, pfnGetProperties);
PLACE(DDI_DEVICE_GROUPS, ze_device_dditable_t, pfnGetCommandQueueGroupProperties);
PLACE(DDI_DEVICE_MEMORY, ze_device_dditable_t, pfnGetMemoryProperties);
PLACE(DDI_DEVICE_EXTERNAL, ze_device_dditable_t, pfnGetExternalMemoryProperties);
PLACE(DDI_DEVICE_P2P, ze_device_dditable_t, pfnGetP2PProperties);
PLACE(DDI_DEVICE_CAN_ACCESS, ze_device_dditable_t, pfnCanAccessPeer);
PLACE(DDI_DEVICE_STATUS, ze_device_dditable_t, pfnGetStatus);
PLACE(DDI_DEVICE_PCI, ze_device_dditable_t, pfnPciGetPropertiesExt);
PLACE(DDI_CONTEXT_CREATE, ze_context_dditable_t, pfnCreate);
PLACE(DDI_CONTEXT_DESTROY, ze_context_dditable_t, pfnDestroy);
PLACE(DDI_QUEUE_CREATE, ze_command_queue_dditable_t, pfnCreate);
PLACE(DDI_QUEUE_DESTROY, ze_command_queue_dditable_t, pfnDestroy);
PLACE(DDI_QUEUE_EXECUTE, ze_command_queue_dditable_t, pfnExecuteCommandLists);
PLACE(DDI_QUEUE_SYNCHRONIZE, ze_command_queue_dditable_t, pfnSynchronize);
PLACE(DDI_LIST_CREATE, ze_command_list_dditable_t, pfnCreate);
PLACE(DDI_LIST_CREATE_IMMEDIATE, ze_command_list_dditable_t, pfnCreateImmediate);
PLACE(DDI_LIST_DESTROY, ze_command_list_dditable_t, pfnDestroy);
PLACE(DDI_LIST_CLOSE, ze_command_list_dditable_t, pfnClose);
PLACE(DDI_LIST_RESET, ze_command_list_dditable_t, pfnReset);
PLACE(DDI_LIST_BARRIER, ze_command_list_dditable_t, pfnAppendBarrier);
PLACE(DDI_LIST_COPY, ze_command_list_dditable_t, pfnAppendMemoryCopy);
PLACE(DDI_LIST_FILL, ze_command_list_dditable_t, pfnAppendMemoryFill);
PLACE(DDI_FENCE_CREATE, ze_fence_dditable_t, pfnCreate);
PLACE(DDI_FENCE_DESTROY, ze_fence_dditable_t, pfnDestroy);
PLACE(DDI_FENCE_SYNCHRONIZE, ze_fence_dditable_t, pfnHostSynchronize);
PLACE(DDI_FENCE_STATUS, ze_fence_dditable_t, pfnQueryStatus);
PLACE(DDI_FENCE_RESET, ze_fence_dditable_t, pfnReset);
PLACE(DDI_POOL_CREATE, ze_event_pool_dditable_t, pfnCreate);
PLACE(DDI_POOL_DESTROY, ze_event_pool_dditable_t, pfnDestroy);
PLACE(DDI_EVENT_CREATE, ze_event_dditable_t, pfnCreate);
PLACE(DDI_EVENT_DESTROY, ze_event_dditable_t, pfnDestroy);
PLACE(DDI_EVENT_SIGNAL, ze_event_dditable_t, pfnHostSignal);
PLACE(DDI_EVENT_SYNCHRONIZE, ze_event_dditable_t, pfnHostSynchronize);
PLACE(DDI_EVENT_STATUS, ze_event_dditable_t, pfnQueryStatus);
PLACE(DDI_EVENT_RESET, ze_event_dditable_t, pfnHostReset);
PLACE(DDI_PHYSICAL_CREATE, ze_physical_mem_dditable_t, pfnCreate);
PLACE(DDI_PHYSICAL_DESTROY, ze_physical_mem_dditable_t, pfnDestroy);
PLACE(DDI_MEM_SHARED, ze_mem_dditable_t, pfnAllocShared);
PLACE(DDI_MEM_DEVICE, ze_mem_dditable_t, pfnAllocDevice);
PLACE(DDI_MEM_HOST, ze_mem_dditable_t, pfnAllocHost);
PLACE(DDI_MEM_FREE, ze_mem_dditable_t, pfnFree);
PLACE(DDI_MEM_PROPERTIES, ze_mem_dditable_t, pfnGetAllocProperties);
PLACE(DDI_MEM_RANGE, ze_mem_dditable_t, pfnGetAddressRange);
PLACE(DDI_MEM_GET_IPC, ze_mem_dditable_t, pfnGetIpcHandle);
PLACE(DDI_MEM_OPEN_IPC, ze_mem_dditable_t, pfnOpenIpcHandle);
PLACE(DDI_MEM_CLOSE_IPC, ze_mem_dditable_t, pfnCloseIpcHandle);
PLACE(DDI_VIRTUAL_RESERVE, ze_virtual_mem_dditable_t, pfnReserve);
PLACE(DDI_VIRTUAL_FREE, ze_virtual_mem_dditable_t, pfnFree);
PLACE(DDI_VIRTUAL_PAGE, ze_virtual_mem_dditable_t, pfnQueryPageSize);
PLACE(DDI_VIRTUAL_MAP, ze_virtual_mem_dditable_t, pfnMap);
PLACE(DDI_VIRTUAL_UNMAP, ze_virtual_mem_dditable_t, pfnUnmap);
PLACE(DDI_VIRTUAL_SET_ACCESS, ze_virtual_mem_dditable_t, pfnSetAccessAttribute);
PLACE(DDI_VIRTUAL_GET_ACCESS, ze_virtual_mem_dditable_t, pfnGetAccessAttribute);

/* ---- functions: our prototypes with the vendor's types in place of ours ---- */

#define l0_driver	     ze_driver_handle_t
#define l0_device	     ze_device_handle_t
#define l0_context	     ze_context_handle_t
#define l0_list		     ze_command_list_handle_t
#define l0_pool		     ze_event_pool_handle_t
#define l0_event	     ze_event_handle_t
#define l0_init_flags	     ze_init_flags_t
#define l0_api_version	     ze_api_version_t
#define l0_access	     ze_memory_access_attribute_t
#define l0_bool		     ze_bool_t
#define l0_driver_properties ze_driver_properties_t
#define l0_device_properties ze_device_properties_t
#define l0_device_memory     ze_device_memory_properties_t
#define l0_device_external   ze_device_external_memory_properties_t
#define l0_pci_properties    ze_pci_ext_properties_t
#define l0_queue_group	     ze_command_queue_group_properties_t
#define l0_context_desc	     ze_context_desc_t
#define l0_queue_desc	     ze_command_queue_desc_t
#define l0_pool_desc	     ze_event_pool_desc_t
#define l0_event_desc	     ze_event_desc_t
#define l0_device_alloc	     ze_device_mem_alloc_desc_t
#define l0_host_alloc	     ze_host_mem_alloc_desc_t
#define l0_memory	     ze_memory_allocation_properties_t

#define PROTOTYPE(name, arguments)                                                                 \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), ze_result_t(*) arguments),  \
		       #name);
L0_FUNCTIONS(PROTOTYPE)
L0_FUNCTIONS_OPTIONAL(PROTOTYPE)

int main(void)
{
	return EXIT_SUCCESS;
}
