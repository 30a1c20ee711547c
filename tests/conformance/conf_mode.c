/* SPDX-License-Identifier: BSD-2-Clause */
/* What each mr_mode bit changes for an application: MODE-02 to MODE-07. */
#include <sys/mman.h>
#include <unistd.h>

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
	struct conf_end *end = conf_open(c, NULL);

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

/* ---- MODE-06 ---- */

#define PAGES 64

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static uint8_t *map_pages(size_t count)
{
	void *mem = mmap(NULL, count * page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	assert_true(mem != MAP_FAILED);
	return mem;
}

/* Which pages of the range are missing when it is registered. */
static const struct hole {
	size_t range_at, range; /* in pages, of PAGES that are mapped */
	size_t at, count;
} holes[] = {
	{ 0, 1, 0, 1 },	  { 0, 2, 1, 1 },     { 0, 2, 0, 1 },	 { 0, 16, 8, 1 },
	{ 0, 64, 0, 64 }, { 0, 64, 63, 1 },   { 0, 64, 0, 1 },	 { 0, 64, 31, 2 },
	{ 10, 20, 9, 2 }, { 10, 20, 29, 10 }, { 10, 20, 20, 1 },
};

/* The range begins and ends inside its pages. */
static struct iovec range_of(uint8_t *mem, const struct hole *hole)
{
	return (struct iovec){ mem + hole->range_at * page() + 100, hole->range * page() - 200 };
}

static void mode_06_unmapped_range_efault(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	uint8_t *good = conf_alloc(c, 64);

	for (size_t i = 0; i < count_of(holes); i++) {
		uint8_t *mem = map_pages(PAGES);
		struct iovec iov[2] = { range_of(mem, &holes[i]), { good, 64 } };
		struct fid_mr *mr = NULL;

		assert_int_equal(munmap(mem + holes[i].at * page(), holes[i].count * page()), 0);
		assert_refused_with(fi_mr_reg(end->domain, iov[0].iov_base, iov[0].iov_len,
					      CONF_ALL, 0, 1, 0, &mr, NULL),
				    -FI_EFAULT, "mapped");
		if (end->info->domain_attr->mr_iov_limit > 1) {
			assert_refused(fi_mr_regv(end->domain, iov, 2, CONF_ALL, 0, 1, 0, &mr,
						  NULL),
				       -FI_EFAULT);
			iov[1] = iov[0];
			iov[0] = (struct iovec){ good, 64 };
			assert_refused(fi_mr_regv(end->domain, iov, 2, CONF_ALL, 0, 1, 0, &mr,
						  NULL),
				       -FI_EFAULT);
		}
		assert_null(mr);
		conf_check_stats(end, 0, 0, 0);
		munmap(mem, PAGES * page());
	}
	assert_refused(fi_mr_reg(end->domain, NULL, 4096, CONF_ALL, 0, 1, 0,
				 &(struct fid_mr *){ 0 }, NULL),
		       -FI_EFAULT);
}

static void mode_06_unmapped_range_registers(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);

	for (size_t i = 0; i < count_of(holes); i++) {
		uint8_t *mem = map_pages(PAGES);
		struct iovec iov = range_of(mem, &holes[i]);

		munmap(mem, PAGES * page());
		conf_regv(end, &iov, 1, CONF_ALL, 0, NULL);
	}
}

/* Mapped pages at the edges of unmapped ones register, and so does memory that nobody has touched. */
static void mode_06_mapped_ranges_register(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	uint8_t *mem = map_pages(PAGES);

	munmap(mem, page());
	munmap(mem + (PAGES - 1) * page(), page());
	conf_reg(end, mem + page(), (PAGES - 2) * page(), CONF_ALL);
	conf_reg(end, mem + page(), 1, CONF_ALL);
	conf_reg(end, mem + (PAGES - 1) * page() - 1, 1, CONF_ALL);
	conf_reg(end, mem + page() + 5, 20 * page(), CONF_ALL);
	mprotect(mem + page(), page(), PROT_READ);
	conf_reg(end, mem + page(), page(), FI_REMOTE_READ);
	munmap(mem + page(), (PAGES - 2) * page());
}

enum {
	FAULT_OPS = 6
};

/* Operations whose remote side faults. */
static ssize_t faulting(unsigned int i, struct conf_link *l)
{
	switch (i) {
	case 0:
		return fi_write(l->a->ep, l->src, 64, l->local->desc, l->to, l->remote->addr,
				l->key, l);
	case 1:
		return fi_read(l->a->ep, l->src, 64, l->local->desc, l->to, l->remote->addr, l->key,
			       l);
	case 2:
		return fi_atomic(l->a->ep, l->src, 1, l->local->desc, l->to, l->remote->addr,
				 l->key, FI_UINT64, FI_SUM, l);
	case 3:
		return fi_fetch_atomic(l->a->ep, l->src, 1, l->local->desc, l->src + 8,
				       l->local->desc, l->to, l->remote->addr, l->key, FI_UINT64,
				       FI_SUM, l);
	case 4: /* larger elements than the processor knows are updated under locks */
		return fi_atomic(l->a->ep, l->src, 1, l->local->desc, l->to, l->remote->addr,
				 l->key, FI_DOUBLE_COMPLEX, FI_SUM, l);
	default:
		return fi_compare_atomic(l->a->ep, l->src, 1, l->local->desc, l->src + 16,
					 l->local->desc, l->src + 32, l->local->desc, l->to,
					 l->remote->addr, l->key, FI_DOUBLE_COMPLEX, FI_CSWAP, l);
	}
}

static bool can_fault(unsigned int i, const struct conf_link *l)
{
	switch (i) {
	case 0:
	case 1:
		return true;
	case 2:
		return conf_atomic_count(l->a, FI_UINT64, FI_SUM, 0) > 0;
	case 3:
		return conf_atomic_count(l->a, FI_UINT64, FI_SUM, FI_FETCH_ATOMIC) > 0;
	case 4:
		return conf_atomic_count(l->a, FI_DOUBLE_COMPLEX, FI_SUM, 0) > 0;
	default:
		return conf_atomic_count(l->a, FI_DOUBLE_COMPLEX, FI_CSWAP, FI_COMPARE_ATOMIC) > 0;
	}
}

/* Cases about memory that goes away under a region. */
static void need_faults(struct conf *c)
{
	if (conf_valgrind())
		conf_skip(c, "valgrind reports the faults that are meant to happen");
	if (conf_holds_pages(c))
		conf_skip(c, "a region holds its pages (FI_MR_ALLOCATED), so that nothing faults");
}

/* A transfer to memory that is gone is an error completion, and everything goes on. */
static void mode_06_fault_is_an_error_completion(struct conf *c)
{
	struct conf_region *plain;
	struct conf_link l;
	uint8_t *mem, *good;

	need_faults(c);
	mem = map_pages(2);
	conf_link(c, NULL, 256, &l);
	good = l.dst;
	plain = l.remote;
	l.remote = conf_reg(l.b, mem, 2 * page(), CONF_ALL);
	munmap(mem, 2 * page());
	for (int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < FAULT_OPS; i++) {
			if (!can_fault(i, &l))
				continue;
			l.key = conf_key(l.a, l.remote);
			assert_ok(faulting(i, &l));
			conf_failed(l.a->tx, &l, FI_EFAULT, HMREG_FAULT);
			conf_quiet(l.b->rx);
		}
		/* a region beside it is none the worse */
		struct conf_link beside = l;

		beside.remote = plain;
		beside.dst = good;
		beside.key = conf_key(l.a, plain);
		conf_works(&beside);
		if (!can_fault(4, &l))
			continue;
		assert_ok(fi_atomic(l.a->ep, l.src, 2, l.local->desc, l.to, plain->addr, beside.key,
				    FI_DOUBLE_COMPLEX, FI_SUM, c));
		conf_done(l.a->tx, c);
	}
}

/* The initiator's own buffer is gone. */
static void mode_06_local_fault_is_an_error_completion(struct conf *c)
{
	struct conf_region *local;
	struct conf_link l;
	uint8_t *mem;

	need_faults(c);
	mem = map_pages(1);
	conf_link(c, NULL, 256, &l);
	local = conf_reg(l.a, mem, page(), CONF_LOCAL);
	munmap(mem, page());
	assert_ok(fi_write(l.a->ep, mem, 64, local->desc, l.to, l.remote->addr, l.key, c));
	conf_failed(l.a->tx, c, FI_EFAULT, HMREG_FAULT);
	assert_ok(fi_read(l.a->ep, mem, 64, local->desc, l.to, l.remote->addr, l.key, c));
	conf_failed(l.a->tx, c, FI_EFAULT, HMREG_FAULT);
	if (can_fault(2, &l)) {
		assert_ok(fi_atomic(l.a->ep, mem, 1, local->desc, l.to, l.remote->addr, l.key,
				    FI_UINT64, FI_SUM, c));
		conf_failed(l.a->tx, c, FI_EFAULT, HMREG_FAULT);
	}
	assert_ok(fi_send(l.a->ep, mem, 64, local->desc, l.to, c));
	conf_failed(l.a->tx, c, FI_EFAULT, HMREG_FAULT);
	/* a receive buffer that is gone: both sides hear of it, where the sender waits for that */
	assert_ok(fi_recv(l.a->ep, mem, 64, local->desc, FI_ADDR_UNSPEC, c));
	assert_ok(fi_send(l.b->ep, l.dst, 64, l.remote->desc, conf_addr(l.b, l.a), c));
	if (c->profile->at_once)
		conf_failed(l.b->tx, c, FI_EFAULT, HMREG_FAULT);
	else
		conf_done(l.b->tx, c);
	conf_failed(l.a->rx, c, FI_EFAULT, HMREG_FAULT);
	conf_works(&l);
}

/* Memory that may be read only: reads succeed, writes are errors. */
static void mode_06_read_only_target(struct conf *c)
{
	struct conf_link l;
	uint8_t *mem;

	need_faults(c);
	mem = map_pages(1);
	conf_link(c, NULL, 256, &l);
	memset(mem, 0x42, page());
	l.remote = conf_reg(l.b, mem, page(), CONF_ALL);
	l.key = conf_key(l.a, l.remote);
	mprotect(mem, page(), PROT_READ);
	assert_ok(faulting(0, &l));
	conf_failed(l.a->tx, &l, FI_EFAULT, HMREG_FAULT);
	conf_get(&l, 0, 256);
	for (size_t i = 0; i < 256; i++)
		assert_int_equal(l.src[i], 0x42);
	assert_int_equal(mem[0], 0x42);
	munmap(mem, page());
}

/* ---- MODE-07 ---- */

static void mode_07_requested_key_is_ignored(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
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

static const struct conf_case cases[] = {
	CONF_WITHOUT(mode_02_default_model, CONF_MR_MODES),
	CONF_WITHOUT(mode_02_any_range_registers, CONF_MR_MODES),
	CONF_NEED(mode_03_null_desc_is_refused, FI_MR_LOCAL),
	CONF_WITHOUT(mode_03_null_desc_is_fine, FI_MR_LOCAL),
	CONF_NEED(mode_04_raw_keys, FI_MR_RAW),
	CONF_WITHOUT(mode_04_plain_keys, FI_MR_RAW),
	CONF(mode_05_addressing),
	CONF_NEED(mode_06_unmapped_range_efault, FI_MR_ALLOCATED),
	CONF_WITHOUT(mode_06_unmapped_range_registers, FI_MR_ALLOCATED),
	CONF(mode_06_mapped_ranges_register),
	CONF(mode_06_fault_is_an_error_completion),
	CONF(mode_06_local_fault_is_an_error_completion),
	CONF(mode_06_read_only_target),
	CONF_NEED(mode_07_requested_key_is_ignored, FI_MR_PROV_KEY),
	CONF_WITHOUT(mode_07_key_in_use_and_out_of_range, FI_MR_PROV_KEY),
	CONF_WITHOUT(mode_07_many_keys, FI_MR_PROV_KEY),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
