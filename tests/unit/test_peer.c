/* SPDX-License-Identifier: BSD-2-Clause */
/* The core of address vectors: order of indices, re-use, reverse look-up, readers beside writers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include <rdma/fabric.h>

#include "core/nic/peer.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/warnings.h"

enum {
	MANY = 20000,
	MODEL = 700,
	MODEL_STEPS = 20000,
	READ_SLOTS = 8,
	WRITER_STEPS = 60000
};

/* Peer handles that differ in all bytes. */
static uint64_t peer_of(uint64_t i)
{
	return (i + 1) * UINT64_C(0x0123456789abcdef);
}

static uint64_t random_next(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *seed >> 33;
}

static fi_addr_t add(struct nic_av *av, uint64_t peer)
{
	fi_addr_t addr = 0xdead;

	assert_int_equal(nic_av_add(av, peer, &addr), 0);
	assert_int_equal(nic_av_peer(av, addr), peer);
	return addr;
}

/* ---- order ---- */

static void table_counts_from_0(void **state)
{
	struct nic_av av;

	(void)state;
	assert_int_equal(nic_av_init(&av, FI_AV_TABLE, 0), 0);
	for (uint64_t i = 0; i < MANY; i++)
		assert_int_equal(add(&av, peer_of(i)), i);
	for (uint64_t i = 0; i < MANY; i++) {
		assert_int_equal(nic_av_peer(&av, i), peer_of(i));
		assert_int_equal(nic_av_reverse(&av, peer_of(i)), i);
	}
	assert_int_equal(nic_av_peer(&av, MANY), 0);
	assert_int_equal(nic_av_peer(&av, FI_ADDR_NOTAVAIL), 0);
	assert_int_equal(nic_av_peer(&av, UINT64_C(1) << 32), 0);
	assert_int_equal(nic_av_reverse(&av, peer_of(MANY)), FI_ADDR_NOTAVAIL);
	assert_int_equal(nic_av_add(&av, 0, &(fi_addr_t){ 0 }), -FI_EINVAL);
	nic_av_destroy(&av);
}

static void lowest_free_index_comes_first(void **state)
{
	static const fi_addr_t removed[] = { 500, 7, 3, 64, 999 };
	static const fi_addr_t expected[] = { 3, 7, 64, 500, 999, 1000 };
	struct nic_av av;

	(void)state;
	assert_int_equal(nic_av_init(&av, FI_AV_UNSPEC, 1000), 0);
	assert_int_equal(av.type, FI_AV_TABLE);
	for (uint64_t i = 0; i < 1000; i++)
		add(&av, peer_of(i));
	for (size_t i = 0; i < count_of(removed); i++) {
		assert_int_equal(nic_av_remove(&av, removed[i]), 0);
		assert_int_equal(nic_av_peer(&av, removed[i]), 0);
		assert_int_equal(nic_av_remove(&av, removed[i]), -FI_EINVAL);
	}
	for (size_t i = 0; i < count_of(expected); i++)
		assert_int_equal(add(&av, peer_of(5000 + i)), expected[i]);
	nic_av_destroy(&av);
}

/* Random calls against a plain array that does the same by searching. */
static void agrees_with_a_model(void **state)
{
	static uint64_t model[MODEL];
	uint64_t seed = 1;
	struct nic_av av;

	(void)state;
	memset(model, 0, sizeof(model));
	assert_int_equal(nic_av_init(&av, FI_AV_TABLE, 1), 0);
	for (unsigned step = 0; step < MODEL_STEPS; step++) {
		uint64_t peer = peer_of(random_next(&seed) % 200);
		fi_addr_t lowest = FI_ADDR_NOTAVAIL, at = random_next(&seed) % MODEL;
		size_t free_at = 0;

		if (random_next(&seed) % 2) {
			while (free_at < MODEL && model[free_at])
				free_at++;
			if (free_at == MODEL)
				continue;
			assert_int_equal(add(&av, peer), free_at);
			model[free_at] = peer;
		} else {
			assert_int_equal(nic_av_remove(&av, at), model[at] ? 0 : -FI_EINVAL);
			model[at] = 0;
		}
		assert_int_equal(nic_av_peer(&av, at), model[at]);
		for (fi_addr_t i = MODEL; i-- > 0;)
			if (model[i] == peer)
				lowest = i;
		assert_int_equal(nic_av_reverse(&av, peer), lowest);
	}
	nic_av_destroy(&av);
}

/* ---- generations ---- */

static void map_tells_old_addresses_from_new(void **state)
{
	fi_addr_t old, renewed;
	struct nic_av av;

	(void)state;
	assert_int_equal(nic_av_init(&av, FI_AV_MAP, 0), 0);
	old = add(&av, peer_of(1));
	assert_int_equal(nic_av_remove(&av, old), 0);
	renewed = add(&av, peer_of(2));
	assert_int_not_equal(renewed, old);
	assert_int_equal((uint32_t)renewed, (uint32_t)old);
	assert_int_equal(nic_av_peer(&av, old), 0);
	assert_int_equal(nic_av_remove(&av, old), -FI_EINVAL);
	assert_int_equal(nic_av_peer(&av, renewed), peer_of(2));
	assert_int_equal(nic_av_reverse(&av, peer_of(2)), renewed);
	assert_int_equal(nic_av_reverse(&av, peer_of(1)), FI_ADDR_NOTAVAIL);
	nic_av_destroy(&av);
}

static void map_retires_a_used_up_slot(void **state)
{
	struct nic_av av;
	fi_addr_t last;

	(void)state;
	assert_int_equal(nic_av_init(&av, FI_AV_MAP, 0), 0);
	add(&av, peer_of(0));
	atomic_store(&nic_av_slot(&av, 0)->generation, UINT32_MAX);
	last = (fi_addr_t)UINT32_MAX << 32;
	assert_int_equal(nic_av_remove(&av, last), 0);
	assert_int_equal(nic_av_peer(&av, last), 0);
	assert_int_equal((uint32_t)add(&av, peer_of(1)), 1);
	nic_av_destroy(&av);
}

/* ---- removal of many ---- */

static void removal_is_all_or_nothing(void **state)
{
	const fi_addr_t unknown[] = { 0, 1, 4, 2 }, twice[] = { 3, 1, 3 }, fine[] = { 2, 0 };
	struct nic_av av;
	size_t bad = 99;

	(void)state;
	assert_int_equal(nic_av_init(&av, FI_AV_TABLE, 0), 0);
	for (uint64_t i = 0; i < 4; i++)
		add(&av, peer_of(i));
	for (int round = 0; round < 2; round++) {
		assert_int_equal(nic_av_remove_all(&av, unknown, 4, &bad), -FI_EINVAL);
		assert_int_equal(bad, 2);
		assert_int_equal(nic_av_remove_all(&av, twice, 3, &bad), -FI_EINVAL);
		assert_int_equal(bad, 2);
		for (uint64_t i = 0; i < 4; i++)
			assert_int_equal(nic_av_peer(&av, i), peer_of(i));
	}
	assert_int_equal(nic_av_remove_all(&av, fine, 2, &bad), 0);
	assert_int_equal(nic_av_remove_all(&av, NULL, 0, &bad), 0);
	assert_int_equal(add(&av, peer_of(9)), 0);
	nic_av_destroy(&av);
}

/* ---- memory ---- */

static void memory_may_run_out(void **state)
{
	struct nic_av av;
	fi_addr_t addr;
	unsigned refused = 0;
	long before = alloc_live;

	(void)state;
	alloc_fail_at(1);
	assert_int_equal(nic_av_init(&av, FI_AV_TABLE, 0), -FI_ENOMEM);
	assert_true(alloc_failed());
	assert_int_equal(nic_av_init(&av, FI_AV_TABLE, SIZE_MAX), 0);
	nic_av_destroy(&av);
	/* a failure is reported when an entry has no memory, and the next try succeeds */
	assert_int_equal(nic_av_init(&av, FI_AV_TABLE, 0), 0);
	for (uint64_t i = 0; i < 1000; i++) {
		int ret;

		alloc_fail_at(1);
		warning_count = 0;
		ret = nic_av_add(&av, peer_of(i), &addr);
		alloc_failed();
		assert_int_equal(warning_count, ret != 0);
		if (ret) {
			assert_int_equal(ret, -FI_ENOMEM);
			refused++;
			addr = add(&av, peer_of(i));
		}
		assert_int_equal(addr, i);
	}
	assert_int_equal(refused, 5); /* chunks of 64, 128, 256, 512, 1024 */
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(nic_av_reverse(&av, peer_of(i)), i);
	nic_av_destroy(&av);
	assert_int_equal(alloc_live, before);
}

/* ---- readers beside a writer ---- */

/*
 * Each slot's peers carry the whole fi_addr_t that they are entered under, so a reader can tell that
 * it never gets the handle of another.
 */
struct race {
	struct nic_av av;
	_Atomic fi_addr_t current[READ_SLOTS];
	_Atomic bool stop;
	uint64_t reads, wrong;
};

static void *reader(void *arg)
{
	struct race *race = arg;
	uint64_t seed = 7;

	while (!atomic_load_explicit(&race->stop, memory_order_relaxed)) {
		fi_addr_t addr = atomic_load_explicit(
			&race->current[random_next(&seed) % READ_SLOTS], memory_order_acquire);
		uint64_t peer = nic_av_peer(&race->av, addr);

		race->reads++;
		race->wrong += peer != 0 && peer != addr + 1;
	}
	return NULL;
}

static void readers_never_see_the_next_peer(void **state)
{
	static struct race race;
	uint64_t seed = 3;
	pthread_t thread;

	(void)state;
	assert_int_equal(nic_av_init(&race.av, FI_AV_MAP, 0), 0);
	for (uint64_t i = 0; i < READ_SLOTS; i++)
		atomic_init(&race.current[i], add(&race.av, i + 1));
	assert_int_equal(pthread_create(&thread, NULL, reader, &race), 0);
	for (unsigned i = 0; i < WRITER_STEPS; i++) {
		size_t slot = random_next(&seed) % READ_SLOTS;
		fi_addr_t old = atomic_load(&race.current[slot]), renewed;
		fi_addr_t next = old + (UINT64_C(1) << 32);

		assert_int_equal(nic_av_remove(&race.av, old), 0);
		assert_int_equal(nic_av_add(&race.av, next + 1, &renewed), 0);
		assert_int_equal(renewed, next);
		atomic_store_explicit(&race.current[slot], next, memory_order_release);
	}
	atomic_store(&race.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(race.wrong, 0);
	nic_av_destroy(&race.av);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_counts_from_0),
		cmocka_unit_test(lowest_free_index_comes_first),
		cmocka_unit_test(agrees_with_a_model),
		cmocka_unit_test(map_tells_old_addresses_from_new),
		cmocka_unit_test(map_retires_a_used_up_slot),
		cmocka_unit_test(removal_is_all_or_nothing),
		cmocka_unit_test(memory_may_run_out),
		cmocka_unit_test(readers_never_see_the_next_peer),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
