/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs: memory windows bound inside the ibv_mr of their base.
 *
 * A window has an rkey and rights of its own; the local side of transfers goes by the base's lkey, so
 * nothing is pinned or translated a second time.  Making one is a request on a queue pair that the domain
 * keeps connected to itself; its end is one call, after which the device refuses the key.  What lies inside
 * several parts of a base is several windows behind one composite key.
 *
 * The windows are those of type 1, which any queue pair of the protection domain may be asked through.
 * Those of type 2 serve one queue pair, that which they were bound on; a region's peers come over
 * connections that are made and unmade while it lives, so such windows are of no use here.
 *
 * Where device or base have no windows, the reason is logged once for each domain, and the memory is
 * registered a second time: by core/mr, or, a dma-buf that the program gave, by verbs_file.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_loop.h"
#include "core/nic/verbs_mr.h"

#define POOL_MOST 4096u /* windows of one region that are made before they are wanted */
#define REMOTE_RIGHTS                                                                              \
	((unsigned int)(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |                         \
			IBV_ACCESS_REMOTE_ATOMIC))

/* Windows that are not bound.  A ring, so that one that was given back is used again as late as can be. */
struct verbs_pool {
	size_t room, count, first;
	size_t coming;	     /* places for windows that are being unbound */
	struct ibv_mw *mw[]; /* owned */
};

/* ---- binding ---- */

/* With the windows' lock: the queue pair to bind on; a broken one is replaced.  0 or an errno. */
static int get_loop(struct verbs_domain *domain, struct verbs_failure *why)
{
	const struct verbs_loop_site site = { .context = domain->context,
					      .pd = domain->pd,
					      .port = domain->port->number,
					      .gid_index = domain->port->gid_index,
					      .domain = domain };
	struct verbs_windows *windows = &domain->windows;

	if (windows->loop && windows->loop->broken) {
		verbs_loop_close(windows->loop);
		windows->loop = NULL;
	}
	return windows->loop ? 0 : verbs_loop_open(&site, &windows->loop, why);
}

/* len 0: unbind.  0 or an errno. */
static int bind_window(struct verbs_domain *domain, struct ibv_mw *mw,
		       const struct verbs_part *part, uint64_t len, unsigned int access,
		       struct verbs_failure *why)
{
	const struct ibv_mw_bind_info info = {
		.mr = part->mr, .addr = part->iova, .length = len, .mw_access_flags = access
	};
	int err;

	pthread_mutex_lock(&domain->windows.lock);
	err = get_loop(domain, why);
	if (!err)
		err = verbs_loop_bind(domain->windows.loop, mw, &info, why);
	pthread_mutex_unlock(&domain->windows.lock);
	return err;
}

/* ---- windows to bind ---- */

static struct verbs_pool *pool_of(const struct nic_region *region)
{
	return verbs_region_of(region)->pool;
}

static struct ibv_mw *take(struct verbs_domain *domain, struct verbs_pool *pool)
{
	struct ibv_mw *mw = NULL;

	if (!pool)
		return NULL;
	pthread_mutex_lock(&domain->windows.lock);
	if (pool->count > 0) {
		mw = pool->mw[pool->first];
		pool->first = (pool->first + 1) % pool->room;
		pool->count--;
	}
	pthread_mutex_unlock(&domain->windows.lock);
	return mw;
}

/*
 * A place for a window that is going to be given back: known before it is unbound, since one that then could
 * neither be put there nor be ended would be a region without its key.  False: there is none.
 */
static bool take_place(struct verbs_domain *domain, struct verbs_pool *pool)
{
	bool room;

	if (!pool)
		return false;
	pthread_mutex_lock(&domain->windows.lock);
	room = pool->count + pool->coming < pool->room;
	if (room)
		pool->coming++;
	pthread_mutex_unlock(&domain->windows.lock);
	return room;
}

/* Into the place that was taken; NULL: it stays free. */
static void give_back(struct verbs_domain *domain, struct verbs_pool *pool, struct ibv_mw *mw)
{
	pthread_mutex_lock(&domain->windows.lock);
	pool->coming--;
	if (mw)
		pool->mw[(pool->first + pool->count++) % pool->room] = mw;
	pthread_mutex_unlock(&domain->windows.lock);
}

static struct ibv_mw *allocate(struct verbs_domain *domain)
{
	struct ibv_mw *mw;

	errno = 0;
	mw = ibv_alloc_mw(domain->pd, IBV_MW_TYPE_1);
	if (mw)
		atomic_fetch_add(&domain->windows.held, 1);
	return mw;
}

/* One that nothing refers to: what the driver refuses to end now ends with the domain. */
static void drop(struct verbs_domain *domain, struct ibv_mw *mw)
{
	verbs_end(domain, VERBS_KIND_MW, mw, NULL, 0);
	atomic_fetch_sub(&domain->windows.held, 1);
}

/* For a hint: half of the device's windows are left for sub-MRs that are made, of whatever base. */
static bool may_prepare(const struct verbs_domain *domain)
{
	int most = domain->device->attr.max_mw;

	return most <= 0 || atomic_load(&domain->windows.held) < (uint64_t)most / 2;
}

void verbs_pool_fill(struct nic_region *region, size_t count)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	size_t room = count < POOL_MOST ? count : POOL_MOST;
	struct verbs_pool *pool;

	if (room == 0)
		return;
	pool = malloc(sizeof(*pool) + room * sizeof(struct ibv_mw *));
	if (!pool)
		return;
	*pool = (struct verbs_pool){ .room = room };
	errno = ENOSPC;
	while (pool->count < room && may_prepare(domain)) {
		struct ibv_mw *mw = allocate(domain);

		if (!mw)
			break;
		pool->mw[pool->count++] = mw;
	}
	if (pool->count < room)
		HM_INFO(FI_LOG_MR, "%zu windows are ready for the %zu sub-MRs to be expected: %s",
			pool->count, count, strerror(errno));
	verbs_region_of(region)->pool = pool;
}

void verbs_pool_free(struct nic_region *region)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	struct verbs_pool *pool = pool_of(region);

	if (!pool)
		return;
	verbs_region_of(region)->pool = NULL;
	for (; pool->count > 0; pool->count--) {
		drop(domain, pool->mw[pool->first]);
		pool->first = (pool->first + 1) % pool->room;
	}
	free(pool);
}

/* ---- one window ---- */

static int no_window(const struct verbs_source *source, const struct verbs_part *part, int err)
{
	struct verbs_attempt attempt = { .domain = source->domain,
					 .call = VERBS_CALL_ALLOC_MW,
					 .addr = (void *)(uintptr_t)part->addr,
					 .len = part->len,
					 .access = (uint64_t)source->access,
					 .iova = part->iova,
					 .fd = -1 };

	verbs_domain_lost(source->domain, err); /* which would be the cause */
	return verbs_cause(&attempt, err);
}

/* What the device or its driver will not do the next time either. */
static bool is_lasting(int err)
{
	return err == EOPNOTSUPP || err == ENOSYS;
}

static int not_bound(struct verbs_domain *domain, const struct verbs_part *part,
		     const struct verbs_failure *why)
{
	bool lost = verbs_domain_lost(domain, why->err);

	if (!lost && is_lasting(why->err)) { /* which is told with what is done instead */
		atomic_store(&domain->windows.off, true);
		return -FI_ENOSYS;
	}
	HM_WARN(FI_LOG_MR, "%s: a window of [0x%" PRIx64 ", +%" PRIu64 ") is not bound: %s: %s%s",
		domain->device->name, part->addr, part->len, why->step, why->text,
		lost ? "; the device is gone" : "");
	return lost ? -FI_ENODEV : -why->err;
}

int verbs_window_open(const struct verbs_source *source, struct verbs_part *part)
{
	const struct verbs_part *in = verbs_part_at(source->base, part->addr);
	unsigned int rights = (unsigned int)source->access & REMOTE_RIGHTS;
	struct verbs_domain *domain = source->domain;
	struct verbs_pool *pool = pool_of(source->base);
	struct verbs_failure why;
	struct ibv_mw *mw;
	int ret;

	if (!in) {
		HM_WARN(FI_LOG_MR, "base_mr is half closed");
		return -FI_EINVAL;
	}
	part->iova = in->iova + (part->addr - in->addr);
	part->mr = in->mr;
	mw = take(domain, pool);
	if (!mw)
		mw = allocate(domain);
	if (!mw) {
		part->mr = NULL;
		return no_window(source, part, errno);
	}
	/* one that is not bound has a key, too, which leads nowhere */
	if (rights == 0 || bind_window(domain, mw, part, part->len, rights, &why) == 0) {
		part->mw = mw;
		return 0;
	}
	ret = not_bound(domain, part, &why);
	part->mr = NULL;
	/* the call may have changed its key on this side alone */
	drop(domain, mw);
	return ret;
}

/* Unbind, and keep it for the next one.  False: it is as it was. */
static bool put_back(const struct verbs_source *source, const struct verbs_part *part)
{
	struct verbs_domain *domain = source->domain;
	struct verbs_pool *pool = pool_of(source->base);
	struct verbs_failure why;
	int err;

	if (!take_place(domain, pool))
		return false;
	err = bind_window(domain, part->mw, part, 0, 0, &why);
	give_back(domain, pool, err ? NULL : part->mw);
	return !err;
}

int verbs_window_close(const struct verbs_source *source, struct verbs_part *part)
{
	struct verbs_domain *domain = source->domain;
	struct verbs_attempt attempt = { .domain = domain,
					 .call = VERBS_CALL_DEALLOC_MW,
					 .addr = (void *)(uintptr_t)part->addr,
					 .len = part->len,
					 .fd = -1 };
	int err;

	if (!put_back(source, part)) {
		err = verbs_errno(ibv_dealloc_mw(part->mw));
		if (err != 0 && !verbs_domain_lost(domain, err))
			return verbs_cause(&attempt, err);
		atomic_fetch_sub(&domain->windows.held, 1);
	}
	part->mw = NULL;
	part->mr = NULL;
	return 0;
}

void verbs_window_abandon(const struct verbs_source *source, struct verbs_part *part)
{
	struct verbs_domain *domain = source->domain;
	struct verbs_failure why;

	if (put_back(source, part)) {
		/* ready for the next one */
	} else if (ibv_dealloc_mw(part->mw) == 0) {
		atomic_fetch_sub(&domain->windows.held, 1);
	} else { /* unbound it does not hold the base, should the driver keep it */
		bind_window(domain, part->mw, part, 0, 0, &why);
		drop(domain, part->mw);
	}
	part->mw = NULL;
	part->mr = NULL;
}

bool verbs_window_is_deep(const struct verbs_source *source, uint64_t addr)
{
	const struct verbs_part *in = verbs_part_at(source->base, addr);

	return source->domain->zero_based && in &&
	       in->iova + (addr - in->addr) > VERBS_KEY_INTERIOR_MOST;
}

/* ---- sub-MRs ---- */

enum reason {
	NONE,
	ON_DEMAND,
	NO_WINDOWS,
	OFF,
	DMABUF,
	READ_ONLY,
	ORDERING
};

/* Why no window of this base can serve. */
static enum reason why_not(const struct verbs_domain *domain, const struct verbs_region *base,
			   const struct nic_region_request *req)
{
	bool relaxed = base->flags & VERBS_REGION_RELAXED;

	if (base->flags & VERBS_REGION_ON_DEMAND)
		return ON_DEMAND;
	if (!(domain->device->can & HMREG_CAN_WINDOWS))
		return NO_WINDOWS;
	if (atomic_load(&domain->windows.off))
		return OFF;
	if (!(base->flags & VERBS_REGION_BINDABLE))
		return base->flags & VERBS_REGION_DMABUF ? DMABUF : READ_ONLY;
	if (relaxed && !(req->flags & HMREG_MR_RELAXED_ORDERING))
		return ORDERING;
	return NONE;
}

static void tell(struct verbs_domain *domain, enum reason reason)
{
	static const char *const texts[] = {
		[ON_DEMAND] = "its pages come on demand, and a registration of its own pins none",
		[OFF] = "binding windows is not supported",
		[DMABUF] = "no windows are bound to dma-bufs",
		[READ_ONLY] = "its base has no right that writes, and only such memory is "
			      "registered for windows",
		[ORDERING] = "its base is ordered relaxed",
	};

	if (atomic_fetch_or(&domain->windows.told, 1u << reason) & 1u << reason)
		return;
	HM_INFO(FI_LOG_MR,
		"%s: the memory of a sub-MR is registered a second time, as others will be: %s",
		domain->device->name,
		reason == NO_WINDOWS ? domain->device->windows_reason : texts[reason]);
}

int verbs_region_derive(struct nic_region *region, struct nic_region *base,
			const struct nic_region_request *req)
{
	struct verbs_domain *domain = verbs_domain_of(region->domain);
	struct verbs_region *mine = verbs_region_of(region), *above = verbs_region_of(base);
	struct verbs_source source = { .domain = domain, .fd = -1, .base = base };
	enum reason reason;
	int ret = verbs_region_check(domain);

	if (ret != 0)
		return ret;
	reason = why_not(domain, above, req);
	if (reason != NONE) {
		tell(domain, reason);
		return atomic_load(&base->state) & NIC_REGION_IMPORTED
			       ? verbs_file_again(region, base, req)
			       : -FI_ENOSYS;
	}
	*mine = (struct verbs_region){ .flags = above->flags | VERBS_REGION_WINDOW,
				       .file = { .fd = -1, .kept = -1 } };
	hm_list_init(&mine->link);
	source.access = verbs_region_access(region);
	ret = verbs_parts_register(region, &source, req->iov, req->iov_count);
	if (ret == 0)
		verbs_pool_fill(region, req->sub_mr_cnt);
	/* found out by this one */
	if (ret != 0 && atomic_load(&domain->windows.off))
		return verbs_region_derive(region, base, req);
	return ret;
}
