/* SPDX-License-Identifier: BSD-2-Clause */
/* The software NIC's copies between lists of memory pieces. */
#include "core/nic/sw.h"
#include "hmem/hmem.h"

size_t sw_region_pieces(const struct nic_region *region, uint64_t offset, uint64_t len,
			struct iovec *piece)
{
	const struct nic_region_ext *ext = region->ext;
	size_t n = 0;

	if (!ext || !ext->iov) {
		piece->iov_base = (void *)(uintptr_t)(region->base + offset);
		piece->iov_len = len;
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
		piece[n].iov_base = (char *)ext->iov[i].iov_base + offset;
		piece[n++].iov_len = have;
		len -= have;
		offset = 0;
	}
	return n;
}

void sw_pieces(const struct nic_seg *seg, uint32_t count, struct iovec *piece)
{
	for (uint32_t i = 0; i < count; i++)
		piece[i] = (struct iovec){seg[i].addr, seg[i].len};
}

bool sw_readable(const struct iovec *piece, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (piece[i].iov_len > 0 &&
		    hmem_system.probe(piece[i].iov_base, piece[i].iov_len) != 0)
			return false;
	return true;
}

static size_t room(struct sw_cursor *cursor)
{
	while (cursor->offset == cursor->iov[cursor->at].iov_len) {
		cursor->at++;
		cursor->offset = 0;
	}
	return cursor->iov[cursor->at].iov_len - cursor->offset;
}

static char *place(const struct sw_cursor *cursor)
{
	return (char *)cursor->iov[cursor->at].iov_base + cursor->offset;
}

int sw_copy(struct sw_cursor *dst, struct sw_cursor *src, size_t len)
{
	while (len > 0) {
		size_t n = room(dst), m = room(src);
		int ret;

		if (n > m)
			n = m;
		if (n > len)
			n = len;
		/* both ends are host memory: no domain offers another interface yet */
		ret = hmem_system.copy(place(dst), place(src), n);
		if (ret != 0)
			return ret;
		dst->offset += n;
		src->offset += n;
		len -= n;
	}
	return 0;
}
