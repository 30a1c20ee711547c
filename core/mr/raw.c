/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw keys.  A domain with FI_MR_RAW gives keys of 16 bytes, little-endian:
 *
 *   0..7   the region's handle
 *   8..13  48 bits that only the domain can tell from the handle
 *   14..15 a check sum, so that a damaged key is told from a foreign one
 *
 * Other domains' raw keys are their 8-byte keys.  Mapping a 16-byte key gives a number that is good
 * in this domain only; mapping an 8-byte key gives the key itself.  Either is counted: who maps a key that
 * is mapped gets the same number, which is good until it was unmapped as often.
 *
 * The table of mapped keys is indexed by the 8-byte key, or by a number that the domain makes of a 16-byte
 * one: it is different in each domain, so that no peer can choose keys whose places are taken.
 */
#include <endian.h>
#include <string.h>
#include <sys/random.h>

#include "core/mr/mr.h"

#define SECRET_BITS 48

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

/* One round of SipHash (Aumasson and Bernstein, 2012). */
static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

int hm_raw_init(struct hm_mr_domain *domain)
{
	ssize_t got = getrandom(domain->raw_seed, sizeof(domain->raw_seed), 0);

	if (got == (ssize_t)sizeof(domain->raw_seed))
		return 0;
	HM_WARN(FI_LOG_MR, "getrandom gave no random numbers, so raw keys could be guessed");
	return -FI_EIO;
}

/* SipHash-2-4 of a number under the domain's seed: who sees some results learns nothing of the next one. */
static uint64_t keyed_hash(const struct hm_mr_domain *domain, uint64_t number)
{
	uint64_t k0 = domain->raw_seed[0], k1 = domain->raw_seed[1];
	uint64_t v[4] = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
			  k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
	const uint64_t words[] = { number, UINT64_C(8) << 56 };

	for (unsigned i = 0; i < 2; i++) {
		v[3] ^= words[i];
		sip_round(v);
		sip_round(v);
		v[0] ^= words[i];
	}
	v[2] ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t hm_raw_secret(const struct hm_mr_domain *domain, uint64_t handle)
{
	return keyed_hash(domain, handle) & ((UINT64_C(1) << SECRET_BITS) - 1);
}

static uint64_t check_sum(uint64_t handle, uint64_t secret)
{
	uint64_t x = (handle ^ secret * 31) * UINT64_C(0x9e3779b97f4a7c15);

	return x >> SECRET_BITS;
}

int hm_mr_raw_attr(struct hm_mr *mr, const struct fi_mr_raw_attr *raw)
{
	struct nic_region *region = &mr->region;
	bool wide = region->domain->mr_mode & FI_MR_RAW;
	size_t need = wide ? NIC_RAW_KEY_SIZE : sizeof(uint64_t), have;
	uint64_t key[2];

	if (!raw || !raw->key_size || (*raw->key_size > 0 && !raw->raw_key)) {
		HM_WARN(FI_LOG_MR, "no key_size, or no buffer of that size");
		return -FI_EINVAL;
	}
	if (raw->flags != 0) {
		HM_WARN(FI_LOG_MR, "flags are 0x%lx and must be 0", (unsigned long)raw->flags);
		return -FI_EBADFLAGS;
	}
	have = *raw->key_size;
	*raw->key_size = need;
	if (have < need) {
		HM_WARN(FI_LOG_MR, "raw key needs %zu bytes, the buffer has %zu", need, have);
		return -FI_ETOOSMALL;
	}
	if (wide) {
		uint64_t handle = hm_key_handle(&region->node), secret = region->ext->secret;

		key[0] = htole64(handle);
		key[1] = htole64(check_sum(handle, secret) << SECRET_BITS | secret);
	} else {
		key[0] = htole64(mr->mr.key);
	}
	memcpy(raw->raw_key, key, need);
	if (raw->base_addr)
		*raw->base_addr = region->domain->mr_mode & FI_MR_VIRT_ADDR ? region->base : 0;
	return 0;
}

static struct nic_mapped_key *mapped_of(struct hm_key_node *node)
{
	return hm_container(node, struct nic_mapped_key, node);
}

static int new_mapping(struct hm_mr_domain *domain, const uint64_t *key,
		       struct nic_mapped_key **out)
{
	void *element;
	int ret = hm_key_alloc(&domain->mapped, 0, key, &element);

	if (ret != 0) {
		HM_WARN(FI_LOG_MR, "no room to map another raw key");
		return ret;
	}
	*out = element;
	(*out)->uses = 1;
	return 0;
}

/* map_lock held, so that a mapping that is found stays. */
static int map_wide(struct hm_mr_domain *domain, const struct fi_mr_map_raw *map)
{
	struct nic_mapped_key *mapped;
	struct hm_key_node *node;
	uint64_t key[2], handle, secret, place;
	int ret;

	memcpy(key, map->raw_key, sizeof(key));
	handle = le64toh(key[0]);
	secret = le64toh(key[1]) & ((UINT64_C(1) << SECRET_BITS) - 1);
	if (check_sum(handle, secret) != le64toh(key[1]) >> SECRET_BITS) {
		HM_WARN(FI_LOG_MR, "malformed raw key");
		return -FI_EINVAL;
	}
	place = keyed_hash(domain, handle ^ rotate(secret, 17) ^ rotate(map->base_addr, 34));
	node = hm_key_find(&domain->mapped, place);
	if (node) {
		mapped = mapped_of(node);
		hm_key_release(node);
		if (mapped->wide && mapped->handle == handle && mapped->secret == secret &&
		    mapped->base_addr == map->base_addr) {
			mapped->uses++;
			*map->key = hm_key_handle(node);
			return 0;
		}
	}
	/* by chance another key has the place: then this mapping is not found again, but works */
	ret = new_mapping(domain, node ? NULL : &place, &mapped);
	if (ret != 0)
		return ret;
	mapped->wide = true;
	mapped->handle = handle;
	mapped->secret = secret;
	mapped->base_addr = map->base_addr;
	*map->key = hm_key_handle(&mapped->node);
	hm_key_publish(&mapped->node);
	return 0;
}

/* Likewise. */
static int map_narrow(struct hm_mr_domain *domain, const struct fi_mr_map_raw *map)
{
	struct nic_mapped_key *mapped;
	struct hm_key_node *node;
	uint64_t key;
	int ret;

	memcpy(&key, map->raw_key, sizeof(key));
	key = le64toh(key);
	if (key == FI_KEY_NOTAVAIL) {
		HM_WARN(FI_LOG_MR, "malformed raw key");
		return -FI_EINVAL;
	}
	node = hm_key_find(&domain->mapped, key);
	if (node) {
		hm_key_release(node);
		if (mapped_of(node)->wide) {
			HM_WARN(FI_LOG_MR, "the place of this key is taken by chance");
			return -FI_ENOKEY;
		}
		mapped_of(node)->uses++;
		*map->key = key;
		return 0;
	}
	ret = new_mapping(domain, &key, &mapped);
	if (ret != 0)
		return ret;
	mapped->wide = false;
	mapped->handle = 0; /* leads to no region, should somebody guess the element's handle */
	hm_key_publish(&mapped->node);
	*map->key = key;
	return 0;
}

int hm_mr_map_raw(struct hm_mr_domain *domain, const struct fi_mr_map_raw *map)
{
	int ret;

	if (!map || !map->raw_key || !map->key) {
		HM_WARN(FI_LOG_MR, "no raw key, or nowhere to put the mapped one");
		return -FI_EINVAL;
	}
	if (map->flags != 0) {
		HM_WARN(FI_LOG_MR, "flags are 0x%lx and must be 0", (unsigned long)map->flags);
		return -FI_EBADFLAGS;
	}
	if (map->key_size != NIC_RAW_KEY_SIZE && map->key_size != sizeof(uint64_t)) {
		HM_WARN(FI_LOG_MR, "a raw key of %zu bytes; they have 8 or 16", map->key_size);
		return -FI_EINVAL;
	}
	pthread_mutex_lock(&domain->map_lock);
	ret = map->key_size == NIC_RAW_KEY_SIZE ? map_wide(domain, map) : map_narrow(domain, map);
	pthread_mutex_unlock(&domain->map_lock);
	return ret;
}

/* The mapping that key was given out for, referenced, or NULL.  map_lock held. */
static struct hm_key_node *find_mapping(struct hm_mr_domain *domain, uint64_t key)
{
	struct hm_key_node *node = hm_key_find(&domain->mapped, key);

	if (node && !mapped_of(node)->wide)
		return node;
	if (node) /* a 16-byte key's place, which nobody was told */
		hm_key_release(node);
	node = hm_key_acquire(&domain->mapped, key);
	if (node && !mapped_of(node)->wide) { /* nor an 8-byte key's handle */
		hm_key_release(node);
		node = NULL;
	}
	return node;
}

int hm_mr_unmap_key(struct hm_mr_domain *domain, const uint64_t *key)
{
	struct hm_key_node *node;
	bool last = false;

	if (!key) {
		HM_WARN(FI_LOG_MR, "no key");
		return -FI_EINVAL;
	}
	pthread_mutex_lock(&domain->map_lock);
	node = find_mapping(domain, *key);
	if (node) {
		last = --mapped_of(node)->uses == 0;
		hm_key_release(node);
	}
	if (last) {
		hm_key_kill(node);
		hm_key_free(&domain->mapped, node, 0);
	}
	pthread_mutex_unlock(&domain->map_lock);
	if (!node) {
		HM_WARN(FI_LOG_MR, "key 0x%lx is not mapped", (unsigned long)*key);
		return -FI_EINVAL;
	}
	return 0;
}
