/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address space and physical memory, mapped by the program piece by piece.  Access attributes are kept
 * apart from pages: memory that is mapped without access can be copied all the same.
 */
#include <pthread.h>
#include <stdlib.h>

#include "core/base/list.h"
#include "tests/drivers/accel/ze/ze_emu.h"

#define ACCESS_NONE	 0u
#define ACCESS_READWRITE 1u
#define ACCESS_READONLY	 2u

struct physical {
	uint32_t magic;
	struct accel_block *block;
	int kind;
};

/* Of zeVirtualMemReserve. */
struct space {
	struct hm_list link;
	char *addr;
	size_t len;
};

/* ze_physical_mem_desc_t */
struct physical_desc {
	uint32_t stype;
	const void *next;
	uint32_t flags; /* bit 1, of a later specification: on the host */
	size_t size;
};
#define STYPE_PHYSICAL_DESC 0x20u
#define PHYSICAL_ON_HOST    2u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hm_list spaces = { &spaces, &spaces };

static struct space *space_of(const char *addr)
{
	hm_list_for_each_safe(link, &spaces)
	{
		struct space *s = hm_list_entry(link, struct space, link);

		if (addr >= s->addr && (size_t)(addr - s->addr) < s->len)
			return s;
	}
	return NULL;
}

static l0_result check_pages(const void *addr, size_t size)
{
	if ((uintptr_t)addr % ACCEL_PAGE != 0)
		return L0_UNSUPPORTED_ALIGNMENT;
	return size == 0 || size % ACCEL_PAGE != 0 ? L0_UNSUPPORTED_SIZE : L0_SUCCESS;
}

/* ---- address space ---- */

static l0_result zeVirtualMemQueryPageSize(l0_context context, l0_device device, size_t size,
					   size_t *page)
{
	CALL("zeVirtualMemQueryPageSize");
	NEED(context, MAGIC_CONTEXT);
	NEED(device, MAGIC_DEVICE);
	NEED_POINTER(page);
	if (size == 0)
		return L0_UNSUPPORTED_SIZE;
	*page = ACCEL_PAGE;
	return L0_SUCCESS;
}

static l0_result zeVirtualMemReserve(l0_context context, const void *wanted, size_t size,
				     void **out)
{
	struct space *s;
	l0_result r;

	CALL("zeVirtualMemReserve");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(out);
	r = check_pages(wanted, size);
	if (r != L0_SUCCESS)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s || !(s->addr = accel_reserve(size, 0))) {
		free(s);
		return L0_OUT_OF_HOST_MEMORY;
	}
	s->len = size;
	pthread_mutex_lock(&lock);
	hm_list_add_tail(&spaces, &s->link);
	pthread_mutex_unlock(&lock);
	accel_live("reservation", 1);
	*out = s->addr;
	return L0_SUCCESS;
}

static l0_result zeVirtualMemFree(l0_context context, const void *addr, size_t size)
{
	struct space *s;

	CALL("zeVirtualMemFree");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	pthread_mutex_lock(&lock);
	s = space_of(addr);
	if (s && s->addr == addr && s->len == size && accel_unreserve(s->addr, size))
		hm_list_del(&s->link);
	else
		s = NULL;
	pthread_mutex_unlock(&lock);
	if (!s)
		return L0_INVALID_ARGUMENT;
	free(s);
	accel_live("reservation", -1);
	return L0_SUCCESS;
}

/* ---- physical memory ---- */

static l0_result zePhysicalMemCreate(l0_context context, l0_device device,
				     const struct physical_desc *desc, struct physical **out)
{
	bool on_host, wrong;
	struct physical *p;

	CALL("zePhysicalMemCreate");
	NEED(context, MAGIC_CONTEXT);
	NEED(device, MAGIC_DEVICE);
	NEED_POINTER(desc);
	NEED_POINTER(out);
	if (desc->stype != STYPE_PHYSICAL_DESC || desc->flags > 3)
		return L0_INVALID_ENUMERATION;
	if (check_pages(NULL, desc->size) != L0_SUCCESS)
		return L0_UNSUPPORTED_SIZE;
	p = calloc(1, sizeof(*p));
	if (!p)
		return L0_OUT_OF_HOST_MEMORY;
	on_host = desc->flags & PHYSICAL_ON_HOST;
	p->magic = MAGIC_MEMORY;
	p->kind = KIND_VMM | (int)(on_host ? L0_MEMORY_HOST : L0_MEMORY_DEVICE);
	if (emu_asks_export(desc->next, &wrong))
		p->kind |= KIND_EXPORT;
	if (!wrong && (!(p->kind & KIND_EXPORT) || emu_device_exports(device)))
		p->block = accel_block_make(desc->size, on_host ? ACCEL_ON_HOST : ACCEL_ON_DEVICE,
					    on_host ? -1 : emu_device_code(device));
	if (!p->block) {
		free(p);
		return L0_UNSUPPORTED_FEATURE;
	}
	accel_live("physical memory", 1);
	*out = p;
	return L0_SUCCESS;
}

/* What is mapped of it stays. */
static l0_result zePhysicalMemDestroy(l0_context context, struct physical *p)
{
	CALL("zePhysicalMemDestroy");
	NEED(context, MAGIC_CONTEXT);
	NEED(p, MAGIC_MEMORY);
	accel_block_put(p->block);
	p->magic = 0;
	free(p);
	accel_live("physical memory", -1);
	return L0_SUCCESS;
}

/* ---- mappings ---- */

static l0_result zeVirtualMemMap(l0_context context, const void *addr, size_t size,
				 struct physical *p, size_t offset, l0_access access)
{
	l0_result r;

	CALL("zeVirtualMemMap");
	NEED(context, MAGIC_CONTEXT);
	NEED(p, MAGIC_MEMORY);
	NEED_POINTER(addr);
	if (access > ACCESS_READONLY)
		return L0_INVALID_ENUMERATION;
	r = check_pages(addr, size);
	if (r != L0_SUCCESS)
		return r;
	return accel_map((void *)(uintptr_t)addr, size, p->block, offset, p->kind, context)
		       ? L0_SUCCESS
		       : L0_INVALID_ARGUMENT;
}

static l0_result zeVirtualMemUnmap(l0_context context, const void *addr, size_t size)
{
	struct accel_range range;
	l0_result r;

	CALL("zeVirtualMemUnmap");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	r = check_pages(addr, size);
	if (r != L0_SUCCESS)
		return r;
	if (!accel_find(addr, &range) || !(range.kind & KIND_VMM))
		return L0_INVALID_ARGUMENT;
	emu_forget_fd(&range);
	return accel_unmap((void *)(uintptr_t)addr, size) ? L0_SUCCESS : L0_INVALID_ARGUMENT;
}

static l0_result zeVirtualMemSetAccessAttribute(l0_context context, const void *addr, size_t size,
						l0_access access)
{
	struct accel_range range;
	l0_result r;

	CALL("zeVirtualMemSetAccessAttribute");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	if (access > ACCESS_READONLY)
		return L0_INVALID_ENUMERATION;
	r = check_pages(addr, size);
	if (r != L0_SUCCESS)
		return r;
	return accel_find(addr, &range) && (range.kind & KIND_VMM) ? L0_SUCCESS
								   : L0_INVALID_ARGUMENT;
}

static l0_result zeVirtualMemGetAccessAttribute(l0_context context, const void *addr, size_t size,
						l0_access *access, size_t *out)
{
	struct accel_range range;
	bool known;
	l0_result r;

	CALL("zeVirtualMemGetAccessAttribute");
	NEED(context, MAGIC_CONTEXT);
	NEED_POINTER(addr);
	NEED_POINTER(access);
	NEED_POINTER(out);
	r = check_pages(addr, size);
	if (r != L0_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	known = space_of(addr) != NULL;
	pthread_mutex_unlock(&lock);
	if (!known)
		return L0_INVALID_ARGUMENT;
	*access = ACCESS_NONE;
	*out = size;
	if (accel_find(addr, &range)) {
		*access = ACCESS_READWRITE;
		*out = range.len - (size_t)((const char *)addr - range.addr);
	}
	return L0_SUCCESS;
}

const struct emu_entry emu_virtual_entries[] = {
	ENTRY(PHYSICAL, CREATE, zePhysicalMemCreate),
	ENTRY(PHYSICAL, DESTROY, zePhysicalMemDestroy),
	ENTRY(VIRTUAL, RESERVE, zeVirtualMemReserve),
	ENTRY(VIRTUAL, FREE, zeVirtualMemFree),
	ENTRY(VIRTUAL, PAGE, zeVirtualMemQueryPageSize),
	ENTRY(VIRTUAL, MAP, zeVirtualMemMap),
	ENTRY(VIRTUAL, UNMAP, zeVirtualMemUnmap),
	ENTRY(VIRTUAL, SET_ACCESS, zeVirtualMemSetAccessAttribute),
	ENTRY(VIRTUAL, GET_ACCESS, zeVirtualMemGetAccessAttribute),
	ENTRIES_END
};
