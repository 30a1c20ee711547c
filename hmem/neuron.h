/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the Neuron interface: its driver's functions, and where device memory is mapped. */
#ifndef HMEM_NEURON_H
#define HMEM_NEURON_H

#include "hmem/hmem.h"
#include "hmem/neuron_abi.h"

/* libnrt.so.1; those that a runtime may lack are NULL then. */
struct nrt_calls {
	nrt_init_fn *init;
	nrt_tensor_allocate_fn *tensor_allocate;
	nrt_tensor_free_fn *tensor_free;
	nrt_tensor_read_fn *tensor_read;
	nrt_tensor_write_fn *tensor_write;
	nrt_tensor_get_va_fn *tensor_get_va;
	nrt_get_count_fn *core_count;
	nrt_tensor_copy_fn *tensor_copy;	   /* or NULL */
	nrt_get_version_fn *get_version;	   /* or NULL */
	nrt_memcpy_to_device_fn *memcpy_to_device; /* or NULL */
	nrt_get_dmabuf_fd_fn *get_dmabuf_fd;	   /* or NULL */
	nrt_get_hbm_mmap_va_fn *get_hbm_mmap_va;   /* or NULL */
	nrt_get_attached_efa_bdf_fn *attached_efa; /* or NULL */
};
extern struct nrt_calls nrt;

/*
 * Which device's memory is mapped at addr?  0 with *device and whether the host may load and store it,
 * or -FI_ENOENT; -FI_EIO, with one log line: it cannot be found out now.
 */
int neuron_where(const void *addr, int *device, bool *host_access);
/* How many devices the machine has, as far as anything tells, and what one has; 0: nothing does. */
size_t neuron_devices(uint64_t *memory, size_t device);
/* One log line that names the runtime's call, its error and what that usually means; -FI_E code. */
int neuron_failed(const char *call, int code);

/* For neuron_where: the mapping of a /dev/neuron<device> at addr, in a file like /proc/self/maps. */
int neuron_mapping(const char *maps, const void *addr, int *device, bool *host_access);

#endif
