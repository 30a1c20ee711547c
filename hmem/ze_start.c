/* SPDX-License-Identifier: BSD-2-Clause */
/* Level Zero's drivers and devices, and their ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/dl.h"
#include "core/base/log.h"
#include "hmem/ze.h"

#define LIBRARY "libze_loader.so.1"

struct l0_api ze_api;
struct ze_state ze_state;

#define REQUIRED(name, arguments) { #name, (void **)&ze_api.name, NULL, 0 },
#define OPTIONAL(name, arguments) { #name, (void **)&ze_api.name, NULL, 1 },

static const struct hm_dl_symbol symbols[] = { L0_FUNCTIONS(REQUIRED) L0_FUNCTIONS_OPTIONAL(
	OPTIONAL) OPTIONAL(zeDeviceGetRootDevice, ) };

/* ---- ids ---- */

struct ze_device *ze_device_of(int id)
{
	uint32_t driver = (uint32_t)id >> 16, device = (uint32_t)id & 0xffff;

	if (id < 0 || driver >= ze_state.driver_count ||
	    device >= ze_state.drivers[driver].device_count)
		return NULL;
	return &ze_state.drivers[driver].devices[device];
}

int ze_device_id(const struct ze_driver *driver, l0_device handle)
{
	for (size_t i = 0; handle && i < driver->handle_count; i++)
		if (driver->handles[i].handle == handle)
			return fi_hmem_ze_device((int)driver->index,
						 (int)driver->handles[i].device);
	return -1;
}

int hmem_ze_handles(int id, void **driver, void **device)
{
	struct ze_device *d = ze_device_of(id);

	if (!d)
		return -FI_ENODEV;
	*driver = d->driver->handle;
	*device = d->handle;
	return 0;
}

int hmem_ze_id(const void *driver, const void *device)
{
	for (uint32_t i = 0; i < ze_state.driver_count; i++) {
		int id;

		if (ze_state.drivers[i].handle != driver)
			continue;
		id = ze_device_id(&ze_state.drivers[i], (l0_device)(uintptr_t)device);
		return id < 0 ? -FI_ENODEV : id;
	}
	return -FI_ENODEV;
}

/* ---- one device ---- */

static void ask_name(struct ze_device *d)
{
	l0_device_properties p = { .stype = L0_STYPE_DEVICE_PROPERTIES };
	l0_result r = ze_api.zeDeviceGetProperties(d->handle, &p);

	if (r == L0_SUCCESS)
		snprintf(d->info.name, sizeof(d->info.name), "%.*s", (int)sizeof(d->info.name) - 1,
			 p.name);
	else
		ze_fail("zeDeviceGetProperties", r);
}

static void ask_pci(struct ze_device *d)
{
	l0_pci_properties p = { .stype = L0_STYPE_PCI_PROPERTIES };
	l0_result r;

	if (!ze_api.zeDevicePciGetPropertiesExt)
		return;
	r = ze_api.zeDevicePciGetPropertiesExt(d->handle, &p);
	if (r == L0_SUCCESS)
		snprintf(d->info.pci, sizeof(d->info.pci), "%04x:%02x:%02x.%x", p.domain & 0xffff,
			 p.bus & 0xff, p.device & 0x1f, p.function & 7);
	else if (r != L0_UNSUPPORTED_FEATURE)
		ze_fail("zeDevicePciGetPropertiesExt", r);
}

static void ask_memory(struct ze_device *d)
{
	l0_device_memory *p;
	uint32_t count = 0;
	l0_result r = ze_api.zeDeviceGetMemoryProperties(d->handle, &count, NULL);

	p = r == L0_SUCCESS && count > 0 ? calloc(count, sizeof(*p)) : NULL;
	for (uint32_t i = 0; p && i < count; i++)
		p[i].stype = L0_STYPE_DEVICE_MEMORY_PROPERTIES;
	if (p)
		r = ze_api.zeDeviceGetMemoryProperties(d->handle, &count, p);
	for (uint32_t i = 0; p && r == L0_SUCCESS && i < count; i++)
		d->info.memory += p[i].size;
	if (r != L0_SUCCESS)
		ze_fail("zeDeviceGetMemoryProperties", r);
	free(p);
}

/* Asked of each device: two of one driver may differ. */
static void ask_export(struct ze_device *d)
{
	l0_device_external p = { .stype = L0_STYPE_DEVICE_EXTERNAL_MEMORY };
	l0_result r = ze_api.zeDeviceGetExternalMemoryProperties(d->handle, &p);
	char text[64];

	d->info.dmabuf = r == L0_SUCCESS && (p.exports & L0_EXTERNAL_DMA_BUF);
	if (r != L0_SUCCESS) {
		snprintf(d->info.dmabuf_reason, sizeof(d->info.dmabuf_reason),
			 "zeDeviceGetExternalMemoryProperties: %.50s", ze_result_text(r, text));
		ze_fail("zeDeviceGetExternalMemoryProperties", r);
	} else if (!d->info.dmabuf) {
		snprintf(d->info.dmabuf_reason, sizeof(d->info.dmabuf_reason),
			 "the driver does not export this device's memory as a dma-buf");
	}
}

static void fill_device(struct ze_driver *driver, uint32_t index, l0_device handle)
{
	struct ze_device *d = &driver->devices[index];

	d->info.id = fi_hmem_ze_device((int)driver->index, (int)index);
	d->handle = handle;
	d->driver = driver;
	pthread_mutex_init(&d->lock, NULL);
	atomic_init(&d->ordinal, -1);
	ask_name(d);
	ask_pci(d);
	ask_memory(d);
	ask_export(d);
}

/* ---- handles ---- */

static int add_handle(struct ze_driver *driver, l0_device handle, uint32_t device)
{
	struct ze_handle *grown =
		realloc(driver->handles, (driver->handle_count + 1) * sizeof(*grown));

	if (!grown)
		return -FI_ENOMEM;
	grown[driver->handle_count++] = (struct ze_handle){ handle, device };
	driver->handles = grown;
	return 0;
}

/* Sub-devices may have some of their own. */
static int add_parts(struct ze_driver *driver, l0_device handle, uint32_t device, int depth)
{
	l0_device *parts;
	uint32_t count = 0;
	l0_result r = ze_api.zeDeviceGetSubDevices(handle, &count, NULL);
	int ret = 0;

	if (r != L0_SUCCESS)
		return ze_fail("zeDeviceGetSubDevices", r);
	if (count == 0)
		return 0;
	parts = calloc(count, sizeof(l0_device));
	if (!parts)
		return -FI_ENOMEM;
	r = ze_api.zeDeviceGetSubDevices(handle, &count, parts);
	if (r != L0_SUCCESS)
		ret = ze_fail("zeDeviceGetSubDevices", r);
	for (uint32_t i = 0; ret == 0 && i < count; i++) {
		if (ze_device_id(driver, parts[i]) < 0)
			ret = add_handle(driver, parts[i], device);
		if (ret == 0 && depth > 1)
			ret = add_parts(driver, parts[i], device, depth - 1);
	}
	free(parts);
	return ret;
}

/*
 * Where the driver shows sub-devices as devices, what belongs to the device that they are part of is
 * taken for the first one's.
 */
static int add_root(struct ze_driver *driver, l0_device handle, uint32_t device)
{
	l0_device root = NULL;

	if (!ze_api.zeDeviceGetRootDevice ||
	    ze_api.zeDeviceGetRootDevice(handle, &root) != L0_SUCCESS || !root ||
	    ze_device_id(driver, root) >= 0)
		return 0;
	return add_handle(driver, root, device);
}

static int add_handles(struct ze_driver *driver)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < driver->device_count; i++)
		ret = add_handle(driver, driver->devices[i].handle, i);
	for (uint32_t i = 0; ret == 0 && i < driver->device_count; i++)
		ret = add_parts(driver, driver->devices[i].handle, i, 2);
	for (uint32_t i = 0; ret == 0 && i < driver->device_count; i++)
		ret = add_root(driver, driver->devices[i].handle, i);
	return ret;
}

/* ---- one driver ---- */

static void close_driver(struct ze_driver *driver)
{
	for (uint32_t i = 0; i < driver->device_count; i++)
		pthread_mutex_destroy(&driver->devices[i].lock);
	if (driver->context)
		ze_api.zeContextDestroy(driver->context);
	free(driver->devices);
	free(driver->handles);
	driver->context = NULL;
	driver->devices = NULL;
	driver->handles = NULL;
	driver->device_count = 0;
	driver->handle_count = 0;
}

static int get_devices(struct ze_driver *driver)
{
	l0_device *handles;
	uint32_t count = 0;
	l0_result r = ze_api.zeDeviceGet(driver->handle, &count, NULL);

	if (r != L0_SUCCESS)
		return ze_fail("zeDeviceGet", r);
	if (count == 0)
		return 0;
	handles = calloc(count, sizeof(l0_device));
	driver->devices = calloc(count, sizeof(*driver->devices));
	if (!handles || !driver->devices) {
		free(handles);
		return -FI_ENOMEM;
	}
	r = ze_api.zeDeviceGet(driver->handle, &count, handles);
	for (uint32_t i = 0; r == L0_SUCCESS && i < count; i++)
		fill_device(driver, driver->device_count++, handles[i]);
	free(handles);
	return r == L0_SUCCESS ? 0 : ze_fail("zeDeviceGet", r);
}

/* The driver keeps its place, and with it the ids of the others, when it is not usable. */
static int open_driver(struct ze_driver *driver)
{
	l0_context_desc desc = { .stype = L0_STYPE_CONTEXT_DESC };
	int ret = get_devices(driver);
	l0_result r;

	if (ret == 0)
		ret = add_handles(driver);
	if (ret == 0 && driver->device_count > 0) {
		r = ze_api.zeContextCreate(driver->handle, &desc, &driver->context);
		if (r != L0_SUCCESS) {
			driver->context = NULL;
			ret = ze_fail("zeContextCreate", r);
		}
	}
	if (ret != 0) {
		HM_WARN(FI_LOG_CORE, "Level Zero driver %u is not used", driver->index);
		close_driver(driver);
	}
	return ret;
}

/* ---- all of them ---- */

static void tell_version(struct hmem_status *status)
{
	l0_driver_properties p = { .stype = L0_STYPE_DRIVER_PROPERTIES };
	l0_driver first = ze_state.drivers[0].handle;
	l0_api_version api = 0;
	l0_result r = ze_api.zeDriverGetApiVersion(first, &api);

	if (r != L0_SUCCESS) {
		ze_fail("zeDriverGetApiVersion", r);
		return;
	}
	r = ze_api.zeDriverGetProperties(first, &p);
	if (r != L0_SUCCESS)
		ze_fail("zeDriverGetProperties", r);
	snprintf(status->version, sizeof(status->version), "API %u.%u, driver 0x%x", api >> 16,
		 api & 0xffff, p.version);
}

static int failed(struct hmem_status *status, const char *call, l0_result r)
{
	char text[64];

	status->state = HMEM_FAILED;
	snprintf(status->reason, sizeof(status->reason), "%s: %s", call, ze_result_text(r, text));
	ze_fail(call, r);
	return -FI_EIO;
}

static int get_drivers(struct hmem_status *status)
{
	l0_driver *handles;
	uint32_t count = 0;
	l0_result r = ze_api.zeDriverGet(&count, NULL);

	if (r != L0_SUCCESS)
		return failed(status, "zeDriverGet", r);
	if (count == 0)
		return 0;
	handles = calloc(count, sizeof(l0_driver));
	ze_state.drivers = calloc(count, sizeof(*ze_state.drivers));
	r = handles && ze_state.drivers ? ze_api.zeDriverGet(&count, handles)
					: L0_OUT_OF_HOST_MEMORY;
	for (uint32_t i = 0; r == L0_SUCCESS && i < count; i++) {
		ze_state.drivers[i].handle = handles[i];
		ze_state.drivers[i].index = i;
		ze_state.driver_count++;
	}
	free(handles);
	return r == L0_SUCCESS ? 0 : failed(status, "zeDriverGet", r);
}

static int init(struct hmem_status *status)
{
	l0_result r;

	if (hm_dl_load(LIBRARY, symbols, sizeof(symbols) / sizeof(symbols[0]), status->reason,
		       sizeof(status->reason)) != 0) {
		status->state = HMEM_ABSENT;
		return -FI_ENOSYS;
	}
	hm_dl_path(*(void **)&ze_api.zeInit, status->driver, sizeof(status->driver));
	r = ze_api.zeInit(L0_INIT_GPU_ONLY);
	if (r == L0_UNINITIALIZED) {
		/* what the loader says where no driver is installed */
		status->state = HMEM_ABSENT;
		status->cause = HMREG_CAUSE_DEVICE_NONE;
		snprintf(status->reason, sizeof(status->reason),
			 "%s found no GPU driver that starts (zeInit: "
			 "ZE_RESULT_ERROR_UNINITIALIZED)",
			 LIBRARY);
		return -FI_ENOSYS;
	}
	return r == L0_SUCCESS ? 0 : failed(status, "zeInit", r);
}

static void forget(void)
{
	for (uint32_t i = 0; i < ze_state.driver_count; i++)
		close_driver(&ze_state.drivers[i]);
	free(ze_state.drivers);
	ze_state = (struct ze_state){ 0 };
}

static int open_drivers(struct hmem_status *status)
{
	int ret = 0;

	for (uint32_t i = 0; i < ze_state.driver_count; i++) {
		int one = open_driver(&ze_state.drivers[i]);

		ret = one != 0 ? one : ret;
		ze_state.device_count += ze_state.drivers[i].device_count;
	}
	if (ze_state.device_count > 0)
		return 0;
	status->state = ret != 0 ? HMEM_FAILED : HMEM_EMPTY;
	snprintf(status->reason, sizeof(status->reason), "%s",
		 ret != 0 ? "no driver starts, see the log" : "the drivers know no device");
	return ret != 0 ? -FI_EIO : -FI_ENODEV;
}

int ze_start(struct hmem_status *status)
{
	long page = sysconf(_SC_PAGESIZE);
	int ret = init(status);

	if (ret != 0)
		return ret;
	ret = get_drivers(status);
	if (ret == 0)
		ret = open_drivers(status);
	if (ret != 0) {
		forget();
		return ret;
	}
	if (page > 0)
		hmem_ze.export_unit = (size_t)page;
	tell_version(status);
	return 0;
}
