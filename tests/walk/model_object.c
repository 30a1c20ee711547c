/* SPDX-License-Identifier: BSD-2-Clause */
/* The model: counters, completion queues, address vectors and domains. */
#include "tests/walk/model.h"

#include <string.h>

/* ---- counters ---- */

static void cntr_open(struct model *m, const struct walk_call *c)
{
	struct model_cntr *cntr = &m->cntr[c->cntr];

	memset(cntr, 0, sizeof(*cntr));
	cntr->live = true;
	cntr->domain = c->domain;
	cntr->bytes = c->flags;
}

static void cntr_set(struct model *m, const struct walk_call *c)
{
	struct model_cntr *cntr = &m->cntr[c->cntr];

	switch (c->form) {
	case WALK_FORM_ONE:
		cntr->value += c->value;
		break;
	case WALK_FORM_V:
		cntr->value = c->value;
		break;
	case WALK_FORM_MSG:
		cntr->errors += c->value;
		break;
	default:
		cntr->errors = c->value;
		break;
	}
}

static void close_unless(struct model *m, bool *live, uint32_t users)
{
	if (users > 0)
		model_may_fail(m, -FI_EBUSY);
	else
		*live = false;
}

/* ---- address vectors ---- */

static void av_insert(struct model *m, const struct walk_call *c)
{
	struct model_domain *domain = &m->domain[c->domain];

	domain->addr[c->addr].live = true;
	domain->addr[c->addr].ep = m->ep[c->ep].id;
}

static void av_open(struct model *m, const struct walk_call *c)
{
	m->domain[c->domain].av = true;
	m->domain[c->domain].av_users = 0;
	memset(m->domain[c->domain].addr, 0, sizeof(m->domain[c->domain].addr));
}

static void av_remove(struct model *m, const struct walk_call *c)
{
	struct model_domain *domain = &m->domain[c->domain];

	if (!domain->addr[c->addr].live)
		model_may_fail(m, -FI_EINVAL);
	domain->addr[c->addr].live = false;
}

/* ---- domains ---- */

static void domain_open(struct model *m, const struct walk_call *c)
{
	struct model_domain *domain = &m->domain[c->domain];

	memset(domain, 0, sizeof(*domain));
	domain->live = true;
	domain->id = ++m->ids;
	domain->variant = &walk_variants[c->value];
}

static uint32_t domain_users(const struct model *m, int domain)
{
	uint32_t users = m->domain[domain].av;

	for (int i = 0; i < WALK_EPS; i++)
		users += m->ep[i].live && m->ep[i].domain == domain;
	for (int i = 0; i < WALK_CQS; i++)
		users += m->cq[i].live && m->cq[i].domain == domain;
	for (int i = 0; i < WALK_CNTRS; i++)
		users += m->cntr[i].live && m->cntr[i].domain == domain;
	for (int i = 0; i < WALK_MRS; i++)
		users += m->mr[i].live && m->mr[i].domain == domain;
	for (int i = 0; i < WALK_MAPS; i++)
		users += m->map[i].live && m->map[i].domain == domain;
	return users;
}

void model_stats(const struct model *m, int domain, struct hmreg_domain_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->size = sizeof(*stats);
	for (int i = 0; i < WALK_EPS; i++)
		stats->endpoints += m->ep[i].live && m->ep[i].domain == domain;
	for (int i = 0; i < WALK_MRS; i++) {
		const struct model_mr *mr = &m->mr[i];

		if (!mr->live || mr->domain != domain)
			continue;
		stats->regions++;
		stats->registered_bytes += mr->len;
	}
	for (int i = 0; i < WALK_MAPS; i++)
		stats->mapped_keys += m->map[i].live && m->map[i].domain == domain;
}

void model_object(struct model *m, const struct walk_call *c)
{
	struct model_domain *domain = &m->domain[c->domain];

	switch (c->kind) {
	case WALK_CNTR_OPEN:
		cntr_open(m, c);
		break;
	case WALK_CNTR_SET:
		cntr_set(m, c);
		break;
	case WALK_CNTR_CLOSE:
		close_unless(m, &m->cntr[c->cntr].live, m->cntr[c->cntr].users);
		break;
	case WALK_CQ_OPEN:
		m->cq[c->cq] = (struct model_cq){ .live = true, .domain = c->domain };
		break;
	case WALK_CQ_CLOSE:
		close_unless(m, &m->cq[c->cq].live, m->cq[c->cq].users);
		break;
	case WALK_AV_OPEN:
		av_open(m, c);
		break;
	case WALK_AV_CLOSE:
		close_unless(m, &domain->av, domain->av_users);
		break;
	case WALK_AV_INSERT:
		av_insert(m, c);
		break;
	case WALK_AV_REMOVE:
		av_remove(m, c);
		break;
	case WALK_DOMAIN_OPEN:
		domain_open(m, c);
		break;
	default:
		close_unless(m, &domain->live, domain_users(m, c->domain));
		break;
	}
}
