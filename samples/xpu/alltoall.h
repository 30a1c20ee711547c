/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel of the sample xpu_alltoall gets, and how it uses the memory of its links. */
#ifndef XPU_ALLTOALL_H
#define XPU_ALLTOALL_H

#include "link.h"

#define A2A_RANKS_MAX 16
#define A2A_CHUNK     2048 /* words that each rank has for each other */

/* A link's: what goes to this peer, and what comes from it. */
struct a2a_memory {
	uint64_t send[A2A_CHUNK], recv[A2A_CHUNK];
	uint64_t arrived; /* the peer adds one when recv is whole, */
	uint64_t ready;	  /* and one when it wants the next chunk */
	uint64_t one;	  /* what is added to the peer's; the host sets it */
};

/* The result, one for each block. */
struct a2a_report {
	uint64_t rounds, wrong;
	int64_t error; /* a -FI_E code */
};

struct a2a_args {
	struct xpu_link *links; /* by rank, on the device; one's own is not used */
	struct a2a_report *reports;
	uint32_t rank, ranks, rounds;
	uint64_t timeout; /* ns that a round may take */
};

#ifndef __CUDACC__
void alltoall(void *args); /* alltoall_kernel.c */
#endif

#endif
