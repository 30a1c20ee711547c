/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel of the sample xpu_put gets, and how it uses its link's memory. */
#ifndef XPU_PUT_H
#define XPU_PUT_H

#include "link.h"

#define PUT_LEN 4096 /* bytes of a message */

/* Two of each: the peer may be one round ahead. */
struct put_memory {
	unsigned char outbox[2][PUT_LEN], inbox[2][PUT_LEN];
	uint64_t signal; /* the peer adds one for each message in the inbox */
	uint64_t one;	 /* what is added to the peer's; the host sets it */
	/* the result: rounds that were done, bytes that were wrong, and why it ended, as a -FI_E code */
	uint64_t rounds, wrong;
	int64_t error;
};

struct put_args {
	struct xpu_link link;
	uint32_t rank; /* 0 or 1 */
	uint32_t rounds;
	uint64_t timeout; /* ns that a message may take */
};

#ifndef __CUDACC__
void put(void *args); /* put_kernel.c */
#endif

#endif
