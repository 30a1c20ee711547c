/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations, what the driver tells of an address, dma-bufs, and memory of other processes. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/list.h"
#include "tests/drivers/accel/ze/ze_emu.h"

#define MOST_ALLOC (UINT64_C(4) << 30)

/* How every structure of Level Zero begins. */
struct link {
	uint32_t stype;
	const struct link *next;
};

static const void *in_chain(const void *next, uint32_t stype)
{
	const struct link *link = next;

	while (link && link->stype != stype)
		link = link->next;
	return link;
}

bool emu_asks_export(const void *next, bool *wrong)
{
	const l0_export_desc *export = in_chain(next, L0_STYPE_EXPORT_DESC);

	*wrong = export && export->flags != L0_EXTERNAL_DMA_BUF;
	return export != NULL;
}

/* ---- allocation ---- */

static l0_result check_size(size_t size, size_t align)
{
	if (size == 0 || size > MOST_ALLOC)
		return L0_UNSUPPORTED_SIZE;
	return align & (align - 1) ? L0_UNSUPPORTED_ALIGNMENT : L0_SUCCESS;
}

/* From a larger buffer, as drivers do with memory that is not for export; freed as any other. */
static void *alloc_part(size_t len, size_t align, int device, int kind, void *user)
{
	struct accel_block *block =
		accel_block_make(len + 2 * (size_t)ACCEL_PAGE, ACCEL_ON_DEVICE, device);
	void *addr = block ? accel_reserve(len, align) : NULL;
	size_t whole = (len + ACCEL_PAGE - 1) / ACCEL_PAGE * ACCEL_PAGE;

	if (addr && !accel_map(addr, whole, block, ACCEL_PAGE, kind, user)) {
		accel_unreserve(addr, len);
		addr = NULL;
	}
	if (block)
		accel_block_put(block);
	return addr;
}

static l0_result zeMemAllocDevice(l0_context context, const l0_device_alloc *desc, size_t size,
				  size_t align, l0_device device, void **out)
{
	int kind = L0_MEMORY_DEVICE;
	bool wrong;
	l0_result r;

	CALL("zeMemAllocDevice");
	NEED(context, MAGIC_CONTEXT);
	NEED(device, MAGIC_DEVICE);
	NEED_POINTER(desc);
	NEED_POINTER(out);
	r = check_size(size, align);
	if (r != L0_SUCCESS)
		return r;
	if (desc->stype != L0_STYPE_DEVICE_ALLOC_DESC || desc->flags > 3 || desc->ordinal != 0)
		return L0_INVALID_ENUMERATION;
	if (emu_asks_export(desc->next, &wrong))
		kind |= KIND_EXPORT;
	if (wrong || ((kind & KIND_EXPORT) && !emu_device_exports(device)))
		return L0_UNSUPPORTED_FEATURE;
	if ((kind & KIND_EXPORT) || accel_setting("private", 1) != 1)
		*out = accel_alloc(size, align, ACCEL_ON_DEVICE, emu_device_code(device), kind,
				   context);
	else
		*out = alloc_part(size, align, emu_device_code(device), kind, context);
	return *out ? L0_SUCCESS : L0_OUT_OF_DEVICE_MEMORY;
}

static l0_result zeMemAllocHost(l0_context context, const l0_host_alloc *desc, size_t size,
				size_t align, void **out)
{
	l0_result r;

	CALL("zeMemAllocHost");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(desc);
	NEED_POINTER(out);
	r = check_size(size, align);
	if (r != L0_SUCCESS)
		return r;
	*out = accel_alloc(size, align, ACCEL_ON_HOST, -1, L0_MEMORY_HOST, context);
	return *out ? L0_SUCCESS : L0_OUT_OF_HOST_MEMORY;
}

static l0_result zeMemAllocShared(l0_context context, const l0_device_alloc *on_device,
				  const l0_host_alloc *on_host, size_t size, size_t align,
				  l0_device device, void **out)
{
	l0_result r;

	CALL("zeMemAllocShared");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(on_device);
	NEED_POINTER(on_host);
	NEED_POINTER(out);
	if (device && device->magic != MAGIC_DEVICE)
		return L0_INVALID_ARGUMENT;
	r = check_size(size, align);
	if (r != L0_SUCCESS)
		return r;
	*out = accel_alloc(size, align, ACCEL_ON_BOTH, emu_device_code(device), L0_MEMORY_SHARED,
			   context);
	return *out ? L0_SUCCESS : L0_OUT_OF_DEVICE_MEMORY;
}

static l0_result zeMemFree(l0_context context, void *addr)
{
	struct accel_range range;

	CALL("zeMemFree");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	if (!accel_find(addr, &range) || range.addr != addr || range.user != context ||
	    (range.kind & (KIND_VMM | KIND_IMPORTED)))
		return L0_INVALID_ARGUMENT;
	emu_forget_fd(&range);
	return accel_free(addr) ? L0_SUCCESS : L0_INVALID_ARGUMENT;
}

/* ---- dma-bufs ---- */

/* With cached=1: the fd of each allocation that was exported. */
struct kept_fd {
	struct hm_list link;
	uint64_t id;
	int fd;
	ino_t inode;
};

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hm_list kept_fds = { &kept_fds, &kept_fds };

/* Is the fd still the file that the driver opened? */
static bool still_there(const struct kept_fd *kept)
{
	struct stat st;

	return fstat(kept->fd, &st) == 0 && st.st_ino == kept->inode;
}

static struct kept_fd *find_kept(uint64_t id)
{
	hm_list_for_each_safe(link, &kept_fds)
	{
		struct kept_fd *kept = hm_list_entry(link, struct kept_fd, link);

		if (kept->id == id)
			return kept;
	}
	return NULL;
}

void emu_forget_fd(const struct accel_range *range)
{
	struct kept_fd *kept;

	pthread_mutex_lock(&kept_lock);
	kept = find_kept(range->id);
	if (kept) {
		hm_list_del(&kept->link);
		if (still_there(kept))
			close(kept->fd);
		else
			accel_live("stolen fd", 1);
		free(kept);
	}
	pthread_mutex_unlock(&kept_lock);
}

static int keep_fd(const struct accel_range *range, int fd)
{
	struct kept_fd *kept = calloc(1, sizeof(*kept));
	struct stat st;

	if (!kept || fstat(fd, &st) != 0) {
		free(kept);
		close(fd);
		return -1;
	}
	kept->id = range->id;
	kept->fd = fd;
	kept->inode = st.st_ino;
	hm_list_add_tail(&kept_fds, &kept->link);
	return fd;
}

static int kept_fd(const struct accel_range *range)
{
	struct kept_fd *kept;
	size_t offset;
	int fd;

	pthread_mutex_lock(&kept_lock);
	kept = find_kept(range->id);
	if (kept) {
		fd = kept->fd;
	} else {
		fd = accel_dmabuf(range->addr, range->len, &offset);
		fd = fd < 0 ? -1 : keep_fd(range, fd);
	}
	pthread_mutex_unlock(&kept_lock);
	return fd;
}

/* A buffer of its own, as that of one of several sub-devices. */
static int half_fd(const struct accel_range *range)
{
	int fd = memfd_create("accel part", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)(range->len / 2)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static l0_result export_fd(const struct accel_range *range, l0_export_fd *out)
{
	l0_device device = emu_device(accel_block_device(range->block));
	bool private = !(range->kind & KIND_EXPORT);
	size_t offset;
	int fd;

	if (out->flags != L0_EXTERNAL_DMA_BUF)
		return L0_INVALID_ENUMERATION;
	if ((range->kind & KIND_TYPE) != L0_MEMORY_DEVICE || !emu_device_exports(device))
		return L0_UNSUPPORTED_FEATURE;
	if (private && (accel_setting("private", 1) == 0 || (range->kind & KIND_VMM)))
		return L0_UNSUPPORTED_FEATURE;
	if (private && accel_setting("private", 1) == 2)
		return L0_SUCCESS;
	if (private && accel_setting("private", 1) == 3)
		fd = half_fd(range);
	else if (accel_setting("cached", 0))
		fd = kept_fd(range);
	else
		fd = accel_dmabuf(range->addr, range->len, &offset);
	if (fd < 0)
		return L0_OUT_OF_HOST_MEMORY;
	out->fd = fd;
	return L0_SUCCESS;
}

/* ---- what an address is ---- */

static l0_result zeMemGetAllocProperties(l0_context context, const void *addr, l0_memory *p,
					 l0_device *device)
{
	struct accel_range range;
	const void *fd;

	CALL("zeMemGetAllocProperties");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	NEED_POINTER(p);
	if (p->stype != L0_STYPE_MEMORY_PROPERTIES)
		return L0_INVALID_ENUMERATION;
	fd = in_chain(p->next, L0_STYPE_EXPORT_FD);
	if (!accel_find(addr, &range)) {
		p->type = L0_MEMORY_UNKNOWN;
		p->id = 0;
		p->page = 0;
		if (device)
			*device = NULL;
		return fd ? L0_INVALID_ARGUMENT : L0_SUCCESS;
	}
	p->type = (uint32_t)range.kind & KIND_TYPE;
	p->id = range.id;
	p->page = p->type == L0_MEMORY_HOST && !(range.kind & KIND_VMM) ? 4096 : ACCEL_PAGE;
	if (device)
		*device = emu_device(accel_block_device(range.block));
	return fd ? export_fd(&range, (l0_export_fd *)(uintptr_t)fd) : L0_SUCCESS;
}

/* All mapped pieces side by side, as some drivers tell it. */
static void merge(struct accel_range *range)
{
	struct accel_range other;

	while (accel_find(range->addr - 1, &other) && (other.kind & KIND_VMM)) {
		range->addr = other.addr;
		range->len += other.len;
	}
	while (accel_find(range->addr + range->len, &other) && (other.kind & KIND_VMM))
		range->len += other.len;
}

static l0_result zeMemGetAddressRange(l0_context context, const void *addr, void **base,
				      size_t *size)
{
	struct accel_range range;

	CALL("zeMemGetAddressRange");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	if (!accel_find(addr, &range) || ((range.kind & KIND_VMM) && accel_setting("norange", 0)))
		return L0_INVALID_ARGUMENT;
	if ((range.kind & KIND_VMM) && accel_setting("merge", 0))
		merge(&range);
	if (base)
		*base = range.addr;
	if (size)
		*size = range.len;
	return L0_SUCCESS;
}

bool emu_reachable(l0_device device, const void *addr)
{
	struct accel_range range;
	l0_device owner;

	if (!accel_find(addr, &range))
		return true; /* the program's own host memory, or not mapped, which is seen later */
	owner = emu_device(accel_block_device(range.block));
	return !owner || accel_block_place(range.block) != ACCEL_ON_DEVICE ||
	       emu_peers(device, owner);
}

/* ---- memory of other processes ---- */

/* Opened by the process that made it alone: there is no server that passes the pages on. */
struct ipc_handle {
	pid_t process;
	void *addr;
	uint64_t id;
	char rest[64 - 3 * sizeof(uint64_t)];
};
_Static_assert(sizeof(struct ipc_handle) == 64, "ZE_MAX_IPC_HANDLE_SIZE");

static l0_result zeMemGetIpcHandle(l0_context context, const void *addr, struct ipc_handle *out)
{
	struct accel_range range;

	CALL("zeMemGetIpcHandle");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	NEED_POINTER(out);
	if (!accel_find(addr, &range) || range.addr != addr ||
	    (range.kind & KIND_TYPE) != L0_MEMORY_DEVICE)
		return L0_INVALID_ARGUMENT;
	memset(out, 0, sizeof(*out));
	out->process = getpid();
	out->addr = range.addr;
	out->id = range.id;
	return L0_SUCCESS;
}

static l0_result zeMemOpenIpcHandle(l0_context context, l0_device device, struct ipc_handle handle,
				    uint32_t flags, void **out)
{
	struct accel_range range;
	void *addr;

	CALL("zeMemOpenIpcHandle");
	NEED(context, MAGIC_CONTEXT);
	NEED(device, MAGIC_DEVICE);
	NEED_POINTER(out);
	if (flags > 3)
		return L0_INVALID_ENUMERATION;
	if (handle.process != getpid())
		return L0_UNSUPPORTED_FEATURE;
	if (!accel_find(handle.addr, &range) || range.id != handle.id)
		return L0_INVALID_ARGUMENT;
	addr = accel_reserve(range.len, 0);
	if (!addr)
		return L0_OUT_OF_DEVICE_MEMORY;
	if (!accel_map(addr, range.len, range.block, range.offset, range.kind | KIND_IMPORTED,
		       context)) {
		accel_unreserve(addr, range.len);
		return L0_OUT_OF_DEVICE_MEMORY;
	}
	accel_live("ipc", 1);
	*out = addr;
	return L0_SUCCESS;
}

static l0_result zeMemCloseIpcHandle(l0_context context, const void *addr)
{
	struct accel_range range;

	CALL("zeMemCloseIpcHandle");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	if (!accel_find(addr, &range) || range.addr != addr || range.user != context ||
	    !(range.kind & KIND_IMPORTED))
		return L0_INVALID_ARGUMENT;
	emu_forget_fd(&range);
	if (!accel_free(range.addr))
		return L0_INVALID_ARGUMENT;
	accel_live("ipc", -1);
	return L0_SUCCESS;
}

const struct emu_entry emu_alloc_entries[] = { ENTRY(MEM, SHARED, zeMemAllocShared),
					       ENTRY(MEM, DEVICE, zeMemAllocDevice),
					       ENTRY(MEM, HOST, zeMemAllocHost),
					       ENTRY(MEM, FREE, zeMemFree),
					       ENTRY(MEM, PROPERTIES, zeMemGetAllocProperties),
					       ENTRY(MEM, RANGE, zeMemGetAddressRange),
					       ENTRY(MEM, GET_IPC, zeMemGetIpcHandle),
					       ENTRY(MEM, OPEN_IPC, zeMemOpenIpcHandle),
					       ENTRY(MEM, CLOSE_IPC, zeMemCloseIpcHandle),
					       ENTRIES_END };
