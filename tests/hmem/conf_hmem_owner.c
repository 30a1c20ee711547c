/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose memory it is, as a registration cache asks: what guards each kind, and what asking costs. */
#include "tests/hmem/conf_hmem.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/range.h"

#define NONE  0u
#define PAGES HMEM_GUARD_PAGES
#define ID    HMEM_GUARD_ID
#define BOTH  (HMEM_GUARD_PAGES | HMEM_GUARD_ID)

/* The table at the head of hmem/owner.c. */
static const uint32_t guards[MAKE_KINDS][HMEM_IFACES] = {
	/*		       host	  cuda	rocr   ze	neuron synapseai */
	[MAKE_DEVICE] = { PAGES, ID, ID, ID, NONE, NONE },
	[MAKE_HOST] = { PAGES, BOTH, BOTH, BOTH, PAGES, PAGES },
	[MAKE_REGISTERED] = { PAGES, BOTH, PAGES, PAGES, PAGES, PAGES },
	[MAKE_MANAGED] = { PAGES, ID, PAGES, ID, NONE, NONE },
	[MAKE_VMM] = { PAGES, ID, NONE, NONE, NONE, NONE },
	[MAKE_VMM_NO_RDMA] = { PAGES, NONE, NONE, NONE, NONE, NONE },
	[MAKE_VMM_HOST] = { PAGES, BOTH, NONE, NONE, NONE, NONE },
	[MAKE_POOL] = { PAGES, NONE, NONE, NONE, NONE, NONE },
	[MAKE_POOL_PRIVATE] = { PAGES, NONE, NONE, NONE, NONE, NONE },
	[MAKE_IMPORTED] = { PAGES, NONE, NONE, NONE, NONE, NONE },
	[MAKE_PRIVATE] = { PAGES, ID, ID, ID, NONE, NONE },
};

/* Calls of the driver for memory of its own, once it is known; of Level Zero's drivers there are two here. */
static const unsigned long most_calls[HMEM_IFACES] = {
	[FI_HMEM_CUDA] = 1,
	[FI_HMEM_ROCR] = 1,
	[FI_HMEM_ZE] = 3,
};

static unsigned long calls_made(void)
{
	return maker->hooks() ? maker->hooks()->calls("*") : 0;
}

static void reuse(bool on)
{
	if (maker->hooks())
		maker->hooks()->reuse(on);
}

static struct hmem_owner owner_of(const void *addr, size_t len)
{
	struct hmem_owner owner;

	assert_int_equal(hmem_owner_of(addr, len, &owner), 0);
	assert_int_equal(owner.id != 0, !!(owner.guards & HMEM_GUARD_ID));
	return owner;
}

static void check_kind(const struct made *made)
{
	uint32_t want = guards[made->kind][maker->iface];
	struct hmem_owner owner = owner_of(made->addr, UNIT), again;
	unsigned long before;

	if (owner.guards != want)
		fail_msg("%s: guards %u, not %u", make_name(made->kind), owner.guards, want);
	/* host memory that is told apart is the program's, whoever has registered it */
	assert_int_equal(owner.iface, want == PAGES ? FI_HMEM_SYSTEM : maker->iface);
	if (want == ID)
		assert_true(owner.device == made->device || made->kind == MAKE_MANAGED);
	before = calls_made();
	again = owner_of((char *)made->addr + UNIT / 2, 1);
	if (most_calls[maker->iface] && want != NONE)
		assert_in_range(calls_made() - before, 0, most_calls[maker->iface]);
	assert_int_equal(again.iface, owner.iface);
	assert_true(again.id == owner.id);
	assert_int_equal(again.guards, owner.guards);
	print_message("%-30s %s%s%s, %lu calls\n", make_name(made->kind),
		      want & PAGES ? "pages " : "", want & ID ? "id " : "",
		      want == NONE ? "not kept" : "", calls_made() - before);
}

static void fn_29_each_kind_has_its_guard(void **state)
{
	(void)state;
	for (int kind = 0; kind < MAKE_KINDS; kind++)
		for (size_t i = 0; i < maker->devices(); i++) {
			struct made made;

			if (maker->cannot(kind, maker->device(i)) ||
			    !try_make(kind, maker->device(i), 2 * UNIT, &made))
				continue;
			check_kind(&made);
			maker->drop(&made);
		}
	hmem_report_gone(NULL);
}

/* What was at an address. */
struct before {
	const void *addr;
	struct hmem_owner owner;
	unsigned int same; /* how often it was given out again */
};

/* Its address is given to other memory: of the same kind or another, of another device or size. */
static void again_at(struct before *before, enum make kind, int device, size_t len)
{
	struct hmem_owner owner;
	struct made made;

	if (maker->cannot(kind, device) || !try_make(kind, device, len, &made))
		return;
	owner = owner_of(made.addr, UNIT);
	if (made.addr == before->addr) {
		before->same++;
		if ((owner.guards & ID) && (before->owner.guards & ID))
			assert_true(owner.id != before->owner.id);
	}
	maker->drop(&made);
}

static void fn_29_other_memory_at_the_address(void **state)
{
	int first = maker->device(0), last = maker->device(maker->devices() - 1);
	unsigned int same = 0;

	(void)state;
	reuse(true);
	for (int kind = 0; kind < MAKE_KINDS; kind++) {
		struct before before = { .same = 0 };
		struct made made;

		if (maker->cannot(kind, first) || !try_make(kind, first, 2 * UNIT, &made))
			continue;
		before.addr = made.addr;
		before.owner = owner_of(made.addr, UNIT);
		maker->drop(&made);
		again_at(&before, kind, first, 2 * UNIT);
		again_at(&before, kind, first, UNIT);
		again_at(&before, kind, last, 2 * UNIT);
		for (int other = 0; other < MAKE_KINDS; other++)
			again_at(&before, other, first, 2 * UNIT);
		same += before.same;
	}
	reuse(false);
	print_message("an address came again %u times\n", same);
	if (maker->hooks())
		assert_true(same >= 3);
	hmem_report_gone(NULL);
}

/* By pieces: the identity of all, and of none but those that are touched. */
static void fn_08_fn_29_all_pieces(void **state)
{
	struct hmem_owner both, first, second, after;
	struct made made;
	char *border;

	(void)state;
	must_make(MAKE_VMM, maker->device(0), 2 * UNIT, &made);
	border = (char *)made.addr + made.len / 2;
	both = owner_of(border - 8, 16);
	first = owner_of(border - 8, 8);
	second = owner_of(border, 8);
	if (guards[MAKE_VMM][maker->iface] == ID) {
		assert_true(first.id != second.id);
		assert_true(both.id != first.id && both.id != second.id);
		assert_true(owner_of(border - 16, 24).id == both.id);
		assert_int_equal(maker->remap(&made), 0);
		after = owner_of(border - 8, 16);
		assert_true(after.id != 0 && after.id != both.id);
		assert_true(owner_of(border - 8, 8).id != first.id);
		/* past the last piece: not the first one's */
		assert_int_not_equal(hmem_owner_of(border, made.len, &after), 0);
		assert_int_equal(after.guards, 0);
	} else {
		assert_int_equal(both.guards | first.guards | second.guards, 0);
	}
	maker->drop(&made);
}

static void fn_29_host_memory_costs_one_call(void **state)
{
	char *host = mmap(NULL, UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long before;
	struct hmem_owner owner;

	(void)state;
	assert_ptr_not_equal(host, MAP_FAILED);
	owner_of(host, UNIT); /* what is asked once in a process */
	before = calls_made();
	owner = owner_of(host, UNIT);
	assert_int_equal(owner.iface, FI_HMEM_SYSTEM);
	assert_int_equal(owner.guards, PAGES);
	assert_int_equal(owner.device, HMEM_NO_DEVICE);
	if (most_calls[maker->iface] && maker->iface != FI_HMEM_ZE) /* one of each of its drivers */
		assert_in_range(calls_made() - before, 0, 1);
	print_message("%lu calls for host memory\n", calls_made() - before);
	munmap(host, UNIT);
}

/* A driver that fails when it is asked: an error, and nothing that could be kept. */
static void fn_32_a_driver_that_fails(void **state)
{
	static const struct {
		enum fi_hmem_iface iface;
		const char *call;
		int code;
	} asked[] = {
		{ FI_HMEM_CUDA, "cuPointerGetAttributes", 999 },
		{ FI_HMEM_ROCR, "hsa_amd_pointer_info", 0x1000 },
		{ FI_HMEM_ZE, "zeMemGetAllocProperties", 0x70000001 },
	};
	struct hmem_owner owner;
	struct made made;

	(void)state;
	if (!maker->hooks())
		skip();
	must_make(MAKE_DEVICE, maker->device(0), UNIT, &made);
	for (size_t i = 0; i < count_of(asked); i++) {
		if (asked[i].iface != maker->iface)
			continue;
		owner_of(made.addr, UNIT);
		(maker->hooks()->fail)(asked[i].call, 1, asked[i].code);
		assert_int_not_equal(hmem_owner_of(made.addr, UNIT, &owner), 0);
		assert_int_equal(owner.guards, 0);
		assert_non_null(strstr(last_warning(), asked[i].call));
		assert_int_equal(owner_of(made.addr, UNIT).guards,
				 guards[MAKE_DEVICE][maker->iface]);
	}
	maker->drop(&made);
	hmem_report_gone(NULL);
}

/* ---- memory that is freed is told, where the vendor tells ---- */

static _Atomic uint64_t gone_begin, gone_end;
static _Atomic unsigned int gone_count;

static void note_gone(uint64_t begin, uint64_t end)
{
	atomic_store(&gone_begin, begin);
	atomic_store(&gone_end, end);
	atomic_fetch_add(&gone_count, 1);
}

static void cache_02_freed_memory_is_told(void **state)
{
	unsigned int want = maker->iface == FI_HMEM_ROCR ? 1 : 0;
	struct made made, other;
	uint64_t id;

	(void)state;
	hmem_report_gone(note_gone);
	atomic_store(&gone_count, 0);
	must_make(MAKE_DEVICE, maker->device(0), 2 * UNIT, &made);
	must_make(MAKE_DEVICE, maker->device(0), 2 * UNIT, &other);
	id = owner_of((char *)made.addr + UNIT, 1).id;
	owner_of(made.addr, UNIT);
	maker->drop(&other); /* nobody asked about it */
	assert_int_equal(gone_count, 0);
	maker->drop(&made);
	assert_int_equal(gone_count, want);
	if (want) {
		assert_true(id != 0);
		assert_true(gone_begin == (uintptr_t)made.addr);
		assert_true(gone_end == (uintptr_t)made.addr + made.len);
	}
	/* no more is told, and no driver keeps a notice */
	must_make(MAKE_DEVICE, maker->device(0), 2 * UNIT, &made);
	id = owner_of(made.addr, 1).id;
	hmem_report_gone(NULL);
	if (maker->hooks())
		assert_int_equal(maker->hooks()->live("notice"), 0);
	if (want) /* nobody watches the old one any more */
		assert_true(owner_of(made.addr, 1).id != id);
	maker->drop(&made);
	assert_int_equal(gone_count, want);
	hmem_report_gone(NULL);
}

/* ---- threads ---- */

#define ROUNDS	100u
#define THREADS 3u

static _Atomic unsigned int threads_left;

/* Whatever other threads free and allocate, an allocation has one id, and no other one ever has it. */
static void *free_and_ask(void *ids)
{
	uint64_t *id = ids;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct hmem_owner first, second;
		struct made made = { .addr = NULL };

		if (maker->make(MAKE_DEVICE, maker->device(0), UNIT, &made) != 0 ||
		    hmem_owner_of(made.addr, UNIT, &first) != 0 ||
		    hmem_owner_of((char *)made.addr + 4096, 1, &second) != 0)
			return (char *)(uintptr_t) "memory cannot be made, or asked about";
		if (first.guards != guards[MAKE_DEVICE][maker->iface] || first.id != second.id)
			return (char *)(uintptr_t) "the id is another";
		id[i] = first.id;
		maker->drop(&made);
	}
	atomic_fetch_sub(&threads_left, 1);
	return NULL;
}

/* Ids may change under it here: reports end. */
static void *free_only(void *unused)
{
	(void)unused;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct hmem_owner owner;
		struct made made = { .addr = NULL };

		if (maker->make(MAKE_DEVICE, maker->device(0), UNIT, &made) != 0 ||
		    hmem_owner_of(made.addr, UNIT, &owner) != 0)
			return (char *)(uintptr_t) "memory cannot be made, or asked about";
		maker->drop(&made);
	}
	atomic_fetch_sub(&threads_left, 1);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void cache_06_threads_that_free_and_ask(void **state)
{
	static uint64_t ids[THREADS * ROUNDS];
	pthread_t thread[THREADS];

	(void)state;
	reuse(true);
	hmem_report_gone(note_gone);
	atomic_store(&threads_left, THREADS);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, free_and_ask,
						&ids[(size_t)i * ROUNDS]),
				 0);
	for (unsigned int i = 0; i < THREADS; i++) {
		void *why;

		pthread_join(thread[i], &why);
		if (why)
			fail_msg("%s", (char *)why);
	}
	hmem_report_gone(NULL);
	reuse(false);
	qsort(ids, count_of(ids), sizeof(ids[0]), by_value);
	for (size_t i = 1; i < count_of(ids); i++)
		assert_true(ids[i] == 0 || ids[i] != ids[i - 1]);
}

/* Reports end while memory is asked about and freed: whatever was registered goes, and nothing is lost. */
static void cache_06_reports_end_meanwhile(void **state)
{
	unsigned int ended = 0;
	pthread_t thread;
	bool once = false;
	void *why;

	(void)state;
	if (maker->iface != FI_HMEM_ROCR)
		skip(); /* the others have nothing to end */
	atomic_store(&threads_left, 1);
	assert_int_equal(pthread_create(&thread, NULL, free_only, NULL), 0);
	while (!once || threads_left > 0) {
		once = threads_left == 0;
		hmem_report_gone(note_gone);
		hmem_report_gone(NULL);
		ended++;
	}
	pthread_join(thread, &why);
	assert_null(why);
	print_message("reports ended %u times\n", ended);
	if (maker->hooks())
		assert_int_equal(maker->hooks()->live("notice"), 0);
}

const struct CMUnitTest owner_tests[] = {
	CONF_TEST(fn_29_each_kind_has_its_guard),
	CONF_TEST(fn_29_other_memory_at_the_address),
	CONF_TEST(fn_08_fn_29_all_pieces),
	CONF_TEST(fn_29_host_memory_costs_one_call),
	CONF_TEST(fn_32_a_driver_that_fails),
	CONF_TEST(cache_02_freed_memory_is_told),
	CONF_TEST(cache_06_threads_that_free_and_ask),
	CONF_TEST(cache_06_reports_end_meanwhile),
};
const size_t owner_test_count = count_of(owner_tests);
