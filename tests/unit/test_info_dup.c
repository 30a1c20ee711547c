/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of struct fi_info: nothing is shared, nothing is lost, and memory may run out anywhere. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/info_nics.h"
#include "tests/unit/warnings.h"

/* ---- copies ---- */

static void allocinfo_is_empty_and_complete(void **state)
{
	struct fi_info *info = fi_allocinfo();
	static const struct fi_domain_attr no_domain;
	static const struct fi_ep_attr no_ep;

	(void)state;
	assert_non_null(info->tx_attr);
	assert_non_null(info->rx_attr);
	assert_memory_equal(info->ep_attr, &no_ep, sizeof(no_ep));
	assert_memory_equal(info->domain_attr, &no_domain, sizeof(no_domain));
	assert_null(info->fabric_attr->name);
	assert_null(info->nic);
	assert_null(info->next);
	fi_freeinfo(info);
	fi_freeinfo(NULL);
}

/* An entry that uses every pointer there is. */
static struct fi_info *full_info(void)
{
	struct fi_info *info = get(NULL);
	static const char key[] = "secret";

	info->handle = (fid_t)(uintptr_t)0x1234;
	info->dest_addr = malloc(3);
	memcpy(info->dest_addr, "abc", 3);
	info->dest_addrlen = 3;
	info->ep_attr->auth_key = (uint8_t *)strdup(key);
	info->ep_attr->auth_key_size = sizeof(key);
	info->domain_attr->auth_key = (uint8_t *)strdup(key);
	info->domain_attr->auth_key_size = 3;
	return info;
}

static void dupinfo_copies_everything(void **state)
{
	struct fi_info *info = full_info(), *copy = fi_dupinfo(info), *again;

	(void)state;
	assert_non_null(info->next);
	assert_null(copy->next);
	assert_ptr_equal(copy->handle, info->handle);
	assert_int_equal(copy->caps, info->caps);
	assert_memory_equal(copy->tx_attr, info->tx_attr, sizeof(*info->tx_attr));
	assert_memory_equal(copy->rx_attr, info->rx_attr, sizeof(*info->rx_attr));
	assert_int_equal(copy->src_addrlen, info->src_addrlen);
	fi_freeinfo(info); /* a pointer that is shared would now be dangling */
	again = fi_dupinfo(copy);
	fi_freeinfo(copy);
	assert_memory_equal(again->dest_addr, "abc", 3);
	assert_string_equal((char *)again->ep_attr->auth_key, "secret");
	assert_memory_equal(again->domain_attr->auth_key, "sec", 3);
	assert_string_equal(again->domain_attr->name, "scalable");
	assert_string_equal(again->fabric_attr->name, "fake");
	assert_string_equal(again->fabric_attr->prov_name, "hmreg");
	assert_string_equal(again->nic->device_attr->vendor_id, "maker");
	assert_int_equal(again->nic->link_attr->mtu, 4096);
	assert_null(again->nic->link_attr->address);
	fi_freeinfo(again);
}

static void dupinfo_keeps_what_is_missing_missing(void **state)
{
	struct fi_info bare = { .caps = FI_MSG, .src_addrlen = 16 }, *copy = fi_dupinfo(&bare);
	struct fi_info *info = fi_allocinfo(), *second;

	(void)state;
	assert_int_equal(copy->caps, FI_MSG);
	assert_int_equal(copy->src_addrlen, 0);
	assert_null(copy->tx_attr);
	assert_null(copy->domain_attr);
	assert_null(copy->nic);
	fi_freeinfo(copy);
	/* keys in an address vector: the size is a mark, there are no bytes */
	info->ep_attr->auth_key_size = FI_AV_AUTH_KEY;
	info->domain_attr->auth_key_size = FI_AV_AUTH_KEY;
	second = fi_dupinfo(info);
	assert_int_equal(second->ep_attr->auth_key_size, FI_AV_AUTH_KEY);
	assert_null(second->ep_attr->auth_key);
	fi_freeinfo(second);
	fi_freeinfo(info);
}

static void nic_is_an_object(void **state)
{
	struct fi_info *info = get(NULL);
	struct fid_nic *nic = info->nic, *copy;
	struct fid *fid;

	(void)state;
	assert_int_equal(nic->fid.fclass, FI_CLASS_NIC);
	assert_int_equal(nic->fid.ops->size, sizeof(struct fi_ops));
	assert_int_equal(fi_control(&nic->fid, FI_DUP, &fid), 0);
	copy = container_of(fid, struct fid_nic, fid);
	assert_ptr_not_equal(copy->device_attr, nic->device_attr);
	assert_string_equal(copy->device_attr->firmware, "1.2");
	assert_int_equal(fi_close(fid), 0);
	assert_refused(fi_control(&nic->fid, FI_DUP, NULL), -FI_EINVAL);
	assert_refused(fi_control(&nic->fid, FI_ENABLE, NULL), -FI_ENOSYS);
	assert_refused(nic->fid.ops->bind(&nic->fid, fid, 0), -FI_ENOSYS);
	/* closed by hand it must be taken out of the entry */
	assert_int_equal(fi_close(&nic->fid), 0);
	info->nic = NULL;
	fi_freeinfo(info);
}

/* ---- memory ---- */

static int do_getinfo(struct fi_info **info)
{
	return fi_getinfo(API, "127.0.0.1", "1", 0, NULL, info);
}

static int do_provider(struct fi_info **info)
{
	return fi_getinfo(API, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, info);
}

static const struct fi_info *to_copy;

static int do_dup(struct fi_info **info)
{
	struct fi_info *copy = fi_dupinfo(to_copy);

	if (!copy)
		return -FI_ENOMEM;
	*info = copy;
	return 0;
}

/* Each allocation of the call fails once: all is given back, the output is untouched. */
static unsigned fail_each(int (*call)(struct fi_info **info))
{
	struct fi_info untouched, *info;
	unsigned failures = 0;

	for (unsigned n = 1;; n++) {
		long before = alloc_live;
		int ret;

		info = &untouched;
		warning_count = 0;
		alloc_fail_at(n);
		ret = call(&info);
		if (!alloc_failed()) {
			assert_int_equal(ret, 0);
			fi_freeinfo(info);
			assert_int_equal(alloc_live, before);
			return failures;
		}
		failures++;
		assert_int_equal(ret, -FI_ENOMEM);
		assert_ptr_equal(info, &untouched);
		assert_int_equal(alloc_live, before);
		assert_int_equal(warning_count, 1);
	}
}

static void every_allocation_may_fail(void **state)
{
	struct fi_info *info = full_info();

	(void)state;
	/* per port: info, 2 addresses, 5 attributes, 3 names, and 4 + 4 for the first one's NIC */
	assert_in_range(fail_each(do_getinfo), 4 * 10, 4 * 12 + 16);
	assert_int_equal(fail_each(do_provider), 7);
	to_copy = NULL;
	assert_int_equal(fail_each(do_dup), 6);
	to_copy = info;
	assert_in_range(fail_each(do_dup), 20, 30);
	fi_freeinfo(info);
}

static void nic_copy_may_fail(void **state)
{
	struct fi_info *info = get(NULL);
	long before = alloc_live;
	struct fid *fid = NULL;
	unsigned n = 0;
	int ret;

	(void)state;
	do {
		alloc_fail_at(++n);
		ret = fi_control(&info->nic->fid, FI_DUP, &fid);
		if (alloc_failed()) {
			assert_int_equal(ret, -FI_ENOMEM);
			assert_null(fid);
			assert_int_equal(alloc_live, before);
		}
	} while (ret);
	assert_true(n > 5);
	fi_close(fid);
	fi_freeinfo(info);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocinfo_is_empty_and_complete),
		cmocka_unit_test(dupinfo_copies_everything),
		cmocka_unit_test(dupinfo_keeps_what_is_missing_missing),
		cmocka_unit_test(nic_is_an_object),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(nic_copy_may_fail),
	};

	nics_only();
	nics_register();
	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
