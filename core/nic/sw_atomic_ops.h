/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software NIC's atomic engine: every operation and datatype of fi_atomic(3), applied to
 * memory of this process.
 *
 * Semantics, in the notation of fi_atomic(3) (addr is dst, buf is src, compare is cmp):
 *  - A condition that does not hold leaves dst alone: FI_MIN, FI_MAX and the compare-and-swaps
 *    store nothing then, so NaN never replaces a value through FI_MIN or FI_MAX.
 *  - FI_CSWAP_xx swaps if (cmp xx dst), with the compare operand on the left.
 *  - FI_DIFF is dst - src.  Integers wrap.  Logical results are 1 or 0 of the element's type.
 *  - Complex products follow C's complex multiplication.
 *  - The 16-bit and 8-bit floats compute in single precision and round once, to nearest even;
 *    sw_minifloat.h says what happens on overflow.
 *  - Of a long double only the value bytes are read or written: padding in dst and in result
 *    keeps what it held.
 *
 * What is indivisible against what:
 *  - Elements of 1, 2, 4 or 8 bytes at a multiple of their size use the processor's atomic
 *    instructions: indivisible against each other, against C11 atomics of the application on
 *    the same element, and through any mapping of the same memory.
 *  - Larger elements and misaligned ones are updated under locks hashed from the address, both
 *    locks where an element crosses a 64-byte line.  Any two such updates that overlap exclude
 *    each other, whatever their sizes, as long as they reach the memory by the same address.
 *  - An aligned element of up to 8 bytes and a locked one that overlaps it are not exclusive.
 *    Neither is undefined behaviour: the locked side moves its bytes by relaxed atomic accesses,
 *    the aligned side always sees or replaces its own element in one piece.  But the locked
 *    side may combine bytes from before and after the aligned update, or overwrite it.
 *    fi_atomic(3) asks for naturally aligned targets, so this takes a misaligned target or two
 *    datatypes of different sizes at one address; do not mix them at the same time.
 *
 * An update is an acquire-release access, a read acquires and a write releases.
 */
#ifndef HM_SW_ATOMIC_OPS_H
#define HM_SW_ATOMIC_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>

enum sw_atomic_kind {
	SW_ATOMIC_BASE,
	SW_ATOMIC_FETCH,
	SW_ATOMIC_COMPARE,
};

/* Bytes of one element; 0 for FI_VOID and for values that are no datatype. */
size_t sw_atomic_size(enum fi_datatype datatype);

/* Whether the engine offers this combination; any value may be asked, none is logged. */
bool sw_atomic_valid(enum sw_atomic_kind kind, enum fi_datatype datatype, enum fi_op op);

/*
 * Applies op to count elements at dst, one after the other; atomicity is per element.
 *
 * src: operands, NULL only for FI_ATOMIC_READ.  cmp: compare operands, read for COMPARE only.
 * result: receives the values dst held before, for FETCH and COMPARE; never touched for BASE,
 * and NULL discards them.  src, cmp and result may be one buffer, since the old value is stored
 * after the operands were read; none may overlap dst.  No pointer needs any alignment.
 *
 * Returns 0, or -FI_EOPNOTSUPP without touching memory where sw_atomic_valid() says no; the
 * caller, who knows the endpoint, logs that.  Any thread may call at any time.
 */
int sw_atomic_apply(enum sw_atomic_kind kind, enum fi_datatype datatype, enum fi_op op, void *dst,
		    const void *src, const void *cmp, void *result, size_t count);

/*
 * After sw_atomic_apply() was left by a jump out of a memory fault: gives back the locks that the
 * calling thread still holds.  The element at fault is unchanged or, if only its result could not
 * be stored, updated.
 */
void sw_atomic_recover(void);

#endif
