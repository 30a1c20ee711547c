/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_mr_refresh: the pages of a region are others now.
 *
 * Host pages are the NIC's to take up.  Memory of a device is asked about here, whatever the NIC: a program
 * can map other allocations at an address (VMM), or free one and get the address again.  The software NIC's
 * copies follow, once the region has the new allocation's identity.  An exported dma-buf has the pages that
 * it was exported with, and no NIC takes another one under the same key: then refreshing is refused.
 */
#include "core/mr/mr.h"

/* ---- memory of devices ---- */

/* What a device's segment is now.  -FI_EFAULT: nothing of that device is there any more. */
static int look_at(const struct iovec *segment, const struct nic_place *place,
		   struct hmem_memory *memory)
{
	int ret = hmem_classify(segment->iov_base, segment->iov_len, memory);
	char owner[48];

	if (ret != 0) /* told there */
		return ret == -FI_EINVAL ? -FI_EFAULT : ret;
	if (memory->iface == place->iface && memory->device == place->device)
		return 0;
	HM_WARN(FI_LOG_MR, "[%p, +%zu) is not memory of %s any more: close the region",
		segment->iov_base, segment->iov_len,
		hmem_owner_text(place->iface, place->device, owner));
	return -FI_EFAULT;
}

/* The identity of all allocations that the segment lies in. */
static int add_segment(struct hmem_identity *identity, const struct iovec *segment,
		       const struct hmem_memory *memory)
{
	char *addr = segment->iov_base;
	size_t left = segment->iov_len, part;
	int ret = 0;

	for (; ret == 0 && left > 0; addr += part, left -= part) {
		struct hmem_facts facts;

		part = left;
		ret = hmem_segment(memory, addr, left, &facts, &part);
		if (ret == 0)
			hmem_identity_add(identity, &facts);
	}
	return ret;
}

static bool overlaps(const struct iovec *segment, const struct iovec *iov, size_t count)
{
	uint64_t base = (uintptr_t)segment->iov_base;

	for (size_t i = 0; i < count; i++)
		if ((uintptr_t)iov[i].iov_base - base < segment->iov_len)
			return true; /* a part is inside one segment */
	return false;
}

/* A region's segments, one or more. */
struct segments {
	struct iovec whole;
	const struct iovec *iov;
	size_t count;
};

static void get_segments(const struct nic_region *region, struct segments *out)
{
	bool several = region->ext && region->ext->iov;

	out->whole = (struct iovec){ (void *)(uintptr_t)region->base, region->len };
	out->iov = several ? region->ext->iov : &out->whole;
	out->count = several ? region->ext->iov_count : 1;
}

/* The software NIC's copies: the region is over the allocations that are there now. */
static int take_up(const struct nic_region *region, const struct iovec *iov, size_t count)
{
	struct nic_place *places = region->ext->places;
	struct hmem_memory memory[NIC_IOV_MAX];
	bool changed[NIC_IOV_MAX] = { false };
	struct segments segments;

	get_segments(region, &segments);
	for (size_t i = 0; i < segments.count; i++) {
		int ret;

		if (places[i].device == HMEM_NO_DEVICE || !overlaps(&segments.iov[i], iov, count))
			continue;
		ret = look_at(&segments.iov[i], &places[i], &memory[i]);
		if (ret != 0)
			return ret;
		changed[i] = true;
	}
	for (size_t i = 0; i < segments.count; i++)
		if (changed[i])
			places[i].id = memory[i].segments == 1 ? memory[i].id : 0;
	return 0;
}

/* The region whose exports a sub-MR uses, or the region itself. */
static const struct nic_region *exporter(const struct nic_region *region)
{
	while (region->parent && !region->ext->identity)
		region = region->parent;
	return region;
}

/* A NIC that has a dma-buf: is the memory what was exported? */
static int compare(const struct nic_region *region, const struct iovec *iov, size_t count)
{
	const struct nic_place *places;
	struct hmem_identity identity;
	struct segments segments;
	bool asked = false;

	region = exporter(region);
	places = region->ext->places;
	get_segments(region, &segments);
	hmem_identity_begin(&identity);
	for (size_t i = 0; i < segments.count; i++) {
		struct hmem_memory memory;
		int ret;

		if (places[i].device == HMEM_NO_DEVICE)
			continue;
		asked |= overlaps(&segments.iov[i], iov, count);
		ret = look_at(&segments.iov[i], &places[i], &memory);
		if (ret == 0)
			ret = add_segment(&identity, &segments.iov[i], &memory);
		if (ret != 0)
			return ret;
	}
	if (!asked ||
	    (region->ext->identity && hmem_identity_end(&identity) == region->ext->identity))
		return 0;
	HM_WARN(FI_LOG_MR,
		"%s: %s, and a dma-buf cannot be exchanged under the same key; close the "
		"region and register it anew",
		region->domain->port->domain_name,
		region->ext->identity ? "the memory is not the one that was exported"
				      : "the driver does not tell whether this is the memory that "
					"was exported");
	return -FI_ENOSYS;
}

static int refresh_devices(const struct nic_region *region, const struct iovec *iov, size_t count)
{
	const struct nic_region_ext *ext = region->ext;

	/* a dma-buf that the program gave is its pages */
	if (!ext || !ext->places || (atomic_load(&region->state) & NIC_REGION_IMPORTED))
		return 0;
	return ext->path == HMREG_PATH_DMABUF ? compare(region, iov, count)
					      : take_up(region, iov, count);
}

/* ---- the call ---- */

static int check(const struct nic_region *region, const struct fi_mr_modify *modify)
{
	size_t count = modify ? modify->attr.iov_count : 0;
	int ret = 0;

	if (!modify || modify->flags != 0 || (count > 0 && !modify->attr.mr_iov)) {
		HM_WARN(FI_LOG_MR, "refresh takes flags 0, and iov entries only with an iov");
		return modify && modify->flags != 0 ? -FI_EBADFLAGS : -FI_EINVAL;
	}
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = hm_mr_check_part(region, &modify->attr.mr_iov[i]);
	return ret;
}

int hm_mr_refresh(struct hm_mr *mr, const struct fi_mr_modify *modify)
{
	struct nic_region *region = &mr->region;
	bool pauses = region->domain->mr_mode & FI_MR_MMU_NOTIFY;
	struct segments parts;
	int ret = check(region, modify);

	if (ret != 0)
		return ret;
	get_segments(region, &parts);
	if (modify->attr.iov_count > 0) {
		parts.iov = modify->attr.mr_iov;
		parts.count = modify->attr.iov_count;
	}
	if (pauses) /* counted: several threads may refresh it */
		atomic_fetch_add_explicit(&region->state, NIC_REGION_REFRESH, memory_order_acq_rel);
	ret = refresh_devices(region, parts.iov, parts.count);
	if (ret == 0)
		ret = region->domain->ops->region_refresh(region, parts.iov, parts.count);
	if (pauses)
		atomic_fetch_sub_explicit(&region->state, NIC_REGION_REFRESH, memory_order_release);
	return ret;
}
