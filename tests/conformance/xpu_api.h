/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs about XPU contexts share: contexts whose memory operations say that the host's addresses are
 * the device's, count, and fail on demand; and an endpoint, a queue and a counter of a context.
 */
#ifndef CONF_XPU_API_H
#define CONF_XPU_API_H

#include <stdatomic.h>

#include <rdma/fi_xpu.h>

#include "tests/conformance/harness.h"
#include "tests/threads.h"

#define XPU_ROOM      256
#define XPU_UNTOUCHED ((void *)(uintptr_t)0x5a5a5a5a)

struct xpu_counts {
	unsigned imports, frees;
};

static atomic_uint xpu_imports, xpu_frees;
static atomic_int xpu_fail_at = -1,
		  xpu_fail_answer; /* which import from now on, and what it answers */

static int xpu_import(uint64_t device, void *host_addr, uint64_t size, uint64_t flags, void **ptr)
{
	(void)device;
	if (!host_addr || !size || !(flags & FI_XPU_IMPORT_DEVICEMAP))
		return -FI_EINVAL;
	if (atomic_load(&xpu_fail_at) >= 0 && atomic_fetch_sub(&xpu_fail_at, 1) == 0)
		return atomic_load(&xpu_fail_answer);
	atomic_fetch_add(&xpu_imports, 1);
	*ptr = host_addr;
	return 0;
}

static void xpu_free(uint64_t device, void *ptr)
{
	(void)device;
	(void)ptr;
	atomic_fetch_add(&xpu_frees, 1);
}

static inline struct fi_xpu_ops *xpu_ops(void)
{
	static struct fi_xpu_ops ops = { .size = sizeof(ops),
					 .import = xpu_import,
					 .free = xpu_free };

	return &ops;
}

static inline struct fi_xpu_attr xpu_attr(void)
{
	return (struct fi_xpu_attr){ .iface = FI_HMEM_SYSTEM, .ops = xpu_ops() };
}

/* Imports that were not freed. */
static inline unsigned xpu_living(void)
{
	return atomic_load(&xpu_imports) - atomic_load(&xpu_frees);
}

/* The call-th import from now on, from 0, answers this; negative: none. */
static inline void xpu_fail(int call, int answer)
{
	atomic_store(&xpu_fail_answer, answer);
	atomic_store(&xpu_fail_at, call);
}

static inline bool xpu_failed(void)
{
	return atomic_exchange(&xpu_fail_at, -1) < 0;
}

static inline struct conf_end *xpu_open(struct conf *c)
{
	conf_need_caps(c, FI_XPU);
	return conf_open(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_XPU });
}

static inline struct fid_xpu_ctx *xpu_ctx(struct conf_end *end)
{
	struct fi_xpu_attr attr = xpu_attr();
	struct fid_xpu_ctx *ctx;

	assert_ok(fi_xpu_ctx(end->domain, &attr, &ctx, end));
	return ctx;
}

static inline struct fid_cq *xpu_cq(struct conf_end *end, struct fid_xpu_ctx *ctx)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD, .flags = FI_XPU, .xpu_ctx = ctx
	};
	struct fid_cq *cq;

	assert_ok(fi_cq_open(end->domain, &attr, &cq, end));
	return cq;
}

static inline struct fid_cntr *xpu_cntr(struct conf_end *end, struct fid_xpu_ctx *ctx)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_FD, .flags = FI_XPU, .xpu_ctx = ctx };
	struct fid_cntr *cntr;

	assert_ok(fi_cntr_open(end->domain, &attr, &cntr, end));
	return cntr;
}

/* Not bound to anything; owned by the caller, as the rest. */
static inline struct fid_ep *xpu_ep(struct conf_end *end, struct fid_xpu_ctx *ctx)
{
	struct fi_info *info = fi_dupinfo(end->info);
	struct fid_ep *ep;

	assert_non_null(info);
	info->ep_attr->xpu_ctx = ctx;
	assert_ok(fi_endpoint2(end->domain, info, &ep, FI_XPU, end));
	fi_freeinfo(info);
	return ep;
}

struct xpu_set {
	struct conf_end *end;
	struct fid_xpu_ctx *ctx;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_ep *ep; /* bound to these and the end's vector, enabled */
};

static inline void xpu_set_open(struct conf_end *end, struct fid_xpu_ctx *ctx, struct xpu_set *set)
{
	*set = (struct xpu_set){ end, ctx, xpu_cq(end, ctx), xpu_cntr(end, ctx), xpu_ep(end, ctx) };
	assert_ok(fi_ep_bind(set->ep, &end->av->fid, 0));
	assert_ok(fi_ep_bind(set->ep, &set->cq->fid, FI_TRANSMIT | FI_RECV));
	assert_ok(fi_ep_bind(set->ep, &set->cntr->fid, FI_WRITE | FI_SEND));
	assert_ok(fi_enable(set->ep));
}

static inline void xpu_set_close(struct xpu_set *set)
{
	assert_ok(fi_close(&set->ep->fid));
	assert_ok(fi_close(&set->cntr->fid));
	assert_ok(fi_close(&set->cq->fid));
}

/* A set of the context's is made, exported as a whole, and closed. */
static inline void xpu_exports(struct conf_end *end, struct fid_xpu_ctx *ctx)
{
	struct fid_xpu_ep ep = { 0 };
	struct fid_xpu_cq cq = { 0 };
	struct fid_xpu_cntr cntr = { 0 };
	struct xpu_set set;

	xpu_set_open(end, ctx, &set);
	assert_ok(fi_cq_export_xpu(set.cq, 0, &cq));
	assert_ok(fi_cntr_export_xpu(set.cntr, 0, &cntr));
	assert_ok(fi_ep_export_xpu(set.ep, 0, &ep));
	assert_int_equal(ep.fid.fclass, FI_CLASS_EP);
	assert_int_equal(cq.fid.fclass, FI_CLASS_CQ);
	assert_int_equal(cntr.fid.fclass, FI_CLASS_CNTR);
	assert_true(ep.fid.prov_ctx && cq.fid.prov_ctx && cntr.fid.prov_ctx);
	assert_int_equal(ep.fid.prov_id, cq.fid.prov_id);
	assert_int_equal(ep.fid.prov_id, cntr.fid.prov_id);
	xpu_set_close(&set);
}

#endif
