/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions and receives for one peer or one authorization key: ATTR-05, FLAG-07. */
#include "tests/conformance/auth_av.h"

static void post_recv(struct scene *s, fi_addr_t from, uint64_t flags, void *context)
{
	struct iovec iov = { s->memory + 32, 8 };
	struct fi_msg msg = { .msg_iov = &iov,
			      .desc = &s->r.region->desc,
			      .iov_count = 1,
			      .addr = from,
			      .context = context };

	assert_ok(fi_recvmsg(s->b->ep, &msg, flags));
}

static void check_from(struct conf_end *end, void *context, fi_addr_t want)
{
	struct fi_cq_data_entry entry;
	fi_addr_t from = 77;

	conf_from(end->rx, &entry, &from);
	assert_ptr_equal(entry.op_context, context);
	assert_true(from == want);
}

static void attr_05_one_peer(struct conf *c)
{
	struct auth_reach other;
	struct scene s;

	open_scene(c, &s, "A", NULL, "A", NULL);
	other = reach_from(c, open_keyed(c, NULL, "A", NULL), true);
	other.to = conf_addr(other.user, s.b);
	other.region = s.r.region;
	auth_reaches(&other, s.b);
	other.region = region_of(s.b, s.memory, conf_addr(s.b, s.a), 0);
	s.r.region = other.region;
	auth_refused(&other, s.b, s.memory, HMREG_AUTH_PEER);
	auth_reaches(&s.r, s.b);
}

/* A peer by one key. */
static void attr_05_one_peer_by_key(struct conf *c)
{
	fi_addr_t of_a[2], of_b[2];
	struct scene s;

	open_scene(c, &s, "AB", of_a, "AB", of_b);
	s.r.region = region_of(s.b, s.memory, addr_by(s.b, s.a, of_b[1]), 0);
	s.r.to = addr_by(s.a, s.b, of_a[0]);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	s.r.to = addr_by(s.a, s.b, of_a[1]);
	auth_reaches(&s.r, s.b);
	s.r.to = conf_addr(s.a, s.b);
	auth_reaches(&s.r, s.b);
}

static void attr_05_addresses_that_are_none(struct conf *c)
{
	struct conf_end *end = open_keyed(c, NULL, "A", NULL);
	struct fi_mr_auth_key key = { end->av, 99 };
	struct iovec iov = { conf_alloc(c, 8), 8 };
	struct fi_mr_attr attr = attr_of(&iov, &key, 0);
	fi_addr_t gone = conf_addr(end, end), by_key = add_key(end, "A");
	struct fid_mr *mr = NULL;

	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	assert_refused(fi_mr_regattr(end->domain, &attr, FI_AUTH_KEY, &mr), -FI_EINVAL);
	key.src_addr = by_key; /* a key, but not called one */
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	key.src_addr = gone; /* an address that is called a key */
	assert_refused(fi_mr_regattr(end->domain, &attr, FI_AUTH_KEY, &mr), -FI_EINVAL);
	assert_ok(fi_av_remove(end->av, &gone, 1, 0));
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	assert_null(mr);
}

/* Without FI_DIRECTED_RECV there is no limit to one, and none is ignored. */
static void attr_05_needs_directed_receives(struct conf *c)
{
	struct fi_mr_auth_key key = { NULL, FI_ADDR_UNSPEC };
	struct iovec iov = { conf_alloc(c, 8), 8 };
	struct fi_mr_attr attr = attr_of(&iov, &key, 0);
	struct conf_end *end;
	struct fid_mr *mr = NULL;
	fi_addr_t by_key;

	auth_need(c);
	end = conf_open(c, OPTS(AUTH_IN_AV, .caps = CONF_CAPS, .disabled = true));
	key.av = end->av;
	by_key = add_key(end, "A");
	key.src_addr = conf_addr(end, end);
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	key.src_addr = by_key;
	assert_refused(fi_mr_regattr(end->domain, &attr, FI_AUTH_KEY, &mr), -FI_EINVAL);
	assert_null(mr);
	key.src_addr = FI_ADDR_UNSPEC;
	assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
	assert_ok(fi_close(&mr->fid));
}

static void flag_07_one_key(struct conf *c)
{
	fi_addr_t of_a[2], of_b[2];
	struct scene s;

	open_scene(c, &s, "AB", of_a, "AB", of_b);
	s.r.region = region_of(s.b, s.memory, of_b[0], FI_AUTH_KEY);
	s.r.to = addr_by(s.a, s.b, of_a[1]);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	s.r.to = addr_by(s.a, s.b, of_a[0]);
	auth_reaches(&s.r, s.b);
	/* no limit after all */
	s.r.to = addr_by(s.a, s.b, of_a[1]);
	s.r.region = region_of(s.b, s.memory, FI_ADDR_UNSPEC, FI_AUTH_KEY);
	auth_reaches(&s.r, s.b);
}

/* A receive for one key's messages, and where each message came from. */
static void flag_07_receive_by_key(struct conf *c)
{
	fi_addr_t of_a[2], of_b[2], to[2], from;
	int any, one;
	struct scene s;

	open_scene(c, &s, "AB", of_a, "AB", of_b);
	from = conf_addr(s.b, s.a);
	to[0] = addr_by(s.a, s.b, of_a[0]);
	to[1] = addr_by(s.a, s.b, of_a[1]);
	post_recv(&s, of_b[1], FI_COMPLETION | FI_AUTH_KEY, &one);
	assert_ok(fi_inject(s.a->ep, s.r.mem, 8, to[0]));
	conf_quiet(s.b->rx);
	assert_ok(fi_inject(s.a->ep, s.r.mem, 8, to[1]));
	check_from(s.b, &one, from);
	post_recv(&s, FI_ADDR_UNSPEC, FI_COMPLETION, &any);
	check_from(s.b, &any, from);
	/* once it is known by that key, too, messages come from there */
	from = addr_by(s.b, s.a, of_b[1]);
	assert_ok(fi_inject(s.a->ep, s.r.mem, 8, to[1]));
	post_recv(&s, from, FI_COMPLETION, &one);
	check_from(s.b, &one, from);
	post_recv(&s, from, FI_COMPLETION, &one);
	assert_ok(fi_inject(s.a->ep, s.r.mem, 8, to[0]));
	conf_quiet(s.b->rx);
	assert_ok(fi_inject(s.a->ep, s.r.mem, 8, to[1]));
	check_from(s.b, &one, from);
}

/* The flag is for domains of FI_AV_AUTH_KEY alone. */
static void flag_07_elsewhere(struct conf *c)
{
	struct conf_end *end = conf_open(c, OPTS(.caps = AUTH_DIRECTED_CAPS));
	struct fi_mr_auth_key key = { end->av, FI_ADDR_UNSPEC };
	uint8_t *mem = conf_alloc(c, 8);
	struct iovec iov = { mem, 8 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1 };
	struct fi_msg msg = { .addr = 0 };
	struct fid_mr *mr = NULL;
	uint8_t name[128];
	size_t len = sizeof(name);
	fi_addr_t addr = 0;

	assert_refused(fi_mr_reg(end->domain, mem, 8, FI_SEND, 0, 1, FI_AUTH_KEY, &mr, NULL),
		       -FI_EBADFLAGS);
	assert_refused(fi_mr_regv(end->domain, &iov, 1, FI_SEND, 0, 1, FI_AUTH_KEY, &mr, NULL),
		       -FI_EBADFLAGS);
	assert_refused(fi_mr_regattr(end->domain, &attr, FI_AUTH_KEY, &mr), -FI_EBADFLAGS);
	attr.auth_key = (uint8_t *)&key;
	attr.auth_key_size = sizeof(key);
	assert_refused(fi_mr_regattr(end->domain, &attr, FI_AUTH_KEY, &mr), -FI_EBADFLAGS);
	assert_null(mr);
	assert_refused(fi_recvmsg(end->ep, &msg, FI_AUTH_KEY), -FI_EBADFLAGS);
	assert_ok(fi_getname(&end->ep->fid, name, &len));
	assert_refused(fi_av_insert(end->av, name, 1, &addr, FI_AUTH_KEY, NULL), -FI_ENOSYS);
	assert_refused(fi_av_remove(end->av, &addr, 1, FI_AUTH_KEY), -FI_ENOSYS);
	assert_refused(fi_av_insert_auth_key(end->av, "k", 1, &addr, 0), -FI_ENOSYS);
	assert_refused(fi_av_lookup_auth_key(end->av, 0, name, &len), -FI_ENOSYS);
}

static const struct conf_case cases[] = {
	CONF(attr_05_one_peer),
	CONF(attr_05_one_peer_by_key),
	CONF(attr_05_addresses_that_are_none),
	CONF(attr_05_needs_directed_receives),
	CONF(flag_07_one_key),
	CONF(flag_07_receive_by_key),
	CONF(flag_07_elsewhere),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
