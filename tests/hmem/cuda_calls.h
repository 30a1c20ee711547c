/* SPDX-License-Identifier: BSD-2-Clause */
/* The CUDA driver for tests: all of its functions that we declare, and work inside a context. */
#ifndef CUDA_CALLS_H
#define CUDA_CALLS_H

#include "tests/drivers/accel/cuda/cuda_driver_abi.h"
#include "tests/drivers/emu_accel.h"

struct cuda_calls {
#define CUDA_MEMBER(member, symbol, args) cu_result(*member) args;
	CUDA_FUNCTIONS(CUDA_MEMBER)
	CUDA_NEWER(CUDA_MEMBER)
	CUDA_WITH_STRUCTS(CUDA_MEMBER)
	CUDA_TEST_FUNCTIONS(CUDA_MEMBER)
	CUDA_TEST_STRUCTS(CUDA_MEMBER)
#undef CUDA_MEMBER
	const struct emu_accel_hooks *hooks; /* NULL: a real driver */
};
extern struct cuda_calls cuda;

/* NULL, or why there is none; functions that the driver lacks are NULL. */
const char *cuda_calls_load(void);

#endif
