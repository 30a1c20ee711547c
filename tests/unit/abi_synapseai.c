/* SPDX-License-Identifier: BSD-2-Clause */
/* hmem/synapseai_abi.h against Habana's own headers; it is compiled where they are, never run. */
#include <stddef.h>

#include <synapse_api.h>

#include "hmem/synapseai_abi.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " is " #b)

SAME(SYN_OK, synSuccess);
SAME(SYN_CODE_INVALID_ARGUMENT, synInvalidArgument);
SAME(SYN_CODE_OUT_OF_HOST_MEMORY, synOutOfHostMemory);
SAME(SYN_CODE_OUT_OF_DEVICE_MEMORY, synOutOfDeviceMemory);
SAME(SYN_CODE_NOT_INITIALIZED, synObjectNotInitialized);
SAME(SYN_CODE_NO_DEVICE, synNoDeviceFound);
SAME(SYN_CODE_DEVICE_MEMORY, synFailedToAllocateDeviceMemory);
SAME(SYN_CODE_DEVICE_RESET, synDeviceReset);
SAME(SYN_CODE_UNSUPPORTED, synUnsupported);
SAME(SYN_CODE_ALREADY_ACQUIRED, synDeviceAlreadyAcquired);
SAME(SYN_CODE_BUSY, synBusy);
SAME(SYN_CODE_ALL_TAKEN, synAllResourcesTaken);
SAME(SYN_CODE_FAIL, synFail);
SAME(SYN_CODE_OUT_OF_RESOURCES, synOutOfResources);
SAME(SYN_CODE_UNINITIALIZED, synUninitialized);
SAME(SYN_CODE_ALREADY_INITIALIZED, synAlreadyInitialized);
SAME(SYN_CODE_NOT_MAPPED, synMappingNotFound);
SAME(SYN_HOST_TO_DEVICE, HOST_TO_DRAM);
SAME(SYN_DEVICE_TO_HOST, DRAM_TO_HOST);
SAME(SYN_DEVICE_TO_DEVICE, DRAM_TO_DRAM);
SAME(SYN_TYPE_GAUDI, synDeviceGaudi);
SAME(SYN_TYPE_GAUDI2, synDeviceGaudi2);
SAME(SYN_TYPE_GAUDI3, synDeviceGaudi3);
SAME(SYN_MOST_DEVICES, MAX_NUM_OF_DEVICES_PER_HOST);
SAME(sizeof(struct syn_device_info), sizeof(synDeviceInfoV2));
SAME(sizeof(synStatus), sizeof(int));

#define AT(mine, theirs)                                                                           \
	SAME(offsetof(struct syn_device_info, mine), offsetof(synDeviceInfoV2, theirs))

AT(dram_base, dramBaseAddress);
AT(dram_size, dramSize);
AT(fd, fd);
AT(device_type, deviceType);
AT(global_hbm_base, globalHbmBaseAddress);

#define TAKES(function, ...)                                                                       \
	_Static_assert(__builtin_types_compatible_p(__typeof__(function), synStatus(__VA_ARGS__)), \
		       #function)

TAKES(synDriverGetVersion, char *, const int);
TAKES(synDeviceGetCount, uint32_t *);
TAKES(synDeviceAcquire, synDeviceId *, const char *);
TAKES(synDeviceGetInfoV2, const synDeviceId, synDeviceInfoV2 *);
TAKES(synDeviceGetName, char *, const int, const synDeviceId);
TAKES(synDeviceMalloc, const synDeviceId, const uint64_t, uint64_t, const uint32_t, uint64_t *);
TAKES(synDeviceFree, const synDeviceId, const uint64_t, const uint32_t);
TAKES(synHostMalloc, const synDeviceId, const uint64_t, const uint32_t, void **);
TAKES(synHostFree, const synDeviceId, const void *, const uint32_t);
TAKES(synHostMap, const synDeviceId, const uint64_t, const void *);
TAKES(synHostUnmap, const synDeviceId, const void *);
TAKES(synMemCopyAsync, const synStreamHandle, const uint64_t, const uint64_t, const uint64_t,
      const synDmaDir);
TAKES(synStreamCreateGeneric, synStreamHandle *, const synDeviceId, const uint32_t);
TAKES(synStreamSynchronize, const synStreamHandle);
TAKES(synStreamDestroy, const synStreamHandle);
