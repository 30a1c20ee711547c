/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is a dma-buf; see memory.h. */
#include "memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

/*
 * The three requests to a graphics driver that are used here, as the kernel defines them; Debian has
 * its headers in another package.
 */
struct graphics_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t description_len;
	char *description;
};

struct graphics_buffer {
	uint32_t height, width, bits_per_pixel, flags;
	uint32_t handle, pitch;
	uint64_t size;
};

struct graphics_export {
	uint32_t handle, flags;
	int32_t fd;
};

#define GRAPHICS_VERSION       _IOWR('d', 0x00, struct graphics_version)
#define GRAPHICS_CREATE_BUFFER _IOWR('d', 0xb2, struct graphics_buffer)
#define GRAPHICS_EXPORT	       _IOWR('d', 0x2d, struct graphics_export)

static const char *const names[MEMORY_KINDS] = {
	[MEMORY_UDMABUF] = "udmabuf",
	[MEMORY_UDMABUF_LIST] = "udmabuf_list",
	[MEMORY_HEAP] = "dma_heap",
	[MEMORY_VGEM] = "vgem",
};

const char *memory_name(enum memory_kind kind)
{
	return names[kind];
}

/* The value, or the end of the test. */
static int must(int value, const char *what)
{
	if (value < 0)
		fail_msg("%s: %s", what, strerror(errno));
	return value;
}

static void map(struct memory *memory, int fd)
{
	memory->map = mmap(NULL, memory->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory->map == MAP_FAILED)
		fail_msg("mmap: %s", strerror(errno));
}

static void make_udmabuf(struct memory *memory, bool list)
{
	int file = must(memfd_create("vm", MFD_ALLOW_SEALING | MFD_CLOEXEC), "memfd_create");
	int device = must(open("/dev/udmabuf", O_RDWR | O_CLOEXEC), "/dev/udmabuf");

	must(ftruncate(file, (off_t)memory->len), "ftruncate");
	must(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), "F_SEAL_SHRINK");
	map(memory, file);
	if (list) {
		size_t half = memory->len / 2;
		union {
			struct udmabuf_create_list list;
			uint64_t room[1 + 2 * sizeof(struct udmabuf_create_item) / 8];
		} create = { .room = { 0 } };

		create.list.flags = UDMABUF_FLAGS_CLOEXEC;
		create.list.count = 2;
		create.list.list[0] = (struct udmabuf_create_item){ .memfd = (uint32_t)file,
								    .offset = half,
								    .size = half };
		create.list.list[1] = (struct udmabuf_create_item){ .memfd = (uint32_t)file,
								    .offset = 0,
								    .size = half };
		memory->fd = must(ioctl(device, UDMABUF_CREATE_LIST, &create.list),
				  "UDMABUF_CREATE_LIST");
		memory->turn = half;
	} else {
		struct udmabuf_create create = {
			.memfd = (uint32_t)file,
			.flags = UDMABUF_FLAGS_CLOEXEC,
			.size = memory->len,
		};

		memory->fd = must(ioctl(device, UDMABUF_CREATE, &create), "UDMABUF_CREATE");
	}
	close(device);
	close(file);
}

static void make_heap(struct memory *memory)
{
	int device = must(open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC), "/dev/dma_heap/system");
	struct dma_heap_allocation_data data = {
		.len = memory->len,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};

	must(ioctl(device, DMA_HEAP_IOCTL_ALLOC, &data), "DMA_HEAP_IOCTL_ALLOC");
	memory->fd = (int)data.fd;
	close(device);
	map(memory, memory->fd);
}

/* The first card of the driver vgem. */
static int open_vgem(void)
{
	for (unsigned int i = 0; i < 8; i++) {
		char path[32], driver[16] = "";
		struct graphics_version version = { .name = driver,
						    .name_len = sizeof(driver) - 1 };
		int card;

		snprintf(path, sizeof(path), "/dev/dri/card%u", i);
		card = open(path, O_RDWR | O_CLOEXEC);
		if (card < 0)
			continue;
		if (ioctl(card, GRAPHICS_VERSION, &version) == 0 && strcmp(driver, "vgem") == 0)
			return card;
		close(card);
	}
	errno = ENODEV;
	return -1;
}

static void make_vgem(struct memory *memory)
{
	int card = must(open_vgem(), "vgem");
	struct graphics_buffer create = {
		.width = 1024,
		.height = (uint32_t)(memory->len / 4096),
		.bits_per_pixel = 32,
	};
	struct graphics_export export = { .flags = O_CLOEXEC | O_RDWR };

	must(ioctl(card, GRAPHICS_CREATE_BUFFER, &create), "a buffer of vgem");
	assert_int_equal(create.size, memory->len);
	export.handle = create.handle;
	must(ioctl(card, GRAPHICS_EXPORT, &export), "a dma-buf of vgem");
	memory->fd = export.fd;
	map(memory, memory->fd);
	close(card); /* the dma-buf keeps the object */
}

void memory_make(struct memory *memory, enum memory_kind kind, size_t len)
{
	*memory = (struct memory){ .name = names[kind], .fd = -1, .len = len };
	switch (kind) {
	case MEMORY_UDMABUF:
	case MEMORY_UDMABUF_LIST:
		make_udmabuf(memory, kind == MEMORY_UDMABUF_LIST);
		break;
	case MEMORY_HEAP:
		make_heap(memory);
		break;
	default:
		make_vgem(memory);
		break;
	}
}

void memory_close_fd(struct memory *memory)
{
	if (memory->fd >= 0)
		close(memory->fd);
	memory->fd = -1;
}

void memory_free(struct memory *memory)
{
	memory_close_fd(memory);
	munmap(memory->map, memory->len);
}

void memory_get(const struct memory *memory, size_t off, void *to, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)to)[i] = memory->map[(off + i + memory->turn) % memory->len];
}

void memory_set(const struct memory *memory, size_t off, const void *from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		memory->map[(off + i + memory->turn) % memory->len] = ((const uint8_t *)from)[i];
}

void memory_pattern(void *to, size_t len, uint32_t seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525u + 1013904223u;
		((uint8_t *)to)[i] = (uint8_t)(x >> 24);
	}
}

void memory_show(const struct memory *memory, size_t off, const char *when)
{
	uint8_t bytes[8];

	memory_get(memory, off, bytes, sizeof(bytes));
	printf("%s, %zu and on, %s:", memory->name, off, when);
	for (size_t i = 0; i < sizeof(bytes); i++)
		printf(" %02x", bytes[i]);
	printf("\n");
}
