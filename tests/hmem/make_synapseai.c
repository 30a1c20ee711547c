/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of SynapseAI: on a device, on the host, and the program's own, mapped for a device. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "hmem/synapseai_abi.h"
#include "tests/hmem/maker.h"

static struct {
	syn_void_fn *initialize;
	syn_count_fn *count;
	syn_acquire_fn *acquire;
	syn_device_malloc_fn *device_malloc;
	syn_device_free_fn *device_free;
	syn_host_malloc_fn *host_malloc;
	syn_host_free_fn *host_free;
	syn_host_map_fn *host_map;
	syn_host_unmap_fn *host_unmap;
	syn_copy_fn *copy;
	syn_stream_create_fn *stream_create;
	syn_stream_fn *stream_synchronize, *stream_destroy;
	const struct emu_accel_hooks *hooks;
} lib;

static const struct {
	const char *name;
	void **slot;
} symbols[] = {
	{ "synInitialize", (void **)(void *)&lib.initialize },
	{ "synDeviceGetCount", (void **)(void *)&lib.count },
	{ "synDeviceAcquire", (void **)(void *)&lib.acquire },
	{ "synDeviceMalloc", (void **)(void *)&lib.device_malloc },
	{ "synDeviceFree", (void **)(void *)&lib.device_free },
	{ "synHostMalloc", (void **)(void *)&lib.host_malloc },
	{ "synHostFree", (void **)(void *)&lib.host_free },
	{ "synHostMap", (void **)(void *)&lib.host_map },
	{ "synHostUnmap", (void **)(void *)&lib.host_unmap },
	{ "synMemCopyAsync", (void **)(void *)&lib.copy },
	{ "synStreamCreateGeneric", (void **)(void *)&lib.stream_create },
	{ "synStreamSynchronize", (void **)(void *)&lib.stream_synchronize },
	{ "synStreamDestroy", (void **)(void *)&lib.stream_destroy },
};

static size_t acquired;

static const char *open_driver(void)
{
	void *library = dlopen("libSynapse.so", RTLD_NOW | RTLD_LOCAL);
	uint32_t count = 0, id;

	if (!library)
		return "libSynapse.so is not there";
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		*symbols[i].slot = dlsym(library, symbols[i].name);
		if (!*symbols[i].slot)
			return "libSynapse.so lacks a call";
	}
	lib.hooks = dlsym(library, "emu_accel_hooks");
	if (lib.initialize() != SYN_OK || lib.count(&count) != SYN_OK)
		return "synInitialize fails";
	/* a real one lets a program have a single device */
	while (acquired < count && lib.acquire(&id, NULL) == SYN_OK)
		acquired++;
	return acquired > 0 ? NULL : "no Gaudi device can be acquired";
}

static size_t devices(void)
{
	return acquired;
}

static int device(size_t index)
{
	return (int)index;
}

/* Its host memory could be made, but nobody could tell that it is its. */
static const char *cannot(enum make kind, int on)
{
	(void)on;
	if (kind == MAKE_DEVICE)
		return NULL;
	return kind == MAKE_HOST || kind == MAKE_REGISTERED
		       ? "this driver cannot be asked whether host memory is its own"
		       : "this driver makes plain memory of devices and of the host";
}

static int make(enum make kind, int on, size_t len, struct made *made)
{
	uint64_t addr = 0;
	int code;

	len = (len + 4095) / 4096 * 4096;
	*made = (struct made){ .kind = kind, .device = on, .len = len };
	if (kind == MAKE_DEVICE) {
		code = lib.device_malloc((uint32_t)on, len, 0, 0, &addr);
		made->addr = (void *)(uintptr_t)addr;
		return code;
	}
	if (kind == MAKE_HOST)
		return lib.host_malloc((uint32_t)on, len, 0, &made->addr);
	made->addr = aligned_alloc(4096, len);
	if (!made->addr)
		return SYN_CODE_OUT_OF_HOST_MEMORY;
	code = lib.host_map((uint32_t)on, len, made->addr);
	if (code != SYN_OK)
		free(made->addr);
	return code;
}

static void drop(struct made *made)
{
	uint32_t on = (uint32_t)made->device;

	if (made->kind == MAKE_DEVICE)
		lib.device_free(on, (uintptr_t)made->addr, 0);
	else if (made->kind == MAKE_HOST)
		lib.host_free(on, made->addr, 0);
	else {
		lib.host_unmap(on, made->addr);
		free(made->addr);
	}
	made->addr = NULL;
}

static int transfer(const struct made *made, size_t offset, void *host, size_t len, int direction)
{
	uint64_t at = (uintptr_t)made->addr + offset;
	struct syn_stream_opaque *stream = NULL;
	uint32_t on = (uint32_t)made->device;
	bool in = direction == SYN_HOST_TO_DEVICE;
	void *room;
	int code = lib.host_malloc(on, len, 0, &room);

	if (code != SYN_OK)
		return code;
	if (in)
		memcpy(room, host, len);
	code = lib.stream_create(&stream, on, 0);
	if (code == SYN_OK)
		code = lib.copy(stream, in ? (uintptr_t)room : at, len, in ? at : (uintptr_t)room,
				direction);
	if (code == SYN_OK)
		code = lib.stream_synchronize(stream);
	if (code == SYN_OK && !in)
		memcpy(host, room, len);
	if (stream)
		lib.stream_destroy(stream);
	lib.host_free(on, room, 0);
	return code;
}

static int write_made(const struct made *made, size_t offset, const void *from, size_t len)
{
	if (made->kind == MAKE_DEVICE)
		return transfer(made, offset, (void *)(uintptr_t)from, len, SYN_HOST_TO_DEVICE);
	memcpy((char *)made->addr + offset, from, len);
	return SYN_OK;
}

static int read_made(const struct made *made, size_t offset, void *to, size_t len)
{
	if (made->kind == MAKE_DEVICE)
		return transfer(made, offset, to, len, SYN_DEVICE_TO_HOST);
	memcpy(to, (const char *)made->addr + offset, len);
	return SYN_OK;
}

static const struct emu_accel_hooks *hooks(void)
{
	return lib.hooks;
}

const struct maker make_synapseai = {
	.name = "synapseai",
	.iface = FI_HMEM_SYNAPSEAI,
	.open = open_driver,
	.devices = devices,
	.device = device,
	.cannot = cannot,
	.make = make,
	.drop = drop,
	.write = write_made,
	.read = read_made,
	.hooks = hooks,
};
