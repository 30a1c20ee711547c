/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: what the transport and the application call; receive buffers that have to wait. */
#include <stdlib.h>

#include "core/base/guard.h"
#include "core/base/log.h"
#include "core/nic/verbs_msg.h"

/* ---- frames ---- */

static bool is_message(const struct verbs_frame *frame)
{
	return (frame->type == VERBS_FRAME_MESSAGE || frame->type == VERBS_FRAME_MORE) &&
	       frame->length <= VERBS_FRAME;
}

void verbs_msg_arrived(struct verbs_ep *ep, struct verbs_peer *peer, struct verbs_rx *rx)
{
	rx->peer = peer;
	rx->last = false;
	if (!is_message(rx->frame)) {
		verbs_message_refuse(ep, peer, "it is no part of a message");
		verbs_rx_repost(ep, rx);
		return;
	}
	if (peer->held == 0 && verbs_message_frame(ep, peer, rx->frame)) {
		verbs_rx_repost(ep, rx);
		return;
	}
	hm_list_add_tail(&ep->msg->held, &rx->link);
	peer->held++;
}

/* ---- writes with data ---- */

static bool complete_write(struct verbs_ep *ep, const struct verbs_frame *frame)
{
	struct nic_cntr *cntr = ep->ep.cntr[NIC_CNTR_REMOTE_WRITE];

	if (ep->ep.rx_cq) { /* else nobody wants to see the data */
		struct nic_comp comp = { .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
					 .len = frame->total,
					 .data = frame->data,
					 .src_addr = FI_ADDR_NOTAVAIL };

		if (nic_cq_reserve(ep->ep.rx_cq) != 0)
			return false;
		nic_cq_push(ep->ep.rx_cq, &comp);
	}
	if (cntr)
		nic_cntr_done(cntr, frame->total);
	return true;
}

void verbs_msg_write_data(struct verbs_ep *ep, struct verbs_peer *peer, struct verbs_rx *rx,
			  uint32_t data, size_t len)
{
	rx->peer = peer;
	rx->last = false;
	*rx->frame =
		(struct verbs_frame){ .type = VERBS_FRAME_WRITTEN, .total = len, .data = data };
	/* not behind held messages, which it does not depend on */
	if (complete_write(ep, rx->frame))
		verbs_rx_repost(ep, rx);
	else
		hm_list_add_tail(&ep->msg->held, &rx->link);
}

/* ---- what had to wait ---- */

/* Can this held buffer go on?  In one pass nothing of a peer overtakes what has to stay. */
static bool release_held(struct verbs_ep *ep, struct verbs_rx *rx)
{
	struct verbs_peer *peer = rx->peer;

	if (rx->frame->type == VERBS_FRAME_WRITTEN)
		return complete_write(ep, rx->frame);
	if (peer->stuck_pass == ep->msg->pass)
		return false;
	if (!verbs_message_frame(ep, peer, rx->frame)) {
		peer->stuck_pass = ep->msg->pass;
		return false;
	}
	peer->held--;
	if (rx->last)
		verbs_message_give_up(ep, peer,
				      ep->msg->gone ? HMREG_DEVICE_GONE : HMREG_PEER_LOST);
	return true;
}

/* The device will bring nothing more: end receives as far as there is room. */
static void end_posted(struct verbs_ep *ep)
{
	struct nic_match *match = &ep->msg->match;

	while (!hm_list_empty(&match->posted)) {
		struct nic_posted *recv =
			hm_list_entry(match->posted.next, struct nic_posted, link);

		if (nic_match_cancel(&ep->ep, match, recv->context, &recv) != 0)
			return;
		nic_posted_drop(&ep->ep, recv, HMREG_DEVICE_GONE);
	}
}

void verbs_msg_retry(struct verbs_ep *ep)
{
	struct verbs_msg *m = ep->msg;

	verbs_message_retry_answers(ep);
	verbs_keys_retry(ep);
	if (!hm_list_empty(&m->held)) {
		m->pass++;
		hm_list_for_each_safe(link, &m->held)
		{
			struct verbs_rx *rx = hm_list_entry(link, struct verbs_rx, link);

			if (!release_held(ep, rx))
				continue;
			hm_list_del(link);
			verbs_rx_repost(ep, rx);
		}
	}
	if (m->gone)
		end_posted(ep);
}

static struct verbs_peer *peer_of(struct hm_list *link)
{
	return hm_list_entry(link, struct verbs_peer, link);
}

/*
 * Nothing more comes of what the peer has begun.  What is complete in held buffers is delivered when it
 * can be, but not answered: the operations behind it are not known any more, and their numbers may be
 * those of others.
 */
static void end_of(struct verbs_ep *ep, struct verbs_peer *peer, enum hmreg_error why)
{
	struct verbs_rx *last = NULL;

	if (peer->assembling)
		peer->assembling->wants_answer = false;
	hm_list_for_each(link, &ep->msg->held)
	{
		struct verbs_rx *rx = hm_list_entry(link, struct verbs_rx, link);

		if (rx->peer != peer || rx->frame->type == VERBS_FRAME_WRITTEN)
			continue;
		rx->frame->flags &= (uint8_t)~VERBS_FRAME_WANTS_ANSWER;
		last = rx;
	}
	if (last)
		last->last = true;
	else
		verbs_message_give_up(ep, peer, why);
}

void verbs_msg_device_gone(struct verbs_ep *ep)
{
	ep->msg->gone = true;
	verbs_msg_retry(ep);
	for (size_t i = 0; i < sizeof(ep->peers) / sizeof(ep->peers[0]); i++)
		hm_list_for_each(link, &ep->peers[i]) end_of(ep, peer_of(link), HMREG_DEVICE_GONE);
}

void verbs_msg_peer_reset(struct verbs_ep *ep, struct verbs_peer *peer)
{
	struct verbs_msg *m = ep->msg;

	hm_list_for_each_safe(link, &m->answers)
	{
		if (verbs_message_of(link)->peer == peer)
			verbs_message_drop_answer(m, verbs_message_of(link));
	}
	hm_list_for_each(link, &m->match.unexpected)
	{
		if (verbs_message_of(link)->peer == peer)
			verbs_message_of(link)->wants_answer = false;
	}
	end_of(ep, peer, HMREG_PEER_LOST);
}

void verbs_msg_cut(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t id)
{
	peer->its_cut = id;
	if (peer->assembling && peer->assembling->id == id)
		verbs_message_give_up(ep, peer, HMREG_TRANSPORT);
}

void verbs_msg_absent(struct verbs_ep *ep, struct verbs_peer *peer)
{
	if (peer->assembling)
		peer->given_up = peer->assembling->id;
	verbs_message_give_up(ep, peer, HMREG_PEER_LOST);
}

/* ---- the application's calls ---- */

/* Does the processor, or an accelerator's driver, reach what is behind the region? */
static bool can_be_filled(const struct nic_region *region)
{
	return !(verbs_region_of(region)->flags & VERBS_REGION_DMABUF) ||
	       (region->ext && region->ext->path);
}

/* The NIC delivers messages to host memory: a caller's dma-buf may be out of reach from there. */
static int check_buffers(struct nic_ep *ep, const struct nic_recv *request)
{
	for (size_t i = 0; request->desc && i < request->count; i++) {
		struct hm_key_node *node;
		bool fits;

		if (!request->desc[i])
			continue;
		node = hm_key_acquire(ep->domain->regions, (uintptr_t)request->desc[i]);
		if (!node) /* closed: told at delivery, like one that is closed later */
			continue;
		fits = can_be_filled(nic_region_of(node));
		hm_key_release(node);
		if (!fits) {
			HM_WARN(FI_LOG_EP_DATA,
				"buffer %zu of a receive is registered dma-buf memory, which "
				"messages cannot be received into: use RMA, or receive into host "
				"memory",
				i);
			return -FI_EOPNOTSUPP;
		}
	}
	return 0;
}

ssize_t verbs_post_recv(struct nic_ep *nic, const struct nic_recv *request)
{
	struct verbs_ep *ep = verbs_ep_of(nic);
	int ret = check_buffers(nic, request);
	struct nic_message *head = NULL;
	struct nic_posted *recv;

	if (ret != 0)
		return ret;
	recv = nic_posted_make(request);
	if (!recv)
		return -FI_ENOMEM;
	pthread_mutex_lock(&ep->lock);
	ret = nic_match_post(nic, &ep->msg->match, recv, &head);
	if (head)
		verbs_message_take_over(ep, hm_container(head, struct verbs_message, head), recv);
	if (ret == 0) /* it made room, or is what a held message waits for */
		verbs_msg_retry(ep);
	pthread_mutex_unlock(&ep->lock);
	if (ret != 0)
		nic_posted_free(nic, recv);
	return ret;
}

ssize_t verbs_cancel(struct nic_ep *nic, void *context)
{
	struct verbs_ep *ep = verbs_ep_of(nic);
	struct nic_posted *recv;
	int ret;

	pthread_mutex_lock(&ep->lock);
	ret = nic_match_cancel(nic, &ep->msg->match, context, &recv);
	pthread_mutex_unlock(&ep->lock);
	if (ret == 0)
		nic_posted_drop(nic, recv, HMREG_CANCELED);
	return ret;
}

/* ---- set-up ---- */

int verbs_msg_init(struct verbs_ep *ep)
{
	struct verbs_msg *m = calloc(1, sizeof(*m));

	if (!m) {
		HM_WARN(FI_LOG_EP_CTRL, "no memory for the message queues of an endpoint");
		return -FI_ENOMEM;
	}
	hm_guard_install(); /* receive buffers may be unmapped */
	nic_match_init(&m->match);
	hm_list_init(&m->held);
	hm_list_init(&m->answers);
	hm_list_init(&ep->key_queries);
	hm_list_init(&ep->key_answers);
	ep->msg = m;
	return 0;
}

/* Frees a message that does not complete; the room for its completion is free again. */
static void drop_message(struct verbs_ep *ep, struct verbs_message *msg)
{
	if (msg->recv && ep->ep.rx_cq)
		nic_cq_unreserve(ep->ep.rx_cq);
	nic_posted_free(&ep->ep, msg->recv);
	verbs_message_free(msg);
}

void verbs_msg_destroy(struct verbs_ep *ep)
{
	struct verbs_msg *m = ep->msg;

	if (!m)
		return;
	for (size_t i = 0; i < sizeof(ep->peers) / sizeof(ep->peers[0]); i++) {
		hm_list_for_each(link, &ep->peers[i])
		{
			struct verbs_message *msg = peer_of(link)->assembling;

			peer_of(link)->assembling = NULL;
			if (msg && !msg->unexpected)
				drop_message(ep, msg);
		}
	}
	hm_list_for_each_safe(link, &m->match.unexpected)
	{
		hm_list_del(link);
		drop_message(ep, verbs_message_of(link));
	}
	hm_list_for_each_safe(link, &m->answers)
		verbs_message_drop_answer(m, verbs_message_of(link));
	nic_match_drop_posted(&ep->ep, &m->match);
	ep->msg = NULL;
	free(m);
}
