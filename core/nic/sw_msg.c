/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the software NIC.  A send meets a posted receive or waits, copied, in the target's
 * queue; a receive meets a waiting message or waits.  Whoever comes second moves the bytes.
 */
#include <stdlib.h>

#include "core/base/params.h"
#include "core/nic/sw.h"

/* A message without a receive. */
struct sw_message {
	struct nic_message head;
	/* a sender that waits for delivery: its work request's answer */
	uint64_t src_serial;
	uint64_t comp_flags;
	void *context;
	bool deferred;
	char payload[];
};

static struct sw_message *sw_message_of(struct nic_message *head)
{
	return hm_container(head, struct sw_message, head);
}

/* ---- delivery ---- */

/*
 * Fill a receive that was taken off its queue, from src, and complete it (CQ room is reserved).
 * Returns what the sender is to hear.
 */
static enum hmreg_error deliver(struct nic_ep *ep, struct nic_posted *recv,
				const struct nic_message *msg, struct sw_cursor *src)
{
	struct nic_region *region[NIC_IOV_MAX];
	struct sw_piece piece[NIC_IOV_MAX];
	struct sw_cursor dst = { .piece = piece, .count = recv->count };
	size_t room = nic_posted_room(recv);
	enum hmreg_error why = nic_posted_acquire(ep, recv, region);

	for (size_t i = 0; why == HMREG_OK && i < recv->count; i++)
		why = sw_local_piece(ep->domain, recv->iov[i].iov_base, recv->iov[i].iov_len,
				     region[i], &piece[i]);
	if (why == HMREG_OK)
		why = sw_copy(&dst, src, msg->len < room ? msg->len : room);
	nic_posted_release(recv, region);
	return nic_posted_done(ep, recv, msg, why);
}

/* The same for a message that was copied. */
static enum hmreg_error deliver_copy(struct nic_ep *ep, struct nic_posted *recv,
				     struct sw_message *msg)
{
	struct sw_piece payload = sw_host_piece(msg->payload, msg->head.len);
	struct sw_cursor src = { .piece = &payload, .count = 1 };

	return deliver(ep, recv, &msg->head, &src);
}

/* Tell a sender that waited for delivery, if it still is there. */
static void answer_deferred(const struct sw_message *msg, enum hmreg_error why)
{
	struct nic_wr wr = { .op = NIC_OP_SEND,
			     .flags = msg->head.flags,
			     .comp_flags = msg->comp_flags,
			     .len = msg->head.len,
			     .context = msg->context };
	struct sw_ep *sender;

	if (!msg->deferred)
		return;
	sender = sw_port_acquire(msg->head.src_peer);
	if (!sender)
		return;
	if (sender->serial == msg->src_serial) {
		atomic_fetch_sub_explicit(&sender->deferred, 1, memory_order_relaxed);
		if (why == HMREG_OK)
			nic_succeed(&sender->ep, &wr);
		else
			nic_fail(&sender->ep, &wr, why);
	}
	sw_port_release(sender);
}

/* ---- sending ---- */

/* What a message takes of the memory for unexpected ones: an empty one is not for nothing. */
static size_t message_size(size_t len)
{
	return sizeof(struct sw_message) + len;
}

static struct nic_message message_head(struct sw_ep *sender, const struct nic_wr *wr, uint32_t key)
{
	return (struct nic_message){ .src_peer = SW_PEER(sender->number),
				     .src_key = key,
				     .flags = wr->flags,
				     .data = wr->data,
				     .len = wr->len,
				     .bytes = message_size(wr->len) };
}

/* Copy a message for the unexpected queue; *why is why it cannot be. */
static int make_message(struct sw_ep *sender, const struct nic_wr *wr,
			const struct nic_message *head, struct sw_cursor *src,
			enum hmreg_error *why, struct sw_message **out)
{
	struct sw_message *msg = malloc(message_size(wr->len));
	struct sw_piece payload;
	struct sw_cursor dst = { .piece = &payload, .count = 1 };

	if (!msg)
		return -FI_EAGAIN;
	*msg = (struct sw_message){ .head = *head,
				    .src_serial = sender->serial,
				    .comp_flags = wr->comp_flags,
				    .context = wr->context,
				    .deferred = wr->flags &
						(FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE) };
	payload = sw_host_piece(msg->payload, wr->len);
	*why = sw_copy(&dst, src, wr->len);
	if (*why != HMREG_OK) {
		free(msg);
		return 0;
	}
	*out = msg;
	return 0;
}

/* The receive for this message; or, with keep, leave it where there is none. */
static enum nic_met meet(struct sw_ep *target, struct nic_message *msg, bool keep,
			 struct nic_posted **recv)
{
	enum nic_met met;

	pthread_mutex_lock(&target->rx_lock);
	met = nic_match_arrive(&target->ep, &target->match, msg,
			       hm_param_size(HM_PARAM_SW_MAX_UNEXPECTED), recv);
	if (met == NIC_MET_NOBODY && keep)
		nic_match_keep(&target->match, msg);
	pthread_mutex_unlock(&target->rx_lock);
	return met;
}

/* Nobody waits for this message: leave it at the target.  *done: the sender is to be answered. */
static int send_unexpected(struct sw_ep *sender, struct sw_ep *target, const struct nic_wr *wr,
			   const struct nic_message *head, struct sw_cursor *src,
			   enum hmreg_error *why, bool *done)
{
	struct sw_message *msg = NULL;
	struct nic_posted *recv;
	bool deferred;
	int ret = make_message(sender, wr, head, src, why, &msg);

	*done = true;
	if (ret != 0 || *why != HMREG_OK)
		return ret;
	deferred = msg->deferred;
	if (deferred)
		atomic_fetch_add_explicit(&sender->deferred, 1, memory_order_relaxed);
	switch (meet(target, &msg->head, true, &recv)) {
	case NIC_MET_NOBODY: /* msg belongs to the target now */
		*done = !deferred;
		return 0;
	case NIC_MET_RECV: /* it has come meanwhile */
		*why = deliver_copy(&target->ep, recv, msg);
		break;
	case NIC_MET_FULL:
		ret = -FI_EAGAIN;
		break;
	}
	if (deferred)
		atomic_fetch_sub_explicit(&sender->deferred, 1, memory_order_relaxed);
	free(msg);
	return ret;
}

/*
 * Hand over a message that is allowed to; key is what both sides have in common, or 0.  *done: the sender's
 * answer is *why; else it comes later.
 */
static int hand_over(struct sw_ep *sender, struct sw_ep *target, const struct nic_wr *wr,
		     uint32_t key, enum hmreg_error *why, bool *done)
{
	struct sw_piece local[NIC_IOV_MAX];
	struct sw_cursor src = { .piece = local, .count = wr->local_count };
	struct nic_message head =
		message_head(sender, wr, key && target->ep.domain->av_keys ? key : 0);
	struct nic_posted *recv;
	enum nic_met met;

	*done = true;
	*why = HMREG_OK;
	if ((target->ep.caps & (FI_MSG | FI_RECV)) != (FI_MSG | FI_RECV)) {
		*why = HMREG_PEER_NO_CAP;
		return 0;
	}
	*why = sw_pieces(sender->ep.domain, wr->local, wr->local_count, local);
	/* before a receive of the peer is spent on it */
	if (*why == HMREG_OK && !sw_readable(local, wr->local_count))
		*why = HMREG_FAULT;
	if (*why != HMREG_OK)
		return 0;
	met = meet(target, &head, false, &recv);
	if (met == NIC_MET_FULL)
		return -FI_EAGAIN;
	if (met == NIC_MET_NOBODY)
		return send_unexpected(sender, target, wr, &head, &src, why, done);
	*why = deliver(&target->ep, recv, &head, &src);
	return 0;
}

ssize_t sw_send(struct nic_ep *ep, const struct nic_wr *wr)
{
	enum hmreg_error why = HMREG_PEER_GONE;
	struct sw_ep *target;
	bool done = true;
	uint32_t key;
	int ret = 0;

	if (ep->tx_cq && nic_cq_reserve(ep->tx_cq) != 0)
		return -FI_EAGAIN;
	target = sw_port_acquire(wr->peer);
	if (target) {
		why = sw_check_peer(ep, &target->ep, wr->peer, &key);
		if (why == HMREG_OK)
			ret = hand_over(sw_ep_of(ep), target, wr, key, &why, &done);
		sw_port_release(target);
	}
	if (ret != 0) {
		if (ep->tx_cq)
			nic_cq_unreserve(ep->tx_cq);
	} else if (done && why == HMREG_OK) {
		nic_succeed(ep, wr);
	} else if (done) {
		nic_fail(ep, wr, why);
	}
	return ret;
}

/* ---- receiving ---- */

ssize_t sw_post_recv(struct nic_ep *nic, const struct nic_recv *request)
{
	struct sw_ep *ep = sw_ep_of(nic);
	struct nic_posted *recv = nic_posted_make(request);
	struct nic_message *head = NULL;
	int ret;

	if (!recv)
		return -FI_ENOMEM;
	pthread_mutex_lock(&ep->rx_lock);
	ret = nic_match_post(nic, &ep->match, recv, &head);
	pthread_mutex_unlock(&ep->rx_lock);
	if (ret != 0) {
		nic_posted_free(nic, recv);
		return ret;
	}
	if (head) {
		struct sw_message *msg = sw_message_of(head);

		answer_deferred(msg, deliver_copy(nic, recv, msg));
		free(msg);
	}
	return 0;
}

ssize_t sw_cancel(struct nic_ep *nic, void *context)
{
	struct sw_ep *ep = sw_ep_of(nic);
	struct nic_posted *recv;
	int ret;

	pthread_mutex_lock(&ep->rx_lock);
	ret = nic_match_cancel(nic, &ep->match, context, &recv);
	pthread_mutex_unlock(&ep->rx_lock);
	if (ret == 0)
		nic_posted_drop(nic, recv, HMREG_CANCELED);
	return ret;
}

void sw_msg_flush(struct sw_ep *ep)
{
	nic_match_drop_posted(&ep->ep, &ep->match);
	hm_list_for_each_safe(link, &ep->match.unexpected)
	{
		struct sw_message *msg =
			sw_message_of(hm_list_entry(link, struct nic_message, link));

		hm_list_del(link);
		answer_deferred(msg, HMREG_PEER_GONE);
		free(msg);
	}
	/* completions that others owed to this endpoint will not come; their CQ room is free again */
	for (uint32_t n = atomic_exchange(&ep->deferred, 0); ep->ep.tx_cq && n > 0; n--)
		nic_cq_unreserve(ep->ep.tx_cq);
}
