/* SPDX-License-Identifier: BSD-2-Clause */
/* Authorization keys in address vectors (FI_AV_AUTH_KEY): ATTR-04. */
#include "tests/conformance/auth_av.h"

#define MANY 256 /* more keys than a vector ever takes */

/* ---- keys of a vector ---- */

static void attr_04_av_keys_come_and_go(struct conf *c)
{
	struct conf_end *end;
	fi_addr_t one, two, again, list[2], address;
	char text[8] = "xxxxxxx";
	size_t size = sizeof(text);

	auth_need(c);
	end = conf_open(c, OPTS(AUTH_IN_AV, .disabled = true));
	one = add_key(end, "one");
	two = add_key(end, "second");
	assert_true(one != two);
	assert_true(add_key(end, "one") == one);
	assert_ok(fi_av_lookup_auth_key(end->av, two, text, &size));
	assert_int_equal(size, 6);
	assert_memory_equal(text, "secondx", 7);
	size = 2; /* too short: what fits, and how much there is */
	assert_ok(fi_av_lookup_auth_key(end->av, one, text, &size));
	assert_int_equal(size, 3);
	assert_memory_equal(text, "oncond", 6);
	/* by an address, its key */
	address = addr_by(end, end, one);
	size = sizeof(text);
	assert_ok(fi_av_lookup_auth_key(end->av, address, text, &size));
	assert_int_equal(size, 3);
	assert_memory_equal(text, "one", 3);
	assert_refused(fi_av_lookup_auth_key(end->av, conf_addr(end, end), text, &size),
		       -FI_ENOKEY);
	/* a key that an address has stays; all are removed, or none */
	list[0] = two, list[1] = one;
	assert_refused(fi_av_remove(end->av, list, 2, FI_AUTH_KEY), -FI_EBUSY);
	assert_ok(fi_av_remove(end->av, &address, 1, 0));
	list[1] = two;
	assert_refused(fi_av_remove(end->av, list, 2, FI_AUTH_KEY), -FI_EINVAL);
	list[1] = one;
	assert_ok(fi_av_remove(end->av, list, 2, FI_AUTH_KEY));
	assert_refused(fi_av_lookup_auth_key(end->av, one, text, &size), -FI_EINVAL);
	again = add_key(end, "one");
	assert_true(again != one && again != two);
}

static void attr_04_av_key_mistakes(struct conf *c)
{
	static char text[HMREG_AUTH_KEY_MAX + 1];
	struct conf_end *end;
	fi_addr_t key, addr = 5, address;
	struct fid_av *av;
	size_t size = 0;

	auth_need(c);
	end = conf_open(c, OPTS(AUTH_IN_AV, .disabled = true));
	av = end->av;
	assert_refused(fi_av_insert_auth_key(av, text, sizeof(text), &addr, 0), -FI_EINVAL);
	assert_refused(fi_av_insert_auth_key(av, text, 0, &addr, 0), -FI_EINVAL);
	assert_refused(fi_av_insert_auth_key(av, NULL, 3, &addr, 0), -FI_EINVAL);
	assert_refused(fi_av_insert_auth_key(av, text, 3, NULL, 0), -FI_EINVAL);
	assert_refused(fi_av_insert_auth_key(av, text, 3, &addr, FI_MORE), -FI_EBADFLAGS);
	assert_int_equal(addr, 5);
	key = add_key(end, "k");
	address = conf_addr(end, end);
	assert_refused(fi_av_lookup_auth_key(av, key, NULL, &(size_t){ 3 }), -FI_EINVAL);
	assert_refused(fi_av_lookup_auth_key(av, key, text, NULL), -FI_EINVAL);
	assert_refused(fi_av_lookup_auth_key(av, FI_ADDR_UNSPEC, text, &size), -FI_EINVAL);
	assert_ok(fi_av_lookup_auth_key(av, key, NULL, &size));
	assert_int_equal(size, 1);
	/* each kind of fi_addr_t where the other belongs */
	assert_refused(fi_av_remove(av, &key, 1, 0), -FI_EINVAL);
	assert_refused(fi_av_remove(av, &address, 1, FI_AUTH_KEY), -FI_EINVAL);
	assert_refused(fi_av_remove(av, &key, 1, FI_AUTH_KEY | FI_MORE), -FI_EBADFLAGS);
	assert_refused(fi_av_lookup(av, key, text, &size), -FI_EINVAL);
}

static void attr_04_av_inserts_by_key(struct conf *c)
{
	struct conf_end *end;
	fi_addr_t key, addr[3];
	uint8_t names[3][128];
	size_t len = sizeof(names[0]);
	int codes[3];

	auth_need(c);
	end = conf_open(c, OPTS(AUTH_IN_AV, .disabled = true));
	key = add_key(end, "k");
	assert_ok(fi_getname(&end->ep->fid, names[0], &len));
	memcpy((uint8_t *)names + len, names[0], len);
	memcpy((uint8_t *)names + 2 * len, names[0], len);
	addr[0] = key, addr[1] = key + 1, addr[2] = key;
	assert_refused(fi_av_insert(end->av, names, 3, NULL, FI_AUTH_KEY, NULL), -FI_EINVAL);
	assert_refused(fi_av_insert(end->av, names, 3, addr, FI_AUTH_KEY | FI_SYNC_ERR, codes), 2);
	assert_true(addr[0] != key && addr[1] == FI_ADDR_NOTAVAIL && addr[2] != key);
	assert_true(codes[0] == 0 && codes[1] == FI_EINVAL && codes[2] == 0);
	addr[0] = key;
	assert_answer(fi_av_insertsvc(end->av, "127.0.0.1", "7", addr, FI_AUTH_KEY, NULL), 1);
	assert_true(addr[0] != key && addr[0] != FI_ADDR_NOTAVAIL);
}

static void attr_04_av_has_so_many_keys(struct conf *c)
{
	struct conf_end *end;
	struct fi_info *info;
	struct fid_domain *domain;
	struct fid_av *av;
	fi_addr_t addr[MANY];
	size_t most;

	auth_need(c);
	end = conf_open(c, OPTS(AUTH_IN_AV, .disabled = true));
	most = end->info->domain_attr->max_ep_auth_key;
	assert_true(most < MANY);
	for (size_t i = 0; i < most; i++)
		assert_ok(fi_av_insert_auth_key(end->av, &i, sizeof(i), &addr[i], 0));
	assert_refused(fi_av_insert_auth_key(end->av, &most, sizeof(most), &addr[0], 0),
		       -FI_ENOSPC);
	assert_ok(fi_av_remove(end->av, &addr[3], 1, FI_AUTH_KEY));
	assert_ok(fi_av_insert_auth_key(end->av, &most, sizeof(most), &addr[3], 0));
	/* or as few as the domain was opened for */
	info = fi_dupinfo(end->info);
	info->domain_attr->max_ep_auth_key = 1;
	assert_ok(fi_domain(end->fabric, info, &domain, NULL));
	assert_ok(fi_av_open(domain, &(struct fi_av_attr){ 0 }, &av, NULL));
	assert_ok(fi_av_insert_auth_key(av, "1", 1, &addr[0], 0));
	assert_refused(fi_av_insert_auth_key(av, "2", 1, &addr[0], 0), -FI_ENOSPC);
	assert_ok(fi_close(&av->fid));
	assert_ok(fi_close(&domain->fid));
	info->domain_attr->max_ep_auth_key = most + 1;
	assert_refused(fi_domain(end->fabric, info, &domain, NULL), -FI_EINVAL);
	info->domain_attr->max_ep_auth_key = 0;
	info->domain_attr->auth_key = (uint8_t *)strdup("k");
	assert_refused(fi_domain(end->fabric, info, &domain, NULL), -FI_EINVAL);
	fi_freeinfo(info);
}

/* ---- endpoints ---- */

/* By a key that both have, and by an address without a key: by any such. */
static void attr_04_av_common_key(struct conf *c)
{
	fi_addr_t of_a[2], of_b[2];
	struct scene s;

	open_scene(c, &s, "AB", of_a, "BC", of_b);
	auth_reaches(&s.r, s.b);
	s.r.to = addr_by(s.a, s.b, of_a[1]);
	auth_reaches(&s.r, s.b);
	s.r.to = addr_by(s.a, s.b, of_a[0]);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	assert_ok(fi_inject(s.a->ep, s.r.mem, 8, s.r.to));
	conf_failed(s.a->tx, NULL, FI_EACCES, HMREG_AUTH_KEY);
	conf_quiet(s.b->rx);
}

static void attr_04_av_no_common_key(struct conf *c)
{
	struct scene s;

	open_scene(c, &s, "AB", NULL, "CD", NULL);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
}

/* Endpoints that have one key in their attributes are peers like others. */
static void attr_04_av_and_single_keys(struct conf *c)
{
	struct conf_end *plain;
	struct auth_reach back;
	struct scene s;

	open_scene(c, &s, "AB", NULL, "BC", NULL);
	plain = conf_open(c, OPTS(AUTH_KEY("C"), .caps = AUTH_DIRECTED_CAPS));
	back = reach_from(c, plain, false);
	back.to = conf_addr(plain, s.b);
	back.region = s.r.region;
	auth_reaches(&back, s.b);
	back.to = conf_addr(plain, s.a);
	back.region = s.r.local;
	auth_refused(&back, s.a, s.r.mem, HMREG_AUTH_KEY);
	/* and the other way round */
	s.r.to = conf_addr(s.a, plain);
	s.r.region = back.local;
	auth_refused(&s.r, plain, back.mem, HMREG_AUTH_KEY);
	s.r = reach_from(c, s.b, true);
	s.r.to = conf_addr(s.b, plain);
	s.r.region = back.local;
	auth_reaches(&s.r, plain);
}

/* fi_av(3): keys are those of the time when the endpoint or region was enabled. */
static void attr_04_av_later_keys(struct conf *c)
{
	fi_addr_t of_a, later;
	struct conf_region *newer;
	struct scene s;

	open_scene(c, &s, "A", &of_a, "B", NULL);
	later = add_key(s.a, "B");
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	s.r.to = addr_by(s.a, s.b, later);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	/* b's endpoint has key B alone, whatever newer regions have */
	add_key(s.b, "A");
	newer = region_of(s.b, s.memory, FI_ADDR_UNSPEC, 0);
	s.r.region = newer;
	s.r.to = conf_addr(s.a, s.b);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
}

/* A region that was there before a key is not for it, although the endpoint is. */
static void attr_04_av_region_keys_are_older(struct conf *c)
{
	fi_addr_t of_a[2];
	struct conf_end *b;
	struct scene s;

	auth_need(c);
	if (c->mode & FI_MR_ENDPOINT)
		conf_skip(c, "regions are enabled with an endpoint that has the same keys");
	s.a = open_keyed(c, NULL, "AB", of_a);
	b = conf_open(c, OPTS(AUTH_IN_AV, .caps = AUTH_DIRECTED_CAPS, .disabled = true));
	s.b = b;
	add_key(b, "A");
	s.memory = conf_alloc(c, AUTH_LEN);
	s.r = reach_from(c, s.a, true);
	s.r.region = region_of(b, s.memory, FI_ADDR_UNSPEC, 0);
	add_key(b, "B");
	assert_ok(fi_enable(b->ep));
	s.r.to = addr_by(s.a, b, of_a[0]);
	auth_reaches(&s.r, b);
	s.r.to = addr_by(s.a, b, of_a[1]);
	auth_refused(&s.r, b, s.memory, HMREG_AUTH_KEY);
	s.r.to = conf_addr(s.a, b);
	auth_reaches(&s.r, b);
}

static void attr_04_av_without_keys(struct conf *c)
{
	struct fi_mr_auth_key key = { NULL, FI_ADDR_UNSPEC };
	struct iovec iov = { conf_alloc(c, 8), 8 };
	struct fi_mr_attr attr = attr_of(&iov, &key, 0);
	struct conf_end *end;
	struct fid_mr *mr = NULL;

	auth_need(c);
	end = conf_open(c, OPTS(AUTH_IN_AV, .disabled = true));
	assert_refused(fi_enable(end->ep), -FI_ENOKEY);
	key.av = end->av;
	if (c->mode & FI_MR_ENDPOINT) { /* its keys are taken when it is enabled */
		assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
		assert_ok(fi_mr_bind(mr, &end->ep->fid, 0));
		assert_refused(fi_mr_enable(mr), -FI_EINVAL);
	} else {
		assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
		assert_null(mr);
	}
	add_key(end, "k");
	assert_ok(fi_enable(end->ep));
	if (!mr)
		assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
	else
		assert_ok(fi_mr_enable(mr));
	assert_ok(fi_close(&mr->fid));
}

/* fi_endpoint(3): no keys of its own in such a domain. */
static void attr_04_av_endpoint_with_a_key(struct conf *c)
{
	struct conf_end *end;
	struct fid_ep *ep = NULL;
	uint8_t key[] = "k";

	auth_need(c);
	end = conf_open(c, OPTS(AUTH_IN_AV, .disabled = true));
	end->info->ep_attr->auth_key = key;
	assert_refused(fi_endpoint(end->domain, end->info, &ep, NULL), -FI_EINVAL);
	end->info->ep_attr->auth_key_size = 1;
	assert_refused(fi_endpoint(end->domain, end->info, &ep, NULL), -FI_EINVAL);
	end->info->ep_attr->auth_key = NULL;
	end->info->ep_attr->auth_key_size = 0;
	assert_null(ep);
}

/* ---- registration ---- */

static void attr_04_av_registration_needs_the_struct(struct conf *c)
{
	struct fi_mr_auth_key key = { NULL, FI_ADDR_UNSPEC };
	struct iovec iov = { conf_alloc(c, 8), 8 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .auth_key = (uint8_t *)&key };
	struct conf_end *end = open_keyed(c, NULL, "A", NULL);
	struct conf_end *other = open_keyed(c, NULL, "A", NULL);
	struct fid_mr *mr = NULL;

	assert_refused_with(fi_mr_reg(end->domain, iov.iov_base, 8, FI_SEND, 0, 1, 0, &mr, NULL),
			    -FI_EINVAL, "fi_mr_regattr");
	assert_refused_with(fi_mr_regv(end->domain, &iov, 1, FI_SEND, 0, 1, 0, &mr, NULL),
			    -FI_EINVAL, "fi_mr_regattr");
	key.av = end->av;
	for (attr.auth_key_size = 0; attr.auth_key_size < 2 * sizeof(key); attr.auth_key_size++)
		if (attr.auth_key_size != sizeof(key))
			assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.auth_key_size = sizeof(key);
	attr.auth_key = NULL;
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.auth_key = (uint8_t *)&key;
	key.av = NULL;
	assert_refused_with(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL, "av");
	key.av = other->av;
	assert_refused_with(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL, "av");
	key.av = (struct fid_av *)end->tx;
	assert_refused_with(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL, "av");
	assert_null(mr);
	conf_check_stats(end, 0, 0, 0);
}

/* With FI_MR_ENDPOINT the vector must be the endpoint's. */
static void attr_04_av_of_the_endpoint(struct conf *c)
{
	struct conf_end *end = open_keyed(c, NULL, "A", NULL);
	struct conf_end *other = open_keyed(c, end, "A", NULL);
	struct fi_mr_auth_key key = { other->av, FI_ADDR_UNSPEC };
	struct iovec iov = { conf_alloc(c, 8), 8 };
	struct fi_mr_attr attr = attr_of(&iov, &key, 0);
	struct fid_mr *mr;

	assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
	assert_refused_with(fi_mr_bind(mr, &end->ep->fid, 0), -FI_EINVAL, "address vector");
	assert_ok(fi_mr_bind(mr, &other->ep->fid, 0));
	assert_ok(fi_mr_enable(mr));
	assert_ok(fi_close(&mr->fid));
}

/* Who has keys of a vector keeps them there, and it open. */
static void attr_04_av_stays_while_in_use(struct conf *c)
{
	struct conf_end *end = open_keyed(c, NULL, "A", NULL), *two;
	struct conf_region *region;
	fi_addr_t key[2], none;

	two = open_keyed(c, end, "BC", key);
	region = region_of(two, conf_alloc(c, AUTH_LEN), key[0], FI_AUTH_KEY);
	assert_refused(fi_av_remove(two->av, &key[0], 1, FI_AUTH_KEY), -FI_EBUSY);
	assert_refused(fi_av_remove(two->av, &key[1], 1, FI_AUTH_KEY), -FI_EBUSY);
	none = add_key(two, "D");
	assert_ok(fi_av_remove(two->av, &none, 1, FI_AUTH_KEY));
	if (!(c->mode & FI_MR_ENDPOINT)) { /* else the region holds the endpoint */
		conf_close_ep(two);
		assert_refused(fi_close(&two->av->fid), -FI_EBUSY);
		assert_refused(fi_av_remove(two->av, &key[0], 1, FI_AUTH_KEY), -FI_EBUSY);
		assert_ok(fi_av_remove(two->av, &key[1], 1, FI_AUTH_KEY));
	}
	conf_drop_region(region);
	if (two->ep)
		conf_close_ep(two);
	assert_ok(fi_av_remove(two->av, &key[0], 1, FI_AUTH_KEY));
}

static const struct conf_case cases[] = {
	CONF(attr_04_av_keys_come_and_go),
	CONF(attr_04_av_key_mistakes),
	CONF(attr_04_av_inserts_by_key),
	CONF(attr_04_av_has_so_many_keys),
	CONF(attr_04_av_common_key),
	CONF(attr_04_av_no_common_key),
	CONF(attr_04_av_and_single_keys),
	CONF(attr_04_av_later_keys),
	CONF(attr_04_av_region_keys_are_older),
	CONF(attr_04_av_without_keys),
	CONF(attr_04_av_endpoint_with_a_key),
	CONF(attr_04_av_registration_needs_the_struct),
	CONF_NEED(attr_04_av_of_the_endpoint, FI_MR_ENDPOINT),
	CONF(attr_04_av_stays_while_in_use),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
