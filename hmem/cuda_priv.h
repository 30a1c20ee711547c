/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CUDA interface, inside.
 *
 *   cuda.c         the driver, devices, contexts, errors    cuda_look.c   what an address is
 *   cuda_copy.c    copies                                   cuda_export.c dma-bufs
 *   cuda_memory.c  allocation, registration of host memory, synchronous memory operations, flushes
 *
 * fi_mr_attr.device is a CUdevice, which is what cuDeviceGet gives for an ordinal.  The driver tells
 * ordinals of pointers and of mapped memory; both are translated here and nowhere else.
 *
 * Most calls need a current context.  cuda_enter makes the device's primary context current on this
 * thread and cuda_leave puts the caller's back.  A primary context is retained when it is first needed
 * and stays, since its last release would end a program's memory; a program that resets its device
 * ends it, and the next call retains it anew.
 */
#ifndef HMEM_CUDA_PRIV_H
#define HMEM_CUDA_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/log.h"
#include "hmem/cuda_abi.h"
#include "hmem/hmem.h"

struct cuda_driver {
#define CUDA_MEMBER(member, symbol, args) cu_result(*member) args;
	CUDA_FUNCTIONS(CUDA_MEMBER)
	CUDA_NEWER(CUDA_MEMBER)
	CUDA_WITH_STRUCTS(CUDA_MEMBER)
#undef CUDA_MEMBER
};
extern struct cuda_driver cu;

struct cuda_device {
	cu_device handle;
	int ordinal;
	struct hmem_device info; /* all but the window */
	bool dmabuf;
	pthread_mutex_t lock; /* held while context or stream is made */
	_Atomic(cu_context) context;
	_Atomic(cu_stream) stream; /* of our copies, in context */
};

/* By fi_mr_attr.device or by ordinal; NULL: none. */
struct cuda_device *cuda_device_of(int device);
struct cuda_device *cuda_ordinal(int ordinal);

/*
 * A driver's call failed: one line with the call, what it was about (as printf), the error's name and
 * number, and what it usually means.  Its -FI_E code.
 */
int cuda_failed(cu_result result, const char *call, const char *about, ...)
	__attribute__((format(printf, 3, 4)));

struct cuda_scope {
	cu_context context; /* the device's primary one, current now */
};
/* 0, or an error that is logged. */
int cuda_enter(struct cuda_device *device, struct cuda_scope *scope);
void cuda_leave(const struct cuda_scope *scope);
/* The device's primary context, made if needed. */
int cuda_context(struct cuda_device *device, cu_context *context);
/* Our stream of the device, made if needed; inside cuda_enter. */
int cuda_stream(struct cuda_device *device, cu_stream *stream);
/* The driver does not know it any more: the next cuda_stream makes another. */
void cuda_forget_stream(struct cuda_device *device, cu_stream gone);
/* A device whose context a call about host memory can use: one that we have, else the first's. */
struct cuda_device *cuda_any_device(void);

/* The operations. */
int cuda_look(const void *addr, struct hmem_facts *facts);
int cuda_own(const void *addr, struct hmem_facts *facts, const char **why);
int cuda_prepare(const struct hmem_memory *memory, const void *addr, size_t len);
int cuda_copy(void *dst, int dst_device, const void *src, int src_device, size_t len);
int cuda_copy_start(void *dst, int dst_device, const void *src, int src_device, size_t len,
		    uint64_t *event);
int cuda_copy_end(uint64_t event, bool wait);
int cuda_export_start(const struct hmem_memory *memory, const void *addr, size_t len,
		      uint32_t flags, struct hmem_export *out);
void cuda_export_end(const struct hmem_export *exported);
int cuda_host_register(void *addr, size_t len);
int cuda_host_unregister(void *addr);
int cuda_alloc(int device, size_t len, enum hmem_alloc how, void **addr);
int cuda_free(int device, void *addr, enum hmem_alloc how);
int cuda_flush(int device);
bool cuda_needs_flush(int device);
/* NVML: window, window_free and window_known of a device; nothing where there is no NVML. */
void cuda_window(struct hmem_device *device);

#endif
