/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CPU device, what its files share.
 *
 *   cpu_device.c           devices and their memory, as the program sees them
 *   cpu_device_run.c       the threads of a launch, and what they have in common
 *   cpu_device_process.c   a device that is a process: the host's side
 *   cpu_device_server.c    the process
 *   cpu_device_wire.c      what the two say to each other
 */
#ifndef CPU_DEVICE_OWN_H
#define CPU_DEVICE_OWN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cpu_device.h"

/* ---- cpu_device.c ---- */

struct cpu_device_memory {
	struct cpu_device_memory *next;
	void *on_device;
	void *on_host; /* NULL: nothing is mapped here for it */
	size_t len;    /* whole pages */
	bool imported; /* on_host is the program's */
};

struct cpu_device;
struct cpu_run;

/* What the two modes do, each in its way.  0 or a negative errno code. */
struct cpu_device_ways {
	/* ended: where the device writes a byte at a launch's end; it takes the fd in any case. */
	int (*open)(struct cpu_device *device, int ended);
	void (*close)(struct cpu_device *device); /* nothing runs, or it ends here */
	int (*map)(struct cpu_device *device, int fd, size_t len, size_t align, void **on_device);
	void (*unmap)(struct cpu_device *device, void *on_device, size_t len);
	int (*launch)(struct cpu_device *device, cpu_device_kernel *kernel, const void *args,
		      size_t len, unsigned blocks, unsigned threads);
	void (*ended)(struct cpu_device *device); /* the launch has, or the device has died */
	int (*kill)(struct cpu_device *device);
	bool apart; /* the device has addresses of its own */
};

struct cpu_device {
	struct cpu_device *next; /* under the lock of all devices */
	uint64_t number;
	const struct cpu_device_ways *ways;
	pthread_mutex_t lock; /* memory, and talk with a process */
	struct cpu_device_memory *memory;
	_Atomic uint64_t allocs, imports, frees;
	int ended;    /* owned; tells of a launch's end, and of a process's */
	bool running; /* launched, and not known to have ended */
	atomic_bool dead;
	/* A process: */
	pid_t pid;  /* 0: there is none any more */
	int socket; /* owned */
	/* Threads: */
	struct cpu_run *run;
};

extern const struct cpu_device_ways cpu_device_process, cpu_device_threads;

/* Maps len bytes of fd, whole pages, near a place or anywhere (0), at a multiple of align.  NULL: no room. */
void *cpu_device_map(uintptr_t near, int fd, size_t len, size_t align);

/* ---- cpu_device_run.c ---- */

/*
 * Makes the threads, which wait; once they go, and all have returned, a byte is written to ended.  -EAGAIN,
 * -ENOMEM: there is none.
 */
int cpu_run_new(struct cpu_run **run, cpu_device_kernel *kernel, const void *args, size_t len,
		unsigned blocks, unsigned threads, int ended);
void cpu_run_go(struct cpu_run *run);
/* Waits for their end, and frees. */
void cpu_run_end(struct cpu_run *run);

/* ---- cpu_device_wire.c ---- */

enum cpu_device_word {
	CPU_DEVICE_HELLO, /* address: where its memory begins; with the fd that is told of ends */
	CPU_DEVICE_MAP,	  /* len, align; with the memory's fd; answer: the address */
	CPU_DEVICE_UNMAP, /* address, len */
	CPU_DEVICE_RUN	  /* address: of the kernel, from the program's start; len bytes of args */
};

struct cpu_device_ask {
	enum cpu_device_word word;
	uint32_t blocks, threads;
	uint64_t address, len, align;
	unsigned char args[CPU_DEVICE_ARGS];
};

struct cpu_device_answer {
	int status;
	uint64_t address;
};

/* fd: -1, or goes along.  -EPIPE: nobody listens. */
int cpu_device_send(int socket, const void *data, size_t len, int fd);
/* fd: NULL, or what came along, the caller's now, else -1.  -EPIPE: nobody talks, or sense. */
int cpu_device_receive(int socket, void *data, size_t len, int *fd);

/* ---- cpu_device_server.c ---- */

/* The environment's variable that makes this program a device: its value is the parent's process number. */
extern const char cpu_device_variable[];

/* In the device's process. */
#define CPU_DEVICE_SOCKET 3

#endif
