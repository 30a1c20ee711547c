/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs: regions that are a part of another one.
 *
 * A sub-MR is a region like any other, with a key, rights and a state of its own; it shares with its base
 * what the NIC has pinned and translated, and where the memory is.  base may be a sub-MR, too.
 *
 * hm_mr.subs counts the regions that were made of one.  Closing takes the count from 0 to HM_MR_CLOSING,
 * making a sub-MR counts up only from below that: so the two exclude each other without a lock, and a
 * base that has sub-MRs is not touched by the attempt to close it.  The bit stays until the element is
 * another region, so that a base is looked at only while it is held.
 */
#include "core/mr/mr.h"

#include "core/base/range.h"
#include "core/base/spin.h"

/* ---- the count ---- */

/* From *have to another count.  False: it was not *have, which is now what it is. */
static bool swap_subs(struct hm_mr *mr, uint32_t *have, uint32_t to)
{
	uint32_t before = *have;

	if (!HM_ALONE)
		return atomic_compare_exchange_strong_explicit(
			&mr->subs, have, to, memory_order_acq_rel, memory_order_relaxed);
	*have = atomic_load_explicit(&mr->subs, memory_order_relaxed);
	if (*have != before)
		return false;
	atomic_store_explicit(&mr->subs, to, memory_order_relaxed);
	return true;
}

static int hold_base(struct hm_mr *base)
{
	uint32_t subs = atomic_load_explicit(&base->subs, memory_order_relaxed);

	do {
		if (subs & HM_MR_CLOSING) {
			HM_WARN(FI_LOG_MR, "base_mr %p is closed, or being closed", (void *)base);
			return -FI_EINVAL;
		}
		if (subs == HM_MR_CLOSING - 1) {
			HM_WARN(FI_LOG_MR, "base_mr has as many sub-MRs as can be counted");
			return -FI_ENOSPC;
		}
	} while (!swap_subs(base, &subs, subs + 1));
	return 0;
}

void hm_mr_drop_base(struct hm_mr *base)
{
	uint32_t subs = atomic_load_explicit(&base->subs, memory_order_relaxed);

	while (!swap_subs(base, &subs, subs - 1))
		;
}

int hm_mr_begin_close(struct hm_mr *mr)
{
	uint32_t subs = 0;

	if (swap_subs(mr, &subs, HM_MR_CLOSING))
		return 0;
	if (subs & HM_MR_CLOSING) {
		assert(!"memory region closed twice");
		HM_WARN(FI_LOG_MR, "region %p is closed already", (void *)mr);
		return -FI_EALREADY;
	}
	HM_WARN(FI_LOG_MR, "the region has %u sub-MRs, which have to be closed before it", subs);
	return -FI_EBUSY;
}

void hm_mr_cancel_close(struct hm_mr *mr)
{
	atomic_store_explicit(&mr->subs, 0, memory_order_release);
}

/* ---- making one ---- */

/*
 * Which segment of the base holds the entry, and how far inside.  All of it: where segments overlap, the
 * first that has the entry's beginning may be over another allocation than its end.
 */
static size_t segment_of(const struct nic_region *base, const struct iovec *entry, uint64_t *offset)
{
	uint64_t addr = (uintptr_t)entry->iov_base;
	const struct nic_region_ext *ext = base->ext;

	*offset = addr - base->base;
	for (size_t i = 0; ext->iov && i < ext->iov_count; i++) {
		*offset = addr - (uintptr_t)ext->iov[i].iov_base;
		if (hm_range_ok(ext->iov[i].iov_len, *offset, entry->iov_len))
			return i;
	}
	return 0;
}

/* FI_HMEM_DEVICE_ONLY and FI_HMEM_HOST_ALLOC say something about memory that is known already. */
static int check_memory_flags(const struct nic_region *base, const struct iovec *entry,
			      uint64_t flags)
{
	const struct nic_place *places = base->ext ? base->ext->places : NULL;
	uint64_t offset;
	bool device;

	if (!(flags & (FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC)))
		return 0;
	if (atomic_load(&base->state) & NIC_REGION_IMPORTED) /* which nobody can tell */
		return 0;
	device = places && places[segment_of(base, entry, &offset)].device != HMEM_NO_DEVICE;
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

static int check_inside(const struct nic_region *base, const struct nic_region_request *nic)
{
	for (size_t i = 0; i < nic->iov_count; i++) {
		uint64_t addr = (uintptr_t)nic->iov[i].iov_base;
		int ret;

		if (!nic_region_holds(base, addr, nic->iov[i].iov_len)) {
			HM_WARN(FI_LOG_MR,
				"entry %zu, [%p, +%zu), is not inside %s of base_mr (0x%lx, %lu "
				"bytes)",
				i, nic->iov[i].iov_base, nic->iov[i].iov_len,
				base->ext && base->ext->iov ? "one segment" : "the memory",
				(unsigned long)base->base, (unsigned long)base->len);
			return -FI_EINVAL;
		}
		ret = check_memory_flags(base, &nic->iov[i], nic->flags);
		if (ret != 0)
			return ret;
	}
	return 0;
}

int hm_mr_take_base(const struct hm_mr_domain *domain, const struct hm_mr_request *request)
{
	struct hm_mr *base = request->base;
	int ret;

	if (__atomic_load_n(&base->mr.fid.fclass, __ATOMIC_RELAXED) != FI_CLASS_MR) {
		HM_WARN(FI_LOG_MR, "base_mr %p is no region, or is closed", (void *)base);
		return -FI_EINVAL;
	}
	if (!base->region.domain) {
		HM_WARN(FI_LOG_MR, "base_mr is shared with others (HMREG_MR_CACHE): register one "
				   "without that flag");
		return -FI_EINVAL;
	}
	if (base->region.domain != domain->nic) {
		HM_WARN(FI_LOG_MR, "base_mr is a region of another domain");
		return -FI_EINVAL;
	}
	ret = hold_base(base);
	if (ret != 0)
		return ret;
	ret = check_inside(&base->region, &request->nic);
	if (ret != 0)
		hm_mr_drop_base(base);
	return ret;
}

void hm_mr_base_places(const struct hm_mr_request *request, struct nic_place *places)
{
	const struct nic_region *base = &request->base->region;

	for (size_t i = 0; i < request->nic.iov_count; i++) {
		uint64_t offset;
		size_t segment = segment_of(base, &request->nic.iov[i], &offset);
		const struct nic_place *place = &base->ext->places[segment];

		places[i] = (struct nic_place){ .iface = place->iface,
						.device = place->device,
						.at = (char *)place->at + offset,
						.id = place->id,
						.base = place };
	}
}

/* ---- where the NIC cannot share ---- */

/* Any of it a device's?  Then one of those places. */
static const struct nic_place *device_place(const struct nic_region *region)
{
	const struct nic_region_ext *ext = region->ext;

	for (size_t i = 0; ext && ext->places && i < ext->iov_count; i++)
		if (ext->places[i].device != HMEM_NO_DEVICE)
			return &ext->places[i];
	return NULL;
}

/* The same memory a second time, as if there were no base. */
static int register_again(struct hm_mr_domain *domain, struct nic_region *region,
			  struct hm_mr_request *request)
{
	const struct nic_place *place = device_place(region);
	struct fi_mr_attr attr = { .iface = FI_HMEM_SYSTEM }; /* flags were looked at before */
	int ret;

	if (atomic_load(&region->state) & NIC_REGION_IMPORTED) {
		HM_WARN(FI_LOG_MR,
			"%s cannot make a sub-MR of a dma-buf; register it again with FI_MR_DMABUF",
			domain->nic->port->domain_name);
		return -FI_EOPNOTSUPP;
	}
	ret = hm_mr_register_by_base(region, &request->nic);
	if (ret != -FI_ENOSYS)
		return ret;
	if (place && (domain->nic->mr_mode & FI_MR_HMEM)) { /* else each segment is looked at */
		attr.iface = place->iface;
		attr.device.cuda = place->device; /* an int for each interface */
	}
	ret = place ? hm_mr_find_memory(domain, &attr, 0, request) : 0;
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
