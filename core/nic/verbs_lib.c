/* SPDX-License-Identifier: BSD-2-Clause */
/* libibverbs and librdmacm, loaded at run time. */
#include "core/nic/verbs_lib.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/dl.h"
#include "core/base/log.h"
#include "core/base/refusal.h"
#include "core/base/sysfs.h"

struct verbs_lib verbs;
struct cm_lib cm;

#define VERBS_SYMBOL(name) { "ibv_" #name, (void **)&verbs.name, NULL, 0 },
#define CM_SYMBOL(name)	   { "rdma_" #name, (void **)&cm.name, NULL, 0 },
static const struct hm_dl_symbol verbs_symbols[] = {
	/* older libraries lack these */
	{ "ibv_reg_dmabuf_mr", (void **)&verbs.reg_dmabuf_mr, NULL, 1 },
	{ "ibv_is_fork_initialized", (void **)&verbs.is_fork_initialized, NULL, 1 },
	{ "_ibv_query_gid_ex", (void **)&verbs.query_gid_ex, NULL, 1 },
	VERBS_FUNCTIONS(VERBS_SYMBOL)
};
static const struct hm_dl_symbol cm_symbols[] = { CM_FUNCTIONS(CM_SYMBOL) };

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
	if (!hm_sysfs_read(text, sizeof(text), "class/infiniband/%s/ports/%u/gid_attrs/types/%u",
			   device, port, index))
		return 0;
	if (strcmp(text, "RoCE v2") == 0)
		entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	else if (strcmp(text, "IB/RoCE v1") == 0)
		entry->gid_type = IBV_GID_TYPE_ROCE_V1;
	return 0;
}

/* ---- loading ---- */

static void fill_optional(void)
{
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

/* Local: providers are linked to libibverbs themselves, and a program's own copy stays its own. */
static void load(void)
{
	char reason[256] = "";
	void *ibverbs = hm_dl_open("libibverbs.so.1", verbs_symbols, count_of(verbs_symbols),
				   reason, sizeof(reason));
	void *rdmacm = ibverbs ? hm_dl_open("librdmacm.so.1", cm_symbols, count_of(cm_symbols),
					    reason, sizeof(reason))
			       : NULL;

	if (!rdmacm) {
		HM_INFO(FI_LOG_CORE, "no RDMA devices are looked for: %s", reason);
		hm_refusal_note(HMREG_CAUSE_NIC_LIBRARY, "no RDMA devices are looked for: %s",
				reason);
		if (ibverbs)
			hm_dl_close(ibverbs, verbs_symbols, count_of(verbs_symbols));
		load_result = -FI_ENOSYS;
		return;
	}
	pthread_atfork(NULL, NULL, count_fork);
	fill_optional(); /* both stay: device lists and contexts belong to them */
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
