/* SPDX-License-Identifier: BSD-2-Clause */
/* The key table's index by user key, for key_table.c alone; key_table.h explains both. */
#ifndef HM_KEY_INDEX_H
#define HM_KEY_INDEX_H

#include "core/base/key_table.h"

/* The entry points that an empty stripe has in itself; and the end of those it was given since. */
void hm_key_index_init(struct hm_key_table *table, struct hm_key_stripe *stripe);
void hm_key_index_destroy(struct hm_key_stripe *stripe);

/* Enter the node under key.  -FI_ENOKEY: another one has it.  Takes the lock of the key's stripe. */
int hm_key_index_enter(struct hm_key_table *table, struct hm_key_node *node, uint64_t key);
/* Take the node out; likewise. */
void hm_key_index_leave(struct hm_key_table *table, struct hm_key_node *node);

/* Every bit of the result depends on every bit of x. */
static inline uint64_t hm_key_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	x ^= x >> 33;
	return x;
}

#endif
