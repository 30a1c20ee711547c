/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the registration cache takes, beside UCX's, and beside none: cache_bench.h says how.  Every
 * figure is the median of 9 rounds, for which the subjects take turns.  Registration itself is nothing.
 * Usage: cache_bench [--tsv] [--quick] [--row NAME]... [--subject NAME]...
 */
#include "tests/bench/cache_bench.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define RUNS_QUICK 1
#define MOST_NAMES 16

const struct row_def row_defs[ROW_COUNT] = {
	[ROW_HIT_1] = { "hit_1", { "" }, "ns", KIND_TIME, 1 },
	[ROW_HIT_100] = { "hit_100", { "" }, "ns", KIND_TIME, 100 },
	[ROW_HIT_10K] = { "hit_10000", { "" }, "ns", KIND_TIME, 10000 },
	[ROW_HIT_1M] = { "hit_1000000", { "" }, "ns", KIND_TIME, 1000000 },
	[ROW_HIT_PART] = { "hit_part_10000", { "" }, "ns", KIND_TIME, 10000 },
	[ROW_HIT_MIXED] = { "hit_mixed_1000", { "" }, "ns", KIND_TIME, 1000 },
	[ROW_HIT_MIXED_PART] = { "hit_mixed_part_1000", { "" }, "ns", KIND_TIME, 1000 },
	[ROW_THREADS_SAME] = { "threads_same",
			       { "one", "two", "two_to_one" },
			       "per_us",
			       KIND_RATE,
			       1 },
	[ROW_THREADS_10K] = { "threads_10000",
			      { "one", "two", "two_to_one" },
			      "per_us",
			      KIND_RATE,
			      10000 },
	[ROW_THREADS_CACHES] = { "threads_two_caches",
				 { "one", "two", "two_to_one" },
				 "per_us",
				 KIND_RATE,
				 10000 },
	[ROW_THREADS_MISS] = { "threads_miss",
			       { "one", "two", "two_to_one" },
			       "per_us",
			       KIND_RATE,
			       0 },
	[ROW_TAIL] = { "hit_beside_registration",
		       { "median", "percentile_99.9" },
		       "ns",
		       KIND_TIME,
		       100 },
	[ROW_UNMAP_10K] = { "munmap_10000", { "", "raw", "added" }, "ns", KIND_TIME, 10000 },
	[ROW_UNMAP_1M] = { "munmap_1000000", { "", "raw", "added" }, "ns", KIND_TIME, 1000000 },
	[ROW_UNMAP_BUSY_10K] = { "munmap_beside_hits_10000",
				 { "", "raw", "added" },
				 "ns",
				 KIND_TIME,
				 10000 },
	[ROW_UNMAP_BUSY_1M] = { "munmap_beside_hits_1000000",
				{ "", "raw", "added" },
				"ns",
				KIND_TIME,
				1000000 },
	[ROW_UNMAP_CACHED] = { "munmap_cached_64KiB", { "", "raw", "added" }, "ns", KIND_TIME, 100 },
	[ROW_MALLOC] = { "malloc_1MiB", { "" }, "ns", KIND_ADDED, 10000 },
	[ROW_MALLOC_MAPPED] = { "malloc_1MiB_mapped", { "" }, "ns", KIND_ADDED, 10000 },
	[ROW_INVALIDATED] = { "after_512_invalidations",
			      { "hit", "miss", "hit_of_none", "one_line" },
			      "ns",
			      KIND_TIME,
			      100 },
	[ROW_MISS] = { "miss", { "" }, "ns", KIND_TIME, 10000 },
	[ROW_MISS_EVICT] = { "miss_evict", { "" }, "ns", KIND_TIME, 0 },
	[ROW_MEMORY] = { "memory", { "" }, "bytes", KIND_TIME, 1000000 },
	[ROW_MEMORY_UNALIGNED] = { "memory_unaligned", { "" }, "bytes", KIND_TIME, 1000000 },
};

struct effort effort = { 20e6, 1000000 };

/* The first is what the others' "added" is over; the second is ours, which ratios are to. */
static const struct subject *const subjects[] = {
	&subject_bare,	   &subject_ours_hooks, &subject_ours_uffd,
	&subject_ours_off, &subject_ucx,	&subject_ucx_off,
};
#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

struct names {
	const char *name[MOST_NAMES];
	unsigned count;
};
static struct names only_rows, only_subjects;
static bool quick;

static bool wanted(const struct names *names, const char *name)
{
	for (unsigned i = 0; i < names->count; i++)
		if (strcmp(names->name[i], name) == 0)
			return true;
	return names->count == 0;
}

/* ---- processes ---- */

struct worker {
	const struct subject *subject;
	pid_t pid;
	FILE *to, *from;
	double run[MOST_VALUES][RUNS];
};

static void run_worker(const struct subject *subject, enum row row, int in, int out)
{
	char number[2][16];
	char *args[] = { "cache_bench", "--worker", number[0], number[1], quick ? "--quick" : NULL,
			 NULL };

	for (size_t i = 0; subject->env[i]; i++)
		putenv((char *)subject->env[i]);
	for (size_t i = 0; i < SUBJECTS; i++)
		if (subjects[i] == subject)
			snprintf(number[0], sizeof(number[0]), "%zu", i);
	snprintf(number[1], sizeof(number[1]), "%u", (unsigned)row);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	execv("/proc/self/exe", args);
	_exit(127);
}

/* Why a subject is not here: said once for each. */
static void say_why(const struct subject *subject, const char *why)
{
	static const struct subject *said[SUBJECTS];

	for (size_t i = 0; i < SUBJECTS; i++) {
		if (said[i] == subject)
			return;
		if (said[i])
			continue;
		said[i] = subject;
		break;
	}
	fprintf(stderr, "cache_bench: no figures of %s: %s\n", subject->name, why);
}

static void stop(struct worker *w)
{
	fclose(w->to);
	fclose(w->from);
	waitpid(w->pid, NULL, 0);
}

static bool start(struct worker *w, const struct subject *subject, enum row row)
{
	int to[2], from[2];
	char line[300] = "";

	check(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), "pipe");
	w->subject = subject;
	fflush(stdout);
	w->pid = fork();
	if (w->pid == 0)
		run_worker(subject, row, to[0], from[1]);
	check(w->pid < 0 ? -11 : 0, "fork");
	close(to[0]);
	close(from[1]);
	w->to = fdopen(to[1], "w");
	w->from = fdopen(from[0], "r");
	if (fgets(line, sizeof(line), w->from) && strcmp(line, "yes\n") == 0)
		return true;
	line[strcspn(line, "\n")] = 0;
	say_why(subject, strncmp(line, "no ", 3) == 0 ? line + 3 : "its process ended");
	stop(w);
	return false;
}

static void ask(struct worker *w, int r)
{
	fputs("\n", w->to);
	fflush(w->to);
	for (unsigned v = 0; v < MOST_VALUES; v++)
		check(fscanf(w->from, "%lf", &w->run[v][r]) == 1 ? 0 : -32, w->subject->name);
}

/* ---- figures ---- */

static void name_of(char *name, size_t size, const struct row_def *row, unsigned v,
		    const struct subject *subject)
{
	const char *value = row->value[v];

	snprintf(name, size, "%s%s%s.%s", row->name, *value ? "." : "", value, subject->name);
}

/* What w has more than bare, or all of it. */
static double of_rounds(const struct worker *w, const struct worker *bare, unsigned v, int runs)
{
	double run[RUNS];

	for (int r = 0; r < runs; r++)
		run[r] = w->run[v][r] - (bare ? bare->run[v][r] : 0);
	return median_of(run, (size_t)runs);
}

static double best_of(const struct worker *w, unsigned v, int runs, bool most)
{
	double best = w->run[v][0];

	for (int r = 1; r < runs; r++)
		if ((w->run[v][r] > best) == most)
			best = w->run[v][r];
	return best;
}

static const struct worker *worker_of(const struct worker *w, size_t count,
				      const struct subject *subject)
{
	for (size_t i = 0; i < count; i++)
		if (w[i].subject == subject)
			return &w[i];
	return NULL;
}

static void show_value(const struct row_def *row, const struct worker *w, size_t count, size_t at,
		       unsigned v, int runs)
{
	const struct worker *bare = row->kind == KIND_ADDED ? worker_of(w, count, &subject_bare)
							    : NULL;
	const struct worker *ours = worker_of(w, count, &subject_ours_hooks);
	bool rate = row->kind == KIND_RATE;
	double its = of_rounds(&w[at], NULL, v, runs);
	char name[96];

	if (!ours)
		ours = worker_of(w, count, &subject_ours_off);
	name_of(name, sizeof(name), row, v, w[at].subject);
	figure(its, rate && v == 2 ? "x" : row->unit, "%s", name);
	figure(best_of(&w[at], v, runs, rate), rate && v == 2 ? "x" : row->unit, "%s.best", name);
	if (bare && &w[at] != bare)
		figure(of_rounds(&w[at], bare, v, runs), row->unit, "%s.added", name);
	else if (!bare && ours && ours != &w[at])
		figure(its / of_rounds(ours, NULL, v, runs), "x", "%s.to_%s", name,
		       ours->subject->name);
}

static bool has_row(const struct subject *subject, const struct row_def *row)
{
	if (subject == &subject_bare && row->kind != KIND_ADDED)
		return false;
	return wanted(&only_subjects, subject->name);
}

static void run_row(enum row row)
{
	struct worker worker[SUBJECTS];
	int runs = quick ? RUNS_QUICK : RUNS;
	size_t count = 0;

	for (size_t i = 0; i < SUBJECTS; i++)
		if (has_row(subjects[i], &row_defs[row]))
			count += start(&worker[count], subjects[i], row);
	for (int r = 0; r < runs; r++)
		for (size_t i = 0; i < count; i++)
			ask(&worker[i], r);
	for (size_t i = 0; i < count; i++)
		for (unsigned v = 0; v < MOST_VALUES && row_defs[row].value[v]; v++)
			show_value(&row_defs[row], worker, count, i, v, runs);
	for (size_t i = 0; i < count; i++)
		stop(&worker[i]);
}

static void add_name(struct names *names, const char *name)
{
	check(names->count < MOST_NAMES ? 0 : -7, "names");
	names->name[names->count++] = name;
}

int main(int argc, char **argv)
{
	const char *worker[2] = { NULL, NULL };

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--tsv") == 0) {
			tsv = true;
		} else if (strcmp(argv[i], "--quick") == 0) {
			quick = true;
		} else if (strcmp(argv[i], "--row") == 0 && i + 1 < argc) {
			add_name(&only_rows, argv[++i]);
		} else if (strcmp(argv[i], "--subject") == 0 && i + 1 < argc) {
			add_name(&only_subjects, argv[++i]);
		} else if (strcmp(argv[i], "--worker") == 0 && i + 2 < argc) {
			worker[0] = argv[++i];
			worker[1] = argv[++i];
		} else {
			fprintf(stderr, "cache_bench: unknown argument \"%s\"\n", argv[i]);
			return 2;
		}
	}
	if (quick)
		effort = (struct effort){ 1e6, 10000 };
	if (worker[0])
		return worker_main(subjects[atoi(worker[0])], (enum row)atoi(worker[1]));
	fputs("cache_bench: no figures of libfabric's cache: its library exports none of it\n",
	      stderr);
	for (unsigned row = 0; row < ROW_COUNT; row++)
		if (wanted(&only_rows, row_defs[row].name))
			run_row((enum row)row);
	return 0;
}
