/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_rma(3): each call becomes one work request. */
#include "core/ep.h"

/* What the read calls and the write calls differ in. */
struct direction {
	enum nic_op op;
	uint64_t need;	 /* capabilities */
	uint64_t access; /* what happens to the local buffer */
	uint64_t comp_flags;
};

static const struct direction to_peer = { NIC_OP_WRITE, FI_RMA | FI_WRITE, FI_WRITE,
					  FI_RMA | FI_WRITE };
static const struct direction from_peer = { NIC_OP_READ, FI_RMA | FI_READ, FI_READ,
					    FI_RMA | FI_READ };

/* One local buffer, one remote range: the calls without a vector. */
static ssize_t rma_one(struct fid_ep *fid, const struct direction *dir, const void *buf, size_t len,
		       void *desc, fi_addr_t addr, uint64_t remote_addr, uint64_t key,
		       uint64_t flags, uint64_t data, void *context, const char *call)
{
	struct hm_ep *ep = hm_ep_of(&fid->fid);
	struct fi_rma_iov remote = { remote_addr, len, key };
	struct hm_locals locals;
	struct nic_wr wr;
	ssize_t ret;

	locals.count = 0;
	locals.len = 0;
	locals.bare = hm_ep_bare(ep, NIC_LOCAL_PAYLOAD, dir->op == NIC_OP_WRITE, len, flags);
	ret = hm_ep_check(ep, dir->need, call);
	if (ret == 0)
		ret = hm_ep_check_len(ep, len, flags, call);
	if (ret != 0)
		return ret;
	wr.peer = hm_ep_peer(ep, addr, call);
	if (wr.peer == 0)
		return -FI_EINVAL;
	ret = hm_locals_add(ep, &locals, buf, len, desc, dir->access, flags & FI_INJECT, call);
	if (ret != 0)
		return ret;
	wr.op = dir->op;
	wr.flags = flags;
	wr.comp_flags = dir->comp_flags;
	wr.local = locals.seg;
	wr.local_count = 1;
	wr.result_count = wr.compare_count = 0;
	wr.remote = &remote;
	wr.remote_count = 1;
	wr.len = len;
	wr.context = context;
	wr.data = data;
	ret = ep->domain->nic->ops->post(ep->nic, &wr);
	hm_local_release(&locals.seg[0]);
	return ret;
}

static int check_remote(const struct hm_ep *ep, const struct fi_msg_rma *msg, size_t len,
			const char *call)
{
	uint64_t sum = 0;

	if (msg->rma_iov_count == 0 || msg->rma_iov_count > ep->rma_iov_limit || !msg->rma_iov) {
		HM_WARN(FI_LOG_EP_DATA, "%s: rma_iov %p with %zu entries; 1 to %zu are possible",
			call, (const void *)msg->rma_iov, msg->rma_iov_count, ep->rma_iov_limit);
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < msg->rma_iov_count; i++) {
		if (msg->rma_iov[i].len > UINT64_MAX - sum) {
			sum = UINT64_MAX;
			break;
		}
		sum += msg->rma_iov[i].len;
	}
	if (sum != len) {
		HM_WARN(FI_LOG_EP_DATA, "%s: %zu local bytes, %lu remote ones", call, len,
			(unsigned long)sum);
		return -FI_EINVAL;
	}
	return 0;
}

/* Vectors on both sides; flags are effective. */
static ssize_t rma_vector(struct fid_ep *fid, const struct direction *dir,
			  const struct fi_msg_rma *msg, uint64_t flags, const char *call)
{
	struct hm_ep *ep = hm_ep_of(&fid->fid);
	struct hm_locals locals;
	struct nic_wr wr = { .op = dir->op,
			     .flags = flags,
			     .comp_flags = dir->comp_flags,
			     .local = locals.seg,
			     .remote = msg->rma_iov,
			     .remote_count = (uint32_t)msg->rma_iov_count,
			     .context = msg->context,
			     .data = msg->data };
	ssize_t ret = hm_ep_check(ep, dir->need, call);

	if (ret != 0)
		return ret;
	wr.peer = hm_ep_peer(ep, msg->addr, call);
	if (wr.peer == 0)
		return -FI_EINVAL;
	locals.count = 0;
	locals.len = 0;
	locals.bare = hm_ep_barev(ep, NIC_LOCAL_PAYLOAD, dir->op == NIC_OP_WRITE, msg->msg_iov,
				  msg->desc, msg->iov_count, flags);
	ret = hm_locals_addv(ep, &locals, msg->msg_iov, msg->desc, msg->iov_count, dir->access,
			     flags & FI_INJECT, call);
	if (ret != 0)
		return ret;
	wr.local_count = locals.count;
	wr.len = locals.len;
	ret = check_remote(ep, msg, wr.len, call);
	if (ret == 0)
		ret = hm_ep_check_len(ep, wr.len, flags, call);
	if (ret == 0)
		ret = ep->domain->nic->ops->post(ep->nic, &wr);
	hm_locals_release(&locals);
	return ret;
}

/* Flags of a call without its own.  A read cannot be injected: its buffer is filled. */
static uint64_t default_flags(struct fid_ep *fid, const struct direction *dir)
{
	uint64_t flags = hm_ep_tx_flags(hm_ep_of(&fid->fid));

	return dir == &from_peer ? flags & ~FI_INJECT : flags;
}

/* fi_readv and fi_writev: the remote side is one range as long as the vector. */
static ssize_t rma_v(struct fid_ep *fid, const struct direction *dir, const struct iovec *iov,
		     void **desc, size_t count, fi_addr_t addr, uint64_t remote_addr, uint64_t key,
		     void *context, const char *call)
{
	struct fi_rma_iov remote = { remote_addr, 0, key };
	struct fi_msg_rma msg = { .msg_iov = iov,
				  .desc = desc,
				  .iov_count = count,
				  .addr = addr,
				  .rma_iov = &remote,
				  .rma_iov_count = 1,
				  .context = context };

	/* a sum that overflows is found by the checks of the vector itself */
	for (size_t i = 0; iov && i < count && i < NIC_IOV_MAX; i++)
		remote.len += iov[i].iov_len;
	return rma_vector(fid, dir, &msg, default_flags(fid, dir), call);
}

static ssize_t rma_msg(struct fid_ep *fid, const struct direction *dir,
		       const struct fi_msg_rma *msg, uint64_t flags, uint64_t allowed,
		       const char *call)
{
	int ret = hm_ep_check_msg(msg, flags, allowed, call);

	if (ret != 0)
		return ret;
	return rma_vector(fid, dir, msg, hm_ep_msg_flags(hm_ep_of(&fid->fid), flags), call);
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			uint64_t addr, uint64_t key, void *context)
{
	return rma_one(ep, &from_peer, buf, len, desc, src_addr, addr, key,
		       default_flags(ep, &from_peer), 0, context, "fi_read");
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	return rma_v(ep, &from_peer, iov, desc, count, src_addr, addr, key, context, "fi_readv");
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return rma_msg(ep, &from_peer, msg, flags, HM_TX_FLAGS & ~(FI_INJECT | FI_REMOTE_CQ_DATA),
		       "fi_readmsg");
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return rma_one(ep, &to_peer, buf, len, desc, dest_addr, addr, key,
		       hm_ep_tx_flags(hm_ep_of(&ep->fid)), 0, context, "fi_write");
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return rma_v(ep, &to_peer, iov, desc, count, dest_addr, addr, key, context, "fi_writev");
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return rma_msg(ep, &to_peer, msg, flags, HM_TX_FLAGS, "fi_writemsg");
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
			  uint64_t addr, uint64_t key)
{
	return rma_one(ep, &to_peer, buf, len, NULL, dest_addr, addr, key,
		       hm_ep_inject_flags(hm_ep_of(&ep->fid), 0), 0, NULL, "fi_inject_write");
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	return rma_one(ep, &to_peer, buf, len, desc, dest_addr, addr, key,
		       hm_ep_tx_flags(hm_ep_of(&ep->fid)) | FI_REMOTE_CQ_DATA, data, context,
		       "fi_writedata");
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	return rma_one(ep, &to_peer, buf, len, NULL, dest_addr, addr, key,
		       hm_ep_inject_flags(hm_ep_of(&ep->fid), FI_REMOTE_CQ_DATA), data, NULL,
		       "fi_inject_writedata");
}

struct fi_ops_rma hm_ep_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
