/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An emulated libnvidia-ml.so.1: the PCI windows (BAR1) of the emulated CUDA devices, and no more.
 * Settings, EMU_NVML="key=value,...": window=32768 MiB, used=16 MiB.
 */
#include <stdio.h>
#include <strings.h>

#include "hmem/cuda_abi.h"
#include "tests/drivers/accel/accel.h"

const char accel_driver[] = "NVML";

#define NVML_UNINITIALIZED 1u
#define NVML_NOT_FOUND	   6u

struct nvmlDevice_st {
	unsigned int bus;
};
static struct nvmlDevice_st devices[16];
static bool started;

#define NVML_EXPORT __attribute__((visibility("default")))

NVML_EXPORT unsigned int nvmlInit_v2(void);
NVML_EXPORT unsigned int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvml_device *device);
NVML_EXPORT unsigned int nvmlDeviceGetBAR1MemoryInfo(nvml_device device,
						     struct nvml_window *window);
NVML_EXPORT const char *nvmlErrorString(unsigned int error);

unsigned int nvmlInit_v2(void)
{
	unsigned int result = (unsigned int)accel_call("nvmlInit_v2");

	started = started || result == 0;
	return result;
}

unsigned int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvml_device *device)
{
	unsigned int result = (unsigned int)accel_call("nvmlDeviceGetHandleByPciBusId_v2");
	unsigned int domain, bus;

	if (result != 0)
		return result;
	if (!started)
		return NVML_UNINITIALIZED;
	if (sscanf(pci, "%x:%x", &domain, &bus) != 2 || bus % 0x20 != 0x17)
		return NVML_NOT_FOUND;
	*device = &devices[bus / 0x20];
	(*device)->bus = bus;
	return 0;
}

unsigned int nvmlDeviceGetBAR1MemoryInfo(nvml_device device, struct nvml_window *window)
{
	unsigned int result = (unsigned int)accel_call("nvmlDeviceGetBAR1MemoryInfo");

	(void)device;
	if (result != 0)
		return result;
	window->total = (unsigned long long)accel_setting("window", 32768) << 20;
	window->used = (unsigned long long)accel_setting("used", 16) << 20;
	window->free = window->total - window->used;
	return 0;
}

const char *nvmlErrorString(unsigned int error)
{
	return error == 0 ? "Success" : error == NVML_NOT_FOUND ? "Not Found" : "Unknown Error";
}
