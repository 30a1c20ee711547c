/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers that kernels start, over the software NIC: from memory of a device to memory of a device and of the
 * host, and back; every byte, and those around, is compared.
 *
 *   gpu_xpu [DEVICE [DOMAIN...]]     DEVICE: cuda (default), cpu, threads
 *
 * Exit status 77: there is no such device here.
 */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "samples/common.h"
#include "samples/xpu/device.h"
#include "samples/xpu/side.h"
#include "tests/fds.h"
#include "tests/gpu/xpu_steps.h"

#define SPAN	   ((size_t)1 << 19)
#define TARGET	   SPAN	      /* where peers write; before it is what is written */
#define WORDS	   (2 * SPAN) /* of 8 bytes */
#define LEN	   (WORDS + 4096)
#define STEPS	   400
#define TIMEOUT_MS 60000
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

#define WORD(n) (WORDS + 8 * (size_t)(n))

/* Two devices, or one and the host; [0] has the requests. */
static struct {
	struct xpu_side side[2];
	struct xpu_memory memory[2], lists[2];
	struct xpu_channel channel[2];
	struct sample_end host;
	struct fid_mr *host_mr;
} w;

static const char *domain;
static struct xpu_device *device[2];
static unsigned char host_bytes[LEN], image[LEN], seen[LEN];
static size_t baseline_fds;

/* ---- the world of a test ---- */

static int open_device(int which, bool queued)
{
	int ret = xpu_device_alloc(device[which], LEN, &w.memory[which]);

	if (!ret)
		ret = xpu_device_alloc(device[which], STEPS * sizeof(struct xpu_step),
				       &w.lists[which]);
	if (!ret)
		ret = xpu_side_open(&w.side[which], domain, device[which]);
	return ret ? ret
		   : xpu_channel_open(&w.channel[which], &w.side[which], queued, &w.memory[which],
				      0, LEN);
}

static int with_device(bool queued)
{
	int ret;

	memset(&w, 0, sizeof(w));
	memset(image, 0, LEN);
	ret = open_device(0, queued);
	if (!ret)
		ret = open_device(1, queued);
	return ret ? ret : xpu_connect(&w.channel[0], &w.channel[1]);
}

static int setup_device(void **state)
{
	(void)state;
	return with_device(false);
}

static int setup_queued(void **state)
{
	(void)state;
	return with_device(true);
}

static int setup_host(void **state)
{
	struct xpu_offer offer, unused;
	int ret;

	(void)state;
	memset(&w, 0, sizeof(w));
	memset(image, 0, LEN);
	memset(host_bytes, 0, LEN);
	ret = open_device(0, false);
	if (!ret)
		ret = sample_open_named(&w.host, domain, FI_MSG | FI_RMA | FI_ATOMIC, 0);
	if (!ret)
		ret = fi_enable(w.host.ep);
	if (!ret)
		ret = sample_register_buffer(&w.host, host_bytes, LEN,
					     FI_REMOTE_READ | FI_REMOTE_WRITE, &w.host_mr);
	if (!ret)
		ret = xpu_host_offer(&w.host, w.host_mr, host_bytes, &offer);
	if (!ret)
		ret = xpu_channel_offer(&w.channel[0], &unused);
	return ret ? ret : xpu_channel_reach(&w.channel[0], &offer);
}

static int teardown(void **state)
{
	int ret = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		ret |= (int)xpu_channel_errors(&w.channel[i]);
		ret |= xpu_channel_close(&w.channel[i]);
		ret |= xpu_side_close(&w.side[i]);
		xpu_device_free(device[i], &w.memory[i]);
		xpu_device_free(device[i], &w.lists[i]);
	}
	if (w.host_mr)
		ret |= fi_close(&w.host_mr->fid);
	ret |= sample_close(&w.host);
	if (baseline_fds && test_fds() != baseline_fds) {
		print_message("%zu file descriptors, not %zu\n", test_fds(), baseline_fds);
		ret = -1;
	}
	return ret;
}

/* ---- kernels ---- */

static const int scopes[] = { FI_XPU_WORK_ITEM, FI_XPU_SUBGROUP, FI_XPU_WORK_GROUP, FI_XPU_DEVICE };

static unsigned blocks_of(int scope)
{
	return scope == FI_XPU_DEVICE ? 4 : 1;
}

static unsigned threads_of(int scope)
{
	const unsigned group = device[0]->subgroup;

	return scope == FI_XPU_WORK_ITEM ? 1 : scope == FI_XPU_WORK_GROUP ? 4 * group : group;
}

static void start(int which, const struct xpu_step *list, size_t count, int scope)
{
	struct steps_args args = {
		.link = w.channel[which].link,
		.steps = (struct xpu_step *)w.lists[which].on_device,
		.count = (uint32_t)count,
		.scope = scope,
		.timeout = TIMEOUT_MS / 4,
	};

	assert_true(count <= STEPS);
	assert_int_equal(xpu_device_write(device[which], w.lists[which].on_host, list,
					  count * sizeof(list[0])),
			 0);
	assert_int_equal(xpu_device_launch(device[which], XPU_CALL(steps), &args, sizeof(args),
					   blocks_of(scope), threads_of(scope)),
			 0);
}

/* The list comes back with what the kernel wrote into it: each step as it should be, for each thread. */
static void finish(int which, struct xpu_step *list, size_t count, int scope)
{
	assert_int_equal(xpu_device_wait(device[which], TIMEOUT_MS), 0);
	assert_int_equal(xpu_device_read(device[which], list, w.lists[which].on_host,
					 count * sizeof(list[0])),
			 0);
	for (size_t i = 0; i < count; i++) {
		const struct xpu_step *s = &list[i];
		bool entry = s->op == STEP_ENTRY || s->op == STEP_ERROR;

		if (s->ret == entry && s->wrong == 0 &&
		    s->sum == (uint64_t)s->ret * blocks_of(scope) * threads_of(scope))
			continue;
		fail_msg("step %zu (%u): %lld, in all threads %lld, %llu bytes wrong", i, s->op,
			 (long long)s->ret, (long long)s->sum, (unsigned long long)s->wrong);
	}
}

static void run(struct xpu_step *list, size_t count, int scope)
{
	start(0, list, count, scope);
	finish(0, list, count, scope);
}

/* What is in memory, of which image says what it should be. */
static void compare(const struct xpu_memory *memory)
{
	if (memory)
		assert_int_equal(xpu_device_read(device[memory == &w.memory[1]], seen,
						 memory->on_host, LEN),
				 0);
	else
		memcpy(seen, host_bytes, LEN);
	assert_memory_equal(seen, image, LEN);
}

static uint64_t word(int which, unsigned n)
{
	uint64_t value;

	assert_int_equal(xpu_device_read(device[which], &value, w.memory[which].on_host + WORD(n),
					 sizeof(value)),
			 0);
	return value;
}

static void set_word(int which, unsigned n, uint64_t value)
{
	assert_int_equal(xpu_device_write(device[which], w.memory[which].on_host + WORD(n), &value,
					  sizeof(value)),
			 0);
}

/* ---- bytes ---- */

/* Lengths, and where they begin here and at the peer. */
static const struct range {
	size_t from, to, len;
} ranges[] = {
	{ 3, 5, 1 },
	{ 64, 64, 8 },
	{ 131, 197, 63 },
	{ 512, 640, 256 },
	{ 1001, 1003, 999 },
	{ 4096, 4096, 4096 },
	{ 9000, 9001, 4095 },
	{ 16384, 20480, 65536 },
	{ 90001, 90113, 65537 },
	{ 200000, 200004, 300001 },
};
#define RANGES COUNT(ranges)

static void write_all(const struct xpu_memory *memory)
{
	struct xpu_step list[3 * RANGES] = { 0 };

	for (uint32_t i = 0; i < RANGES; i++) {
		const struct range *r = &ranges[i];

		list[3 * i] = (struct xpu_step){
			.op = STEP_FILL, .from = r->from, .len = r->len, .seed = i
		};
		list[3 * i + 1] = (struct xpu_step){
			.op = STEP_WRITE, .from = r->from, .to = TARGET + r->to, .len = r->len
		};
		list[3 * i + 2] = (struct xpu_step){ .op = STEP_WAIT };
		for (size_t k = 0; k < r->len; k++)
			image[TARGET + r->to + k] = STEP_BYTE(i, k);
	}
	run(list, COUNT(list), FI_XPU_WORK_GROUP);
	compare(memory);
}

static void xpu_08_writes_to_device_memory(void **state)
{
	(void)state;
	write_all(&w.memory[1]);
}

static void xpu_08_writes_to_host_memory(void **state)
{
	(void)state;
	write_all(NULL);
}

/* The kernel looks at what it has read as soon as its counter says that it is there. */
static void read_all(void)
{
	struct xpu_step list[3 * RANGES] = { 0 };

	for (uint32_t i = 0; i < RANGES; i++) {
		const struct range *r = &ranges[i];

		for (size_t k = 0; k < r->len; k++)
			image[r->to + k] = STEP_BYTE(i, k);
		list[3 * i] = (struct xpu_step){
			.op = STEP_READ, .from = TARGET + r->from, .to = r->to, .len = r->len
		};
		list[3 * i + 1] = (struct xpu_step){ .op = STEP_WAIT };
		list[3 * i + 2] = (struct xpu_step){
			.op = STEP_CHECK, .from = TARGET + r->from, .len = r->len, .seed = i
		};
	}
	if (w.host_mr)
		memcpy(host_bytes, image, LEN);
	else
		assert_int_equal(xpu_device_write(device[1], w.memory[1].on_host, image, LEN), 0);
	run(list, COUNT(list), FI_XPU_WORK_GROUP);
	compare(w.host_mr ? NULL : &w.memory[1]); /* is as it was */
	for (uint32_t i = 0; i < RANGES; i++)
		memmove(image + TARGET + ranges[i].from, image + ranges[i].to, ranges[i].len);
	memset(image, 0, TARGET);
	compare(&w.memory[0]);
}

static void xpu_08_reads_from_device_memory(void **state)
{
	(void)state;
	read_all();
}

static void xpu_08_reads_from_host_memory(void **state)
{
	(void)state;
	read_all();
}

/* Written, read back to another place, and looked at, over and over at the same addresses. */
static void xpu_11_what_is_done_is_seen(void **state)
{
	static const size_t len = 20000;
	struct xpu_step list[STEPS] = { 0 };
	uint32_t n = 0;

	(void)state;
	for (uint32_t round = 0; n + 6 <= STEPS; round++) {
		list[n++] = (struct xpu_step){ .op = STEP_FILL, .len = len, .seed = round };
		list[n++] = (struct xpu_step){ .op = STEP_WRITE, .to = TARGET, .len = len };
		list[n++] = (struct xpu_step){ .op = STEP_WAIT };
		list[n++] = (struct xpu_step){
			.op = STEP_READ, .from = 2 * len, .to = TARGET, .len = len
		};
		list[n++] = (struct xpu_step){ .op = STEP_WAIT };
		list[n++] = (struct xpu_step){
			.op = STEP_CHECK, .from = 2 * len, .len = len, .seed = round
		};
	}
	run(list, n, FI_XPU_WORK_GROUP);
}

/* ---- atomic operations, scopes, rings ---- */

static void xpu_08_atomics(void **state)
{
	struct xpu_step list[] = {
		{ .op = STEP_ADD, .from = WORD(0), .to = WORD(4) },
		{ .op = STEP_FETCH, .from = WORD(0), .result = WORD(2), .to = WORD(4) },
		/* as it is: 100 + 2 * 7; then as it is not */
		{ .op = STEP_SWAP,
		  .from = WORD(0),
		  .compare = WORD(1),
		  .result = WORD(3),
		  .to = WORD(4) },
		{ .op = STEP_SWAP,
		  .from = WORD(1),
		  .compare = WORD(1),
		  .result = WORD(5),
		  .to = WORD(4) },
		{ .op = STEP_WAIT },
	};

	(void)state;
	set_word(0, 0, 7);
	set_word(0, 1, 114);
	set_word(1, 4, 100);
	run(list, COUNT(list), FI_XPU_WORK_ITEM);
	assert_int_equal(word(0, 2), 107);
	assert_int_equal(word(0, 3), 114);
	assert_int_equal(word(0, 5), 7);
	assert_int_equal(word(1, 4), 7);
	assert_int_equal(word(1, 3) | word(1, 5), 0);
}

/* However many threads make a call together, one request results. */
static void xpu_09_one_request_for_each_scope(void **state)
{
	(void)state;
	for (unsigned i = 0; i < COUNT(scopes); i++) {
		struct xpu_step list[] = {
			{ .op = STEP_ADD, .from = WORD(0), .to = WORD(4 + i), .repeat = 100 },
			{ .op = STEP_WAIT },
		};

		set_word(0, 0, 1);
		run(list, COUNT(list), scopes[i]);
		assert_int_equal(word(1, 4 + i), 100);
	}
}

static void xpu_10_a_full_ring_loses_nothing(void **state)
{
	struct xpu_step list[] = {
		{ .op = STEP_ADD, .from = WORD(0), .to = WORD(4), .repeat = 20000 },
		{ .op = STEP_WAIT },
	};

	(void)state;
	set_word(0, 0, 1);
	run(list, COUNT(list), FI_XPU_WORK_ITEM);
	assert_int_equal(word(1, 4), 20000);
	print_message("the ring was full %llu times\n", (unsigned long long)list[0].again);
}

/* ---- queues ---- */

static struct fi_cq_err_entry error_of(const struct xpu_step *s)
{
	struct fi_cq_err_entry entry;

	static_assert(sizeof(entry) <= sizeof(s->entry), "an error entry has no room");
	memcpy(&entry, s->entry, sizeof(entry));
	return entry;
}

static struct fi_cq_data_entry entry_of(const struct xpu_step *s)
{
	struct fi_cq_data_entry entry;

	memcpy(&entry, s->entry, sizeof(entry));
	return entry;
}

static void xpu_10_what_is_wrong_fails_alone(void **state)
{
	struct xpu_step list[] = {
		{ .op = STEP_WRITE, .to = TARGET, .len = 64, .bad = BAD_KEY },
		{ .op = STEP_ERROR },
		{ .op = STEP_WRITE, .to = TARGET, .len = 64, .bad = BAD_DESC },
		{ .op = STEP_ERROR },
		{ .op = STEP_FILL, .len = 64, .seed = 9 },
		{ .op = STEP_WRITE, .to = TARGET, .len = 64 },
		{ .op = STEP_ENTRY },
	};

	(void)state;
	run(list, COUNT(list), FI_XPU_SUBGROUP);
	print_message("a wrong key: %d, a wrong descriptor: %d\n", error_of(&list[1]).err,
		      error_of(&list[3]).err);
	assert_true(error_of(&list[1]).err > 0);
	assert_true(error_of(&list[3]).err > 0);
	assert_true(entry_of(&list[6]).flags & FI_WRITE);
	for (size_t k = 0; k < 64; k++)
		image[TARGET + k] = STEP_BYTE(9, k);
	compare(&w.memory[1]);
}

/* Two kernels: one sends, the other looks at the bytes when its queue says that they are there. */
static void both(struct xpu_step *sender, size_t sends, struct xpu_step *receiver, size_t receives)
{
	start(1, receiver, receives, FI_XPU_WORK_GROUP);
	start(0, sender, sends, FI_XPU_WORK_GROUP);
	finish(0, sender, sends, FI_XPU_WORK_GROUP);
	finish(1, receiver, receives, FI_XPU_WORK_GROUP);
}

static void xpu_08_messages(void **state)
{
	struct xpu_step sender[] = {
		{ .op = STEP_FILL, .from = 100, .len = 5000, .seed = 3 },
		{ .op = STEP_SEND, .from = 100, .len = 5000, .data = 0x1234 },
		{ .op = STEP_WAIT },
	};
	struct xpu_step receiver[] = {
		{ .op = STEP_RECV, .from = TARGET + 8, .len = 6000 },
		{ .op = STEP_ENTRY },
		{ .op = STEP_CHECK, .from = TARGET + 8, .len = 5000, .seed = 3 },
	};
	struct fi_cq_data_entry entry;

	(void)state;
	both(sender, COUNT(sender), receiver, COUNT(receiver));
	entry = entry_of(&receiver[1]);
	assert_true(entry.flags & FI_RECV);
	assert_true(entry.flags & FI_REMOTE_CQ_DATA);
	assert_int_equal(entry.len, 5000);
	assert_int_equal(entry.data, 0x1234);
}

static void xpu_11_remote_data_tells_of_bytes(void **state)
{
	enum {
		ROUNDS = 50,
		LEN_EACH = 6000
	};
	struct xpu_step sender[3 * ROUNDS] = { 0 }, receiver[2 * ROUNDS] = { 0 };

	(void)state;
	for (uint32_t r = 0; r < ROUNDS; r++) {
		const size_t at = (size_t)r * LEN_EACH;

		sender[3 * r] = (struct xpu_step){
			.op = STEP_FILL, .from = at, .len = LEN_EACH, .seed = r
		};
		sender[3 * r + 1] = (struct xpu_step){ .op = STEP_WRITE,
						       .from = at,
						       .to = TARGET + at,
						       .len = LEN_EACH,
						       .data = r + 1 };
		sender[3 * r + 2] = (struct xpu_step){ .op = STEP_WAIT };
		receiver[2 * r] = (struct xpu_step){ .op = STEP_ENTRY };
		receiver[2 * r + 1] = (struct xpu_step){
			.op = STEP_CHECK, .from = TARGET + at, .len = LEN_EACH, .seed = r
		};
	}
	both(sender, COUNT(sender), receiver, COUNT(receiver));
	for (uint32_t r = 0; r < ROUNDS; r++)
		assert_int_equal(entry_of(&receiver[2 * r]).data, r + 1);
}

/* ---- */

#define CASE(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)

static int run_domain(const char *name)
{
	static const struct CMUnitTest tests[] = {
		CASE(xpu_08_writes_to_device_memory, setup_device),
		CASE(xpu_08_writes_to_host_memory, setup_host),
		CASE(xpu_08_reads_from_device_memory, setup_device),
		CASE(xpu_08_reads_from_host_memory, setup_host),
		CASE(xpu_08_atomics, setup_device),
		CASE(xpu_08_messages, setup_queued),
		CASE(xpu_09_one_request_for_each_scope, setup_device),
		CASE(xpu_10_a_full_ring_loses_nothing, setup_device),
		CASE(xpu_10_what_is_wrong_fails_alone, setup_queued),
		CASE(xpu_11_what_is_done_is_seen, setup_device),
		CASE(xpu_11_remote_data_tells_of_bytes, setup_queued),
	};
	void *none = NULL;

	domain = name;
	/* what drivers and the library open once and keep is there before anything is counted */
	baseline_fds = 0;
	if (setup_host(&none) | teardown(&none))
		return 1;
	baseline_fds = test_fds();
	return cmocka_run_group_tests_name(name, tests, NULL, NULL) != 0;
}

int main(int argc, char **argv)
{
	static char *usual[] = { "sw-scalable", "sw-verbs", "sw-strict" };
	char **names = argc > 2 ? argv + 2 : usual;
	int count = argc > 2 ? argc - 2 : (int)COUNT(usual), failed = 0;
	const char *name = argc > 1 ? argv[1] : "cuda";
	int ret = xpu_device_open(name, &device[0]);

	if (ret == -FI_ENODEV)
		return 77;
	if (ret || xpu_device_open(name, &device[1]))
		return 1;
	for (int i = 0; i < count; i++)
		failed |= run_domain(names[i]);
	xpu_device_close(device[0]);
	xpu_device_close(device[1]);
	return failed;
}
