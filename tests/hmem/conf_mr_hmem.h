/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of conf_mr_hmem share: memory of the interface under test, and two ends to use it with. */
#ifndef CONF_MR_HMEM_H
#define CONF_MR_HMEM_H

#include "tests/conformance/harness.h"
#include "tests/fds.h"
#include "tests/hmem/maker.h"

#define UNIT  ((size_t)65536)
#define GUARD 64

extern const struct maker *maker;

/* Of the kind, 2 * UNIT bytes, on the device at this place in the list; or the case is skipped. */
struct made make_memory(struct conf *c, enum make kind, size_t at);
/* Of a region with all rights. */
struct fi_mr_attr attr_of(const struct made *made, struct iovec *iov);
struct conf_region *reg_memory(struct conf_end *end, const struct made *made, size_t offset,
			       size_t len, uint64_t flags);
/* Random bytes all over, so that whatever a transfer leaves alone can be told. */
uint8_t *fill_memory(struct conf *c, const struct made *made);
void check_memory(struct conf *c, const struct made *made, const uint8_t *want);

/* Two ends with FI_HMEM, and an initiator's host buffer. */
struct scene {
	struct conf_end *a, *b;
	fi_addr_t to;
	uint8_t *host;
	struct conf_region *local;
};
struct scene open_scene(struct conf *c);

/* conf_mr_hmem_life.c */
extern const struct conf_case life_cases[];
extern const size_t life_case_count;

#endif
