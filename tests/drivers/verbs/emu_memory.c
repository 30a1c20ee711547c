/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to the process's memory on the device's behalf.  The kernel copies, so that a page that is not there,
 * or may not be written, is an error and no signal; and as system calls made directly, so that tools that
 * watch the program's own accesses see none, as with a device.
 */
#include "tests/drivers/verbs/emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAPS_TRIES 3

/* Copies between two ranges of this process; the bytes copied, or -1. */
static ssize_t copy_range(void *to, const void *from, size_t length)
{
	struct iovec local = { to, length };
	struct iovec remote = { (void *)(uintptr_t)from, length };

	return syscall(SYS_process_vm_readv, getpid(), &local, 1ul, &remote, 1ul, 0ul);
}

static bool readable(const uint8_t *addr)
{
	uint8_t byte;

	return copy_range(&byte, addr, 1) == 1;
}

/*
 * Are both ends of a range there?  Asked before it is written, since valgrind reports a system call that is to
 * write to what is not there; it does not look at what such a call reads.
 */
static bool ends_readable(const uint8_t *addr, size_t length)
{
	uint8_t bytes[2];
	struct iovec local = { bytes, sizeof(bytes) };
	struct iovec remote[2] = { { (void *)(uintptr_t)addr, 1 },
				   { (void *)((uintptr_t)addr + length - 1), 1 } };

	return syscall(SYS_process_vm_readv, getpid(), &local, 1ul, remote, 2ul, 0ul) == 2;
}

enum emu_copied emu_memory_copy(struct emu_segment *to, struct emu_segment *from, uint64_t length)
{
	while (length) {
		size_t part = to->length < from->length ? to->length : from->length;
		ssize_t copied;

		if (!part) {
			to += !to->length;
			from += !from->length;
			continue;
		}
		if (part > length)
			part = length;
		copied = ends_readable(to->addr, part) ? copy_range(to->addr, from->addr, part)
						       : -1;
		if (copied <= 0)
			return readable(from->addr) ? EMU_TARGET_FAULT : EMU_SOURCE_FAULT;
		to->addr += copied;
		to->length -= (size_t)copied;
		from->addr += copied;
		from->length -= (size_t)copied;
		length -= (size_t)copied;
	}
	return EMU_COPIED;
}

/* The part of the range from START on that /proc/self/maps, read once, shows mapped with the rights. */
static uintptr_t mapped_up_to(uintptr_t start, uintptr_t end, bool write)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned long from, to;
	char rights[5];
	bool whole_line = true;

	if (!maps)
		return start;
	while (start < end && fgets(line, sizeof(line), maps)) {
		bool first_part = whole_line;

		whole_line = strchr(line, '\n') != NULL;
		if (!first_part || sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 ||
		    to <= start)
			continue;
		if (from > start || rights[0] != 'r' || (write && rights[1] != 'w'))
			break;
		start = to;
	}
	fclose(maps);
	return start;
}

bool emu_memory_mapped(const void *addr, size_t length, bool write)
{
	uintptr_t start = (uintptr_t)addr, end = start + length;
	int tries = MAPS_TRIES;

	if (end < start || !ends_readable(addr, length))
		return false;
	/* Maps that change while they are read can show a gap where none is. */
	while (tries-- && start < end)
		start = mapped_up_to(start, end, write);
	return start >= end;
}
