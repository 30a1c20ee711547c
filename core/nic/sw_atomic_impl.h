/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the parts of the atomic engine: what a datatype is (sw_atomic_int.c,
 * sw_atomic_float.c) for the code that makes updates indivisible (sw_atomic.c).
 *
 * A step is the arithmetic of one operation on one element, without any concurrency.  It reads
 * its operands from memory of any alignment and either writes the new element to next and
 * returns true, or returns false because the element is to stay as it is.  next already holds a
 * copy of old and never overlaps an operand.
 */
#ifndef HM_SW_ATOMIC_IMPL_H
#define HM_SW_ATOMIC_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>

/* Counts of the enumerators that are contiguous from 0; FI_VOID and FI_NOOP lie far above. */
enum {
	SW_ATOMIC_OPS = FI_DIFF + 1,
	SW_ATOMIC_TYPES = FI_FLOAT8_E5M2 + 1,
	SW_ATOMIC_MAX_SIZE = 32,
};

typedef bool (*sw_atomic_step)(void *next, const void *old, const void *src, const void *cmp);

struct sw_atomic_type {
	size_t size;
	/* The element is this many equal parts, each starting with value_size meaningful bytes. */
	size_t parts;
	size_t value_size;
	/* Equality and arithmetic are those of the machine's unsigned integer of this size. */
	bool integer;
	/* NULL where fi_atomic(3) does not define the operation for the type. */
	sw_atomic_step step[SW_ATOMIC_OPS];
};

extern const struct sw_atomic_type sw_atomic_int8, sw_atomic_uint8, sw_atomic_int16,
	sw_atomic_uint16, sw_atomic_int32, sw_atomic_uint32, sw_atomic_int64, sw_atomic_uint64,
	sw_atomic_int128, sw_atomic_uint128;
extern const struct sw_atomic_type sw_atomic_float, sw_atomic_double, sw_atomic_long_double,
	sw_atomic_float_complex, sw_atomic_double_complex, sw_atomic_long_double_complex,
	sw_atomic_float16, sw_atomic_bfloat16, sw_atomic_float8_e4m3, sw_atomic_float8_e5m2;

/* The step of FI_ATOMIC_READ for every type: changes nothing. */
bool sw_atomic_step_keep(void *next, const void *old, const void *src, const void *cmp);

/*
 * How the steps are written.  GET(p) loads a value of type T, PUT(p, v) stores one, COPY(p, q)
 * moves the bytes that make up a value without interpreting them, so that a NaN arrives as it
 * was sent.
 */
#define SW_STEP_ARITH(name, T, GET, PUT, expr)                                                     \
	static bool name(void *next, const void *old, const void *src, const void *cmp)            \
	{                                                                                          \
		const T a = GET(old), b = GET(src);                                                \
                                                                                                   \
		(void)cmp;                                                                         \
		PUT(next, (expr));                                                                 \
		return true;                                                                       \
	}

/* Stores src where (left relation old) holds; left is src or cmp. */
#define SW_STEP_SELECT(name, T, GET, COPY, left, relation)                                         \
	static bool name(void *next, const void *old, const void *src, const void *cmp)            \
	{                                                                                          \
		const T a = GET(left), b = GET(old);                                               \
                                                                                                   \
		(void)cmp;                                                                         \
		if (!(a relation b))                                                               \
			return false;                                                              \
		COPY(next, src);                                                                   \
		return true;                                                                       \
	}

#define SW_STEP_WRITE(name, COPY)                                                                  \
	static bool name(void *next, const void *old, const void *src, const void *cmp)            \
	{                                                                                          \
		(void)old;                                                                         \
		(void)cmp;                                                                         \
		COPY(next, src);                                                                   \
		return true;                                                                       \
	}

/* Operations that need nothing but equality, which every type has. */
#define SW_STEPS_EQUALITY(s, T, GET, COPY)                                                         \
	SW_STEP_WRITE(write_##s, COPY)                                                             \
	SW_STEP_SELECT(cswap_##s, T, GET, COPY, cmp, ==)                                           \
	SW_STEP_SELECT(cswap_ne_##s, T, GET, COPY, cmp, !=)

#define SW_STEPS_ORDER(s, T, GET, COPY)                                                            \
	SW_STEP_SELECT(min_##s, T, GET, COPY, src, <)                                              \
	SW_STEP_SELECT(max_##s, T, GET, COPY, src, >)                                              \
	SW_STEP_SELECT(cswap_le_##s, T, GET, COPY, cmp, <=)                                        \
	SW_STEP_SELECT(cswap_lt_##s, T, GET, COPY, cmp, <)                                         \
	SW_STEP_SELECT(cswap_ge_##s, T, GET, COPY, cmp, >=)                                        \
	SW_STEP_SELECT(cswap_gt_##s, T, GET, COPY, cmp, >)

#define SW_STEPS_LOGIC(s, T, GET, PUT)                                                             \
	SW_STEP_ARITH(lor_##s, T, GET, PUT, a != 0 || b != 0)                                      \
	SW_STEP_ARITH(land_##s, T, GET, PUT, a != 0 && b != 0)                                     \
	SW_STEP_ARITH(lxor_##s, T, GET, PUT, (a != 0) != (b != 0))

/* W is an unsigned type wide enough that no promotion to int can overflow. */
#define SW_STEPS_SUM(s, T, W, GET, PUT)                                                            \
	SW_STEP_ARITH(sum_##s, T, GET, PUT, (T)((W)a + (W)b))                                      \
	SW_STEP_ARITH(diff_##s, T, GET, PUT, (T)((W)a - (W)b))                                     \
	SW_STEP_ARITH(prod_##s, T, GET, PUT, (T)((W)a * (W)b))

/* The matching rows of a type's step table. */
#define SW_ROW_COMMON(s)                                                                           \
	[FI_SUM] = sum_##s, [FI_DIFF] = diff_##s, [FI_PROD] = prod_##s, [FI_LOR] = lor_##s,        \
	[FI_LAND] = land_##s, [FI_LXOR] = lxor_##s, [FI_ATOMIC_READ] = sw_atomic_step_keep,        \
	[FI_ATOMIC_WRITE] = write_##s, [FI_CSWAP] = cswap_##s, [FI_CSWAP_NE] = cswap_ne_##s

#define SW_ROW_ORDER(s)                                                                            \
	[FI_MIN] = min_##s, [FI_MAX] = max_##s, [FI_CSWAP_LE] = cswap_le_##s,                      \
	[FI_CSWAP_LT] = cswap_lt_##s, [FI_CSWAP_GE] = cswap_ge_##s, [FI_CSWAP_GT] = cswap_gt_##s

#endif
