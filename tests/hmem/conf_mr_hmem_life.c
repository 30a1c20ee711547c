/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of accelerator memory: what is refused, memory that goes, ways to the NIC, how long all lasts. */
#include "tests/hmem/conf_mr_hmem.h"

/* ---- bad input ---- */

static void attr_02_refusals(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make_memory(c, MAKE_DEVICE, 0);
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
	struct made made = make_memory(c, MAKE_DEVICE, 0), host = make_memory(c, MAKE_HOST, 0);
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

/* HMREG_HMEM_OPS: what it does not give has one line. */
static void hmem_02_allocation_refused(struct conf *c)
{
	enum fi_hmem_iface other = maker->iface == FI_HMEM_CUDA ? FI_HMEM_ROCR : FI_HMEM_CUDA;
	struct scene s = open_scene(c);
	struct fid *fabric = &s.a->fabric->fid;
	void *const untouched = &s;
	void *addr = untouched;
	struct hmreg_hmem_ops *ops;
	int ret;

	assert_ok(fi_open_ops(fabric, HMREG_HMEM_OPS, 0, (void **)&ops, NULL));
	assert_refused_with(ops->alloc(fabric, maker->iface, 0x7ffffff, HMREG_HMEM_DEVICE, UNIT,
				       &addr),
			    -FI_ENODEV, "134217727");
	assert_refused_with(ops->alloc(fabric, other, 0, HMREG_HMEM_DEVICE, UNIT, &addr),
			    -FI_ENOSYS, "FI_HMEM=");
	assert_refused_with(ops->free(fabric, other, 0, HMREG_HMEM_DEVICE, s.host), -FI_ENOSYS,
			    "FI_HMEM=");
	assert_refused_with(ops->alloc(fabric, FI_HMEM_SYSTEM, 0, HMREG_HMEM_HOST, UNIT, &addr),
			    -FI_ENOSYS, "system allocates no host memory");
	conf_log_mark(__FILE__, __LINE__);
	ret = ops->alloc(fabric, maker->iface, maker->device(0), HMREG_HMEM_MANAGED, UNIT, &addr);
	if (ret == -FI_ENOSYS)
		conf_log_expect(1, "allocates no managed memory", "alloc", __FILE__, __LINE__);
	else
		assert_int_equal(ret, 0);
	if (ret != 0)
		assert_ptr_equal(addr, untouched);
	else
		assert_ok(ops->free(fabric, maker->iface, maker->device(0), HMREG_HMEM_MANAGED,
				    addr));
}

static void fn_15_freed(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make_memory(c, MAKE_DEVICE, 0);
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
	made = make_memory(c, MAKE_DEVICE, 0);
	other = make_memory(c, MAKE_DEVICE, 0);
	region = reg_memory(s.b, &made, 0, UNIT, 0);
	good = reg_memory(s.b, &other, 0, UNIT, 0);
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
	made = make_memory(c, MAKE_DEVICE, 0);
	if (!has_identity(s.b, &made)) {
		maker->drop(&made);
		conf_skip(c, "the driver tells no allocation from the next");
	}
	region = reg_memory(s.b, &made, 0, UNIT, 0);
	maker->drop(&made);
	anew = make_memory(c, MAKE_DEVICE, 0);
	want = fill_memory(c, &anew);
	assert_posted(fi_write(s.a->ep, s.host, 64, s.local->desc, s.to, region->addr,
			       conf_key(s.a, region), c));
	if (anew.addr == made.addr)
		conf_failed(s.a->tx, c, FI_EFAULT, HMREG_FAULT);
	else
		conf_await(s.a->tx);
	check_memory(c, &anew, want);
	print_message("the address %s\n",
		      anew.addr == made.addr ? "came again" : "did not come again");
	conf_drop_region(region);
	maker->drop(&anew);
}

/* ---- paths, lifetime ---- */

static void fn_23_path(struct conf *c)
{
	struct scene s = open_scene(c);
	struct made made = make_memory(c, MAKE_DEVICE, 0);
	struct conf_region *region = reg_memory(s.b, &made, 0, UNIT, 0);
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
	struct made made = make_memory(c, MAKE_DEVICE, 0);
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
	struct made made = make_memory(c, MAKE_DEVICE, 0);
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
	struct made made = make_memory(c, MAKE_DEVICE, 0);
	uint8_t *want = fill_memory(c, &made), *host = conf_alloc(c, UNIT);
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
	check_memory(c, &made, want);
	conf_drop_region(region);
	maker->drop(&made);
}
const struct conf_case life_cases[] = {
	CONF(attr_02_refusals),
	CONF(flag_03_04_refusals),
	CONF(hmem_02_allocation_refused),
	CONF(fn_15_freed),
	CONF(freed_under_its_region),
	CONF(fn_29_allocated_anew),
	CONF(fn_23_path),
	CONF(fn_20_fn_22_reasons),
	CONF(fn_01_fn_04_cycles),
	CONF(fn_01_many_at_once),
	CONF_WITHOUT(api_06_mixed_segments, FI_MR_HMEM),
};
const size_t life_case_count = sizeof(life_cases) / sizeof(life_cases[0]);
