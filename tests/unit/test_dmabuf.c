/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dma-buf layer over the emulated CUDA driver: which exports are shared, what they hold, how many stay
 * open (HMREG_DMABUF_KEEP, which the process reads once: the test is run with several), and who they are of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "core/base/range.h"
#include "dmabuf/dmabuf.h"
#include "tests/fds.h"
#include "tests/hmem/maker.h"

#define UNIT	((size_t)65536)
#define PAGE	((size_t)4096)
#define LEN	(4 * UNIT)
#define MANY	20
#define THREADS 4
#define ROUNDS	400

static const struct maker *const maker = &make_cuda;
static const struct emu_accel_hooks *hooks;
static unsigned int lines;

static void sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		 const char *text, void *arg)
{
	(void)subsys, (void)func, (void)line, (void)text, (void)arg;
	lines += level == FI_LOG_WARN;
}

/* ---- what must be as it was ---- */

static struct {
	size_t fds;
	long live;
	uint64_t open;
} before;

static struct dmabuf_figures figures(void)
{
	struct dmabuf_figures f;

	dmabuf_figures(&f);
	return f;
}

static int remember(void **state)
{
	(void)state;
	lines = 0;
	before.fds = test_fds();
	before.live = hooks->live("*");
	before.open = figures().open;
	return 0;
}

static int compare(void **state)
{
	(void)state;
	assert_int_equal(test_fds(), before.fds);
	assert_int_equal(hooks->live("*"), before.live);
	assert_int_equal(figures().open, before.open);
	return 0;
}

/* ---- memory ---- */

static struct made make(enum make kind)
{
	struct made made = { .kind = kind };

	assert_int_equal(maker->make(kind, maker->device(0), LEN, &made), 0);
	return made;
}

static struct hmem_memory judged(const void *addr, size_t len)
{
	struct hmem_memory memory;

	assert_int_equal(hmem_classify(addr, len, &memory), 0);
	return memory;
}

static struct dmabuf *export(const struct made *made, size_t at, size_t len, uint32_t flags,
			     bool exact)
{
	struct hmem_memory memory = judged((char *)made->addr + at, len);
	struct dmabuf *dmabuf = NULL;

	assert_int_equal(
		dmabuf_export(&memory, (char *)made->addr + at, len, flags, exact, &dmabuf), 0);
	assert_non_null(dmabuf);
	return dmabuf;
}

/* The file's bytes at the offset of an address are those of the address. */
static void check_content(const struct dmabuf *dmabuf, const struct made *made, size_t at,
			  size_t len)
{
	const void *addr = (char *)made->addr + at;
	uint64_t offset = dmabuf_offset(dmabuf, addr);
	unsigned char *is = malloc(len), *seen;

	assert_non_null(is);
	for (size_t i = 0; i < len; i++)
		is[i] = (unsigned char)(i * 13 + at + i / 251);
	assert_int_equal(hooks->poke((char *)made->addr + at, is, len), 0);
	seen = mmap(NULL, offset + len, PROT_READ, MAP_SHARED, dmabuf_fd(dmabuf), 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
	assert_memory_equal(seen + offset, is, len);
	munmap(seen, offset + len);
	free(is);
}

/* ---- sharing ---- */

static void fn_33_one_export_for_an_allocation(void **state)
{
	struct made made = make(MAKE_DEVICE), other = make(MAKE_DEVICE);
	struct dmabuf_figures start = figures();
	struct dmabuf *a = export(&made, 0, LEN, 0, false);
	struct dmabuf *b = export(&made, UNIT + 5, 100, 0, false);
	struct dmabuf *c = export(&other, 0, 100, 0, false);

	(void)state;
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, c);
	assert_int_equal(figures().exports - start.exports, 2);
	assert_int_equal(figures().shared - start.shared, 1);
	assert_int_equal(figures().open - start.open, 2);
	dmabuf_put(a, false);
	assert_int_equal(figures().open - start.open, 2);
	dmabuf_put(c, false);
	dmabuf_put(b, false);
	maker->drop(&made);
	maker->drop(&other);
}

/* The address is the same, the allocation is not. */
static void fn_29_freed_and_allocated_anew(void **state)
{
	struct made made = make(MAKE_DEVICE), again;
	struct dmabuf *old = export(&made, 0, LEN, 0, false), *new;
	bool same;

	(void)state;
	for (int i = 0;; i++) { /* mmap gives the place that was freed last */
		void *addr = made.addr;

		maker->drop(&made);
		again = make(MAKE_DEVICE);
		same = again.addr == addr;
		if (same || i == 10)
			break;
		dmabuf_put(old, false);
		made = again;
		old = export(&made, 0, LEN, 0, false);
	}
	new = export(&again, 0, LEN, 0, false);
	assert_true(same);
	assert_ptr_not_equal(new, old);
	check_content(new, &again, 0, LEN);
	dmabuf_put(old, false);
	dmabuf_put(new, false);
	maker->drop(&again);
}

static void fn_24_not_across_mappings(void **state)
{
	struct made made = make(MAKE_DEVICE);
	struct dmabuf *a = export(&made, 0, LEN, 0, false);
	struct dmabuf *b = export(&made, 0, LEN, HMEM_EXPORT_PCIE, false);

	(void)state;
	assert_ptr_not_equal(a, b);
	dmabuf_put(b, false);
	dmabuf_put(a, false);
	maker->drop(&made);
}

/* ---- extents ---- */

static void fn_07_whole_and_exact(void **state)
{
	struct made made = make(MAKE_DEVICE);
	size_t at = UNIT + PAGE + 100, len = 3 * PAGE;
	struct dmabuf *exact = export(&made, at, len, 0, true), *inside, *beside, *whole;

	(void)state;
	check_content(exact, &made, at, len);
	/* inside its pages it is shared, outside it is not */
	inside = export(&made, UNIT + PAGE, len + 100, 0, true);
	assert_ptr_equal(inside, exact);
	beside = export(&made, at, len + PAGE, 0, true);
	assert_ptr_not_equal(beside, exact);
	check_content(beside, &made, at, len + PAGE);
	dmabuf_put(inside, false);
	dmabuf_put(exact, false);
	dmabuf_put(beside, false);
	/* the whole has room for what is exact, but was no good for who asks for that */
	whole = export(&made, at, len, 0, false);
	check_content(whole, &made, 0, LEN);
	assert_int_equal(
		dmabuf_offset(whole, (char *)made.addr + at) - dmabuf_offset(whole, made.addr), at);
	exact = export(&made, 5, 7, 0, true);
	assert_ptr_not_equal(exact, whole);
	inside = export(&made, 9, 3, 0, true);
	assert_ptr_equal(inside, exact);
	dmabuf_put(whole, false);
	check_content(exact, &made, 5, 7);
	dmabuf_put(inside, false);
	dmabuf_put(exact, false);
	maker->drop(&made);
}

static void fn_08_not_over_two_allocations(void **state)
{
	struct made made = make(MAKE_VMM);
	struct hmem_memory memory = judged(made.addr, made.len);
	struct dmabuf *dmabuf = NULL;
	char host[64];

	(void)state;
	assert_int_equal(dmabuf_export(&memory, made.addr, made.len, 0, true, &dmabuf), -FI_EINVAL);
	assert_int_equal(lines, 1);
	assert_int_equal(dmabuf_of(made.addr, made.len, &dmabuf), -FI_EOPNOTSUPP);
	assert_int_equal(dmabuf_of(host, sizeof(host), &dmabuf), -FI_EOPNOTSUPP);
	assert_int_equal(lines, 1);
	assert_null(dmabuf);
	assert_int_equal(dmabuf_of((char *)made.addr + made.len / 2, 100, &dmabuf), 0);
	check_content(dmabuf, &made, made.len / 2, 100);
	dmabuf_put(dmabuf, false);
	maker->drop(&made);
}

/* ---- how many stay ---- */

static void fn_01_as_many_as_kept(void **state)
{
	size_t most = hm_param_size(HM_PARAM_DMABUF_KEEP), bound = most < MANY ? most : MANY;
	struct made made[MANY];
	struct dmabuf *d[MANY], *again;
	bool kept[MANY];

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		made[i] = make(MAKE_DEVICE);
		d[i] = export(&made[i], 0, LEN, 0, false);
		kept[i] = dmabuf_keep(d[i]);
		assert_int_equal(kept[i], i < bound);
		assert_int_equal(figures().open - before.open, i < bound ? i + 1 : bound);
	}
	if (bound > 0) { /* what is kept may be kept once more, and is found */
		again = export(&made[0], 0, 100, 0, false);
		assert_ptr_equal(again, d[0]);
		assert_true(dmabuf_keep(again));
		dmabuf_put(again, true);
		assert_int_equal(figures().open - before.open, bound);
		/* one goes, and there is room for one */
		dmabuf_put(d[0], true);
		kept[0] = false;
		again = export(&made[MANY - 1], 0, 100, 0, false);
		if (bound < MANY)
			assert_true(dmabuf_keep(again));
		dmabuf_put(again, bound < MANY);
	}
	for (size_t i = MANY; i-- > 0;) {
		if (kept[i])
			dmabuf_put(d[i], true);
		maker->drop(&made[i]);
	}
}

/* The holds of one export go in any order, the kept one first or last. */
static void fn_06_any_order(void **state)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					 { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	struct made made = make(MAKE_DEVICE);

	(void)state;
	for (size_t i = 0; i < count_of(orders); i++) {
		struct dmabuf *hold[3];
		bool kept;

		for (int k = 0; k < 3; k++)
			hold[k] = export(&made, (size_t)k * UNIT, UNIT, 0, false);
		kept = dmabuf_keep(hold[0]);
		for (int k = 0; k < 3; k++) {
			int at = orders[i][k];

			if (at != 0 || kept)
				dmabuf_put(hold[at], at == 0);
			if (k < 2 && !(k == 1 && orders[i][2] == 0 && !kept))
				assert_int_equal(figures().open - before.open, 1);
		}
		assert_int_equal(figures().open, before.open);
	}
	maker->drop(&made);
}

/* ---- who it is ---- */

static void fn_33_origin_by_inode(void **state)
{
	struct made made = make(MAKE_DEVICE);
	struct dmabuf *dmabuf = export(&made, UNIT, 100, 0, false);
	int fd = dup(dmabuf_fd(dmabuf)), other = memfd_create("other", MFD_CLOEXEC), device = -2;
	enum fi_hmem_iface iface = FI_HMEM_SYSTEM;
	struct dmabuf_id a, b;
	void *addr = NULL;
	uint64_t len = 0, size;

	(void)state;
	assert_true(fd >= 0 && other >= 0);
	assert_int_equal(dmabuf_identify(fd, &a, &size), 0);
	assert_true(size >= LEN);
	assert_int_equal(dmabuf_identify(dmabuf_fd(dmabuf), &b, &size), 0);
	assert_true(a.device == b.device && a.inode == b.inode);
	assert_int_equal(dmabuf_identify(other, &b, &size), 0);
	assert_false(a.device == b.device && a.inode == b.inode);
	/* by another number, while it is open here; the number itself says nothing */
	assert_true(dmabuf_origin(fd, &iface, &device, &addr, &len));
	assert_int_equal(iface, FI_HMEM_CUDA);
	assert_int_equal(device, maker->device(0));
	assert_ptr_equal(addr, made.addr);
	assert_true(len >= LEN);
	assert_false(dmabuf_origin(other, &iface, &device, &addr, &len));
	dmabuf_put(dmabuf, false);
	assert_false(dmabuf_origin(fd, &iface, &device, &addr, &len));
	close(fd);
	close(other);
	assert_false(dmabuf_origin(fd, &iface, &device, &addr, &len));
	assert_int_equal(dmabuf_identify(fd, &a, &size), -FI_EBADF);
	assert_int_equal(dmabuf_identify(-1, &a, &size), -FI_EBADF);
	maker->drop(&made);
}

/* ---- mapping ---- */

static void reg_06_map(void **state)
{
	int fd = memfd_create("map", MFD_CLOEXEC), pipes[2], readable;
	struct dmabuf_mapping mapping, untouched;
	char path[64];

	(void)state;
	memset(&untouched, 0x5a, sizeof(untouched));
	mapping = untouched;
	assert_int_equal(ftruncate(fd, 3 * (off_t)PAGE), 0);
	assert_int_equal(pwrite(fd, "abc", 3, PAGE + 17), 3);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	readable = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(readable >= 0);
	assert_int_equal(dmabuf_map(-1, 0, PAGE, false, &mapping), -FI_EBADF);
	assert_int_equal(dmabuf_map(pipes[0], 0, PAGE, false, &mapping), -FI_EOPNOTSUPP);
	assert_int_equal(dmabuf_map(readable, 0, PAGE, true, &mapping), -FI_EACCES);
	assert_int_equal(dmabuf_map(fd, UINT64_MAX - 2 * PAGE + 1, PAGE, false, &mapping),
			 -FI_EINVAL);
	assert_int_equal(dmabuf_map(fd, 2 * PAGE + 1, PAGE, false, &mapping), -FI_EINVAL);
	assert_int_equal(dmabuf_map(fd, 3 * PAGE, 1, true, &mapping), -FI_EINVAL);
	assert_memory_equal(&mapping, &untouched, sizeof(mapping));
	assert_int_equal(dmabuf_map(readable, PAGE + 17, 3, false, &mapping), 0);
	assert_memory_equal(mapping.at, "abc", 3);
	dmabuf_unmap(&mapping);
	assert_int_equal(dmabuf_map(fd, PAGE + 18, PAGE, true, &mapping), 0);
	memcpy(mapping.at, "z", 1);
	dmabuf_unmap(&mapping);
	assert_int_equal(pread(fd, path, 3, PAGE + 17), 3);
	assert_memory_equal(path, "azc", 3);
	close(readable);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

/* ---- threads ---- */

static struct made common[2];
static atomic_uint failures;

static void *export_often(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg * 2654435761u + 1;
	struct dmabuf *held = NULL;

	for (int i = 0; i < ROUNDS; i++) {
		const struct made *made = &common[(seed >> 9) % 2];
		size_t at = (seed >> 12) % (LEN / 2);
		struct dmabuf *dmabuf = NULL;
		struct hmem_memory memory;
		struct dmabuf_id id;
		uint64_t size;

		seed = seed * 1103515245u + 12345u;
		if (hmem_classify((char *)made->addr + at, 4000, &memory) != 0 ||
		    dmabuf_export(&memory, (char *)made->addr + at, 4000, 0, seed & 1024,
				  &dmabuf) != 0 ||
		    dmabuf_identify(dmabuf_fd(dmabuf), &id, &size) != 0) {
			failures++;
			break;
		}
		if (held)
			dmabuf_put(held, true);
		held = dmabuf_keep(dmabuf) ? dmabuf : NULL;
	}
	if (held)
		dmabuf_put(held, true);
	return NULL;
}

static void api_19_threads(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (size_t i = 0; i < count_of(common); i++)
		common[i] = make(MAKE_DEVICE);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, export_often, (void *)i), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(failures, 0);
	for (size_t i = 0; i < count_of(common); i++)
		maker->drop(&common[i]);
}

/* ---- */

static int start(void **state)
{
	const char *why = maker->open();
	struct made made;

	(void)state;
	if (why) {
		fprintf(stderr, "%s\n", why);
		return -1;
	}
	hooks = maker->hooks();
	hm_log_set_sink(sink, NULL);
	made = make(
		MAKE_DEVICE); /* what the library keeps from its first question on is there now */
	dmabuf_put(export(&made, 0, LEN, 0, false), false);
	maker->drop(&made);
	return hooks ? 0 : -1;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, remember, compare)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(fn_33_one_export_for_an_allocation),
		CASE(fn_29_freed_and_allocated_anew),
		CASE(fn_24_not_across_mappings),
		CASE(fn_07_whole_and_exact),
		CASE(fn_08_not_over_two_allocations),
		CASE(fn_01_as_many_as_kept),
		CASE(fn_06_any_order),
		CASE(fn_33_origin_by_inode),
		CASE(reg_06_map),
		CASE(api_19_threads),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
