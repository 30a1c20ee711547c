/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An all-to-all between the devices of this machine: each has a chunk for each other, round after round, and the
 * kernels move them without the host.
 *
 *   xpu_alltoall [DOMAIN [RANKS [DEVICE...]]]     RANKS: 4; DEVICE: cpu (default), threads, cuda:0, cuda:1 ...
 *
 * Where there are fewer devices than ranks, ranks share them, each with a context of its own; each rank has a cpu
 * to itself.  The kernel is in alltoall_kernel.c.  Exit status 77: there is no such device here.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common.h"
#include "alltoall.h"
#include "device.h"
#include "side.h"

#define SKIPPED	   77
#define ROUNDS	   100
#define TIMEOUT_MS 60000

struct rank {
	struct xpu_device *device;
	struct xpu_side side;
	struct xpu_memory memory; /* what links are for, by peer; the table of links; reports */
	struct xpu_channel channels[A2A_RANKS_MAX];
};

#define LINKS_AT   (A2A_RANKS_MAX * sizeof(struct a2a_memory))
#define REPORTS_AT (LINKS_AT + A2A_RANKS_MAX * sizeof(struct xpu_link))
#define ALL	   (REPORTS_AT + A2A_RANKS_MAX * sizeof(struct a2a_report))

static struct rank ranks[A2A_RANKS_MAX];
static uint32_t count = 4;

/* A channel to each other rank. */
static int open_rank(struct rank *rank, const char *domain)
{
	static const uint64_t one = 1;
	size_t at = 0;
	int ret = xpu_device_alloc(rank->device, ALL, &rank->memory);

	if (!ret)
		ret = xpu_side_open(&rank->side, domain, rank->device);
	for (uint32_t p = 0; !ret && p < count; p++, at += sizeof(struct a2a_memory)) {
		if (rank == &ranks[p])
			continue;
		ret = xpu_channel_open(&rank->channels[p], &rank->side, false, &rank->memory, at,
				       sizeof(struct a2a_memory));
		if (!ret)
			ret = xpu_device_write(rank->device,
					       rank->memory.on_host + at +
						       offsetof(struct a2a_memory, one),
					       &one, sizeof(one));
	}
	return ret;
}

static int close_rank(struct rank *rank)
{
	int ret = 0, failed;

	for (uint32_t p = 0; p < count; p++) {
		failed = xpu_channel_close(&rank->channels[p]);
		ret = ret ? ret : failed;
	}
	failed = xpu_side_close(&rank->side);
	if (rank->device)
		xpu_device_free(rank->device, &rank->memory);
	xpu_device_close(rank->device);
	return ret ? ret : failed;
}

/* The kernel of rank r, with a block for each peer. */
static int start(uint32_t r)
{
	struct rank *rank = &ranks[r];
	struct xpu_link links[A2A_RANKS_MAX];
	struct a2a_args args = {
		.links = (struct xpu_link *)(rank->memory.on_device + LINKS_AT),
		.reports = (struct a2a_report *)(rank->memory.on_device + REPORTS_AT),
		.rank = r,
		.ranks = count,
		.rounds = ROUNDS,
		.timeout = TIMEOUT_MS / 2 * 1000000ull,
	};
	int ret;

	for (uint32_t p = 0; p < count; p++)
		links[p] = rank->channels[p].link;
	ret = xpu_device_write(rank->device, rank->memory.on_host + LINKS_AT, links,
			       count * sizeof(links[0]));
	return ret ? ret
		   : xpu_device_launch(rank->device, XPU_CALL(alltoall), &args, sizeof(args),
				       count - 1, 2 * rank->device->subgroup);
}

/* Its kernel has ended: what did each block see? */
static int look(uint32_t r)
{
	struct rank *rank = &ranks[r];
	struct a2a_report reports[A2A_RANKS_MAX];
	int ret = xpu_device_read(rank->device, reports, rank->memory.on_host + REPORTS_AT,
				  (count - 1) * sizeof(reports[0]));

	for (uint32_t b = 0, peer; !ret && b < count - 1; b++) {
		peer = (r + 1 + b) % count;
		if (!xpu_channel_errors(&rank->channels[peer]) && !reports[b].error &&
		    !reports[b].wrong && reports[b].rounds == ROUNDS)
			continue;
		fprintf(stderr, "rank %u, peer %u: %llu rounds, %llu words wrong\n", r, peer,
			(unsigned long long)reports[b].rounds,
			(unsigned long long)reports[b].wrong);
		ret = sample_fail("the kernel", reports[b].error ? reports[b].error : -FI_EIO);
	}
	return ret;
}

static int connect_all(void)
{
	int ret = 0;

	for (uint32_t r = 0; r < count; r++) {
		for (uint32_t p = r + 1; !ret && p < count; p++)
			ret = xpu_connect(&ranks[r].channels[p], &ranks[p].channels[r]);
	}
	return ret;
}

static int run(void)
{
	struct timespec begin, end;
	uint32_t started = 0;
	double seconds;
	int ret = 0, failed;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (!ret && started < count) {
		ret = start(started);
		started += !ret;
	}
	for (uint32_t r = 0; r < started; r++) {
		failed = xpu_device_wait(ranks[r].device, TIMEOUT_MS);
		ret = ret ? ret : failed;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	for (uint32_t r = 0; !ret && r < count; r++)
		ret = look(r);
	seconds =
		(double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
	if (!ret)
		printf("%u ranks, %d rounds, %zu bytes to each: every word was right; %.1f us a "
		       "round\n",
		       count, ROUNDS, sizeof(uint64_t[A2A_CHUNK]), seconds / ROUNDS * 1e6);
	return ret;
}

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : NULL;
	int ret = 0, failed = 0;

	if (argc > 2)
		count = (uint32_t)strtoul(argv[2], NULL, 10);
	if (count < 2 || count > A2A_RANKS_MAX) {
		fprintf(stderr, "there can be 2 to %d ranks\n", A2A_RANKS_MAX);
		return EXIT_FAILURE;
	}
	for (uint32_t r = 0; !ret && r < count; r++) {
		ret = xpu_device_open(argc > 3 ? argv[3 + r % (uint32_t)(argc - 3)] : "cpu",
				      &ranks[r].device);
		if (ret == -FI_ENODEV && r == 0)
			return SKIPPED;
	}
	for (uint32_t r = 0; !ret && r < count; r++)
		ret = open_rank(&ranks[r], domain);
	if (!ret)
		ret = connect_all();
	if (!ret) {
		printf("NIC domain %s, devices %s\n", ranks[0].side.end.info->domain_attr->name,
		       ranks[0].device->name);
		ret = run();
	}
	for (uint32_t r = 0; r < count; r++)
		failed |= close_rank(&ranks[r]);
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
