/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: made, bound, enabled and closed. */
#include "core/mr/mr.h"

#include "core/mr/local.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/refusal.h"
#include "core/base/trace.h"

/* Domains whose every region needs an ext have it behind the region, in the same element. */
static bool embeds_ext(const struct nic_domain *nic)
{
	return (nic->mr_mode & (FI_MR_RAW | FI_MR_ENDPOINT)) || (nic->caps & FI_RMA_EVENT) ||
	       nic->keyed;
}

static size_t ext_offset(const struct nic_domain *nic)
{
	return sizeof(struct hm_mr) + ((nic->ops->region_private + 7) & ~(size_t)7);
}

static size_t element_size(const struct nic_domain *nic)
{
	return ext_offset(nic) + (embeds_ext(nic) ? sizeof(struct nic_region_ext) : 0);
}

/* Is the region born disabled? */
static bool starts_disabled(const struct hm_mr_domain *domain,
			    const struct nic_region_request *request)
{
	if (request->internal)
		return false;
	return (domain->nic->mr_mode & FI_MR_ENDPOINT) ||
	       ((domain->nic->mr_mode & FI_MR_RMA_EVENT) && (request->flags & FI_RMA_EVENT));
}

/* The memory that ext points to. */
struct ext_parts {
	struct iovec *iov;
	struct nic_place *places;
};

/* Does somebody else than the host reach the memory, or through another address? */
static bool has_places(const struct hm_mr_request *request)
{
	if (request->base)
		return request->base->region.ext && request->base->region.ext->places;
	return request->on_device || request->nic.dmabuf;
}

static void fill_places(const struct hm_mr_request *request, struct nic_place *places)
{
	const struct nic_region_request *nic = &request->nic;

	for (size_t i = 0; i < nic->iov_count; i++) {
		struct nic_place *place = &places[i];
		const struct hmem_memory *memory = &request->memory[i];

		*place = (struct nic_place){ .iface = FI_HMEM_SYSTEM,
					     .device = HMEM_NO_DEVICE,
					     .at = nic->iov[i].iov_base };
		if (request->on_device && !(memory->ways & HMEM_WAY_HOST)) {
			place->iface = memory->iface;
			place->device = memory->device;
			place->id = memory->segments == 1 ? memory->id : 0;
		}
	}
}

static int make_parts(const struct hm_mr_request *request, struct ext_parts *parts)
{
	const struct nic_region_request *nic = &request->nic;

	if (nic->iov_count > 1) {
		parts->iov = malloc(nic->iov_count * sizeof(*parts->iov));
		if (!parts->iov)
			return -FI_ENOMEM;
		memcpy(parts->iov, nic->iov, nic->iov_count * sizeof(*parts->iov));
	}
	if (!has_places(request))
		return 0;
	parts->places = calloc(nic->iov_count, sizeof(*parts->places));
	if (!parts->places)
		return -FI_ENOMEM;
	if (request->base)
		hm_mr_base_places(request, parts->places);
	else
		fill_places(request, parts->places);
	return 0;
}

/* What few regions need.  region->ext is NULL when this one does not. */
static int make_ext(struct hm_mr *mr, const struct hm_mr_domain *domain,
		    const struct hm_mr_request *request, struct nic_region_auth *auth)
{
	const struct nic_domain *nic = domain->nic;
	struct nic_region_ext *ext = NULL;
	struct ext_parts parts = { NULL, NULL };
	int ret = make_parts(request, &parts);

	if (embeds_ext(nic))
		ext = (struct nic_region_ext *)((char *)mr + ext_offset(nic));
	else if (ret == 0 && (parts.iov || parts.places || auth))
		ret = (ext = malloc(sizeof(*ext))) ? 0 : -FI_ENOMEM;
	if (ret != 0) {
		free(parts.iov);
		free(parts.places);
		return ret;
	}
	mr->region.ext = ext;
	if (!ext)
		return 0;
	ext->iov_count = (uint32_t)request->nic.iov_count;
	ext->iov = parts.iov;
	ext->places = parts.places;
	ext->exports = NULL;
	ext->auth = auth;
	ext->path = 0;
	ext->identity = 0;
	atomic_init(&ext->cntr, NULL);
	ext->ep = NULL;
	if (nic->mr_mode & FI_MR_RAW)
		ext->secret = hm_raw_secret(domain, hm_key_handle(&mr->region.node));
	return 0;
}

static void free_ext(struct hm_mr *mr)
{
	struct nic_region_ext *ext = mr->region.ext;

	if (!ext)
		return;
	hm_mr_drop_auth(mr->region.domain, ext->auth);
	hm_mr_exports_free(ext->exports);
	free(ext->places);
	free(ext->iov);
	if (!embeds_ext(mr->region.domain))
		free(ext);
}

static void fill_region(struct hm_mr *mr, struct hm_mr_domain *domain,
			const struct hm_mr_request *request)
{
	struct nic_region *region = &mr->region;
	uint32_t state = starts_disabled(domain, &request->nic) ? 0 : NIC_REGION_ENABLED;

	if (request->nic.internal)
		state |= NIC_REGION_INTERNAL;
	if (request->nic.flags & FI_MR_SINGLE_USE)
		state |= NIC_REGION_SINGLE_USE;
	if (request->nic.flags & FI_RMA_EVENT)
		state |= NIC_REGION_WANTS_CNTR;
	if (request->nic.dmabuf)
		state |= NIC_REGION_IMPORTED;
	else if (request->base)
		state |= atomic_load(&request->base->region.state) & NIC_REGION_IMPORTED;
	region->domain = domain->nic;
	region->base = (uintptr_t)request->nic.iov[0].iov_base;
	region->len = request->len;
	region->access = (uint32_t)request->nic.access;
	region->parent = request->base ? &request->base->region : NULL;
	atomic_store_explicit(&region->state, state, memory_order_relaxed);
	atomic_store_explicit(&mr->subs, HM_MR_CLOSING, memory_order_relaxed);
	mr->mr.mem_desc = (void *)(uintptr_t)hm_key_handle(&region->node);
}

/* Does the application choose the keys? */
static bool has_user_keys(const struct nic_domain *nic)
{
	return !(nic->mr_mode & FI_MR_PROV_KEY);
}

static struct hm_key_table *table_of(struct hm_mr_domain *domain, bool internal)
{
	return internal ? hm_mr_local_regions(domain) : &domain->regions;
}

/* Give the region its key and open it to accesses and sub-MRs. */
static void publish(struct hm_mr *mr, const struct nic_domain *nic, uint64_t requested_key)
{
	if ((nic->mr_mode & FI_MR_RAW) || nic_region_is_internal(&mr->region))
		mr->mr.key = FI_KEY_NOTAVAIL;
	else if (has_user_keys(nic))
		mr->mr.key = requested_key;
	else
		mr->mr.key = nic->ops->region_key(&mr->region);
	hm_key_publish(&mr->region.node);
	atomic_store_explicit(&mr->subs, 0, memory_order_release);
}

/* An element, with the key that was asked for where the application chooses. */
static int take_element(struct hm_mr_domain *domain, const struct hm_mr_request *request,
			void **element)
{
	bool internal = request->nic.internal;
	const uint64_t *key = has_user_keys(domain->nic) && !internal ? &request->requested_key
								      : NULL;
	int ret = hm_key_alloc(table_of(domain, internal), request->len, key, element);

	if (ret == -FI_ENOKEY)
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_KEY_IN_USE, "requested key 0x%lx is in use",
			  (unsigned long)request->requested_key);
	else if (ret == -FI_ENOSPC)
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_REGIONS_FULL,
			  "the domain holds as many regions as it can (%zu)",
			  domain->nic->port->max_mr_count);
	else if (ret != 0)
		HM_WARN(FI_LOG_MR, "no memory for another region");
	return ret;
}

static int make_region(struct hm_mr_domain *domain, struct hm_mr_request *request,
		       struct hm_mr **out)
{
	void *element;
	struct nic_region_auth *auth;
	struct hm_mr *mr;
	int ret;

	ret = take_element(domain, request, &element);
	if (ret != 0)
		return ret;
	mr = element;
	ret = hm_mr_take_auth(domain->nic, &request->auth, !starts_disabled(domain, &request->nic),
			      &auth);
	if (ret != 0)
		goto free_element;
	ret = make_ext(mr, domain, request, auth);
	if (ret != 0) {
		HM_WARN(FI_LOG_MR, "no memory for the region's segments");
		hm_mr_drop_auth(domain->nic, auth);
		goto free_element;
	}
	fill_region(mr, domain, request);
	ret = request->base ? hm_mr_register_sub(domain, &mr->region, request)
			    : hm_mr_register_by_path(domain, &mr->region, request);
	if (ret != 0)
		goto free_ext;
	publish(mr, domain->nic, request->requested_key);
	*out = mr;
	return 0;
free_ext:
	free_ext(mr);
free_element:
	hm_key_free(table_of(domain, request->nic.internal), &mr->region.node, request->len);
	return ret;
}

int hm_mr_make(struct hm_mr_domain *domain, struct hm_mr_request *request, struct hm_mr **out)
{
	const void *first = request->nic.iov->iov_base;
	uint32_t iface = request->on_device ? request->memory[0].iface : FI_HMEM_SYSTEM;
	int ret;

	HM_PROBE(register, domain, first, request->len, iface, 0);
	ret = make_region(domain, request, out);
	HM_PROBE(register_done, domain, first, request->len, iface, ret);
	return ret;
}

/* The tables' owner, from the pointer that the NIC's domain has. */
static struct hm_mr_domain *owner(const struct hm_mr *mr)
{
	return hm_container(mr->region.domain->regions, struct hm_mr_domain, regions);
}

static void unbind(struct nic_region_ext *ext)
{
	if (ext && ext->cntr)
		hm_unuse(&ext->cntr->users);
	if (ext && ext->ep)
		hm_unuse(&ext->ep->users);
}

/*
 * The NIC has ended the region, or has not: domain->refused counts those that it has not, and that a program
 * closes.
 */
static void note_end(struct hm_mr_domain *domain, struct nic_region *region, bool ended)
{
	bool before = atomic_load(&region->state) & NIC_REGION_REFUSED;

	if (ended == !before || (atomic_load(&region->state) & NIC_REGION_KEPT))
		return;
	atomic_fetch_xor(&region->state, NIC_REGION_REFUSED);
	if (ended)
		atomic_fetch_sub(&domain->refused, 1);
	else
		atomic_fetch_add(&domain->refused, 1);
}

int hm_mr_close(struct hm_mr *mr)
{
	struct hm_mr_domain *domain = owner(mr);
	struct nic_region *parent = mr->region.parent;
	uint64_t len = mr->region.len;
	struct hm_key_table *table = table_of(domain, nic_region_is_internal(&mr->region));
	bool live = hm_key_kill(&mr->region.node);
	int ret;

	assert(live); /* begin_close lets one thread through */
	(void)live;
	/* the NIC ends its key before it lets go of the memory; nobody here leads to either any more */
	ret = domain->nic->ops->region_deregister(&mr->region);
	note_end(domain, &mr->region, ret == 0);
	if (ret != 0) {
		hm_key_revive(&mr->region.node);
		return ret;
	}
	unbind(mr->region.ext);
	free_ext(mr);
	hm_key_free(table, &mr->region.node, len);
	if (parent)
		hm_mr_drop_base(hm_container(parent, struct hm_mr, region));
	return 0;
}

void hm_mr_abandon(struct hm_mr *mr)
{
	struct hm_mr_domain *domain = owner(mr);

	if (hm_mr_close(mr) == 0)
		return;
	pthread_mutex_lock(&domain->learnt_lock);
	mr->mr.fid.context = atomic_load(&domain->abandoned);
	atomic_store(&domain->abandoned, mr);
	pthread_mutex_unlock(&domain->learnt_lock);
}

void hm_mr_end_abandoned(struct hm_mr_domain *domain)
{
	struct hm_mr *mr;

	if (!atomic_load(&domain->abandoned))
		return;
	pthread_mutex_lock(&domain->learnt_lock);
	mr = atomic_exchange(&domain->abandoned, NULL);
	pthread_mutex_unlock(&domain->learnt_lock);
	while (mr) {
		struct hm_mr *next = mr->mr.fid.context;

		hm_mr_abandon(mr);
		mr = next;
	}
}

/* What is kept of buffers that are not in use makes way for the program's own region. */
static int make_pressing(struct hm_mr_domain *domain, struct hm_mr_request *request,
			 struct hm_mr **mr)
{
	bool was_mild = hm_log_mild;
	int ret;

	if (!hm_mr_local_keeps(domain))
		return hm_mr_make(domain, request, mr);
	hm_log_mild = true;
	ret = hm_mr_make(domain, request, mr);
	hm_log_mild = was_mild;
	if (ret == 0)
		return 0;
	if (ret == -FI_ENOMEM || ret == -FI_ENOSPC)
		hm_mr_local_evict(domain);
	return hm_mr_make(domain, request, mr);
}

static int make_checked(struct hm_mr_domain *domain, struct hm_mr_request *request,
			struct hm_mr **mr)
{
	int ret = request->base ? hm_mr_take_base(domain, request) : 0;

	if (ret != 0)
		return ret;
	ret = make_pressing(domain, request, mr);
	if (ret == 0 && request->nic.sub_mr_cnt)
		hm_key_reserve(&domain->regions, request->nic.sub_mr_cnt);
	if (ret != 0 && request->base)
		hm_mr_drop_base(request->base);
	return ret;
}

int hm_mr_register(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
		   struct hm_mr **mr)
{
	struct hm_mr_request request;
	int ret = hm_mr_check(domain, attr, flags, &request);

	return ret ? ret : make_checked(domain, &request, mr);
}

int hm_mr_register_part(struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
			struct hm_mr *base, uint64_t flags, struct hm_mr **mr)
{
	struct hm_mr_request request;
	int ret;

	if (!base)
		return hm_mr_register(domain, attr, flags, mr);
	ret = hm_mr_check_sub(domain, attr, base, flags, &request);
	return ret ? ret : make_checked(domain, &request, mr);
}

int hm_mr_table_init(const struct hm_mr_domain *domain, struct hm_key_table *table, size_t capacity,
		     bool user_keys)
{
	return hm_key_table_init(table, element_size(domain->nic),
				 offsetof(struct hm_mr, region.node), capacity, user_keys);
}

int hm_mr_domain_init(struct hm_mr_domain *domain)
{
	const struct nic_domain *nic = domain->nic;
	size_t capacity = nic->port->max_mr_count;
	int ret = hm_raw_init(domain);

	if (ret != 0)
		return ret;
	ret = hm_mr_table_init(domain, &domain->regions, capacity, has_user_keys(nic));
	if (ret != 0)
		goto no_table;
	ret = hm_key_table_init(&domain->mapped, sizeof(struct nic_mapped_key),
				offsetof(struct nic_mapped_key, node), capacity, true);
	if (ret != 0)
		goto destroy_regions;
	pthread_mutex_init(&domain->map_lock, NULL);
	pthread_mutex_init(&domain->learnt_lock, NULL);
	pthread_mutex_init(&domain->local_lock, NULL);
	domain->learnt = NULL;
	atomic_init(&domain->abandoned, NULL);
	atomic_init(&domain->local, NULL);
	domain->nic->regions = &domain->regions;
	domain->nic->mapped = &domain->mapped;
	domain->nic->hold_end = hm_mr_local_put;
	return 0;
destroy_regions:
	hm_key_table_destroy(&domain->regions);
no_table:
	HM_WARN(FI_LOG_MR, "no key table for a domain of %zu regions: %s", capacity,
		fi_strerror(-ret));
	return ret;
}

void hm_mr_domain_destroy(struct hm_mr_domain *domain)
{
	hm_mr_local_destroy(domain);
	hm_mr_learnt_free(domain);
	pthread_mutex_destroy(&domain->local_lock);
	pthread_mutex_destroy(&domain->learnt_lock);
	pthread_mutex_destroy(&domain->map_lock);
	hm_key_table_destroy(&domain->mapped);
	hm_key_table_destroy(&domain->regions);
}

/* ---- binding, enabling ---- */

static bool is_enabled(const struct hm_mr *mr)
{
	return atomic_load_explicit(&((struct hm_mr *)mr)->region.state, memory_order_acquire) &
	       NIC_REGION_ENABLED;
}

int hm_mr_bind_cntr(struct hm_mr *mr, struct nic_domain *owner_domain, struct nic_cntr *cntr,
		    uint64_t flags)
{
	struct nic_region_ext *ext = mr->region.ext;
	struct nic_cntr *none = NULL;

	if (flags != FI_REMOTE_WRITE) {
		HM_WARN(FI_LOG_MR, "a counter is bound with FI_REMOTE_WRITE, not flags 0x%lx",
			(unsigned long)flags);
		return -FI_EINVAL;
	}
	if (!ext || !(mr->region.domain->caps & FI_RMA_EVENT)) {
		HM_WARN(FI_LOG_MR, "the domain was not opened with FI_RMA_EVENT");
		return -FI_ENOSYS;
	}
	if (owner_domain != mr->region.domain) {
		HM_WARN(FI_LOG_MR, "counter and region are of different domains");
		return -FI_EINVAL;
	}
	/* fi_mr(3): where regions are enabled by a call, all is bound to them before it */
	if ((mr->region.domain->mr_mode & (FI_MR_RMA_EVENT | FI_MR_ENDPOINT)) && is_enabled(mr)) {
		HM_WARN(FI_LOG_MR, "the region is enabled, too late to bind a counter");
		return -FI_EOPBADSTATE;
	}
	if ((mr->region.domain->mr_mode & FI_MR_RMA_EVENT) &&
	    !(atomic_load(&mr->region.state) & NIC_REGION_WANTS_CNTR)) {
		HM_WARN(FI_LOG_MR, "FI_MR_RMA_EVENT: a region that is to have a counter is "
				   "registered with FI_RMA_EVENT, and this one was not");
		return -FI_EINVAL;
	}
	hm_use(&cntr->users);
	if (!atomic_compare_exchange_strong(&ext->cntr, &none, cntr)) {
		hm_unuse(&cntr->users);
		HM_WARN(FI_LOG_MR, "the region has a counter already");
		return -FI_EINVAL;
	}
	return 0;
}

int hm_mr_bind_ep(struct hm_mr *mr, struct nic_ep *ep, uint64_t flags)
{
	struct nic_region_ext *ext = mr->region.ext;

	if (flags != 0) {
		HM_WARN(FI_LOG_MR, "an endpoint is bound with flags 0, not 0x%lx",
			(unsigned long)flags);
		return -FI_EINVAL;
	}
	if (!(mr->region.domain->mr_mode & FI_MR_ENDPOINT)) {
		HM_WARN(FI_LOG_MR, "the domain binds regions to no endpoint (FI_MR_ENDPOINT)");
		return -FI_EINVAL;
	}
	if (is_enabled(mr)) {
		HM_WARN(FI_LOG_MR, "the region is enabled, too late to bind an endpoint");
		return -FI_EOPBADSTATE;
	}
	if (ep->domain != mr->region.domain || ext->ep) {
		HM_WARN(FI_LOG_MR, ext->ep ? "the region has an endpoint already"
					   : "endpoint and region are of different domains");
		return -FI_EINVAL;
	}
	if (ext->auth && ext->auth->av && ext->auth->av != ep->av) {
		HM_WARN(FI_LOG_MR,
			"the region's keys are of another address vector than the endpoint's");
		return -FI_EINVAL;
	}
	hm_use(&ep->users);
	ext->ep = ep;
	return 0;
}

int hm_mr_enable(struct hm_mr *mr)
{
	struct nic_region *region = &mr->region;
	int ret;

	if (is_enabled(mr)) {
		HM_WARN(FI_LOG_MR, "the region is enabled already");
		return -FI_EOPBADSTATE;
	}
	if ((region->domain->mr_mode & FI_MR_ENDPOINT) && !region->ext->ep) {
		HM_WARN(FI_LOG_MR, "FI_MR_ENDPOINT: bind an endpoint first");
		return -FI_EOPBADSTATE;
	}
	if ((region->domain->mr_mode & FI_MR_RMA_EVENT) &&
	    (atomic_load(&region->state) & NIC_REGION_WANTS_CNTR) && !region->ext->cntr) {
		HM_WARN(FI_LOG_MR, "FI_RMA_EVENT: bind a counter first");
		return -FI_EOPBADSTATE;
	}
	ret = region->ext ? hm_mr_enable_auth(region->ext->auth) : 0;
	if (ret != 0)
		return ret;
	atomic_fetch_or_explicit(&region->state, NIC_REGION_ENABLED, memory_order_release);
	return 0;
}
