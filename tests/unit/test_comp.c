/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and counters as a NIC uses them, without any object around them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <string.h>

#include "core/nic/comp.h"

enum {
	ROUNDS = 10000,
	LIMIT_MS = 60000, /* far beyond anything but a lost wake-up */
	PRODUCERS = 3,
	CONSUMERS = 2,
	PER_PRODUCER = 20000,
	ERROR_EVERY = 97,
	COUNT_THREADS = 4
};

static const enum fi_wait_obj sleeping[] = { FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD };

/* Completion number i; every field differs from those of its neighbours. */
static struct nic_comp numbered(uint64_t i)
{
	return (struct nic_comp){
		.op_context = (void *)(uintptr_t)(i + 1),
		.flags = i + 1000,
		.len = i + 2000,
		.buf = (void *)(uintptr_t)(i + 3000),
		.data = i + 4000,
		.src_addr = i + 5000,
	};
}

static struct nic_comp failed(uint64_t i)
{
	struct nic_comp comp = numbered(i);

	comp.err = FI_EACCES;
	comp.prov_errno = (int)i + 1;
	comp.olen = i + 6000;
	return comp;
}

static void push(struct nic_cq *cq, struct nic_comp comp)
{
	assert_int_equal(nic_cq_reserve(cq), 0);
	nic_cq_push(cq, &comp);
}

/* ---- order and room ---- */

static void keeps_order(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 64, 100 };
	struct fi_cq_tagged_entry entries[100];

	(void)state;
	for (size_t s = 0; s < count_of(sizes); s++) {
		uint64_t in = 0, out = 0;
		struct nic_cq cq;

		assert_int_equal(nic_cq_init(&cq, sizes[s], FI_WAIT_NONE), 0);
		/* Uneven portions lead around the ring several times. */
		while (out < 1000) {
			size_t portion = 1 + in % sizes[s];
			ssize_t n;

			for (size_t i = 0; i < portion; i++)
				push(&cq, numbered(in++));
			n = nic_cq_take(&cq, FI_CQ_FORMAT_TAGGED, entries, NULL, 100);
			assert_int_equal(n, portion);
			for (ssize_t i = 0; i < n; i++)
				assert_int_equal(entries[i].data, out++ + 4000);
		}
		assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_TAGGED, entries, NULL, 1),
				 -FI_EAGAIN);
		nic_cq_destroy(&cq);
	}
}

static void refuses_overflow(void **state)
{
	struct fi_cq_entry entries[4];
	struct nic_cq cq;

	(void)state;
	assert_int_equal(nic_cq_init(&cq, 3, FI_WAIT_NONE), 0);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 3; i++)
			assert_int_equal(nic_cq_reserve(&cq), 0);
		assert_int_equal(nic_cq_reserve(&cq), -FI_EAGAIN);
		assert_int_equal(nic_cq_reserve(&cq), -FI_EAGAIN);
		nic_cq_unreserve(&cq);
		push(&cq, numbered(0));
		nic_cq_push(&cq, &(struct nic_comp){ .op_context = entries });
		nic_cq_push(&cq, &(struct nic_comp){ .err = FI_EIO });
		assert_int_equal(nic_cq_reserve(&cq), -FI_EAGAIN);
		/* What is read makes room again, an error as well. */
		assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_CONTEXT, entries, NULL, 4), 2);
		assert_int_equal(nic_cq_take_error(&cq, &(struct nic_comp){ 0 }), 1);
		assert_int_equal(cq.used, 0);
	}
	nic_cq_destroy(&cq);
}

/* ---- what a reader gets ---- */

static void converts_to_every_format(void **state)
{
	static const size_t size[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	struct nic_cq cq;

	(void)state;
	assert_int_equal(nic_cq_init(&cq, 8, FI_WAIT_NONE), 0);
	for (int f = FI_CQ_FORMAT_CONTEXT; f <= FI_CQ_FORMAT_TAGGED; f++) {
		struct fi_cq_tagged_entry want;
		unsigned char bytes[4 * sizeof(want)];
		fi_addr_t from[4] = { 0 };

		memset(bytes, 0xA5, sizeof(bytes));
		for (uint64_t i = 0; i < 3; i++)
			push(&cq, numbered(i));
		assert_int_equal(nic_cq_take(&cq, (enum fi_cq_format)f, bytes, from, 3), 3);
		for (uint64_t i = 0; i < 3; i++) {
			want = (struct fi_cq_tagged_entry){
				.op_context = (void *)(uintptr_t)(i + 1),
				.flags = i + 1000,
				.len = i + 2000,
				.buf = (void *)(uintptr_t)(i + 3000),
				.data = i + 4000,
			};
			assert_memory_equal(bytes + i * size[f], &want, size[f]);
			assert_int_equal(from[i], i + 5000);
		}
		/* Nothing is written behind the last entry. */
		for (size_t i = 3 * size[f]; i < sizeof(bytes); i++)
			assert_int_equal(bytes[i], 0xA5);
		assert_int_equal(from[3], 0);
	}
	nic_cq_destroy(&cq);
}

static void error_stands_in_the_way(void **state)
{
	struct fi_cq_data_entry entries[8];
	struct nic_comp comp, want;
	struct nic_cq cq;

	(void)state;
	assert_int_equal(nic_cq_init(&cq, 8, FI_WAIT_NONE), 0);
	assert_int_equal(nic_cq_take_error(&cq, &comp), -FI_EAGAIN);
	push(&cq, numbered(0));
	push(&cq, failed(1));
	push(&cq, failed(2));
	push(&cq, numbered(3));
	/* Not at the front yet. */
	assert_int_equal(nic_cq_take_error(&cq, &comp), -FI_EAGAIN);
	assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_DATA, entries, NULL, 8), 1);
	assert_int_equal(entries[0].data, 4000);
	assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_DATA, entries, NULL, 8), -FI_EAVAIL);
	assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_DATA, NULL, NULL, 0), -FI_EAVAIL);
	for (uint64_t i = 1; i <= 2; i++) {
		assert_int_equal(nic_cq_take_error(&cq, &comp), 1);
		want = failed(i);
		assert_memory_equal(&comp, &want, sizeof(comp));
	}
	assert_int_equal(nic_cq_take_error(&cq, &comp), -FI_EAGAIN);
	assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_DATA, entries, NULL, 8), 1);
	assert_int_equal(entries[0].data, 4003);
	nic_cq_destroy(&cq);
}

static void count_0_only_looks(void **state)
{
	struct fi_cq_entry entry;
	struct nic_cq cq;

	(void)state;
	assert_int_equal(nic_cq_init(&cq, 2, FI_WAIT_NONE), 0);
	assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_CONTEXT, NULL, NULL, 0), -FI_EAGAIN);
	push(&cq, numbered(0));
	for (int i = 0; i < 3; i++)
		assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_CONTEXT, NULL, NULL, 0), 0);
	assert_int_equal(nic_cq_take(&cq, FI_CQ_FORMAT_CONTEXT, &entry, NULL, 1), 1);
	nic_cq_destroy(&cq);
}

static void reached_counts(void **state)
{
	struct nic_comp comp;
	struct nic_cq cq;

	(void)state;
	assert_int_equal(nic_cq_init(&cq, 3, FI_WAIT_NONE), 0);
	assert_false(nic_cq_ready(&cq));
	push(&cq, failed(0));
	assert_true(nic_cq_reached(&cq, 3)); /* an error is not kept waiting */
	assert_int_equal(nic_cq_take_error(&cq, &comp), 1);
	assert_false(nic_cq_ready(&cq));
	push(&cq, numbered(0));
	assert_true(nic_cq_ready(&cq));
	push(&cq, numbered(1));
	assert_true(nic_cq_reached(&cq, 2));
	assert_false(nic_cq_reached(&cq, 3));
	assert_false(nic_cq_reached(&cq, SIZE_MAX));
	push(&cq, numbered(2));
	assert_true(nic_cq_reached(&cq, 4)); /* more never fit */
	assert_true(nic_cq_reached(&cq, SIZE_MAX));
	nic_cq_destroy(&cq);
}

/* ---- many threads ---- */

struct crowd {
	struct nic_cq cq;
	_Atomic uint32_t producers; /* still at work */
	_Atomic uint8_t times[PRODUCERS * PER_PRODUCER];
	_Atomic uint32_t wrong; /* entries that came out damaged, unordered or on the wrong path */
};

struct member {
	struct crowd *crowd;
	uint64_t id;
};

static bool is_failure(uint64_t number)
{
	return number % ERROR_EVERY == 0;
}

static void *produce(void *arg)
{
	struct member *me = arg;

	for (uint64_t i = 0; i < PER_PRODUCER; i++) {
		uint64_t number = me->id * PER_PRODUCER + i;
		struct nic_comp comp = is_failure(number) ? failed(number) : numbered(number);

		while (nic_cq_reserve(&me->crowd->cq))
			sched_yield();
		if (i % 7 == 0) { /* an operation that was not started after all */
			nic_cq_unreserve(&me->crowd->cq);
			while (nic_cq_reserve(&me->crowd->cq))
				sched_yield();
		}
		nic_cq_push(&me->crowd->cq, &comp);
	}
	atomic_fetch_sub(&me->crowd->producers, 1);
	return NULL;
}

/* Notes one entry; within one reader those of one producer rise. */
static void note(struct crowd *crowd, uint64_t *next, uint64_t number, bool good)
{
	if (!good || number >= PRODUCERS * PER_PRODUCER) {
		atomic_fetch_add(&crowd->wrong, 1);
		return;
	}
	if (number < next[number / PER_PRODUCER])
		atomic_fetch_add(&crowd->wrong, 1);
	next[number / PER_PRODUCER] = number + 1;
	atomic_fetch_add(&crowd->times[number], 1);
}

static ssize_t consume_some(struct crowd *crowd, uint64_t *next)
{
	struct fi_cq_tagged_entry entries[5];
	fi_addr_t from[5];
	struct nic_comp comp;
	ssize_t n = nic_cq_take(&crowd->cq, FI_CQ_FORMAT_TAGGED, entries, from, 5);

	for (ssize_t i = 0; i < n; i++) {
		uint64_t number = entries[i].data - 4000;

		note(crowd, next, number,
		     from[i] == number + 5000 && entries[i].flags == number + 1000 &&
			     !is_failure(number));
	}
	if (n == -FI_EAVAIL && nic_cq_take_error(&crowd->cq, &comp) == 1)
		note(crowd, next, comp.data - 4000,
		     comp.err == FI_EACCES && comp.olen == comp.data + 2000 &&
			     is_failure(comp.data - 4000));
	return n;
}

static void *consume(void *arg)
{
	struct crowd *crowd = ((struct member *)arg)->crowd;
	uint64_t next[PRODUCERS] = { 0 };
	bool more = true;

	while (more) {
		more = atomic_load(&crowd->producers) != 0;
		while (consume_some(crowd, next) != -FI_EAGAIN)
			;
		sched_yield();
	}
	return NULL;
}

static void every_entry_once(void **state)
{
	static struct crowd crowd;
	pthread_t threads[PRODUCERS + CONSUMERS];
	struct member members[PRODUCERS + CONSUMERS];
	size_t missing = 0;

	(void)state;
	/* A small ring keeps producers waiting for room. */
	assert_int_equal(nic_cq_init(&crowd.cq, 12, FI_WAIT_UNSPEC), 0);
	atomic_store(&crowd.producers, PRODUCERS);
	for (size_t i = 0; i < count_of(threads); i++) {
		members[i] = (struct member){ &crowd, i };
		assert_int_equal(pthread_create(&threads[i], NULL,
						i < PRODUCERS ? produce : consume, &members[i]),
				 0);
	}
	for (size_t i = 0; i < count_of(threads); i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < count_of(crowd.times); i++)
		missing += crowd.times[i] != 1;
	assert_int_equal(missing, 0);
	assert_int_equal(crowd.wrong, 0);
	assert_int_equal(crowd.cq.used, 0);
	assert_int_equal(crowd.cq.errors, 0);
	nic_cq_destroy(&crowd.cq);
}

/* ---- waking ---- */

static bool cq_ready(void *arg)
{
	return nic_cq_ready(arg);
}

/* Echoes what comes through one queue into the other. */
static void *echo(void *arg)
{
	struct nic_cq *cqs = arg;
	struct fi_cq_tagged_entry entry;
	struct nic_comp comp;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		if (hm_wait_until(&cqs[0].wait, cq_ready, &cqs[0], LIMIT_MS) ||
		    nic_cq_take(&cqs[0], FI_CQ_FORMAT_TAGGED, &entry, NULL, 1) != 1)
			break;
		comp = numbered(entry.data - 4000);
		nic_cq_reserve(&cqs[1]);
		nic_cq_push(&cqs[1], &comp);
	}
	return NULL;
}

static void push_wakes_every_time(void **state)
{
	(void)state;
	for (size_t o = 0; o < count_of(sleeping); o++) {
		struct fi_cq_tagged_entry entry;
		struct nic_cq cqs[2];
		pthread_t thread;
		uint64_t i;

		for (int c = 0; c < 2; c++)
			assert_int_equal(nic_cq_init(&cqs[c], 4, sleeping[o]), 0);
		assert_int_equal(pthread_create(&thread, NULL, echo, cqs), 0);
		for (i = 0; i < ROUNDS; i++) {
			push(&cqs[0], numbered(i));
			if (hm_wait_until(&cqs[1].wait, cq_ready, &cqs[1], LIMIT_MS) ||
			    nic_cq_take(&cqs[1], FI_CQ_FORMAT_TAGGED, &entry, NULL, 1) != 1 ||
			    entry.data != i + 4000)
				break;
		}
		pthread_join(thread, NULL);
		assert_int_equal(i, ROUNDS);
		for (int c = 0; c < 2; c++)
			nic_cq_destroy(&cqs[c]);
	}
}

/* ---- counters ---- */

static void counts_operations_or_bytes(void **state)
{
	struct nic_cntr cntr;

	(void)state;
	assert_int_equal(nic_cntr_init(&cntr, FI_CNTR_EVENTS_COMP, FI_WAIT_NONE), 0);
	nic_cntr_done(&cntr, 0);
	nic_cntr_done(&cntr, 4096);
	nic_cntr_failed(&cntr);
	assert_int_equal(cntr.value, 2);
	assert_int_equal(cntr.errors, 1);
	nic_cntr_destroy(&cntr);

	assert_int_equal(nic_cntr_init(&cntr, FI_CNTR_EVENTS_BYTES, FI_WAIT_NONE), 0);
	nic_cntr_done(&cntr, 0);
	nic_cntr_done(&cntr, 4096);
	nic_cntr_done(&cntr, 8);
	nic_cntr_failed(&cntr);
	assert_int_equal(cntr.value, 4104);
	assert_int_equal(cntr.errors, 1);
	cntr.value = UINT64_MAX;
	nic_cntr_done(&cntr, 3);
	assert_int_equal(cntr.value, 2);
	nic_cntr_destroy(&cntr);
}

static void *count_up(void *arg)
{
	struct nic_cntr *cntr = arg;

	for (int i = 0; i < PER_PRODUCER; i++) {
		nic_cntr_done(cntr, 8);
		if (i % ERROR_EVERY == 0)
			nic_cntr_failed(cntr);
	}
	return NULL;
}

static bool all_counted(void *arg)
{
	struct nic_cntr *cntr = arg;

	return atomic_load(&cntr->value) >= UINT64_C(8) * COUNT_THREADS * PER_PRODUCER;
}

static void counts_are_exact(void **state)
{
	(void)state;
	for (size_t o = 0; o < count_of(sleeping); o++) {
		pthread_t threads[COUNT_THREADS];
		struct nic_cntr cntr;
		int ret;

		assert_int_equal(nic_cntr_init(&cntr, FI_CNTR_EVENTS_BYTES, sleeping[o]), 0);
		for (int t = 0; t < COUNT_THREADS; t++)
			assert_int_equal(pthread_create(&threads[t], NULL, count_up, &cntr), 0);
		ret = hm_wait_until(&cntr.wait, all_counted, &cntr, LIMIT_MS);
		for (int t = 0; t < COUNT_THREADS; t++)
			pthread_join(threads[t], NULL);
		assert_int_equal(ret, 0);
		assert_int_equal(cntr.value, UINT64_C(8) * COUNT_THREADS * PER_PRODUCER);
		assert_int_equal(cntr.errors,
				 COUNT_THREADS * ((PER_PRODUCER + ERROR_EVERY - 1) / ERROR_EVERY));
		nic_cntr_destroy(&cntr);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_order),
		cmocka_unit_test(refuses_overflow),
		cmocka_unit_test(converts_to_every_format),
		cmocka_unit_test(error_stands_in_the_way),
		cmocka_unit_test(count_0_only_looks),
		cmocka_unit_test(reached_counts),
		cmocka_unit_test(every_entry_once),
		cmocka_unit_test(push_wakes_every_time),
		cmocka_unit_test(counts_operations_or_bytes),
		cmocka_unit_test(counts_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
