/* SPDX-License-Identifier: BSD-2-Clause */
/* userfaultfd as the monitor of a cache, with the system calls that change memory made past the C library. */
#include <sys/shm.h>
#include <sys/wait.h>

#include "tests/threads.h"
#include "uffd_scene.h"

/* ---- ways to lose memory ---- */

static void lose_by_munmap(char *p)
{
	raw_unmap(p, LEN);
	again(p);
}

static void lose_by_mmap_over(char *p)
{
	raw_map(p, LEN, MAP_PRIVATE | MAP_FIXED);
}

static void lose_by_mremap_away(char *p)
{
	char *to = raw_map(NULL, LEN, MAP_PRIVATE);

	assert_int_equal(raw(SYS_mremap, p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	again(p);
	raw_unmap(to, LEN);
}

static void lose_by_mremap_onto(char *p)
{
	char *from = raw_map(NULL, LEN, MAP_PRIVATE);

	assert_int_equal(raw(SYS_mremap, from, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, p), p);
}

static void lose_by_mremap_smaller(char *p)
{
	assert_int_equal(raw(SYS_mremap, p, LEN, LEN / 2, 0, 0), p);
	raw_map(p + LEN / 2, LEN / 2, MAP_PRIVATE | MAP_FIXED_NOREPLACE);
}

static void lose_by_free(char *p)
{
	assert_int_equal(raw(SYS_madvise, p, LEN, MADV_FREE), 0);
}

static void lose_a_page(char *p)
{
	assert_int_equal(raw(SYS_madvise, p + 5 * PAGE, PAGE, MADV_DONTNEED), 0);
}

static char *shared_memory(void)
{
	return raw_map(NULL, LEN, MAP_SHARED);
}

static void lose_by_remove(char *p)
{
	assert_int_equal(raw(SYS_madvise, p, LEN, MADV_REMOVE), 0);
}

static char *heap_memory(void)
{
	char *top = (char *)raw(SYS_brk, 0);
	char *p = (char *)(((uintptr_t)top + PAGE - 1) & ~(PAGE - 1));

	assert_ptr_equal(raw(SYS_brk, p + LEN), p + LEN);
	memset(p, 1, LEN);
	return p;
}

static void lose_by_brk(char *p)
{
	assert_ptr_equal(raw(SYS_brk, p), p);
	assert_ptr_equal(raw(SYS_brk, p + LEN), p + LEN);
}

static void free_heap(char *p)
{
	assert_ptr_equal(raw(SYS_brk, p), p);
}

static void free_mapping(char *p)
{
	raw_unmap(p, LEN);
}

static void cache_02_whatever_loses_memory_ends_its_registration(void **state)
{
	static const struct {
		const char *name;
		char *(*make)(void);
		void (*lose)(char *p);
		void (*end)(char *p);
	} way[] = {
		{ "munmap", private_memory, lose_by_munmap, free_mapping },
		{ "mmap over", private_memory, lose_by_mmap_over, free_mapping },
		{ "mremap away", private_memory, lose_by_mremap_away, free_mapping },
		{ "mremap onto", private_memory, lose_by_mremap_onto, free_mapping },
		{ "mremap smaller", private_memory, lose_by_mremap_smaller, free_mapping },
		{ "madvise DONTNEED", private_memory, lose_by_dontneed, free_mapping },
		{ "madvise DONTNEED of a page", private_memory, lose_a_page, free_mapping },
		{ "madvise FREE", private_memory, lose_by_free, free_mapping },
		{ "madvise REMOVE", shared_memory, lose_by_remove, free_mapping },
		{ "brk", heap_memory, lose_by_brk, free_heap },
	};

	(void)state;
	NEEDS_UFFD();
	hm_uffd_grace_nanos = 0;
	for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
		char *p = way[i].make();
		uint64_t first = scene_use(&scene, p, LEN), second;

		if (scene.watch_code != 0)
			fail_msg("%s: cannot be watched (%d)", way[i].name, scene.watch_code);
		assert_int_equal(scene_use(&scene, p, LEN), first);
		assert_int_equal(scene_use(&scene, p + PAGE, 10), first);
		way[i].lose(p);
		second = scene_use(&scene, p, LEN);
		if (second == first)
			fail_msg("%s: the old registration is still found", way[i].name);
		way[i].end(p);
	}
}

/* ---- what is watched ---- */

static void cache_02_nobody_waits_for_memory_that_nothing_is_kept_of(void **state)
{
	char *p = private_memory(), *q = private_memory();

	(void)state;
	NEEDS_UFFD();
	hold_at(-1);
	raw_unmap(private_memory(), LEN);
	scene_use(&scene, p, LEN);
	scene_use(&scene, p + 4 * PAGE, 12 * PAGE + 100);
	scene_use(&scene, q, LEN);
	assert_true(hm_cache_evict(&scene.cache, 100) >= 2);
	hm_cache_reap(&scene.cache);
	raw_unmap(p, LEN);
	raw_unmap(q, LEN);
	assert_int_equal(events, 0);
}

static void cache_02_what_two_watch_stays_watched_for_the_other(void **state)
{
	char *p = private_memory();
	uint64_t mark, first;

	(void)state;
	NEEDS_UFFD();
	hold_at(-1);
	first = scene_use(&scene, p, LEN);
	assert_int_equal(hm_monitor_watch((uintptr_t)p, (uintptr_t)p + 4 * PAGE, &mark), 0);
	hm_monitor_unwatch((uintptr_t)p, (uintptr_t)p + 4 * PAGE, mark);
	lose_by_munmap(p);
	hm_monitor_settle();
	assert_int_equal(events, 1);
	assert_int_not_equal(scene_use(&scene, p, LEN), first);
	raw_unmap(p, LEN);
}

static void cache_02_what_cannot_be_followed_is_not_kept(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	char *file = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	char *hole = private_memory();
	int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);
	char *attached = shmat(id, NULL, 0);
	uint64_t first;

	(void)state;
	close(fd);
	shmctl(id, IPC_RMID, NULL);
	NEEDS_UFFD();
	assert_ptr_not_equal(attached, (void *)-1);
	first = scene_use(&scene, attached, LEN);
	assert_int_equal(scene.watch_code, -FI_EINVAL);
	assert_int_not_equal(scene_use(&scene, attached, LEN), first);
	shmdt(attached);
	first = scene_use(&scene, file, LEN);
	assert_int_equal(scene.watch_code, -FI_EINVAL);
	assert_int_not_equal(scene_use(&scene, file, LEN), first);
	raw_unmap(hole, LEN);
	scene_use(&scene, hole, LEN);
	assert_true(scene.watch_code < 0);
	assert_int_equal(logged.warnings, 0);
	raw_unmap(file, LEN);
}

/* Each range that is followed is a mapping of its own, of which a process has so many. */
static void cache_04_no_more_is_followed_than_leaves_a_process_its_mappings(void **state)
{
	const size_t most = 8;
	uint64_t number[2 * 8];
	char *at;

	(void)state;
	NEEDS_UFFD();
	scene_close(&scene);
	hm_uffd_most = (uint32_t)most;
	assert_int_equal(scene_open(&scene), 0);
	hm_uffd_most = 0;
	at = raw_map(NULL, 2 * 2 * most * PAGE, MAP_PRIVATE);
	for (size_t i = 0; i < 2 * most; i++) {
		number[i] = scene_use(&scene, at + 2 * i * PAGE, PAGE);
		assert_int_equal(scene.watch_code, i < most ? 0 : -FI_ENOSPC);
	}
	for (size_t i = 0; i < 2 * most; i++)
		assert_int_equal(scene_use(&scene, at + 2 * i * PAGE, PAGE) == number[i], i < most);
	hm_cache_evict(&scene.cache, 1);
	hm_cache_reap(&scene.cache);
	number[0] = scene_use(&scene, at + 2 * most * PAGE, PAGE);
	assert_int_equal(scene.watch_code, 0);
	assert_int_equal(scene_use(&scene, at + 2 * most * PAGE, PAGE), number[0]);
	raw_unmap(at, 2 * 2 * most * PAGE);
}

/* Nobody touches a page that would wait for a handler: there is none. */
static void cache_02_absent_pages_are_filled_by_the_kernel(void **state)
{
	char *p = (char *)raw(SYS_mmap, NULL, LEN, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fds[2];

	(void)state;
	NEEDS_UFFD();
	scene_use(&scene, p, LEN);
	assert_int_equal(scene.watch_code, 0);
	assert_int_equal(p[3 * PAGE], 0);
	p[4 * PAGE] = 1;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], p + 5 * PAGE, PAGE), PAGE);
	assert_int_equal(read(fds[0], p + 6 * PAGE, PAGE), PAGE);
	close(fds[0]);
	close(fds[1]);
	raw_unmap(p, LEN);
}

/* What memhooks, or another reporter, reports is not told by the kernel as well. */
static void cache_02_a_reported_change_is_not_waited_for(void **state)
{
	char *p = private_memory();
	uint64_t first;
	unsigned number;

	(void)state;
	NEEDS_UFFD();
	hold_at(-1);
	first = scene_use(&scene, p, LEN);
	number = hm_monitor_begin((uintptr_t)p + 10, (uintptr_t)p + LEN);
	raw_unmap(p, LEN);
	hm_monitor_end(number);
	assert_int_equal(events, 0);
	again(p);
	assert_int_not_equal(scene_use(&scene, p, LEN), first);
	raw_unmap(p, LEN);
}

/* The part that is followed is apart for the kernel, and whole again for whoever resizes all of it. */
static void cache_02_a_mapping_of_which_a_part_is_kept_can_be_resized(void **state)
{
	char *p = private_memory(), *at;
	uint64_t mark, first;

	(void)state;
	NEEDS_UFFD();
	if (!hm_uffd_hooked()) {
		print_message("memhooks are not to be had here\n");
		skip();
	}
	/* Growing in its place, with a registration that lives; so that nothing is reported before. */
	first = scene_use(&scene, p + 2 * PAGE, 3 * PAGE);
	raw_unmap(raw_map(NULL, LEN, MAP_PRIVATE), LEN);
	at = mremap(p, LEN, LEN - PAGE, 0);
	assert_ptr_equal(at, p);
	assert_int_equal(scene_use(&scene, p + 2 * PAGE, 3 * PAGE), first);
	at = mremap(p, LEN - PAGE, LEN, 0);
	assert_ptr_equal(at, p);
	assert_int_not_equal(scene_use(&scene, p + 2 * PAGE, 3 * PAGE), first);
	/* Followed for nothing that is kept. */
	assert_int_equal(hm_monitor_watch((uintptr_t)p + PAGE, (uintptr_t)p + 2 * PAGE, &mark), 0);
	at = mremap(p, LEN, 2 * LEN, MREMAP_MAYMOVE);
	assert_ptr_not_equal(at, MAP_FAILED);
	hm_monitor_unwatch((uintptr_t)p + PAGE, (uintptr_t)p + 2 * PAGE, mark);
	assert_int_equal(munmap(at, 2 * LEN), 0);
}

/* ---- a monitor that ends ---- */

static void nothing_is_kept(char *p)
{
	uint64_t number = scene_use(&scene, p, LEN);

	assert_null(hm_monitor_used());
	assert_int_equal(scene.watch_code, -FI_ENOSYS);
	assert_int_not_equal(scene_use(&scene, p, LEN), number);
}

static void works_again(char *p)
{
	uint64_t number;

	scene_close(&scene);
	assert_int_equal(scene_open(&scene), 0);
	number = scene_use(&scene, p, LEN);
	assert_int_equal(scene_use(&scene, p, LEN), number);
}

static void fn_32_a_thread_that_dies_ends_everything_kept(void **state)
{
	char *p = private_memory(), *q = private_memory();
	uint64_t first;
	pthread_t unmapper;

	(void)state;
	NEEDS_UFFD();
	first = scene_use(&scene, p, LEN);
	scene_use(&scene, q, LEN);
	/* With somebody who sleeps until an event is read. */
	hold_at(HM_UFFD_UNREAD);
	pthread_create(&unmapper, NULL, unmap_it, q);
	wait_for(&holding);
	assert_int_equal(pthread_cancel(hm_uffd_thread()), 0);
	let_go();
	pthread_join(unmapper, NULL);
	while (hm_monitor_used())
		sched_yield();
	assert_int_not_equal(scene_use(&scene, p, LEN), first);
	nothing_is_kept(p);
	works_again(p);
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(logged.warning, "userfaultfd"));
	raw_unmap(p, LEN);
}

static void fn_32_a_descriptor_that_the_program_closes_ends_everything_kept(void **state)
{
	char *p = private_memory(), *q = private_memory();
	int fd, mine;

	(void)state;
	NEEDS_UFFD();
	scene_use(&scene, p, LEN);
	fd = hm_uffd_fd();
	/* Its number is another file's at once. */
	mine = open("/dev/zero", O_RDONLY);
	assert_int_equal(dup3(mine, fd, O_CLOEXEC), fd);
	close(mine);
	scene_use(&scene, q, LEN);
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(logged.warning, "closed"));
	nothing_is_kept(p);
	raw_unmap(p, LEN);
	raw_unmap(q, LEN);
	scene_close(&scene);
	/* And stays so. */
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
	assert_int_equal(scene_open(&scene), 0);
}

/* As closefrom(3) does, of which the thread that reads is not told. */
static void fn_32_other_descriptors_that_the_program_closes_end_everything_kept(void **state)
{
	char *p = private_memory(), *q = private_memory(), link[64], name[64];
	unsigned closed = 0;

	(void)state;
	NEEDS_UFFD();
	scene_use(&scene, p, LEN);
	scene_use(&scene, q, LEN);
	for (int fd = 3; fd < 64; fd++) {
		ssize_t len;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		len = readlink(name, link, sizeof(link) - 1);
		link[len > 0 ? len : 0] = '\0';
		if (strcmp(link, "anon_inode:[eventfd]") == 0)
			closed += close(fd) == 0;
	}
	assert_true(closed > 0);
	raw_unmap(p, LEN); /* something to read, after which it waits anew */
	while (hm_monitor_used())
		sched_yield();
	nothing_is_kept(q);
	raw_unmap(q, LEN);
	scene_close(&scene);
	assert_int_equal(logged.warnings, 1);
	assert_int_equal(scene_open(&scene), 0);
}

static void fn_32_a_child_keeps_nothing_and_leaves_its_parent_alone(void **state)
{
	char *p = private_memory();
	uint64_t first;
	int status;
	pid_t child;

	(void)state;
	NEEDS_UFFD();
	first = scene_use(&scene, p, LEN);
	child = test_fork();
	if (child == 0) {
		int fd = hm_uffd_fd();
		bool fine = fd < 0 && !hm_monitor_used();
		uint64_t number;

		raw_unmap(p, LEN);
		again(p);
		number = scene_use(&scene, p, LEN);
		fine = fine && number != first && scene_use(&scene, p, LEN) != number;
		scene_close(&scene);
		/* One of its own. */
		fine = fine && scene_open(&scene) == 0 && hm_monitor_used() == &hm_monitor_uffd;
		number = scene_use(&scene, p, LEN);
		fine = fine && scene_use(&scene, p, LEN) == number;
		raw_unmap(p, LEN);
		again(p);
		fine = fine && scene_use(&scene, p, LEN) != number;
		scene_close(&scene);
		_exit(fine ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(scene_use(&scene, p, LEN), first);
	lose_by_munmap(p);
	assert_int_not_equal(scene_use(&scene, p, LEN), first);
	raw_unmap(p, LEN);
}

/* ---- many at once ---- */

#define THREADS 4
#define TURNS	300

static void *churn(void *unused)
{
	(void)unused;
	for (int i = 0; i < TURNS; i++) {
		char *p = private_memory();
		uint64_t made = atomic_load(&scene.made);
		uint64_t first = scene_use(&scene, p, LEN);

		/* Whoever had the address before has lost it, so this is a new one. */
		if (first <= made)
			return (void *)1;
		raw_unmap(p + LEN / 2, LEN / 2);
		raw_map(p + LEN / 2, LEN / 2, MAP_PRIVATE | MAP_FIXED);
		if (scene_use(&scene, p, LEN) == first)
			return (void *)1;
		raw_unmap(p, LEN);
	}
	return NULL;
}

static void cache_06_threads_that_map_unmap_and_hit(void **state)
{
	pthread_t thread[THREADS];
	void *failed, *any = NULL;

	(void)state;
	NEEDS_UFFD();
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &failed);
		any = failed ? failed : any;
	}
	assert_null(any);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cache_02_whatever_loses_memory_ends_its_registration),
		TEST(cache_02_nobody_waits_for_memory_that_nothing_is_kept_of),
		TEST(cache_02_what_two_watch_stays_watched_for_the_other),
		TEST(cache_02_what_cannot_be_followed_is_not_kept),
		TEST(cache_04_no_more_is_followed_than_leaves_a_process_its_mappings),
		TEST(cache_02_absent_pages_are_filled_by_the_kernel),
		TEST(cache_02_a_reported_change_is_not_waited_for),
		TEST(cache_02_a_mapping_of_which_a_part_is_kept_can_be_resized),
		TEST(fn_32_a_thread_that_dies_ends_everything_kept),
		TEST(fn_32_a_descriptor_that_the_program_closes_ends_everything_kept),
		TEST(fn_32_other_descriptors_that_the_program_closes_end_everything_kept),
		TEST(fn_32_a_child_keeps_nothing_and_leaves_its_parent_alone),
		STRICT_TEST(cache_06_threads_that_map_unmap_and_hit),
	};

	return cmocka_run_group_tests(tests, can_be_had, NULL);
}
