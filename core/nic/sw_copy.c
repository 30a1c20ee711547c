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
		piece[i] = (struct iovec){ seg[i].addr, seg[i].len };
}

bool sw_readable(const struct iovec *piece, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (piece[i].iov_len > 0 &&
		    hmem_system.probe(piece[i].iov_base, piece[i].iov_len, false) != 0)
			return false;
	return true;
}

void *sw_cursor_at(struct sw_cursor *cursor, size_t *len)
{
	const struct iovec *iov = &cursor->iov[cursor->at];

	while (cursor->offset == iov->iov_len) {
		iov = &cursor->iov[++cursor->at];
		cursor->offset = 0;
	}
	if (*len > iov->iov_len - cursor->offset)
		*len = iov->iov_len - cursor->offset;
	return (char *)iov->iov_base + cursor->offset;
}

int sw_copy(struct sw_cursor *dst, struct sw_cursor *src, size_t len)
{
	while (len > 0) {
		size_t n = len;
		void *to = sw_cursor_at(dst, &n), *from = sw_cursor_at(src, &n);
		/* both ends are host memory: no domain offers another interface yet */
		int ret = hmem_system.copy(to, from, n);

		if (ret != 0)
			return ret;
		dst->offset += n;
		src->offset += n;
		len -= n;
	}
	return 0;
}
