/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded work on memory that may not be there.
 *
 * An application may register addresses that are not mapped, and may unmap what is being transferred;
 * a NIC reports that, so the software NIC must too.  Work that touches application memory runs under
 * a guard: a SIGSEGV or SIGBUS inside it ends the work with -FI_EFAULT.  Faults outside a guard go to
 * the handler that was there before.  HMREG_SW_FAULT_GUARD=0 leaves signals alone; then such a fault
 * ends the process as any other would.
 */
#ifndef HM_GUARD_H
#define HM_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* Install the handlers, once per process; they stay until exit, as the library does.  Thread safe. */
void hm_guard_install(void);

/*
 * Run work(arg); 0, or -FI_EFAULT if it touched what is not accessible of memory, the count ranges
 * that it may touch.  work must hold no lock and own nothing at that time, since it is left where it
 * stands.  A signal handler that interrupts work may do guarded work itself.
 */
int hm_guard_run(void (*work)(void *arg), void *arg, const struct iovec *memory, size_t count);

/* memmove under a guard. */
int hm_guard_copy(void *dst, const void *src, size_t len);

/*
 * Is all of [addr, addr + len) mapped, and readable or (write) writable as well?  0 or -FI_EFAULT.
 * Each page of a small range is read, and only the ends of a large one; writing is tried at the ends.
 */
int hm_guard_probe(const void *addr, size_t len, bool write);

#endif
