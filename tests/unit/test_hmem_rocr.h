/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the ROCr interface share; test_hmem_rocr.c has the groups they are in. */
#ifndef HM_TEST_HMEM_ROCR_H
#define HM_TEST_HMEM_ROCR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "hmem/hmem.h"
#include "tests/drivers/accel/rocr/abi.h"
#include "tests/fds.h"
#include "tests/hmem/maker.h"

#define UNIT  65536u
#define LARGE (4 * UNIT + 300) /* is not staged */

extern const struct hmem_ops *ops;
extern const struct emu_accel_hooks *hooks;

/* The last warning, and how many there were. */
extern char warning[512];
extern unsigned int warnings;

#define assert_one_warning(text)                                                                   \
	do {                                                                                       \
		assert_int_equal(warnings, 1);                                                     \
		assert_non_null(strstr(warning, text));                                            \
		warnings = 0;                                                                      \
	} while (0)

/* What was there when the test began, and has to be at its end. */
extern size_t fds_before;
extern long live_before;
int remember(void **state);
int compare(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, remember, compare)

/* The vendor's functions. */
#define VENDOR(result, name, parameters) extern result(*vendor_##name) parameters;
ROCR_ALL_FUNCTIONS(VENDOR)
#undef VENDOR

/* hooks->fail, which CMocka has a macro of that name for. */
void fail_call(const char *name, unsigned int nth, int code);
struct made make_of(enum make kind, int device, size_t len);
struct hmem_memory classified(const void *addr, size_t len);
/* Bytes that tell where they are: (i * 131 + (i >> 8)). */
void fill(const struct made *made);

struct listed {
	rocr_agent gpus[32], cpu;
	size_t count;
	size_t at[32]; /* in the runtime's list */
	size_t seen;
};

struct listed list_agents(void);

/* Tests that look what an address is, of exports, of copies and failures, on other machines. */
extern const struct CMUnitTest main_tests[], call_tests[], old_tests[], nodmabuf_tests[],
	noexport_tests[], untold_tests[], nobar_tests[], start_tests[], unnoticed_tests[],
	noticed_tests[];
extern const size_t main_count, call_count, old_count, nodmabuf_count, noexport_count, untold_count,
	nobar_count, start_count, unnoticed_count, noticed_count;
#define GROUP(name, ...)                                                                           \
	const struct CMUnitTest name##_tests[] = { __VA_ARGS__ };                                  \
	const size_t name##_count = count_of(name##_tests);

#endif
