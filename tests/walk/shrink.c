/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delta debugging: pieces of a trace are left out, at first large ones, as long as what is left shows a
 * difference; then operands become 0, which is the simplest of each, one after another.
 */
#include "tests/walk/run.h"

#include <stdlib.h>
#include <string.h>

/* Does it show a difference still?  Then what comes behind that is of no use. */
static bool shows(struct walk_runner *r, struct walk_trace *trace)
{
	long failed = walk_trace(r, trace);

	if (failed < 0)
		return false;
	if ((uint32_t)failed < trace->count)
		trace->count = (uint32_t)failed + 1;
	return true;
}

/* Takes steps [at, at + count) out, if it may be done without them. */
static bool without(struct walk_runner *r, struct walk_trace *trace, struct walk_trace *other,
		    uint32_t at, uint32_t count)
{
	struct walk_step *step = other->step;

	*other = *trace;
	other->step = step;
	other->count = trace->count - count;
	memcpy(step, trace->step, at * sizeof(*step));
	memcpy(step + at, trace->step + at + count, (trace->count - at - count) * sizeof(*step));
	if (!shows(r, other))
		return false;
	trace->count = other->count;
	memcpy(trace->step, step, other->count * sizeof(*step));
	return true;
}

/* In pieces of this size, from the end on. */
static bool leave_out(struct walk_runner *r, struct walk_trace *trace, struct walk_trace *other,
		      uint32_t size)
{
	uint32_t before = trace->count;

	for (uint32_t end = trace->count; end > 0;) {
		uint32_t at = end > size ? end - size : 0;

		if (end - at < trace->count)
			without(r, trace, other, at, end - at);
		end = at < trace->count ? at : trace->count;
	}
	return trace->count < before;
}

/* Two steps that need each other and nobody else. */
static bool leave_two(struct walk_runner *r, struct walk_trace *trace, struct walk_trace *other)
{
	struct walk_step step;

	for (uint32_t i = 0; i + 2 < trace->count && trace->count <= 24; i++)
		for (uint32_t k = i + 1; k + 1 < trace->count; k++) {
			/* side by side, so that they go together */
			step = trace->step[i];
			memmove(trace->step + i, trace->step + i + 1, (k - i - 1) * sizeof(step));
			trace->step[k - 1] = step;
			if (without(r, trace, other, k - 1, 2))
				return true;
			memmove(trace->step + i + 1, trace->step + i, (k - i - 1) * sizeof(step));
			trace->step[i] = step;
		}
	return false;
}

static bool shorten(struct walk_runner *r, struct walk_trace *trace, struct walk_trace *other)
{
	uint32_t before = trace->count;

	for (uint32_t size = trace->count / 2; size > 0; size /= 2)
		leave_out(r, trace, other, size);
	while (leave_out(r, trace, other, 1) || leave_two(r, trace, other))
		;
	return trace->count < before;
}

#define NEARLY 10 /* an operand's neighbours that are tried */

/* Without step gone, if one operand of a later step takes a neighbour's value for that. */
static bool retune(struct walk_runner *r, struct walk_trace *trace, struct walk_trace *other,
		   uint32_t gone)
{
	for (uint32_t i = gone + 1; i < trace->count; i++)
		for (size_t k = 1; k < sizeof(trace->step[i].b); k++) {
			uint8_t byte = trace->step[i].b[k];

			for (int d = -NEARLY; byte != 0 && d <= NEARLY; d++) {
				trace->step[i].b[k] = (uint8_t)(byte + d);
				if (d != 0 && without(r, trace, other, gone, 1))
					return true;
			}
			trace->step[i].b[k] = byte;
		}
	return false;
}

/*
 * Operands that count through what there is need some of it to count through; few steps are worth the
 * trouble to find out how many.
 */
static bool retune_all(struct walk_runner *r, struct walk_trace *trace, struct walk_trace *other)
{
	uint32_t before = trace->count;

	for (uint32_t gone = 0; trace->count > 4 && trace->count < 32 && gone + 1 < trace->count;)
		gone += !retune(r, trace, other, gone);
	return trace->count < before;
}

static bool simplify(struct walk_runner *r, struct walk_trace *trace)
{
	bool changed = false;

	for (uint32_t i = 0; i < trace->count; i++)
		for (size_t k = sizeof(trace->step[i].b) - 1; k > 0; k--) {
			uint8_t byte = trace->step[i].b[k];
			uint32_t count = trace->count;

			if (byte == 0)
				continue;
			trace->step[i].b[k] = 0;
			if (shows(r, trace)) {
				changed = true;
				if (i >= trace->count)
					return true;
				continue;
			}
			trace->count = count;
			trace->step[i].b[k] = byte;
		}
	return changed;
}

/* What closes anything, by a number out of all there is, closes the same whatever else there is. */
static void settle(struct walk_runner *r, struct walk_trace *trace, struct walk_trace *other)
{
	struct walk_step *step = other->step;

	memcpy(step, trace->step, trace->count * sizeof(*step));
	r->rewrite = step;
	walk_trace(r, trace);
	r->rewrite = NULL;
	*other = *trace;
	other->step = step;
	if (!shows(r, other))
		return;
	trace->count = other->count;
	memcpy(trace->step, step, other->count * sizeof(*step));
}

void walk_shrink(struct walk_runner *r, struct walk_trace *trace)
{
	struct walk_trace other = { .step = calloc(trace->count + 1, sizeof(*other.step)) };

	if (!other.step || !shows(r, trace))
		goto out;
	settle(r, trace, &other);
	for (unsigned round = 0; round < 6; round++) {
		bool shorter = shorten(r, trace, &other);

		if (!simplify(r, trace) && !shorter)
			break;
	}
	if (retune_all(r, trace, &other))
		simplify(r, trace);
	shows(r, trace);
out:
	free(other.step);
}
