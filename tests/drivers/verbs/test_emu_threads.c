/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulated device used by many threads at once: connections with traffic in both directions, completion
 * channels with sleepers, registration and connection set-up beside it.
 */
#include "tests/drivers/verbs/ping.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#define MESSAGES 400
#define PAIRS	 3

/* One direction of one pair of queue pairs. */
struct flow {
	struct ping *ping;
	unsigned int end;
};

static struct ibv_wc poll_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		sched_yield();
	return wc;
}

/* Sends and receives in lock step with the other end; both directions complete in one queue. */
static void *run_flow(void *argument)
{
	struct flow *flow = argument;
	struct end *end = &flow->ping->ends[flow->end];
	struct ibv_sge sge = { (uintptr_t)end->buffer, 64, end->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	unsigned int sent = 0, received = 0;

	ping_recv(flow->ping, flow->end, 0, 64);
	ibv_post_send(end->qp, &wr, &bad);
	while (sent < MESSAGES || received < MESSAGES) {
		struct ibv_wc wc = poll_one(end->cq);

		if (wc.status != IBV_WC_SUCCESS)
			return "bad status";
		if (wc.opcode == IBV_WC_SEND && ++sent < MESSAGES)
			ibv_post_send(end->qp, &wr, &bad);
		if (wc.opcode == IBV_WC_RECV && ++received < MESSAGES)
			ping_recv(flow->ping, flow->end, 0, 64);
	}
	return NULL;
}

static void *run_registration(void *argument)
{
	struct ping *ping = argument;
	uint8_t *page = aligned_alloc(4096, 4096);

	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_mr *mr = ibv_reg_mr(ping->pd, page, 4096, PING_ACCESS);

		if (!mr || ibv_dereg_mr(mr))
			return "bad registration";
	}
	free(page);
	return NULL;
}

static void pairs_send_both_ways(void **state)
{
	struct ping pings[PAIRS];
	struct flow flows[2 * PAIRS];
	pthread_t threads[2 * PAIRS + 1];
	void *result;

	(void)state;
	ping_settings(NULL);
	for (int i = 0; i < PAIRS; i++) {
		ping_open(&pings[i], 0);
		ping_connect(&pings[i]);
	}
	for (unsigned int i = 0; i < 2 * PAIRS; i++) {
		flows[i] = (struct flow){ &pings[i / 2], i % 2 };
		assert_int_equal(pthread_create(&threads[i], NULL, run_flow, &flows[i]), 0);
	}
	assert_int_equal(pthread_create(&threads[2 * PAIRS], NULL, run_registration, &pings[0]), 0);
	for (int i = 0; i <= 2 * PAIRS; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	for (int i = 0; i < PAIRS; i++)
		ping_release(&pings[i]);
	ping_none_left();
}

/* Takes MESSAGES completions, sleeping in between. */
static void *run_sleeper(void *argument)
{
	struct ibv_cq *cq = argument, *told;
	unsigned int taken = 0;
	struct ibv_wc wc;
	void *context;

	while (taken < MESSAGES) {
		if (ibv_req_notify_cq(cq, 0))
			return "not armed";
		while (ibv_poll_cq(cq, 1, &wc) == 1)
			if (wc.status != IBV_WC_SUCCESS || ++taken == MESSAGES)
				return taken == MESSAGES ? NULL : "bad status";
		if (ibv_get_cq_event(cq->channel, &told, &context) || told != cq)
			return "no event";
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

static void sleeper_is_woken(void **state)
{
	struct ping ping;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	pthread_t sleeper;
	void *result;
	int error;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	channel = ibv_create_comp_channel(ping.context);
	assert_non_null(channel);
	cq = ibv_create_cq(ping.context, 8, NULL, channel, 0);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_qp(ping.ends[0].qp), 0);
	ping.ends[0].qp = ping_qp(ping.pd, cq, NULL);
	ping_connect(&ping);
	assert_int_equal(pthread_create(&sleeper, NULL, run_sleeper, cq), 0);
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 8);
	for (int i = 0; i < MESSAGES; i++) {
		while ((error = ibv_post_send(ping.ends[0].qp, &wr, &bad)) == ENOMEM)
			sched_yield();
		assert_int_equal(error, 0);
	}
	assert_int_equal(pthread_join(sleeper, &result), 0);
	assert_null(result);
	assert_int_equal(ibv_destroy_qp(ping.ends[0].qp), 0);
	ping.ends[0].qp = NULL;
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	ping_close(&ping);
}

/* ---- connection set-up ---- */
struct server {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	unsigned int requests; /* to be answered */
};

static void *run_server(void *argument)
{
	struct server *server = argument;
	struct rdma_cm_event *event;

	while (server->requests) {
		struct rdma_cm_id *id;

		if (rdma_get_cm_event(server->channel, &event))
			return "no event";
		id = event->id;
		if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
			return "not a request";
		if (rdma_reject(id, NULL, 0) || rdma_ack_cm_event(event) || rdma_destroy_id(id))
			return "not rejected";
		server->requests--;
	}
	return NULL;
}

/* The next event of CHANNEL, which has to be TYPE; then it is acknowledged. */
static int await(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		return -1;
	if (event->event != type)
		return -1;
	return rdma_ack_cm_event(event);
}

static void *run_client(void *argument)
{
	struct server *server = argument;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = 1 };
	struct sockaddr *to = rdma_get_local_addr(server->listener);
	struct rdma_cm_id *id;

	for (int i = 0; i < MESSAGES; i++)
		if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
		    rdma_resolve_addr(id, NULL, to, 1000) ||
		    await(channel, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, 1000) ||
		    await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) || rdma_connect(id, &param) ||
		    await(channel, RDMA_CM_EVENT_REJECTED) || rdma_destroy_id(id))
			return "not rejected";
	rdma_destroy_event_channel(channel);
	return NULL;
}

static void clients_ask_at_once(void **state)
{
	struct server server = { .requests = PAIRS * MESSAGES };
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	pthread_t threads[PAIRS + 1];
	void *result;

	(void)state;
	ping_settings(NULL);
	ibv_free_device_list(ibv_get_device_list(NULL));
	server.channel = rdma_create_event_channel();
	assert_non_null(server.channel);
	assert_int_equal(rdma_create_id(server.channel, &server.listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(server.listener, (struct sockaddr *)&addr), 0);
	assert_int_equal(rdma_listen(server.listener, 0), 0);
	assert_int_equal(pthread_create(&threads[0], NULL, run_server, &server), 0);
	for (int i = 1; i <= PAIRS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_client, &server), 0);
	for (int i = 0; i <= PAIRS; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	assert_int_equal(rdma_destroy_id(server.listener), 0);
	rdma_destroy_event_channel(server.channel);
	ping_none_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_send_both_ways),
		cmocka_unit_test(sleeper_is_woken),
		cmocka_unit_test(clients_ask_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
