/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel of xpu_bench: writes of 8 bytes to the peer, by one thread or a group. */
#include "samples/xpu/kernel.h"

#include <rdma/fi_errno.h>

#include "tests/bench/xpu_kernel.h"

#define TIMEOUT_MS 20000

/* Until the ring has so many done; a -FI_E code. */
XPU_FUNC int finish(struct xpu_link *link, uint64_t count, int scope)
{
	fi_xpu_cntr_wait(&link->sent, count, TIMEOUT_MS, scope);
	if (fi_xpu_cntr_readerr(&link->sent, scope))
		return -FI_EIO;
	return fi_xpu_cntr_read(&link->sent, scope) < count ? -FI_ETIMEDOUT : 0;
}

XPU_FUNC int post(struct xpu_link *link, int scope)
{
	int ret;

	for (;;) {
		ret = fi_xpu_write(&link->ep, link->registered, 8, link->desc, 0, link->peer,
				   link->peer_mem, link->peer_key, NULL, 0, scope);
		if (ret != -FI_EAGAIN)
			return ret;
		xpu_pause();
	}
}

XPU_KERNEL(bench_requests, struct bench_args)
{
	const uint32_t ring = args.scope == FI_XPU_DEVICE ? 0 : xpu_block();
	const bool first = xpu_thread() == 0 && ring == xpu_block();
	struct xpu_link link = args.links[ring];
	const uint64_t done = fi_xpu_cntr_read(&link.sent, args.scope), begin = xpu_now();
	uint64_t posted;
	uint32_t i;
	int ret = 0;

	for (i = 0; ret == 0 && i < args.count; i++) {
		while (xpu_now() - begin < i * args.pace)
			;
		posted = xpu_now();
		ret = post(&link, args.scope);
		if (ret || !args.waits)
			continue;
		ret = finish(&link, done + i + 1, args.scope);
		if (first)
			args.waits[(uint64_t)ring * args.count + i] = xpu_now() - posted;
	}
	if (ret == 0)
		ret = finish(&link, done + args.count, args.scope);
	if (first) {
		args.results[ring].begin = begin;
		args.results[ring].end = xpu_now();
		args.results[ring].error = ret;
	}
}
