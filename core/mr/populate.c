/* SPDX-License-Identifier: BSD-2-Clause */
/* See populate.h. */
#include "core/mr/populate.h"

#include <linux/capability.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/crew.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define SAMPLES	    32u
#define MISSING_FEW (SAMPLES / 8) /* so many of them may be missing: pinning is as fast */

/* ---- may it be pinned? ---- */

static bool ignores_limits(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	return syscall(SYS_capget, &head, data) == 0 &&
	       (data[0].effective & (1u << CAP_IPC_LOCK)) != 0;
}

/* What is refused by its length shall not take memory first. */
static bool may_pin(uint64_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
		return false;
	return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur || ignores_limits();
}

/* ---- is it worth it? ---- */

/* Are more than a few pages missing?  False as well where the range is not mapped. */
static bool lacks_pages(uintptr_t begin, uint64_t len, uint64_t page)
{
	unsigned int missing = 0;

	for (unsigned int i = 0; i < SAMPLES; i++) {
		uint64_t at = len / SAMPLES * i + len / (2 * SAMPLES);
		unsigned char there = 1;

		if (mincore((void *)(begin + at / page * page), page, &there) != 0)
			return false;
		missing += !(there & 1);
	}
	return missing > MISSING_FEW;
}

/* ---- bringing it in ---- */

struct populate {
	uintptr_t begin, end;
	const int *stop;
	_Atomic bool failed; /* the kernel does not do it, or not here */
	pthread_t caller;
	unsigned long node; /* where the caller's pages would be, by default */
	bool by_default;    /* the caller has no policy of its own, which threads inherit */
};

static void note_policy(struct populate *populate)
{
	unsigned int cpu, node = 0;
	int mode;

	populate->caller = pthread_self();
	populate->by_default = syscall(SYS_getcpu, &cpu, &node, NULL) == 0 &&
			       node < 8 * sizeof(populate->node) &&
			       syscall(SYS_get_mempolicy, &mode, NULL, 0ul, NULL, 0ul) == 0 &&
			       mode == MPOL_DEFAULT;
	populate->node = 1ul << (populate->by_default ? node : 0);
}

/* A helper thread may run on another node than the caller. */
static void take_policy(const struct populate *populate)
{
	if (populate->by_default && !pthread_equal(pthread_self(), populate->caller))
		syscall(SYS_set_mempolicy, MPOL_PREFERRED, &populate->node,
			8 * sizeof(populate->node) + 1);
}

static uintptr_t piece_begin(const struct populate *populate, size_t i)
{
	uintptr_t begin = (populate->begin / HM_POPULATE_PIECE + i) * HM_POPULATE_PIECE;

	return begin < populate->begin ? populate->begin : begin;
}

static void bring_piece(void *arg, size_t i)
{
	struct populate *populate = arg;
	uintptr_t begin = piece_begin(populate, i), end = piece_begin(populate, i + 1);

	if (hm_stopped(populate->stop) ||
	    atomic_load_explicit(&populate->failed, memory_order_relaxed))
		return;
	take_policy(populate);
	if (end > populate->end)
		end = populate->end;
	/* by number: nobody who watches madvise needs to hear of it */
	if (syscall(SYS_madvise, begin, end - begin, MADV_POPULATE_WRITE) != 0)
		atomic_store_explicit(&populate->failed, true, memory_order_relaxed);
}

/* How many threads did. */
static unsigned int bring_in(const struct iovec *iov, uint64_t page, unsigned int threads,
			     const int *stop)
{
	struct populate populate = { .stop = stop };
	uintptr_t first = (uintptr_t)iov->iov_base;
	size_t pieces;

	populate.begin = first / page * page;
	populate.end = (first + (iov->iov_len - 1)) / page * page + page;
	if (populate.end < populate.begin || iov->iov_len < HM_POPULATE_LEAST ||
	    !lacks_pages(populate.begin, populate.end - populate.begin, page))
		return 1;
	pieces = (populate.end - 1) / HM_POPULATE_PIECE - populate.begin / HM_POPULATE_PIECE + 1;
	note_policy(&populate);
	return hm_crew_run(bring_piece, &populate, pieces, threads);
}

int hm_populate(const struct iovec *iov, size_t count, uint64_t pinned, unsigned int threads,
		const int *stop, unsigned int *used)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	unsigned int most;

	if (!may_pin(pinned))
		return 0;
	for (size_t i = 0; i < count && !hm_stopped(stop); i++) {
		most = bring_in(&iov[i], page, threads, stop);
		if (*used < most)
			*used = most;
	}
	return hm_stopped(stop) ? -FI_ECANCELED : 0;
}
