/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and counters: the ring between a NIC and the application that reads it. */
#include "core/nic/comp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"

/* A completion is one cache line, and each public entry is a copy of its front. */
static_assert(sizeof(struct nic_comp) == 64, "one cache line");
#define SAME_PLACE(field)                                                                          \
	static_assert(offsetof(struct nic_comp, field) ==                                          \
			      offsetof(struct fi_cq_tagged_entry, field),                          \
		      "struct nic_comp begins as the public entries do")
SAME_PLACE(op_context);
SAME_PLACE(flags);
SAME_PLACE(len);
SAME_PLACE(buf);
SAME_PLACE(data);

int nic_error_code(enum hmreg_error why)
{
	static const int codes[HMREG_ERROR_LAST] = {
		[HMREG_KEY_UNKNOWN] = FI_ENOKEY,      [HMREG_KEY_CLOSED] = FI_ENOKEY,
		[HMREG_OUT_OF_BOUNDS] = FI_EINVAL,    [HMREG_NO_RIGHT] = FI_EACCES,
		[HMREG_DISABLED] = FI_EOPBADSTATE,    [HMREG_KEY_USED_UP] = FI_ENOKEY,
		[HMREG_OTHER_ENDPOINT] = FI_EACCES,   [HMREG_KEY_NOT_MAPPED] = FI_EKEYREJECTED,
		[HMREG_KEY_FORGED] = FI_EKEYREJECTED, [HMREG_PEER_GONE] = FI_EHOSTUNREACH,
		[HMREG_PEER_NO_CAP] = FI_EOPNOTSUPP,  [HMREG_LOCAL_REGION] = FI_ENOMR,
		[HMREG_TRUNCATED] = FI_ETRUNC,	      [HMREG_FAULT] = FI_EFAULT,
		[HMREG_CANCELED] = FI_ECANCELED,      [HMREG_MISALIGNED] = FI_EINVAL,
		[HMREG_REFRESHING] = FI_EOPBADSTATE,  [HMREG_PEER_REGION] = FI_EREMOTEIO,
		[HMREG_REMOTE_ACCESS] = FI_EACCES,    [HMREG_REMOTE_INVALID] = FI_EINVAL,
		[HMREG_PEER_LOST] = FI_ECONNABORTED,  [HMREG_DEVICE_GONE] = FI_ENODEV,
		[HMREG_TRANSPORT] = FI_EIO,	      [HMREG_MEMORY] = FI_EIO,
		[HMREG_AUTH_KEY] = FI_EACCES,	      [HMREG_AUTH_PEER] = FI_EACCES,
		[HMREG_REFUSED] = FI_EINVAL,
	};

	return codes[why];
}

const char *nic_error_text(int prov_errno)
{
	static const char *const text[HMREG_ERROR_LAST] = {
		[HMREG_OK] = "success",
		[HMREG_KEY_UNKNOWN] =
			"bad key: the target has no region with this key, or has closed it",
		[HMREG_KEY_CLOSED] = "closed: the region of this key has been closed",
		[HMREG_OUT_OF_BOUNDS] = "out of bounds: the range is not inside the region",
		[HMREG_NO_RIGHT] = "no right: the region does not grant this access",
		[HMREG_DISABLED] = "disabled: the region has not been enabled",
		[HMREG_KEY_USED_UP] = "closed: the single-use key has been used",
		[HMREG_OTHER_ENDPOINT] = "no right: the region is bound to another endpoint",
		[HMREG_KEY_NOT_MAPPED] =
			"bad key: the target wants a raw key, mapped here with all its bytes",
		[HMREG_KEY_FORGED] = "bad key: raw key and base address are not those of a region",
		[HMREG_PEER_GONE] = "no enabled endpoint has this address",
		[HMREG_PEER_NO_CAP] = "the target endpoint was not opened for this operation",
		[HMREG_LOCAL_REGION] = "closed: the local region was closed before its use",
		[HMREG_TRUNCATED] = "the message is longer than the receive buffer",
		[HMREG_FAULT] = "memory of the operation is not mapped or not writable",
		[HMREG_CANCELED] = "canceled by the application",
		[HMREG_MISALIGNED] = "the atomic's target is not naturally aligned",
		[HMREG_REFRESHING] = "disabled: the region is being refreshed",
		[HMREG_PEER_REGION] = "closed: the receiver closed its buffer's region",
		[HMREG_REMOTE_ACCESS] = "the target's NIC refused the key, the range or the access",
		[HMREG_REMOTE_INVALID] = "the target's NIC cannot do what was asked",
		[HMREG_PEER_LOST] = "the peer stopped answering",
		[HMREG_DEVICE_GONE] = "the device was removed or has failed",
		[HMREG_TRANSPORT] = "the NIC reports a failure that the log names",
		[HMREG_MEMORY] = "the accelerator's driver did not copy, as the log names",
		[HMREG_AUTH_KEY] = "no right: the two sides have no authorization key in common",
		[HMREG_AUTH_PEER] = "no right: the region is for another endpoint than this one",
		[HMREG_REFUSED] = "the device's request was refused, as the log names",
	};

	if (prov_errno < 0 || prov_errno >= HMREG_ERROR_LAST || !text[prov_errno])
		return "unknown cause";
	return text[prov_errno];
}

int nic_cq_init(struct nic_cq *cq, size_t size, enum fi_wait_obj wait_obj)
{
	uint32_t ring_size = 1;
	int ret;

	assert(size >= 1 && size <= NIC_CQ_SIZE_MAX);
	memset(cq, 0, sizeof(*cq));
	while (ring_size < size)
		ring_size *= 2;
	cq->size = (uint32_t)size;
	cq->ring_mask = ring_size - 1;
	cq->ring = aligned_alloc(64, ring_size * sizeof(*cq->ring));
	if (!cq->ring) {
		HM_WARN(FI_LOG_CQ, "no memory for a completion queue of %zu entries", size);
		return -FI_ENOMEM;
	}
	hm_spin_init(&cq->lock);
	ret = hm_wait_init(&cq->wait, wait_obj);
	if (ret)
		free(cq->ring);
	return ret;
}

void nic_cq_destroy(struct nic_cq *cq)
{
	hm_wait_destroy(&cq->wait);
	free(cq->ring);
	cq->ring = NULL;
}

static uint32_t load(_Atomic uint32_t *index)
{
	return atomic_load_explicit(index, memory_order_relaxed);
}

static void store(_Atomic uint32_t *index, uint32_t value)
{
	atomic_store_explicit(index, value, memory_order_relaxed);
}

void nic_cq_push(struct nic_cq *cq, const struct nic_comp *comp)
{
	uint32_t tail;

	hm_spin_lock(&cq->lock);
	tail = load(&cq->tail);
	assert(tail - load(&cq->head) < cq->size);
	cq->ring[tail & cq->ring_mask] = *comp;
	cq->errors += comp->err != 0;
	store(&cq->tail, tail + 1);
	hm_spin_unlock(&cq->lock);
	hm_wait_signal(&cq->wait);
}

static inline char *put_entry(char *at, const struct nic_comp *comp, enum fi_cq_format format)
{
	static const uint64_t no_tag;

	switch (format) {
	case FI_CQ_FORMAT_CONTEXT:
		memcpy(at, comp, sizeof(struct fi_cq_entry));
		return at + sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		memcpy(at, comp, sizeof(struct fi_cq_msg_entry));
		return at + sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		memcpy(at, comp, sizeof(struct fi_cq_data_entry));
		return at + sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		memcpy(at, comp, sizeof(struct fi_cq_data_entry));
		memcpy(at + offsetof(struct fi_cq_tagged_entry, tag), &no_tag, sizeof(no_tag));
		return at + sizeof(struct fi_cq_tagged_entry);
	case FI_CQ_FORMAT_UNSPEC:
		break;
	}
	return at;
}

/* Gives n entries' room back after they have left the ring. */
static void give_room(struct nic_cq *cq, uint32_t n)
{
	uint32_t used = atomic_fetch_sub_explicit(&cq->used, n, memory_order_relaxed);

	assert(used >= n);
	(void)used;
}

/* Seen without the lock, or stale: no entry that the caller can know of is missed. */
static bool looks_empty(struct nic_cq *cq)
{
	return load(&cq->head) == load(&cq->tail);
}

ssize_t nic_cq_take(struct nic_cq *cq, enum fi_cq_format format, void *buf, fi_addr_t *src_addr,
		    size_t count)
{
	uint32_t head, tail, n = 0;
	const struct nic_comp *comp;
	ssize_t none = -FI_EAGAIN;
	char *at = buf;

	assert(format != FI_CQ_FORMAT_UNSPEC);
	if (count && looks_empty(cq))
		return -FI_EAGAIN;
	hm_spin_lock(&cq->lock);
	head = load(&cq->head);
	tail = load(&cq->tail);
	while (head + n != tail) {
		comp = &cq->ring[(head + n) & cq->ring_mask];
		none = comp->err ? -FI_EAVAIL : 0;
		if (n == count || comp->err)
			break;
		at = put_entry(at, comp, format);
		if (src_addr)
			src_addr[n] = comp->src_addr;
		n++;
	}
	store(&cq->head, head + n);
	hm_spin_unlock(&cq->lock);
	if (!n)
		return none;
	give_room(cq, n);
	return (ssize_t)n;
}

ssize_t nic_cq_take_error(struct nic_cq *cq, struct nic_comp *comp)
{
	const struct nic_comp *front;
	bool taken = false;
	uint32_t head;

	if (looks_empty(cq))
		return -FI_EAGAIN;
	hm_spin_lock(&cq->lock);
	head = load(&cq->head);
	front = &cq->ring[head & cq->ring_mask];
	if (head != load(&cq->tail) && front->err) {
		*comp = *front;
		cq->errors--;
		store(&cq->head, head + 1);
		taken = true;
	}
	hm_spin_unlock(&cq->lock);
	if (!taken)
		return -FI_EAGAIN;
	give_room(cq, 1);
	return 1;
}

bool nic_cq_reached(struct nic_cq *cq, size_t count)
{
	bool reached;

	if (count > cq->size)
		count = cq->size;
	hm_spin_lock(&cq->lock);
	reached = load(&cq->tail) - load(&cq->head) >= count || cq->errors > 0;
	hm_spin_unlock(&cq->lock);
	return reached;
}

int nic_cntr_init(struct nic_cntr *cntr, enum fi_cntr_events events, enum fi_wait_obj wait_obj)
{
	memset(cntr, 0, sizeof(*cntr));
	cntr->bytes = events == FI_CNTR_EVENTS_BYTES;
	return hm_wait_init(&cntr->wait, wait_obj);
}

void nic_cntr_destroy(struct nic_cntr *cntr)
{
	hm_wait_destroy(&cntr->wait);
}
