/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of each kind by Level Zero's own calls. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/range.h"
#include "hmem/ze_abi.h"
#include "tests/hmem/maker.h"

#define MOST_DRIVERS 4u
#define MOST_DEVICES 16u
#define ACCESS_WRITE 1u /* ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE */
#define SYNCHRONOUS  1u /* ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS */

typedef struct physical *l0_physical;

/* ze_physical_mem_desc_t */
typedef struct {
	uint32_t stype;
	const void *next;
	uint32_t flags; /* bit 1, of specification 1.8: on the host */
	size_t size;
} l0_physical_desc;
#define STYPE_PHYSICAL 0x20u
#define ON_HOST	       2u

#define SLOT(name, arguments) static l0_result(*name) arguments;
#define MAPPING(X)                                                                                 \
	X(zeVirtualMemQueryPageSize, (l0_context, l0_device, size_t, size_t *))                    \
	X(zeVirtualMemReserve, (l0_context, const void *, size_t, void **))                        \
	X(zeVirtualMemFree, (l0_context, const void *, size_t))                                    \
	X(zeVirtualMemMap, (l0_context, const void *, size_t, l0_physical, size_t, l0_access))     \
	X(zeVirtualMemUnmap, (l0_context, const void *, size_t))                                   \
	X(zePhysicalMemCreate, (l0_context, l0_device, l0_physical_desc *, l0_physical *))         \
	X(zePhysicalMemDestroy, (l0_context, l0_physical))

MAPPING(SLOT)

static struct l0_api api;

static struct vendor_device {
	int id;
	l0_device handle;
	l0_context context;
	uint32_t version; /* of the driver's interface */
	bool exports;
} devices[MOST_DEVICES];
static size_t count;

static struct {
	l0_context context;
	const struct emu_accel_hooks *hooks;
} drivers[MOST_DRIVERS];
static uint32_t driver_count;

/*
 * The vendor's loader unloads the drivers when the process exits, before leaks are looked for, and then
 * nothing refers any more to what is theirs and its own; the drivers count their objects themselves.
 */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libze_loader\n";
}

/* ---- starting ---- */

#define FIND(name, arguments)	      { #name, (void **)&api.name },
#define FIND_MAPPING(name, arguments) { #name, (void **)&(name) },

static const char *load(void)
{
	static const struct {
		const char *name;
		void **slot;
	} names[] = { L0_FUNCTIONS(FIND) MAPPING(FIND_MAPPING) };
	static char why[200];
	void *library = dlopen("libze_loader.so.1", RTLD_NOW);

	if (!library) {
		snprintf(why, sizeof(why), "%s (Debian: libze1)", dlerror());
		return why;
	}
	for (size_t i = 0; i < count_of(names); i++) {
		*names[i].slot = dlsym(library, names[i].name);
		if (!*names[i].slot) {
			snprintf(why, sizeof(why), "libze_loader.so.1 has no %s", names[i].name);
			return why;
		}
	}
	return NULL;
}

static void add_devices(uint32_t index, l0_driver driver)
{
	l0_device handles[MOST_DEVICES];
	uint32_t n = MOST_DEVICES, version = 0;

	if (api.zeDeviceGet(driver, &n, handles) != L0_SUCCESS)
		return;
	api.zeDriverGetApiVersion(driver, &version);
	for (uint32_t i = 0; i < n && count < MOST_DEVICES; i++) {
		l0_device_external external = { .stype = L0_STYPE_DEVICE_EXTERNAL_MEMORY };

		api.zeDeviceGetExternalMemoryProperties(handles[i], &external);
		devices[count++] = (struct vendor_device){ fi_hmem_ze_device((int)index, (int)i),
							   handles[i], drivers[index].context,
							   version,
							   external.exports & L0_EXTERNAL_DMA_BUF };
	}
}

static void find_hooks(uint32_t index, l0_driver driver)
{
	l0_driver_properties p = { .stype = L0_STYPE_DRIVER_PROPERTIES };
	void *library = NULL;

	if (api.zeDriverGetProperties(driver, &p) != L0_SUCCESS)
		return;
	if (strcmp((char *)p.uuid, "emulated ZE") == 0)
		library = dlopen("libze_emu.so.1", RTLD_NOW | RTLD_NOLOAD);
	else if (strcmp((char *)p.uuid, "emulated ZE2") == 0)
		library = dlopen("libze_emu2.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (library)
		drivers[index].hooks = dlsym(library, "emu_accel_hooks");
}

static const char *open_driver(void)
{
	l0_driver handles[MOST_DRIVERS];
	l0_context_desc desc = { .stype = L0_STYPE_CONTEXT_DESC };
	const char *why = load();

	if (why)
		return why;
	driver_count = MOST_DRIVERS;
	if (api.zeInit(L0_INIT_GPU_ONLY) != L0_SUCCESS ||
	    api.zeDriverGet(&driver_count, handles) != L0_SUCCESS)
		return "zeInit finds no driver that starts";
	for (uint32_t i = 0; i < driver_count; i++) {
		if (api.zeContextCreate(handles[i], &desc, &drivers[i].context) != L0_SUCCESS)
			return "zeContextCreate fails";
		find_hooks(i, handles[i]);
		add_devices(i, handles[i]);
	}
	return count > 0 ? NULL : "no device";
}

static size_t device_count(void)
{
	return count;
}

static int device_id(size_t index)
{
	return devices[index].id;
}

static const struct vendor_device *device_of(int id)
{
	size_t i = 0;

	while (i < count && devices[i].id != id)
		i++;
	return i < count ? &devices[i] : NULL;
}

/* ---- the drivers' hooks as if they were one ---- */

static void fail_all(const char *name, unsigned int nth, int code)
{
	for (uint32_t i = 0; i < driver_count; i++)
		drivers[i].hooks->fail(name, nth, code);
}

static void fail_on_all(const char *name, unsigned int nth, int code)
{
	for (uint32_t i = 0; i < driver_count; i++)
		drivers[i].hooks->fail_on(name, nth, code);
}

static unsigned long calls_all(const char *name)
{
	unsigned long n = 0;

	for (uint32_t i = 0; i < driver_count; i++)
		n += drivers[i].hooks->calls(name);
	return n;
}

static void reset_all(void)
{
	for (uint32_t i = 0; i < driver_count; i++)
		drivers[i].hooks->reset();
}

static long live_all(const char *kind)
{
	long n = 0;

	for (uint32_t i = 0; i < driver_count; i++)
		n += drivers[i].hooks->live(kind);
	return n;
}

static size_t list_all(char *text, size_t size)
{
	size_t used = 0;

	for (uint32_t i = 0; i < driver_count; i++)
		used += drivers[i].hooks->list(used < size ? text + used : NULL,
					       used < size ? size - used : 0);
	return used;
}

static const char *name_any(size_t index)
{
	for (uint32_t i = 0; i < driver_count; i++) {
		size_t n = 0;

		while (drivers[i].hooks->name(n))
			n++;
		if (index < n)
			return drivers[i].hooks->name(index);
		index -= n;
	}
	return NULL;
}

/* The driver that knows addr, else the first. */
static const struct emu_accel_hooks *hooks_of(const void *addr)
{
	for (uint32_t i = 0; i < driver_count; i++) {
		l0_memory memory = { .stype = L0_STYPE_MEMORY_PROPERTIES };
		l0_device device;

		if (api.zeMemGetAllocProperties(drivers[i].context, addr, &memory, &device) ==
			    L0_SUCCESS &&
		    memory.type != L0_MEMORY_UNKNOWN)
			return drivers[i].hooks;
	}
	return drivers[0].hooks;
}

static int peek(const void *addr, void *out, size_t len)
{
	return hooks_of(addr)->peek(addr, out, len);
}

static int poke(void *addr, const void *in, size_t len)
{
	return hooks_of(addr)->poke(addr, in, len);
}

static void reuse_all(bool on)
{
	for (uint32_t i = 0; i < driver_count; i++)
		drivers[i].hooks->reuse(on);
}

static const struct emu_accel_hooks *hooks(void)
{
	static const struct emu_accel_hooks all = { .size = sizeof(all),
						    .fail = fail_all,
						    .calls = calls_all,
						    .reset = reset_all,
						    .live = live_all,
						    .list = list_all,
						    .name = name_any,
						    .peek = peek,
						    .poke = poke,
						    .fail_on = fail_on_all,
						    .reuse = reuse_all };

	for (uint32_t i = 0; i < driver_count; i++)
		if (!drivers[i].hooks)
			return NULL;
	return driver_count > 0 ? &all : NULL;
}

/* ---- memory ---- */

static const char *cannot(enum make kind, int device)
{
	const struct vendor_device *d = device_of(device);

	switch (kind) {
	case MAKE_REGISTERED:
		return "Level Zero registers no host memory";
	case MAKE_POOL:
	case MAKE_POOL_PRIVATE:
		return "Level Zero has no stream-ordered pools";
	case MAKE_IMPORTED:
		return "Level Zero tells imported memory as its own";
	case MAKE_VMM:
		return d->exports ? NULL : "this device exports nothing";
	case MAKE_VMM_HOST:
		return d->version >= (1u << 16 | 8) || hooks() ? NULL
							       : "this driver is older than that";
	default:
		return NULL;
	}
}

static const l0_export_desc for_export = { .stype = L0_STYPE_EXPORT_DESC,
					   .flags = L0_EXTERNAL_DMA_BUF };

static l0_result alloc(enum make kind, const struct vendor_device *d, struct made *made)
{
	l0_device_alloc on_device = { .stype = L0_STYPE_DEVICE_ALLOC_DESC };
	l0_host_alloc on_host = { .stype = L0_STYPE_HOST_ALLOC_DESC };
	void *base;
	l0_result r;

	if (kind == MAKE_HOST)
		r = api.zeMemAllocHost(d->context, &on_host, made->len, 0, &made->addr);
	else if (kind == MAKE_MANAGED)
		r = api.zeMemAllocShared(d->context, &on_device, &on_host, made->len, 0, d->handle,
					 &made->addr);
	else {
		on_device.next = kind == MAKE_DEVICE && d->exports ? &for_export : NULL;
		r = api.zeMemAllocDevice(d->context, &on_device, made->len, 0, d->handle,
					 &made->addr);
	}
	if (r == L0_SUCCESS)
		r = api.zeMemGetAddressRange(d->context, made->addr, &base, &made->len);
	return r;
}

static void unmap(const struct vendor_device *d, struct made *made)
{
	for (int i = 0; i < 2; i++) {
		if (made->own[2 + i])
			zeVirtualMemUnmap(d->context, made->own[2 + i], made->len / 2);
		if (made->own[i])
			zePhysicalMemDestroy(d->context, made->own[i]);
	}
	if (made->addr)
		zeVirtualMemFree(d->context, made->addr, made->len);
}

/* own: two pieces of physical memory, and where they are mapped. */
static l0_result map(enum make kind, const struct vendor_device *d, struct made *made)
{
	l0_physical_desc desc = { .stype = STYPE_PHYSICAL,
				  .next = kind == MAKE_VMM ? &for_export : NULL,
				  .flags = kind == MAKE_VMM_HOST ? ON_HOST : 0 };
	size_t page, half;
	l0_result r = zeVirtualMemQueryPageSize(d->context, d->handle, made->len, &page);

	if (r != L0_SUCCESS)
		return r;
	half = ((made->len + 1) / 2 + page - 1) / page * page;
	desc.size = half;
	made->len = 2 * half;
	r = zeVirtualMemReserve(d->context, NULL, made->len, &made->addr);
	for (int i = 0; r == L0_SUCCESS && i < 2; i++) {
		char *at = (char *)made->addr + (size_t)i * half;

		r = zePhysicalMemCreate(d->context, d->handle, &desc, (l0_physical *)&made->own[i]);
		if (r == L0_SUCCESS)
			r = zeVirtualMemMap(d->context, at, half, made->own[i], 0, ACCESS_WRITE);
		if (r == L0_SUCCESS)
			made->own[2 + i] = at;
	}
	if (r != L0_SUCCESS)
		unmap(d, made);
	return r;
}

static bool is_mapped(enum make kind)
{
	return kind == MAKE_VMM || kind == MAKE_VMM_NO_RDMA || kind == MAKE_VMM_HOST;
}

static int make(enum make kind, int device, size_t len, struct made *made)
{
	const struct vendor_device *d = device_of(device);

	*made = (struct made){ .kind = kind, .device = device, .len = len };
	return (int)(is_mapped(kind) ? map(kind, d, made) : alloc(kind, d, made));
}

static void drop(struct made *made)
{
	const struct vendor_device *d = device_of(made->device);

	if (is_mapped(made->kind))
		unmap(d, made);
	else
		api.zeMemFree(d->context, made->addr);
}

static int copy(const struct made *made, void *to, const void *from, size_t len)
{
	const struct vendor_device *d = device_of(made->device);
	l0_queue_desc desc = { .stype = L0_STYPE_QUEUE_DESC, .mode = SYNCHRONOUS };
	l0_list list;
	l0_result r = api.zeCommandListCreateImmediate(d->context, d->handle, &desc, &list);

	if (r != L0_SUCCESS)
		return (int)r;
	r = api.zeCommandListAppendMemoryCopy(list, to, from, len, NULL, 0, NULL);
	api.zeCommandListDestroy(list);
	return (int)r;
}

static int write_to(const struct made *made, size_t offset, const void *from, size_t len)
{
	return copy(made, (char *)made->addr + offset, from, len);
}

static int read_from(const struct made *made, size_t offset, void *to, size_t len)
{
	return copy(made, to, (char *)made->addr + offset, len);
}

const struct maker make_ze = {
	.name = "ze",
	.iface = FI_HMEM_ZE,
	.open = open_driver,
	.devices = device_count,
	.device = device_id,
	.cannot = cannot,
	.make = make,
	.drop = drop,
	.write = write_to,
	.read = read_from,
	.hooks = hooks,
};
