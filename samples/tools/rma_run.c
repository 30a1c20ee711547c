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
#include <time.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "../common.h"
#include "rma_content.h"

#define PAGE	    4096
#define SIZE_FACTOR 8
#define ROUND_BYTES ((size_t)16 << 20) /* about what all rounds of a kind move at one size */
#define SMALL_SIZE  4096	       /* up to here several operations share two clock reads */
#define SMALL_GROUP 15
#define RUNS	    3 /* back to back */
#define REG_GROUP   16
#define REG_SAMPLES 15

enum kind {
	KIND_WRITE,
	KIND_READ,
	KIND_SUM,
	KIND_BXOR,
	KIND_FETCH_SUM,
	KIND_SWAP,
	KIND_COUNT
};

static const struct {
	const char *name, *call;
	unsigned int op;
} kinds[KIND_COUNT] = {
	[KIND_WRITE] = { "write", "fi_write", RMA_OP_WRITE },
	[KIND_READ] = { "read", "fi_read", RMA_OP_READ },
	[KIND_SUM] = { "atomic sum", "fi_atomic", RMA_OP_ATOMIC },
	[KIND_BXOR] = { "atomic bxor", "fi_atomic", RMA_OP_ATOMIC },
	[KIND_FETCH_SUM] = { "fetch sum", "fi_fetch_atomic", RMA_OP_ATOMIC },
	[KIND_SWAP] = { "compare swap", "fi_compare_atomic", RMA_OP_ATOMIC },
};

/* data[0 .. size) with guard words right before and right behind it. */
struct buffer {
	uint8_t *block; /* owned */
	uint8_t *data;
};

/* The words that fetching and comparing operations need at the initiator. */
struct words {
	uint64_t result, compare;
};

struct bench {
	const struct rma_options *options;
	struct sample_end initiator, target;
	struct buffer local, remote;
	struct words *words;	  /* owned */
	struct fid_mr *words_mr;  /* for all sizes */
	struct fid_mr *local_mr;  /* for the present size */
	struct fid_mr *remote_mr; /* the same */
	struct sample_key shared;
	uint64_t address, key;	      /* of the target's first byte */
	size_t chunk[KIND_COUNT];     /* most bytes that one call may move */
	size_t done, total;	      /* rows, for the progress bar */
	uint64_t seed;		      /* of the next round's contents */
	double register_ns, close_ns; /* at the present size */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare_doubles(const void *left, const void *right)
{
	double l = *(const double *)left, r = *(const double *)right;

	return (l > r) - (l < r);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_doubles);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- transfers ---- */

static bool fits(enum kind kind, size_t size)
{
	switch (kind) {
	case KIND_WRITE:
	case KIND_READ:
		return true;
	case KIND_SUM:
	case KIND_BXOR:
		return size % 8 == 0;
	default:
		return size == 8;
	}
}

/* Start the operation on len bytes from offset on. */
static ssize_t post(struct bench *s, enum kind kind, size_t offset, size_t len)
{
	struct fid_ep *ep = s->initiator.ep;
	fi_addr_t peer = s->initiator.peer;
	void *desc = fi_mr_desc(s->local_mr), *words_desc = fi_mr_desc(s->words_mr);
	uint8_t *data = s->local.data + offset;
	uint64_t address = s->address + offset;

	switch (kind) {
	case KIND_WRITE:
		return fi_write(ep, data, len, desc, peer, address, s->key, NULL);
	case KIND_READ:
		return fi_read(ep, data, len, desc, peer, address, s->key, NULL);
	case KIND_SUM:
		return fi_atomic(ep, data, len / 8, desc, peer, address, s->key, FI_UINT64, FI_SUM,
				 NULL);
	case KIND_BXOR:
		return fi_atomic(ep, data, len / 8, desc, peer, address, s->key, FI_UINT64, FI_BXOR,
				 NULL);
	case KIND_FETCH_SUM:
		return fi_fetch_atomic(ep, data, len / 8, desc, &s->words->result, words_desc, peer,
				       address, s->key, FI_UINT64, FI_SUM, NULL);
	default:
		return fi_compare_atomic(ep, data, len / 8, desc, &s->words->compare, words_desc,
					 &s->words->result, words_desc, peer, address, s->key,
					 FI_UINT64, FI_CSWAP, NULL);
	}
}

/* Wait for count operations that are under way. */
static int finish(struct bench *s, enum kind kind, size_t count)
{
	int ret = 0;

	for (; !ret && count; count--)
		ret = sample_finish(&s->initiator, kinds[kind].call, 0);
	return ret;
}

/*
 * post(), again and again while the NIC has no room: each completion makes some.  *under_way counts
 * the operations that have not been waited for.
 */
static int post_patiently(struct bench *s, enum kind kind, size_t offset, size_t len,
			  size_t *under_way)
{
	uint64_t give_up = 0;
	ssize_t ret;

	while ((ret = post(s, kind, offset, len)) == -FI_EAGAIN) {
		if (*under_way) {
			ret = finish(s, kind, 1);
			if (ret)
				return (int)ret;
			--*under_way;
		} else if (!give_up) {
			give_up = now_ns() + SAMPLE_TIMEOUT_S * UINT64_C(1000000000);
		} else if (now_ns() > give_up) {
			break;
		}
	}
	if (ret)
		return sample_fail(kinds[kind].call, ret);
	++*under_way;
	return 0;
}

/*
 * Run the operation n times over size bytes: each finished before the next starts, or (pipelined)
 * as many under way as the NIC takes.
 */
static int transfer(struct bench *s, enum kind kind, size_t size, unsigned int n, bool pipelined)
{
	size_t offset, len, under_way = 0;
	int ret;

	for (; n; n--) {
		for (offset = 0; offset < size; offset += len) {
			len = size - offset < s->chunk[kind] ? size - offset : s->chunk[kind];
			ret = post_patiently(s, kind, offset, len, &under_way);
			if (!ret && !pipelined) {
				ret = finish(s, kind, under_way);
				under_way = 0;
			}
			if (ret)
				return ret;
		}
	}
	return finish(s, kind, under_way);
}

/* ---- rounds ---- */

/* Contents before and after a round, of either side. */
struct round {
	struct content local[2], remote[2]; /* [0] before, [1] after */
	bool swaps;			    /* KIND_SWAP: the comparison holds */
};

static struct round plan(struct bench *s, enum kind kind, unsigned int n)
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

static void prepare(struct bench *s, const struct round *r, size_t size)
{
	uint64_t target_word = content_word(&r->remote[0], 0);

	fill(s->local.data, size, &r->local[0]);
	fill(s->remote.data, size, &r->remote[0]);
	set_guards(s->local.data, size, LOCAL_SALT);
	set_guards(s->remote.data, size, REMOTE_SALT);
	s->words->result = ~target_word;
	s->words->compare = r->swaps ? target_word : ~target_word;
}

/* Is the word that the last of n operations brought back one that the target held before it? */
static bool result_right(const struct bench *s, enum kind kind, const struct round *r,
			 unsigned int n, bool pipelined)
{
	uint64_t start = content_word(&r->remote[0], 0);
	uint64_t operand = content_word(&r->local[0], 0);
	unsigned int k;

	if (kind == KIND_SWAP) {
		if (!r->swaps || n == 1)
			return s->words->result == start;
		return s->words->result == operand || (pipelined && s->words->result == start);
	}
	if (kind != KIND_FETCH_SUM)
		return true;
	if (!pipelined)
		return s->words->result == start + (n - 1) * operand;
	/* Operations under way together may write their results in any order. */
	for (k = 0; k < n; k++) {
		if (s->words->result == start + k * operand)
			return true;
	}
	return false;
}

static bool side_right(const char *side, const uint8_t *data, size_t size, uint64_t salt,
		       const struct content *c)
{
	size_t wrong = first_difference(data, size, c);

	if (wrong < size)
		fprintf(stderr, "%s buffer: byte %zu of %zu is wrong (0x%02x); ", side, wrong, size,
			data[wrong]);
	if (!guards_intact(data, size, salt)) {
		fprintf(stderr, "%s buffer: guard words were overwritten; ", side);
		return false;
	}
	return wrong == size;
}

static bool verify(const struct bench *s, enum kind kind, const struct round *r, size_t size,
		   unsigned int n, bool pipelined)
{
	bool right = side_right("target", s->remote.data, size, REMOTE_SALT, &r->remote[1]);

	right &= side_right("initiator", s->local.data, size, LOCAL_SALT, &r->local[1]);
	if (!result_right(s, kind, r, n, pipelined)) {
		fputs("the value brought back is wrong; ", stderr);
		right = false;
	}
	if (!right)
		fprintf(stderr, "after %u x %s of %zu bytes%s\n", n, kinds[kind].name, size,
			pipelined ? ", back to back" : "");
	return right;
}

/* One round.  *ns is the time that all n operations took. */
static int run_round(struct bench *s, enum kind kind, size_t size, unsigned int n, bool pipelined,
		     double *ns, bool *right)
{
	struct round r = plan(s, kind, n);
	uint64_t start;
	int ret;

	prepare(s, &r, size);
	start = now_ns();
	ret = transfer(s, kind, size, n, pipelined);
	*ns = (double)(now_ns() - start);
	if (!ret)
		*right = verify(s, kind, &r, size, n, pipelined);
	return ret;
}

static unsigned int clamp(size_t value, unsigned int low, unsigned int high)
{
	return value < low ? low : value > high ? high : (unsigned int)value;
}

/* All rounds of one kind at one size; stops at the first wrong byte. */
static int run_kind(struct bench *s, enum kind kind, size_t size, struct rma_row *row)
{
	unsigned int group = size <= SMALL_SIZE ? SMALL_GROUP : 1;
	unsigned int back_to_back = clamp(ROUND_BYTES / RUNS / size, 3, 2001) | 1;
	unsigned int iterations = s->options->iterations, i;
	double *times, ns = 0, runs[RUNS];
	int ret;

	if (!iterations)
		iterations = clamp(ROUND_BYTES / size, 3, 1000);
	times = calloc(iterations, sizeof(*times));
	if (!times)
		return sample_fail("calloc", -FI_ENOMEM);
	*row = (struct rma_row){
		size, kinds[kind].name, s->register_ns, s->close_ns, 0, 0, iterations, true
	};
	ret = run_round(s, kind, size, 1, false, &ns, &row->verified); /* warm-up, checked too */
	for (i = 0; !ret && row->verified && i < iterations; i++) {
		ret = run_round(s, kind, size, group, false, &times[i], &row->verified);
		times[i] /= group;
	}
	if (!ret && row->verified)
		row->latency_ns = median(times, iterations);
	for (i = 0; !ret && row->verified && i < RUNS; i++)
		ret = run_round(s, kind, size, back_to_back, true, &runs[i], &row->verified);
	if (!ret && row->verified) {
		ns = median(runs, RUNS);
		row->bytes_per_s = (double)size * back_to_back / (ns > 0 ? ns : 1) * 1e9;
	}
	free(times);
	return ret;
}

/* ---- one size ---- */

/* How long registering and closing the target takes: medians, each of the mean of a group. */
static int time_registration(struct bench *s, size_t size)
{
	double registering[REG_SAMPLES], closing[REG_SAMPLES];
	struct fid_mr *regions[REG_GROUP];
	unsigned int sample, i;
	uint64_t start;
	int ret = 0, failed;

	for (sample = 0; sample < REG_SAMPLES; sample++) {
		start = now_ns();
		for (i = 0; !ret && i < REG_GROUP; i++)
			ret = sample_register_buffer(&s->target, s->remote.data, size,
						     FI_REMOTE_READ | FI_REMOTE_WRITE, &regions[i]);
		registering[sample] = (double)(now_ns() - start) / REG_GROUP;
		i -= ret != 0;
		start = now_ns();
		while (i) {
			failed = fi_close(&regions[--i]->fid);
			if (failed && !ret)
				ret = sample_fail("fi_close", failed);
		}
		closing[sample] = (double)(now_ns() - start) / REG_GROUP;
		if (ret)
			return ret;
	}
	s->register_ns = median(registering, REG_SAMPLES);
	s->close_ns = median(closing, REG_SAMPLES);
	return 0;
}

/* Register both buffers for this size and hand the target's key to the initiator. */
static int open_regions(struct bench *s, size_t size)
{
	int ret;

	ret = sample_register_buffer(&s->initiator, s->local.data, size, FI_READ | FI_WRITE,
				     &s->local_mr);
	if (ret)
		return ret;
	ret = sample_register_buffer(&s->target, s->remote.data, size,
				     FI_REMOTE_READ | FI_REMOTE_WRITE, &s->remote_mr);
	if (ret)
		return ret;
	ret = sample_share(&s->target, s->remote_mr, s->remote.data, &s->shared);
	if (ret)
		return ret;
	s->address = s->shared.address;
	return sample_use(&s->initiator, &s->shared, &s->key);
}

/* Close a region if it is open. */
static int close_region(struct fid_mr **mr)
{
	int ret = *mr ? fi_close(&(*mr)->fid) : 0;

	*mr = NULL;
	return ret ? sample_fail("fi_close of a region", ret) : 0;
}

static int close_regions(struct bench *s)
{
	int ret = close_region(&s->local_mr), failed = close_region(&s->remote_mr);

	return ret ? ret : failed;
}

static int run_size(struct bench *s, size_t size, struct rma_result *result)
{
	struct rma_row *row;
	enum kind kind;
	int ret, failed;

	ret = time_registration(s, size);
	if (ret)
		return ret;
	ret = open_regions(s, size);
	if (ret)
		goto close;
	for (kind = 0; kind < KIND_COUNT; kind++) {
		if (!(kinds[kind].op & s->options->ops) || !fits(kind, size))
			continue;
		if (s->options->progress)
			rma_report_progress(s->done, s->total, size, kinds[kind].name);
		row = &result->rows[result->count];
		ret = run_kind(s, kind, size, row);
		if (ret)
			break;
		result->count++;
		result->verified &= row->verified;
		s->done++;
	}
	failed = sample_unuse(&s->initiator, &s->shared, s->key);
	ret = ret ? ret : failed;
close:
	failed = close_regions(s);
	return ret ? ret : failed;
}

/* ---- the run as a whole ---- */

static size_t next_size(size_t size, size_t max)
{
	if (size == max)
		return 0;
	return size > max / SIZE_FACTOR ? max : size * SIZE_FACTOR;
}

size_t rma_count_rows(const struct rma_options *options)
{
	size_t size, count = 0;
	enum kind kind;

	for (size = options->min; size; size = next_size(size, options->max)) {
		for (kind = 0; kind < KIND_COUNT; kind++)
			count += (kinds[kind].op & options->ops) && fits(kind, size);
	}
	return count;
}

static int open_buffer(struct buffer *buffer, size_t max)
{
	size_t bytes = (max + 2 * GUARD_BYTES + PAGE - 1) / PAGE * PAGE;

	buffer->block = aligned_alloc(PAGE, bytes);
	if (!buffer->block)
		return sample_fail("aligned_alloc", -FI_ENOMEM);
	memset(buffer->block, 0, bytes); /* some modes want pages that exist */
	buffer->data = buffer->block + GUARD_BYTES;
	return 0;
}

/* The most that one call of each kind may move. */
static int find_limits(struct bench *s)
{
	struct fid_ep *ep = s->initiator.ep;
	size_t max = s->initiator.info->ep_attr->max_msg_size;
	size_t count[4] = { 0 };
	int ret = 0;

	s->chunk[KIND_WRITE] = s->chunk[KIND_READ] = max ? max : s->options->max;
	if (!(s->options->ops & RMA_OP_ATOMIC))
		return 0;
	ret = fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count[0]);
	if (!ret)
		ret = fi_atomicvalid(ep, FI_UINT64, FI_BXOR, &count[1]);
	if (ret)
		return sample_fail("fi_atomicvalid", ret);
	ret = fi_fetch_atomicvalid(ep, FI_UINT64, FI_SUM, &count[2]);
	if (ret)
		return sample_fail("fi_fetch_atomicvalid", ret);
	ret = fi_compare_atomicvalid(ep, FI_UINT64, FI_CSWAP, &count[3]);
	if (ret)
		return sample_fail("fi_compare_atomicvalid", ret);
	s->chunk[KIND_SUM] = count[0] * 8;
	s->chunk[KIND_BXOR] = count[1] * 8;
	s->chunk[KIND_FETCH_SUM] = count[2] * 8;
	s->chunk[KIND_SWAP] = count[3] * 8;
	return 0;
}

static int open_bench(struct bench *s, const struct fi_info *info)
{
	int ret = open_buffer(&s->local, s->options->max);

	if (!ret)
		ret = open_buffer(&s->remote, s->options->max);
	if (!ret)
		ret = sample_open(&s->initiator, info, 0);
	if (!ret)
		ret = sample_open(&s->target, info, 0);
	if (!ret)
		ret = sample_connect(&s->initiator, &s->target);
	if (!ret)
		ret = find_limits(s);
	if (ret)
		return ret;
	s->words = calloc(1, sizeof(*s->words));
	if (!s->words)
		return sample_fail("calloc", -FI_ENOMEM);
	return sample_register_buffer(&s->initiator, s->words, sizeof(*s->words),
				      FI_READ | FI_WRITE, &s->words_mr);
}

static int close_bench(struct bench *s)
{
	int ret = close_region(&s->words_mr), failed;

	failed = sample_close(&s->initiator);
	ret = ret ? ret : failed;
	failed = sample_close(&s->target);
	free(s->words);
	free(s->local.block);
	free(s->remote.block);
	return ret ? ret : failed;
}

uint64_t rma_caps(unsigned int ops)
{
	return ((ops & (RMA_OP_WRITE | RMA_OP_READ)) ? FI_RMA : 0) |
	       ((ops & RMA_OP_ATOMIC) ? FI_ATOMIC : 0);
}

enum rma_exit rma_run(const struct rma_options *options, const struct fi_info *info,
		      struct rma_result *result)
{
	struct bench s = { .options = options,
			   .total = rma_count_rows(options),
			   .seed = SIZE_FACTOR };
	size_t size;
	int ret, failed;

	*result = (struct rma_result){ .verified = true };
	result->rows = calloc(s.total ? s.total : 1, sizeof(*result->rows));
	ret = result->rows ? open_bench(&s, info) : sample_fail("calloc", -FI_ENOMEM);
	for (size = options->min; !ret && size; size = next_size(size, options->max))
		ret = run_size(&s, size, result);
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
