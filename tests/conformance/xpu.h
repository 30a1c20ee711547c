/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For programs in which a device starts the transfers: a device that is made of processors
 * (samples/xpu/cpu_device.h), in a process of its own, with a context, endpoints and memory; and a peer
 * on the host.  Kernels are in xpu_kernel.h; most cases have one make a single call after another.
 */
#ifndef CONF_XPU_H
#define CONF_XPU_H

#include "samples/xpu/cpu_device.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/xpu_kernel.h"

#define XPU_CAPS    (CONF_CAPS | FI_XPU)
#define XPU_WAIT_MS (CONF_TIMEOUT_S * 1000)
#define XPU_MEMORY  ((size_t)1 << 20)

/* An endpoint of the device, exported, with what belongs to it. */
struct xpu_end {
	struct conf_end *end;
	struct fid_cntr *sent, *arrived; /* of what began here, and of what peers did */
	struct xk_end exported;
};

/*
 * a is the device's, b a peer's on the host.  src is memory of the device and dst the peer's, both of len
 * bytes and registered with every right; script is what calls are made by.
 */
struct xpu {
	struct conf *c;
	struct cpu_device *device;
	struct conf_end *domain; /* of the device's endpoints, with the context */
	struct fid_xpu_ctx *ctx;
	struct fi_xpu_ctx_attr attr;
	struct xpu_end a;
	struct conf_end *b;
	fi_addr_t to; /* b, as a calls it */
	struct xk_script *script, *script_on_device;
	uint8_t *memory; /* XPU_MEMORY bytes of the device, as the host sees them */
	uint8_t *memory_on_device;
	uint8_t *src, *dst;
	size_t len;
	struct conf_region *local, *remote;
	uint64_t key;
};

/* The usual names in a script. */
enum {
	XPU_NO_NAME,
	XPU_DESC, /* of local */
	XPU_PEER, /* b */
	XPU_OTHER /* a case's own */
};

/*
 * The whole scene; the case is skipped where the port has no endpoints, and fails where it has them and does
 * not offer FI_XPU.  A device that a failed case has left is ended first.
 */
void xpu_begin(struct conf *c, const struct conf_opts *opts, size_t len, struct xpu *x);
/*
 * Closes everything, and looks: every close succeeds, each allocation on the device has ended, and there are
 * as many threads as before.  No kernel runs any more.
 */
void xpu_end(struct xpu *x);

/* A process, or with HMREG_TEST_XPU=threads, for sanitizers that are to see both sides, threads of this one. */
enum cpu_device_mode xpu_mode(void);

/* One more endpoint of the device, in the same context. */
void xpu_open(struct xpu *x, const struct conf_opts *opts, struct xpu_end *end);
/* Names for kernels. */
void xpu_desc(struct xpu *x, const struct conf_region *region, struct xk_name *name);
void xpu_name(struct xpu *x, const struct xpu_end *end, fi_addr_t addr, struct xk_name *name);

/* Where the device finds memory (of len bytes of x->memory, from where the host sees it). */
void *xpu_on_device(const struct xpu *x, const void *memory);

/* Runs a kernel to its end, in time. */
void xpu_launch(struct xpu *x, cpu_device_kernel *kernel, const void *args, size_t len,
		unsigned blocks, unsigned threads);
void xpu_start(struct xpu *x, cpu_device_kernel *kernel, const void *args, size_t len,
	       unsigned blocks, unsigned threads);
void xpu_wait(struct xpu *x);

/* ---- one call ---- */
int64_t xpu_call(struct xpu *x, const struct xk_call *call);
/* A call that posts, from src to dst, off being the offset in both; what is 0 otherwise stays so. */
struct xk_call xpu_transfer(const struct xpu *x, enum xk_what what, size_t off, size_t len);

/* ---- completions, as conf_done and its like ---- */
#define xpu_done(x, object, context) xpu_done_at(x, object, context, NULL, __FILE__, __LINE__)
#define xpu_done_as(x, object, context, entry)                                                     \
	xpu_done_at(x, object, context, entry, __FILE__, __LINE__)
#define xpu_failed(x, object, context, err, cause)                                                 \
	xpu_failed_at(x, object, context, err, cause, __FILE__, __LINE__)
/* The call is accepted and fails on the host, before the NIC knows of it: with one log line, and this code. */
#define xpu_refused(x, call, err)   xpu_refused_at(x, call, err, __FILE__, __LINE__)
#define xpu_error(x, object, entry) xpu_error_at(x, object, entry, __FILE__, __LINE__)
#define xpu_quiet(x, object)	    xpu_quiet_at(x, object, __FILE__, __LINE__)
#define xpu_posted(x, call)	    xpu_posted_at(x, call, __FILE__, __LINE__)

/* The call posts: 0, after some tries. */
void xpu_posted_at(struct xpu *x, const struct xk_call *call, const char *file, int line);
void xpu_done_at(struct xpu *x, enum xk_object object, uint64_t context,
		 struct fi_cq_data_entry *entry, const char *file, int line);
void xpu_error_at(struct xpu *x, enum xk_object object, struct fi_cq_err_entry *entry,
		  const char *file, int line);
void xpu_failed_at(struct xpu *x, enum xk_object object, uint64_t context, int err, int cause,
		   const char *file, int line);
void xpu_refused_at(struct xpu *x, const struct xk_call *call, int err, const char *file, int line);
void xpu_quiet_at(struct xpu *x, enum xk_object object, const char *file, int line);
/* The device writes to the peer and reads back; both queues are empty before and after. */
void xpu_works(struct xpu *x);

#endif
