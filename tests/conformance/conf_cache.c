/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers without a descriptor: every data call registers them once and finds them again.  Limits are those
 * of the environment: FI_MR_CACHE_MAX_COUNT small or 0 has cases of its own.
 */
#include "tests/conformance/cache.h"

struct scene {
	struct conf_link l;
	fi_addr_t back; /* what b calls a */
	struct hmreg_cache_figures before;
};

static void open_scene(struct conf *c, struct scene *s)
{
	memset(s, 0, sizeof(*s));
	conf_link(c, NULL, BULK, &s->l);
	s->back = conf_addr(s->l.b, s->l.a);
	/* the first use chooses a monitor */
	assert_posted(fi_write(s->l.a->ep, s->l.src, BULK, NULL, s->l.to, s->l.remote->addr,
			       s->l.key, c));
	conf_done(s->l.a->tx, c);
	assert_memory_equal(s->l.dst, s->l.src, BULK);
	s->before = cache_figures(s->l.a);
}

static void open_kept(struct conf *c, struct scene *s)
{
	open_scene(c, s);
	cache_need_kept(c, s->l.a);
}

/* What has happened in a's cache since the last look. */
static void since(struct scene *s, uint64_t misses, uint64_t hits, uint64_t unkept)
{
	struct hmreg_cache_figures now = cache_figures(s->l.a);

	assert_int_equal(now.misses - s->before.misses, misses);
	assert_int_equal(now.hits - s->before.hits, hits);
	assert_int_equal(now.unkept - s->before.unkept, unkept);
	s->before = now;
}

static void write_it(struct conf *c, struct scene *s, const uint8_t *buf, size_t len)
{
	assert_posted(
		fi_write(s->l.a->ep, buf, len, NULL, s->l.to, s->l.remote->addr, s->l.key, c));
	conf_done(s->l.a->tx, c);
	assert_memory_equal(s->l.dst, buf, len);
}

static void read_it(struct conf *c, struct scene *s, uint8_t *buf, size_t len)
{
	conf_fill(c, s->l.dst, len);
	assert_posted(fi_read(s->l.a->ep, buf, len, NULL, s->l.to, s->l.remote->addr, s->l.key, c));
	conf_done(s->l.a->tx, c);
	assert_memory_equal(s->l.dst, buf, len);
}

/* ---- every call ---- */

/* What a call takes, beside the scene; two buffers of half a bulk each, the second for results. */
struct call {
	struct conf *c;
	struct scene *s;
	uint8_t *buf, *other;
	size_t len;
	uint64_t flags; /* of those that have some */
	struct iovec iov[2];
	struct fi_rma_iov to;
	struct fi_msg msg;
	struct fi_msg_rma rma;
	struct fi_ioc ioc[2];
	struct fi_rma_ioc target;
	struct fi_msg_atomic atomic;
};

#define EP(call)   ((call)->s->l.a->ep)
#define TO(call)   ((call)->s->l.to)
#define ADDR(call) ((call)->s->l.remote->addr)
#define KEY(call)  ((call)->s->l.key)

static ssize_t call_write(struct call *k)
{
	return fi_write(EP(k), k->buf, k->len, NULL, TO(k), ADDR(k), KEY(k), k->c);
}

static ssize_t call_writev(struct call *k)
{
	return fi_writev(EP(k), k->iov, NULL, 2, TO(k), ADDR(k), KEY(k), k->c);
}

static ssize_t call_writemsg(struct call *k)
{
	return fi_writemsg(EP(k), &k->rma, k->flags);
}

static ssize_t call_writedata(struct call *k)
{
	return fi_writedata(EP(k), k->buf, k->len, NULL, 7, TO(k), ADDR(k), KEY(k), k->c);
}

static ssize_t call_read(struct call *k)
{
	return fi_read(EP(k), k->buf, k->len, NULL, TO(k), ADDR(k), KEY(k), k->c);
}

static ssize_t call_readv(struct call *k)
{
	return fi_readv(EP(k), k->iov, NULL, 2, TO(k), ADDR(k), KEY(k), k->c);
}

static ssize_t call_readmsg(struct call *k)
{
	return fi_readmsg(EP(k), &k->rma, k->flags);
}

static ssize_t call_send(struct call *k)
{
	return fi_send(EP(k), k->buf, k->len, NULL, TO(k), k->c);
}

static ssize_t call_sendv(struct call *k)
{
	return fi_sendv(EP(k), k->iov, NULL, 2, TO(k), k->c);
}

static ssize_t call_sendmsg(struct call *k)
{
	return fi_sendmsg(EP(k), &k->msg, k->flags);
}

static ssize_t call_senddata(struct call *k)
{
	return fi_senddata(EP(k), k->buf, k->len, NULL, 7, TO(k), k->c);
}

static ssize_t call_recv(struct call *k)
{
	return fi_recv(EP(k), k->buf, k->len, NULL, FI_ADDR_UNSPEC, k->c);
}

static ssize_t call_recvv(struct call *k)
{
	return fi_recvv(EP(k), k->iov, NULL, 2, FI_ADDR_UNSPEC, k->c);
}

static ssize_t call_recvmsg(struct call *k)
{
	return fi_recvmsg(EP(k), &k->msg, k->flags);
}

static ssize_t call_atomic(struct call *k)
{
	return fi_atomic(EP(k), k->buf, 1, NULL, TO(k), ADDR(k), KEY(k), FI_UINT64, FI_SUM, k->c);
}

static ssize_t call_atomicv(struct call *k)
{
	return fi_atomicv(EP(k), k->ioc, NULL, 1, TO(k), ADDR(k), KEY(k), FI_UINT64, FI_SUM, k->c);
}

static ssize_t call_atomicmsg(struct call *k)
{
	return fi_atomicmsg(EP(k), &k->atomic, k->flags);
}

static ssize_t call_fetch(struct call *k)
{
	return fi_fetch_atomic(EP(k), k->buf, 1, NULL, k->other, NULL, TO(k), ADDR(k), KEY(k),
			       FI_UINT64, FI_SUM, k->c);
}

static ssize_t call_fetchmsg(struct call *k)
{
	return fi_fetch_atomicmsg(EP(k), &k->atomic, &k->ioc[1], NULL, 1, k->flags);
}

static ssize_t call_compare(struct call *k)
{
	return fi_compare_atomic(EP(k), k->buf, 1, NULL, k->buf, NULL, k->other, NULL, TO(k),
				 ADDR(k), KEY(k), FI_UINT64, FI_CSWAP, k->c);
}

static ssize_t call_comparemsg(struct call *k)
{
	return fi_compare_atomicmsg(EP(k), &k->atomic, &k->ioc[0], NULL, 1, &k->ioc[1], NULL, 1,
				    k->flags);
}

enum kind {
	PAYLOAD,
	MESSAGE,
	RECEIVE,
	ATOMIC
};

/*
 * buffers: how many lookups a call is; the first of a list and the second are one range of pages each.
 * fresh: of these, how many are not there at the first call, where a call has some twice.
 */
static const struct row {
	const char *name;
	ssize_t (*call)(struct call *k);
	enum kind kind;
	unsigned int buffers, fresh;
	bool has_flags;
} rows[] = {
	{ "fi_write", call_write, PAYLOAD, 1, 1, false },
	{ "fi_writev", call_writev, PAYLOAD, 2, 2, false },
	{ "fi_writemsg", call_writemsg, PAYLOAD, 2, 2, true },
	{ "fi_writedata", call_writedata, PAYLOAD, 1, 1, false },
	{ "fi_read", call_read, PAYLOAD, 1, 1, false },
	{ "fi_readv", call_readv, PAYLOAD, 2, 2, false },
	{ "fi_readmsg", call_readmsg, PAYLOAD, 2, 2, true },
	{ "fi_send", call_send, MESSAGE, 1, 1, false },
	{ "fi_sendv", call_sendv, MESSAGE, 2, 2, false },
	{ "fi_sendmsg", call_sendmsg, MESSAGE, 2, 2, true },
	{ "fi_senddata", call_senddata, MESSAGE, 1, 1, false },
	{ "fi_recv", call_recv, RECEIVE, 1, 1, false },
	{ "fi_recvv", call_recvv, RECEIVE, 2, 2, false },
	{ "fi_recvmsg", call_recvmsg, RECEIVE, 2, 2, true },
	{ "fi_atomic", call_atomic, ATOMIC, 1, 1, false },
	{ "fi_atomicv", call_atomicv, ATOMIC, 1, 1, false },
	{ "fi_atomicmsg", call_atomicmsg, ATOMIC, 1, 1, true },
	{ "fi_fetch_atomic", call_fetch, ATOMIC, 2, 2, false },
	{ "fi_fetch_atomicmsg", call_fetchmsg, ATOMIC, 2, 2, true },
	{ "fi_compare_atomic", call_compare, ATOMIC, 3, 2, false },
	{ "fi_compare_atomicmsg", call_comparemsg, ATOMIC, 3, 2, true },
};

static struct call make_call(struct conf *c, struct scene *s, uint64_t flags)
{
	struct call k = { .c = c, .s = s, .len = BULK, .flags = flags };

	k.buf = cache_map(c, NULL, 2 * BULK);
	k.other = k.buf + BULK;
	return k;
}

/* Pointers inside k, which must not move any more. */
static void point(struct call *k)
{
	k->iov[0] = (struct iovec){ k->buf, BULK / 2 };
	k->iov[1] = (struct iovec){ k->other, BULK / 2 };
	k->to = (struct fi_rma_iov){ ADDR(k), BULK, KEY(k) };
	k->msg = (struct fi_msg){
		.msg_iov = k->iov, .iov_count = 2, .addr = TO(k), .context = k->c, .data = 7
	};
	k->rma = (struct fi_msg_rma){ .msg_iov = k->iov,
				      .iov_count = 2,
				      .addr = TO(k),
				      .rma_iov = &k->to,
				      .rma_iov_count = 1,
				      .context = k->c };
	k->ioc[0] = (struct fi_ioc){ k->buf, 1 };
	k->ioc[1] = (struct fi_ioc){ k->other, 1 };
	k->target = (struct fi_rma_ioc){ ADDR(k), 1, KEY(k) };
	k->atomic = (struct fi_msg_atomic){ .msg_iov = k->ioc,
					    .iov_count = 1,
					    .addr = TO(k),
					    .rma_iov = &k->target,
					    .rma_iov_count = 1,
					    .datatype = FI_UINT64,
					    .op = FI_SUM,
					    .context = k->c };
}

/* One call to its end.  A message goes from the call's buffers to b's, or back. */
static void run(struct call *k, const struct row *row)
{
	struct conf_link *l = &k->s->l;

	if (row->call == call_recvmsg)
		k->msg.addr = FI_ADDR_UNSPEC;
	if (row->call == call_comparemsg)
		k->atomic.op = FI_CSWAP;
	if (row->kind == MESSAGE)
		assert_posted(fi_recv(l->b->ep, l->dst, BULK, l->remote->desc, FI_ADDR_UNSPEC, k));
	assert_posted(row->call(k));
	if (row->kind == RECEIVE) {
		assert_posted(fi_send(l->b->ep, l->dst, BULK, l->remote->desc, k->s->back, k));
		conf_done(l->b->tx, k);
		conf_done(l->a->rx, k->c);
		return;
	}
	conf_done(l->a->tx, k->c);
	if (row->kind == MESSAGE)
		conf_done(l->b->rx, k);
	if (row->call == call_writedata)
		conf_done(l->b->rx, NULL);
}

/* Does this NIC register buffers of the call? */
static bool registers(const struct conf *c, enum kind kind)
{
	return c->profile->at_once || kind == PAYLOAD || kind == MESSAGE;
}

static void mode_03_every_call_is_registered_once(struct conf *c)
{
	static struct scene s;

	open_kept(c, &s);
	for (size_t i = 0; i < count_of(rows); i++) {
		const struct row *row = &rows[i];
		struct call k = make_call(c, &s, 0);
		unsigned int n = registers(c, row->kind) ? row->buffers : 0;
		unsigned int fresh = n ? row->fresh : 0;

		point(&k);
		s.before = cache_figures(s.l.a);
		run(&k, row);
		since(&s, fresh, n - fresh, 0);
		run(&k, row);
		since(&s, 0, n, 0);
		munmap(k.buf, 2 * BULK);
	}
	conf_check_stats(s.l.a, 1, BULK, 0); /* the program's own */
}

static void fn_34_no_cache(struct conf *c)
{
	static struct scene s;

	open_kept(c, &s);
	for (size_t i = 0; i < count_of(rows); i++) {
		const struct row *row = &rows[i];
		struct call k = make_call(c, &s, HMREG_NO_CACHE);
		/* the software NIC needs no registration */
		unsigned int n = registers(c, row->kind) && !c->profile->at_once ? row->buffers : 0;

		if (!row->has_flags) {
			munmap(k.buf, 2 * BULK);
			continue;
		}
		point(&k);
		s.before = cache_figures(s.l.a);
		for (int turn = 0; turn < 2; turn++) {
			run(&k, row);
			since(&s, n, 0, n);
		}
		assert_int_equal(cache_figures(s.l.a).entries, s.before.entries);
		munmap(k.buf, 2 * BULK);
	}
}

/* ---- hits ---- */

static void reg_07_a_hit_calls_no_verb(struct conf *c)
{
	static const char *const verbs[] = { "ibv_reg_mr_iova2", "ibv_reg_mr", "ibv_reg_dmabuf_mr",
					     "ibv_rereg_mr", "ibv_dereg_mr" };
	static struct scene s;
	long calls[count_of(verbs)];
	uint8_t *buf;

	open_kept(c, &s);
	if (cache_verb_calls("ibv_dereg_mr") < 0)
		conf_skip(c, "not over an emulated device");
	buf = cache_map(c, NULL, BULK);
	write_it(c, &s, buf, BULK);
	for (size_t i = 0; i < count_of(verbs); i++)
		calls[i] = cache_verb_calls(verbs[i]);
	for (int i = 0; i < 10; i++)
		write_it(c, &s, buf, BULK);
	for (size_t i = 0; i < count_of(verbs); i++)
		assert_int_equal(cache_verb_calls(verbs[i]), calls[i]);
	munmap(buf, BULK);
}

static void cache_03_same_or_wider(struct conf *c)
{
	static struct scene s;
	uint8_t *buf = cache_map(c, NULL, 2 * BULK);

	open_kept(c, &s);
	write_it(c, &s, buf, BULK);
	since(&s, 1, 0, 0);
	write_it(c, &s, buf + BULK / 2, BULK / 4); /* inside */
	write_it(c, &s, buf + 1, BULK - 1);
	since(&s, 0, 2, 0);
	write_it(c, &s, buf + BULK / 2, BULK); /* past its end */
	since(&s, 1, 0, 0);
	read_it(c, &s, buf, BULK); /* with a right that it lacks */
	since(&s, 1, 0, 0);
	read_it(c, &s, buf, BULK);
	write_it(c, &s, buf, BULK); /* by either */
	since(&s, 0, 2, 0);
	munmap(buf, 2 * BULK);
}

/* Memory that may only be read is registered for what reads it. */
static void fn_30_read_only_memory(struct conf *c)
{
	static struct scene s;
	uint8_t *buf = cache_map(c, NULL, BULK);

	open_kept(c, &s);
	assert_int_equal(mprotect(buf, BULK, PROT_READ), 0);
	write_it(c, &s, buf, BULK);
	write_it(c, &s, buf, BULK);
	since(&s, 1, 1, 0);
	munmap(buf, BULK);
}

static void cache_02_other_memory_at_the_address(struct conf *c)
{
	static struct scene s;
	uint8_t *buf = cache_map(c, NULL, BULK);

	open_kept(c, &s);
	write_it(c, &s, buf, BULK);
	for (int i = 0; i < 10; i++) {
		struct hmreg_cache_figures was = cache_figures(s.l.a);

		munmap(buf, BULK);
		assert_ptr_equal(cache_map(c, buf, BULK), buf);
		write_it(c, &s, buf, BULK);
		assert_int_equal(cache_figures(s.l.a).misses, was.misses + 1);
		assert_true(cache_figures(s.l.a).invalidations > was.invalidations);
	}
	munmap(buf, BULK);
}

/* What is unmapped is the operation's failure, and nothing is kept of it. */
static void fn_29_nothing_is_there(struct conf *c)
{
	static struct scene s;
	uint8_t *buf = cache_map(c, NULL, BULK);

	if (conf_valgrind())
		conf_skip(c, "memory that is not there is used on purpose");
	open_kept(c, &s);
	munmap(buf, BULK);
	conf_log_mark(__FILE__, __LINE__);
	assert_posted(fi_write(s.l.a->ep, buf, BULK, NULL, s.l.to, s.l.remote->addr, s.l.key, c));
	conf_log_expect(c->profile->at_once ? 0 : 1, NULL, "fi_write", __FILE__, __LINE__);
	conf_failed(s.l.a->tx, c, FI_EFAULT, HMREG_FAULT);
	assert_ptr_equal(cache_map(c, buf, BULK), buf);
	conf_works(&s.l);
	write_it(c, &s, buf, BULK);
	munmap(buf, BULK);
}

/* A receive that is canceled, or goes with its endpoint, lets its buffer go: the domain closes. */
static void cache_04_receives_let_go(struct conf *c)
{
	static struct scene s;
	uint8_t *buf = cache_map(c, NULL, BULK);

	open_kept(c, &s);
	assert_posted(fi_recv(s.l.a->ep, buf, BULK, NULL, FI_ADDR_UNSPEC, &s));
	assert_ok(fi_cancel(&s.l.a->ep->fid, &s));
	conf_failed(s.l.a->rx, &s, FI_ECANCELED, HMREG_CANCELED);
	assert_posted(fi_recv(s.l.a->ep, buf, BULK, NULL, FI_ADDR_UNSPEC, &s));
	conf_close_ep(s.l.a);
	munmap(buf, BULK);
}

static void mode_03_each_domain_has_its_own(struct conf *c)
{
	static struct scene s;
	uint8_t *buf = cache_map(c, NULL, BULK);
	struct hmreg_cache_figures before;
	struct conf_region *mine;

	open_kept(c, &s);
	mine = conf_reg(s.l.a, s.l.src, BULK, CONF_ALL);
	write_it(c, &s, buf, BULK);
	since(&s, 1, 0, 0);
	before = cache_figures(s.l.b);
	assert_posted(
		fi_write(s.l.b->ep, buf, BULK, NULL, s.back, mine->addr, conf_key(s.l.b, mine), c));
	conf_done(s.l.b->tx, c);
	assert_memory_equal(s.l.src, buf, BULK);
	assert_int_equal(cache_figures(s.l.b).misses, before.misses + 1);
	since(&s, 0, 0, 0);
	munmap(buf, BULK);
}

/* ---- limits ---- */

static void cache_04_limits(struct conf *c)
{
	static struct scene s;
	struct hmreg_cache_stats stats;
	uint8_t *buf[32];

	open_kept(c, &s);
	stats = cache_stats(s.l.a);
	if (stats.max_entries >= count_of(buf))
		conf_skip(c, "the environment sets no limit that is reached soon");
	for (size_t i = 0; i < count_of(buf); i++)
		buf[i] = cache_map(c, NULL, BULK);
	for (size_t i = 0; i < 2 * count_of(buf); i++) {
		write_it(c, &s, buf[i % count_of(buf)], BULK);
		write_it(c, &s, s.l.src, BULK); /* used all the time: it stays */
		assert_true(cache_figures(s.l.a).entries <= stats.max_entries);
		assert_true(cache_figures(s.l.a).bytes <= stats.max_bytes);
	}
	since(&s, 2 * count_of(buf), 2 * count_of(buf), 0);
	assert_true(cache_figures(s.l.a).evictions >= count_of(buf));
	for (size_t i = 0; i < count_of(buf); i++)
		munmap(buf[i], BULK);
}

static void cache_01_nothing_is_kept(struct conf *c)
{
	static struct scene s;
	unsigned int n = c->profile->at_once ? 0 : 1;

	open_scene(c, &s);
	if (cache_stats(s.l.a).max_entries != 0)
		conf_skip(c, "the environment lets something be kept");
	for (int i = 0; i < 3; i++) {
		write_it(c, &s, s.l.src, BULK);
		since(&s, n, 0, n);
		read_it(c, &s, s.l.src, BULK);
		since(&s, n, 0, n);
	}
	assert_int_equal(cache_figures(s.l.a).entries, 0);
}

static const struct conf_case cases[] = {
	CONF_WITHOUT(mode_03_every_call_is_registered_once, FI_MR_LOCAL),
	CONF_WITHOUT(fn_34_no_cache, FI_MR_LOCAL),
	CONF_WITHOUT(reg_07_a_hit_calls_no_verb, FI_MR_LOCAL),
	CONF_WITHOUT(cache_03_same_or_wider, FI_MR_LOCAL),
	CONF_WITHOUT(fn_30_read_only_memory, FI_MR_LOCAL),
	CONF_WITHOUT(cache_02_other_memory_at_the_address, FI_MR_LOCAL),
	CONF_WITHOUT(fn_29_nothing_is_there, FI_MR_LOCAL),
	CONF_WITHOUT(cache_04_receives_let_go, FI_MR_LOCAL),
	CONF_WITHOUT(mode_03_each_domain_has_its_own, FI_MR_LOCAL),
	CONF_WITHOUT(cache_04_limits, FI_MR_LOCAL),
	CONF_WITHOUT(cache_01_nothing_is_kept, FI_MR_LOCAL),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
