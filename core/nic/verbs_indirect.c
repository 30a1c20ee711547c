/* SPDX-License-Identifier: BSD-2-Clause */
/* One key over several regions, through mlx5dv. */
#include "core/nic/verbs_indirect.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs.h"

#define LIST_MOST 16 /* entries: the list is written inline, as mlx5dv_wr_post(3) wants it */
/* of all entries: libmlx5 before rdma-core 61 adds them up in 31 bits and makes a longer key too short */
#define BYTES_MOST ((uint64_t)INT32_MAX)
/* what the provider takes for such a key; ordering and paging are the business of its parts */
#define KEY_RIGHTS                                                                                 \
	((unsigned int)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                         \
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))

/* ---- the provider's library ---- */

#define MLX5_FUNCTIONS(X)                                                                          \
	X(is_supported)                                                                            \
	X(open_device)                                                                             \
	X(create_mkey)                                                                             \
	X(destroy_mkey)                                                                            \
	X(create_qp)                                                                               \
	X(qp_ex_from_ibv_qp_ex)

static struct {
#define SLOT(name) __typeof__(mlx5dv_##name) *name;
	MLX5_FUNCTIONS(SLOT)
#undef SLOT
	__typeof__(ibv_qp_to_qp_ex) *qp_to_qp_ex;
} mlx5;

static bool mlx5_there;
static const char *mlx5_missing = "the device's provider has no such keys (libmlx5 has them)";

static bool find(void *handle, const char *symbol, void *slot)
{
	void *address = dlsym(handle, symbol);

	memcpy(slot, &address, sizeof(address));
	return address;
}

static void load(void)
{
	/* libibverbs has loaded it, as their provider, where there are devices of its kind */
	void *handle = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

	if (!handle)
		return;
#define FIND(name) &&find(handle, "mlx5dv_" #name, &mlx5.name)
	mlx5_there = find(handle, "ibv_qp_to_qp_ex", &mlx5.qp_to_qp_ex) MLX5_FUNCTIONS(FIND);
#undef FIND
	if (mlx5_there)
		return;
	mlx5_missing = "this libmlx5 is too old";
	dlclose(handle);
}

const char *verbs_indirect_missing(struct ibv_device *device)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (!mlx5_there)
		return mlx5_missing;
	return mlx5.is_supported(device) ? NULL : mlx5_missing;
}

struct ibv_context *verbs_indirect_open(struct ibv_device *device)
{
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };

	return mlx5.open_device(device, &attr);
}

/* ---- a queue pair that writes lists ---- */

static struct ibv_qp *make_qp(const struct verbs_loop_site *site, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = VERBS_LOOP_DEPTH,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 /* the list travels in the work request */
			 .max_inline_data = LIST_MOST * sizeof(struct ibv_sge) },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = site->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV,
	};
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
					  .send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST };
	struct ibv_qp *qp = mlx5.create_qp(site->context, &attr, &dv);
	struct ibv_qp_ex *ex = qp ? mlx5.qp_to_qp_ex(qp) : NULL;

	if (!qp || (ex && mlx5.qp_ex_from_ibv_qp_ex(ex)))
		return qp;
	verbs.destroy_qp(qp);
	errno = EOPNOTSUPP;
	return NULL;
}

int verbs_indirect_loop(const struct verbs_loop_site *site, struct verbs_loop **loop,
			struct verbs_failure *why)
{
	struct verbs_loop_site here = *site;

	here.make_qp = make_qp;
	return verbs_loop_open(&here, loop, why);
}

/* ---- keys ---- */

struct verbs_indirect {
	struct mlx5dv_mkey *mkey; /* owned */
};

static int write_list(struct verbs_loop *loop, struct mlx5dv_mkey *mkey, unsigned int access,
		      const struct verbs_list *list, struct verbs_failure *why)
{
	struct ibv_sge entry[LIST_MOST]; /* the call wants them writable */
	struct ibv_qp_ex *ex = mlx5.qp_to_qp_ex(loop->qp);
	int ret = verbs_loop_begin(loop, why);

	if (ret != 0)
		return ret;
	memcpy(entry, list->entry, list->count * sizeof(*entry));
	ibv_wr_start(ex);
	ex->wr_id = 0;
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mr_list(mlx5.qp_ex_from_ibv_qp_ex(ex), mkey, access & KEY_RIGHTS,
			  (uint16_t)list->count, entry);
	return verbs_loop_end(loop, ibv_wr_complete(ex), "writing the list", why);
}

int verbs_indirect_create(struct ibv_pd *pd, struct verbs_loop *loop, const struct verbs_list *list,
			  unsigned int access, struct verbs_indirect **out,
			  struct verbs_failure *why)
{
	struct mlx5dv_mkey_init_attr attr = { .pd = pd,
					      .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					      .max_entries = (uint16_t)list->count };
	struct verbs_indirect *key = malloc(sizeof(*key));
	int ret;

	if (!key)
		return verbs_failed(why, "the key", ENOMEM);
	errno = 0;
	key->mkey = mlx5.create_mkey(&attr);
	if (!key->mkey) {
		ret = verbs_failed(why, "the key", errno);
		free(key);
		return ret;
	}
	ret = write_list(loop, key->mkey, access, list, why);
	if (ret != 0) {
		mlx5.destroy_mkey(key->mkey);
		free(key);
		return ret;
	}
	*out = key;
	return 0;
}

int verbs_indirect_free(struct verbs_indirect *key)
{
	int ret = mlx5.destroy_mkey(key->mkey);

	if (ret != EBUSY)
		free(key);
	return ret;
}

uint32_t verbs_indirect_rkey(const struct verbs_indirect *key)
{
	return key->mkey->rkey;
}

/* ---- keys of a domain ---- */

/* The domain's loop, made at the first call.  0 or errno. */
static int get_loop(struct verbs_domain *domain, struct verbs_loop **loop,
		    struct verbs_failure *why)
{
	const struct verbs_loop_site site = { .context = domain->context,
					      .pd = domain->pd,
					      .port = domain->port->number,
					      .gid_index = domain->port->gid_index,
					      .domain = domain };
	int ret = 0;

	pthread_mutex_lock(&domain->lock);
	if (!domain->loop)
		ret = verbs_indirect_loop(&site, &domain->loop, why);
	*loop = domain->loop;
	pthread_mutex_unlock(&domain->lock);
	return ret;
}

/* The parts as a list.  -FI_ENOSPC: it would be too long. */
static int make_list(const struct verbs_parts *parts, struct verbs_list *list,
		     struct ibv_sge entry[LIST_MOST])
{
	uint64_t room = BYTES_MOST;

	if (parts->count > LIST_MOST) {
		HM_INFO(FI_LOG_MR, "no key over %zu regions: at most %d have one", parts->count,
			LIST_MOST);
		return -FI_ENOSPC;
	}
	for (size_t i = 0; i < parts->count; i++) {
		const struct verbs_part *part = &parts->part[i];

		if (part->len > room) {
			HM_INFO(FI_LOG_MR,
				"no key over %zu regions: with more than %" PRIu64
				" bytes it would be too short with some versions of libmlx5",
				parts->count, BYTES_MOST);
			return -FI_ENOSPC;
		}
		room -= part->len;
		entry[i] = (struct ibv_sge){ part->iova, (uint32_t)part->len, part->mr->lkey };
	}
	*list = (struct verbs_list){ entry, parts->count };
	return 0;
}

/* What will not be otherwise the next time: the context or the kernel lacks something. */
static bool is_lasting(int err)
{
	return err == EOPNOTSUPP || err == ENOSYS || err == EPROTONOSUPPORT;
}

static int told(struct verbs_domain *domain, const struct verbs_failure *why)
{
	bool lasting = is_lasting(why->err);

	if (lasting && atomic_exchange(&domain->no_indirect, true))
		return -FI_ENOSYS;
	HM_INFO(FI_LOG_MR, "no key over several regions%s: %s: %s%s",
		lasting ? " in this domain" : "", why->step, why->text,
		lasting && !domain->owns_context
			? "; the program's device context may lack DEVX (mlx5dv_open_device(3))"
			: "");
	return lasting ? -FI_ENOSYS : -FI_EIO;
}

int verbs_indirect_make(struct verbs_domain *domain, const struct verbs_parts *parts,
			unsigned int access, struct verbs_indirect **key)
{
	struct ibv_sge entry[LIST_MOST];
	struct verbs_failure why;
	struct verbs_loop *loop;
	struct verbs_list list;
	int ret;

	if (atomic_load(&domain->no_indirect))
		return -FI_ENOSYS;
	ret = make_list(parts, &list, entry);
	if (ret != 0)
		return ret;
	if (get_loop(domain, &loop, &why) != 0 ||
	    verbs_indirect_create(domain->pd, loop, &list, access, key, &why) != 0)
		return told(domain, &why);
	return 0;
}

int verbs_indirect_rewrite(struct verbs_domain *domain, const struct verbs_parts *parts,
			   unsigned int access)
{
	struct mlx5dv_mkey *mkey = parts->indirect->mkey;
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = mkey->rkey };
	struct ibv_sge entry[LIST_MOST];
	struct verbs_failure why;
	struct verbs_loop *loop;
	struct verbs_list list;
	int ret = make_list(parts, &list, entry);

	if (ret != 0)
		return ret;
	/* a list is only taken by a key that has none (mlx5dv_wr_post(3)) */
	if (get_loop(domain, &loop, &why) != 0 || verbs_loop_run(loop, &wr, &why) != 0 ||
	    write_list(loop, mkey, access, &list, &why) != 0)
		return told(domain, &why);
	return 0;
}
