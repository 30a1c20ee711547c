/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Habana SynapseAI: memory of Gaudi devices.
 *
 * A device id is a synDeviceId, which SynapseAI gives to a device that the program acquires, from 0 on;
 * a device of the machine that it did not acquire has no memory of this program.  Devices are never
 * acquired here, except when somebody allocates, since that takes them from everybody else.
 *
 * SynapseAI cannot be asked what an address is.  But it tells where a device's memory is in the device's
 * address space (synDeviceInfoV2), and those addresses are none of the process's: an address in that
 * range where the process has nothing mapped is the device's.  The process's own mapping is taken for
 * what it is, even if its address is one of the device as well; only the caller can tell then (claim).
 * Where an allocation begins and ends is known of those made here alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/dl.h"
#include "core/base/log.h"
#include "core/base/range.h"
#include "core/base/refusal.h"
#include "hmem/known.h"
#include "hmem/synapseai.h"

#define UNIT 4096u /* the kernel's pages, which a dma-buf is made of */

struct syn_calls syn;

/* libhl-thunk.so, or NULL */
static hlthunk_export_fn *export_plain;
static hlthunk_export_mapped_fn *export_mapped;
static char export_reason[96]; /* why both are NULL */

static struct hmem_known known = HMEM_KNOWN_INIT(known);
static uint32_t count; /* of the machine's devices; written by start */

/* ---- errors ---- */

static const struct hmem_failure failures[] = {
	{ SYN_CODE_INVALID_ARGUMENT, -FI_EINVAL, "synInvalidArgument", "not this device's" },
	{ SYN_CODE_OUT_OF_HOST_MEMORY, -FI_ENOMEM, "synOutOfHostMemory", "no host memory" },
	{ SYN_CODE_OUT_OF_DEVICE_MEMORY, -FI_ENOMEM, "synOutOfDeviceMemory",
	  "the device's memory is used up" },
	{ SYN_CODE_NOT_INITIALIZED, -FI_EIO, "synObjectNotInitialized", "released already?" },
	{ SYN_CODE_NO_DEVICE, -FI_ENODEV, "synNoDeviceFound", "no device is free" },
	{ SYN_CODE_DEVICE_MEMORY, -FI_ENOMEM, "synFailedToAllocateDeviceMemory",
	  "the device's memory is used up" },
	{ SYN_CODE_DEVICE_RESET, -FI_EIO, "synDeviceReset", "the device was reset" },
	{ SYN_CODE_UNSUPPORTED, -FI_EOPNOTSUPP, "synUnsupported", "not by this SynapseAI" },
	{ SYN_CODE_ALREADY_ACQUIRED, -FI_EBUSY, "synDeviceAlreadyAcquired",
	  "another program has the device" },
	{ SYN_CODE_BUSY, -FI_EAGAIN, "synBusy", "try again" },
	{ SYN_CODE_ALL_TAKEN, -FI_EBUSY, "synAllResourcesTaken", "in use by others" },
	{ SYN_CODE_FAIL, -FI_EIO, "synFail", "SynapseAI's own log says more" },
	{ SYN_CODE_OUT_OF_RESOURCES, -FI_ENOMEM, "synOutOfResources", "too much is in use" },
	{ SYN_CODE_UNINITIALIZED, -FI_EIO, "synUninitialized", "synDestroy was called" },
	{ SYN_CODE_NOT_MAPPED, -FI_EFAULT, "synMappingNotFound",
	  "host memory that is not mapped for the device" },
};

int syn_failed(const char *call, int code)
{
	static const struct hmem_failure unknown = { 0, -FI_EIO, "synStatus",
						     "see synapse_common_types.h" };

	return hmem_failed(failures, count_of(failures), &unknown, call, code);
}

/* ---- start ---- */

#define SLOT(field) ((void **)(void *)&syn.field)

static const struct hm_dl_symbol symbols[] = {
	{ "synInitialize", SLOT(initialize), NULL, 0 },
	{ "synDriverGetVersion", SLOT(driver_get_version), NULL, 0 },
	{ "synDeviceGetCount", SLOT(device_get_count), NULL, 0 },
	{ "synDeviceAcquire", SLOT(device_acquire), NULL, 0 },
	{ "synDeviceGetInfo", SLOT(device_get_info), NULL, 1 }, /* deprecated by the second */
	{ "synDeviceGetInfoV2", SLOT(device_get_info_v2), NULL, 1 },
	{ "synDeviceGetName", SLOT(device_get_name), NULL, 0 },
	{ "synDeviceGetPCIBusId", SLOT(device_get_pci), NULL, 0 },
	{ "synDeviceMalloc", SLOT(device_malloc), NULL, 0 },
	{ "synDeviceFree", SLOT(device_free), NULL, 0 },
	{ "synHostMalloc", SLOT(host_malloc), NULL, 0 },
	{ "synHostFree", SLOT(host_free), NULL, 0 },
	{ "synHostMap", SLOT(host_map), NULL, 0 },
	{ "synHostUnmap", SLOT(host_unmap), NULL, 0 },
	{ "synMemCopyAsync", SLOT(copy_async), NULL, 0 },
	{ "synStreamCreateGeneric", SLOT(stream_create), NULL, 0 },
	{ "synStreamSynchronize", SLOT(stream_synchronize), NULL, 0 },
	{ "synStreamDestroy", SLOT(stream_destroy), NULL, 0 },
};

static const struct hm_dl_symbol thunk_symbols[] = {
	{ "hlthunk_device_memory_export_dmabuf_fd", (void **)(void *)&export_plain, NULL, 1 },
	{ "hlthunk_device_mapped_memory_export_dmabuf_fd", (void **)(void *)&export_mapped, NULL,
	  1 },
};

static int fail_start(struct hmem_status *status, const char *call, int code)
{
	status->state = HMEM_FAILED;
	snprintf(status->reason, sizeof(status->reason), "%s fails with %d", call, code);
	syn_failed(call, code);
	return -FI_EIO;
}

static int start(struct hmem_status *status)
{
	int code, ret = hm_dl_load("libSynapse.so", symbols, sizeof(symbols) / sizeof(symbols[0]),
				   status->reason, sizeof(status->reason));

	status->state = HMEM_ABSENT;
	if (ret != 0)
		return ret;
	hm_dl_path((const void *)(uintptr_t)syn.initialize, status->driver, sizeof(status->driver));
	if (syn.driver_get_version(status->version, (int)sizeof(status->version)) != SYN_OK)
		status->version[0] = '\0';
	status->version[sizeof(status->version) - 1] = '\0';
	/* a second call does nothing, or says that it is one; never undone, for it undoes the first */
	code = syn.initialize();
	if (code != SYN_OK && code != SYN_CODE_ALREADY_INITIALIZED)
		return fail_start(status, "synInitialize", code);
	code = syn.device_get_count(&count);
	if (code != SYN_OK)
		return fail_start(status, "synDeviceGetCount", code);
	if (count == 0) {
		status->state = HMEM_EMPTY;
		snprintf(status->reason, sizeof(status->reason), "no Gaudi device is there");
		return -FI_ENODEV;
	}
	count = count < SYN_MOST_DEVICES ? count : SYN_MOST_DEVICES;
	if (hm_dl_load("libhl-thunk.so", thunk_symbols, 2, export_reason, sizeof(export_reason)) ==
		    0 &&
	    !export_plain && !export_mapped)
		snprintf(export_reason, sizeof(export_reason), "libhl-thunk.so exports nothing");
	return 0;
}

/* ---- devices ---- */

/*
 * What is told of a device.  -FI_ENODEV: the program has not acquired it.  Which code says so is not
 * documented; but if the device was told of before, a failure is one: -FI_EIO, to be logged by info_failed.
 */
static int ask_info(uint32_t device, struct syn_device_info *info, int *code)
{
	static atomic_bool told[SYN_MOST_DEVICES];
	syn_info_fn *ask = syn.device_get_info_v2 ? syn.device_get_info_v2 : syn.device_get_info;

	*info = (struct syn_device_info){ 0 };
	if (!ask || device >= SYN_MOST_DEVICES)
		return -FI_ENODEV;
	*code = ask(device, info);
	if (*code == SYN_OK)
		atomic_store_explicit(&told[device], true, memory_order_relaxed);
	else if (atomic_load_explicit(&told[device], memory_order_relaxed))
		return -FI_EIO;
	return *code == SYN_OK ? 0 : -FI_ENODEV;
}

static int info_failed(int code)
{
	return syn_failed(syn.device_get_info_v2 ? "synDeviceGetInfoV2" : "synDeviceGetInfo", code);
}

/* The same with its log line; silent for a device that is not the program's. */
static int acquired(uint32_t device, struct syn_device_info *info)
{
	int code, ret = ask_info(device, info, &code);

	return ret == -FI_EIO ? info_failed(code) : ret;
}

/* "" if memory of this device can be exported. */
static const char *no_export(const struct syn_device_info *info)
{
	if (!export_plain && !export_mapped)
		return export_reason;
	if (info->device_type == SYN_TYPE_GAUDI)
		return export_plain ? "" : "this libhl-thunk.so does not export memory of Gaudi";
	if (!export_mapped)
		return "this libhl-thunk.so exports memory of Gaudi alone";
	return syn.device_get_info_v2 && info->global_hbm_base
		       ? ""
		       : "this libSynapse.so does not tell where device memory begins";
}

static size_t device_count(void)
{
	return count;
}

static int device_info(size_t index, struct hmem_device *device)
{
	struct syn_device_info info;
	int code, ret;

	*device = (struct hmem_device){ .id = (int)index };
	if (index >= count)
		return -FI_ENODEV;
	ret = acquired((uint32_t)index, &info);
	if (ret != 0 && ret != -FI_ENODEV)
		return ret;
	if (ret != 0) {
		snprintf(device->name, sizeof(device->name), "Gaudi, not acquired");
		snprintf(device->dmabuf_reason, sizeof(device->dmabuf_reason),
			 "this program did not acquire it");
		return 0;
	}
	code = syn.device_get_name(device->name, sizeof(device->name), (uint32_t)index);
	if (code != SYN_OK)
		syn_failed("synDeviceGetName", code);
	code = syn.device_get_pci(device->pci, sizeof(device->pci), (uint32_t)index);
	if (code != SYN_OK)
		syn_failed("synDeviceGetPCIBusId", code);
	device->memory = info.dram_size;
	snprintf(device->dmabuf_reason, sizeof(device->dmabuf_reason), "%s", no_export(&info));
	device->dmabuf = device->dmabuf_reason[0] == '\0';
	return 0;
}

static int acquire(int device, struct syn_device_info *info)
{
	uint32_t got = 0;
	int ret;

	/* ids are given in order; each call takes a device more, so that this ends */
	for (uint32_t i = 0; (ret = acquired((uint32_t)device, info)) == -FI_ENODEV; i++) {
		int code = i < count ? syn.device_acquire(&got, NULL) : SYN_CODE_NO_DEVICE;

		if (code != SYN_OK)
			return syn_failed("synDeviceAcquire", code);
	}
	return ret;
}

/* ---- what an address is ---- */

static bool in_memory(const struct syn_device_info *info, uint64_t addr)
{
	return addr - info->dram_base < info->dram_size ||
	       (info->global_hbm_base && addr - info->global_hbm_base < info->dram_size);
}

static void part_of_device(struct hmem_facts *facts, uint64_t addr, int device,
			   const struct syn_device_info *info)
{
	*facts = (struct hmem_facts){ .flags = HMEM_FACT_NO_RANGE | HMEM_FACT_NO_PEER |
					       (no_export(info)[0] ? HMEM_FACT_NO_EXPORT : 0),
				      .device = device,
				      .base = addr,
				      .len = 1 };
}

/* Silent; *fd is the driver's negative errno if it fails, *call its name. */
static int export_range(const struct syn_device_info *info, uint64_t addr, uint64_t len, int *fd,
			const char **call)
{
	if (no_export(info)[0])
		return -FI_EOPNOTSUPP;
	if (info->device_type == SYN_TYPE_GAUDI) {
		*call = "hlthunk_device_memory_export_dmabuf_fd";
		*fd = export_plain((int)info->fd, addr, len, O_RDWR | O_CLOEXEC);
	} else {
		/* begins where it is told to, a distance from where all of the memory is mapped */
		*call = "hlthunk_device_mapped_memory_export_dmabuf_fd";
		*fd = export_mapped((int)info->fd, info->global_hbm_base, len,
				    addr - info->global_hbm_base, O_RDWR | O_CLOEXEC);
	}
	return *fd >= 0 ? 0 : -FI_EIO;
}

/*
 * Is memory there?  SynapseAI does not say, but what it cannot export is none; as long as it exported
 * nothing, a refusal means nothing.
 */
static bool is_empty(const struct syn_device_info *info, uint64_t addr)
{
	static atomic_bool answers;
	const char *call;
	int fd = -1, ret = export_range(info, addr & ~(uint64_t)(UNIT - 1), UNIT, &fd, &call);

	if (ret == 0) {
		close(fd);
		atomic_store_explicit(&answers, true, memory_order_relaxed);
	}
	return ret == -FI_EIO && fd == -EINVAL &&
	       atomic_load_explicit(&answers, memory_order_relaxed);
}

static int look(const void *addr, struct hmem_facts *facts)
{
	struct hmem_known_piece piece;
	struct syn_device_info info;
	int code, ret;

	if (hmem_known_find(&known, addr, &piece) == 0) {
		*facts = piece.facts;
		return 0;
	}
	for (uint32_t i = 0; i < count && (ret = ask_info(i, &info, &code)) != -FI_ENODEV; i++) {
		if ((ret == 0 && !in_memory(&info, (uintptr_t)addr)) || hmem_host_reads(addr))
			continue;
		if (ret != 0) /* it may be this device's, which does not tell where its memory is */
			return info_failed(code);
		if (is_empty(&info, (uintptr_t)addr)) {
			HM_WARN(FI_LOG_MR,
				"%p is an address of synapseai device %u, and no memory is there",
				addr, i);
			return -FI_EINVAL;
		}
		part_of_device(facts, (uintptr_t)addr, (int)i, &info);
		return 0;
	}
	return -FI_ENOENT;
}

static int claim(int device, const void *addr, size_t len, struct hmem_facts *facts)
{
	uint64_t first = (uintptr_t)addr & ~(uint64_t)(UNIT - 1);
	uint64_t end = ((uintptr_t)addr + len + UNIT - 1) & ~(uint64_t)(UNIT - 1);
	struct syn_device_info info;
	const char *call;
	int fd, ret = acquired((uint32_t)device, &info);

	if (ret != 0)
		return ret == -FI_ENODEV ? -FI_ENOENT : ret;
	if (!in_memory(&info, (uintptr_t)addr) ||
	    export_range(&info, first, end - first, &fd, &call) != 0)
		return -FI_ENOENT;
	close(fd);
	part_of_device(facts, (uintptr_t)addr, device, &info);
	return 0;
}

/* ---- dma-bufs ---- */

static int export_failed(const char *call, int code, const void *addr, size_t len)
{
	HM_REFUSE(FI_LOG_MR,
		  code == -ENOMEM ? HMREG_CAUSE_DEVICE_MEMORY : HMREG_CAUSE_EXPORT_REFUSED,
		  "%s: %s (%d) for %p, +%zu: freed, or not memory of this device", call,
		  strerror(-code), code, addr, len);
	return code == -ENOMEM ? -FI_ENOMEM : -FI_EOPNOTSUPP;
}

/* Memory of known extent is exported from its begin, other memory just as it is asked for. */
static int export_start(const struct hmem_memory *memory, const void *addr, size_t len,
			uint32_t flags, struct hmem_export *out)
{
	const char *call = "synDeviceGetInfo";
	struct syn_device_info info;
	struct hmem_span span;
	int fd = -ENODEV, ret = hmem_span(memory, addr, len, UNIT, "the export", &span);

	(void)flags;
	if (ret != 0)
		return ret;
	ret = acquired((uint32_t)memory->device, &info);
	if (ret != 0)
		return ret == -FI_ENODEV ? export_failed(call, fd, addr, len) : ret;
	if (no_export(&info)[0]) {
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_EXPORT_UNSUPPORTED, "synapseai device %d: %s",
			  memory->device, no_export(&info));
		return -FI_EOPNOTSUPP;
	}
	if (export_range(&info, span.base, span.len, &fd, &call) != 0) {
		ret = export_failed(call, fd, addr, len);
		/* an address inside an allocation, perhaps */
		return ret == -FI_EOPNOTSUPP && !memory->range_known ? -FI_EINVAL : ret;
	}
	/* on Gaudi a dma-buf is of an allocation, and no offset is told */
	if (!memory->range_known && info.device_type == SYN_TYPE_GAUDI &&
	    lseek(fd, 0, SEEK_END) != (off_t)span.len) {
		HM_WARN(FI_LOG_MR, "%p may be inside other memory, and %s does not tell where",
			addr, call);
		close(fd);
		return -FI_EINVAL;
	}
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	*out = (struct hmem_export){ .fd = fd, .offset = (uintptr_t)addr - span.base };
	return 0;
}

static void export_end(const struct hmem_export *exported)
{
	close(exported->fd);
}

/* ---- host memory ---- */

static void unmap(uint32_t devices, const void *addr)
{
	for (uint32_t i = 0; i < count; i++) {
		int code = devices & (1u << i) ? syn.host_unmap(i, addr) : SYN_OK;

		if (code != SYN_OK)
			syn_failed("synHostUnmap", code);
	}
}

/* For each device that the program has. */
static int host_register(void *addr, size_t len)
{
	struct hmem_known_piece piece = { .facts = { .flags = HMEM_FACT_ON_HOST |
							      HMEM_FACT_HOST_ACCESS,
						     .device = HMEM_NO_DEVICE,
						     .base = (uintptr_t)addr,
						     .len = len } };
	struct syn_device_info info;
	uint32_t devices = 0;
	int ret = 0;

	for (uint32_t i = 0; i < count && (ret = acquired(i, &info)) == 0; i++) {
		int code = syn.host_map(i, len, addr);

		if (code != SYN_OK) {
			ret = syn_failed("synHostMap", code);
			break;
		}
		devices |= 1u << i;
	}
	ret = ret == -FI_ENODEV ? 0 : ret; /* that was one too many */
	if (ret == 0 && devices == 0) {
		HM_WARN(FI_LOG_MR, "synHostMap: this program has acquired no device");
		ret = -FI_ENODEV;
	}
	piece.place = (int)devices;
	if (ret == 0)
		ret = hmem_known_add(&known, &piece);
	if (ret != 0)
		unmap(devices, addr);
	return ret;
}

static int host_unregister(void *addr)
{
	struct hmem_known_piece piece;
	int ret = hmem_known_take(&known, addr, &piece);

	if (ret == 0)
		unmap((uint32_t)piece.place, addr);
	return ret;
}

/* ---- allocation ---- */

static int release(int device, uint64_t addr, enum hmem_alloc how)
{
	bool host = how == HMEM_ALLOC_HOST;
	int code = host ? syn.host_free((uint32_t)device, (const void *)(uintptr_t)addr, 0)
			: syn.device_free((uint32_t)device, addr, 0);

	return code == SYN_OK ? 0 : syn_failed(host ? "synHostFree" : "synDeviceFree", code);
}

static int alloc(int device, size_t len, enum hmem_alloc how, void **addr)
{
	struct hmem_known_piece piece = { .place = device };
	struct syn_device_info info;
	void *host = NULL;
	uint64_t at = 0;
	int code, ret;

	if (how == HMEM_ALLOC_MANAGED)
		return -FI_ENOSYS;
	if (device < 0 || (uint32_t)device >= count) {
		HM_WARN(FI_LOG_MR, "synapseai has no device %d", device);
		return -FI_ENODEV;
	}
	ret = acquire(device, &info);
	if (ret != 0)
		return ret;
	code = how == HMEM_ALLOC_HOST ? syn.host_malloc((uint32_t)device, len, 0, &host)
				      : syn.device_malloc((uint32_t)device, len, 0, 0, &at);
	if (code != SYN_OK)
		return syn_failed(how == HMEM_ALLOC_HOST ? "synHostMalloc" : "synDeviceMalloc",
				  code);
	if (how == HMEM_ALLOC_HOST) {
		at = (uintptr_t)host;
		piece.facts.flags = HMEM_FACT_ON_HOST | HMEM_FACT_HOST_ACCESS;
		piece.facts.device = HMEM_NO_DEVICE;
	} else {
		part_of_device(&piece.facts, at, device, &info);
		piece.facts.flags &= ~HMEM_FACT_NO_RANGE;
	}
	piece.facts.base = at;
	piece.facts.len = len;
	ret = hmem_known_add(&known, &piece);
	if (ret != 0)
		release(device, at, how);
	else
		*addr = (void *)(uintptr_t)at;
	return ret;
}

static int free_memory(int device, void *addr, enum hmem_alloc how)
{
	struct hmem_known_piece piece;
	int ret = hmem_known_take(&known, addr, &piece);

	(void)device;
	if (ret != 0)
		return ret;
	ret = release(piece.place, piece.facts.base, how);
	if (ret != 0)
		hmem_known_add(&known, &piece); /* it is still there */
	return ret;
}

struct hmem_ops hmem_synapseai = {
	.name = "synapseai",
	.iface = FI_HMEM_SYNAPSEAI,
	.start = start,
	.device_count = device_count,
	.device_info = device_info,
	.look = look,
	.claim = claim,
	.copy = syn_copy,
	.export_unit = UNIT,
	.export_start = export_start,
	.export_end = export_end,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.alloc = alloc,
	.free = free_memory,
};
