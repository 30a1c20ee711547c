/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_msg(3): sends become work requests, receives go to the NIC's queue. */
#include "core/ep.h"

/* ---- sending ---- */

static ssize_t send_vector(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags,
			   const char *call)
{
	struct hm_ep *ep = hm_ep_of(&fid->fid);
	struct hm_locals locals;
	struct nic_wr wr = { .op = NIC_OP_SEND,
			     .flags = flags,
			     .comp_flags = FI_MSG | FI_SEND,
			     .local = locals.seg,
			     .context = msg->context,
			     .data = msg->data };
	ssize_t ret = hm_ep_check(ep, FI_MSG | FI_SEND, call);

	if (ret != 0)
		return ret;
	wr.peer = hm_ep_peer(ep, msg->addr, call);
	if (wr.peer == 0)
		return -FI_EINVAL;
	locals.count = 0;
	locals.len = 0;
	locals.bare = hm_ep_barev(ep, NIC_LOCAL_PAYLOAD, true, msg->msg_iov, msg->desc,
				  msg->iov_count, flags);
	ret = hm_locals_addv(ep, &locals, msg->msg_iov, msg->desc, msg->iov_count, FI_SEND,
			     flags & FI_INJECT, call);
	if (ret != 0)
		return ret;
	wr.local_count = locals.count;
	wr.len = locals.len;
	ret = hm_ep_check_len(ep, wr.len, flags, call);
	if (ret == 0)
		ret = ep->domain->nic->ops->post(ep->nic, &wr);
	hm_locals_release(&locals);
	return ret;
}

static ssize_t send_one(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
			fi_addr_t dest_addr, void *context, uint64_t flags, const char *call)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct fi_msg msg = { .msg_iov = &iov,
			      .desc = &desc,
			      .iov_count = 1,
			      .addr = dest_addr,
			      .context = context,
			      .data = data };

	return send_vector(ep, &msg, flags, call);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, void *context)
{
	return send_one(ep, buf, len, desc, 0, dest_addr, context,
			hm_ep_tx_flags(hm_ep_of(&ep->fid)), "fi_send");
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest_addr, void *context)
{
	struct fi_msg msg = { .msg_iov = iov,
			      .desc = desc,
			      .iov_count = count,
			      .addr = dest_addr,
			      .context = context };

	return send_vector(ep, &msg, hm_ep_tx_flags(hm_ep_of(&ep->fid)), "fi_sendv");
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	int ret = hm_ep_check_msg(msg, flags, HM_TX_FLAGS, "fi_sendmsg");

	if (ret != 0)
		return ret;
	return send_vector(ep, msg, hm_ep_msg_flags(hm_ep_of(&ep->fid), flags), "fi_sendmsg");
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
	return send_one(ep, buf, len, NULL, 0, dest_addr, NULL,
			hm_ep_inject_flags(hm_ep_of(&ep->fid), 0), "fi_inject");
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest_addr, void *context)
{
	return send_one(ep, buf, len, desc, data, dest_addr, context,
			hm_ep_tx_flags(hm_ep_of(&ep->fid)) | FI_REMOTE_CQ_DATA, "fi_senddata");
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr)
{
	return send_one(ep, buf, len, NULL, data, dest_addr, NULL,
			hm_ep_inject_flags(hm_ep_of(&ep->fid), FI_REMOTE_CQ_DATA), "fi_injectdata");
}

/* ---- receiving ---- */

/* FI_AUTH_KEY: addr is that of an authorization key, and messages may come from anybody by that. */
static int key_source(const struct hm_ep *ep, fi_addr_t addr, const char *call, uint32_t *key)
{
	if (!ep->domain->nic->av_keys || !(ep->caps & FI_DIRECTED_RECV)) {
		HM_WARN(FI_LOG_EP_DATA,
			"%s: FI_AUTH_KEY is for domains of FI_AV_AUTH_KEY, and endpoints with "
			"FI_DIRECTED_RECV",
			call);
		return -FI_EBADFLAGS;
	}
	*key = nic_av_key_id(&ep->av->nic, addr);
	if (*key)
		return 0;
	HM_WARN(FI_LOG_EP_DATA, "%s: fi_addr 0x%lx is not that of an authorization key", call,
		(unsigned long)addr);
	return -FI_EINVAL;
}

/* Whom a receive takes messages from. */
static int recv_source(const struct hm_ep *ep, fi_addr_t addr, const char *call,
		       struct nic_recv *recv)
{
	if (recv->flags & FI_AUTH_KEY)
		return key_source(ep, addr, call, &recv->src_key);
	if (!(ep->caps & FI_DIRECTED_RECV) || addr == FI_ADDR_UNSPEC)
		return 0;
	recv->src_peer = hm_ep_peer(ep, addr, call);
	if (!recv->src_peer)
		return -FI_EINVAL;
	if (ep->domain->nic->av_keys) {
		recv->src_key = nic_peer_key(recv->src_peer);
		recv->src_peer &= NIC_PEER_ADDRESS;
	}
	return 0;
}

static ssize_t recv_vector(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags,
			   const char *call)
{
	struct hm_ep *ep = hm_ep_of(&fid->fid);
	struct hm_locals locals;
	struct nic_recv recv = { .iov = msg->msg_iov,
				 .desc = ep->domain->ignores_desc ? NULL : msg->desc,
				 .count = msg->iov_count,
				 .flags = flags,
				 .context = msg->context };
	ssize_t ret = hm_ep_check(ep, FI_MSG | FI_RECV, call);

	if (ret == 0)
		ret = recv_source(ep, msg->addr, call, &recv);
	if (ret != 0)
		return ret;
	locals.count = 0;
	locals.len = 0;
	locals.bare = hm_ep_bare(ep, NIC_LOCAL_RECEIVES, false, 0, flags);
	ret = hm_locals_addv(ep, &locals, msg->msg_iov, msg->desc, msg->iov_count, FI_RECV, false,
			     call);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < locals.count; i++) {
		if (locals.seg[i].hold)
			continue;
		/* it is looked up again when a message is there, and may be closed by then */
		hm_local_release(&locals.seg[i]);
		locals.hold[i].region = NULL;
	}
	recv.hold = locals.hold;
	ret = ep->domain->nic->ops->post_recv(ep->nic, &recv);
	for (uint32_t i = 0; i < locals.count; i++)
		if (locals.hold[i].region)
			hm_local_release(&locals.seg[i]);
	return ret;
}

static uint64_t rx_flags(struct fid_ep *ep)
{
	return hm_ep_of(&ep->fid)->rx_op_flags;
}

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context)
{
	struct iovec iov = { buf, len };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = src_addr, .context = context
	};

	return recv_vector(ep, &msg, rx_flags(ep), "fi_recv");
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, void *context)
{
	struct fi_msg msg = { .msg_iov = iov,
			      .desc = desc,
			      .iov_count = count,
			      .addr = src_addr,
			      .context = context };

	return recv_vector(ep, &msg, rx_flags(ep), "fi_recvv");
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	int ret = hm_ep_check_msg(msg, flags, HM_RX_FLAGS, "fi_recvmsg");

	if (ret != 0)
		return ret;
	return recv_vector(ep, msg, flags, "fi_recvmsg");
}

struct fi_ops_msg hm_ep_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};
