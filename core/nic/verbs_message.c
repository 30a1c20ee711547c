/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames -> messages -> receives, and the answers that some senders wait for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "core/nic/verbs_msg.h"

#define MAX_ANSWERS 256 /* that wait for a slot; after that frames which want one are held */

/* Payload of an unexpected message, behind that of its first frame. */
struct piece {
	struct hm_list link;
	size_t len;
	char bytes[];
};

static void free_pieces(struct verbs_message *msg)
{
	hm_list_for_each_safe(link, &msg->pieces)
	{
		hm_list_del(link);
		free(hm_list_entry(link, struct piece, link));
	}
}

void verbs_message_free(struct verbs_message *msg)
{
	free_pieces(msg);
	free(msg);
}

void verbs_message_refuse(struct verbs_ep *ep, const struct verbs_peer *peer, const char *what)
{
	uint64_t n = ++ep->msg->refused;

	if ((n & (n - 1)) == 0)
		HM_WARN(FI_LOG_EP_DATA,
			"dropped a frame of peer 0x%" PRIx64 ": %s (%" PRIu64
			" such frames so far)",
			peer->handle, what, n);
}

/* ---- answers ---- */

static int send_answer(struct verbs_ep *ep, const struct verbs_message *msg)
{
	const struct verbs_frame frame = { .type = VERBS_FRAME_RECEIVED,
					   .status = (uint16_t)msg->why,
					   .id = msg->id };
	int ret = verbs_control_send(ep, msg->peer->handle, &frame, NULL);

	return ret == -FI_ENOMEM ? -FI_EAGAIN : ret;
}

/* The message is over; tell its sender if it waits for that.  Takes msg, which is in no list. */
static void answer(struct verbs_ep *ep, struct verbs_message *msg, enum hmreg_error why)
{
	msg->why = why;
	if (!msg->wants_answer ||
	    (hm_list_empty(&ep->msg->answers) && send_answer(ep, msg) != -FI_EAGAIN)) {
		verbs_message_free(msg);
		return;
	}
	free_pieces(msg);
	hm_list_add_tail(&ep->msg->answers, &msg->head.link);
	ep->msg->answer_count++;
}

void verbs_message_drop_answer(struct verbs_msg *m, struct verbs_message *msg)
{
	hm_list_del(&msg->head.link);
	m->answer_count--;
	verbs_message_free(msg);
}

void verbs_message_retry_answers(struct verbs_ep *ep)
{
	struct verbs_msg *m = ep->msg;

	while (!hm_list_empty(&m->answers)) {
		struct verbs_message *msg = verbs_message_of(m->answers.next);

		if (send_answer(ep, msg) == -FI_EAGAIN)
			return;
		verbs_message_drop_answer(m, msg);
	}
}

/* ---- delivery ---- */

/* Copy what fits of a message's bytes at offset into the receive's buffers. */
static enum hmreg_error put(struct verbs_ep *ep, const struct nic_posted *recv, size_t offset,
			    const char *from, size_t len)
{
	struct nic_region *region[NIC_IOV_MAX];
	enum hmreg_error why = nic_posted_acquire(&ep->ep, recv, region);

	for (size_t i = 0; i < recv->count && len > 0 && why == HMREG_OK; i++) {
		const struct iovec *iov = &recv->iov[i];
		size_t n;

		if (offset >= iov->iov_len) {
			offset -= iov->iov_len;
			continue;
		}
		n = len < iov->iov_len - offset ? len : iov->iov_len - offset;
		why = verbs_copied(
			nic_to_app(&ep->vd->domain, (char *)iov->iov_base + offset, from, n));
		from += n;
		len -= n;
		offset = 0;
	}
	nic_posted_release(recv, region);
	return why;
}

/* The next bytes of a message that has its receive.  After a failure the rest is only counted. */
static void put_next(struct verbs_ep *ep, struct verbs_message *msg, size_t offset,
		     const char *from, size_t len)
{
	if (msg->recv && msg->why == HMREG_OK)
		msg->why = put(ep, msg->recv, offset, from, len);
}

/* Bytes have come: go on to the end, or wait for more. */
static void settle(struct verbs_ep *ep, struct verbs_message *msg)
{
	struct verbs_peer *peer = msg->peer;
	enum hmreg_error why = msg->why;

	if (msg->got < msg->head.len) {
		peer->assembling = msg;
		return;
	}
	if (peer->assembling == msg)
		peer->assembling = NULL;
	if (msg->unexpected)
		return;
	if (msg->recv)
		why = nic_posted_done(&ep->ep, msg->recv, &msg->head, why);
	msg->recv = NULL;
	answer(ep, msg, why);
}

void verbs_message_give_up(struct verbs_ep *ep, struct verbs_peer *peer, enum hmreg_error why)
{
	struct verbs_message *msg = peer->assembling;

	if (!msg)
		return;
	peer->assembling = NULL;
	if (msg->unexpected) {
		hm_list_del(&msg->head.link);
		ep->msg->match.unexpected_bytes -= msg->head.bytes;
	} else if (msg->recv) {
		nic_posted_done(&ep->ep, msg->recv, &msg->head,
				msg->why != HMREG_OK ? msg->why : why);
	}
	verbs_message_free(msg);
}

void verbs_message_take_over(struct verbs_ep *ep, struct verbs_message *msg,
			     struct nic_posted *recv)
{
	size_t at = msg->first;

	msg->unexpected = false;
	msg->recv = recv;
	put_next(ep, msg, 0, msg->payload, msg->first);
	hm_list_for_each(link, &msg->pieces)
	{
		struct piece *piece = hm_list_entry(link, struct piece, link);

		put_next(ep, msg, at, piece->bytes, piece->len);
		at += piece->len;
	}
	free_pieces(msg);
	settle(ep, msg);
}

/* ---- frames; true: done with it, false: it has to be held ---- */

static const char *payload_of(const struct verbs_frame *frame)
{
	return (const char *)(frame + 1);
}

static struct verbs_message *make_message(struct verbs_peer *peer, const struct verbs_frame *frame,
					  const struct nic_message *head)
{
	struct verbs_message *msg = malloc(sizeof(*msg) + frame->length);

	if (!msg)
		return NULL;
	*msg = (struct verbs_message){ .head = *head,
				       .peer = peer,
				       .id = frame->id,
				       .wants_answer = frame->flags & VERBS_FRAME_WANTS_ANSWER,
				       .got = frame->length };
	hm_list_init(&msg->pieces);
	return msg;
}

/* Nobody waits for this message: keep it. */
static void keep(struct verbs_ep *ep, struct verbs_message *msg, const struct verbs_frame *frame)
{
	memcpy(msg->payload, payload_of(frame), frame->length);
	msg->first = frame->length;
	msg->unexpected = true;
	nic_match_keep(&ep->msg->match, &msg->head);
}

/* The most frequent case: a message of one frame, nobody asks what becomes of it. */
static bool deliver_simple(struct verbs_ep *ep, struct verbs_peer *peer,
			   const struct verbs_frame *frame, const struct nic_message *head)
{
	struct verbs_message *msg;
	struct nic_posted *recv;
	enum nic_met met = nic_match_arrive(&ep->ep, &ep->msg->match, head,
					    hm_param_size(HM_PARAM_VERBS_MAX_UNEXPECTED), &recv);

	if (met == NIC_MET_FULL)
		return false;
	if (met == NIC_MET_RECV) {
		nic_posted_done(&ep->ep, recv, head,
				put(ep, recv, 0, payload_of(frame), frame->length));
		return true;
	}
	msg = make_message(peer, frame, head);
	if (!msg)
		return false;
	keep(ep, msg, frame);
	return true;
}

/* One with frames to come, or whose sender waits for an answer: it must be remembered in any case. */
static bool deliver_remembered(struct verbs_ep *ep, struct verbs_peer *peer,
			       const struct verbs_frame *frame, const struct nic_message *head)
{
	struct verbs_msg *m = ep->msg;
	struct verbs_message *msg;
	enum nic_met met;

	if ((frame->flags & VERBS_FRAME_WANTS_ANSWER) && m->answer_count >= MAX_ANSWERS)
		return false;
	msg = make_message(peer, frame, head);
	if (!msg)
		return false;
	if ((ep->ep.caps & (FI_MSG | FI_RECV)) != (FI_MSG | FI_RECV)) {
		msg->why = HMREG_PEER_NO_CAP;
		settle(ep, msg);
		return true;
	}
	met = nic_match_arrive(&ep->ep, &m->match, head,
			       hm_param_size(HM_PARAM_VERBS_MAX_UNEXPECTED), &msg->recv);
	if (met == NIC_MET_FULL) {
		verbs_message_free(msg);
		return false;
	}
	if (met == NIC_MET_NOBODY)
		keep(ep, msg, frame);
	else
		put_next(ep, msg, 0, payload_of(frame), frame->length);
	settle(ep, msg);
	return true;
}

static bool start(struct verbs_ep *ep, struct verbs_peer *peer, const struct verbs_frame *frame)
{
	const struct nic_message head = { .src_peer = peer->handle,
					  .flags = frame->flags & VERBS_FRAME_DATA
							   ? FI_REMOTE_CQ_DATA
							   : 0,
					  .data = frame->flags & VERBS_FRAME_DATA ? frame->data : 0,
					  .len = frame->total,
					  .bytes = sizeof(struct verbs_message) + frame->length };

	if (peer->assembling) /* the sender has given it up, its CUT is on the way */
		verbs_message_give_up(ep, peer, HMREG_TRANSPORT);
	if (frame->total > ep->ep.domain->port->max_msg_size || frame->length > frame->total ||
	    (frame->length == 0 && frame->total > 0)) {
		verbs_message_refuse(ep, peer, "its lengths do not agree");
		return true;
	}
	if (frame->length < frame->total || (frame->flags & VERBS_FRAME_WANTS_ANSWER))
		return deliver_remembered(ep, peer, frame, &head);
	if ((ep->ep.caps & (FI_MSG | FI_RECV)) != (FI_MSG | FI_RECV)) {
		verbs_message_refuse(ep, peer, "a message for an endpoint that receives none");
		return true;
	}
	return deliver_simple(ep, peer, frame, &head);
}

/* Another part of an unexpected message. */
static bool append(struct verbs_ep *ep, struct verbs_message *msg, const struct verbs_frame *frame)
{
	struct nic_match *match = &ep->msg->match;
	size_t bytes = sizeof(struct piece) + frame->length;
	struct piece *piece;

	if (!nic_match_has_room(match, hm_param_size(HM_PARAM_VERBS_MAX_UNEXPECTED), bytes))
		return false;
	piece = malloc(bytes);
	if (!piece)
		return false;
	piece->len = frame->length;
	memcpy(piece->bytes, payload_of(frame), frame->length);
	hm_list_add_tail(&msg->pieces, &piece->link);
	msg->head.bytes += bytes;
	match->unexpected_bytes += bytes;
	return true;
}

static bool go_on(struct verbs_ep *ep, struct verbs_peer *peer, const struct verbs_frame *frame)
{
	struct verbs_message *msg = peer->assembling;

	if (!msg) {
		verbs_message_refuse(ep, peer, "a further part of no message");
		return true;
	}
	if (frame->length == 0 || frame->length > msg->head.len - msg->got) {
		verbs_message_refuse(ep, peer, "more bytes than the message has, or none");
		verbs_message_give_up(ep, peer, HMREG_TRANSPORT);
		return true;
	}
	if (msg->unexpected) {
		if (!append(ep, msg, frame))
			return false;
	} else {
		put_next(ep, msg, msg->got, payload_of(frame), frame->length);
	}
	msg->got += frame->length;
	settle(ep, msg);
	return true;
}

bool verbs_message_frame(struct verbs_ep *ep, struct verbs_peer *peer,
			 const struct verbs_frame *frame)
{
	if (frame->id == peer->its_cut && peer->its_cut != 0) /* its CUT was faster */
		return true;
	return frame->type == VERBS_FRAME_MESSAGE ? start(ep, peer, frame) : go_on(ep, peer, frame);
}
