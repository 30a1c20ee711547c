/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fails the library's allocations one by one, and counts those that live. The test is linked with
 * --wrap for malloc, calloc, strdup and free. Include after <cmocka.h>.
 */
#ifndef HM_TEST_ALLOC_FAIL_H
#define HM_TEST_ALLOC_FAIL_H

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ALLOC_EVERY UINT_MAX

static long alloc_live;	     /* allocations less frees */
static unsigned alloc_calls; /* since alloc_fail_at */
static unsigned alloc_fails; /* the call that fails, from 1; 0: none; ALLOC_EVERY */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static bool alloc_fails_now(void)
{
	return ++alloc_calls == alloc_fails || alloc_fails == ALLOC_EVERY;
}

static void *alloc_counted(void *memory)
{
	alloc_live += memory != NULL;
	return memory;
}

void *__wrap_malloc(size_t size)
{
	return alloc_fails_now() ? NULL : alloc_counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return alloc_fails_now() ? NULL : alloc_counted(__real_calloc(count, size));
}

char *__wrap_strdup(const char *text)
{
	return alloc_fails_now() ? NULL : alloc_counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
	alloc_live -= memory != NULL;
	__real_free(memory);
}

/* Fail the call-th allocation from now on, and no other; 0: none; ALLOC_EVERY: all. */
static void alloc_fail_at(unsigned call)
{
	alloc_calls = 0;
	alloc_fails = call;
}

/* Did that allocation come, and so fail? */
static bool alloc_failed(void)
{
	unsigned first = alloc_fails == ALLOC_EVERY ? 1 : alloc_fails;
	bool failed = first && alloc_calls >= first;

	alloc_fails = 0;
	return failed;
}

#endif
