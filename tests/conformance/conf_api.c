/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration, its refusals, and regions in use: API-04 to API-08. */
#include "tests/conformance/harness.h"

enum how {
	BY_REG,
	BY_REGV,
	BY_REGATTR,
	WAYS
};

/* What the three calls have in common. */
struct request {
	const struct iovec *iov;
	size_t count;
	uint64_t access, offset, key, flags;
	void *context;
};

static int reg_by(enum how how, struct conf_end *end, const struct request *r, struct fid_mr **mr)
{
	struct fi_mr_attr attr = { .mr_iov = r->iov,
				   .iov_count = r->count,
				   .access = r->access,
				   .offset = r->offset,
				   .requested_key = r->key,
				   .context = r->context };

	switch (how) {
	case BY_REG:
		return fi_mr_reg(end->domain, r->iov->iov_base, r->iov->iov_len, r->access,
				 r->offset, r->key, r->flags, mr, r->context);
	case BY_REGV:
		return fi_mr_regv(end->domain, r->iov, r->count, r->access, r->offset, r->key,
				  r->flags, mr, r->context);
	default:
		return fi_mr_regattr(end->domain, &attr, r->flags, mr);
	}
}

static void *const NOTHING = (void *)(uintptr_t)0x5a5a5a;

/* Refused with one line, and neither the output nor the domain has changed. */
static void refuse(enum how how, struct conf_end *end, const struct request *r, int code,
		   const char *text)
{
	struct fid_mr *mr = NOTHING;

	assert_refused_with(reg_by(how, end, r, &mr), code, text);
	assert_ptr_equal(mr, NOTHING);
	conf_check_stats(end, 0, 0, 0);
}

/* ---- API-04 ---- */

static void api_04_three_calls_alike(struct conf *c)
{
	static const uint64_t rights[] = { FI_REMOTE_READ, FI_REMOTE_WRITE, CONF_REMOTE, 0 };
	struct conf_end *a, *b;
	uint8_t *src = conf_alloc(c, 64), *dst = conf_alloc(c, 64);
	struct conf_region *local;
	fi_addr_t to;

	conf_pair(c, NULL, &a, &b);
	to = conf_addr(a, b);
	local = conf_reg(a, src, 64, CONF_LOCAL);
	for (size_t i = 0; i < count_of(rights) * WAYS; i++) {
		struct iovec iov = { dst, 64 };
		struct request r = { .iov = &iov,
				     .count = 1,
				     .access = rights[i / WAYS],
				     .key = i + 1,
				     .context = &r };
		struct conf_region target = { .end = b, .addr = local->end->mode };
		uint64_t key, addr = b->mode & FI_MR_VIRT_ADDR ? (uintptr_t)dst : 0;

		assert_ok(reg_by((enum how)(i % WAYS), b, &r, &target.mr));
		assert_ptr_equal(target.mr->fid.context, &r);
		assert_int_equal(target.mr->fid.fclass, FI_CLASS_MR);
		conf_ready(b, target.mr, NULL);
		conf_check_stats(b, 1, 64, 0);
		key = conf_key(a, &target);
		assert_ok(fi_write(a->ep, src, 64, local->desc, to, addr, key, c));
		if (r.access & FI_REMOTE_WRITE)
			conf_done(a->tx, c);
		else
			conf_failed(a->tx, c, FI_EACCES, HMREG_NO_RIGHT);
		assert_ok(fi_read(a->ep, src, 64, local->desc, to, addr, key, c));
		if (r.access & FI_REMOTE_READ)
			conf_done(a->tx, c);
		else
			conf_failed(a->tx, c, FI_EACCES, HMREG_NO_RIGHT);
		if (target.maps)
			assert_ok(fi_mr_unmap_key(a->domain, key));
		conf_close_region(&target);
	}
}

/* ---- API-05 ---- */

static const uintptr_t TOP = UINTPTR_MAX;
static const uint64_t known_access = CONF_ALL | FI_COLLECTIVE;

static void api_05_bad_range_einval(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, 64);
	const struct {
		struct iovec iov;
		uint64_t offset;
		const char *text;
	} bad[] = {
		{ { buf, 0 }, 0, "length 0" },
		{ { NULL, 0 }, 0, "length 0" },
		{ { (void *)TOP, 2 }, 0, "wraps" },
		{ { (void *)(TOP - 4094), 4096 }, 0, "wraps" },
		{ { buf, SIZE_MAX }, 0, "wraps" },
		{ { buf, 64 }, 1, "offset" },
		{ { buf, 64 }, UINT64_MAX, "offset" },
	};
	struct conf_end *end = conf_open_for_regions(c);

	for (size_t i = 0; i < count_of(bad); i++) {
		struct request r = { .iov = &bad[i].iov,
				     .count = 1,
				     .access = FI_SEND,
				     .offset = bad[i].offset,
				     .key = 1 };

		for (int how = 0; how < WAYS; how++)
			refuse((enum how)how, end, &r, -FI_EINVAL, bad[i].text);
	}
}

static void api_05_bad_vector_einval(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, 64);
	struct iovec many[64];
	const struct iovec empty_second[] = { { buf, 32 }, { buf + 32, 0 } },
			   wrapping_second[] = { { buf, 32 }, { (void *)TOP, 32 } },
			   long_sum[] = { { (void *)1, SIZE_MAX / 2 + 1 },
					  { (void *)2, SIZE_MAX / 2 + 1 } };
	struct conf_end *end = conf_open_for_regions(c);
	size_t limit = end->info->domain_attr->mr_iov_limit;
	const struct {
		const struct iovec *iov;
		size_t count;
		const char *text;
	} bad[] = {
		{ many, 0, "0 entries" },	 { NULL, 0, "0 entries" },
		{ NULL, 1, "1 entries" },	 { many, limit + 1, "entries" },
		{ many, SIZE_MAX, "entries" },	 { empty_second, 2, "length 0" },
		{ wrapping_second, 2, "wraps" }, { long_sum, 2, "wraps" },
	};

	assert_in_range(limit, 1, count_of(many) - 1);
	for (size_t i = 0; i < count_of(many); i++)
		many[i] = (struct iovec){ buf + i, 1 };
	for (size_t i = 0; i < count_of(bad); i++) {
		struct request r = {
			.iov = bad[i].iov, .count = bad[i].count, .access = FI_SEND, .key = 1
		};

		/* where one entry is all there is, it is the count that is refused */
		refuse(BY_REGV, end, &r, -FI_EINVAL, limit > 1 ? bad[i].text : NULL);
		refuse(BY_REGATTR, end, &r, -FI_EINVAL, limit > 1 ? bad[i].text : NULL);
	}
}

static void api_05_unknown_access_einval(struct conf *c)
{
	struct iovec iov = { conf_alloc(c, 64), 64 };
	struct conf_end *end = conf_open_for_regions(c);

	for (unsigned int bit = 0; bit < 64; bit++) {
		struct request r = {
			.iov = &iov, .count = 1, .access = UINT64_C(1) << bit | FI_SEND, .key = 1
		};

		if (r.access & ~known_access)
			for (int how = 0; how < WAYS; how++)
				refuse((enum how)how, end, &r, -FI_EINVAL, "access");
	}
}

static void api_05_bad_attributes_einval(struct conf *c)
{
	struct iovec iov = { conf_alloc(c, 64), 64 };
	struct conf_end *end = conf_open_for_regions(c);
	struct fi_mr_attr good = { .mr_iov = &iov, .iov_count = 1, .access = FI_SEND }, bad = good;
	struct fid_mr *mr = NOTHING;

	bad.hmem_data = &iov;
	assert_refused_with(fi_mr_regattr(end->domain, &bad, 0, &mr), -FI_EINVAL, "hmem_data");
	assert_refused(fi_mr_regattr(end->domain, NULL, 0, &mr), -FI_EINVAL);
	assert_ptr_equal(mr, NOTHING);
	assert_refused(fi_mr_regattr(end->domain, &good, 0, NULL), -FI_EINVAL);
	assert_refused(fi_mr_regv(end->domain, &iov, 1, FI_SEND, 0, 1, 0, NULL, NULL), -FI_EINVAL);
	assert_refused(fi_mr_reg(end->domain, iov.iov_base, 64, FI_SEND, 0, 1, 0, NULL, NULL),
		       -FI_EINVAL);
	assert_refused(end->domain->mr->reg(NULL, iov.iov_base, 64, FI_SEND, 0, 1, 0, &mr, NULL),
		       -FI_EINVAL);
	assert_refused(end->domain->mr->regattr(&end->fabric->fid, &good, 0, &mr), -FI_EINVAL);
	assert_ptr_equal(mr, NOTHING);
	conf_check_stats(end, 0, 0, 0);
}

/* The last byte of the address space is no reason to refuse where nothing need be mapped. */
static void api_05_range_may_end_at_top(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);

	conf_reg_raw(end, (void *)(TOP - 4095), 4096, CONF_ALL);
	conf_check_stats(end, 1, 4096, 0);
}

/* ---- API-06 ---- */

#define SEGMENTS 16

/* Buffers of random lengths with gaps between, in random order. */
static size_t scatter(struct conf *c, struct iovec *iov, size_t count, uint8_t *arena)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++, arena += 256) {
		iov[i].iov_len = 1 + conf_below(c, 200);
		iov[i].iov_base = arena + conf_below(c, 256 - iov[i].iov_len);
		len += iov[i].iov_len;
	}
	for (size_t i = count; i-- > 1;) {
		size_t k = conf_below(c, i + 1);
		struct iovec swap = iov[i];

		iov[i] = iov[k];
		iov[k] = swap;
	}
	return len;
}

static void gather(const struct iovec *iov, size_t count, uint8_t *out)
{
	for (size_t i = 0; i < count; i++) {
		memcpy(out, iov[i].iov_base, iov[i].iov_len);
		out += iov[i].iov_len;
	}
}

static void use_vector(struct conf_link *l, const struct iovec *iov, size_t count, size_t len,
		       uint8_t *model)
{
	struct conf *c = l->a->conf;
	struct conf_region *region = conf_regv(l->b, iov, count, CONF_ALL, 0, NULL);
	uint64_t key = conf_key(l->a, region);
	uint8_t now[SEGMENTS * 256];

	gather(iov, count, model);
	for (int i = 0; i < 20; i++) {
		size_t off = conf_below(c, len), n = conf_below(c, len - off + 1);

		conf_fill(c, l->src, n);
		assert_ok(fi_write(l->a->ep, l->src, n, l->local->desc, l->to, region->addr + off,
				   key, l));
		conf_done(l->a->tx, l);
		memcpy(model + off, l->src, n);
		gather(iov, count, now);
		assert_memory_equal(now, model, len);
		off = conf_below(c, len);
		n = conf_below(c, len - off + 1);
		assert_ok(fi_read(l->a->ep, l->src, n, l->local->desc, l->to, region->addr + off,
				  key, l));
		conf_done(l->a->tx, l);
		assert_memory_equal(l->src, model + off, n);
	}
	assert_ok(fi_write(l->a->ep, l->src, 2, l->local->desc, l->to, region->addr + len - 1, key,
			   l));
	conf_failed(l->a->tx, l, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	assert_ok(fi_write(l->a->ep, l->src, 1, l->local->desc, l->to, region->addr - 1, key, l));
	conf_failed(l->a->tx, l, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	gather(iov, count, now);
	assert_memory_equal(now, model, len);
}

static bool in_segments(const struct iovec *iov, size_t count, const uint8_t *byte)
{
	for (size_t i = 0; i < count; i++)
		if ((uintptr_t)byte - (uintptr_t)iov[i].iov_base < iov[i].iov_len)
			return true;
	return false;
}

static void api_06_vector_is_concatenation(struct conf *c)
{
	uint8_t *arena = conf_alloc(c, SEGMENTS * 256), model[SEGMENTS * 256];
	struct conf_link l;
	size_t limit;

	conf_link(c, NULL, SEGMENTS * 256, &l);
	limit = l.b->info->domain_attr->mr_iov_limit;
	for (size_t count = 1; count <= limit && count <= SEGMENTS; count++) {
		struct iovec iov[SEGMENTS];
		size_t len = scatter(c, iov, count, arena);

		memset(arena, 0x77, SEGMENTS * 256);
		use_vector(&l, iov, count, len, model);
		for (size_t i = 0; i < SEGMENTS * 256; i++)
			if (!in_segments(iov, count, arena + i))
				assert_int_equal(arena[i], 0x77);
	}
}

/* A local buffer lies inside one segment; one that would reach into a gap is refused. */
static void api_06_local_use_of_a_vector(struct conf *c)
{
	struct conf_region *region;
	struct conf_link l;
	struct iovec iov[2];
	uint8_t *mem = conf_alloc(c, 256);

	conf_link(c, NULL, 64, &l);
	if (l.a->info->domain_attr->mr_iov_limit < 2)
		return;
	iov[0] = (struct iovec){ mem, 64 };
	iov[1] = (struct iovec){ mem + 128, 64 };
	region = conf_regv(l.a, iov, 2, CONF_LOCAL, 0, NULL);
	memset(mem + 128, 0x31, 64);
	assert_ok(fi_write(l.a->ep, mem + 128, 64, region->desc, l.to, l.remote->addr, l.key, c));
	conf_done(l.a->tx, c);
	assert_memory_equal(l.dst, mem + 128, 64);
	assert_refused(fi_write(l.a->ep, mem + 32, 64, region->desc, l.to, l.remote->addr, l.key,
				c),
		       -FI_EINVAL);
	assert_refused(fi_write(l.a->ep, mem + 127, 2, region->desc, l.to, l.remote->addr, l.key,
				c),
		       -FI_EINVAL);
	conf_quiet(l.a->tx);
}

/* ---- API-07 ---- */

static void api_07_close_kills_the_key(struct conf *c)
{
	struct conf_region *other;
	struct conf_link l;
	uint8_t *mem = conf_alloc(c, 64);
	int cause;

	conf_link(c, NULL, 64, &l);
	other = conf_reg(l.b, mem, 64, CONF_ALL);
	conf_works(&l);
	conf_close_region(l.remote);
	cause = c->mode & (FI_MR_RAW | FI_MR_PROV_KEY) ? HMREG_KEY_CLOSED : HMREG_KEY_UNKNOWN;
	for (int i = 0; i < 3; i++) {
		assert_ok(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr, l.key,
				   c));
		conf_failed(l.a->tx, c, FI_ENOKEY, cause);
		assert_ok(
			fi_read(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr, l.key, c));
		conf_failed(l.a->tx, c, FI_ENOKEY, cause);
	}
	/* the target saw nothing of it, and its other region works */
	conf_quiet(l.b->rx);
	conf_quiet(l.b->tx);
	l.remote = other;
	l.dst = mem;
	l.key = conf_key(l.a, other);
	conf_works(&l);
}

/* A slot that is used again does not make an old key valid. */
static void api_07_old_keys_stay_dead(struct conf *c)
{
	struct conf_link l;
	uint8_t *mem = conf_alloc(c, 64);
	struct iovec iov = { mem, 64 };

	conf_link(c, NULL, 64, &l);
	conf_close_region(l.remote);
	for (int i = 0; i < (conf_brief() ? 40 : 200); i++) {
		struct request r = { .iov = &iov, .count = 1, .access = CONF_ALL, .key = 5000 + i };
		struct fid_mr *mr;

		assert_ok(reg_by(BY_REG, l.b, &r, &mr));
		conf_ready(l.b, mr, NULL);
		assert_ok(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to,
				   c->mode & FI_MR_VIRT_ADDR ? (uintptr_t)mem : 0, l.key, c));
		conf_failed(l.a->tx, c, FI_ENOKEY,
			    c->mode & (FI_MR_RAW | FI_MR_PROV_KEY) ? HMREG_KEY_CLOSED
								   : HMREG_KEY_UNKNOWN);
		assert_ok(fi_close(&mr->fid));
	}
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(mem[i], 0);
}

/* What a region is bound to stays open for as long as the region; the region may go at any time. */
static void api_07_api_13_bound_endpoint_is_busy(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	assert_refused(fi_close(&l.b->ep->fid), -FI_EBUSY);
	conf_works(&l);
	conf_close_region(l.remote);
	conf_close_ep(l.b);
}

/* ---- API-08 ---- */

static void api_08_desc_everywhere(struct conf *c)
{
	struct conf_end *alone = conf_open(c, NULL);
	struct conf_region *foreign;
	struct conf_link l;
	void *stale;

	conf_link(c, NULL, 64, &l);
	foreign = conf_reg(alone, l.src, 64, CONF_ALL);
	assert_ptr_equal(fi_mr_desc(l.local->mr), l.local->mr->mem_desc);
	conf_works(&l);
	assert_ok(fi_recv(l.b->ep, l.dst, 64, l.remote->desc, FI_ADDR_UNSPEC, c));
	assert_ok(fi_send(l.a->ep, l.src, 64, l.local->desc, l.to, c));
	conf_done(l.a->tx, c);
	conf_done(l.b->rx, c);
	assert_ok(fi_fetch_atomic(l.a->ep, l.src, 1, l.local->desc, l.src + 8, l.local->desc, l.to,
				  l.remote->addr, l.key, FI_UINT64, FI_SUM, c));
	conf_done(l.a->tx, c);

	assert_refused(fi_write(l.a->ep, l.src, 64, foreign->desc, l.to, l.remote->addr, l.key, c),
		       -FI_EINVAL);
	assert_refused(fi_read(l.a->ep, l.src, 64, foreign->desc, l.to, l.remote->addr, l.key, c),
		       -FI_EINVAL);
	assert_refused(fi_send(l.a->ep, l.src, 64, foreign->desc, l.to, c), -FI_EINVAL);
	assert_refused(fi_recv(l.a->ep, l.src, 64, foreign->desc, FI_ADDR_UNSPEC, c), -FI_EINVAL);
	assert_refused(fi_atomic(l.a->ep, l.src, 1, foreign->desc, l.to, l.remote->addr, l.key,
				 FI_UINT64, FI_SUM, c),
		       -FI_EINVAL);
	assert_refused(fi_fetch_atomic(l.a->ep, l.src, 1, l.local->desc, l.src + 8, foreign->desc,
				       l.to, l.remote->addr, l.key, FI_UINT64, FI_SUM, c),
		       -FI_EINVAL);
	/* nor anything that is none, or none any more */
	assert_refused(fi_write(l.a->ep, l.src, 64, &l, l.to, l.remote->addr, l.key, c),
		       -FI_EINVAL);
	stale = l.local->desc;
	conf_close_region(l.local);
	assert_refused(fi_write(l.a->ep, l.src, 64, stale, l.to, l.remote->addr, l.key, c),
		       -FI_EINVAL);
	conf_quiet(l.a->tx);
}

static void api_08_desc_covers_the_buffer(struct conf *c)
{
	struct conf_region *middle;
	struct conf_link l;
	const struct {
		ptrdiff_t off;
		size_t len;
		int code;
	} at[] = {
		{ 16, 32, 0 },		{ 16, 1, 0 },		{ 47, 1, 0 },
		{ 15, 32, -FI_EINVAL }, { 17, 32, -FI_EINVAL }, { 15, 1, -FI_EINVAL },
		{ 48, 1, -FI_EINVAL },	{ 0, 64, -FI_EINVAL },
	};

	conf_link(c, NULL, 64, &l);
	middle = conf_reg(l.a, l.src + 16, 32, CONF_LOCAL);
	for (size_t i = 0; i < count_of(at); i++) {
		conf_log_mark(__FILE__, __LINE__);
		conf_check_code(fi_write(l.a->ep, l.src + at[i].off, at[i].len, middle->desc, l.to,
					 l.remote->addr, l.key, c),
				at[i].code, "fi_write", __FILE__, __LINE__);
		conf_log_expect(at[i].code ? 1 : 0, NULL, "fi_write", __FILE__, __LINE__);
		if (!at[i].code)
			conf_done(l.a->tx, c);
	}
}

static const struct conf_case cases[] = {
	CONF(api_04_three_calls_alike),
	CONF(api_05_bad_range_einval),
	CONF(api_05_bad_vector_einval),
	CONF(api_05_unknown_access_einval),
	CONF(api_05_bad_attributes_einval),
	CONF_WITHOUT(api_05_range_may_end_at_top, FI_MR_ALLOCATED),
	CONF(api_06_vector_is_concatenation),
	CONF(api_06_local_use_of_a_vector),
	CONF(api_07_close_kills_the_key),
	CONF(api_07_old_keys_stay_dead),
	CONF_NEED(api_07_api_13_bound_endpoint_is_busy, FI_MR_ENDPOINT),
	CONF(api_08_desc_everywhere),
	CONF(api_08_desc_covers_the_buffer),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
