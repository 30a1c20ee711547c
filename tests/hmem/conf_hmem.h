/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conformance of memory interfaces: one program, the interface by its name ("conf_hmem cuda"), over the
 * emulated driver or a real one.
 */
#ifndef CONF_HMEM_H
#define CONF_HMEM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "hmem/hmem.h"
#include "tests/fds.h"
#include "tests/hmem/maker.h"

extern const struct maker *maker;
extern const struct hmem_ops *ops;

#define UNIT                                                                                       \
	((size_t)65536) /* lengths of these tests are multiples of it, for the coarsest driver */

/* What a kind is judged to be. */
struct expected {
	enum hmem_kind kind;
	uint32_t has, lacks; /* HMEM_WAY_* */
	bool on_device;	     /* it has a device; else HMEM_NO_DEVICE is allowed as well */
};
extern const struct expected expected[MAKE_KINDS];

/* Makes memory or skips the test, with the reason; len is at least what was asked for. */
bool try_make(enum make kind, int device, size_t len, struct made *made);
void must_make(enum make kind, int device, size_t len, struct made *made);
/* The pattern with this seed, and whether memory has it. */
void put_pattern(unsigned char *bytes, size_t len, unsigned int seed);
bool has_pattern(const unsigned char *bytes, size_t len, unsigned int seed);
struct hmem_place place_of(const struct made *made, size_t offset);
struct hmem_place host_place(void *addr);

/* The library's guard gets its signal back, which CMocka takes at the begin of each test. */
void use_guard(void);

/* Driver objects, fds: the same before and after each test. */
int remember_baseline(void **state);
int check_baseline(void **state);

/* Until the test ends, faults go to the library, as in a program; CMocka has put its own handler there. */
void faults_to_library(void);

/* The last warning of the library, of all since the test began; "" none. */
const char *last_warning(void);

#define CONF_TEST(name) cmocka_unit_test_setup_teardown(name, remember_baseline, check_baseline)

extern const struct CMUnitTest kind_tests[], copy_tests[], export_tests[], owner_tests[];
extern const size_t kind_test_count, copy_test_count, export_test_count, owner_test_count;

#endif
