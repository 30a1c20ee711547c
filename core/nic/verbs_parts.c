/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of several parts: segments that are not adjacent, and ranges longer than the device takes in
 * one ibv_mr.  One handle and one key stand for all of them.
 *
 * The key is one of the device over all parts where it has such (verbs_indirect.c), which is addressed
 * from 0; else a composite key, for which peers ask for the table of parts (verbs_keys.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/refusal.h"
#include "core/base/range.h"
#include "core/nic/verbs_indirect.h"
#include "core/nic/verbs_mr.h"

#define SGE_MOST UINT32_C(0x80000000) /* bytes of one entry: its length has 32 bits */

/* ---- planning ---- */

/* Where a walk over the parts of some segments stands. */
struct walk {
	const struct iovec *iov;
	size_t count, next;  /* segments; the first not taken up yet */
	uint64_t addr, left; /* of the joined segments at hand */
	uint64_t offset;     /* in the region */
	uint64_t begin;	     /* where in the region these segments begin */
	uint64_t most, page;
	bool joins;		       /* adjacent segments are of one memory */
	const struct nic_region *base; /* no part crosses the ends of one of its; or NULL */
};

static struct walk walk_from(const struct verbs_source *source, const struct iovec *iov,
			     size_t count)
{
	return (struct walk){ .iov = iov,
			      .count = count,
			      .joins = !source->files,
			      .base = source->base,
			      .most = source->domain->device->max_mr_size,
			      .page = (uint64_t)sysconf(_SC_PAGESIZE) };
}

static void take_segment(struct walk *walk)
{
	const struct iovec *iov = walk->iov;

	walk->addr = (uintptr_t)iov[walk->next].iov_base;
	walk->left = iov[walk->next++].iov_len;
	walk->begin = walk->offset;
	while (walk->joins && walk->next < walk->count) {
		uint64_t end = walk->addr + walk->left; /* 0: of the address space */

		if (end == 0 || end != (uintptr_t)iov[walk->next].iov_base)
			break;
		walk->left += iov[walk->next++].iov_len;
	}
}

/* How much of [addr, addr + len) the base's part at addr has. */
static uint64_t inside_base(const struct nic_region *base, uint64_t addr, uint64_t len)
{
	const struct verbs_part *part = base ? verbs_part_at(base, addr) : NULL;
	uint64_t left = part ? part->len - (addr - part->addr) : len;

	return left < len ? left : len;
}

/* The next part, without its mr.  False: there is none. */
static bool next_part(struct walk *walk, const struct verbs_domain *domain, struct verbs_part *part)
{
	uint64_t len, end;

	if (walk->left == 0) {
		if (walk->next == walk->count)
			return false;
		take_segment(walk);
	}
	len = inside_base(walk->base, walk->addr, walk->left);
	if (len > walk->most) {
		end = (walk->addr + walk->most) & ~(walk->page - 1);
		len = end > walk->addr ? end - walk->addr : walk->most;
	}
	*part = (struct verbs_part){ .addr = walk->addr,
				     .offset = walk->offset,
				     .len = len,
				     .iova = verbs_iova_of(domain, walk->addr) };
	walk->addr += len;
	walk->left -= len;
	walk->offset += len;
	return true;
}

/*
 * How many parts, as far as they may be counted: more than the device holds are no use.  -FI_EINVAL,
 * with one log line.
 */
static int count_parts(const struct verbs_source *source, const struct iovec *iov, size_t count,
		       uint64_t len, size_t *parts)
{
	const struct verbs_domain *domain = source->domain;
	struct walk walk = walk_from(source, iov, count);
	uint64_t limit = domain->device->attr.max_mr > 0 ? (uint64_t)domain->device->attr.max_mr
							 : UINT32_MAX;
	struct verbs_part part;

	*parts = 0;
	while (next_part(&walk, domain, &part)) {
		if (++*parts <= limit)
			continue;
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_REGIONS_FULL,
			  "%" PRIu64 " bytes: %s takes at most %" PRIu64
			  " in one of its regions, and holds %" PRIu64 " regions",
			  len, domain->device->name, walk.most, limit);
		return -FI_EINVAL;
	}
	return 0;
}

/* ---- registration ---- */

/* The memory of the segment that the walk has just taken a part of. */
static struct verbs_source source_at(const struct verbs_source *source, const struct walk *walk)
{
	struct verbs_source here = *source;
	const struct fi_mr_dmabuf *file = source->files ? &source->files[walk->next - 1] : NULL;

	if (file) {
		here.fd = file->fd;
		/* parts add their offset in the region */
		here.fd_offset = file->offset - walk->begin;
	}
	return here;
}

/* A part of a region that does not come about: what the driver refuses to end now ends with the domain. */
static void abandon(const struct verbs_source *source, struct verbs_part *part)
{
	if (part->mw) {
		verbs_window_abandon(source, part);
		return;
	}
	verbs_end(source->domain, VERBS_KIND_MR, part->mr, NULL, 0);
	part->mr = NULL;
	atomic_fetch_sub_explicit(&source->domain->parts, 1, memory_order_relaxed);
}

/* Bring the planned parts into being, or none of them. */
static int register_all(const struct verbs_source *source, const struct iovec *iov, size_t count,
			struct verbs_parts *parts)
{
	struct walk walk = walk_from(source, iov, count);
	uint64_t end = 0;
	size_t n = 0;

	parts->ascending = true;
	while (next_part(&walk, source->domain, &parts->part[n])) {
		struct verbs_source here = source_at(source, &walk);
		struct verbs_part *part = &parts->part[n];
		int ret = verbs_part_register(&here, part);

		if (ret != 0) {
			while (n-- > 0)
				abandon(source, &parts->part[n]);
			return ret;
		}
		if (part->addr < end)
			parts->ascending = false;
		end = part->addr + part->len;
		n++;
	}
	return 0;
}

/* Peers may ask about the parts from now on. */
static void publish(struct verbs_domain *domain, struct verbs_parts *parts)
{
	pthread_mutex_lock(&domain->composites_lock);
	hm_list_add_tail(&domain->composites, &parts->link);
	pthread_mutex_unlock(&domain->composites_lock);
}

/* Give the whole its key: one of the device where that works, else one that peers ask about. */
static void make_key(struct nic_region *region, const struct verbs_source *source,
		     struct verbs_parts *parts)
{
	struct verbs_domain *domain = source->domain;

	hm_list_init(&parts->link);
	parts->indirect = NULL;
	parts->key = 0;
	if (nic_region_is_internal(region)) /* nobody calls it by a key */
		return;
	/* nothing says that the device brings pages in which it meets behind such a key */
	if (domain->zero_based && !source->base &&
	    (domain->device->can & HMREG_CAN_INDIRECT_KEYS) &&
	    !(source->access & IBV_ACCESS_ON_DEMAND) &&
	    verbs_indirect_make(domain, parts, (unsigned int)source->access, &parts->indirect) ==
		    0) {
		parts->key = VERBS_KEY(verbs_indirect_rkey(parts->indirect), 0);
		return;
	}
	/* the handle's slot is the region's alone, and its generation keeps the key from coming back */
	parts->key = VERBS_KEY_COMPOSITE | hm_key_handle(&region->node);
	publish(domain, parts);
}

int verbs_parts_register(struct nic_region *region, const struct verbs_source *source,
			 const struct iovec *iov, size_t count)
{
	struct verbs_region *mine = verbs_region_of(region);
	struct verbs_parts *parts;
	size_t n;
	int ret = count_parts(source, iov, count, region->len, &n);

	if (ret != 0)
		return ret;
	if (n == 1 && !(source->base && verbs_window_is_deep(source, region->base))) {
		/* all segments are adjacent */
		struct walk walk = walk_from(source, iov, count);
		struct verbs_source here;

		next_part(&walk, source->domain, &mine->one);
		here = source_at(source, &walk);
		return verbs_part_register(&here, &mine->one);
	}
	parts = malloc(sizeof(*parts) + n * sizeof(parts->part[0]));
	if (!parts) {
		HM_WARN(FI_LOG_MR, "no memory for a region of %zu parts", n);
		return -FI_ENOMEM;
	}
	parts->count = n;
	ret = register_all(source, iov, count, parts);
	if (ret != 0) {
		free(parts);
		return ret;
	}
	make_key(region, source, parts);
	mine->parts = parts;
	return 0;
}

/* ---- the end ---- */

/* No answer about the parts any more, before the first of them ends. */
static void withdraw(struct verbs_domain *domain, struct verbs_parts *parts)
{
	pthread_mutex_lock(&domain->composites_lock);
	hm_list_del(&parts->link);
	pthread_mutex_unlock(&domain->composites_lock);
}

/* The device's key, after the parts: they may be refused, and it cannot be had again.  0 or its error. */
static int end_key(struct verbs_domain *domain, struct verbs_parts *parts)
{
	int err = parts->indirect ? verbs_indirect_free(parts->indirect) : 0;

	if (err != 0 && !verbs_domain_lost(domain, err)) {
		HM_WARN(FI_LOG_MR, "%s does not end the key over %zu regions: %s",
			domain->device->name, parts->count, strerror(err));
		return -err;
	}
	parts->indirect = NULL;
	return 0;
}

/* As far as the device lets them go. */
static int end_parts(const struct verbs_source *source, struct verbs_parts *parts)
{
	for (size_t i = 0; i < parts->count; i++) {
		int ret = verbs_part_deregister(source, &parts->part[i]);

		if (ret != 0)
			return ret;
	}
	return end_key(source->domain, parts);
}

/* The region stays: have its parts and its key lead where they led.  False: it is half closed. */
static bool restore(const struct verbs_source *source, struct verbs_parts *parts)
{
	bool anew = false;

	for (size_t i = 0; i < parts->count; i++) {
		if (parts->part[i].mr)
			continue;
		if (source->fd == VERBS_FD_GONE || verbs_part_register(source, &parts->part[i]))
			return false;
		anew = true;
	}
	if (!parts->indirect)
		publish(source->domain, parts);
	else if (anew)
		return verbs_indirect_rewrite(source->domain, parts,
					      (unsigned int)source->access) == 0;
	return true;
}

void verbs_region_abandon(const struct verbs_source *source, struct verbs_region *mine)
{
	struct verbs_parts *parts = mine->parts;

	if (!parts) {
		abandon(source, &mine->one);
		return;
	}
	for (size_t i = 0; i < parts->count; i++)
		abandon(source, &parts->part[i]);
	free(parts);
	mine->parts = NULL;
}

int verbs_parts_deregister(const struct verbs_source *source, struct verbs_parts *parts)
{
	int ret;

	withdraw(source->domain, parts);
	ret = end_parts(source, parts);
	if (ret == 0)
		free(parts);
	else if (!restore(source, parts))
		HM_WARN(FI_LOG_MR, "the region is half closed: peers do not reach it any more");
	return ret;
}

/* ---- the local side of transfers ---- */

static bool holds(const struct verbs_part *part, uint64_t addr)
{
	return part->mr && addr - part->addr < part->len;
}

/* The part that has the byte at addr; count: none. */
static size_t find_part(const struct verbs_parts *parts, uint64_t addr)
{
	size_t low = 0, high = parts->count;

	if (!parts->ascending) {
		while (low < high && !holds(&parts->part[low], addr))
			low++;
		return low;
	}
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (parts->part[middle].addr <= addr)
			low = middle;
		else
			high = middle;
	}
	return holds(&parts->part[low], addr) ? low : parts->count;
}

const struct verbs_part *verbs_part_at(const struct nic_region *region, uint64_t addr)
{
	const struct verbs_region *mine = verbs_region_of(region);
	size_t at;

	if (!mine->parts)
		return holds(&mine->one, addr) ? &mine->one : NULL;
	at = find_part(mine->parts, addr);
	return at < mine->parts->count ? &mine->parts->part[at] : NULL;
}

/* Entries for what part has of [addr, addr + len). */
static size_t part_sges(const struct verbs_part *part, uint64_t addr, uint64_t len,
			struct ibv_sge *sge, size_t room, uint64_t *covered)
{
	uint64_t inside = part->len - (addr - part->addr), done = 0;
	size_t n = 0;

	if (len < inside)
		inside = len;
	while (done < inside && n < room) {
		uint64_t left = inside - done;

		sge[n].addr = part->iova + (addr - part->addr) + done;
		sge[n].length = left < SGE_MOST ? (uint32_t)left : SGE_MOST;
		sge[n].lkey = part->mr->lkey;
		done += sge[n++].length;
	}
	*covered = done;
	return n;
}

size_t verbs_region_sges(const struct nic_region *region, uint64_t addr, uint64_t len,
			 struct ibv_sge *sge, size_t room, uint64_t *covered)
{
	const struct verbs_region *mine = verbs_region_of(region);
	size_t n = 0;

	*covered = 0;
	if (!mine->parts)
		return mine->one.mr ? part_sges(&mine->one, addr, len, sge, room, covered) : 0;
	while (*covered < len && n < room) {
		size_t at = find_part(mine->parts, addr + *covered);
		uint64_t more;

		if (at == mine->parts->count)
			break;
		n += part_sges(&mine->parts->part[at], addr + *covered, len - *covered, sge + n,
			       room - n, &more);
		*covered += more;
	}
	return n;
}
