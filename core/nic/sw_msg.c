/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the software NIC.  A send meets a posted receive or waits, copied, in the target's
 * queue; a receive meets a waiting message or waits.  Whoever comes second moves the bytes.
 * Queues are in order of arrival, so messages of one sender are received in the order sent.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "core/nic/sw.h"

/* A posted receive.  desc are handles, looked up when the message is there. */
struct sw_recv {
	struct hm_list link;
	uint64_t src_peer, flags;
	void *context;
	size_t count;
	void *desc[NIC_IOV_MAX];
	struct iovec iov[NIC_IOV_MAX];
};

/* A message without a receive, or the head of one on its way. */
struct sw_message {
	struct hm_list link;
	uint64_t src_peer, flags, data;
	size_t len;
	/* a sender that waits for delivery: its work request's answer */
	uint64_t src_serial;
	uint64_t comp_flags;
	void *context;
	bool deferred;
	char payload[];
};

static bool matches(const struct sw_recv *recv, uint64_t src_peer)
{
	return recv->src_peer == 0 || recv->src_peer == src_peer;
}

/* The first posted receive for this source, or NULL.  rx_lock held. */
static struct sw_recv *find_posted(struct sw_ep *ep, uint64_t src_peer)
{
	hm_list_for_each(link, &ep->posted)
	{
		struct sw_recv *recv = hm_list_entry(link, struct sw_recv, link);

		if (matches(recv, src_peer))
			return recv;
	}
	return NULL;
}

static bool wants_completion(const struct nic_ep *ep, const struct sw_recv *recv)
{
	return !ep->rx_selective || (recv->flags & FI_COMPLETION);
}

/* ---- delivery ---- */

/* Reference the regions that desc name; the buffers were checked when they were posted. */
static enum hmreg_error acquire_buffers(struct nic_ep *ep, const struct sw_recv *recv,
					struct nic_region **region)
{
	for (size_t i = 0; i < recv->count; i++) {
		struct hm_key_node *node;

		region[i] = NULL;
		if (!recv->desc[i])
			continue;
		node = hm_key_acquire(ep->domain->regions, (uintptr_t)recv->desc[i]);
		if (!node)
			return HMREG_LOCAL_REGION;
		region[i] = nic_region_of(node);
	}
	return HMREG_OK;
}

static void complete_recv(struct nic_ep *ep, const struct sw_recv *recv,
			  const struct sw_message *msg, size_t copied, enum hmreg_error why)
{
	struct nic_cntr *cntr = ep->cntr[NIC_CNTR_RECV];
	struct nic_comp comp = { .op_context = recv->context,
				 .flags = FI_MSG | FI_RECV | (msg->flags & FI_REMOTE_CQ_DATA),
				 .len = copied,
				 .buf = recv->count ? recv->iov[0].iov_base : NULL,
				 .data = msg->data,
				 .src_addr = FI_ADDR_NOTAVAIL };

	if (ep->rx_cq) {
		if (why == HMREG_OK && !wants_completion(ep, recv)) {
			nic_cq_unreserve(ep->rx_cq);
		} else {
			if ((ep->caps & FI_SOURCE) && ep->av)
				comp.src_addr = nic_av_reverse(ep->av, msg->src_peer);
			if (why != HMREG_OK) {
				comp.err = sw_error_code(why);
				comp.prov_errno = (int)why;
				comp.olen = msg->len - copied;
			}
			nic_cq_push(ep->rx_cq, &comp);
		}
	}
	if (cntr && why == HMREG_OK)
		nic_cntr_done(cntr, copied);
	else if (cntr)
		nic_cntr_failed(cntr);
}

/*
 * Fill a receive that was taken off its queue, from src, and complete it (CQ room is reserved).
 * Returns what the sender is to hear: a message cut short is the receiver's problem alone.
 */
static enum hmreg_error deliver(struct nic_ep *ep, struct sw_recv *recv,
				const struct sw_message *msg, struct sw_cursor *src)
{
	struct nic_region *region[NIC_IOV_MAX] = { NULL };
	struct sw_cursor dst = { .iov = recv->iov, .count = recv->count };
	size_t room = 0, copied;
	enum hmreg_error why = acquire_buffers(ep, recv, region);

	for (size_t i = 0; i < recv->count; i++)
		room += recv->iov[i].iov_len;
	copied = msg->len < room ? msg->len : room;
	if (why == HMREG_OK && sw_copy(&dst, src, copied) != 0)
		why = HMREG_FAULT;
	if (why != HMREG_OK)
		copied = 0;
	for (size_t i = 0; i < recv->count; i++)
		nic_local_release(region[i]);
	if (why == HMREG_OK && copied < msg->len)
		why = HMREG_TRUNCATED;
	complete_recv(ep, recv, msg, copied, why);
	free(recv);
	if (why == HMREG_LOCAL_REGION)
		return HMREG_PEER_REGION;
	return why == HMREG_TRUNCATED ? HMREG_OK : why;
}

/* The same for a message that was copied. */
static enum hmreg_error deliver_copy(struct nic_ep *ep, struct sw_recv *recv,
				     struct sw_message *msg)
{
	struct iovec payload = { msg->payload, msg->len };
	struct sw_cursor src = { .iov = &payload, .count = 1 };

	return deliver(ep, recv, msg, &src);
}

/* Tell a sender that waited for delivery, if it still is there. */
static void answer_deferred(const struct sw_message *msg, enum hmreg_error why)
{
	struct nic_wr wr = { .op = NIC_OP_SEND,
			     .flags = msg->flags,
			     .comp_flags = msg->comp_flags,
			     .len = msg->len,
			     .context = msg->context };
	struct sw_ep *sender;

	if (!msg->deferred)
		return;
	sender = sw_port_acquire(msg->src_peer);
	if (!sender)
		return;
	if (sender->serial == msg->src_serial) {
		atomic_fetch_sub_explicit(&sender->deferred, 1, memory_order_relaxed);
		if (why == HMREG_OK)
			sw_succeed(&sender->ep, &wr);
		else
			sw_fail(&sender->ep, &wr, why);
	}
	sw_port_release(sender);
}

/* ---- sending ---- */

/* Copy a message for the unexpected queue. */
static int make_message(struct sw_ep *sender, const struct nic_wr *wr, struct sw_cursor *src,
			struct sw_message **out)
{
	struct sw_message *msg = malloc(sizeof(*msg) + wr->len);
	struct iovec payload;
	struct sw_cursor dst = { .iov = &payload, .count = 1 };

	if (!msg)
		return -FI_EAGAIN;
	*msg = (struct sw_message){ .src_peer = SW_PEER(sender->number),
				    .flags = wr->flags,
				    .data = wr->data,
				    .len = wr->len,
				    .src_serial = sender->serial,
				    .comp_flags = wr->comp_flags,
				    .context = wr->context,
				    .deferred = wr->flags &
						(FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE) };
	payload = (struct iovec){ msg->payload, wr->len };
	if (sw_copy(&dst, src, wr->len) != 0) {
		free(msg);
		return -FI_EFAULT;
	}
	*out = msg;
	return 0;
}

/* What a message takes of the memory for unexpected ones: an empty one is not for nothing. */
static size_t message_size(size_t len)
{
	return sizeof(struct sw_message) + len;
}

/* Is there memory for another unexpected message?  rx_lock held. */
static bool has_room(const struct sw_ep *ep, size_t len)
{
	size_t limit = hm_param_size(HM_PARAM_SW_MAX_UNEXPECTED), size = message_size(len);

	return size <= limit && ep->unexpected_bytes <= limit - size;
}

enum met {
	MET_NOBODY,
	MET_RECV,
	MET_FULL
};

/*
 * Take the receive that this message belongs to, with CQ room; without one there is memory for the
 * message.  rx_lock held.
 */
static enum met meet(struct sw_ep *target, const struct sw_message *msg, struct sw_recv **recv)
{
	*recv = find_posted(target, msg->src_peer);
	if (!*recv)
		return has_room(target, msg->len) ? MET_NOBODY : MET_FULL;
	if (target->ep.rx_cq && nic_cq_reserve(target->ep.rx_cq) != 0)
		return MET_FULL;
	hm_list_del(&(*recv)->link);
	target->posted_count--;
	return MET_RECV;
}

/* Queue msg, unless a receive has come meanwhile. */
static enum met queue_or_meet(struct sw_ep *target, struct sw_message *msg, struct sw_recv **recv)
{
	enum met met;

	pthread_mutex_lock(&target->rx_lock);
	met = meet(target, msg, recv);
	if (met == MET_NOBODY) {
		target->unexpected_bytes += message_size(msg->len);
		hm_list_add_tail(&target->unexpected, &msg->link);
	}
	pthread_mutex_unlock(&target->rx_lock);
	return met;
}

/* Nobody waits for this message: leave it at the target.  *done: the sender is to be answered. */
static int send_unexpected(struct sw_ep *sender, struct sw_ep *target, const struct nic_wr *wr,
			   struct sw_cursor *src, enum hmreg_error *why, bool *done)
{
	struct sw_message *msg = NULL;
	struct sw_recv *recv;
	bool deferred;
	int ret = make_message(sender, wr, src, &msg);

	*done = true;
	if (ret == -FI_EFAULT)
		*why = HMREG_FAULT;
	if (ret != 0)
		return ret == -FI_EFAULT ? 0 : ret;
	deferred = msg->deferred;
	if (deferred)
		atomic_fetch_add_explicit(&sender->deferred, 1, memory_order_relaxed);
	switch (queue_or_meet(target, msg, &recv)) {
	case MET_NOBODY: /* msg belongs to the target now */
		*done = !deferred;
		return 0;
	case MET_RECV:
		*why = deliver_copy(&target->ep, recv, msg);
		break;
	case MET_FULL:
		ret = -FI_EAGAIN;
		break;
	}
	if (deferred)
		atomic_fetch_sub_explicit(&sender->deferred, 1, memory_order_relaxed);
	free(msg);
	return ret;
}

/* Hand the message over.  *done: the sender's answer is *why; else it comes later. */
static int hand_over(struct sw_ep *sender, struct sw_ep *target, const struct nic_wr *wr,
		     enum hmreg_error *why, bool *done)
{
	struct iovec local[NIC_IOV_MAX];
	struct sw_cursor src = { .iov = local, .count = wr->local_count };
	struct sw_message head = { .src_peer = SW_PEER(sender->number),
				   .flags = wr->flags,
				   .data = wr->data,
				   .len = wr->len };
	struct sw_recv *recv;
	enum met met;

	*done = true;
	*why = HMREG_OK;
	if ((target->ep.caps & (FI_MSG | FI_RECV)) != (FI_MSG | FI_RECV)) {
		*why = HMREG_PEER_NO_CAP;
		return 0;
	}
	sw_pieces(wr->local, wr->local_count, local);
	if (!sw_readable(local,
			 wr->local_count)) { /* before a receive of the peer is spent on it */
		*why = HMREG_FAULT;
		return 0;
	}
	pthread_mutex_lock(&target->rx_lock);
	met = meet(target, &head, &recv);
	pthread_mutex_unlock(&target->rx_lock);
	if (met == MET_FULL)
		return -FI_EAGAIN;
	if (met == MET_NOBODY)
		return send_unexpected(sender, target, wr, &src, why, done);
	*why = deliver(&target->ep, recv, &head, &src);
	return 0;
}

ssize_t sw_send(struct nic_ep *ep, const struct nic_wr *wr)
{
	enum hmreg_error why = HMREG_PEER_GONE;
	struct sw_ep *target;
	bool done = true;
	int ret = 0;

	if (ep->tx_cq && nic_cq_reserve(ep->tx_cq) != 0)
		return -FI_EAGAIN;
	target = sw_port_acquire(wr->peer);
	if (target) {
		ret = hand_over(sw_ep_of(ep), target, wr, &why, &done);
		sw_port_release(target);
	}
	if (ret != 0) {
		if (ep->tx_cq)
			nic_cq_unreserve(ep->tx_cq);
	} else if (done && why == HMREG_OK) {
		sw_succeed(ep, wr);
	} else if (done) {
		sw_fail(ep, wr, why);
	}
	return ret;
}

/* ---- receiving ---- */

static struct sw_recv *make_recv(const struct nic_recv *from)
{
	struct sw_recv *recv = malloc(sizeof(*recv));

	if (!recv)
		return NULL;
	recv->src_peer = from->src_peer;
	recv->flags = from->flags;
	recv->context = from->context;
	recv->count = from->count;
	for (size_t i = 0; i < from->count; i++) {
		recv->iov[i] = from->iov[i];
		recv->desc[i] = from->desc ? from->desc[i] : NULL;
	}
	return recv;
}

/* The first waiting message for this receive, or NULL.  rx_lock held. */
static struct sw_message *find_unexpected(struct sw_ep *ep, const struct sw_recv *recv)
{
	hm_list_for_each(link, &ep->unexpected)
	{
		struct sw_message *msg = hm_list_entry(link, struct sw_message, link);

		if (matches(recv, msg->src_peer))
			return msg;
	}
	return NULL;
}

/* Take a waiting message with CQ room, or queue recv.  -FI_EAGAIN: no room, recv not taken. */
static int take_or_queue(struct sw_ep *ep, struct sw_recv *recv, struct sw_message **msg)
{
	int ret = 0;

	pthread_mutex_lock(&ep->rx_lock);
	*msg = find_unexpected(ep, recv);
	if (*msg) {
		if (ep->ep.rx_cq && nic_cq_reserve(ep->ep.rx_cq) != 0) {
			ret = -FI_EAGAIN;
		} else {
			hm_list_del(&(*msg)->link);
			ep->unexpected_bytes -= message_size((*msg)->len);
		}
	} else if (ep->posted_count >= ep->ep.rx_size) {
		ret = -FI_EAGAIN;
	} else {
		hm_list_add_tail(&ep->posted, &recv->link);
		ep->posted_count++;
	}
	pthread_mutex_unlock(&ep->rx_lock);
	return ret;
}

ssize_t sw_post_recv(struct nic_ep *nic, const struct nic_recv *request)
{
	struct sw_ep *ep = sw_ep_of(nic);
	struct sw_recv *recv = make_recv(request);
	struct sw_message *msg;
	int ret;

	if (!recv) {
		HM_WARN(FI_LOG_EP_DATA, "no memory to post a receive");
		return -FI_ENOMEM;
	}
	ret = take_or_queue(ep, recv, &msg);
	if (ret != 0) {
		free(recv);
		return ret;
	}
	if (msg) {
		answer_deferred(msg, deliver_copy(nic, recv, msg));
		free(msg);
	}
	return 0;
}

ssize_t sw_cancel(struct nic_ep *nic, void *context)
{
	struct sw_ep *ep = sw_ep_of(nic);
	struct sw_message none = { .len = 0 };
	struct sw_recv *found = NULL;
	int ret = -FI_ENOENT;

	pthread_mutex_lock(&ep->rx_lock);
	hm_list_for_each(link, &ep->posted)
	{
		struct sw_recv *recv = hm_list_entry(link, struct sw_recv, link);

		if (recv->context != context)
			continue;
		ret = nic->rx_cq ? nic_cq_reserve(nic->rx_cq) : 0;
		if (ret == 0) {
			found = recv;
			hm_list_del(&recv->link);
			ep->posted_count--;
		}
		break;
	}
	pthread_mutex_unlock(&ep->rx_lock);
	if (found) {
		complete_recv(nic, found, &none, 0, HMREG_CANCELED);
		free(found);
	}
	return ret;
}

void sw_msg_flush(struct sw_ep *ep)
{
	hm_list_for_each_safe(link, &ep->posted)
	{
		hm_list_del(link);
		free(hm_list_entry(link, struct sw_recv, link));
	}
	hm_list_for_each_safe(link, &ep->unexpected)
	{
		struct sw_message *msg = hm_list_entry(link, struct sw_message, link);

		hm_list_del(link);
		answer_deferred(msg, HMREG_PEER_GONE);
		free(msg);
	}
	/* completions that others owed to this endpoint will not come; their CQ room is free again */
	for (uint32_t n = atomic_exchange(&ep->deferred, 0); ep->ep.tx_cq && n > 0; n--)
		nic_cq_unreserve(ep->ep.tx_cq);
}
