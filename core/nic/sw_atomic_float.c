/* SPDX-License-Identifier: BSD-2-Clause */
/* Floating-point datatypes of the atomic engine: IEEE, x87, complex, 16 and 8 bits. */
#include "core/nic/sw_atomic_impl.h"

#include <assert.h>
#include <complex.h>
#include <float.h>
#include <string.h>

#include "core/nic/sw_minifloat.h"

/* The x87 format has 10 value bytes, the rest of the object is padding. */
#if LDBL_MANT_DIG == 64
#define LDBL_VALUE_SIZE 10
#else
#define LDBL_VALUE_SIZE sizeof(long double)
#endif

static_assert(sizeof(float) == 4 && sizeof(double) == 8, "IEEE 754 single and double");
static_assert(sizeof(long double complex) <= SW_ATOMIC_MAX_SIZE, "element buffers too small");

/* A type is parts values of value_size bytes, at distances of its size divided by parts. */
#define FLOAT_ACCESS(s, T, n_parts, n_value)                                                       \
	enum {                                                                                     \
		parts_##s = (n_parts),                                                             \
		value_##s = (n_value),                                                             \
	};                                                                                         \
	static inline void copy_##s(void *p, const void *q)                                        \
	{                                                                                          \
		const size_t stride = sizeof(T) / parts_##s;                                       \
                                                                                                   \
		for (size_t i = 0; i < parts_##s; i++)                                             \
			memcpy((char *)p + i * stride, (const char *)q + i * stride, value_##s);   \
	}                                                                                          \
	static inline T get_##s(const void *p)                                                     \
	{                                                                                          \
		T v = 0;                                                                           \
                                                                                                   \
		copy_##s(&v, p);                                                                   \
		return v;                                                                          \
	}                                                                                          \
	static inline void put_##s(void *p, T v)                                                   \
	{                                                                                          \
		copy_##s(p, &v);                                                                   \
	}

FLOAT_ACCESS(f32, float, 1, sizeof(float))
FLOAT_ACCESS(f64, double, 1, sizeof(double))
FLOAT_ACCESS(ldbl, long double, 1, LDBL_VALUE_SIZE)
FLOAT_ACCESS(c32, float complex, 2, sizeof(float))
FLOAT_ACCESS(c64, double complex, 2, sizeof(double))
FLOAT_ACCESS(cldbl, long double complex, 2, LDBL_VALUE_SIZE)

#define MINI_ACCESS(s, U, format)                                                                  \
	enum {                                                                                     \
		parts_##s = 1,                                                                     \
		value_##s = sizeof(U),                                                             \
	};                                                                                         \
	static inline void copy_##s(void *p, const void *q)                                        \
	{                                                                                          \
		memcpy(p, q, sizeof(U));                                                           \
	}                                                                                          \
	static inline float get_##s(const void *p)                                                 \
	{                                                                                          \
		U bits;                                                                            \
                                                                                                   \
		memcpy(&bits, p, sizeof(bits));                                                    \
		return sw_minifloat_decode(&(format), bits);                                       \
	}                                                                                          \
	static inline void put_##s(void *p, float v)                                               \
	{                                                                                          \
		const U bits = (U)sw_minifloat_encode(&(format), v);                               \
                                                                                                   \
		memcpy(p, &bits, sizeof(bits));                                                    \
	}

MINI_ACCESS(f16, uint16_t, sw_minifloat_float16)
MINI_ACCESS(bf16, uint16_t, sw_minifloat_bfloat16)
MINI_ACCESS(e4m3, uint8_t, sw_minifloat_e4m3)
MINI_ACCESS(e5m2, uint8_t, sw_minifloat_e5m2)

#define COMPLEX_STEPS(s, T)                                                                        \
	SW_STEPS_EQUALITY(s, T, get_##s, copy_##s)                                                 \
	SW_STEPS_SUM(s, T, T, get_##s, put_##s)                                                    \
	SW_STEPS_LOGIC(s, T, get_##s, put_##s)

#define REAL_STEPS(s, T)                                                                           \
	COMPLEX_STEPS(s, T)                                                                        \
	SW_STEPS_ORDER(s, T, get_##s, copy_##s)

REAL_STEPS(f32, float)
REAL_STEPS(f64, double)
REAL_STEPS(ldbl, long double)
REAL_STEPS(f16, float)
REAL_STEPS(bf16, float)
REAL_STEPS(e4m3, float)
REAL_STEPS(e5m2, float)
COMPLEX_STEPS(c32, float complex)
COMPLEX_STEPS(c64, double complex)
COMPLEX_STEPS(cldbl, long double complex)

#define FLOAT_TYPE(name, s, bytes, ...)                                                            \
	const struct sw_atomic_type name = {                                                       \
		.size = (bytes),                                                                   \
		.parts = parts_##s,                                                                \
		.value_size = value_##s,                                                           \
		.step = { __VA_ARGS__ },                                                           \
	}

#define REAL_TYPE(name, s, bytes) FLOAT_TYPE(name, s, bytes, SW_ROW_COMMON(s), SW_ROW_ORDER(s))
#define COMPLEX_TYPE(name, s, T)  FLOAT_TYPE(name, s, sizeof(T), SW_ROW_COMMON(s))

REAL_TYPE(sw_atomic_float, f32, sizeof(float));
REAL_TYPE(sw_atomic_double, f64, sizeof(double));
REAL_TYPE(sw_atomic_long_double, ldbl, sizeof(long double));
REAL_TYPE(sw_atomic_float16, f16, sizeof(uint16_t));
REAL_TYPE(sw_atomic_bfloat16, bf16, sizeof(uint16_t));
REAL_TYPE(sw_atomic_float8_e4m3, e4m3, sizeof(uint8_t));
REAL_TYPE(sw_atomic_float8_e5m2, e5m2, sizeof(uint8_t));
COMPLEX_TYPE(sw_atomic_float_complex, c32, float complex);
COMPLEX_TYPE(sw_atomic_double_complex, c64, double complex);
COMPLEX_TYPE(sw_atomic_long_double_complex, cldbl, long double complex);
