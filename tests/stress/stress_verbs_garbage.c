/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Somebody who does not keep to the protocol, at the port of an endpoint of the verbs NIC: connection
 * requests with anything in them, and connections over which anything comes.  Meanwhile a peer that
 * behaves sends and writes, and is not disturbed; and the log stays short.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/nic/verbs_ep.h"
#include "tests/fds.h"
#include "tests/stress/stress_verbs_load.h"

#define BYTES 8192u

static struct vend good, victim;
static uint8_t source[BYTES], sink[BYTES];
static struct fid_mr *source_mr, *sink_mr;
static fi_addr_t to_victim, to_good;
static uint64_t seed = 88172645463325252u;
static _Atomic unsigned lines;

static void count_line(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		       int line, const char *text, void *arg)
{
	(void)subsys;
	(void)func;
	(void)line;
	(void)text;
	(void)arg;
	lines += level == FI_LOG_WARN;
}

/* A message and a write arrive. */
static void good_traffic(void)
{
	struct vop op = { 0 }, receive = { 0 };

	for (size_t i = 0; i < BYTES; i++)
		source[i] = (uint8_t)stress_random(&seed);
	VPOST(&victim, &receive,
	      fi_recv(victim.ep, sink, BYTES, fi_mr_desc(sink_mr), to_good, &receive));
	VPOST(&good, &op, fi_send(good.ep, source, BYTES, fi_mr_desc(source_mr), to_victim, &op));
	CHECK(vend_wait(&good, &op) == 0);
	while (receive.state != 2)
		vend_read(&victim);
	CHECK(receive.err == 0 && receive.len == BYTES && memcmp(source, sink, BYTES) == 0);
	source[0]++;
	VPOST(&good, &op,
	      fi_write(good.ep, source, BYTES, fi_mr_desc(source_mr), to_victim, (uintptr_t)sink,
		       fi_mr_key(sink_mr), &op));
	CHECK(vend_wait(&good, &op) == 0);
	CHECK(memcmp(source, sink, BYTES) == 0);
}

/* ---- the stranger ---- */

struct stranger {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t memory[2 * 4096];
};

static enum rdma_cm_event_type next_event(struct stranger *s)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	CHECK_OK(rdma_get_cm_event(s->events, &event));
	type = event->event;
	rdma_ack_cm_event(event);
	return type;
}

/* False: the other end has turned away already. */
static bool to_state(struct stranger *s, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	return rdma_init_qp_attr(s->id, &attr, &mask) == 0 &&
	       ibv_modify_qp(s->qp, &attr, mask) == 0;
}

static void open_stranger(struct stranger *s)
{
	struct ibv_qp_init_attr init = { .cap = { .max_send_wr = 16,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct sockaddr_in to;

	memset(s, 0, sizeof(*s));
	memcpy(&to, victim.name, sizeof(to));
	s->events = rdma_create_event_channel();
	CHECK(s->events);
	CHECK_OK(rdma_create_id(s->events, &s->id, s, RDMA_PS_TCP));
	CHECK_OK(rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&to, 1000));
	CHECK(next_event(s) == RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_OK(rdma_resolve_route(s->id, 1000));
	CHECK(next_event(s) == RDMA_CM_EVENT_ROUTE_RESOLVED);
	s->pd = ibv_alloc_pd(s->id->verbs);
	s->cq = ibv_create_cq(s->id->verbs, 32, NULL, NULL, 0);
	CHECK(s->pd && s->cq);
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(s->pd, &init);
	s->mr = ibv_reg_mr(s->pd, s->memory, sizeof(s->memory), IBV_ACCESS_LOCAL_WRITE);
	CHECK(s->qp && s->mr);
	CHECK(to_state(s, IBV_QPS_INIT));
}

static void close_stranger(struct stranger *s)
{
	rdma_disconnect(s->id);
	CHECK_OK(ibv_destroy_qp(s->qp));
	CHECK_OK(ibv_dereg_mr(s->mr));
	CHECK_OK(ibv_destroy_cq(s->cq));
	CHECK_OK(ibv_dealloc_pd(s->pd));
	CHECK_OK(rdma_destroy_id(s->id));
	rdma_destroy_event_channel(s->events);
}

static struct verbs_hello proper_hello(const struct stranger *s)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)rdma_get_local_addr(s->id);
	struct verbs_hello hello = { .magic = VERBS_MAGIC,
				     .version = VERBS_PROTOCOL,
				     .family = AF_INET,
				     .incarnation = stress_random(&seed) | 1,
				     .port = htons(9) };

	memcpy(hello.address, &in->sin_addr, sizeof(in->sin_addr));
	return hello;
}

/* True: it was let in. */
static bool ask(struct stranger *s, const void *hello, size_t len)
{
	struct rdma_conn_param param = { .private_data = hello,
					 .private_data_len = (uint8_t)len,
					 .responder_resources = 1,
					 .initiator_depth = 1,
					 .retry_count = 7,
					 .rnr_retry_count = 7,
					 .qp_num = s->qp->qp_num };

	CHECK_OK(rdma_connect(s->id, &param));
	if (next_event(s) != RDMA_CM_EVENT_CONNECT_RESPONSE)
		return false;
	return to_state(s, IBV_QPS_RTR) && to_state(s, IBV_QPS_RTS) && rdma_establish(s->id) == 0;
}

/* One thing of a proper greeting is wrong; which. */
static size_t spoil(struct verbs_hello *hello, unsigned which)
{
	size_t len = sizeof(*hello);

	switch (which % 8) {
	case 0:
		return 0;
	case 1:
		return stress_random(&seed) % 33; /* zeros follow: it names no port */
	case 2:
		hello->magic ^= 1u << (stress_random(&seed) % 32);
		break;
	case 3:
		hello->version += (uint16_t)(1 + stress_random(&seed) % 100);
		break;
	case 4:
		hello->family = (uint16_t)(stress_random(&seed) % 2 ? AF_INET6 : AF_UNIX);
		break;
	case 5:
		hello->incarnation = 0;
		break;
	case 6:
		hello->address[stress_random(&seed) % 4] ^= 0x55; /* it is another host */
		break;
	default:
		for (size_t i = 0; i < len; i++)
			((uint8_t *)hello)[i] = (uint8_t)stress_random(&seed);
		break;
	}
	return len;
}

static double some_seconds(void)
{
	return stress_setting("HMREG_STRESS_SECONDS", 10) / 4.0;
}

/* A line a second at most, and some that tell numbers of things in powers of two. */
static void check_log(unsigned before, double start, unsigned strangers)
{
	unsigned said = lines - before;

	printf("%u strangers, %u lines\n", strangers, said);
	CHECK(said > 0);
	CHECK(said <= 2 + (unsigned)(stress_now() - start) + 40);
}

static void nic_greetings_that_are_none(void **state)
{
	double start = stress_now(), until = start + some_seconds();
	unsigned before = lines, n = 0;
	struct stranger s;

	(void)state;
	for (; stress_now() < until || n < 64; n++) {
		struct verbs_hello hello;
		size_t len;

		open_stranger(&s);
		hello = proper_hello(&s);
		len = spoil(&hello, n);
		CHECK(!ask(&s, &hello, len));
		close_stranger(&s);
		if (n % 8 == 0)
			good_traffic();
	}
	good_traffic();
	check_log(before, start, n);
	CHECK(lines - before <= 2 + (unsigned)(stress_now() - start));
}

/* A frame with anything in it, more often than not with a proper header in parts. */
static uint32_t make_frame(uint8_t *at, uint64_t number)
{
	struct verbs_frame head;
	uint64_t r = stress_random(&seed);
	uint32_t len = (uint32_t)(stress_random(&seed) % 5000);

	for (uint32_t i = 0; i < sizeof(head) + 64; i++)
		at[i] = (uint8_t)stress_random(&seed);
	if (r % 4 == 0)
		return 1 + (uint32_t)(r >> 8) % 4200;
	memcpy(&head, at, sizeof(head));
	head.type = (uint8_t)((r >> 3) % 10);
	if (r & 16)
		head.number = number;
	head.length = r & 32 ? (uint32_t)(r >> 20) % 200 : head.length % 8192;
	if (r & 64)
		head.total = (r >> 30) % 10000;
	memcpy(at, &head, sizeof(head));
	len = head.length < 4096 ? head.length : len % 4096;
	return (uint32_t)sizeof(head) + len;
}

static void send_frames(struct stranger *s)
{
	uint64_t number = 1;
	struct ibv_wc wc;

	for (int i = 0; i < 12; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)s->memory, .lkey = s->mr->lkey };
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED,
					  .sg_list = &sge,
					  .num_sge = 1 },
				   *bad;
		double patience = stress_now() + PATIENCE;
		int n;

		sge.length = make_frame(s->memory, number);
		if (i == 5) {
			wr.opcode = IBV_WR_RDMA_WRITE; /* to some memory of the victim's */
			wr.wr.rdma.remote_addr = (uintptr_t)sink;
			wr.wr.rdma.rkey = (uint32_t)stress_random(&seed);
		}
		if (ibv_post_send(s->qp, &wr, &bad) != 0)
			return;
		while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0) {
			CHECK(stress_now() < patience);
			sched_yield();
		}
		CHECK(n == 1);
		if (wc.status != IBV_WC_SUCCESS)
			return; /* it was thrown out */
		number++;
	}
}

static void nic_frames_that_are_none(void **state)
{
	double start = stress_now(), until = start + some_seconds();
	unsigned before = lines, n = 0, let_in = 0;
	struct stranger s;

	(void)state;
	for (; stress_now() < until || n < 64; n++) {
		struct verbs_hello hello;

		open_stranger(&s);
		hello = proper_hello(&s);
		if (ask(&s, &hello, sizeof(hello))) {
			send_frames(&s);
			let_in++;
		}
		close_stranger(&s);
		if (n % 8 == 0)
			good_traffic();
	}
	good_traffic();
	CHECK(let_in > 0);
	check_log(before, start, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nic_greetings_that_are_none),
					    cmocka_unit_test(nic_frames_that_are_none) };
	int ret;
	size_t fds;

	vend_settings("devices=2");
	vend_open(&victim, "emu1", NULL, 0);
	vend_close(&victim);
	fds = test_fds();
	vend_open(&good, "emu0", NULL, 0);
	vend_open(&victim, "emu1", NULL, 0);
	to_victim = vend_insert(&good, &victim);
	source_mr = vend_register(&good, source, BYTES);
	sink_mr = vend_register(&victim, sink, BYTES);
	to_good = vend_insert(&victim, &good);
	hm_log_set_sink(count_line, NULL);
	ret = cmocka_run_group_tests_name("stress_verbs_garbage", tests, NULL, NULL);
	hm_log_set_sink(NULL, NULL);
	vend_close_ep(&good);
	vend_close_ep(&victim);
	CHECK_OK(fi_close(&source_mr->fid));
	CHECK_OK(fi_close(&sink_mr->fid));
	vend_close(&good);
	vend_close(&victim);
	vend_none_left(fds);
	return ret;
}
