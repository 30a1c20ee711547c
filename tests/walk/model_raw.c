/* SPDX-License-Identifier: BSD-2-Clause */
/* The model: raw keys, mapped keys, and the descriptor in bytes. */
#include "tests/walk/model.h"

#include <string.h>

static void do_raw_attr(struct model *m, const struct walk_call *c)
{
	const struct model_mr *mr = &m->mr[c->mr];

	if (c->odd == WALK_ODD_NULL || c->odd == WALK_ODD_NO_BUFFER)
		model_may_fail(m, -FI_EINVAL);
	if (c->odd == WALK_ODD_FLAGS)
		model_may_fail(m, -FI_EBADFLAGS);
	if (c->odd == WALK_ODD_SHORT)
		model_may_fail(m, -FI_ETOOSMALL);
	m->e->size = mr->raw ? 16 : 8;
	m->e->base = model_has(m, mr->domain, FI_MR_VIRT_ADDR) ? mr->iov[0].at : UINT64_MAX;
}

static void do_xpu_desc(struct model *m, const struct walk_call *c)
{
	if (c->odd == WALK_ODD_NULL || c->odd == WALK_ODD_FLAGS || c->odd == WALK_ODD_NO_BUFFER)
		model_may_fail(m, -FI_EINVAL);
	if (c->odd == WALK_ODD_SHORT)
		model_may_fail(m, -FI_ETOOSMALL);
}

/* ---- mapping ---- */

static uint64_t narrow_number(const struct model *m, const struct walk_call *c)
{
	uint64_t key = m->mr[c->mr].key;

	if (c->raw == WALK_RAW_NARROW)
		return c->key;
	return c->raw == WALK_RAW_TAMPERED ? key ^ WALK_TAMPER : key;
}

/* The mapping of this number: of an 8-byte key, which is mapped to itself. */
static int find_narrow(const struct model *m, int domain, uint64_t number)
{
	for (int i = 0; i < WALK_MAPS; i++) {
		const struct model_map *map = &m->map[i];

		if (map->live && !map->wide && map->domain == domain && map->number == number)
			return i;
	}
	return WALK_NONE;
}

/* The mapping of the same 16-byte key. */
static int find_wide(const struct model *m, const struct walk_call *c)
{
	for (int i = 0; i < WALK_MAPS; i++) {
		const struct model_map *map = &m->map[i];

		if (map->live && map->wide && map->domain == c->domain && map->mr == c->mr &&
		    map->mr_id == m->mr[c->mr].id &&
		    map->bad_base == (c->raw == WALK_RAW_BAD_BASE) &&
		    map->forged == (c->raw == WALK_RAW_TAMPERED))
			return i;
	}
	return WALK_NONE;
}

int model_find_map(const struct model *m, int domain, int slot)
{
	const struct model_map *map = &m->map[slot];

	if (!map->wide)
		return find_narrow(m, domain, map->number);
	return map->live && map->domain == domain ? slot : WALK_NONE;
}

static void map_it(struct model *m, const struct walk_call *c)
{
	const struct model_mr *mr = &m->mr[c->mr];
	bool narrow = c->raw == WALK_RAW_NARROW || !mr->raw;
	uint64_t number = narrow ? narrow_number(m, c) : 0;
	int found = narrow ? find_narrow(m, c->domain, number) : find_wide(m, c);
	struct model_map *map = &m->map[found == WALK_NONE ? c->map : found];

	m->e->slot = found == WALK_NONE ? c->map : found;
	m->e->gives_key = narrow;
	m->e->key = number;
	m->e->key_again = !narrow && found != WALK_NONE;
	if (found != WALK_NONE) {
		map->uses++;
		return;
	}
	memset(map, 0, sizeof(*map));
	map->live = map->seen = true;
	map->domain = c->domain;
	map->wide = !narrow;
	map->uses = 1;
	map->number = number;
	map->mr = c->mr;
	map->mr_id = mr->id;
	map->bad_base = c->raw == WALK_RAW_BAD_BASE;
	map->forged = c->raw == WALK_RAW_TAMPERED;
}

static void do_map(struct model *m, const struct walk_call *c)
{
	const struct model_mr *mr = &m->mr[c->mr];

	switch (c->raw) {
	case WALK_RAW_SHORT:
	case WALK_RAW_NULL:
	case WALK_RAW_NO_KEY:
		model_may_fail(m, -FI_EINVAL);
		return;
	case WALK_RAW_BAD_FLAGS:
		model_may_fail(m, -FI_EBADFLAGS);
		return;
	case WALK_RAW_TAMPERED:
		/* an 8-byte key has nothing by which a change would show */
		if (mr->raw) {
			model_may_fail(m, -FI_EINVAL);
			m->e->either = true;
			return;
		}
		break;
	case WALK_RAW_NARROW:
		if (c->key == FI_KEY_NOTAVAIL) {
			model_may_fail(m, -FI_EINVAL);
			return;
		}
		break;
	default:
		break;
	}
	map_it(m, c);
}

static void do_unmap(struct model *m, const struct walk_call *c)
{
	int found = c->odd == WALK_ODD_NONE ? model_find_map(m, c->domain, c->map) : WALK_NONE;

	if (found == WALK_NONE)
		model_may_fail(m, -FI_EINVAL);
	else if (--m->map[found].uses == 0)
		m->map[found].live = false;
}

void model_take(struct model *m, const struct walk_call *c)
{
	if (c->kind == WALK_MAP)
		map_it(m, c);
}

void model_raw(struct model *m, const struct walk_call *c)
{
	switch (c->kind) {
	case WALK_RAW_ATTR:
		do_raw_attr(m, c);
		break;
	case WALK_MAP:
		do_map(m, c);
		break;
	case WALK_UNMAP:
		do_unmap(m, c);
		break;
	default:
		do_xpu_desc(m, c);
		break;
	}
}
