/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a test can ask of an emulated accelerator driver: dlsym(library, "emu_accel_hooks") is a
 * const struct emu_accel_hooks *.
 */
#ifndef EMU_ACCEL_H
#define EMU_ACCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_accel_hooks {
	size_t size;
	/* The nth call of name from now on (1: the next) fails with code; name "*": any call.  nth 0: never. */
	void (*fail)(const char *name, unsigned int nth, int code);
	/* How often name was called since reset; "*": all of them together. */
	unsigned long (*calls)(const char *name);
	void (*reset)(void);
	/* Live objects of this kind: "memory" (mappings), "bytes", or the driver's own; "*": all but bytes. */
	long (*live)(const char *kind);
	/* One line for each live object, into text; what it would take, as snprintf. */
	size_t (*list)(char *text, size_t size);
	/* The names of the calls made since reset, by index; NULL past the end. */
	const char *(*name)(size_t index);
	/*
	 * Read or write memory of the device behind the driver's API, for tests that look whether bytes
	 * outside a transfer were touched.  0, or -1: not mapped.
	 */
	int (*peek)(const void *addr, void *out, size_t len);
	int (*poke)(void *addr, const void *in, size_t len);
	/* As fail, and so does every call of the name after it, until fail takes it back with nth 0. */
	void (*fail_on)(const char *name, unsigned int nth, int code);
	/*
	 * on: addresses that are given back are given out again, those given back last first, wherever they are
	 * long enough; so that whoever frees memory and allocates as much or less gets its address.
	 */
	void (*reuse)(bool on);
};

#endif
