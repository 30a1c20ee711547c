/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_rma(3): every call moves exactly its bytes; what completes, and how. */
#include "tests/conformance/harness.h"

/* ---- every call, many lengths ---- */

#define DATA UINT64_C(0x1122334455667788)

enum call {
	WRITE,
	WRITEV,
	WRITEMSG,
	WRITEDATA,
	INJECT,
	INJECTDATA,
	READ,
	READV,
	READMSG,
	CALLS
};

static bool injects(enum call call)
{
	return call == INJECT || call == INJECTDATA;
}

static bool reads(enum call call)
{
	return call >= READ;
}

static ssize_t by(enum call call, struct conf_link *l, size_t off, size_t len)
{
	struct iovec iov = { l->src + off, len };
	uint64_t addr = l->remote->addr + off;
	struct fi_rma_iov rma = { addr, len, l->key };
	struct fi_msg_rma msg = { .msg_iov = &iov,
				  .desc = &l->local->desc,
				  .iov_count = 1,
				  .addr = l->to,
				  .rma_iov = &rma,
				  .rma_iov_count = 1,
				  .context = l };
	struct fid_ep *ep = l->a->ep;

	switch (call) {
	case WRITE:
		return fi_write(ep, iov.iov_base, len, l->local->desc, l->to, addr, l->key, l);
	case WRITEV:
		return fi_writev(ep, &iov, &l->local->desc, 1, l->to, addr, l->key, l);
	case WRITEMSG:
		return fi_writemsg(ep, &msg, FI_COMPLETION);
	case WRITEDATA:
		return fi_writedata(ep, iov.iov_base, len, l->local->desc, DATA, l->to, addr,
				    l->key, l);
	case INJECT:
		return fi_inject_write(ep, iov.iov_base, len, l->to, addr, l->key);
	case INJECTDATA:
		return fi_inject_writedata(ep, iov.iov_base, len, DATA, l->to, addr, l->key);
	case READ:
		return fi_read(ep, iov.iov_base, len, l->local->desc, l->to, addr, l->key, l);
	case READV:
		return fi_readv(ep, &iov, &l->local->desc, 1, l->to, addr, l->key, l);
	default:
		return fi_readmsg(ep, &msg, FI_COMPLETION);
	}
}

/* What the target may see of it: nothing, or the data. */
static void check_target(struct conf_link *l, enum call call, size_t len)
{
	struct fi_cq_data_entry entry;

	if (call == WRITEDATA || call == INJECTDATA) {
		conf_done_as(l->b->rx, NULL, &entry);
		assert_true(conf_data(l->b, entry.data) == conf_data(l->b, DATA));
		assert_true((entry.flags & (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) ==
			    (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
		assert_int_equal(entry.len, len);
	}
	conf_quiet(l->b->rx);
	conf_quiet(l->b->tx);
}

static void one_transfer(struct conf_link *l, enum call call, size_t off, size_t len)
{
	struct fi_cq_data_entry entry;
	uint8_t *from = reads(call) ? l->dst : l->src, *to = reads(call) ? l->src : l->dst;

	conf_fill(l->a->conf, from, l->len);
	memset(to, 0xc3, l->len);
	assert_ok(by(call, l, off, len));
	if (injects(call)) {
		conf_arrives(to + off, from + off, len);
		conf_quiet(l->a->tx);
	} else {
		conf_done_as(l->a->tx, l, &entry);
		assert_true(entry.flags == (FI_RMA | (reads(call) ? FI_READ : FI_WRITE)));
	}
	assert_memory_equal(to + off, from + off, len);
	for (size_t i = 0; i < l->len; i++)
		if (i < off || i - off >= len)
			assert_int_equal(to[i], 0xc3);
	check_target(l, call, len);
}

static void rma_every_call_moves_its_bytes(struct conf *c)
{
	static const size_t lengths[] = { 0, 1, 3, 8, 63, 64, 65, 511, 4096, 4097, 30000 };
	struct conf_link l;

	conf_link(c, NULL, 32768, &l);
	for (int call = 0; call < CALLS; call++)
		for (size_t i = 0; i < count_of(lengths); i++)
			if (!injects((enum call)call) ||
			    lengths[i] <= l.a->info->tx_attr->inject_size)
				one_transfer(&l, (enum call)call, conf_below(c, 2768), lengths[i]);
}

static void rma_large_transfer(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, (16 << 20) + 13, &l);
	conf_works(&l);
}

/* ---- scatter and gather ---- */

#define MOST   16
#define LENGTH 3000

/* Cuts len bytes into 1 to MOST pieces, some of them possibly empty; ends are offsets. */
static size_t cut(struct conf *c, size_t len, size_t limit, size_t *end)
{
	size_t count = 1 + conf_below(c, limit);

	for (size_t i = 0; i + 1 < count; i++)
		end[i] = conf_below(c, len + 1);
	end[count - 1] = len;
	for (size_t i = 1; i < count; i++)
		for (size_t k = i; k > 0 && end[k - 1] > end[k]; k--) {
			size_t swap = end[k];

			end[k] = end[k - 1];
			end[k - 1] = swap;
		}
	return count;
}

struct split {
	struct iovec iov[MOST];
	void *desc[MOST];
	struct fi_rma_iov rma[MOST];
	size_t local, remote;
	size_t at_local[MOST], at_remote[MOST]; /* where in src and dst each piece lies */
};

/* Pieces of both sides in random places that do not overlap. */
static void make_split(struct conf_link *l, struct conf_region *other, uint64_t other_key,
		       struct split *s)
{
	struct conf *c = l->a->conf;
	size_t end[MOST], most_local = l->a->info->tx_attr->iov_limit,
			  most_remote = l->a->info->tx_attr->rma_iov_limit;

	s->local = cut(c, LENGTH, most_local < MOST ? most_local : MOST, end);
	for (size_t i = 0, from = 0; i < s->local; from = end[i++]) {
		s->at_local[i] = from + i * 7;
		s->iov[i] = (struct iovec){ l->src + s->at_local[i], end[i] - from };
		s->desc[i] = l->local->desc;
	}
	s->remote = cut(c, LENGTH, most_remote < MOST ? most_remote : MOST, end);
	for (size_t i = 0, from = 0; i < s->remote; from = end[i++]) {
		/* every other piece through another region of the same memory */
		struct conf_region *region = i % 2 ? other : l->remote;

		s->at_remote[i] = from + i * 5;
		s->rma[i] = (struct fi_rma_iov){ region->addr + s->at_remote[i], end[i] - from,
						 i % 2 ? other_key : l->key };
	}
}

/* The same byte by byte, on copies. */
static void model(const struct split *s, uint8_t *src, uint8_t *dst, bool read)
{
	size_t l = 0, loff = 0, r = 0, roff = 0;

	for (size_t n = 0; n < LENGTH; n++) {
		while (loff == s->iov[l].iov_len)
			l++, loff = 0;
		while (roff == s->rma[r].len)
			r++, roff = 0;
		if (read)
			src[s->at_local[l] + loff++] = dst[s->at_remote[r] + roff++];
		else
			dst[s->at_remote[r] + roff++] = src[s->at_local[l] + loff++];
	}
}

static void rma_random_splits(struct conf *c)
{
	static uint8_t src[LENGTH + 200], dst[LENGTH + 200];
	struct conf_region *other;
	struct conf_link l;
	uint64_t other_key;

	conf_link(c, NULL, sizeof(src), &l);
	other = conf_reg(l.b, l.dst, sizeof(dst), CONF_ALL);
	other_key = conf_key(l.a, other);
	for (int i = 0; i < (conf_brief() ? 80 : 400); i++) {
		struct split s;
		struct fi_msg_rma msg;
		bool read = i % 2;

		make_split(&l, other, other_key, &s);
		msg = (struct fi_msg_rma){ s.iov, s.desc, s.local, l.to, s.rma, s.remote, &s, 0 };
		conf_fill(c, l.src, sizeof(src));
		conf_fill(c, l.dst, sizeof(dst));
		memcpy(src, l.src, sizeof(src));
		memcpy(dst, l.dst, sizeof(dst));
		model(&s, src, dst, read);
		assert_ok(read ? fi_readmsg(l.a->ep, &msg, FI_COMPLETION)
			       : fi_writemsg(l.a->ep, &msg, FI_COMPLETION));
		conf_done(l.a->tx, &s);
		assert_memory_equal(l.src, src, sizeof(src));
		assert_memory_equal(l.dst, dst, sizeof(dst));
		/* the same local pieces against one remote range */
		assert_ok(read ? fi_readv(l.a->ep, s.iov, s.desc, s.local, l.to, l.remote->addr,
					  l.key, &s)
			       : fi_writev(l.a->ep, s.iov, s.desc, s.local, l.to, l.remote->addr,
					   l.key, &s));
		conf_done(l.a->tx, &s);
		s.remote = 1;
		s.at_remote[0] = 0;
		s.rma[0].len = LENGTH;
		model(&s, src, dst, read);
		assert_memory_equal(l.src, src, sizeof(src));
		assert_memory_equal(l.dst, dst, sizeof(dst));
	}
}

/* One bad piece, and nothing of the good ones is moved: where all is checked before anything is. */
static void rma_all_or_nothing(struct conf *c)
{
	struct conf_link l;
	struct iovec iov;
	struct fi_rma_iov rma[3];
	struct fi_msg_rma msg;

	if (!c->profile->at_once)
		conf_skip(c, "the pieces of an operation are carried out one after another");
	conf_link(c, NULL, 96, &l);
	if (l.a->info->tx_attr->rma_iov_limit < 3)
		conf_skip(c, "an operation has fewer than three remote pieces");
	iov = (struct iovec){ l.src, 96 };
	msg = (struct fi_msg_rma){ &iov, &l.local->desc, 1, l.to, rma, 3, c, 0 };
	for (size_t bad = 0; bad < 3; bad++) {
		for (size_t i = 0; i < 3; i++)
			rma[i] = (struct fi_rma_iov){ l.remote->addr + 32 * i + (i == bad ? 65 : 0),
						      32, l.key };
		assert_ok(fi_writemsg(l.a->ep, &msg, FI_COMPLETION));
		conf_failed(l.a->tx, c, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		for (size_t i = 0; i < 96; i++)
			assert_int_equal(l.dst[i], 0);
	}
}

/* ---- injecting ---- */

static void rma_inject_limit(struct conf *c)
{
	struct conf_link l;
	size_t limit;
	uint8_t first[8];
	struct iovec iov;
	struct fi_rma_iov rma;
	struct fi_msg_rma msg;

	conf_link(c, NULL, 65536, &l);
	limit = l.a->info->tx_attr->inject_size;
	assert_in_range(limit, 1, 65535);
	iov = (struct iovec){ l.src, limit };
	rma = (struct fi_rma_iov){ l.remote->addr, limit, l.key };
	msg = (struct fi_msg_rma){ &iov, NULL, 1, l.to, &rma, 1, c, 0 };
	memcpy(first, l.src, 8);
	assert_ok(fi_inject_write(l.a->ep, l.src, limit, l.to, l.remote->addr, l.key));
	memset(l.src, 0, 8); /* the buffer is the caller's again */
	conf_arrives(l.dst, first, 8);
	assert_ok(fi_writemsg(l.a->ep, &msg, FI_INJECT | FI_COMPLETION));
	conf_done(l.a->tx, c);
	memset(l.dst, 0, 65536);
	iov.iov_len = rma.len = limit + 1;
	assert_refused(fi_writemsg(l.a->ep, &msg, FI_INJECT | FI_COMPLETION), -FI_EINVAL);
	assert_refused(fi_inject_write(l.a->ep, l.src, limit + 1, l.to, l.remote->addr, l.key),
		       -FI_EINVAL);
	assert_refused(fi_inject_writedata(l.a->ep, l.src, limit + 1, 1, l.to, l.remote->addr,
					   l.key),
		       -FI_EINVAL);
	conf_quiet(l.a->tx);
	conf_quiet(l.b->rx);
	for (size_t i = 0; i <= limit; i++)
		assert_int_equal(l.dst[i], 0);
}

/* Flags that hold for every operation of an endpoint: reads are not injected by them. */
static void rma_inject_by_default(struct conf *c)
{
	struct conf_link l;

	conf_link(c, &(struct conf_opts){ .tx_flags = FI_INJECT }, 32768, &l);
	for (int call = READ; call < CALLS; call++)
		one_transfer(&l, (enum call)call, 5, 30000);
	for (int call = WRITE; call < READ; call++)
		one_transfer(&l, (enum call)call, 5, l.a->info->tx_attr->inject_size);
	if (c->mode & FI_MR_LOCAL) {
		struct iovec iov = { l.src, 8 };

		assert_refused(fi_readv(l.a->ep, &iov, NULL, 1, l.to, l.remote->addr, l.key, c),
			       -FI_EINVAL);
	}
	assert_refused(fi_write(l.a->ep, l.src, 30000, l.local->desc, l.to, l.remote->addr, l.key,
				c),
		       -FI_EINVAL);
}

/* ---- completions ---- */

static void rma_selective_completion(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct iovec iov;
	struct fi_rma_iov rma;
	struct fi_msg_rma msg;
	struct conf_link l;

	conf_link(c, &(struct conf_opts){ .bind_flags = FI_SELECTIVE_COMPLETION }, 64, &l);
	iov = (struct iovec){ l.src, 64 };
	rma = (struct fi_rma_iov){ l.remote->addr, 64, l.key };
	msg = (struct fi_msg_rma){ &iov, &l.local->desc, 1, l.to, &rma, 1, c, 0 };
	assert_ok(by(WRITE, &l, 0, 64));
	assert_ok(by(READ, &l, 0, 64));
	assert_ok(fi_writemsg(l.a->ep, &msg, 0));
	assert_ok(fi_readmsg(l.a->ep, &msg, 0));
	conf_quiet(l.a->tx);
	assert_ok(fi_writemsg(l.a->ep, &msg, FI_COMPLETION));
	conf_done(l.a->tx, c);
	assert_ok(fi_readmsg(l.a->ep, &msg, FI_COMPLETION));
	conf_done(l.a->tx, c);
	/* a failure is always told */
	rma.key = l.key ^ 0x5555;
	assert_ok(fi_writemsg(l.a->ep, &msg, 0));
	conf_error(l.a->tx, &error);
	/* nor is the target's side of remote data left out */
	rma.key = l.key;
	msg.data = 5;
	assert_ok(fi_writemsg(l.a->ep, &msg, FI_REMOTE_CQ_DATA));
	conf_quiet(l.a->tx);
	conf_done(l.b->rx, NULL);
	conf_quiet(l.b->rx);
}

static void rma_selective_with_default_flag(struct conf *c)
{
	struct conf_link l;

	conf_link(c,
		  &(struct conf_opts){ .bind_flags = FI_SELECTIVE_COMPLETION,
				       .tx_flags = FI_COMPLETION },
		  64, &l);
	conf_works(&l); /* fi_write and fi_read complete, since the endpoint's flags say so */
	assert_ok(by(INJECT, &l, 0, 64));
	conf_quiet(l.a->tx);
}

static void rma_completion_levels(struct conf *c)
{
	static const uint64_t levels[] = { FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
					   FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE | FI_FENCE,
					   FI_DELIVERY_COMPLETE | FI_MORE };
	struct iovec iov;
	struct fi_rma_iov rma;
	struct fi_msg_rma msg;
	struct conf_link l;

	conf_link(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_FENCE }, 4096, &l);
	iov = (struct iovec){ l.src, 4096 };
	rma = (struct fi_rma_iov){ l.remote->addr, 4096, l.key };
	msg = (struct fi_msg_rma){ &iov, &l.local->desc, 1, l.to, &rma, 1, c, 0 };
	for (size_t i = 0; i < count_of(levels); i++) {
		conf_fill(c, l.src, 4096);
		assert_ok(fi_writemsg(l.a->ep, &msg, levels[i]));
		conf_done(l.a->tx, c);
		if (levels[i] & FI_DELIVERY_COMPLETE)
			assert_memory_equal(l.dst, l.src, 4096);
	}
}

/* ---- no room ---- */

#define ROOM 4

static void rma_full_initiator_queue(struct conf *c)
{
	struct conf_link l;
	size_t accepted = 0;

	conf_link(c, &(struct conf_opts){ .tx_cq_size = ROOM }, 64, &l);
	while (accepted < 64 && by(WRITE, &l, accepted, 1) == 0)
		accepted++;
	assert_in_range(accepted, ROOM, 63);
	for (int call = 0; call < CALLS; call++)
		assert_answer(by((enum call)call, &l, accepted, 1), -FI_EAGAIN);
	/* what was refused was not done */
	conf_arrives(l.dst, l.src, accepted);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(l.dst[i], i < accepted ? l.src[i] : 0);
	for (size_t i = 0; i < accepted; i++)
		conf_done(l.a->tx, &l);
	conf_quiet(l.a->tx);
	conf_works(&l);
}

static void rma_full_target_queue(struct conf *c)
{
	struct conf_link l;
	size_t accepted = 0;

	conf_link(c, &(struct conf_opts){ .rx_cq_size = ROOM }, 64, &l);
	while (accepted < 64 && by(WRITEDATA, &l, accepted, 1) == 0)
		accepted++;
	if (c->profile->at_once) {
		assert_in_range(accepted, ROOM, 63);
		assert_answer(by(INJECTDATA, &l, accepted, 1), -FI_EAGAIN);
	}
	assert_true(accepted >= ROOM);
	conf_arrives(l.dst, l.src, accepted);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(l.dst[i], i < accepted ? l.src[i] : 0);
	/* what has no room there waits, and is neither lost nor told twice */
	for (size_t i = 0; i < accepted; i++) {
		conf_done(l.a->tx, &l);
		conf_done(l.b->rx, NULL);
	}
	conf_quiet(l.a->tx);
	conf_quiet(l.b->rx);
	conf_works(&l); /* what needs no entry there goes through at any time */
	one_transfer(&l, WRITEDATA, 0, 64);
}

/* ---- to itself ---- */

static void rma_to_itself(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct conf_link l = { .a = end, .b = end, .len = 64 };

	l.to = conf_addr(end, end);
	l.src = conf_alloc(c, 64);
	l.dst = conf_alloc(c, 64);
	l.local = conf_reg(end, l.src, 64, CONF_ALL);
	l.remote = conf_reg(end, l.dst, 64, CONF_ALL);
	l.key = conf_key(end, l.remote);
	conf_works(&l);
}

static const struct conf_case cases[] = {
	CONF(rma_every_call_moves_its_bytes),
	CONF(rma_large_transfer),
	CONF(rma_random_splits),
	CONF(rma_all_or_nothing),
	CONF(rma_inject_limit),
	CONF(rma_inject_by_default),
	CONF(rma_selective_completion),
	CONF(rma_selective_with_default_flag),
	CONF(rma_completion_levels),
	CONF(rma_full_initiator_queue),
	CONF(rma_full_target_queue),
	CONF(rma_to_itself),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
