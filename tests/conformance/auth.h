/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of authorization share: operations that must reach, or must not. */
#ifndef CONF_AUTH_H
#define CONF_AUTH_H

#include "tests/conformance/harness.h"

#define AUTH_LEN	   64
#define OPTS(...)	   (&(struct conf_opts){ __VA_ARGS__ })
#define AUTH_KEY(text)	   .key = (text), .key_size = sizeof(text) - 1
#define AUTH_EP_KEY(text)  .ep_key = (text), .ep_key_size = sizeof(text) - 1
#define AUTH_MR_KEY(text)  .auth_key = (uint8_t *)(text), .auth_key_size = sizeof(text) - 1
#define AUTH_IN_AV	   .key_size = FI_AV_AUTH_KEY
#define AUTH_DIRECTED_CAPS (CONF_CAPS | FI_SOURCE | FI_DIRECTED_RECV)

/* Does the NIC enforce keys at all? */
static inline bool auth_offered(const struct conf *c)
{
	return c->profile->info->domain_attr->max_ep_auth_key > 0;
}

static inline void auth_need(struct conf *c)
{
	if (!auth_offered(c))
		conf_skip(c, "the NIC enforces no authorization keys");
}

/* Every way to reach region from user's endpoint; a result is never wanted by who is refused. */
struct auth_reach {
	struct conf_end *user;
	fi_addr_t to;
	struct conf_region *region;
	uint8_t *mem;		   /* of the user */
	struct conf_region *local; /* its region */
};

static inline ssize_t auth_post(const struct auth_reach *r, unsigned int how, void *context)
{
	uint64_t key = conf_key(r->user, r->region), at = r->region->addr;
	struct fid_ep *ep = r->user->ep;
	void *desc = r->local->desc;

	switch (how) {
	case 0:
		return fi_write(ep, r->mem, 8, desc, r->to, at, key, context);
	case 1:
		return fi_read(ep, r->mem, 8, desc, r->to, at, key, context);
	case 2:
		return fi_atomic(ep, r->mem, 1, desc, r->to, at, key, FI_UINT64, FI_SUM, context);
	case 3:
		return fi_fetch_atomic(ep, r->mem, 1, desc, r->mem + 8, desc, r->to, at, key,
				       FI_UINT64, FI_SUM, context);
	case 4:
		return fi_compare_atomic(ep, r->mem, 1, desc, r->mem + 8, desc, r->mem + 16, desc,
					 r->to, at, key, FI_UINT64, FI_CSWAP, context);
	default:
		return fi_writedata(ep, r->mem, 8, desc, 5, r->to, at, key, context);
	}
}
#define AUTH_WAYS 6

/* All operations succeed; the target hears of the last alone. */
static inline void auth_reaches(const struct auth_reach *r, struct conf_end *target)
{
	for (unsigned int how = 0; how < AUTH_WAYS; how++) {
		assert_ok(auth_post(r, how, &how));
		conf_done(r->user->tx, &how);
	}
	conf_done(target->rx, NULL);
	conf_quiet(target->rx);
}

/* All fail for this cause; memory on both sides stays as it was, and the target hears nothing. */
static inline void auth_refused(const struct auth_reach *r, struct conf_end *target,
				const uint8_t *memory, int cause)
{
	uint8_t before[8], mine[24];

	memcpy(before, memory, sizeof(before));
	memcpy(mine, r->mem, sizeof(mine));
	for (unsigned int how = 0; how < AUTH_WAYS; how++) {
		assert_ok(auth_post(r, how, &how));
		conf_failed(r->user->tx, &how, FI_EACCES, cause);
		assert_memory_equal(memory, before, sizeof(before));
		assert_memory_equal(r->mem, mine, sizeof(mine));
	}
	conf_quiet(target->rx);
}

/* A user in a domain of its own, with these options; to, region and local are the case's to set. */
static inline struct auth_reach auth_user(struct conf *c, const struct conf_opts *opts)
{
	struct auth_reach r = { .user = conf_open(c, opts) };

	r.mem = conf_alloc(c, AUTH_LEN);
	conf_fill(c, r.mem, AUTH_LEN);
	return r;
}

#endif
