/* SPDX-License-Identifier: BSD-2-Clause */
/* Work completions: of what was sent, and of what arrived.  And what is repeated over a new connection. */
#include <arpa/inet.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

#define BATCH 32

/* ---- sent ---- */

static enum hmreg_error cause_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return HMREG_OK;
	case IBV_WC_REM_ACCESS_ERR:
		return HMREG_REMOTE_ACCESS;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return HMREG_REMOTE_INVALID;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return HMREG_LOCAL_REGION;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return HMREG_PEER_LOST;
	default:
		return HMREG_TRANSPORT;
	}
}

static enum verbs_break break_of(enum hmreg_error why)
{
	switch (why) {
	case HMREG_REMOTE_ACCESS:
	case HMREG_REMOTE_INVALID:
		return VERBS_BREAK_CLEAN;
	case HMREG_PEER_LOST:
		return VERBS_BREAK_LOST;
	default:
		return VERBS_BREAK_UNSURE;
	}
}

/* Tables of the keys that a refused operation used may be out of date. */
static void drop_keys(struct verbs_ep *ep, const struct verbs_op *op)
{
	for (uint32_t i = 0; i < op->remote_count; i++)
		if (op->remote[i].key & VERBS_KEY_COMPOSITE)
			verbs_keys_drop(ep, op->peer, op->remote[i].key);
}

/* The request failed itself; those that are flushed because of it are not told so. */
static void failed(struct verbs_ep *ep, struct verbs_op *op, const struct ibv_wc *wc)
{
	enum hmreg_error why = cause_of(wc->status);

	if (why == HMREG_TRANSPORT)
		HM_WARN(FI_LOG_EP_DATA, "the NIC reports: %s (vendor code 0x%x)",
			verbs.wc_status_str(wc->status), wc->vendor_err);
	if (why == HMREG_REMOTE_ACCESS)
		drop_keys(ep, op);
	if (op->why == HMREG_OK)
		op->why = why;
	verbs_conn_break(op->peer->conn, break_of(why));
}

/* A whole operation is back; its connection may be broken by others. */
static void returned(struct verbs_ep *ep, struct verbs_op *op)
{
	if (op->why != HMREG_OK) {
		hm_list_del(&op->link);
		verbs_op_fail(ep, op, op->why);
	} else if (op->posted && !op->flushed) {
		verbs_op_executed(ep, op);
	}
}

static void on_sent(struct verbs_ep *ep, const struct ibv_wc *wc)
{
	struct verbs_tx *tx = (struct verbs_tx *)(uintptr_t)wc->wr_id;
	struct verbs_op *op = tx->op;
	struct verbs_peer *peer = op->peer;
	struct verbs_conn *conn = peer->conn;

	if (wc->status == IBV_WC_SUCCESS && verbs_op_is_atomic(op))
		memcpy(&op->result, tx->frame, sizeof(op->result));
	hm_list_add_tail(&ep->free_tx, &tx->link);
	ep->tx_free++;
	conn->atomics -= verbs_op_is_atomic(op);
	op->outstanding--;
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		op->flushed = true;
		if (conn->state == VERBS_CONN_READY)
			verbs_conn_break(conn, VERBS_BREAK_LOST);
	} else if (wc->status != IBV_WC_SUCCESS) {
		failed(ep, op, wc);
	}
	conn->used--; /* only now, so that a break above has left the connection where it is */
	if (op->outstanding == 0)
		returned(ep, op);
	if (conn->state == VERBS_CONN_DRAINING && conn->used == 0)
		verbs_conn_drained(conn);
	else if (conn->state == VERBS_CONN_READY)
		verbs_peer_pump(ep, peer);
}

/* ---- arrived ---- */

static bool belongs(const struct verbs_frame *frame, enum verbs_lane lane)
{
	switch (frame->type) {
	case VERBS_FRAME_MESSAGE:
	case VERBS_FRAME_MORE:
	case VERBS_FRAME_WRITE_DATA:
	case VERBS_FRAME_ALIVE:
		return lane == VERBS_LANE_MESSAGES;
	default:
		return lane == VERBS_LANE_CONTROL;
	}
}

/* Is the frame what one may be?  Its lengths first: the header counts only if all of it is there. */
static const char *check_frame(const struct verbs_frame *frame, uint32_t bytes,
			       enum verbs_lane lane)
{
	if (bytes < sizeof(*frame))
		return "shorter than a header";
	if (frame->length > VERBS_FRAME || bytes != sizeof(*frame) + frame->length)
		return "not as long as it says";
	if (frame->type < VERBS_FRAME_MESSAGE || frame->type > VERBS_FRAME_CUT)
		return "of no known type";
	if (!belongs(frame, lane))
		return "of a type that comes over another connection";
	return NULL;
}

static void refuse_frame(struct verbs_ep *ep, struct verbs_conn *conn, struct verbs_rx *rx,
			 const char *why)
{
	if (verbs_complain(ep))
		HM_WARN(FI_LOG_EP_DATA,
			"peer 0x%lx sends a frame that is %s; its connection is closed",
			(unsigned long)conn->peer->handle, why);
	verbs_rx_repost(ep, rx);
	verbs_conn_break(conn, VERBS_BREAK_LOST);
}

/* Takes rx over. */
static void on_frame(struct verbs_ep *ep, struct verbs_conn *conn, struct verbs_rx *rx,
		     uint32_t bytes)
{
	struct verbs_frame *frame = rx->frame;
	struct verbs_peer *peer = conn->peer, *main = verbs_peer_main(peer);
	const char *bad = check_frame(frame, bytes, conn->lane);

	if (!bad && frame->number > peer->its_frame + 1)
		bad = "ahead of its turn";
	if (bad) {
		refuse_frame(ep, conn, rx, bad);
		return;
	}
	if (frame->number <= peer->its_frame) { /* it came over an earlier connection */
		verbs_rx_repost(ep, rx);
		return;
	}
	peer->its_frame = frame->number;
	switch (frame->type) {
	case VERBS_FRAME_MESSAGE:
	case VERBS_FRAME_MORE:
		verbs_msg_arrived(ep, peer, rx);
		return;
	case VERBS_FRAME_WRITE_DATA:
		verbs_msg_write_data(ep, peer, rx, (uint32_t)frame->data, frame->total);
		return;
	case VERBS_FRAME_RECEIVED:
		verbs_op_answered(ep, main, frame->id, (enum hmreg_error)frame->status);
		break;
	case VERBS_FRAME_KEY_QUERY:
		verbs_keys_query(ep, main, frame);
		break;
	case VERBS_FRAME_KEY_PARTS:
		verbs_keys_parts(ep, main, frame);
		break;
	case VERBS_FRAME_CUT:
		verbs_msg_cut(ep, main, frame->id);
		break;
	}
	verbs_rx_repost(ep, rx);
	verbs_peer_pump(ep, main);
}

static void on_arrived(struct verbs_ep *ep, const struct ibv_wc *wc)
{
	struct verbs_rx *rx = (struct verbs_rx *)(uintptr_t)(wc->wr_id & ~VERBS_ID_RX);
	struct verbs_conn *conn = verbs_conn_of_qp(ep, wc->qp_num);

	ep->rx_posted--;
	if (conn)
		conn->quiet = 0;
	if (wc->status != IBV_WC_SUCCESS || !conn)
		verbs_rx_repost(ep,
				rx); /* flushed, a probe, or of a connection that has been closed */
	else if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		verbs_msg_write_data(ep, conn->peer, rx, ntohl(wc->imm_data), wc->byte_len);
	else
		on_frame(ep, conn, rx, wc->byte_len);
}

/* ---- polling ---- */

void verbs_ep_poll(struct verbs_ep *ep)
{
	struct ibv_wc wc[BATCH];
	int n = 0;

	do {
		if (ep->closing)
			return;
		if (ep->gone) /* receives that are told of it may still wait for room in a queue */
			break;
		n = ibv_poll_cq(ep->cq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id & VERBS_ID_RX)
				on_arrived(ep, &wc[i]);
			else if (wc[i].wr_id & VERBS_ID_PROBE)
				verbs_alive_answered(ep, &wc[i]);
			else
				on_sent(ep, &wc[i]);
		}
		verbs_wr_feed(ep);
	} while (n > 0);
	verbs_msg_retry(ep);
}

/* ---- replay ---- */

/* HMREG_OK: op is to be posted, from where it was left; or its error; *all: the target has all of it. */
static enum hmreg_error resume(struct verbs_ep *ep, struct verbs_op *op, bool same,
			       const struct verbs_welcome *welcome, bool *all)
{
	uint64_t frames, received = welcome->received;

	*all = false;
	op->posted = false;
	if (!op->started)
		return HMREG_OK;
	if (!same) { /* an answer is for nobody any more */
		*all = op->control;
		return op->control ? HMREG_OK : HMREG_PEER_LOST;
	}
	if (op->first_frame == 0 || op->first_frame > received) {
		op->done = op->first_frame = op->frames = 0;
		return HMREG_OK;
	}
	if (!verbs_op_is_framed(op)) { /* the frame behind a write's pieces has arrived */
		*all = true;
		return HMREG_OK;
	}
	frames = received - op->first_frame + 1;
	if (frames >= op->frames && op->done == op->len) {
		*all = true;
		return HMREG_OK;
	}
	if (op->id == welcome->given_up) {
		op->first_frame = 0; /* the target needs not hear that there is no more */
		return HMREG_PEER_LOST;
	}
	return verbs_wr_skip(ep, op, frames < op->frames ? frames : op->frames);
}

static void replay_list(struct verbs_ep *ep, struct hm_list *list, bool same,
			const struct verbs_welcome *welcome)
{
	hm_list_for_each_safe(link, list)
	{
		struct verbs_op *op = hm_list_entry(link, struct verbs_op, link);
		bool all;
		enum hmreg_error why = resume(ep, op, same, welcome, &all);

		if (why != HMREG_OK) {
			hm_list_del(link);
			verbs_op_fail(ep, op, why);
		} else if (all && op->control) {
			hm_list_del(link);
			verbs_op_finish(ep, op, HMREG_OK);
		} else if (all) {
			verbs_op_executed(ep, op);
		}
	}
}

void verbs_replay(struct verbs_ep *ep, struct verbs_peer *peer, bool same,
		  const struct verbs_welcome *welcome)
{
	if (!same) /* whom they were for is no more */
		while (!hm_list_empty(&peer->unanswered)) {
			struct verbs_op *op =
				hm_list_entry(peer->unanswered.next, struct verbs_op, link);

			hm_list_del(&op->link);
			verbs_op_finish(ep, op, HMREG_PEER_LOST);
		}
	peer->next_frame = welcome->received + 1;
	replay_list(ep, &peer->control, same, welcome);
	replay_list(ep, &peer->waiting, same, welcome);
	if (!same)
		peer->cut = 0;
}
