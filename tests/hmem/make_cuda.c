/* SPDX-License-Identifier: BSD-2-Clause */
/* CUDA memory of each kind, by the driver API. */
#include "tests/hmem/maker.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/hmem/cuda_calls.h"
#include "tests/hmem/make_cuda_peer.h"

#define MOST_DEVICES 16

static int total;
static bool has_peer;
static cu_device handles[MOST_DEVICES];
static cu_context contexts[MOST_DEVICES]; /* primary, made when first used, kept */

static const char *failed(const char *call, cu_result result)
{
	static char text[128];
	const char *name = "?";

	cuda.error_name(result, &name);
	snprintf(text, sizeof(text), "%s: %s (%u)", call, name ? name : "?", result);
	return text;
}

static const char *open_driver(void)
{
	const char *why;
	cu_result result;

	has_peer = cuda_peer_start();
	why = cuda_calls_load();
	if (why)
		return why;
	result = cuda.init(0);
	if (result != CU_OK)
		return failed("cuInit", result);
	result = cuda.device_count(&total);
	if (result != CU_OK || total == 0)
		return failed("cuDeviceGetCount", result);
	if (total > MOST_DEVICES)
		total = MOST_DEVICES;
	for (int i = 0; i < total; i++)
		cuda.device(&handles[i], i);
	return NULL;
}

static size_t devices(void)
{
	return (size_t)total;
}

static int device_at(size_t index)
{
	return handles[index];
}

static int ordinal_of(int device)
{
	int i = 0;

	while (i < total && handles[i] != device)
		i++;
	return i < total ? i : 0;
}

static cu_result enter(int device)
{
	int ordinal = ordinal_of(device);
	cu_result result = CU_OK;

	if (!contexts[ordinal])
		result = cuda.primary_retain(&contexts[ordinal], device);
	return result == CU_OK ? cuda.ctx_push(contexts[ordinal]) : result;
}

static void leave(void)
{
	cu_context popped;

	cuda.ctx_pop(&popped);
}

static bool can(unsigned int attribute, int device)
{
	int value = 0;

	return cuda.device_attr(&value, attribute, device) == CU_OK && value != 0;
}

static const char *cannot_map(enum make kind, int device)
{
	if (!cuda.vmm_create || !can(CU_DEV_VMM, device))
		return "the device has no virtual memory management";
	if (kind == MAKE_VMM_HOST && !can(CU_DEV_HOST_VMM, device) &&
	    !can(CU_DEV_HOST_NUMA_VMM, device))
		return "the device maps no host memory";
	if (kind == MAKE_VMM && !can(CU_DEV_RDMA_WITH_VMM, device))
		return "GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED is 0";
	return NULL;
}

static const char *cannot(enum make kind, int device)
{
	switch (kind) {
	case MAKE_PRIVATE:
		return "cuMemAlloc knows no such difference";
	case MAKE_MANAGED:
		return can(CU_DEV_MANAGED_MEMORY, device) ? NULL : "the device manages none";
	case MAKE_POOL:
	case MAKE_POOL_PRIVATE:
		return cuda.pool_make && can(CU_DEV_POOLS, device) ? NULL
								   : "the device has no pools";
	case MAKE_VMM:
	case MAKE_VMM_NO_RDMA:
	case MAKE_VMM_HOST:
		return cannot_map(kind, device);
	case MAKE_IMPORTED:
		return has_peer ? NULL : "no second process";
	default:
		return NULL;
	}
}

/* ---- mapped memory ---- */

static struct cu_memory_prop prop_of(enum make kind, int device)
{
	struct cu_memory_prop prop = { .type = CU_ALLOCATION_PINNED };

	prop.location.type = CU_LOCATION_DEVICE;
	prop.location.id = ordinal_of(device);
	prop.flags.rdma = kind == MAKE_VMM;
	if (kind == MAKE_VMM_HOST) {
		prop.location.type = can(CU_DEV_HOST_VMM, device) ? CU_LOCATION_HOST
								  : CU_LOCATION_HOST_NUMA;
		prop.location.id = 0;
	}
	return prop;
}

/* The handle goes at once: the mapping keeps the memory. */
static cu_result map_piece(cu_ptr addr, size_t len, const struct cu_memory_prop *prop)
{
	cu_memory memory;
	cu_result result = cuda.vmm_create(&memory, len, prop, 0);

	if (result != CU_OK)
		return result;
	result = cuda.vmm_map(addr, len, 0, memory, 0);
	cuda.vmm_release(memory);
	return result;
}

static cu_result grant(cu_ptr addr, size_t len, const struct cu_memory_prop *prop, int device)
{
	struct cu_access access[2] = {
		{ { CU_LOCATION_DEVICE, ordinal_of(device) }, CU_ACCESS_READ_WRITE },
		{ prop->location, CU_ACCESS_READ_WRITE },
	};

	return cuda.vmm_access(addr, len, access,
			       prop->location.type == CU_LOCATION_DEVICE ? 1 : 2);
}

/* New allocations at addr, of two equal pieces.  What failed has left nothing there. */
static cu_result map_pieces(cu_ptr addr, size_t piece, const struct cu_memory_prop *prop,
			    int device)
{
	size_t mapped = 0;
	cu_result result = CU_OK;

	for (; result == CU_OK && mapped < 2 * piece; mapped += result == CU_OK ? piece : 0)
		result = map_piece(addr + mapped, piece, prop);
	if (result == CU_OK)
		result = grant(addr, 2 * piece, prop, device);
	if (result != CU_OK && mapped > 0)
		cuda.vmm_unmap(addr, mapped);
	return result;
}

static cu_result make_mapped(int device, size_t len, struct made *made)
{
	struct cu_memory_prop prop = prop_of(made->kind, device);
	size_t unit, piece;
	cu_ptr addr;
	cu_result result = cuda.vmm_unit(&unit, &prop, CU_GRANULARITY_MINIMUM);

	if (result != CU_OK)
		return result;
	piece = (len / 2 + unit - 1) / unit * unit;
	made->len = 2 * piece;
	result = cuda.vmm_reserve(&addr, made->len, 0, 0, 0);
	if (result != CU_OK)
		return result;
	result = map_pieces(addr, piece, &prop, device);
	if (result == CU_OK) {
		made->addr = (void *)(uintptr_t)addr;
		return CU_OK;
	}
	cuda.vmm_unreserve(addr, made->len);
	return result;
}

/* ---- the others ---- */

static cu_result make_pooled(int device, size_t len, struct made *made)
{
	struct cu_pool_prop prop = { .type = CU_ALLOCATION_PINNED };
	cu_pool pool;
	cu_ptr addr;
	cu_result result;

	prop.handle_types = made->kind == MAKE_POOL ? CU_HANDLE_POSIX_FD : CU_HANDLE_NONE;
	prop.location.type = CU_LOCATION_DEVICE;
	prop.location.id = ordinal_of(device);
	result = cuda.pool_make(&pool, &prop);
	if (result != CU_OK)
		return result;
	result = cuda.pool_alloc(&addr, len, pool, NULL);
	if (result == CU_OK)
		result = cuda.stream_wait(NULL);
	if (result != CU_OK) {
		cuda.pool_end(pool);
		return result;
	}
	made->own[0] = pool;
	made->addr = (void *)(uintptr_t)addr;
	return CU_OK;
}

static cu_result make_registered(size_t len, struct made *made)
{
	cu_result result;

	made->len = (len + 65535) / 65536 * 65536;
	made->addr = aligned_alloc(65536, made->len);
	if (!made->addr)
		return CU_OUT_OF_MEMORY;
	result = cuda.host_register(made->addr, made->len, CU_HOST_PORTABLE);
	if (result != CU_OK)
		free(made->addr);
	return result;
}

static cu_result make_imported(int device, size_t len, struct made *made)
{
	int ordinal = ordinal_of(device);
	struct cu_ipc_handle handle;
	cu_ptr theirs, addr;
	cu_result result = cuda_peer_alloc(ordinal, len, &theirs, &handle);

	if (result != CU_OK)
		return result;
	result = cuda.ipc_open(&addr, handle, 1);
	if (result != CU_OK) {
		cuda_peer_free(ordinal, theirs);
		return result;
	}
	made->own[0] = (void *)(uintptr_t)theirs;
	made->addr = (void *)(uintptr_t)addr;
	return CU_OK;
}

static cu_result make_inside(enum make kind, int device, size_t len, struct made *made)
{
	cu_ptr addr = 0;
	cu_result result;

	switch (kind) {
	case MAKE_HOST:
		return cuda.host_alloc(&made->addr, len, CU_HOST_PORTABLE);
	case MAKE_REGISTERED:
		return make_registered(len, made);
	case MAKE_VMM:
	case MAKE_VMM_NO_RDMA:
	case MAKE_VMM_HOST:
		return make_mapped(device, len, made);
	case MAKE_POOL:
	case MAKE_POOL_PRIVATE:
		return make_pooled(device, len, made);
	case MAKE_IMPORTED:
		return make_imported(device, len, made);
	default:
		result = kind == MAKE_MANAGED ? cuda.managed_alloc(&addr, len, CU_ATTACH_GLOBAL)
					      : cuda.alloc(&addr, len);
		made->addr = (void *)(uintptr_t)addr;
		return result;
	}
}

static int make(enum make kind, int device, size_t len, struct made *made)
{
	cu_result result = enter(device);

	if (result != CU_OK)
		return (int)result;
	*made = (struct made){ .kind = kind, .device = device, .len = len };
	result = make_inside(kind, device, len, made);
	leave();
	return (int)result;
}

static void drop(struct made *made)
{
	cu_ptr addr = (uintptr_t)made->addr;

	if (enter(made->device) != CU_OK)
		return;
	switch (made->kind) {
	case MAKE_HOST:
		cuda.host_free(made->addr);
		break;
	case MAKE_REGISTERED:
		cuda.host_unregister(made->addr);
		free(made->addr);
		break;
	case MAKE_VMM:
	case MAKE_VMM_NO_RDMA:
	case MAKE_VMM_HOST:
		cuda.vmm_unmap(addr, made->len);
		cuda.vmm_unreserve(addr, made->len);
		break;
	case MAKE_POOL:
	case MAKE_POOL_PRIVATE:
		cuda.free_async(addr, NULL);
		cuda.stream_wait(NULL);
		cuda.pool_end(made->own[0]);
		break;
	case MAKE_IMPORTED:
		cuda.ipc_close(addr);
		cuda_peer_free(ordinal_of(made->device), (uintptr_t)made->own[0]);
		break;
	default:
		cuda.free(addr);
	}
	leave();
}

static int remap(struct made *made)
{
	struct cu_memory_prop prop = prop_of(made->kind, made->device);
	cu_ptr addr = (uintptr_t)made->addr;
	cu_result result = enter(made->device);

	if (result != CU_OK)
		return (int)result;
	result = cuda.vmm_unmap(addr, made->len);
	if (result == CU_OK)
		result = map_pieces(addr, made->len / 2, &prop, made->device);
	leave();
	return (int)result;
}

/* Waited for: other streams see it then, too. */
static int move(int device, cu_ptr dst, cu_ptr src, size_t len)
{
	cu_result result = enter(device);

	if (result != CU_OK)
		return (int)result;
	result = cuda.copy_now(dst, src, len);
	if (result == CU_OK)
		result = cuda.ctx_sync();
	leave();
	return (int)result;
}

static int write_made(const struct made *made, size_t offset, const void *from, size_t len)
{
	return move(made->device, (uintptr_t)made->addr + offset, (uintptr_t)from, len);
}

static int read_made(const struct made *made, size_t offset, void *to, size_t len)
{
	return move(made->device, (uintptr_t)to, (uintptr_t)made->addr + offset, len);
}

static const struct emu_accel_hooks *hooks(void)
{
	return cuda.hooks;
}

const struct maker make_cuda = {
	.name = "cuda",
	.iface = FI_HMEM_CUDA,
	.open = open_driver,
	.devices = devices,
	.device = device_at,
	.cannot = cannot,
	.make = make,
	.drop = drop,
	.remap = remap,
	.write = write_made,
	.read = read_made,
	.hooks = hooks,
};
