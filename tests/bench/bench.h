/* SPDX-License-Identifier: BSD-2-Clause */
/* What the benchmarks share: the clock, medians, and figures as they are printed. */
#ifndef BENCH_H
#define BENCH_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 9

static bool tsv; /* set by main */

/* One figure: name<TAB>value<TAB>unit, or a line for people. */
static inline void figure(double value, const char *unit, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static inline void figure(double value, const char *unit, const char *format, ...)
{
	char name[128];
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	if (tsv)
		printf("%s\t%.2f\t%s\n", name, value, unit);
	else
		printf("%-44s %12.2f %s\n", name, value, unit);
	fflush(stdout);
}

/* A benchmark that cannot do its work ends. */
static inline void check(long ret, const char *what)
{
	if (ret == 0)
		return;
	fprintf(stderr, "benchmark: %s: %ld (%s)\n", what, ret, strerror((int)-ret));
	exit(1);
}

static inline double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double median_of(double *run, size_t count)
{
	qsort(run, count, sizeof(run[0]), by_value);
	return run[count / 2];
}

typedef void bench_work(void *arg, long n);

/* ns per round of one call of work with n rounds. */
static inline double time_of(bench_work *work, void *arg, long n)
{
	double start = now_ns();

	work(arg, n);
	return (now_ns() - start) / (double)n;
}

/* The median of RUNS calls of work, each of n rounds, in ns per round. */
static inline double measure(bench_work *work, void *arg, long n)
{
	double run[RUNS];

	work(arg, n / 10 + 1);
	for (int i = 0; i < RUNS; i++)
		run[i] = time_of(work, arg, n);
	return median_of(run, RUNS);
}

#endif
