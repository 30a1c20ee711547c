/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of a large range of host memory, brought in before a NIC pins them. */
#ifndef HM_POPULATE_H
#define HM_POPULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Below this nothing is brought in: threads would take longer to start. */
#define HM_POPULATE_LEAST (UINT64_C(16) << 20)
/* A piece that one thread brings in at once, between two looks at stop; ends are multiples of it. */
#define HM_POPULATE_PIECE (UINT64_C(32) << 20)

/*
 * Pinning faults in what is not there yet, page after page on one thread.  Here several threads do it, for
 * memory that is to be written anyway: of each range that is long enough, and of whose pages many are missing,
 * as some that are looked at show.  What fails is left to the registration, which tells.  New pages are put
 * where the caller's own would be.  Does nothing where the process may not pin pinned bytes.
 *
 * stop: where it is not NULL and other than 0, it ends between two pieces.  -FI_ECANCELED; else 0.
 * *used is raised to how many threads there were.
 */
int hm_populate(const struct iovec *iov, size_t count, uint64_t pinned, unsigned int threads,
		const int *stop, unsigned int *used);

static inline bool hm_stopped(const int *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_RELAXED) != 0;
}

#endif
