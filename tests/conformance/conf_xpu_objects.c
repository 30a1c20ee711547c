/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints, queues and counters of XPU contexts, the host's side: which go together (XPU-06), what exporting them
 * takes, and what is the host's before and after (XPU-07).  No device runs here.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/harness.h"
#include "tests/conformance/xpu_api.h"

#define LEN 4096

/* ---- XPU-06 ---- */

/* Opening with this context and FI_XPU or not: the endpoint, the queue, the counter. */
static void refuse_all(struct conf_end *end, struct fid_xpu_ctx *ctx, bool xpu, int code)
{
	uint64_t flag = xpu ? FI_XPU : 0;
	struct fi_info *info = fi_dupinfo(end->info);
	struct fi_cq_attr cq_attr = { .flags = flag, .xpu_ctx = ctx };
	struct fi_cntr_attr cntr_attr = { .flags = flag, .xpu_ctx = ctx };
	struct fid_ep *ep = XPU_UNTOUCHED;
	struct fid_cq *cq = XPU_UNTOUCHED;
	struct fid_cntr *cntr = XPU_UNTOUCHED;

	assert_non_null(info);
	info->ep_attr->xpu_ctx = ctx;
	assert_refused(fi_endpoint2(end->domain, info, &ep, flag, NULL), code);
	if (!xpu)
		assert_refused(fi_endpoint(end->domain, info, &ep, NULL), code);
	fi_freeinfo(info);
	assert_refused(fi_cq_open(end->domain, &cq_attr, &cq, NULL), code);
	assert_refused(fi_cntr_open(end->domain, &cntr_attr, &cntr, NULL), code);
	assert_ptr_equal(ep, XPU_UNTOUCHED);
	assert_ptr_equal(cq, XPU_UNTOUCHED);
	assert_ptr_equal(cntr, XPU_UNTOUCHED);
}

static void xpu_06_context_and_flag(struct conf *c)
{
	struct conf_end *end = xpu_open(c), *foreign = xpu_open(c), *plain = conf_open(c, NULL);
	struct fid_xpu_ctx *ctx = xpu_ctx(end), *theirs = xpu_ctx(foreign), *closed = xpu_ctx(end);

	assert_ok(fi_close(&closed->fid));
	refuse_all(end, ctx, false, -FI_EINVAL);
	refuse_all(end, NULL, true, -FI_EINVAL);
	refuse_all(end, closed, true, -FI_EINVAL);
	refuse_all(end, theirs, true, -FI_EINVAL);
	refuse_all(end, (void *)end->domain, true, -FI_EINVAL);
	/* a domain without the capability */
	refuse_all(plain, NULL, true, -FI_ENOSYS);
	refuse_all(plain, ctx, true, -FI_ENOSYS);
	refuse_all(plain, ctx, false, -FI_EINVAL);
	/* other flags beside it */
	assert_refused(fi_endpoint2(end->domain, end->info, (void *)&ctx, FI_XPU | FI_PEER, NULL),
		       -FI_ENOSYS);
	assert_refused(fi_endpoint2(end->domain, end->info, (void *)&ctx, FI_XPU | 1, NULL),
		       -FI_EBADFLAGS);
	assert_ok(fi_close(&ctx->fid));
	assert_ok(fi_close(&theirs->fid));
}

/* fi_getinfo takes the context along, where it is asked for with the capability. */
static void xpu_06_context_in_hints(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct fi_info *hints, *info = NULL;
	struct fid_ep *ep;

	hints = conf_hints(c->profile->name, &(struct conf_opts){ .caps = CONF_CAPS | FI_XPU });
	hints->ep_attr->xpu_ctx = ctx;
	assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info));
	assert_ptr_equal(info->ep_attr->xpu_ctx, ctx);
	assert_ok(fi_endpoint2(end->domain, info, &ep, FI_XPU, NULL));
	assert_ok(fi_close(&ep->fid));
	fi_freeinfo(info);
	hints->caps = CONF_CAPS;
	assert_answer(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
	assert_ok(fi_close(&ctx->fid));
}

/* The attributes of a program built for an older interface end before xpu_ctx. */
static void xpu_06_older_interfaces(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .version = FI_VERSION(2, 5) });
	struct fi_info *info = fi_dupinfo(end->info);
	struct fi_cq_attr cq_attr = { .xpu_ctx = (void *)end };
	struct fi_cntr_attr cntr_attr = { .xpu_ctx = (void *)end };
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_cntr *cntr;

	assert_non_null(info);
	info->ep_attr->xpu_ctx = (void *)end;
	assert_ok(fi_endpoint(end->domain, info, &ep, NULL));
	assert_ok(fi_cq_open(end->domain, &cq_attr, &cq, NULL));
	assert_ok(fi_cntr_open(end->domain, &cntr_attr, &cntr, NULL));
	assert_ok(fi_close(&ep->fid));
	assert_ok(fi_close(&cq->fid));
	assert_ok(fi_close(&cntr->fid));
	info->caps |= FI_XPU;
	assert_refused(fi_endpoint(end->domain, info, &ep, NULL), -FI_EINVAL);
	fi_freeinfo(info);
}

static void xpu_06_one_context(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end), *other = xpu_ctx(end);
	struct fid_cq *cq = xpu_cq(end, ctx), *other_cq = xpu_cq(end, other);
	struct fid_cntr *cntr = xpu_cntr(end, ctx), *other_cntr = xpu_cntr(end, other), *host_cntr;
	struct fid_ep *ep = xpu_ep(end, ctx), *host_ep;
	struct fi_cntr_attr attr = { 0 };

	assert_ok(fi_cntr_open(end->domain, &attr, &host_cntr, NULL));
	assert_ok(fi_endpoint(end->domain, end->info, &host_ep, NULL));
	assert_refused_with(fi_ep_bind(ep, &other_cq->fid, FI_TRANSMIT), -FI_EINVAL, "context");
	assert_refused_with(fi_ep_bind(ep, &other_cntr->fid, FI_WRITE), -FI_EINVAL, "context");
	assert_refused_with(fi_ep_bind(ep, &host_cntr->fid, FI_WRITE), -FI_EINVAL, "context");
	assert_refused_with(fi_ep_bind(host_ep, &cq->fid, FI_TRANSMIT), -FI_EINVAL, "context");
	assert_refused_with(fi_ep_bind(host_ep, &cntr->fid, FI_WRITE), -FI_EINVAL, "context");
	/* nothing of that was bound: both queues and counters are free still; the host's queue is for errors */
	assert_ok(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT));
	assert_ok(fi_ep_bind(ep, &end->rx->fid, FI_RECV | FI_SELECTIVE_COMPLETION));
	assert_ok(fi_ep_bind(ep, &cntr->fid, FI_WRITE));
	assert_ok(fi_ep_bind(ep, &end->av->fid, 0));
	assert_ok(fi_enable(ep));
	assert_refused(fi_close(&cq->fid), -FI_EBUSY);
	assert_refused(fi_close(&cntr->fid), -FI_EBUSY);
	assert_ok(fi_close(&ep->fid));
	assert_ok(fi_close(&host_ep->fid));
	assert_ok(fi_close(&host_cntr->fid));
	assert_ok(fi_close(&cq->fid));
	assert_ok(fi_close(&other_cq->fid));
	assert_ok(fi_close(&cntr->fid));
	assert_ok(fi_close(&other_cntr->fid));
	assert_ok(fi_close(&ctx->fid));
	assert_ok(fi_close(&other->fid));
}

static void xpu_06_context_waits_for_objects(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct fid *one[3];

	one[0] = &xpu_cq(end, ctx)->fid;
	one[1] = &xpu_cntr(end, ctx)->fid;
	one[2] = &xpu_ep(end, ctx)->fid;
	for (int i = 0; i < 3; i++) {
		assert_refused_with(fi_close(&ctx->fid), -FI_EBUSY, "XPU context");
		assert_int_equal(ctx->fid.fclass, FI_CLASS_XPU_CTX);
		assert_ok(fi_close(one[i]));
	}
	assert_ok(fi_close(&ctx->fid));
}

/* ---- XPU-07 ---- */

static void xpu_07_export(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	size_t threads = test_threads();

	for (int again = 0; again < 3; again++) {
		xpu_exports(end, ctx);
		assert_int_equal(xpu_living(), 0);
	}
	assert_ok(fi_close(&ctx->fid));
	assert_true(test_threads_back(threads));
}

static void xpu_07_not_enabled(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct fid_cq *cq = xpu_cq(end, ctx);
	struct fid_ep *ep = xpu_ep(end, ctx);
	struct fid_xpu_ep out = { .fid.prov_ctx = 77 };

	assert_refused_with(fi_ep_export_xpu(ep, 0, &out), -FI_EOPBADSTATE, "not enabled");
	assert_ok(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	assert_ok(fi_ep_bind(ep, &end->av->fid, 0));
	assert_refused_with(fi_ep_export_xpu(ep, 0, &out), -FI_EOPBADSTATE, "not enabled");
	assert_int_equal(out.fid.prov_ctx, 77);
	assert_ok(fi_enable(ep));
	assert_ok(fi_ep_export_xpu(ep, 0, &out));
	assert_ok(fi_close(&ep->fid));
	assert_ok(fi_close(&cq->fid));
	assert_ok(fi_close(&ctx->fid));
}

static void xpu_07_bad_exports(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct fid_xpu_cntr cntr = { .fid.prov_ctx = 77 };
	struct fid_xpu_ep ep = { .fid.prov_ctx = 77 };
	struct fid_xpu_cq cq = { .fid.prov_ctx = 77 };
	struct xpu_set set;

	xpu_set_open(end, ctx, &set);
	/* the host's own */
	assert_refused(fi_ep_export_xpu(end->ep, 0, &ep), -FI_ENOSYS);
	assert_refused(fi_cq_export_xpu(end->tx, 0, &cq), -FI_ENOSYS);
	assert_refused(fi_ep_export_xpu(set.ep, 1, &ep), -FI_EBADFLAGS);
	assert_refused(fi_cq_export_xpu(set.cq, FI_XPU, &cq), -FI_EBADFLAGS);
	assert_refused(fi_cntr_export_xpu(set.cntr, 2, &cntr), -FI_EBADFLAGS);
	assert_refused(fi_ep_export_xpu(set.ep, 0, NULL), -FI_EINVAL);
	assert_refused(fi_cq_export_xpu(set.cq, 0, NULL), -FI_EINVAL);
	assert_refused(fi_cntr_export_xpu(set.cntr, 0, NULL), -FI_EINVAL);
	assert_true(ep.fid.prov_ctx == 77 && cq.fid.prov_ctx == 77 && cntr.fid.prov_ctx == 77);
	assert_ok(fi_ep_export_xpu(set.ep, 0, &ep));
	assert_ok(fi_cq_export_xpu(set.cq, 0, &cq));
	assert_ok(fi_cntr_export_xpu(set.cntr, 0, &cntr));
	assert_refused(fi_ep_export_xpu(set.ep, 0, &ep), -FI_EALREADY);
	assert_refused(fi_cq_export_xpu(set.cq, 0, &cq), -FI_EALREADY);
	assert_refused(fi_cntr_export_xpu(set.cntr, 0, &cntr), -FI_EALREADY);
	xpu_set_close(&set);
	assert_ok(fi_close(&ctx->fid));
}

/* Data calls of the host's, each of which its device alone may make. */
static void refuse_data(struct fid_ep *ep, fi_addr_t to)
{
	struct fi_rma_iov remote = { 0, 8, 0 };
	struct fi_rma_ioc target = { 0, 1, 0 };
	uint64_t word = 0;
	struct iovec iov = { &word, sizeof(word) };
	struct fi_ioc ioc = { &word, 1 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = to };
	struct fi_msg_rma rma = {
		.msg_iov = &iov, .iov_count = 1, .addr = to, .rma_iov = &remote, .rma_iov_count = 1
	};
	struct fi_msg_atomic atomic = { .msg_iov = &ioc,
					.iov_count = 1,
					.addr = to,
					.rma_iov = &target,
					.rma_iov_count = 1,
					.datatype = FI_UINT64 };
	const enum fi_datatype u64 = FI_UINT64;
	void *none = NULL;

#define NO(call) assert_refused_with(call, -FI_EOPBADSTATE, "XPU context")
	NO(fi_recv(ep, &word, 8, NULL, FI_ADDR_UNSPEC, NULL));
	NO(fi_recvv(ep, &iov, NULL, 1, FI_ADDR_UNSPEC, NULL));
	NO(fi_recvmsg(ep, &msg, 0));
	NO(fi_send(ep, &word, 8, NULL, to, NULL));
	NO(fi_sendv(ep, &iov, NULL, 1, to, NULL));
	NO(fi_sendmsg(ep, &msg, 0));
	NO(fi_inject(ep, &word, 8, to));
	NO(fi_senddata(ep, &word, 8, NULL, 1, to, NULL));
	NO(fi_injectdata(ep, &word, 8, 1, to));
	NO(fi_read(ep, &word, 8, NULL, to, 0, 0, NULL));
	NO(fi_readv(ep, &iov, NULL, 1, to, 0, 0, NULL));
	NO(fi_readmsg(ep, &rma, 0));
	NO(fi_write(ep, &word, 8, NULL, to, 0, 0, NULL));
	NO(fi_writev(ep, &iov, NULL, 1, to, 0, 0, NULL));
	NO(fi_writemsg(ep, &rma, 0));
	NO(fi_inject_write(ep, &word, 8, to, 0, 0));
	NO(fi_writedata(ep, &word, 8, NULL, 1, to, 0, 0, NULL));
	NO(fi_inject_writedata(ep, &word, 8, 1, to, 0, 0));
	NO(fi_atomic(ep, &word, 1, NULL, to, 0, 0, u64, FI_SUM, NULL));
	NO(fi_atomicv(ep, &ioc, NULL, 1, to, 0, 0, u64, FI_SUM, NULL));
	NO(fi_atomicmsg(ep, &atomic, 0));
	NO(fi_inject_atomic(ep, &word, 1, to, 0, 0, u64, FI_SUM));
	NO(fi_fetch_atomic(ep, &word, 1, NULL, &word, NULL, to, 0, 0, u64, FI_SUM, NULL));
	NO(fi_fetch_atomicv(ep, &ioc, NULL, 1, &ioc, &none, 1, to, 0, 0, u64, FI_SUM, NULL));
	NO(fi_fetch_atomicmsg(ep, &atomic, &ioc, &none, 1, 0));
	NO(fi_compare_atomic(ep, &word, 1, NULL, &word, NULL, &word, NULL, to, 0, 0, u64, FI_CSWAP,
			     NULL));
	NO(fi_compare_atomicv(ep, &ioc, NULL, 1, &ioc, &none, 1, &ioc, &none, 1, to, 0, 0, u64,
			      FI_CSWAP, NULL));
	NO(fi_compare_atomicmsg(ep, &atomic, &ioc, &none, 1, &ioc, &none, 1, 0));
	NO(fi_cancel(&ep->fid, NULL));
#undef NO
	assert_int_equal(word, 0);
}

static void xpu_07_data_is_the_devices(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	fi_addr_t to = conf_addr(end, end);
	struct fid_xpu_ep out;
	struct xpu_set set;
	char name[128];
	size_t len = sizeof(name), count, value = 0, size = sizeof(value);

	xpu_set_open(end, ctx, &set);
	refuse_data(set.ep, to);
	assert_ok(fi_ep_export_xpu(set.ep, 0, &out));
	refuse_data(set.ep, to);
	/* what moves nothing stays the host's */
	assert_ok(fi_getname(&set.ep->fid, name, &len));
	assert_ok(fi_getopt(&set.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_MSG_SIZE, &value, &size));
	assert_int_equal(fi_atomicvalid(set.ep, FI_UINT64, FI_SUM, &count),
			 fi_atomicvalid(end->ep, FI_UINT64, FI_SUM, &value));
	assert_int_equal(fi_fetch_atomicvalid(set.ep, FI_UINT64, FI_SUM, &count),
			 fi_fetch_atomicvalid(end->ep, FI_UINT64, FI_SUM, &value));
	assert_int_equal(fi_compare_atomicvalid(set.ep, FI_UINT64, FI_CSWAP, &count),
			 fi_compare_atomicvalid(end->ep, FI_UINT64, FI_CSWAP, &value));
	xpu_set_close(&set);
	assert_ok(fi_close(&ctx->fid));
}

static void xpu_07_reads_are_the_devices(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = { 0 };
	struct fid_xpu_cntr out_cntr;
	struct fid_xpu_cq out_cq;
	struct fid *fid;
	struct xpu_set set;
	fi_addr_t from;
	int fd;

	xpu_set_open(end, ctx, &set);
	/* the host's still */
	assert_answer(fi_cq_read(set.cq, &entry, 1), -FI_EAGAIN);
	assert_answer(fi_cq_readfrom(set.cq, &entry, 1, &from), -FI_EAGAIN);
	assert_answer(fi_cq_readerr(set.cq, &error, 0), -FI_EAGAIN);
	assert_answer(fi_cq_sread(set.cq, &entry, 1, NULL, 0), -FI_EAGAIN);
	assert_ok(fi_cntr_add(set.cntr, 3));
	assert_ok(fi_cntr_adderr(set.cntr, 2));
	assert_int_equal(fi_cntr_read(set.cntr), 3);
	assert_int_equal(fi_cntr_readerr(set.cntr), 2);
	assert_ok(fi_cntr_wait(set.cntr, 3, 0));
	assert_ok(fi_cq_export_xpu(set.cq, 0, &out_cq));
	assert_ok(fi_cntr_export_xpu(set.cntr, 0, &out_cntr));
#define NO(call) assert_refused_with(call, -FI_EOPBADSTATE, "exported")
	NO(fi_cq_read(set.cq, &entry, 1));
	NO(fi_cq_readfrom(set.cq, &entry, 1, &from));
	NO(fi_cq_readerr(set.cq, &error, 0));
	NO(fi_cq_sread(set.cq, &entry, 1, NULL, -1));
	NO(fi_cq_sreadfrom(set.cq, &entry, 1, &from, NULL, -1));
	NO(fi_cntr_add(set.cntr, 1));
	NO(fi_cntr_set(set.cntr, 1));
	NO(fi_cntr_adderr(set.cntr, 1));
	NO(fi_cntr_seterr(set.cntr, 1));
	NO(fi_cntr_wait(set.cntr, 100, -1));
	NO(fi_cntr_readerr(set.cntr));
	fid = &set.cq->fid;
	NO(fi_trywait(end->fabric, &fid, 1));
	fid = &set.cntr->fid;
	NO(fi_trywait(end->fabric, &fid, 1));
#undef NO
	assert_refused_with(fi_cntr_read(set.cntr), 0, "exported"); /* which has no codes */
	assert_ok(fi_control(&set.cq->fid, FI_GETWAIT, &fd));
	assert_non_null(fi_cq_strerror(set.cq, 1, NULL, NULL, 0));
	xpu_set_close(&set);
	assert_ok(fi_close(&ctx->fid));
}

/* Readers that sleep when the queue is exported wake up, and have taken nothing of the device's. */
struct sleeper {
	struct xpu_set *set;
	atomic_bool begun;
	long ret;
};

static void *sleep_on_cq(void *arg)
{
	struct sleeper *s = arg;
	struct fi_cq_data_entry entry;

	atomic_store(&s->begun, true);
	s->ret = fi_cq_sread(s->set->cq, &entry, 1, NULL, -1);
	return NULL;
}

static void *sleep_on_cntr(void *arg)
{
	struct sleeper *s = arg;

	atomic_store(&s->begun, true);
	s->ret = fi_cntr_wait(s->set->cntr, 100, -1);
	return NULL;
}

static void xpu_07_sleepers_are_woken(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct fid_xpu_cntr out_cntr;
	struct fid_xpu_cq out_cq;
	struct xpu_set set;
	struct sleeper sleeper[2] = { { &set, false, 0 }, { &set, false, 0 } };
	pthread_t thread[2];

	xpu_set_open(end, ctx, &set);
	assert_int_equal(pthread_create(&thread[0], NULL, sleep_on_cq, &sleeper[0]), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, sleep_on_cntr, &sleeper[1]), 0);
	while (!atomic_load(&sleeper[0].begun) || !atomic_load(&sleeper[1].begun))
		poll(NULL, 0, 1);
	poll(NULL, 0, 20); /* asleep by now, or about to be refused */
	conf_log_mark(__FILE__, __LINE__);
	assert_int_equal(fi_cq_export_xpu(set.cq, 0, &out_cq), 0);
	assert_int_equal(fi_cntr_export_xpu(set.cntr, 0, &out_cntr), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(sleeper[i].ret, -FI_EOPBADSTATE);
	}
	conf_log_expect(2, "exported", "sleepers", __FILE__, __LINE__);
	xpu_set_close(&set);
	assert_ok(fi_close(&ctx->fid));
}

/* Closing in any order that the users of an object allow, exported or not, with nobody on the device's side. */
static void xpu_07_closed_without_a_device(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	size_t threads = test_threads();

	for (unsigned which = 0; which < 16; which++) {
		struct fid_xpu_ctx *ctx = xpu_ctx(end);
		struct fid_xpu_cntr cntr;
		struct fid_xpu_ep ep;
		struct fid_xpu_cq cq;
		struct xpu_set set;

		xpu_set_open(end, ctx, &set);
		if (which & 1)
			assert_ok(fi_ep_export_xpu(set.ep, 0, &ep));
		if (which & 2)
			assert_ok(fi_cq_export_xpu(set.cq, 0, &cq));
		if (which & 4)
			assert_ok(fi_cntr_export_xpu(set.cntr, 0, &cntr));
		assert_refused(fi_close(&set.cq->fid), -FI_EBUSY);
		assert_refused(fi_close(&set.cntr->fid), -FI_EBUSY);
		assert_refused(fi_close(&ctx->fid), -FI_EBUSY);
		assert_ok(fi_close(&set.ep->fid));
		assert_ok(fi_close(which & 8 ? &set.cq->fid : &set.cntr->fid));
		assert_ok(fi_close(which & 8 ? &set.cntr->fid : &set.cq->fid));
		assert_int_equal(xpu_living(), 0);
		assert_ok(fi_close(&ctx->fid));
	}
	assert_true(test_threads_back(threads));
}

/* A child may close what it inherits, whose context's thread it has not; that is nothing to the parent. */
static void close_in_child(void *arg)
{
	struct xpu_set *set = arg;

	alarm(10); /* by a signal if it hangs, and by another one if all is well */
	if (fi_close(&set->ep->fid) == 0 && fi_close(&set->cq->fid) == 0 &&
	    fi_close(&set->cntr->fid) == 0 && fi_close(&set->ctx->fid) == 0 &&
	    xpu_living() == 3) /* the device is the parent's */
		kill(getpid(), SIGKILL);
	_exit(1);
}

static void xpu_07_closed_in_a_child(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	struct fid_xpu_cntr cntr;
	struct fid_xpu_ep ep;
	struct fid_xpu_cq cq;
	struct xpu_set set;

	xpu_set_open(end, ctx, &set);
	assert_ok(fi_ep_export_xpu(set.ep, 0, &ep));
	assert_ok(fi_cq_export_xpu(set.cq, 0, &cq));
	assert_ok(fi_cntr_export_xpu(set.cntr, 0, &cntr));
	for (int i = 0; i < 8; i++) {
		int status = conf_fork(close_in_child, &set);

		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	assert_int_equal(xpu_living(), 3);
	xpu_set_close(&set);
	assert_int_equal(xpu_living(), 0);
	assert_ok(fi_close(&ctx->fid));
}

/* One thread exports an object, whichever comes first. */
struct racer {
	struct fid_cq *cq;
	pthread_barrier_t *start;
	int ret;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	struct fid_xpu_cq out;

	pthread_barrier_wait(r->start);
	r->ret = fi_cq_export_xpu(r->cq, 0, &out);
	return NULL;
}

static void xpu_07_exported_once(struct conf *c)
{
	struct conf_end *end = xpu_open(c);
	struct fid_xpu_ctx *ctx = xpu_ctx(end);
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < 50; i++) {
		struct fid_cq *cq = xpu_cq(end, ctx);
		struct racer racer[2] = { { cq, &start, 1 }, { cq, &start, 1 } };
		pthread_t thread;

		conf_log_mark(__FILE__, __LINE__);
		assert_int_equal(pthread_create(&thread, NULL, race, &racer[0]), 0);
		race(&racer[1]);
		pthread_join(thread, NULL);
		conf_log_expect(1, "already", "race", __FILE__, __LINE__);
		assert_int_equal(racer[0].ret + racer[1].ret, -FI_EALREADY);
		assert_ok(fi_close(&cq->fid));
		assert_int_equal(xpu_living(), 0);
	}
	pthread_barrier_destroy(&start);
	assert_ok(fi_close(&ctx->fid));
}

static const struct conf_case cases[] = {
	CONF(xpu_06_context_and_flag),
	CONF(xpu_06_context_in_hints),
	CONF(xpu_06_older_interfaces),
	CONF(xpu_06_one_context),
	CONF(xpu_06_context_waits_for_objects),
	CONF(xpu_07_export),
	CONF(xpu_07_not_enabled),
	CONF(xpu_07_bad_exports),
	CONF(xpu_07_data_is_the_devices),
	CONF(xpu_07_reads_are_the_devices),
	CONF(xpu_07_sleepers_are_woken),
	CONF(xpu_07_closed_without_a_device),
	CONF(xpu_07_exported_once),
	CONF(xpu_07_closed_in_a_child),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
