/* SPDX-License-Identifier: BSD-2-Clause */
/* The walk through a trace, call by call, and the report of a difference. */
#include "tests/walk/run.h"

#include <string.h>

#include "tests/walk/plan.h"

#define BETWEEN 16 /* steps between two calls of walk_runner.between */

/* ---- a step ---- */

static void count_depth(struct walk_runner *r)
{
	uint64_t depth = 0;

	for (int at = r->model.mr[r->call.mr].base; at != WALK_NONE; at = r->model.mr[at].base)
		depth++;
	r->tally.subs += depth > 0;
	if (depth > r->tally.deepest)
		r->tally.deepest = depth;
}

static void count(struct walk_runner *r)
{
	struct walk_tally *tally = &r->tally;

	if (r->result.ret != 0)
		tally->refused[r->call.kind]++;
	else
		tally->done[r->call.kind]++;
	if (r->call.kind == WALK_REG && r->result.ret == 0)
		count_depth(r);
	tally->moved += r->expect.touched > 0 && !r->expect.undefined;
	for (uint32_t i = 0; i < r->result.comps; i++)
		if (r->result.comp[i].cause > 0 && r->result.comp[i].cause < HMREG_ERROR_LAST)
			tally->cause[r->result.comp[i].cause]++;
		else
			tally->cause[0]++;
}

/* One call through both; false: they differ. */
static bool go(struct walk_runner *r)
{
	bool same;

	if (r->print)
		walk_print_call(r->print, r, &r->call);
	model_call(&r->model, &r->call, &r->expect);
	if (r->expect.unsure) {
		if (r->print)
			fprintf(r->print, ": left out\n");
		return true;
	}
	world_call(&r->world, &r->call, &r->result);
	if (r->expect.either && r->result.ret == 0)
		model_take(&r->model, &r->call);
	r->calls++;
	count(r);
	same = walk_compare(r);
	if (r->print)
		fprintf(r->print, " = %ld%s%s\n", r->result.ret, same ? "" : "   <-- ",
			same ? "" : r->why);
	return same;
}

/* The step that closes what this call closes, and nothing else. */
static struct walk_step direct(const struct walk_call *c)
{
	struct walk_step step = { { (uint8_t)c->kind } };

	switch (c->kind) {
	case WALK_UNMAP:
		step.b[1] = 200; /* a live one */
		step.b[2] = (uint8_t)c->map;
		break;
	case WALK_AV_CLOSE:
	case WALK_DOMAIN_CLOSE:
		step.b[1] = (uint8_t)c->domain;
		break;
	default: /* plan.c puts the slot into each of these */
		step.b[1] = (uint8_t)c->mr;
		break;
	}
	return step;
}

static bool go_step(struct walk_runner *r, const struct walk_step *step)
{
	r->model.contexts++;
	walk_plan(&r->model, step, &r->call);
	if (r->rewrite && step->b[0] == WALK_CLOSE_ANY && r->call.kind != WALK_NOTHING)
		r->rewrite[step - r->first] = direct(&r->call);
	if (r->print)
		walk_print_step(r->print, step);
	if (r->call.kind != WALK_NOTHING)
		return go(r);
	if (r->print)
		fprintf(r->print, "nothing\n");
	return true;
}

static bool go_call(struct walk_runner *r, const struct walk_call *call)
{
	FILE *print = r->print;
	bool same;

	r->print = NULL; /* known from the configuration */
	r->call = *call;
	same = go(r);
	r->print = print;
	if (!same && print) {
		fputs("# then ", print);
		walk_print_call(print, r, &r->call);
		fprintf(print, "   <-- %s\n", r->why);
	}
	return same;
}

static void adopt_domains(struct walk_runner *r)
{
	for (int i = 0; i < WALK_DOMAINS; i++) {
		struct model_domain *domain = &r->model.domain[i];

		domain->live = true;
		domain->id = ++r->model.ids;
		domain->variant = &walk_variants[r->model.config.variant[i]];
		r->world.domain[i] = r->shared->domain[i];
		r->world.ops[i] = r->shared->ops[i];
		r->world.variant[i] = domain->variant;
		r->world.eq[i] = NULL;
	}
}

/* Each domain gets one of everything; endpoint d is in domain d, and a fourth one in the first. */
static bool open_world(struct walk_runner *r)
{
	for (int d = 0; d < WALK_DOMAINS; d++) {
		const struct walk_call calls[] = {
			{ .kind = WALK_DOMAIN_OPEN,
			  .domain = d,
			  .value = r->model.config.variant[d] },
			{ .kind = WALK_AV_OPEN, .domain = d },
			{ .kind = WALK_CQ_OPEN, .domain = d, .cq = d },
			{ .kind = WALK_CNTR_OPEN, .domain = d, .cntr = d },
		};

		for (unsigned i = r->shared ? 1 : 0; i < 4; i++)
			if (!go_call(r, &calls[i]))
				return false;
	}
	for (int e = 0; e < 4; e++) {
		int d = e % WALK_DOMAINS;
		const struct walk_call calls[] = {
			{ .kind = WALK_EP_OPEN,
			  .domain = d,
			  .ep = e,
			  .caps = WALK_EP_CAPS & ~r->model.domain[d].variant->without },
			{ .kind = WALK_EP_BIND, .ep = e, .bound = WALK_BIND_AV, .other = d },
			{ .kind = WALK_EP_BIND,
			  .ep = e,
			  .bound = WALK_BIND_CQ,
			  .cq = d,
			  .flags = FI_TRANSMIT | FI_RECV },
			{ .kind = WALK_EP_ENABLE, .ep = e },
		};

		for (unsigned i = 0; i < 4; i++)
			if (!go_call(r, &calls[i]))
				return false;
	}
	for (int at = 0; at < WALK_DOMAINS * 4; at++) {
		struct walk_call insert = {
			.kind = WALK_AV_INSERT, .domain = at / 4, .ep = at % 4, .addr = at % 4
		};

		if (!go_call(r, &insert))
			return false;
	}
	return true;
}

/* What is left, in an order in which nothing is in use. */
static bool close_world(struct walk_runner *r)
{
	static const struct walk_step any = { { WALK_CLOSE_ANY } };
	struct walk_step step = any;

	for (unsigned tries = 0; tries < 600; tries++) {
		step.b[1] = (uint8_t)(tries * 7);
		r->model.contexts++;
		walk_plan(&r->model, &step, &r->call);
		if (r->call.kind == WALK_NOTHING)
			return true;
		if (!go_call(r, &r->call))
			return false;
	}
	return walk_differs(r, "the world cannot be closed");
}

/* However far the walk came, as far as the library lets go of it. */
static void abandon(struct walk_runner *r)
{
	struct world *w = &r->world;

	for (int round = 0; round < WALK_MRS; round++)
		for (int i = 0; i < WALK_MRS; i++)
			if (w->mr[i] && fi_close(&w->mr[i]->fid) == 0)
				w->mr[i] = NULL;
	for (int i = 0; i < WALK_EPS; i++)
		if (w->ep[i])
			fi_close(&w->ep[i]->fid);
	for (int i = 0; i < WALK_CNTRS; i++)
		if (w->cntr[i])
			fi_close(&w->cntr[i]->fid);
	for (int i = 0; i < WALK_CQS; i++)
		if (w->cq[i])
			fi_close(&w->cq[i]->fid);
	for (int i = 0; i < WALK_DOMAINS; i++) {
		if (w->av[i])
			fi_close(&w->av[i]->fid);
		for (int k = 0; k < WALK_MAPS; k++)
			while (w->domain[i] && w->map_key[k] &&
			       fi_mr_unmap_key(w->domain[i], w->map_key[k]) == 0)
				;
		if (w->domain[i] && !r->shared && fi_close(&w->domain[i]->fid) == 0 && w->eq[i])
			fi_close(&w->eq[i]->fid);
	}
}

static void reset(struct walk_runner *r, const struct walk_config *config)
{
	struct world *w = &r->world;
	uint8_t *memory = w->memory;

	model_init(&r->model, config, r->broken);
	for (uint32_t i = 0; i < WALK_MAPPED; i++)
		r->model.memory[i] = (uint8_t)(i * 7 + (i >> 8));
	memset(w, 0, sizeof(*w));
	w->ground = r->ground;
	w->memory = memory;
	world_fill(w, r->model.memory);
	if (r->shared)
		adopt_domains(r);
}

long walk_trace(struct walk_runner *r, const struct walk_trace *trace)
{
	long failed = trace->count;

	reset(r, &trace->config);
	r->first = trace->step;
	if (open_world(r)) {
		for (failed = 0; failed < trace->count; failed++) {
			if (!go_step(r, &trace->step[failed]))
				break;
			if (r->between && failed % BETWEEN == 0)
				r->between(r->between_arg);
		}
		if (failed == trace->count && walk_compare_range(r, 0, WALK_MAPPED) &&
		    close_world(r))
			return -1;
	}
	abandon(r);
	return failed;
}

void walk_report(FILE *out, struct walk_runner *r, struct walk_trace *trace, uint64_t seed,
		 uint64_t episode, long step)
{
	fprintf(out, "DIFFERENCE: seed %lu, episode %lu, step %ld: %s\n", (unsigned long)seed,
		(unsigned long)episode, step, r->why);
	if (step < (long)trace->count)
		trace->count = (uint32_t)step + 1;
	fflush(out);
	walk_shrink(r, trace);
	if (walk_trace(r, trace) < 0)
		fprintf(out, "# but a new world of these steps alone does not show it\n");
	else
		fprintf(out, "# %u steps show it: %s\n", trace->count, r->why);
	walk_save(out, r, trace);
}

void walk_runner_init(struct walk_runner *r, struct world_ground *ground)
{
	memset(r, 0, sizeof(*r));
	r->ground = ground;
	world_init(&r->world, ground);
}

void walk_runner_fini(struct walk_runner *r)
{
	world_fini(&r->world);
}
