/* SPDX-License-Identifier: BSD-2-Clause */
/* The model: what fi_atomic(3) says of integers. */
#include "tests/walk/model.h"

#include <string.h>

size_t model_atomic_size(enum fi_datatype datatype)
{
	switch (datatype) {
	case FI_INT8:
	case FI_UINT8:
		return 1;
	case FI_INT16:
	case FI_UINT16:
		return 2;
	case FI_INT32:
	case FI_UINT32:
		return 4;
	default:
		return 8;
	}
}

static bool is_signed(enum fi_datatype datatype)
{
	return datatype == FI_INT8 || datatype == FI_INT16 || datatype == FI_INT32 ||
	       datatype == FI_INT64;
}

bool model_atomic_valid(int kind, enum fi_datatype datatype, enum fi_op op)
{
	(void)datatype; /* integers have them all */
	if (op >= FI_CSWAP && op <= FI_MSWAP)
		return kind == 2;
	if (op == FI_ATOMIC_READ)
		return kind == 1;
	return kind != 2;
}

/* Zero or sign extended. */
static uint64_t load(enum fi_datatype datatype, const uint8_t *at)
{
	size_t size = model_atomic_size(datatype);
	uint64_t value = 0;

	for (size_t i = size; i > 0; i--)
		value = value << 8 | at[i - 1];
	if (is_signed(datatype) && size < 8 && (value >> (size * 8 - 1)))
		value |= UINT64_MAX << size * 8;
	return value;
}

static int order(enum fi_datatype datatype, uint64_t a, uint64_t b)
{
	if (is_signed(datatype)) {
		a ^= UINT64_C(1) << 63;
		b ^= UINT64_C(1) << 63;
	}
	return a < b ? -1 : a > b;
}

static bool swaps(enum fi_op op, int compare_to_target)
{
	switch (op) {
	case FI_CSWAP:
		return compare_to_target == 0;
	case FI_CSWAP_NE:
		return compare_to_target != 0;
	case FI_CSWAP_LE:
		return compare_to_target <= 0;
	case FI_CSWAP_LT:
		return compare_to_target < 0;
	case FI_CSWAP_GE:
		return compare_to_target >= 0;
	default:
		return compare_to_target > 0;
	}
}

static uint64_t result(enum fi_datatype datatype, enum fi_op op, uint64_t d, uint64_t s, uint64_t c)
{
	switch (op) {
	case FI_MIN:
		return order(datatype, s, d) < 0 ? s : d;
	case FI_MAX:
		return order(datatype, s, d) > 0 ? s : d;
	case FI_SUM:
		return d + s;
	case FI_DIFF:
		return d - s;
	case FI_PROD:
		return d * s;
	case FI_LOR:
		return d || s;
	case FI_LAND:
		return d && s;
	case FI_LXOR:
		return !d != !s;
	case FI_BOR:
		return d | s;
	case FI_BAND:
		return d & s;
	case FI_BXOR:
		return d ^ s;
	case FI_ATOMIC_READ:
		return d;
	case FI_ATOMIC_WRITE:
		return s;
	case FI_MSWAP:
		return (s & c) | (d & ~c);
	default:
		return swaps(op, order(datatype, c, d)) ? s : d;
	}
}

void model_atomic(enum fi_datatype datatype, enum fi_op op, uint8_t *dst, const uint8_t *src,
		  const uint8_t *compare)
{
	bool compares = op >= FI_CSWAP && op <= FI_MSWAP, reads = op == FI_ATOMIC_READ;
	uint64_t value = result(datatype, op, load(datatype, dst), reads ? 0 : load(datatype, src),
				compares ? load(datatype, compare) : 0);

	for (size_t i = 0; i < model_atomic_size(datatype); i++)
		dst[i] = (uint8_t)(value >> 8 * i);
}
