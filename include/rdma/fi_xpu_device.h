/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers that a device starts itself, the device's side. fi_xpu(3)
 *
 * Header only and free of the C library; compiles as C, C++, CUDA, HIP and SYCL. The host exports an
 * endpoint, queue or counter (fi_ep_export_xpu() and its like) and copies the result to device
 * memory; from then on it belongs to the device, which calls the functions below. Each picks the
 * provider by prov_id and returns -38 (-FI_ENOSYS) when the provider is not among those known here.
 *
 * scope says which threads make a call together: all of them pass the same arguments, one work
 * request results and each gets its result. Calls return 0 or a count, -FI_EAGAIN when the queue is
 * full or empty, or another negative code. Buffers, descriptors and addresses are as the host got
 * them from fi_mr_get_xpu_desc() and fi_av_lookup2(), in memory the device can read; buffers belong
 * to the provider until the completion. Lengths are in bytes, counts in elements. Calls on one
 * object from threads that do not share a scope must be serialised by the caller.
 */
#ifndef FI_XPU_DEVICE_H
#define FI_XPU_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__clang__) && (defined(__CUDA__) || defined(__HIP__))
#define FI_XPU_FUNC static inline __attribute__((host)) __attribute__((device))
#elif defined(__CUDACC__) || defined(__HIPCC__)
#define FI_XPU_FUNC static inline __host__ __device__
#else
#define FI_XPU_FUNC static inline
#endif

/* FI_ENOSYS, which cannot be had here without the C library's errno.h. */
#define FI_XPU_ENOSYS 38

#ifdef __cplusplus
extern "C" {
#endif

/* Providers with device-side code: the value of prov_id. */
enum fi_xpu_provider {
	FI_XPU_PROV_EFA = 1
};

/* The threads that make a call together. */
enum {
	FI_XPU_WORK_ITEM,  /* one thread */
	FI_XPU_SUBGROUP,   /* a warp, wavefront or sub-group */
	FI_XPU_WORK_GROUP, /* a thread block or work-group */
	FI_XPU_DEVICE	   /* the whole grid */
};

/* First member of every exported object: fclass as on the host, the rest is the provider's. */
struct fid_xpu {
	uint32_t fclass;
	uint32_t prov_id;
	uint64_t prov_ctx;
};

/* An exported endpoint: filled by fi_ep_export_xpu(). */
struct fid_xpu_ep {
	struct fid_xpu fid;
};

/* An exported completion queue: filled by fi_cq_export_xpu(). */
struct fid_xpu_cq {
	struct fid_xpu fid;
};

/* An exported counter: filled by fi_cntr_export_xpu(). */
struct fid_xpu_cntr {
	struct fid_xpu fid;
};

#ifdef __cplusplus
}
#endif

#include <rdma/fi_xpu_device_hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A provider that is not known here leaves its arguments unused. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

/* Write to, or read from, a peer's region; data is sent with FI_REMOTE_CQ_DATA. fi_rma(3) */
FI_XPU_FUNC int fi_xpu_write(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, void *dest_addr, uint64_t addr, uint64_t key,
			     void *context, uint64_t flags, int scope)
{
	switch (ep->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_write(ep, buf, len, desc, data, dest_addr, addr, key, context,
				       flags, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int fi_xpu_read(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
			    void *src_addr, uint64_t addr, uint64_t key, void *context,
			    uint64_t flags, int scope)
{
	switch (ep->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_read(ep, buf, len, desc, src_addr, addr, key, context, flags,
				      scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

/* Send a message, or offer a buffer for one. fi_msg(3) */
FI_XPU_FUNC int fi_xpu_send(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, void *dest_addr, void *context, uint64_t flags,
			    int scope)
{
	switch (ep->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_send(ep, buf, len, desc, data, dest_addr, context, flags, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int fi_xpu_recv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
			    void *src_addr, void *context, uint64_t flags, int scope)
{
	switch (ep->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_recv(ep, buf, len, desc, src_addr, context, flags, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

/* The same, matched by tag. fi_tagged(3) */
FI_XPU_FUNC int fi_xpu_tsend(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, void *dest_addr, uint64_t tag, void *context,
			     uint64_t flags, int scope)
{
	switch (ep->fid.prov_id) {
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int fi_xpu_trecv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
			     void *src_addr, uint64_t tag, uint64_t ignore, void *context,
			     uint64_t flags, int scope)
{
	switch (ep->fid.prov_id) {
	default:
		return -FI_XPU_ENOSYS;
	}
}

/* Atomic operations; datatype and op are enum fi_datatype and enum fi_op. fi_atomic(3) */
FI_XPU_FUNC int fi_xpu_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count, void *desc,
			      void *dest_addr, uint64_t addr, uint64_t key, int datatype, int op,
			      void *context, uint64_t flags, int scope)
{
	switch (ep->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_atomic(ep, buf, count, desc, dest_addr, addr, key, datatype, op,
					context, flags, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int fi_xpu_fetch_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count,
				    void *desc, void *result, void *result_desc, void *dest_addr,
				    uint64_t addr, uint64_t key, int datatype, int op,
				    void *context, uint64_t flags, int scope)
{
	switch (ep->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_fetch_atomic(ep, buf, count, desc, result, result_desc, dest_addr,
					      addr, key, datatype, op, context, flags, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int fi_xpu_compare_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count,
				      void *desc, const void *compare, void *compare_desc,
				      void *result, void *result_desc, void *dest_addr,
				      uint64_t addr, uint64_t key, int datatype, int op,
				      void *context, uint64_t flags, int scope)
{
	switch (ep->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_compare_atomic(ep, buf, count, desc, compare, compare_desc, result,
						result_desc, dest_addr, addr, key, datatype, op,
						context, flags, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

/*
 * The counter's value and its error value. With an unknown provider nothing is ever counted as done:
 * the value reads 0, and the error value -38 as an unsigned number. fi_cntr(3)
 */
FI_XPU_FUNC uint64_t fi_xpu_cntr_read(struct fid_xpu_cntr *cntr, int scope)
{
	switch (cntr->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cntr_read(cntr, scope);
	default:
		return 0;
	}
}

FI_XPU_FUNC uint64_t fi_xpu_cntr_readerr(struct fid_xpu_cntr *cntr, int scope)
{
	switch (cntr->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cntr_readerr(cntr, scope);
	default:
		return (uint64_t)-FI_XPU_ENOSYS;
	}
}

/*
 * Waits until the value has reached threshold, an error was counted or timeout milliseconds went by
 * (negative: without end); the caller reads the counter to see which. fi_cntr(3)
 */
FI_XPU_FUNC void fi_xpu_cntr_wait(struct fid_xpu_cntr *cntr, uint64_t threshold, int timeout,
				  int scope)
{
	switch (cntr->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		hmreg_xpu_cntr_wait(cntr, threshold, timeout, scope);
		return;
	default:
		return;
	}
}

/* Add to, or set, the value or the error value. fi_cntr(3) */
FI_XPU_FUNC int fi_xpu_cntr_add(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	switch (cntr->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cntr_add(cntr, value, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int fi_xpu_cntr_set(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	switch (cntr->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cntr_set(cntr, value, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int fi_xpu_cntr_adderr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	switch (cntr->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cntr_adderr(cntr, value, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int fi_xpu_cntr_seterr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	switch (cntr->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cntr_seterr(cntr, value, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

/*
 * Take up to count entries of the queue's format, with their sources, or one error entry (struct
 * fi_cq_err_entry); the s forms wait for threshold entries. fi_cq(3)
 */
FI_XPU_FUNC int64_t fi_xpu_cq_read(struct fid_xpu_cq *cq, void *buf, size_t count, int scope)
{
	switch (cq->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cq_readfrom(cq, buf, count, 0, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int64_t fi_xpu_cq_readfrom(struct fid_xpu_cq *cq, void *buf, size_t count,
				       void *src_addr, int scope)
{
	switch (cq->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cq_readfrom(cq, buf, count, src_addr, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int64_t fi_xpu_cq_readerr(struct fid_xpu_cq *cq, void *buf, uint64_t flags, int scope)
{
	switch (cq->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cq_readerr(cq, buf, flags, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int64_t fi_xpu_cq_sread(struct fid_xpu_cq *cq, void *buf, size_t count,
				    uint64_t threshold, int scope)
{
	switch (cq->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cq_sreadfrom(cq, buf, count, 0, threshold, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

FI_XPU_FUNC int64_t fi_xpu_cq_sreadfrom(struct fid_xpu_cq *cq, void *buf, size_t count,
					void *src_addr, uint64_t threshold, int scope)
{
	switch (cq->fid.prov_id) {
	case FI_XPU_PROV_HMREG:
		return hmreg_xpu_cq_sreadfrom(cq, buf, count, src_addr, threshold, scope);
	default:
		return -FI_XPU_ENOSYS;
	}
}

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* FI_XPU_DEVICE_H */

/* Silence would make every thread a scope of its own. (fi_xpu_device_hmreg_arch.h) */
#if defined(HMREG_XPU_ALONE) && defined(HMREG_XPU_RANK)
#error "HMREG_XPU_RANK, _SYNC and _SHARE are defined too late: rdma/fi_xpu_device.h was included before"
#endif
