/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is linked with this library, and with another one that uses libfabric, which loads the
 * plug-in: the code is there twice, and functions of the same name and version are there from both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "tests/provider/user.h"

#define VERSION FI_VERSION(2, 7)

struct own {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

static void open_own(struct own *own)
{
	struct fi_info *hints = fi_allocinfo();

	assert_non_null(hints);
	hints->domain_attr->name = strdup("sw-verbs");
	hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
	hints->mode = ~0ULL;
	assert_int_equal(fi_getinfo(VERSION, NULL, NULL, 0, hints, &own->info), 0);
	assert_string_equal(own->info->fabric_attr->prov_name, "hmreg");
	assert_int_equal(own->info->fabric_attr->api_version, VERSION);
	assert_int_equal(fi_fabric(own->info->fabric_attr, &own->fabric, NULL), 0);
	assert_int_equal(fi_domain(own->fabric, own->info, &own->domain, NULL), 0);
	fi_freeinfo(hints);
}

static void close_own(struct own *own)
{
	assert_int_equal(fi_close(&own->domain->fid), 0);
	assert_int_equal(fi_close(&own->fabric->fid), 0);
	fi_freeinfo(own->info);
}

/* A part of a region: what no libfabric of that age has a name for. */
static void register_own(struct own *own)
{
	static char buf[4096];
	struct iovec iov = { buf, sizeof(buf) };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE };
	struct fid_mr *base, *part;

	assert_int_equal(fi_mr_regattr(own->domain, &attr, 0, &base), 0);
	attr.base_mr = base;
	iov.iov_len = 64;
	assert_int_equal(fi_mr_regattr(own->domain, &attr, 0, &part), 0);
	assert_int_equal(fi_close(&base->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&part->fid), 0);
	assert_int_equal(fi_close(&base->fid), 0);
}

/* Before libfabric is used at all, while it is, and after. */
static void this_library_is_itself_beside_the_plug_in(void **state)
{
	struct own own;

	(void)state;
	assert_int_equal(fi_version(), VERSION);
	open_own(&own);
	register_own(&own);
	assert_int_equal(provider_cases(), 0);
	register_own(&own);
	close_own(&own);
	assert_int_equal(provider_cases(), 0);
}

/* The other order: libfabric and the plug-in are first. */
static void this_library_starts_after_the_plug_in(void **state)
{
	struct own own;

	(void)state;
	assert_int_equal(provider_cases(), 0);
	open_own(&own);
	register_own(&own);
	close_own(&own);
}

/* Each in a process of its own, since what starts first is what it is about. */
int main(int argc, char **argv)
{
	const struct CMUnitTest first[] = { cmocka_unit_test(
		this_library_is_itself_beside_the_plug_in) };
	const struct CMUnitTest after[] = { cmocka_unit_test(
		this_library_starts_after_the_plug_in) };

	if (argc > 1 && strcmp(argv[1], "after") == 0)
		return cmocka_run_group_tests(after, NULL, NULL);
	return cmocka_run_group_tests(first, NULL, NULL);
}
