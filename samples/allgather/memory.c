/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers and regions of ranks, and what stands in them. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>

#include "allgather.h"

#define PAGE 4096

static size_t bytes_of(const struct ag_world *w)
{
	size_t len = (size_t)w->options.size * w->total;

	return len ? len : 1; /* there has to be something to register */
}

/* ---- opening ---- */

/* What the library has refused since it was told to forget. */
static void tell_why(struct ag_world *w)
{
	struct hmreg_refusal refusal = { .size = sizeof(refusal) };

	for (size_t i = 0; !w->ops->refusal(&w->fabric->fid, i, &refusal); i++)
		fprintf(stderr, "because: %s\n", refusal.text);
}

static int open_rail(struct ag_world *w, struct ag_rank *rank, unsigned int i)
{
	struct ag_rail *rail = &rank->rail[i];
	size_t len = AG_ADDRESS;
	int ret;

	w->ops->forget(&w->fabric->fid);
	ret = sample_open(&rail->end, rank->nic[i], 0);
	if (!ret) {
		ret = fi_enable(rail->end.ep);
		if (ret)
			sample_fail("fi_enable", ret);
	}
	if (ret) {
		fprintf(stderr, "NIC %s does not serve %s\n", rank->card.nic[i], rank->card.memory);
		tell_why(w);
		return ret;
	}
	ret = fi_getname(&rail->end.ep->fid, rank->card.address[i], &len);
	return ret ? sample_fail("fi_getname", ret) : 0;
}

static int allocate(struct ag_world *w, struct ag_rank *rank)
{
	size_t chunks = (size_t)w->chunks * w->total + 1, len = bytes_of(w);
	void *buffer = NULL;
	int ret = 0;

	rank->queue = malloc(chunks * sizeof(*rank->queue));
	rank->have = malloc(chunks);
	rank->rail = calloc(AG_RAILS, sizeof(*rank->rail));
	if (!rank->queue || !rank->have || !rank->rail)
		return sample_fail("malloc", -FI_ENOMEM);
	if (rank->place.iface == FI_HMEM_SYSTEM) {
		buffer = aligned_alloc(PAGE, (len + PAGE - 1) / PAGE * PAGE);
		ret = buffer ? 0 : -FI_ENOMEM;
	} else {
		ret = w->hmem->alloc(&w->fabric->fid, rank->place.iface, rank->place.device,
				     HMREG_HMEM_DEVICE, len, &buffer);
	}
	if (ret) {
		fprintf(stderr, "%s: ", rank->card.memory);
		return sample_fail("allocating the buffer", ret);
	}
	rank->buffer = buffer;
	return 0;
}

/* One call registers the buffer with the NICs of all rails, or with none, and says which refused and why. */
static int register_buffer(struct ag_world *w, struct ag_rank *rank)
{
	struct iovec iov = { rank->buffer, bytes_of(w) };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = FI_WRITE | FI_REMOTE_WRITE,
				   .requested_key = 1 };
	struct hmreg_multi_call call = { .size = sizeof(call) };
	struct fid_domain *domains[AG_RAILS];
	struct hmreg_multi_ops *ops;
	int ret = 0;

	for (unsigned int i = 0; i < w->rails; i++)
		domains[i] = rank->rail[i].end.domain;
	sample_name_place(&attr, &rank->place);
	ret = fi_open_ops(&domains[0]->fid, HMREG_MULTI_OPS, 0, (void **)&ops, NULL);
	if (ret)
		return sample_fail("fi_open_ops of " HMREG_MULTI_OPS, ret);
	ret = ops->reg(domains, w->rails, &attr, 0, &call, &rank->region);
	if (ret) {
		fprintf(stderr, "registration of %s with NIC %s is refused: %s\n",
			rank->card.memory,
			call.refused < w->rails ? rank->card.nic[call.refused] : "?", call.reason);
		return ret;
	}
	for (unsigned int i = 0; i < w->rails && !ret; i++) {
		ret = sample_make_usable(&rank->rail[i].end, rank->region->mr[i], NULL);
		if (!ret)
			ret = sample_share(&rank->rail[i].end, rank->region->mr[i], rank->buffer,
					   &rank->card.key[i]);
	}
	return ret;
}

int ag_open_ranks(struct ag_world *w)
{
	int ret = 0;

	for (unsigned int r = 0; r < w->count && !ret; r++) {
		struct ag_rank *rank = &w->rank[r];

		ret = allocate(w, rank);
		for (unsigned int i = 0; i < w->rails && !ret; i++)
			ret = open_rail(w, rank, i);
		if (!ret)
			ret = register_buffer(w, rank);
	}
	return ret;
}

static int meet_one(struct ag_world *w, struct ag_rail *rail, unsigned int i)
{
	int ret = 0;

	for (unsigned int k = 0; k < w->total && !ret; k++) {
		ret = sample_enter(&rail->end, w->card[k].address[i], &rail->peer[k]);
		if (!ret)
			ret = sample_use(&rail->end, &w->card[k].key[i], &rail->key[k]);
		rail->mapped += !ret;
	}
	return ret;
}

int ag_meet(struct ag_world *w)
{
	int ret = 0;

	for (unsigned int r = 0; r < w->count; r++) {
		for (unsigned int i = 0; i < w->rails && !ret; i++)
			ret = meet_one(w, &w->rank[r].rail[i], i);
	}
	return ret;
}

/* ---- closing ---- */

static void keep(int *first, int ret)
{
	*first = *first ? *first : ret;
}

static int close_rank(struct ag_world *w, struct ag_rank *rank)
{
	int ret = 0;

	for (unsigned int i = 0; rank->rail && i < w->rails; i++) {
		struct ag_rail *rail = &rank->rail[i];

		while (rail->mapped-- > 0)
			keep(&ret, sample_unuse(&rail->end, &w->card[rail->mapped].key[i],
						rail->key[rail->mapped]));
	}
	if (rank->region) {
		int failed = fi_close(&rank->region->fid);

		keep(&ret, failed ? sample_fail("fi_close of a region", failed) : 0);
	}
	for (unsigned int i = 0; rank->rail && i < w->rails; i++)
		keep(&ret, sample_close(&rank->rail[i].end));
	if (rank->buffer && rank->place.iface != FI_HMEM_SYSTEM)
		keep(&ret, w->hmem->free(&w->fabric->fid, rank->place.iface, rank->place.device,
					 HMREG_HMEM_DEVICE, rank->buffer));
	else
		free(rank->buffer);
	free(rank->queue);
	free(rank->have);
	free(rank->rail);
	return ret;
}

int ag_close_ranks(struct ag_world *w)
{
	int ret = 0;

	for (unsigned int r = 0; r < w->count; r++)
		keep(&ret, close_rank(w, &w->rank[r]));
	return ret;
}

/* ---- what stands in them ---- */

/* Byte at of a rank's block: depends on all three, so that nothing old and nothing of another rank passes for it. */
static uint8_t pattern(uint64_t round, unsigned int rank, uint64_t at)
{
	uint64_t x = (at / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) ^
		     (rank + 1) * UINT64_C(0xd6e8feb86659fd93) ^
		     (round + 1) * UINT64_C(0xa0761d6478bd642f);

	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 32;
	return (uint8_t)(x >> at % 8 * 8);
}

int ag_prepare(struct ag_world *w, struct ag_rank *rank)
{
	uint64_t size = w->options.size;
	uint8_t *all = calloc(1, bytes_of(w));
	int ret;

	if (!all)
		return sample_fail("calloc", -FI_ENOMEM);
	for (uint64_t k = 0; k < size; k++)
		all[rank->number * size + k] = pattern(w->round, rank->number, k);
	ret = w->hmem->copy(&w->fabric->fid, rank->buffer, all, bytes_of(w));
	free(all);
	return ret ? sample_fail("copy to the buffer", ret) : 0;
}

static int compare_block(struct ag_world *w, const struct ag_rank *rank, unsigned int of,
			 const uint8_t *block)
{
	for (uint64_t k = 0; k < w->options.size; k++) {
		uint8_t want = pattern(w->round, of, k);

		if (block[k] == want)
			continue;
		fprintf(stderr,
			"rank %u: byte %llu of the block of rank %u is 0x%02x and should be "
			"0x%02x\n",
			rank->number, (unsigned long long)k, of, block[k], want);
		return -FI_EIO;
	}
	return 0;
}

/* For a test of the comparison: one bit of the last byte. */
static int spoil(struct ag_world *w, struct ag_rank *rank)
{
	uint8_t *last = rank->buffer + bytes_of(w) - 1, byte;
	int ret = w->hmem->copy(&w->fabric->fid, &byte, last, 1);

	byte ^= 1;
	return ret ? ret : w->hmem->copy(&w->fabric->fid, last, &byte, 1);
}

int ag_verify(struct ag_world *w, struct ag_rank *rank)
{
	uint8_t *all = malloc(bytes_of(w));
	int ret = all ? 0 : -FI_ENOMEM;

	if (!ret && w->options.spoil == (int)rank->number)
		ret = spoil(w, rank);
	if (!ret)
		ret = w->hmem->copy(&w->fabric->fid, all, rank->buffer, bytes_of(w));
	if (ret)
		sample_fail("copy from the buffer", ret);
	for (unsigned int of = 0; of < w->total && !ret; of++)
		ret = compare_block(w, rank, of, all + of * w->options.size);
	free(all);
	return ret;
}
