/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getinfo's addresses, wrong calls of it, and what the environment changes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/child.h"
#include "tests/unit/info_nics.h"
#include "tests/unit/warnings.h"

/* ---- addresses ---- */

#define ANY  0u
#define LOOP INADDR_LOOPBACK
#define NONE UINT32_MAX

static const struct {
	const char *node, *service;
	uint64_t flags;
	int ret;
	uint32_t src, dest; /* of the first port; NONE: no address */
	uint16_t src_port, dest_port;
	const char *listed;
} addresses[] = {
	{ NULL, NULL, 0, 0, FAKE_HOST, NONE, 0, 0, ALL },
	{ NULL, "5000", 0, 0, FAKE_HOST, LOOP, 0, 5000, ALL },
	{ "localhost", "5000", 0, 0, FAKE_HOST, LOOP, 0, 5000, ALL },
	{ "127.9.9.9", NULL, FI_NUMERICHOST, 0, FAKE_HOST, FAKE_HOST, 0, 0, ALL },
	{ "127.0.0.1", "80", FI_SOURCE, 0, LOOP, NONE, 80, 0, ALL },
	{ NULL, "80", FI_SOURCE | FI_RESCAN, 0, LOOP, NONE, 80, 0, ALL },
	{ "0.0.0.0", "80", FI_SOURCE, 0, FAKE_HOST, NONE, 80, 0, ALL },
	{ "fi_sockaddr_in://127.0.0.1:99", NULL, 0, 0, FAKE_HOST, LOOP, 0, 99, ALL },
	{ "fi_sockaddr://:99", NULL, FI_SOURCE, 0, LOOP, NONE, 99, 0, ALL },
	/* only the second NIC, which answers for all loopback addresses */
	{ "127.0.0.2", "1", FI_SOURCE, 0, 0x7f000002, NONE, 1, 0, "b" },
	{ "127.0.0.2", "1", 0, 0, NONE, 0x7f000002, 0, 1, "b" },
	{ "10.0.0.1", "1", 0, -FI_ENODATA, 0, 0, 0, 0, "" },
	{ "10.0.0.1", "1", FI_SOURCE, -FI_ENODATA, 0, 0, 0, 0, "" },
};

static void assert_address(const void *addr, size_t len, uint32_t host, uint16_t port)
{
	struct sockaddr_in expected = fake_addr(host, port);

	if (host == NONE) {
		assert_null(addr);
		assert_int_equal(len, 0);
		return;
	}
	assert_int_equal(len, sizeof(expected));
	assert_memory_equal(addr, &expected, sizeof(expected));
}

static void api_03_address_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(addresses); i++) {
		struct fi_info *info = NULL;
		size_t count = 0;

		assert_int_equal(fi_getinfo(API, addresses[i].node, addresses[i].service,
					    addresses[i].flags, NULL, &info),
				 addresses[i].ret);
		for (const struct fi_info *at = info; at; at = at->next)
			count++;
		assert_int_equal(count, strlen(addresses[i].listed));
		if (info) {
			assert_int_equal(info->addr_format, FI_SOCKADDR_IN);
			assert_address(info->src_addr, info->src_addrlen, addresses[i].src,
				       addresses[i].src_port);
			assert_address(info->dest_addr, info->dest_addrlen, addresses[i].dest,
				       addresses[i].dest_port);
		}
		fi_freeinfo(info);
	}
}

static void api_03_addresses_in_hints(void **state)
{
	struct fi_info *hints = open_hints(), *info;
	struct sockaddr_in src = fake_addr(LOOP, 7), dest = fake_addr(FAKE_HOST, 8);

	(void)state;
	hints->src_addr = malloc(sizeof(src));
	hints->dest_addr = malloc(sizeof(dest));
	memcpy(hints->src_addr, &src, sizeof(src));
	memcpy(hints->dest_addr, &dest, sizeof(dest));
	hints->src_addrlen = hints->dest_addrlen = sizeof(src);
	info = get(hints);
	assert_address(info->src_addr, info->src_addrlen, LOOP, 7);
	assert_address(info->dest_addr, info->dest_addrlen, FAKE_HOST, 8);
	fi_freeinfo(info);
	/* node and service stand above hints, each on its side */
	assert_int_equal(fi_getinfo(API, "127.0.0.1", "9", 0, hints, &info), 0);
	assert_address(info->src_addr, info->src_addrlen, LOOP, 7);
	assert_address(info->dest_addr, info->dest_addrlen, LOOP, 9);
	fi_freeinfo(info);
	assert_int_equal(fi_getinfo(API, "127.0.0.1", "9", FI_SOURCE, hints, &info), 0);
	assert_address(info->src_addr, info->src_addrlen, LOOP, 9);
	assert_address(info->dest_addr, info->dest_addrlen, FAKE_HOST, 8);
	fi_freeinfo(info);
	hints->dest_addrlen = 3;
	assert_listed(API, hints, "");
	hints->dest_addrlen = 0;
	assert_refused(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_EINVAL);
	fi_freeinfo(hints);
}

/* ---- wrong calls ---- */

static void wrong_calls(void **state)
{
	struct fi_info *info;

	(void)state;
	assert_refused(fi_getinfo(API, NULL, NULL, 0, NULL, NULL), -FI_EINVAL);
	assert_refused(fi_getinfo(API, NULL, NULL, FI_MORE, NULL, &info), -FI_EBADFLAGS);
	assert_refused(fi_getinfo(API, NULL, NULL, FI_SOURCE, NULL, &info), -FI_EINVAL);
	assert_refused(fi_getinfo(API, NULL, "http", 0, NULL, &info), -FI_EINVAL);
	assert_refused(fi_getinfo(API, NULL, "65536", 0, NULL, &info), -FI_EINVAL);
	assert_refused(fi_getinfo(API, NULL, "", 0, NULL, &info), -FI_EINVAL);
	assert_refused(fi_getinfo(API, NULL, "-1", 0, NULL, &info), -FI_EINVAL);
	assert_refused(fi_getinfo(API, "host.name", "1", 0, NULL, &info), -FI_ENODATA);
	assert_refused(fi_getinfo(API, "127.1", "1", 0, NULL, &info), -FI_ENODATA);
	assert_refused(fi_getinfo(API, "localhost", "1", FI_NUMERICHOST, NULL, &info), -FI_ENODATA);
	assert_refused(fi_getinfo(API, "fi_sockaddr_in://127.0.0.1:1", "1", 0, NULL, &info),
		       -FI_EINVAL);
	assert_refused(fi_getinfo(API, "http://127.0.0.1:1", NULL, 0, NULL, &info), -FI_EINVAL);
	assert_int_equal(nic_register(&first_nic), -FI_EALREADY);
}

/* ---- what the environment changes: in processes of their own ---- */

static const char *const explain_env[] = { "FI_LOG_LEVEL=info", "HMREG_SW_ENABLE=0",
					   "HMREG_VERBS_ENABLE=0", NULL };

static void explain(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
	hints->tx_attr->inject_size = 513;
	CHECK(fi_getinfo(API, NULL, NULL, 0, hints, &info) == -FI_ENODATA);
	hints->tx_attr->inject_size = 0;
	hints->caps = FI_MSG | FI_TAGGED;
	CHECK(fi_getinfo(API, NULL, NULL, 0, hints, &info) == -FI_ENODATA);
	hints->caps = 0;
	CHECK(fi_getinfo(API, NULL, NULL, 0, hints, &info) == 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void api_03_every_refusal_is_explained(void **state)
{
	static struct child child;
	static const char *const lines[] = {
		"fake/scalable does not match: hints->tx_attr->inject_size: asked 513, offered "
		"512\n",
		"other/basic does not match: hints->tx_attr->inject_size: asked 513, offered 512\n",
		"fake/strict does not match: hints->caps: asked [FI_MSG, FI_TAGGED], offered [",
		"lacking [FI_TAGGED]\n",
		"fake/verbs does not match: hints->domain_attr->mr_mode: given [FI_MR_VIRT_ADDR], "
		"needed [FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY]\n",
	};

	(void)state;
	child_run(&child, explain_env, explain);
	assert_int_equal(child.writes, 4 + 4 + 3);
	for (size_t i = 0; i < count_of(lines); i++)
		if (!strstr(child.text, lines[i]))
			fail_msg("not in the log: %s\n%s", lines[i], child.text);
}

static const char *const filter_env[] = { "FI_PROVIDER=^hmreg", "FI_LOG_LEVEL=warn", NULL };

static void nothing_listed(void)
{
	struct fi_info untouched, *info = &untouched;

	CHECK(fi_getinfo(API, NULL, NULL, 0, NULL, &info) == -FI_ENODATA);
	CHECK(!info);
}

static void provider_filter_of_the_environment(void **state)
{
	static struct child child;

	(void)state;
	child_run(&child, filter_env, nothing_listed);
	assert_int_equal(child.writes, 0);
}

int main(void)
{
	/* These fork, so they come before this process reads its environment. */
	const struct CMUnitTest forked[] = {
		cmocka_unit_test(api_03_every_refusal_is_explained),
		cmocka_unit_test(provider_filter_of_the_environment),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_03_address_table),
		cmocka_unit_test(api_03_addresses_in_hints),
		cmocka_unit_test(wrong_calls),
	};
	int failed;

	nics_register();
	failed = cmocka_run_group_tests(forked, NULL, NULL);
	nics_only();
	return failed + cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
