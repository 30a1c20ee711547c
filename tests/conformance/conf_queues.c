/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors, completion queues, counters and event queues: what they hold, and waiting. */
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "tests/conformance/harness.h"

/* ---- address vectors ---- */

static void av_insert_lookup_remove(struct conf *c)
{
	static const enum fi_av_type types[] = { FI_AV_TABLE, FI_AV_MAP };

	for (size_t i = 0; i < count_of(types); i++) {
		struct conf_end *a = conf_open(c, &(struct conf_opts){ .av_type = types[i] }), *b,
				*d;
		uint8_t names[2][128], looked_up[128];
		size_t len[2] = { sizeof(names[0]), sizeof(names[0]) }, n;
		fi_addr_t addr[4];

		b = conf_open(c, NULL);
		d = conf_open(c, NULL);
		assert_ok(fi_getname(&b->ep->fid, names[0], &len[0]));
		assert_ok(fi_getname(&d->ep->fid, names[1], &len[1]));
		memcpy(names[0] + len[0], names[1], len[1]); /* an array of two */
		assert_answer(fi_av_insert(a->av, names[0], 2, addr, 0, NULL), 2);
		assert_true(addr[0] != addr[1]);
		if (types[i] == FI_AV_TABLE)
			assert_true(addr[0] == 0 && addr[1] == 1);
		for (size_t k = 0; k < 2; k++) {
			n = sizeof(looked_up);
			assert_ok(fi_av_lookup(a->av, addr[k], looked_up, &n));
			assert_int_equal(n, len[k]);
			assert_memory_equal(looked_up, names[0] + k * len[0], n);
		}
		assert_ok(fi_inject(a->ep, "x", 1, addr[0]));
		assert_ok(fi_av_remove(a->av, &addr[0], 1, 0));
		assert_refused(fi_inject(a->ep, "x", 1, addr[0]), -FI_EINVAL);
		assert_refused(fi_av_lookup(a->av, addr[0], looked_up, &n), -FI_EINVAL);
		assert_refused(fi_av_remove(a->av, &addr[0], 1, 0), -FI_EINVAL);
		assert_ok(fi_inject(a->ep, "x", 1, addr[1]));
		/* all or nothing */
		addr[2] = addr[0];
		addr[3] = addr[1];
		assert_refused(fi_av_remove(a->av, &addr[1], 3, 0), -FI_EINVAL);
		assert_ok(fi_inject(a->ep, "x", 1, addr[1]));
		assert_answer(fi_av_insert(a->av, names[0], 1, addr, 0, NULL), 1);
		assert_ok(fi_inject(a->ep, "x", 1, addr[0]));
		assert_ok(fi_av_remove(a->av, addr, 2, 0));
		conf_drop_end(d);
		conf_drop_end(b);
		conf_drop_end(a);
	}
}

static void av_refusals(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	uint8_t name[128], zero[128] = { 0 };
	size_t len = sizeof(name);
	fi_addr_t addr = 5, addrs[2];
	int codes[2];

	assert_ok(fi_getname(&end->ep->fid, name, &len));
	assert_refused(fi_av_insert(end->av, NULL, 1, &addr, 0, NULL), -FI_EINVAL);
	assert_refused(fi_av_insert(end->av, name, 1, &addr, FI_SEND, NULL), -FI_EBADFLAGS);
	assert_refused(fi_av_insert(end->av, name, 1, &addr, FI_AV_USER_ID, NULL), -FI_ENOSYS);
	assert_refused(fi_av_insert(end->av, name, 1, &addr, FI_SYNC_ERR, NULL), -FI_EINVAL);
	assert_int_equal(addr, 5);
	assert_ok(fi_av_insert(end->av, name, 0, NULL, 0, NULL));
	/* a table's addresses count up, so nobody need be told */
	assert_answer(fi_av_insert(end->av, name, 1, NULL, 0, NULL), 1);
	assert_ok(fi_inject(end->ep, "x", 1, 0));
	/* one of two is no address */
	memcpy(zero + len, name, len);
	assert_refused(fi_av_insert(end->av, zero, 2, addrs, FI_SYNC_ERR, codes), 1);
	assert_true(addrs[0] == FI_ADDR_NOTAVAIL && codes[0] == FI_EINVAL);
	assert_true(addrs[1] == 1 && codes[1] == 0);
	assert_refused(fi_av_remove(end->av, NULL, 1, 0), -FI_EINVAL);
	assert_refused(fi_av_remove(end->av, addrs, 1, 1), -FI_EBADFLAGS);
	assert_refused(fi_av_lookup(end->av, 0, NULL, &len), -FI_EINVAL);
	assert_refused(fi_av_lookup(end->av, 0, name, NULL), -FI_EINVAL);
}

static void av_text(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	uint8_t name[128];
	char text[128], again[128];
	size_t len = sizeof(name), room = sizeof(text);
	const char *port;
	char host[128];
	fi_addr_t addr;

	assert_ok(fi_getname(&end->ep->fid, name, &len));
	assert_ptr_equal(fi_av_straddr(end->av, name, text, &room), text);
	assert_int_equal(room, strlen(text) + 1);
	/* what is printed can be read back */
	assert_answer(fi_av_insertsvc(end->av, text, NULL, &addr, 0, NULL), 1);
	len = sizeof(name);
	assert_ok(fi_av_lookup(end->av, addr, name, &len));
	room = sizeof(again);
	fi_av_straddr(end->av, name, again, &room);
	assert_string_equal(again, text);
	assert_ok(fi_inject(end->ep, "x", 1, addr));
	/* by host and service */
	port = strrchr(text, ':');
	assert_non_null(port);
	assert_non_null(strstr(text, "://"));
	snprintf(host, sizeof(host), "%.*s", (int)(port - strstr(text, "://") - 3),
		 strstr(text, "://") + 3);
	assert_answer(fi_av_insertsvc(end->av, host, port + 1, &addr, 0, NULL), 1);
	assert_ok(fi_inject(end->ep, "x", 1, addr));
	assert_answer(fi_av_insertsym(end->av, host, 1, port + 1, 1, &addr, 0, NULL), 1);
	assert_ok(fi_inject(end->ep, "x", 1, addr));
	assert_refused(fi_av_insertsvc(end->av, host, "no port", &addr, 0, NULL), -FI_EINVAL);
	assert_refused(fi_av_insertsvc(end->av, NULL, "1", &addr, 0, NULL), -FI_EINVAL);
	assert_refused(fi_av_insertsvc(end->av, host, NULL, &addr, 0, NULL), -FI_EINVAL);
	assert_refused(fi_av_insertsym(end->av, host, 1, "65535", 2, &addr, 0, NULL), -FI_EINVAL);
	room = sizeof(text);
	conf_log_mark(__FILE__, __LINE__);
	assert_null(fi_av_straddr(end->av, NULL, text, &room));
	assert_null(fi_av_straddr(end->av, name, text, NULL));
	conf_log_expect(2, NULL, "fi_av_straddr", __FILE__, __LINE__);
}

static void av_insertion_events(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_EVENT };
	struct fi_eq_err_entry error = { 0 };
	struct fi_eq_entry entry;
	uint8_t name[256] = { 0 };
	size_t len = sizeof(name);
	fi_addr_t addr[2];
	uint32_t event;
	struct fid_av *av;
	struct fid_eq *eq;

	assert_ok(fi_getname(&end->ep->fid, name, &len));
	memset(name + len, 0, len);
	assert_ok(fi_av_open(end->domain, &attr, &av, NULL));
	assert_ok(fi_eq_open(end->fabric, &(struct fi_eq_attr){ 0 }, &eq, NULL));
	assert_refused(fi_av_insert(av, name, 1, addr, 0, c), -FI_ENOEQ);
	assert_refused(fi_av_bind(end->av, &eq->fid, 0), -FI_EINVAL);
	assert_refused(fi_av_bind(av, &eq->fid, 1), -FI_EBADFLAGS);
	assert_refused(fi_av_bind(av, &end->tx->fid, 0), -FI_EINVAL);
	assert_ok(fi_av_bind(av, &eq->fid, 0));
	assert_refused(fi_av_bind(av, &eq->fid, 0), -FI_EINVAL);
	assert_ok(fi_av_insert(av, name, 1, addr, 0, c));
	assert_answer(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	assert_int_equal(event, FI_AV_COMPLETE);
	assert_ptr_equal(entry.fid, &av->fid);
	assert_ptr_equal(entry.context, c);
	assert_int_equal(entry.data, 1);
	/* an error for the second, and the end of the insertion behind it */
	assert_refused(fi_av_insert(av, name, 2, addr, 0, c), 0);
	assert_answer(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
	assert_answer(fi_eq_readerr(eq, &error, 0), sizeof(error));
	assert_int_equal(error.err, FI_EINVAL);
	assert_int_equal(error.data, 1);
	assert_ptr_equal(error.context, c);
	assert_answer(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	assert_int_equal(entry.data, 1);
	assert_answer(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
	assert_refused(fi_close(&eq->fid), -FI_EBUSY);
	assert_ok(fi_close(&av->fid));
	assert_ok(fi_close(&eq->fid));
}

/* ---- completion queues ---- */

static void cq_formats(struct conf *c)
{
	static const struct {
		enum fi_cq_format format;
		size_t size;
	} formats[] = {
		{ FI_CQ_FORMAT_UNSPEC, sizeof(struct fi_cq_entry) },
		{ FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry) },
		{ FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry) },
		{ FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry) },
		{ FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry) },
	};

	for (size_t i = 0; i < count_of(formats); i++) {
		struct conf_end *end = conf_open(c, &(struct conf_opts){ .disabled = true });
		struct fi_cq_attr attr = { .format = formats[i].format };
		struct fi_cq_tagged_entry entry[4];
		uint8_t *got = (uint8_t *)entry;
		struct fid_cq *cq;
		fi_addr_t to;

		/* the queue in question in place of the usual one */
		assert_ok(fi_close(&end->ep->fid));
		assert_ok(fi_cq_open(end->domain, &attr, &cq, NULL));
		assert_ok(fi_endpoint(end->domain, end->info, &end->ep, NULL));
		assert_ok(fi_ep_bind(end->ep, &end->av->fid, 0));
		assert_ok(fi_ep_bind(end->ep, &cq->fid, FI_TRANSMIT | FI_RECV));
		assert_ok(fi_enable(end->ep));
		to = conf_addr(end, end);
		for (size_t k = 0; k < 3; k++) {
			assert_ok(fi_recv(end->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, got + k));
			assert_ok(fi_injectdata(end->ep, NULL, 0, 70 + k, to));
		}
		memset(entry, 0xee, sizeof(entry));
		conf_reads(cq, entry, 2, formats[i].size);
		for (size_t k = 0; k < 2; k++) {
			struct fi_cq_tagged_entry one;

			memset(&one, 0xee, sizeof(one));
			memcpy(&one, got + k * formats[i].size, formats[i].size);
			assert_ptr_equal(one.op_context, got + k);
			if (formats[i].size >= sizeof(struct fi_cq_msg_entry))
				assert_true(one.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA) &&
					    one.len == 0);
			if (formats[i].size >= sizeof(struct fi_cq_data_entry))
				assert_int_equal(one.data, 70 + k);
			if (formats[i].size == sizeof(one))
				assert_int_equal(one.tag, 0);
		}
		for (size_t k = 2 * formats[i].size; k < sizeof(entry); k++)
			assert_int_equal(got[k], 0xee);
		conf_await(cq);
		assert_answer(fi_cq_read(cq, entry, 2), 1);
		assert_answer(fi_cq_read(cq, entry, 2), -FI_EAGAIN);
		assert_refused(fi_cq_read(cq, NULL, 2), -FI_EINVAL);
		conf_close_ep(end);
		assert_ok(fi_close(&cq->fid));
		conf_drop_end(end);
	}
}

static long ms_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

/* Something that happens a moment later, in another thread. */
struct later {
	struct conf_end *end;
	fi_addr_t to;
	bool signal;
};

static void *do_later(void *arg)
{
	struct later *l = arg;

	usleep(20000);
	if (l->signal)
		fi_cq_signal(l->end->rx);
	else
		fi_inject(l->end->ep, "x", 1, l->to);
	return NULL;
}

static void cq_waiting(struct conf *c)
{
	static const enum fi_wait_obj objs[] = { FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD };
	struct fi_cq_data_entry entry;
	struct timespec start;

	for (size_t i = 0; i < count_of(objs); i++) {
		struct conf_end *end = conf_open(c, &(struct conf_opts){ .wait_obj = objs[i] });
		struct later later = { end, conf_addr(end, end), false };
		enum fi_wait_obj obj = FI_WAIT_NONE;
		pthread_t thread;

		assert_ok(fi_control(&end->rx->fid, FI_GETWAITOBJ, &obj));
		assert_int_equal(obj, objs[i]);
		clock_gettime(CLOCK_MONOTONIC, &start);
		assert_answer(fi_cq_sread(end->rx, &entry, 1, NULL, 30), -FI_EAGAIN);
		assert_in_range(ms_since(&start), 29, 5000);
		assert_answer(fi_cq_sread(end->rx, &entry, 1, NULL, 0), -FI_EAGAIN);
		assert_ok(fi_recv(end->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, c));
		assert_int_equal(pthread_create(&thread, NULL, do_later, &later), 0);
		/* one byte more than there is room for: an error ends the wait, too */
		assert_answer(fi_cq_sread(end->rx, &entry, 1, NULL, 10000), -FI_EAVAIL);
		pthread_join(thread, NULL);
		conf_failed(end->rx, c, FI_ETRUNC, HMREG_TRUNCATED);
		later.signal = true;
		assert_int_equal(pthread_create(&thread, NULL, do_later, &later), 0);
		clock_gettime(CLOCK_MONOTONIC, &start);
		assert_answer(fi_cq_sread(end->rx, &entry, 1, NULL, 10000), -FI_EAGAIN);
		assert_in_range(ms_since(&start), 0, 9000);
		pthread_join(thread, NULL);
		conf_drop_end(end);
	}
	struct conf_end *none = conf_open(c, NULL);

	assert_refused(fi_cq_sread(none->rx, &entry, 1, NULL, 0), -FI_ENOSYS);
	assert_refused(fi_cq_signal(none->rx), -FI_ENOSYS);
}

static void cq_fd(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .wait_obj = FI_WAIT_FD });
	struct conf_end *none = conf_open(c, NULL);
	fi_addr_t to = conf_addr(end, end);
	struct fid *fids[] = { &end->rx->fid, &end->tx->fid }, *bad[] = { &end->rx->fid, NULL };
	struct pollfd fd = { .events = POLLIN };
	struct fi_cq_data_entry entry;

	assert_ok(fi_control(&end->rx->fid, FI_GETWAIT, &fd.fd));
	for (int i = 0; i < 5; i++) {
		assert_ok(fi_trywait(end->fabric, fids, 2));
		assert_int_equal(poll(&fd, 1, 0), 0);
		assert_ok(fi_recv(end->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, c));
		assert_ok(fi_inject(end->ep, NULL, 0, to));
		assert_int_equal(poll(&fd, 1, 5000), 1);
		assert_answer(fi_trywait(end->fabric, fids, 2), -FI_EAGAIN);
		assert_answer(fi_cq_read(end->rx, &entry, 1), 1);
	}
	assert_ok(fi_trywait(end->fabric, fids, 0));
	assert_refused(fi_trywait(end->fabric, NULL, 1), -FI_EINVAL);
	assert_refused(fi_trywait(end->fabric, fids, -1), -FI_EINVAL);
	assert_refused(fi_trywait(end->fabric, bad, 2), -FI_EINVAL);
	bad[1] = &end->av->fid;
	assert_refused(fi_trywait(end->fabric, bad, 2), -FI_EINVAL);
	bad[1] = &none->rx->fid;
	assert_refused(fi_trywait(end->fabric, bad, 2), -FI_EINVAL);
	assert_refused(fi_control(&none->rx->fid, FI_GETWAIT, &fd.fd), -FI_ENODATA);
	assert_refused(fi_control(&end->rx->fid, FI_GETWAIT, NULL), -FI_EINVAL);
}

/* ---- counters ---- */

static struct fid_cntr *open_cntr(struct conf_end *end, enum fi_cntr_events events,
				  enum fi_wait_obj obj)
{
	struct fi_cntr_attr attr = { .events = events, .wait_obj = obj };
	struct fid_cntr *cntr;

	assert_ok(fi_cntr_open(end->domain, &attr, &cntr, NULL));
	return cntr;
}

static void cntr_values(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	struct fid_cntr *cntr = open_cntr(end, FI_CNTR_EVENTS_COMP, FI_WAIT_UNSPEC);
	struct fid_cntr *none = open_cntr(end, FI_CNTR_EVENTS_COMP, FI_WAIT_NONE);
	struct timespec start;

	assert_true(fi_cntr_read(cntr) == 0 && fi_cntr_readerr(cntr) == 0);
	assert_ok(fi_cntr_add(cntr, 5));
	assert_ok(fi_cntr_add(cntr, UINT64_MAX));
	assert_int_equal(fi_cntr_read(cntr), 4);
	assert_ok(fi_cntr_set(cntr, 100));
	assert_int_equal(fi_cntr_read(cntr), 100);
	assert_ok(fi_cntr_wait(cntr, 100, 0));
	assert_ok(fi_cntr_wait(cntr, 0, -1));
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_answer(fi_cntr_wait(cntr, 101, 20), -FI_ETIMEDOUT);
	assert_in_range(ms_since(&start), 19, 5000);
	assert_ok(fi_cntr_adderr(cntr, 2));
	assert_answer(fi_cntr_wait(cntr, 101, 1000), -FI_EAVAIL);
	assert_int_equal(fi_cntr_readerr(cntr), 2);
	assert_answer(fi_cntr_wait(cntr, 101, 0), -FI_ETIMEDOUT);
	assert_ok(fi_cntr_seterr(cntr, 9));
	assert_int_equal(fi_cntr_readerr(cntr), 9);
	assert_int_equal(fi_cntr_read(cntr), 100);
	assert_refused(fi_cntr_wait(none, 1, 0), -FI_ENOSYS);
	assert_ok(fi_close(&cntr->fid));
	assert_ok(fi_close(&none->fid));
}

/* Counters of an endpoint: initiated, received, and what peers do; errors apart. */
static void cntr_of_endpoints(struct conf *c)
{
	static const uint64_t kinds[] = { FI_SEND,  FI_RECV,	    FI_READ,
					  FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };
	struct conf_opts opts = { .caps = CONF_CAPS, .disabled = true };
	struct fid_cntr *cntr[6];
	struct conf_link l = { .len = 64 };
	size_t counters = 4; /* and those of what peers do, where they can be had */

	if (conf_offers(c, CONF_CAPS | FI_RMA_EVENT)) {
		opts.caps |= FI_RMA_EVENT;
		counters = 6;
	}
	conf_pair(c, &opts, &l.a, &l.b);
	for (size_t i = 0; i < counters; i++) {
		/* the initiator's count operations, the target's count bytes */
		bool there = kinds[i] & (FI_RECV | CONF_REMOTE);
		struct conf_end *end = there ? l.b : l.a;

		cntr[i] = open_cntr(end, there ? FI_CNTR_EVENTS_BYTES : FI_CNTR_EVENTS_COMP,
				    FI_WAIT_UNSPEC);
		assert_ok(fi_ep_bind(end->ep, &cntr[i]->fid, kinds[i]));
	}
	assert_ok(fi_enable(l.a->ep));
	assert_ok(fi_enable(l.b->ep));
	l.to = conf_addr(l.a, l.b);
	l.src = conf_alloc(c, 64);
	l.dst = conf_alloc(c, 64);
	l.local = conf_reg(l.a, l.src, 64, CONF_ALL);
	l.remote = conf_reg(l.b, l.dst, 64, CONF_ALL);
	l.key = conf_key(l.a, l.remote);
	conf_works(&l);
	assert_ok(fi_inject_write(l.a->ep, l.src, 8, l.to, l.remote->addr, l.key));
	assert_ok(fi_recv(l.b->ep, l.dst, 64, l.remote->desc, FI_ADDR_UNSPEC, c));
	assert_ok(fi_inject(l.a->ep, l.src, 48, l.to));
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr + 60, l.key, c));
	conf_failed(l.a->tx, c, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	conf_done(l.b->rx, c);
	static const uint64_t want[] = { 1, 48, 1, 2, 64, 72 };

	for (size_t i = 0; i < counters; i++) {
		assert_ok(fi_cntr_wait(cntr[i], want[i], 5000));
		assert_int_equal(fi_cntr_read(cntr[i]), want[i]);
		assert_int_equal(fi_cntr_readerr(cntr[i]), kinds[i] == FI_WRITE);
		assert_refused(fi_close(&cntr[i]->fid), -FI_EBUSY);
	}
	conf_drop_region(l.remote);
	conf_drop_region(l.local);
	conf_close_ep(l.a);
	conf_close_ep(l.b);
	for (size_t i = 0; i < counters; i++)
		assert_ok(fi_close(&cntr[i]->fid));
}

/* ---- event queues ---- */

static void eq_read_write(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fi_eq_attr attr = { .flags = FI_WRITE, .wait_obj = FI_WAIT_FD };
	struct fi_eq_entry entry = { .context = c, .data = 8 }, got;
	struct fid_eq *eq, *plain;
	struct pollfd fd = { .events = POLLIN };
	uint32_t event;

	assert_ok(fi_eq_open(end->fabric, &attr, &eq, NULL));
	assert_ok(fi_eq_open(end->fabric, &(struct fi_eq_attr){ 0 }, &plain, NULL));
	assert_answer(fi_eq_read(eq, &event, &got, sizeof(got), 0), -FI_EAGAIN);
	assert_answer(fi_eq_sread(eq, &event, &got, sizeof(got), 10, 0), -FI_EAGAIN);
	assert_ok(fi_control(&eq->fid, FI_GETWAIT, &fd.fd));
	assert_ok(fi_trywait(end->fabric, (struct fid *[]){ &eq->fid }, 1));
	assert_int_equal(poll(&fd, 1, 0), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_answer(fi_eq_write(eq, 100 + i, &entry, sizeof(entry), 0), sizeof(entry));
	assert_int_equal(poll(&fd, 1, 1000), 1);
	assert_answer(fi_trywait(end->fabric, (struct fid *[]){ &eq->fid }, 1), -FI_EAGAIN);
	assert_answer(fi_eq_read(eq, &event, &got, sizeof(got), FI_PEEK), sizeof(got));
	for (uint32_t i = 0; i < 3; i++) {
		memset(&got, 0, sizeof(got));
		assert_refused(fi_eq_read(eq, &event, &got, sizeof(got) - 1, 0), -FI_ETOOSMALL);
		assert_answer(fi_eq_sread(eq, &event, &got, sizeof(got), 1000, 0), sizeof(got));
		assert_int_equal(event, 100 + i);
		assert_ptr_equal(got.context, c);
		assert_int_equal(got.data, 8);
	}
	assert_refused(fi_eq_write(plain, 1, &entry, sizeof(entry), 0), -FI_EINVAL);
	assert_refused(fi_eq_write(eq, 1, NULL, 8, 0), -FI_EINVAL);
	assert_refused(fi_eq_write(eq, 1, &entry, 0, 0), -FI_EINVAL);
	assert_refused(fi_eq_write(eq, 1, &entry, 1 << 20, 0), -FI_EINVAL);
	assert_refused(fi_eq_write(eq, 1, &entry, 8, 1), -FI_EBADFLAGS);
	assert_refused(fi_eq_read(eq, NULL, &got, sizeof(got), 0), -FI_EINVAL);
	assert_refused(fi_eq_read(eq, &event, NULL, sizeof(got), 0), -FI_EINVAL);
	assert_refused(fi_eq_read(eq, &event, &got, sizeof(got), FI_SEND), -FI_EBADFLAGS);
	assert_refused(fi_eq_sread(plain, &event, &got, sizeof(got), 0, 0), -FI_ENOSYS);
	assert_refused(fi_eq_readerr(eq, NULL, 0), -FI_EINVAL);
	assert_refused(fi_eq_readerr(eq, &(struct fi_eq_err_entry){ 0 }, 1), -FI_EBADFLAGS);
	/* what nobody reads is dropped with the queue */
	assert_answer(fi_eq_write(eq, 1, &entry, sizeof(entry), 0), sizeof(entry));
	assert_ok(fi_close(&eq->fid));
	assert_ok(fi_close(&plain->fid));
}

static const struct conf_case cases[] = {
	CONF(av_insert_lookup_remove),
	CONF(av_refusals),
	CONF(av_text),
	CONF(av_insertion_events),
	CONF(cq_formats),
	CONF(cq_waiting),
	CONF(cq_fd),
	CONF(cntr_values),
	CONF(cntr_of_endpoints),
	CONF(eq_read_write),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
