/* SPDX-License-Identifier: BSD-2-Clause */
/* See xpu_steps.h: for CUDA and for the CPU device. */
#include "samples/xpu/kernel.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "tests/gpu/xpu_steps.h"

/* One request.  The peer's word and own words are FI_UINT64. */
XPU_FUNC int request(struct xpu_link *link, const struct xpu_step *s, int scope)
{
	unsigned char *own = link->registered + s->from;
	uint64_t key = s->bad & BAD_KEY ? link->peer_key + 0x5a5a5a : link->peer_key;
	uint64_t to = link->peer_mem + s->to;
	uint64_t wrong[XPU_DESC_WORDS];
	void *desc = s->bad & NO_DESC ? NULL : link->desc;

	if (s->bad & BAD_DESC) {
		for (int i = 0; i < XPU_DESC_WORDS; i++)
			wrong[i] = link->desc[i] + 0x1001;
		desc = wrong;
	}
	switch (s->op) {
	case STEP_WRITE:
		return fi_xpu_write(&link->ep, own, s->len, desc, s->data, link->peer, to, key,
				    NULL, s->data ? FI_REMOTE_CQ_DATA : 0, scope);
	case STEP_READ:
		return fi_xpu_read(&link->ep, own, s->len, desc, link->peer, to, key, NULL, 0,
				   scope);
	case STEP_ADD:
		return fi_xpu_atomic(&link->ep, own, 1, desc, link->peer, to, key, FI_UINT64,
				     FI_SUM, NULL, 0, scope);
	case STEP_FETCH:
		return fi_xpu_fetch_atomic(&link->ep, own, 1, desc, link->registered + s->result,
					   desc, link->peer, to, key, FI_UINT64, FI_SUM, NULL, 0,
					   scope);
	case STEP_SWAP:
		return fi_xpu_compare_atomic(&link->ep, own, 1, desc, link->registered + s->compare,
					     desc, link->registered + s->result, desc, link->peer,
					     to, key, FI_UINT64, FI_CSWAP, NULL, 0, scope);
	case STEP_SEND:
		return fi_xpu_send(&link->ep, own, s->len, desc, s->data, link->peer, NULL,
				   s->data ? FI_REMOTE_CQ_DATA : 0, scope);
	case STEP_RECV:
		return fi_xpu_recv(&link->ep, own, s->len, desc, NULL, NULL, 0, scope);
	default:
		return -FI_EINVAL;
	}
}

/* So many of it, however often the ring is full. */
XPU_FUNC int requests(struct xpu_link *link, const struct xpu_step *s, uint64_t *again, int scope)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < (s->repeat ? s->repeat : 1); i++) {
		while ((ret = request(link, s, scope)) == -FI_EAGAIN) {
			++*again;
			xpu_pause();
		}
		link->posted += ret == 0 && !s->bad && s->op != STEP_RECV;
	}
	return ret;
}

XPU_FUNC int wait_for_all(struct xpu_link *link, int timeout, int scope)
{
	const uint64_t errors = fi_xpu_cntr_readerr(&link->sent, scope);

	fi_xpu_cntr_wait(&link->sent, link->posted, timeout, scope);
	if (fi_xpu_cntr_readerr(&link->sent, scope) != errors)
		return -FI_EIO;
	return fi_xpu_cntr_read(&link->sent, scope) == link->posted ? 0 : -FI_ETIMEDOUT;
}

/* Each look is one of all threads, so they count looks, which are the same for all, and not time. */
XPU_FUNC int64_t next_entry(struct xpu_link *link, struct xpu_step *s, int timeout, int scope)
{
	int64_t ret = -FI_EAGAIN;

	for (int64_t looks = timeout * (int64_t)1000; ret == -FI_EAGAIN && looks > 0; looks--) {
		ret = s->op == STEP_ENTRY ? fi_xpu_cq_read(&link->done, s->entry, 1, scope)
					  : fi_xpu_cq_readerr(&link->done, s->entry, 0, scope);
		if (ret == -FI_EAGAIN)
			xpu_pause();
	}
	return ret;
}

/* Own memory, by the threads in turns; everything before is done, and whoever comes after has it. */
XPU_FUNC void pattern(const struct xpu_link *link, struct xpu_step *s)
{
	const uint64_t all = (uint64_t)xpu_threads() * xpu_blocks();
	uint64_t k = (uint64_t)xpu_block() * xpu_threads() + xpu_thread(), wrong = 0;

	for (; k < s->len; k += all) {
		if (s->op == STEP_FILL)
			link->mem[s->from + k] = STEP_BYTE(s->seed, k);
		else
			wrong += link->mem[s->from + k] != STEP_BYTE(s->seed, k);
	}
	xpu_add(&s->wrong, wrong);
}

XPU_KERNEL(steps, struct steps_args)
{
	const bool first = xpu_thread() == 0 && xpu_block() == 0;
	struct xpu_link link = args.link;
	uint64_t again;
	int64_t ret = 0;

	link.posted = fi_xpu_cntr_read(&link.sent, args.scope);
	for (uint32_t i = 0; i < args.count; i++) {
		struct xpu_step *s = &args.steps[i];

		again = 0;
		ret = 0;
		if (s->op == STEP_FILL || s->op == STEP_CHECK)
			pattern(&link, s);
		else if (s->op == STEP_WAIT)
			ret = wait_for_all(&link, args.timeout, args.scope);
		else if (s->op == STEP_ENTRY || s->op == STEP_ERROR)
			ret = next_entry(&link, s, args.timeout, args.scope);
		else
			ret = requests(&link, s, &again, args.scope);
		xpu_add(&s->sum, (uint64_t)ret);
		if (first) {
			s->ret = ret;
			s->again = again;
		}
		/* nobody fills before all have looked: a call that all make is a meeting */
		fi_xpu_cntr_read(&link.sent, args.scope);
	}
}
