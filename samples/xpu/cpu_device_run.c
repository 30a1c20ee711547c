/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CPU device, the threads of a launch: see kernel.h, cpu_device_own.h.
 *
 * All of a launch run at once, however many there are, so that a kernel may wait for any of its threads.
 * They are more than processors: who waits for another gives the processor away soon.
 */
#include "kernel.h"
#include "cpu_device_own.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_SIZE   (512u * 1024u) /* room for sanitizers; pages that are not touched cost nothing */
#define BARRIER_SPIN 64

/* The last that comes lets all go, and the next round begins. */
struct barrier {
	uint32_t size;
	_Atomic uint32_t arrived, round, sleepers;
	/*
	 * What rank 0 gave, in even and odd rounds: who is late with reading it has not come to the next
	 * round, so the one after that, which writes here again, cannot begin.
	 */
	long long shared[2];
};

struct thread {
	struct cpu_run *run;
	unsigned block, number;
	pthread_t id;
};

enum gate {
	GATE_CLOSED,
	GATE_OPEN,
	GATE_CANCELLED
};

struct cpu_run {
	cpu_device_kernel *kernel;
	void *args;
	unsigned blocks, threads; /* of a block */
	unsigned subgroups;	  /* of a block */
	struct thread *each;
	struct barrier *barriers; /* of the launch, its blocks, their subgroups */
	_Atomic uint32_t gate;	  /* until every thread is there */
	unsigned started;
	pthread_t joiner;
	int ended;
};

/* Of a thread that is no device's: NULL, it is alone. */
static _Thread_local const struct thread *self;

/* ---- waiting ---- */

static void sleep_while(_Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load_explicit(word, memory_order_acquire) == value)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void barrier_wait(struct barrier *barrier)
{
	uint32_t round = atomic_load_explicit(&barrier->round, memory_order_acquire);
	uint32_t before = atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel);

	if (before + 1 == barrier->size) {
		atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
		/* In one order with the sleepers: they see the new round, or are seen. */
		atomic_store(&barrier->round, round + 1);
		if (atomic_load(&barrier->sleepers))
			wake_all(&barrier->round);
		return;
	}
	for (int i = 0; i < BARRIER_SPIN; i++)
		if (atomic_load_explicit(&barrier->round, memory_order_acquire) != round)
			return;
	atomic_fetch_add(&barrier->sleepers, 1);
	sleep_while(&barrier->round, round);
	atomic_fetch_sub(&barrier->sleepers, 1);
}

/* ---- what kernels ask ---- */

unsigned xpu_thread(void)
{
	return self ? self->number : 0;
}

unsigned xpu_threads(void)
{
	return self ? self->run->threads : 1;
}

unsigned xpu_block(void)
{
	return self ? self->block : 0;
}

unsigned xpu_blocks(void)
{
	return self ? self->run->blocks : 1;
}

unsigned cpu_device_rank(int scope)
{
	switch (scope) {
	case FI_XPU_SUBGROUP:
		return xpu_thread() % CPU_DEVICE_SUBGROUP;
	case FI_XPU_WORK_GROUP:
		return xpu_thread();
	case FI_XPU_DEVICE:
		return xpu_block() * xpu_threads() + xpu_thread();
	default:
		return 0;
	}
}

static unsigned subgroup_size(unsigned threads, unsigned subgroup)
{
	unsigned rest = threads - subgroup * CPU_DEVICE_SUBGROUP;

	return rest < CPU_DEVICE_SUBGROUP ? rest : CPU_DEVICE_SUBGROUP;
}

unsigned cpu_device_size(int scope)
{
	switch (scope) {
	case FI_XPU_SUBGROUP:
		return subgroup_size(xpu_threads(), xpu_thread() / CPU_DEVICE_SUBGROUP);
	case FI_XPU_WORK_GROUP:
		return xpu_threads();
	case FI_XPU_DEVICE:
		return xpu_blocks() * xpu_threads();
	default:
		return 1;
	}
}

/* NULL: the thread is alone in the scope. */
static struct barrier *barrier_of(int scope)
{
	const struct cpu_run *run = self ? self->run : NULL;

	if (!run || cpu_device_size(scope) == 1)
		return NULL;
	switch (scope) {
	case FI_XPU_SUBGROUP:
		return &run->barriers[1 + run->blocks + self->block * run->subgroups +
				      self->number / CPU_DEVICE_SUBGROUP];
	case FI_XPU_WORK_GROUP:
		return &run->barriers[1 + self->block];
	default:
		return &run->barriers[0];
	}
}

void cpu_device_sync(int scope)
{
	struct barrier *barrier = barrier_of(scope);

	if (barrier)
		barrier_wait(barrier);
}

long long cpu_device_share(int scope, long long value)
{
	struct barrier *barrier = barrier_of(scope);
	long long *shared;

	if (!barrier)
		return value;
	shared = &barrier->shared[atomic_load_explicit(&barrier->round, memory_order_acquire) % 2];
	if (cpu_device_rank(scope) == 0)
		*shared = value;
	barrier_wait(barrier);
	return *shared;
}

/* ---- launches ---- */

static void *thread_main(void *argument)
{
	struct thread *thread = argument;
	struct cpu_run *run = thread->run;

	sleep_while(&run->gate, GATE_CLOSED);
	if (atomic_load_explicit(&run->gate, memory_order_acquire) == GATE_OPEN) {
		self = thread;
		run->kernel(run->args);
		self = NULL;
	}
	return NULL;
}

static void open_gate(struct cpu_run *run, enum gate gate)
{
	atomic_store_explicit(&run->gate, gate, memory_order_release);
	wake_all(&run->gate);
}

static void *joiner_main(void *argument)
{
	struct cpu_run *run = argument;

	for (unsigned i = 0; i < run->started; i++)
		pthread_join(run->each[i].id, NULL);
	send(run->ended, "", 1, MSG_NOSIGNAL);
	return NULL;
}

static void run_free(struct cpu_run *run)
{
	free(run->barriers);
	free(run->each);
	free(run->args);
	free(run);
}

static struct cpu_run *run_alloc(const void *args, size_t len, unsigned blocks, unsigned threads)
{
	struct cpu_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->blocks = blocks;
	run->threads = threads;
	run->subgroups = (threads + CPU_DEVICE_SUBGROUP - 1) / CPU_DEVICE_SUBGROUP;
	run->args = malloc(len ? len : 1);
	run->each = calloc((size_t)blocks * threads, sizeof(*run->each));
	run->barriers = calloc(1 + (size_t)blocks * (1 + run->subgroups), sizeof(*run->barriers));
	if (!run->args || !run->each || !run->barriers) {
		run_free(run);
		return NULL;
	}
	if (len)
		memcpy(run->args, args, len);
	return run;
}

static void size_barriers(struct cpu_run *run)
{
	struct barrier *next = run->barriers;

	next++->size = run->blocks * run->threads;
	for (unsigned b = 0; b < run->blocks; b++)
		next++->size = run->threads;
	for (unsigned b = 0; b < run->blocks; b++)
		for (unsigned s = 0; s < run->subgroups; s++)
			next++->size = subgroup_size(run->threads, s);
}

/* started says how many there are. */
static int start_threads(struct cpu_run *run)
{
	unsigned all = run->blocks * run->threads;
	pthread_attr_t attr;
	int rc;

	rc = pthread_attr_init(&attr);
	if (rc)
		return -rc;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	for (unsigned i = 0; i < all && !rc; i++) {
		struct thread *thread = &run->each[i];

		*thread = (struct thread){ run, i / run->threads, i % run->threads, 0 };
		rc = pthread_create(&thread->id, &attr, thread_main, thread);
		run->started += !rc;
	}
	pthread_attr_destroy(&attr);
	return -rc;
}

int cpu_run_new(struct cpu_run **out, cpu_device_kernel *kernel, const void *args, size_t len,
		unsigned blocks, unsigned threads, int ended)
{
	struct cpu_run *run = run_alloc(args, len, blocks, threads);
	int rc;

	if (!run)
		return -ENOMEM;
	run->kernel = kernel;
	run->ended = ended;
	size_barriers(run);
	rc = start_threads(run);
	if (!rc)
		rc = -pthread_create(&run->joiner, NULL, joiner_main, run);
	if (rc) {
		open_gate(run, GATE_CANCELLED);
		for (unsigned i = 0; i < run->started; i++)
			pthread_join(run->each[i].id, NULL);
		run_free(run);
		return rc;
	}
	*out = run;
	return 0;
}

void cpu_run_go(struct cpu_run *run)
{
	open_gate(run, GATE_OPEN);
}

void cpu_run_end(struct cpu_run *run)
{
	if (!run)
		return;
	pthread_join(run->joiner, NULL);
	run_free(run);
}
