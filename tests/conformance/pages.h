/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages that a case maps and takes away. */
#ifndef CONF_PAGES_H
#define CONF_PAGES_H

#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/harness.h"

static inline size_t conf_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* At this address, in place of what is there; of a file, or anonymous where file is -1. */
static inline uint8_t *conf_map_at(void *at, size_t pages, int file)
{
	void *mem = mmap(at, pages * conf_page(), PROT_READ | PROT_WRITE,
			 MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), file,
			 0);

	assert_true(mem != MAP_FAILED);
	return mem;
}

/*
 * Far below where the system puts mappings: a page that a test takes away would else be given to the
 * next who maps memory, such as a sanitizer, and be there again.
 */
static inline uint8_t *conf_map_pages(size_t pages, int file)
{
	void *mem = mmap((void *)UINT64_C(0x200000000000), pages * conf_page(),
			 PROT_READ | PROT_WRITE,
			 file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);

	assert_true(mem != MAP_FAILED);
	return mem;
}

#endif
