/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An emulated Neuron runtime.  EMU_NEURON="devices=2,cores=2,..." sets
 *   devices   how many Neuron devices (2), cores on each (2), memory= bytes of each (256 MiB)
 *   hbm=0     nrt_get_hbm_mmap_va is not supported (NRT_INVALID)
 *   efa=0     no network adapter is attached to any device
 *   map=0     nrt_tensor_get_va has no address for device memory
 *   interior=1  nrt_get_dmabuf_fd takes an address inside a tensor, and gives the whole tensor; the
 *               caller cannot tell where in it the address is
 *
 * As the Neuron Runtime API documents: calls but those for counts and versions want nrt_init before;
 * device memory is mapped, so that the host may load and store it, and the rest of a device's window
 * faults; dma-bufs want addresses aligned to 4 KiB; nrt_tensor_copy stays on one core.
 * The library in old/ has no nrt_get_visible_vnc_count, nrt_get_hbm_mmap_va, nrt_get_attached_efa_bdf.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"
#include "hmem/neuron_abi.h"
#include "tests/drivers/accel/accel.h"

#define PUBLIC	     __attribute__((visibility("default")))
#define MOST_DEVICES 64
#define ALIGNMENT    4096u

const char accel_driver[] = "NEURON";

struct nrt_tensor_opaque {
	struct hm_list link;
	int place, core;
	char *va;
	size_t size, mapped;
};

enum {
	START,
	RUNNING,
	CLOSED
};

/* lock: all of these, and what is free in a window */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int state = START;
static struct hm_list tensors = { &tensors, &tensors };
static char *windows[MOST_DEVICES];

static int devices(void)
{
	long n = accel_setting("devices", 2);

	return n < MOST_DEVICES ? (int)n : MOST_DEVICES;
}

static int cores(void)
{
	return devices() * (int)accel_setting("cores", 2);
}

static size_t window_size(void)
{
	return (size_t)accel_setting("memory", 256 << 20);
}

static int enter(const char *name)
{
	int code = accel_call(name), now;

	if (code)
		return code;
	pthread_mutex_lock(&lock);
	now = state;
	pthread_mutex_unlock(&lock);
	return now == RUNNING ? NRT_OK : now == START ? NRT_CODE_UNINITIALIZED : NRT_CODE_CLOSED;
}

/* ---- the runtime ---- */

PUBLIC nrt_init_fn nrt_init;
int nrt_init(int framework, const char *fw_version, const char *fal_version)
{
	int code = accel_call("nrt_init");

	(void)fw_version, (void)fal_version;
	if (code)
		return code;
	if (framework < 1 || devices() == 0)
		return NRT_CODE_INVALID;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < devices() && code == NRT_OK; i++) {
		windows[i] = windows[i] ? windows[i] : accel_reserve(window_size(), 0);
		code = windows[i] ? NRT_OK : NRT_CODE_RESOURCE;
	}
	if (code == NRT_OK)
		state = RUNNING;
	pthread_mutex_unlock(&lock);
	return code;
}

PUBLIC void nrt_close(void);
void nrt_close(void)
{
	accel_call("nrt_close");
	pthread_mutex_lock(&lock);
	state = CLOSED;
	pthread_mutex_unlock(&lock);
}

PUBLIC nrt_get_version_fn nrt_get_version;
int nrt_get_version(struct nrt_version_text *version, size_t size)
{
	struct nrt_version_text mine = { .rt_major = 2, .rt_minor = 29, .rt_detail = "emulated" };
	int code = accel_call("nrt_get_version");

	if (code == NRT_OK)
		memcpy(version, &mine, size < sizeof(mine) ? size : sizeof(mine));
	return code;
}

static int count_cores(const char *name, uint32_t *count)
{
	int code = accel_call(name);

	if (code == NRT_OK)
		*count = (uint32_t)cores();
	return code;
}

PUBLIC nrt_get_count_fn nrt_get_visible_nc_count;
int nrt_get_visible_nc_count(uint32_t *count)
{
	return count_cores("nrt_get_visible_nc_count", count);
}

/* ---- tensors ---- */

static bool is_free(char *at, size_t len, const char *window)
{
	struct accel_range range;

	/* a gap on both sides, where a device would fault */
	for (char *page = at - (at > window ? ACCEL_PAGE : 0); page <= at + len; page += ACCEL_PAGE)
		if (accel_find(page, &range))
			return false;
	return true;
}

/* Lock held. */
static char *place_block(struct accel_block *block, int core, void *user)
{
	int device = core / (int)accel_setting("cores", 2);
	size_t len = accel_block_len(block), room = window_size();
	char *window = windows[device];

	for (size_t at = 0; len <= room && at <= room - len; at += ACCEL_PAGE)
		if (is_free(window + at, len, window) &&
		    accel_map(window + at, len, block, 0, NRT_PLACE_DEVICE, user))
			return window + at;
	return NULL;
}

static int place_tensor(struct nrt_tensor_opaque *tensor)
{
	struct accel_block *block;
	int device = tensor->core / (int)accel_setting("cores", 2);

	if (tensor->place == NRT_PLACE_HOST) {
		tensor->va = accel_alloc(tensor->size, 0, ACCEL_ON_HOST, -1, NRT_PLACE_HOST, NULL);
		return tensor->va ? NRT_OK : NRT_CODE_RESOURCE;
	}
	block = accel_block_make(tensor->size, ACCEL_ON_BOTH, device);
	if (!block)
		return NRT_CODE_RESOURCE;
	tensor->mapped = accel_block_len(block);
	pthread_mutex_lock(&lock);
	tensor->va = place_block(block, tensor->core, tensor);
	pthread_mutex_unlock(&lock);
	accel_block_put(block);
	return tensor->va ? NRT_OK : NRT_CODE_RESOURCE;
}

PUBLIC nrt_tensor_allocate_fn nrt_tensor_allocate;
int nrt_tensor_allocate(int placement, int vnc, size_t size, const char *name,
			struct nrt_tensor_opaque **out)
{
	int code = enter("nrt_tensor_allocate");
	struct nrt_tensor_opaque *tensor;

	(void)name;
	if (code)
		return code;
	if (!out || size == 0 || placement < NRT_PLACE_DEVICE || placement > NRT_PLACE_HOST ||
	    (placement == NRT_PLACE_DEVICE && (vnc < 0 || vnc >= cores())))
		return NRT_CODE_INVALID;
	tensor = calloc(1, sizeof(*tensor));
	if (!tensor)
		return NRT_CODE_HOST_MEMORY;
	tensor->place = placement;
	tensor->core = vnc;
	tensor->size = size;
	code = place_tensor(tensor);
	if (code) {
		free(tensor);
		return code;
	}
	pthread_mutex_lock(&lock);
	hm_list_add_tail(&tensors, &tensor->link);
	pthread_mutex_unlock(&lock);
	accel_live("tensor", 1);
	*out = tensor;
	return NRT_OK;
}

/* Lock held. */
static bool exists(const struct nrt_tensor_opaque *tensor)
{
	hm_list_for_each(link, &tensors)
	{
		if (hm_list_entry(link, struct nrt_tensor_opaque, link) == tensor)
			return true;
	}
	return false;
}

PUBLIC nrt_tensor_free_fn nrt_tensor_free;
void nrt_tensor_free(struct nrt_tensor_opaque **out)
{
	struct nrt_tensor_opaque *tensor = out ? *out : NULL;
	bool mine;

	accel_call("nrt_tensor_free");
	pthread_mutex_lock(&lock);
	mine = exists(tensor);
	if (mine)
		hm_list_del(&tensor->link);
	pthread_mutex_unlock(&lock);
	if (!mine) {
		fprintf(stderr, "nrt_tensor_free: %p is no tensor\n", (void *)tensor);
		abort();
	}
	if (tensor->place == NRT_PLACE_HOST)
		accel_free(tensor->va);
	else
		accel_unmap(tensor->va, tensor->mapped);
	free(tensor);
	accel_live("tensor", -1);
	*out = NULL;
}

PUBLIC nrt_tensor_get_va_fn nrt_tensor_get_va;
void *nrt_tensor_get_va(const struct nrt_tensor_opaque *tensor)
{
	if (enter("nrt_tensor_get_va") || !tensor ||
	    (tensor->place == NRT_PLACE_DEVICE && !accel_setting("map", 1)))
		return NULL;
	return tensor->va;
}

/* ---- copies ---- */

static int check(const struct nrt_tensor_opaque *tensor, size_t offset, size_t size)
{
	bool mine;

	pthread_mutex_lock(&lock);
	mine = exists(tensor);
	pthread_mutex_unlock(&lock);
	if (!mine)
		return NRT_CODE_INVALID_HANDLE;
	return offset > tensor->size || size > tensor->size - offset ? NRT_CODE_INVALID : NRT_OK;
}

PUBLIC nrt_tensor_read_fn nrt_tensor_read;
int nrt_tensor_read(const struct nrt_tensor_opaque *tensor, void *buf, size_t offset, size_t size)
{
	int code = enter("nrt_tensor_read");

	code = code ? code : check(tensor, offset, size);
	if (code)
		return code;
	return accel_copy(buf, tensor->va + offset, size) ? NRT_OK : NRT_CODE_FAILURE;
}

PUBLIC nrt_tensor_write_fn nrt_tensor_write;
int nrt_tensor_write(struct nrt_tensor_opaque *tensor, const void *buf, size_t offset, size_t size)
{
	int code = enter("nrt_tensor_write");

	code = code ? code : check(tensor, offset, size);
	if (code)
		return code;
	return accel_copy(tensor->va + offset, buf, size) ? NRT_OK : NRT_CODE_FAILURE;
}

PUBLIC nrt_tensor_copy_fn nrt_tensor_copy;
int nrt_tensor_copy(const struct nrt_tensor_opaque *src, size_t src_offset,
		    struct nrt_tensor_opaque *dst, size_t dst_offset, size_t size)
{
	int code = enter("nrt_tensor_copy");

	code = code ? code : check(src, src_offset, size);
	code = code ? code : check(dst, dst_offset, size);
	if (code)
		return code;
	if (src->place == NRT_PLACE_DEVICE && dst->place == NRT_PLACE_DEVICE &&
	    src->core != dst->core)
		return NRT_CODE_INVALID;
	return accel_copy(dst->va + dst_offset, src->va + src_offset, size) ? NRT_OK
									    : NRT_CODE_FAILURE;
}

static bool device_memory(const void *va, size_t size, struct accel_range *range)
{
	return accel_find(va, range) && range->kind == NRT_PLACE_DEVICE &&
	       size <= range->len - (size_t)((const char *)va - range->addr);
}

PUBLIC nrt_memcpy_to_device_fn nrt_memcpy_to_device;
int nrt_memcpy_to_device(void *dest, const void *src, size_t size)
{
	int code = enter("nrt_memcpy_to_device");
	struct accel_range range;

	if (code)
		return code;
	if (!device_memory(dest, size, &range))
		return NRT_CODE_INVALID;
	return accel_copy(dest, src, size) ? NRT_OK : NRT_CODE_FAILURE;
}

/* ---- dma-bufs ---- */

PUBLIC nrt_get_dmabuf_fd_fn nrt_get_dmabuf_fd;
int nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int *fd)
{
	const char *addr = (const char *)(uintptr_t)va;
	int code = enter("nrt_get_dmabuf_fd");
	struct accel_range range;
	size_t offset;

	if (code)
		return code;
	if (!fd || size == 0 || va % ALIGNMENT != 0 || !device_memory(addr, size, &range) ||
	    (addr != range.addr && !accel_setting("interior", 0)))
		return NRT_CODE_INVALID;
	*fd = accel_dmabuf(addr, size, &offset);
	return *fd >= 0 ? NRT_OK : NRT_CODE_FAILURE;
}

#ifndef EMU_NRT_OLD

PUBLIC nrt_get_count_fn nrt_get_visible_vnc_count;
int nrt_get_visible_vnc_count(uint32_t *count)
{
	return count_cores("nrt_get_visible_vnc_count", count);
}

PUBLIC nrt_get_hbm_mmap_va_fn nrt_get_hbm_mmap_va;
int nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void **addr, size_t *size)
{
	int code = enter("nrt_get_hbm_mmap_va");

	if (code)
		return code;
	if (!accel_setting("hbm", 1) || device_id < 0 || device_id >= devices() || hbm_idx < 0)
		return NRT_CODE_INVALID;
	if (hbm_idx > 0)
		return NRT_CODE_INVALID_HANDLE;
	*addr = windows[device_id];
	*size = window_size();
	return NRT_OK;
}

PUBLIC nrt_get_attached_efa_bdf_fn nrt_get_attached_efa_bdf;
int nrt_get_attached_efa_bdf(const void *va, char *efa_bdf, size_t *len)
{
	int code = enter("nrt_get_attached_efa_bdf");
	struct accel_range range;
	char text[16];
	int n;

	if (code)
		return code;
	if (!accel_setting("efa", 1) || !device_memory(va, 1, &range))
		return NRT_CODE_FAILURE;
	n = snprintf(text, sizeof(text), "0000:%02x:19.0", accel_block_device(range.block));
	if (*len <= (size_t)n)
		return NRT_CODE_RESOURCE;
	memcpy(efa_bdf, text, (size_t)n + 1);
	*len = (size_t)n;
	return NRT_OK;
}

#endif
