/* SPDX-License-Identifier: BSD-2-Clause */
/* Authorization keys inside: each once per process, sets, and vectors of keys. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "core/base/auth.h"
#include "core/nic/peer.h"
#include "tests/unit/warnings.h"

enum {
	MANY = 300,
	THREADS = 4,
	SHARED = 7,
	ROUNDS = 20000
};

static struct hm_auth_key *take(const char *text)
{
	struct hm_auth_key *key = NULL;

	assert_int_equal(hm_auth_key_take(text, strlen(text), &key), 0);
	return key;
}

static void a_key_is_there_once(void **state)
{
	size_t before = hm_auth_key_count(), size;
	struct hm_auth_key *one = take("one"), *same = take("one"), *two = take("on");

	(void)state;
	assert_ptr_equal(one, same);
	assert_true(two != one);
	assert_true(hm_auth_key_id(one) != hm_auth_key_id(two) && hm_auth_key_id(one) != 0);
	assert_int_equal(hm_auth_key_count(), before + 2);
	assert_memory_equal(hm_auth_key_bytes(two, &size), "on", 2);
	assert_int_equal(size, 2);
	hm_auth_key_release(one);
	assert_ptr_equal(take("one"), same);
	hm_auth_key_release(same);
	hm_auth_key_release(same);
	assert_int_equal(hm_auth_key_count(), before + 1);
	hm_auth_key_release(two);
	assert_int_equal(hm_auth_key_count(), before);
}

static void many_keys_have_many_numbers(void **state)
{
	struct hm_auth_key *key[MANY];
	size_t before = hm_auth_key_count();
	char text[16];

	(void)state;
	for (int i = 0; i < MANY; i++) {
		snprintf(text, sizeof(text), "%d", i);
		key[i] = take(text);
		for (int k = 0; k < i; k++)
			assert_true(hm_auth_key_id(key[k]) != hm_auth_key_id(key[i]));
	}
	assert_int_equal(hm_auth_key_count(), before + MANY);
	for (int i = 0; i < MANY; i++)
		hm_auth_key_release(key[i]);
	assert_int_equal(hm_auth_key_count(), before);
}

/* Sets {0, 1}, {1, 2}, {2} and a limit. */
static void sets_have_keys_in_common(void **state)
{
	struct hm_auth_key *key[3] = { take("a"), take("b"), take("c") };
	struct hm_auth_key *backwards[2] = { key[1], key[0] };
	struct hm_auth *low, *high, *last;
	uint32_t id[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		id[i] = hm_auth_key_id(key[i]);
	assert_int_equal(hm_auth_make(backwards, 2, &low), 0);
	assert_int_equal(hm_auth_make(&key[1], 2, &high), 0);
	assert_int_equal(hm_auth_make_one("c", 1, &last), 0);
	assert_true(low->key[0].id == id[0] && low->key[1].id == id[1]);
	assert_true(hm_auth_has(low, id[0]) && hm_auth_has(low, id[1]) && !hm_auth_has(low, id[2]));
	assert_int_equal(hm_auth_common(low, 0, high, NULL), id[1]);
	assert_int_equal(hm_auth_common(low, id[1], high, NULL), id[1]);
	assert_int_equal(hm_auth_common(low, id[0], high, NULL), 0);
	assert_int_equal(hm_auth_common(low, id[2], high, NULL), 0);
	assert_int_equal(hm_auth_common(low, 0, last, NULL), 0);
	assert_int_equal(hm_auth_common(high, 0, high, NULL), id[1]);
	assert_int_equal(hm_auth_common(high, 0, high, last), id[2]);
	assert_int_equal(hm_auth_common(low, 0, high, last), 0);
	assert_int_equal(hm_auth_common(high, id[1], high, last), 0);
	assert_ptr_equal(hm_auth_hold(low), low);
	hm_auth_release(low);
	for (int i = 0; i < 3; i++)
		hm_auth_key_release(key[i]);
	assert_int_equal(hm_auth_key_count(), 3); /* the sets' */
	hm_auth_release(low);
	hm_auth_release(high);
	hm_auth_release(last);
	hm_auth_release(hm_auth_hold(NULL));
	assert_int_equal(hm_auth_key_count(), 0);
}

/* Keys of a vector are kept while lent, and what takes their place is another. */
static void vectors_lend_keys(void **state)
{
	struct hm_auth *all, *one;
	fi_addr_t key[2], again;
	struct nic_av av;
	size_t bad;

	(void)state;
	assert_int_equal(nic_av_init(&av, FI_AV_TABLE, 0), 0);
	assert_int_equal(nic_av_keys_init(&av, 2), 0);
	assert_int_equal(nic_av_keys_lend(&av, 0, &all), -FI_ENOKEY);
	assert_int_equal(nic_av_key_add(&av, "a", 1, &key[0]), 0);
	assert_int_equal(nic_av_key_add(&av, "b", 1, &key[1]), 0);
	assert_true(nic_av_peer(&av, key[0]) == 0 && nic_av_key_id(&av, 0) == 0);
	assert_int_equal(nic_av_keys_lend(&av, 0, &all), 0);
	assert_int_equal(all->count, 2);
	assert_int_equal(nic_av_keys_lend(&av, nic_av_key_id(&av, key[1]), &one), 0);
	assert_int_equal(one->count, 1);
	assert_int_equal(nic_av_keys_remove(&av, key, 1, &bad), -FI_EBUSY);
	nic_av_keys_return(&av, all);
	assert_int_equal(nic_av_keys_remove(&av, key, 2, &bad), -FI_EBUSY);
	assert_int_equal(bad, 1);
	assert_int_equal(nic_av_keys_remove(&av, key, 1, &bad), 0);
	assert_int_equal(nic_av_keys_remove(&av, key, 1, &bad), -FI_EINVAL);
	assert_int_equal(nic_av_key_add(&av, "a", 1, &again), 0);
	assert_true(again != key[0] && (uint32_t)again == (uint32_t)key[0]);
	assert_refused(nic_av_add_by_key(&av, 5, key[0], &key[0]), -FI_EINVAL);
	assert_int_equal(nic_av_add_by_key(&av, 5, again, &key[0]), 0);
	assert_int_equal(nic_av_peer(&av, key[0]) & NIC_PEER_ADDRESS, 5);
	assert_int_equal(nic_peer_key(nic_av_peer(&av, key[0])), nic_av_key_id(&av, again));
	nic_av_keys_return(&av, one);
	nic_av_keys_return(&av, NULL);
	nic_av_destroy(&av);
	assert_int_equal(hm_auth_key_count(), 0);
}

/* ---- many threads ---- */

/* Takes and drops keys that others have, too; what it holds is never another's. */
static void *take_and_drop(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	struct hm_auth *set;

	for (int i = 0; i < ROUNDS; i++) {
		struct hm_auth_key *key[2];
		size_t size;
		char text[2];

		seed = seed * UINT64_C(6364136223846793005) + 1;
		for (int k = 0; k < 2; k++) {
			text[k] = (char)('a' + (seed >> (33 + 8 * k)) % SHARED);
			if (hm_auth_key_take(&text[k], 1, &key[k]) != 0)
				return "no memory";
		}
		if (hm_auth_make(key, 2, &set) != 0)
			return "no memory";
		for (int k = 0; k < 2; k++) {
			const char *bytes = hm_auth_key_bytes(key[k], &size);

			if (size != 1 || bytes[0] != text[k] ||
			    !hm_auth_has(set, hm_auth_key_id(key[k])))
				return "another's key";
			hm_auth_key_release(key[k]);
		}
		hm_auth_release(set);
	}
	return NULL;
}

static void threads_take_and_drop_keys(void **state)
{
	pthread_t thread[THREADS];
	void *wrong;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_and_drop, (void *)(i + 1)),
				 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	assert_int_equal(hm_auth_key_count(), 0);
}

static struct nic_av shared;

/*
 * Adds, borrows and removes keys of one vector.  What is lent cannot be removed, so that its number keeps
 * leading to it.
 */
static void *lend_and_remove(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct hm_auth *set;
		fi_addr_t addr;
		size_t size = 1, bad;
		char text, found = 0;

		seed = seed * UINT64_C(6364136223846793005) + 1;
		text = (char)('a' + (seed >> 33) % SHARED);
		if (nic_av_key_add(&shared, &text, 1, &addr) != 0)
			return "no room";
		if (nic_av_keys_lend(&shared, nic_av_key_id(&shared, addr), &set) == 0) {
			/* number 0, of one that is gone again, is for all keys */
			if (set->count == 1 && hm_auth_has(set, nic_av_key_id(&shared, addr)) &&
			    (nic_av_key_copy(&shared, addr, &found, &size) != 0 || found != text))
				return "another's key";
			nic_av_keys_return(&shared, set);
		}
		nic_av_keys_remove(&shared, &addr, 1, &bad);
	}
	return NULL;
}

static void threads_lend_and_remove_keys(void **state)
{
	pthread_t thread[THREADS];
	void *wrong;

	(void)state;
	assert_int_equal(nic_av_init(&shared, FI_AV_MAP, 0), 0);
	assert_int_equal(nic_av_keys_init(&shared, SHARED), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, lend_and_remove, (void *)(i + 1)),
				 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	nic_av_destroy(&shared);
	assert_int_equal(hm_auth_key_count(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_there_once),
		cmocka_unit_test(many_keys_have_many_numbers),
		cmocka_unit_test(sets_have_keys_in_common),
		cmocka_unit_test(vectors_lend_keys),
		cmocka_unit_test(threads_take_and_drop_keys),
		cmocka_unit_test(threads_lend_and_remove_keys),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
