/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that comes and goes by calls which the C library makes itself: allocators, stacks, objects. */
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/stress/fresh.h"

#define KIB	 ((size_t)1024)
#define ON_STACK (96 * KIB)

/* ---- malloc and its like ---- */

/* Around the sizes at which allocators change their ways. */
static size_t heap_size(uint64_t *random)
{
	static const size_t around[] = { 32 * KIB,  64 * KIB,  128 * KIB,
					 256 * KIB, 512 * KIB, 1024 * KIB };
	uint64_t r = stress_random(random);

	if (r % 4 == 0)
		return 8 * KIB + r / 4 % (64 * KIB);
	return around[r / 4 % 6] - 2 * KIB + r / 64 % (4 * KIB);
}

static void allocated(struct fresh_place *place, void *block, size_t len)
{
	CHECK(block);
	place->thing = block;
	place->begin = (uintptr_t)block;
	place->len = len;
	fresh_note("allocated", place->begin, place->begin + len, 0);
}

static bool make_heap(struct fresh_place *place, uint64_t *random)
{
	size_t len = heap_size(random);

	allocated(place, malloc(len), len);
	return true;
}

static void end_heap(struct fresh_place *place)
{
	fresh_note("free", place->begin, place->begin + place->len, 0);
	free(place->thing);
}

static void reallocate(struct fresh_place *place, uint64_t *random)
{
	size_t len = heap_size(random);

	fresh_note("realloc", place->begin, place->begin + place->len, len);
	allocated(place, realloc(place->thing, len), len);
}

static void align_memory(struct fresh_place *place, uint64_t *random)
{
	static const size_t alignments[] = { 64, 4 * KIB, 64 * KIB };
	size_t len = heap_size(random);

	end_heap(place);
	allocated(place, memalign(alignments[stress_random(random) % 3], len), len);
}

static void trim(struct fresh_place *place, uint64_t *random)
{
	end_heap(place);
	malloc_trim(0);
	make_heap(place, random);
}

/* ---- the end of the data segment ---- */

static bool make_brk(struct fresh_place *place, uint64_t *random)
{
	size_t ahead = -(uintptr_t)sbrk(0) % FRESH_PAGE;
	uintptr_t begin;

	place->len = fresh_size(random);
	begin = fresh_sbrk((intptr_t)(ahead + place->len));
	place->begin = (begin + FRESH_PAGE - 1) & ~(FRESH_PAGE - 1);
	return begin != 0;
}

static bool is_last(const struct fresh_place *place)
{
	return (uintptr_t)sbrk(0) == place->begin + place->len;
}

/* What somebody else's memory is behind by now stays. */
static void end_brk(struct fresh_place *place)
{
	if (is_last(place))
		CHECK(fresh_sbrk(-(intptr_t)place->len) != 0);
}

static void shrink_brk(struct fresh_place *place, uint64_t *random)
{
	uintptr_t begin;
	size_t len;

	if (!is_last(place)) {
		CHECK(make_brk(place, random));
		return;
	}
	fresh_part(place, random, &begin, &len);
	len = place->begin + place->len - begin;
	CHECK(fresh_sbrk(-(intptr_t)len) != 0);
	if (fresh_sbrk((intptr_t)len) == begin)
		return;
	place->len -= len; /* an allocator was quicker */
	if (place->len == 0)
		CHECK(make_brk(place, random));
}

/* ---- stacks of threads ---- */

static void *use_stack(void *figures)
{
	_Alignas(4096) char area[ON_STACK];
	uintptr_t begin = (uintptr_t)area, end = begin + sizeof(area);

	fresh_figures = figures;
	fresh_claim(begin, end);
	for (unsigned i = 0; i < 3; i++)
		fresh_check(begin, end, fresh_truth() == FRESH_PIN);
	fresh_note("stack ends", begin, end, 0);
	return NULL;
}

static bool make_stack(struct fresh_place *place, uint64_t *random)
{
	static const size_t sizes[] = { 256 * KIB, 1024 * KIB, 24 * 1024 * KIB };
	pthread_attr_t attr;
	pthread_t thread;

	(void)place;
	CHECK_OK(pthread_attr_init(&attr));
	CHECK_OK(pthread_attr_setstacksize(&attr, sizes[stress_random(random) % 3]));
	CHECK_OK(pthread_create(&thread, &attr, use_stack, fresh_figures));
	CHECK_OK(pthread_join(thread, NULL));
	pthread_attr_destroy(&attr);
	return false;
}

/* ---- shared objects ---- */

static _Atomic bool object_loaded; /* one place has it */
pthread_mutex_t fresh_loading = PTHREAD_MUTEX_INITIALIZER;

/* A child of fork(2) that ends by exit(3) takes a lock of the C library's that these hold. */
static void unload(void *thing)
{
	pthread_mutex_lock(&fresh_loading);
	CHECK_OK(dlclose(thing));
	pthread_mutex_unlock(&fresh_loading);
}

static bool make_object(struct fresh_place *place, uint64_t *random)
{
	char *area;

	(void)random;
	if (atomic_exchange(&object_loaded, true))
		return false;
	pthread_mutex_lock(&fresh_loading);
	place->thing = dlopen(FRESH_OBJECT, RTLD_NOW | RTLD_LOCAL);
	pthread_mutex_unlock(&fresh_loading);
	CHECK(place->thing);
	area = dlsym(place->thing, "fresh_object_area");
	CHECK(area);
	place->begin = (uintptr_t)area;
	place->len = 16 * FRESH_PAGE;
	fresh_note("dlopen", place->begin, place->begin + place->len, 0);
	return true;
}

static void end_object(struct fresh_place *place)
{
	fresh_note("dlclose", place->begin, place->begin + place->len, 0);
	unload(place->thing);
	atomic_store(&object_loaded, false);
}

/* ---- the table ---- */

static const struct fresh_family heap = { make_heap, end_heap, true, true, false };
static const struct fresh_family brk_end = { make_brk, end_brk, false, false, true };
static const struct fresh_family stack = { make_stack, NULL, true, true, false };
static const struct fresh_family object = { make_object, end_object, true, false, false };

const struct fresh_way fresh_heap_ways[] = {
	{ "free_malloc", &heap, NULL, false },	    { "realloc", &heap, reallocate, false },
	{ "memalign", &heap, align_memory, false }, { "malloc_trim", &heap, trim, false },
	{ "sbrk", &brk_end, shrink_brk, false },    { "thread_stack", &stack, NULL, false },
	{ "dlclose", &object, NULL, false },	    { NULL, NULL, NULL, false },
};
