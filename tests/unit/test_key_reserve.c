/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the key table that is made ready ahead (hm_key_reserve): ATTR-06. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/key_table.h"
#include "tests/unit/alloc_fail.h"

#define MOST 3000

static struct hm_key_table *make(size_t capacity, bool user_keys)
{
	struct hm_key_table *table = aligned_alloc(64, (sizeof(*table) + 63) & ~(size_t)63);

	assert_non_null(table);
	assert_int_equal(
		hm_key_table_init(table, sizeof(struct hm_key_node), 0, capacity, user_keys), 0);
	return table;
}

static void destroy(struct hm_key_table *table)
{
	hm_key_table_destroy(table);
	free(table);
}

/* Takes so many elements and counts the allocations that it took. */
static unsigned take(struct hm_key_table *table, size_t count)
{
	static struct hm_key_node *node[MOST];
	static uint64_t key;
	unsigned calls;

	assert_true(count <= MOST);
	alloc_fail_at(0);
	for (size_t i = 0; i < count; i++) {
		void *element;

		key++;
		assert_int_equal(hm_key_alloc(table, 0, table->user_keys ? &key : NULL, &element),
				 0);
		node[i] = element;
	}
	calls = alloc_calls;
	for (size_t i = 0; i < count; i++)
		hm_key_free(table, node[i], 0);
	return calls;
}

static void attr_06_taking_asks_for_nothing(void **state)
{
	static const size_t counts[] = { 1, 32, 33, 64, 65, 100, 1000, MOST };

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(counts) / sizeof(counts[0]); i++) {
		struct hm_key_table *table = make(100000, i % 2);
		size_t count = counts[i / 2];

		hm_key_reserve(table, count);
		assert_int_equal(take(table, count), 0);
		destroy(table);
		/* without the hint it is asked for on the way */
		table = make(100000, i % 2);
		assert_true(take(table, count) > 0);
		destroy(table);
	}
}

/* Beside what is in use already, and again when there is enough: nothing. */
static void attr_06_on_top_of_others(void **state)
{
	struct hm_key_table *table = make(100000, true);
	void *held;

	(void)state;
	for (uint64_t key = 1; key <= 200; key++)
		assert_int_equal(hm_key_alloc(table, 0, &(uint64_t){ key << 32 }, &held), 0);
	hm_key_reserve(table, 1000);
	assert_int_equal(take(table, 1000), 0);
	alloc_fail_at(0);
	hm_key_reserve(table, 100);
	assert_int_equal(alloc_calls, 0);
	destroy(table);
}

static size_t elements_ready(const struct hm_key_table *table)
{
	size_t sum = 0;

	for (unsigned i = 0; i < HM_KEY_CHUNKS; i++)
		if (table->chunk_raw[i])
			sum += (size_t)1 << (i + HM_KEY_CHUNK0_BITS);
	return sum;
}

/* A hint beyond all sense costs what the most sensible one does, however often it comes. */
static void attr_06_absurd_hints(void **state)
{
	static const size_t hints[] = { HM_KEY_RESERVE_MOST,	HM_KEY_RESERVE_MOST + 1, UINT32_MAX,
					(size_t)UINT32_MAX + 1, SIZE_MAX - 31,		 SIZE_MAX };
	struct hm_key_table *table = make(HM_KEY_CAPACITY_MAX, true);

	(void)state;
	for (unsigned i = 0; i < 10 * sizeof(hints) / sizeof(hints[0]); i++)
		hm_key_reserve(table, hints[i / 10]);
	assert_true(elements_ready(table) >= HM_KEY_RESERVE_MOST);
	assert_true(elements_ready(table) <= 2 * HM_KEY_RESERVE_MOST);
	assert_int_equal(take(table, MOST), 0);
	destroy(table);
}

/* Of a small table it gets what is left; of a full one nothing. */
static void attr_06_capacity_stays(void **state)
{
	struct hm_key_table *table = make(100, false);
	void *element;

	(void)state;
	hm_key_reserve(table, SIZE_MAX);
	assert_true(elements_ready(table) < 256);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(hm_key_alloc(table, 0, NULL, &element), 0);
	hm_key_reserve(table, 1);
	assert_int_not_equal(hm_key_alloc(table, 0, NULL, &element), 0);
	destroy(table);
}

/* No memory for it now: nothing is lost but the readiness. */
static void attr_06_api_20_no_memory(void **state)
{
	unsigned call = 1;
	bool came = true;

	(void)state;
	for (; came; call++) {
		struct hm_key_table *table = make(100000, true);
		long before = alloc_live;

		alloc_fail_at(call);
		hm_key_reserve(table, 1000);
		came = alloc_failed();
		assert_true(alloc_live >= before);
		take(table, 1000);
		destroy(table);
	}
	assert_true(call > 8); /* five chunks with their links */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attr_06_taking_asks_for_nothing),
		cmocka_unit_test(attr_06_on_top_of_others),
		cmocka_unit_test(attr_06_absurd_hints),
		cmocka_unit_test(attr_06_capacity_stays),
		cmocka_unit_test(attr_06_api_20_no_memory),
	};

	return cmocka_run_group_tests_name("test_key_reserve", tests, NULL, NULL);
}
