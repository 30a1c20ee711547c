/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs: bases that stay while they have any (SUB-03), sub-MRs of sub-MRs (SUB-04), and that closing one
 * ends its key and nothing else (SUB-06).  States, counters and events of their own.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/conformance/sub.h"

#define LEN 4096

/* ---- sub-MRs by the hundred: more than the harness looks after ---- */

static void unmade(struct conf_region *r)
{
	for (; r->maps > 0; r->maps--)
		assert_ok(
			fi_mr_unmap_key(r->map[r->maps - 1].user->domain, r->map[r->maps - 1].key));
	conf_close_region(r);
}

struct node {
	struct conf_region region; /* mr NULL: none */
	struct node *base;
	unsigned int kids;
	uint8_t *mem;
	size_t len;
};

static void grow(struct conf_end *end, struct node *node, struct node *base, uint8_t *mem,
		 size_t len)
{
	struct conf_end *keys = end->shares ? end->shares : end;
	struct iovec iov = { mem, len };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = CONF_ALL,
				   .requested_key = keys->next_key++,
				   .base_mr = base ? base->region.mr : NULL };

	*node = (struct node){ .region = { .end = end }, .base = base, .mem = mem, .len = len };
	assert_ok(fi_mr_regattr(end->domain, &attr, 0, &node->region.mr));
	conf_ready(end, node->region.mr, NULL);
	node->region.desc = fi_mr_desc(node->region.mr);
	node->region.addr = end->mode & FI_MR_VIRT_ADDR ? (uintptr_t)mem : 0;
	if (base)
		base->kids++;
}

static void cut(struct node *node)
{
	struct conf_region *r = &node->region;

	if (node->kids > 0) {
		assert_refused_with(fi_close(&r->mr->fid), -FI_EBUSY, "sub-MRs");
		assert_int_equal(r->mr->fid.fclass, FI_CLASS_MR);
		return;
	}
	unmade(r);
	if (node->base)
		node->base->kids--;
}

/* ---- SUB-03 ---- */

static void sub_03_base_is_busy(struct conf *c)
{
	struct conf_region *base, *sub[3];
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	base = l.remote;
	for (int i = 0; i < 3; i++)
		sub[i] = sub_of(base, l.dst + 64 * i, 64, CONF_ALL);
	for (int left = 3; left > 0; left--) {
		for (int again = 0; again < 3; again++)
			assert_refused_with(fi_close(&base->mr->fid), -FI_EBUSY, "sub-MRs");
		/* the attempts have changed nothing */
		sub_works(&l, base, l.dst, LEN);
		for (int i = 0; i < left; i++)
			sub_works(&l, sub[i], l.dst + 64 * i, 64);
		conf_drop_region(sub_of(base, l.dst, LEN, CONF_ALL));
		conf_check_stats(l.b, 1 + (uint64_t)left, LEN + 64 * (uint64_t)left,
				 conf_stats(l.b).mapped_keys);
		conf_drop_region(sub[left - 1]);
	}
	assert_refused(fi_close(&l.b->domain->fid), -FI_EBUSY);
	conf_drop_region(base);
	conf_check_stats(l.b, 0, 0, conf_stats(l.b).mapped_keys);
}

/* Each level of a chain is busy by the next, and only by that. */
static void sub_03_busy_at_every_level(struct conf *c)
{
	struct conf_region *level[8];
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	level[0] = l.remote;
	for (size_t i = 1; i < count_of(level); i++)
		level[i] = sub_of(level[i - 1], l.dst + 16 * i, LEN - 32 * i, CONF_ALL);
	for (size_t left = count_of(level); left > 0; left--) {
		for (size_t i = 0; i + 1 < left; i++)
			assert_refused(fi_close(&level[i]->mr->fid), -FI_EBUSY);
		for (size_t i = 0; i < left; i++)
			sub_works(&l, level[i], l.dst + 16 * i, LEN - 32 * i);
		conf_drop_region(level[left - 1]);
	}
}

/* ---- SUB-03, SUB-04: trees ---- */

enum {
	NODES = 60
};

static struct node *pick(struct conf *c, struct node *tree, bool alive)
{
	for (;;) {
		struct node *node = &tree[conf_below(c, NODES)];

		if (!!node->region.mr == alive)
			return node;
	}
}

static void grow_somewhere(struct conf *c, struct conf_link *l, struct node *tree)
{
	struct node *base = pick(c, tree, true);
	size_t off = conf_below(c, base->len), len = 1 + conf_below(c, base->len - off);

	grow(l->b, pick(c, tree, false), base, base->mem + off, len);
}

static void sub_03_sub_04_any_order(struct conf *c)
{
	static struct node tree[NODES]; /* the first is the root, which is closed last */
	unsigned int count = 1, refused = 0;
	struct conf_link l;

	memset(tree, 0, sizeof(tree));
	conf_link(c, NULL, LEN, &l);
	grow(l.b, &tree[0], NULL, l.dst, LEN);
	for (unsigned int step = 0; step < 400 || count > 1; step++) {
		struct node *node = pick(c, tree, true);

		if (step < 400 && count < NODES && conf_below(c, 5) < 2) {
			grow_somewhere(c, &l, tree);
			count++;
		} else if (step % 4 == 0) {
			sub_works(&l, &node->region, node->mem, node->len);
		} else if (node != &tree[0] || node->kids > 0) {
			refused += node->kids > 0;
			cut(node);
			count -= node->region.mr == NULL;
		}
	}
	assert_true(refused > 0);
	sub_works(&l, &tree[0].region, l.dst, LEN);
	cut(&tree[0]);
	assert_null(tree[0].region.mr);
}

/* ---- SUB-04 ---- */

enum {
	DEPTH = 200
};

static void sub_04_two_hundred_levels(struct conf *c)
{
	static struct node level[DEPTH];
	struct conf_link l;
	struct node *last = &level[DEPTH - 1];

	conf_link(c, NULL, LEN, &l);
	/* each is one byte shorter on either side */
	for (size_t i = 0; i < DEPTH; i++)
		grow(l.b, &level[i], i ? &level[i - 1] : NULL, l.dst + i, LEN - 2 * i);
	for (size_t i = 0; i < DEPTH; i += 33)
		sub_works(&l, &level[i].region, level[i].mem, level[i].len);
	sub_works(&l, &last->region, last->mem, last->len);
	sub_fails(&l, &last->region, -1, 1, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	sub_fails(&l, &last->region, (int64_t)last->len, 1, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	sub_refused(&last->region, (struct iovec){ last->mem - 1, 2 }, CONF_ALL, 0, -FI_EINVAL);
	for (size_t i = DEPTH; i > 0; i--) {
		if (i > 1)
			cut(&level[conf_below(c, i - 1)]); /* busy */
		cut(&level[i - 1]);
		assert_null(level[i - 1].region.mr);
		if (i % 50 == 0)
			sub_works(&l, &level[i - 2].region, level[i - 2].mem, level[i - 2].len);
	}
}

/* ---- SUB-06 ---- */

/* Keys that the program chose are not told from those that never were. */
static int dead_cause(const struct conf *c)
{
	return c->mode & (FI_MR_PROV_KEY | FI_MR_RAW) ? HMREG_KEY_CLOSED : HMREG_KEY_UNKNOWN;
}

static void sub_06_one_of_a_family_is_closed(struct conf *c)
{
	struct conf_region *sub[3], *below[3];
	uint64_t key[2], addr[2];
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	for (int i = 0; i < 3; i++) /* over the same bytes */
		sub[i] = sub_of(l.remote, l.dst, LEN, CONF_ALL);
	below[0] = sub_of(sub[0], l.dst, LEN, CONF_ALL);
	below[1] = sub_of(sub[0], l.dst + 8, LEN - 8, CONF_ALL);
	below[2] = sub_of(sub[1], l.dst, LEN, CONF_ALL);
	for (int i = 0; i < 2; i++) {
		struct conf_region *dying = i ? below[0] : sub[2];

		key[i] = conf_key(l.a, dying);
		addr[i] = dying->addr;
		conf_close_region(dying);
	}
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 2; i++) {
			assert_posted(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, addr[i],
					       key[i], c));
			conf_failed(l.a->tx, c, FI_ENOKEY, dead_cause(c));
		}
		sub_works(&l, l.remote, l.dst, LEN);
		sub_works(&l, sub[0], l.dst, LEN);
		sub_works(&l, sub[1], l.dst, LEN);
		sub_works(&l, below[1], l.dst + 8, LEN - 8);
		sub_works(&l, below[2], l.dst, LEN);
	}
}

/* Dead at once and for good, though others of the same memory come and go. */
static void sub_06_key_is_dead(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	for (int round = 0; round < 20; round++) {
		struct conf_region *sub = sub_of(l.remote, l.dst, LEN, CONF_ALL);
		struct conf_region *next;
		uint64_t key = conf_key(l.a, sub), addr = sub->addr;

		sub_put(&l, sub, l.dst, 0, 8);
		conf_close_region(sub);
		memset(l.dst, 0x77, LEN);
		next = sub_of(l.remote, l.dst, LEN, CONF_ALL);
		assert_posted(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, addr, key, c));
		conf_failed(l.a->tx, c, FI_ENOKEY, dead_cause(c));
		assert_int_equal(l.dst[0], 0x77);
		assert_refused(fi_send(l.b->ep, l.dst, 8, sub->desc, conf_addr(l.b, l.a), c),
			       -FI_EINVAL);
		sub_works(&l, next, l.dst, LEN);
		conf_drop_region(next);
		for (; sub->maps > 0; sub->maps--)
			assert_ok(fi_mr_unmap_key(l.a->domain, key));
	}
}

/* ---- SUB-06 under load ---- */

#define CANARY 0xca

/* Writes by one key, over and over, until told to stop. */
struct writer {
	struct conf_end *end;
	uint8_t *src;
	void *desc;
	fi_addr_t to;
	uint64_t addr, key;
	_Atomic bool stop;
	_Atomic unsigned long done, failed;
	_Atomic unsigned long broken; /* calls that gave what they must not give */
};

static void *write_on(void *arg)
{
	struct writer *w = arg;

	while (!atomic_load(&w->stop)) {
		struct fi_cq_data_entry entry;
		struct fi_cq_err_entry error = { 0 };
		ssize_t ret = fi_write(w->end->ep, w->src, 64, w->desc, w->to, w->addr, w->key, w);

		if (ret == -FI_EAGAIN)
			continue;
		while (ret == 0 && (ret = fi_cq_read(w->end->tx, &entry, 1)) == -FI_EAGAIN)
			ret = 0;
		if (ret == 1)
			atomic_fetch_add(&w->done, 1);
		else if (ret == -FI_EAVAIL && fi_cq_readerr(w->end->tx, &error, 0) == 1)
			atomic_fetch_add(&w->failed, 1);
		else
			atomic_fetch_add(&w->broken, 1);
	}
	return NULL;
}

static void await_more(_Atomic unsigned long *count, unsigned long n)
{
	unsigned long before = atomic_load(count);
	time_t start = conf_now();

	while (atomic_load(count) < before + n && conf_now() - start < CONF_TIMEOUT_S)
		sched_yield();
	assert_true(atomic_load(count) >= before + n);
}

static void start_writer(struct conf_link *l, struct writer *w, pthread_t *thread,
			 struct conf_end *end, struct conf_region *target)
{
	*w = (struct writer){ .end = end,
			      .src = l->src,
			      .desc = l->local->desc,
			      .to = conf_addr(end, l->b),
			      .addr = target->addr,
			      .key = conf_key(l->a, target) };
	assert_int_equal(pthread_create(thread, NULL, write_on, w), 0);
}

static void stop_writer(struct writer *w, pthread_t thread)
{
	atomic_store(&w->stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&w->broken), 0);
}

/* One is closed while peers write by it and by its sibling. */
static void sub_06_closed_under_load(struct conf *c)
{
	struct conf_end *second;
	struct conf_region *victim, *other;
	struct writer w[2];
	pthread_t thread[2];
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	second = conf_open(c, &(struct conf_opts){ .same_domain = l.a });
	other = sub_of(l.remote, l.dst + 1024, 64, CONF_REMOTE);
	start_writer(&l, &w[1], &thread[1], second, other);
	for (int round = 0; round < 10; round++) {
		victim = sub_of(l.remote, l.dst, 64, FI_REMOTE_WRITE);
		start_writer(&l, &w[0], &thread[0], l.a, victim);
		await_more(&w[0].done, 1 + conf_below(c, 20));
		assert_refused(fi_close(&l.remote->mr->fid), -FI_EBUSY);
		conf_close_region(victim);
		memset(l.dst, CANARY, 64); /* nobody writes there any more */
		await_more(&w[0].failed, 5);
		await_more(&w[1].done, 5);
		for (size_t i = 0; i < 64; i++)
			assert_int_equal(l.dst[i], CANARY);
		stop_writer(&w[0], thread[0]);
		for (; victim->maps > 0; victim->maps--)
			assert_ok(fi_mr_unmap_key(l.a->domain, w[0].key));
	}
	stop_writer(&w[1], thread[1]);
	assert_int_equal(atomic_load(&w[1].failed), 0);
	sub_works(&l, other, l.dst + 1024, 64);
}

/* ---- ATTR-06 ---- */

static void attr_06_sub_04_hint_is_no_limit(struct conf *c)
{
	static const size_t hints[] = { 0, 1, 3, 1000, 1u << 20, SIZE_MAX / 2, SIZE_MAX };
	struct conf_link l;

	conf_link(c, NULL, LEN, &l);
	for (size_t i = 0; i < count_of(hints); i++) {
		struct iovec iov = { l.dst, LEN };
		struct fi_mr_attr attr = {
			.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .sub_mr_cnt = hints[i]
		};
		struct conf_region *base = conf_regattr(l.b, &attr, 0), *sub[5];

		attr.base_mr = base->mr; /* a sub-MR may expect some of its own */
		for (size_t k = 0; k < count_of(sub); k++)
			sub[k] = conf_regattr(l.b, &attr, 0);
		for (size_t k = count_of(sub); k > 0; k--) {
			sub_works(&l, sub[k - 1], l.dst, LEN);
			conf_drop_region(sub[k - 1]);
		}
		conf_drop_region(base);
	}
}

/* ---- states of their own ---- */

static struct conf_region made(struct conf_region *base, uint8_t *mem, size_t len, uint64_t flags)
{
	struct conf_end *end = base->end;
	struct iovec iov = { mem, len };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = CONF_ALL,
				   .requested_key = end->next_key++,
				   .base_mr = base->mr };
	struct conf_region r = { .end = end };

	assert_ok(fi_mr_regattr(end->domain, &attr, flags, &r.mr));
	r.desc = fi_mr_desc(r.mr);
	r.addr = end->mode & FI_MR_VIRT_ADDR ? (uintptr_t)mem : 0;
	return r;
}

static void api_13_api_14_sub_01_endpoint_of_its_own(struct conf *c)
{
	struct conf_end *second;
	struct conf_region off, sub, below;
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	second = conf_open(c, &(struct conf_opts){ .same_domain = l.b });
	sub = made(l.remote, l.dst, 64, 0); /* the base is enabled, this is not */
	sub_fails(&l, &sub, 0, 8, FI_EOPBADSTATE, HMREG_DISABLED);
	assert_refused(fi_send(l.b->ep, l.dst, 8, sub.desc, conf_addr(l.b, l.a), c), -FI_EINVAL);
	assert_refused(fi_mr_enable(sub.mr), -FI_EOPBADSTATE);
	assert_ok(fi_mr_bind(sub.mr, &second->ep->fid, 0));
	assert_ok(fi_mr_enable(sub.mr));
	sub_fails(&l, &sub, 0, 8, FI_EACCES, HMREG_OTHER_ENDPOINT);
	assert_refused(fi_close(&second->ep->fid), -FI_EBUSY);
	sub_works(&l, l.remote, l.dst, 64);
	l.to = conf_addr(l.a, second);
	sub_works(&l, &sub, l.dst, 64);
	/* and the other way round: a base that never was enabled */
	off = *conf_reg_raw(l.b, l.dst, 64, CONF_ALL);
	c->regions--;
	below = made(&off, l.dst, 64, 0);
	conf_ready(second, below.mr, NULL);
	sub_works(&l, &below, l.dst, 64);
	sub_fails(&l, &off, 0, 8, FI_EOPBADSTATE, HMREG_DISABLED);
	assert_refused(fi_close(&off.mr->fid), -FI_EBUSY);
	unmade(&below);
	unmade(&off);
	unmade(&sub);
}

static void flag_01_sub_01_counters_of_their_own(struct conf *c)
{
	const uint64_t caps = CONF_CAPS | FI_RMA_EVENT;
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct conf_region sub[2];
	struct fid_cntr *cntr[2];
	struct conf_link l;

	conf_need_caps(c, caps);
	conf_link(c, &(struct conf_opts){ .caps = caps }, 64, &l);
	for (int i = 0; i < 2; i++) {
		assert_ok(fi_cntr_open(l.b->domain, &attr, &cntr[i], NULL));
		sub[i] = made(i ? &sub[0] : l.remote, l.dst, 64,
			      l.b->mode & FI_MR_RMA_EVENT ? FI_RMA_EVENT : 0);
		if (l.b->mode & FI_MR_RMA_EVENT)
			sub_fails(&l, &sub[i], 0, 8, FI_EOPBADSTATE, HMREG_DISABLED);
		conf_ready(l.b, sub[i].mr, cntr[i]);
	}
	for (int n = 1; n < 4; n++) {
		sub_works(&l, &sub[0], l.dst, 64);
		sub_works(&l, l.remote, l.dst, 64); /* counted nowhere */
		sub_works(&l, &sub[1], l.dst, 64);
		sub_works(&l, &sub[1], l.dst, 64);
		assert_int_equal(fi_cntr_read(cntr[0]), n);
		assert_int_equal(fi_cntr_read(cntr[1]), 2 * n);
	}
	assert_refused(fi_close(&cntr[1]->fid), -FI_EBUSY);
	for (int i = 1; i >= 0; i--) {
		unmade(&sub[i]);
		assert_ok(fi_close(&cntr[i]->fid));
	}
}

static void flag_06_sub_06_single_use(struct conf *c)
{
	struct conf_region *base, *once, *often;
	struct conf_link l;
	struct iovec iov;

	conf_need_flag(c, FI_MR_SINGLE_USE);
	conf_link(c, NULL, 64, &l);
	once = sub_with(l.remote, l.dst, 64, CONF_ALL, FI_MR_SINGLE_USE);
	often = sub_of(once, l.dst, 64, CONF_ALL);
	sub_works(&l, often, l.dst, 64);
	sub_put(&l, once, l.dst, 0, 64);
	sub_fails(&l, once, 0, 8, FI_ENOKEY, HMREG_KEY_USED_UP);
	sub_works(&l, often, l.dst, 64);
	sub_works(&l, l.remote, l.dst, 64);
	conf_drop_region(often);
	conf_drop_region(once);
	/* a base's one use does not touch its sub-MRs */
	iov = (struct iovec){ l.dst, 64 };
	base = conf_regv(l.b, &iov, 1, CONF_ALL, FI_MR_SINGLE_USE, NULL);
	often = sub_of(base, l.dst, 64, CONF_ALL);
	sub_put(&l, base, l.dst, 0, 8);
	sub_fails(&l, base, 0, 8, FI_ENOKEY, HMREG_KEY_USED_UP);
	sub_works(&l, often, l.dst, 64);
}

/* Refreshing is for a part of what is refreshed: the sub-MR's own. */
static void api_15_sub_01_refresh(struct conf *c)
{
	struct conf_region *sub;
	struct conf_link l;
	struct iovec part;

	conf_link(c, NULL, LEN, &l);
	sub = sub_of(l.remote, l.dst + 512, 512, CONF_ALL);
	part = (struct iovec){ l.dst + 600, 8 };
	assert_ok(fi_mr_refresh(sub->mr, &part, 1, 0));
	assert_ok(fi_mr_refresh(sub->mr, NULL, 0, 0));
	part.iov_base = l.dst;
	assert_refused(fi_mr_refresh(sub->mr, &part, 1, 0), -FI_EINVAL);
	assert_ok(fi_mr_refresh(l.remote->mr, &part, 1, 0));
	assert_ok(fi_mr_refresh(l.remote->mr, NULL, 0, 0));
	sub_works(&l, sub, l.dst + 512, 512);
	sub_works(&l, l.remote, l.dst, LEN);
}

static void api_18_sub_01_event_of_its_own(struct conf *c)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	uint8_t *buf = conf_alloc(c, 64);
	struct iovec iov = { buf, 64 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct fi_eq_entry entry;
	struct fid_mr *mr[2];
	struct fid_eq *eq;
	uint32_t event;

	assert_ok(fi_eq_open(end->fabric, &eq_attr, &eq, NULL));
	assert_ok(fi_domain_bind(end->domain, &eq->fid, FI_REG_MR));
	for (int i = 0; i < 2; i++) {
		attr.requested_key = 1 + (uint64_t)i;
		attr.context = &mr[i];
		attr.base_mr = i ? mr[0] : NULL;
		assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr[i]));
		assert_answer(fi_eq_sread(eq, &event, &entry, sizeof(entry), 5000, 0),
			      sizeof(entry));
		assert_int_equal(event, FI_MR_COMPLETE);
		assert_ptr_equal(entry.fid, &mr[i]->fid);
		assert_ptr_equal(entry.context, &mr[i]);
	}
	iov.iov_len = 65; /* no event of a call that failed */
	attr.requested_key = 3;
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &(struct fid_mr *){ NULL }),
		       -FI_EINVAL);
	assert_answer(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	assert_ok(fi_close(&mr[1]->fid));
	assert_ok(fi_close(&mr[0]->fid));
	assert_ok(fi_close(&end->domain->fid));
	end->domain = NULL;
	assert_ok(fi_close(&eq->fid));
}

static const struct conf_case cases[] = {
	CONF(sub_03_base_is_busy),
	CONF(sub_03_busy_at_every_level),
	CONF(sub_03_sub_04_any_order),
	CONF(sub_04_two_hundred_levels),
	CONF(sub_06_one_of_a_family_is_closed),
	CONF(sub_06_key_is_dead),
	CONF(sub_06_closed_under_load),
	CONF(attr_06_sub_04_hint_is_no_limit),
	CONF_NEED(api_13_api_14_sub_01_endpoint_of_its_own, FI_MR_ENDPOINT),
	CONF(flag_01_sub_01_counters_of_their_own),
	CONF(flag_06_sub_06_single_use),
	CONF_NEED(api_15_sub_01_refresh, FI_MR_MMU_NOTIFY),
	CONF(api_18_sub_01_event_of_its_own),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
