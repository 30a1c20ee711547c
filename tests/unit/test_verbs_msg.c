/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that arrive, receives that are posted, and every way in which they meet. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/guard.h"
#include "tests/unit/verbs_received.h"

/* ---- meeting ---- */

static const size_t lengths[] = { 0, 1, 4095, VERBS_FRAME, 4097, 2 * VERBS_FRAME, 12289 };

/* The receive comes before the message, between any two of its frames, or after them. */
static void receive_comes_at_any_time(void **state)
{
	(void)state;
	for (size_t l = 0; l < count_of(lengths); l++) {
		size_t total = lengths[l],
		       frames = total ? (total + VERBS_FRAME - 1) / VERBS_FRAME : 1;

		for (size_t when = 0; when <= frames; when++) {
			memset(buffer, 0, sizeof(buffer));
			for (size_t i = 0; i <= frames; i++) {
				size_t at = i * VERBS_FRAME, left = total - at;

				if (i == when)
					assert_int_equal(end_post(&end, buffer, sizeof(buffer), 0,
								  context(l), NULL),
							 0);
				if (i == frames)
					break;
				assert_nothing();
				assert_true(end_part(&end, 1, l, total, at,
						     left < VERBS_FRAME ? left : VERBS_FRAME,
						     VERBS_FRAME_WANTS_ANSWER));
			}
			assert_received(1, l, total, context(l), buffer);
			assert_nothing();
			assert_int_equal(end.posted_count, END_POOL);
			assert_answered(end.sent_count - 1, 1, l, HMREG_OK);
		}
	}
	assert_int_equal(warning_count, 0);
}

/* Frames of any size, as a sender with scattered memory may make them. */
static void frames_of_any_size(void **state)
{
	static const size_t at[] = { 0, 1, 3, 4099, 4100, 5000 };

	(void)state;
	for (int early = 0; early < 2; early++) {
		memset(buffer, 0, sizeof(buffer));
		if (early)
			assert_int_equal(end_post(&end, buffer, 5000, 0, buffer, NULL), 0);
		for (size_t i = 0; i + 1 < count_of(at); i++)
			assert_true(end_part(&end, 0, 7, 5000, at[i], at[i + 1] - at[i],
					     VERBS_FRAME_DATA));
		if (!early)
			assert_int_equal(end_post(&end, buffer, 5000, 0, buffer, NULL), 0);
		assert_received(0, 7, 5000, buffer, buffer);
	}
	assert_int_equal(end.recv_cntr.value, 2);
}

static void data_comes_along(void **state)
{
	struct nic_comp comp;

	(void)state;
	for (unsigned flags = 0; flags <= VERBS_FRAME_DATA; flags++) {
		assert_int_equal(end_post(&end, buffer, 8, 0, buffer, NULL), 0);
		send_message(0, 9, 8, flags);
		assert_true(end_completion(&end, &comp));
		assert_int_equal(comp.flags, FI_MSG | FI_RECV | (flags ? FI_REMOTE_CQ_DATA : 0));
		assert_int_equal(comp.data, flags ? 9 : 0);
		assert_ptr_equal(comp.buf, buffer);
	}
}

static void messages_of_many_peers_interleave(void **state)
{
	const size_t total = 2 * VERBS_FRAME + 5;

	(void)state;
	for (size_t i = 0; i < END_PEERS; i++)
		assert_int_equal(end_post(&end, buffer + i * 12 * 1024, total, 100 + i, context(i),
					  NULL),
				 0);
	for (size_t at = 0; at < total; at += VERBS_FRAME)
		for (unsigned i = 0; i < END_PEERS; i++)
			assert_true(end_part(&end, i, i, total, at,
					     total - at < VERBS_FRAME ? total - at : VERBS_FRAME,
					     0));
	for (unsigned i = 0; i < END_PEERS; i++)
		assert_received(i, i, total, context(i), buffer + i * 12 * 1024);
}

static void order_and_direction(void **state)
{
	(void)state;
	/* receives: from 2, from anybody, from 1; messages: 0, 1, 1, 2 */
	assert_int_equal(end_post(&end, buffer, 8, 102, context(0), NULL), 0);
	assert_int_equal(end_post(&end, buffer + 8, 8, 0, context(1), NULL), 0);
	assert_int_equal(end_post(&end, buffer + 16, 8, 101, context(2), NULL), 0);
	send_message(0, 10, 8, 0);
	send_message(1, 11, 8, 0);
	send_message(1, 12, 8, 0); /* waits */
	send_message(2, 13, 8, 0);
	assert_received(0, 10, 8, context(1), buffer + 8);
	assert_received(1, 11, 8, context(2), buffer + 16);
	assert_received(2, 13, 8, context(0), buffer);
	assert_nothing();
	send_message(0, 14, 8, 0); /* waits behind it */
	assert_int_equal(end_post(&end, buffer, 8, 100, context(3), NULL), 0);
	assert_received(0, 14, 8, context(3), buffer);
	assert_int_equal(end_post(&end, buffer, 8, 0, context(4), NULL), 0);
	assert_received(1, 12, 8, context(4), buffer);
}

/* A message that is cut short is the receiver's problem alone. */
static void longer_than_the_buffers(void **state)
{
	static const size_t rooms[][3] = { { 0, 0, 0 },		{ 1, 0, 0 },
					   { 7, 0, 9 },		{ 4096, 1, 1 },
					   { 0, 4090, 50 },	{ 4000, 4000, 999 },
					   { 3000, 3000, 2999 } };
	const size_t total = 9000;

	(void)state;
	for (size_t i = 0; i < count_of(rooms); i++) {
		for (int late = 0; late < 2; late++) {
			struct iovec iov[3];
			const struct nic_recv recv = { .iov = iov, .count = 3, .context = buffer };
			size_t room = rooms[i][0] + rooms[i][1] + rooms[i][2], seen = 0;

			for (size_t k = 0; k < 3; k++)
				iov[k] = (struct iovec){ buffer + k * 5000, rooms[i][k] };
			memset(buffer, 0x55, sizeof(buffer));
			if (late)
				send_message(0, i, total, VERBS_FRAME_WANTS_ANSWER);
			assert_int_equal(verbs_post_recv(&end.ep.ep, &recv), 0);
			if (!late)
				send_message(0, i, total, VERBS_FRAME_WANTS_ANSWER);
			assert_failed(buffer, HMREG_TRUNCATED, room, total - room);
			assert_answered(end.sent_count - 1, 0, i, HMREG_OK);
			for (size_t k = 0; k < 3; k++) {
				for (size_t n = 0; n < rooms[i][k]; n++)
					assert_int_equal(buffer[k * 5000 + n], end_byte(i, seen++));
				for (size_t n = rooms[i][k]; n < 5000; n++)
					assert_int_equal(buffer[k * 5000 + n], 0x55);
			}
		}
	}
	assert_int_equal(end.recv_cntr.value, 0);
	assert_int_equal(end.recv_cntr.errors, 2 * count_of(rooms));
}

static void selective_completion(void **state)
{
	const struct iovec iov = { buffer, 8 };
	struct nic_recv recv = { .iov = &iov, .count = 1, .context = buffer };

	(void)state;
	end.ep.ep.rx_selective = true;
	for (int i = 0; i < 40; i++) { /* more than the queue has room for */
		assert_int_equal(verbs_post_recv(&end.ep.ep, &recv), 0);
		send_message(0, 3, 8, 0);
		assert_nothing();
	}
	assert_int_equal(end.recv_cntr.value, 40);
	recv.flags = FI_COMPLETION;
	assert_int_equal(verbs_post_recv(&end.ep.ep, &recv), 0);
	send_message(0, 3, 8, 0);
	assert_received(0, 3, 8, buffer, buffer);
	recv.flags = 0; /* an error is told in any case */
	assert_int_equal(verbs_post_recv(&end.ep.ep, &recv), 0);
	send_message(0, 3, 9, 0);
	assert_failed(buffer, HMREG_TRUNCATED, 8, 1);
}

/* ---- cancel, limits ---- */

static void cancels_what_has_met_nobody(void **state)
{
	(void)state;
	assert_int_equal(verbs_cancel(&end.ep.ep, context(0)), -FI_ENOENT);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(end_post(&end, buffer, 8, 0, context(i), NULL), 0);
	assert_true(end_part(&end, 0, 1, 8, 0, 3, 0)); /* the first is taken now */
	assert_int_equal(verbs_cancel(&end.ep.ep, context(0)), -FI_ENOENT);
	assert_int_equal(verbs_cancel(&end.ep.ep, context(1)), 0);
	assert_int_equal(verbs_cancel(&end.ep.ep, context(1)), -FI_ENOENT);
	assert_failed(context(1), HMREG_CANCELED, 0, 0);
	assert_true(end_part(&end, 0, 1, 8, 3, 5, 0));
	assert_received(0, 1, 8, context(0), buffer);
	send_message(0, 2, 8, 0);
	assert_received(0, 2, 8, context(2), buffer);
}

static void cancel_needs_room(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 17; i++)
		assert_int_equal(end_post(&end, buffer, 8, 0, context(i), NULL), 0);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(verbs_cancel(&end.ep.ep, context(i)), 0);
	assert_int_equal(verbs_cancel(&end.ep.ep, context(16)), -FI_EAGAIN);
	assert_failed(context(0), HMREG_CANCELED, 0, 0);
	assert_int_equal(verbs_cancel(&end.ep.ep, context(16)), 0);
}

static void receives_have_a_limit(void **state)
{
	(void)state;
	for (size_t i = 0; i < end.ep.ep.rx_size; i++)
		assert_int_equal(end_post(&end, buffer, 8, 0, context(i), NULL), 0);
	assert_int_equal(end_post(&end, buffer, 8, 0, buffer, NULL), -FI_EAGAIN);
	send_message(0, 5, 8, 0);
	assert_received(0, 5, 8, context(0), buffer);
	assert_int_equal(end_post(&end, buffer, 8, 0, buffer, NULL), 0);
}

/* ---- buffers that are gone ---- */

static struct nic_region *make_region(uint32_t flags)
{
	void *element;
	struct nic_region *region;

	assert_int_equal(hm_key_alloc(&end.regions, 0, NULL, &element), 0);
	region = element;
	verbs_region_of(region)->flags = flags;
	hm_key_publish(&region->node);
	return region;
}

static void close_region(struct nic_region *region)
{
	assert_true(hm_key_kill(&region->node)); /* ends only if nobody holds a reference */
	hm_key_free(&end.regions, &region->node, 0);
}

static void *desc_of(struct nic_region *region)
{
	return (void *)(uintptr_t)hm_key_handle(&region->node);
}

static void region_is_closed(void **state)
{
	(void)state;
	/* between two frames, and before the first */
	for (size_t first = 0; first <= VERBS_FRAME; first += VERBS_FRAME) {
		struct nic_region *region = make_region(0);

		assert_int_equal(end_post(&end, buffer, 8192, 0, buffer, desc_of(region)), 0);
		if (first > 0)
			assert_true(end_part(&end, 0, 6, 8192, 0, first, VERBS_FRAME_WANTS_ANSWER));
		close_region(region);
		for (size_t at = first; at < 8192; at += VERBS_FRAME)
			assert_true(end_part(&end, 0, 6, 8192, at, VERBS_FRAME,
					     VERBS_FRAME_WANTS_ANSWER));
		assert_failed(buffer, HMREG_LOCAL_REGION, 0, 8192);
		assert_answered(end.sent_count - 1, 0, 6, HMREG_PEER_REGION);
	}
}

static struct sigaction guard; /* the library's, in whose place CMocka puts its own */

static void memory_is_unmapped(void **state)
{
	struct sigaction cmockas;
	char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(map, MAP_FAILED);
	if (getenv("HMREG_VALGRIND")) { /* which reports the fault that the test is about */
		munmap(map, 8192);
		skip();
	}
	assert_int_equal(munmap(map + 4096, 4096), 0);
	assert_int_equal(end_post(&end, map, 8192, 0, buffer, NULL), 0);
	sigaction(SIGSEGV, &guard, &cmockas);
	send_message(0, 6, 8192, VERBS_FRAME_WANTS_ANSWER);
	sigaction(SIGSEGV, &cmockas, NULL);
	assert_failed(buffer, HMREG_FAULT, 0, 8192);
	assert_answered(0, 0, 6, HMREG_FAULT);
	munmap(map, 4096);
}

static void dmabuf_is_refused(void **state)
{
	struct nic_region *region = make_region(VERBS_REGION_DMABUF);

	(void)state;
	assert_refused(end_post(&end, buffer, 8, 0, buffer, desc_of(region)), -FI_EOPNOTSUPP);
	close_region(region);
}

/* ---- what cannot be ---- */

static void no_capability(void **state)
{
	(void)state;
	end.ep.ep.caps = FI_RMA;
	send_message(0, 1, 9000, VERBS_FRAME_WANTS_ANSWER);
	assert_answered(0, 0, 1, HMREG_PEER_NO_CAP);
	send_message(0, 2, 8, VERBS_FRAME_WANTS_ANSWER);
	assert_answered(1, 0, 2, HMREG_PEER_NO_CAP);
	send_message(0, 3, 9000, 0);
	send_message(0, 4, 8, 0);
	assert_int_equal(end.sent_count, 2);
	assert_nothing();
	assert_int_equal(end.posted_count, END_POOL);
}

/* One frame after a good beginning of 100 of 5000 bytes; the message is given up, and no other is hurt. */
static void hostile_frames(void **state)
{
	static const struct {
		struct verbs_frame frame;
		bool ends; /* the message that was begun */
	} bad[] = {
		{ { .type = VERBS_FRAME_MORE, .length = 0 }, true },
		{ { .type = VERBS_FRAME_MORE, .length = 4096 + 1 }, false },
		{ { .type = VERBS_FRAME_MORE, .length = UINT32_MAX }, false },
		{ { .type = VERBS_FRAME_MESSAGE, .length = 8, .total = 7 }, true },
		{ { .type = VERBS_FRAME_MESSAGE, .length = 0, .total = 1 }, true },
		{ { .type = VERBS_FRAME_MESSAGE, .length = 8, .total = END_MAX + 1 }, true },
		{ { .type = VERBS_FRAME_MESSAGE, .length = 8, .total = UINT64_MAX }, true },
		{ { .type = VERBS_FRAME_MESSAGE, .length = UINT32_MAX, .total = UINT64_MAX },
		  false },
		{ { .type = VERBS_FRAME_WRITTEN, .total = 5 }, false },
		{ { .type = VERBS_FRAME_KEY_PARTS, .total = 5 }, false },
		{ { .type = 0 }, false },
	};
	char payload[VERBS_FRAME] = { 0 };

	(void)state;
	for (size_t i = 0; i < count_of(bad); i++) {
		for (int late = 0; late < 2; late++) {
			if (!late)
				assert_int_equal(end_post(&end, buffer, 5000, 100, buffer, NULL),
						 0);
			assert_true(end_part(&end, 0, i, 5000, 0, 100, VERBS_FRAME_WANTS_ANSWER));
			assert_true(end_part(&end, 1, 77, 5000, 0, 100, 0));
			assert_true(end_arrive(&end, 0, &bad[i].frame, payload));
			if (late && bad[i].ends) {
				assert_int_equal(end_post(&end, buffer, 5000, 100, buffer, NULL),
						 0);
				send_message(0, 40, 5000, 0);
				assert_received(0, 40, 5000, buffer, buffer);
			} else if (bad[i].ends) {
				assert_failed(buffer, HMREG_TRANSPORT, 0, 5000);
			} else {
				if (late)
					assert_int_equal(
						end_post(&end, buffer, 5000, 100, buffer, NULL), 0);
				assert_true(end_part(&end, 0, i, 5000, 100, 4000, 0));
				assert_true(end_part(&end, 0, i, 5000, 4100, 900, 0));
				assert_received(0, i, 5000, buffer, buffer);
			}
			assert_true(end_part(&end, 1, 77, 5000, 100, 4000, 0));
			assert_true(end_part(&end, 1, 77, 5000, 4100, 900, 0));
			assert_int_equal(end_post(&end, buffer, 5000, 0, context(1), NULL), 0);
			assert_received(1, 77, 5000, context(1), buffer);
			assert_nothing();
			assert_int_equal(end.posted_count, END_POOL);
		}
	}
}

/* Many bad frames make few lines, of which the first comes at once. */
static void bad_frames_are_not_all_told(void **state)
{
	(void)state;
	assert_true(end_part(&end, 0, 1, 0, 5, 8, 0)); /* a further part of no message */
	assert_int_equal(warning_count, 1);
	for (int i = 1; i < 1000; i++)
		assert_true(end_part(&end, 0, 1, 0, 5, 8, 0));
	assert_int_equal(warning_count, 10);
	/* one that has more than the message */
	assert_true(end_part(&end, 0, 1, 10, 0, 4, 0));
	assert_true(end_part(&end, 0, 1, 10, 4, 7, 0));
	assert_int_equal(end_post(&end, buffer, 10, 0, buffer, NULL), 0);
	assert_nothing();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(receive_comes_at_any_time),
		TEST(frames_of_any_size),
		TEST(data_comes_along),
		TEST(messages_of_many_peers_interleave),
		TEST(order_and_direction),
		TEST(longer_than_the_buffers),
		TEST(selective_completion),
		TEST(cancels_what_has_met_nobody),
		TEST(cancel_needs_room),
		TEST(receives_have_a_limit),
		TEST(region_is_closed),
		TEST(memory_is_unmapped),
		TEST(dmabuf_is_refused),
		TEST(no_capability),
		TEST(hostile_frames),
		TEST(bad_frames_are_not_all_told),
	};

	hm_guard_install();
	sigaction(SIGSEGV, NULL, &guard);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
