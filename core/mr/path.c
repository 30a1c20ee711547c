/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a NIC gets at memory that is not plain host memory: as a dma-buf, by its address with a kernel
 * module's help, or by the copies of the memory's interface.  Each way that is tried and fails is logged
 * with its error; one that fails for good is not tried again for that device and NIC.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/params.h"
#include "core/base/refusal.h"
#include "core/mr/mr.h"
#include "dmabuf/dmabuf.h"

/* ---- the choice ---- */

static const char *const way_names[HM_MR_WAYS] = {
	[HM_MR_AS_HOST] = "host memory",
	[HM_MR_DMABUF] = "dma-buf of the allocation",
	[HM_MR_DMABUF_EXACT] = "dma-buf of the range",
	[HM_MR_PEER] = "peer memory",
	[HM_MR_COPY] = "copies by the interface",
};

static bool still_hoped(const struct hm_mr_choice *choice, enum hm_mr_way way)
{
	return !(choice->failed & (1u << way));
}

size_t hm_mr_ways(const struct hm_mr_choice *choice, enum hm_mr_way way[HM_MR_WAYS],
		  const char **why, enum hmreg_cause *cause)
{
	size_t n = 0;

	*why = "";
	*cause = HMREG_CAUSE_NONE;
	if (choice->memory & HMEM_WAY_HOST) {
		way[n++] = HM_MR_AS_HOST;
		return n;
	}
	if ((choice->nic & NIC_WAY_COPY) && (choice->memory & HMEM_WAY_COPY)) {
		way[n++] = HM_MR_COPY;
		return n;
	}
	if (choice->disable_p2p) {
		*why = "FI_HMEM_DISABLE_P2P forbids that the NIC reaches it";
		*cause = HMREG_CAUSE_P2P_OFF;
		return 0;
	}
	if ((choice->nic & NIC_WAY_DMABUF) && (choice->memory & HMEM_WAY_DMABUF)) {
		if (still_hoped(choice, HM_MR_DMABUF))
			way[n++] = HM_MR_DMABUF;
		if (still_hoped(choice, HM_MR_DMABUF_EXACT))
			way[n++] = HM_MR_DMABUF_EXACT;
	}
	if ((choice->nic & NIC_WAY_PEER) && (choice->memory & HMEM_WAY_PEER) &&
	    still_hoped(choice, HM_MR_PEER))
		way[n++] = HM_MR_PEER;
	if (n == 0) {
		*cause = choice->failed ? HMREG_CAUSE_WAYS_FAILED : HMREG_CAUSE_NO_WAY;
		*why = choice->failed ? "every way has failed before, for good"
				      : "the NIC has no way that such memory can be registered by";
	}
	return n;
}

/* ---- what was learnt ---- */

struct hm_mr_learnt {
	struct hm_mr_learnt *next;
	enum fi_hmem_iface iface;
	int device;
	uint32_t failed; /* ways that fail for good */
	uint32_t told;	 /* ways taken, which the log tells at level info once */
};

/* Lock held.  NULL: nothing yet. */
static struct hm_mr_learnt *find_learnt(struct hm_mr_domain *domain, enum fi_hmem_iface iface,
					int device)
{
	struct hm_mr_learnt *learnt = domain->learnt;

	while (learnt && (learnt->iface != iface || learnt->device != device))
		learnt = learnt->next;
	return learnt;
}

/* A copy of what is known of the memory's device and this NIC. */
static struct hm_mr_learnt known_of(struct hm_mr_domain *domain, const struct hmem_memory *memory)
{
	struct hm_mr_learnt known = { .failed = 0 };
	const struct hm_mr_learnt *learnt;

	pthread_mutex_lock(&domain->learnt_lock);
	learnt = find_learnt(domain, memory->iface, memory->device);
	if (learnt)
		known = *learnt;
	pthread_mutex_unlock(&domain->learnt_lock);
	return known;
}

/* Only an error that will be the same next time. */
static bool is_for_good(int ret)
{
	return ret == -FI_EOPNOTSUPP || ret == -FI_ENOSYS;
}

/* Bits of enum hm_mr_way.  False: those of told were there already. */
static bool learn(struct hm_mr_domain *domain, const struct hmem_memory *memory, uint32_t failed,
		  uint32_t told)
{
	struct hm_mr_learnt *learnt, *fresh = calloc(1, sizeof(*fresh));
	bool news = true;

	pthread_mutex_lock(&domain->learnt_lock);
	learnt = find_learnt(domain, memory->iface, memory->device);
	if (!learnt && fresh) {
		learnt = fresh;
		fresh = NULL;
		learnt->iface = memory->iface;
		learnt->device = memory->device;
		learnt->next = domain->learnt;
		domain->learnt = learnt;
	}
	if (learnt) {
		news = (learnt->told & told) != told;
		learnt->failed |= failed;
		learnt->told |= told;
	}
	pthread_mutex_unlock(&domain->learnt_lock);
	free(fresh);
	return news;
}

void hm_mr_learnt_free(struct hm_mr_domain *domain)
{
	while (domain->learnt) {
		struct hm_mr_learnt *next = domain->learnt->next;

		free(domain->learnt);
		domain->learnt = next;
	}
}

/* ---- exports ---- */

/* What is kept for a region, so that the next one of its allocations needs no export. */
struct hm_mr_exports {
	size_t count;
	struct dmabuf *dmabuf[];
};

void hm_mr_exports_free(struct hm_mr_exports *exports)
{
	if (!exports)
		return;
	for (size_t i = 0; i < exports->count; i++)
		dmabuf_put(exports->dmabuf[i], true);
	free(exports);
}

/* The request with each piece of each allocation as an entry of its own. */
struct pieces {
	size_t count, room;
	struct iovec *iov;
	struct fi_mr_dmabuf *file; /* fd -1: host memory */
	struct dmabuf **dmabuf;	   /* NULL: host memory */
	struct hmem_identity identity;
};

static void free_pieces(struct pieces *pieces)
{
	for (size_t i = 0; i < pieces->count; i++)
		if (pieces->dmabuf[i])
			dmabuf_put(pieces->dmabuf[i], false);
	free(pieces->iov);
	free(pieces->file);
	free(pieces->dmabuf);
}

static int make_room(struct pieces *pieces, const struct hm_mr_request *request)
{
	*pieces = (struct pieces){ .count = 0 };
	hmem_identity_begin(&pieces->identity);
	for (size_t i = 0; i < request->nic.iov_count; i++)
		pieces->room += request->memory[i].segments;
	pieces->iov = calloc(pieces->room, sizeof(*pieces->iov));
	pieces->file = calloc(pieces->room, sizeof(*pieces->file));
	pieces->dmabuf = calloc(pieces->room, sizeof(struct dmabuf *));
	if (pieces->iov && pieces->file && pieces->dmabuf)
		return 0;
	HM_WARN(FI_LOG_MR, "no memory for a region of %zu pieces", pieces->room);
	return -FI_ENOMEM;
}

static int add_piece(struct pieces *pieces, const struct hmem_memory *memory, void *addr,
		     size_t len, uint32_t flags, bool exact)
{
	size_t n = pieces->count;
	struct dmabuf *dmabuf = NULL;
	int ret = 0;

	if (n == pieces->room) { /* the program maps and unmaps while we look */
		HM_WARN(FI_LOG_MR, "the memory at %p changes while it is registered", addr);
		return -FI_EINVAL;
	}
	if (!(memory->ways & HMEM_WAY_HOST))
		ret = dmabuf_export(memory, addr, len, flags, exact, &dmabuf);
	if (ret != 0)
		return ret;
	pieces->iov[n] = (struct iovec){ addr, len };
	pieces->dmabuf[n] = dmabuf;
	pieces->file[n] = (struct fi_mr_dmabuf){ .fd = dmabuf ? dmabuf_fd(dmabuf) : -1,
						 .offset = dmabuf ? dmabuf_offset(dmabuf, addr) : 0,
						 .len = len,
						 .base_addr = addr };
	pieces->count++;
	return 0;
}

static int export_all(const struct hm_mr_request *request, uint32_t flags, bool exact,
		      struct pieces *pieces)
{
	int ret = make_room(pieces, request);

	for (size_t i = 0; ret == 0 && i < request->nic.iov_count; i++) {
		char *addr = request->nic.iov[i].iov_base;
		size_t left = request->nic.iov[i].iov_len;

		while (ret == 0 && left > 0) {
			struct hmem_facts facts;
			size_t part = left;

			if (!(request->memory[i].ways & HMEM_WAY_HOST)) {
				ret = hmem_segment(&request->memory[i], addr, left, &facts, &part);
				if (ret == 0)
					hmem_identity_add(&pieces->identity, &facts);
			}
			if (ret == 0)
				ret = add_piece(pieces, &request->memory[i], addr, part, flags,
						exact);
			addr += part;
			left -= part;
		}
	}
	if (ret != 0)
		free_pieces(pieces);
	return ret;
}

/* What the NIC has taken: keep the exports that may be, give back the others. */
static struct hm_mr_exports *keep_exports(struct pieces *pieces)
{
	struct hm_mr_exports *exports =
		malloc(sizeof(*exports) + pieces->count * sizeof(exports->dmabuf[0]));

	if (!exports)
		return NULL; /* all are given back by free_pieces */
	exports->count = 0;
	for (size_t i = 0; i < pieces->count; i++) {
		struct dmabuf *dmabuf = pieces->dmabuf[i];

		if (dmabuf && dmabuf_keep(dmabuf))
			exports->dmabuf[exports->count++] = dmabuf;
		pieces->dmabuf[i] = NULL;
	}
	if (exports->count > 0)
		return exports;
	free(exports);
	return NULL;
}

/* Does the operator want this device's memory reached by its PCI window, from this NIC? */
static uint32_t export_flags(const struct hm_mr_domain *domain, const struct hmem_memory *memory)
{
	const char *list = hm_param_str(HM_PARAM_DMABUF_PCIE);
	const char *nic = domain->nic->port->domain_name;
	char pair[96], colon[96];

	if (!list || !*list)
		return 0;
	snprintf(pair, sizeof(pair), "%s%d/%s", hmem_name(memory->iface), memory->device, nic);
	/* as the tools write a device, too */
	snprintf(colon, sizeof(colon), "%s:%d/%s", hmem_name(memory->iface), memory->device, nic);
	return hm_list_selects(list, nic) || hm_list_selects(list, pair) ||
			       hm_list_selects(list, colon)
		       ? HMEM_EXPORT_PCIE
		       : 0;
}

/* ---- registration ---- */

static int by_dmabuf(struct nic_region *region, const struct hm_mr_request *request, uint32_t flags,
		     bool exact, bool *imported)
{
	const struct nic_ops *ops = region->domain->ops;
	struct nic_region_request nic = request->nic;
	struct pieces pieces;
	int ret = export_all(request, flags, exact, &pieces);

	*imported = false;
	if (ret != 0)
		return ret;
	*imported = true;
	nic.iov = pieces.iov;
	nic.iov_count = pieces.count;
	nic.dmabuf = pieces.file;
	ret = ops->region_register(region, &nic);
	if (ret == 0) {
		region->ext->exports = keep_exports(&pieces);
		region->ext->identity = hmem_identity_end(&pieces.identity);
	}
	free_pieces(&pieces);
	return ret;
}

/* The exports that a region was registered by, if they are kept. */
static const struct hm_mr_exports *exports_of(const struct nic_region *base)
{
	while (base && !(base->ext && base->ext->exports))
		base = base->parent;
	return base ? base->ext->exports : NULL;
}

/* As much of [addr, addr + len) as one of them holds; of the host's memory, all.  False: none holds addr. */
static bool find_piece(const struct hm_mr_exports *exports, bool host, char *addr, size_t len,
		       struct fi_mr_dmabuf *piece)
{
	*piece = (struct fi_mr_dmabuf){ .fd = -1, .len = len, .base_addr = addr };
	for (size_t i = 0; !host && i < exports->count; i++) {
		const struct dmabuf *dmabuf = exports->dmabuf[i];
		uint64_t reach = dmabuf_reach(dmabuf, addr);

		if (reach == 0)
			continue;
		piece->fd = dmabuf_fd(dmabuf);
		piece->offset = dmabuf_offset(dmabuf, addr);
		piece->len = reach < len ? reach : len;
	}
	return host || piece->fd >= 0;
}

/* How many pieces; 0: not all of it is in the exports, or it is too many. */
static size_t find_pieces(const struct nic_region *region, const struct hm_mr_exports *exports,
			  const struct nic_region_request *req, struct iovec *iov,
			  struct fi_mr_dmabuf *piece)
{
	const struct nic_place *places = region->ext->places;
	size_t n = 0;

	for (size_t i = 0; i < req->iov_count; i++) {
		bool host = places[i].device == HMEM_NO_DEVICE;
		char *addr = req->iov[i].iov_base;

		for (size_t left = req->iov[i].iov_len; left > 0; n++) {
			if (n == NIC_IOV_MAX || !find_piece(exports, host, addr, left, &piece[n]))
				return 0;
			iov[n] = (struct iovec){ addr, piece[n].len };
			addr += piece[n].len;
			left -= piece[n].len;
		}
	}
	return n;
}

int hm_mr_register_by_base(struct nic_region *region, const struct nic_region_request *req)
{
	const struct hm_mr_exports *exports = exports_of(region->parent);
	struct nic_region_request nic = *req;
	struct fi_mr_dmabuf piece[NIC_IOV_MAX];
	struct iovec iov[NIC_IOV_MAX];

	if (!exports || !region->ext || !region->ext->places)
		return -FI_ENOSYS;
	nic.iov_count = find_pieces(region, exports, req, iov, piece);
	if (nic.iov_count == 0)
		return -FI_ENOSYS;
	nic.iov = iov;
	nic.dmabuf = piece;
	return region->domain->ops->region_register(region, &nic);
}

/* Is all of it memory of this one device?  Else nothing tells what a failure was about. */
static bool is_of_one(const struct hm_mr_request *request, const struct hmem_memory *memory)
{
	for (size_t i = 0; i < request->nic.iov_count; i++) {
		const struct hmem_memory *other = &request->memory[i];

		if ((other->ways & HMEM_WAY_HOST) || other->iface != memory->iface ||
		    other->device != memory->device)
			return false;
	}
	return true;
}

static int by_way(struct hm_mr_domain *domain, struct nic_region *region,
		  const struct hm_mr_request *request, const struct hmem_memory *memory,
		  enum hm_mr_way way)
{
	struct nic_region_request nic = request->nic;
	uint32_t flags = export_flags(domain, memory);
	bool imported = false;
	int ret;

	if (way != HM_MR_DMABUF && way != HM_MR_DMABUF_EXACT) {
		nic.peer_memory = way == HM_MR_PEER;
		ret = domain->nic->ops->region_register(region, &nic);
	} else {
		ret = by_dmabuf(region, request, flags, way == HM_MR_DMABUF_EXACT, &imported);
		if (ret != 0 && imported && flags)
			ret = by_dmabuf(region, request, 0, way == HM_MR_DMABUF_EXACT, &imported);
	}
	/* an export that was refused tells of this memory, not of the device and the NIC */
	if (is_for_good(ret) && (imported || way == HM_MR_PEER) && is_of_one(request, memory))
		learn(domain, memory, 1u << way, 0);
	return ret;
}

/* The first segment that is not the host's: all others of the device share its ways. */
static const struct hmem_memory *foremost(const struct hm_mr_request *request)
{
	size_t i = 0;

	while (request->memory[i].ways & HMEM_WAY_HOST)
		i++;
	return &request->memory[i];
}

static uint32_t common_ways(const struct hm_mr_request *request)
{
	uint32_t ways = ~0u;

	for (size_t i = 0; i < request->nic.iov_count; i++)
		if (!(request->memory[i].ways & HMEM_WAY_HOST))
			ways &= request->memory[i].ways;
	return ways;
}

static int refuse(const struct hm_mr_domain *domain, const struct hm_mr_request *request,
		  const struct hmem_memory *memory, enum hmreg_cause cause, const char *why)
{
	char owner[48];

	/* what the memory is decides before what the NIC can do */
	HM_REFUSE(FI_LOG_MR, cause == HMREG_CAUSE_NO_WAY && memory->cause ? memory->cause : cause,
		  "%s cannot register %lu bytes of %s: %s%s%s", domain->nic->port->domain_name,
		  (unsigned long)request->len,
		  hmem_owner_text(memory->iface, memory->device, owner), why,
		  memory->reason[0] ? "; " : "", memory->reason);
	return -FI_EOPNOTSUPP;
}

static const enum hmreg_path way_paths[HM_MR_WAYS] = {
	[HM_MR_DMABUF] = HMREG_PATH_DMABUF,
	[HM_MR_DMABUF_EXACT] = HMREG_PATH_DMABUF,
	[HM_MR_PEER] = HMREG_PATH_PEER_MEMORY,
	[HM_MR_COPY] = HMREG_PATH_COPY,
};

/* The way taken: once for each device, NIC and way at level info; who wants each region has debug. */
static void tell_way(struct hm_mr_domain *domain, const struct nic_region *region,
		     const struct hmem_memory *memory, enum hm_mr_way way, uint32_t told)
{
	const char *nic = domain->nic->port->domain_name;
	char owner[48];

	if (!(told & (1u << way)) && learn(domain, memory, 0, 1u << way))
		HM_INFO(FI_LOG_MR, "memory of %s for %s, from now on: %s",
			hmem_owner_text(memory->iface, memory->device, owner), nic, way_names[way]);
	HM_DEBUG(FI_LOG_MR, "%lu bytes of %s for %s: %s", (unsigned long)region->len,
		 hmem_owner_text(memory->iface, memory->device, owner), nic, way_names[way]);
}

int hm_mr_register_by_path(struct hm_mr_domain *domain, struct nic_region *region,
			   struct hm_mr_request *request)
{
	const struct hmem_memory *memory;
	struct hm_mr_learnt known;
	struct hm_mr_choice choice;
	enum hm_mr_way way[HM_MR_WAYS];
	enum hmreg_cause cause;
	const char *why;
	char owner[48];
	size_t count;
	int ret = -FI_EOPNOTSUPP;

	if (!request->on_device)
		return domain->nic->ops->region_register(region, &request->nic);
	memory = foremost(request);
	known = known_of(domain, memory);
	choice = (struct hm_mr_choice){ .memory = common_ways(request),
					.nic = domain->nic->port->ways,
					.failed = known.failed,
					.disable_p2p = hm_param_bool(HM_PARAM_HMEM_DISABLE_P2P) };
	count = hm_mr_ways(&choice, way, &why, &cause);
	if (count == 0)
		return refuse(domain, request, memory, cause, why);
	for (size_t i = 0; i < count; i++) {
		ret = by_way(domain, region, request, memory, way[i]);
		if (ret == 0) {
			region->ext->path = way_paths[way[i]];
			tell_way(domain, region, memory, way[i], known.told);
			return 0;
		}
		HM_INFO(FI_LOG_MR, "%lu bytes of %s for %s: %s failed: %s",
			(unsigned long)region->len,
			hmem_owner_text(memory->iface, memory->device, owner),
			domain->nic->port->domain_name, way_names[way[i]], fi_strerror(-ret));
	}
	return ret;
}
