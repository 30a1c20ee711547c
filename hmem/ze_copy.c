/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Level Zero's copies.  Each goes through a lane: an immediate command list and an event that tells its
 * end.  A lane has one copy at a time; idle ones are kept per device, so that threads do not wait for
 * each other.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "hmem/ze.h"

#define MOST_IDLE 8u

struct ze_lane {
	struct ze_lane *next;
	struct ze_device *device;
	l0_list list;
	l0_pool pool;
	l0_event event;
};

/* The event of a copy that was done at once; no lane's address. */
#define DONE 1u

/* ---- lanes ---- */

/* The first group that only copies, else the first that can. */
static int choose_group(const l0_queue_group *groups, uint32_t count)
{
	int any = 0;
	bool found = false;

	for (uint32_t i = 0; i < count; i++) {
		if (!(groups[i].flags & L0_GROUP_COPY) || groups[i].queues == 0)
			continue;
		if (!(groups[i].flags & L0_GROUP_COMPUTE))
			return (int)i;
		any = found ? any : (int)i;
		found = true;
	}
	return any;
}

static int find_ordinal(struct ze_device *d, uint32_t *ordinal)
{
	int known = atomic_load_explicit(&d->ordinal, memory_order_relaxed);
	l0_queue_group *groups;
	uint32_t count = 0;
	l0_result r;

	*ordinal = (uint32_t)known;
	if (known >= 0)
		return 0;
	r = ze_api.zeDeviceGetCommandQueueGroupProperties(d->handle, &count, NULL);
	if (r != L0_SUCCESS)
		return ze_fail("zeDeviceGetCommandQueueGroupProperties", r);
	groups = calloc(count ? count : 1, sizeof(*groups));
	if (!groups)
		return -FI_ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		groups[i].stype = L0_STYPE_QUEUE_GROUP_PROPERTIES;
	r = ze_api.zeDeviceGetCommandQueueGroupProperties(d->handle, &count, groups);
	known = choose_group(groups, r == L0_SUCCESS ? count : 0);
	free(groups);
	if (r != L0_SUCCESS)
		return ze_fail("zeDeviceGetCommandQueueGroupProperties", r);
	atomic_store_explicit(&d->ordinal, known, memory_order_relaxed);
	*ordinal = (uint32_t)known;
	return 0;
}

static void check_destroyed(const char *call, l0_result r)
{
	if (r != L0_SUCCESS)
		ze_fail(call, r);
}

static void destroy_lane(struct ze_lane *lane)
{
	if (lane->list)
		check_destroyed("zeCommandListDestroy", ze_api.zeCommandListDestroy(lane->list));
	if (lane->event)
		check_destroyed("zeEventDestroy", ze_api.zeEventDestroy(lane->event));
	if (lane->pool)
		check_destroyed("zeEventPoolDestroy", ze_api.zeEventPoolDestroy(lane->pool));
	free(lane);
}

static int fill_lane(struct ze_lane *lane, struct ze_device *d)
{
	l0_context context = d->driver->context;
	l0_queue_desc queue = { .stype = L0_STYPE_QUEUE_DESC, .mode = L0_QUEUE_ASYNCHRONOUS };
	l0_pool_desc pool = { .stype = L0_STYPE_EVENT_POOL_DESC,
			      .flags = L0_EVENT_HOST_VISIBLE,
			      .count = 1 };
	l0_event_desc event = { .stype = L0_STYPE_EVENT_DESC, .signal = L0_SCOPE_HOST };
	int ret = find_ordinal(d, &queue.ordinal);
	l0_result r;

	if (ret != 0)
		return ret;
	r = ze_api.zeEventPoolCreate(context, &pool, 1, &d->handle, &lane->pool);
	if (r != L0_SUCCESS) {
		lane->pool = NULL;
		return ze_fail("zeEventPoolCreate", r);
	}
	r = ze_api.zeEventCreate(lane->pool, &event, &lane->event);
	if (r != L0_SUCCESS) {
		lane->event = NULL;
		return ze_fail("zeEventCreate", r);
	}
	r = ze_api.zeCommandListCreateImmediate(context, d->handle, &queue, &lane->list);
	if (r != L0_SUCCESS) {
		lane->list = NULL;
		return ze_fail("zeCommandListCreateImmediate", r);
	}
	return 0;
}

static int take_lane(struct ze_device *d, struct ze_lane **out)
{
	struct ze_lane *lane;
	int ret;

	pthread_mutex_lock(&d->lock);
	lane = d->idle;
	if (lane) {
		d->idle = lane->next;
		d->idle_count--;
	}
	pthread_mutex_unlock(&d->lock);
	if (!lane) {
		lane = calloc(1, sizeof(*lane));
		if (!lane)
			return -FI_ENOMEM;
		lane->device = d;
		ret = fill_lane(lane, d);
		if (ret != 0) {
			destroy_lane(lane);
			return ret;
		}
	}
	*out = lane;
	return 0;
}

static void give_lane(struct ze_lane *lane)
{
	struct ze_device *d = lane->device;
	bool keep;

	pthread_mutex_lock(&d->lock);
	keep = d->idle_count < MOST_IDLE;
	if (keep) {
		lane->next = d->idle;
		d->idle = lane;
		d->idle_count++;
	}
	pthread_mutex_unlock(&d->lock);
	if (!keep)
		destroy_lane(lane);
}

/* ---- one copy through a lane ---- */

static int start_lane(struct ze_device *d, void *dst, const void *src, size_t len,
		      struct ze_lane **out)
{
	l0_result r;
	int ret = take_lane(d, out);

	if (ret != 0)
		return ret;
	r = ze_api.zeCommandListAppendMemoryCopy((*out)->list, dst, src, len, (*out)->event, 0,
						 NULL);
	if (r == L0_SUCCESS)
		return 0;
	/* nothing of it was queued, but the list is not used again */
	destroy_lane(*out);
	return ze_fail("zeCommandListAppendMemoryCopy", r);
}

static int end_lane(struct ze_lane *lane, bool wait)
{
	const char *call = wait ? "zeEventHostSynchronize" : "zeEventQueryStatus";
	l0_result r = wait ? ze_api.zeEventHostSynchronize(lane->event, UINT64_MAX)
			   : ze_api.zeEventQueryStatus(lane->event);
	int ret;

	if (r == L0_NOT_READY && !wait)
		return -FI_EAGAIN;
	if (r != L0_SUCCESS) {
		ret = ze_fail(call, r);
		destroy_lane(lane);
		return ret;
	}
	r = ze_api.zeEventHostReset(lane->event);
	if (r == L0_SUCCESS) {
		give_lane(lane);
	} else {
		ze_fail("zeEventHostReset", r);
		destroy_lane(lane);
	}
	return 0;
}

static int copy_direct(struct ze_device *d, void *dst, const void *src, size_t len)
{
	struct ze_lane *lane;
	int ret = start_lane(d, dst, src, len, &lane);

	return ret != 0 ? ret : end_lane(lane, true);
}

/* ---- which way ---- */

struct ends {
	struct ze_device *dst, *src; /* NULL: host memory */
};

static int find_ends(int dst_device, int src_device, struct ends *ends)
{
	ends->dst = dst_device == HMEM_NO_DEVICE ? NULL : ze_device_of(dst_device);
	ends->src = src_device == HMEM_NO_DEVICE ? NULL : ze_device_of(src_device);
	if ((ends->dst || dst_device == HMEM_NO_DEVICE) &&
	    (ends->src || src_device == HMEM_NO_DEVICE) && (ends->dst || ends->src))
		return 0;
	HM_WARN(FI_LOG_CORE, "Level Zero has no device %d",
		ends->dst || dst_device == HMEM_NO_DEVICE ? src_device : dst_device);
	return -FI_ENODEV;
}

/* Can the source's device write to the destination? */
static bool reaches(const struct ends *ends)
{
	l0_bool yes = 0;
	l0_result r;

	if (!ends->dst || !ends->src || ends->dst == ends->src)
		return true;
	if (ends->dst->driver != ends->src->driver)
		return false;
	r = ze_api.zeDeviceCanAccessPeer(ends->src->handle, ends->dst->handle, &yes);
	if (r != L0_SUCCESS)
		ze_fail("zeDeviceCanAccessPeer", r);
	return r == L0_SUCCESS && yes;
}

static int by_host(const void *arg, char *dst, const char *src, size_t len, void *room)
{
	const struct ends *ends = arg;
	int ret = copy_direct(ends->src ? ends->src : ends->dst, room, src, len);

	return ret ? ret : copy_direct(ends->dst ? ends->dst : ends->src, dst, room, len);
}

int ze_copy_start(void *dst, int dst_device, const void *src, int src_device, size_t len,
		  uint64_t *event)
{
	struct ze_lane *lane;
	struct ends ends;
	int ret = find_ends(dst_device, src_device, &ends);

	if (ret != 0)
		return ret;
	if (len == 0 || dst == src) {
		*event = DONE;
		return 0;
	}
	/* the vendor says nothing of a copy onto itself */
	if (hmem_overlap(dst, src, len) || !reaches(&ends)) {
		ret = hmem_copy_pieces(dst, src, len, NULL, 0, by_host, &ends);
		if (ret == 0)
			*event = DONE;
		return ret;
	}
	ret = start_lane(ends.src ? ends.src : ends.dst, dst, src, len, &lane);
	if (ret == 0)
		*event = (uintptr_t)lane;
	return ret;
}

int ze_copy_end(uint64_t event, bool wait)
{
	return event == DONE ? 0 : end_lane((struct ze_lane *)(uintptr_t)event, wait);
}

int ze_copy(void *dst, int dst_device, const void *src, int src_device, size_t len)
{
	uint64_t event;
	int ret = ze_copy_start(dst, dst_device, src, src_device, len, &event);

	return ret != 0 ? ret : ze_copy_end(event, true);
}
