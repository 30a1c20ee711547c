/* SPDX-License-Identifier: BSD-2-Clause */
/* What a step is in the state it meets: regions and keys, and what plan_*.c share. */
#include "tests/walk/plan.h"

#include <string.h>

/* ---- slots ---- */

int plan_pick(struct operands *o, int slots, plan_test test, int of)
{
	int first = (int)take(o) % slots;

	for (int i = 0; i < slots; i++) {
		int slot = (first + i) % slots;

		if (test(o->m, slot, of))
			return slot;
	}
	return WALK_NONE;
}

int plan_prefer(struct operands *o, int slots, plan_test best, plan_test other, int of)
{
	bool any = seldom(o, 8);
	unsigned at = o->at;
	int slot = any ? WALK_NONE : plan_pick(o, slots, best, of);

	if (slot != WALK_NONE)
		return slot;
	o->at = at;
	return plan_pick(o, slots, other, of);
}

bool plan_live_domain(const struct model *m, int slot, int of)
{
	(void)of;
	return m->domain[slot].live;
}

static bool live_mr(const struct model *m, int slot, int of)
{
	(void)of;
	return m->mr[slot].live;
}

bool plan_live_ep(const struct model *m, int slot, int of)
{
	(void)of;
	return m->ep[slot].live;
}

static bool mr_of(const struct model *m, int slot, int domain)
{
	return m->mr[slot].live && m->mr[slot].domain == domain;
}

static bool seen_mr(const struct model *m, int slot, int of)
{
	(void)of;
	return m->mr[slot].seen;
}

static bool free_mr(const struct model *m, int slot, int of)
{
	(void)of;
	return !m->mr[slot].live;
}

static bool disabled_mr(const struct model *m, int slot, int of)
{
	(void)of;
	return m->mr[slot].live && !m->mr[slot].enabled;
}

static bool ep_of(const struct model *m, int slot, int domain)
{
	return m->ep[slot].live && m->ep[slot].domain == domain;
}

static bool cntr_of(const struct model *m, int slot, int domain)
{
	return m->cntr[slot].live && m->cntr[slot].domain == domain;
}

static bool live_cntr(const struct model *m, int slot, int of)
{
	(void)of;
	return m->cntr[slot].live;
}

static bool live_map(const struct model *m, int slot, int of)
{
	(void)of;
	return m->map[slot].live;
}

static bool seen_map(const struct model *m, int slot, int of)
{
	(void)of;
	return m->map[slot].seen;
}

static bool free_map(const struct model *m, int slot, int of)
{
	(void)of;
	return !m->map[slot].live;
}

/* ---- ranges ---- */

/* A range anywhere. */
static struct walk_range any_range(struct operands *o)
{
	static const uint8_t page[16] = { 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 3, 4 };
	unsigned place = take(o), off = take(o), len = take(o);
	struct walk_range range;

	range.at = page[place % (o->m->config.faults ? 16 : 12)] * WALK_PAGE + off * 16 +
		   (place >= 224 ? place % 16 : 0);
	range.len = len < 224 ? 8 + len : (len - 220) * 40;
	if (len == 255)
		range.len = 0;
	if (len == 254 && place == 255)
		range = (struct walk_range){ WALK_WRAPS, 64 };
	else if (range.len > plan_end(o) - range.at)
		range.len = plan_end(o) - range.at;
	return range;
}

/* A range inside another one. */
static struct walk_range part_of(struct operands *o, const struct walk_range *of)
{
	unsigned off = take(o), len = take(o);
	struct walk_range part = *of;

	if (part.len == 0)
		return part;
	part.at += off % part.len;
	part.len -= off % part.len;
	part.len = len < 248 ? 1 + len % part.len : part.len + len - 247;
	return part;
}

/* ---- registration ---- */

static const uint64_t bits[] = { FI_SEND,	 FI_RECV,	  FI_READ,	FI_WRITE,
				 FI_REMOTE_READ, FI_REMOTE_WRITE, FI_COLLECTIVE };
#define ALL (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static uint64_t plan_access(struct operands *o)
{
	unsigned how = take(o), which = take(o);
	uint64_t access = 0;

	if (how < 112)
		return ALL;
	if (how == 255)
		return ALL | FI_TRANSMIT; /* no right */
	for (unsigned i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		access |= which & 1u << i ? bits[i] : 0;
	return access;
}

static uint64_t plan_mr_flags(struct operands *o)
{
	static const uint64_t wrong[] = { FI_RMA_PMEM,	FI_HMEM_DEVICE_ONLY, FI_HMEM_HOST_ALLOC,
					  FI_MR_DMABUF, UINT64_C(1) << 55,   FI_AUTH_KEY };
	unsigned how = take(o);

	if (how < 152)
		return 0;
	if (how < 212)
		return FI_RMA_EVENT;
	if (how < 236)
		return FI_MR_SINGLE_USE;
	if (how < 250)
		return FI_RMA_EVENT | FI_MR_SINGLE_USE;
	return wrong[how - 250] | (take(o) & 1 ? FI_RMA_EVENT : 0);
}

static uint32_t plan_count(struct operands *o, enum walk_form form)
{
	static const uint8_t many[] = { 4, 16, 17, 0 };
	unsigned how = take(o);

	if (form == WALK_FORM_ONE || how < 190)
		return 1;
	if (how < 252)
		return how < 230 ? 2 : 3;
	return many[how - 252];
}

static enum walk_odd plan_reg_odd(struct operands *o, enum walk_form form)
{
	static const enum walk_odd odd[] = { WALK_ODD_NULL, WALK_ODD_NO_OUT, WALK_ODD_OFFSET,
					     WALK_ODD_HMEM, WALK_ODD_PAGE,   WALK_ODD_PAGE_OK,
					     WALK_ODD_IFACE };
	unsigned how = take(o);
	enum walk_odd what = how < 242 ? WALK_ODD_NONE : odd[(how - 242) % 7];

	if (what == WALK_ODD_NULL && form == WALK_FORM_ONE)
		return WALK_ODD_NONE;
	if (what >= WALK_ODD_HMEM && form != WALK_FORM_MSG)
		return WALK_ODD_NONE;
	return what;
}

static int plan_base(struct operands *o, const struct walk_call *c)
{
	bool sub = take(o) % 4 != 0;

	if (!sub || c->form != WALK_FORM_MSG)
		return WALK_NONE;
	if (seldom(o, 32))
		return plan_pick(o, WALK_MRS, live_mr, 0);
	return plan_pick(o, WALK_MRS, mr_of, c->domain);
}

static void plan_reg(struct operands *o, struct walk_call *c)
{
	static const enum walk_form forms[] = { WALK_FORM_ONE, WALK_FORM_MSG, WALK_FORM_MSG,
						WALK_FORM_V };
	const struct model_mr *base;
	unsigned key;

	c->domain = plan_pick(o, WALK_DOMAINS, plan_live_domain, 0);
	c->mr = plan_pick(o, WALK_MRS, free_mr, 0);
	if (c->domain == WALK_NONE || c->mr == WALK_NONE)
		return;
	c->kind = WALK_REG;
	c->form = forms[take(o) % 4];
	c->base = plan_base(o, c);
	c->iov_count = plan_count(o, c->form);
	c->access = plan_access(o);
	c->flags = plan_mr_flags(o);
	/* this call has no place for it, so that it can only be refused */
	key = take(o);
	c->key = key == 255 ? FI_KEY_NOTAVAIL : o->m->config.first_key + key % 24;
	c->odd = plan_reg_odd(o, c->form);
	c->sub_mr_cnt = take(o) % 8 == 7 ? 100 : 0;
	base = c->base == WALK_NONE ? NULL : &o->m->mr[c->base];
	for (uint32_t i = 0; i < c->iov_count; i++)
		c->iov[i] = base ? part_of(o, &base->iov[take(o) % base->iov_count]) : any_range(o);
}

/* ---- a region's other calls ---- */

static void plan_bind(struct operands *o, struct walk_call *c)
{
	const struct model *m = o->m;
	const struct model_mr *mr;
	unsigned how;

	c->mr = plan_prefer(o, WALK_MRS, disabled_mr, live_mr, 0);
	if (c->mr == WALK_NONE)
		return;
	mr = &m->mr[c->mr];
	how = take(o);
	if (how >= 250)
		c->bound = how >= 253 ? WALK_BIND_NULL : WALK_BIND_CQ;
	else if (how < 200)
		c->bound = model_has(m, mr->domain, FI_MR_ENDPOINT) && mr->ep == WALK_NONE
				   ? WALK_BIND_EP
				   : WALK_BIND_CNTR;
	else
		c->bound = how & 1 ? WALK_BIND_EP : WALK_BIND_CNTR;
	c->cntr = seldom(o, 8) ? plan_pick(o, WALK_CNTRS, live_cntr, 0)
			       : plan_pick(o, WALK_CNTRS, cntr_of, mr->domain);
	c->ep = seldom(o, 8) ? plan_pick(o, WALK_EPS, plan_live_ep, 0)
			     : plan_pick(o, WALK_EPS, ep_of, mr->domain);
	c->cq = 0;
	if ((c->bound == WALK_BIND_CNTR && c->cntr == WALK_NONE) ||
	    (c->bound == WALK_BIND_EP && c->ep == WALK_NONE) ||
	    (c->bound == WALK_BIND_CQ && !m->cq[0].live))
		return;
	c->kind = WALK_MR_BIND;
	c->flags = c->bound == WALK_BIND_CNTR ? FI_REMOTE_WRITE : 0;
	if (seldom(o, 16))
		c->flags ^= take(o) & 1 ? FI_REMOTE_WRITE : FI_REMOTE_READ;
}

static void plan_refresh(struct operands *o, struct walk_call *c)
{
	const struct model_mr *mr;
	unsigned how;

	c->mr = plan_pick(o, WALK_MRS, live_mr, 0);
	if (c->mr == WALK_NONE)
		return;
	c->kind = WALK_MR_REFRESH;
	mr = &o->m->mr[c->mr];
	how = take(o);
	c->iov_count = how < 128 ? 0 : 1 + how % 3;
	c->flags = seldom(o, 32) ? FI_RMA_EVENT : 0;
	c->odd = seldom(o, 32) ? WALK_ODD_NULL : WALK_ODD_NONE;
	for (uint32_t i = 0; i < c->iov_count; i++)
		c->iov[i] = part_of(o, &mr->iov[take(o) % mr->iov_count]);
}

static void plan_raw_attr(struct operands *o, struct walk_call *c, enum walk_kind kind)
{
	static const enum walk_odd odd[] = { WALK_ODD_NULL, WALK_ODD_FLAGS, WALK_ODD_SHORT,
					     WALK_ODD_NO_BUFFER };
	unsigned how;

	c->mr = plan_pick(o, WALK_MRS, live_mr, 0);
	if (c->mr == WALK_NONE)
		return;
	c->kind = kind;
	how = take(o);
	c->odd = how < 160 ? WALK_ODD_NONE : odd[how % 4];
}

/* ---- keys ---- */

/* A region of raw keys that is of use by now. */
static bool raw_mr(const struct model *m, int slot, int of)
{
	(void)of;
	return m->mr[slot].live && m->mr[slot].raw && m->mr[slot].enabled;
}

static bool stale_map(const struct model *m, int slot, int of)
{
	const struct model_map *map = &m->map[slot];

	(void)of;
	return map->live && (!m->mr[map->mr].live || m->mr[map->mr].id != map->mr_id);
}

static void plan_map(struct operands *o, struct walk_call *c)
{
	unsigned how;

	c->domain = plan_pick(o, WALK_DOMAINS, plan_live_domain, 0);
	c->map = plan_pick(o, WALK_MAPS, free_map, 0);
	c->mr = plan_prefer(o, WALK_MRS, raw_mr, seen_mr, 0);
	if (c->domain == WALK_NONE || c->map == WALK_NONE || c->mr == WALK_NONE)
		return;
	c->kind = WALK_MAP;
	how = take(o);
	c->raw = how < 200 ? WALK_RAW_GOOD : (enum walk_raw_bad)(how % (WALK_RAW_NO_KEY + 1));
	how = take(o);
	c->key = how == 255 ? FI_KEY_NOTAVAIL : o->m->config.first_key + how % 24;
	c->value = take(o);
}

static void plan_unmap(struct operands *o, struct walk_call *c)
{
	unsigned how = take(o);

	c->map = how < 160 ? plan_pick(o, WALK_MAPS, stale_map, 0)
			   : plan_pick(o, WALK_MAPS, how < 224 ? live_map : seen_map, 0);
	if (c->map == WALK_NONE)
		return;
	c->domain = o->m->map[c->map].domain;
	if (seldom(o, 8) || !o->m->domain[c->domain].live)
		c->domain = plan_pick(o, WALK_DOMAINS, plan_live_domain, 0);
	if (c->domain == WALK_NONE)
		return;
	c->kind = WALK_UNMAP;
	c->odd = seldom(o, 32) ? WALK_ODD_FLAGS : WALK_ODD_NONE;
}

static void plan_region(struct operands *o, struct walk_call *c, enum walk_kind kind)
{
	switch (kind) {
	case WALK_REG:
		plan_reg(o, c);
		break;
	case WALK_MR_BIND:
		plan_bind(o, c);
		break;
	case WALK_MR_REFRESH:
		plan_refresh(o, c);
		break;
	case WALK_RAW_ATTR:
	case WALK_XPU_DESC:
		plan_raw_attr(o, c, kind);
		break;
	case WALK_MAP:
		plan_map(o, c);
		break;
	case WALK_UNMAP:
		plan_unmap(o, c);
		break;
	default: /* closing and enabling */
		c->mr = kind == WALK_MR_CLOSE ? plan_pick(o, WALK_MRS, live_mr, 0)
					      : plan_prefer(o, WALK_MRS, disabled_mr, live_mr, 0);
		c->kind = c->mr == WALK_NONE ? WALK_NOTHING : kind;
		break;
	}
}

void walk_plan(const struct model *m, const struct walk_step *s, struct walk_call *c)
{
	struct operands o = { m, s, 1 };
	enum walk_kind kind = (enum walk_kind)(s->b[0] % WALK_KINDS);

	memset(c, 0, sizeof(*c));
	c->base = WALK_NONE;
	if (kind >= WALK_REG && kind <= WALK_XPU_DESC) {
		plan_region(&o, c, kind);
	} else if (kind >= WALK_RMA && kind <= WALK_CANCEL) {
		c->kind = kind;
		plan_operation(&o, c);
	} else if (kind != WALK_NOTHING) {
		c->kind = kind;
		plan_object(&o, c);
	}
}
