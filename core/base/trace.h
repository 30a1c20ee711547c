/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Static tracepoints of registration, for perf, bpftrace, SystemTap and gdb.  Each is one nop where it stands and
 * a note in the library that says where its arguments are, so that one that nobody traces costs nothing.
 * Without sys/sdt.h at build time there are none.
 *
 *   hmreg:register       a region is about to be made
 *   hmreg:register_done  it is, or not
 *   hmreg:hit            a kept registration was found
 *   hmreg:miss           none was, and this one was made
 *   hmreg:evict          a kept one ends to make room
 *   hmreg:invalidate     a kept one ends because its memory changed
 *
 * Arguments: 1 the domain, a number that is the same for all of one domain; 2 the address, 3 the length; 4 the
 * interface, of enum fi_hmem_iface; 5 the result, 0 or a negative code.  They must be at hand: nothing is
 * to be computed for a tracepoint.
 */
#ifndef HM_TRACE_H
#define HM_TRACE_H

#include <stdint.h>

#ifdef HMREG_HAVE_SDT
#include <sys/sdt.h>

#define HM_PROBE(name, domain, addr, len, iface, result)                                           \
	DTRACE_PROBE5(hmreg, name, (uintptr_t)(domain), (uint64_t)(addr), (uint64_t)(len),         \
		      (uint32_t)(iface), (int)(result))
#else
#define HM_PROBE(name, domain, addr, len, iface, result)                                           \
	((void)(domain), (void)(addr), (void)(len), (void)(iface), (void)(result))
#endif

#endif
