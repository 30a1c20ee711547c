/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable connections: the carrying out of work requests, from one queue pair to its peer. */
#include "tests/drivers/verbs/emu.h"

/* Not a status of verbs.h: the request has to wait. */
#define STALLED ((enum ibv_wc_status)0x100)

struct request {
	struct emu_qp *qp, *peer;
	struct emu_wqe *wqe;
	struct emu_segment local[EMU_SEGMENTS];
	unsigned int segments;
	uint64_t length;
};

static struct emu_cq *to_cq(struct ibv_cq *cq)
{
	return hm_container(cq, struct emu_cq, ibv);
}

static bool port_works(const struct emu_qp *qp)
{
	const struct emu_device *device = emu_ctx(qp->ibv.context)->device;

	return !device->removed && device->port_state == IBV_PORT_ACTIVE;
}

/* ---- completions ---- */
static enum ibv_wc_opcode completion_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	default:
		return IBV_WC_SEND;
	}
}

/* The request at the queue's head is done. */
static void complete_send(struct emu_qp *qp, const struct emu_wqe *wqe, enum ibv_wc_status status,
			  uint64_t length)
{
	struct emu_completion completion = { .qp = qp, .sq_tail = qp->sq.next + 1 };

	qp->sq.next++;
	if (status == IBV_WC_SUCCESS && !(wqe->flags & IBV_SEND_SIGNALED) && !qp->init.sq_sig_all)
		return;
	completion.wc.wr_id = wqe->wr_id;
	completion.wc.status = status;
	completion.wc.opcode = completion_opcode(wqe->opcode);
	completion.wc.qp_num = qp->ibv.qp_num;
	completion.wc.byte_len = (uint32_t)length;
	emu_cq_push(to_cq(qp->ibv.send_cq), &completion, false);
}

static void complete_receive(const struct request *request, uint64_t wr_id,
			     enum ibv_wc_status status)
{
	const struct emu_wqe *wqe = request->wqe;
	struct emu_qp *qp = request->peer;
	struct emu_completion completion = { .qp = qp, .srq = qp->srq, .receive = true };
	bool write = wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	completion.wc.wr_id = wr_id;
	completion.wc.status = status;
	completion.wc.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	completion.wc.byte_len = (uint32_t)request->length;
	completion.wc.qp_num = qp->ibv.qp_num;
	completion.wc.src_qp = request->qp->ibv.qp_num;
	if (write || wqe->opcode == IBV_WR_SEND_WITH_IMM) {
		completion.wc.imm_data = wqe->imm;
		completion.wc.wc_flags = IBV_WC_WITH_IMM;
	}
	emu_cq_push(to_cq(qp->ibv.recv_cq), &completion, wqe->flags & IBV_SEND_SOLICITED);
}

/* The responder found something wrong: STATUS is what the requester is told. */
static enum ibv_wc_status responder_error(struct emu_qp *peer, enum ibv_event_type event,
					  enum ibv_wc_status status)
{
	emu_async_push(emu_ctx(peer->ibv.context), event, peer);
	emu_qp_error(peer);
	return status;
}

/* ---- local memory ---- */
/* The host segments of a scatter/gather list; the number, or -1: a key does not allow it. */
static int translate_list(const struct ibv_pd *pd, const struct ibv_sge *sge, unsigned int count,
			  unsigned int access, struct emu_segment *segments, uint64_t *length)
{
	unsigned int used = 0;

	*length = 0;
	for (unsigned int i = 0; i < count; i++) {
		if (!sge[i].length)
			continue;
		segments[used].addr = emu_translate_local(pd, &sge[i], access);
		segments[used].length = sge[i].length;
		if (!segments[used++].addr)
			return -1;
		*length += sge[i].length;
	}
	return (int)used;
}

static enum ibv_wc_status local_segments(struct request *request, unsigned int access)
{
	struct emu_qp *qp = request->qp;
	struct emu_wqe *wqe = request->wqe;
	int count;

	if (wqe->flags & IBV_SEND_INLINE) {
		request->local[0].addr = emu_queue_data(&qp->sq, qp->sq.next);
		request->local[0].length = wqe->inline_length;
		request->segments = 1;
		request->length = wqe->inline_length;
		return IBV_WC_SUCCESS;
	}
	count = translate_list(qp->ibv.pd, emu_queue_sge(&qp->sq, qp->sq.next), wqe->num_sge,
			       access, request->local, &request->length);
	if (count < 0)
		return IBV_WC_LOC_PROT_ERR;
	request->segments = (unsigned int)count;
	return request->length > emu_ctx(qp->ibv.context)->config.max_msg ? IBV_WC_LOC_LEN_ERR
									  : IBV_WC_SUCCESS;
}

/* ---- receives ---- */
static struct emu_queue *receive_queue(struct emu_qp *peer)
{
	return peer->srq ? &peer->srq->queue : &peer->rq;
}

/* Is there something to receive into?  If not, the requester waits or gives up. */
static enum ibv_wc_status receive_ready(const struct request *request)
{
	struct emu_qp *peer = request->peer;

	if (!emu_queue_idle(receive_queue(peer)))
		return IBV_WC_SUCCESS;
	if (request->qp->attr.rnr_retry == 0)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	if (peer->srq && hm_list_empty(&request->qp->wait))
		hm_list_add_tail(&peer->srq->waiting, &request->qp->wait);
	return STALLED;
}

static void take_receive(struct emu_qp *peer)
{
	struct emu_queue *queue = receive_queue(peer);

	queue->next++;
	if (peer->srq && peer->srq->limit && queue->posted - queue->next < peer->srq->limit) {
		peer->srq->limit = 0;
		emu_async_push(emu_ctx(peer->ibv.context), IBV_EVENT_SRQ_LIMIT_REACHED, peer->srq);
	}
}

/* The receive that is being filled cannot take the message. */
static enum ibv_wc_status receive_error(const struct request *request, uint64_t wr_id,
					enum ibv_wc_status receiver, enum ibv_wc_status requester)
{
	complete_receive(request, wr_id, receiver);
	emu_qp_error(request->peer);
	return requester;
}

static enum ibv_wc_status do_send(struct request *request)
{
	struct emu_qp *peer = request->peer;
	struct emu_queue *queue = receive_queue(peer);
	struct emu_segment room[EMU_SEGMENTS];
	enum ibv_wc_status status = receive_ready(request);
	uint64_t number = queue->next, size, wr_id;
	int count;

	if (status)
		return status;
	wr_id = emu_queue_wqe(queue, number)->wr_id;
	take_receive(peer);
	count = translate_list(peer->srq ? peer->srq->ibv.pd : peer->ibv.pd,
			       emu_queue_sge(queue, number), emu_queue_wqe(queue, number)->num_sge,
			       IBV_ACCESS_LOCAL_WRITE, room, &size);
	if (count < 0)
		return receive_error(request, wr_id, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
	if (size < request->length)
		return receive_error(request, wr_id, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
	switch (emu_memory_copy(room, request->local, request->length)) {
	case EMU_SOURCE_FAULT:
		/* Nothing arrives; the receive was not used up. */
		queue->next--;
		return IBV_WC_LOC_PROT_ERR;
	case EMU_TARGET_FAULT:
		return receive_error(request, wr_id, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
	default:
		complete_receive(request, wr_id, IBV_WC_SUCCESS);
		return IBV_WC_SUCCESS;
	}
}

/* ---- remote memory ---- */
static enum ibv_wc_status remote_access_error(struct request *request)
{
	return responder_error(request->peer, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
}

static enum ibv_wc_status remote_request_error(struct request *request)
{
	return responder_error(request->peer, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
}

/* Where at the peer the request means; SEGMENTS has room for EMU_SEGMENTS. */
static enum ibv_wc_status remote_segments(struct request *request, uint64_t length,
					  unsigned int access, struct emu_segment *segments)
{
	const struct emu_wqe *wqe = request->wqe;
	struct emu_qp *peer = request->peer;

	if (!(peer->attr.qp_access_flags & access))
		return remote_request_error(request);
	if (length && emu_translate_remote(peer->ibv.pd, peer->ibv.qp_num, wqe->rkey,
					   wqe->remote_addr, length, access, segments) < 0)
		return remote_access_error(request);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_write(struct request *request)
{
	bool imm = request->wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct emu_queue *queue = receive_queue(request->peer);
	enum ibv_wc_status status = imm ? receive_ready(request) : IBV_WC_SUCCESS;
	uint64_t wr_id, lose = emu_ctx(request->qp->ibv.context)->config.lose;
	struct emu_segment remote[EMU_SEGMENTS];

	if (!status)
		status = remote_segments(request, request->length, IBV_ACCESS_REMOTE_WRITE, remote);
	if (status)
		return status;
	if (lose == 2 && request->length)
		remote[0].addr -= 16;
	if (lose == 3)
		return remote_access_error(request);
	switch (lose == 1 ? EMU_COPIED : emu_memory_copy(remote, request->local, request->length)) {
	case EMU_SOURCE_FAULT:
		return IBV_WC_LOC_PROT_ERR;
	case EMU_TARGET_FAULT:
		return remote_access_error(request);
	default:
		break;
	}
	if (imm) {
		wr_id = emu_queue_wqe(queue, queue->next)->wr_id;
		take_receive(request->peer);
		complete_receive(request, wr_id, IBV_WC_SUCCESS);
	}
	return IBV_WC_SUCCESS;
}

/* Reads and atomics need resources at both ends. */
static enum ibv_wc_status check_depth(struct request *request)
{
	if (!request->qp->attr.max_rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	return request->peer->attr.max_dest_rd_atomic ? IBV_WC_SUCCESS
						      : remote_request_error(request);
}

static enum ibv_wc_status do_read(struct request *request)
{
	struct emu_segment remote[EMU_SEGMENTS];
	enum ibv_wc_status status = check_depth(request);

	if (!status)
		status = remote_segments(request, request->length, IBV_ACCESS_REMOTE_READ, remote);
	if (status)
		return status;
	switch (emu_memory_copy(request->local, remote, request->length)) {
	case EMU_SOURCE_FAULT:
		return remote_access_error(request);
	case EMU_TARGET_FAULT:
		return IBV_WC_LOC_PROT_ERR;
	default:
		return IBV_WC_SUCCESS;
	}
}

/* One mutex serves all devices, so reading and writing apart is atomic among them. */
static enum ibv_wc_status do_atomic(struct request *request)
{
	const struct emu_wqe *wqe = request->wqe;
	struct emu_segment remote[EMU_SEGMENTS], from, to;
	enum ibv_wc_status status = check_depth(request);
	uint64_t old, changed;

	if (status)
		return status;
	if (request->length != sizeof(old))
		return IBV_WC_LOC_LEN_ERR;
	if (wqe->remote_addr % sizeof(old))
		return remote_request_error(request);
	status = remote_segments(request, sizeof(old), IBV_ACCESS_REMOTE_ATOMIC, remote);
	if (status)
		return status;
	from = remote[0];
	to = (struct emu_segment){ (uint8_t *)&old, sizeof(old) };
	if (emu_memory_copy(&to, &from, sizeof(old)))
		return remote_access_error(request);
	changed = wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + wqe->compare_add
		  : old == wqe->compare_add		     ? wqe->swap
							     : old;
	from = (struct emu_segment){ (uint8_t *)&changed, sizeof(changed) };
	if (emu_memory_copy(remote, &from, sizeof(changed)))
		return remote_access_error(request);
	from = (struct emu_segment){ (uint8_t *)&old, sizeof(old) };
	return emu_memory_copy(request->local, &from, sizeof(old)) ? IBV_WC_LOC_PROT_ERR
								   : IBV_WC_SUCCESS;
}

/* ---- the send queue ---- */
/* Finds the peer.  Success: it answers. */
static enum ibv_wc_status find_peer(struct request *request)
{
	struct emu_qp *qp = request->qp;
	struct emu_qp *peer = emu_qp_find(qp->attr.dest_qp_num);

	if (qp->severed || !port_works(qp) || !peer || peer->severed || !port_works(peer))
		return IBV_WC_RETRY_EXC_ERR;
	request->peer = peer;
	switch (peer->ibv.state) {
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
		return STALLED; /* tried again until it can receive */
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
		return peer->attr.dest_qp_num == qp->ibv.qp_num ? IBV_WC_SUCCESS
								: IBV_WC_RETRY_EXC_ERR;
	default:
		return IBV_WC_RETRY_EXC_ERR;
	}
}

static enum ibv_wc_status execute(struct request *request)
{
	struct emu_wqe *wqe = request->wqe;
	const struct emu_qp *qp = request->qp;
	bool writes_local = wqe->opcode == IBV_WR_RDMA_READ ||
			    wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			    wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	enum ibv_wc_status status;

	if (wqe->opcode == IBV_WR_BIND_MW)
		return emu_mw_bind(qp->ibv.pd, qp->ibv.qp_num, wqe->mw, wqe->rkey, &wqe->bind);
	if (wqe->opcode == IBV_WR_LOCAL_INV)
		return emu_mw_invalidate(qp->ibv.pd, wqe->imm);
	status = local_segments(request, writes_local ? IBV_ACCESS_LOCAL_WRITE : 0);
	if (!status)
		status = find_peer(request);
	if (status)
		return status;
	switch (wqe->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return do_write(request);
	case IBV_WR_RDMA_READ:
		return do_read(request);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return do_atomic(request);
	default:
		return do_send(request);
	}
}

void emu_qp_serve(struct emu_qp *qp)
{
	struct emu_queue *sq = &qp->sq;

	hm_list_del(&qp->wait);
	while (!emu_queue_idle(sq) && !emu_gone(qp->ibv.context)) {
		struct request request = { .qp = qp };
		enum ibv_wc_status status;

		request.wqe = emu_queue_wqe(sq, sq->next);
		if (qp->ibv.state == IBV_QPS_ERR) {
			complete_send(qp, request.wqe, IBV_WC_WR_FLUSH_ERR, 0);
			continue;
		}
		if (qp->ibv.state != IBV_QPS_RTS)
			return;
		status = execute(&request);
		if (status == STALLED)
			return;
		complete_send(qp, request.wqe, status, request.length);
		if (status != IBV_WC_SUCCESS && qp->ibv.state != IBV_QPS_ERR)
			emu_qp_error(qp);
	}
}
