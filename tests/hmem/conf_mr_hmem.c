/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of accelerator memory through the public interface: registered, reached by peers, sent and
 * received, closed.  HMREG_TEST_HMEM names the interface, whose driver may be emulated or real.
 */
#include "tests/conformance/harness.h"
#include "tests/fds.h"
#include "tests/hmem/maker.h"

#define UNIT	   ((size_t)65536)
#define GUARD	   64
#define MOST_BYTES ((size_t)16 << 20) /* what a driver may round a length up to */

static const struct maker *maker;

/* ---- memory ---- */

static bool can_make(enum make kind)
{
	return maker->cannot(kind, maker->device(0)) == NULL;
}

static struct made make(struct conf *c, enum make kind, size_t at)
{
	int device = maker->device(at % maker->devices());
	const char *why = maker->cannot(kind, device);
	struct made made = { .kind = kind, .device = device };

	if (why)
		conf_skip(c, why);
	assert_int_equal(maker->make(kind, device, 2 * UNIT, &made), 0);
	return made;
}

static struct fi_mr_attr attr_of(const struct made *made, struct iovec *iov)
{
	struct fi_mr_attr attr = {
		.mr_iov = iov, .iov_count = 1, .access = CONF_ALL, .iface = maker->iface
	};

	attr.device.cuda = made->device;
	return attr;
}

/* Lines that a driver may have had to say about such memory, once in a process. */
static void forgive_log(void)
{
	unsigned int lines = 0;

	for (const char *at = conf_log_text(); (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	conf_log_expect(lines, NULL, "registration", __FILE__, __LINE__);
}

static struct conf_region *reg(struct conf_end *end, const struct made *made, size_t offset,
			       size_t len, uint64_t flags)
{
	struct iovec iov = { (char *)made->addr + offset, len };
	struct fi_mr_attr attr = attr_of(made, &iov);

	return conf_regattr(end, &attr, flags);
}

/* Random bytes all over, so that whatever a transfer leaves alone can be told. */
static uint8_t *fill(struct conf *c, const struct made *made)
{
	uint8_t *bytes = conf_alloc(c, made->len);

	conf_fill(c, bytes, made->len);
	assert_int_equal(maker->write(made, 0, bytes, made->len), 0);
	return bytes;
}

static void check(struct conf *c, const struct made *made, const uint8_t *want)
{
	uint8_t *have = malloc(made->len);

	(void)c;
	assert_non_null(have);
	assert_int_equal(maker->read(made, 0, have, made->len), 0);
	assert_memory_equal(have, want, made->len);
	free(have);
}

/* Two ends with FI_HMEM, and an initiator's host buffer. */
struct scene {
	struct conf_end *a, *b;
	fi_addr_t to;
	uint8_t *host;
	struct conf_region *local;
};

static struct scene open_scene(struct conf *c)
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
	struct made made = make(c, kind, at);
	struct iovec iov = { (char *)made.addr + GUARD, made.len - 2 * GUARD };
	struct fi_mr_attr attr = attr_of(&made, &iov);
	struct conf_region *region;
	struct fid_mr *mr;
	uint64_t key;
	int ret;

	conf_log_mark(__FILE__, __LINE__);
	attr.requested_key = 77777;
	ret = fi_mr_regattr(s->b->domain, &attr, 0, &mr);
	forgive_log();
	/* what only its interface can copy is out of a NIC's reach */
	assert_int_equal(ret, only_copied(kind) && !c->profile->at_once ? -FI_EOPNOTSUPP : 0);
	if (ret != 0) {
		maker->drop(&made);
		return;
	}
	assert_ok(fi_close(&mr->fid));
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
		check(c, &made, want);
		memset(s->host, 0, len);
		assert_posted(fi_read(s->a->ep, s->host, len, s->local->desc, s->to,
				      region->addr + off, key, c));
		conf_done(s->a->tx, c);
		assert_memory_equal(s->host, want + GUARD + off, len);
		check(c, &made, want);
	}
	/* a byte past the region, which is memory of the allocation, is not reached */
	assert_posted(fi_write(s->a->ep, s->host, 8, s->local->desc, s->to,
			       region->addr + made.len - 2 * GUARD - 7, key, c));
	conf_failed(s->a->tx, c, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	check(c, &made, want);
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
		struct made to = make(c, MAKE_DEVICE, at), from = make(c, MAKE_DEVICE, at / 2);
		uint8_t *want = fill(c, &to), *src = fill(c, &from);
		struct conf_region *target = reg(s.b, &to, 0, to.len, 0);
		struct conf_region *source = reg(s.a, &from, 0, from.len, 0);

		assert_posted(fi_write(s.a->ep, (char *)from.addr + 5, UNIT, source->desc, s.to,
				       target->addr + 11, conf_key(s.a, target), c));
		conf_done(s.a->tx, c);
		memcpy(want + 11, src + 5, UNIT);
		check(c, &to, want);
		check(c, &from, src);
		conf_drop_region(target);
		conf_drop_region(source);
		maker->drop(&to);
		maker->drop(&from);
	}
}

static void messages(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made to = make(c, MAKE_DEVICE, 0), from = make(c, MAKE_DEVICE, 1);
	uint8_t *want = fill(c, &to), *src = fill(c, &from);
	struct conf_region *target = reg(s.b, &to, 0, to.len, 0);
	struct conf_region *source = reg(s.a, &from, 0, from.len, 0);

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
		check(c, &to, want);
	}
	conf_drop_region(source);
	conf_drop_region(target);
	maker->drop(&to);
	maker->drop(&from);
}

static void atomics(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);
	uint8_t *want = fill(c, &made);
	struct conf_region *region = reg(s.b, &made, 0, made.len, 0);
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
		check(c, &made, want);
	}
	conf_drop_region(region);
	maker->drop(&made);
}

/* ---- MODE-09 ---- */

static void mode_09_reg_is_for_host_memory(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);
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
	struct made made = make(c, MAKE_DEVICE, 0);
	uint8_t *want = fill(c, &made);
	struct conf_region *region = conf_reg(s.b, made.addr, made.len, CONF_ALL);

	assert_posted(fi_write(s.a->ep, s.host, UNIT, s.local->desc, s.to, region->addr,
			       conf_key(s.a, region), c));
	conf_done(s.a->tx, c);
	memcpy(want, s.host, UNIT);
	check(c, &made, want);
	conf_drop_region(region);
	maker->drop(&made);
}

/* Neither FI_MR_LOCAL nor FI_MR_HMEM: a device's buffer needs no descriptor. */
static void mode_09_no_desc(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0), from = make(c, MAKE_DEVICE, 1);
	uint8_t *want = fill(c, &made), *src = fill(c, &from);
	struct conf_region *region = reg(s.b, &made, 0, made.len, 0);

	assert_posted(fi_write(s.a->ep, from.addr, UNIT, NULL, s.to, region->addr,
			       conf_key(s.a, region), c));
	conf_done(s.a->tx, c);
	memcpy(want, src, UNIT);
	check(c, &made, want);
	assert_posted(fi_recv(s.b->ep, (char *)made.addr + 8, 1000, NULL, FI_ADDR_UNSPEC, c));
	assert_posted(fi_send(s.a->ep, (char *)from.addr + 3, 1000, NULL, s.to, c));
	conf_done(s.a->tx, c);
	conf_done(s.b->rx, c);
	memcpy(want + 8, src + 3, 1000);
	check(c, &made, want);
	conf_drop_region(region);
	maker->drop(&made);
	maker->drop(&from);
}

/* FI_MR_HMEM: a device's buffer needs one, whether or not the host's do. */
static void mode_09_desc_needed(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);

	assert_refused(fi_send(s.a->ep, made.addr, 100, NULL, s.to, c), -FI_EINVAL);
	assert_refused(fi_recv(s.b->ep, made.addr, 100, NULL, FI_ADDR_UNSPEC, c), -FI_EINVAL);
	assert_refused(fi_inject(s.a->ep, made.addr, 100, s.to), -FI_EINVAL);
	maker->drop(&made);
}

/* ---- bad input ---- */

static void attr_02_refusals(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);
	struct iovec iov = { made.addr, UNIT }, host = { s.host, UNIT };
	struct fi_mr_attr attr = attr_of(&made, &iov), wrong = attr;
	size_t fds = test_fds();
	struct fid_mr *mr = NULL;

	wrong.requested_key = attr.requested_key = 901;
	if (maker->devices() > 1) {
		wrong.device.cuda = maker->device(1);
		assert_refused_with(fi_mr_regattr(s.b->domain, &wrong, 0, &mr), -FI_EINVAL,
				    maker->name);
	}
	wrong.device.cuda = 0x7ffffff;
	assert_refused(fi_mr_regattr(s.b->domain, &wrong, 0, &mr), -FI_ENODEV);
	wrong = attr;
	for (int iface = FI_HMEM_CUDA; iface <= FI_HMEM_SYNAPSEAI; iface++) {
		wrong.iface = iface;
		if (wrong.iface != maker->iface)
			assert_refused(fi_mr_regattr(s.b->domain, &wrong, 0, &mr), -FI_ENOSYS);
	}
	wrong.iface = FI_HMEM_SYNAPSEAI + 1;
	assert_refused(fi_mr_regattr(s.b->domain, &wrong, 0, &mr), -FI_EINVAL);
	wrong = attr;
	wrong.mr_iov = &host;
	assert_refused(fi_mr_regattr(s.b->domain, &wrong, 0, &mr), -FI_EINVAL);
	iov.iov_len = made.len + 16 * UNIT * UNIT;
	assert_refused(fi_mr_regattr(s.b->domain, &attr, 0, &mr), -FI_EINVAL);
	assert_null(mr);
	conf_check_stats(s.b, 0, 0, 0);
	assert_true(test_fds() == fds);
	maker->drop(&made);
}

static void flag_03_04_refusals(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0), host = make(c, MAKE_HOST, 0);
	struct iovec iov = { made.addr, UNIT }, hosts = { host.addr, UNIT };
	struct fi_mr_attr attr = attr_of(&made, &iov), hattr = attr_of(&host, &hosts);
	struct conf_region *region;
	struct fid_mr *mr = NULL;

	attr.requested_key = hattr.requested_key = 902;
	assert_refused(fi_mr_regattr(s.b->domain, &attr, FI_HMEM_HOST_ALLOC, &mr), -FI_EINVAL);
	assert_refused(fi_mr_regattr(s.b->domain, &attr, FI_HMEM_HOST_ALLOC | FI_HMEM_DEVICE_ONLY,
				     &mr),
		       -FI_EINVAL);
	assert_refused(fi_mr_regattr(s.b->domain, &hattr, FI_HMEM_DEVICE_ONLY, &mr), -FI_EINVAL);
	assert_null(mr);
	region = conf_regattr(s.b, &hattr, FI_HMEM_HOST_ALLOC);
	assert_posted(fi_write(s.a->ep, s.host, UNIT, s.local->desc, s.to, region->addr,
			       conf_key(s.a, region), c));
	conf_done(s.a->tx, c);
	assert_memory_equal(host.addr, s.host, UNIT);
	conf_drop_region(region);
	maker->drop(&made);
	maker->drop(&host);
}

static void fn_15_freed(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);
	struct iovec iov = { made.addr, UNIT };
	struct fi_mr_attr attr = attr_of(&made, &iov);
	struct fid_mr *mr = NULL;
	int ret;

	maker->drop(&made);
	attr.requested_key = 903;
	conf_log_mark(__FILE__, __LINE__);
	ret = fi_mr_regattr(s.b->domain, &attr, 0, &mr);
	conf_log_expect(1, NULL, "registration of freed memory", __FILE__, __LINE__);
	assert_true(ret < 0);
	assert_null(mr);
}

static bool has_identity(const struct conf_end *end, const struct made *made)
{
	struct hmreg_hmem_memory memory = { .size = sizeof(memory) };
	struct hmreg_hmem_ops *ops;

	assert_ok(fi_open_ops(&end->fabric->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->query(&end->fabric->fid, made->addr, made->len, &memory));
	return memory.id != 0;
}

/* Memory freed under its region: an error, and everything else goes on. */
static void freed_under_its_region(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made, other;
	struct conf_region *region, *good;
	struct fi_cq_err_entry entry = { .err = 0 };

	if (!c->profile->at_once)
		conf_skip(c, "the NIC holds the memory of its regions");
	made = make(c, MAKE_DEVICE, 0);
	other = make(c, MAKE_DEVICE, 0);
	region = reg(s.b, &made, 0, UNIT, 0);
	good = reg(s.b, &other, 0, UNIT, 0);
	maker->drop(&made);
	conf_log_mark(__FILE__, __LINE__);
	assert_posted(fi_write(s.a->ep, s.host, 64, s.local->desc, s.to, region->addr,
			       conf_key(s.a, region), c));
	conf_error(s.a->tx, &entry);
	assert_true(entry.prov_errno == HMREG_MEMORY || entry.prov_errno == HMREG_FAULT);
	/* the driver's own error is named, where it was the driver that found out */
	conf_log_expect(entry.prov_errno == HMREG_MEMORY, NULL, "a transfer", __FILE__, __LINE__);
	assert_posted(fi_write(s.a->ep, s.host, 64, s.local->desc, s.to, good->addr,
			       conf_key(s.a, good), c));
	conf_done(s.a->tx, c);
	conf_drop_region(good);
	conf_drop_region(region);
	maker->drop(&other);
}

/* Its address given to another allocation: the old key does not lead there. */
static void fn_29_allocated_anew(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made, anew;
	struct conf_region *region;
	uint8_t *want;

	if (!c->profile->at_once)
		conf_skip(c, "the NIC holds the memory of its regions");
	made = make(c, MAKE_DEVICE, 0);
	if (!has_identity(s.b, &made)) {
		maker->drop(&made);
		conf_skip(c, "the driver tells no allocation from the next");
	}
	region = reg(s.b, &made, 0, UNIT, 0);
	maker->drop(&made);
	anew = make(c, MAKE_DEVICE, 0);
	want = fill(c, &anew);
	assert_posted(fi_write(s.a->ep, s.host, 64, s.local->desc, s.to, region->addr,
			       conf_key(s.a, region), c));
	if (anew.addr == made.addr)
		conf_failed(s.a->tx, c, FI_EFAULT, HMREG_FAULT);
	else
		conf_await(s.a->tx);
	check(c, &anew, want);
	print_message("the address %s\n",
		      anew.addr == made.addr ? "came again" : "did not come again");
	conf_drop_region(region);
	maker->drop(&anew);
}

/* ---- paths, lifetime ---- */

static void fn_23_path(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);
	struct conf_region *region = reg(s.b, &made, 0, UNIT, 0);
	struct hmreg_region_info info = { .size = sizeof(info) };
	struct hmreg_mr_ops *ops;

	assert_ok(fi_open_ops(&region->mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->info(&region->mr->fid, &info));
	assert_int_equal(info.path, c->profile->at_once ? HMREG_PATH_COPY : HMREG_PATH_DMABUF);
	assert_ok(fi_open_ops(&s.local->mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->info(&s.local->mr->fid, &info));
	assert_int_equal(info.path, c->profile->at_once ? HMREG_PATH_SOFTWARE : HMREG_PATH_HOST);
	conf_drop_region(region);
	maker->drop(&made);
}

/* What a NIC cannot do with a device has a reason, and what it can has none. */
static void fn_20_fn_22_reasons(struct conf *c)
{
	struct scene s = open_scene(c);
	struct hmreg_hmem_path path = { .size = sizeof(path) };
	struct hmreg_hmem_ops *ops;

	assert_ok(fi_open_ops(&s.a->fabric->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL));
	for (size_t i = 0; i < maker->devices(); i++) {
		assert_ok(ops->path(&s.a->fabric->fid, s.a->info, maker->iface, maker->device(i),
				    &path));
		assert_int_equal(!path.dmabuf, path.dmabuf_reason[0] != 0);
		assert_int_equal(!path.peer, path.peer_reason[0] != 0);
		assert_int_equal(!path.copy, path.copy_reason[0] != 0);
		assert_int_equal(path.path != 0, path.dmabuf || path.peer || path.copy);
	}
}

/* FN-01, FN-04: thousands of registrations, each closed, leave fds, objects and figures as they were. */
static void fn_01_fn_04_cycles(struct conf *c)
{
	const char *env = getenv("HMREG_HMEM_CYCLES");
	unsigned long cycles = env ? strtoul(env, NULL, 0) : 2000;
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);
	struct iovec iov = { made.addr, UNIT };
	struct fi_mr_attr attr = attr_of(&made, &iov);
	const struct emu_accel_hooks *hooks = maker->hooks();
	long live = hooks ? hooks->live("*") : 0;
	size_t fds = test_fds();
	struct fid_mr *mr;

	if (conf_valgrind())
		cycles = 20;
	for (unsigned long i = 0; i < cycles; i++) {
		iov.iov_base = (char *)made.addr + i % 4096;
		attr.requested_key = 1000 + i;
		if (fi_mr_regattr(s.b->domain, &attr, 0, &mr) != 0 || fi_close(&mr->fid) != 0)
			fail_msg("cycle %lu", i);
	}
	conf_check_stats(s.b, 0, 0, 0);
	assert_true(test_fds() == fds);
	if (hooks)
		assert_true(hooks->live("*") == live);
	print_message("%s: %lu cycles; %zu descriptors as before, %ld objects of the driver\n",
		      maker->name, cycles, fds, live);
	maker->drop(&made);
}

/* Regions that stay: what they keep open is bounded, and goes with the last of them. */
static void fn_01_many_at_once(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);
	size_t fds = test_fds(), most = 0;
	static struct fid_mr *mr[500];
	struct iovec iov = { made.addr, UNIT };
	struct fi_mr_attr attr = attr_of(&made, &iov);

	for (size_t i = 0; i < 500; i++) {
		iov.iov_base = (char *)made.addr + i;
		attr.requested_key = 2000 + i;
		assert_ok(fi_mr_regattr(s.b->domain, &attr, 0, &mr[i]));
	}
	most = test_fds();
	/* one export for the whole allocation, where the driver tells whether it is still the same */
	assert_true(most <= fds + (has_identity(s.b, &made) ? 1 : 64));
	conf_check_stats(s.b, 500, 500 * UNIT, 0);
	for (size_t i = 0; i < 500; i++)
		assert_ok(fi_close(&mr[i]->fid));
	assert_true(test_fds() == fds);
	maker->drop(&made);
}

/* Buffers of the host and of devices in one region, where a region takes several. */
static void api_06_mixed_segments(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make(c, MAKE_DEVICE, 0);
	uint8_t *want = fill(c, &made), *host = conf_alloc(c, UNIT);
	struct iovec iov[2] = { { host, 100 }, { (char *)made.addr + GUARD, UNIT } };
	struct conf_region *region;

	if (s.b->info->domain_attr->mr_iov_limit < 2)
		conf_skip(c, "a region is one buffer");
	region = conf_regv(s.b, iov, 2, CONF_ALL, 0, NULL);
	assert_posted(fi_write(s.a->ep, s.host, 1000, s.local->desc, s.to, region->addr,
			       conf_key(s.a, region), c));
	conf_done(s.a->tx, c);
	assert_memory_equal(host, s.host, 100);
	memcpy(want + GUARD, s.host + 100, 900);
	check(c, &made, want);
	conf_drop_region(region);
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
	CONF(attr_02_refusals),
	CONF(flag_03_04_refusals),
	CONF(fn_15_freed),
	CONF(freed_under_its_region),
	CONF(fn_29_allocated_anew),
	CONF(fn_23_path),
	CONF(fn_20_fn_22_reasons),
	CONF(fn_01_fn_04_cycles),
	CONF(fn_01_many_at_once),
	CONF_WITHOUT(api_06_mixed_segments, FI_MR_HMEM),
};

int main(int argc, char **argv)
{
	const char *name = getenv("HMREG_TEST_HMEM"), *why;

	maker = name ? maker_of(name) : NULL;
	if (!maker) {
		fprintf(stderr, "HMREG_TEST_HMEM: cuda, rocr, ze, neuron or synapseai\n");
		return 2;
	}
	why = maker->open();
	if (why) {
		printf("skipped: %s: %s\n", maker->name, why);
		return 77;
	}
	setenv("FI_LOG_LEVEL", "warn", 1); /* as the cases want it, before the library reads it */
	maker_warm_up(maker);
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
