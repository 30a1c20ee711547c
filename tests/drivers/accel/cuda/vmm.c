/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual memory management: addresses, physical memory and mappings are made apart.  Needs no context.
 * A mapping lives until it is unmapped, also after its handle was released.
 */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <pthread.h>
#include <stdlib.h>

struct reservation {
	struct reservation *next;
	char *addr;
	size_t len;
	uint64_t id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* both lists, and counts */
static struct emu_vmm *all;
static struct reservation *reservations;
static uint64_t last_id = UINT64_C(1) << 52; /* apart from those of others */

size_t emu_granularity(void)
{
	return (size_t)accel_setting("granularity", 2 << 20);
}

static bool on_host(const struct cu_memory_prop *prop)
{
	return prop->location.type != CU_LOCATION_DEVICE;
}

static bool prop_valid(const struct cu_memory_prop *prop)
{
	unsigned int place = prop->location.type;

	return prop->type == CU_ALLOCATION_PINNED &&
	       (place == CU_LOCATION_DEVICE
			? prop->location.id >= 0 && prop->location.id < emu_devices()
			: place == CU_LOCATION_HOST || place == CU_LOCATION_HOST_NUMA);
}

cu_result cuMemGetAllocationGranularity(size_t *unit, const struct cu_memory_prop *prop,
					unsigned int which)
{
	EMU_CALL(cuMemGetAllocationGranularity);
	if (which > 1 || !prop_valid(prop))
		return CU_INVALID_VALUE;
	*unit = emu_granularity();
	return CU_OK;
}

/* ---- addresses ---- */

cu_result cuMemAddressReserve(cu_ptr *addr, size_t len, size_t align, cu_ptr fixed,
			      unsigned long long flags)
{
	struct reservation *r;

	EMU_CALL(cuMemAddressReserve);
	(void)fixed; /* a wish */
	if (flags != 0 || len == 0 || len % emu_granularity() != 0 || (align & (align - 1)) != 0)
		return CU_INVALID_VALUE;
	r = calloc(1, sizeof(*r));
	if (!r)
		return CU_OUT_OF_MEMORY;
	r->len = len;
	r->addr = accel_reserve(len, align > emu_granularity() ? align : emu_granularity());
	if (!r->addr) {
		free(r);
		return CU_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&lock);
	r->id = ++last_id;
	r->next = reservations;
	reservations = r;
	pthread_mutex_unlock(&lock);
	accel_live("reservation", 1);
	*addr = (uintptr_t)r->addr;
	return CU_OK;
}

cu_result cuMemAddressFree(cu_ptr addr, size_t len)
{
	char *begin = (char *)(uintptr_t)addr;
	struct reservation **at = &reservations, *r;

	EMU_CALL(cuMemAddressFree);
	pthread_mutex_lock(&lock);
	while (*at && ((*at)->addr != begin || (*at)->len != len))
		at = &(*at)->next;
	r = *at;
	if (r && accel_unreserve(r->addr, r->len))
		*at = r->next;
	else
		r = NULL;
	pthread_mutex_unlock(&lock);
	if (!r)
		return CU_INVALID_VALUE;
	free(r);
	accel_live("reservation", -1);
	return CU_OK;
}

bool emu_reserved(const void *addr, struct emu_found *found)
{
	const char *at = addr;
	struct reservation *r;

	pthread_mutex_lock(&lock);
	r = reservations;
	while (r && !(at >= r->addr && at < r->addr + r->len))
		r = r->next;
	if (r) {
		found->start = r->addr;
		found->len = r->len;
		found->id = r->id;
	}
	pthread_mutex_unlock(&lock);
	return r != NULL;
}

/* ---- physical memory ---- */

cu_result cuMemCreate(cu_memory *memory, size_t len, const struct cu_memory_prop *prop,
		      unsigned long long flags)
{
	struct emu_vmm *vmm;

	EMU_CALL(cuMemCreate);
	if (flags != 0 || !prop_valid(prop) || len == 0 || len % emu_granularity() != 0)
		return CU_INVALID_VALUE;
	if (prop->flags.rdma && !accel_setting("vmmrdma", 1))
		return CU_NOT_SUPPORTED;
	vmm = calloc(1, sizeof(*vmm));
	if (!vmm || len > emu_device_bytes() ||
	    !(vmm->block = accel_block_make(len, on_host(prop) ? ACCEL_ON_HOST : ACCEL_ON_DEVICE,
					    on_host(prop) ? -1 : prop->location.id))) {
		free(vmm);
		return CU_OUT_OF_MEMORY;
	}
	vmm->prop = *prop;
	vmm->handles = 1;
	pthread_mutex_lock(&lock);
	vmm->id = ++last_id;
	vmm->next = all;
	all = vmm;
	pthread_mutex_unlock(&lock);
	accel_live("handle", 1);
	*memory = (uintptr_t)vmm;
	return CU_OK;
}

/* Lock held.  One with a handle; NULL for a stale one. */
static struct emu_vmm *vmm_of(cu_memory memory)
{
	struct emu_vmm *vmm = all;

	while (vmm && (cu_memory)(uintptr_t)vmm != memory)
		vmm = vmm->next;
	return vmm && vmm->handles > 0 ? vmm : NULL;
}

/* Lock held. */
static void forget_unused(struct emu_vmm *vmm)
{
	struct emu_vmm **at = &all;

	if (vmm->handles > 0 || vmm->mappings > 0)
		return;
	while (*at != vmm)
		at = &(*at)->next;
	*at = vmm->next;
	accel_block_put(vmm->block);
	free(vmm);
}

cu_result cuMemRelease(cu_memory memory)
{
	struct emu_vmm *vmm;

	EMU_CALL(cuMemRelease);
	pthread_mutex_lock(&lock);
	vmm = vmm_of(memory);
	if (vmm) {
		vmm->handles--;
		forget_unused(vmm);
	}
	pthread_mutex_unlock(&lock);
	if (!vmm)
		return CU_INVALID_VALUE;
	accel_live("handle", -1);
	return CU_OK;
}

cu_result cuMemRetainAllocationHandle(cu_memory *memory, void *addr)
{
	struct accel_range range;
	struct emu_vmm *vmm = NULL;

	EMU_CALL(cuMemRetainAllocationHandle);
	emu_lock_memory();
	pthread_mutex_lock(&lock);
	if (accel_find(addr, &range) && range.kind == EMU_VMM) {
		vmm = ((struct emu_memory *)range.user)->vmm;
		vmm->handles++;
	}
	pthread_mutex_unlock(&lock);
	emu_unlock_memory();
	if (!vmm)
		return CU_INVALID_VALUE;
	accel_live("handle", 1);
	*memory = (uintptr_t)vmm;
	return CU_OK;
}

cu_result cuMemGetAllocationPropertiesFromHandle(struct cu_memory_prop *prop, cu_memory memory)
{
	struct emu_vmm *vmm;

	EMU_CALL(cuMemGetAllocationPropertiesFromHandle);
	pthread_mutex_lock(&lock);
	vmm = vmm_of(memory);
	if (vmm)
		*prop = vmm->prop;
	pthread_mutex_unlock(&lock);
	return vmm ? CU_OK : CU_INVALID_VALUE;
}

/* ---- mappings ---- */

cu_result cuMemMap(cu_ptr addr, size_t len, size_t offset, cu_memory memory,
		   unsigned long long flags)
{
	struct emu_memory *user;
	struct emu_vmm *vmm;
	bool done = false;

	EMU_CALL(cuMemMap);
	if (flags != 0 || offset != 0 || len == 0 || (addr | len) % emu_granularity() != 0)
		return CU_INVALID_VALUE;
	user = calloc(1, sizeof(*user));
	if (!user)
		return CU_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	vmm = vmm_of(memory);
	if (vmm) {
		user->vmm = vmm;
		user->prop = vmm->prop;
		user->block_id = vmm->id;
		user->handle_types = vmm->prop.handle_types;
		user->len = len;
		user->ordinal = on_host(&vmm->prop) ? -1 : vmm->prop.location.id;
		done = accel_map((void *)(uintptr_t)addr, len, vmm->block, 0, EMU_VMM, user);
		vmm->mappings += done;
	}
	pthread_mutex_unlock(&lock);
	if (!done)
		free(user);
	return done ? CU_OK : CU_INVALID_VALUE;
}

/* Is [addr, addr + len) whole mappings, one after the other? */
static bool whole_mappings(char *addr, size_t len)
{
	struct accel_range range;

	for (size_t at = 0; at < len; at += range.len)
		if (!accel_find(addr + at, &range) || range.kind != EMU_VMM ||
		    range.addr != addr + at || range.len > len - at)
			return false;
	return len > 0;
}

cu_result cuMemUnmap(cu_ptr addr, size_t len)
{
	char *begin = (char *)(uintptr_t)addr;
	struct accel_range range;

	EMU_CALL(cuMemUnmap);
	if (!whole_mappings(begin, len))
		return CU_INVALID_VALUE;
	emu_drain(NULL);
	emu_lock_memory();
	for (size_t at = 0; at < len; at += range.len) {
		struct emu_memory *user;

		accel_find(begin + at, &range);
		user = range.user;
		accel_unmap(range.addr, range.len);
		pthread_mutex_lock(&lock);
		user->vmm->mappings--;
		forget_unused(user->vmm);
		pthread_mutex_unlock(&lock);
		free(user);
	}
	emu_unlock_memory();
	return CU_OK;
}

static bool access_valid(const struct cu_access *access, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if ((access[i].location.type == CU_LOCATION_DEVICE &&
		     (access[i].location.id < 0 || access[i].location.id >= emu_devices())) ||
		    access[i].location.type == 0 || access[i].location.type > 4 ||
		    (access[i].flags != CU_ACCESS_NONE && access[i].flags != CU_ACCESS_READ &&
		     access[i].flags != CU_ACCESS_READ_WRITE))
			return false;
	return count > 0;
}

cu_result cuMemSetAccess(cu_ptr addr, size_t len, const struct cu_access *access, size_t count)
{
	char *begin = (char *)(uintptr_t)addr;
	struct accel_range range;

	EMU_CALL(cuMemSetAccess);
	if (!whole_mappings(begin, len) || !access_valid(access, count))
		return CU_INVALID_VALUE;
	emu_lock_memory();
	for (size_t at = 0; at < len; at += range.len) {
		struct emu_memory *user;

		accel_find(begin + at, &range);
		user = range.user;
		for (size_t i = 0; i < count; i++) {
			unsigned int bit = access[i].location.type == CU_LOCATION_DEVICE
						   ? 1u << access[i].location.id
						   : 0;

			user->devices = access[i].flags == CU_ACCESS_READ_WRITE
						? user->devices | bit
						: user->devices & ~bit;
		}
	}
	emu_unlock_memory();
	return CU_OK;
}
