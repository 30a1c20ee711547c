/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversion between single precision and the 16-bit and 8-bit floats; see sw_minifloat.h. */
#include "core/nic/sw_minifloat.h"

#include <string.h>

#define F32_MAN_BITS 23
#define F32_BIAS     127
#define F32_INF	     0x7f800000u
#define F32_QUIET    0x00400000u

const struct sw_minifloat sw_minifloat_float16 = { .exp_bits = 5, .man_bits = 10, .ieee = true };
const struct sw_minifloat sw_minifloat_bfloat16 = { .exp_bits = 8, .man_bits = 7, .ieee = true };
const struct sw_minifloat sw_minifloat_e4m3 = { .exp_bits = 4, .man_bits = 3, .ieee = false };
const struct sw_minifloat sw_minifloat_e5m2 = { .exp_bits = 5, .man_bits = 2, .ieee = true };

static float f32_from_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

float sw_minifloat_decode(const struct sw_minifloat *format, uint32_t bits)
{
	const unsigned int m = format->man_bits, widen = F32_MAN_BITS - m;
	const uint32_t exp_max = (1u << format->exp_bits) - 1;
	const int bias = (int)(exp_max >> 1);
	const uint32_t sign = (bits >> (format->exp_bits + m)) << 31;
	uint32_t man = bits & ((1u << m) - 1);
	int exp = (int)((bits >> m) & exp_max);

	/* The same exponent range as single precision: the upper half of one, subnormals too. */
	if (bias == F32_BIAS)
		return f32_from_bits(bits << widen);
	if (format->ieee && exp == (int)exp_max)
		return f32_from_bits(sign | F32_INF | man << widen);
	if (!format->ieee && exp == (int)exp_max && man == (1u << m) - 1)
		return f32_from_bits(sign | F32_INF | F32_QUIET);
	if (exp == 0) {
		if (man == 0)
			return f32_from_bits(sign);
		for (exp = 1; !(man >> m); exp--)
			man <<= 1;
		man &= (1u << m) - 1;
	}
	return f32_from_bits(sign | (uint32_t)(exp - bias + F32_BIAS) << F32_MAN_BITS |
			     man << widen);
}

uint32_t sw_minifloat_encode(const struct sw_minifloat *format, float value)
{
	const unsigned int m = format->man_bits;
	const uint32_t exp_max = (1u << format->exp_bits) - 1;
	const uint32_t inf = format->ieee ? exp_max << m : (exp_max << m) | ((1u << m) - 1);
	const int min_exp = 1 - (int)(exp_max >> 1);
	unsigned int shift = F32_MAN_BITS - m;
	uint32_t u, sign, man, kept, rest, half;
	int exp;

	memcpy(&u, &value, sizeof(u));
	sign = (u >> 31) << (format->exp_bits + m);
	u &= ~(1u << 31);
	if (u > F32_INF && format->ieee)
		return sign | inf | 1u << (m - 1) | (u & (F32_QUIET - 1)) >> shift;
	if (u >= F32_INF)
		return sign | inf;

	exp = (int)(u >> F32_MAN_BITS);
	man = u & ((1u << F32_MAN_BITS) - 1);
	if (exp)
		man |= 1u << F32_MAN_BITS;
	else
		exp = 1;
	exp -= F32_BIAS;
	if (exp < min_exp) {
		shift += (unsigned int)(min_exp - exp);
		exp = min_exp;
	}
	/* All 24 bits lie below half of the smallest subnormal. */
	if (shift > F32_MAN_BITS + 1)
		return sign;

	kept = man >> shift;
	rest = man & ((1u << shift) - 1);
	half = 1u << (shift - 1);
	if (rest > half || (rest == half && (kept & 1)))
		kept++;
	/* The implicit bit and a carry out of rounding add themselves to the exponent. */
	kept += (uint32_t)(exp - min_exp) << m;
	return sign | (kept < inf ? kept : inf);
}
