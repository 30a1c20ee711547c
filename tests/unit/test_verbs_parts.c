/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of several parts behind one handle and one key. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/verbs_stub.h"

#define PAGE UINT64_C(4096)
#define ADDR UINT64_C(0x7f0012345678)
#define FAR  UINT64_C(0x100000)
#define ALL  (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static struct stub_region r;

static int reg_iov(struct stub_region *at, const struct iovec *iov, size_t count,
		   const struct fi_mr_dmabuf *dmabuf)
{
	struct nic_region_request req = {
		.iov = iov, .iov_count = count, .access = ALL, .dmabuf = dmabuf
	};

	at->region.domain = &stub_domain.domain;
	at->region.base = (uintptr_t)iov[0].iov_base;
	at->region.access = (uint32_t)ALL;
	at->region.ext = NULL;
	at->region.len = 0;
	for (size_t i = 0; i < count; i++)
		at->region.len += iov[i].iov_len;
	return verbs_region_register(&at->region, &req);
}

static int reg(struct stub_region *at, uint64_t addr, uint64_t len)
{
	struct iovec iov = { (void *)(uintptr_t)addr, len };

	return reg_iov(at, &iov, 1, NULL);
}

static void dereg(struct stub_region *at)
{
	assert_int_equal(verbs_region_deregister(&at->region), 0);
	assert_null(at->mine.parts);
}

static uint32_t parts_of(const struct stub_region *at)
{
	struct hmreg_region_info info;

	assert_int_equal(verbs_region_info(&at->region, &info), 0);
	return info.parts;
}

/* The parts that were asked for cover [addr, +len) without gap, none longer than most. */
static void check_cover(uint64_t addr, uint64_t len, uint64_t most, bool zero_based)
{
	uint64_t done = 0;

	for (size_t i = 0; i < stub_calls; i++) {
		const struct stub_mr *mr = stub_asked[i];
		struct hmreg_verbs_part part;

		assert_int_equal(mr->addr, addr + done);
		assert_true(mr->len > 0 && mr->len <= most);
		assert_int_equal(mr->iova, zero_based ? mr->addr % PAGE : mr->addr);
		if (i > 0 && most >= 2 * PAGE)
			assert_int_equal(mr->addr % PAGE, 0);
		assert_int_equal(verbs_region_part(&r.region, i, &part), 0);
		assert_int_equal(part.offset, done);
		assert_int_equal(part.len, mr->len);
		assert_int_equal(part.iova, mr->iova);
		assert_ptr_equal(part.mr, &mr->ibv);
		done += mr->len;
	}
	assert_int_equal(done, len);
}

static void fn_26_long_ranges_are_split(void **state)
{
	static const struct {
		uint64_t most, addr, len, parts;
	} cases[] = {
		{ 4 * PAGE, ADDR, 4 * PAGE, 1 },
		{ 4 * PAGE, FAR, 4 * PAGE + 1, 2 },
		{ 4 * PAGE, FAR, 16 * PAGE, 4 },
		{ 4 * PAGE, FAR + PAGE - 1, 16 * PAGE, 5 },
		{ 4 * PAGE + 77, FAR + 100, 10 * PAGE, 3 },
		{ PAGE, FAR + 1, PAGE + 2, 2 },
		{ 100, FAR + 7, 1000, 10 }, /* not even a page */
		{ UINT64_MAX, UINT64_MAX - 10 * PAGE, 10 * PAGE, 1 },
		{ 4 * PAGE, UINT64_MAX - 10 * PAGE + 1, 10 * PAGE, 3 }, /* the last byte there is */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (unsigned int zero_based = 0; zero_based < 2; zero_based++) {
			stub_reset();
			stub_domain.zero_based = zero_based;
			stub_device.max_mr_size = cases[i].most;
			assert_int_equal(reg(&r, cases[i].addr, cases[i].len), 0);
			assert_int_equal(stub_calls, cases[i].parts);
			assert_int_equal(parts_of(&r), cases[i].parts);
			check_cover(cases[i].addr, cases[i].len, cases[i].most, zero_based);
			assert_int_equal(atomic_load(&stub_domain.parts), cases[i].parts);
			dereg(&r);
			assert_int_equal(stub_live, 0);
		}
	}
}

static void fn_26_a_dmabuf_is_split(void **state)
{
	struct fi_mr_dmabuf dmabuf = { .fd = 9, .offset = PAGE + 100, .len = 10 * PAGE };

	(void)state;
	for (unsigned int zero_based = 0; zero_based < 2; zero_based++) {
		for (unsigned int mapped = 0; mapped < 2; mapped++) {
			uint64_t base = mapped ? FAR : 0, done = 0;
			struct iovec iov = { (void *)(base + dmabuf.offset), dmabuf.len };

			stub_reset();
			stub_domain.zero_based = zero_based;
			stub_device.max_mr_size = 4 * PAGE;
			dmabuf.base_addr = (void *)base;
			assert_int_equal(reg_iov(&r, &iov, 1, &dmabuf), 0);
			assert_int_equal(stub_calls, 3);
			for (size_t i = 0; i < stub_calls; i++) {
				uint64_t offset = dmabuf.offset + done;

				assert_int_equal(stub_asked[i]->fd, 9);
				assert_int_equal(stub_asked[i]->offset, offset);
				assert_int_equal(stub_asked[i]->iova,
						 zero_based ? offset % PAGE : base + offset);
				done += stub_asked[i]->len;
			}
			assert_int_equal(done, dmabuf.len);
			dereg(&r);
		}
	}
}

static void fn_26_segments(void **state)
{
	struct iovec joined[] = { { (void *)FAR, 100 },
				  { (void *)(FAR + 100), 5000 },
				  { (void *)(FAR + 5100), 1 } };
	struct iovec apart[] = { { (void *)(FAR + 50 * PAGE), 100 },
				 { (void *)FAR, 200 },
				 { (void *)(FAR + 200), 300 } };
	struct iovec ends[] = { { (void *)(UINTPTR_MAX - 99), 100 }, { NULL, 50 } };
	struct hmreg_verbs_part part;

	(void)state;
	assert_int_equal(reg_iov(&r, joined, 3, NULL), 0);
	assert_int_equal(stub_calls, 1);
	assert_int_equal(stub_asked[0]->len, 5101);
	assert_int_equal(verbs_region_key(&r.region), stub_asked[0]->ibv.rkey);
	dereg(&r);
	assert_int_equal(reg_iov(&r, apart, 3, NULL), 0);
	assert_int_equal(parts_of(&r), 2);
	assert_int_equal(verbs_region_part(&r.region, 1, &part), 0);
	assert_int_equal(part.offset, 100);
	assert_int_equal(part.len, 500);
	assert_int_equal(part.iova, FAR);
	dereg(&r);
	/* the address space's end is no neighbour of its start */
	assert_int_equal(reg_iov(&r, ends, 2, NULL), 0);
	assert_int_equal(parts_of(&r), 2);
	dereg(&r);
}

/* ---- keys ---- */

static void composite_keys(void **state)
{
	struct stub_region regions[4] = { 0 };
	struct verbs_parts *parts;

	(void)state;
	stub_device.max_mr_size = PAGE;
	for (unsigned int i = 0; i < 4; i++) {
		/* two slots, two generations each */
		regions[i].region.node.slot = i % 2;
		atomic_store(&regions[i].region.node.word, (uint64_t)(i / 2) << HM_KEY_SLOT_BITS);
		assert_int_equal(reg(&regions[i], FAR, 3 * PAGE), 0);
		assert_true(verbs_region_key(&regions[i].region) & VERBS_KEY_COMPOSITE);
		for (unsigned int k = 0; k < i; k++)
			assert_int_not_equal(verbs_region_key(&regions[i].region),
					     verbs_region_key(&regions[k].region));
	}
	parts = hm_list_entry(stub_domain.composites.next, struct verbs_parts, link);
	assert_ptr_equal(parts, regions[0].mine.parts);
	assert_int_equal(parts->count, 3);
	for (unsigned int i = 0; i < 4; i++)
		dereg(&regions[i]);
}

/* A key of the device over all parts, in place of verbs_indirect.c. */
static int indirect_result, indirect_free_result, indirect_rewrite_result;
static unsigned int indirect_live, indirect_access, indirect_rewritten;

int __wrap_verbs_indirect_make(struct verbs_domain *domain, const struct verbs_parts *parts,
			       unsigned int access, struct verbs_indirect **key);
int __wrap_verbs_indirect_rewrite(struct verbs_domain *domain, const struct verbs_parts *parts,
				  unsigned int access);
int __wrap_verbs_indirect_free(struct verbs_indirect *key);
uint32_t __wrap_verbs_indirect_rkey(const struct verbs_indirect *key);

int __wrap_verbs_indirect_make(struct verbs_domain *domain, const struct verbs_parts *parts,
			       unsigned int access, struct verbs_indirect **key)
{
	assert_ptr_equal(domain, &stub_domain);
	assert_int_equal(parts->count, stub_live);
	indirect_access = access;
	if (indirect_result == 0) {
		*key = (void *)&indirect_live;
		indirect_live++;
	}
	return indirect_result;
}

int __wrap_verbs_indirect_rewrite(struct verbs_domain *domain, const struct verbs_parts *parts,
				  unsigned int access)
{
	assert_ptr_equal(domain, &stub_domain);
	assert_int_equal(parts->count, stub_live);
	assert_int_equal(access, indirect_access);
	indirect_rewritten++;
	return indirect_rewrite_result;
}

int __wrap_verbs_indirect_free(struct verbs_indirect *key)
{
	assert_ptr_equal(key, &indirect_live);
	assert_int_equal(stub_live, 0); /* after all that may be refused */
	indirect_live -= indirect_free_result != EBUSY;
	return indirect_free_result;
}

uint32_t __wrap_verbs_indirect_rkey(const struct verbs_indirect *key)
{
	assert_ptr_equal(key, &indirect_live);
	return 0xabcdef12;
}

static void fn_26_one_key_of_the_device_where_it_has_such(void **state)
{
	(void)state;
	indirect_result = 0;
	stub_device.max_mr_size = PAGE;
	stub_device.can = HMREG_CAN_INDIRECT_KEYS;
	/* such keys are addressed from 0 */
	assert_int_equal(reg(&r, ADDR, 3 * PAGE), 0);
	assert_int_equal(indirect_live, 0);
	dereg(&r);
	stub_domain.zero_based = true;
	assert_int_equal(reg(&r, ADDR, 3 * PAGE), 0);
	assert_int_equal(indirect_live, 1);
	assert_int_equal(indirect_access, stub_asked[4]->access);
	assert_int_equal(verbs_region_key(&r.region), 0xabcdef12);
	assert_true(hm_list_empty(&stub_domain.composites));
	dereg(&r);
	assert_int_equal(indirect_live, 0);
	indirect_result = -FI_ENOSPC;
	assert_int_equal(reg(&r, ADDR, 3 * PAGE), 0);
	assert_true(verbs_region_key(&r.region) & VERBS_KEY_COMPOSITE);
	assert_false(hm_list_empty(&stub_domain.composites));
	dereg(&r);
}

/* Nothing that is documented says that page faults are served behind such a key. */
static void mode_06_paged_parts_have_no_key_of_the_device(void **state)
{
	(void)state;
	indirect_result = 0;
	stub_device.max_mr_size = PAGE;
	stub_device.can = HMREG_CAN_INDIRECT_KEYS;
	stub_domain.zero_based = stub_domain.on_demand = true;
	assert_int_equal(reg(&r, ADDR, 3 * PAGE), 0);
	assert_int_equal(indirect_live, 0);
	assert_true(verbs_region_key(&r.region) & VERBS_KEY_COMPOSITE);
	dereg(&r);
}

/* ---- failures ---- */

static void fn_05_all_parts_or_none(void **state)
{
	(void)state;
	stub_device.max_mr_size = PAGE;
	stub_fail_with = ENOBUFS;
	for (size_t nth = 1; nth <= 5; nth++) {
		stub_calls = 0;
		stub_fail_at = nth;
		assert_told(reg(&r, FAR, 5 * PAGE), -FI_ENOBUFS, "ibv_reg_mr_iova2");
		assert_int_equal(stub_calls, nth);
		assert_int_equal(stub_live, 0);
		assert_int_equal(atomic_load(&stub_domain.parts), 0);
		assert_true(hm_list_empty(&stub_domain.composites));
	}
}

static void reg_01_more_parts_than_the_device_holds(void **state)
{
	(void)state;
	stub_device.max_mr_size = PAGE;
	stub_device.attr.max_mr = 10;
	assert_int_equal(reg(&r, FAR, 10 * PAGE), 0);
	dereg(&r);
	stub_calls = 0;
	assert_told(reg(&r, FAR, 10 * PAGE + 1), -FI_EINVAL, "at most 4096");
	assert_told(reg(&r, FAR, UINT64_C(1) << 63), -FI_EINVAL, "at most 4096");
	assert_int_equal(stub_calls, 0);
}

static void assert_whole(uint64_t key)
{
	struct hmreg_verbs_part part;
	struct ibv_sge sge[4];
	uint64_t covered;

	assert_int_equal(stub_live, 3);
	assert_int_equal(atomic_load(&stub_domain.parts), 3);
	assert_int_equal(verbs_region_key(&r.region), key);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(verbs_region_part(&r.region, i, &part), 0);
		assert_int_equal(part.iova, FAR + part.offset);
	}
	assert_int_equal(verbs_region_sges(&r.region, FAR, 3 * PAGE, sge, 4, &covered), 3);
	assert_int_equal(covered, 3 * PAGE);
}

/* The device refuses each part in turn: the region is what it was, for peers too. */
static void api_07_a_busy_part(void **state)
{
	struct verbs_parts *parts;
	uint64_t key;

	(void)state;
	stub_device.max_mr_size = PAGE;
	assert_int_equal(reg(&r, FAR, 3 * PAGE), 0);
	parts = r.mine.parts;
	key = verbs_region_key(&r.region);
	for (unsigned int nth = 1; nth <= 3; nth++) {
		stub_deregs = 0;
		stub_dereg_fail_at = nth;
		assert_told(verbs_region_deregister(&r.region), -FI_EBUSY, "refuses to end it");
		assert_whole(key);
		assert_ptr_equal(stub_domain.composites.next, &parts->link);
		assert_ptr_equal(parts->link.next, &stub_domain.composites);
	}
	dereg(&r);
	assert_true(hm_list_empty(&stub_domain.composites));
}

static void assert_half_closed(void)
{
	struct iovec iov = { (void *)FAR, PAGE };
	struct hmreg_verbs_part part;
	struct ibv_sge sge[4];
	uint64_t covered;

	assert_int_equal(stub_live, 2);
	assert_true(hm_list_empty(&stub_domain.composites));
	assert_told(verbs_region_part(&r.region, 0, &part), -FI_ENOENT, "half closed");
	assert_int_equal(verbs_region_part(&r.region, 1, &part), 0);
	assert_int_equal(verbs_region_sges(&r.region, FAR, 2 * PAGE, sge, 4, &covered), 0);
	assert_int_equal(covered, 0);
	if (r.mine.flags & VERBS_REGION_DMABUF)
		return;
	stub_device.can |= HMREG_CAN_REREG;
	assert_told(verbs_region_refresh(&r.region, &iov, 1), -FI_ENOENT, "half closed");
	assert_int_equal(stub_rereged, 0);
}

/* What is gone does not come back: nothing leads to the rest, which can be closed. */
static void api_07_a_busy_part_and_no_way_back(void **state)
{
	struct fi_mr_dmabuf dmabuf = { .fd = 3, .len = 3 * PAGE };
	struct iovec iov = { NULL, 3 * PAGE };

	(void)state;
	stub_device.max_mr_size = PAGE;
	assert_int_equal(reg(&r, FAR, 3 * PAGE), 0);
	stub_dereg_fail_at = 2;
	stub_fail_at = stub_calls + 1;
	stub_fail_with = EMFILE;
	assert_int_equal(verbs_region_deregister(&r.region), -FI_EBUSY);
	assert_non_null(strstr(stub_log, "half closed"));
	assert_half_closed();
	dereg(&r);
	/* the descriptor of a dma-buf was the caller's, who may have closed it */
	assert_int_equal(reg_iov(&r, &iov, 1, &dmabuf), 0);
	stub_deregs = 0;
	assert_int_equal(verbs_region_deregister(&r.region), -FI_EBUSY);
	assert_non_null(strstr(stub_log, "half closed"));
	assert_half_closed();
	dereg(&r);
}

/* The same with a key of the device, which is the last to go. */
static void api_07_a_busy_part_behind_a_key_of_the_device(void **state)
{
	uint64_t key = 0xabcdef12;

	(void)state;
	indirect_result = 0;
	indirect_rewritten = 0;
	stub_device.max_mr_size = PAGE;
	stub_device.can = HMREG_CAN_INDIRECT_KEYS;
	stub_domain.zero_based = true;
	assert_int_equal(reg(&r, FAR, 3 * PAGE), 0);
	for (unsigned int nth = 1; nth <= 3; nth++) {
		stub_deregs = 0;
		stub_dereg_fail_at = nth;
		assert_told(verbs_region_deregister(&r.region), -FI_EBUSY, "refuses to end it");
		assert_int_equal(indirect_live, 1);
		assert_int_equal(indirect_rewritten, nth - 1); /* nothing was gone the first time */
		assert_int_equal(verbs_region_key(&r.region), key);
		assert_int_equal(stub_live, 3);
	}
	stub_dereg_fail_at = 0;
	indirect_free_result = EBUSY;
	assert_told(verbs_region_deregister(&r.region), -FI_EBUSY, "does not end the key");
	assert_int_equal(indirect_rewritten, 3);
	assert_int_equal(verbs_region_key(&r.region), key);
	indirect_rewrite_result = -FI_EIO;
	assert_int_equal(verbs_region_deregister(&r.region), -FI_EBUSY);
	assert_non_null(strstr(stub_log, "half closed"));
	indirect_free_result = indirect_rewrite_result = 0;
	dereg(&r);
	assert_int_equal(indirect_live, 0);
}

/* One that the driver refuses is left, and ends when the region is closed again. */
static void api_20_driver_that_refuses_to_end_parts(void **state)
{
	(void)state;
	stub_device.max_mr_size = PAGE;
	assert_int_equal(reg(&r, FAR, 3 * PAGE), 0);
	stub_dereg_error = EPERM;
	stub_warnings = 0;
	assert_int_equal(verbs_region_deregister(&r.region), -FI_EPERM);
	assert_int_equal(stub_warnings, 1);
	assert_non_null(r.mine.parts);
	assert_false(hm_list_empty(&stub_domain.composites)); /* peers reach it as before */
	assert_int_equal(stub_domain.parts, 3);
	stub_dereg_error = 0;
	dereg(&r);
	assert_int_equal(stub_domain.parts, 0);
}

static void a_composite_of_a_device_that_is_gone(void **state)
{
	(void)state;
	stub_device.max_mr_size = PAGE;
	assert_int_equal(reg(&r, FAR, 3 * PAGE), 0);
	atomic_store(&stub_domain.gone, true);
	stub_dereg_error = EIO;
	dereg(&r);
	assert_int_equal(stub_warnings, 0);
	stub_dereg_error = 0;
	for (size_t i = 0; i < 3; i++)
		stub_dereg_mr(&stub_asked[i]->ibv);
}

/* ---- the local side ---- */

static void entries_of_a_range_over_parts(void **state)
{
	struct ibv_sge sge[8];
	uint64_t covered;

	(void)state;
	for (unsigned int zero_based = 0; zero_based < 2; zero_based++) {
		stub_reset();
		stub_domain.zero_based = zero_based;
		stub_device.max_mr_size = 2 * PAGE;
		assert_int_equal(reg(&r, FAR + 10, 20 * PAGE), 0);
		for (uint64_t at = 0; at < 20 * PAGE; at += 1000) {
			uint64_t len = at + 3 * PAGE < 20 * PAGE ? 3 * PAGE : 20 * PAGE - at;
			uint64_t done = 0;
			size_t n =
				verbs_region_sges(&r.region, FAR + 10 + at, len, sge, 8, &covered);

			assert_int_equal(covered, len);
			for (size_t i = 0; i < n; i++) {
				const struct stub_mr *mr = NULL;

				for (size_t k = 0; k < stub_calls; k++) {
					if (stub_asked[k]->ibv.lkey == sge[i].lkey)
						mr = stub_asked[k];
				}
				assert_non_null(mr);
				assert_int_equal(sge[i].addr - mr->iova + mr->addr,
						 FAR + 10 + at + done);
				assert_true(sge[i].addr - mr->iova + sge[i].length <= mr->len);
				done += sge[i].length;
			}
			assert_int_equal(done, len);
		}
		assert_int_equal(
			verbs_region_sges(&r.region, FAR + 10, 20 * PAGE, sge, 3, &covered), 3);
		assert_int_equal(covered, 6 * PAGE - 10);
		dereg(&r);
	}
}

static void entries_of_segments_in_any_order(void **state)
{
	struct iovec iov[] = { { (void *)(FAR + 50 * PAGE), 4 * PAGE },
			       { (void *)(FAR + 9 * PAGE), 100 },
			       { (void *)FAR, 5 * PAGE },
			       { (void *)(FAR + 2 * PAGE), 10 } }; /* twice in the region */
	struct ibv_sge sge[8];
	uint64_t covered;

	(void)state;
	stub_device.max_mr_size = PAGE;
	assert_int_equal(reg_iov(&r, iov, 4, NULL), 0);
	for (size_t i = 0; i < 4; i++) {
		uint64_t addr = (uintptr_t)iov[i].iov_base;

		assert_true(verbs_region_sges(&r.region, addr, iov[i].iov_len, sge, 8, &covered) >
			    0);
		assert_int_equal(covered, iov[i].iov_len);
		assert_int_equal(sge[0].addr, addr);
		assert_int_equal(verbs_region_sges(&r.region, addr + iov[i].iov_len - 1, 1, sge, 8,
						   &covered),
				 1);
		assert_int_equal(sge[0].addr, addr + iov[i].iov_len - 1);
	}
	assert_int_equal(verbs_region_sges(&r.region, FAR + 8 * PAGE, 10, sge, 8, &covered), 0);
	dereg(&r);
}

static void entries_have_lengths_of_32_bits(void **state)
{
	const uint64_t len = UINT64_C(9) << 30;
	struct ibv_sge sge[8];
	uint64_t covered, done = 0;
	size_t n;

	(void)state;
	assert_int_equal(reg(&r, FAR, len), 0);
	n = verbs_region_sges(&r.region, FAR, len, sge, 8, &covered);
	assert_int_equal(covered, len);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(sge[i].addr, FAR + done);
		done += sge[i].length;
	}
	assert_int_equal(done, len);
	dereg(&r);
}

static void api_15_only_the_parts_that_changed(void **state)
{
	struct iovec changed[] = { { (void *)(FAR + 2 * PAGE + 5), 1 },
				   { (void *)(FAR + 5 * PAGE - 1), 2 } };

	(void)state;
	stub_device.max_mr_size = PAGE;
	stub_device.can = HMREG_CAN_REREG;
	assert_int_equal(reg(&r, FAR, 10 * PAGE), 0);
	assert_int_equal(verbs_region_refresh(&r.region, changed, 2), 0);
	assert_int_equal(stub_rereged, 3);
	dereg(&r);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, stub_setup, stub_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(fn_26_long_ranges_are_split),
		CASE(fn_26_a_dmabuf_is_split),
		CASE(fn_26_segments),
		CASE(composite_keys),
		CASE(fn_26_one_key_of_the_device_where_it_has_such),
		CASE(mode_06_paged_parts_have_no_key_of_the_device),
		CASE(fn_05_all_parts_or_none),
		CASE(reg_01_more_parts_than_the_device_holds),
		CASE(api_07_a_busy_part),
		CASE(api_07_a_busy_part_and_no_way_back),
		CASE(api_07_a_busy_part_behind_a_key_of_the_device),
		CASE(api_20_driver_that_refuses_to_end_parts),
		CASE(a_composite_of_a_device_that_is_gone),
		CASE(entries_of_a_range_over_parts),
		CASE(entries_of_segments_in_any_order),
		CASE(entries_have_lengths_of_32_bits),
		CASE(api_15_only_the_parts_that_changed),
	};

	return cmocka_run_group_tests_name("verbs_parts", tests, NULL, NULL);
}
