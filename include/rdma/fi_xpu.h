/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts of devices that start transfers themselves, the host's side. fi_xpu(3)
 *
 * The host opens, queries and exports; the exported objects are used on the device through
 * fi_xpu_device.h. All calls are thread safe; sizes are in bytes.
 */
#ifndef FI_XPU_H
#define FI_XPU_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_xpu_device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of struct fi_xpu_ops. */
#define FI_XPU_ALLOC_DMABUF	(1ULL << 0) /* alloc: also a dma-buf of the memory */
#define FI_XPU_IMPORT_IOMEMORY	(1ULL << 0) /* import: the address is device registers */
#define FI_XPU_IMPORT_DEVICEMAP (1ULL << 1) /* import: kernels must reach it */

/* What a context can export: struct fi_xpu_ctx_attr's caps. */
#define FI_XPU_CAP_EP	(1ULL << 0)
#define FI_XPU_CAP_CQ	(1ULL << 1)
#define FI_XPU_CAP_CNTR (1ULL << 2)

/*
 * How the library gets at a device's memory, where the application wants to do that itself. alloc
 * gives device memory, import maps host memory into the device, free undoes either. A dma-buf fd
 * becomes the library's. Slots beyond size do not exist; calls may come from any thread.
 */
struct fi_xpu_ops {
	size_t size;
	int (*alloc)(uint64_t device, uint64_t size, uint64_t align, uint64_t flags, void **ptr,
		     int *dmabuf_fd, uint64_t *dmabuf_offset);
	int (*import)(uint64_t device, void *host_addr, uint64_t size, uint64_t flags, void **ptr);
	void (*free)(uint64_t device, void *ptr);
};

/* Which device a context is for; ops NULL lets the library use its own driver layer. fi_xpu(3) */
struct fi_xpu_attr {
	enum fi_hmem_iface iface;
	uint64_t device;
	struct fi_xpu_ops *ops;
};

/* What fi_xpu_ctx_query() tells: caps, and the sizes of addresses and descriptors. fi_xpu(3) */
struct fi_xpu_ctx_attr {
	uint64_t caps;
	size_t av_addr_size;
	size_t mr_desc_size;
};

/* Operations of a context. */
struct fi_ops_xpu_ctx {
	size_t size;
	int (*query)(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr);
};

/* A device's connection to a domain; endpoints, queues and counters are opened for it. fi_xpu(3) */
struct fid_xpu_ctx {
	struct fid fid;
	struct fi_ops_xpu_ctx *ops;
};

/*
 * Opens a context; attr stays the caller's, but not its ops table. Closed with fi_close(), -FI_EBUSY
 * while objects use it. -FI_ENOSYS: the domain has none (max_xpu_ctx_cnt 0). fi_xpu(3)
 */
static inline int fi_xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr,
			     struct fid_xpu_ctx **ctx, void *context)
{
	if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, xpu_ctx))
		return -FI_ENOSYS;
	return domain->ops->xpu_ctx(domain, attr, ctx, context);
}

/* What the context can do. -FI_ENOSYS: not told. fi_xpu(3) */
static inline int fi_xpu_ctx_query(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr)
{
	if (!FI_CHECK_OP(ctx->ops, struct fi_ops_xpu_ctx, query))
		return -FI_ENOSYS;
	return ctx->ops->query(ctx, attr);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_XPU_H */
