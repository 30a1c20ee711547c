/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose memory the segments of a registration are. */
#include "core/mr/mr.h"

#define HMEM_KIND_FLAGS (FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC)

/* Did the caller say whose it is?  An attribute structure before 1.9 has no such fields: all host's. */
static bool is_named(const struct fi_mr_attr *attr, uint64_t flags)
{
	return attr->iface != FI_HMEM_SYSTEM || (flags & HMEM_KIND_FLAGS);
}

/*
 * With FI_MR_HMEM the caller names interface and device, and is held to it.  Without, they are found from
 * the address, and what the caller names all the same has to be true.
 */
static int find(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
		const struct iovec *iov, struct hmem_memory *memory)
{
	bool must_name = domain->nic->mr_mode & FI_MR_HMEM;

	if (!must_name && !is_named(attr, flags))
		return hmem_classify(iov->iov_base, iov->iov_len, memory);
	/* whichever member of the union it is: all of them are an int at the same place */
	return hmem_classify_as(attr->iface, attr->device.cuda, flags, iov->iov_base, iov->iov_len,
				memory);
}

int hm_mr_find_memory(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
		      uint64_t flags, struct hm_mr_request *request)
{
	for (size_t i = 0; i < request->nic.iov_count; i++) {
		const struct iovec *iov = &request->nic.iov[i];
		struct hmem_memory *memory = &request->memory[i];
		int ret = find(domain, attr, flags, iov, memory);

		if (ret != 0)
			return ret;
		if (memory->ways & HMEM_WAY_HOST)
			continue;
		request->on_device = true;
		ret = hmem_get(memory->iface)->prepare(memory, iov->iov_base, iov->iov_len);
		if (ret != 0)
			return ret;
	}
	return 0;
}

int hm_mr_check_local(const struct nic_domain *nic, const void *addr, size_t len, const char *call)
{
	struct hmem_memory memory;
	char owner[48];
	int ret;

	if (len == 0 || !(nic->caps & FI_HMEM) || !(nic->mr_mode & FI_MR_HMEM))
		return 0;
	ret = hmem_classify(addr, len, &memory);
	if (ret != 0 || (memory.ways & HMEM_WAY_HOST))
		return ret;
	HM_WARN(FI_LOG_EP_DATA,
		"%s: no desc for %zu bytes at %p, which are of %s: FI_MR_HMEM was agreed, so such "
		"buffers must be registered",
		call, len, addr, hmem_owner_text(memory.iface, memory.device, owner));
	return -FI_EINVAL;
}
