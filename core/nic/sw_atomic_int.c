/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Integer datatypes of the atomic engine, 8 to 128 bits.
 *
 * Only order depends on the sign: everything else is computed on the unsigned type of the same
 * width and shared by both, which also makes signed overflow wrap instead of being undefined.
 */
#include "core/nic/sw_atomic_impl.h"

#include <string.h>

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

#define LOADER(s, T)                                                                               \
	static inline T get_##s(const void *p)                                                     \
	{                                                                                          \
		T v;                                                                               \
                                                                                                   \
		memcpy(&v, p, sizeof(v));                                                          \
		return v;                                                                          \
	}

#define INT_STEPS(bits, U, S, W)                                                                   \
	LOADER(u##bits, U)                                                                         \
	LOADER(i##bits, S)                                                                         \
	static inline void put_u##bits(void *p, U v)                                               \
	{                                                                                          \
		memcpy(p, &v, sizeof(v));                                                          \
	}                                                                                          \
	static inline void copy_u##bits(void *p, const void *q)                                    \
	{                                                                                          \
		memcpy(p, q, sizeof(U));                                                           \
	}                                                                                          \
	static bool mswap_u##bits(void *next, const void *old, const void *src, const void *cmp)   \
	{                                                                                          \
		const U mask = get_u##bits(cmp);                                                   \
                                                                                                   \
		put_u##bits(next, (U)((get_u##bits(src) & mask) | (get_u##bits(old) & ~mask)));    \
		return true;                                                                       \
	}                                                                                          \
	SW_STEPS_EQUALITY(u##bits, U, get_u##bits, copy_u##bits)                                   \
	SW_STEPS_SUM(u##bits, U, W, get_u##bits, put_u##bits)                                      \
	SW_STEPS_LOGIC(u##bits, U, get_u##bits, put_u##bits)                                       \
	SW_STEP_ARITH(bor_u##bits, U, get_u##bits, put_u##bits, (U)(a | b))                        \
	SW_STEP_ARITH(band_u##bits, U, get_u##bits, put_u##bits, (U)(a & b))                       \
	SW_STEP_ARITH(bxor_u##bits, U, get_u##bits, put_u##bits, (U)(a ^ b))                       \
	SW_STEPS_ORDER(u##bits, U, get_u##bits, copy_u##bits)                                      \
	SW_STEPS_ORDER(i##bits, S, get_i##bits, copy_u##bits)

INT_STEPS(8, uint8_t, int8_t, unsigned int)
INT_STEPS(16, uint16_t, int16_t, unsigned int)
INT_STEPS(32, uint32_t, int32_t, uint32_t)
INT_STEPS(64, uint64_t, int64_t, uint64_t)
INT_STEPS(128, u128, i128, u128)

#define INT_TYPE(name, bits, order)                                                                \
	const struct sw_atomic_type name = {                                                       \
		.size = (bits) / 8,                                                                \
		.parts = 1,                                                                        \
		.value_size = (bits) / 8,                                                          \
		.integer = true,                                                                   \
		.step = {                                                                          \
			SW_ROW_COMMON(u##bits),                                                    \
			SW_ROW_ORDER(order##bits),                                                 \
			[FI_BOR] = bor_u##bits,                                                    \
			[FI_BAND] = band_u##bits,                                                  \
			[FI_BXOR] = bxor_u##bits,                                                  \
			[FI_MSWAP] = mswap_u##bits,                                                \
		},                                                                                 \
	}

INT_TYPE(sw_atomic_int8, 8, i);
INT_TYPE(sw_atomic_uint8, 8, u);
INT_TYPE(sw_atomic_int16, 16, i);
INT_TYPE(sw_atomic_uint16, 16, u);
INT_TYPE(sw_atomic_int32, 32, i);
INT_TYPE(sw_atomic_uint32, 32, u);
INT_TYPE(sw_atomic_int64, 64, i);
INT_TYPE(sw_atomic_uint64, 64, u);
INT_TYPE(sw_atomic_int128, 128, i);
INT_TYPE(sw_atomic_uint128, 128, u);
