/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers, and what becomes of their operations when a connection ends.
 *
 * What had been posted over it goes back, in order, in front of what waits, or fails: that depends on
 * what is known of it (enum verbs_break).  While anything waits, another connection is opened.
 */
#include <stdlib.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

/* ---- peers ---- */

static struct hm_list *bucket_of(struct verbs_ep *ep, uint64_t handle)
{
	return &ep->peers[(handle * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
}
static_assert(VERBS_BUCKETS == 256, "bucket_of gives 8 bits");

static struct verbs_peer *make_peer(struct verbs_ep *ep, uint64_t handle, enum verbs_lane lane)
{
	struct verbs_peer *peer = calloc(1, sizeof(*peer));

	if (!peer) {
		HM_WARN(FI_LOG_EP_CTRL, "no memory for another peer");
		return NULL;
	}
	peer->handle = handle;
	peer->lane = lane;
	peer->next_frame = 1;
	hm_list_init(&peer->control);
	hm_list_init(&peer->waiting);
	hm_list_init(&peer->posted);
	hm_list_init(&peer->unanswered);
	hm_list_init(&peer->starved);
	hm_list_init(&peer->keys);
	hm_list_init(&peer->absent);
	hm_list_add_tail(bucket_of(ep, handle), &peer->link);
	return peer;
}

struct verbs_peer *verbs_peer_get(struct verbs_ep *ep, uint64_t handle)
{
	hm_list_for_each(link, bucket_of(ep, handle))
	{
		struct verbs_peer *peer = hm_list_entry(link, struct verbs_peer, link);

		if (peer->handle == handle && peer->lane == VERBS_LANE_MESSAGES)
			return peer;
	}
	return make_peer(ep, handle, VERBS_LANE_MESSAGES);
}

struct verbs_peer *verbs_peer_lane(struct verbs_ep *ep, struct verbs_peer *peer,
				   enum verbs_lane lane)
{
	if (peer->lane == lane)
		return peer;
	if (!peer->other)
		peer->other = make_peer(ep, peer->handle, lane);
	if (peer->other)
		peer->other->other = peer;
	return peer->other;
}

static void fail_list(struct verbs_ep *ep, struct hm_list *list, enum hmreg_error why)
{
	while (!hm_list_empty(list)) {
		struct verbs_op *op = hm_list_entry(list->next, struct verbs_op, link);

		hm_list_del(&op->link);
		if (op->why == HMREG_OK)
			op->why = op->started && why == HMREG_PEER_GONE ? HMREG_PEER_LOST : why;
		verbs_op_finish(ep, op, op->why);
	}
}

void verbs_peer_mute(struct verbs_peer *peer)
{
	peer = verbs_peer_main(peer);
	if (peer->passive)
		verbs_conn_break(peer->passive, VERBS_BREAK_LOST);
}

void verbs_peer_fail(struct verbs_ep *ep, struct verbs_peer *peer, enum hmreg_error why)
{
	if (!hm_list_empty(&peer->control))
		verbs_peer_mute(peer);
	fail_list(ep, &peer->unanswered, why);
	fail_list(ep, &peer->control, why);
	fail_list(ep, &peer->posted, why);
	fail_list(ep, &peer->waiting, why);
	hm_list_del(&peer->starved);
	peer->cut = 0;
	if (peer->lane == VERBS_LANE_CONTROL) /* questions went with the connection */
		verbs_keys_fail(ep, peer->other, why);
	else
		verbs_keys_forget(ep, peer);
}

static bool has_work(const struct verbs_peer *peer)
{
	return !hm_list_empty(&peer->control) || !hm_list_empty(&peer->waiting) ||
	       !hm_list_empty(&peer->unanswered);
}

/* ---- ends ---- */

void verbs_conn_bury(struct verbs_conn *conn)
{
	struct verbs_ep *ep = conn->ep;
	struct verbs_peer *peer = conn->peer;

	if (conn->state == VERBS_CONN_DEAD)
		return;
	conn->state = VERBS_CONN_DEAD;
	if (conn->passive) {
		ep->passive_count--;
		if (peer->passive == conn) {
			peer->passive = NULL;
			verbs_alive_await(ep, peer);
		}
	} else if (peer->conn == conn) {
		peer->conn = NULL;
	}
	hm_list_del(&conn->link);
	hm_list_del(&conn->by_qp);
	hm_list_add_tail(&ep->dead, &conn->link);
	verbs_progress_wake(ep);
}

void verbs_conn_destroy(struct verbs_conn *conn)
{
	if (conn->id)
		cm.disconnect(conn->id); /* fails where there is no connection (yet) */
	if (conn->qp)
		verbs.destroy_qp(conn->qp);
	if (conn->id)
		cm.destroy_id(conn->id);
	pthread_mutex_lock(&conn->ep->lock);
	verbs_alive_forget(conn);
	pthread_mutex_unlock(&conn->ep->lock);
	free(conn);
}

/* Could the target have executed this, and would a second time do harm? */
static bool harms_twice(const struct verbs_op *op)
{
	return verbs_op_is_atomic(op) ||
	       (op->op == NIC_OP_WRITE && (op->flags & FI_REMOTE_CQ_DATA));
}

/* Why a started operation cannot go over another connection; HMREG_OK: it can. */
static enum hmreg_error judge(const struct verbs_op *op, enum verbs_break how)
{
	if (op->why != HMREG_OK)
		return op->why;
	if (op->control || how == VERBS_BREAK_CLEAN)
		return HMREG_OK;
	if (how == VERBS_BREAK_UNSURE && !harms_twice(op))
		return HMREG_OK;
	return HMREG_PEER_LOST;
}

/* Operations that had been posted go in front of those that wait, or fail. */
static void take_back(struct verbs_ep *ep, struct verbs_peer *peer, enum verbs_break how)
{
	struct hm_list control, waiting,
		*from[] = { &peer->posted, &peer->control, &peer->waiting };

	hm_list_init(&control);
	hm_list_init(&waiting);
	for (int i = 0; i < 3; i++) {
		while (!hm_list_empty(from[i])) {
			struct verbs_op *op = hm_list_entry(from[i]->next, struct verbs_op, link);
			enum hmreg_error why = op->started ? judge(op, how) : op->why;

			hm_list_del(&op->link);
			op->flushed = false;
			if (why != HMREG_OK)
				verbs_op_fail(ep, op, why);
			else
				hm_list_add_tail(op->control ? &control : &waiting, &op->link);
		}
	}
	while (!hm_list_empty(&control)) {
		struct hm_list *link = control.next;

		hm_list_del(link);
		hm_list_add_tail(&peer->control, link);
	}
	while (!hm_list_empty(&waiting)) {
		struct hm_list *link = waiting.next;

		hm_list_del(link);
		hm_list_add_tail(&peer->waiting, link);
	}
}

/* Messages that arrived there and were not received: nobody will. */
static void fail_unreceived(struct verbs_ep *ep, struct verbs_peer *peer)
{
	while (!hm_list_empty(&peer->unanswered)) {
		struct verbs_op *op = hm_list_entry(peer->unanswered.next, struct verbs_op, link);

		hm_list_del(&op->link);
		verbs_op_finish(ep, op, HMREG_PEER_GONE);
	}
}

void verbs_conn_drained(struct verbs_conn *conn)
{
	struct verbs_ep *ep = conn->ep;
	struct verbs_peer *peer = conn->peer;
	enum verbs_break how = conn->broken;

	verbs_conn_bury(conn);
	hm_list_del(&peer->starved);
	take_back(ep, peer, how);
	if (how == VERBS_BREAK_LOST)
		fail_list(ep, &peer->unanswered, HMREG_PEER_LOST);
	else if (how == VERBS_BREAK_GONE)
		fail_unreceived(ep, peer);
	if (peer->cut != 0)
		verbs_op_tell_cut(ep, peer);
	if (has_work(peer))
		verbs_conn_open(ep, peer);
}

void verbs_conn_break(struct verbs_conn *conn, enum verbs_break how)
{
	if (conn->state == VERBS_CONN_DEAD || conn->state == VERBS_CONN_DRAINING)
		return;
	if (conn->passive) {
		verbs_qp_error(conn);
		verbs_conn_bury(conn);
		return;
	}
	conn->broken = how;
	if (conn->state != VERBS_CONN_READY) {
		verbs_conn_bury(conn);
		return;
	}
	conn->state = VERBS_CONN_DRAINING;
	verbs_qp_error(conn);
	if (conn->used == 0)
		verbs_conn_drained(conn);
}

/* ---- beginnings ---- */

/* Attempts after the first come after a pause, which is longer each time. */
static void set_start(struct verbs_peer *peer, struct verbs_conn *conn)
{
	uint64_t now = verbs_now_ms(), most = verbs_retry_ms() / 8;
	uint64_t pause = (uint64_t)peer->attempts * VERBS_TICK_MS;

	conn->start = now + (pause < most ? pause : most);
	peer->attempts++;
}

void verbs_conn_open(struct verbs_ep *ep, struct verbs_peer *peer)
{
	struct verbs_conn *conn;

	if (peer->conn || ep->gone || ep->closing)
		return;
	conn = calloc(1, sizeof(*conn));
	if (!conn) {
		HM_WARN(FI_LOG_EP_CTRL, "no memory for a connection");
		verbs_peer_fail(ep, peer, HMREG_TRANSPORT);
		return;
	}
	conn->ep = ep;
	conn->peer = peer;
	conn->lane = peer->lane;
	conn->state = VERBS_CONN_NEW;
	set_start(peer, conn);
	hm_list_init(&conn->by_qp);
	hm_list_init(&conn->probing);
	hm_list_add_tail(&ep->connecting, &conn->link);
	peer->conn = conn;
	verbs_progress_wake(ep);
}
