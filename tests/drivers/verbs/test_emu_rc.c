/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated device's data path: reliable connections, their errors, and their queues. */
#include "tests/drivers/verbs/ping.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

static void write_and_read_carry_data(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	ping_connect(&ping);
	memset(ping.ends[0].buffer, 7, PING_BYTES);
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 5000);
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(ping.ends[1].buffer[4999], 7);
	assert_int_equal(ping.ends[1].buffer[5000], 0);
	memset(ping.ends[1].buffer, 9, PING_BYTES);
	wr = ping_wr(&ping, IBV_WR_RDMA_READ, &sge, 10);
	ping_post(&ping.ends[0], &wr);
	assert_int_equal(ping_wc(&ping.ends[0]).byte_len, 10);
	assert_int_equal(ping.ends[0].buffer[9], 9);
	assert_int_equal(ping.ends[0].buffer[10], 7);
	ping_quiet(&ping.ends[1]);
	ping_close(&ping);
}

static void atomics_change_eight_bytes(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	uint64_t *target, *result;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	ping_connect(&ping);
	target = (uint64_t *)ping.ends[1].buffer;
	result = (uint64_t *)ping.ends[0].buffer;
	*target = 40;
	wr = ping_wr(&ping, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 8);
	wr.wr.atomic.compare_add = 2;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(*target, 42);
	assert_int_equal(*result, 40);
	wr = ping_wr(&ping, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 8);
	wr.wr.atomic.compare_add = 41;
	wr.wr.atomic.swap = 1;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(*target, 42);
	wr.wr.atomic.compare_add = 42;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(*target, 1);
	wr.wr.atomic.remote_addr += 4;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_REM_INV_REQ_ERR);
	ping_close(&ping);
}

static void async_event(struct ibv_context *context, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_int_equal(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, type);
	ibv_ack_async_event(&event);
}

/* What makes a write fail at the other end, and how it is told. */
struct bad_write {
	uint32_t rkey_change;
	uint64_t addr_change;
	uint32_t length;
	unsigned int mr_access; /* 0: as usual */
};

static void bad_write(const struct bad_write *bad)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_mr *weak = NULL;

	ping_open(&ping, 0);
	ping_connect(&ping);
	ping_recv(&ping, 1, 77, 64);
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, bad->length);
	wr.wr.rdma.rkey ^= bad->rkey_change;
	wr.wr.rdma.remote_addr += bad->addr_change;
	if (bad->mr_access) {
		weak = ibv_reg_mr(ping.pd, ping.ends[1].buffer, PING_BYTES, bad->mr_access);
		assert_non_null(weak);
		wr.wr.rdma.rkey = weak->rkey;
	}
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ping.ends[0].qp->state, IBV_QPS_ERR);
	ping_expect(&ping.ends[1], 77, IBV_WC_WR_FLUSH_ERR);
	async_event(ping.context, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(ping.ends[1].buffer[0], 0);
	/* Later requests are flushed in order. */
	wr.wr_id = 2;
	ping_post(&ping.ends[0], &wr);
	wr.wr_id = 3;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 2, IBV_WC_WR_FLUSH_ERR);
	ping_expect(&ping.ends[0], 3, IBV_WC_WR_FLUSH_ERR);
	if (weak)
		assert_int_equal(ibv_dereg_mr(weak), 0);
	ping_close(&ping);
}

static void bad_writes_end_the_connection(void **state)
{
	static const struct bad_write cases[] = {
		{ .rkey_change = 1, .length = 8 },
		{ .rkey_change = 0x100, .length = 8 },
		{ .addr_change = PING_BYTES - 7, .length = 8 },
		{ .addr_change = UINT64_MAX, .length = 8 },
		{ .length = 8, .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ },
	};

	(void)state;
	ping_settings(NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		bad_write(&cases[i]);
}

static void bad_local_key(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	ping_connect(&ping);
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 8);
	sge.lkey ^= 1;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_LOC_PROT_ERR);
	ping_close(&ping);
}

/* A message waits for a receive, in both kinds of queues. */
static void message_waits(int with_srq)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	ping_settings(NULL);
	ping_open(&ping, with_srq);
	ping_connect(&ping);
	strcpy((char *)ping.ends[0].buffer, "hello");
	wr = ping_wr(&ping, IBV_WR_SEND_WITH_IMM, &sge, 6);
	wr.imm_data = htonl(0x1234);
	ping_post(&ping.ends[0], &wr);
	ping_quiet(&ping.ends[0]);
	ping_recv(&ping, 1, 5, 64);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	wc = ping_wc(&ping.ends[1]);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 6);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0x1234);
	assert_int_equal(wc.src_qp, ping.ends[0].qp->qp_num);
	assert_string_equal((char *)ping.ends[1].buffer, "hello");
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	ping_recv(&ping, 1, 6, 0);
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 3);
	ping_post(&ping.ends[0], &wr);
	wc = ping_wc(&ping.ends[1]);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 3);
	ping_close(&ping);
}

static void message_waits_for_receive(void **state)
{
	(void)state;
	message_waits(0);
	message_waits(1);
}

static void long_message_is_refused(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 1);
	ping_connect(&ping);
	ping_recv(&ping, 1, 5, 8);
	wr = ping_wr(&ping, IBV_WR_SEND, &sge, 9);
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_REM_INV_REQ_ERR);
	ping_expect(&ping.ends[1], 5, IBV_WC_LOC_LEN_ERR);
	async_event(ping.context, IBV_EVENT_QP_LAST_WQE_REACHED);
	ping_close(&ping);
}

static void send_queue_is_as_deep_as_asked(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad = NULL;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	ping_connect(&ping);
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 8);
	wr.send_flags = 0;
	for (wr.wr_id = 1; wr.wr_id < 8; wr.wr_id++)
		ping_post(&ping.ends[0], &wr);
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ping_post(&ping.ends[0], &wr);
	/* Slots are free when the completion is taken, not when the work is done. */
	assert_int_equal(ibv_post_send(ping.ends[0].qp, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	ping_expect(&ping.ends[0], 8, IBV_WC_SUCCESS);
	ping_quiet(&ping.ends[0]);
	ping_post(&ping.ends[0], &wr);
	wr.num_sge = 3;
	assert_int_equal(ibv_post_send(ping.ends[0].qp, &wr, &bad), EINVAL);
	sge.length = 65;
	wr.num_sge = 1;
	assert_int_equal(ibv_post_send(ping.ends[0].qp, &wr, &bad), EINVAL);
	ping_close(&ping);
}

static void gone_peer_fails_requests(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 1);
	ping_connect(&ping);
	wr = ping_wr(&ping, IBV_WR_SEND, &sge, 8);
	ping_post(&ping.ends[0], &wr);
	wr.wr_id = 2;
	ping_post(&ping.ends[0], &wr);
	ping_quiet(&ping.ends[0]);
	assert_int_equal(ibv_destroy_qp(ping.ends[1].qp), 0);
	ping.ends[1].qp = NULL;
	ping_expect(&ping.ends[0], 1, IBV_WC_RETRY_EXC_ERR);
	ping_expect(&ping.ends[0], 2, IBV_WC_WR_FLUSH_ERR);
	ping_close(&ping);
}

static void overrun_is_an_event(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_cq *small;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	small = ibv_create_cq(ping.context, 2, NULL, NULL, 0);
	assert_non_null(small);
	assert_int_equal(ibv_destroy_qp(ping.ends[0].qp), 0);
	ping.ends[0].qp = ping_qp(ping.pd, small, NULL);
	ping_connect(&ping);
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 8);
	for (int i = 0; i < 3; i++)
		ping_post(&ping.ends[0], &wr);
	async_event(ping.context, IBV_EVENT_CQ_ERR);
	async_event(ping.context, IBV_EVENT_QP_FATAL);
	assert_int_equal(ibv_destroy_cq(small), EBUSY);
	assert_int_equal(ibv_destroy_qp(ping.ends[0].qp), 0);
	ping.ends[0].qp = NULL;
	assert_int_equal(ibv_destroy_cq(small), 0);
	ping_close(&ping);
}

static void channel_tells_of_completions(void **state)
{
	struct ping ping;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *told;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct pollfd fd = { .events = POLLIN };
	void *told_context;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	channel = ibv_create_comp_channel(ping.context);
	assert_non_null(channel);
	cq = ibv_create_cq(ping.context, 8, &ping, channel, 0);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_qp(ping.ends[0].qp), 0);
	ping.ends[0].qp = ping_qp(ping.pd, cq, NULL);
	ping_connect(&ping);
	fd.fd = channel->fd;
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 8);
	ping_post(&ping.ends[0], &wr);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	ping_post(&ping.ends[0], &wr);
	ping_post(&ping.ends[0], &wr);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_int_equal(ibv_get_cq_event(channel, &told, &told_context), 0);
	assert_ptr_equal(told, cq);
	assert_ptr_equal(told_context, &ping);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(channel, &told, &told_context), -1);
	assert_int_equal(errno, EAGAIN);
	/* An event that was not taken goes with its queue. */
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	ping_post(&ping.ends[0], &wr);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_int_equal(ibv_destroy_qp(ping.ends[0].qp), 0);
	ping.ends[0].qp = NULL;
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	ping_close(&ping);
}

static void missing_pages_are_errors(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;
	uint8_t *pages =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(munmap(pages + 4096, 4096), 0);
	ping_settings("odp=1");
	ping_open(&ping, 0);
	ping_connect(&ping);
	mr = ibv_reg_mr(ping.pd, pages, 8192, PING_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 16);
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)pages;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	wr.wr.rdma.remote_addr = (uintptr_t)pages + 4090;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ping_close(&ping);
	assert_int_equal(munmap(pages, 4096), 0);
}

static void removed_device_does_nothing(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;

	(void)state;
	ping_settings("removed_dereg=0");
	ping_open(&ping, 0);
	ping_connect(&ping);
	wr = ping_wr(&ping, IBV_WR_SEND, &sge, 8);
	ping_post(&ping.ends[0], &wr);
	assert_int_equal(emu_verbs_remove_device("emu9"), -1);
	assert_int_equal(emu_verbs_remove_device("emu0"), 0);
	async_event(ping.context, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(ibv_post_send(ping.ends[0].qp, &wr, &bad), EIO);
	assert_null(ibv_reg_mr(ping.pd, ping.ends[0].buffer, 8, 0));
	assert_int_equal(errno, EIO);
	ping_quiet(&ping.ends[0]);
	ping_close(&ping);
	emu_verbs_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_and_read_carry_data),
		cmocka_unit_test(atomics_change_eight_bytes),
		cmocka_unit_test(bad_writes_end_the_connection),
		cmocka_unit_test(bad_local_key),
		cmocka_unit_test(message_waits_for_receive),
		cmocka_unit_test(long_message_is_refused),
		cmocka_unit_test(send_queue_is_as_deep_as_asked),
		cmocka_unit_test(gone_peer_fails_requests),
		cmocka_unit_test(overrun_is_an_event),
		cmocka_unit_test(channel_tells_of_completions),
		cmocka_unit_test(missing_pages_are_errors),
		cmocka_unit_test(removed_device_does_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
