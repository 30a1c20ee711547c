/* SPDX-License-Identifier: BSD-2-Clause */
/* What each mr_mode bit changes for an application: MODE-02 to MODE-05, MODE-07, MODE-11; conf_pages.c has MODE-06. */
#include "tests/conformance/harness.h"

/* ---- MODE-02 ---- */

static void mode_02_default_model(struct conf *c)
{
	static const uint64_t keys[] = { 0, 1, 0xffffffff, UINT64_MAX - 1, 42 };
	struct conf_end *a, *b;
	uint8_t *src = conf_alloc(c, 64), *dst = conf_alloc(c, 64);
	fi_addr_t to;

	assert_int_equal(c->mode, 0);
	conf_pair(c, NULL, &a, &b);
	to = conf_addr(a, b);
	conf_fill(c, src, 64);
	for (size_t i = 0; i < count_of(keys); i++) {
		struct fid_mr *mr;

		assert_ok(fi_mr_reg(b->domain, dst, 64, CONF_REMOTE, 0, keys[i], 0, &mr, NULL));
		assert_true(fi_mr_key(mr) == keys[i]);
		memset(dst, 0, 64);
		assert_ok(fi_write(a->ep, src, 24, NULL, to, 40, keys[i], c));
		conf_done(a->tx, c);
		assert_memory_equal(dst + 40, src, 24);
		for (size_t k = 0; k < 40; k++)
			assert_int_equal(dst[k], 0);
		assert_ok(fi_close(&mr->fid));
	}
}

static void mode_02_any_range_registers(struct conf *c)
{
	const struct {
		uintptr_t base;
		size_t len;
	} ranges[] = {
		{ 0, 1 },
		{ 0, 4096 },
		{ 4096, SIZE_MAX - 8192 },
		{ UINTPTR_MAX - 4095, 4096 },
		{ (uintptr_t)1 << 47, (size_t)1 << 47 },
		{ 0, SIZE_MAX },
	};
	struct conf_end *end = conf_open_for_regions(c);

	for (size_t i = 0; i < count_of(ranges); i++) {
		struct fid_mr *mr;

		assert_ok(fi_mr_reg(end->domain, (void *)ranges[i].base, ranges[i].len, CONF_ALL, 0,
				    i + 1, 0, &mr, NULL));
		conf_check_stats(end, 1, ranges[i].len, 0);
		assert_ok(fi_close(&mr->fid));
	}
}

/* ---- MODE-03 ---- */

enum op {
	OP_WRITE,
	OP_READ,
	OP_WRITEDATA,
	OP_WRITEV,
	OP_READV,
	OP_WRITEMSG,
	OP_SEND,
	OP_SENDV,
	OP_SENDDATA,
	OP_RECV,
	OP_RECVV,
	OP_ATOMIC,
	OP_FETCH,
	OP_COMPARE,
	OPS
};

static ssize_t rma_by(enum op op, struct conf_link *l, size_t len, void *desc)
{
	struct iovec iov = { l->src, len };
	struct fi_rma_iov rma = { l->remote->addr, len, l->key };
	struct fi_msg_rma msg = { .msg_iov = &iov,
				  .desc = &desc,
				  .iov_count = 1,
				  .addr = l->to,
				  .rma_iov = &rma,
				  .rma_iov_count = 1,
				  .context = l };

	switch (op) {
	case OP_WRITE:
		return fi_write(l->a->ep, l->src, len, desc, l->to, rma.addr, l->key, l);
	case OP_READ:
		return fi_read(l->a->ep, l->src, len, desc, l->to, rma.addr, l->key, l);
	case OP_WRITEDATA:
		return fi_writedata(l->a->ep, l->src, len, desc, 9, l->to, rma.addr, l->key, l);
	case OP_WRITEV:
		return fi_writev(l->a->ep, &iov, &desc, 1, l->to, rma.addr, l->key, l);
	case OP_READV:
		return fi_readv(l->a->ep, &iov, desc ? &desc : NULL, 1, l->to, rma.addr, l->key, l);
	default:
		return fi_writemsg(l->a->ep, &msg, FI_COMPLETION);
	}
}

static ssize_t msg_by(enum op op, struct conf_link *l, size_t len, void *desc)
{
	struct iovec iov = { l->src, len };

	switch (op) {
	case OP_SEND:
		return fi_send(l->a->ep, l->src, len, desc, l->to, l);
	case OP_SENDV:
		return fi_sendv(l->a->ep, &iov, desc ? &desc : NULL, 1, l->to, l);
	case OP_SENDDATA:
		return fi_senddata(l->a->ep, l->src, len, desc, 9, l->to, l);
	case OP_RECV:
		return fi_recv(l->a->ep, l->src, len, desc, FI_ADDR_UNSPEC, l);
	default:
		return fi_recvv(l->a->ep, &iov, &desc, 1, FI_ADDR_UNSPEC, l);
	}
}

static ssize_t atomic_by(enum op op, struct conf_link *l, size_t len, void *desc, void *good)
{
	size_t n = len / 8 < l->count ? len / 8 : l->count;

	if (op == OP_ATOMIC)
		return fi_atomic(l->a->ep, l->src, n, desc, l->to, l->remote->addr, l->key,
				 FI_UINT64, FI_SUM, l);
	if (op == OP_FETCH)
		return fi_fetch_atomic(l->a->ep, l->src, n, good, l->src + 32, desc, l->to,
				       l->remote->addr, l->key, FI_UINT64, FI_SUM, l);
	return fi_compare_atomic(l->a->ep, l->src, n, good, l->src + 16, desc, l->src + 32, good,
				 l->to, l->remote->addr, l->key, FI_UINT64, FI_CSWAP, l);
}

static ssize_t local_by(enum op op, struct conf_link *l, size_t len, void *desc)
{
	if (op < OP_SEND)
		return rma_by(op, l, len, desc);
	if (op < OP_ATOMIC)
		return msg_by(op, l, len, desc);
	return atomic_by(op, l, len, desc, l->local->desc);
}

/* Is the operation offered?  Sets the elements that atomics take. */
static bool has(struct conf_link *l, enum op op)
{
	static const uint64_t flags[] = { 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC };

	if (op < OP_ATOMIC)
		return true;
	l->count = conf_atomic_count(l->a, FI_UINT64, op == OP_COMPARE ? FI_CSWAP : FI_SUM,
				     flags[op - OP_ATOMIC]);
	return l->count > 0;
}

static bool is_recv(enum op op)
{
	return op == OP_RECV || op == OP_RECVV;
}

static void mode_03_null_desc_is_refused(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	for (int op = 0; op < OPS; op++) {
		if (!has(&l, (enum op)op))
			continue;
		assert_refused_with(local_by((enum op)op, &l, 16, NULL), -FI_EINVAL, "desc");
		conf_quiet(l.a->tx);
		assert_ok(local_by((enum op)op, &l, 16, l.local->desc));
		if (!is_recv((enum op)op))
			conf_done(l.a->tx, &l);
	}
	/* nothing is read or written then */
	assert_ok(fi_write(l.a->ep, NULL, 0, NULL, l.to, l.remote->addr, l.key, c));
	conf_done(l.a->tx, c);
	/* what is injected is copied by the processor */
	assert_ok(fi_inject_write(l.a->ep, l.src, 16, l.to, l.remote->addr, l.key));
	assert_ok(fi_inject(l.a->ep, l.src, 16, l.to));
	if (has(&l, OP_ATOMIC))
		assert_ok(fi_inject_atomic(l.a->ep, l.src, 1, l.to, l.remote->addr, l.key,
					   FI_UINT64, FI_SUM));
}

static void mode_03_null_desc_is_fine(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	for (int op = 0; op < OPS; op++) {
		void *desc[] = { NULL, l.local->desc };

		if (!has(&l, (enum op)op))
			continue;

		for (size_t i = 0; i < count_of(desc); i++) {
			assert_ok(local_by((enum op)op, &l, 16, desc[i]));
			if (!is_recv((enum op)op))
				conf_done(l.a->tx, &l);
		}
		/* neither valid nor NULL */
		assert_refused(local_by((enum op)op, &l, 16, &l), -FI_EINVAL);
	}
}

/* ---- MODE-04 ---- */

static void mode_04_raw_keys(struct conf *c)
{
	struct conf_link l;
	size_t size = 0;
	uint64_t base;

	conf_link(c, NULL, 64, &l);
	assert_true(fi_mr_key(l.remote->mr) == FI_KEY_NOTAVAIL);
	assert_true(l.b->info->domain_attr->mr_key_size > 8);
	assert_refused(fi_mr_raw_attr(l.remote->mr, &base, NULL, &size, 0), -FI_ETOOSMALL);
	assert_true(size > 8 && size <= l.b->info->domain_attr->mr_key_size);
	conf_works(&l);
	/* a key that is not a mapped one */
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr, 1, c));
	conf_failed(l.a->tx, c, FI_EKEYREJECTED, HMREG_KEY_NOT_MAPPED);
}

static void mode_04_plain_keys(struct conf *c)
{
	struct conf_link l;
	uint8_t raw[8];
	size_t size = sizeof(raw);
	uint64_t key = 0;

	conf_link(c, NULL, 64, &l);
	assert_true(fi_mr_key(l.remote->mr) != FI_KEY_NOTAVAIL);
	/* the raw key of such a region is its key */
	assert_ok(fi_mr_raw_attr(l.remote->mr, NULL, raw, &size, 0));
	assert_int_equal(size, 8);
	for (size_t i = 8; i-- > 0;)
		key = key << 8 | raw[i];
	assert_int_equal(key, fi_mr_key(l.remote->mr));
}

/* ---- MODE-05 ---- */

static void mode_05_addressing(struct conf *c)
{
	bool virtual = c->mode & FI_MR_VIRT_ADDR;
	struct conf_link l;
	uint64_t right, wrong;

	conf_link(c, NULL, 4096, &l);
	for (size_t off = 0; off < 4096; off += 511) {
		right = virtual ? (uintptr_t)(l.dst + off) : off;
		wrong = virtual ? off : (uintptr_t)(l.dst + off);
		memset(l.dst, 0, 4096);
		assert_ok(fi_write(l.a->ep, l.src, 1, l.local->desc, l.to, right, l.key, c));
		conf_done(l.a->tx, c);
		for (size_t i = 0; i < 4096; i++)
			assert_int_equal(l.dst[i], i == off ? l.src[0] : 0);
		assert_ok(fi_write(l.a->ep, l.src, 1, l.local->desc, l.to, wrong, l.key, c));
		conf_failed(l.a->tx, c, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	}
}

/* ---- MODE-07 ---- */

static void mode_07_requested_key_is_ignored(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 64), raw[3][64];
	static const uint64_t asked[] = { 7, 7, FI_KEY_NOTAVAIL };
	struct fid_mr *mr[3];
	size_t size;

	for (size_t i = 0; i < 3; i++) {
		assert_ok(fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, asked[i], 0, &mr[i], NULL));
		size = sizeof(raw[i]);
		assert_ok(fi_mr_raw_attr(mr[i], NULL, raw[i], &size, 0));
	}
	assert_memory_not_equal(raw[0], raw[1], size);
	assert_memory_not_equal(raw[0], raw[2], size);
	assert_memory_not_equal(raw[1], raw[2], size);
	for (size_t i = 0; i < 3; i++)
		assert_ok(fi_close(&mr[i]->fid));
}

static void mode_07_key_in_use_and_out_of_range(struct conf *c)
{
	struct conf_end *a, *b;
	uint8_t *buf = conf_alloc(c, 64);
	struct fid_mr *mr[2], *none = NULL;

	conf_pair(c, NULL, &a, &b);
	for (uint64_t key = 0; key < 3; key++) {
		assert_ok(fi_mr_reg(a->domain, buf, 64, CONF_ALL, 0, key, 0, &mr[0], NULL));
		assert_refused(fi_mr_reg(a->domain, buf, 64, CONF_ALL, 0, key, 0, &none, NULL),
			       -FI_ENOKEY);
		assert_null(none);
		conf_check_stats(a, 1, 64, 0);
		/* keys are each domain's own */
		assert_ok(fi_mr_reg(b->domain, buf, 64, CONF_ALL, 0, key, 0, &mr[1], NULL));
		assert_ok(fi_close(&mr[1]->fid));
		/* and free again once the region is closed */
		assert_ok(fi_close(&mr[0]->fid));
		assert_ok(fi_mr_reg(a->domain, buf, 64, CONF_ALL, 0, key, 0, &mr[0], NULL));
		assert_ok(fi_close(&mr[0]->fid));
	}
	assert_refused(fi_mr_reg(a->domain, buf, 64, CONF_ALL, 0, FI_KEY_NOTAVAIL, 0, &none, NULL),
		       -FI_EKEYREJECTED);
	for (size_t bits = 8 * a->info->domain_attr->mr_key_size; bits < 64; bits++)
		assert_refused(fi_mr_reg(a->domain, buf, 64, CONF_ALL, 0, UINT64_C(1) << bits, 0,
					 &none, NULL),
			       -FI_EKEYREJECTED);
	assert_null(none);
	conf_check_stats(a, 0, 0, 0);
}

#define KEYS 2000

static void mode_07_many_keys(struct conf *c)
{
	static struct fid_mr *mr[KEYS];
	uint8_t *buf = conf_alloc(c, KEYS);
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	for (uint64_t i = 0; i < KEYS; i++)
		assert_ok(fi_mr_reg(l.b->domain, buf + i, 1, CONF_ALL, 0,
				    (i + 7) * UINT64_C(0x9e3779b97f4a7c15), 0, &mr[i], NULL));
	for (uint64_t i = 0; i < KEYS; i++) {
		l.src[0] = (uint8_t)(i % 251 + 1);
		assert_ok(fi_write(l.a->ep, l.src, 1, l.local->desc, l.to, 0,
				   (i + 7) * UINT64_C(0x9e3779b97f4a7c15), c));
		conf_done(l.a->tx, c);
	}
	for (size_t i = 0; i < KEYS; i++) {
		assert_int_equal(buf[i], i % 251 + 1);
		assert_ok(fi_close(&mr[i]->fid));
	}
}

/* ---- MODE-11 ---- */

/*
 * The bit is about transfers that a device starts, whether FI_XPU is asked for or not: it is cleared but where a port
 * needs or keeps it, and transfers of the host go by FI_MR_LOCAL as ever.
 */
static void mode_11_not_about_the_host(struct conf *c)
{
	bool needed = c->profile->needed & FI_MR_XPU_DESC, kept = c->profile->kept & FI_MR_XPU_DESC;
	int mode, without;
	struct conf_link l;

	assert_ok(conf_agree(c, 0, CONF_MR_MODES, &mode));
	assert_int_equal(!!(mode & FI_MR_XPU_DESC), needed || kept);
	if (needed) {
		assert_answer(conf_agree(c, 0, CONF_MR_MODES & ~FI_MR_XPU_DESC, &without),
			      -FI_ENODATA);
	} else {
		assert_ok(conf_agree(c, 0, CONF_MR_MODES & ~FI_MR_XPU_DESC, &without));
		assert_int_equal(without, mode & ~FI_MR_XPU_DESC);
	}
	if (c->profile->no_endpoints) {
		assert_answer(conf_agree(c, FI_XPU, CONF_MR_MODES, &without), -FI_ENODATA);
	} else {
		assert_ok(conf_agree(c, FI_XPU, CONF_MR_MODES, &without));
		assert_int_equal(without, mode);
	}
	conf_link(c, &(struct conf_opts){ .mode = CONF_MR_MODES }, 64, &l);
	conf_works(&l);
	if (l.a->mode & FI_MR_LOCAL)
		return;
	l.local->desc = NULL;
	conf_works(&l);
}

static const struct conf_case cases[] = {
	CONF_WITHOUT(mode_02_default_model, CONF_MR_MODES),
	CONF_WITHOUT(mode_02_any_range_registers, CONF_MR_MODES),
	CONF_NEED(mode_03_null_desc_is_refused, FI_MR_LOCAL),
	CONF_WITHOUT(mode_03_null_desc_is_fine, FI_MR_LOCAL),
	CONF_NEED(mode_04_raw_keys, FI_MR_RAW),
	CONF_WITHOUT(mode_04_plain_keys, FI_MR_RAW),
	CONF(mode_05_addressing),
	CONF_NEED(mode_07_requested_key_is_ignored, FI_MR_PROV_KEY),
	CONF_WITHOUT(mode_07_key_in_use_and_out_of_range, FI_MR_PROV_KEY),
	CONF_WITHOUT(mode_07_many_keys, FI_MR_PROV_KEY | FI_MR_RAW),
	CONF(mode_11_not_about_the_host),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
