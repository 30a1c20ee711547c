/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters as the application sees them, fi_cntr(3).  The counter itself is struct nic_cntr. */
#include <stdlib.h>

#include "core/core.h"

/* What an exported counter says, its device is told. */
static int refuse_exported(struct hm_cntr *cntr, const char *call)
{
	if (__builtin_expect(!atomic_load_explicit(&cntr->part, memory_order_relaxed), 1))
		return 0;
	HM_WARN(FI_LOG_CNTR, "%s: the counter is exported: its device reads it (fi_xpu_device.h)",
		call);
	return -FI_EOPBADSTATE;
}

/* A counter cannot be empty, so that every look at one lets the NIC move on. */
static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct hm_cntr *cntr = hm_cntr_of(&fid->fid);

	hm_progress(cntr->domain);
	return atomic_load(&cntr->nic.value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct hm_cntr *cntr = hm_cntr_of(&fid->fid);
	uint64_t errors;

	hm_progress(cntr->domain);
	errors = atomic_load(&cntr->nic.errors);
	atomic_store_explicit(&cntr->errors_seen, errors, memory_order_relaxed);
	return errors;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	struct hm_cntr *cntr = hm_cntr_of(&fid->fid);

	atomic_fetch_add(&cntr->nic.value, value);
	hm_wait_signal(&cntr->nic.wait);
	return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	struct hm_cntr *cntr = hm_cntr_of(&fid->fid);

	atomic_store(&cntr->nic.value, value);
	hm_wait_signal(&cntr->nic.wait);
	return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	struct hm_cntr *cntr = hm_cntr_of(&fid->fid);

	atomic_fetch_add(&cntr->nic.errors, value);
	hm_wait_signal(&cntr->nic.wait);
	return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	struct hm_cntr *cntr = hm_cntr_of(&fid->fid);

	atomic_store_explicit(&cntr->errors_seen, value, memory_order_relaxed);
	atomic_store(&cntr->nic.errors, value);
	hm_wait_signal(&cntr->nic.wait);
	return 0;
}

/* A blocked fi_cntr_wait: what it waits for, and how it ended. */
struct cntr_wait {
	struct hm_cntr *cntr;
	uint64_t threshold, errors;
	int ret;
};

static bool cntr_wait_over(void *arg)
{
	struct cntr_wait *w = arg;

	hm_progress(w->cntr->domain);
	if (atomic_load(&w->cntr->part)) { /* exported meanwhile */
		w->ret = -FI_EOPBADSTATE;
		return true;
	}
	if (atomic_load(&w->cntr->nic.value) >= w->threshold) {
		w->ret = 0;
		return true;
	}
	w->ret = -FI_EAVAIL;
	return atomic_load(&w->cntr->nic.errors) != w->errors;
}

/*
 * fi_cntr(3): a change of the error value ends the wait.  An operation may fail before the wait for
 * it begins, on the software NIC it always does; the change counts from when the application was
 * last told of the error value (here, by fi_cntr_readerr or fi_cntr_seterr), lest it wait for ever.
 */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct hm_cntr *cntr = hm_cntr_of(&fid->fid);
	struct cntr_wait w = { .cntr = cntr, .threshold = threshold };

	if (cntr->nic.wait.obj == FI_WAIT_NONE) {
		HM_WARN(FI_LOG_CNTR, "fi_cntr_wait: the counter was opened with FI_WAIT_NONE");
		return -FI_ENOSYS;
	}
	w.errors = atomic_load_explicit(&cntr->errors_seen, memory_order_relaxed);
	if (hm_wait_until(&cntr->nic.wait, cntr_wait_over, &w, timeout))
		return -FI_ETIMEDOUT;
	if (w.ret == -FI_EOPBADSTATE)
		return refuse_exported(cntr, "fi_cntr_wait");
	if (w.ret)
		atomic_store_explicit(&cntr->errors_seen, atomic_load(&cntr->nic.errors),
				      memory_order_relaxed);
	return w.ret;
}

static int cntr_export_xpu(struct fid_cntr *fid, uint64_t flags, struct fid_xpu_cntr *xpu_cntr)
{
	return hm_xpu_cntr_export(hm_cntr_of(&fid->fid), flags, xpu_cntr);
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	return hm_wait_control(&hm_cntr_of(fid)->nic.wait, FI_LOG_CNTR, command, arg);
}

/*
 * A counter has nothing to be read away, so that ready means: it changed since fi_trywait last
 * answered so.  The caller looks at the counter and tries again.
 */
static bool cntr_changed(void *arg)
{
	struct hm_cntr *cntr = arg;

	hm_progress(cntr->domain);
	return atomic_load(&cntr->nic.value) != atomic_load(&cntr->value_tried) ||
	       atomic_load(&cntr->nic.errors) != atomic_load(&cntr->errors_tried);
}

int hm_cntr_trywait(struct hm_cntr *cntr)
{
	uint64_t value = atomic_load(&cntr->nic.value);
	uint64_t errors = atomic_load(&cntr->nic.errors);
	int ret = refuse_exported(cntr, "fi_trywait");

	if (ret)
		return ret;
	ret = hm_wait_try(&cntr->nic.wait, cntr_changed, cntr);
	if (ret == -FI_EAGAIN) {
		atomic_store(&cntr->value_tried, value);
		atomic_store(&cntr->errors_tried, errors);
	}
	if (ret == -FI_EINVAL)
		HM_WARN(FI_LOG_CNTR, "fi_trywait: the counter has no FI_WAIT_FD");
	return ret;
}

static int cntr_close(struct fid *fid)
{
	struct hm_cntr *cntr = hm_cntr_of(fid);
	int ret = hm_check_unused(&cntr->nic.users, "counter");

	if (ret)
		return ret;
	hm_xpu_part_end(cntr->xpu, atomic_exchange(&cntr->part, NULL));
	nic_cntr_destroy(&cntr->nic);
	hm_xpu_ctx_put(cntr->xpu);
	hm_unuse(&cntr->domain->users);
	hm_fid_end(fid);
	free(cntr);
	return 0;
}

static const struct fi_ops cntr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.bind = hm_no_bind,
	.control = cntr_control,
	.ops_open = hm_no_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

static const struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
	.export_xpu = cntr_export_xpu,
};

/* ---- of an XPU context: the same until the counter is exported ---- */

/* As fi_xpu_cntr_read has it where it cannot tell: nothing is counted as done. */
static uint64_t xpu_read(struct fid_cntr *fid)
{
	return refuse_exported(hm_cntr_of(&fid->fid), "fi_cntr_read") ? 0 : cntr_read(fid);
}

static uint64_t xpu_readerr(struct fid_cntr *fid)
{
	int ret = refuse_exported(hm_cntr_of(&fid->fid), "fi_cntr_readerr");

	return ret ? (uint64_t)ret : cntr_readerr(fid);
}

static int xpu_add(struct fid_cntr *fid, uint64_t value)
{
	int ret = refuse_exported(hm_cntr_of(&fid->fid), "fi_cntr_add");

	return ret ? ret : cntr_add(fid, value);
}

static int xpu_set(struct fid_cntr *fid, uint64_t value)
{
	int ret = refuse_exported(hm_cntr_of(&fid->fid), "fi_cntr_set");

	return ret ? ret : cntr_set(fid, value);
}

static int xpu_adderr(struct fid_cntr *fid, uint64_t value)
{
	int ret = refuse_exported(hm_cntr_of(&fid->fid), "fi_cntr_adderr");

	return ret ? ret : cntr_adderr(fid, value);
}

static int xpu_seterr(struct fid_cntr *fid, uint64_t value)
{
	int ret = refuse_exported(hm_cntr_of(&fid->fid), "fi_cntr_seterr");

	return ret ? ret : cntr_seterr(fid, value);
}

static int xpu_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	int ret = refuse_exported(hm_cntr_of(&fid->fid), "fi_cntr_wait");

	return ret ? ret : cntr_wait(fid, threshold, timeout);
}

static const struct fi_ops_cntr xpu_cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = xpu_read,
	.readerr = xpu_readerr,
	.add = xpu_add,
	.set = xpu_set,
	.wait = xpu_wait,
	.adderr = xpu_adderr,
	.seterr = xpu_seterr,
	.export_xpu = cntr_export_xpu,
};

/* ---- opening ---- */

static int check_attr(const struct fi_cntr_attr *attr)
{
	if (attr->flags & ~(uint64_t)FI_XPU) {
		HM_WARN(FI_LOG_CNTR, "fi_cntr_open: unknown flags in 0x%llx",
			(unsigned long long)attr->flags);
		return -FI_EBADFLAGS;
	}
	if (attr->events != FI_CNTR_EVENTS_COMP && attr->events != FI_CNTR_EVENTS_BYTES) {
		HM_WARN(FI_LOG_CNTR, "fi_cntr_open: %d is no kind of events", (int)attr->events);
		return -FI_EINVAL;
	}
	return hm_wait_check(attr->wait_obj, FI_LOG_CNTR, "fi_cntr_open");
}

int hm_cntr_open(struct fid_domain *domain_fid, struct fi_cntr_attr *attr,
		 struct fid_cntr **cntr_out, void *context)
{
	struct hm_domain *domain = hm_domain_of(&domain_fid->fid);
	struct hm_xpu_ctx *xpu;
	struct hm_cntr *cntr;
	int ret;

	if (!attr || !cntr_out) {
		HM_WARN(FI_LOG_CNTR, "fi_cntr_open: NULL %s", attr ? "cntr" : "attr");
		return -FI_EINVAL;
	}
	ret = check_attr(attr);
	if (ret)
		return ret;
	ret = hm_xpu_ctx_get(domain, attr->flags & FI_XPU, &attr->xpu_ctx, FI_XPU_CAP_CNTR,
			     "fi_cntr_open", &xpu);
	if (ret)
		return ret;
	cntr = calloc(1, sizeof(*cntr));
	if (!cntr) {
		HM_WARN(FI_LOG_CNTR, "fi_cntr_open: out of memory");
		ret = -FI_ENOMEM;
		goto put_context;
	}
	ret = nic_cntr_init(&cntr->nic, attr->events, attr->wait_obj);
	if (ret)
		goto free_cntr;
	cntr->domain = domain;
	cntr->xpu = xpu;
	cntr->cntr.fid.fclass = FI_CLASS_CNTR;
	cntr->cntr.fid.context = context;
	cntr->cntr.fid.ops = (struct fi_ops *)&cntr_fid_ops;
	cntr->cntr.ops = (struct fi_ops_cntr *)(xpu ? &xpu_cntr_ops : &cntr_ops);
	hm_use(&domain->users);
	*cntr_out = &cntr->cntr;
	return 0;

free_cntr:
	free(cntr);
put_context:
	hm_xpu_ctx_put(xpu);
	return ret;
}
