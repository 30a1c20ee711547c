/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The allocation functions behind --wrap: they fail when the program's memory_refused(NAME) says so, and
 * count what is live.  Included once in a program, after memory_refused is defined.
 */
#ifndef HM_TEST_WRAP_MEMORY_H
#define HM_TEST_WRAP_MEMORY_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic long live;

static void *counted(void *memory)
{
	live += memory != NULL;
	return memory;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **memory, size_t align, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);

/* the linker looks at shared libraries' references, too, and wants to see these there */
#pragma GCC visibility push(default)
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **memory, size_t align, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
#pragma GCC visibility pop

void *__wrap_malloc(size_t size)
{
	return memory_refused(malloc) ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return memory_refused(calloc) ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
	void *moved;

	if (memory_refused(realloc))
		return NULL;
	moved = __real_realloc(memory, size);
	live += moved && !memory;
	return moved;
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return memory_refused(aligned_alloc) ? NULL : counted(__real_aligned_alloc(align, size));
}

int __wrap_posix_memalign(void **memory, size_t align, size_t size)
{
	int ret = memory_refused(posix_memalign) ? ENOMEM
						 : __real_posix_memalign(memory, align, size);

	live += ret == 0;
	return ret;
}

char *__wrap_strdup(const char *text)
{
	return memory_refused(strdup) ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
	live -= memory != NULL;
	__real_free(memory);
}

#endif
