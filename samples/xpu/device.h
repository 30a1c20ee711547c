/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that run the kernels of this program, behind one set of calls: the CPU device (cpu_device.h), and
 * CUDA's where the program was built with nvcc.
 *
 * Calls return 0 or a negative FI_E code; those that fail have then said why on standard error.
 */
#ifndef XPU_DEVICE_H
#define XPU_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_xpu.h>

#include "../common.h"

/* Memory of a device, at the addresses by which its kernels and the host know it. */
struct xpu_memory {
	unsigned char *on_device;
	unsigned char *on_host; /* to be registered; read and written by the calls below */
	size_t len;
};

struct xpu_device;

/* What a device is made of. */
struct xpu_device_ops {
	int (*alloc)(struct xpu_device *device, size_t len, struct xpu_memory *memory);
	void (*free)(struct xpu_device *device, struct xpu_memory *memory);
	int (*write)(struct xpu_device *device, void *on_host, const void *from, size_t len);
	int (*read)(struct xpu_device *device, void *to, const void *on_host, size_t len);
	int (*launch)(struct xpu_device *device, const char *name, void (*kernel)(void *args),
		      const void *args, size_t len, unsigned blocks, unsigned threads);
	int (*wait)(struct xpu_device *device, int timeout);
	void (*close)(struct xpu_device *device);
};

struct xpu_device {
	const struct xpu_device_ops *ops;
	struct fi_xpu_attr attr;   /* for fi_xpu_ctx() */
	struct sample_place place; /* of its memory, for sample_register_at() */
	const char *name;
	unsigned subgroup; /* threads */
};

/*
 * name: "cpu", a device that is another process; "threads", one that is threads of this; "cuda" or "cuda:1".
 * -FI_ENODEV: there is none here, and *device is NULL.  Several may be opened of each.
 */
int xpu_device_open(const char *name, struct xpu_device **device);
void xpu_device_close(struct xpu_device *device); /* NULL: nothing */

/* Zeroed. */
int xpu_device_alloc(struct xpu_device *device, size_t len, struct xpu_memory *memory);
void xpu_device_free(struct xpu_device *device,
		     struct xpu_memory *memory); /* of no length: nothing */
/* To and from memory of the device, by the address of the host's. */
int xpu_device_write(struct xpu_device *device, void *on_host, const void *from, size_t len);
int xpu_device_read(struct xpu_device *device, void *to, const void *on_host, size_t len);

/* A kernel that kernel.h defines, in the words of both devices. */
#define XPU_CALL(kernel) #kernel, kernel
/* Run it with a copy of args.  One at a time on a device; several devices may be one GPU. */
int xpu_device_launch(struct xpu_device *device, const char *name, void (*kernel)(void *args),
		      const void *args, size_t len, unsigned blocks, unsigned threads);
/* Until it has ended.  -FI_ETIMEDOUT after timeout milliseconds; -FI_EIO: it died. */
int xpu_device_wait(struct xpu_device *device, int timeout);

/* In cuda_device.c. */
int cuda_device_open(int number, struct xpu_device **device);

#endif
