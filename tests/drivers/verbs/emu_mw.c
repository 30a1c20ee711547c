/* SPDX-License-Identifier: BSD-2-Clause */
/* What a key gives access to; memory windows; prefetching. */
#include "tests/drivers/verbs/emu.h"

/* LENGTH bytes at ADDR within SIZE bytes at START? */
static bool within(uint64_t start, uint64_t size, uint64_t addr, uint64_t length)
{
	return addr >= start && addr - start <= size && length <= size - (addr - start);
}

static uint8_t *in_region(const struct emu_mr *mr, const struct ibv_pd *pd, uint64_t addr,
			  uint64_t length, unsigned int access)
{
	if (mr->ibv.pd != pd || (mr->access & access) != access ||
	    !within(mr->iova, mr->ibv.length, addr, length))
		return NULL;
	/* As numbers: the region of the whole address space begins at NULL. */
	return (uint8_t *)((uintptr_t)mr->host + (addr - mr->iova));
}

uint8_t *emu_translate_local(const struct ibv_pd *pd, const struct ibv_sge *sge,
			     unsigned int access)
{
	enum emu_key_kind kind;
	const struct emu_mr *mr = emu_key_find(sge->lkey, &kind);

	if (!mr || kind != EMU_KEY_MR)
		return NULL;
	return in_region(mr, pd, sge->addr, sge->length, access);
}

static uint8_t *in_window(const struct emu_mw *mw, const struct ibv_pd *pd, uint32_t qp_num,
			  uint64_t addr, uint64_t length, unsigned int access)
{
	uint64_t start = mw->access & IBV_ACCESS_ZERO_BASED ? 0 : mw->addr;

	if (!mw->mr || mw->ibv.pd != pd ||
	    (mw->ibv.type == IBV_MW_TYPE_2 && mw->qp_num != qp_num) ||
	    (mw->access & access) != access)
		return NULL;
	if (!emu_ctx(pd->context)->config.mw_bounds)
		return in_region(mw->mr, pd, addr - start + mw->addr, length, 0);
	if (!within(start, mw->length, addr, length))
		return NULL;
	return mw->mr->host + (mw->addr - mw->mr->iova) + (addr - start);
}

int emu_translate_remote(const struct ibv_pd *pd, uint32_t qp_num, uint32_t rkey, uint64_t addr,
			 uint64_t length, unsigned int access, struct emu_segment *segments)
{
	enum emu_key_kind kind;
	void *object = emu_key_find(rkey, &kind);

	if (!object)
		return -1;
	if (kind == EMU_KEY_INDIRECT)
		return emu_indirect_segments(object, pd, addr, length, access, segments);
	segments->length = length;
	segments->addr = kind == EMU_KEY_MW ? in_window(object, pd, qp_num, addr, length, access)
					    : in_region(object, pd, addr, length, access);
	return segments->addr ? 1 : -1;
}

/* ---- windows ---- */
struct ibv_mw *emu_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct emu_context *ctx = emu_ctx(pd->context);
	int error = emu_call(CALL_ibv_alloc_mw);
	struct emu_mw *mw = error ? NULL : calloc(1, sizeof(*mw));
	uint32_t rkey = 0;

	emu_enter();
	if (!error && emu_gone(pd->context))
		error = EIO;
	if (!error && type == IBV_MW_TYPE_1 && ctx->config.mw > 1)
		error = EINVAL;
	if (!error && mw && ctx->used.mw < ctx->config.max_mw)
		rkey = emu_key_add(EMU_KEY_MW, mw);
	if (rkey) {
		mw->ibv.context = pd->context;
		mw->ibv.pd = pd;
		mw->ibv.rkey = rkey;
		mw->ibv.type = type;
		ctx->used.mw++;
		hm_container(pd, struct emu_pd, ibv)->children++;
		emu_count(pd->context, mws, 1);
	}
	emu_leave();
	if (rkey)
		return &mw->ibv;
	free(mw);
	errno = error ? error : ENOMEM;
	return NULL;
}

static void unbind(struct emu_mw *mw)
{
	if (!mw->mr)
		return;
	mw->mr->windows--;
	emu_count(mw->ibv.context, bound, -1);
	mw->mr = NULL;
}

int emu_dealloc_mw(struct ibv_mw *ibv)
{
	struct emu_mw *mw = hm_container(ibv, struct emu_mw, ibv);
	int error = emu_call(CALL_ibv_dealloc_mw);

	if (error)
		return error;
	emu_enter();
	unbind(mw);
	emu_key_del(ibv->rkey);
	emu_ctx(ibv->context)->used.mw--;
	hm_container(ibv->pd, struct emu_pd, ibv)->children--;
	emu_count(ibv->context, mws, -1);
	if (emu_gone(ibv->context))
		error = emu_bury(ibv->context, mw);
	else
		free(mw);
	emu_leave();
	return error;
}

/* What of a region may a window be bound to? */
static bool may_bind(const struct emu_mw *mw, const struct emu_mr *mr,
		     const struct ibv_mw_bind_info *info)
{
	unsigned int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (info->mw_access_flags & ~(writes | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED))
		return false;
	/* only windows of type 2 are addressed from 0 */
	if (mw->ibv.type == IBV_MW_TYPE_1 && (info->mw_access_flags & IBV_ACCESS_ZERO_BASED))
		return false;
	if (!in_region(mr, mw->ibv.pd, info->addr, info->length, IBV_ACCESS_MW_BIND) ||
	    (mr->access & IBV_ACCESS_ZERO_BASED))
		return false;
	return !(info->mw_access_flags & writes) || (mr->access & IBV_ACCESS_LOCAL_WRITE);
}

enum ibv_wc_status emu_mw_bind(const struct ibv_pd *pd, uint32_t qp_num, struct ibv_mw *ibv,
			       uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct emu_mw *mw = hm_container(ibv, struct emu_mw, ibv);
	struct emu_mr *mr = info->mr && info->length ? hm_container(info->mr, struct emu_mr, ibv)
						     : NULL;

	if (ibv->pd != pd || (rkey >> 8) != (ibv->rkey >> 8))
		return IBV_WC_MW_BIND_ERR;
	/* one of type 2 has to be invalidated before */
	if (ibv->type == IBV_MW_TYPE_2 && (mw->mr || !info->length))
		return IBV_WC_MW_BIND_ERR;
	if (mr && !may_bind(mw, mr, info))
		return IBV_WC_MW_BIND_ERR;
	unbind(mw);
	emu_key_set_low(ibv->rkey, rkey);
	ibv->rkey = rkey;
	if (!mr)
		return IBV_WC_SUCCESS;
	mw->mr = mr;
	mr->windows++;
	emu_count(ibv->context, bound, 1);
	mw->addr = info->addr;
	mw->length = info->length;
	mw->access = info->mw_access_flags;
	mw->qp_num = qp_num;
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status emu_mw_invalidate(const struct ibv_pd *pd, uint32_t rkey)
{
	enum emu_key_kind kind;
	struct emu_mw *mw = emu_key_find(rkey, &kind);

	if (mw && kind == EMU_KEY_INDIRECT)
		return emu_indirect_clear(mw, pd) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
	if (!mw || kind != EMU_KEY_MW || mw->ibv.type != IBV_MW_TYPE_2 || mw->ibv.pd != pd)
		return IBV_WC_LOC_PROT_ERR;
	unbind(mw);
	return IBV_WC_SUCCESS;
}

/* ---- prefetching ---- */
int emu_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sg_list, uint32_t num_sges)
{
	unsigned int access = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? IBV_ACCESS_LOCAL_WRITE
									    : 0;
	int error = emu_call(CALL_ibv_advise_mr);

	if (error)
		return error;
	if ((uint32_t)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
	    (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH))
		return EOPNOTSUPP;
	emu_enter();
	if (emu_gone(pd->context))
		error = EIO;
	else if (!emu_ctx(pd->context)->config.odp)
		error = EOPNOTSUPP;
	for (uint32_t i = 0; !error && i < num_sges; i++) {
		uint8_t *host = emu_translate_local(pd, &sg_list[i], access | IBV_ACCESS_ON_DEMAND);

		if (!host)
			error = EINVAL;
		else if (flags && sg_list[i].length &&
			 !emu_memory_mapped(host, sg_list[i].length, access))
			error = EFAULT;
		else
			emu.counts.advised += sg_list[i].length;
	}
	emu_leave();
	return error;
}
