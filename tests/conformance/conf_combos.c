/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each rule of an mr_mode bit, with and without it, beside every set of the others (MODE-02 to MODE-10).
 *
 * The sets are those that the port lets hints choose: all 2048 on the software NIC's sw-any, a few on
 * an RDMA device, one on the other profiles.  What a set demands is told by its bits alone.
 */
#include "tests/conformance/pages.h"

#define EVENT_CAPS (CONF_CAPS | FI_RMA_EVENT)
#define LEN	   64

static const int bits[] = { FI_MR_LOCAL,    FI_MR_RAW,	      FI_MR_VIRT_ADDR, FI_MR_ALLOCATED,
			    FI_MR_PROV_KEY, FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT,
			    FI_MR_HMEM,	    FI_MR_COLLECTIVE, FI_MR_XPU_DESC };

/* One set of bits. */
struct set {
	struct conf *c;
	int mode;
	uint64_t caps;
	uint8_t *src, *dst; /* LEN bytes each, for all sets */
};

static void fail_in_set(const struct set *s, const char *what)
{
	char text[256];

	fail_msg("mr_mode [%s]: %s", fi_tostr_r(text, sizeof(text), &s->mode, FI_TYPE_MR_MODE),
		 what);
}

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_in_set(s, #condition);                                                \
	} while (0)

/* Runs fn for each set of kept bits. */
static void for_each_set(struct conf *c, uint64_t caps, void (*fn)(struct set *s))
{
	int needed = c->profile->needed, kept = c->profile->kept;
	unsigned int step =
		conf_brief() ? 5 : 1; /* odd: each bit is still with and without each other */
	struct set s = { .c = c, .caps = caps };
	unsigned int sets = 0;

	s.src = conf_alloc(c, LEN);
	s.dst = conf_alloc(c, LEN);
	for (unsigned int i = 0; i < 1u << count_of(bits); i += step) {
		int mode = 0;

		for (size_t k = 0; k < count_of(bits); k++)
			mode |= i & 1u << k ? bits[k] : 0;
		if ((mode & ~(needed | kept)) || (needed & ~mode))
			continue;
		s.mode = mode;
		fn(&s);
		sets++;
	}
	assert_true(sets >= 1);
	print_message("%u sets\n", sets);
}

static struct conf_opts opts_of(const struct set *s, bool no_ep)
{
	/* 0 is "as the profile has it" for the harness: the bits that it needs, which are none then */
	return (struct conf_opts){ .mode = s->mode, .caps = s->caps, .no_ep = no_ep };
}

/* For registrations: an endpoint only where regions are bound to one. */
static struct conf_end *open_one(struct set *s)
{
	struct conf_opts opts = opts_of(s, !(s->mode & FI_MR_ENDPOINT));
	struct conf_end *end = conf_open(s->c, &opts);

	must(end->mode == s->mode);
	return end;
}

static void open_link(struct set *s, struct conf_link *l)
{
	struct conf_opts opts = opts_of(s, false);

	conf_pair(s->c, &opts, &l->a, &l->b);
	must(l->a->mode == s->mode && l->b->mode == s->mode);
	l->to = conf_addr(l->a, l->b);
	l->src = s->src;
	l->dst = s->dst;
	l->len = LEN;
	l->local = conf_reg(l->a, l->src, LEN, CONF_ALL);
	l->remote = conf_reg(l->b, l->dst, LEN, CONF_ALL);
	l->key = conf_key(l->a, l->remote);
}

static void close_link(struct conf_link *l)
{
	conf_drop_region(l->remote);
	conf_drop_region(l->local);
	conf_drop_end(l->b);
	conf_drop_end(l->a);
}

/* The harness's profile of the current run must not offer more than this. */
static void need_minimal(struct conf *c)
{
	if (c->profile->offered & ~c->profile->needed)
		conf_skip(c, "runs once for each port, with the bits that it needs (:minimal)");
}

/* ---- what every set can do ---- */

static void transfer(struct set *s)
{
	struct conf_link l;

	open_link(s, &l);
	conf_works(&l);
	close_link(&l);
}

static void mode_02_transfers(struct conf *c)
{
	need_minimal(c);
	for_each_set(c, CONF_CAPS, transfer);
}

/* ---- MODE-03, MODE-05 ---- */

static void descriptors(struct set *s)
{
	struct conf_link l;

	open_link(s, &l);
	if (s->mode & FI_MR_LOCAL) {
		assert_refused_with(fi_write(l.a->ep, l.src, 8, NULL, l.to, l.remote->addr, l.key,
					     s),
				    -FI_EINVAL, "FI_MR_LOCAL");
	} else {
		assert_ok(fi_write(l.a->ep, l.src, 8, NULL, l.to, l.remote->addr, l.key, s));
		conf_done(l.a->tx, s);
	}
	assert_refused(fi_write(l.a->ep, l.src, 8, &l, l.to, l.remote->addr, l.key, s), -FI_EINVAL);
	close_link(&l);
}

static void mode_03_desc(struct conf *c)
{
	need_minimal(c);
	for_each_set(c, CONF_CAPS, descriptors);
}

static void addresses(struct set *s)
{
	bool virtual = s->mode & FI_MR_VIRT_ADDR;
	uint64_t at[2];
	struct conf_link l;

	open_link(s, &l);
	at[virtual] = 8;
	at[!virtual] = (uintptr_t)(l.dst + 8);
	memset(l.dst, 0, LEN);
	memset(l.src, 0x61, LEN);
	assert_ok(fi_write(l.a->ep, l.src, 1, l.local->desc, l.to, at[0], l.key, s));
	conf_done(l.a->tx, s);
	for (size_t i = 0; i < LEN; i++)
		must(l.dst[i] == (i == 8 ? 0x61 : 0));
	assert_ok(fi_write(l.a->ep, l.src, 1, l.local->desc, l.to, at[1], l.key, s));
	conf_failed(l.a->tx, s, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	close_link(&l);
}

static void mode_05_addresses(struct conf *c)
{
	need_minimal(c);
	for_each_set(c, CONF_CAPS, addresses);
}

/* ---- MODE-04, MODE-07 ---- */

/* What the owner tells of its key. */
static void told(struct set *s, struct fid_mr *mr, uint64_t requested)
{
	bool raw = s->mode & FI_MR_RAW;
	uint8_t key[64];
	size_t size = sizeof(key);
	uint64_t base = 1;

	if (raw)
		must(fi_mr_key(mr) == FI_KEY_NOTAVAIL);
	else if (!(s->mode & FI_MR_PROV_KEY))
		must(fi_mr_key(mr) == requested);
	assert_ok(fi_mr_raw_attr(mr, &base, key, &size, 0));
	must(size == (raw ? 16 : 8));
	must(base == (s->mode & FI_MR_VIRT_ADDR ? (uintptr_t)s->dst : 0));
}

static void keys(struct set *s)
{
	bool chosen = !(s->mode & FI_MR_PROV_KEY);
	struct conf_end *end = open_one(s);
	struct fid_mr *mr, *second = NULL;

	must(end->info->domain_attr->mr_key_size == (s->mode & FI_MR_RAW ? 16 : 8));
	assert_ok(fi_mr_reg(end->domain, s->dst, LEN, CONF_ALL, 0, 4711, 0, &mr, NULL));
	told(s, mr, 4711);
	if (chosen) {
		assert_refused(fi_mr_reg(end->domain, s->dst, LEN, CONF_ALL, 0, 4711, 0, &second,
					 NULL),
			       -FI_ENOKEY);
		assert_refused(fi_mr_reg(end->domain, s->dst, LEN, CONF_ALL, 0, FI_KEY_NOTAVAIL, 0,
					 &second, NULL),
			       -FI_EKEYREJECTED);
		must(!second);
	} else {
		assert_ok(fi_mr_reg(end->domain, s->dst, LEN, CONF_ALL, 0, 4711, 0, &second, NULL));
		assert_ok(fi_close(&second->fid));
	}
	assert_ok(fi_close(&mr->fid));
	conf_check_stats(end, 0, 0, 0);
	conf_drop_end(end);
}

static void mode_04_mode_07_keys(struct conf *c)
{
	need_minimal(c);
	for_each_set(c, CONF_CAPS, keys);
}

static void keys_as_they_are(struct set *s)
{
	struct conf_link l;

	open_link(s, &l);
	if (s->mode & FI_MR_RAW) {
		assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr, 1, s));
		conf_failed(l.a->tx, s, FI_EKEYREJECTED, HMREG_KEY_NOT_MAPPED);
	} else {
		assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr,
				   fi_mr_key(l.remote->mr), s));
		conf_done(l.a->tx, s);
	}
	close_link(&l);
}

static void mode_04_mapping(struct conf *c)
{
	need_minimal(c);
	for_each_set(c, CONF_CAPS, keys_as_they_are);
}

/* ---- MODE-06, and MODE-08's FI_MR_MMU_NOTIFY ---- */

static void pages_of(struct set *s)
{
	bool looks = s->mode & (FI_MR_ALLOCATED | FI_MR_MMU_NOTIFY);
	struct conf_end *end = open_one(s);
	uint8_t *mem = conf_map_pages(1, -1);
	struct fid_mr *mr;
	int ret;

	munmap(mem, conf_page());
	if (s->mode & FI_MR_ALLOCATED) {
		assert_refused(fi_mr_reg(end->domain, mem, LEN, CONF_ALL, 0, 1, 0, &mr, NULL),
			       -FI_EFAULT);
		conf_map_at(mem, 1, -1);
	}
	assert_ok(fi_mr_reg(end->domain, mem, LEN, CONF_ALL, 0, 1, 0, &mr, NULL));
	munmap(mem, conf_page());
	conf_log_mark(__FILE__, __LINE__);
	ret = fi_mr_refresh(mr, NULL, 0, 0);
	conf_log_expect(ret ? 1 : 0, NULL, "fi_mr_refresh", __FILE__, __LINE__);
	if (s->c->profile->at_once)
		must(ret == (looks ? -FI_EFAULT : 0));
	else
		must(ret == 0 || ret == -FI_EFAULT || ret == -FI_ENOSYS);
	assert_ok(fi_close(&mr->fid));
	conf_drop_end(end);
}

static void mode_06_mode_08_pages(struct conf *c)
{
	need_minimal(c);
	if (conf_valgrind())
		conf_skip(c, "valgrind reports the faults that are meant to happen");
	for_each_set(c, CONF_CAPS, pages_of);
}

/* ---- MODE-08: FI_MR_RMA_EVENT, FI_MR_ENDPOINT ---- */

static void try_write(struct set *s, struct conf_link *l, struct conf_region *region, bool open)
{
	assert_ok(fi_write(l->a->ep, l->src, 8, l->local->desc, l->to, region->addr,
			   conf_key(l->a, region), s));
	if (open)
		conf_done(l->a->tx, s);
	else
		conf_failed(l->a->tx, s, FI_EOPBADSTATE, HMREG_DISABLED);
}

/* A region with or without FI_RMA_EVENT; returns what the writes that it took are counted as. */
static void bind_and_enable(struct set *s, struct conf_link *l, struct fid_cntr *cntr,
			    uint64_t flags)
{
	bool endpoint = s->mode & FI_MR_ENDPOINT, event = s->mode & FI_MR_RMA_EVENT;
	bool disabled = endpoint || (event && flags);
	uint64_t before = fi_cntr_read(cntr);
	struct conf_region *region = &s->c->region[s->c->regions++];
	struct fid_mr *mr;

	assert_ok(fi_mr_reg(l->b->domain, l->dst, LEN, CONF_ALL, 0, l->b->next_key++, flags, &mr,
			    NULL));
	*region = (struct conf_region){ .end = l->b, .mr = mr, .desc = fi_mr_desc(mr) };
	region->addr = s->mode & FI_MR_VIRT_ADDR ? (uintptr_t)l->dst : 0;
	try_write(s, l, region, !disabled);
	if (event && flags)
		assert_refused(fi_mr_enable(mr), -FI_EOPBADSTATE);
	if (endpoint)
		assert_ok(fi_mr_bind(mr, &l->b->ep->fid, 0));
	else
		assert_refused(fi_mr_bind(mr, &l->b->ep->fid, 0), -FI_EINVAL);
	if (event && !flags)
		assert_refused(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE),
			       disabled ? -FI_EINVAL : -FI_EOPBADSTATE);
	else
		assert_ok(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	if (disabled)
		assert_ok(fi_mr_enable(mr));
	else
		assert_refused(fi_mr_enable(mr), -FI_EOPBADSTATE);
	try_write(s, l, region, true);
	must(fi_cntr_read(cntr) == before + (event && !flags ? 0 : 1));
	conf_drop_region(region);
}

static void binding(struct set *s)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;
	struct conf_link l;

	open_link(s, &l);
	assert_ok(fi_cntr_open(l.b->domain, &attr, &cntr, NULL));
	bind_and_enable(s, &l, cntr, 0);
	bind_and_enable(s, &l, cntr, FI_RMA_EVENT);
	assert_ok(fi_close(&cntr->fid));
	close_link(&l);
}

static void mode_08_flag_01_binding(struct conf *c)
{
	need_minimal(c);
	conf_need_caps(c, EVENT_CAPS);
	for_each_set(c, EVENT_CAPS, binding);
}

/* ---- MODE-10 ---- */

static void collective(struct set *s)
{
	static const struct {
		uint64_t access;
		bool alone;
	} cases[] = {
		{ FI_COLLECTIVE, true },
		{ FI_COLLECTIVE | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, true },
		{ FI_COLLECTIVE | FI_SEND, false },
		{ FI_COLLECTIVE | FI_RECV, false },
		{ FI_COLLECTIVE | FI_SEND | FI_RECV, false },
		{ FI_COLLECTIVE | CONF_ALL, false },
	};
	struct conf_end *end = open_one(s);

	for (size_t i = 0; i < count_of(cases); i++) {
		struct fid_mr *mr = NULL;

		if (cases[i].alone && (s->mode & FI_MR_COLLECTIVE)) {
			assert_refused_with(fi_mr_reg(end->domain, s->dst, LEN, cases[i].access, 0,
						      1, 0, &mr, NULL),
					    -FI_EINVAL, "FI_COLLECTIVE");
			must(!mr);
			continue;
		}
		assert_ok(fi_mr_reg(end->domain, s->dst, LEN, cases[i].access, 0, 1, 0, &mr, NULL));
		assert_ok(fi_close(&mr->fid));
	}
	conf_check_stats(end, 0, 0, 0);
	conf_drop_end(end);
}

static void mode_10_collective(struct conf *c)
{
	need_minimal(c);
	for_each_set(c, CONF_CAPS, collective);
}

static const struct conf_case cases[] = {
	CONF(mode_02_transfers),       CONF(mode_03_desc),	 CONF(mode_05_addresses),
	CONF(mode_04_mode_07_keys),    CONF(mode_04_mapping),	 CONF(mode_06_mode_08_pages),
	CONF(mode_08_flag_01_binding), CONF(mode_10_collective),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
