/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts of those who use an object; an object in use is not closed. */
#ifndef HM_USE_H
#define HM_USE_H

#include <stdatomic.h>
#include <stdint.h>

static inline void hm_use(_Atomic uint32_t *users)
{
	atomic_fetch_add_explicit(users, 1, memory_order_relaxed);
}

static inline void hm_unuse(_Atomic uint32_t *users)
{
	atomic_fetch_sub_explicit(users, 1, memory_order_release);
}

#endif
