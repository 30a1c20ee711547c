/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What peers do to each region, counted at its owner: fi_mr_bind of counters.
 *
 *   event_counters [DOMAIN]
 *
 * Two regions of one domain, each with a counter of its own: one counts operations, the other bytes.
 * The owner calls nothing while the peer writes, reads and adds; then the counters tell how many
 * operations changed each region.  An RDMA device cannot count: fi_getinfo finds none then.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "common.h"

#define WORDS	   8
#define LEN	   (WORDS * sizeof(uint64_t))
#define TIMEOUT_MS 5000

/* A region of the owner's, its counter, and how the peer reaches it. */
struct counted {
	const char *what;
	enum fi_cntr_events events;
	uint64_t memory[WORDS];
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct sample_key shared;
	uint64_t key;
};

static struct counted regions[2] = {
	{ .what = "operations", .events = FI_CNTR_EVENTS_COMP },
	{ .what = "bytes", .events = FI_CNTR_EVENTS_BYTES },
};

static struct sample_end owner, peer;
static uint64_t local[WORDS];
static struct fid_mr *local_mr;

static int open_region(struct counted *region)
{
	struct fi_cntr_attr attr = { .events = region->events, .wait_obj = FI_WAIT_UNSPEC };
	struct iovec iov = { region->memory, LEN };
	int ret = fi_cntr_open(owner.domain, &attr, &region->cntr, NULL);

	if (ret)
		return sample_fail("fi_cntr_open", ret);
	/*
	 * The counter is bound before the region is enabled, and where FI_MR_RMA_EVENT was agreed, the
	 * registration has said that it would be (FI_RMA_EVENT).
	 */
	ret = sample_register(&owner, &iov, 1, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, region->cntr,
			      &region->mr);
	if (!ret)
		ret = sample_share(&owner, region->mr, region->memory, &region->shared);
	return ret ? ret : sample_use(&peer, &region->shared, &region->key);
}

static int close_region(struct counted *region)
{
	int ret = region->key ? sample_unuse(&peer, &region->shared, region->key) : 0, failed;

	failed = region->mr ? fi_close(&region->mr->fid) : 0; /* before its counter */
	ret = ret ? ret : failed;
	failed = region->cntr ? fi_close(&region->cntr->fid) : 0;
	return ret ? ret : failed;
}

static int put(struct counted *region, size_t words)
{
	return sample_finish(&peer, "fi_write",
			     fi_write(peer.ep, local, words * sizeof(uint64_t),
				      fi_mr_desc(local_mr), peer.peer, region->shared.address,
				      region->key, NULL));
}

static int get(struct counted *region)
{
	return sample_finish(&peer, "fi_read",
			     fi_read(peer.ep, local, LEN, fi_mr_desc(local_mr), peer.peer,
				     region->shared.address, region->key, NULL));
}

static int add(struct counted *region, size_t words)
{
	return sample_finish(&peer, "fi_atomic",
			     fi_atomic(peer.ep, local, words, fi_mr_desc(local_mr), peer.peer,
				       region->shared.address, region->key, FI_UINT64, FI_SUM,
				       NULL));
}

/* Writes and atomics that change the region are counted, reads are not. */
static int work(struct counted *region)
{
	int ret = put(region, WORDS);

	if (!ret)
		ret = put(region, 1);
	if (!ret)
		ret = get(region);
	if (!ret)
		ret = add(region, 2);
	return ret;
}

static int check(struct counted *region, uint64_t want)
{
	int ret = fi_cntr_wait(region->cntr, want, TIMEOUT_MS);
	uint64_t have = fi_cntr_read(region->cntr);

	if (ret)
		return sample_fail("fi_cntr_wait", ret);
	printf("%s: %llu\n", region->what, (unsigned long long)have);
	if (have == want)
		return 0;
	fprintf(stderr, "%llu were expected\n", (unsigned long long)want);
	return -FI_EIO;
}

static int demonstrate(void)
{
	int ret = 0;

	printf("to each of two regions: a write of %zu bytes, one of 8, a read, and an atomic sum "
	       "over 2 words\n",
	       LEN);
	for (size_t i = 0; !ret && i < 2; i++)
		ret = work(&regions[i]);
	if (!ret)
		ret = check(&regions[0], 3);
	if (!ret)
		ret = check(&regions[1], LEN + 8 + 16);
	return ret;
}

static int open_all(const char *domain)
{
	uint64_t caps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT;
	int ret = sample_open_named(&owner, domain, caps, 0);

	if (!ret)
		ret = sample_open_named(&peer, domain, caps, 0);
	if (!ret)
		ret = sample_connect(&peer, &owner);
	if (!ret)
		ret = sample_register_buffer(&peer, local, LEN, FI_READ | FI_WRITE, &local_mr);
	for (size_t i = 0; !ret && i < 2; i++)
		ret = open_region(&regions[i]);
	return ret;
}

static int close_all(void)
{
	int ret = local_mr ? fi_close(&local_mr->fid) : 0, failed;

	for (size_t i = 0; i < 2; i++) {
		failed = close_region(&regions[i]);
		ret = ret ? ret : failed;
	}
	failed = sample_close(&peer);
	ret = ret ? ret : failed;
	failed = sample_close(&owner);
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	int ret = open_all(argc > 1 ? argv[1] : NULL), failed;

	if (!ret) {
		printf("NIC domain %s\n", owner.info->domain_attr->name);
		ret = demonstrate();
	}
	failed = close_all();
	ret = ret ? ret : failed;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
