/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the SynapseAI interface: its driver's functions, and its copies. */
#ifndef HMEM_SYNAPSEAI_H
#define HMEM_SYNAPSEAI_H

#include "hmem/hmem.h"
#include "hmem/synapseai_abi.h"

/* libSynapse.so */
struct syn_calls {
	syn_void_fn *initialize;
	syn_version_fn *driver_get_version;
	syn_count_fn *device_get_count;
	syn_acquire_fn *device_acquire;
	syn_info_fn *device_get_info;	 /* or NULL */
	syn_info_fn *device_get_info_v2; /* or NULL */
	syn_text_fn *device_get_name;
	syn_text_fn *device_get_pci;
	syn_device_malloc_fn *device_malloc;
	syn_device_free_fn *device_free;
	syn_host_malloc_fn *host_malloc;
	syn_host_free_fn *host_free;
	syn_host_map_fn *host_map;
	syn_host_unmap_fn *host_unmap;
	syn_copy_fn *copy_async;
	syn_stream_create_fn *stream_create;
	syn_stream_fn *stream_synchronize;
	syn_stream_fn *stream_destroy;
};
extern struct syn_calls syn;

/* One log line that names the driver's call, its error and what that usually means; -FI_E code. */
int syn_failed(const char *call, int code);

/* struct hmem_ops.copy */
int syn_copy(void *dst, int dst_device, const void *src, int src_device, size_t len);

#endif
