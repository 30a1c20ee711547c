/* SPDX-License-Identifier: BSD-2-Clause */
/* Tagged messages and collectives: no endpoint is opened for them, so each call refuses. */
#include "core/ep.h"

static ssize_t refuse(const char *kind)
{
	HM_WARN(FI_LOG_EP_DATA, "the endpoint offers no %s", kind);
	return -FI_ENOSYS;
}

static ssize_t no_tagged(void)
{
	return refuse("tagged messages (FI_TAGGED)");
}

static ssize_t no_collective(void)
{
	return refuse("collectives (FI_COLLECTIVE)");
}

/* One refusal per prototype; the parameters are not looked at. */
#define REFUSAL(kind, name, ...)                                                                   \
	static ssize_t kind##_##name(__VA_ARGS__)                                                  \
	{                                                                                          \
		return no_##kind();                                                                \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"

REFUSAL(tagged, recv, struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
	uint64_t tag, uint64_t ignore, void *context)
REFUSAL(tagged, recvv, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
	fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
REFUSAL(tagged, msg, struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
REFUSAL(tagged, send, struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
	uint64_t tag, void *context)
REFUSAL(tagged, sendv, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
	fi_addr_t dest, uint64_t tag, void *context)
REFUSAL(tagged, inject, struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
	uint64_t tag)
REFUSAL(tagged, senddata, struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
	fi_addr_t dest, uint64_t tag, void *context)
REFUSAL(tagged, injectdata, struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
	fi_addr_t dest, uint64_t tag)

struct fi_ops_tagged hm_ep_no_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_msg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_msg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};

REFUSAL(collective, barrier, struct fid_ep *ep, fi_addr_t coll, void *context)
REFUSAL(collective, barrier2, struct fid_ep *ep, fi_addr_t coll, uint64_t flags, void *context)
REFUSAL(collective, broadcast, struct fid_ep *ep, void *buf, size_t count, void *desc,
	fi_addr_t coll, fi_addr_t root, enum fi_datatype datatype, uint64_t flags, void *context)
REFUSAL(collective, exchange, struct fid_ep *ep, const void *buf, size_t count, void *desc,
	void *result, void *result_desc, fi_addr_t coll, enum fi_datatype datatype, uint64_t flags,
	void *context)
REFUSAL(collective, combine, struct fid_ep *ep, const void *buf, size_t count, void *desc,
	void *result, void *result_desc, fi_addr_t coll, enum fi_datatype datatype, enum fi_op op,
	uint64_t flags, void *context)
REFUSAL(collective, reduce, struct fid_ep *ep, const void *buf, size_t count, void *desc,
	void *result, void *result_desc, fi_addr_t coll, fi_addr_t root, enum fi_datatype datatype,
	enum fi_op op, uint64_t flags, void *context)
REFUSAL(collective, rooted, struct fid_ep *ep, const void *buf, size_t count, void *desc,
	void *result, void *result_desc, fi_addr_t coll, fi_addr_t root, enum fi_datatype datatype,
	uint64_t flags, void *context)
REFUSAL(collective, msg, struct fid_ep *ep, const struct fi_msg_collective *msg,
	struct fi_ioc *resultv, void **result_desc, size_t result_count, uint64_t flags)

struct fi_ops_collective hm_ep_no_collective_ops = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = collective_barrier,
	.broadcast = collective_broadcast,
	.alltoall = collective_exchange,
	.allreduce = collective_combine,
	.allgather = collective_exchange,
	.reduce_scatter = collective_combine,
	.reduce = collective_reduce,
	.scatter = collective_rooted,
	.gather = collective_rooted,
	.msg = collective_msg,
	.barrier2 = collective_barrier2,
};
