/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the emulated libSynapse.so, which has the memory, and libhl-thunk.so, which exports it. */
#ifndef EMU_SYNAPSE_H
#define EMU_SYNAPSE_H

#include <stdbool.h>
#include <stdint.h>

#define SYN_PUBLIC __attribute__((visibility("default")))

/* Of the device that an fd is of: its type and where its memory begins.  False: there is none. */
bool emu_synapse_device(int fd, int *device, int *type, uint64_t *base);

/* What hlthunk.h documents of an export of [addr, addr + size): a fd, or a negative errno. */
SYN_PUBLIC int emu_synapse_export_plain(int fd, uint64_t addr, uint64_t size);
SYN_PUBLIC int emu_synapse_export_mapped(int fd, uint64_t addr, uint64_t size, uint64_t offset);

#endif
