/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernels that are written once, for CUDA and for the CPU device:
 *
 *   struct put_args { ... };
 *   XPU_KERNEL(put, struct put_args)
 *   {
 *           if (xpu_thread() == 0)
 *                   ... args.ep ...
 *   }
 *
 * defines the kernel put, whose parameter is args.  XPU_FUNC begins a function that kernels call.
 */
#ifndef XPU_SAMPLE_KERNEL_H
#define XPU_SAMPLE_KERNEL_H

#ifdef __CUDACC__

#include <rdma/fi_xpu_device.h>

#define XPU_KERNEL(name, type) extern "C" __global__ void name(type args)
#define XPU_FUNC	       static __device__ inline

static __device__ inline unsigned xpu_thread(void) /* in its block */
{
	return threadIdx.x;
}

static __device__ inline unsigned xpu_threads(void) /* of a block */
{
	return blockDim.x;
}

static __device__ inline unsigned xpu_block(void)
{
	return blockIdx.x;
}

static __device__ inline unsigned xpu_blocks(void)
{
	return gridDim.x;
}

static __device__ inline void xpu_sync(void) /* all threads of the block have come */
{
	__syncthreads();
}

/* What the first thread says, for all of the block. */
static __device__ inline bool xpu_first(bool value)
{
	return __syncthreads_or(threadIdx.x == 0 && value);
}

/* A word that a NIC or another device changes: what was written before it is seen from then on. */
static __device__ inline uint64_t xpu_load(const uint64_t *at)
{
	uint64_t value;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
	return value;
}

static __device__ inline void xpu_pause(void) /* between looks: others may need the processor */
{
	__nanosleep(20);
}

static __device__ inline void xpu_add(uint64_t *to, uint64_t value)
{
	atomicAdd((unsigned long long *)to, (unsigned long long)value);
}

static __device__ inline uint64_t xpu_now(void) /* ns */
{
	uint64_t value;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
	return value;
}

#else

#include <sched.h>
#include <stdbool.h>
#include <time.h>

#define XPU_FUNC static inline

/* Of the CPU device; scope as in fi_xpu_device.h.  A thread that no kernel runs in is alone in every scope. */
unsigned xpu_thread(void);
unsigned xpu_threads(void);
unsigned xpu_block(void);
unsigned xpu_blocks(void);
unsigned cpu_device_rank(int scope);
unsigned cpu_device_size(int scope);
/*
 * All threads of the scope have come; what they wrote before is seen by all afterwards.  One that has returned
 * from the kernel comes no more, and the others would wait for it.
 */
void cpu_device_sync(int scope);
/* The value that rank 0 gives, for every thread of the scope. */
long long cpu_device_share(int scope, long long value);

/* What fi_xpu_device.h asks the processor's threads, if these are defined before it is included. */
#ifdef FI_XPU_DEVICE_H
#error "include kernel.h first: fi_xpu_device.h took each thread for one that is alone"
#endif
#define HMREG_XPU_RANK(scope)	      cpu_device_rank(scope)
#define HMREG_XPU_SYNC(scope)	      cpu_device_sync(scope)
#define HMREG_XPU_SHARE(scope, value) cpu_device_share(scope, value)

#include <rdma/fi_xpu_device.h>

static inline void xpu_sync(void)
{
	cpu_device_sync(FI_XPU_WORK_GROUP);
}

static inline bool xpu_first(bool value)
{
	return cpu_device_share(FI_XPU_WORK_GROUP, value) != 0;
}

static inline uint64_t xpu_load(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline void xpu_pause(void)
{
	sched_yield();
}

static inline void xpu_add(uint64_t *to, uint64_t value)
{
	__atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static inline uint64_t xpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#define XPU_KERNEL(name, type)                                                                     \
	static void name##_body(type args);                                                        \
	void name(void *args);                                                                     \
	void name(void *args)                                                                      \
	{                                                                                          \
		name##_body(*(const type *)args);                                                  \
	}                                                                                          \
	static void name##_body(type args)

#endif

#endif
