/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends in domains of FI_AV_AUTH_KEY, and their regions. */
#ifndef CONF_AUTH_AV_H
#define CONF_AUTH_AV_H

#include "tests/conformance/auth.h"

static inline fi_addr_t add_key(struct conf_end *end, const char *key)
{
	fi_addr_t addr = FI_ADDR_NOTAVAIL;

	assert_ok(fi_av_insert_auth_key(end->av, key, strlen(key), &addr, 0));
	assert_true(addr != FI_ADDR_NOTAVAIL);
	return addr;
}

/* An end in a domain of FI_AV_AUTH_KEY whose keys are the letters of text; key takes their fi_addr_t. */
static inline struct conf_end *open_keyed(struct conf *c, struct conf_end *same, const char *text,
					  fi_addr_t *key)
{
	struct conf_end *end;

	auth_need(c);
	end = conf_open(c, OPTS(AUTH_IN_AV, .caps = AUTH_DIRECTED_CAPS, .disabled = true,
				.same_domain = same));
	for (size_t i = 0; text[i]; i++) {
		fi_addr_t addr = add_key(end, (char[]){ text[i], '\0' });

		if (key)
			key[i] = addr;
	}
	assert_ok(fi_enable(end->ep));
	return end;
}

/* What to is called by this key. */
static inline fi_addr_t addr_by(struct conf_end *end, const struct conf_end *to, fi_addr_t key)
{
	uint8_t name[128];
	size_t len = sizeof(name);
	fi_addr_t addr = key;

	assert_ok(fi_getname(&to->ep->fid, name, &len));
	assert_answer(fi_av_insert(end->av, name, 1, &addr, FI_AUTH_KEY, NULL), 1);
	return addr;
}

static inline struct fi_mr_attr attr_of(struct iovec *iov, struct fi_mr_auth_key *key,
					uint64_t access)
{
	return (struct fi_mr_attr){ .mr_iov = iov,
				    .iov_count = 1,
				    .access = access,
				    .auth_key = (uint8_t *)key,
				    .auth_key_size = sizeof(*key) };
}

/* A region of end, with the keys of its vector; src_addr and flags as in fi_mr_regattr. */
static inline struct conf_region *region_of(struct conf_end *end, uint8_t *memory,
					    fi_addr_t src_addr, uint64_t flags)
{
	struct fi_mr_auth_key key = { end->av, src_addr };
	struct iovec iov = { memory, AUTH_LEN };
	struct fi_mr_attr attr = attr_of(&iov, &key, CONF_ALL);

	return conf_regattr(end, &attr, flags);
}

/* a calls b; both have memory with regions for all. */
struct scene {
	struct conf_end *a, *b;
	struct auth_reach r;
	uint8_t *memory;
};

static inline struct auth_reach reach_from(struct conf *c, struct conf_end *user, bool keyed)
{
	struct auth_reach r = { .user = user, .mem = conf_alloc(c, AUTH_LEN) };

	conf_fill(c, r.mem, AUTH_LEN);
	r.local = keyed ? region_of(user, r.mem, FI_ADDR_UNSPEC, 0)
			: conf_reg(user, r.mem, AUTH_LEN, CONF_ALL);
	return r;
}

/* Two ends whose vectors have these keys, at of_a and of_b, and a region of b's for all of its keys. */
static inline void open_scene(struct conf *c, struct scene *s, const char *keys_a, fi_addr_t *of_a,
			      const char *keys_b, fi_addr_t *of_b)
{
	s->a = open_keyed(c, NULL, keys_a, of_a);
	s->b = open_keyed(c, NULL, keys_b, of_b);
	s->r = reach_from(c, s->a, true);
	s->r.to = conf_addr(s->a, s->b);
	s->memory = conf_alloc(c, AUTH_LEN);
	s->r.region = region_of(s->b, s->memory, FI_ADDR_UNSPEC, 0);
}

#endif
