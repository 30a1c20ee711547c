/* SPDX-License-Identifier: BSD-2-Clause */
/* The driver, its devices and contexts. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/drivers/accel/ze/ze_emu.h"

#define MOST_DEVICES 16u
#define MOST_PARTS   8u
#define GIB	     (UINT64_C(1) << 30)

static struct l0_driver_object driver = { MAGIC_DRIVER };
/* [root][0] is the root itself, its parts follow. */
static struct l0_device_object devices[MOST_DEVICES][MOST_PARTS + 1];
static uint32_t root_count, part_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool started;

static uint32_t bounded(const char *key, long otherwise, uint32_t most)
{
	long n = accel_setting(key, otherwise);

	return n < 0 ? 0 : n > (long)most ? most : (uint32_t)n;
}

static void make_devices(void)
{
	root_count = bounded("devices", 2, MOST_DEVICES);
	part_count = bounded("parts", 2, MOST_PARTS);
	for (uint32_t i = 0; i < root_count; i++)
		for (uint32_t j = 0; j <= part_count; j++)
			devices[i][j] = (struct l0_device_object){ MAGIC_DEVICE, i, (int)j - 1 };
}

int emu_device_code(l0_device device)
{
	return device ? (int)(device->root << 8) | (device->part + 1) : -1;
}

l0_device emu_device(int code)
{
	return code < 0 ? NULL : &devices[code >> 8][code & 0xff];
}

bool emu_device_exports(l0_device device)
{
	return !(accel_setting("nodmabuf", 0) >> device->root & 1);
}

bool emu_peers(l0_device a, l0_device b)
{
	return a->root == b->root || accel_setting("nopeer", 0) == 0;
}

/* ---- the driver ---- */

static l0_result zeInit(l0_init_flags flags)
{
	CALL("zeInit");
	if (flags > 3)
		return L0_INVALID_ENUMERATION;
	if (flags == 2) /* VPUs alone */
		return L0_UNINITIALIZED;
	pthread_once(&once, make_devices);
	started = true;
	return L0_SUCCESS;
}

/*
 * The way of lists here: with *count 0 how many there are, else as many as fit.  How many are to be
 * filled.
 */
static uint32_t listed(uint32_t *count, uint32_t there, const void *out)
{
	if (*count == 0 || *count > there)
		*count = there;
	return out ? *count : 0;
}

static l0_result zeDriverGet(uint32_t *count, l0_driver *out)
{
	CALL("zeDriverGet");
	NEED_POINTER(count);
	if (!started)
		return L0_UNINITIALIZED;
	if (listed(count, 1, out))
		*out = &driver;
	return L0_SUCCESS;
}

static l0_result zeDriverGetApiVersion(l0_driver d, l0_api_version *version)
{
	CALL("zeDriverGetApiVersion");
	NEED(d, MAGIC_DRIVER);
	NEED_POINTER(version);
	*version = 1u << 16 | 5;
	return L0_SUCCESS;
}

static l0_result zeDriverGetProperties(l0_driver d, l0_driver_properties *p)
{
	CALL("zeDriverGetProperties");
	NEED(d, MAGIC_DRIVER);
	NEED_POINTER(p);
	memset(p->uuid, 0, sizeof(p->uuid));
	snprintf((char *)p->uuid, sizeof(p->uuid), "emulated %s", accel_driver);
	p->version = 0x01000001;
	return L0_SUCCESS;
}

struct ipc_properties {
	uint32_t stype;
	void *next;
	uint32_t flags;
};

static l0_result zeDriverGetIpcProperties(l0_driver d, struct ipc_properties *p)
{
	CALL("zeDriverGetIpcProperties");
	NEED(d, MAGIC_DRIVER);
	NEED_POINTER(p);
	p->flags = 1; /* ZE_IPC_PROPERTY_FLAG_MEMORY */
	return L0_SUCCESS;
}

struct extension {
	char name[256];
	uint32_t version;
};

static l0_result zeDriverGetExtensionProperties(l0_driver d, uint32_t *count, struct extension *out)
{
	CALL("zeDriverGetExtensionProperties");
	NEED(d, MAGIC_DRIVER);
	NEED_POINTER(count);
	if (listed(count, 1, out)) {
		snprintf(out->name, sizeof(out->name), "ZE_extension_pci_properties");
		out->version = 1u << 16;
	}
	return L0_SUCCESS;
}

/* ---- devices ---- */

static l0_result zeDeviceGet(l0_driver d, uint32_t *count, l0_device *out)
{
	uint32_t n;

	CALL("zeDeviceGet");
	NEED(d, MAGIC_DRIVER);
	NEED_POINTER(count);
	n = listed(count, root_count, out);
	for (uint32_t i = 0; i < n; i++)
		out[i] = &devices[i][0];
	return L0_SUCCESS;
}

static l0_result zeDeviceGetSubDevices(l0_device d, uint32_t *count, l0_device *out)
{
	uint32_t n;

	CALL("zeDeviceGetSubDevices");
	NEED(d, MAGIC_DEVICE);
	NEED_POINTER(count);
	n = listed(count, d->part < 0 ? part_count : 0, out);
	for (uint32_t i = 0; i < n; i++)
		out[i] = &devices[d->root][i + 1];
	return L0_SUCCESS;
}

static uint64_t memory_size(l0_device d)
{
	return d->part < 0 || part_count == 0 ? 4 * GIB : 4 * GIB / part_count;
}

static l0_result zeDeviceGetProperties(l0_device d, l0_device_properties *p)
{
	l0_device_properties out = { 0 };

	CALL("zeDeviceGetProperties");
	NEED(d, MAGIC_DEVICE);
	NEED_POINTER(p);
	if (p->stype != L0_STYPE_DEVICE_PROPERTIES)
		return L0_INVALID_ENUMERATION;
	out.stype = p->stype;
	out.next = p->next;
	out.type = 1; /* ZE_DEVICE_TYPE_GPU */
	out.vendor = 0x8086;
	out.device = 0xe000 + d->root;
	out.flags = d->part < 0 ? 0 : 2; /* ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE */
	out.sub_device = d->part < 0 ? 0 : (uint32_t)d->part;
	out.most_alloc = memory_size(d);
	out.timer = 1;
	snprintf((char *)out.uuid, sizeof(out.uuid), "%.4s%u.%d", accel_driver, d->root, d->part);
	snprintf(out.name, sizeof(out.name), "emulated %s device %u", accel_driver, d->root);
	*p = out;
	return L0_SUCCESS;
}

static l0_result zeDeviceGetMemoryProperties(l0_device d, uint32_t *count, l0_device_memory *p)
{
	CALL("zeDeviceGetMemoryProperties");
	NEED(d, MAGIC_DEVICE);
	NEED_POINTER(count);
	if (!listed(count, 1, p))
		return L0_SUCCESS;
	if (p->stype != L0_STYPE_DEVICE_MEMORY_PROPERTIES)
		return L0_INVALID_ENUMERATION;
	p->flags = 0;
	p->clock = 1000;
	p->width = 64;
	p->size = memory_size(d);
	snprintf(p->name, sizeof(p->name), "emulated");
	return L0_SUCCESS;
}

static l0_result zeDeviceGetExternalMemoryProperties(l0_device d, l0_device_external *p)
{
	uint32_t kinds;

	CALL("zeDeviceGetExternalMemoryProperties");
	NEED(d, MAGIC_DEVICE);
	NEED_POINTER(p);
	if (p->stype != L0_STYPE_DEVICE_EXTERNAL_MEMORY)
		return L0_INVALID_ENUMERATION;
	kinds = emu_device_exports(d) ? L0_EXTERNAL_DMA_BUF : 0;
	*p = (l0_device_external){ p->stype, p->next, 0, kinds, 0, 0 };
	return L0_SUCCESS;
}

static l0_result zeDeviceGetCommandQueueGroupProperties(l0_device d, uint32_t *count,
							l0_queue_group *p)
{
	static const uint32_t flags[2] = { L0_GROUP_COMPUTE | L0_GROUP_COPY, L0_GROUP_COPY };
	uint32_t n;

	CALL("zeDeviceGetCommandQueueGroupProperties");
	NEED(d, MAGIC_DEVICE);
	NEED_POINTER(count);
	n = listed(count, 2, p);
	for (uint32_t i = 0; i < n; i++) {
		if (p[i].stype != L0_STYPE_QUEUE_GROUP_PROPERTIES)
			return L0_INVALID_ENUMERATION;
		p[i].flags = flags[i];
		p[i].fill_pattern = 16;
		p[i].queues = 4;
	}
	return L0_SUCCESS;
}

struct p2p_properties {
	uint32_t stype;
	void *next;
	uint32_t flags;
};

static l0_result zeDeviceGetP2PProperties(l0_device d, l0_device peer, struct p2p_properties *p)
{
	CALL("zeDeviceGetP2PProperties");
	NEED(d, MAGIC_DEVICE);
	NEED(peer, MAGIC_DEVICE);
	NEED_POINTER(p);
	p->flags = emu_peers(d, peer) ? 1 : 0; /* ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS */
	return L0_SUCCESS;
}

static l0_result zeDeviceCanAccessPeer(l0_device d, l0_device peer, l0_bool *yes)
{
	CALL("zeDeviceCanAccessPeer");
	NEED(d, MAGIC_DEVICE);
	NEED(peer, MAGIC_DEVICE);
	NEED_POINTER(yes);
	*yes = emu_peers(d, peer);
	return L0_SUCCESS;
}

static l0_result zeDeviceGetStatus(l0_device d)
{
	CALL("zeDeviceGetStatus");
	NEED(d, MAGIC_DEVICE);
	return L0_SUCCESS;
}

static l0_result zeDevicePciGetPropertiesExt(l0_device d, l0_pci_properties *p)
{
	CALL("zeDevicePciGetPropertiesExt");
	NEED(d, MAGIC_DEVICE);
	NEED_POINTER(p);
	if (p->stype != L0_STYPE_PCI_PROPERTIES)
		return L0_INVALID_ENUMERATION;
	*p = (l0_pci_properties){ .stype = p->stype,
				  .next = p->next,
				  .domain = accel_driver[2] ? 1 : 0,
				  .bus = 0x30 + d->root,
				  .generation = 4,
				  .width = 16,
				  .bandwidth = INT64_C(32) << 30 };
	return L0_SUCCESS;
}

/* ---- contexts ---- */

static l0_result zeContextCreate(l0_driver d, const l0_context_desc *desc, l0_context *out)
{
	l0_context context;

	CALL("zeContextCreate");
	NEED(d, MAGIC_DRIVER);
	NEED_POINTER(desc);
	NEED_POINTER(out);
	context = malloc(sizeof(*context));
	if (!context)
		return L0_OUT_OF_HOST_MEMORY;
	context->magic = MAGIC_CONTEXT;
	accel_live("context", 1);
	*out = context;
	return L0_SUCCESS;
}

static l0_result zeContextDestroy(l0_context context)
{
	CALL("zeContextDestroy");
	NEED(context, MAGIC_CONTEXT);
	context->magic = 0;
	free(context);
	accel_live("context", -1);
	return L0_SUCCESS;
}

const struct emu_entry emu_device_entries[] = {
	ENTRY(GLOBAL, INIT, zeInit),
	ENTRY(DRIVER, GET, zeDriverGet),
	ENTRY(DRIVER, API_VERSION, zeDriverGetApiVersion),
	ENTRY(DRIVER, PROPERTIES, zeDriverGetProperties),
	ENTRY(DRIVER, IPC_PROPERTIES, zeDriverGetIpcProperties),
	ENTRY(DRIVER, EXTENSIONS, zeDriverGetExtensionProperties),
	ENTRY(DEVICE, GET, zeDeviceGet),
	ENTRY(DEVICE, PARTS, zeDeviceGetSubDevices),
	ENTRY(DEVICE, PROPERTIES, zeDeviceGetProperties),
	ENTRY(DEVICE, MEMORY, zeDeviceGetMemoryProperties),
	ENTRY(DEVICE, EXTERNAL, zeDeviceGetExternalMemoryProperties),
	ENTRY(DEVICE, GROUPS, zeDeviceGetCommandQueueGroupProperties),
	ENTRY(DEVICE, P2P, zeDeviceGetP2PProperties),
	ENTRY(DEVICE, CAN_ACCESS, zeDeviceCanAccessPeer),
	ENTRY(DEVICE, STATUS, zeDeviceGetStatus),
	ENTRY(DEVICE, PCI, zeDevicePciGetPropertiesExt),
	ENTRY(CONTEXT, CREATE, zeContextCreate),
	ENTRY(CONTEXT, DESTROY, zeContextDestroy),
	ENTRIES_END
};
