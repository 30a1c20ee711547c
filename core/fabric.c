/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabrics, and the refusals that all objects share. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/export.h"
#include "core/base/refusal.h"
#include "core/core.h"
#include "core/mr/stats.h"

/* ---- shared refusals ---- */

int hm_check_unused(_Atomic uint32_t *users, const char *what)
{
	uint32_t n = atomic_load_explicit(users, memory_order_acquire);

	if (n == 0)
		return 0;
	HM_WARN(FI_LOG_CORE, "%s is in use by %u other objects; close them first", what, n);
	return -FI_EBUSY;
}

int hm_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)bfid;
	(void)flags;
	HM_WARN(FI_LOG_CORE, "nothing can be bound to an object of class %zu", fid->fclass);
	return -FI_ENOSYS;
}

int hm_no_control(struct fid *fid, int command, void *arg)
{
	(void)arg;
	HM_WARN(FI_LOG_CORE, "an object of class %zu has no control command %d", fid->fclass,
		command);
	return -FI_ENOSYS;
}

int hm_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)flags;
	(void)ops;
	(void)context;
	HM_INFO(FI_LOG_CORE, "an object of class %zu has no operations named %s", fid->fclass,
		name ? name : "(null)");
	return -FI_ENOSYS;
}

int hm_no_tostr(const struct fid *fid, char *buf, size_t len)
{
	(void)fid;
	(void)buf;
	(void)len;
	return -FI_ENOSYS;
}

int hm_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	(void)flags;
	(void)ops;
	(void)context;
	HM_WARN(FI_LOG_CORE, "an object of class %zu takes no operations named %s", fid->fclass,
		name ? name : "(null)");
	return -FI_ENOSYS;
}

/* ---- what hmreg adds ---- */

int hm_ext_open(struct fid *fid, enum fi_log_subsys subsys, const char *name, uint64_t flags,
		void **ops, const char *ext_name, void *ext_ops)
{
	if (!name || !ops) {
		HM_WARN(subsys, "no name, or nowhere to put the operations");
		return -FI_EINVAL;
	}
	if (strcmp(name, ext_name) != 0)
		return hm_no_ops_open(fid, name, flags, ops, NULL);
	if (flags != 0) {
		HM_WARN(subsys, "flags are 0x%lx and must be 0", (unsigned long)flags);
		return -FI_EBADFLAGS;
	}
	*ops = ext_ops;
	return 0;
}

int hm_ext_check(const struct fid *fid, size_t fclass, const size_t *size,
		 enum fi_log_subsys subsys, const char *what)
{
	if (fid && fid->fclass == fclass && size && *size >= sizeof(*size))
		return 0;
	HM_WARN(subsys, "%s", what);
	return -FI_EINVAL;
}

void hm_ext_give(void *out, void *filled, size_t size)
{
	size_t *room = out, given = *room < size ? *room : size;

	*(size_t *)filled = given;
	memcpy(out, filled, given);
}

/* ---- fabric ---- */

static int fabric_close(struct fid *fid)
{
	struct hm_fabric *fabric = hm_fabric_of(fid);
	int ret = hm_check_unused(&fabric->users, "fabric");

	if (ret != 0)
		return ret;
	hm_fid_end(fid);
	free(fabric);
	return 0;
}

static int no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			 void *context)
{
	(void)fabric;
	(void)info;
	(void)pep;
	(void)context;
	HM_WARN(FI_LOG_FABRIC, "passive endpoints are not offered: endpoints are FI_EP_RDM");
	return -FI_ENOSYS;
}

static int no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			struct fid_wait **waitset)
{
	(void)fabric;
	(void)attr;
	(void)waitset;
	HM_WARN(FI_LOG_FABRIC, "wait sets are not offered: use FI_WAIT_FD and poll(2)");
	return -FI_ENOSYS;
}

static int trywait_one(struct fid *fid)
{
	switch (fid ? fid->fclass : FI_CLASS_UNSPEC) {
	case FI_CLASS_CQ:
		return hm_cq_trywait(hm_cq_of(fid));
	case FI_CLASS_CNTR:
		return hm_cntr_trywait(hm_cntr_of(fid));
	case FI_CLASS_EQ:
		return hm_eq_trywait(hm_eq_of(fid));
	default:
		HM_WARN(FI_LOG_FABRIC,
			"fi_trywait takes completion queues, counters, event queues");
		return -FI_EINVAL;
	}
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	if (!fids || count < 0) {
		HM_WARN(FI_LOG_FABRIC, "no fids, or a count of %d", count);
		return -FI_EINVAL;
	}
	for (int i = 0; i < count; i++) {
		int ret = trywait_one(fids[i]);

		if (ret != 0)
			return ret;
	}
	return 0;
}

/* ---- operations beyond libfabric's (fi_ext_hmreg.h) ---- */

static int describe_device(struct fid *fid, const struct fi_info *info, struct hmreg_device *out)
{
	struct hmreg_device device = { .size = sizeof(device) };
	const struct nic_port *port;
	int ret;

	if (!fid || fid->fclass != FI_CLASS_FABRIC || !info || !out ||
	    out->size < sizeof(out->size)) {
		HM_WARN(FI_LOG_FABRIC, "not a fabric, no info, or no room for the description");
		return -FI_EINVAL;
	}
	port = hm_info_port(info);
	if (!port || strcmp(port->fabric_name, hm_fabric_of(fid)->name) != 0) {
		HM_WARN(FI_LOG_FABRIC, "the info names no domain of this fabric");
		return -FI_ENODEV;
	}
	ret = port->ops->port_describe(port, &device);
	if (ret != 0)
		return ret;
	hm_ext_give(out, &device, sizeof(device));
	return 0;
}

/* What the caller's struct has, if it is an older one; the NIC looks at what the pointers mean. */
static int domain_over(struct fid_fabric *fabric, struct fi_info *info,
		       const struct hmreg_verbs_adopt *verbs, struct fid_domain **domain,
		       void *context)
{
	struct hmreg_verbs_adopt adopt = { .size = sizeof(adopt) };

	if (!verbs || verbs->size < sizeof(verbs->size)) {
		HM_WARN(FI_LOG_FABRIC, "no verbs objects, or their size is not set");
		return -FI_EINVAL;
	}
	memcpy(&adopt, verbs, verbs->size < sizeof(adopt) ? verbs->size : sizeof(adopt));
	adopt.size = sizeof(adopt);
	if (!adopt.context && !adopt.pd) {
		HM_WARN(FI_LOG_FABRIC, "neither a device context nor a protection domain is given");
		return -FI_EINVAL;
	}
	return hm_domain_open_over(fabric, info, &adopt, domain, context);
}

static int cache_monitor(struct fid *fid, struct hmreg_cache_monitor *out)
{
	struct hmreg_cache_monitor monitor;
	int ret = hm_ext_check(fid, FI_CLASS_FABRIC, out ? &out->size : NULL, FI_LOG_FABRIC,
			       "not a fabric, or no room for what is told of a monitor");

	if (ret != 0)
		return ret;
	hm_cache_monitor_tell(&monitor);
	hm_ext_give(out, &monitor, sizeof(monitor));
	return 0;
}

static int refusal(struct fid *fid, size_t index, struct hmreg_refusal *out)
{
	struct hmreg_refusal found = { .size = sizeof(found) };
	int ret = hm_ext_check(fid, FI_CLASS_FABRIC, out ? &out->size : NULL, FI_LOG_FABRIC,
			       "not a fabric, or no room for a refusal");

	if (ret != 0)
		return ret;
	if (!hm_refusal_get(index, &found))
		return -FI_ENOENT;
	hm_ext_give(out, &found, sizeof(found));
	return 0;
}

static int forget(struct fid *fid)
{
	if (!fid || fid->fclass != FI_CLASS_FABRIC) {
		HM_WARN(FI_LOG_FABRIC, "not a fabric");
		return -FI_EINVAL;
	}
	hm_refusal_forget();
	return 0;
}

static struct hmreg_fabric_ops fabric_ext_ops = {
	.size = sizeof(struct hmreg_fabric_ops),
	.device = describe_device,
	.domain_over = domain_over,
	.cache_monitor = cache_monitor,
	.refusal = refusal,
	.forget = forget,
};

static int fabric_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
			   void *context)
{
	static const struct {
		const char *name;
		void *ops;
	} tables[] = {
		{ HMREG_FABRIC_OPS, &fabric_ext_ops },
		{ HMREG_HMEM_OPS, &hm_hmem_ext_ops },
		{ HMREG_TOPOLOGY_OPS, &hm_topology_ext_ops },
	};
	size_t i = sizeof(tables) / sizeof(tables[0]) - 1;

	(void)context;
	while (i > 0 && name && strcmp(name, tables[i].name) != 0)
		i--;
	return hm_ext_open(fid, FI_LOG_FABRIC, name, flags, ops, tables[i].name, tables[i].ops);
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = hm_no_bind,
	.control = hm_no_control,
	.ops_open = fabric_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = hm_domain_open,
	.passive_ep = no_passive_ep,
	.eq_open = hm_eq_open,
	.wait_open = no_wait_open,
	.trywait = fabric_trywait,
	.domain2 = hm_domain_open2,
};

/* The port's own string for a fabric name, or NULL. */
static const char *known_fabric(const char *name)
{
	const struct nic_port *port;

	for (size_t i = 0; (port = nic_port_at(i)); i++)
		if (name && strcmp(port->fabric_name, name) == 0)
			return port->fabric_name;
	return NULL;
}

int hm_fabric_open(const struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct hm_fabric *fabric;
	const char *name;

	hm_init();
	if (!attr || !out) {
		HM_WARN(FI_LOG_FABRIC, "no attributes, or nowhere to put the fabric");
		return -FI_EINVAL;
	}
	if (FI_VERSION_LT(HM_API_VERSION, attr->api_version)) {
		HM_WARN(FI_LOG_FABRIC, "api_version %u.%u is newer than this library's",
			FI_MAJOR(attr->api_version), FI_MINOR(attr->api_version));
		return -FI_ENOSYS;
	}
	name = known_fabric(attr->name);
	if (!name) {
		HM_WARN(FI_LOG_FABRIC, "no fabric \"%s\" here", attr->name ? attr->name : "(null)");
		return -FI_ENODEV;
	}
	fabric = calloc(1, sizeof(*fabric));
	if (!fabric) {
		HM_WARN(FI_LOG_FABRIC, "no memory for a fabric");
		return -FI_ENOMEM;
	}
	fabric->fabric.fid = (struct fid){ FI_CLASS_FABRIC, context, &fabric_fid_ops };
	fabric->fabric.ops = &fabric_ops;
	fabric->fabric.api_version = attr->api_version ? attr->api_version : HM_API_VERSION;
	fabric->name = name;
	*out = &fabric->fabric;
	return 0;
}

/* ---- a libfabric in the same process ---- */

typedef int (*fabric_fn)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/*
 * Its fi_fabric, which has the name and the version of ours; NULL: there is none.  Where the program is
 * linked with this library and something else in the process with libfabric, the loader gives both ours,
 * while fi_getinfo, of another version, is each one's own.
 */
static fabric_fn other_fabric(void)
{
	void *handle = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
	fabric_fn other = NULL;

	if (!handle)
		return NULL;
	*(void **)&other = dlvsym(handle, "fi_fabric", "FABRIC_1.1");
	dlclose(handle); /* who calls for it keeps it */
	return other == fi_fabric ? NULL : other;
}

HM_EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	bool ours = !attr || !attr->prov_name || strcasecmp(attr->prov_name, HM_PROVIDER_NAME) == 0;
	fabric_fn other = NULL;

	hm_init();
	/* of the name, but not of a list of ours: this library is also there as a provider of libfabric */
	if (!ours || (attr && attr->prov_name && !known_fabric(attr->name)))
		other = other_fabric();
	if (other)
		return other(attr, out, context);
	if (!ours) {
		HM_WARN(FI_LOG_FABRIC, "no provider \"%s\" here", attr->prov_name);
		return -FI_ENODEV;
	}
	return hm_fabric_open(attr, out, context);
}

HM_EXPORT int fi_fabric2(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags,
			 void *context)
{
	if (!info || !info->fabric_attr) {
		HM_WARN(FI_LOG_FABRIC, "no info, or one without fabric attributes");
		return -FI_EINVAL;
	}
	if (flags != 0) {
		HM_WARN(FI_LOG_FABRIC, "unknown flags 0x%lx", (unsigned long)flags);
		return -FI_EBADFLAGS;
	}
	return fi_fabric(info->fabric_attr, fabric, context);
}

HM_EXPORT uint32_t fi_version(void)
{
	return HM_API_VERSION;
}
