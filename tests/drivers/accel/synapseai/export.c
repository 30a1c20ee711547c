/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exports of emulated Gaudi memory, by the rules of hlthunk.h: one call for Gaudi, one for its
 * successors, whose address is that of the mapping and whose offset is where the dma-buf begins.  Sizes
 * and offsets are multiples of the kernel's pages.  What begins inside an allocation cannot be given as a
 * dma-buf of its own here; a real device can.
 */
#include <errno.h>

#include "hmem/synapseai_abi.h"
#include "tests/drivers/accel/accel.h"
#include "tests/drivers/accel/synapseai/synapse.h"

#define PAGE 4096u

static int export_range(int device, uint64_t addr, uint64_t size)
{
	const char *at = (const char *)(uintptr_t)addr;
	struct accel_range range;
	size_t offset;
	int fd;

	if (size == 0 || addr % PAGE != 0 || size % PAGE != 0 || !accel_find(at, &range) ||
	    accel_block_place(range.block) != ACCEL_ON_DEVICE ||
	    accel_block_device(range.block) != device ||
	    size > range.len - (size_t)(at - range.addr))
		return -EINVAL;
	if (at != range.addr && !accel_setting("interior", 0))
		return -EOPNOTSUPP;
	fd = accel_dmabuf(at, size, &offset);
	return fd >= 0 ? fd : -EIO;
}

int emu_synapse_export_plain(int fd, uint64_t addr, uint64_t size)
{
	int code = accel_call("hlthunk_device_memory_export_dmabuf_fd"), device, type;
	uint64_t base;

	if (code)
		return code < 0 ? code : -code;
	if (!emu_synapse_device(fd, &device, &type, &base))
		return -EBADF;
	return type == SYN_TYPE_GAUDI ? export_range(device, addr, size) : -EPERM;
}

int emu_synapse_export_mapped(int fd, uint64_t addr, uint64_t size, uint64_t offset)
{
	int code = accel_call("hlthunk_device_mapped_memory_export_dmabuf_fd"), device, type;
	uint64_t base;

	if (code)
		return code < 0 ? code : -code;
	if (!emu_synapse_device(fd, &device, &type, &base))
		return -EBADF;
	if (type == SYN_TYPE_GAUDI)
		return -EPERM;
	return addr == base ? export_range(device, addr + offset, size) : -EINVAL;
}
