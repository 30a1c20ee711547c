/* SPDX-License-Identifier: BSD-2-Clause */
/* A subject's process, and what rows need: processors, threads, memory. */
#include "tests/bench/cache_bench.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/bench.h"

/* Batches that the other thread does in one of this: else one of them was not running. */
#define TOGETHER 8u

double registration_ns;

int worker_main(const struct subject *subject, enum row row)
{
	char why[256] = "", line[16];
	void *state;

	pin(0);
	if (!subject->start(subject, why, sizeof(why))) {
		printf("no %s\n", why);
		return 0;
	}
	state = subject->row[row].begin(&row_defs[row]);
	puts("yes");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		double value[MOST_VALUES] = { 0 };

		subject->row[row].round(state, value);
		for (unsigned i = 0; i < MOST_VALUES; i++)
			printf("%.4f%c", value[i], i + 1 < MOST_VALUES ? ' ' : '\n');
		fflush(stdout);
	}
	fflush(stdout);
	_exit(0); /* what is cached ends with the process */
}

void pin(unsigned n)
{
	static cpu_set_t allowed;
	cpu_set_t one;

	if (CPU_COUNT(&allowed) == 0)
		sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (!CPU_ISSET(cpu, &allowed) || n-- != 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one),
				  &one); /* the figures are as good as the machine lets them */
	}
}

double clock_cost(void)
{
	double run[101];

	for (unsigned i = 0; i < 101; i++) {
		run[i] = now_ns();
		run[i] = now_ns() - run[i];
	}
	return median_of(run, 101);
}

size_t resident_bytes(void)
{
	unsigned long total = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	check(f && fscanf(f, "%lu %lu", &total, &resident) == 2 ? 0 : -1, "/proc/self/statm");
	fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

char *reserve(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	check(p == MAP_FAILED ? -12 : 0, "mmap");
	return p;
}

char *reserve_parts(size_t count, size_t len)
{
	char *area = reserve(count * len);

	for (size_t i = 1; i < count; i += 2)
		check(mprotect(area + i * len, len, PROT_READ), "mprotect");
	return area;
}

char *reserve_nothing(size_t len)
{
	/* far below where the kernel puts mappings of its own choice */
	char *want = (char *)((UINTPTR_MAX >> 20) & ~(PAGE - 1)), *area;

	area = mmap(want, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(area == MAP_FAILED ? -12 : 0, "mmap");
	check(munmap(area, len), "munmap");
	return area;
}

void wait_ns(double ns)
{
	double until = now_ns() + ns;

	while (now_ns() < until)
		;
}

/* ---- threads ---- */

static uint64_t progress_of(const struct runner *runner)
{
	return runner ? atomic_load_explicit(&runner->progress, memory_order_relaxed) : 0;
}

static void *run_thread(void *arg)
{
	struct runner *runner = arg;

	pin(runner->processor);
	runner->batch(runner);
	atomic_fetch_add(runner->ready, 1);
	while (atomic_load_explicit(runner->ready, memory_order_relaxed) < runner->threads)
		sched_yield();
	runner->batches = 0;
	while (!atomic_load_explicit(runner->stop, memory_order_relaxed)) {
		uint64_t its = progress_of(runner->other);
		double before = now_ns(), ns;

		runner->batch(runner);
		ns = now_ns() - before;
		atomic_fetch_add_explicit(&runner->progress, 1, memory_order_relaxed);
		if (runner->batches < MOST_BATCHES &&
		    (!runner->other || progress_of(runner->other) - its - 1 < TOGETHER))
			runner->run[runner->batches++] = ns;
	}
	return NULL;
}

static void sleep_ns(double ns)
{
	struct timespec t = { (time_t)(ns / 1e9), (long)ns % 1000000000L };

	nanosleep(&t, NULL);
}

double run_together(struct runner *runner, unsigned threads)
{
	pthread_t thread[2];
	_Atomic bool stop = false;
	_Atomic unsigned ready = 0;
	double rate = 0;

	for (unsigned t = 0; t < threads; t++) {
		runner[t].stop = &stop;
		runner[t].ready = &ready;
		runner[t].threads = threads;
		runner[t].processor = t;
		runner[t].other = threads > 1 ? &runner[1 - t] : NULL;
		check(-pthread_create(&thread[t], NULL, run_thread, &runner[t]), "thread");
	}
	while (atomic_load(&ready) < threads)
		sched_yield();
	sleep_ns(effort.slice_ns);
	atomic_store(&stop, true);
	for (unsigned t = 0; t < threads; t++) {
		pthread_join(thread[t], NULL);
		if (runner[t].batches > 0)
			rate += (double)runner[t].size * 1e9 /
				median_of(runner[t].run, runner[t].batches);
	}
	return rate;
}

struct companion {
	pthread_t thread;
	_Atomic bool stop;
	_Atomic unsigned ready;
};

struct companion *companion_start(struct runner *runner)
{
	struct companion *companion = calloc(1, sizeof(*companion));

	check(companion ? 0 : -12, "memory");
	runner->stop = &companion->stop;
	runner->ready = &companion->ready;
	runner->threads = 1;
	runner->processor = 1;
	check(-pthread_create(&companion->thread, NULL, run_thread, runner), "thread");
	while (atomic_load(&companion->ready) == 0)
		sched_yield();
	return companion;
}

void companion_stop(struct companion *companion)
{
	atomic_store(&companion->stop, true);
	pthread_join(companion->thread, NULL);
	free(companion);
}
