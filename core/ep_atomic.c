/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_atomic(3): all forms become one work request whose lengths are in bytes. */
#include "core/ep.h"

/* A call in its most general form; the operands are lists of elements. */
struct atomic_call {
	enum nic_op kind;
	const char *name;
	const struct fi_ioc *iov, *result, *compare;
	void **desc, **result_desc, **compare_desc;
	size_t count, result_count, compare_count;
	const struct fi_rma_ioc *remote;
	size_t remote_count;
	fi_addr_t addr;
	enum fi_datatype datatype;
	enum fi_op op;
	uint64_t flags;
	void *context;
};

static int offered(const struct hm_ep *ep, const struct atomic_call *call, size_t *size)
{
	size_t most;
	const struct nic_domain *nic = ep->domain->nic;
	int ret = nic->ops->atomic_valid((struct nic_domain *)nic, call->kind, call->datatype,
					 call->op, &most, size);

	if (ret != 0)
		HM_WARN(FI_LOG_EP_DATA, "%s: operation %d on datatype %d is not offered",
			call->name, (int)call->op, (int)call->datatype);
	return ret;
}

/* Elements to bytes.  False with a log line: too many to count. */
static bool to_bytes(size_t count, size_t size, size_t *len, const char *call)
{
	if (count <= SIZE_MAX / size) {
		*len = count * size;
		return true;
	}
	HM_WARN(FI_LOG_EP_DATA, "%s: %zu elements of %zu bytes", call, count, size);
	return false;
}

static int add_operand(struct hm_ep *ep, struct hm_locals *locals, const struct fi_ioc *ioc,
		       void **desc, size_t count, size_t size, uint64_t access,
		       const struct atomic_call *call)
{
	int ret = 0;

	if (count > ep->iov_limit || (count > 0 && !ioc)) {
		HM_WARN(FI_LOG_EP_DATA, "%s: list %p with %zu entries; up to %zu are possible",
			call->name, (const void *)ioc, count, ep->iov_limit);
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < count && ret == 0; i++) {
		size_t len;

		if (!to_bytes(ioc[i].count, size, &len, call->name))
			return -FI_EINVAL;
		ret = hm_locals_add(ep, locals, ioc[i].addr, len, desc ? desc[i] : NULL, access,
				    (call->flags & FI_INJECT) && access == FI_WRITE, call->name);
	}
	return ret;
}

static int add_remote(const struct hm_ep *ep, const struct atomic_call *call, size_t size,
		      struct fi_rma_iov *remote, size_t *len)
{
	size_t sum = 0;

	if (call->remote_count == 0 || call->remote_count > ep->rma_iov_limit || !call->remote) {
		HM_WARN(FI_LOG_EP_DATA, "%s: rma_iov %p with %zu entries; 1 to %zu are possible",
			call->name, (const void *)call->remote, call->remote_count,
			ep->rma_iov_limit);
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < call->remote_count; i++) {
		if (!to_bytes(call->remote[i].count, size, &remote[i].len, call->name))
			return -FI_EINVAL;
		if (remote[i].len > SIZE_MAX - sum) {
			HM_WARN(FI_LOG_EP_DATA, "%s: the remote ranges are longer than memory",
				call->name);
			return -FI_EINVAL;
		}
		remote[i].addr = call->remote[i].addr;
		remote[i].key = call->remote[i].key;
		sum += remote[i].len;
	}
	*len = sum;
	return 0;
}

/* The local lists of one call. */
struct operands {
	struct hm_locals local, result, compare;
};

static int add_operands(struct hm_ep *ep, const struct atomic_call *call, size_t size, size_t len,
			struct operands *o)
{
	bool reads_only = call->op == FI_ATOMIC_READ; /* then the operand is ignored */
	int ret = 0;

	if (!reads_only)
		ret = add_operand(ep, &o->local, call->iov, call->desc, call->count, size, FI_WRITE,
				  call);
	if (ret == 0 && call->kind != NIC_OP_ATOMIC)
		ret = add_operand(ep, &o->result, call->result, call->result_desc,
				  call->result_count, size, FI_READ, call);
	if (ret == 0 && call->kind == NIC_OP_COMPARE)
		ret = add_operand(ep, &o->compare, call->compare, call->compare_desc,
				  call->compare_count, size, FI_WRITE, call);
	if (ret != 0)
		return ret;
	if ((!reads_only && o->local.len != len) ||
	    (call->kind != NIC_OP_ATOMIC && o->result.len != len) ||
	    (call->kind == NIC_OP_COMPARE && o->compare.len != len)) {
		HM_WARN(FI_LOG_EP_DATA,
			"%s: %zu remote bytes; operands, results, compares: %zu %zu %zu",
			call->name, len, o->local.len, o->result.len, o->compare.len);
		return -FI_EINVAL;
	}
	return 0;
}

static ssize_t post(struct hm_ep *ep, const struct atomic_call *call, const struct operands *o,
		    const struct fi_rma_iov *remote, size_t len)
{
	struct nic_wr wr = { .op = call->kind,
			     .datatype = call->datatype,
			     .atomic_op = call->op,
			     .flags = call->flags,
			     .comp_flags = FI_ATOMIC |
					   (call->kind == NIC_OP_ATOMIC ? FI_WRITE : FI_READ),
			     .peer = hm_ep_peer(ep, call->addr, call->name),
			     .local = o->local.seg,
			     .result = o->result.seg,
			     .compare = o->compare.seg,
			     .remote = remote,
			     .local_count = o->local.count,
			     .result_count = o->result.count,
			     .compare_count = o->compare.count,
			     .remote_count = (uint32_t)call->remote_count,
			     .len = len,
			     .context = call->context };

	return wr.peer ? ep->domain->nic->ops->post(ep->nic, &wr) : -FI_EINVAL;
}

static ssize_t run(struct fid_ep *fid, const struct atomic_call *call)
{
	struct hm_ep *ep = hm_ep_of(&fid->fid);
	struct fi_rma_iov remote[NIC_RMA_IOV_MAX];
	struct operands o;
	uint64_t need = FI_ATOMIC | (call->kind == NIC_OP_ATOMIC ? FI_WRITE : FI_READ);
	size_t size, len;
	ssize_t ret = hm_ep_check(ep, need, call->name);

	if (ret == 0)
		ret = offered(ep, call, &size);
	if (ret == 0)
		ret = add_remote(ep, call, size, remote, &len);
	if (ret == 0)
		ret = hm_ep_check_len(ep, len, call->flags, call->name);
	if (ret != 0)
		return ret;
	o.local.count = o.result.count = o.compare.count = 0;
	o.local.len = o.result.len = o.compare.len = 0;
	o.local.bare = o.compare.bare = hm_ep_bare(ep, NIC_LOCAL_ATOMICS, false, 0, call->flags);
	o.result.bare =
		hm_ep_bare(ep, NIC_LOCAL_ATOMICS, false, 0, call->flags & ~(uint64_t)FI_INJECT);
	ret = add_operands(ep, call, size, len, &o);
	if (ret == 0)
		ret = post(ep, call, &o, remote, len);
	hm_locals_release(&o.local);
	hm_locals_release(&o.result);
	hm_locals_release(&o.compare);
	return ret;
}

/* ---- the forms of fi_atomic ---- */

/* Vector on the local side, one range on the other. */
static ssize_t run_v(struct fid_ep *ep, struct atomic_call *call, uint64_t addr, uint64_t key)
{
	struct fi_rma_ioc remote = { addr, 0, key };
	const struct fi_ioc *list = call->kind == NIC_OP_ATOMIC ? call->iov : call->result;
	size_t n = call->kind == NIC_OP_ATOMIC ? call->count : call->result_count;

	/* a sum that overflows does not survive the comparison with the lists */
	for (size_t i = 0; list && i < n && i < NIC_IOV_MAX; i++)
		remote.count += list[i].count;
	call->remote = &remote;
	call->remote_count = 1;
	return run(ep, call);
}

static ssize_t run_msg(struct fid_ep *ep, struct atomic_call *call, const struct fi_msg_atomic *msg,
		       uint64_t flags)
{
	int ret = hm_ep_check_msg(msg, flags, HM_TX_FLAGS & ~FI_REMOTE_CQ_DATA, call->name);

	if (ret != 0)
		return ret;
	call->iov = msg->msg_iov;
	call->desc = msg->desc;
	call->count = msg->iov_count;
	call->remote = msg->rma_iov;
	call->remote_count = msg->rma_iov_count;
	call->addr = msg->addr;
	call->datatype = msg->datatype;
	call->op = msg->op;
	call->context = msg->context;
	call->flags = hm_ep_msg_flags(hm_ep_of(&ep->fid), flags);
	return run(ep, call);
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			     fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct atomic_call call = { .kind = NIC_OP_ATOMIC,
				    .name = "fi_atomic",
				    .iov = iov,
				    .desc = desc,
				    .count = count,
				    .addr = dest_addr,
				    .datatype = datatype,
				    .op = op,
				    .flags = hm_ep_tx_flags(hm_ep_of(&ep->fid)),
				    .context = context };

	return run_v(ep, &call, addr, key);
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			    fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			    enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = { (void *)(uintptr_t)buf, count };

	return atomic_writev(ep, &ioc, &desc, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct atomic_call call = { .kind = NIC_OP_ATOMIC, .name = "fi_atomicmsg" };

	return run_msg(ep, &call, msg, flags);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc ioc = { (void *)(uintptr_t)buf, count };
	struct atomic_call call = { .kind = NIC_OP_ATOMIC,
				    .name = "fi_inject_atomic",
				    .iov = &ioc,
				    .count = 1,
				    .addr = dest_addr,
				    .datatype = datatype,
				    .op = op,
				    .flags = hm_ep_inject_flags(hm_ep_of(&ep->fid), 0) };

	return run_v(ep, &call, addr, key);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	struct atomic_call call = { .kind = NIC_OP_FETCH,
				    .name = "fi_fetch_atomic",
				    .iov = iov,
				    .desc = desc,
				    .count = count,
				    .result = resultv,
				    .result_desc = result_desc,
				    .result_count = result_count,
				    .addr = dest_addr,
				    .datatype = datatype,
				    .op = op,
				    .flags = hm_ep_tx_flags(hm_ep_of(&ep->fid)),
				    .context = context };

	return run_v(ep, &call, addr, key);
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	struct fi_ioc ioc = { (void *)(uintptr_t)buf, count }, res = { result, count };

	return atomic_readwritev(ep, &ioc, &desc, 1, &res, &result_desc, 1, dest_addr, addr, key,
				 datatype, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	struct atomic_call call = { .kind = NIC_OP_FETCH,
				    .name = "fi_fetch_atomicmsg",
				    .result = resultv,
				    .result_desc = result_desc,
				    .result_count = result_count };

	return run_msg(ep, &call, msg, flags);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *comparev, void **compare_desc,
				 size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	struct atomic_call call = { .kind = NIC_OP_COMPARE,
				    .name = "fi_compare_atomic",
				    .iov = iov,
				    .desc = desc,
				    .count = count,
				    .result = resultv,
				    .result_desc = result_desc,
				    .result_count = result_count,
				    .compare = comparev,
				    .compare_desc = compare_desc,
				    .compare_count = compare_count,
				    .addr = dest_addr,
				    .datatype = datatype,
				    .op = op,
				    .flags = hm_ep_tx_flags(hm_ep_of(&ep->fid)),
				    .context = context };

	return run_v(ep, &call, addr, key);
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result,
				void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = { (void *)(uintptr_t)buf, count }, res = { result, count },
		      cmp = { (void *)(uintptr_t)compare, count };

	return atomic_compwritev(ep, &ioc, &desc, 1, &cmp, &compare_desc, 1, &res, &result_desc, 1,
				 dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	struct atomic_call call = { .kind = NIC_OP_COMPARE,
				    .name = "fi_compare_atomicmsg",
				    .result = resultv,
				    .result_desc = result_desc,
				    .result_count = result_count,
				    .compare = comparev,
				    .compare_desc = compare_desc,
				    .compare_count = compare_count };

	return run_msg(ep, &call, msg, flags);
}

/* ---- what is offered ---- */

static int valid(struct hm_domain *domain, enum nic_op kind, enum fi_datatype datatype,
		 enum fi_op op, struct fi_atomic_attr *attr)
{
	size_t count, size;
	int ret = domain->nic->ops->atomic_valid(domain->nic, kind, datatype, op, &count, &size);

	if (ret == 0) {
		attr->count = count;
		attr->size = size;
	}
	return ret;
}

static int ep_valid(struct fid_ep *ep, enum nic_op kind, enum fi_datatype datatype, enum fi_op op,
		    size_t *count)
{
	struct fi_atomic_attr attr;
	int ret = valid(hm_ep_of(&ep->fid)->domain, kind, datatype, op, &attr);

	if (ret == 0 && count)
		*count = attr.count;
	return ret;
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
			     size_t *count)
{
	return ep_valid(ep, NIC_OP_ATOMIC, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	return ep_valid(ep, NIC_OP_FETCH, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	return ep_valid(ep, NIC_OP_COMPARE, datatype, op, count);
}

int hm_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
		    struct fi_atomic_attr *attr, uint64_t flags)
{
	struct hm_domain *domain = hm_domain_of(&fid->fid);
	enum nic_op kind = NIC_OP_ATOMIC;

	if (!attr || (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) ||
	    flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) {
		HM_WARN(FI_LOG_DOMAIN, "fi_query_atomic: no result, or flags 0x%lx",
			(unsigned long)flags);
		return attr ? -FI_EBADFLAGS : -FI_EINVAL;
	}
	if (flags & FI_FETCH_ATOMIC)
		kind = NIC_OP_FETCH;
	if (flags & FI_COMPARE_ATOMIC)
		kind = NIC_OP_COMPARE;
	return valid(domain, kind, datatype, op, attr);
}

struct fi_ops_atomic hm_ep_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};
