/* SPDX-License-Identifier: BSD-2-Clause */
/* Range checks at the ends of the address space, and the intrusive list. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/list.h"
#include "core/base/range.h"

static void range_ok_at_the_edges(void **state)
{
	static const struct {
		uint64_t size, off, len;
		bool ok;
	} cases[] = {
		{ 10, 0, 10, true },
		{ 10, 0, 11, false },
		{ 10, 3, 7, true },
		{ 10, 3, 8, false },
		{ 10, 10, 0, true },
		{ 10, 10, 1, false },
		{ 10, 11, 0, false },
		{ 0, 0, 0, true },
		{ 0, 0, 1, false },
		{ UINT64_MAX, 0, UINT64_MAX, true },
		{ UINT64_MAX, 1, UINT64_MAX, false },
		{ UINT64_MAX, UINT64_MAX, 0, true },
		/* Sums that wrap around to something small. */
		{ 10, UINT64_MAX, 1, false },
		{ 10, 5, UINT64_MAX, false },
		{ 10, UINT64_MAX - 1, 4, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hm_range_ok(cases[i].size, cases[i].off, cases[i].len),
				 cases[i].ok);
}

static void wraps_only_beyond_the_last_byte(void **state)
{
	static const struct {
		uint64_t addr, len;
		bool wraps;
	} cases[] = {
		{ 0, 0, false },
		{ 0, UINT64_MAX, false },
		{ 1, UINT64_MAX, false },
		{ 2, UINT64_MAX, true },
		{ UINT64_MAX, 0, false },
		{ UINT64_MAX, 1, false },
		{ UINT64_MAX, 2, true },
		{ UINT64_MAX - 4095, 4096, false },
		{ UINT64_MAX - 4095, 4097, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hm_wraps(cases[i].addr, cases[i].len), cases[i].wraps);
}

struct item {
	int number;
	struct hm_list link;
};

/* The numbers on the list, as decimal digits; the links must agree in both directions. */
static int digits(struct hm_list *head)
{
	int forward = 0, backward = 0, scale = 1;

	hm_list_for_each(link, head)
	{
		forward = forward * 10 + hm_list_entry(link, struct item, link)->number;
		assert_ptr_equal(link->next->prev, link);
		assert_ptr_equal(link->prev->next, link);
	}
	for (struct hm_list *link = head->prev; link != head; link = link->prev) {
		backward += scale * hm_container(link, struct item, link)->number;
		scale *= 10;
	}
	assert_int_equal(forward, backward);
	return forward;
}

static void list_keeps_order_and_loses_what_is_deleted(void **state)
{
	struct item items[5];
	struct hm_list head;

	(void)state;
	hm_list_init(&head);
	assert_true(hm_list_empty(&head));
	assert_int_equal(digits(&head), 0);
	for (int i = 0; i < 5; i++) {
		items[i].number = i + 1;
		hm_list_add_tail(&head, &items[i].link);
		assert_false(hm_list_empty(&head));
	}
	assert_int_equal(digits(&head), 12345);
	hm_list_del(&items[0].link);
	assert_int_equal(digits(&head), 2345);
	hm_list_del(&items[4].link);
	assert_int_equal(digits(&head), 234);
	hm_list_del(&items[2].link);
	assert_int_equal(digits(&head), 24);
	/* Once more changes nothing. */
	hm_list_del(&items[2].link);
	assert_int_equal(digits(&head), 24);
	hm_list_add_tail(&head, &items[2].link);
	assert_int_equal(digits(&head), 243);
}

static void list_may_lose_the_current_item_while_walked(void **state)
{
	struct item items[6];
	struct hm_list head;
	int seen = 0;

	(void)state;
	hm_list_init(&head);
	for (int i = 0; i < 6; i++) {
		items[i].number = i + 1;
		hm_list_add_tail(&head, &items[i].link);
	}
	hm_list_for_each_safe(link, &head)
	{
		struct item *item = hm_list_entry(link, struct item, link);

		seen++;
		if (item->number % 2) {
			hm_list_del(link);
			link->next = link->prev = NULL;
		}
	}
	assert_int_equal(seen, 6);
	assert_int_equal(digits(&head), 246);
	hm_list_for_each_safe(link, &head)
	{
		hm_list_del(link);
	}
	assert_true(hm_list_empty(&head));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range_ok_at_the_edges),
		cmocka_unit_test(wraps_only_beyond_the_last_byte),
		cmocka_unit_test(list_keeps_order_and_loses_what_is_deleted),
		cmocka_unit_test(list_may_lose_the_current_item_while_walked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
