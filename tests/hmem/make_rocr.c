/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory made by AMD's ROCr. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/drivers/accel/rocr/abi.h"
#include "tests/hmem/maker.h"

#define MOST  64
#define PIECE (1u << 20)

#define MEMBER(result, name, parameters) static result(*name) parameters;
ROCR_ALL_FUNCTIONS(MEMBER)
#undef MEMBER

static void *library;
static rocr_agent gpus[MOST], cpu;
static rocr_pool device_pools[MOST], host_pool;
static size_t gpu_count;
static char *bounce; /* host memory that all devices reach */

/* ---- the machine ---- */

static rocr_status keep_pool(rocr_pool pool, void *data)
{
	rocr_pool *kept = data;
	uint32_t segment = 1, flags = 0;
	bool allocates = false;

	hsa_amd_memory_pool_get_info(pool, ROCR_POOL_SEGMENT, &segment);
	if (segment != ROCR_SEGMENT_GLOBAL)
		return ROCR_SUCCESS;
	hsa_amd_memory_pool_get_info(pool, ROCR_POOL_GLOBAL_FLAGS, &flags);
	hsa_amd_memory_pool_get_info(pool, ROCR_POOL_ALLOC_ALLOWED, &allocates);
	if (allocates && (!kept->handle || (flags & ROCR_POOL_FLAG_COARSE)))
		*kept = pool;
	return ROCR_SUCCESS;
}

static rocr_status keep_agent(rocr_agent agent, void *data)
{
	uint32_t type = ROCR_DEVICE_CPU;

	(void)data;
	hsa_agent_get_info(agent, ROCR_AGENT_DEVICE, &type);
	if (type == ROCR_DEVICE_GPU && gpu_count < MOST) {
		gpus[gpu_count] = agent;
		return hsa_amd_agent_iterate_memory_pools(agent, keep_pool,
							  &device_pools[gpu_count++]);
	}
	if (type != ROCR_DEVICE_CPU || cpu.handle)
		return ROCR_SUCCESS;
	cpu = agent;
	return hsa_amd_agent_iterate_memory_pools(agent, keep_pool, &host_pool);
}

static int make_host(size_t len, void **addr)
{
	rocr_status status = hsa_amd_memory_pool_allocate(host_pool, len, 0, addr);

	if (status == ROCR_SUCCESS)
		status = hsa_amd_agents_allow_access((uint32_t)gpu_count, gpus, NULL, *addr);
	return (int)status;
}

static const char *open_driver(void)
{
	library = dlopen(ROCR_LIBRARY, RTLD_NOW);
	if (!library)
		return dlerror();
#define FIND(result, name, parameters) *(void **)(void *)&name = dlsym(library, #name);
	ROCR_ALL_FUNCTIONS(FIND)
#undef FIND
	if (hsa_init() != ROCR_SUCCESS)
		return "hsa_init fails: no AMD GPU, or no right to open /dev/kfd";
	if (hsa_iterate_agents(keep_agent, NULL) != ROCR_SUCCESS || !gpu_count)
		return "no GPU";
	return make_host(PIECE, (void **)&bounce) == 0 ? NULL : "no host memory";
}

static size_t devices(void)
{
	return gpu_count;
}

static int device(size_t index)
{
	return (int)index;
}

/* ---- kinds ---- */

static const char *cannot(enum make kind, int of)
{
	bool svm = false;
	uint16_t ext = 0;

	(void)of;
	switch (kind) {
	case MAKE_MANAGED:
		hsa_system_get_info(ROCR_SYSTEM_SVM_SUPPORTED, &svm);
		return svm ? NULL : "no managed memory here";
	case MAKE_VMM:
	case MAKE_VMM_HOST:
		hsa_system_get_info(ROCR_SYSTEM_EXT_MINOR, &ext);
		return hsa_amd_vmem_map && ext >= ROCR_EXT_TELLS_VMEM
			       ? NULL
			       : "the runtime is older than telling mapped memory apart";
	case MAKE_VMM_NO_RDMA:
		return "all mapped memory can be reached by NICs";
	case MAKE_POOL:
	case MAKE_POOL_PRIVATE:
		return "the runtime has no stream-ordered pools";
	case MAKE_PRIVATE:
		return "all device memory can be exported";
	default:
		return NULL;
	}
}

static int make_registered(int of, size_t len, struct made *made)
{
	made->addr = aligned_alloc(65536, len);
	return made->addr ? (int)hsa_amd_memory_lock(made->addr, len, &gpus[of], 1, &made->own[0])
			  : (int)ROCR_ERROR_OUT_OF_RESOURCES;
}

static int make_managed(int of, size_t len, struct made *made)
{
	rocr_svm_attribute list[] = { { ROCR_SVM_PREFERRED_LOCATION, gpus[of].handle },
				      { ROCR_SVM_ACCESSIBLE_IN_PLACE, gpus[of].handle } };

	made->addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return (int)hsa_amd_svm_attributes_set(made->addr, len, list, 2);
}

static int make_mapped(rocr_pool pool, int of, size_t len, struct made *made)
{
	rocr_access access[] = { { ROCR_PERMISSION_RW, gpus[of] }, { ROCR_PERMISSION_RW, cpu } };
	size_t half = len / 2, count = pool.handle == host_pool.handle ? 2 : 1;
	rocr_status status = hsa_amd_vmem_address_reserve(&made->addr, len, 0, 0);

	for (size_t i = 0; status == ROCR_SUCCESS && i < 2; i++) {
		char *at = (char *)made->addr + i * half;
		rocr_vmem handle;

		status = hsa_amd_vmem_handle_create(pool, half, ROCR_MEMORY_NONE, 0, &handle);
		if (status == ROCR_SUCCESS)
			status = hsa_amd_vmem_map(at, half, 0, handle, 0);
		if (status == ROCR_SUCCESS)
			status = hsa_amd_vmem_set_access(at, half, access, count);
		made->own[i] = (void *)(uintptr_t)handle.handle;
	}
	return (int)status;
}

static int make_imported(int of, size_t len, struct made *made)
{
	rocr_status status = hsa_amd_memory_pool_allocate(device_pools[of], len, 0, &made->own[0]);
	rocr_ipc handle;

	if (status == ROCR_SUCCESS)
		status = hsa_amd_ipc_memory_create(made->own[0], len, &handle);
	if (status == ROCR_SUCCESS)
		status = hsa_amd_ipc_memory_attach(&handle, len, 1, &gpus[of], &made->addr);
	return (int)status;
}

/* Of a pool: what allocations and mapped pieces are multiples of, and at least a page. */
static size_t granule(rocr_pool pool)
{
	size_t unit = 0;

	hsa_amd_memory_pool_get_info(pool, ROCR_POOL_ALLOC_GRANULE, &unit);
	return unit > 65536 ? unit : 65536;
}

static int make(enum make kind, int of, size_t len, struct made *made)
{
	size_t unit = 2 * granule(device_pools[of]);

	len = (len + unit - 1) / unit * unit;
	made->kind = kind;
	made->device = of;
	made->len = len;
	switch (kind) {
	case MAKE_DEVICE:
		return (int)hsa_amd_memory_pool_allocate(device_pools[of], len, 0, &made->addr);
	case MAKE_HOST:
		return make_host(len, &made->addr);
	case MAKE_REGISTERED:
		return make_registered(of, len, made);
	case MAKE_MANAGED:
		return make_managed(of, len, made);
	case MAKE_VMM:
		return make_mapped(device_pools[of], of, len, made);
	case MAKE_VMM_HOST:
		return make_mapped(host_pool, of, len, made);
	case MAKE_IMPORTED:
		return make_imported(of, len, made);
	default:
		return (int)ROCR_ERROR;
	}
}

static void drop_managed(struct made *made)
{
	rocr_svm_attribute list[] = { { ROCR_SVM_PREFERRED_LOCATION, 0 },
				      { ROCR_SVM_NO_ACCESS, gpus[made->device].handle } };

	hsa_amd_svm_attributes_set(made->addr, made->len, list, 2);
	munmap(made->addr, made->len);
}

static void drop_mapped(struct made *made)
{
	size_t half = made->len / 2;

	for (size_t i = 0; i < 2; i++) {
		hsa_amd_vmem_unmap((char *)made->addr + i * half, half);
		hsa_amd_vmem_handle_release((rocr_vmem){ (uintptr_t)made->own[i] });
	}
	hsa_amd_vmem_address_free(made->addr, made->len);
}

static void drop(struct made *made)
{
	switch (made->kind) {
	case MAKE_REGISTERED:
		hsa_amd_memory_unlock(made->addr);
		free(made->addr);
		break;
	case MAKE_MANAGED:
		drop_managed(made);
		break;
	case MAKE_VMM:
	case MAKE_VMM_HOST:
		drop_mapped(made);
		break;
	case MAKE_IMPORTED:
		hsa_amd_ipc_memory_detach(made->addr);
		hsa_amd_memory_pool_free(made->own[0]);
		break;
	default:
		hsa_amd_memory_pool_free(made->addr);
	}
}

/* ---- bytes ---- */

static bool host_has(const struct made *made)
{
	return made->kind == MAKE_HOST || made->kind == MAKE_REGISTERED ||
	       made->kind == MAKE_MANAGED || made->kind == MAKE_VMM_HOST;
}

/* len bytes between the bounce buffer and the device. */
static int move(const struct made *made, size_t offset, size_t len, bool to_device)
{
	char *there = (char *)made->addr + offset;
	rocr_agent gpu = gpus[made->device];
	rocr_signal done;
	rocr_status status = hsa_signal_create(1, 0, NULL, &done);

	if (status != ROCR_SUCCESS)
		return (int)status;
	status = to_device ? hsa_amd_memory_async_copy(there, gpu, bounce, cpu, len, 0, NULL, done)
			   : hsa_amd_memory_async_copy(bounce, cpu, there, gpu, len, 0, NULL, done);
	if (status == ROCR_SUCCESS &&
	    hsa_signal_wait_scacquire(done, ROCR_CONDITION_LT, 1, UINT64_MAX, ROCR_WAIT_BLOCKED))
		status = ROCR_ERROR;
	hsa_signal_destroy(done);
	return (int)status;
}

static int write_bytes(const struct made *made, size_t offset, const void *from, size_t len)
{
	int ret = 0;

	if (host_has(made)) {
		memcpy((char *)made->addr + offset, from, len);
		return 0;
	}
	for (size_t at = 0; ret == 0 && at < len; at += PIECE) {
		size_t n = len - at < PIECE ? len - at : PIECE;

		memcpy(bounce, (const char *)from + at, n);
		ret = move(made, offset + at, n, true);
	}
	return ret;
}

static int read_bytes(const struct made *made, size_t offset, void *to, size_t len)
{
	int ret = 0;

	if (host_has(made)) {
		memcpy(to, (const char *)made->addr + offset, len);
		return 0;
	}
	for (size_t at = 0; ret == 0 && at < len; at += PIECE) {
		size_t n = len - at < PIECE ? len - at : PIECE;

		ret = move(made, offset + at, n, false);
		memcpy((char *)to + at, bounce, n);
	}
	return ret;
}

static const struct emu_accel_hooks *hooks(void)
{
	return dlsym(library, "emu_accel_hooks");
}

const struct maker make_rocr = {
	.name = "rocr",
	.iface = FI_HMEM_ROCR,
	.open = open_driver,
	.devices = devices,
	.device = device,
	.cannot = cannot,
	.make = make,
	.drop = drop,
	.write = write_bytes,
	.read = read_bytes,
	.hooks = hooks,
};
