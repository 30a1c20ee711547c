/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses, pages, and pages mapped at addresses. */
#include <stdlib.h>

#include "tests/drivers/accel/rocr/emu.h"

struct reserved {
	struct hm_list link;
	char *addr;
	size_t size;
};

static struct hm_list reservations = { &reservations, &reservations };
static struct hm_list handles = { &handles, &handles };

/* The functions stay in a library that is older by its setting, as symbols of no use. */
#define VMEM_CALL(name)                                                                            \
	do {                                                                                       \
		CALL(name);                                                                        \
		if (emu.ext < 4)                                                                   \
			return ROCR_ERROR;                                                         \
	} while (0)

/* emu_lock held. */
static struct reserved *reserved_at(const void *addr)
{
	hm_list_for_each_safe(link, &reservations)
	{
		struct reserved *r = hm_list_entry(link, struct reserved, link);

		if ((uintptr_t)addr - (uintptr_t)r->addr < r->size)
			return r;
	}
	return NULL;
}

bool emu_find_reserved(const void *addr, void **base, size_t *len)
{
	const struct reserved *r = reserved_at(addr);

	if (!r)
		return false;
	*base = r->addr;
	*len = r->size;
	return true;
}

/* emu_lock held; NULL: no handle. */
static struct emu_handle *handle_of(rocr_vmem vmem)
{
	hm_list_for_each_safe(link, &handles)
	{
		struct emu_handle *h = hm_list_entry(link, struct emu_handle, link);

		if ((uintptr_t)h == vmem.handle)
			return h;
	}
	return NULL;
}

rocr_status hsa_amd_vmem_address_reserve(void **va, size_t size, uint64_t address, uint64_t flags)
{
	struct reserved *r;

	(void)address;
	VMEM_CALL("hsa_amd_vmem_address_reserve");
	if (!va || !size || size % ACCEL_PAGE || flags)
		return ROCR_ERROR_INVALID_ARGUMENT;
	r = calloc(1, sizeof(*r));
	if (r)
		r->addr = accel_reserve(size, 0);
	if (!r || !r->addr) {
		free(r);
		return ROCR_ERROR_OUT_OF_RESOURCES;
	}
	r->size = size;
	pthread_mutex_lock(&emu_lock);
	hm_list_add_tail(&reservations, &r->link);
	pthread_mutex_unlock(&emu_lock);
	accel_live("reserved", 1);
	*va = r->addr;
	return ROCR_SUCCESS;
}

rocr_status hsa_amd_vmem_address_free(void *va, size_t size)
{
	rocr_status status = ROCR_SUCCESS;
	struct reserved *r;

	VMEM_CALL("hsa_amd_vmem_address_free");
	pthread_mutex_lock(&emu_lock);
	r = reserved_at(va);
	if (!r || r->addr != (char *)va) {
		status = ROCR_ERROR_INVALID_ALLOCATION;
	} else if (r->size != size) {
		status = ROCR_ERROR_INVALID_ARGUMENT;
	} else if (!accel_unreserve(va, size)) {
		status = ROCR_ERROR_RESOURCE_FREE;
	} else {
		hm_list_del(&r->link);
		free(r);
		accel_live("reserved", -1);
	}
	pthread_mutex_unlock(&emu_lock);
	return status;
}

/* ---- pages ---- */

rocr_status hsa_amd_vmem_handle_create(rocr_pool handle, size_t size, rocr_memory_type type,
				       uint64_t flags, rocr_vmem *out)
{
	struct emu_handle *h;
	bool gpu;
	int pool;

	VMEM_CALL("hsa_amd_vmem_handle_create");
	pool = emu_pool_of(handle);
	if (pool == EMU_NO_AGENT || !out || !size || size % ACCEL_PAGE ||
	    type > ROCR_MEMORY_PINNED || flags)
		return ROCR_ERROR_INVALID_ARGUMENT;
	if (!emu.pools[pool].allocates)
		return ROCR_ERROR_INVALID_ALLOCATION;
	h = calloc(1, sizeof(*h));
	if (!h)
		return ROCR_ERROR_OUT_OF_RESOURCES;
	*h = (struct emu_handle){ .refs = 1, .pool = pool, .size = size };
	gpu = emu.agents[emu.pools[pool].agent].gpu;
	pthread_mutex_lock(&emu_lock);
	if (emu_charge(pool, size)) {
		h->home = accel_alloc(size, 0, gpu ? ACCEL_ON_DEVICE : ACCEL_ON_HOST,
				      emu.pools[pool].agent, EMU_HOME, NULL);
		if (!h->home)
			emu_discharge(pool, size);
	}
	if (h->home)
		hm_list_add_tail(&handles, &h->link);
	pthread_mutex_unlock(&emu_lock);
	if (!h->home) {
		free(h);
		return ROCR_ERROR_OUT_OF_RESOURCES;
	}
	accel_live("handle", 1);
	out->handle = (uintptr_t)h;
	return ROCR_SUCCESS;
}

/* emu_lock held: pages last until nobody holds or maps them. */
static void drop_if_unused(struct emu_handle *h)
{
	if (h->refs > 0 || h->maps > 0)
		return;
	accel_free(h->home);
	emu_discharge(h->pool, h->size);
	hm_list_del(&h->link);
	free(h);
}

rocr_status hsa_amd_vmem_handle_release(rocr_vmem vmem)
{
	struct emu_handle *h;

	VMEM_CALL("hsa_amd_vmem_handle_release");
	pthread_mutex_lock(&emu_lock);
	h = handle_of(vmem);
	if (h && h->refs == 0)
		h = NULL;
	if (h) {
		h->refs--;
		drop_if_unused(h);
		accel_live("handle", -1);
	}
	pthread_mutex_unlock(&emu_lock);
	return h ? ROCR_SUCCESS : ROCR_ERROR_INVALID_ALLOCATION;
}

rocr_status hsa_amd_vmem_retain_alloc_handle(rocr_vmem *out, void *addr)
{
	struct accel_range range;
	struct emu_memory *memory;

	VMEM_CALL("hsa_amd_vmem_retain_alloc_handle");
	if (!out)
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(addr, &range);
	if (memory && range.kind == EMU_VMEM) {
		memory->handle->refs++;
		out->handle = (uintptr_t)memory->handle;
		accel_live("handle", 1);
	} else {
		memory = NULL;
	}
	pthread_mutex_unlock(&emu_lock);
	return memory ? ROCR_SUCCESS : ROCR_ERROR_INVALID_ALLOCATION;
}

rocr_status hsa_amd_vmem_get_alloc_properties_from_handle(rocr_vmem vmem, rocr_pool *pool,
							  rocr_memory_type *type)
{
	const struct emu_handle *h;

	VMEM_CALL("hsa_amd_vmem_get_alloc_properties_from_handle");
	if (!pool || !type)
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	h = handle_of(vmem);
	if (h) {
		*pool = emu_pool_handle(h->pool);
		*type = ROCR_MEMORY_PINNED;
	}
	pthread_mutex_unlock(&emu_lock);
	return h ? ROCR_SUCCESS : ROCR_ERROR_INVALID_ALLOCATION;
}

/* ---- mapped ---- */

/* emu_lock held. */
static rocr_status map(char *va, size_t size, struct emu_handle *h)
{
	struct emu_memory *memory;
	struct accel_range range;

	if (!h || h->size != size || !reserved_at(va) || !accel_find(h->home, &range))
		return ROCR_ERROR_INVALID_ARGUMENT;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return ROCR_ERROR_OUT_OF_RESOURCES;
	memory->pool = h->pool;
	memory->handle = h;
	if (!accel_map(va, size, range.block, range.offset, EMU_VMEM, memory)) {
		free(memory);
		return ROCR_ERROR_INVALID_ARGUMENT;
	}
	h->maps++;
	/* nobody has access before set_access, the host neither */
	accel_find(va, &range);
	emu_protect(&range, 0, false);
	return ROCR_SUCCESS;
}

rocr_status hsa_amd_vmem_map(void *va, size_t size, size_t offset, rocr_vmem vmem, uint64_t flags)
{
	rocr_status status;

	VMEM_CALL("hsa_amd_vmem_map");
	if (!va || offset || flags)
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	status = map(va, size, handle_of(vmem));
	pthread_mutex_unlock(&emu_lock);
	return status;
}

rocr_status hsa_amd_vmem_unmap(void *va, size_t size)
{
	rocr_status status = ROCR_ERROR_INVALID_ALLOCATION;
	struct accel_range range;
	struct emu_memory *memory;

	VMEM_CALL("hsa_amd_vmem_unmap");
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(va, &range);
	if (memory && range.kind == EMU_VMEM && range.addr == (char *)va) {
		status = ROCR_ERROR_INVALID_ARGUMENT;
		if (accel_unmap(va, size)) {
			memory->handle->maps--;
			drop_if_unused(memory->handle);
			free(memory);
			status = ROCR_SUCCESS;
		}
	}
	pthread_mutex_unlock(&emu_lock);
	return status;
}

rocr_status hsa_amd_vmem_set_access(void *va, size_t size, const rocr_access *list, size_t count)
{
	rocr_status status = ROCR_ERROR_INVALID_ALLOCATION;
	struct accel_range range;
	struct emu_memory *memory;
	uint64_t reach = 0;

	VMEM_CALL("hsa_amd_vmem_set_access");
	for (size_t i = 0; list && i < count; i++) {
		int agent = emu_agent_of(list[i].agent);

		if (agent == EMU_NO_AGENT)
			return ROCR_ERROR_INVALID_AGENT;
		reach |= list[i].permissions ? UINT64_C(1) << agent : 0;
	}
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(va, &range);
	if (memory && range.kind == EMU_VMEM && range.addr == (char *)va) {
		status = range.len == size ? ROCR_SUCCESS : ROCR_ERROR_INVALID_ARGUMENT;
		if (status == ROCR_SUCCESS) {
			memory->reach = reach;
			emu_protect(&range, reach, false);
		}
	}
	pthread_mutex_unlock(&emu_lock);
	return status;
}

rocr_status hsa_amd_vmem_get_access(void *va, rocr_permission *permission, rocr_agent agent)
{
	rocr_status status = ROCR_ERROR_INVALID_ALLOCATION;
	struct accel_range range;
	const struct emu_memory *memory;
	int number;

	VMEM_CALL("hsa_amd_vmem_get_access");
	number = emu_agent_of(agent);
	if (number == EMU_NO_AGENT)
		return ROCR_ERROR_INVALID_AGENT;
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(va, &range);
	if (memory && range.kind == EMU_VMEM && (memory->reach >> number & 1)) {
		*permission = ROCR_PERMISSION_RW;
		status = ROCR_SUCCESS;
	}
	pthread_mutex_unlock(&emu_lock);
	return status;
}

/* The fd is the caller's to close: nothing here counts it. */
rocr_status hsa_amd_vmem_export_shareable_handle(int *fd, rocr_vmem vmem, uint64_t flags)
{
	rocr_status status = ROCR_ERROR_INVALID_ALLOCATION;
	const struct emu_handle *h;
	size_t offset;
	int file;

	VMEM_CALL("hsa_amd_vmem_export_shareable_handle");
	if (!fd || flags)
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	h = handle_of(vmem);
	if (h && !emu.agents[emu.pools[h->pool].agent].gpu) {
		status = ROCR_ERROR;
	} else if (h) {
		file = accel_dmabuf(h->home, h->size, &offset);
		status = file < 0 ? ROCR_ERROR_OUT_OF_RESOURCES : ROCR_SUCCESS;
		if (file >= 0)
			*fd = file;
	}
	pthread_mutex_unlock(&emu_lock);
	return status;
}
