/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other memory at the addresses of a region of accelerator memory, and fi_mr_refresh after it: API-15.
 * HMREG_TEST_HMEM names the interface, whose driver may be emulated or real.
 */
#include "tests/conformance/harness.h"
#include "tests/hmem/by_name.h"

#define UNIT ((size_t)65536)

static const struct maker *maker;

/* A peer's buffer of the host, and memory of a device that it reaches. */
struct scene {
	struct conf_end *a, *b;
	fi_addr_t to;
	uint8_t *host, *seen;
	struct conf_region *local, *remote;
	struct made made;
	uint64_t key;
};

static void make(struct conf *c, struct scene *s, enum make kind)
{
	s->made = hmem_make(c, maker, kind, 0, 2 * UNIT);
}

/* A region of len bytes from the start of the memory; 0: of all of it. */
static void open_scene(struct conf *c, struct scene *s, enum make kind, size_t len)
{
	struct conf_opts opts = { .caps = CONF_CAPS | FI_HMEM };
	struct iovec iov;
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .iface = maker->iface
	};

	conf_need_caps(c, FI_HMEM);
	conf_pair(c, &opts, &s->a, &s->b);
	s->to = conf_addr(s->a, s->b);
	s->host = conf_alloc(c, 64);
	s->seen = conf_alloc(c, 64);
	s->local = conf_reg(s->a, s->host, 64, CONF_ALL);
	make(c, s, kind);
	iov = (struct iovec){ s->made.addr, len ? len : s->made.len };
	attr.device.cuda = s->made.device;
	assert_int_equal(hmem_try(s->b, &attr), 0);
	s->remote = conf_regattr(s->b, &attr, 0);
	s->key = conf_key(s->a, s->remote);
}

/* What a peer writes is what the driver finds there. */
static void reaches(struct conf *c, struct scene *s, size_t offset)
{
	conf_fill(c, s->host, 64);
	assert_posted(fi_write(s->a->ep, s->host, 64, s->local->desc, s->to,
			       s->remote->addr + offset, s->key, c));
	conf_done(s->a->tx, c);
	assert_int_equal(maker->read(&s->made, offset, s->seen, 64), 0);
	assert_memory_equal(s->seen, s->host, 64);
}

static void api_15_device_memory_that_stays(struct conf *c)
{
	struct scene s;
	struct iovec part;
	int ret;

	open_scene(c, &s, MAKE_DEVICE, UNIT);
	part = (struct iovec){ (char *)s.made.addr + 512, 512 };
	for (int i = 0; i < 2; i++) {
		conf_log_mark(__FILE__, __LINE__);
		ret = fi_mr_refresh(s.remote->mr, i ? &part : NULL, i ? 1 : 0, 0);
		conf_log_expect(ret ? 1 : 0, ret ? "does not tell" : NULL, "fi_mr_refresh",
				__FILE__, __LINE__);
		assert_true(ret == 0 || (ret == -FI_ENOSYS && !c->profile->at_once));
	}
	reaches(c, &s, 0);
	conf_drop_region(s.remote);
	maker->drop(&s.made);
}

static void need_remap(struct conf *c)
{
	if (!maker->remap)
		conf_skip(c, "no memory is mapped piece by piece with this interface here");
}

/* The software NIC reaches the new allocation; a dma-buf keeps the old one, which is told. */
static void exchange(struct conf *c, struct scene *s)
{
	struct iovec part = { s->made.addr, 512 };

	assert_int_equal(maker->remap(&s->made), 0);
	if (!c->profile->at_once) {
		assert_refused_with(fi_mr_refresh(s->remote->mr, NULL, 0, 0), -FI_ENOSYS,
				    "not the one that was exported");
		assert_refused(fi_mr_refresh(s->remote->mr, &part, 1, 0), -FI_ENOSYS);
		return;
	}
	assert_ok(fi_mr_refresh(s->remote->mr, NULL, 0, 0));
	reaches(c, s, 0);
}

static void api_15_mapped_memory_is_exchanged(struct conf *c)
{
	struct scene s;
	size_t half;

	need_remap(c);
	open_scene(c, &s, MAKE_VMM, 0);
	half = s.made.len / 2;
	reaches(c, &s, 0);
	reaches(c, &s, half - 32); /* over the border of the two allocations */
	assert_ok(fi_mr_refresh(s.remote->mr, NULL, 0, 0));
	exchange(c, &s);
	if (c->profile->at_once)
		reaches(c, &s, half - 32);
	conf_drop_region(s.remote);
	maker->drop(&s.made);
}

/* One allocation, which the region has the identity of: without a refresh the new one is not touched. */
static void api_15_fn_29_exchanged_and_not_refreshed(struct conf *c)
{
	struct scene s;

	need_remap(c);
	open_scene(c, &s, MAKE_VMM, UNIT);
	reaches(c, &s, 0);
	assert_int_equal(maker->remap(&s.made), 0);
	if (c->profile->at_once) {
		assert_int_equal(maker->write(&s.made, 0, s.seen, 64), 0);
		conf_fill(c, s.host, 64);
		assert_ok(fi_write(s.a->ep, s.host, 64, s.local->desc, s.to, s.remote->addr, s.key,
				   c));
		conf_failed(s.a->tx, c, FI_EFAULT, HMREG_FAULT);
		assert_int_equal(maker->read(&s.made, 0, s.host, 64), 0);
		assert_memory_equal(s.host, s.seen, 64);
	}
	exchange(c, &s);
	conf_drop_region(s.remote);
	maker->drop(&s.made);
}

/* Nothing of the device is there any more. */
static void api_15_device_memory_that_is_gone(struct conf *c)
{
	struct scene s;

	open_scene(c, &s, MAKE_DEVICE, UNIT);
	maker->drop(&s.made);
	assert_refused(fi_mr_refresh(s.remote->mr, NULL, 0, 0), -FI_EFAULT);
	conf_drop_region(s.remote);
}

static const struct conf_case cases[] = {
	CONF(api_15_device_memory_that_stays),
	CONF(api_15_mapped_memory_is_exchanged),
	CONF(api_15_fn_29_exchanged_and_not_refreshed),
	CONF(api_15_device_memory_that_is_gone),
};

int main(int argc, char **argv)
{
	return hmem_main(argc, argv, &maker, cases, count_of(cases));
}
