/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The monitor memhooks: each way of changing memory is reported with its range, begun before the memory
 * changes and ended after it, whichever object calls.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "core/mr/cache.h"
#include "core/mr/monitor_hooks.h"
#include "core/mr/monitor_priv.h"
#include "hooks_scene.h"
#include "tests/unit/whole_pages.h"

/* ---- mappings ---- */

static void munmap_by(const struct hooks_calls *c)
{
	char *at = map(c);

	look_for(at + 5);
	errno = 77;
	assert_int_equal(c->munmap(at, PAGES - 1), 0);
	assert_int_equal(errno, 77);
	assert_seen(at, PAGES, PRESENT, ABSENT);
	/* what fails is reported as well, and errno is the call's */
	look_for(at + 1);
	assert_int_equal(c->munmap(at + 1, PAGE), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(seen.reports, 1);
	look_for(NULL);
}

static void mmap_by(const struct hooks_calls *c)
{
	char *at = map(c);

	look_for(at + PAGE);
	assert_ptr_equal(c->mmap(at, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				 -1, 0),
			 at);
	assert_seen(at, 2 * PAGE, PRESENT, EMPTY);
	c->munmap(at, PAGES);
	/* at a place that the kernel chooses: reported before anybody has it */
	look_for(at);
	at = c->mmap(at, PAGES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_seen(at, PAGES, EMPTY, EMPTY);
	c->munmap(at, PAGES);
}

static void mremap_by(const struct hooks_calls *c)
{
	char *at = map(c), *base, *to, *more;

	look_for(at + 6 * PAGE);
	assert_ptr_equal(c->mremap(at, PAGES, 6 * PAGE, MREMAP_MAYMOVE, NULL), at);
	assert_seen(at + 6 * PAGE, 2 * PAGE, PRESENT, ABSENT);
	look_for(at + PAGE);
	base = c->mremap(at, 6 * PAGE, 1000 * PAGE, MREMAP_MAYMOVE, NULL);
	assert_true(base != MAP_FAILED);
	assert_seen(at, 6 * PAGE, PRESENT, base == at ? PRESENT : ABSENT);
	to = (uintptr_t)base % HUGE == 0 ? base + PAGES : base; /* as in map */
	memset(to, 1, PAGES);
	at = map(c);
	look_for(to);
	assert_ptr_equal(c->mremap(at, PAGES, PAGES, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	assert_seen(to, PAGES, PRESENT, PRESENT);
	look_for(to + PAGES - 1);
	assert_ptr_equal(c->mremap(to, PAGES, PAGES, MREMAP_MAYMOVE | MREMAP_FIXED, at), at);
	assert_seen(to, PAGES, PRESENT, ABSENT);
	/* the old range stays, without its pages */
	look_for(at + PAGE);
	more = c->mremap(at, PAGES, PAGES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	assert_true(more != MAP_FAILED);
	assert_seen(at, PAGES, PRESENT, EMPTY);
	c->munmap(more, PAGES);
	c->munmap(base, 1000 * PAGE);
	c->munmap(at, PAGES);
}

/* Four times HUGE, beginning where a huge page may. */
static char *map_aligned(const struct hooks_calls *c, char **base)
{
	*base = c->mmap(NULL, 5 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(*base != MAP_FAILED);
	memset(*base, 1, 5 * HUGE);
	return (char *)(((uintptr_t)*base + HUGE - 1) & ~(HUGE - 1));
}

static void assert_seen_around(const char *from, const char *to)
{
	assert_true(seen.reports > 0);
	assert_true(seen.begin <= (uintptr_t)from && seen.end >= (uintptr_t)to);
	seen.at = 0;
}

/* Ordinary memory that begins where a huge page may, and grows by moving: what is behind it is taken. */
static void aligned_by(const struct hooks_calls *c)
{
	char *base, *at = map_aligned(c, &base), *to;

	look_for(at + PAGE);
	to = c->mremap(at, PAGES, 2 * PAGES, MREMAP_MAYMOVE, NULL);
	assert_true(to != MAP_FAILED && to != at);
	assert_int_equal(seen.before, PRESENT);
	assert_int_equal(seen.after, ABSENT);
	assert_seen_around(at, at + PAGES);
	c->munmap(to, 2 * PAGES);
	c->munmap(base, 5 * HUGE);
}

/*
 * Of huge pages the kernel maps and moves whole ones, whatever length it is given.  None need be free here, since
 * none is touched; where a kernel has no such pages, what would be theirs is reported all the same.
 */
static void huge_by(const struct hooks_calls *c)
{
	const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB | MAP_NORESERVE;
	char *base, *other, *at = map_aligned(c, &base), *to = map_aligned(c, &other);
	bool huge;

	look_for(at + HUGE / 2);
	huge = c->mmap(at, PAGE, PROT_READ, how, -1, 0) == at;
	assert_int_equal(seen.before, PRESENT);
	if (huge)
		assert_int_equal(seen.after, EMPTY);
	assert_seen_around(at, at + HUGE);
	look_for(at + HUGE + HUGE / 2);
	c->syscall(SYS_mmap, (long)at + (long)HUGE, PAGE, PROT_READ, how, -1, 0);
	assert_seen_around(at + HUGE, at + 2 * HUGE);
	if (huge) {
		look_for(at + HUGE / 2);
		assert_ptr_equal(c->mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
		assert_int_equal(seen.after, ABSENT);
		assert_seen_around(at, at + HUGE);
		look_for(to + HUGE + HUGE / 2);
		assert_ptr_equal(c->mremap(to, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
					   to + HUGE),
				 to + HUGE);
		assert_int_equal(seen.before, PRESENT);
		assert_seen_around(to + HUGE, to + 2 * HUGE);
	}
	c->munmap(base, (size_t)(at - base));
	c->munmap(at, 2 * HUGE);
	c->munmap(at + 2 * HUGE, 3 * HUGE - (size_t)(at - base));
	c->munmap(other, (size_t)(to - other));
	c->munmap(to, 2 * HUGE);
	c->munmap(to + 2 * HUGE, 3 * HUGE - (size_t)(to - other));
}

/* What the kernel refuses is not looked into. */
static void bad_vector_by(const struct hooks_calls *c)
{
	struct iovec iov = { NULL, PAGE };

	assert_int_equal(c->syscall(SYS_process_madvise, -1, 0, 1, MADV_DONTNEED, 0, 0), -1);
	assert_int_equal(
		c->syscall(SYS_process_madvise, -1, (long)&iov, LONG_MAX, MADV_DONTNEED, 0, 0), -1);
}

static void madvise_by(const struct hooks_calls *c)
{
	static const int keeps[] = { MADV_WILLNEED, MADV_COLD, MADV_HUGEPAGE, MADV_DONTFORK };
	char *at = map(c), *shared;

	look_for(at);
	assert_int_equal(c->madvise(at, 3 * PAGE, MADV_DONTNEED), 0);
	assert_seen(at, 3 * PAGE, PRESENT, EMPTY);
	look_for(at + 4 * PAGE);
	assert_int_equal(c->madvise(at + 3 * PAGE, 2 * PAGE, MADV_FREE), 0);
	assert_seen(at + 3 * PAGE, 2 * PAGE, PRESENT, PRESENT);
	look_for(at + 6 * PAGE);
	for (size_t i = 0; i < sizeof(keeps) / sizeof(keeps[0]); i++)
		c->madvise(at, PAGES, keeps[i]);
	assert_nothing();
	/* the C library's does not drop: the byte is still there */
	look_for(at + 6 * PAGE);
	assert_int_equal(c->posix_madvise(at, PAGES, POSIX_MADV_DONTNEED), 0);
	assert_nothing();
	assert_int_equal(at[6 * PAGE], 1);
	c->munmap(at, PAGES);
	shared = c->mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(shared, 1, PAGES);
	look_for(shared + PAGE);
	assert_int_equal(c->madvise(shared, 2 * PAGE, MADV_REMOVE), 0);
	assert_seen(shared, 2 * PAGE, PRESENT, EMPTY);
	look_for(shared + PAGE);
	c->remap_file_pages(shared, 2 * PAGE, 0, 4, 0);
	assert_int_equal(seen.reports, 1);
	look_for(NULL);
	c->munmap(shared, PAGES);
}

static void syscall_by(const struct hooks_calls *c)
{
	char *at = map(c);

	look_for(at + PAGE);
	errno = 77;
	assert_int_equal(c->syscall(SYS_madvise, (long)at, 2 * PAGE, MADV_DONTNEED, 0, 0, 0), 0);
	assert_int_equal(errno, 77);
	assert_seen(at, 2 * PAGE, PRESENT, EMPTY);
	look_for(at + 2 * PAGE);
	assert_int_equal(c->syscall(SYS_munmap, (long)at, PAGES, 0, 0, 0, 0), 0);
	assert_seen(at, PAGES, PRESENT, ABSENT);
	look_for(at);
	assert_int_equal(c->syscall(SYS_mmap, (long)at, PAGE, PROT_READ,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 (long)at);
	assert_seen(at, PAGE, ABSENT, EMPTY);
	assert_int_equal(c->syscall(SYS_getpid, 0, 0, 0, 0, 0, 0), getpid());
	assert_int_equal(c->syscall(SYS_close, -1, 0, 0, 0, 0, 0), -1);
	assert_int_equal(errno, EBADF);
	c->munmap(at, PAGE);
}

static void shm_by(const struct hooks_calls *c)
{
	int id = shmget(IPC_PRIVATE, 3 * PAGE - 100, IPC_CREAT | 0600);
	char *at = map(c), *got;

	assert_true(id >= 0);
	look_for(at + 2 * PAGE);
	assert_ptr_equal(c->shmat(id, at, SHM_REMAP), at);
	assert_seen(at, 3 * PAGE, PRESENT, EMPTY);
	at[2 * PAGE] = 1;
	look_for(at + 2 * PAGE);
	errno = 77;
	assert_int_equal(c->shmdt(at), 0);
	assert_int_equal(errno, 77);
	assert_seen(at, 3 * PAGE, PRESENT, ABSENT);
	/* one that was attached without a hook */
	got = shmat(id, NULL, 0);
	assert_true(got != (void *)-1);
	got[0] = 1;
	look_for(got);
	assert_int_equal(c->syscall(SYS_shmdt, (long)got, 0, 0, 0, 0, 0), 0);
	assert_seen(got, 3 * PAGE, PRESENT, ABSENT);
	shmctl(id, IPC_RMID, NULL);
	c->munmap(at + 3 * PAGE, PAGES - 3 * PAGE);
}

static void brk_by(const struct hooks_calls *c)
{
	char *old = c->sbrk(0), *at;

	at = (char *)(((uintptr_t)old + PAGE - 1) & ~(PAGE - 1));
	assert_int_equal(c->brk(at + 4 * PAGE), 0);
	memset(at, 1, 4 * PAGE);
	look_for(at + 3 * PAGE);
	assert_ptr_equal(c->sbrk(-(intptr_t)PAGE), at + 4 * PAGE);
	assert_seen(at + 3 * PAGE, PAGE, PRESENT, ABSENT);
	look_for(at + PAGE);
	assert_int_equal(c->brk(at), 0);
	assert_seen(at, 3 * PAGE, PRESENT, ABSENT);
	c->brk(old);
}

/* ---- blocks ---- */

/* A block's whole mapping; nothing of it before or behind is there. */
static void assert_block_seen(const char *block, size_t size, int after)
{
	assert_true(seen.begin <= (uintptr_t)block && seen.end >= (uintptr_t)block + size);
	assert_seen((void *)(uintptr_t)seen.begin, seen.end - seen.begin, PRESENT, after);
}

static void free_by(const struct hooks_calls *c)
{
	char *block = c->malloc(BIG), *more;

	block[BIG / 2] = 1;
	look_for(block + BIG / 2);
	c->free(block);
	assert_block_seen(block, BIG, SANITIZED ? ANY : ABSENT);
	/* of glibc's: pages behind the alignment as well, all of the mapping */
	block = memalign((size_t)1 << 20, BIG);
	block[0] = 1;
	look_for(block);
	c->free(block);
	assert_block_seen(block, BIG, SANITIZED ? ANY : ABSENT);
	block = c->malloc(BIG);
	block[BIG / 2] = 1;
	look_for(block + BIG / 2);
	more = c->realloc(block, 2 * BIG);
	assert_int_equal(seen.reports, 1);
	assert_int_equal(seen.ends, 1);
	assert_block_seen(block, BIG, more == block || SANITIZED ? ANY : ABSENT);
	look_for(more + BIG / 2);
	block = c->reallocarray(more, 3, BIG);
	assert_in_range(seen.reports, 1, 2); /* it may call realloc, by a word of the C library */
	seen.reports = seen.ends = 1;
	assert_block_seen(more, BIG, block == more || SANITIZED ? ANY : ABSENT);
	c->free(block);
	c->free(NULL);
}

/* What is in the heap stays there, in whichever block, and nothing is said of it. */
static void *heap_by(void *arg)
{
	const struct hooks_calls *c = arg;
	char *block = c->malloc(INNER), *small = c->malloc(64);

	block[INNER / 2] = 1;
	look_for(block + INNER / 2);
	c->free(block);
	if (SANITIZED)
		assert_int_equal(seen.reports, 1);
	else
		assert_nothing();
	if (!SANITIZED)
		assert_int_equal(page_at((uintptr_t)block + INNER / 2), PRESENT);
	look_for(small);
	c->free(small);
	if (!SANITIZED)
		assert_nothing();
	look_for(NULL);
	return arg;
}

static void arenas_by(const struct hooks_calls *c)
{
	pthread_t thread;
	void *done;

	heap_by((void *)c);
	if (!SANITIZED)
		assert_int_equal(c->mallopt(M_TRIM_THRESHOLD, 128 << 10), 1); /* later */
	heap_by((void *)c);
	assert_int_equal(c->pthread_create(&thread, NULL, heap_by, (void *)c), 0);
	pthread_join(thread, &done);
	assert_ptr_equal(done, c);
	if (SANITIZED)
		return;
	look_for(&done);
	c->malloc_trim(0);
	assert_seen(NULL, UINT64_MAX, PRESENT, PRESENT);
}

#define PARTS 6
/* An arena that outgrows its first part unmaps the second; all blocks in that are reported. */
static void *outgrow(void *arg)
{
	const struct hooks_calls *c = arg;
	char *block[PARTS];
	uintptr_t first = 0;
	bool gone = false;

	for (int i = 0; i < PARTS; i++) {
		block[i] = c->malloc((size_t)20 << 20);
		block[i][100] = 1;
	}
	first = (uintptr_t)block[0] >> 26;
	for (int i = PARTS - 1; i >= 0; i--) {
		bool later = (uintptr_t)block[i] >> 26 != first;

		look_for(block[i] + 100);
		c->free(block[i]);
		assert_int_equal(seen.reports, later ? 1 : 0);
		if (later && page_at((uintptr_t)block[i] + 100) == ABSENT)
			gone = true;
	}
	look_for(NULL);
	assert_true(gone);
	return arg;
}

static void parts_by(const struct hooks_calls *c)
{
	pthread_t thread;
	void *done;

	if (SANITIZED)
		return;
	assert_int_equal(c->pthread_create(&thread, NULL, outgrow, (void *)c), 0);
	pthread_join(thread, &done);
	assert_ptr_equal(done, c);
}

/* ---- threads ---- */

static unsigned at_start;

static void *on_stack(void *arg)
{
	char here[100] = "";

	at_start = seen.reports;
	look_for(here);
	return arg;
}

static void *exits(void *arg)
{
	on_stack(NULL);
	pthread_exit(arg);
}

static int on_stack_c11(void *arg)
{
	on_stack(arg);
	return 5;
}

static void threads_by(const struct hooks_calls *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	thrd_t other;
	void *done;
	int value;

	assert_int_equal(c->pthread_create(&thread, NULL, on_stack, &attr), 0);
	pthread_join(thread, &done);
	assert_ptr_equal(done, &attr);
	assert_true(seen.reports > 0 && seen.ends > 0);
	/* the next one has the stack of the last */
	seen.reports = 0;
	assert_int_equal(c->pthread_create(&thread, NULL, exits, &attr), 0);
	pthread_join(thread, &done);
	assert_ptr_equal(done, &attr);
	assert_true(at_start > 0 && seen.reports > 0 && seen.ends > 0);
	if (!HM_HOOKS_TSAN) { /* which does not know such threads */
		assert_int_equal(c->thrd_create(&other, on_stack_c11, NULL), thrd_success);
		thrd_join(other, &value);
		assert_int_equal(value, 5);
		assert_true(seen.reports > 0 && seen.ends > 0);
	}
	look_for(NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)1 << 20);
	assert_int_equal(c->pthread_create(&thread, &attr, on_stack, NULL), 0);
	pthread_join(thread, NULL);
	assert_true(seen.reports > 0 && seen.end - seen.begin < (size_t)2 << 20);
	pthread_attr_destroy(&attr);
	look_for(NULL);
}

/* ---- a registration cache that is joined ---- */

static struct {
	unsigned added, removed;
} made;

static int add(void *context, const struct hm_cache_key *key, void **data)
{
	(void)key;
	made.added++;
	*data = context;
	return 0;
}

static int remove_one(void *context, void *data)
{
	assert_ptr_equal(context, data);
	made.removed++;
	return 0;
}

static struct hm_cache cache;

/* Registrations that this use made. */
static unsigned use(const char *at)
{
	struct hm_cache_key key = { .begin = (uintptr_t)at, .end = (uintptr_t)at + 100 };
	struct hm_cache_hold hold;
	unsigned before = made.added;

	assert_int_equal(hm_cache_get(&cache, &key, &hold), 0);
	hm_cache_put(&cache, &hold);
	return made.added - before;
}

static const char *dying;

/* Another thread gets the range between the report and the call. */
static void *use_dying(void *arg)
{
	use(dying);
	return arg;
}

static void use_meanwhile(void)
{
	pthread_t thread;

	seen.meanwhile = NULL;
	assert_int_equal(pthread_create(&thread, NULL, use_dying, NULL), 0);
	pthread_join(thread, NULL);
}

static void fresh_by(const struct hooks_calls *c)
{
	char *at = map(c), *block;

	assert_int_equal(use(at), 1);
	assert_int_equal(use(at), 0);
	look_for(at);
	seen.meanwhile = use_meanwhile;
	dying = at;
	c->munmap(at, PAGES);
	assert_int_equal(seen.ends, 1);
	look_for(NULL);
	assert_ptr_equal(c->mmap(at, PAGES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
			 at);
	assert_int_equal(use(at), 1);
	assert_int_equal(use(at), 0);
	c->madvise(at, PAGE, MADV_DONTNEED);
	assert_int_equal(use(at), 1);
	c->munmap(at, PAGES);
	block = c->malloc(BIG);
	assert_int_equal(use(block), 1);
	assert_int_equal(use(block), 0);
	c->free(block);
	block = c->malloc(BIG); /* most likely there again */
	assert_int_equal(use(block), 1);
	c->free(block);
}

static void fresh(void)
{
	static const struct hm_cache_ops ops = { whole_pages, add, remove_one };
	static const struct hm_monitor *const hooks[] = { &hm_monitor_hooks, NULL };

	caller[1] = load(1);
	hm_monitor_override("memhooks", hooks, 1);
	assert_int_equal(hm_cache_init(&cache, &ops, &cache, 1000, UINT64_MAX), 0);
	assert_int_equal(hm_monitor_join(&cache), 0);
	caller[2] = load(2);
	for (int i = 0; i < CALLERS; i++)
		fresh_by(caller[i]);
	hm_monitor_leave(&cache);
	assert_int_equal(hm_cache_destroy(&cache), 0);
	assert_int_equal(made.added, made.removed);
}

CASE_EACH(cache_02_munmap, munmap_by)
CASE_EACH(cache_02_mmap_over_memory, mmap_by)
CASE_EACH(cache_02_mremap, mremap_by)
CASE_EACH(cache_02_huge_pages, huge_by)
CASE_EACH(cache_02_mremap_where_huge_pages_may_be, aligned_by)
CASE_EACH(cache_02_vectors_that_are_none, bad_vector_by)
CASE_EACH(cache_02_madvise, madvise_by)
CASE_EACH(cache_02_system_calls_by_number, syscall_by)
CASE_EACH(cache_02_shared_memory, shm_by)
CASE_EACH(cache_02_brk, brk_by)
CASE_EACH(cache_02_free, free_by)
CASE_EACH(cache_02_heap_stays, arenas_by)
CASE_EACH(cache_02_parts_of_arenas, parts_by)
CASE_EACH(cache_02_stacks_of_threads, threads_by)
CASE(fn_31_freed_memory_is_no_hit, fresh)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_02_munmap),
		cmocka_unit_test(cache_02_mmap_over_memory),
		cmocka_unit_test(cache_02_mremap),
		cmocka_unit_test(cache_02_huge_pages),
		cmocka_unit_test(cache_02_mremap_where_huge_pages_may_be),
		cmocka_unit_test(cache_02_vectors_that_are_none),
		cmocka_unit_test(cache_02_madvise),
		cmocka_unit_test(cache_02_system_calls_by_number),
		cmocka_unit_test(cache_02_shared_memory),
		cmocka_unit_test(cache_02_brk),
		cmocka_unit_test(cache_02_free),
		cmocka_unit_test(cache_02_heap_stays),
		cmocka_unit_test(cache_02_parts_of_arenas),
		cmocka_unit_test(cache_02_stacks_of_threads),
		cmocka_unit_test(fn_31_freed_memory_is_no_hit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
