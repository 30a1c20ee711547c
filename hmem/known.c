/* SPDX-License-Identifier: BSD-2-Clause */
#include "hmem/known.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/refusal.h"

struct entry {
	struct hm_list link;
	struct hmem_known_piece piece;
};

int hmem_known_add(struct hmem_known *known, const struct hmem_known_piece *piece)
{
	struct entry *entry = malloc(sizeof(*entry));

	if (!entry) {
		HM_WARN(FI_LOG_MR, "no memory to remember device memory at 0x%lx",
			(unsigned long)piece->facts.base);
		return -FI_ENOMEM;
	}
	entry->piece = *piece;
	pthread_mutex_lock(&known->lock);
	entry->piece.facts.id = ++known->last_id;
	hm_list_add_tail(&known->list, &entry->link);
	pthread_mutex_unlock(&known->lock);
	return 0;
}

/* Lock held. */
static struct entry *entry_at(struct hmem_known *known, uint64_t addr)
{
	hm_list_for_each(link, &known->list)
	{
		struct entry *entry = hm_list_entry(link, struct entry, link);

		if (addr - entry->piece.facts.base < entry->piece.facts.len)
			return entry;
	}
	return NULL;
}

int hmem_known_find(struct hmem_known *known, const void *addr, struct hmem_known_piece *piece)
{
	struct entry *entry;

	pthread_mutex_lock(&known->lock);
	entry = entry_at(known, (uintptr_t)addr);
	if (entry)
		*piece = entry->piece;
	pthread_mutex_unlock(&known->lock);
	return entry ? 0 : -FI_ENOENT;
}

int hmem_known_take(struct hmem_known *known, const void *base, struct hmem_known_piece *piece)
{
	struct entry *entry;

	pthread_mutex_lock(&known->lock);
	entry = entry_at(known, (uintptr_t)base);
	if (entry && entry->piece.facts.base == (uintptr_t)base)
		hm_list_del(&entry->link);
	else
		entry = NULL;
	pthread_mutex_unlock(&known->lock);
	if (!entry) {
		HM_WARN(FI_LOG_MR, "%p was not made or registered here, or is given back already",
			base);
		return -FI_EINVAL;
	}
	*piece = entry->piece;
	free(entry);
	return 0;
}

int hmem_span(const struct hmem_memory *memory, const void *addr, size_t len, uint64_t unit,
	      const char *call, struct hmem_span *span)
{
	uint64_t want = memory->range_known ? memory->len : len;

	span->base = memory->range_known ? memory->base : (uintptr_t)addr;
	span->len = (want + unit - 1) & ~(unit - 1);
	if (span->base % unit == 0 && span->len > 0)
		return 0;
	HM_WARN(FI_LOG_MR, "%p, +%zu: %s wants multiples of %lu", addr, len, call,
		(unsigned long)unit);
	return -FI_EINVAL;
}

bool hmem_host_reads(const void *addr)
{
	uintptr_t page = (uintptr_t)addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)addr, 1 };

	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1)
		return true;
	/* where the call is not allowed: is there a mapping at all? */
	return errno != EFAULT && msync((void *)page, 1, MS_ASYNC) == 0;
}

enum hmreg_cause hmem_cause_of(int ret)
{
	switch (ret) {
	case -FI_ENOMEM:
		return HMREG_CAUSE_DEVICE_MEMORY;
	case -FI_EPERM:
	case -FI_EACCES:
		return HMREG_CAUSE_DEVICE_PERMISSION;
	default:
		return HMREG_CAUSE_DRIVER_CALL;
	}
}

const struct hmem_failure *hmem_failure_of(const struct hmem_failure *failures, size_t count,
					   int code)
{
	for (size_t i = 0; i < count; i++)
		if (failures[i].code == code)
			return &failures[i];
	return NULL;
}

int hmem_failed(const struct hmem_failure *failures, size_t count,
		const struct hmem_failure *unknown, const char *call, int code)
{
	const struct hmem_failure *failure = hmem_failure_of(failures, count, code);

	failure = failure ? failure : unknown;
	HM_REFUSE(FI_LOG_MR, hmem_cause_of(failure->ret), "%s: %s (%d): %s", call, failure->name,
		  code, failure->text);
	return failure->ret;
}
