/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two endpoints of an XPU context over the software NIC, with what they export, and the device's side of it
 * written out by hand: what is in a slot is the test's.  Include after <cmocka.h>.
 */
#ifndef HM_TEST_XPU_SCENE_H
#define HM_TEST_XPU_SCENE_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_cm.h>

#include "tests/fds.h"
#include "tests/threads.h"
#include "tests/unit/warnings.h"
#include "xpu/xpu.h"

#define XPU_LEN	  4096u
#define XPU_SIDES 2

struct xpu_side {
	struct fid_cq *cq; /* for both directions */
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct hmreg_xpu_ep *xep;
	struct hmreg_xpu_cq *xcq;
	struct hmreg_xpu_cntr *xcntr;
	uint64_t posted, read; /* the device's numbers */
	struct hmreg_xpu_desc desc;
	fi_addr_t peer; /* the other one */
	char memory[XPU_LEN];
};

struct xpu_scene {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_xpu_ctx *ctx;
	struct xpu_side side[XPU_SIDES];
	size_t fds;
};

static inline void xpu_side_open(struct xpu_scene *s, struct xpu_side *side, size_t cq_size)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA,
				 .wait_obj = FI_WAIT_NONE,
				 .size = cq_size,
				 .flags = FI_XPU,
				 .xpu_ctx = s->ctx };
	struct fi_cntr_attr cntr = { .wait_obj = FI_WAIT_NONE, .flags = FI_XPU, .xpu_ctx = s->ctx };
	struct fid_xpu_ep ep;
	struct fid_xpu_cq xcq;
	struct fid_xpu_cntr xcntr;
	static uint64_t key = 1;

	assert_int_equal(fi_cq_open(s->domain, &cq, &side->cq, NULL), 0);
	assert_int_equal(fi_cntr_open(s->domain, &cntr, &side->cntr, NULL), 0);
	s->info->ep_attr->xpu_ctx = s->ctx;
	assert_int_equal(fi_endpoint2(s->domain, s->info, &side->ep, FI_XPU, NULL), 0);
	assert_int_equal(fi_ep_bind(side->ep, &s->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(
		fi_ep_bind(side->ep, &side->cntr->fid, FI_SEND | FI_RECV | FI_WRITE | FI_READ), 0);
	assert_int_equal(fi_enable(side->ep), 0);
	assert_int_equal(fi_mr_reg(s->domain, side->memory, XPU_LEN,
				   FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
					   FI_REMOTE_WRITE,
				   0, key++, 0, &side->mr, NULL),
			 0);
	assert_int_equal(fi_ep_export_xpu(side->ep, 0, &ep), 0);
	assert_int_equal(fi_cq_export_xpu(side->cq, 0, &xcq), 0);
	assert_int_equal(fi_cntr_export_xpu(side->cntr, 0, &xcntr), 0);
	side->xep = (void *)(uintptr_t)ep.fid.prov_ctx;
	side->xcq = (void *)(uintptr_t)xcq.fid.prov_ctx;
	side->xcntr = (void *)(uintptr_t)xcntr.fid.prov_ctx;
}

/* cq_size: of both queues; 0: as the library has it. */
static inline void xpu_scene_open(struct xpu_scene *s, const char *profile, size_t cq_size)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM };

	memset(s, 0, sizeof(*s));
	s->fds = test_fds();
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_XPU;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->name = strdup(profile);
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_XPU_DESC;
	assert_int_equal(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &s->info), 0);
	fi_freeinfo(hints);
	assert_int_equal(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), 0);
	assert_int_equal(fi_domain(s->fabric, s->info, &s->domain, NULL), 0);
	assert_int_equal(fi_av_open(s->domain, &av, &s->av, NULL), 0);
	assert_int_equal(fi_xpu_ctx(s->domain, &attr, &s->ctx, NULL), 0);
	for (int i = 0; i < XPU_SIDES; i++)
		xpu_side_open(s, &s->side[i], cq_size);
	for (int i = 0; i < XPU_SIDES; i++) {
		size_t len = sizeof(struct hmreg_xpu_desc);
		char name[64];

		assert_int_equal(fi_mr_get_xpu_desc(s->side[i].mr, &s->side[i].desc, &len, FI_XPU,
						    s->ctx),
				 0);
		len = sizeof(name);
		assert_int_equal(fi_getname(&s->side[1 - i].ep->fid, name, &len), 0);
		assert_int_equal(fi_av_insert(s->av, name, 1, &s->side[i].peer, 0, NULL), 1);
	}
}

static inline void xpu_scene_close(struct xpu_scene *s)
{
	for (int i = 0; i < XPU_SIDES; i++)
		assert_int_equal(fi_close(&s->side[i].ep->fid), 0);
	for (int i = 0; i < XPU_SIDES; i++) {
		if (s->side[i].mr)
			assert_int_equal(fi_close(&s->side[i].mr->fid), 0);
		assert_int_equal(fi_close(&s->side[i].cq->fid), 0);
		assert_int_equal(fi_close(&s->side[i].cntr->fid), 0);
	}
	assert_int_equal(fi_close(&s->ctx->fid), 0);
	assert_int_equal(fi_close(&s->av->fid), 0);
	assert_int_equal(fi_close(&s->domain->fid), 0);
	assert_int_equal(fi_close(&s->fabric->fid), 0);
	fi_freeinfo(s->info);
	assert_int_equal(test_fds(), s->fds);
}

/* ---- the device ---- */

static inline struct hmreg_xpu_wr *xpu_slot(const struct xpu_side *side, uint64_t number)
{
	return (struct hmreg_xpu_wr *)(uintptr_t)side->xep->ring + (number & side->xep->mask);
}

/* False: the ring is full. */
static inline bool xpu_post(struct xpu_side *side, const struct hmreg_xpu_wr *wr)
{
	struct hmreg_xpu_wr *slot = xpu_slot(side, side->posted);

	if (xpu_load(&slot->seq) != side->posted)
		return false;
	memcpy((char *)slot + sizeof(slot->seq), (const char *)wr + sizeof(wr->seq),
	       sizeof(*wr) - sizeof(wr->seq));
	xpu_store(&slot->seq, ++side->posted);
	return true;
}

/* Has the engine taken the request with this number? */
static inline bool xpu_taken(const struct xpu_side *side, uint64_t number)
{
	return xpu_load(&xpu_slot(side, number)->seq) > number + 1;
}

static inline bool xpu_read(struct xpu_side *side, struct hmreg_xpu_cqe *out)
{
	struct hmreg_xpu_cqe *slot =
		(struct hmreg_xpu_cqe *)(uintptr_t)side->xcq->ring + (side->read & side->xcq->mask);

	if (xpu_load(&slot->seq) != side->read + 1)
		return false;
	*out = *slot;
	xpu_store(&slot->seq, side->read + side->xcq->mask + 1);
	side->read++;
	return true;
}

static inline void xpu_await(struct xpu_side *side, struct hmreg_xpu_cqe *out)
{
	while (!xpu_read(side, out))
		sched_yield();
}

/* A number of the engine's is to become this. */
static inline void xpu_await_value(const uint64_t *word, uint64_t value)
{
	while (xpu_load(word) != value)
		sched_yield();
}

/* From side's memory at offset to the other's at the same place. */
static inline struct hmreg_xpu_wr xpu_write_wr(struct xpu_scene *s, int side, size_t offset,
					       size_t len, uint64_t context)
{
	struct xpu_side *from = &s->side[side], *to = &s->side[1 - side];

	return (struct hmreg_xpu_wr){ .op = HMREG_XPU_WRITE,
				      .buf = (uintptr_t)from->memory + offset,
				      .len = len,
				      .desc = from->desc.region,
				      .peer = from->peer,
				      .addr = s->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
						      ? (uintptr_t)to->memory + offset
						      : offset,
				      .key = fi_mr_key(to->mr),
				      .context = context };
}

static inline struct hmreg_xpu_wr xpu_message_wr(struct xpu_scene *s, int side, uint8_t op,
						 size_t offset, size_t len, uint64_t context)
{
	struct xpu_side *from = &s->side[side];

	return (struct hmreg_xpu_wr){ .op = op,
				      .buf = (uintptr_t)from->memory + offset,
				      .len = len,
				      .desc = from->desc.region,
				      .peer = op == HMREG_XPU_RECV ? UINT64_MAX : from->peer,
				      .context = context };
}

#endif
