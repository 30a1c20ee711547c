/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that the library has no endpoints for (rxe on the loopback interface, where rdma_cm finds no
 * route), and a program that has queue pairs of its own: the library registers host memory and dma-bufs in
 * the program's protection domains, and the queue pairs use those keys.
 */
#include <unistd.h>

#include "raw.h"
#include "region.h"

#define LENGTH ((size_t)64 * 1024)

/* Two raw ends, and a domain over the protection domain of each. */
struct scene {
	struct raw_pair pair;
	struct conf_end *end; /* lends fabric and info */
	struct fid_domain *domain[2];
	uint8_t *buf; /* of LENGTH bytes, a's */
	struct fid_mr *local;
	struct memory memory; /* b's */
};

static struct hmreg_verbs_part part_of(struct fid_mr *mr)
{
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	struct hmreg_mr_ops *ops;

	assert_ok(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->verbs_part(&mr->fid, 0, &part));
	return part;
}

static void open_scene(struct conf *c, struct scene *s)
{
	struct hmreg_verbs_adopt adopt = { .size = sizeof(adopt) };
	struct hmreg_fabric_ops *ops;

	if (!c->profile->no_endpoints)
		conf_skip(c, "the port has endpoints: use --devices lo");
	raw_open(&s->pair, c->profile->name, c->profile->name);
	s->end = conf_open(c, &(struct conf_opts){ .caps = FI_HMEM, .no_ep = true });
	assert_ok(fi_open_ops(&s->end->fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL));
	for (int i = 0; i < 2; i++) {
		adopt.pd = i ? s->pair.b.pd : s->pair.a.pd;
		assert_ok(ops->domain_over(s->end->fabric, s->end->info, &adopt, &s->domain[i],
					   NULL));
	}
	s->buf = conf_alloc(c, LENGTH);
	assert_ok(fi_mr_reg(s->domain[0], s->buf, LENGTH, CONF_LOCAL, 0, 1, 0, &s->local, NULL));
}

static void close_scene(struct scene *s)
{
	assert_ok(fi_close(&s->local->fid));
	for (int i = 0; i < 2; i++)
		assert_ok(fi_close(&s->domain[i]->fid));
	raw_close(&s->pair);
}

/* One work request of a's, from or to its buffer, at off of b's region. */
static enum ibv_wc_status request(struct scene *s, enum ibv_wr_opcode opcode, struct fid_mr *target,
				  size_t off, size_t len)
{
	struct hmreg_verbs_part local = part_of(s->local), remote = part_of(target);
	struct ibv_mr key = { .lkey = local.lkey };

	return raw_rdma(&s->pair, opcode, &key, (void *)(uintptr_t)local.iova, len,
			remote.iova + off, remote.rkey);
}

static void reg_01_host_memory(struct conf *c)
{
	struct scene s;
	uint8_t *target;
	struct fid_mr *mr;

	open_scene(c, &s);
	target = conf_alloc(c, LENGTH);
	assert_ok(fi_mr_reg(s.domain[1], target + 100, LENGTH - 200, CONF_REMOTE, 0, 1, 0, &mr,
			    NULL));
	memory_pattern(s.buf, LENGTH, 1);
	assert_int_equal(request(&s, IBV_WR_RDMA_WRITE, mr, 8, 5000), IBV_WC_SUCCESS);
	assert_memory_equal(target + 108, s.buf, 5000);
	assert_int_equal(target[107], 0);
	assert_int_equal(target[5108], 0);
	memory_pattern(target, LENGTH, 2);
	assert_int_equal(request(&s, IBV_WR_RDMA_READ, mr, 0, LENGTH - 200), IBV_WC_SUCCESS);
	assert_memory_equal(target + 100, s.buf, LENGTH - 200);
	assert_ok(fi_close(&mr->fid));
	close_scene(&s);
}

/* Whole, and [off, off + len); seen through the memory's own mapping, and not a byte beside it. */
static void dmabuf(struct conf *c, enum memory_kind kind, size_t off, size_t len)
{
	static uint8_t before[LENGTH], after[LENGTH];
	struct fi_mr_dmabuf dmabuf;
	struct fi_mr_attr attr;
	struct fid_mr *mr;
	struct scene s;

	open_scene(c, &s);
	memory_make(&s.memory, kind, LENGTH);
	memory_pattern(before, LENGTH, 3);
	memory_set(&s.memory, 0, before, LENGTH);
	vm_dmabuf_attr(&attr, &dmabuf, &s.memory, off, len, NULL);
	assert_ok(fi_mr_regattr(s.domain[1], &attr, FI_MR_DMABUF, &mr));
	memory_close_fd(&s.memory);
	memory_show(&s.memory, off, "before the write");
	memory_pattern(s.buf, len, 4);
	assert_int_equal(request(&s, IBV_WR_RDMA_WRITE, mr, 0, len), IBV_WC_SUCCESS);
	memory_show(&s.memory, off, "after the write");
	memory_get(&s.memory, 0, after, LENGTH);
	memcpy(before + off, s.buf, len);
	assert_memory_equal(after, before, LENGTH);
	memset(s.buf, 0, LENGTH);
	assert_int_equal(request(&s, IBV_WR_RDMA_READ, mr, 0, len), IBV_WC_SUCCESS);
	assert_memory_equal(s.buf, before + off, len);
	assert_ok(fi_close(&mr->fid));
	close_scene(&s);
	memory_free(&s.memory);
}

static void attr_08_udmabuf(struct conf *c)
{
	dmabuf(c, MEMORY_UDMABUF, 0, LENGTH);
}

static void reg_06_part_of_a_udmabuf(struct conf *c)
{
	dmabuf(c, MEMORY_UDMABUF, 4196, 20000);
}

static void attr_08_dma_heap(struct conf *c)
{
	dmabuf(c, MEMORY_HEAP, 0, LENGTH);
}

/* The region's bounds, rights and life are the hardware's to enforce. */
static void attr_01_what_the_key_does_not_open(struct conf *c)
{
	static const struct {
		uint64_t access;
		enum ibv_wr_opcode opcode;
		size_t off;
		bool closed;
	} cases[] = {
		{ FI_REMOTE_READ, IBV_WR_RDMA_WRITE, 0, false },
		{ FI_REMOTE_WRITE, IBV_WR_RDMA_READ, 0, false },
		{ CONF_REMOTE, IBV_WR_RDMA_WRITE, LENGTH - 63, false },
		{ CONF_REMOTE, IBV_WR_RDMA_WRITE, 0, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hmreg_verbs_part remote, local;
		struct ibv_mr key;
		struct fid_mr *mr;
		uint8_t *target;
		struct scene s;

		open_scene(c, &s);
		target = conf_alloc(c, LENGTH);
		assert_ok(fi_mr_reg(s.domain[1], target, LENGTH, cases[i].access, 0, 1, 0, &mr,
				    NULL));
		remote = part_of(mr);
		local = part_of(s.local);
		key = (struct ibv_mr){ .lkey = local.lkey };
		if (cases[i].closed)
			assert_ok(fi_close(&mr->fid));
		memset(s.buf, 0xee, LENGTH);
		assert_int_equal(raw_rdma(&s.pair, cases[i].opcode, &key,
					  (void *)(uintptr_t)local.iova, 64,
					  remote.iova + cases[i].off, remote.rkey),
				 IBV_WC_REM_ACCESS_ERR);
		for (size_t at = 0; at < LENGTH; at++)
			assert_int_equal(target[at], 0);
		if (!cases[i].closed)
			assert_ok(fi_close(&mr->fid));
		close_scene(&s);
		conf_drop_end(s.end);
	}
}

int main(int argc, char **argv)
{
	static const struct conf_case cases[] = {
		CONF(reg_01_host_memory),
		CONF(attr_08_udmabuf),
		CONF(reg_06_part_of_a_udmabuf),
		CONF(attr_08_dma_heap),
		CONF(attr_01_what_the_key_does_not_open),
	};

	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
