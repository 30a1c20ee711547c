/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that come, go, come back, talk at once, ask for what they may not, or are many.  The last cases
 * need an RDMA device; some of them one that can be made to fail, which the emulated one can.
 */
#include <pthread.h>

#include <rdma/rdma_cma.h>

#include "tests/conformance/peers.h"

#define OPS 20

/* ---- one bad request ---- */

/* The refused one fails alone: what was before it and behind it under way is done. */
static void peers_bad_key_among_good(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_link l;

	conf_link(c, NULL, (size_t)OPS * 64, &l);
	conf_works(&l);
	for (size_t round = 0; round < 5; round++) {
		size_t bad = conf_below(c, OPS);

		memset(l.dst, 0, l.len);
		for (size_t i = 0; i < OPS; i++)
			assert_posted(fi_write(l.a->ep, l.src + i * 64, 64, l.local->desc, l.to,
					       l.remote->addr + i * 64,
					       i == bad ? l.key ^ 0xff00 : l.key, (void *)(i + 1)));
		assert_int_equal(drain(l.a->tx, OPS, &error), 1);
		assert_ptr_equal(error.op_context, (void *)(bad + 1));
		for (size_t i = 0; i < OPS; i++)
			if (i != bad)
				assert_memory_equal(l.dst + i * 64, l.src + i * 64, 64);
		for (size_t i = 0; i < 64; i++)
			assert_int_equal(l.dst[bad * 64 + i], 0);
	}
}

/* Messages among refused requests arrive once each, in order. */
static void peers_messages_among_bad(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_link l;
	size_t each = 10000;
	uint8_t *in = conf_alloc(c, OPS * each);
	struct conf_region *region;

	conf_link(c, NULL, (size_t)OPS * each, &l);
	region = conf_reg(l.b, in, OPS * each, CONF_ALL);
	for (size_t round = 0; round < 5; round++) {
		memset(in, 0, OPS * each);
		for (size_t i = 0; i < OPS; i++)
			assert_posted(fi_recv(l.b->ep, in + i * each, each, region->desc,
					      FI_ADDR_UNSPEC, in + i * each));
		for (size_t i = 0; i < OPS; i++) {
			assert_posted(
				fi_send(l.a->ep, l.src + i * each, each, l.local->desc, l.to, &l));
			if (i % 4 == round % 4)
				assert_posted(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to,
						       l.remote->addr, l.key ^ 0xff00, NULL));
		}
		assert_int_equal(drain(l.a->tx, OPS + OPS / 4, &error), OPS / 4);
		for (size_t i = 0; i < OPS; i++)
			conf_done(l.b->rx, in + i * each);
		assert_memory_equal(in, l.src, OPS * each);
		conf_quiet(l.b->rx);
	}
}

/* ---- coming and going ---- */

static void peers_come_back(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct sockaddr_storage name;
	size_t len = sizeof(name);
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	exchange(&l);
	assert_ok(fi_getname(&l.b->ep->fid, &name, &len));
	for (int round = 0; round < 3; round++) {
		conf_close_ep(l.b);
		assert_posted(fi_send(l.a->ep, l.src, 64, l.local->desc, l.to, NULL));
		assert_int_equal(drain(l.a->tx, 1, &error), 1);
		assert_posted(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr,
				       l.key, NULL));
		assert_int_equal(drain(l.a->tx, 1, &error), 1);
		assert_int_equal(error.prov_errno, HMREG_PEER_GONE);
		reopen(l.b, &name, len);
		memset(l.dst, 0, 64);
		exchange(&l);
	}
}

/* The sender closes and comes back: its later messages are not taken for repeated ones. */
static void peers_sender_comes_back(struct conf *c)
{
	struct sockaddr_storage name;
	size_t len = sizeof(name);
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	assert_ok(fi_getname(&l.a->ep->fid, &name, &len));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++)
			exchange(&l);
		conf_close_ep(l.a);
		reopen(l.a, &name, len);
	}
	exchange(&l);
}

static void peers_nobody_there(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	conf_close_ep(l.b);
	for (int i = 0; i < OPS; i++)
		assert_posted(fi_send(l.a->ep, l.src, 64, l.local->desc, l.to, NULL));
	assert_int_equal(drain(l.a->tx, OPS, &error), OPS);
	assert_int_equal(error.prov_errno, HMREG_PEER_GONE);
	assert_int_equal(error.err, FI_EHOSTUNREACH);
}

static void peers_close_while_connecting(struct conf *c)
{
	for (int round = 0; round < 10; round++) {
		struct conf_link l;

		conf_link(c, NULL, 64, &l);
		if (round % 2)
			conf_close_ep(l.b);
		for (int i = 0; i < 4; i++)
			assert_posted(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to,
					       l.remote->addr, l.key, NULL));
		assert_posted(fi_inject(l.a->ep, l.src, 64, l.to));
		conf_close_ep(l.a);
		conf_drop_region(l.remote);
		conf_drop_region(l.local);
		conf_drop_end(l.b);
		conf_drop_end(l.a);
	}
}

/* ---- both at once ---- */

struct talker {
	struct conf_link link;
	pthread_barrier_t *start;
};

static void *talk(void *arg)
{
	struct talker *t = arg;
	struct conf_link *l = &t->link;

	pthread_barrier_wait(t->start);
	for (int i = 0; i < 50; i++)
		while (fi_send(l->a->ep, l->src, l->len, l->local->desc, l->to, l) == -FI_EAGAIN)
			sched_yield();
	return NULL;
}

static void peers_open_simultaneously(struct conf *c)
{
	pthread_barrier_t start;
	struct talker one = { .start = &start }, other = { .start = &start };
	struct fi_cq_err_entry error;
	pthread_t thread[2];

	conf_link(c, NULL, 256, &one.link);
	other.link = one.link;
	other.link.a = one.link.b;
	other.link.b = one.link.a;
	other.link.to = conf_addr(one.link.b, one.link.a);
	other.link.src = one.link.dst;
	other.link.local = one.link.remote;
	memset(one.link.dst, 7, 256);
	pthread_barrier_init(&start, NULL, 2);
	pthread_create(&thread[0], NULL, talk, &one);
	pthread_create(&thread[1], NULL, talk, &other);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	pthread_barrier_destroy(&start);
	assert_int_equal(drain(one.link.a->tx, 50, &error), 0);
	assert_int_equal(drain(one.link.b->tx, 50, &error), 0);
	for (int i = 0; i < 50; i++) {
		uint8_t *in = conf_alloc(c, 256);
		struct conf_region *to_b = conf_reg(one.link.b, in, 256, CONF_ALL), *to_a;

		assert_posted(fi_recv(one.link.b->ep, in, 256, to_b->desc, FI_ADDR_UNSPEC, in));
		conf_done(one.link.b->rx, in);
		assert_memory_equal(in, one.link.src, 256);
		conf_drop_region(to_b);
		to_a = conf_reg(one.link.a, in, 256, CONF_ALL);
		assert_posted(fi_recv(one.link.a->ep, in, 256, to_a->desc, FI_ADDR_UNSPEC, in));
		conf_done(one.link.a->rx, in);
		assert_memory_equal(in, one.link.dst, 256);
		conf_drop_region(to_a);
	}
}

/* ---- order and room ---- */

static void peers_fence(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_link l;
	struct iovec iov;
	struct fi_rma_iov rma;
	struct fi_msg_rma msg;

	conf_link(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_FENCE }, 65536, &l);
	iov = (struct iovec){ l.src, 32768 };
	rma = (struct fi_rma_iov){ l.remote->addr, 32768, l.key };
	msg = (struct fi_msg_rma){ &iov, &l.local->desc, 1, l.to, &rma, 1, c, 0 };
	for (int round = 1; round < 50; round++) {
		memset(l.dst, round, 32768);
		memset(l.src, 100 + round, 32768);
		assert_posted(fi_read(l.a->ep, l.src + 32768, 32768, l.local->desc, l.to,
				      l.remote->addr, l.key, NULL));
		assert_posted(fi_writemsg(l.a->ep, &msg, FI_FENCE | FI_COMPLETION));
		assert_int_equal(drain(l.a->tx, 2, &error), 0);
		for (size_t i = 0; i < 32768; i += 4095) {
			assert_int_equal(l.src[32768 + i], round);
			assert_int_equal(l.dst[i], 100 + round);
		}
	}
}

/* As many as are taken complete, and after a refusal there is room again. */
static void peers_full_queue(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_link l;
	size_t accepted = 0;
	ssize_t ret = 0;

	conf_link(c, &(struct conf_opts){ .tx_cq_size = 100 }, 64, &l);
	while (ret == 0) {
		ret = fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr, l.key,
			       NULL);
		accepted += ret == 0;
		assert_in_range(accepted, 0, 100);
	}
	assert_int_equal(ret, -FI_EAGAIN);
	assert_int_equal(accepted, 100);
	assert_int_equal(drain(l.a->tx, accepted, &error), 0);
	conf_works(&l);
}

#define MANY 60

/* One endpoint with many others, in one domain: all of them get its message, it gets one of each. */
static void peers_many(struct conf *c)
{
	struct conf_end *hub = conf_open(c, NULL), *spoke;
	struct fid_ep *ep[MANY];
	struct fid_cq *cq[MANY];
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA };
	struct fi_cq_err_entry error;
	uint8_t *mem = conf_alloc(c, (MANY + 1) * 64);
	struct conf_region *region = conf_reg(hub, mem, (MANY + 1) * 64, CONF_ALL);
	fi_addr_t to_hub = conf_addr(hub, hub);

	mem[0] = 42;
	for (size_t i = 0; i < MANY; i++) {
		struct sockaddr_storage name;
		size_t len = sizeof(name);
		fi_addr_t to;

		assert_ok(fi_cq_open(hub->domain, &cq_attr, &cq[i], NULL));
		assert_ok(fi_endpoint(hub->domain, hub->info, &ep[i], NULL));
		assert_ok(fi_ep_bind(ep[i], &hub->av->fid, 0));
		assert_ok(fi_ep_bind(ep[i], &cq[i]->fid, FI_TRANSMIT | FI_RECV));
		assert_ok(fi_enable(ep[i]));
		assert_ok(fi_getname(&ep[i]->fid, &name, &len));
		assert_int_equal(fi_av_insert(hub->av, &name, 1, &to, 0, NULL), 1);
		assert_ok(
			fi_recv(ep[i], mem + (i + 1) * 64, 64, region->desc, FI_ADDR_UNSPEC, NULL));
		assert_posted(fi_send(hub->ep, mem, 64, region->desc, to, NULL));
		assert_posted(fi_send(ep[i], mem, 64, region->desc, to_hub, NULL));
	}
	assert_int_equal(drain(hub->tx, MANY, &error), 0);
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(drain(cq[i], 2, &error), 0);
		assert_int_equal(mem[(i + 1) * 64], 42);
		assert_posted(fi_recv(hub->ep, mem + 64, 64, region->desc, FI_ADDR_UNSPEC, NULL));
	}
	assert_int_equal(drain(hub->rx, MANY, &error), 0);
	for (size_t i = 0; i < MANY; i++) {
		assert_ok(fi_close(&ep[i]->fid));
		assert_ok(fi_close(&cq[i]->fid));
	}
	spoke = conf_open(c, &(struct conf_opts){ .same_domain = hub });
	assert_int_not_equal(port_of(spoke), 0);
}

/* ---- peers that do not behave ---- */

struct cm {
	struct rdma_event_channel *(*create_channel)(void);
	void (*destroy_channel)(struct rdma_event_channel *);
	int (*create_id)(struct rdma_event_channel *, struct rdma_cm_id **, void *,
			 enum rdma_port_space);
	int (*destroy_id)(struct rdma_cm_id *);
	int (*resolve_addr)(struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int);
	int (*resolve_route)(struct rdma_cm_id *, int);
	int (*connect)(struct rdma_cm_id *, struct rdma_conn_param *);
	int (*get_event)(struct rdma_event_channel *, struct rdma_cm_event **);
	int (*ack_event)(struct rdma_cm_event *);
};

static void *load_cm(struct cm *cm)
{
	void *library = dlopen("librdmacm.so.1", RTLD_NOW);

	assert_non_null(library);
	*(void **)&cm->create_channel = dlsym(library, "rdma_create_event_channel");
	*(void **)&cm->destroy_channel = dlsym(library, "rdma_destroy_event_channel");
	*(void **)&cm->create_id = dlsym(library, "rdma_create_id");
	*(void **)&cm->destroy_id = dlsym(library, "rdma_destroy_id");
	*(void **)&cm->resolve_addr = dlsym(library, "rdma_resolve_addr");
	*(void **)&cm->resolve_route = dlsym(library, "rdma_resolve_route");
	*(void **)&cm->connect = dlsym(library, "rdma_connect");
	*(void **)&cm->get_event = dlsym(library, "rdma_get_cm_event");
	*(void **)&cm->ack_event = dlsym(library, "rdma_ack_cm_event");
	return library;
}

static void await_event(const struct cm *cm, struct rdma_event_channel *channel,
			enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	assert_int_equal(cm->get_event(channel, &event), 0);
	assert_int_equal(event->event, type);
	assert_int_equal(cm->ack_event(event), 0);
}

/* Knock at the endpoint's port with this private data; it must be turned away. */
static void knock(const struct cm *cm, const struct conf_end *end, const void *data, size_t len)
{
	struct rdma_event_channel *channel = cm->create_channel();
	struct rdma_conn_param param = { .private_data = data,
					 .private_data_len = (uint8_t)len,
					 .qp_num = 4711 };
	struct sockaddr_storage name;
	size_t name_len = sizeof(name);
	struct rdma_cm_id *id;

	assert_non_null(channel);
	assert_int_equal(fi_getname(&end->ep->fid, &name, &name_len), 0);
	assert_int_equal(cm->create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(cm->resolve_addr(id, NULL, (struct sockaddr *)&name, 2000), 0);
	await_event(cm, channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(cm->resolve_route(id, 2000), 0);
	await_event(cm, channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(cm->connect(id, &param), 0);
	await_event(cm, channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(cm->destroy_id(id), 0);
	cm->destroy_channel(channel);
}

static void peers_garbage_on_the_port(struct conf *c)
{
	uint8_t garbage[56];
	unsigned lines;
	struct conf_link l;
	struct cm cm;
	void *library;

	if (!is_network(c))
		return;
	conf_link(c, NULL, 64, &l);
	exchange(&l);
	library = load_cm(&cm);
	conf_log_mark(__FILE__, __LINE__);
	for (int i = 0; i < 20; i++) {
		for (size_t k = 0; k < sizeof(garbage); k++)
			garbage[k] = (uint8_t)conf_random(c);
		if (i % 2) /* right at the beginning, and then not */
			memcpy(garbage, "hmrg\2\0\2\0", 8);
		knock(&cm, l.b, garbage, i % 5 ? sizeof(garbage) : conf_below(c, 40));
	}
	lines = log_lines();
	assert_in_range(lines, 1, 19); /* one a second */
	conf_log_expect(lines, "refused", "knocking", __FILE__, __LINE__);
	exchange(&l);
	conf_works(&l);
	dlclose(library);
}

/* The peer dies without a word: what is under way fails, and the address can be used again. */
static void peers_silent_death(struct conf *c)
{
	int (*kill_peer)(uint16_t port);
	struct fi_cq_err_entry error;
	struct conf_link l;

	*(void **)&kill_peer = emulator(c, "emu_verbs_kill_peer");
	if (!kill_peer)
		conf_skip(c, "only the emulated devices do this on demand");
	conf_link(c, NULL, 64, &l);
	for (int round = 0; round < 3; round++) {
		exchange(&l);
		assert_int_equal(kill_peer(port_of(l.b)), 1);
		for (int i = 0; i < 5; i++)
			assert_posted(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to,
					       l.remote->addr, l.key, NULL));
		assert_in_range(drain(l.a->tx, 5, &error), 1, 5);
		assert_int_equal(error.prov_errno, HMREG_PEER_LOST);
		assert_int_equal(error.err, FI_ECONNABORTED);
	}
	exchange(&l);
}

static void peers_silent_port(struct conf *c)
{
	void (*silence)(uint16_t port, int silent);
	struct fi_cq_err_entry error;
	struct conf_link l;

	*(void **)&silence = emulator(c, "emu_verbs_silence");
	if (!silence)
		conf_skip(c, "only the emulated devices do this on demand");
	conf_link(c, NULL, 64, &l);
	silence(port_of(l.b), 1);
	assert_posted(
		fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr, l.key, NULL));
	assert_int_equal(drain(l.a->tx, 1, &error), 1);
	assert_int_equal(error.prov_errno, HMREG_PEER_GONE);
	silence(port_of(l.b), 0);
	conf_works(&l);
}

/* The device is pulled out under traffic: everything ends, and can be closed. */
static void peers_device_gone(struct conf *c)
{
	bool both = !c->profile->peer;
	int (*remove_device)(const char *name);
	void (*reset)(void);
	struct fi_cq_err_entry error;
	struct conf_link l;

	*(void **)&remove_device = emulator(c, "emu_verbs_remove_device");
	*(void **)&reset = emulator(c, "emu_verbs_reset");
	if (!remove_device || !reset)
		conf_skip(c, "only the emulated devices do this on demand");
	conf_link(c, NULL, 64, &l);
	exchange(&l);
	assert_ok(fi_recv(l.b->ep, l.dst, 64, l.remote->desc, FI_ADDR_UNSPEC, NULL));
	conf_log_mark(__FILE__, __LINE__);
	assert_int_equal(remove_device(c->profile->name), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr,
					  l.key, NULL),
				 0);
	assert_int_equal(drain(l.a->tx, 5, &error), 5);
	assert_int_equal(error.prov_errno, HMREG_DEVICE_GONE);
	assert_int_equal(error.err, FI_ENODEV);
	if (both) {
		assert_int_equal(drain(l.b->rx, 1, &error), 1);
		assert_int_equal(error.prov_errno, HMREG_DEVICE_GONE);
	}
	for (time_t since = time(NULL); log_lines() < (both ? 2 : 1);) /* of each domain */
		assert_true(time(NULL) - since < CONF_TIMEOUT_S);
	conf_log_expect(both ? 2 : 1, "is gone", "removal", __FILE__, __LINE__);
	conf_drop_region(l.remote);
	conf_drop_region(l.local);
	conf_drop_end(l.b);
	conf_drop_end(l.a);
	reset();
}

static const struct conf_case cases[] = {
	CONF_WITHOUT(peers_bad_key_among_good, FI_MR_RAW),
	CONF_WITHOUT(peers_messages_among_bad, FI_MR_RAW),
	CONF_WITHOUT(peers_come_back, FI_MR_ENDPOINT),
	CONF_WITHOUT(peers_sender_comes_back, FI_MR_ENDPOINT),
	CONF_WITHOUT(peers_nobody_there, FI_MR_ENDPOINT),
	CONF_WITHOUT(peers_close_while_connecting, FI_MR_ENDPOINT),
	CONF(peers_open_simultaneously),
	CONF(peers_fence),
	CONF(peers_full_queue),
	CONF(peers_many),
	CONF(peers_garbage_on_the_port),
	CONF(peers_silent_death),
	CONF(peers_silent_port),
	CONF(peers_device_gone),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
