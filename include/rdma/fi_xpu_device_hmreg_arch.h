/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fi_xpu_device_hmreg.h needs of a device, by compiler: ordered loads and stores, a vote among the
 * threads of a scope, a clock.  Free of the C library, and of CUDA's and HIP's own headers.
 *
 *   CUDA	PTX of sm_70 and later, by nvcc or clang
 *   HIP	clang for AMD (for NVIDIA it is CUDA)
 *   SYCL	DPC++ (free function queries of sycl_ext_oneapi_free_function_queries)
 *   processors	gcc's and clang's __atomic builtins.  A device that is made of processors tells who its threads
 *		are by three macros, all defined before this file is included; without them every thread is a
 *		scope of its own.  HMREG_XPU_RANK(scope) is the number of the calling thread in its group of that
 *		scope, from 0.  HMREG_XPU_SYNC(scope) returns when all threads of the group are there.
 *		HMREG_XPU_SHARE(scope, value) returns the value that number 0 gives, a long long, to all of them,
 *		and what number 0 wrote before is there for them then.
 *
 * SCOPES OF ORDER.  Words that host and device share are loaded with acquire and stored with release order
 * at the scope of the system.  Words of the device's own (struct hmreg_xpu_own) need the scope of the
 * device only, even where they lie in the host's memory: no read-modify-write here needs atomics over the
 * bus.  Release is cumulative in all these models: what other threads of a scope have written before
 * they met goes with the store of the one that acts for them.
 */
#ifndef FI_XPU_DEVICE_H
#include <rdma/fi_xpu_device.h> /* which includes this file where its declarations are done */
#elif !defined(FI_XPU_DEVICE_HMREG_ARCH_H)
#define FI_XPU_DEVICE_HMREG_ARCH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__SYCL_DEVICE_ONLY__)
#define HMREG_XPU_SYCL 1
#elif defined(__CUDA_ARCH__)
#define HMREG_XPU_CUDA 1
#if __CUDA_ARCH__ < 700
#error "rdma/fi_xpu_device.h: compute capability 7.0 is the least whose memory model is known"
#endif
#elif defined(__HIP_DEVICE_COMPILE__) && defined(__AMDGCN__)
#define HMREG_XPU_HIP 1
#else
#define HMREG_XPU_PROCESSOR 1
#ifndef HMREG_XPU_RANK
#define HMREG_XPU_ALONE 1
#elif !defined(HMREG_XPU_SYNC) || !defined(HMREG_XPU_SHARE)
#error "rdma/fi_xpu_device.h: HMREG_XPU_RANK needs HMREG_XPU_SYNC and HMREG_XPU_SHARE beside it"
#endif
#endif

#ifdef HMREG_XPU_SYCL
#ifdef __cplusplus
/* This file may be included between extern "C" braces. */
extern "C++" {
#include <sycl/sycl.hpp>
}
#endif
/* The dimensions of the kernel's range, which free functions must be told. */
#ifndef HMREG_XPU_SYCL_DIMENSIONS
#define HMREG_XPU_SYCL_DIMENSIONS 1
#endif
#define HMREG_XPU_REF(scope, p)                                                                    \
	sycl::atomic_ref<uint64_t, sycl::memory_order::acq_rel, sycl::memory_scope::scope,         \
			 sycl::access::address_space::generic_space>(*const_cast<uint64_t *>(p))
#endif

/* To copy what consists of such words. */
typedef uint64_t __attribute__((may_alias)) hmreg_xpu_word;

/* ---- words that are shared with the host ---- */

FI_XPU_FUNC uint64_t hmreg_xpu_load(const uint64_t *p) /* acquire, system */
{
#if defined(HMREG_XPU_CUDA)
	uint64_t value;

	__asm__ volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
	return value;
#elif defined(HMREG_XPU_HIP)
	return __hip_atomic_load(p, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
#elif defined(HMREG_XPU_SYCL)
	return HMREG_XPU_REF(system, p).load(sycl::memory_order::acquire);
#else
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
#endif
}

FI_XPU_FUNC void hmreg_xpu_store(uint64_t *p, uint64_t value) /* release, system */
{
#if defined(HMREG_XPU_CUDA)
	__asm__ volatile("st.release.sys.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
#elif defined(HMREG_XPU_HIP)
	__hip_atomic_store(p, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
#elif defined(HMREG_XPU_SYCL)
	HMREG_XPU_REF(system, p).store(value, sycl::memory_order::release);
#else
	__atomic_store_n(p, value, __ATOMIC_RELEASE);
#endif
}

FI_XPU_FUNC int32_t hmreg_xpu_peek(const int32_t *p) /* relaxed, system */
{
#if defined(HMREG_XPU_CUDA)
	int32_t value;

	__asm__ volatile("ld.relaxed.sys.s32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
	return value;
#elif defined(HMREG_XPU_HIP)
	return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
#elif defined(HMREG_XPU_SYCL)
	return sycl::atomic_ref<int32_t, sycl::memory_order::relaxed, sycl::memory_scope::system,
				sycl::access::address_space::generic_space>(
		       *const_cast<int32_t *>(p))
		.load();
#else
	return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}

/* ---- words of the device's own ---- */

FI_XPU_FUNC uint64_t hmreg_xpu_own_load(const uint64_t *p) /* relaxed, device */
{
#if defined(HMREG_XPU_CUDA)
	uint64_t value;

	__asm__ volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
	return value;
#elif defined(HMREG_XPU_HIP)
	return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#elif defined(HMREG_XPU_SYCL)
	return HMREG_XPU_REF(device, p).load(sycl::memory_order::relaxed);
#else
	return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}

FI_XPU_FUNC void hmreg_xpu_own_store(uint64_t *p, uint64_t value) /* relaxed, device */
{
#if defined(HMREG_XPU_CUDA)
	__asm__ volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
#elif defined(HMREG_XPU_HIP)
	__hip_atomic_store(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#elif defined(HMREG_XPU_SYCL)
	HMREG_XPU_REF(device, p).store(value, sycl::memory_order::relaxed);
#else
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
#endif
}

/* From old to new, if it is old; returns what it was.  Relaxed, device. */
FI_XPU_FUNC uint64_t hmreg_xpu_own_swap(uint64_t *p, uint64_t old, uint64_t value)
{
#if defined(HMREG_XPU_CUDA)
	uint64_t was;

	__asm__ volatile("atom.relaxed.gpu.cas.b64 %0, [%1], %2, %3;"
			 : "=l"(was)
			 : "l"(p), "l"(old), "l"(value)
			 : "memory");
	return was;
#elif defined(HMREG_XPU_HIP)
	__hip_atomic_compare_exchange_strong(p, &old, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
					     __HIP_MEMORY_SCOPE_AGENT);
	return old;
#elif defined(HMREG_XPU_SYCL)
	HMREG_XPU_REF(device, p).compare_exchange_strong(old, value, sycl::memory_order::relaxed,
							 sycl::memory_order::relaxed);
	return old;
#else
	__atomic_compare_exchange_n(p, &old, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return old;
#endif
}

/* Returns what it was.  Acquire and release, device. */
FI_XPU_FUNC uint64_t hmreg_xpu_own_add(uint64_t *p, uint64_t value)
{
#if defined(HMREG_XPU_CUDA)
	uint64_t was;

	__asm__ volatile("atom.acq_rel.gpu.add.u64 %0, [%1], %2;"
			 : "=l"(was)
			 : "l"(p), "l"(value)
			 : "memory");
	return was;
#elif defined(HMREG_XPU_HIP)
	return __hip_atomic_fetch_add(p, value, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
#elif defined(HMREG_XPU_SYCL)
	return HMREG_XPU_REF(device, p).fetch_add(value, sycl::memory_order::acq_rel);
#else
	return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
#endif
}

#ifndef HMREG_XPU_PROCESSOR /* whose threads are told of by HMREG_XPU_RANK and so on, or are alone */

/* ---- the threads of a subgroup ---- */

#ifdef HMREG_XPU_CUDA
/*
 * The threads of this warp that have not exited, after all of them have come here, as they all must: the
 * active mask would tell who happens to run together.
 */
FI_XPU_FUNC uint32_t hmreg_xpu_lanes(void)
{
	uint32_t lanes;

	__asm__ volatile("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, 0, 0;\n\t"
			 "vote.sync.ballot.b32 %0, p, 0xffffffff;\n\t}"
			 : "=r"(lanes)
			 :
			 : "memory");
	return lanes;
}

FI_XPU_FUNC void hmreg_xpu_warp_sync(uint32_t lanes)
{
	__asm__ volatile("bar.warp.sync %0;" : : "r"(lanes) : "memory");
}

FI_XPU_FUNC uint32_t hmreg_xpu_warp_share(uint32_t lanes, uint32_t value, uint32_t lane)
{
	__asm__ volatile("shfl.sync.idx.b32 %0, %0, %1, 0x1f, %2;"
			 : "+r"(value)
			 : "r"(lane), "r"(lanes)
			 : "memory");
	return value;
}
#endif

/* All threads of the subgroup have come; one of them is told so.  *who is for hmreg_xpu_subgroup_end. */
FI_XPU_FUNC int hmreg_xpu_subgroup_begin(uint32_t *who)
{
#if defined(HMREG_XPU_CUDA)
	uint32_t lanes = hmreg_xpu_lanes(), lane;

	*who = lanes;
	hmreg_xpu_warp_sync(lanes);
	__asm__ volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
	return !(lanes & ((1u << lane) - 1));
#elif defined(HMREG_XPU_HIP)
	uint32_t lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));

	*who = 0;
	__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
	__builtin_amdgcn_wave_barrier();
	return lane == (uint32_t)__builtin_amdgcn_readfirstlane((int)lane);
#elif defined(HMREG_XPU_SYCL)
	auto group = sycl::ext::oneapi::this_work_item::get_sub_group();

	*who = 0;
	sycl::group_barrier(group);
	return group.leader();
#endif
}

/* The result of the one that acted, for all, and what it has seen. */
FI_XPU_FUNC int64_t hmreg_xpu_subgroup_end(uint32_t who, int64_t result)
{
#if defined(HMREG_XPU_CUDA) || defined(HMREG_XPU_HIP)
	uint32_t low = (uint32_t)result, high = (uint32_t)((uint64_t)result >> 32);
#endif

#if defined(HMREG_XPU_CUDA)
	uint32_t first;

	__asm__("bfind.u32 %0, %1;" : "=r"(first) : "r"(who & (0u - who)));
	low = hmreg_xpu_warp_share(who, low, first);
	high = hmreg_xpu_warp_share(who, high, first);
	hmreg_xpu_warp_sync(who);
	return (int64_t)((uint64_t)high << 32 | low);
#elif defined(HMREG_XPU_HIP)
	(void)who;
	low = (uint32_t)__builtin_amdgcn_readfirstlane((int)low);
	high = (uint32_t)__builtin_amdgcn_readfirstlane((int)high);
	__builtin_amdgcn_wave_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
	return (int64_t)((uint64_t)high << 32 | low);
#elif defined(HMREG_XPU_SYCL)
	auto group = sycl::ext::oneapi::this_work_item::get_sub_group();

	(void)who;
	result = sycl::group_broadcast(group, result);
	sycl::group_barrier(group);
	return result;
#endif
}

/* ---- the threads of a work-group, and how many groups there are ---- */

FI_XPU_FUNC void hmreg_xpu_group_sync(void)
{
#if defined(HMREG_XPU_CUDA)
	/* Unlike bar.sync, which wants each warp's threads at the same place at once. */
	__asm__ volatile("barrier.sync 0;" : : : "memory");
#elif defined(HMREG_XPU_HIP)
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#elif defined(HMREG_XPU_SYCL)
	sycl::group_barrier(
		sycl::ext::oneapi::this_work_item::get_work_group<HMREG_XPU_SYCL_DIMENSIONS>());
#endif
}

FI_XPU_FUNC int hmreg_xpu_group_first(void)
{
#if defined(HMREG_XPU_CUDA)
	uint32_t x, y, z;

	__asm__("mov.u32 %0, %%tid.x;" : "=r"(x));
	__asm__("mov.u32 %0, %%tid.y;" : "=r"(y));
	__asm__("mov.u32 %0, %%tid.z;" : "=r"(z));
	return !(x | y | z);
#elif defined(HMREG_XPU_HIP)
	return !(__builtin_amdgcn_workitem_id_x() | __builtin_amdgcn_workitem_id_y() |
		 __builtin_amdgcn_workitem_id_z());
#elif defined(HMREG_XPU_SYCL)
	return sycl::ext::oneapi::this_work_item::get_work_group<HMREG_XPU_SYCL_DIMENSIONS>()
		.leader();
#endif
}

FI_XPU_FUNC uint64_t hmreg_xpu_groups(void)
{
#if defined(HMREG_XPU_CUDA)
	uint32_t x, y, z;

	__asm__("mov.u32 %0, %%nctaid.x;" : "=r"(x));
	__asm__("mov.u32 %0, %%nctaid.y;" : "=r"(y));
	__asm__("mov.u32 %0, %%nctaid.z;" : "=r"(z));
	return (uint64_t)x * y * z;
#elif defined(HMREG_XPU_HIP)
	uint64_t x = __builtin_amdgcn_workgroup_size_x(), y = __builtin_amdgcn_workgroup_size_y();
	uint64_t z = __builtin_amdgcn_workgroup_size_z();

	/* grid_size counts threads; the last group of a row may be smaller. */
	return ((__builtin_amdgcn_grid_size_x() + x - 1) / x) *
	       ((__builtin_amdgcn_grid_size_y() + y - 1) / y) *
	       ((__builtin_amdgcn_grid_size_z() + z - 1) / z);
#elif defined(HMREG_XPU_SYCL)
	return sycl::ext::oneapi::this_work_item::get_work_group<HMREG_XPU_SYCL_DIMENSIONS>()
		.get_group_linear_range();
#endif
}

/* What the group's first thread gives, for all of them, and what it has seen. */
FI_XPU_FUNC int64_t hmreg_xpu_group_share(int64_t value)
{
#if defined(HMREG_XPU_CUDA) || defined(HMREG_XPU_HIP)
	static __attribute__((shared)) int64_t word;

	/* All have read the word of the call before: they came together after it, in this one's beginning. */
	if (hmreg_xpu_group_first())
		word = value;
	hmreg_xpu_group_sync();
	return word;
#elif defined(HMREG_XPU_SYCL)
	auto group = sycl::ext::oneapi::this_work_item::get_work_group<HMREG_XPU_SYCL_DIMENSIONS>();

	value = sycl::group_broadcast(group, value);
	sycl::group_barrier(group);
	return value;
#endif
}

#endif /* HMREG_XPU_PROCESSOR */

/* ---- time ---- */

/* AMD's real time counter, as the manuals of the instruction sets have it; the boards' are near that. */
#if defined(__gfx900__)
#define HMREG_XPU_HIP_MHZ 27
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__)
#define HMREG_XPU_HIP_MHZ 25
#else
#define HMREG_XPU_HIP_MHZ 100
#endif

#if defined(HMREG_XPU_PROCESSOR) && defined(__linux__) && defined(__x86_64__)
#define HMREG_XPU_CALL_CLOCK 228
#define HMREG_XPU_CALL_YIELD 24
#elif defined(HMREG_XPU_PROCESSOR) && defined(__linux__) &&                                        \
	(defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64))
#define HMREG_XPU_CALL_CLOCK 113
#define HMREG_XPU_CALL_YIELD 124
#endif

#ifdef HMREG_XPU_CALL_CLOCK
/* A system call, by clock_gettime's two arguments. */
FI_XPU_FUNC long hmreg_xpu_call(long number, long clock, int64_t *at)
{
#if defined(__x86_64__)
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(clock), "S"(at)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = clock;
	register int64_t *x1 __asm__("x1") = at;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
	return x0;
#else
	register long a7 __asm__("a7") = number;
	register long a0 __asm__("a0") = clock;
	register int64_t *a1 __asm__("a1") = at;

	__asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1) : "memory");
	return a0;
#endif
}
#endif

/*
 * Nanoseconds from some beginning.  Where a device has no clock that its compiler knows (SYCL), looks is the time in
 * microseconds, which is short rather than long: a look goes to the host's memory.  A program that knows better defines
 * HMREG_XPU_NOW().
 */
FI_XPU_FUNC uint64_t hmreg_xpu_now(uint64_t looks)
{
#if defined(HMREG_XPU_NOW)
	(void)looks;
	return HMREG_XPU_NOW();
#elif defined(HMREG_XPU_CUDA)
	uint64_t now;

	(void)looks;
	__asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : : "memory");
	return now;
#elif defined(HMREG_XPU_HIP) && (defined(__GFX11__) || defined(__GFX12__))
	(void)looks;
	return __builtin_amdgcn_s_sendmsg_rtnl(0x83) * 1000 / HMREG_XPU_HIP_MHZ; /* the real time */
#elif defined(HMREG_XPU_HIP)
	(void)looks;
	return __builtin_amdgcn_s_memrealtime() * 1000 / HMREG_XPU_HIP_MHZ;
#elif defined(HMREG_XPU_CALL_CLOCK)
	int64_t at[2];

	(void)looks;
	if (hmreg_xpu_call(HMREG_XPU_CALL_CLOCK, 1 /* CLOCK_MONOTONIC */, at))
		return 0;
	return (uint64_t)at[0] * 1000000000u + (uint64_t)at[1];
#else
	return looks * 1000;
#endif
}

/* A pause between two looks at the same word; longer after many. */
FI_XPU_FUNC void hmreg_xpu_pause(uint64_t looks)
{
#if defined(HMREG_XPU_CUDA)
	if (looks > 256)
		__asm__ volatile("nanosleep.u32 200;" : : : "memory");
#elif defined(HMREG_XPU_HIP)
	if (looks > 256)
		__builtin_amdgcn_s_sleep(8); /* times 64 cycles */
#elif defined(HMREG_XPU_CALL_YIELD)
	if (looks > 64)
		(void)hmreg_xpu_call(HMREG_XPU_CALL_YIELD, 0, 0);
#if defined(__x86_64__)
	else
		__asm__ volatile("pause");
#endif
#else
	(void)looks;
#endif
}

#endif /* FI_XPU_DEVICE_HMREG_ARCH_H */
