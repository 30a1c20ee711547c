/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps of a walk, out of its seed. */
#include "tests/walk/run.h"

#include <string.h>

static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* How many of 256 steps are of a kind. */
static const uint8_t weights[WALK_KINDS] = {
	[WALK_REG] = 34,       [WALK_MR_CLOSE] = 21,   [WALK_MR_BIND] = 20,
	[WALK_MR_ENABLE] = 14, [WALK_MR_REFRESH] = 5,  [WALK_RAW_ATTR] = 3,
	[WALK_MAP] = 12,       [WALK_UNMAP] = 8,       [WALK_XPU_DESC] = 2,
	[WALK_EP_OPEN] = 2,    [WALK_EP_BIND] = 7,     [WALK_EP_ENABLE] = 3,
	[WALK_EP_CLOSE] = 1,   [WALK_CNTR_OPEN] = 2,   [WALK_CNTR_SET] = 2,
	[WALK_CNTR_CLOSE] = 1, [WALK_CQ_OPEN] = 1,     [WALK_CQ_CLOSE] = 1,
	[WALK_AV_OPEN] = 1,    [WALK_AV_CLOSE] = 1,    [WALK_AV_INSERT] = 3,
	[WALK_AV_REMOVE] = 1,  [WALK_DOMAIN_OPEN] = 1, [WALK_DOMAIN_CLOSE] = 1,
	[WALK_RMA] = 50,       [WALK_ATOMIC] = 24,     [WALK_SEND] = 16,
	[WALK_RECV] = 16,      [WALK_CANCEL] = 2,
};

static enum walk_kind draw_kind(uint8_t byte)
{
	unsigned at = byte;

	for (int kind = 0; kind < WALK_KINDS; kind++) {
		if (at < weights[kind])
			return (enum walk_kind)kind;
		at -= weights[kind];
	}
	return WALK_CLOSE_ANY;
}

static void draw_config(uint64_t seed, unsigned variants, struct walk_config *config)
{
	for (int i = 0; i < WALK_DOMAINS; i++) {
		uint64_t x = mix(seed + (uint64_t)i);
		unsigned variant;

		/* the first three, which are the NIC's own profiles, more often than those derived */
		do {
			variant = (unsigned)((x & 7) < 5 ? (x >> 8) % 3 : (x >> 8) % WALK_VARIANTS);
			x = mix(x);
		} while (!(variants & 1u << variant));
		config->variant[i] = (uint8_t)variant;
	}
}

void walk_draw(uint64_t seed, uint64_t episode, unsigned variants, uint32_t steps,
	       struct walk_trace *trace)
{
	uint64_t state = mix(seed ^ mix(episode));

	memset(&trace->config, 0, sizeof(trace->config));
	trace->config.faults = true;
	trace->config.first_key = 1;
	draw_config(state, variants, &trace->config);
	trace->count = steps + WALK_CLOSING;
	for (uint32_t i = 0; i < trace->count; i++) {
		struct walk_step *step = &trace->step[i];

		for (size_t at = 0; at < sizeof(step->b); at += sizeof(state)) {
			uint64_t x;

			state += UINT64_C(0x9e3779b97f4a7c15);
			x = mix(state);
			memcpy(step->b + at, &x, sizeof(x));
		}
		step->b[0] = (uint8_t)(i < steps ? draw_kind(step->b[0]) : WALK_CLOSE_ANY);
	}
}
