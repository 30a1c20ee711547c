/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XPU contexts, what belongs to them and what is exported of that, the host's side: XPU-01 to XPU-07, API-17.
 * No device runs here: the test's memory operations say that the host's addresses are the device's.
 */
#include <pthread.h>

#include "tests/conformance/harness.h"
#include "tests/conformance/xpu_api.h"

#define LEN 4096

/* ---- XPU-01 ---- */

static struct fi_info *ask(struct conf *c, uint32_t version, uint64_t caps, size_t contexts,
			   int want)
{
	struct fi_info *hints = conf_hints(c->profile->name, &(struct conf_opts){ .caps = caps });
	struct fi_info *info = NULL;

	hints->domain_attr->max_xpu_ctx_cnt = contexts;
	assert_answer(fi_getinfo(version, NULL, NULL, 0, hints, &info), want);
	fi_freeinfo(hints);
	return info;
}

static void xpu_01_offered_to_who_asks(struct conf *c)
{
	struct fi_info *info = ask(c, CONF_VERSION, CONF_CAPS, 0, 0);
	size_t most = info->domain_attr->max_xpu_ctx_cnt;

	assert_true(most > 0);
	assert_false(
		(info->caps | info->tx_attr->caps | info->rx_attr->caps | info->domain_attr->caps) &
		FI_XPU);
	fi_freeinfo(info);
	info = ask(c, CONF_VERSION, CONF_CAPS | FI_XPU, most, 0);
	assert_true(info->caps & info->tx_attr->caps & info->rx_attr->caps &
		    info->domain_attr->caps & FI_XPU);
	fi_freeinfo(info);
	ask(c, CONF_VERSION, CONF_CAPS | FI_XPU, most + 1, -FI_ENODATA);
	/* interfaces that do not know it */
	ask(c, FI_VERSION(2, 5), CONF_CAPS | FI_XPU, 0, -FI_ENODATA);
	info = ask(c, FI_VERSION(2, 5), CONF_CAPS, most + 1, 0); /* whose attributes end before */
	assert_int_equal(info->domain_attr->max_xpu_ctx_cnt, 0);
	fi_freeinfo(info);
}

static void xpu_01_as_many_as_told(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	size_t most = end->info->domain_attr->max_xpu_ctx_cnt, before = test_threads();
	struct fid_xpu_ctx *ctx[128], *more = XPU_UNTOUCHED;
	struct fi_xpu_attr attr = xpu_attr();

	assert_in_range(most, 1, 128);
	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < most; i++) {
			ctx[i] = xpu_ctx(end);
			assert_int_equal(ctx[i]->fid.fclass, FI_CLASS_XPU_CTX);
			for (size_t j = 0; j < i; j++)
				assert_ptr_not_equal(ctx[i], ctx[j]);
		}
		assert_refused_with(fi_xpu_ctx(end->domain, &attr, &more, c), -FI_ENOSPC,
				    "max_xpu_ctx_cnt");
		assert_ptr_equal(more, XPU_UNTOUCHED);
		assert_true(test_threads_back(before)); /* nothing is exported */
		for (size_t i = 0; i < most; i++)
			assert_ok(fi_close(&ctx[(i * 7) % most]->fid));
	}
}

/* The first contexts of a domain, by several threads at once. */
struct openers {
	struct conf_end *end;
	pthread_barrier_t start;
};

static void *open_some(void *arg)
{
	struct openers *openers = arg;
	struct fi_xpu_attr attr = xpu_attr();
	struct fid_xpu_ctx *some[4];

	pthread_barrier_wait(&openers->start);
	for (int again = 0; again < 50; again++) {
		for (int i = 0; i < 4; i++)
			if (fi_xpu_ctx(openers->end->domain, &attr, &some[i], NULL) != 0)
				return "cannot be opened";
		for (int i = 0; i < 4; i++)
			if (fi_close(&some[i]->fid) != 0)
				return "cannot be closed";
	}
	return NULL;
}

static void xpu_01_by_many_threads(struct conf *c)
{
	struct openers openers = { .end = xpu_open(c) };
	pthread_t thread[8];

	pthread_barrier_init(&openers.start, NULL, 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, open_some, &openers), 0);
	for (int i = 0; i < 8; i++) {
		void *why;

		pthread_join(thread[i], &why);
		assert_null(why);
	}
	pthread_barrier_destroy(&openers.start);
}

static void xpu_01_domain_waits_for_contexts(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_domain *domain;
	struct fid_xpu_ctx *ctx;
	struct fi_xpu_attr attr = xpu_attr();

	assert_ok(fi_domain(end->fabric, end->info, &domain, NULL));
	assert_ok(fi_xpu_ctx(domain, &attr, &ctx, c));
	assert_ptr_equal(ctx->fid.context, c);
	assert_refused_with(fi_close(&domain->fid), -FI_EBUSY, "domain");
	assert_ok(fi_close(&ctx->fid));
	assert_ok(fi_close(&domain->fid));
}

/* The domain alone may ask: for contexts, not for endpoints of theirs. */
static void xpu_01_asked_of_the_domain(struct conf *c)
{
	struct fi_info *hints, *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_xpu_ctx *ctx;
	struct fi_xpu_attr attr = xpu_attr();
	struct fid_ep *ep = XPU_UNTOUCHED;

	conf_need_caps(c, FI_XPU);
	hints = conf_hints(c->profile->name, &(struct conf_opts){ 0 });
	hints->domain_attr->caps = FI_XPU;
	assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	assert_true(info->domain_attr->caps & FI_XPU);
	assert_false(info->caps & FI_XPU);
	assert_ok(fi_fabric(info->fabric_attr, &fabric, NULL));
	assert_ok(fi_domain(fabric, info, &domain, NULL));
	assert_ok(fi_xpu_ctx(domain, &attr, &ctx, NULL));
	info->ep_attr->xpu_ctx = ctx;
	assert_refused_with(fi_endpoint2(domain, info, &ep, FI_XPU, NULL), -FI_EINVAL,
			    "capabilities");
	assert_ptr_equal(ep, XPU_UNTOUCHED);
	info->caps |= FI_XPU;
	assert_ok(fi_endpoint2(domain, info, &ep, FI_XPU, NULL));
	assert_ok(fi_close(&ep->fid));
	fi_freeinfo(info);
	assert_ok(fi_close(&ctx->fid));
	assert_ok(fi_close(&domain->fid));
	assert_ok(fi_close(&fabric->fid));
}

static void xpu_01_bad_input(struct conf *c)
{
	struct conf_end *end = xpu_open(c), *plain = conf_open(c, NULL);
	struct fid_xpu_ctx *ctx = XPU_UNTOUCHED;
	struct fi_xpu_attr attr = xpu_attr();

	assert_refused(fi_xpu_ctx(end->domain, NULL, &ctx, NULL), -FI_EINVAL);
	assert_refused(fi_xpu_ctx(end->domain, &attr, NULL, NULL), -FI_EINVAL);
	assert_refused_with(fi_xpu_ctx(plain->domain, &attr, &ctx, NULL), -FI_ENOSYS, "FI_XPU");
	attr.iface = (enum fi_hmem_iface)77;
	assert_refused_with(fi_xpu_ctx(end->domain, &attr, &ctx, NULL), -FI_EINVAL, "77");
	assert_ptr_equal(ctx, XPU_UNTOUCHED);
}

/* ---- XPU-02 ---- */

static void refuse_ops(struct conf_end *end, struct fi_xpu_ops *ops, const char *why)
{
	struct fi_xpu_attr attr = { .iface = FI_HMEM_NEURON, .device = 3, .ops = ops };
	struct fid_xpu_ctx *ctx = XPU_UNTOUCHED;

	assert_refused_with(fi_xpu_ctx(end->domain, &attr, &ctx, NULL), -FI_EINVAL, why);
	assert_ptr_equal(ctx, XPU_UNTOUCHED);
}

static void xpu_02_slots_beyond_size(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fi_xpu_ops ops = *xpu_ops();
	struct fi_xpu_attr attr = { .iface = FI_HMEM_NEURON, .device = 3, .ops = &ops };
	struct fid_xpu_ctx *ctx;

	ops.size = 0;
	refuse_ops(end, &ops, "no operations");
	ops.size = offsetof(struct fi_xpu_ops, alloc);
	refuse_ops(end, &ops, "no import");
	ops.size = offsetof(struct fi_xpu_ops, free);
	refuse_ops(end, &ops, "no free");
	ops.size = offsetof(struct fi_xpu_ops, free) + 3; /* in part is not there */
	refuse_ops(end, &ops, "no free");
	ops = *xpu_ops();
	ops.free = NULL;
	refuse_ops(end, &ops, "no free");
	ops = (struct fi_xpu_ops){ .size = sizeof(ops), .free = ops.free };
	refuse_ops(end, &ops, "no import");
	/* of a later interface: more than is known here; and a driver (none of it is here) need not be there */
	ops = *xpu_ops();
	ops.size = sizeof(ops) + 64;
	assert_ok(fi_xpu_ctx(end->domain, &attr, &ctx, NULL));
	ops = (struct fi_xpu_ops){ 0 }; /* the table is the caller's again */
	xpu_exports(end, ctx);
	assert_ok(fi_close(&ctx->fid));
}

/* Without operations the library's own interface is asked: host memory is always there. */
static void xpu_02_without_operations(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM, .device = 12345 };
	struct fid_xpu_ctx *ctx = XPU_UNTOUCHED;

	attr.iface = FI_HMEM_NEURON; /* no driver of it is here */
	assert_refused_with(fi_xpu_ctx(end->domain, &attr, &ctx, NULL), -FI_ENOSYS, "neuron");
	assert_ptr_equal(ctx, XPU_UNTOUCHED);
	attr.iface = FI_HMEM_SYSTEM;
	assert_ok(fi_xpu_ctx(end->domain, &attr, &ctx, NULL));
	xpu_exports(end, ctx);
	assert_ok(fi_close(&ctx->fid));
}

/* One export after another; the first that fails answers this.  True: one did. */
static bool one_fails(struct xpu_set *set, int code)
{
	const struct fid_xpu none = { .prov_ctx = 77 };
	struct fid_xpu_ep ep = { none };
	struct fid_xpu_cq cq = { none };
	struct fid_xpu_cntr cntr = { none };
	int ret[3];

	conf_log_mark(__FILE__, __LINE__);
	ret[0] = fi_ep_export_xpu(set->ep, 0, &ep);
	ret[1] = fi_cq_export_xpu(set->cq, 0, &cq);
	ret[2] = fi_cntr_export_xpu(set->cntr, 0, &cntr);
	conf_log_expect(ret[0] || ret[1] || ret[2], NULL, "exports", __FILE__, __LINE__);
	for (int i = 0; i < 3; i++)
		assert_true(ret[i] == 0 || ret[i] == code);
	assert_int_equal(ep.fid.prov_ctx == 77, ret[0] != 0);
	assert_int_equal(cq.fid.prov_ctx == 77, ret[1] != 0);
	assert_int_equal(cntr.fid.prov_ctx == 77, ret[2] != 0);
	/* what failed is as it was: it can be exported now, and what did not, only once */
	assert_int_equal(xpu_living(), 3 - (ret[0] || ret[1] || ret[2]));
	if (ret[0])
		assert_ok(fi_ep_export_xpu(set->ep, 0, &ep));
	if (ret[1])
		assert_ok(fi_cq_export_xpu(set->cq, 0, &cq));
	if (ret[2])
		assert_ok(fi_cntr_export_xpu(set->cntr, 0, &cntr));
	assert_refused(fi_ep_export_xpu(set->ep, 0, &ep), -FI_EALREADY);
	assert_refused(fi_cq_export_xpu(set->cq, 0, &cq), -FI_EALREADY);
	assert_refused(fi_cntr_export_xpu(set->cntr, 0, &cntr), -FI_EALREADY);
	return ret[0] || ret[1] || ret[2];
}

/* What the program's operation answers is what the export answers; nothing stays, and it can be tried again. */
static void xpu_02_operations_fail(struct conf *c)
{
	static const struct {
		int answer, code;
	} rows[] = { { -FI_ENOMEM, -FI_ENOMEM }, { -FI_EPERM, -FI_EPERM }, { 5, -FI_EIO } };
	struct conf_end *end = xpu_open(c);
	size_t threads = test_threads();
	struct fid_xpu_ctx *ctx;
	struct xpu_set set;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool came = true;

		for (int call = 0; came; call++) {
			assert_in_range(call, 0, 3);
			ctx = xpu_ctx(end);
			xpu_set_open(end, ctx, &set);
			xpu_fail(call, rows[i].answer);
			came = one_fails(&set, rows[i].code);
			assert_int_equal(xpu_failed(), came);
			xpu_set_close(&set);
			assert_int_equal(xpu_living(), 0);
			assert_ok(fi_close(&ctx->fid));
		}
	}
	assert_true(test_threads_back(threads));
}

/* ---- XPU-03 ---- */

static void xpu_03_query(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct fi_xpu_ctx_attr attr;

	memset(&attr, 0xff, sizeof(attr));
	assert_int_equal(ctx->ops->size, sizeof(struct fi_ops_xpu_ctx));
	assert_ok(fi_xpu_ctx_query(ctx, &attr));
	assert_int_equal(attr.caps, FI_XPU_CAP_EP | FI_XPU_CAP_CQ | FI_XPU_CAP_CNTR);
	assert_in_range(attr.mr_desc_size, 1, XPU_ROOM - 1);
	assert_in_range(attr.av_addr_size, 1, XPU_ROOM - 1);
	assert_refused(fi_xpu_ctx_query(ctx, NULL), -FI_EINVAL);
	assert_refused(ctx->fid.ops->bind(&ctx->fid, &end->rx->fid, 0), -FI_ENOSYS);
	assert_refused(fi_control(&ctx->fid, FI_ENABLE, NULL), -FI_ENOSYS);
	assert_ok(fi_close(&ctx->fid));
}

/* ---- XPU-04, API-17 ---- */

struct room {
	uint8_t bytes[XPU_ROOM];
	size_t len;
};

static struct room room_of(size_t len)
{
	struct room room = { .len = len };

	memset(room.bytes, 0xa5, sizeof(room.bytes));
	return room;
}

/* Exactly so many bytes are written. */
static void check_room(const struct room *room, size_t size)
{
	assert_int_equal(room->len, size);
	assert_in_range(size, 1, XPU_ROOM - 1);
	for (size_t i = size; i < sizeof(room->bytes); i++)
		assert_int_equal(room->bytes[i], 0xa5);
}

static void api_17_xpu_descriptor(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx[2] = { xpu_ctx(end), xpu_ctx(end) };
	uint8_t *buf = conf_alloc(c, LEN);
	struct conf_region *r = conf_reg(end, buf, LEN, CONF_ALL);
	struct conf_region *other = conf_reg(end, buf, LEN / 2, CONF_ALL);
	struct fi_xpu_ctx_attr attr;
	struct room a, b;

	assert_ok(fi_xpu_ctx_query(ctx[0], &attr));
	for (size_t len = attr.mr_desc_size; len <= XPU_ROOM; len += XPU_ROOM - attr.mr_desc_size) {
		a = room_of(len);
		b = room_of(len);
		assert_ok(fi_mr_get_xpu_desc(r->mr, a.bytes, &a.len, FI_XPU, ctx[0]));
		check_room(&a, attr.mr_desc_size);
		assert_ok(fi_mr_get_xpu_desc(r->mr, b.bytes, &b.len, FI_XPU, ctx[1]));
		assert_memory_equal(&a, &b, sizeof(a)); /* one region serves several contexts */
		b = room_of(len);
		assert_ok(fi_mr_get_xpu_desc(other->mr, b.bytes, &b.len, FI_XPU, ctx[1]));
		assert_memory_not_equal(a.bytes, b.bytes, attr.mr_desc_size);
	}
	a = room_of(attr.mr_desc_size - 1);
	assert_refused(fi_mr_get_xpu_desc(r->mr, a.bytes, &a.len, FI_XPU, ctx[0]), -FI_ETOOSMALL);
	assert_int_equal(a.len, attr.mr_desc_size);
	assert_int_equal(a.bytes[0], 0xa5);
	a.len = 0;
	assert_refused(fi_mr_get_xpu_desc(r->mr, NULL, &a.len, FI_XPU, ctx[0]), -FI_ETOOSMALL);
	assert_int_equal(a.len, attr.mr_desc_size);
	assert_refused(fi_mr_get_xpu_desc(r->mr, NULL, &a.len, FI_XPU, ctx[0]), -FI_EINVAL);
	assert_refused(fi_mr_get_xpu_desc(r->mr, a.bytes, NULL, FI_XPU, ctx[0]), -FI_EINVAL);
	assert_ok(fi_close(&ctx[0]->fid));
	assert_ok(fi_close(&ctx[1]->fid));
}

/* This provider's descriptor: the region's, and what the NIC's own work requests call it; anywhere in memory. */
static void xpu_04_what_it_names(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct conf_region *r = conf_reg(end, conf_alloc(c, LEN), LEN, CONF_ALL);
	uint8_t bytes[sizeof(struct hmreg_xpu_desc) + 1], plain[8];
	size_t len = sizeof(bytes) - 1, plain_len = sizeof(plain);
	struct hmreg_xpu_desc desc;
	uint32_t lkey = UINT32_MAX;

	assert_ok(fi_mr_get_xpu_desc(r->mr, bytes + 1, &len, FI_XPU, ctx));
	assert_int_equal(len, sizeof(desc));
	memcpy(&desc, bytes + 1, sizeof(desc));
	assert_int_equal(desc.region, (uintptr_t)fi_mr_desc(r->mr));
	assert_int_equal(desc.zero, 0);
	assert_ok(fi_mr_get_xpu_desc(r->mr, plain, &plain_len, 0, NULL));
	if (plain_len == sizeof(lkey))
		memcpy(&lkey, plain, sizeof(lkey));
	assert_int_equal(desc.lkey, lkey);
	assert_ok(fi_close(&ctx->fid));
}

static void xpu_04_other_contexts(struct conf *c)
{
	struct conf_end *end = xpu_open(c), *foreign = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end), *theirs = xpu_ctx(foreign), *closed = xpu_ctx(end);
	struct conf_region *r = conf_reg(end, conf_alloc(c, LEN), LEN, CONF_ALL);
	struct fid_xpu_ctx *wrong[] = { NULL,
					closed,
					theirs,
					(void *)(uintptr_t)8,
					(void *)((char *)ctx + 8),
					(void *)end->domain };
	struct room room = room_of(XPU_ROOM);

	assert_ok(fi_close(&closed->fid));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_refused(fi_mr_get_xpu_desc(r->mr, room.bytes, &room.len, FI_XPU, wrong[i]),
			       -FI_EINVAL);
		assert_int_equal(room.len, XPU_ROOM);
		assert_int_equal(room.bytes[0], 0xa5);
	}
	assert_refused(fi_mr_get_xpu_desc(r->mr, room.bytes, &room.len, 0, ctx), -FI_EINVAL);
	assert_refused(fi_mr_get_xpu_desc(r->mr, room.bytes, &room.len, FI_XPU | 1, ctx),
		       -FI_EINVAL);
	assert_ok(fi_mr_get_xpu_desc(r->mr, room.bytes, &room.len, FI_XPU, ctx));
	assert_ok(fi_close(&ctx->fid));
	assert_ok(fi_close(&theirs->fid));
}

/* ---- XPU-05 ---- */

static void xpu_05_addresses(struct conf *c)
{
	struct conf_end *end = xpu_open(c), *foreign = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end), *theirs = xpu_ctx(foreign), *closed = xpu_ctx(end);
	fi_addr_t to = conf_addr(end, end), also = conf_addr(end, foreign);
	struct fi_xpu_ctx_attr attr;
	struct room a = room_of(XPU_ROOM), b = room_of(XPU_ROOM);

	assert_ok(fi_close(&closed->fid));
	assert_ok(fi_xpu_ctx_query(ctx, &attr));
	assert_ok(fi_av_lookup2(end->av, to, a.bytes, &a.len, FI_XPU, ctx));
	check_room(&a, attr.av_addr_size);
	assert_ok(fi_av_lookup2(end->av, also, b.bytes, &b.len, FI_XPU, ctx));
	assert_memory_not_equal(a.bytes, b.bytes, attr.av_addr_size);
	a = room_of(attr.av_addr_size - 1);
	assert_refused(fi_av_lookup2(end->av, to, a.bytes, &a.len, FI_XPU, ctx), -FI_ETOOSMALL);
	assert_int_equal(a.len, attr.av_addr_size);
	assert_int_equal(a.bytes[0], 0xa5);
	assert_refused(fi_av_lookup2(end->av, to, NULL, &a.len, FI_XPU, ctx), -FI_EINVAL);
	assert_refused(fi_av_lookup2(end->av, to, a.bytes, NULL, FI_XPU, ctx), -FI_EINVAL);
	assert_refused(fi_av_lookup2(end->av, to, a.bytes, &a.len, FI_XPU, NULL), -FI_EINVAL);
	assert_refused(fi_av_lookup2(end->av, to, a.bytes, &a.len, FI_XPU, closed), -FI_EINVAL);
	assert_refused(fi_av_lookup2(end->av, to, a.bytes, &a.len, FI_XPU, theirs), -FI_EINVAL);
	assert_refused(fi_av_lookup2(end->av, to, a.bytes, &a.len, 0, ctx), -FI_EINVAL);
	assert_refused(fi_av_lookup2(end->av, FI_ADDR_UNSPEC, a.bytes, &a.len, FI_XPU, ctx),
		       -FI_EINVAL);
	assert_ok(fi_av_remove(end->av, &also, 1, 0));
	assert_refused(fi_av_lookup2(end->av, also, a.bytes, &a.len, FI_XPU, ctx), -FI_EINVAL);
	/* without either it is fi_av_lookup */
	a = room_of(XPU_ROOM);
	b = room_of(XPU_ROOM);
	assert_ok(fi_av_lookup2(end->av, to, a.bytes, &a.len, 0, NULL));
	assert_ok(fi_av_lookup(end->av, to, b.bytes, &b.len));
	assert_memory_equal(&a, &b, sizeof(a));
	assert_ok(fi_close(&ctx->fid));
	assert_ok(fi_close(&theirs->fid));
}

static const struct conf_case cases[] = {
	CONF(xpu_01_offered_to_who_asks), CONF(xpu_01_as_many_as_told),
	CONF(xpu_01_by_many_threads),	  CONF(xpu_01_domain_waits_for_contexts),
	CONF(xpu_01_asked_of_the_domain), CONF(xpu_01_bad_input),
	CONF(xpu_02_slots_beyond_size),	  CONF(xpu_02_without_operations),
	CONF(xpu_02_operations_fail),	  CONF(xpu_03_query),
	CONF(api_17_xpu_descriptor),	  CONF(xpu_04_what_it_names),
	CONF(xpu_04_other_contexts),	  CONF(xpu_05_addresses),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
