/* SPDX-License-Identifier: BSD-2-Clause */
/* The model: regions, and what its other files share. */
#include "tests/walk/model.h"

#include <string.h>

const char *const model_break_names[MODEL_BREAKS] = {
	[MODEL_SOUND] = "none",
	[MODEL_FORGETS_BASE] = "base",
	[MODEL_FORGETS_RIGHTS] = "rights",
	[MODEL_FORGETS_SINGLE] = "single",
	[MODEL_FORGETS_COUNT] = "count",
	[MODEL_FORGETS_ENDPOINT] = "endpoint",
	[MODEL_FORGETS_KEPT] = "kept",
	[MODEL_OFF_BY_ONE] = "bounds",
};

#define BASIC (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define VERBS (BASIC | FI_MR_LOCAL)
#define STRICT                                                                                     \
	(VERBS | FI_MR_RAW | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM |    \
	 FI_MR_COLLECTIVE | FI_MR_XPU_DESC)
#define LATEST FI_VERSION(2, 7)

#define NAMED(label, name, mode, asked, without, version, async)                                   \
	{                                                                                          \
		label, name, mode, asked, without, version, async                                  \
	}
/* Bits that no profile of the NIC has in this company. */
#define ANY(label, mode)                                                                           \
	{                                                                                          \
		label, "sw-any", mode, 0, 0, LATEST, false                                         \
	}

const struct walk_variant walk_variants[WALK_VARIANTS] = {
	NAMED("scalable", "sw-scalable", 0, 0, 0, LATEST, false),
	NAMED("verbs", "sw-verbs", VERBS, 0, 0, LATEST, false),
	NAMED("strict", "sw-strict", STRICT, 0, 0, LATEST, false),
	NAMED("basic", "sw-verbs", BASIC, FI_MR_BASIC, 0, LATEST, false),
	NAMED("no-event", "sw-scalable", 0, 0, FI_RMA_EVENT, LATEST, false),
	NAMED("strict-no-event", "sw-strict", STRICT, 0, FI_RMA_EVENT, LATEST, false),
	NAMED("async", "sw-verbs", VERBS, 0, 0, LATEST, true),
	NAMED("v1.21", "sw-scalable", 0, 0, 0, FI_VERSION(1, 21), false),
	NAMED("v1.18", "sw-scalable", 0, 0, 0, FI_VERSION(1, 18), false),
	ANY("local", FI_MR_LOCAL),
	ANY("raw", FI_MR_RAW),
	ANY("raw-virtual", FI_MR_RAW | FI_MR_VIRT_ADDR),
	ANY("raw-provider", FI_MR_RAW | FI_MR_PROV_KEY | FI_MR_ALLOCATED),
	ANY("virtual", FI_MR_VIRT_ADDR),
	ANY("allocated", FI_MR_ALLOCATED),
	ANY("provider", FI_MR_PROV_KEY),
	ANY("notify", FI_MR_MMU_NOTIFY),
	ANY("notify-virtual", FI_MR_MMU_NOTIFY | FI_MR_VIRT_ADDR | FI_MR_LOCAL),
	ANY("event", FI_MR_RMA_EVENT),
	ANY("event-provider", FI_MR_RMA_EVENT | FI_MR_PROV_KEY | FI_MR_LOCAL),
	ANY("endpoint", FI_MR_ENDPOINT),
	ANY("endpoint-event", FI_MR_ENDPOINT | FI_MR_RMA_EVENT),
	ANY("endpoint-virtual", FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED),
	ANY("collective", FI_MR_COLLECTIVE | FI_MR_HMEM | FI_MR_XPU_DESC),
};

/* ---- expectations ---- */

void model_may_fail(struct model *m, int code)
{
	struct walk_expect *e = m->e;

	for (uint32_t i = 0; i < e->codes; i++)
		if (e->code[i] == code)
			return;
	if (e->codes < WALK_ALTS)
		e->code[e->codes++] = code;
}

void model_add_error(struct walk_errors *errors, int err, int cause)
{
	if (errors->count < WALK_ALTS) {
		errors->at[errors->count].err = err;
		errors->at[errors->count++].cause = cause;
	}
}

void model_complete(struct model *m, int cq, uint32_t context, uint64_t flags,
		    const struct walk_errors *errors)
{
	struct walk_comp *comp;

	if (cq == WALK_NONE || m->e->comps == WALK_COMPS)
		return;
	comp = &m->e->comp[m->e->comps++];
	memset(comp, 0, sizeof(*comp));
	comp->cq = cq;
	comp->context = context;
	comp->flags = flags;
	if (errors)
		comp->errors = *errors;
}

void model_touch(struct model *m, const struct walk_range *range)
{
	if (range->len > 0 && m->e->touched < sizeof(m->e->range) / sizeof(m->e->range[0]))
		m->e->range[m->e->touched++] = *range;
}

void model_count(struct model *m, int cntr, uint64_t len)
{
	if (cntr != WALK_NONE)
		m->cntr[cntr].value += m->cntr[cntr].bytes ? len : 1;
}

void model_count_error(struct model *m, int cntr)
{
	if (cntr != WALK_NONE)
		m->cntr[cntr].errors++;
}

/* ---- memory ---- */

bool model_readable(const struct walk_range *range)
{
	return range->len == 0 ||
	       (range->at < WALK_MAPPED && range->len <= WALK_MAPPED - range->at);
}

bool model_writable(const struct walk_range *range)
{
	const uint64_t end = WALK_WRITABLE * WALK_PAGE;

	return range->len == 0 || (range->at < end && range->len <= end - range->at);
}

bool model_holds(const struct model_mr *mr, const struct walk_range *range)
{
	for (uint32_t i = 0; i < mr->iov_count; i++) {
		const struct walk_range *part = &mr->iov[i];

		if (range->at >= part->at && range->at - part->at <= part->len &&
		    range->len <= part->len - (range->at - part->at))
			return true;
	}
	return false;
}

bool model_has(const struct model *m, int domain, int mode_bit)
{
	return m->domain[domain].variant->mode & mode_bit;
}

static bool is_since(const struct model *m, int domain, uint32_t version)
{
	return FI_VERSION_GE(m->domain[domain].variant->version, version);
}

/* ---- registration: its arguments ---- */

#define ACCESS                                                                                     \
	(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE)

/* Keys are the application's to choose, also where peers use another form of them (FI_MR_RAW). */
static bool user_keys(const struct model *m, int domain)
{
	return !model_has(m, domain, FI_MR_PROV_KEY);
}

static bool can_count(const struct model *m, int domain)
{
	return !(m->domain[domain].variant->without & FI_RMA_EVENT);
}

static void check_flags(struct model *m, const struct walk_call *c)
{
	uint64_t known = FI_MR_SINGLE_USE;

	if (can_count(m, c->domain))
		known |= FI_RMA_EVENT;
	if (c->flags & ~known)
		model_may_fail(m, -FI_EBADFLAGS);
}

static void check_ranges(struct model *m, const struct walk_call *c)
{
	if (c->iov_count == 0 || c->iov_count > 16 || c->odd == WALK_ODD_NULL)
		model_may_fail(m, -FI_EINVAL);
	for (uint32_t i = 0; i < c->iov_count; i++)
		if (c->iov[i].len == 0 ||
		    (c->iov[i].at >= WALK_WRAPS && c->iov[i].len > UINT64_MAX - c->iov[i].at + 1))
			model_may_fail(m, -FI_EINVAL);
}

static void check_access(struct model *m, const struct walk_call *c)
{
	if (c->access & ~ACCESS)
		model_may_fail(m, -FI_EINVAL);
	if (model_has(m, c->domain, FI_MR_COLLECTIVE) && (c->access & FI_COLLECTIVE) &&
	    !(c->access & (FI_SEND | FI_RECV)))
		model_may_fail(m, -FI_EINVAL);
}

static void check_key(struct model *m, const struct walk_call *c)
{
	if (!user_keys(m, c->domain))
		return;
	if (c->key == FI_KEY_NOTAVAIL)
		model_may_fail(m, -FI_EKEYREJECTED);
	for (int i = 0; i < WALK_MRS; i++)
		if (m->mr[i].live && m->mr[i].domain == c->domain && m->mr[i].requested == c->key)
			model_may_fail(m, -FI_ENOKEY);
}

/* Attributes that are of fi_mr_regattr alone; a base takes some of them over. */
static void check_attributes(struct model *m, const struct walk_call *c, bool sub)
{
	if (c->odd == WALK_ODD_OFFSET)
		model_may_fail(m, -FI_EINVAL);
	if (c->form != WALK_FORM_MSG || sub)
		return;
	if ((c->odd == WALK_ODD_HMEM && is_since(m, c->domain, FI_VERSION(1, 20))) ||
	    (c->odd == WALK_ODD_PAGE && is_since(m, c->domain, FI_VERSION(2, 0))))
		model_may_fail(m, -FI_EINVAL);
}

/* Pages must be there, writable where the NIC is to write. */
static void check_pages(struct model *m, const struct walk_range *range, uint32_t count,
			uint64_t access)
{
	bool writes = access & (FI_RECV | FI_READ | FI_REMOTE_WRITE);

	for (uint32_t i = 0; i < count; i++) {
		if (!model_readable(&range[i]))
			model_may_fail(m, -FI_EFAULT);
		else if (writes && !model_writable(&range[i]))
			model_may_fail(m, -FI_EACCES);
	}
}

static void check_base(struct model *m, const struct walk_call *c)
{
	const struct model_mr *base = &m->mr[c->base];

	if (base->domain != c->domain)
		model_may_fail(m, -FI_EINVAL);
	for (uint32_t i = 0; i < c->iov_count && i < 16; i++)
		if (!model_holds(base, &c->iov[i]))
			model_may_fail(m, -FI_EINVAL);
}

/* ---- registration: the region ---- */

static void make_region(struct model *m, const struct walk_call *c, bool sub)
{
	struct model_mr *mr = &m->mr[c->mr];
	bool event = c->flags & FI_RMA_EVENT;

	memset(mr, 0, sizeof(*mr));
	mr->live = mr->seen = true;
	mr->id = ++m->ids;
	mr->domain = c->domain;
	mr->access = c->access;
	mr->raw = model_has(m, c->domain, FI_MR_RAW);
	mr->requested = c->key;
	mr->key = user_keys(m, c->domain) && !mr->raw ? c->key : FI_KEY_NOTAVAIL;
	mr->iov_count = c->iov_count;
	for (uint32_t i = 0; i < c->iov_count; i++) {
		mr->iov[i] = c->iov[i];
		mr->len += c->iov[i].len;
	}
	mr->wants_cntr = event && model_has(m, c->domain, FI_MR_RMA_EVENT);
	mr->enabled = !mr->wants_cntr && !model_has(m, c->domain, FI_MR_ENDPOINT);
	mr->single = c->flags & FI_MR_SINGLE_USE;
	if (m->broken == MODEL_FORGETS_SINGLE)
		mr->single = false;
	mr->cntr = mr->ep = mr->base = WALK_NONE;
	if (!sub)
		return;
	mr->base = c->base;
	m->mr[c->base].children++;
	if (m->broken == MODEL_FORGETS_RIGHTS)
		mr->access = m->mr[c->base].access;
}

static void do_reg(struct model *m, const struct walk_call *c)
{
	bool sub = c->base != WALK_NONE && c->form == WALK_FORM_MSG &&
		   is_since(m, c->domain, FI_VERSION(2, 0));

	check_flags(m, c);
	if (c->odd == WALK_ODD_NO_OUT)
		model_may_fail(m, -FI_EINVAL);
	check_ranges(m, c);
	check_access(m, c);
	check_attributes(m, c, sub);
	check_key(m, c);
	if (sub)
		check_base(m, c);
	if (model_has(m, c->domain, FI_MR_ALLOCATED))
		check_pages(m, c->iov, c->iov_count < 16 ? c->iov_count : 16, c->access);
	if (m->e->codes > 0)
		return;
	make_region(m, c, sub);
	m->e->gives_key = user_keys(m, c->domain) || m->mr[c->mr].raw;
	m->e->key = m->mr[c->mr].key;
	m->e->event = m->domain[c->domain].variant->async;
}

/* ---- life of a region ---- */

static void do_close(struct model *m, const struct walk_call *c)
{
	struct model_mr *mr = &m->mr[c->mr];

	if (mr->children > 0 && m->broken != MODEL_FORGETS_BASE) {
		model_may_fail(m, -FI_EBUSY);
		return;
	}
	mr->live = false;
	if (mr->cntr != WALK_NONE)
		m->cntr[mr->cntr].users--;
	if (mr->ep != WALK_NONE)
		m->ep[mr->ep].mrs--;
	if (mr->base != WALK_NONE)
		m->mr[mr->base].children--;
}

static void bind_cntr(struct model *m, const struct walk_call *c)
{
	struct model_mr *mr = &m->mr[c->mr];

	if (c->flags != FI_REMOTE_WRITE)
		model_may_fail(m, -FI_EINVAL);
	if (!can_count(m, mr->domain))
		model_may_fail(m, -FI_ENOSYS);
	if (m->cntr[c->cntr].domain != mr->domain)
		model_may_fail(m, -FI_EINVAL);
	/* where regions are enabled at all, everything is bound to them before that */
	if (model_has(m, mr->domain, FI_MR_RMA_EVENT | FI_MR_ENDPOINT) && mr->enabled)
		model_may_fail(m, -FI_EOPBADSTATE);
	/* where regions that get a counter have to say so, this one has not */
	if (model_has(m, mr->domain, FI_MR_RMA_EVENT) && !mr->wants_cntr)
		model_may_fail(m, -FI_EINVAL);
	if (mr->cntr != WALK_NONE)
		model_may_fail(m, -FI_EINVAL);
	if (m->e->codes > 0)
		return;
	mr->cntr = c->cntr;
	m->cntr[c->cntr].users++;
}

static void bind_ep(struct model *m, const struct walk_call *c)
{
	struct model_mr *mr = &m->mr[c->mr];

	if (c->flags != 0 || !model_has(m, mr->domain, FI_MR_ENDPOINT) ||
	    m->ep[c->ep].domain != mr->domain || mr->ep != WALK_NONE)
		model_may_fail(m, -FI_EINVAL);
	if (mr->enabled)
		model_may_fail(m, -FI_EOPBADSTATE);
	if (m->e->codes > 0)
		return;
	mr->ep = c->ep;
	m->ep[c->ep].mrs++;
}

static void do_bind(struct model *m, const struct walk_call *c)
{
	if (c->bound == WALK_BIND_CNTR)
		bind_cntr(m, c);
	else if (c->bound == WALK_BIND_EP)
		bind_ep(m, c);
	else
		model_may_fail(m, -FI_EINVAL);
}

static void do_enable(struct model *m, const struct walk_call *c)
{
	struct model_mr *mr = &m->mr[c->mr];

	if (mr->enabled || (model_has(m, mr->domain, FI_MR_ENDPOINT) && mr->ep == WALK_NONE) ||
	    (mr->wants_cntr && mr->cntr == WALK_NONE))
		model_may_fail(m, -FI_EOPBADSTATE);
	else
		mr->enabled = true;
}

static void do_refresh(struct model *m, const struct walk_call *c)
{
	const struct model_mr *mr = &m->mr[c->mr];

	if (c->flags != 0)
		model_may_fail(m, -FI_EBADFLAGS);
	if (c->iov_count > 0 && c->odd == WALK_ODD_NULL)
		model_may_fail(m, -FI_EINVAL);
	for (uint32_t i = 0; i < c->iov_count; i++)
		if (c->iov[i].len == 0 || !model_holds(mr, &c->iov[i]))
			model_may_fail(m, -FI_EINVAL);
	if (!model_has(m, mr->domain, FI_MR_ALLOCATED | FI_MR_MMU_NOTIFY))
		return;
	if (c->iov_count > 0)
		check_pages(m, c->iov, c->iov_count, mr->access);
	else
		check_pages(m, mr->iov, mr->iov_count, mr->access);
}

static void do_region(struct model *m, const struct walk_call *c)
{
	switch (c->kind) {
	case WALK_REG:
		do_reg(m, c);
		break;
	case WALK_MR_CLOSE:
		do_close(m, c);
		break;
	case WALK_MR_BIND:
		do_bind(m, c);
		break;
	case WALK_MR_ENABLE:
		do_enable(m, c);
		break;
	default:
		do_refresh(m, c);
		break;
	}
}

/* ---- all calls ---- */

void model_init(struct model *m, const struct walk_config *config, enum model_break broken)
{
	memset(m, 0, sizeof(*m));
	m->config = *config;
	m->broken = broken;
}

void model_call(struct model *m, const struct walk_call *c, struct walk_expect *e)
{
	memset(e, 0, offsetof(struct walk_expect, comp));
	e->comps = e->touched = 0;
	e->unsure = e->undefined = e->either = e->gives_key = e->event = false;
	m->e = e;
	if (c->kind >= WALK_REG && c->kind <= WALK_MR_REFRESH)
		do_region(m, c);
	else if (c->kind >= WALK_RAW_ATTR && c->kind <= WALK_XPU_DESC)
		model_raw(m, c);
	else if (c->kind >= WALK_EP_OPEN && c->kind <= WALK_EP_CLOSE)
		model_endpoint(m, c);
	else if (c->kind >= WALK_CNTR_OPEN && c->kind <= WALK_DOMAIN_CLOSE)
		model_object(m, c);
	else if (c->kind == WALK_RMA || c->kind == WALK_ATOMIC)
		model_rma(m, c);
	else if (c->kind >= WALK_SEND && c->kind <= WALK_CANCEL)
		model_message(m, c);
}
