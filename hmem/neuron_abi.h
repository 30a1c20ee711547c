/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is used of the AWS Neuron Runtime's C interface, libnrt.so.1.
 *
 * From the Neuron documentation, "Neuron Runtime API" (awsdocs-neuron.readthedocs-hosted.com,
 * neuron-runtime/api: nrt.h, nrt_status.h, nrt_version.h, nrt_experimental.h), as of SDK 2.29.  Its
 * headers promise that values of enumerations never change.  Not checked on hardware, nor against
 * installed headers unless the build found them (tests/unit/abi_neuron.c).
 */
#ifndef HMEM_NEURON_ABI_H
#define HMEM_NEURON_ABI_H

#include <stddef.h>
#include <stdint.h>

/* nrt_status.h: NRT_STATUS, an enumeration passed as int. */
enum nrt_code {
	NRT_OK = 0,
	NRT_CODE_FAILURE = 1,
	NRT_CODE_INVALID = 2,
	NRT_CODE_INVALID_HANDLE = 3,
	NRT_CODE_RESOURCE = 4,
	NRT_CODE_TIMEOUT = 5,
	NRT_CODE_HW_ERROR = 6,
	NRT_CODE_QUEUE_FULL = 7,
	NRT_CODE_HOST_MEMORY = 11,
	NRT_CODE_UNINITIALIZED = 13,
	NRT_CODE_CLOSED = 14
};

/* nrt.h: nrt_tensor_placement_t */
#define NRT_PLACE_DEVICE 0
#define NRT_PLACE_HOST	 1

/* nrt.h: nrt_framework_type_t, NRT_FRAMEWORK_TYPE_NO_FW */
#define NRT_NO_FRAMEWORK 1

/* nrt.h: nrt_tensor_t */
struct nrt_tensor_opaque;

/* nrt_version.h: nrt_version_t */
struct nrt_version_text {
	uint64_t rt_major, rt_minor, rt_patch, rt_maintenance;
	char rt_detail[128];
	char git_hash[64];
};

/* nrt.h, unless another header is named. */
typedef int nrt_init_fn(int framework, const char *fw_version, const char *fal_version);
typedef int nrt_get_version_fn(struct nrt_version_text *version, size_t size); /* nrt_version.h */
typedef int nrt_get_count_fn(uint32_t *count); /* nrt_get_{total,visible}_{nc,vnc}_count */
typedef int nrt_tensor_allocate_fn(int placement, int vnc, size_t size, const char *name,
				   struct nrt_tensor_opaque **tensor);
typedef void nrt_tensor_free_fn(struct nrt_tensor_opaque **tensor);
typedef int nrt_tensor_read_fn(const struct nrt_tensor_opaque *tensor, void *buf, size_t offset,
			       size_t size);
typedef int nrt_tensor_write_fn(struct nrt_tensor_opaque *tensor, const void *buf, size_t offset,
				size_t size);
typedef int nrt_tensor_copy_fn(const struct nrt_tensor_opaque *src, size_t src_offset,
			       struct nrt_tensor_opaque *dst, size_t dst_offset, size_t size);
typedef void *nrt_tensor_get_va_fn(const struct nrt_tensor_opaque *tensor); /* NULL: it has none */
/* nrt_experimental.h: to "memory mapped Neuron device memory" */
typedef int nrt_memcpy_to_device_fn(void *dest, const void *src, size_t size);
/* The fd of [va, va + size): the caller's to close.  No offset is told. */
typedef int nrt_get_dmabuf_fd_fn(uint64_t va, uint64_t size, int *fd);
/* NRT_CODE_INVALID_HANDLE: no more such regions; NRT_CODE_INVALID: not supported, no such device */
typedef int nrt_get_hbm_mmap_va_fn(int device_id, int hbm_idx, void **addr, size_t *size);
/* NRT_CODE_RESOURCE: len is too small for the text; other codes: not found */
typedef int nrt_get_attached_efa_bdf_fn(const void *va, char *efa_bdf, size_t *len);

#endif
