/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues as the application sees them, fi_cq(3).  The queue itself is struct nic_cq. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

#define CQ_DEFAULT_SIZE 1024

/* ---- reading ---- */

/* What an exported queue holds is its device's. */
static int refuse_exported(struct hm_cq *cq, const char *call)
{
	if (__builtin_expect(!atomic_load_explicit(&cq->part, memory_order_relaxed), 1))
		return 0;
	HM_WARN(FI_LOG_CQ, "%s: the queue is exported: its device reads it (fi_xpu_device.h)",
		call);
	return -FI_EOPBADSTATE;
}

/* Shared by the read calls: a reader must have somewhere to put what it asks for. */
static int check_buf(const void *buf, size_t count)
{
	if (__builtin_expect(buf || !count, 1))
		return 0;
	HM_WARN(FI_LOG_CQ, "fi_cq_read: NULL buffer for %zu entries", count);
	return -FI_EINVAL;
}

/* A queue that looks empty is looked at again after the NIC has moved on. */
static ssize_t take(struct hm_cq *cq, void *buf, fi_addr_t *src_addr, size_t count)
{
	ssize_t ret = nic_cq_take(&cq->nic, cq->format, buf, src_addr, count);

	if (ret != -FI_EAGAIN)
		return ret;
	hm_progress(cq->domain);
	return nic_cq_take(&cq->nic, cq->format, buf, src_addr, count);
}

static ssize_t cq_readfrom(struct fid_cq *cq_fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	struct hm_cq *cq = hm_cq_of(&cq_fid->fid);
	int ret = check_buf(buf, count);

	if (ret)
		return ret;
	return take(cq, buf, src_addr, count);
}

static ssize_t cq_read(struct fid_cq *cq_fid, void *buf, size_t count)
{
	return cq_readfrom(cq_fid, buf, count, NULL);
}

/* A blocked read: what it waits for, where the entries go, and what came of it. */
struct sread {
	struct hm_cq *cq;
	void *buf;
	fi_addr_t *src_addr;
	size_t count, threshold;
	ssize_t taken;
};

static ssize_t sread_take(struct sread *r)
{
	return nic_cq_take(&r->cq->nic, r->cq->format, r->buf, r->src_addr, r->count);
}

/* Are so many there, now or after the NIC has moved on? */
static bool reached(struct hm_cq *cq, size_t count)
{
	if (nic_cq_reached(&cq->nic, count))
		return true;
	hm_progress(cq->domain);
	return nic_cq_reached(&cq->nic, count);
}

/* Of a queue that is exported while it sleeps, a reader takes nothing any more. */
static ssize_t sread_last(struct sread *r)
{
	int ret = refuse_exported(r->cq, "fi_cq_sread");

	return ret ? ret : sread_take(r);
}

/* Takes at once what it finds, lest another reader take it between the look and the read. */
static bool sread_ready(void *arg)
{
	struct sread *r = arg;

	if (!reached(r->cq, r->threshold) && !atomic_load(&r->cq->part))
		return false;
	r->taken = sread_last(r);
	return r->taken != -FI_EAGAIN;
}

static ssize_t cq_sreadfrom(struct fid_cq *cq_fid, void *buf, size_t count, fi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	struct hm_cq *cq = hm_cq_of(&cq_fid->fid);
	struct sread r = {
		.cq = cq,
		.buf = buf,
		.src_addr = src_addr,
		.count = count,
		.threshold = 1,
	};
	int ret = check_buf(buf, count);

	if (ret)
		return ret;
	if (cq->nic.wait.obj == FI_WAIT_NONE) {
		HM_WARN(FI_LOG_CQ, "fi_cq_sread: the queue was opened with FI_WAIT_NONE");
		return -FI_ENOSYS;
	}
	if (cq->wait_cond == FI_CQ_COND_THRESHOLD && cond)
		memcpy(&r.threshold, cond, sizeof(r.threshold));
	if (!r.threshold)
		r.threshold = 1;
	/* After the timeout or fi_cq_signal, fewer than the threshold are better than none. */
	if (hm_wait_until(&cq->nic.wait, sread_ready, &r, timeout))
		return sread_last(&r);
	return r.taken;
}

static ssize_t cq_sread(struct fid_cq *cq_fid, void *buf, size_t count, const void *cond,
			int timeout)
{
	return cq_sreadfrom(cq_fid, buf, count, NULL, cond, timeout);
}

/*
 * The entry grew at its end: err_data_size came with interface 1.5, src_addr with 1.20.  A program
 * built for an older one has no room for them.  There is never error data, so that nothing is copied
 * into a buffer which the caller may have brought (err_data_size > 0).
 */
static ssize_t cq_readerr(struct fid_cq *cq_fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct hm_cq *cq = hm_cq_of(&cq_fid->fid);
	uint32_t version = cq->domain->api_version;
	struct nic_comp comp;
	ssize_t ret;

	if (!buf) {
		HM_WARN(FI_LOG_CQ, "fi_cq_readerr: NULL buffer");
		return -FI_EINVAL;
	}
	if (flags) {
		HM_WARN(FI_LOG_CQ, "fi_cq_readerr: flags 0x%llx, none are defined",
			(unsigned long long)flags);
		return -FI_EBADFLAGS;
	}
	ret = nic_cq_take_error(&cq->nic, &comp);
	if (ret == -FI_EAGAIN) {
		hm_progress(cq->domain);
		ret = nic_cq_take_error(&cq->nic, &comp);
	}
	if (ret != 1)
		return ret;
	buf->op_context = comp.op_context;
	buf->flags = comp.flags;
	buf->len = comp.len;
	buf->buf = comp.buf;
	buf->data = comp.data;
	buf->tag = 0;
	buf->olen = comp.olen;
	buf->err = comp.err;
	buf->prov_errno = comp.prov_errno;
	if (FI_VERSION_LT(version, FI_VERSION(1, 5)) || !buf->err_data_size)
		buf->err_data = NULL;
	if (FI_VERSION_GE(version, FI_VERSION(1, 5)))
		buf->err_data_size = 0;
	if (FI_VERSION_GE(version, FI_VERSION(1, 20)))
		buf->src_addr = comp.src_addr;
	return 1;
}

/* ---- the rest ---- */

static int cq_signal(struct fid_cq *cq_fid)
{
	struct hm_cq *cq = hm_cq_of(&cq_fid->fid);

	if (cq->nic.wait.obj == FI_WAIT_NONE) {
		HM_WARN(FI_LOG_CQ, "fi_cq_signal: the queue was opened with FI_WAIT_NONE");
		return -FI_ENOSYS;
	}
	hm_wait_kick(&cq->nic.wait);
	return 0;
}

static const char *cq_strerror(struct fid_cq *cq_fid, int prov_errno, const void *err_data,
			       char *buf, size_t len)
{
	struct hm_cq *cq = hm_cq_of(&cq_fid->fid);
	const char *text = cq->domain->nic->ops->strerror(prov_errno);

	(void)err_data;
	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

static int cq_export_xpu(struct fid_cq *cq_fid, uint64_t flags, struct fid_xpu_cq *xpu_cq)
{
	return hm_xpu_cq_export(hm_cq_of(&cq_fid->fid), flags, xpu_cq);
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	return hm_wait_control(&hm_cq_of(fid)->nic.wait, FI_LOG_CQ, command, arg);
}

static bool cq_ready(void *arg)
{
	return reached(arg, 1);
}

int hm_cq_trywait(struct hm_cq *cq)
{
	int ret = refuse_exported(cq, "fi_trywait");

	if (ret)
		return ret;
	ret = hm_wait_try(&cq->nic.wait, cq_ready, cq);
	if (ret == -FI_EINVAL)
		HM_WARN(FI_LOG_CQ, "fi_trywait: the completion queue has no FI_WAIT_FD");
	return ret;
}

static int cq_close(struct fid *fid)
{
	struct hm_cq *cq = hm_cq_of(fid);
	int ret = hm_check_unused(&cq->nic.users, "completion queue");

	if (ret)
		return ret;
	hm_xpu_part_end(cq->xpu, atomic_exchange(&cq->part, NULL));
	nic_cq_destroy(&cq->nic);
	hm_xpu_ctx_put(cq->xpu);
	hm_unuse(&cq->domain->users);
	hm_fid_end(fid);
	free(cq);
	return 0;
}

static const struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = hm_no_bind,
	.control = cq_control,
	.ops_open = hm_no_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

static const struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
	.export_xpu = cq_export_xpu,
};

/* ---- of an XPU context: the same until the queue is exported ---- */

static ssize_t xpu_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	int ret = refuse_exported(hm_cq_of(&fid->fid), "fi_cq_readfrom");

	return ret ? ret : cq_readfrom(fid, buf, count, src_addr);
}

static ssize_t xpu_read(struct fid_cq *fid, void *buf, size_t count)
{
	int ret = refuse_exported(hm_cq_of(&fid->fid), "fi_cq_read");

	return ret ? ret : cq_read(fid, buf, count);
}

static ssize_t xpu_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	int ret = refuse_exported(hm_cq_of(&fid->fid), "fi_cq_readerr");

	return ret ? ret : cq_readerr(fid, buf, flags);
}

static ssize_t xpu_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
			     const void *cond, int timeout)
{
	int ret = refuse_exported(hm_cq_of(&fid->fid), "fi_cq_sreadfrom");

	return ret ? ret : cq_sreadfrom(fid, buf, count, src_addr, cond, timeout);
}

static ssize_t xpu_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	int ret = refuse_exported(hm_cq_of(&fid->fid), "fi_cq_sread");

	return ret ? ret : cq_sread(fid, buf, count, cond, timeout);
}

static const struct fi_ops_cq xpu_cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = xpu_read,
	.readfrom = xpu_readfrom,
	.readerr = xpu_readerr,
	.sread = xpu_sread,
	.sreadfrom = xpu_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
	.export_xpu = cq_export_xpu,
};

/* ---- opening ---- */

static int check_flags(const struct fi_cq_attr *attr)
{
	if (attr->flags & ~(uint64_t)(FI_AFFINITY | FI_XPU)) {
		HM_WARN(FI_LOG_CQ, "fi_cq_open: unknown flags in 0x%llx",
			(unsigned long long)attr->flags);
		return -FI_EBADFLAGS;
	}
	return 0;
}

static int check_attr(const struct fi_cq_attr *attr)
{
	int ret = check_flags(attr);

	if (ret)
		return ret;
	if (attr->size > NIC_CQ_SIZE_MAX) {
		HM_WARN(FI_LOG_CQ, "fi_cq_open: size %zu is above the limit of %u", attr->size,
			NIC_CQ_SIZE_MAX);
		return -FI_EINVAL;
	}
	if ((unsigned int)attr->format > FI_CQ_FORMAT_TAGGED) {
		HM_WARN(FI_LOG_CQ, "fi_cq_open: %d is no format", (int)attr->format);
		return -FI_EINVAL;
	}
	ret = hm_wait_check(attr->wait_obj, FI_LOG_CQ, "fi_cq_open");
	if (ret || attr->wait_obj == FI_WAIT_NONE) /* wait_cond is ignored then, fi_cq(3) */
		return ret;
	if ((unsigned int)attr->wait_cond > FI_CQ_COND_THRESHOLD) {
		HM_WARN(FI_LOG_CQ, "fi_cq_open: %d is no wait condition", (int)attr->wait_cond);
		return -FI_EINVAL;
	}
	return 0;
}

int hm_cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_out,
	       void *context)
{
	struct hm_domain *domain = hm_domain_of(&domain_fid->fid);
	struct hm_xpu_ctx *xpu;
	struct hm_cq *cq;
	int ret;

	if (!attr || !cq_out) {
		HM_WARN(FI_LOG_CQ, "fi_cq_open: NULL %s", attr ? "cq" : "attr");
		return -FI_EINVAL;
	}
	ret = check_attr(attr);
	if (ret)
		return ret;
	ret = hm_xpu_ctx_get(domain, attr->flags & FI_XPU, &attr->xpu_ctx, FI_XPU_CAP_CQ,
			     "fi_cq_open", &xpu);
	if (ret)
		return ret;
	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		HM_WARN(FI_LOG_CQ, "fi_cq_open: out of memory");
		ret = -FI_ENOMEM;
		goto put_context;
	}
	ret = nic_cq_init(&cq->nic, attr->size ? attr->size : CQ_DEFAULT_SIZE, attr->wait_obj);
	if (ret)
		goto free_cq;
	cq->format = attr->format ? attr->format : FI_CQ_FORMAT_CONTEXT;
	cq->wait_cond = attr->wait_cond;
	cq->domain = domain;
	cq->xpu = xpu;
	cq->cq.fid.fclass = FI_CLASS_CQ;
	cq->cq.fid.context = context;
	cq->cq.fid.ops = (struct fi_ops *)&cq_fid_ops;
	cq->cq.ops = (struct fi_ops_cq *)(xpu ? &xpu_cq_ops : &cq_ops);
	hm_use(&domain->users);
	*cq_out = &cq->cq;
	return 0;

free_cq:
	free(cq);
put_context:
	hm_xpu_ctx_put(xpu);
	return ret;
}
