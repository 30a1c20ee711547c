/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arguments out of a fuzzer's bytes.  Past the end everything is 0, so that a short input is a call
 * with few wishes.
 */
#ifndef HM_FUZZ_INPUT_H
#define HM_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

struct input {
	const uint8_t *at;
	size_t left;
};

static inline uint8_t take_byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static inline uint64_t take_raw(struct input *in, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)take_byte(in) << 8 * i;
	return value;
}

/* Any number, the likely ones in one byte: 0, each power of two, small ones, the largest. */
static inline uint64_t take_number(struct input *in)
{
	uint8_t how = take_byte(in);

	if (how < 96)
		return 0;
	if (how < 160)
		return UINT64_C(1) << (how - 96);
	if (how < 240)
		return how - 160u;
	if (how < 244)
		return UINT64_MAX - (how - 240u);
	if (how < 248)
		return take_raw(in, 2);
	return take_raw(in, 8);
}

static inline size_t take_below(struct input *in, size_t limit)
{
	return take_byte(in) % limit;
}

/* Sets a field of any integer or enumerated type. */
#define TAKE(in, field) ((field) = (__typeof__(field))take_number(in))

/* A promise of the library is broken: say which, and die so that the fuzzer keeps the input. */
#define PROMISE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
