/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations as dma-bufs. */
#include <unistd.h>

#include "tests/drivers/accel/rocr/emu.h"

#define MOST_FILES 65536

static unsigned short given[MOST_FILES]; /* how often each fd was given out and not taken back */

/* emu_lock held. */
static rocr_status check(const void *ptr, size_t size)
{
	struct accel_range range;
	const struct emu_memory *memory = emu_find(ptr, &range);
	const struct emu_agent *owner;

	if (!memory || range.kind != EMU_POOL ||
	    size > range.len - (size_t)((const char *)ptr - range.addr))
		return ROCR_ERROR_INVALID_ALLOCATION;
	owner = &emu.agents[emu.pools[memory->pool].agent];
	if (!owner->gpu || (emu.noexport >> owner->index & 1))
		return ROCR_ERROR_INVALID_AGENT;
	return ROCR_SUCCESS;
}

static rocr_status export(const void *ptr, size_t size, int *fd, uint64_t *offset)
{
	size_t inside;
	rocr_status status;
	int file;

	if (!ptr || !size || !fd || !offset || (emu.unit && (uintptr_t)ptr % (size_t)emu.unit))
		return ROCR_ERROR_INVALID_ARGUMENT;
	if (!emu.dmabuf || emu.ext < 1)
		return ROCR_ERROR;
	pthread_mutex_lock(&emu_lock);
	status = check(ptr, size);
	if (status == ROCR_SUCCESS) {
		file = accel_dmabuf(ptr, size, &inside);
		if (file < 0 || file >= MOST_FILES) {
			close(file);
			status = ROCR_ERROR_OUT_OF_RESOURCES;
		} else {
			given[file]++;
			accel_live("dmabuf", 1);
			*fd = file;
			*offset = inside;
		}
	}
	pthread_mutex_unlock(&emu_lock);
	return status;
}

rocr_status hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *fd, uint64_t *offset)
{
	CALL("hsa_amd_portable_export_dmabuf");
	return export(ptr, size, fd, offset);
}

rocr_status hsa_amd_portable_export_dmabuf_v2(const void *ptr, size_t size, int *fd,
					      uint64_t *offset, uint64_t flags)
{
	CALL("hsa_amd_portable_export_dmabuf_v2");
	if (emu.ext < 9 || flags > ROCR_DMABUF_PCIE)
		return ROCR_ERROR_INVALID_ARGUMENT;
	return export(ptr, size, fd, offset);
}

rocr_status hsa_amd_portable_close_dmabuf(int fd)
{
	bool ours;

	CALL("hsa_amd_portable_close_dmabuf");
	pthread_mutex_lock(&emu_lock);
	ours = fd >= 0 && fd < MOST_FILES && given[fd] > 0;
	if (ours) {
		given[fd]--;
		accel_live("dmabuf", -1);
	}
	pthread_mutex_unlock(&emu_lock);
	return ours && close(fd) == 0 ? ROCR_SUCCESS : ROCR_ERROR_RESOURCE_FREE;
}
