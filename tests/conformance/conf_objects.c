/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of objects: opening, binding, enabling, names, options, and closing in any order. */
#include <signal.h>
#include <sys/wait.h>

#include "tests/conformance/harness.h"

/* ---- everything at once, closed in every wrong order ---- */

/* All that can hold and be held: one object of each kind. */
struct all {
	struct conf_link l;
	struct fid_eq *eq;
	struct fid_cntr *cntr, *region_cntr;
	struct fid_av *av;
	uint64_t mapped;
	bool events; /* FI_RMA_EVENT: the counters count what peers do */
	int closed;
};

static struct fid_cntr *open_cntr(struct fid_domain *domain)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;

	assert_ok(fi_cntr_open(domain, &attr, &cntr, NULL));
	return cntr;
}

static void open_all(struct conf *c, struct all *all)
{
	struct conf_opts opts = { .caps = CONF_CAPS, .disabled = true };
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_FD };
	struct fi_av_attr av_attr = { .type = FI_AV_MAP, .flags = FI_EVENT };
	struct conf_link *l = &all->l;
	struct iovec iov;
	uint8_t raw[64];
	size_t size = sizeof(raw);
	uint64_t base;

	all->events = conf_offers(c, CONF_CAPS | FI_RMA_EVENT);
	if (all->events)
		opts.caps |= FI_RMA_EVENT;
	conf_pair(c, &opts, &l->a, &l->b);
	assert_ok(fi_eq_open(l->b->fabric, &eq_attr, &all->eq, NULL));
	assert_ok(fi_domain_bind(l->b->domain, &all->eq->fid, 0));
	assert_ok(fi_ep_bind(l->b->ep, &all->eq->fid, 0));
	assert_ok(fi_av_open(l->b->domain, &av_attr, &all->av, NULL));
	assert_ok(fi_av_bind(all->av, &all->eq->fid, 0));
	all->cntr = open_cntr(l->b->domain);
	all->region_cntr = open_cntr(l->b->domain);
	assert_ok(fi_ep_bind(l->b->ep, &all->cntr->fid,
			     all->events ? FI_REMOTE_WRITE | FI_SEND : FI_SEND));
	assert_ok(fi_enable(l->a->ep));
	assert_ok(fi_enable(l->b->ep));
	l->to = conf_addr(l->a, l->b);
	l->len = 64;
	l->src = conf_alloc(c, 64);
	l->dst = conf_alloc(c, 64);
	l->local = conf_reg(l->a, l->src, 64, CONF_ALL);
	iov = (struct iovec){ l->dst, 64 };
	l->remote = conf_regv(l->b, &iov, 1, CONF_ALL, 0, all->events ? all->region_cntr : NULL);
	l->key = conf_key(l->a, l->remote);
	assert_ok(fi_mr_raw_attr(l->local->mr, &base, raw, &size, 0));
	assert_ok(fi_mr_map_raw(l->b->domain, base, raw, size, &all->mapped, 0));
}

static void close_and_forget(struct fid **fid)
{
	assert_ok(fi_close(*fid));
	*fid = NULL;
}

static void objects_wrong_closing_order_is_busy(struct conf *c)
{
	struct all all = { .closed = 0 };
	struct conf_end *b;

	open_all(c, &all);
	b = all.l.b;
	struct fid *busy[] = {
		&b->fabric->fid, &all.eq->fid, &b->domain->fid, &b->av->fid,
		&b->tx->fid,	 &b->rx->fid,  &all.cntr->fid,	&all.region_cntr->fid
	};

	for (size_t i = 0; i < count_of(busy); i++) {
		if (busy[i] == &all.region_cntr->fid && !all.events)
			continue; /* bound to nothing */
		assert_refused_with(fi_close(busy[i]), -FI_EBUSY, "");
		conf_works(&all.l);
	}
	if (c->mode & FI_MR_ENDPOINT) {
		assert_refused(fi_close(&b->ep->fid), -FI_EBUSY);
		conf_works(&all.l);
	}
	assert_true(!all.events || fi_cntr_read(all.region_cntr) >= count_of(busy));
	assert_true(fi_cntr_read(all.cntr) == fi_cntr_read(all.region_cntr));
	/* now in the right order; what still holds something stays busy */
	conf_drop_region(all.l.remote);
	assert_ok(fi_close(&all.region_cntr->fid));
	assert_refused(fi_close(&all.cntr->fid), -FI_EBUSY);
	conf_close_ep(b);
	assert_ok(fi_close(&all.cntr->fid));
	assert_refused(fi_close(&all.eq->fid), -FI_EBUSY);
	assert_ok(fi_close(&all.av->fid));
	assert_refused(fi_close(&all.eq->fid), -FI_EBUSY);
	assert_refused(fi_close(&b->domain->fid), -FI_EBUSY);
	close_and_forget((struct fid **)&b->tx);
	close_and_forget((struct fid **)&b->rx);
	close_and_forget((struct fid **)&b->av);
	assert_refused_with(fi_close(&b->domain->fid), -FI_EBUSY, "1 mapped key");
	assert_ok(fi_mr_unmap_key(b->domain, all.mapped));
	assert_refused(fi_close(&b->fabric->fid), -FI_EBUSY);
	close_and_forget((struct fid **)&b->domain);
	assert_refused(fi_close(&b->fabric->fid), -FI_EBUSY);
	assert_ok(fi_close(&all.eq->fid));
}

static void objects_open_and_close_many_times(struct conf *c)
{
	struct conf_link l;

	for (int i = 0; i < 50; i++) {
		conf_link(c, &(struct conf_opts){ .wait_obj = FI_WAIT_FD }, 64, &l);
		conf_works(&l);
		conf_drop_region(l.remote);
		conf_drop_region(l.local);
		conf_drop_end(l.b);
		conf_drop_end(l.a);
	}
}

/* ---- binding and enabling ---- */

static void objects_bind_rules(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct conf_end *other = conf_open(c, &(struct conf_opts){ .disabled = true });
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { 0 };
	struct fi_eq_attr eq_attr = { 0 };
	struct fid_eq *eq, *other_eq;
	struct fid_cntr *cntr = open_cntr(end->domain), *other_cntr = open_cntr(other->domain);
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;

	assert_ok(fi_av_open(end->domain, &av_attr, &av, NULL));
	assert_ok(fi_cq_open(end->domain, &cq_attr, &cq, NULL));
	assert_ok(fi_eq_open(end->fabric, &eq_attr, &eq, NULL));
	assert_ok(fi_eq_open(other->fabric, &eq_attr, &other_eq, NULL));
	assert_ok(fi_endpoint(end->domain, end->info, &ep, NULL));
	const struct {
		struct fid *fid;
		uint64_t flags;
		int code;
	} binds[] = {
		{ NULL, 0, -FI_EINVAL },
		{ &ep->fid, 0, -FI_EINVAL },
		{ &end->domain->fid, 0, -FI_EINVAL },
		{ &end->fabric->fid, 0, -FI_EINVAL },
		{ &other->av->fid, 0, -FI_EINVAL },
		{ &other->tx->fid, FI_TRANSMIT, -FI_EINVAL },
		{ &other_cntr->fid, FI_SEND, -FI_EINVAL },
		{ &other_eq->fid, 0, -FI_EINVAL },
		{ &av->fid, FI_SEND, -FI_EINVAL },
		{ &av->fid, 0, 0 },
		{ &av->fid, 0, -FI_EINVAL },
		{ &eq->fid, FI_SEND, -FI_EINVAL },
		{ &eq->fid, 0, 0 },
		{ &eq->fid, 0, -FI_EINVAL },
		{ &cq->fid, 0, -FI_EINVAL },
		{ &cq->fid, FI_SELECTIVE_COMPLETION, -FI_EINVAL },
		{ &cq->fid, FI_TRANSMIT | FI_READ, -FI_EINVAL },
		{ &cq->fid, FI_TRANSMIT | FI_REMOTE_WRITE, -FI_EINVAL },
		{ &cq->fid, FI_TRANSMIT, 0 },
		{ &cq->fid, FI_TRANSMIT, -FI_EINVAL },
		{ &cq->fid, FI_TRANSMIT | FI_RECV, -FI_EINVAL },
		{ &cq->fid, FI_RECV, 0 },
		{ &cq->fid, FI_RECV, -FI_EINVAL },
		{ &cntr->fid, 0, -FI_EINVAL },
		{ &cntr->fid, FI_SEND | FI_COMPLETION, -FI_EINVAL },
		{ &cntr->fid, FI_REMOTE_WRITE, -FI_EINVAL }, /* without FI_RMA_EVENT */
		{ &cntr->fid, FI_REMOTE_READ, -FI_EINVAL },
		{ &cntr->fid, FI_SEND | FI_READ, 0 },
		{ &cntr->fid, FI_SEND, -FI_EINVAL },
		{ &cntr->fid, FI_READ | FI_WRITE, -FI_EINVAL },
		{ &cntr->fid, FI_WRITE | FI_RECV, 0 },
	};

	for (size_t i = 0; i < count_of(binds); i++) {
		if (binds[i].code)
			assert_refused(fi_ep_bind(ep, binds[i].fid, binds[i].flags), binds[i].code);
		else
			assert_ok(fi_ep_bind(ep, binds[i].fid, binds[i].flags));
	}
	assert_ok(fi_enable(ep));
	for (size_t i = 1; i < count_of(binds); i++)
		assert_refused(fi_ep_bind(ep, binds[i].fid, binds[i].flags), -FI_EOPBADSTATE);
	assert_refused(fi_enable(ep), -FI_EOPBADSTATE);
	assert_ok(fi_close(&ep->fid));
	/* what was refused is held by nobody */
	struct fid *fids[] = { &other_cntr->fid, &other_eq->fid, &cq->fid,
			       &av->fid,	 &cntr->fid,	 &eq->fid };
	for (size_t i = 0; i < count_of(fids); i++)
		assert_ok(fi_close(fids[i]));
}

/* What must be bound before an endpoint of these capabilities can be enabled. */
static void objects_enable_needs(struct conf *c)
{
	enum {
		AV = 1,
		TX = 2,
		RX = 4,
		TX_CNTR = 8,
		RX_CNTR = 16
	};
	static const struct {
		uint64_t caps;
		unsigned int bound;
		int code;
	} cases[] = {
		{ CONF_CAPS, 0, -FI_ENOAV },
		{ CONF_CAPS, TX | RX, -FI_ENOAV },
		{ CONF_CAPS, AV, -FI_ENOCQ },
		{ CONF_CAPS, AV | TX, -FI_ENOCQ },
		{ CONF_CAPS, AV | RX, -FI_ENOCQ },
		{ CONF_CAPS, AV | RX | TX, 0 },
		{ CONF_CAPS, AV | RX | TX_CNTR, 0 },
		{ CONF_CAPS, AV | RX_CNTR | TX_CNTR, 0 },
		{ FI_MSG | FI_SEND, AV, -FI_ENOCQ },
		{ FI_MSG | FI_SEND, AV | TX, 0 },
		{ FI_MSG | FI_RECV, AV, -FI_ENOCQ },
		{ FI_MSG | FI_RECV, AV | RX, 0 },
		{ FI_RMA | FI_READ, AV | RX, -FI_ENOCQ },
		{ FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE, AV, 0 },
	};

	for (size_t i = 0; i < count_of(cases); i++) {
		struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = cases[i].caps,
									 .disabled = true });
		struct fid_cntr *cntr = open_cntr(end->domain);
		struct fid_ep *ep;

		assert_ok(fi_endpoint(end->domain, end->info, &ep, NULL));
		if (cases[i].bound & AV)
			assert_ok(fi_ep_bind(ep, &end->av->fid, 0));
		if (cases[i].bound & TX)
			assert_ok(fi_ep_bind(ep, &end->tx->fid, FI_TRANSMIT));
		if (cases[i].bound & RX)
			assert_ok(fi_ep_bind(ep, &end->rx->fid, FI_RECV));
		if (cases[i].bound & TX_CNTR)
			assert_ok(fi_ep_bind(ep, &cntr->fid, FI_SEND | FI_READ | FI_WRITE));
		if (cases[i].bound & RX_CNTR)
			assert_ok(fi_ep_bind(ep, &cntr->fid, FI_RECV));
		if (cases[i].code) {
			assert_refused(fi_enable(ep), cases[i].code);
			assert_refused(fi_send(ep, NULL, 0, NULL, 0, NULL), -FI_EOPBADSTATE);
		} else {
			assert_ok(fi_enable(ep));
		}
		assert_ok(fi_close(&ep->fid));
		assert_ok(fi_close(&cntr->fid));
		conf_drop_end(end);
	}
}

/* Before it is enabled an endpoint does nothing; one without a capability does not do that. */
static void objects_state_and_capabilities(struct conf *c)
{
	struct conf_end *off = conf_open(c, &(struct conf_opts){ .disabled = true });
	struct conf_end *messages = conf_open(c, &(struct conf_opts){ .caps = FI_MSG });
	struct conf_end *rma = conf_open(c, &(struct conf_opts){ .caps = FI_RMA });
	struct conf_end *receiver = conf_open(c, &(struct conf_opts){ .caps = FI_MSG | FI_RECV });

	assert_refused(fi_send(off->ep, NULL, 0, NULL, 0, c), -FI_EOPBADSTATE);
	assert_refused(fi_recv(off->ep, NULL, 0, NULL, 0, c), -FI_EOPBADSTATE);
	assert_refused(fi_inject(off->ep, NULL, 0, 0), -FI_EOPBADSTATE);
	assert_refused(fi_write(off->ep, NULL, 0, NULL, 0, 0, 0, c), -FI_EOPBADSTATE);
	assert_refused(fi_read(off->ep, NULL, 0, NULL, 0, 0, 0, c), -FI_EOPBADSTATE);
	assert_refused(fi_atomic(off->ep, NULL, 0, NULL, 0, 0, 0, FI_INT8, FI_SUM, c),
		       -FI_EOPBADSTATE);
	assert_refused(fi_write(messages->ep, NULL, 0, NULL, 0, 0, 0, c), -FI_EOPNOTSUPP);
	assert_refused(fi_atomic(messages->ep, NULL, 0, NULL, 0, 0, 0, FI_INT8, FI_SUM, c),
		       -FI_EOPNOTSUPP);
	assert_refused(fi_send(rma->ep, NULL, 0, NULL, 0, c), -FI_EOPNOTSUPP);
	assert_refused(fi_recv(rma->ep, NULL, 0, NULL, 0, c), -FI_EOPNOTSUPP);
	assert_refused(fi_send(receiver->ep, NULL, 0, NULL, 0, c), -FI_EOPNOTSUPP);
	assert_ok(fi_recv(receiver->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, c));
}

/* One queue and one vector for everything. */
static void objects_shared_queue(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA };
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep[2];
	uint8_t name[128];
	size_t len;
	fi_addr_t addr[2];

	conf_need_endpoints();
	assert_ok(fi_av_open(end->domain, &av_attr, &av, NULL));
	assert_ok(fi_cq_open(end->domain, &cq_attr, &cq, NULL));
	for (int i = 0; i < 2; i++) {
		len = sizeof(name);
		assert_ok(fi_endpoint(end->domain, end->info, &ep[i], NULL));
		assert_ok(fi_ep_bind(ep[i], &av->fid, 0));
		assert_ok(fi_ep_bind(ep[i], &cq->fid, FI_TRANSMIT | FI_RECV));
		assert_ok(fi_enable(ep[i]));
		assert_ok(fi_getname(&ep[i]->fid, name, &len));
		assert_answer(fi_av_insert(av, name, 1, &addr[i], 0, NULL), 1);
		assert_int_equal(addr[i], i);
	}
	for (int i = 0; i < 2; i++) {
		assert_ok(fi_recv(ep[1 - i], NULL, 0, NULL, FI_ADDR_UNSPEC, &ep[1 - i]));
		assert_ok(fi_send(ep[i], NULL, 0, NULL, addr[1 - i], &ep[i]));
		conf_both(cq, &ep[1 - i], &ep[i]);
	}
	for (int i = 0; i < 2; i++) {
		assert_refused(fi_close(&cq->fid), -FI_EBUSY);
		assert_refused(fi_close(&av->fid), -FI_EBUSY);
		assert_ok(fi_close(&ep[i]->fid));
	}
	assert_ok(fi_close(&cq->fid));
	assert_ok(fi_close(&av->fid));
}

/* ---- names and options ---- */

static void objects_getname(struct conf *c)
{
	struct conf_end *a, *b;
	uint8_t name[128], other[128], looked_up[128];
	size_t len = 0, need;
	fi_addr_t addr;

	conf_pair(c, NULL, &a, &b);
	assert_answer(fi_getname(&a->ep->fid, NULL, &len), -FI_ETOOSMALL);
	need = len;
	assert_in_range(need, 1, sizeof(name));
	for (size_t room = 0; room <= sizeof(name); room++) {
		memset(name, 0xee, sizeof(name));
		len = room;
		assert_answer(fi_getname(&a->ep->fid, name, &len), room < need ? -FI_ETOOSMALL : 0);
		assert_int_equal(len, need);
		for (size_t i = room < need ? room : need; i < sizeof(name); i++)
			assert_int_equal(name[i], 0xee);
	}
	len = sizeof(other);
	assert_ok(fi_getname(&b->ep->fid, other, &len));
	assert_memory_not_equal(name, other, need);
	addr = conf_addr(b, a);
	len = sizeof(looked_up);
	assert_ok(fi_av_lookup(b->av, addr, looked_up, &len));
	assert_int_equal(len, need);
	assert_memory_equal(looked_up, name, need);
	assert_refused(fi_getname(&a->ep->fid, NULL, &len), -FI_EINVAL);
	assert_refused(fi_getname(&a->ep->fid, name, NULL), -FI_EINVAL);
}

static void objects_options(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .rx_size = 33 });
	const struct {
		int name;
		size_t value;
	} sizes[] = {
		{ FI_OPT_INJECT_MSG_SIZE, end->info->tx_attr->inject_size },
		{ FI_OPT_INJECT_RMA_SIZE, end->info->tx_attr->inject_size },
		{ FI_OPT_INJECT_ATOMIC_SIZE, end->info->tx_attr->inject_size },
		{ FI_OPT_MAX_MSG_SIZE, end->info->ep_attr->max_msg_size },
		{ FI_OPT_MAX_RMA_SIZE, end->info->ep_attr->max_msg_size },
		{ FI_OPT_MAX_ATOMIC_SIZE, end->info->ep_attr->max_msg_size },
		{ FI_OPT_TX_SIZE, end->info->tx_attr->size },
		{ FI_OPT_RX_SIZE, 33 },
	};
	size_t value, len;

	for (size_t i = 0; i < count_of(sizes); i++) {
		len = sizeof(value);
		assert_ok(fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, sizes[i].name, &value, &len));
		assert_int_equal(value, sizes[i].value);
		assert_int_equal(len, sizeof(value));
		len = 3;
		assert_refused(fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, sizes[i].name, &value,
					 &len),
			       -FI_ETOOSMALL);
		assert_int_equal(len, sizeof(value));
	}
	len = sizeof(value);
	assert_refused(fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_XPU_TRIGGER, &value, &len),
		       -FI_ENOPROTOOPT);
	assert_refused(fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, -1, &value, &len),
		       -FI_ENOPROTOOPT);
	assert_refused(fi_getopt(&end->ep->fid, 5, FI_OPT_TX_SIZE, &value, &len), -FI_ENOPROTOOPT);
	assert_refused(fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, NULL, &len),
		       -FI_EINVAL);
	assert_refused(fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &value, NULL),
		       -FI_EINVAL);
	assert_refused(fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &value,
				 sizeof(value)),
		       -FI_ENOPROTOOPT);
}

static void objects_default_flags(struct conf *c)
{
	struct conf_link l;
	uint64_t flags = FI_TRANSMIT;

	conf_link(c, &(struct conf_opts){ .bind_flags = FI_SELECTIVE_COMPLETION }, 64, &l);
	assert_ok(fi_control(&l.a->ep->fid, FI_GETOPSFLAG, &flags));
	assert_int_equal(flags, 0);
	flags = FI_TRANSMIT | FI_COMPLETION | FI_DELIVERY_COMPLETE;
	assert_ok(fi_control(&l.a->ep->fid, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT;
	assert_ok(fi_control(&l.a->ep->fid, FI_GETOPSFLAG, &flags));
	assert_true(flags == (FI_COMPLETION | FI_DELIVERY_COMPLETE));
	conf_works(&l);
	flags = FI_RECV;
	assert_ok(fi_control(&l.a->ep->fid, FI_GETOPSFLAG, &flags));
	assert_int_equal(flags, 0);
	flags = FI_TRANSMIT | FI_RECV;
	assert_refused(fi_control(&l.a->ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	flags = FI_TRANSMIT | FI_TRIGGER;
	assert_refused(fi_control(&l.a->ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	assert_refused(fi_control(&l.a->ep->fid, FI_GETOPSFLAG, NULL), -FI_EINVAL);
	conf_works(&l);
}

/* ---- use after close ---- */

/* The fid of an object that was closed a moment ago. */
static void close_twice(void *arg)
{
	struct fid *fid = arg;

	fi_close(fid);
	fi_close(fid);
}

static void objects_double_close_asserts(struct conf *c)
{
#ifdef NDEBUG
	/* only a region's memory lives on, and it can tell */
	struct conf_end *end = conf_open(c, NULL);
	struct fid_mr *mr;

	assert_ok(fi_mr_reg(end->domain, conf_alloc(c, 64), 64, CONF_ALL, 0, 1, 0, &mr, NULL));
	assert_ok(fi_close(&mr->fid));
	assert_refused(fi_close(&mr->fid), -FI_EINVAL);
	(void)close_twice;
#else
	struct conf_end *end = conf_open(c, NULL);
	struct conf_end *bare = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fi_eq_attr eq_attr = { 0 };
	struct fid_cntr *cntr = open_cntr(end->domain);
	struct fid_mr *mr;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_cq *cq;

	assert_ok(fi_mr_reg(end->domain, conf_alloc(c, 64), 64, CONF_ALL, 0, 1, 0, &mr, NULL));
	assert_ok(fi_eq_open(end->fabric, &eq_attr, &eq, NULL));
	assert_ok(fi_av_open(end->domain, &(struct fi_av_attr){ 0 }, &av, NULL));
	assert_ok(fi_cq_open(end->domain, &(struct fi_cq_attr){ 0 }, &cq, NULL));
	struct fid *fids[] = { &mr->fid,   &eq->fid,	  &av->fid,	     &cq->fid,
			       &cntr->fid, &end->ep->fid, &bare->domain->fid };

	for (size_t i = 0; i < count_of(fids); i++) {
		int status = conf_fork(close_twice, fids[i]);

		/*
		 * An assertion, or a sanitizer that saw it first.  Memory of a large object may have
		 * gone back to the system; a region's is the library's for as long as the domain lives.
		 */
		if (WIFSIGNALED(status) && i > 0)
			assert_true(WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGSEGV);
		else if (WIFSIGNALED(status))
			assert_int_equal(WTERMSIG(status), SIGABRT);
		else
			assert_int_not_equal(WEXITSTATUS(status), 0);
	}
	assert_ok(fi_close(&mr->fid));
	assert_ok(fi_close(&eq->fid));
	assert_ok(fi_close(&av->fid));
	assert_ok(fi_close(&cq->fid));
	assert_ok(fi_close(&cntr->fid));
#endif
}

static const struct conf_case cases[] = {
	CONF(objects_wrong_closing_order_is_busy),
	CONF(objects_open_and_close_many_times),
	CONF(objects_bind_rules),
	CONF(objects_enable_needs),
	CONF(objects_state_and_capabilities),
	CONF(objects_shared_queue),
	CONF(objects_getname),
	CONF(objects_options),
	CONF(objects_default_flags),
	CONF(objects_double_close_asserts),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
