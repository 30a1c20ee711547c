/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the pools, and who has access to it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/drivers/accel/rocr/emu.h"

pthread_mutex_t emu_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t used[EMU_MOST]; /* bytes of each agent's memory */

struct emu_memory *emu_find(const void *addr, struct accel_range *range)
{
	struct emu_memory *memory = accel_find(addr, range) && range->kind != EMU_HOME ? range->user
										       : NULL;

	return memory && !memory->going ? memory : NULL;
}

bool emu_any_cpu(uint64_t reach)
{
	for (int i = 0; i < emu.agent_count; i++)
		if (!emu.agents[i].gpu && (reach & UINT64_C(1) << i))
			return true;
	return false;
}

void emu_protect(const struct accel_range *range, uint64_t reach, bool on_host)
{
	mprotect(range->addr, range->len,
		 on_host || emu_any_cpu(reach) ? PROT_READ | PROT_WRITE : PROT_NONE);
}

bool emu_charge(int pool, size_t len)
{
	size_t *bytes = &used[emu.pools[pool].agent];

	if (len > ((size_t)emu.memory << 20) - *bytes)
		return false;
	*bytes += len;
	return true;
}

void emu_discharge(int pool, size_t len)
{
	used[emu.pools[pool].agent] -= len;
}

size_t emu_available(int agent)
{
	size_t left;

	pthread_mutex_lock(&emu_lock);
	left = ((size_t)emu.memory << 20) - used[agent];
	pthread_mutex_unlock(&emu_lock);
	return left;
}

/* A device's allocations are cut out of larger blocks, so that a dma-buf of one does not begin with it. */
static void *alloc_memory(const struct emu_pool *pool, size_t len, struct emu_memory *memory)
{
	bool gpu = emu.agents[pool->agent].gpu;
	size_t before = gpu ? ACCEL_PAGE : 0;
	struct accel_block *block =
		accel_block_make(len + before, gpu ? ACCEL_ON_DEVICE : ACCEL_ON_HOST, pool->agent);
	void *addr = block ? accel_reserve(len, 0) : NULL;

	if (addr && !accel_map(addr, len, block, before, EMU_POOL, memory)) {
		accel_unreserve(addr, len);
		addr = NULL;
	}
	if (block)
		accel_block_put(block);
	return addr;
}

rocr_status hsa_amd_memory_pool_allocate(rocr_pool handle, size_t size, uint32_t flags, void **ptr)
{
	struct emu_memory *memory;
	size_t len = (size + ACCEL_PAGE - 1) & ~(size_t)(ACCEL_PAGE - 1);
	int pool;

	CALL("hsa_amd_memory_pool_allocate");
	pool = emu_pool_of(handle);
	if (pool == EMU_NO_AGENT)
		return ROCR_ERROR_INVALID_MEMORY_POOL;
	if (!ptr || !size || flags)
		return ROCR_ERROR_INVALID_ARGUMENT;
	if (!emu.pools[pool].allocates || len < size || len > (size_t)emu.memory << 20)
		return ROCR_ERROR_INVALID_ALLOCATION;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return ROCR_ERROR_OUT_OF_RESOURCES;
	memory->pool = pool;
	memory->reach = UINT64_C(1) << emu.pools[pool].agent;
	for (int i = 0; i < emu.agent_count; i++)
		if (emu_access(i, &emu.pools[pool]) == ROCR_ACCESS_BY_DEFAULT)
			memory->reach |= UINT64_C(1) << i;
	pthread_mutex_lock(&emu_lock);
	*ptr = NULL;
	if (emu_charge(pool, len)) {
		*ptr = alloc_memory(&emu.pools[pool], len, memory);
		if (!*ptr)
			emu_discharge(pool, len);
	}
	pthread_mutex_unlock(&emu_lock);
	if (*ptr)
		return ROCR_SUCCESS;
	free(memory);
	return ROCR_ERROR_OUT_OF_RESOURCES;
}

/* The runtime knows it no more, then tells who wanted to be told, then gives it back. */
rocr_status hsa_amd_memory_pool_free(void *ptr)
{
	struct emu_notice *notices = NULL;
	struct accel_range range;
	struct emu_memory *memory;

	CALL("hsa_amd_memory_pool_free");
	if (!ptr)
		return ROCR_SUCCESS;
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(ptr, &range);
	if (memory && (range.kind != EMU_POOL || range.addr != (char *)ptr))
		memory = NULL;
	if (memory) {
		memory->going = true;
		notices = memory->notices;
	}
	pthread_mutex_unlock(&emu_lock);
	if (!memory)
		return ROCR_ERROR_INVALID_ALLOCATION;
	emu_notify(notices);
	pthread_mutex_lock(&emu_lock);
	accel_free(ptr);
	emu_discharge(memory->pool, range.len);
	pthread_mutex_unlock(&emu_lock);
	free(memory);
	return ROCR_SUCCESS;
}

static rocr_status allow(uint64_t reach, const void *ptr)
{
	struct accel_range range;
	struct emu_memory *memory = emu_find(ptr, &range);
	const struct emu_pool *pool;

	if (!memory || range.kind != EMU_POOL)
		return ROCR_ERROR_INVALID_ARGUMENT;
	pool = &emu.pools[memory->pool];
	for (int i = 0; i < emu.agent_count; i++) {
		uint32_t access = emu_access(i, pool);

		if (access == ROCR_ACCESS_NEVER && (reach & UINT64_C(1) << i))
			return ROCR_ERROR_INVALID_ARGUMENT;
		if (access == ROCR_ACCESS_BY_DEFAULT)
			reach |= UINT64_C(1) << i;
	}
	memory->reach = reach;
	emu_protect(&range, reach, !emu.agents[pool->agent].gpu);
	return ROCR_SUCCESS;
}

rocr_status hsa_amd_agents_allow_access(uint32_t count, const rocr_agent *agents,
					const uint32_t *flags, const void *ptr)
{
	rocr_status status;
	uint64_t reach;

	CALL("hsa_amd_agents_allow_access");
	if (!count || flags || !ptr || !emu_agent_set(count, agents, &reach))
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	status = allow(reach, ptr);
	pthread_mutex_unlock(&emu_lock);
	return status;
}

/* ---- shared by IPC ---- */

#define IPC_MAGIC 0x43504945u

rocr_status hsa_amd_ipc_memory_create(void *ptr, size_t len, rocr_ipc *handle)
{
	struct accel_range range;
	struct emu_memory *memory;
	rocr_status status = ROCR_ERROR_INVALID_ARGUMENT;

	CALL("hsa_amd_ipc_memory_create");
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(ptr, &range);
	if (handle && memory && range.kind == EMU_POOL && range.addr == (char *)ptr &&
	    range.len == len && emu.agents[emu.pools[memory->pool].agent].gpu) {
		*handle = (rocr_ipc){ { IPC_MAGIC, (uint32_t)getpid(), (uint32_t)range.id,
					(uint32_t)((uintptr_t)ptr >> 32),
					(uint32_t)(uintptr_t)ptr } };
		status = ROCR_SUCCESS;
	}
	pthread_mutex_unlock(&emu_lock);
	return status;
}

/* Lock held. */
static void *attach(const rocr_ipc *handle, size_t len, uint64_t reach)
{
	const uint32_t *word = handle->handle;
	void *ptr = (void *)(uintptr_t)((uint64_t)word[3] << 32 | word[4]), *addr;
	struct emu_memory *copy, *memory;
	struct accel_range range;

	memory = word[0] == IPC_MAGIC && word[1] == (uint32_t)getpid() ? emu_find(ptr, &range)
								       : NULL;
	if (!memory || (uint32_t)range.id != word[2] || range.len != len)
		return NULL;
	copy = calloc(1, sizeof(*copy));
	addr = copy ? accel_reserve(len, 0) : NULL;
	if (copy) {
		copy->pool = memory->pool;
		copy->reach = reach | UINT64_C(1) << emu.pools[memory->pool].agent;
	}
	if (addr && accel_map(addr, len, range.block, range.offset, EMU_IPC, copy))
		return addr;
	if (addr)
		accel_unreserve(addr, len);
	free(copy);
	return NULL;
}

rocr_status hsa_amd_ipc_memory_attach(const rocr_ipc *handle, size_t len, uint32_t count,
				      const rocr_agent *agents, void **ptr)
{
	uint64_t reach = 0;
	void *addr;

	CALL("hsa_amd_ipc_memory_attach");
	if (!handle || !ptr || (count && !emu_agent_set(count, agents, &reach)))
		return ROCR_ERROR_INVALID_ARGUMENT;
	for (int i = 0; !count && i < emu.agent_count; i++)
		reach |= emu.agents[i].gpu ? UINT64_C(1) << i : 0;
	pthread_mutex_lock(&emu_lock);
	addr = attach(handle, len, reach);
	pthread_mutex_unlock(&emu_lock);
	if (!addr)
		return ROCR_ERROR_INVALID_ARGUMENT;
	*ptr = addr;
	return ROCR_SUCCESS;
}

rocr_status hsa_amd_ipc_memory_detach(void *ptr)
{
	struct accel_range range;
	struct emu_memory *memory;
	rocr_status status = ROCR_ERROR_INVALID_ARGUMENT;

	CALL("hsa_amd_ipc_memory_detach");
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(ptr, &range);
	if (memory && range.kind == EMU_IPC && range.addr == (char *)ptr && accel_free(ptr)) {
		free(memory);
		status = ROCR_SUCCESS;
	}
	pthread_mutex_unlock(&emu_lock);
	return status;
}
