/* SPDX-License-Identifier: BSD-2-Clause */
/* hmem/neuron_abi.h against the runtime's own headers; it is compiled where they are, never run. */
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_status.h>
#include <nrt/nrt_version.h>

#include "hmem/neuron_abi.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " is " #b)

SAME(NRT_OK, NRT_SUCCESS);
SAME(NRT_CODE_FAILURE, NRT_FAILURE);
SAME(NRT_CODE_INVALID, NRT_INVALID);
SAME(NRT_CODE_INVALID_HANDLE, NRT_INVALID_HANDLE);
SAME(NRT_CODE_RESOURCE, NRT_RESOURCE);
SAME(NRT_CODE_TIMEOUT, NRT_TIMEOUT);
SAME(NRT_CODE_HW_ERROR, NRT_HW_ERROR);
SAME(NRT_CODE_QUEUE_FULL, NRT_QUEUE_FULL);
SAME(NRT_CODE_HOST_MEMORY, NRT_FAIL_HOST_MEM_ALLOC);
SAME(NRT_CODE_UNINITIALIZED, NRT_UNINITIALIZED);
SAME(NRT_CODE_CLOSED, NRT_CLOSED);
SAME(NRT_PLACE_DEVICE, NRT_TENSOR_PLACEMENT_DEVICE);
SAME(NRT_PLACE_HOST, NRT_TENSOR_PLACEMENT_HOST);
SAME(NRT_NO_FRAMEWORK, NRT_FRAMEWORK_TYPE_NO_FW);
SAME(sizeof(struct nrt_version_text), sizeof(nrt_version_t));
SAME(sizeof(NRT_STATUS), sizeof(int));
SAME(sizeof(nrt_tensor_placement_t), sizeof(int));

/* Enumerations are int here and tensors have another name; all else is as declared there. */
#define TAKES(function, ...)                                                                       \
	_Static_assert(__builtin_types_compatible_p(__typeof__(function),                          \
						    NRT_STATUS(__VA_ARGS__)),                      \
		       #function)

TAKES(nrt_init, nrt_framework_type_t, const char *, const char *);
TAKES(nrt_get_version, nrt_version_t *, size_t);
TAKES(nrt_get_visible_nc_count, uint32_t *);
TAKES(nrt_tensor_allocate, nrt_tensor_placement_t, int, size_t, const char *, nrt_tensor_t **);
TAKES(nrt_tensor_read, const nrt_tensor_t *, void *, size_t, size_t);
TAKES(nrt_tensor_write, nrt_tensor_t *, const void *, size_t, size_t);
TAKES(nrt_tensor_copy, const nrt_tensor_t *, size_t, nrt_tensor_t *, size_t, size_t);
TAKES(nrt_memcpy_to_device, void *, const void *, size_t);
TAKES(nrt_get_dmabuf_fd, uint64_t, uint64_t, int *);
TAKES(nrt_get_hbm_mmap_va, int, int, void **, size_t *);
TAKES(nrt_get_attached_efa_bdf, const void *, char *, size_t *);
