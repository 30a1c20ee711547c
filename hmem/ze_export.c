/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Level Zero's dma-bufs.  zeMemGetAllocProperties gives a fd for the whole allocation.  Two things are not
 * told with it, and are found out:
 *
 * - Whose the fd is.  Some drivers make a new one for each call, others keep one per allocation and hand
 *   out its number.  Asked twice, the first give two numbers, the second one.
 * - Whether it is of this allocation.  Memory that was not allocated for export may be a part of a larger
 *   buffer of the driver, or of several, one per sub-device, and the fd is of that buffer, or of one of
 *   them.  An allocation that begins at a page and is, in whole pages, as long as the fd's buffer cannot
 *   be a part of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/range.h"
#include "core/base/refusal.h"
#include "hmem/ze.h"

#define SMALL_PAGE 4096u
#define LARGE_PAGE 65536u
#define HUGE_PAGE  (2u << 20)

/* ---- the driver's fd ---- */

/* Results that stay the same however often one asks. */
static bool is_refusal(l0_result r)
{
	return r >= L0_UNSUPPORTED_VERSION && r < L0_UNKNOWN;
}

static l0_result ask_fd(const struct ze_range *range, int *fd)
{
	l0_export_fd out = { .stype = L0_STYPE_EXPORT_FD, .flags = L0_EXTERNAL_DMA_BUF, .fd = -1 };
	l0_memory memory = { .stype = L0_STYPE_MEMORY_PROPERTIES, .next = &out };
	l0_device device;
	l0_result r = ze_api.zeMemGetAllocProperties(
		range->driver->context, (const void *)(uintptr_t)range->base, &memory, &device);

	*fd = r == L0_SUCCESS ? out.fd : -1;
	return r;
}

/* fd's owner could not be asked for: what was seen before decides, else it stays open. */
static void drop_unsure(struct ze_driver *driver, int fd)
{
	if (atomic_load(&driver->fd_owner) == ZE_FD_OURS)
		close(fd);
	else if (atomic_load(&driver->fd_owner) == ZE_FD_UNKNOWN)
		HM_WARN(FI_LOG_MR, "file descriptor %d stays open: it may be the driver's", fd);
}

/* A fd of the caller's; the driver's own is left as it is. */
static int own_fd(const struct ze_range *range, int *own, const char **why)
{
	struct ze_driver *driver = range->driver;
	int first, second, error;
	l0_result r = ask_fd(range, &first);

	if (is_refusal(r) || (r == L0_SUCCESS && first < 0)) {
		*why = "the driver gives no file descriptor for it; allocate it with "
		       "ze_external_memory_export_desc_t";
		return -FI_EOPNOTSUPP;
	}
	if (r != L0_SUCCESS)
		return ze_fail("zeMemGetAllocProperties (export)", r);
	r = ask_fd(range, &second);
	if (r != L0_SUCCESS) {
		ze_fail("zeMemGetAllocProperties (export)", r);
		r = ask_fd(range, &second);
	}
	if (r != L0_SUCCESS || second < 0) {
		drop_unsure(driver, first);
		return ze_fail("zeMemGetAllocProperties (export)", r);
	}
	*own = fcntl(first, F_DUPFD_CLOEXEC, 0);
	error = errno;
	atomic_store(&driver->fd_owner, first == second ? ZE_FD_DRIVER : ZE_FD_OURS);
	if (first != second) {
		close(first);
		close(second);
	}
	if (*own >= 0)
		return 0;
	HM_WARN(FI_LOG_MR, "the exported file descriptor %d cannot be duplicated: %s", first,
		strerror(error));
	return -error;
}

/* ---- does it describe the allocation? ---- */

static bool whole_pages(const struct ze_range *range, uint64_t size, uint64_t page)
{
	return page > 0 && (page & (page - 1)) == 0 && range->base % page == 0 &&
	       size % page == 0 && size >= range->len && size - range->len < page;
}

static bool describes(const struct ze_range *range, uint64_t size)
{
	return whole_pages(range, size, SMALL_PAGE) || whole_pages(range, size, LARGE_PAGE) ||
	       whole_pages(range, size, range->page);
}

int ze_dmabuf(const struct ze_range *range, int *fd, uint64_t *size, const char **why)
{
	off_t end;
	int ret;

	*why = NULL;
	if (range->type != L0_MEMORY_DEVICE || !range->device)
		*why = "only device memory is exported";
	else if (!range->device->info.dmabuf)
		*why = "the driver does not export this device's memory";
	else if (!range->known)
		*why = "the driver does not tell where this memory begins and ends";
	else if (range->base % SMALL_PAGE != 0)
		*why = "it begins inside a page: a part of a larger buffer of the driver's; "
		       "allocate it with ze_external_memory_export_desc_t";
	if (*why)
		return -FI_EOPNOTSUPP;
	ret = own_fd(range, fd, why);
	if (ret != 0)
		return ret;
	end = lseek(*fd, 0, SEEK_END);
	if (end >= 0 && describes(range, (uint64_t)end)) {
		*size = (uint64_t)end;
		return 0;
	}
	close(*fd);
	*why = "the file descriptor that the driver gives is of another length than the memory; "
	       "allocate it with ze_external_memory_export_desc_t";
	return -FI_EOPNOTSUPP;
}

/* ---- what is asked once per allocation ---- */

#define REMEMBERED  1024u
#define TRAIT_BITS  2
#define DRIVER_BITS 4

/* An allocation's id, driver and traits in one word, so that no lock is needed; 0: empty. */
static _Atomic uint64_t remembered[REMEMBERED];

/* The word without its traits, or 0: it cannot be remembered. */
static uint64_t word_of(const struct ze_range *range)
{
	if (range->id == 0 || range->id >> (64 - TRAIT_BITS - DRIVER_BITS) != 0 ||
	    range->driver->index >> DRIVER_BITS != 0)
		return 0;
	return (range->id << DRIVER_BITS | range->driver->index) << TRAIT_BITS;
}

/*
 * Address space that was reserved has access attributes, allocations have none.  The pages of which it
 * consists are not told, so that the usual sizes are tried.
 */
static bool is_mapped(const struct ze_range *range)
{
	const uint64_t pages[] = { range->page, LARGE_PAGE, HUGE_PAGE };

	if (!ze_api.zeVirtualMemGetAccessAttribute)
		return false;
	for (size_t i = 0; i < count_of(pages); i++) {
		uint64_t at = pages[i] ? range->base / pages[i] * pages[i] : 0;
		l0_access access = 0;
		size_t size = 0;

		if (at != 0 && ze_api.zeVirtualMemGetAccessAttribute(
				       range->driver->context, (void *)(uintptr_t)at, pages[i],
				       &access, &size) == L0_SUCCESS)
			return true;
	}
	return false;
}

uint32_t ze_traits(const struct ze_range *range)
{
	uint64_t word = word_of(range), size;
	_Atomic uint64_t *slot =
		&remembered[(word >> TRAIT_BITS) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
	uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed);
	uint32_t traits = 0;
	const char *why;
	int fd, ret;

	if (word != 0 && seen >> TRAIT_BITS == word >> TRAIT_BITS)
		return (uint32_t)(seen & ((1u << TRAIT_BITS) - 1));
	if (is_mapped(range))
		traits |= ZE_TRAIT_VMM;
	ret = range->type == L0_MEMORY_DEVICE ? ze_dmabuf(range, &fd, &size, &why) : -FI_EOPNOTSUPP;
	if (ret == 0)
		close(fd);
	/* a failure that may pass says nothing, and is told when it is exported */
	if (ret != -FI_EOPNOTSUPP)
		traits |= ZE_TRAIT_EXPORTABLE;
	if (word != 0 && (ret == 0 || ret == -FI_EOPNOTSUPP))
		atomic_store_explicit(slot, word | traits, memory_order_relaxed);
	return traits;
}

/* ---- the operations ---- */

static int refuse(const void *addr, size_t len, const char *why)
{
	HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_EXPORT_REFUSED,
		  "[%p, +%zu) of Level Zero is not exported: %s", addr, len, why);
	return -FI_EOPNOTSUPP;
}

int ze_export_start(const struct hmem_memory *memory, const void *addr, size_t len, uint32_t flags,
		    struct hmem_export *out)
{
	struct ze_range range;
	uint64_t size, offset;
	const char *why;
	int fd, ret = ze_find(addr, &range);

	(void)memory, (void)flags;
	if (ret == -FI_ENOENT) {
		HM_REFUSE(FI_LOG_MR, HMREG_CAUSE_MEMORY_FREED,
			  "%p is memory of no Level Zero driver any more", addr);
		return -FI_EINVAL;
	}
	if (ret != 0)
		return ret;
	if (!range.known) {
		HM_WARN(FI_LOG_MR, "%p: the driver does not tell where in its allocation that is",
			addr);
		return -FI_EINVAL;
	}
	ret = ze_dmabuf(&range, &fd, &size, &why);
	if (ret != 0)
		return ret == -FI_EOPNOTSUPP && why ? refuse(addr, len, why) : ret;
	offset = (uintptr_t)addr - range.base;
	if (!hm_range_ok(size, offset, len)) {
		HM_WARN(FI_LOG_MR, "[%p, +%zu) is not in the allocation of %lu bytes at 0x%lx",
			addr, len, (unsigned long)range.len, (unsigned long)range.base);
		close(fd);
		return -FI_EINVAL;
	}
	*out = (struct hmem_export){ .fd = fd, .offset = offset };
	return 0;
}

/* The fd is ours whoever made it, see own_fd. */
void ze_export_end(const struct hmem_export *exported)
{
	close(exported->fd);
}
