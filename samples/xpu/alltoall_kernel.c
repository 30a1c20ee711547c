/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An all-to-all between devices, as a collective library has it: round after round each rank has a chunk for
 * every other.  One block per peer, with an endpoint of its own, so that no block waits for another; a block
 * puts its chunk when the peer wants it, and takes the peer's when that has arrived.
 */
#include "kernel.h" /* before what includes fi_xpu_device.h */

#include "alltoall.h"
#include "link_kernel.h"

#define AT(member) offsetof(struct a2a_memory, member)

/* The word at k of what one rank has for another in this round. */
XPU_FUNC uint64_t a2a_word(uint32_t from, uint32_t to, uint32_t round, uint32_t k)
{
	return ((uint64_t)from << 48 | (uint64_t)to << 32 | k) * 0x9e3779b97f4a7c15 + round;
}

/* Both chunks of one round; the peer is told that the last one was taken. */
XPU_FUNC int exchange(struct xpu_link *link, uint32_t round, uint64_t timeout)
{
	int ret = link_await(link, AT(ready), round, timeout);

	if (ret == 0)
		ret = link_put(link, AT(send), AT(recv), sizeof(uint64_t[A2A_CHUNK]));
	if (ret == 0)
		ret = link_signal(link, AT(one), AT(arrived));
	if (ret == 0)
		ret = link_await(link, AT(arrived), (uint64_t)round + 1, timeout);
	return ret ? ret : link_finish(link, timeout); /* send may be filled again */
}

XPU_KERNEL(alltoall, struct a2a_args)
{
	const uint32_t peer = (args.rank + 1 + xpu_block()) % args.ranks;
	struct xpu_link link = args.links[peer];
	struct a2a_memory *mem = (struct a2a_memory *)link.mem;
	struct a2a_report *report = &args.reports[xpu_block()];
	uint32_t round, k, wrong = 0;
	int ret = 0;

	for (round = 0; ret == 0 && round < args.rounds; round++) {
		for (k = xpu_thread(); k < A2A_CHUNK; k += xpu_threads())
			mem->send[k] = a2a_word(args.rank, peer, round, k);
		xpu_sync();
		ret = exchange(&link, round, args.timeout);
		for (k = xpu_thread(); ret == 0 && k < A2A_CHUNK; k += xpu_threads())
			wrong += mem->recv[k] != a2a_word(peer, args.rank, round, k);
		xpu_sync(); /* all of it was looked at: the peer may write the next */
		if (ret == 0)
			ret = link_signal(&link, AT(one), AT(ready));
	}
	if (ret == 0)
		ret = link_finish(&link, args.timeout);
	xpu_add(&report->wrong, wrong);
	if (xpu_thread() == 0) {
		report->rounds = ret ? round - 1 : round;
		report->error = ret;
	}
}
