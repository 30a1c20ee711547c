/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Level Zero's C interface (oneAPI Level Zero specification 1.5), as much as is used here: layouts and
 * values under names of our own.  tests/unit/abi_ze.c compares them with the vendor's header where that
 * is installed.
 */
#ifndef HMEM_ZE_ABI_H
#define HMEM_ZE_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ze_result_t; a value that is not named here is told by its number. */
typedef uint32_t l0_result;

enum {
	L0_SUCCESS = 0,
	L0_NOT_READY = 1,
	L0_DEVICE_LOST = 0x70000001,
	L0_OUT_OF_HOST_MEMORY = 0x70000002,
	L0_OUT_OF_DEVICE_MEMORY = 0x70000003,
	L0_INSUFFICIENT_PERMISSIONS = 0x70010000,
	L0_NOT_AVAILABLE = 0x70010001,
	L0_DEPENDENCY_UNAVAILABLE = 0x70020000,
	L0_UNINITIALIZED = 0x78000001,
	L0_UNSUPPORTED_VERSION = 0x78000002,
	L0_UNSUPPORTED_FEATURE = 0x78000003,
	L0_INVALID_ARGUMENT = 0x78000004,
	L0_INVALID_NULL_HANDLE = 0x78000005,
	L0_HANDLE_OBJECT_IN_USE = 0x78000006,
	L0_INVALID_NULL_POINTER = 0x78000007,
	L0_INVALID_SIZE = 0x78000008,
	L0_UNSUPPORTED_SIZE = 0x78000009,
	L0_UNSUPPORTED_ALIGNMENT = 0x7800000a,
	L0_INVALID_SYNCHRONIZATION_OBJECT = 0x7800000b,
	L0_INVALID_ENUMERATION = 0x7800000c,
	L0_UNKNOWN = 0x7ffffffe
};

/* ze_structure_type_t */
enum {
	L0_STYPE_DRIVER_PROPERTIES = 0x1,
	L0_STYPE_DEVICE_PROPERTIES = 0x3,
	L0_STYPE_QUEUE_GROUP_PROPERTIES = 0x6,
	L0_STYPE_DEVICE_MEMORY_PROPERTIES = 0x7,
	L0_STYPE_DEVICE_EXTERNAL_MEMORY = 0xc,
	L0_STYPE_CONTEXT_DESC = 0xd,
	L0_STYPE_QUEUE_DESC = 0xe,
	L0_STYPE_EVENT_POOL_DESC = 0x10,
	L0_STYPE_EVENT_DESC = 0x11,
	L0_STYPE_DEVICE_ALLOC_DESC = 0x15,
	L0_STYPE_HOST_ALLOC_DESC = 0x16,
	L0_STYPE_MEMORY_PROPERTIES = 0x17,
	L0_STYPE_EXPORT_DESC = 0x18,
	L0_STYPE_EXPORT_FD = 0x1a,
	L0_STYPE_PCI_PROPERTIES = 0x10008
};

#define L0_INIT_GPU_ONLY      1u
#define L0_EXTERNAL_DMA_BUF   2u /* ze_external_memory_type_flag_t */
#define L0_GROUP_COMPUTE      1u /* ze_command_queue_group_property_flag_t */
#define L0_GROUP_COPY	      2u
#define L0_QUEUE_ASYNCHRONOUS 2u /* ze_command_queue_mode_t */
#define L0_EVENT_HOST_VISIBLE 1u /* ze_event_pool_flag_t */
#define L0_SCOPE_HOST	      4u /* ze_event_scope_flag_t */

/* ze_memory_type_t; the last from a later specification */
#define L0_MEMORY_UNKNOWN	0u
#define L0_MEMORY_HOST		1u
#define L0_MEMORY_DEVICE	2u
#define L0_MEMORY_SHARED	3u
#define L0_MEMORY_HOST_IMPORTED 4u

typedef struct l0_driver_object *l0_driver;
typedef struct l0_device_object *l0_device;
typedef struct l0_context_object *l0_context;
typedef struct l0_list_object *l0_list;
typedef struct l0_pool_object *l0_pool;
typedef struct l0_event_object *l0_event;

typedef uint32_t l0_init_flags;
typedef uint32_t l0_api_version; /* major << 16 | minor */
typedef uint32_t l0_access;	 /* ze_memory_access_attribute_t */
typedef uint8_t l0_bool;

typedef struct {
	uint32_t stype;
	void *next;
	uint8_t uuid[16];
	uint32_t version;
} l0_driver_properties;

typedef struct {
	uint32_t stype;
	void *next;
	uint32_t type, vendor, device, flags, sub_device, clock;
	uint64_t most_alloc;
	uint32_t contexts, priorities, threads, width, units, sub_slices, slices;
	uint64_t timer;
	uint32_t timestamp_bits, kernel_timestamp_bits;
	uint8_t uuid[16];
	char name[256];
} l0_device_properties;

typedef struct {
	uint32_t stype;
	void *next;
	uint32_t flags, clock, width;
	uint64_t size;
	char name[256];
} l0_device_memory;

typedef struct {
	uint32_t stype;
	void *next;
	uint32_t imports, exports, image_imports, image_exports;
} l0_device_external;

typedef struct {
	uint32_t stype;
	void *next;
	uint32_t domain, bus, device, function;
	int32_t generation, width;
	int64_t bandwidth;
} l0_pci_properties;

typedef struct {
	uint32_t stype;
	void *next;
	uint32_t flags;
	size_t fill_pattern;
	uint32_t queues;
} l0_queue_group;

typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t flags;
} l0_context_desc;

typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t ordinal, index, flags, mode, priority;
} l0_queue_desc;

typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t flags, count;
} l0_pool_desc;

typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t index, signal, wait;
} l0_event_desc;

typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t flags, ordinal;
} l0_device_alloc;

typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t flags;
} l0_host_alloc;

typedef struct {
	uint32_t stype;
	void *next;
	uint32_t type;
	uint64_t id, page;
} l0_memory;

typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t flags;
} l0_export_desc;

typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t flags;
	int fd;
} l0_export_fd;

/* The functions: X(name, (arguments)). */
#define L0_FUNCTIONS(X)                                                                            \
	X(zeInit, (l0_init_flags))                                                                 \
	X(zeDriverGet, (uint32_t *, l0_driver *))                                                  \
	X(zeDriverGetApiVersion, (l0_driver, l0_api_version *))                                    \
	X(zeDriverGetProperties, (l0_driver, l0_driver_properties *))                              \
	X(zeDeviceGet, (l0_driver, uint32_t *, l0_device *))                                       \
	X(zeDeviceGetSubDevices, (l0_device, uint32_t *, l0_device *))                             \
	X(zeDeviceGetProperties, (l0_device, l0_device_properties *))                              \
	X(zeDeviceGetMemoryProperties, (l0_device, uint32_t *, l0_device_memory *))                \
	X(zeDeviceGetExternalMemoryProperties, (l0_device, l0_device_external *))                  \
	X(zeDeviceGetCommandQueueGroupProperties, (l0_device, uint32_t *, l0_queue_group *))       \
	X(zeDeviceCanAccessPeer, (l0_device, l0_device, l0_bool *))                                \
	X(zeContextCreate, (l0_driver, const l0_context_desc *, l0_context *))                     \
	X(zeContextDestroy, (l0_context))                                                          \
	X(zeMemAllocDevice,                                                                        \
	  (l0_context, const l0_device_alloc *, size_t, size_t, l0_device, void **))               \
	X(zeMemAllocHost, (l0_context, const l0_host_alloc *, size_t, size_t, void **))            \
	X(zeMemAllocShared, (l0_context, const l0_device_alloc *, const l0_host_alloc *, size_t,   \
			     size_t, l0_device, void **))                                          \
	X(zeMemFree, (l0_context, void *))                                                         \
	X(zeMemGetAllocProperties, (l0_context, const void *, l0_memory *, l0_device *))           \
	X(zeMemGetAddressRange, (l0_context, const void *, void **, size_t *))                     \
	X(zeCommandListCreateImmediate, (l0_context, l0_device, const l0_queue_desc *, l0_list *)) \
	X(zeCommandListDestroy, (l0_list))                                                         \
	X(zeCommandListAppendMemoryCopy,                                                           \
	  (l0_list, void *, const void *, size_t, l0_event, uint32_t, l0_event *))                 \
	X(zeEventPoolCreate, (l0_context, const l0_pool_desc *, uint32_t, l0_device *, l0_pool *)) \
	X(zeEventPoolDestroy, (l0_pool))                                                           \
	X(zeEventCreate, (l0_pool, const l0_event_desc *, l0_event *))                             \
	X(zeEventDestroy, (l0_event))                                                              \
	X(zeEventHostSynchronize, (l0_event, uint64_t))                                            \
	X(zeEventQueryStatus, (l0_event))                                                          \
	X(zeEventHostReset, (l0_event))

/* The same, that a loader may lack. */
#define L0_FUNCTIONS_OPTIONAL(X)                                                                   \
	X(zeDevicePciGetPropertiesExt, (l0_device, l0_pci_properties *))                           \
	X(zeVirtualMemGetAccessAttribute, (l0_context, const void *, size_t, l0_access *, size_t *))

#define L0_SLOT(name, arguments) l0_result(*name) arguments;

struct l0_api {
	L0_FUNCTIONS(L0_SLOT)
	L0_FUNCTIONS_OPTIONAL(L0_SLOT)
	/* of specification 1.7; NULL with an older loader */
	l0_result (*zeDeviceGetRootDevice)(l0_device, l0_device *);
};

#endif
