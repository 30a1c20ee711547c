/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One key of the device over a region of several parts, through the interface that applications have and
 * over the emulated device with the interface of mlx5's provider: what a peer reads and writes by it, and
 * what happens where each call that makes it fails.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "tests/drivers/emu_verbs.h"

#define RIGHTS	  (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PART	  65536u /* HMREG_VERBS_MAX_MR_SIZE */
#define LEN	  (3 * PART + 500)
#define COMPOSITE (UINT64_C(1) << 63)
#define PATIENCE  20 /* seconds */

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *local_mr;
static fi_addr_t self;
static uint8_t target[LEN + 2], local[LEN];

static int open_endpoint(void)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT };
	char name[128];
	size_t len = sizeof(name);
	int ret = fi_av_open(domain, &av_attr, &av, NULL);

	ret = ret ? ret : fi_cq_open(domain, &cq_attr, &cq, NULL);
	ret = ret ? ret : fi_endpoint(domain, info, &ep, NULL);
	ret = ret ? ret : fi_ep_bind(ep, &av->fid, 0);
	ret = ret ? ret : fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
	ret = ret ? ret : fi_enable(ep);
	ret = ret ? ret : fi_getname(&ep->fid, name, &len);
	ret = ret ? ret : fi_av_insert(av, name, 1, &self, 0, NULL) - 1;
	return ret ? ret : fi_mr_reg(domain, local, LEN, RIGHTS, 0, 0, 0, &local_mr, NULL);
}

static int open_all(void **state)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	(void)state;
	setenv("HMREG_EMU_VERBS", "indirect=1", 1);
	setenv("HMREG_VERBS_MAX_MR_SIZE", "64K", 1);
	hints->caps = FI_MSG | FI_RMA;
	hints->domain_attr->name = strdup("emu0");
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_ALLOCATED; /* addressed from 0 */
	ret = fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	ret = ret ? ret : fi_fabric(info->fabric_attr, &fabric, NULL);
	ret = ret ? ret : fi_domain(fabric, info, &domain, NULL);
	return ret ? ret : open_endpoint();
}

static int close_all(void **state)
{
	(void)state;
	if (!local_mr) /* the opening failed */
		return -1;
	return fi_close(&ep->fid) | fi_close(&cq->fid) | fi_close(&av->fid) |
	       fi_close(&local_mr->fid) | fi_close(&domain->fid) | fi_close(&fabric->fid);
}

/* The completion of the one operation that is under way: 0, or its error. */
static int wait_one(void)
{
	time_t end = time(NULL) + PATIENCE;
	struct fi_cq_err_entry error = { .err = 0 };
	struct fi_cq_entry entry;
	ssize_t n;

	do {
		n = fi_cq_read(cq, &entry, 1);
	} while (n == -FI_EAGAIN && time(NULL) < end);
	if (n == 1)
		return 0;
	assert_int_equal(n, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	return error.err;
}

/* What exists once no event is between its taking and its acknowledgement: another thread serves these. */
static void counts_at_rest(struct emu_verbs_counts *counts)
{
	time_t end = time(NULL) + PATIENCE;

	do {
		emu_verbs_counts(counts);
	} while (counts->unacked && time(NULL) < end);
}

static uint64_t pattern_seed;

static void new_pattern(void)
{
	pattern_seed++;
	for (size_t i = 0; i < LEN; i++)
		local[i] = (uint8_t)(i * 7 + i / 256 + pattern_seed);
	memset(target, 0xee, sizeof(target));
}

/* Write all of it, and read the middle back from the target's memory. */
static void check_transfers(uint64_t key)
{
	new_pattern();
	assert_int_equal(fi_write(ep, local, LEN, fi_mr_desc(local_mr), self, 0, key, NULL), 0);
	assert_int_equal(wait_one(), 0);
	assert_memory_equal(target + 1, local, LEN);
	assert_int_equal(target[0], 0xee);
	assert_int_equal(target[LEN + 1], 0xee);

	memset(local, 0, LEN);
	assert_int_equal(fi_read(ep, local, PART + 100, fi_mr_desc(local_mr), self, PART - 50, key,
				 NULL),
			 0);
	assert_int_equal(wait_one(), 0);
	assert_memory_equal(local, target + 1 + PART - 50, PART + 100);
}

/* The region over target, which is odd, in these segments. */
static struct fid_mr *make_region(const struct iovec *iov, size_t count, uint64_t access)
{
	struct fid_mr *mr = NULL;

	assert_int_equal(fi_mr_regv(domain, iov, count, access, 0, 0, 0, &mr, NULL), 0);
	return mr;
}

static const struct iovec whole = { target + 1, LEN };

static void fn_26_one_hardware_key(void **state)
{
	struct hmreg_region_info region = { .size = sizeof(region) };
	struct hmreg_mr_ops *ops;
	struct emu_verbs_counts before, after;
	struct fid_mr *mr;

	(void)state;
	mr = make_region(&whole, 1,
			 RIGHTS); /* the domain's queue pair to itself comes with the first */
	assert_int_equal(fi_close(&mr->fid), 0);
	counts_at_rest(&before);
	mr = make_region(&whole, 1, RIGHTS);
	assert_int_equal(fi_mr_key(mr) & COMPOSITE, 0);
	assert_int_equal(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->info(&mr->fid, &region), 0);
	assert_true(region.parts > 3);
	check_transfers(fi_mr_key(mr));
	assert_int_equal(fi_close(&mr->fid), 0);
	counts_at_rest(&after);
	assert_memory_equal(&before.mrs, &after.mrs, sizeof(before.mrs));
	assert_int_equal(before.pinned, after.pinned);
}

static void api_06_segments_in_any_order(void **state)
{
	struct iovec iov[] = { { target + 5000, 3000 },
			       { target + 1, 1000 },
			       { target + 9000, 1 } };
	struct fid_mr *mr = make_region(iov, 3, RIGHTS);

	(void)state;
	new_pattern();
	assert_int_equal(fi_mr_key(mr) & COMPOSITE, 0);
	assert_int_equal(
		fi_write(ep, local, 4001, fi_mr_desc(local_mr), self, 0, fi_mr_key(mr), NULL), 0);
	assert_int_equal(wait_one(), 0);
	assert_memory_equal(target + 5000, local, 3000);
	assert_memory_equal(target + 1, local + 3000, 1000);
	assert_int_equal(target[9000], local[4000]);
	assert_int_equal(target[9001], 0xee);
	assert_int_equal(fi_close(&mr->fid), 0);
}

static void attr_01_rights_and_bounds(void **state)
{
	struct fid_mr *mr = make_region(&whole, 1, FI_REMOTE_READ);
	uint64_t key = fi_mr_key(mr);

	(void)state;
	new_pattern();
	assert_int_equal(key & COMPOSITE, 0);
	assert_int_equal(fi_write(ep, local, 8, fi_mr_desc(local_mr), self, 0, key, NULL), 0);
	assert_int_equal(wait_one(), FI_EACCES);
	assert_int_equal(target[1], 0xee);
	assert_int_equal(fi_read(ep, local, 8, fi_mr_desc(local_mr), self, LEN - 7, key, NULL), 0);
	assert_int_equal(wait_one(), FI_EACCES);
	assert_int_equal(fi_read(ep, local, 8, fi_mr_desc(local_mr), self, LEN - 8, key, NULL), 0);
	assert_int_equal(wait_one(), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_read(ep, local, 8, fi_mr_desc(local_mr), self, 0, key, NULL), 0);
	assert_int_equal(wait_one(), FI_EACCES);
}

/* Ordering is a right of the regions, which keys over several do not take. */
static void reg_08_relaxed_regions_have_one_key(void **state)
{
	struct fi_mr_attr attr = { .mr_iov = &whole, .iov_count = 1, .access = RIGHTS };
	struct emu_verbs_counts counts;
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(fi_mr_regattr(domain, &attr, HMREG_MR_RELAXED_ORDERING, &mr), 0);
	emu_verbs_counts(&counts);
	assert_int_equal(counts.relaxed_mrs, 4);
	assert_int_equal(fi_mr_key(mr) & COMPOSITE, 0);
	check_transfers(fi_mr_key(mr));
	assert_int_equal(fi_close(&mr->fid), 0);
}

/* The device refuses to end each part in turn, then the key over them: the region is what it was. */
static void api_07_a_refused_close_changes_nothing(void **state)
{
	struct emu_verbs_counts before, after;
	struct fid_mr *mr = make_region(&whole, 1, RIGHTS);
	uint64_t key = fi_mr_key(mr);

	(void)state;
	assert_int_equal(key & COMPOSITE, 0);
	counts_at_rest(&before);
	for (int nth = 1; nth <= 5; nth++) {
		assert_int_equal(emu_verbs_fail(nth < 5 ? "ibv_dereg_mr" : "mlx5dv_destroy_mkey",
						nth < 5 ? nth : 1, EBUSY),
				 1);
		assert_int_equal(fi_close(&mr->fid), -FI_EBUSY);
		assert_int_equal(fi_mr_key(mr), key);
		check_transfers(key);
		counts_at_rest(&after);
		assert_memory_equal(&before, &after, sizeof(before));
	}
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_read(ep, local, 8, fi_mr_desc(local_mr), self, 0, key, NULL), 0);
	assert_int_equal(wait_one(), FI_EACCES);
}

/* The same with a table of parts, which peers ask for anew when its keys have changed. */
static void api_07_a_refused_close_of_a_composite_key(void **state)
{
	struct fid_mr *mr;
	uint64_t key;

	(void)state;
	assert_int_equal(emu_verbs_fail("mlx5dv_create_mkey", 1, ENOMEM), 1);
	mr = make_region(&whole, 1, RIGHTS);
	key = fi_mr_key(mr);
	assert_int_not_equal(key & COMPOSITE, 0);
	check_transfers(key);
	for (int nth = 1; nth <= 4; nth++) {
		assert_int_equal(emu_verbs_fail("ibv_dereg_mr", nth, EBUSY), 1);
		assert_int_equal(fi_close(&mr->fid), -FI_EBUSY);
		assert_int_equal(fi_mr_key(mr), key);
		/* who has the old table finds out once, unless nothing was gone */
		assert_int_equal(fi_read(ep, local, 8, fi_mr_desc(local_mr), self, 0, key, NULL),
				 0);
		assert_int_equal(wait_one(), nth == 1 ? 0 : FI_EACCES);
		check_transfers(key);
	}
	assert_int_equal(fi_close(&mr->fid), 0);
}

/* Whatever fails on the way to the device's key: peers get at the region by the table of its parts. */
static void fn_26_falls_back_to_tables(void **state)
{
	static const char *const calls[] = { "mlx5dv_create_mkey", "ibv_wr_complete" };

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct fid_mr *mr;

		assert_int_equal(emu_verbs_fail(calls[i], 1, ENOMEM), 1);
		mr = make_region(&whole, 1, RIGHTS);
		emu_verbs_fail(calls[i], 0, 0);
		assert_int_not_equal(fi_mr_key(mr) & COMPOSITE, 0);
		check_transfers(fi_mr_key(mr));
		assert_int_equal(fi_close(&mr->fid), 0);
	}
}

/* A domain of its own, so that its queue pair to itself is made here. */
static void fn_26_no_queue_pair_for_lists(void **state)
{
	static const char *const calls[] = { "ibv_create_cq", "ibv_create_qp", "ibv_query_port",
					     "ibv_modify_qp", "ibv_query_gid" };
	struct emu_verbs_counts before, after;

	(void)state;
	counts_at_rest(&before);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct fid_domain *own;
		struct fid_mr *mr;

		assert_int_equal(fi_domain(fabric, info, &own, NULL), 0);
		assert_int_equal(emu_verbs_fail(calls[i], 1, EIO), 1);
		assert_int_equal(fi_mr_regv(own, &whole, 1, RIGHTS, 0, 0, 0, &mr, NULL), 0);
		emu_verbs_fail(calls[i], 0, 0);
		assert_int_not_equal(fi_mr_key(mr) & COMPOSITE, 0);
		assert_int_equal(fi_close(&mr->fid), 0);
		/* the next one tries again */
		assert_int_equal(fi_mr_regv(own, &whole, 1, RIGHTS, 0, 0, 0, &mr, NULL), 0);
		assert_int_equal(fi_mr_key(mr) & COMPOSITE, 0);
		assert_int_equal(fi_close(&mr->fid), 0);
		assert_int_equal(fi_close(&own->fid), 0);
	}
	counts_at_rest(&after);
	assert_memory_equal(&before, &after, sizeof(before));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_26_one_hardware_key),
		cmocka_unit_test(api_06_segments_in_any_order),
		cmocka_unit_test(attr_01_rights_and_bounds),
		cmocka_unit_test(reg_08_relaxed_regions_have_one_key),
		cmocka_unit_test(api_07_a_refused_close_changes_nothing),
		cmocka_unit_test(api_07_a_refused_close_of_a_composite_key),
		cmocka_unit_test(fn_26_falls_back_to_tables),
		cmocka_unit_test(fn_26_no_queue_pair_for_lists),
	};
	int failed = cmocka_run_group_tests(tests, open_all, close_all);

	fi_freeinfo(info);
	return failed;
}
