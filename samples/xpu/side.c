/* SPDX-License-Identifier: BSD-2-Clause */
/* See side.h.  The first four functions are what a host has to do; then come exchange and the end. */
#include "side.h"

#include <string.h>

#include <rdma/fi_cm.h>

/* Has the call failed?  Then it is named. */
#define TRY(call) ((ret = (call)) != 0 && (sample_fail(#call, ret), true))

int xpu_side_open(struct xpu_side *side, const char *domain, struct xpu_device *device)
{
	uint64_t caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_XPU;
	struct sample_end *end = &side->end;
	int ret;

	if (device->place.iface != FI_HMEM_SYSTEM)
		caps |= FI_HMEM;
	*side = (struct xpu_side){ .device = device, .end = { .next_key = 1 } };
	if (TRY(sample_find(domain, caps, &end->info)) ||
	    TRY(fi_fabric(end->info->fabric_attr, &end->fabric, NULL)) ||
	    TRY(fi_domain(end->fabric, end->info, &end->domain, NULL)) ||
	    TRY(fi_xpu_ctx(end->domain, &device->attr, &side->ctx, NULL)))
		return ret;
	end->info->ep_attr->xpu_ctx = side->ctx; /* of every endpoint that is opened from it */
	/* signals stay behind data */
	return end->info->tx_attr->msg_order & FI_ORDER_WAW ? 0 : -FI_EOPNOTSUPP;
}

int xpu_channel_open(struct xpu_channel *channel, struct xpu_side *side, bool queued,
		     const struct xpu_memory *memory, size_t offset, size_t len)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA };
	struct fi_cntr_attr cntr_attr = { .flags = FI_XPU, .xpu_ctx = side->ctx };
	uint64_t cq_flags = FI_TRANSMIT | FI_RECV | (queued ? 0 : FI_SELECTIVE_COMPLETION);
	struct sample_end *end = &channel->end;
	int ret;

	*channel = (struct xpu_channel){ .side = side, .queued = queued, .end = side->end };
	channel->link.mem = memory->on_device + offset;
	channel->link.registered = memory->on_host + offset;
	channel->link.len = len;
	if (queued) {
		cq_attr.flags = FI_XPU;
		cq_attr.xpu_ctx = side->ctx;
	}
	if (TRY(fi_av_open(end->domain, &(struct fi_av_attr){ 0 }, &end->av, NULL)) ||
	    TRY(fi_cq_open(end->domain, &cq_attr, &end->cq, NULL)) ||
	    TRY(fi_cntr_open(end->domain, &cntr_attr, &channel->sent, NULL)) ||
	    TRY(fi_endpoint2(end->domain, end->info, &end->ep, FI_XPU, NULL)) ||
	    TRY(fi_ep_bind(end->ep, &end->av->fid, 0)) ||
	    TRY(fi_ep_bind(end->ep, &end->cq->fid, cq_flags)) ||
	    TRY(fi_ep_bind(end->ep, &channel->sent->fid, FI_WRITE | FI_READ | FI_SEND)) ||
	    TRY(fi_enable(end->ep)))
		return ret;
	return 0;
}

int xpu_channel_offer(struct xpu_channel *channel, struct xpu_offer *offer)
{
	const uint64_t local = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
	struct xpu_link *link = &channel->link;
	size_t len = sizeof(link->desc);
	int ret;

	channel->end.next_key = channel->side->end.next_key++;
	ret = sample_register_at(&channel->end, &channel->side->device->place, link->registered,
				 link->len, local | FI_REMOTE_READ | FI_REMOTE_WRITE, &channel->mr);
	if (ret ||
	    TRY(fi_mr_get_xpu_desc(channel->mr, link->desc, &len, FI_XPU, channel->side->ctx)))
		return ret;
	return xpu_host_offer(&channel->end, channel->mr, link->registered, offer);
}

int xpu_channel_reach(struct xpu_channel *channel, const struct xpu_offer *peer)
{
	struct sample_end *end = &channel->end;
	struct xpu_link *link = &channel->link;
	size_t len = sizeof(link->peer);
	int ret;

	if (TRY(sample_use(end, &peer->key, &link->peer_key)))
		return ret;
	channel->taken = *peer;
	link->peer_mem = peer->key.address;
	if (TRY(sample_enter(end, peer->address, &end->peer)) ||
	    TRY(fi_av_lookup2(end->av, end->peer, link->peer, &len, FI_XPU, channel->side->ctx)) ||
	    TRY(fi_ep_export_xpu(end->ep, 0, &link->ep)) ||
	    TRY(fi_cntr_export_xpu(channel->sent, 0, &link->sent)) ||
	    (channel->queued && TRY(fi_cq_export_xpu(end->cq, 0, &link->done))))
		return ret;
	return 0;
}

/* ---- exchange ---- */

int xpu_host_offer(struct sample_end *end, struct fid_mr *mr, const void *first,
		   struct xpu_offer *offer)
{
	int ret;

	offer->len = sizeof(offer->address);
	if (TRY(fi_getname(&end->ep->fid, offer->address, &offer->len)))
		return ret;
	return sample_share(end, mr, first, &offer->key);
}

int xpu_connect(struct xpu_channel *one, struct xpu_channel *other)
{
	struct xpu_offer offers[2];
	int ret = xpu_channel_offer(one, &offers[0]);

	if (!ret)
		ret = xpu_channel_offer(other, &offers[1]);
	if (!ret)
		ret = xpu_channel_reach(one, &offers[1]);
	return ret ? ret : xpu_channel_reach(other, &offers[0]);
}

/* ---- the end ---- */

static void close_one(struct fid *fid, const char *what, int *first)
{
	int ret = fi_close(fid);

	if (ret)
		sample_fail(what, ret);
	*first = *first ? *first : ret;
}
#define CLOSE(object)                                                                              \
	do {                                                                                       \
		if (object)                                                                        \
			close_one(&(object)->fid, "fi_close(" #object ")", &ret);                  \
		(object) = NULL;                                                                   \
	} while (0)

int xpu_channel_close(struct xpu_channel *channel)
{
	int ret = 0;

	if (channel->taken.len)
		ret = sample_unuse(&channel->end, &channel->taken.key, channel->link.peer_key);
	channel->taken.len = 0;
	CLOSE(channel->mr);
	CLOSE(channel->end.ep);
	CLOSE(channel->sent);
	CLOSE(channel->end.cq);
	CLOSE(channel->end.av);
	return ret;
}

int xpu_side_close(struct xpu_side *side)
{
	int ret = 0, failed;

	CLOSE(side->ctx);
	failed = sample_close(&side->end);
	return ret ? ret : failed;
}

unsigned xpu_channel_errors(struct xpu_channel *channel)
{
	struct fi_cq_err_entry entry = { .err_data_size = 0 };
	unsigned count = 0;

	if (channel->queued || !channel->end.cq)
		return 0;
	while (fi_cq_readerr(channel->end.cq, &entry, 0) == 1) {
		fprintf(stderr, "a request of the device: %s: %s\n", fi_strerror(entry.err),
			fi_cq_strerror(channel->end.cq, entry.prov_errno, entry.err_data, NULL, 0));
		count++;
	}
	return count;
}
