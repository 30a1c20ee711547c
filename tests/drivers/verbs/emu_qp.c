/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: their life and their numbers. */
#include "tests/drivers/verbs/emu.h"

#define HASH_SIZE    4096u
#define FIRST_NUMBER 0x11u
#define LAST_NUMBER  0xfffff0u

static struct {
	struct hm_list all;
	struct hm_list hash[HASH_SIZE];
	uint32_t next;
} table = { .all = { &table.all, &table.all }, .next = FIRST_NUMBER };

static struct hm_list *bucket(uint32_t qp_num)
{
	struct hm_list *list = &table.hash[qp_num % HASH_SIZE];

	if (!list->next)
		hm_list_init(list);
	return list;
}

struct hm_list *emu_qp_all(void)
{
	return &table.all;
}

struct emu_qp *emu_qp_find(uint32_t qp_num)
{
	struct hm_list *list = bucket(qp_num);

	for (struct hm_list *at = list->next; at != list; at = at->next) {
		struct emu_qp *qp = hm_container(at, struct emu_qp, hash);

		if (qp->ibv.qp_num == qp_num)
			return qp;
	}
	return NULL;
}

static uint32_t new_number(void)
{
	do {
		table.next = table.next >= LAST_NUMBER ? FIRST_NUMBER : table.next + 1;
	} while (emu_qp_find(table.next));
	return table.next;
}

void emu_qp_kick(struct emu_qp *qp)
{
	if (qp->kicked)
		return;
	qp->kicked = true;
	hm_list_add_tail(&emu.run, &qp->run);
}

void emu_qp_kick_peer(const struct emu_qp *qp)
{
	struct emu_qp *peer = qp->attr.dest_qp_num ? emu_qp_find(qp->attr.dest_qp_num) : NULL;

	if (peer && peer->attr.dest_qp_num == qp->ibv.qp_num)
		emu_qp_kick(peer);
}

static void set_state(struct emu_qp *qp, enum ibv_qp_state state)
{
	qp->ibv.state = state;
	qp->attr.qp_state = state;
}

static void flush_receives(struct emu_qp *qp)
{
	struct emu_cq *cq = hm_container(qp->ibv.recv_cq, struct emu_cq, ibv);

	while (!emu_queue_idle(&qp->rq)) {
		struct emu_completion completion = { .qp = qp, .receive = true };

		completion.wc.wr_id = emu_queue_wqe(&qp->rq, qp->rq.next++)->wr_id;
		completion.wc.status = IBV_WC_WR_FLUSH_ERR;
		completion.wc.qp_num = qp->ibv.qp_num;
		emu_cq_push(cq, &completion, false);
	}
}

void emu_qp_error(struct emu_qp *qp)
{
	bool receiving = qp->ibv.state == IBV_QPS_RTR || qp->ibv.state == IBV_QPS_RTS ||
			 qp->ibv.state == IBV_QPS_SQD;

	set_state(qp, IBV_QPS_ERR);
	emu_qp_kick(qp);
	emu_qp_kick_peer(qp);
	if (qp->srq && receiving)
		emu_async_push(emu_ctx(qp->ibv.context), IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	else
		flush_receives(qp);
}

/* ---- creation ---- */
static int check_caps(const struct emu_config *config, const struct ibv_qp_init_attr *init)
{
	const struct ibv_qp_cap *cap = &init->cap;

	if (cap->max_send_wr > config->max_qp_wr || cap->max_recv_wr > config->max_qp_wr ||
	    cap->max_send_sge > config->max_sge || cap->max_recv_sge > config->max_sge ||
	    cap->max_inline_data > config->max_inline)
		return EINVAL;
	return 0;
}

static int create_check(const struct emu_context *ctx, const struct ibv_qp_init_attr *init)
{
	if (ctx->device->removed)
		return EIO;
	if (init->qp_type != IBV_QPT_RC || ctx->config.transport == IBV_TRANSPORT_UNSPECIFIED)
		return EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return EINVAL;
	if (ctx->used.qp >= ctx->config.max_qp)
		return ENOMEM;
	return check_caps(&ctx->config, init);
}

static void hold(struct emu_qp *qp, unsigned int change)
{
	hm_container(qp->ibv.send_cq, struct emu_cq, ibv)->users += change;
	hm_container(qp->ibv.recv_cq, struct emu_cq, ibv)->users += change;
	hm_container(qp->ibv.pd, struct emu_pd, ibv)->children += change;
	if (qp->srq)
		qp->srq->users += change;
	emu_ctx(qp->ibv.context)->used.qp += (uint64_t)(int64_t)(int)change;
	emu_count(qp->ibv.context, qps, (int)change);
}

static void qp_init(struct emu_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *ibv = &qp->ibv;

	init->cap.max_send_sge = qp->sq.max_sge;
	init->cap.max_recv_sge = qp->rq.max_sge;
	if (init->srq) {
		init->cap.max_recv_wr = 0;
		init->cap.max_recv_sge = 0;
		qp->srq = hm_container(init->srq, struct emu_srq, ibv);
	}
	qp->init = *init;
	ibv->context = pd->context;
	ibv->qp_context = init->qp_context;
	ibv->pd = pd;
	ibv->send_cq = init->send_cq;
	ibv->recv_cq = init->recv_cq;
	ibv->srq = init->srq;
	ibv->qp_num = new_number();
	ibv->handle = ibv->qp_num;
	ibv->qp_type = init->qp_type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	hm_list_init(&qp->run);
	hm_list_init(&qp->wait);
	hm_list_add_tail(&table.all, &qp->entry);
	hm_list_add_tail(bucket(ibv->qp_num), &qp->hash);
	hold(qp, 1);
}

static int open_queues(struct emu_qp *qp, const struct ibv_qp_init_attr *init)
{
	const struct ibv_qp_cap *cap = &init->cap;
	int error = emu_queue_open(&qp->sq, cap->max_send_wr,
				   cap->max_send_sge ? cap->max_send_sge : 1, cap->max_inline_data);

	if (error)
		return error;
	error = emu_queue_open(&qp->rq, init->srq ? 0 : cap->max_recv_wr,
			       cap->max_recv_sge ? cap->max_recv_sge : 1, 0);
	if (error)
		emu_queue_close(&qp->sq);
	return error;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	int error = emu_call(CALL_ibv_create_qp);
	struct emu_qp *qp = error ? NULL : calloc(1, sizeof(*qp));

	if (!qp) {
		errno = error ? error : ENOMEM;
		return NULL;
	}
	emu_enter();
	error = create_check(emu_ctx(pd->context), init);
	if (!error)
		error = open_queues(qp, init);
	if (!error)
		qp_init(qp, pd, init);
	emu_leave();
	if (!error)
		return &qp->ibv;
	free(qp);
	errno = error;
	return NULL;
}

/* ---- change, query ---- */
static void drop_completions(struct emu_qp *qp)
{
	emu_cq_drop(hm_container(qp->ibv.send_cq, struct emu_cq, ibv), qp);
	if (qp->ibv.recv_cq != qp->ibv.send_cq)
		emu_cq_drop(hm_container(qp->ibv.recv_cq, struct emu_cq, ibv), qp);
}

static void reset(struct emu_qp *qp)
{
	emu_qp_kick_peer(qp);
	drop_completions(qp);
	emu_queue_reset(&qp->sq);
	emu_queue_reset(&qp->rq);
	memset(&qp->attr, 0, sizeof(qp->attr));
	set_state(qp, IBV_QPS_RESET);
	hm_list_del(&qp->wait);
	qp->severed = false;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct emu_qp *qp = hm_container(ibv, struct emu_qp, ibv);
	int error = emu_call(CALL_ibv_modify_qp);

	if (error)
		return error;
	emu_enter();
	error = emu_gone(ibv->context) ? EIO : emu_modify_check(qp, attr, mask);
	if (!error) {
		emu_modify_store(qp, attr, mask);
		if (mask & IBV_QP_STATE) {
			if (attr->qp_state == IBV_QPS_RESET)
				reset(qp);
			else if (attr->qp_state == IBV_QPS_ERR)
				emu_qp_error(qp);
			else
				set_state(qp, attr->qp_state);
			emu_qp_kick(qp);
			emu_qp_kick_peer(qp);
		}
	}
	emu_leave();
	return error;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct emu_qp *qp = hm_container(ibv, struct emu_qp, ibv);
	int error = emu_call(CALL_ibv_query_qp);

	(void)mask;
	if (error)
		return error;
	emu_enter();
	if (emu_gone(ibv->context)) {
		error = EIO;
	} else {
		*attr = qp->attr;
		attr->qp_state = ibv->state;
		attr->cur_qp_state = ibv->state;
		attr->cap = qp->init.cap;
		*init = qp->init;
	}
	emu_leave();
	return error;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct emu_qp *qp = hm_container(ibv, struct emu_qp, ibv);
	struct emu_context *ctx = emu_ctx(ibv->context);
	int error = emu_call(CALL_ibv_destroy_qp);

	if (error)
		return error;
	emu_enter();
	emu_qp_kick_peer(qp);
	hm_list_del(&qp->hash);
	hm_list_del(&qp->entry);
	hm_list_del(&qp->wait);
	hm_list_del(&qp->run);
	drop_completions(qp);
	emu_loop_forget(ibv);
	emu_async_drop(ctx, qp);
	emu_wait_acked(&ibv->events_completed, &qp->delivered);
	hold(qp, (unsigned int)-1);
	emu_queue_close(&qp->sq);
	emu_queue_close(&qp->rq);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	if (ctx->device->removed)
		error = emu_bury(ibv->context, qp);
	else
		free(qp);
	emu_leave();
	return error;
}
