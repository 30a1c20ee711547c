/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs, made by us in the domain's context and protection domain, which librdmacm does not know:
 * it tells the attributes of each state, we set them.
 */
#include <errno.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

#define RETRIES		7 /* the most there are */
#define RNR_FOREVER	7
#define RNR_TIMER	8 /* 0.16 ms: how long a sender waits for a receive buffer */
#define TIMEOUT_UNIT_NS 4096

bool verbs_is_iwarp(const struct verbs_ep *ep)
{
	return ep->vd->context->device->transport_type == IBV_TRANSPORT_IWARP;
}

/* n of 4.096 us * 2^n, so that all retries together take about the retry time. */
static uint8_t ack_timeout(void)
{
	uint64_t each_ns = (uint64_t)verbs_retry_ms() * 1000000 / (RETRIES + 1);
	uint8_t n = 1;

	/* rounded to the nearer power in the logarithm: 1.5 is close to the square root of 2 */
	while (n < 31 && ((uint64_t)TIMEOUT_UNIT_NS << n) * 3 / 2 < each_ns)
		n++;
	return n;
}

/* What peers may do through a queue pair of this side. */
static unsigned access_of(const struct verbs_conn *conn)
{
	const struct verbs_ep *ep = conn->ep;
	unsigned access = IBV_ACCESS_LOCAL_WRITE;

	if (!conn->passive || conn->lane == VERBS_LANE_CONTROL)
		return access;
	if (ep->ep.caps & FI_REMOTE_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (ep->ep.caps & FI_REMOTE_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if ((ep->ep.caps & FI_ATOMIC) && ep->vd->device->attr.atomic_cap != IBV_ATOMIC_NONE)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	return access;
}

static int complain(const struct verbs_conn *conn, const char *call, int err)
{
	if (!verbs_device_gone(conn->ep))
		HM_WARN(FI_LOG_EP_CTRL, "no queue pair for a connection: %s: %s", call,
			strerror(err));
	return err == ENOMEM ? -FI_ENOMEM : -FI_EIO;
}

/* The attributes of a state, from the connection manager. */
static int next_state(struct verbs_conn *conn, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		      int *mask)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	*mask = 0;
	if (cm.init_qp_attr(conn->id, attr, mask) == 0)
		return 0;
	/* as when the other end has turned away already */
	HM_INFO(FI_LOG_EP_CTRL, "rdma_init_qp_attr: %s", strerror(errno));
	return -FI_EIO;
}

static int set_state(struct verbs_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	int err = verbs.modify_qp(conn->qp, attr, mask);

	return err == 0 ? 0 : complain(conn, "ibv_modify_qp", err);
}

int verbs_qp_create(struct verbs_conn *conn)
{
	struct verbs_ep *ep = conn->ep;
	struct ibv_qp_init_attr init = {
		.qp_context = conn, .send_cq = ep->cq, .recv_cq = ep->cq, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp_attr attr;
	int mask, ret;

	if (conn->passive) {
		init.srq = ep->srq[conn->lane];
		init.cap.max_send_wr = init.cap.max_send_sge = 1; /* a probe */
	} else {
		init.srq =
			ep->srq[VERBS_LANE_CONTROL]; /* where probes arrive, never kept waiting */
		init.cap.max_send_wr = VERBS_QP_DEPTH;
		init.cap.max_send_sge = ep->max_sge;
	}
	conn->qp = verbs.create_qp(ep->vd->pd, &init);
	if (!conn->qp)
		return complain(conn, "ibv_create_qp", errno);
	ret = next_state(conn, IBV_QPS_INIT, &attr, &mask);
	if (ret != 0)
		return ret;
	attr.qp_access_flags = access_of(conn);
	return set_state(conn, &attr, mask | IBV_QP_ACCESS_FLAGS);
}

int verbs_qp_connect(struct verbs_conn *conn, uint8_t as_target, uint8_t as_initiator)
{
	struct ibv_qp_attr attr;
	int mask, ret;

	if (verbs_is_iwarp(conn->ep)) /* the kernel does it */
		return 0;
	ret = next_state(conn, IBV_QPS_RTR, &attr, &mask);
	if (ret != 0)
		return ret;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = as_target;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		attr.min_rnr_timer = RNR_TIMER;
	ret = set_state(conn, &attr, mask);
	if (ret != 0)
		return ret;
	ret = next_state(conn, IBV_QPS_RTS, &attr, &mask);
	if (ret != 0)
		return ret;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > as_initiator)
		attr.max_rd_atomic = as_initiator;
	if (mask & IBV_QP_TIMEOUT)
		attr.timeout = ack_timeout();
	if (mask & IBV_QP_RETRY_CNT)
		attr.retry_cnt = RETRIES;
	if (mask & IBV_QP_RNR_RETRY)
		attr.rnr_retry = RNR_FOREVER;
	return set_state(conn, &attr, mask);
}

void verbs_qp_error(struct verbs_conn *conn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (conn->qp)
		verbs.modify_qp(conn->qp, &attr, IBV_QP_STATE); /* it may be there already */
}
