/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays that grow by chunks which never move: the first chunk holds 2^bits entries, each further one
 * twice as many as the one before it.
 */
#ifndef HM_CHUNK_H
#define HM_CHUNK_H

#include <stdint.h>

/* The chunk that holds entry index, and the entry's place in it.  index + 2^bits must not wrap. */
static inline unsigned hm_chunk_of(uint32_t index, unsigned bits, uint32_t *place)
{
	uint32_t n = index + (1u << bits);
	unsigned top = 31u - (unsigned)__builtin_clz(n);

	*place = n - (1u << top);
	return top - bits;
}

#endif
