/* SPDX-License-Identifier: BSD-2-Clause */
/* An emulated libhl-thunk.so: the exports of device memory, which the emulated libSynapse.so makes. */
#include "hmem/synapseai_abi.h"
#include "tests/drivers/accel/synapseai/synapse.h"

SYN_PUBLIC hlthunk_export_fn hlthunk_device_memory_export_dmabuf_fd;
int hlthunk_device_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size, uint32_t flags)
{
	(void)flags; /* "For now this parameter is not used." */
	return emu_synapse_export_plain(fd, addr, size);
}

SYN_PUBLIC hlthunk_export_mapped_fn hlthunk_device_mapped_memory_export_dmabuf_fd;
int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size,
						  uint64_t offset, uint32_t flags)
{
	(void)flags;
	return emu_synapse_export_mapped(fd, addr, size, offset);
}
