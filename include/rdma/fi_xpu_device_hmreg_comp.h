/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of fi_xpu_device_hmreg.h, which includes it, that is about completions: counters and queues.
 *
 * A completion is seen by a load with acquire order at the scope of the system, by the thread that acts for its
 * scope; the others come after it by hmreg_xpu_end.  So whatever the host saw before it passed the completion
 * on is there for all of them.
 */
#ifndef FI_XPU_DEVICE_H
#include <rdma/fi_xpu_device.h> /* which includes this file where its declarations are done */
#elif !defined(FI_XPU_DEVICE_HMREG_COMP_H)
#define FI_XPU_DEVICE_HMREG_COMP_H

/* ---- counters ---- */

FI_XPU_FUNC struct hmreg_xpu_cntr *hmreg_xpu_cntr_at(struct fid_xpu_cntr *cntr)
{
	return HMREG_XPU_AT(struct hmreg_xpu_cntr, cntr->fid.prov_ctx);
}

FI_XPU_FUNC struct hmreg_xpu_own *hmreg_xpu_cntr_own(const struct hmreg_xpu_cntr *at)
{
	return HMREG_XPU_AT(struct hmreg_xpu_own, at->own);
}

FI_XPU_FUNC uint64_t hmreg_xpu_cntr_value(const struct hmreg_xpu_cntr *at,
					  const struct hmreg_xpu_own *own)
{
	return hmreg_xpu_load(&at->value) + hmreg_xpu_load(&own->add);
}

FI_XPU_FUNC uint64_t hmreg_xpu_cntr_errors(const struct hmreg_xpu_cntr *at,
					   const struct hmreg_xpu_own *own)
{
	return hmreg_xpu_load(&at->errors) + hmreg_xpu_load(&own->adderr);
}

FI_XPU_FUNC uint64_t hmreg_xpu_cntr_read(struct fid_xpu_cntr *cntr, int scope)
{
	const struct hmreg_xpu_cntr *at = hmreg_xpu_cntr_at(cntr);
	struct hmreg_xpu_own *own = hmreg_xpu_cntr_own(at);
	struct hmreg_xpu_call call;
	uint64_t value = 0;

	if (at->version != HMREG_XPU_VERSION)
		return 0;
	if (hmreg_xpu_begin(&call, own, scope))
		value = hmreg_xpu_cntr_value(at, own);
	return (uint64_t)hmreg_xpu_end(&call, own, (int64_t)value);
}

FI_XPU_FUNC uint64_t hmreg_xpu_cntr_readerr(struct fid_xpu_cntr *cntr, int scope)
{
	const struct hmreg_xpu_cntr *at = hmreg_xpu_cntr_at(cntr);
	struct hmreg_xpu_own *own = hmreg_xpu_cntr_own(at);
	struct hmreg_xpu_call call;
	uint64_t errors = 0;

	if (at->version != HMREG_XPU_VERSION)
		return (uint64_t)-FI_XPU_ENOSYS;
	if (hmreg_xpu_begin(&call, own, scope)) {
		errors = hmreg_xpu_cntr_errors(at, own);
		hmreg_xpu_own_store(&own->seen, errors);
	}
	return (uint64_t)hmreg_xpu_end(&call, own, (int64_t)errors);
}

/*
 * A change of the error value ends the wait.  An operation may fail before the wait for it begins; the change
 * counts from when the device was last told of the error value (here, by reading it or by setting it), lest
 * it wait for ever.
 */
FI_XPU_FUNC void hmreg_xpu_cntr_wait(struct fid_xpu_cntr *cntr, uint64_t threshold, int timeout,
				     int scope)
{
	const struct hmreg_xpu_cntr *at = hmreg_xpu_cntr_at(cntr);
	struct hmreg_xpu_own *own = hmreg_xpu_cntr_own(at);
	struct hmreg_xpu_call call;
	struct hmreg_xpu_wait wait;
	uint64_t errors;

	if (at->version != HMREG_XPU_VERSION)
		return;
	if (hmreg_xpu_begin(&call, own, scope)) {
		hmreg_xpu_wait_begin(&wait, timeout);
		while (hmreg_xpu_cntr_value(at, own) < threshold) {
			errors = hmreg_xpu_cntr_errors(at, own);
			if (errors != hmreg_xpu_own_load(&own->seen)) {
				hmreg_xpu_own_store(&own->seen, errors);
				break;
			}
			if (hmreg_xpu_wait_over(&wait))
				break;
		}
	}
	(void)hmreg_xpu_end(&call, own, 0);
}

/*
 * The device's own part is what it adds to the host's word, so the two never write the same word, and what the
 * host counts meanwhile is not lost: to set a value is to choose that part.  Threads may signal each other so: what one
 * wrote before it adds or sets is there for who sees the value.
 */
FI_XPU_FUNC int hmreg_xpu_cntr_add(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	const struct hmreg_xpu_cntr *at = hmreg_xpu_cntr_at(cntr);
	struct hmreg_xpu_own *own = hmreg_xpu_cntr_own(at);
	struct hmreg_xpu_call call;

	if (at->version != HMREG_XPU_VERSION)
		return -FI_XPU_ENOSYS;
	if (hmreg_xpu_begin(&call, own, scope))
		(void)hmreg_xpu_own_add(&own->add, value);
	return (int)hmreg_xpu_end(&call, own, 0);
}

FI_XPU_FUNC int hmreg_xpu_cntr_adderr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	const struct hmreg_xpu_cntr *at = hmreg_xpu_cntr_at(cntr);
	struct hmreg_xpu_own *own = hmreg_xpu_cntr_own(at);
	struct hmreg_xpu_call call;

	if (at->version != HMREG_XPU_VERSION)
		return -FI_XPU_ENOSYS;
	if (hmreg_xpu_begin(&call, own, scope))
		(void)hmreg_xpu_own_add(&own->adderr, value);
	return (int)hmreg_xpu_end(&call, own, 0);
}

FI_XPU_FUNC int hmreg_xpu_cntr_set(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	const struct hmreg_xpu_cntr *at = hmreg_xpu_cntr_at(cntr);
	struct hmreg_xpu_own *own = hmreg_xpu_cntr_own(at);
	struct hmreg_xpu_call call;

	if (at->version != HMREG_XPU_VERSION)
		return -FI_XPU_ENOSYS;
	if (hmreg_xpu_begin(&call, own, scope))
		hmreg_xpu_store(&own->add, value - hmreg_xpu_load(&at->value));
	return (int)hmreg_xpu_end(&call, own, 0);
}

FI_XPU_FUNC int hmreg_xpu_cntr_seterr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	const struct hmreg_xpu_cntr *at = hmreg_xpu_cntr_at(cntr);
	struct hmreg_xpu_own *own = hmreg_xpu_cntr_own(at);
	struct hmreg_xpu_call call;

	if (at->version != HMREG_XPU_VERSION)
		return -FI_XPU_ENOSYS;
	if (hmreg_xpu_begin(&call, own, scope)) {
		hmreg_xpu_own_store(&own->seen, value);
		hmreg_xpu_store(&own->adderr, value - hmreg_xpu_load(&at->errors));
	}
	return (int)hmreg_xpu_end(&call, own, 0);
}

/* ---- queues ---- */

/* What fi_xpu_cq_readerr() fills: struct fi_cq_err_entry, which cannot be had without the C library. */
struct hmreg_xpu_cq_err_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
	size_t olen;
	int err;
	int prov_errno;
	void *err_data;
	size_t err_data_size;
	uint64_t src_addr;
};

/* What is in the slot of number n: */
enum {
	HMREG_XPU_STALE, /* that number was read already */
	HMREG_XPU_EMPTY,
	HMREG_XPU_DONE,
	HMREG_XPU_FAILED
};

FI_XPU_FUNC struct hmreg_xpu_cq hmreg_xpu_cq_at(const struct fid_xpu_cq *cq)
{
	const struct hmreg_xpu_cq *from = HMREG_XPU_AT(const struct hmreg_xpu_cq, cq->fid.prov_ctx);
	struct hmreg_xpu_cq at;

	at.version = from->version;
	at.mask = from->mask;
	at.ring = from->ring;
	at.own = from->own;
	at.entry_size = from->entry_size;
	return at;
}

FI_XPU_FUNC struct hmreg_xpu_cqe *hmreg_xpu_cq_slot(const struct hmreg_xpu_cq *cq, uint64_t n)
{
	return &HMREG_XPU_AT(struct hmreg_xpu_cqe, cq->ring)[n & cq->mask];
}

FI_XPU_FUNC int hmreg_xpu_cq_look(const struct hmreg_xpu_cq *cq, uint64_t n)
{
	struct hmreg_xpu_cqe *slot = hmreg_xpu_cq_slot(cq, n);
	int64_t ahead = (int64_t)(hmreg_xpu_load(&slot->seq) - (n + 1));

	if (ahead)
		return ahead < 0 ? HMREG_XPU_EMPTY : HMREG_XPU_STALE;
	return hmreg_xpu_peek(&slot->err) ? HMREG_XPU_FAILED : HMREG_XPU_DONE;
}

/* The host may write the slot again. */
FI_XPU_FUNC void hmreg_xpu_cq_free(const struct hmreg_xpu_cq *cq, uint64_t n)
{
	hmreg_xpu_store(&hmreg_xpu_cq_slot(cq, n)->seq, n + cq->mask + 1);
}

/*
 * As many words as the queue's format has: those of a slot behind seq are in the order of struct fi_cq_data_entry, which
 * the smaller ones begin, and after which the tagged one has its tag, a zero.
 */
FI_XPU_FUNC void hmreg_xpu_cq_entry(const struct hmreg_xpu_cq *cq, const struct hmreg_xpu_cqe *slot,
				    void *buf)
{
	const hmreg_xpu_word *from = (const hmreg_xpu_word *)slot;
	const uint32_t zero = offsetof(struct hmreg_xpu_cqe, zero) / sizeof(*from);
	hmreg_xpu_word *entry = (hmreg_xpu_word *)buf;
	uint32_t i;

	for (i = 0; i < cq->entry_size / sizeof(*entry); i++)
		entry[i] = from[i < 5 ? i + 1 : zero];
}

/*
 * Up to count completions, by one thread.  First it sees how many there are, then takes their numbers, if no other
 * thread was faster, then reads them: a slot that is taken by nobody else cannot change, and err, which is looked at
 * before, is atomic.
 */
FI_XPU_FUNC int64_t hmreg_xpu_cq_take(const struct hmreg_xpu_cq *cq, void *buf, size_t count,
				      struct hmreg_xpu_addr *src_addr)
{
	struct hmreg_xpu_own *own = HMREG_XPU_AT(struct hmreg_xpu_own, cq->own);
	uint64_t first, k, i;
	int what;

	do {
		first = hmreg_xpu_own_load(&own->next);
		k = 0;
		do {
			what = hmreg_xpu_cq_look(cq, first + k);
			k += what == HMREG_XPU_DONE && k < count;
		} while (what == HMREG_XPU_DONE && k < count);
		if (!k && what == HMREG_XPU_FAILED)
			return -HMREG_XPU_EAVAIL;
		if (!k && what == HMREG_XPU_EMPTY)
			return -HMREG_XPU_EAGAIN;
	} while (what == HMREG_XPU_STALE ||
		 (k && hmreg_xpu_own_swap(&own->next, first, first + k) != first));
	for (i = 0; i < k; i++) {
		const struct hmreg_xpu_cqe *slot = hmreg_xpu_cq_slot(cq, first + i);

		hmreg_xpu_cq_entry(cq, slot, (char *)buf + i * cq->entry_size);
		if (src_addr)
			src_addr[i].addr = slot->src_addr;
		hmreg_xpu_cq_free(cq, first + i);
	}
	return (int64_t)k;
}

/*
 * Waits until it has taken threshold completions, of which there may be more than the queue holds, but not more than
 * count; one at the least, if count is not 0.  An error entry ends the wait.
 */
FI_XPU_FUNC int64_t hmreg_xpu_cq_wait(const struct hmreg_xpu_cq *cq, void *buf, size_t count,
				      struct hmreg_xpu_addr *src_addr, uint64_t threshold)
{
	struct hmreg_xpu_wait wait;
	uint64_t taken = 0;
	int64_t ret;

	threshold = threshold ? threshold : 1;
	threshold = threshold < count ? threshold : count;
	hmreg_xpu_wait_begin(&wait, -1);
	for (;;) {
		ret = hmreg_xpu_cq_take(cq, (char *)buf + taken * cq->entry_size, count - taken,
					src_addr ? src_addr + taken : src_addr);
		if (ret > 0)
			taken += (uint64_t)ret;
		if (taken >= threshold || (ret < 0 && ret != -HMREG_XPU_EAGAIN))
			break;
		if (ret <= 0)
			(void)hmreg_xpu_wait_over(&wait);
	}
	return taken ? (int64_t)taken : ret;
}

FI_XPU_FUNC int64_t hmreg_xpu_cq_readfrom(struct fid_xpu_cq *cq, void *buf, size_t count,
					  void *src_addr, int scope)
{
	const struct hmreg_xpu_cq at = hmreg_xpu_cq_at(cq);
	struct hmreg_xpu_own *own = HMREG_XPU_AT(struct hmreg_xpu_own, at.own);
	struct hmreg_xpu_call call;
	int64_t ret = 0;

	if (at.version != HMREG_XPU_VERSION)
		return -FI_XPU_ENOSYS;
	if (!buf && count)
		return -HMREG_XPU_EINVAL;
	if (hmreg_xpu_begin(&call, own, scope))
		ret = hmreg_xpu_cq_take(&at, buf, count, (struct hmreg_xpu_addr *)src_addr);
	return hmreg_xpu_end(&call, own, ret);
}

FI_XPU_FUNC int64_t hmreg_xpu_cq_sreadfrom(struct fid_xpu_cq *cq, void *buf, size_t count,
					   void *src_addr, uint64_t threshold, int scope)
{
	const struct hmreg_xpu_cq at = hmreg_xpu_cq_at(cq);
	struct hmreg_xpu_own *own = HMREG_XPU_AT(struct hmreg_xpu_own, at.own);
	struct hmreg_xpu_call call;
	int64_t ret = 0;

	if (at.version != HMREG_XPU_VERSION)
		return -FI_XPU_ENOSYS;
	if (!buf && count)
		return -HMREG_XPU_EINVAL;
	if (hmreg_xpu_begin(&call, own, scope))
		ret = hmreg_xpu_cq_wait(&at, buf, count, (struct hmreg_xpu_addr *)src_addr,
					threshold);
	return hmreg_xpu_end(&call, own, ret);
}

FI_XPU_FUNC int64_t hmreg_xpu_cq_take_error(const struct hmreg_xpu_cq *cq,
					    struct hmreg_xpu_cq_err_entry *entry)
{
	struct hmreg_xpu_own *own = HMREG_XPU_AT(struct hmreg_xpu_own, cq->own);
	const struct hmreg_xpu_cqe *slot;
	uint64_t n;
	int what;

	do {
		n = hmreg_xpu_own_load(&own->next);
		what = hmreg_xpu_cq_look(cq, n);
		if (what == HMREG_XPU_DONE || what == HMREG_XPU_EMPTY)
			return -HMREG_XPU_EAGAIN;
	} while (what == HMREG_XPU_STALE || hmreg_xpu_own_swap(&own->next, n, n + 1) != n);
	slot = hmreg_xpu_cq_slot(cq, n);
	entry->op_context = HMREG_XPU_AT(void, slot->context);
	entry->flags = slot->flags;
	entry->len = (size_t)slot->len;
	entry->buf = HMREG_XPU_AT(void, slot->buf);
	entry->data = slot->data;
	entry->tag = 0;
	entry->olen = (size_t)slot->olen;
	entry->err = slot->err;
	entry->prov_errno = slot->prov_errno;
	/* There is never error data; nothing is copied into a buffer that the caller may have brought. */
	if (!entry->err_data_size)
		entry->err_data = 0;
	entry->err_data_size = 0;
	entry->src_addr = slot->src_addr;
	hmreg_xpu_cq_free(cq, n);
	return 1;
}

FI_XPU_FUNC int64_t hmreg_xpu_cq_readerr(struct fid_xpu_cq *cq, void *buf, uint64_t flags,
					 int scope)
{
	const struct hmreg_xpu_cq at = hmreg_xpu_cq_at(cq);
	struct hmreg_xpu_own *own = HMREG_XPU_AT(struct hmreg_xpu_own, at.own);
	struct hmreg_xpu_call call;
	int64_t ret = 0;

	if (at.version != HMREG_XPU_VERSION)
		return -FI_XPU_ENOSYS;
	if (!buf)
		return -HMREG_XPU_EINVAL;
	if (flags)
		return -HMREG_XPU_EBADFLAGS;
	if (hmreg_xpu_begin(&call, own, scope))
		ret = hmreg_xpu_cq_take_error(&at, (struct hmreg_xpu_cq_err_entry *)buf);
	return hmreg_xpu_end(&call, own, ret);
}

#endif /* FI_XPU_DEVICE_HMREG_COMP_H */
