/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: what buffers hold before and after operations, and the guard words around them. */
#ifndef HMREG_RMA_CONTENT_H
#define HMREG_RMA_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GUARD_WORDS 8
#define GUARD_BYTES (GUARD_WORDS * sizeof(uint64_t))
#define LOCAL_SALT  UINT64_C(0)
#define REMOTE_SALT (~UINT64_C(0))

/*
 * What a buffer holds: word k is a pattern word, plus or exclusive-or a number of operand words,
 * inverted or not.
 */
struct content {
	uint64_t seed, operand_seed;
	uint64_t times;	 /* operands added */
	uint64_t xored;	 /* all ones: one operand exclusive-ored */
	uint64_t invert; /* all ones: inverted */
};

static inline uint64_t pattern(uint64_t seed, uint64_t k)
{
	uint64_t word = (seed + k) * UINT64_C(0x9e3779b97f4a7c15);

	return word ^ (word >> 29) ^ (seed << 7);
}

static inline uint64_t content_word(const struct content *c, size_t k)
{
	uint64_t operand = pattern(c->operand_seed, k);

	return ((pattern(c->seed, k) + c->times * operand) ^ (operand & c->xored)) ^ c->invert;
}

static inline void fill(uint8_t *data, size_t size, const struct content *c)
{
	size_t k, tail = size % 8;
	uint64_t word;

	for (k = 0; k < size / 8; k++) {
		word = content_word(c, k);
		memcpy(data + 8 * k, &word, 8);
	}
	word = content_word(c, k);
	memcpy(data + 8 * k, &word, tail);
}

/* Where data differs first from what it should be; size where it does not. */
static inline size_t first_difference(const uint8_t *data, size_t size, const struct content *c)
{
	size_t k, byte, end;
	uint64_t word, want;

	for (k = 0; k < size / 8; k++) {
		memcpy(&word, data + 8 * k, 8);
		if (word != content_word(c, k))
			break;
	}
	want = content_word(c, k);
	end = size - 8 * k < 8 ? size - 8 * k : 8;
	for (byte = 0; byte < end; byte++) {
		if (data[8 * k + byte] != ((const uint8_t *)&want)[byte])
			return 8 * k + byte;
	}
	return size;
}

/* salt tells the two sides apart, lest a guard word be copied over one that is the same. */
static inline uint64_t guard_word(uint64_t salt, size_t k)
{
	return (UINT64_C(0x6775617264f00d00) ^ salt) + k;
}

static inline void set_guards(uint8_t *data, size_t size, uint64_t salt)
{
	uint64_t word;
	size_t k;

	for (k = 0; k < GUARD_WORDS; k++) {
		word = guard_word(salt, k);
		memcpy(data - GUARD_BYTES + 8 * k, &word, 8);
		memcpy(data + size + 8 * k, &word, 8);
	}
}

static inline bool guards_intact(const uint8_t *data, size_t size, uint64_t salt)
{
	uint64_t before, behind, want;
	size_t k;

	for (k = 0; k < GUARD_WORDS; k++) {
		want = guard_word(salt, k);
		memcpy(&before, data - GUARD_BYTES + 8 * k, 8);
		memcpy(&behind, data + size + 8 * k, 8);
		if (before != want || behind != want)
			return false;
	}
	return true;
}

#endif
