/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies between any two places: directly where one interface reaches both, else through the host. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "core/base/log.h"
#include "hmem/hmem.h"

#define BOUNCE_SIZE (256u << 10)

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

static int bounce(const struct hmem_place *dst, const struct hmem_place *src, size_t len)
{
	const struct hmem_ops *from = hmem_get(src->iface), *to = hmem_get(dst->iface);
	size_t size = len < BOUNCE_SIZE ? len : BOUNCE_SIZE;
	void *room;
	int ret = 0;

	if (!from || !to)
		return -FI_ENODEV;
	room = malloc(size);
	if (!room) {
		HM_WARN(FI_LOG_CORE, "no memory for a copy from %s to %s", from->name, to->name);
		return -FI_ENOMEM;
	}
	for (size_t at = 0; ret == 0 && at < len; at += size) {
		size_t n = len - at < size ? len - at : size;

		ret = from->copy(room, HMEM_NO_DEVICE, (const char *)src->addr + at, src->device,
				 n);
		if (ret == 0)
			ret = to->copy((char *)dst->addr + at, dst->device, room, HMEM_NO_DEVICE,
				       n);
	}
	free(room);
	return ret;
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
