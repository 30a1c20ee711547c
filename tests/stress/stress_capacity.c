/* SPDX-License-Identifier: BSD-2-Clause */
/* A domain holds 16 million regions at once, with keys of the user's choice and of the NIC's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>

#define REGIONS	  16777216L
#define NEEDED_KB (6L * 1024 * 1024) /* both cases at once take less */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static long available_kb(void)
{
	char line[128];
	long kb = 0;
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %ld kB", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

static uint64_t key_of(long i)
{
	return (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) >> 1;
}

static void fill_and_empty(const char *profile)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_mr **mr = calloc(REGIONS, sizeof(*mr)), *one_more = NULL;
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };
	struct hmreg_domain_ops *ops;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	static char buf[4096];

	assert_true(hints && mr);
	hints->domain_attr->name = strdup(profile);
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY;
	assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
	assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	assert_int_equal(fi_open_ops(&domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL), 0);
	for (long i = 0; i < REGIONS; i++)
		if (fi_mr_reg(domain, buf, sizeof(buf), FI_REMOTE_WRITE, 0, key_of(i), 0, &mr[i],
			      NULL) != 0)
			fail_msg("region %ld", i);
	assert_int_equal(ops->stats(&domain->fid, &stats), 0);
	assert_int_equal(stats.regions, REGIONS);
	assert_int_equal(stats.registered_bytes, REGIONS * (long)sizeof(buf));
	assert_int_equal(fi_mr_reg(domain, buf, sizeof(buf), 0, 0, UINT64_C(1) << 63, 0, &one_more,
				   NULL),
			 -FI_ENOSPC);
	assert_null(one_more);
	/* a key in the middle of all that is still known to be in use, and free once closed */
	if (!(info->domain_attr->mr_mode & FI_MR_PROV_KEY)) {
		assert_int_equal(fi_close(&mr[0]->fid), 0);
		assert_int_equal(fi_mr_reg(domain, buf, 1, 0, 0, key_of(REGIONS / 2), 0, &one_more,
					   NULL),
				 -FI_ENOKEY);
		assert_int_equal(fi_mr_reg(domain, buf, 1, 0, 0, key_of(0), 0, &mr[0], NULL), 0);
	}
	for (long i = 0; i < REGIONS; i++)
		if (fi_close(&mr[i]->fid) != 0)
			fail_msg("close of region %ld", i);
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	free(mr);
}

static void check_machine(void)
{
#ifdef SANITIZED
	skip();
#endif
	if (available_kb() < NEEDED_KB) {
		print_message("needs %ld MiB of memory\n", NEEDED_KB / 1024);
		skip();
	}
}

static void mode_07_user_keys_16_million(void **state)
{
	(void)state;
	check_machine();
	fill_and_empty("sw-scalable");
}

static void mode_07_nic_keys_16_million(void **state)
{
	(void)state;
	check_machine();
	fill_and_empty("sw-verbs");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest user[] = { cmocka_unit_test(mode_07_user_keys_16_million) };
	const struct CMUnitTest nic[] = { cmocka_unit_test(mode_07_nic_keys_16_million) };

	if (argc == 2 && strcmp(argv[1], "user") == 0)
		return cmocka_run_group_tests(user, NULL, NULL);
	if (argc == 2 && strcmp(argv[1], "nic") == 0)
		return cmocka_run_group_tests(nic, NULL, NULL);
	fprintf(stderr, "usage: stress_capacity user | nic\n");
	return 2;
}
