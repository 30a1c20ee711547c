/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of accelerator memory through the public interface: registered, reached by peers, sent and
 * received, closed.  HMREG_TEST_HMEM names the interface, whose driver may be emulated or real.
 */
#include "tests/hmem/by_name.h"
#include "tests/hmem/conf_mr_hmem.h"

#define MOST_BYTES ((size_t)16 << 20) /* what a driver may round a length up to */

const struct maker *maker;

/* ---- memory ---- */

static bool can_make(enum make kind)
{
	return maker->cannot(kind, maker->device(0)) == NULL;
}

struct made make_memory(struct conf *c, enum make kind, size_t at)
{
	return hmem_make(c, maker, kind, at, 2 * UNIT);
}

struct fi_mr_attr attr_of(const struct made *made, struct iovec *iov)
{
	struct fi_mr_attr attr = {
		.mr_iov = iov, .iov_count = 1, .access = CONF_ALL, .iface = maker->iface
	};

	attr.device.cuda = made->device;
	return attr;
}

struct conf_region *reg_memory(struct conf_end *end, const struct made *made, size_t offset,
			       size_t len, uint64_t flags)
{
	struct iovec iov = { (char *)made->addr + offset, len };
	struct fi_mr_attr attr = attr_of(made, &iov);

	return conf_regattr(end, &attr, flags);
}

/* Random bytes all over, so that whatever a transfer leaves alone can be told. */
uint8_t *fill_memory(struct conf *c, const struct made *made)
{
	uint8_t *bytes = conf_alloc(c, made->len);

	conf_fill(c, bytes, made->len);
	assert_int_equal(maker->write(made, 0, bytes, made->len), 0);
	return bytes;
}

void check_memory(struct conf *c, const struct made *made, const uint8_t *want)
{
	uint8_t *have = malloc(made->len);

	(void)c;
	assert_non_null(have);
	assert_int_equal(maker->read(made, 0, have, made->len), 0);
	assert_memory_equal(have, want, made->len);
	free(have);
}

struct scene open_scene(struct conf *c)
{
	struct conf_opts opts = { .caps = CONF_CAPS | FI_HMEM };
	struct scene s;

	conf_need_caps(c, FI_HMEM);
	conf_pair(c, &opts, &s.a, &s.b);
	s.to = conf_addr(s.a, s.b);
	s.host = conf_alloc(c, 2 * UNIT);
	conf_fill(c, s.host, 2 * UNIT);
	s.local = conf_reg(s.a, s.host, 2 * UNIT, CONF_ALL);
	return s;
}

/* ---- transfers ---- */

static bool only_copied(enum make kind)
{
	return kind == MAKE_MANAGED || kind == MAKE_VMM_NO_RDMA || kind == MAKE_POOL_PRIVATE ||
	       kind == MAKE_IMPORTED || kind == MAKE_PRIVATE;
}

static void into_and_out_of(struct conf *c, struct scene *s, enum make kind, size_t at,
			    uint8_t *want)
{
	static const size_t lens[] = { 1, 4096 + 3, 2 * UNIT - 2 * GUARD };
	struct made made = make_memory(c, kind, at);
	struct iovec iov = { (char *)made.addr + GUARD, made.len - 2 * GUARD };
	struct fi_mr_attr attr = attr_of(&made, &iov);
	struct conf_region *region;
	uint64_t key;
	int ret;

	attr.requested_key = 77777;
	ret = hmem_try(s->b, &attr);
	/* what only its interface can copy is out of a NIC's reach */
	assert_int_equal(ret, only_copied(kind) && !c->profile->at_once ? -FI_EOPNOTSUPP : 0);
	if (ret != 0) {
		maker->drop(&made);
		return;
	}
	region = conf_regattr(s->b, &attr, 0);
	key = conf_key(s->a, region);
	assert_true(made.len <= MOST_BYTES);
	conf_fill(c, want, made.len);
	assert_int_equal(maker->write(&made, 0, want, made.len), 0);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		size_t len = lens[i], off = lens[i] == 1 ? 77 : 0;

		conf_fill(c, s->host, len);
		assert_posted(fi_write(s->a->ep, s->host, len, s->local->desc, s->to,
				       region->addr + off, key, c));
		conf_done(s->a->tx, c);
		memcpy(want + GUARD + off, s->host, len);
		check_memory(c, &made, want);
		memset(s->host, 0, len);
		assert_posted(fi_read(s->a->ep, s->host, len, s->local->desc, s->to,
				      region->addr + off, key, c));
		conf_done(s->a->tx, c);
		assert_memory_equal(s->host, want + GUARD + off, len);
		check_memory(c, &made, want);
	}
	/* a byte past the region, which is memory of the allocation, is not reached */
	assert_posted(fi_write(s->a->ep, s->host, 8, s->local->desc, s->to,
			       region->addr + made.len - 2 * GUARD - 7, key, c));
	conf_failed(s->a->tx, c, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	check_memory(c, &made, want);
	conf_drop_region(region);
	maker->drop(&made);
}

static void fn_07_every_kind(struct conf *c)
{
	struct scene s = open_scene(c);
	uint8_t *want = conf_alloc(c, MOST_BYTES);
	size_t kinds = 0;

	for (int kind = 0; kind < MAKE_KINDS; kind++)
		for (size_t at = 0; at < maker->devices() && can_make(kind); at++, kinds++)
			into_and_out_of(c, &s, kind, at, want);
	assert_true(kinds > 0);
}

static void device_to_device(struct conf *c)
{
	struct scene s = open_scene(c);

	for (size_t at = 0; at < 2 * maker->devices(); at++) {
		struct made to = make_memory(c, MAKE_DEVICE, at),
			    from = make_memory(c, MAKE_DEVICE, at / 2);
		uint8_t *want = fill_memory(c, &to), *src = fill_memory(c, &from);
		struct conf_region *target = reg_memory(s.b, &to, 0, to.len, 0);
		struct conf_region *source = reg_memory(s.a, &from, 0, from.len, 0);

		assert_posted(fi_write(s.a->ep, (char *)from.addr + 5, UNIT, source->desc, s.to,
				       target->addr + 11, conf_key(s.a, target), c));
		conf_done(s.a->tx, c);
		memcpy(want + 11, src + 5, UNIT);
		check_memory(c, &to, want);
		check_memory(c, &from, src);
		conf_drop_region(target);
		conf_drop_region(source);
		maker->drop(&to);
		maker->drop(&from);
	}
}

static void messages(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made to = make_memory(c, MAKE_DEVICE, 0), from = make_memory(c, MAKE_DEVICE, 1);
	uint8_t *want = fill_memory(c, &to), *src = fill_memory(c, &from);
	struct conf_region *target = reg_memory(s.b, &to, 0, to.len, 0);
	struct conf_region *source = reg_memory(s.a, &from, 0, from.len, 0);

	for (int early = 0; early < 2; early++) {
		if (!early)
			assert_posted(fi_recv(s.b->ep, (char *)to.addr + GUARD, UNIT, target->desc,
					      FI_ADDR_UNSPEC, c));
		assert_posted(
			fi_send(s.a->ep, (char *)from.addr + early, UNIT, source->desc, s.to, c));
		conf_done(s.a->tx, c);
		if (early) /* the message has come before its receive */
			assert_posted(fi_recv(s.b->ep, (char *)to.addr + GUARD, UNIT, target->desc,
					      FI_ADDR_UNSPEC, c));
		conf_done(s.b->rx, c);
		memcpy(want + GUARD, src + early, UNIT);
		check_memory(c, &to, want);
	}
	conf_drop_region(source);
	conf_drop_region(target);
	maker->drop(&to);
	maker->drop(&from);
}

static void atomics(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make_memory(c, MAKE_DEVICE, 0);
	uint8_t *want = fill_memory(c, &made);
	struct conf_region *region = reg_memory(s.b, &made, 0, made.len, 0);
	uint64_t *host = (uint64_t *)(void *)s.host, before;

	for (int i = 0; i < 10; i++) {
		host[0] = conf_random(c);
		memcpy(&before, want + GUARD, 8);
		assert_posted(fi_fetch_atomic(s.a->ep, host, 1, s.local->desc, host + 1,
					      s.local->desc, s.to, region->addr + GUARD,
					      conf_key(s.a, region), FI_UINT64, FI_SUM, c));
		conf_done(s.a->tx, c);
		assert_true(host[1] == before);
		before += host[0];
		memcpy(want + GUARD, &before, 8);
		check_memory(c, &made, want);
	}
	conf_drop_region(region);
	maker->drop(&made);
}

/* ---- MODE-09 ---- */

static void mode_09_reg_is_for_host_memory(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make_memory(c, MAKE_DEVICE, 0);
	struct fid_mr *mr = NULL;

	assert_refused_with(fi_mr_reg(s.b->domain, made.addr, UNIT, CONF_ALL, 0, 900, 0, &mr, NULL),
			    -FI_EINVAL, maker->name);
	assert_null(mr);
	conf_check_stats(s.b, 0, 0, 0);
	maker->drop(&made);
}

static void mode_09_found_from_the_address(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make_memory(c, MAKE_DEVICE, 0);
	uint8_t *want = fill_memory(c, &made);
	struct conf_region *region = conf_reg(s.b, made.addr, made.len, CONF_ALL);

	assert_posted(fi_write(s.a->ep, s.host, UNIT, s.local->desc, s.to, region->addr,
			       conf_key(s.a, region), c));
	conf_done(s.a->tx, c);
	memcpy(want, s.host, UNIT);
	check_memory(c, &made, want);
	conf_drop_region(region);
	maker->drop(&made);
}

/* Neither FI_MR_LOCAL nor FI_MR_HMEM: a device's buffer needs no descriptor. */
static void mode_09_no_desc(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make_memory(c, MAKE_DEVICE, 0), from = make_memory(c, MAKE_DEVICE, 1);
	uint8_t *want = fill_memory(c, &made), *src = fill_memory(c, &from);
	struct conf_region *region = reg_memory(s.b, &made, 0, made.len, 0);

	conf_log_mark(__FILE__, __LINE__);
	assert_posted(fi_write(s.a->ep, from.addr, UNIT, NULL, s.to, region->addr,
			       conf_key(s.a, region), c));
	conf_done(s.a->tx, c);
	hmem_expect_unkept("fi_write");
	memcpy(want, src, UNIT);
	check_memory(c, &made, want);
	assert_posted(fi_recv(s.b->ep, (char *)made.addr + 8, 1000, NULL, FI_ADDR_UNSPEC, c));
	assert_posted(fi_send(s.a->ep, (char *)from.addr + 3, 1000, NULL, s.to, c));
	conf_done(s.a->tx, c);
	conf_done(s.b->rx, c);
	memcpy(want + 8, src + 3, 1000);
	check_memory(c, &made, want);
	conf_drop_region(region);
	maker->drop(&made);
	maker->drop(&from);
}

/* FI_MR_HMEM: a device's buffer needs one, whether or not the host's do. */
static void mode_09_desc_needed(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make_memory(c, MAKE_DEVICE, 0);

	assert_refused(fi_send(s.a->ep, made.addr, 100, NULL, s.to, c), -FI_EINVAL);
	assert_refused(fi_recv(s.b->ep, made.addr, 100, NULL, FI_ADDR_UNSPEC, c), -FI_EINVAL);
	assert_refused(fi_inject(s.a->ep, made.addr, 100, s.to), -FI_EINVAL);
	maker->drop(&made);
}
static const struct conf_case cases[] = {
	CONF(fn_07_every_kind),
	CONF(device_to_device),
	CONF(messages),
	CONF(atomics),
	CONF_NEED(mode_09_reg_is_for_host_memory, FI_MR_HMEM),
	CONF_WITHOUT(mode_09_found_from_the_address, FI_MR_HMEM),
	CONF_WITHOUT(mode_09_no_desc, FI_MR_HMEM | FI_MR_LOCAL),
	CONF_NEED(mode_09_desc_needed, FI_MR_HMEM),
};

int main(int argc, char **argv)
{
	static struct conf_case all[64];
	size_t count = sizeof(cases) / sizeof(cases[0]);

	memcpy(all, cases, sizeof(cases));
	memcpy(all + count, life_cases, life_case_count * sizeof(*life_cases));
	return hmem_main(argc, argv, &maker, all, count + life_case_count);
}
