/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of the verbs NIC that are one ibv_mr, and local buffers: what is asked of the library. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>

#include "tests/unit/verbs_stub.h"

#define ADDR UINT64_C(0x7f0012345678)
#define BASE UINT64_C(0x600000000000)
#define ALL  (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static struct stub_region r;

/* As core does before it calls the NIC. */
static void prepare(struct stub_region *at, uint64_t base, uint64_t len, uint64_t rights)
{
	at->region.domain = &stub_domain.domain;
	at->region.base = base;
	at->region.len = len;
	at->region.access = (uint32_t)rights;
	at->region.ext = NULL;
	at->region.parent = NULL;
	atomic_store(&at->region.state, NIC_REGION_ENABLED);
}

/* Register [addr, +len) as core would. */
static int reg(struct stub_region *at, uint64_t addr, uint64_t len, uint64_t rights, uint64_t flags)
{
	struct iovec iov = { (void *)(uintptr_t)addr, len };
	struct nic_region_request req = {
		.iov = &iov, .iov_count = 1, .access = rights, .flags = flags
	};

	prepare(at, addr, len, rights);
	return verbs_region_register(&at->region, &req);
}

static int reg_dmabuf(struct stub_region *at, struct fi_mr_dmabuf dmabuf, uint64_t rights)
{
	struct iovec iov = { (char *)dmabuf.base_addr + dmabuf.offset, dmabuf.len };
	struct nic_region_request req = { .iov = &iov,
					  .iov_count = 1,
					  .access = rights,
					  .flags = FI_MR_DMABUF,
					  .dmabuf = &dmabuf };

	prepare(at, (uintptr_t)iov.iov_base, iov.iov_len, rights);
	return verbs_region_register(&at->region, &req);
}

static void dereg(struct stub_region *at)
{
	assert_int_equal(verbs_region_deregister(&at->region), 0);
}

/* ---- what the library is asked ---- */

#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define REMOTE IBV_ACCESS_REMOTE_WRITE

static const struct {
	uint64_t rights;
	unsigned int access, with_atomics;
} rights[] = {
	{ 0, 0, 0 },
	{ FI_SEND, 0, 0 },
	{ FI_WRITE, 0, 0 },
	{ FI_SEND | FI_WRITE | FI_COLLECTIVE, 0, 0 },
	{ FI_RECV, LOCAL, LOCAL },
	{ FI_READ, LOCAL, LOCAL },
	{ FI_REMOTE_READ, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ },
	{ FI_REMOTE_WRITE, LOCAL | REMOTE, LOCAL | REMOTE | IBV_ACCESS_REMOTE_ATOMIC },
	{ ALL, LOCAL | REMOTE | IBV_ACCESS_REMOTE_READ,
	  LOCAL | REMOTE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC },
};

static void reg_02_attr_01_rights(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		for (unsigned int atomics = 0; atomics < 2; atomics++) {
			stub_reset();
			stub_device.can = atomics ? HMREG_CAN_ATOMICS : 0;
			assert_int_equal(reg(&r, ADDR, 100, rights[i].rights, 0), 0);
			assert_int_equal(stub_asked[0]->access,
					 atomics ? rights[i].with_atomics : rights[i].access);
			dereg(&r);
		}
	}
}

static void mode_05_virtual_addresses(void **state)
{
	struct hmreg_region_info info = { .size = 77 };
	struct hmreg_verbs_part part = { .size = 77 };

	(void)state;
	assert_int_equal(reg(&r, ADDR, 12345, ALL, 0), 0);
	assert_int_equal(stub_asked[0]->addr, ADDR);
	assert_int_equal(stub_asked[0]->len, 12345);
	assert_int_equal(stub_asked[0]->iova, ADDR);
	assert_int_equal(stub_asked[0]->fd, -1);
	assert_int_equal(verbs_region_key(&r.region), stub_asked[0]->ibv.rkey);
	assert_int_equal(atomic_load(&stub_domain.parts), 1);
	assert_int_equal(verbs_region_info(&r.region, &info), 0);
	assert_int_equal(info.path, HMREG_PATH_HOST);
	assert_int_equal(info.state, 0);
	assert_int_equal(info.parts, 1);
	assert_int_equal(info.len, 12345);
	assert_int_equal(verbs_region_part(&r.region, 0, &part), 0);
	assert_ptr_equal(part.mr, &stub_asked[0]->ibv);
	assert_int_equal(part.lkey, stub_asked[0]->ibv.lkey);
	assert_int_equal(part.rkey, stub_asked[0]->ibv.rkey);
	assert_int_equal(part.iova, ADDR);
	assert_int_equal(part.offset, 0);
	assert_int_equal(part.len, 12345);
	assert_told(verbs_region_part(&r.region, 1, &part), -FI_ENOENT, "that has 1");
	dereg(&r);
}

static void mode_02_offsets_by_a_small_iova(void **state)
{
	struct hmreg_region_info info;
	uint64_t key, covered;
	struct ibv_sge sge;

	(void)state;
	stub_domain.zero_based = true;
	assert_int_equal(reg(&r, ADDR, 9000, ALL, 0), 0);
	assert_int_equal(stub_asked[0]->iova, ADDR % 4096);
	key = verbs_region_key(&r.region);
	assert_int_equal(VERBS_KEY_RKEY(key), stub_asked[0]->ibv.rkey);
	assert_int_equal(VERBS_KEY_INTERIOR(key), ADDR % 4096);
	assert_false(key & VERBS_KEY_COMPOSITE);
	assert_int_equal(verbs_region_info(&r.region, &info), 0);
	assert_int_equal(info.state, HMREG_REGION_ZERO_BASE);
	/* this side's own accesses start from addresses all the same */
	assert_int_equal(verbs_region_sges(&r.region, ADDR + 10, 50, &sge, 1, &covered), 1);
	assert_int_equal(covered, 50);
	assert_int_equal(sge.addr, ADDR % 4096 + 10);
	assert_int_equal(sge.length, 50);
	assert_int_equal(sge.lkey, stub_asked[0]->ibv.lkey);
	dereg(&r);
}

static void reg_08_fn_35_relaxed_ordering_is_asked_for(void **state)
{
	struct hmreg_region_info info;

	(void)state;
	stub_device.can = HMREG_CAN_RELAXED_ORDERING;
	assert_int_equal(reg(&r, ADDR, 64, ALL, 0), 0);
	assert_false(stub_asked[0]->access & IBV_ACCESS_RELAXED_ORDERING);
	dereg(&r);
	assert_int_equal(reg(&r, ADDR, 64, ALL, HMREG_MR_RELAXED_ORDERING), 0);
	assert_true(stub_asked[1]->access & IBV_ACCESS_RELAXED_ORDERING);
	assert_int_equal(verbs_region_info(&r.region, &info), 0);
	assert_int_equal(info.state, HMREG_REGION_RELAXED);
	dereg(&r);
	stub_device.can = 0;
	assert_int_equal(reg(&r, ADDR, 64, ALL, HMREG_MR_RELAXED_ORDERING), 0);
	assert_false(stub_asked[2]->access & IBV_ACCESS_RELAXED_ORDERING);
	assert_int_equal(verbs_region_info(&r.region, &info), 0);
	assert_int_equal(info.state, 0);
	dereg(&r);
	assert_int_equal(stub_warnings, 0);
}

static void mode_06_on_demand_pages_of_host_memory(void **state)
{
	struct fi_mr_dmabuf dmabuf = { .fd = 5, .len = 4096 };
	struct hmreg_region_info info;

	(void)state;
	stub_domain.on_demand = true;
	assert_int_equal(reg(&r, ADDR, 64, 0, 0), 0);
	assert_int_equal(stub_asked[0]->access, IBV_ACCESS_ON_DEMAND);
	assert_int_equal(verbs_region_info(&r.region, &info), 0);
	assert_int_equal(info.state, HMREG_REGION_ON_DEMAND);
	dereg(&r);
	/* the kernel refuses the flag beside a dma-buf, whose exporter tells of moves anyway */
	assert_int_equal(reg_dmabuf(&r, dmabuf, 0), 0);
	assert_int_equal(stub_asked[1]->access, 0);
	dereg(&r);
}

/* Pages of a device are not the process's: nobody would bring them in when they are asked for. */
static void fn_22_peer_memory_is_pinned(void **state)
{
	struct iovec iov = { (void *)ADDR, 64 };
	struct nic_region_request req = {
		.iov = &iov, .iov_count = 1, .access = ALL, .peer_memory = true
	};
	struct hmreg_region_info info;

	(void)state;
	stub_domain.on_demand = true;
	r.region = (struct nic_region){
		.domain = &stub_domain.domain, .base = ADDR, .len = 64, .access = (uint32_t)ALL
	};
	assert_int_equal(verbs_region_register(&r.region, &req), 0);
	assert_false(stub_asked[0]->access & IBV_ACCESS_ON_DEMAND);
	assert_int_equal(verbs_region_info(&r.region, &info), 0);
	assert_int_equal(info.state, 0);
	dereg(&r);
}

/* ---- dma-bufs ---- */

static void reg_06_dmabuf_addresses(void **state)
{
	static const struct {
		bool zero_based;
		uint64_t base, offset, iova;
	} cases[] = {
		{ false, BASE, 4196, BASE + 4196 }, { false, 0, 4196, 4196 }, { false, 0, 0, 0 },
		{ true, BASE, 4196, 100 },	    { true, 0, 8192, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_mr_dmabuf dmabuf = { .fd = 123456,
					       .offset = cases[i].offset,
					       .len = 20000,
					       .base_addr = (void *)(uintptr_t)cases[i].base };
		struct hmreg_region_info info;
		struct hmreg_verbs_part part;
		uint64_t covered;
		struct ibv_sge sge;

		stub_reset();
		stub_domain.zero_based = cases[i].zero_based;
		assert_int_equal(reg_dmabuf(&r, dmabuf, ALL), 0);
		assert_int_equal(stub_asked[0]->fd, 123456);
		assert_int_equal(stub_asked[0]->offset, cases[i].offset);
		assert_int_equal(stub_asked[0]->len, 20000);
		assert_int_equal(stub_asked[0]->iova, cases[i].iova);
		assert_int_equal(stub_asked[0]->iova % 4096, cases[i].offset % 4096);
		assert_int_equal(verbs_region_key(&r.region),
				 VERBS_KEY(stub_asked[0]->ibv.rkey,
					   cases[i].zero_based ? cases[i].iova : 0));
		assert_int_equal(verbs_region_info(&r.region, &info), 0);
		assert_int_equal(info.path, HMREG_PATH_DMABUF);
		assert_int_equal(verbs_region_part(&r.region, 0, &part), 0);
		assert_int_equal(part.iova, cases[i].iova);
		/* fn_13: the library's own idea of the address is not needed */
		assert_null(stub_asked[0]->ibv.addr);
		assert_int_equal(verbs_region_sges(&r.region, cases[i].base + cases[i].offset + 7,
						   3, &sge, 1, &covered),
				 1);
		assert_int_equal(sge.addr, cases[i].iova + 7);
		dereg(&r);
	}
}

/* ---- the end of regions ---- */

static void close_of_a_busy_region_changes_nothing(void **state)
{
	struct fi_mr_dmabuf dmabuf = { .fd = 5, .len = 4096, .base_addr = (void *)BASE };
	struct hmreg_verbs_part part;

	(void)state;
	assert_int_equal(reg_dmabuf(&r, dmabuf, ALL), 0);
	atomic_store(&stub_domain.shown, true);
	stub_dereg_error = EBUSY;
	assert_told(verbs_region_deregister(&r.region), -FI_EBUSY, "memory windows");
	assert_int_equal(verbs_region_part(&r.region, 0, &part), 0);
	assert_false(hm_list_empty(&stub_domain.dmabufs));
	stub_dereg_error = EINVAL; /* what rxe says to the same */
	assert_told(verbs_region_deregister(&r.region), -FI_EBUSY, "memory windows");
	stub_dereg_error = 0;
	dereg(&r);
	assert_true(hm_list_empty(&stub_domain.dmabufs));
}

/* Whatever the number, as long as the device is there: the region is as before, and can be closed again. */
static void api_20_driver_that_refuses_to_end_a_region(void **state)
{
	static const int errors[] = { EPERM, EIO, ENODEV, ENOMEM, EAGAIN, 200 };
	struct fi_mr_dmabuf dmabuf = { .fd = 5, .len = 4096, .base_addr = (void *)BASE };

	(void)state;
	assert_int_equal(reg_dmabuf(&r, dmabuf, ALL), 0);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		char expected[64];

		stub_dereg_error = errors[i];
		snprintf(expected, sizeof(expected), "errno %d (", errors[i]);
		assert_told(verbs_region_deregister(&r.region), -errors[i], expected);
		assert_non_null(strstr(stub_log, "ibv_dereg_mr on stub0"));
		assert_non_null(strstr(stub_log, "the driver refuses to end it; the region stays"));
		assert_null(strstr(stub_log, "window"));
		assert_false(hm_list_empty(&stub_domain.dmabufs));
		assert_int_equal(stub_domain.parts, 1);
	}
	stub_dereg_error = 0;
	dereg(&r);
	assert_true(hm_list_empty(&stub_domain.dmabufs));
}

static void fn_38_a_device_that_is_gone(void **state)
{
	static const int errors[] = { EIO, EINVAL, ENODEV };
	struct hmreg_region_info info;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		uint64_t key;

		assert_int_equal(reg(&r, ADDR, 64, ALL, 0), 0);
		key = verbs_region_key(&r.region);
		atomic_store(&stub_domain.gone, true);
		assert_int_equal(verbs_region_info(&r.region, &info), 0);
		assert_int_equal(info.state, HMREG_REGION_REVOKED);
		assert_int_equal(verbs_region_key(&r.region), key); /* reserved until close */
		stub_dereg_error = errors[i];
		dereg(&r);
		stub_dereg_error = 0;
		atomic_store(&stub_domain.gone, false);
		stub_dereg_mr(&stub_asked[i]->ibv);
	}
	/* nobody has heard of it yet */
	assert_int_equal(stub_warnings, 0);
	assert_int_equal(reg(&r, ADDR, 64, ALL, 0), 0);
	stub_dereg_error = stub_query_error = EIO;
	assert_told(verbs_region_deregister(&r.region), 0, "stub0 is gone");
	stub_dereg_error = stub_query_error = 0;
	stub_dereg_mr(&stub_asked[3]->ibv);
	assert_true(stub_domain.gone);
	stub_fail_at = stub_calls + 1;
	stub_fail_with = EIO;
	assert_told(reg(&r, ADDR, 64, ALL, 0), -FI_ENODEV, "removed or has failed");
}

/* ---- refresh ---- */

static int refresh(uint64_t addr, uint64_t len)
{
	struct iovec iov = { (void *)(uintptr_t)addr, len };

	return verbs_region_refresh(&r.region, &iov, 1);
}

static void api_15_on_demand_pages_need_no_refresh(void **state)
{
	(void)state;
	stub_domain.on_demand = true;
	assert_int_equal(reg(&r, ADDR, 9000, FI_REMOTE_READ, 0), 0);
	assert_int_equal(refresh(ADDR, 9000), 0);
	assert_int_equal(stub_advised, 0);
	stub_device.can = HMREG_CAN_PREFETCH;
	assert_int_equal(refresh(ADDR + 5, 100), 0);
	assert_int_equal(stub_advised, 1);
	assert_int_equal(stub_advised_bytes, 100);
	assert_int_equal(stub_advice, IBV_ADVISE_MR_ADVICE_PREFETCH);
	stub_advise_error = EFAULT; /* not there yet, which is no error */
	assert_int_equal(refresh(ADDR, 9000), 0);
	stub_advise_error = EOPNOTSUPP;
	assert_told(refresh(ADDR, 9000), -FI_EOPNOTSUPP, "ibv_advise_mr");
	dereg(&r);
	stub_advise_error = 0;
	assert_int_equal(reg(&r, ADDR, 9000, FI_RECV, 0), 0);
	assert_int_equal(refresh(ADDR, 9000), 0);
	assert_int_equal(stub_advice, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
	dereg(&r);
}

static void api_15_pinned_pages_are_exchanged(void **state)
{
	(void)state;
	assert_int_equal(reg(&r, ADDR, 9000, ALL, 0), 0);
	assert_told(refresh(ADDR, 9000), -FI_ENOSYS, "stub0");
	stub_device.can = HMREG_CAN_REREG;
	assert_int_equal(refresh(ADDR + 100, 1), 0);
	assert_int_equal(stub_rereged, 1);
	stub_rereg_result = IBV_REREG_MR_ERR_DO_FORK_OLD; /* the new pages are in place */
	assert_int_equal(refresh(ADDR, 9000), 0);
	stub_rereg_result = IBV_REREG_MR_ERR_CMD;
	stub_rereg_errno = ENOBUFS;
	assert_told(refresh(ADDR, 9000), -FI_ENOBUFS, "register it anew");
	stub_rereg_result = 0;
	stub_rereg_changes_keys = true;
	assert_told(refresh(ADDR, 9000), -FI_ENOKEY, "other keys");
	dereg(&r);
	/* the verb would move the region to another device address */
	stub_domain.zero_based = true;
	assert_int_equal(reg(&r, ADDR, 9000, ALL, 0), 0);
	assert_told(refresh(ADDR, 9000), -FI_ENOSYS, "FI_MR_VIRT_ADDR");
	dereg(&r);
}

static void api_15_dmabufs_keep_their_pages(void **state)
{
	struct fi_mr_dmabuf dmabuf = { .fd = 5, .len = 4096, .base_addr = (void *)BASE };

	(void)state;
	assert_int_equal(reg_dmabuf(&r, dmabuf, ALL), 0);
	assert_int_equal(refresh(BASE, 4096), 0);
	assert_int_equal(stub_rereged + stub_advised, 0);
	dereg(&r);
}

/* Host memory beside exported memory in one region: only its pages may be others now. */
static void api_15_host_segments_of_a_mixed_region(void **state)
{
	struct iovec iov[2] = { { (void *)BASE, 4096 }, { (void *)ADDR, 100 } };
	struct nic_place places[2] = { { .iface = FI_HMEM_CUDA }, { .iface = FI_HMEM_SYSTEM } };
	struct nic_region_ext ext = {
		.iov_count = 2, .iov = iov, .places = places, .path = HMREG_PATH_DMABUF
	};
	struct fi_mr_dmabuf files[2] = { { .fd = 5, .len = 4096, .base_addr = (void *)BASE },
					 { .fd = -1, .len = 100, .base_addr = (void *)ADDR } };
	struct nic_region_request req = { .iov = iov, .iov_count = 2, .dmabuf = files };

	(void)state;
	r.region = (struct nic_region){ .domain = &stub_domain.domain,
					.base = BASE,
					.len = 4196,
					.access = (uint32_t)ALL,
					.ext = &ext };
	assert_int_equal(verbs_region_register(&r.region, &req), 0);
	assert_int_equal(refresh(BASE, 4096), 0);
	assert_told(refresh(ADDR, 1), -FI_ENOSYS, "stub0");
	stub_device.can = HMREG_CAN_REREG;
	assert_int_equal(refresh(BASE, 4096), 0);
	assert_int_equal(stub_rereged, 0);
	assert_int_equal(refresh(ADDR + 99, 1), 0);
	assert_int_equal(stub_rereged, 1);
	dereg(&r);
}

/* ---- local buffers without a descriptor ---- */

static int reg_internal(struct stub_region *at, uint64_t granted)
{
	struct iovec iov = { (void *)(uintptr_t)ADDR, 8192 };
	struct nic_region_request req = {
		.iov = &iov, .iov_count = 1, .access = granted, .internal = true
	};

	prepare(at, ADDR, 8192, granted);
	atomic_fetch_or(&at->region.state, NIC_REGION_INTERNAL);
	return verbs_region_register(&at->region, &req);
}

/* Pinned, no more than the rights, and nothing for sub-MRs. */
static void mode_03_a_local_buffer(void **state)
{
	struct ibv_sge sge;
	uint64_t covered;

	(void)state;
	stub_domain.zero_based = stub_domain.on_demand = true;
	stub_device.can = HMREG_CAN_WINDOWS | HMREG_CAN_ATOMICS;
	for (unsigned int writes = 0; writes < 2; writes++) {
		assert_int_equal(reg_internal(&r, writes ? FI_RECV | FI_READ : FI_SEND | FI_WRITE),
				 0);
		assert_int_equal(stub_asked[writes]->access, writes ? IBV_ACCESS_LOCAL_WRITE : 0);
		assert_int_equal(verbs_region_sges(&r.region, ADDR + 100, 50, &sge, 1, &covered),
				 1);
		assert_int_equal(covered, 50);
		assert_int_equal(sge.addr, ADDR % 4096 + 100);
		assert_int_equal(sge.length, 50);
		assert_int_equal(sge.lkey, stub_asked[writes]->ibv.lkey);
		dereg(&r);
	}
	atomic_store(&stub_domain.gone, true);
	stub_warnings = 0;
	assert_int_equal(reg_internal(&r, FI_SEND), -FI_ENODEV);
	assert_int_equal(stub_warnings, 0);
	assert_int_equal(stub_calls, 2);
}

static struct nic_region *find(uint64_t addr, uint64_t len, bool writes)
{
	return verbs_region_at(&stub_domain.domain, (void *)(uintptr_t)addr, len, writes);
}

static void mode_09_a_local_buffer_in_a_dmabuf(void **state)
{
	struct fi_mr_dmabuf dmabuf = {
		.fd = 5, .offset = 4096, .len = 8192, .base_addr = (void *)BASE
	};
	struct fi_mr_dmabuf nowhere = { .fd = 6, .len = 8192 };
	static struct stub_region readable, unknown;

	(void)state;
	assert_int_equal(reg_dmabuf(&readable, dmabuf, FI_SEND), 0);
	assert_int_equal(reg_dmabuf(&unknown, nowhere, ALL), 0);
	assert_null(find(BASE + 5000, 100, false)); /* core has not given out its key yet */
	hm_key_publish(&readable.region.node);
	hm_key_publish(&unknown.region.node);
	assert_ptr_equal(find(BASE + 5000, 100, false), &readable.region);
	nic_local_release(&readable.region);
	/* not with a right that the region lacks, beyond its end, or before its start */
	assert_null(find(BASE + 5000, 100, true));
	assert_null(find(BASE + 12288 - 50, 100, false));
	assert_null(find(BASE + 4000, 100, false));
	/* nor at the offset of a dma-buf that is mapped nowhere */
	assert_null(find(100, 100, false));
	assert_int_equal(reg_dmabuf(&r, dmabuf, FI_RECV), 0);
	hm_key_publish(&r.region.node);
	assert_ptr_equal(find(BASE + 4096, 8192, true), &r.region);
	nic_local_release(&r.region);
	assert_true(hm_key_kill(&r.region.node)); /* as core does first, and waits for us */
	assert_null(find(BASE + 4096, 8192, true));
	dereg(&r);
	assert_null(find(BASE + 4096, 8192, true));
	dereg(&readable);
	dereg(&unknown);
}

static void mode_09_descriptors_where_they_are_asked_for(void **state)
{
	static const int modes[] = { FI_MR_LOCAL, FI_MR_HMEM, FI_MR_LOCAL | FI_MR_HMEM };
	struct fi_mr_dmabuf dmabuf = { .fd = 5, .len = 8192, .base_addr = (void *)BASE };

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		stub_reset();
		stub_domain.domain.mr_mode = modes[i];
		assert_int_equal(reg_dmabuf(&r, dmabuf, ALL), 0);
		hm_key_publish(&r.region.node);
		assert_null(find(BASE, 100, false));
		assert_true(hm_key_kill(&r.region.node));
		dereg(&r);
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, stub_setup, stub_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(reg_02_attr_01_rights),
		CASE(mode_05_virtual_addresses),
		CASE(mode_02_offsets_by_a_small_iova),
		CASE(reg_08_fn_35_relaxed_ordering_is_asked_for),
		CASE(mode_06_on_demand_pages_of_host_memory),
		CASE(fn_22_peer_memory_is_pinned),
		CASE(reg_06_dmabuf_addresses),
		CASE(close_of_a_busy_region_changes_nothing),
		CASE(api_20_driver_that_refuses_to_end_a_region),
		CASE(fn_38_a_device_that_is_gone),
		CASE(api_15_on_demand_pages_need_no_refresh),
		CASE(api_15_pinned_pages_are_exchanged),
		CASE(api_15_dmabufs_keep_their_pages),
		CASE(api_15_host_segments_of_a_mixed_region),
		CASE(mode_03_a_local_buffer),
		CASE(mode_09_a_local_buffer_in_a_dmabuf),
		CASE(mode_09_descriptors_where_they_are_asked_for),
	};

	return cmocka_run_group_tests_name("verbs_mr", tests, NULL, NULL);
}
