/* SPDX-License-Identifier: BSD-2-Clause */
/* userfaultfd: what a thread finds between a change of memory, its event, and what is done about it. */
#include "uffd_scene.h"

static void *give_it_back(void *p)
{
	lose_by_dontneed(p);
	return NULL;
}

struct user {
	char *p;
	uint64_t number;
	bool careless;
	_Atomic bool asks, has;
};

static void *use_it(void *arg)
{
	struct user *u = arg;

	again(u->p);
	atomic_store(&u->asks, true);
	u->number = u->careless ? scene_use_careless(&scene, u->p, LEN)
				: scene_use(&scene, u->p, LEN);
	atomic_store(&u->has, true);
	return NULL;
}

/*
 * One thread unmaps; its event is not read; another maps the same addresses and uses them.  True: what it
 * gets is the registration of the memory that is gone.
 */
static bool stale_while_unread(bool careless)
{
	struct user u = { .p = private_memory(), .careless = careless };
	uint64_t first = scene_use(&scene, u.p, LEN);
	pthread_t unmapper, user;

	hold_at(HM_UFFD_UNREAD);
	pthread_create(&unmapper, NULL, unmap_it, u.p);
	wait_for(&holding);
	pthread_create(&user, NULL, use_it, &u);
	wait_for(&u.asks);
	/* One that does not wait for the event has its answer while it is unread. */
	if (careless)
		wait_for(&u.has);
	let_go();
	pthread_join(user, NULL);
	pthread_join(unmapper, NULL);
	raw_unmap(u.p, LEN);
	return u.number == first;
}

static void cache_02_fn_29_another_thread_overtakes_no_unread_event(void **state)
{
	(void)state;
	NEEDS_UFFD();
	for (int i = 0; i < 20; i++)
		assert_false(stale_while_unread(false));
	/* That is what the question to the kernel is for. */
	assert_true(stale_while_unread(true));
}

/* The same through the C library, with memhooks beside. */
static void *use_it_by_library(void *arg)
{
	struct user *u = arg;
	void *p = mmap(u->p, LEN, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_ptr_equal(p, u->p);
	u->number = scene_use(&scene, u->p, LEN);
	return NULL;
}

static void cache_02_fn_29_nor_one_that_maps_by_the_library(void **state)
{
	struct user u = { .p = private_memory() };
	uint64_t first;
	pthread_t unmapper, user;

	(void)state;
	NEEDS_UFFD();
	if (!hm_uffd_hooked()) {
		print_message("memhooks are not to be had here\n");
		skip();
	}
	first = scene_use(&scene, u.p, LEN);
	hold_at(HM_UFFD_UNREAD);
	pthread_create(&unmapper, NULL, unmap_it, u.p);
	wait_for(&holding);
	pthread_create(&user, NULL, use_it_by_library, &u);
	pthread_join(user, NULL);
	assert_int_not_equal(u.number, first);
	let_go();
	pthread_join(unmapper, NULL);
	raw_unmap(u.p, LEN);
}

static void *unmap_and_use_it(void *arg)
{
	struct user *u = arg;

	raw_unmap(u->p, LEN);
	return use_it(u);
}

/* The event is read, so the unmapping returns, but nobody has dealt with it yet. */
static bool stale_while_unhandled(bool careless)
{
	struct user u = { .p = private_memory(), .careless = careless };
	uint64_t first = scene_use(&scene, u.p, LEN);
	pthread_t user;

	hold_at(HM_UFFD_READ);
	pthread_create(&user, NULL, unmap_and_use_it, &u);
	wait_for(&holding);
	wait_for(&u.asks);
	if (careless)
		wait_for(&u.has);
	let_go();
	pthread_join(user, NULL);
	raw_unmap(u.p, LEN);
	return u.number == first;
}

static void cache_02_fn_29_who_unmapped_overtakes_no_report(void **state)
{
	(void)state;
	NEEDS_UFFD();
	for (int i = 0; i < 20; i++)
		assert_false(stale_while_unhandled(false));
	assert_true(stale_while_unhandled(true));
}

/* The event comes before the memory goes: what is registered meanwhile is not kept. */
static void cache_02_fn_29_memory_that_is_about_to_go_is_not_kept(void **state)
{
	char *p = private_memory();
	uint64_t before, during, after;
	pthread_t giver;

	(void)state;
	NEEDS_UFFD();
	hm_uffd_grace_nanos = INT64_C(3600000000000);
	before = scene_use(&scene, p, LEN);
	hold_at(HM_UFFD_UNREAD);
	pthread_create(&giver, NULL, give_it_back, p);
	wait_for(&holding);
	/* The event is unread, the memory there: that is right, and ends with it. */
	during = scene_use_careless(&scene, p, LEN);
	assert_int_equal(during, before);
	let_go();
	pthread_join(giver, NULL);
	after = scene_use(&scene, p, LEN);
	assert_int_not_equal(after, before);
	assert_int_not_equal(scene_use(&scene, p, LEN), after);
	raw_unmap(p, LEN);
}

static void cache_02_many_ranges_given_back_at_once_are_all_not_kept(void **state)
{
	char *p[40];
	uint64_t number;

	(void)state;
	NEEDS_UFFD();
	hm_uffd_grace_nanos = INT64_C(3600000000000);
	for (int i = 0; i < 40; i++) {
		p[i] = private_memory();
		scene_use(&scene, p[i], LEN);
	}
	for (int i = 0; i < 40; i++)
		lose_by_dontneed(p[i]);
	for (int i = 0; i < 40; i++) {
		number = scene_use(&scene, p[i], LEN);
		assert_int_not_equal(scene_use(&scene, p[i], LEN), number);
		raw_unmap(p[i], LEN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STRICT_TEST(cache_02_fn_29_another_thread_overtakes_no_unread_event),
		TEST(cache_02_fn_29_nor_one_that_maps_by_the_library),
		TEST(cache_02_fn_29_who_unmapped_overtakes_no_report),
		TEST(cache_02_fn_29_memory_that_is_about_to_go_is_not_kept),
		TEST(cache_02_many_ranges_given_back_at_once_are_all_not_kept),
	};

	return cmocka_run_group_tests(tests, can_be_had, NULL);
}
