/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs about sub-MRs (conf_sub*) share: a part of the far buffer of a link, and its use. */
#ifndef CONF_SUB_H
#define CONF_SUB_H

#include "tests/conformance/harness.h"

static inline struct conf_region *sub_with(struct conf_region *base, const void *buf, size_t len,
					   uint64_t access, uint64_t flags)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = access, .base_mr = base->mr
	};

	return conf_regattr(base->end, &attr, flags);
}

static inline struct conf_region *sub_of(struct conf_region *base, const void *buf, size_t len,
					 uint64_t access)
{
	return sub_with(base, buf, len, access, 0);
}

/* The attempt is refused, with one log line, and leaves everything as it was. */
static inline void sub_refused(struct conf_region *base, struct iovec iov, uint64_t access,
			       uint64_t flags, int code)
{
	struct hmreg_domain_stats before = conf_stats(base->end), after;
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = access,
				   .requested_key = 0xfeed,
				   .base_mr = base->mr };
	struct fid_mr *mr = (struct fid_mr *)&attr;

	assert_refused(fi_mr_regattr(base->end->domain, &attr, flags, &mr), code);
	assert_ptr_equal(mr, &attr);
	after = conf_stats(base->end);
	assert_memory_equal(&before, &after, sizeof(before));
}

/* len new bytes of the link's near buffer go to byte off of a region, which lies at mem. */
static inline void sub_put(struct conf_link *l, struct conf_region *r, uint8_t *mem, size_t off,
			   size_t len)
{
	conf_fill(l->a->conf, l->src, len);
	assert_posted(fi_write(l->a->ep, l->src, len, l->local->desc, l->to, r->addr + off,
			       conf_key(l->a, r), l));
	conf_done(l->a->tx, l);
	assert_memory_equal(mem + off, l->src, len);
}

static inline void sub_get(struct conf_link *l, struct conf_region *r, const uint8_t *mem,
			   size_t off, size_t len)
{
	memset(l->src, 0, len);
	assert_posted(fi_read(l->a->ep, l->src, len, l->local->desc, l->to, r->addr + off,
			      conf_key(l->a, r), l));
	conf_done(l->a->tx, l);
	assert_memory_equal(l->src, mem + off, len);
}

/* Both ways, all of it. */
static inline void sub_works(struct conf_link *l, struct conf_region *r, uint8_t *mem, size_t len)
{
	sub_put(l, r, mem, 0, len);
	sub_get(l, r, mem, 0, len);
}

/* A write and a read there fail alike; off may be negative. */
static inline void sub_fails(struct conf_link *l, struct conf_region *r, int64_t off, size_t len,
			     int err, int cause)
{
	uint64_t key = conf_key(l->a, r), addr = r->addr + (uint64_t)off;

	assert_posted(fi_write(l->a->ep, l->src, len, l->local->desc, l->to, addr, key, l));
	conf_failed(l->a->tx, l, err, cause);
	assert_posted(fi_read(l->a->ep, l->src, len, l->local->desc, l->to, addr, key, l));
	conf_failed(l->a->tx, l, err, cause);
}

#endif
