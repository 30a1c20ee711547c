/* SPDX-License-Identifier: BSD-2-Clause */
/* One key over several regions, through mlx5dv. */
#include "core/nic/verbs_indirect.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/log.h"
#include "core/nic/verbs.h"

#define LOOP_DEPTH    4
#define LOOP_PATIENCE 5			   /* seconds for a work request that needs no network */
#define SGE_MOST      UINT32_C(0x80000000) /* bytes of one list entry */
#define LIST_MOST     16 /* entries: the list is written inline, as mlx5dv_wr_post(3) wants it */

/* ---- the provider's library ---- */

#define MLX5_FUNCTIONS(X)                                                                          \
	X(is_supported)                                                                            \
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
	HM_INFO(FI_LOG_CORE, "no keys over several regions: this libmlx5 is too old");
	dlclose(handle);
}

bool verbs_indirect_supported(struct ibv_device *device)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return mlx5_there && mlx5.is_supported(device);
}

/* ---- a queue pair connected to itself ---- */

struct verbs_loop {
	pthread_mutex_t lock; /* protects the queue pair: one request at a time; innermost */
	struct ibv_cq *cq;    /* owned, as the rest */
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
	bool broken; /* a request failed or did not end: a late completion must not be taken for another's */
};

static struct ibv_qp *make_qp(struct verbs_domain *domain, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = LOOP_DEPTH,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = 512 }, /* the list travels in the work request */
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = domain->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
					  .send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST };

	return mlx5.create_qp(domain->context, &attr, &dv);
}

/* RESET to RTS, to itself over its own port.  0 or errno. */
static int connect_to_itself(struct verbs_domain *domain, struct ibv_qp *qp)
{
	uint8_t number = domain->port->number;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = number };
	int ret = verbs_query_port(domain->context, number, &port);

	if (ret == 0)
		ret = verbs.modify_qp(qp, &attr,
				      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					      IBV_QP_ACCESS_FLAGS);
	if (ret != 0)
		return ret;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = port.active_mtu,
				     .dest_qp_num = qp->qp_num,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12,
				     .ah_attr = { .dlid = port.lid, .port_num = number } };
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		int index = domain->port->gid_index < 0 ? 0 : domain->port->gid_index;

		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.sgid_index = (uint8_t)index;
		attr.ah_attr.grh.hop_limit = 1;
		if (verbs.query_gid(domain->context, number, index, &attr.ah_attr.grh.dgid) != 0)
			ret = EINVAL;
	}
	if (ret == 0)
		ret = verbs.modify_qp(qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER);
	if (ret != 0)
		return ret;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	return verbs.modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct verbs_loop *open_loop(struct verbs_domain *domain)
{
	struct verbs_loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return NULL;
	loop->cq = verbs.create_cq(domain->context, LOOP_DEPTH, NULL, NULL, 0);
	if (!loop->cq)
		goto free_loop;
	loop->qp = make_qp(domain, loop->cq);
	if (!loop->qp)
		goto destroy_cq;
	loop->ex = mlx5.qp_to_qp_ex(loop->qp);
	loop->dv = loop->ex ? mlx5.qp_ex_from_ibv_qp_ex(loop->ex) : NULL;
	errno = EOPNOTSUPP;
	if (!loop->dv || (errno = connect_to_itself(domain, loop->qp)) != 0)
		goto destroy_qp;
	pthread_mutex_init(&loop->lock, NULL);
	return loop;
destroy_qp:
	verbs.destroy_qp(loop->qp);
destroy_cq:
	verbs.destroy_cq(loop->cq);
free_loop:
	free(loop);
	return NULL;
}

void verbs_loop_close(struct verbs_loop *loop)
{
	if (!loop)
		return;
	verbs.destroy_qp(loop->qp);
	verbs.destroy_cq(loop->cq);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

/* The domain's loop, made at the first call.  NULL: errno says why not. */
static struct verbs_loop *get_loop(struct verbs_domain *domain)
{
	struct verbs_loop *loop;

	pthread_mutex_lock(&domain->lock);
	if (!domain->loop)
		domain->loop = open_loop(domain);
	loop = domain->loop;
	pthread_mutex_unlock(&domain->lock);
	return loop;
}

/* ---- keys ---- */

struct verbs_indirect {
	struct mlx5dv_mkey *mkey; /* owned */
};

/* The parts as list entries, which are shorter than parts may be.  Count, or 0: too many. */
static size_t make_list(const struct verbs_parts *parts, struct ibv_sge *list)
{
	size_t n = 0;

	for (size_t i = 0; i < parts->count; i++) {
		const struct verbs_part *part = &parts->part[i];
		uint64_t done = 0;

		while (done < part->len) {
			uint64_t left = part->len - done;
			uint32_t step = left < SGE_MOST ? (uint32_t)left : SGE_MOST;

			if (n == LIST_MOST)
				return 0;
			list[n++] = (struct ibv_sge){ part->iova + done, step, part->mr->lkey };
			done += step;
		}
	}
	return n;
}

static int await(struct verbs_loop *loop)
{
	struct timespec start, now;
	struct ibv_wc wc;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		n = ibv_poll_cq(loop->cq, 1, &wc);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (n == 0 && now.tv_sec - start.tv_sec < LOOP_PATIENCE);
	if (n == 1 && wc.status == IBV_WC_SUCCESS)
		return 0;
	HM_INFO(FI_LOG_MR, "no key over several regions: the work request that makes it %s",
		n == 1 ? verbs.wc_status_str(wc.status) : "does not complete");
	return -FI_EIO;
}

static int write_list(struct verbs_loop *loop, struct mlx5dv_mkey *mkey, unsigned int access,
		      struct ibv_sge *list, size_t count)
{
	int ret;

	pthread_mutex_lock(&loop->lock);
	if (loop->broken) {
		pthread_mutex_unlock(&loop->lock);
		return -FI_EIO; /* it was said when it broke */
	}
	ibv_wr_start(loop->ex);
	loop->ex->wr_id = 0;
	loop->ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mr_list(loop->dv, mkey, access, (uint16_t)count, list);
	ret = ibv_wr_complete(loop->ex);
	if (ret != 0) {
		HM_INFO(FI_LOG_MR, "no key over several regions: the device refuses the list: %s",
			strerror(ret));
		ret = -FI_EIO;
	} else {
		ret = await(loop);
		loop->broken = ret != 0;
	}
	pthread_mutex_unlock(&loop->lock);
	return ret;
}

int verbs_indirect_make(struct verbs_domain *domain, const struct verbs_parts *parts,
			unsigned int access, struct verbs_indirect **out)
{
	struct mlx5dv_mkey_init_attr attr = {
		.pd = domain->pd, .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT
	};
	struct ibv_sge *list = malloc(LIST_MOST * sizeof(*list));
	struct verbs_indirect *key = malloc(sizeof(*key));
	struct verbs_loop *loop;
	size_t count = list ? make_list(parts, list) : 0;
	int ret = list && key ? -FI_ENOSPC : -FI_ENOMEM;

	if (!list || !key || count == 0)
		goto free_both;
	ret = -FI_EIO;
	loop = get_loop(domain);
	attr.max_entries = (uint16_t)count;
	key->mkey = loop ? mlx5.create_mkey(&attr) : NULL;
	if (!key->mkey) {
		HM_INFO(FI_LOG_MR, "no key over %zu entries: %s", count, strerror(errno));
		goto free_both;
	}
	ret = write_list(loop, key->mkey, access, list, count);
	if (ret != 0) {
		mlx5.destroy_mkey(key->mkey);
		goto free_both;
	}
	free(list);
	*out = key;
	return 0;
free_both:
	free(list);
	free(key);
	return ret;
}

int verbs_indirect_free(struct verbs_indirect *key)
{
	int ret = mlx5.destroy_mkey(key->mkey);

	free(key);
	return ret;
}

uint32_t verbs_indirect_rkey(const struct verbs_indirect *key)
{
	return key->mkey->rkey;
}
