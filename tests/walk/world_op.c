/* SPDX-License-Identifier: BSD-2-Clause */
/* The library's side: RMA, atomics and messages, each by all calls that there are for it. */
#include "tests/walk/world.h"

#include <string.h>

/* The arguments in the forms that the calls want. */
struct args {
	struct fid_ep *ep;
	fi_addr_t to;
	void *context;
	uint32_t segs, remotes;
	struct iovec iov[WALK_IOV];
	struct fi_ioc ioc[WALK_IOV];
	void *desc[WALK_IOV];
	struct fi_rma_iov rma[WALK_IOV];
	struct fi_rma_ioc rma_ioc[WALK_IOV];
};

static void *desc_of(const struct world *w, const struct walk_seg *seg)
{
	switch (seg->desc) {
	case WALK_DESC_MR:
		return w->desc[seg->mr];
	case WALK_DESC_BOGUS:
		return (void *)(uintptr_t)UINT64_C(0x123456789abcdef0);
	default:
		return NULL;
	}
}

static uint64_t key_of(const struct world *w, const struct walk_remote *r)
{
	switch (r->how) {
	case WALK_KEY_OF:
		return w->key[r->slot];
	case WALK_KEY_MAPPED:
		return w->map_key[r->slot];
	default:
		return r->number;
	}
}

static void fill(const struct world *w, const struct walk_call *c, size_t size, struct args *a)
{
	a->ep = w->ep[c->ep];
	a->context = (void *)(uintptr_t)c->context;
	a->segs = c->count_limit ? WALK_IOV : c->segs;
	a->remotes = c->remotes;
	for (uint32_t i = 0; i < a->segs; i++) {
		const struct walk_seg *seg = &c->seg[i < c->segs ? i : 0];
		uint64_t len = i < c->segs ? seg->range.len : 0;

		a->iov[i] = (struct iovec){ world_at(w, seg->range.at), len };
		a->ioc[i] = (struct fi_ioc){ a->iov[i].iov_base, len / size };
		a->desc[i] = desc_of(w, seg);
	}
	for (uint32_t i = 0; i < c->remotes; i++) {
		const struct walk_remote *r = &c->remote[i];
		uint64_t addr = r->addr + (r->virt ? (uintptr_t)w->memory : 0);

		a->rma[i] = (struct fi_rma_iov){ addr, r->len, key_of(w, r) };
		a->rma_ioc[i] = (struct fi_rma_ioc){ addr, r->len / size, a->rma[i].key };
	}
}

/* ---- RMA ---- */

static ssize_t read_call(const struct walk_call *c, struct args *a)
{
	struct fi_msg_rma msg = { a->iov, a->desc,    a->segs,	  a->to,
				  a->rma, a->remotes, a->context, c->data };

	switch (c->form) {
	case WALK_FORM_V:
		return fi_readv(a->ep, a->iov, a->desc, a->segs, a->to, a->rma[0].addr,
				a->rma[0].key, a->context);
	case WALK_FORM_MSG:
		return fi_readmsg(a->ep, &msg, c->flags);
	default:
		return fi_read(a->ep, a->iov[0].iov_base, a->iov[0].iov_len, a->desc[0], a->to,
			       a->rma[0].addr, a->rma[0].key, a->context);
	}
}

static ssize_t write_call(const struct walk_call *c, struct args *a)
{
	struct fi_msg_rma msg = { a->iov, a->desc,    a->segs,	  a->to,
				  a->rma, a->remotes, a->context, c->data };

	switch (c->form) {
	case WALK_FORM_V:
		return fi_writev(a->ep, a->iov, a->desc, a->segs, a->to, a->rma[0].addr,
				 a->rma[0].key, a->context);
	case WALK_FORM_MSG:
		return fi_writemsg(a->ep, &msg, c->flags);
	case WALK_FORM_DATA:
		return fi_writedata(a->ep, a->iov[0].iov_base, a->iov[0].iov_len, a->desc[0],
				    c->data, a->to, a->rma[0].addr, a->rma[0].key, a->context);
	case WALK_FORM_INJECT:
		return fi_inject_write(a->ep, a->iov[0].iov_base, a->iov[0].iov_len, a->to,
				       a->rma[0].addr, a->rma[0].key);
	default:
		return fi_write(a->ep, a->iov[0].iov_base, a->iov[0].iov_len, a->desc[0], a->to,
				a->rma[0].addr, a->rma[0].key, a->context);
	}
}

/* ---- atomics ---- */

/* The lists of results and of what is compared with: one entry each. */
struct lists {
	struct fi_ioc result, compare;
	void *result_desc, *compare_desc;
};

static ssize_t plain_atomic(const struct walk_call *c, struct args *a)
{
	struct fi_msg_atomic msg = { a->ioc,	 a->desc,     a->segs, a->to,	   a->rma_ioc,
				     a->remotes, c->datatype, c->op,   a->context, c->data };
	const struct fi_rma_ioc *r = a->rma_ioc;

	switch (c->form) {
	case WALK_FORM_V:
		return fi_atomicv(a->ep, a->ioc, a->desc, a->segs, a->to, r->addr, r->key,
				  c->datatype, c->op, a->context);
	case WALK_FORM_MSG:
		return fi_atomicmsg(a->ep, &msg, c->flags);
	case WALK_FORM_INJECT:
		return fi_inject_atomic(a->ep, a->ioc[0].addr, a->ioc[0].count, a->to, r->addr,
					r->key, c->datatype, c->op);
	default:
		return fi_atomic(a->ep, a->ioc[0].addr, a->ioc[0].count, a->desc[0], a->to, r->addr,
				 r->key, c->datatype, c->op, a->context);
	}
}

static ssize_t fetch_atomic(const struct walk_call *c, struct args *a, struct lists *l)
{
	struct fi_msg_atomic msg = { a->ioc,	 a->desc,     a->segs, a->to,	   a->rma_ioc,
				     a->remotes, c->datatype, c->op,   a->context, c->data };
	const struct fi_rma_ioc *r = a->rma_ioc;

	switch (c->form) {
	case WALK_FORM_V:
		return fi_fetch_atomicv(a->ep, a->ioc, a->desc, a->segs, &l->result,
					&l->result_desc, 1, a->to, r->addr, r->key, c->datatype,
					c->op, a->context);
	case WALK_FORM_MSG:
		return fi_fetch_atomicmsg(a->ep, &msg, &l->result, &l->result_desc, 1, c->flags);
	default:
		return fi_fetch_atomic(a->ep, a->ioc[0].addr, a->ioc[0].count, a->desc[0],
				       l->result.addr, l->result_desc, a->to, r->addr, r->key,
				       c->datatype, c->op, a->context);
	}
}

static ssize_t compare_atomic(const struct walk_call *c, struct args *a, struct lists *l)
{
	struct fi_msg_atomic msg = { a->ioc,	 a->desc,     a->segs, a->to,	   a->rma_ioc,
				     a->remotes, c->datatype, c->op,   a->context, c->data };
	const struct fi_rma_ioc *r = a->rma_ioc;

	switch (c->form) {
	case WALK_FORM_V:
		return fi_compare_atomicv(a->ep, a->ioc, a->desc, a->segs, &l->compare,
					  &l->compare_desc, 1, &l->result, &l->result_desc, 1,
					  a->to, r->addr, r->key, c->datatype, c->op, a->context);
	case WALK_FORM_MSG:
		return fi_compare_atomicmsg(a->ep, &msg, &l->compare, &l->compare_desc, 1,
					    &l->result, &l->result_desc, 1, c->flags);
	default:
		return fi_compare_atomic(a->ep, a->ioc[0].addr, a->ioc[0].count, a->desc[0],
					 l->compare.addr, l->compare_desc, l->result.addr,
					 l->result_desc, a->to, r->addr, r->key, c->datatype, c->op,
					 a->context);
	}
}

static size_t size_of(enum fi_datatype datatype)
{
	static const size_t size[] = { 1, 1, 2, 2, 4, 4, 8, 8 };

	return size[datatype - FI_INT8];
}

static ssize_t atomic_call(const struct world *w, const struct walk_call *c, struct args *a)
{
	size_t size = size_of(c->datatype);
	struct lists l = {
		.result = { world_at(w, c->result.range.at), c->result.range.len / size },
		.compare = { world_at(w, c->compare.range.at), c->compare.range.len / size },
		.result_desc = desc_of(w, &c->result),
		.compare_desc = desc_of(w, &c->compare),
	};

	if (c->atomic == 0)
		return plain_atomic(c, a);
	return c->atomic == 1 ? fetch_atomic(c, a, &l) : compare_atomic(c, a, &l);
}

/* ---- messages ---- */

static ssize_t send_call(const struct walk_call *c, struct args *a)
{
	struct fi_msg msg = { a->iov, a->desc, a->segs, a->to, a->context, c->data };

	switch (c->form) {
	case WALK_FORM_V:
		return fi_sendv(a->ep, a->iov, a->desc, a->segs, a->to, a->context);
	case WALK_FORM_MSG:
		return fi_sendmsg(a->ep, &msg, c->flags);
	case WALK_FORM_DATA:
		return fi_senddata(a->ep, a->iov[0].iov_base, a->iov[0].iov_len, a->desc[0],
				   c->data, a->to, a->context);
	case WALK_FORM_INJECT:
		return fi_inject(a->ep, a->iov[0].iov_base, a->iov[0].iov_len, a->to);
	default:
		return fi_send(a->ep, a->iov[0].iov_base, a->iov[0].iov_len, a->desc[0], a->to,
			       a->context);
	}
}

static ssize_t recv_call(const struct walk_call *c, struct args *a)
{
	struct fi_msg msg = { a->iov, a->desc, a->segs, FI_ADDR_UNSPEC, a->context, 0 };

	switch (c->form) {
	case WALK_FORM_V:
		return fi_recvv(a->ep, a->iov, a->desc, a->segs, FI_ADDR_UNSPEC, a->context);
	case WALK_FORM_MSG:
		return fi_recvmsg(a->ep, &msg, c->flags);
	default:
		return fi_recv(a->ep, a->iov[0].iov_base, a->iov[0].iov_len, a->desc[0],
			       FI_ADDR_UNSPEC, a->context);
	}
}

void world_operate(struct world *w, const struct walk_call *c, struct world_result *r)
{
	struct args a;

	fill(w, c, c->kind == WALK_ATOMIC ? size_of(c->datatype) : 1, &a);
	a.to = w->addr[w->ep_domain[c->ep]][c->to];
	switch (c->kind) {
	case WALK_RMA:
		r->ret = c->reads ? read_call(c, &a) : write_call(c, &a);
		break;
	case WALK_ATOMIC:
		r->ret = atomic_call(w, c, &a);
		break;
	case WALK_SEND:
		r->ret = send_call(c, &a);
		break;
	case WALK_RECV:
		r->ret = recv_call(c, &a);
		break;
	default:
		r->ret = fi_cancel(&a.ep->fid, a.context);
		break;
	}
}
