/* SPDX-License-Identifier: BSD-2-Clause */
/* Registrations that the library makes itself: see local.h. */
#include "core/mr/local_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/params.h"
#include "core/mr/monitor.h"

#define MOMENTS	       1000u /* milliseconds that another thread has to end what it has begun to */
#define FOLLOWED_SHARE 32u   /* of what is kept ends where a monitor can follow no more */

/* ---- one region ---- */

/* Whole pages that no interface knows; else registration asks whose it is. */
static bool is_plain(const struct hm_cache_key *key)
{
	return (key->kind & (HM_LOCAL_IFACE | HM_LOCAL_PAGES)) ==
	       ((uint32_t)FI_HMEM_SYSTEM | HM_LOCAL_PAGES);
}

/* The fid of a region here is nobody's: fclass tells whether its pages are watched, context is their mark. */
void hm_mr_local_note(struct hm_mr *mr, bool watched, uint64_t mark)
{
	mr->mr.fid.fclass = watched;
	mr->mr.fid.context = (void *)(uintptr_t)mark;
}

static int register_range(struct hm_mr_local *local, const struct hm_cache_key *key,
			  struct hm_mr **mr)
{
	struct hm_mr_domain *domain = local->domain;
	struct hm_mr_request request;
	struct iovec iov = { (void *)(uintptr_t)key->begin, key->end - key->begin };
	const struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = key->rights };
	int ret = 0;

	request.nic = (struct nic_region_request){
		.iov = &iov, .iov_count = 1, .access = key->rights, .internal = true
	};
	request.len = iov.iov_len;
	request.requested_key = 0;
	request.auth.key_size = 0;
	request.auth.av = NULL;
	request.base = NULL;
	request.on_device = false;
	if (!is_plain(key))
		ret = hm_mr_find_memory(domain, &attr, 0, &request);
	return ret == 0 ? hm_mr_make(domain, &request, mr) : ret;
}

static int end_region(struct hm_mr_local *local, struct hm_mr *mr)
{
	uint64_t begin = hm_mr_local_page(local, mr->region.base);
	uint64_t end = hm_mr_local_pages_end(local, mr->region.base + mr->region.len);
	uint64_t mark = (uintptr_t)mr->mr.fid.context;
	bool watched = mr->mr.fid.fclass;
	uint64_t len = mr->region.len;
	struct hm_mr_kept_file *file = (void *)mr->mr.fid.ops;
	bool own = nic_region_is_internal(&mr->region), was_mild = hm_log_mild;
	int ret;

	/* the reaper tries again ten times a second, which is not told each time */
	hm_log_mild |= atomic_load(&mr->region.state) & NIC_REGION_REFUSED &&
		       atomic_load(&local->refusal) != 0;
	ret = hm_mr_close(mr);
	hm_log_mild = was_mild;
	if (ret != 0) {
		atomic_store(&local->refusal, ret);
		atomic_fetch_or(&mr->region.state, NIC_REGION_REFUSED);
		return ret;
	}
	if (watched)
		hm_monitor_unwatch(begin, end, mark);
	if (!own)
		hm_mr_kept_ended(local, len, file);
	return 0;
}

/* ---- regions of one use that the NIC refused to end: without memory, which there may be none of ---- */

static void push_refused(struct hm_mr_local *local, struct hm_mr *mr)
{
	struct hm_mr *first = atomic_load(&local->refused);

	do {
		mr->mr.fid.context = first;
	} while (!atomic_compare_exchange_weak(&local->refused, &first, mr));
}

void hm_mr_local_end_alone(struct hm_mr_local *local, struct hm_mr *mr)
{
	if (end_region(local, mr) == 0)
		return;
	if (mr->mr.fid.fclass) /* nobody finds it, so that its pages are of no interest */
		hm_monitor_unwatch(hm_mr_local_page(local, mr->region.base),
				   hm_mr_local_pages_end(local, mr->region.base + mr->region.len),
				   (uintptr_t)mr->mr.fid.context);
	mr->mr.fid.fclass = false;
	push_refused(local, mr);
}

/* False: some are refused again. */
static bool end_refused(struct hm_mr_local *local)
{
	struct hm_mr *mr = NULL, *next;
	bool all = true;

	if (__builtin_expect(atomic_load(&local->refused) != NULL, 0))
		mr = atomic_exchange(&local->refused, NULL);
	for (; mr; mr = next) {
		next = mr->mr.fid.context;
		if (end_region(local, mr) != 0) {
			push_refused(local, mr);
			all = false;
		}
	}
	return all;
}

/* ---- what the cache calls ---- */

/* Of an allocation, if the range lies in one. */
static void widen_in(const struct hmem_memory *memory, struct hm_cache_key *key)
{
	uint64_t begin = key->begin & ~(HM_LOCAL_GRAIN - 1);
	uint64_t end = (key->end + HM_LOCAL_GRAIN - 1) & ~(HM_LOCAL_GRAIN - 1);

	if (!memory->range_known || memory->segments != 1)
		return;
	if (memory->len <= HM_LOCAL_WHOLE || begin < memory->base)
		begin = memory->base;
	if (memory->len <= HM_LOCAL_WHOLE || end > memory->base + memory->len)
		end = memory->base + memory->len;
	key->begin = begin;
	key->end = end;
}

static void widen(void *context, struct hm_cache_key *key)
{
	struct hmem_memory memory;

	(void)context;
	if (key->kind & HM_LOCAL_KEPT) /* what peers reach is what was asked for */
		return;
	if (key->rights & HM_LOCAL_WRITES)
		key->rights |= HM_LOCAL_WRITES;
	key->rights |= HM_LOCAL_READS;
	if (!is_plain(key) &&
	    hmem_classify((void *)(uintptr_t)key->begin, key->end - key->begin, &memory) == 0)
		widen_in(&memory, key);
}

/* What the monitor follows makes way for more. */
static void follow_less(struct hm_mr_local *local)
{
	uint64_t count = atomic_load_explicit(&local->cache.count, memory_order_relaxed);

	hm_cache_reap(&local->cache);
	hm_cache_evict(&local->cache, (uint32_t)(count / FOLLOWED_SHARE) + 1);
}

/* Changes of these pages are told from now on.  Else nothing of them is kept, this one included. */
static bool watch(struct hm_mr_local *local, const struct hm_cache_key *key, uint64_t *mark)
{
	uint64_t begin = hm_mr_local_page(local, key->begin);
	uint64_t end = hm_mr_local_pages_end(local, key->end);
	int ret;

	if (!(key->kind & HM_LOCAL_PAGES))
		return false;
	ret = hm_monitor_watch(begin, end, mark);
	if (ret == -FI_ENOSPC) {
		follow_less(local);
		ret = hm_monitor_watch(begin, end, mark);
	}
	if (ret == 0)
		return true;
	hm_cache_invalidate(&local->cache, key->begin, key->end);
	return false;
}

static int add(void *context, const struct hm_cache_key *key, void **data)
{
	struct hm_mr_local *local = hm_mr_local_find(context);
	uint64_t mark = 0;
	bool watched = watch(local, key, &mark), was_mild = hm_log_mild;
	struct hm_mr *mr;
	int ret;

	/* who asked tries once more where this fails, and has it told then */
	hm_log_mild = true;
	ret = key->kind & HM_LOCAL_KEPT ? hm_mr_kept_register(local, &mr)
					: register_range(local, key, &mr);
	hm_log_mild = was_mild;
	if (ret == 0) {
		hm_mr_local_note(mr, watched, mark);
		atomic_fetch_or_explicit(&mr->region.state, NIC_REGION_KEPT, memory_order_relaxed);
		*data = mr;
	} else if (watched) {
		hm_monitor_unwatch(hm_mr_local_page(local, key->begin),
				   hm_mr_local_pages_end(local, key->end), mark);
	}
	return ret;
}

static int end_kept(void *context, void *data)
{
	return end_region(hm_mr_local_find(context), data);
}

/* ---- life ---- */

/* Half of the machine's memory, or what the process may lock if that is less and the NIC locks it. */
static uint64_t default_bytes(const struct nic_port *port)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
	struct rlimit limit;

	if (port->pins && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < bytes &&
	    limit.rlim_cur > 0 && geteuid() != 0)
		bytes = limit.rlim_cur;
	return bytes;
}

static void join(struct hm_mr_local *local)
{
	int ret = hm_monitor_join(&local->cache);

	atomic_store(&local->may_join, ret == -FI_EBUSY);
	atomic_store(&local->joined, ret == 0);
}

/* What was made inside a monitor's function, where it could not join. */
static void join_late(struct hm_mr_local *local)
{
	/* a join is no cancellation point */
	pthread_mutex_lock(&local->domain->local_lock);
	if (atomic_load(&local->may_join))
		join(local);
	pthread_mutex_unlock(&local->domain->local_lock);
}

static int make_cache(struct hm_mr_local *local)
{
	static const struct hm_cache_ops ops = { .widen = widen, .add = add, .remove = end_kept };
	uint64_t bytes = hm_param_size(HM_PARAM_CACHE_MAX_SIZE);
	uint64_t count = hm_param_size(HM_PARAM_CACHE_MAX_COUNT);
	int ret;

	if (bytes == SIZE_MAX)
		bytes = default_bytes(local->domain->nic->port);
	/* the cache's context is the domain, as tracepoints of registrations have it */
	ret = hm_cache_init(&local->cache, &ops, local->domain, count, bytes);
	if (ret != 0) {
		/* it counts all the same */
		if (hm_cache_init(&local->cache, &ops, local->domain, 0, 0) != 0)
			return ret;
		HM_WARN(FI_LOG_MR,
			"no memory for a registration cache of %lu entries (%s): buffers without a "
			"descriptor are registered for each operation",
			(unsigned long)count, fi_strerror(-ret));
	}
	local->keeps = ret == 0 && count > 0 && bytes > 0;
	if (local->keeps)
		join(local);
	else if (ret == 0)
		HM_INFO(FI_LOG_MR, "FI_MR_CACHE_MAX_COUNT or FI_MR_CACHE_MAX_SIZE is 0: buffers "
				   "without a descriptor are registered for each operation");
	if (local->keeps)
		hm_mr_local_follow(hm_monitor_changed);
	hm_cache_show(&local->shown, &local->cache, local->domain->nic->port->domain_name);
	atomic_store(&local->domain->shown, &local->shown);
	return 0;
}

static struct hm_mr_local *make_locked(struct hm_mr_domain *domain)
{
	struct hm_mr_local *local = aligned_alloc(64, (sizeof(*local) + 63) & ~(size_t)63);

	if (!local)
		return NULL;
	memset(local, 0, sizeof(*local));
	local->domain = domain;
	local->page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (hm_mr_table_init(domain, &local->regions, HM_KEY_CAPACITY_MAX, false) != 0) {
		free(local);
		return NULL;
	}
	if (make_cache(local) != 0) {
		hm_key_table_destroy(&local->regions);
		free(local);
		return NULL;
	}
	atomic_store_explicit(&domain->local, local, memory_order_release);
	return local;
}

struct hm_mr_local *hm_mr_local_make(struct hm_mr_domain *domain)
{
	int cancel = hm_cancel_off();
	struct hm_mr_local *local;

	pthread_mutex_lock(&domain->local_lock);
	local = hm_mr_local_find(domain);
	if (!local)
		local = make_locked(domain);
	pthread_mutex_unlock(&domain->local_lock);
	hm_cancel_restore(cancel);
	if (!local)
		HM_WARN(FI_LOG_MR, "no memory to register buffers without a descriptor");
	return local;
}

void hm_mr_local_evict(struct hm_mr_domain *domain)
{
	struct hm_mr_local *local = hm_mr_local_find(domain);

	/* inside a monitor's function this thread may be reaping already */
	if (!local || !local->keeps || hm_monitor_inside())
		return;
	hm_cache_evict(&local->cache, UINT32_MAX);
	hm_cache_reap(&local->cache);
	end_refused(local);
}

bool hm_mr_local_keeps(struct hm_mr_domain *domain)
{
	struct hm_mr_local *local = hm_mr_local_find(domain);

	return local && atomic_load_explicit(&local->cache.count, memory_order_relaxed) > 0;
}

/* All that is not in use ends, what another thread is about to end included.  False: something is left. */
static bool end_all(struct hm_mr_local *local)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	int cancel = hm_cancel_off();
	bool done = false;

	for (unsigned i = 0; i < MOMENTS; i++) {
		bool ended = end_refused(local);

		hm_cache_evict(&local->cache, UINT32_MAX);
		ended = hm_cache_reap(&local->cache) == 0 && ended;
		done = ended && !hm_mr_local_keeps(local->domain);
		if (done || atomic_load(&local->refusal) != 0)
			break;
		nanosleep(&moment, NULL);
	}
	hm_cancel_restore(cancel);
	return done;
}

int hm_mr_local_flush(struct hm_mr_domain *domain)
{
	struct hm_mr_local *local = hm_mr_local_find(domain);
	uint64_t left;

	if (!local)
		return 0;
	if (hm_monitor_inside()) {
		HM_WARN(FI_LOG_DOMAIN,
			"a domain is not closed inside a function of a memory monitor");
		return -FI_EBUSY;
	}
	atomic_store(&local->refusal, 0);
	if (end_all(local))
		return 0;
	if (atomic_load(&local->refusal) != 0)
		return atomic_load(&local->refusal);
	hm_key_count(&local->regions, &left, NULL);
	HM_WARN(FI_LOG_DOMAIN, "%lu buffers without a descriptor are in use by operations",
		(unsigned long)left);
	return -FI_EBUSY;
}

void hm_mr_local_destroy(struct hm_mr_domain *domain)
{
	struct hm_mr_local *local = hm_mr_local_find(domain);

	if (!local)
		return;
	if (local->keeps)
		hm_mr_local_unfollow();
	if (local->joined)
		hm_monitor_leave(&local->cache);
	atomic_store(&domain->shown, NULL);
	hm_cache_hide(&local->shown);
	hm_cache_destroy(&local->cache);
	hm_key_table_destroy(&local->regions);
	free(local);
	atomic_store(&domain->local, NULL);
}

struct hm_key_table *hm_mr_local_regions(struct hm_mr_domain *domain)
{
	return &hm_mr_local_find(domain)->regions;
}

/* ---- get ---- */

/*
 * Of memory that no interface knows: whole pages.  Field by field, since the lookup that follows would wait for
 * a copy of the whole to be stored.
 */
static inline void plain_key(const struct hm_mr_local *local, const struct nic_seg *seg,
			     uint64_t access, struct hm_cache_key *key)
{
	uint64_t begin = (uintptr_t)seg->addr;

	key->begin = hm_mr_local_page(local, begin);
	key->end = hm_mr_local_pages_end(local, begin + seg->len);
	key->rights = (uint32_t)access;
	key->kind = FI_HMEM_SYSTEM | HM_LOCAL_PAGES;
	key->id = 0;
	key->group = FI_HMEM_SYSTEM;
}

/* Is a registration with these guards true as long as it is kept? */
bool hm_mr_local_can_keep(struct hm_mr_local *local, uint32_t guards)
{
	if (!local->keeps || guards == 0 || hm_monitor_inside())
		return false;
	if (!(guards & HMEM_GUARD_PAGES))
		return true;
	if (__builtin_expect(atomic_load_explicit(&local->may_join, memory_order_relaxed), 0))
		join_late(local);
	return atomic_load_explicit(&local->joined, memory_order_relaxed) && hm_monitor_used();
}

static void give(struct nic_seg *seg, struct nic_hold *hold, struct hm_mr *mr, uint32_t entry)
{
	*hold = (struct nic_hold){ &mr->region, entry };
	seg->region = &mr->region;
	seg->hold = hold;
}

/* For this operation alone. */
static int get_alone(struct hm_mr_local *local, const struct hm_cache_key *key, struct nic_seg *seg,
		     bool mild, struct nic_hold *hold)
{
	struct hm_cache_key alone = *key;
	bool was_mild = hm_log_mild;
	int cancel = hm_cancel_off();
	struct hm_mr *mr;
	int ret;

	end_refused(local);
	widen(local, &alone);
	hm_log_mild |= mild;
	ret = register_range(local, &alone, &mr);
	hm_log_mild = was_mild;
	hm_cancel_restore(cancel);
	if (ret != 0)
		return ret;
	hm_mr_local_note(mr, false, 0);
	atomic_fetch_or_explicit(&mr->region.state, NIC_REGION_KEPT, memory_order_relaxed);
	hm_cache_count_miss(&local->cache, &alone, false);
	give(seg, hold, mr, HM_CACHE_PRIVATE);
	return 0;
}

/* What is not to be kept, or what the cache could not get (why, not told yet). */
static int get_slow(struct hm_mr_local *local, const struct hm_cache_key *key, struct nic_seg *seg,
		    int why, struct nic_hold *hold)
{
	struct nic_domain *nic = local->domain->nic;

	if (!nic->port->pins) /* it can do without, and tells what is wrong */
		return 0;
	if (why == 0) {
		why = get_alone(local, key, seg, true, hold);
		if (why == 0)
			return 0;
	}
	if (why == -FI_EFAULT)
		seg->region = nic->ops->region_at(nic, seg->addr, seg->len,
						  key->rights & HM_LOCAL_WRITES);
	if (seg->region || why == -FI_ENODEV)
		return 0;
	if (why == -FI_ENOMEM || why == -FI_ENOSPC)
		hm_mr_local_evict(local->domain);
	why = get_alone(local, key, seg, false, hold);
	/* then the operation fails, and not the call */
	return why == -FI_EFAULT || why == -FI_ENODEV ? 0 : why;
}

bool hm_mr_local_fresh_now(const struct hm_mr_local *local, const struct hm_mr *mr)
{
	return !mr->mr.fid.fclass ||
	       hm_monitor_hit_ok(hm_mr_local_page(local, mr->region.base),
				 hm_mr_local_pages_end(local, mr->region.base + mr->region.len),
				 (uintptr_t)mr->mr.fid.context);
}

static int get_kept(struct hm_mr_local *local, const struct hm_cache_key *key, struct nic_seg *seg,
		    struct nic_hold *hold)
{
	struct hm_cache_hold kept;
	int ret;

	hm_monitor_settle();
	for (unsigned i = 0; i < HM_LOCAL_TRIES; i++) {
		ret = hm_cache_get(&local->cache, key, &kept);
		if (ret != 0)
			return ret;
		if (hm_mr_local_fresh(local, kept.data)) {
			give(seg, hold, kept.data, kept.entry);
			return 0;
		}
		hm_cache_put(&local->cache, &kept);
	}
	return -FI_EAGAIN; /* it changes all the time: for this operation alone */
}

/* It was not found under the key of plain memory. */
static __attribute__((noinline)) int get_any(struct hm_mr_local *local, struct nic_seg *seg,
					     struct hm_cache_key *key, bool keep, const char *call,
					     struct nic_hold *hold)
{
	struct nic_domain *nic = local->domain->nic;
	struct hmem_owner owner;
	int ret = hm_mr_check_local(nic, seg->addr, seg->len, call);

	if (ret != 0)
		return ret;
	if (hm_mr_local_owner(nic, seg->addr, seg->len, &owner) != 0)
		owner.guards = 0;
	if (owner.iface != FI_HMEM_SYSTEM || owner.guards == 0) {
		*key = (struct hm_cache_key){ .begin = (uintptr_t)seg->addr,
					      .end = (uintptr_t)seg->addr + seg->len,
					      .rights = key->rights };
		hm_mr_local_owned(&owner, key);
	}
	if (__builtin_expect(key->end <= key->begin, 0)) /* nothing is mapped there */
		return 0;
	if (keep && hm_mr_local_can_keep(local, owner.guards)) {
		ret = get_kept(local, key, seg, hold);
		if (ret == 0)
			return 0;
	}
	return get_slow(local, key, seg, ret, hold);
}

int hm_mr_local_get(struct hm_mr_domain *domain, struct nic_seg *seg, uint64_t access, bool keep,
		    const char *call, struct nic_hold *hold)
{
	struct hm_mr_local *local = hm_mr_local_of(domain);
	struct hm_cache_key key;
	struct hm_cache_hold kept;

	if (__builtin_expect(!local, 0))
		return -FI_ENOMEM;
	plain_key(local, seg, access, &key);
	if (__builtin_expect(!keep, 0))
		return get_any(local, seg, &key, false, call, hold);
	hm_monitor_settle();
	/* what is kept as plain memory is that: hm_mr_local_owner */
	if (__builtin_expect(hm_cache_find(&local->cache, &key, &kept), 1)) {
		if (__builtin_expect(hm_mr_local_fresh(local, kept.data), 1)) {
			give(seg, hold, kept.data, kept.entry);
			return 0;
		}
		hm_cache_put(&local->cache, &kept);
	}
	return get_any(local, seg, &key, true, call, hold);
}

/* ---- put ---- */

void hm_mr_local_put(struct nic_domain *nic, struct nic_hold *hold)
{
	struct hm_mr_local *local =
		hm_mr_local_find(hm_container(nic->regions, struct hm_mr_domain, regions));
	const struct hm_cache_hold kept = { hm_container(hold->region, struct hm_mr, region),
					    hold->entry };

	hold->region = NULL;
	if (__builtin_expect(kept.entry != HM_CACHE_PRIVATE, 1))
		hm_cache_put(&local->cache, &kept);
	else
		hm_mr_local_end_alone(local, kept.data);
}
