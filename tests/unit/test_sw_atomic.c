/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software NIC's atomic engine against a plain reference: every operation on every datatype,
 * what it must refuse, and the small float formats value by value.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "tests/unit/sw_atomic_reference.h"

/* ---- one call, everything around it checked ---- */

enum {
	ARENA = 768,
	GUARD = 64,
	MAX_COUNT = 17
};

struct arena {
	_Alignas(64) unsigned char bytes[ARENA];
};

static void randomise(struct arena *a)
{
	for (size_t i = 0; i < ARENA; i += sizeof(uint64_t)) {
		const uint64_t v = rnd();

		memcpy(a->bytes + i, &v, sizeof(v));
	}
}

static void check_call(int kind, const struct type *t, int op, size_t skew, size_t count)
{
	struct arena dst, src, cmp, res, want, want_src, want_cmp, want_res;
	unsigned char *d = dst.bytes + GUARD + skew, *w = want.bytes + GUARD + skew;
	unsigned char *s = src.bytes + GUARD + rnd() % 16, *c = cmp.bytes + GUARD + rnd() % 16;
	unsigned char *r = res.bytes + GUARD + rnd() % 16;

	randomise(&dst);
	randomise(&src);
	randomise(&cmp);
	randomise(&res);
	for (size_t at = 0; at < count * t->size; at += t->size) {
		put_random(t, d + at);
		put_random(t, s + at);
		put_random(t, c + at);
		if (rnd() % 2)
			copy_value(t, c + at, d + at);
	}
	want = dst;
	want_src = src;
	want_cmp = cmp;
	want_res = res;
	for (size_t at = 0; at < count * t->size; at += t->size) {
		if (kind != SW_ATOMIC_BASE)
			copy_value(t, want_res.bytes + (r - res.bytes) + at, w + at);
		reference(t, op, w + at, s + at, c + at);
	}
	assert_int_equal(0, sw_atomic_apply((enum sw_atomic_kind)kind, t->datatype, (enum fi_op)op,
					    d, op == FI_ATOMIC_READ ? NULL : s,
					    kind == SW_ATOMIC_COMPARE ? c : NULL, r, count));
	for (size_t at = 0; at < count * t->size; at += t->size) {
		if (!same_element(t, op, d + at, w + at))
			fail_msg("kind %d %s op %d skew %zu element %zu of %zu", kind, t->name, op,
				 skew, at / t->size, count);
		memcpy(w + at, d + at, t->size);
	}
	assert_memory_equal(dst.bytes, want.bytes, ARENA);
	assert_memory_equal(res.bytes, want_res.bytes, ARENA);
	assert_memory_equal(src.bytes, want_src.bytes, ARENA);
	assert_memory_equal(cmp.bytes, want_cmp.bytes, ARENA);
}

typedef void (*triple_fn)(int kind, const struct type *t, int op);

static void for_each_valid(triple_fn fn)
{
	for (int kind = SW_ATOMIC_BASE; kind <= SW_ATOMIC_COMPARE; kind++)
		for (size_t i = 0; i < count_of(types); i++)
			for (int op = FI_MIN; op <= FI_DIFF; op++)
				if (allowed(kind, &types[i], (unsigned int)op))
					fn(kind, &types[i], op);
}

static void random_triple(int kind, const struct type *t, int op)
{
	static const size_t skews[] = { 0, 1, 2, 4, 8, 59 }, counts[] = { 0, 1, 2, 5, MAX_COUNT };

	for (size_t i = 0; i < count_of(skews); i++)
		for (size_t j = 0; j < count_of(counts); j++)
			for (int round = 0; round < 3; round++)
				check_call(kind, t, op, skews[i], counts[j]);
}

static void sw_atomic_all_random(void **state)
{
	(void)state;
	for_each_valid(random_triple);
}

/* Every pair of edge values; also that a result is optional and may share the operand's buffer. */
static void edge_triple(int kind, const struct type *t, int op)
{
	for (unsigned int i = 0; i < EDGES * EDGES; i++) {
		_Alignas(32) unsigned char old[32] = { 0 }, src[32] = { 0 }, cmp[32] = { 0 };
		_Alignas(32) unsigned char want[32], dst[32], both[32];

		put_edge(t, old, i / EDGES);
		put_edge(t, src, i % EDGES);
		put_edge(t, cmp, i % EDGES);
		if (kind == SW_ATOMIC_COMPARE)
			put_random(t, src);
		memcpy(want, old, sizeof(want));
		reference(t, op, want, src, cmp);

		memcpy(dst, old, sizeof(dst));
		sw_atomic_apply((enum sw_atomic_kind)kind, t->datatype, (enum fi_op)op, dst, src,
				cmp, NULL, 1);
		if (!same_element(t, op, dst, want))
			fail_msg("kind %d %s op %d edges %u %u", kind, t->name, op, i / EDGES,
				 i % EDGES);
		if (kind == SW_ATOMIC_BASE)
			continue;
		memcpy(dst, old, sizeof(dst));
		memcpy(both, src, sizeof(both));
		sw_atomic_apply((enum sw_atomic_kind)kind, t->datatype, (enum fi_op)op, dst, both,
				cmp, both, 1);
		assert_true(same_element(t, op, dst, want));
		assert_memory_equal(both, old, t->size);
	}
}

static void sw_atomic_all_edges(void **state)
{
	(void)state;
	for_each_valid(edge_triple);
}

static void sw_atomic_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(types); i++)
		assert_int_equal(types[i].size, sw_atomic_size(types[i].datatype));
	assert_int_equal(0, sw_atomic_size(FI_VOID));
	assert_int_equal(0, sw_atomic_size((enum fi_datatype)(FI_FLOAT8_E5M2 + 1)));
	assert_int_equal(0, sw_atomic_size((enum fi_datatype) - 1));
}

/* Exactly what fi_atomic(3) allows is offered, and nothing else touches memory. */
static void sw_atomic_refuses_invalid(void **state)
{
	static const struct type none = { .name = "none" };
	const unsigned int strange[] = { 20, 21, 31, 32, 255, 256, 257, 0x7fffffff, UINT32_MAX };
	unsigned int refused = 0;

	(void)state;
	for (unsigned int n = 0; n < 5 * 29 * 29; n++) {
		const int kind = n % 5 < 4 ? (int)(n % 5) : -1;
		const unsigned int i = n / 5 % 29, j = n / 5 / 29;
		const unsigned int op = i < 20 ? i : strange[i - 20];
		const struct type *t = j < 20 ? &types[j] : &none;
		const enum fi_datatype dt = j < 20 ? t->datatype
						   : (enum fi_datatype)strange[j - 20];
		const bool want = t != &none && allowed(kind, t, op);
		struct arena bufs[2], before[2];

		assert_int_equal(want,
				 sw_atomic_valid((enum sw_atomic_kind)kind, dt, (enum fi_op)op));
		if (want)
			continue;
		randomise(&bufs[0]);
		randomise(&bufs[1]);
		memcpy(before, bufs, sizeof(before));
		assert_int_equal(-FI_EOPNOTSUPP,
				 sw_atomic_apply((enum sw_atomic_kind)kind, dt, (enum fi_op)op,
						 bufs[0].bytes, bufs[1].bytes, bufs[1].bytes,
						 bufs[1].bytes + 64, 1));
		assert_memory_equal(bufs, before, sizeof(bufs));
		refused++;
	}
	assert_true(refused > 0);
}

/* ---- 16-bit and 8-bit floats ---- */

static const struct type *type_of(enum fi_datatype datatype)
{
	for (size_t i = 0; i < count_of(types); i++)
		if (types[i].datatype == datatype)
			return &types[i];
	fail_msg("no datatype %d", (int)datatype);
	return NULL;
}

static const enum fi_datatype minis[] = { FI_FLOAT16, FI_BFLOAT16, FI_FLOAT8_E4M3, FI_FLOAT8_E5M2 };

static uint32_t float_bits(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* The single next to v, for positive v that has one on that side. */
static float neighbour(float v, int up)
{
	const uint32_t bits = float_bits(v) + (uint32_t)up;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* Every encoding decodes to its value and comes back; so it does through the engine, x + -0. */
static void sw_atomic_minifloat_round_trip(void **state)
{
	(void)state;
	for (size_t n = 0; n < count_of(minis); n++) {
		const struct type *t = type_of(minis[n]);
		const struct mini *m = t->mini;
		const uint32_t minus_zero = 1u << (8 * t->size - 1);

		for (uint32_t bits = 0; bits < 2 * minus_zero; bits++) {
			const float v = sw_minifloat_decode(m->format, bits);
			const long double want = mini_value(m, bits);
			uint32_t sum = bits;

			assert_int_equal(0, sw_atomic_apply(SW_ATOMIC_BASE, t->datatype, FI_SUM,
							    &sum, &minus_zero, NULL, NULL, 1));
			if (isnan(want)) {
				assert_true(isnan(v));
				assert_int_equal(signbit(v) != 0, bits >= minus_zero);
				assert_true(
					isnan(mini_value(m, sw_minifloat_encode(m->format, v))));
				assert_true(isnan(mini_value(m, sum)));
				continue;
			}
			assert_int_equal(float_bits((float)want), float_bits(v));
			assert_int_equal(bits, sw_minifloat_encode(m->format, v));
			assert_int_equal(bits, sum);
		}
	}
}

/* Between each two neighbours: the midpoint goes to the even one, a bit aside to the nearer. */
static void sw_atomic_minifloat_rounding(void **state)
{
	(void)state;
	for (size_t n = 0; n < count_of(minis); n++) {
		const struct mini *m = type_of(minis[n])->mini;

		for (uint32_t low = 0; low <= m->max; low++) {
			const long double below = mini_value(m, low);
			const long double step = low < m->max ? mini_value(m, low + 1) - below
							      : below - mini_value(m, low - 1);
			const float mid = (float)(below + step / 2);
			const uint32_t up = low < m->max ? low + 1 : m->overflow;

			assert_int_equal(low, sw_minifloat_encode(m->format, neighbour(mid, -1)));
			assert_int_equal(low & 1 ? up : low, sw_minifloat_encode(m->format, mid));
			assert_int_equal(up, sw_minifloat_encode(m->format, neighbour(mid, 1)));
		}
		assert_int_equal(m->overflow, sw_minifloat_encode(m->format, FLT_MAX));
		assert_int_equal(m->overflow, sw_minifloat_encode(m->format, INFINITY));
		assert_int_equal(0, sw_minifloat_encode(m->format, FLT_TRUE_MIN));
	}
}

/* Values that the formats' specifications print. */
static void sw_atomic_minifloat_known(void **state)
{
	static const struct {
		enum fi_datatype datatype;
		uint32_t bits;
		float value;
	} known[] = {
		{ FI_FLOAT16, 0x3c00, 1 },
		{ FI_FLOAT16, 0xc000, -2 },
		{ FI_FLOAT16, 0x7bff, 65504 },
		{ FI_FLOAT16, 0x0400, 0x1p-14f },
		{ FI_FLOAT16, 0x0001, 0x1p-24f },
		{ FI_FLOAT16, 0xfc00, -INFINITY },
		{ FI_BFLOAT16, 0x3f80, 1 },
		{ FI_BFLOAT16, 0x4049, 3.140625f },
		{ FI_BFLOAT16, 0x7f7f, 0x1.fep127f },
		{ FI_BFLOAT16, 0x0001, 0x1p-133f },
		{ FI_BFLOAT16, 0x7f80, INFINITY },
		{ FI_FLOAT8_E4M3, 0x38, 1 },
		{ FI_FLOAT8_E4M3, 0x7e, 448 },
		{ FI_FLOAT8_E4M3, 0x08, 0x1p-6f },
		{ FI_FLOAT8_E4M3, 0x81, -0x1p-9f },
		{ FI_FLOAT8_E5M2, 0x3c, 1 },
		{ FI_FLOAT8_E5M2, 0x7b, 57344 },
		{ FI_FLOAT8_E5M2, 0x04, 0x1p-14f },
		{ FI_FLOAT8_E5M2, 0x81, -0x1p-16f },
		{ FI_FLOAT8_E5M2, 0x7c, INFINITY },
	};

	(void)state;
	for (size_t i = 0; i < count_of(known); i++) {
		const struct sw_minifloat *format = type_of(known[i].datatype)->mini->format;

		assert_int_equal(known[i].bits, sw_minifloat_encode(format, known[i].value));
		assert_int_equal(float_bits(known[i].value),
				 float_bits(sw_minifloat_decode(format, known[i].bits)));
	}
	assert_true(isnan(sw_minifloat_decode(&sw_minifloat_e4m3, 0x7f)));
	assert_true(isnan(sw_minifloat_decode(&sw_minifloat_e4m3, 0xff)));
	assert_false(isnan(sw_minifloat_decode(&sw_minifloat_e4m3, 0x78)));
	assert_int_equal(0x7f, sw_minifloat_encode(&sw_minifloat_e4m3, 480));
	assert_int_equal(0x7e, sw_minifloat_encode(&sw_minifloat_e4m3, 464));
}

static void sw_atomic_float8_all_pairs(void **state)
{
	static const enum fi_op ops[] = { FI_SUM, FI_DIFF, FI_PROD, FI_MIN, FI_MAX, FI_LXOR };

	(void)state;
	for (size_t n = 2; n < count_of(minis); n++) {
		const struct type *t = type_of(minis[n]);

		for (size_t i = 0; i < count_of(ops); i++)
			for (unsigned int pair = 0; pair < 0x10000; pair++) {
				unsigned char a[32] = { (unsigned char)pair };
				unsigned char b[32] = { (unsigned char)(pair >> 8) };
				unsigned char want[32] = { a[0] };

				reference(t, ops[i], want, b, b);
				sw_atomic_apply(SW_ATOMIC_BASE, t->datatype, ops[i], a, b, NULL,
						NULL, 1);
				if (!same_element(t, ops[i], a, want))
					fail_msg("%s op %d pair %x", t->name, ops[i], pair);
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sw_atomic_sizes),
		cmocka_unit_test(sw_atomic_refuses_invalid),
		cmocka_unit_test(sw_atomic_all_random),
		cmocka_unit_test(sw_atomic_all_edges),
		cmocka_unit_test(sw_atomic_minifloat_round_trip),
		cmocka_unit_test(sw_atomic_minifloat_rounding),
		cmocka_unit_test(sw_atomic_minifloat_known),
		cmocka_unit_test(sw_atomic_float8_all_pairs),
	};

	return cmocka_run_group_tests_name("sw_atomic", tests, NULL, NULL);
}
