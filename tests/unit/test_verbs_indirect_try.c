/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which devices and domains have keys over several regions: the trial when devices are looked for, over
 * each kind of port, and with each call of it failing; contexts that programs bring; lists that are too
 * long.  The library looks for devices once, so each case is a process of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/unit/child.h"

#define RIGHTS	  (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PAGE	  4096u
#define GIB	  (UINT64_C(1) << 30)
#define COMPOSITE (UINT64_C(1) << 63)
#define FROM_0	  (FI_MR_PROV_KEY | FI_MR_ALLOCATED)

static struct child child;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct hmreg_fabric_ops *ops;

/* ---- in a child ---- */

static void find(const char *name, int mr_mode)
{
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_MSG | FI_RMA;
	hints->domain_attr->name = strdup(name);
	hints->domain_attr->mr_mode = mr_mode;
	CHECK(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info) == 0);
	fi_freeinfo(hints);
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
	CHECK(fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL) == 0);
}

static void forget(void)
{
	CHECK(fi_close(&fabric->fid) == 0);
	fi_freeinfo(info);
}

/* What is told of this device: "" where it has such keys. */
static const char *reason(const char *name)
{
	struct hmreg_device device = { .size = sizeof(device) };

	find(name, FROM_0);
	CHECK(ops->device(&fabric->fid, info, &device) == 0);
	CHECK(!*device.indirect_reason == !!(device.can & HMREG_CAN_INDIRECT_KEYS));
	forget();
	return device.indirect_reason;
}

static void nothing_left(const struct emu_verbs_counts *before)
{
	struct emu_verbs_counts after;

	emu_verbs_counts(&after);
	CHECK(memcmp(before, &after, sizeof(after)) == 0);
}

/* The bit of a key of two pages that are apart. */
static uint64_t kind_of_key(struct fid_domain *domain)
{
	static uint8_t memory[4 * PAGE] __attribute__((aligned(4096)));
	struct iovec iov[2] = { { memory, PAGE }, { memory + 2 * PAGE, PAGE } };
	struct fid_mr *mr;
	uint64_t key;

	CHECK(fi_mr_regv(domain, iov, 2, RIGHTS, 0, 0, 0, &mr, NULL) == 0);
	key = fi_mr_key(mr);
	CHECK(fi_close(&mr->fid) == 0);
	return key & COMPOSITE;
}

static size_t lines_with(const char *text)
{
	size_t n = 0;

	for (const char *at = child.text; (at = strstr(at, text)) != NULL; at++)
		n++;
	return n;
}

/* ---- the trial ---- */

/* The port leads back to itself; keys of domains over it are made the same way. */
static void one_port(void)
{
	struct emu_verbs_counts before;
	struct fid_domain *domain;

	emu_verbs_counts(&before);
	CHECK(strcmp(reason("emu0"), "") == 0);
	find("emu0", FROM_0);
	CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
	CHECK(kind_of_key(domain) == 0);
	CHECK(fi_close(&domain->fid) == 0);
	forget();
	nothing_left(&before);
}

/* The device refuses paths without a global header on RoCE, and where an InfiniBand port wants one. */
static void fn_26_over_every_kind_of_port(void **state)
{
	static const char *const settings[] = { "HMREG_EMU_VERBS=indirect=1",
						"HMREG_EMU_VERBS=indirect=1,gids=mixed",
						"HMREG_EMU_VERBS=indirect=1,link=ib",
						"HMREG_EMU_VERBS=indirect=1,link=ib,grh=1",
						"HMREG_EMU_VERBS=indirect=1,link=ib,lid=0" };

	(void)state;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const char *const env[] = { settings[i], NULL };

		child_run(&child, env, one_port);
	}
}

static void each_reason(void)
{
	CHECK(strcmp(reason("emu0"), "") == 0);
	CHECK(strstr(reason("emu1"), "provider has no such keys"));
	CHECK(strstr(reason("emu2"), "DEVX: Operation not supported"));
	CHECK(strstr(reason("emu3"), "queue pair to itself: Invalid argument"));
	CHECK(strcmp(reason("emu4"), "") == 0); /* no need of DEVX */
	CHECK(strstr(reason("emu5"), "a region: Cannot allocate memory"));
}

static void fn_25_devices_that_have_none_say_why(void **state)
{
	static const char *const env[] = {
		"HMREG_EMU_VERBS=devices=6,indirect=1,emu1.indirect=0,emu2.devx=0,"
		"emu3.max_inline=32,emu4.devx=2,emu5.memlock=8192",
		NULL
	};

	(void)state;
	child_run(&child, env, each_reason);
}

static const struct failing {
	const char *call;
	int nth; /* -1: always */
	int error;
	const char *step;
} failing[] = {
	{ "mlx5dv_open_device", 1, EPROTONOSUPPORT, "opening it with DEVX" },
	{ "ibv_alloc_pd", 2, ENOMEM, "a protection domain" },
	{ "ibv_create_cq", 1, ENOMEM, "a completion queue" },
	{ "ibv_create_qp", 1, ENOMEM, "a queue pair to itself" },
	{ "ibv_query_port", 2, EIO, "connecting a queue pair to itself" },
	{ "ibv_modify_qp", 1, EINVAL, "connecting a queue pair to itself" },
	{ "ibv_modify_qp", 2, EINVAL, "connecting a queue pair to itself" },
	{ "ibv_modify_qp", 3, EINVAL, "connecting a queue pair to itself" },
	{ "mlx5dv_create_mkey", 1, EOPNOTSUPP, "the key: Operation not supported" },
	{ "ibv_wr_complete", 1, ENOMEM, "writing the list" },
	{ "ibv_poll_cq", 1, EIO, "a request of the queue pair to itself" },
	{ "ibv_poll_cq", 2, EIO, "a request of the queue pair to itself" },
	{ "ibv_post_send", 1, ENOMEM, "a request of the queue pair to itself" },
};
static const struct failing *failing_now;

static void the_trial_fails(void)
{
	struct emu_verbs_counts before;
	struct fid_domain *domain;
	const char *why;

	emu_verbs_counts(&before);
	CHECK(emu_verbs_fail(failing_now->call, failing_now->nth, failing_now->error) == 1);
	why = reason("emu0");
	emu_verbs_fail(failing_now->call, 0, 0);
	if (!strstr(why, failing_now->step)) {
		printf("\"%s\", not \"%s\"\n", why, failing_now->step);
		exit(1);
	}
	find("emu0", FROM_0);
	CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
	CHECK(kind_of_key(domain) == COMPOSITE);
	CHECK(fi_close(&domain->fid) == 0);
	forget();
	nothing_left(&before);
}

static void fn_25_each_call_of_the_trial_fails(void **state)
{
	static const char *const env[] = { "HMREG_EMU_VERBS=indirect=1", NULL };

	(void)state;
	for (size_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++) {
		failing_now = &failing[i];
		child_run(&child, env, the_trial_fails);
	}
}

/* ---- contexts that the program has ---- */

static void adopt(struct ibv_context *context, uint64_t kind)
{
	struct hmreg_verbs_adopt have = { .size = sizeof(have), .context = context };
	struct fid_domain *domain;

	CHECK(context);
	find("emu0", FROM_0);
	CHECK(ops->domain_over(fabric, info, &have, &domain, NULL) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(kind_of_key(domain) == kind);
	CHECK(fi_close(&domain->fid) == 0);
	CHECK(ibv_close_device(context) == 0);
	forget();
}

static void contexts_with_and_without(void)
{
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct emu_verbs_counts before;

	CHECK(strcmp(reason("emu0"), "") == 0);
	emu_verbs_counts(&before);
	adopt(mlx5dv_open_device(list[0], &attr), 0);
	adopt(ibv_open_device(list[0]), COMPOSITE);
	nothing_left(&before);
	ibv_free_device_list(list);
}

static void api_20_an_adopted_context_without_devx_is_told_once(void **state)
{
	static const char *const env[] = { "HMREG_EMU_VERBS=indirect=1", "FI_LOG_LEVEL=info",
					   NULL };

	(void)state;
	child_run(&child, env, contexts_with_and_without);
	assert_int_equal(lines_with("no key over several regions"), 1);
	assert_int_equal(lines_with("may lack DEVX"), 1);
}

/* The trial went well, but the domain's context cannot be opened with DEVX. */
static void no_devx_left(void)
{
	struct emu_verbs_counts before;
	struct fid_domain *domain;

	CHECK(strcmp(reason("emu0"), "") == 0);
	emu_verbs_counts(&before);
	find("emu0", FROM_0);
	CHECK(emu_verbs_fail("mlx5dv_open_device", 1, ENOMEM) == 1);
	CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
	CHECK(kind_of_key(domain) == COMPOSITE);
	CHECK(kind_of_key(domain) == COMPOSITE);
	CHECK(fi_close(&domain->fid) == 0);
	forget();
	nothing_left(&before);
}

static void api_20_a_context_of_our_own_without_devx_is_told_once(void **state)
{
	static const char *const env[] = { "HMREG_EMU_VERBS=indirect=1", "FI_LOG_LEVEL=info",
					   NULL };

	(void)state;
	child_run(&child, env, no_devx_left);
	assert_int_equal(lines_with("no key over several regions in this domain"), 1);
	assert_int_equal(lines_with("may lack DEVX"), 0);
}

/* Domains that address by virtual addresses have no use for DEVX, and are opened as ever. */
static void opened_plainly(void)
{
	struct fid_domain *domain;
	long before;

	find("emu0", FROM_0 | FI_MR_VIRT_ADDR);
	before = emu_verbs_calls("mlx5dv_open_device");
	CHECK(before == 1);
	CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
	CHECK(emu_verbs_calls("mlx5dv_open_device") == before);
	CHECK(kind_of_key(domain) == COMPOSITE);
	CHECK(fi_close(&domain->fid) == 0);
	forget();
}

static void mode_05_virtual_addresses_need_no_devx(void **state)
{
	static const char *const env[] = { "HMREG_EMU_VERBS=indirect=1", NULL };

	(void)state;
	child_run(&child, env, opened_plainly);
}

/* ---- what such keys do not take ---- */

static uint64_t kind_of_length(struct fid_domain *domain, uint8_t *memory, uint64_t len)
{
	struct fid_mr *mr;
	uint64_t key;

	CHECK(fi_mr_reg(domain, memory, len, FI_REMOTE_READ, 0, 0, 0, &mr, NULL) == 0);
	key = fi_mr_key(mr);
	CHECK(fi_close(&mr->fid) == 0);
	return key & COMPOSITE;
}

/* Over memory that is only reserved; the device does not look at it. */
static void up_to_2_gib(void)
{
	uint64_t most = 2 * GIB - 1;
	uint8_t *memory =
		mmap(NULL, 3 * GIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct fid_domain *domain;

	CHECK(memory != MAP_FAILED);
	find("emu0", FROM_0);
	CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
	CHECK(kind_of_length(domain, memory, GIB + 1) == 0);
	CHECK(kind_of_length(domain, memory, most) == 0);
	CHECK(kind_of_length(domain, memory, most + 1) == COMPOSITE);
	CHECK(kind_of_length(domain, memory, 3 * GIB) == COMPOSITE);
	CHECK(fi_close(&domain->fid) == 0);
	forget();
	munmap(memory, 3 * GIB);
}

static void fn_26_longer_keys_are_tables(void **state)
{
	static const char *const env[] = { "HMREG_EMU_VERBS=indirect=1,max_mr_size=1G",
					   "FI_LOG_LEVEL=info", NULL };

	(void)state;
	child_run(&child, env, up_to_2_gib);
	assert_int_equal(lines_with("it would be too short"), 2);
}

static void up_to_16_parts(void)
{
	static uint8_t memory[17 * PAGE] __attribute__((aligned(4096)));
	struct fid_domain *domain;

	find("emu0", FROM_0);
	CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
	CHECK(kind_of_length(domain, memory, 16 * PAGE) == 0);
	CHECK(kind_of_length(domain, memory, 16 * PAGE + 1) == COMPOSITE);
	CHECK(fi_close(&domain->fid) == 0);
	forget();
}

static void fn_26_more_parts_are_tables(void **state)
{
	static const char *const env[] = { "HMREG_EMU_VERBS=indirect=1,max_mr_size=4096",
					   "FI_LOG_LEVEL=info", NULL };

	(void)state;
	child_run(&child, env, up_to_16_parts);
	assert_int_equal(lines_with("over 17 regions: at most 16"), 1);
}

static void on_demand(void)
{
	struct fid_domain *domain;

	CHECK(strcmp(reason("emu0"), "") == 0);
	find("emu0", FI_MR_PROV_KEY);
	CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
	CHECK(kind_of_key(domain) == COMPOSITE);
	CHECK(fi_close(&domain->fid) == 0);
	forget();
}

static void mode_06_pages_on_demand_are_tables(void **state)
{
	static const char *const env[] = { "HMREG_EMU_VERBS=indirect=1,odp=1", NULL };

	(void)state;
	child_run(&child, env, on_demand);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_26_over_every_kind_of_port),
		cmocka_unit_test(fn_25_devices_that_have_none_say_why),
		cmocka_unit_test(fn_25_each_call_of_the_trial_fails),
		cmocka_unit_test(api_20_an_adopted_context_without_devx_is_told_once),
		cmocka_unit_test(api_20_a_context_of_our_own_without_devx_is_told_once),
		cmocka_unit_test(mode_05_virtual_addresses_need_no_devx),
		cmocka_unit_test(fn_26_longer_keys_are_tables),
		cmocka_unit_test(fn_26_more_parts_are_tables),
		cmocka_unit_test(mode_06_pages_on_demand_are_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
