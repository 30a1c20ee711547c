/* SPDX-License-Identifier: BSD-2-Clause */
/* Range checks that cannot overflow, and the one way from a member back to its object. */
#ifndef HM_BASE_RANGE_H
#define HM_BASE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when [off, off + len) lies within an object of size bytes; an empty range may stand at its end. */
static inline bool hm_range_ok(uint64_t size, uint64_t off, uint64_t len)
{
	return off <= size && len <= size - off;
}

/* True when the last byte of [addr, addr + len) would lie beyond the end of the address space. */
static inline bool hm_wraps(uint64_t addr, uint64_t len)
{
	return len != 0 && len - 1 > UINT64_MAX - addr;
}

#define hm_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
