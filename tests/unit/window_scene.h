/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A domain on an emulated device, regions and sub-MRs in it, and a queue pair of the same protection domain
 * that accesses them as a peer does.  Include after <cmocka.h>.
 */
#ifndef HM_TEST_WINDOW_SCENE_H
#define HM_TEST_WINDOW_SCENE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>

#include "core/base/log.h"
#include "core/nic/verbs.h"
#include "core/nic/verbs_loop.h"
#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"

#define ALL   (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PAGE  4096u
#define MOST  (64 * 1024u)
#define MODES (FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM)

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fi_info *info;
static struct ibv_pd *pd;
static uint8_t memory[4 * MOST] __attribute__((aligned(4096)));
static struct emu_verbs_counts before;
static size_t fds_before;
static unsigned int warnings,
	seconds; /* lines: warnings, and those that tell of a second registration */
static char last_warning[1024], last_second[1024];

static struct emu_verbs_counts now(void)
{
	struct emu_verbs_counts counts;

	emu_verbs_counts(&counts);
	return counts;
}

/* Before the first message: the sink is to see what is told at level info. */
static void scene_log(void)
{
	setenv("FI_LOG_LEVEL", "info", 1);
	setenv("FI_LOG_SUBSYS", "mr", 1);
}

static void scene_sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		       int line, const char *text, void *arg)
{
	(void)subsys;
	(void)func;
	(void)line;
	(void)arg;
	if (level == FI_LOG_WARN) {
		warnings++;
		snprintf(last_warning, sizeof(last_warning), "%s", text);
	}
	if (strstr(text, "a second time, as others will be")) {
		seconds++;
		snprintf(last_second, sizeof(last_second), "%s", text);
	}
}

#define assert_ok(expression) assert_int_equal((expression), 0)

/* This value and one warning. */
#define assert_refused(expression, code)                                                           \
	do {                                                                                       \
		warnings = 0;                                                                      \
		assert_int_equal((expression), (code));                                            \
		assert_int_equal(warnings, 1);                                                     \
	} while (0)

static void open_domain(const char *name, int mode)
{
	struct fi_info *hints = fi_allocinfo();
	struct hmreg_verbs_domain objects = { .size = sizeof(objects) };
	struct hmreg_domain_ops *ops;

	assert_non_null(hints);
	hints->caps = FI_MSG | FI_RMA | FI_HMEM;
	hints->domain_attr->name = strdup(name);
	hints->domain_attr->mr_mode = mode;
	assert_ok(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	assert_ok(fi_fabric(info->fabric_attr, &fabric, NULL));
	emu_verbs_counts(&before);
	fds_before = test_fds();
	assert_ok(fi_domain(fabric, info, &domain, NULL));
	assert_ok(fi_open_ops(&domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->verbs(&domain->fid, &objects));
	pd = objects.pd;
	warnings = seconds = 0;
	memset(memory, 0, sizeof(memory));
}

/* Nothing is left of it. */
static void close_domain(void)
{
	struct emu_verbs_counts after;

	assert_ok(fi_close(&domain->fid));
	emu_verbs_counts(&after);
	assert_int_equal(after.mrs, before.mrs);
	assert_int_equal(after.mws, before.mws);
	assert_int_equal(after.bound, before.bound);
	assert_int_equal(after.pinned, before.pinned);
	assert_int_equal(after.pds, before.pds);
	assert_int_equal(after.cqs, before.cqs);
	assert_int_equal(after.qps, before.qps);
	assert_int_equal(after.contexts, before.contexts);
	assert_int_equal(test_fds(), fds_before);
	assert_ok(fi_close(&fabric->fid));
	fi_freeinfo(info);
}

static int scene_set_up(void **state)
{
	(void)state;
	hm_log_set_sink(scene_sink, NULL);
	return 0;
}

static int scene_tear_down(void **state)
{
	(void)state;
	emu_verbs_reset();
	hm_log_set_sink(NULL, NULL);
	return 0;
}

/* ---- regions ---- */

static struct fid_mr *reg_base(void *addr, size_t len, uint64_t access, uint64_t flags, size_t subs)
{
	struct iovec iov = { addr, len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = access, .sub_mr_cnt = subs
	};
	struct fid_mr *mr;

	assert_ok(fi_mr_regattr(domain, &attr, flags, &mr));
	return mr;
}

static int try_sub(struct fid_mr *base, void *addr, size_t len, uint64_t access, uint64_t flags,
		   struct fid_mr **mr)
{
	struct iovec iov = { addr, len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = access, .base_mr = base
	};

	return fi_mr_regattr(domain, &attr, flags, mr);
}

static struct fid_mr *sub(struct fid_mr *base, void *addr, size_t len, uint64_t access)
{
	struct fid_mr *mr;

	assert_ok(try_sub(base, addr, len, access, 0, &mr));
	return mr;
}

static struct hmreg_region_info about(struct fid_mr *mr)
{
	struct hmreg_region_info info_of = { .size = sizeof(info_of) };
	struct hmreg_mr_ops *ops;

	assert_ok(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->info(&mr->fid, &info_of));
	return info_of;
}

static bool is_window(struct fid_mr *mr)
{
	return about(mr).state & HMREG_REGION_WINDOW;
}

static struct hmreg_verbs_part part_of(struct fid_mr *mr, size_t index)
{
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	struct hmreg_mr_ops *ops;

	assert_ok(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->verbs_part(&mr->fid, index, &part));
	return part;
}

/* ---- a peer ---- */

/* One request under this key, of len bytes at this device address.  0, or an errno. */
static int access_at(enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr, uint32_t len)
{
	static uint8_t buffer[MOST];
	const struct verbs_loop_site site = { .context = pd->context,
					      .pd = pd,
					      .port = 1,
					      .access = IBV_ACCESS_REMOTE_READ |
							IBV_ACCESS_REMOTE_WRITE };
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)buffer, len, mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1
	};
	struct verbs_failure why;
	struct verbs_loop *loop;
	int ret;

	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = addr;
	memset(buffer, 0xab, sizeof(buffer));
	assert_ok(verbs_loop_open(&site, &loop, &why));
	ret = verbs_loop_run(loop, &wr, &why);
	verbs_loop_close(loop);
	assert_ok(ibv_dereg_mr(mr));
	return ret;
}

/* Of a region's first part, by its offset there. */
static int put(struct fid_mr *mr, uint64_t offset, uint32_t len)
{
	struct hmreg_verbs_part part = part_of(mr, 0);

	return access_at(IBV_WR_RDMA_WRITE, part.rkey, part.iova + offset, len);
}

static inline int get(struct fid_mr *mr, uint64_t offset, uint32_t len)
{
	struct hmreg_verbs_part part = part_of(mr, 0);

	return access_at(IBV_WR_RDMA_READ, part.rkey, part.iova + offset, len);
}

/* The written bytes are exactly these of memory. */
static inline void check_written(size_t from, size_t len)
{
	for (size_t i = 0; i < sizeof(memory); i++)
		assert_int_equal(memory[i], i - from < len ? 0xab : 0);
	memset(memory, 0, sizeof(memory));
}

#endif
