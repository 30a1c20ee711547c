/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs: what they cover, and what they grant (SUB-01).  conf_sub_memory.c is about what they take from their
 * base, conf_sub_life.c about how long both last.
 */
#include <sys/mman.h>

#include "tests/conformance/sub.h"

#define LEN 4096

/* ---- SUB-01: the range ---- */

static void sub_01_edges_of_the_range(struct conf *c)
{
	static const size_t part[][2] = { { 0, LEN }, { 0, 1 },		{ LEN - 1, 1 },
					  { 1, 1 },   { LEN / 2, 512 }, { 7, LEN - 14 } };
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	for (size_t i = 0; i < count_of(part); i++) {
		uint8_t *mem = l.dst + part[i][0];
		size_t len = part[i][1];
		struct conf_region *sub = sub_of(l.remote, mem, len, CONF_ALL);
		uint8_t before[LEN];

		sub_works(&l, sub, mem, len);
		sub_put(&l, sub, mem, 0, 1);
		sub_put(&l, sub, mem, len - 1, 1);
		memcpy(before, l.dst, LEN);
		sub_fails(&l, sub, (int64_t)len, 1, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		sub_fails(&l, sub, -1, 1, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		sub_fails(&l, sub, -1, 2, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		sub_fails(&l, sub, (int64_t)len - 1, 2, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		if (len < LEN)
			sub_fails(&l, sub, 0, len + 1, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		assert_memory_equal(l.dst, before, LEN);
		conf_drop_region(sub);
	}
	conf_works(&l);
}

static void sub_01_outside_of_the_base(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 3 * LEN), *at = buf + LEN;
	struct conf_region *base = conf_reg(end, at, LEN, CONF_ALL), *sub;
	const struct iovec bad[] = {
		{ at - 1, 1 },
		{ at - 1, 2 },
		{ at - 1, LEN + 2 },
		{ at + LEN, 1 },
		{ at + LEN - 1, 2 },
		{ at, LEN + 1 },
		{ buf, 3 * LEN },
		{ buf, LEN },
		{ at + 1, LEN },
		{ at, 0 },
		{ at + LEN, 0 },
		{ at, SIZE_MAX },
		{ at + 1, SIZE_MAX },
		{ NULL, 1 },
		{ NULL, SIZE_MAX },
		{ (void *)UINTPTR_MAX, 1 },
		{ (void *)(UINTPTR_MAX - (uintptr_t)at + 1), LEN },
	};

	for (size_t i = 0; i < count_of(bad); i++)
		sub_refused(base, bad[i], CONF_ALL, 0, -FI_EINVAL);
	/* a part's part: what is in the base but not in the part */
	sub = sub_of(base, at + 64, 128, CONF_ALL);
	sub_refused(sub, (struct iovec){ at + 63, 1 }, CONF_ALL, 0, -FI_EINVAL);
	sub_refused(sub, (struct iovec){ at + 192, 1 }, CONF_ALL, 0, -FI_EINVAL);
	sub_refused(sub, (struct iovec){ at, LEN }, CONF_ALL, 0, -FI_EINVAL);
	conf_drop_region(sub);
	conf_drop_region(base);
	conf_check_stats(end, 0, 0, 0);
}

/* Whatever is written through a part, the rest of the buffer stays. */
static void sub_01_touches_its_range_alone(struct conf *c)
{
	uint8_t want[LEN];
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	conf_fill(c, l.dst, LEN);
	memcpy(want, l.dst, LEN);
	for (unsigned int round = 0; round < 60; round++) {
		size_t off = conf_below(c, LEN), len = 1 + conf_below(c, LEN - off);
		size_t from = conf_below(c, len), n = 1 + conf_below(c, len - from);
		struct conf_region *sub = sub_of(l.remote, l.dst + off, len, CONF_ALL);

		sub_put(&l, sub, l.dst + off, from, n);
		memcpy(want + off + from, l.src, n);
		assert_memory_equal(l.dst, want, LEN);
		sub_get(&l, sub, l.dst + off, from, n);
		conf_drop_region(sub);
	}
}

static void sub_01_of_several_segments(struct conf *c)
{
	struct conf_region *base, *sub, *both;
	struct iovec seg[3], two[2];
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	if (l.b->info->domain_attr->mr_iov_limit < 3)
		conf_skip(c, "a region is one buffer");
	/* gaps between them, and not in the order of their addresses */
	seg[0] = (struct iovec){ l.dst + 1024, 512 };
	seg[1] = (struct iovec){ l.dst, 512 };
	seg[2] = (struct iovec){ l.dst + 2048, 1024 };
	base = conf_regv(l.b, seg, 3, CONF_ALL, 0, NULL);
	for (size_t i = 0; i < 3; i++) {
		uint8_t *mem = seg[i].iov_base;

		sub = sub_of(base, mem + 8, seg[i].iov_len - 16, CONF_ALL);
		sub_works(&l, sub, mem + 8, seg[i].iov_len - 16);
		sub_fails(&l, sub, (int64_t)seg[i].iov_len - 16, 1, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		conf_drop_region(sub);
		sub_refused(base, (struct iovec){ mem + 8, seg[i].iov_len }, CONF_ALL, 0,
			    -FI_EINVAL);
	}
	sub_refused(base, (struct iovec){ l.dst + 512, 512 }, CONF_ALL, 0, -FI_EINVAL);
	sub_refused(base, (struct iovec){ l.dst, 2048 }, CONF_ALL, 0, -FI_EINVAL);
	/* of two segments, the other way round */
	two[0] = (struct iovec){ l.dst + 2100, 100 };
	two[1] = (struct iovec){ l.dst + 100, 50 };
	both = conf_regattr(
		l.b,
		&(struct fi_mr_attr){
			.mr_iov = two, .iov_count = 2, .access = CONF_ALL, .base_mr = base->mr },
		0);
	conf_fill(c, l.src, 150);
	assert_posted(fi_write(l.a->ep, l.src, 150, l.local->desc, l.to, both->addr,
			       conf_key(l.a, both), c));
	conf_done(l.a->tx, c);
	assert_memory_equal(l.dst + 2100, l.src, 100);
	assert_memory_equal(l.dst + 100, l.src + 100, 50);
	/* one of its entries, as base of another */
	sub = sub_of(both, l.dst + 110, 20, CONF_ALL);
	sub_works(&l, sub, l.dst + 110, 20);
	conf_drop_region(sub);
	conf_drop_region(both);
	two[1].iov_len = 500; /* beyond its segment */
	assert_refused(fi_mr_regattr(l.b->domain,
				     &(struct fi_mr_attr){ .mr_iov = two,
							   .iov_count = 2,
							   .requested_key = 77,
							   .base_mr = base->mr },
				     0, &(struct fid_mr *){ NULL }),
		       -FI_EINVAL);
	conf_drop_region(base);
}

/* ---- SUB-01: keys and rights ---- */

static void sub_01_key_of_its_own(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, LEN);
	struct conf_region *base = conf_reg(end, buf, LEN, CONF_ALL);
	struct conf_region *one = sub_of(base, buf, LEN, CONF_ALL);
	struct conf_region *two = sub_of(base, buf, LEN, CONF_ALL);
	struct iovec iov = { buf, 8 };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .base_mr = base->mr
	};
	struct fid_mr *mr;

	assert_true(one->desc && two->desc && one->desc != two->desc && one->desc != base->desc);
	if (!(c->mode & FI_MR_RAW)) {
		assert_true(fi_mr_key(one->mr) != fi_mr_key(two->mr));
		assert_true(fi_mr_key(one->mr) != fi_mr_key(base->mr));
	}
	conf_check_stats(end, 3, 3 * LEN, 0);
	if (c->mode & (FI_MR_PROV_KEY | FI_MR_RAW))
		return;
	/* a key of the program's choice, and only once */
	attr.requested_key = fi_mr_key(base->mr);
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_ENOKEY);
	attr.requested_key = FI_KEY_NOTAVAIL;
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EKEYREJECTED);
	attr.requested_key = 0xabcdef;
	assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
	assert_int_equal(fi_mr_key(mr), 0xabcdef);
	assert_ok(fi_close(&mr->fid));
	/* refusals have held nothing */
	conf_drop_region(two);
	conf_drop_region(one);
	conf_drop_region(base);
}

/* Rights are those of the key that is used: of the base, of the sub-MR, both ways round. */
static void sub_01_remote_rights(struct conf *c)
{
	static const uint64_t rights[] = { 0, FI_REMOTE_READ, FI_REMOTE_WRITE, CONF_REMOTE };
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	for (size_t i = 0; i < count_of(rights) * count_of(rights); i++) {
		uint64_t of_base = rights[i / count_of(rights)];
		uint64_t of_sub = rights[i % count_of(rights)];
		struct conf_region *region[2];

		region[0] = conf_reg(l.b, l.dst, 64, CONF_LOCAL | of_base);
		region[1] = sub_of(region[0], l.dst + 8, 48, CONF_LOCAL | of_sub);
		for (int k = 0; k < 2; k++) {
			uint64_t has = k ? of_sub : of_base, key = conf_key(l.a, region[k]);

			assert_posted(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to,
					       region[k]->addr, key, c));
			if (has & FI_REMOTE_WRITE)
				conf_done(l.a->tx, c);
			else
				conf_failed(l.a->tx, c, FI_EACCES, HMREG_NO_RIGHT);
			assert_posted(fi_read(l.a->ep, l.src, 8, l.local->desc, l.to,
					      region[k]->addr, key, c));
			if (has & FI_REMOTE_READ)
				conf_done(l.a->tx, c);
			else
				conf_failed(l.a->tx, c, FI_EACCES, HMREG_NO_RIGHT);
		}
		conf_drop_region(region[1]);
		conf_drop_region(region[0]);
	}
}

/* A base for remote reads alone, or for nothing: what its memory allows is granted all the same. */
static void sub_01_rights_that_the_base_lacks(struct conf *c)
{
	static const uint64_t lacking[] = { 0, FI_REMOTE_READ, FI_SEND, FI_WRITE | FI_SEND };
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	for (size_t i = 0; i < count_of(lacking); i++) {
		struct conf_region *base = conf_reg(l.b, l.dst, 64, lacking[i]);
		struct conf_region *sub, *below, *last;

		sub = sub_of(base, l.dst, 64, CONF_ALL);
		sub_works(&l, sub, l.dst, 64);
		/* narrower, and wide again */
		below = sub_of(sub, l.dst, 64, lacking[i]);
		conf_drop_region(below);
		below = sub_of(sub, l.dst + 1, 62, FI_REMOTE_READ);
		sub_get(&l, below, l.dst + 1, 0, 62);
		assert_posted(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, below->addr,
				       conf_key(l.a, below), c));
		conf_failed(l.a->tx, c, FI_EACCES, HMREG_NO_RIGHT);
		last = sub_of(below, l.dst + 2, 60, CONF_ALL);
		sub_works(&l, last, l.dst + 2, 60);
		conf_drop_region(last);
		conf_drop_region(below);
		conf_drop_region(sub);
		conf_drop_region(base);
	}
}

static uint8_t *read_only_page(void)
{
	uint8_t *page = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	memset(page, 0x3c, LEN);
	assert_int_equal(mprotect(page, LEN, PROT_READ), 0);
	return page;
}

/* Rights to write into memory that cannot be written: as without a base. */
static void sub_01_read_only_memory(struct conf *c)
{
	static const uint64_t writing[] = { FI_RECV, FI_READ, FI_REMOTE_WRITE, CONF_ALL };
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *page = read_only_page();
	struct conf_region *base = conf_reg(end, page, LEN, FI_SEND | FI_WRITE | FI_REMOTE_READ);
	struct conf_region *below = sub_of(base, page, 100, FI_REMOTE_READ);
	struct iovec iov = { page + 5, 10 };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .requested_key = 0xfeed, .base_mr = base->mr
	};

	for (size_t i = 0; i < count_of(writing); i++) {
		struct fid_mr *mr;
		int ret;

		conf_log_mark(__FILE__, __LINE__);
		ret = fi_mr_reg(end->domain, page, LEN, writing[i], 0, 0xfeed, 0, &mr, NULL);
		conf_log_expect(ret != 0, NULL, "registration", __FILE__, __LINE__);
		assert_true(ret == 0 || ret == -FI_EACCES || ret == -FI_EFAULT);
		if (ret == 0)
			assert_ok(fi_close(&mr->fid));
		if (c->mode & FI_MR_ALLOCATED)
			assert_true(ret != 0);
		if (ret != 0) {
			sub_refused(base, iov, writing[i], 0, ret);
			sub_refused(below, iov, writing[i], 0, ret);
		} else {
			attr.access = writing[i];
			assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
			assert_ok(fi_close(&mr->fid));
		}
	}
	/* and what only reads is granted still */
	conf_drop_region(sub_of(below, page + 5, 10, FI_SEND | FI_REMOTE_READ));
	conf_drop_region(below);
	conf_drop_region(base);
	assert_int_equal(page[5], 0x3c);
	munmap(page, LEN);
}

/* By its descriptor: its own rights and its own bounds. */
static void sub_01_local_use(struct conf *c)
{
	struct conf_region *base, *all, *source, *sink;
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	base = conf_reg(l.a, l.src, LEN, CONF_ALL);
	all = sub_of(base, l.src + 100, 200, CONF_ALL);
	source = sub_of(base, l.src + 100, 200, FI_SEND | FI_WRITE);
	sink = sub_of(base, l.src + 100, 200, FI_RECV | FI_READ);
	for (int k = 0; k < 2; k++) {
		void *out = k ? source->desc : all->desc, *in = k ? sink->desc : all->desc;

		conf_fill(c, l.src, LEN);
		assert_posted(
			fi_write(l.a->ep, l.src + 100, 200, out, l.to, l.remote->addr, l.key, c));
		conf_done(l.a->tx, c);
		assert_memory_equal(l.dst, l.src + 100, 200);
		memset(l.src + 100, 0, 200);
		assert_posted(
			fi_read(l.a->ep, l.src + 100, 200, in, l.to, l.remote->addr, l.key, c));
		conf_done(l.a->tx, c);
		assert_memory_equal(l.dst, l.src + 100, 200);
		assert_posted(
			fi_recv(l.b->ep, l.dst + 1000, 200, l.remote->desc, FI_ADDR_UNSPEC, c));
		assert_posted(fi_send(l.a->ep, l.src + 100, 200, out, l.to, c));
		conf_done(l.a->tx, c);
		conf_done(l.b->rx, c);
		assert_memory_equal(l.dst + 1000, l.src + 100, 200);
	}
	for (int k = 0; k < 2; k++) { /* outside, though inside the base */
		void *desc = k ? source->desc : all->desc;

		assert_refused(fi_send(l.a->ep, l.src + 99, 2, desc, l.to, c), -FI_EINVAL);
		assert_refused(fi_send(l.a->ep, l.src + 299, 2, desc, l.to, c), -FI_EINVAL);
		assert_refused(fi_write(l.a->ep, l.src + 300, 1, desc, l.to, l.remote->addr, l.key,
					c),
			       -FI_EINVAL);
	}
	assert_refused(fi_send(l.a->ep, l.src + 100, 8, sink->desc, l.to, c), -FI_EACCES);
	assert_refused(fi_read(l.a->ep, l.src + 100, 8, source->desc, l.to, l.remote->addr, l.key,
			       c),
		       -FI_EACCES);
	assert_refused(fi_send(l.b->ep, l.dst, 8, all->desc, 0, c), -FI_EINVAL);
}

static void sub_01_bad_requests(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 64);
	struct conf_region *base = conf_reg(end, buf, 64, CONF_ALL);
	struct iovec iov = { buf, 64 }, many[64];
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = CONF_ALL,
				   .requested_key = 99,
				   .base_mr = base->mr };
	struct fid_mr *mr = NULL;

	sub_refused(base, iov, UINT64_C(1) << 40, 0, -FI_EINVAL);
	sub_refused(base, iov, CONF_ALL, UINT64_C(1) << 63, -FI_EBADFLAGS);
	sub_refused(base, iov, CONF_ALL, FI_HMEM_DEVICE_ONLY, -FI_EBADFLAGS);
	attr.offset = 8;
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.offset = 0;
	attr.mr_iov = NULL;
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.mr_iov = many;
	for (size_t i = 0; i < 64; i++)
		many[i] = iov;
	attr.iov_count = 0;
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.iov_count = end->info->domain_attr->mr_iov_limit + 1;
	assert_true(attr.iov_count <= 64);
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.iov_count = 1;
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, NULL), -FI_EINVAL);
	assert_null(mr);
	conf_check_stats(end, 1, 64, 0);
	conf_drop_region(base); /* none of them holds it */
}

/* Not a region of this domain: another's, another kind of object, one that is closed. */
static void sub_01_no_base(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c), *other = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 64);
	struct conf_region *foreign = conf_reg(other, buf, 64, CONF_ALL);
	struct conf_region wrong = { .end = end };
	struct fid_mr zero = { .key = 0 }, *closed;
	struct iovec iov = { buf, 64 };

	wrong.mr = foreign->mr;
	sub_refused(&wrong, iov, CONF_ALL, 0, -FI_EINVAL);
	wrong.mr = (struct fid_mr *)end->domain;
	sub_refused(&wrong, iov, CONF_ALL, 0, -FI_EINVAL);
	wrong.mr = &zero;
	sub_refused(&wrong, iov, CONF_ALL, 0, -FI_EINVAL);
	assert_ok(fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, 5, 0, &closed, NULL));
	assert_ok(fi_close(&closed->fid));
	wrong.mr = closed;
	sub_refused(&wrong, iov, CONF_ALL, 0, -FI_EINVAL);
	conf_drop_region(foreign);
}

static const struct conf_case cases[] = {
	CONF(sub_01_edges_of_the_range),
	CONF(sub_01_outside_of_the_base),
	CONF(sub_01_touches_its_range_alone),
	CONF(sub_01_of_several_segments),
	CONF(sub_01_key_of_its_own),
	CONF(sub_01_remote_rights),
	CONF(sub_01_rights_that_the_base_lacks),
	CONF(sub_01_read_only_memory),
	CONF(sub_01_local_use),
	CONF(sub_01_bad_requests),
	CONF(sub_01_no_base),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
