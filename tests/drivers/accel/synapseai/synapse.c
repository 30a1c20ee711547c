/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An emulated SynapseAI.  EMU_SYNAPSEAI="devices=2,..." sets
 *   devices   how many Gaudi devices (2), memory= bytes of each (256 MiB)
 *   type      synDeviceType (5, Gaudi 3; 2 is the first Gaudi, with its own export)
 *   interior=1  exports take an address inside an allocation, and give the whole one
 *
 * As synapse_api.h documents: nothing but synDriverGetVersion before synInitialize; calls for a device
 * want it acquired; device addresses fault when the host touches them; copies want host memory that
 * synHostMalloc gave or synHostMap mapped for the stream's device, and run when the stream is waited for.
 * More than one device can be acquired, each with addresses of its own.
 */
#include "tests/drivers/accel/synapseai/synapse.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/list.h"
#include "hmem/synapseai_abi.h"
#include "tests/drivers/accel/accel.h"

enum {
	KIND_DEVICE = 1,
	KIND_HOST
};

const char accel_driver[] = "SYNAPSEAI";

struct device {
	bool acquired;
	int fd;
	char *window;
};

/* Host memory that a device reaches. */
struct host_map {
	struct hm_list link;
	uint32_t device;
	const char *addr;
	uint64_t len;
};

struct job {
	struct hm_list link;
	uint64_t dst, src, size;
};

struct syn_stream_opaque {
	struct hm_list link, jobs;
	uint32_t device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all of these */
static bool initialized;
static struct device device_of[SYN_MOST_DEVICES];
static struct hm_list maps = { &maps, &maps };
static struct hm_list streams = { &streams, &streams };

static uint32_t devices(void)
{
	long n = accel_setting("devices", 2);

	return n < SYN_MOST_DEVICES ? (uint32_t)n : SYN_MOST_DEVICES;
}

static uint64_t memory_size(void)
{
	return (uint64_t)accel_setting("memory", 256 << 20);
}

static int enter(const char *name)
{
	int code = accel_call(name);

	if (code)
		return code;
	return __atomic_load_n(&initialized, __ATOMIC_RELAXED) ? SYN_OK : SYN_CODE_UNINITIALIZED;
}

static struct device *acquired(uint32_t id)
{
	return id < devices() && __atomic_load_n(&device_of[id].acquired, __ATOMIC_ACQUIRE)
		       ? &device_of[id]
		       : NULL;
}

static int enter_device(const char *name, uint32_t id)
{
	int code = enter(name);

	return code ? code : acquired(id) ? SYN_OK : SYN_CODE_FAIL;
}

bool emu_synapse_device(int fd, int *device, int *type, uint64_t *base)
{
	for (uint32_t i = 0; i < devices(); i++) {
		if (!acquired(i) || device_of[i].fd != fd)
			continue;
		*device = (int)i;
		*type = (int)accel_setting("type", SYN_TYPE_GAUDI3);
		*base = (uintptr_t)device_of[i].window;
		return true;
	}
	return false;
}

/* ---- devices ---- */

SYN_PUBLIC syn_void_fn synInitialize, synDestroy;
int synInitialize(void)
{
	int code = accel_call("synInitialize");

	if (code == SYN_OK)
		__atomic_store_n(&initialized, true, __ATOMIC_RELAXED);
	return code;
}

int synDestroy(void)
{
	int code = enter("synDestroy");

	if (code == SYN_OK)
		__atomic_store_n(&initialized, false, __ATOMIC_RELAXED);
	return code;
}

SYN_PUBLIC syn_version_fn synDriverGetVersion;
int synDriverGetVersion(char *version, int len)
{
	int code = accel_call("synDriverGetVersion");

	if (code == SYN_OK)
		snprintf(version, (size_t)len, "1.22.0.emulated");
	return code;
}

SYN_PUBLIC syn_count_fn synDeviceGetCount;
int synDeviceGetCount(uint32_t *count)
{
	int code = enter("synDeviceGetCount");

	if (code == SYN_OK)
		*count = devices();
	return code;
}

SYN_PUBLIC syn_acquire_fn synDeviceAcquire;
int synDeviceAcquire(uint32_t *id, const char *pci_bus)
{
	int code = enter("synDeviceAcquire");
	struct device *device = NULL;
	uint32_t i = 0;

	(void)pci_bus;
	if (code)
		return code;
	pthread_mutex_lock(&lock);
	while (i < devices() && device_of[i].acquired)
		i++;
	if (i == devices()) {
		code = SYN_CODE_NO_DEVICE;
	} else {
		device = &device_of[i];
		device->window = device->window ? device->window
						: accel_reserve((size_t)memory_size(), 0);
		device->fd = device->window ? memfd_create("accel-device", MFD_CLOEXEC) : -1;
		code = device->fd >= 0 ? SYN_OK : SYN_CODE_OUT_OF_RESOURCES;
		if (code == SYN_OK)
			__atomic_store_n(&device->acquired, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	if (code == SYN_OK) {
		accel_live("device", 1);
		*id = i;
	}
	return code;
}

SYN_PUBLIC int synDeviceRelease(uint32_t id);
int synDeviceRelease(uint32_t id)
{
	int code = enter_device("synDeviceRelease", id);

	if (code)
		return code;
	pthread_mutex_lock(&lock);
	__atomic_store_n(&device_of[id].acquired, false, __ATOMIC_RELEASE);
	close(device_of[id].fd);
	pthread_mutex_unlock(&lock);
	accel_live("device", -1);
	return SYN_OK;
}

static void fill_info(uint32_t id, struct syn_device_info *info, bool v2)
{
	const struct device *device = &device_of[id];

	info->dram_base = (uintptr_t)device->window;
	info->dram_size = memory_size();
	info->sram_base = info->sram_size = 0;
	info->tpc_mask = 0xff;
	info->dram_enabled = 1;
	info->device_id = 0x1060;
	info->fd = (uint32_t)device->fd;
	info->device_type = (int)accel_setting("type", SYN_TYPE_GAUDI3);
	if (!v2)
		return;
	info->device_index = (uint8_t)id;
	info->global_hbm_base = info->dram_base;
}

SYN_PUBLIC syn_info_fn synDeviceGetInfo;
int synDeviceGetInfo(uint32_t id, struct syn_device_info *info)
{
	int code = enter_device("synDeviceGetInfo", id);

	if (code == SYN_OK)
		fill_info(id, info, false);
	return code;
}

#ifndef EMU_SYNAPSE_OLD
SYN_PUBLIC syn_info_fn synDeviceGetInfoV2;
int synDeviceGetInfoV2(uint32_t id, struct syn_device_info *info)
{
	int code = enter_device("synDeviceGetInfoV2", id);

	if (code == SYN_OK)
		fill_info(id, info, true);
	return code;
}
#endif

SYN_PUBLIC syn_text_fn synDeviceGetName, synDeviceGetPCIBusId;
int synDeviceGetName(char *text, int len, uint32_t id)
{
	int code = enter_device("synDeviceGetName", id);

	if (code == SYN_OK)
		snprintf(text, (size_t)len, "Gaudi (emulated) %u", id);
	return code;
}

int synDeviceGetPCIBusId(char *text, int len, uint32_t id)
{
	int code = enter_device("synDeviceGetPCIBusId", id);

	if (code == SYN_OK)
		snprintf(text, (size_t)len, "0000:%02x:00.0", 0x33 + id);
	return code;
}

/* ---- memory ---- */

static bool is_free(char *at, size_t len, const char *window)
{
	struct accel_range range;

	for (char *page = at - (at > window ? ACCEL_PAGE : 0); page <= at + len; page += ACCEL_PAGE)
		if (accel_find(page, &range))
			return false;
	return true;
}

SYN_PUBLIC syn_device_malloc_fn synDeviceMalloc;
int synDeviceMalloc(uint32_t id, uint64_t size, uint64_t hint, uint32_t flags, uint64_t *buffer)
{
	int code = enter_device("synDeviceMalloc", id);
	struct accel_block *block;
	size_t len, room = (size_t)memory_size();

	(void)hint; /* "serves as a hint" */
	if (code)
		return code;
	if (flags != 0 || !buffer || size == 0)
		return SYN_CODE_INVALID_ARGUMENT;
	block = size <= room ? accel_block_make((size_t)size, ACCEL_ON_DEVICE, (int)id) : NULL;
	if (!block)
		return SYN_CODE_OUT_OF_DEVICE_MEMORY;
	len = accel_block_len(block);
	code = SYN_CODE_OUT_OF_DEVICE_MEMORY;
	pthread_mutex_lock(&lock);
	for (size_t at = 0; code != SYN_OK && len <= room && at <= room - len; at += ACCEL_PAGE) {
		char *addr = device_of[id].window + at;

		if (is_free(addr, len, device_of[id].window) &&
		    accel_map(addr, len, block, 0, KIND_DEVICE, NULL)) {
			*buffer = (uintptr_t)addr;
			code = SYN_OK;
		}
	}
	pthread_mutex_unlock(&lock);
	accel_block_put(block);
	return code;
}

SYN_PUBLIC syn_device_free_fn synDeviceFree;
int synDeviceFree(uint32_t id, uint64_t buffer, uint32_t flags)
{
	int code = enter_device("synDeviceFree", id);
	char *addr = (char *)(uintptr_t)buffer;
	struct accel_range range;

	if (code)
		return code;
	if (flags != 0 || !accel_find(addr, &range) || range.addr != addr ||
	    range.kind != KIND_DEVICE || accel_block_device(range.block) != (int)id)
		return SYN_CODE_INVALID_ARGUMENT;
	return accel_unmap(addr, range.len) ? SYN_OK : SYN_CODE_INVALID_ARGUMENT;
}

static bool map_host(uint32_t id, const void *addr, uint64_t len)
{
	struct host_map *map = malloc(sizeof(*map));

	if (!map)
		return false;
	map->device = id;
	map->addr = addr;
	map->len = len;
	pthread_mutex_lock(&lock);
	hm_list_add_tail(&maps, &map->link);
	pthread_mutex_unlock(&lock);
	accel_live("host mapping", 1);
	return true;
}

static bool unmap_host(uint32_t id, const void *addr)
{
	struct host_map *found = NULL;

	pthread_mutex_lock(&lock);
	hm_list_for_each(link, &maps)
	{
		struct host_map *map = hm_list_entry(link, struct host_map, link);

		if (map->device == id && map->addr == addr) {
			hm_list_del(link);
			found = map;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	free(found);
	if (found)
		accel_live("host mapping", -1);
	return found != NULL;
}

SYN_PUBLIC syn_host_malloc_fn synHostMalloc;
int synHostMalloc(uint32_t id, uint64_t size, uint32_t flags, void **buffer)
{
	int code = enter_device("synHostMalloc", id);

	if (code)
		return code;
	if (flags != 0 || size == 0)
		return SYN_CODE_INVALID_ARGUMENT;
	*buffer = accel_alloc((size_t)size, 0, ACCEL_ON_HOST, -1, KIND_HOST, NULL);
	if (*buffer && map_host(id, *buffer, size))
		return SYN_OK;
	if (*buffer)
		accel_free(*buffer);
	return SYN_CODE_OUT_OF_HOST_MEMORY;
}

SYN_PUBLIC syn_host_free_fn synHostFree;
int synHostFree(uint32_t id, const void *buffer, uint32_t flags)
{
	int code = enter_device("synHostFree", id);
	struct accel_range range;

	if (code)
		return code;
	if (flags != 0 || !accel_find(buffer, &range) || range.kind != KIND_HOST ||
	    range.addr != buffer || !unmap_host(id, buffer))
		return SYN_CODE_INVALID_ARGUMENT;
	return accel_free(range.addr) ? SYN_OK : SYN_CODE_FAIL;
}

SYN_PUBLIC syn_host_map_fn synHostMap;
int synHostMap(uint32_t id, uint64_t size, const void *buffer)
{
	int code = enter_device("synHostMap", id);

	if (code)
		return code;
	if (size == 0 || !buffer)
		return SYN_CODE_INVALID_ARGUMENT;
	return map_host(id, buffer, size) ? SYN_OK : SYN_CODE_OUT_OF_HOST_MEMORY;
}

SYN_PUBLIC syn_host_unmap_fn synHostUnmap;
int synHostUnmap(uint32_t id, const void *buffer)
{
	int code = enter_device("synHostUnmap", id);

	return code ? code : unmap_host(id, buffer) ? SYN_OK : SYN_CODE_NOT_MAPPED;
}

/* ---- streams ---- */

SYN_PUBLIC syn_stream_create_fn synStreamCreateGeneric;
int synStreamCreateGeneric(struct syn_stream_opaque **out, uint32_t id, uint32_t flags)
{
	int code = enter_device("synStreamCreateGeneric", id);
	struct syn_stream_opaque *stream;

	(void)flags;
	if (code)
		return code;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return SYN_CODE_OUT_OF_HOST_MEMORY;
	stream->device = id;
	hm_list_init(&stream->jobs);
	pthread_mutex_lock(&lock);
	hm_list_add_tail(&streams, &stream->link);
	pthread_mutex_unlock(&lock);
	accel_live("stream", 1);
	*out = stream;
	return SYN_OK;
}

/* Lock held. */
static bool exists(const struct syn_stream_opaque *stream)
{
	hm_list_for_each(link, &streams)
	{
		if (hm_list_entry(link, struct syn_stream_opaque, link) == stream)
			return true;
	}
	return false;
}

/* Lock held. */
static bool host_reached(uint32_t id, uint64_t addr, uint64_t size)
{
	hm_list_for_each(link, &maps)
	{
		struct host_map *map = hm_list_entry(link, struct host_map, link);
		uint64_t at = addr - (uintptr_t)map->addr;

		if (map->device == id && at <= map->len && size <= map->len - at)
			return true;
	}
	return false;
}

static bool device_reached(uint32_t id, uint64_t addr, uint64_t size)
{
	const char *at = (const char *)(uintptr_t)addr;
	struct accel_range range;

	return accel_find(at, &range) && range.kind == KIND_DEVICE &&
	       accel_block_device(range.block) == (int)id &&
	       size <= range.len - (size_t)(at - range.addr);
}

/* Lock held. */
static int check_copy(const struct syn_stream_opaque *stream, uint64_t src, uint64_t size,
		      uint64_t dst, int direction)
{
	bool from_host = direction == SYN_HOST_TO_DEVICE, to_host = direction == SYN_DEVICE_TO_HOST;

	if (!exists(stream))
		return SYN_CODE_INVALID_ARGUMENT;
	if (direction < SYN_HOST_TO_DEVICE || direction > SYN_DEVICE_TO_DEVICE || size == 0)
		return SYN_CODE_INVALID_ARGUMENT;
	if ((from_host && !host_reached(stream->device, src, size)) ||
	    (to_host && !host_reached(stream->device, dst, size)))
		return SYN_CODE_NOT_MAPPED;
	if ((!from_host && !device_reached(stream->device, src, size)) ||
	    (!to_host && !device_reached(stream->device, dst, size)))
		return SYN_CODE_INVALID_ARGUMENT;
	return SYN_OK;
}

SYN_PUBLIC syn_copy_fn synMemCopyAsync;
int synMemCopyAsync(struct syn_stream_opaque *stream, uint64_t src, uint64_t size, uint64_t dst,
		    int direction)
{
	int code = enter("synMemCopyAsync");
	struct job *job;

	if (code)
		return code;
	job = malloc(sizeof(*job));
	if (!job)
		return SYN_CODE_OUT_OF_HOST_MEMORY;
	*job = (struct job){ .dst = dst, .src = src, .size = size };
	pthread_mutex_lock(&lock);
	code = check_copy(stream, src, size, dst, direction);
	if (code == SYN_OK)
		hm_list_add_tail(&stream->jobs, &job->link);
	else
		free(job);
	pthread_mutex_unlock(&lock);
	return code;
}

/* Lock held.  The work in a stream, done or given up. */
static bool drain(struct syn_stream_opaque *stream, bool run)
{
	bool done = true;

	hm_list_for_each_safe(link, &stream->jobs)
	{
		struct job *job = hm_list_entry(link, struct job, link);

		if (run && !accel_copy((void *)(uintptr_t)job->dst,
				       (const void *)(uintptr_t)job->src, (size_t)job->size))
			done = false;
		hm_list_del(link);
		free(job);
	}
	return done;
}

SYN_PUBLIC syn_stream_fn synStreamSynchronize, synStreamDestroy;
int synStreamSynchronize(struct syn_stream_opaque *stream)
{
	int code = enter("synStreamSynchronize");

	if (code)
		return code;
	pthread_mutex_lock(&lock);
	if (!exists(stream))
		code = SYN_CODE_INVALID_ARGUMENT;
	else if (!drain(stream, true))
		code = SYN_CODE_FAIL;
	pthread_mutex_unlock(&lock);
	return code;
}

int synStreamDestroy(struct syn_stream_opaque *stream)
{
	int code = enter("synStreamDestroy");
	bool mine;

	if (code)
		return code;
	pthread_mutex_lock(&lock);
	mine = exists(stream);
	if (mine) {
		hm_list_del(&stream->link);
		drain(stream, false);
	}
	pthread_mutex_unlock(&lock);
	if (!mine)
		return SYN_CODE_INVALID_ARGUMENT;
	free(stream);
	accel_live("stream", -1);
	return SYN_OK;
}
