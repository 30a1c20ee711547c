/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network plug-in of net.h.
 *
 * Collective libraries register what users give them: the whole of a buffer, then slices of it, again and again.  A
 * slice of what is registered is a part of that region (fi_mr_attr.base_mr): nothing is pinned or translated anew.
 *
 * A registration that pins is a base.  The handle that made it, and each part, uses it; the last one that is given
 * back closes it, in whichever order they come.  A base whose own handle has been given back serves those that it has
 * and no new ones: the memory around its parts may be somebody else's by now.  Bases are few, so they are a list; a
 * library whose users register thousands of buffers would keep them in a tree.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_xpu.h>

#include "../common.h"
#include "net.h"

#define RIGHTS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

struct base {
	struct base *next;
	struct fid_mr *mr;
	char *begin;
	size_t len;
	size_t users; /* its own handle, and parts */
	bool serves;  /* its own handle is there */
	struct sample_place place;
};

struct handle {
	struct handle *next, **before; /* of the comm's */
	struct base *base;
	struct fid_mr *mr; /* the base's, or a part */
	char *begin;
	size_t len;
	bool told; /* device is filled */
	struct net_device_mr device;
};

struct comm {
	struct sample_end end;
	struct hmreg_hmem_ops *hmem;
	struct hmreg_domain_ops *figures;
	struct fid_xpu_ctx *ctx; /* for descriptors of kernels, from the first that is asked for */
	pthread_mutex_t lock;	 /* what follows */
	struct base *bases;
	struct handle *handles;
	struct net_counts counts;
};

static struct fi_info *found; /* a device is an entry */

_Static_assert(sizeof(struct sample_key) <= sizeof(struct net_remote), "a key fits");

/* ---- devices ---- */

static void fini(void)
{
	fi_freeinfo(found);
	found = NULL;
}

/* With transfers by devices where there are NICs for it; else without. */
static int init(const char *domain)
{
	fini();
	if (!sample_find(domain, FI_RMA | FI_HMEM | FI_XPU, &found))
		return 0;
	int ret = sample_find(domain, FI_RMA | FI_HMEM, &found);

	return ret ? sample_fail("fi_getinfo", ret) : 0;
}

static struct fi_info *device_info(int device)
{
	struct fi_info *info = found;

	while (info && device-- > 0)
		info = info->next;
	return info;
}

static int devices(int *count)
{
	*count = 0;
	while (device_info(*count))
		++*count;
	return 0;
}

static int get_properties(int device, struct net_properties *properties)
{
	const struct fi_info *info = device_info(device);

	if (!info)
		return sample_fail("getProperties: no such device", -FI_ENODEV);
	snprintf(properties->name, sizeof(properties->name), "%s", info->domain_attr->name);
	properties->pointers = NET_PTR_HOST | NET_PTR_CUDA | NET_PTR_DMABUF;
	properties->registers_globally = 1;
	return 0;
}

static int comm_close(void *arg)
{
	struct comm *c = arg;
	int ret = 0;

	if (c->handles)
		return sample_fail("close: memory is registered", -FI_EBUSY);
	if (c->ctx)
		ret = fi_close(&c->ctx->fid);
	if (ret)
		return sample_fail("fi_close of a context", ret);
	ret = sample_close(&c->end);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return ret;
}

static int comm_open(int device, void **out)
{
	const struct fi_info *info = device_info(device);
	struct comm *c;
	int ret;

	if (!info)
		return sample_fail("open: no such device", -FI_ENODEV);
	c = calloc(1, sizeof(*c));
	if (!c)
		return -FI_ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	ret = sample_open(&c->end, info, 0);
	if (ret)
		goto free_comm;
	ret = fi_enable(c->end.ep);
	if (!ret)
		ret = fi_open_ops(&c->end.fabric->fid, HMREG_HMEM_OPS, 0, (void **)&c->hmem, NULL);
	if (!ret)
		ret = fi_open_ops(&c->end.domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&c->figures,
				  NULL);
	if (ret) {
		sample_fail("open", ret);
		sample_close(&c->end);
		goto free_comm;
	}
	*out = c;
	return 0;
free_comm:
	pthread_mutex_destroy(&c->lock);
	free(c);
	return ret;
}

static int address(void *comm, void *buf, size_t *len)
{
	int ret = fi_getname(&((struct comm *)comm)->end.ep->fid, buf, len);

	return ret ? sample_fail("fi_getname", ret) : 0;
}

static int comm_connect(void *comm, const void *peer, size_t len)
{
	struct comm *c = comm;

	(void)len;
	return sample_enter(&c->end, peer, &c->end.peer);
}

/* ---- registration ---- */

/* What covers it all.  Under the lock. */
static struct base *find_base(struct comm *c, const char *begin, size_t len)
{
	for (struct base *b = c->bases; b; b = b->next)
		if (b->serves && begin >= b->begin && len <= b->len &&
		    (size_t)(begin - b->begin) <= b->len - len)
			return b;
	return NULL;
}

/* The caller says which kind of pointer it is; the driver knows of which device. */
static int find_place(struct comm *c, const void *data, size_t size, int type,
		      struct sample_place *place)
{
	struct hmreg_hmem_memory memory = { .size = sizeof(memory) };
	int ret;

	*place = (struct sample_place){ FI_HMEM_SYSTEM, 0 };
	if (type == NET_PTR_HOST)
		return 0;
	ret = c->hmem->query(&c->end.fabric->fid, data, size, &memory);
	if (ret)
		return sample_fail("regMr: whose memory it is", ret);
	if (memory.iface != FI_HMEM_CUDA)
		return sample_fail("regMr: this is no memory of CUDA", -FI_EINVAL);
	*place = (struct sample_place){ memory.iface, memory.device };
	return 0;
}

/* fd -1: by the address. */
static int make_base(struct comm *c, char *data, size_t size, int type, uint64_t offset, int fd,
		     struct base **out)
{
	struct base *b = calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return -FI_ENOMEM;
	*b = (struct base){ .begin = data, .len = size, .serves = true };
	if (fd >= 0) {
		ret = sample_register_dmabuf(&c->end, fd, offset, size, data - offset, RIGHTS,
					     &b->mr);
	} else {
		ret = find_place(c, data, size, type, &b->place);
		if (!ret)
			ret = sample_register_at(&c->end, &b->place, data, size, RIGHTS, &b->mr);
	}
	if (ret) {
		free(b);
		return ret;
	}
	b->next = c->bases;
	c->bases = b;
	c->counts.bases++;
	c->counts.bytes += size;
	*out = b;
	return 0;
}

/* One user less; 0, or the base stays with what could not be closed. */
static int leave_base(struct comm *c, struct base *b)
{
	struct base **at = &c->bases;
	int ret;

	if (b->users > 1) {
		b->users--;
		return 0;
	}
	ret = fi_close(&b->mr->fid);
	if (ret)
		return sample_fail("fi_close of a region", ret);
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	c->counts.bases--;
	c->counts.bytes -= b->len;
	free(b);
	return 0;
}

static int fill_handle(struct comm *c, struct handle *h, int type, uint64_t offset, int fd)
{
	int ret;

	h->base = find_base(c, h->begin, h->len);
	if (h->base) {
		ret = sample_register_part(&c->end, h->base->mr, h->begin, h->len, RIGHTS, &h->mr);
		c->counts.parts += !ret;
	} else {
		ret = make_base(c, h->begin, h->len, type, offset, fd, &h->base);
		h->mr = ret ? NULL : h->base->mr;
	}
	if (!ret)
		h->base->users++;
	return ret;
}

static int register_any(struct comm *c, void *data, size_t size, int type, uint64_t offset, int fd,
			void **mhandle)
{
	struct handle *h;
	int ret;

	if (!data || !size || !mhandle || (type != NET_PTR_HOST && type != NET_PTR_CUDA))
		return sample_fail("regMr: no memory, or no such kind", -FI_EINVAL);
	h = calloc(1, sizeof(*h));
	if (!h)
		return -FI_ENOMEM;
	h->begin = data;
	h->len = size;
	pthread_mutex_lock(&c->lock);
	ret = fill_handle(c, h, type, offset, fd);
	if (!ret) {
		h->next = c->handles;
		h->before = &c->handles;
		if (h->next)
			h->next->before = &h->next;
		c->handles = h;
	}
	pthread_mutex_unlock(&c->lock);
	if (ret)
		free(h);
	else
		*mhandle = h;
	return ret;
}

static int reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	return register_any(comm, data, size, type, 0, -1, mhandle);
}

static int reg_mr_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
			 void **mhandle)
{
	if (fd < 0)
		return sample_fail("regMrDmaBuf: no descriptor", -FI_EBADF);
	return register_any(comm, data, size, type, offset, fd, mhandle);
}

/* Nothing is changed where the library refuses. */
static int end_handle(struct comm *c, struct handle *h)
{
	bool part = h->mr != h->base->mr;
	int ret = part ? fi_close(&h->mr->fid) : 0;

	if (ret)
		return sample_fail("fi_close of a part", ret);
	c->counts.parts -= part;
	if (part)
		h->mr = h->base->mr; /* closed, whatever becomes of the base */
	else
		h->base->serves = false;
	return leave_base(c, h->base);
}

static int dereg_mr(void *comm, void *mhandle)
{
	struct comm *c = comm;
	struct handle *h = mhandle;
	int ret;

	if (!h)
		return 0;
	pthread_mutex_lock(&c->lock);
	ret = end_handle(c, h);
	if (!ret) {
		*h->before = h->next;
		if (h->next)
			h->next->before = h->before;
		free(h);
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* A descriptor is of a context, which is of a device: that of the first region asked for. */
static int tell_device(struct comm *c, struct handle *h)
{
	struct fi_xpu_attr attr = { .iface = h->base->place.iface,
				    .device = (uint64_t)h->base->place.device };
	size_t len = sizeof(h->device.desc);
	int ret = 0;

	if (!(c->end.info->caps & FI_XPU))
		return sample_fail("getDeviceMr: no device starts transfers on this NIC",
				   -FI_EOPNOTSUPP);
	if (!c->ctx)
		ret = fi_xpu_ctx(c->end.domain, &attr, &c->ctx, NULL);
	if (ret)
		return sample_fail("fi_xpu_ctx", ret);
	ret = fi_mr_get_xpu_desc(h->mr, h->device.desc, &len, FI_XPU, c->ctx);
	if (ret)
		return sample_fail("fi_mr_get_xpu_desc", ret);
	h->device.len = len;
	h->told = true;
	return 0;
}

static int get_device_mr(void *comm, void *mhandle, void **device_mr)
{
	struct comm *c = comm;
	struct handle *h = mhandle;
	int ret = 0;

	pthread_mutex_lock(&c->lock);
	if (!h->told)
		ret = tell_device(c, h);
	pthread_mutex_unlock(&c->lock);
	if (!ret)
		*device_mr = &h->device;
	return ret;
}

/* ---- a byte moved ---- */

static int share(void *comm, void *mhandle, struct net_remote *remote)
{
	struct handle *h = mhandle;
	struct sample_key key;
	int ret = sample_share(&((struct comm *)comm)->end, h->mr, h->begin, &key);

	if (!ret)
		memcpy(remote->bytes, &key, sizeof(key));
	return ret;
}

static int put(void *comm, void *mhandle, const void *data, size_t size,
	       const struct net_remote *remote, uint64_t offset)
{
	struct comm *c = comm;
	struct handle *h = mhandle;
	struct sample_key shared;
	uint64_t key;
	int ret, failed;

	memcpy(&shared, remote->bytes, sizeof(shared));
	ret = sample_use(&c->end, &shared, &key);
	if (ret)
		return ret;
	ret = sample_finish(&c->end, "fi_write",
			    fi_write(c->end.ep, data, size, fi_mr_desc(h->mr), c->end.peer,
				     shared.address + offset, key, NULL));
	failed = sample_unuse(&c->end, &shared, key);
	return ret ? ret : failed;
}

static int counts(void *comm, struct net_counts *out)
{
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };
	struct comm *c = comm;
	int ret = c->figures->stats(&c->end.domain->fid, &stats);

	if (ret)
		return sample_fail("figures of the domain", ret);
	pthread_mutex_lock(&c->lock);
	*out = c->counts;
	pthread_mutex_unlock(&c->lock);
	out->domain_regions = stats.regions;
	return 0;
}

extern const struct net_api hmreg_net_v1;

__attribute__((visibility("default"))) const struct net_api hmreg_net_v1 = {
	.name = "hmreg",
	.init = init,
	.fini = fini,
	.devices = devices,
	.getProperties = get_properties,
	.open = comm_open,
	.close = comm_close,
	.address = address,
	.connect = comm_connect,
	.regMr = reg_mr,
	.regMrDmaBuf = reg_mr_dmabuf,
	.deregMr = dereg_mr,
	.getDeviceMr = get_device_mr,
	.share = share,
	.put = put,
	.counts = counts,
};
