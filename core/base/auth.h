/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Authorization keys, fi_domain(3): bytes that two endpoints, or an endpoint and a region, must have in
 * common.
 *
 * A key is kept once per process, however many objects have it, and has a number as long as anybody holds
 * it; so accesses compare numbers, and bytes are looked at only where a program gives a key.  Those are
 * compared in a time that depends on their number alone, are never printed, and are wiped when the last
 * holder lets go.
 *
 * Any call may run on any threads at once; a set does not change after it was made.
 */
#ifndef HM_AUTH_BASE_H
#define HM_AUTH_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_ext_hmreg.h>

#define HM_AUTH_ID_BITS 24 /* bits of a key's number, which never is 0 */

/* A key; opaque. */
struct hm_auth_key;

/* size is 1 to HMREG_AUTH_KEY_MAX.  *key is the caller's, to release.  -FI_ENOMEM, -FI_ENOSPC. */
int hm_auth_key_take(const void *bytes, size_t size, struct hm_auth_key **key);
void hm_auth_key_release(struct hm_auth_key *key);
uint32_t hm_auth_key_id(const struct hm_auth_key *key);
/* The bytes themselves, *size of them, for who gave them. */
const void *hm_auth_key_bytes(const struct hm_auth_key *key, size_t *size);
/* Keys that somebody holds. */
size_t hm_auth_key_count(void);

/* The keys of an endpoint or a region: at least one. */
struct hm_auth {
	_Atomic uint32_t references;
	uint32_t count;
	struct {
		uint32_t id;
		struct hm_auth_key *key; /* held */
	} key[];			 /* by rising id */
};

/* A set of these keys, which it holds.  -FI_ENOMEM. */
int hm_auth_make(struct hm_auth_key *const *keys, uint32_t count, struct hm_auth **set);
/* A set of one key, by its bytes.  -FI_ENOMEM, -FI_ENOSPC. */
int hm_auth_make_one(const void *bytes, size_t size, struct hm_auth **set);
/* One reference more; NULL is fine here and below. */
struct hm_auth *hm_auth_hold(struct hm_auth *set);
void hm_auth_release(struct hm_auth *set);
bool hm_auth_has(const struct hm_auth *set, uint32_t id);
/*
 * The lowest key that all three sets have, or 0; mine and theirs are not NULL, limit may be: any key.
 * id not 0: no other key of mine counts.
 */
uint32_t hm_auth_common(const struct hm_auth *mine, uint32_t id, const struct hm_auth *theirs,
			const struct hm_auth *limit);

#endif
