/* SPDX-License-Identifier: BSD-2-Clause */
/* Between domains: of different profiles, of fabrics that were opened apart, of one fabric. */
#include "tests/conformance/harness.h"

/* Two ends on profiles x and y, everything that a link has, in both directions. */
struct both {
	struct conf_link there, back;
};

static void connect_both(struct conf *c, struct conf_end *a, struct conf_end *b, struct both *out)
{
	uint8_t *of_a = conf_alloc(c, 256), *of_b = conf_alloc(c, 256);
	struct conf_region *ra = conf_reg(a, of_a, 256, CONF_ALL),
			   *rb = conf_reg(b, of_b, 256, CONF_ALL);

	out->there = (struct conf_link){ .a = a,
					 .b = b,
					 .to = conf_addr(a, b),
					 .src = of_a,
					 .dst = of_b,
					 .len = 256,
					 .local = ra,
					 .remote = rb,
					 .key = conf_key(a, rb) };
	out->back = (struct conf_link){ .a = b,
					.b = a,
					.to = conf_addr(b, a),
					.src = of_b,
					.dst = of_a,
					.len = 256,
					.local = rb,
					.remote = ra,
					.key = conf_key(b, ra) };
}

static void message(struct conf_link *l)
{
	conf_fill(l->a->conf, l->src, l->len);
	assert_ok(fi_recv(l->b->ep, l->dst, l->len, l->remote->desc, FI_ADDR_UNSPEC, l->dst));
	assert_ok(fi_send(l->a->ep, l->src, l->len, l->local->desc, l->to, l));
	conf_done(l->a->tx, l);
	conf_done(l->b->rx, l->dst);
	assert_memory_equal(l->dst, l->src, l->len);
}

static void add(struct conf_link *l)
{
	uint64_t one = 1, after;

	if (!conf_atomic_count(l->a, FI_UINT64, FI_SUM, 0))
		return;
	memcpy(&after, l->dst, 8);
	after++;
	assert_ok(fi_inject_atomic(l->a->ep, &one, 1, l->to, l->remote->addr, l->key, FI_UINT64,
				   FI_SUM));
	conf_arrives(l->dst, &after, 8);
	conf_quiet(l->a->tx);
}

static void use_both(struct both *b)
{
	conf_works(&b->there);
	conf_works(&b->back);
	message(&b->there);
	message(&b->back);
	add(&b->there);
	add(&b->back);
}

static void cross_every_pair_of_profiles(struct conf *c)
{
	const struct conf_profile *profiles;
	size_t count = conf_profiles(&profiles);

	for (size_t i = 0; i < count; i++) {
		struct conf_end *a = conf_open(c, NULL);
		struct conf_end *b =
			conf_open(c, &(struct conf_opts){ .domain = profiles[i].name,
							  .mode = profiles[i].offered });
		struct both both;

		connect_both(c, a, b, &both);
		use_both(&both);
		/* the last regions and ends first */
		conf_drop_region(both.there.remote);
		conf_drop_region(both.there.local);
		conf_drop_end(b);
		conf_drop_end(a);
	}
}

static void cross_domains_of_one_fabric(struct conf *c)
{
	struct conf_end *a = conf_open(c, NULL),
			*b = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fid_domain *second, *first = b->domain;
	struct both both;
	struct conf_end *end;

	/* b's objects live in a domain of a's fabric */
	assert_ok(fi_domain(a->fabric, b->info, &second, NULL));
	b->domain = second;
	end = conf_open(c, &(struct conf_opts){ .same_domain = b });
	connect_both(c, a, end, &both);
	use_both(&both);
	conf_drop_region(both.there.remote);
	conf_drop_region(both.there.local);
	conf_drop_end(end);
	assert_refused(fi_close(&a->fabric->fid), -FI_EBUSY);
	assert_ok(fi_close(&second->fid));
	b->domain = first;
}

static void cross_endpoints_of_one_domain(struct conf *c)
{
	struct conf_end *a = conf_open(c, NULL);
	struct conf_end *b = conf_open(c, &(struct conf_opts){ .same_domain = a });
	struct both both;

	connect_both(c, a, b, &both);
	use_both(&both);
}

/* A key names a region of one domain; at a peer of another domain it leads nowhere. */
static void cross_keys_do_not_travel(struct conf *c)
{
	struct conf_end *a = conf_open(c, NULL), *b = conf_open(c, NULL),
			*other = conf_open(c, NULL);
	uint8_t *src = conf_alloc(c, 64), *mem = conf_alloc(c, 64), *safe = conf_alloc(c, 64);
	struct conf_region *local = conf_reg(a, src, 64, CONF_LOCAL), *region;
	fi_addr_t to_other = conf_addr(a, other);

	conf_fill(c, src, 64);
	other->next_key = 1000; /* keys of its own, where keys are chosen */
	conf_reg(other, safe, 64, CONF_ALL);
	for (int i = 0; i < 20; i++) {
		struct fi_cq_err_entry entry;

		region = conf_reg(b, mem, 64, CONF_ALL);
		assert_ok(fi_write(a->ep, src, 64, local->desc, to_other, region->addr,
				   conf_key(a, region), c));
		conf_error(a->tx, &entry);
		if (c->profile->exact)
			assert_int_equal(entry.err, FI_ENOKEY);
		else
			assert_true(conf_is_error(&entry, FI_ENOKEY, HMREG_KEY_UNKNOWN));
	}
	for (size_t i = 0; i < 64; i++)
		assert_true(mem[i] == 0 && safe[i] == 0);
}

/* Both sides use the same numbers for their own keys. */
static void cross_same_key_on_both_sides(struct conf *c)
{
	struct conf_end *a = conf_open(c, NULL), *b = conf_open(c, NULL);
	struct both both;

	connect_both(c, a, b, &both);
	if (!(c->mode & (FI_MR_RAW | FI_MR_PROV_KEY)))
		assert_int_equal(both.there.key, both.back.key);
	use_both(&both);
}

/* One fabric closes, the other goes on. */
static void cross_fabrics_are_independent(struct conf *c)
{
	struct conf_end *a = conf_open(c, NULL), *b = conf_open(c, NULL),
			*gone = conf_open(c, NULL);
	struct both both, with_gone;

	connect_both(c, a, b, &both);
	connect_both(c, a, gone, &with_gone);
	use_both(&both);
	use_both(&with_gone);
	/* the keys that gone has mapped and that others have mapped of it go with it */
	conf_drop_region(with_gone.there.remote);
	conf_drop_region(with_gone.there.local);
	conf_drop_end(gone);
	use_both(&both);
	assert_ok(fi_inject(a->ep, "x", 1, with_gone.there.to));
	conf_failed(a->tx, NULL, FI_EHOSTUNREACH, HMREG_PEER_GONE);
	use_both(&both);
}

/* An endpoint that takes a closed one's address is another one, whatever was queued for it. */
static void cross_address_used_again(struct conf *c)
{
	struct conf_end *a = conf_open(c, NULL),
			*b = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fi_info *info = fi_dupinfo(b->info);
	struct conf_end *first = conf_open(c, &(struct conf_opts){ .same_domain = b }), *again;
	uint8_t name[128], *buf = conf_alloc(c, 64);
	size_t len = sizeof(name);
	fi_addr_t to = conf_addr(a, first);
	struct conf_region *region;
	uint8_t *lost = conf_alloc(c, 4);
	struct conf_region *local = conf_reg(a, lost, 4, CONF_LOCAL);

	assert_ok(fi_getname(&first->ep->fid, name, &len));
	assert_ok(fi_send(a->ep, lost, 4, local->desc, to, c));
	conf_done(a->tx, c);
	conf_drop_end(first);
	assert_ok(fi_inject(a->ep, "none", 4, to));
	conf_failed(a->tx, NULL, FI_EHOSTUNREACH, HMREG_PEER_GONE);
	free(info->src_addr);
	info->src_addr = malloc(len);
	assert_non_null(info->src_addr);
	memcpy(info->src_addr, name, len);
	info->src_addrlen = len;
	again = conf_open(c, &(struct conf_opts){ .same_domain = b, .disabled = true });
	assert_ok(fi_close(&again->ep->fid));
	assert_ok(fi_endpoint(b->domain, info, &again->ep, NULL));
	/* while it is open nobody else gets this address */
	assert_refused(fi_endpoint(b->domain, info, &(struct fid_ep *){ NULL }, NULL),
		       -FI_EADDRINUSE);
	fi_freeinfo(info);
	assert_ok(fi_ep_bind(again->ep, &again->av->fid, 0));
	assert_ok(fi_ep_bind(again->ep, &again->tx->fid, FI_TRANSMIT));
	assert_ok(fi_ep_bind(again->ep, &again->rx->fid, FI_RECV));
	assert_ok(fi_enable(again->ep));
	region = conf_reg(again, buf, 64, CONF_ALL);
	assert_ok(fi_recv(again->ep, buf, 64, region->desc, FI_ADDR_UNSPEC, c));
	conf_quiet(again->rx);
	assert_ok(fi_inject(a->ep, "here", 4, to));
	conf_done(again->rx, c);
	assert_memory_equal(buf, "here", 4);
}

static const struct conf_case cases[] = {
	CONF(cross_every_pair_of_profiles),  CONF(cross_domains_of_one_fabric),
	CONF(cross_endpoints_of_one_domain), CONF(cross_keys_do_not_travel),
	CONF(cross_same_key_on_both_sides),  CONF(cross_fabrics_are_independent),
	CONF(cross_address_used_again),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
