/* SPDX-License-Identifier: BSD-2-Clause */
/* The key table: handles, user keys, re-use, limits, and readers against writers. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "core/base/key_table.h"

struct element {
	uint64_t before;
	struct hm_key_node node;
	_Atomic uint64_t value;
};

static struct hm_key_table *make(size_t capacity, bool user_keys)
{
	struct hm_key_table *table = aligned_alloc(64, (sizeof(*table) + 63) & ~(size_t)63);

	assert_non_null(table);
	assert_int_equal(hm_key_table_init(table, sizeof(struct element),
					   offsetof(struct element, node), capacity, user_keys),
			 0);
	return table;
}

static void destroy(struct hm_key_table *table)
{
	uint64_t left, bytes;

	hm_key_count(table, &left, &bytes);
	assert_int_equal(left, 0);
	assert_int_equal(bytes, 0);
	hm_key_table_destroy(table);
	free(table);
}

static struct element *take(struct hm_key_table *table)
{
	void *e = NULL;

	assert_int_equal(hm_key_alloc(table, 10, NULL, &e), 0);
	return e;
}

static struct element *take_key(struct hm_key_table *table, uint64_t key)
{
	void *e = NULL;

	assert_int_equal(hm_key_alloc(table, 10, &key, &e), 0);
	return e;
}

static void give_back(struct hm_key_table *table, struct element *e)
{
	assert_true(hm_key_kill(&e->node));
	hm_key_free(table, &e->node, 10);
}

static void handle_lives_from_publish_to_kill(void **state)
{
	struct hm_key_table *table = make(100, false);
	struct element *e = take(table);
	uint64_t handle = hm_key_handle(&e->node);

	(void)state;
	assert_int_not_equal(handle, 0);
	assert_int_not_equal(handle, FI_KEY_NOTAVAIL);
	assert_null(hm_key_acquire(table, handle));
	assert_false(hm_key_expired(table, handle));
	hm_key_publish(&e->node);
	assert_int_equal(hm_key_handle(&e->node), handle);
	assert_ptr_equal(hm_key_acquire(table, handle), &e->node);
	hm_key_release(&e->node);
	assert_false(hm_key_expired(table, handle));
	give_back(table, e);
	assert_null(hm_key_acquire(table, handle));
	assert_true(hm_key_expired(table, handle));
	assert_false(hm_key_kill(&e->node));
	destroy(table);
}

/* MODE-07 and "never confuses a re-used slot with its old key" */
static void mode_07_reused_slot_never_answers_to_old_handle(void **state)
{
	struct hm_key_table *table = make(1, false); /* one slot, so that it must be used again */
	uint64_t old[200];

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct element *e = take(table);

		old[i] = hm_key_handle(&e->node);
		hm_key_publish(&e->node);
		for (int k = 0; k < i; k++) {
			assert_int_not_equal(old[k], old[i]);
			assert_null(hm_key_acquire(table, old[k]));
			assert_true(hm_key_expired(table, old[k]));
		}
		assert_non_null(hm_key_acquire(table, old[i]));
		hm_key_release(&e->node);
		give_back(table, e);
	}
	destroy(table);
}

/* A slot whose generations are used up is not taken again. */
static void slot_retires_at_its_last_generation(void **state)
{
	struct hm_key_table *table = make(1, false);
	struct element *e = take(table);
	void *none = NULL;
	uint64_t last = (UINT64_C(1) << HM_KEY_GEN_BITS) - 2;

	(void)state;
	atomic_store(&e->node.word, (last - 1) << HM_KEY_SLOT_BITS);
	hm_key_publish(&e->node);
	assert_int_equal(hm_key_handle(&e->node) >> HM_KEY_SLOT_BITS, last);
	assert_int_not_equal(hm_key_handle(&e->node), FI_KEY_NOTAVAIL);
	give_back(table, e);
	assert_int_equal(hm_key_alloc(table, 0, NULL, &none), -FI_ENOSPC);
	assert_null(none);
	destroy(table);
}

static void two_tables_do_not_share_handles(void **state)
{
	struct hm_key_table *a = make(100, false), *b = make(100, false);
	struct element *x = take(a), *y = take(b);

	(void)state;
	hm_key_publish(&x->node);
	hm_key_publish(&y->node);
	assert_null(hm_key_acquire(b, hm_key_handle(&x->node)));
	assert_null(hm_key_acquire(a, hm_key_handle(&y->node)));
	give_back(a, x);
	give_back(b, y);
	destroy(a);
	destroy(b);
}

static void made_up_handles_find_nothing(void **state)
{
	struct hm_key_table *table = make(1000, true);
	struct element *e = take(table);
	static const uint64_t handles[] = {
		0,	   1,	      UINT64_MAX,	 UINT64_MAX - 1,
		0x1ffffff, 0x1fffffe, UINT64_C(1) << 25, UINT64_C(1) << 63
	};

	(void)state;
	hm_key_publish(&e->node);
	for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
		assert_null(hm_key_acquire(table, handles[i]));
		assert_false(hm_key_expired(table, handles[i]));
		assert_null(hm_key_find(table, handles[i]));
	}
	/* all slots of the handle's generation */
	for (uint64_t slot = 1; slot < 2000; slot++)
		assert_null(hm_key_acquire(table, hm_key_handle(&e->node) + slot));
	give_back(table, e);
	destroy(table);
}

static void capacity_is_reached_exactly(void **state)
{
	static const size_t capacities[] = { 1, 31, 32, 33, 64, 1000 };

	(void)state;
	for (size_t c = 0; c < sizeof(capacities) / sizeof(capacities[0]); c++) {
		size_t capacity = capacities[c];
		struct hm_key_table *table = make(capacity, true);
		struct element **e = calloc(capacity, sizeof(*e));
		void *none = NULL;
		uint64_t live, bytes;

		for (size_t i = 0; i < capacity; i++) {
			e[i] = take_key(table, i);
			hm_key_publish(&e[i]->node);
		}
		assert_int_equal(hm_key_alloc(table, 1, NULL, &none), -FI_ENOSPC);
		hm_key_count(table, &live, &bytes);
		assert_int_equal(live, capacity);
		assert_int_equal(bytes, 10 * capacity);
		for (size_t i = 0; i < capacity; i++) {
			give_back(table, e[i]);
		}
		free(e);
		destroy(table);
	}
}

static void init_refuses_impossible_capacities(void **state)
{
	struct hm_key_table *table = aligned_alloc(64, (sizeof(*table) + 63) & ~(size_t)63);

	(void)state;
	assert_int_equal(hm_key_table_init(table, 64, 0, 0, false), -FI_EINVAL);
	assert_int_equal(hm_key_table_init(table, 64, 0, (size_t)HM_KEY_CAPACITY_MAX + 1, false),
			 -FI_EINVAL);
	free(table);
}

/* ---- user keys ---- */

static uint64_t spread(uint64_t i)
{
	return i * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t plain(uint64_t i)
{
	return i;
}

static uint64_t high(uint64_t i)
{
	return i << 40;
}

/* MODE-07: a key in use is -FI_ENOKEY; every key that is in is found, no other is. */
static void keys_are_found(uint64_t (*key)(uint64_t), size_t count)
{
	struct hm_key_table *table = make(count, true);
	struct element **e = calloc(count, sizeof(*e));

	assert_non_null(e);
	for (size_t i = 0; i < count; i++) {
		e[i] = take_key(table, key(i));
		assert_null(hm_key_find(table, key(i)));
		hm_key_publish(&e[i]->node);
	}
	for (size_t i = 0; i < count; i++) {
		struct hm_key_node *node = hm_key_find(table, key(i));

		assert_ptr_equal(node, &e[i]->node);
		hm_key_release(node);
		assert_null(hm_key_find(table, key(count + i)));
	}
	for (size_t i = 0; i < count; i += 2) {
		assert_true(hm_key_kill(&e[i]->node));
		assert_null(hm_key_find(table, key(i)));
		hm_key_free(table, &e[i]->node, 10);
	}
	for (size_t i = 0; i < count; i++) {
		struct hm_key_node *node = hm_key_find(table, key(i));

		assert_true((node != NULL) == (i % 2 == 1));
		if (node)
			hm_key_release(node);
	}
	for (size_t i = 0; i < count; i += 2) { /* taken ones are refused, freed ones are not */
		uint64_t taken = key(i + 1);
		void *none = NULL;

		if (i + 1 < count)
			assert_int_equal(hm_key_alloc(table, 10, &taken, &none), -FI_ENOKEY);
		assert_null(none);
		e[i] = take_key(table, key(i));
		hm_key_publish(&e[i]->node);
	}
	for (size_t i = 0; i < count; i++) {
		assert_true(hm_key_kill(&e[i]->node));
		hm_key_free(table, &e[i]->node, 10);
	}
	free(e);
	destroy(table);
}

static void mode_07_user_keys_spread(void **state)
{
	(void)state;
	keys_are_found(spread, 100000);
}

static void mode_07_user_keys_in_order(void **state)
{
	(void)state;
	keys_are_found(plain, 100000);
}

static void mode_07_user_keys_in_high_bits(void **state)
{
	(void)state;
	keys_are_found(high, 20000);
}

/* ---- readers against writers ---- */

#define SHARED_KEYS 64
#define CHURN_KEYS  512

struct race {
	_Atomic unsigned failures; /* CMocka's asserts belong to the main thread */
	struct hm_key_table *table;
	_Atomic bool stop;
	_Atomic uint64_t handles[CHURN_KEYS];
	unsigned writer;
};

/* Keys that stay must be found at every moment, whatever comes and goes around them. */
static void *find_stable(void *arg)
{
	struct race *race = arg;
	uint64_t rounds = 0;

	while (!atomic_load(&race->stop)) {
		uint64_t key = spread(1 + rounds++ % SHARED_KEYS);
		struct hm_key_node *node = hm_key_find(race->table, key);
		struct element *e;

		if (!node) {
			race->failures++;
			continue;
		}
		e = (struct element *)((char *)node - offsetof(struct element, node));
		race->failures += atomic_load(&e->value) != key;
		hm_key_release(node);
	}
	return (void *)(uintptr_t)(rounds > 0);
}

/* Whatever a key or a handle finds while elements change hands is the element of that very key. */
static void *find_churning(void *arg)
{
	struct race *race = arg;
	uint64_t found = 0, i = 0;

	while (!atomic_load(&race->stop)) {
		uint64_t key = 1 + i++ % (2 * CHURN_KEYS);
		uint64_t handle = atomic_load(&race->handles[i % CHURN_KEYS]);
		struct hm_key_node *node = hm_key_find(race->table, key);

		if (node) {
			struct element *e =
				(struct element *)((char *)node - offsetof(struct element, node));

			race->failures += atomic_load(&e->value) != key;
			hm_key_release(node);
			found++;
		}
		node = hm_key_acquire(race->table, handle);
		if (node) {
			/* the element may be dying, but is of this generation while it is held */
			race->failures += (atomic_load(&node->word) ^ handle) >> HM_KEY_SLOT_BITS !=
					  0;
			hm_key_release(node);
		}
	}
	return (void *)(uintptr_t)(found > 0);
}

static void *churn(void *arg)
{
	struct race *race = arg;
	struct element *held[CHURN_KEYS] = { NULL };
	uint64_t base = 1 + (uint64_t)race->writer * CHURN_KEYS, rounds = 0;

	while (!atomic_load(&race->stop)) {
		unsigned i = (unsigned)(spread(rounds++) >> 40) % CHURN_KEYS;

		if (held[i]) {
			race->failures += !hm_key_kill(&held[i]->node);
			/* nobody may hold it now: the old value must be out of everybody's sight */
			atomic_store(&held[i]->value, UINT64_MAX);
			hm_key_free(race->table, &held[i]->node, 10);
			held[i] = NULL;
		} else {
			uint64_t key = base + i;
			void *e = NULL;

			race->failures += hm_key_alloc(race->table, 10, &key, &e) != 0;
			held[i] = e;
			atomic_store(&held[i]->value, base + i);
			atomic_store(&race->handles[i], hm_key_handle(&held[i]->node));
			hm_key_publish(&held[i]->node);
		}
	}
	for (unsigned i = 0; i < CHURN_KEYS; i++) {
		if (!held[i])
			continue;
		race->failures += !hm_key_kill(&held[i]->node);
		hm_key_free(race->table, &held[i]->node, 10);
	}
	return (void *)(uintptr_t)(rounds > 0);
}

static void api_19_readers_never_miss_or_confuse(void **state)
{
	struct hm_key_table *table = make(100000, true);
	struct race race[2] = { { .table = table, .writer = 0 }, { .table = table, .writer = 1 } };
	struct element *stable[SHARED_KEYS];
	pthread_t thread[6];
	void *(*const work[6])(void *) = { find_stable,	  find_stable, find_churning,
					   find_churning, churn,       churn };

	(void)state;
	for (unsigned i = 0; i < SHARED_KEYS; i++) {
		stable[i] = take_key(table, spread(1 + i));
		atomic_store(&stable[i]->value, spread(1 + i));
		hm_key_publish(&stable[i]->node);
	}
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, work[i], &race[i % 2]), 0);
	nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	atomic_store(&race[0].stop, true);
	atomic_store(&race[1].stop, true);
	for (unsigned i = 0; i < 6; i++) {
		void *worked = NULL;

		pthread_join(thread[i], &worked);
		assert_non_null(worked);
	}
	assert_int_equal(race[0].failures + race[1].failures, 0);
	for (unsigned i = 0; i < SHARED_KEYS; i++) {
		assert_true(hm_key_kill(&stable[i]->node));
		hm_key_free(table, &stable[i]->node, 10);
	}
	destroy(table);
}

/* kill returns only when the last reader has let go */
struct waiting {
	struct hm_key_node *node;
	_Atomic bool released;
};

static void *release_later(void *arg)
{
	struct waiting *w = arg;

	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	atomic_store(&w->released, true);
	hm_key_release(w->node);
	return NULL;
}

static void api_07_kill_waits_for_references(void **state)
{
	struct hm_key_table *table = make(10, false);
	struct element *e = take(table);
	struct waiting w = { .node = &e->node };
	pthread_t thread;

	(void)state;
	hm_key_publish(&e->node);
	assert_non_null(hm_key_acquire(table, hm_key_handle(&e->node)));
	assert_int_equal(pthread_create(&thread, NULL, release_later, &w), 0);
	assert_true(hm_key_kill(&e->node));
	assert_true(atomic_load(&w.released));
	hm_key_free(table, &e->node, 10);
	pthread_join(thread, NULL);
	destroy(table);
}

/* Slots that one thread frees serve another: memory does not grow with the turnover. */
static void *take_many(void *arg)
{
	struct element **e = arg;
	struct hm_key_table *table = (struct hm_key_table *)e[0];

	for (int i = 1; i <= 1000; i++)
		e[i] = take(table);
	return NULL;
}

static void freed_elsewhere_is_used_again(void **state)
{
	struct hm_key_table *table = make(100000, false);
	struct element *e[1001] = { (struct element *)table };

	(void)state;
	for (int round = 0; round < 40; round++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, take_many, e), 0);
		pthread_join(thread, NULL);
		for (int i = 1; i <= 1000; i++) {
			hm_key_publish(&e[i]->node);
			give_back(table, e[i]);
		}
	}
	/* every stripe may have had the 1000 at once, in batches */
	assert_true(atomic_load(&table->next_slot) <= HM_KEY_STRIPES * 1056);
	destroy(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handle_lives_from_publish_to_kill),
		cmocka_unit_test(mode_07_reused_slot_never_answers_to_old_handle),
		cmocka_unit_test(slot_retires_at_its_last_generation),
		cmocka_unit_test(two_tables_do_not_share_handles),
		cmocka_unit_test(made_up_handles_find_nothing),
		cmocka_unit_test(capacity_is_reached_exactly),
		cmocka_unit_test(init_refuses_impossible_capacities),
		cmocka_unit_test(mode_07_user_keys_spread),
		cmocka_unit_test(mode_07_user_keys_in_order),
		cmocka_unit_test(mode_07_user_keys_in_high_bits),
		cmocka_unit_test(api_19_readers_never_miss_or_confuse),
		cmocka_unit_test(api_07_kill_waits_for_references),
		cmocka_unit_test(freed_elsewhere_is_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
