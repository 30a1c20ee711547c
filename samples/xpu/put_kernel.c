/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two devices send each other messages: each writes into the other's memory, signals it by an atomic operation,
 * and waits on its counter until both are done.  One block; its threads do everything together.
 */
#include "kernel.h" /* before what includes fi_xpu_device.h */

#include "put.h"
#include "link_kernel.h"

#define AT(member) offsetof(struct put_memory, member)

/* The byte at k of what rank sends in this round. */
XPU_FUNC unsigned char put_byte(uint32_t rank, uint32_t round, uint32_t k)
{
	return (unsigned char)(rank * 101 + round * 31 + k * 7 + k / 256);
}

/* One message to the peer, and one from it. */
XPU_FUNC int exchange(struct xpu_link *link, uint32_t round, uint64_t timeout)
{
	const size_t slot = (round & 1) * PUT_LEN;
	int ret = link_put(link, AT(outbox) + slot, AT(inbox) + slot, PUT_LEN);

	if (ret == 0)
		ret = link_signal(link, AT(one), AT(signal));
	if (ret == 0)
		ret = link_finish(link, timeout);
	return ret ? ret : link_await(link, AT(signal), (uint64_t)round + 1, timeout);
}

XPU_KERNEL(put, struct put_args)
{
	struct put_memory *mem = (struct put_memory *)args.link.mem;
	uint32_t round, slot, k, wrong = 0;
	int ret = 0;

	for (round = 0; ret == 0 && round < args.rounds; round++) {
		slot = round & 1;
		for (k = xpu_thread(); k < PUT_LEN; k += xpu_threads())
			mem->outbox[slot][k] = put_byte(args.rank, round, k);
		xpu_sync(); /* the message is whole */
		ret = exchange(&args.link, round, args.timeout);
		for (k = xpu_thread(); ret == 0 && k < PUT_LEN; k += xpu_threads())
			wrong += mem->inbox[slot][k] != put_byte(!args.rank, round, k);
	}
	xpu_add(&mem->wrong, wrong);
	if (xpu_thread() == 0) {
		mem->rounds = ret ? round - 1 : round;
		mem->error = ret;
	}
}
