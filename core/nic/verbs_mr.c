/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of the verbs NIC: host memory or a dma-buf, in one ibv_mr or in several (verbs_parts.c).
 *
 * Registration is the verb itself and the arithmetic before it: no lock, no allocation, no look at
 * /proc.  Why a verb failed is found out after it has (verbs_cause.c).
 *
 * Rights: memory is pinned for writing exactly where the NIC may write, so that memory which is only
 * readable registers for the rights that read.  A page size that the caller hints at is not looked at:
 * the kernel finds the largest pages that the memory is made of.
 */
#include "core/nic/verbs_mr.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/range.h"

#define PREFETCH_SGES 16

/* ---- rights ---- */

/* IBV_ACCESS_* for rights of fi_mr(3).  Remote rights that write need the local one beside them. */
static int access_of(const struct verbs_domain *domain, uint64_t rights)
{
	int access = 0;

	if (rights & (FI_RECV | FI_READ))
		access |= IBV_ACCESS_LOCAL_WRITE;
	if (rights & FI_REMOTE_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (rights & FI_REMOTE_WRITE) {
		access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
		if (domain->device->can & HMREG_CAN_ATOMICS)
			access |= IBV_ACCESS_REMOTE_ATOMIC;
	}
	return access;
}

int verbs_region_access(const struct nic_region *region)
{
	const struct verbs_region *mine = verbs_region_of(region);
	int access = access_of(verbs_domain_of(region->domain), region->access);

	if (mine->flags & VERBS_REGION_ON_DEMAND)
		access |= IBV_ACCESS_ON_DEMAND;
	if (mine->flags & VERBS_REGION_RELAXED)
		access |= IBV_ACCESS_RELAXED_ORDERING;
	if (mine->flags & VERBS_REGION_BINDABLE)
		access |= IBV_ACCESS_MW_BIND;
	return access;
}

/*
 * May windows be bound to a region of these rights?  For the device the right to bind is nothing more to
 * do, and it is given wherever it can be.  But the kernel pins for writing what has it, since a window may
 * write: memory that is only readable would not register any more, and private pages of a file would be
 * copied.  So regions that write have it, and no others.  On-demand pages are not pinned: there is nothing
 * to save.
 */
static bool is_bindable(const struct verbs_domain *domain, const struct nic_region_request *req,
			uint32_t flags)
{
	uint64_t can = domain->device->can;

	return (can & HMREG_CAN_WINDOWS) && !req->internal && !(flags & VERBS_REGION_ON_DEMAND) &&
	       (!req->dmabuf || (can & HMREG_CAN_DMABUF_WINDOWS)) &&
	       (access_of(domain, req->access) & IBV_ACCESS_LOCAL_WRITE);
}

/* VERBS_REGION_* of a new region. */
static uint32_t region_flags(const struct verbs_domain *domain,
			     const struct nic_region_request *req)
{
	uint32_t flags = domain->zero_based ? VERBS_REGION_ZERO_BASE : 0;

	if (req->dmabuf)
		flags |= VERBS_REGION_DMABUF; /* its exporter tells the driver when pages move */
	else if (domain->on_demand && !req->peer_memory &&
		 !req->internal) /* peer memory has no pages to be asked for */
		flags |= VERBS_REGION_ON_DEMAND;
	if (is_bindable(domain, req, flags))
		flags |= VERBS_REGION_BINDABLE;
	if (!(req->flags & HMREG_MR_RELAXED_ORDERING))
		return flags;
	if (domain->device->can & HMREG_CAN_RELAXED_ORDERING)
		flags |= VERBS_REGION_RELAXED;
	else
		HM_INFO(FI_LOG_MR, "%s has no relaxed ordering: this region is ordered strictly",
			domain->device->name);
	return flags;
}

/* ---- one part ---- */

uint64_t verbs_iova_of(const struct verbs_domain *domain, uint64_t addr)
{
	return domain->zero_based ? addr & ((uint64_t)sysconf(_SC_PAGESIZE) - 1) : addr;
}

static int part_refused(const struct verbs_source *source, const struct verbs_part *part, int err)
{
	bool dmabuf = source->fd >= 0;
	struct verbs_attempt attempt = { .domain = source->domain,
					 .call = dmabuf ? VERBS_CALL_REG_DMABUF : VERBS_CALL_REG_MR,
					 .addr = (void *)(uintptr_t)part->addr,
					 .len = part->len,
					 .access = (uint64_t)source->access,
					 .iova = part->iova,
					 .fd = source->fd,
					 .offset = source->fd_offset + part->offset };

	return verbs_cause(&attempt, err);
}

int verbs_part_register(const struct verbs_source *source, struct verbs_part *part)
{
	struct verbs_domain *domain = source->domain;
	struct ibv_mr *mr;

	if (source->base)
		return verbs_window_open(source, part);
	errno = 0;
	if (source->fd < 0)
		mr = verbs.reg_mr_iova2(domain->pd, (void *)(uintptr_t)part->addr, part->len,
					part->iova, (unsigned int)source->access);
	else
		mr = verbs.reg_dmabuf_mr(domain->pd, source->fd_offset + part->offset, part->len,
					 part->iova, source->fd, source->access);
	if (!mr)
		return part_refused(source, part, errno);
	part->mr = mr;
	atomic_fetch_add_explicit(&domain->parts, 1, memory_order_relaxed);
	return 0;
}

int verbs_part_deregister(const struct verbs_source *source, struct verbs_part *part)
{
	struct verbs_domain *domain = source->domain;
	struct verbs_attempt attempt = { .domain = domain,
					 .call = VERBS_CALL_DEREG,
					 .addr = (void *)(uintptr_t)part->addr,
					 .len = part->len,
					 .fd = -1 };
	int err;

	if (!part->mr)
		return 0;
	if (source->base)
		return verbs_window_close(source, part);
	err = verbs_errno(verbs.dereg_mr(part->mr));
	if (err != 0 && !verbs_domain_lost(domain, err))
		return verbs_cause(&attempt, err);
	part->mr = NULL;
	atomic_fetch_sub_explicit(&domain->parts, 1, memory_order_relaxed);
	return 0;
}

/* ---- regions ---- */

/* What sub-MRs of a region that is registered will want. */
static void prepare_for_subs(struct nic_region *region, const struct nic_region_request *req)
{
	struct verbs_region *mine = verbs_region_of(region);

	/* where windows can be bound, too: not every sub-MR can be one */
	if (!region->parent && (atomic_load(&region->state) & NIC_REGION_IMPORTED))
		verbs_file_note(mine, req->dmabuf, req->sub_mr_cnt > 0);
	if (mine->flags & VERBS_REGION_BINDABLE)
		verbs_pool_fill(region, req->sub_mr_cnt);
}

/* A sub-MR that is no window has pages of its own, which those above it do not lead to. */
static void count_again(const struct nic_region *region, uint32_t by)
{
	for (const struct nic_region *base = region->parent; base; base = base->parent)
		atomic_fetch_add(&verbs_region_of(base)->again, by);
}

int verbs_region_check(const struct verbs_domain *domain)
{
	if (verbs_inherited(domain)) {
		HM_WARN(FI_LOG_MR, "the domain is the parent process's: open one in this process");
		return -FI_EOPBADSTATE;
	}
	return 0;
}

int verbs_region_register(struct nic_region *region, const struct nic_region_request *req)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	struct verbs_region *mine = verbs_region_of(region);
	struct verbs_source source = { .domain = domain, .fd = -1 };
	int ret;

	if (req->internal && atomic_load(&domain->gone))
		return -FI_ENODEV;
	ret = verbs_region_check(domain);
	if (ret != 0)
		return ret;
	if (req->dmabuf) {
		source.fd = req->dmabuf->fd;
		source.fd_offset = req->dmabuf->offset;
		source.files = req->iov_count > 1 ? req->dmabuf : NULL;
	}
	*mine = (struct verbs_region){ .flags = region_flags(domain, req),
				       .file = { .fd = -1, .kept = -1 } };
	hm_list_init(&mine->link);
	source.access = verbs_region_access(region);
	if (req->iov_count == 1 && region->len <= domain->device->max_mr_size) {
		mine->one.addr = region->base;
		mine->one.len = region->len;
		mine->one.iova = verbs_iova_of(domain, region->base);
		ret = verbs_part_register(&source, &mine->one);
	} else {
		ret = verbs_parts_register(region, &source, req->iov, req->iov_count);
	}
	if (ret != 0)
		return ret;
	if (req->dmabuf && req->dmabuf->base_addr && !req->internal)
		verbs_local_offer(domain, mine);
	prepare_for_subs(region, req);
	count_again(region, 1);
	return 0;
}

int verbs_region_deregister(struct nic_region *region)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	struct verbs_region *mine = verbs_region_of(region);
	bool offered = !hm_list_empty(&mine->link);
	struct verbs_source source = { .domain = domain, .access = verbs_region_access(region) };
	int ret;

	if (verbs_inherited(domain))
		return 0;
	if (nic_region_is_internal(region)) {
		verbs_region_abandon(&source, mine);
		return 0;
	}
	source.fd = mine->flags & VERBS_REGION_DMABUF ? VERBS_FD_GONE : -1;
	if (mine->flags & VERBS_REGION_WINDOW) {
		source.fd = -1;
		source.base = region->parent;
	}
	if (offered)
		verbs_local_withdraw(domain, mine);
	if (mine->parts)
		ret = verbs_parts_deregister(&source, mine->parts);
	else
		ret = verbs_part_deregister(&source, &mine->one);
	if (ret != 0) {
		if (offered)
			verbs_local_offer(domain, mine);
		return ret;
	}
	mine->parts = NULL;
	if (!(mine->flags & VERBS_REGION_WINDOW))
		count_again(region, UINT32_MAX); /* one less */
	verbs_pool_free(region);
	verbs_file_forget(mine);
	return 0;
}

uint64_t verbs_region_key(const struct nic_region *region)
{
	const struct verbs_region *mine = verbs_region_of(region);

	if (mine->parts)
		return mine->parts->key;
	return VERBS_KEY(verbs_part_rkey(&mine->one),
			 mine->flags & VERBS_REGION_ZERO_BASE ? mine->one.iova : 0);
}

/* Where no endpoint is enabled, no thread waits for the device's events: who asks reads them. */
static void look_for_events(struct verbs_domain *domain)
{
	bool idle;

	if (pthread_mutex_trylock(&domain->lock) != 0)
		return;
	idle = !domain->progress;
	pthread_mutex_unlock(&domain->lock);
	if (idle)
		verbs_domain_async(domain);
}

int verbs_region_info(const struct nic_region *region, struct hmreg_region_info *info)
{
	const struct verbs_region *mine = verbs_region_of(region);
	struct verbs_domain *domain = verbs_domain_of(region->domain);

	if (!verbs_inherited(domain))
		look_for_events(domain);
	info->path = region->ext && region->ext->path	 ? region->ext->path
		     : mine->flags & VERBS_REGION_DMABUF ? HMREG_PATH_DMABUF
							 : HMREG_PATH_HOST;
	info->state = 0;
	if (mine->flags & VERBS_REGION_ON_DEMAND)
		info->state |= HMREG_REGION_ON_DEMAND;
	if (mine->flags & VERBS_REGION_RELAXED)
		info->state |= HMREG_REGION_RELAXED;
	if (mine->flags & VERBS_REGION_ZERO_BASE)
		info->state |= HMREG_REGION_ZERO_BASE;
	if (mine->flags & VERBS_REGION_WINDOW)
		info->state |= HMREG_REGION_WINDOW;
	if (atomic_load(&domain->gone))
		info->state |= HMREG_REGION_REVOKED;
	info->parts = mine->parts ? (uint32_t)mine->parts->count : 1;
	info->len = region->len;
	return 0;
}

int verbs_region_part(const struct nic_region *region, size_t index, struct hmreg_verbs_part *out)
{
	const struct verbs_region *mine = verbs_region_of(region);
	size_t count = mine->parts ? mine->parts->count : 1;
	const struct verbs_part *part;

	if (index >= count) {
		HM_WARN(FI_LOG_MR, "part %zu of a region that has %zu", index, count);
		return -FI_ENOENT;
	}
	part = mine->parts ? &mine->parts->part[index] : &mine->one;
	if (!part->mr) {
		HM_WARN(FI_LOG_MR, "part %zu is gone: the region is half closed", index);
		return -FI_ENOENT;
	}
	atomic_store(&verbs_domain_of(region->domain)->shown, true);
	out->mr = part->mr;
	out->lkey = part->mr->lkey;
	out->rkey = verbs_part_rkey(part);
	out->iova = part->iova;
	out->offset = part->offset;
	out->len = part->len;
	return 0;
}

int verbs_region_desc(const struct nic_region *region, void *desc, size_t *size)
{
	const struct verbs_region *mine = verbs_region_of(region);
	const struct verbs_part *part = mine->parts ? &mine->parts->part[0] : &mine->one;

	if (mine->parts && mine->parts->count > 1) {
		HM_WARN(FI_LOG_MR,
			"the region is %zu of the device's, each with an lkey of its own "
			"(verbs_part)",
			mine->parts->count);
		return -FI_EOPNOTSUPP;
	}
	if (!part->mr) {
		HM_WARN(FI_LOG_MR, "the region is half closed");
		return -FI_EOPNOTSUPP;
	}
	*size = sizeof(part->mr->lkey);
	memcpy(desc, &part->mr->lkey, *size);
	return 0;
}

uint32_t verbs_region_lkey(const struct nic_region *region)
{
	const struct verbs_region *mine = verbs_region_of(region);
	const struct verbs_part *part = mine->parts ? &mine->parts->part[0] : &mine->one;

	return part->mr && (!mine->parts || mine->parts->count == 1) ? part->mr->lkey : UINT32_MAX;
}

/* ---- refresh ---- */

/*
 * On-demand pages follow the process by themselves; they are brought in here so that the first access
 * need not wait.  Pages that are not there are no error: the region may be over such.
 */
static int prefetch(const struct nic_region *region, const struct iovec *iov)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	bool writes = verbs_region_access(region) & IBV_ACCESS_LOCAL_WRITE;
	struct verbs_attempt attempt = { .domain = domain, .call = VERBS_CALL_ADVISE, .fd = -1 };
	uint64_t addr = (uintptr_t)iov->iov_base, left = iov->iov_len, covered;

	for (; left > 0; addr += covered, left -= covered) {
		struct ibv_sge sge[PREFETCH_SGES];
		size_t n = verbs_region_sges(region, addr, left, sge, PREFETCH_SGES, &covered);
		int err;

		if (n == 0)
			break;
		err = ibv_advise_mr(domain->pd,
				    writes ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
					   : IBV_ADVISE_MR_ADVICE_PREFETCH,
				    IBV_ADVISE_MR_FLAG_FLUSH, sge, (uint32_t)n);
		if (err == 0)
			continue;
		if (err == EFAULT) {
			HM_INFO(FI_LOG_MR, "not all of [%p, +%zu) is mapped now", iov->iov_base,
				iov->iov_len);
			return 0;
		}
		attempt.addr = (void *)(uintptr_t)addr;
		attempt.len = covered;
		return verbs_cause(&attempt, err);
	}
	return 0;
}

/* Let a pinned part take up the pages that are at its addresses now, under the keys it has. */
static int repin(const struct nic_region *region, struct verbs_part *part)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	struct ibv_mr *mr = part->mr;
	uint32_t lkey = mr->lkey, rkey = mr->rkey;
	struct verbs_attempt attempt = { .domain = domain,
					 .call = VERBS_CALL_REREG,
					 .addr = (void *)(uintptr_t)part->addr,
					 .len = part->len,
					 .access = (uint64_t)verbs_region_access(region),
					 .iova = part->iova,
					 .fd = -1 };
	int ret;

	errno = 0;
	ret = verbs.rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			     (void *)(uintptr_t)part->addr, part->len, verbs_region_access(region));
	if (ret != 0 && ret != IBV_REREG_MR_ERR_DO_FORK_OLD)
		return verbs_cause(&attempt, errno);
	if (mr->lkey == lkey && mr->rkey == rkey)
		return 0;
	HM_WARN(FI_LOG_MR,
		"%s gave the region other keys with its new pages (0x%" PRIx32 " was 0x%" PRIx32
		"): peers cannot reach it any more, register it anew",
		domain->device->name, mr->rkey, rkey);
	return -FI_ENOKEY;
}

static bool touches(const struct verbs_part *part, const struct iovec *iov, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t addr = (uintptr_t)iov[i].iov_base, len = iov[i].iov_len;

		if (addr < part->addr ? part->addr - addr < len : addr - part->addr < part->len)
			return true;
	}
	return false;
}

/*
 * Is the part of host memory?  A dma-buf has its pages, wherever it is mapped; but segments of the host
 * may be beside exported ones.
 */
static bool on_host(const struct nic_region *region, const struct verbs_part *part)
{
	if (!(verbs_region_of(region)->flags & VERBS_REGION_DMABUF))
		return true;
	return region->ext && nic_region_on_host(region, part->addr);
}

/* Parts whose pinned pages may be others now. */
static bool is_stale(const struct nic_region *region, const struct verbs_part *part,
		     const struct iovec *iov, size_t count)
{
	return touches(part, iov, count) && on_host(region, part);
}

/* Why pinned pages of this region cannot be exchanged; NULL: they can. */
static const char *cannot_repin(const struct verbs_domain *domain, const struct verbs_region *mine)
{
	if (mine->flags & VERBS_REGION_WINDOW)
		return "the pages of a memory window are its base's";
	if (!(domain->device->can & HMREG_CAN_REREG))
		return "the device cannot give a region other pages under the same key";
	if (domain->zero_based)
		return "regions addressed from 0 cannot be given other pages (FI_MR_VIRT_ADDR)";
	return NULL;
}

static int refresh_pinned(struct nic_region *region, const struct iovec *iov, size_t count)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	struct verbs_region *mine = verbs_region_of(region);
	size_t parts = mine->parts ? mine->parts->count : 1;
	const char *why = cannot_repin(domain, mine);
	int ret = 0;

	for (size_t i = 0; i < parts && ret == 0; i++) {
		struct verbs_part *part = mine->parts ? &mine->parts->part[i] : &mine->one;

		if (!is_stale(region, part, iov, count))
			continue;
		if (why) {
			HM_WARN(FI_LOG_MR, "%s: %s; close the region and register it anew",
				domain->device->name, why);
			return -FI_ENOSYS;
		}
		if (atomic_load(&mine->again)) {
			HM_WARN(FI_LOG_MR,
				"%s: the memory of sub-MRs is registered a second time, and would "
				"keep "
				"the pages of before: close them first",
				domain->device->name);
			return -FI_EBUSY;
		}
		if (part->mr)
			ret = repin(region, part);
		else
			ret = -FI_ENOENT;
		if (ret == -FI_ENOENT)
			HM_WARN(FI_LOG_MR, "a part of the region is gone: it is half closed");
	}
	return ret;
}

int verbs_region_refresh(struct nic_region *region, const struct iovec *iov, size_t count)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	struct verbs_region *mine = verbs_region_of(region);
	int ret = 0;

	if (!(mine->flags & VERBS_REGION_ON_DEMAND))
		return refresh_pinned(region, iov, count);
	if (!(domain->device->can & HMREG_CAN_PREFETCH))
		return 0;
	for (size_t i = 0; i < count && ret == 0; i++)
		ret = prefetch(region, &iov[i]);
	return ret;
}
