/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys over several regions, by the interface of mlx5's provider (setting indirect=1).  libmlx5.so.1, which
 * ibv_get_device_list then loads as the real one does, leads here.  A list is written at once by the work
 * request that carries it; such a key is addressed from 0.
 *
 * Refused as by the provider and hardware: keys in contexts without DEVX; lists that are not inline, longer
 * than the queue pair's inline room or the key, or with rights that such keys have not; lists of 2 GiB and
 * more, which libmlx5 before rdma-core 61 makes a shorter key of.  By a failed completion: a key of another
 * protection domain, and one that has a list.  Entries are looked at when the key is used, as hardware does.
 */
#include "tests/drivers/verbs/emu.h"

#pragma GCC visibility push(default)
#include <infiniband/mlx5dv.h>
#pragma GCC visibility pop

#define LIST_LIMIT 512u
#define KEY_RIGHTS                                                                                 \
	((unsigned int)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                         \
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))

struct emu_indirect {
	struct mlx5dv_mkey key;
	struct ibv_pd *pd;
	unsigned int access, max, count;
	struct ibv_sge list[];
};

/* A queue pair with the extended interface: it takes lists and nothing else. */
struct loop_qp {
	struct ibv_qp_ex ex;
	struct mlx5dv_qp_ex dv;
	struct ibv_qp *qp;
	struct hm_list entry;
	uint32_t max_inline;
	int error;		   /* of the requests since wr_start */
	enum ibv_wc_status status; /* what they complete with */
	unsigned int requests;
};

static struct hm_list loops = { &loops, &loops };

static struct loop_qp *of_dv(struct mlx5dv_qp_ex *dv)
{
	return hm_container(dv, struct loop_qp, dv);
}

bool mlx5dv_is_supported(struct ibv_device *device)
{
	return hm_container(device, struct emu_device, ibv)->config.indirect;
}

struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	int error = emu_call(CALL_mlx5dv_open_device);
	struct ibv_context *context;

	if (!error && (attr->flags != MLX5DV_CONTEXT_FLAGS_DEVX || attr->comp_mask))
		error = EINVAL;
	if (!error && !hm_container(device, struct emu_device, ibv)->config.devx)
		error = EOPNOTSUPP;
	context = error ? NULL : ibv_open_device(device);
	if (context)
		emu_ctx(context)->devx = true;
	else if (error)
		errno = error;
	return context;
}

/* ---- keys ---- */
struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	struct emu_context *ctx = emu_ctx(attr->pd->context);
	int error = emu_call(CALL_mlx5dv_create_mkey);
	struct emu_indirect *key = NULL;

	if (!error && (attr->create_flags != MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT ||
		       attr->max_entries == 0 || attr->max_entries > LIST_LIMIT))
		error = EINVAL;
	if (!error && !ctx->devx && ctx->config.devx != 2)
		error = EOPNOTSUPP;
	if (!error)
		key = calloc(1, sizeof(*key) + attr->max_entries * sizeof(key->list[0]));
	emu_enter();
	if (!error && emu_gone(attr->pd->context))
		error = EIO;
	if (!error && key && ctx->used.mr < ctx->config.max_mr)
		key->key.rkey = key->key.lkey = emu_key_add(EMU_KEY_INDIRECT, key);
	if (key && key->key.rkey) {
		key->pd = attr->pd;
		key->max = attr->max_entries;
		ctx->used.mr++;
		hm_container(attr->pd, struct emu_pd, ibv)->children++;
		emu_count(attr->pd->context, mrs, 1);
	}
	emu_leave();
	if (key && key->key.rkey)
		return &key->key;
	free(key);
	errno = error ? error : ENOMEM;
	return NULL;
}

int mlx5dv_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	struct emu_indirect *key = hm_container(mkey, struct emu_indirect, key);
	int error = emu_call(CALL_mlx5dv_destroy_mkey);

	if (error)
		return error;
	emu_enter();
	emu_key_del(key->key.rkey);
	emu_ctx(key->pd->context)->used.mr--;
	hm_container(key->pd, struct emu_pd, ibv)->children--;
	emu_count(key->pd->context, mrs, -1);
	if (emu_gone(key->pd->context))
		error = emu_bury(key->pd->context, key);
	else
		free(key);
	emu_leave();
	return error;
}

bool emu_indirect_clear(void *object, const struct ibv_pd *pd)
{
	struct emu_indirect *key = object;

	if (key->pd != pd)
		return false;
	key->count = 0;
	return true;
}

int emu_indirect_segments(const void *object, const struct ibv_pd *pd, uint64_t addr,
			  uint64_t length, unsigned int access, struct emu_segment *segments)
{
	const struct emu_indirect *key = object;
	unsigned int local = access & IBV_ACCESS_REMOTE_READ ? 0 : IBV_ACCESS_LOCAL_WRITE;
	int n = 0;

	if (key->pd != pd || (key->access & access) != access)
		return -1;
	for (unsigned int i = 0; i < key->count && length > 0; i++) {
		const struct ibv_sge *entry = &key->list[i];
		uint64_t part = entry->length;
		struct ibv_sge sge;

		if (addr >= part) {
			addr -= part;
			continue;
		}
		part -= addr;
		part = length < part ? length : part;
		sge = (struct ibv_sge){ entry->addr + addr, (uint32_t)part, entry->lkey };
		if (n == (int)EMU_SEGMENTS)
			return -1;
		segments[n].addr = emu_translate_local(pd, &sge, local);
		segments[n].length = part;
		if (!segments[n++].addr)
			return -1;
		length -= part;
		addr = 0;
	}
	return length > 0 ? -1 : n;
}

/* ---- the queue pair that writes lists ---- */
static void loop_start(struct ibv_qp_ex *ex)
{
	struct loop_qp *loop = hm_container(ex, struct loop_qp, ex);

	loop->error = 0;
	loop->status = IBV_WC_SUCCESS;
	loop->requests = 0;
}

static void loop_abort(struct ibv_qp_ex *ex)
{
	loop_start(ex);
}

/* What the provider refuses to put into the queue. */
static int list_check(const struct loop_qp *loop, uint32_t access, uint16_t count,
		      const struct ibv_sge *list)
{
	uint64_t bytes = 0;

	if (loop->qp->state != IBV_QPS_RTS || count == 0 || (access & ~KEY_RIGHTS))
		return EINVAL;
	if (!(loop->ex.wr_flags & IBV_SEND_INLINE))
		return EOPNOTSUPP;
	if (count * sizeof(*list) > loop->max_inline)
		return ENOMEM;
	for (unsigned int i = 0; i < count; i++)
		bytes += list[i].length;
	return bytes > INT32_MAX ? EINVAL : 0;
}

static void loop_list(struct mlx5dv_qp_ex *dv, struct mlx5dv_mkey *mkey, uint32_t access,
		      uint16_t count, struct ibv_sge *list)
{
	struct emu_indirect *key = hm_container(mkey, struct emu_indirect, key);
	struct loop_qp *loop = of_dv(dv);

	emu_enter();
	if (!loop->error)
		loop->error = list_check(loop, access, count, list);
	if (!loop->error && count > key->max)
		loop->error = ENOMEM;
	if (!loop->error)
		loop->requests++;
	if (loop->error || loop->status) {
		emu_leave();
		return;
	}
	if (key->pd != loop->qp->pd || key->count > 0) {
		loop->status = IBV_WC_MW_BIND_ERR;
	} else {
		key->access = access;
		key->count = count;
		memcpy(key->list, list, count * sizeof(*list));
	}
	emu_leave();
}

static int loop_complete(struct ibv_qp_ex *ex)
{
	struct loop_qp *loop = hm_container(ex, struct loop_qp, ex);
	struct emu_qp *qp = hm_container(loop->qp, struct emu_qp, ibv);
	struct emu_completion completion = { .qp = qp };

	if (!loop->error)
		loop->error = emu_call(CALL_ibv_wr_complete);
	if (loop->error)
		return loop->error;
	emu_enter();
	completion.sq_tail = qp->sq.next;
	completion.wc.wr_id = ex->wr_id;
	completion.wc.qp_num = loop->qp->qp_num;
	completion.wc.status = loop->status;
	completion.wc.opcode = (enum ibv_wc_opcode)MLX5DV_WC_UMR;
	if ((ex->wr_flags & IBV_SEND_SIGNALED) || loop->status)
		while (loop->requests-- > 0)
			emu_cq_push(hm_container(loop->qp->send_cq, struct emu_cq, ibv),
				    &completion, false);
	if (loop->status)
		emu_qp_error(qp);
	emu_leave();
	return 0;
}

struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				struct mlx5dv_qp_init_attr *mlx5)
{
	struct ibv_qp_init_attr init = { .send_cq = attr->send_cq,
					 .recv_cq = attr->recv_cq,
					 .cap = attr->cap,
					 .qp_type = attr->qp_type };
	struct loop_qp *loop = calloc(1, sizeof(*loop));

	if (!loop || !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd->context != context ||
	    !(mlx5->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) ||
	    mlx5->send_ops_flags != MLX5DV_QP_EX_WITH_MR_LIST) {
		free(loop);
		errno = loop ? EINVAL : ENOMEM;
		return NULL;
	}
	loop->max_inline = init.cap.max_inline_data;
	loop->qp = ibv_create_qp(attr->pd, &init);
	if (!loop->qp) {
		free(loop);
		return NULL;
	}
	loop->ex.wr_start = loop_start;
	loop->ex.wr_complete = loop_complete;
	loop->ex.wr_abort = loop_abort;
	loop->dv.wr_mr_list = loop_list;
	emu_enter();
	hm_list_add_tail(&loops, &loop->entry);
	emu_leave();
	return loop->qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct ibv_qp_ex *found = NULL;

	emu_enter();
	for (struct hm_list *at = loops.next; at != &loops; at = at->next) {
		struct loop_qp *loop = hm_container(at, struct loop_qp, entry);

		if (loop->qp == qp)
			found = &loop->ex;
	}
	emu_leave();
	return found;
}

struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *ex)
{
	return &hm_container(ex, struct loop_qp, ex)->dv;
}

void emu_loop_forget(const struct ibv_qp *qp)
{
	for (struct hm_list *at = loops.next; at != &loops; at = at->next) {
		struct loop_qp *loop = hm_container(at, struct loop_qp, entry);

		if (loop->qp != qp)
			continue;
		hm_list_del(&loop->entry);
		free(loop);
		return;
	}
}
