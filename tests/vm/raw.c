/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected queue pairs by verbs alone; see raw.h. */
#include "raw.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define PORT	   1
#define TIMEOUT_NS (20 * INT64_C(1000000000))

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* An IPv4 address: only those go over the loopback interface. */
static void find_gid(struct raw_end *end)
{
	static const uint8_t ipv4[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(end->context, PORT, &port), 0);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(end->context, PORT, i, &end->gid) == 0 &&
		    memcmp(end->gid.raw, ipv4, sizeof(ipv4)) == 0) {
			end->gid_index = (uint8_t)i;
			return;
		}
	}
	fail_msg("the device has no IPv4 address");
}

static void open_end(struct raw_end *end, const char *device)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	assert_non_null(list);
	for (int i = 0; i < count && !end->context; i++)
		if (strcmp(ibv_get_device_name(list[i]), device) == 0)
			end->context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!end->context)
		fail_msg("%s is not there or does not open", device);
	end->pd = ibv_alloc_pd(end->context);
	assert_non_null(end->pd);
	end->cq = ibv_create_cq(end->context, 16, NULL, NULL, 0);
	assert_non_null(end->cq);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->pd, &init);
	assert_non_null(end->qp);
	find_gid(end);
}

static void connect_end(struct raw_end *end, const struct raw_end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = RAW_ACCESS,
	};

	assert_int_equal(ibv_modify_qp(end->qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = PORT,
			     .grh = { .dgid = peer->gid,
				      .sgid_index = end->gid_index,
				      .hop_limit = 64 } },
	};
	assert_int_equal(ibv_modify_qp(end->qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 17,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	assert_int_equal(ibv_modify_qp(end->qp, &attr,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void close_end(struct raw_end *end)
{
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
	assert_int_equal(ibv_dealloc_pd(end->pd), 0);
	assert_int_equal(ibv_close_device(end->context), 0);
}

void raw_open(struct raw_pair *pair, const char *device_a, const char *device_b)
{
	*pair = (struct raw_pair){ 0 };
	open_end(&pair->a, device_a);
	open_end(&pair->b, device_b);
	connect_end(&pair->a, &pair->b);
	connect_end(&pair->b, &pair->a);
}

void raw_close(struct raw_pair *pair)
{
	close_end(&pair->a);
	close_end(&pair->b);
}

enum ibv_wc_status raw_rdma(struct raw_pair *pair, enum ibv_wr_opcode opcode,
			    const struct ibv_mr *local, void *buf, size_t len, uint64_t addr,
			    uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)buf, (uint32_t)len, local->lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode },
			   *bad;
	struct ibv_wc wc;
	int64_t end = now_ns() + TIMEOUT_NS;
	int found = 0;

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	assert_int_equal(ibv_post_send(pair->a.qp, &wr, &bad), 0);
	while (found == 0 && now_ns() < end)
		found = ibv_poll_cq(pair->a.cq, 1, &wc);
	assert_int_equal(found, 1);
	assert_int_equal(wc.wr_id, 7);
	return wc.status;
}
