/* SPDX-License-Identifier: BSD-2-Clause */
/* The last events, of all threads, in a ring. */
#include <inttypes.h>

#include "tests/stress/fresh.h"

#define EVENTS	(UINT64_C(1) << 17)
#define PRINTED 300u

struct event {
	_Atomic uint64_t number; /* from 1; 0: being written */
	_Atomic(const char *) what;
	_Atomic uint64_t begin, end, detail;
	_Atomic uint32_t thread;
};

static struct event ring[EVENTS];
static _Atomic uint64_t next;
static _Atomic uint32_t threads;
static _Thread_local uint32_t mine __attribute__((tls_model("initial-exec")));

void fresh_note(const char *what, uintptr_t begin, uintptr_t end, uint64_t detail)
{
	uint64_t number = atomic_fetch_add(&next, 1) + 1;
	struct event *event = &ring[number % EVENTS];

	if (mine == 0)
		mine = atomic_fetch_add(&threads, 1) + 1;
	atomic_store(&event->number, 0);
	atomic_store_explicit(&event->what, what, memory_order_relaxed);
	atomic_store_explicit(&event->begin, begin, memory_order_relaxed);
	atomic_store_explicit(&event->end, end, memory_order_relaxed);
	atomic_store_explicit(&event->detail, detail, memory_order_relaxed);
	atomic_store_explicit(&event->thread, mine, memory_order_relaxed);
	atomic_store(&event->number, number);
}

static bool is_about(uint64_t number, uintptr_t begin, uintptr_t end)
{
	const struct event *event = &ring[number % EVENTS];

	return atomic_load(&event->number) == number && atomic_load(&event->begin) < end &&
	       atomic_load(&event->end) > begin;
}

void fresh_print_history(uintptr_t begin, uintptr_t end)
{
	uint64_t last = atomic_load(&next), first = last > EVENTS ? last - EVENTS + 1 : 1;
	unsigned lines = 0;
	uint64_t from = last + 1;

	while (from > first && lines < PRINTED)
		lines += is_about(--from, begin, end);
	fprintf(stderr, "what happened to [%#" PRIxPTR ", %#" PRIxPTR "), at last:\n", begin, end);
	for (; from <= last; from++) {
		const struct event *event = &ring[from % EVENTS];

		if (is_about(from, begin, end))
			fprintf(stderr,
				"%9" PRIu64 " thread %2" PRIu32 " [%#" PRIx64 ", %#" PRIx64
				") %s %#" PRIx64 "\n",
				from, atomic_load(&event->thread), atomic_load(&event->begin),
				atomic_load(&event->end), atomic_load(&event->what),
				atomic_load(&event->detail));
	}
}
