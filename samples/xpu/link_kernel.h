/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a kernel does with a link (link.h): to be called by all threads of a block, with the same arguments.
 *
 * Requests of one endpoint are carried out in order (FI_ORDER_WAW), so that whoever sees a signal has what was
 * put before it.  Each function returns 0 or a -FI_E code, the same for all threads.
 */
#ifndef XPU_LINK_KERNEL_H
#define XPU_LINK_KERNEL_H

#include <rdma/fi_domain.h> /* FI_UINT64, FI_SUM */
#include <rdma/fi_errno.h>

#include "kernel.h"
#include "link.h"

/* Write what is at this offset of the link's memory to an offset of the peer's. */
XPU_FUNC int link_put(struct xpu_link *link, size_t from, size_t to, size_t len)
{
	int ret;

	do {
		ret = fi_xpu_write(&link->ep, link->registered + from, len, link->desc, 0,
				   link->peer, link->peer_mem + to, link->peer_key, NULL, 0,
				   FI_XPU_WORK_GROUP);
	} while (ret == -FI_EAGAIN); /* the ring is full */
	link->posted += ret == 0;
	return ret;
}

/* Add the word at this offset to one of the peer's, which it waits for. */
XPU_FUNC int link_signal(struct xpu_link *link, size_t from, size_t to)
{
	int ret;

	do {
		ret = fi_xpu_atomic(&link->ep, link->registered + from, 1, link->desc, link->peer,
				    link->peer_mem + to, link->peer_key, FI_UINT64, FI_SUM, NULL, 0,
				    FI_XPU_WORK_GROUP);
	} while (ret == -FI_EAGAIN);
	link->posted += ret == 0;
	return ret;
}

/* Until all that was posted has ended, so that memory which was put may be written again. */
XPU_FUNC int link_finish(struct xpu_link *link, uint64_t timeout)
{
	fi_xpu_cntr_wait(&link->sent, link->posted, (int)(timeout / 1000000), FI_XPU_WORK_GROUP);
	if (fi_xpu_cntr_readerr(&link->sent, FI_XPU_WORK_GROUP))
		return -FI_EIO;
	return fi_xpu_cntr_read(&link->sent, FI_XPU_WORK_GROUP) < link->posted ? -FI_ETIMEDOUT : 0;
}

/* Until the peer has signalled so often at this offset. */
XPU_FUNC int link_await(struct xpu_link *link, size_t at, uint64_t count, uint64_t timeout)
{
	const uint64_t *word = (const uint64_t *)(link->mem + at), begin = xpu_now();
	bool late = false;

	if (xpu_thread() == 0) {
		while (!late && xpu_load(word) < count) {
			xpu_pause();
			late = xpu_now() - begin > timeout;
		}
	}
	return xpu_first(late) ? -FI_ETIMEDOUT : 0;
}

#endif
