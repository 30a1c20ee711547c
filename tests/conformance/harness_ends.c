/* SPDX-License-Identifier: BSD-2-Clause */
/* See harness.h: endpoints, regions in whichever way the mode asks for, and completions. */
#include "tests/conformance/harness.h"
#include "tests/conformance/harness_priv.h"

#define RAW_KEY_MAX 64

/* ---- ends ---- */

/* What a domain without endpoints can do. */
#define DOMAIN_CAPS (FI_HMEM | FI_LOCAL_COMM | FI_REMOTE_COMM)

/* fi_freeinfo frees it. */
static uint8_t *key_copy(const char *key, size_t size)
{
	uint8_t *copy = key ? malloc(size) : NULL;

	if (key) {
		assert_non_null(copy);
		memcpy(copy, key, size);
	}
	return copy;
}

struct fi_info *conf_hints(const char *domain, const struct conf_opts *opts)
{
	struct fi_info *hints;

	if (!opts->no_ep)
		conf_need_endpoints();
	hints = fi_allocinfo();
	assert_non_null(hints);
	hints->caps = opts->caps ? opts->caps : CONF_CAPS;
	hints->ep_attr->type = FI_EP_RDM;
	if (opts->no_ep && conf_current && conf_current->no_endpoints) {
		hints->caps &= DOMAIN_CAPS;
		hints->ep_attr->type = FI_EP_UNSPEC;
	}
	hints->mode = opts->info_mode;
	hints->domain_attr->mr_mode = opts->mode     ? opts->mode
				      : conf_current ? conf_current->offered
						     : CONF_MR_MODES;
	hints->tx_attr->op_flags = opts->tx_flags;
	hints->rx_attr->op_flags = opts->rx_flags;
	hints->rx_attr->size = opts->rx_size;
	hints->domain_attr->auth_key_size = opts->key_size;
	hints->domain_attr->auth_key = key_copy(opts->key, opts->key_size);
	if (domain) {
		hints->domain_attr->name = strdup(domain);
		assert_non_null(hints->domain_attr->name);
	}
	return hints;
}

/* The modern bits behind what was agreed on. */
static int agreed_bits(const struct fi_info *info)
{
	int mode = info->domain_attr->mr_mode;

	if (mode == FI_MR_SCALABLE)
		return 0;
	if (mode == FI_MR_BASIC)
		return FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
		       (info->mode & FI_LOCAL_MR ? FI_MR_LOCAL : 0);
	return mode;
}

static void open_domain(struct conf_end *end, const struct conf_opts *opts)
{
	const char *name = opts->domain ? opts->domain : end->conf->profile->name;
	struct fi_info *hints = conf_hints(name, opts);

	assert_ok(fi_getinfo(opts->version ? opts->version : CONF_VERSION, NULL, NULL, 0, hints,
			     &end->info));
	fi_freeinfo(hints);
	if (opts->rx_size)
		end->info->rx_attr->size = opts->rx_size;
	end->mode = agreed_bits(end->info);
	assert_ok(fi_fabric(end->info->fabric_attr, &end->fabric, end));
	assert_ok(fi_domain(end->fabric, end->info, &end->domain, end));
	if (fi_open_ops(&end->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&end->ops, NULL))
		end->ops = NULL;
}

static void open_endpoint(struct conf_end *end, const struct conf_opts *opts)
{
	struct fi_info *info = fi_dupinfo(end->info);

	assert_non_null(info);
	if (opts->ep_key_size) {
		info->ep_attr->auth_key = key_copy(opts->ep_key, opts->ep_key_size);
		info->ep_attr->auth_key_size = opts->ep_key_size;
	}
	info->ep_attr->xpu_ctx = opts->xpu;
	if (opts->xpu)
		assert_ok(fi_endpoint2(end->domain, info, &end->ep, FI_XPU, end));
	else
		assert_ok(fi_endpoint(end->domain, info, &end->ep, end));
	fi_freeinfo(info);
}

static void open_ep(struct conf_end *end, const struct conf_opts *opts)
{
	struct fi_av_attr av_attr = { .type = opts->av_type ? opts->av_type : FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = opts->format ? opts->format : FI_CQ_FORMAT_DATA,
				      .wait_obj = opts->wait_obj,
				      .size = opts->tx_cq_size,
				      .flags = opts->xpu ? FI_XPU : 0,
				      .xpu_ctx = opts->xpu };

	assert_ok(fi_av_open(end->domain, &av_attr, &end->av, end));
	assert_ok(fi_cq_open(end->domain, &cq_attr, &end->tx, end));
	cq_attr.size = opts->rx_cq_size;
	assert_ok(fi_cq_open(end->domain, &cq_attr, &end->rx, end));
	open_endpoint(end, opts);
	assert_ok(fi_ep_bind(end->ep, &end->av->fid, 0));
	assert_ok(fi_ep_bind(end->ep, &end->tx->fid, FI_TRANSMIT | opts->bind_flags));
	assert_ok(fi_ep_bind(end->ep, &end->rx->fid, FI_RECV | opts->bind_flags));
	if (!opts->disabled)
		assert_ok(fi_enable(end->ep));
}

struct conf_end *conf_open(struct conf *c, const struct conf_opts *opts)
{
	static const struct conf_opts none;
	struct conf_end *end = &c->end[c->ends];

	assert_true(c->ends < CONF_ENDS);
	if (!opts)
		opts = &none;
	if (!opts->no_ep)
		conf_need_endpoints();
	c->ends++;
	end->conf = c;
	end->next_key = 1;
	if (opts->same_domain) {
		end->shares = opts->same_domain;
		end->info = opts->same_domain->info;
		end->mode = opts->same_domain->mode;
		end->fabric = opts->same_domain->fabric;
		end->domain = opts->same_domain->domain;
		end->ops = opts->same_domain->ops;
	} else {
		open_domain(end, opts);
	}
	if (!opts->no_ep)
		open_ep(end, opts);
	return end;
}

struct conf_end *conf_open_for_regions(struct conf *c)
{
	return conf_open(c, &(struct conf_opts){ .no_ep = !(c->mode & FI_MR_ENDPOINT) });
}

void conf_pair(struct conf *c, const struct conf_opts *opts, struct conf_end **a,
	       struct conf_end **b)
{
	struct conf_opts other = opts ? *opts : (struct conf_opts){ 0 };

	*a = conf_open(c, opts);
	if (!other.domain && !other.same_domain)
		other.domain = c->profile->peer;
	if (b)
		*b = conf_open(c, &other);
}

fi_addr_t conf_addr(struct conf_end *end, const struct conf_end *to)
{
	uint8_t name[128];
	size_t len = sizeof(name);
	fi_addr_t addr;

	assert_ok(fi_getname(&to->ep->fid, name, &len));
	assert_answer(fi_av_insert(end->av, name, 1, &addr, 0, NULL), 1);
	return addr;
}

/* Close one object if it is open; what is left open after a failure does not matter. */
static void close_object(struct fid *fid, bool check, const char *what)
{
	int ret = fid ? fi_close(fid) : 0;

	if (ret && check)
		fail_msg("closing the %s: %s", what, fi_strerror(-ret));
}

#define CLOSE(member)                                                                              \
	do {                                                                                       \
		close_object(end->member ? &end->member->fid : NULL, check, #member);              \
		end->member = NULL;                                                                \
	} while (0)

void conf_close_ep(struct conf_end *end)
{
	bool check = true;

	CLOSE(ep);
}

void conf_also(struct conf_end *end, struct fid *fid)
{
	assert_true(end->alsos < CONF_ALSO);
	end->also[end->alsos++] = fid;
}

static void close_end(struct conf_end *end, bool check)
{
	CLOSE(ep);
	CLOSE(rx);
	CLOSE(tx);
	CLOSE(av);
	for (; end->alsos > 0; end->alsos--)
		close_object(end->also[end->alsos - 1], check, "further object");
	if (end->shares)
		return;
	conf_close_bases(end->conf, end, check);
	if (check && end->domain && end->ops) {
		struct hmreg_domain_stats stats = conf_stats(end);

		assert_int_equal(stats.regions, 0);
		assert_int_equal(stats.registered_bytes, 0);
		assert_int_equal(stats.mapped_keys, 0);
		assert_int_equal(stats.endpoints, 0);
	}
	CLOSE(domain);
	CLOSE(fabric);
	fi_freeinfo(end->info);
	end->info = NULL;
}

void conf_drop_end(struct conf_end *end)
{
	struct conf *c = end->conf;

	assert_ptr_equal(end, &c->end[c->ends - 1]);
	close_end(end, true);
	memset(end, 0, sizeof(*end));
	c->ends--;
}

void conf_close_all(struct conf *c, bool check)
{
	for (; c->regions > 0; c->regions--) {
		struct conf_region *region = &c->region[c->regions - 1];

		for (; region->maps > 0; region->maps--) {
			int ret = fi_mr_unmap_key(region->map[region->maps - 1].user->domain,
						  region->map[region->maps - 1].key);

			if (ret && check)
				fail_msg("unmapping a key: %s", fi_strerror(-ret));
		}
		close_object(region->mr ? &region->mr->fid : NULL, check, "region");
		region->mr = NULL;
	}
	/* which may hold an address vector of whoever shares the domain */
	for (size_t i = 0; i < c->ends; i++)
		conf_close_bases(c, &c->end[i], check);
	/* an end that lends its domain was opened before those that borrow it */
	for (; c->ends > 0; c->ends--)
		close_end(&c->end[c->ends - 1], check);
}

/* The end that the domain was opened for. */
static const struct conf_end *owner(const struct conf_end *end)
{
	return end->shares ? end->shares : end;
}

struct hmreg_domain_stats conf_stats(const struct conf_end *end)
{
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };

	if (end->ops)
		assert_ok(end->ops->stats(&end->domain->fid, &stats));
	stats.regions -= owner(end)->bases;
	stats.registered_bytes -= owner(end)->base_bytes;
	return stats;
}

void conf_check_stats(const struct conf_end *end, uint64_t regions, uint64_t bytes, uint64_t mapped)
{
	struct hmreg_domain_stats stats = conf_stats(end);

	if (!end->ops)
		return;
	assert_int_equal(stats.regions, regions);
	assert_int_equal(stats.registered_bytes, bytes);
	assert_int_equal(stats.mapped_keys, mapped);
}

/* ---- regions ---- */

void conf_ready(struct conf_end *end, struct fid_mr *mr, struct fid_cntr *cntr)
{
	if (cntr)
		assert_ok(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	if (end->mode & FI_MR_ENDPOINT)
		assert_ok(fi_mr_bind(mr, &end->ep->fid, 0));
	if ((end->mode & FI_MR_ENDPOINT) || (cntr && (end->mode & FI_MR_RMA_EVENT)))
		assert_ok(fi_mr_enable(mr));
	if (end->mode & FI_MR_MMU_NOTIFY)
		assert_ok(fi_mr_refresh(mr, NULL, 0, 0));
}

static struct conf_region *add_region(struct conf_end *end, struct fid_mr *mr, struct fid_mr *base,
				      const void *first)
{
	struct conf *c = end->conf;
	struct conf_region *region = &c->region[c->regions];

	assert_true(c->regions < CONF_REGIONS);
	c->regions++;
	*region =
		(struct conf_region){ .end = end, .mr = mr, .base = base, .desc = fi_mr_desc(mr) };
	region->addr = end->mode & FI_MR_VIRT_ADDR ? (uintptr_t)first : 0;
	return region;
}

/* Registers with a key that is free: neither bound nor enabled. */
static struct conf_region *register_region(struct conf_end *end, struct fi_mr_attr *attr,
					   uint64_t flags)
{
	struct conf_end *keys = end->shares ? end->shares : end;
	struct fi_mr_attr asked = *attr;
	struct iovec iov;
	struct fid_mr *mr, *base = conf_base(keys, &asked, &iov, &flags);
	void *first;

	asked.requested_key = attr->requested_key = keys->next_key++;
	assert_ok(fi_mr_regattr(end->domain, &asked, flags, &mr));
	if (base) /* SUB-03; and that it is a part of it at all */
		assert_refused(fi_close(&base->fid), -FI_EBUSY);
	if (flags & FI_MR_DMABUF)
		first = (char *)asked.dmabuf->base_addr + asked.dmabuf->offset;
	else
		first = asked.mr_iov[0].iov_base;
	return add_region(end, mr, base, first);
}

struct conf_region *conf_regv(struct conf_end *end, const struct iovec *iov, size_t count,
			      uint64_t access, uint64_t flags, struct fid_cntr *cntr)
{
	struct fi_mr_attr attr = { .mr_iov = iov, .iov_count = count, .access = access };
	struct conf_region *region;

	if (cntr && (end->mode & FI_MR_RMA_EVENT))
		flags |= FI_RMA_EVENT;
	region = register_region(end, &attr, flags);
	conf_ready(end, region->mr, cntr);
	return region;
}

struct conf_region *conf_regattr(struct conf_end *end, struct fi_mr_attr *attr, uint64_t flags)
{
	struct conf_region *region = register_region(end, attr, flags);

	conf_ready(end, region->mr, NULL);
	return region;
}

struct conf_region *conf_reg_raw(struct conf_end *end, const void *buf, size_t len, uint64_t access)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = access };

	return register_region(end, &attr, 0);
}

struct conf_region *conf_reg(struct conf_end *end, const void *buf, size_t len, uint64_t access)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return conf_regv(end, &iov, 1, access, 0, NULL);
}

uint64_t conf_key(struct conf_end *user, struct conf_region *region)
{
	size_t size = RAW_KEY_MAX;
	uint8_t raw[RAW_KEY_MAX];
	uint64_t base, key;

	if (!(region->end->mode & FI_MR_RAW))
		return fi_mr_key(region->mr);
	for (size_t i = 0; i < region->maps; i++)
		if (region->map[i].user == user)
			return region->map[i].key;
	assert_true(region->maps < CONF_ENDS);
	assert_ok(fi_mr_raw_attr(region->mr, &base, raw, &size, 0));
	assert_ok(fi_mr_map_raw(user->domain, base, raw, size, &key, 0));
	region->map[region->maps].user = user;
	region->map[region->maps++].key = key;
	return key;
}

void conf_close_region(struct conf_region *region)
{
	assert_ok(fi_close(&region->mr->fid));
	region->mr = NULL;
}

void conf_drop_region(struct conf_region *region)
{
	struct conf *c = region->end->conf;

	for (; region->maps > 0; region->maps--)
		assert_ok(fi_mr_unmap_key(region->map[region->maps - 1].user->domain,
					  region->map[region->maps - 1].key));
	conf_close_region(region);
	conf_drop_base(c, region->base);
	region->base = NULL;
	if (region == &c->region[c->regions - 1])
		c->regions--;
}

/* ---- the usual scene ---- */

void conf_link(struct conf *c, const struct conf_opts *opts, size_t len, struct conf_link *l)
{
	conf_pair(c, opts, &l->a, &l->b);
	l->to = conf_addr(l->a, l->b);
	l->len = len;
	l->src = conf_alloc(c, len);
	l->dst = conf_alloc(c, len);
	conf_fill(c, l->src, len);
	l->local = conf_reg(l->a, l->src, len, CONF_ALL);
	l->remote = conf_reg(l->b, l->dst, len, CONF_ALL);
	l->key = conf_key(l->a, l->remote);
}

void conf_put(struct conf_link *l, size_t off, size_t len)
{
	assert_ok(fi_write(l->a->ep, l->src + off, len, l->local->desc, l->to,
			   l->remote->addr + off, l->key, l));
	conf_done(l->a->tx, l);
}

void conf_get(struct conf_link *l, size_t off, size_t len)
{
	assert_ok(fi_read(l->a->ep, l->src + off, len, l->local->desc, l->to, l->remote->addr + off,
			  l->key, l));
	conf_done(l->a->tx, l);
}

void conf_works(struct conf_link *l)
{
	uint8_t *sent = malloc(l->len);

	assert_non_null(sent);
	conf_fill(l->a->conf, l->src, l->len);
	memcpy(sent, l->src, l->len);
	conf_put(l, 0, l->len);
	memset(l->src, 0, l->len);
	conf_get(l, 0, l->len);
	assert_memory_equal(l->dst, sent, l->len);
	assert_memory_equal(l->src, sent, l->len);
	free(sent);
}
