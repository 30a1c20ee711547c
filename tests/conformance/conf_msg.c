/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_msg(3): order, unexpected messages, truncation, cancellation, delivery, queues; conf_source.c has their sources. */
#include "tests/conformance/harness.h"

/* ---- every way to send against every way to receive ---- */

enum send {
	SEND,
	SENDV,
	SENDMSG,
	SENDDATA,
	SENDMSG_DATA,
	INJECT,
	INJECTDATA,
	SENDS
};
enum recv {
	RECV,
	RECVV,
	RECVMSG,
	RECVS
};

#define DATA UINT64_C(0x8877665544332211)

static bool has_data(enum send how)
{
	return how == SENDDATA || how == SENDMSG_DATA || how == INJECTDATA;
}

/* In two pieces where the call has a vector. */
static ssize_t send_by(enum send how, struct conf_link *l, size_t len)
{
	size_t half = l->a->info->tx_attr->iov_limit > 1 ? len / 2 : len;
	struct iovec iov[2] = { { l->src, half }, { l->src + half, len - half } };
	void *desc[2] = { l->local->desc, l->local->desc };
	struct fi_msg msg = { iov, desc, half == len ? 1 : 2, l->to, l, DATA };
	struct fid_ep *ep = l->a->ep;

	switch (how) {
	case SEND:
		return fi_send(ep, l->src, len, desc[0], l->to, l);
	case SENDV:
		return fi_sendv(ep, iov, desc, msg.iov_count, l->to, l);
	case SENDMSG:
		return fi_sendmsg(ep, &msg, FI_COMPLETION);
	case SENDDATA:
		return fi_senddata(ep, l->src, len, desc[0], DATA, l->to, l);
	case SENDMSG_DATA:
		return fi_sendmsg(ep, &msg, FI_REMOTE_CQ_DATA | FI_COMPLETION);
	case INJECT:
		return fi_inject(ep, l->src, len, l->to);
	default:
		return fi_injectdata(ep, l->src, len, DATA, l->to);
	}
}

static ssize_t recv_by(enum recv how, struct conf_link *l, size_t len)
{
	size_t third = l->b->info->rx_attr->iov_limit > 1 ? len / 3 : len;
	struct iovec iov[2] = { { l->dst, third }, { l->dst + third, len - third } };
	void *desc[2] = { l->remote->desc, l->remote->desc };
	struct fi_msg msg = { iov, desc, third == len ? 1 : 2, FI_ADDR_UNSPEC, l->dst, 0 };
	struct fid_ep *ep = l->b->ep;

	switch (how) {
	case RECV:
		return fi_recv(ep, l->dst, len, desc[0], FI_ADDR_UNSPEC, l->dst);
	case RECVV:
		return fi_recvv(ep, iov, desc, msg.iov_count, FI_ADDR_UNSPEC, l->dst);
	default:
		return fi_recvmsg(ep, &msg, FI_COMPLETION);
	}
}

static void check_received(struct conf_link *l, enum send how, size_t len)
{
	struct fi_cq_data_entry entry;

	conf_done_as(l->b->rx, l->dst, &entry);
	assert_int_equal(entry.len, len);
	assert_true(entry.flags == (FI_MSG | FI_RECV | (has_data(how) ? FI_REMOTE_CQ_DATA : 0)));
	if (has_data(how))
		assert_true(conf_data(l->b, entry.data) == conf_data(l->b, DATA));
	assert_memory_equal(l->dst, l->src, len);
	if (how == INJECT || how == INJECTDATA)
		conf_quiet(l->a->tx);
	else
		conf_done_as(l->a->tx, l, &entry);
	if (how != INJECT && how != INJECTDATA)
		assert_true(entry.flags == (FI_MSG | FI_SEND));
}

static void msg_every_call(struct conf *c)
{
	static const size_t lengths[] = { 0, 1, 7, 64, 1000, 4096 };
	struct conf_link l;

	conf_link(c, NULL, 8192, &l);
	for (int i = 0; i < SENDS * RECVS * 2; i++) {
		enum send how = (enum send)(i % SENDS);
		enum recv into = (enum recv)(i / SENDS % RECVS);
		bool unexpected = i / (SENDS * RECVS);

		for (size_t k = 0; k < count_of(lengths); k++) {
			conf_fill(c, l.src, l.len);
			memset(l.dst, 0x99, l.len);
			if (!unexpected)
				assert_ok(recv_by(into, &l, 5000));
			assert_ok(send_by(how, &l, lengths[k]));
			if (unexpected) {
				conf_quiet(l.b->rx);
				assert_ok(recv_by(into, &l, 5000));
			}
			check_received(&l, how, lengths[k]);
			for (size_t n = lengths[k]; n < l.len; n++)
				assert_int_equal(l.dst[n], 0x99);
		}
	}
}

/* ---- order ---- */

#define MESSAGES 300

/* Receives are posted before, between and after the messages that they take. */
static void msg_order(struct conf *c)
{
	struct conf_link l;
	size_t sent = 0, posted = 0, done = 0;
	struct fi_cq_data_entry entry;

	conf_link(c, &(struct conf_opts){ .tx_cq_size = 2 * MESSAGES, .rx_cq_size = 2 * MESSAGES },
		  MESSAGES * 16, &l);
	while (done < MESSAGES) {
		if (sent < MESSAGES && conf_below(c, 2)) {
			l.src[sent * 16] = (uint8_t)sent;
			l.src[sent * 16 + 1] = (uint8_t)(sent >> 8);
			assert_ok(fi_send(l.a->ep, l.src + sent * 16, 2 + sent % 14, l.local->desc,
					  l.to, l.src + sent * 16));
			sent++;
		}
		if (posted < MESSAGES && conf_below(c, 2)) {
			assert_ok(fi_recv(l.b->ep, l.dst + posted * 16, 16, l.remote->desc,
					  FI_ADDR_UNSPEC, l.dst + posted * 16));
			posted++;
		}
		if (done < sent && done < posted && conf_below(c, 2)) {
			conf_done_as(l.b->rx, l.dst + done * 16, &entry);
			assert_int_equal(entry.len, 2 + done % 14);
			assert_int_equal(l.dst[done * 16], done & 255);
			assert_int_equal(l.dst[done * 16 + 1], done >> 8);
			conf_done(l.a->tx, l.src + done * 16);
			done++;
		}
	}
	conf_quiet(l.b->rx);
	conf_quiet(l.a->tx);
}

/* ---- truncation ---- */

static void msg_truncation(struct conf *c)
{
	static const size_t rooms[] = { 0, 1, 50, 99 };
	struct fi_cq_err_entry entry;
	struct conf_link l;

	conf_link(c, NULL, 128, &l);
	for (size_t i = 0; i < count_of(rooms) * 2; i++) {
		size_t room = rooms[i / 2];
		bool unexpected = i % 2;

		memset(l.dst, 0x99, l.len);
		if (!unexpected)
			assert_ok(recv_by(RECVV, &l, room));
		assert_ok(send_by(SENDDATA, &l, 100));
		if (unexpected)
			assert_ok(recv_by(RECVV, &l, room));
		conf_failed_as(l.b->rx, l.dst, FI_ETRUNC, HMREG_TRUNCATED, &entry);
		assert_int_equal(entry.len, room);
		assert_int_equal(entry.olen, 100 - room);
		assert_true(entry.flags & FI_RECV);
		assert_memory_equal(l.dst, l.src, room);
		for (size_t n = room; n < l.len; n++)
			assert_int_equal(l.dst[n], 0x99);
		conf_done(l.a->tx, &l); /* the sender's message was sent */
	}
	/* one that fits exactly */
	assert_ok(recv_by(RECV, &l, 100));
	assert_ok(send_by(SEND, &l, 100));
	check_received(&l, SEND, 100);
}

/* ---- cancellation ---- */

static void msg_cancel(struct conf *c)
{
	struct conf_link l;
	int context[3];

	conf_link(c, NULL, 64, &l);
	assert_answer(fi_cancel(&l.b->ep->fid, &context[0]), -FI_ENOENT);
	for (size_t i = 0; i < 3; i++)
		assert_ok(fi_recv(l.b->ep, l.dst + 16 * i, 16, l.remote->desc, FI_ADDR_UNSPEC,
				  &context[i]));
	assert_ok(fi_cancel(&l.b->ep->fid, &context[1]));
	conf_failed(l.b->rx, &context[1], FI_ECANCELED, HMREG_CANCELED);
	assert_answer(fi_cancel(&l.b->ep->fid, &context[1]), -FI_ENOENT);
	assert_ok(fi_send(l.a->ep, l.src, 16, l.local->desc, l.to, c));
	conf_done(l.a->tx, c);
	conf_done(l.b->rx, &context[0]);
	assert_answer(fi_cancel(&l.b->ep->fid, &context[0]), -FI_ENOENT);
	assert_ok(fi_send(l.a->ep, l.src, 16, l.local->desc, l.to, c));
	conf_done(l.a->tx, c);
	conf_done(l.b->rx, &context[2]);
	for (size_t i = 16; i < 32; i++)
		assert_int_equal(l.dst[i], 0);
	conf_quiet(l.b->rx);
}

/* ---- delivery ---- */

static ssize_t send_flags(struct conf_link *l, uint64_t flags, void *context)
{
	struct iovec iov = { l->src, 32 };
	struct fi_msg msg = { &iov, &l->local->desc, 1, l->to, context, 0 };

	return fi_sendmsg(l->a->ep, &msg, flags);
}

static void msg_delivery_complete(struct conf *c)
{
	static const uint64_t levels[] = { FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE,
					   FI_DELIVERY_COMPLETE | FI_INJECT };
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	for (size_t i = 0; i < count_of(levels); i++) {
		/* the receive is there */
		assert_ok(recv_by(RECV, &l, 64));
		assert_ok(send_flags(&l, levels[i], c));
		conf_done(l.a->tx, c);
		conf_done(l.b->rx, l.dst);
		/* it comes later, and so does the completion */
		assert_ok(send_flags(&l, levels[i], c));
		assert_ok(send_flags(&l, FI_TRANSMIT_COMPLETE, &l));
		conf_done(l.a->tx, &l);
		conf_quiet(l.a->tx);
		assert_ok(recv_by(RECV, &l, 64));
		conf_done(l.a->tx, c);
		conf_done(l.b->rx, l.dst);
		assert_memory_equal(l.dst, l.src, 32);
		assert_ok(recv_by(RECV, &l, 64));
		conf_done(l.b->rx, l.dst);
		conf_quiet(l.a->tx);
	}
}

static void msg_undelivered(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	for (int i = 0; i < 3; i++)
		assert_ok(send_flags(&l, FI_DELIVERY_COMPLETE, c));
	assert_ok(send_flags(&l, FI_TRANSMIT_COMPLETE, &l));
	conf_done(l.a->tx, &l);
	conf_quiet(l.a->tx);
	conf_close_region(l.remote);
	conf_close_ep(l.b);
	for (int i = 0; i < 3; i++)
		conf_failed(l.a->tx, c, FI_EHOSTUNREACH, HMREG_PEER_GONE);
	conf_quiet(l.a->tx);
}

/* A sender that closes does not wait for its deliveries; what it has sent still arrives. */
static void msg_sender_closes(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	for (int i = 0; i < 3; i++)
		assert_ok(send_flags(&l, FI_DELIVERY_COMPLETE, c));
	/* when the last has left, all have */
	assert_ok(send_flags(&l, FI_TRANSMIT_COMPLETE, &l));
	conf_done(l.a->tx, &l);
	conf_close_region(l.local);
	conf_close_ep(l.a);
	conf_quiet(l.a->tx);
	for (int i = 0; i < 4; i++) {
		assert_ok(recv_by(RECV, &l, 64));
		conf_done(l.b->rx, l.dst);
		assert_memory_equal(l.dst, l.src, 32);
	}
	conf_quiet(l.a->tx);
}

/* Everything that can be queued is, when both ends close. */
static void msg_close_with_queued_work(struct conf *c)
{
	struct conf_link l;
	fi_addr_t back;

	conf_link(c, NULL, 64, &l);
	back = conf_addr(l.b, l.a);
	for (int i = 0; i < 5; i++) {
		assert_ok(recv_by(RECVV, &l, 64));
		assert_ok(fi_send(l.b->ep, l.dst, 16, l.remote->desc, back, c));
		assert_ok(fi_inject(l.b->ep, l.dst, 16, back));
	}
	for (int i = 0; i < 8; i++)
		assert_ok(send_flags(&l, FI_DELIVERY_COMPLETE, c));
}

/* ---- a receive whose memory is gone ---- */

static void msg_closed_receive_buffer(struct conf *c)
{
	struct conf_region *region;
	struct conf_link l;
	uint8_t *mem = conf_alloc(c, 64);

	conf_link(c, NULL, 64, &l);
	region = conf_reg(l.b, mem, 64, CONF_ALL);
	assert_ok(fi_recv(l.b->ep, mem, 64, region->desc, FI_ADDR_UNSPEC, mem));
	conf_close_region(region);
	assert_ok(send_by(SEND, &l, 64));
	conf_failed(l.b->rx, mem, FI_ENOMR, HMREG_LOCAL_REGION);
	if (c->profile->at_once)
		conf_failed(l.a->tx, &l, FI_EREMOTEIO, HMREG_PEER_REGION);
	else
		conf_done(l.a->tx, &l); /* it was sent, and more was not asked for */
	region = conf_reg(l.b, mem, 64, CONF_ALL);
	assert_ok(fi_recv(l.b->ep, mem, 64, region->desc, FI_ADDR_UNSPEC, mem));
	conf_close_region(region);
	assert_ok(send_flags(&l, FI_DELIVERY_COMPLETE, c));
	conf_failed(l.b->rx, mem, FI_ENOMR, HMREG_LOCAL_REGION);
	conf_failed(l.a->tx, c, FI_EREMOTEIO, HMREG_PEER_REGION);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(mem[i], 0);
	conf_works(&l);
}

/* ---- no room ---- */

#define ROOM 4

static void msg_full_receive_queue(struct conf *c)
{
	struct conf_link l;
	size_t posted = 0;

	conf_link(c, &(struct conf_opts){ .rx_size = ROOM }, 64, &l);
	while (posted < 64 && recv_by(RECV, &l, 64) == 0)
		posted++;
	assert_in_range(posted, ROOM, 63);
	assert_answer(recv_by(RECVV, &l, 64), -FI_EAGAIN);
	for (size_t i = 0; i < posted; i++) {
		assert_ok(send_by(SEND, &l, 8));
		check_received(&l, SEND, 8);
	}
	assert_ok(recv_by(RECV, &l, 64));
	assert_ok(fi_cancel(&l.b->ep->fid, l.dst));
	conf_failed(l.b->rx, l.dst, FI_ECANCELED, HMREG_CANCELED);
}

/*
 * The target has no room for completions: the sender is told or its messages wait, and none is lost or
 * doubled.
 */
static void msg_full_target_queue(struct conf *c)
{
	struct fi_cq_data_entry entry;
	struct conf_link l;
	size_t sent = 0, got = 0;

	conf_link(c, &(struct conf_opts){ .rx_cq_size = ROOM }, 64, &l);
	for (size_t i = 0; i < 32; i++)
		assert_ok(fi_recv(l.b->ep, l.dst + i, 1, l.remote->desc, FI_ADDR_UNSPEC, NULL));
	while (sent < 32 && fi_inject(l.a->ep, l.src + sent, 1, l.to) == 0)
		sent++;
	if (c->profile->at_once) {
		assert_in_range(sent, ROOM, 31);
		assert_answer(send_by(SEND, &l, 1), -FI_EAGAIN);
		assert_answer(fi_cancel(&l.b->ep->fid, NULL), -FI_EAGAIN);
	}
	while (got < 32) {
		conf_done_as(l.b->rx, NULL, &entry);
		assert_int_equal(l.dst[got], l.src[got]);
		got++;
		if (sent < 32 && fi_inject(l.a->ep, l.src + sent, 1, l.to) == 0)
			sent++;
	}
	assert_memory_equal(l.dst, l.src, 32);
	conf_quiet(l.b->rx);
	conf_quiet(l.a->tx);
}

/* A waiting message is not taken either while its completion would have no room. */
static void msg_full_queue_with_waiting_messages(struct conf *c)
{
	struct conf_link l;
	size_t got = 0;

	conf_link(c, &(struct conf_opts){ .rx_cq_size = ROOM }, 64, &l);
	for (size_t i = 0; i < 16; i++)
		assert_ok(fi_inject(l.a->ep, l.src + i, 1, l.to));
	for (size_t posted = 0; posted < 16;) {
		ssize_t ret = fi_recv(l.b->ep, l.dst + posted, 1, l.remote->desc, FI_ADDR_UNSPEC,
				      l.dst + posted);

		if (ret == 0) {
			posted++;
			continue;
		}
		assert_int_equal(ret, -FI_EAGAIN);
		assert_true(posted - got >= ROOM);
		conf_done(l.b->rx, l.dst + got);
		got++;
	}
	for (; got < 16; got++)
		conf_done(l.b->rx, l.dst + got);
	assert_memory_equal(l.dst, l.src, 16);
}

static void msg_full_sender_queue(struct conf *c)
{
	struct conf_link l;
	size_t sent = 0;

	conf_link(c, &(struct conf_opts){ .tx_cq_size = ROOM }, 64, &l);
	/* deliveries that are owed hold their room */
	while (sent < 64 && send_flags(&l, FI_DELIVERY_COMPLETE, c) == 0)
		sent++;
	assert_in_range(sent, ROOM, 63);
	for (int how = 0; how < SENDS; how++)
		assert_answer(send_by((enum send)how, &l, 8), -FI_EAGAIN);
	for (size_t i = 0; i < sent; i++) {
		assert_ok(recv_by(RECV, &l, 64));
		conf_done(l.b->rx, l.dst);
	}
	for (size_t i = 0; i < sent; i++)
		conf_done(l.a->tx, c);
	assert_ok(recv_by(RECV, &l, 64));
	conf_quiet(l.b->rx); /* nothing came of the refused ones */
	conf_works(&l);
}

#define UNEXPECTED "65536" /* bytes, as told to the NICs in main() */

/* Where senders are not refused, they wait: far more than there is room for gets there in the end. */
static void much_arrives(struct conf *c)
{
	size_t sent = 0, got = 0, many = 1000;
	struct fi_cq_data_entry entry;
	struct conf_link l;

	conf_link(c, &(struct conf_opts){ .tx_cq_size = 2000 }, 4096, &l);
	while (got < many) {
		uint32_t number = (uint32_t)sent;

		if (sent < many && fi_inject(l.a->ep, &number, sizeof(number), l.to) == 0) {
			sent++;
			if (sent < many && sent - got < 600)
				continue;
		}
		assert_ok(recv_by(RECV, &l, 4096));
		conf_done_as(l.b->rx, l.dst, &entry);
		memcpy(&number, l.dst, sizeof(number));
		assert_int_equal(entry.len, sizeof(number));
		assert_int_equal(number, got);
		got++;
	}
	conf_quiet(l.a->tx);
	conf_works(&l);
}

static void msg_too_much_unexpected(struct conf *c)
{
	struct conf_link l;
	size_t sent = 0;

	if (!c->profile->at_once) {
		much_arrives(c);
		return;
	}
	conf_link(c, NULL, 4096, &l);
	while (sent < 100 && send_by(SEND, &l, 4096) == 0) {
		conf_done(l.a->tx, &l);
		sent++;
	}
	assert_in_range(sent, 1, 99);
	assert_answer(send_by(SEND, &l, 4096), -FI_EAGAIN);
	conf_quiet(l.a->tx);
	for (size_t i = 0; i < sent; i++) {
		assert_ok(recv_by(RECV, &l, 4096));
		conf_done(l.b->rx, l.dst);
		assert_memory_equal(l.dst, l.src, 4096);
	}
	assert_ok(send_by(SEND, &l, 4096));
	conf_done(l.a->tx, &l);
}

/* ---- selective completion ---- */

static void msg_selective_completion(struct conf *c)
{
	struct conf_link l;

	conf_link(c, &(struct conf_opts){ .bind_flags = FI_SELECTIVE_COMPLETION }, 64, &l);
	assert_ok(recv_by(RECV, &l, 64));
	assert_ok(send_by(SEND, &l, 16));
	conf_arrives(l.dst, l.src, 16);
	conf_quiet(l.a->tx);
	conf_quiet(l.b->rx);
	assert_ok(recv_by(RECVMSG, &l, 64));
	assert_ok(send_by(SENDMSG, &l, 32));
	conf_done(l.a->tx, &l);
	conf_done(l.b->rx, l.dst);
	/* failures are told anyway */
	assert_ok(recv_by(RECV, &l, 8));
	assert_ok(send_by(SEND, &l, 16));
	conf_quiet(l.a->tx);
	conf_failed(l.b->rx, l.dst, FI_ETRUNC, HMREG_TRUNCATED);
}

static const struct conf_case cases[] = {
	CONF(msg_every_call),
	CONF(msg_order),
	CONF(msg_truncation),
	CONF(msg_cancel),
	CONF(msg_delivery_complete),
	CONF(msg_undelivered),
	CONF(msg_sender_closes),
	CONF(msg_close_with_queued_work),
	CONF(msg_closed_receive_buffer),
	CONF(msg_full_receive_queue),
	CONF(msg_full_target_queue),
	CONF(msg_full_queue_with_waiting_messages),
	CONF(msg_full_sender_queue),
	CONF(msg_too_much_unexpected),
	CONF(msg_selective_completion),
};

int main(int argc, char **argv)
{
	setenv("HMREG_SW_MAX_UNEXPECTED", UNEXPECTED, 1);
	setenv("HMREG_VERBS_MAX_UNEXPECTED", UNEXPECTED, 1);
	return conf_main(argc, argv, cases, count_of(cases));
}
