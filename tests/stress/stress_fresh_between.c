/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What can come between a change of memory and its report, done exactly so: threads stop where a test wants
 * them, in functions that the linker puts in the place of others.
 *
 *   - a hook has told the caches, and the memory is not unmapped yet: another thread registers it
 *   - a registration has its pages, and is not done: they are unmapped, and the addresses used again
 *   - memory is unmapped, and userfaultfd's event not read yet: another thread maps the addresses again and uses
 *     them, by the C library, or with HMREG_CACHE_STRICT by system calls that no hook sees
 *
 * Each is done twice: with the library as it is, and with the very thing taken out that is to prevent it, when the
 * stale hit must be found.
 */
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/params.h"
#include "core/mr/changes.h"
#include "core/mr/monitor.h"
#include "tests/stress/fresh.h"

#define LEN	 (4 * FRESH_PAGE)
#define ANON	 (MAP_PRIVATE | MAP_ANONYMOUS)
#define PATIENCE 60

static sem_t arrived, go_on;
static _Thread_local uintptr_t stops; /* this thread stops in the hook that reports this address */
static _Atomic bool blind;	      /* registrations do not see what is changing */

/* ---- in the place of others ---- */

unsigned __real_hm_monitor_begin(uint64_t begin, uint64_t end);
unsigned __wrap_hm_monitor_begin(uint64_t begin, uint64_t end);
bool __real_hm_changes_overlap(uint64_t begin, uint64_t end);
bool __wrap_hm_changes_overlap(uint64_t begin, uint64_t end);
ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __wrap_read(int fd, void *data, size_t size);

static void stop_here(void)
{
	sem_post(&arrived);
	while (sem_wait(&go_on) != 0)
		;
}

unsigned __wrap_hm_monitor_begin(uint64_t begin, uint64_t end)
{
	unsigned number = __real_hm_monitor_begin(begin, end);

	if (begin <= stops && stops < end) {
		stops = 0;
		stop_here();
	}
	return number;
}

bool __wrap_hm_changes_overlap(uint64_t begin, uint64_t end)
{
	return !blind && __real_hm_changes_overlap(begin, end);
}

/* Closed: who reads events of userfaultfd has to wait, but for the thread that the test itself is. */
static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static _Thread_local bool passes;

static bool is_userfault(int fd)
{
	char name[64], target[64] = "";

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return readlink(name, target, sizeof(target) - 1) > 0 && strstr(target, "userfault");
}

ssize_t __wrap_read(int fd, void *data, size_t size)
{
	bool waits = !passes && is_userfault(fd);
	ssize_t got;

	if (waits)
		pthread_rwlock_rdlock(&gate);
	got = __real_read(fd, data, size);
	if (waits)
		pthread_rwlock_unlock(&gate);
	return got;
}

/* ---- ways of changing a range, of which the whole is gone or new afterwards ---- */

static void by_munmap(uintptr_t at)
{
	fresh_munmap(at, LEN);
}

static void by_mmap(uintptr_t at)
{
	assert_int_equal(fresh_mmap(at, LEN, ANON | MAP_FIXED, -1), at);
}

static void by_mremap(uintptr_t at)
{
	uintptr_t to = fresh_mmap(0, LEN, ANON, -1);

	assert_int_equal(fresh_mremap(at, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
}

static void by_madvise(uintptr_t at)
{
	assert_int_equal(fresh_madvise(at, LEN, MADV_DONTNEED), 0);
}

struct way {
	const char *name;
	void (*change)(uintptr_t at);
	bool first_told; /* userfaultfd's event comes before the change */
	bool maps;	 /* there is new memory when it has been done */
};

static const struct way ways[] = {
	{ "munmap", by_munmap, false, false },
	{ "mmap over it", by_mmap, false, true },
	{ "mremap", by_mremap, false, false },
	{ "madvise", by_madvise, true, true },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* ---- scenes ---- */

/* Memory with a registration that is kept. */
static uintptr_t make_known(void)
{
	uintptr_t at = fresh_mmap(0, LEN, ANON, -1);

	fresh_claim(at, at + LEN);
	assert_false(fresh_check(at, at + LEN, true));
	assert_true(fresh_check(at, at + LEN, true));
	return at;
}

/* New memory at the same addresses, if there is none; unseen: no hook knows of it. */
static void make_again(uintptr_t at, bool unseen)
{
	uint64_t tag;

	fresh_raw = unseen;
	if (!fresh_tag(at, &tag))
		assert_int_equal(fresh_mmap(at, LEN, ANON | MAP_FIXED_NOREPLACE, -1), at);
	fresh_raw = false;
	fresh_claim(at, at + LEN);
}

struct doing {
	const struct way *way;
	uintptr_t at;
	bool stops;
	_Atomic bool done;
};

static void *do_change(void *arg)
{
	struct doing *doing = arg;

	stops = doing->stops ? doing->at : 0;
	doing->way->change(doing->at);
	return NULL;
}

static void *do_check(void *arg)
{
	struct doing *doing = arg;

	fresh_check(doing->at, doing->at + LEN, !doing->stops);
	atomic_store(&doing->done, true);
	return NULL;
}

static void wait_arrived(void)
{
	while (sem_wait(&arrived) != 0)
		;
}

static uint64_t stale_so_far(void)
{
	return atomic_load(&fresh_figures->stale);
}

/* The new memory is used, and a registration of its own is kept; not at once where a monitor is in doubt. */
static void use_again(uintptr_t at)
{
	uint64_t before = stale_so_far();

	assert_false(fresh_check(at, at + LEN, true));
	while (!fresh_check(at, at + LEN, true))
		sched_yield();
	assert_int_equal(stale_so_far(), before);
	fresh_munmap(at, LEN);
}

/* The hook has run, the memory is still there. */
static void register_dying(const struct way *way, bool prevented)
{
	struct doing doing = { way, make_known(), true, false };
	uint64_t before = stale_so_far();
	pthread_t thread;

	CHECK_OK(pthread_create(&thread, NULL, do_change, &doing));
	wait_arrived();
	assert_false(fresh_check(doing.at, doing.at + LEN, true));
	assert_int_equal(fresh_check(doing.at, doing.at + LEN, true), !prevented);
	sem_post(&go_on);
	CHECK_OK(pthread_join(thread, NULL));
	make_again(doing.at, !prevented);
	if (!prevented) {
		fresh_check(doing.at, doing.at + LEN, true);
		assert_int_equal(stale_so_far(), before + 1);
	}
	use_again(doing.at);
}

static void cache_02_hook_has_run_and_memory_is_registered(void **state)
{
	(void)state;
	if (strcmp(hm_monitor_used()->name, "userfaultfd") == 0)
		skip();
	for (size_t i = 0; i < WAYS; i++) {
		register_dying(&ways[i], true);
		blind = true;
		register_dying(&ways[i], false);
		blind = false;
	}
}

static _Thread_local bool slow;

static void stop_slow(void)
{
	if (slow)
		stop_here();
}

static void *check_slowly(void *arg)
{
	slow = true;
	return do_check(arg);
}

/* A registration is being made while its memory goes. */
static void change_under_registration(const struct way *way, bool prevented)
{
	struct doing doing = { way, make_known(), true, false };
	uint64_t before = stale_so_far();
	pthread_t thread;

	fresh_forget(doing.at, doing.at + LEN);
	fresh_registering = stop_slow;
	CHECK_OK(pthread_create(&thread, NULL, check_slowly, &doing));
	wait_arrived();
	fresh_drop = fresh_hasty = !prevented;
	way->change(doing.at);
	make_again(doing.at, !prevented);
	hm_monitor_settle(); /* what is told late is dropped as well */
	fresh_drop = false;
	sem_post(&go_on);
	CHECK_OK(pthread_join(thread, NULL));
	fresh_registering = NULL;
	if (!prevented) {
		fresh_check(doing.at, doing.at + LEN, true);
		assert_int_equal(stale_so_far(), before + 1);
	}
	fresh_hasty = false;
	use_again(doing.at);
}

static void cache_02_memory_goes_under_a_registration(void **state)
{
	(void)state;
	for (size_t i = 0; i < WAYS; i++) {
		change_under_registration(&ways[i], true);
		change_under_registration(&ways[i], false);
	}
}

static _Atomic bool waiting;

static void note_waiting(void)
{
	atomic_store(&waiting, true);
}

/* The memory is gone, the thread that says so stands in the gate, and the addresses are used. */
static void hit_before_event(const struct way *way, bool prevented, bool strict)
{
	struct doing changing = { way, make_known(), false, false };
	struct doing checking = { way, changing.at, false, false };
	uint64_t before = stale_so_far(), tag, now;
	pthread_t thread[2];

	assert_true(fresh_tag(changing.at, &tag));
	atomic_store(&waiting, false);
	fresh_waits = note_waiting;
	pthread_rwlock_wrlock(&gate);
	fresh_raw = true; /* it is the kernel's to tell */
	CHECK_OK(pthread_create(&thread[0], NULL, do_change, &changing));
	while (fresh_tag(changing.at, &now) && now == tag)
		sched_yield();
	make_again(changing.at, strict || !prevented);
	CHECK_OK(pthread_create(&thread[1], NULL, do_check, &checking));
	while (!atomic_load(&checking.done) && !atomic_load(&waiting))
		sched_yield();
	pthread_rwlock_unlock(&gate);
	CHECK_OK(pthread_join(thread[1], NULL));
	CHECK_OK(pthread_join(thread[0], NULL));
	fresh_waits = NULL;
	assert_int_equal(stale_so_far(), before + !prevented);
	fresh_munmap(changing.at, LEN);
}

static void cache_02_event_is_not_read_and_memory_is_used(void **state)
{
	bool strict = hm_param_bool(HM_PARAM_CACHE_STRICT);

	(void)state;
	if (strcmp(hm_monitor_used()->name, "userfaultfd") != 0)
		skip();
	for (size_t i = 0; i < WAYS; i++) {
		if (ways[i].first_told)
			continue;
		/* Who did not map it itself learns of it from who did, when that call has returned. */
		if (strict || !ways[i].maps)
			hit_before_event(&ways[i], true, strict);
		fresh_hasty = true;
		hit_before_event(&ways[i], false, strict);
		fresh_hasty = false;
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_02_hook_has_run_and_memory_is_registered),
		cmocka_unit_test(cache_02_memory_goes_under_a_registration),
		cmocka_unit_test(cache_02_event_is_not_read_and_memory_is_used),
	};
	char why[256];
	int ret;

	passes = true;
	sem_init(&arrived, 0, 0);
	sem_init(&go_on, 0, 0);
	fresh_watch_start(PATIENCE);
	fresh_expect_stale = true;
	CHECK(fresh_truth_start(FRESH_TAG, why, sizeof(why)));
	fresh_cache_start(64);
	if (argc > 1 && strcmp(argv[1], "--toy") == 0)
		fresh_use_toy();
	if (!fresh_join(why, sizeof(why))) {
		printf("skipped: %s\n", why);
		return 77;
	}
	printf("monitor %s\n", hm_monitor_used()->name);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	hm_monitor_leave(&fresh_cache);
	fresh_cache_end();
	return ret;
}
