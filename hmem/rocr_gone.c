/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids for ROCr's memory, which has none: an allocation gets one when it is first asked for, and loses it when
 * the runtime tells that it is freed (hsa_amd_register_deallocation_callback).  The runtime tells from inside
 * hsa_amd_memory_pool_free, before the address can be given out again.
 *
 * The runtime knows a watch by its address until it has told, or has been asked to forget it; so watches are
 * never freed, but used again for other allocations.  They stay in the list of their hash for that reason:
 * who reads a list takes no lock, and a watch that becomes another's under its eyes has another base.
 *
 *   FREE --> ASKED --> LIVE --callback--> GOING --> FREE
 *                       |
 *                       +--forgotten--> FREE, or LOST while a callback may still come
 */
#include <pthread.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/range.h"
#include "hmem/rocr.h"

#define LISTS 1024u

enum state {
	FREE,
	ASKED,
	LIVE,
	GOING,
	LOST
};

struct watch {
	struct watch *next; /* constant once it is in its list */
	_Atomic uint64_t base, len, id;
	_Atomic int state; /* enum state */
};

static _Atomic(struct watch *) lists[LISTS];
/* Who makes a watch or forgets them.  The runtime is called under it; what it calls takes no lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_id; /* protected by lock */

static _Atomic(struct watch *) *list_of(uint64_t base)
{
	return &lists[(base >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* The id of the allocation, or 0. */
static uint64_t find(uint64_t base, uint64_t len)
{
	struct watch *w = atomic_load_explicit(list_of(base), memory_order_acquire);

	for (; w; w = w->next)
		if (atomic_load_explicit(&w->base, memory_order_relaxed) == base &&
		    atomic_load_explicit(&w->len, memory_order_relaxed) == len &&
		    atomic_load_explicit(&w->state, memory_order_acquire) == LIVE)
			return atomic_load_explicit(&w->id, memory_order_relaxed);
	return 0;
}

/* Inside the runtime's free: no lock, no call of it. */
static void gone(void *addr, void *user_data)
{
	struct watch *w = user_data;
	uint64_t base = atomic_load_explicit(&w->base, memory_order_relaxed);
	uint64_t len = atomic_load_explicit(&w->len, memory_order_relaxed);

	(void)addr;
	atomic_store(&w->state, GOING);
	hmem_gone(base, base + len);
	atomic_store_explicit(&w->state, FREE, memory_order_release);
}

/* Lock held.  A watch that is nobody's, in the list of base; NULL: no memory. */
static struct watch *take_watch(uint64_t base)
{
	_Atomic(struct watch *) *list = list_of(base);
	struct watch *w = atomic_load_explicit(list, memory_order_relaxed);

	while (w && atomic_load_explicit(&w->state, memory_order_acquire) != FREE)
		w = w->next;
	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->next = atomic_load_explicit(list, memory_order_relaxed);
	atomic_store_explicit(list, w, memory_order_release);
	return w;
}

/* Lock held. */
static uint64_t make_watch(uint64_t base, uint64_t len)
{
	struct watch *w = take_watch(base);
	int asked = ASKED;

	if (!w)
		return 0;
	atomic_store_explicit(&w->state, ASKED, memory_order_relaxed);
	atomic_store_explicit(&w->base, base, memory_order_relaxed);
	atomic_store_explicit(&w->len, len, memory_order_relaxed);
	atomic_store_explicit(&w->id, ++last_id, memory_order_relaxed);
	if (rocr_api.hsa_amd_register_deallocation_callback((void *)(uintptr_t)base, gone, w) !=
	    ROCR_SUCCESS) {
		atomic_store_explicit(&w->state, FREE, memory_order_relaxed);
		return 0;
	}
	/* unless it is freed already */
	return atomic_compare_exchange_strong(&w->state, &asked, LIVE) ? last_id : 0;
}

uint64_t rocr_gone_id(uint64_t base, uint64_t len, const char **why)
{
	uint64_t id;

	if (!rocr_api.hsa_amd_register_deallocation_callback ||
	    !rocr_api.hsa_amd_deregister_deallocation_callback) {
		*why = "this runtime does not tell when it is freed";
		return 0;
	}
	id = find(base, len);
	if (id != 0)
		return id;
	pthread_mutex_lock(&lock);
	id = find(base, len);
	if (id == 0)
		id = make_watch(base, len);
	pthread_mutex_unlock(&lock);
	if (id == 0)
		*why = "hsa_amd_register_deallocation_callback refuses it";
	return id;
}

void rocr_end_reports(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < LISTS; i++) {
		struct watch *w = atomic_load_explicit(&lists[i], memory_order_relaxed);

		for (; w; w = w->next) {
			int live = LIVE;

			if (!atomic_compare_exchange_strong(&w->state, &live, LOST))
				continue;
			if (rocr_api.hsa_amd_deregister_deallocation_callback(
				    (void *)(uintptr_t)w->base, gone) == ROCR_SUCCESS)
				atomic_store(&w->state, FREE);
		}
	}
	pthread_mutex_unlock(&lock);
}
