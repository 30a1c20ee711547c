/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XPU contexts: memory, locks, descriptors, mappings and threads fail one by one while a context and its objects
 * are opened and exported, and so does every operation of the program's (XPU-02, API-20).
 */
#include <rdma/fi_xpu.h>

#include <stdatomic.h>
#include <unistd.h>

#include "tests/fault/fault.h"
#include "tests/fault/wrap_map.h"

/* ---- operations that fail, and memory that they have given ---- */

enum how {
	BY_NOTHING, /* the library's own way */
	BY_IMPORT,
	BY_ALLOC
};

static _Atomic long given; /* imports and allocations less frees */
static int answer;	   /* of an operation that fails */

static int op_import(uint64_t device, void *host_addr, uint64_t size, uint64_t flags, void **ptr)
{
	(void)device;
	(void)size;
	(void)flags;
	if (fault_fails(FAULT_OP))
		return answer;
	given++;
	*ptr = host_addr;
	return 0;
}

/* A file of the program's stands for the dma-buf, which the library closes; what comes with it is what fails. */
static int op_alloc(uint64_t device, uint64_t size, uint64_t align, uint64_t flags, void **ptr,
		    int *dmabuf_fd, uint64_t *dmabuf_offset)
{
	int fd;

	(void)device;
	(void)align;
	if (fault_fails(FAULT_OP))
		return answer;
	*ptr = (void *)(uintptr_t)0x10000; /* nobody looks there */
	given++;
	if (!(flags & FI_XPU_ALLOC_DMABUF) || fault_fails(FAULT_FD))
		return 0;
	fd = memfd_create("xpu", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size + 4096), 0);
	*dmabuf_fd = fd;
	*dmabuf_offset = 4096;
	return 0;
}

static void op_free(uint64_t device, void *ptr)
{
	(void)device;
	assert_non_null(ptr);
	given--;
}

static struct fi_xpu_ops importing = { sizeof(importing), NULL, op_import, op_free };
static struct fi_xpu_ops allocating = { sizeof(allocating), op_alloc, NULL, op_free };

/* ---- what is opened ---- */

static struct {
	struct fid_xpu_ctx *ctx;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_ep *ep;
} made;

static void close_made(void)
{
	struct fid *fids[] = { made.ep ? &made.ep->fid : NULL, made.cq ? &made.cq->fid : NULL,
			       made.cntr ? &made.cntr->fid : NULL,
			       made.ctx ? &made.ctx->fid : NULL };

	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++)
		if (fids[i])
			assert_int_equal(fi_close(fids[i]), 0);
	memset(&made, 0, sizeof(made));
	assert_int_equal(given, 0);
}

static void undo(struct scene *s)
{
	(void)s;
	close_made();
}

static int open_ctx(struct scene *s, enum how how)
{
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM,
				    .ops = how == BY_IMPORT  ? &importing
					   : how == BY_ALLOC ? &allocating
							     : NULL };

	return fi_xpu_ctx(s->domain, &attr, &made.ctx, NULL);
}

static int open_cq(struct scene *s, enum fi_wait_obj wait_obj)
{
	struct fi_cq_attr attr = {
		.wait_obj = wait_obj, .size = 16, .flags = FI_XPU, .xpu_ctx = made.ctx
	};

	return fi_cq_open(s->domain, &attr, &made.cq, NULL);
}

static int open_cntr(struct scene *s, enum fi_wait_obj wait_obj)
{
	struct fi_cntr_attr attr = { .wait_obj = wait_obj, .flags = FI_XPU, .xpu_ctx = made.ctx };

	return fi_cntr_open(s->domain, &attr, &made.cntr, NULL);
}

static int open_ep(struct scene *s)
{
	int ret;

	s->info->ep_attr->xpu_ctx = made.ctx;
	ret = fi_endpoint2(s->domain, s->info, &made.ep, FI_XPU, NULL);
	s->info->ep_attr->xpu_ctx = NULL;
	return ret;
}

/* Everything but the exports. */
static int open_all(struct scene *s, enum how how, enum fi_wait_obj wait_obj)
{
	int ret = open_ctx(s, how);

	if (!ret)
		ret = open_cq(s, wait_obj);
	if (!ret)
		ret = open_cntr(s, wait_obj);
	if (!ret)
		ret = open_ep(s);
	if (!ret)
		ret = fi_ep_bind(made.ep, &made.cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(made.ep, &made.cntr->fid, FI_WRITE);
	if (!ret)
		ret = fi_ep_bind(made.ep, &s->av->fid, 0);
	return ret ? ret : fi_enable(made.ep);
}

/* An export that fails leaves what it was to fill. */
static int export_all(void)
{
	struct fid_xpu_cntr cntr = { .fid.prov_ctx = 7 };
	struct fid_xpu_cq cq = { .fid.prov_ctx = 7 };
	struct fid_xpu_ep ep = { .fid.prov_ctx = 7 };
	int ret = fi_cq_export_xpu(made.cq, 0, &cq), all = ret;

	assert_int_equal(cq.fid.prov_ctx == 7, ret != 0);
	if (all)
		return all;
	ret = fi_cntr_export_xpu(made.cntr, 0, &cntr);
	assert_int_equal(cntr.fid.prov_ctx == 7, ret != 0);
	if (ret)
		return ret;
	ret = fi_ep_export_xpu(made.ep, 0, &ep);
	assert_int_equal(ep.fid.prov_ctx == 7, ret != 0);
	return ret;
}

/* What failed is the first thing that could: what came before it is closed. */
static int closed_if(int ret)
{
	if (ret)
		close_made();
	return ret;
}

static int run_queues(struct scene *s)
{
	int ret = open_ctx(s, BY_NOTHING);

	if (!ret)
		ret = open_cq(s, FI_WAIT_UNSPEC);
	return closed_if(ret ? ret : open_cntr(s, FI_WAIT_UNSPEC));
}

static int run_open(struct scene *s)
{
	return closed_if(open_all(s, BY_NOTHING, FI_WAIT_UNSPEC));
}

static int run_open_fd(struct scene *s)
{
	return closed_if(open_all(s, BY_NOTHING, FI_WAIT_FD));
}

/* Exports alone may fail; those that did are made afterwards, so that a failure leaves the object as it was. */
static int run_export(struct scene *s, enum how how)
{
	int ret = open_all(s, how, FI_WAIT_UNSPEC);

	return closed_if(ret ? ret : export_all());
}

static int run_export_own(struct scene *s)
{
	return run_export(s, BY_NOTHING);
}

static int run_export_import(struct scene *s)
{
	return run_export(s, BY_IMPORT);
}

static int run_export_alloc(struct scene *s)
{
	return run_export(s, BY_ALLOC);
}

#define SCENARIO(title, what, error, how)                                                          \
	{                                                                                          \
		.name = title, .kinds = what, .code = error, .lines = 1, .keeps = true,            \
		.run = how, .undo = undo                                                           \
	}

static struct scenario scenarios[] = {
	SCENARIO("xpu_01_no_memory_context", FAULT_MEMORY | FAULT_LOCK, -FI_ENOMEM, run_queues),
	SCENARIO("xpu_06_no_memory_objects", FAULT_MEMORY, -FI_ENOMEM, run_open),
	SCENARIO("xpu_07_no_memory_export", FAULT_MEMORY | FAULT_MAP, -FI_ENOMEM, run_export_own),
	SCENARIO("xpu_07_no_thread", FAULT_THREAD, -FI_EAGAIN, run_export_own),
	SCENARIO("xpu_02_no_memory_import", FAULT_MEMORY | FAULT_MAP, -FI_ENOMEM,
		 run_export_import),
	SCENARIO("xpu_02_no_memory_alloc", FAULT_MEMORY | FAULT_MAP, -FI_ENOMEM, run_export_alloc),
	SCENARIO("xpu_02_no_thread_import", FAULT_THREAD, -FI_EAGAIN, run_export_import),
	SCENARIO("xpu_02_import_fails", FAULT_OP, -FI_EPERM, run_export_import),
	SCENARIO("xpu_02_alloc_fails", FAULT_OP, -FI_EPERM, run_export_alloc),
	SCENARIO("xpu_02_alloc_without_dmabuf", FAULT_FD, -FI_EIO, run_export_alloc),
	{ .name = "xpu_06_no_descriptor_objects",
	  .kinds = FAULT_FD,
	  .code = -FI_EMFILE,
	  .fd_errno = EMFILE,
	  .lines = 1,
	  .keeps = true,
	  .run = run_open_fd,
	  .undo = undo },
};

int main(void)
{
	answer = -FI_EPERM;
	fault_caps |= FI_XPU;
	return fault_all("fault_xpu", scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
