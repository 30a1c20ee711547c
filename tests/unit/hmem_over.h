/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An interface of the hmem layer over its emulated driver: what such tests share, for drivers that cannot
 * be asked what an address is.
 */
#ifndef HMEM_OVER_H
#define HMEM_OVER_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "hmem/hmem.h"
#include "tests/fds.h"
#include "tests/hmem/maker.h"

#define KIB 1024u

static const struct hmem_ops *ops;
static const struct maker *maker;
static const struct emu_accel_hooks *hooks;

/* ---- the log ---- */

static struct {
	unsigned int lines;
	char text[4096]; /* the last one */
	char wanted[64];
	bool seen; /* a line had wanted in it */
} logged;

static void sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		 const char *text, void *arg)
{
	(void)level, (void)subsys, (void)func, (void)line, (void)arg;
	logged.lines++;
	snprintf(logged.text, sizeof(logged.text), "%s", text);
	if (logged.wanted[0] && strstr(text, logged.wanted))
		logged.seen = true;
}

static void forget_log(const char *wanted)
{
	memset(&logged, 0, sizeof(logged));
	snprintf(logged.wanted, sizeof(logged.wanted), "%.*s", (int)sizeof(logged.wanted) - 1,
		 wanted);
}

static inline void check_log(const char *text)
{
	if (!strstr(logged.text, text))
		fail_msg("\"%s\" does not say \"%s\"", logged.text, text);
}

/* ---- what must be as it was ---- */

struct baseline {
	size_t fds;
	long live;
};

static struct baseline now(void)
{
	return (struct baseline){ test_fds(), hooks->live("*") };
}

static void check_baseline(struct baseline before)
{
	char text[4096] = "";

	assert_int_equal(test_fds(), before.fds);
	if (hooks->live("*") != before.live) {
		hooks->list(text, sizeof(text));
		fail_msg("%ld live objects, not %ld:\n%s", hooks->live("*"), before.live, text);
	}
}

/* ---- memory ---- */

static struct made made_on(int device, size_t len)
{
	struct made made;

	assert_int_equal(maker->make(MAKE_DEVICE, device, len, &made), 0);
	return made;
}

static void *own_on(int device, size_t len)
{
	void *addr = NULL;

	assert_int_equal(ops->alloc(device, len, HMEM_ALLOC_DEVICE, &addr), 0);
	assert_non_null(addr);
	return addr;
}

static void drop_own(int device, void *addr)
{
	assert_int_equal(ops->free(device, addr, HMEM_ALLOC_DEVICE), 0);
}

static void pattern(unsigned char *bytes, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static void peek(const void *addr, void *out, size_t len)
{
	assert_int_equal(hooks->peek(addr, out, len), 0);
}

/* The bytes that an export describes at its offset are those at addr. */
static void check_export(const struct hmem_export *exported, const void *addr, size_t len)
{
	unsigned char *seen = malloc(len), *is = malloc(len);
	off_t size = lseek(exported->fd, 0, SEEK_END);
	char *map;

	assert_true(size >= (off_t)(exported->offset + len));
	map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, exported->fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	memcpy(seen, map + exported->offset, len);
	munmap(map, (size_t)size);
	peek(addr, is, len);
	assert_memory_equal(seen, is, len);
	free(seen);
	free(is);
}

static struct hmem_memory judged(const void *addr, size_t len)
{
	struct hmem_memory memory;

	assert_int_equal(hmem_classify(addr, len, &memory), 0);
	return memory;
}

/* ---- copies, with guard words on both sides of what is written ---- */

#define GUARD 64u

static void check_copy(void *dst, int dst_device, const void *src, int src_device, size_t len)
{
	size_t all = len + 2 * GUARD;
	unsigned char *want = malloc(all), *got = malloc(all), *from = malloc(len);

	pattern(want, all, 3);
	pattern(from, len, 91);
	assert_int_equal(hooks->poke(dst, want, all), 0);
	assert_int_equal(hooks->poke((void *)(uintptr_t)src, from, len), 0);
	memcpy(want + GUARD, from, len);
	assert_int_equal(ops->copy((char *)dst + GUARD, dst_device, src, src_device, len), 0);
	peek(dst, got, all);
	assert_memory_equal(got, want, all);
	free(want);
	free(got);
	free(from);
}

static void check_overlap(char *addr, int device, size_t to, size_t from, size_t len)
{
	size_t all = (to > from ? to : from) + len;
	unsigned char *want = malloc(all), *got = malloc(all);

	pattern(want, all, 17);
	assert_int_equal(hooks->poke(addr, want, all), 0);
	memmove(want + to, want + from, len);
	assert_int_equal(ops->copy(addr + to, device, addr + from, device, len), 0);
	peek(addr, got, all);
	assert_memory_equal(got, want, all);
	free(want);
	free(got);
}

static void copy_everywhere(void)
{
	size_t len = 700 * KIB + 13, room = len + 2 * GUARD;
	struct made foreign = made_on(0, room);
	void *own[3] = { own_on(0, room), own_on(0, room), own_on(1, room) };
	char *host = malloc(room);

	assert_non_null(host);
	check_copy(own[0], 0, host, HMEM_NO_DEVICE, len);
	check_copy(host, HMEM_NO_DEVICE, own[0], 0, len);
	check_copy(foreign.addr, 0, host, HMEM_NO_DEVICE, len);
	check_copy(host, HMEM_NO_DEVICE, foreign.addr, 0, len);
	check_copy(own[1], 0, own[0], 0, len);
	check_copy(own[2], 1, own[0], 0, len);
	check_copy(foreign.addr, 0, own[2], 1, len);
	check_copy(own[1], 0, host, HMEM_NO_DEVICE, 1);
	check_overlap(own[0], 0, 4000, 0, 600 * KIB);
	check_overlap(own[0], 0, 0, 4000, 600 * KIB);
	check_overlap(foreign.addr, 0, 65536, 0, 400 * KIB);
	free(host);
	for (int i = 0; i < 3; i++)
		drop_own(i / 2, own[i]);
	maker->drop(&foreign);
}

/* ---- faults ---- */

/* All that an interface does with a piece of memory; the first error, everything given back. */
static int use(int device, size_t len)
{
	struct hmem_memory memory;
	struct hmem_export exported;
	char host[128] = "abc";
	void *addr = NULL;
	int ret = ops->alloc(device, len, HMEM_ALLOC_DEVICE, &addr);

	if (ret != 0)
		return ret;
	ret = hmem_classify_as(ops->iface, device, 0, addr, len, &memory);
	if (ret == 0)
		ret = ops->copy(addr, device, host, HMEM_NO_DEVICE, sizeof(host));
	if (ret == 0)
		ret = ops->copy(host, HMEM_NO_DEVICE, addr, device, sizeof(host));
	if (ret == 0)
		ret = ops->copy((char *)addr + 4096, device, addr, device, 4096);
	if (ret == 0)
		ret = ops->export_start(&memory, addr, len, 0, &exported);
	if (ret == 0)
		ops->export_end(&exported);
	if (ops->free(device, addr, HMEM_ALLOC_DEVICE) != 0) {
		/* the driver refused once; it is still there, and goes now */
		assert_int_equal(ops->free(device, addr, HMEM_ALLOC_DEVICE), 0);
		ret = ret ? ret : -FI_EIO;
	}
	return ret;
}

/* The calls that use makes fail one after the other. */
static void fail_each(int code, const char *const *silent)
{
	char names[64][48];
	size_t count = 0;
	const char *name;
	struct baseline before;

	assert_int_equal(use(0, 64 * KIB), 0);
	hooks->reset();
	assert_int_equal(use(0, 64 * KIB), 0);
	while (count < 64 && (name = hooks->name(count)))
		snprintf(names[count++], sizeof(names[0]), "%s", name);
	assert_true(count > 5);
	before = now();
	for (size_t i = 0; i < count; i++) {
		bool quiet = false;
		int ret;

		for (const char *const *s = silent; *s; s++)
			quiet |= strcmp(*s, names[i]) == 0;
		forget_log(names[i]);
		(hooks->fail)(names[i], 1, code);
		ret = use(0, 64 * KIB);
		(hooks->fail)(names[i], 0, 0);
		if (!quiet && (ret == 0 || !logged.seen))
			fail_msg("%s: returns %d, the last line is \"%s\"", names[i], ret,
				 logged.text);
		forget_log("");
		assert_int_equal(use(0, 64 * KIB), 0);
		assert_int_equal(logged.lines, 0);
		check_baseline(before);
	}
}

static void *use_often(void *device)
{
	for (int i = 0; i < 200; i++)
		if (use((int)(intptr_t)device, 64 * KIB) != 0)
			return device;
	return NULL;
}

static void use_from_two_threads(void)
{
	struct baseline before;
	pthread_t threads[2];
	void *failed[2];

	for (int round = 0; round < 2; round++) {
		before = now();
		for (intptr_t i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, use_often, (void *)i),
					 0);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], &failed[i]);
		assert_null(failed[0]);
		assert_null(failed[1]);
	}
	check_baseline(before);
}

static void export_a_thousand_times(const void *addr, size_t len)
{
	struct baseline before = now();
	struct hmem_export exported;
	struct hmem_memory memory;

	for (int i = 0; i < 1000; i++) {
		memory = judged(addr, len);
		assert_int_equal(ops->export_start(&memory, addr, len, 0, &exported), 0);
		ops->export_end(&exported);
	}
	check_baseline(before);
}

/* ---- judgements that all such drivers share ---- */

static void check_refused(enum fi_hmem_iface iface, int device, uint64_t flags, const void *addr,
			  size_t len, int ret, const char *text)
{
	struct hmem_memory memory;

	forget_log("");
	assert_int_equal(hmem_classify_as(iface, device, flags, addr, len, &memory), ret);
	assert_int_equal(logged.lines, 1);
	check_log(text);
}

static void check_owners(void)
{
	char named[48], found[48];
	struct hmem_memory memory;
	struct made made = made_on(1, 64 * KIB);
	char *host = malloc(4096);

	assert_non_null(host);
	assert_int_equal(hmem_classify_as(ops->iface, 1, 0, made.addr, made.len, &memory), 0);
	assert_int_equal(memory.device, 1);
	hmem_owner_text(ops->iface, 0, named);
	hmem_owner_text(ops->iface, 1, found);
	check_refused(ops->iface, 0, 0, made.addr, made.len, -FI_EINVAL, named);
	check_log(found);
	check_refused(FI_HMEM_SYSTEM, 0, 0, made.addr, made.len, -FI_EINVAL, found);
	check_refused(FI_HMEM_CUDA, 0, 0, made.addr, made.len, -FI_ENOSYS, "cuda");
	check_refused(ops->iface, 77, 0, made.addr, made.len, -FI_ENODEV, "no device 77");
	check_refused(ops->iface, -1, 0, made.addr, made.len, -FI_ENODEV, "no device -1");
	check_refused(ops->iface, 0, 0, host, 4096, -FI_EINVAL, "host");
	check_refused(ops->iface, 0, FI_HMEM_HOST_ALLOC, made.addr, made.len, -FI_EINVAL,
		      "HOST_ALLOC");
	check_refused(FI_HMEM_SYSTEM, 0, FI_HMEM_DEVICE_ONLY, host, 4096, -FI_EINVAL,
		      "DEVICE_ONLY");
	free(host);
	maker->drop(&made);
}

/* ---- cases of all such drivers ---- */

static void fn_07_own_memory_with_its_offset(void **state)
{
	char *addr = own_on(0, 192 * KIB);
	struct hmem_memory memory = judged(addr, 192 * KIB);
	struct hmem_export exported;
	unsigned char *bytes = malloc(192 * KIB);

	(void)state;
	pattern(bytes, 192 * KIB, 5);
	assert_int_equal(hooks->poke(addr, bytes, 192 * KIB), 0);
	for (size_t at = 0; at < 192 * KIB; at += 68 * KIB) {
		assert_int_equal(ops->export_start(&memory, addr + at, 4096, 0, &exported), 0);
		assert_int_equal(exported.offset, at);
		check_export(&exported, addr + at, 4096);
		ops->export_end(&exported);
	}
	free(bytes);
	drop_own(0, addr);
}

static void fn_01_a_thousand_exports(void **state)
{
	struct made made = made_on(1, 64 * KIB);
	void *own = own_on(0, 64 * KIB);

	(void)state;
	export_a_thousand_times(made.addr, 64 * KIB);
	export_a_thousand_times(own, 64 * KIB);
	drop_own(0, own);
	maker->drop(&made);
}

static void copies(void **state)
{
	(void)state;
	copy_everywhere();
}

static void two_threads(void **state)
{
	(void)state;
	use_from_two_threads();
}

/* ---- */

static int start_over(const struct maker *with)
{
	const char *why;

	hm_log_set_sink(sink, NULL);
	maker = with;
	why = maker->open();
	if (why) {
		fprintf(stderr, "%s\n", why);
		return -1;
	}
	hooks = maker->hooks();
	ops = hmem_get(maker->iface);
	return hooks && ops ? 0 : -1;
}

#endif
