/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of cache_bench.  Each subject's file includes this after it has defined
 *
 *   struct hold                                   what a get gives
 *   static void *cache_open(long most, bool fine) a cache of at most so many regions; fine: as ranges begin,
 *                                                 not in pages, where it can
 *   static void cache_close(void *cache)
 *   static void cache_get(void *cache, char *addr, size_t len, struct hold *hold)
 *   static void cache_put(void *cache, struct hold *hold)
 *
 * so that its functions are called as directly as by a program.  It makes row_code.
 */
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/cache_bench.h"

#define MISSES	   4096 /* regions that a cache has room for, where rows evict */
#define MISS_AREA  16384
#define UNMAPS	   64
#define DEAD	   512
#define CACHED_LEN ((size_t)65536)
#define SAMPLES	   (1l << 20)
#define MIXED	   13 /* sizes: 4 KiB to 16 MiB */

struct rows {
	const struct row_def *row;
	void *cache[2];
	char *area;
	long regions;
	uint64_t at;
	struct {
		char *addr;
		size_t len;
	} * mixed;
	double fixed;
	struct runner runner[2];
	uint32_t *sample;
};

static inline uint64_t next_random(uint64_t *at, uint64_t below)
{
	*at = *at * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*at >> 33) * below >> 31;
}

static inline void get_put(void *cache, char *addr, size_t len)
{
	struct hold hold;

	cache_get(cache, addr, len, &hold);
	cache_put(cache, &hold);
}

static void fill(void *cache, char *area, long regions)
{
	for (long i = 0; i < regions; i++)
		get_put(cache, area + (size_t)i * PAGE, PAGE);
}

/*
 * ns of one of the rounds of work, which it does n of: the median of the batches in a slice, most of which a
 * machine with other work leaves alone.
 */
typedef void rows_work(struct rows *rows, long n);

static double time_slice(rows_work *work, struct rows *rows, long n)
{
	static double run[MOST_BATCHES];
	double start = now_ns(), before = start, now;
	size_t batches = 0;

	do {
		work(rows, n);
		now = now_ns();
		run[batches++] = (now - before) / (double)n;
		before = now;
	} while (batches < MOST_BATCHES && (batches < 5 || now - start < effort.slice_ns));
	return median_of(run, batches);
}

static struct rows *new_rows(const struct row_def *row)
{
	struct rows *rows = aligned_alloc(128, (sizeof(*rows) + 127) / 128 * 128);

	check(rows ? 0 : -12, "memory");
	memset(rows, 0, sizeof(*rows));
	rows->row = row;
	rows->regions = row->regions < effort.most_regions ? row->regions : effort.most_regions;
	return rows;
}

static void *begin_filled(const struct row_def *row)
{
	struct rows *rows = new_rows(row);

	rows->area = reserve((size_t)rows->regions * PAGE);
	rows->cache[0] = cache_open(rows->regions + MISS_AREA, false);
	fill(rows->cache[0], rows->area, rows->regions);
	return rows;
}

/* ---- hits ---- */

static void hits(struct rows *rows, long n)
{
	uint64_t at = rows->at;

	for (long i = 0; i < n; i++)
		get_put(rows->cache[0],
			rows->area + next_random(&at, (uint64_t)rows->regions) * PAGE, PAGE);
	rows->at = at;
}

static void round_hit(void *state, double *value)
{
	value[0] = time_slice(hits, state, BATCH);
}

/* A few bytes anywhere in a region. */
static void part_hits(struct rows *rows, long n)
{
	uint64_t at = rows->at;

	for (long i = 0; i < n; i++) {
		char *addr = rows->area + next_random(&at, (uint64_t)rows->regions) * PAGE;

		get_put(rows->cache[0], addr + (at & 0x7ff), 256);
	}
	rows->at = at;
}

static void round_hit_part(void *state, double *value)
{
	value[0] = time_slice(part_hits, state, BATCH);
}

static void *begin_mixed(const struct row_def *row)
{
	struct rows *rows = new_rows(row);
	size_t len = 0;
	char *addr;

	rows->mixed = calloc((size_t)rows->regions, sizeof(*rows->mixed));
	check(rows->mixed ? 0 : -12, "memory");
	for (long i = 0; i < rows->regions; i++)
		len += PAGE << i % MIXED;
	addr = rows->area = reserve(len);
	rows->cache[0] = cache_open(rows->regions + MISS_AREA, false);
	for (long i = 0; i < rows->regions; i++) {
		rows->mixed[i].addr = addr;
		rows->mixed[i].len = PAGE << i % MIXED;
		get_put(rows->cache[0], addr, rows->mixed[i].len);
		addr += rows->mixed[i].len;
	}
	return rows;
}

static void mixed_hits(struct rows *rows, long n)
{
	for (long i = 0; i < n; i++) {
		uint64_t r = next_random(&rows->at, (uint64_t)rows->regions);

		get_put(rows->cache[0], rows->mixed[r].addr, rows->mixed[r].len);
	}
}

static void round_mixed(void *state, double *value)
{
	value[0] = time_slice(mixed_hits, state, BATCH);
}

static void mixed_part_hits(struct rows *rows, long n)
{
	for (long i = 0; i < n; i++) {
		uint64_t r = next_random(&rows->at, (uint64_t)rows->regions);
		uint64_t page = next_random(&rows->at, rows->mixed[r].len / PAGE);

		get_put(rows->cache[0], rows->mixed[r].addr + page * PAGE, PAGE);
	}
}

static void round_mixed_part(void *state, double *value)
{
	value[0] = time_slice(mixed_part_hits, state, BATCH);
}

/* ---- threads ---- */

static void hit_batch(struct runner *r)
{
	uint64_t at = r->at;

	for (long i = 0; i < r->size; i++)
		get_put(r->cache, r->area + next_random(&at, (uint64_t)r->regions) * PAGE, PAGE);
	r->at = at;
}

/* Regions that are not cached any more. */
static void miss_batch(struct runner *r)
{
	for (long i = 0; i < r->size; i++)
		get_put(r->cache, r->area + (r->at++ % MISS_AREA) * PAGE, PAGE);
}

static void runner_of(struct rows *rows, unsigned t, void (*batch)(struct runner *))
{
	struct runner *r = &rows->runner[t];

	r->batch = batch;
	r->cache = rows->cache[0];
	r->area = rows->area;
	r->regions = rows->regions;
	r->size = batch == miss_batch ? BATCH / 20 : BATCH;
	r->at = t * UINT64_C(0x9e3779b97f4a7c15);
}

static void *begin_threads(const struct row_def *row)
{
	struct rows *rows = begin_filled(row);

	runner_of(rows, 0, hit_batch);
	runner_of(rows, 1, hit_batch);
	return rows;
}

static void *begin_caches(const struct row_def *row)
{
	struct rows *rows = begin_threads(row);

	rows->cache[1] = cache_open(rows->regions + MISS_AREA, false);
	fill(rows->cache[1], rows->area, rows->regions);
	rows->runner[1].cache = rows->cache[1];
	return rows;
}

static void *begin_thread_misses(const struct row_def *row)
{
	struct rows *rows = new_rows(row);

	rows->area = reserve(2 * MISS_AREA * PAGE);
	rows->cache[0] = cache_open(MISSES, false);
	for (unsigned t = 0; t < 2; t++) {
		runner_of(rows, t, miss_batch);
		rows->runner[t].at = 0;
		rows->runner[t].area += t * MISS_AREA * PAGE;
	}
	return rows;
}

static void round_threads(void *state, double *value)
{
	struct rows *rows = state;

	value[0] = run_together(rows->runner, 1) / 1e6;
	value[1] = run_together(rows->runner, 2) / 1e6;
	value[2] = value[1] / value[0];
}

/* ---- hits beside a thread that registers ---- */

static void register_one(struct runner *r)
{
	get_put(r->cache, r->area + (r->at++ % MISS_AREA) * PAGE, PAGE);
}

static void *begin_tail(const struct row_def *row)
{
	struct rows *rows = begin_filled(row);

	rows->sample = malloc(SAMPLES * sizeof(uint32_t));
	check(rows->sample ? 0 : -12, "memory");
	memset(rows->sample, 0, SAMPLES * sizeof(uint32_t));
	runner_of(rows, 0, register_one);
	rows->runner[0].area = reserve(MISS_AREA * PAGE);
	return rows;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void round_tail(void *state, double *value)
{
	struct rows *rows = state;
	struct companion *companion;
	double start = now_ns(), before = start, now = start;
	long n = 0;

	registration_ns = 50000;
	companion = companion_start(&rows->runner[0]);
	for (; n < SAMPLES && now - start < effort.slice_ns * 5; n++) {
		before = now_ns();
		hits(rows, 1);
		now = now_ns();
		rows->sample[n] = (uint32_t)(now - before);
	}
	companion_stop(companion);
	registration_ns = 0;
	qsort(rows->sample, (size_t)n, sizeof(uint32_t), by_size);
	value[0] = rows->sample[n / 2];
	value[1] = rows->sample[n - n / 1000 - 1];
}

/* ---- unmapping ---- */

/* Not through the C library, where hooks are. */
static int raw_munmap(void *addr, size_t len)
{
	return (int)syscall(SYS_munmap, addr, len);
}

/* ns of one unmapping of parts of an area. */
static double unmap_parts(char *area, int (*unmap)(void *, size_t))
{
	double start = now_ns();

	for (size_t i = 0; i < UNMAPS; i++)
		check(unmap(area + i * CACHED_LEN, CACHED_LEN), "munmap");
	return (now_ns() - start) / UNMAPS;
}

/* The same, of parts that each were registered. */
static double unmap_cached(struct rows *rows)
{
	char *area = reserve_parts(UNMAPS, CACHED_LEN);

	for (size_t i = 0; i < UNMAPS; i++)
		get_put(rows->cache[0], area + i * CACHED_LEN, CACHED_LEN);
	return unmap_parts(area, munmap);
}

/*
 * What munmap takes, what the kernel does of it, and the difference: medians of neighbours.  Not cached: of
 * addresses where nothing is, since the kernel takes longest for what is there.
 */
static void unmap_slice(struct rows *rows, bool cached, double *value)
{
	double run[3][1001], start = now_ns();
	char *nothing = reserve_nothing(UNMAPS * CACHED_LEN);
	size_t n = 0;

	do {
		double first = cached ? 0 : unmap_parts(nothing, raw_munmap);

		run[0][n] = cached ? unmap_cached(rows) : unmap_parts(nothing, munmap);
		run[1][n] = cached ? unmap_parts(reserve_parts(UNMAPS, CACHED_LEN), raw_munmap)
				   : (first + unmap_parts(nothing, raw_munmap)) / 2;
		run[2][n] = run[0][n] - run[1][n];
		n++;
	} while (n < 1001 && (n < 5 || now_ns() - start < effort.slice_ns));
	for (unsigned i = 0; i < 3; i++)
		value[i] = median_of(run[i], n);
}

static void round_unmap(void *state, double *value)
{
	unmap_slice(state, false, value);
}

static void round_unmap_cached(void *state, double *value)
{
	unmap_slice(state, true, value);
}

static void *begin_unmap_busy(const struct row_def *row)
{
	struct rows *rows = begin_filled(row);

	runner_of(rows, 0, hit_batch);
	return rows;
}

static void round_unmap_busy(void *state, double *value)
{
	struct rows *rows = state;
	struct companion *companion = companion_start(&rows->runner[0]);

	unmap_slice(rows, false, value);
	companion_stop(companion);
}

/* ---- the allocator ---- */

static void allocations(struct rows *rows, long n)
{
	(void)rows;
	for (long i = 0; i < n; i++) {
		void *p = malloc(1 << 20);

		__asm__ volatile("" : : "r"(p) : "memory");
		free(p);
	}
}

static void round_malloc(void *state, double *value)
{
	value[0] = time_slice(allocations, state, 20);
}

/* Each allocation is a mapping of its own, and each free unmaps it. */
static void *begin_malloc_mapped(const struct row_def *row)
{
	void *rows = begin_filled(row);

	mallopt(M_MMAP_THRESHOLD, 1 << 19);
	/* what the heap has left is taken first; a mapping is whole pages, with two words before the block */
	for (int i = 0; i < 4096; i++) {
		void *block = malloc(1 << 20);

		check(block ? 0 : -12, "memory");
		if (malloc_usable_size(block) % PAGE == PAGE - 2 * sizeof(size_t)) {
			free(block);
			break;
		}
	}
	return rows;
}

/* ---- after invalidations ---- */

/*
 * cached: or else nothing is invalidated, and the unmapping alone is what came before.  addr NULL: not a hit, but
 * one line that was written before is written again, which no cache can do without.
 */
static double after_invalidations(struct rows *rows, char *addr, bool cached)
{
	static _Alignas(PAGE) volatile uint64_t line[PAGE / sizeof(uint64_t)];
	char *area = reserve_parts(DEAD, PAGE);
	void *cache = rows->cache[0];
	double start, cost;

	if (cached)
		fill(cache, area, DEAD);
	hits(rows, 1);
	line[0]++;
	for (size_t i = 0; i < DEAD; i++)
		check(munmap(area + i * PAGE, PAGE), "munmap");
	cost = clock_cost(); /* which brings the clock's own code back, too */
	start = now_ns();
	if (addr)
		get_put(cache, addr, PAGE);
	else
		line[0]++;
	return now_ns() - start - cost;
}

static void round_invalidated(void *state, double *value)
{
	double run[4][1001], start = now_ns();
	struct rows *rows = state;
	char *fresh =
		reserve(1001 * PAGE); /* and kept: without a monitor it would be found again */
	size_t n = 0;

	do {
		run[0][n] = after_invalidations(rows, rows->area, true);
		run[1][n] = after_invalidations(rows, fresh + n * PAGE, true);
		run[2][n] = after_invalidations(rows, rows->area, false);
		run[3][n] = after_invalidations(rows, NULL, true);
		n++;
	} while (n < 1001 && (n < 11 || now_ns() - start < effort.slice_ns * 2));
	for (unsigned i = 0; i < 4; i++)
		value[i] = median_of(run[i], n);
}

/* ---- misses ---- */

/* Into a cache that is empty at first, and whose memory is not there yet. */
static void round_miss(void *state, double *value)
{
	struct rows *rows = state;
	void *cache = cache_open(rows->regions, false);
	double start = now_ns();

	fill(cache, rows->area, rows->regions);
	value[0] = (now_ns() - start) / (double)rows->regions;
	cache_close(cache);
	malloc_trim(0);
}

static void misses(struct rows *rows, long n)
{
	for (long i = 0; i < n; i++)
		get_put(rows->cache[0], rows->area + (rows->at++ % MISS_AREA) * PAGE, PAGE);
}

static void *begin_miss_evict(const struct row_def *row)
{
	struct rows *rows = new_rows(row);

	rows->area = reserve(MISS_AREA * PAGE);
	rows->cache[0] = cache_open(MISSES, false);
	misses(rows, MISS_AREA);
	return rows;
}

static void round_miss_evict(void *state, double *value)
{
	value[0] = time_slice(misses, state, BATCH);
}

static void *begin_miss(const struct row_def *row)
{
	struct rows *rows = new_rows(row);

	rows->area = reserve((size_t)rows->regions * PAGE);
	return rows;
}

/* ---- memory ---- */

static void *begin_memory(const struct row_def *row)
{
	struct rows *rows = new_rows(row);
	bool fine = row == &row_defs[ROW_MEMORY_UNALIGNED];
	size_t before;

	rows->area = reserve((size_t)rows->regions * PAGE);
	before = resident_bytes();
	rows->cache[0] = cache_open(rows->regions + 1, fine);
	for (long i = 0; i < rows->regions; i++) {
		size_t from = fine ? next_random(&rows->at, PAGE / 2) : 0;
		size_t len = fine ? 1 + next_random(&rows->at, PAGE / 2 - 1) : PAGE;

		get_put(rows->cache[0], rows->area + (size_t)i * PAGE + from, len);
	}
	rows->fixed = ((double)resident_bytes() - (double)before) / (double)rows->regions;
	return rows;
}

static void round_memory(void *state, double *value)
{
	value[0] = ((struct rows *)state)->fixed;
}

static const struct row_code row_code[ROW_COUNT] = {
	[ROW_HIT_1] = { begin_filled, round_hit },
	[ROW_HIT_100] = { begin_filled, round_hit },
	[ROW_HIT_10K] = { begin_filled, round_hit },
	[ROW_HIT_1M] = { begin_filled, round_hit },
	[ROW_HIT_PART] = { begin_filled, round_hit_part },
	[ROW_HIT_MIXED] = { begin_mixed, round_mixed },
	[ROW_HIT_MIXED_PART] = { begin_mixed, round_mixed_part },
	[ROW_THREADS_SAME] = { begin_threads, round_threads },
	[ROW_THREADS_10K] = { begin_threads, round_threads },
	[ROW_THREADS_CACHES] = { begin_caches, round_threads },
	[ROW_THREADS_MISS] = { begin_thread_misses, round_threads },
	[ROW_TAIL] = { begin_tail, round_tail },
	[ROW_UNMAP_10K] = { begin_filled, round_unmap },
	[ROW_UNMAP_1M] = { begin_filled, round_unmap },
	[ROW_UNMAP_BUSY_10K] = { begin_unmap_busy, round_unmap_busy },
	[ROW_UNMAP_BUSY_1M] = { begin_unmap_busy, round_unmap_busy },
	[ROW_UNMAP_CACHED] = { begin_filled, round_unmap_cached },
	[ROW_MALLOC] = { begin_filled, round_malloc },
	[ROW_MALLOC_MAPPED] = { begin_malloc_mapped, round_malloc },
	[ROW_INVALIDATED] = { begin_filled, round_invalidated },
	[ROW_MISS] = { begin_miss, round_miss },
	[ROW_MISS_EVICT] = { begin_miss_evict, round_miss_evict },
	[ROW_MEMORY] = { begin_memory, round_memory },
	[ROW_MEMORY_UNALIGNED] = { begin_memory, round_memory },
};
