/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Level Zero, inside: what its files share.
 *
 *   ze.c         the operations, and what an address is
 *   ze_start.c   drivers, devices, and device ids from handles and back
 *   ze_export.c  dma-bufs, and which memory can become one
 *   ze_copy.c    copies
 *   ze_abi.h     the vendor's interface
 *
 * A device id is fi_hmem_ze_device(driver, device) of the places that zeDriverGet and zeDeviceGet give.
 * A sub-device is part of its root device here: memory of either is memory of the root's id.
 */
#ifndef HMEM_ZE_H
#define HMEM_ZE_H

#include <pthread.h>
#include <stdatomic.h>

#include "hmem/hmem.h"
#include "hmem/ze_abi.h"

struct ze_lane;

struct ze_device {
	struct hmem_device info; /* as asked when the driver started */
	l0_device handle;
	struct ze_driver *driver;
	pthread_mutex_t lock; /* idle, idle_count; innermost */
	struct ze_lane *idle;
	unsigned int idle_count;
	atomic_int ordinal; /* of the queue group that copies; -1: not asked yet */
};

/* A device handle, of a sub-device too, and the place of the device it is part of. */
struct ze_handle {
	l0_device handle;
	uint32_t device;
};

enum ze_fd_owner {
	ZE_FD_UNKNOWN,
	ZE_FD_OURS,  /* every export is a new fd, and the caller's */
	ZE_FD_DRIVER /* every export of an allocation is the same fd, and stays the driver's */
};

struct ze_driver {
	l0_driver handle;
	l0_context context; /* ours; NULL: this driver is not usable */
	uint32_t index;
	struct ze_device *devices;
	uint32_t device_count;
	struct ze_handle *handles;
	size_t handle_count;
	atomic_int fd_owner; /* enum ze_fd_owner, as last seen */
};

/* Constant once started. */
struct ze_state {
	struct ze_driver *drivers;
	uint32_t driver_count;
	size_t device_count; /* of all drivers */
};

extern struct l0_api ze_api;
extern struct ze_state ze_state;

/* One log line for a driver's failure; returns the -FI_E code for it. */
int ze_fail(const char *call, l0_result result);
/* "ZE_RESULT_ERROR_DEVICE_LOST", or the number; returns text. */
const char *ze_result_text(l0_result result, char text[64]);

int ze_start(struct hmem_status *status);
/* The device of an id, or NULL. */
struct ze_device *ze_device_of(int id);
/* The id of the device that a handle of this driver is or is part of; -1: none. */
int ze_device_id(const struct ze_driver *driver, l0_device handle);

/*
 * Device ids and the vendor's handles.  handles: -FI_ENODEV for an id that is none.  id: -FI_ENODEV for
 * handles that are none, or not of one driver.
 */
int hmem_ze_handles(int id, void **driver, void **device);
int hmem_ze_id(const void *driver, const void *device);

/* What is asked once per allocation and then remembered by its id. */
#define ZE_TRAIT_VMM	    1u
#define ZE_TRAIT_EXPORTABLE 2u

/* An allocation, as the driver tells it. */
struct ze_range {
	struct ze_driver *driver;
	struct ze_device *device; /* NULL: of none, or not known */
	uint32_t type;
	bool known; /* base and len */
	uint64_t base, len, id, page;
};

/* -FI_ENOENT: no driver's. */
int ze_find(const void *addr, struct ze_range *range);
/* ZE_TRAIT_* */
uint32_t ze_traits(const struct ze_range *range);
/*
 * The allocation's dma-buf, a fd of the caller's.  -FI_EOPNOTSUPP, and *why a constant text: it has none;
 * other errors pass, and are logged.
 */
int ze_dmabuf(const struct ze_range *range, int *fd, uint64_t *size, const char **why);
int ze_export_start(const struct hmem_memory *memory, const void *addr, size_t len, uint32_t flags,
		    struct hmem_export *out);
void ze_export_end(const struct hmem_export *exported);

int ze_copy(void *dst, int dst_device, const void *src, int src_device, size_t len);
int ze_copy_start(void *dst, int dst_device, const void *src, int src_device, size_t len,
		  uint64_t *event);
int ze_copy_end(uint64_t event, bool wait);

#endif
