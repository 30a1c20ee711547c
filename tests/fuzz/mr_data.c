/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One transfer of fuzz_mr_attr.  A success must have been allowed, by what this side knows of the
 * region, and has moved exactly its bytes; a failure has moved none.
 */
#include "tests/fuzz/mr_world.h"

#define LEN_MAX 600

enum kind {
	WRITE,
	READ,
	INJECT,
	WRITEMSG,
	READMSG,
	ATOMIC,
	FETCH,
	COMPARE,
	KINDS
};

struct transfer {
	enum kind kind;
	struct fi_rma_iov remote[2];
	struct iovec local[2];
	void *desc[2];
	size_t remotes, locals;
	size_t len;
	/* atomics: local is the operand */
	enum fi_datatype datatype;
	enum fi_op op;
	size_t count;
	struct iovec result, compare;
};

static uint8_t before[ARENA], expected[ARENA], touched[ARENA];

/* ---- out of the input ---- */

static uint64_t key_of(struct world *w, const struct fuzz_mr *m)
{
	if (!(w->mode & FI_MR_RAW))
		return fi_mr_key(m->mr);
	for (unsigned i = 0; i < KEYS; i++)
		if (w->key[i].mapped && w->key[i].mr == m)
			return w->key[i].key;
	return fi_mr_key(m->mr);
}

static struct fi_rma_iov take_remote(struct input *in, struct world *w, size_t len)
{
	uint8_t how = take_byte(in);
	struct fuzz_mr *m = take_mr(in, w);
	struct fi_rma_iov remote = { .len = len };

	if (how < 230 && m->mr) {
		uint64_t first = w->mode & FI_MR_VIRT_ADDR ? (uintptr_t)m->seg[0].iov_base : 0;

		remote.key = key_of(w, m);
		remote.addr = first;
		if (how & 4) /* up to the last byte, or one too far */
			remote.addr += m->len - len + (how & 1);
		else if (how & 1)
			remote.addr += take_raw(in, 2) % (m->len + 8);
		if (how & 2)
			remote.addr &= ~UINT64_C(7);
	} else if (how < 240) {
		remote.key = w->key[take_below(in, KEYS)].key;
		remote.addr = (uintptr_t)arena + take_raw(in, 2) % ARENA;
	} else {
		TAKE(in, remote.key), TAKE(in, remote.addr);
	}
	return remote;
}

static struct iovec take_local(struct input *in, size_t len)
{
	if (take_byte(in) >= 245)
		return (struct iovec){ unmapped(), len };
	return (struct iovec){ arena + take_raw(in, 2) % (ARENA - LEN_MAX), len };
}

static void *take_desc(struct input *in, struct world *w, const struct iovec *local)
{
	uint8_t how = take_byte(in);

	if (how >= 240)
		return (void *)(uintptr_t)take_number(in);
	if (how >= 220) {
		struct fuzz_mr *m = take_mr(in, &worlds[take_below(in, WORLDS)]);

		return m->mr ? fi_mr_desc(m->mr) : NULL;
	}
	if (how >= 200)
		return NULL;
	for (unsigned i = 0; i < MRS; i++) {
		const struct fuzz_mr *m = &w->mr[(how + i) % MRS];
		uintptr_t base = (uintptr_t)m->seg[0].iov_base;

		if (m->mr && (uintptr_t)local->iov_base - base <= m->seg[0].iov_len &&
		    local->iov_len <= base + m->seg[0].iov_len - (uintptr_t)local->iov_base)
			return fi_mr_desc(m->mr);
	}
	return NULL;
}

static void take_atomic(struct input *in, struct world *w, struct transfer *t)
{
	struct fi_atomic_attr attr = { .size = 16 };
	uint64_t flags = t->kind == FETCH     ? FI_FETCH_ATOMIC
			 : t->kind == COMPARE ? FI_COMPARE_ATOMIC
					      : 0;

	t->datatype = (enum fi_datatype)(take_byte(in) % 24);
	t->op = (enum fi_op)(take_byte(in) % 24);
	t->count = 1 + take_below(in, 8);
	if (fi_query_atomic(w->domain, t->datatype, t->op, &attr, flags) != 0)
		attr.size = 16;
	PROMISE(attr.size >= 1 && attr.size <= 32);
	t->len = t->count * attr.size;
	t->remotes = t->locals = 1;
	t->remote[0] = take_remote(in, w, t->len);
	t->local[0] = take_local(in, t->len);
	t->result = take_local(in, t->len);
	t->compare = take_local(in, t->len);
	t->desc[0] = take_desc(in, w, &t->local[0]);
}

static void take_transfer(struct input *in, struct world *w, struct transfer *t)
{
	bool several;

	t->kind = (enum kind)take_below(in, KINDS);
	if (t->kind >= ATOMIC) {
		take_atomic(in, w, t);
		return;
	}
	several = t->kind == WRITEMSG || t->kind == READMSG;
	t->remotes = several ? 1 + take_below(in, 2) : 1;
	t->locals = several ? 1 + take_below(in, 2) : 1;
	t->len = take_raw(in, 2) % LEN_MAX;
	t->local[0] = take_local(in, t->len);
	if (t->locals == 2) {
		t->local[0].iov_len = t->len / 3;
		t->local[1] = take_local(in, t->len - t->len / 3);
	}
	t->remote[0] = take_remote(in, w, t->remotes == 2 ? t->len / 2 : t->len);
	if (t->remotes == 2)
		t->remote[1] = take_remote(in, w, t->len - t->len / 2);
	for (size_t i = 0; i < t->locals; i++)
		t->desc[i] = take_desc(in, w, &t->local[i]);
}

/* ---- the call ---- */

static ssize_t call(struct world *w, struct transfer *t)
{
	struct fi_msg_rma msg = {
		t->local, t->desc, t->locals, w->self, t->remote, t->remotes, t, 0
	};
	const struct fi_rma_iov *r = &t->remote[0];
	void *buf = t->local[0].iov_base, *desc = t->desc[0];

	switch (t->kind) {
	case WRITE:
		return fi_write(w->ep, buf, t->len, desc, w->self, r->addr, r->key, t);
	case READ:
		return fi_read(w->ep, buf, t->len, desc, w->self, r->addr, r->key, t);
	case INJECT:
		return fi_inject_write(w->ep, buf, t->len, w->self, r->addr, r->key);
	case WRITEMSG:
		return fi_writemsg(w->ep, &msg, FI_COMPLETION);
	case READMSG:
		return fi_readmsg(w->ep, &msg, FI_COMPLETION);
	case ATOMIC:
		return fi_atomic(w->ep, buf, t->count, desc, w->self, r->addr, r->key, t->datatype,
				 t->op, t);
	case FETCH:
		return fi_fetch_atomic(w->ep, buf, t->count, desc, t->result.iov_base, desc,
				       w->self, r->addr, r->key, t->datatype, t->op, t);
	default:
		return fi_compare_atomic(w->ep, buf, t->count, desc, t->compare.iov_base, desc,
					 t->result.iov_base, desc, w->self, r->addr, r->key,
					 t->datatype, t->op, t);
	}
}

/* The one completion: 0 or its positive code. */
static int completion(struct world *w, struct transfer *t)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = { 0 };
	ssize_t ret = fi_cq_read(w->cq, &entry, 1);

	if (t->kind == INJECT && ret == -FI_EAGAIN)
		return 0;
	PROMISE((ret == 1 && t->kind != INJECT) || ret == -FI_EAVAIL);
	if (ret == 1) {
		PROMISE(entry.op_context == t);
	} else {
		PROMISE(fi_cq_readerr(w->cq, &error, 0) == 1);
		PROMISE(error.op_context == (t->kind == INJECT ? NULL : (void *)t));
		PROMISE(error.err > 0 && error.prov_errno > 0);
		PROMISE(*fi_cq_strerror(w->cq, error.prov_errno, NULL, NULL, 0));
	}
	PROMISE(fi_cq_read(w->cq, &entry, 1) == -FI_EAGAIN);
	return ret == 1 ? 0 : error.err;
}

/* ---- what must have come of it ---- */

static uint64_t access_of(const struct transfer *t)
{
	switch (t->kind) {
	case READ:
	case READMSG:
		return FI_REMOTE_READ;
	case FETCH:
		return t->op == FI_ATOMIC_READ ? FI_REMOTE_READ : FI_REMOTE_READ | FI_REMOTE_WRITE;
	case COMPARE:
		return FI_REMOTE_READ | FI_REMOTE_WRITE;
	default:
		return FI_REMOTE_WRITE;
	}
}

/* Byte i of the transfer, at the target; the ranges are allowed. */
static uint8_t *remote_byte(struct world *w, const struct transfer *t, size_t i)
{
	size_t at = i < t->remote[0].len ? 0 : 1;
	uint64_t offset;
	struct fuzz_mr *m = allowed(w, &t->remote[at], 0, &offset);

	PROMISE(m);
	return byte_of(m, offset + (at ? i - t->remote[0].len : i));
}

static uint8_t *local_byte(const struct transfer *t, size_t i)
{
	size_t first = t->local[0].iov_len;

	return i < first ? (uint8_t *)t->local[0].iov_base + i
			 : (uint8_t *)t->local[1].iov_base + (i - first);
}

/* False: source and target overlap, and what is there now is anybody's guess. */
static bool expect(struct world *w, const struct transfer *t)
{
	bool reads = t->kind == READ || t->kind == READMSG, apart = true;

	memset(touched, 0, sizeof(touched));
	for (size_t i = 0; i < t->len; i++)
		touched[remote_byte(w, t, i) - arena] = 1;
	for (size_t i = 0; i < t->len; i++) {
		uint8_t *mine = local_byte(t, i), *theirs = remote_byte(w, t, i);

		PROMISE(in_arena(mine, 1) && in_arena(theirs, 1));
		apart &= !touched[mine - arena];
		if (reads)
			expected[mine - arena] = before[theirs - arena];
		else
			expected[theirs - arena] = before[mine - arena];
	}
	return apart;
}

/* An atomic changes nothing but its target and, when it fetches, the result. */
static void expect_atomic(struct world *w, const struct transfer *t)
{
	for (size_t i = 0; i < t->len; i++) {
		uint8_t *theirs = remote_byte(w, t, i);

		expected[theirs - arena] = arena[theirs - arena];
		if (t->kind != ATOMIC && in_arena(t->result.iov_base, t->len))
			expected[(uint8_t *)t->result.iov_base - arena + i] =
				((uint8_t *)t->result.iov_base)[i];
	}
}

static void check_success(struct world *w, const struct transfer *t)
{
	struct fuzz_mr *m[2] = { NULL };
	uint64_t offset;
	bool known = true;

	for (size_t i = 0; i < t->remotes; i++) {
		m[i] = allowed(w, &t->remote[i], access_of(t), &offset);
		PROMISE(m[i] || !t->remote[i].len);
	}
	if (t->kind >= ATOMIC)
		expect_atomic(w, t);
	else
		known = expect(w, t);
	if (known)
		PROMISE(memcmp(arena, expected, ARENA) == 0);
	/* twice in one operation is one use */
	for (size_t i = 0; i < t->remotes; i++)
		if (t->remote[i].len)
			m[i]->used = true;
}

void transfer(struct input *in, struct world *w)
{
	struct transfer t = { 0 };
	ssize_t ret;
	int err;

	take_transfer(in, w, &t);
	memcpy(before, arena, ARENA);
	memcpy(expected, arena, ARENA);
	ret = call(w, &t);
	PROMISE(ret <= 0 && ret != -FI_EAGAIN);
	err = ret ? (int)-ret : completion(w, &t);
	if (!err)
		check_success(w, &t);
	else if (err != FI_EFAULT) /* then it may have got half way */
		PROMISE(memcmp(arena, expected, ARENA) == 0);
	arena_check();
}
