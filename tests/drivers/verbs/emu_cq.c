/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and the channels that tell of them. */
#include "tests/drivers/verbs/emu.h"
#include "tests/drivers/emu_trace.h"

/* In the channel's queue, and in the completion queue's list of events that were not yet taken. */
struct emu_cq_event {
	struct hm_list entry;
	struct hm_list of_cq;
	struct emu_cq *cq;
};

static struct emu_cq *to_cq(struct ibv_cq *cq)
{
	return hm_container(cq, struct emu_cq, ibv);
}

static struct emu_comp_channel *to_channel(struct ibv_comp_channel *channel)
{
	return hm_container(channel, struct emu_comp_channel, ibv);
}

/* ---- channels ---- */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	int error = emu_call(CALL_ibv_create_comp_channel);
	struct emu_comp_channel *channel = error ? NULL : calloc(1, sizeof(*channel));

	if (!error)
		error = channel ? emu_channel_open(&channel->queue) : ENOMEM;
	if (error) {
		free(channel);
		errno = error;
		return NULL;
	}
	channel->ibv.context = context;
	channel->ibv.fd = channel->queue.fd;
	emu_enter();
	emu_count(context, comp_channels, 1);
	emu_leave();
	return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct emu_comp_channel *channel = to_channel(ibv);
	int error = emu_call(CALL_ibv_destroy_comp_channel);

	if (error)
		return error;
	emu_enter();
	if (ibv->refcnt) {
		error = EBUSY;
	} else {
		emu_count(ibv->context, comp_channels, -1);
		emu_channel_close(&channel->queue);
		free(channel);
	}
	emu_leave();
	return error;
}

/* ---- completion queues ---- */
static int create_check(const struct emu_context *ctx, int cqe, int comp_vector)
{
	if (ctx->device->removed)
		return EIO;
	if (cqe < 1 || (uint64_t)cqe > ctx->config.max_cqe || comp_vector < 0 ||
	    comp_vector >= ctx->verbs.context.num_comp_vectors)
		return EINVAL;
	return ctx->used.cq >= ctx->config.max_cq ? ENOMEM : 0;
}

static void cq_init(struct emu_cq *cq, struct ibv_context *context, int cqe, void *cq_context,
		    struct ibv_comp_channel *channel)
{
	struct emu_context *ctx = emu_ctx(context);

	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = cqe;
	cq->ibv.handle = (uint32_t)ctx->used.cq++;
	cq->size = (unsigned int)cqe;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	hm_list_init(&cq->events);
	if (channel)
		channel->refcnt++;
	emu_count(context, cqs, 1);
}

static void cq_free(struct emu_cq *cq)
{
	free(cq->ring);
	free(cq);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	int error = emu_call(CALL_ibv_create_cq);
	struct emu_cq *cq = error ? NULL : calloc(1, sizeof(*cq));

	if (!cq) {
		errno = error ? error : ENOMEM;
		return NULL;
	}
	emu_enter();
	error = create_check(emu_ctx(context), cqe, comp_vector);
	if (!error) {
		cq->ring = calloc((size_t)cqe, sizeof(*cq->ring));
		error = cq->ring ? 0 : ENOMEM;
	}
	if (!error)
		cq_init(cq, context, cqe, cq_context, channel);
	emu_leave();
	if (!error)
		return &cq->ibv;
	cq_free(cq);
	errno = error;
	return NULL;
}

static void drop_events(struct emu_cq *cq)
{
	while (!hm_list_empty(&cq->events)) {
		struct emu_cq_event *event =
			hm_container(cq->events.next, struct emu_cq_event, of_cq);

		hm_list_del(&event->of_cq);
		emu_channel_remove(&to_channel(cq->ibv.channel)->queue, &event->entry);
		free(event);
	}
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct emu_cq *cq = to_cq(ibv);
	struct emu_context *ctx = emu_ctx(ibv->context);
	int error = emu_call(CALL_ibv_destroy_cq);

	if (error)
		return error;
	emu_enter();
	if (cq->users) {
		emu_leave();
		return EBUSY;
	}
	drop_events(cq);
	emu_async_drop(ctx, cq);
	emu_wait_acked(&ibv->comp_events_completed, &cq->delivered);
	emu_wait_acked(&ibv->async_events_completed, &cq->async_delivered);
	if (ibv->channel)
		ibv->channel->refcnt--;
	ctx->used.cq--;
	emu_count(ibv->context, cqs, -1);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	if (ctx->device->removed) {
		free(cq->ring);
		error = emu_bury(ibv->context, cq);
	} else {
		cq_free(cq);
	}
	emu_leave();
	return error;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq;
	(void)cqe;
	return EOPNOTSUPP;
}

/* ---- completions ---- */
static void notify(struct emu_cq *cq)
{
	struct emu_cq_event *event;

	cq->armed = 0;
	if (!cq->ibv.channel)
		return;
	event = calloc(1, sizeof(*event));
	if (!event)
		abort();
	event->cq = cq;
	hm_list_add_tail(&cq->events, &event->of_cq);
	emu_channel_push(&to_channel(cq->ibv.channel)->queue, &event->entry);
}

static void overrun(struct emu_cq *cq)
{
	cq->overrun = true;
	emu_async_push(emu_ctx(cq->ibv.context), IBV_EVENT_CQ_ERR, cq);
	for (struct hm_list *at = emu_qp_all()->next; at != emu_qp_all(); at = at->next) {
		struct emu_qp *qp = hm_container(at, struct emu_qp, entry);

		if ((qp->ibv.send_cq == &cq->ibv || qp->ibv.recv_cq == &cq->ibv) &&
		    qp->ibv.state != IBV_QPS_ERR && qp->ibv.state != IBV_QPS_RESET) {
			emu_async_push(emu_ctx(qp->ibv.context), IBV_EVENT_QP_FATAL, qp);
			emu_qp_error(qp);
		}
	}
}

void emu_cq_push(struct emu_cq *cq, const struct emu_completion *completion, bool solicited)
{
	if (cq->overrun || emu_gone(cq->ibv.context))
		return;
	if (cq->count == cq->size) {
		overrun(cq);
		return;
	}
	cq->ring[(cq->head + cq->count) % cq->size] = *completion;
	cq->count++;
	if (cq->armed == 1 ||
	    (cq->armed == 2 && (solicited || completion->wc.status != IBV_WC_SUCCESS)))
		notify(cq);
}

/* The slots that a completion frees when it is taken out. */
static void retire(const struct emu_completion *completion)
{
	if (completion->srq)
		completion->srq->queue.retired++;
	else if (completion->receive)
		completion->qp->rq.retired++;
	else if (completion->sq_tail > completion->qp->sq.retired)
		completion->qp->sq.retired = completion->sq_tail;
}

void emu_cq_drop(struct emu_cq *cq, const struct emu_qp *qp)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < cq->count; i++) {
		struct emu_completion *from = &cq->ring[(cq->head + i) % cq->size];

		if (from->qp == qp)
			retire(from);
		else
			cq->ring[(cq->head + kept++) % cq->size] = *from;
	}
	cq->count = kept;
}

/* Only some fields are valid with an error: the others get values that a program notices to be wrong. */
static void give(const struct emu_completion *completion, struct ibv_wc *wc)
{
	*wc = completion->wc;
	if (wc->status == IBV_WC_SUCCESS)
		return;
	wc->opcode = (enum ibv_wc_opcode)0x55;
	wc->byte_len = 0x55555555;
	wc->imm_data = 0x55555555;
	wc->wc_flags = 0;
}

int emu_poll_cq(struct ibv_cq *ibv, int num_entries, struct ibv_wc *wc)
{
	struct emu_cq *cq = to_cq(ibv);
	int taken = 0;
	int error = emu_call(CALL_ibv_poll_cq);

	if (error) {
		errno = error;
		return -1;
	}
	emu_enter();
	while (taken < num_entries && cq->count) {
		const struct emu_completion *completion = &cq->ring[cq->head];

		give(completion, &wc[taken++]);
		retire(completion);
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	emu_leave();
	if (taken)
		emu_trace("verbs", "ibv_poll_cq");
	return taken;
}

int emu_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct emu_cq *cq = to_cq(ibv);
	int error = emu_call(CALL_ibv_req_notify_cq);

	if (error)
		return error;
	emu_enter();
	if (emu_gone(ibv->context))
		error = EIO;
	else if (!solicited_only)
		cq->armed = 1;
	else if (!cq->armed)
		cq->armed = 2;
	emu_leave();
	return error;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct hm_list *entry;
	struct emu_cq_event *event;
	int error = emu_call(CALL_ibv_get_cq_event);

	if (error) {
		errno = error;
		return -1;
	}
	entry = emu_channel_pop(&to_channel(channel)->queue);
	if (!entry)
		return -1;
	event = hm_container(entry, struct emu_cq_event, entry);
	hm_list_del(&event->of_cq);
	event->cq->delivered++;
	emu.counts.unacked++;
	*cq = &event->cq->ibv;
	*cq_context = event->cq->ibv.cq_context;
	free(event);
	emu_leave();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	emu_enter();
	cq->comp_events_completed += nevents;
	emu.counts.unacked -= nevents;
	pthread_cond_broadcast(&emu.acked);
	emu_leave();
}
