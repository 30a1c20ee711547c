/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that is made of processors: it runs kernels which use fi_xpu_device.h, as a GPU would, on any
 * machine.
 *
 * As a PROCESS the device is this program, executed once more with nothing of its parent's: it reaches
 * the memory that was allocated on it and what was imported, at addresses of its own, and a pointer of the
 * host's makes its kernel die: addresses of the process are random, so it has nothing there.  It becomes the
 * device before main(), and ends with the process that opened it.  As THREADS the device is threads of this
 * process and reaches everything, at the same addresses, so that sanitizers see both sides.
 *
 * Kernels are functions of the program (kernel.h).  Threads of a launch are in blocks, those of a block in
 * subgroups of CPU_DEVICE_SUBGROUP; all run at once, so each may wait for any other.  Calls on one device are
 * made by one thread at a time; the functions of cpu_device_ops() by any, until the device is closed.
 */
#ifndef CPU_DEVICE_H
#define CPU_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_xpu.h>

#define CPU_DEVICE_SUBGROUP 4u
/* The most threads of a launch, which run all at once, and bytes of its args. */
#define CPU_DEVICE_THREADS_MAX 16384u
#define CPU_DEVICE_ARGS	       4096u

enum cpu_device_mode {
	CPU_DEVICE_PROCESS,
	CPU_DEVICE_THREADS
};

/* Counts to which every alloc and import has its free; for tests, atomic snapshots. */
struct cpu_device_counts {
	uint64_t allocs, imports, frees;
};

struct cpu_device;
typedef void cpu_device_kernel(void *args);

/* Every call returns 0 or a negative errno code, and has then changed nothing.  -ENODEV: the device has died. */

int cpu_device_open(enum cpu_device_mode mode, struct cpu_device **device);
/* With all its memory, but imported pages stay the host's.  A process' kernel ends, a thread's is waited for. */
void cpu_device_close(struct cpu_device *device);

/*
 * For struct fi_xpu_attr: its device number, and the operations, which serve every device of this process.
 * What is imported begins and ends at pages, and is private to who imports it: for a process, other pages with
 * the same content take its place.
 */
uint64_t cpu_device_number(const struct cpu_device *device);
struct fi_xpu_ops *cpu_device_ops(void);
struct cpu_device_counts cpu_device_counts(const struct cpu_device *device);

/*
 * Memory of the device, zeroed: where kernels find it, and where the host does, to be registered with a NIC
 * and looked at after a kernel.
 */
int cpu_device_alloc(struct cpu_device *device, size_t len, void **on_device, void **on_host);
void cpu_device_free(struct cpu_device *device, void *on_device);

/*
 * Run a kernel, with a copy of args, by blocks times threads threads.  -EBUSY: one runs; -E2BIG: beyond the
 * limits above; -EAGAIN: so many threads cannot be had; -EINVAL: also a function of a library's, for a process;
 * -EFAULT: as below.
 */
int cpu_device_launch(struct cpu_device *device, cpu_device_kernel *kernel, const void *args,
		      size_t len, unsigned blocks, unsigned threads);
/*
 * Until it has ended, or timeout milliseconds are over (negative: no limit): -ETIMEDOUT; -EFAULT: it died, as
 * by a stray pointer, and the device is as good as closed.
 */
int cpu_device_wait(struct cpu_device *device, int timeout);
/* The kernel ends where it is, and the device with it.  -ENOTSUP: threads cannot be killed. */
int cpu_device_kill(struct cpu_device *device);

#endif
