/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memhooks, at start: each way in which memory goes is gone, and it is seen whether a report comes.  What the
 * library calls here, it calls as any other object does, through its words.
 */
#include "core/mr/monitor_hooks.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRIAL ((size_t)1 << 16)	 /* bytes that are mapped */
#define BIG   ((size_t)40 << 20) /* a block with a mapping of its own */
#define INNER ((size_t)16 << 20) /* a block in the heap, beyond what is usually kept there */

/* Reports of this address count. */
static void look_for(const void *at)
{
	atomic_store(&hm_hooks_trial.reports, 0);
	atomic_store(&hm_hooks_trial.calls, 0);
	atomic_store(&hm_hooks_trial.at, (uint64_t)(uintptr_t)at);
}

static bool was_reported(void)
{
	return atomic_load(&hm_hooks_trial.reports) > 0;
}

static bool was_called(void)
{
	return atomic_load(&hm_hooks_trial.calls) > 0;
}

static char *map_trial(void)
{
	char *at = mmap(NULL, TRIAL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* ---- the trials: true: a report came, or there is no such thing here ---- */

static bool try_mmap(void)
{
	char *at = map_trial();
	bool seen;

	if (!at)
		return true;
	look_for(at);
	seen = mmap(at, TRIAL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		       MAP_FAILED ||
	       was_reported();
	munmap(at, TRIAL);
	return seen;
}

static bool try_munmap(void)
{
	char *at = map_trial();

	look_for(at);
	return !at || munmap(at, TRIAL) != 0 || was_reported();
}

static bool try_mremap(void)
{
	char *at = map_trial(), *to = MAP_FAILED;
	bool seen;

	if (!at)
		return true;
	look_for(at);
	to = mremap(at, TRIAL, 2 * TRIAL, MREMAP_MAYMOVE);
	seen = to == MAP_FAILED || was_reported();
	if (to != MAP_FAILED)
		munmap(to, 2 * TRIAL);
	else
		munmap(at, TRIAL);
	return seen;
}

static bool try_madvise(void)
{
	char *at = map_trial();
	bool seen;

	if (!at)
		return true;
	look_for(at);
	seen = madvise(at, TRIAL, MADV_DONTNEED) != 0 || was_reported();
	munmap(at, TRIAL);
	return seen;
}

static bool try_syscall(void)
{
	char *at = map_trial();

	look_for(at);
	return !at || syscall(SYS_munmap, at, TRIAL) != 0 || was_reported();
}

/* The break is not moved: others may move it meanwhile. */
static bool try_brk(void)
{
	look_for(&hm_hooks_trial);
	return brk((void *)UINTPTR_MAX) == 0 || was_called();
}

static bool try_sbrk(void)
{
	look_for(&hm_hooks_trial);
	return sbrk(0) == (void *)-1 || was_called();
}

static bool try_shmdt(void)
{
	int id = shmget(IPC_PRIVATE, TRIAL, IPC_CREAT | 0600);
	bool seen = true;
	void *at;

	if (id < 0)
		return true;
	at = shmat(id, NULL, 0);
	if (at != (void *)-1) {
		look_for((char *)at + TRIAL - 1);
		seen = shmdt(at) != 0 || was_reported();
	}
	shmctl(id, IPC_RMID, NULL);
	return seen;
}

/* Is the page there, with memory of its own? */
static bool is_resident(const char *at)
{
	uintptr_t page = (uintptr_t)at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	unsigned char present = 0;

	return mincore((void *)page, 1, &present) == 0 && (present & 1);
}

static bool all_are_reported(void)
{
	return hm_hooks_blocks() == HM_BLOCKS_EVERY;
}

/* A block that is freed is reported, or its pages stay where only those that go are. */
static bool try_block(size_t most)
{
	size_t size = all_are_reported() ? TRIAL : most;
	volatile char *block = malloc(size);
	const char *middle = (const char *)block + size / 2;
	void *volatile freed = (void *)block;

	if (!block)
		return true;
	block[size / 2] = 1;
	look_for(middle);
	free(freed);
	return was_reported() || (hm_hooks_blocks() != HM_BLOCKS_EVERY && is_resident(middle));
}

static bool try_free(void)
{
	return try_block(BIG) && try_block(INNER);
}

/* Other allocators may copy it all, and give it back as they do by free. */
static bool try_realloc(void)
{
	size_t size = all_are_reported() ? TRIAL : BIG;
	char *block = hm_hooks_blocks() == HM_BLOCKS_OTHER ? NULL : malloc(size);
	void *bigger;
	bool seen;

	if (!block)
		return true;
	look_for(block + size / 2);
	bigger = realloc(block, 2 * size);
	seen = !bigger || was_reported() || bigger == block;
	free(bigger ? bigger : block);
	return seen;
}

/* Threads have other arenas. */
static void *try_arena(void *arg)
{
	*(bool *)arg = try_block(INNER);
	return NULL;
}

static void *on_stack(void *arg)
{
	look_for(&arg);
	return NULL;
}

static void in_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg) == 0)
		pthread_join(thread, NULL);
}

static bool try_free_in_thread(void)
{
	bool seen = true;

	in_thread(try_arena, &seen);
	return seen;
}

static bool try_thread(void)
{
	look_for(NULL);
	in_thread(on_stack, NULL);
	return atomic_load(&hm_hooks_trial.at) == 0 || was_reported();
}

/* once: what allocators do with their blocks stays so while the process lives. */
static const struct {
	const char *name;
	bool (*run)(void);
	bool once;
} trials[] = {
	{ "mmap", try_mmap, false },
	{ "munmap", try_munmap, false },
	{ "mremap", try_mremap, false },
	{ "madvise", try_madvise, false },
	{ "syscall", try_syscall, false },
	{ "brk", try_brk, false },
	{ "sbrk", try_sbrk, false },
	{ "shmdt", try_shmdt, false },
	{ "free", try_free, true },
	{ "realloc", try_realloc, true },
	{ "free in a thread", try_free_in_thread, true },
	{ "a thread's end", try_thread, false },
};

bool hm_hooks_try(char *why, size_t size)
{
	static _Atomic bool passed;
	bool ok = true;
	int err = errno;

	for (unsigned i = 0; i < sizeof(trials) / sizeof(trials[0]) && ok; i++) {
		if (trials[i].once && atomic_load(&passed))
			continue;
		ok = trials[i].run();
		if (!ok)
			snprintf(why, size, "memory changed by %s is not seen here",
				 trials[i].name);
	}
	look_for(NULL);
	if (ok)
		atomic_store(&passed, true);
	errno = err;
	return ok;
}
