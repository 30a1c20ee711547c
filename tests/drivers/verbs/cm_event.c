/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of the emulated connection manager. */
#include "tests/drivers/verbs/cm.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
	int error = emu_call(CALL_rdma_create_event_channel);
	struct cm_channel *channel = error ? NULL : calloc(1, sizeof(*channel));

	if (!error)
		error = channel ? emu_channel_open(&channel->queue) : ENOMEM;
	if (error) {
		free(channel);
		errno = error;
		return NULL;
	}
	channel->ibv.fd = channel->queue.fd;
	emu_enter();
	emu.counts.event_channels++;
	emu_leave();
	return &channel->ibv;
}

void rdma_destroy_event_channel(struct rdma_event_channel *ibv)
{
	struct cm_channel *channel = to_cm_channel(ibv);

	emu_enter();
	emu.counts.event_channels--;
	emu_channel_close(&channel->queue);
	free(channel);
	emu_leave();
}

struct cm_event *cm_event_new(struct cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct cm_event *event = calloc(1, sizeof(*event));

	if (!event)
		abort();
	event->ibv.id = &id->ibv;
	event->ibv.event = type;
	event->ibv.status = status;
	event->owner = id;
	return event;
}

void cm_event_data(struct cm_event *event, const void *data, uint8_t length, uint8_t room)
{
	if (length)
		memcpy(event->data, data, length);
	event->ibv.param.conn.private_data = event->data;
	event->ibv.param.conn.private_data_len = room;
}

void cm_event_push(struct cm_event *event)
{
	emu_channel_push(&to_cm_channel(event->owner->ibv.channel)->queue, &event->entry);
}

void cm_event_send(struct cm_id *id, enum rdma_cm_event_type type, int status)
{
	cm_event_push(cm_event_new(id, type, status));
}

void cm_event_drop(struct cm_id *id)
{
	struct emu_channel *channel = &to_cm_channel(id->ibv.channel)->queue;
	struct hm_list *at = channel->queue.next, *next;

	for (; at != &channel->queue; at = next) {
		struct cm_event *event = hm_container(at, struct cm_event, entry);

		next = at->next;
		if (event->owner != id && event->ibv.id != &id->ibv)
			continue;
		emu_channel_remove(channel, at);
		if (event->ibv.id != &id->ibv) {
			/* A request that nobody saw: its identifier goes too. */
			cm_leave(to_id(event->ibv.id));
			cm_event_drop(to_id(event->ibv.id));
			cm_id_free(to_id(event->ibv.id));
			next = channel->queue.next;
		}
		free(event);
	}
}

void cm_event_move(struct cm_id *id, struct rdma_event_channel *to)
{
	struct emu_channel *channel = &to_cm_channel(id->ibv.channel)->queue;
	struct hm_list *at = channel->queue.next, *next;

	for (; at != &channel->queue; at = next) {
		next = at->next;
		if (hm_container(at, struct cm_event, entry)->owner != id)
			continue;
		emu_channel_remove(channel, at);
		emu_channel_push(&to_cm_channel(to)->queue, at);
	}
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **taken)
{
	struct hm_list *entry;
	struct cm_event *event;
	int error = emu_call(CALL_rdma_get_cm_event);

	if (error)
		return cm_answer(error);
	entry = emu_channel_pop(&to_cm_channel(channel)->queue);
	if (!entry)
		return -1;
	event = hm_container(entry, struct cm_event, entry);
	event->owner->delivered++;
	emu.counts.unacked++;
	if (event->ibv.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		to_id(event->ibv.id)->taken = true;
	*taken = &event->ibv;
	emu_leave();
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *ibv)
{
	struct cm_event *event = hm_container(ibv, struct cm_event, ibv);

	emu_enter();
	event->owner->completed++;
	emu.counts.unacked--;
	pthread_cond_broadcast(&emu.acked);
	emu_leave();
	free(event);
	return 0;
}
