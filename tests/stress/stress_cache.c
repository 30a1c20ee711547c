/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registration cache's core over memory that is a table: each page has an age, which changes as a
 * munmap would change the page behind it.  A registration notes the ages of its pages; a hit whose pages
 * have other ages than when it was asked for is stale.  Threads get, put, change, evict and reap, and one
 * looks at the counts all the time.
 *
 * That this can fail is shown by the same threads without invalidation, and without the look at what is
 * changing.
 */
#include "tests/stress/stress.h"

#include "core/mr/cache.h"
#include "core/mr/changes.h"

#define PAGES	  256u
#define PAGE	  UINT64_C(4096)
#define BASE	  UINT64_C(0x7e0000000000)
#define MOST	  8u /* pages of a request */
#define MAX_COUNT 40u
#define MAX_BYTES (120 * PAGE)
#define HOLDS	  4u

enum way {
	AS_IT_IS,
	NO_INVALIDATION, /* changes are made known, and nothing is ended */
	NO_CHANGES	 /* what is kept ends, and changes are not made known */
};

struct registration {
	_Atomic bool live;
	uint64_t begin;
	uint32_t age[MOST];
};

static struct hm_cache cache;
static _Atomic uint32_t age[PAGES];
static enum way way;
static _Atomic bool stop;
static _Atomic uint64_t stale, gets, changes, registered;

/* ---- a NIC ---- */

static void widen(void *context, struct hm_cache_key *key)
{
	(void)context;
	(void)key;
}

static unsigned page_of(uint64_t address)
{
	return (unsigned)((address - BASE) / PAGE);
}

static int add(void *context, const struct hm_cache_key *key, void **data)
{
	static _Thread_local uint64_t random;
	struct registration *r;

	(void)context;
	random = random ? random : (uint64_t)(uintptr_t)&random;
	if (stress_random(&random) % 64 == 0)
		return -FI_ENOMEM;
	if (stress_random(&random) % 256 == 0)
		return -FI_EIO;
	r = malloc(sizeof(*r));
	CHECK(r);
	atomic_init(&r->live, true);
	r->begin = key->begin;
	for (unsigned i = 0; i < (key->end - key->begin) / PAGE; i++) {
		r->age[i] = atomic_load(&age[page_of(key->begin) + i]);
		if (stress_random(&random) % 16 == 0)
			sched_yield();
	}
	atomic_fetch_add(&registered, 1);
	*data = r;
	return 0;
}

static int take_away(void *context, void *data)
{
	static _Atomic uint32_t calls;
	struct registration *r = data;

	(void)context;
	CHECK(atomic_load(&r->live));
	if (atomic_fetch_add(&calls, 1) % 97 == 0)
		return -FI_EBUSY;
	atomic_store(&r->live, false);
	atomic_fetch_sub(&registered, 1);
	free(r);
	return 0;
}

/* ---- threads ---- */

/* Pages change owner as munmap and mmap do it: made known, told, changed, over. */
static void change(uint64_t *random)
{
	unsigned count = 1 + (unsigned)(stress_random(random) % 6);
	unsigned first = (unsigned)(stress_random(random) % (PAGES - count));
	uint64_t begin = BASE + first * PAGE, end = begin + count * PAGE;
	unsigned number = 0;

	if (way != NO_CHANGES)
		number = hm_changes_begin(begin, end);
	if (way != NO_INVALIDATION)
		hm_cache_invalidate(&cache, begin, end);
	if (way != NO_CHANGES)
		hm_changes_told(number);
	if (stress_random(random) % 4 == 0)
		sched_yield();
	for (unsigned i = first; i < first + count; i++)
		atomic_fetch_add(&age[i], 1);
	if (way != NO_CHANGES)
		hm_changes_end(number);
	atomic_fetch_add(&changes, 1);
}

/* False: it was not to be had. */
static bool get(uint64_t *random, struct hm_cache_hold *hold)
{
	unsigned count = 1 + (unsigned)(stress_random(random) % MOST);
	unsigned first = (unsigned)(stress_random(random) % (PAGES - count));
	struct hm_cache_key key = { .begin = BASE + first * PAGE,
				    .end = BASE + (first + count) * PAGE,
				    .group = (uint32_t)(first % HM_CACHE_GROUPS) };
	const struct registration *r;
	uint32_t asked[MOST];

	for (unsigned i = 0; i < count; i++)
		asked[i] = atomic_load(&age[first + i]);
	if (hm_cache_get(&cache, &key, hold) != 0)
		return false;
	atomic_fetch_add_explicit(&gets, 1, memory_order_relaxed);
	r = hold->data;
	CHECK(atomic_load(&r->live));
	CHECK(r->begin <= key.begin);
	for (unsigned i = 0; i < count; i++) {
		uint32_t its = r->age[first - page_of(r->begin) + i];

		if ((int32_t)(its - asked[i]) < 0)
			atomic_fetch_add(&stale, 1);
	}
	return true;
}

static void *work(void *number)
{
	uint64_t random = (uint64_t)(uintptr_t)number * 7919 + 1;
	struct hm_cache_hold hold[HOLDS];
	bool held[HOLDS] = { false };

	while (!atomic_load(&stop)) {
		unsigned n = (unsigned)(stress_random(&random) % HOLDS);
		unsigned what = (unsigned)(stress_random(&random) % 64);

		if (what < 6)
			change(&random);
		else if (what == 6)
			hm_cache_evict(&cache, 3);
		else if (what == 7)
			hm_cache_reap(&cache);
		else if (held[n])
			hm_cache_put(&cache, &hold[n]);
		/* in turn */
		if (what >= 8)
			held[n] = !held[n] && get(&random, &hold[n]);
	}
	for (unsigned n = 0; n < HOLDS; n++)
		if (held[n])
			hm_cache_put(&cache, &hold[n]);
	return NULL;
}

static void *look(void *unused)
{
	struct hm_cache_counts counts;

	while (!atomic_load(&stop)) {
		hm_cache_count(&cache, HM_CACHE_ALL, &counts);
		CHECK(counts.entries <= MAX_COUNT && counts.bytes <= MAX_BYTES);
		sched_yield();
	}
	return unused;
}

/* Until the time is up, or something stale was found if that is what is looked for. */
static void run(enum way how, double seconds)
{
	static const struct hm_cache_ops ops = { widen, add, take_away };
	unsigned threads = stress_setting("HMREG_STRESS_THREADS", 8);
	pthread_t thread[64], looker;
	double end = stress_now() + seconds;

	way = how;
	threads = threads < 64 ? threads : 64;
	atomic_store(&stop, false);
	atomic_store(&stale, 0);
	CHECK_OK(hm_cache_init(&cache, &ops, NULL, MAX_COUNT, MAX_BYTES));
	CHECK_OK(pthread_create(&looker, NULL, look, NULL));
	for (unsigned i = 0; i < threads; i++)
		CHECK_OK(pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1)));
	while (stress_now() < end && (how == AS_IT_IS || atomic_load(&stale) == 0))
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < threads; i++)
		CHECK_OK(pthread_join(thread[i], NULL));
	CHECK_OK(pthread_join(looker, NULL));
	for (unsigned i = 0; hm_cache_destroy(&cache) != 0; i++)
		CHECK(i < 1000); /* some are refused */
	CHECK(atomic_load(&registered) == 0);
}

static void cache_02_fn_29_never_stale_under_threads(void **state)
{
	(void)state;
	run(AS_IT_IS, stress_setting("HMREG_STRESS_SECONDS", 10));
	print_message("%llu gets, %llu changes\n", (unsigned long long)atomic_load(&gets),
		      (unsigned long long)atomic_load(&changes));
	assert_int_equal(atomic_load(&stale), 0);
}

static void cache_02_stale_without_invalidation(void **state)
{
	(void)state;
	run(NO_INVALIDATION, 60);
	assert_true(atomic_load(&stale) > 0);
}

static void cache_02_stale_without_the_look_at_changes(void **state)
{
	(void)state;
	run(NO_CHANGES, 60);
	assert_true(atomic_load(&stale) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_02_fn_29_never_stale_under_threads),
		cmocka_unit_test(cache_02_stale_without_invalidation),
		cmocka_unit_test(cache_02_stale_without_the_look_at_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
