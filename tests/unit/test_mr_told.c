/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FN-22, FN-23: the way to a device's memory is told at level info once for each device and way, and for
 * each region at level debug.  Over the emulated CUDA driver, with FI_LOG_LEVEL=debug.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "tests/hmem/maker.h"

#define LEN ((size_t)65536)

static const struct maker *const maker = &make_cuda;
static unsigned int told[2], each;

static void sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		 const char *text, void *arg)
{
	char owner[32];

	(void)subsys, (void)func, (void)line, (void)arg;
	if (!strstr(text, "copies by the interface"))
		return;
	each += level == FI_LOG_DEBUG;
	for (int i = 0; i < 2; i++) {
		snprintf(owner, sizeof(owner), "cuda device %d", maker->device((size_t)i));
		told[i] += level == FI_LOG_INFO && strstr(text, owner) &&
			   strstr(text, "sw-scalable");
	}
}

static void register_twice(struct fid_domain *domain, size_t device)
{
	struct made made = { .kind = MAKE_DEVICE };
	struct iovec iov;
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .iface = FI_HMEM_CUDA
	};
	struct fid_mr *mr;

	assert_int_equal(maker->make(MAKE_DEVICE, maker->device(device), LEN, &made), 0);
	iov = (struct iovec){ made.addr, LEN };
	attr.device.cuda = made.device;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_mr_regattr(domain, &attr, 0, &mr), 0);
		assert_int_equal(fi_close(&mr->fid), 0);
	}
	maker->drop(&made);
}

static void fn_22_fn_23_told_once(void **state)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;

	(void)state;
	hints->caps = FI_HMEM;
	hints->domain_attr->mr_mode = FI_MR_HMEM;
	hints->domain_attr->name = strdup("sw-scalable");
	assert_int_equal(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	for (int round = 0; round < 3; round++)
		for (size_t device = 0; device < 2; device++)
			register_twice(domain, device);
	assert_int_equal(told[0], 1);
	assert_int_equal(told[1], 1);
	assert_int_equal(each, 12);
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(fn_22_fn_23_told_once) };
	const char *why = maker->open();

	if (why || maker->devices() < 2) {
		fprintf(stderr, "%s\n", why ? why : "two devices are needed");
		return 1;
	}
	hm_log_set_sink(sink, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
