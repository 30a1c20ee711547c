/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An emulated Level Zero driver: what the vendor's loader (libze_loader.so.1) loads through
 * ZE_ENABLE_ALT_DRIVERS.  There are two of it, libze_emu.so.1 (settings EMU_ZE) and libze_emu2.so.1
 * (EMU_ZE2), alike but for their names:
 *
 *   ZE_ENABLE_ALT_DRIVERS=libze_emu.so.1,libze_emu2.so.1 LD_LIBRARY_PATH=build/tests/drivers/accel/ze PROGRAM
 *
 * Settings, "devices=2,cached=1":
 *   devices=2      root devices
 *   parts=2        sub-devices of each
 *   nodmabuf=MASK  root devices (bits) that export no dma-buf
 *   nopeer=1       no device reaches another's memory
 *   cached=1       one export fd per allocation, which stays the driver's
 *   private=1      export of device memory that was allocated without ze_external_memory_export_desc_t:
 *                  0 ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, 1 the fd of a larger buffer that the memory is a
 *                  part of, 2 success without a fd, 3 the fd of another buffer, half as long
 *   merge=1        zeMemGetAddressRange tells adjacent mapped pieces of one reservation as one
 *   norange=1      zeMemGetAddressRange does not know mapped pieces
 *   delay=1        so often zeEventQueryStatus says ZE_RESULT_NOT_READY
 *
 * Live objects: "context", "command list", "command queue", "fence", "event pool", "event",
 * "physical memory", "reservation", "ipc"; "stolen fd" counts fds of the driver that somebody closed.
 *
 *   device.c  drivers, devices, contexts
 *   alloc.c   allocations, what an address is, dma-bufs, memory of other processes
 *   virtual.c address space and physical memory
 *   list.c    command lists, queues, fences
 *   event.c   events
 *   table.c   what the loader asks for
 */
#ifndef ZE_EMU_H
#define ZE_EMU_H

#include "hmem/ze_abi.h"
#include "tests/drivers/accel/accel.h"
#include "tests/drivers/accel/ze/ze_ddi.h"

#define EXPORT __attribute__((visibility("default")))

/* Begins every function: counts it, and fails if it is to. */
#define CALL(name)                                                                                 \
	do {                                                                                       \
		int call_code = accel_call(name);                                                  \
		if (call_code)                                                                     \
			return (l0_result)call_code;                                               \
	} while (0)
#define NEED_POINTER(p)                                                                            \
	do {                                                                                       \
		if (!(p))                                                                          \
			return L0_INVALID_NULL_POINTER;                                            \
	} while (0)
/* A live object of this kind. */
#define NEED(object, kind)                                                                         \
	do {                                                                                       \
		if (!(object))                                                                     \
			return L0_INVALID_NULL_HANDLE;                                             \
		if ((object)->magic != (kind))                                                     \
			return L0_INVALID_ARGUMENT;                                                \
	} while (0)

#define MAGIC_DRIVER  0x5a450001u
#define MAGIC_DEVICE  0x5a450002u
#define MAGIC_CONTEXT 0x5a450003u
#define MAGIC_LIST    0x5a450004u
#define MAGIC_QUEUE   0x5a450005u
#define MAGIC_FENCE   0x5a450006u
#define MAGIC_POOL    0x5a450007u
#define MAGIC_EVENT   0x5a450008u
#define MAGIC_MEMORY  0x5a450009u

struct l0_driver_object {
	uint32_t magic;
};

struct l0_device_object {
	uint32_t magic;
	uint32_t root;
	int part; /* -1: the root */
};

struct l0_context_object {
	uint32_t magic;
};

/* ---- device.c ---- */

/* How blocks name a device, and back. */
int emu_device_code(l0_device device);
l0_device emu_device(int code);
bool emu_device_exports(l0_device device);
bool emu_peers(l0_device a, l0_device b);

/* ---- alloc.c ---- */

/* accel_range.kind: a ze_memory_type_t and these; accel_range.user: the context */
#define KIND_TYPE     0x0fu
#define KIND_EXPORT   0x10u /* allocated for export */
#define KIND_VMM      0x20u
#define KIND_IMPORTED 0x40u

/* Is this structure's chain asking for export?  *wrong: as what this driver cannot. */
bool emu_asks_export(const void *next, bool *wrong);
/* The fd that the driver keeps for a mapping is closed. */
void emu_forget_fd(const struct accel_range *range);
/* May this device read and write what is at addr? */
bool emu_reachable(l0_device device, const void *addr);

/* ---- event.c, list.c ---- */

enum event_state {
	EVENT_CLEAR,
	EVENT_SET,
	EVENT_LOST /* the work that was to set it failed */
};

struct l0_event_object {
	uint32_t magic;
	l0_pool pool;
	uint32_t index;
	enum event_state state;
	l0_list pending; /* will set it */
	long delay;
};

/* Everything of lists and events, and what is behind them. */
void emu_lock(void);
void emu_unlock(void);
/* Lock held: do what the list has to do. */
void emu_run(l0_list list);
/* Lock held: nothing in the list refers to event any more. */
void emu_leave(l0_list list, l0_event event);

/* ---- table.c ---- */

/* A function's place in the loader's tables. */
struct emu_entry {
	enum ddi_table table;
	unsigned int index;
	void *function;
};

#define ENTRY(table, index, function)                                                              \
	{                                                                                          \
		DDI_##table, DDI_##table##_##index, (void *)(function)                             \
	}
#define ENTRIES_END                                                                                \
	{                                                                                          \
		DDI_TABLES, 0, NULL                                                                \
	}

extern const struct emu_entry emu_device_entries[], emu_alloc_entries[], emu_virtual_entries[],
	emu_list_entries[], emu_event_entries[];

#endif
