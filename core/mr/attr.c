/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of a registration's attributes: all of them here, each with its own log line. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mr/mr.h"

#define REGISTRATION_FLAGS (FI_RMA_EVENT | FI_MR_SINGLE_USE)
#define HMEM_FLAGS	   (FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC | FI_MR_DMABUF)

static int check_flags(const struct hm_mr_domain *domain, uint64_t flags)
{
	if (flags & HMEM_FLAGS) {
		HM_WARN(FI_LOG_MR, "flags 0x%lx are for domains with FI_HMEM, which this is not",
			(unsigned long)(flags & HMEM_FLAGS));
		return -FI_EBADFLAGS;
	}
	if (flags & FI_RMA_PMEM) {
		HM_WARN(FI_LOG_MR, "FI_RMA_PMEM: this NIC cannot guarantee persistence");
		return -FI_EBADFLAGS;
	}
	if (flags & ~REGISTRATION_FLAGS) {
		HM_WARN(FI_LOG_MR, "unknown or unsupported flags 0x%lx",
			(unsigned long)(flags & ~REGISTRATION_FLAGS));
		return -FI_EBADFLAGS;
	}
	if ((flags & FI_RMA_EVENT) && !(domain->nic->caps & FI_RMA_EVENT)) {
		HM_WARN(FI_LOG_MR, "FI_RMA_EVENT needs a domain opened with this capability");
		return -FI_EBADFLAGS;
	}
	return 0;
}

static int check_access(const struct hm_mr_domain *domain, uint64_t access)
{
	if (access & ~HM_MR_ACCESS) {
		HM_WARN(FI_LOG_MR, "unknown access bits 0x%lx",
			(unsigned long)(access & ~HM_MR_ACCESS));
		return -FI_EINVAL;
	}
	if ((domain->nic->mr_mode & FI_MR_COLLECTIVE) && (access & FI_COLLECTIVE) &&
	    !(access & (FI_SEND | FI_RECV))) {
		HM_WARN(FI_LOG_MR, "FI_COLLECTIVE goes with FI_SEND, FI_RECV or both");
		return -FI_EINVAL;
	}
	return 0;
}

static int check_iov(const struct hm_mr_domain *domain, const struct iovec *iov, size_t count,
		     uint64_t *len)
{
	uint64_t sum = 0;

	if (!iov || count == 0 || count > domain->nic->port->mr_iov_limit) {
		HM_WARN(FI_LOG_MR, "iov %p with %zu entries; 1 to %zu are possible",
			(const void *)iov, count, domain->nic->port->mr_iov_limit);
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t base = (uintptr_t)iov[i].iov_base;

		if (iov[i].iov_len == 0) {
			HM_WARN(FI_LOG_MR, "entry %zu at %p has length 0", i, iov[i].iov_base);
			return -FI_EINVAL;
		}
		if (hm_wraps(base, iov[i].iov_len) || iov[i].iov_len > UINT64_MAX - sum) {
			HM_WARN(FI_LOG_MR,
				"entry %zu, [%p, +%zu), wraps past the address space's end", i,
				iov[i].iov_base, iov[i].iov_len);
			return -FI_EINVAL;
		}
		sum += iov[i].iov_len;
	}
	*len = sum;
	return 0;
}

/* The base page, or a size that the kernel has a pool of huge pages for. */
static bool page_size_supported(size_t size)
{
	char path[80];
	struct stat st;

	if (size == (size_t)sysconf(_SC_PAGESIZE))
		return true;
	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%zukB", size / 1024);
	return size % 1024 == 0 && stat(path, &st) == 0;
}

/* The attributes of a program built for an older interface end before hmem_data. */
static bool has_new(const struct hm_mr_domain *domain)
{
	return FI_VERSION_GE(domain->api_version, FI_VERSION(1, 20));
}

static int check_new(const struct fi_mr_attr *attr)
{
	if (attr->iface != FI_HMEM_SYSTEM)
		HM_INFO(FI_LOG_MR, "iface %d is not looked at: without FI_HMEM this is host memory",
			(int)attr->iface);
	if (attr->hmem_data) {
		HM_WARN(FI_LOG_MR, "hmem_data is reserved and must be NULL");
		return -FI_EINVAL;
	}
	if (attr->page_size != 0 && !page_size_supported(attr->page_size)) {
		HM_WARN(FI_LOG_MR, "page size %zu is not one of this system's", attr->page_size);
		return -FI_EINVAL;
	}
	if (attr->base_mr) {
		HM_WARN(FI_LOG_MR, "sub-regions (base_mr) are not offered");
		return -FI_ENOSYS;
	}
	return 0;
}

/* Fields that few callers set. */
static int check_rare(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr)
{
	if (attr->offset != 0) {
		HM_WARN(FI_LOG_MR, "offset is %lu; it is reserved and must be 0",
			(unsigned long)attr->offset);
		return -FI_EINVAL;
	}
	if (attr->auth_key_size != 0 && FI_VERSION_GE(domain->api_version, FI_VERSION(1, 5))) {
		HM_WARN(FI_LOG_MR, "authorization keys are not offered");
		return -FI_ENOSYS;
	}
	return has_new(domain) ? check_new(attr) : 0;
}

static int check_key(const struct hm_mr_domain *domain, uint64_t key)
{
	size_t size = domain->nic->port->mr_key_size;

	if (domain->nic->mr_mode & FI_MR_PROV_KEY)
		return 0;
	if (key == FI_KEY_NOTAVAIL || (size < 8 && key >> size * 8 != 0)) {
		HM_WARN(FI_LOG_MR, "requested key 0x%lx is out of range: %zu bytes, not all ones",
			(unsigned long)key, size);
		return -FI_EKEYREJECTED;
	}
	return 0;
}

int hm_mr_check(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
		struct hm_mr_request *request)
{
	int ret;

	if (flags != 0) {
		ret = check_flags(domain, flags);
		if (ret != 0)
			return ret;
	}
	ret = check_access(domain, attr->access);
	if (ret == 0)
		ret = check_iov(domain, attr->mr_iov, attr->iov_count, &request->len);
	if (ret == 0)
		ret = check_rare(domain, attr);
	if (ret == 0)
		ret = check_key(domain, attr->requested_key);
	if (ret != 0)
		return ret;
	request->nic =
		(struct nic_region_request){ .iov = attr->mr_iov,
					     .iov_count = attr->iov_count,
					     .access = attr->access,
					     .flags = flags,
					     .page_size = has_new(domain) ? attr->page_size : 0 };
	request->requested_key = attr->requested_key;
	return 0;
}

int hm_mr_check_part(const struct nic_region *region, const struct iovec *part)
{
	if (part->iov_len > 0 && nic_region_holds(region, (uintptr_t)part->iov_base, part->iov_len))
		return 0;
	HM_WARN(FI_LOG_MR, "[%p, +%zu) is not a part of the region", part->iov_base, part->iov_len);
	return -FI_EINVAL;
}
