/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an address is: one driver call for host memory, one or two for the classic kinds.  No context is
 * needed, and none is made.
 *
 * Which attributes tell the kinds apart ("CUDA Driver API", Unified Addressing):
 *   memory type 0          not CUDA's; with a range but nothing mapped there, an address that is only reserved
 *   managed                cuMemAllocManaged, whatever the type
 *   legacy IPC capable     cuMemAlloc
 *   a pool's handle        stream-ordered
 *   cuMemRetainAllocationHandle knows it: mapped memory, whose properties then tell the rest
 *   otherwise, type host   cuMemHostAlloc or cuMemHostRegister
 *   otherwise              another process's, another interface's; plain memory if NICs may reach it
 */
#include "hmem/cuda_priv.h"

#include <rdma/fi_errno.h>

/* What one call of cuPointerGetAttributes tells. */
struct answers {
	unsigned int type;
	unsigned int managed;
	int ordinal;
	unsigned long long id;
	void *host;
	cu_ptr start;
	size_t size;
	bool mapped, legacy_ipc, rdma;
	unsigned long long handle_types;
	cu_pool pool;
	cu_ptr map_base;
	size_t map_size;
	unsigned long long block_id;
	unsigned int told; /* how many of the list were asked for */
};

/*
 * In the order of their age.  The manual of cuPointerGetAttributes has only the first two groups; drivers
 * that refuse the others there are asked for them one by one, when they matter.
 */
#define OLDEST 10u /* attributes, CUDA 11.0 */
#define MANUAL 11u /* 11.2 */
#define ALL    15u
#define FIELDS(a)                                                                                  \
	{                                                                                          \
		&(a)->type, &(a)->managed, &(a)->ordinal, &(a)->id, &(a)->host, &(a)->start,       \
			&(a)->size, &(a)->mapped, &(a)->legacy_ipc, &(a)->handle_types,            \
			&(a)->pool, &(a)->rdma, &(a)->map_base, &(a)->map_size, &(a)->block_id     \
	}

/* How many attributes the driver takes in one call. */
static _Atomic unsigned int batch = ALL;

static cu_result ask_batch(cu_ptr addr, unsigned int count, struct answers *a)
{
	unsigned int which[ALL] = { CU_PTR_MEMORY_TYPE,	 CU_PTR_IS_MANAGED,   CU_PTR_DEVICE_ORDINAL,
				    CU_PTR_BUFFER_ID,	 CU_PTR_HOST_POINTER, CU_PTR_RANGE_START,
				    CU_PTR_RANGE_SIZE,	 CU_PTR_MAPPED,	      CU_PTR_LEGACY_IPC,
				    CU_PTR_HANDLE_TYPES, CU_PTR_POOL,	      CU_PTR_RDMA_CAPABLE,
				    CU_PTR_MAPPING_BASE, CU_PTR_MAPPING_SIZE, CU_PTR_BLOCK_ID };
	void *values[ALL] = FIELDS(a);

	*a = (struct answers){ .ordinal = -1, .told = count };
	return cu.ptr_attrs(count, which, values, addr);
}

static int ask(cu_ptr addr, struct answers *a)
{
	unsigned int count = atomic_load_explicit(&batch, memory_order_relaxed);
	cu_result result = ask_batch(addr, count, a);

	while (result == CU_INVALID_VALUE && count > OLDEST) {
		count = count == ALL ? MANUAL : OLDEST;
		result = ask_batch(addr, count, a);
		if (result == CU_OK)
			atomic_store_explicit(&batch, count, memory_order_relaxed);
	}
	if (result == CU_OK)
		return 0;
	/* documented for an address that no context with unified addressing knows */
	if (result == CU_INVALID_CONTEXT)
		return -FI_ENOENT;
	cuda_failed(result, "cuPointerGetAttributes", "%p", (void *)(uintptr_t)addr);
	return -FI_EIO;
}

/* One that was not in the batch; false: the driver does not know it. */
static bool ask_one(cu_ptr addr, unsigned int which, void *value)
{
	return cu.ptr_attr(value, which, addr) == CU_OK;
}

/* What is not told is taken for granted: export or registration then tell. */
static bool rdma_capable(cu_ptr addr, const struct answers *a)
{
	bool capable;

	if (a->told == ALL)
		return a->rdma;
	return !ask_one(addr, CU_PTR_RDMA_CAPABLE, &capable) || capable;
}

/* ---- mapped memory ---- */

/* 0: *prop; -FI_ENOENT: it is no mapped memory. */
static int ask_mapped(const void *addr, struct cu_memory_prop *prop)
{
	cu_memory memory;
	cu_result result;

	if (!cu.vmm_retain || !cu.vmm_prop || !cu.vmm_release)
		return -FI_ENOENT;
	result = cu.vmm_retain(&memory, (void *)(uintptr_t)addr);
	if (result == CU_INVALID_VALUE || result == CU_NOT_SUPPORTED)
		return -FI_ENOENT;
	if (result != CU_OK) {
		cuda_failed(result, "cuMemRetainAllocationHandle", "%p", addr);
		return -FI_EIO;
	}
	result = cu.vmm_prop(prop, memory);
	if (result != CU_OK)
		cuda_failed(result, "cuMemGetAllocationPropertiesFromHandle", "%p", addr);
	/* once more: a reference that stays keeps the memory */
	if (cu.vmm_release(memory) != CU_OK && cu.vmm_release(memory) != CU_OK)
		HM_WARN(FI_LOG_MR, "cuMemRelease failed: the allocation at %p stays until exit",
			addr);
	return result == CU_OK ? 0 : -FI_EIO;
}

/* cuMemGetAddressRange in a context of the device that has the memory. */
static cu_result ask_range(struct cuda_device *device, cu_ptr addr, struct answers *a)
{
	struct cuda_scope scope;
	cu_result result = cu.range(&a->map_base, &a->map_size, addr);

	if (result != CU_INVALID_CONTEXT || cuda_enter(device, &scope) != 0)
		return result;
	result = cu.range(&a->map_base, &a->map_size, addr);
	cuda_leave(&scope);
	return result;
}

/*
 * The mapping that holds addr, not the reserved addresses around it, which is what RANGE_START_ADDR and
 * RANGE_SIZE mean for mapped memory.  False: the driver finds none, though there is one.
 */
static bool mapping_of(struct cuda_device *device, cu_ptr addr, struct answers *a)
{
	bool told = a->told == ALL || (ask_one(addr, CU_PTR_MAPPING_BASE, &a->map_base) &&
				       ask_one(addr, CU_PTR_MAPPING_SIZE, &a->map_size));

	if (!told || a->map_size == 0)
		told = ask_range(device, addr, a) == CU_OK;
	return told && a->map_size > 0 && addr >= a->map_base && addr - a->map_base < a->map_size;
}

static int mapped_facts(const void *addr, struct answers *a, const struct cu_memory_prop *prop,
			struct hmem_facts *facts)
{
	bool on_host = prop->location.type != CU_LOCATION_DEVICE;
	struct cuda_device *device = cuda_ordinal(on_host ? 0 : prop->location.id);

	if (!device) {
		HM_WARN(FI_LOG_MR, "%p: cuMemGetAllocationPropertiesFromHandle names device %d",
			addr, prop->location.id);
		return -FI_EIO;
	}
	/* BUFFER_ID may be that of the addresses, where other memory can be mapped later */
	if (a->told < ALL && !ask_one((uintptr_t)addr, CU_PTR_BLOCK_ID, &a->block_id))
		a->block_id = 0;
	facts->id = a->block_id;
	facts->flags = HMEM_FACT_VMM;
	facts->flags |= on_host ? HMEM_FACT_ON_HOST | HMEM_FACT_HOST_ACCESS : 0;
	facts->flags |= !on_host && !prop->flags.rdma ? HMEM_FACT_NO_RDMA : 0;
	facts->device = on_host ? HMEM_NO_DEVICE : device->handle;
	if (mapping_of(device, (uintptr_t)addr, a)) {
		facts->base = a->map_base;
		facts->len = a->map_size;
	} else {
		facts->flags |= HMEM_FACT_NO_RANGE;
		facts->base = (uintptr_t)addr;
		facts->len = 1;
	}
	return 0;
}

/* ---- the rest ---- */

static int host_facts(const void *addr, const struct answers *a, struct hmem_facts *facts)
{
	if (a->host && a->host != addr) {
		HM_WARN(FI_LOG_MR,
			"%p is where devices see host memory at %p; it is registered by the latter",
			addr, a->host);
		return -FI_EINVAL;
	}
	facts->flags = HMEM_FACT_ON_HOST | HMEM_FACT_HOST_ACCESS;
	facts->device = HMEM_NO_DEVICE;
	return 0;
}

static uint32_t device_flags(cu_ptr addr, const struct answers *a)
{
	if (a->managed)
		return HMEM_FACT_MANAGED | HMEM_FACT_HOST_ACCESS;
	if (a->pool)
		return HMEM_FACT_POOL |
		       ((a->handle_types & CU_HANDLE_POSIX_FD) && rdma_capable(addr, a)
				? 0
				: HMEM_FACT_NO_EXPORT);
	if (rdma_capable(addr, a))
		return 0;
	return a->legacy_ipc ? HMEM_FACT_NO_RDMA : HMEM_FACT_IMPORTED;
}

static int device_facts(const void *addr, const struct answers *a, struct hmem_facts *facts)
{
	struct cuda_device *device = cuda_ordinal(a->ordinal);

	if (!device) {
		HM_WARN(FI_LOG_MR, "%p: CUDA says that it is of device %d, which is none", addr,
			a->ordinal);
		return -FI_EIO;
	}
	facts->device = device->handle;
	facts->flags = device_flags((uintptr_t)addr, a);
	return 0;
}

static void set_range(const void *addr, const struct answers *a, struct hmem_facts *facts)
{
	cu_ptr at = (uintptr_t)addr;

	facts->base = a->start;
	facts->len = a->size;
	if (a->size != 0 && at >= a->start && at - a->start < a->size)
		return;
	facts->flags |= HMEM_FACT_NO_RANGE;
	facts->base = at;
	facts->len = 1;
}

static int only_reserved(const void *addr)
{
	HM_WARN(FI_LOG_MR, "%p is in a range of cuMemAddressReserve where nothing is mapped", addr);
	return -FI_EINVAL;
}

/* By attributes alone, before cuMemRetainAllocationHandle is worth a call. */
static bool may_be_mapped(const struct answers *a)
{
	return !a->managed && !a->legacy_ipc && !a->pool;
}

int cuda_look(const void *addr, struct hmem_facts *facts)
{
	struct cu_memory_prop prop;
	struct answers a;
	int ret = ask((uintptr_t)addr, &a);

	if (ret != 0)
		return ret;
	if (a.type == 0 && !a.managed)
		return a.size != 0 && !a.mapped ? only_reserved(addr) : -FI_ENOENT;
	if (a.told < MANUAL && !ask_one((uintptr_t)addr, CU_PTR_POOL, &a.pool))
		a.pool = NULL;
	*facts = (struct hmem_facts){ .id = a.id };
	if (may_be_mapped(&a)) {
		ret = ask_mapped(addr, &prop);
		if (ret == 0)
			return mapped_facts(addr, &a, &prop, facts);
		if (ret != -FI_ENOENT)
			return ret;
		if (!a.mapped && a.size != 0 && a.type != CU_MEMORY_HOST)
			return only_reserved(addr);
	}
	ret = a.type == CU_MEMORY_HOST && !a.managed ? host_facts(addr, &a, facts)
						     : device_facts(addr, &a, facts);
	if (ret == 0)
		set_range(addr, &a, facts);
	return ret;
}

/* ---- for a cache, at every lookup: one call for what the driver tells in one ---- */

/* The mapping at addr and what is mapped there; false: not all of it is told. */
static bool ask_mapping(cu_ptr addr, struct answers *a)
{
	bool told = a->told == ALL || (ask_one(addr, CU_PTR_BLOCK_ID, &a->block_id) &&
				       ask_one(addr, CU_PTR_MAPPING_BASE, &a->map_base) &&
				       ask_one(addr, CU_PTR_MAPPING_SIZE, &a->map_size));

	return told && a->block_id != 0 && addr >= a->map_base && addr - a->map_base < a->map_size;
}

/* BUFFER_ID may be that of the addresses, which stays when other memory is mapped there. */
static void own_mapping(const struct answers *a, struct hmem_facts *facts)
{
	facts->id = a->id ^ (a->block_id << 32 | a->block_id >> 32);
	facts->base = a->map_base;
	facts->len = a->map_size;
	facts->flags &= ~HMEM_FACT_NO_RANGE;
}

/* Of a device, and not of cuMemAlloc. */
static const char *own_other(cu_ptr addr, struct answers *a, struct hmem_facts *facts)
{
	if (a->pool)
		return "stream-ordered pools give the same memory out again";
	if (!rdma_capable(addr, a))
		return "memory of another process, or made without what NICs need";
	if (!ask_mapping(addr, a))
		return "this driver does not tell what is mapped at an address";
	own_mapping(a, facts);
	return NULL;
}

int cuda_own(const void *addr, struct hmem_facts *facts, const char **why)
{
	cu_ptr at = (uintptr_t)addr;
	struct cuda_device *device;
	struct answers a;
	int ret = ask(at, &a);

	if (ret != 0)
		return ret;
	if (a.type == 0 && !a.managed) /* only reserved, which registration tells */
		return a.size != 0 && !a.mapped ? -FI_EINVAL : -FI_ENOENT;
	*facts = (struct hmem_facts){ .id = a.id, .device = HMEM_NO_DEVICE };
	set_range(addr, &a, facts);
	if (a.type == CU_MEMORY_HOST && !a.managed) {
		facts->flags |= HMEM_FACT_ON_HOST;
		if (!a.legacy_ipc && ask_mapping(at, &a))
			own_mapping(&a, facts);
		return 0;
	}
	device = cuda_ordinal(a.ordinal);
	if (!device)
		return -FI_EIO; /* registration tells */
	facts->device = device->handle;
	if (a.managed || a.legacy_ipc)
		return 0;
	if (a.told < MANUAL && !ask_one(at, CU_PTR_POOL, &a.pool))
		a.pool = NULL;
	*why = own_other(at, &a, facts);
	facts->id = *why ? 0 : facts->id;
	return 0;
}
