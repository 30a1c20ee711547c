/* SPDX-License-Identifier: BSD-2-Clause */
/* Authorization keys, each once per process, and sets of them. */
#include "core/base/auth.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/list.h"

#define BUCKETS 64u
#define LAST_ID ((UINT32_C(1) << HM_AUTH_ID_BITS) - 1)

struct hm_auth_key {
	struct hm_list link;
	uint32_t references; /* protected by keys_lock */
	uint32_t id;
	size_t size;
	uint8_t bytes[HMREG_AUTH_KEY_MAX];
};

/* Protects everything here, and the references of keys; innermost. */
static pthread_mutex_t keys_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hm_list buckets[BUCKETS]; /* hm_auth_key; set up when seeded */
static bool seeded, wrapped;
static uint64_t seed;
static uint32_t last_id;
static size_t key_count;

/* ---- keys; keys_lock is held ---- */

/* Without random numbers, who can give keys and measure may find out more about the others': no worse. */
static void set_up(void)
{
	if (seeded)
		return;
	for (unsigned i = 0; i < BUCKETS; i++)
		hm_list_init(&buckets[i]);
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = (uintptr_t)&seed;
	seeded = true;
}

static struct hm_list *bucket_of(const struct hm_auth_key *key)
{
	uint64_t hash = seed;

	for (size_t i = 0; i < key->size; i++) {
		hash = (hash ^ key->bytes[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return &buckets[hash % BUCKETS];
}

/* In a time that the contents do not tell. */
static bool same(const struct hm_auth_key *a, const struct hm_auth_key *b)
{
	uint8_t differences = 0;

	if (a->size != b->size)
		return false;
	for (size_t i = 0; i < a->size; i++)
		differences |= (uint8_t)(a->bytes[i] ^ b->bytes[i]);
	return differences == 0;
}

static struct hm_auth_key *find(const struct hm_auth_key *like)
{
	hm_list_for_each(link, bucket_of(like))
	{
		struct hm_auth_key *key = hm_list_entry(link, struct hm_auth_key, link);

		if (same(key, like))
			return key;
	}
	return NULL;
}

static bool id_in_use(uint32_t id)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		hm_list_for_each(link, &buckets[i])
		{
			if (hm_list_entry(link, struct hm_auth_key, link)->id == id)
				return true;
		}
	}
	return false;
}

/* A number that was not in use for as long as possible; 0: none left. */
static uint32_t next_id(void)
{
	if (key_count >= LAST_ID)
		return 0;
	do {
		wrapped |= last_id == LAST_ID;
		last_id = last_id % LAST_ID + 1;
	} while (wrapped && id_in_use(last_id));
	return last_id;
}

/* ---- keys ---- */

static void wipe(struct hm_auth_key *key)
{
	explicit_bzero(key->bytes, sizeof(key->bytes));
	free(key);
}

int hm_auth_key_take(const void *bytes, size_t size, struct hm_auth_key **out)
{
	struct hm_auth_key *key = calloc(1, sizeof(*key)), *known;
	int ret = 0;

	if (!key)
		return -FI_ENOMEM;
	key->references = 1;
	key->size = size;
	memcpy(key->bytes, bytes, size);
	pthread_mutex_lock(&keys_lock);
	set_up();
	known = find(key);
	if (known) {
		known->references++;
	} else {
		key->id = next_id();
		if (key->id == 0) {
			ret = -FI_ENOSPC;
		} else {
			hm_list_add_tail(bucket_of(key), &key->link);
			key_count++;
		}
	}
	pthread_mutex_unlock(&keys_lock);
	if (known || ret != 0)
		wipe(key);
	if (ret == 0)
		*out = known ? known : key;
	return ret;
}

static struct hm_auth_key *hold_key(struct hm_auth_key *key)
{
	pthread_mutex_lock(&keys_lock);
	key->references++;
	pthread_mutex_unlock(&keys_lock);
	return key;
}

void hm_auth_key_release(struct hm_auth_key *key)
{
	bool last;

	pthread_mutex_lock(&keys_lock);
	last = --key->references == 0;
	if (last) {
		hm_list_del(&key->link);
		key_count--;
	}
	pthread_mutex_unlock(&keys_lock);
	if (last)
		wipe(key);
}

uint32_t hm_auth_key_id(const struct hm_auth_key *key)
{
	return key->id;
}

const void *hm_auth_key_bytes(const struct hm_auth_key *key, size_t *size)
{
	*size = key->size;
	return key->bytes;
}

size_t hm_auth_key_count(void)
{
	size_t count;

	pthread_mutex_lock(&keys_lock);
	count = key_count;
	pthread_mutex_unlock(&keys_lock);
	return count;
}

/* ---- sets ---- */

int hm_auth_make(struct hm_auth_key *const *keys, uint32_t count, struct hm_auth **out)
{
	struct hm_auth *set = malloc(sizeof(*set) + count * sizeof(set->key[0]));

	if (!set)
		return -FI_ENOMEM;
	atomic_init(&set->references, 1);
	set->count = count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = i;

		for (; at > 0 && set->key[at - 1].id > keys[i]->id; at--)
			set->key[at] = set->key[at - 1];
		set->key[at].id = keys[i]->id;
		set->key[at].key = hold_key(keys[i]);
	}
	*out = set;
	return 0;
}

int hm_auth_make_one(const void *bytes, size_t size, struct hm_auth **set)
{
	struct hm_auth_key *key;
	int ret = hm_auth_key_take(bytes, size, &key);

	if (ret != 0)
		return ret;
	ret = hm_auth_make(&key, 1, set);
	hm_auth_key_release(key);
	return ret;
}

struct hm_auth *hm_auth_hold(struct hm_auth *set)
{
	if (set)
		atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
	return set;
}

void hm_auth_release(struct hm_auth *set)
{
	if (!set || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) > 1)
		return;
	for (uint32_t i = 0; i < set->count; i++)
		hm_auth_key_release(set->key[i].key);
	free(set);
}

bool hm_auth_has(const struct hm_auth *set, uint32_t id)
{
	for (uint32_t i = 0; i < set->count && set->key[i].id <= id; i++)
		if (set->key[i].id == id)
			return true;
	return false;
}

uint32_t hm_auth_common(const struct hm_auth *mine, uint32_t id, const struct hm_auth *theirs,
			const struct hm_auth *limit)
{
	for (uint32_t i = 0; i < mine->count; i++) {
		uint32_t one = mine->key[i].id;

		if ((id == 0 || id == one) && hm_auth_has(theirs, one) &&
		    (!limit || hm_auth_has(limit, one)))
			return one;
	}
	return 0;
}
