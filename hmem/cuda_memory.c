/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation, host memory made fast to copy, synchronous memory operations, flushes, the PCI window. */
#include "hmem/cuda_priv.h"

#include <rdma/fi_errno.h>

#include "core/base/dl.h"
#include "core/base/refusal.h"

/* ---- synchronous memory operations ---- */

/*
 * A driver copy that "is done" may still be on its way to the memory, where a NIC then reads old bytes;
 * "GPUDirect RDMA" wants SYNC_MEMOPS set on memory that is registered.  The driver offers it for the
 * classic allocators alone.
 */
static int set_sync(struct cuda_device *device, const void *addr, cu_result *result)
{
	const unsigned int on = 1;
	struct cuda_scope scope;
	int ret = cuda_enter(device, &scope);

	if (ret != 0)
		return ret;
	*result = cu.ptr_set(&on, CU_PTR_SYNC_MEMOPS, (uintptr_t)addr);
	cuda_leave(&scope);
	return 0;
}

/* Once per kind as a warning, since a program may register thousands. */
static void say_not_synchronous(const struct hmem_memory *memory, const void *addr)
{
	static atomic_bool said[HMEM_KINDS];
	enum fi_log_level level = atomic_exchange(&said[memory->kind], true) ? FI_LOG_INFO
									     : FI_LOG_WARN;

	HM_LOG(level, FI_LOG_MR,
	       "%p: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS cannot be set for %s memory: synchronize the "
	       "stream of every copy or memset of it before a transfer",
	       addr,
	       memory->kind == HMEM_POOL  ? "a pool's"
	       : memory->kind == HMEM_VMM ? "mapped"
					  : "this");
}

int cuda_prepare(const struct hmem_memory *memory, const void *addr, size_t len)
{
	struct cuda_device *device = cuda_device_of(memory->device);
	cu_result result = CU_OK;
	int ret;

	(void)len; /* mapped memory, which may be of several allocations, cannot have it anyhow */
	if (!device || memory->kind == HMEM_MANAGED || (memory->ways & HMEM_WAY_HOST))
		return 0;
	ret = set_sync(device, addr, &result);
	if (ret != 0 || result == CU_OK)
		return ret;
	if (result == CU_NOT_SUPPORTED ||
	    (result == CU_INVALID_VALUE && memory->kind != HMEM_DEVICE)) {
		say_not_synchronous(memory, addr);
		return 0;
	}
	return cuda_failed(result, "cuPointerSetAttribute", "SYNC_MEMOPS at %p", addr);
}

/* ---- host memory ---- */

/* In a context of some device: the memory is registered for all of them. */
int cuda_host_register(void *addr, size_t len)
{
	struct cuda_scope scope;
	cu_result result;
	int ret = cuda_enter(cuda_any_device(), &scope);

	if (ret != 0)
		return ret;
	result = cu.host_register(addr, len, CU_HOST_PORTABLE);
	cuda_leave(&scope);
	return result == CU_OK
		       ? 0
		       : cuda_failed(result, "cuMemHostRegister", "%zu bytes at %p", len, addr);
}

int cuda_host_unregister(void *addr)
{
	struct cuda_scope scope;
	cu_result result;
	int ret = cuda_enter(cuda_any_device(), &scope);

	if (ret != 0)
		return ret;
	result = cu.host_unregister(addr);
	cuda_leave(&scope);
	return result == CU_OK ? 0 : cuda_failed(result, "cuMemHostUnregister", "%p", addr);
}

/* ---- allocation ---- */

static cu_result allocate(size_t len, enum hmem_alloc how, void **addr, const char **call)
{
	cu_ptr made = 0;
	cu_result result;

	if (how == HMEM_ALLOC_HOST) {
		*call = "cuMemHostAlloc";
		return cu.host_alloc(addr, len, CU_HOST_PORTABLE);
	}
	*call = how == HMEM_ALLOC_MANAGED ? "cuMemAllocManaged" : "cuMemAlloc";
	result = how == HMEM_ALLOC_MANAGED ? cu.managed_alloc(&made, len, CU_ATTACH_GLOBAL)
					   : cu.alloc(&made, len);
	if (result == CU_OK)
		*addr = (void *)(uintptr_t)made;
	return result;
}

static int enter_named(int device, struct cuda_scope *scope)
{
	struct cuda_device *named = cuda_device_of(device);

	if (named)
		return cuda_enter(named, scope);
	HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_DEVICE_UNKNOWN, "cuda has no device %d", device);
	return -FI_ENODEV;
}

int cuda_alloc(int device, size_t len, enum hmem_alloc how, void **addr)
{
	struct cuda_scope scope;
	const char *call;
	cu_result result;
	int ret = enter_named(device, &scope);

	if (ret != 0)
		return ret;
	result = allocate(len, how, addr, &call);
	cuda_leave(&scope);
	return result == CU_OK ? 0
			       : cuda_failed(result, call, "%zu bytes on device %d", len, device);
}

int cuda_free(int device, void *addr, enum hmem_alloc how)
{
	bool host = how == HMEM_ALLOC_HOST;
	struct cuda_scope scope;
	cu_result result;
	int ret = enter_named(device, &scope);

	if (ret != 0)
		return ret;
	result = host ? cu.host_free(addr) : cu.free((uintptr_t)addr);
	cuda_leave(&scope);
	return result == CU_OK
		       ? 0
		       : cuda_failed(result, host ? "cuMemFreeHost" : "cuMemFree", "%p", addr);
}

/* ---- what NICs wrote ---- */

/*
 * A kernel that sees the host's word of a NIC's write may still read old bytes, where the device does not keep
 * the order by itself.  A driver that does not know the attribute (before CUDA 11.3) does not promise it.
 */
bool cuda_needs_flush(int device)
{
	int order = CU_ORDER_NONE;

	return cu.device_attr(&order, CU_DEV_RDMA_ORDER, device) != CU_OK || order < CU_ORDER_OWNER;
}

static bool can_flush(int device)
{
	int options = 0;

	return cu.flush && cu.device_attr(&options, CU_DEV_RDMA_FLUSH, device) == CU_OK &&
	       (options & CU_FLUSH_BY_HOST);
}

int cuda_flush(int device)
{
	struct cuda_scope scope;
	cu_result result;
	int ret;

	if (!can_flush(device)) {
		HM_WARN(FI_LOG_MR,
			"cuda device %d sees a NIC's writes in no order, and this driver has no "
			"cuFlushGPUDirectRDMAWrites for it (CUDA 11.3)",
			device);
		return -FI_EOPNOTSUPP;
	}
	ret = enter_named(device, &scope);
	if (ret != 0)
		return ret;
	result = cu.flush(CU_FLUSH_CONTEXT, CU_FLUSH_TO_OWNER);
	cuda_leave(&scope);
	return result == CU_OK
		       ? 0
		       : cuda_failed(result, "cuFlushGPUDirectRDMAWrites", "device %d", device);
}

/* ---- the PCI window ---- */

static struct {
	unsigned int (*init)(void);
	unsigned int (*device)(const char *pci, nvml_device *device);
	unsigned int (*window)(nvml_device device, struct nvml_window *window);
	const char *(*error_text)(unsigned int error);
	bool ready;
} nvml;

static void start_nvml(void)
{
	static const struct hm_dl_symbol symbols[] = {
#define NVML_SYMBOL(member, symbol, args) { #symbol, (void **)&nvml.member, NULL, 0 },
		NVML_FUNCTIONS(NVML_SYMBOL)
	};
	char reason[160];
	unsigned int error;

	if (hm_dl_load("libnvidia-ml.so.1", symbols, sizeof(symbols) / sizeof(symbols[0]), reason,
		       sizeof(reason)) != 0) {
		HM_INFO(FI_LOG_CORE, "the PCI windows of CUDA devices are unknown: %s", reason);
		return;
	}
	error = nvml.init();
	nvml.ready = error == 0;
	if (!nvml.ready)
		HM_WARN(FI_LOG_CORE,
			"nvmlInit: %s (%u): the PCI windows of CUDA devices are unknown",
			nvml.error_text(error), error);
}

void cuda_window(struct hmem_device *device)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct nvml_window window;
	nvml_device handle;
	unsigned int error;

	device->window_known = false;
	pthread_once(&once, start_nvml);
	if (!nvml.ready)
		return;
	error = nvml.device(device->pci, &handle);
	if (error == 0)
		error = nvml.window(handle, &window);
	if (error != 0) {
		HM_WARN(FI_LOG_CORE, "nvmlDeviceGetBAR1MemoryInfo, %s: %s (%u)", device->pci,
			nvml.error_text(error), error);
		return;
	}
	device->window = window.total;
	device->window_free = window.free;
	device->window_known = true;
}
