/* SPDX-License-Identifier: BSD-2-Clause */
/* What is special to CUDA, over the emulated driver, whose devices' handles are 10 and up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "hmem/hmem.h"
#include "tests/fds.h"
#include "tests/hmem/cuda_calls.h"
#include "tests/hmem/maker.h"
#include "tests/unit/warnings.h"

#define LEN	 ((size_t)2 << 20)
#define FIRST	 10 /* CUdevice of ordinal 0 */
#define DEVICES	 4
#define SETTINGS "handles=10,dmabuf=0xb"

static const struct hmem_ops *ops;
static const struct emu_accel_hooks *hooks;
static size_t fds;
static long live;
static char text[512];

static int baseline(void **state)
{
	(void)state;
	fds = test_fds();
	live = hooks->live("*");
	hooks->reset();
	warning_count = 0;
	return 0;
}

static int check(void **state)
{
	(void)state;
	if (test_fds() == fds && hooks->live("*") == live)
		return 0;
	hooks->list(text, sizeof(text));
	print_error("fds %zu, were %zu; objects %ld, were %ld:\n%s", test_fds(), fds,
		    hooks->live("*"), live, text);
	return -1;
}

static struct made made_of(enum make kind, int ordinal)
{
	struct made made;

	assert_int_equal(make_cuda.make(kind, FIRST + ordinal, LEN, &made), 0);
	return made;
}

static cu_context current(void)
{
	cu_context context;

	assert_int_equal(cuda.ctx_current(&context), CU_OK);
	return context;
}

static struct hmem_memory classified(const struct made *made)
{
	struct hmem_memory memory;

	assert_int_equal(hmem_classify(made->addr, made->len, &memory), 0);
	return memory;
}

/* ---- started, looked at ---- */

static void fn_21_no_context_before_it_is_needed(void **state)
{
	struct hmem_device info;
	struct hmem_memory memory;
	char byte;

	(void)state;
	ops = hmem_get(FI_HMEM_CUDA);
	assert_non_null(ops);
	for (size_t i = 0; i < ops->device_count(); i++)
		assert_int_equal(ops->device_info(i, &info), 0);
	assert_int_equal(hmem_classify(&byte, 1, &memory), 0);
	assert_int_equal(hooks->live("primary"), 0);
	assert_int_equal(hooks->calls("cuDevicePrimaryCtxRetain"), 0);
	assert_null(current());
}

static void fn_21_mapped_memory_needs_no_context(void **state)
{
	struct cu_memory_prop prop = { .type = CU_ALLOCATION_PINNED,
				       .location = { CU_LOCATION_DEVICE, 3 } };
	struct hmem_memory memory;
	cu_memory handle;
	cu_ptr addr;

	(void)state;
	assert_int_equal(cuda.vmm_create(&handle, LEN, &prop, 0), CU_OK);
	assert_int_equal(cuda.vmm_reserve(&addr, 2 * LEN, 0, 0, 0), CU_OK);
	assert_int_equal(cuda.vmm_map(addr, LEN, 0, handle, 0), CU_OK);
	assert_int_equal(hmem_classify((void *)(uintptr_t)addr, LEN, &memory), 0);
	assert_int_equal(memory.kind, HMEM_VMM);
	assert_int_equal(memory.device, FIRST + 3);
	assert_int_equal(memory.base, addr);
	assert_int_equal(memory.len, LEN);
	assert_int_equal(hooks->calls("cuDevicePrimaryCtxRetain"), 0);
	/* reserved addresses are not taken for host memory */
	assert_refused(hmem_classify((void *)(uintptr_t)(addr + LEN), 1, &memory), -FI_EINVAL);
	cuda.vmm_unmap(addr, LEN);
	cuda.vmm_unreserve(addr, 2 * LEN);
	cuda.vmm_release(handle);
}

static void hmem_02_calls_per_look(void **state)
{
	struct made made = made_of(MAKE_DEVICE, 0), host = made_of(MAKE_HOST, 0);
	struct hmem_facts facts;
	char byte;

	(void)state;
	hooks->reset();
	assert_int_equal(ops->look(&byte, &facts), -FI_ENOENT);
	assert_int_equal(hooks->calls("*"), 1);
	assert_int_equal(ops->look(made.addr, &facts), 0);
	assert_int_equal(hooks->calls("*"), 2);
	assert_int_equal(facts.device, FIRST);
	assert_int_equal(ops->look(host.addr, &facts), 0);
	assert_int_equal(facts.device, HMEM_NO_DEVICE);
	make_cuda.drop(&made);
	make_cuda.drop(&host);
}

static void fn_19_handle_is_not_ordinal(void **state)
{
	struct made made = made_of(MAKE_VMM, 1);
	struct hmem_memory memory;

	(void)state;
	assert_int_equal(hmem_classify_as(FI_HMEM_CUDA, FIRST + 1, 0, made.addr, LEN, &memory), 0);
	assert_refused(hmem_classify_as(FI_HMEM_CUDA, 1, 0, made.addr, LEN, &memory), -FI_ENODEV);
	assert_refused(hmem_classify_as(FI_HMEM_CUDA, FIRST + 2, 0, made.addr, LEN, &memory),
		       -FI_EINVAL);
	make_cuda.drop(&made);
}

static void fn_20_dmabuf_by_device(void **state)
{
	(void)state;
	for (int i = 0; i < DEVICES; i++) {
		struct made made = made_of(MAKE_DEVICE, i);
		struct hmem_memory memory = classified(&made);
		struct hmem_device info;
		struct hmem_export out;

		assert_int_equal(ops->device_info((size_t)i, &info), 0);
		assert_int_equal(info.dmabuf, i != 2); /* main's setting */
		if (i == 2) {
			assert_non_null(strstr(info.dmabuf_reason, "DMA_BUF_SUPPORTED"));
			assert_refused(ops->export_start(&memory, made.addr, LEN, 0, &out),
				       -FI_EOPNOTSUPP);
		} else {
			assert_int_equal(ops->export_start(&memory, made.addr, LEN, 0, &out), 0);
			ops->export_end(&out);
		}
		make_cuda.drop(&made);
	}
}

/* ---- contexts ---- */

static void use_everything(const struct made *made)
{
	struct hmem_memory memory;
	struct hmem_export out;
	char bytes[64] = "";
	uint64_t event;
	void *addr;

	if (hmem_classify(made->addr, made->len, &memory) != 0)
		return;
	ops->prepare(&memory, made->addr, made->len);
	if (ops->export_start(&memory, made->addr, made->len, 0, &out) == 0)
		ops->export_end(&out);
	ops->copy(made->addr, made->device, bytes, HMEM_NO_DEVICE, sizeof(bytes));
	if (ops->copy_start(bytes, HMEM_NO_DEVICE, made->addr, made->device, sizeof(bytes),
			    &event) == 0)
		ops->copy_end(event, true);
	if (ops->alloc(made->device, LEN, HMEM_ALLOC_HOST, &addr) == 0)
		ops->free(made->device, addr, HMEM_ALLOC_HOST);
}

static void fn_18_context_stays_the_caller_s(void **state)
{
	cu_context own, popped;
	struct made made = made_of(MAKE_DEVICE, 1);

	(void)state;
	assert_null(current());
	use_everything(&made);
	assert_null(current());
	assert_int_equal(cuda.ctx_make(&own, 0, FIRST), CU_OK);
	use_everything(&made);
	assert_ptr_equal(current(), own);
	/* the stack under it as well */
	assert_int_equal(cuda.ctx_pop(&popped), CU_OK);
	assert_null(current());
	assert_int_equal(cuda.ctx_end(own), CU_OK);
	assert_int_equal(warning_count, 0);
	make_cuda.drop(&made);
}

static void fn_18_memory_of_a_context_of_the_program(void **state)
{
	struct made made = { .kind = MAKE_DEVICE, .device = FIRST + 1, .len = LEN };
	cu_context own, popped;
	cu_ptr addr;

	(void)state;
	assert_int_equal(cuda.ctx_make(&own, 0, FIRST + 1), CU_OK);
	assert_int_equal(cuda.alloc(&addr, LEN), CU_OK);
	assert_int_equal(cuda.ctx_pop(&popped), CU_OK);
	made.addr = (void *)(uintptr_t)addr;
	use_everything(&made);
	assert_int_equal(warning_count, 0);
	assert_int_equal(cuda.ctx_end(own), CU_OK);
}

static void fn_18_device_reset(void **state)
{
	struct made made;
	cu_context context;
	char bytes[64] = "", back[64];

	(void)state;
	made = made_of(MAKE_DEVICE, 3);
	use_everything(&made);
	/* the program ends all that there is on the device, and starts again */
	assert_int_equal(cuda.primary_reset(FIRST + 3), CU_OK);
	assert_int_equal(cuda.primary_retain(&context, FIRST + 3), CU_OK);
	made = made_of(MAKE_DEVICE, 3);
	memset(bytes, 7, sizeof(bytes));
	assert_int_equal(ops->copy(made.addr, made.device, bytes, HMEM_NO_DEVICE, 64), 0);
	assert_int_equal(ops->copy(back, HMEM_NO_DEVICE, made.addr, made.device, 64), 0);
	assert_memory_equal(bytes, back, 64);
	make_cuda.drop(&made);
	/* the reset took streams, whose handles are the driver's to forget */
	live = hooks->live("*");
}

/* ---- synchronous operations ---- */

static unsigned int sync_memops(const void *addr)
{
	unsigned int value = 9;

	assert_int_equal(cuda.ptr_attr(&value, CU_PTR_SYNC_MEMOPS, (uintptr_t)addr), CU_OK);
	return value;
}

static void fn_17_sync_memops(void **state)
{
	static const enum make without[] = { MAKE_VMM, MAKE_POOL };
	struct made made = made_of(MAKE_DEVICE, 1);
	struct hmem_memory memory = classified(&made);

	(void)state;
	assert_int_equal(sync_memops(made.addr), 0);
	assert_int_equal(ops->prepare(&memory, made.addr, LEN), 0);
	assert_int_equal(sync_memops(made.addr), 1);
	assert_int_equal(warning_count, 0);
	(hooks->fail)("cuPointerSetAttribute", 1, CU_UNKNOWN);
	assert_refused(ops->prepare(&memory, made.addr, LEN), -FI_EIO);
	make_cuda.drop(&made);
	/* told at once, and once, where the driver has no such thing */
	for (size_t i = 0; i < 2; i++) {
		made = made_of(without[i], 1);
		memory = classified(&made);
		warning_count = 0;
		assert_int_equal(ops->prepare(&memory, made.addr, LEN), 0);
		assert_int_equal(ops->prepare(&memory, made.addr, LEN), 0);
		assert_int_equal(warning_count, 1);
		make_cuda.drop(&made);
	}
}

/* ---- export ---- */

static void fn_24_flag_unknown_or_known(void **state)
{
	struct made made = made_of(MAKE_DEVICE, 0);
	struct hmem_memory memory = classified(&made);
	struct hmem_export out;
	static const int codes[] = { CU_INVALID_VALUE, CU_NOT_SUPPORTED };

	(void)state;
	hooks->reset();
	assert_int_equal(ops->export_start(&memory, made.addr, LEN, HMEM_EXPORT_PCIE, &out), 0);
	assert_int_equal(hooks->calls("cuMemGetHandleForAddressRange"), 1);
	ops->export_end(&out);
	for (size_t i = 0; i < 2; i++) {
		hooks->reset();
		(hooks->fail)("cuMemGetHandleForAddressRange", 1, codes[i]);
		assert_int_equal(ops->export_start(&memory, made.addr, LEN, HMEM_EXPORT_PCIE, &out),
				 0);
		assert_int_equal(hooks->calls("cuMemGetHandleForAddressRange"), 2);
		ops->export_end(&out);
	}
	/* any other error is the answer */
	(hooks->fail)("cuMemGetHandleForAddressRange", 1, CU_UNKNOWN);
	assert_refused(ops->export_start(&memory, made.addr, LEN, HMEM_EXPORT_PCIE, &out), -FI_EIO);
	make_cuda.drop(&made);
}

static void fn_07_unaligned(void **state)
{
	struct made made = made_of(MAKE_DEVICE, 0);
	struct hmem_memory memory = classified(&made);
	struct hmem_export out;

	(void)state;
	assert_int_equal(ops->export_start(&memory, (char *)made.addr + 4097, 100, 0, &out), 0);
	assert_true(out.offset == 1 || out.offset == 4097);
	ops->export_end(&out);
	make_cuda.drop(&made);
}

static void fn_28_window(void **state)
{
	struct hmem_device info;

	(void)state;
	assert_int_equal(ops->device_info(1, &info), 0);
	assert_true(info.window_known);
	assert_int_equal(info.window, UINT64_C(32768) << 20);
	assert_true(info.window_free < info.window);
}

/* ---- failures ---- */

static void one_round(const struct made *made)
{
	struct hmem_memory memory;
	struct hmem_export out;

	if (hmem_classify(made->addr, made->len, &memory) != 0)
		return;
	use_everything(made);
	if (ops->export_start(&memory, made->addr, made->len, 0, &out) == 0)
		ops->export_end(&out);
}

static void fail_each(enum make kind)
{
	struct made made = made_of(kind, 0);
	const char *name;
	char names[64][48];
	size_t count = 0;

	use_everything(&made);
	hooks->reset();
	one_round(&made);
	while (count < 64 && (name = hooks->name(count)))
		snprintf(names[count++], 48, "%s", name);
	assert_true(count > 8);
	for (size_t i = 0; i < count; i++)
		for (unsigned int nth = 1; nth <= 3; nth++) {
			long before = hooks->live("*");
			size_t files = test_fds();

			if (strncmp(names[i], "cuCtxGetCurrent", 48) == 0)
				continue; /* asked after another failed */
			warning_count = 0;
			hooks->reset();
			(hooks->fail)(names[i], nth, CU_UNKNOWN);
			one_round(&made);
			hooks->reset();
			/* what the driver does not take back stays */
			if (strcmp(names[i], "cuMemFreeHost") != 0) {
				assert_int_equal(hooks->live("*"), before);
				assert_int_equal(test_fds(), files);
			}
			assert_null(current());
			warning_count = 0;
			use_everything(&made); /* works again */
			/* memory of two allocations is one dma-buf only with /dev/udmabuf */
			assert_true(warning_count == 0 || kind == MAKE_VMM);
		}
	make_cuda.drop(&made);
}

static void fn_05_each_call_fails(void **state)
{
	(void)state;
	fail_each(MAKE_DEVICE);
	fail_each(MAKE_VMM);
	/* a failed cuMemFreeHost leaves what it was to free */
	live = hooks->live("*");
	fds = test_fds();
}

static void hmem_02_failure_is_one_line(void **state)
{
	struct made made = made_of(MAKE_DEVICE, 0);
	struct hmem_memory memory;
	char byte;

	(void)state;
	(hooks->fail)("cuPointerGetAttributes", 1, CU_DEINITIALIZED);
	assert_refused(hmem_classify(made.addr, LEN, &memory), -FI_EIO);
	(hooks->fail)("cuMemcpyAsync", 1, CU_ILLEGAL_ADDRESS);
	assert_refused(ops->copy(&byte, HMEM_NO_DEVICE, made.addr, FIRST, 1), -FI_EFAULT);
	(hooks->fail)("cuStreamSynchronize", 1, CU_UNKNOWN);
	assert_refused(ops->copy(&byte, HMEM_NO_DEVICE, made.addr, FIRST, 1), -FI_EIO);
	make_cuda.drop(&made);
	assert_refused(ops->free(FIRST, made.addr, HMEM_ALLOC_DEVICE), -FI_EINVAL);
}

static void copy_is_done_when_it_returns(void **state)
{
	struct made made = made_of(MAKE_DEVICE, 0), other = made_of(MAKE_DEVICE, 1);
	char bytes[256], back[256];
	uint64_t event;
	int ret;

	(void)state;
	memset(bytes, 0x5a, sizeof(bytes));
	assert_int_equal(ops->copy(made.addr, FIRST, bytes, HMEM_NO_DEVICE, 256), 0);
	hooks->peek(made.addr, back, 256);
	assert_memory_equal(bytes, back, 256);
	assert_int_equal(ops->copy_start(other.addr, FIRST + 1, made.addr, FIRST, 256, &event), 0);
	assert_int_equal(hooks->calls("cuMemcpyPeerAsync"), 1);
	/* the emulated driver is late on purpose */
	assert_int_equal(ops->copy_end(event, false), -FI_EAGAIN);
	ret = ops->copy_end(event, false);
	assert_int_equal(ret == -FI_EAGAIN ? ops->copy_end(event, true) : ret, 0);
	hooks->peek(other.addr, back, 256);
	assert_memory_equal(bytes, back, 256);
	make_cuda.drop(&made);
	make_cuda.drop(&other);
}

static void *rounds(void *arg)
{
	const struct made *made = arg;
	struct hmem_memory memory;
	struct hmem_export out;
	struct hmem_facts facts;
	char byte = 1;

	for (int i = 0; i < 1000; i++) {
		if (ops->look(made->addr, &facts) != 0 ||
		    hmem_classify(made->addr, made->len, &memory) != 0 ||
		    ops->export_start(&memory, made->addr, made->len, 0, &out) != 0)
			return "failed";
		ops->export_end(&out);
		if (i % 16 == 0 &&
		    ops->copy(made->addr, made->device, &byte, HMEM_NO_DEVICE, 1) != 0)
			return "copy failed";
	}
	return NULL;
}

static void fn_01_thousand_rounds_by_two_threads(void **state)
{
	struct made made = made_of(MAKE_DEVICE, 0);
	pthread_t threads[2];
	void *result;

	(void)state;
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, rounds, &made), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	make_cuda.drop(&made);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, baseline, check)

/* Devices keep the order of a NIC's writes, or are flushed, or say that they cannot be. */
static void xpu_11_writes_of_nics_are_flushed_where_they_need_it(void **state)
{
	cu_context before = current();

	(void)state;
	assert_false(ops->needs_flush(FIRST));
	assert_true(ops->needs_flush(FIRST + DEVICES)); /* which is none */
	setenv("EMU_CUDA", SETTINGS ",order=0", 1);
	assert_true(ops->needs_flush(FIRST));
	assert_int_equal(ops->flush(FIRST + 1), 0);
	assert_int_equal(hooks->calls("cuFlushGPUDirectRDMAWrites"), 1);
	assert_ptr_equal(current(), before);
	(hooks->fail)("cuFlushGPUDirectRDMAWrites", 1, CU_UNKNOWN);
	assert_refused(ops->flush(FIRST + 1), -FI_EIO);
	assert_ptr_equal(current(), before);
	setenv("EMU_CUDA", SETTINGS ",order=0,flush=0", 1);
	assert_true(ops->needs_flush(FIRST));
	assert_refused(ops->flush(FIRST), -FI_EOPNOTSUPP);
	assert_int_equal(hooks->calls("cuFlushGPUDirectRDMAWrites"), 2);
	setenv("EMU_CUDA", SETTINGS, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fn_21_mapped_memory_needs_no_context),
		TEST(hmem_02_calls_per_look),
		TEST(fn_19_handle_is_not_ordinal),
		TEST(fn_20_dmabuf_by_device),
		TEST(fn_18_context_stays_the_caller_s),
		TEST(fn_18_memory_of_a_context_of_the_program),
		TEST(fn_17_sync_memops),
		TEST(fn_24_flag_unknown_or_known),
		TEST(fn_07_unaligned),
		TEST(fn_28_window),
		TEST(hmem_02_failure_is_one_line),
		TEST(copy_is_done_when_it_returns),
		TEST(fn_01_thousand_rounds_by_two_threads),
		TEST(xpu_11_writes_of_nics_are_flushed_where_they_need_it),
		TEST(fn_05_each_call_fails),
		TEST(fn_18_device_reset),
	};
	const struct CMUnitTest first[] = { cmocka_unit_test(
		fn_21_no_context_before_it_is_needed) };
	const char *why;
	int failed;

	setenv("EMU_CUDA", SETTINGS, 1);
	why = make_cuda.open();
	if (why || !cuda.hooks) {
		fprintf(stderr, "no emulated driver: %s\n", why ? why : "a real one");
		return why ? 1 : 77;
	}
	hooks = cuda.hooks;
	warnings_start(NULL);
	failed = cmocka_run_group_tests(first, NULL, NULL);
	/* what stays once it was needed: contexts and streams */
	for (int i = 0; ops && i < DEVICES; i++) {
		struct made made;

		make_cuda.make(MAKE_DEVICE, FIRST + i, LEN, &made);
		use_everything(&made);
		make_cuda.drop(&made);
	}
	failed |= cmocka_run_group_tests(tests, NULL, NULL);
	warnings_stop(NULL);
	return failed != 0;
}
