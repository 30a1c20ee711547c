/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What only CUDA has, on the real driver or the emulated one: the driver's own answer to each export
 * beside the library's, contexts, and file descriptors.  Lines that begin with "kind" are a table.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "hmem/hmem.h"
#include "tests/fds.h"
#include "tests/hmem/cuda_calls.h"
#include "tests/hmem/maker.h"

#define UNIT	((size_t)65536)
#define LEN	((size_t)2 << 20)
#define EXPORTS 1000

static const struct hmem_ops *ops;
static int device; /* CUdevice of the first one */
static bool dmabuf;
static cu_context primary;
static size_t baseline_fds;
static long baseline_live;

static cu_context current(void)
{
	cu_context context = NULL;

	cuda.ctx_current(&context);
	return context;
}

static struct made made_of(enum make kind)
{
	struct made made = { .kind = kind, .device = device };
	int result = make_cuda.make(kind, device, LEN, &made);

	if (result != 0)
		fail_msg("%s cannot be made: error %d", make_name(kind), result);
	return made;
}

/* ---- exports: the driver's answer, and the library's ---- */

/* The driver's own, of the pages of one UNIT. */
static cu_result ask_driver(const void *addr, unsigned long long flags)
{
	cu_ptr begin = (uintptr_t)addr & ~(cu_ptr)4095;
	cu_context popped;
	cu_result result;
	int file = -1;

	if (!cuda.range_handle)
		return CU_NOT_FOUND;
	cuda.ctx_push(primary);
	result = cuda.range_handle(&file, begin, UNIT, CU_RANGE_DMA_BUF_FD, flags);
	cuda.ctx_pop(&popped);
	if (result == CU_OK)
		close(file);
	return result;
}

static int ask_library(const struct hmem_memory *memory, const void *addr, uint32_t flags)
{
	struct hmem_export out;
	int ret = ops->export_start(memory, addr, UNIT, flags, &out);

	if (ret == 0)
		ops->export_end(&out);
	return ret;
}

static const char *result_name(cu_result result)
{
	const char *name = NULL;

	if (result == CU_OK)
		return "yes";
	cuda.error_name(result, &name);
	if (!name)
		return "?";
	return strncmp(name, "CUDA_ERROR_", 11) == 0 ? name + 11 : name;
}

struct answers {
	cu_result plain, pcie;
	int library, library_pcie;
};

static struct answers ask_all(const struct made *made, struct hmem_memory *memory)
{
	assert_int_equal(hmem_classify(made->addr, UNIT, memory), 0);
	return (struct answers){
		.plain = ask_driver(made->addr, 0),
		.pcie = ask_driver(made->addr, CU_RANGE_PCIE),
		.library = ask_library(memory, made->addr, 0),
		.library_pcie = ask_library(memory, made->addr, HMEM_EXPORT_PCIE),
	};
}

static void show(enum make kind, const struct hmem_memory *memory, const struct answers *a)
{
	print_message("kind %-36s %-8s %-16s %-16s %-7s %s\n", make_name(kind),
		      memory->ways & HMEM_WAY_HOST     ? "host"
		      : memory->ways & HMEM_WAY_DMABUF ? "dma-buf"
						       : "copy",
		      result_name(a->plain), result_name(a->pcie), a->library == 0 ? "yes" : "no",
		      a->library_pcie == 0 ? "yes" : "no");
}

static void export_kind(enum make kind)
{
	const char *why = make_cuda.cannot(kind, device);
	struct hmem_memory memory;
	struct answers a;
	struct made made;

	if (why) {
		print_message("kind %-36s %s\n", make_name(kind), why);
		return;
	}
	made = made_of(kind);
	a = ask_all(&made, &memory);
	show(kind, &memory, &a);
	make_cuda.drop(&made);
	if (!(memory.ways & HMEM_WAY_DMABUF) || !dmabuf) {
		assert_int_equal(a.library, -FI_EOPNOTSUPP);
		assert_int_equal(a.library_pcie, -FI_EOPNOTSUPP);
		return;
	}
	/* the library promises an export of this memory, and the driver has to keep the promise */
	assert_int_equal(a.library, 0);
	assert_int_equal(a.library_pcie, 0);
}

static void export_some(const enum make *kinds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		export_kind(kinds[i]);
}
#define EXPORT(...)                                                                                \
	export_some((const enum make[]){ __VA_ARGS__ },                                            \
		    sizeof((const enum make[]){ __VA_ARGS__ }) / sizeof(enum make))

static void fn_24_exports_of_plain_memory(void **state)
{
	(void)state;
	EXPORT(MAKE_DEVICE);
}

static void fn_24_exports_of_mapped_memory(void **state)
{
	(void)state;
	EXPORT(MAKE_VMM, MAKE_VMM_NO_RDMA, MAKE_VMM_HOST);
}

static void fn_24_exports_of_pools(void **state)
{
	(void)state;
	EXPORT(MAKE_POOL, MAKE_POOL_PRIVATE);
}

static void fn_24_exports_of_the_rest(void **state)
{
	(void)state;
	EXPORT(MAKE_MANAGED, MAKE_HOST, MAKE_REGISTERED, MAKE_IMPORTED);
}

/* Of mapped memory, a range over the border of its two allocations. */
static void fn_08_export_over_the_border(void **state)
{
	struct hmem_memory memory;
	struct hmem_facts facts;
	struct made made;
	size_t part;
	char *border;

	(void)state;
	if (make_cuda.cannot(MAKE_VMM, device)) {
		print_message("%s\n", make_cuda.cannot(MAKE_VMM, device));
		skip();
	}
	made = made_of(MAKE_VMM);
	border = (char *)made.addr + made.len / 2;
	assert_int_equal(hmem_classify(border - UNIT, 2 * UNIT, &memory), 0);
	assert_int_equal(memory.segments, 2);
	assert_int_equal(hmem_segment(&memory, border - UNIT, 2 * UNIT, &facts, &part), 0);
	assert_int_equal(part, UNIT);
	print_message("the driver exports over the border: %s\n",
		      result_name(ask_driver(border - UNIT / 2, 0)));
	make_cuda.drop(&made);
}

static void export_often(uint32_t flags)
{
	struct hmem_memory memory;
	struct made made;

	if (!dmabuf) {
		print_message("the device exports no dma-buf\n");
		skip();
	}
	made = made_of(MAKE_DEVICE);
	assert_int_equal(hmem_classify(made.addr, UNIT, &memory), 0);
	for (int i = 0; i < EXPORTS; i++)
		assert_int_equal(ask_library(&memory, made.addr, flags), 0);
	make_cuda.drop(&made);
}

static void fn_01_a_thousand_exports(void **state)
{
	(void)state;
	export_often(0);
}

static void fn_01_a_thousand_exports_pcie(void **state)
{
	(void)state;
	export_often(HMEM_EXPORT_PCIE);
}

/* ---- contexts ---- */

/* Everything about this memory; false: something fails, or the thread's context is another one then. */
static bool use_everything(const struct made *made)
{
	struct hmem_place host, there = { made->addr, FI_HMEM_CUDA, device };
	char out[64] = "there and back", in[64] = "";
	cu_context before = current();
	struct hmem_memory memory;
	struct hmem_job *job;

	if (hmem_classify(made->addr, UNIT, &memory) != 0 || current() != before)
		return false;
	if (ops->prepare(&memory, made->addr, UNIT) != 0 || current() != before)
		return false;
	if (dmabuf && (memory.ways & HMEM_WAY_DMABUF) &&
	    (ask_library(&memory, made->addr, 0) != 0 || current() != before))
		return false;
	host = (struct hmem_place){ out, FI_HMEM_SYSTEM, HMEM_NO_DEVICE };
	if (hmem_copy(&there, &host, sizeof(out)) != 0 || current() != before)
		return false;
	host.addr = in;
	if (hmem_copy_start(&host, &there, sizeof(in), &job) != 0 || hmem_copy_end(job, true) != 0)
		return false;
	return current() == before && memcmp(in, out, sizeof(in)) == 0;
}

static void *use_in_thread(void *arg)
{
	static int good;

	return current() == NULL && use_everything(arg) ? &good : NULL;
}

static void fn_18_thread_without_a_context(void **state)
{
	struct made made = made_of(MAKE_DEVICE);
	pthread_t thread;
	void *result;

	(void)state;
	assert_null(current());
	assert_true(use_everything(&made));
	assert_int_equal(pthread_create(&thread, NULL, use_in_thread, &made), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_non_null(result);
	make_cuda.drop(&made);
}

static cu_context make_context(int of)
{
	cu_context own = NULL;

	assert_non_null(cuda.ctx_make ? (void *)(uintptr_t)cuda.ctx_make : NULL);
	assert_int_equal(cuda.ctx_make(&own, 0, of), CU_OK);
	return own;
}

static void fn_18_context_of_the_program(void **state)
{
	struct made made = made_of(MAKE_DEVICE), theirs = { .device = device, .len = LEN };
	cu_context own = make_context(device), popped;
	cu_ptr addr;

	(void)state;
	assert_true(use_everything(&made));
	assert_ptr_equal(current(), own);
	/* memory of that context, with and without it current */
	assert_int_equal(cuda.alloc(&addr, LEN), CU_OK);
	theirs.addr = (void *)(uintptr_t)addr;
	assert_true(use_everything(&theirs));
	assert_int_equal(cuda.ctx_pop(&popped), CU_OK);
	assert_ptr_equal(popped, own);
	assert_null(current());
	assert_true(use_everything(&theirs));
	assert_int_equal(cuda.ctx_end(own), CU_OK);
	assert_true(use_everything(&made));
	make_cuda.drop(&made);
}

static void fn_18_context_of_another_device(void **state)
{
	cu_context own, popped;
	struct made made;

	(void)state;
	if (make_cuda.devices() < 2) {
		print_message("there is one device\n");
		skip();
	}
	made = made_of(MAKE_DEVICE);
	own = make_context(make_cuda.device(1));
	assert_true(use_everything(&made));
	assert_int_equal(cuda.ctx_pop(&popped), CU_OK);
	assert_ptr_equal(popped, own);
	assert_int_equal(cuda.ctx_end(own), CU_OK);
	make_cuda.drop(&made);
}

/* ---- around the tests ---- */

static long live(void)
{
	return cuda.hooks ? cuda.hooks->live("*") : 0;
}

static int remember(void **state)
{
	(void)state;
	baseline_fds = test_fds();
	baseline_live = live();
	return 0;
}

static int compare(void **state)
{
	(void)state;
	if (test_fds() != baseline_fds)
		print_error("%zu file descriptors were open, now %zu\n", baseline_fds, test_fds());
	if (live() != baseline_live)
		print_error("%ld objects of the driver were live, now %ld\n", baseline_live,
			    live());
	return test_fds() == baseline_fds && live() == baseline_live ? 0 : -1;
}

/* What a driver makes once and keeps, before anything is counted. */
static void warm_up(void)
{
	for (int kind = 0; kind < MAKE_KINDS; kind++) {
		struct made made = { .kind = kind, .device = device };
		struct hmem_memory memory;

		if (make_cuda.cannot(kind, device) || make_cuda.make(kind, device, LEN, &made) != 0)
			continue;
		if (hmem_classify(made.addr, UNIT, &memory) == 0) {
			ask_driver(made.addr, 0);
			ask_library(&memory, made.addr, HMEM_EXPORT_PCIE);
			use_everything(&made);
		}
		make_cuda.drop(&made);
	}
}

/* ---- identities: what a registration cache relies on ---- */

static unsigned long long attribute(const void *addr, unsigned int which)
{
	unsigned long long value = 0;
	cu_context popped;

	cuda.ctx_push(primary);
	if (cuda.ptr_attr(&value, which, (uintptr_t)addr) != CU_OK)
		value = 0;
	cuda.ctx_pop(&popped);
	return value;
}

static const char *compared(unsigned long long before, unsigned long long after)
{
	return !before || !after ? "not told" : before == after ? "the same" : "another";
}

/* Memory at an address, then other memory there: mapped again, or freed and allocated until it is. */
static void show_ids(enum make kind)
{
	struct made made = made_of(kind);
	const void *addr = made.addr;
	unsigned long long buffer = attribute(addr, CU_PTR_BUFFER_ID);
	unsigned long long block = attribute(addr, CU_PTR_BLOCK_ID);
	struct hmem_owner before, after;
	bool again = kind == MAKE_VMM && make_cuda.remap(&made) == 0;

	assert_int_equal(hmem_owner_of(addr, UNIT, &before), 0);
	if (again) /* what was there before is gone: it is the identity of the second one */
		assert_int_equal(make_cuda.remap(&made), 0);
	for (int i = 0; i < 100 && !again; i++) {
		make_cuda.drop(&made);
		made = made_of(kind);
		again = made.addr == addr;
	}
	assert_int_equal(hmem_owner_of(made.addr, UNIT, &after), 0);
	print_message("ids of other memory, %s: the address %s, BUFFER_ID %s, MEMORY_BLOCK_ID %s\n",
		      make_name(kind), again ? "came again" : "did not come again",
		      compared(buffer, attribute(made.addr, CU_PTR_BUFFER_ID)),
		      compared(block, attribute(made.addr, CU_PTR_BLOCK_ID)));
	/* whatever the driver does, it is not taken for the memory before */
	assert_true(!(before.guards & HMEM_GUARD_ID) || !(after.guards & HMEM_GUARD_ID) ||
		    before.id != after.id);
	make_cuda.drop(&made);
}

static void fn_29_ids_of_other_memory(void **state)
{
	static const enum make kinds[] = { MAKE_DEVICE,	 MAKE_HOST,    MAKE_REGISTERED,
					   MAKE_MANAGED, MAKE_VMM,     MAKE_VMM_HOST,
					   MAKE_POOL,	 MAKE_IMPORTED };

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!make_cuda.cannot(kinds[i], device))
			show_ids(kinds[i]);
}

static void show_device(void)
{
	struct hmem_status status;
	struct hmem_device info;

	hmem_status(FI_HMEM_CUDA, &status);
	for (size_t i = 0; i < ops->device_count(); i++) {
		if (ops->device_info(i, &info) != 0)
			continue;
		print_message("device %s, %zu MiB, dma-bufs: %s\n", info.name,
			      (size_t)(info.memory >> 20),
			      info.dmabuf ? "yes" : info.dmabuf_reason);
		if (i == 0)
			dmabuf = info.dmabuf;
	}
	print_message("driver %s, %s\n", status.driver, status.version);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, remember, compare)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(fn_24_exports_of_plain_memory), CASE(fn_24_exports_of_mapped_memory),
		CASE(fn_24_exports_of_pools),	     CASE(fn_24_exports_of_the_rest),
		CASE(fn_08_export_over_the_border),  CASE(fn_01_a_thousand_exports),
		CASE(fn_01_a_thousand_exports_pcie), CASE(fn_18_thread_without_a_context),
		CASE(fn_18_context_of_the_program),  CASE(fn_18_context_of_another_device),
		CASE(fn_29_ids_of_other_memory),
	};
	const char *why = make_cuda.open();

	if (why) {
		printf("skipped: cuda: %s\n", why);
		return 77;
	}
	ops = hmem_get(FI_HMEM_CUDA);
	device = make_cuda.device(0);
	if (!ops || cuda.primary_retain(&primary, device) != CU_OK) {
		fprintf(stderr, "the driver is there, but cannot be used: %s\n",
			hmem_tried(FI_HMEM_CUDA)->reason);
		return 1;
	}
	show_device();
	warm_up();
	return cmocka_run_group_tests_name("cuda", tests, NULL, NULL) != 0;
}
