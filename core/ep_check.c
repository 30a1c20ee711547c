/* SPDX-License-Identifier: BSD-2-Clause */
/* What the data calls of endpoints share: checks, peers, and the local segments of a call. */
#include "core/ep.h"

int hm_ep_refuse(const struct hm_ep *ep, uint64_t need, const char *call)
{
	if (!atomic_load(&((struct hm_ep *)ep)->enabled)) {
		HM_WARN(FI_LOG_EP_DATA, "%s: the endpoint is not enabled", call);
		return -FI_EOPBADSTATE;
	}
	HM_WARN(FI_LOG_EP_DATA, "%s: the endpoint was not opened with capabilities 0x%lx", call,
		(unsigned long)(need & ~ep->caps));
	return -FI_EOPNOTSUPP;
}

uint64_t hm_ep_peer(const struct hm_ep *ep, fi_addr_t addr, const char *call)
{
	uint64_t peer = nic_av_peer(&ep->av->nic, addr);

	if (__builtin_expect(peer == 0, 0))
		HM_WARN(FI_LOG_EP_DATA, "%s: address 0x%lx is not in the address vector", call,
			(unsigned long)addr);
	return peer;
}

/* What becomes of a buffer that has no region of the program's. */
static int add_bare(struct hm_ep *ep, const struct hm_locals *locals, struct nic_seg *seg,
		    uint64_t access, struct nic_hold *hold, const char *call)
{
	if (locals->bare == HM_BARE_AS_IT_IS || seg->len == 0)
		return hm_mr_check_local(ep->domain->nic, seg->addr, seg->len, call);
	return hm_mr_local_get(&ep->domain->mr, seg, access, locals->bare == HM_BARE_KEPT, call,
			       hold);
}

int hm_locals_add(struct hm_ep *ep, struct hm_locals *locals, const void *buf, size_t len,
		  void *desc, uint64_t access, bool inject, const char *call)
{
	struct nic_seg *seg = &locals->seg[locals->count];
	int ret;

	if (__builtin_expect((!buf && len > 0) || hm_wraps((uintptr_t)buf, len) ||
				     len > SIZE_MAX - locals->len,
			     0)) {
		HM_WARN(FI_LOG_EP_DATA, "%s: buffer %p of %zu bytes is none", call, buf, len);
		return -FI_EINVAL;
	}
	seg->addr = (void *)(uintptr_t)buf;
	seg->len = len;
	seg->region = NULL;
	seg->hold = NULL;
	if (!inject && !ep->domain->ignores_desc && (desc || !ep->local)) {
		ret = nic_local_acquire(ep->domain->nic, desc, buf, len, access, call,
					&seg->region);
		if (ret != 0)
			return ret;
	}
	if (!seg->region) {
		ret = add_bare(ep, locals, seg, access, &locals->hold[locals->count], call);
		if (ret != 0)
			return ret;
	}
	locals->len += len;
	locals->count++;
	return 0;
}

int hm_locals_addv(struct hm_ep *ep, struct hm_locals *locals, const struct iovec *iov, void **desc,
		   size_t count, uint64_t access, bool inject, const char *call)
{
	int ret = 0;

	if (count > ep->iov_limit || (count > 0 && !iov)) {
		HM_WARN(FI_LOG_EP_DATA, "%s: iov %p with %zu entries; up to %zu are possible", call,
			(const void *)iov, count, ep->iov_limit);
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < count && ret == 0; i++)
		ret = hm_locals_add(ep, locals, iov[i].iov_base, iov[i].iov_len,
				    desc ? desc[i] : NULL, access, inject, call);
	if (ret != 0)
		hm_locals_release(locals);
	return ret;
}

void hm_locals_release(struct hm_locals *locals)
{
	for (uint32_t i = 0; i < locals->count; i++)
		hm_local_release(&locals->seg[i]);
	locals->count = 0;
}

enum hm_bare hm_ep_barev(const struct hm_ep *ep, uint32_t use, bool copies, const struct iovec *iov,
			 void **desc, size_t count, uint64_t flags)
{
	size_t len = 0;

	/* what is wrong with the list is told by who adds it */
	for (size_t i = 0; copies && iov && i < count && i < NIC_IOV_MAX; i++) {
		if (iov[i].iov_len > ep->local_copied - len ||
		    (desc && desc[i] && iov[i].iov_len > 0 && !ep->domain->ignores_desc))
			copies = false;
		else
			len += iov[i].iov_len;
	}
	return hm_ep_bare(ep, use, copies, len, flags);
}

int hm_ep_check_flags(uint64_t flags, uint64_t allowed, const char *call)
{
	if (!(flags & ~allowed))
		return 0;
	HM_WARN(FI_LOG_EP_DATA, "%s: unknown or unsupported flags 0x%lx", call,
		(unsigned long)(flags & ~allowed));
	return -FI_EBADFLAGS;
}

int hm_ep_check_msg(const void *msg, uint64_t flags, uint64_t allowed, const char *call)
{
	int ret = hm_ep_check_flags(flags, allowed, call);

	if (ret != 0 || msg)
		return ret;
	HM_WARN(FI_LOG_EP_DATA, "%s: msg is NULL", call);
	return -FI_EINVAL;
}

int hm_ep_check_len(const struct hm_ep *ep, size_t len, uint64_t flags, const char *call)
{
	if ((flags & FI_INJECT) && len > ep->inject_size) {
		HM_WARN(FI_LOG_EP_DATA, "%s: %zu bytes to inject, the limit is %zu", call, len,
			ep->inject_size);
		return -FI_EINVAL;
	}
	if (len > ep->max_msg_size) {
		HM_WARN(FI_LOG_EP_DATA, "%s: %zu bytes, the limit is %zu", call, len,
			ep->max_msg_size);
		return -FI_EMSGSIZE;
	}
	return 0;
}
