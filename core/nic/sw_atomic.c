/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the steps of the datatypes indivisible and dispatches to them; sw_atomic_ops.h states
 * the guarantees.
 *
 * Which of the three ways an element takes depends on its address and size only, never on the
 * operation or the datatype, so any two operations on one element meet on common ground:
 *  - aligned, up to 8 bytes: one processor instruction where there is one (native[][]), else a
 *    compare-and-swap loop around the step; both work on the same bits;
 *  - everything else: the step between locks.
 */
#include "core/nic/sw_atomic_ops.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/nic/sw_atomic_impl.h"

static const struct sw_atomic_type *const types[SW_ATOMIC_TYPES] = {
	[FI_INT8] = &sw_atomic_int8,
	[FI_UINT8] = &sw_atomic_uint8,
	[FI_INT16] = &sw_atomic_int16,
	[FI_UINT16] = &sw_atomic_uint16,
	[FI_INT32] = &sw_atomic_int32,
	[FI_UINT32] = &sw_atomic_uint32,
	[FI_INT64] = &sw_atomic_int64,
	[FI_UINT64] = &sw_atomic_uint64,
	[FI_FLOAT] = &sw_atomic_float,
	[FI_DOUBLE] = &sw_atomic_double,
	[FI_FLOAT_COMPLEX] = &sw_atomic_float_complex,
	[FI_DOUBLE_COMPLEX] = &sw_atomic_double_complex,
	[FI_LONG_DOUBLE] = &sw_atomic_long_double,
	[FI_LONG_DOUBLE_COMPLEX] = &sw_atomic_long_double_complex,
	[FI_INT128] = &sw_atomic_int128,
	[FI_UINT128] = &sw_atomic_uint128,
	[FI_FLOAT16] = &sw_atomic_float16,
	[FI_BFLOAT16] = &sw_atomic_bfloat16,
	[FI_FLOAT8_E4M3] = &sw_atomic_float8_e4m3,
	[FI_FLOAT8_E5M2] = &sw_atomic_float8_e5m2,
};

#define BASE_FETCH   (1u << SW_ATOMIC_BASE | 1u << SW_ATOMIC_FETCH)
#define FETCH_ONLY   (1u << SW_ATOMIC_FETCH)
#define COMPARE_ONLY (1u << SW_ATOMIC_COMPARE)

/* The kinds of call that fi_atomic(3) lists for each operation. */
static const uint8_t op_kinds[SW_ATOMIC_OPS] = {
	[FI_MIN] = BASE_FETCH,	       [FI_MAX] = BASE_FETCH,	     [FI_SUM] = BASE_FETCH,
	[FI_PROD] = BASE_FETCH,	       [FI_LOR] = BASE_FETCH,	     [FI_LAND] = BASE_FETCH,
	[FI_BOR] = BASE_FETCH,	       [FI_BAND] = BASE_FETCH,	     [FI_LXOR] = BASE_FETCH,
	[FI_BXOR] = BASE_FETCH,	       [FI_DIFF] = BASE_FETCH,	     [FI_ATOMIC_WRITE] = BASE_FETCH,
	[FI_ATOMIC_READ] = FETCH_ONLY, [FI_CSWAP] = COMPARE_ONLY,    [FI_CSWAP_NE] = COMPARE_ONLY,
	[FI_CSWAP_LE] = COMPARE_ONLY,  [FI_CSWAP_LT] = COMPARE_ONLY, [FI_CSWAP_GE] = COMPARE_ONLY,
	[FI_CSWAP_GT] = COMPARE_ONLY,  [FI_MSWAP] = COMPARE_ONLY,
};

bool sw_atomic_step_keep(void *next, const void *old, const void *src, const void *cmp)
{
	(void)next;
	(void)old;
	(void)src;
	(void)cmp;
	return false;
}

/* ---- one instruction per element ---- */

typedef void (*native_fn)(void *dst, const void *src, const void *cmp, void *result, size_t count);

/* access: an expression in d (the element), s (operand) and c (compare operand): the old value. */
#define NATIVE(name, T, use_src, use_cmp, access)                                                  \
	static void name(void *dst, const void *src, const void *cmp, void *result, size_t count)  \
	{                                                                                          \
		T *d = dst;                                                                        \
                                                                                                   \
		for (size_t i = 0; i < count; i++, d++) {                                          \
			T s = 0, c = 0, old;                                                       \
                                                                                                   \
			if (use_src)                                                               \
				memcpy(&s, (const char *)src + i * sizeof(T), sizeof(T));          \
			if (use_cmp)                                                               \
				memcpy(&c, (const char *)cmp + i * sizeof(T), sizeof(T));          \
			old = (T)(access);                                                         \
			if (result)                                                                \
				memcpy((char *)result + i * sizeof(T), &old, sizeof(T));           \
		}                                                                                  \
	}

/* Leaves the old value in c whether it swaps or not. */
#define NATIVE_CSWAP(d, c, s)                                                                      \
	(__atomic_compare_exchange_n(d, &(c), s, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE), (c))

/* An unwanted old value costs a write an exchange, hence the plain store. */
#define NATIVE_WRITE(d, s, result)                                                                 \
	((result) ? __atomic_exchange_n(d, s, __ATOMIC_ACQ_REL)                                    \
		  : (__atomic_store_n(d, s, __ATOMIC_RELEASE), (s)))

#define NATIVE_SET(bits, T)                                                                        \
	NATIVE(sum_##bits, T, 1, 0, __atomic_fetch_add(d, s, __ATOMIC_ACQ_REL))                    \
	NATIVE(diff_##bits, T, 1, 0, __atomic_fetch_sub(d, s, __ATOMIC_ACQ_REL))                   \
	NATIVE(bor_##bits, T, 1, 0, __atomic_fetch_or(d, s, __ATOMIC_ACQ_REL))                     \
	NATIVE(band_##bits, T, 1, 0, __atomic_fetch_and(d, s, __ATOMIC_ACQ_REL))                   \
	NATIVE(bxor_##bits, T, 1, 0, __atomic_fetch_xor(d, s, __ATOMIC_ACQ_REL))                   \
	NATIVE(read_##bits, T, 0, 0, ((void)s, __atomic_load_n(d, __ATOMIC_ACQUIRE)))              \
	NATIVE(write_##bits, T, 1, 0, NATIVE_WRITE(d, s, result))                                  \
	NATIVE(cswap_##bits, T, 1, 1, NATIVE_CSWAP(d, c, s))                                       \
                                                                                                   \
	static void step_##bits(sw_atomic_step step, void *dst, const char *src, const char *cmp,  \
				char *result, size_t count)                                        \
	{                                                                                          \
		T *d = dst;                                                                        \
                                                                                                   \
		for (size_t at = 0; count; count--, d++, at += sizeof(T)) {                        \
			T old = __atomic_load_n(d, __ATOMIC_ACQUIRE), next = old;                  \
                                                                                                   \
			while (step(&next, &old, src ? src + at : NULL, cmp ? cmp + at : NULL) &&  \
			       !__atomic_compare_exchange_n(d, &old, next, true, __ATOMIC_ACQ_REL, \
							    __ATOMIC_ACQUIRE))                     \
				next = old;                                                        \
			if (result)                                                                \
				memcpy(result + at, &old, sizeof(T));                              \
		}                                                                                  \
	}

NATIVE_SET(8, uint8_t)
NATIVE_SET(16, uint16_t)
NATIVE_SET(32, uint32_t)
NATIVE_SET(64, uint64_t)

#define NATIVE_ROW(op)                                                                             \
	{                                                                                          \
		op##_8, op##_16, op##_32, op##_64                                                  \
	}

/* By operation and the logarithm of the size.  All but read and write are for integers only. */
static const native_fn native[SW_ATOMIC_OPS][4] = {
	[FI_SUM] = NATIVE_ROW(sum),
	[FI_DIFF] = NATIVE_ROW(diff),
	[FI_BOR] = NATIVE_ROW(bor),
	[FI_BAND] = NATIVE_ROW(band),
	[FI_BXOR] = NATIVE_ROW(bxor),
	[FI_ATOMIC_READ] = NATIVE_ROW(read),
	[FI_ATOMIC_WRITE] = NATIVE_ROW(write),
	[FI_CSWAP] = NATIVE_ROW(cswap),
};

static void run_aligned(const struct sw_atomic_type *type, enum fi_op op, void *dst,
			const void *src, const void *cmp, void *result, size_t count)
{
	static void (*const step_loop[])(sw_atomic_step, void *, const char *, const char *, char *,
					 size_t) = NATIVE_ROW(step);
	const unsigned int log2 = (unsigned int)__builtin_ctzl(type->size);
	const native_fn fn = native[op][log2];

	if (fn && (type->integer || op == FI_ATOMIC_READ || op == FI_ATOMIC_WRITE))
		fn(dst, src, cmp, result, count);
	else
		step_loop[log2](type->step[op], dst, src, cmp, result, count);
}

/* ---- elements under locks ---- */

#define LINE_SHIFT 6
#define LOCK_BITS  6

/*
 * Each protects the target elements in the 64-byte lines that hash to it, against other updates
 * in this section.  Leaf locks: nothing else is taken while one is held but the lock of the
 * element's second line, the one of lower index first.
 */
static struct line_lock {
	_Alignas(1 << LINE_SHIFT) pthread_mutex_t mutex;
} line_locks[1 << LOCK_BITS] = {
#define LOCK_1                                                                                     \
	{                                                                                          \
		PTHREAD_MUTEX_INITIALIZER                                                          \
	}
#define LOCK_4	LOCK_1, LOCK_1, LOCK_1, LOCK_1
#define LOCK_16 LOCK_4, LOCK_4, LOCK_4, LOCK_4
	LOCK_16, LOCK_16, LOCK_16, LOCK_16
#undef LOCK_1
#undef LOCK_4
#undef LOCK_16
};

static_assert(SW_ATOMIC_MAX_SIZE <= 1 << LINE_SHIFT, "an element spans at most two lines");

static unsigned int lock_index(uintptr_t address)
{
	return (unsigned int)(((uint64_t)(address >> LINE_SHIFT) * 0x9e3779b97f4a7c15u) >>
			      (64 - LOCK_BITS));
}

/* The locks of the element that this thread is at work on, for sw_atomic_recover(). */
static _Thread_local volatile struct {
	bool held;
	unsigned int lock[2];
} at_work;

static void lock_element(const void *dst, size_t size, unsigned int held[2])
{
	const unsigned int first = lock_index((uintptr_t)dst);
	const unsigned int last = lock_index((uintptr_t)dst + (size - 1));

	held[0] = first < last ? first : last;
	held[1] = first < last ? last : first;
	pthread_mutex_lock(&line_locks[held[0]].mutex);
	if (held[1] != held[0])
		pthread_mutex_lock(&line_locks[held[1]].mutex);
	at_work.lock[0] = held[0];
	at_work.lock[1] = held[1];
	at_work.held = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* before anything that can fault */
}

static void unlock_element(const unsigned int held[2])
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	at_work.held = false;
	if (held[1] != held[0])
		pthread_mutex_unlock(&line_locks[held[1]].mutex);
	pthread_mutex_unlock(&line_locks[held[0]].mutex);
}

/* Relaxed, because the locks order these; atomic, because an aligned update may overlap. */
static void load_element(void *to, const void *dst, size_t size)
{
	if (((uintptr_t)dst | size) % sizeof(uint64_t) == 0) {
		for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
			const uint64_t v =
				__atomic_load_n((const uint64_t *)dst + i, __ATOMIC_RELAXED);

			memcpy((char *)to + i * sizeof(v), &v, sizeof(v));
		}
		return;
	}
	for (size_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = __atomic_load_n((const uint8_t *)dst + i, __ATOMIC_RELAXED);
}

static void store_element(void *dst, const void *from, size_t size)
{
	if (((uintptr_t)dst | size) % sizeof(uint64_t) == 0) {
		for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
			uint64_t v;

			memcpy(&v, (const char *)from + i * sizeof(v), sizeof(v));
			__atomic_store_n((uint64_t *)dst + i, v, __ATOMIC_RELAXED);
		}
		return;
	}
	for (size_t i = 0; i < size; i++)
		__atomic_store_n((uint8_t *)dst + i, ((const uint8_t *)from)[i], __ATOMIC_RELAXED);
}

static void copy_value(const struct sw_atomic_type *type, char *to, const char *from)
{
	const size_t stride = type->size / type->parts;

	for (size_t i = 0; i < type->parts; i++)
		memcpy(to + i * stride, from + i * stride, type->value_size);
}

static void run_locked(const struct sw_atomic_type *type, sw_atomic_step step, char *dst,
		       const char *src, const char *cmp, char *result, size_t count)
{
	const size_t size = type->size;

	for (size_t at = 0; count; count--, at += size) {
		_Alignas(16) char old[SW_ATOMIC_MAX_SIZE], next[SW_ATOMIC_MAX_SIZE];
		unsigned int held[2];

		lock_element(dst + at, size, held);
		load_element(old, dst + at, size);
		memcpy(next, old, size);
		if (step(next, old, src ? src + at : NULL, cmp ? cmp + at : NULL))
			store_element(dst + at, next, size);
		unlock_element(held);
		if (result)
			copy_value(type, result + at, old);
	}
}

/* ---- interface ---- */

void sw_atomic_recover(void)
{
	if (at_work.held)
		unlock_element((const unsigned int[]){ at_work.lock[0], at_work.lock[1] });
}

size_t sw_atomic_size(enum fi_datatype datatype)
{
	return (unsigned int)datatype < SW_ATOMIC_TYPES ? types[datatype]->size : 0;
}

bool sw_atomic_valid(enum sw_atomic_kind kind, enum fi_datatype datatype, enum fi_op op)
{
	if ((unsigned int)kind > SW_ATOMIC_COMPARE || (unsigned int)op >= SW_ATOMIC_OPS ||
	    (unsigned int)datatype >= SW_ATOMIC_TYPES)
		return false;
	return (op_kinds[op] & 1u << kind) && types[datatype]->step[op];
}

int sw_atomic_apply(enum sw_atomic_kind kind, enum fi_datatype datatype, enum fi_op op, void *dst,
		    const void *src, const void *cmp, void *result, size_t count)
{
	const struct sw_atomic_type *type;

	if (!sw_atomic_valid(kind, datatype, op))
		return -FI_EOPNOTSUPP;
	assert(!count || (dst && (src || op == FI_ATOMIC_READ)));
	assert(!count || cmp || kind != SW_ATOMIC_COMPARE);

	type = types[datatype];
	if (kind == SW_ATOMIC_BASE)
		result = NULL;
	if (kind != SW_ATOMIC_COMPARE)
		cmp = NULL;
	if (type->size <= sizeof(uint64_t) && ((uintptr_t)dst & (type->size - 1)) == 0)
		run_aligned(type, op, dst, src, cmp, result, count);
	else
		run_locked(type, type->step[op], dst, src, cmp, result, count);
	return 0;
}
