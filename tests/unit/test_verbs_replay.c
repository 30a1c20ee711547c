/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of a message when its connection is followed by another: the target says what it has. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/nic/verbs_conn.h"
#include "tests/unit/verbs_received.h"

#define FIRST  5 /* the number of the message's first frame, of three */
#define NUMBER 42

/* The only peer's message: two of its three frames had been posted. */
static struct verbs_op *half_sent(void)
{
	struct verbs_peer *peer = &end.peer[0];
	struct verbs_op *op = calloc(1, sizeof(*op));

	assert_non_null(op);
	hm_list_init(&end.ep.free_ops);
	hm_list_init(&peer->control);
	hm_list_init(&peer->waiting);
	hm_list_init(&peer->posted);
	hm_list_init(&peer->unanswered);
	end.ep.ep.tx_cq = &end.cq;
	assert_int_equal(nic_cq_reserve(&end.cq), 0);
	*op = (struct verbs_op){ .peer = peer,
				 .op = NIC_OP_SEND,
				 .flags = FI_COMPLETION,
				 .comp_flags = FI_MSG | FI_SEND,
				 .id = NUMBER,
				 .len = 3 * VERBS_FRAME,
				 .done = 2 * VERBS_FRAME,
				 .first_frame = FIRST,
				 .frames = 2,
				 .started = true,
				 .context = buffer };
	end.ep.ops_in_use = 1;
	hm_list_add_tail(&peer->waiting, &op->link);
	return op;
}

static void replay(bool same, uint64_t received, uint64_t given_up)
{
	const struct verbs_welcome welcome = { .received = received, .given_up = given_up };

	verbs_replay(&end.ep, &end.peer[0], same, &welcome);
}

static void assert_lost(struct verbs_op *op)
{
	struct nic_comp comp;

	assert_true(end_completion(&end, &comp));
	assert_int_equal(comp.prov_errno, HMREG_PEER_LOST);
	assert_ptr_equal(comp.op_context, buffer);
	assert_true(hm_list_empty(&end.peer[0].waiting));
	hm_list_del(&op->link);
	free(op);
}

/* The receive that had the first frame has ended: to go on would be for nobody. */
static void given_up_message_fails(void **state)
{
	struct verbs_op *op = half_sent();

	(void)state;
	replay(true, FIRST, NUMBER);
	assert_lost(op);
	assert_int_equal(end.peer[0].cut, 0); /* the target knows */
	assert_int_equal(end.peer[0].next_frame, FIRST + 1);
}

/* Of another message the target may have given up what it likes. */
static void message_that_had_not_arrived_begins_anew(void **state)
{
	struct verbs_op *op = half_sent();

	(void)state;
	replay(true, FIRST - 1, NUMBER - 1);
	assert_nothing();
	assert_ptr_equal(end.peer[0].waiting.next, &op->link);
	assert_int_equal(op->done, 0);
	assert_int_equal(op->first_frame, 0);
	hm_list_del(&op->link);
	free(op);
	nic_cq_unreserve(&end.cq);
}

static void message_to_another_endpoint_fails(void **state)
{
	struct verbs_op *op = half_sent();

	(void)state;
	replay(false, 0, 0);
	assert_lost(op);
	assert_int_equal(end.peer[0].cut, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(given_up_message_fails),
		TEST(message_that_had_not_arrived_begins_anew),
		TEST(message_to_another_endpoint_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
