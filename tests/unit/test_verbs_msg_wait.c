/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that have to wait, answers that have to, and peers and devices that do not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/nic/verbs_msg.h"
#include "tests/unit/verbs_received.h"

/* ---- frames that have to wait ---- */

/* Beyond the limit frames stay in their buffers; then everything is received in order. */
static void unexpected_beyond_the_limit_is_held(void **state)
{
	enum {
		MESSAGES = 20
	};
	size_t held;

	(void)state;
	for (uint64_t i = 0; i < MESSAGES; i++)
		send_message(0, i, 3000, VERBS_FRAME_WANTS_ANSWER);
	held = END_POOL - end.posted_count;
	assert_in_range(held, MESSAGES - UNEXPECTED / 3000, MESSAGES - 1);
	/* of another peer, too, unless it is waited for */
	send_message(1, 100, 3000, 0);
	assert_int_equal(END_POOL - end.posted_count, held + 1);
	assert_int_equal(end_post(&end, buffer, 3000, 102, context(9), NULL), 0);
	send_message(2, 200, 3000, 0);
	assert_received(2, 200, 3000, context(9), buffer);
	end_retry(&end);
	assert_int_equal(END_POOL - end.posted_count, held + 1);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		assert_int_equal(end_post(&end, buffer, 3000, 100, context(i), NULL), 0);
		assert_received(0, i, 3000, context(i), buffer);
		assert_answered(i, 0, i, HMREG_OK);
	}
	assert_int_equal(end.posted_count, END_POOL);
	assert_int_equal(end_post(&end, buffer, 3000, 0, context(0), NULL), 0);
	assert_received(1, 100, 3000, context(0), buffer);
	assert_int_equal(warning_count, 0);
}

/* One message alone is more than may be kept. */
static void long_unexpected_message(void **state)
{
	const size_t total = 10 * VERBS_FRAME;

	(void)state;
	send_message(0, 1, total, 0);
	send_message(0, 2, 100, 0);
	assert_true(end.peer[0].held > 5);
	assert_int_equal(end_post(&end, buffer, total, 0, context(1), NULL), 0);
	assert_received(0, 1, total, context(1), buffer);
	assert_int_equal(end.posted_count, END_POOL);
	assert_int_equal(end_post(&end, buffer, total, 0, context(2), NULL), 0);
	assert_received(0, 2, 100, context(2), buffer);
}

/* No completion is lost, and none overtakes another of its peer. */
static void full_completion_queue(void **state)
{
	struct nic_comp comp;

	(void)state;
	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(end_post(&end, buffer + i * 16, 16, 0, context(i), NULL), 0);
	for (uint64_t i = 0; i < 40; i++)
		send_message(0, i, i % 16, 0);
	assert_int_equal(END_POOL - end.posted_count, 40 - 16);
	for (uint64_t i = 0; i < 40; i++) {
		assert_received(0, i, i % 16, context(i), buffer + i * 16);
		end_retry(&end);
	}
	assert_nothing();
	assert_int_equal(end.posted_count, END_POOL);
	/* a receive that finds a message needs room as well */
	for (uint64_t i = 0; i < 17; i++)
		send_message(0, i, 8, 0);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(end_post(&end, buffer, 8, 0, context(i), NULL), 0);
	assert_int_equal(end_post(&end, buffer, 8, 0, context(16), NULL), -FI_EAGAIN);
	assert_true(end_completion(&end, &comp));
	assert_int_equal(end_post(&end, buffer, 8, 0, context(16), NULL), 0);
}

static void write_with_data(unsigned peer, uint32_t data, size_t len)
{
	const struct verbs_frame rubbish = { .type = 77, .length = 0xffffffff };
	struct verbs_rx *rx = end_frame(&end, &rubbish, NULL);

	assert_non_null(rx);
	verbs_msg_write_data(&end.ep, &end.peer[peer], rx, data, len);
}

static void assert_written(uint32_t data, size_t len)
{
	struct nic_comp comp;

	assert_true(end_completion(&end, &comp));
	assert_int_equal(comp.err, 0);
	assert_int_equal(comp.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	assert_int_equal(comp.data, data);
	assert_int_equal(comp.len, len);
	assert_null(comp.op_context);
	assert_int_equal(comp.src_addr, FI_ADDR_NOTAVAIL);
}

static void writes_with_data(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		write_with_data(0, i, 1000 + i);
	assert_int_equal(END_POOL - end.posted_count, 4);
	assert_int_equal(end.write_cntr.value, 16);
	for (uint32_t i = 0; i < 20; i++) {
		assert_written(i, 1000 + i);
		end_retry(&end);
	}
	assert_nothing();
	assert_int_equal(end.write_cntr.value, 20);
	assert_int_equal(end.posted_count, END_POOL);
	/* it does not wait behind messages that nobody receives */
	send_message(0, 1, 10 * VERBS_FRAME, 0);
	assert_true(end.peer[0].held > 0);
	write_with_data(0, 5, 6);
	assert_written(5, 6);
	end.ep.ep.rx_cq = NULL;
	write_with_data(0, 5, 6);
	assert_int_equal(end.write_cntr.value, 22);
	end.ep.ep.rx_cq = &end.cq;
}

/* ---- answers ---- */

static void answers_wait_for_a_slot(void **state)
{
	(void)state;
	end.refuse = -FI_EAGAIN;
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(end_post(&end, buffer, 8, 0, buffer, NULL), 0);
		send_message(0, i, 8, VERBS_FRAME_WANTS_ANSWER);
	}
	end_retry(&end);
	assert_int_equal(end.sent_count, 0);
	end.refuse = 0;
	assert_int_equal(end_post(&end, buffer, 8, 0, buffer, NULL), 0);
	send_message(0, 10, 8, VERBS_FRAME_WANTS_ANSWER);
	end_retry(&end);
	assert_int_equal(end.sent_count, 11);
	for (uint64_t i = 0; i < 10; i++)
		assert_answered(i, 0, i, HMREG_OK);
	assert_int_equal(end.posted_count, END_POOL);
}

/* Who does not take answers is not served for ever. */
static void answers_have_a_limit(void **state)
{
	struct nic_comp comp;
	uint64_t sent = 0;

	(void)state;
	end.refuse = -FI_EAGAIN;
	while (end.posted_count > 0) {
		assert_int_equal(end_post(&end, buffer, 8, 0, buffer, NULL), 0);
		send_message(0, sent++, 8, VERBS_FRAME_WANTS_ANSWER);
		end_completion(&end, &comp);
		assert_true(sent < 10000);
	}
	end.refuse = 0;
	end_retry(&end);
	while (end_completion(&end, &comp))
		end_retry(&end);
	assert_int_equal(end.sent_count, sent);
	assert_int_equal(end.posted_count, END_POOL);
}

/* ---- peers that restart ---- */

static void reset_in_the_middle(void **state)
{
	(void)state;
	/* the receive is spent */
	assert_int_equal(end_post(&end, buffer, 8192, 0, context(0), NULL), 0);
	assert_true(end_part(&end, 0, 1, 8192, 0, 4096, VERBS_FRAME_WANTS_ANSWER));
	end_reset(&end, 0);
	assert_failed(context(0), HMREG_PEER_LOST, 0, 8192);
	/* a message that nobody has seen was never there */
	assert_true(end_part(&end, 0, 2, 8192, 0, 4096, 0));
	send_message(1, 3, 8, 0);
	end_reset(&end, 0);
	send_message(0, 4, 8, 0);
	assert_int_equal(end_post(&end, buffer, 8192, 0, context(1), NULL), 0);
	assert_received(1, 3, 8, context(1), buffer);
	assert_int_equal(end_post(&end, buffer, 8192, 0, context(2), NULL), 0);
	assert_received(0, 4, 8, context(2), buffer);
	assert_int_equal(end.sent_count, 0);
	end_reset(&end, 2); /* of which nothing is known */
}

/* What was complete is received; the new endpoint hears nothing of it. */
static void reset_with_held_frames(void **state)
{
	(void)state;
	send_message(0, 1, 9000, VERBS_FRAME_WANTS_ANSWER);
	send_message(0, 2, 9000, VERBS_FRAME_WANTS_ANSWER);
	send_message(0, 3, 9000, VERBS_FRAME_WANTS_ANSWER);
	assert_true(end_part(&end, 0, 4, 9000, 0, 4096, VERBS_FRAME_WANTS_ANSWER));
	assert_true(end.peer[0].held > 0);
	end_reset(&end, 0);
	send_message(0, 5, 9000, VERBS_FRAME_WANTS_ANSWER);
	for (uint64_t i = 1; i <= 5; i++) {
		if (i == 4)
			continue;
		assert_int_equal(end_post(&end, buffer, 9000, 0, context(i), NULL), 0);
		assert_received(0, i, 9000, context(i), buffer);
	}
	assert_int_equal(end.sent_count, 1);
	assert_answered(0, 0, 5, HMREG_OK);
	assert_int_equal(end.posted_count, END_POOL);
	/* an answer that found no slot is not for the new one either */
	end.refuse = -FI_EAGAIN;
	assert_int_equal(end_post(&end, buffer, 8, 0, buffer, NULL), 0);
	send_message(0, 6, 8, VERBS_FRAME_WANTS_ANSWER);
	end_reset(&end, 0);
	end.refuse = 0;
	end_retry(&end);
	assert_int_equal(end.sent_count, 1);
}

/* It was to meet a receive when there is room in the completion queue again. */
static void reset_with_a_held_beginning(void **state)
{
	struct nic_comp comp;

	(void)state;
	for (uint32_t i = 0; i < 16; i++)
		write_with_data(1, i, 0);
	assert_int_equal(end_post(&end, buffer, 9000, 0, context(1), NULL), 0);
	assert_true(end_part(&end, 0, 1, 9000, 0, 4096, VERBS_FRAME_WANTS_ANSWER));
	assert_true(end_part(&end, 0, 1, 9000, 4096, 4096, 0));
	end_reset(&end, 0);
	send_message(0, 2, 8, 0);
	assert_int_equal(end.peer[0].held, 3);
	while (end_completion(&end, &comp))
		;
	end_retry(&end);
	assert_failed(context(1), HMREG_PEER_LOST, 0, 9000);
	assert_int_equal(end_post(&end, buffer, 8, 0, context(2), NULL), 0);
	assert_received(0, 2, 8, context(2), buffer);
	assert_int_equal(end.sent_count, 0);
}

/* ---- a sender that stops in the middle ---- */

/* The news that no more of a message comes is not behind the message itself. */
static void cut_may_be_ahead_of_its_message(void **state)
{
	const size_t total = 3 * VERBS_FRAME;

	(void)state;
	for (size_t frames = 0; frames < 3; frames++) {
		for (size_t i = 0; i < 3; i++) {
			if (i == frames)
				verbs_msg_cut(&end.ep, &end.peer[0], 7);
			assert_true(end_part(&end, 0, 7, total, i * VERBS_FRAME, VERBS_FRAME, 0));
		}
		assert_null(end.peer[0].assembling);
		assert_true(hm_list_empty(&end.ep.msg->match.unexpected));
		end_reset(&end, 0);
		end.peer[0].its_cut = 0;
	}
	/* a receive that has a part ends, the next one takes the next message */
	assert_int_equal(end_post(&end, buffer, total, 0, context(1), NULL), 0);
	assert_true(end_part(&end, 0, 8, total, 0, VERBS_FRAME, 0));
	verbs_msg_cut(&end.ep, &end.peer[0], 8);
	assert_failed(context(1), HMREG_TRANSPORT, 0, total);
	assert_true(end_part(&end, 0, 8, total, VERBS_FRAME, VERBS_FRAME, 0));
	assert_int_equal(end_post(&end, buffer, total, 0, context(2), NULL), 0);
	send_message(0, 9, total, 0);
	assert_received(0, 9, total, context(2), buffer);
	assert_int_equal(warning_count, 0);
}

/* What was given up is remembered until the sender is another one. */
static void absent_sender_is_not_waited_for(void **state)
{
	const size_t total = 3 * VERBS_FRAME;

	(void)state;
	verbs_msg_absent(&end.ep, &end.peer[0]); /* nothing was begun */
	assert_int_equal(end.peer[0].given_up, 0);
	assert_int_equal(end_post(&end, buffer, total, 0, context(1), NULL), 0);
	assert_true(end_part(&end, 0, 5, total, 0, VERBS_FRAME, 0));
	verbs_msg_absent(&end.ep, &end.peer[1]);
	assert_nothing();
	verbs_msg_absent(&end.ep, &end.peer[0]);
	assert_failed(context(1), HMREG_PEER_LOST, 0, total);
	assert_int_equal(end.peer[0].given_up, 5);
	assert_true(end_part(&end, 0, 6, total, 0, VERBS_FRAME, 0)); /* no receive */
	verbs_msg_absent(&end.ep, &end.peer[0]);
	assert_int_equal(end.peer[0].given_up, 6);
	assert_int_equal(end.ep.msg->match.unexpected_bytes, 0);
	assert_int_equal(end_post(&end, buffer, total, 0, context(2), NULL), 0);
	send_message(0, 7, total, 0);
	assert_received(0, 7, total, context(2), buffer);
}

static void device_is_gone(void **state)
{
	struct nic_comp comp;

	(void)state;
	assert_int_equal(end_post(&end, buffer, 8192, 0, context(0), NULL), 0);
	assert_true(end_part(&end, 0, 1, 8192, 0, 4096, 0));
	for (uint64_t i = 1; i < 30; i++)
		assert_int_equal(end_post(&end, buffer, 8, 0, context(i), NULL), 0);
	verbs_msg_device_gone(&end.ep);
	for (uint64_t i = 0, seen = 0; i < 30; i++) {
		assert_true(end_completion(&end, &comp));
		assert_int_equal(comp.prov_errno, HMREG_DEVICE_GONE);
		seen += (uintptr_t)comp.op_context;
		end_retry(&end);
		if (i == 29)
			assert_int_equal(seen, 30 * 31 / 2);
	}
	assert_int_equal(end_post(&end, buffer, 8, 0, context(30), NULL), 0);
	assert_failed(context(30), HMREG_DEVICE_GONE, 0, 0);
}

/* Closing with something in every queue frees all of it, and completes nothing. */
static void closes_at_any_time(void **state)
{
	(void)state;
	end.refuse = -FI_EAGAIN;
	assert_int_equal(end_post(&end, buffer, 8, 101, buffer, NULL), 0);
	send_message(1, 0, 8, VERBS_FRAME_WANTS_ANSWER); /* an answer waits */
	assert_int_equal(end_post(&end, buffer, 9000, 102, buffer, NULL), 0);
	assert_true(end_part(&end, 2, 1, 9000, 0, 4096, 0)); /* half received */
	send_message(0, 2, 9000, 0);
	assert_true(end_part(&end, 1, 3, 9000, 0, 4096, 0)); /* half of an unexpected one */
	assert_true(end_part(&end, 1, 3, 9000, 4096, 4096, 0));
	send_message(0, 4, 9000, 0);
	assert_true(end.peer[0].held > 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(end_post(&end, buffer, 8, 102, buffer, NULL), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(unexpected_beyond_the_limit_is_held),
		TEST(long_unexpected_message),
		TEST(full_completion_queue),
		TEST(writes_with_data),
		TEST(answers_wait_for_a_slot),
		TEST(answers_have_a_limit),
		TEST(reset_in_the_middle),
		TEST(reset_with_held_frames),
		TEST(reset_with_a_held_beginning),
		TEST(cut_may_be_ahead_of_its_message),
		TEST(absent_sender_is_not_waited_for),
		TEST(device_is_gone),
		TEST(closes_at_any_time),
	};

	setenv("HMREG_VERBS_MAX_UNEXPECTED", "20000", 1); /* UNEXPECTED */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
