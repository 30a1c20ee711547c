/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote accesses that must fail: every edge of a region, every cause, and what the entry says. */
#include "tests/conformance/harness.h"

/* ---- bounds ---- */

#define LEN 100

enum call {
	WRITE,
	READ,
	WRITEDATA,
	WRITEMSG,
	READMSG,
	ATOMIC,
	FETCH,
	CALLS
};

/* addr is as the peer calls it; bytes for atomics are elements of one byte. */
static ssize_t by(enum call call, struct conf_link *l, uint64_t addr, size_t len)
{
	struct iovec iov = { l->src, len };
	struct fi_rma_iov rma = { addr, len, l->key };
	struct fi_msg_rma msg = { .msg_iov = &iov,
				  .desc = &l->local->desc,
				  .iov_count = 1,
				  .addr = l->to,
				  .rma_iov = &rma,
				  .rma_iov_count = 1,
				  .context = l };
	void *desc = l->local->desc;

	switch (call) {
	case WRITE:
		return fi_write(l->a->ep, l->src, len, desc, l->to, addr, l->key, l);
	case READ:
		return fi_read(l->a->ep, l->src, len, desc, l->to, addr, l->key, l);
	case WRITEDATA:
		return fi_writedata(l->a->ep, l->src, len, desc, 1, l->to, addr, l->key, l);
	case WRITEMSG:
		return fi_writemsg(l->a->ep, &msg, FI_COMPLETION);
	case READMSG:
		return fi_readmsg(l->a->ep, &msg, FI_COMPLETION);
	case ATOMIC:
		return fi_atomic(l->a->ep, l->src, len, desc, l->to, addr, l->key, FI_UINT8,
				 FI_ATOMIC_WRITE, l);
	default:
		return fi_fetch_atomic(l->a->ep, l->src, len, desc, l->src + 2 * LEN, desc, l->to,
				       addr, l->key, FI_UINT8, FI_ATOMIC_WRITE, l);
	}
}

/* Atomics of one byte are not everybody's. */
static bool has(const struct conf_link *l, enum call call)
{
	if (call == ATOMIC)
		return conf_atomic_count(l->a, FI_UINT8, FI_ATOMIC_WRITE, 0) >= LEN;
	if (call == FETCH)
		return conf_atomic_count(l->a, FI_UINT8, FI_ATOMIC_WRITE, FI_FETCH_ATOMIC) >= LEN;
	return true;
}

static bool changes(enum call call)
{
	return call != READ && call != READMSG;
}

static const struct edge {
	int64_t off;
	size_t len;
	bool ok;
} edges[] = {
	{ 0, LEN, true },
	{ 0, LEN + 1, false },
	{ 1, LEN - 1, true },
	{ 1, LEN, false },
	{ LEN - 1, 1, true },
	{ LEN - 1, 2, false },
	{ LEN, 1, false },
	{ LEN + 1, 1, false },
	{ -1, 1, false },
	{ -1, 2, false },
	{ -1, LEN + 1, false },
	{ -1, LEN + 2, false },
	{ -LEN, LEN, false },
	{ -LEN, 2 * LEN, false },
	{ INT64_MIN, LEN, false },
	{ INT64_MAX, LEN, false },
	{ INT64_C(1) << 32, 1, false },
	{ -(INT64_C(1) << 32), 1, false },
	{ 50, 50, true },
	{ 50, 51, false },
};

static void try_edge(struct conf_link *l, enum call call, const struct edge *edge)
{
	uint8_t *base = l->dst + 2 * LEN;

	memset(l->dst, 0, 5 * LEN);
	memset(l->src, 0xee, 4 * LEN);
	assert_ok(by(call, l, l->remote->addr + (uint64_t)edge->off, edge->len));
	if (!edge->ok)
		conf_failed(l->a->tx, l, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	else
		conf_done(l->a->tx, l);
	if (edge->ok && call == WRITEDATA)
		conf_done(l->b->rx, NULL);
	for (int i = 0; i < 5 * LEN; i++) {
		bool hit = edge->ok && changes(call) && &l->dst[i] >= base + edge->off &&
			   &l->dst[i] < base + edge->off + edge->len;

		assert_int_equal(l->dst[i], hit ? 0xee : 0);
	}
	if (!edge->ok)
		for (int i = 0; i < 4 * LEN; i++)
			assert_int_equal(l->src[i], 0xee);
	conf_quiet(l->b->rx);
}

/* The region lies in the middle of a buffer, whose every byte is looked at. */
static void open_middle(struct conf *c, struct conf_link *l)
{
	conf_link(c, NULL, 5 * LEN, l);
	conf_drop_region(l->remote);
	l->remote = conf_reg(l->b, l->dst + 2 * LEN, LEN, CONF_ALL);
	l->key = conf_key(l->a, l->remote);
}

static void rma_bounds(struct conf *c)
{
	struct conf_link l;

	open_middle(c, &l);
	for (int call = 0; call < CALLS; call++)
		for (size_t i = 0; has(&l, (enum call)call) && i < count_of(edges); i++)
			try_edge(&l, (enum call)call, &edges[i]);
}

/* The same for what every NIC with atomics has: one element of 8 bytes. */
static void rma_bounds_of_an_element(struct conf *c)
{
	static const struct {
		int64_t off;
		bool ok;
	} at[] = { { 0, true },
		   { 8, true },
		   { 88, true },
		   { 96, false },
		   { 104, false },
		   { -8, false },
		   { INT64_C(1) << 32, false } };
	struct conf_link l;

	conf_need_caps(c, FI_ATOMIC);
	open_middle(c, &l);
	if (!conf_atomic_count(l.a, FI_UINT64, FI_SUM, FI_FETCH_ATOMIC))
		conf_skip(c, "no fetching sum of 8 bytes");
	for (size_t i = 0; i < count_of(at); i++) {
		uint64_t one = 1, seven = 7, now;

		for (size_t k = 0; k < 5 * LEN; k += 8)
			memcpy(l.dst + k, &seven, k + 8 <= 5 * LEN ? 8 : 0);
		memcpy(l.src, &one, 8);
		assert_ok(fi_fetch_atomic(l.a->ep, l.src, 1, l.local->desc, l.src + 8,
					  l.local->desc, l.to, l.remote->addr + (uint64_t)at[i].off,
					  l.key, FI_UINT64, FI_SUM, &l));
		if (at[i].ok)
			conf_done(l.a->tx, &l);
		else
			conf_failed(l.a->tx, &l, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		for (size_t k = 0; k + 8 <= 5 * LEN; k += 8) {
			memcpy(&now, l.dst + k, 8);
			assert_true(now == (at[i].ok && (int64_t)k == 2 * LEN + at[i].off ? 8 : 7));
		}
	}
}

/* Ranges that begin below the end of all addresses and go on from 0. */
static void rma_bounds_wrapping(struct conf *c)
{
	static const uint64_t addrs[] = { UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 7,
					  UINT64_MAX - LEN + 1 };
	struct conf_link l;

	open_middle(c, &l);
	for (int call = 0; call < CALLS; call++) {
		for (size_t i = 0; has(&l, (enum call)call) && i < count_of(addrs); i++) {
			assert_ok(by((enum call)call, &l, addrs[i], LEN));
			conf_failed(l.a->tx, &l, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		}
	}
	for (size_t i = 0; i < 5 * LEN; i++)
		assert_int_equal(l.dst[i], 0);
}

/* Nothing is accessed then, so that there is nothing to be outside of. */
static void rma_zero_length(struct conf *c)
{
	static const int64_t offs[] = { 0, 50, LEN, LEN + 1, -1, INT64_MIN };
	struct conf_link l;

	open_middle(c, &l);
	for (int call = 0; call < CALLS; call++) {
		for (size_t i = 0; has(&l, (enum call)call) && i < count_of(offs); i++) {
			assert_ok(by((enum call)call, &l, l.remote->addr + (uint64_t)offs[i], 0));
			conf_done(l.a->tx, &l);
			if (call == WRITEDATA)
				conf_done(l.b->rx, NULL);
		}
	}
	for (size_t i = 0; i < 5 * LEN; i++)
		assert_int_equal(l.dst[i], 0);
}

/* Lengths that do not add up, or whose sum no 64-bit number holds. */
static void rma_sums(struct conf *c)
{
	struct conf_link l;
	const size_t half = (size_t)1 << 63;
	struct iovec iov[2];
	void *desc[2];
	struct fi_rma_iov rma[2];
	struct fi_msg_rma msg;
	const struct {
		size_t local[2], remote[2];
	} sums[] = {
		{ { 8, 8 }, { 8, 7 } },
		{ { 8, 8 }, { 8, 9 } },
		{ { 0, 0 }, { 0, 1 } },
		{ { 1, 0 }, { 0, 0 } },
		{ { 0, 0 }, { half, half } },
		{ { 8, 8 }, { SIZE_MAX, 17 } },
		{ { 8, 8 }, { half, half + 16 } },
	};

	open_middle(c, &l);
	if (l.a->info->tx_attr->rma_iov_limit < 2)
		return;
	desc[0] = desc[1] = l.local->desc;
	msg = (struct fi_msg_rma){ iov, desc, 2, l.to, rma, 2, c, 0 };
	for (size_t i = 0; i < count_of(sums); i++) {
		for (size_t k = 0; k < 2; k++) {
			iov[k] = (struct iovec){ l.src, sums[i].local[k] };
			rma[k] = (struct fi_rma_iov){ l.remote->addr, sums[i].remote[k], l.key };
		}
		assert_refused(fi_writemsg(l.a->ep, &msg, 0), -FI_EINVAL);
		assert_refused(fi_readmsg(l.a->ep, &msg, 0), -FI_EINVAL);
	}
	conf_quiet(l.a->tx);
}

static void rma_message_too_long(struct conf *c)
{
	struct conf_link l;
	size_t most;

	open_middle(c, &l);
	most = l.a->info->ep_attr->max_msg_size;
	if (most == SIZE_MAX)
		return;
	assert_refused(fi_write(l.a->ep, l.src, most + 1, l.local->desc, l.to, l.remote->addr,
				l.key, c),
		       -FI_EMSGSIZE);
	assert_refused(fi_read(l.a->ep, l.src, most + 1, l.local->desc, l.to, l.remote->addr, l.key,
			       c),
		       -FI_EMSGSIZE);
}

/* ---- what an error entry says ---- */

static void error_entry_fields(struct conf *c)
{
	struct fi_cq_err_entry entry;
	struct conf_link l;
	char text[128], short_text[5], err_data[16];
	const char *all;

	open_middle(c, &l);
	for (int read = 0; read < 2; read++) {
		assert_ok(by(read ? READ : WRITE, &l, l.remote->addr, LEN + 1));
		conf_failed_as(l.a->tx, &l, FI_EINVAL, HMREG_OUT_OF_BOUNDS, &entry);
		assert_true(entry.flags == (FI_RMA | (read ? FI_READ : FI_WRITE)));
		assert_int_equal(entry.len, 0);
		assert_null(entry.err_data);
		assert_int_equal(entry.err_data_size, 0);
	}
	all = fi_cq_strerror(l.a->tx, HMREG_OUT_OF_BOUNDS, NULL, text, sizeof(text));
	assert_non_null(strstr(all, "out of bounds"));
	assert_string_equal(all, text);
	fi_cq_strerror(l.a->tx, HMREG_OUT_OF_BOUNDS, NULL, short_text, sizeof(short_text));
	assert_string_equal(short_text, "out ");
	for (int i = HMREG_KEY_UNKNOWN; i < HMREG_ERROR_LAST; i++) {
		const char *one = fi_cq_strerror(l.a->tx, i, NULL, NULL, 0);

		assert_true(strlen(one) > 8);
		for (int k = HMREG_KEY_UNKNOWN; k < i; k++)
			assert_string_not_equal(one, fi_cq_strerror(l.a->tx, k, NULL, NULL, 0));
	}
	assert_non_null(fi_cq_strerror(l.a->tx, -1, NULL, NULL, 0));
	assert_non_null(fi_cq_strerror(l.a->tx, 123456, NULL, NULL, 0));

	/* a buffer that the reader brings for further data stays the reader's */
	assert_ok(by(WRITE, &l, l.remote->addr, LEN + 1));
	conf_await(l.a->tx);
	assert_answer(fi_cq_readerr(l.b->tx, &entry, 0), -FI_EAGAIN);
	memset(&entry, 0, sizeof(entry));
	entry.err_data = err_data;
	entry.err_data_size = sizeof(err_data);
	assert_answer(fi_cq_readerr(l.a->tx, &entry, 0), 1);
	assert_ptr_equal(entry.err_data, err_data);
	assert_int_equal(entry.err_data_size, 0);
	assert_answer(fi_cq_readerr(l.a->tx, &entry, 0), -FI_EAGAIN);
}

/* Successes before an error are read before it, those behind it after it. */
static void error_keeps_its_place(struct conf *c)
{
	struct fi_cq_data_entry entry[8];
	struct conf_link l;

	open_middle(c, &l);
	for (int i = 0; i < 5; i++)
		assert_ok(by(WRITE, &l, l.remote->addr, i == 2 ? LEN + 1 : LEN));
	conf_reads(l.a->tx, entry, 2, sizeof(entry[0]));
	conf_await(l.a->tx);
	assert_answer(fi_cq_read(l.a->tx, entry, 8), -FI_EAVAIL);
	assert_answer(fi_cq_read(l.a->tx, entry, 0), -FI_EAVAIL);
	conf_failed(l.a->tx, &l, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	conf_await(l.a->tx);
	assert_answer(fi_cq_read(l.a->tx, entry, 0), 0);
	conf_reads(l.a->tx, entry, 2, sizeof(entry[0]));
	assert_answer(fi_cq_read(l.a->tx, entry, 0), -FI_EAGAIN);
}

/* ---- causes ---- */

static void cause_unknown_key(struct conf *c)
{
	struct conf_link l;
	uint64_t good;

	open_middle(c, &l);
	good = l.key;
	for (unsigned int bit = 0; bit < 64; bit++) {
		struct fi_cq_err_entry entry;

		l.key = good ^ UINT64_C(1) << bit;
		if (l.remote->base && l.key == fi_mr_key(l.remote->base))
			continue; /* is known: by chance, that of the region around */
		assert_ok(by(WRITE, &l, l.remote->addr, LEN));
		conf_error(l.a->tx, &entry);
		if (c->mode & FI_MR_RAW) {
			assert_int_equal(entry.prov_errno, HMREG_KEY_NOT_MAPPED);
			assert_int_equal(entry.err, FI_EKEYREJECTED);
		} else {
			assert_true(conf_is_error(&entry, FI_ENOKEY, HMREG_KEY_UNKNOWN) ||
				    conf_is_error(&entry, FI_ENOKEY, HMREG_KEY_CLOSED));
		}
	}
	for (size_t i = 0; i < 5 * LEN; i++)
		assert_int_equal(l.dst[i], 0);
}

static void cause_peer_gone(struct conf *c)
{
	struct conf_end *never = conf_open(c, &(struct conf_opts){ .disabled = true });
	struct conf_link l;
	fi_addr_t to_never;

	open_middle(c, &l);
	to_never = conf_addr(l.a, never);
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, to_never, 0, l.key, c));
	conf_failed(l.a->tx, c, FI_EHOSTUNREACH, HMREG_PEER_GONE);
	assert_ok(fi_send(l.a->ep, l.src, 8, l.local->desc, to_never, c));
	conf_failed(l.a->tx, c, FI_EHOSTUNREACH, HMREG_PEER_GONE);
	conf_close_region(l.remote);
	conf_close_ep(l.b);
	for (int call = 0; call < CALLS; call++) {
		if (!has(&l, (enum call)call))
			continue;
		assert_ok(by((enum call)call, &l, l.remote->addr, LEN));
		conf_failed(l.a->tx, &l, FI_EHOSTUNREACH, HMREG_PEER_GONE);
	}
	assert_ok(fi_inject(l.a->ep, l.src, 8, l.to));
	conf_failed(l.a->tx, NULL, FI_EHOSTUNREACH, HMREG_PEER_GONE);
}

/* A target says with its capabilities what it lets others do. */
static void cause_peer_without_capability(struct conf *c)
{
	static const struct {
		uint64_t caps;
		uint64_t can; /* bits by call; the last is fi_send */
	} targets[] = {
		{ FI_MSG, 1 << CALLS },
		{ FI_RMA, 1 << WRITE | 1 << READ | 1 << WRITEDATA | 1 << WRITEMSG | 1 << READMSG },
		{ FI_RMA | FI_REMOTE_READ, 1 << READ | 1 << READMSG },
		{ FI_RMA | FI_REMOTE_WRITE, 1 << WRITE | 1 << WRITEDATA | 1 << WRITEMSG },
		{ FI_RMA | FI_READ | FI_WRITE, 0 },
		{ FI_ATOMIC, 1 << ATOMIC | 1 << FETCH },
		{ FI_ATOMIC | FI_REMOTE_WRITE, 1 << ATOMIC },
		{ FI_MSG | FI_SEND, 0 },
		{ FI_MSG | FI_RECV, 1 << CALLS },
	};
	struct conf_link l = { .len = 4 * LEN };

	l.a = conf_open(c, NULL);
	l.src = conf_alloc(c, 4 * LEN);
	l.dst = conf_alloc(c, LEN);
	l.local = conf_reg(l.a, l.src, 4 * LEN, CONF_ALL);
	for (size_t i = 0; i < count_of(targets); i++) {
		l.b = conf_open(c, &(struct conf_opts){ .caps = targets[i].caps });
		l.to = conf_addr(l.a, l.b);
		l.remote = conf_reg(l.b, l.dst, LEN, CONF_ALL);
		l.key = conf_key(l.a, l.remote);
		for (int call = 0; call <= CALLS; call++) {
			if (call < CALLS && !has(&l, (enum call)call))
				continue;
			if (call == CALLS)
				assert_ok(fi_send(l.a->ep, l.src, 8, l.local->desc, l.to, &l));
			else
				assert_ok(by((enum call)call, &l, l.remote->addr, LEN));
			if (targets[i].can >> call & 1)
				conf_done(l.a->tx, &l);
			else
				conf_failed(l.a->tx, &l, FI_EOPNOTSUPP, HMREG_PEER_NO_CAP);
		}
		conf_drop_region(l.remote);
		conf_drop_end(l.b);
	}
}

/* Where regions belong to endpoints, another endpoint of the domain does not lead to them. */
static void cause_other_endpoint(struct conf *c)
{
	struct conf_end *other;
	struct conf_link l;

	open_middle(c, &l);
	other = conf_open(c, &(struct conf_opts){ .same_domain = l.b });
	l.to = conf_addr(l.a, other);
	assert_ok(by(WRITE, &l, l.remote->addr, LEN));
	if (c->mode & FI_MR_ENDPOINT)
		conf_failed(l.a->tx, &l, FI_EACCES, HMREG_OTHER_ENDPOINT);
	else
		conf_done(l.a->tx, &l);
}

static void cause_disabled(struct conf *c)
{
	struct conf_link l;

	open_middle(c, &l);
	conf_drop_region(l.remote);
	l.remote = conf_reg_raw(l.b, l.dst, LEN, CONF_ALL);
	l.key = conf_key(l.a, l.remote);
	for (int call = 0; call < CALLS; call++) {
		assert_ok(by((enum call)call, &l, l.remote->addr, LEN));
		conf_failed(l.a->tx, &l, FI_EOPBADSTATE, HMREG_DISABLED);
	}
	assert_ok(fi_mr_bind(l.remote->mr, &l.b->ep->fid, 0));
	assert_ok(by(WRITE, &l, l.remote->addr, LEN));
	conf_failed(l.a->tx, &l, FI_EOPBADSTATE, HMREG_DISABLED);
	assert_ok(fi_mr_enable(l.remote->mr));
	assert_ok(by(WRITE, &l, l.remote->addr, LEN));
	conf_done(l.a->tx, &l);
}

static const struct conf_case cases[] = {
	CONF(rma_bounds),
	CONF(rma_bounds_of_an_element),
	CONF(rma_bounds_wrapping),
	CONF(rma_zero_length),
	CONF(rma_sums),
	CONF(rma_message_too_long),
	CONF(error_entry_fields),
	CONF(error_keeps_its_place),
	CONF(cause_unknown_key),
	CONF(cause_peer_gone),
	CONF(cause_peer_without_capability),
	CONF(cause_other_endpoint),
	CONF_NEED(cause_disabled, FI_MR_ENDPOINT | FI_MR_RAW),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
