/* SPDX-License-Identifier: BSD-2-Clause */
/* The one judgement over what drivers say of an address: which kind it is, and what can be done. */
#include <rdma/fi_errno.h>

#include "core/base/range.h"
#include "core/base/refusal.h"
#include "hmem/hmem.h"
#include "hmem/known.h"

#define WAYS_DEVICE (HMEM_WAY_DMABUF | HMEM_WAY_PEER | HMEM_WAY_COPY)
#define WAYS_HOST   (HMEM_WAY_HOST | HMEM_WAY_COPY)

/* A case: the first whose facts are all there decides. */
struct judgement {
	uint32_t has;
	enum hmem_kind kind;
	uint32_t ways;
	const char *reason;
	enum hmreg_cause cause; /* of reason */
};

#define F(name) HMEM_FACT_##name

static const struct judgement judgements[] = {
	{ F(UNKNOWN), HMEM_UNKNOWN, 0, "the driver owns this address and does not say what it is",
	  HMREG_CAUSE_MEMORY_UNKNOWN },
	{ F(IMPORTED), HMEM_IMPORTED, HMEM_WAY_COPY,
	  "memory of another process, of device registers or of graphics: its owner has to export "
	  "it",
	  HMREG_CAUSE_MEMORY_IMPORTED },
	{ F(MANAGED), HMEM_MANAGED, HMEM_WAY_COPY,
	  "managed memory moves between host and device, so that no NIC can hold it",
	  HMREG_CAUSE_MEMORY_MANAGED },
	{ F(VMM) | F(ON_HOST), HMEM_VMM_HOST, WAYS_HOST, "", HMREG_CAUSE_NONE },
	{ F(ON_HOST), HMEM_HOST_ALLOC, WAYS_HOST, "", HMREG_CAUSE_NONE },
	{ F(VMM) | F(NO_RDMA), HMEM_VMM, HMEM_WAY_COPY,
	  "mapped memory made without the attribute that lets NICs reach it",
	  HMREG_CAUSE_MEMORY_NO_RDMA },
	{ F(VMM) | F(NO_EXPORT), HMEM_VMM, HMEM_WAY_PEER | HMEM_WAY_COPY,
	  "mapped memory that was not created for export", HMREG_CAUSE_MEMORY_NO_EXPORT },
	{ F(VMM), HMEM_VMM, WAYS_DEVICE, "", HMREG_CAUSE_NONE },
	{ F(POOL) | F(NO_EXPORT), HMEM_POOL, HMEM_WAY_COPY,
	  "memory of a stream-ordered pool that cannot be exported; allocate outside of pools",
	  HMREG_CAUSE_MEMORY_POOL },
	{ F(POOL), HMEM_POOL, HMEM_WAY_DMABUF | HMEM_WAY_COPY, "", HMREG_CAUSE_NONE },
	{ F(NO_EXPORT) | F(NO_RDMA), HMEM_DEVICE, HMEM_WAY_COPY,
	  "device memory made without what NICs and export need", HMREG_CAUSE_MEMORY_NO_RDMA },
	{ F(NO_EXPORT) | F(NO_PEER), HMEM_DEVICE, HMEM_WAY_COPY,
	  "device memory that this driver cannot export", HMREG_CAUSE_EXPORT_UNSUPPORTED },
	{ F(NO_EXPORT), HMEM_DEVICE, HMEM_WAY_PEER | HMEM_WAY_COPY,
	  "device memory that was not allocated for export", HMREG_CAUSE_MEMORY_NO_EXPORT },
	{ F(NO_RDMA), HMEM_DEVICE, HMEM_WAY_COPY,
	  "device memory made without what NICs need to reach it", HMREG_CAUSE_MEMORY_NO_RDMA },
	{ F(NO_PEER), HMEM_DEVICE, HMEM_WAY_DMABUF | HMEM_WAY_COPY, "", HMREG_CAUSE_NONE },
	{ 0, HMEM_DEVICE, WAYS_DEVICE, "", HMREG_CAUSE_NONE },
};

static const struct judgement *judge(uint32_t flags)
{
	const struct judgement *j = judgements;

	while ((flags & j->has) != j->has)
		j++;
	return j;
}

/* Facts that two pieces of one range must share to be one region. */
#define SHARED_FACTS                                                                               \
	(F(ON_HOST) | F(MANAGED) | F(VMM) | F(POOL) | F(IMPORTED) | F(NO_RDMA) | F(NO_EXPORT) |    \
	 F(UNKNOWN))

static bool same_owner(const struct hmem_facts *a, const struct hmem_facts *b)
{
	return a->device == b->device && (a->flags & SHARED_FACTS) == (b->flags & SHARED_FACTS);
}

/*
 * Follow the range through its allocations.  Memory that the program maps by pieces may continue in
 * the next one; any other range that runs past its allocation is a mistake.
 */
static int follow(const struct hmem_ops *ops, const struct hmem_facts *first, uint64_t addr,
		  uint64_t len, struct hmem_memory *memory)
{
	uint64_t end = addr + len, at = first->base + first->len;
	struct hmem_facts next;
	int ret;

	while (at < end) {
		ret = ops->look((const void *)(uintptr_t)at, &next);
		/* a piece that does not hold the address asked for would lead nowhere */
		if (ret == 0 && same_owner(first, &next) && (first->flags & F(VMM)) &&
		    !(next.flags & F(NO_RANGE)) && at - next.base < next.len) {
			memory->segments++;
			at = next.base + next.len;
			memory->len = at - memory->base;
			continue;
		}
		if (ret != 0 && ret != -FI_ENOENT)
			return ret;
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_RANGE_ENDS,
			  "[0x%lx, +%lu): the memory of %s there ends at 0x%lx%s",
			  (unsigned long)addr, (unsigned long)len, ops->name, (unsigned long)at,
			  ret == 0 ? ", and another allocation begins" : "");
		return -FI_EINVAL;
	}
	return 0;
}

static void describe(const struct hmem_ops *ops, const struct hmem_facts *facts,
		     struct hmem_memory *memory)
{
	const struct judgement *j = judge(facts->flags);

	*memory = (struct hmem_memory){ .iface = ops->iface,
					.device = facts->device,
					.kind = j->kind,
					.ways = j->ways,
					.segments = 1,
					.host_access = facts->flags & F(HOST_ACCESS),
					.range_known = !(facts->flags & F(NO_RANGE)),
					.base = facts->base,
					.len = facts->len,
					.id = facts->id,
					.reason = j->reason,
					.cause = j->cause };
}

static int judge_range(const struct hmem_ops *ops, const struct hmem_facts *facts, const void *addr,
		       size_t len, struct hmem_memory *memory)
{
	describe(ops, facts, memory);
	if (!memory->range_known) {
		/* believed as far as its end, where the driver knows that much */
		struct hmem_facts last;
		int ret = ops->look((const char *)addr + len - 1, &last);

		memory->base = (uintptr_t)addr;
		memory->len = len;
		if (ret == 0 && same_owner(facts, &last))
			return 0;
		if (ret != 0 && ret != -FI_ENOENT)
			return ret;
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_RANGE_ENDS,
			  "[%p, +%zu): its last byte is not in the memory of %s as its first is",
			  addr, len, ops->name);
		return -FI_EINVAL;
	}
	return follow(ops, facts, (uintptr_t)addr, len, memory);
}

static void plain_host(const void *addr, size_t len, struct hmem_memory *memory)
{
	*memory = (struct hmem_memory){ .iface = FI_HMEM_SYSTEM,
					.device = HMEM_NO_DEVICE,
					.kind = HMEM_HOST,
					.ways = WAYS_HOST,
					.segments = 1,
					.host_access = true,
					.base = (uintptr_t)addr,
					.len = len,
					.reason = "" };
}

int hmem_classify(const void *addr, size_t len, struct hmem_memory *memory)
{
	const struct hmem_ops *const *ops;
	struct hmem_facts facts;

	if (len == 0 || hm_wraps((uintptr_t)addr, len)) {
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_RANGE_NONE, "[%p, +%zu) is no range of memory",
			  addr, len);
		return -FI_EINVAL;
	}
	for (ops = hmem_usable(); *ops; ops++) {
		int ret = (*ops)->look(addr, &facts);

		if (ret == 0)
			return judge_range(*ops, &facts, addr, len, memory);
		if (ret != -FI_ENOENT)
			return ret;
	}
	/* ends it in device memory, though it begins in none? */
	for (ops = hmem_usable(); len > 1 && *ops; ops++) {
		if ((*ops)->look((const char *)addr + len - 1, &facts) == 0) {
			HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_RANGE_MIXED,
				  "[%p, +%zu) begins in host memory and ends in that of %s", addr,
				  len, (*ops)->name);
			return -FI_EINVAL;
		}
	}
	plain_host(addr, len, memory);
	return 0;
}

/* ---- what the caller says it is ---- */

static int refuse_owner(const void *addr, size_t len, enum fi_hmem_iface iface, int device,
			const struct hmem_memory *memory)
{
	char named[48], found[48];

	if (iface != FI_HMEM_SYSTEM && memory->kind == HMEM_HOST && !hmem_host_reads(addr))
		HM_REFUSE(
			FI_LOG_MR, HMREG_CAUSE_MEMORY_FREED,
			"[%p, +%zu) was said to be %s, whose driver does not know it, and nothing "
			"is mapped there",
			addr, len, hmem_owner_text(iface, device, named));
	else
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_OWNER_OTHER,
			  "[%p, +%zu) was said to be %s, and is %s", addr, len,
			  hmem_owner_text(iface, device, named),
			  hmem_owner_text(memory->iface, memory->device, found));
	return -FI_EINVAL;
}

static int check_usable(enum fi_hmem_iface iface, int device, uint64_t flags)
{
	struct hmem_status status;
	int ret = hmem_error(iface);

	if (ret != 0) {
		hmem_status(iface, &status);
		HM_REFUSE(FI_LOG_MR, status.cause, "%s is not usable: %s", hmem_name(iface),
			  status.reason);
		return ret;
	}
	if (iface == FI_HMEM_SYSTEM || (flags & FI_HMEM_HOST_ALLOC) ||
	    hmem_has_device(iface, device))
		return 0;
	HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_DEVICE_UNKNOWN, "%s has no device %d", hmem_name(iface),
		  device);
	return -FI_ENODEV;
}

static int check_flags(uint64_t flags, const void *addr, const struct hmem_memory *memory)
{
	bool on_host = memory->ways & HMEM_WAY_HOST;

	if ((flags & FI_HMEM_DEVICE_ONLY) && memory->host_access) {
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_OWNER_OTHER,
			  "FI_HMEM_DEVICE_ONLY: the host can reach %p", addr);
		return -FI_EINVAL;
	}
	if ((flags & FI_HMEM_HOST_ALLOC) && !on_host) {
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_OWNER_OTHER,
			  "FI_HMEM_HOST_ALLOC: %p is memory of a device", addr);
		return -FI_EINVAL;
	}
	return 0;
}

/* Host memory as far as anybody knows: is it what the caller says it is?  Else it stays as it is. */
static int ask_driver(const struct hmem_ops *ops, int device, const void *addr, size_t len,
		      struct hmem_memory *memory)
{
	struct hmem_facts facts;
	int ret = ops->claim(device, addr, len, &facts);

	if (ret != 0)
		return ret == -FI_ENOENT ? 0 : ret;
	describe(ops, &facts, memory);
	if (!memory->range_known) {
		memory->base = (uintptr_t)addr;
		memory->len = len;
	}
	return 0;
}

int hmem_classify_as(enum fi_hmem_iface iface, int device, uint64_t flags, const void *addr,
		     size_t len, struct hmem_memory *memory)
{
	int ret = check_usable(iface, device, flags);

	if (ret == 0)
		ret = hmem_classify(addr, len, memory);
	if (ret == 0 && iface != FI_HMEM_SYSTEM && !(flags & FI_HMEM_HOST_ALLOC) &&
	    memory->iface == FI_HMEM_SYSTEM)
		ret = ask_driver(hmem_get(iface), device, addr, len, memory);
	if (ret != 0)
		return ret;
	/* host memory that an interface made or knows is host memory, too */
	if (iface == FI_HMEM_SYSTEM ? !(memory->ways & HMEM_WAY_HOST) : memory->iface != iface)
		return refuse_owner(addr, len, iface, device, memory);
	if (iface != FI_HMEM_SYSTEM && !(flags & FI_HMEM_HOST_ALLOC) &&
	    memory->device != HMEM_NO_DEVICE && memory->device != device)
		return refuse_owner(addr, len, iface, device, memory);
	return check_flags(flags, addr, memory);
}

int hmem_segment(const struct hmem_memory *memory, const void *addr, size_t len,
		 struct hmem_facts *facts, size_t *part)
{
	const struct hmem_ops *ops = hmem_get(memory->iface);
	uint64_t at = (uintptr_t)addr, left;
	int ret;

	if (!ops || memory->iface == FI_HMEM_SYSTEM || !memory->range_known) {
		*facts = (struct hmem_facts){ .device = memory->device,
					      .base = memory->base,
					      .len = memory->len,
					      .id = memory->id };
		*part = len;
		return 0;
	}
	ret = ops->look(addr, facts);
	if (ret == -FI_ENOENT) {
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_MEMORY_FREED, "%p is no memory of %s any more",
			  addr, hmem_name(memory->iface));
		return -FI_EINVAL;
	}
	if (ret != 0)
		return ret;
	left = facts->base + facts->len - at;
	*part = left < len ? left : len;
	return 0;
}

bool hmem_is_still(enum fi_hmem_iface iface, const void *addr, uint64_t id)
{
	const struct hmem_ops *ops = hmem_get(iface);
	struct hmem_facts facts;

	return ops && ops->look(addr, &facts) == 0 && facts.id == id;
}
