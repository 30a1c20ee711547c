/* SPDX-License-Identifier: BSD-2-Clause */
/* Device, host and managed memory, and the program's own memory that it registers. */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <pthread.h>
#include <stdlib.h>

struct registration {
	struct registration *next;
	char *addr;
	size_t len;
	uint64_t id;
	struct CUctx_st *context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the list */
static struct registration *registrations;
static uint64_t last_id = UINT64_C(1) << 48; /* apart from those of mappings */

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

void emu_lock_memory(void)
{
	pthread_mutex_lock(&memory_lock);
}

void emu_unlock_memory(void)
{
	pthread_mutex_unlock(&memory_lock);
}

cu_result emu_make(size_t len, enum accel_place place, enum emu_kind kind, struct emu_memory memory,
		   void **addr)
{
	struct emu_memory *user;

	if (len == 0)
		return CU_INVALID_VALUE;
	if (len > emu_device_bytes() || !(user = malloc(sizeof(*user))))
		return CU_OUT_OF_MEMORY;
	*user = memory;
	user->len = len;
	*addr = accel_alloc(len, 0, place, memory.ordinal, (int)kind, user);
	if (!*addr)
		free(user);
	return *addr ? CU_OK : CU_OUT_OF_MEMORY;
}

cu_result emu_drop(void *addr, unsigned int kinds)
{
	struct accel_range range;
	bool done;

	emu_drain(NULL);
	emu_lock_memory();
	done = accel_find(addr, &range) && range.addr == (char *)addr &&
	       (kinds & (1u << range.kind)) && accel_free(addr);
	if (done)
		free(range.user);
	emu_unlock_memory();
	return done ? CU_OK : CU_INVALID_VALUE;
}

static bool made_in(const struct accel_range *range, const struct CUctx_st *context)
{
	struct accel_range now;
	bool made;

	emu_lock_memory();
	made = accel_find(range->addr, &now) && now.id == range->id &&
	       ((struct emu_memory *)now.user)->context == context;
	emu_unlock_memory();
	return made;
}

void emu_drop_all(struct CUctx_st *context)
{
	const unsigned int kinds = 1u << EMU_ALLOC | 1u << EMU_HOST | 1u << EMU_MANAGED |
				   1u << EMU_IPC;
	struct accel_range range;
	size_t i = 0;

	while (accel_at(i, &range)) {
		if ((kinds & 1u << range.kind) && made_in(&range, context) &&
		    emu_drop(range.addr, kinds) == CU_OK)
			continue;
		i++;
	}
}

cu_result cuMemAlloc_v2(cu_ptr *addr, size_t len)
{
	struct CUctx_st *context;
	cu_result result;
	void *made;

	EMU_CALL_IN(cuMemAlloc_v2, context);
	result = emu_make(len, ACCEL_ON_DEVICE, EMU_ALLOC,
			  (struct emu_memory){ .context = context, .ordinal = context->ordinal },
			  &made);
	if (result == CU_OK)
		*addr = (uintptr_t)made;
	return result;
}

cu_result cuMemFree_v2(cu_ptr addr)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuMemFree_v2, context);
	return emu_drop((void *)(uintptr_t)addr,
			1u << EMU_ALLOC | 1u << EMU_MANAGED | 1u << EMU_POOL);
}

cu_result cuMemAllocManaged(cu_ptr *addr, size_t len, unsigned int flags)
{
	struct CUctx_st *context;
	cu_result result;
	void *made;

	EMU_CALL_IN(cuMemAllocManaged, context);
	if (flags != CU_ATTACH_GLOBAL && flags != 2)
		return CU_INVALID_VALUE;
	result = emu_make(len, ACCEL_ON_BOTH, EMU_MANAGED,
			  (struct emu_memory){ .context = context, .ordinal = context->ordinal },
			  &made);
	if (result == CU_OK)
		*addr = (uintptr_t)made;
	return result;
}

/* ---- host memory ---- */

cu_result cuMemHostAlloc(void **addr, size_t len, unsigned int flags)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuMemHostAlloc, context);
	if (flags & ~7u)
		return CU_INVALID_VALUE;
	return emu_make(len, ACCEL_ON_HOST, EMU_HOST,
			(struct emu_memory){ .context = context, .ordinal = context->ordinal },
			addr);
}

cu_result cuMemFreeHost(void *addr)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuMemFreeHost, context);
	return emu_drop(addr, 1u << EMU_HOST);
}

static bool overlaps(const char *addr, size_t len)
{
	struct registration *r = registrations;

	while (r && (addr >= r->addr + r->len || r->addr >= addr + len))
		r = r->next;
	return r != NULL;
}

cu_result cuMemHostRegister_v2(void *addr, size_t len, unsigned int flags)
{
	struct registration *r;
	struct CUctx_st *context;
	struct accel_range range;
	cu_result result = CU_OK;

	EMU_CALL_IN(cuMemHostRegister_v2, context);
	if (!addr || len == 0 || (flags & ~15u) || accel_find(addr, &range))
		return CU_INVALID_VALUE;
	r = calloc(1, sizeof(*r));
	if (!r)
		return CU_OUT_OF_MEMORY;
	*r = (struct registration){ .addr = addr, .len = len, .context = context };
	pthread_mutex_lock(&lock);
	if (overlaps(addr, len)) {
		result = CU_ALREADY_REGISTERED;
	} else {
		r->id = ++last_id;
		r->next = registrations;
		registrations = r;
	}
	pthread_mutex_unlock(&lock);
	if (result == CU_OK)
		accel_live("registered", 1);
	else
		free(r);
	return result;
}

cu_result cuMemHostUnregister(void *addr)
{
	struct registration **at = &registrations, *r;
	struct CUctx_st *context;

	EMU_CALL_IN(cuMemHostUnregister, context);
	pthread_mutex_lock(&lock);
	while (*at && (*at)->addr != (char *)addr)
		at = &(*at)->next;
	r = *at;
	if (r)
		*at = r->next;
	pthread_mutex_unlock(&lock);
	if (!r)
		return CU_NOT_REGISTERED;
	free(r);
	accel_live("registered", -1);
	return CU_OK;
}

bool emu_registered(const void *addr, struct emu_found *found)
{
	const char *at = addr;
	struct registration *r;

	pthread_mutex_lock(&lock);
	r = registrations;
	while (r && !(at >= r->addr && at < r->addr + r->len))
		r = r->next;
	if (r)
		*found = (struct emu_found){ .kind = EMU_REGISTERED,
					     .start = r->addr,
					     .len = r->len,
					     .map_start = r->addr,
					     .map_len = r->len,
					     .id = r->id,
					     .ordinal = r->context->ordinal,
					     .context = r->context,
					     .on_host = true };
	pthread_mutex_unlock(&lock);
	return r != NULL;
}

cu_result cuMemHostGetDevicePointer_v2(cu_ptr *device, void *addr, unsigned int flags)
{
	struct CUctx_st *context;
	struct emu_found found;

	EMU_CALL_IN(cuMemHostGetDevicePointer_v2, context);
	if (flags != 0 || !emu_find(addr, &found) || !found.on_host)
		return CU_INVALID_VALUE;
	*device = (uintptr_t)addr;
	return CU_OK;
}
