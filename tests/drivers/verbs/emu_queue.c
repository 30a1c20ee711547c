/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues, and shared receive queues. */
#include "tests/drivers/verbs/emu.h"

int emu_queue_open(struct emu_queue *queue, unsigned int size, unsigned int max_sge,
		   unsigned int max_inline)
{
	queue->size = size;
	queue->max_sge = max_sge;
	queue->max_inline = max_inline;
	queue->wqe = calloc(size + 1, sizeof(*queue->wqe));
	queue->sge = calloc((size_t)size * max_sge + 1, sizeof(*queue->sge));
	queue->data = calloc((size_t)size * max_inline + 1, 1);
	if (queue->wqe && queue->sge && queue->data)
		return 0;
	emu_queue_close(queue);
	return ENOMEM;
}

void emu_queue_close(struct emu_queue *queue)
{
	free(queue->wqe);
	free(queue->sge);
	free(queue->data);
	memset(queue, 0, sizeof(*queue));
}

int emu_queue_recv(struct emu_queue *queue, const struct ibv_recv_wr *wr)
{
	struct emu_wqe *wqe;

	if (wr->num_sge < 0 || (unsigned int)wr->num_sge > queue->max_sge)
		return EINVAL;
	if (emu_queue_full(queue))
		return ENOMEM;
	wqe = emu_queue_wqe(queue, queue->posted);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (unsigned int)wr->num_sge;
	if (wqe->num_sge)
		memcpy(emu_queue_sge(queue, queue->posted), wr->sg_list,
		       wqe->num_sge * sizeof(*wr->sg_list));
	queue->posted++;
	return 0;
}

/* ---- shared receive queues ---- */
static struct emu_srq *to_srq(struct ibv_srq *srq)
{
	return hm_container(srq, struct emu_srq, ibv);
}

static int srq_check(const struct emu_context *ctx, const struct ibv_srq_attr *attr)
{
	if (ctx->device->removed)
		return EIO;
	if (!attr->max_wr || attr->max_wr > ctx->config.max_srq_wr ||
	    attr->max_sge > ctx->config.max_srq_sge)
		return EINVAL;
	return ctx->used.srq >= ctx->config.max_srq ? ENOMEM : 0;
}

static void srq_init(struct emu_srq *srq, struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct emu_context *ctx = emu_ctx(pd->context);

	srq->ibv.context = pd->context;
	srq->ibv.srq_context = init->srq_context;
	srq->ibv.pd = pd;
	srq->ibv.handle = (uint32_t)ctx->used.srq++;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	hm_list_init(&srq->waiting);
	hm_container(pd, struct emu_pd, ibv)->children++;
	emu_count(pd->context, srqs, 1);
	init->attr.max_sge = srq->queue.max_sge;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	int error = emu_call(CALL_ibv_create_srq);
	struct emu_srq *srq = error ? NULL : calloc(1, sizeof(*srq));

	if (!srq) {
		errno = error ? error : ENOMEM;
		return NULL;
	}
	emu_enter();
	error = srq_check(emu_ctx(pd->context), &init->attr);
	if (!error)
		error = emu_queue_open(&srq->queue, init->attr.max_wr,
				       init->attr.max_sge ? init->attr.max_sge : 1, 0);
	if (!error)
		srq_init(srq, pd, init);
	emu_leave();
	if (!error)
		return &srq->ibv;
	free(srq);
	errno = error;
	return NULL;
}

/* The limit is reached when fewer requests than it are waiting. */
int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct emu_srq *srq = to_srq(ibv);
	int error = emu_call(CALL_ibv_modify_srq);

	if (error)
		return error;
	if (mask & ~IBV_SRQ_LIMIT)
		return EINVAL;
	emu_enter();
	if (emu_gone(ibv->context))
		error = EIO;
	else if (attr->srq_limit > srq->queue.size)
		error = EINVAL;
	else if (mask)
		srq->limit = attr->srq_limit;
	emu_leave();
	return error;
}

int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	struct emu_srq *srq = to_srq(ibv);
	int error = emu_call(CALL_ibv_query_srq);

	if (error)
		return error;
	emu_enter();
	attr->max_wr = srq->queue.size;
	attr->max_sge = srq->queue.max_sge;
	attr->srq_limit = srq->limit;
	emu_leave();
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct emu_srq *srq = to_srq(ibv);
	struct emu_context *ctx = emu_ctx(ibv->context);
	int error = emu_call(CALL_ibv_destroy_srq);

	if (error)
		return error;
	emu_enter();
	if (srq->users) {
		emu_leave();
		return EBUSY;
	}
	emu_async_drop(ctx, srq);
	emu_wait_acked(&ibv->events_completed, &srq->delivered);
	ctx->used.srq--;
	hm_container(ibv->pd, struct emu_pd, ibv)->children--;
	emu_count(ibv->context, srqs, -1);
	emu_queue_close(&srq->queue);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	if (ctx->device->removed)
		error = emu_bury(ibv->context, srq);
	else
		free(srq);
	emu_leave();
	return error;
}

int emu_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct emu_srq *srq = to_srq(ibv);
	int error = emu_call(CALL_ibv_post_srq_recv);

	emu_enter();
	if (!error && emu_gone(ibv->context))
		error = EIO;
	for (; !error && wr; wr = error ? wr : wr->next)
		error = emu_queue_recv(&srq->queue, wr);
	if (error)
		*bad = wr;
	/* Whoever waited longest is served first; who finds nothing waits again. */
	while (!hm_list_empty(&srq->waiting)) {
		struct emu_qp *qp = hm_container(srq->waiting.next, struct emu_qp, wait);

		hm_list_del(&qp->wait);
		emu_qp_kick(qp);
	}
	emu_leave();
	return error;
}
