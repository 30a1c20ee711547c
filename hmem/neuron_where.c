/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where Neuron memory is.  The runtime cannot be asked what an address is, but two sources know where
 * device memory is mapped:
 *
 *   - nrt_get_hbm_mmap_va of newer runtimes: each device's memory as the runtime mapped it.  Known only
 *     once the program called nrt_init; a tensor is a part of such a region.
 *   - the kernel: nrt_tensor_get_va is an address where the runtime mapped /dev/neuron<device> ("memory
 *     mapped Neuron device memory", nrt_experimental.h), and /proc/self/maps names that file.
 *
 * Neither tells where the tensor in it begins or ends.  nrt_get_attached_efa_bdf knows addresses too,
 * but logs an error for each that is not the device's, and so only confirms what a caller says.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "hmem/neuron.h"

#define MOST_WINDOWS 256
#define MOST_DEVICES 64
/* Neuron Sysfs User Guide: one neuron<device> in it for each device */
#define SYSFS "/sys/devices/virtual/neuron_device"

struct window {
	uint64_t base, len;
	int device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* windows, until settled is set */
static struct window windows[MOST_WINDOWS];
static size_t window_count;
static atomic_bool settled; /* asked, and the answer will not change */

/* All regions of one device; the code that ended it. */
static int ask_device(int device)
{
	int code = NRT_OK;

	for (int i = 0; code == NRT_OK && window_count < MOST_WINDOWS; i++) {
		void *addr = NULL;
		size_t len = 0;

		code = nrt.get_hbm_mmap_va(device, i, &addr, &len);
		if (code == NRT_OK && addr && len > 0)
			windows[window_count++] = (struct window){ (uintptr_t)addr, len, device };
	}
	return code;
}

/* Lock held.  Devices that are not this program's have no region; the first unknown one is the last. */
static void ask_all(void)
{
	int code = NRT_OK;

	window_count = 0;
	for (int device = 0; device < MOST_DEVICES; device++) {
		code = ask_device(device);
		if (code != NRT_OK && code != NRT_CODE_INVALID_HANDLE)
			break;
	}
	/* any other end is not one, as a runtime that is not started yet: asked again next time */
	if (code == NRT_OK || code == NRT_CODE_INVALID || code == NRT_CODE_INVALID_HANDLE)
		atomic_store_explicit(&settled, true, memory_order_release);
	else if (code != NRT_CODE_UNINITIALIZED)
		neuron_failed("nrt_get_hbm_mmap_va", code);
}

static void ask_once(void)
{
	if (!nrt.get_hbm_mmap_va || atomic_load_explicit(&settled, memory_order_acquire))
		return;
	pthread_mutex_lock(&lock);
	if (!atomic_load_explicit(&settled, memory_order_relaxed))
		ask_all();
	pthread_mutex_unlock(&lock);
}

static const struct window *window_at(const void *addr)
{
	ask_once();
	if (!atomic_load_explicit(&settled, memory_order_acquire))
		return NULL;
	for (size_t i = 0; i < window_count; i++)
		if ((uintptr_t)addr - windows[i].base < windows[i].len)
			return &windows[i];
	return NULL;
}

int neuron_mapping(const char *maps, const void *addr, int *device, bool *host_access)
{
	FILE *file = fopen(maps, "re");
	char line[512];
	int ret = -FI_ENOENT;

	if (!file && errno != ENOENT) { /* it may well be a device's: no proof of host memory */
		HM_WARN(FI_LOG_MR, "%s: %s: nothing tells whether %p is a Neuron device's", maps,
			strerror(errno), addr);
		return -FI_EIO;
	}
	while (file && fgets(line, sizeof(line), file)) {
		uint64_t begin, end;
		char rights[8];
		int path = 0, number, used = 0;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %n", &begin, &end, rights,
			   &path) != 3 ||
		    (uintptr_t)addr < begin || (uintptr_t)addr >= end)
			continue;
		if (path > 0 && sscanf(line + path, "/dev/neuron%d%n", &number, &used) == 1 &&
		    (line[path + used] == '\n' || line[path + used] == '\0')) {
			*device = number;
			*host_access = rights[0] == 'r' && rights[1] == 'w';
			ret = 0;
		}
		break;
	}
	if (file)
		fclose(file);
	return ret;
}

int neuron_where(const void *addr, int *device, bool *host_access)
{
	const struct window *window = window_at(addr);

	if (!window)
		return neuron_mapping("/proc/self/maps", addr, device, host_access);
	*device = window->device;
	*host_access = true;
	return 0;
}

static size_t sysfs_count;

static void count_sysfs(void)
{
	DIR *dir = opendir(SYSFS);
	struct dirent *entry;
	int number;

	while (dir && (entry = readdir(dir)))
		if (sscanf(entry->d_name, "neuron%d", &number) == 1)
			sysfs_count++;
	if (dir)
		closedir(dir);
}

size_t neuron_devices(uint64_t *memory, size_t device)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t count;

	pthread_once(&once, count_sysfs);
	count = sysfs_count;
	*memory = 0;
	ask_once();
	if (!atomic_load_explicit(&settled, memory_order_acquire))
		return count;
	for (size_t i = 0; i < window_count; i++) {
		if ((size_t)windows[i].device >= count)
			count = (size_t)windows[i].device + 1;
		if ((size_t)windows[i].device == device)
			*memory += windows[i].len;
	}
	return count;
}
