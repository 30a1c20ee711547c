/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams and events.  Work waits in its stream until somebody waits for it, or asked for it as often
 * as the setting "late" has it: who takes it for done before that sees the old bytes.
 */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <pthread.h>
#include <stdlib.h>

struct work {
	struct work *next;
	void *dst;
	const void *src;
	int value;
	size_t len;
	cu_event event; /* recorded behind what came before */
};

struct CUstream_st {
	struct CUstream_st *next;
	struct CUctx_st *context;
	struct work *first, **last;
	unsigned int asked;
};

struct CUevent_st {
	struct CUevent_st *next;
	struct CUctx_st *context;
	cu_stream pending; /* where its record waits, NULL: it is past */
	unsigned int asked;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all of this file */
static struct CUstream_st *streams;
static struct CUevent_st *events;
static cu_result broken; /* what work met, told once */

static bool stream_known(cu_stream stream)
{
	struct CUstream_st *s = streams;

	while (s && s != stream)
		s = s->next;
	return s && emu_context_alive(s->context);
}

static bool event_known(cu_event event)
{
	struct CUevent_st *e = events;

	while (e && e != event)
		e = e->next;
	return e != NULL;
}

bool emu_stream_valid(cu_stream stream)
{
	bool valid;

	pthread_mutex_lock(&lock);
	valid = stream_known(stream);
	pthread_mutex_unlock(&lock);
	return valid;
}

static void do_work(const struct work *work)
{
	if (work->event)
		work->event->pending = NULL;
	else if (work->src ? !accel_copy(work->dst, work->src, work->len)
			   : !accel_fill(work->dst, work->value, work->len))
		broken = CU_ILLEGAL_ADDRESS;
}

/* Lock held. */
static void drain(cu_stream stream)
{
	while (stream->first) {
		struct work *work = stream->first;

		stream->first = work->next;
		if (!stream->first)
			stream->last = &stream->first;
		do_work(work);
		free(work);
	}
	stream->asked = 0;
}

static cu_result take_broken(void)
{
	cu_result result = broken;

	broken = CU_OK;
	return result;
}

cu_result emu_drain(cu_stream stream)
{
	cu_result result = CU_OK;

	pthread_mutex_lock(&lock);
	for (struct CUstream_st *s = streams; s; s = s->next)
		if (!stream || s == stream)
			drain(s);
	if (stream)
		result = take_broken();
	pthread_mutex_unlock(&lock);
	return result;
}

static cu_result append(cu_stream stream, struct work with)
{
	struct work *work;

	if (!stream_known(stream))
		return CU_INVALID_HANDLE;
	work = malloc(sizeof(*work));
	if (!work)
		return CU_OUT_OF_MEMORY;
	*work = with;
	*stream->last = work;
	stream->last = &work->next;
	return CU_OK;
}

cu_result emu_submit(cu_stream stream, void *dst, const void *src, int value, size_t len)
{
	cu_result result;

	if (!stream)
		return (src ? accel_copy(dst, src, len) : accel_fill(dst, value, len))
			       ? CU_OK
			       : CU_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result =
		append(stream, (struct work){ .dst = dst, .src = src, .value = value, .len = len });
	pthread_mutex_unlock(&lock);
	return result;
}

cu_result cuStreamCreate(cu_stream *stream, unsigned int flags)
{
	struct CUstream_st *made;
	struct CUctx_st *context;

	EMU_CALL_IN(cuStreamCreate, context);
	if (flags & ~CU_STREAM_ALONE)
		return CU_INVALID_VALUE;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CU_OUT_OF_MEMORY;
	made->context = context;
	made->last = &made->first;
	pthread_mutex_lock(&lock);
	made->next = streams;
	streams = made;
	pthread_mutex_unlock(&lock);
	accel_live("stream", 1);
	*stream = made;
	return CU_OK;
}

cu_result cuStreamSynchronize(cu_stream stream)
{
	EMU_CALL(cuStreamSynchronize);
	if (stream ? !emu_stream_valid(stream) : !emu_current())
		return stream ? CU_INVALID_HANDLE : CU_INVALID_CONTEXT;
	return emu_drain(stream);
}

cu_result cuStreamQuery(cu_stream stream)
{
	cu_result result = CU_OK;

	EMU_CALL(cuStreamQuery);
	pthread_mutex_lock(&lock);
	if (!stream_known(stream))
		result = CU_INVALID_HANDLE;
	else if (stream->first && stream->asked++ < (unsigned int)accel_setting("late", 1))
		result = CU_NOT_READY;
	else
		drain(stream);
	if (result == CU_OK)
		result = take_broken();
	pthread_mutex_unlock(&lock);
	return result;
}

cu_result cuStreamDestroy_v2(cu_stream stream)
{
	struct CUstream_st **at = &streams;

	EMU_CALL(cuStreamDestroy_v2);
	pthread_mutex_lock(&lock);
	while (*at && *at != stream)
		at = &(*at)->next;
	if (*at) {
		drain(stream);
		*at = stream->next;
	} else {
		stream = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (!stream)
		return CU_INVALID_HANDLE;
	free(stream);
	accel_live("stream", -1);
	return CU_OK;
}

/* ---- events ---- */

cu_result cuEventCreate(cu_event *event, unsigned int flags)
{
	struct CUevent_st *made;
	struct CUctx_st *context;

	EMU_CALL_IN(cuEventCreate, context);
	if (flags & ~7u)
		return CU_INVALID_VALUE;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CU_OUT_OF_MEMORY;
	made->context = context;
	pthread_mutex_lock(&lock);
	made->next = events;
	events = made;
	pthread_mutex_unlock(&lock);
	accel_live("event", 1);
	*event = made;
	return CU_OK;
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
	cu_result result = CU_OK;

	EMU_CALL(cuEventRecord);
	pthread_mutex_lock(&lock);
	if (!event_known(event) || (stream && !stream_known(stream)) ||
	    (stream && stream->context != event->context))
		result = CU_INVALID_HANDLE;
	else if (stream && stream->first)
		result = append(stream, (struct work){ .event = event });
	if (result == CU_OK && stream && stream->first)
		event->pending = stream;
	pthread_mutex_unlock(&lock);
	return result;
}

static cu_result end_event(cu_event event, bool wait)
{
	cu_result result = CU_OK;

	pthread_mutex_lock(&lock);
	if (!event_known(event))
		result = CU_INVALID_HANDLE;
	else if (event->pending && !wait && event->asked++ < (unsigned int)accel_setting("late", 1))
		result = CU_NOT_READY;
	else if (event->pending)
		drain(event->pending);
	if (result == CU_OK)
		result = take_broken();
	pthread_mutex_unlock(&lock);
	return result;
}

cu_result cuEventQuery(cu_event event)
{
	EMU_CALL(cuEventQuery);
	return end_event(event, false);
}

cu_result cuEventSynchronize(cu_event event)
{
	EMU_CALL(cuEventSynchronize);
	return end_event(event, true);
}

cu_result cuEventDestroy_v2(cu_event event)
{
	struct CUevent_st **at = &events;

	EMU_CALL(cuEventDestroy_v2);
	pthread_mutex_lock(&lock);
	while (*at && *at != event)
		at = &(*at)->next;
	if (*at) {
		if (event->pending)
			drain(event->pending);
		*at = event->next;
	} else {
		event = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (!event)
		return CU_INVALID_HANDLE;
	free(event);
	accel_live("event", -1);
	return CU_OK;
}
