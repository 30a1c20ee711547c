/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plain reference for the software NIC's atomic engine: the datatypes, what fi_atomic(3) allows
 * and computes, and operands worth trying.
 *
 * Integers are computed in 128 bits and truncated, floats as long double parts that are rounded
 * to the type; the 16-bit and 8-bit formats are rounded by searching the list of their values
 * for the nearest.
 */
#ifndef HM_TEST_SW_ATOMIC_REFERENCE_H
#define HM_TEST_SW_ATOMIC_REFERENCE_H

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/nic/sw_atomic_ops.h"
#include "core/nic/sw_minifloat.h"

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

#define LDBL_BYTES (LDBL_MANT_DIG == 64 ? 10 : sizeof(long double))

/* ---- datatypes ---- */

enum part {
	PART_INT,
	PART_F32,
	PART_F64,
	PART_LDBL,
	PART_MINI
};

struct mini {
	const struct sw_minifloat *format;
	unsigned int exp_bits, man_bits;
	/* Encodings of the largest finite value and of what overflow gives. */
	uint32_t max, overflow;
};

static const struct mini f16 = { &sw_minifloat_float16, 5, 10, 0x7bff, 0x7c00 };
static const struct mini bf16 = { &sw_minifloat_bfloat16, 8, 7, 0x7f7f, 0x7f80 };
static const struct mini e4m3 = { &sw_minifloat_e4m3, 4, 3, 0x7e, 0x7f };
static const struct mini e5m2 = { &sw_minifloat_e5m2, 5, 2, 0x7b, 0x7c };

struct type {
	const char *name;
	enum fi_datatype datatype;
	size_t size, parts, value_size;
	enum part part;
	bool is_signed;
	const struct mini *mini;
};

#define INT(n, bytes, sign)                                                                        \
	{                                                                                          \
#n, n, bytes, 1, bytes, PART_INT, sign, NULL                                       \
	}
#define MINI(n, bytes, m)                                                                          \
	{                                                                                          \
#n, n, bytes, 1, bytes, PART_MINI, true, m                                         \
	}
#define REAL(n, size, parts, value, part)                                                          \
	{                                                                                          \
#n, n, size, parts, value, part, true, NULL                                        \
	}

static const struct type types[] = {
	INT(FI_INT8, 1, true),
	INT(FI_UINT8, 1, false),
	INT(FI_INT16, 2, true),
	INT(FI_UINT16, 2, false),
	INT(FI_INT32, 4, true),
	INT(FI_UINT32, 4, false),
	INT(FI_INT64, 8, true),
	INT(FI_UINT64, 8, false),
	INT(FI_INT128, 16, true),
	INT(FI_UINT128, 16, false),
	REAL(FI_FLOAT, 4, 1, 4, PART_F32),
	REAL(FI_DOUBLE, 8, 1, 8, PART_F64),
	REAL(FI_LONG_DOUBLE, 16, 1, LDBL_BYTES, PART_LDBL),
	REAL(FI_FLOAT_COMPLEX, 8, 2, 4, PART_F32),
	REAL(FI_DOUBLE_COMPLEX, 16, 2, 8, PART_F64),
	REAL(FI_LONG_DOUBLE_COMPLEX, 32, 2, LDBL_BYTES, PART_LDBL),
	MINI(FI_FLOAT16, 2, &f16),
	MINI(FI_BFLOAT16, 2, &bf16),
	MINI(FI_FLOAT8_E4M3, 1, &e4m3),
	MINI(FI_FLOAT8_E5M2, 1, &e5m2),
};

#define BIT(op)	 (1u << (op))
#define ARITH	 (BIT(FI_SUM) | BIT(FI_PROD) | BIT(FI_DIFF))
#define LOGIC	 (BIT(FI_LOR) | BIT(FI_LAND) | BIT(FI_LXOR))
#define BITWISE	 (BIT(FI_BOR) | BIT(FI_BAND) | BIT(FI_BXOR))
#define EXTREMA	 (BIT(FI_MIN) | BIT(FI_MAX))
#define EQUALITY (BIT(FI_CSWAP) | BIT(FI_CSWAP_NE))
#define ORDERED	 (BIT(FI_CSWAP_LE) | BIT(FI_CSWAP_LT) | BIT(FI_CSWAP_GE) | BIT(FI_CSWAP_GT))

/* What fi_atomic(3) allows. */
static inline bool allowed(int kind, const struct type *t, unsigned int op)
{
	uint32_t ops = 0;

	if (kind == SW_ATOMIC_BASE || kind == SW_ATOMIC_FETCH)
		ops = ARITH | LOGIC | BIT(FI_ATOMIC_WRITE) | (t->parts == 1 ? EXTREMA : 0) |
		      (t->part == PART_INT ? BITWISE : 0) |
		      (kind == SW_ATOMIC_FETCH ? BIT(FI_ATOMIC_READ) : 0);
	else if (kind == SW_ATOMIC_COMPARE)
		ops = EQUALITY | (t->parts == 1 ? ORDERED : 0) |
		      (t->part == PART_INT ? BIT(FI_MSWAP) : 0);
	return op < 32 && (ops & BIT(op));
}

/* ---- reference ---- */

static uint64_t random_state = 0x5eed5eed5eed5eedu;

static inline uint64_t rnd(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static inline long double mini_value(const struct mini *m, uint32_t bits)
{
	const uint32_t exp_max = (1u << m->exp_bits) - 1;
	const uint32_t exp = (bits >> m->man_bits) & exp_max,
		       man = bits & ((1u << m->man_bits) - 1);
	const int scale = (exp ? (int)exp : 1) - (int)(exp_max / 2) - (int)m->man_bits;
	const uint32_t size = bits & ((1u << (m->exp_bits + m->man_bits)) - 1);
	long double v = ldexpl((long double)((exp ? 1u << m->man_bits : 0) + man), scale);

	if (size > m->max)
		v = size == m->overflow && m != &e4m3 ? INFINITY : NAN;
	return bits > size ? -v : v;
}

/* The encoding whose value is nearest, the even one of two that are equally near. */
static inline uint32_t mini_bits(const struct mini *m, long double v)
{
	const uint32_t sign = signbit(v) ? 1u << (m->exp_bits + m->man_bits) : 0;
	long double below, above, x = fabsl(v);
	uint32_t low = 0, high = m->max + 1;

	if (isnan(v))
		return m->exp_bits == 4 ? m->overflow : m->overflow + 1;
	if (isinf(v))
		return sign | m->overflow;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (mini_value(m, mid) <= x)
			low = mid;
		else
			high = mid;
	}
	below = x - mini_value(m, low);
	above = high <= m->max ? mini_value(m, high) - x
			       : 2 * mini_value(m, m->max) - mini_value(m, m->max - 1) - x;
	if (above < below || (above == below && (low & 1)))
		low = high;
	return sign | (low > m->max ? m->overflow : low);
}

static inline long double get_part(const struct type *t, const void *p)
{
	long double ld = 0;
	uint32_t bits = 0;
	double d;
	float f;

	switch (t->part) {
	case PART_F32:
		memcpy(&f, p, sizeof(f));
		return f;
	case PART_F64:
		memcpy(&d, p, sizeof(d));
		return d;
	case PART_LDBL:
		memcpy(&ld, p, LDBL_BYTES);
		return ld;
	default:
		memcpy(&bits, p, t->size);
		return mini_value(t->mini, bits);
	}
}

static inline void put_part(const struct type *t, void *p, long double v)
{
	const float f = (float)v;
	const double d = (double)v;
	uint32_t bits;

	switch (t->part) {
	case PART_F32:
		memcpy(p, &f, sizeof(f));
		break;
	case PART_F64:
		memcpy(p, &d, sizeof(d));
		break;
	case PART_LDBL:
		memcpy(p, &v, LDBL_BYTES);
		break;
	default:
		bits = mini_bits(t->mini, v);
		memcpy(p, &bits, t->size);
	}
}

/* One operation rounded to the part's type.  Double needs its own arithmetic: 64 bits are too
 * few to round twice. */
static inline long double arith(const struct type *t, int op, long double a, long double b)
{
	volatile double x = (double)a, y = (double)b, d;
	volatile long double r;

	if (t->part == PART_F64) {
		d = op == FI_SUM ? x + y : op == FI_DIFF ? x - y : x * y;
		return d;
	}
	r = op == FI_SUM ? a + b : op == FI_DIFF ? a - b : a * b;
	return t->part == PART_F32 ? (long double)(float)r : r;
}

/* What C makes of a product whose textbook formula gives two NaNs: possibly an infinity. */
#define C_PRODUCT(T, a, b, v)                                                                      \
	do {                                                                                       \
		const T a_parts[2] = { (T)(a)[0], (T)(a)[1] };                                     \
		const T b_parts[2] = { (T)(b)[0], (T)(b)[1] };                                     \
		T complex x, y;                                                                    \
                                                                                                   \
		memcpy(&x, a_parts, sizeof(x));                                                    \
		memcpy(&y, b_parts, sizeof(y));                                                    \
		x *= y;                                                                            \
		(v)[0] = creall(x);                                                                \
		(v)[1] = cimagl(x);                                                                \
	} while (0)

static inline void c_product(const struct type *t, const long double a[2], const long double b[2],
			     long double v[2])
{
	if (t->part == PART_F32)
		C_PRODUCT(float, a, b, v);
	else if (t->part == PART_F64)
		C_PRODUCT(double, a, b, v);
	else
		C_PRODUCT(long double, a, b, v);
}

static inline bool relation(int op, bool less, bool equal, bool unordered)
{
	switch (op) {
	case FI_CSWAP:
		return equal;
	case FI_CSWAP_NE:
		return !equal;
	case FI_CSWAP_LE:
		return less || equal;
	case FI_CSWAP_GE:
		return !less && !unordered;
	case FI_CSWAP_LT:
	case FI_MIN:
		return less;
	default: /* FI_CSWAP_GT, FI_MAX */
		return !less && !equal && !unordered;
	}
}

static inline bool logic(int op, bool a, bool b)
{
	return op == FI_LOR ? a || b : op == FI_LAND ? a && b : a != b;
}

static inline void copy_value(const struct type *t, void *to, const void *from)
{
	const size_t stride = t->size / t->parts;

	for (size_t i = 0; i < t->parts; i++)
		memcpy((char *)to + i * stride, (const char *)from + i * stride, t->value_size);
}

static inline i128 get_int(const struct type *t, const void *p)
{
	const unsigned int unused = 128 - 8 * (unsigned int)t->size;
	u128 v = 0;

	memcpy(&v, p, t->size);
	return t->is_signed ? (i128)(v << unused) >> unused : (i128)v;
}

static inline void ref_int(const struct type *t, int op, void *dst, const void *src,
			   const void *cmp)
{
	const i128 a = get_int(t, dst), b = get_int(t, src);
	const i128 c = op == FI_MIN || op == FI_MAX ? b : get_int(t, cmp);
	u128 r = (u128)a;

	if (BIT(op) & LOGIC)
		r = logic(op, a, b);
	else if (BIT(op) & (EXTREMA | EQUALITY | ORDERED))
		r = relation(op, t->is_signed ? c < a : (u128)c < (u128)a, c == a, false) ? (u128)b
											  : r;
	else if (op == FI_SUM || op == FI_DIFF)
		r = op == FI_SUM ? r + (u128)b : r - (u128)b;
	else if (op == FI_PROD)
		r *= (u128)b;
	else if (BIT(op) & BITWISE)
		r = (u128)(op == FI_BOR ? a | b : op == FI_BAND ? a & b : a ^ b);
	else if (op == FI_MSWAP)
		r = (u128)(b & c) | (u128)(a & ~c);
	memcpy(dst, &r, t->size);
}

static inline void ref_float(const struct type *t, int op, void *dst, const void *src,
			     const void *cmp)
{
	const size_t im = t->parts == 2 ? t->size / 2 : 0;
	const char *left = BIT(op) & EXTREMA ? src : cmp;
	long double a[2] = { get_part(t, dst), im ? get_part(t, (char *)dst + im) : 0 };
	long double b[2] = { get_part(t, src), im ? get_part(t, (const char *)src + im) : 0 };
	long double c[2] = { get_part(t, left), im ? get_part(t, left + im) : 0 };
	long double v[2] = { 0, 0 };

	if (BIT(op) & (EXTREMA | EQUALITY | ORDERED)) {
		if (relation(op, c[0] < a[0], c[0] == a[0] && c[1] == a[1],
			     isunordered(c[0], a[0])))
			copy_value(t, dst, src);
		return;
	}
	if (BIT(op) & LOGIC) {
		v[0] = logic(op, a[0] != 0 || a[1] != 0, b[0] != 0 || b[1] != 0);
	} else if (op == FI_PROD && im) {
		v[0] = arith(t, FI_DIFF, arith(t, op, a[0], b[0]), arith(t, op, a[1], b[1]));
		v[1] = arith(t, FI_SUM, arith(t, op, a[0], b[1]), arith(t, op, a[1], b[0]));
		if (isnan(v[0]) && isnan(v[1]))
			c_product(t, a, b, v);
	} else {
		v[0] = arith(t, op, a[0], b[0]);
		v[1] = arith(t, op, a[1], b[1]);
	}
	put_part(t, dst, v[0]);
	if (im)
		put_part(t, (char *)dst + im, v[1]);
}

static inline void reference(const struct type *t, int op, void *dst, const void *src,
			     const void *cmp)
{
	if (op == FI_ATOMIC_READ)
		return;
	if (op == FI_ATOMIC_WRITE)
		copy_value(t, dst, src);
	else if (t->part == PART_INT)
		ref_int(t, op, dst, src, cmp);
	else
		ref_float(t, op, dst, src, cmp);
}

/* Bit for bit, padding included, except that arithmetic may give any NaN. */
static inline bool same_element(const struct type *t, int op, const void *got, const void *want)
{
	const size_t stride = t->size / t->parts;

	if (!memcmp(got, want, t->size))
		return true;
	if (t->part == PART_INT || !(BIT(op) & ARITH))
		return false;
	for (size_t at = 0; at < t->size; at += stride) {
		const char *g = (const char *)got + at, *w = (const char *)want + at;
		bool nan = isnan(get_part(t, g)) && isnan(get_part(t, w));

		if ((memcmp(g, w, t->value_size) && !nan) ||
		    memcmp(g + t->value_size, w + t->value_size, stride - t->value_size))
			return false;
	}
	return true;
}

/* ---- operands ---- */

enum {
	EDGES = 16
};

static inline long double real_edge(const struct type *t, unsigned int i)
{
	const bool f32 = t->part == PART_F32, f64 = t->part == PART_F64;
	const struct mini *m = t->mini;
	const long double max = m     ? mini_value(m, m->max)
				: f32 ? FLT_MAX
				: f64 ? DBL_MAX
				      : LDBL_MAX;
	const long double min = m     ? mini_value(m, 1u << m->man_bits)
				: f32 ? FLT_MIN
				: f64 ? DBL_MIN
				      : LDBL_MIN;
	const long double eps = m     ? ldexpl(1, -(int)m->man_bits)
				: f32 ? FLT_EPSILON
				: f64 ? DBL_EPSILON
				      : LDBL_EPSILON;
	const long double edges[EDGES] = {
		0,    -0.0L, 1,	   -1,	      INFINITY,	  -INFINITY, NAN, max,
		-max, min,   -min, min * eps, -min * eps, 1 + eps,   eps, -2.5L,
	};

	return edges[i % EDGES];
}

static inline void put_int_edge(const struct type *t, void *p, unsigned int i)
{
	const u128 top = (u128)1 << (8 * t->size - 1), half = (u128)1 << (4 * t->size);
	const u128 stripes = ~(u128)0 / 3;
	const u128 edges[EDGES] = {
		0,	 1,	  2,	3,	  (u128)-1, (u128)-2, top,     top - 1,
		top + 1, top - 2, half, half - 1, stripes,  ~stripes, top / 2, 100,
	};

	memcpy(p, &edges[i % EDGES], t->size);
}

static inline void put_edge(const struct type *t, void *p, unsigned int i)
{
	if (t->part == PART_INT) {
		put_int_edge(t, p, i);
		return;
	}
	put_part(t, p, real_edge(t, i));
	if (t->parts == 2)
		put_part(t, (char *)p + t->size / 2, real_edge(t, i * 7 + 3 + i / EDGES));
}

/* An edge, any bit pattern, or a moderate number; x87 has invalid patterns, so no bits there. */
static inline void put_random(const struct type *t, void *p)
{
	const unsigned int way = rnd() % 3;
	const size_t stride = t->size / t->parts;
	uint64_t bits[2] = { rnd(), rnd() };

	if (way == 0) {
		put_edge(t, p, (unsigned int)(rnd() % (EDGES * EDGES)));
		return;
	}
	for (size_t at = 0; at < t->size; at += stride, bits[0] = rnd()) {
		if (t->part == PART_LDBL || (way == 1 && t->part != PART_INT))
			put_part(t, (char *)p + at,
				 ldexpl((long double)(int64_t)bits[0], -(int)(rnd() % 80)));
		else
			memcpy((char *)p + at, bits, t->value_size);
	}
}

#endif
