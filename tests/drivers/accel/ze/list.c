/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Command lists, queues and fences.  What is appended to an immediate list is done when somebody waits
 * for it, or has looked for it often enough: a program that reads too early reads old bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/drivers/accel/ze/ze_emu.h"

enum op_kind {
	OP_COPY,
	OP_FILL,
	OP_BARRIER,
	OP_WAIT
};

struct op {
	enum op_kind kind;
	void *dst;
	const void *src;
	size_t len, pattern_len;
	unsigned char pattern[16];
	l0_event event; /* set when it is done, or waited for */
};

struct l0_list_object {
	uint32_t magic;
	l0_device device;
	bool immediate, synchronous, closed;
	bool lost; /* something failed */
	bool running;
	struct op *ops;
	size_t count, room;
};

struct queue {
	uint32_t magic;
	l0_device device;
	bool lost;
};

struct fence {
	uint32_t magic;
	enum event_state state;
};

/* ---- work ---- */

/* As an engine that knows nothing of overlap: from the first byte to the last. */
static bool copy(const struct op *op)
{
	const size_t step = 64;
	char *dst = op->dst;
	const char *src = op->src;

	if (dst >= src + op->len || src >= dst + op->len)
		return accel_copy(dst, src, op->len);
	for (size_t at = 0; at < op->len; at += step)
		if (!accel_copy(dst + at, src + at, op->len - at < step ? op->len - at : step))
			return false;
	return true;
}

static bool fill(const struct op *op)
{
	if (op->pattern_len == 1)
		return accel_fill(op->dst, op->pattern[0], op->len);
	for (size_t at = 0; at < op->len; at += op->pattern_len)
		if (!accel_copy((char *)op->dst + at, op->pattern, op->pattern_len))
			return false;
	return true;
}

static bool wait_for(l0_event event)
{
	if (event->state == EVENT_CLEAR && event->pending && !event->pending->running)
		emu_run(event->pending);
	return event->state == EVENT_SET;
}

static void do_op(l0_list list, struct op *op)
{
	if (list->lost || (op->kind == OP_COPY && !copy(op)) ||
	    (op->kind == OP_FILL && !fill(op)) || (op->kind == OP_WAIT && !wait_for(op->event)))
		list->lost = true;
	if (op->event && op->kind != OP_WAIT) {
		op->event->state = list->lost ? EVENT_LOST : EVENT_SET;
		op->event->pending = NULL;
	}
}

void emu_run(l0_list list)
{
	list->running = true;
	for (size_t i = 0; i < list->count; i++)
		do_op(list, &list->ops[i]);
	if (list->immediate)
		list->count = 0;
	list->running = false;
}

void emu_leave(l0_list list, l0_event event)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->ops[i].event == event) {
			list->ops[i].event = NULL;
			list->ops[i].kind = list->ops[i].kind == OP_WAIT ? OP_BARRIER
									 : list->ops[i].kind;
		}
}

/* Lock held. */
static bool add(l0_list list, const struct op *op)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 8;
		struct op *grown = realloc(list->ops, room * sizeof(*grown));

		if (!grown)
			return false;
		list->ops = grown;
		list->room = room;
	}
	list->ops[list->count++] = *op;
	if (op->event && op->kind != OP_WAIT) {
		op->event->state = EVENT_CLEAR;
		op->event->pending = list;
		op->event->delay = accel_setting("delay", 1);
	}
	return true;
}

static l0_result append(l0_list list, const struct op *op, uint32_t count, l0_event *waits)
{
	struct op wait = { .kind = OP_WAIT };
	bool added = true, lost;

	if (!waits && count > 0)
		return L0_INVALID_SIZE;
	if (list->closed)
		return L0_INVALID_ARGUMENT;
	if (op->event && op->event->magic != MAGIC_EVENT)
		return L0_INVALID_SYNCHRONIZATION_OBJECT;
	for (uint32_t i = 0; i < count; i++)
		if (!waits[i] || waits[i]->magic != MAGIC_EVENT)
			return L0_INVALID_SYNCHRONIZATION_OBJECT;
	emu_lock();
	for (uint32_t i = 0; added && i < count; i++) {
		wait.event = waits[i];
		added = add(list, &wait);
	}
	added = added && add(list, op);
	if (added && list->immediate && list->synchronous)
		emu_run(list);
	lost = list->lost;
	emu_unlock();
	return lost ? L0_DEVICE_LOST : added ? L0_SUCCESS : L0_OUT_OF_HOST_MEMORY;
}

static l0_result zeCommandListAppendMemoryCopy(l0_list list, void *dst, const void *src, size_t len,
					       l0_event event, uint32_t count, l0_event *waits)
{
	struct op op = { .kind = OP_COPY, .dst = dst, .src = src, .len = len, .event = event };

	CALL("zeCommandListAppendMemoryCopy");
	NEED(list, MAGIC_LIST);
	NEED_POINTER(dst);
	NEED_POINTER(src);
	if (!emu_reachable(list->device, dst) || !emu_reachable(list->device, src))
		return L0_INVALID_ARGUMENT;
	return append(list, &op, count, waits);
}

static l0_result zeCommandListAppendMemoryFill(l0_list list, void *dst, const void *pattern,
					       size_t pattern_len, size_t len, l0_event event,
					       uint32_t count, l0_event *waits)
{
	struct op op = { .kind = OP_FILL, .dst = dst, .len = len, .event = event };

	CALL("zeCommandListAppendMemoryFill");
	NEED(list, MAGIC_LIST);
	NEED_POINTER(dst);
	NEED_POINTER(pattern);
	if (pattern_len == 0 || pattern_len > sizeof(op.pattern) ||
	    (pattern_len & (pattern_len - 1)) || len % pattern_len != 0)
		return L0_INVALID_SIZE;
	if (!emu_reachable(list->device, dst))
		return L0_INVALID_ARGUMENT;
	memcpy(op.pattern, pattern, pattern_len);
	op.pattern_len = pattern_len;
	return append(list, &op, count, waits);
}

static l0_result zeCommandListAppendBarrier(l0_list list, l0_event event, uint32_t count,
					    l0_event *waits)
{
	struct op op = { .kind = OP_BARRIER, .event = event };

	CALL("zeCommandListAppendBarrier");
	NEED(list, MAGIC_LIST);
	return append(list, &op, count, waits);
}

/* ---- lists ---- */

struct list_desc {
	uint32_t stype;
	const void *next;
	uint32_t ordinal, flags;
};
#define STYPE_LIST_DESC 0xfu
#define GROUPS		2u

static l0_result make_list(l0_context context, l0_device device, l0_list *out)
{
	NEED(context, MAGIC_CONTEXT);
	NEED(device, MAGIC_DEVICE);
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return L0_OUT_OF_HOST_MEMORY;
	(*out)->magic = MAGIC_LIST;
	(*out)->device = device;
	accel_live("command list", 1);
	return L0_SUCCESS;
}

static l0_result zeCommandListCreate(l0_context context, l0_device device,
				     const struct list_desc *desc, l0_list *out)
{
	CALL("zeCommandListCreate");
	NEED_POINTER(desc);
	NEED_POINTER(out);
	if (desc->stype != STYPE_LIST_DESC || desc->ordinal >= GROUPS)
		return L0_INVALID_ENUMERATION;
	return make_list(context, device, out);
}

static bool queue_desc_ok(const l0_queue_desc *desc)
{
	return desc->stype == L0_STYPE_QUEUE_DESC && desc->ordinal < GROUPS && desc->index < 4 &&
	       desc->flags <= 1 && desc->mode <= 2 && desc->priority <= 2;
}

static l0_result zeCommandListCreateImmediate(l0_context context, l0_device device,
					      const l0_queue_desc *desc, l0_list *out)
{
	l0_result r;

	CALL("zeCommandListCreateImmediate");
	NEED_POINTER(desc);
	NEED_POINTER(out);
	if (!queue_desc_ok(desc))
		return L0_INVALID_ENUMERATION;
	r = make_list(context, device, out);
	if (r == L0_SUCCESS) {
		(*out)->immediate = true;
		(*out)->synchronous = desc->mode == 1;
	}
	return r;
}

static l0_result zeCommandListDestroy(l0_list list)
{
	CALL("zeCommandListDestroy");
	NEED(list, MAGIC_LIST);
	emu_lock();
	if (list->immediate)
		emu_run(list);
	for (size_t i = 0; i < list->count; i++)
		if (list->ops[i].event && list->ops[i].event->pending == list)
			list->ops[i].event->pending = NULL;
	emu_unlock();
	list->magic = 0;
	free(list->ops);
	free(list);
	accel_live("command list", -1);
	return L0_SUCCESS;
}

static l0_result zeCommandListClose(l0_list list)
{
	CALL("zeCommandListClose");
	NEED(list, MAGIC_LIST);
	if (list->immediate)
		return L0_INVALID_ARGUMENT;
	list->closed = true;
	return L0_SUCCESS;
}

static l0_result zeCommandListReset(l0_list list)
{
	CALL("zeCommandListReset");
	NEED(list, MAGIC_LIST);
	if (list->immediate)
		return L0_INVALID_ARGUMENT;
	list->closed = false;
	list->count = 0;
	return L0_SUCCESS;
}

/* ---- queues: done when given ---- */

static l0_result zeCommandQueueCreate(l0_context context, l0_device device,
				      const l0_queue_desc *desc, struct queue **out)
{
	struct queue *queue;

	CALL("zeCommandQueueCreate");
	NEED(context, MAGIC_CONTEXT);
	NEED(device, MAGIC_DEVICE);
	NEED_POINTER(desc);
	NEED_POINTER(out);
	if (!queue_desc_ok(desc))
		return L0_INVALID_ENUMERATION;
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return L0_OUT_OF_HOST_MEMORY;
	queue->magic = MAGIC_QUEUE;
	queue->device = device;
	accel_live("command queue", 1);
	*out = queue;
	return L0_SUCCESS;
}

static l0_result zeCommandQueueDestroy(struct queue *queue)
{
	CALL("zeCommandQueueDestroy");
	NEED(queue, MAGIC_QUEUE);
	queue->magic = 0;
	free(queue);
	accel_live("command queue", -1);
	return L0_SUCCESS;
}

static l0_result zeCommandQueueExecuteCommandLists(struct queue *queue, uint32_t count,
						   l0_list *lists, struct fence *fence)
{
	CALL("zeCommandQueueExecuteCommandLists");
	NEED(queue, MAGIC_QUEUE);
	NEED_POINTER(lists);
	if (count == 0)
		return L0_INVALID_SIZE;
	if (fence && fence->magic != MAGIC_FENCE)
		return L0_INVALID_SYNCHRONIZATION_OBJECT;
	for (uint32_t i = 0; i < count; i++) {
		NEED(lists[i], MAGIC_LIST);
		if (!lists[i]->closed || lists[i]->device->root != queue->device->root)
			return L0_INVALID_ARGUMENT;
	}
	emu_lock();
	for (uint32_t i = 0; i < count; i++) {
		emu_run(lists[i]);
		queue->lost |= lists[i]->lost;
	}
	if (fence)
		fence->state = queue->lost ? EVENT_LOST : EVENT_SET;
	emu_unlock();
	return L0_SUCCESS;
}

static l0_result zeCommandQueueSynchronize(struct queue *queue, uint64_t timeout)
{
	(void)timeout;
	CALL("zeCommandQueueSynchronize");
	NEED(queue, MAGIC_QUEUE);
	return queue->lost ? L0_DEVICE_LOST : L0_SUCCESS;
}

/* ---- fences ---- */

struct fence_desc {
	uint32_t stype;
	const void *next;
	uint32_t flags; /* 1: set from the start */
};

static l0_result zeFenceCreate(struct queue *queue, const struct fence_desc *desc,
			       struct fence **out)
{
	struct fence *fence;

	CALL("zeFenceCreate");
	NEED(queue, MAGIC_QUEUE);
	NEED_POINTER(desc);
	NEED_POINTER(out);
	fence = calloc(1, sizeof(*fence));
	if (!fence)
		return L0_OUT_OF_HOST_MEMORY;
	fence->magic = MAGIC_FENCE;
	fence->state = desc->flags & 1 ? EVENT_SET : EVENT_CLEAR;
	accel_live("fence", 1);
	*out = fence;
	return L0_SUCCESS;
}

static l0_result zeFenceDestroy(struct fence *fence)
{
	CALL("zeFenceDestroy");
	NEED(fence, MAGIC_FENCE);
	fence->magic = 0;
	free(fence);
	accel_live("fence", -1);
	return L0_SUCCESS;
}

static l0_result fence_state(const struct fence *fence)
{
	NEED(fence, MAGIC_FENCE);
	return fence->state == EVENT_SET    ? L0_SUCCESS
	       : fence->state == EVENT_LOST ? L0_DEVICE_LOST
					    : L0_NOT_READY;
}

static l0_result zeFenceHostSynchronize(struct fence *fence, uint64_t timeout)
{
	(void)timeout;
	CALL("zeFenceHostSynchronize");
	return fence_state(fence);
}

static l0_result zeFenceQueryStatus(struct fence *fence)
{
	CALL("zeFenceQueryStatus");
	return fence_state(fence);
}

static l0_result zeFenceReset(struct fence *fence)
{
	CALL("zeFenceReset");
	NEED(fence, MAGIC_FENCE);
	fence->state = EVENT_CLEAR;
	return L0_SUCCESS;
}

const struct emu_entry emu_list_entries[] = {
	ENTRY(LIST, CREATE, zeCommandListCreate),
	ENTRY(LIST, CREATE_IMMEDIATE, zeCommandListCreateImmediate),
	ENTRY(LIST, DESTROY, zeCommandListDestroy),
	ENTRY(LIST, CLOSE, zeCommandListClose),
	ENTRY(LIST, RESET, zeCommandListReset),
	ENTRY(LIST, BARRIER, zeCommandListAppendBarrier),
	ENTRY(LIST, COPY, zeCommandListAppendMemoryCopy),
	ENTRY(LIST, FILL, zeCommandListAppendMemoryFill),
	ENTRY(QUEUE, CREATE, zeCommandQueueCreate),
	ENTRY(QUEUE, DESTROY, zeCommandQueueDestroy),
	ENTRY(QUEUE, EXECUTE, zeCommandQueueExecuteCommandLists),
	ENTRY(QUEUE, SYNCHRONIZE, zeCommandQueueSynchronize),
	ENTRY(FENCE, CREATE, zeFenceCreate),
	ENTRY(FENCE, DESTROY, zeFenceDestroy),
	ENTRY(FENCE, SYNCHRONIZE, zeFenceHostSynchronize),
	ENTRY(FENCE, STATUS, zeFenceQueryStatus),
	ENTRY(FENCE, RESET, zeFenceReset),
	ENTRIES_END
};
