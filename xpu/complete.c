/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions and counters, on their way to a device: from the host's queue, into which the NIC completes, to the
 * ring that the device reads, as many as there is room for; from the host's counter to the words that mirror it.
 *
 * What a completion stands for must be there for who sees it (xpu.h, VISIBILITY): each is taken first, then the
 * interface flushes what the NIC may have written, then it is published with release order.
 */
#include "xpu/xpu.h"

#define RING_LEAST 64u
#define RING_MOST  4096u
#define BATCH	   32u /* completions of one poll */

/*
 * The interface, where a NIC's writes into the device's memory have to be flushed; else NULL.  A NIC that has
 * the interface copy writes nothing itself, and a copy is done when it says so.
 */
static const struct hmem_ops *flusher(const struct hm_xpu_own *ctx)
{
	bool writes = ctx->domain->nic->port->ways & (NIC_WAY_DMABUF | NIC_WAY_PEER);
	const struct hmem_ops *ops = writes && ctx->iface != FI_HMEM_SYSTEM ? hmem_get(ctx->iface)
									    : NULL;

	return ops && ops->needs_flush((int)ctx->device) ? ops : NULL;
}

/* ---- queues ---- */

struct queue {
	struct hm_xpu_part part;
	struct nic_cq *cq;
	const struct hmem_ops *flush; /* NULL: nothing is to be flushed */
	char *slots;
	uint32_t mask;
	uint64_t next; /* number of the next completion to write */
};

/* Slots that the device has read, from next on, up to BATCH.  Without any, the next one that it reads is news. */
static unsigned room(struct queue *queue)
{
	unsigned n = 0;

	for (; n < BATCH; n++) {
		const uint64_t *seq = xpu_ring_seq(queue->slots, queue->mask, queue->next + n);
		uint64_t value = xpu_load(seq);

		if (value == queue->next + n)
			continue;
		if (n == 0) {
			queue->part.word = seq;
			queue->part.still = value;
		}
		break;
	}
	return n;
}

static void publish(struct queue *queue, const struct nic_comp *comp)
{
	uint64_t *seq = xpu_ring_seq(queue->slots, queue->mask, queue->next);
	struct hmreg_xpu_cqe *slot = (void *)seq;

	slot->context = (uintptr_t)comp->op_context;
	slot->flags = comp->flags;
	slot->len = comp->len;
	slot->buf = (uintptr_t)comp->buf;
	slot->data = comp->data;
	slot->src_addr = comp->src_addr;
	slot->olen = comp->olen;
	/* a reader may look whether it is an error before the slot is its own */
	__atomic_store_n(&slot->err, comp->err, __ATOMIC_RELAXED);
	slot->prov_errno = comp->prov_errno;
	xpu_order(&queue->part);
	xpu_store(seq, ++queue->next);
}

/* Does it stand for something that the NIC has written on this side? */
static bool wrote(const struct nic_comp *comp)
{
	return comp->flags & (FI_READ | FI_RECV | FI_REMOTE_WRITE);
}

/* A flush that failed: the driver has said why, and what may not be there is not said to be. */
static void spoil(struct nic_comp *comp)
{
	if (!wrote(comp) || comp->err)
		return;
	comp->err = nic_error_code(HMREG_MEMORY);
	comp->prov_errno = HMREG_MEMORY;
	comp->olen = comp->len;
	comp->len = 0;
}

static void pass_on(struct queue *queue, struct nic_comp *comp, unsigned n)
{
	bool flush = false, flushed = true;

	for (unsigned i = 0; queue->flush && i < n; i++)
		flush |= wrote(&comp[i]);
	if (flush)
		flushed = queue->flush->flush((int)queue->part.ctx->device) == 0;
	for (unsigned i = 0; i < n; i++) {
		if (!flushed)
			spoil(&comp[i]);
		publish(queue, &comp[i]);
	}
	xpu_order(&queue->part);
}

/* Successful ones, as far as there are at the front. */
static unsigned take(struct nic_cq *cq, struct nic_comp *comp, unsigned most)
{
	struct fi_cq_data_entry entry[BATCH];
	fi_addr_t source[BATCH];
	ssize_t n = nic_cq_take(cq, FI_CQ_FORMAT_DATA, entry, source, most);

	for (ssize_t i = 0; i < n; i++)
		comp[i] = (struct nic_comp){ .op_context = entry[i].op_context,
					     .flags = entry[i].flags,
					     .len = entry[i].len,
					     .buf = entry[i].buf,
					     .data = entry[i].data,
					     .src_addr = source[i] };
	return n > 0 ? (unsigned)n : 0;
}

static unsigned poll_queue(struct hm_xpu_part *part)
{
	struct queue *queue = (struct queue *)part;
	ssize_t front = nic_cq_take(queue->cq, FI_CQ_FORMAT_DATA, NULL, NULL, 0);
	struct nic_comp comp[BATCH];
	unsigned most, n = 0;

	part->word = NULL;
	if (front == -FI_EAGAIN)
		return 0;
	most = room(queue);
	if (most == 0)
		return 0;
	if (front == -FI_EAVAIL)
		n = nic_cq_take_error(queue->cq, comp) == 1;
	else
		n = take(queue->cq, comp, most);
	pass_on(queue, comp, n);
	return n;
}

static void end_queue(struct hm_xpu_part *part)
{
	hm_wait_pass_on(&((struct queue *)part)->cq->wait, NULL);
}

static uint32_t entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	default:
		return sizeof(struct fi_cq_entry);
	}
}

int xpu_cq_export(struct hm_xpu_own *ctx, struct nic_cq *cq, void *owner, struct fid_xpu *out,
		  struct hm_xpu_part **result)
{
	uint32_t slots = xpu_ring_slots(cq->size, RING_LEAST, RING_MOST);
	enum fi_cq_format format = ((struct hm_cq *)owner)->format;
	struct hmreg_xpu_cq *control;
	struct hm_xpu_part *part;
	struct queue *queue;
	uint64_t own;
	int ret = xpu_part_make(ctx, sizeof(*queue), (size_t)slots * XPU_SLOT_SIZE, &part, &own);

	if (ret != 0)
		return ret;
	queue = (struct queue *)part;
	queue->cq = cq;
	queue->flush = flusher(ctx);
	queue->slots = xpu_at(&part->memory, XPU_RING_OFFSET);
	queue->mask = slots - 1;
	part->poll = poll_queue;
	part->end = end_queue;
	control = part->memory.host;
	control->version = HMREG_XPU_VERSION;
	control->mask = queue->mask;
	control->ring = part->memory.device + XPU_RING_OFFSET;
	control->own = own;
	control->format = (uint32_t)format;
	control->entry_size = entry_size(format);
	xpu_ring_init(part, slots);
	hm_wait_pass_on(&cq->wait, &ctx->engine.wake);
	return xpu_part_start(part, out, result);
}

/* ---- counters ---- */

struct mirror {
	struct hm_xpu_part part;
	struct nic_cntr *cntr;
	const struct hmem_ops *flush;
	struct hmreg_xpu_cntr *control;
	uint64_t value, errors; /* as they were seen last */
	uint64_t lost;		/* of value, what could not be flushed, and counts as errors */
};

static unsigned poll_mirror(struct hm_xpu_part *part)
{
	struct mirror *mirror = (struct mirror *)part;
	uint64_t value = atomic_load(&mirror->cntr->value);
	uint64_t errors = atomic_load(&mirror->cntr->errors);

	if (value == mirror->value && errors == mirror->errors)
		return 0;
	/* a counter does not tell of what; so it may be of writes into the device's memory */
	if (mirror->flush && value != mirror->value &&
	    mirror->flush->flush((int)part->ctx->device) != 0)
		mirror->lost += value - mirror->value;
	mirror->value = value;
	mirror->errors = errors;
	xpu_store(&mirror->control->value, value - mirror->lost);
	xpu_store(&mirror->control->errors, errors + mirror->lost);
	xpu_order(part);
	return 1;
}

static void end_mirror(struct hm_xpu_part *part)
{
	hm_wait_pass_on(&((struct mirror *)part)->cntr->wait, NULL);
}

/*
 * How many errors the program knows of already, which end no wait of the device's.  Copied from memory that lasts:
 * a driver's copy that fails may be under way still.
 */
static int tell_seen(const struct hm_xpu_part *part, const struct hm_cntr *owner)
{
	struct hmreg_xpu_own *words = xpu_at(&part->memory, XPU_CONTROL_SIZE);

	words->seen =
		atomic_load_explicit(&((struct hm_cntr *)owner)->errors_seen, memory_order_relaxed);
	if (part->own.how == XPU_MEMORY_NONE)
		return 0;
	return xpu_memory_write(part->ctx, part->own.device, words, sizeof(*words));
}

int xpu_cntr_export(struct hm_xpu_own *ctx, struct nic_cntr *cntr, void *owner, struct fid_xpu *out,
		    struct hm_xpu_part **result)
{
	struct hm_xpu_part *part;
	struct mirror *mirror;
	uint64_t own;
	int ret = xpu_part_make(ctx, sizeof(*mirror), 0, &part, &own);

	if (ret != 0)
		return ret;
	mirror = (struct mirror *)part;
	mirror->cntr = cntr;
	mirror->flush = flusher(ctx);
	mirror->control = part->memory.host;
	mirror->control->version = HMREG_XPU_VERSION;
	mirror->control->own = own;
	part->poll = poll_mirror;
	part->end = end_mirror;
	poll_mirror(part); /* what it was before: the device sees it from the first look on */
	hm_wait_pass_on(&cntr->wait, &ctx->engine.wake);
	ret = tell_seen(part, owner);
	if (ret == 0)
		return xpu_part_start(part, out, result);
	xpu_part_free(part);
	return ret;
}
