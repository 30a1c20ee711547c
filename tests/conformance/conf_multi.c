/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One buffer registered with many domains by one call (HMREG_MULTI_OPS).  Domains are of the profile, and where
 * it has a peer, of both in turns.
 */
#include <signal.h>
#include <sys/mman.h>

#include "tests/conformance/harness.h"

#define NICS 4
#define LEN  8192

struct nics {
	struct conf *conf;
	struct conf_end *end[NICS];
	struct fid_domain *domain[NICS];
	struct hmreg_multi_ops *ops;
};

static void open_nics(struct conf *c, struct nics *n, const struct conf_opts *opts)
{
	n->conf = c;
	for (size_t i = 0; i < NICS; i++) {
		struct conf_opts mine = *opts;

		mine.domain = i % 2 ? c->profile->peer : NULL;
		n->end[i] = conf_open(c, &mine);
		n->domain[i] = n->end[i]->domain;
	}
	assert_ok(fi_open_ops(&n->domain[0]->fid, HMREG_MULTI_OPS, 0, (void **)&n->ops, NULL));
	assert_true(n->ops->size >= sizeof(*n->ops));
}

/* Without endpoints, but for where regions are bound to one. */
static void open_domains(struct conf *c, struct nics *n)
{
	open_nics(c, n, &(struct conf_opts){ .no_ep = !(c->mode & FI_MR_ENDPOINT) });
}

static struct hmreg_multi *reg(struct nics *n, size_t count, void *buf, size_t len, uint64_t access)
{
	struct iovec iov = { buf, len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = access, .requested_key = 77, .context = n
	};
	struct hmreg_multi *multi = NULL;

	assert_ok(n->ops->reg(n->domain, count, &attr, 0, NULL, &multi));
	assert_non_null(multi);
	assert_int_equal(multi->fid.fclass, HMREG_CLASS_MULTI);
	assert_ptr_equal(multi->fid.context, n);
	assert_int_equal(multi->count, count);
	return multi;
}

static struct hmreg_multi *part(struct nics *n, struct hmreg_multi *base, void *buf, size_t len,
				uint64_t access, uint64_t key)
{
	struct hmreg_multi *multi = NULL;

	assert_ok(n->ops->sub(base, buf, len, access, key, 0, NULL, &multi));
	assert_int_equal(multi->count, base->count);
	return multi;
}

static void drop(struct hmreg_multi *multi)
{
	assert_ok(fi_close(&multi->fid));
}

/* Every domain holds so many regions and bytes. */
static void check_stats(struct nics *n, size_t count, uint64_t regions, uint64_t bytes)
{
	for (size_t i = 0; i < NICS; i++)
		conf_check_stats(n->end[i], i < count ? regions : 0, i < count ? bytes : 0, 0);
}

/* ---- what a call makes ---- */

static void fn_05_one_call_any_count(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct nics n;

	open_domains(c, &n);
	for (size_t count = 1; count <= NICS; count++) {
		struct hmreg_multi *multi = reg(&n, count, buf, LEN, CONF_ALL);
		uint64_t keys[NICS];
		void *descs[NICS];

		check_stats(&n, count, 1, LEN);
		assert_ok(n.ops->keys(multi, keys, descs));
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(keys[i], fi_mr_key(multi->mr[i]));
			assert_ptr_equal(descs[i], fi_mr_desc(multi->mr[i]));
			if (!(n.end[i]->mode & (FI_MR_PROV_KEY | FI_MR_RAW)))
				assert_int_equal(keys[i], 77);
			assert_ptr_equal(multi->mr[i]->fid.context, &n);
			conf_ready(n.end[i], multi->mr[i], NULL);
		}
		assert_ok(n.ops->keys(multi, NULL, descs));
		assert_ok(n.ops->keys(multi, keys, NULL));
		drop(multi);
		check_stats(&n, 0, 0, 0);
	}
}

/* Each region is one of its domain, which peers reach by its key. */
static void reach(struct conf_end *end, struct fid_mr *mr, uint8_t *at, size_t len)
{
	struct conf_region region = { .end = end, .mr = mr }, *local;
	uint8_t *src = conf_alloc(end->conf, len);
	uint64_t addr = end->mode & FI_MR_VIRT_ADDR ? (uintptr_t)at : 0;

	local = conf_reg(end, src, len, CONF_LOCAL);
	conf_fill(end->conf, src, len);
	assert_posted(fi_write(end->ep, src, len, local->desc, conf_addr(end, end), addr,
			       conf_key(end, &region), end));
	conf_done(end->tx, end);
	conf_arrives(at, src, len);
	while (region.maps > 0) {
		region.maps--;
		assert_ok(fi_mr_unmap_key(end->domain, region.map[region.maps].key));
	}
	conf_drop_region(local);
}

static void fn_05_every_nic_reaches_it(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct hmreg_multi *multi, *sub;
	struct nics n;

	open_nics(c, &n, &(struct conf_opts){ .disabled = false });
	multi = reg(&n, NICS, buf, LEN, CONF_ALL);
	sub = part(&n, multi, buf + 100, 1000, CONF_ALL, 78);
	for (size_t i = 0; i < NICS; i++) {
		conf_ready(n.end[i], multi->mr[i], NULL);
		conf_ready(n.end[i], sub->mr[i], NULL);
		reach(n.end[i], multi->mr[i], buf, LEN);
		reach(n.end[i], sub->mr[i], buf + 100, 1000);
	}
	drop(sub);
	for (size_t i = 0; i < NICS; i++)
		reach(n.end[i], multi->mr[i], buf, LEN);
	drop(multi);
}

static void sub_03_parts_hold_their_base(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct hmreg_multi *multi, *sub, *deep;
	struct nics n;

	open_domains(c, &n);
	multi = reg(&n, NICS, buf, LEN, CONF_ALL);
	sub = part(&n, multi, buf + 64, 4096, FI_REMOTE_READ, 78);
	deep = part(&n, sub, buf + 128, 64, FI_REMOTE_READ, 79);
	check_stats(&n, NICS, 3, LEN + 4096 + 64);
	for (size_t i = 0; i < NICS; i++)
		if (!(n.end[i]->mode & FI_MR_RAW))
			assert_true(fi_mr_key(multi->mr[i]) != fi_mr_key(sub->mr[i]) &&
				    fi_mr_key(sub->mr[i]) != fi_mr_key(deep->mr[i]));
	assert_refused(fi_close(&multi->fid), -FI_EBUSY);
	assert_refused(fi_close(&sub->fid), -FI_EBUSY);
	check_stats(&n, NICS, 3, LEN + 4096 + 64);
	drop(deep);
	assert_refused(fi_close(&multi->fid), -FI_EBUSY);
	drop(sub);
	/* it was not touched by what was tried */
	drop(part(&n, multi, buf, LEN, CONF_ALL, 80));
	drop(multi);
	check_stats(&n, 0, 0, 0);
}

/* One of the domains has a sub-MR of its own. */
static void sub_03_one_busy_region_keeps_all(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct iovec iov = { buf, 64 };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 5
	};
	struct hmreg_multi *multi;
	struct fid_mr *mr;
	struct nics n;

	open_domains(c, &n);
	multi = reg(&n, NICS, buf, LEN, CONF_ALL);
	attr.base_mr = multi->mr[NICS - 1];
	assert_ok(fi_mr_regattr(n.domain[NICS - 1], &attr, 0, &mr));
	assert_refused(fi_close(&multi->fid), -FI_EBUSY);
	for (size_t i = 0; i + 1 < NICS; i++)
		conf_check_stats(n.end[i], 1, LEN, 0);
	assert_ok(fi_close(&mr->fid));
	assert_refused(fi_close(&multi->mr[1]->fid), -FI_EBUSY);
	drop(multi);
	check_stats(&n, 0, 0, 0);
}

/* ---- refusals ---- */

static void refused(struct nics *n, struct fi_mr_attr *attr, uint64_t flags, size_t which, int code)
{
	struct hmreg_multi_call call = { .size = sizeof(call) };
	struct hmreg_multi *multi = (struct hmreg_multi *)n;

	assert_refused(n->ops->reg(n->domain, NICS, attr, flags, &call, &multi), code);
	assert_ptr_equal(multi, n);
	assert_int_equal(call.refused, which);
	assert_true(call.reason[0] != '\0');
	assert_true(call.used >= 1);
	call = (struct hmreg_multi_call){ .size = sizeof(call), .threads = 3 };
	assert_refused(n->ops->reg(n->domain, NICS, attr, flags, &call, &multi), code);
	assert_ptr_equal(multi, n);
	assert_int_equal(call.refused, which);
}

/* The key that is asked for is in use in the third. */
static void fn_05_a_key_in_use_rolls_back(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct iovec iov = { buf, LEN };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .requested_key = 77
	};
	struct fid_mr *mr;
	struct nics n;

	open_domains(c, &n);
	assert_ok(fi_mr_regattr(n.domain[2], &attr, 0, &mr));
	refused(&n, &attr, 0, 2, -FI_ENOKEY);
	conf_check_stats(n.end[2], 1, LEN, 0);
	assert_ok(fi_close(&mr->fid));
	check_stats(&n, 0, 0, 0);
	drop(reg(&n, NICS, buf, LEN, CONF_ALL));
}

static void fn_05_memory_that_is_not_there(struct conf *c)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *buf = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov = { buf, page };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct hmreg_multi_call call = { .size = sizeof(call) };
	struct hmreg_multi *multi = (struct hmreg_multi *)&attr;
	struct nics n;
	int ret;

	open_domains(c, &n);
	conf_log_mark(__FILE__, __LINE__);
	ret = n.ops->reg(n.domain, NICS, &attr, 0, &call, &multi);
	conf_log_expect(1, NULL, "a range without access", __FILE__, __LINE__);
	assert_true(ret == -FI_EFAULT || ret == -FI_EACCES);
	assert_ptr_equal(multi, &attr);
	assert_int_equal(call.refused, 0);
	check_stats(&n, 0, 0, 0);
	munmap(buf, page);
}

/* Of an array that is said to be longer than any may be nothing is read: the page behind its entry is not there. */
static void api_05_more_entries_than_there_are(struct conf *c)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec *iov = (struct iovec *)(at + page) - 1;
	struct fi_mr_attr attr = { .mr_iov = iov, .access = CONF_ALL };
	static const size_t counts[] = { 17, SIZE_MAX / sizeof(*iov), SIZE_MAX };
	struct hmreg_multi_call call = { .size = sizeof(call), .threads = 2 };
	struct hmreg_multi *multi = NULL;
	struct nics n;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_ok(mprotect(at + page, page, PROT_NONE));
	*iov = (struct iovec){ conf_alloc(c, LEN), LEN };
	open_domains(c, &n);
	for (size_t i = 0; i < count_of(counts); i++) {
		attr.iov_count = counts[i];
		assert_refused(n.ops->reg(n.domain, NICS, &attr, 0, &call, &multi), -FI_EINVAL);
	}
	attr.mr_iov = NULL;
	assert_refused(n.ops->reg(n.domain, NICS, &attr, 0, &call, &multi), -FI_EINVAL);
	assert_null(multi);
	munmap(at, 2 * page);
}

/* A call that has come to no domain says so, and why. */
static void says(struct hmreg_multi_call *call, size_t refused, const char *why)
{
	assert_int_equal(call->size, sizeof(*call));
	assert_int_equal(call->refused, refused);
	assert_int_equal(call->used, 1);
	assert_non_null(strstr(call->reason, why));
	*call = (struct hmreg_multi_call){ .size = sizeof(*call), .refused = 1234, .used = 1234 };
}

static void api_05_no_call_says_why(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct iovec iov = { buf, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct hmreg_multi_call call = { .size = sizeof(call), .refused = 1234, .used = 1234 };
	struct hmreg_multi *multi, *sub = NULL;
	struct fid_domain *odd[2];
	struct nics n;

	open_domains(c, &n);
	odd[0] = n.domain[0];
	odd[1] = NULL;
	assert_refused(n.ops->reg(n.domain, 0, &attr, 0, &call, &multi), -FI_EINVAL);
	says(&call, 0, "no domains");
	assert_refused(n.ops->reg(n.domain, NICS, NULL, 0, &call, &multi), -FI_EINVAL);
	says(&call, NICS, "no attributes");
	assert_refused(n.ops->reg(odd, 2, &attr, 0, &call, &multi), -FI_EINVAL);
	says(&call, 2, "entry 1 of 2 is no domain");
	multi = reg(&n, NICS, buf, LEN, CONF_ALL);
	attr.base_mr = multi->mr[0];
	assert_refused(n.ops->reg(n.domain, NICS, &attr, 0, &call, &sub), -FI_EINVAL);
	says(&call, NICS, "base_mr");
	assert_refused(n.ops->sub(NULL, buf, 1, 0, 1, 0, &call, &sub), -FI_EINVAL);
	says(&call, 0, "not a handle");
	assert_refused(n.ops->sub(multi, buf, 1, 0, 1, 0, &call, NULL), -FI_EINVAL);
	says(&call, NICS, "nowhere");
	assert_refused(n.ops->sub(multi, buf, 1, 0, 1, FI_MR_DMABUF, &call, &sub), -FI_EBADFLAGS);
	says(&call, NICS, "FI_MR_DMABUF");
	assert_null(sub);
	drop(multi);
}

static void api_05_what_is_no_call(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct iovec iov = { buf, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct hmreg_multi_call call = { .size = 4 };
	struct hmreg_multi *multi, *sub = (struct hmreg_multi *)&attr;
	struct fid_domain *odd[2];
	struct nics n;

	open_domains(c, &n);
	multi = (struct hmreg_multi *)&n;
	assert_refused(n.ops->reg(NULL, 1, &attr, 0, NULL, &multi), -FI_EINVAL);
	assert_refused(n.ops->reg(n.domain, 0, &attr, 0, NULL, &multi), -FI_EINVAL);
	assert_refused(n.ops->reg(n.domain, NICS, NULL, 0, NULL, &multi), -FI_EINVAL);
	assert_refused(n.ops->reg(n.domain, NICS, &attr, 0, NULL, NULL), -FI_EINVAL);
	assert_refused(n.ops->reg(n.domain, NICS, &attr, 0, &call, &multi), -FI_EINVAL);
	odd[0] = n.domain[0];
	odd[1] = NULL;
	assert_refused(n.ops->reg(odd, 2, &attr, 0, NULL, &multi), -FI_EINVAL);
	odd[1] = (struct fid_domain *)n.end[0]->fabric;
	assert_refused(n.ops->reg(odd, 2, &attr, 0, NULL, &multi), -FI_EINVAL);
	assert_ptr_equal(multi, &n);

	multi = reg(&n, NICS, buf, LEN, CONF_ALL);
	attr.base_mr = multi->mr[0];
	assert_refused(n.ops->reg(n.domain, NICS, &attr, 0, NULL, &sub), -FI_EINVAL);
	assert_refused(n.ops->sub(NULL, buf, 1, 0, 1, 0, NULL, &sub), -FI_EINVAL);
	assert_refused(n.ops->sub(multi, buf, 1, 0, 1, 0, NULL, NULL), -FI_EINVAL);
	assert_refused(n.ops->sub(multi, buf, 1, 0, 1, HMREG_MR_CACHE, NULL, &sub), -FI_EBADFLAGS);
	assert_refused(n.ops->sub(multi, buf, 1, 0, 1, FI_MR_DMABUF, NULL, &sub), -FI_EBADFLAGS);
	assert_refused(n.ops->sub(multi, buf, 0, 0, 1, 0, NULL, &sub), -FI_EINVAL);
	assert_refused(n.ops->sub(multi, buf - 1, 2, 0, 1, 0, NULL, &sub), -FI_EINVAL);
	assert_refused(n.ops->sub(multi, buf + 1, LEN, 0, 1, 0, NULL, &sub), -FI_EINVAL);
	assert_refused(n.ops->keys(NULL, NULL, NULL), -FI_EINVAL);
	assert_ptr_equal(sub, &attr);
	check_stats(&n, NICS, 1, LEN);
	drop(multi);
}

/* ---- how a call is made ---- */

static void fn_26_stopped_by_the_program(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct iovec iov = { buf, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct hmreg_multi *multi;
	int stop = 1;
	struct nics n;

	open_domains(c, &n);
	multi = (struct hmreg_multi *)&n;
	for (unsigned int threads = 0; threads <= NICS; threads++) {
		struct hmreg_multi_call call = { .size = sizeof(call),
						 .threads = threads,
						 .stop = &stop };

		stop = 1;
		assert_refused(n.ops->reg(n.domain, NICS, &attr, 0, &call, &multi), -FI_ECANCELED);
		assert_ptr_equal(multi, &n);
		assert_int_equal(call.refused, NICS);
		check_stats(&n, 0, 0, 0);
		stop = 0;
		assert_ok(n.ops->reg(n.domain, NICS, &attr, 0, &call, &multi));
		assert_int_equal(call.used, threads ? threads : 1);
		assert_int_equal(call.refused, NICS);
		drop(multi);
		multi = (struct hmreg_multi *)&n;
	}
}

/* A struct of an older or a newer program. */
static void api_01_sizes_of_a_call(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct iovec iov = { buf, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct {
		struct hmreg_multi_call call;
		uint64_t beyond;
	} newer = { .call = { .size = sizeof(newer) }, .beyond = 7 };
	struct hmreg_multi_call older = { .size = offsetof(struct hmreg_multi_call, refused),
					  .threads = 2,
					  .refused = 1234,
					  .used = 1234 };
	struct hmreg_multi *multi;
	struct nics n;

	open_domains(c, &n);
	assert_ok(n.ops->reg(n.domain, 2, &attr, 0, &older, &multi));
	assert_int_equal(older.refused, 1234);
	assert_int_equal(older.used, 1234);
	assert_int_equal(older.size, offsetof(struct hmreg_multi_call, refused));
	drop(multi);
	assert_ok(n.ops->reg(n.domain, 2, &attr, 0, &newer.call, &multi));
	assert_int_equal(newer.call.size, sizeof(newer.call));
	assert_int_equal(newer.call.used, 1);
	assert_int_equal(newer.beyond, 7);
	drop(multi);
}

/* A large range: its pages are brought in by threads where NICs pin them, and come back from every one. */
static void fn_26_a_large_range(struct conf *c)
{
	size_t len = (size_t)80 << 20;
	uint8_t *buf = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct iovec iov = { buf, len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .requested_key = 7
	};
	struct hmreg_multi_call call = { .size = sizeof(call), .threads = 3 };
	struct hmreg_multi *multi, *sub;
	struct nics n;

	assert_ptr_not_equal(buf, MAP_FAILED);
	open_domains(c, &n);
	assert_ok(n.ops->reg(n.domain, NICS, &attr, 0, &call, &multi));
	assert_int_equal(call.used, 3);
	sub = part(&n, multi, buf + len - 100, 100, CONF_ALL, 8);
	check_stats(&n, NICS, 2, len + 100);
	drop(sub);
	drop(multi);
	check_stats(&n, 0, 0, 0);
	munmap(buf, len);
}

/* Of the registration cache, where the domain has one for what programs want kept. */
static void cache_03_regions_that_are_kept(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct iovec iov = { buf, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct hmreg_multi *one, *two, *sub = NULL;
	struct nics n;

	open_domains(c, &n);
	assert_ok(n.ops->reg(n.domain, NICS, &attr, HMREG_MR_CACHE, NULL, &one));
	assert_ok(n.ops->reg(n.domain, NICS, &attr, HMREG_MR_CACHE, NULL, &two));
	check_stats(&n, NICS, 2, 2 * LEN);
	for (size_t i = 0; i < NICS; i++) {
		struct hmreg_region_info info = { .size = sizeof(info) };
		struct hmreg_mr_ops *ops;

		assert_ok(fi_open_ops(&one->mr[i]->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL));
		assert_ok(ops->info(&one->mr[i]->fid, &info));
		assert_true(info.len >= LEN);
	}
	assert_refused(n.ops->sub(one, buf, 1, FI_REMOTE_READ, 1, 0, NULL, &sub), -FI_EINVAL);
	assert_refused(fi_close(&one->mr[0]->fid), -FI_EBUSY);
	drop(one);
	drop(two);
	check_stats(&n, 0, 0, 0);
}

/* Interfaces that have no base_mr have parts of a handle. */
static void api_02_parts_below_1_20(struct conf *c)
{
	uint8_t *buf = conf_alloc(c, LEN);
	struct hmreg_multi *multi, *sub;
	struct nics n;

	open_nics(c, &n,
		  &(struct conf_opts){ .version = FI_VERSION(1, 9),
				       .no_ep = !(c->mode & FI_MR_ENDPOINT) });
	multi = reg(&n, NICS, buf, LEN, CONF_ALL);
	sub = part(&n, multi, buf + 8, 16, FI_REMOTE_WRITE, 78);
	assert_refused(fi_close(&multi->fid), -FI_EBUSY);
	drop(sub);
	drop(multi);
}

static const struct conf_case cases[] = {
	CONF(fn_05_one_call_any_count),
	CONF(fn_05_every_nic_reaches_it),
	CONF(sub_03_parts_hold_their_base),
	CONF(sub_03_one_busy_region_keeps_all),
	CONF_WITHOUT(fn_05_a_key_in_use_rolls_back, FI_MR_PROV_KEY),
	CONF_NEED(fn_05_memory_that_is_not_there, FI_MR_ALLOCATED),
	CONF(api_05_what_is_no_call),
	CONF(api_05_no_call_says_why),
	CONF(api_05_more_entries_than_there_are),
	CONF(fn_26_stopped_by_the_program),
	CONF(api_01_sizes_of_a_call),
	CONF(fn_26_a_large_range),
	{ "cache_03_regions_that_are_kept", cache_03_regions_that_are_kept, FI_MR_PROV_KEY,
	  FI_MR_RAW | FI_MR_ENDPOINT },
	CONF(api_02_parts_below_1_20),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
