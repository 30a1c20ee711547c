/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * More messages than a receiver keeps, and what must not wait behind them: answers, and questions about
 * keys.  And a question that nobody can answer.
 */
#include "tests/conformance/peers.h"

#define COUNT 64 /* of EACH bytes, many more than the library is told to keep */
#define EACH  4096
#define PARTS ((size_t)256 * 1024) /* more than one region of the device */

/* What one end has to send and to receive. */
struct side {
	struct conf_end *end;
	fi_addr_t to;
	uint8_t *out, *in;
	struct conf_region *from, *into;
};

static void open_side(struct conf *c, struct side *s, struct conf_end *end)
{
	s->end = end;
	s->out = conf_alloc(c, (size_t)COUNT * EACH);
	s->in = conf_alloc(c, (size_t)COUNT * EACH);
	conf_fill(c, s->out, (size_t)COUNT * EACH);
	s->from = conf_reg(end, s->out, (size_t)COUNT * EACH, CONF_ALL);
	s->into = conf_reg(end, s->in, (size_t)COUNT * EACH, CONF_ALL);
}

/* As many messages as there is room for; flags: FI_DELIVERY_COMPLETE or 0. */
static void flood(struct side *s, uint64_t flags)
{
	for (size_t i = 0; i < COUNT; i++) {
		const struct iovec iov = { s->out + i * EACH, EACH };
		const struct fi_msg msg = {
			.msg_iov = &iov, .desc = &s->from->desc, .iov_count = 1, .addr = s->to
		};

		assert_posted(fi_sendmsg(s->end->ep, &msg, flags | FI_COMPLETION));
	}
}

static void receive(struct side *s, const struct side *from)
{
	struct fi_cq_err_entry error;

	for (size_t i = 0; i < COUNT; i++)
		assert_posted(fi_recv(s->end->ep, s->in + i * EACH, EACH, s->into->desc,
				      FI_ADDR_UNSPEC, NULL));
	assert_int_equal(drain(s->end->rx, COUNT, &error), 0);
	assert_memory_equal(s->in, from->out, (size_t)COUNT * EACH);
}

static void need_network(struct conf *c)
{
	if (!is_network(c))
		conf_skip(c, "this device keeps no messages of its own accord");
}

/*
 * Two ends send each other more than either keeps, and receive nothing.  Then one receives all: the other
 * is to hear of it, before it receives anything itself.
 */
static void nic_answers_come_through_a_flood(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_end *a, *b;
	struct side one, other;

	need_network(c);
	conf_pair(c, NULL, &a, &b);
	open_side(c, &one, a);
	open_side(c, &other, b);
	one.to = conf_addr(a, b);
	other.to = conf_addr(b, a);
	for (int round = 0; round < 3; round++) {
		flood(&one, FI_DELIVERY_COMPLETE);
		flood(&other, FI_DELIVERY_COMPLETE);
		receive(&other, &one);
		assert_int_equal(drain(a->tx, COUNT, &error), 0);
		receive(&one, &other);
		assert_int_equal(drain(b->tx, COUNT, &error), 0);
	}
}

/* The owner of a key is flooded; somebody else asks it which parts the key has. */
static void fn_26_key_is_told_in_a_flood(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct side one, other;
	struct conf_link l;

	need_network(c);
	conf_link(c, NULL, PARTS, &l);
	open_side(c, &one, conf_open(c, &(struct conf_opts){ .same_domain = l.a }));
	open_side(c, &other, l.b);
	one.to = conf_addr(one.end, l.b);
	flood(&one, 0);
	assert_posted(
		fi_write(l.a->ep, l.src, PARTS, l.local->desc, l.to, l.remote->addr, l.key, NULL));
	assert_int_equal(drain(l.a->tx, 1, &error), 0);
	assert_memory_equal(l.dst, l.src, PARTS);
	receive(&other, &one);
	assert_int_equal(drain(one.end->tx, COUNT, &error), 0);
}

/* The owner of a key lives and cannot connect back: those who wait for its parts do not wait for ever. */
static void fn_26_key_is_not_told(struct conf *c)
{
	void (*silence)(uint16_t port, int silent);
	struct fi_cq_err_entry error;
	struct conf_link l;

	*(void **)&silence = emulator(c, "emu_verbs_silence");
	if (!silence)
		conf_skip(c, "only the emulated devices do this on demand");
	conf_link(c, NULL, PARTS, &l);
	if (!(l.key >> 63))
		conf_skip(c, "the device has keys over several regions, which nobody asks about");
	silence(port_of(l.a), 1);
	conf_log_mark(__FILE__, __LINE__);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_write(l.a->ep, l.src, PARTS, l.local->desc, l.to,
					  l.remote->addr, l.key, NULL),
				 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(drain(l.a->tx, 1, &error), 1);
		assert_int_equal(error.prov_errno, HMREG_PEER_LOST);
		assert_int_equal(error.err, FI_ECONNABORTED);
	}
	conf_log_expect(1, "does not tell", "the key", __FILE__, __LINE__);
	silence(port_of(l.a), 0);
	conf_works(&l);
}

static const struct conf_case cases[] = {
	CONF(nic_answers_come_through_a_flood),
	CONF_WITHOUT(fn_26_key_is_told_in_a_flood, FI_MR_RAW),
	CONF_WITHOUT(fn_26_key_is_not_told, FI_MR_RAW),
};

int main(int argc, char **argv)
{
	setenv("HMREG_VERBS_MAX_MR_SIZE", "64K", 0);
	setenv("HMREG_VERBS_MAX_UNEXPECTED", "32K", 0);
	setenv("HMREG_VERBS_RX_BUFFERS", "16", 0);
	/* ten times as long is more than a test waits */
	setenv("HMREG_VERBS_RETRY_TIME", "2500", 0);
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
