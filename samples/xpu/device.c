/* SPDX-License-Identifier: BSD-2-Clause */
/* See device.h: the choice, and the CPU device behind the calls. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include "cpu_device.h"

struct cpu {
	struct xpu_device device;
	struct cpu_device *own;
};

static struct cpu *cpu_of(struct xpu_device *device)
{
	return (struct cpu *)device;
}

/* The CPU device's errno code, as the codes here are. */
static int from_cpu(const char *call, int ret)
{
	switch (ret) {
	case 0:
		return 0;
	case -ETIMEDOUT:
		return sample_fail(call, -FI_ETIMEDOUT);
	case -ENOMEM:
		return sample_fail(call, -FI_ENOMEM);
	case -EBUSY:
		return sample_fail(call, -FI_EBUSY);
	default:
		return sample_fail(call, -FI_EIO);
	}
}

static int cpu_alloc(struct xpu_device *device, size_t len, struct xpu_memory *memory)
{
	void *on_device, *on_host;
	int ret = cpu_device_alloc(cpu_of(device)->own, len, &on_device, &on_host);

	if (ret)
		return from_cpu("allocating on the CPU device", ret);
	*memory = (struct xpu_memory){ on_device, on_host, len };
	return 0;
}

static void cpu_free(struct xpu_device *device, struct xpu_memory *memory)
{
	cpu_device_free(cpu_of(device)->own, memory->on_device);
}

static int cpu_write(struct xpu_device *device, void *on_host, const void *from, size_t len)
{
	(void)device;
	memcpy(on_host, from, len);
	return 0;
}

static int cpu_read(struct xpu_device *device, void *to, const void *on_host, size_t len)
{
	(void)device;
	memcpy(to, on_host, len);
	return 0;
}

static int cpu_launch(struct xpu_device *device, const char *name, void (*kernel)(void *args),
		      const void *args, size_t len, unsigned blocks, unsigned threads)
{
	return from_cpu(name,
			cpu_device_launch(cpu_of(device)->own, kernel, args, len, blocks, threads));
}

static int cpu_wait(struct xpu_device *device, int timeout)
{
	return from_cpu("a kernel on the CPU device",
			cpu_device_wait(cpu_of(device)->own, timeout));
}

static void cpu_close(struct xpu_device *device)
{
	cpu_device_close(cpu_of(device)->own);
	free(device);
}

static const struct xpu_device_ops cpu_ops = {
	.alloc = cpu_alloc,
	.free = cpu_free,
	.write = cpu_write,
	.read = cpu_read,
	.launch = cpu_launch,
	.wait = cpu_wait,
	.close = cpu_close,
};

static int cpu_open(const char *name, enum cpu_device_mode mode, struct xpu_device **device)
{
	struct cpu *cpu = calloc(1, sizeof(*cpu));
	int ret;

	if (!cpu)
		return sample_fail("opening a CPU device", -FI_ENOMEM);
	ret = cpu_device_open(mode, &cpu->own);
	if (ret) {
		free(cpu);
		return from_cpu("opening a CPU device", ret);
	}
	cpu->device = (struct xpu_device){
		.ops = &cpu_ops,
		.attr = { .iface = FI_HMEM_SYSTEM,
			  .device = cpu_device_number(cpu->own),
			  .ops = cpu_device_ops() },
		.place = { .iface = FI_HMEM_SYSTEM },
		.name = name,
		.subgroup = CPU_DEVICE_SUBGROUP,
	};
	*device = &cpu->device;
	return 0;
}

int xpu_device_open(const char *name, struct xpu_device **device)
{
	char *end;
	long number = 0;

	*device = NULL;
	if (!strcmp(name, "cpu"))
		return cpu_open("cpu", CPU_DEVICE_PROCESS, device);
	if (!strcmp(name, "threads"))
		return cpu_open("threads", CPU_DEVICE_THREADS, device);
	if (!strncmp(name, "cuda:", 5)) {
		number = strtol(name + 5, &end, 10);
		if (!name[5] || *end || number < 0 || number > 255)
			name = "";
	}
	if (!strncmp(name, "cuda", 4) && (!name[4] || name[4] == ':'))
		return cuda_device_open((int)number, device);
	fputs("a device is \"cpu\", \"threads\", \"cuda\" or \"cuda:NUMBER\"\n", stderr);
	return -FI_EINVAL;
}

void xpu_device_close(struct xpu_device *device)
{
	if (device)
		device->ops->close(device);
}

int xpu_device_alloc(struct xpu_device *device, size_t len, struct xpu_memory *memory)
{
	return device->ops->alloc(device, len, memory);
}

void xpu_device_free(struct xpu_device *device, struct xpu_memory *memory)
{
	if (memory->len)
		device->ops->free(device, memory);
	memset(memory, 0, sizeof(*memory));
}

int xpu_device_write(struct xpu_device *device, void *on_host, const void *from, size_t len)
{
	return device->ops->write(device, on_host, from, len);
}

int xpu_device_read(struct xpu_device *device, void *to, const void *on_host, size_t len)
{
	return device->ops->read(device, to, on_host, len);
}

int xpu_device_launch(struct xpu_device *device, const char *name, void (*kernel)(void *args),
		      const void *args, size_t len, unsigned blocks, unsigned threads)
{
	return device->ops->launch(device, name, kernel, args, len, blocks, threads);
}

int xpu_device_wait(struct xpu_device *device, int timeout)
{
	return device->ops->wait(device, timeout);
}
