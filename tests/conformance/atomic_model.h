/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fi_atomic(3) says each operation does, on small whole numbers that every datatype holds
 * exactly (0, 1, 2 and 4, and what one operation makes of two of them), so that no rounding is
 * involved and a number can be compared byte by byte.  Integers are also tried with any bits.
 */
#ifndef CONF_ATOMIC_MODEL_H
#define CONF_ATOMIC_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdma/fi_atomic.h>

__extension__ typedef unsigned __int128 model_bits;
__extension__ typedef __int128 model_int;

enum model_kind {
	MODEL_BASE,
	MODEL_FETCH,
	MODEL_COMPARE,
	MODEL_KINDS
};
enum model_form {
	MODEL_SIGNED,
	MODEL_UNSIGNED,
	MODEL_REAL
};

struct model_type {
	enum fi_datatype datatype;
	size_t size;
	enum model_form form;
	bool is_complex;
	unsigned int exponent, mantissa; /* bits of a format that C has no type for, else 0 */
};

static const struct model_type model_types[] = {
	{ FI_INT8, 1, MODEL_SIGNED, false, 0, 0 },
	{ FI_UINT8, 1, MODEL_UNSIGNED, false, 0, 0 },
	{ FI_INT16, 2, MODEL_SIGNED, false, 0, 0 },
	{ FI_UINT16, 2, MODEL_UNSIGNED, false, 0, 0 },
	{ FI_INT32, 4, MODEL_SIGNED, false, 0, 0 },
	{ FI_UINT32, 4, MODEL_UNSIGNED, false, 0, 0 },
	{ FI_INT64, 8, MODEL_SIGNED, false, 0, 0 },
	{ FI_UINT64, 8, MODEL_UNSIGNED, false, 0, 0 },
	{ FI_FLOAT, 4, MODEL_REAL, false, 0, 0 },
	{ FI_DOUBLE, 8, MODEL_REAL, false, 0, 0 },
	{ FI_FLOAT_COMPLEX, 8, MODEL_REAL, true, 0, 0 },
	{ FI_DOUBLE_COMPLEX, 16, MODEL_REAL, true, 0, 0 },
	{ FI_LONG_DOUBLE, sizeof(long double), MODEL_REAL, false, 0, 0 },
	{ FI_LONG_DOUBLE_COMPLEX, 2 * sizeof(long double), MODEL_REAL, true, 0, 0 },
	{ FI_INT128, 16, MODEL_SIGNED, false, 0, 0 },
	{ FI_UINT128, 16, MODEL_UNSIGNED, false, 0, 0 },
	{ FI_FLOAT16, 2, MODEL_REAL, false, 5, 10 },
	{ FI_BFLOAT16, 2, MODEL_REAL, false, 8, 7 },
	{ FI_FLOAT8_E4M3, 1, MODEL_REAL, false, 4, 3 },
	{ FI_FLOAT8_E5M2, 1, MODEL_REAL, false, 5, 2 },
};

#define MODEL_TYPES    (sizeof(model_types) / sizeof(model_types[0]))
#define MODEL_MAX_SIZE 32

/* A number: bits of an integer, or the parts of a real or complex one. */
struct model_value {
	model_bits bits;
	int re, im;
};

static inline bool model_allows(enum model_kind kind, const struct model_type *t, int op)
{
	bool integer = t->form != MODEL_REAL;

	switch (op) {
	case FI_MIN:
	case FI_MAX:
		return kind != MODEL_COMPARE && !t->is_complex;
	case FI_SUM:
	case FI_PROD:
	case FI_DIFF:
	case FI_LOR:
	case FI_LAND:
	case FI_LXOR:
	case FI_ATOMIC_WRITE:
		return kind != MODEL_COMPARE;
	case FI_BOR:
	case FI_BAND:
	case FI_BXOR:
		return kind != MODEL_COMPARE && integer;
	case FI_ATOMIC_READ:
		return kind == MODEL_FETCH;
	case FI_CSWAP:
	case FI_CSWAP_NE:
		return kind == MODEL_COMPARE;
	case FI_CSWAP_LE:
	case FI_CSWAP_LT:
	case FI_CSWAP_GE:
	case FI_CSWAP_GT:
		return kind == MODEL_COMPARE && !t->is_complex;
	case FI_MSWAP:
		return kind == MODEL_COMPARE && integer;
	default:
		return false;
	}
}

static inline model_int model_number(const struct model_type *t, model_bits bits)
{
	unsigned int unused = 128 - 8 * (unsigned int)t->size;

	if (t->form == MODEL_SIGNED)
		return (model_int)(bits << unused) >> unused;
	return (model_int)(bits << unused >> unused);
}

/* -1, 0, 1 as a is less than, equal to, greater than b. */
static inline int model_order(const struct model_type *t, const struct model_value *a,
			      const struct model_value *b)
{
	if (t->form == MODEL_REAL)
		return a->re < b->re ? -1 : a->re > b->re ? 1 : a->im != b->im;
	if (t->form == MODEL_UNSIGNED) {
		model_bits x = (model_bits)model_number(t, a->bits),
			   y = (model_bits)model_number(t, b->bits);

		return x < y ? -1 : x > y;
	}
	return model_number(t, a->bits) < model_number(t, b->bits)
		       ? -1
		       : model_number(t, a->bits) > model_number(t, b->bits);
}

static inline bool model_truth(const struct model_type *t, const struct model_value *v)
{
	return t->form == MODEL_REAL ? v->re || v->im : model_number(t, v->bits) != 0;
}

static inline struct model_value model_of(int re, int im)
{
	return (struct model_value){ (model_bits)(model_int)re, re, im };
}

/* Does a compare-and-swap swap? */
static inline bool model_swaps(int op, int order)
{
	switch (op) {
	case FI_CSWAP:
		return order == 0;
	case FI_CSWAP_NE:
		return order != 0;
	case FI_CSWAP_LE:
		return order <= 0;
	case FI_CSWAP_LT:
		return order < 0;
	case FI_CSWAP_GE:
		return order >= 0;
	default:
		return order > 0;
	}
}

/* dst after the operation with operand src (and cmp). */
static inline struct model_value model_apply(const struct model_type *t, int op,
					     struct model_value dst, struct model_value src,
					     struct model_value cmp)
{
	bool d = model_truth(t, &dst), s = model_truth(t, &src);

	switch (op) {
	case FI_MIN:
		return model_order(t, &src, &dst) < 0 ? src : dst;
	case FI_MAX:
		return model_order(t, &src, &dst) > 0 ? src : dst;
	case FI_SUM:
		return (struct model_value){ dst.bits + src.bits, dst.re + src.re,
					     dst.im + src.im };
	case FI_DIFF:
		return (struct model_value){ dst.bits - src.bits, dst.re - src.re,
					     dst.im - src.im };
	case FI_PROD:
		return (struct model_value){ dst.bits * src.bits, dst.re * src.re - dst.im * src.im,
					     dst.re * src.im + dst.im * src.re };
	case FI_LOR:
		return model_of(d || s, 0);
	case FI_LAND:
		return model_of(d && s, 0);
	case FI_LXOR:
		return model_of(d != s, 0);
	case FI_BOR:
		return (struct model_value){ dst.bits | src.bits, 0, 0 };
	case FI_BAND:
		return (struct model_value){ dst.bits & src.bits, 0, 0 };
	case FI_BXOR:
		return (struct model_value){ dst.bits ^ src.bits, 0, 0 };
	case FI_ATOMIC_READ:
		return dst;
	case FI_ATOMIC_WRITE:
		return src;
	case FI_MSWAP:
		return (struct model_value){ (src.bits & cmp.bits) | (dst.bits & ~cmp.bits), 0, 0 };
	default:
		return model_swaps(op, model_order(t, &cmp, &dst)) ? src : dst;
	}
}

/* A small whole number in a binary format of sign, exponent and mantissa. */
static inline uint16_t model_mini(const struct model_type *t, int value)
{
	unsigned int size = (unsigned int)(value < 0 ? -value : value), power = 0, bias;
	unsigned int sign = value < 0 ? 1u << (t->exponent + t->mantissa) : 0;

	if (!size)
		return 0;
	while (size >> (power + 1))
		power++;
	bias = (1u << (t->exponent - 1)) - 1;
	return (uint16_t)(sign | (bias + power) << t->mantissa |
			  ((size << t->mantissa >> power) & ((1u << t->mantissa) - 1)));
}

static inline void model_part(const struct model_type *t, int value, uint8_t *at, size_t size)
{
	long double ld = value;
	double d = value;
	float f = (float)value;
	uint16_t mini;

	if (t->exponent) {
		mini = model_mini(t, value);
		memcpy(at, &mini, size);
	} else if (size == sizeof(f)) {
		memcpy(at, &f, size);
	} else if (size == sizeof(d)) {
		memcpy(at, &d, size);
	} else {
		/* bytes behind the value, where the type has any, keep what they held */
		memcpy(at, &ld, sizeof(ld) == 16 && __LDBL_MANT_DIG__ == 64 ? 10 : size);
	}
}

/* Writes the value's bytes at at. */
static inline void model_put(const struct model_type *t, const struct model_value *v, uint8_t *at)
{
	size_t part = t->is_complex ? t->size / 2 : t->size;

	if (t->form != MODEL_REAL) {
		memcpy(at, &v->bits, t->size);
		return;
	}
	model_part(t, v->re, at, part);
	if (t->is_complex)
		model_part(t, v->im, at + part, part);
}

#endif
