/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of NICs, and what every NIC needs for the local side of an operation. */
#include <assert.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/range.h"
#include "core/nic/nic.h"

/* Filled by nic_register before anything else runs, constant from then on: no lock. */
static const struct nic_ops *nics[NIC_MAX];
static size_t nic_count;

static void no_look(void)
{
}

static int no_address(const struct nic_port *port, void *addr, size_t *len)
{
	(void)port;
	(void)addr;
	(void)len;
	return -FI_ENOSYS;
}

static int reaches_loopback(const struct nic_port *port, const void *addr, size_t len)
{
	struct sockaddr_in in;

	(void)port;
	if (len < sizeof(in))
		return -FI_EHOSTUNREACH;
	memcpy(&in, addr, sizeof(in));
	if (in.sin_family != AF_INET || ntohl(in.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
		return -FI_EHOSTUNREACH;
	return 0;
}

static int no_refresh(struct nic_region *region, const struct iovec *iov, size_t count)
{
	(void)region;
	(void)iov;
	(void)count;
	return -FI_ENOSYS;
}

static int no_missing(const char *domain_name)
{
	(void)domain_name;
	return -FI_ENODATA;
}

static int no_description(const struct nic_port *port, struct hmreg_device *device)
{
	(void)port;
	(void)device;
	return -FI_ENOSYS;
}

static int no_verbs(struct nic_domain *domain, struct hmreg_verbs_domain *verbs)
{
	(void)domain;
	(void)verbs;
	return -FI_ENOSYS;
}

static void no_progress(struct nic_domain *domain)
{
	(void)domain;
}

static int no_sharing(struct nic_region *region, struct nic_region *base,
		      const struct nic_region_request *req)
{
	(void)region;
	(void)base;
	(void)req;
	return -FI_ENOSYS;
}

static struct nic_region *no_region_at(struct nic_domain *domain, const void *addr, size_t len,
				       bool writes)
{
	(void)domain;
	(void)addr;
	(void)len;
	(void)writes;
	return NULL;
}

static int handle_as_desc(const struct nic_region *region, void *desc, size_t *size)
{
	uint64_t handle = hm_key_handle(&region->node);

	static_assert(sizeof(handle) <= NIC_DESC_MAX, "room for it");
	memcpy(desc, &handle, sizeof(handle));
	*size = sizeof(handle);
	return 0;
}

static uint64_t handle_as_key(const struct nic_region *region)
{
	return hm_key_handle(&region->node);
}

static int software_path(const struct nic_region *region, struct hmreg_region_info *info)
{
	(void)region;
	info->path = HMREG_PATH_SOFTWARE;
	info->state = 0;
	info->parts = 0;
	return 0;
}

static int no_part(const struct nic_region *region, size_t part, struct hmreg_verbs_part *out)
{
	(void)region;
	(void)part;
	(void)out;
	return -FI_ENOSYS;
}

static int no_atomics(struct nic_domain *domain, enum nic_op kind, enum fi_datatype datatype,
		      enum fi_op op, size_t *count, size_t *size)
{
	(void)domain;
	(void)kind;
	(void)datatype;
	(void)op;
	(void)count;
	(void)size;
	return -FI_EOPNOTSUPP;
}

/* What a caller may rely on although the NIC has it not. */
static void fill_defaults(struct nic_ops *ops)
{
#define DEFAULT(slot, function) ops->slot = ops->slot ? ops->slot : (function)
	DEFAULT(look, no_look);
	DEFAULT(port_address, no_address);
	DEFAULT(port_reaches, reaches_loopback);
	DEFAULT(port_has, ops->port_reaches);
	DEFAULT(port_missing, no_missing);
	DEFAULT(port_describe, no_description);
	DEFAULT(domain_verbs, no_verbs);
	DEFAULT(progress, no_progress);
	DEFAULT(region_derive, no_sharing);
	DEFAULT(region_refresh, no_refresh);
	DEFAULT(region_at, no_region_at);
	DEFAULT(region_key, handle_as_key);
	DEFAULT(region_desc, handle_as_desc);
	DEFAULT(region_info, software_path);
	DEFAULT(region_part, no_part);
	DEFAULT(atomic_valid, no_atomics);
	DEFAULT(port_size, sizeof(struct nic_port));
#undef DEFAULT
}

int nic_register(struct nic_ops *ops)
{
	assert(ops && ops->name);
	assert(ops->domain_size >= sizeof(struct nic_domain));
	assert(ops->ep_size >= sizeof(struct nic_ep));
	assert(ops->ports && ops->domain_open && ops->domain_close);
	assert(ops->region_register && ops->region_deregister);
	assert(ops->ep_open && ops->ep_enable && ops->ep_close && ops->ep_name);
	assert(ops->peer_resolve && ops->peer_address);
	assert(ops->post && ops->post_recv && ops->cancel && ops->strerror);
	for (size_t i = 0; i < nic_count; i++) {
		if (nics[i] == ops)
			return -FI_EALREADY;
	}
	if (nic_count == NIC_MAX) {
		HM_WARN(FI_LOG_CORE, "NIC %s is left out: only %d kinds of NIC fit", ops->name,
			NIC_MAX);
		return -FI_ENOSPC;
	}
	fill_defaults(ops);
	nics[nic_count++] = ops;
	return 0;
}

void nic_look(void)
{
	for (size_t i = 0; i < nic_count; i++)
		nics[i]->look();
}

const struct nic_port *nic_port_at(size_t index)
{
	for (size_t i = 0; i < nic_count; i++) {
		const struct nic_port *ports = NULL;
		size_t count = 0;

		if (nics[i]->ports(&ports, &count))
			continue;
		if (index < count)
			return (const void *)((const char *)ports + index * nics[i]->port_size);
		index -= count;
	}
	return NULL;
}

int nic_port_missing(const char *domain_name)
{
	int ret = -FI_ENODATA;

	for (size_t i = 0; i < nic_count && ret == -FI_ENODATA; i++)
		ret = nics[i]->port_missing(domain_name);
	return ret;
}

/* ---- local access ---- */

bool nic_region_holds(const struct nic_region *region, uint64_t addr, uint64_t len)
{
	const struct nic_region_ext *ext = region->ext;

	if (!ext || !ext->iov)
		return hm_range_ok(region->len, addr - region->base, len);
	for (size_t i = 0; i < ext->iov_count; i++) {
		const struct iovec *part = &ext->iov[i];

		if (hm_range_ok(part->iov_len, addr - (uintptr_t)part->iov_base, len))
			return true;
	}
	return false;
}

bool nic_region_on_host(const struct nic_region *region, uint64_t addr)
{
	const struct nic_region_ext *ext = region->ext;

	if (!ext || !ext->places)
		return true;
	/* a dma-buf has its pages, and so have parts of one, wherever they are mapped */
	if (atomic_load_explicit(&((struct nic_region *)region)->state, memory_order_relaxed) &
	    NIC_REGION_IMPORTED)
		return false;
	if (!ext->iov) /* the host's where it is a part of several owners' memory */
		return ext->places[0].iface == FI_HMEM_SYSTEM;
	for (size_t i = 0; i < ext->iov_count; i++)
		if (addr - (uintptr_t)ext->iov[i].iov_base < ext->iov[i].iov_len)
			return ext->places[i].iface == FI_HMEM_SYSTEM;
	return false;
}

/* access 0 at registration: the NIC may read the memory for this side's own operations, no more. */
static uint64_t granted(const struct nic_region *region)
{
	return region->access ? region->access : FI_SEND | FI_WRITE;
}

static int check_local(const struct nic_region *region, const struct nic_domain *domain,
		       uint64_t addr, size_t len, uint64_t access, const char *call)
{
	uint32_t state = atomic_load_explicit(&region->state, memory_order_acquire);

	if (region->domain != domain) {
		HM_WARN(FI_LOG_EP_DATA, "%s: desc belongs to a region of another domain", call);
		return -FI_EINVAL;
	}
	if (!(state & NIC_REGION_ENABLED)) {
		HM_WARN(FI_LOG_EP_DATA, "%s: the region of desc is not enabled: fi_mr_enable first",
			call);
		return -FI_EINVAL;
	}
	if (access & ~granted(region)) {
		HM_WARN(FI_LOG_EP_DATA,
			"%s: the region of desc was registered with access 0x%" PRIx32
			", which lacks 0x%" PRIx64,
			call, region->access, access & ~granted(region));
		return -FI_EACCES;
	}
	if (len && !nic_region_holds(region, addr, len)) {
		HM_WARN(FI_LOG_EP_DATA,
			"%s: %zu bytes at 0x%" PRIx64 " are not inside %s of the region of desc "
			"(0x%" PRIx64 ", %" PRIu64 " bytes)",
			call, len, addr,
			region->ext && region->ext->iov ? "one segment" : "the memory",
			region->base, region->len);
		return -FI_EINVAL;
	}
	return 0;
}

int nic_local_acquire(struct nic_domain *domain, void *desc, const void *addr, size_t len,
		      uint64_t access, const char *call, struct nic_region **region)
{
	uint64_t handle = (uintptr_t)desc;
	struct hm_key_node *node;
	int ret;

	if (!desc) {
		if (len && (domain->mr_mode & FI_MR_LOCAL)) {
			HM_WARN(FI_LOG_EP_DATA,
				"%s: no desc for %zu bytes at %p: FI_MR_LOCAL was agreed, so local "
				"buffers must be registered",
				call, len, addr);
			return -FI_EINVAL;
		}
		*region = NULL;
		return 0;
	}
	node = hm_key_acquire(domain->regions, handle);
	if (!node) {
		HM_WARN(FI_LOG_EP_DATA, "%s: desc %p %s", call, desc,
			hm_key_expired(domain->regions, handle)
				? "belongs to a region that has been closed"
				: "is no descriptor of this domain");
		return -FI_EINVAL;
	}
	ret = check_local(nic_region_of(node), domain, (uintptr_t)addr, len, access, call);
	if (ret) {
		hm_key_release(node);
		return ret;
	}
	*region = nic_region_of(node);
	return 0;
}
