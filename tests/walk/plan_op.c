/* SPDX-License-Identifier: BSD-2-Clause */
/* What a step is in the state it meets: RMA, atomics and messages.  Most of them are made to succeed. */
#include "tests/walk/plan.h"

static bool enabled_ep(const struct model *m, int slot, int of)
{
	(void)of;
	return m->ep[slot].enabled;
}

/* ---- the peer ---- */

static bool any_addr(const struct model *m, int slot, int domain)
{
	(void)m;
	(void)slot;
	(void)domain;
	return true;
}

static bool good_addr(const struct model *m, int slot, int domain)
{
	int ep = m->domain[domain].addr[slot].live
			 ? model_ep_by_id(m, m->domain[domain].addr[slot].ep)
			 : WALK_NONE;

	return ep != WALK_NONE && m->ep[ep].enabled;
}

/* The endpoint and whom it talks to; c->kind is WALK_NOTHING where there is none. */
static void plan_ends(struct operands *o, struct walk_call *c)
{
	bool any = seldom(o, 32);

	c->ep = plan_pick(o, WALK_EPS, any ? plan_live_ep : enabled_ep, 0);
	if (c->ep == WALK_NONE) {
		c->kind = WALK_NOTHING;
		return;
	}
	c->context = o->m->contexts;
	any = seldom(o, 32);
	c->to = WALK_NONE;
	if (!any)
		c->to = plan_pick(o, WALK_ADDRS, good_addr, o->m->ep[c->ep].domain);
	if (c->to == WALK_NONE)
		c->to = plan_pick(o, WALK_ADDRS, any_addr, 0);
}

/* ---- the remote side ---- */

/* Regions that this access is for. */
struct aim {
	int ep, domain; /* the target's */
	int from;	/* the initiator's domain */
	uint64_t rights;
	bool raw;
};

static int mapped_slot(const struct model *m, int domain, int mr)
{
	for (int i = 0; i < WALK_MAPS; i++)
		if (m->map[i].live && m->map[i].wide && m->map[i].domain == domain &&
		    m->map[i].mr == mr && m->map[i].mr_id == m->mr[mr].id)
			return i;
	return WALK_NONE;
}

/* Not a plan_test, since it looks at more than a number. */
static int pick_remote(struct operands *o, const struct aim *aim)
{
	int first = (int)take(o) % WALK_MRS, near = WALK_NONE;
	bool used_up = seldom(o, 16); /* is what is looked for */

	for (int i = 0; i < WALK_MRS; i++) {
		int slot = (first + i) % WALK_MRS;
		const struct model_mr *mr = &o->m->mr[slot];

		if (!mr->live || mr->domain != aim->domain)
			continue;
		if (near == WALK_NONE)
			near = slot;
		if (mr->enabled && mr->used == used_up &&
		    (mr->access & aim->rights) == aim->rights &&
		    (mr->ep == WALK_NONE || mr->ep == aim->ep) &&
		    (!aim->raw || mapped_slot(o->m, aim->from, slot) != WALK_NONE))
			return slot;
	}
	return near;
}

static bool seen_mr(const struct model *m, int slot, int of)
{
	(void)of;
	return m->mr[slot].seen;
}

static bool seen_map(const struct model *m, int slot, int of)
{
	(void)of;
	return m->map[slot].seen;
}

static void plan_key(struct operands *o, const struct aim *aim, int mr, struct walk_remote *r)
{
	unsigned odd = take(o);

	r->how = WALK_KEY_OF;
	r->slot = mr;
	r->number = o->m->config.first_key + take(o) % 24;
	if (aim->raw)
		r->slot = mapped_slot(o->m, aim->from, mr);
	if (aim->raw && r->slot != WALK_NONE)
		r->how = WALK_KEY_MAPPED;
	else
		r->slot = mr;
	if (odd < 240)
		return;
	r->how = (enum walk_key_how)(odd % 3);
	if (r->how == WALK_KEY_OF)
		r->slot = plan_pick(o, WALK_MRS, seen_mr, 0);
	else if (r->how == WALK_KEY_MAPPED)
		r->slot = plan_pick(o, WALK_MAPS, seen_map, 0);
	if (r->slot == WALK_NONE)
		r->how = WALK_KEY_NUMBER;
}

/* A part of a region of so many bytes, of elements of size; limit is what an operation takes. */
static void plan_place(struct operands *o, const struct model_mr *mr, size_t size, size_t limit,
		       struct walk_remote *r)
{
	unsigned off = take(o) | take(o) << 8, len = take(o), odd = take(o);
	uint64_t room;

	r->addr = off % mr->len;
	if (size > 1) {
		uint64_t bend = (mr->iov[0].at + r->addr) % size;

		r->addr = r->addr >= bend ? r->addr - bend : r->addr + (size - bend);
	}
	room = r->addr < mr->len ? (mr->len - r->addr) / size : 0;
	if (room > limit / size)
		room = limit / size;
	r->len = room ? (1 + len % room) * size : size;
	if (odd >= 248 && size == 1)
		r->len = odd == 255 ? 0 : mr->len - r->addr + (odd - 247);
	else if (odd >= 244)
		r->addr = (odd & 1 ? mr->len - size : mr->len) + odd % 3;
	else if (odd == 243)
		r->addr -= size * 2; /* before its beginning */
	if (r->len > 512)
		r->len = 512 / size * size;
}

static void plan_remote(struct operands *o, const struct aim *aim, size_t size,
			struct walk_remote *r)
{
	const struct model *m = o->m;
	int mr = seldom(o, 16) ? plan_pick(o, WALK_MRS, seen_mr, 0) : pick_remote(o, aim);

	r->virt = aim->domain != WALK_NONE && model_has(m, aim->domain, FI_MR_VIRT_ADDR);
	if (mr == WALK_NONE) { /* there is no region yet */
		r->how = WALK_KEY_NUMBER;
		r->number = m->config.first_key;
		r->addr = take(o) * 8;
		r->len = size * (1 + take(o) % 8);
		return;
	}
	plan_key(o, aim, mr, r);
	plan_place(o, &m->mr[mr], size, size > 1 ? 32 : 96, r);
	if (r->virt)
		r->addr += m->mr[mr].iov[0].at;
}

/* ---- the local side ---- */

/* any: also what is not enabled, or has not the right. */
static int pick_local(struct operands *o, int domain, uint64_t access, uint64_t len, bool any,
		      uint32_t *part)
{
	int first = (int)take(o) % WALK_MRS;

	for (int i = 0; i < WALK_MRS; i++) {
		int slot = (first + i) % WALK_MRS;
		const struct model_mr *mr = &o->m->mr[slot];

		if (!mr->live || mr->domain != domain || (!mr->enabled && !any) ||
		    (!any && access & ~(mr->access ? mr->access : FI_SEND | FI_WRITE)))
			continue;
		for (*part = 0; *part < mr->iov_count; ++*part)
			if (mr->iov[*part].len >= len)
				return slot;
	}
	return WALK_NONE;
}

static void plan_odd_desc(struct operands *o, struct walk_seg *seg, unsigned odd)
{
	switch (odd % 4) {
	case 0: /* any other region, which may be closed or a foreign one */
		seg->desc = WALK_DESC_MR;
		seg->mr = plan_pick(o, WALK_MRS, seen_mr, 0);
		if (seg->mr != WALK_NONE)
			return;
		break;
	case 1:
		seg->desc = WALK_DESC_NULL;
		return;
	case 2: /* past the end of its region */
		seg->range.at += take(o);
		return;
	default:
		break;
	}
	seg->desc = WALK_DESC_BOGUS;
	seg->mr = 0;
}

static void plan_seg(struct operands *o, int domain, uint64_t access, uint64_t len,
		     struct walk_seg *seg)
{
	static const uint8_t page[8] = { 0, 1, 2, 0, 1, 2, 3, 4 };
	unsigned off = take(o), odd = take(o);
	uint32_t part = 0;
	int mr = pick_local(o, domain, access, len, odd >= 228 && odd < 240, &part);
	bool may_lack = !model_has(o->m, domain, FI_MR_LOCAL);

	seg->range.len = len;
	seg->mr = 0;
	if (mr == WALK_NONE || (may_lack && off & 1)) {
		seg->desc = WALK_DESC_NULL;
		seg->range.at = page[odd % 6] * WALK_PAGE + off * 8;
		if (odd >= 252 && may_lack && o->m->config.faults)
			seg->range.at = page[6 + odd % 2] * WALK_PAGE + off * 8;
	} else {
		const struct walk_range *of = &o->m->mr[mr].iov[part];

		seg->desc = WALK_DESC_MR;
		seg->mr = mr;
		seg->range.at = of->at + (off * 7) % (of->len - len + 1);
	}
	if (odd >= 240 && odd < 252)
		plan_odd_desc(o, seg, odd);
	if (seg->range.at > plan_end(o) - len) /* nowhere outside the memory */
		seg->range.at = plan_end(o) - len;
}

/* So many bytes in one to three entries. */
static void plan_segs(struct operands *o, struct walk_call *c, uint64_t access, uint64_t len)
{
	unsigned many = take(o);

	c->segs = 1;
	if ((c->form == WALK_FORM_V || c->form == WALK_FORM_MSG) && many >= 160)
		c->segs = many >= 224 ? 3 : 2;
	for (uint32_t i = 0; i < c->segs; i++) {
		uint64_t part = i + 1 == c->segs ? len : len / (c->segs - i);

		plan_seg(o, o->m->ep[c->ep].domain, access, part, &c->seg[i]);
		len -= part;
	}
	c->count_limit = (c->form == WALK_FORM_V || c->form == WALK_FORM_MSG) && seldom(o, 64);
}

/* ---- flags ---- */

static uint64_t plan_flags(struct operands *o, const struct walk_call *c)
{
	static const uint64_t some[] = { 0,
					 FI_COMPLETION,
					 FI_DELIVERY_COMPLETE,
					 FI_INJECT,
					 FI_REMOTE_CQ_DATA,
					 FI_COMPLETION | FI_REMOTE_CQ_DATA,
					 FI_FENCE | FI_INJECT,
					 FI_DELIVERY_COMPLETE | FI_COMPLETION };
	unsigned how = take(o);

	if (c->form != WALK_FORM_MSG)
		return c->form == WALK_FORM_DATA ? FI_REMOTE_CQ_DATA : 0;
	if (how >= 252)
		return how == 252 ? FI_RMA_EVENT : FI_REMOTE_CQ_DATA | UINT64_C(1) << 52;
	return some[how % 8];
}

/* ---- operations ---- */

static struct aim aim_of(const struct model *m, const struct walk_call *c, uint64_t rights)
{
	struct aim aim = { model_target(m, c), WALK_NONE, m->ep[c->ep].domain, rights, false };

	if (!m->domain[m->ep[c->ep].domain].addr[c->to].live)
		aim.ep = WALK_NONE;
	if (aim.ep != WALK_NONE)
		aim.domain = m->ep[aim.ep].domain;
	aim.raw = aim.domain != WALK_NONE && model_has(m, aim.domain, FI_MR_RAW);
	return aim;
}

/* The remote entries; how many bytes they are. */
static uint64_t plan_remotes(struct operands *o, struct walk_call *c, uint64_t rights, size_t size)
{
	struct aim aim = aim_of(o->m, c, rights);
	unsigned many = take(o);
	uint64_t len = 0;

	c->remotes = 1;
	if (c->form == WALK_FORM_MSG && many >= 128)
		c->remotes = many >= 208 ? 3 : 2;
	for (uint32_t i = 0; i < c->remotes; i++) {
		plan_remote(o, &aim, size, &c->remote[i]);
		len += c->remote[i].len;
	}
	return len;
}

static void plan_rma(struct operands *o, struct walk_call *c)
{
	static const enum walk_form forms[] = { WALK_FORM_ONE, WALK_FORM_ONE,  WALK_FORM_V,
						WALK_FORM_MSG, WALK_FORM_DATA, WALK_FORM_INJECT,
						WALK_FORM_ONE, WALK_FORM_MSG };
	uint64_t len;

	plan_ends(o, c);
	if (c->kind == WALK_NOTHING)
		return;
	c->reads = take(o) & 1;
	c->form = forms[take(o) % (c->reads ? 4 : 8)];
	c->flags = plan_flags(o, c);
	if (c->form == WALK_FORM_INJECT)
		c->context = 0;
	c->data = take(o);
	len = plan_remotes(o, c, c->reads ? FI_REMOTE_READ : FI_REMOTE_WRITE, 1);
	plan_segs(o, c, c->reads ? FI_READ : FI_WRITE, len);
	if (c->form == WALK_FORM_MSG && seldom(o, 64))
		c->remote[0].len++;
}

static enum fi_op plan_op(struct operands *o, int kind)
{
	static const enum fi_op plain[] = { FI_SUM,	   FI_MIN,  FI_MAX,  FI_PROD,
					    FI_LOR,	   FI_LAND, FI_BOR,  FI_BAND,
					    FI_LXOR,	   FI_BXOR, FI_DIFF, FI_ATOMIC_WRITE,
					    FI_ATOMIC_READ };
	unsigned op = take(o);

	if (seldom(o, 32))
		return (enum fi_op)(op % (FI_DIFF + 1));
	if (kind == 2)
		return (enum fi_op)(FI_CSWAP + op % (FI_MSWAP - FI_CSWAP + 1));
	return plain[op % (kind == 1 ? 13 : 12)];
}

static void plan_atomic(struct operands *o, struct walk_call *c)
{
	static const enum fi_datatype types[] = { FI_UINT64, FI_INT64, FI_INT32, FI_UINT32,
						  FI_UINT16, FI_INT16, FI_UINT8, FI_INT8 };
	static const enum walk_form forms[] = { WALK_FORM_ONE, WALK_FORM_V, WALK_FORM_MSG,
						WALK_FORM_INJECT };
	uint64_t len, rights;

	plan_ends(o, c);
	if (c->kind == WALK_NOTHING)
		return;
	c->atomic = (int)(take(o) % 3);
	c->form = forms[take(o) % (c->atomic ? 3 : 4)];
	c->datatype = types[take(o) % 8];
	c->op = plan_op(o, c->atomic);
	c->flags = c->form == WALK_FORM_MSG ? plan_flags(o, c) : 0;
	if (c->form == WALK_FORM_INJECT)
		c->context = 0;
	rights = c->op == FI_ATOMIC_READ ? FI_REMOTE_READ
		 : c->atomic		 ? FI_REMOTE_READ | FI_REMOTE_WRITE
					 : FI_REMOTE_WRITE;
	len = plan_remotes(o, c, rights, model_atomic_size(c->datatype));
	c->segs = 1;
	plan_seg(o, o->m->ep[c->ep].domain, FI_WRITE, len, &c->seg[0]);
	if (c->atomic > 0)
		plan_seg(o, o->m->ep[c->ep].domain, FI_READ, len, &c->result);
	if (c->atomic == 2)
		plan_seg(o, o->m->ep[c->ep].domain, FI_WRITE, len, &c->compare);
}

static void plan_send(struct operands *o, struct walk_call *c)
{
	static const enum walk_form forms[] = { WALK_FORM_ONE,	WALK_FORM_V,	  WALK_FORM_MSG,
						WALK_FORM_DATA, WALK_FORM_INJECT, WALK_FORM_MSG };
	struct aim aim;

	plan_ends(o, c);
	if (c->kind == WALK_NOTHING)
		return;
	aim = aim_of(o->m, c, 0);
	/* as many as the model keeps */
	if (aim.ep != WALK_NONE && o->m->ep[aim.ep].messages >= MODEL_QUEUE)
		c->kind = WALK_NOTHING;
	c->form = forms[take(o) % 6];
	c->flags = plan_flags(o, c);
	if (c->form == WALK_FORM_INJECT)
		c->context = 0;
	c->data = take(o);
	plan_segs(o, c, FI_SEND, take(o) % 128);
}

static void plan_recv(struct operands *o, struct walk_call *c)
{
	static const enum walk_form forms[] = { WALK_FORM_ONE, WALK_FORM_V, WALK_FORM_MSG };
	unsigned how;

	plan_ends(o, c);
	if (c->kind == WALK_NOTHING)
		return;
	if (o->m->ep[c->ep].posted >= MODEL_QUEUE)
		c->kind = WALK_NOTHING;
	c->form = forms[take(o) % 3];
	how = take(o);
	if (c->form == WALK_FORM_MSG)
		c->flags = how < 248 ? (how & 1 ? FI_COMPLETION : 0) : FI_RMA_EVENT;
	plan_segs(o, c, FI_RECV, take(o) % 160);
}

static void plan_cancel(struct operands *o, struct walk_call *c)
{
	const struct model_ep *ep;
	unsigned which;

	c->ep = plan_pick(o, WALK_EPS, plan_live_ep, 0);
	if (c->ep == WALK_NONE) {
		c->kind = WALK_NOTHING;
		return;
	}
	ep = &o->m->ep[c->ep];
	which = take(o);
	c->context = o->m->contexts;
	if (ep->posted > 0 && which < 224)
		c->context = ep->recv[which % ep->posted].context;
}

void plan_operation(struct operands *o, struct walk_call *c)
{
	switch (c->kind) {
	case WALK_RMA:
		plan_rma(o, c);
		break;
	case WALK_ATOMIC:
		plan_atomic(o, c);
		break;
	case WALK_SEND:
		plan_send(o, c);
		break;
	case WALK_RECV:
		plan_recv(o, c);
		break;
	default:
		plan_cancel(o, c);
		break;
	}
}
