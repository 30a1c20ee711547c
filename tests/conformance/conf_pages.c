/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages under a region, there or not, when it is registered and when it is used: MODE-06. */
#include "tests/conformance/pages.h"

#define PAGES 64

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
	return (struct iovec){ mem + hole->range_at * conf_page() + 100,
			       hole->range * conf_page() - 200 };
}

static void mode_06_unmapped_range_efault(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *good = conf_alloc(c, 64);

	for (size_t i = 0; i < count_of(holes); i++) {
		uint8_t *mem = conf_map_pages(PAGES, -1);
		struct iovec iov[2] = { range_of(mem, &holes[i]), { good, 64 } };
		struct fid_mr *mr = NULL;

		assert_int_equal(
			munmap(mem + holes[i].at * conf_page(), holes[i].count * conf_page()), 0);
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
		munmap(mem, PAGES * conf_page());
	}
	assert_refused(fi_mr_reg(end->domain, NULL, 4096, CONF_ALL, 0, 1, 0,
				 &(struct fid_mr *){ 0 }, NULL),
		       -FI_EFAULT);
}

static void mode_06_unmapped_range_registers(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);

	for (size_t i = 0; i < count_of(holes); i++) {
		uint8_t *mem = conf_map_pages(PAGES, -1);
		struct iovec iov = range_of(mem, &holes[i]);

		munmap(mem, PAGES * conf_page());
		conf_reg_raw(end, iov.iov_base, iov.iov_len, CONF_ALL);
	}
}

/* Mapped pages at the edges of unmapped ones register, and so does memory that nobody has touched. */
static void mode_06_mapped_ranges_register(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *mem = conf_map_pages(PAGES, -1);

	munmap(mem, conf_page());
	munmap(mem + (PAGES - 1) * conf_page(), conf_page());
	conf_reg(end, mem + conf_page(), (PAGES - 2) * conf_page(), CONF_ALL);
	conf_reg(end, mem + conf_page(), 1, CONF_ALL);
	conf_reg(end, mem + (PAGES - 1) * conf_page() - 1, 1, CONF_ALL);
	conf_reg(end, mem + conf_page() + 5, 20 * conf_page(), CONF_ALL);
	mprotect(mem + conf_page(), conf_page(), PROT_READ);
	conf_reg(end, mem + conf_page(), conf_page(), FI_REMOTE_READ);
	munmap(mem + conf_page(), (PAGES - 2) * conf_page());
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
	mem = conf_map_pages(2, -1);
	conf_link(c, NULL, 256, &l);
	good = l.dst;
	plain = l.remote;
	l.remote = conf_reg(l.b, mem, 2 * conf_page(), CONF_ALL);
	munmap(mem, 2 * conf_page());
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
	mem = conf_map_pages(1, -1);
	conf_link(c, NULL, 256, &l);
	local = conf_reg(l.a, mem, conf_page(), CONF_LOCAL);
	munmap(mem, conf_page());
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
	mem = conf_map_pages(1, -1);
	conf_link(c, NULL, 256, &l);
	memset(mem, 0x42, conf_page());
	l.remote = conf_reg(l.b, mem, conf_page(), CONF_ALL);
	l.key = conf_key(l.a, l.remote);
	mprotect(mem, conf_page(), PROT_READ);
	assert_ok(faulting(0, &l));
	conf_failed(l.a->tx, &l, FI_EFAULT, HMREG_FAULT);
	conf_get(&l, 0, 256);
	for (size_t i = 0; i < 256; i++)
		assert_int_equal(l.src[i], 0x42);
	assert_int_equal(mem[0], 0x42);
	munmap(mem, conf_page());
}

static const struct conf_case cases[] = {
	CONF_NEED(mode_06_unmapped_range_efault, FI_MR_ALLOCATED),
	CONF_WITHOUT(mode_06_unmapped_range_registers, FI_MR_ALLOCATED),
	CONF(mode_06_mapped_ranges_register),
	CONF(mode_06_fault_is_an_error_completion),
	CONF(mode_06_local_fault_is_an_error_completion),
	CONF(mode_06_read_only_target),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
