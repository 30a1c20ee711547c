/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs of accelerator memory: where their bytes are, and that no driver is asked again.
 * HMREG_TEST_HMEM names the interface, whose driver may be emulated or real.
 */
#include "tests/conformance/sub.h"
#include "tests/fds.h"
#include "tests/hmem/by_name.h"

#define UNIT	   ((size_t)65536)
#define MOST_BYTES ((size_t)16 << 20) /* what a driver may round a length up to */

static const struct maker *maker;

/* A link whose far side is memory of a device, all of it the base. */
struct scene {
	struct conf_end *a, *b;
	fi_addr_t to;
	uint8_t *host;
	struct conf_region *local, *base;
	struct made made;
	uint8_t *want; /* what must be in the memory */
};

/* False: the driver, or the NIC with such memory, has none of this kind. */
static bool set(struct conf *c, struct scene *s, enum make kind, size_t len)
{
	struct iovec iov;
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = CONF_ALL,
				   .iface = maker->iface,
				   .requested_key = 0xfeed };
	int ret;

	s->made = (struct made){ .kind = kind, .device = maker->device(0) };
	if (maker->cannot(kind, s->made.device))
		return false;
	assert_int_equal(maker->make(kind, s->made.device, 2 * UNIT, &s->made), 0);
	assert_true(s->made.len <= MOST_BYTES);
	iov = (struct iovec){ s->made.addr, len ? len : s->made.len };
	attr.device.cuda = s->made.device;
	ret = hmem_try(s->b, &attr);
	if (ret != 0) {
		assert_int_equal(ret, -FI_EOPNOTSUPP);
		maker->drop(&s->made);
		return false;
	}
	s->base = conf_regattr(s->b, &attr, 0);
	conf_fill(c, s->want, s->made.len);
	assert_int_equal(maker->write(&s->made, 0, s->want, s->made.len), 0);
	return true;
}

static void open_scene(struct conf *c, struct scene *s)
{
	struct conf_opts opts = { .caps = CONF_CAPS | FI_HMEM };

	conf_need_caps(c, CONF_CAPS | FI_HMEM);
	conf_pair(c, &opts, &s->a, &s->b);
	s->to = conf_addr(s->a, s->b);
	s->host = conf_alloc(c, 2 * UNIT);
	s->local = conf_reg(s->a, s->host, 2 * UNIT, CONF_ALL);
	s->want = conf_alloc(c, MOST_BYTES);
}

static void must_set(struct conf *c, struct scene *s, enum make kind)
{
	open_scene(c, s);
	if (!set(c, s, kind, 0))
		conf_skip(c, "no such memory here");
}

static void drop(struct scene *s)
{
	conf_drop_region(s->base);
	maker->drop(&s->made);
}

static char *at(const struct scene *s, size_t offset)
{
	return (char *)s->made.addr + offset;
}

static void check(const struct scene *s)
{
	uint8_t *have = malloc(s->made.len);

	assert_non_null(have);
	assert_int_equal(maker->read(&s->made, 0, have, s->made.len), 0);
	assert_memory_equal(have, s->want, s->made.len);
	free(have);
}

/* A region that covers [offset, offset + len) of the memory, written and read in full. */
static void works(struct conf *c, struct scene *s, struct conf_region *r, size_t offset, size_t len)
{
	uint64_t key = conf_key(s->a, r);

	conf_fill(c, s->host, len);
	assert_posted(fi_write(s->a->ep, s->host, len, s->local->desc, s->to, r->addr, key, c));
	conf_done(s->a->tx, c);
	memcpy(s->want + offset, s->host, len);
	check(s);
	memset(s->host, 0, len);
	assert_posted(fi_read(s->a->ep, s->host, len, s->local->desc, s->to, r->addr, key, c));
	conf_done(s->a->tx, c);
	assert_memory_equal(s->host, s->want + offset, len);
}

/* The middle, where two allocations may meet, is among them. */
static void try_parts(struct conf *c, struct scene *s)
{
	size_t part[][2] = {
		{ 0, 1 }, { s->made.len - 1, 1 }, { 4096 + 3, 4096 }, { s->made.len / 2 - 100, 200 }
	};

	for (size_t i = 0; i < count_of(part); i++) {
		size_t len = part[i][1];
		struct conf_region *sub = sub_of(s->base, at(s, part[i][0]), len, CONF_ALL);

		works(c, s, sub, part[i][0], len);
		assert_posted(fi_write(s->a->ep, s->host, 1, s->local->desc, s->to, sub->addr + len,
				       conf_key(s->a, sub), c));
		conf_failed(s->a->tx, c, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		check(s);
		conf_drop_region(sub);
	}
	sub_refused(s->base, (struct iovec){ at(s, s->made.len - 1), 2 }, CONF_ALL, 0, -FI_EINVAL);
}

static void sub_01_parts_of_every_kind(struct conf *c)
{
	size_t kinds = 0;
	struct scene s;

	open_scene(c, &s);
	for (int kind = 0; kind < MAKE_KINDS; kind++) {
		if (!set(c, &s, kind, 0))
			continue;
		kinds++;
		try_parts(c, &s);
		drop(&s);
	}
	assert_true(kinds > 0);
}

/* Interface and device are the base's, whatever is said; flags about the memory must be true. */
static void sub_02_whose_memory_it_is(struct conf *c)
{
	struct conf_region *sub;
	struct scene s;
	struct iovec iov;
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };

	must_set(c, &s, MAKE_DEVICE);
	iov = (struct iovec){ at(&s, 512), 1024 };
	attr.base_mr = s.base->mr;
	for (int iface = FI_HMEM_SYSTEM; iface <= FI_HMEM_SYNAPSEAI + 1; iface++) {
		attr.iface = iface;
		attr.device.reserved = UINT64_C(0x7777777777777777);
		attr.hmem_data = &attr;
		sub = conf_regattr(s.b, &attr, 0);
		works(c, &s, sub, 512, 1024);
		conf_drop_region(sub);
	}
	sub_refused(s.base, iov, CONF_ALL, FI_HMEM_HOST_ALLOC, -FI_EINVAL);
	sub = sub_with(s.base, iov.iov_base, 100, CONF_ALL, FI_HMEM_DEVICE_ONLY);
	works(c, &s, sub, 512, 100);
	conf_drop_region(sub);
	drop(&s);
}

/* Rights, depth and life are as with host memory. */
static void sub_03_sub_04_sub_06_life(struct conf *c)
{
	struct conf_region *sub, *below, *reads;
	uint64_t key, addr;
	struct scene s;

	must_set(c, &s, MAKE_DEVICE);
	sub = sub_of(s.base, at(&s, 1000), 3000, CONF_ALL);
	below = sub_of(sub, at(&s, 1500), 1000, CONF_ALL);
	reads = sub_of(sub, at(&s, 1500), 1000, FI_REMOTE_READ);
	assert_refused(fi_close(&s.base->mr->fid), -FI_EBUSY);
	assert_refused(fi_close(&sub->mr->fid), -FI_EBUSY);
	works(c, &s, below, 1500, 1000);
	works(c, &s, sub, 1000, 3000);
	works(c, &s, s.base, 0, 2 * UNIT);
	assert_posted(fi_write(s.a->ep, s.host, 8, s.local->desc, s.to, reads->addr,
			       conf_key(s.a, reads), c));
	conf_failed(s.a->tx, c, FI_EACCES, HMREG_NO_RIGHT);
	key = conf_key(s.a, below);
	addr = below->addr;
	conf_close_region(below);
	assert_posted(fi_write(s.a->ep, s.host, 8, s.local->desc, s.to, addr, key, c));
	conf_failed(s.a->tx, c, FI_ENOKEY,
		    c->mode & (FI_MR_PROV_KEY | FI_MR_RAW) ? HMREG_KEY_CLOSED : HMREG_KEY_UNKNOWN);
	works(c, &s, sub, 1000, 3000);
	for (; below->maps > 0; below->maps--)
		assert_ok(fi_mr_unmap_key(s.a->domain, key));
	conf_drop_region(reads);
	conf_drop_region(sub);
	works(c, &s, s.base, 0, 2 * UNIT);
	drop(&s);
}

/* Sent and received by its descriptor. */
static void sub_01_local_use(struct conf *c)
{
	struct conf_region *out, *in;
	struct scene s;

	must_set(c, &s, MAKE_DEVICE);
	out = sub_of(s.base, at(&s, 100), 500, FI_SEND);
	in = sub_of(s.base, at(&s, 4096), 500, FI_RECV);
	assert_posted(fi_recv(s.b->ep, at(&s, 4096), 500, in->desc, FI_ADDR_UNSPEC, c));
	assert_posted(fi_send(s.b->ep, at(&s, 100), 500, out->desc, conf_addr(s.b, s.b), c));
	conf_done(s.b->tx, c);
	conf_done(s.b->rx, c);
	memcpy(s.want + 4096, s.want + 100, 500);
	check(&s);
	assert_refused(fi_send(s.b->ep, at(&s, 99), 2, out->desc, 0, c), -FI_EINVAL);
	assert_refused(fi_send(s.b->ep, at(&s, 4096), 2, in->desc, 0, c), -FI_EACCES);
	conf_drop_region(in);
	conf_drop_region(out);
	drop(&s);
}

/* ---- SUB-05 ---- */

enum {
	MANY = 40
};

/* Neither whose the memory is nor for an export: a NIC without windows takes the base's once more. */
static void sub_05_no_driver_is_asked_again(struct conf *c)
{
	const struct emu_accel_hooks *hooks = maker->hooks();
	struct conf_region *sub[MANY];
	unsigned long calls;
	long live;
	struct scene s;
	size_t fds;

	if (!hooks)
		conf_skip(c, "the driver counts no calls");
	must_set(c, &s, MAKE_DEVICE);
	conf_drop_region(sub_of(s.base, at(&s, 0), 64, CONF_ALL)); /* what is made once is there */
	calls = hooks->calls("*"), live = hooks->live("*");
	fds = test_fds();
	for (size_t i = 0; i < MANY; i++)
		sub[i] = sub_of(i % 3 ? sub[i - 1] : s.base, at(&s, i), UNIT - 2 * i, CONF_REMOTE);
	assert_int_equal(hooks->calls("*"), calls);
	assert_int_equal(test_fds(), fds);
	for (size_t i = MANY; i > 0; i--)
		conf_drop_region(sub[i - 1]);
	assert_int_equal(hooks->calls("*"), calls);
	assert_int_equal(hooks->live("*"), live);
	assert_int_equal(test_fds(), fds);
	drop(&s);
}

/* Other memory at the addresses: what is refreshed is refreshed for the parts, too. */
static void sub_05_api_15_refreshed_with_the_base(struct conf *c)
{
	struct conf_region *sub, *below;
	struct scene s;

	if (!maker->remap || !c->profile->at_once)
		conf_skip(c, "no memory is exchanged under a region here");
	open_scene(c, &s);
	if (!set(c, &s, MAKE_VMM, UNIT)) /* of one allocation */
		conf_skip(c, "no such memory here");
	sub = sub_of(s.base, at(&s, 1000), 1000, CONF_ALL);
	below = sub_of(sub, at(&s, 1100), 100, CONF_ALL);
	works(c, &s, below, 1100, 100);
	assert_int_equal(maker->remap(&s.made), 0);
	assert_int_equal(maker->write(&s.made, 0, s.want, s.made.len), 0);
	for (int i = 0; i < 2; i++) {
		struct conf_region *r = i ? sub : below;

		assert_ok(fi_write(s.a->ep, s.host, 8, s.local->desc, s.to, r->addr,
				   conf_key(s.a, r), c));
		conf_failed(s.a->tx, c, FI_EFAULT, HMREG_FAULT);
	}
	check(&s);
	/* by itself: it and what is under it */
	assert_ok(fi_mr_refresh(sub->mr, NULL, 0, 0));
	works(c, &s, sub, 1000, 1000);
	works(c, &s, below, 1100, 100);
	assert_ok(fi_write(s.a->ep, s.host, 8, s.local->desc, s.to, s.base->addr,
			   conf_key(s.a, s.base), c));
	conf_failed(s.a->tx, c, FI_EFAULT, HMREG_FAULT);
	assert_int_equal(maker->remap(&s.made), 0);
	assert_int_equal(maker->write(&s.made, 0, s.want, s.made.len), 0);
	assert_ok(fi_mr_refresh(s.base->mr, NULL, 0, 0));
	works(c, &s, s.base, 0, UNIT);
	works(c, &s, sub, 1000, 1000);
	works(c, &s, below, 1100, 100);
	conf_drop_region(below);
	conf_drop_region(sub);
	drop(&s);
}

/* Buffers of the host and of a device in one base, and in one part. */
static void sub_01_of_mixed_segments(struct conf *c)
{
	struct conf_region *mixed, *both;
	struct iovec seg[2], part[2];
	struct scene s;
	uint8_t *host;

	open_scene(c, &s);
	if (s.b->info->domain_attr->mr_iov_limit < 2)
		conf_skip(c, "a region is one buffer");
	assert_true(set(c, &s, MAKE_DEVICE, 0));
	host = conf_alloc(c, UNIT);
	seg[0] = (struct iovec){ host, UNIT };
	seg[1] = (struct iovec){ at(&s, 0), UNIT };
	mixed = conf_regv(s.b, seg, 2, CONF_ALL, 0, NULL);
	part[0] = (struct iovec){ at(&s, 300), 200 };
	part[1] = (struct iovec){ host + 50, 100 };
	both = conf_regattr(
		s.b,
		&(struct fi_mr_attr){
			.mr_iov = part, .iov_count = 2, .access = CONF_ALL, .base_mr = mixed->mr },
		0);
	conf_fill(c, s.host, 300);
	assert_posted(fi_write(s.a->ep, s.host, 300, s.local->desc, s.to, both->addr,
			       conf_key(s.a, both), c));
	conf_done(s.a->tx, c);
	memcpy(s.want + 300, s.host, 200);
	check(&s);
	assert_memory_equal(host + 50, s.host + 200, 100);
	conf_drop_region(both);
	conf_drop_region(mixed);
	drop(&s);
}

static const struct conf_case cases[] = {
	CONF(sub_01_parts_of_every_kind),
	CONF(sub_02_whose_memory_it_is),
	CONF(sub_03_sub_04_sub_06_life),
	CONF(sub_01_local_use),
	CONF_WITHOUT(sub_05_no_driver_is_asked_again, FI_MR_MMU_NOTIFY), /* refreshing asks */
	CONF(sub_05_api_15_refreshed_with_the_base),
	CONF_WITHOUT(sub_01_of_mixed_segments, FI_MR_HMEM),
};

int main(int argc, char **argv)
{
	return hmem_main(argc, argv, &maker, cases, count_of(cases));
}
