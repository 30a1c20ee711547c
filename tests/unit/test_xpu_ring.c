/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring, and completions on their way back: slot by slot, over the software NIC. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/xpu_scene.h"

#define TOLD   8 /* refusals in a row */
#define SLEEPS 20

static const char *const profiles[] = { "sw-scalable", "sw-verbs" };

static void post(struct xpu_side *side, const struct hmreg_xpu_wr *wr)
{
	while (!xpu_post(side, wr))
		sched_yield();
}

/* The context's thread has looked at everything and sleeps: what the device does now wakes nobody. */
static void await_sleep(const struct xpu_scene *s)
{
	struct xpu_engine *engine = &hm_container(s->ctx, struct hm_xpu_ctx, ctx)->own->engine;

	while (atomic_load(&engine->wake.listeners) < HM_WAIT_SLEEPER)
		sched_yield();
	pthread_mutex_lock(&engine->lock);
	pthread_mutex_unlock(&engine->lock);
}

/* ---- every kind of request ---- */

static void xpu_08_a_write_arrives_and_completes(void **state)
{
	(void)state;
	for (size_t p = 0; p < count_of(profiles); p++) {
		struct xpu_scene s;
		struct hmreg_xpu_cqe cqe;
		struct hmreg_xpu_wr wr;

		xpu_scene_open(&s, profiles[p], 0);
		memset(s.side[0].memory, 0x5a, XPU_LEN);
		wr = xpu_write_wr(&s, 0, 128, 1024, 0x1234);
		post(&s.side[0], &wr);
		xpu_await(&s.side[0], &cqe);
		assert_int_equal(cqe.context, 0x1234);
		assert_int_equal(cqe.err, 0);
		assert_int_equal(cqe.flags, FI_RMA | FI_WRITE);
		assert_memory_equal(s.side[1].memory + 128, s.side[0].memory + 128, 1024);
		assert_int_equal(s.side[1].memory[127], 0);
		assert_int_equal(s.side[1].memory[128 + 1024], 0);
		xpu_await_value(&s.side[0].xcntr->value, 1);
		assert_int_equal(xpu_load(&s.side[0].xcntr->errors), 0);
		xpu_scene_close(&s);
	}
}

static void xpu_08_messages_meet_their_receives(void **state)
{
	struct xpu_scene s;
	struct hmreg_xpu_cqe cqe;
	struct hmreg_xpu_wr wr;

	(void)state;
	xpu_scene_open(&s, "sw-scalable", 0);
	for (uint64_t i = 0; i < 3; i++) {
		wr = xpu_message_wr(&s, 1, HMREG_XPU_RECV, 256 * i, 256, 100 + i);
		post(&s.side[1], &wr);
	}
	for (uint64_t i = 0; i < 3; i++) {
		memset(s.side[0].memory + 256 * i, (int)(i + 1), 256);
		wr = xpu_message_wr(&s, 0, HMREG_XPU_SEND, 256 * i, 256, i);
		wr.flags = FI_REMOTE_CQ_DATA;
		wr.data = 7 * i;
		post(&s.side[0], &wr);
	}
	for (uint64_t i = 0; i < 3; i++) {
		xpu_await(&s.side[1], &cqe);
		assert_int_equal(cqe.context, 100 + i);
		assert_int_equal(cqe.flags, FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA);
		assert_int_equal(cqe.data, 7 * i);
		assert_int_equal(cqe.len, 256);
		xpu_await(&s.side[0], &cqe);
		assert_int_equal(cqe.context, i);
	}
	assert_memory_equal(s.side[0].memory, s.side[1].memory, 3 * 256);
	xpu_await_value(&s.side[1].xcntr->value, 3);
	xpu_scene_close(&s);
}

static void xpu_08_atomics_read_and_change_the_target(void **state)
{
	struct xpu_scene s;
	struct hmreg_xpu_cqe cqe;
	struct hmreg_xpu_wr wr;
	uint64_t *mine, *theirs;

	(void)state;
	xpu_scene_open(&s, "sw-verbs", 0);
	mine = (uint64_t *)(void *)s.side[0].memory;
	theirs = (uint64_t *)(void *)s.side[1].memory;
	mine[0] = 5;
	mine[1] = 47;
	theirs[0] = 42;
	wr = xpu_write_wr(&s, 0, 0, 1, 1);
	wr.op = HMREG_XPU_ATOMIC;
	wr.datatype = FI_UINT64;
	wr.atomic_op = FI_SUM;
	post(&s.side[0], &wr);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(theirs[0], 47);
	wr.op = HMREG_XPU_FETCH_ATOMIC;
	wr.result = (uintptr_t)&mine[2];
	wr.result_desc = wr.desc;
	post(&s.side[0], &wr);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(cqe.flags, FI_ATOMIC | FI_READ);
	assert_int_equal(mine[2], 47);
	assert_int_equal(theirs[0], 52);
	mine[1] = 52;
	wr.op = HMREG_XPU_COMPARE_ATOMIC;
	wr.atomic_op = FI_CSWAP;
	wr.compare = (uintptr_t)&mine[1];
	wr.compare_desc = wr.desc;
	post(&s.side[0], &wr);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(mine[2], 52);
	assert_int_equal(theirs[0], 5);
	wr = xpu_write_wr(&s, 0, 0, 8, 1);
	wr.op = HMREG_XPU_READ;
	wr.buf += 64;
	post(&s.side[0], &wr);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(mine[8], 5);
	xpu_scene_close(&s);
}

/* Receives and transmits in turns, each for an engine that sleeps. */
static void xpu_10_a_request_is_found_after_a_sleep(void **state)
{
	struct xpu_scene s;
	struct hmreg_xpu_cqe cqe;
	struct hmreg_xpu_wr wr;

	(void)state;
	xpu_scene_open(&s, "sw-scalable", 0);
	for (uint64_t i = 0; i < SLEEPS; i++) {
		wr = xpu_message_wr(&s, 1, HMREG_XPU_RECV, 0, 64, i);
		await_sleep(&s);
		post(&s.side[1], &wr);
		while (!xpu_taken(&s.side[1], i))
			sched_yield();
		wr = xpu_message_wr(&s, 0, HMREG_XPU_SEND, 0, 64, i);
		await_sleep(&s);
		post(&s.side[0], &wr);
		xpu_await(&s.side[0], &cqe);
		assert_int_equal(cqe.context, i);
		xpu_await(&s.side[1], &cqe);
		assert_int_equal(cqe.context, i);
	}
	xpu_scene_close(&s);
}

/* ---- what is refused ---- */

static struct hmreg_xpu_wr wrong(struct xpu_scene *s, unsigned which)
{
	struct hmreg_xpu_wr wr = xpu_write_wr(s, 0, 0, 64, which);

	switch (which) {
	case 0:
		wr.desc ^= 1; /* no region's */
		break;
	case 1:
		wr.desc = 0; /* FI_MR_XPU_DESC */
		break;
	case 2:
		wr.op = 0;
		break;
	case 3:
		wr.op = 99;
		break;
	case 4:
		wr.flags = FI_INJECT;
		break;
	case 5:
		wr.flags = UINT64_C(1) << 40;
		break;
	case 6:
		wr.peer = 77;
		break;
	case 7:
		wr.len = XPU_LEN + 1; /* of the local region */
		break;
	case 8:
		wr.op = HMREG_XPU_ATOMIC;
		wr.datatype = 200;
		break;
	case 9:
		wr.op = HMREG_XPU_FETCH_ATOMIC;
		wr.datatype = FI_UINT64;
		wr.atomic_op = FI_SUM;
		wr.len = 1;
		wr.result = wr.buf; /* and no descriptor of it */
		break;
	case 10:
		wr.op = HMREG_XPU_RECV;
		wr.desc = 0;
		break;
	case 11:
		wr.op = HMREG_XPU_SEND;
		wr.desc = ~wr.desc;
		break;
	}
	return wr;
}

#define WRONG 12

static void xpu_10_mode_11_wrong_requests_complete_in_error(void **state)
{
	static const int code[WRONG] = { FI_EINVAL,	FI_EINVAL,    FI_EINVAL, FI_EINVAL,
					 FI_EBADFLAGS,	FI_EBADFLAGS, FI_EINVAL, FI_EINVAL,
					 FI_EOPNOTSUPP, FI_EINVAL,    FI_EINVAL, FI_EINVAL };
	struct xpu_scene s;
	struct hmreg_xpu_cqe cqe;
	struct hmreg_xpu_wr wr;

	(void)state;
	xpu_scene_open(&s, "sw-any", 0);
	for (unsigned i = 0; i < WRONG; i++) {
		warning_count = 0;
		wr = wrong(&s, i);
		post(&s.side[0], &wr);
		xpu_await(&s.side[0], &cqe);
		assert_int_equal(cqe.context, i);
		assert_int_equal(cqe.err, code[i]);
		assert_int_equal(cqe.prov_errno, HMREG_REFUSED);
		assert_int_equal(cqe.src_addr, FI_ADDR_NOTAVAIL);
		assert_int_equal(warning_count, 1);
		xpu_await_value(&s.side[0].xcntr->errors, i + 1);
		/* and the queue is as good as before */
		wr = xpu_write_wr(&s, 0, 0, 64, 1000 + i);
		post(&s.side[0], &wr);
		xpu_await(&s.side[0], &cqe);
		assert_int_equal(cqe.context, 1000 + i);
		assert_int_equal(cqe.err, 0);
	}
	xpu_await_value(&s.side[0].xcntr->value, WRONG);
	xpu_scene_close(&s);
}

static void xpu_10_a_closed_region_and_a_wrong_key_complete_in_error(void **state)
{
	struct xpu_scene s;
	struct hmreg_xpu_cqe cqe;
	struct hmreg_xpu_wr wr;

	(void)state;
	xpu_scene_open(&s, "sw-verbs", 0);
	wr = xpu_write_wr(&s, 0, 0, 64, 1);
	wr.key ^= 0x55aa;
	post(&s.side[0], &wr);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(cqe.err, FI_ENOKEY);
	wr = xpu_write_wr(&s, 0, XPU_LEN - 64, 64, 2);
	wr.addr += 1;
	post(&s.side[0], &wr);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(cqe.err, FI_EINVAL);
	assert_int_equal(cqe.prov_errno, HMREG_OUT_OF_BOUNDS);
	wr = xpu_write_wr(&s, 0, 0, 64, 3);
	assert_int_equal(fi_close(&s.side[0].mr->fid), 0);
	s.side[0].mr = NULL;
	post(&s.side[0], &wr);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(cqe.context, 3);
	assert_int_equal(cqe.err, FI_EINVAL);
	assert_int_equal(cqe.prov_errno, HMREG_REFUSED);
	xpu_await_value(&s.side[0].xcntr->errors, 3);
	xpu_scene_close(&s);
}

/* ---- full rings ---- */

/* Until the engine can take no more: the device reads no completion.  How many were posted. */
static uint64_t fill(struct xpu_scene *s, int refused)
{
	struct xpu_side *side = &s->side[0];
	uint64_t room = side->xcq->mask + 1 + 2; /* the device's ring and the host's queue */
	struct hmreg_xpu_wr wr;

	for (uint64_t i = 0; i < room; i++) {
		wr = xpu_write_wr(s, 0, 0, 8, i);
		post(side, &wr);
	}
	while (!xpu_taken(side, room - 1))
		sched_yield();
	while (side->posted < room + side->xep->mask + 1) {
		wr = xpu_write_wr(s, 0, 0, 8, side->posted);
		if (refused)
			wr.desc ^= 1;
		assert_true(xpu_post(side, &wr));
	}
	assert_false(xpu_post(side, &wr));
	return side->posted;
}

static void xpu_10_nothing_is_lost_where_every_ring_is_full(void **state)
{
	(void)state;
	for (int refused = 0; refused < 2; refused++) {
		struct xpu_scene s;
		struct hmreg_xpu_cqe cqe;
		uint64_t n, failed = 0;

		xpu_scene_open(&s, "sw-verbs", 2);
		warning_count = 0;
		n = fill(&s, refused);
		for (uint64_t i = 0; i < n; i++) {
			if (i < SLEEPS)
				await_sleep(&s);
			xpu_await(&s.side[0], &cqe);
			assert_int_equal(cqe.context, i);
			failed += cqe.err != 0;
		}
		assert_int_equal(failed, refused ? s.side[0].xep->mask + 1 : 0);
		/* each was tried once; the first ones are warned of, then one line says that no more are */
		assert_int_equal(warning_count, refused ? TOLD + 1 : 0);
		assert_false(xpu_read(&s.side[0], &cqe));
		xpu_await_value(&s.side[0].xcntr->value, n - failed);
		xpu_await_value(&s.side[0].xcntr->errors, failed);
		xpu_scene_close(&s);
	}
}

/* Side 0 cannot complete another transmit; a receive that comes behind all of them is taken. */
static void xpu_10_a_stuck_transmit_keeps_back_no_receive(void **state)
{
	struct xpu_scene s;
	struct hmreg_xpu_cqe cqe;
	struct hmreg_xpu_wr wr;
	uint64_t stuck, receive, n;

	(void)state;
	xpu_scene_open(&s, "sw-verbs", 2);
	s.side[0].memory[0] = 1;
	n = s.side[0].xcq->mask + 1 + 2;
	for (uint64_t i = 0; i < n + 10; i++) {
		wr = xpu_write_wr(&s, 0, 0, 8, i);
		post(&s.side[0], &wr);
	}
	while (!xpu_taken(&s.side[0], n - 1))
		sched_yield();
	stuck = s.side[0].posted - 1;
	receive = s.side[0].posted;
	wr = xpu_message_wr(&s, 0, HMREG_XPU_RECV, 1024, 64, 4711);
	post(&s.side[0], &wr);
	while (!xpu_taken(&s.side[0], receive))
		sched_yield();
	assert_false(xpu_taken(&s.side[0], stuck));
	/* the slots are taken up again in the device's own order, more than once around */
	for (uint64_t i = 0; i < n + 10; i++) {
		xpu_await(&s.side[0], &cqe);
		assert_int_equal(cqe.context, i);
	}
	for (uint64_t i = 0; i < 3 * (s.side[0].xep->mask + 1); i++) {
		wr = xpu_write_wr(&s, 0, 0, 8, i);
		post(&s.side[0], &wr);
		xpu_await(&s.side[0], &cqe);
		assert_int_equal(cqe.context, i);
	}
	wr = xpu_message_wr(&s, 1, HMREG_XPU_SEND, 0, 64, 1);
	post(&s.side[1], &wr);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(cqe.context, 4711);
	xpu_scene_close(&s);
}

/* What keeps a transmit back ends without a signal, in a queue of another's; a receive behind it has gone before. */
static void xpu_10_a_stuck_transmit_is_tried_after_each_sleep(void **state)
{
	struct xpu_scene s;
	struct hmreg_xpu_cqe cqe;
	struct hmreg_xpu_wr wr;
	struct nic_cq *full;

	(void)state;
	xpu_scene_open(&s, "sw-verbs", 2);
	full = &hm_cq_of(&s.side[1].cq->fid)->nic;
	while (nic_cq_reserve(full) == 0)
		;
	wr = xpu_write_wr(&s, 0, 0, 8, 1);
	wr.flags = FI_REMOTE_CQ_DATA;
	post(&s.side[0], &wr);
	wr = xpu_message_wr(&s, 0, HMREG_XPU_RECV, 1024, 64, 2);
	post(&s.side[0], &wr);
	while (!xpu_taken(&s.side[0], 1))
		sched_yield();
	assert_false(xpu_taken(&s.side[0], 0));
	await_sleep(&s);
	nic_cq_unreserve(full);
	xpu_await(&s.side[0], &cqe);
	assert_int_equal(cqe.context, 1);
	xpu_await(&s.side[1], &cqe);
	xpu_scene_close(&s);
}

/* ---- a device that died ---- */

static void scribble(uint64_t at, size_t len)
{
	for (size_t i = 0; i < len / sizeof(uint64_t); i++)
		xpu_store((uint64_t *)(uintptr_t)at + i, UINT64_C(0xa5a5a5a5a5a5a5a5));
}

static void xpu_10_what_a_dead_kernel_left_harms_nobody(void **state)
{
	struct xpu_scene s;
	struct hmreg_xpu_cqe cqe;
	struct hmreg_xpu_wr wr;

	(void)state;
	xpu_scene_open(&s, "sw-verbs", 0);
	/* every word of side 0's ring, queue and words is something else */
	scribble(s.side[0].xep->ring, (s.side[0].xep->mask + 1) * sizeof(struct hmreg_xpu_wr));
	scribble(s.side[0].xcq->ring, (s.side[0].xcq->mask + 1) * sizeof(struct hmreg_xpu_cqe));
	scribble(s.side[0].xep->own, sizeof(struct hmreg_xpu_own));
	for (uint64_t i = 0; i < 1000; i++) {
		wr = xpu_write_wr(&s, 1, 0, 8, i);
		post(&s.side[1], &wr);
		xpu_await(&s.side[1], &cqe);
		assert_int_equal(cqe.context, i);
		assert_int_equal(cqe.err, 0);
	}
	assert_int_equal(xpu_load(&s.side[0].xcntr->value), 0);
	xpu_scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xpu_08_a_write_arrives_and_completes),
		cmocka_unit_test(xpu_08_messages_meet_their_receives),
		cmocka_unit_test(xpu_08_atomics_read_and_change_the_target),
		cmocka_unit_test(xpu_10_a_request_is_found_after_a_sleep),
		cmocka_unit_test(xpu_10_mode_11_wrong_requests_complete_in_error),
		cmocka_unit_test(xpu_10_a_closed_region_and_a_wrong_key_complete_in_error),
		cmocka_unit_test(xpu_10_nothing_is_lost_where_every_ring_is_full),
		cmocka_unit_test(xpu_10_a_stuck_transmit_keeps_back_no_receive),
		cmocka_unit_test(xpu_10_a_stuck_transmit_is_tried_after_each_sleep),
		cmocka_unit_test(xpu_10_what_a_dead_kernel_left_harms_nobody),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
