/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations of the software NIC: write, read and atomics, executed in the caller. */
#include "core/base/guard.h"
#include "core/base/log.h"
#include "core/base/range.h"
#include "core/nic/sw.h"

/* ---- the target's side of the checks ---- */

/* A range of a region of the other side; the region is referenced. */
struct target {
	struct nic_region *region;
	uint64_t offset, len;
};

/* What one operation touches there, without the empty ranges, which name no region. */
struct targets {
	uint32_t count;
	struct target at[NIC_RMA_IOV_MAX];
};

static void release_targets(struct targets *targets)
{
	for (uint32_t i = 0; i < targets->count; i++)
		nic_local_release(targets->at[i].region);
}

/* A raw key: what the initiator mapped, and its secret must be the region's. */
static enum hmreg_error find_raw(struct nic_ep *ep, struct nic_domain *target, uint64_t key,
				 struct nic_region **region)
{
	struct hm_key_node *node = hm_key_acquire(ep->domain->mapped, key);
	struct nic_mapped_key *mapped;
	enum hmreg_error why = HMREG_OK;
	struct hm_key_node *found;

	if (!node)
		return HMREG_KEY_NOT_MAPPED;
	mapped = hm_container(node, struct nic_mapped_key, node);
	found = hm_key_acquire(target->regions, mapped->handle);
	if (!found) {
		why = hm_key_expired(target->regions, mapped->handle) ? HMREG_KEY_CLOSED
								      : HMREG_KEY_UNKNOWN;
	} else if (nic_region_of(found)->ext->secret != mapped->secret ||
		   ((target->mr_mode & FI_MR_VIRT_ADDR) &&
		    nic_region_of(found)->base != mapped->base_addr)) {
		hm_key_release(found);
		why = HMREG_KEY_FORGED;
	} else {
		*region = nic_region_of(found);
	}
	hm_key_release(node);
	return why;
}

static enum hmreg_error find_region(struct nic_ep *ep, struct nic_domain *target, uint64_t key,
				    struct nic_region **region)
{
	struct hm_key_node *node;

	if (target->mr_mode & FI_MR_RAW)
		return find_raw(ep, target, key, region);
	if (!(target->mr_mode & FI_MR_PROV_KEY)) {
		node = hm_key_find(target->regions, key);
		if (!node)
			return HMREG_KEY_UNKNOWN;
	} else {
		node = hm_key_acquire(target->regions, key);
		if (!node)
			return hm_key_expired(target->regions, key) ? HMREG_KEY_CLOSED
								    : HMREG_KEY_UNKNOWN;
	}
	*region = nic_region_of(node);
	return HMREG_OK;
}

/* What a sub-MR shares with its bases is refreshed with them. */
static uint32_t shared_state(const struct nic_region *base)
{
	uint32_t state = 0;

	for (; base; base = base->parent)
		state |= atomic_load_explicit(&((struct nic_region *)base)->state,
					      memory_order_acquire);
	return state & NIC_REGION_REFRESHING;
}

static enum hmreg_error check_state(struct nic_region *region, const struct nic_ep *target)
{
	uint32_t state = atomic_load_explicit(&region->state, memory_order_acquire);

	if (region->parent && (region->domain->mr_mode & FI_MR_MMU_NOTIFY))
		state |= shared_state(region->parent);
	if (state & NIC_REGION_REFRESHING)
		return HMREG_REFRESHING;
	if (!(state & NIC_REGION_ENABLED))
		return HMREG_DISABLED;
	if (region->ext && region->ext->ep && region->ext->ep != target)
		return HMREG_OTHER_ENDPOINT;
	return HMREG_OK;
}

/* For who wonders: what was asked, and what there is. */
static void explain(const struct nic_domain *target, const struct fi_rma_iov *remote,
		    const struct nic_region *region, enum hmreg_error why)
{
	bool virtual = target->mr_mode & FI_MR_VIRT_ADDR;

	if (!region)
		HM_INFO(FI_LOG_EP_DATA, "access to %lu bytes by key 0x%lx: %s",
			(unsigned long)remote->len, (unsigned long)remote->key,
			target->ops->strerror((int)why));
	else
		HM_INFO(FI_LOG_EP_DATA,
			"access to [0x%lx, +%lu) by key 0x%lx: %s; it has %lu bytes, %s 0x%lx, and "
			"rights 0x%x",
			(unsigned long)remote->addr, (unsigned long)remote->len,
			(unsigned long)remote->key, target->ops->strerror((int)why),
			(unsigned long)region->len,
			virtual ? "addressed by the owner's address (FI_MR_VIRT_ADDR), from"
				: "addressed by offset, from",
			virtual ? (unsigned long)region->base : 0ul, region->access);
}

/* Find and check one remote range; on success the region is referenced in targets. */
static enum hmreg_error add_target(struct nic_ep *ep, const struct nic_ep *target, uint64_t peer,
				   const struct fi_rma_iov *remote, uint64_t access,
				   struct targets *targets)
{
	struct nic_region *region = NULL;
	uint64_t offset = remote->addr;
	enum hmreg_error why = find_region(ep, target->domain, remote->key, &region);

	if (why != HMREG_OK) {
		explain(target->domain, remote, NULL, why);
		return why;
	}
	if (target->domain->mr_mode & FI_MR_VIRT_ADDR)
		offset -= region->base;
	why = check_state(region, target);
	if (why == HMREG_OK && region->ext && region->ext->auth)
		why = sw_check_limits(region->ext->auth, ep, target, peer);
	if (why == HMREG_OK && (region->access & access) != access)
		why = HMREG_NO_RIGHT;
	if (why == HMREG_OK && !hm_range_ok(region->len, offset, remote->len))
		why = HMREG_OUT_OF_BOUNDS;
	if (why != HMREG_OK) {
		explain(target->domain, remote, region, why);
		nic_local_release(region);
		return why;
	}
	targets->at[targets->count++] = (struct target){ region, offset, remote->len };
	return HMREG_OK;
}

/* A single-use key belongs to the first operation that passes all other checks. */
static enum hmreg_error claim(struct targets *targets)
{
	struct nic_region *claimed[NIC_RMA_IOV_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < targets->count; i++) {
		struct nic_region *region = targets->at[i].region;
		bool repeated = false;

		if (!(atomic_load_explicit(&region->state, memory_order_relaxed) &
		      NIC_REGION_SINGLE_USE))
			continue;
		for (uint32_t k = 0; k < i; k++) /* twice in one operation is one use */
			repeated |= targets->at[k].region == region;
		if (repeated)
			continue;
		if (!(atomic_fetch_or_explicit(&region->state, NIC_REGION_USED_UP,
					       memory_order_acq_rel) &
		      NIC_REGION_USED_UP)) {
			claimed[count++] = region;
			continue;
		}
		/* the operation does not take place, so what it claimed is free again */
		while (count > 0)
			atomic_fetch_and_explicit(&claimed[--count]->state, ~NIC_REGION_USED_UP,
						  memory_order_release);
		return HMREG_KEY_USED_UP;
	}
	return HMREG_OK;
}

/* ---- execution ---- */

static size_t target_pieces(const struct target *target, struct sw_piece *piece)
{
	return sw_region_pieces(target->region, target->offset, target->len, piece);
}

static enum hmreg_error move(const struct nic_ep *ep, const struct nic_wr *wr,
			     const struct targets *targets)
{
	struct sw_piece local[NIC_IOV_MAX], piece[NIC_IOV_MAX];
	struct sw_cursor mine = { .piece = local, .count = wr->local_count };
	enum hmreg_error why = sw_pieces(ep->domain, wr->local, wr->local_count, local);

	for (uint32_t i = 0; why == HMREG_OK && i < targets->count; i++) {
		const struct target *target = &targets->at[i];
		struct sw_cursor theirs = { .piece = piece, .count = target_pieces(target, piece) };

		why = wr->op == NIC_OP_WRITE ? sw_copy(&theirs, &mine, target->len)
					     : sw_copy(&mine, &theirs, target->len);
	}
	return why;
}

/* As C aligns the type; a complex number is aligned as its parts are. */
static size_t natural_alignment(enum fi_datatype datatype)
{
	size_t size = sw_atomic_size(datatype);

	if (datatype == FI_FLOAT_COMPLEX || datatype == FI_DOUBLE_COMPLEX ||
	    datatype == FI_LONG_DOUBLE_COMPLEX)
		size /= 2;
	return size > 8 ? 8 : size;
}

/* Every target element must be aligned and lie in one piece. */
static enum hmreg_error check_alignment(const struct nic_wr *wr, const struct targets *targets)
{
	size_t size = sw_atomic_size(wr->datatype);
	size_t align = natural_alignment(wr->datatype);
	struct sw_piece piece[NIC_IOV_MAX];

	for (uint32_t i = 0; i < targets->count; i++) {
		size_t n = target_pieces(&targets->at[i], piece);

		while (n-- > 0)
			if ((uintptr_t)piece[n].at % align != 0 || piece[n].len % size != 0)
				return HMREG_MISALIGNED;
	}
	return HMREG_OK;
}

static enum hmreg_error execute_atomic(const struct nic_ep *ep, const struct nic_wr *wr,
				       const struct targets *targets)
{
	struct sw_piece piece[NIC_IOV_MAX];
	struct sw_operands operands;
	enum hmreg_error why = sw_operands(ep->domain, wr, &operands);

	for (uint32_t i = 0; why == HMREG_OK && i < targets->count; i++) {
		size_t n = target_pieces(&targets->at[i], piece);

		for (size_t k = 0; why == HMREG_OK && k < n; k++)
			why = sw_apply(wr, &operands, &piece[k]);
	}
	return why;
}

/* ---- the operation ---- */

/* What the operation needs of the regions, and with its kind of the target endpoint. */
static uint64_t needed_access(const struct nic_wr *wr)
{
	switch (wr->op) {
	case NIC_OP_READ:
		return FI_REMOTE_READ;
	case NIC_OP_FETCH:
		return wr->atomic_op == FI_ATOMIC_READ ? FI_REMOTE_READ
						       : FI_REMOTE_READ | FI_REMOTE_WRITE;
	case NIC_OP_COMPARE:
		return FI_REMOTE_READ | FI_REMOTE_WRITE;
	default:
		return FI_REMOTE_WRITE;
	}
}

static enum hmreg_error execute(struct nic_ep *ep, const struct nic_ep *target,
				const struct nic_wr *wr, struct targets *targets)
{
	bool atomic = wr->op != NIC_OP_WRITE && wr->op != NIC_OP_READ;
	uint64_t access = needed_access(wr);
	uint64_t caps = access | (atomic ? FI_ATOMIC : FI_RMA);
	enum hmreg_error why;

	if ((target->caps & caps) != caps)
		return HMREG_PEER_NO_CAP;
	if ((wr->flags & FI_REMOTE_CQ_DATA) && !target->rx_cq) /* nobody would see the data */
		return HMREG_PEER_NO_CAP;
	for (uint32_t i = 0; i < wr->remote_count; i++) {
		if (wr->remote[i].len == 0) /* as hardware: an empty access names no region */
			continue;
		why = add_target(ep, target, wr->peer, &wr->remote[i], access, targets);
		if (why != HMREG_OK)
			return why;
	}
	if (atomic) {
		why = check_alignment(wr, targets);
		if (why != HMREG_OK)
			return why;
	}
	why = claim(targets);
	if (why != HMREG_OK)
		return why;
	return atomic ? execute_atomic(ep, wr, targets) : move(ep, wr, targets);
}

/* Bytes of the operation that target i's region took; 0 where a target before it told of them. */
static uint64_t region_bytes(const struct targets *targets, uint32_t i)
{
	uint64_t bytes = 0;

	for (uint32_t k = 0; k < targets->count; k++) {
		if (targets->at[k].region != targets->at[i].region)
			continue;
		if (k < i)
			return 0;
		bytes += targets->at[k].len;
	}
	return bytes;
}

/* What the target sees of a successful access: counters, and an entry for FI_REMOTE_CQ_DATA. */
static void tell_target(struct nic_ep *target, const struct nic_wr *wr,
			const struct targets *targets)
{
	bool writes = needed_access(wr) & FI_REMOTE_WRITE;
	struct nic_cntr *cntr = target->cntr[writes ? NIC_CNTR_REMOTE_WRITE : NIC_CNTR_REMOTE_READ];

	for (uint32_t i = 0; writes && i < targets->count; i++) {
		struct nic_region_ext *ext = targets->at[i].region->ext;
		struct nic_cntr *bound =
			ext ? atomic_load_explicit(&ext->cntr, memory_order_acquire) : NULL;

		if (bound && (target->caps & FI_RMA_EVENT)) {
			uint64_t bytes = region_bytes(targets, i);

			if (bytes > 0) /* an operation is one event, in however many pieces */
				nic_cntr_done(bound, bytes);
		}
	}
	if (wr->flags & FI_REMOTE_CQ_DATA) { /* execute has seen to it that there is a queue */
		struct nic_comp comp = { .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
					 .len = wr->len,
					 .data = wr->data,
					 .src_addr = FI_ADDR_NOTAVAIL };

		nic_cq_push(target->rx_cq, &comp);
	}
	if (cntr)
		nic_cntr_done(cntr, wr->len);
}

ssize_t sw_rma(struct nic_ep *ep, const struct nic_wr *wr)
{
	struct targets targets = { .count = 0 };
	struct sw_ep *target;
	enum hmreg_error why = HMREG_PEER_GONE;
	uint32_t key;
	bool notify;

	if (ep->tx_cq && nic_cq_reserve(ep->tx_cq) != 0)
		return -FI_EAGAIN;
	target = sw_port_acquire(wr->peer);
	if (target)
		why = sw_check_peer(ep, &target->ep, wr->peer, &key);
	if (why != HMREG_OK) {
		if (target)
			sw_port_release(target);
		nic_fail(ep, wr, why);
		return 0;
	}
	notify = (wr->flags & FI_REMOTE_CQ_DATA) && target->ep.rx_cq;
	if (notify && nic_cq_reserve(target->ep.rx_cq) != 0) {
		sw_port_release(target);
		if (ep->tx_cq)
			nic_cq_unreserve(ep->tx_cq);
		return -FI_EAGAIN;
	}
	why = execute(ep, &target->ep, wr, &targets);
	if (why == HMREG_OK)
		tell_target(&target->ep, wr, &targets);
	else if (notify)
		nic_cq_unreserve(target->ep.rx_cq);
	release_targets(&targets);
	sw_port_release(target);
	if (why == HMREG_OK)
		nic_succeed(ep, wr);
	else
		nic_fail(ep, wr, why);
	return 0;
}
