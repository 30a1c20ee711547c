/* SPDX-License-Identifier: BSD-2-Clause */
/* Host memory. */
#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "hmem/hmem.h"

static int start(struct hmem_status *status)
{
	(void)status;
	return 0;
}

static size_t no_devices(void)
{
	return 0;
}

static int no_device_info(size_t index, struct hmem_device *device)
{
	(void)index, (void)device;
	return -FI_ENODEV;
}

/* It is what no interface knows, so it is found by elimination. */
static int look(const void *addr, struct hmem_facts *facts)
{
	(void)addr, (void)facts;
	return -FI_ENOENT;
}

static int copy(void *dst, int dst_device, const void *src, int src_device, size_t len)
{
	(void)dst_device, (void)src_device;
	return hm_guard_copy(dst, src, len);
}

struct hmem_ops hmem_system = {
	.name = "system",
	.iface = FI_HMEM_SYSTEM,
	.start = start,
	.device_count = no_devices,
	.device_info = no_device_info,
	.look = look,
	.copy = copy,
	.probe = hm_guard_probe,
};
