/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream-ordered pools.  The default pool of a device cannot be exported; one made with the POSIX handle
 * type can.
 */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the list */
static struct CUmemPoolHandle_st *pools; /* never freed, so that a stale one is told */
static struct CUmemPoolHandle_st defaults[EMU_MOST_DEVICES];

static bool pool_alive(cu_pool pool)
{
	struct CUmemPoolHandle_st *p;

	if (pool >= defaults && pool < defaults + EMU_MOST_DEVICES)
		return true;
	pthread_mutex_lock(&lock);
	p = pools;
	while (p && p != pool)
		p = p->next;
	pthread_mutex_unlock(&lock);
	return p && !p->destroyed;
}

cu_result cuMemPoolCreate(cu_pool *pool, const struct cu_pool_prop *prop)
{
	struct CUmemPoolHandle_st *made;

	EMU_CALL(cuMemPoolCreate);
	if (prop->type != CU_ALLOCATION_PINNED || prop->location.type != CU_LOCATION_DEVICE ||
	    prop->location.id < 0 || prop->location.id >= emu_devices() ||
	    prop->handle_types > CU_HANDLE_POSIX_FD)
		return CU_INVALID_VALUE;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CU_OUT_OF_MEMORY;
	made->ordinal = prop->location.id;
	made->handle_types = prop->handle_types;
	pthread_mutex_lock(&lock);
	made->next = pools;
	pools = made;
	pthread_mutex_unlock(&lock);
	accel_live("pool", 1);
	*pool = made;
	return CU_OK;
}

cu_result cuMemPoolDestroy(cu_pool pool)
{
	EMU_CALL(cuMemPoolDestroy);
	if (!pool_alive(pool) || pool->is_default)
		return CU_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	pool->destroyed = true; /* what was allocated from it stays */
	pthread_mutex_unlock(&lock);
	accel_live("pool", -1);
	return CU_OK;
}

static cu_pool default_pool(int ordinal)
{
	pthread_mutex_lock(&lock);
	defaults[ordinal].ordinal = ordinal;
	defaults[ordinal].is_default = true;
	pthread_mutex_unlock(&lock);
	return &defaults[ordinal];
}

cu_result cuDeviceGetDefaultMemPool(cu_pool *pool, cu_device device)
{
	int ordinal = emu_ordinal(device);

	EMU_CALL(cuDeviceGetDefaultMemPool);
	if (ordinal < 0)
		return CU_INVALID_DEVICE;
	*pool = default_pool(ordinal);
	return CU_OK;
}

static cu_result allocate(cu_ptr *addr, size_t len, cu_pool pool, cu_stream stream)
{
	cu_result result;
	void *made;

	if (!stream && !emu_current())
		return CU_INVALID_CONTEXT;
	if ((stream && !emu_stream_valid(stream)) || !pool_alive(pool))
		return CU_INVALID_VALUE;
	result = emu_make(len, ACCEL_ON_DEVICE, EMU_POOL,
			  (struct emu_memory){ .pool = pool,
					       .handle_types = pool->handle_types,
					       .ordinal = pool->ordinal },
			  &made);
	if (result == CU_OK)
		*addr = (uintptr_t)made;
	return result;
}

cu_result cuMemAllocFromPoolAsync(cu_ptr *addr, size_t len, cu_pool pool, cu_stream stream)
{
	EMU_CALL(cuMemAllocFromPoolAsync);
	return allocate(addr, len, pool, stream);
}

cu_result cuMemAllocAsync(cu_ptr *addr, size_t len, cu_stream stream)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuMemAllocAsync, context);
	return allocate(addr, len, default_pool(context->ordinal), stream);
}

cu_result cuMemFreeAsync(cu_ptr addr, cu_stream stream)
{
	EMU_CALL(cuMemFreeAsync);
	if (!stream && !emu_current())
		return CU_INVALID_CONTEXT;
	if (stream && !emu_stream_valid(stream))
		return CU_INVALID_HANDLE;
	return emu_drop((void *)(uintptr_t)addr, 1u << EMU_POOL | 1u << EMU_ALLOC);
}
