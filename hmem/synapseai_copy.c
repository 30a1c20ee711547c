/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies of SynapseAI.  The device reads and writes host memory only where that is mapped for it
 * (synHostMap), which pins it; so copies go through buffers of synHostMalloc, each with a stream of its
 * own, since waiting for a stream concerns whatever else is in it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "core/base/list.h"
#include "hmem/synapseai.h"

#define ROOM	  (256u << 10)
#define MOST_IDLE 4 /* per device */

struct lane {
	struct hm_list link;
	uint32_t device;
	struct syn_stream_opaque *stream;
	void *room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* idle and idle_count; nothing under it */
static struct hm_list idle = { &idle, &idle };
static unsigned int idle_count[SYN_MOST_DEVICES];

static void drop(struct lane *lane)
{
	int code;

	if (lane->room && (code = syn.host_free(lane->device, lane->room, 0)) != SYN_OK)
		syn_failed("synHostFree", code);
	if (lane->stream && (code = syn.stream_destroy(lane->stream)) != SYN_OK)
		syn_failed("synStreamDestroy", code);
	free(lane);
}

static struct lane *find_idle(uint32_t device)
{
	struct lane *found = NULL;

	pthread_mutex_lock(&lock);
	hm_list_for_each(link, &idle)
	{
		struct lane *lane = hm_list_entry(link, struct lane, link);

		if (lane->device != device)
			continue;
		hm_list_del(link);
		idle_count[device]--;
		found = lane;
		break;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static int take(int device, struct lane **out)
{
	struct lane *lane = find_idle((uint32_t)device);
	int code, ret = 0;

	if (lane) {
		*out = lane;
		return 0;
	}
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return -FI_ENOMEM;
	lane->device = (uint32_t)device;
	code = syn.stream_create(&lane->stream, lane->device, 0);
	if (code != SYN_OK) {
		lane->stream = NULL;
		ret = syn_failed("synStreamCreateGeneric", code);
	} else if ((code = syn.host_malloc(lane->device, ROOM, 0, &lane->room)) != SYN_OK) {
		lane->room = NULL;
		ret = syn_failed("synHostMalloc", code);
	}
	if (ret == 0)
		*out = lane;
	else
		drop(lane);
	return ret;
}

/* One that failed is not used again: nobody knows what is still in its stream. */
static void put(struct lane *lane, int ret)
{
	bool keep;

	pthread_mutex_lock(&lock);
	keep = ret == 0 && idle_count[lane->device] < MOST_IDLE;
	if (keep) {
		idle_count[lane->device]++;
		hm_list_add_tail(&idle, &lane->link);
	}
	pthread_mutex_unlock(&lock);
	if (!keep)
		drop(lane);
}

static int run(struct lane *lane, uint64_t dst, uint64_t src, size_t len, int direction)
{
	int code = syn.copy_async(lane->stream, src, len, dst, direction);

	if (code != SYN_OK)
		return syn_failed("synMemCopyAsync", code);
	code = syn.stream_synchronize(lane->stream);
	return code == SYN_OK ? 0 : syn_failed("synStreamSynchronize", code);
}

static uint64_t address(const void *addr)
{
	return (uintptr_t)addr;
}

/* A NULL lane: that end is host memory. */
struct lanes {
	struct lane *to, *from;
};

/* room is that of the lane which the piece comes into. */
static int piece(const void *arg, char *dst, const char *src, size_t n, void *room)
{
	const struct lanes *lanes = arg;
	int ret = lanes->from ? run(lanes->from, address(room), address(src), n, SYN_DEVICE_TO_HOST)
			      : hm_guard_copy(room, src, n);

	if (ret != 0)
		return ret;
	if (!lanes->to)
		return hm_guard_copy(dst, room, n);
	if (room != lanes->to->room)
		memcpy(lanes->to->room, room, n);
	return run(lanes->to, address(dst), address(lanes->to->room), n, SYN_HOST_TO_DEVICE);
}

int syn_copy(void *dst, int dst_device, const void *src, int src_device, size_t len)
{
	struct lane *to = NULL, *from = NULL;
	struct lanes lanes;
	int ret = dst_device != HMEM_NO_DEVICE ? take(dst_device, &to) : 0;

	if (ret == 0 && src_device == dst_device)
		from = to;
	else if (ret == 0 && src_device != HMEM_NO_DEVICE)
		ret = take(src_device, &from);
	lanes = (struct lanes){ to, from };
	if (ret == 0 && from == to && !hmem_overlap(dst, src, len))
		ret = run(to, address(dst), address(src), len, SYN_DEVICE_TO_DEVICE);
	else if (ret == 0)
		ret = hmem_copy_pieces(dst, src, len, from ? from->room : to->room, ROOM, piece,
				       &lanes);
	if (from && from != to)
		put(from, ret);
	if (to)
		put(to, ret);
	return ret;
}
