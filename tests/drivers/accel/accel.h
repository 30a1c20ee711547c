/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the emulated accelerator drivers share: memory that acts like a device's, calls that can be made
 * to fail, and counts of both.  Each driver is a library of its own with its own copy of this.
 *
 * Memory of a device has an address where the host faults, and pages behind it that only accel_copy and
 * a dma-buf's mapping reach.
 */
#ifndef ACCEL_H
#define ACCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/drivers/emu_accel.h"

#define ACCEL_PAGE                                                                                 \
	65536u /* what allocations and addresses are multiples of: as coarse as devices are */

enum accel_place {
	ACCEL_ON_DEVICE, /* the host faults */
	ACCEL_ON_HOST,	 /* host pages of the driver */
	ACCEL_ON_BOTH	 /* on a device, and the host may load and store */
};

/* ---- memory ---- */

/* Pages.  Counted: accel_map holds them, and whoever made them. */
struct accel_block;
/* Zeroed, len rounded up to ACCEL_PAGE.  NULL: no memory. */
struct accel_block *accel_block_make(size_t len, enum accel_place place, int device);
void accel_block_get(struct accel_block *block);
void accel_block_put(struct accel_block *block);
size_t accel_block_len(const struct accel_block *block);
int accel_block_device(const struct accel_block *block);
enum accel_place accel_block_place(const struct accel_block *block);

/* Address space without pages, len rounded up to ACCEL_PAGE; align a power of two or 0.  NULL: none. */
void *accel_reserve(size_t len, size_t align);
/* emu_accel_hooks.reuse */
void accel_reuse(bool on);
/* False: not a reservation's begin, or something is mapped in it. */
bool accel_unreserve(void *addr, size_t len);
/*
 * Pages of block from offset at addr, inside a reservation, where nothing is mapped; all multiples of
 * ACCEL_PAGE.  kind and user are the driver's own and come back from accel_find.
 */
bool accel_map(void *addr, size_t len, struct accel_block *block, size_t offset, int kind,
	       void *user);
/* Exactly what one accel_map made. */
bool accel_unmap(void *addr, size_t len);

/* A mapping that holds an address. */
struct accel_range {
	char *addr;
	size_t len;
	struct accel_block *block;
	size_t offset; /* of addr in block */
	int kind;
	void *user;
	uint64_t id; /* never used twice */
};
bool accel_find(const void *addr, struct accel_range *range);
/* The mappings in order of address, for lists: false past the end. */
bool accel_at(size_t index, struct accel_range *range);

/* All in one: block, address, mapping, freed by accel_free.  NULL: no memory. */
void *accel_alloc(size_t len, size_t align, enum accel_place place, int device, int kind,
		  void *user);
/* False: addr is not what accel_alloc gave. */
bool accel_free(void *addr);

/* The same, of the pages of a file that is the block's from now on, also on failure. */
void *accel_alloc_file(int file, size_t len, enum accel_place place, int device, int kind,
		       void *user);
/* The block's file, which stays its own: another process of this user can open /proc/PID/fd/FILE. */
int accel_block_file(const struct accel_block *block);

/*
 * As a device's copy engine: device addresses by their pages, others as host memory.  They may overlap.
 * False: a range leaves a mapping for an address where nothing is mapped.
 */
bool accel_copy(void *dst, const void *src, size_t len);
bool accel_fill(void *dst, int value, size_t len);

/*
 * The pages of [addr, addr + len) as a dma-buf, a fd of the caller's: of the kernel where /dev/udmabuf can
 * be opened and EMU_ACCEL_MEMFD is not set, else a memfd, which can be mapped but no NIC takes.
 * The file is of the whole block; *offset is where addr is in it.  -1: not mapped, or pieces of several blocks.
 */
int accel_dmabuf(const void *addr, size_t len, size_t *offset);
/*
 * The same for drivers whose files begin where the range does, over any number of blocks.  Without
 * /dev/udmabuf only what begins with its block and ends in it.
 */
int accel_dmabuf_exact(const void *addr, size_t len);

/* ---- calls ---- */

/*
 * Counts a call of this name.  0, or the code that accel_fail or EMU_<driver>_FAIL ("name:nth:code, ...";
 * with a + behind the code all later ones fail, too)
 * asked for.  Every function of a driver begins with it:  if ((code = accel_call("cuInit"))) return code;
 */
int accel_call(const char *name);
/* Objects that a program has and must give back, by kind ("stream", "fd", ...). */
void accel_live(const char *kind, int change);

/* The number after "key=" in the driver's setting EMU_<driver> ("devices=4,unit=4096"), or otherwise. */
long accel_setting(const char *key, long otherwise);
/* Each driver defines it: "CUDA" for EMU_CUDA. */
extern const char accel_driver[];

#endif
