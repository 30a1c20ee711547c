/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages, addresses and dma-bufs of an emulated device. */
#include "tests/drivers/accel/accel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/udmabuf.h>

#include "core/base/list.h"

struct accel_block {
	struct hm_list link;
	unsigned int refs;
	int file;
	char *pages; /* where the engine reaches them */
	size_t len;
	enum accel_place place;
	int device;
};

struct mapping {
	struct hm_list link;
	struct accel_range range;
	bool whole; /* of accel_alloc */
};

struct reservation {
	struct hm_list link;
	char *addr;
	size_t len;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* all of the lists, and refs */
static struct hm_list mappings = { &mappings, &mappings }; /* by address */
static struct hm_list reservations = { &reservations, &reservations };
/* Address space that was given back and is held for the next who asks; the last one first. */
static struct hm_list spares = { &spares, &spares };
static bool reuses;
static uint64_t last_id;

static size_t round_up(size_t len)
{
	return (len + ACCEL_PAGE - 1) / ACCEL_PAGE * ACCEL_PAGE;
}

/* ---- pages ---- */

static int make_file(size_t len)
{
	int file = memfd_create("accel", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (file >= 0 &&
	    (ftruncate(file, (off_t)len) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0)) {
		close(file);
		return -1;
	}
	return file;
}

/* Takes the file. */
static struct accel_block *block_of_file(int file, size_t len, enum accel_place place, int device)
{
	struct accel_block *block = calloc(1, sizeof(*block));

	if (block)
		block->pages = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (!block || block->pages == MAP_FAILED) {
		free(block);
		close(file);
		return NULL;
	}
	block->file = file;
	block->refs = 1;
	block->len = len;
	block->place = place;
	block->device = device;
	accel_live("bytes", (int)(len / ACCEL_PAGE));
	return block;
}

struct accel_block *accel_block_make(size_t len, enum accel_place place, int device)
{
	int file;

	len = round_up(len);
	file = len > 0 ? make_file(len) : -1;
	return file >= 0 ? block_of_file(file, len, place, device) : NULL;
}

int accel_block_file(const struct accel_block *block)
{
	return block->file;
}

void accel_block_get(struct accel_block *block)
{
	pthread_mutex_lock(&lock);
	block->refs++;
	pthread_mutex_unlock(&lock);
}

void accel_block_put(struct accel_block *block)
{
	unsigned int refs;

	pthread_mutex_lock(&lock);
	refs = --block->refs;
	pthread_mutex_unlock(&lock);
	if (refs > 0)
		return;
	accel_live("bytes", -(int)(block->len / ACCEL_PAGE));
	munmap(block->pages, block->len);
	close(block->file);
	free(block);
}

size_t accel_block_len(const struct accel_block *block)
{
	return block->len;
}

int accel_block_device(const struct accel_block *block)
{
	return block->device;
}

enum accel_place accel_block_place(const struct accel_block *block)
{
	return block->place;
}

/* ---- addresses ---- */

/* As drivers change mappings in the kernel: no function of the C library is called, which somebody may watch. */
static void *map_unseen(void *addr, size_t len, int prot, int flags, int file, size_t offset)
{
	long at = syscall(SYS_mmap, addr, len, prot, flags, file, offset);

	return at == -1 ? MAP_FAILED : (void *)at;
}

static void unmap_unseen(void *addr, size_t len)
{
	syscall(SYS_munmap, addr, len);
}

static void *hold_space(void *addr, size_t len)
{
	return map_unseen(addr, len, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (addr ? MAP_FIXED : 0), -1,
			  0);
}

/* Lock held.  The begin of the last spare that will do, what is behind it is given up; NULL: none. */
static char *take_spare(size_t len, size_t align)
{
	hm_list_for_each_safe(link, &spares)
	{
		struct reservation *spare = hm_list_entry(link, struct reservation, link);
		char *addr = spare->addr;

		if (spare->len < len || (uintptr_t)addr % align != 0)
			continue;
		if (spare->len > len)
			unmap_unseen(addr + len, spare->len - len);
		hm_list_del(&spare->link);
		free(spare);
		return addr;
	}
	return NULL;
}

static char *new_space(size_t len, size_t align)
{
	size_t room = len + align;
	char *at, *addr;

	if (len == 0 || room < len || (at = hold_space(NULL, room)) == MAP_FAILED)
		return NULL;
	addr = (char *)(((uintptr_t)at + align - 1) / align * align);
	if (addr > at)
		unmap_unseen(at, (size_t)(addr - at));
	if (at + room > addr + len)
		unmap_unseen(addr + len, (size_t)(at + room - addr - len));
	return addr;
}

void *accel_reserve(size_t len, size_t align)
{
	struct reservation *r = calloc(1, sizeof(*r));
	char *addr;

	if (align < ACCEL_PAGE)
		align = ACCEL_PAGE;
	len = round_up(len);
	pthread_mutex_lock(&lock);
	addr = r && len > 0 ? take_spare(len, align) : NULL;
	if (r && !addr)
		addr = new_space(len, align);
	if (addr) {
		r->addr = addr;
		r->len = len;
		hm_list_add_tail(&reservations, &r->link);
	}
	pthread_mutex_unlock(&lock);
	if (!addr)
		free(r);
	return addr;
}

/* Lock held.  Out of the list already. */
static void give_space(struct reservation *r)
{
	if (reuses) {
		hm_list_add_tail(spares.next, &r->link); /* in front */
		return;
	}
	unmap_unseen(r->addr, r->len);
	free(r);
}

void accel_reuse(bool on)
{
	pthread_mutex_lock(&lock);
	reuses = on;
	hm_list_for_each_safe(link, &spares)
	{
		if (on)
			break;
		hm_list_del(link);
		give_space(hm_list_entry(link, struct reservation, link));
	}
	pthread_mutex_unlock(&lock);
}

static struct reservation *reservation_of(const char *addr, size_t len)
{
	hm_list_for_each_safe(link, &reservations)
	{
		struct reservation *r = hm_list_entry(link, struct reservation, link);

		if (addr >= r->addr && len <= r->len && (size_t)(addr - r->addr) <= r->len - len)
			return r;
	}
	return NULL;
}

/* The first mapping that ends after addr, or NULL. */
static struct mapping *mapping_after(const char *addr)
{
	hm_list_for_each_safe(link, &mappings)
	{
		struct mapping *m = hm_list_entry(link, struct mapping, link);

		if (m->range.addr + m->range.len > addr)
			return m;
	}
	return NULL;
}

bool accel_unreserve(void *addr, size_t len)
{
	struct reservation *r;
	struct mapping *m;
	bool done = false;

	pthread_mutex_lock(&lock);
	r = reservation_of(addr, round_up(len));
	m = mapping_after(addr);
	if (r && r->addr == (char *)addr && r->len == round_up(len) &&
	    (!m || m->range.addr >= r->addr + r->len)) {
		hm_list_del(&r->link);
		give_space(r);
		done = true;
	}
	pthread_mutex_unlock(&lock);
	return done;
}

/* Lock held. */
static bool map_locked(struct mapping *m)
{
	struct accel_range *r = &m->range;
	struct mapping *next = mapping_after(r->addr);
	int prot = r->block->place == ACCEL_ON_DEVICE ? PROT_NONE : PROT_READ | PROT_WRITE;

	if (!reservation_of(r->addr, r->len) || (next && next->range.addr < r->addr + r->len) ||
	    r->offset > r->block->len || r->len > r->block->len - r->offset)
		return false;
	if (map_unseen(r->addr, r->len, prot, MAP_SHARED | MAP_FIXED, r->block->file, r->offset) ==
	    MAP_FAILED)
		return false;
	/* a tail of the next one is in front of it */
	hm_list_add_tail(next ? &next->link : &mappings, &m->link);
	r->id = ++last_id;
	r->block->refs++;
	return true;
}

bool accel_map(void *addr, size_t len, struct accel_block *block, size_t offset, int kind,
	       void *user)
{
	struct mapping *m = calloc(1, sizeof(*m));
	bool done;

	if (!m)
		return false;
	m->range = (struct accel_range){ addr, len, block, offset, kind, user, 0 };
	if (len == 0 || ((uintptr_t)addr | len | offset) % ACCEL_PAGE != 0) {
		free(m);
		return false;
	}
	pthread_mutex_lock(&lock);
	done = map_locked(m);
	pthread_mutex_unlock(&lock);
	if (done)
		accel_live("memory", 1);
	else
		free(m);
	return done;
}

bool accel_unmap(void *addr, size_t len)
{
	struct mapping *m;

	pthread_mutex_lock(&lock);
	m = mapping_after(addr);
	if (m && m->range.addr == (char *)addr && m->range.len == len) {
		hm_list_del(&m->link);
		hold_space(addr, len);
	} else {
		m = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (!m)
		return false;
	accel_block_put(m->range.block);
	free(m);
	accel_live("memory", -1);
	return true;
}

bool accel_find(const void *addr, struct accel_range *range)
{
	struct mapping *m;
	bool found;

	pthread_mutex_lock(&lock);
	m = mapping_after(addr);
	found = m && m->range.addr <= (const char *)addr;
	if (found)
		*range = m->range;
	pthread_mutex_unlock(&lock);
	return found;
}

bool accel_at(size_t index, struct accel_range *range)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	hm_list_for_each_safe(link, &mappings)
	{
		if (index-- == 0) {
			*range = hm_list_entry(link, struct mapping, link)->range;
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* Takes the block's reference. */
static void *map_whole(struct accel_block *block, size_t align, int kind, void *user)
{
	void *addr = block ? accel_reserve(block->len, align) : NULL;

	if (addr && !accel_map(addr, block->len, block, 0, kind, user)) {
		accel_unreserve(addr, block->len);
		addr = NULL;
	}
	if (block)
		accel_block_put(block);
	return addr;
}

void *accel_alloc(size_t len, size_t align, enum accel_place place, int device, int kind,
		  void *user)
{
	return map_whole(accel_block_make(len, place, device), align, kind, user);
}

void *accel_alloc_file(int file, size_t len, enum accel_place place, int device, int kind,
		       void *user)
{
	return map_whole(block_of_file(file, len, place, device), 0, kind, user);
}

bool accel_free(void *addr)
{
	struct accel_range range;

	return accel_find(addr, &range) && range.addr == (char *)addr &&
	       accel_unmap(addr, range.len) && accel_unreserve(addr, range.len);
}

/* ---- the copy engine ---- */

/* Where the engine reaches addr, and *len cut to what is there in one piece.  NULL: nowhere. */
static char *reach(const void *addr, size_t *len)
{
	struct mapping *m = mapping_after(addr);
	size_t inside;

	if (!m || m->range.addr > (const char *)addr) {
		if (reservation_of(addr, 1))
			return NULL;
		if (m && *len > (size_t)(m->range.addr - (const char *)addr))
			*len = (size_t)(m->range.addr - (const char *)addr);
		return (char *)(uintptr_t)addr;
	}
	inside = (size_t)((const char *)addr - m->range.addr);
	if (*len > m->range.len - inside)
		*len = m->range.len - inside;
	return m->range.block->pages + m->range.offset + inside;
}

/* Is anything mapped there?  A device's engine that is sent elsewhere reports it. */
static bool host_maps(const char *addr, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)addr / page * page, end = (uintptr_t)addr + len;
	unsigned char in_core[256];

	for (size_t n; at < end; at += n) {
		n = end - at < sizeof(in_core) * page ? end - at : sizeof(in_core) * page;
		if (mincore((void *)at, n, in_core) != 0 && errno == ENOMEM)
			return false;
	}
	return true;
}

/* Is all of it there?  Lock held. */
static bool reachable(const void *addr, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *here = (const char *)addr + at;
		size_t n = len - at;
		const char *there = reach(here, &n);

		if (!there || (there == here && !host_maps(here, n)))
			return false;
		at += n;
	}
	return true;
}

static void copy_piece(char *dst, const char *src, size_t at, size_t n)
{
	size_t done = 0;

	while (done < n) {
		size_t part = n - done;
		char *to = reach(dst + at + done, &part);
		const char *from = reach(src + at + done, &part);

		memmove(to, from, part);
		done += part;
	}
}

bool accel_copy(void *dst, const void *src, size_t len)
{
	const size_t step = ACCEL_PAGE;
	bool there, backward = (char *)dst > (const char *)src;

	pthread_mutex_lock(&lock);
	there = reachable(dst, len) && reachable(src, len);
	/* overlapping ends are copied from the far one; in small steps, since pages have no common order */
	if (there && (!backward || (const char *)src + len <= (char *)dst))
		copy_piece(dst, src, 0, len);
	else if (there)
		for (size_t left = len; left > 0;) {
			size_t n = left % step ? left % step : step;

			left -= n;
			copy_piece(dst, src, left, n);
		}
	pthread_mutex_unlock(&lock);
	return there;
}

bool accel_fill(void *dst, int value, size_t len)
{
	bool there;

	pthread_mutex_lock(&lock);
	there = reachable(dst, len);
	for (size_t at = 0; there && at < len;) {
		size_t n = len - at;

		memset(reach((char *)dst + at, &n), value, n);
		at += n;
	}
	pthread_mutex_unlock(&lock);
	return there;
}

/* ---- dma-bufs ---- */

static int udmabuf_call(unsigned long request, void *create)
{
	int device = getenv("EMU_ACCEL_MEMFD") ? -1 : open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int file = -1;

	if (device >= 0) {
		file = ioctl(device, request, create);
		close(device);
	}
	return file;
}

static int as_udmabuf(const struct accel_block *block)
{
	struct udmabuf_create create = { .memfd = (uint32_t)block->file,
					 .flags = UDMABUF_FLAGS_CLOEXEC,
					 .size = block->len };

	return udmabuf_call(UDMABUF_CREATE, &create);
}

int accel_dmabuf(const void *addr, size_t len, size_t *offset)
{
	struct accel_range range;
	int file;

	if (!accel_find(addr, &range) ||
	    len > range.len - (size_t)((const char *)addr - range.addr))
		return -1;
	*offset = range.offset + (size_t)((const char *)addr - range.addr);
	file = as_udmabuf(range.block);
	return file >= 0 ? file : fcntl(range.block->file, F_DUPFD_CLOEXEC, 0);
}

/* The pieces of [addr, addr + len), at most `most`; 0: not all of it is mapped, or there are more. */
static unsigned int pieces_of(const char *addr, size_t len, struct udmabuf_create_item *items,
			      unsigned int most)
{
	struct accel_range range;
	unsigned int count = 0;
	size_t part;

	for (size_t at = 0; at < len; at += part) {
		size_t inside;

		if (count == most || !accel_find(addr + at, &range))
			return 0;
		inside = (size_t)(addr + at - range.addr);
		part = range.len - inside < len - at ? range.len - inside : len - at;
		items[count++] = (struct udmabuf_create_item){ .memfd = (uint32_t)range.block->file,
							       .offset = range.offset + inside,
							       .size = part };
	}
	return count;
}

int accel_dmabuf_exact(const void *addr, size_t len)
{
	enum {
		MOST = 64
	};
	struct udmabuf_create_list *list =
		calloc(1, sizeof(*list) + MOST * sizeof(struct udmabuf_create_item));
	int file = -1;

	if (!list)
		return -1;
	list->flags = UDMABUF_FLAGS_CLOEXEC;
	list->count = pieces_of(addr, len, list->list, MOST);
	if (list->count > 0)
		file = udmabuf_call(UDMABUF_CREATE_LIST, list);
	if (file < 0 && list->count == 1 && list->list[0].offset == 0)
		file = fcntl((int)list->list[0].memfd, F_DUPFD_CLOEXEC, 0);
	free(list);
	return file;
}
