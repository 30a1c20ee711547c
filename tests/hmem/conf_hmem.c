/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/hmem/conf_hmem.h"

#include <signal.h>
#include <stdlib.h>

#include "core/base/guard.h"
#include "core/base/log.h"
#include "core/base/range.h"

const struct maker *maker;
const struct hmem_ops *ops;

static struct sigaction guard_action;
static char warning[512];
static size_t baseline_fds;
static long baseline_live;

const struct expected expected[MAKE_KINDS] = {
	[MAKE_DEVICE] = { HMEM_DEVICE, HMEM_WAY_COPY, HMEM_WAY_HOST, true },
	[MAKE_HOST] = { HMEM_HOST_ALLOC, HMEM_WAY_HOST, HMEM_WAY_DMABUF | HMEM_WAY_PEER, false },
	[MAKE_REGISTERED] = { HMEM_HOST_ALLOC, HMEM_WAY_HOST, HMEM_WAY_DMABUF | HMEM_WAY_PEER,
			      false },
	[MAKE_MANAGED] = { HMEM_MANAGED, HMEM_WAY_COPY, HMEM_WAY_DMABUF | HMEM_WAY_PEER, false },
	[MAKE_VMM] = { HMEM_VMM, HMEM_WAY_DMABUF | HMEM_WAY_COPY, HMEM_WAY_HOST, true },
	[MAKE_VMM_NO_RDMA] = { HMEM_VMM, HMEM_WAY_COPY,
			       HMEM_WAY_HOST | HMEM_WAY_DMABUF | HMEM_WAY_PEER, true },
	[MAKE_VMM_HOST] = { HMEM_VMM_HOST, HMEM_WAY_HOST, HMEM_WAY_DMABUF | HMEM_WAY_PEER, false },
	[MAKE_POOL] = { HMEM_POOL, HMEM_WAY_DMABUF | HMEM_WAY_COPY, HMEM_WAY_HOST | HMEM_WAY_PEER,
			true },
	[MAKE_POOL_PRIVATE] = { HMEM_POOL, HMEM_WAY_COPY,
				HMEM_WAY_HOST | HMEM_WAY_DMABUF | HMEM_WAY_PEER, true },
	[MAKE_IMPORTED] = { HMEM_IMPORTED, HMEM_WAY_COPY,
			    HMEM_WAY_HOST | HMEM_WAY_DMABUF | HMEM_WAY_PEER, true },
	[MAKE_PRIVATE] = { HMEM_DEVICE, HMEM_WAY_COPY, HMEM_WAY_HOST | HMEM_WAY_DMABUF, true },
};

bool try_make(enum make kind, int device, size_t len, struct made *made)
{
	const char *why = maker->cannot(kind, device);

	if (why) {
		print_message("%s has no %s: %s\n", maker->name, make_name(kind), why);
		return false;
	}
	*made = (struct made){ .kind = kind, .device = device };
	assert_int_equal(maker->make(kind, device, len, made), 0);
	assert_true(made->len >= len);
	return true;
}

void must_make(enum make kind, int device, size_t len, struct made *made)
{
	if (!try_make(kind, device, len, made))
		skip();
}

void put_pattern(unsigned char *bytes, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (unsigned char)((i + seed) * 167 + (i >> 8) + seed);
}

bool has_pattern(const unsigned char *bytes, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != (unsigned char)((i + seed) * 167 + (i >> 8) + seed))
			return false;
	return true;
}

struct hmem_place place_of(const struct made *made, size_t offset)
{
	struct hmem_memory memory;

	assert_int_equal(hmem_classify((char *)made->addr + offset, 1, &memory), 0);
	return (struct hmem_place){ (char *)made->addr + offset, memory.iface, memory.device };
}

struct hmem_place host_place(void *addr)
{
	return (struct hmem_place){ addr, FI_HMEM_SYSTEM, HMEM_NO_DEVICE };
}

void use_guard(void)
{
	sigaction(SIGSEGV, &guard_action, NULL);
}

static long live(void)
{
	return maker->hooks() ? maker->hooks()->live("*") : 0;
}

int remember_baseline(void **state)
{
	(void)state;
	warning[0] = 0;
	baseline_fds = test_fds();
	baseline_live = live();
	return 0;
}

int check_baseline(void **state)
{
	char list[2048] = "";

	(void)state;
	if (test_fds() != baseline_fds)
		print_error("%zu file descriptors were open, now %zu\n", baseline_fds, test_fds());
	if (live() != baseline_live) {
		maker->hooks()->list(list, sizeof(list));
		print_error("%ld objects of the driver were live, now %ld:\n%s", baseline_live,
			    live(), list);
	}
	return test_fds() == baseline_fds && live() == baseline_live ? 0 : -1;
}

static void keep_warning(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
			 int line, const char *text, void *arg)
{
	(void)subsys, (void)func, (void)line, (void)arg;
	if (level == FI_LOG_WARN)
		snprintf(warning, sizeof(warning), "%s", text);
}

static struct sigaction library_handler;

void faults_to_library(void)
{
	sigaction(SIGSEGV, &library_handler, NULL);
}

const char *last_warning(void)
{
	return warning;
}

static void export_once(const struct made *made)
{
	struct hmem_memory memory;
	struct hmem_export out;

	if (hmem_classify(made->addr, UNIT, &memory) == 0 && (memory.ways & HMEM_WAY_DMABUF) &&
	    ops->export_unit && ops->export_start(&memory, made->addr, UNIT, 0, &out) == 0)
		ops->export_end(&out);
}

/*
 * What is made once and stays (contexts, streams, an IPC exporter, a driver's own files) is made before any
 * baseline is taken: each kind, one copy each way, and one export.
 */
static void warm_up(void)
{
	for (int kind = 0; kind < MAKE_KINDS; kind++)
		for (size_t i = 0; i < maker->devices(); i++) {
			struct made made;
			char byte = 0;
			struct hmem_place host = host_place(&byte), there;

			if (maker->cannot(kind, maker->device(i)) ||
			    !try_make(kind, maker->device(i), 2 * UNIT, &made))
				continue;
			there = place_of(&made, 0);
			hmem_copy(&host, &there, 1);
			hmem_copy(&there, &host, 1);
			export_once(&made);
			maker->drop(&made);
		}
}

static int run(const char *name, const struct CMUnitTest *tests, size_t count)
{
	return _cmocka_run_group_tests(name, tests, count, NULL, NULL) != 0;
}

int main(int argc, char **argv)
{
	const char *why;

	maker = argc == 2 ? maker_of(argv[1]) : NULL;
	if (!maker) {
		fprintf(stderr, "usage: conf_hmem cuda|rocr|ze|neuron|synapseai\n");
		return 2;
	}
	hm_log_set_sink(keep_warning, NULL);
	hm_guard_install();
	sigaction(SIGSEGV, NULL, &guard_action);
	why = maker->open();
	if (why) {
		printf("skipped: %s: %s\n", maker->name, why);
		return 77;
	}
	ops = hmem_get(maker->iface);
	if (!ops) {
		struct hmem_status status;

		hmem_status(maker->iface, &status);
		fprintf(stderr, "%s: the driver is there, but the interface is not: %s\n",
			maker->name, status.reason);
		return 1;
	}
	hm_guard_install();
	sigaction(SIGSEGV, NULL, &library_handler);
	warm_up();
	return run("kinds", kind_tests, kind_test_count) |
	       run("copies", copy_tests, copy_test_count) |
	       run("exports", export_tests, export_test_count) |
	       run("owners", owner_tests, owner_test_count);
}
