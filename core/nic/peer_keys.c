/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Authorization keys of an address vector, fi_av(3).
 *
 * A key's fi_addr_t is its generation and, below that, a number out of those that no address can have: so
 * neither is ever taken for the other, nor a removed key for its successor.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/nic/peer.h"

/* The last number is left out: FI_ADDR_UNSPEC ends in it. */
#define FIRST_NUMBER (UINT32_MAX - NIC_AV_KEYS_MAX)
#define MARKED	     UINT32_MAX

static_assert(NIC_AV_KEYS_MAX < 1u << NIC_AV_CHUNK0_BITS, "the numbers of addresses end before");

int nic_av_keys_init(struct nic_av *av, uint32_t limit)
{
	av->keys = calloc(limit, sizeof(*av->keys));
	if (!av->keys)
		return -FI_ENOMEM;
	av->key_limit = limit;
	return 0;
}

void nic_av_keys_destroy(struct nic_av *av)
{
	for (uint32_t i = 0; i < av->key_limit; i++)
		if (av->keys[i].key)
			hm_auth_key_release(av->keys[i].key);
	free(av->keys);
	av->keys = NULL;
	av->key_limit = 0;
}

/* ---- the lock is held ---- */

static fi_addr_t addr_of(const struct nic_av *av, const struct nic_av_key *slot)
{
	return (uint64_t)slot->generation << 32 | (FIRST_NUMBER + (uint32_t)(slot - av->keys));
}

static struct nic_av_key *slot_of(struct nic_av *av, fi_addr_t addr)
{
	uint32_t at = (uint32_t)addr - FIRST_NUMBER;
	struct nic_av_key *slot = at < av->key_limit ? &av->keys[at] : NULL;

	return slot && slot->key && slot->generation == addr >> 32 ? slot : NULL;
}

/* The slot of this key, or with NULL a free one. */
static struct nic_av_key *find(struct nic_av *av, const struct hm_auth_key *key)
{
	for (uint32_t i = 0; i < av->key_limit; i++)
		if (av->keys[i].key == key)
			return &av->keys[i];
	return NULL;
}

static struct nic_av_key *find_id(struct nic_av *av, uint32_t id)
{
	for (uint32_t i = 0; i < av->key_limit; i++)
		if (av->keys[i].key && hm_auth_key_id(av->keys[i].key) == id)
			return &av->keys[i];
	return NULL;
}

static bool has_addresses(struct nic_av *av, uint32_t id)
{
	uint32_t end = atomic_load_explicit(&av->next, memory_order_relaxed);

	for (uint32_t i = 0; i < end; i++)
		if (nic_peer_key(atomic_load_explicit(&nic_av_slot(av, i)->peer,
						      memory_order_relaxed)) == id)
			return true;
	return false;
}

/* ---- keys ---- */

int nic_av_key_add(struct nic_av *av, const void *bytes, size_t size, fi_addr_t *addr)
{
	struct nic_av_key *slot;
	struct hm_auth_key *key;
	bool taken = false;
	int ret = hm_auth_key_take(bytes, size, &key);

	if (ret != 0) {
		HM_WARN(FI_LOG_AV, "no room for an authorization key: %s", fi_strerror(-ret));
		return ret;
	}
	pthread_mutex_lock(&av->lock);
	slot = find(av, key);
	if (!slot) {
		slot = find(av, NULL);
		taken = slot != NULL;
		if (taken)
			slot->key = key;
	}
	if (slot)
		*addr = addr_of(av, slot);
	pthread_mutex_unlock(&av->lock);
	if (!taken)
		hm_auth_key_release(key);
	if (slot)
		return 0;
	HM_WARN(FI_LOG_AV,
		"the vector has %u authorization keys, as many as it may (max_ep_auth_key)",
		av->key_limit);
	return -FI_ENOSPC;
}

static int check_removal(struct nic_av *av, fi_addr_t addr)
{
	struct nic_av_key *slot = slot_of(av, addr);

	if (!slot || slot->users == MARKED)
		return -FI_EINVAL;
	return slot->users > 0 || has_addresses(av, hm_auth_key_id(slot->key)) ? -FI_EBUSY : 0;
}

int nic_av_keys_remove(struct nic_av *av, const fi_addr_t *addrs, size_t count, size_t *bad)
{
	struct hm_auth_key *removed[NIC_AV_KEYS_MAX];
	size_t checked;
	int ret = 0;

	pthread_mutex_lock(&av->lock);
	for (checked = 0; checked < count; checked++) {
		ret = check_removal(av, addrs[checked]);
		if (ret != 0)
			break;
		slot_of(av, addrs[checked])->users = MARKED;
	}
	for (size_t i = 0; i < checked; i++) {
		struct nic_av_key *slot = slot_of(av, addrs[i]);

		slot->users = 0;
		if (ret != 0)
			continue;
		removed[i] = slot->key;
		slot->key = NULL;
		slot->generation++;
	}
	pthread_mutex_unlock(&av->lock);
	for (size_t i = 0; ret == 0 && i < checked; i++)
		hm_auth_key_release(removed[i]);
	*bad = checked;
	return ret;
}

uint32_t nic_av_key_id(struct nic_av *av, fi_addr_t addr)
{
	struct nic_av_key *slot;
	uint32_t id;

	pthread_mutex_lock(&av->lock);
	slot = slot_of(av, addr);
	id = slot ? hm_auth_key_id(slot->key) : 0;
	pthread_mutex_unlock(&av->lock);
	return id;
}

static int copy_key(struct nic_av *av, fi_addr_t addr, void *bytes, size_t *size)
{
	struct nic_av_key *slot = slot_of(av, addr);
	uint64_t peer = slot ? 0 : nic_av_peer(av, addr);
	const void *key;
	size_t len;

	if (!slot && !peer)
		return -FI_EINVAL;
	if (!slot)
		slot = find_id(av, nic_peer_key(peer));
	if (!slot)
		return -FI_ENOKEY;
	key = hm_auth_key_bytes(slot->key, &len);
	if (*size > 0)
		memcpy(bytes, key, *size < len ? *size : len);
	*size = len;
	return 0;
}

int nic_av_key_copy(struct nic_av *av, fi_addr_t addr, void *bytes, size_t *size)
{
	int ret;

	pthread_mutex_lock(&av->lock);
	ret = copy_key(av, addr, bytes, size);
	pthread_mutex_unlock(&av->lock);
	return ret;
}

int nic_av_add_by_key(struct nic_av *av, uint64_t peer, fi_addr_t key_addr, fi_addr_t *addr)
{
	struct nic_av_key *slot;
	int ret = -FI_EINVAL;

	pthread_mutex_lock(&av->lock);
	slot = slot_of(av, key_addr);
	if (slot && peer) {
		peer |= (uint64_t)hm_auth_key_id(slot->key) << NIC_PEER_KEY_SHIFT;
		ret = nic_av_add_locked(av, peer, addr);
	} else {
		HM_WARN(FI_LOG_AV,
			"fi_addr 0x%lx is not that of an authorization key of the vector",
			(unsigned long)key_addr);
	}
	pthread_mutex_unlock(&av->lock);
	return ret;
}

/* ---- what endpoints and regions have of them ---- */

int nic_av_keys_lend(struct nic_av *av, uint32_t id, struct hm_auth **set)
{
	struct hm_auth_key *keys[NIC_AV_KEYS_MAX];
	uint32_t count = 0;
	int ret = -FI_ENOKEY;

	pthread_mutex_lock(&av->lock);
	for (uint32_t i = 0; i < av->key_limit; i++) {
		struct hm_auth_key *key = av->keys[i].key;

		if (key && (id == 0 || hm_auth_key_id(key) == id))
			keys[count++] = key;
	}
	if (count > 0)
		ret = hm_auth_make(keys, count, set);
	for (uint32_t i = 0; ret == 0 && i < count; i++)
		find(av, keys[i])->users++;
	pthread_mutex_unlock(&av->lock);
	return ret;
}

void nic_av_keys_return(struct nic_av *av, struct hm_auth *set)
{
	if (!set)
		return;
	pthread_mutex_lock(&av->lock);
	for (uint32_t i = 0; i < set->count; i++)
		find(av, set->key[i].key)->users--;
	pthread_mutex_unlock(&av->lock);
	hm_auth_release(set);
}
