/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of Level Zero over the two emulated drivers: an interface that has started, and what must be as
 * before after each test.
 */
#ifndef HM_TEST_ZE_DRIVERS_H
#define HM_TEST_ZE_DRIVERS_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "hmem/ze.h"
#include "tests/fds.h"
#include "tests/hmem/maker.h"
#include "tests/unit/warnings.h"

#define LEN    ((size_t)131072)
#define LOADER "libze_loader.so.1"

static const struct hmem_ops *ze;
static const struct emu_accel_hooks *hooks;
static size_t fds;
static long live;

/* hooks->fail, which CMocka has a macro for. */
static void arm(const char *name, unsigned int nth, int code)
{
	(hooks->fail)(name, nth, code);
}

static int set_up(void **state)
{
	warnings_start(state);
	setenv("EMU_ZE", "delay=2", 1);
	hooks->reset();
	arm("*", 0, 0);
	fds = test_fds();
	live = hooks->live("*");
	return 0;
}

static int tear_down(void **state)
{
	static char text[4096];

	warnings_stop(state);
	if (test_fds() == fds && hooks->live("*") == live)
		return 0;
	hooks->list(text, sizeof(text));
	print_error("fds: %zu, before %zu; live: %ld, before %ld:\n%s", test_fds(), fds,
		    hooks->live("*"), live, text);
	return -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

__attribute__((unused)) static void make(enum make kind, int device, struct made *made)
{
	assert_int_equal(make_ze.make(kind, device, LEN, made), 0);
}

__attribute__((unused)) static void look_at(const struct made *made, struct hmem_memory *memory)
{
	assert_int_equal(hmem_classify(made->addr, made->len, memory), 0);
}

static int id_of(int driver, int device)
{
	return fi_hmem_ze_device(driver, device);
}

/* What body returns in a process of its own. */
__attribute__((unused)) static int in_child(int (*body)(const char *), const char *argument)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body(argument));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* 0, or the program's exit status. */
static int find_loader(void)
{
	void *loader = dlopen(LOADER, RTLD_NOW);

	if (loader)
		dlclose(loader);
	else
		printf("skipped: %s (Debian: libze1)\n", dlerror());
	return loader ? 0 : 77;
}

/* Starts the interface, and makes what it keeps: one lane on every device. */
static int start_all(void)
{
	const char *why = make_ze.open();

	hooks = why ? NULL : make_ze.hooks();
	ze = hmem_get(FI_HMEM_ZE);
	if (!hooks || !ze) {
		printf("the emulated drivers do not start: %s\n", why ? why : "");
		return 1;
	}
	hm_guard_install();
	for (int i = 0; i < 4; i++) {
		int id = id_of(i / 2, i % 2);
		char byte = 0;
		void *addr;

		if (ze->alloc(id, 1, HMEM_ALLOC_DEVICE, &addr) != 0 ||
		    ze->copy(addr, id, &byte, HMEM_NO_DEVICE, 1) != 0 ||
		    ze->free(id, addr, HMEM_ALLOC_DEVICE) != 0)
			return 1;
	}
	return 0;
}

#endif
