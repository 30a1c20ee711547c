/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting of work requests to queue pairs. */
#include "tests/drivers/verbs/emu.h"

static bool inline_fits(const struct emu_queue *sq, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length <= sq->max_inline;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static int send_check(const struct emu_qp *qp, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		break;
	case IBV_WR_RDMA_READ:
		if (wr->send_flags & IBV_SEND_INLINE)
			return EINVAL;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		if (!emu_ctx(qp->ibv.context)->config.atomic || (wr->send_flags & IBV_SEND_INLINE))
			return EINVAL;
		break;
	default:
		return EINVAL;
	}
	if (wr->num_sge < 0 || (unsigned int)wr->num_sge > qp->sq.max_sge)
		return EINVAL;
	/* those of type 1 are bound by ibv_bind_mw */
	if (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.mw->type != IBV_MW_TYPE_2)
		return EINVAL;
	if ((wr->send_flags & IBV_SEND_INLINE) && !inline_fits(&qp->sq, wr))
		return EINVAL;
	return emu_queue_full(&qp->sq) ? ENOMEM : 0;
}

static void copy_inline(struct emu_queue *sq, struct emu_wqe *wqe, const struct ibv_send_wr *wr)
{
	uint8_t *data = emu_queue_data(sq, sq->posted);

	wqe->inline_length = 0;
	wqe->num_sge = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length)
			memcpy(data + wqe->inline_length, (const void *)(uintptr_t)sge->addr,
			       sge->length);
		wqe->inline_length += sge->length;
	}
}

static void send_enqueue(struct emu_qp *qp, const struct ibv_send_wr *wr)
{
	struct emu_queue *sq = &qp->sq;
	struct emu_wqe *wqe = emu_queue_wqe(sq, sq->posted);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags;
	wqe->imm = wr->imm_data;
	wqe->num_sge = (unsigned int)wr->num_sge;
	if (is_atomic(wr->opcode)) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else if (wr->opcode == IBV_WR_BIND_MW) {
		wqe->mw = wr->bind_mw.mw;
		wqe->rkey = wr->bind_mw.rkey;
		wqe->bind = wr->bind_mw.bind_info;
	} else {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	if (wr->send_flags & IBV_SEND_INLINE)
		copy_inline(sq, wqe, wr);
	else if (wqe->num_sge)
		memcpy(emu_queue_sge(sq, sq->posted), wr->sg_list,
		       wqe->num_sge * sizeof(*wr->sg_list));
	sq->posted++;
}

static bool may_send(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR;
}

int emu_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct emu_qp *qp = hm_container(ibv, struct emu_qp, ibv);
	int error = emu_call(CALL_ibv_post_send);

	emu_enter();
	if (!error && emu_gone(ibv->context))
		error = EIO;
	if (!error && !may_send(ibv->state))
		error = EINVAL;
	for (; !error && wr; wr = error ? wr : wr->next) {
		error = send_check(qp, wr);
		if (!error)
			send_enqueue(qp, wr);
	}
	if (error)
		*bad = wr;
	emu_qp_kick(qp);
	emu_leave();
	return error;
}

int emu_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct emu_qp *qp = hm_container(ibv, struct emu_qp, ibv);
	int error = emu_call(CALL_ibv_post_recv);

	emu_enter();
	if (!error && emu_gone(ibv->context))
		error = EIO;
	if (!error && (qp->srq || ibv->state == IBV_QPS_RESET))
		error = EINVAL;
	for (; !error && wr; wr = error ? wr : wr->next)
		error = emu_queue_recv(&qp->rq, wr);
	if (error)
		*bad = wr;
	if (ibv->state == IBV_QPS_ERR)
		emu_qp_error(qp); /* flushes them */
	emu_qp_kick_peer(qp);
	emu_leave();
	return error;
}

int emu_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct emu_qp *qp = hm_container(ibv, struct emu_qp, ibv);
	int error = emu_call(CALL_ibv_bind_mw);
	struct emu_wqe *wqe;

	if (error)
		return error;
	emu_enter();
	if (emu_gone(ibv->context))
		error = EIO;
	else if (!may_send(ibv->state))
		error = EINVAL;
	else if (emu_queue_full(&qp->sq))
		error = ENOMEM;
	if (!error) {
		wqe = emu_queue_wqe(&qp->sq, qp->sq.posted++);
		memset(wqe, 0, sizeof(*wqe));
		wqe->wr_id = bind->wr_id;
		wqe->opcode = IBV_WR_BIND_MW;
		wqe->flags = bind->send_flags;
		wqe->mw = mw;
		wqe->bind = bind->bind_info;
		/* The program reads the window's new key when the call returns. */
		wqe->rkey = ibv_inc_rkey(mw->rkey);
		emu_qp_kick(qp);
	}
	emu_leave();
	return error;
}
