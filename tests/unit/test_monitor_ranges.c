/* SPDX-License-Identifier: BSD-2-Clause */
/* Counted ranges, beside one count for each page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/mr/monitor_ranges.h"

#define PAGES  512
#define RANGES 200
#define ROUNDS 20000
#define BASE   UINT64_C(0x7f0000000000)
#define AT(n)  (BASE + (uint64_t)(n)*4096)
#define SEEDS  8

static unsigned page_count[PAGES];
static bool page_gone[PAGES];

static void page_is_gone(uint64_t begin, uint64_t end)
{
	assert_true(begin < end);
	for (uint64_t p = (begin - BASE) / 4096; p < (end - BASE) / 4096; p++) {
		assert_false(page_gone[p]);
		page_gone[p] = true;
	}
}

static void remove_checked(struct hm_ranges *ranges, unsigned from, unsigned to)
{
	for (unsigned p = 0; p < PAGES; p++)
		page_gone[p] = false;
	hm_ranges_remove(ranges, AT(from), AT(to), page_is_gone);
	for (unsigned p = 0; p < PAGES; p++) {
		if (p >= from && p < to)
			page_count[p]--;
		assert_int_equal(page_gone[p], p >= from && p < to && page_count[p] == 0);
	}
}

static void cache_02_exactly_what_nothing_covers_is_gone(void **state)
{
	struct {
		unsigned from, to;
	} kept[RANGES];
	struct hm_ranges ranges;

	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		unsigned count = 0;

		srand(seed);
		assert_int_equal(hm_ranges_init(&ranges), 0);
		for (int round = 0; round < ROUNDS; round++) {
			unsigned longest = round % 3 == 0 ? PAGES : 6;

			if (count < RANGES && rand() % 2) {
				unsigned from = (unsigned)rand() % PAGES;
				unsigned len = 1 + (unsigned)rand() % longest;

				kept[count].from = from;
				kept[count].to = from + len > PAGES ? PAGES : from + len;
				assert_int_equal(
					hm_ranges_add(&ranges, AT(from), AT(kept[count].to)), 0);
				for (unsigned p = from; p < kept[count].to; p++)
					page_count[p]++;
				count++;
			} else if (count > 0) {
				unsigned n = (unsigned)rand() % count;

				remove_checked(&ranges, kept[n].from, kept[n].to);
				kept[n] = kept[--count];
			}
		}
		while (count-- > 0)
			remove_checked(&ranges, kept[count].from, kept[count].to);
		assert_int_equal(ranges.root, 0);
		hm_ranges_destroy(&ranges);
	}
}

/* Uses of parts of a long range leave no pieces behind. */
static void cache_02_pieces_are_mended(void **state)
{
	struct hm_ranges ranges;
	uint32_t used = 0;

	(void)state;
	assert_int_equal(hm_ranges_init(&ranges), 0);
	assert_int_equal(hm_ranges_add(&ranges, AT(0), AT(1 << 20)), 0);
	for (unsigned n = 0; n < 100000; n++) {
		assert_int_equal(hm_ranges_add(&ranges, AT(n), AT(n + 3)), 0);
		hm_ranges_remove(&ranges, AT(n), AT(n + 3), page_is_gone);
		if (n == 1)
			used = ranges.used;
	}
	assert_int_equal(ranges.used, used);
	hm_ranges_destroy(&ranges);
}

static void cache_02_too_many_pieces_change_nothing(void **state)
{
	struct hm_ranges ranges;
	uint64_t n = 0;

	(void)state;
	assert_int_equal(hm_ranges_init(&ranges), 0);
	while (hm_ranges_add(&ranges, AT(2 * n), AT(2 * n + 1)) == 0)
		n++;
	assert_true(n > 1000000);
	/* Needs a piece for each hole. */
	assert_int_not_equal(hm_ranges_add(&ranges, AT(0), AT(100)), 0);
	for (unsigned p = 0; p < 50; p++) {
		page_count[2 * p] = 1;
		remove_checked(&ranges, 2 * p, 2 * p + 1);
	}
	assert_int_equal(hm_ranges_add(&ranges, AT(0), AT(100)), 0);
	hm_ranges_destroy(&ranges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_02_exactly_what_nothing_covers_is_gone),
		cmocka_unit_test(cache_02_pieces_are_mended),
		cmocka_unit_test(cache_02_too_many_pieces_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
