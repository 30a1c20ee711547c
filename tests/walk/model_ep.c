/* SPDX-License-Identifier: BSD-2-Clause */
/* The model: endpoints, and what is checked of every operation's own side. */
#include "tests/walk/model.h"

#include <string.h>

static const uint64_t cntr_flags[6] = { FI_SEND,  FI_RECV,	  FI_READ,
					FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };

static void do_open(struct model *m, const struct walk_call *c)
{
	struct model_ep *ep = &m->ep[c->ep];

	memset(ep, 0, offsetof(struct model_ep, recv));
	ep->live = true;
	ep->id = ++m->ids;
	ep->domain = c->domain;
	ep->caps = c->caps;
	ep->tx = ep->rx = WALK_NONE;
	for (int i = 0; i < 6; i++)
		ep->cntr[i] = WALK_NONE;
}

/* ---- binding ---- */

static void bind_av(struct model *m, const struct walk_call *c)
{
	struct model_ep *ep = &m->ep[c->ep];

	if (c->flags != 0 || ep->av || c->other != ep->domain)
		model_may_fail(m, -FI_EINVAL);
	if (m->e->codes > 0)
		return;
	ep->av = true;
	m->domain[ep->domain].av_users++;
}

static void bind_cq(struct model *m, const struct walk_call *c)
{
	struct model_ep *ep = &m->ep[c->ep];
	uint64_t sides = c->flags & (FI_TRANSMIT | FI_RECV);

	if ((c->flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) || !sides ||
	    ((sides & FI_TRANSMIT) && ep->tx != WALK_NONE) ||
	    ((sides & FI_RECV) && ep->rx != WALK_NONE) || m->cq[c->cq].domain != ep->domain)
		model_may_fail(m, -FI_EINVAL);
	if (m->e->codes > 0)
		return;
	if (sides & FI_TRANSMIT) {
		ep->tx = c->cq;
		ep->tx_selective = c->flags & FI_SELECTIVE_COMPLETION;
		m->cq[c->cq].users++;
	}
	if (sides & FI_RECV) {
		ep->rx = c->cq;
		ep->rx_selective = c->flags & FI_SELECTIVE_COMPLETION;
		m->cq[c->cq].users++;
	}
}

static void bind_cntr(struct model *m, const struct walk_call *c)
{
	struct model_ep *ep = &m->ep[c->ep];
	uint64_t known = 0;
	bool twice = false;

	for (int i = 0; i < 6; i++) {
		known |= cntr_flags[i];
		twice |= (c->flags & cntr_flags[i]) && ep->cntr[i] != WALK_NONE;
	}
	if (c->flags == 0 || (c->flags & ~known) || twice ||
	    ((c->flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) && !(ep->caps & FI_RMA_EVENT)) ||
	    m->cntr[c->cntr].domain != ep->domain)
		model_may_fail(m, -FI_EINVAL);
	for (int i = 0; m->e->codes == 0 && i < 6; i++) {
		if (!(c->flags & cntr_flags[i]))
			continue;
		ep->cntr[i] = c->cntr;
		m->cntr[c->cntr].users++;
	}
}

static void do_bind(struct model *m, const struct walk_call *c)
{
	if (m->ep[c->ep].enabled && c->bound != WALK_BIND_NULL)
		model_may_fail(m, -FI_EOPBADSTATE);
	switch (c->bound) {
	case WALK_BIND_AV:
		bind_av(m, c);
		break;
	case WALK_BIND_CQ:
		bind_cq(m, c);
		break;
	case WALK_BIND_CNTR:
		bind_cntr(m, c);
		break;
	default:
		model_may_fail(m, -FI_EINVAL);
		break;
	}
}

/* ---- enabling and closing ---- */

static void do_enable(struct model *m, const struct walk_call *c)
{
	struct model_ep *ep = &m->ep[c->ep];

	if (ep->enabled)
		model_may_fail(m, -FI_EOPBADSTATE);
	if (!ep->av)
		model_may_fail(m, -FI_ENOAV);
	if ((ep->caps & (FI_SEND | FI_READ | FI_WRITE)) && ep->tx == WALK_NONE &&
	    ep->cntr[0] == WALK_NONE && ep->cntr[2] == WALK_NONE && ep->cntr[3] == WALK_NONE)
		model_may_fail(m, -FI_ENOCQ);
	if ((ep->caps & FI_RECV) && ep->rx == WALK_NONE && ep->cntr[1] == WALK_NONE)
		model_may_fail(m, -FI_ENOCQ);
	if (m->e->codes == 0)
		ep->enabled = true;
}

static void do_close(struct model *m, const struct walk_call *c)
{
	struct model_ep *ep = &m->ep[c->ep];

	if (ep->mrs > 0 && m->broken != MODEL_FORGETS_KEPT) {
		model_may_fail(m, -FI_EBUSY);
		return;
	}
	ep->live = ep->enabled = false;
	model_drop_messages(m, ep);
	if (ep->av)
		m->domain[ep->domain].av_users--;
	if (ep->tx != WALK_NONE)
		m->cq[ep->tx].users--;
	if (ep->rx != WALK_NONE)
		m->cq[ep->rx].users--;
	for (int i = 0; i < 6; i++)
		if (ep->cntr[i] != WALK_NONE)
			m->cntr[ep->cntr[i]].users--;
}

void model_endpoint(struct model *m, const struct walk_call *c)
{
	switch (c->kind) {
	case WALK_EP_OPEN:
		do_open(m, c);
		break;
	case WALK_EP_BIND:
		do_bind(m, c);
		break;
	case WALK_EP_ENABLE:
		do_enable(m, c);
		break;
	default:
		do_close(m, c);
		break;
	}
}

/* ---- an operation's own side ---- */

int model_ep_by_id(const struct model *m, uint32_t id)
{
	for (int i = 0; i < WALK_EPS; i++)
		if (m->ep[i].live && m->ep[i].id == id)
			return i;
	return WALK_NONE;
}

void model_check_ep(struct model *m, const struct walk_call *c, uint64_t need)
{
	const struct model_ep *ep = &m->ep[c->ep];

	if (!ep->enabled)
		model_may_fail(m, -FI_EOPBADSTATE);
	if ((ep->caps & need) != need)
		model_may_fail(m, -FI_EOPNOTSUPP);
	if (c->kind != WALK_RECV && !m->domain[ep->domain].addr[c->to].live)
		model_may_fail(m, -FI_EINVAL);
}

int model_target(const struct model *m, const struct walk_call *c)
{
	int to = model_ep_by_id(m, m->domain[m->ep[c->ep].domain].addr[c->to].ep);

	return to != WALK_NONE && m->ep[to].enabled ? to : WALK_NONE;
}

static void check_desc(struct model *m, int domain, const struct walk_seg *seg, uint64_t access)
{
	const struct model_mr *mr = &m->mr[seg->mr];
	uint64_t granted;

	if (seg->desc == WALK_DESC_BOGUS || !mr->live || mr->domain != domain) {
		model_may_fail(m, -FI_EINVAL);
		return;
	}
	/* access 0: the NIC may read it for its own side */
	granted = mr->access ? mr->access : FI_SEND | FI_WRITE;
	if (!mr->enabled)
		model_may_fail(m, -FI_EINVAL);
	if (access & ~granted)
		model_may_fail(m, -FI_EACCES);
	if (seg->range.len > 0 && !model_holds(mr, &seg->range))
		model_may_fail(m, -FI_EINVAL);
}

void model_check_local(struct model *m, int domain, const struct walk_seg *seg, uint64_t access,
		       bool inject)
{
	bool local = model_has(m, domain, FI_MR_LOCAL);

	if (inject ||
	    (!local && FI_VERSION_LT(m->domain[domain].variant->version, FI_VERSION(1, 22))))
		return;
	if (seg->desc != WALK_DESC_NULL)
		check_desc(m, domain, seg, access);
	else if (local && seg->range.len > 0)
		model_may_fail(m, -FI_EINVAL);
}
