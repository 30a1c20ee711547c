/* SPDX-License-Identifier: BSD-2-Clause */
/* The device's functions, call by call, against a host's side that is made here. */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_xpu.h>

#include "tests/unit/xpu_side.h"

static struct side side;

static int set_up(void **state)
{
	(void)state;
	side_init(&side, 0);
	return 0;
}

/* ---- requests ---- */

static struct hmreg_xpu_desc desc = { .region = 0x77, .lkey = 5 }, desc2 = { .region = 0x78 },
			     desc3 = { .region = 0x79 };
static struct hmreg_xpu_addr peer = { .addr = 0x21 };
static char buf[64], result[64], compare[64];
static int context;

static int post(uint8_t op, int datatype, int atomic_op)
{
	struct fid_xpu_ep *ep = &side.xpu_ep;

	switch (op) {
	case HMREG_XPU_WRITE:
		return fi_xpu_write(ep, buf, 11, &desc, 12, &peer, 13, 14, &context, 15,
				    FI_XPU_WORK_ITEM);
	case HMREG_XPU_READ:
		return fi_xpu_read(ep, buf, 11, &desc, &peer, 13, 14, &context, 15,
				   FI_XPU_WORK_ITEM);
	case HMREG_XPU_SEND:
		return fi_xpu_send(ep, buf, 11, &desc, 12, &peer, &context, 15, FI_XPU_WORK_ITEM);
	case HMREG_XPU_RECV:
		return fi_xpu_recv(ep, buf, 11, &desc, &peer, &context, 15, FI_XPU_WORK_ITEM);
	case HMREG_XPU_ATOMIC:
		return fi_xpu_atomic(ep, buf, 11, &desc, &peer, 13, 14, datatype, atomic_op,
				     &context, 15, FI_XPU_WORK_ITEM);
	case HMREG_XPU_FETCH_ATOMIC:
		return fi_xpu_fetch_atomic(ep, buf, 11, &desc, result, &desc2, &peer, 13, 14,
					   datatype, atomic_op, &context, 15, FI_XPU_WORK_ITEM);
	default:
		return fi_xpu_compare_atomic(ep, buf, 11, &desc, compare, &desc3, result, &desc2,
					     &peer, 13, 14, datatype, atomic_op, &context, 15,
					     FI_XPU_WORK_ITEM);
	}
}

/* What post(op, 3, 4) must have written, number n of the ring. */
static struct hmreg_xpu_wr expected(uint8_t op, uint64_t n)
{
	struct hmreg_xpu_wr wr = { .seq = n + 1, .op = op, .flags = 15, .len = 11, .desc = 0x77 };

	wr.buf = side_at(buf);
	wr.peer = 0x21;
	wr.context = side_at(&context);
	if (op == HMREG_XPU_WRITE || op == HMREG_XPU_SEND)
		wr.data = 12;
	if (op != HMREG_XPU_SEND && op != HMREG_XPU_RECV) {
		wr.addr = 13;
		wr.key = 14;
	}
	if (op >= HMREG_XPU_ATOMIC) {
		wr.datatype = 3;
		wr.atomic_op = 4;
	}
	if (op >= HMREG_XPU_FETCH_ATOMIC) {
		wr.result = side_at(result);
		wr.result_desc = 0x78;
	}
	if (op == HMREG_XPU_COMPARE_ATOMIC) {
		wr.compare = side_at(compare);
		wr.compare_desc = 0x79;
	}
	return wr;
}

static void xpu_08_a_request_is_what_the_call_said(void **state)
{
	uint64_t n = 0;

	(void)state;
	memset(side.wr, 0xa5, sizeof(side.wr)); /* what was there before is to be seen nowhere */
	for (unsigned i = 0; i < SIDE_SLOTS; i++)
		side.wr[i].seq = i;
	for (uint8_t op = HMREG_XPU_SEND; op <= HMREG_XPU_COMPARE_ATOMIC; op++, n++) {
		struct hmreg_xpu_wr want = expected(op, n), wr;

		assert_int_equal(post(op, 3, 4), 0);
		assert_true(side_take(&side, &wr));
		assert_memory_equal(&wr, &want, sizeof(want));
	}
	assert_int_equal(side.ep_own.next, n);
	assert_false(side_take(&side, &(struct hmreg_xpu_wr){ 0 }));
}

static void xpu_08_what_is_not_given_is_told(void **state)
{
	struct hmreg_xpu_wr wr;

	(void)state;
	assert_int_equal(fi_xpu_recv(&side.xpu_ep, buf, 1, NULL, NULL, NULL, 0, FI_XPU_WORK_ITEM),
			 0);
	assert_true(side_take(&side, &wr));
	assert_int_equal(wr.desc, 0);
	assert_true(wr.peer == FI_ADDR_UNSPEC);
	assert_int_equal(fi_xpu_fetch_atomic(&side.xpu_ep, NULL, 1, NULL, result, NULL, &peer, 1, 2,
					     3, 4, NULL, 0, FI_XPU_WORK_ITEM),
			 0);
	assert_true(side_take(&side, &wr));
	assert_int_equal(wr.result_desc, 0);
	assert_int_equal(wr.peer, 0x21);
}

/* A processor that tells of no groups is alone in every scope, whoever else makes a call at the same time. */
static void xpu_09_without_groups_each_thread_acts(void **state)
{
	struct hmreg_xpu_wr wr;

	(void)state;
	side.ep_own.arrived = 1; /* as of a thread that has come, and not parted */
	for (int scope = FI_XPU_WORK_ITEM; scope <= FI_XPU_DEVICE; scope++) {
		assert_int_equal(fi_xpu_send(&side.xpu_ep, buf, 1, &desc, 0, &peer, NULL, 0, scope),
				 0);
		assert_true(side_take(&side, &wr));
	}
	assert_int_equal(side.ep_own.arrived, 1);
	assert_int_equal(side.ep_own.round, 0);
}

static void full_ring(uint64_t first)
{
	struct hmreg_xpu_wr wr;

	side_init(&side, first);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < SIDE_SLOTS; i++)
			assert_int_equal(post(HMREG_XPU_WRITE, 0, 0), 0);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(post(HMREG_XPU_SEND, 0, 0), -FI_EAGAIN);
		assert_true(side_take(&side, &wr));
		assert_int_equal(wr.op, HMREG_XPU_WRITE);
		assert_int_equal(post(HMREG_XPU_READ, 0, 0), 0);
		assert_int_equal(post(HMREG_XPU_SEND, 0, 0), -FI_EAGAIN);
		for (unsigned i = 1; i < SIDE_SLOTS; i++) {
			assert_true(side_take(&side, &wr));
			assert_int_equal(wr.op, HMREG_XPU_WRITE);
		}
		assert_true(side_take(&side, &wr));
		assert_int_equal(wr.op, HMREG_XPU_READ);
		assert_false(side_take(&side, &wr));
	}
	assert_true(side.ep_own.next == first + 3 * (SIDE_SLOTS + 1));
}

static void xpu_10_a_full_ring_is_eagain(void **state)
{
	(void)state;
	full_ring(0);
	full_ring(UINT64_MAX - 11); /* the numbers pass zero on the way */
	full_ring((UINT64_C(1) << 63) - 12);
}

/* The host may take a later request before an earlier one. */
static void xpu_10_a_slot_that_is_behind_keeps_the_ring(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SIDE_SLOTS; i++)
		assert_int_equal(post(HMREG_XPU_WRITE, 0, 0), 0);
	side.wr[3].seq = 3 + SIDE_SLOTS;
	assert_int_equal(post(HMREG_XPU_WRITE, 0, 0), -FI_EAGAIN);
	side.wr[0].seq = SIDE_SLOTS;
	assert_int_equal(post(HMREG_XPU_WRITE, 0, 0), 0);
	assert_int_equal(side.wr[0].seq, SIDE_SLOTS + 1);
	assert_int_equal(post(HMREG_XPU_WRITE, 0, 0), -FI_EAGAIN);
}

static void xpu_10_an_operation_that_has_no_room_in_a_slot(void **state)
{
	static const int pairs[][2] = { { 256, 1 }, { 1, 256 }, { -1, 1 }, { 1, -1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		for (uint8_t op = HMREG_XPU_ATOMIC; op <= HMREG_XPU_COMPARE_ATOMIC; op++)
			assert_int_equal(post(op, pairs[i][0], pairs[i][1]), -FI_EINVAL);
	assert_int_equal(side.ep_own.next, 0);
	assert_int_equal(post(HMREG_XPU_ATOMIC, 255, 255), 0);
}

static void xpu_08_tagged_messages_are_not_there(void **state)
{
	(void)state;
	assert_int_equal(fi_xpu_tsend(&side.xpu_ep, buf, 1, &desc, 0, &peer, 7, NULL, 0, 0),
			 -FI_ENOSYS);
	assert_int_equal(fi_xpu_trecv(&side.xpu_ep, buf, 1, &desc, &peer, 7, 0, NULL, 0, 0),
			 -FI_ENOSYS);
	assert_int_equal(side.ep_own.next, 0);
}

/* Nothing is understood, so that nothing may be touched. */
static void all_are_enosys(void)
{
	struct fid_xpu_cntr *cntr = &side.xpu_cntr;
	struct fid_xpu_cq *cq = &side.xpu_cq;
	struct fi_cq_err_entry entry;

	for (uint8_t op = HMREG_XPU_SEND; op <= HMREG_XPU_COMPARE_ATOMIC; op++)
		assert_int_equal(post(op, 1, 1), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cq_read(cq, &entry, 1, 0), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cq_readfrom(cq, &entry, 1, NULL, 0), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cq_sread(cq, &entry, 1, 1, 0), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cq_sreadfrom(cq, &entry, 1, NULL, 1, 0), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cq_readerr(cq, &entry, 0, 0), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 0);
	assert_true(fi_xpu_cntr_readerr(cntr, 0) == (uint64_t)-FI_ENOSYS);
	fi_xpu_cntr_wait(cntr, 1, -1, 0);
	assert_int_equal(fi_xpu_cntr_add(cntr, 1, 0), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cntr_set(cntr, 1, 0), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cntr_adderr(cntr, 1, 0), -FI_ENOSYS);
	assert_int_equal(fi_xpu_cntr_seterr(cntr, 1, 0), -FI_ENOSYS);
}

static void xpu_08_other_providers_and_other_layouts(void **state)
{
	struct side before;

	(void)state;
	side.ep.version = side.cq.version = side.cntr.version = HMREG_XPU_VERSION + 1;
	before = side;
	all_are_enosys();
	assert_memory_equal(&side, &before, sizeof(side));

	side_init(&side, 0);
	side.xpu_ep.fid.prov_id = side.xpu_cq.fid.prov_id = side.xpu_cntr.fid.prov_id =
		FI_XPU_PROV_EFA;
	side.xpu_ep.fid.prov_ctx = side.xpu_cq.fid.prov_ctx = side.xpu_cntr.fid.prov_ctx = 0;
	before = side;
	all_are_enosys();
	assert_memory_equal(&side, &before, sizeof(side));
}

/* ---- queues ---- */

static void check_entry(const void *entry, unsigned format, uint64_t n)
{
	const struct fi_cq_tagged_entry *e = entry;

	assert_int_equal((uintptr_t)e->op_context, n);
	if (format >= FI_CQ_FORMAT_MSG) {
		assert_int_equal(e->flags, n + 1);
		assert_int_equal(e->len, n + 2);
	}
	if (format >= FI_CQ_FORMAT_DATA) {
		assert_int_equal((uintptr_t)e->buf, n + 3);
		assert_int_equal(e->data, n + 4);
	}
	if (format >= FI_CQ_FORMAT_TAGGED)
		assert_int_equal(e->tag, 0);
}

static void xpu_08_entries_of_each_format(void **state)
{
	static const size_t size[] = { 0, sizeof(struct fi_cq_entry),
				       sizeof(struct fi_cq_msg_entry),
				       sizeof(struct fi_cq_data_entry),
				       sizeof(struct fi_cq_tagged_entry) };

	(void)state;
	for (uint32_t format = FI_CQ_FORMAT_CONTEXT; format <= FI_CQ_FORMAT_TAGGED; format++) {
		char entries[4 * sizeof(struct fi_cq_tagged_entry)];
		struct hmreg_xpu_addr from[4];

		memset(entries, 0xa5, sizeof(entries));
		memset(from, 0xa5, sizeof(from));
		side.cq.format = format;
		side.cq.entry_size = (uint32_t)size[format];
		for (unsigned i = 0; i < 4; i++)
			assert_true(side_put(&side, 100 * i, 0));
		assert_int_equal(fi_xpu_cq_readfrom(&side.xpu_cq, entries, 3, from, 0), 3);
		for (unsigned i = 0; i < 3; i++) {
			check_entry(entries + i * size[format], format, 100 * i);
			assert_int_equal(from[i].addr, 100 * i + 5);
		}
		assert_int_equal((unsigned char)entries[3 * size[format]], 0xa5);
		assert_int_equal(from[3].addr, UINT64_C(0xa5a5a5a5a5a5a5a5));
		assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entries, 4, 0), 1);
		check_entry(entries, format, 300);
		assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entries, 4, 0), -FI_EAGAIN);
	}
}

static void xpu_08_error_entries(void **state)
{
	struct fi_cq_err_entry error = { .err_data = buf, .err_data_size = sizeof(buf), .tag = 9 };
	struct fi_cq_data_entry entry[4];

	(void)state;
	assert_int_equal(fi_xpu_cq_readerr(&side.xpu_cq, &error, 0, 0), -FI_EAGAIN);
	assert_true(side_put(&side, 10, 0) && side_put(&side, 20, FI_EACCES) &&
		    side_put(&side, 30, 0));
	assert_int_equal(fi_xpu_cq_readerr(&side.xpu_cq, &error, 0, 0), -FI_EAGAIN);
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entry, 4, 0), 1);
	check_entry(&entry[0], FI_CQ_FORMAT_DATA, 10);
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entry, 4, 0), -FI_EAVAIL);
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, NULL, 0, 0), -FI_EAVAIL);
	assert_int_equal(fi_xpu_cq_readerr(&side.xpu_cq, &error, 1, 0), -FI_EBADFLAGS);
	assert_int_equal(fi_xpu_cq_readerr(&side.xpu_cq, NULL, 0, 0), -FI_EINVAL);
	assert_int_equal(fi_xpu_cq_readerr(&side.xpu_cq, &error, 0, 0), 1);
	assert_int_equal((uintptr_t)error.op_context, 20);
	assert_int_equal(error.flags, 21);
	assert_int_equal(error.len, 22);
	assert_int_equal((uintptr_t)error.buf, 23);
	assert_int_equal(error.data, 24);
	assert_int_equal(error.src_addr, 25);
	assert_int_equal(error.olen, 26);
	assert_int_equal(error.err, FI_EACCES);
	assert_int_equal(error.prov_errno, 27);
	assert_int_equal(error.tag, 0);
	assert_ptr_equal(error.err_data, buf);
	assert_int_equal(error.err_data_size, 0);
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entry, 4, 0), 1);
	check_entry(&entry[0], FI_CQ_FORMAT_DATA, 30);
}

static void round_of_queue(uint64_t first)
{
	struct fi_cq_data_entry entry[2 * SIDE_SLOTS];
	uint64_t n = 0;

	side_init(&side, first);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < SIDE_SLOTS; i++)
			assert_true(side_put(&side, 10 * (n + i), 0));
		assert_false(side_put(&side, 0, 0));
		assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entry, 3, 0), 3);
		assert_true(side_put(&side, 10 * (n + SIDE_SLOTS), 0));
		assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entry + 3, 2 * SIDE_SLOTS - 3, 0),
				 SIDE_SLOTS - 2);
		for (unsigned i = 0; i <= SIDE_SLOTS; i++)
			check_entry(&entry[i], FI_CQ_FORMAT_DATA, 10 * (n + i));
		n += SIDE_SLOTS + 1;
	}
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entry, 1, 0), -FI_EAGAIN);
}

static void xpu_10_a_queue_goes_round(void **state)
{
	(void)state;
	round_of_queue(0);
	round_of_queue(UINT64_MAX - 11);
	round_of_queue((UINT64_C(1) << 63) - 12);
}

static void xpu_08_reads_of_nothing(void **state)
{
	struct fi_cq_tagged_entry entry;

	(void)state;
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, NULL, 0, 0), -FI_EAGAIN);
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, NULL, 1, 0), -FI_EINVAL);
	assert_int_equal(fi_xpu_cq_sread(&side.xpu_cq, NULL, 1, 1, 0), -FI_EINVAL);
	assert_true(side_put(&side, 10, 0));
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, NULL, 0, 0), 0);
	assert_int_equal(fi_xpu_cq_sread(&side.xpu_cq, NULL, 0, 5, 0), 0);
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, &entry, 1, 0), 1);
	check_entry(&entry, FI_CQ_FORMAT_DATA, 10);
}

/* Puts count completions, one by one, each when there is room; the last one in error if it is to be. */
struct putter {
	uint64_t count;
	int last;
};

static void *put_all(void *arg)
{
	const struct putter *p = arg;

	for (uint64_t i = 0; i < p->count; i++)
		while (!side_put(&side, 10 * i, i + 1 == p->count ? p->last : 0))
			sched_yield();
	return NULL;
}

static int64_t waited(struct putter putter, struct fi_cq_data_entry *entry, size_t count,
		      uint64_t threshold)
{
	struct hmreg_xpu_addr from[64];
	pthread_t thread;
	int64_t ret;

	assert_int_equal(pthread_create(&thread, NULL, put_all, &putter), 0);
	ret = fi_xpu_cq_sreadfrom(&side.xpu_cq, entry, count, from, threshold, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (int64_t i = 0; i < ret; i++) {
		check_entry(&entry[i], FI_CQ_FORMAT_DATA, 10 * (uint64_t)i);
		assert_int_equal(from[i].addr, 10 * i + 5);
	}
	return ret;
}

static void xpu_08_reads_that_wait(void **state)
{
	struct fi_cq_data_entry entry[64];
	struct fi_cq_err_entry error = { 0 };

	(void)state;
	/* More than the queue holds at once; more than there is room for; none asked for. */
	assert_int_equal(waited((struct putter){ 30, 0 }, entry, 64, 30), 30);
	assert_int_equal(waited((struct putter){ 20, 0 }, entry, 20, 50), 20);
	assert_int_equal(waited((struct putter){ 1, 0 }, entry, 64, 0), 1);
	assert_int_equal(fi_xpu_cq_read(&side.xpu_cq, entry, 1, 0), -FI_EAGAIN);
	/* An error ends the wait, with what there was before it. */
	assert_int_equal(waited((struct putter){ 4, FI_EIO }, entry, 64, 10), 3);
	assert_int_equal(fi_xpu_cq_sread(&side.xpu_cq, entry, 64, 10, 0), -FI_EAVAIL);
	assert_int_equal(fi_xpu_cq_readerr(&side.xpu_cq, &error, 0, 0), 1);
	assert_int_equal(error.err, FI_EIO);
}

/* ---- counters ---- */

static void xpu_08_values_of_a_counter(void **state)
{
	struct fid_xpu_cntr *cntr = &side.xpu_cntr;

	(void)state;
	side.cntr.value = 5;
	side.cntr.errors = 2;
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 5);
	assert_int_equal(fi_xpu_cntr_readerr(cntr, 0), 2);
	assert_int_equal(fi_xpu_cntr_add(cntr, 7, 0), 0);
	assert_int_equal(fi_xpu_cntr_adderr(cntr, 3, 0), 0);
	side.cntr.value += 1;
	side.cntr.errors += 1;
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 13);
	assert_int_equal(fi_xpu_cntr_readerr(cntr, 0), 6);
	/* Below what the host has counted, too; what it counts later comes on top. */
	assert_int_equal(fi_xpu_cntr_set(cntr, 1, 0), 0);
	assert_int_equal(fi_xpu_cntr_seterr(cntr, 0, 0), 0);
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 1);
	assert_int_equal(fi_xpu_cntr_readerr(cntr, 0), 0);
	side.cntr.value += 2;
	side.cntr.errors += 1;
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 3);
	assert_int_equal(fi_xpu_cntr_readerr(cntr, 0), 1);
	assert_int_equal(fi_xpu_cntr_add(cntr, UINT64_MAX, 0), 0);
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 2);
	/* The host's words are the host's. */
	assert_int_equal(side.cntr.value, 8);
	assert_int_equal(side.cntr.errors, 4);
}

static uint64_t clock_now(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void xpu_08_time_is_the_hosts(void **state)
{
	uint64_t before = clock_now(), now = hmreg_xpu_now(0), after = clock_now();

	(void)state;
	assert_true(before <= now && now <= after);
	/* Not earlier than asked for. */
	fi_xpu_cntr_wait(&side.xpu_cntr, 1, 3, 0);
	assert_true(clock_now() - after >= 3000000);
}

static void *count_up(void *value)
{
	__atomic_store_n((uint64_t *)value, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void wait_for(uint64_t *word)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, count_up, word), 0);
	fi_xpu_cntr_wait(&side.xpu_cntr, 10, -1, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void xpu_08_waits_for_a_counter(void **state)
{
	struct fid_xpu_cntr *cntr = &side.xpu_cntr;

	(void)state;
	fi_xpu_cntr_wait(cntr, 0, -1, 0); /* reached already */
	fi_xpu_cntr_wait(cntr, 1, 0, 0);  /* looked at once */
	fi_xpu_cntr_wait(cntr, 1, 5, 0);  /* the time is over */
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 0);
	assert_int_equal(fi_xpu_cntr_add(cntr, 9, 0), 0);
	wait_for(&side.cntr.value);
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 10);
	fi_xpu_cntr_wait(cntr, 10, -1, 0);
}

static void xpu_08_an_error_ends_a_wait_once(void **state)
{
	struct fid_xpu_cntr *cntr = &side.xpu_cntr;

	(void)state;
	wait_for(&side.cntr.errors);
	assert_int_equal(side.cntr_own.seen, 1); /* told by the wait's end; the next one waits */
	fi_xpu_cntr_wait(cntr, 10, 5, 0);
	/* One that was counted before the wait. */
	assert_int_equal(fi_xpu_cntr_adderr(cntr, 1, 0), 0);
	fi_xpu_cntr_wait(cntr, 10, -1, 0);
	/* One that the device was told of by reading or setting does not end it: the time does. */
	side.cntr.errors = 7;
	assert_int_equal(fi_xpu_cntr_readerr(cntr, 0), 8);
	fi_xpu_cntr_wait(cntr, 10, 5, 0);
	assert_int_equal(side.cntr_own.seen, 8);
	assert_int_equal(fi_xpu_cntr_seterr(cntr, 3, 0), 0);
	assert_int_equal(side.cntr_own.seen, 3);
	fi_xpu_cntr_wait(cntr, 10, 5, 0);
	assert_int_equal(fi_xpu_cntr_read(cntr, 0), 0);
}

/* ---- what is written twice ---- */

static_assert(sizeof(struct hmreg_xpu_wr) == 128 && sizeof(struct hmreg_xpu_cqe) == 128 &&
		      sizeof(struct hmreg_xpu_own) == 64 && sizeof(struct hmreg_xpu_ep) == 64 &&
		      sizeof(struct hmreg_xpu_cq) == 64 && sizeof(struct hmreg_xpu_cntr) == 128,
	      "as the other side has them");
static_assert(HMREG_XPU_EAGAIN == FI_EAGAIN && HMREG_XPU_EINVAL == FI_EINVAL &&
		      FI_XPU_ENOSYS == FI_ENOSYS && (int)HMREG_XPU_EAVAIL == (int)FI_EAVAIL &&
		      (int)HMREG_XPU_EBADFLAGS == (int)FI_EBADFLAGS,
	      "codes");
#define SAME(field)                                                                                \
	(offsetof(struct hmreg_xpu_cq_err_entry, field) == offsetof(struct fi_cq_err_entry, field))
static_assert(sizeof(struct hmreg_xpu_cq_err_entry) == sizeof(struct fi_cq_err_entry) &&
		      SAME(op_context) && SAME(flags) && SAME(len) && SAME(buf) && SAME(data) &&
		      SAME(tag) && SAME(olen) && SAME(err) && SAME(prov_errno) && SAME(err_data) &&
		      SAME(err_data_size) && SAME(src_addr),
	      "error entries");

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(xpu_08_a_request_is_what_the_call_said, set_up),
		cmocka_unit_test_setup(xpu_08_what_is_not_given_is_told, set_up),
		cmocka_unit_test_setup(xpu_09_without_groups_each_thread_acts, set_up),
		cmocka_unit_test_setup(xpu_10_a_full_ring_is_eagain, set_up),
		cmocka_unit_test_setup(xpu_10_a_slot_that_is_behind_keeps_the_ring, set_up),
		cmocka_unit_test_setup(xpu_10_an_operation_that_has_no_room_in_a_slot, set_up),
		cmocka_unit_test_setup(xpu_08_tagged_messages_are_not_there, set_up),
		cmocka_unit_test_setup(xpu_08_other_providers_and_other_layouts, set_up),
		cmocka_unit_test_setup(xpu_08_entries_of_each_format, set_up),
		cmocka_unit_test_setup(xpu_08_error_entries, set_up),
		cmocka_unit_test_setup(xpu_10_a_queue_goes_round, set_up),
		cmocka_unit_test_setup(xpu_08_reads_of_nothing, set_up),
		cmocka_unit_test_setup(xpu_08_reads_that_wait, set_up),
		cmocka_unit_test_setup(xpu_08_values_of_a_counter, set_up),
		cmocka_unit_test_setup(xpu_08_time_is_the_hosts, set_up),
		cmocka_unit_test_setup(xpu_08_waits_for_a_counter, set_up),
		cmocka_unit_test_setup(xpu_08_an_error_ends_a_wait_once, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
