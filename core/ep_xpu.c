/* SPDX-License-Identifier: BSD-2-Clause */
/* Data calls of the host on an endpoint of an XPU context: they are its device's alone, so each refuses. */
#include "core/ep.h"

ssize_t hm_ep_xpu_refuse(void)
{
	HM_WARN(FI_LOG_EP_DATA, "the endpoint belongs to an XPU context: data calls are its "
				"device's (fi_xpu_device.h)");
	return -FI_EOPBADSTATE;
}

/* One refusal per prototype; the parameters are not looked at. */
#define REFUSAL(name, ...)                                                                         \
	static ssize_t name(__VA_ARGS__)                                                           \
	{                                                                                          \
		return hm_ep_xpu_refuse();                                                         \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"

REFUSAL(msg_one, struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
	void *context)
REFUSAL(msg_recv, struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
	void *context)
REFUSAL(msg_list, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
	fi_addr_t dest, void *context)
REFUSAL(msg_msg, struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
REFUSAL(msg_inject, struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest)
REFUSAL(msg_data, struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
	fi_addr_t dest, void *context)
REFUSAL(msg_inject_data, struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
	fi_addr_t dest)

struct fi_ops_msg hm_ep_xpu_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_list,
	.recvmsg = msg_msg,
	.send = msg_one,
	.sendv = msg_list,
	.sendmsg = msg_msg,
	.inject = msg_inject,
	.senddata = msg_data,
	.injectdata = msg_inject_data,
};

REFUSAL(rma_read, struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
	uint64_t addr, uint64_t key, void *context)
REFUSAL(rma_write, struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
	uint64_t addr, uint64_t key, void *context)
REFUSAL(rma_list, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
	fi_addr_t peer, uint64_t addr, uint64_t key, void *context)
REFUSAL(rma_msg, struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
REFUSAL(rma_inject, struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest, uint64_t addr,
	uint64_t key)
REFUSAL(rma_data, struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
	fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
REFUSAL(rma_inject_data, struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
	fi_addr_t dest, uint64_t addr, uint64_t key)

struct fi_ops_rma hm_ep_xpu_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_list,
	.readmsg = rma_msg,
	.write = rma_write,
	.writev = rma_list,
	.writemsg = rma_msg,
	.inject = rma_inject,
	.writedata = rma_data,
	.injectdata = rma_inject_data,
};

REFUSAL(atomic_one, struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t dest,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
REFUSAL(atomic_list, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
	fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
	void *context)
REFUSAL(atomic_msg, struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
REFUSAL(atomic_inject, struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
REFUSAL(fetch_one, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
	void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
	enum fi_op op, void *context)
REFUSAL(fetch_list, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
	struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
REFUSAL(fetch_msg, struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
	void **result_desc, size_t result_count, uint64_t flags)
REFUSAL(compare_one, struct fid_ep *ep, const void *buf, size_t count, void *desc,
	const void *compare, void *compare_desc, void *result, void *result_desc, fi_addr_t dest,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
REFUSAL(compare_list, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
	const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
	struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
REFUSAL(compare_msg, struct fid_ep *ep, const struct fi_msg_atomic *msg,
	const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
	struct fi_ioc *resultv, void **result_desc, size_t result_count, uint64_t flags)

/* What is offered may be asked: that moves nothing. */
#define VALID(name)                                                                                \
	static int name(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,               \
			size_t *count)                                                             \
	{                                                                                          \
		return hm_ep_atomic_ops.name(ep, datatype, op, count);                             \
	}

VALID(writevalid)
VALID(readwritevalid)
VALID(compwritevalid)

struct fi_ops_atomic hm_ep_xpu_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_one,
	.writev = atomic_list,
	.writemsg = atomic_msg,
	.inject = atomic_inject,
	.readwrite = fetch_one,
	.readwritev = fetch_list,
	.readwritemsg = fetch_msg,
	.compwrite = compare_one,
	.compwritev = compare_list,
	.compwritemsg = compare_msg,
	.writevalid = writevalid,
	.readwritevalid = readwritevalid,
	.compwritevalid = compwritevalid,
};
