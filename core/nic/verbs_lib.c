/* SPDX-License-Identifier: BSD-2-Clause */
/* libibverbs and librdmacm, loaded at run time. */
#include "core/nic/verbs_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/nic/verbs_sysfs.h"

struct verbs_lib verbs;
struct cm_lib cm;
struct verbs_loader verbs_loader = { dlopen, dlsym, dlclose };

struct symbol {
	void **slot;
	const char *name;
};

#define VERBS_SYMBOL(name) { (void **)&verbs.name, "ibv_" #name },
#define CM_SYMBOL(name)	   { (void **)&cm.name, "rdma_" #name },
static const struct symbol verbs_symbols[] = { VERBS_FUNCTIONS(VERBS_SYMBOL) };
static const struct symbol cm_symbols[] = { CM_FUNCTIONS(CM_SYMBOL) };

/* ---- stand-ins for what older libraries lack ---- */

static struct ibv_mr *no_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				int fd, int access)
{
	(void)pd;
	(void)offset;
	(void)length;
	(void)iova;
	(void)fd;
	(void)access;
	errno = EOPNOTSUPP;
	return NULL;
}

static enum ibv_fork_status fork_unknown(void)
{
	return IBV_FORK_DISABLED;
}

static int gid_from_table(struct ibv_context *context, uint32_t port, uint32_t index,
			  struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	const char *device = verbs.get_device_name(context->device);
	char text[32];

	(void)flags;
	memset(entry, 0, size);
	if (verbs.query_gid(context, (uint8_t)port, (int)index, &entry->gid))
		return ENODATA;
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = IBV_GID_TYPE_IB;
	if (!verbs_sysfs_read(text, sizeof(text), "class/infiniband/%s/ports/%u/gid_attrs/types/%u",
			      device, port, index))
		return 0;
	if (strcmp(text, "RoCE v2") == 0)
		entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	else if (strcmp(text, "IB/RoCE v1") == 0)
		entry->gid_type = IBV_GID_TYPE_ROCE_V1;
	return 0;
}

/* ---- loading ---- */

/* All of them or none: *library NULL again. */
static int load_table(const char *file, const struct symbol *symbols, size_t count, void **library)
{
	/* local: providers are linked to libibverbs themselves, and a program's own copy stays its own */
	*library = verbs_loader.open(file, RTLD_NOW | RTLD_LOCAL);
	if (!*library) {
		HM_INFO(FI_LOG_CORE, "no RDMA devices are looked for: %s", dlerror());
		return -FI_ENOSYS;
	}
	for (size_t i = 0; i < count; i++) {
		*symbols[i].slot = verbs_loader.symbol(*library, symbols[i].name);
		if (*symbols[i].slot)
			continue;
		HM_INFO(FI_LOG_CORE, "no RDMA devices are looked for: %s lacks %s", file,
			symbols[i].name);
		while (i-- > 0)
			*symbols[i].slot = NULL;
		verbs_loader.close(*library);
		*library = NULL;
		return -FI_ENOSYS;
	}
	return 0;
}

static void load_optional(void *library)
{
	*(void **)&verbs.reg_dmabuf_mr = verbs_loader.symbol(library, "ibv_reg_dmabuf_mr");
	*(void **)&verbs.is_fork_initialized =
		verbs_loader.symbol(library, "ibv_is_fork_initialized");
	*(void **)&verbs.query_gid_ex = verbs_loader.symbol(library, "_ibv_query_gid_ex");
	if (!verbs.reg_dmabuf_mr)
		verbs.reg_dmabuf_mr = no_dmabuf;
	if (!verbs.is_fork_initialized)
		verbs.is_fork_initialized = fork_unknown;
	if (!verbs.query_gid_ex)
		verbs.query_gid_ex = gid_from_table;
}

_Atomic unsigned int verbs_forks;

static void count_fork(void)
{
	atomic_fetch_add(&verbs_forks, 1);
}

static int load_result;

static void load(void)
{
	void *ibverbs, *rdmacm;

	load_result =
		load_table("libibverbs.so.1", verbs_symbols, count_of(verbs_symbols), &ibverbs);
	if (load_result)
		return;
	load_result = load_table("librdmacm.so.1", cm_symbols, count_of(cm_symbols), &rdmacm);
	if (load_result) {
		memset(&verbs, 0, sizeof(verbs));
		verbs_loader.close(ibverbs);
		return;
	}
	pthread_atfork(NULL, NULL, count_fork);
	load_optional(ibverbs); /* both stay: device lists and contexts belong to them */
}

int verbs_lib_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return load_result;
}

/* ---- inline functions of verbs.h that fall back on the library ---- */

int verbs_query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr)
{
	struct verbs_context *extended = verbs_get_ctx_op(context, query_port);

	memset(attr, 0, sizeof(*attr));
	if (extended)
		return extended->query_port(context, number, attr, sizeof(*attr));
	/* the old structure is the beginning of the new one */
	return verbs.query_port(context, number, (struct _compat_ibv_port_attr *)attr);
}

int verbs_query_device_ex(struct ibv_context *context, struct ibv_device_attr_ex *attr)
{
	struct verbs_context *extended = verbs_get_ctx_op(context, query_device_ex);
	int err = EOPNOTSUPP;

	memset(attr, 0, sizeof(*attr));
	if (extended)
		err = extended->query_device_ex(context, NULL, attr, sizeof(*attr));
	if (err != EOPNOTSUPP && err != ENOSYS)
		return err;
	memset(attr, 0, sizeof(*attr));
	return verbs.query_device(context, &attr->orig_attr);
}
