/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions with counters and endpoints (API-12 to API-14), registration that reports to an event
 * queue (API-18), threads (API-19), and what is logged (API-20).
 */
#include <ctype.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/conformance/harness.h"

#define EVENT_CAPS (CONF_CAPS | FI_RMA_EVENT)

static struct fid_cntr *open_cntr(struct conf_end *end, enum fi_cntr_events events)
{
	struct fi_cntr_attr attr = { .events = events, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;

	assert_ok(fi_cntr_open(end->domain, &attr, &cntr, NULL));
	return cntr;
}

/* ---- API-12 ---- */

/* What is done to the region, and how often and how many bytes its counters count then. */
struct counted {
	const char *what;
	ssize_t (*fn)(struct conf_link *l);
	uint64_t times, bytes;
	int failure; /* prov_errno */
	bool silent; /* no completion of its own */
};

#define ADDR l->remote->addr
#define DESC l->local->desc

static ssize_t c_write(struct conf_link *l)
{
	return fi_write(l->a->ep, l->src, 24, DESC, l->to, ADDR, l->key, l);
}

static ssize_t c_inject(struct conf_link *l)
{
	return fi_inject_write(l->a->ep, l->src, 8, l->to, ADDR, l->key);
}

static ssize_t c_writedata(struct conf_link *l)
{
	return fi_writedata(l->a->ep, l->src, 16, DESC, 1, l->to, ADDR, l->key, l);
}

static ssize_t c_read(struct conf_link *l)
{
	return fi_read(l->a->ep, l->src, 24, DESC, l->to, ADDR, l->key, l);
}

static ssize_t c_nothing(struct conf_link *l)
{
	return fi_write(l->a->ep, l->src, 0, DESC, l->to, ADDR, l->key, l);
}

static ssize_t c_outside(struct conf_link *l)
{
	return fi_write(l->a->ep, l->src, 8, DESC, l->to, ADDR + 60, l->key, l);
}

static ssize_t c_atomic(struct conf_link *l)
{
	return fi_atomic(l->a->ep, l->src, 2, DESC, l->to, ADDR, l->key, FI_UINT64, FI_SUM, l);
}

static ssize_t c_fetch(struct conf_link *l)
{
	return fi_fetch_atomic(l->a->ep, l->src, 1, DESC, l->src + 8, DESC, l->to, ADDR, l->key,
			       FI_UINT64, FI_SUM, l);
}

static ssize_t c_atomic_read(struct conf_link *l)
{
	return fi_fetch_atomic(l->a->ep, NULL, 1, NULL, l->src + 8, DESC, l->to, ADDR, l->key,
			       FI_UINT64, FI_ATOMIC_READ, l);
}

/* Two pieces of one region are one write. */
static ssize_t c_twice(struct conf_link *l)
{
	struct iovec iov = { l->src, 32 };
	struct fi_rma_iov rma[2] = { { ADDR, 16, l->key }, { ADDR + 32, 16, l->key } };
	struct fi_msg_rma msg = { &iov, &l->local->desc, 1, l->to, rma, 2, l, 0 };

	return fi_writemsg(l->a->ep, &msg, FI_COMPLETION);
}

static const struct counted counted[] = {
	{ "write", c_write, 1, 24, 0, false },
	{ "inject", c_inject, 1, 8, 0, true },
	{ "writedata", c_writedata, 1, 16, 0, false },
	{ "read", c_read, 0, 0, 0, false },
	{ "empty write", c_nothing, 0, 0, 0, false },
	{ "write outside", c_outside, 0, 0, HMREG_OUT_OF_BOUNDS, false },
	{ "atomic", c_atomic, 1, 16, 0, false },
	{ "fetch", c_fetch, 1, 8, 0, false },
	{ "atomic read", c_atomic_read, 0, 0, 0, false },
	{ "two pieces", c_twice, 1, 32, 0, false },
};

static void count_all(struct conf_link *l, struct fid_cntr *cntr, bool bytes)
{
	uint64_t want = 0;

	for (size_t i = 0; i < count_of(counted); i++) {
		assert_ok(counted[i].fn(l));
		if (counted[i].failure)
			conf_failed(l->a->tx, l, FI_EINVAL, counted[i].failure);
		else if (!counted[i].silent)
			conf_done(l->a->tx, l);
		want += bytes ? counted[i].bytes : counted[i].times;
		if (fi_cntr_wait(cntr, want, 5000) || fi_cntr_read(cntr) != want)
			fail_msg("after %s: %lu, expected %lu", counted[i].what,
				 (unsigned long)fi_cntr_read(cntr), (unsigned long)want);
		assert_int_equal(fi_cntr_readerr(cntr), 0);
	}
}

static void api_12_counter_counts_remote_writes(struct conf *c)
{
	conf_need_caps(c, EVENT_CAPS);
	for (int bytes = 0; bytes < 2; bytes++) {
		struct conf_region *other;
		struct fid_cntr *cntr;
		struct conf_link l;
		struct iovec iov;

		conf_link(c, &(struct conf_opts){ .caps = EVENT_CAPS }, 64, &l);
		cntr = open_cntr(l.b, bytes ? FI_CNTR_EVENTS_BYTES : FI_CNTR_EVENTS_COMP);
		iov = (struct iovec){ l.dst, 64 };
		other = l.remote;
		l.remote = conf_regv(l.b, &iov, 1, CONF_ALL, 0, cntr);
		l.key = conf_key(l.a, l.remote);
		count_all(&l, cntr, bytes);
		/* the other region of the same memory has no counter */
		l.key = conf_key(l.a, other);
		assert_ok(c_write(&l));
		conf_done(l.a->tx, &l);
		assert_int_equal(fi_cntr_read(cntr), bytes ? 104 : 6);
		assert_refused(fi_close(&cntr->fid), -FI_EBUSY);
		conf_drop_region(l.remote);
		assert_ok(fi_close(&cntr->fid));
	}
}

static void api_12_bind_rules(struct conf *c)
{
	struct conf_end *plain = conf_open(c, NULL), *end;
	uint8_t *buf = conf_alloc(c, 64);
	struct conf_region *no_events = conf_reg_raw(plain, buf, 64, CONF_ALL);
	struct fid_mr *mr;
	struct fid_cntr *cntr, *second, *foreign = open_cntr(plain, FI_CNTR_EVENTS_COMP);

	assert_refused(fi_mr_bind(no_events->mr, &foreign->fid, FI_REMOTE_WRITE), -FI_ENOSYS);
	if (!conf_offers(c, EVENT_CAPS)) {
		assert_ok(fi_close(&foreign->fid));
		conf_skip(c, "no FI_RMA_EVENT; that binding is refused then was seen");
	}
	end = conf_open(c, &(struct conf_opts){ .caps = EVENT_CAPS });
	cntr = open_cntr(end, FI_CNTR_EVENTS_COMP);
	second = open_cntr(end, FI_CNTR_EVENTS_COMP);
	/* announced, where that has to be; neither bound nor enabled */
	assert_ok(fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, 1,
			    c->mode & FI_MR_RMA_EVENT ? FI_RMA_EVENT : 0, &mr, NULL));
	assert_refused(fi_mr_bind(mr, &cntr->fid, 0), -FI_EINVAL);
	assert_refused(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ), -FI_EINVAL);
	assert_refused(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE | FI_REMOTE_READ), -FI_EINVAL);
	assert_refused(fi_mr_bind(mr, &foreign->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	assert_refused(fi_mr_bind(mr, NULL, FI_REMOTE_WRITE), -FI_EINVAL);
	assert_refused(fi_mr_bind(mr, &end->tx->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	assert_refused(fi_mr_bind(mr, &end->av->fid, 0), -FI_EINVAL);
	assert_ok(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	assert_refused(fi_mr_bind(mr, &second->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	/* what was refused is not held */
	assert_ok(fi_close(&second->fid));
	assert_ok(fi_close(&foreign->fid));
	assert_refused(fi_close(&cntr->fid), -FI_EBUSY);
	assert_ok(fi_close(&mr->fid));
	assert_ok(fi_close(&cntr->fid));
}

/* Too late to bind, where counters must be there before a region is enabled. */
static void api_12_api_14_rma_event_mode(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = EVENT_CAPS });
	uint8_t *buf = conf_alloc(c, 64);
	struct iovec iov = { buf, 64 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct fid_cntr *cntr = open_cntr(end, FI_CNTR_EVENTS_COMP);
	struct fid_mr *mr;

	assert_ok(fi_mr_regattr(end->domain, &attr, FI_RMA_EVENT, &mr));
	if (c->mode & FI_MR_ENDPOINT)
		assert_ok(fi_mr_bind(mr, &end->ep->fid, 0));
	assert_refused_with(fi_mr_enable(mr), -FI_EOPBADSTATE, "counter");
	assert_ok(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	assert_ok(fi_mr_enable(mr));
	assert_refused(fi_mr_enable(mr), -FI_EOPBADSTATE);
	assert_ok(fi_close(&mr->fid));

	assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
	if (c->mode & FI_MR_ENDPOINT) {
		assert_ok(fi_mr_bind(mr, &end->ep->fid, 0));
		assert_ok(fi_mr_enable(mr));
	}
	assert_refused(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), -FI_EOPBADSTATE);
	assert_ok(fi_close(&mr->fid));
	assert_ok(fi_close(&cntr->fid));
}

/* ---- API-13, API-14 ---- */

static void api_13_api_14_endpoint_mode(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL), *other = conf_open(c, NULL);
	struct conf_end *beside = conf_open(c, &(struct conf_opts){ .same_domain = end });
	uint8_t *buf = conf_alloc(c, 64);
	struct conf_region *region = conf_reg_raw(end, buf, 64, CONF_ALL);

	assert_refused_with(fi_mr_enable(region->mr), -FI_EOPBADSTATE, "endpoint");
	assert_refused(fi_mr_bind(region->mr, &end->ep->fid, 1), -FI_EINVAL);
	assert_refused(fi_mr_bind(region->mr, &end->ep->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	assert_refused(fi_mr_bind(region->mr, &other->ep->fid, 0), -FI_EINVAL);
	assert_ok(fi_mr_bind(region->mr, &end->ep->fid, 0));
	assert_refused(fi_mr_bind(region->mr, &beside->ep->fid, 0), -FI_EINVAL);
	assert_refused(fi_close(&end->ep->fid), -FI_EBUSY);
	assert_ok(fi_mr_enable(region->mr));
	assert_refused(fi_mr_bind(region->mr, &beside->ep->fid, 0), -FI_EOPBADSTATE);
	assert_refused(fi_mr_enable(region->mr), -FI_EOPBADSTATE);
	assert_refused(fi_close(&end->ep->fid), -FI_EBUSY);
	conf_close_region(region);
	conf_close_ep(end);
	/* disabled for local use as well */
	region = conf_reg_raw(other, buf, 64, CONF_ALL);
	assert_refused(fi_recv(other->ep, buf, 64, region->desc, FI_ADDR_UNSPEC, c), -FI_EINVAL);
}

static void api_13_api_14_not_needed(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct conf_region *region = conf_reg(end, conf_alloc(c, 64), 64, CONF_ALL);

	assert_refused(fi_mr_bind(region->mr, &end->ep->fid, 0), -FI_EINVAL);
	assert_refused(fi_mr_enable(region->mr), -FI_EOPBADSTATE);
	conf_close_ep(end);
}

/* ---- API-18 ---- */

static void api_18_event_for_each_registration(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	uint8_t *buf = conf_alloc(c, 64);
	struct fid_mr *mr[20], *none = NULL;
	struct fi_eq_entry entry;
	struct fid_eq *eq;
	uint32_t event;

	assert_ok(fi_eq_open(end->fabric, &attr, &eq, NULL));
	assert_ok(fi_domain_bind(end->domain, &eq->fid, FI_REG_MR));
	for (size_t i = 0; i < count_of(mr); i++) {
		assert_ok(fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, i, 0, &mr[i], &mr[i]));
		/* a failed call leaves no event */
		assert_refused(fi_mr_reg(end->domain, buf, 0, CONF_ALL, 0, 99, 0, &none, &none),
			       -FI_EINVAL);
	}
	for (size_t i = 0; i < count_of(mr); i++) {
		assert_answer(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
		assert_int_equal(event, FI_MR_COMPLETE);
		assert_ptr_equal(entry.context, &mr[i]);
		assert_ptr_equal(entry.fid, &mr[i]->fid);
	}
	assert_answer(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	assert_null(none);
	/* the queue is in use as long as the domain */
	assert_refused(fi_close(&eq->fid), -FI_EBUSY);
	for (size_t i = 0; i < count_of(mr); i++)
		assert_ok(fi_close(&mr[i]->fid));
	assert_ok(fi_close(&end->domain->fid));
	end->domain = NULL;
	assert_ok(fi_close(&eq->fid));
}

#define MANY 5000

/* However few events were asked for, none is lost while nobody reads: they come in order, each once. */
static void api_18_more_events_than_asked_for(struct conf *c)
{
	static struct fid_mr *mr[MANY];
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fi_eq_attr attr = { .size = 1, .wait_obj = FI_WAIT_UNSPEC };
	uint8_t *buf = conf_alloc(c, 64);
	struct fi_eq_entry entry;
	struct fid_eq *eq;
	uint32_t event;

	assert_ok(fi_eq_open(end->fabric, &attr, &eq, NULL));
	assert_ok(fi_domain_bind(end->domain, &eq->fid, FI_REG_MR));
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, i, 0, &mr[i], &mr[i]),
				 0);
	conf_check_stats(end, MANY, MANY * 64, 0);
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
		assert_int_equal(event, FI_MR_COMPLETE);
		assert_ptr_equal(entry.context, &mr[i]);
		assert_ptr_equal(entry.fid, &mr[i]->fid);
		assert_int_equal(fi_close(&mr[i]->fid), 0);
	}
	assert_answer(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	assert_ok(fi_close(&end->domain->fid));
	end->domain = NULL;
	assert_ok(fi_close(&eq->fid));
}

#define ASYNC 3000

struct async {
	struct conf_end *end;
	struct fid_eq *eq;
	uint8_t *buf;
	struct fid_mr *_Atomic mr[ASYNC];
};

/* The context is where the region's address is written, before this can read it. */
static void *watch_events(void *arg)
{
	struct async *a = arg;

	for (int i = 0; i < ASYNC; i++) {
		struct fi_eq_entry entry;
		uint32_t event;
		struct fid_mr *mr;

		if (fi_eq_sread(a->eq, &event, &entry, sizeof(entry), 10000, 0) != sizeof(entry) ||
		    event != FI_MR_COMPLETE)
			return a;
		mr = *(struct fid_mr * _Atomic *)entry.context;
		if (&mr->fid != entry.fid || mr->fid.fclass != FI_CLASS_MR)
			return a;
	}
	return NULL;
}

static void api_18_region_is_written_before_its_event(struct conf *c)
{
	static struct async a;
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	pthread_t watcher;
	void *failed;

	memset(&a, 0, sizeof(a));
	a.end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	a.buf = conf_alloc(c, 64);
	assert_ok(fi_eq_open(a.end->fabric, &attr, &a.eq, NULL));
	assert_ok(fi_domain_bind(a.end->domain, &a.eq->fid, FI_REG_MR));
	assert_int_equal(pthread_create(&watcher, NULL, watch_events, &a), 0);
	for (size_t i = 0; i < ASYNC; i++)
		assert_int_equal(fi_mr_reg(a.end->domain, a.buf, 64, CONF_ALL, 0, i, 0,
					   (struct fid_mr **)&a.mr[i], (void *)&a.mr[i]),
				 0);
	pthread_join(watcher, &failed);
	assert_null(failed);
	for (size_t i = 0; i < ASYNC; i++)
		assert_ok(fi_close(&a.mr[i]->fid));
	assert_ok(fi_close(&a.end->domain->fid));
	a.end->domain = NULL;
	assert_ok(fi_close(&a.eq->fid));
}

/* ---- API-19 ---- */

#define THREADS 4
#define TURNS	400

struct worker {
	struct conf_link l; /* all of it shared, but for buffers and regions */
	uint64_t seed;
	unsigned int id;
	const char *failed;
};

#define TRY(expression)                                                                            \
	do {                                                                                       \
		if (!(expression)) {                                                               \
			w->failed = #expression;                                                   \
			return w;                                                                  \
		}                                                                                  \
	} while (0)

/* Write, read back, register and close beside it, ask for infos: everything through shared objects. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct conf_link *l = &w->l;
	struct fi_info *hints = fi_allocinfo(), *info;

	TRY(hints);
	for (unsigned int i = 0; i < TURNS; i++) {
		struct fid_mr *mr;
		int ret;

		do
			ret = (int)fi_write(l->a->ep, l->src, 64, l->local->desc, l->to,
					    l->remote->addr, l->key, w);
		while (ret == -FI_EAGAIN && sched_yield() == 0);
		TRY(ret == 0);
		TRY(!fi_mr_reg(l->a->domain, l->src, 64, CONF_ALL, 0, 1000000u * (w->id + 1) + i, 0,
			       &mr, NULL));
		TRY(!fi_close(&mr->fid));
		if (i % 50)
			continue;
		TRY(!fi_getinfo(CONF_VERSION, NULL, NULL, 0, NULL, &info));
		fi_freeinfo(info);
		info = fi_dupinfo(l->a->info);
		TRY(info && strlen(fi_tostr(info, FI_TYPE_INFO)) > 100);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
	return NULL;
}

/* Whose operation an entry is for does not matter to who reads it. */
static void *reap(void *arg)
{
	struct worker *w = arg;
	unsigned int got = 0, idle = 0;

	while (got < THREADS * TURNS && idle < 5000000) {
		struct fi_cq_data_entry entry[8];
		ssize_t ret = fi_cq_read(w->l.a->tx, entry, 8);

		TRY(ret > 0 || ret == -FI_EAGAIN);
		idle = ret > 0 ? 0 : idle + 1;
		got += ret > 0 ? (unsigned int)ret : 0;
		if (ret == -FI_EAGAIN)
			sched_yield();
	}
	TRY(got == THREADS * TURNS);
	return NULL;
}

static void api_19_threads_share_everything(struct conf *c)
{
	struct conf_end *a = conf_open(c, &(struct conf_opts){ .tx_cq_size = 16 });
	struct conf_end *b = conf_open(c, NULL);
	struct worker worker[THREADS + 1] = { 0 };
	pthread_t thread[THREADS + 1];
	fi_addr_t to = conf_addr(a, b);

	for (unsigned int i = 0; i < THREADS; i++) {
		struct conf_link *l = &worker[i].l;

		worker[i].id = i;
		*l = (struct conf_link){ .a = a, .b = b, .to = to, .len = 64 };
		l->src = conf_alloc(c, 64);
		l->dst = conf_alloc(c, 64);
		conf_fill(c, l->src, 64);
		l->local = conf_reg(a, l->src, 64, CONF_ALL);
		l->remote = conf_reg(b, l->dst, 64, CONF_ALL);
		l->key = conf_key(a, l->remote);
	}
	worker[THREADS].l.a = a;
	for (unsigned int i = 0; i <= THREADS; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, i < THREADS ? work : reap, &worker[i]), 0);
	for (unsigned int i = 0; i <= THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned int i = 0; i <= THREADS; i++) {
		if (worker[i].failed)
			fail_msg("thread %u: %s", i, worker[i].failed);
		if (i < THREADS)
			assert_memory_equal(worker[i].l.dst, worker[i].l.src, 64);
	}
	conf_check_stats(a, THREADS, THREADS * 64, c->mode & FI_MR_RAW ? THREADS : 0);
}

/* ---- API-20 ---- */

/* hmreg:<pid>:<seconds>:<subsystem>:<function>():<line><warn> <text> */
static void check_form(const char *line)
{
	char subsys[32], func[64], *end;
	int pid, at, used = 0;
	long seconds;

	assert_int_equal(sscanf(line, "hmreg:%d:%ld:%31[a-z_]:%63[a-z_0-9]():%d<warn> %n", &pid,
				&seconds, subsys, func, &at, &used),
			 5);
	assert_int_equal(pid, getpid());
	assert_true(seconds > 1600000000 && at > 0 && used > 0);
	end = strchr(line, '\n');
	assert_non_null(end);
	assert_int_equal(end[1], '\0');
	assert_true(end - line - used > 10);
}

#define refused_naming(expression, code, text)                                                     \
	do {                                                                                       \
		assert_refused_with(expression, code, text);                                       \
		check_form(conf_log_text());                                                       \
	} while (0)

static void api_20_lines_name_the_cause(struct conf *c)
{
	struct conf_link l;
	char range[64];
	struct fid_mr *mr;
	uint8_t *buf = conf_alloc(c, 64);
	struct iovec iov = { buf, 64 };
	struct fi_rma_iov rma = { 0, 63, 1 };
	struct fi_msg_rma msg = { &iov, NULL, 1, 0, &rma, 1, NULL, 0 };

	conf_link(c, NULL, 64, &l);
	msg.desc = &l.local->desc;
	snprintf(range, sizeof(range), "[%p, +%zu)", (void *)(uintptr_t)-8, (size_t)64);
	refused_naming(fi_mr_reg(l.a->domain, (void *)(uintptr_t)-8, 64, FI_SEND, 0, 9, 0, &mr,
				 NULL),
		       -FI_EINVAL, range);
	snprintf(range, sizeof(range), "%p", (void *)buf);
	refused_naming(fi_mr_reg(l.a->domain, buf, 0, FI_SEND, 0, 9, 0, &mr, NULL), -FI_EINVAL,
		       range);
	refused_naming(fi_mr_reg(l.a->domain, buf, 64, UINT64_C(1) << 40, 0, 9, 0, &mr, NULL),
		       -FI_EINVAL, "0x10000000000");
	refused_naming(fi_mr_reg(l.a->domain, buf, 64, FI_SEND, 0, 9, UINT64_C(1) << 33, &mr, NULL),
		       -FI_EBADFLAGS, "0x200000000");
	refused_naming(fi_write(l.a->ep, l.src, 8, l.local->desc, 4711, 0, 0, c), -FI_EINVAL,
		       "fi_write: address 0x1267");
	refused_naming(fi_send(l.a->ep, l.src + 60, 8, l.local->desc, l.to, c), -FI_EINVAL,
		       "fi_send");
	refused_naming(fi_inject(l.a->ep, buf, 1u << 20, l.to), -FI_EINVAL, "1048576");
	refused_naming(fi_mr_unmap_key(l.a->domain, 0xabcdef), -FI_EINVAL, "0xabcdef");
	refused_naming(fi_close(&l.a->domain->fid), -FI_EBUSY, "in use");
	refused_naming(fi_writemsg(l.a->ep, &msg, FI_TRIGGER), -FI_EBADFLAGS, "fi_writemsg");
	refused_naming(fi_enable(l.a->ep), -FI_EOPBADSTATE, "enable");
	if (!(c->mode & (FI_MR_PROV_KEY | FI_MR_RAW)))
		refused_naming(fi_mr_reg(l.b->domain, buf, 64, FI_SEND, 0, fi_mr_key(l.remote->mr),
					 0, &mr, NULL),
			       -FI_ENOKEY, "in use");
	if (c->mode & FI_MR_LOCAL)
		refused_naming(fi_write(l.a->ep, l.src, 8, NULL, l.to, 0, l.key, c), -FI_EINVAL,
			       "FI_MR_LOCAL");
}

/* What an operation of a peer does wrong is told by its completion, not in the log. */
static void api_20_completions_log_nothing(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	assert_ok(c_outside(&l));
	conf_log_mark(__FILE__, __LINE__);
	conf_failed(l.a->tx, &l, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	conf_log_expect(0, NULL, "reading an error", __FILE__, __LINE__);
}

/* ---- API-12, API-14 ---- */

/* "Any resource bindings to the MR must be done prior to enabling the MR": a counter's as well. */
static void api_12_api_14_counter_before_enabling(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = EVENT_CAPS });
	uint8_t *buf = conf_alloc(c, 64);
	struct conf_region *region = conf_reg_raw(end, buf, 64, CONF_ALL);
	struct fid_cntr *cntr = open_cntr(end, FI_CNTR_EVENTS_COMP);

	assert_ok(fi_mr_bind(region->mr, &end->ep->fid, 0));
	assert_ok(fi_mr_enable(region->mr));
	assert_refused_with(fi_mr_bind(region->mr, &cntr->fid, FI_REMOTE_WRITE), -FI_EOPBADSTATE,
			    "too late");
	assert_ok(fi_close(&cntr->fid)); /* it is not held */
}

static const struct conf_case cases[] = {
	CONF(api_12_counter_counts_remote_writes),
	CONF(api_12_bind_rules),
	CONF_NEED(api_12_api_14_rma_event_mode, FI_MR_RMA_EVENT),
	CONF_NEED(api_13_api_14_endpoint_mode, FI_MR_ENDPOINT),
	CONF_WITHOUT(api_13_api_14_not_needed, FI_MR_ENDPOINT),
	CONF_NEED(api_12_api_14_counter_before_enabling, FI_MR_ENDPOINT),
	CONF(api_18_event_for_each_registration),
	CONF(api_18_more_events_than_asked_for),
	CONF(api_18_region_is_written_before_its_event),
	CONF(api_19_threads_share_everything),
	CONF(api_20_lines_name_the_cause),
	CONF(api_20_completions_log_nothing),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
