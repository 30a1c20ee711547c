/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_getinfo while a device cannot be used, and after: what failed is not remembered.  Over the emulated
 * device, each case in a process of its own.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/unit/child.h"

static struct child child;

static const struct failure {
	const char *call;
	int error, ret;
	const char *text; /* of the one line when the device is asked for by name */
} failures[] = {
	{ "ibv_open_device", EACCES, -FI_EACCES, "no permission to open /dev/infiniband/" },
	{ "ibv_open_device", EMFILE, -FI_ENODEV, "cannot be opened: Too many open files" },
	{ "ibv_open_device", ENOMEM, -FI_ENODEV, "cannot be opened: Cannot allocate memory" },
	{ "ibv_get_device_list", ENOMEM, -FI_ENODATA, "no device of the name \"emu0\"" },
	{ "ibv_query_device_ex", EIO, -FI_ENODEV, "does not say what it can do" },
	{ "ibv_alloc_pd", ENOMEM, -FI_ENODEV, "does not say what it can do" },
	{ "ibv_query_port", EIO, -FI_ENODEV, "port 1 does not say what it is" },
	{ "rdma_create_event_channel", EMFILE, -FI_ENODEV, "cannot be asked for its address now" },
};
static const struct failure *failure;

/* How often emu0 is listed, or the code of fi_getinfo. */
static int ask(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int ret, n = 0;

	CHECK(hints != NULL);
	hints->domain_attr->name = strdup("emu0");
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	ret = fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	for (const struct fi_info *at = info; at; at = at->next)
		n++;
	fi_freeinfo(info);
	return ret ? ret : n;
}

static void fails_once(void)
{
	struct emu_verbs_counts counts;

	CHECK(emu_verbs_fail(failure->call, -1, failure->error) >= 1);
	CHECK(ask() == failure->ret);
	emu_verbs_fail(failure->call, 0, 0);
	CHECK(ask() == 1);
	CHECK(ask() == 1);
	emu_verbs_counts(&counts);
	CHECK(counts.contexts == 0 && counts.pds == 0 && counts.mrs == 0);
	CHECK(counts.event_channels == 0 && counts.cm_ids == 0);
}

static void api_03_failure_of_the_first_look_is_not_remembered(void **state)
{
	static const char *const warn[] = { "FI_LOG_LEVEL=warn", NULL };

	(void)state;
	for (failure = failures; failure < failures + sizeof(failures) / sizeof(*failures);
	     failure++) {
		print_message("%s %s\n", failure->call, strerror(failure->error));
		child_run(&child, warn, fails_once);
		assert_int_equal(child.writes, 1);
		if (!strstr(child.text, failure->text))
			fail_msg("\"%s\" is not in: %s", failure->text, child.text);
	}
}

/* Looking costs nothing where there is nothing to find out. */
static void looks_no_more(void)
{
	long opened;

	CHECK(ask() == 1);
	opened = emu_verbs_calls("ibv_open_device");
	for (int i = 0; i < 10; i++)
		CHECK(ask() == 1);
	CHECK(emu_verbs_calls("ibv_open_device") == opened);
	CHECK(emu_verbs_calls("ibv_get_device_list") == 1);
}

static void api_03_usable_device_is_looked_at_once(void **state)
{
	(void)state;
	child_run(&child, NULL, looks_no_more);
}

/* A domain over one port stays what it is while another device is found. */
static void finds_beside_a_domain(void)
{
	struct fi_info *hints = fi_allocinfo(), *info, *again;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	char byte[64];
	struct fid_mr *mr;

	CHECK(hints != NULL);
	setenv("HMREG_EMU_VERBS", "devices=2,emu1.open=EMFILE", 1);
	hints->fabric_attr->name = strdup("hmreg-verbs");
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	CHECK(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info) == 0);
	CHECK(strcmp(info->domain_attr->name, "emu0") == 0 && !info->next);
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
	CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
	setenv("HMREG_EMU_VERBS", "devices=2", 1);
	ibv_free_device_list(ibv_get_device_list(NULL)); /* reads the settings */
	CHECK(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &again) == 0);
	CHECK(again->next && strcmp(again->next->domain_attr->name, "emu1") == 0);
	CHECK(fi_mr_reg(domain, byte, sizeof(byte), FI_SEND, 0, 0, 0, &mr, NULL) == 0);
	CHECK(fi_close(&mr->fid) == 0);
	CHECK(fi_close(&domain->fid) == 0 && fi_close(&fabric->fid) == 0);
	fi_freeinfo(again);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void api_03_device_is_found_beside_an_open_domain(void **state)
{
	(void)state;
	child_run(&child, NULL, finds_beside_a_domain);
}

/* Several threads ask while the device comes to life: each gets an answer of the two that there are. */
static void *ask_often(void *arg)
{
	for (int i = 0; i < 200; i++) {
		int ret = ask();

		if (ret != 1 && ret != -FI_ENODEV)
			*(int *)arg = 1;
	}
	return NULL;
}

static void asks_from_threads(void)
{
	pthread_t thread[4];
	int wrong = 0;

	emu_verbs_fail("ibv_open_device", -1, EMFILE);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&thread[i], NULL, ask_often, &wrong) == 0);
	while (emu_verbs_calls("ibv_open_device") < 20)
		;
	emu_verbs_fail("ibv_open_device", 0, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CHECK(!wrong && ask() == 1);
}

static void api_19_device_comes_to_life_while_threads_ask(void **state)
{
	(void)state;
	child_run(&child, NULL, asks_from_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_03_failure_of_the_first_look_is_not_remembered),
		cmocka_unit_test(api_03_usable_device_is_looked_at_once),
		cmocka_unit_test(api_03_device_is_found_beside_an_open_domain),
		cmocka_unit_test(api_19_device_comes_to_life_while_threads_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
