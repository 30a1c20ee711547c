/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of cache_bench share.  A cache that is measured, with or without its monitor, is a subject.
 * Each subject has a process of its own for each row, since some change the C library's code to learn
 * of unmapped memory; the process that prints has them measure in turns, round by round.
 *
 *   cache_bench.c    the turns, medians and ratios
 *   cache_worker.c   a subject's process; clock, processors, threads
 *   cache_rows.h     what is measured, compiled into each subject so that its functions are called directly
 *   cache_ours.c, cache_ucx.c, cache_bare.c   the subjects
 */
#ifndef CACHE_BENCH_H
#define CACHE_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_VALUES  4
#define PAGE	     ((size_t)4096)
#define BATCH	     1000 /* rounds that are timed together */
#define MOST_BATCHES 20000

/* What a row's figures are. */
enum kind {
	KIND_TIME,  /* less is better */
	KIND_ADDED, /* the same; what is more than on a machine without a cache counts */
	KIND_RATE   /* more is better */
};

struct row_def {
	const char *name;
	const char *value[MOST_VALUES]; /* what a round measures; "" for one that needs no name */
	const char *unit;
	enum kind kind;
	long regions;
};

enum row {
	ROW_HIT_1,
	ROW_HIT_100,
	ROW_HIT_10K,
	ROW_HIT_1M,
	ROW_HIT_PART,
	ROW_HIT_MIXED,
	ROW_HIT_MIXED_PART,
	ROW_THREADS_SAME,
	ROW_THREADS_10K,
	ROW_THREADS_CACHES,
	ROW_THREADS_MISS,
	ROW_TAIL,
	ROW_UNMAP_10K,
	ROW_UNMAP_1M,
	ROW_UNMAP_BUSY_10K,
	ROW_UNMAP_BUSY_1M,
	ROW_UNMAP_CACHED,
	ROW_MALLOC,
	ROW_MALLOC_MAPPED,
	ROW_INVALIDATED,
	ROW_MISS,
	ROW_MISS_EVICT,
	ROW_MEMORY,
	ROW_MEMORY_UNALIGNED,
	ROW_COUNT
};
extern const struct row_def row_defs[ROW_COUNT];

/* How long a round lasts, and the most regions: less for a trial. */
struct effort {
	double slice_ns;
	long most_regions;
};
extern struct effort effort;

struct row_code {
	void *(*begin)(const struct row_def *row);
	void (*round)(void *state, double *value);
};

struct subject {
	const char *name;
	const char *env[3]; /* of its process: NAME=VALUE; NULL at the end */
	/* False: it is not to be had on this machine, and why says so. */
	bool (*start)(const struct subject *subject, char *why, size_t size);
	const struct row_code *row; /* by enum row; begin NULL: this subject does not have it */
	bool monitored;
};

extern const struct subject subject_bare, subject_ours_off, subject_ours_hooks, subject_ours_uffd,
	subject_ucx_off, subject_ucx;

/* ---- cache_worker.c ---- */

/* The process of one subject and row: a round for each line of standard input. */
int worker_main(const struct subject *subject, enum row row);

/* Run on the n-th processor that this process may use, if there are as many. */
void pin(unsigned n);
/* What a pair of calls of now_ns takes. */
double clock_cost(void);
size_t resident_bytes(void);
/* Address space without memory. */
char *reserve(size_t len);
/* The same in parts that the kernel keeps apart, so that unmapping one splits nothing. */
char *reserve_parts(size_t count, size_t len);
/* Addresses where nothing is mapped, nor will be without being asked for there. */
char *reserve_nothing(size_t len);

/* What registers calls this: nothing, or a wait of registration_ns. */
extern double registration_ns;
void wait_ns(double ns);
static inline void bench_registration(void)
{
	if (__builtin_expect(registration_ns != 0, 0))
		wait_ns(registration_ns);
}

/* A thread's work in batches, until it is told to stop. */
struct runner {
	_Alignas(128) void (*batch)(struct runner *runner);
	void *cache;
	char *area;
	long regions;
	long size;		    /* rounds of a batch */
	uint64_t at;		    /* where the batch goes on */
	_Atomic uint64_t progress;  /* batches */
	const struct runner *other; /* that runs at the same time; NULL: none */
	double run[MOST_BATCHES];   /* ns of each batch that the other went on in */
	size_t batches;
	unsigned processor;
	_Atomic bool *stop;
	_Atomic unsigned *ready;
	unsigned threads;
};

/*
 * This many threads at once for a round; their rounds per second together, of each by its median batch.  Batches
 * count in which the other did one as well: where there is other work, the two do not always run together.
 */
double run_together(struct runner *runner, unsigned threads);
/* Start the second thread of a row; stop it. */
struct companion;
struct companion *companion_start(struct runner *runner);
void companion_stop(struct companion *companion);

#endif
