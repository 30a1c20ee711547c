/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local buffers that come without a descriptor, where FI_MR_LOCAL was not agreed.
 *
 * Each is registered for its one operation and deregistered at its end: a pair of system calls, which
 * is the price until registrations are kept in a cache.  A program that sends from the same buffers
 * again and again registers them itself and passes the descriptors.
 *
 * Where the kernel cannot pin the range, it may be the mapping of a dma-buf that the program has
 * registered and given the address of (FI_MR_HMEM not agreed): then that region serves.  It is not kept
 * alive: a program that closes it under its own transfer gets an error completion from the device.
 */
#include <errno.h>

#include "core/base/log.h"
#include "core/base/range.h"
#include "core/nic/verbs_mr.h"
#include "dmabuf/dmabuf.h"

/* ---- dma-buf regions whose addresses are known ---- */

/* Do buffers without a descriptor come from this kind of memory? */
static bool wants_offers(const struct nic_domain *domain)
{
	return !(domain->mr_mode & (FI_MR_LOCAL | FI_MR_HMEM));
}

void verbs_local_offer(struct verbs_domain *domain, struct verbs_region *region)
{
	if (!wants_offers(&domain->domain))
		return;
	pthread_mutex_lock(&domain->composites_lock);
	hm_list_add_tail(&domain->dmabufs, &region->link);
	pthread_mutex_unlock(&domain->composites_lock);
}

void verbs_local_withdraw(struct verbs_domain *domain, struct verbs_region *region)
{
	pthread_mutex_lock(&domain->composites_lock);
	hm_list_del(&region->link);
	pthread_mutex_unlock(&domain->composites_lock);
}

static struct nic_region *region_behind(struct verbs_region *mine)
{
	return (struct nic_region *)(void *)mine - 1;
}

/* One entry for the range out of a dma-buf region.  False: none holds all of it, with the right. */
static bool find_offer(struct verbs_domain *domain, uint64_t addr, uint64_t len, bool writes,
		       struct ibv_sge *sge)
{
	bool found = false;

	pthread_mutex_lock(&domain->composites_lock);
	hm_list_for_each(link, &domain->dmabufs)
	{
		struct nic_region *region =
			region_behind(hm_list_entry(link, struct verbs_region, link));
		bool may = !writes || region->access & (FI_RECV | FI_READ | FI_REMOTE_WRITE);
		uint64_t covered = 0;

		if (may && nic_region_holds(region, addr, len))
			verbs_region_sges(region, addr, len, sge, 1, &covered);
		found = covered == len;
		if (found)
			break;
	}
	pthread_mutex_unlock(&domain->composites_lock);
	return found;
}

/* ---- one operation's buffer ---- */

/* Memory of an accelerator, exported for this operation alone.  NULL with errno. */
static struct ibv_mr *register_device(struct verbs_domain *domain, const void *addr, size_t len,
				      int access)
{
	const struct nic_domain *nic = &domain->domain;
	struct dmabuf *dmabuf;
	struct ibv_mr *mr;
	int err;

	if (!(nic->caps & FI_HMEM) || (nic->mr_mode & FI_MR_HMEM) ||
	    !(nic->port->ways & NIC_WAY_DMABUF) || dmabuf_of(addr, len, &dmabuf) != 0) {
		errno = EFAULT;
		return NULL;
	}
	errno = 0;
	mr = verbs.reg_dmabuf_mr(domain->pd, dmabuf_offset(dmabuf, addr), len, (uintptr_t)addr,
				 dmabuf_fd(dmabuf), access);
	err = errno;
	dmabuf_put(dmabuf, false);
	errno = err;
	return mr;
}

int verbs_local_acquire(struct verbs_domain *domain, const void *addr, size_t len, bool writes,
			struct ibv_sge *sge, struct ibv_mr **mr)
{
	struct verbs_attempt attempt = { .domain = domain,
					 .call = VERBS_CALL_REG_MR,
					 .addr = addr,
					 .len = len,
					 .access = writes ? IBV_ACCESS_LOCAL_WRITE : 0,
					 .iova = (uintptr_t)addr,
					 .fd = -1 };
	struct ibv_mr *made;

	if (len > UINT32_MAX) {
		HM_WARN(FI_LOG_EP_DATA, "%zu bytes at %p: one buffer has at most 4 GiB less one",
			len, addr);
		return -FI_EMSGSIZE;
	}
	if (len == 0) {
		*sge = (struct ibv_sge){ .addr = (uintptr_t)addr };
		*mr = NULL;
		return 0;
	}
	errno = 0;
	made = verbs.reg_mr_iova2(domain->pd, (void *)(uintptr_t)addr, len, (uintptr_t)addr,
				  (unsigned int)attempt.access);
	if (!made) {
		int err = errno;

		if (err == EFAULT && find_offer(domain, (uintptr_t)addr, len, writes, sge)) {
			*mr = NULL;
			return 0;
		}
		if (err == EFAULT)
			made = register_device(domain, addr, len, (int)attempt.access);
		if (!made)
			return verbs_cause(&attempt, errno ? errno : err);
	}
	*sge = (struct ibv_sge){ (uintptr_t)addr, (uint32_t)len, made->lkey };
	*mr = made;
	atomic_fetch_add_explicit(&domain->parts, 1, memory_order_relaxed);
	return 0;
}

void verbs_local_release(struct verbs_domain *domain, struct ibv_mr *mr)
{
	if (!mr)
		return;
	verbs_end(domain, VERBS_KIND_MR, mr, NULL, 0);
	atomic_fetch_sub_explicit(&domain->parts, 1, memory_order_relaxed);
}
