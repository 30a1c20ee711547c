/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-check: what is printed beside a cause, so that an operator need not look it up. */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "check.h"
#include "tool_text.h"

struct sink {
	check_show_fn *show;
	void *arg;
};

static void tell(const struct sink *sink, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void tell(const struct sink *sink, const char *name, const char *format, ...)
{
	char value[768];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	sink->show(sink->arg, name, value);
}

/* ---- the driver ---- */

static void tell_driver(const struct check *check, const struct sink *sink)
{
	if (!check->iface.size)
		return;
	tell(sink, "driver", "%s, version %s", check->iface.driver,
	     check->iface.version[0] ? check->iface.version : "unknown");
}

/* The first line of a file, "" where there is none. */
static void read_line(const char *path, char *line, size_t room)
{
	FILE *file = fopen(path, "r");

	line[0] = '\0';
	if (!file)
		return;
	if (!fgets(line, (int)room, file))
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	fclose(file);
}

/* As the library reads it. */
static const char *system_root(void)
{
	const char *root = getenv("HMREG_SYSFS");

	return root && *root ? root : "/sys";
}

static void tell_module(const struct sink *sink, const char *module)
{
	char path[512], version[64];
	struct stat status;

	snprintf(path, sizeof(path), "%s/module/%s", system_root(), module);
	if (stat(path, &status)) {
		tell(sink, "kernel module", "%s is not loaded", module);
		return;
	}
	snprintf(path, sizeof(path), "%s/module/%s/version", system_root(), module);
	read_line(path, version, sizeof(version));
	tell(sink, "kernel module", "%s is loaded%s%s", module, version[0] ? ", version " : "",
	     version);
}

static void tell_modules(const struct check *check, const struct sink *sink)
{
	static const char *const modules[TOOL_IFACES][3] = {
		[FI_HMEM_CUDA] = { "nvidia" },		[FI_HMEM_ROCR] = { "amdgpu" },
		[FI_HMEM_ZE] = { "i915", "xe" },	[FI_HMEM_NEURON] = { "neuron" },
		[FI_HMEM_SYNAPSEAI] = { "habanalabs" },
	};
	struct utsname kernel;
	size_t i;

	for (i = 0; modules[check->options.place.iface][i]; i++)
		tell_module(sink, modules[check->options.place.iface][i]);
	if (!uname(&kernel))
		tell(sink, "kernel", "%s %s", kernel.sysname, kernel.release);
}

static void tell_device(const struct check *check, const struct sink *sink)
{
	const struct hmreg_hmem_device *device = &check->device;
	char size[32];

	if (!device->size)
		return;
	tell(sink, "device", "%s:%d, %s, PCI %s, %s", tool_iface_name(check->options.place.iface),
	     device->id, device->name, tool_or_dash(device->pci),
	     tool_size_text(device->memory, size, sizeof(size)));
	tell(sink, "dma-bufs of the device", "%s", device->dmabuf ? "yes" : device->dmabuf_reason);
	if (!device->window)
		return;
	if (device->window_free == UINT64_MAX)
		tell(sink, "PCI window", "%s", tool_size_text(device->window, size, sizeof(size)));
	else
		tell(sink, "PCI window", "%s, of which %" PRIu64 " bytes are free",
		     tool_size_text(device->window, size, sizeof(size)), device->window_free);
}

/* ---- memory ---- */

static void tell_memory(const struct check *check, const struct sink *sink)
{
	const struct hmreg_hmem_memory *found = &check->found;

	if (check->memory.region)
		tell(sink, "range", "%zu bytes at %p", check->options.size,
		     (void *)check->memory.region);
	if (!found->size)
		return;
	tell(sink, "memory", "%s, of %s%s%s", found->kind, tool_iface_name(found->iface),
	     found->reason[0] ? ": " : "", found->reason);
	if (found->iface != FI_HMEM_SYSTEM)
		tell(sink, "allocation", "%" PRIu64 " bytes at 0x%" PRIx64 ", %u segment%s",
		     found->len, found->base, found->segments, found->segments == 1 ? "" : "s");
}

/* ---- the NIC ---- */

static void tell_nic(const struct check *check, const struct sink *sink)
{
	const struct hmreg_device *nic = &check->nic;

	if (!nic->size)
		return;
	tell(sink, "NIC", "%s (%s, %s), PCI %s", nic->name, nic->kind, nic->link,
	     tool_or_dash(nic->pci));
	tell(sink, "dma-bufs of the NIC", "%s",
	     nic->can & HMREG_CAN_DMABUF ? "yes" : tool_or_dash(nic->dmabuf_reason));
	tell(sink, "limits of the NIC",
	     "%" PRIu64 " regions of %" PRIu64 " bytes, %" PRIu64 " queue pairs", nic->max_mr,
	     nic->max_mr_size, nic->max_qp);
}

static void tell_path(const struct check *check, const struct sink *sink)
{
	if (check->nic.size)
		tell(sink, "path to memory", "%s", tool_or_dash(check->nic.path));
	if (check->device.size)
		tell(sink, "PCI", "device %s, NIC %s", tool_or_dash(check->device.pci),
		     tool_or_dash(check->nic.size ? check->nic.pci : ""));
}

/* The names in a folder, as one line. */
static void tell_folder(const struct sink *sink, const char *name, const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	char names[512] = "";
	size_t used = 0;

	if (!folder) {
		tell(sink, name, "there is no %s", path);
		return;
	}
	while ((entry = readdir(folder)) != NULL && used < sizeof(names))
		if (entry->d_name[0] != '.')
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? " " : "", entry->d_name);
	closedir(folder);
	tell(sink, name, "%s: %s", path, names[0] ? names : "nothing");
}

static void tell_rdma(const struct sink *sink)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/class/infiniband", system_root());
	tell_folder(sink, "RDMA devices", path);
	tell_folder(sink, "their files", "/dev/infiniband");
	tell_module(sink, "ib_uverbs");
}

static void tell_peer(const struct check *check, const struct sink *sink)
{
	static const char *const modules[] = { "nvidia_peermem", "nv_peer_mem" };
	size_t i;

	if (check->path.size && !strstr(check->said, "as peer memory"))
		tell(sink, "peer memory", "%s",
		     check->path.peer ? "a kernel module is loaded" : check->path.peer_reason);
	for (i = 0;
	     check->options.place.iface == FI_HMEM_CUDA && i < sizeof(modules) / sizeof(modules[0]);
	     i++)
		tell_module(sink, modules[i]);
}

/* ---- limits ---- */

static void tell_limit(const struct sink *sink, const char *name, int resource)
{
	struct rlimit limit;
	char soft[32] = "unlimited", hard[32] = "unlimited";

	if (getrlimit(resource, &limit))
		return;
	if (limit.rlim_cur != RLIM_INFINITY)
		snprintf(soft, sizeof(soft), "%" PRIu64, (uint64_t)limit.rlim_cur);
	if (limit.rlim_max != RLIM_INFINITY)
		snprintf(hard, sizeof(hard), "%" PRIu64, (uint64_t)limit.rlim_max);
	tell(sink, name, "%s, may be raised to %s", soft, hard);
}

static void tell_limits(const struct sink *sink)
{
	tell_limit(sink, "RLIMIT_MEMLOCK", RLIMIT_MEMLOCK);
	tell_limit(sink, "RLIMIT_NOFILE", RLIMIT_NOFILE);
	tell_limit(sink, "RLIMIT_AS", RLIMIT_AS);
	tell(sink, "user", "%u", (unsigned int)geteuid());
}

/* ---- the whole ---- */

static void tell_call(const struct check *check, const struct sink *sink)
{
	char said[sizeof(check->said)], *line, *rest = said;

	if (check->call[0] && check->error)
		tell(sink, "call", "%s: %s (%d)", check->call, fi_strerror(-check->error),
		     check->error);
	memcpy(said, check->said, sizeof(said));
	while ((line = strtok_r(rest, "\n", &rest)) != NULL)
		tell(sink, "said", "%s", line);
}

void check_evidence(const struct check *check, check_show_fn *show, void *arg)
{
	const struct sink sink = { show, arg };
	unsigned int shows = check->cause->shows;

	tell_call(check, &sink);
	if (shows & SHOW_DRIVER)
		tell_driver(check, &sink);
	if (shows & SHOW_MODULES)
		tell_modules(check, &sink);
	if (shows & SHOW_DEVICE)
		tell_device(check, &sink);
	if (shows & SHOW_MEMORY)
		tell_memory(check, &sink);
	if (shows & SHOW_NIC)
		tell_nic(check, &sink);
	if (shows & SHOW_PATH)
		tell_path(check, &sink);
	if (shows & SHOW_RDMA)
		tell_rdma(&sink);
	if (shows & SHOW_PEER)
		tell_peer(check, &sink);
	if (shows & SHOW_LIMITS)
		tell_limits(&sink);
}
