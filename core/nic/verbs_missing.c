/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices and ports that cannot be used, and why. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/params.h"
#include "core/base/refusal.h"
#include "core/base/sysfs.h"
#include "core/nic/verbs_device.h"
#include "core/nic/verbs_sysfs.h"

#define FILES_MAX 256 /* numbers of device files that are looked at */

struct missing {
	struct missing *next;
	char device[VERBS_NAME];
	unsigned number;
	int ret;
	enum hmreg_cause cause;
	bool holds; /* still true when the device was looked at last */
	char why[384];
};

/* Entries stay for the process's life, one for each device and port.  The lock is innermost. */
static struct missing *first;
static pthread_mutex_t missing_lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of exactly this device and port, or NULL. */
static struct missing *find(const char *device, unsigned number)
{
	struct missing *entry = first;

	while (entry && (strcmp(entry->device, device) || entry->number != number))
		entry = entry->next;
	return entry;
}

/* As find, or a new one. */
static struct missing *make(const char *device, unsigned number)
{
	struct missing *entry = find(device, number);

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	snprintf(entry->device, sizeof(entry->device), "%s", device);
	entry->number = number;
	entry->next = first;
	first = entry;
	return entry;
}

size_t verbs_missing_kept(void)
{
	size_t count = 0;

	pthread_mutex_lock(&missing_lock);
	for (const struct missing *entry = first; entry; entry = entry->next)
		count++;
	pthread_mutex_unlock(&missing_lock);
	return count;
}

void verbs_missing_renew(const char *device)
{
	pthread_mutex_lock(&missing_lock);
	for (struct missing *entry = first; entry; entry = entry->next)
		entry->holds &= strcmp(entry->device, device) != 0;
	pthread_mutex_unlock(&missing_lock);
}

void verbs_missing_add(const char *device, unsigned number, int ret, enum hmreg_cause cause,
		       const char *fmt, ...)
{
	char why[sizeof(first->why)];
	struct missing *entry;
	bool news = true;
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	pthread_mutex_lock(&missing_lock);
	entry = make(device, number);
	if (entry) {
		news = strcmp(entry->why, why) != 0;
		entry->ret = ret;
		entry->cause = cause;
		entry->holds = true;
		memcpy(entry->why, why, sizeof(why));
	}
	pthread_mutex_unlock(&missing_lock);
	hm_refusal_note(cause, "%s", why);
	if (news)
		HM_INFO(FI_LOG_CORE, "not listed: %s", why);
}

/* What was said of this port, or of its whole device, and the code that goes with it.  0: nothing. */
static int explain_missing(const char *device, unsigned number)
{
	char why[sizeof(first->why)] = "";
	enum hmreg_cause cause = HMREG_CAUSE_NONE;
	int ret = 0;

	pthread_mutex_lock(&missing_lock);
	for (const struct missing *entry = first; entry && !ret; entry = entry->next) {
		if (!entry->holds || strcmp(entry->device, device) ||
		    (entry->number && entry->number != number))
			continue;
		memcpy(why, entry->why, sizeof(why));
		ret = entry->ret;
		cause = entry->cause;
	}
	pthread_mutex_unlock(&missing_lock);
	if (ret)
		HM_REFUSE(FI_LOG_CORE, cause, "%s", why);
	return ret;
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
		if (hm_sysfs_read(found, sizeof(found), "class/infiniband_verbs/%s/ibdev", file) &&
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
		HM_REFUSE(
			FI_LOG_CORE, HMREG_CAUSE_NIC_LIBRARY,
			"%s: the kernel has this device, but libibverbs.so.1 or librdmacm.so.1 is "
			"not installed, or too old: install rdma-core's libraries",
			name);
	else if (!hm_sysfs_exists("class/infiniband_verbs"))
		HM_REFUSE(
			FI_LOG_CORE, HMREG_CAUSE_NIC_MODULE,
			"%s: the kernel has this device, but gives no access to it from programs: "
			"load its module ib_uverbs",
			name);
	else if (*file && !verbs_file_exists(file))
		HM_REFUSE(FI_LOG_CORE, HMREG_CAUSE_NIC_FILE,
			  "%s: there is no /dev/infiniband/%s here: has udev made it, and has this "
			  "container been given it?",
			  name, file);
	else if (shown_now(name))
		HM_REFUSE(FI_LOG_CORE, HMREG_CAUSE_NIC_LATE,
			  "%s appeared after this process had found its RDMA devices: start the "
			  "program again",
			  name);
	else
		HM_REFUSE(FI_LOG_CORE, HMREG_CAUSE_NIC_PROVIDER,
			  "%s: the kernel has this device, but libibverbs has no provider for it: "
			  "install rdma-core's provider libraries (Debian: ibverbs-providers)",
			  name);
	return -FI_ENODEV;
}

/* The port of this number, if it is listed. */
static const struct nic_port *listed_port(const char *device, unsigned number)
{
	const struct nic_port *ports;
	const struct verbs_port *port;
	size_t count;

	verbs_ports(&ports, &count);
	port = verbs_port_of(ports);
	for (size_t i = 0; i < count; i++) {
		if (port[i].number == number && strcmp(port[i].device->name, device) == 0)
			return &port[i].port;
	}
	return NULL;
}

int verbs_port_missing(const char *domain_name)
{
	const struct nic_port *port;
	char device[VERBS_NAME];
	unsigned number;
	int ret;

	if (!domain_name || !hm_param_bool(HM_PARAM_VERBS_ENABLE))
		return -FI_ENODATA;
	number = split_name(domain_name, device);
	if (!number)
		return -FI_ENODATA;
	port = listed_port(device, number);
	if (port) {
		HM_WARN(FI_LOG_CORE, "port %u of %s has the name %s", number, device,
			port->domain_name);
		return -FI_ENODATA;
	}
	ret = explain_missing(device, number);
	if (ret)
		return ret;
	if (verbs_device_listed(device)) {
		HM_REFUSE(FI_LOG_CORE, HMREG_CAUSE_NIC_NO_PORT, "%s has no port %u", device,
			  number);
		return -FI_ENODEV;
	}
	if (hm_sysfs_exists("class/infiniband/%s", device))
		return explain_unlisted(device);
	return -FI_ENODATA;
}
