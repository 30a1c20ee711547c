/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of a device that its driver refused to end, although the device is there.
 *
 * What the program has closed is closed: it can do nothing about such an object and never hears of it
 * again.  The domain keeps it and asks the driver again when it is closed itself, in the order in which
 * the objects were to end, since each stands on those after it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/nic/verbs.h"

struct verbs_kept {
	struct hm_list link;
	enum verbs_kind kind;
	void *object;
	void *memory; /* owned: what a region is over; NULL: not ours */
	size_t size;
};

static int end_mw(struct verbs_domain *domain, void *object)
{
	(void)domain;
	return ibv_dealloc_mw(object);
}

static int end_mr(struct verbs_domain *domain, void *object)
{
	(void)domain;
	return verbs.dereg_mr(object);
}

static int end_cm_id(struct verbs_domain *domain, void *object)
{
	(void)domain;
	return cm.destroy_id(object);
}

/* An identifier that is still there reports to its channel. */
static int end_events(struct verbs_domain *domain, void *object)
{
	bool used = false;

	pthread_mutex_lock(&domain->composites_lock);
	hm_list_for_each(link, &domain->kept)
	{
		const struct verbs_kept *kept = hm_list_entry(link, struct verbs_kept, link);

		used |= kept->kind == VERBS_KIND_CM_ID &&
			((const struct rdma_cm_id *)kept->object)->channel == object;
	}
	pthread_mutex_unlock(&domain->composites_lock);
	if (!used)
		cm.destroy_event_channel(object);
	return used ? EBUSY : 0;
}

static int end_srq(struct verbs_domain *domain, void *object)
{
	(void)domain;
	return verbs.destroy_srq(object);
}

static int end_cq(struct verbs_domain *domain, void *object)
{
	(void)domain;
	return verbs.destroy_cq(object);
}

static int end_channel(struct verbs_domain *domain, void *object)
{
	(void)domain;
	return verbs.destroy_comp_channel(object);
}

static const struct {
	const char *verb;
	int (*end)(struct verbs_domain *domain, void *object);
} kinds[] = {
	[VERBS_KIND_MW] = { "ibv_dealloc_mw", end_mw },
	[VERBS_KIND_MR] = { "ibv_dereg_mr", end_mr },
	[VERBS_KIND_CM_ID] = { "rdma_destroy_id", end_cm_id },
	[VERBS_KIND_EVENTS] = { "rdma_destroy_event_channel", end_events },
	[VERBS_KIND_SRQ] = { "ibv_destroy_srq", end_srq },
	[VERBS_KIND_CQ] = { "ibv_destroy_cq", end_cq },
	[VERBS_KIND_CHANNEL] = { "ibv_destroy_comp_channel", end_channel },
};

/* 0, or the errno by which the driver of a device that is there refuses. */
static int end(struct verbs_domain *domain, enum verbs_kind kind, void *object)
{
	int err = verbs_errno(kinds[kind].end(domain, object));

	return err && verbs_domain_lost(domain, err) ? 0 : err;
}

static void refused(const struct verbs_domain *domain, const char *verb, int err)
{
	HM_WARN(FI_LOG_DOMAIN,
		"%s: %s: errno %d (%s): the driver refuses; it is asked again when the domain is "
		"closed",
		domain->device->name, verb, err, strerror(err));
}

void verbs_end(struct verbs_domain *domain, enum verbs_kind kind, void *object, void *memory,
	       size_t size)
{
	struct verbs_kept *kept;
	int err;

	if (!object)
		return;
	err = end(domain, kind, object);
	if (!err) {
		if (memory)
			munmap(memory, size);
		return;
	}
	if (kind != VERBS_KIND_EVENTS) /* the identifier has been told of */
		refused(domain, kinds[kind].verb, err);
	kept = malloc(sizeof(*kept));
	if (!kept) { /* it ends with the device's context */
		HM_WARN(FI_LOG_DOMAIN, "no memory to remember it");
		return;
	}
	*kept = (struct verbs_kept){
		.kind = kind, .object = object, .memory = memory, .size = size
	};
	pthread_mutex_lock(&domain->composites_lock);
	hm_list_add_tail(&domain->kept, &kept->link);
	pthread_mutex_unlock(&domain->composites_lock);
}

static void forget(struct verbs_kept *kept)
{
	hm_list_del(&kept->link);
	if (kept->memory)
		munmap(kept->memory, kept->size);
	free(kept);
}

int verbs_kept_end(struct verbs_domain *domain, const char **verb)
{
	int first = 0;

	hm_list_for_each_safe(link, &domain->kept)
	{
		struct verbs_kept *kept = hm_list_entry(link, struct verbs_kept, link);
		int err = end(domain, kept->kind, kept->object);

		if (!err) {
			forget(kept);
		} else if (!first) {
			first = err;
			*verb = kinds[kept->kind].verb;
		}
	}
	return first;
}

void verbs_kept_forget(struct verbs_domain *domain)
{
	hm_list_for_each_safe(link, &domain->kept)
	{
		struct verbs_kept *kept = hm_list_entry(link, struct verbs_kept, link);

		/* these have files of their own; identifiers end with that of their channel */
		if (kept->kind == VERBS_KIND_CHANNEL)
			close(((struct ibv_comp_channel *)kept->object)->fd);
		else if (kept->kind == VERBS_KIND_EVENTS)
			cm.destroy_event_channel(kept->object);
		forget(kept);
	}
}
