/* SPDX-License-Identifier: BSD-2-Clause */
/* The model: RMA and atomics. */
#include "tests/walk/model.h"

#include <string.h>

/* Ranges of memory, in the order in which an operation goes through them. */
struct pieces {
	uint32_t count;
	struct walk_range at[WALK_SEGS * WALK_IOV];
};

/* What one operation touches: from and to move bytes; the others are of atomics. */
struct touch {
	struct pieces local, target, result, compare;
	uint64_t len;
};

static void add_piece(struct pieces *pieces, uint64_t at, uint64_t len)
{
	if (len > 0)
		pieces->at[pieces->count++] = (struct walk_range){ at, len };
}

static void region_pieces(const struct model_mr *mr, uint64_t offset, uint64_t len,
			  struct pieces *pieces)
{
	for (uint32_t i = 0; i < mr->iov_count && len > 0; i++) {
		uint64_t have = mr->iov[i].len;

		if (offset >= have) {
			offset -= have;
			continue;
		}
		have = have - offset < len ? have - offset : len;
		add_piece(pieces, mr->iov[i].at + offset, have);
		len -= have;
		offset = 0;
	}
}

static bool overlap(const struct pieces *a, const struct pieces *b)
{
	for (uint32_t i = 0; i < a->count; i++)
		for (uint32_t k = 0; k < b->count; k++)
			if ((a != b || i != k) && a->at[i].at < b->at[k].at + b->at[k].len &&
			    b->at[k].at < a->at[i].at + a->at[i].len)
				return true;
	return false;
}

static bool all_of(const struct pieces *pieces, bool (*is)(const struct walk_range *))
{
	for (uint32_t i = 0; i < pieces->count; i++)
		if (!is(&pieces->at[i]))
			return false;
	return true;
}

static void touch_all(struct model *m, const struct pieces *pieces)
{
	for (uint32_t i = 0; i < pieces->count; i++)
		model_touch(m, &pieces->at[i]);
}

static void gather(const struct model *m, const struct pieces *pieces, uint8_t *to)
{
	for (uint32_t i = 0; i < pieces->count; i++) {
		memcpy(to, m->memory + pieces->at[i].at, pieces->at[i].len);
		to += pieces->at[i].len;
	}
}

static void scatter(struct model *m, const struct pieces *pieces, const uint8_t *from)
{
	for (uint32_t i = 0; i < pieces->count; i++) {
		memcpy(m->memory + pieces->at[i].at, from, pieces->at[i].len);
		from += pieces->at[i].len;
	}
}

/* ---- the target's side ---- */

/* What an operation is about to do at its target. */
struct access {
	struct walk_errors errors;
	uint64_t rights;
	int regions; /* whose slots are in region, each once */
	int region[WALK_SEGS];
	uint64_t bytes[WALK_SEGS]; /* that the operation takes of each */
};

static bool is_atomic(const struct walk_call *c)
{
	return c->kind == WALK_ATOMIC;
}

static uint64_t needed_rights(const struct walk_call *c)
{
	if (!is_atomic(c))
		return c->reads ? FI_REMOTE_READ : FI_REMOTE_WRITE;
	if (c->op == FI_ATOMIC_READ)
		return FI_REMOTE_READ;
	return c->atomic ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_REMOTE_WRITE;
}

/* By a mapped raw key, or WALK_NONE with the reason. */
static int find_raw(const struct model *m, int domain, int target, const struct walk_remote *r,
		    struct walk_errors *errors)
{
	int slot = r->how == WALK_KEY_MAPPED && m->map[r->slot].wide
			   ? model_find_map(m, domain, r->slot)
			   : WALK_NONE;
	const struct model_map *map;
	const struct model_mr *mr;

	if (slot == WALK_NONE) {
		model_add_error(errors, FI_EKEYREJECTED, HMREG_KEY_NOT_MAPPED);
		return WALK_NONE;
	}
	map = &m->map[slot];
	mr = &m->mr[map->mr];
	if (map->forged) {
		model_add_error(errors, FI_EKEYREJECTED, HMREG_KEY_FORGED);
		model_add_error(errors, FI_ENOKEY, 0);
	} else if (!mr->live || mr->id != map->mr_id || mr->domain != target) {
		model_add_error(errors, FI_ENOKEY, 0);
	} else if (map->bad_base && model_has(m, target, FI_MR_VIRT_ADDR)) {
		model_add_error(errors, FI_EKEYREJECTED, HMREG_KEY_FORGED);
	} else {
		return map->mr;
	}
	return WALK_NONE;
}

static uint64_t key_number(const struct model *m, const struct walk_remote *r)
{
	if (r->how == WALK_KEY_NUMBER)
		return r->number;
	if (r->how == WALK_KEY_OF)
		return m->mr[r->slot].key;
	return m->map[r->slot].wide ? FI_KEY_NOTAVAIL : m->map[r->slot].number;
}

static int find_region(const struct model *m, const struct walk_call *c, int target,
		       const struct walk_remote *r, struct walk_errors *errors)
{
	uint64_t key;

	if (model_has(m, target, FI_MR_RAW))
		return find_raw(m, m->ep[c->ep].domain, target, r, errors);
	key = key_number(m, r);
	for (int i = 0; i < WALK_MRS; i++)
		if (m->mr[i].live && m->mr[i].domain == target && m->mr[i].key == key &&
		    key != FI_KEY_NOTAVAIL)
			return i;
	model_add_error(errors, FI_ENOKEY,
			model_has(m, target, FI_MR_PROV_KEY) ? 0 : HMREG_KEY_UNKNOWN);
	return WALK_NONE;
}

/* From the region's first byte; what lies before it comes out as very far behind it. */
static uint64_t offset_in(const struct model_mr *mr, const struct walk_remote *r)
{
	return r->virt ? r->addr - mr->iov[0].at : r->addr;
}

static void check_aligned(const struct walk_call *c, const struct pieces *pieces, uint32_t first,
			  struct walk_errors *errors)
{
	size_t size = model_atomic_size(c->datatype);

	for (uint32_t i = first; i < pieces->count; i++) {
		if (pieces->at[i].at % size == 0 && pieces->at[i].len % size == 0)
			continue;
		model_add_error(errors, FI_EINVAL, HMREG_MISALIGNED);
		return;
	}
}

static void note_region(struct access *a, int slot, uint64_t len)
{
	int at = 0;

	while (at < a->regions && a->region[at] != slot)
		at++;
	if (at == a->regions) {
		a->region[a->regions] = slot;
		a->bytes[a->regions++] = 0;
	}
	a->bytes[at] += len;
}

static void check_remote(struct model *m, const struct walk_call *c, int to,
			 const struct walk_remote *r, struct access *a, struct touch *t)
{
	int target = m->ep[to].domain, slot;
	uint64_t limit, offset;
	const struct model_mr *mr;
	uint32_t first = t->target.count;

	if (r->len == 0) /* names no region */
		return;
	slot = find_region(m, c, target, r, &a->errors);
	if (slot == WALK_NONE)
		return;
	mr = &m->mr[slot];
	if (!mr->enabled)
		model_add_error(&a->errors, FI_EOPBADSTATE, HMREG_DISABLED);
	if (mr->ep != WALK_NONE && mr->ep != to && m->broken != MODEL_FORGETS_ENDPOINT)
		model_add_error(&a->errors, FI_EACCES, HMREG_OTHER_ENDPOINT);
	if ((mr->access & a->rights) != a->rights)
		model_add_error(&a->errors, FI_EACCES, HMREG_NO_RIGHT);
	if (mr->used)
		model_add_error(&a->errors, FI_ENOKEY, HMREG_KEY_USED_UP);
	limit = mr->len + (m->broken == MODEL_OFF_BY_ONE);
	offset = offset_in(mr, r);
	if (offset > limit || r->len > limit - offset) {
		model_add_error(&a->errors, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		return;
	}
	region_pieces(mr, offset, r->len, &t->target);
	if (is_atomic(c))
		check_aligned(c, &t->target, first, &a->errors);
	note_region(a, slot, r->len);
}

static void check_target(struct model *m, const struct walk_call *c, int to, struct access *a,
			 struct touch *t)
{
	const struct model_ep *ep = &m->ep[to];
	uint64_t caps = a->rights | (is_atomic(c) ? FI_ATOMIC : FI_RMA);

	if ((ep->caps & caps) != caps)
		model_add_error(&a->errors, FI_EOPNOTSUPP, HMREG_PEER_NO_CAP);
	if ((c->flags & FI_REMOTE_CQ_DATA) && ep->rx == WALK_NONE)
		model_add_error(&a->errors, FI_EOPNOTSUPP, HMREG_PEER_NO_CAP);
	for (uint32_t i = 0; i < c->remotes; i++)
		check_remote(m, c, to, &c->remote[i], a, t);
}

/* ---- what happens ---- */

static void move(struct model *m, const struct walk_call *c, struct touch *t)
{
	const struct pieces *from = c->reads ? &t->target : &t->local;
	const struct pieces *to = c->reads ? &t->local : &t->target;
	uint8_t bytes[WALK_BYTES];

	touch_all(m, to);
	if (overlap(from, to) || overlap(to, to)) {
		m->e->undefined = true;
		return;
	}
	gather(m, from, bytes);
	scatter(m, to, bytes);
}

static void work(struct model *m, const struct walk_call *c, struct touch *t)
{
	size_t size = model_atomic_size(c->datatype);
	uint8_t src[WALK_BYTES], compare[WALK_BYTES], before[WALK_BYTES], after[WALK_BYTES];

	touch_all(m, &t->target);
	touch_all(m, &t->result);
	if (overlap(&t->target, &t->target) || overlap(&t->target, &t->local) ||
	    overlap(&t->target, &t->result) || overlap(&t->target, &t->compare) ||
	    overlap(&t->result, &t->local) || overlap(&t->result, &t->compare)) {
		m->e->undefined = true;
		return;
	}
	gather(m, &t->target, before);
	gather(m, &t->local, src);
	gather(m, &t->compare, compare);
	memcpy(after, before, t->len);
	for (size_t at = 0; at < t->len; at += size)
		model_atomic(c->datatype, c->op, after + at, src + at, compare + at);
	scatter(m, &t->target, after);
	scatter(m, &t->result, before);
}

/* May it be done in the memory that is meant? */
static bool is_there(const struct walk_call *c, const struct touch *t)
{
	if (is_atomic(c))
		return all_of(&t->local, model_readable) && all_of(&t->compare, model_readable) &&
		       all_of(&t->result, model_writable) &&
		       all_of(&t->target,
			      c->op == FI_ATOMIC_READ ? model_readable : model_writable);
	if (c->reads)
		return all_of(&t->target, model_readable) && all_of(&t->local, model_writable);
	return all_of(&t->local, model_readable) && all_of(&t->target, model_writable);
}

static void fail_in_memory(struct model *m, const struct walk_call *c, struct touch *t,
			   struct access *a)
{
	model_add_error(&a->errors, FI_EFAULT, HMREG_FAULT);
	touch_all(m, &t->target);
	touch_all(m, &t->result);
	if (!is_atomic(c))
		touch_all(m, &t->local);
	m->e->undefined = true;
}

/* What the target sees of it. */
static void tell_target(struct model *m, const struct walk_call *c, int to, const struct access *a,
			uint64_t len)
{
	const struct model_ep *ep = &m->ep[to];
	bool writes = a->rights & FI_REMOTE_WRITE;

	for (int i = 0; writes && i < a->regions; i++)
		if ((ep->caps & FI_RMA_EVENT) &&
		    !(is_atomic(c) && m->broken == MODEL_FORGETS_COUNT))
			model_count(m, m->mr[a->region[i]].cntr, a->bytes[i]);
	model_count(m, ep->cntr[writes ? 5 : 4], len);
	if (c->flags & FI_REMOTE_CQ_DATA) {
		model_complete(m, ep->rx, 0, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, NULL);
		m->e->comp[m->e->comps - 1].data = c->data;
		m->e->comp[m->e->comps - 1].len = len;
		m->e->comp[m->e->comps - 1].has_len = true;
	}
}

static void execute(struct model *m, const struct walk_call *c, struct access *a, struct touch *t)
{
	int to = model_target(m, c);

	if (to == WALK_NONE) {
		model_add_error(&a->errors, FI_EHOSTUNREACH, HMREG_PEER_GONE);
		return;
	}
	a->rights = needed_rights(c);
	check_target(m, c, to, a, t);
	if (a->errors.count > 0)
		return;
	/* one that leaves values as they are need not be found out to write, nor to read its operand */
	m->e->unsure = is_atomic(c) && all_of(&t->target, model_readable) && !is_there(c, t);
	/* nor one that moves bytes to where they are */
	m->e->unsure |= !is_atomic(c) && !is_there(c, t) && overlap(&t->local, &t->target);
	if (m->e->unsure)
		return;
	for (int i = 0; i < a->regions; i++)
		m->mr[a->region[i]].used = m->mr[a->region[i]].single;
	if (t->len > 0 && !is_there(c, t)) {
		fail_in_memory(m, c, t, a);
		return;
	}
	if (is_atomic(c))
		work(m, c, t);
	else
		move(m, c, t);
	tell_target(m, c, to, a, t->len);
}

/* ---- the call ---- */

static void check_flags(struct model *m, const struct walk_call *c)
{
	uint64_t known = FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
			 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_FENCE | FI_MORE;

	if (c->form != WALK_FORM_MSG)
		return;
	if (is_atomic(c) || !c->reads)
		known |= FI_INJECT;
	if (!is_atomic(c) && !c->reads)
		known |= FI_REMOTE_CQ_DATA;
	if (c->flags & ~known)
		model_may_fail(m, -FI_EBADFLAGS);
}

static void add_seg(struct model *m, const struct walk_call *c, const struct walk_seg *seg,
		    uint64_t access, struct pieces *pieces)
{
	bool inject = (c->form == WALK_FORM_INJECT || (c->flags & FI_INJECT)) && access == FI_WRITE;

	model_check_local(m, m->ep[c->ep].domain, seg, access, inject);
	add_piece(pieces, seg->range.at, seg->range.len);
}

static uint64_t sum(const struct pieces *pieces)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < pieces->count; i++)
		len += pieces->at[i].len;
	return len;
}

static void check_atomic(struct model *m, const struct walk_call *c, struct touch *t)
{
	if (!model_atomic_valid(c->atomic, c->datatype, c->op))
		model_may_fail(m, -FI_EOPNOTSUPP);
	if (c->atomic > 0)
		add_seg(m, c, &c->result, FI_READ, &t->result);
	if (c->atomic == 2)
		add_seg(m, c, &c->compare, FI_WRITE, &t->compare);
	if ((c->atomic > 0 && sum(&t->result) != t->len) ||
	    (c->atomic == 2 && sum(&t->compare) != t->len))
		model_may_fail(m, -FI_EINVAL);
}

static void check_call(struct model *m, const struct walk_call *c, struct touch *t)
{
	bool reads_only = is_atomic(c) && c->op == FI_ATOMIC_READ; /* its operand is ignored */
	bool gets = is_atomic(c) ? c->atomic > 0 : c->reads;

	model_check_ep(m, c, (is_atomic(c) ? FI_ATOMIC : FI_RMA) | (gets ? FI_READ : FI_WRITE));
	check_flags(m, c);
	if (c->count_limit)
		model_may_fail(m, -FI_EINVAL);
	for (uint32_t i = 0; i < c->segs && !reads_only; i++)
		add_seg(m, c, &c->seg[i], !is_atomic(c) && c->reads ? FI_READ : FI_WRITE,
			&t->local);
	for (uint32_t i = 0; i < c->remotes; i++)
		t->len += c->remote[i].len;
	if (c->remotes == 0 || (!reads_only && sum(&t->local) != t->len))
		model_may_fail(m, -FI_EINVAL);
	if (is_atomic(c))
		check_atomic(m, c, t);
}

void model_rma(struct model *m, const struct walk_call *c)
{
	const struct model_ep *ep = &m->ep[c->ep];
	bool gets = is_atomic(c) ? c->atomic > 0 : c->reads;
	uint64_t flags = (is_atomic(c) ? FI_ATOMIC : FI_RMA) | (gets ? FI_READ : FI_WRITE);
	struct access a;
	struct touch t;

	a.errors.count = 0;
	a.regions = 0;
	t.local.count = t.target.count = t.result.count = t.compare.count = 0;
	t.len = 0;
	check_call(m, c, &t);
	if (m->e->codes > 0)
		return;
	execute(m, c, &a, &t);
	if (m->e->unsure)
		return;
	if (a.errors.count > 0) {
		model_count_error(m, ep->cntr[gets ? 2 : 3]);
		model_complete(m, ep->tx, c->context, flags, &a.errors);
		return;
	}
	model_count(m, ep->cntr[gets ? 2 : 3], t.len);
	if (c->form != WALK_FORM_INJECT &&
	    (!ep->tx_selective || (c->form == WALK_FORM_MSG && (c->flags & FI_COMPLETION))))
		model_complete(m, ep->tx, c->context, flags, NULL);
}
