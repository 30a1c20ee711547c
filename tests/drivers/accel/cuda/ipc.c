/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of another process: the handle names the process and its file of pages. */
#include "tests/drivers/accel/cuda/cuda_emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shared {
	unsigned int magic;
	int process, file;
	size_t len;
	int ordinal;
};
#define MAGIC 0x43554950u

_Static_assert(sizeof(struct shared) <= sizeof(struct cu_ipc_handle), "it fits");

cu_result cuIpcGetMemHandle(struct cu_ipc_handle *handle, cu_ptr addr)
{
	struct CUctx_st *context;
	struct accel_range range;
	struct emu_found found;
	struct shared shared;

	EMU_CALL_IN(cuIpcGetMemHandle, context);
	if (!emu_find((void *)(uintptr_t)addr, &found) || found.kind != EMU_ALLOC ||
	    !accel_find((void *)(uintptr_t)addr, &range))
		return CU_INVALID_VALUE;
	memset(handle, 0, sizeof(*handle));
	shared = (struct shared){ MAGIC, getpid(), accel_block_file(range.block), range.len,
				  found.ordinal };
	memcpy(handle->bytes, &shared, sizeof(shared));
	return CU_OK;
}

cu_result cuIpcOpenMemHandle_v2(cu_ptr *addr, struct cu_ipc_handle handle, unsigned int flags)
{
	struct CUctx_st *context;
	struct emu_memory *user;
	struct shared shared;
	char path[64];
	void *made;
	int file;

	EMU_CALL_IN(cuIpcOpenMemHandle_v2, context);
	memcpy(&shared, handle.bytes, sizeof(shared));
	if (shared.magic != MAGIC || flags != 1)
		return CU_INVALID_VALUE;
	if (shared.process == getpid())
		return CU_INVALID_CONTEXT; /* as the real one */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", shared.process, shared.file);
	file = open(path, O_RDWR | O_CLOEXEC);
	user = calloc(1, sizeof(*user));
	if (file < 0 || !user) {
		free(user);
		if (file >= 0)
			close(file);
		return CU_MAP_FAILED;
	}
	*user = (struct emu_memory){ .context = context,
				     .len = shared.len,
				     .ordinal = shared.ordinal };
	made = accel_alloc_file(file, shared.len, ACCEL_ON_DEVICE, shared.ordinal, EMU_IPC, user);
	if (!made) {
		free(user);
		return CU_MAP_FAILED;
	}
	*addr = (uintptr_t)made;
	return CU_OK;
}

cu_result cuIpcCloseMemHandle(cu_ptr addr)
{
	struct CUctx_st *context;

	EMU_CALL_IN(cuIpcCloseMemHandle, context);
	return emu_drop((void *)(uintptr_t)addr, 1u << EMU_IPC);
}
