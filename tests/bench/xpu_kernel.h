/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel of xpu_bench gets and gives. */
#ifndef BENCH_XPU_KERNEL_H
#define BENCH_XPU_KERNEL_H

#include "samples/xpu/link.h"

struct bench_result {
	uint64_t begin, end; /* ns of the device's clock */
	int64_t error;	     /* a -FI_E code */
};

struct bench_args {
	struct xpu_link *links;	      /* one for each ring that is used */
	struct bench_result *results; /* the same */
	uint64_t *waits; /* count of each ring: ns until a request was seen to be done; NULL: none waits */
	uint64_t pace;	/* ns between requests; 0: as fast as can be */
	uint32_t count; /* requests of each ring */
	int32_t scope; /* of each request; a block has a ring, but all are one with FI_XPU_DEVICE */
};

#ifndef __CUDACC__
void bench_requests(void *args); /* xpu_kernel.c */
#endif

#endif
