/* SPDX-License-Identifier: BSD-2-Clause */
/* What a call did beside what the model says that it does. */
#include "tests/walk/run.h"

#include <stdarg.h>
#include <string.h>

bool walk_differs(struct walk_runner *r, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, args);
	va_end(args);
	return false;
}

static bool check_code(struct walk_runner *r)
{
	const struct walk_expect *e = &r->expect;
	char list[160] = "";

	if (e->codes == 0 || e->either)
		if (r->result.ret == 0)
			return true;
	for (uint32_t i = 0; i < e->codes; i++)
		if (r->result.ret == e->code[i])
			return true;
	for (uint32_t i = 0; i < e->codes; i++) {
		size_t have = strlen(list);

		snprintf(list + have, sizeof(list) - have, "%s%d (%s)", i ? ", " : "", e->code[i],
			 fi_strerror(-e->code[i]));
	}
	return walk_differs(r, "returned %ld (%s), not %s", r->result.ret,
			    fi_strerror((int)-r->result.ret), e->codes ? list : "0");
}

static bool check_key(struct walk_runner *r)
{
	struct model *m = &r->model;
	struct model_mr *mr = &m->mr[r->call.mr];
	uint64_t key = r->result.key;

	if (r->expect.gives_key && key != r->expect.key)
		return walk_differs(r, "the key is 0x%lx, not 0x%lx", (unsigned long)key,
				    (unsigned long)r->expect.key);
	if (r->expect.gives_key)
		return true;
	if (key == FI_KEY_NOTAVAIL)
		return walk_differs(r, "the region has no key");
	for (int i = 0; i < WALK_MRS; i++)
		if (i != r->call.mr && m->mr[i].live && m->mr[i].domain == mr->domain &&
		    m->mr[i].key == key)
			return walk_differs(r, "the key 0x%lx is that of r%d as well",
					    (unsigned long)key, i);
	mr->key = key;
	return true;
}

static bool check_outputs(struct walk_runner *r)
{
	const struct walk_expect *e = &r->expect;
	uint64_t base;

	if (r->result.wrong)
		return walk_differs(r, "wrong: %s", r->result.wrong);
	if (r->result.ret != 0)
		return true;
	switch (r->call.kind) {
	case WALK_REG:
		return check_key(r);
	case WALK_MAP:
		if (e->gives_key && r->result.key != e->key)
			return walk_differs(r, "the mapped key is 0x%lx, not 0x%lx",
					    (unsigned long)r->result.key, (unsigned long)e->key);
		if (e->key_again && r->result.key != r->world.map_key[e->slot])
			return walk_differs(r, "the key was mapped as 0x%lx before, now as 0x%lx",
					    (unsigned long)r->world.map_key[e->slot],
					    (unsigned long)r->result.key);
		r->world.map_key[e->slot] = r->result.key;
		return true;
	case WALK_RAW_ATTR:
		base = e->base == UINT64_MAX ? 0 : (uintptr_t)r->world.memory + e->base;
		if (r->result.size != e->size || r->result.base != base)
			return walk_differs(r, "size %zu and base 0x%lx, not %zu and 0x%lx",
					    r->result.size, (unsigned long)r->result.base,
					    (size_t)e->size, (unsigned long)base);
		return true;
	default:
		return true;
	}
}

static bool is_comp(const struct walk_comp *want, const struct world_comp *have)
{
	if (have->cq != want->cq || have->entry.op_context != (void *)(uintptr_t)want->context)
		return false;
	if (have->entry.flags != want->flags)
		return false;
	if (want->errors.count == 0)
		return have->err == 0 && (!want->has_len || have->entry.len == want->len) &&
		       (!(want->flags & FI_REMOTE_CQ_DATA) || have->entry.data == want->data);
	for (uint32_t i = 0; i < want->errors.count; i++)
		if (have->err == want->errors.at[i].err &&
		    (want->errors.at[i].cause == 0 || have->cause == want->errors.at[i].cause))
			return true;
	return false;
}

static bool comp_differs(struct walk_runner *r, const struct walk_comp *want)
{
	char text[200] = "success";
	size_t at = 0;

	for (uint32_t i = 0; i < want->errors.count && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%serror %d, cause %d",
				       i ? " or " : "", want->errors.at[i].err,
				       want->errors.at[i].cause);
	for (uint32_t i = 0; i < r->result.comps; i++) {
		const struct world_comp *have = &r->result.comp[i];

		if (have->cq == want->cq &&
		    have->entry.op_context == (void *)(uintptr_t)want->context)
			return walk_differs(
				r,
				"q%d, context %u: error %d, cause %d, flags 0x%lx, len %zu, "
				"not %s, flags 0x%lx, len %lu",
				have->cq, want->context, have->err, have->cause,
				(unsigned long)have->entry.flags, have->entry.len, text,
				(unsigned long)want->flags, (unsigned long)want->len);
	}
	return walk_differs(r, "q%d: no completion of context %u, which is %s", want->cq,
			    want->context, text);
}

/* In any order, since no page tells one over several operations. */
static bool check_comps(struct walk_runner *r)
{
	uint64_t met = 0;

	for (uint32_t i = 0; i < r->expect.comps; i++) {
		uint32_t k = 0;

		while (k < r->result.comps && ((met & UINT64_C(1) << k) ||
					       !is_comp(&r->expect.comp[i], &r->result.comp[k])))
			k++;
		if (k == r->result.comps)
			return comp_differs(r, &r->expect.comp[i]);
		met |= UINT64_C(1) << k;
	}
	if (r->result.comps == r->expect.comps)
		return true;
	for (uint32_t k = 0; k < r->result.comps; k++)
		if (!(met & UINT64_C(1) << k))
			return walk_differs(
				r, "q%d: a completion of context %lu, error %d, cause %d",
				r->result.comp[k].cq,
				(unsigned long)(uintptr_t)r->result.comp[k].entry.op_context,
				r->result.comp[k].err, r->result.comp[k].cause);
	return true;
}

bool walk_compare_range(struct walk_runner *r, uint64_t at, uint64_t len)
{
	const uint8_t *have = r->world.memory + at, *want = r->model.memory + at;

	if (memcmp(have, want, len) == 0)
		return true;
	while (*have == *want)
		have++, want++, at++;
	return walk_differs(r, "byte 0x%lx of the memory is 0x%02x, not 0x%02x", (unsigned long)at,
			    *have, *want);
}

static bool check_touched(struct walk_runner *r)
{
	const struct walk_expect *e = &r->expect;

	for (uint32_t i = 0; i < e->touched; i++) {
		struct walk_range range = e->range[i];

		if (range.at >= WALK_MAPPED)
			continue;
		if (range.len > WALK_MAPPED - range.at)
			range.len = WALK_MAPPED - range.at;
		if (e->undefined)
			memcpy(r->model.memory + range.at, r->world.memory + range.at, range.len);
		else if (!walk_compare_range(r, range.at, range.len))
			return false;
	}
	return true;
}

static bool check_counters(struct walk_runner *r)
{
	for (int i = 0; i < WALK_CNTRS; i++) {
		const struct model_cntr *cntr = &r->model.cntr[i];
		uint64_t value, errors;

		if (!cntr->live)
			continue;
		value = fi_cntr_read(r->world.cntr[i]);
		errors = fi_cntr_readerr(r->world.cntr[i]);
		if (value != cntr->value || errors != cntr->errors)
			return walk_differs(r, "counter n%d is %lu and %lu errors, not %lu and %lu",
					    i, (unsigned long)value, (unsigned long)errors,
					    (unsigned long)cntr->value,
					    (unsigned long)cntr->errors);
	}
	return true;
}

static bool check_stats(struct walk_runner *r)
{
	for (int i = 0; i < WALK_DOMAINS; i++) {
		struct hmreg_domain_stats have = { .size = sizeof(have) }, want;

		if (!r->model.domain[i].live || r->model.config.shared)
			continue;
		model_stats(&r->model, i, &want);
		if (r->world.ops[i]->stats(&r->world.domain[i]->fid, &have) != 0 ||
		    memcmp(&have, &want, sizeof(have)) != 0)
			return walk_differs(
				r,
				"d%d has %lu regions of %lu bytes, %lu mapped keys, %lu "
				"endpoints, not %lu, %lu, %lu, %lu",
				i, (unsigned long)have.regions,
				(unsigned long)have.registered_bytes,
				(unsigned long)have.mapped_keys, (unsigned long)have.endpoints,
				(unsigned long)want.regions, (unsigned long)want.registered_bytes,
				(unsigned long)want.mapped_keys, (unsigned long)want.endpoints);
	}
	return true;
}

#define ALL_MEMORY 64	/* calls between two looks at all of it */
#define ALL_STATS  1024 /* the same for the domains' figures */

bool walk_compare(struct walk_runner *r)
{
	if (!check_code(r) || !check_outputs(r) || !check_comps(r) || !check_touched(r) ||
	    !check_counters(r))
		return false;
	if (r->calls % ALL_MEMORY == 0 && !walk_compare_range(r, 0, WALK_MAPPED))
		return false;
	return r->calls % ALL_STATS != 0 || check_stats(r);
}
