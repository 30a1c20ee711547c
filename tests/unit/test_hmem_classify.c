/* SPDX-License-Identifier: BSD-2-Clause */
/* The judgement over what drivers say of addresses, with an interface that says what it is told to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/range.h"
#include "hmem/hmem.h"
#include "tests/unit/warnings.h"

#define BASE UINT64_C(0x500000000000)

/* What the fake driver has: pieces in order, the facts of each. */
static struct hmem_facts pieces[4];
static size_t piece_count;
static int look_error; /* instead of any answer */
static size_t devices = 2;
static int info_error; /* instead of telling of device 1 */

static int fake_start(struct hmem_status *status)
{
	snprintf(status->version, sizeof(status->version), "0");
	return 0;
}

static size_t fake_count(void)
{
	return devices;
}

static int fake_info(size_t index, struct hmem_device *device)
{
	*device = (struct hmem_device){ .id = (int)index };
	if (index == 1 && info_error)
		return info_error;
	return index < devices ? 0 : -FI_ENODEV;
}

static int fake_look(const void *addr, struct hmem_facts *facts)
{
	if (look_error)
		return look_error;
	for (size_t i = 0; i < piece_count; i++)
		if ((uintptr_t)addr - pieces[i].base < pieces[i].len) {
			*facts = pieces[i];
			return 0;
		}
	return -FI_ENOENT;
}

static int fails_to_start(struct hmem_status *status)
{
	status->state = HMEM_EMPTY;
	snprintf(status->reason, sizeof(status->reason), "no device today");
	return -FI_ENODEV;
}

static void one_piece(uint32_t flags)
{
	pieces[0] = (struct hmem_facts){ flags, 1, BASE, 0x10000, 7 };
	piece_count = 1;
	look_error = 0;
}

static const void *at(uint64_t offset)
{
	return (const void *)(uintptr_t)(BASE + offset);
}

#define F(name)	    HMEM_FACT_##name
#define W(name)	    HMEM_WAY_##name
#define DEVICE_WAYS (W(DMABUF) | W(PEER) | W(COPY))
#define HOST_WAYS   (W(HOST) | W(COPY))

/* FN-14: each kind its way, or its refusal. */
static void fn_14_table(void **state)
{
	static const struct {
		uint32_t facts;
		enum hmem_kind kind;
		uint32_t ways;
	} cases[] = {
		{ 0, HMEM_DEVICE, DEVICE_WAYS },
		{ F(HOST_ACCESS), HMEM_DEVICE, DEVICE_WAYS },
		{ F(NO_EXPORT), HMEM_DEVICE, W(PEER) | W(COPY) },
		{ F(NO_RDMA), HMEM_DEVICE, W(COPY) },
		{ F(NO_RDMA) | F(NO_EXPORT), HMEM_DEVICE, W(COPY) },
		{ F(VMM), HMEM_VMM, DEVICE_WAYS },
		{ F(VMM) | F(NO_RDMA), HMEM_VMM, W(COPY) },
		{ F(VMM) | F(NO_EXPORT), HMEM_VMM, W(PEER) | W(COPY) },
		{ F(VMM) | F(ON_HOST) | F(HOST_ACCESS), HMEM_VMM_HOST, HOST_WAYS },
		{ F(ON_HOST) | F(HOST_ACCESS), HMEM_HOST_ALLOC, HOST_WAYS },
		{ F(MANAGED) | F(HOST_ACCESS), HMEM_MANAGED, W(COPY) },
		{ F(MANAGED) | F(ON_HOST) | F(HOST_ACCESS), HMEM_MANAGED, W(COPY) },
		{ F(POOL), HMEM_POOL, W(DMABUF) | W(COPY) },
		{ F(POOL) | F(NO_EXPORT), HMEM_POOL, W(COPY) },
		{ F(IMPORTED), HMEM_IMPORTED, W(COPY) },
		{ F(IMPORTED) | F(VMM), HMEM_IMPORTED, W(COPY) },
		{ F(UNKNOWN), HMEM_UNKNOWN, 0 },
		{ F(UNKNOWN) | F(HOST_ACCESS), HMEM_UNKNOWN, 0 },
	};
	struct hmem_memory memory;

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		one_piece(cases[i].facts);
		assert_int_equal(hmem_classify(at(16), 100, &memory), 0);
		assert_int_equal(memory.iface, FI_HMEM_CUDA);
		assert_int_equal(memory.device, 1);
		assert_int_equal(memory.kind, cases[i].kind);
		assert_int_equal(memory.ways, cases[i].ways);
		assert_int_equal(memory.host_access, !!(cases[i].facts & F(HOST_ACCESS)));
		assert_int_equal(memory.base, BASE);
		assert_int_equal(memory.len, 0x10000);
		assert_int_equal(memory.id, 7);
		/* nothing is left out without a reason */
		assert_true((memory.ways & (W(HOST) | W(DMABUF))) || memory.reason[0]);
	}
}

static void fn_08_segments(void **state)
{
	struct hmem_memory memory;
	struct hmem_facts facts;
	size_t part;

	(void)state;
	one_piece(F(VMM));
	pieces[1] = (struct hmem_facts){ F(VMM), 1, BASE + 0x10000, 0x20000, 8 };
	pieces[2] = (struct hmem_facts){ F(VMM), 0, BASE + 0x30000, 0x10000, 9 };
	piece_count = 3;
	assert_int_equal(hmem_classify(at(0xffff), 2, &memory), 0);
	assert_int_equal(memory.segments, 2);
	assert_int_equal(memory.len, 0x30000);
	assert_int_equal(hmem_segment(&memory, at(0xffff), 2, &facts, &part), 0);
	assert_int_equal(part, 1);
	assert_int_equal(facts.id, 7);
	assert_int_equal(hmem_segment(&memory, at(0x10000), 1, &facts, &part), 0);
	assert_int_equal(facts.id, 8);
	/* the next one is another device's */
	assert_refused(hmem_classify(at(0x2ffff), 2, &memory), -FI_EINVAL);
	/* ordinary allocations that happen to lie side by side are two */
	one_piece(0);
	pieces[1] = (struct hmem_facts){ 0, 1, BASE + 0x10000, 0x20000, 8 };
	piece_count = 2;
	assert_refused(hmem_classify(at(0xffff), 2, &memory), -FI_EINVAL);
	assert_int_equal(hmem_classify(at(0xffff), 1, &memory), 0);
	assert_int_equal(memory.segments, 1);
}

/* FN-09: a driver that does not tell where an allocation begins and ends. */
static void fn_09_no_range(void **state)
{
	struct hmem_memory memory;

	(void)state;
	one_piece(F(NO_RANGE) | F(VMM));
	assert_int_equal(hmem_classify(at(8), 100, &memory), 0);
	assert_false(memory.range_known);
	assert_int_equal(memory.base, BASE + 8);
	assert_int_equal(memory.len, 100);
	assert_refused(hmem_classify(at(8), 0x10000, &memory), -FI_EINVAL);
}

static void fn_15_never_taken_for_host_memory(void **state)
{
	struct hmem_memory memory;

	(void)state;
	one_piece(0);
	assert_refused(hmem_classify(at(0xfff0), 0x20, &memory), -FI_EINVAL);
	/* begins before it */
	assert_refused(hmem_classify(at(-16ull), 32, &memory), -FI_EINVAL);
	/* a driver that fails is no proof of host memory */
	look_error = -FI_EIO;
	assert_int_equal(hmem_classify(at(0), 16, &memory), -FI_EIO);
	look_error = 0;
	assert_refused(hmem_classify(at(0), 0, &memory), -FI_EINVAL);
	assert_refused(hmem_classify(at(0), SIZE_MAX, &memory), -FI_EINVAL);
	assert_int_equal(hmem_classify(at(0x10000), 16, &memory), 0);
	assert_int_equal(memory.kind, HMEM_HOST);
	assert_int_equal(memory.device, HMEM_NO_DEVICE);
}

/* A driver that fails for a device once has it all the same. */
static void attr_02_devices_that_did_not_answer(void **state)
{
	(void)state;
	info_error = -FI_EIO;
	assert_false(hmem_has_device(FI_HMEM_CUDA, 1));
	assert_true(hmem_has_device(FI_HMEM_CUDA, 0));
	info_error = 0;
	assert_true(hmem_has_device(FI_HMEM_CUDA, 1));
	assert_false(hmem_has_device(FI_HMEM_CUDA, 2));
	assert_false(hmem_has_device(FI_HMEM_CUDA, HMEM_NO_DEVICE));
}

/* A driver that knows more devices once it is started. */
static void attr_02_devices_that_appear(void **state)
{
	(void)state;
	assert_false(hmem_has_device(FI_HMEM_CUDA, 40));
	devices = 41;
	assert_true(hmem_has_device(FI_HMEM_CUDA, 40));
	assert_true(hmem_has_device(FI_HMEM_CUDA, 1));
	assert_false(hmem_has_device(FI_HMEM_CUDA, 41));
	devices = 2;
}

/* As the first in this process that needs it: no endpoint has made faults an error yet. */
static void fn_15_copy_of_what_is_not_mapped(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *gone = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), here[16];
	struct hmem_place there = { gone, FI_HMEM_SYSTEM, HMEM_NO_DEVICE };
	struct hmem_place mine = { here, FI_HMEM_SYSTEM, HMEM_NO_DEVICE };

	(void)state;
	if (getenv("HMREG_VALGRIND")) /* which reports the faults that this is about */
		skip();
	assert_ptr_not_equal(gone, MAP_FAILED);
	assert_int_equal(hmem_copy(&mine, &there, sizeof(here)), -FI_EFAULT);
	assert_int_equal(hmem_copy(&there, &mine, sizeof(here)), -FI_EFAULT);
	munmap(gone, page);
}

static void attr_02_named(void **state)
{
	struct hmem_memory memory;
	int host = 0;

	(void)state;
	one_piece(0);
	assert_int_equal(hmem_classify_as(FI_HMEM_CUDA, 1, 0, at(0), 16, &memory), 0);
	assert_refused(hmem_classify_as(FI_HMEM_CUDA, 0, 0, at(0), 16, &memory), -FI_EINVAL);
	assert_refused(hmem_classify_as(FI_HMEM_CUDA, 2, 0, at(0), 16, &memory), -FI_ENODEV);
	assert_refused(hmem_classify_as(FI_HMEM_SYSTEM, 0, 0, at(0), 16, &memory), -FI_EINVAL);
	assert_refused(hmem_classify_as(FI_HMEM_ROCR, 0, 0, at(0), 16, &memory), -FI_ENODEV);
	assert_refused(hmem_classify_as(FI_HMEM_CUDA, 1, 0, &host, sizeof(host), &memory),
		       -FI_EINVAL);
	assert_int_equal(hmem_classify_as(FI_HMEM_SYSTEM, 9, 0, &host, sizeof(host), &memory), 0);
}

static void flag_03_04(void **state)
{
	struct hmem_memory memory;

	(void)state;
	one_piece(0);
	assert_int_equal(hmem_classify_as(FI_HMEM_CUDA, 1, FI_HMEM_DEVICE_ONLY, at(0), 1, &memory),
			 0);
	assert_refused(hmem_classify_as(FI_HMEM_CUDA, 1, FI_HMEM_HOST_ALLOC, at(0), 1, &memory),
		       -FI_EINVAL);
	one_piece(F(HOST_ACCESS));
	assert_refused(hmem_classify_as(FI_HMEM_CUDA, 1, FI_HMEM_DEVICE_ONLY, at(0), 1, &memory),
		       -FI_EINVAL);
	one_piece(F(HOST_ACCESS) | F(ON_HOST));
	pieces[0].device = HMEM_NO_DEVICE;
	assert_int_equal(hmem_classify_as(FI_HMEM_CUDA, 77, FI_HMEM_HOST_ALLOC, at(0), 1, &memory),
			 0);
	/* host memory of an interface is host memory, for who registers it so */
	assert_int_equal(hmem_classify_as(FI_HMEM_SYSTEM, 0, 0, at(0), 1, &memory), 0);
}

static void hmem_02_status(void **state)
{
	struct hmem_status status;
	char text[48];

	(void)state;
	assert_non_null(hmem_get(FI_HMEM_CUDA));
	assert_non_null(hmem_get(FI_HMEM_SYSTEM));
	assert_null(hmem_get(FI_HMEM_ROCR));
	assert_int_equal(hmem_error(FI_HMEM_ROCR), -FI_ENODEV);
	hmem_status(FI_HMEM_ROCR, &status);
	assert_int_equal(status.state, HMEM_EMPTY);
	assert_string_equal(status.reason, "no device today");
	assert_null(hmem_get(FI_HMEM_SYNAPSEAI + 1));
	assert_int_equal(hmem_error(-1), -FI_EINVAL);
	assert_string_equal(hmem_owner_text(FI_HMEM_ZE, 1 << 16 | 2, text), "ze driver 1 device 2");
	assert_string_equal(hmem_owner_text(FI_HMEM_SYSTEM, 5, text), "host");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_14_table),
		cmocka_unit_test(fn_08_segments),
		cmocka_unit_test(fn_09_no_range),
		cmocka_unit_test(fn_15_never_taken_for_host_memory),
		cmocka_unit_test(attr_02_devices_that_did_not_answer),
		cmocka_unit_test(attr_02_named),
		cmocka_unit_test(flag_03_04),
		cmocka_unit_test(hmem_02_status),
		cmocka_unit_test(attr_02_devices_that_appear),
		cmocka_unit_test(fn_15_copy_of_what_is_not_mapped),
	};

	hmem_cuda.start = fake_start;
	hmem_cuda.device_count = fake_count;
	hmem_cuda.device_info = fake_info;
	hmem_cuda.look = fake_look;
	hmem_rocr.start = fails_to_start;
	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
