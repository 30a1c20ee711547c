/* SPDX-License-Identifier: BSD-2-Clause */
/* Posted receives and unexpected messages. */
#include <stdlib.h>

#include "core/base/log.h"
#include "core/nic/match.h"

void nic_match_init(struct nic_match *match)
{
	hm_list_init(&match->posted);
	hm_list_init(&match->unexpected);
	match->posted_count = 0;
	match->unexpected_bytes = 0;
}

static void end_holds(const struct nic_ep *ep, struct nic_posted *recv)
{
	for (size_t i = 0; i < recv->count; i++)
		if (recv->hold[i].region)
			ep->domain->hold_end(ep->domain, &recv->hold[i]);
}

void nic_posted_free(const struct nic_ep *ep, struct nic_posted *recv)
{
	if (!recv)
		return;
	end_holds(ep, recv);
	free(recv);
}

void nic_match_drop_posted(const struct nic_ep *ep, struct nic_match *match)
{
	hm_list_for_each_safe(link, &match->posted)
	{
		hm_list_del(link);
		nic_posted_free(ep, hm_list_entry(link, struct nic_posted, link));
	}
	match->posted_count = 0;
}

static struct nic_hold take_hold(struct nic_hold *from)
{
	struct nic_hold hold = *from;

	from->region = NULL;
	return hold;
}

struct nic_posted *nic_posted_make(const struct nic_recv *request)
{
	struct nic_posted *recv = malloc(sizeof(*recv));

	if (!recv) {
		HM_WARN(FI_LOG_EP_DATA, "no memory to post a receive");
		return NULL;
	}
	recv->src_peer = request->src_peer;
	recv->src_key = request->src_key;
	recv->flags = request->flags;
	recv->context = request->context;
	recv->count = request->count;
	for (size_t i = 0; i < request->count; i++) {
		recv->iov[i] = request->iov[i];
		recv->desc[i] = request->desc ? request->desc[i] : NULL;
		recv->hold[i].region = NULL;
		if (request->hold && request->hold[i].region)
			recv->hold[i] = take_hold(&request->hold[i]);
	}
	return recv;
}

size_t nic_posted_room(const struct nic_posted *recv)
{
	size_t room = 0;

	for (size_t i = 0; i < recv->count; i++)
		room += recv->iov[i].iov_len;
	return room;
}

/* ---- the queues ---- */

static bool matches(const struct nic_posted *recv, const struct nic_message *msg)
{
	return (recv->src_peer == 0 || recv->src_peer == msg->src_peer) &&
	       (recv->src_key == 0 || recv->src_key == msg->src_key);
}

static int reserve(const struct nic_ep *ep)
{
	return ep->rx_cq ? nic_cq_reserve(ep->rx_cq) : 0;
}

static void unlink_posted(struct nic_match *match, struct nic_posted *recv)
{
	hm_list_del(&recv->link);
	match->posted_count--;
}

static struct nic_posted *find_posted(struct nic_match *match, const struct nic_message *msg)
{
	hm_list_for_each(link, &match->posted)
	{
		struct nic_posted *recv = hm_list_entry(link, struct nic_posted, link);

		if (matches(recv, msg))
			return recv;
	}
	return NULL;
}

static struct nic_message *find_message(struct nic_match *match, const struct nic_posted *recv)
{
	hm_list_for_each(link, &match->unexpected)
	{
		struct nic_message *msg = hm_list_entry(link, struct nic_message, link);

		if (matches(recv, msg))
			return msg;
	}
	return NULL;
}

enum nic_met nic_match_arrive(const struct nic_ep *ep, struct nic_match *match,
			      const struct nic_message *msg, size_t limit, struct nic_posted **recv)
{
	struct nic_posted *found = find_posted(match, msg);

	if (!found)
		return nic_match_has_room(match, limit, msg->bytes) ? NIC_MET_NOBODY : NIC_MET_FULL;
	if (reserve(ep) != 0)
		return NIC_MET_FULL;
	unlink_posted(match, found);
	*recv = found;
	return NIC_MET_RECV;
}

void nic_match_keep(struct nic_match *match, struct nic_message *msg)
{
	match->unexpected_bytes += msg->bytes;
	hm_list_add_tail(&match->unexpected, &msg->link);
}

int nic_match_post(const struct nic_ep *ep, struct nic_match *match, struct nic_posted *recv,
		   struct nic_message **msg)
{
	struct nic_message *found = find_message(match, recv);

	if (found) {
		if (reserve(ep) != 0)
			return -FI_EAGAIN;
		hm_list_del(&found->link);
		match->unexpected_bytes -= found->bytes;
	} else if (match->posted_count >= ep->rx_size) {
		return -FI_EAGAIN;
	} else {
		hm_list_add_tail(&match->posted, &recv->link);
		match->posted_count++;
	}
	*msg = found;
	return 0;
}

int nic_match_cancel(const struct nic_ep *ep, struct nic_match *match, void *context,
		     struct nic_posted **recv)
{
	hm_list_for_each(link, &match->posted)
	{
		struct nic_posted *found = hm_list_entry(link, struct nic_posted, link);

		if (found->context != context)
			continue;
		if (reserve(ep) != 0)
			return -FI_EAGAIN;
		unlink_posted(match, found);
		*recv = found;
		return 0;
	}
	return -FI_ENOENT;
}

/* ---- one receive ---- */

enum hmreg_error nic_posted_acquire(const struct nic_ep *ep, const struct nic_posted *recv,
				    struct nic_region **region)
{
	enum hmreg_error why = HMREG_OK;

	for (size_t i = 0; i < recv->count; i++) {
		struct hm_key_node *node;

		region[i] = recv->hold[i].region;
		if (region[i] || !recv->desc[i] || why != HMREG_OK)
			continue;
		node = hm_key_acquire(ep->domain->regions, (uintptr_t)recv->desc[i]);
		if (node)
			region[i] = nic_region_of(node);
		else
			why = HMREG_LOCAL_REGION;
	}
	return why;
}

void nic_posted_release(const struct nic_posted *recv, struct nic_region **region)
{
	for (size_t i = 0; i < recv->count; i++)
		if (!recv->hold[i].region)
			nic_local_release(region[i]);
}

static bool wants_completion(const struct nic_ep *ep, const struct nic_posted *recv)
{
	return !ep->rx_selective || (recv->flags & FI_COMPLETION);
}

/* Who sent it: with the key that it came by, else as an address without one. */
static fi_addr_t source(const struct nic_ep *ep, const struct nic_message *msg)
{
	uint64_t by_key = msg->src_peer | (uint64_t)msg->src_key << NIC_PEER_KEY_SHIFT;
	fi_addr_t addr = nic_av_reverse(ep->av, by_key);

	return addr == FI_ADDR_NOTAVAIL && msg->src_key ? nic_av_reverse(ep->av, msg->src_peer)
							: addr;
}

static void complete(struct nic_ep *ep, const struct nic_posted *recv,
		     const struct nic_message *msg, size_t copied, enum hmreg_error why)
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
				comp.src_addr = source(ep, msg);
			if (why != HMREG_OK) {
				comp.err = nic_error_code(why);
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

enum hmreg_error nic_posted_done(struct nic_ep *ep, struct nic_posted *recv,
				 const struct nic_message *msg, enum hmreg_error why)
{
	size_t room = nic_posted_room(recv), copied = msg->len < room ? msg->len : room;

	if (why != HMREG_OK)
		copied = 0;
	else if (copied < msg->len)
		why = HMREG_TRUNCATED;
	end_holds(ep, recv); /* before the application hears of it, and may close the domain */
	complete(ep, recv, msg, copied, why);
	free(recv);
	if (why == HMREG_LOCAL_REGION)
		return HMREG_PEER_REGION;
	return why == HMREG_TRUNCATED ? HMREG_OK : why;
}

void nic_posted_drop(struct nic_ep *ep, struct nic_posted *recv, enum hmreg_error why)
{
	const struct nic_message none = { .len = 0 };

	end_holds(ep, recv);
	complete(ep, recv, &none, 0, why);
	free(recv);
}
