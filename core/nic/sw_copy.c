/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies that NICs make by the processor: the software NIC's between lists of memory pieces, and other
 * NICs' between their buffers and the program's; on the host and on devices.
 */
#include "core/base/guard.h"
#include "core/base/log.h"
#include "core/nic/sw.h"

/* ---- pieces ---- */

/* The place of byte offset of a region's segment; iov is that segment. */
static struct sw_piece segment_piece(const struct nic_region_ext *ext, size_t segment,
				     uint64_t base, uint64_t offset, size_t len)
{
	const struct nic_place *place = ext && ext->places ? &ext->places[segment] : NULL;

	if (!place)
		return sw_host_piece((void *)(uintptr_t)(base + offset), len);
	return (struct sw_piece){ (char *)place->at + offset, len, place->iface, place->device,
				  place };
}

size_t sw_region_pieces(const struct nic_region *region, uint64_t offset, uint64_t len,
			struct sw_piece *piece)
{
	const struct nic_region_ext *ext = region->ext;
	size_t n = 0;

	if (!ext || !ext->iov) {
		*piece = segment_piece(ext, 0, region->base, offset, len);
		return 1;
	}
	for (size_t i = 0; i < ext->iov_count && len > 0; i++) {
		uint64_t have = ext->iov[i].iov_len;

		if (offset >= have) {
			offset -= have;
			continue;
		}
		have -= offset;
		if (have > len)
			have = len;
		piece[n++] = segment_piece(ext, i, (uintptr_t)ext->iov[i].iov_base, offset, have);
		len -= have;
		offset = 0;
	}
	return n;
}

/* A buffer in a region's memory, which is addressed by what the program calls it. */
static struct sw_piece piece_of_region(const struct nic_region *region, char *addr, size_t len)
{
	const struct nic_region_ext *ext = region->ext;

	if (!ext || !ext->places)
		return sw_host_piece(addr, len);
	if (!ext->iov)
		return segment_piece(ext, 0, region->base, (uintptr_t)addr - region->base, len);
	for (size_t i = 0; i < ext->iov_count; i++) {
		uint64_t base = (uintptr_t)ext->iov[i].iov_base;

		if ((uintptr_t)addr - base < ext->iov[i].iov_len)
			return segment_piece(ext, i, base, (uintptr_t)addr - base, len);
	}
	return sw_host_piece(addr, len); /* an empty buffer, somewhere */
}

enum hmreg_error sw_local_piece(const struct nic_domain *domain, void *addr, size_t len,
				const struct nic_region *region, struct sw_piece *piece)
{
	struct hmem_memory memory;

	if (region) {
		*piece = piece_of_region(region, addr, len);
		return HMREG_OK;
	}
	*piece = sw_host_piece(addr, len);
	if (len == 0 || !(domain->caps & FI_HMEM))
		return HMREG_OK;
	if (hmem_classify(addr, len, &memory) != 0)
		return HMREG_FAULT;
	if (memory.ways & HMEM_WAY_HOST)
		return HMREG_OK;
	piece->iface = memory.iface;
	piece->device = memory.device;
	return HMREG_OK;
}

enum hmreg_error sw_pieces(const struct nic_domain *domain, const struct nic_seg *seg,
			   uint32_t count, struct sw_piece *piece)
{
	enum hmreg_error why = HMREG_OK;

	for (uint32_t i = 0; i < count && why == HMREG_OK; i++)
		why = sw_local_piece(domain, seg[i].addr, seg[i].len, seg[i].region, &piece[i]);
	return why;
}

bool sw_readable(const struct sw_piece *piece, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (piece[i].len > 0 && piece[i].device == HMEM_NO_DEVICE &&
		    hm_guard_probe(piece[i].at, piece[i].len, false) != 0)
			return false;
	return true;
}

/* ---- copies ---- */

struct sw_piece sw_cursor_at(struct sw_cursor *cursor, size_t *len)
{
	const struct sw_piece *piece = &cursor->piece[cursor->at];

	while (cursor->offset == piece->len) {
		piece = &cursor->piece[++cursor->at];
		cursor->offset = 0;
	}
	if (*len > piece->len - cursor->offset)
		*len = piece->len - cursor->offset;
	return (struct sw_piece){ piece->at + cursor->offset, *len, piece->iface, piece->device,
				  piece->place };
}

/* FN-29: memory that was freed under its region, and its address given to another. */
static bool is_other(const struct sw_piece *piece)
{
	const struct nic_place *place = piece->place;

	if (piece->device == HMEM_NO_DEVICE || !place)
		return false;
	for (; place; place = place->base) { /* either may have been refreshed */
		uint64_t id = atomic_load(&((struct nic_place *)place)->id);

		if (id == 0 || hmem_is_still(piece->iface, piece->at, id))
			return false;
	}
	HM_INFO(FI_LOG_EP_DATA, "the memory at %p was freed after it was registered",
		(void *)piece->at);
	return true;
}

static enum hmreg_error copy_piece(const struct sw_piece *to, const struct sw_piece *from,
				   size_t len)
{
	struct hmem_place dst = { to->at, to->iface, to->device };
	struct hmem_place src = { from->at, from->iface, from->device };
	int ret;

	if (to->device == HMEM_NO_DEVICE && from->device == HMEM_NO_DEVICE)
		return hm_guard_copy(to->at, from->at, len) == 0 ? HMREG_OK : HMREG_FAULT;
	if (is_other(to) || is_other(from))
		return HMREG_FAULT;
	ret = hmem_copy(&dst, &src, len);
	if (ret == 0)
		return HMREG_OK;
	return ret == -FI_EFAULT ? HMREG_FAULT : HMREG_MEMORY;
}

enum hmreg_error sw_copy(struct sw_cursor *dst, struct sw_cursor *src, size_t len)
{
	while (len > 0) {
		size_t n = len;
		struct sw_piece to = sw_cursor_at(dst, &n), from = sw_cursor_at(src, &n);
		enum hmreg_error why = copy_piece(&to, &from, n);

		if (why != HMREG_OK)
			return why;
		dst->offset += n;
		src->offset += n;
		len -= n;
	}
	return HMREG_OK;
}

/* ---- for every NIC ---- */

static int copy_app(const struct nic_domain *domain, void *dst, const void *src, size_t len,
		    const void *app)
{
	struct hmem_place to = { dst, FI_HMEM_SYSTEM, HMEM_NO_DEVICE };
	struct hmem_place from = { (void *)(uintptr_t)src, FI_HMEM_SYSTEM, HMEM_NO_DEVICE };
	struct hmem_place *place = app == dst ? &to : &from;
	struct hmem_memory memory;
	int ret;

	if (len == 0)
		return 0;
	if (!(domain->caps & FI_HMEM))
		return hm_guard_copy(dst, src, len);
	ret = hmem_classify(app, len, &memory);
	if (ret != 0)
		return ret;
	if (memory.ways & HMEM_WAY_HOST)
		return hm_guard_copy(dst, src, len);
	place->iface = memory.iface;
	place->device = memory.device;
	return hmem_copy(&to, &from, len);
}

int nic_from_app(const struct nic_domain *domain, void *to, const void *app, size_t len)
{
	return copy_app(domain, to, app, len, app);
}

int nic_to_app(const struct nic_domain *domain, void *app, const void *from, size_t len)
{
	return copy_app(domain, app, from, len, app);
}
