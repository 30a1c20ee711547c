/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies between any two places: directly where one interface reaches both, else through the host. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "core/base/log.h"
#include "hmem/hmem.h"

#define ROOM ((size_t)256 << 10)

/* The interface that reaches both ends, or NULL. */
static const struct hmem_ops *common(const struct hmem_place *dst, const struct hmem_place *src)
{
	if (src->device == HMEM_NO_DEVICE && dst->device == HMEM_NO_DEVICE)
		return &hmem_system;
	if (src->device == HMEM_NO_DEVICE)
		return hmem_get(dst->iface);
	if (dst->device == HMEM_NO_DEVICE || dst->iface == src->iface)
		return hmem_get(src->iface);
	return NULL;
}

/* A driver that is handed host memory that is not there may crash; ours to find out before. */
static int check_host(const struct hmem_place *place, size_t len, bool write)
{
	return place->device != HMEM_NO_DEVICE ? 0 : hm_guard_probe(place->addr, len, write);
}

bool hmem_overlap(const void *a, const void *b, size_t len)
{
	return (uintptr_t)a - (uintptr_t)b < len || (uintptr_t)b - (uintptr_t)a < len;
}

int hmem_copy_pieces(void *dst, const void *src, size_t len, void *room, size_t size,
		     hmem_piece_fn *piece, const void *arg)
{
	bool backward = (uintptr_t)dst - (uintptr_t)src < len; /* dst begins inside of src */
	void *own = NULL;
	int ret = 0;

	if (!room) {
		size = len < ROOM ? len : ROOM;
		room = own = malloc(size);
	}
	if (!room) {
		HM_WARN(FI_LOG_MR, "no memory for a copy through the host");
		return -FI_ENOMEM;
	}
	for (size_t done = 0; ret == 0 && done < len;) {
		size_t n = len - done < size ? len - done : size;
		size_t at = backward ? len - done - n : done;

		ret = piece(arg, (char *)dst + at, (const char *)src + at, n, room);
		done += n;
	}
	free(own);
	return ret;
}

/* Between two interfaces. */
struct bounce {
	const struct hmem_ops *to, *from;
	int dst_device, src_device;
};

static int bounce_piece(const void *arg, char *dst, const char *src, size_t len, void *room)
{
	const struct bounce *b = arg;
	int ret = b->from->copy(room, HMEM_NO_DEVICE, src, b->src_device, len);

	return ret ? ret : b->to->copy(dst, b->dst_device, room, HMEM_NO_DEVICE, len);
}

static int bounce(const struct hmem_place *dst, const struct hmem_place *src, size_t len)
{
	struct bounce b = { hmem_get(dst->iface), hmem_get(src->iface), dst->device, src->device };

	if (!b.from || !b.to)
		return -FI_ENODEV;
	return hmem_copy_pieces(dst->addr, src->addr, len, NULL, 0, bounce_piece, &b);
}

/* Device and host, checked: the interface to ask, NULL for the way through the host. */
static int prepare(const struct hmem_place *dst, const struct hmem_place *src, size_t len,
		   const struct hmem_ops **ops)
{
	int ret;

	/* which a program without an endpoint or a domain of the software NIC has not done */
	hm_guard_install();
	*ops = common(dst, src);
	if (*ops == &hmem_system)
		return 0;
	if (!*ops && (src->device == HMEM_NO_DEVICE || dst->device == HMEM_NO_DEVICE))
		return -FI_ENODEV;
	ret = check_host(src, len, false);
	return ret != 0 ? ret : check_host(dst, len, true);
}

/* After prepare. */
static int copy_now(const struct hmem_ops *ops, const struct hmem_place *dst,
		    const struct hmem_place *src, size_t len)
{
	return ops ? ops->copy(dst->addr, dst->device, src->addr, src->device, len)
		   : bounce(dst, src, len);
}

int hmem_copy(const struct hmem_place *dst, const struct hmem_place *src, size_t len)
{
	const struct hmem_ops *ops;
	int ret = len > 0 ? prepare(dst, src, len, &ops) : 0;

	return ret != 0 || len == 0 ? ret : copy_now(ops, dst, src, len);
}

/* ---- copies under way ---- */

struct hmem_job {
	const struct hmem_ops *ops;
	uint64_t event;
};

int hmem_copy_start(const struct hmem_place *dst, const struct hmem_place *src, size_t len,
		    struct hmem_job **out)
{
	const struct hmem_ops *ops = NULL;
	struct hmem_job *job = calloc(1, sizeof(*job));
	int ret;

	if (!job)
		return -FI_ENOMEM;
	ret = len > 0 ? prepare(dst, src, len, &ops) : 0;
	if (ret == 0 && ops && ops->copy_start) {
		job->ops = ops;
		ret = ops->copy_start(dst->addr, dst->device, src->addr, src->device, len,
				      &job->event);
	} else if (ret == 0 && len > 0) {
		ret = copy_now(ops, dst, src, len);
	}
	if (ret != 0) {
		free(job);
		return ret;
	}
	*out = job;
	return 0;
}

int hmem_copy_end(struct hmem_job *job, bool wait)
{
	int ret = job->ops ? job->ops->copy_end(job->event, wait) : 0;

	if (ret != -FI_EAGAIN)
		free(job);
	return ret;
}
