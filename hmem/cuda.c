/* SPDX-License-Identifier: BSD-2-Clause */
/* NVIDIA CUDA: the driver, its devices, contexts and errors. */
#include "hmem/cuda_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/dl.h"
#include "core/base/range.h"
#include "core/base/refusal.h"
#include "hmem/known.h"

struct cuda_driver cu;

/* Written by start alone. */
static struct cuda_device *devices;
static size_t device_total;

/* ---- errors ---- */

static const char *error_name(cu_result result)
{
	const char *name = NULL;

	return cu.error_name && cu.error_name(result, &name) == CU_OK && name ? name : "?";
}

static const struct hmem_failure failures[] = {
	{ CU_INVALID_VALUE, -FI_EINVAL, NULL,
	  "the address or length is not what the driver takes; was the memory freed?" },
	{ CU_OUT_OF_MEMORY, -FI_ENOMEM, NULL, "the device or the host has no memory left" },
	{ CU_NOT_INITIALIZED, -FI_EIO, NULL, "the driver was not started" },
	{ CU_DEINITIALIZED, -FI_EIO, NULL,
	  "the driver is shutting down, as it does when a program ends" },
	{ CU_STUB_LIBRARY, -FI_EIO, NULL,
	  "this libcuda.so.1 is the toolkit's stub; the driver's own must come first" },
	{ CU_NO_DEVICE, -FI_ENODEV, NULL,
	  "no GPU: is the kernel module loaded, and does CUDA_VISIBLE_DEVICES name one?" },
	{ CU_INVALID_DEVICE, -FI_ENODEV, NULL, "no such device" },
	{ CU_INVALID_CONTEXT, -FI_EIO, NULL, "the context is gone; was the device reset?" },
	{ CU_CONTEXT_IS_DESTROYED, -FI_EIO, NULL, "the context is gone; was the device reset?" },
	{ CU_ILLEGAL_ADDRESS, -FI_EFAULT, NULL,
	  "the device cannot reach the address; freed, or mapped without access for it?" },
	{ CU_ALREADY_REGISTERED, -FI_EALREADY, NULL,
	  "the memory is registered with the driver already" },
	{ CU_NOT_REGISTERED, -FI_EINVAL, NULL, "the memory is not registered with the driver" },
	{ CU_NOT_PERMITTED, -FI_EPERM, NULL, "the driver does not permit it" },
	{ CU_NOT_SUPPORTED, -FI_EOPNOTSUPP, NULL,
	  "the device or driver cannot do it for this memory" },
	{ CU_DRIVER_MISMATCH, -FI_EIO, NULL,
	  "the kernel module and libcuda.so.1 are of two versions" },
	{ CU_UNKNOWN, -FI_EIO, NULL,
	  "often a device that is lost: see the kernel's log for Xid lines" },
};

static const char *error_cause(cu_result result)
{
	const struct hmem_failure *failure =
		hmem_failure_of(failures, count_of(failures), (int)result);
	const char *text = NULL;

	if (failure)
		return failure->text;
	return cu.error_text && cu.error_text(result, &text) == CU_OK && text
		       ? text
		       : "an error this library does not know";
}

int cuda_failed(cu_result result, const char *call, const char *about, ...)
{
	const struct hmem_failure *failure =
		hmem_failure_of(failures, count_of(failures), (int)result);
	char text[160];
	va_list args;

	va_start(args, about);
	vsnprintf(text, sizeof(text), about, args);
	va_end(args);
	HM_REFUSE(FI_LOG_MR, hmem_cause_of(failure ? failure->ret : -FI_EIO), "%s, %s: %s (%u): %s",
		  call, text, error_name(result), result, error_cause(result));
	return failure ? failure->ret : -FI_EIO;
}

/* ---- start ---- */

static int load(struct hmem_status *status)
{
	static const struct hm_dl_symbol symbols[] = {
#define CUDA_SYMBOL(member, symbol, args) { #symbol, (void **)&cu.member, NULL, 0 },
		CUDA_FUNCTIONS(CUDA_SYMBOL)
#undef CUDA_SYMBOL
#define CUDA_SYMBOL(member, symbol, args) { #symbol, (void **)&cu.member, NULL, 1 },
			CUDA_NEWER(CUDA_SYMBOL) CUDA_WITH_STRUCTS(CUDA_SYMBOL)
#undef CUDA_SYMBOL
	};

	if (hm_dl_load(status->driver, symbols, sizeof(symbols) / sizeof(symbols[0]),
		       status->reason, sizeof(status->reason)) != 0) {
		status->state = HMEM_ABSENT;
		return -FI_ENOSYS;
	}
	hm_dl_path((void *)cu.init, status->driver, sizeof(status->driver));
	return 0;
}

static int not_started(struct hmem_status *status, cu_result result, const char *call)
{
	bool none = result == CU_NO_DEVICE;

	status->state = none ? HMEM_EMPTY : HMEM_FAILED;
	status->cause = result == CU_STUB_LIBRARY      ? HMREG_CAUSE_LIBRARY_STUB
			: result == CU_DRIVER_MISMATCH ? HMREG_CAUSE_MODULE_MISMATCH
			: result == CU_NOT_PERMITTED   ? HMREG_CAUSE_DEVICE_PERMISSION
						       : HMREG_CAUSE_NONE;
	snprintf(status->reason, sizeof(status->reason), "%s: %s (%u): %s", call,
		 error_name(result), result, error_cause(result));
	return none ? -FI_ENODEV : -FI_EIO;
}

static bool attribute(cu_device handle, unsigned int which)
{
	int value = 0;

	return cu.device_attr(&value, which, handle) == CU_OK && value != 0;
}

static void ask_dmabuf(struct cuda_device *device)
{
	struct hmem_device *info = &device->info;

	device->dmabuf = cu.range_handle && attribute(device->handle, CU_DEV_DMA_BUF);
	info->dmabuf = device->dmabuf;
	info->dmabuf_cause = !cu.range_handle  ? HMREG_CAUSE_EXPORT_OLD
			     : !device->dmabuf ? HMREG_CAUSE_EXPORT_UNSUPPORTED
					       : HMREG_CAUSE_NONE;
	if (!cu.range_handle)
		snprintf(info->dmabuf_reason, sizeof(info->dmabuf_reason),
			 "this driver has no cuMemGetHandleForAddressRange (CUDA 11.7)");
	else if (!device->dmabuf)
		snprintf(info->dmabuf_reason, sizeof(info->dmabuf_reason),
			 "DMA_BUF_SUPPORTED is 0: needs the open kernel modules and Linux 5.12");
}

/* No context is made for any of this. */
static cu_result fill_device(struct cuda_device *device, int ordinal)
{
	struct hmem_device *info = &device->info;
	size_t bytes = 0;
	cu_result result = cu.device(&device->handle, ordinal);

	if (result != CU_OK)
		return result;
	pthread_mutex_init(&device->lock, NULL);
	device->ordinal = ordinal;
	info->id = device->handle;
	if (cu.device_name(info->name, sizeof(info->name), device->handle) != CU_OK)
		snprintf(info->name, sizeof(info->name), "CUDA device");
	if (cu.device_pci(info->pci, sizeof(info->pci), device->handle) != CU_OK)
		info->pci[0] = 0;
	for (char *c = info->pci; *c; c++) /* as the kernel writes it */
		*c = (char)(*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
	info->memory = cu.device_memory(&bytes, device->handle) == CU_OK ? bytes : 0;
	ask_dmabuf(device);
	return CU_OK;
}

static int fill_devices(struct hmem_status *status)
{
	cu_result result;
	int count = 0;

	result = cu.device_count(&count);
	if (result != CU_OK)
		return not_started(status, result, "cuDeviceGetCount");
	if (count <= 0)
		return not_started(status, CU_NO_DEVICE, "cuDeviceGetCount");
	devices = calloc((size_t)count, sizeof(*devices));
	if (!devices)
		return not_started(status, CU_OUT_OF_MEMORY, "calloc");
	for (int i = 0; i < count; i++) {
		result = fill_device(&devices[i], i);
		if (result != CU_OK) {
			free(devices);
			devices = NULL;
			return not_started(status, result, "cuDeviceGet");
		}
	}
	device_total = (size_t)count;
	return 0;
}

static int start(struct hmem_status *status)
{
	int version = 0, ret = load(status);
	cu_result result;

	if (ret != 0)
		return ret;
	hmem_cuda.export_unit = (size_t)sysconf(_SC_PAGESIZE);
	result = cu.init(0);
	if (result != CU_OK)
		return not_started(status, result, "cuInit");
	if (cu.version(&version) == CU_OK)
		snprintf(status->version, sizeof(status->version), "CUDA %d.%d", version / 1000,
			 version % 1000 / 10);
	return fill_devices(status);
}

/* ---- devices ---- */

static size_t device_count(void)
{
	return device_total;
}

static int device_info(size_t index, struct hmem_device *info)
{
	if (index >= device_total)
		return -FI_ENODEV;
	*info = devices[index].info;
	cuda_window(info);
	return 0;
}

struct cuda_device *cuda_device_of(int device)
{
	for (size_t i = 0; i < device_total; i++)
		if (devices[i].handle == device)
			return &devices[i];
	return NULL;
}

struct cuda_device *cuda_ordinal(int ordinal)
{
	return ordinal >= 0 && (size_t)ordinal < device_total ? &devices[ordinal] : NULL;
}

struct cuda_device *cuda_any_device(void)
{
	for (size_t i = 0; i < device_total; i++)
		if (atomic_load(&devices[i].context))
			return &devices[i];
	return &devices[0];
}

/* ---- contexts ---- */

int cuda_context(struct cuda_device *device, cu_context *context)
{
	cu_result result = CU_OK;

	*context = atomic_load_explicit(&device->context, memory_order_acquire);
	if (*context)
		return 0;
	pthread_mutex_lock(&device->lock);
	*context = atomic_load(&device->context);
	if (!*context) {
		result = cu.primary_retain(context, device->handle);
		if (result == CU_OK)
			atomic_store(&device->context, *context);
	}
	pthread_mutex_unlock(&device->lock);
	if (result == CU_OK)
		return 0;
	return cuda_failed(result, "cuDevicePrimaryCtxRetain", "device %d", device->handle);
}

/* The program reset the device: what we held of it is gone, and nothing of it is ours to release. */
static void forget_context(struct cuda_device *device, cu_context gone)
{
	pthread_mutex_lock(&device->lock);
	if (atomic_load(&device->context) == gone) {
		atomic_store(&device->stream, NULL);
		atomic_store(&device->context, NULL);
	}
	pthread_mutex_unlock(&device->lock);
}

static bool context_gone(cu_result result)
{
	return result == CU_INVALID_CONTEXT || result == CU_CONTEXT_IS_DESTROYED;
}

int cuda_enter(struct cuda_device *device, struct cuda_scope *scope)
{
	cu_result result = CU_OK;

	for (int attempt = 0; attempt < 2; attempt++) {
		int ret = cuda_context(device, &scope->context);

		if (ret != 0)
			return ret;
		result = cu.ctx_push(scope->context);
		if (!context_gone(result))
			break;
		forget_context(device, scope->context);
	}
	if (result != CU_OK)
		return cuda_failed(result, "cuCtxPushCurrent", "device %d", device->handle);
	return 0;
}

void cuda_leave(const struct cuda_scope *scope)
{
	cu_context popped;
	cu_result result = cu.ctx_pop(&popped);

	/* once more: a context that stays would be the caller's from now on */
	if (result != CU_OK && cu.ctx_current(&popped) == CU_OK && popped == scope->context)
		result = cu.ctx_pop(&popped);
	if (result != CU_OK)
		cuda_failed(result, "cuCtxPopCurrent",
			    "the caller's context may not be the one it was");
}

int cuda_stream(struct cuda_device *device, cu_stream *stream)
{
	cu_result result = CU_OK;

	*stream = atomic_load_explicit(&device->stream, memory_order_acquire);
	if (*stream)
		return 0;
	pthread_mutex_lock(&device->lock);
	*stream = atomic_load(&device->stream);
	if (!*stream) {
		/* apart from the default stream, where a kernel may wait for what we are to bring */
		result = cu.stream_make(stream, CU_STREAM_ALONE);
		if (result == CU_OK)
			atomic_store(&device->stream, *stream);
	}
	pthread_mutex_unlock(&device->lock);
	if (result == CU_OK)
		return 0;
	return cuda_failed(result, "cuStreamCreate", "device %d", device->handle);
}

void cuda_forget_stream(struct cuda_device *device, cu_stream gone)
{
	pthread_mutex_lock(&device->lock);
	if (atomic_load(&device->stream) == gone)
		atomic_store(&device->stream, NULL);
	pthread_mutex_unlock(&device->lock);
}

struct hmem_ops hmem_cuda = {
	.name = "cuda",
	.iface = FI_HMEM_CUDA,
	.start = start,
	.device_count = device_count,
	.device_info = device_info,
	.look = cuda_look,
	.own = cuda_own,
	.prepare = cuda_prepare,
	.copy = cuda_copy,
	.copy_start = cuda_copy_start,
	.copy_end = cuda_copy_end,
	.export_unit = 4096, /* the host's page, which start asks for */
	.export_start = cuda_export_start,
	.export_end = cuda_export_end,
	.host_register = cuda_host_register,
	.host_unregister = cuda_host_unregister,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.kernels_reach_host_alloc = true,
	.flush = cuda_flush,
	.needs_flush = cuda_needs_flush,
};
