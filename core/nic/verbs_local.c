/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local buffers that come without a descriptor and that the kernel cannot pin, although they are there:
 * a program that maps a dma-buf gets pages which are the exporter's.  Where it has registered that dma-buf
 * and given its address (FI_MR_HMEM not agreed), that region serves as if its descriptor had been passed.  It
 * is not kept alive: a program that closes it under its own transfer gets an error completion.
 *
 * All other buffers core registers itself (core/mr/local.h).
 */
#include "core/nic/verbs_mr.h"

/* Do buffers without a descriptor come from this kind of memory? */
static bool wants_offers(const struct nic_domain *domain)
{
	bool named = domain->mr_mode & FI_MR_LOCAL &&
		     (!(domain->caps & FI_XPU) || domain->mr_mode & FI_MR_XPU_DESC);

	return !named && !(domain->mr_mode & FI_MR_HMEM);
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

struct nic_region *verbs_region_at(struct nic_domain *nic, const void *addr, size_t len,
				   bool writes)
{
	struct verbs_domain *domain = verbs_domain_of(nic);
	struct nic_region *found = NULL;

	pthread_mutex_lock(&domain->composites_lock);
	hm_list_for_each(link, &domain->dmabufs)
	{
		struct nic_region *region =
			region_behind(hm_list_entry(link, struct verbs_region, link));
		bool may = !writes || region->access & (FI_RECV | FI_READ | FI_REMOTE_WRITE);

		if (!may || !nic_region_holds(region, (uintptr_t)addr, len))
			continue;
		/* none: it is being closed, or not yet registered in full */
		if (hm_key_reference(&region->node, hm_key_handle(&region->node))) {
			found = region;
			break;
		}
	}
	pthread_mutex_unlock(&domain->composites_lock);
	return found;
}
