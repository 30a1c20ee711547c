/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected queue pairs of the emulated device. */
#include "tests/drivers/verbs/ping.h"

void ping_settings(const char *settings)
{
	if (settings)
		setenv("HMREG_EMU_VERBS", settings, 1);
	else
		unsetenv("HMREG_EMU_VERBS");
}

struct ibv_qp *ping_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 64 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	return qp;
}

static void end_open(struct ping *ping, struct end *end, struct ibv_srq *srq)
{
	end->buffer = aligned_alloc(4096, PING_BYTES);
	assert_non_null(end->buffer);
	memset(end->buffer, 0, PING_BYTES);
	end->mr = ibv_reg_mr(ping->pd, end->buffer, PING_BYTES, PING_ACCESS);
	assert_non_null(end->mr);
	end->cq = ibv_create_cq(ping->context, 64, end, NULL, 0);
	assert_non_null(end->cq);
	end->qp = ping_qp(ping->pd, end->cq, srq);
}

void ping_open(struct ping *ping, int with_srq)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 2 } };

	memset(ping, 0, sizeof(*ping));
	ping->list = ibv_get_device_list(NULL);
	assert_non_null(ping->list);
	assert_non_null(ping->list[0]);
	ping->context = ibv_open_device(ping->list[0]);
	assert_non_null(ping->context);
	ping->pd = ibv_alloc_pd(ping->context);
	assert_non_null(ping->pd);
	if (with_srq) {
		ping->srq = ibv_create_srq(ping->pd, &init);
		assert_non_null(ping->srq);
	}
	end_open(ping, &ping->ends[0], NULL);
	end_open(ping, &ping->ends[1], ping->srq);
}

void ping_rts(struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = PING_ACCESS };

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = dest_qpn;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.hop_limit = 1;
	assert_int_equal(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

void ping_connect(struct ping *ping)
{
	ping_rts(ping->ends[0].qp, ping->ends[1].qp->qp_num);
	ping_rts(ping->ends[1].qp, ping->ends[0].qp->qp_num);
}

void ping_release(struct ping *ping)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct end *end = &ping->ends[i];

		if (end->qp)
			assert_int_equal(ibv_destroy_qp(end->qp), 0);
		assert_int_equal(ibv_destroy_cq(end->cq), 0);
		assert_int_equal(ibv_dereg_mr(end->mr), 0);
		free(end->buffer);
	}
	if (ping->srq)
		assert_int_equal(ibv_destroy_srq(ping->srq), 0);
	assert_int_equal(ibv_dealloc_pd(ping->pd), 0);
	assert_int_equal(ibv_close_device(ping->context), 0);
	ibv_free_device_list(ping->list);
}

void ping_none_left(void)
{
	struct emu_verbs_counts counts, none = { 0 };

	emu_verbs_counts(&counts);
	none.advised = counts.advised;
	assert_memory_equal(&counts, &none, sizeof(counts));
}

void ping_close(struct ping *ping)
{
	ping_release(ping);
	ping_none_left();
}

struct ibv_send_wr ping_wr(struct ping *ping, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
			   uint32_t length)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED };

	sge->addr = (uintptr_t)ping->ends[0].buffer;
	sge->length = length;
	sge->lkey = ping->ends[0].mr->lkey;
	wr.sg_list = sge;
	wr.num_sge = 1;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)ping->ends[1].buffer;
		wr.wr.atomic.rkey = ping->ends[1].mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)ping->ends[1].buffer;
		wr.wr.rdma.rkey = ping->ends[1].mr->rkey;
	}
	return wr;
}

void ping_post(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(end->qp, wr, &bad), 0);
}

void ping_recv(struct ping *ping, unsigned int end, uint64_t wr_id, uint32_t length)
{
	struct end *at = &ping->ends[end];
	struct ibv_sge sge = { (uintptr_t)at->buffer, length, at->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (end == 1 && ping->srq)
		assert_int_equal(ibv_post_srq_recv(ping->srq, &wr, &bad), 0);
	else
		assert_int_equal(ibv_post_recv(at->qp, &wr, &bad), 0);
}

struct ibv_wc ping_wc(struct end *end)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(end->cq, 1, &wc), 1);
	return wc;
}

void ping_expect(struct end *end, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = ping_wc(end);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, end->qp->qp_num);
}

void ping_quiet(struct end *end)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(end->cq, 1, &wc), 0);
}
