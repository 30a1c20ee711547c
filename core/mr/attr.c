/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of a registration's attributes: all of them here, each with its own log line. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mr/mr.h"

#define HMEM_FLAGS (FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC | FI_MR_DMABUF)
#define REGISTRATION_FLAGS                                                                         \
	(FI_RMA_EVENT | FI_MR_SINGLE_USE | FI_AUTH_KEY | HMREG_MR_RELAXED_ORDERING |               \
	 HMREG_MR_CACHE | HMEM_FLAGS)

/* The attributes of a program built for an older interface end before hmem_data... */
static bool has_new(const struct hm_mr_domain *domain)
{
	return FI_VERSION_GE(domain->api_version, FI_VERSION(1, 20));
}

/* ...or before page_size, base_mr and sub_mr_cnt. */
static bool has_sub(const struct hm_mr_domain *domain)
{
	return FI_VERSION_GE(domain->api_version, FI_VERSION(2, 0));
}

struct hm_mr *hm_mr_base_of(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr)
{
	return has_sub(domain) && attr->base_mr ? hm_container(attr->base_mr, struct hm_mr, mr)
						: NULL;
}

static int check_hmem_flags(const struct hm_mr_domain *domain, uint64_t flags)
{
	const uint64_t both = FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC;

	if (!(domain->nic->caps & FI_HMEM)) {
		HM_WARN(FI_LOG_MR, "flags 0x%lx are for domains with FI_HMEM, which this is not",
			(unsigned long)(flags & HMEM_FLAGS));
		return -FI_EBADFLAGS;
	}
	if ((flags & FI_MR_DMABUF) && !has_new(domain)) {
		HM_WARN(FI_LOG_MR,
			"FI_MR_DMABUF is of interface 1.20; the fabric was opened for %u.%u",
			FI_MAJOR(domain->api_version), FI_MINOR(domain->api_version));
		return -FI_EBADFLAGS;
	}
	if ((flags & both) == both) {
		HM_WARN(FI_LOG_MR, "FI_HMEM_DEVICE_ONLY and FI_HMEM_HOST_ALLOC exclude each other");
		return -FI_EINVAL;
	}
	return 0;
}

static int check_flags(const struct hm_mr_domain *domain, uint64_t flags)
{
	int ret = flags & HMEM_FLAGS ? check_hmem_flags(domain, flags) : 0;

	if (ret != 0)
		return ret;
	if (flags & FI_RMA_PMEM) {
		HM_WARN(FI_LOG_MR, "FI_RMA_PMEM: this NIC cannot guarantee persistence");
		return -FI_EBADFLAGS;
	}
	if ((flags & FI_AUTH_KEY) && !domain->nic->av_keys) {
		HM_WARN(FI_LOG_MR, "FI_AUTH_KEY is for domains of FI_AV_AUTH_KEY");
		return -FI_EBADFLAGS;
	}
	if (flags & ~REGISTRATION_FLAGS) {
		HM_WARN(FI_LOG_MR, "unknown or unsupported flags 0x%lx",
			(unsigned long)(flags & ~REGISTRATION_FLAGS));
		return -FI_EBADFLAGS;
	}
	if ((flags & FI_MR_SINGLE_USE) && !(domain->nic->ops->region_flags & FI_MR_SINGLE_USE)) {
		HM_WARN(FI_LOG_MR, "FI_MR_SINGLE_USE: %s cannot end a key after one use",
			domain->nic->port->domain_name);
		return -FI_EBADFLAGS;
	}
	if ((flags & FI_RMA_EVENT) && !(domain->nic->caps & FI_RMA_EVENT)) {
		HM_WARN(FI_LOG_MR, "FI_RMA_EVENT needs a domain opened with this capability");
		return -FI_EBADFLAGS;
	}
	return 0;
}

/* What is shared by several fids cannot have what only one of them asked for. */
static int check_kept(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
		      uint64_t flags)
{
	const int own = FI_MR_RAW | FI_MR_ENDPOINT;
	const char *why = NULL;

	if (flags & (FI_RMA_EVENT | FI_MR_SINGLE_USE | FI_AUTH_KEY))
		why = "not with FI_RMA_EVENT, FI_MR_SINGLE_USE or FI_AUTH_KEY";
	else if (domain->nic->av_keys || attr->auth_key_size != 0)
		why = "not with authorization keys of a region's own";
	else if (!(domain->nic->mr_mode & FI_MR_PROV_KEY) || (domain->nic->mr_mode & own))
		why = "for domains with FI_MR_PROV_KEY, and without FI_MR_RAW and FI_MR_ENDPOINT";
	if (why) {
		HM_WARN(FI_LOG_MR, "HMREG_MR_CACHE: %s", why);
		return -FI_EBADFLAGS;
	}
	if (hm_mr_base_of(domain, attr) || (!(flags & FI_MR_DMABUF) && attr->iov_count != 1)) {
		HM_WARN(FI_LOG_MR, "HMREG_MR_CACHE: one range, and no base_mr");
		return -FI_EINVAL;
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

static int check_new(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
		     const struct hm_mr *base, uint64_t flags)
{
	if (base && (flags & FI_MR_DMABUF)) {
		HM_WARN(FI_LOG_MR, "base_mr must be NULL with FI_MR_DMABUF");
		return -FI_EINVAL;
	}
	if (base) /* which the rest is taken from */
		return 0;
	if (attr->hmem_data) {
		HM_WARN(FI_LOG_MR, "hmem_data is reserved and must be NULL");
		return -FI_EINVAL;
	}
	if (has_sub(domain) && attr->page_size != 0 && !page_size_supported(attr->page_size)) {
		HM_WARN(FI_LOG_MR, "page size %zu is not one of this system's", attr->page_size);
		return -FI_EINVAL;
	}
	return 0;
}

/* Whether the memory is what these fields say is found out in memory.c. */
static int check_iface(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
		       uint64_t flags)
{
	if (!(domain->nic->caps & FI_HMEM)) {
		if (has_new(domain) && attr->iface != FI_HMEM_SYSTEM)
			HM_INFO(FI_LOG_MR,
				"iface %d is not looked at: without FI_HMEM this is host memory",
				(int)attr->iface);
		return 0;
	}
	if ((int)attr->iface < FI_HMEM_SYSTEM || attr->iface > FI_HMEM_SYNAPSEAI) {
		HM_WARN(FI_LOG_MR, "iface %d is not one of %d to %d", (int)attr->iface,
			FI_HMEM_SYSTEM, FI_HMEM_SYNAPSEAI);
		return -FI_EINVAL;
	}
	if (flags & FI_MR_DMABUF)
		return 0; /* the file says what it is */
	if (attr->iface == FI_HMEM_SYSTEM && (flags & FI_HMEM_DEVICE_ONLY)) {
		HM_WARN(FI_LOG_MR, "FI_HMEM_DEVICE_ONLY: FI_HMEM_SYSTEM is memory of the host");
		return -FI_EINVAL;
	}
	return 0;
}

/* Fields that few callers set. */
static int check_rare(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
		      const struct hm_mr *base, uint64_t flags)
{
	int ret;

	if (attr->offset != 0) {
		HM_WARN(FI_LOG_MR, "offset is %lu; it is reserved and must be 0",
			(unsigned long)attr->offset);
		return -FI_EINVAL;
	}
	ret = base ? 0 : check_iface(domain, attr, flags);
	return ret == 0 && has_new(domain) ? check_new(domain, attr, base, flags) : ret;
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

/*
 * Is [offset, offset + len) inside the dma-buf?  Its size is that of its file since Linux 5.3, long
 * before NICs took any; where the file tells none, or is something else, the kernel judges.
 */
static int check_dmabuf_size(const struct fi_mr_dmabuf *dmabuf)
{
	struct stat st;

	if (dmabuf->fd < 0 || fstat(dmabuf->fd, &st) != 0) {
		HM_WARN(FI_LOG_MR, "dmabuf: %d is no open file descriptor", dmabuf->fd);
		return -FI_EBADF;
	}
	if (st.st_size <= 0 || hm_range_ok((uint64_t)st.st_size, dmabuf->offset, dmabuf->len))
		return 0;
	HM_WARN(FI_LOG_MR, "dmabuf: %zu bytes at offset %lu are not inside the %lu of fd %d",
		dmabuf->len, (unsigned long)dmabuf->offset, (unsigned long)st.st_size, dmabuf->fd);
	return -FI_EINVAL;
}

/*
 * The region is part of a dma-buf, and attr's union holds that (FN-12).  Its place in addresses, for the
 * NIC and for peers, is base_addr + offset, as fi_mr(3) has it: offset alone where there is no base_addr.
 */
static int check_dmabuf(const struct fi_mr_dmabuf *dmabuf, struct hm_mr_request *request)
{
	uint64_t base;

	if (!dmabuf || dmabuf->len == 0) {
		HM_WARN(FI_LOG_MR,
			dmabuf ? "dmabuf: length 0" : "FI_MR_DMABUF, but dmabuf is NULL");
		return -FI_EINVAL;
	}
	base = (uintptr_t)dmabuf->base_addr;
	if (base % (uint64_t)sysconf(_SC_PAGESIZE) != 0) {
		HM_WARN(FI_LOG_MR, "dmabuf: base_addr %p is not at a page boundary",
			dmabuf->base_addr);
		return -FI_EINVAL;
	}
	if (hm_wraps(dmabuf->offset, dmabuf->len) || base > UINT64_MAX - dmabuf->offset ||
	    hm_wraps(base + dmabuf->offset, dmabuf->len)) {
		HM_WARN(FI_LOG_MR,
			"dmabuf: %zu bytes at offset %lu from %p wrap past the address space's end",
			dmabuf->len, (unsigned long)dmabuf->offset, dmabuf->base_addr);
		return -FI_EINVAL;
	}
	request->dmabuf = *dmabuf;
	request->place = (struct iovec){ (void *)(uintptr_t)(base + dmabuf->offset), dmabuf->len };
	request->len = dmabuf->len;
	return check_dmabuf_size(dmabuf);
}

static void fill_sub(const struct fi_mr_attr *attr, struct hm_mr_request *request)
{
	request->nic.sub_mr_cnt = attr->sub_mr_cnt;
	if (!request->base)
		request->nic.page_size = attr->page_size;
}

int hm_mr_check(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
		struct hm_mr_request *request)
{
	return hm_mr_check_sub(domain, attr, hm_mr_base_of(domain, attr), flags, request);
}

int hm_mr_check_sub(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, struct hm_mr *base,
		    uint64_t flags, struct hm_mr_request *request)
{
	bool dmabuf = flags & FI_MR_DMABUF;
	int ret;

	if (flags != 0) {
		ret = check_flags(domain, flags);
		if (ret == 0 && (flags & HMREG_MR_CACHE))
			ret = check_kept(domain, attr, flags);
		if (ret != 0)
			return ret;
	}
	ret = check_access(domain, attr->access);
	if (ret == 0)
		ret = dmabuf ? check_dmabuf(attr->dmabuf, request)
			     : check_iov(domain, attr->mr_iov, attr->iov_count, &request->len);
	if (ret == 0)
		ret = check_rare(domain, attr, base, flags);
	if (ret == 0)
		ret = hm_mr_check_auth(domain, attr, flags, &request->auth);
	if (ret == 0)
		ret = check_key(domain, attr->requested_key);
	if (ret != 0)
		return ret;
	request->nic = (struct nic_region_request){ .iov = dmabuf ? &request->place : attr->mr_iov,
						    .iov_count = dmabuf ? 1 : attr->iov_count,
						    .access = attr->access,
						    .flags = flags,
						    .dmabuf = dmabuf ? &request->dmabuf : NULL };
	request->requested_key = attr->requested_key;
	request->on_device = false;
	request->base = base;
	if (has_sub(domain))
		fill_sub(attr, request);
	if (request->base || !(domain->nic->caps & FI_HMEM) || dmabuf)
		return 0;
	return hm_mr_find_memory(domain, attr, flags, request);
}

int hm_mr_check_part(const struct nic_region *region, const struct iovec *part)
{
	if (part->iov_len > 0 && nic_region_holds(region, (uintptr_t)part->iov_base, part->iov_len))
		return 0;
	HM_WARN(FI_LOG_MR, "[%p, +%zu) is not a part of the region", part->iov_base, part->iov_len);
	return -FI_EINVAL;
}
