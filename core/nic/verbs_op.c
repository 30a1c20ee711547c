/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests become operations, which keep all that a repetition needs; and how they complete. */
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

/* ---- objects ---- */

static struct verbs_op *alloc_op(struct verbs_ep *ep)
{
	struct verbs_op *op;

	if (hm_list_empty(&ep->free_ops)) {
		op = malloc(sizeof(*op));
		if (!op)
			return NULL;
	} else {
		op = hm_list_entry(ep->free_ops.next, struct verbs_op, link);
		hm_list_del(&op->link);
	}
	hm_list_init(&op->link);
	op->id = ++ep->next_id;
	op->control = false;
	op->local_count = op->remote_count = 0;
	op->slot = NULL;
	op->done = op->first_frame = op->frames = 0;
	op->outstanding = 0;
	op->started = op->posted = op->flushed = op->again = false;
	op->why = op->answer = HMREG_OK;
	op->wants_answer = op->answered = false;
	ep->ops_in_use++;
	return op;
}

static struct verbs_slot *take_slot(struct verbs_ep *ep, size_t spared)
{
	struct verbs_slot *slot;

	if (ep->slots_free <= spared)
		return NULL;
	slot = hm_list_entry(ep->free_slots.next, struct verbs_slot, link);
	hm_list_del(&slot->link);
	ep->slots_free--;
	return slot;
}

static void end_holds(struct verbs_ep *ep, struct verbs_seg *seg, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (seg[i].hold.region)
			ep->ep.domain->hold_end(ep->ep.domain, &seg[i].hold);
}

static void free_op(struct verbs_ep *ep, struct verbs_op *op)
{
	end_holds(ep, op->local, op->local_count);
	if (op->slot) {
		hm_list_add_tail(&ep->free_slots, &op->slot->link);
		ep->slots_free++;
	}
	if (!op->control)
		ep->ops_in_use--;
	hm_list_add_tail(&ep->free_ops, &op->link);
}

/* ---- completion ---- */

static void complete(struct nic_ep *ep, const struct verbs_op *op, enum hmreg_error why)
{
	struct nic_wr wr = { .op = op->op,
			     .flags = op->flags,
			     .comp_flags = op->comp_flags,
			     .len = op->len,
			     .context = op->context };

	if (why == HMREG_OK)
		nic_succeed(ep, &wr);
	else
		nic_fail(ep, &wr, why);
}

/* What it holds is free before the application hears of it, and may post the next one. */
void verbs_op_finish(struct verbs_ep *ep, struct verbs_op *op, enum hmreg_error why)
{
	assert(op->outstanding == 0 || ep->gone);
	free_op(ep, op);
	if (!op->control)
		complete(&ep->ep, op, why);
}

void verbs_op_fail(struct verbs_ep *ep, struct verbs_op *op, enum hmreg_error why)
{
	if (!op->control && verbs_op_is_framed(op) && op->first_frame != 0 &&
	    (op->frames > 1 || op->done < op->len))
		op->peer->cut = op->id;
	verbs_op_finish(ep, op, why);
}

void verbs_op_drop(struct verbs_ep *ep, struct verbs_op *op)
{
	free_op(ep, op);
	if (!op->control && ep->ep.tx_cq)
		nic_cq_unreserve(ep->ep.tx_cq);
}

/* The result of an atomic that did not go to its place by itself.  Its regions must still be there. */
static enum hmreg_error hand_result(struct verbs_ep *ep, const struct verbs_op *op)
{
	const char *from = (const char *)&op->result;
	size_t left = sizeof(op->result);

	for (uint32_t i = 0; i < op->local_count && left > 0; i++) {
		const struct verbs_seg *seg = &op->local[i];
		size_t n = seg->len < left ? seg->len : left;
		struct hm_key_node *node = NULL;
		int ret;

		if (seg->desc) {
			node = hm_key_acquire(ep->vd->domain.regions, seg->desc);
			if (!node)
				return HMREG_LOCAL_REGION;
		}
		ret = nic_to_app(&ep->vd->domain, (void *)(uintptr_t)seg->addr, from, n);
		if (node)
			hm_key_release(node);
		if (ret != 0)
			return verbs_copied(ret);
		from += n;
		left -= n;
	}
	return HMREG_OK;
}

void verbs_op_executed(struct verbs_ep *ep, struct verbs_op *op)
{
	enum hmreg_error why = op->answer;

	hm_list_del(&op->link);
	if (op->wants_answer && !op->answered) {
		hm_list_add_tail(&op->peer->unanswered, &op->link);
		return;
	}
	if (verbs_op_is_atomic(op) && op->op != NIC_OP_ATOMIC && !verbs_result_in_place(op))
		why = hand_result(ep, op);
	verbs_op_finish(ep, op, why);
}

static struct verbs_op *find(struct hm_list *list, uint64_t id)
{
	hm_list_for_each(link, list)
	{
		struct verbs_op *op = hm_list_entry(link, struct verbs_op, link);

		if (op->id == id && op->wants_answer)
			return op;
	}
	return NULL;
}

/* The answer may overtake the news that the message has left. */
void verbs_op_answered(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t id,
		       enum hmreg_error status)
{
	struct verbs_op *op = find(&peer->unanswered, id);

	if (status < HMREG_OK || status >= HMREG_ERROR_LAST)
		status = HMREG_TRANSPORT;
	if (op) {
		hm_list_del(&op->link);
		verbs_op_finish(ep, op, status);
		return;
	}
	op = find(&peer->posted, id);
	if (!op)
		op = find(&peer->waiting, id); /* it is to be repeated for nothing */
	if (op) {
		op->answered = true;
		op->answer = status;
	}
}

/* ---- posting ---- */

/* What a work request has been turned into before the lock is taken. */
struct intake {
	uint32_t count;
	bool copies; /* the payload goes into a slot */
	struct verbs_seg seg[NIC_IOV_MAX];
	uint64_t operand, compare;
	enum hmreg_error why; /* it fails at once */
};

/* Small payload without a region is cheaper copied than registered (nic_port.local_copied). */
static bool is_copied(const struct nic_wr *wr)
{
	if (wr->op != NIC_OP_SEND && wr->op != NIC_OP_WRITE)
		return false;
	if (wr->len == 0 || wr->len > VERBS_FRAME)
		return false;
	if (wr->flags & FI_INJECT)
		return true;
	for (uint32_t i = 0; i < wr->local_count; i++)
		if (wr->local[i].region && wr->local[i].len > 0)
			return false;
	return true;
}

static enum hmreg_error copy_in(const struct verbs_ep *ep, char *to, const struct nic_seg *seg,
				uint32_t count, size_t room)
{
	enum hmreg_error why = HMREG_OK;

	for (uint32_t i = 0; i < count && why == HMREG_OK; i++) {
		size_t n = seg[i].len < room ? seg[i].len : room;

		why = verbs_copied(nic_from_app(&ep->vd->domain, to, seg[i].addr, n));
		to += n;
		room -= n;
	}
	return why;
}

/* Segments as the NIC is to see them.  Holds stay the caller's until the operation is accepted. */
static void take_segs(const struct verbs_ep *ep, const struct nic_wr *wr, struct intake *in)
{
	for (uint32_t i = 0; i < wr->local_count; i++) {
		const struct nic_seg *from = &wr->local[i];
		struct verbs_seg *to = &in->seg[in->count++];

		*to = (struct verbs_seg){ .addr = (uintptr_t)from->addr, .len = from->len };
		if (from->hold)
			to->hold = *from->hold;
		else if (from->region)
			to->desc = hm_key_handle(&from->region->node);
		else if (from->len > 0) /* which could not be registered */
			in->why = atomic_load(&ep->vd->gone) ? HMREG_DEVICE_GONE : HMREG_FAULT;
	}
}

/* Operands are taken now; segments are where the result goes, addressed by the processor. */
static void take_atomic(const struct verbs_ep *ep, const struct nic_wr *wr, struct intake *in)
{
	in->operand = in->compare = 0; /* FI_ATOMIC_READ adds nothing */
	in->why =
		copy_in(ep, (char *)&in->operand, wr->local, wr->local_count, sizeof(in->operand));
	if (in->why == HMREG_OK)
		in->why = copy_in(ep, (char *)&in->compare, wr->compare, wr->compare_count,
				  sizeof(in->compare));
	if (wr->op == NIC_OP_FETCH && wr->atomic_op == FI_ATOMIC_READ)
		in->operand = 0;
	for (uint32_t i = 0; i < wr->result_count; i++) {
		const struct nic_seg *from = &wr->result[i];

		in->seg[in->count++] = (struct verbs_seg){
			.addr = (uintptr_t)from->addr,
			.len = from->len,
			.desc = from->region && !from->hold ? hm_key_handle(&from->region->node) : 0
		};
	}
}

static int take_in(struct verbs_ep *ep, const struct nic_wr *wr, struct intake *in)
{
	in->count = 0;
	in->why = HMREG_OK;
	in->copies = is_copied(wr);
	if (nic_is_atomic(wr->op)) {
		if (wr->len != sizeof(uint64_t)) {
			HM_WARN(FI_LOG_EP_DATA, "an atomic of %zu bytes; 8 are possible", wr->len);
			return -FI_EINVAL;
		}
		take_atomic(ep, wr, in);
		return 0;
	}
	if (!in->copies)
		take_segs(ep, wr, in);
	return 0;
}

/* The operation has them now. */
static void take_holds(const struct nic_wr *wr)
{
	for (uint32_t i = 0; i < wr->local_count; i++)
		if (wr->local[i].hold)
			wr->local[i].hold->region = NULL;
}

static void fill(struct verbs_op *op, const struct nic_wr *wr, const struct intake *in)
{
	op->op = wr->op;
	op->atomic_op = wr->atomic_op;
	op->flags = wr->flags;
	op->comp_flags = wr->comp_flags;
	op->data = wr->data;
	op->context = wr->context;
	op->len = wr->len;
	op->operand = in->operand;
	op->compare = in->compare;
	op->local_count = in->count;
	memcpy(op->local, in->seg, in->count * sizeof(in->seg[0]));
	op->remote_count = 0;
	for (uint32_t i = 0; wr->op != NIC_OP_SEND && i < wr->remote_count; i++)
		if (wr->remote[i].len > 0) /* an empty range names no region */
			op->remote[op->remote_count++] = wr->remote[i];
	op->wants_answer = wr->op == NIC_OP_SEND &&
			   (wr->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE));
}

/* ep->lock held.  -FI_EAGAIN, -FI_ENOMEM: nothing done. */
static int accept_op(struct verbs_ep *ep, const struct nic_wr *wr, struct intake *in)
{
	struct verbs_slot *slot = NULL;
	struct verbs_peer *peer;
	struct verbs_op *op;

	if (ep->ops_in_use >= ep->vd->port->port.tx_size)
		return -FI_EAGAIN;
	if (in->copies) {
		slot = take_slot(ep, VERBS_SLOTS_OWN);
		if (!slot)
			return -FI_EAGAIN;
	}
	peer = verbs_peer_get(ep, wr->peer);
	op = peer ? alloc_op(ep) : NULL;
	if (!op) {
		if (slot) {
			hm_list_add_tail(&ep->free_slots, &slot->link);
			ep->slots_free++;
		}
		if (peer)
			HM_WARN(FI_LOG_EP_DATA, "no memory for an operation");
		return -FI_ENOMEM;
	}
	fill(op, wr, in);
	if (!nic_is_atomic(wr->op) && !in->copies)
		take_holds(wr);
	op->peer = peer;
	op->slot = slot;
	if (slot)
		in->why = copy_in(ep, slot->data, wr->local, wr->local_count, VERBS_FRAME);
	if (ep->gone || atomic_load(&ep->vd->gone))
		in->why = HMREG_DEVICE_GONE;
	if (in->why != HMREG_OK) {
		verbs_op_finish(ep, op, in->why);
		return 0;
	}
	hm_list_add_tail(&peer->waiting, &op->link);
	verbs_peer_pump(ep, peer);
	return 0;
}

ssize_t verbs_post(struct nic_ep *nic, const struct nic_wr *wr)
{
	struct verbs_ep *ep = verbs_ep_of(nic);
	struct intake in;
	int ret;

	if (nic->tx_cq && nic_cq_reserve(nic->tx_cq) != 0)
		return -FI_EAGAIN;
	ret = take_in(ep, wr, &in);
	if (ret == 0) {
		pthread_mutex_lock(&ep->lock);
		ret = accept_op(ep, wr, &in);
		pthread_mutex_unlock(&ep->lock);
	}
	if (ret != 0 && nic->tx_cq)
		nic_cq_unreserve(nic->tx_cq);
	return ret;
}

static struct verbs_op *queue_control(struct verbs_ep *ep, struct verbs_peer *peer,
				      const struct verbs_frame *frame)
{
	struct verbs_op *op = alloc_op(ep);

	if (!op)
		return NULL;
	ep->ops_in_use--; /* they take no place from the application's */
	op->op = NIC_OP_SEND;
	op->control = true;
	op->flags = 0;
	op->len = frame->length;
	op->head = *frame;
	op->peer = peer;
	hm_list_add_tail(&peer->control, &op->link);
	return op;
}

void verbs_op_tell_cut(struct verbs_ep *ep, struct verbs_peer *peer)
{
	const struct verbs_frame frame = { .type = VERBS_FRAME_CUT, .id = peer->cut };

	if (verbs_control_send(ep, peer->handle, &frame, NULL) == 0)
		peer->cut = 0;
}

int verbs_control_send(struct verbs_ep *ep, uint64_t to, const struct verbs_frame *frame,
		       const void *payload)
{
	struct verbs_peer *peer = verbs_peer_get(ep, to);
	struct verbs_slot *slot = NULL;
	struct verbs_op *op;

	assert(frame->length <= VERBS_FRAME && (frame->length > 0) == (payload != NULL));
	if (peer && frame->type != VERBS_FRAME_ALIVE)
		peer = verbs_peer_lane(ep, peer, VERBS_LANE_CONTROL);
	if (!peer || ep->gone || ep->closing)
		return -FI_EAGAIN;
	if (payload) {
		slot = take_slot(ep, 0);
		if (!slot)
			return -FI_EAGAIN;
		memcpy(slot->data, payload, frame->length);
	}
	op = queue_control(ep, peer, frame);
	if (!op) {
		if (slot) {
			hm_list_add_tail(&ep->free_slots, &slot->link);
			ep->slots_free++;
		}
		return -FI_EAGAIN;
	}
	op->slot = slot;
	verbs_peer_pump(ep, peer);
	return 0;
}

/* ---- atomics ---- */

int verbs_atomic_valid(struct nic_domain *domain, enum nic_op kind, enum fi_datatype datatype,
		       enum fi_op op, size_t *count, size_t *size)
{
	const struct verbs_device *device = verbs_domain_of(domain)->device;
	bool integer = datatype == FI_INT64 || datatype == FI_UINT64;
	bool can = (kind == NIC_OP_ATOMIC && op == FI_SUM) ||
		   (kind == NIC_OP_FETCH && (op == FI_SUM || op == FI_ATOMIC_READ)) ||
		   (kind == NIC_OP_COMPARE && op == FI_CSWAP);

	if (device->attr.atomic_cap == IBV_ATOMIC_NONE || !integer || !can)
		return -FI_EOPNOTSUPP;
	*count = 1;
	*size = sizeof(uint64_t);
	return 0;
}
