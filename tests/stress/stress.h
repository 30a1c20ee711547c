/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the stress programs share.  They run for HMREG_STRESS_SECONDS (10) with HMREG_STRESS_THREADS (8)
 * threads; a broken promise ends the process at once, with the line that found it.
 */
#ifndef HM_STRESS_H
#define HM_STRESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#define STRESS_MODES                                                                               \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |            \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE |     \
	 FI_MR_XPU_DESC)

/* For any thread: CMocka's own may only be used by the thread that runs the test. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			stress_die(__FILE__, __LINE__, #condition, 0);                             \
	} while (0)
#define CHECK_OK(call)                                                                             \
	do {                                                                                       \
		long ret_ = (long)(call);                                                          \
		if (ret_)                                                                          \
			stress_die(__FILE__, __LINE__, #call, ret_);                               \
	} while (0)

_Noreturn void stress_die(const char *file, int line, const char *what, long ret);

/* A number out of the environment, at least 1. */
unsigned stress_setting(const char *name, unsigned standard);
uint64_t stress_random(uint64_t *state);
double stress_now(void);
struct fi_info *stress_info(const char *profile, uint64_t caps);

#endif
