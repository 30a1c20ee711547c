/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes.  In the all-gather each rank writes to the next one of the ring alone: its own block, and every chunk of
 * others as soon as it has come, until that would be its owner's.  A write brings the chunk's number along
 * (FI_REMOTE_CQ_DATA), by which the receiver knows what has come.
 */
#include <sched.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_rma.h>

#include "allgather.h"

#define WINDOW	   16 /* writes of a rail that are on their way at once */
#define BATCH	   16
#define PAIR_BYTES (1u << 20)
#define PAIR_MOST  64

double ag_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- completions ---- */

/* A chunk has come: it is passed on, unless the next rank is who it came from first. */
static int arrive(struct ag_world *w, struct ag_rank *rank, uint64_t chunk)
{
	if (chunk >= (uint64_t)w->chunks * w->total || rank->have[chunk]) {
		fprintf(stderr, "rank %u: chunk %llu has come %s\n", rank->number,
			(unsigned long long)chunk,
			chunk < (uint64_t)w->chunks * w->total ? "twice" : "and there is none");
		return -FI_EIO;
	}
	rank->have[chunk] = 1;
	rank->arrived++;
	if (chunk / w->chunks != rank->next)
		rank->queue[rank->tail++] = (uint32_t)chunk;
	return 0;
}

static int failed_write(struct ag_world *w, struct ag_rank *rank, struct ag_rail *rail)
{
	struct fi_cq_err_entry error = { .err_data_size = 0 };
	ssize_t ret = fi_cq_readerr(rail->end.cq, &error, 0);

	if (ret != 1)
		return sample_fail("fi_cq_readerr", ret < 0 ? ret : -FI_EOTHER);
	fprintf(stderr, "rank %u (%s) to rank %u (%s): %s: %s\n", rank->number,
		rail->end.info->domain_attr->name, rail->receiver, w->card[rail->receiver].memory,
		fi_strerror(error.err),
		fi_cq_strerror(rail->end.cq, error.prov_errno, error.err_data, NULL, 0));
	return error.err ? -error.err : -FI_EIO;
}

static int poll_rail(struct ag_world *w, struct ag_rank *rank, struct ag_rail *rail)
{
	struct fi_cq_data_entry entry[BATCH];
	ssize_t n = fi_cq_read(rail->end.cq, entry, BATCH);
	int ret = 0;

	if (n == -FI_EAGAIN)
		return 0;
	if (n == -FI_EAVAIL)
		return failed_write(w, rank, rail);
	if (n < 0)
		return sample_fail("fi_cq_read", n);
	for (ssize_t i = 0; i < n && !ret; i++) {
		if (entry[i].flags & FI_REMOTE_CQ_DATA) {
			ret = arrive(w, rank, entry[i].data);
		} else {
			rail->in_fly--;
			rank->written++;
		}
	}
	return ret ? ret : (int)n;
}

int ag_poll(struct ag_world *w)
{
	int found = 0;

	for (unsigned int r = 0; r < w->count; r++) {
		for (unsigned int i = 0; i < w->rails; i++) {
			int n = poll_rail(w, &w->rank[r], &w->rank[r].rail[i]);

			if (n < 0)
				return n;
			found += n;
		}
	}
	return found;
}

/* How long nothing has come. */
struct patience {
	double since; /* 0: something has */
	unsigned int polls;
};

/* After each look at the queues; lets others run when nothing was found, and gives up after a while. */
static int be_patient(struct ag_world *w, struct patience *p, int found)
{
	if (found) {
		*p = (struct patience){ 0 };
		return found < 0 ? found : 0;
	}
	if (++p->polls >= 16)
		sched_yield();
	if (p->polls % 256)
		return 0;
	if (p->since == 0)
		p->since = ag_now();
	if (ag_now() - p->since > w->options.timeout_s)
		return -FI_ETIMEDOUT;
	return ag_boot_alive(w);
}

/* ---- writes ---- */

static uint64_t chunk_len(const struct ag_world *w, uint64_t at)
{
	uint64_t left = w->options.size - at;

	return left < w->options.chunk ? left : w->options.chunk;
}

/* Chunk index of block to a rank; data: tell it.  -FI_EAGAIN: not now. */
static int write_chunk(struct ag_world *w, struct ag_rank *rank, unsigned int to, uint32_t chunk,
		       bool tell)
{
	unsigned int i = chunk % w->rails;
	struct ag_rail *rail = &rank->rail[i];
	uint64_t at = chunk % w->chunks * w->options.chunk, len = chunk_len(w, at);
	uint64_t offset = chunk / w->chunks * w->options.size + at;
	uint64_t address = w->card[to].key[i].address + offset;
	void *desc = fi_mr_desc(rank->region->mr[i]);
	ssize_t ret;

	if (rail->in_fly >= WINDOW)
		return -FI_EAGAIN;
	rail->receiver = to;
	if (tell)
		ret = fi_writedata(rail->end.ep, rank->buffer + offset, len, desc, chunk,
				   rail->peer[to], address, rail->key[to], NULL);
	else
		ret = fi_write(rail->end.ep, rank->buffer + offset, len, desc, rail->peer[to],
			       address, rail->key[to], NULL);
	if (ret == -FI_EAGAIN)
		return -FI_EAGAIN;
	if (ret) {
		fprintf(stderr, "rank %u (%s) to rank %u: ", rank->number,
			rail->end.info->domain_attr->name, to);
		return sample_fail("fi_write", ret);
	}
	rail->in_fly++;
	return 0;
}

/* ---- the all-gather ---- */

static void begin(struct ag_world *w, struct ag_rank *rank)
{
	size_t all = (size_t)w->chunks * w->total;

	memset(rank->have, 0, all);
	rank->head = rank->tail = rank->arrived = rank->written = 0;
	for (uint32_t c = 0; c < w->chunks && w->total > 1; c++) {
		rank->have[rank->number * w->chunks + c] = 1;
		rank->queue[rank->tail++] = rank->number * w->chunks + c;
	}
}

/* Writes what may be written: 0, or an error. */
static int push(struct ag_world *w, struct ag_rank *rank)
{
	while (rank->head < rank->tail) {
		int ret = write_chunk(w, rank, rank->next, rank->queue[rank->head], true);

		if (ret)
			return ret == -FI_EAGAIN ? 0 : ret;
		rank->head++;
	}
	return 0;
}

/* Each rank gets, and writes, all blocks but one. */
static bool all_done(const struct ag_world *w)
{
	size_t want = (size_t)w->chunks * (w->total - 1);

	for (unsigned int r = 0; r < w->count; r++) {
		if (w->rank[r].arrived < want || w->rank[r].written < want)
			return false;
	}
	return true;
}

static void tell_what_lacks(const struct ag_world *w)
{
	size_t want = (size_t)w->chunks * (w->total - 1);

	for (unsigned int r = 0; r < w->count; r++) {
		const struct ag_rank *rank = &w->rank[r];

		if (rank->arrived < want || rank->written < want)
			fprintf(stderr,
				"rank %u: %zu of %zu chunks have come, %zu were written to rank "
				"%u\n",
				rank->number, rank->arrived, want, rank->written, rank->next);
	}
	fprintf(stderr, "nothing has moved for %u seconds\n", w->options.timeout_s);
}

int ag_gather(struct ag_world *w, double *seconds)
{
	struct patience p = { 0 };
	char ready = 0, all[AG_NODES];
	double start;
	int ret = 0;

	for (unsigned int r = 0; r < w->count && !ret; r++) {
		begin(w, &w->rank[r]);
		ret = ag_prepare(w, &w->rank[r]);
	}
	if (!ret) /* nobody writes to what is not prepared */
		ret = ag_exchange(w, &ready, 1, all);
	start = ag_now();
	while (!ret && !all_done(w)) {
		for (unsigned int r = 0; r < w->count && !ret; r++)
			ret = push(w, &w->rank[r]);
		if (!ret)
			ret = be_patient(w, &p, ag_poll(w));
	}
	*seconds = ag_now() - start;
	if (ret == -FI_ETIMEDOUT)
		tell_what_lacks(w);
	return ret;
}

/* ---- pairs ---- */

/* The rank's own block, so many times over. */
static int write_block(struct ag_world *w, struct ag_rank *rank, unsigned int to,
		       unsigned int times)
{
	size_t count = (size_t)times * w->chunks, posted = 0;
	struct patience p = { 0 };
	int ret = 0;

	rank->written = 0;
	while (!ret && rank->written < count) {
		while (!ret && posted < count) {
			ret = write_chunk(w, rank, to,
					  rank->number * w->chunks + (uint32_t)(posted % w->chunks),
					  false);
			posted += !ret;
		}
		if (!ret || ret == -FI_EAGAIN)
			ret = be_patient(w, &p, ag_poll(w));
	}
	if (ret == -FI_ETIMEDOUT)
		fprintf(stderr, "rank %u to rank %u: nothing has moved for %u seconds\n",
			rank->number, to, w->options.timeout_s);
	return ret;
}

int ag_measure(struct ag_world *w, struct ag_rank *rank, unsigned int to, double *rate)
{
	uint64_t size = w->options.size;
	unsigned int times;
	double start;
	int ret;

	*rate = 0;
	if (!size)
		return 0;
	times = size >= PAIR_BYTES ? 1 : (unsigned int)(PAIR_BYTES / size);
	times = times > PAIR_MOST ? PAIR_MOST : times;
	ret = write_block(w, rank, to, 1); /* makes the connection, and is not counted */
	start = ag_now();
	if (!ret)
		ret = write_block(w, rank, to, times);
	if (!ret)
		*rate = (double)times * (double)size / (ag_now() - start) / 1e6;
	return ret;
}
