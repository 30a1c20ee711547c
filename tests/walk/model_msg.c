/* SPDX-License-Identifier: BSD-2-Clause */
/* The model: messages.  A send meets a posted receive or waits at the target; first come, first served. */
#include "tests/walk/model.h"

#include <string.h>

static uint64_t room_of(const struct model_recv *recv)
{
	uint64_t room = 0;

	for (uint32_t i = 0; i < recv->segs; i++)
		room += recv->seg[i].range.len;
	return room;
}

/* ---- one receive ---- */

static bool lost_region(const struct model *m, const struct model_recv *recv)
{
	for (uint32_t i = 0; i < recv->segs; i++) {
		const struct model_mr *mr = &m->mr[recv->seg[i].mr];

		if (recv->id[i] != 0 && (!mr->live || mr->id != recv->id[i]))
			return true;
	}
	return false;
}

/* The message's bytes into the receive's buffers. */
static void place(struct model *m, const struct model_recv *recv, const struct model_message *msg)
{
	uint64_t left = msg->len, done = 0;

	for (uint32_t i = 0; i < recv->segs && left > 0; i++) {
		struct walk_range range = recv->seg[i].range;

		if (range.len > left)
			range.len = left;
		model_touch(m, &range);
		memcpy(m->memory + range.at, msg->bytes + done, range.len);
		done += range.len;
		left -= range.len;
	}
}

static bool can_place(struct model *m, const struct model_recv *recv, uint64_t len)
{
	bool fits = true;

	for (uint32_t i = 0; i < recv->segs && len > 0; i++) {
		struct walk_range range = recv->seg[i].range;

		if (range.len > len)
			range.len = len;
		fits &= model_writable(&range);
		len -= range.len;
	}
	if (fits)
		return true;
	m->e->undefined = true;
	for (uint32_t i = 0; i < recv->segs; i++)
		model_touch(m, &recv->seg[i].range);
	return false;
}

static bool meet(const struct walk_range *a, const struct walk_range *b)
{
	return a->len && b->len && a->at < b->at + b->len && b->at < a->at + a->len;
}

/* Do the entries of a receive lie on each other?  Then nobody says which bytes stay. */
static bool folded(const struct model_recv *recv)
{
	for (uint32_t i = 0; i < recv->segs; i++)
		for (uint32_t k = 0; k < i; k++)
			if (meet(&recv->seg[i].range, &recv->seg[k].range))
				return true;
	return false;
}

static void complete_recv(struct model *m, const struct model_ep *ep, const struct model_recv *recv,
			  const struct model_message *msg, uint64_t copied,
			  const struct walk_errors *errors)
{
	bool wanted = !ep->rx_selective || (recv->flags & FI_COMPLETION) || errors->count > 0;
	uint32_t at = m->e->comps;

	if (errors->count > 0)
		model_count_error(m, ep->cntr[1]);
	else
		model_count(m, ep->cntr[1], copied);
	if (!wanted)
		return;
	model_complete(m, ep->rx, recv->context,
		       FI_MSG | FI_RECV | (msg ? msg->flags & FI_REMOTE_CQ_DATA : 0), errors);
	if (m->e->comps == at || !msg)
		return;
	m->e->comp[at].data = msg->data;
	m->e->comp[at].len = copied;
	m->e->comp[at].has_len = true;
}

/* Fills a receive; what the sender is to hear is added to errors. */
static void deliver(struct model *m, const struct model_ep *ep, const struct model_recv *recv,
		    const struct model_message *msg, struct walk_errors *errors)
{
	struct walk_errors mine = { .count = 0 };
	uint64_t room = room_of(recv), copied = msg->len < room ? msg->len : room;

	if (lost_region(m, recv)) {
		model_add_error(&mine, FI_ENOMR, HMREG_LOCAL_REGION);
		model_add_error(errors, FI_EREMOTEIO, HMREG_PEER_REGION);
	} else if (!can_place(m, recv, copied)) {
		model_add_error(&mine, FI_EFAULT, HMREG_FAULT);
		model_add_error(errors, FI_EFAULT, HMREG_FAULT);
	} else {
		if (folded(recv))
			m->e->undefined = true;
		place(m, recv, msg);
		if (msg->len > room)
			model_add_error(&mine, FI_ETRUNC, HMREG_TRUNCATED);
	}
	complete_recv(m, ep, recv, msg, mine.count ? 0 : copied, &mine);
}

/* ---- the sender ---- */

static void answer(struct model *m, const struct model_ep *ep, const struct model_message *msg,
		   bool wanted, const struct walk_errors *errors)
{
	if (errors->count > 0)
		model_count_error(m, ep->cntr[0]);
	else
		model_count(m, ep->cntr[0], msg->len);
	if (errors->count > 0 || wanted)
		model_complete(m, ep->tx, msg->context, FI_MSG | FI_SEND, errors);
}

/* One that waited for delivery, if it is there still. */
static void answer_waiting(struct model *m, const struct model_message *msg,
			   const struct walk_errors *errors)
{
	int from = msg->waits ? model_ep_by_id(m, msg->from) : WALK_NONE;

	if (from != WALK_NONE)
		answer(m, &m->ep[from], msg, msg->flags & FI_COMPLETION, errors);
}

void model_drop_messages(struct model *m, struct model_ep *ep)
{
	for (uint32_t i = 0; i < ep->messages; i++) {
		struct walk_errors gone = { .count = 0 };

		model_add_error(&gone, FI_EHOSTUNREACH, HMREG_PEER_GONE);
		answer_waiting(m, &ep->message[i], &gone);
	}
	ep->messages = ep->posted = 0;
}

static void take_recv(struct model_ep *ep, uint32_t at, struct model_recv *recv)
{
	*recv = ep->recv[at];
	ep->posted--;
	for (uint32_t i = at; i < ep->posted; i++)
		ep->recv[i] = ep->recv[i + 1];
}

/* At its target: delivered, kept, or refused.  False: the answer comes later. */
static bool arrive(struct model *m, int to, const struct model_message *msg,
		   struct walk_errors *errors)
{
	struct model_ep *target = &m->ep[to];
	struct model_recv recv;

	if (target->posted > 0) {
		take_recv(target, 0, &recv);
		deliver(m, target, &recv, msg, errors);
		return true;
	}
	target->message[target->messages++] = *msg;
	return !msg->waits;
}

static void make_message(struct model *m, const struct walk_call *c, struct model_message *msg)
{
	const struct model_ep *ep = &m->ep[c->ep];
	bool flagged = c->form == WALK_FORM_MSG;

	msg->from = ep->id;
	msg->context = c->context;
	msg->flags = flagged ? c->flags : 0;
	if (c->form != WALK_FORM_INJECT && !ep->tx_selective)
		msg->flags |= FI_COMPLETION;
	if (c->form == WALK_FORM_DATA)
		msg->flags |= FI_REMOTE_CQ_DATA;
	msg->data = c->data;
	msg->len = 0;
	msg->waits = msg->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
	for (uint32_t i = 0; i < c->segs; i++) {
		const struct walk_range *range = &c->seg[i].range;

		if (model_readable(range))
			memcpy(msg->bytes + msg->len, m->memory + range->at, range->len);
		msg->len += range->len;
	}
}

/* Does the receive that it meets lie on what is sent? */
static bool on_itself(const struct model_ep *target, const struct walk_call *c)
{
	const struct model_recv *recv = &target->recv[0];

	for (uint32_t i = 0; target->posted > 0 && i < recv->segs; i++)
		for (uint32_t k = 0; k < c->segs; k++)
			if (meet(&recv->seg[i].range, &c->seg[k].range))
				return true;
	return false;
}

static bool all_writable(const struct model_recv *recv)
{
	for (uint32_t i = 0; i < recv->segs; i++)
		if (!model_writable(&recv->seg[i].range))
			return false;
	return true;
}

static void send_now(struct model *m, const struct walk_call *c)
{
	struct walk_errors errors = { .count = 0 };
	struct model_message msg;
	bool done = true;
	int to = model_target(m, c);

	make_message(m, c, &msg);
	if (to == WALK_NONE) {
		model_add_error(&errors, FI_EHOSTUNREACH, HMREG_PEER_GONE);
	} else {
		if ((m->ep[to].caps & (FI_MSG | FI_RECV)) != (FI_MSG | FI_RECV))
			model_add_error(&errors, FI_EOPNOTSUPP, HMREG_PEER_NO_CAP);
		for (uint32_t i = 0; i < c->segs; i++)
			if (!model_readable(&c->seg[i].range))
				model_add_error(&errors, FI_EFAULT, HMREG_FAULT);
	}
	if (errors.count == 0) {
		m->e->undefined = on_itself(&m->ep[to], c);
		m->e->unsure = m->e->undefined && !all_writable(&m->ep[to].recv[0]);
		if (m->e->unsure)
			return;
		done = arrive(m, to, &msg, &errors);
	}
	if (done)
		answer(m, &m->ep[c->ep], &msg, msg.flags & FI_COMPLETION, &errors);
}

static void do_send(struct model *m, const struct walk_call *c)
{
	const uint64_t known = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
			       FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE |
			       FI_REMOTE_CQ_DATA | FI_FENCE | FI_MORE;
	bool inject = c->form == WALK_FORM_INJECT || (c->flags & FI_INJECT);

	model_check_ep(m, c, FI_MSG | FI_SEND);
	if (c->form == WALK_FORM_MSG && (c->flags & ~known))
		model_may_fail(m, -FI_EBADFLAGS);
	if (c->count_limit)
		model_may_fail(m, -FI_EINVAL);
	for (uint32_t i = 0; i < c->segs; i++)
		model_check_local(m, m->ep[c->ep].domain, &c->seg[i], FI_SEND, inject);
	if (m->e->codes == 0)
		send_now(m, c);
}

/* ---- receiving ---- */

static void make_recv(const struct model *m, const struct walk_call *c, struct model_recv *recv)
{
	const struct walk_variant *variant = m->domain[m->ep[c->ep].domain].variant;
	bool ignored = FI_VERSION_LT(variant->version, FI_VERSION(1, 22)) &&
		       !(variant->mode & FI_MR_LOCAL);

	recv->segs = c->segs;
	recv->context = c->context;
	recv->flags = c->form == WALK_FORM_MSG ? c->flags : 0;
	for (uint32_t i = 0; i < c->segs; i++) {
		recv->seg[i] = c->seg[i];
		recv->id[i] = c->seg[i].desc == WALK_DESC_MR && !ignored ? m->mr[c->seg[i].mr].id
									 : 0;
	}
}

static void recv_now(struct model *m, const struct walk_call *c)
{
	struct model_ep *ep = &m->ep[c->ep];
	struct walk_errors errors = { .count = 0 };
	struct model_message msg;
	struct model_recv recv;

	make_recv(m, c, &recv);
	if (ep->messages == 0) {
		ep->recv[ep->posted++] = recv;
		return;
	}
	msg = ep->message[0];
	ep->messages--;
	for (uint32_t i = 0; i < ep->messages; i++)
		ep->message[i] = ep->message[i + 1];
	deliver(m, ep, &recv, &msg, &errors);
	answer_waiting(m, &msg, &errors);
}

static void do_recv(struct model *m, const struct walk_call *c)
{
	model_check_ep(m, c, FI_MSG | FI_RECV);
	if (c->form == WALK_FORM_MSG && (c->flags & ~(FI_COMPLETION | FI_MORE)))
		model_may_fail(m, -FI_EBADFLAGS);
	if (c->count_limit)
		model_may_fail(m, -FI_EINVAL);
	for (uint32_t i = 0; i < c->segs; i++)
		model_check_local(m, m->ep[c->ep].domain, &c->seg[i], FI_RECV, false);
	if (m->e->codes == 0)
		recv_now(m, c);
}

static void do_cancel(struct model *m, const struct walk_call *c)
{
	struct model_ep *ep = &m->ep[c->ep];
	struct walk_errors errors = { .count = 0 };
	struct model_recv recv;

	for (uint32_t i = 0; i < ep->posted; i++) {
		if (ep->recv[i].context != c->context)
			continue;
		take_recv(ep, i, &recv);
		model_add_error(&errors, FI_ECANCELED, HMREG_CANCELED);
		complete_recv(m, ep, &recv, NULL, 0, &errors);
		return;
	}
	model_may_fail(m, -FI_ENOENT);
}

void model_message(struct model *m, const struct walk_call *c)
{
	if (c->kind == WALK_SEND)
		do_send(m, c);
	else if (c->kind == WALK_RECV)
		do_recv(m, c);
	else
		do_cancel(m, c);
}
