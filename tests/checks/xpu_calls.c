/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every call of rdma/fi_xpu_device.h, for compilers of devices (xpu_device.sh).  KERNEL is what a kernel's definition
 * begins with; scope is known to the compiler or not.
 */
#include <rdma/fi_xpu_device.h>

#ifndef KERNEL
#define KERNEL void
#endif

struct calls {
	struct fid_xpu_ep *ep;
	struct fid_xpu_cq *cq;
	struct fid_xpu_cntr *cntr;
	void *buf, *desc, *peer, *result;
	int64_t *ret;
	int scope;
};

FI_XPU_FUNC void make_requests(const struct calls *c)
{
	c->ret[0] = fi_xpu_write(c->ep, c->buf, 8, c->desc, 1, c->peer, 2, 3, c->buf, 0, c->scope);
	c->ret[1] = fi_xpu_read(c->ep, c->buf, 8, c->desc, c->peer, 2, 3, c->buf, 0, c->scope);
	c->ret[2] = fi_xpu_send(c->ep, c->buf, 8, c->desc, 1, c->peer, c->buf, 0, c->scope);
	c->ret[3] = fi_xpu_recv(c->ep, c->buf, 8, c->desc, c->peer, c->buf, 0, c->scope);
	c->ret[4] = fi_xpu_tsend(c->ep, c->buf, 8, c->desc, 1, c->peer, 4, c->buf, 0, c->scope);
	c->ret[5] = fi_xpu_trecv(c->ep, c->buf, 8, c->desc, c->peer, 4, 5, c->buf, 0, c->scope);
	c->ret[6] =
		fi_xpu_atomic(c->ep, c->buf, 1, c->desc, c->peer, 2, 3, 6, 7, c->buf, 0, c->scope);
	c->ret[7] = fi_xpu_fetch_atomic(c->ep, c->buf, 1, c->desc, c->result, c->desc, c->peer, 2,
					3, 6, 7, c->buf, 0, c->scope);
	c->ret[8] = fi_xpu_compare_atomic(c->ep, c->buf, 1, c->desc, c->buf, c->desc, c->result,
					  c->desc, c->peer, 2, 3, 6, 7, c->buf, 0, c->scope);
}

FI_XPU_FUNC void read_queue(const struct calls *c)
{
	c->ret[0] = fi_xpu_cq_read(c->cq, c->buf, 4, c->scope);
	c->ret[1] = fi_xpu_cq_readfrom(c->cq, c->buf, 4, c->result, c->scope);
	c->ret[2] = fi_xpu_cq_readerr(c->cq, c->buf, 0, c->scope);
	c->ret[3] = fi_xpu_cq_sread(c->cq, c->buf, 4, 2, c->scope);
	c->ret[4] = fi_xpu_cq_sreadfrom(c->cq, c->buf, 4, c->result, 2, c->scope);
}

FI_XPU_FUNC void use_counter(const struct calls *c)
{
	c->ret[0] = (int64_t)fi_xpu_cntr_read(c->cntr, c->scope);
	c->ret[1] = (int64_t)fi_xpu_cntr_readerr(c->cntr, c->scope);
	fi_xpu_cntr_wait(c->cntr, 5, 10, c->scope);
	c->ret[2] = fi_xpu_cntr_add(c->cntr, 1, c->scope);
	c->ret[3] = fi_xpu_cntr_set(c->cntr, 1, c->scope);
	c->ret[4] = fi_xpu_cntr_adderr(c->cntr, 1, c->scope);
	c->ret[5] = fi_xpu_cntr_seterr(c->cntr, 1, c->scope);
}

KERNEL requests(struct calls c);
KERNEL requests(struct calls c)
{
	make_requests(&c);
}

KERNEL queue(struct calls c);
KERNEL queue(struct calls c)
{
	read_queue(&c);
}

KERNEL counter(struct calls c);
KERNEL counter(struct calls c)
{
	use_counter(&c);
}

#ifdef SMALL_ENTRIES
/* A program's entries are no larger than its format: a compiler that sees both must find nothing wrong. */
KERNEL small_entries(struct calls c);
KERNEL small_entries(struct calls c)
{
	uint64_t context_entry, data_entry[5];

	c.ret[0] = fi_xpu_cq_read(c.cq, &context_entry, 1, FI_XPU_WORK_ITEM);
	c.ret[1] = fi_xpu_cq_readfrom(c.cq, data_entry, 1, c.result, FI_XPU_WORK_ITEM);
	c.ret[2] = (int64_t)(context_entry + data_entry[4]);
}
#endif

/* One call each, by a scope that is known. */
KERNEL write_by_thread(struct calls c);
KERNEL write_by_thread(struct calls c)
{
	c.ret[0] =
		fi_xpu_write(c.ep, c.buf, 8, c.desc, 1, c.peer, 2, 3, c.buf, 0, FI_XPU_WORK_ITEM);
}

KERNEL write_by_subgroup(struct calls c);
KERNEL write_by_subgroup(struct calls c)
{
	c.ret[0] = fi_xpu_write(c.ep, c.buf, 8, c.desc, 1, c.peer, 2, 3, c.buf, 0, FI_XPU_SUBGROUP);
}

KERNEL write_by_group(struct calls c);
KERNEL write_by_group(struct calls c)
{
	c.ret[0] =
		fi_xpu_write(c.ep, c.buf, 8, c.desc, 1, c.peer, 2, 3, c.buf, 0, FI_XPU_WORK_GROUP);
}

KERNEL write_by_device(struct calls c);
KERNEL write_by_device(struct calls c)
{
	c.ret[0] = fi_xpu_write(c.ep, c.buf, 8, c.desc, 1, c.peer, 2, 3, c.buf, 0, FI_XPU_DEVICE);
}
