/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accelerator memory registered with several NICs by one call: it is exported once, its bytes are reached by
 * each, and a refusal leaves nothing.  HMREG_TEST_HMEM names the interface; HMREG_DMABUF_KEEP is tried with none.
 */
#include "tests/conformance/harness.h"
#include "tests/fds.h"
#include "tests/hmem/by_name.h"

#define NICS 4
#define UNIT ((size_t)65536)

static const struct maker *maker;

struct scene {
	struct conf_end *end[NICS];
	struct fid_domain *domain[NICS];
	struct hmreg_multi_ops *ops;
	struct hmreg_hmem_ops *hmem;
	struct made made;
	struct iovec iov;
	struct fi_mr_attr attr;
};

static void set(struct conf *c, struct scene *s, enum make kind)
{
	conf_need_caps(c, CONF_CAPS | FI_HMEM);
	for (size_t i = 0; i < NICS; i++) {
		s->end[i] = conf_open(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_HMEM });
		s->domain[i] = s->end[i]->domain;
	}
	assert_ok(fi_open_ops(&s->domain[0]->fid, HMREG_MULTI_OPS, 0, (void **)&s->ops, NULL));
	assert_ok(fi_open_ops(&s->end[0]->fabric->fid, HMREG_HMEM_OPS, 0, (void **)&s->hmem, NULL));
	s->made = (struct made){ .kind = kind, .device = maker->device(0) };
	if (maker->cannot(kind, s->made.device))
		conf_skip(c, "no such memory here");
	assert_int_equal(maker->make(kind, s->made.device, 2 * UNIT, &s->made), 0);
	s->iov = (struct iovec){ s->made.addr, 2 * UNIT };
	s->attr = (struct fi_mr_attr){ .mr_iov = &s->iov,
				       .iov_count = 1,
				       .access = CONF_ALL,
				       .iface = maker->iface,
				       .requested_key = 77 };
	s->attr.device.cuda = s->made.device;
	if (hmem_try(s->end[0], &s->attr) != 0) {
		maker->drop(&s->made);
		conf_skip(c, "the NIC does not take this memory");
	}
}

static uint64_t exports(struct scene *s, uint64_t *open)
{
	uint64_t made;

	assert_ok(s->hmem->exports(&s->end[0]->fabric->fid, &made, NULL, open));
	return made;
}

/* One dma-buf, and one descriptor, for all of them, however many threads register. */
static void fn_01_exported_once(struct conf *c)
{
	uint64_t made, open, now;
	struct hmreg_multi *multi = NULL;
	struct scene s;
	size_t fds;

	set(c, &s, MAKE_DEVICE);
	fds = test_fds();
	made = exports(&s, &open);
	for (unsigned int threads = 1; threads <= NICS; threads++) {
		struct hmreg_multi_call call = { .size = sizeof(call), .threads = threads };

		assert_ok(s.ops->reg(s.domain, NICS, &s.attr, 0, &call, &multi));
		made += c->profile->at_once ? 0 : 1; /* the software NIC exports nothing */
		assert_int_equal(exports(&s, &now), made);
		assert_true(now <= open + 1);
		assert_true(test_fds() <= fds + 1);
		assert_ok(fi_close(&multi->fid));
		assert_int_equal(exports(&s, &now), made);
		assert_int_equal(now, open);
		assert_int_equal(test_fds(), fds);
	}
	maker->drop(&s.made);
}

static void reach(struct scene *s, struct conf_end *end, struct fid_mr *mr, size_t offset,
		  size_t len)
{
	struct conf_region region = { .end = end, .mr = mr }, *local;
	uint8_t *src = conf_alloc(end->conf, len), *have = malloc(len);
	uint64_t addr = end->mode & FI_MR_VIRT_ADDR ? (uintptr_t)s->made.addr + offset : 0;

	assert_non_null(have);
	local = conf_reg(end, src, len, CONF_LOCAL);
	conf_fill(end->conf, src, len);
	assert_posted(fi_write(end->ep, src, len, local->desc, conf_addr(end, end), addr,
			       conf_key(end, &region), end));
	conf_done(end->tx, end);
	assert_int_equal(maker->read(&s->made, offset, have, len), 0);
	assert_memory_equal(have, src, len);
	for (; region.maps > 0; region.maps--)
		assert_ok(fi_mr_unmap_key(end->domain, region.map[region.maps - 1].key));
	conf_drop_region(local);
	free(have);
}

/* Does an export stay open with its region? */
static bool keeps(void)
{
	const char *most = getenv("HMREG_DMABUF_KEEP");

	return !most || strcmp(most, "0") != 0;
}

static void reached_by_each(struct conf *c, enum make kind)
{
	struct hmreg_multi *multi = NULL, *sub = NULL;
	struct scene s;

	set(c, &s, kind);
	assert_ok(s.ops->reg(s.domain, NICS, &s.attr, 0, NULL, &multi));
	/* over the middle, where two allocations may meet; without the base's export not every driver has one */
	if (keeps())
		assert_ok(s.ops->sub(multi, (char *)s.made.addr + UNIT - 100, 200, CONF_ALL, 78, 0,
				     NULL, &sub));
	for (size_t i = 0; i < NICS; i++) {
		conf_ready(s.end[i], multi->mr[i], NULL);
		reach(&s, s.end[i], multi->mr[i], 0, 2 * UNIT);
		if (!sub)
			continue;
		conf_ready(s.end[i], sub->mr[i], NULL);
		reach(&s, s.end[i], sub->mr[i], UNIT - 100, 200);
	}
	if (sub) {
		assert_refused(fi_close(&multi->fid), -FI_EBUSY);
		assert_ok(fi_close(&sub->fid));
	}
	assert_ok(fi_close(&multi->fid));
	maker->drop(&s.made);
}

static void fn_05_every_nic_reaches_device_memory(struct conf *c)
{
	reached_by_each(c, MAKE_DEVICE);
}

static void fn_08_every_nic_reaches_two_allocations(struct conf *c)
{
	reached_by_each(c, MAKE_VMM);
}

/* An export that fails: nothing is left, and it is told. */
static void fn_05_an_export_fails(struct conf *c)
{
	struct hmreg_multi_call call = { .size = sizeof(call), .threads = 2 };
	struct hmreg_multi *multi = NULL;
	struct scene s;
	size_t fds;

	set(c, &s, MAKE_DEVICE);
	fds = test_fds();
	s.iov.iov_len = s.made.len + (1 << 20); /* beyond the allocation */
	conf_log_mark(__FILE__, __LINE__);
	assert_int_equal(s.ops->reg(s.domain, NICS, &s.attr, 0, &call, &multi), -FI_EINVAL);
	conf_log_expect(1, NULL, "a range beyond the allocation", __FILE__, __LINE__);
	assert_null(multi);
	assert_true(call.refused < NICS);
	assert_int_equal(test_fds(), fds);
	for (size_t i = 0; i < NICS; i++)
		conf_check_stats(s.end[i], 0, 0, 0);
	maker->drop(&s.made);
}

static const struct conf_case cases[] = {
	CONF(fn_01_exported_once),
	CONF(fn_05_every_nic_reaches_device_memory),
	CONF(fn_08_every_nic_reaches_two_allocations),
	CONF(fn_05_an_export_fails),
};

int main(int argc, char **argv)
{
	return hmem_main(argc, argv, &maker, cases, count_of(cases));
}
