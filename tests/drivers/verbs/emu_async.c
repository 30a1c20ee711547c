/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of the emulated devices, and what a test can do to a device. */
#include "tests/drivers/verbs/emu.h"

static bool is_cq_event(enum ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR;
}

static bool is_srq_event(enum ibv_event_type type)
{
	return type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED;
}

static bool is_port_event(enum ibv_event_type type)
{
	return type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_PORT_ACTIVE ||
	       type == IBV_EVENT_PORT_ERR;
}

void emu_async_push(struct emu_context *context, enum ibv_event_type type, void *object)
{
	struct emu_async *async = calloc(1, sizeof(*async));

	if (!async)
		abort();
	async->context = context;
	async->object = object;
	async->event.event_type = type;
	if (is_port_event(type))
		async->event.element.port_num = 1;
	else if (is_cq_event(type))
		async->event.element.cq = &((struct emu_cq *)object)->ibv;
	else if (is_srq_event(type))
		async->event.element.srq = &((struct emu_srq *)object)->ibv;
	else
		async->event.element.qp = &((struct emu_qp *)object)->ibv;
	emu_channel_push(&context->async, &async->entry);
}

void emu_async_drop(struct emu_context *context, const void *object)
{
	struct hm_list *at = context->async.queue.next, *next;

	for (; at != &context->async.queue; at = next) {
		struct emu_async *async = hm_container(at, struct emu_async, entry);

		next = at->next;
		if (async->object == object) {
			emu_channel_remove(&context->async, at);
			free(async);
		}
	}
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct hm_list *entry;
	struct emu_async *async;
	int error = emu_call(CALL_ibv_get_async_event);

	if (error) {
		errno = error;
		return -1;
	}
	entry = emu_channel_pop(&emu_ctx(context)->async);
	if (!entry)
		return -1;
	async = hm_container(entry, struct emu_async, entry);
	*event = async->event;
	if (is_cq_event(event->event_type))
		((struct emu_cq *)async->object)->async_delivered++;
	else if (is_srq_event(event->event_type))
		((struct emu_srq *)async->object)->delivered++;
	else if (!is_port_event(event->event_type))
		((struct emu_qp *)async->object)->delivered++;
	emu.counts.unacked += !is_port_event(event->event_type);
	free(async);
	emu_leave();
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (is_port_event(event->event_type))
		return;
	emu_enter();
	if (is_cq_event(event->event_type))
		event->element.cq->async_events_completed++;
	else if (is_srq_event(event->event_type))
		event->element.srq->events_completed++;
	else
		event->element.qp->events_completed++;
	emu.counts.unacked--;
	pthread_cond_broadcast(&emu.acked);
	emu_leave();
}

/* ---- what tests do to devices ---- */
static struct emu_device *device_by_name(const char *name)
{
	for (unsigned int i = 0; i < EMU_DEVICES; i++)
		if (emu.devices[i].contexts.next && !strcmp(emu.devices[i].ibv.name, name))
			return &emu.devices[i];
	return NULL;
}

static void event_to_contexts(struct emu_device *device, enum ibv_event_type type)
{
	for (struct hm_list *at = device->contexts.next; at != &device->contexts; at = at->next)
		emu_async_push(hm_container(at, struct emu_context, entry), type, NULL);
}

/* Requests that wait for a peer that is gone now are noticed. */
static void kick_all(void)
{
	for (struct hm_list *at = emu_qp_all()->next; at != emu_qp_all(); at = at->next)
		emu_qp_kick(hm_container(at, struct emu_qp, entry));
}

int emu_verbs_remove_device(const char *name)
{
	struct emu_device *device;

	emu_enter();
	device = device_by_name(name);
	if (device && !device->removed) {
		device->removed = true;
		event_to_contexts(device, IBV_EVENT_DEVICE_FATAL);
		kick_all();
		emu_cm_device_removed(device);
	}
	emu_leave();
	return device ? 0 : -1;
}

int emu_verbs_port(const char *name, int up)
{
	enum ibv_port_state state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	struct emu_device *device;

	emu_enter();
	device = device_by_name(name);
	if (device && device->port_state != state) {
		device->port_state = state;
		event_to_contexts(device, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
		kick_all();
	}
	emu_leave();
	return device ? 0 : -1;
}
