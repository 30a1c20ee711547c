/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conversion between single precision and the floats of 16 and 8 bits, in integer arithmetic,
 * so that no compiler or processor support for those formats is needed.
 *
 * Encoding rounds to nearest, ties to even, and does not saturate: what lies beyond the largest
 * finite value after rounding becomes infinity, or NaN in E4M3, which has no infinity (OCP 8-bit
 * Floating Point Specification).  Saturation at 448 would turn an overflow into a plausible
 * number and make a sum depend on the order of its terms in a way nobody can detect.
 *
 * Every decoded value is exact in single precision.  A sum, difference or product of two values
 * computed in single precision and then encoded is correctly rounded: 24 bits of precision are
 * at least twice the format's plus two.
 */
#ifndef HM_SW_MINIFLOAT_H
#define HM_SW_MINIFLOAT_H

#include <stdbool.h>
#include <stdint.h>

struct sw_minifloat {
	unsigned int exp_bits;
	unsigned int man_bits;
	/* The highest exponent is infinity and NaN as in IEEE 754; else only all ones is NaN. */
	bool ieee;
};

extern const struct sw_minifloat sw_minifloat_float16;
extern const struct sw_minifloat sw_minifloat_bfloat16;
extern const struct sw_minifloat sw_minifloat_e4m3;
extern const struct sw_minifloat sw_minifloat_e5m2;

/* bits: an encoding of the format, higher bits 0. */
float sw_minifloat_decode(const struct sw_minifloat *format, uint32_t bits);
/* NaN keeps its sign and, where the format has one, the upper payload, and becomes quiet. */
uint32_t sw_minifloat_encode(const struct sw_minifloat *format, float value);

#endif
