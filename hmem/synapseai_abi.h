/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is used of Habana's SynapseAI interface, libSynapse.so, and of the library below it,
 * libhl-thunk.so.
 *
 * From the comments and declarations of the headers that Habana published: synapse_api.h,
 * synapse_api_types.h and synapse_common_types.h (SynapseAI_Core, Intel_Gaudi3_Software) and hlthunk.h
 * (hl-thunk-open).  Not checked on hardware, nor against installed headers unless the build found them
 * (tests/unit/abi_synapseai.c).
 */
#ifndef HMEM_SYNAPSEAI_ABI_H
#define HMEM_SYNAPSEAI_ABI_H

#include <stdint.h>

/* synapse_common_types.h: synStatus, an enumeration passed as int */
enum syn_code {
	SYN_OK = 0,
	SYN_CODE_INVALID_ARGUMENT = 1,
	SYN_CODE_OUT_OF_HOST_MEMORY = 3,
	SYN_CODE_OUT_OF_DEVICE_MEMORY = 4,
	SYN_CODE_NOT_INITIALIZED = 6,
	SYN_CODE_NO_DEVICE = 8,
	SYN_CODE_DEVICE_MEMORY = 14, /* synFailedToAllocateDeviceMemory */
	SYN_CODE_DEVICE_RESET = 17,
	SYN_CODE_UNSUPPORTED = 18,
	SYN_CODE_ALREADY_ACQUIRED = 20,
	SYN_CODE_BUSY = 22,
	SYN_CODE_ALL_TAKEN = 23,
	SYN_CODE_FAIL = 26,
	SYN_CODE_OUT_OF_RESOURCES = 27,
	SYN_CODE_UNINITIALIZED = 28,
	SYN_CODE_ALREADY_INITIALIZED = 29,
	SYN_CODE_NOT_MAPPED = 34 /* synMappingNotFound */
};

/* synDmaDir */
#define SYN_HOST_TO_DEVICE   0
#define SYN_DEVICE_TO_HOST   1
#define SYN_DEVICE_TO_DEVICE 2

/* synDeviceType: the values of those before synDeviceGaudi2 have other means of export */
#define SYN_TYPE_GAUDI	2
#define SYN_TYPE_GAUDI2 4
#define SYN_TYPE_GAUDI3 5

/* MAX_NUM_OF_DEVICES_PER_HOST */
#define SYN_MOST_DEVICES 8

struct syn_stream_opaque; /* synStreamHandle points to it */

/* struct synDeviceInfoV2; synDeviceInfo is the same up to device_type. */
struct syn_device_info {
	uint64_t sram_base;
	uint64_t dram_base;
	uint32_t sram_size;
	uint64_t dram_size;
	uint64_t tpc_mask;
	uint8_t dram_enabled;
	uint32_t device_id;
	uint32_t fd; /* of the device, for libhl-thunk; stays SynapseAI's */
	int device_type;
	/* synDeviceInfoV2 alone */
	uint8_t device_index;
	uint64_t global_hbm_base; /* begin of the mapping that synDeviceMalloc divides */
};

/* synapse_api.h; a synDeviceId and a synModuleId are uint32_t */
typedef int syn_void_fn(void);						/* synInitialize */
typedef int syn_version_fn(char *version, int len);			/* synDriverGetVersion */
typedef int syn_count_fn(uint32_t *count);				/* synDeviceGetCount */
typedef int syn_acquire_fn(uint32_t *device, const char *pci_bus);	/* synDeviceAcquire */
typedef int syn_info_fn(uint32_t device, struct syn_device_info *info); /* synDeviceGetInfo[V2] */
typedef int syn_text_fn(char *text, int len, uint32_t device); /* synDeviceGet{Name,PCIBusId} */
typedef int syn_memory_fn(uint32_t device, uint64_t *free, uint64_t *total);
typedef int syn_device_malloc_fn(uint32_t device, uint64_t size, uint64_t hint, uint32_t flags,
				 uint64_t *buffer);
typedef int syn_device_free_fn(uint32_t device, uint64_t buffer, uint32_t flags);
typedef int syn_host_malloc_fn(uint32_t device, uint64_t size, uint32_t flags, void **buffer);
typedef int syn_host_free_fn(uint32_t device, const void *buffer, uint32_t flags);
typedef int syn_host_map_fn(uint32_t device, uint64_t size, const void *buffer);
typedef int syn_host_unmap_fn(uint32_t device, const void *buffer);
typedef int syn_copy_fn(struct syn_stream_opaque *stream, uint64_t src, uint64_t size, uint64_t dst,
			int direction);
typedef int syn_stream_create_fn(struct syn_stream_opaque **stream, uint32_t device,
				 uint32_t flags);	     /* synStreamCreateGeneric */
typedef int syn_stream_fn(struct syn_stream_opaque *stream); /* synStream{Synchronize,Destroy} */

/*
 * hlthunk.h.  Both return a fd of the caller's or a negative errno.  The first is for Gaudi alone, and
 * addr is in its DRAM; the second for those after it, addr is the begin of a mapping and the dma-buf
 * begins offset bytes after it.
 */
typedef int hlthunk_export_fn(int fd, uint64_t addr, uint64_t size, uint32_t flags);
typedef int hlthunk_export_mapped_fn(int fd, uint64_t addr, uint64_t size, uint64_t offset,
				     uint32_t flags);

#endif
