/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies: every direction, every pair of devices, with guard words on both sides. */
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/range.h"
#include "tests/hmem/conf_hmem.h"

#define GUARD 64

/* Sizes that are of no use to anybody's copy engine, and some that are. */
static const size_t sizes[] = { 1, 3, 4096, 4097, 65535, 65536 + 17, 2 * 65536 - 2 * GUARD };

static unsigned char *pattern_bytes(size_t len, unsigned int seed)
{
	unsigned char *bytes = malloc(len);

	assert_non_null(bytes);
	put_pattern(bytes, len, seed);
	return bytes;
}

static void fill(const struct made *made, unsigned int seed)
{
	unsigned char *bytes = pattern_bytes(made->len, seed);

	assert_int_equal(maker->write(made, 0, bytes, made->len), 0);
	free(bytes);
}

/* [GUARD, GUARD + len) is pattern seed, and the rest is what fill with `before` wrote. */
static void check_made(const struct made *made, size_t len, unsigned int seed, unsigned int before)
{
	unsigned char *bytes = malloc(made->len), *was = pattern_bytes(made->len, before);

	assert_non_null(bytes);
	assert_int_equal(maker->read(made, 0, bytes, made->len), 0);
	assert_memory_equal(bytes, was, GUARD);
	assert_true(has_pattern(bytes + GUARD, len, seed));
	assert_memory_equal(bytes + GUARD + len, was + GUARD + len, made->len - GUARD - len);
	free(bytes);
	free(was);
}

static int move(const struct hmem_place *dst, const struct hmem_place *src, size_t len, bool async)
{
	struct hmem_job *job = NULL;
	int ret;

	if (!async)
		return hmem_copy(dst, src, len);
	ret = hmem_copy_start(dst, src, len, &job);
	if (ret != 0)
		return ret;
	for (int i = 0; i < 3; i++) {
		ret = hmem_copy_end(job, false);
		if (ret != -FI_EAGAIN)
			return ret;
	}
	return hmem_copy_end(job, true);
}

static void to_and_from_host(enum make kind, int device, bool async)
{
	struct made made;

	if (!try_make(kind, device, 2 * UNIT, &made))
		return;
	for (size_t i = 0; i < count_of(sizes); i++) {
		size_t len = sizes[i];
		unsigned char *bytes = pattern_bytes(len + 2 * GUARD, 5);
		struct hmem_place host = host_place(bytes + GUARD), there = place_of(&made, GUARD);

		fill(&made, 3);
		put_pattern(bytes + GUARD, len, 9);
		assert_int_equal(move(&there, &host, len, async), 0);
		check_made(&made, len, 9, 3);
		memset(bytes, 0xee, len + 2 * GUARD);
		assert_int_equal(move(&host, &there, len, async), 0);
		assert_true(has_pattern(bytes + GUARD, len, 9));
		for (size_t g = 0; g < GUARD; g++)
			assert_true(bytes[g] == 0xee && bytes[GUARD + len + g] == 0xee);
		free(bytes);
	}
	maker->drop(&made);
}

/* Every kind on the first device and the last: those between are like them. */
static size_t step(void)
{
	return maker->devices() > 2 ? maker->devices() - 1 : 1;
}

static void copy_host_and_device(void **state)
{
	(void)state;
	for (size_t i = 0; i < maker->devices(); i += step())
		for (int kind = 0; kind < MAKE_KINDS; kind++)
			to_and_from_host(kind, maker->device(i), false);
}

static void copy_host_and_device_started(void **state)
{
	(void)state;
	for (size_t i = 0; i < maker->devices(); i += step())
		for (int kind = 0; kind < MAKE_KINDS; kind++)
			to_and_from_host(kind, maker->device(i), true);
}

static void copy_device_to_device(void **state)
{
	(void)state;
	for (size_t i = 0; i < maker->devices(); i++)
		for (size_t k = 0; k < maker->devices(); k++) {
			struct hmem_place to, from;
			struct made a, b;
			unsigned char *bytes = pattern_bytes(UNIT, 11);

			must_make(MAKE_DEVICE, maker->device(i), 2 * UNIT, &a);
			must_make(MAKE_DEVICE, maker->device(k), 2 * UNIT, &b);
			fill(&a, 1);
			fill(&b, 2);
			assert_int_equal(maker->write(&a, 100, bytes, UNIT), 0);
			to = place_of(&b, GUARD);
			from = place_of(&a, 100);
			assert_int_equal(move(&to, &from, UNIT, (i + k) % 2), 0);
			check_made(&b, UNIT, 11, 2);
			free(bytes);
			maker->drop(&a);
			maker->drop(&b);
		}
}

static void copy_overlapping(void **state)
{
	for (int backward = 0; backward < 2; backward++) {
		size_t from = backward ? GUARD : GUARD + 8, to = backward ? GUARD + 8 : GUARD;
		unsigned char *bytes = pattern_bytes(UNIT, 11), *all;
		struct hmem_place dst, src;
		struct made made;

		(void)state;
		must_make(MAKE_DEVICE, maker->device(0), 2 * UNIT, &made);
		all = malloc(made.len);
		fill(&made, 1);
		assert_int_equal(maker->write(&made, from, bytes, UNIT), 0);
		dst = place_of(&made, to);
		src = place_of(&made, from);
		if (hmem_copy(&dst, &src, UNIT) == 0) {
			assert_int_equal(maker->read(&made, 0, all, made.len), 0);
			assert_true(has_pattern(all + to, UNIT, 11));
		} else {
			assert_true(last_warning()[0]);
		}
		free(bytes);
		free(all);
		maker->drop(&made);
	}
}

static void copy_empty(void **state)
{
	struct hmem_place nowhere = host_place(NULL);
	struct hmem_job *job;

	(void)state;
	assert_int_equal(hmem_copy(&nowhere, &nowhere, 0), 0);
	assert_int_equal(hmem_copy_start(&nowhere, &nowhere, 0, &job), 0);
	assert_int_equal(hmem_copy_end(job, true), 0);
}

/* The driver is not asked to touch host memory that is not there. */
static void copy_unmapped_host(void **state)
{
	void *hole = mmap(NULL, UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct hmem_place there, host = host_place(hole);
	struct hmem_job *job;
	struct made made;

	(void)state;
	use_guard();
	must_make(MAKE_DEVICE, maker->device(0), UNIT, &made);
	there = place_of(&made, 0);
	munmap(hole, UNIT);
	faults_to_library();
	assert_int_equal(hmem_copy(&there, &host, UNIT), -FI_EFAULT);
	assert_int_equal(hmem_copy(&host, &there, UNIT), -FI_EFAULT);
	assert_int_equal(hmem_copy_start(&there, &host, UNIT, &job), -FI_EFAULT);
	maker->drop(&made);
}

static void host_memory_registered_for_copies(void **state)
{
	void *host = aligned_alloc(UNIT, UNIT);
	struct hmem_memory memory;
	int ret = ops->host_register(host, UNIT);

	(void)state;
	if (ret == -FI_ENOSYS) {
		free(host);
		skip();
	}
	assert_int_equal(ret, 0);
	assert_int_equal(hmem_classify(host, UNIT, &memory), 0);
	assert_true(memory.ways & HMEM_WAY_HOST);
	assert_int_equal(ops->host_unregister(host), 0);
	assert_int_equal(hmem_classify(host, UNIT, &memory), 0);
	assert_int_equal(memory.kind, HMEM_HOST);
	assert_true(ops->host_unregister(host) < 0);
	free(host);
}

static void memory_of_its_own(void **state)
{
	(void)state;
	for (int how = HMEM_ALLOC_DEVICE; how <= HMEM_ALLOC_MANAGED; how++) {
		struct hmem_memory memory;
		void *addr = NULL;
		int ret = ops->alloc(maker->device(0), UNIT, how, &addr);

		if (ret == -FI_ENOSYS)
			continue;
		assert_int_equal(ret, 0);
		assert_int_equal(hmem_classify(addr, UNIT, &memory), 0);
		assert_int_equal(memory.iface, maker->iface);
		if (how != HMEM_ALLOC_DEVICE)
			memset(addr, 1, UNIT);
		assert_int_equal(ops->free(maker->device(0), addr, how), 0);
		assert_true(ops->alloc(0x7fff7fff, UNIT, HMEM_ALLOC_DEVICE, &addr) < 0);
	}
}

const struct CMUnitTest copy_tests[] = {
	CONF_TEST(copy_host_and_device),
	CONF_TEST(copy_host_and_device_started),
	CONF_TEST(copy_device_to_device),
	CONF_TEST(copy_overlapping),
	CONF_TEST(copy_empty),
	CONF_TEST(copy_unmapped_host),
	CONF_TEST(host_memory_registered_for_copies),
	CONF_TEST(memory_of_its_own),
};
const size_t copy_test_count = count_of(copy_tests);
