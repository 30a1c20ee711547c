/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an XPU of CUDA sees, over the emulated driver: memory of the interface's own, and completions that come
 * after a flush.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "tests/hmem/cuda_calls.h"
#include "tests/unit/queues.h"
#include "tests/unit/xpu_scene.h"

#define DEVICE	 10
#define ORDERED	 "handles=10,order=100"
#define NO_ORDER "handles=10,order=0"
#define FLUSH	 "cuFlushGPUDirectRDMAWrites"

static const struct emu_accel_hooks *hooks;

/* A queue and a counter of a NIC that writes into devices' memory, exported. */
struct scene {
	struct nic_port port;
	struct hm_xpu_own ctx;
	struct hm_cq cq;
	struct hm_cntr cntr;
	struct hm_xpu_part *cq_part, *cntr_part;
	struct xpu_side side; /* what xpu_read looks at */
	long live;
};

static void scene_open(struct scene *s, const char *settings, uint32_t ways)
{
	struct fid_xpu cq, cntr;

	setenv("EMU_CUDA", settings, 1);
	memset(s, 0, sizeof(*s));
	s->live = hooks->live("*");
	s->port.ways = ways;
	nic_domain.port = &s->port;
	s->ctx.domain = &domain;
	s->ctx.iface = FI_HMEM_CUDA;
	s->ctx.device = DEVICE;
	s->cq.format = FI_CQ_FORMAT_DATA;
	assert_int_equal(nic_cq_init(&s->cq.nic, 64, FI_WAIT_NONE), 0);
	assert_int_equal(nic_cntr_init(&s->cntr.nic, FI_CNTR_EVENTS_COMP, FI_WAIT_NONE), 0);
	assert_int_equal(xpu_engine_init(&s->ctx.engine, &nic_domain), 0);
	assert_int_equal(xpu_cq_export(&s->ctx, &s->cq.nic, &s->cq, &cq, &s->cq_part), 0);
	assert_int_equal(xpu_cntr_export(&s->ctx, &s->cntr.nic, &s->cntr, &cntr, &s->cntr_part), 0);
	s->side.xcq = (void *)(uintptr_t)cq.prov_ctx;
	s->side.xcntr = (void *)(uintptr_t)cntr.prov_ctx;
	hooks->reset();
	warning_count = 0;
}

static void scene_close(struct scene *s)
{
	xpu_ring.end(s->cq_part);
	xpu_ring.end(s->cntr_part);
	xpu_engine_end(&s->ctx.engine);
	nic_cq_destroy(&s->cq.nic);
	nic_cntr_destroy(&s->cntr.nic);
	assert_int_equal(hooks->live("*"), s->live);
}

static struct hmreg_xpu_cqe complete(struct scene *s, uint64_t flags)
{
	struct nic_comp comp = { .flags = flags, .len = 100, .src_addr = FI_ADDR_NOTAVAIL };
	struct hmreg_xpu_cqe cqe;

	assert_int_equal(nic_cq_reserve(&s->cq.nic), 0);
	nic_cq_push(&s->cq.nic, &comp);
	xpu_await(&s->side, &cqe);
	assert_int_equal(cqe.flags, flags);
	return cqe;
}

/* Which completions stand for something that the NIC has written here. */
static const struct {
	uint64_t flags;
	bool wrote;
} kinds[] = {
	{ FI_RMA | FI_WRITE, false },	    { FI_RMA | FI_READ, true },
	{ FI_MSG | FI_SEND, false },	    { FI_MSG | FI_RECV, true },
	{ FI_ATOMIC | FI_WRITE, false },    { FI_ATOMIC | FI_READ, true },
	{ FI_RMA | FI_REMOTE_WRITE, true },
};

static void xpu_11_a_completion_comes_after_the_flush(void **state)
{
	struct scene s;
	unsigned long flushes = 0;

	(void)state;
	scene_open(&s, NO_ORDER, NIC_WAY_DMABUF);
	for (size_t i = 0; i < count_of(kinds); i++) {
		assert_int_equal(complete(&s, kinds[i].flags).err, 0);
		flushes += kinds[i].wrote;
		assert_int_equal(hooks->calls(FLUSH), flushes);
	}
	nic_cntr_done(&s.cntr.nic, 8);
	xpu_await_value(&s.side.xcntr->value, 1);
	assert_int_equal(hooks->calls(FLUSH), flushes + 1);
	nic_cntr_failed(&s.cntr.nic); /* nothing has come */
	xpu_await_value(&s.side.xcntr->errors, 1);
	assert_int_equal(hooks->calls(FLUSH), flushes + 1);
	scene_close(&s);
}

static void xpu_11_no_flush_where_it_is_not_needed(void **state)
{
	static const struct {
		const char *settings;
		uint32_t ways;
	} cases[] = { { ORDERED, NIC_WAY_DMABUF }, { NO_ORDER, NIC_WAY_COPY } };

	(void)state;
	for (size_t c = 0; c < count_of(cases); c++) {
		struct scene s;

		scene_open(&s, cases[c].settings, cases[c].ways);
		for (size_t i = 0; i < count_of(kinds); i++)
			assert_int_equal(complete(&s, kinds[i].flags).err, 0);
		nic_cntr_done(&s.cntr.nic, 8);
		xpu_await_value(&s.side.xcntr->value, 1);
		assert_int_equal(hooks->calls(FLUSH), 0);
		scene_close(&s);
	}
}

/* What may not be there is not said to be: it fails, and only it. */
static void xpu_11_what_cannot_be_flushed_completes_in_error(void **state)
{
	struct hmreg_xpu_cqe cqe;
	struct scene s;

	(void)state;
	scene_open(&s, NO_ORDER, NIC_WAY_PEER);
	hooks->fail_on(FLUSH, 1, CU_UNKNOWN);
	for (size_t i = 0; i < count_of(kinds); i++) {
		warning_count = 0;
		cqe = complete(&s, kinds[i].flags);
		assert_int_equal(cqe.err, kinds[i].wrote ? FI_EIO : 0);
		assert_int_equal(cqe.prov_errno, kinds[i].wrote ? HMREG_MEMORY : 0);
		assert_int_equal(cqe.len, kinds[i].wrote ? 0 : 100);
		assert_int_equal(warning_count, kinds[i].wrote);
	}
	nic_cntr_done(&s.cntr.nic, 8);
	xpu_await_value(&s.side.xcntr->errors, 1);
	assert_int_equal(xpu_load(&s.side.xcntr->value), 0);
	hooks->fail_on(FLUSH, 0, 0);
	nic_cntr_done(&s.cntr.nic, 8);
	xpu_await_value(&s.side.xcntr->value, 1);
	assert_int_equal(xpu_load(&s.side.xcntr->errors), 1);
	scene_close(&s);
}

/* The host reaches the ring, the device alone its words, which are zero; and all of it is given back. */
static void xpu_02_memory_is_the_interface_s(void **state)
{
	struct hmreg_xpu_own words;
	struct scene s;
	const char *at;

	(void)state;
	scene_open(&s, NO_ORDER, NIC_WAY_DMABUF);
	assert_int_equal(s.cq_part->memory.how, XPU_MEMORY_HMEM);
	assert_int_equal(s.cq_part->own.how, XPU_MEMORY_HMEM_DEVICE);
	at = (const char *)(uintptr_t)s.side.xcq->own;
	assert_int_equal((uintptr_t)at, s.cq_part->own.device);
	memset(&words, 1, sizeof(words));
	assert_int_equal(hooks->peek(at, &words, sizeof(words)), 0);
	assert_int_equal(words.next, 0);
	assert_int_equal(words.round, 0);
	scene_close(&s);
}

/* Errors that the program was told of before, and those that it was not. */
static void xpu_08_a_counter_goes_on_where_the_host_was(void **state)
{
	struct hm_xpu_part *part;
	struct hmreg_xpu_cntr *control;
	struct hmreg_xpu_own words;
	struct fid_xpu out;
	struct scene s;

	(void)state;
	scene_open(&s, NO_ORDER, NIC_WAY_DMABUF);
	atomic_store(&s.cntr.nic.value, 7);
	atomic_store(&s.cntr.nic.errors, 3);
	atomic_store(&s.cntr.errors_seen, 2);
	assert_int_equal(xpu_cntr_export(&s.ctx, &s.cntr.nic, &s.cntr, &out, &part), 0);
	control = (void *)(uintptr_t)out.prov_ctx;
	assert_int_equal(xpu_load(&control->value), 7);
	assert_int_equal(xpu_load(&control->errors), 3);
	assert_int_equal(hooks->peek((const void *)(uintptr_t)control->own, &words, sizeof(words)),
			 0);
	assert_int_equal(words.seen, 2);
	assert_int_equal(words.add, 0);
	xpu_ring.end(part);
	scene_close(&s);
}

static int give_pages(uint64_t device, void *host, uint64_t size, uint64_t flags, void **ptr)
{
	(void)device, (void)size, (void)flags;
	*ptr = host;
	return 0;
}

static void take_pages(uint64_t device, void *ptr)
{
	(void)device, (void)ptr;
}

/* With operations of the program, too: what the NIC wrote there could not be flushed. */
static void xpu_02_a_device_that_the_interface_does_not_have(void **state)
{
	static const uint64_t devices[] = { DEVICE - 1, UINT64_C(1) << 32 | DEVICE, UINT64_MAX };
	struct fi_xpu_ops ops = { sizeof(ops), NULL, give_pages, take_pages };
	struct fi_xpu_attr attr = { .iface = FI_HMEM_CUDA };
	struct fid_xpu_ctx *ctx;
	struct xpu_scene s;

	(void)state;
	setenv("EMU_CUDA", ORDERED, 1);
	xpu_scene_open(&s, "sw-scalable", 0);
	for (unsigned with = 0; with < 2; with++) {
		attr.ops = with ? &ops : NULL;
		for (size_t i = 0; i < count_of(devices); i++) {
			attr.device = devices[i];
			assert_refused(fi_xpu_ctx(s.domain, &attr, &ctx, NULL), -FI_ENODEV);
		}
		attr.device = DEVICE;
		assert_int_equal(fi_xpu_ctx(s.domain, &attr, &ctx, NULL), 0);
		assert_int_equal(fi_close(&ctx->fid), 0);
	}
	xpu_scene_close(&s);
}

/* Every call of the driver fails once: an export fails as a whole, or does without what it can. */
static void xpu_02_a_driver_that_fails_leaves_nothing(void **state)
{
	struct hm_xpu_part *part;
	struct fid_xpu out;
	unsigned failed = 0, made = 0;
	struct scene s;

	(void)state;
	scene_open(&s, NO_ORDER, NIC_WAY_DMABUF);
	for (unsigned nth = 1;; nth++) {
		long live = hooks->live("*");
		unsigned long calls;
		int ret;

		hooks->reset();
		(hooks->fail)("*", nth, CU_OUT_OF_MEMORY);
		ret = xpu_cntr_export(&s.ctx, &s.cntr.nic, &s.cntr, &out, &part);
		calls = hooks->calls("*");
		(hooks->fail)("*", 0, 0);
		failed += ret != 0;
		made += ret == 0;
		if (ret == 0) {
			hm_wait_pass_on(&s.cntr.nic.wait, &s.ctx.engine.wake);
			xpu_ring.end(part);
		}
		assert_int_equal(hooks->live("*"), live);
		if (calls < nth)
			break;
	}
	assert_true(failed > 0 && made > 1);
	hm_wait_pass_on(&s.cntr.nic.wait, &s.ctx.engine.wake);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xpu_11_a_completion_comes_after_the_flush),
		cmocka_unit_test(xpu_11_no_flush_where_it_is_not_needed),
		cmocka_unit_test(xpu_11_what_cannot_be_flushed_completes_in_error),
		cmocka_unit_test(xpu_02_memory_is_the_interface_s),
		cmocka_unit_test(xpu_08_a_counter_goes_on_where_the_host_was),
		cmocka_unit_test(xpu_02_a_device_that_the_interface_does_not_have),
		cmocka_unit_test(xpu_02_a_driver_that_fails_leaves_nothing),
	};
	struct hm_xpu_own ctx = { .iface = FI_HMEM_CUDA, .device = DEVICE, .engine.pid = getpid() };
	struct xpu_memory memory;
	const char *why;

	setenv("EMU_CUDA", NO_ORDER, 1);
	why = cuda_calls_load();
	if (why || !cuda.hooks) {
		fprintf(stderr, "no emulated driver: %s\n", why ? why : "a real one");
		return why ? 1 : 77;
	}
	hooks = cuda.hooks;
	/* what stays once it was needed: the device's context and stream */
	xpu_memory_get_own(&ctx, 64, &memory);
	xpu_memory_put(&ctx, &memory);
	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
