/* SPDX-License-Identifier: BSD-2-Clause */
/* FN-22: the choice of a way to register memory, case by case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/range.h"
#include "core/mr/mr.h"
#include "tests/unit/alloc_fail.h"

#define DEVICE_WAYS (HMEM_WAY_DMABUF | HMEM_WAY_PEER | HMEM_WAY_COPY)
#define HOST_WAYS   (HMEM_WAY_HOST | HMEM_WAY_COPY)
#define VERBS	    (NIC_WAY_DMABUF | NIC_WAY_PEER)
#define FAILED(way) (1u << HM_MR_##way)
#define BOTH_DMABUF (FAILED(DMABUF) | FAILED(DMABUF_EXACT))

struct row {
	struct hm_mr_choice choice;
	size_t count;
	enum hm_mr_way way[3];
};

static const struct row rows[] = {
	/* the software NIC copies, whatever else is possible, and no peer is involved */
	{ { DEVICE_WAYS, NIC_WAY_COPY, 0, false }, 1, { HM_MR_COPY } },
	{ { DEVICE_WAYS, NIC_WAY_COPY, 0, true }, 1, { HM_MR_COPY } },
	{ { HMEM_WAY_COPY, NIC_WAY_COPY, 0, true }, 1, { HM_MR_COPY } },
	/* host memory needs none of it */
	{ { HOST_WAYS, NIC_WAY_COPY, 0, true }, 1, { HM_MR_AS_HOST } },
	{ { HOST_WAYS, VERBS, 0, true }, 1, { HM_MR_AS_HOST } },
	{ { HOST_WAYS, 0, ~0u, true }, 1, { HM_MR_AS_HOST } },
	/* a NIC: dma-buf, then peer memory */
	{ { DEVICE_WAYS, VERBS, 0, false }, 3, { HM_MR_DMABUF, HM_MR_DMABUF_EXACT, HM_MR_PEER } },
	{ { DEVICE_WAYS, NIC_WAY_DMABUF, 0, false }, 2, { HM_MR_DMABUF, HM_MR_DMABUF_EXACT } },
	{ { DEVICE_WAYS, NIC_WAY_PEER, 0, false }, 1, { HM_MR_PEER } },
	{ { HMEM_WAY_PEER | HMEM_WAY_COPY, VERBS, 0, false }, 1, { HM_MR_PEER } },
	{ { HMEM_WAY_DMABUF, VERBS, 0, false }, 2, { HM_MR_DMABUF, HM_MR_DMABUF_EXACT } },
	/* what failed for good is not tried again */
	{ { DEVICE_WAYS, VERBS, FAILED(DMABUF), false }, 2, { HM_MR_DMABUF_EXACT, HM_MR_PEER } },
	{ { DEVICE_WAYS, VERBS, BOTH_DMABUF, false }, 1, { HM_MR_PEER } },
	{ { DEVICE_WAYS, VERBS, BOTH_DMABUF | FAILED(PEER), false }, 0, { 0 } },
	/* a NIC does not copy, and is kept off the device where the operator says so */
	{ { HMEM_WAY_COPY, VERBS, 0, false }, 0, { 0 } },
	{ { DEVICE_WAYS, VERBS, 0, true }, 0, { 0 } },
	{ { 0, VERBS | NIC_WAY_COPY, 0, false }, 0, { 0 } },
	{ { DEVICE_WAYS, 0, 0, false }, 0, { 0 } },
};

static void fn_22_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(rows); i++) {
		enum hm_mr_way way[HM_MR_WAYS];
		enum hmreg_cause cause;
		const char *why = NULL;
		size_t count = hm_mr_ways(&rows[i].choice, way, &why, &cause);

		assert_int_equal(count, rows[i].count);
		for (size_t k = 0; k < count; k++)
			assert_int_equal(way[k], rows[i].way[k]);
		/* no way has a reason */
		assert_int_equal(count == 0, why[0] != 0);
		assert_int_equal(count == 0, cause != HMREG_CAUSE_NONE);
	}
}

static void hmem_01_is_named(void **state)
{
	struct hm_mr_choice choice = { DEVICE_WAYS, VERBS, 0, true };
	enum hm_mr_way way[HM_MR_WAYS];
	enum hmreg_cause cause;
	const char *why;

	(void)state;
	assert_int_equal(hm_mr_ways(&choice, way, &why, &cause), 0);
	assert_int_equal(cause, HMREG_CAUSE_P2P_OFF);
	assert_non_null(strstr(why, "FI_HMEM_DISABLE_P2P"));
}

static int registered_as; /* what the NIC answers */

static int fake_register(struct nic_region *region, const struct nic_region_request *req)
{
	(void)region, (void)req;
	return registered_as;
}

/* What failed for one device alone is remembered, not what a region of several kinds of memory met with. */
static void fn_22_what_is_learnt(void **state)
{
	static const struct nic_ops ops = { .region_register = fake_register };
	static const struct nic_port port = { .domain_name = "fake", .ways = NIC_WAY_PEER };
	struct nic_domain nic = { .ops = &ops, .port = &port };
	struct hm_mr_domain domain = { .nic = &nic, .learnt_lock = PTHREAD_MUTEX_INITIALIZER };
	struct nic_region_ext ext = { .path = 0 };
	struct nic_region region = { .domain = &nic, .ext = &ext };
	static struct hm_mr_request request = {
		.nic.iov_count = 2,
		.on_device = true,
		.memory = { { .iface = FI_HMEM_CUDA, .ways = DEVICE_WAYS, .reason = "" },
			    { .ways = HOST_WAYS, .reason = "" } },
	};

	(void)state;
	registered_as = -FI_EOPNOTSUPP;
	assert_int_equal(hm_mr_register_by_path(&domain, &region, &request), -FI_EOPNOTSUPP);
	request.memory[1] = request.memory[0];
	request.memory[1].device = 1;
	assert_int_equal(hm_mr_register_by_path(&domain, &region, &request), -FI_EOPNOTSUPP);
	request.nic.iov_count = 1;
	registered_as = 0;
	assert_int_equal(hm_mr_register_by_path(&domain, &region, &request), 0);
	assert_int_equal(ext.path, HMREG_PATH_PEER_MEMORY);
	registered_as = -FI_EOPNOTSUPP;
	assert_int_equal(hm_mr_register_by_path(&domain, &region, &request), -FI_EOPNOTSUPP);
	registered_as = 0;
	assert_int_equal(hm_mr_register_by_path(&domain, &region, &request), -FI_EOPNOTSUPP);
	hm_mr_learnt_free(&domain);
}

/* FN-05: without memory for the pieces of a region, nothing of them stays, and nothing is freed twice. */
static void fn_05_no_memory_for_the_pieces(void **state)
{
	static const struct nic_ops ops = { .region_register = fake_register };
	static const struct nic_port port = { .domain_name = "fake", .ways = NIC_WAY_DMABUF };
	struct nic_domain nic = { .ops = &ops, .port = &port };
	struct hm_mr_domain domain = { .nic = &nic, .learnt_lock = PTHREAD_MUTEX_INITIALIZER };
	struct nic_region region = { .domain = &nic };
	static struct hm_mr_request request = {
		.nic.iov_count = 1,
		.on_device = true,
		.memory = { { .iface = FI_HMEM_CUDA, .ways = HMEM_WAY_DMABUF, .segments = 1 } },
	};
	long before = alloc_live;

	(void)state;
	registered_as = -FI_EIO; /* the next way fails, too */
	request.memory[0].reason = "";
	request.nic.iov = &(struct iovec){ (void *)0x500000000000, 0 };
	for (unsigned int call = 1; call <= 3; call++) {
		alloc_fail_at(call);
		assert_true(hm_mr_register_by_path(&domain, &region, &request) < 0);
		assert_true(alloc_failed());
		assert_int_equal(alloc_live, before);
	}
	hm_mr_learnt_free(&domain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_22_table),
		cmocka_unit_test(fn_05_no_memory_for_the_pieces),
		cmocka_unit_test(fn_22_what_is_learnt),
		cmocka_unit_test(hmem_01_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
