/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_atomic(3): every operation on every datatype by every call, and what is refused. */
#include <pthread.h>

#include "tests/conformance/atomic_model.h"
#include "tests/conformance/harness.h"

#define ROOM (2 * MODEL_MAX_SIZE) /* of one operand; elements stand in the first half */

/* Operand, compare and result are in src; the target is the middle of dst. */
static uint8_t *operand(struct conf_link *l)
{
	return l->src;
}

static uint8_t *comparand(struct conf_link *l)
{
	return l->src + ROOM;
}

static uint8_t *result(struct conf_link *l)
{
	return l->src + 2 * ROOM;
}

static uint8_t *target(struct conf_link *l)
{
	return l->dst + ROOM;
}

/* ---- every form of a call, on count elements ---- */

static const unsigned int forms[MODEL_KINDS] = { 4, 3, 3 };

static ssize_t base_by(unsigned int form, struct conf_link *l, enum fi_datatype type, enum fi_op op,
		       size_t count)
{
	struct fi_ioc ioc = { operand(l), count };
	struct fi_rma_ioc rma = { l->remote->addr + ROOM, count, l->key };
	void *desc = l->local->desc;
	struct fi_msg_atomic msg = { &ioc, &desc, 1, l->to, &rma, 1, type, op, l, 0 };
	struct fid_ep *ep = l->a->ep;

	switch (form) {
	case 0:
		return fi_atomic(ep, ioc.addr, count, desc, l->to, rma.addr, l->key, type, op, l);
	case 1:
		return fi_atomicv(ep, &ioc, &desc, 1, l->to, rma.addr, l->key, type, op, l);
	case 2:
		return fi_atomicmsg(ep, &msg, FI_COMPLETION);
	default:
		return fi_inject_atomic(ep, ioc.addr, count, l->to, rma.addr, l->key, type, op);
	}
}

static ssize_t fetch_by(unsigned int form, struct conf_link *l, enum fi_datatype type,
			enum fi_op op, size_t count)
{
	struct fi_ioc ioc = { operand(l), count }, res = { result(l), count };
	struct fi_rma_ioc rma = { l->remote->addr + ROOM, count, l->key };
	void *desc = l->local->desc;
	struct fi_msg_atomic msg = { &ioc, &desc, 1, l->to, &rma, 1, type, op, l, 0 };
	struct fid_ep *ep = l->a->ep;

	switch (form) {
	case 0:
		return fi_fetch_atomic(ep, ioc.addr, count, desc, res.addr, desc, l->to, rma.addr,
				       l->key, type, op, l);
	case 1:
		return fi_fetch_atomicv(ep, &ioc, &desc, 1, &res, &desc, 1, l->to, rma.addr, l->key,
					type, op, l);
	default:
		return fi_fetch_atomicmsg(ep, &msg, &res, &desc, 1, FI_COMPLETION);
	}
}

static ssize_t compare_by(unsigned int form, struct conf_link *l, enum fi_datatype type,
			  enum fi_op op, size_t count)
{
	struct fi_ioc ioc = { operand(l), count }, res = { result(l), count },
		      cmp = { comparand(l), count };
	struct fi_rma_ioc rma = { l->remote->addr + ROOM, count, l->key };
	void *desc = l->local->desc;
	struct fi_msg_atomic msg = { &ioc, &desc, 1, l->to, &rma, 1, type, op, l, 0 };
	struct fid_ep *ep = l->a->ep;

	switch (form) {
	case 0:
		return fi_compare_atomic(ep, ioc.addr, count, desc, cmp.addr, desc, res.addr, desc,
					 l->to, rma.addr, l->key, type, op, l);
	case 1:
		return fi_compare_atomicv(ep, &ioc, &desc, 1, &cmp, &desc, 1, &res, &desc, 1, l->to,
					  rma.addr, l->key, type, op, l);
	default:
		return fi_compare_atomicmsg(ep, &msg, &cmp, &desc, 1, &res, &desc, 1,
					    FI_COMPLETION);
	}
}

static ssize_t by(enum model_kind kind, unsigned int form, struct conf_link *l,
		  enum fi_datatype type, enum fi_op op, size_t count)
{
	if (kind == MODEL_BASE)
		return base_by(form, l, type, op, count);
	if (kind == MODEL_FETCH)
		return fetch_by(form, l, type, op, count);
	return compare_by(form, l, type, op, count);
}

/* What is injected has no completion; its target gets want. */
static void done(enum model_kind kind, unsigned int form, struct conf_link *l, const uint8_t *want)
{
	struct fi_cq_data_entry entry;

	if (kind == MODEL_BASE && form == 3) {
		conf_arrives(l->dst, want, 3 * ROOM);
		conf_quiet(l->a->tx);
		return;
	}
	conf_done_as(l->a->tx, l, &entry);
	assert_true(entry.flags == (FI_ATOMIC | (kind == MODEL_BASE ? FI_WRITE : FI_READ)));
}

/* ---- one operation against the model ---- */

static void tell_bytes(const char *what, const uint8_t *found, const uint8_t *wanted, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (found[i] != wanted[i])
			print_message("%s, byte %zu: %02x in place of %02x\n", what, i, found[i],
				      wanted[i]);
}

static void tell_found(struct conf_link *l, const uint8_t want_dst[3 * ROOM],
		       const uint8_t want_result[ROOM])
{
	tell_bytes("target", l->dst, want_dst, 3 * ROOM);
	tell_bytes("result", result(l), want_result, ROOM);
}

static void try_one(struct conf_link *l, enum model_kind kind, unsigned int form,
		    const struct model_type *t, enum fi_op op, const struct model_value v[3])
{
	uint8_t want_dst[3 * ROOM], want_result[ROOM];
	struct model_value after = model_apply(t, op, v[0], v[1], v[2]);

	memset(l->src, 0x5c, 3 * ROOM);
	memset(l->dst, 0x5c, 3 * ROOM);
	model_put(t, &v[1], operand(l));
	model_put(t, &v[2], comparand(l));
	model_put(t, &v[0], target(l));
	memcpy(want_dst, l->dst, sizeof(want_dst));
	memset(want_result, 0x5c, sizeof(want_result));
	model_put(t, &after, want_dst + ROOM);
	if (kind != MODEL_BASE)
		model_put(t, &v[0], want_result);
	assert_ok(by(kind, form, l, t->datatype, op, 1));
	done(kind, form, l, want_dst);
	if (memcmp(l->dst, want_dst, sizeof(want_dst)) ||
	    memcmp(result(l), want_result, sizeof(want_result))) {
		tell_found(l, want_dst, want_result);
		fail_msg("kind %d, form %u, type %d, op %d, on %d,%d with %d,%d and %d,%d", kind,
			 form, t->datatype, op, v[0].re, v[0].im, v[1].re, v[1].im, v[2].re,
			 v[2].im);
	}
}

static const int small[] = { 0, 1, 2, 4 };

static struct model_value small_value(const struct model_type *t, unsigned int i)
{
	return model_of(small[i % 4], t->is_complex ? small[i / 4 % 4] : 0);
}

static void try_operation(struct conf_link *l, enum model_kind kind, const struct model_type *t,
			  enum fi_op op)
{
	struct conf *c = l->a->conf;
	struct model_value v[3];

	for (unsigned int i = 0; i < 64; i++) {
		v[0] = small_value(t, i);
		v[1] = small_value(t, i / 4 + (t->is_complex ? i * 7 : 0));
		v[2] = small_value(t, kind == MODEL_COMPARE && i % 3 ? i : i / 16);
		try_one(l, kind, i % forms[kind], t, op, v);
	}
	for (unsigned int i = 0; t->form != MODEL_REAL && i < 64; i++) {
		for (unsigned int k = 0; k < 3; k++)
			v[k] = (struct model_value){
				(model_bits)conf_random(c) << 64 | conf_random(c), 0, 0
			};
		if (i % 4 == 0)
			v[2] = v[0];
		try_one(l, kind, i % forms[kind], t, op, v);
	}
}

static void atomic_every_operation(struct conf *c)
{
	struct conf_link l;
	unsigned int count = 0;

	conf_link(c, NULL, 3 * ROOM, &l);
	for (int kind = 0; kind < MODEL_KINDS; kind++) {
		for (size_t i = 0; i < MODEL_TYPES; i++) {
			for (int op = 0; op <= FI_DIFF; op++) {
				struct fi_atomic_attr attr;
				uint64_t flags = kind == MODEL_FETCH  ? FI_FETCH_ATOMIC
						 : kind == MODEL_BASE ? 0
								      : FI_COMPARE_ATOMIC;

				if (fi_query_atomic(l.a->domain, model_types[i].datatype,
						    (enum fi_op)op, &attr, flags))
					continue;
				assert_int_equal(attr.size, model_types[i].size);
				try_operation(&l, (enum model_kind)kind, &model_types[i],
					      (enum fi_op)op);
				count++;
			}
		}
	}
	assert_true(count > 0);
}

/* ---- what is offered ---- */

static int valid(enum model_kind kind, struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
		 size_t *count)
{
	if (kind == MODEL_BASE)
		return fi_atomicvalid(ep, type, op, count);
	if (kind == MODEL_FETCH)
		return fi_fetch_atomicvalid(ep, type, op, count);
	return fi_compare_atomicvalid(ep, type, op, count);
}

static void check_offer(struct conf_link *l, enum model_kind kind, int type, int op)
{
	static const uint64_t flags[] = { 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC };
	const struct model_type *t = type >= 0 && (size_t)type < MODEL_TYPES ? &model_types[type]
									     : NULL;
	struct fi_atomic_attr attr = { 77, 77 };
	bool allowed = t && model_allows(kind, t, op);
	size_t count = 77;
	int ret = valid(kind, l->a->ep, (enum fi_datatype)type, (enum fi_op)op, &count);

	assert_true(ret == 0 || ret == -FI_EOPNOTSUPP);
	/* never more than fi_atomic(3) defines; one that computes in software: all of it */
	assert_true(allowed || ret != 0);
	if (l->a->conf->profile->at_once)
		assert_true(allowed == (ret == 0));
	assert_int_equal(valid(kind, l->a->ep, (enum fi_datatype)type, (enum fi_op)op, NULL), ret);
	assert_int_equal(fi_query_atomic(l->a->domain, (enum fi_datatype)type, (enum fi_op)op,
					 &attr, flags[kind]),
			 ret);
	assert_int_equal(attr.count, count);
	if (ret == 0) {
		assert_true(count > 0 && count <= l->a->info->ep_attr->max_msg_size);
		return;
	}
	assert_true(count == 77 && attr.size == 77);
	for (unsigned int form = 0; form < forms[kind]; form++)
		assert_refused(by(kind, form, l, (enum fi_datatype)type, (enum fi_op)op, 1),
			       -FI_EOPNOTSUPP);
}

static void atomic_offer(struct conf *c)
{
	static const int more_types[] = { FI_FLOAT8_E5M2 + 1, 255, FI_VOID, -1, 100000 };
	static const int more_ops[] = { FI_DIFF + 1, 255, FI_NOOP, -1, 100000 };
	uint8_t before[3 * ROOM];
	struct conf_link l;

	conf_link(c, NULL, 3 * ROOM, &l);
	for (size_t i = 0; i < MODEL_TYPES; i++)
		assert_int_equal(model_types[i].datatype, i);
	memcpy(before, l.dst, sizeof(before));
	for (int kind = 0; kind < MODEL_KINDS; kind++) {
		for (size_t i = 0; i < MODEL_TYPES + count_of(more_types); i++) {
			int type = i < MODEL_TYPES ? (int)i : more_types[i - MODEL_TYPES];

			for (int op = 0; op <= FI_DIFF; op++)
				check_offer(&l, (enum model_kind)kind, type, op);
			for (size_t k = 0; k < count_of(more_ops); k++)
				check_offer(&l, (enum model_kind)kind, type, more_ops[k]);
		}
	}
	assert_memory_equal(l.dst, before, sizeof(before));
	conf_quiet(l.a->tx);
	assert_refused(fi_query_atomic(l.a->domain, FI_INT32, FI_SUM, NULL, 0), -FI_EINVAL);
	assert_refused(fi_query_atomic(l.a->domain, FI_INT32, FI_SUM, &(struct fi_atomic_attr){ 0 },
				       FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
		       -FI_EBADFLAGS);
	assert_refused(fi_query_atomic(l.a->domain, FI_INT32, FI_SUM, &(struct fi_atomic_attr){ 0 },
				       FI_SEND),
		       -FI_EBADFLAGS);
}

/* ---- alignment ---- */

/* An operation on this type that is offered; false: none of the usual ones. */
static bool any_operation(struct conf_end *end, enum fi_datatype type, enum model_kind *kind,
			  enum fi_op *op)
{
	static const struct {
		enum model_kind kind;
		enum fi_op op;
		uint64_t flags;
	} usual[] = { { MODEL_BASE, FI_ATOMIC_WRITE, 0 },
		      { MODEL_BASE, FI_SUM, 0 },
		      { MODEL_FETCH, FI_SUM, FI_FETCH_ATOMIC } };

	for (size_t i = 0; i < count_of(usual); i++) {
		if (!conf_atomic_count(end, type, usual[i].op, usual[i].flags))
			continue;
		*kind = usual[i].kind;
		*op = usual[i].op;
		return true;
	}
	return false;
}

static void atomic_alignment(struct conf *c)
{
	struct conf_link l;
	uint64_t base;
	size_t tried = 0;

	conf_link(c, NULL, 3 * ROOM, &l);
	base = l.remote->addr;
	for (size_t i = 0; i < MODEL_TYPES; i++) {
		const struct model_type *t = &model_types[i];
		/* as C aligns the type: a complex number as its parts are */
		size_t part = t->is_complex ? t->size / 2 : t->size;
		size_t align = part > 8 ? 8 : part;

		enum model_kind kind;
		enum fi_op op;

		if (!any_operation(l.a, t->datatype, &kind, &op))
			continue;
		tried++;
		for (size_t off = 0; off < 16; off++) {
			memset(l.dst, 0, 3 * ROOM);
			memset(l.src, 1, 3 * ROOM);
			l.remote->addr = base + off;
			assert_ok(by(kind, 0, &l, t->datatype, op, 1));
			if (off % align == 0) {
				conf_done(l.a->tx, &l);
				continue;
			}
			conf_failed(l.a->tx, &l, FI_EINVAL, HMREG_MISALIGNED);
			for (size_t k = 0; k < 3 * ROOM; k++)
				assert_int_equal(l.dst[k], 0);
		}
		l.remote->addr = base;
	}
	assert_true(tried > 0);
}

/* An element that lies across two segments of a region is in no one place. */
static void atomic_across_segments(struct conf *c)
{
	struct conf_region *region;
	struct conf_link l;
	struct iovec iov[2];

	conf_link(c, NULL, 3 * ROOM, &l);
	if (l.b->info->domain_attr->mr_iov_limit < 2)
		conf_skip(c, "regions have one segment");
	if (conf_atomic_count(l.a, FI_UINT64, FI_SUM, 0) < 2 ||
	    conf_atomic_count(l.a, FI_UINT32, FI_SUM, 0) < 8)
		conf_skip(c, "no atomics on several elements");
	iov[0] = (struct iovec){ l.dst, 12 };
	iov[1] = (struct iovec){ l.dst + 64, 20 };
	region = conf_regv(l.b, iov, 2, CONF_ALL, 0, NULL);
	memset(l.src, 1, 64);
	l.key = conf_key(l.a, region);
	assert_ok(fi_atomic(l.a->ep, l.src, 2, l.local->desc, l.to, region->addr, l.key, FI_UINT64,
			    FI_SUM, c));
	conf_failed(l.a->tx, c, FI_EINVAL, HMREG_MISALIGNED);
	assert_int_equal(l.dst[0], 0);
	/* elements that fit are fine on both sides of the gap */
	assert_ok(fi_atomic(l.a->ep, l.src, 8, l.local->desc, l.to, region->addr, l.key, FI_UINT32,
			    FI_SUM, c));
	conf_done(l.a->tx, c);
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(l.dst[i], 1);
	for (size_t i = 12; i < 64; i++)
		assert_int_equal(l.dst[i], 0);
	for (size_t i = 64; i < 84; i++)
		assert_int_equal(l.dst[i], 1);
}

/* ---- vectors ---- */

#define ELEMENTS 60

/* Cuts ELEMENTS into pieces. */
static size_t pieces(struct conf *c, struct fi_ioc *ioc, uint64_t *base)
{
	size_t n = 0, left = ELEMENTS;

	while (left > 0) {
		size_t take = n == 7 ? left : conf_below(c, left + 1);

		ioc[n++] = (struct fi_ioc){ base, take };
		base += take;
		left -= take;
	}
	return n;
}

static void atomic_vectors(struct conf *c)
{
	struct conf_link l;
	uint64_t *dst, *src, *res, *cmp;

	conf_link(c, NULL, 4 * ELEMENTS * 8, &l);
	if (l.a->info->tx_attr->iov_limit < 8 || l.a->info->tx_attr->rma_iov_limit < 8)
		conf_skip(c, "operations have fewer than eight pieces");
	if (conf_atomic_count(l.a, FI_UINT64, FI_SUM, FI_FETCH_ATOMIC) < ELEMENTS)
		conf_skip(c, "no atomics on several elements");
	dst = (uint64_t *)(void *)l.dst;
	src = (uint64_t *)(void *)l.src;
	res = src + ELEMENTS;
	cmp = res + ELEMENTS;
	for (int i = 0; i < 100; i++) {
		struct fi_ioc op[8], result_list[8], compare[8], far[8];
		struct fi_rma_ioc rma[8];
		void *desc[8];
		uint64_t before[ELEMENTS];
		struct fi_msg_atomic msg = { op,	desc,	pieces(c, op, src),
					     l.to,	rma,	pieces(c, far, NULL),
					     FI_UINT64, FI_SUM, c,
					     0 };
		size_t results = pieces(c, result_list, res), compares = pieces(c, compare, cmp);
		uint64_t at = l.remote->addr;

		for (size_t k = 0; k < msg.rma_iov_count; at += 8 * rma[k++].count)
			rma[k] = (struct fi_rma_ioc){ at, far[k].count, l.key };
		for (size_t k = 0; k < 8; k++)
			desc[k] = l.local->desc;
		conf_fill(c, l.src, l.len);
		memcpy(before, dst, sizeof(before));
		memcpy(cmp, before, i % 2 ? sizeof(before) : 80);
		if (i % 2) {
			msg.op = FI_CSWAP;
			assert_ok(fi_compare_atomicmsg(l.a->ep, &msg, compare, desc, compares,
						       result_list, desc, results, FI_COMPLETION));
		} else {
			assert_ok(fi_fetch_atomicmsg(l.a->ep, &msg, result_list, desc, results,
						     FI_COMPLETION));
		}
		conf_done(l.a->tx, c);
		assert_memory_equal(res, before, sizeof(before));
		for (size_t k = 0; k < ELEMENTS; k++)
			assert_true(dst[k] == (i % 2 ? src[k] : before[k] + src[k]));
	}
}

static void atomic_lists_must_agree(struct conf *c)
{
	struct conf_link l;
	struct fi_ioc op, res, cmp;
	struct fi_rma_ioc rma;
	struct fi_msg_atomic msg;
	void *desc;
	/* elements of operand, result, compare, target */
	static const size_t bad[][4] = {
		{ 3, 4, 4, 4 },
		{ 4, 3, 4, 4 },
		{ 4, 4, 3, 4 },
		{ 4, 4, 4, 3 },
		{ 4, 4, 4, 0 },
		{ 0, 4, 4, 4 },
		{ 4, 4, 4, SIZE_MAX / 8 + 1 },
		{ SIZE_MAX / 8 + 1, 4, 4, 4 },
		{ 4, SIZE_MAX / 4, 4, 4 },
		{ 4, 4, SIZE_MAX, 4 },
		{ SIZE_MAX / 8 + 5, SIZE_MAX / 8 + 5, SIZE_MAX / 8 + 5, SIZE_MAX / 8 + 5 },
	};

	conf_link(c, NULL, 3 * ROOM, &l);
	desc = l.local->desc;
	msg = (struct fi_msg_atomic){ &op, &desc, 1, l.to, &rma, 1, FI_UINT64, FI_CSWAP, c, 0 };
	for (size_t i = 0; i < count_of(bad); i++) {
		op = (struct fi_ioc){ operand(&l), bad[i][0] };
		res = (struct fi_ioc){ result(&l), bad[i][1] };
		cmp = (struct fi_ioc){ comparand(&l), bad[i][2] };
		rma = (struct fi_rma_ioc){ l.remote->addr, bad[i][3], l.key };
		assert_refused(fi_compare_atomicmsg(l.a->ep, &msg, &cmp, &desc, 1, &res, &desc, 1,
						    0),
			       -FI_EINVAL);
	}
	conf_quiet(l.a->tx);
}

/* ---- limits ---- */

static void atomic_inject_limit(struct conf *c)
{
	struct conf_link l;
	size_t limit;

	conf_link(c, NULL, 65536, &l);
	limit = l.a->info->tx_attr->inject_size;
	if (conf_atomic_count(l.a, FI_UINT8, FI_SUM, 0) <= limit)
		conf_skip(c, "no atomics on as many bytes as can be injected");
	assert_ok(fi_inject_atomic(l.a->ep, l.src, limit, l.to, l.remote->addr, l.key, FI_UINT8,
				   FI_SUM));
	assert_memory_equal(l.dst, l.src, limit);
	assert_refused(fi_inject_atomic(l.a->ep, l.src, limit + 1, l.to, l.remote->addr, l.key,
					FI_UINT8, FI_SUM),
		       -FI_EINVAL);
	conf_quiet(l.a->tx);
}

/* ---- indivisible ---- */

#define ADDERS 4
#define ADDS   5000

struct adder {
	struct conf_link l;
	bool wide; /* 16 bytes as well */
	int failed;
};

/* There may be no room for a while. */
static int inject_one(const struct conf_link *l, size_t off, enum fi_datatype type)
{
	time_t since = conf_now();
	ssize_t ret;

	while ((ret = fi_inject_atomic(l->a->ep, l->src + off, 1, l->to, l->remote->addr + off,
				       l->key, type, FI_SUM)) == -FI_EAGAIN &&
	       conf_may_wait(since))
		;
	return ret != 0;
}

static void *add(void *arg)
{
	struct adder *a = arg;

	for (int i = 0; i < ADDS && !a->failed; i++) {
		a->failed |= inject_one(&a->l, 0, FI_UINT64);
		if (a->wide)
			a->failed |= inject_one(&a->l, 16, FI_UINT128);
	}
	return NULL;
}

static void atomic_api_19_updates_are_indivisible(struct conf *c)
{
	struct conf_end *b = conf_open(c, NULL);
	uint64_t *dst = (uint64_t *)(void *)conf_alloc(c, 64);
	struct conf_region *region = conf_reg(b, dst, 64, CONF_ALL);
	const uint64_t total = ADDERS * ADDS;
	struct adder adder[ADDERS];
	pthread_t thread[ADDERS];

	if (!conf_atomic_count(b, FI_UINT64, FI_SUM, 0))
		conf_skip(c, "no sum of 8 bytes");
	for (size_t i = 0; i < ADDERS; i++) {
		struct conf_link *l = &adder[i].l;

		adder[i].failed = 0;
		adder[i].wide = conf_atomic_count(b, FI_UINT128, FI_SUM, 0) > 0;
		l->a = conf_open(c, NULL);
		l->to = conf_addr(l->a, b);
		l->src = conf_alloc(c, 64);
		l->src[0] = 1;
		memset(l->src + 16, 0xff, 8); /* carries into the upper half */
		l->remote = region;
		l->key = conf_key(l->a, region);
	}
	for (size_t i = 0; i < ADDERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, add, &adder[i]), 0);
	for (size_t i = 0; i < ADDERS; i++)
		pthread_join(thread[i], NULL);
	for (size_t i = 0; i < ADDERS; i++) {
		assert_int_equal(adder[i].failed, 0);
		conf_quiet(adder[i].l.a->tx);
	}
	conf_arrives(dst, &total, sizeof(total));
	if (!adder[0].wide)
		return;
	/* n * (2^64 - 1) = (n - 1) * 2^64 + (2^64 - n) */
	assert_true(dst[2] == UINT64_MAX - (ADDERS * ADDS - 1));
	assert_true(dst[3] == ADDERS * ADDS - 1);
}

static const struct conf_case cases[] = {
	CONF(atomic_every_operation), CONF(atomic_offer),
	CONF(atomic_alignment),	      CONF(atomic_across_segments),
	CONF(atomic_vectors),	      CONF(atomic_lists_must_agree),
	CONF(atomic_inject_limit),    CONF(atomic_api_19_updates_are_indivisible),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
