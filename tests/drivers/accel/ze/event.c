/* SPDX-License-Identifier: BSD-2-Clause */
/* Event pools and events. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/drivers/accel/ze/ze_emu.h"

struct l0_pool_object {
	uint32_t magic;
	uint32_t count;
	char *taken; /* which indexes have an event */
	uint32_t live;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void emu_lock(void)
{
	pthread_mutex_lock(&lock);
}

void emu_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static l0_result zeEventPoolCreate(l0_context context, const l0_pool_desc *desc, uint32_t count,
				   l0_device *devices, l0_pool *out)
{
	l0_pool pool;

	CALL("zeEventPoolCreate");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(desc);
	NEED_POINTER(out);
	if (desc->count == 0 || (!devices && count > 0))
		return L0_INVALID_SIZE;
	if (desc->stype != L0_STYPE_EVENT_POOL_DESC || desc->flags > 7)
		return L0_INVALID_ENUMERATION;
	for (uint32_t i = 0; i < count; i++)
		NEED(devices[i], MAGIC_DEVICE);
	pool = calloc(1, sizeof(*pool));
	if (pool)
		pool->taken = calloc(desc->count, 1);
	if (!pool || !pool->taken) {
		free(pool);
		return L0_OUT_OF_HOST_MEMORY;
	}
	pool->magic = MAGIC_POOL;
	pool->count = desc->count;
	accel_live("event pool", 1);
	*out = pool;
	return L0_SUCCESS;
}

static l0_result zeEventPoolDestroy(l0_pool pool)
{
	CALL("zeEventPoolDestroy");
	NEED(pool, MAGIC_POOL);
	if (pool->live > 0)
		return L0_HANDLE_OBJECT_IN_USE;
	pool->magic = 0;
	free(pool->taken);
	free(pool);
	accel_live("event pool", -1);
	return L0_SUCCESS;
}

static l0_result zeEventCreate(l0_pool pool, const l0_event_desc *desc, l0_event *out)
{
	l0_event event;

	CALL("zeEventCreate");
	NEED(pool, MAGIC_POOL);
	NEED_POINTER(desc);
	NEED_POINTER(out);
	if (desc->stype != L0_STYPE_EVENT_DESC || desc->signal > 7 || desc->wait > 7)
		return L0_INVALID_ENUMERATION;
	if (desc->index >= pool->count || pool->taken[desc->index])
		return L0_INVALID_ARGUMENT;
	event = calloc(1, sizeof(*event));
	if (!event)
		return L0_OUT_OF_HOST_MEMORY;
	event->magic = MAGIC_EVENT;
	event->pool = pool;
	event->index = desc->index;
	pool->taken[desc->index] = 1;
	pool->live++;
	accel_live("event", 1);
	*out = event;
	return L0_SUCCESS;
}

static l0_result zeEventDestroy(l0_event event)
{
	CALL("zeEventDestroy");
	NEED(event, MAGIC_EVENT);
	emu_lock();
	if (event->pending)
		emu_leave(event->pending, event);
	emu_unlock();
	event->pool->taken[event->index] = 0;
	event->pool->live--;
	event->magic = 0;
	free(event);
	accel_live("event", -1);
	return L0_SUCCESS;
}

static l0_result state_of(const struct l0_event_object *event)
{
	return event->state == EVENT_SET    ? L0_SUCCESS
	       : event->state == EVENT_LOST ? L0_DEVICE_LOST
					    : L0_NOT_READY;
}

/* The device works while nobody looks: after so many looks it is done. */
static l0_result zeEventQueryStatus(l0_event event)
{
	l0_result r;

	CALL("zeEventQueryStatus");
	NEED(event, MAGIC_EVENT);
	emu_lock();
	if (event->pending && event->delay-- <= 0)
		emu_run(event->pending);
	r = state_of(event);
	emu_unlock();
	return r;
}

/* What nothing will set is not waited for. */
static l0_result zeEventHostSynchronize(l0_event event, uint64_t timeout)
{
	l0_result r;

	(void)timeout;
	CALL("zeEventHostSynchronize");
	NEED(event, MAGIC_EVENT);
	emu_lock();
	if (event->pending)
		emu_run(event->pending);
	r = state_of(event);
	emu_unlock();
	return r;
}

static l0_result set_state(l0_event event, enum event_state state)
{
	NEED(event, MAGIC_EVENT);
	emu_lock();
	event->state = state;
	emu_unlock();
	return L0_SUCCESS;
}

static l0_result zeEventHostSignal(l0_event event)
{
	CALL("zeEventHostSignal");
	return set_state(event, EVENT_SET);
}

static l0_result zeEventHostReset(l0_event event)
{
	CALL("zeEventHostReset");
	return set_state(event, EVENT_CLEAR);
}

const struct emu_entry emu_event_entries[] = { ENTRY(POOL, CREATE, zeEventPoolCreate),
					       ENTRY(POOL, DESTROY, zeEventPoolDestroy),
					       ENTRY(EVENT, CREATE, zeEventCreate),
					       ENTRY(EVENT, DESTROY, zeEventDestroy),
					       ENTRY(EVENT, SIGNAL, zeEventHostSignal),
					       ENTRY(EVENT, SYNCHRONIZE, zeEventHostSynchronize),
					       ENTRY(EVENT, STATUS, zeEventQueryStatus),
					       ENTRY(EVENT, RESET, zeEventHostReset),
					       ENTRIES_END };
