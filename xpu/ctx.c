/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts for devices that start transfers: opened, asked, closed, and what is told for their devices. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/nic/nic_xpu.h"
#include "xpu/xpu.h"

static struct hm_xpu_ctx *ctx_of(struct fid *fid)
{
	assert(fid && fid->fclass == FI_CLASS_XPU_CTX);
	return hm_container(fid, struct hm_xpu_ctx, ctx.fid);
}

/* ---- the contexts of a domain ---- */

/* Protects which elements are free, of all domains; innermost but for the log's. */
static pthread_mutex_t elements_lock = PTHREAD_MUTEX_INITIALIZER;

/* The domain's array, made by who needs it first.  NULL: no memory. */
static struct hm_xpu_ctx *contexts_of(struct hm_domain *domain)
{
	struct hm_xpu_ctx *contexts = atomic_load(&domain->contexts), *first = NULL;

	if (contexts)
		return contexts;
	contexts = calloc(HM_XPU_CTX_MAX, sizeof(*contexts));
	if (!contexts || atomic_compare_exchange_strong(&domain->contexts, &first, contexts))
		return contexts;
	free(contexts);
	return first;
}

/*
 * A free element becomes own's.  The search goes on where the last one ended, so that an element is not soon
 * another context, which a program that still uses the closed one would meet.
 */
static struct hm_xpu_ctx *take_element(struct hm_xpu_ctx *contexts, struct hm_xpu_own *own)
{
	static size_t next; /* under the lock */
	struct hm_xpu_ctx *ctx = NULL;

	pthread_mutex_lock(&elements_lock);
	for (size_t i = 0; i < HM_XPU_CTX_MAX && !ctx; i++)
		if (!contexts[(next + i) % HM_XPU_CTX_MAX].own)
			ctx = &contexts[(next + i) % HM_XPU_CTX_MAX];
	if (ctx) {
		ctx->own = own;
		next = (size_t)(ctx - contexts) + 1;
	}
	pthread_mutex_unlock(&elements_lock);
	return ctx;
}

static void give_element(struct hm_xpu_ctx *ctx)
{
	pthread_mutex_lock(&elements_lock);
	ctx->own = NULL;
	pthread_mutex_unlock(&elements_lock);
}

void hm_xpu_contexts_end(struct hm_domain *domain)
{
	free(atomic_load(&domain->contexts));
}

/* Open contexts of this domain alone are found. */
static struct hm_xpu_ctx *find(struct hm_domain *domain, const struct fid_xpu_ctx *fid)
{
	return hm_xpu_find(atomic_load_explicit(&domain->contexts, memory_order_acquire), fid);
}

/* ---- opening ---- */

static int no_ops(const char *why, size_t size)
{
	HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx: struct fi_xpu_ops of size %zu has no %s", size, why);
	return -FI_EINVAL;
}

/* As much of the program's operations as it has: they must give memory, and take it back. */
static int take_ops(struct hm_xpu_own *own, const struct fi_xpu_ops *ops)
{
	size_t size = ops->size < sizeof(own->ops) ? ops->size : sizeof(own->ops);

	if (size < sizeof(ops->size))
		return no_ops("operations at all", ops->size);
	/* a slot that is only there in part is not there */
	size -= size % sizeof(void *);
	memcpy(&own->ops, ops, size);
	own->ops.size = sizeof(own->ops);
	own->has_ops = true;
	if (!own->ops.import && !own->ops.alloc)
		return no_ops("import and no alloc: nothing gives memory that the device reaches",
			      ops->size);
	return own->ops.free ? 0 : no_ops("free", ops->size);
}

/*
 * Without operations of the program it is the library's own interface that gives memory; with them it may be asked to
 * flush the device's, if there is one.
 */
static int check_device(const struct hm_xpu_own *own)
{
	if (own->iface == FI_HMEM_SYSTEM)
		return 0;
	if (!hmem_get(own->iface)) {
		if (own->has_ops)
			return 0;
		HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx: %s is not usable: %s", hmem_name(own->iface),
			hmem_tried(own->iface)->reason);
		return hmem_error(own->iface);
	}
	if (own->device > INT32_MAX || !hmem_has_device(own->iface, (int)own->device)) {
		HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx: %s has no device %llu", hmem_name(own->iface),
			(unsigned long long)own->device);
		return -FI_ENODEV;
	}
	return 0;
}

static int take_attr(struct hm_xpu_own *own, const struct fi_xpu_attr *attr)
{
	int ret;

	if ((unsigned)attr->iface >= HMEM_IFACES) {
		HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx: %d is no interface", (int)attr->iface);
		return -FI_EINVAL;
	}
	own->iface = attr->iface;
	own->device = attr->device;
	ret = attr->ops ? take_ops(own, attr->ops) : 0;
	return ret != 0 ? ret : check_device(own);
}

static int new_own(struct hm_domain *domain, const struct fi_xpu_attr *attr,
		   struct hm_xpu_own **out)
{
	struct hm_xpu_own *own = calloc(1, sizeof(*own));
	int ret;

	if (!own) {
		HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx: no memory for a context");
		return -FI_ENOMEM;
	}
	own->domain = domain;
	ret = take_attr(own, attr);
	if (ret == 0)
		ret = xpu_engine_init(&own->engine, domain->nic);
	if (ret == 0)
		*out = own;
	else
		free(own);
	return ret;
}

static void free_own(struct hm_xpu_own *own)
{
	xpu_engine_end(&own->engine);
	free(own);
}

static int ctx_query(struct fid_xpu_ctx *fid, struct fi_xpu_ctx_attr *attr)
{
	const struct nic_xpu_ops *transport = ctx_of(&fid->fid)->transport;

	if (!attr) {
		HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx_query: attr is NULL");
		return -FI_EINVAL;
	}
	*attr = (struct fi_xpu_ctx_attr){ .caps = transport->caps,
					  .av_addr_size = transport->addr_size,
					  .mr_desc_size = transport->desc_size };
	return 0;
}

static int ctx_close(struct fid *fid)
{
	struct hm_xpu_ctx *ctx = ctx_of(fid);
	struct hm_domain *domain = ctx->domain;
	int ret = hm_check_unused(&ctx->users, "XPU context");

	if (ret != 0)
		return ret;
	atomic_store_explicit(&ctx->open, false, memory_order_release);
	free_own(ctx->own);
	hm_fid_end(fid);
	give_element(ctx);
	hm_unuse(&domain->users);
	return 0;
}

static struct fi_ops ctx_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ctx_close,
	.bind = hm_no_bind,
	.control = hm_no_control,
	.ops_open = hm_no_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

static struct fi_ops_xpu_ctx ctx_ops = {
	.size = sizeof(struct fi_ops_xpu_ctx),
	.query = ctx_query,
};

static int check_open(const struct fid_domain *fid, const struct fi_xpu_attr *attr,
		      struct fid_xpu_ctx **out)
{
	if (!fid || fid->fid.fclass != FI_CLASS_DOMAIN || !attr || !out) {
		HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx: %s",
			!attr  ? "attr is NULL"
			: !out ? "there is nowhere to put the context"
			       : "not a domain");
		return -FI_EINVAL;
	}
	return 0;
}

/* The NIC's own, or the ring. */
static const struct nic_xpu_ops *transport_of(const struct hm_domain *domain,
					      const struct hm_xpu_own *own)
{
	const struct nic_xpu_ops *ops = domain->nic->ops->xpu;

	return ops && (!ops->reaches || ops->reaches(own, domain->nic)) ? ops : &xpu_ring;
}

int hm_xpu_ctx_open(struct fid_domain *fid, struct fi_xpu_attr *attr, struct fid_xpu_ctx **out,
		    void *context)
{
	struct hm_xpu_ctx *contexts, *ctx = NULL;
	struct hm_xpu_own *own = NULL;
	struct hm_domain *domain;
	int ret = check_open(fid, attr, out);

	if (ret != 0)
		return ret;
	domain = hm_domain_of(&fid->fid);
	if (!(domain->nic->caps & FI_XPU)) {
		HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx: the domain was not opened with FI_XPU");
		return -FI_ENOSYS;
	}
	ret = new_own(domain, attr, &own);
	if (ret != 0)
		return ret;
	contexts = contexts_of(domain);
	if (contexts)
		ctx = take_element(contexts, own);
	if (!ctx) {
		HM_WARN(FI_LOG_DOMAIN, "fi_xpu_ctx: %s",
			contexts ? "the domain has max_xpu_ctx_cnt contexts already" : "no memory");
		free_own(own);
		return contexts ? -FI_ENOSPC : -FI_ENOMEM;
	}
	ctx->ctx.fid = (struct fid){ FI_CLASS_XPU_CTX, context, &ctx_fid_ops };
	ctx->ctx.ops = &ctx_ops;
	ctx->domain = domain;
	ctx->transport = transport_of(domain, own);
	hm_use(&domain->users);
	atomic_store_explicit(&ctx->open, true, memory_order_release);
	*out = &ctx->ctx;
	return 0;
}

/* ---- for core's objects ---- */

static int refuse_get(const char *call, int code, const char *why)
{
	HM_WARN(FI_LOG_DOMAIN, "%s: %s", call, why);
	return code;
}

int hm_xpu_ctx_get(struct hm_domain *domain, bool asked, struct fid_xpu_ctx *const *named,
		   uint64_t cap, const char *call, struct hm_xpu_ctx **out)
{
	bool has = named && FI_VERSION_GE(domain->api_version, HM_XPU_VERSION) && *named;
	struct hm_xpu_ctx *ctx;

	*out = NULL;
	if (!asked)
		return has ? refuse_get(call, -FI_EINVAL, "xpu_ctx is set without FI_XPU") : 0;
	if (!(domain->nic->caps & FI_XPU))
		return refuse_get(call, -FI_ENOSYS, "the domain was not opened with FI_XPU");
	ctx = has ? find(domain, *named) : NULL;
	if (!ctx)
		return refuse_get(call, -FI_EINVAL,
				  has ? "xpu_ctx is not an open context of this domain"
				      : "FI_XPU without xpu_ctx");
	if (!(ctx->transport->caps & cap))
		return refuse_get(call, -FI_ENOSYS, "the context exports nothing of this kind");
	hm_use(&ctx->users);
	*out = ctx;
	return 0;
}

void hm_xpu_ctx_put(struct hm_xpu_ctx *ctx)
{
	if (ctx)
		hm_unuse(&ctx->users);
}

/* Room for what is told, which needs so much: 0 to go on, or what is wrong. */
static inline bool has_room(const void *buf, const size_t *len, size_t need)
{
	return __builtin_expect(buf && len && *len >= need, 1);
}

static int no_room(enum fi_log_subsys subsys, const char *call, size_t *len, size_t need)
{
	size_t have = len ? *len : 0;

	if (!len || have >= need) {
		HM_LOG(FI_LOG_WARN, subsys, "%s: no %s", call, len ? "buffer" : "length");
		return -FI_EINVAL;
	}
	*len = need;
	HM_LOG(FI_LOG_WARN, subsys, "%s: %zu bytes are needed, there is room for %zu", call, need,
	       have);
	return -FI_ETOOSMALL;
}

int hm_xpu_desc(struct hm_domain *domain, const struct fid_xpu_ctx *fid,
		const struct nic_region *region, void *buf, size_t *len)
{
	struct hm_xpu_ctx *ctx = find(domain, fid);

	if (__builtin_expect(!ctx, 0)) {
		HM_WARN(FI_LOG_MR, "fi_mr_get_xpu_desc: not an open context of the region's "
				   "domain");
		return -FI_EINVAL;
	}
	if (!has_room(buf, len, ctx->transport->desc_size))
		return no_room(FI_LOG_MR, "fi_mr_get_xpu_desc", len, ctx->transport->desc_size);
	*len = ctx->transport->desc_size;
	return ctx->transport->desc(region, buf);
}

int hm_xpu_addr(struct hm_av *av, const struct fid_xpu_ctx *fid, fi_addr_t addr, void *buf,
		size_t *len)
{
	struct hm_xpu_ctx *ctx = find(av->domain, fid);
	uint64_t peer;

	if (!(av->domain->nic->caps & FI_XPU)) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup2: the domain was not opened with FI_XPU");
		return -FI_ENOSYS;
	}
	if (!ctx) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup2: not an open context of the vector's domain");
		return -FI_EINVAL;
	}
	peer = nic_av_peer(&av->nic, addr);
	if (!peer) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup2: fi_addr 0x%llx is not in the vector",
			(unsigned long long)addr);
		return -FI_EINVAL;
	}
	if (!has_room(buf, len, ctx->transport->addr_size))
		return no_room(FI_LOG_AV, "fi_av_lookup2", len, ctx->transport->addr_size);
	*len = ctx->transport->addr_size;
	return ctx->transport->addr(av->domain->nic, peer, addr, buf);
}
