/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated connection manager. */
#include "tests/drivers/verbs/ping.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

/* A listener and an active identifier that are not connected yet. */
struct pair {
	struct ping ping;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *active, *passive;
	struct sockaddr_in addr;
};

static struct rdma_cm_event *next_event(struct pair *pair, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(pair->channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	assert_int_equal(event->status, status);
	return event;
}

static void take_event(struct pair *pair, enum rdma_cm_event_type type, int status)
{
	assert_int_equal(rdma_ack_cm_event(next_event(pair, type, status)), 0);
}

static void no_event(struct pair *pair)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(pair->channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static void pair_open(struct pair *pair, const char *settings)
{
	memset(pair, 0, sizeof(*pair));
	ping_settings(settings);
	ping_open(&pair->ping, 0);
	pair->channel = rdma_create_event_channel();
	assert_non_null(pair->channel);
	assert_int_equal(fcntl(pair->channel->fd, F_SETFL, O_NONBLOCK), 0);
	pair->addr.sin_family = AF_INET;
	pair->addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(rdma_create_id(pair->channel, &pair->listener, pair, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(pair->listener, (struct sockaddr *)&pair->addr), 0);
	assert_non_null(pair->listener->verbs);
	assert_string_equal(ibv_get_device_name(pair->listener->verbs->device), "emu0");
	pair->addr.sin_port = rdma_get_src_port(pair->listener);
	assert_int_not_equal(pair->addr.sin_port, 0);
	assert_int_equal(rdma_listen(pair->listener, 2), 0);
}

static void pair_resolve(struct pair *pair)
{
	assert_int_equal(rdma_create_id(pair->channel, &pair->active, pair, RDMA_PS_TCP), 0);
	assert_int_equal(
		rdma_resolve_addr(pair->active, NULL, (struct sockaddr *)&pair->addr, 1000), 0);
	take_event(pair, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(pair->active->port_num, 1);
	assert_int_equal(rdma_resolve_route(pair->active, 1000), 0);
	take_event(pair, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static void pair_request(struct pair *pair)
{
	struct rdma_conn_param param = { .private_data = "request",
					 .private_data_len = 8,
					 .responder_resources = 3,
					 .initiator_depth = 2,
					 .retry_count = 5,
					 .rnr_retry_count = 7,
					 .qp_num = pair->ping.ends[0].qp->qp_num };
	struct rdma_cm_event *event;

	pair_resolve(pair);
	assert_int_equal(rdma_connect(pair->active, &param), 0);
	event = next_event(pair, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	pair->passive = event->id;
	assert_ptr_equal(event->listen_id, pair->listener);
	assert_ptr_equal(event->id->context, pair);
	assert_int_equal(event->param.conn.private_data_len, 56);
	assert_string_equal(event->param.conn.private_data, "request");
	assert_int_equal(event->param.conn.responder_resources, 2);
	assert_int_equal(event->param.conn.initiator_depth, 3);
	assert_int_equal(event->param.conn.qp_num, param.qp_num);
	assert_int_equal(rdma_get_dst_port(pair->passive), rdma_get_src_port(pair->active));
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void to_state(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	attr.qp_access_flags |= PING_ACCESS;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

static void to_rts(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	to_state(id, qp, IBV_QPS_INIT);
	to_state(id, qp, IBV_QPS_RTR);
	to_state(id, qp, IBV_QPS_RTS);
}

static void pair_connect(struct pair *pair)
{
	struct rdma_conn_param param = { .private_data = "response",
					 .private_data_len = 9,
					 .responder_resources = 2,
					 .initiator_depth = 1,
					 .rnr_retry_count = 7,
					 .qp_num = pair->ping.ends[1].qp->qp_num };
	struct rdma_cm_event *event;

	pair_request(pair);
	to_rts(pair->passive, pair->ping.ends[1].qp);
	assert_int_equal(rdma_accept(pair->passive, &param), 0);
	event = next_event(pair, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_ptr_equal(event->id, pair->active);
	assert_string_equal(event->param.conn.private_data, "response");
	assert_int_equal(event->param.conn.qp_num, param.qp_num);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	to_rts(pair->active, pair->ping.ends[0].qp);
	assert_int_equal(rdma_establish(pair->active), 0);
	event = next_event(pair, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_ptr_equal(event->id, pair->passive);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	no_event(pair);
}

static void pair_close(struct pair *pair)
{
	if (pair->active)
		assert_int_equal(rdma_destroy_id(pair->active), 0);
	if (pair->passive)
		assert_int_equal(rdma_destroy_id(pair->passive), 0);
	assert_int_equal(rdma_destroy_id(pair->listener), 0);
	rdma_destroy_event_channel(pair->channel);
	ping_close(&pair->ping);
}

static void write_between(struct pair *pair, enum ibv_wc_status status)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = ping_wr(&pair->ping, IBV_WR_RDMA_WRITE, &sge, 8);

	ping_post(&pair->ping.ends[0], &wr);
	ping_expect(&pair->ping.ends[0], 1, status);
}

static void connected_pair_writes_and_parts(void **state)
{
	struct pair pair;
	struct rdma_cm_event *event;

	(void)state;
	pair_open(&pair, NULL);
	pair_connect(&pair);
	write_between(&pair, IBV_WC_SUCCESS);
	assert_int_equal(rdma_disconnect(pair.passive), 0);
	event = next_event(&pair, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_ptr_equal(event->id, pair.active);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	take_event(&pair, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	take_event(&pair, RDMA_CM_EVENT_DISCONNECTED, 0);
	take_event(&pair, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	assert_int_equal(rdma_disconnect(pair.active), 0);
	no_event(&pair);
	pair_close(&pair);
}

static void destroyed_identifier_disconnects(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, NULL);
	pair_connect(&pair);
	assert_int_equal(rdma_destroy_id(pair.active), 0);
	pair.active = NULL;
	take_event(&pair, RDMA_CM_EVENT_DISCONNECTED, 0);
	take_event(&pair, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	pair_close(&pair);
}

static void rejection_carries_data(void **state)
{
	struct pair pair;
	struct rdma_cm_event *event;

	(void)state;
	pair_open(&pair, NULL);
	pair_request(&pair);
	assert_int_equal(rdma_reject(pair.passive, "no", 3), 0);
	event = next_event(&pair, RDMA_CM_EVENT_REJECTED, 28);
	assert_ptr_equal(event->id, pair.active);
	assert_string_equal(event->param.conn.private_data, "no");
	assert_int_equal(rdma_ack_cm_event(event), 0);
	pair_close(&pair);
}

static void nobody_listens(void **state)
{
	struct pair pair;
	struct rdma_conn_param param = { .qp_num = 1 };

	(void)state;
	pair_open(&pair, NULL);
	pair.addr.sin_port = htons((uint16_t)(ntohs(pair.addr.sin_port) + 1));
	pair_resolve(&pair);
	assert_int_equal(rdma_connect(pair.active, &param), 0);
	take_event(&pair, RDMA_CM_EVENT_REJECTED, 8);
	pair_close(&pair);
}

static void lost_requests_are_unreachable(void **state)
{
	struct pair pair;
	struct rdma_conn_param param = { .qp_num = 1 };

	(void)state;
	pair_open(&pair, NULL);
	emu_verbs_silence(ntohs(pair.addr.sin_port), 1);
	pair_resolve(&pair);
	assert_int_equal(rdma_connect(pair.active, &param), 0);
	take_event(&pair, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	emu_verbs_silence(ntohs(pair.addr.sin_port), 0);
	assert_int_equal(rdma_destroy_id(pair.active), 0);
	pair_connect(&pair);
	pair_close(&pair);
}

static void requests_are_lost_one_by_one(void **state)
{
	struct pair pair;
	struct rdma_conn_param param = { .qp_num = 1 };

	(void)state;
	pair_open(&pair, NULL);
	emu_verbs_lose(ntohs(pair.addr.sin_port), 1, 3);
	pair_resolve(&pair);
	assert_int_equal(rdma_connect(pair.active, &param), 0);
	take_event(&pair, RDMA_CM_EVENT_REJECTED, 3);
	assert_int_equal(rdma_destroy_id(pair.active), 0);
	emu_verbs_lose(ntohs(pair.addr.sin_port), 1, 0);
	pair_resolve(&pair);
	assert_int_equal(rdma_connect(pair.active, &param), 0);
	assert_int_equal(rdma_destroy_id(pair.active), 0); /* the next event is the next one's */
	pair_connect(&pair);
	pair_close(&pair);
}

/* A request that nobody took goes with its listener, and its sender is told. */
static void listener_takes_requests_along(void **state)
{
	struct pair pair;
	struct rdma_conn_param param = { .qp_num = 1 };
	struct rdma_cm_id *first;

	(void)state;
	pair_open(&pair, NULL);
	pair_resolve(&pair);
	assert_int_equal(rdma_connect(pair.active, &param), 0);
	first = pair.active;
	assert_int_equal(rdma_destroy_id(pair.listener), 0);
	take_event(&pair, RDMA_CM_EVENT_REJECTED, 28);
	no_event(&pair);
	assert_int_equal(rdma_destroy_id(first), 0);
	pair.active = NULL;
	assert_int_equal(rdma_create_id(pair.channel, &pair.listener, NULL, RDMA_PS_TCP), 0);
	pair_close(&pair);
}

static void full_backlog_rejects(void **state)
{
	struct pair pair;
	struct rdma_conn_param param = { .qp_num = 1 };
	struct rdma_cm_id *ids[3], *id;

	(void)state;
	pair_open(&pair, NULL);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rdma_create_id(pair.channel, &ids[i], NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&pair.addr, 1),
				 0);
		take_event(&pair, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		assert_int_equal(rdma_resolve_route(ids[i], 1), 0);
		take_event(&pair, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdma_connect(ids[i], &param), 0);
	for (int i = 0; i < 2; i++)
		take_event(&pair, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	take_event(&pair, RDMA_CM_EVENT_REJECTED, 28);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_event *event = next_event(&pair, RDMA_CM_EVENT_REJECTED, 4);

		id = event->id;
		assert_int_equal(rdma_ack_cm_event(event), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	pair_close(&pair);
}

static void addresses_are_checked(void **state)
{
	struct pair pair;
	struct rdma_cm_id *id;
	struct sockaddr_in foreign = { .sin_family = AF_INET }, none = { .sin_family = AF_INET };

	(void)state;
	pair_open(&pair, NULL);
	foreign.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1, for documents only */
	none.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 9);
	assert_int_equal(rdma_create_id(pair.channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&foreign), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&none), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&pair.addr), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&foreign, 1), 0);
	take_event(&pair, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	assert_int_equal(rdma_destroy_id(id), 0);
	pair_close(&pair);
}

static void killed_peer_is_noticed_by_requests(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, NULL);
	pair_connect(&pair);
	write_between(&pair, IBV_WC_SUCCESS);
	assert_int_equal(emu_verbs_kill_peer(ntohs(pair.addr.sin_port)), 1);
	no_event(&pair);
	write_between(&pair, IBV_WC_RETRY_EXC_ERR);
	pair_close(&pair);
}

static void removal_is_an_event(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, "removed_dereg=0");
	pair_connect(&pair);
	assert_int_equal(emu_verbs_remove_device("emu0"), 0);
	for (int i = 0; i < 3; i++)
		take_event(&pair, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	assert_int_equal(rdma_disconnect(pair.active), 0);
	pair_close(&pair);
	emu_verbs_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connected_pair_writes_and_parts),
		cmocka_unit_test(destroyed_identifier_disconnects),
		cmocka_unit_test(rejection_carries_data),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(lost_requests_are_unreachable),
		cmocka_unit_test(requests_are_lost_one_by_one),
		cmocka_unit_test(listener_takes_requests_along),
		cmocka_unit_test(full_backlog_rejects),
		cmocka_unit_test(addresses_are_checked),
		cmocka_unit_test(killed_peer_is_noticed_by_requests),
		cmocka_unit_test(removal_is_an_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
