/* SPDX-License-Identifier: BSD-2-Clause */
/* Which changes of a reliable connection's queue pair are allowed, and with which attributes. */
#include "tests/drivers/verbs/emu.h"

struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
};

#define INIT_MASK (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK                                                                                   \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                           \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                   \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define RTS_OPTIONAL                                                                               \
	(IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_ALT_PATH |         \
	 IBV_QP_PATH_MIG_STATE)

static const struct transition transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, INIT_MASK, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_MASK },
	{ IBV_QPS_INIT, IBV_QPS_RTR, RTR_MASK,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_ALT_PATH },
	{ IBV_QPS_RTR, IBV_QPS_RTS, RTS_MASK, RTS_OPTIONAL },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, RTS_OPTIONAL },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0, RTS_OPTIONAL },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, RTS_OPTIONAL },
};

/* Is a transition without conditions: to RESET or ERR from everywhere. */
static bool always_allowed(enum ibv_qp_state to)
{
	return to == IBV_QPS_RESET || to == IBV_QPS_ERR;
}

static int check_transition(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	mask &= ~IBV_QP_STATE;
	if (always_allowed(to))
		return mask & ~IBV_QP_CUR_STATE ? EINVAL : 0;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (t->from == from && t->to == to)
			return (mask & t->required) == t->required &&
					       !(mask & ~(t->required | t->optional))
				       ? 0
				       : EINVAL;
	}
	return EINVAL;
}

static int check_path(const struct emu_qp *qp, const struct ibv_ah_attr *path)
{
	const struct emu_context *ctx = emu_ctx(qp->ibv.context);
	static const union ibv_gid none;

	if (path->port_num != 1)
		return EINVAL;
	if (!path->is_global)
		return ctx->config.link == IBV_LINK_LAYER_ETHERNET || ctx->config.grh || !path->dlid
			       ? EINVAL
			       : 0;
	if (path->grh.sgid_index >= ctx->device->gid_count || !path->grh.hop_limit ||
	    !memcmp(&path->grh.dgid, &none, sizeof(none)))
		return EINVAL;
	return 0;
}

static int check_values(const struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct emu_config *config = &emu_ctx(qp->ibv.context)->config;

	if ((mask & IBV_QP_PORT) && attr->port_num != 1)
		return EINVAL;
	if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0)
		return EINVAL;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > config->max_rd_atomic)
		return EINVAL;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > config->max_rd_atomic)
		return EINVAL;
	if ((mask & IBV_QP_PATH_MTU) &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096 ||
	     128u << attr->path_mtu > config->mtu))
		return EINVAL;
	if ((mask & IBV_QP_DEST_QPN) && attr->dest_qp_num > 0xffffff)
		return EINVAL;
	if (((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > 7) ||
	    ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > 7) ||
	    ((mask & IBV_QP_TIMEOUT) && attr->timeout > 31) ||
	    ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31))
		return EINVAL;
	return mask & IBV_QP_AV ? check_path(qp, &attr->ah_attr) : 0;
}

int emu_modify_check(const struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = qp->ibv.state;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int error;

	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
		return EINVAL;
	error = check_transition(from, to, mask);
	return error ? error : check_values(qp, attr, mask);
}

#define STORE(bit, field)                                                                          \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			qp->attr.field = attr->field;                                              \
	} while (0)

void emu_modify_store(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	STORE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	STORE(IBV_QP_PKEY_INDEX, pkey_index);
	STORE(IBV_QP_PORT, port_num);
	STORE(IBV_QP_AV, ah_attr);
	STORE(IBV_QP_PATH_MTU, path_mtu);
	STORE(IBV_QP_TIMEOUT, timeout);
	STORE(IBV_QP_RETRY_CNT, retry_cnt);
	STORE(IBV_QP_RNR_RETRY, rnr_retry);
	STORE(IBV_QP_RQ_PSN, rq_psn);
	STORE(IBV_QP_SQ_PSN, sq_psn);
	STORE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	STORE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	STORE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	STORE(IBV_QP_DEST_QPN, dest_qp_num);
}
