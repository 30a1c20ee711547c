/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies, in a stream of ours per device that does not wait for the default one: a kernel there may wait
 * for what we bring.  Addresses are unified, so that one call does all directions; between devices the
 * call with two contexts works without peer access as well.
 *
 * cuMemcpy itself would not do: from device to device, and from pageable memory to a device, it may
 * return before the bytes are there ("API synchronization behavior").
 */
#include "hmem/cuda_priv.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

/* A copy, with its devices looked up: device is where the stream is. */
struct transfer {
	struct cuda_device *device,
		*other; /* other: the destination's, if both ends are on devices */
	cu_ptr dst, src;
	size_t len;
};

/* A copy under way; its address is the event. */
struct under_way {
	struct cuda_device *device;
	cu_event event;
};

static int describe(void *dst, int dst_device, const void *src, int src_device, size_t len,
		    struct transfer *t)
{
	struct cuda_device *to = cuda_device_of(dst_device), *from = cuda_device_of(src_device);

	if ((!to && dst_device != HMEM_NO_DEVICE) || (!from && src_device != HMEM_NO_DEVICE) ||
	    (!to && !from)) {
		HM_WARN(FI_LOG_MR, "cuda has no device %d to copy with",
			to ? src_device : dst_device);
		return -FI_ENODEV;
	}
	*t = (struct transfer){ .device = from ? from : to,
				.other = from && to && from != to ? to : NULL,
				.dst = (uintptr_t)dst,
				.src = (uintptr_t)src,
				.len = len };
	return 0;
}

/* Inside cuda_enter.  The driver's result, *call which. */
static cu_result submit(const struct transfer *t, const struct cuda_scope *scope, cu_context other,
			cu_stream stream, const char **call)
{
	if (!t->other) {
		*call = "cuMemcpyAsync";
		return cu.copy(t->dst, t->src, t->len, stream);
	}
	*call = "cuMemcpyPeerAsync";
	return cu.copy_peer(t->dst, other, t->src, scope->context, t->len, stream);
}

/* Inside cuda_enter: into the stream, which is made anew if the program's reset took it. */
static int submit_work(const struct transfer *t, const struct cuda_scope *scope, cu_stream *stream)
{
	cu_context other = NULL;
	cu_result result = CU_OK;
	const char *call = "";
	int ret = t->other ? cuda_context(t->other, &other) : 0;

	for (int attempt = 0; ret == 0 && attempt < 2; attempt++) {
		ret = cuda_stream(t->device, stream);
		if (ret != 0)
			return ret;
		result = submit(t, scope, other, *stream, &call);
		if (result != CU_INVALID_HANDLE)
			break;
		cuda_forget_stream(t->device, *stream);
	}
	if (ret == 0 && result != CU_OK)
		ret = cuda_failed(result, call, "%zu bytes from 0x%llx to 0x%llx", t->len, t->src,
				  t->dst);
	return ret;
}

static int copy_now(const struct transfer *t)
{
	struct cuda_scope scope;
	cu_stream stream;
	cu_result result;
	int ret = cuda_enter(t->device, &scope);

	if (ret != 0)
		return ret;
	ret = submit_work(t, &scope, &stream);
	if (ret == 0) {
		result = cu.stream_wait(stream);
		if (result != CU_OK)
			ret = cuda_failed(result, "cuStreamSynchronize",
					  "%zu bytes from 0x%llx to 0x%llx", t->len, t->src,
					  t->dst);
	}
	cuda_leave(&scope);
	return ret;
}

/* ---- ranges that overlap ---- */

/* The driver has no order for them. */
static int copy_piece(const void *arg, char *dst, const char *src, size_t len, void *room)
{
	const struct transfer *whole = arg;
	struct transfer out = {
		.device = whole->device, .dst = (uintptr_t)room, .src = (uintptr_t)src, .len = len
	};
	struct transfer back = {
		.device = whole->device, .dst = (uintptr_t)dst, .src = (uintptr_t)room, .len = len
	};
	int ret = copy_now(&out);

	return ret ? ret : copy_now(&back);
}

int cuda_copy(void *dst, int dst_device, const void *src, int src_device, size_t len)
{
	struct transfer t;
	int ret = describe(dst, dst_device, src, src_device, len, &t);

	if (ret != 0 || len == 0 || dst == src)
		return ret;
	return hmem_overlap(dst, src, len)
		       ? hmem_copy_pieces(dst, src, len, NULL, 0, copy_piece, &t)
		       : copy_now(&t);
}

/* ---- copies under way ---- */

/* Inside cuda_enter: the event behind the work.  On failure the work is waited for. */
static int mark(const struct transfer *t, cu_stream stream, cu_event *event)
{
	cu_result result = cu.event_make(event, CU_EVENT_NO_TIME);
	const char *call = "cuEventCreate";

	if (result == CU_OK) {
		call = "cuEventRecord";
		result = cu.event_record(*event, stream);
		if (result == CU_OK)
			return 0;
		cu.event_end(*event);
	}
	cu.stream_wait(stream);
	return cuda_failed(result, call, "device %d", t->device->handle);
}

static int start_work(const struct transfer *t, cu_event *event)
{
	struct cuda_scope scope;
	cu_stream stream;
	int ret = cuda_enter(t->device, &scope);

	if (ret != 0)
		return ret;
	ret = submit_work(t, &scope, &stream);
	if (ret == 0)
		ret = mark(t, stream, event);
	cuda_leave(&scope);
	return ret;
}

int cuda_copy_start(void *dst, int dst_device, const void *src, int src_device, size_t len,
		    uint64_t *event)
{
	struct under_way *u;
	struct transfer t;
	int ret = describe(dst, dst_device, src, src_device, len, &t);

	if (ret != 0)
		return ret;
	u = calloc(1, sizeof(*u));
	if (!u) {
		HM_WARN(FI_LOG_MR, "no memory for a copy of %zu bytes", len);
		return -FI_ENOMEM;
	}
	u->device = t.device;
	/* what overlaps, or is nothing, is done at once and leaves no event */
	if (hmem_overlap(dst, src, len) || len == 0)
		ret = cuda_copy(dst, dst_device, src, src_device, len);
	else
		ret = start_work(&t, &u->event);
	if (ret != 0) {
		free(u);
		return ret;
	}
	*event = (uintptr_t)u;
	return 0;
}

/* Inside cuda_enter. */
static int end_work(struct under_way *u, bool wait)
{
	cu_result result = wait ? cu.event_wait(u->event) : cu.event_query(u->event), ended;

	if (result == CU_NOT_READY)
		return -FI_EAGAIN;
	ended = cu.event_end(u->event);
	if (ended != CU_OK) /* once more: what stays is lost */
		ended = cu.event_end(u->event);
	if (result != CU_OK)
		return cuda_failed(result, wait ? "cuEventSynchronize" : "cuEventQuery",
				   "a copy on device %d", u->device->handle);
	if (ended != CU_OK)
		cuda_failed(ended, "cuEventDestroy", "a copy on device %d that is done",
			    u->device->handle);
	return 0;
}

int cuda_copy_end(uint64_t event, bool wait)
{
	struct under_way *u = (struct under_way *)(uintptr_t)event;
	struct cuda_scope scope;
	int ret = 0;

	if (u->event) {
		ret = cuda_enter(u->device, &scope);
		if (ret == 0) {
			ret = end_work(u, wait);
			cuda_leave(&scope);
		} else {
			cu.event_wait(u->event);
			cu.event_end(u->event);
		}
	}
	if (ret != -FI_EAGAIN)
		free(u);
	return ret;
}
