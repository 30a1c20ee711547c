/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges that are changing: a place for each, which a thread takes by one atomic operation that writes
 * the range as well, rounded outwards to fit a word; and a count of those that found no place.
 */
#include <stdatomic.h>

#include "core/base/spin.h"
#include "core/mr/changes.h"

#define PLACES	 64u
#define NO_PLACE PLACES

/*
 * A range, from bit 63: the shift of its unit (6 bits), the number of its first unit (46), how many units
 * (11, not 0), and whether caches are being told.  0: free.
 */
#define PAGE_SHIFT  12u
#define FIRST_BITS  46u
#define COUNT_BITS  11u
#define COUNT_SHIFT 1u
#define FIRST_SHIFT (COUNT_SHIFT + COUNT_BITS)
#define UNIT_SHIFT  (FIRST_SHIFT + FIRST_BITS)
#define TELLING	    UINT64_C(1)
#define MOST_UNITS  ((UINT64_C(1) << COUNT_BITS) - 1)

struct place {
	_Alignas(64) _Atomic uint64_t change;
};

static struct place place[PLACES];
static _Atomic uint32_t used;  /* places that ever were taken: those below it */
static _Atomic uint32_t hints; /* places handed out to threads, to begin at */
static _Atomic uint64_t
	everywhere; /* changes without a place: of any range, for all that is known */
static _Atomic uint64_t telling_more; /* of those, whose caches are being told */

static uint64_t pack(uint64_t begin, uint64_t end)
{
	uint64_t last = end > begin ? end - 1 : begin;
	unsigned shift = PAGE_SHIFT;

	while (begin >> shift >> FIRST_BITS || (last >> shift) - (begin >> shift) >= MOST_UNITS)
		shift++;
	return (uint64_t)(shift - PAGE_SHIFT) << UNIT_SHIFT | begin >> shift << FIRST_SHIFT |
	       ((last >> shift) - (begin >> shift) + 1) << COUNT_SHIFT | TELLING;
}

static bool overlaps(uint64_t change, uint64_t begin, uint64_t end)
{
	unsigned shift = (unsigned)(change >> UNIT_SHIFT) + PAGE_SHIFT;
	uint64_t first = change >> FIRST_SHIFT & ((UINT64_C(1) << FIRST_BITS) - 1);
	uint64_t count = change >> COUNT_SHIFT & MOST_UNITS;

	return begin >> shift < first + count && (end - 1) >> shift >= first;
}

static void raise_used(uint32_t n)
{
	uint32_t now = atomic_load(&used);

	while (now <= n && !atomic_compare_exchange_weak(&used, &now, n + 1))
		;
}

unsigned hm_changes_begin(uint64_t begin, uint64_t end)
{
	static _Thread_local unsigned mine __attribute__((tls_model("initial-exec")));
	uint64_t change = pack(begin, end);

	if (__builtin_expect(mine == 0, 0))
		mine = atomic_fetch_add(&hints, 1) % PLACES + 1;
	for (unsigned i = 0; i < PLACES; i++) {
		unsigned n = (mine - 1 + i) % PLACES;
		uint64_t none = 0;

		if (!atomic_compare_exchange_strong(&place[n].change, &none, change))
			continue;
		if (__builtin_expect(atomic_load(&used) <= n, 0))
			raise_used(n);
		return n;
	}
	atomic_fetch_add(&everywhere, 1);
	atomic_fetch_add(&telling_more, 1);
	return NO_PLACE;
}

void hm_changes_told(unsigned number)
{
	if (number == NO_PLACE)
		atomic_fetch_sub_explicit(&telling_more, 1, memory_order_release);
	else
		atomic_store_explicit(&place[number].change,
				      atomic_load_explicit(&place[number].change,
							   memory_order_relaxed) &
					      ~TELLING,
				      memory_order_release);
}

void hm_changes_end(unsigned number)
{
	if (number == NO_PLACE)
		atomic_fetch_sub_explicit(&everywhere, 1, memory_order_release);
	else
		atomic_store_explicit(&place[number].change, 0, memory_order_release);
}

bool hm_changes_overlap(uint64_t begin, uint64_t end)
{
	uint32_t count = atomic_load(&used);

	for (uint32_t n = 0; n < count; n++) {
		uint64_t change = atomic_load(&place[n].change);

		if (change != 0 && overlaps(change, begin, end))
			return true;
	}
	return atomic_load(&everywhere) != 0;
}

void hm_changes_wait_told(void)
{
	uint32_t count = atomic_load(&used);

	for (uint32_t n = 0; n < count; n++)
		hm_spin_drain(&place[n].change, TELLING);
	hm_spin_drain(&telling_more, UINT64_MAX);
}

void hm_changes_forked(void)
{
	for (uint32_t n = 0; n < PLACES; n++)
		atomic_store(&place[n].change, 0);
	atomic_store(&everywhere, 0);
	atomic_store(&telling_more, 0);
}
