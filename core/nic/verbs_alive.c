/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the peers that have connected are still there.
 *
 * A process that ends, however it ends, is told of by the kernel: its connections are closed.  A host that
 * goes silent is told of by nobody.  So where nothing has come for a while, an empty message is posted on
 * the connection, which the other NIC acknowledges or, after the retry time, does not.  Its process has no
 * part in that: one that is stopped, or does nothing, is not taken for dead.  The message lands in a receive
 * buffer for control frames and is dropped.
 *
 * A connection that has ended may be followed by another, over which the peer goes on with the message that
 * it had begun.  If none comes within the retry time, the receive that holds a part of it ends, and the peer
 * is told so if it does come back.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

#define BEATS_BEGUN 2 /* heartbeats without a sign of a peer that has begun a message */
#define BEATS_IDLE  8 /* of one that has not */

/* ---- connections ---- */

static bool is_due(const struct verbs_conn *conn, bool begun)
{
	return conn->state == VERBS_CONN_READY && hm_list_empty(&conn->probing) &&
	       conn->quiet >= (begun ? BEATS_BEGUN : BEATS_IDLE) &&
	       begun == (conn->peer->assembling != NULL);
}

static void probe(struct verbs_ep *ep, struct verbs_conn *conn)
{
	struct ibv_send_wr *bad, wr = { .wr_id = ++ep->probes << 2 | VERBS_ID_PROBE,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	int err = ibv_post_send(conn->qp, &wr, &bad);

	if (err == 0) {
		conn->probe = wr.wr_id;
		hm_list_add_tail(&ep->probing, &conn->probing);
		ep->probing_count++;
		return;
	}
	HM_INFO(FI_LOG_EP_CTRL, "a connection of peer 0x%lx takes no probe and ends: %s",
		(unsigned long)conn->peer->handle, strerror(err));
	verbs_conn_break(conn, VERBS_BREAK_LOST);
}

static void probe_silent(struct verbs_ep *ep, bool begun)
{
	hm_list_for_each_safe(link, &ep->passive)
	{
		struct verbs_conn *conn = hm_list_entry(link, struct verbs_conn, link);

		if (ep->probing_count >= VERBS_PROBES) /* the others' turn comes */
			return;
		if (is_due(conn, begun))
			probe(ep, conn);
	}
}

void verbs_alive_beat(struct verbs_ep *ep)
{
	if (ep->gone || ep->closing)
		return;
	hm_list_for_each(link, &ep->passive) hm_list_entry(link, struct verbs_conn, link)->quiet++;
	probe_silent(ep, true);
	probe_silent(ep, false);
}

void verbs_alive_forget(struct verbs_conn *conn)
{
	if (hm_list_empty(&conn->probing))
		return;
	hm_list_del(&conn->probing);
	conn->ep->probing_count--;
}

static struct verbs_conn *find(struct verbs_ep *ep, uint64_t probe)
{
	hm_list_for_each(link, &ep->probing)
	{
		struct verbs_conn *conn = hm_list_entry(link, struct verbs_conn, probing);

		if (conn->probe == probe)
			return conn;
	}
	return NULL;
}

void verbs_alive_answered(struct verbs_ep *ep, const struct ibv_wc *wc)
{
	struct verbs_conn *conn = find(ep, wc->wr_id);
	struct verbs_peer *peer;

	if (!conn) /* the connection is no more */
		return;
	verbs_alive_forget(conn);
	if (wc->status == IBV_WC_SUCCESS)
		conn->quiet = 0;
	if (wc->status == IBV_WC_SUCCESS || conn->state != VERBS_CONN_READY)
		return;
	peer = conn->peer;
	HM_INFO(FI_LOG_EP_CTRL, "peer 0x%lx is silent, its connection ends: %s",
		(unsigned long)peer->handle, verbs.wc_status_str(wc->status));
	verbs_conn_break(conn, VERBS_BREAK_LOST);
	if (wc->status == IBV_WC_RETRY_EXC_ERR) /* the retry time has passed by now */
		peer->absent_until = verbs_now_ms() + verbs_retry_ms() / 2;
}

/* ---- what they had begun ---- */

void verbs_alive_await(struct verbs_ep *ep, struct verbs_peer *peer)
{
	if (!peer->assembling && peer->held == 0)
		return;
	peer->absent_until = verbs_now_ms() + verbs_retry_ms();
	if (hm_list_empty(&peer->absent))
		hm_list_add_tail(&ep->absent, &peer->absent);
}

bool verbs_alive_absent(struct verbs_ep *ep)
{
	uint64_t now = verbs_now_ms();
	bool more = false;

	hm_list_for_each_safe(link, &ep->absent)
	{
		struct verbs_peer *peer = hm_list_entry(link, struct verbs_peer, absent);

		if (now < peer->absent_until) {
			more = true;
		} else if (peer->held == 0) {
			hm_list_del(link);
			verbs_msg_absent(ep, peer);
		} /* else no receive has a part of it: looked at again at the next heartbeat */
	}
	return more;
}
