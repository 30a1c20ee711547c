/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memhooks: what an allocator gives back.  An allocator of its own object (jemalloc, mimalloc, tcmalloc) calls
 * munmap and madvise through its words, which are hooked; its free is left alone.
 *
 * glibc's gives memory back inside the C library, in three ways:
 *   blocks with a mapping of their own    free unmaps them, realloc moves them: their chunk is reported, whose
 *                                         place and length are in the words before the block.
 *   the ends of the heap and of arenas    kept from being trimmed (M_TRIM_THRESHOLD), while the monitor is
 *                                         used.  So blocks in them need no report: their pages stay what they
 *                                         are, also when another block gets them.
 *   whole parts of an arena               an arena that has outgrown its first part (64 MiB) unmaps a later
 *                                         one once no block is left in it: each block there is reported when
 *                                         it is freed.  What is unmapped then holds nothing that is kept.
 * M_TRIM_THRESHOLD also ends glibc's own adjustment of what is big enough for a mapping; so that is set to where
 * the adjustment ends (32 MiB), unless the environment says otherwise.  At stop trimming is allowed again.
 *
 * All this is looked at in trial blocks at start.  Where it is not so, every block is reported when it is freed.
 */
#include "core/mr/monitor_hooks.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"

/* A chunk of glibc's: two words before the block; the second is its size and these bits. */
#define CHUNK_HEAD   (2 * sizeof(size_t))
#define CHUNK_MAPPED ((size_t)2)
#define CHUNK_ARENA  ((size_t)4)
#define CHUNK_BITS   ((size_t)7)
#define PART	     ((uintptr_t)64 << 20) /* parts of arenas are so big, and aligned */
#define MAPPED_FROM  ((size_t)32 << 20) /* blocks of this size have mappings whatever the settings */
#define TRIM_ON	     (64 << 20)		/* where glibc's adjustment ends */

static _Atomic uint32_t blocks;	   /* enum hm_hook_blocks */
static _Atomic uint32_t following; /* what hooks do; from _keep to _release */
enum {
	FOLLOW_NOTHING,
	FOLLOW_GLIBC,
	FOLLOW_EVERY
};
static bool first_parts_known;
static void *real_mallopt; /* glibc's */
static bool keeping;
static _Atomic int wanted_trim; /* the program's own M_TRIM_THRESHOLD, while it is kept off */
static _Atomic bool wants_trim;

enum hm_hook_blocks hm_hooks_blocks(void)
{
	return (enum hm_hook_blocks)atomic_load_explicit(&blocks, memory_order_relaxed);
}

/* ---- which memory of a block may go ---- */

struct range {
	uint64_t begin, end;
};

static inline size_t word_before(const void *block, unsigned words)
{
	size_t value;

	memcpy(&value, (const char *)block - words * sizeof(size_t), sizeof(value));
	return value;
}

/*
 * The first part of an arena starts with a pointer to what follows in it, later parts with the same one; the
 * first is never unmapped.
 */
static inline bool in_first_part(const void *block)
{
	uintptr_t part = (uintptr_t)block & ~(PART - 1);

	return first_parts_known && (*(const uintptr_t *)part ^ part) < PART;
}

/* Of a block with one of the bits. */
static struct range glibc_range(const void *block)
{
	size_t size = word_before(block, 1);
	uint64_t begin = (uint64_t)(uintptr_t)block - CHUNK_HEAD;

	if (size & CHUNK_MAPPED) {
		begin -= word_before(block, 2);
		return (struct range){ begin,
				       begin + word_before(block, 2) + (size & ~CHUNK_BITS) };
	}
	if (in_first_part(block))
		return (struct range){ 0, 0 };
	return (struct range){ begin, begin + (size & ~CHUNK_BITS) + sizeof(size_t) };
}

/* All that most calls of free do here. */
static inline bool may_go(const void *block)
{
	uint32_t mode = atomic_load_explicit(&following, memory_order_relaxed);

	if (__builtin_expect(mode == FOLLOW_GLIBC, 1))
		return block && word_before(block, 1) & (CHUNK_MAPPED | CHUNK_ARENA);
	return block && mode == FOLLOW_EVERY;
}

static struct range any_range(void *block);

/* Reports what goes with the block. */
static __attribute__((noinline)) unsigned begin_block(void *block)
{
	struct range r = atomic_load_explicit(&following, memory_order_relaxed) == FOLLOW_EVERY
				 ? any_range(block)
				 : glibc_range(block);

	return hm_hook_begin(r.begin, r.end);
}

static inline unsigned begin_going(void *block)
{
	return may_go(block) ? begin_block(block) : HM_HOOK_NOTHING;
}

/* ---- hooks ---- */

HM_HOOK_OF(free);
HM_HOOK_OF(realloc);
HM_HOOK_OF(reallocarray);
HM_HOOK_OF(malloc_trim);
HM_HOOK_OF(mallopt);

static void do_free(unsigned v, void *block)
{
	unsigned number;

	if (__builtin_expect(!may_go(block), 1)) {
		HM_BEFORE(free, v)(block);
		return;
	}
	number = begin_block(block);
	HM_BEFORE(free, v)(block);
	hm_hook_end(number);
}
HM_HOOK(void, free, (void *block), block);

static void *do_realloc(unsigned v, void *block, size_t size)
{
	unsigned number = begin_going(block);
	void *got = HM_BEFORE(realloc, v)(block, size);

	hm_hook_end(number);
	return got;
}
HM_HOOK(void *, realloc, (void *block, size_t size), block, size);

static void *do_reallocarray(unsigned v, void *block, size_t count, size_t size)
{
	unsigned number = begin_going(block);
	void *got = HM_BEFORE(reallocarray, v)(block, count, size);

	hm_hook_end(number);
	return got;
}
HM_HOOK(void *, reallocarray, (void *block, size_t count, size_t size), block, count, size);

/* Free pages of all arenas. */
static int do_malloc_trim(unsigned v, size_t pad)
{
	unsigned number = hm_hook_begin(0, UINT64_MAX);
	int ret = HM_BEFORE(malloc_trim, v)(pad);

	hm_hook_end(number);
	return ret;
}
HM_HOOK(int, malloc_trim, (size_t pad), pad);

/* Trimming stays off; what the program wants is done at stop. */
static int do_mallopt(unsigned v, int param, int value)
{
	if (param != M_TRIM_THRESHOLD || !atomic_load(&hm_hooks_on) || !keeping)
		return HM_BEFORE(mallopt, v)(param, value);
	atomic_store(&wanted_trim, value);
	atomic_store(&wants_trim, true);
	return 1;
}
HM_HOOK(int, mallopt, (int param, int value), param, value);

/*
 * operator delete in its forms, for allocators of which nothing is known: others' come to free, or need no
 * report.  What follows the block is size, alignment or a tag, passed on as it is.
 */
#define DELETE(name)                                                                               \
	HM_HOOK_OF(name);                                                                          \
	static void do_##name(unsigned v, void *block, size_t a, size_t b)                         \
	{                                                                                          \
		void (*before)(void *, size_t, size_t) =                                           \
			(void (*)(void *, size_t, size_t))atomic_load_explicit(                    \
				&hook_##name.before[v], memory_order_relaxed);                     \
		unsigned number = begin_going(block);                                              \
                                                                                                   \
		before(block, a, b);                                                               \
		hm_hook_end(number);                                                               \
	}                                                                                          \
	HM_HOOK(void, name, (void *block, size_t a, size_t b), block, a, b)

DELETE(_ZdlPv);
DELETE(_ZdaPv);
DELETE(_ZdlPvm);
DELETE(_ZdaPvm);
DELETE(_ZdlPvRKSt9nothrow_t);
DELETE(_ZdaPvRKSt9nothrow_t);
DELETE(_ZdlPvSt11align_val_t);
DELETE(_ZdaPvSt11align_val_t);
DELETE(_ZdlPvmSt11align_val_t);
DELETE(_ZdaPvmSt11align_val_t);

struct hm_hook *const hm_hooks_alloc[] = {
	&hook_free,
	&hook_realloc,
	&hook_reallocarray,
	&hook_malloc_trim,
	&hook_mallopt,
	&hook__ZdlPv,
	&hook__ZdaPv,
	&hook__ZdlPvm,
	&hook__ZdaPvm,
	&hook__ZdlPvRKSt9nothrow_t,
	&hook__ZdaPvRKSt9nothrow_t,
	&hook__ZdlPvSt11align_val_t,
	&hook__ZdaPvSt11align_val_t,
	&hook__ZdlPvmSt11align_val_t,
	&hook__ZdaPvmSt11align_val_t,
	NULL,
};

/* ---- what the allocator is ---- */

struct allocator {
	void *(*malloc)(size_t size);
	void (*free)(void *block);
	size_t (*usable)(void *block);
};

/* Of the program, for blocks of which nothing is known. */
static struct allocator program, libc;

static struct range any_range(void *block)
{
	uint64_t begin = (uint64_t)(uintptr_t)block;

	return (struct range){ begin, program.usable ? begin + program.usable(block) : 0 };
}

static struct allocator allocator_of(bool of_libc)
{
	return (struct allocator){
		.malloc = (__typeof__(&malloc))hm_hooks_lookup("malloc", of_libc),
		.free = (__typeof__(&free))hm_hooks_lookup("free", of_libc),
		.usable = (__typeof__(&malloc_usable_size))hm_hooks_lookup("malloc_usable_size",
									   of_libc),
	};
}

/* What is at an address that may not be there; 0: nothing.  Never faults. */
static size_t peek(uintptr_t at)
{
	size_t value = 0;
	struct iovec to = { &value, sizeof(value) }, from = { (void *)at, sizeof(value) };
	int err = errno;

	if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)sizeof(value))
		value = 0;
	errno = err;
	return value;
}

/* Are big blocks as glibc's are?  A word and bits of two different sizes, and where blocks start in their page. */
static bool is_glibc(const struct allocator *a)
{
	bool is = true;

	for (size_t more = 0; more < 2 && is; more++) {
		size_t size = MAPPED_FROM + 100 + more * 12345;
		char *block = a->malloc(size);
		size_t head;

		if (!block)
			return false;
		head = peek((uintptr_t)block - sizeof(size_t));
		is = ((uintptr_t)block & 4095) == CHUNK_HEAD &&
		     (head & CHUNK_BITS) == CHUNK_MAPPED &&
		     (head & ~CHUNK_BITS) == ((size + CHUNK_HEAD + 4095) & ~(size_t)4095) &&
		     peek((uintptr_t)block - CHUNK_HEAD) == 0;
		a->free(block);
	}
	return is;
}

/* Runs in a thread, which has an arena of its own. */
static void *look_at_part(void *arg)
{
	const struct allocator *a = arg;
	void *block = a->malloc(100);
	uintptr_t at = (uintptr_t)block, part = at & ~(PART - 1);

	/* owner, the part before, bytes in use: of the first part, which this block is in */
	if (block && (peek(at - sizeof(size_t)) & CHUNK_BITS & ~(size_t)1) == CHUNK_ARENA &&
	    peek(part) > part && peek(part) < part + 4096 && peek(part + sizeof(size_t)) == 0 &&
	    peek(part + 2 * sizeof(size_t)) <= PART && at - part < peek(part + 2 * sizeof(size_t)))
		first_parts_known = true;
	a->free(block);
	return NULL;
}

static void find_parts(struct allocator *a)
{
	const char *tunables = getenv("GLIBC_TUNABLES");
	pthread_t thread;

	first_parts_known = false;
	if (tunables && strstr(tunables, "hugetlb")) /* parts of other sizes */
		return;
	if (pthread_create(&thread, NULL, look_at_part, a) == 0)
		pthread_join(thread, NULL);
}

/*
 * An allocator of its own object gives memory back by words that are hooked, if that object has any.
 * Its own munmap and the like may be called directly, as sanitizers do: each block is reported then.
 */
static bool gives_back_by_words(void)
{
	return hm_hooks_calls_out((void *)program.free);
}

void hm_hooks_alloc_find(void)
{
	static bool done; /* by the one start that can be under way */
	enum hm_hook_blocks found;

	if (done)
		return;
	done = true;

	for (unsigned i = 0; hm_hooks_alloc[i]; i++)
		hm_hooks_alloc[i]->allocator = true;
	program = allocator_of(false);
	libc = allocator_of(true);
	real_mallopt = hm_hooks_lookup("mallopt", true);
	if (is_glibc(&program))
		found = HM_BLOCKS_GLIBC;
	else if (program.free != libc.free && gives_back_by_words())
		found = HM_BLOCKS_OTHER;
	else
		found = HM_BLOCKS_EVERY;
	if (found == HM_BLOCKS_GLIBC)
		find_parts(&program);
	else if (found == HM_BLOCKS_OTHER)
		find_parts(&libc); /* of objects that have glibc's nevertheless */
	atomic_store(&blocks, found);
}

void hm_hooks_alloc_doubt(void)
{
	atomic_store(&blocks, HM_BLOCKS_EVERY);
}

static bool is_delete(const struct hm_hook *hook)
{
	return hook->name[0] == '_';
}

enum hm_hook_take hm_hooks_alloc_take(const struct hm_hook *hook, const void *before)
{
	bool programs = before == hook->usual || before == hook->canonical;

	if (is_delete(hook))
		return hm_hooks_blocks() == HM_BLOCKS_EVERY ? HM_TAKE : HM_LEAVE;
	if (hook == &hook_mallopt || hook == &hook_malloc_trim)
		return before == hook->libc ? HM_TAKE : HM_LEAVE;
	switch (hm_hooks_blocks()) {
	case HM_BLOCKS_OTHER:
		return programs ? HM_LEAVE : before == hook->libc ? HM_TAKE : HM_CANNOT;
	case HM_BLOCKS_EVERY:
		return programs ? HM_TAKE : HM_CANNOT;
	default:
		return programs || before == hook->libc ? HM_TAKE : HM_CANNOT;
	}
}

/* ---- trimming ---- */

static bool in_environment(const char *variable, const char *tunable)
{
	const char *tunables = getenv("GLIBC_TUNABLES");

	return getenv(variable) || (tunables && strstr(tunables, tunable));
}

bool hm_hooks_alloc_keep(char *why, size_t size)
{
	int (*set)(int, int) = (int (*)(int, int))real_mallopt;

	atomic_store(&following,
		     hm_hooks_blocks() == HM_BLOCKS_EVERY ? FOLLOW_EVERY : FOLLOW_GLIBC);
	if (hm_hooks_blocks() == HM_BLOCKS_EVERY)
		return true;
	if (!set || set(M_TRIM_THRESHOLD, -1) != 1) {
		snprintf(why, size, "mallopt(M_TRIM_THRESHOLD) does not work");
		return false;
	}
	if (!in_environment("MALLOC_MMAP_THRESHOLD_", "malloc.mmap_threshold"))
		set(M_MMAP_THRESHOLD, (int)MAPPED_FROM);
	atomic_store(&wants_trim, false);
	keeping = true;
	return true;
}

/* A number as the C library reads it from the environment. */
static int trim_wanted(void)
{
	const char *tunables = getenv("GLIBC_TUNABLES"), *name = "malloc.trim_threshold=";
	const char *value = getenv("MALLOC_TRIM_THRESHOLD_");

	if (atomic_load(&wants_trim))
		return atomic_load(&wanted_trim);
	if (tunables && strstr(tunables, name))
		value = strstr(tunables, name) + strlen(name);
	return value ? (int)strtol(value, NULL, 0) : TRIM_ON;
}

void hm_hooks_alloc_release(void)
{
	int (*set)(int, int) = (int (*)(int, int))real_mallopt;

	atomic_store(&following, FOLLOW_NOTHING);
	if (keeping)
		set(M_TRIM_THRESHOLD, trim_wanted());
	keeping = false;
}
