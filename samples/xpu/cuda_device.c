/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See device.h: a CUDA device by the driver's interface, which is loaded when it is wanted.  Kernels come from
 * the image that nvcc made of this program's.
 *
 * A kernel waits for what the library's engine does meanwhile, which may be copies, so that these must not wait
 * for kernels: streams are apart from the default one, and code is loaded before the first kernel runs.
 */
#include "device.h"

#ifdef XPU_WITH_CUDA

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>

/* In what hmreg_xpu_kernels() of CMake adds to the program. */
extern const unsigned char xpu_cuda_image[];

/* The driver's functions, by the names that cuda.h gives them. */
#define DRIVER(X)                                                                                  \
	X(cuInit)                                                                                  \
	X(cuGetErrorName)                                                                          \
	X(cuDeviceGet)                                                                             \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuDevicePrimaryCtxRelease)                                                               \
	X(cuCtxPushCurrent)                                                                        \
	X(cuCtxPopCurrent)                                                                         \
	X(cuStreamCreate)                                                                          \
	X(cuStreamDestroy)                                                                         \
	X(cuStreamQuery)                                                                           \
	X(cuStreamSynchronize)                                                                     \
	X(cuMemAlloc)                                                                              \
	X(cuMemFree)                                                                               \
	X(cuMemsetD8Async)                                                                         \
	X(cuMemcpyHtoDAsync)                                                                       \
	X(cuMemcpyDtoHAsync)                                                                       \
	X(cuModuleLoadData)                                                                        \
	X(cuModuleUnload)                                                                          \
	X(cuModuleGetFunction)                                                                     \
	X(cuLaunchKernel)

#define TEXT(name)    TEXT_OF(name) /* of what name stands for, such as cuMemAlloc_v2 */
#define TEXT_OF(name) #name

static struct {
#define MEMBER(name) __typeof__(name) *name;
	DRIVER(MEMBER)
#undef MEMBER
} cu;

struct cuda {
	struct xpu_device device;
	CUdevice number;
	CUcontext context; /* the primary one, which is the library's, too */
	CUstream kernels, copies;
	CUmodule module;
	bool stuck; /* a kernel did not end: what waits for it would not, either */
};

static struct cuda *cuda_of(struct xpu_device *device)
{
	return (struct cuda *)device;
}

static int failed(const char *call, CUresult result)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return 0;
	cu.cuGetErrorName(result, &name);
	fprintf(stderr, "%s: %s (%d)\n", call, name ? name : "?", (int)result);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? -FI_ENOMEM : -FI_EIO;
}

/* Once; later calls answer as the first did. */
static int load_driver(void)
{
	static const struct {
		const char *name;
		void **slot;
	} functions[] = {
#define ENTRY(name) { TEXT(name), (void **)&cu.name },
		DRIVER(ENTRY)
#undef ENTRY
	};
	static bool loaded;
	void *library;

	if (loaded)
		return 0;
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		printf("skipped: no CUDA driver: %s\n", dlerror());
		return -FI_ENODEV;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		*functions[i].slot = dlsym(library, functions[i].name);
		if (!*functions[i].slot) {
			printf("skipped: the CUDA driver has no %s\n", functions[i].name);
			return -FI_ENODEV;
		}
	}
	/*
	 * Code that were loaded at its first launch would wait for kernels that run, and so would a copy whose
	 * stream shares a queue of the hardware with a kernel's.
	 */
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	loaded = cu.cuInit(0) == CUDA_SUCCESS;
	if (!loaded)
		puts("skipped: the CUDA driver does not start");
	return loaded ? 0 : -FI_ENODEV;
}

/* ---- memory ---- */

/* The copy that was started with result is done; the context is current no more. */
static int finish(struct cuda *cuda, const char *call, CUresult result)
{
	CUcontext popped;

	if (result == CUDA_SUCCESS)
		result = cu.cuStreamSynchronize(cuda->copies);
	cu.cuCtxPopCurrent(&popped);
	return failed(call, result);
}

static int cuda_alloc(struct xpu_device *device, size_t len, struct xpu_memory *memory)
{
	struct cuda *cuda = cuda_of(device);
	CUdeviceptr at = 0;
	CUresult result;
	int ret;

	cu.cuCtxPushCurrent(cuda->context);
	result = cu.cuMemAlloc(&at, len);
	if (result == CUDA_SUCCESS)
		result = cu.cuMemsetD8Async(at, 0, len, cuda->copies);
	ret = finish(cuda, "cuMemAlloc", result);
	if (!ret)
		*memory = (struct xpu_memory){ (unsigned char *)at, (unsigned char *)at, len };
	return ret;
}

static void cuda_free(struct xpu_device *device, struct xpu_memory *memory)
{
	struct cuda *cuda = cuda_of(device);
	CUcontext popped;

	if (cuda->stuck)
		return;
	cu.cuCtxPushCurrent(cuda->context);
	failed("cuMemFree", cu.cuMemFree((CUdeviceptr)memory->on_device));
	cu.cuCtxPopCurrent(&popped);
}

static int cuda_write(struct xpu_device *device, void *on_host, const void *from, size_t len)
{
	struct cuda *cuda = cuda_of(device);

	cu.cuCtxPushCurrent(cuda->context);
	return finish(cuda, "cuMemcpyHtoDAsync",
		      cu.cuMemcpyHtoDAsync((CUdeviceptr)on_host, from, len, cuda->copies));
}

static int cuda_read(struct xpu_device *device, void *to, const void *on_host, size_t len)
{
	struct cuda *cuda = cuda_of(device);

	cu.cuCtxPushCurrent(cuda->context);
	return finish(cuda, "cuMemcpyDtoHAsync",
		      cu.cuMemcpyDtoHAsync(to, (CUdeviceptr)on_host, len, cuda->copies));
}

/* ---- kernels ---- */

static int cuda_launch(struct xpu_device *device, const char *name, void (*kernel)(void *args),
		       const void *args, size_t len, unsigned blocks, unsigned threads)
{
	struct cuda *cuda = cuda_of(device);
	void *parameters[] = { (void *)args };
	CUcontext popped;
	CUfunction code;
	CUresult result;

	(void)kernel;
	(void)len; /* the image has it */
	cu.cuCtxPushCurrent(cuda->context);
	result = cu.cuModuleGetFunction(&code, cuda->module, name);
	if (result == CUDA_SUCCESS)
		result = cu.cuLaunchKernel(code, blocks, 1, 1, threads, 1, 1, 0, cuda->kernels,
					   parameters, NULL);
	cu.cuCtxPopCurrent(&popped);
	return failed(name, result);
}

static int cuda_wait(struct xpu_device *device, int timeout)
{
	static const struct timespec pause = { .tv_nsec = 100000 };
	struct cuda *cuda = cuda_of(device);
	CUcontext popped;
	CUresult result;
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	cu.cuCtxPushCurrent(cuda->context);
	while ((result = cu.cuStreamQuery(cuda->kernels)) == CUDA_ERROR_NOT_READY) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		cuda->stuck = timeout >= 0 &&
			      (now.tv_sec - begin.tv_sec) * 1000 +
					      (now.tv_nsec - begin.tv_nsec) / 1000000 >
				      timeout;
		if (cuda->stuck)
			break;
		nanosleep(&pause, NULL);
	}
	cu.cuCtxPopCurrent(&popped);
	return cuda->stuck ? sample_fail("a kernel on the CUDA device", -FI_ETIMEDOUT)
			   : failed("a kernel on the CUDA device", result);
}

/* ---- the device ---- */

static void cuda_close(struct xpu_device *device)
{
	struct cuda *cuda = cuda_of(device);
	CUcontext popped;

	if (cuda->stuck)
		return; /* the process will end, and it with it */
	if (cuda->context && cu.cuCtxPushCurrent(cuda->context) == CUDA_SUCCESS) {
		if (cuda->module)
			cu.cuModuleUnload(cuda->module);
		if (cuda->kernels)
			cu.cuStreamDestroy(cuda->kernels);
		if (cuda->copies)
			cu.cuStreamDestroy(cuda->copies);
		cu.cuCtxPopCurrent(&popped);
	}
	if (cuda->context)
		cu.cuDevicePrimaryCtxRelease(cuda->number);
	free(cuda);
}

static const struct xpu_device_ops cuda_ops = {
	.alloc = cuda_alloc,
	.free = cuda_free,
	.write = cuda_write,
	.read = cuda_read,
	.launch = cuda_launch,
	.wait = cuda_wait,
	.close = cuda_close,
};

static CUresult start(struct cuda *cuda)
{
	CUresult result = cu.cuDevicePrimaryCtxRetain(&cuda->context, cuda->number);
	CUcontext popped;

	if (result != CUDA_SUCCESS)
		return result;
	result = cu.cuCtxPushCurrent(cuda->context);
	if (result != CUDA_SUCCESS)
		return result;
	result = cu.cuStreamCreate(&cuda->kernels, CU_STREAM_NON_BLOCKING);
	if (result == CUDA_SUCCESS)
		result = cu.cuStreamCreate(&cuda->copies, CU_STREAM_NON_BLOCKING);
	if (result == CUDA_SUCCESS)
		result = cu.cuModuleLoadData(&cuda->module, xpu_cuda_image);
	cu.cuCtxPopCurrent(&popped);
	return result;
}

int cuda_device_open(int number, struct xpu_device **device)
{
	struct cuda *cuda;
	CUdevice of;
	int ret = load_driver();

	if (ret)
		return ret;
	if (cu.cuDeviceGet(&of, number) != CUDA_SUCCESS) {
		printf("skipped: there is no CUDA device %d\n", number);
		return -FI_ENODEV;
	}
	cuda = calloc(1, sizeof(*cuda));
	if (!cuda)
		return sample_fail("opening a CUDA device", -FI_ENOMEM);
	cuda->number = of;
	cuda->device = (struct xpu_device){
		.ops = &cuda_ops,
		/* no operations: the library has its own for this interface */
		.attr = { .iface = FI_HMEM_CUDA, .device = (uint64_t)number },
		.place = { .iface = FI_HMEM_CUDA, .device = number },
		.name = "cuda",
		.subgroup = 32,
	};
	ret = failed("opening the CUDA device", start(cuda));
	if (ret) {
		cuda_close(&cuda->device);
		return ret;
	}
	*device = &cuda->device;
	return 0;
}

#else

int cuda_device_open(int number, struct xpu_device **device)
{
	(void)number;
	(void)device;
	puts("skipped: this program was built without nvcc, so it has no CUDA kernels");
	return -FI_ENODEV;
}

#endif
