/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations become pieces, each one send work request: what of the local side its scatter/gather
 * entries hold, as far as one key of the remote side reaches.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

struct piece {
	struct ibv_sge sge[VERBS_SGE];
	int count;
	uint64_t len;
	uint64_t addr; /* remote */
	uint32_t rkey;
};

/* What became of an attempt to post a piece. */
enum step {
	STEP_POSTED,
	STEP_WAIT,   /* not now: a table of keys is asked for, or an earlier operation is awaited */
	STEP_FAILED, /* *why */
	STEP_BROKEN  /* the connection is, and the operation as it says */
};

/* ---- the local side ---- */

static void add_sge(struct piece *p, uint64_t addr, uint64_t len, uint32_t lkey)
{
	p->sge[p->count++] =
		(struct ibv_sge){ .addr = addr, .length = (uint32_t)len, .lkey = lkey };
	p->len += len;
}

/* len bytes of a region, or as many as there are entries for. */
static void add_region(struct piece *p, const struct nic_region *region, uint64_t addr,
		       uint64_t len, int room)
{
	uint64_t covered = 0;

	p->count += (int)verbs_region_sges(region, addr, len, &p->sge[p->count],
					   (size_t)(room - p->count), &covered);
	p->len += covered;
}

/* The same of a segment.  False: the program has closed its region. */
static bool add_seg(struct verbs_ep *ep, struct piece *p, const struct verbs_seg *seg,
		    uint64_t offset, uint64_t len, int room)
{
	struct hm_key_node *node;

	if (seg->hold.region) {
		add_region(p, seg->hold.region, seg->addr + offset, len, room);
		return true;
	}
	node = hm_key_acquire(ep->vd->domain.regions, seg->desc);
	if (!node)
		return false;
	add_region(p, nic_region_of(node), seg->addr + offset, len, room);
	hm_key_release(node);
	return true;
}

/* Entries for at most max bytes of the local side from offset on. */
static enum hmreg_error gather(struct verbs_ep *ep, const struct verbs_op *op, uint64_t offset,
			       uint64_t max, int room, struct piece *p)
{
	if (op->slot) {
		uint64_t len = op->len - offset < max ? op->len - offset : max;

		if (len > 0)
			add_sge(p, (uintptr_t)op->slot->data + offset, len, ep->pool_mr->lkey);
		return HMREG_OK;
	}
	for (uint32_t i = 0; i < op->local_count && p->count < room && p->len < max; i++) {
		const struct verbs_seg *seg = &op->local[i];
		uint64_t len, before = p->len;

		if (offset >= seg->len) {
			offset -= seg->len;
			continue;
		}
		len = seg->len - offset < max - p->len ? seg->len - offset : max - p->len;
		if (!add_seg(ep, p, seg, offset, len, room))
			return HMREG_LOCAL_REGION;
		if (p->len - before < len)
			break;
		offset = 0;
	}
	return HMREG_OK;
}

/* ---- the remote side ---- */

/* Where offset lies there; *max is cut to what one key reaches. */
static enum step target(struct verbs_ep *ep, struct verbs_op *op, uint64_t offset, struct piece *p,
			uint64_t *max, enum hmreg_error *why)
{
	const struct fi_rma_iov *remote = op->remote;
	uint64_t left, addr, reach;
	int ret;

	p->addr = 0;
	p->rkey = 0;
	if (op->remote_count == 0) /* an empty access */
		return STEP_POSTED;
	while (offset >= remote->len) {
		offset -= remote->len;
		remote++;
	}
	left = remote->len - offset;
	addr = remote->addr + offset;
	if (left < *max)
		*max = left;
	if (!(remote->key & VERBS_KEY_COMPOSITE)) {
		p->rkey = VERBS_KEY_RKEY(remote->key);
		p->addr = addr + VERBS_KEY_INTERIOR(remote->key);
		return STEP_POSTED;
	}
	ret = verbs_keys_find(ep, op->peer, remote->key, addr, left, &p->rkey, &p->addr, &reach);
	if (ret < 0) {
		*why = (enum hmreg_error) - ret;
		return STEP_FAILED;
	}
	if (ret > 0 && reach < *max)
		*max = reach;
	return ret > 0 ? STEP_POSTED : STEP_WAIT;
}

/* ---- posting ---- */

/* There is a free verbs_tx and room on the queue pair. */
static enum step submit(struct verbs_ep *ep, struct verbs_op *op, struct verbs_tx *tx,
			struct ibv_send_wr *wr, const struct piece *p, enum hmreg_error *why)
{
	struct verbs_conn *conn = op->peer->conn;
	struct ibv_send_wr *bad;
	int err;

	wr->wr_id = (uintptr_t)tx;
	wr->sg_list = (struct ibv_sge *)(uintptr_t)p->sge;
	wr->num_sge = p->count;
	wr->send_flags = IBV_SEND_SIGNALED;
	/* what comes behind an atomic is not to overtake it */
	if (conn->atomics > 0 && !verbs_op_is_atomic(op))
		wr->send_flags |= IBV_SEND_FENCE;
	err = ibv_post_send(conn->qp, wr, &bad);
	if (err == 0) {
		hm_list_del(&tx->link);
		ep->tx_free--;
		tx->op = op;
		conn->used++;
		conn->atomics += verbs_op_is_atomic(op);
		op->outstanding++;
		op->started = true;
		return STEP_POSTED;
	}
	*why = HMREG_TRANSPORT;
	if (err == EIO || err == ENODEV || atomic_load(&ep->vd->gone)) {
		ep->suspect = true; /* the progress thread asks the device */
		verbs_progress_wake(ep);
		if (atomic_load(&ep->vd->gone) || !op->again) {
			*why = HMREG_DEVICE_GONE;
			return STEP_BROKEN;
		}
	}
	HM_WARN(FI_LOG_EP_DATA, "ibv_post_send: %s", strerror(err));
	return STEP_BROKEN;
}

static struct verbs_tx *free_tx(struct verbs_ep *ep)
{
	return hm_list_entry(ep->free_tx.next, struct verbs_tx, link);
}

static void write_head(const struct verbs_op *op, uint64_t len, struct verbs_frame *head)
{
	if (op->control) {
		*head = op->head;
	} else {
		*head = (struct verbs_frame){ .type = op->done == 0 ? VERBS_FRAME_MESSAGE
								    : VERBS_FRAME_MORE,
					      .id = op->id,
					      .total = op->len,
					      .data = op->data };
		if (op->flags & FI_REMOTE_CQ_DATA)
			head->flags |= VERBS_FRAME_DATA;
		if (op->wants_answer)
			head->flags |= VERBS_FRAME_WANTS_ANSWER;
		if (op->op == NIC_OP_WRITE)
			head->type = VERBS_FRAME_WRITE_DATA;
	}
	head->length = (uint32_t)len;
	head->number = op->peer->next_frame;
}

/* The header's entry, and len bytes of payload at most. */
static enum hmreg_error frame_piece(struct verbs_ep *ep, const struct verbs_op *op, uint64_t offset,
				    const struct verbs_frame *head, struct piece *p, uint64_t max)
{
	enum hmreg_error why;

	p->count = 0;
	p->len = 0;
	add_sge(p, (uintptr_t)head, sizeof(*head), ep->pool_mr->lkey);
	p->len = 0;
	why = gather(ep, op, offset, max, (int)ep->max_sge, p);
	if (why == HMREG_OK && p->len == 0 && offset < op->len && max > 0)
		why = HMREG_LOCAL_REGION;
	return why;
}

static enum step post_frame(struct verbs_ep *ep, struct verbs_op *op, uint64_t max,
			    enum hmreg_error *why)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct verbs_tx *tx = free_tx(ep);
	struct piece p;
	enum step step;

	*why = frame_piece(ep, op, op->done, tx->frame, &p, max);
	if (*why != HMREG_OK)
		return STEP_FAILED;
	write_head(op, p.len, tx->frame);
	step = submit(ep, op, tx, &wr, &p, why);
	if (step != STEP_POSTED)
		return step;
	if (op->first_frame == 0)
		op->first_frame = op->peer->next_frame;
	op->peer->next_frame++;
	op->frames++;
	op->done += p.len;
	op->posted = op->done == op->len;
	return STEP_POSTED;
}

enum hmreg_error verbs_wr_skip(struct verbs_ep *ep, struct verbs_op *op, uint64_t frames)
{
	struct piece p;

	op->done = 0;
	op->frames = frames;
	while (frames-- > 0) {
		enum hmreg_error why = frame_piece(ep, op, op->done, NULL, &p, VERBS_FRAME);

		if (why != HMREG_OK)
			return why;
		op->done += p.len;
	}
	return HMREG_OK;
}

static enum step post_rma(struct verbs_ep *ep, struct verbs_op *op, enum hmreg_error *why)
{
	bool reads = op->op == NIC_OP_READ, tells = op->flags & FI_REMOTE_CQ_DATA;
	struct ibv_send_wr wr = { .opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE };
	uint64_t max = ep->max_piece;
	struct piece p = { .count = 0 };
	enum step step;

	if (tells && op->done == op->len && op->frames > 0) /* several pieces: data comes behind */
		return post_frame(ep, op, 0, why);
	step = target(ep, op, op->done, &p, &max, why);
	if (step != STEP_POSTED)
		return step;
	*why = gather(ep, op, op->done, max, (int)(reads ? ep->max_sge_read : ep->max_sge), &p);
	if (*why == HMREG_OK && p.len == 0 && op->len > 0)
		*why = HMREG_LOCAL_REGION;
	if (*why != HMREG_OK)
		return STEP_FAILED;
	wr.wr.rdma.remote_addr = p.addr;
	wr.wr.rdma.rkey = p.rkey;
	if (tells && p.len == op->len) {
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = htonl((uint32_t)op->data);
		tells = false;
	}
	step = submit(ep, op, free_tx(ep), &wr, &p, why);
	if (step != STEP_POSTED)
		return step;
	op->done += p.len;
	op->frames++;
	op->posted = op->done == op->len && !tells;
	return STEP_POSTED;
}

static enum step post_atomic(struct verbs_ep *ep, struct verbs_op *op, enum hmreg_error *why)
{
	struct ibv_send_wr wr = { .opcode = op->op == NIC_OP_COMPARE
						    ? IBV_WR_ATOMIC_CMP_AND_SWP
						    : IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct verbs_tx *tx = free_tx(ep);
	uint64_t max = sizeof(uint64_t);
	struct piece p = { .count = 0 };
	enum step step = target(ep, op, 0, &p, &max, why);

	if (step != STEP_POSTED)
		return step;
	*why = HMREG_OK;
	if (max != sizeof(uint64_t) || p.addr % sizeof(uint64_t) != 0)
		*why = HMREG_MISALIGNED;
	else if (verbs_result_in_place(op))
		*why = gather(ep, op, 0, max, 1, &p);
	else
		add_sge(&p, (uintptr_t)tx->frame, sizeof(uint64_t), ep->pool_mr->lkey);
	if (*why == HMREG_OK && p.len != sizeof(uint64_t))
		*why = HMREG_LOCAL_REGION;
	if (*why != HMREG_OK)
		return STEP_FAILED;
	wr.wr.atomic.remote_addr = p.addr;
	wr.wr.atomic.rkey = p.rkey;
	wr.wr.atomic.compare_add = op->op == NIC_OP_COMPARE ? op->compare : op->operand;
	wr.wr.atomic.swap = op->operand;
	step = submit(ep, op, tx, &wr, &p, why);
	op->posted = step == STEP_POSTED;
	return step;
}

/* ---- one peer's queue ---- */

/* What the target endpoint must serve. */
static uint64_t needed_caps(const struct verbs_op *op)
{
	switch (op->op) {
	case NIC_OP_SEND:
		return FI_MSG | FI_RECV;
	case NIC_OP_WRITE:
		return FI_RMA | FI_REMOTE_WRITE;
	case NIC_OP_READ:
		return FI_RMA | FI_REMOTE_READ;
	case NIC_OP_FETCH:
		if (op->atomic_op == FI_ATOMIC_READ)
			return FI_ATOMIC | FI_REMOTE_READ;
		return FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE;
	case NIC_OP_COMPARE:
		return FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE;
	case NIC_OP_ATOMIC:
		break;
	}
	return FI_ATOMIC | FI_REMOTE_WRITE;
}

static bool is_served(const struct verbs_op *op)
{
	uint64_t caps = needed_caps(op);

	if (op->control)
		return true;
	if (op->op == NIC_OP_WRITE && (op->flags & FI_REMOTE_CQ_DATA) && !op->peer->has_rx_cq)
		return false;
	return (op->peer->caps & caps) == caps;
}

static enum step post_piece(struct verbs_ep *ep, struct verbs_op *op, enum hmreg_error *why)
{
	const struct verbs_peer *peer = op->peer;

	if (!op->started && !is_served(op)) {
		*why = HMREG_PEER_NO_CAP;
		return STEP_FAILED;
	}
	if ((op->flags & FI_FENCE) && !op->started &&
	    (!hm_list_empty(&peer->posted) || !hm_list_empty(&peer->unanswered)))
		return STEP_WAIT;
	if (verbs_op_is_framed(op))
		return post_frame(ep, op, VERBS_FRAME, why);
	return verbs_op_is_atomic(op) ? post_atomic(ep, op, why) : post_rma(ep, op, why);
}

/* A message that has begun goes on; else frames of our own are first. */
static struct verbs_op *next_op(struct verbs_peer *peer)
{
	struct verbs_op *op = NULL;

	if (!hm_list_empty(&peer->waiting)) {
		op = hm_list_entry(peer->waiting.next, struct verbs_op, link);
		if (op->first_frame != 0)
			return op;
	}
	if (!hm_list_empty(&peer->control))
		op = hm_list_entry(peer->control.next, struct verbs_op, link);
	return op;
}

/* Nothing more of it is posted; it ends when what is under way is back. */
static void abandon(struct verbs_ep *ep, struct verbs_op *op, enum hmreg_error why)
{
	hm_list_del(&op->link);
	op->why = why;
	if (op->outstanding == 0) {
		verbs_op_fail(ep, op, why);
		return;
	}
	op->posted = true;
	hm_list_add_tail(&op->peer->posted, &op->link);
}

/* False: no more now. */
static bool advance(struct verbs_ep *ep, struct verbs_peer *peer, struct verbs_op *op)
{
	enum hmreg_error why = HMREG_OK;

	switch (post_piece(ep, op, &why)) {
	case STEP_POSTED:
		if (op->posted) {
			hm_list_del(&op->link);
			hm_list_add_tail(&peer->posted, &op->link);
		}
		return true;
	case STEP_WAIT:
		return false;
	case STEP_FAILED:
		abandon(ep, op, why);
		return true;
	case STEP_BROKEN:
		if (!op->again && (op->control || why == HMREG_DEVICE_GONE)) {
			op->again = true; /* over the next connection, unless the device is gone */
		} else {
			if (op->control)
				verbs_peer_mute(peer);
			abandon(ep, op, why);
		}
		verbs_conn_break(peer->conn, VERBS_BREAK_UNSURE);
		return false;
	}
	return false;
}

/* Is there a verbs_tx for this peer?  The last ones are for control frames. */
static bool has_tx(const struct verbs_ep *ep, const struct verbs_peer *peer)
{
	return ep->tx_free > (peer->lane == VERBS_LANE_CONTROL ? 0 : ep->tx_own);
}

static void starve(struct verbs_ep *ep, struct verbs_peer *peer)
{
	if (!hm_list_empty(&peer->starved))
		return;
	if (peer->lane == VERBS_LANE_CONTROL)
		hm_list_add_tail(ep->starved.next, &peer->starved); /* in front */
	else
		hm_list_add_tail(&ep->starved, &peer->starved);
}

void verbs_wr_feed(struct verbs_ep *ep)
{
	while (!hm_list_empty(&ep->starved)) {
		struct verbs_peer *peer =
			hm_list_entry(ep->starved.next, struct verbs_peer, starved);

		if (!has_tx(ep, peer))
			return;
		hm_list_del(&peer->starved);
		verbs_peer_pump(ep, peer);
	}
}

void verbs_peer_pump(struct verbs_ep *ep, struct verbs_peer *peer)
{
	struct verbs_op *op;

	while (!ep->gone && !ep->closing) {
		if (peer->cut != 0)
			verbs_op_tell_cut(ep, peer);
		op = next_op(peer);
		if (!op)
			return;
		if (!peer->conn)
			verbs_conn_open(ep, peer);
		if (!peer->conn || peer->conn->state != VERBS_CONN_READY ||
		    peer->conn->used >= VERBS_QP_DEPTH)
			return;
		if (!has_tx(ep, peer)) {
			starve(ep, peer);
			return;
		}
		if (!advance(ep, peer, op))
			return;
	}
}
