/* SPDX-License-Identifier: BSD-2-Clause */
/* See harness.h: regions for the cases to have sub-MRs of. */
#include <unistd.h>

#include "tests/conformance/harness.h"
#include "tests/conformance/harness_priv.h"

#define WRITING	 (FI_RECV | FI_READ | FI_REMOTE_WRITE)
#define READING	 (FI_SEND | FI_WRITE | FI_REMOTE_READ)
#define SEGMENTS 64
#define MEMORY_FLAGS                                                                               \
	(FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC | FI_MR_DMABUF | FI_AUTH_KEY |                   \
	 HMREG_MR_RELAXED_ORDERING)
#define FIRST_KEY UINT64_C(0x6261736500000000) /* far from those that cases choose */

/* The whole of the pages that it touches: they are there where it is. */
static struct iovec widened(const struct iovec *iov)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = (uintptr_t)iov->iov_base, last = begin + (iov->iov_len - 1);

	begin &= ~(page - 1);
	last |= page - 1;
	if (last - begin == UINTPTR_MAX)
		return *iov;
	return (struct iovec){ (void *)begin, last - begin + 1 };
}

static void note_base(struct conf_end *end, struct fid_mr *mr, uint64_t len)
{
	struct conf *c = end->conf;

	assert_true(c->bases < CONF_BASES);
	c->base[c->bases++] = (struct conf_base){ .end = end, .mr = mr, .len = len };
	end->bases++;
	end->base_bytes += len;
}

struct fid_mr *conf_base(struct conf_end *end, struct fi_mr_attr *attr, struct iovec *iov,
			 uint64_t *flags)
{
	struct iovec wide[SEGMENTS];
	struct fi_mr_attr whole = *attr;
	struct fid_mr *base;
	uint64_t len = 0;

	if (!conf_current || !conf_current->sub || attr->base_mr ||
	    FI_VERSION_LT(end->info->fabric_attr->api_version, FI_VERSION(2, 0)))
		return NULL;
	if (*flags & FI_MR_DMABUF) {
		*iov = (struct iovec){ (char *)attr->dmabuf->base_addr + attr->dmabuf->offset,
				       attr->dmabuf->len };
		len = iov->iov_len;
		attr->mr_iov = iov;
		attr->iov_count = 1;
	} else {
		assert_true(attr->iov_count <= SEGMENTS);
		for (size_t i = 0; i < attr->iov_count; i++) {
			wide[i] = attr->iface == FI_HMEM_SYSTEM ? widened(&attr->mr_iov[i])
								: attr->mr_iov[i];
			len += wide[i].iov_len;
		}
		whole.mr_iov = wide;
	}
	/* more rights than the sub-MR has, as far as the memory is known to take them */
	whole.access |= attr->access & WRITING ? CONF_ALL : READING;
	whole.requested_key = FIRST_KEY + end->next_key;
	assert_ok(fi_mr_regattr(end->domain, &whole, *flags & MEMORY_FLAGS, &base));
	note_base(end, base, len);
	attr->base_mr = base;
	*flags &= ~FI_MR_DMABUF;
	return base;
}

static void close_base(struct conf *c, size_t i, bool check)
{
	struct conf_base *base = &c->base[i];
	int ret = fi_close(&base->mr->fid);

	if (ret && check)
		fail_msg("closing the region of a sub-MR: %s", fi_strerror(-ret));
	base->end->bases--;
	base->end->base_bytes -= base->len;
	*base = c->base[--c->bases];
}

void conf_drop_base(struct conf *c, struct fid_mr *base)
{
	for (size_t i = c->bases; base && i-- > 0;)
		if (c->base[i].mr == base)
			close_base(c, i, true);
}

void conf_close_bases(struct conf *c, struct conf_end *end, bool check)
{
	for (size_t i = c->bases; i-- > 0;)
		if (c->base[i].end == end)
			close_base(c, i, check);
}
