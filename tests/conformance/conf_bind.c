/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions that are bound to counters and endpoints, and those that have to be enabled (API-12 to API-14,
 * FLAG-01, MODE-08): with and without the mode bits, in each order, and as parts of other regions.
 */
#include "tests/conformance/harness.h"

#define EVENT_CAPS (CONF_CAPS | FI_RMA_EVENT)

/* a reaches b's buffer, and b's domain has a second endpoint, which a reaches as well. */
struct scene {
	struct conf_link l;
	struct conf_end *beside;
	fi_addr_t to_beside;
	struct fid_cntr *cntr, *other;
};

static struct fid_cntr *open_cntr(struct conf_end *end)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;

	assert_ok(fi_cntr_open(end->domain, &attr, &cntr, NULL));
	return cntr;
}

static void open_scene(struct conf *c, struct scene *s)
{
	conf_need_caps(c, EVENT_CAPS);
	conf_link(c, &(struct conf_opts){ .caps = EVENT_CAPS }, 256, &s->l);
	s->beside = conf_open(c, &(struct conf_opts){ .same_domain = s->l.b });
	s->to_beside = conf_addr(s->l.a, s->beside);
	s->cntr = open_cntr(s->l.b);
	s->other = open_cntr(s->l.b);
}

/* Both are free again. */
static void close_scene(struct scene *s)
{
	assert_ok(fi_close(&s->cntr->fid));
	assert_ok(fi_close(&s->other->fid));
}

/* Registered, and nothing more; base may be NULL. */
static struct conf_region *reg(struct scene *s, size_t at, size_t len, uint64_t flags,
			       const struct conf_region *base)
{
	struct conf *c = s->l.b->conf;
	struct iovec iov = { s->l.dst + at, len };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = CONF_ALL,
				   .requested_key = s->l.b->next_key++,
				   .base_mr = base ? base->mr : NULL };
	struct conf_region *region = &c->region[c->regions++];
	struct fid_mr *mr;

	assert_true(c->regions <= CONF_REGIONS);
	assert_ok(fi_mr_regattr(s->l.b->domain, &attr, flags, &mr));
	*region = (struct conf_region){ .end = s->l.b, .mr = mr, .desc = fi_mr_desc(mr) };
	region->addr = s->l.b->mode & FI_MR_VIRT_ADDR ? (uintptr_t)iov.iov_base : 0;
	return region;
}

/* All that the mode wants of a region without a counter. */
static void make_ready(struct scene *s, struct conf_region *region)
{
	conf_ready(s->l.b, region->mr, NULL);
}

static void write_by(struct scene *s, struct conf_region *region, fi_addr_t to, int why)
{
	struct conf_link *l = &s->l;

	assert_ok(fi_write(l->a->ep, l->src, 8, l->local->desc, to, region->addr,
			   conf_key(l->a, region), l));
	if (why == HMREG_DISABLED)
		conf_failed(l->a->tx, l, FI_EOPBADSTATE, why);
	else if (why == HMREG_OTHER_ENDPOINT)
		conf_failed(l->a->tx, l, FI_EACCES, why);
	else if (why == HMREG_KEY_USED_UP)
		conf_failed(l->a->tx, l, FI_ENOKEY, why);
	else
		conf_done(l->a->tx, l);
}

static void write_to(struct scene *s, struct conf_region *region, int why)
{
	write_by(s, region, s->l.to, why);
}

static void counted(struct fid_cntr *cntr, uint64_t want)
{
	assert_ok(fi_cntr_wait(cntr, want, 5000));
	assert_int_equal(fi_cntr_read(cntr), want);
	assert_int_equal(fi_cntr_readerr(cntr), 0);
}

/* ---- FLAG-01 ---- */

static void flag_01_needs_the_capability(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 64);
	struct fid_mr *mr = NULL;

	assert_refused_with(fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, 1, FI_RMA_EVENT, &mr,
				      NULL),
			    -FI_EBADFLAGS, "FI_RMA_EVENT");
	assert_null(mr);
	conf_check_stats(end, 0, 0, 0);
}

static void bind_both(struct scene *s, struct conf_region *flagged, struct conf_region *plain)
{
	assert_ok(fi_mr_bind(flagged->mr, &s->cntr->fid, FI_REMOTE_WRITE));
	assert_ok(fi_mr_bind(plain->mr, &s->other->fid, FI_REMOTE_WRITE));
}

/* Without FI_MR_RMA_EVENT the flag says what will be, and changes nothing: bound now or later or never. */
static void flag_01_api_12_without_the_mode(struct conf *c)
{
	bool early = c->mode &
		     FI_MR_ENDPOINT; /* where regions are enabled, nothing is bound after that */
	struct conf_region *flagged, *plain;
	struct scene s;

	open_scene(c, &s);
	flagged = reg(&s, 0, 64, FI_RMA_EVENT, NULL);
	plain = reg(&s, 64, 64, 0, NULL);
	if (early)
		bind_both(&s, flagged, plain);
	make_ready(&s, flagged);
	make_ready(&s, plain);
	assert_refused(fi_mr_enable(flagged->mr), -FI_EOPBADSTATE);
	if (!early) {
		write_to(&s, flagged, 0); /* before, so that it is not counted */
		bind_both(&s, flagged, plain);
	}
	for (uint64_t i = 1; i <= 3; i++) {
		write_to(&s, flagged, 0);
		counted(s.cntr, i);
		write_to(&s, plain, 0);
		counted(s.other, i);
	}
	conf_drop_region(plain);
	conf_drop_region(flagged);
	close_scene(&s);
}

/* With it, the region is born disabled, and has its counter before it is enabled. */
static void flag_01_mode_08_api_14_with_the_mode(struct conf *c)
{
	bool endpoint = c->mode & FI_MR_ENDPOINT;
	struct conf_region *region;
	struct scene s;

	open_scene(c, &s);
	region = reg(&s, 0, 64, FI_RMA_EVENT, NULL);
	write_to(&s, region, HMREG_DISABLED);
	assert_refused(fi_recv(s.l.b->ep, s.l.dst, 8, region->desc, FI_ADDR_UNSPEC, c), -FI_EINVAL);
	if (endpoint) {
		assert_refused(fi_mr_enable(region->mr), -FI_EOPBADSTATE);
		assert_ok(fi_mr_bind(region->mr, &s.l.b->ep->fid, 0));
	}
	assert_refused_with(fi_mr_enable(region->mr), -FI_EOPBADSTATE, "counter");
	write_to(&s, region, HMREG_DISABLED);
	assert_ok(fi_mr_bind(region->mr, &s.cntr->fid, FI_REMOTE_WRITE));
	write_to(&s, region, HMREG_DISABLED);
	assert_int_equal(fi_cntr_read(s.cntr), 0);
	assert_ok(fi_mr_enable(region->mr));
	write_to(&s, region, 0);
	counted(s.cntr, 1);
	assert_refused(fi_mr_enable(region->mr), -FI_EOPBADSTATE);
	assert_refused(fi_mr_bind(region->mr, &s.other->fid, FI_REMOTE_WRITE), -FI_EOPBADSTATE);
	conf_drop_region(region);
	close_scene(&s);
}

/* A region that was not announced gets no counter, enabled or not. */
static void flag_01_mode_08_not_announced(struct conf *c)
{
	bool endpoint = c->mode & FI_MR_ENDPOINT;
	struct conf_region *region;
	struct scene s;

	open_scene(c, &s);
	region = reg(&s, 0, 64, 0, NULL);
	assert_refused(fi_mr_bind(region->mr, &s.cntr->fid, FI_REMOTE_WRITE),
		       endpoint ? -FI_EINVAL : -FI_EOPBADSTATE);
	make_ready(&s, region);
	write_to(&s, region, 0);
	assert_refused(fi_mr_bind(region->mr, &s.cntr->fid, FI_REMOTE_WRITE), -FI_EOPBADSTATE);
	assert_int_equal(fi_cntr_read(s.cntr), 0);
	close_scene(&s); /* held by nobody */
}

/* ---- API-12 ---- */

/* Through an endpoint without FI_RMA_EVENT nothing is counted. */
static void api_12_endpoint_without_events(struct conf *c)
{
	struct conf_region *region;
	struct conf_end *deaf;
	uint64_t caps, rx_caps;
	struct scene s;

	open_scene(c, &s);
	caps = s.l.b->info->caps;
	rx_caps = s.l.b->info->rx_attr->caps;
	s.l.b->info->caps &= ~FI_RMA_EVENT;
	s.l.b->info->rx_attr->caps &= ~FI_RMA_EVENT;
	deaf = conf_open(c, &(struct conf_opts){ .same_domain = s.l.b });
	s.l.b->info->caps = caps;
	s.l.b->info->rx_attr->caps = rx_caps;
	region = reg(&s, 0, 64, c->mode & FI_MR_RMA_EVENT ? FI_RMA_EVENT : 0, NULL);
	conf_ready(s.l.b, region->mr, s.cntr);
	write_by(&s, region, conf_addr(s.l.a, deaf),
		 c->mode & FI_MR_ENDPOINT ? HMREG_OTHER_ENDPOINT : 0);
	assert_int_equal(fi_cntr_read(s.cntr), 0);
	write_to(&s, region, 0);
	counted(s.cntr, 1);
	conf_drop_region(region);
	close_scene(&s);
}

/* Several regions may have one counter, which is in use as long as any of them. */
static void api_12_counter_of_several_regions(struct conf *c)
{
	uint64_t flags = c->mode & FI_MR_RMA_EVENT ? FI_RMA_EVENT : 0;
	struct conf_region *region[3];
	struct scene s;

	open_scene(c, &s);
	for (size_t i = 0; i < 3; i++) {
		region[i] = reg(&s, i * 64, 64, flags, NULL);
		conf_ready(s.l.b, region[i]->mr, s.cntr);
	}
	for (uint64_t i = 0; i < 9; i++) {
		write_to(&s, region[i % 3], 0);
		counted(s.cntr, i + 1);
	}
	for (size_t i = 3; i-- > 0;) {
		assert_refused(fi_close(&s.cntr->fid), -FI_EBUSY);
		conf_drop_region(region[i]);
	}
	close_scene(&s);
}

/* ---- API-13, API-14 ---- */

/* Bound in each order; without the mode for it, each binding is refused by itself. */
static void api_13_api_14_in_each_order(struct conf *c)
{
	bool endpoint = c->mode & FI_MR_ENDPOINT, event = c->mode & FI_MR_RMA_EVENT;
	struct scene s;

	open_scene(c, &s);
	for (int order = 0; order < 2; order++) {
		struct conf_region *region = reg(&s, 0, 64, event ? FI_RMA_EVENT : 0, NULL);

		for (int step = 0; step < 2; step++) {
			if (step == order)
				assert_ok(fi_mr_bind(region->mr, &s.cntr->fid, FI_REMOTE_WRITE));
			else if (endpoint)
				assert_ok(fi_mr_bind(region->mr, &s.l.b->ep->fid, 0));
			else
				assert_refused_with(fi_mr_bind(region->mr, &s.l.b->ep->fid, 0),
						    -FI_EINVAL, "FI_MR_ENDPOINT");
		}
		if (endpoint || event) {
			write_to(&s, region, HMREG_DISABLED);
			assert_ok(fi_mr_enable(region->mr));
		}
		assert_refused(fi_mr_enable(region->mr), -FI_EOPBADSTATE);
		write_to(&s, region, 0);
		counted(s.cntr, (uint64_t)order + 1);
		conf_drop_region(region);
	}
	close_scene(&s);
}

/* One endpoint's region is not another's, although both are of the domain. */
static void api_13_mode_08_only_through_its_endpoint(struct conf *c)
{
	struct conf_region *mine, *theirs;
	struct scene s;

	open_scene(c, &s);
	mine = reg(&s, 0, 64, 0, NULL);
	theirs = reg(&s, 0, 64, 0, NULL); /* of the same memory */
	assert_ok(fi_mr_bind(mine->mr, &s.l.b->ep->fid, 0));
	assert_ok(fi_mr_bind(theirs->mr, &s.beside->ep->fid, 0));
	assert_ok(fi_mr_enable(mine->mr));
	assert_ok(fi_mr_enable(theirs->mr));
	write_by(&s, mine, s.l.to, 0);
	write_by(&s, mine, s.to_beside, HMREG_OTHER_ENDPOINT);
	write_by(&s, theirs, s.l.to, HMREG_OTHER_ENDPOINT);
	write_by(&s, theirs, s.to_beside, 0);
	assert_refused(fi_close(&s.beside->ep->fid), -FI_EBUSY);
	write_by(&s, theirs, s.to_beside, 0);
	conf_drop_region(theirs);
	conf_close_ep(s.beside);
	write_by(&s, mine, s.l.to, 0);
	close_scene(&s);
}

/* Regions that never were enabled let go of what they were bound to. */
static void api_13_api_07_closed_while_disabled(struct conf *c)
{
	bool endpoint = c->mode & FI_MR_ENDPOINT, event = c->mode & FI_MR_RMA_EVENT;
	struct scene s;

	open_scene(c, &s);
	for (int bound = 0; bound < 4; bound++) {
		struct conf_region *region = reg(&s, 0, 64, event ? FI_RMA_EVENT : 0, NULL);

		if (bound & 1)
			assert_ok(fi_mr_bind(region->mr, &s.cntr->fid, FI_REMOTE_WRITE));
		if ((bound & 2) && endpoint)
			assert_ok(fi_mr_bind(region->mr, &s.beside->ep->fid, 0));
		if (bound & 1)
			assert_refused(fi_close(&s.cntr->fid), -FI_EBUSY);
		if ((bound & 2) && endpoint)
			assert_refused(fi_close(&s.beside->ep->fid), -FI_EBUSY);
		conf_drop_region(region);
	}
	conf_close_ep(s.beside);
	close_scene(&s);
}

/* ---- parts of other regions ---- */

/* A sub-MR counts by its own counter, or not at all; its base's counter does not see it. */
static void api_12_sub_01_counters_of_parts(struct conf *c)
{
	uint64_t flags = c->mode & FI_MR_RMA_EVENT ? FI_RMA_EVENT : 0;
	struct conf_region *base, *part, *silent;
	struct scene s;

	open_scene(c, &s);
	base = reg(&s, 0, 256, flags, NULL);
	conf_ready(s.l.b, base->mr, s.cntr);
	part = reg(&s, 64, 64, flags, base);
	conf_ready(s.l.b, part->mr, s.other);
	silent = reg(&s, 128, 64, 0, base);
	make_ready(&s, silent);
	for (uint64_t i = 1; i <= 3; i++) {
		write_to(&s, part, 0);
		write_to(&s, silent, 0);
		counted(s.other, i);
		assert_int_equal(fi_cntr_read(s.cntr), i - 1);
		write_to(&s, base, 0);
		counted(s.cntr, i);
		assert_int_equal(fi_cntr_read(s.other), i);
	}
	/* a close that is refused leaves base and part counting */
	assert_refused(fi_close(&base->mr->fid), -FI_EBUSY);
	write_to(&s, base, 0);
	counted(s.cntr, 4);
	conf_drop_region(silent);
	conf_drop_region(part);
	conf_drop_region(base);
	close_scene(&s);
}

/* Each is disabled and enabled by itself. */
static void api_14_sub_01_state_of_parts(struct conf *c)
{
	uint64_t flags = c->mode & FI_MR_RMA_EVENT ? FI_RMA_EVENT : 0;
	struct conf_region *base, *part;
	struct scene s;

	open_scene(c, &s);
	base = reg(&s, 0, 256, flags, NULL);
	part = reg(&s, 64, 64, flags, base); /* of a base that is not enabled */
	write_to(&s, base, HMREG_DISABLED);
	write_to(&s, part, HMREG_DISABLED);
	conf_ready(s.l.b, part->mr, s.cntr);
	write_to(&s, part, 0);
	write_to(&s, base, HMREG_DISABLED);
	conf_ready(s.l.b, base->mr, s.other);
	write_to(&s, base, 0);
	conf_drop_region(part);
	write_to(&s, base, 0);
	counted(s.other, 2);
	conf_drop_region(base);
	close_scene(&s);
}

static void api_13_sub_01_endpoint_of_parts(struct conf *c)
{
	struct conf_region *base, *part;
	struct scene s;

	open_scene(c, &s);
	base = reg(&s, 0, 256, 0, NULL);
	part = reg(&s, 64, 64, 0, base);
	assert_ok(fi_mr_bind(base->mr, &s.l.b->ep->fid, 0));
	assert_ok(fi_mr_enable(base->mr));
	assert_refused_with(fi_mr_enable(part->mr), -FI_EOPBADSTATE, "endpoint");
	assert_ok(fi_mr_bind(part->mr, &s.beside->ep->fid, 0));
	assert_ok(fi_mr_enable(part->mr));
	write_by(&s, base, s.l.to, 0);
	write_by(&s, base, s.to_beside, HMREG_OTHER_ENDPOINT);
	write_by(&s, part, s.to_beside, 0);
	write_by(&s, part, s.l.to, HMREG_OTHER_ENDPOINT);
	conf_drop_region(part);
	conf_drop_region(base);
	close_scene(&s);
}

/* A part whose key is good for one operation; the base's is as before. */
static void flag_06_sub_06_single_use_part(struct conf *c)
{
	struct conf_region *base, *part;
	struct scene s;

	conf_need_flag(c, FI_MR_SINGLE_USE);
	open_scene(c, &s);
	base = reg(&s, 0, 256, 0, NULL);
	make_ready(&s, base);
	for (int i = 0; i < 2; i++) {
		part = reg(&s, 64, 64, FI_MR_SINGLE_USE, base);
		make_ready(&s, part);
		write_to(&s, part, 0);
		write_to(&s, part, HMREG_KEY_USED_UP);
		write_to(&s, base, 0);
		conf_drop_region(part);
	}
	/* and a part of one that was used */
	part = reg(&s, 64, 64, FI_MR_SINGLE_USE, base);
	make_ready(&s, part);
	write_to(&s, part, 0);
	base = reg(&s, 64, 32, 0, part);
	make_ready(&s, base);
	write_to(&s, base, 0);
	write_to(&s, base, 0);
	conf_drop_region(base);
	conf_drop_region(part);
	close_scene(&s);
}

static const struct conf_case cases[] = {
	CONF(flag_01_needs_the_capability),
	CONF_WITHOUT(flag_01_api_12_without_the_mode, FI_MR_RMA_EVENT),
	CONF_NEED(flag_01_mode_08_api_14_with_the_mode, FI_MR_RMA_EVENT),
	CONF_NEED(flag_01_mode_08_not_announced, FI_MR_RMA_EVENT),
	CONF(api_12_endpoint_without_events),
	CONF(api_12_counter_of_several_regions),
	CONF(api_13_api_14_in_each_order),
	CONF_NEED(api_13_mode_08_only_through_its_endpoint, FI_MR_ENDPOINT),
	CONF(api_13_api_07_closed_while_disabled),
	CONF(api_12_sub_01_counters_of_parts),
	CONF_NEED(api_14_sub_01_state_of_parts, FI_MR_RMA_EVENT),
	CONF_NEED(api_13_sub_01_endpoint_of_parts, FI_MR_ENDPOINT),
	CONF(flag_06_sub_06_single_use_part),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
