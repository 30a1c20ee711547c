/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices and ports that cannot be used, and why. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "core/nic/verbs_device.h"
#include "core/nic/verbs_sysfs.h"

#define FILES_MAX 256 /* numbers of device files that are looked at */

struct missing {
	struct missing *next;
	char device[VERBS_NAME];
	unsigned number;
	int ret;
	char why[384];
};

/* Filled while devices are looked for, constant from then on: no lock. */
static struct missing *first;

void verbs_missing_add(const char *device, unsigned number, int ret, const char *fmt, ...)
{
	struct missing *entry = calloc(1, sizeof(*entry));
	va_list args;

	if (!entry) {
		HM_INFO(FI_LOG_CORE, "%s cannot be used; no memory for the reason", device);
		return;
	}
	snprintf(entry->device, sizeof(entry->device), "%s", device);
	entry->number = number;
	entry->ret = ret;
	va_start(args, fmt);
	vsnprintf(entry->why, sizeof(entry->why), fmt, args);
	va_end(args);
	entry->next = first;
	first = entry;
	HM_INFO(FI_LOG_CORE, "not listed: %s", entry->why);
}

/* "mlx5_0:2" is port 2 of mlx5_0; a name alone is port 1. */
static unsigned split_name(const char *domain_name, char device[VERBS_NAME])
{
	size_t len = strcspn(domain_name, ":");
	unsigned number = 1;

	if (len >= VERBS_NAME)
		return 0;
	memcpy(device, domain_name, len);
	device[len] = '\0';
	if (domain_name[len] == ':') {
		char *end;
		unsigned long value = strtoul(domain_name + len + 1, &end, 10);

		number = *end || value > UINT8_MAX ? 0 : (unsigned)value;
	}
	return *device ? number : 0;
}

/* libibverbs did not show this device when it was asked first: what about now? */
static bool shown_now(const char *name)
{
	struct ibv_device **list;
	bool shown = false;

	if (verbs_lib_load())
		return false;
	list = verbs.get_device_list(NULL);
	for (size_t i = 0; list && list[i]; i++)
		shown |= strcmp(verbs.get_device_name(list[i]), name) == 0;
	if (list)
		verbs.free_device_list(list);
	return shown;
}

/* The name of the device's file, "" where the kernel has none for it. */
static void find_file(const char *name, char file[VERBS_NAME])
{
	char found[VERBS_NAME];

	for (unsigned i = 0; i < FILES_MAX; i++) {
		snprintf(file, VERBS_NAME, "uverbs%u", i);
		if (verbs_sysfs_read(found, sizeof(found), "class/infiniband_verbs/%s/ibdev",
				     file) &&
		    strcmp(found, name) == 0)
			return;
	}
	file[0] = '\0';
}

/* A device that the kernel has, but libibverbs does not show. */
static int explain_unlisted(const char *name)
{
	char file[VERBS_NAME];

	find_file(name, file);
	if (verbs_lib_load())
		HM_WARN(FI_LOG_CORE,
			"%s: the kernel has this device, but libibverbs.so.1 or librdmacm.so.1 is "
			"not installed, or too old: install rdma-core's libraries",
			name);
	else if (!verbs_sysfs_exists("class/infiniband_verbs"))
		HM_WARN(FI_LOG_CORE,
			"%s: the kernel has this device, but gives no access to it from programs: "
			"load its module ib_uverbs",
			name);
	else if (*file && !verbs_file_exists(file))
		HM_WARN(FI_LOG_CORE,
			"%s: there is no /dev/infiniband/%s here: has udev made it, and has this "
			"container been given it?",
			name, file);
	else if (shown_now(name))
		HM_WARN(FI_LOG_CORE,
			"%s appeared after this process had looked for RDMA devices: start the "
			"program again",
			name);
	else
		HM_WARN(FI_LOG_CORE,
			"%s: the kernel has this device, but libibverbs has no provider for it: "
			"install rdma-core's provider libraries (Debian: ibverbs-providers)",
			name);
	return -FI_ENODEV;
}

int verbs_port_missing(const char *domain_name)
{
	const struct nic_port *ports;
	char device[VERBS_NAME];
	unsigned number;
	size_t count;

	if (!domain_name || !hm_param_bool(HM_PARAM_VERBS_ENABLE))
		return -FI_ENODATA;
	number = split_name(domain_name, device);
	if (!number)
		return -FI_ENODATA;
	verbs_ports(&ports, &count);
	for (const struct missing *entry = first; entry; entry = entry->next) {
		if (strcmp(entry->device, device) || (entry->number && entry->number != number))
			continue;
		HM_WARN(FI_LOG_CORE, "%s", entry->why);
		return entry->ret;
	}
	if (verbs_device_listed(device)) {
		HM_WARN(FI_LOG_CORE, "%s has no port %u", device, number);
		return -FI_ENODEV;
	}
	if (verbs_sysfs_exists("class/infiniband/%s", device))
		return explain_unlisted(device);
	return -FI_ENODATA;
}
