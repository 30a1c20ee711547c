/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AWS Neuron: memory of Trainium and Inferentia devices.
 *
 * The runtime is not started here, except when somebody allocates: nrt_init reserves cores for the
 * process until it ends (Neuron Runtime configuration), which is the program's business.  Memory that
 * others allocated is known by where it is mapped (neuron_where.c); its kind, not its extent.
 *
 * A device here is a Neuron device, as in /dev/neuron<device>; the runtime allocates on cores, several
 * of which belong to one device.  No call of the runtime depends on a current device.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/dl.h"
#include "core/base/guard.h"
#include "core/base/log.h"
#include "core/base/range.h"
#include "hmem/known.h"
#include "hmem/neuron.h"

/*
 * What an export's address and length are multiples of: "a non-aligned VA will fail", and "Neuron
 * allocated memory is always aligned" (from AWS's people in public threads), to 4 KiB in their samples.
 */
#define UNIT 4096u

struct nrt_calls nrt;

static struct hmem_known known = HMEM_KNOWN_INIT(known);
static uint32_t cores; /* that the program sees; written by start */
/* The device that each core was found on, plus 1; 0: not tried yet. */
#define MOST_CORES 512
static atomic_int device_of_core[MOST_CORES];

/* ---- errors ---- */

static const struct hmem_failure failures[] = {
	{ NRT_CODE_FAILURE, -FI_EIO, "NRT_FAILURE", "the runtime's own log says more" },
	{ NRT_CODE_INVALID, -FI_EINVAL, "NRT_INVALID",
	  "not supported by this runtime, or not this address" },
	{ NRT_CODE_INVALID_HANDLE, -FI_EINVAL, "NRT_INVALID_HANDLE", "freed already?" },
	{ NRT_CODE_RESOURCE, -FI_ENOMEM, "NRT_RESOURCE", "the device's memory is used up" },
	{ NRT_CODE_TIMEOUT, -FI_EIO, "NRT_TIMEOUT", "the device does not answer" },
	{ NRT_CODE_HW_ERROR, -FI_EIO, "NRT_HW_ERROR", "the device has a fault" },
	{ NRT_CODE_QUEUE_FULL, -FI_EAGAIN, "NRT_QUEUE_FULL", "try again" },
	{ NRT_CODE_HOST_MEMORY, -FI_ENOMEM, "NRT_FAIL_HOST_MEM_ALLOC", "no host memory" },
	{ NRT_CODE_UNINITIALIZED, -FI_EIO, "NRT_UNINITIALIZED", "nrt_init was not called" },
	{ NRT_CODE_CLOSED, -FI_EIO, "NRT_CLOSED", "nrt_close was called" },
};

int neuron_failed(const char *call, int code)
{
	static const struct hmem_failure unknown = { 0, -FI_EIO, "NRT_STATUS", "see nrt_status.h" };

	return hmem_failed(failures, count_of(failures), &unknown, call, code);
}

/* ---- start ---- */

#define SLOT(field) ((void **)(void *)&nrt.field)

static const struct hm_dl_symbol symbols[] = {
	{ "nrt_init", SLOT(init), NULL, 0 },
	{ "nrt_tensor_allocate", SLOT(tensor_allocate), NULL, 0 },
	{ "nrt_tensor_free", SLOT(tensor_free), NULL, 0 },
	{ "nrt_tensor_read", SLOT(tensor_read), NULL, 0 },
	{ "nrt_tensor_write", SLOT(tensor_write), NULL, 0 },
	{ "nrt_tensor_get_va", SLOT(tensor_get_va), NULL, 0 },
	{ "nrt_get_visible_vnc_count", SLOT(core_count), "nrt_get_visible_nc_count", 0 },
	{ "nrt_tensor_copy", SLOT(tensor_copy), NULL, 1 },
	{ "nrt_get_version", SLOT(get_version), NULL, 1 },
	{ "nrt_memcpy_to_device", SLOT(memcpy_to_device), NULL, 1 },
	/*
	 * nrt_get_dmabuf_fd_v2, which tells an offset, is known to exist, but its prototype is not
	 * published, so it is not called.
	 */
	{ "nrt_get_dmabuf_fd", SLOT(get_dmabuf_fd), NULL, 1 },
	{ "nrt_get_hbm_mmap_va", SLOT(get_hbm_mmap_va), NULL, 1 },
	{ "nrt_get_attached_efa_bdf", SLOT(attached_efa), NULL, 1 },
};

static void tell_version(struct hmem_status *status)
{
	struct nrt_version_text version = { 0 };

	hm_dl_path((const void *)(uintptr_t)nrt.init, status->driver, sizeof(status->driver));
	if (nrt.get_version && nrt.get_version(&version, sizeof(version)) == NRT_OK)
		snprintf(status->version, sizeof(status->version), "%lu.%lu.%lu.%lu",
			 (unsigned long)version.rt_major, (unsigned long)version.rt_minor,
			 (unsigned long)version.rt_patch, (unsigned long)version.rt_maintenance);
}

static int start(struct hmem_status *status)
{
	int code, ret = hm_dl_load("libnrt.so.1", symbols, sizeof(symbols) / sizeof(symbols[0]),
				   status->reason, sizeof(status->reason));

	status->state = HMEM_ABSENT;
	if (ret != 0)
		return ret;
	tell_version(status);
	/* one of the calls that nrt.h allows before nrt_init */
	code = nrt.core_count(&cores);
	if (code != NRT_OK) {
		neuron_failed("nrt_get_visible_vnc_count", code);
		status->state = HMEM_FAILED;
		snprintf(status->reason, sizeof(status->reason),
			 "nrt_get_visible_vnc_count fails with %d", code);
		return -FI_EIO;
	}
	if (cores > 0)
		return 0;
	status->state = HMEM_EMPTY;
	snprintf(status->reason, sizeof(status->reason),
		 "no NeuronCore is visible (NEURON_RT_VISIBLE_CORES, /dev/neuron0)");
	return -FI_ENODEV;
}

static size_t device_count(void)
{
	uint64_t memory;
	size_t count = neuron_devices(&memory, 0);

	/* cores are on some device, even if nothing names it */
	return count > 0 ? count : 1;
}

static int device_info(size_t index, struct hmem_device *device)
{
	size_t count;

	*device = (struct hmem_device){ .id = (int)index };
	count = neuron_devices(&device->memory, index);
	if (index >= (count > 0 ? count : 1))
		return -FI_ENODEV;
	snprintf(device->name, sizeof(device->name), "Neuron device %zu", index);
	device->dmabuf = nrt.get_dmabuf_fd != NULL;
	if (!device->dmabuf)
		snprintf(device->dmabuf_reason, sizeof(device->dmabuf_reason),
			 "this libnrt.so.1 has no nrt_get_dmabuf_fd");
	return 0;
}

/* ---- what an address is ---- */

static uint32_t export_fact(void)
{
	return nrt.get_dmabuf_fd ? 0 : HMEM_FACT_NO_EXPORT;
}

static void part_of_device(struct hmem_facts *facts, const void *addr, int device, bool host_access)
{
	*facts = (struct hmem_facts){ .flags = HMEM_FACT_NO_RANGE | export_fact() |
					       (host_access ? HMEM_FACT_HOST_ACCESS : 0),
				      .device = device,
				      .base = (uintptr_t)addr,
				      .len = 1 };
}

static const void *page_of(const void *addr)
{
	return (const void *)((uintptr_t)addr & ~(uintptr_t)(UNIT - 1));
}

enum answer {
	NO,
	YES,
	NO_ANSWER
};

/*
 * Is memory allocated at addr?  The runtime answers this as the question for the network adapter next to
 * it, and a failure may as well mean that there is no adapter: until it succeeded once, it means nothing.
 * Its log may have an error for an address that is not the device's.
 */
static enum answer allocated(const void *addr)
{
	static atomic_bool answers;
	char bdf[64];
	size_t len = sizeof(bdf);
	int code = nrt.attached_efa ? nrt.attached_efa(addr, bdf, &len) : NRT_CODE_UNINITIALIZED;

	if (code == NRT_OK || code == NRT_CODE_RESOURCE) {
		atomic_store_explicit(&answers, true, memory_order_relaxed);
		return YES;
	}
	return code == NRT_CODE_FAILURE && atomic_load_explicit(&answers, memory_order_relaxed)
		       ? NO
		       : NO_ANSWER;
}

static int look(const void *addr, struct hmem_facts *facts)
{
	struct hmem_known_piece piece;
	bool host_access;
	int device, ret;

	if (hmem_known_find(&known, addr, &piece) == 0) {
		*facts = piece.facts;
		return 0;
	}
	ret = neuron_where(addr, &device, &host_access);
	if (ret != 0)
		return ret;
	if (allocated(addr) == NO) {
		HM_WARN(FI_LOG_MR, "%p is an address of neuron device %d, and no memory is there",
			addr, device);
		return -FI_EINVAL;
	}
	part_of_device(facts, addr, device, host_access);
	return 0;
}

/* The whole range at once, since an address inside of it may be refused. */
static bool can_export(const void *addr, size_t len)
{
	uint64_t first = (uintptr_t)page_of(addr);
	uint64_t end = (uintptr_t)page_of((const char *)addr + len - 1) + UNIT;
	int fd = -1;

	if (!nrt.get_dmabuf_fd || nrt.get_dmabuf_fd(first, end - first, &fd) != NRT_OK)
		return false;
	close(fd);
	return true;
}

static int claim(int device, const void *addr, size_t len, struct hmem_facts *facts)
{
	enum answer first = allocated(addr), last = allocated((const char *)addr + len - 1);

	/* no adapter may be attached, but memory that can be exported is memory */
	if (first == NO || last == NO ||
	    ((first == NO_ANSWER || last == NO_ANSWER) && !can_export(addr, len)))
		return -FI_ENOENT;
	part_of_device(facts, addr, device, hmem_host_reads(addr));
	return 0;
}

/* ---- copies ---- */

/* A tensor of ours is copied by its handle, other memory through its mapping. */
static int read_device(void *to, const void *from, size_t len)
{
	struct hmem_known_piece piece;
	int code;

	if (hmem_known_find(&known, from, &piece) != 0 || !piece.handle)
		return hm_guard_copy(to, from, len);
	code = nrt.tensor_read(piece.handle, to, (uintptr_t)from - piece.facts.base, len);
	return code == NRT_OK ? 0 : neuron_failed("nrt_tensor_read", code);
}

static int write_device(void *to, const void *from, size_t len)
{
	struct hmem_known_piece piece;
	int code;

	if (hmem_known_find(&known, to, &piece) == 0 && piece.handle) {
		code = nrt.tensor_write(piece.handle, from, (uintptr_t)to - piece.facts.base, len);
		return code == NRT_OK ? 0 : neuron_failed("nrt_tensor_write", code);
	}
	if (!nrt.memcpy_to_device)
		return hm_guard_copy(to, from, len);
	if (!hmem_host_reads(to) || !hmem_host_reads((char *)to + len - 1))
		return -FI_EFAULT;
	code = nrt.memcpy_to_device(to, from, len);
	return code == NRT_OK ? 0 : neuron_failed("nrt_memcpy_to_device", code);
}

static int through_host(const void *arg, char *dst, const char *src, size_t len, void *room)
{
	int ret = read_device(room, src, len);

	(void)arg;
	return ret ? ret : write_device(dst, room, len);
}

static int between_devices(void *dst, const void *src, size_t len)
{
	struct hmem_known_piece from, to;
	int code;

	/* nrt.h: "they must both be allocated on the SAME Neuron Core" */
	if (!nrt.tensor_copy || hmem_known_find(&known, src, &from) != 0 ||
	    hmem_known_find(&known, dst, &to) != 0 || !from.handle || !to.handle ||
	    from.place != to.place || from.handle == to.handle)
		return hmem_copy_pieces(dst, src, len, NULL, 0, through_host, NULL);
	code = nrt.tensor_copy(from.handle, (uintptr_t)src - from.facts.base, to.handle,
			       (uintptr_t)dst - to.facts.base, len);
	return code == NRT_OK ? 0 : neuron_failed("nrt_tensor_copy", code);
}

static int copy(void *dst, int dst_device, const void *src, int src_device, size_t len)
{
	if (dst_device != HMEM_NO_DEVICE && src_device != HMEM_NO_DEVICE)
		return between_devices(dst, src, len);
	return dst_device != HMEM_NO_DEVICE ? write_device(dst, src, len)
					    : read_device(dst, src, len);
}

/* ---- dma-bufs ---- */

static int export_range(uint64_t addr, uint64_t len, bool known_range, int *fd)
{
	int code, ret;

	*fd = -1;
	if (!nrt.get_dmabuf_fd)
		return -FI_EOPNOTSUPP;
	code = nrt.get_dmabuf_fd(addr, len, fd);
	if (code == NRT_OK && *fd >= 0)
		return 0;
	code = code == NRT_OK ? NRT_CODE_FAILURE : code;
	ret = neuron_failed("nrt_get_dmabuf_fd", code);
	/* an address inside a tensor, perhaps */
	if (ret == -FI_EINVAL && !known_range)
		return ret;
	return ret == -FI_ENOMEM ? ret : -FI_EOPNOTSUPP;
}

/* Is there more of the same memory in front of addr? */
static bool interior(uint64_t addr, uint64_t len)
{
	int fd = -1;

	if (addr < UNIT || nrt.get_dmabuf_fd(addr - UNIT, len + UNIT, &fd) != NRT_OK)
		return false;
	close(fd);
	return true;
}

/*
 * The runtime tells no offset, so it has to be certain.  Memory of known extent is exported from its
 * begin.  Of other memory exactly the range is asked for; a dma-buf that is larger than that may begin
 * earlier, unless the range is where the memory begins.
 */
static int export_start(const struct hmem_memory *memory, const void *addr, size_t len,
			uint32_t flags, struct hmem_export *out)
{
	struct hmem_span span;
	int fd, ret = hmem_span(memory, addr, len, UNIT, "nrt_get_dmabuf_fd", &span);

	(void)flags;
	if (ret == 0)
		ret = export_range(span.base, span.len, memory->range_known, &fd);
	if (ret != 0)
		return ret;
	if (!memory->range_known && lseek(fd, 0, SEEK_END) != (off_t)span.len &&
	    interior(span.base, span.len)) {
		HM_WARN(FI_LOG_MR,
			"%p is inside other device memory, and nrt_get_dmabuf_fd does not tell "
			"where",
			addr);
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

/* ---- allocation ---- */

static int allocate(int place, int core, size_t len, struct nrt_tensor_opaque **tensor)
{
	int code = nrt.tensor_allocate(place, core, len, "hmreg", tensor);

	if (code != NRT_CODE_UNINITIALIZED)
		return code == NRT_OK ? 0 : neuron_failed("nrt_tensor_allocate", code);
	code = nrt.init(NRT_NO_FRAMEWORK, "", "");
	if (code != NRT_OK)
		return neuron_failed("nrt_init", code);
	code = nrt.tensor_allocate(place, core, len, "hmreg", tensor);
	return code == NRT_OK ? 0 : neuron_failed("nrt_tensor_allocate", code);
}

/* On a core, if that is on the device; -FI_ENODEV: it is on another. */
static int alloc_on(int device, int core, size_t len, void **addr)
{
	struct nrt_tensor_opaque *tensor = NULL;
	bool host_access;
	int found = device, ret = allocate(NRT_PLACE_DEVICE, core, len, &tensor);
	char *va;

	if (ret != 0)
		return ret;
	va = nrt.tensor_get_va(tensor);
	if (!va) {
		HM_WARN(FI_LOG_MR,
			"nrt_tensor_get_va: device memory is not mapped (NEURON_RT_MAP_HBM=1)");
		ret = -FI_EOPNOTSUPP;
	} else if (neuron_where(va, &found, &host_access) != 0) {
		host_access = hmem_host_reads(va);
		/* nothing tells which device it is, unless there is but one */
		found = device_count() == 1 ? 0 : HMEM_NO_DEVICE;
	}
	if (ret == 0 && core < MOST_CORES)
		atomic_store_explicit(&device_of_core[core], found + 1, memory_order_relaxed);
	if (ret == 0 && found != device)
		ret = -FI_ENODEV;
	if (ret == 0) {
		struct hmem_known_piece piece = { .handle = tensor, .place = core };

		part_of_device(&piece.facts, va, device, host_access);
		piece.facts.flags &= ~HMEM_FACT_NO_RANGE;
		piece.facts.len = len;
		ret = hmem_known_add(&known, &piece);
	}
	if (ret != 0)
		nrt.tensor_free(&tensor);
	else
		*addr = va;
	return ret;
}

static bool may_be_on(uint32_t core, int device)
{
	int found = core < MOST_CORES
			    ? atomic_load_explicit(&device_of_core[core], memory_order_relaxed)
			    : 0;

	return found == 0 || found == device + 1;
}

static int alloc_device(int device, size_t len, void **addr)
{
	int ret = -FI_ENODEV;

	/* the runtime numbers cores and does not tell whose they are: the right one is found by trying */
	for (uint32_t core = 0; core < cores; core++) {
		int tried = may_be_on(core, device) ? alloc_on(device, (int)core, len, addr)
						    : -FI_ENODEV;

		if (tried == 0)
			return 0;
		if (tried != -FI_ENODEV)
			ret = tried;
		if (tried != -FI_ENODEV && tried != -FI_ENOMEM)
			break;
	}
	if (ret == -FI_ENODEV)
		HM_WARN(FI_LOG_MR, "no visible NeuronCore is on Neuron device %d", device);
	return ret;
}

static int alloc_host(size_t len, void **addr)
{
	struct hmem_known_piece piece = { .place = -1 };
	struct nrt_tensor_opaque *tensor = NULL;
	int ret = allocate(NRT_PLACE_HOST, -1, len, &tensor);

	if (ret != 0)
		return ret;
	*addr = nrt.tensor_get_va(tensor);
	piece.handle = tensor;
	piece.facts = (struct hmem_facts){ .flags = HMEM_FACT_ON_HOST | HMEM_FACT_HOST_ACCESS,
					   .device = HMEM_NO_DEVICE,
					   .base = (uintptr_t)*addr,
					   .len = len };
	ret = *addr ? hmem_known_add(&known, &piece) : neuron_failed("nrt_tensor_get_va", 1);
	if (ret != 0)
		nrt.tensor_free(&tensor);
	return ret;
}

static int alloc(int device, size_t len, enum hmem_alloc how, void **addr)
{
	if (how == HMEM_ALLOC_MANAGED)
		return -FI_ENOSYS;
	return how == HMEM_ALLOC_HOST ? alloc_host(len, addr) : alloc_device(device, len, addr);
}

static int free_memory(int device, void *addr, enum hmem_alloc how)
{
	struct nrt_tensor_opaque *tensor;
	struct hmem_known_piece piece;
	int ret = hmem_known_take(&known, addr, &piece);

	(void)device, (void)how;
	if (ret != 0)
		return ret;
	tensor = piece.handle;
	nrt.tensor_free(&tensor);
	return 0;
}

struct hmem_ops hmem_neuron = {
	.name = "neuron",
	.iface = FI_HMEM_NEURON,
	.start = start,
	.device_count = device_count,
	.device_info = device_info,
	.look = look,
	.claim = claim,
	.copy = copy,
	.export_unit = UNIT,
	.export_start = export_start,
	.export_end = export_end,
	.alloc = alloc,
	.free = free_memory,
};
