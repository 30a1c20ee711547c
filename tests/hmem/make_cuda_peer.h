/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that makes CUDA memory for this one to open. */
#ifndef MAKE_CUDA_PEER_H
#define MAKE_CUDA_PEER_H

#include <stdbool.h>

#include "tests/drivers/accel/cuda/cuda_driver_abi.h"

/* Before this process starts the driver: a started one does not survive fork. */
bool cuda_peer_start(void);
cu_result cuda_peer_alloc(int ordinal, size_t len, cu_ptr *theirs, struct cu_ipc_handle *handle);
cu_result cuda_peer_free(int ordinal, cu_ptr theirs);

#endif
