/* SPDX-License-Identifier: BSD-2-Clause */
/* Where messages come from: FI_SOURCE, and receives for one sender's messages (FI_DIRECTED_RECV). */
#include "tests/conformance/harness.h"

#define SOURCE_CAPS (CONF_CAPS | FI_SOURCE | FI_DIRECTED_RECV)

/* A receive for whoever sends. */
static ssize_t receive(struct conf_link *l)
{
	return fi_recv(l->b->ep, l->dst, 64, l->remote->desc, FI_ADDR_UNSPEC, l->dst);
}

static void msg_source(struct conf *c)
{
	struct conf_opts opts = { .caps = SOURCE_CAPS };
	struct conf_link l;
	struct conf_end *stranger;
	struct fi_cq_data_entry entry;
	fi_addr_t from, of_a;

	conf_link(c, &opts, 64, &l);
	stranger = conf_open(c, &opts);
	conf_addr(l.b, l.b); /* so that the sender is not the first of the vector */
	of_a = conf_addr(l.b, l.a);
	for (int unexpected = 0; unexpected < 2; unexpected++) {
		if (!unexpected)
			assert_ok(receive(&l));
		assert_ok(fi_inject(l.a->ep, l.src, 8, l.to));
		if (unexpected)
			assert_ok(receive(&l));
		from = 77;
		conf_from(l.b->rx, &entry, &from);
		assert_int_equal(from, of_a);
		/* from somebody who is not in the vector */
		assert_ok(receive(&l));
		assert_ok(fi_inject(stranger->ep, l.src, 8,
				    unexpected ? 0 : conf_addr(stranger, l.b)));
		from = 77;
		conf_from(l.b->rx, &entry, &from);
		assert_true(from == FI_ADDR_NOTAVAIL);
	}
}

static void msg_directed_receive(struct conf *c)
{
	struct conf_opts opts = { .caps = SOURCE_CAPS };
	struct conf_end *from[3], *b = conf_open(c, &opts);
	uint8_t *dst = conf_alloc(c, 64);
	struct conf_region *region = conf_reg(b, dst, 64, CONF_ALL);
	fi_addr_t at[3], of[3];
	int context[4];

	for (size_t i = 0; i < 3; i++) {
		from[i] = conf_open(c, &opts);
		at[i] = conf_addr(from[i], b);
		of[i] = conf_addr(b, from[i]);
	}
	assert_ok(fi_recv(b->ep, dst + 8, 8, region->desc, of[1], &context[1]));
	assert_ok(fi_recv(b->ep, dst + 16, 8, region->desc, of[2], &context[2]));
	/* nobody waits for the first one's messages: they wait */
	assert_ok(fi_inject(from[0]->ep, "zero-one", 8, at[0]));
	assert_ok(fi_inject(from[0]->ep, "zero-two", 8, at[0]));
	conf_quiet(b->rx);
	assert_ok(fi_inject(from[2]->ep, "two", 4, at[2]));
	conf_done(b->rx, &context[2]);
	assert_string_equal((char *)dst + 16, "two");
	assert_ok(fi_inject(from[1]->ep, "one", 4, at[1]));
	conf_done(b->rx, &context[1]);
	assert_string_equal((char *)dst + 8, "one");
	assert_ok(fi_inject(from[1]->ep, "more", 5, at[1]));
	assert_ok(fi_recv(b->ep, dst + 24, 8, region->desc, of[1], &context[1]));
	conf_done(b->rx, &context[1]);
	assert_string_equal((char *)dst + 24, "more");
	assert_ok(fi_recv(b->ep, dst, 8, region->desc, FI_ADDR_UNSPEC, &context[0]));
	conf_done(b->rx, &context[0]);
	assert_memory_equal(dst, "zero-one", 8);
	assert_ok(fi_recv(b->ep, dst, 8, region->desc, of[0], &context[3]));
	conf_done(b->rx, &context[3]);
	assert_memory_equal(dst, "zero-two", 8);
	assert_refused(fi_recv(b->ep, dst, 8, region->desc, 1000, c), -FI_EINVAL);
}

/* Without the capability the source in a receive is not looked at. */
static void msg_undirected_receive(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	assert_ok(fi_recv(l.b->ep, l.dst, 64, l.remote->desc, 12345, c));
	assert_ok(fi_inject(l.a->ep, l.src, 8, l.to));
	conf_done(l.b->rx, c);
}

static const struct conf_case cases[] = {
	CONF(msg_source),
	CONF(msg_directed_receive),
	CONF(msg_undirected_receive),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
