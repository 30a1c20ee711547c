/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: see rma_ops.h. */
#define _POSIX_C_SOURCE 200809L

#include "rma_ops.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "rma.h"
#include "rma_time.h"

#define MOST_CALLS 8 /* for one operation, where a call moves little */

const struct rma_kind_names rma_kinds[RMA_KINDS] = {
	[KIND_WRITE] = { "write", "fi_write", RMA_OP_WRITE },
	[KIND_READ] = { "read", "fi_read", RMA_OP_READ },
	[KIND_SUM] = { "atomic sum", "fi_atomic", RMA_OP_ATOMIC },
	[KIND_BXOR] = { "atomic bxor", "fi_atomic", RMA_OP_ATOMIC },
	[KIND_FETCH_SUM] = { "fetch sum", "fi_fetch_atomic", RMA_OP_ATOMIC },
	[KIND_SWAP] = { "compare swap", "fi_compare_atomic", RMA_OP_ATOMIC },
};

bool rma_kind_fits(enum rma_kind kind, size_t size)
{
	switch (kind) {
	case KIND_WRITE:
	case KIND_READ:
		return true;
	case KIND_SUM:
	case KIND_BXOR:
		return size % 8 == 0;
	default:
		return size == 8;
	}
}

bool rma_kind_offered(const struct rma_path *path, enum rma_kind kind, size_t size)
{
	return path->chunk[kind] && size / path->chunk[kind] <= MOST_CALLS;
}

/* Start the operation on len bytes from offset on. */
static ssize_t post(struct rma_path *p, enum rma_kind kind, size_t offset, size_t len)
{
	struct fid_ep *ep = p->end->ep;
	fi_addr_t peer = p->end->peer;
	void *desc = p->no_desc ? NULL : fi_mr_desc(p->data_mr);
	void *words_desc = p->no_desc ? NULL : fi_mr_desc(p->words_mr);
	uint8_t *data = p->data + offset;
	uint64_t address = p->address + offset;

	switch (kind) {
	case KIND_WRITE:
		return fi_write(ep, data, len, desc, peer, address, p->key, NULL);
	case KIND_READ:
		return fi_read(ep, data, len, desc, peer, address, p->key, NULL);
	case KIND_SUM:
		return fi_atomic(ep, data, len / 8, desc, peer, address, p->key, FI_UINT64, FI_SUM,
				 NULL);
	case KIND_BXOR:
		return fi_atomic(ep, data, len / 8, desc, peer, address, p->key, FI_UINT64, FI_BXOR,
				 NULL);
	case KIND_FETCH_SUM:
		return fi_fetch_atomic(ep, data, len / 8, desc, &p->words->result, words_desc, peer,
				       address, p->key, FI_UINT64, FI_SUM, NULL);
	default:
		return fi_compare_atomic(ep, data, len / 8, desc, &p->words->compare, words_desc,
					 &p->words->result, words_desc, peer, address, p->key,
					 FI_UINT64, FI_CSWAP, NULL);
	}
}

/* Wait for count operations that are under way. */
static int finish(struct rma_path *p, enum rma_kind kind, size_t count)
{
	int ret = 0;

	for (; !ret && count; count--)
		ret = sample_finish(p->end, rma_kinds[kind].call, 0);
	return ret;
}

/*
 * post(), again and again while the NIC has no room: each completion makes some.  *under_way counts
 * the operations that have not been waited for.
 */
static int post_patiently(struct rma_path *p, enum rma_kind kind, size_t offset, size_t len,
			  size_t *under_way)
{
	uint64_t give_up = 0;
	ssize_t ret;

	while ((ret = post(p, kind, offset, len)) == -FI_EAGAIN) {
		if (*under_way) {
			ret = finish(p, kind, 1);
			if (ret)
				return (int)ret;
			--*under_way;
		} else if (!give_up) {
			give_up = now_ns() + sample_timeout_s * UINT64_C(1000000000);
		} else if (now_ns() > give_up) {
			break;
		}
	}
	if (ret)
		return sample_fail(rma_kinds[kind].call, ret);
	++*under_way;
	return 0;
}

int rma_transfer(struct rma_path *path, enum rma_kind kind, size_t size, unsigned int n,
		 bool pipelined)
{
	size_t offset, len, under_way = 0;
	int ret;

	for (; n; n--) {
		for (offset = 0; offset < size; offset += len) {
			len = size - offset < path->chunk[kind] ? size - offset : path->chunk[kind];
			ret = post_patiently(path, kind, offset, len, &under_way);
			if (!ret && !pipelined) {
				ret = finish(path, kind, under_way);
				under_way = 0;
			}
			if (ret)
				return ret;
		}
	}
	return finish(path, kind, under_way);
}

/* What a query of the interface said: words that one call takes, 0 where it is not offered. */
static int words_of(const char *call, int ret, size_t count, size_t *bytes)
{
	*bytes = ret ? 0 : count * 8;
	return ret && ret != -FI_EOPNOTSUPP ? sample_fail(call, ret) : 0;
}

int rma_find_limits(struct rma_path *path, unsigned int ops)
{
	struct fid_ep *ep = path->end->ep;
	size_t max = path->end->info->ep_attr->max_msg_size, count = 0, i;
	int ret;

	path->chunk[KIND_WRITE] = path->chunk[KIND_READ] = max ? max : SIZE_MAX;
	for (i = KIND_SUM; i < RMA_KINDS; i++)
		path->chunk[i] = 0;
	if (!(ops & RMA_OP_ATOMIC))
		return 0;
	ret = fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count);
	ret = words_of("fi_atomicvalid", ret, count, &path->chunk[KIND_SUM]);
	if (ret)
		return ret;
	ret = fi_atomicvalid(ep, FI_UINT64, FI_BXOR, &count);
	ret = words_of("fi_atomicvalid", ret, count, &path->chunk[KIND_BXOR]);
	if (ret)
		return ret;
	ret = fi_fetch_atomicvalid(ep, FI_UINT64, FI_SUM, &count);
	ret = words_of("fi_fetch_atomicvalid", ret, count, &path->chunk[KIND_FETCH_SUM]);
	if (ret)
		return ret;
	ret = fi_compare_atomicvalid(ep, FI_UINT64, FI_CSWAP, &count);
	return words_of("fi_compare_atomicvalid", ret, count, &path->chunk[KIND_SWAP]);
}
