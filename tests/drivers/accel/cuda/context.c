/* SPDX-License-Identifier: BSD-2-Clause */
/* Start, errors, and the contexts of threads: a stack per thread, a primary context per device. */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PUSHED 32

const char accel_driver[] = "CUDA";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* contexts, retained, alive */
static struct CUctx_st primaries[EMU_MOST_DEVICES];
static struct CUctx_st *contexts; /* made by programs; never freed, so that a stale one is told */
static atomic_bool started;
static _Thread_local struct CUctx_st *pushed[MOST_PUSHED];
static _Thread_local size_t depth;

bool emu_started(void)
{
	return atomic_load(&started);
}

cu_result cuInit(unsigned int flags)
{
	cu_result result = (cu_result)accel_call("cuInit");

	if (result != CU_OK)
		return result;
	if (flags != 0)
		return CU_INVALID_VALUE;
	if (emu_devices() == 0)
		return CU_NO_DEVICE;
	atomic_store(&started, true);
	return CU_OK;
}

cu_result cuDriverGetVersion(int *version)
{
	cu_result result = (cu_result)accel_call("cuDriverGetVersion");

	if (result == CU_OK)
		*version = (int)accel_setting("version", 13000);
	return result;
}

static const struct {
	cu_result code;
	const char *name, *text;
} errors[] = {
	{ CU_OK, "CUDA_SUCCESS", "no error" },
	{ CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CU_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down" },
	{ CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access" },
	{ CU_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ CU_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	  "part or all of the requested memory range is already mapped" },
	{ CU_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	  "pointer does not correspond to a registered memory region" },
	{ CU_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted" },
	{ CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ CU_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

/* As the real one: text NULL for a number that is no error. */
static cu_result describe(cu_result error, const char **out, bool name)
{
	*out = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*out = name ? errors[i].name : errors[i].text;
	return *out ? CU_OK : CU_INVALID_VALUE;
}

cu_result cuGetErrorName(cu_result error, const char **text)
{
	return describe(error, text, true);
}

cu_result cuGetErrorString(cu_result error, const char **text)
{
	return describe(error, text, false);
}

/* ---- current ---- */

struct CUctx_st *emu_current(void)
{
	return depth > 0 && emu_context_alive(pushed[depth - 1]) ? pushed[depth - 1] : NULL;
}

static bool known(const struct CUctx_st *context)
{
	const struct CUctx_st *c = contexts;

	if (context >= primaries && context < primaries + EMU_MOST_DEVICES)
		return true;
	while (c && c != context)
		c = c->next;
	return c != NULL;
}

bool emu_context_alive(const struct CUctx_st *context)
{
	bool alive;

	pthread_mutex_lock(&lock);
	alive = known(context) && (context->primary ? context->retained > 0 : context->alive);
	pthread_mutex_unlock(&lock);
	return alive;
}

cu_result cuCtxGetCurrent(cu_context *context)
{
	EMU_CALL(cuCtxGetCurrent);
	*context = depth > 0 ? pushed[depth - 1] : NULL;
	return CU_OK;
}

cu_result cuCtxSetCurrent(cu_context context)
{
	EMU_CALL(cuCtxSetCurrent);
	if (context && !emu_context_alive(context))
		return CU_INVALID_CONTEXT;
	if (depth > 0)
		depth--;
	if (context)
		pushed[depth++] = context;
	return CU_OK;
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
	EMU_CALL(cuCtxPushCurrent_v2);
	if (!emu_context_alive(context) || depth == MOST_PUSHED)
		return CU_INVALID_CONTEXT;
	pushed[depth++] = context;
	return CU_OK;
}

cu_result cuCtxPopCurrent_v2(cu_context *context)
{
	EMU_CALL(cuCtxPopCurrent_v2);
	if (depth == 0)
		return CU_INVALID_CONTEXT;
	depth--;
	if (context)
		*context = pushed[depth];
	return CU_OK;
}

cu_result cuCtxGetDevice(cu_device *device)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuCtxGetDevice, context);
	return cuDeviceGet(device, context->ordinal);
}

cu_result cuCtxSynchronize(void)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuCtxSynchronize, context);
	return emu_drain(NULL);
}

/* ---- made by programs ---- */

static cu_result make_context(cu_context *out, cu_device device)
{
	struct CUctx_st *context;
	int ordinal = emu_ordinal(device);

	if (ordinal < 0)
		return CU_INVALID_DEVICE;
	context = calloc(1, sizeof(*context));
	if (!context || depth == MOST_PUSHED) {
		free(context);
		return CU_OUT_OF_MEMORY;
	}
	context->ordinal = ordinal;
	context->alive = true;
	pthread_mutex_lock(&lock);
	context->next = contexts;
	contexts = context;
	pthread_mutex_unlock(&lock);
	accel_live("context", 1);
	pushed[depth++] = context;
	*out = context;
	return CU_OK;
}

cu_result cuCtxCreate_v2(cu_context *context, unsigned int flags, cu_device device)
{
	EMU_CALL(cuCtxCreate_v2);
	(void)flags;
	return make_context(context, device);
}

cu_result cuCtxCreate_v4(cu_context *context, struct cu_ctx_params *params, unsigned int flags,
			 cu_device device)
{
	EMU_CALL(cuCtxCreate_v4);
	(void)flags;
	if (params && (params->affinities != 0 || params->cig))
		return CU_NOT_SUPPORTED;
	return make_context(context, device);
}

cu_result cuCtxDestroy_v2(cu_context context)
{
	EMU_CALL(cuCtxDestroy_v2);
	if (!emu_context_alive(context) || context->primary)
		return CU_INVALID_CONTEXT;
	emu_drain(NULL);
	pthread_mutex_lock(&lock);
	context->alive = false;
	pthread_mutex_unlock(&lock);
	accel_live("context", -1);
	emu_drop_all(context);
	if (depth > 0 && pushed[depth - 1] == context)
		depth--;
	return CU_OK;
}

/* ---- primary ---- */

cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device)
{
	int ordinal = emu_ordinal(device);
	bool first;

	EMU_CALL(cuDevicePrimaryCtxRetain);
	if (ordinal < 0)
		return CU_INVALID_DEVICE;
	*context = &primaries[ordinal];
	pthread_mutex_lock(&lock);
	primaries[ordinal].ordinal = ordinal;
	primaries[ordinal].primary = true;
	first = primaries[ordinal].retained++ == 0;
	pthread_mutex_unlock(&lock);
	if (first)
		accel_live("primary", 1);
	return CU_OK;
}

static cu_result unretain(int ordinal, bool all)
{
	unsigned int before;

	if (ordinal < 0)
		return CU_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	before = primaries[ordinal].retained;
	primaries[ordinal].retained = before == 0 || all ? 0 : before - 1;
	pthread_mutex_unlock(&lock);
	if (before == 1 || (before > 0 && all)) {
		emu_drain(NULL);
		accel_live("primary", -1);
		emu_drop_all(&primaries[ordinal]);
	}
	return before > 0 || all ? CU_OK : CU_INVALID_CONTEXT;
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device device)
{
	EMU_CALL(cuDevicePrimaryCtxRelease_v2);
	return unretain(emu_ordinal(device), false);
}

cu_result cuDevicePrimaryCtxReset_v2(cu_device device)
{
	EMU_CALL(cuDevicePrimaryCtxReset_v2);
	return unretain(emu_ordinal(device), true);
}

cu_result cuDevicePrimaryCtxGetState(cu_device device, unsigned int *flags, int *active)
{
	int ordinal = emu_ordinal(device);

	EMU_CALL(cuDevicePrimaryCtxGetState);
	if (ordinal < 0)
		return CU_INVALID_DEVICE;
	*flags = 0;
	*active = emu_context_alive(&primaries[ordinal]);
	return CU_OK;
}

cu_result cuCtxEnablePeerAccess(cu_context peer, unsigned int flags)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuCtxEnablePeerAccess, context);
	if (flags != 0)
		return CU_INVALID_VALUE;
	return emu_context_alive(peer) && peer != context ? CU_OK : CU_INVALID_CONTEXT;
}
