/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose memory a range is, as a registration cache asks it at every lookup, and what guards a registration
 * of it that is kept.
 *
 *   memory                            guard        why
 *   plain host memory                 pages        whatever ends it changes mappings of the process
 *   host memory registered with a     pages        it stays the program's: freed by munmap, while the driver
 *   driver, told apart by ROCr, ZE                 goes on to take it for registered
 *   host memory, of the driver's      pages, id    the driver frees it by itself, where no hook sees it: the
 *   allocator or registered with it                id changes; and if it was the program's, its pages do.
 *   (CUDA does not tell which)                     Both have to hold, so that it need not be known which it is
 *   device memory                     id
 *   managed and shared memory         id           made by the driver's allocator
 *   memory that migrates by           pages        it is the process's own, as plain host memory is
 *   attributes (ROCr), or by itself
 *   mapped piece by piece, CUDA       id           of the mapping, of the physical memory in it, and where it
 *                                                  begins: of all pieces in order.  Not kept if one is not told
 *   mapped piece by piece, ROCr, ZE   none         nobody says that a mapping's exchange is told
 *   stream-ordered pools, CUDA        none         memory that is freed goes back to the pool and out of it again,
 *                                                  or to the system, by its streams' progress
 *   imported, IPC, graphics           none         its owner can free it, in another process
 *   what a driver does not explain    none
 *
 * Ids: CUDA has BUFFER_ID, unique for each allocation while the process lives ("CUDA Driver API", Unified
 * Addressing), and MEMORY_BLOCK_ID for physical memory; Level Zero has that of
 * ze_memory_allocation_properties_t.  ROCr tells when memory is freed, from which rocr_gone.c makes one.
 * Neuron and SynapseAI have neither, but for memory made here; so that theirs is not kept.
 *
 * A domain without FI_HMEM takes all memory for host memory: there a driver's own host memory has no guard
 * but the monitor of pages, which sees the driver's munmap as any other.
 */
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "core/base/range.h"
#include "hmem/hmem.h"

/* ---- identities ---- */

void hmem_identity_begin(struct hmem_identity *identity)
{
	*identity = (struct hmem_identity){ .sum = UINT64_C(0x9ae16a3b2f90404f), .told = true };
}

/* Allocations in order.  Each step is one to one: where only one id is another, the sum is another. */
void hmem_identity_add(struct hmem_identity *identity, const struct hmem_facts *facts)
{
	const uint64_t words[] = { facts->id, facts->base, facts->len };

	identity->told &= facts->id != 0;
	for (size_t i = 0; i < count_of(words); i++) {
		identity->sum = (identity->sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		identity->sum ^= identity->sum >> 29;
	}
}

uint64_t hmem_identity_end(const struct hmem_identity *identity)
{
	if (!identity->told)
		return 0;
	return identity->sum ? identity->sum : 1;
}

/* ---- what is not kept, said once ---- */

static bool is_switched_off(enum fi_hmem_iface iface)
{
	switch (iface) {
	case FI_HMEM_CUDA:
		return !hm_param_bool(HM_PARAM_CACHE_CUDA);
	case FI_HMEM_ROCR:
		return !hm_param_bool(HM_PARAM_CACHE_ROCR);
	case FI_HMEM_ZE:
		return !hm_param_bool(HM_PARAM_CACHE_ZE);
	default:
		return false;
	}
}

/* True: nobody has said so of this interface. */
static bool first_time(atomic_bool said[HMEM_IFACES], const struct hmem_ops *ops)
{
	return !atomic_load_explicit(&said[ops->iface], memory_order_relaxed) &&
	       !atomic_exchange(&said[ops->iface], true);
}

static void say_off(const struct hmem_ops *ops)
{
	static atomic_bool said[HMEM_IFACES];

	if (first_time(said, ops))
		HM_INFO(FI_LOG_MR,
			"registrations of %s memory are not kept: its monitor is switched off by "
			"the environment",
			ops->name);
}

static void say_untold(const struct hmem_ops *ops, const char *why)
{
	static atomic_bool said[HMEM_IFACES];

	if (first_time(said, ops))
		HM_WARN(FI_LOG_MR, "registrations of %s memory, such as this, are not kept: %s",
			ops->name, why);
}

/* ---- the question ---- */

struct question {
	const struct hmem_ops *ops;
	const char *why; /* constant: why there is no id */
	uint64_t at, end;
};

/* The interface has no shorter way: of what look says, the id of plain memory is one to rely on. */
static int own_by_look(const struct hmem_ops *ops, const void *addr, struct hmem_facts *facts)
{
	const uint32_t other = HMEM_FACT_VMM | HMEM_FACT_POOL | HMEM_FACT_IMPORTED |
			       HMEM_FACT_UNKNOWN;
	int ret = ops->look(addr, facts);

	if (ret == 0 && (facts->flags & other))
		facts->id = 0;
	return ret;
}

static int ask(struct question *q, uint64_t at, struct hmem_facts *facts)
{
	const void *addr = (const void *)(uintptr_t)at;
	const char *why = NULL;
	int ret = q->ops->own ? q->ops->own(addr, facts, &why) : own_by_look(q->ops, addr, facts);

	if (ret == 0 && why && !q->why)
		q->why = why;
	return ret;
}

static bool is_others(const struct hmem_facts *first, const struct hmem_facts *next, uint64_t at)
{
	return next->device != first->device ||
	       ((next->flags ^ first->flags) & HMEM_FACT_ON_HOST) ||
	       (next->flags & HMEM_FACT_NO_RANGE) || at - next->base >= next->len;
}

/* All allocations of the range, the first of which is known. */
static int follow(struct question *q, const struct hmem_facts *first, struct hmem_owner *owner)
{
	struct hmem_identity identity;
	struct hmem_facts next = *first;
	int ret;

	/* without an id nothing is kept; without a range, it may be that of the first part alone */
	if (first->id == 0 || (first->flags & HMEM_FACT_NO_RANGE))
		return 0;
	hmem_identity_begin(&identity);
	hmem_identity_add(&identity, first);
	while (next.base + next.len < q->end) {
		q->at = next.base + next.len;
		ret = ask(q, q->at, &next);
		if (ret != 0 || is_others(first, &next, q->at))
			return ret != 0 && ret != -FI_ENOENT ? ret : -FI_EINVAL;
		hmem_identity_add(&identity, &next);
	}
	owner->id = hmem_identity_end(&identity);
	return 0;
}

static int belongs(struct question *q, const struct hmem_facts *facts, struct hmem_owner *owner)
{
	bool on_host = facts->flags & HMEM_FACT_ON_HOST;
	int ret;

	*owner = (struct hmem_owner){ q->ops->iface, facts->device, 0, 0 };
	if (is_switched_off(q->ops->iface)) {
		say_off(q->ops);
		return 0;
	}
	ret = follow(q, facts, owner);
	if (ret != 0)
		return ret;
	if (owner->id != 0)
		owner->guards = HMEM_GUARD_ID | (on_host ? HMEM_GUARD_PAGES : 0);
	else
		say_untold(q->ops, q->why ? q->why : "the driver does not tell when it is freed");
	return 0;
}

int hmem_find_owner(const void *addr, size_t len, struct hmem_owner *owner)
{
	struct question q = { .at = (uintptr_t)addr, .end = (uintptr_t)addr + len };
	struct hmem_facts facts;

	*owner = (struct hmem_owner){ FI_HMEM_SYSTEM, HMEM_NO_DEVICE, 0, 0 };
	for (const struct hmem_ops *const *ops = hmem_usable(); *ops; ops++) {
		int ret;

		q.ops = *ops;
		ret = ask(&q, q.at, &facts);
		if (ret == 0)
			return belongs(&q, &facts, owner);
		if (ret != -FI_ENOENT)
			return ret;
	}
	owner->guards = HMEM_GUARD_PAGES;
	return 0;
}

/* ---- memory that is freed ---- */

static _Atomic(hmem_gone_fn *) report;

void hmem_gone(uint64_t begin, uint64_t end)
{
	hmem_gone_fn *gone = atomic_load(&report);

	if (gone)
		gone(begin, end);
}

void hmem_report_gone(hmem_gone_fn *gone)
{
	struct hmem_status status;

	atomic_store(&report, gone);
	for (int i = FI_HMEM_SYSTEM + 1; !gone && i < HMEM_IFACES; i++) {
		hmem_status((enum fi_hmem_iface)i, &status);
		if (status.state == HMEM_READY)
			hmem_get((enum fi_hmem_iface)i)->end_reports();
	}
}
