/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices: numbers, names, PCI addresses, attributes. */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <stdio.h>
#include <string.h>

int emu_devices(void)
{
	long count = accel_setting("devices", 4);

	return count < 0 ? 0 : count > EMU_MOST_DEVICES ? EMU_MOST_DEVICES : (int)count;
}

int emu_ordinal(cu_device device)
{
	long ordinal = device - accel_setting("handles", 0);

	return ordinal >= 0 && ordinal < emu_devices() ? (int)ordinal : -1;
}

uint64_t emu_device_bytes(void)
{
	return (uint64_t)accel_setting("memory", 16384) << 20;
}

cu_result cuDeviceGetCount(int *count)
{
	EMU_CALL(cuDeviceGetCount);
	*count = emu_devices();
	return CU_OK;
}

cu_result cuDeviceGet(cu_device *device, int ordinal)
{
	EMU_CALL(cuDeviceGet);
	if (ordinal < 0 || ordinal >= emu_devices())
		return CU_INVALID_DEVICE;
	*device = ordinal + (int)accel_setting("handles", 0);
	return CU_OK;
}

cu_result cuDeviceGetName(char *name, int len, cu_device device)
{
	EMU_CALL(cuDeviceGetName);
	if (emu_ordinal(device) < 0)
		return CU_INVALID_DEVICE;
	snprintf(name, (size_t)len, "Emulated CUDA device");
	return CU_OK;
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device)
{
	EMU_CALL(cuDeviceTotalMem_v2);
	if (emu_ordinal(device) < 0)
		return CU_INVALID_DEVICE;
	*bytes = emu_device_bytes();
	return CU_OK;
}

cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuMemGetInfo_v2, context);
	*left = *total = emu_device_bytes();
	return CU_OK;
}

#define PCI_BUS(ordinal) (0x17 + 0x20 * (ordinal))

cu_result cuDeviceGetPCIBusId(char *text, int len, cu_device device)
{
	int ordinal = emu_ordinal(device);

	EMU_CALL(cuDeviceGetPCIBusId);
	if (ordinal < 0)
		return CU_INVALID_DEVICE;
	snprintf(text, (size_t)len, "0000:%02X:00.0", PCI_BUS(ordinal) & 0xff);
	return CU_OK;
}

static int attribute(unsigned int which, int ordinal)
{
	switch (which) {
	case CU_DEV_PCI_BUS:
		return PCI_BUS(ordinal) & 0xff;
	case CU_DEV_PCI_DEVICE:
	case CU_DEV_PCI_DOMAIN:
		return 0;
	case CU_DEV_DMA_BUF:
		return (accel_setting("dmabuf", -1) >> ordinal) & 1;
	case CU_DEV_RDMA_WITH_VMM:
		return accel_setting("vmmrdma", 1) != 0;
	case CU_DEV_RDMA_ORDER:
		return (int)accel_setting("order", CU_ORDER_OWNER);
	case CU_DEV_RDMA_FLUSH:
		return accel_setting("flush", 1) != 0 ? CU_FLUSH_BY_HOST : 0;
	case CU_DEV_UNIFIED_ADDRESSING:
	case CU_DEV_MANAGED_MEMORY:
	case CU_DEV_VMM:
	case CU_DEV_POOLS:
	case CU_DEV_RDMA:
	case CU_DEV_HOST_NUMA_VMM:
	case CU_DEV_HOST_VMM:
		return 1;
	default:
		return 0;
	}
}

cu_result cuDeviceGetAttribute(int *value, unsigned int which, cu_device device)
{
	int ordinal = emu_ordinal(device);

	EMU_CALL(cuDeviceGetAttribute);
	if (ordinal < 0)
		return CU_INVALID_DEVICE;
	if (which == 0 || which > 148)
		return CU_INVALID_VALUE;
	*value = attribute(which, ordinal);
	return CU_OK;
}

cu_result cuDeviceCanAccessPeer(int *can, cu_device device, cu_device peer)
{
	EMU_CALL(cuDeviceCanAccessPeer);
	if (emu_ordinal(device) < 0 || emu_ordinal(peer) < 0)
		return CU_INVALID_DEVICE;
	*can = device != peer;
	return CU_OK;
}

/* NICs write to no memory here, so that there is nothing to do but to be called rightly. */
cu_result cuFlushGPUDirectRDMAWrites(unsigned int target, unsigned int scope)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuFlushGPUDirectRDMAWrites, context);
	if (target != CU_FLUSH_CONTEXT || (scope != CU_FLUSH_TO_OWNER && scope != CU_ORDER_ALL))
		return CU_INVALID_VALUE;
	return accel_setting("flush", 1) != 0 ? CU_OK : CU_NOT_SUPPORTED;
}

/* ---- functions by name ---- */

static const struct {
	const char *symbol;
	void (*function)(void);
} functions[] = {
#define EMU_ROW(member, symbol, args) { #symbol, (void (*)(void))symbol },
	CUDA_FUNCTIONS(EMU_ROW) CUDA_NEWER(EMU_ROW) CUDA_WITH_STRUCTS(EMU_ROW)
		CUDA_TEST_FUNCTIONS(EMU_ROW) CUDA_TEST_STRUCTS(EMU_ROW)
};

__attribute__((visibility("default"))) cu_result
cuGetProcAddress_v2(const char *symbol, void (**function)(void), int version,
		    unsigned long long flags, unsigned int *status);

/* The last version of the symbol: this driver has no history. */
cu_result cuGetProcAddress_v2(const char *symbol, void (**function)(void), int version,
			      unsigned long long flags, unsigned int *status)
{
	size_t len = strlen(symbol);

	(void)version, (void)flags;
	*function = NULL;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		const char *rest = functions[i].symbol + len;

		if (strncmp(functions[i].symbol, symbol, len) == 0 &&
		    (*rest == 0 || (strncmp(rest, "_v", 2) == 0 && strlen(rest) == 3)))
			*function = functions[i].function;
	}
	if (status)
		*status = *function ? 0 : 1;
	return CU_OK;
}
