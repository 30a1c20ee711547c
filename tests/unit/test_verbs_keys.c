/* SPDX-License-Identifier: BSD-2-Clause */
/* Composite keys: tables of parts that are asked for, answered, used and forgotten. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <unistd.h>

#include <infiniband/verbs.h>

#include "tests/unit/verbs_end.h"
#include "tests/unit/warnings.h"

#define KEY(n)	   (VERBS_KEY_COMPOSITE | (n))
#define PAGE_PARTS (VERBS_FRAME / sizeof(struct verbs_wire_part))

/* One end plays both: what it sends is handed to itself, as if peer 0 were another one like it. */
static struct end end;
static struct verbs_parts *region;
static struct ibv_mr *mr;

static int open_end(void **state)
{
	warning_count = 0;
	return warnings_start(state) | end_open(&end, 16);
}

static int close_end(void **state)
{
	free(region);
	free(mr);
	region = NULL;
	mr = NULL;
	return end_close(&end) != 0 || warnings_stop(state);
}

/* A region of count parts: part i has 1000 + i bytes, rkey 7000 + i, iova a million times i. */
static void make_region(uint64_t key, size_t count)
{
	uint64_t offset = 0;

	region = calloc(1, sizeof(*region) + count * sizeof(region->part[0]));
	mr = calloc(count, sizeof(*mr));
	assert_non_null(region);
	assert_non_null(mr);
	region->key = key;
	region->count = count;
	for (size_t i = 0; i < count; i++) {
		mr[i].rkey = 7000 + (uint32_t)i;
		region->part[i] = (struct verbs_part){ .mr = &mr[i],
						       .addr = 0x10000 + 5000 * i,
						       .offset = offset,
						       .len = 1000 + i,
						       .iova = 1000000 * i };
		offset += 1000 + i;
	}
	hm_list_add_tail(&end.vd.composites, &region->link);
}

static int find(uint64_t key, uint64_t addr, uint64_t len, uint32_t *rkey, uint64_t *iova,
		uint64_t *piece)
{
	return verbs_keys_find(&end.ep, &end.peer[0], key, addr, len, rkey, iova, piece);
}

/* Without looking at what is found. */
static int try(uint64_t key, uint64_t addr, uint64_t len)
{
	uint64_t iova, piece;
	uint32_t rkey;

	return find(key, addr, len, &rkey, &iova, &piece);
}

static struct end_sent *last_sent(void)
{
	return &end.sent[(end.sent_count - 1) % END_SENT];
}

/* Deliver what was sent last. */
static void deliver(void)
{
	struct verbs_rx *rx = end_frame(&end, &last_sent()->frame, last_sent()->payload);

	assert_non_null(rx);
	if (rx->frame->type == VERBS_FRAME_KEY_QUERY)
		verbs_keys_query(&end.ep, &end.peer[0], rx->frame);
	else
		verbs_keys_parts(&end.ep, &end.peer[0], rx->frame);
	__wrap_verbs_rx_repost(&end.ep, rx);
}

static void know(uint64_t key)
{
	assert_int_equal(try(key, 0, 1), 0);
	deliver();
	deliver();
}

static void asks_once_and_finds(void **state)
{
	uint64_t iova, piece;
	uint32_t rkey;

	(void)state;
	make_region(KEY(5), 3);
	assert_int_equal(try(KEY(5), 0, 1), 0);
	assert_int_equal(try(KEY(5), 0, 1), 0);
	assert_int_equal(end.sent_count, 1);
	assert_int_equal(last_sent()->frame.type, VERBS_FRAME_KEY_QUERY);
	assert_int_equal(last_sent()->frame.total, KEY(5));
	deliver();
	assert_int_equal(end.sent_count, 2);
	assert_int_equal(end.pumped, 0);
	deliver();
	assert_int_equal(end.pumped, 1);
	/* every place, and pieces that end with their part */
	for (uint64_t addr = 0, at = 0, i = 0; addr < 3003; addr++, at++) {
		if (at == 1000 + i)
			at = 0, i++;
		assert_int_equal(find(KEY(5), addr, 3003 - addr, &rkey, &iova, &piece), 1);
		assert_int_equal(rkey, 7000 + i);
		assert_int_equal(iova, 1000000 * i + at);
		assert_int_equal(piece, 1000 + i - at);
		assert_int_equal(find(KEY(5), addr, 1, &rkey, &iova, &piece), 1);
		assert_int_equal(piece, 1);
	}
	assert_int_equal(end.sent_count, 2);
}

static void ranges_that_are_not_inside(void **state)
{
	static const uint64_t bad[][2] = { { 3003, 1 },	      { 0, 3004 },	 { 3002, 2 },
					   { UINT64_MAX, 1 }, { 1, UINT64_MAX }, { 2999, 5 } };

	(void)state;
	make_region(KEY(5), 3);
	know(KEY(5));
	for (size_t i = 0; i < count_of(bad); i++)
		assert_int_equal(try(KEY(5), bad[i][0], bad[i][1]), -HMREG_OUT_OF_BOUNDS);
	assert_int_equal(try(KEY(5), 2999, 4), 1);
}

/* With FI_MR_VIRT_ADDR it begins at the first segment's address; the rest follows without gaps. */
static void virtual_addresses(void **state)
{
	uint64_t iova, piece;
	uint32_t rkey;

	(void)state;
	end.vd.zero_based = false;
	make_region(KEY(5), 3);
	know(KEY(5));
	assert_int_equal(try(KEY(5), 0xffff, 1), -HMREG_OUT_OF_BOUNDS);
	assert_int_equal(find(KEY(5), 0x10000 + 1001, 5000 - 3003, &rkey, &iova, &piece), 1);
	assert_int_equal(rkey, 7001);
	assert_int_equal(iova, 1000001);
	assert_int_equal(try(KEY(5), 0x10000 + 3002, 2), -HMREG_OUT_OF_BOUNDS);
}

static void more_parts_than_a_frame_holds(void **state)
{
	uint64_t iova, piece, offset = 0;
	uint32_t rkey;
	size_t count = 5 * PAGE_PARTS + 1;

	(void)state;
	make_region(KEY(5), count);
	assert_int_equal(try(KEY(5), 0, 1), 0);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(end.pumped, 0);
		deliver();
		deliver();
	}
	assert_int_equal(end.pumped, 1);
	assert_int_equal(end.sent_count, 12);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(find(KEY(5), offset, 1, &rkey, &iova, &piece), 1);
		assert_int_equal(rkey, 7000 + i);
		offset += 1000 + i;
	}
	assert_int_equal(try(KEY(5), offset, 1), -HMREG_OUT_OF_BOUNDS);
	assert_int_equal(warning_count, 0);
}

/* What operations that wait learn while verbs_peer_pump runs. */
static int learned;

static void learn(struct end *of, struct verbs_peer *peer)
{
	uint64_t iova, piece;
	uint32_t rkey;

	learned = verbs_keys_find(&of->ep, peer, KEY(5), 0, 1, &rkey, &iova, &piece);
}

/* A key that is unknown now may be known later: it is asked for each time. */
static void unknown_keys(void **state)
{
	(void)state;
	end.on_pump = learn;
	for (int i = 0; i < 3; i++) {
		learned = 1;
		assert_int_equal(try(KEY(5), 0, 1), 0);
		deliver();
		assert_int_equal(last_sent()->frame.status, HMREG_KEY_UNKNOWN);
		deliver();
		assert_int_equal(learned, -HMREG_KEY_UNKNOWN);
	}
	/* nobody waits any more: the failure is not kept for the next */
	end.on_pump = NULL;
	assert_int_equal(try(KEY(5), 0, 1), 0);
	deliver();
	deliver();
	make_region(KEY(5), 2);
	know(KEY(5));
	assert_int_equal(try(KEY(5), 0, 1), 1);
}

static void tables_are_dropped_and_forgotten(void **state)
{
	size_t sent;

	(void)state;
	make_region(KEY(5), 2);
	know(KEY(5));
	verbs_keys_drop(&end.ep, &end.peer[0], KEY(6));
	assert_int_equal(try(KEY(5), 0, 1), 1);
	verbs_keys_drop(&end.ep, &end.peer[0], KEY(5));
	know(KEY(5));
	assert_int_equal(try(KEY(5), 0, 1), 1);
	verbs_keys_forget(&end.ep, &end.peer[1]);
	assert_int_equal(try(KEY(5), 0, 1), 1);
	verbs_keys_forget(&end.ep, &end.peer[0]);
	sent = end.sent_count;
	assert_int_equal(try(KEY(5), 0, 1), 0);
	assert_int_equal(end.sent_count, sent + 1);
	/* an answer to a question that is forgotten is none to the next one */
	verbs_keys_forget(&end.ep, &end.peer[0]);
	deliver();
	assert_int_equal(try(KEY(5), 0, 1), 0);
	assert_int_equal(end.sent_count, sent + 3);
	end.sent_count--;
	deliver();
	assert_int_equal(try(KEY(5), 0, 1), 0);
}

/* Many keys: the one that was not used for longest gives way. */
static void tables_have_a_limit(void **state)
{
	size_t sent;

	(void)state;
	make_region(KEY(0), 2);
	for (uint64_t i = 0; i < 64; i++) {
		region->key = KEY(i);
		know(KEY(i));
	}
	sent = end.sent_count;
	assert_int_equal(try(KEY(0), 0, 1), 1);
	region->key = KEY(64);
	know(KEY(64));
	assert_int_equal(try(KEY(0), 0, 1), 1);
	assert_int_equal(end.sent_count, sent + 2);
	assert_int_equal(try(KEY(1), 0, 1), 0);
	assert_int_equal(end.sent_count, sent + 3);
	/* open questions do not give way */
	verbs_keys_forget(&end.ep, &end.peer[0]);
	sent = end.sent_count;
	for (uint64_t i = 0; i < 70; i++)
		assert_int_equal(try(KEY(i), 0, 1), 0);
	assert_int_equal(end.sent_count, sent + 64);
}

static void questions_and_answers_wait_for_a_slot(void **state)
{
	(void)state;
	make_region(KEY(5), 2);
	end.refuse = -FI_EAGAIN;
	assert_int_equal(try(KEY(5), 0, 1), 0);
	assert_int_equal(try(KEY(5), 0, 1), 0);
	end_retry(&end);
	assert_int_equal(end.sent_count, 0);
	end.refuse = 0;
	end_retry(&end);
	end_retry(&end);
	assert_int_equal(end.sent_count, 1);
	end.refuse = -FI_EAGAIN;
	deliver();
	end_retry(&end);
	assert_int_equal(end.sent_count, 1);
	end.refuse = 0;
	end_retry(&end);
	end_retry(&end);
	assert_int_equal(end.sent_count, 2);
	deliver();
	assert_int_equal(try(KEY(5), 0, 1), 1);
	/* so many of one peer, and no more */
	end.refuse = -FI_EAGAIN;
	for (uint64_t i = 0; i < 100; i++) {
		const struct verbs_frame query = { .type = VERBS_FRAME_KEY_QUERY,
						   .id = i,
						   .total = KEY(5) };

		verbs_keys_query(&end.ep, &end.peer[1], &query);
	}
	assert_int_equal(warning_count, 84);
	verbs_keys_forget(&end.ep, &end.peer[0]);
	end.refuse = 0;
	end_retry(&end);
	assert_int_equal(end.sent_count, 18);
	assert_int_equal(last_sent()->to, end.peer[1].handle);
}

/* A peer that never answers: operations do not wait for ever. */
static void no_answer(void **state)
{
	(void)state;
	end.on_pump = learn;
	learned = 0;
	assert_int_equal(try(KEY(5), 0, 1), 0);
	while (learned == 0) {
		end_retry(&end);
		usleep(1000);
	}
	assert_int_equal(learned, -HMREG_PEER_LOST);
	assert_int_equal(warning_count, 1);
}

/* Answers that make no sense: an error for who waits, one line, and the next question is a new one. */
static void hostile_answers(void **state)
{
	enum {
		LENGTH,
		TOTAL,
		INDEX,
		EMPTY,
		GAP,
		WRAP,
		IOVA,
		STATUS,
		MANY,
		KINDS
	};

	(void)state;
	make_region(KEY(5), 3);
	end.on_pump = learn;
	for (int kind = 0; kind < KINDS; kind++) {
		struct verbs_wire_part part[3];
		struct verbs_frame *frame;

		assert_int_equal(try(KEY(5), 0, 1), 0);
		deliver();
		frame = &last_sent()->frame;
		memcpy(part, last_sent()->payload, sizeof(part));
		if (kind == LENGTH)
			frame->length--;
		else if (kind == TOTAL)
			frame->data = UINT64_C(2) << 32;
		else if (kind == INDEX)
			frame->data |= 1;
		else if (kind == EMPTY)
			part[1].len = 0;
		else if (kind == GAP)
			part[2].start++;
		else if (kind == WRAP)
			part[2].len = UINT64_MAX - 1000;
		else if (kind == IOVA)
			part[1].iova = UINT64_MAX - 5;
		else if (kind == STATUS)
			frame->status = 99;
		else
			frame->data = UINT64_C(0xffffffff) << 32;
		memcpy(last_sent()->payload, part, sizeof(part));
		warning_count = 0;
		learned = 0;
		deliver();
		assert_int_equal(learned, -HMREG_TRANSPORT);
		assert_int_equal(warning_count, 1);
	}
	know(KEY(5));
	assert_int_equal(learned, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_end, close_end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(asks_once_and_finds), TEST(ranges_that_are_not_inside),
		TEST(virtual_addresses),   TEST(more_parts_than_a_frame_holds),
		TEST(unknown_keys),	   TEST(tables_are_dropped_and_forgotten),
		TEST(tables_have_a_limit), TEST(questions_and_answers_wait_for_a_slot),
		TEST(no_answer),	   TEST(hostile_answers),
	};

	setenv("HMREG_VERBS_RETRY_TIME", "300", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
