/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs: regions that are a part of another one.
 *
 * A sub-MR is a region like any other, with a key, rights and a state of its own; it shares with its base
 * what the NIC has pinned and translated, and where the memory is.  base may be a sub-MR, too.
 *
 * hm_mr.subs counts the regions that were made of one.  Closing takes the count from 0 to HM_MR_CLOSING,
 * making a sub-MR counts up only from below that: so the two exclude each other without a lock, and a
 * base that has sub-MRs is not touched by the attempt to close it.
 */
#include "core/mr/mr.h"

#include "core/base/range.h"

/* ---- the count ---- */

int hm_mr_hold_base(struct hm_mr *base)
{
	uint32_t subs = atomic_load_explicit(&base->subs, memory_order_relaxed);

	do {
		if (subs >= HM_MR_CLOSING - 1) {
			HM_WARN(FI_LOG_MR, subs & HM_MR_CLOSING ? "base_mr is being closed"
								: "base_mr has too many sub-MRs");
			return subs & HM_MR_CLOSING ? -FI_EINVAL : -FI_ENOSPC;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&base->subs, &subs, subs + 1, memory_order_acquire, memory_order_relaxed));
	return 0;
}

void hm_mr_drop_base(struct hm_mr *base)
{
	atomic_fetch_sub_explicit(&base->subs, 1, memory_order_release);
}

int hm_mr_begin_close(struct hm_mr *mr)
{
	uint32_t none = 0;

	if (atomic_compare_exchange_strong_explicit(&mr->subs, &none, HM_MR_CLOSING,
						    memory_order_acquire, memory_order_relaxed))
		return 0;
	HM_WARN(FI_LOG_MR, none & HM_MR_CLOSING
				   ? "the region is being closed by another thread"
				   : "the region has sub-MRs, which have to be closed before it");
	return -FI_EBUSY;
}

void hm_mr_end_close(struct hm_mr *mr)
{
	atomic_store_explicit(&mr->subs, 0, memory_order_release);
}

/* ---- making one ---- */

static int check_inside(const struct nic_region *base, const struct iovec *iov, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (nic_region_holds(base, (uintptr_t)iov[i].iov_base, iov[i].iov_len))
			continue;
		HM_WARN(FI_LOG_MR,
			"entry %zu, [%p, +%zu), is not inside %s of base_mr (0x%lx, %lu bytes)", i,
			iov[i].iov_base, iov[i].iov_len,
			base->ext && base->ext->iov ? "one segment" : "the memory",
			(unsigned long)base->base, (unsigned long)base->len);
		return -FI_EINVAL;
	}
	return 0;
}

/* FI_HMEM_DEVICE_ONLY and FI_HMEM_HOST_ALLOC say something about memory that is known already. */
static int check_memory_flags(const struct nic_region *base, uint64_t flags)
{
	const struct nic_place *place = base->ext ? base->ext->places : NULL;
	bool device = place && place->device != HMEM_NO_DEVICE;

	if (atomic_load(&base->state) & NIC_REGION_IMPORTED) /* which nobody can tell */
		return 0;
	if ((flags & FI_HMEM_DEVICE_ONLY) && !device) {
		HM_WARN(FI_LOG_MR, "FI_HMEM_DEVICE_ONLY: the host can reach the memory of base_mr");
		return -FI_EINVAL;
	}
	if ((flags & FI_HMEM_HOST_ALLOC) && device) {
		HM_WARN(FI_LOG_MR, "FI_HMEM_HOST_ALLOC: the memory of base_mr is a device's");
		return -FI_EINVAL;
	}
	return 0;
}

int hm_mr_check_base(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
		     struct hm_mr_request *request)
{
	struct hm_mr *base = hm_container(attr->base_mr, struct hm_mr, mr);
	int ret;

	if (attr->base_mr->fid.fclass != FI_CLASS_MR) {
		HM_WARN(FI_LOG_MR, "base_mr %p is no region, or is closed", (void *)base);
		return -FI_EINVAL;
	}
	if (base->region.domain != domain->nic) {
		HM_WARN(FI_LOG_MR, "base_mr is a region of another domain");
		return -FI_EINVAL;
	}
	ret = check_inside(&base->region, request->nic.iov, request->nic.iov_count);
	if (ret == 0)
		ret = check_memory_flags(&base->region, request->nic.flags);
	if (ret == 0)
		request->base = base;
	return ret;
}

/* Which segment of the base holds addr, and how far inside. */
static size_t segment_of(const struct nic_region *base, uint64_t addr, uint64_t *offset)
{
	const struct nic_region_ext *ext = base->ext;

	*offset = addr - base->base;
	for (size_t i = 0; ext->iov && i < ext->iov_count; i++) {
		*offset = addr - (uintptr_t)ext->iov[i].iov_base;
		if (*offset < ext->iov[i].iov_len)
			return i;
	}
	return 0;
}

void hm_mr_base_places(const struct hm_mr_request *request, struct nic_place *places)
{
	const struct nic_region *base = &request->base->region;

	for (size_t i = 0; i < request->nic.iov_count; i++) {
		uint64_t addr = (uintptr_t)request->nic.iov[i].iov_base, offset;
		const struct nic_place *place = &base->ext->places[segment_of(base, addr, &offset)];

		places[i] = (struct nic_place){ .iface = place->iface,
						.device = place->device,
						.at = (char *)place->at + offset,
						.id = place->id };
	}
}

/* ---- where the NIC cannot share ---- */

/* The same memory a second time, as if there were no base. */
static int register_again(struct hm_mr_domain *domain, struct nic_region *region,
			  struct hm_mr_request *request)
{
	const struct nic_place *places = region->ext ? region->ext->places : NULL;
	struct fi_mr_attr attr = { .mr_iov = request->nic.iov,
				   .iov_count = request->nic.iov_count,
				   .access = request->nic.access };
	int ret = 0;

	if (atomic_load(&region->state) & NIC_REGION_IMPORTED) {
		HM_WARN(FI_LOG_MR,
			"%s cannot make a sub-MR of a dma-buf; register it again with FI_MR_DMABUF",
			domain->nic->port->domain_name);
		return -FI_EOPNOTSUPP;
	}
	for (size_t i = 0; places && i < attr.iov_count; i++)
		if (places[i].device != HMEM_NO_DEVICE) {
			attr.iface = places[i].iface;
			attr.device.cuda = places[i].device; /* an int for each interface */
		}
	if (attr.iface != FI_HMEM_SYSTEM)
		ret = hm_mr_find_memory(domain, &attr, request->nic.flags, request);
	return ret == 0 ? hm_mr_register_by_path(domain, region, request) : ret;
}

int hm_mr_register_sub(struct hm_mr_domain *domain, struct nic_region *region,
		       struct hm_mr_request *request)
{
	struct nic_region *base = &request->base->region;
	int ret;

	if (region->ext && base->ext)
		region->ext->path = base->ext->path;
	ret = domain->nic->ops->region_derive(region, base, &request->nic);
	if (ret != -FI_ENOSYS)
		return ret;
	return register_again(domain, region, request);
}
