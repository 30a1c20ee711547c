/* SPDX-License-Identifier: BSD-2-Clause */
/* For the tests of verbs_msg.c: messages that are sent to the end, and what is received of them. */
#ifndef HM_TEST_VERBS_RECEIVED_H
#define HM_TEST_VERBS_RECEIVED_H

#include "tests/unit/verbs_end.h"
#include "tests/unit/warnings.h"

#define UNEXPECTED 20000 /* HMREG_VERBS_MAX_UNEXPECTED, which main sets */

static struct end end;
static char buffer[16 * VERBS_FRAME];

static inline int open_end(void **state)
{
	memset(buffer, 0, sizeof(buffer));
	warning_count = 0;
	return warnings_start(state) | end_open(&end, 16);
}

/* No receive buffer is lost, and no room in the completion queue. */
static inline int close_end(void **state)
{
	size_t held = 0;

	for (unsigned i = 0; i < END_PEERS; i++)
		held += end.peer[i].held;
	if (held + end.posted_count != END_POOL)
		return -1;
	return end_close(&end) != 0 || warnings_stop(state);
}

static inline void *context(uint64_t i)
{
	return (void *)(uintptr_t)(i + 1);
}

/* The whole message, in frames as a sender makes them. */
static inline void send_message(unsigned peer, uint64_t seed, size_t total, unsigned flags)
{
	size_t at = 0;

	do {
		size_t len = total - at < VERBS_FRAME ? total - at : VERBS_FRAME;

		assert_true(end_part(&end, peer, seed, total, at, len, flags));
		at += len;
	} while (at < total);
}

static inline void assert_bytes(const char *at, uint64_t seed, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(at[i], end_byte(seed, i));
}

static inline void assert_received(unsigned peer, uint64_t seed, size_t len, void *recv_context,
				   char *buf)
{
	struct nic_comp comp;

	assert_true(end_completion(&end, &comp));
	assert_int_equal(comp.err, 0);
	assert_ptr_equal(comp.op_context, recv_context);
	assert_int_equal(comp.len, len);
	assert_int_equal(comp.src_addr, end.addr[peer]);
	assert_bytes(buf, seed, len);
}

static inline void assert_failed(void *recv_context, enum hmreg_error why, size_t len, size_t olen)
{
	struct nic_comp comp;

	assert_true(end_completion(&end, &comp));
	assert_int_equal(comp.prov_errno, why);
	assert_int_equal(comp.err, nic_error_code(why));
	assert_ptr_equal(comp.op_context, recv_context);
	assert_int_equal(comp.len, len);
	assert_int_equal(comp.olen, olen);
}

static inline void assert_nothing(void)
{
	struct nic_comp comp;

	assert_false(end_completion(&end, &comp));
}

static inline void assert_answered(size_t n, unsigned peer, uint64_t seed, enum hmreg_error why)
{
	const struct end_sent *sent = &end.sent[n];

	assert_true(end.sent_count > n);
	assert_int_equal(sent->to, end.peer[peer].handle);
	assert_int_equal(sent->frame.type, VERBS_FRAME_RECEIVED);
	assert_int_equal(sent->frame.id, seed);
	assert_int_equal(sent->frame.status, why);
	assert_int_equal(sent->frame.length, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_end, close_end)

#endif
