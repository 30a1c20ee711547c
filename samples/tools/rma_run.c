/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-rma: the transfers, their timing and the check of every byte.
 *
 * A round prepares both buffers, runs the same operation n times, and compares both buffers, the
 * guard words around them and any result words with what n such operations must leave behind.  Each
 * round has contents of its own, so nothing that an earlier one wrote can pass for a later one's.
 * Only the operations are timed.
 */
#define _POSIX_C_SOURCE 200809L

#include "rma.h"

#include <stdlib.h>
#include <string.h>

#include "../common.h"
#include "rma_cache.h"
#include "rma_content.h"
#include "rma_memory.h"
#include "rma_ops.h"
#include "rma_target.h"
#include "rma_time.h"
#include "tool_capture.h"

#define SIZE_FACTOR 8
#define ROUND_BYTES ((size_t)16 << 20) /* about what all rounds of a kind move at one size */
#define SMALL_SIZE  4096	       /* up to here several operations share two clock reads */
#define SMALL_GROUP 15
#define RUNS	    3	 /* back to back */
#define MOST_ROUND  2001 /* operations of one of these */
#define FIRSTS	    5	 /* operations that are the first of a buffer without descriptor */
#define MOST_LOCAL  1000 /* iterations that are chosen by size */
#define MOST_REMOTE 100	 /* where each takes questions to a server */

struct bench {
	const struct rma_options *options;
	struct sample_end initiator;
	struct rma_target target;
	struct rma_buffer local;
	struct rma_path path;		    /* for the present size */
	struct rma_registration registered; /* the same */
	size_t done, total;		    /* rows, for the progress bar */
	uint64_t seed;			    /* of the next round's contents */
};

/* ---- rounds ---- */

/* Contents before and after a round, of either side. */
struct round {
	struct content local[2], remote[2]; /* [0] before, [1] after */
	bool swaps;			    /* KIND_SWAP: the comparison holds */
};

static struct round plan(struct bench *s, enum rma_kind kind, unsigned int n)
{
	uint64_t seed = s->seed, operand = seed + UINT64_C(0x100000000);
	const struct content plain = { .seed = seed };
	const struct content inverse = { .seed = seed, .invert = ~UINT64_C(0) };
	const struct content operands = { .seed = operand };
	const struct content summed = { .seed = seed, .operand_seed = operand, .times = n };
	const struct content xored = { .seed = seed,
				       .operand_seed = operand,
				       .xored = n % 2 ? ~UINT64_C(0) : 0 };
	bool swaps = seed / SIZE_FACTOR % 2;

	s->seed += SIZE_FACTOR;
	switch (kind) {
	case KIND_WRITE:
		return (struct round){ { plain, plain }, { inverse, plain }, false };
	case KIND_READ:
		return (struct round){ { inverse, plain }, { plain, plain }, false };
	case KIND_BXOR:
		return (struct round){ { operands, operands }, { plain, xored }, false };
	case KIND_SWAP:
		return (struct round){ { operands, operands },
				       { plain, swaps ? operands : plain },
				       swaps };
	default:
		return (struct round){ { operands, operands }, { plain, summed }, false };
	}
}

static int prepare(struct bench *s, const struct round *r, size_t size)
{
	uint64_t target_word = content_word(&r->remote[0], 0);
	int ret = rma_buffer_fill(&s->local, size, LOCAL_SALT, &r->local[0]);

	if (ret)
		return ret;
	s->path.words->result = ~target_word;
	s->path.words->compare = r->swaps ? target_word : ~target_word;
	return rma_target_fill(&s->target, size, &r->remote[0]);
}

/* Is the word that the last of n operations brought back one that the target held before it? */
static bool result_right(const struct bench *s, enum rma_kind kind, const struct round *r,
			 unsigned int n, bool pipelined)
{
	uint64_t start = content_word(&r->remote[0], 0), result = s->path.words->result;
	uint64_t operand = content_word(&r->local[0], 0);
	unsigned int k;

	if (kind == KIND_SWAP) {
		if (!r->swaps || n == 1)
			return result == start;
		return result == operand || (pipelined && result == start);
	}
	if (kind != KIND_FETCH_SUM)
		return true;
	if (!pipelined)
		return result == start + (n - 1) * operand;
	/* Operations under way together may write their results in any order. */
	for (k = 0; k < n; k++) {
		if (result == start + k * operand)
			return true;
	}
	return false;
}

static int verify(struct bench *s, enum rma_kind kind, const struct round *r, size_t size,
		  unsigned int n, bool pipelined, bool *right)
{
	struct rma_check remote, local;
	int ret = rma_target_check(&s->target, size, &r->remote[1], &remote);

	if (!ret)
		ret = rma_buffer_check(&s->local, size, LOCAL_SALT, &r->local[1], &local);
	if (ret)
		return ret;
	rma_check_print(&remote, "target", size);
	rma_check_print(&local, "initiator", size);
	*right = rma_check_right(&remote, size) && rma_check_right(&local, size);
	if (!result_right(s, kind, r, n, pipelined)) {
		fputs("the value brought back is wrong; ", stderr);
		*right = false;
	}
	if (!*right)
		fprintf(stderr, "after %u x %s of %zu bytes%s\n", n, rma_kinds[kind].name, size,
			pipelined ? ", back to back" : "");
	return 0;
}

/* One round.  *ns is the time that all n operations took. */
static int run_round(struct bench *s, enum rma_kind kind, size_t size, unsigned int n,
		     bool pipelined, double *ns, bool *right)
{
	struct round r = plan(s, kind, n);
	uint64_t start;
	int ret = prepare(s, &r, size);

	if (ret)
		return ret;
	start = now_ns();
	ret = rma_transfer(&s->path, kind, size, n, pipelined);
	*ns = (double)(now_ns() - start);
	return ret ? ret : verify(s, kind, &r, size, n, pipelined, right);
}

static unsigned int clamp(size_t value, unsigned int low, unsigned int high)
{
	return value < low ? low : value > high ? high : (unsigned int)value;
}

/* How many operations of a round run back to back: odd, so that an exclusive or shows. */
static unsigned int round_length(const struct rma_options *options, size_t size)
{
	unsigned int most = options->iterations ? clamp(options->iterations, 3, MOST_ROUND)
						: MOST_ROUND;

	return clamp(ROUND_BYTES / RUNS / size, 3, most) | 1;
}

/* What rounds of one kind at one size took. */
struct timing {
	double latency_ns, bytes_per_s;
	bool right;
};

/* All of them, iterations for the latency; stops at the first wrong byte. */
static int run_rounds(struct bench *s, enum rma_kind kind, size_t size, unsigned int iterations,
		      struct timing *timing)
{
	unsigned int group = size <= SMALL_SIZE ? SMALL_GROUP : 1, i;
	unsigned int back_to_back = round_length(s->options, size);
	double *times = calloc(iterations, sizeof(*times)), ns, runs[RUNS];
	int ret = times ? 0 : sample_fail("calloc", -FI_ENOMEM);

	*timing = (struct timing){ .right = true };
	for (i = 0; !ret && timing->right && i < iterations; i++) {
		ret = run_round(s, kind, size, group, false, &times[i], &timing->right);
		times[i] /= group;
	}
	if (!ret && timing->right)
		timing->latency_ns = median(times, iterations);
	for (i = 0; !ret && timing->right && i < RUNS; i++)
		ret = run_round(s, kind, size, back_to_back, true, &runs[i], &timing->right);
	if (!ret && timing->right) {
		ns = median(runs, RUNS);
		timing->bytes_per_s = (double)size * back_to_back / (ns > 0 ? ns : 1) * 1e9;
	}
	free(times);
	return ret;
}

static int run_kind(struct bench *s, enum rma_kind kind, size_t size, struct rma_row *row)
{
	unsigned int iterations = s->options->iterations;
	struct timing timing = { .right = true };
	double ns;
	int ret;

	if (!iterations)
		iterations =
			clamp(ROUND_BYTES / size, 3, s->target.remote ? MOST_REMOTE : MOST_LOCAL);
	*row = (struct rma_row){ .size = size,
				 .operation = rma_kinds[kind].name,
				 .register_ns = s->registered.register_ns,
				 .close_ns = s->registered.close_ns,
				 .iterations = iterations };
	ret = run_round(s, kind, size, 1, false, &ns, &row->verified); /* warm-up, checked too */
	if (!ret && row->verified) {
		ret = run_rounds(s, kind, size, iterations, &timing);
		row->verified = timing.right;
	}
	row->latency_ns = timing.latency_ns;
	row->bytes_per_s = timing.bytes_per_s;
	return ret;
}

/* The same without descriptors: from memory that nobody has sent from yet, and then again and again. */
static int run_no_desc(struct bench *s, enum rma_kind kind, size_t size, struct rma_row *row)
{
	struct hmreg_cache_stats before, after;
	struct timing timing = { .right = true };
	double first[FIRSTS];
	unsigned int i;
	int ret = 0;

	rma_cache_figures(&s->initiator, &before);
	for (i = 0; !ret && row->verified && i < FIRSTS; i++) {
		ret = rma_cache_forget(&s->local);
		if (!ret)
			ret = run_round(s, kind, size, 1, false, &first[i], &row->verified);
	}
	if (ret || !row->verified)
		return ret;
	row->no_desc.first_ns = median(first, FIRSTS);
	ret = run_rounds(s, kind, size, row->iterations, &timing);
	row->verified = timing.right;
	row->no_desc.latency_ns = timing.latency_ns;
	row->no_desc.bytes_per_s = timing.bytes_per_s;
	rma_cache_figures(&s->initiator, &after);
	row->no_desc.hits = after.all.hits - before.all.hits;
	row->no_desc.misses = after.all.misses - before.all.misses;
	row->no_desc.unkept = after.all.unkept - before.all.unkept;
	return ret;
}

/* ---- one size ---- */

/* Register both buffers for this size and take the target's key. */
static int register_both(struct bench *s, size_t size)
{
	int ret = rma_buffer_register(&s->local, &s->initiator, size, FI_READ | FI_WRITE,
				      &s->path.data_mr);

	if (ret)
		return ret;
	ret = rma_target_register(&s->target, size, &s->registered);
	if (ret)
		return ret;
	s->path.address = s->registered.key.address;
	return sample_use(&s->initiator, &s->registered.key, &s->path.key);
}

/* A refusal is told with the reason that the library gives. */
static int open_regions(struct bench *s, size_t size)
{
	struct tool_capture capture;
	int ret;

	tool_capture_begin(&capture);
	ret = register_both(s, size);
	tool_capture_tell(&capture);
	return ret;
}

/* Close a region if it is open. */
static int close_region(struct fid_mr **mr)
{
	int ret = *mr ? fi_close(&(*mr)->fid) : 0;

	*mr = NULL;
	return ret ? sample_fail("fi_close of a region", ret) : 0;
}

static int run_kinds(struct bench *s, size_t size, struct rma_result *result)
{
	struct rma_row *row;
	int ret = 0, kind;

	for (kind = 0; kind < RMA_KINDS; kind++) {
		if (!(rma_kinds[kind].op & s->options->ops) || !rma_kind_fits(kind, size) ||
		    !rma_kind_offered(&s->path, kind, size))
			continue;
		if (s->options->progress)
			rma_report_progress(s->done, s->total, size, rma_kinds[kind].name);
		row = &result->rows[result->count];
		ret = run_kind(s, kind, size, row);
		if (ret)
			break;
		result->count++;
		result->verified &= row->verified;
		s->done++;
	}
	return ret;
}

/* The rows from first on, once more, with nothing of the initiator's registered by this program. */
static int run_again(struct bench *s, size_t size, size_t first, struct rma_result *result)
{
	int ret = close_region(&s->path.data_mr), kind;
	size_t at;

	s->path.no_desc = true;
	for (at = first; !ret && at < result->count; at++) {
		for (kind = 0; rma_kinds[kind].name != result->rows[at].operation; kind++)
			;
		if (result->rows[at].verified)
			ret = run_no_desc(s, (enum rma_kind)kind, size, &result->rows[at]);
		result->verified &= result->rows[at].verified;
	}
	s->path.no_desc = false;
	return ret;
}

static int run_size(struct bench *s, size_t size, struct rma_result *result)
{
	int ret = open_regions(s, size), failed;
	size_t first = result->count;

	if (!ret) {
		ret = run_kinds(s, size, result);
		if (!ret && s->options->no_desc)
			ret = run_again(s, size, first, result);
		failed = sample_unuse(&s->initiator, &s->registered.key, s->path.key);
		ret = ret ? ret : failed;
	}
	failed = close_region(&s->path.data_mr);
	ret = ret ? ret : failed;
	failed = s->target.talk.broken ? 0 : rma_target_unregister(&s->target);
	return ret ? ret : failed;
}

/* ---- the run as a whole ---- */

static size_t next_size(size_t size, size_t max)
{
	if (size == max)
		return 0;
	return size > max / SIZE_FACTOR ? max : size * SIZE_FACTOR;
}

bool rma_any_row(const struct rma_options *options)
{
	size_t size;
	int kind;

	for (size = options->min; size; size = next_size(size, options->max)) {
		for (kind = 0; kind < RMA_KINDS; kind++) {
			if ((rma_kinds[kind].op & options->ops) && rma_kind_fits(kind, size))
				return true;
		}
	}
	return false;
}

/* Lines that the table will have. */
static size_t count_rows(const struct bench *s)
{
	size_t size, count = 0;
	int kind;

	for (size = s->options->min; size; size = next_size(size, s->options->max)) {
		for (kind = 0; kind < RMA_KINDS; kind++)
			count += (rma_kinds[kind].op & s->options->ops) &&
				 rma_kind_fits(kind, size) &&
				 rma_kind_offered(&s->path, kind, size);
	}
	return count;
}

static int open_all(struct bench *s, const struct fi_info *info)
{
	int ret = sample_open(&s->initiator, info, 0);

	if (!ret)
		ret = rma_buffer_open(&s->local, s->initiator.fabric, s->options->max, false,
				      &s->options->local);
	if (!ret)
		ret = rma_target_open(&s->target, s->options, &s->initiator, info);
	if (ret)
		return ret;
	s->path.end = &s->initiator;
	s->path.data = s->local.data;
	ret = rma_find_limits(&s->path, s->options->ops);
	if (ret)
		return ret;
	s->path.words = calloc(1, sizeof(*s->path.words));
	if (!s->path.words)
		return sample_fail("calloc", -FI_ENOMEM);
	return sample_register_buffer(&s->initiator, s->path.words, sizeof(*s->path.words),
				      FI_READ | FI_WRITE, &s->path.words_mr);
}

static int open_bench(struct bench *s, const struct fi_info *info)
{
	struct tool_capture capture;
	int ret;

	tool_capture_begin(&capture);
	ret = open_all(s, info);
	tool_capture_tell(&capture);
	return ret;
}

static int close_bench(struct bench *s)
{
	int ret = close_region(&s->path.words_mr), failed;

	failed = rma_target_close(&s->target);
	ret = ret ? ret : failed;
	failed = rma_buffer_close(&s->local);
	ret = ret ? ret : failed;
	failed = sample_close(&s->initiator);
	free(s->path.words);
	return ret ? ret : failed;
}

enum rma_exit rma_find_devices(struct rma_options *options, const struct fi_info *info)
{
	struct sample_place *place[] = { &options->target, &options->local };
	struct tool_capture capture;
	struct fid_fabric *fabric;
	int ret = fi_fabric(info->fabric_attr, &fabric, NULL), failed;
	size_t i;

	if (ret) {
		sample_fail("fi_fabric", ret);
		return RMA_EXIT_LIBRARY;
	}
	tool_capture_begin(&capture);
	for (i = 0; !ret && i < sizeof(place) / sizeof(place[0]); i++) {
		ret = tool_place_find(fabric, place[i]);
		if (!ret)
			ret = tool_place_reach(fabric, info, place[i]);
	}
	tool_capture_tell(&capture);
	failed = fi_close(&fabric->fid);
	if (failed)
		sample_fail("fi_close of a fabric", failed);
	if (ret == -FI_ENOSYS || ret == -FI_ENODEV || ret == -FI_EOPNOTSUPP)
		return RMA_EXIT_NO_NIC;
	return ret || failed ? RMA_EXIT_LIBRARY : RMA_EXIT_OK;
}

uint64_t rma_caps(const struct rma_options *options)
{
	bool messages = options->host || options->server;
	bool device = options->target.iface != FI_HMEM_SYSTEM ||
		      options->local.iface != FI_HMEM_SYSTEM;
	uint64_t memory = options->dmabuf || device ? FI_HMEM : 0; /* dma-bufs are part of that */

	return memory | (messages ? FI_MSG | FI_RMA : 0) |
	       ((options->ops & (RMA_OP_WRITE | RMA_OP_READ)) ? FI_RMA : 0) |
	       ((options->ops & RMA_OP_ATOMIC) ? FI_ATOMIC : 0);
}

enum rma_exit rma_run(const struct rma_options *options, const struct fi_info *info,
		      struct rma_result *result)
{
	struct bench s = { .options = options, .seed = SIZE_FACTOR };
	struct hmreg_cache_stats stats;
	size_t size;
	int ret, failed;

	*result = (struct rma_result){ .verified = true };
	ret = open_bench(&s, info);
	if (!ret) {
		s.total = count_rows(&s);
		result->rows = calloc(s.total ? s.total : 1, sizeof(*result->rows));
		ret = result->rows ? 0 : sample_fail("calloc", -FI_ENOMEM);
	}
	for (size = options->min; !ret && size; size = next_size(size, options->max))
		ret = run_size(&s, size, result);
	result->dmabuf = s.target.dmabuf;
	result->target = s.target.place;
	result->local = options->local;
	result->path = s.registered.path;
	memcpy(result->server, s.target.text, sizeof(result->server));
	result->no_desc = options->no_desc;
	if (!ret && options->no_desc) {
		rma_cache_figures(&s.initiator, &stats);
		memcpy(result->monitor, stats.monitor, sizeof(result->monitor));
	}
	if (options->progress)
		rma_report_progress(0, 0, 0, NULL);
	failed = close_bench(&s);
	if (ret || failed) {
		free(result->rows);
		result->rows = NULL;
		return RMA_EXIT_LIBRARY;
	}
	return result->verified ? RMA_EXIT_OK : RMA_EXIT_WRONG_DATA;
}
