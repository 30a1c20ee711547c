/* SPDX-License-Identifier: BSD-2-Clause */
/* Level Zero's memory: what an address is, and allocations. */
#include "hmem/ze.h"

#include <stdio.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/refusal.h"
#include "hmem/known.h"

/* ---- errors ---- */

static const struct {
	l0_result result;
	const char *name, *meaning;
	int code;
} results[] = {
	{ L0_DEVICE_LOST, "ZE_RESULT_ERROR_DEVICE_LOST",
	  "the device was reset or removed, see dmesg", -FI_EIO },
	{ L0_OUT_OF_HOST_MEMORY, "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY",
	  "no host memory, or no more file descriptors", -FI_ENOMEM },
	{ L0_OUT_OF_DEVICE_MEMORY, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
	  "the device's memory is used up", -FI_ENOMEM },
	{ L0_INSUFFICIENT_PERMISSIONS, "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS",
	  "the user may not open /dev/dri/renderD*", -FI_EACCES },
	{ L0_NOT_AVAILABLE, "ZE_RESULT_ERROR_NOT_AVAILABLE", "the device is in use elsewhere",
	  -FI_EIO },
	{ L0_DEPENDENCY_UNAVAILABLE, "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE",
	  "a library that the driver needs is missing", -FI_EIO },
	{ L0_UNINITIALIZED, "ZE_RESULT_ERROR_UNINITIALIZED",
	  "no driver started: none is installed, or none may open its device", -FI_EIO },
	{ L0_UNSUPPORTED_VERSION, "ZE_RESULT_ERROR_UNSUPPORTED_VERSION",
	  "the driver is older than the loader wants", -FI_EIO },
	{ L0_UNSUPPORTED_FEATURE, "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE",
	  "the driver does not have this", -FI_EOPNOTSUPP },
	{ L0_INVALID_ARGUMENT, "ZE_RESULT_ERROR_INVALID_ARGUMENT",
	  "memory that the device cannot reach, or that was freed", -FI_EIO },
	{ L0_INVALID_NULL_HANDLE, "ZE_RESULT_ERROR_INVALID_NULL_HANDLE", "an object is gone",
	  -FI_EIO },
	{ L0_HANDLE_OBJECT_IN_USE, "ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE",
	  "the device still works on it", -FI_EBUSY },
	{ L0_INVALID_NULL_POINTER, "ZE_RESULT_ERROR_INVALID_NULL_POINTER", "no address", -FI_EIO },
	{ L0_INVALID_SIZE, "ZE_RESULT_ERROR_INVALID_SIZE", "a length that the driver does not take",
	  -FI_EIO },
	{ L0_UNSUPPORTED_SIZE, "ZE_RESULT_ERROR_UNSUPPORTED_SIZE",
	  "more than one allocation of the device can have", -FI_EINVAL },
	{ L0_UNSUPPORTED_ALIGNMENT, "ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT",
	  "an alignment that the driver does not take", -FI_EINVAL },
	{ L0_UNKNOWN, "ZE_RESULT_ERROR_UNKNOWN", "the driver does not say why", -FI_EIO },
};

#define RESULTS (sizeof(results) / sizeof(results[0]))

static size_t result_index(l0_result result)
{
	size_t i = 0;

	while (i < RESULTS && results[i].result != result)
		i++;
	return i;
}

const char *ze_result_text(l0_result result, char text[64])
{
	size_t i = result_index(result);

	if (i < RESULTS)
		snprintf(text, 64, "%s", results[i].name);
	else
		snprintf(text, 64, "error 0x%x", result);
	return text;
}

int ze_fail(const char *call, l0_result result)
{
	size_t i = result_index(result);
	char text[64];

	HM_REFUSE(FI_LOG_CORE, hmem_cause_of(i < RESULTS ? results[i].code : -FI_EIO),
		  "%s: %s (0x%x): %s", call, ze_result_text(result, text), result,
		  i < RESULTS ? results[i].meaning : "see the driver's documentation");
	return i < RESULTS ? results[i].code : -FI_EIO;
}

/* ---- what an address is ---- */

/*
 * The range is not told by every driver for memory that is mapped by pieces; an address is believed
 * without one.
 */
static int find_range(const void *addr, struct ze_range *range)
{
	void *base = NULL;
	size_t len = 0;
	l0_result r = ze_api.zeMemGetAddressRange(range->driver->context, addr, &base, &len);

	if (r == L0_DEVICE_LOST || r == L0_OUT_OF_HOST_MEMORY || r == L0_UNKNOWN)
		return ze_fail("zeMemGetAddressRange", r);
	range->known = r == L0_SUCCESS && base <= addr && (uintptr_t)addr - (uintptr_t)base < len;
	range->base = range->known ? (uintptr_t)base : (uintptr_t)addr;
	range->len = range->known ? len : 1;
	return 0;
}

int ze_find(const void *addr, struct ze_range *range)
{
	for (uint32_t i = 0; addr && i < ze_state.driver_count; i++) {
		struct ze_driver *driver = &ze_state.drivers[i];
		l0_memory memory = { .stype = L0_STYPE_MEMORY_PROPERTIES };
		l0_device device = NULL;
		l0_result r;

		if (!driver->context)
			continue;
		/* of any context of the driver; another driver's address is of an unknown type */
		r = ze_api.zeMemGetAllocProperties(driver->context, addr, &memory, &device);
		if (r != L0_SUCCESS)
			return ze_fail("zeMemGetAllocProperties", r);
		if (memory.type == L0_MEMORY_UNKNOWN)
			continue;
		*range = (struct ze_range){ .driver = driver,
					    .device = ze_device_of(ze_device_id(driver, device)),
					    .type = memory.type,
					    .id = memory.id,
					    .page = memory.page };
		return find_range(addr, range);
	}
	return -FI_ENOENT;
}

static uint32_t device_flags(uint32_t traits)
{
	uint32_t flags = 0;

	if (traits & ZE_TRAIT_VMM)
		flags |= HMEM_FACT_VMM;
	if (!(traits & ZE_TRAIT_EXPORTABLE))
		flags |= HMEM_FACT_NO_EXPORT;
	/* pieces that nobody can export have no other way to a NIC */
	if ((traits & ZE_TRAIT_VMM) && !(traits & ZE_TRAIT_EXPORTABLE))
		flags |= HMEM_FACT_NO_RDMA;
	return flags;
}

static int look(const void *addr, struct hmem_facts *facts)
{
	struct ze_range range;
	int ret = ze_find(addr, &range);

	if (ret != 0)
		return ret;
	*facts = (struct hmem_facts){ .flags = range.known ? 0 : HMEM_FACT_NO_RANGE,
				      .device = range.device ? range.device->info.id
							     : HMEM_NO_DEVICE,
				      .base = range.base,
				      .len = range.len,
				      .id = range.id };
	switch (range.type) {
	case L0_MEMORY_HOST:
	case L0_MEMORY_HOST_IMPORTED:
		facts->flags |= HMEM_FACT_ON_HOST | HMEM_FACT_HOST_ACCESS;
		if (ze_traits(&range) & ZE_TRAIT_VMM)
			facts->flags |= HMEM_FACT_VMM;
		facts->device = HMEM_NO_DEVICE;
		break;
	case L0_MEMORY_SHARED:
		facts->flags |= HMEM_FACT_MANAGED | HMEM_FACT_HOST_ACCESS;
		break;
	case L0_MEMORY_DEVICE:
		/* of a device that zeDeviceGet does not tell: not ours to judge */
		facts->flags |= range.device ? device_flags(ze_traits(&range)) : HMEM_FACT_UNKNOWN;
		break;
	default:
		facts->flags |= HMEM_FACT_UNKNOWN;
	}
	return 0;
}

/* For a cache: two calls for memory of a driver, one of each driver for any other. */
static int own(const void *addr, struct hmem_facts *facts, const char **why)
{
	struct ze_range range;
	int ret = ze_find(addr, &range);

	if (ret != 0)
		return ret;
	if (range.type == L0_MEMORY_HOST_IMPORTED)
		return -FI_ENOENT; /* the program's own */
	*facts = (struct hmem_facts){ .flags = range.known ? 0 : HMEM_FACT_NO_RANGE,
				      .device = HMEM_NO_DEVICE,
				      .base = range.base,
				      .len = range.len,
				      .id = range.id };
	if (range.type == L0_MEMORY_HOST)
		facts->flags |= HMEM_FACT_ON_HOST;
	else if (range.device)
		facts->device = range.device->info.id;
	/* asked once, and then known by the id */
	if (range.id != 0 && (ze_traits(&range) & ZE_TRAIT_VMM)) {
		facts->id = 0;
		*why = "nothing says that the id of mapped memory changes with what is mapped";
	}
	return 0;
}

/* ---- devices ---- */

static size_t device_count(void)
{
	return ze_state.device_count;
}

static int device_info(size_t index, struct hmem_device *device)
{
	for (uint32_t i = 0; i < ze_state.driver_count; i++) {
		const struct ze_driver *driver = &ze_state.drivers[i];

		if (index < driver->device_count) {
			*device = driver->devices[index].info;
			return 0;
		}
		index -= driver->device_count;
	}
	return -FI_ENODEV;
}

/* ---- allocations ---- */

static int no_such_device(int device)
{
	HM_WARN(FI_LOG_CORE, "Level Zero has no device %d", device);
	return -FI_ENODEV;
}

/* Host memory is of no device: any driver's context makes it. */
static l0_context any_context(void)
{
	for (uint32_t i = 0; i < ze_state.driver_count; i++)
		if (ze_state.drivers[i].device_count > 0)
			return ze_state.drivers[i].context;
	return NULL;
}

static int alloc(int device, size_t len, enum hmem_alloc how, void **addr)
{
	static const l0_export_desc export = { .stype = L0_STYPE_EXPORT_DESC,
					       .flags = L0_EXTERNAL_DMA_BUF };
	struct ze_device *d = device == HMEM_NO_DEVICE ? NULL : ze_device_of(device);
	l0_device_alloc on_device = { .stype = L0_STYPE_DEVICE_ALLOC_DESC };
	l0_host_alloc on_host = { .stype = L0_STYPE_HOST_ALLOC_DESC };
	l0_context context = d ? d->driver->context : any_context();
	const char *call;
	l0_result r;

	if (!context || (!d && (device != HMEM_NO_DEVICE || how != HMEM_ALLOC_HOST)))
		return no_such_device(device);
	switch (how) {
	case HMEM_ALLOC_HOST:
		call = "zeMemAllocHost";
		r = ze_api.zeMemAllocHost(context, &on_host, len, 0, addr);
		break;
	case HMEM_ALLOC_MANAGED:
		call = "zeMemAllocShared";
		r = ze_api.zeMemAllocShared(context, &on_device, &on_host, len, 0, d->handle, addr);
		break;
	default:
		/* exportable only when asked for at allocation */
		if (d->info.dmabuf && how != HMEM_ALLOC_PRIVATE)
			on_device.next = &export;
		call = "zeMemAllocDevice";
		r = ze_api.zeMemAllocDevice(context, &on_device, len, 0, d->handle, addr);
	}
	return r == L0_SUCCESS ? 0 : ze_fail(call, r);
}

static int free_memory(int device, void *addr, enum hmem_alloc how)
{
	struct ze_device *d = ze_device_of(device);
	l0_context context = d ? d->driver->context : NULL;
	l0_result r;

	if (!context && how == HMEM_ALLOC_HOST)
		context = any_context();
	if (!context)
		return no_such_device(device);
	r = ze_api.zeMemFree(context, addr);
	return r == L0_SUCCESS ? 0 : ze_fail("zeMemFree", r);
}

struct hmem_ops hmem_ze = {
	.name = "ze",
	.iface = FI_HMEM_ZE,
	.start = ze_start,
	.device_count = device_count,
	.device_info = device_info,
	.look = look,
	.own = own,
	.copy = ze_copy,
	.copy_start = ze_copy_start,
	.copy_end = ze_copy_end,
	.export_unit = 4096, /* the host's page, set by ze_start */
	.export_start = ze_export_start,
	.export_end = ze_export_end,
	.alloc = alloc,
	.allocates_private = true,
	.free = free_memory,
};
