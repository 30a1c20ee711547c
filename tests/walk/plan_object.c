/* SPDX-License-Identifier: BSD-2-Clause */
/* What a step is in the state it meets: endpoints, counters, queues, addresses, domains. */
#include "tests/walk/plan.h"

static bool free_ep(const struct model *m, int slot, int of)
{
	(void)of;
	return !m->ep[slot].live;
}

static bool disabled_ep(const struct model *m, int slot, int of)
{
	(void)of;
	return m->ep[slot].live && !m->ep[slot].enabled;
}

static bool free_cntr(const struct model *m, int slot, int of)
{
	(void)of;
	return !m->cntr[slot].live;
}

static bool live_cntr(const struct model *m, int slot, int of)
{
	(void)of;
	return m->cntr[slot].live;
}

static bool cntr_of(const struct model *m, int slot, int domain)
{
	return m->cntr[slot].live && m->cntr[slot].domain == domain;
}

static bool free_cq(const struct model *m, int slot, int of)
{
	(void)of;
	return !m->cq[slot].live;
}

static bool live_cq(const struct model *m, int slot, int of)
{
	(void)of;
	return m->cq[slot].live;
}

static bool cq_of(const struct model *m, int slot, int domain)
{
	return m->cq[slot].live && m->cq[slot].domain == domain;
}

static bool has_av(const struct model *m, int slot, int of)
{
	(void)of;
	return m->domain[slot].live && m->domain[slot].av;
}

static bool lacks_av(const struct model *m, int slot, int of)
{
	(void)of;
	return m->domain[slot].live && !m->domain[slot].av;
}

static bool free_addr(const struct model *m, int slot, int domain)
{
	return !m->domain[domain].addr[slot].live;
}

static bool live_addr(const struct model *m, int slot, int domain)
{
	return m->domain[domain].addr[slot].live;
}

static bool closed_domain(const struct model *m, int slot, int of)
{
	(void)of;
	return !m->domain[slot].live;
}

/* ---- endpoints ---- */

static void plan_ep_open(struct operands *o, struct walk_call *c)
{
	static const uint64_t without[] = { FI_REMOTE_READ | FI_REMOTE_WRITE, FI_ATOMIC,
					    FI_RMA_EVENT, FI_WRITE, FI_RECV };
	unsigned how;

	c->ep = plan_pick(o, WALK_EPS, free_ep, 0);
	c->domain = plan_pick(o, WALK_DOMAINS, plan_live_domain, 0);
	if (c->ep == WALK_NONE || c->domain == WALK_NONE) {
		c->kind = WALK_NOTHING;
		return;
	}
	how = take(o);
	c->caps = WALK_EP_CAPS & ~o->m->domain[c->domain].variant->without;
	if (how >= 216)
		c->caps &= ~without[how % 5];
}

static uint64_t plan_cntr_flags(struct operands *o)
{
	static const uint64_t bits[] = { FI_SEND,  FI_RECV,	   FI_READ,
					 FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };
	unsigned which = take(o);
	uint64_t flags = which >= 254 ? FI_TRANSMIT : 0;

	for (unsigned i = 0; i < 6; i++)
		flags |= which & 1u << i ? bits[i] : 0;
	return flags;
}

static uint64_t plan_cq_flags(struct operands *o, const struct model_ep *ep)
{
	unsigned how = take(o);
	uint64_t flags = 0;

	if (ep->tx == WALK_NONE)
		flags |= FI_TRANSMIT;
	if (ep->rx == WALK_NONE && how < 192)
		flags |= FI_RECV;
	if (how % 8 == 7)
		flags |= FI_SELECTIVE_COMPLETION;
	if (how >= 248)
		flags = how >= 252 ? FI_TRANSMIT | FI_RECV : FI_READ;
	return flags;
}

/* What an endpoint lacks most comes first. */
static enum walk_bound plan_bound(struct operands *o, const struct model_ep *ep)
{
	unsigned how = take(o);

	if (how >= 252)
		return WALK_BIND_NULL;
	if (how >= 192)
		return (enum walk_bound)(how % 4) == WALK_BIND_EP ? WALK_BIND_CNTR
								  : (enum walk_bound)(how % 4);
	if (!ep->av)
		return WALK_BIND_AV;
	if (ep->tx == WALK_NONE || ep->rx == WALK_NONE)
		return WALK_BIND_CQ;
	return WALK_BIND_CNTR;
}

static void plan_ep_bind(struct operands *o, struct walk_call *c)
{
	const struct model *m = o->m;
	const struct model_ep *ep;
	bool foreign;
	int of;

	c->ep = plan_prefer(o, WALK_EPS, disabled_ep, plan_live_ep, 0);
	if (c->ep == WALK_NONE) {
		c->kind = WALK_NOTHING;
		return;
	}
	ep = &m->ep[c->ep];
	c->bound = plan_bound(o, ep);
	foreign = seldom(o, 16);
	of = ep->domain;
	c->cq = plan_pick(o, WALK_CQS, foreign ? live_cq : cq_of, of);
	c->cntr = plan_pick(o, WALK_CNTRS, foreign ? live_cntr : cntr_of, of);
	c->other = foreign ? plan_pick(o, WALK_DOMAINS, has_av, 0) : of;
	if ((c->bound == WALK_BIND_CQ && c->cq == WALK_NONE) ||
	    (c->bound == WALK_BIND_CNTR && c->cntr == WALK_NONE) ||
	    (c->bound == WALK_BIND_AV && (c->other == WALK_NONE || !m->domain[c->other].av)))
		c->kind = WALK_NOTHING;
	if (c->bound == WALK_BIND_CQ)
		c->flags = plan_cq_flags(o, ep);
	else if (c->bound == WALK_BIND_CNTR)
		c->flags = plan_cntr_flags(o);
	else
		c->flags = seldom(o, 32) ? FI_RECV : 0;
}

/* ---- what is opened and closed ---- */

/* A slot that the call is about; without one there is no call. */
static void about(struct walk_call *c, int *slot, int found)
{
	*slot = found;
	if (found == WALK_NONE)
		c->kind = WALK_NOTHING;
}

static void plan_cntr_set(struct operands *o, struct walk_call *c)
{
	about(c, &c->cntr, plan_pick(o, WALK_CNTRS, live_cntr, 0));
	c->form = (enum walk_form)(take(o) % 4);
	c->value = take(o);
}

static void plan_insert(struct operands *o, struct walk_call *c)
{
	about(c, &c->domain, plan_pick(o, WALK_DOMAINS, has_av, 0));
	about(c, &c->ep, plan_pick(o, WALK_EPS, plan_live_ep, 0));
	if (c->kind != WALK_NOTHING)
		about(c, &c->addr, plan_pick(o, WALK_ADDRS, free_addr, c->domain));
}

static void plan_remove(struct operands *o, struct walk_call *c)
{
	bool stale = seldom(o, 8);

	about(c, &c->domain, plan_pick(o, WALK_DOMAINS, has_av, 0));
	if (c->kind != WALK_NOTHING)
		about(c, &c->addr,
		      plan_pick(o, WALK_ADDRS, stale ? free_addr : live_addr, c->domain));
}

static void plan_domain(struct operands *o, struct walk_call *c)
{
	bool opens = c->kind == WALK_DOMAIN_OPEN;

	about(c, &c->domain,
	      plan_pick(o, WALK_DOMAINS, opens ? closed_domain : plan_live_domain, 0));
	if (o->m->config.shared)
		c->kind = WALK_NOTHING;
	if (c->kind == WALK_DOMAIN_OPEN)
		c->value = o->m->config.variant[c->domain];
}

static void plan_queue(struct operands *o, struct walk_call *c)
{
	switch (c->kind) {
	case WALK_CNTR_OPEN:
		about(c, &c->cntr, plan_pick(o, WALK_CNTRS, free_cntr, 0));
		about(c, &c->domain, plan_pick(o, WALK_DOMAINS, plan_live_domain, 0));
		c->flags = take(o) % 4 == 3;
		break;
	case WALK_CNTR_CLOSE:
		about(c, &c->cntr, plan_pick(o, WALK_CNTRS, live_cntr, 0));
		break;
	case WALK_CQ_OPEN:
		about(c, &c->cq, plan_pick(o, WALK_CQS, free_cq, 0));
		about(c, &c->domain, plan_pick(o, WALK_DOMAINS, plan_live_domain, 0));
		break;
	case WALK_CQ_CLOSE:
		about(c, &c->cq, plan_pick(o, WALK_CQS, live_cq, 0));
		break;
	case WALK_AV_OPEN:
		about(c, &c->domain, plan_pick(o, WALK_DOMAINS, lacks_av, 0));
		break;
	default:
		about(c, &c->domain, plan_pick(o, WALK_DOMAINS, has_av, 0));
		break;
	}
}

/* ---- closing anything ---- */

static bool live_at(const struct model *m, enum walk_kind kind, int slot)
{
	switch (kind) {
	case WALK_MR_CLOSE:
		return m->mr[slot].live;
	case WALK_UNMAP:
		return m->map[slot].live;
	case WALK_EP_CLOSE:
		return m->ep[slot].live;
	case WALK_CNTR_CLOSE:
		return m->cntr[slot].live;
	case WALK_CQ_CLOSE:
		return m->cq[slot].live;
	case WALK_AV_CLOSE:
		return m->domain[slot].live && m->domain[slot].av;
	default:
		return m->domain[slot].live && !m->config.shared;
	}
}

static void plan_any(struct operands *o, struct walk_call *c)
{
	static const struct {
		enum walk_kind kind;
		int slots;
	} kinds[] = {
		{ WALK_MR_CLOSE, WALK_MRS },	     { WALK_UNMAP, WALK_MAPS },
		{ WALK_EP_CLOSE, WALK_EPS },	     { WALK_CNTR_CLOSE, WALK_CNTRS },
		{ WALK_CQ_CLOSE, WALK_CQS },	     { WALK_AV_CLOSE, WALK_DOMAINS },
		{ WALK_DOMAIN_CLOSE, WALK_DOMAINS },
	};
	int left = 0, at;

	for (unsigned k = 0; k < 7; k++)
		for (int i = 0; i < kinds[k].slots; i++)
			left += live_at(o->m, kinds[k].kind, i);
	c->kind = WALK_NOTHING;
	at = left ? (int)take(o) % left : 0;
	for (unsigned k = 0; left > 0 && k < 7; k++)
		for (int i = 0; i < kinds[k].slots; i++) {
			if (!live_at(o->m, kinds[k].kind, i) || at-- != 0)
				continue;
			c->kind = kinds[k].kind;
			c->mr = c->map = c->ep = c->cntr = c->cq = i;
			if (c->kind == WALK_AV_CLOSE || c->kind == WALK_DOMAIN_CLOSE)
				c->domain = i;
			if (c->kind == WALK_UNMAP)
				c->domain = o->m->map[i].domain;
			return;
		}
}

void plan_object(struct operands *o, struct walk_call *c)
{
	switch (c->kind) {
	case WALK_EP_OPEN:
		plan_ep_open(o, c);
		break;
	case WALK_EP_BIND:
		plan_ep_bind(o, c);
		break;
	case WALK_EP_ENABLE:
		about(c, &c->ep, plan_prefer(o, WALK_EPS, disabled_ep, plan_live_ep, 0));
		break;
	case WALK_EP_CLOSE:
		about(c, &c->ep, plan_pick(o, WALK_EPS, plan_live_ep, 0));
		break;
	case WALK_CNTR_SET:
		plan_cntr_set(o, c);
		break;
	case WALK_AV_INSERT:
		plan_insert(o, c);
		break;
	case WALK_AV_REMOVE:
		plan_remove(o, c);
		break;
	case WALK_DOMAIN_OPEN:
	case WALK_DOMAIN_CLOSE:
		plan_domain(o, c);
		break;
	case WALK_CLOSE_ANY:
		plan_any(o, c);
		break;
	default:
		plan_queue(o, c);
		break;
	}
}
