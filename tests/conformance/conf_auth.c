/* SPDX-License-Identifier: BSD-2-Clause */
/* Authorization keys of domains, endpoints and regions: ATTR-04. */
#include "tests/conformance/auth.h"

#define LONG_KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- what fi_getinfo says ---- */

static struct fi_info *hints_with(const struct conf *c, const struct conf_opts *opts)
{
	struct conf_opts all = *opts;

	all.no_ep = c->profile->no_endpoints != NULL;
	return conf_hints(c->profile->name, &all);
}

static int getinfo(const struct conf *c, uint32_t version, const struct conf_opts *opts,
		   struct fi_info **info)
{
	struct fi_info *hints = hints_with(c, opts);
	int ret;

	hints->ep_attr->auth_key_size = opts->ep_key_size;
	if (opts->ep_key) {
		hints->ep_attr->auth_key = malloc(opts->ep_key_size);
		assert_non_null(hints->ep_attr->auth_key);
		memcpy(hints->ep_attr->auth_key, opts->ep_key, opts->ep_key_size);
	}
	*info = NULL;
	ret = fi_getinfo(version, NULL, NULL, 0, hints, info);
	fi_freeinfo(hints);
	return ret;
}

#define INFO(version, ...) getinfo(c, version, &(struct conf_opts){ __VA_ARGS__ }, &info)

static void attr_04_infos_carry_the_keys(struct conf *c)
{
	static const size_t sizes[] = { 1, 5, 33, HMREG_AUTH_KEY_MAX };
	struct fi_info *info, *copy;

	auth_need(c);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct conf_opts opts = { .key = LONG_KEY,
					  .key_size = sizes[i],
					  .ep_key = &LONG_KEY[1],
					  .ep_key_size = sizes[i] };

		assert_ok(getinfo(c, CONF_VERSION, &opts, &info));
		copy = fi_dupinfo(info);
		assert_non_null(copy);
		memset(info->domain_attr->auth_key, 0, sizes[i]);
		memset(info->ep_attr->auth_key, 0, sizes[i]);
		fi_freeinfo(info);
		assert_int_equal(copy->domain_attr->auth_key_size, sizes[i]);
		assert_int_equal(copy->ep_attr->auth_key_size, sizes[i]);
		assert_memory_equal(copy->domain_attr->auth_key, LONG_KEY, sizes[i]);
		assert_memory_equal(copy->ep_attr->auth_key, &LONG_KEY[1], sizes[i]);
		assert_true(copy->domain_attr->max_ep_auth_key > 0);
		fi_freeinfo(copy);
	}
	assert_ok(INFO(CONF_VERSION, .caps = 0));
	assert_int_equal(info->domain_attr->auth_key_size, 0);
	assert_null(info->domain_attr->auth_key);
	fi_freeinfo(info);
}

static void attr_04_infos_with_keys_in_vectors(struct conf *c)
{
	struct fi_info *info, *hints;
	size_t most;

	auth_need(c);
	assert_ok(INFO(CONF_VERSION, AUTH_IN_AV));
	assert_true(info->domain_attr->auth_key_size == FI_AV_AUTH_KEY);
	assert_null(info->domain_attr->auth_key);
	most = info->domain_attr->max_ep_auth_key;
	assert_true(most > 0);
	fi_freeinfo(info);
	/* no key beside them */
	assert_answer(INFO(CONF_VERSION, AUTH_IN_AV, AUTH_EP_KEY("k")), -FI_ENODATA);
	hints = hints_with(c, &(struct conf_opts){ AUTH_IN_AV });
	hints->domain_attr->auth_key = (uint8_t *)strdup("k");
	assert_answer(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	free(hints->domain_attr->auth_key);
	hints->domain_attr->auth_key = NULL;
	hints->domain_attr->max_ep_auth_key = most;
	assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info));
	fi_freeinfo(info);
	hints->domain_attr->max_ep_auth_key = most + 1;
	assert_answer(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
	/* which came with 1.20: before, it is a key of no possible size */
	assert_answer(INFO(FI_VERSION(1, 19), AUTH_IN_AV), -FI_ENODATA);
}

/* Also where no keys are offered at all. */
static void attr_04_infos_that_do_not_match(struct conf *c)
{
	struct fi_info *info;

	assert_answer(INFO(CONF_VERSION, .key_size = 4), -FI_ENODATA);
	assert_answer(INFO(CONF_VERSION, .ep_key_size = 4), -FI_ENODATA);
	assert_answer(INFO(CONF_VERSION, AUTH_KEY(LONG_KEY "x")), -FI_ENODATA);
	assert_answer(INFO(CONF_VERSION, AUTH_EP_KEY(LONG_KEY "x")), -FI_ENODATA);
	if (auth_offered(c))
		return;
	assert_answer(INFO(CONF_VERSION, AUTH_KEY("k")), -FI_ENODATA);
	assert_answer(INFO(CONF_VERSION, AUTH_EP_KEY("k")), -FI_ENODATA);
	assert_answer(INFO(CONF_VERSION, AUTH_IN_AV), -FI_ENODATA);
}

/* Interfaces before 1.5 have no keys: whatever stands in their place is not looked at. */
static void attr_04_ignored_before_1_5(struct conf *c)
{
	struct conf_opts opts = { .version = FI_VERSION(1, 4),
				  .mode = c->mode ? FI_MR_BASIC : FI_MR_SCALABLE,
				  .info_mode = FI_LOCAL_MR,
				  .no_ep = true };
	struct fi_mr_attr attr = { .iov_count = 1, .access = CONF_ALL, .auth_key_size = SIZE_MAX };
	struct iovec iov = { conf_alloc(c, 8), 8 };
	struct fi_info *hints = conf_hints(c->profile->name, &opts), *info;
	struct fid_domain *domain;
	struct conf_end *end;
	struct fid_mr *mr;

	hints->ep_attr->auth_key_size = SIZE_MAX;
	hints->domain_attr->auth_key_size = HMREG_AUTH_KEY_MAX + 1;
	if (fi_getinfo(opts.version, NULL, NULL, 0, hints, &info)) {
		fi_freeinfo(hints);
		conf_skip(c, "no old model describes the port");
	}
	fi_freeinfo(hints);
	assert_int_equal(info->domain_attr->auth_key_size, 0);
	assert_int_equal(info->ep_attr->auth_key_size, 0);
	fi_freeinfo(info);
	end = conf_open(c, &opts);
	end->info->domain_attr->auth_key_size = 9;
	assert_ok(fi_domain(end->fabric, end->info, &domain, NULL));
	assert_ok(fi_close(&domain->fid));
	attr.mr_iov = &iov;
	assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
	assert_ok(fi_close(&mr->fid));
}

/* ---- refusals ---- */

/* What cannot be a key, or is none here; nothing is left behind. */
static void attr_04_bad_keys(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	int none = auth_offered(c) ? -FI_EINVAL : -FI_ENOSYS;
	static uint8_t key[HMREG_AUTH_KEY_MAX + 1];
	struct iovec iov = { conf_alloc(c, 8), 8 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .auth_key_size = 4 };
	struct fi_domain_attr *in = end->info->domain_attr;
	struct fid_domain *domain = NULL;
	struct fid_mr *mr = NULL;

	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	in->auth_key_size = 4;
	assert_refused(fi_domain(end->fabric, end->info, &domain, NULL), -FI_EINVAL);
	attr.auth_key = in->auth_key = key;
	attr.auth_key_size = in->auth_key_size = sizeof(key);
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), none);
	assert_refused(fi_domain(end->fabric, end->info, &domain, NULL), none);
	in->auth_key = NULL;
	in->auth_key_size = 0;
	assert_true(!mr && !domain);
	if (auth_offered(c))
		return;
	attr.auth_key_size = 4;
	assert_refused_with(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_ENOSYS, "enforces no");
	assert_refused(fi_mr_regattr(end->domain, &attr, FI_AUTH_KEY, &mr), -FI_EBADFLAGS);
	in->auth_key_size = FI_AV_AUTH_KEY;
	assert_refused_with(fi_domain(end->fabric, end->info, &domain, NULL), -FI_ENOSYS,
			    "enforces no");
	in->auth_key_size = 0;
	assert_true(!mr && !domain);
}

static void attr_04_bad_endpoint_keys(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct fi_ep_attr *in = end->info->ep_attr;
	static uint8_t key[HMREG_AUTH_KEY_MAX + 1];
	struct fid_ep *ep = NULL;

	in->auth_key_size = 4;
	assert_refused(fi_endpoint(end->domain, end->info, &ep, NULL), -FI_EINVAL);
	in->auth_key = key;
	in->auth_key_size = sizeof(key);
	assert_refused(fi_endpoint(end->domain, end->info, &ep, NULL),
		       auth_offered(c) ? -FI_EINVAL : -FI_ENOSYS);
	in->auth_key = NULL;
	in->auth_key_size = 0;
	assert_null(ep);
}

/* No key, wherever it is given, gets into a log line. */
static void attr_04_keys_are_not_logged(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	static char key[] =
		"Sesame-0123456789-Sesame-0123456789-Sesame-0123456789-Sesame-0123456789";
	struct iovec iov = { conf_alloc(c, 8), 8 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, AUTH_MR_KEY(key) };
	struct fid_mr *mr;
	char text[4096];

	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr),
		       auth_offered(c) ? -FI_EINVAL : -FI_ENOSYS);
	assert_null(strstr(conf_log_text(), "Sesame"));
	end->info->domain_attr->auth_key = (uint8_t *)key;
	end->info->domain_attr->auth_key_size = sizeof(key) - 1;
	assert_non_null(fi_tostr_r(text, sizeof(text), end->info, FI_TYPE_INFO));
	end->info->domain_attr->auth_key = NULL;
	end->info->domain_attr->auth_key_size = 0;
	assert_null(strstr(text, "Sesame"));
	assert_null(strstr(text, "536573616d65"));
}

/* ---- domains ---- */

/* Two ends, each in a domain with these options; b's region can be reached, or cannot. */
struct scene {
	struct auth_reach r; /* from a */
	struct conf_end *b;
	uint8_t *memory;
};

static void open_scene(struct conf *c, const struct conf_opts *a, const struct conf_opts *b,
		       struct scene *s)
{
	s->r = auth_user(c, a);
	s->b = conf_open(c, b);
	s->r.to = conf_addr(s->r.user, s->b);
	s->r.local = conf_reg(s->r.user, s->r.mem, AUTH_LEN, CONF_ALL);
	s->memory = conf_alloc(c, AUTH_LEN);
	s->r.region = conf_reg(s->b, s->memory, AUTH_LEN, CONF_ALL);
}

/* A message gets to b, or does not: the receive that waits there is for the next one then. */
static void check_message(struct scene *s, bool arrives)
{
	int context;

	for (int inject = 0; inject < 2; inject++) {
		assert_ok(fi_recv(s->b->ep, s->memory + 8, 8, s->r.region->desc, FI_ADDR_UNSPEC,
				  &context));
		if (inject)
			assert_ok(fi_inject(s->r.user->ep, s->r.mem, 8, s->r.to));
		else
			assert_ok(
				fi_send(s->r.user->ep, s->r.mem, 8, s->r.local->desc, s->r.to, s));
		if (arrives) {
			if (!inject)
				conf_done(s->r.user->tx, s);
			conf_done(s->b->rx, &context);
			continue;
		}
		conf_failed(s->r.user->tx, inject ? NULL : s, FI_EACCES, HMREG_AUTH_KEY);
		conf_quiet(s->b->rx);
		assert_ok(fi_cancel(&s->b->ep->fid, &context));
		conf_failed(s->b->rx, &context, FI_ECANCELED, HMREG_CANCELED);
	}
	/* nobody waits: the message would be kept */
	assert_ok(fi_send(s->r.user->ep, s->r.mem, 8, s->r.local->desc, s->r.to, s));
	if (arrives)
		conf_done(s->r.user->tx, s);
	else
		conf_failed(s->r.user->tx, s, FI_EACCES, HMREG_AUTH_KEY);
	assert_ok(fi_recv(s->b->ep, s->memory + 8, 8, s->r.region->desc, FI_ADDR_UNSPEC, &context));
	if (arrives)
		conf_done(s->b->rx, &context);
	else
		conf_quiet(s->b->rx);
}

static void check_scene(struct scene *s, bool reaches)
{
	if (reaches)
		auth_reaches(&s->r, s->b);
	else
		auth_refused(&s->r, s->b, s->memory, HMREG_AUTH_KEY);
	check_message(s, reaches);
}

static void attr_04_same_domain_key(struct conf *c)
{
	struct scene s;

	auth_need(c);
	open_scene(c, OPTS(AUTH_KEY("job 1")), OPTS(AUTH_KEY("job 1")), &s);
	check_scene(&s, true);
}

static void other_key(struct conf *c, const struct conf_opts *other)
{
	struct scene s;

	auth_need(c);
	open_scene(c, OPTS(AUTH_KEY("job 1")), other, &s);
	check_scene(&s, false);
}

static void attr_04_other_domain_key(struct conf *c)
{
	other_key(c, OPTS(AUTH_KEY("job 2")));
}

static void attr_04_key_that_begins_alike(struct conf *c)
{
	other_key(c, OPTS(AUTH_KEY("job")));
}

static void attr_04_key_with_a_zero_more(struct conf *c)
{
	other_key(c, OPTS(AUTH_KEY("job 1\0")));
}

static void attr_04_key_against_none(struct conf *c)
{
	other_key(c, NULL);
}

static void attr_04_none_against_a_key(struct conf *c)
{
	struct scene s;

	auth_need(c);
	open_scene(c, NULL, OPTS(AUTH_KEY("job 1")), &s);
	check_scene(&s, false);
}

/* A key is what was given when the object was opened. */
static void attr_04_keys_are_copied(struct conf *c)
{
	struct scene s;

	auth_need(c);
	open_scene(c, OPTS(AUTH_KEY("job 1")), OPTS(AUTH_KEY("job 1")), &s);
	memset(s.b->info->domain_attr->auth_key, 0, s.b->info->domain_attr->auth_key_size);
	check_scene(&s, true);
}

/* ---- endpoints and regions ---- */

/*
 * One domain with key 1, and in it an endpoint with key 2: which neither reaches those of key 1 nor is
 * reached by them, whoever's the region is.
 */
static void attr_04_endpoint_key_comes_first(struct conf *c)
{
	struct scene s;
	struct conf_end *own;

	auth_need(c);
	open_scene(c, OPTS(AUTH_KEY("1")), OPTS(AUTH_KEY("1")), &s);
	own = conf_open(c, OPTS(.same_domain = s.b, AUTH_EP_KEY("2")));
	check_scene(&s, true);
	s.r.to = conf_addr(s.r.user, own);
	auth_refused(&s.r, own, s.memory, HMREG_AUTH_KEY);
}

/* A domain without a key may have endpoints with one. */
static void attr_04_endpoint_key_alone(struct conf *c)
{
	struct scene s;

	auth_need(c);
	open_scene(c, OPTS(AUTH_EP_KEY("k")), OPTS(AUTH_KEY("k")), &s);
	check_scene(&s, true);
}

/* Where regions are bound to an endpoint, it must be that through which they are reached. */
static struct conf_region *region_with(struct conf_end *end, uint8_t *memory,
				       struct fi_mr_attr *attr)
{
	struct iovec iov = { memory, AUTH_LEN };

	attr->mr_iov = &iov;
	attr->iov_count = 1;
	attr->access = CONF_ALL;
	return conf_regattr(end, attr, 0);
}

/* Region, endpoint and initiator must all have the key. */
static void attr_04_region_key(struct conf *c)
{
	struct fi_mr_attr one = { AUTH_MR_KEY("1") }, two = { AUTH_MR_KEY("2") };
	struct conf_region *by_default;
	struct conf_end *second;
	struct scene s;

	auth_need(c);
	open_scene(c, OPTS(AUTH_KEY("1")), OPTS(AUTH_KEY("1")), &s);
	by_default = s.r.region;
	s.r.region = region_with(s.b, s.memory, &one);
	auth_reaches(&s.r, s.b);
	s.r.region = region_with(s.b, s.memory, &two);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	s.r.region = by_default;
	auth_reaches(&s.r, s.b);
	/* those with key 2 get to an endpoint with it, and to the region with it alone */
	second = conf_open(c, OPTS(.same_domain = s.b, AUTH_EP_KEY("2")));
	s.r = auth_user(c, OPTS(AUTH_KEY("2")));
	s.r.local = conf_reg(s.r.user, s.r.mem, AUTH_LEN, CONF_ALL);
	s.r.to = conf_addr(s.r.user, second);
	s.r.region = region_with(second, s.memory, &two);
	auth_reaches(&s.r, second);
	s.r.region = region_with(second, s.memory, &one);
	auth_refused(&s.r, second, s.memory, HMREG_AUTH_KEY);
	s.r.region = conf_reg(second, s.memory, AUTH_LEN, CONF_ALL); /* the domain's key */
	auth_refused(&s.r, second, s.memory, HMREG_AUTH_KEY);
}

/* In a domain without a key, a region with one is out of reach for those without. */
static void attr_04_region_key_without_domain_key(struct conf *c)
{
	struct fi_mr_attr attr = { AUTH_MR_KEY("k") };
	struct conf_end *keyed;
	struct scene s;

	auth_need(c);
	open_scene(c, NULL, NULL, &s);
	s.r.region = region_with(s.b, s.memory, &attr);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	keyed = conf_open(c, OPTS(.same_domain = s.b, AUTH_EP_KEY("k")));
	s.r = auth_user(c, OPTS(AUTH_KEY("k")));
	s.r.local = conf_reg(s.r.user, s.r.mem, AUTH_LEN, CONF_ALL);
	s.r.to = conf_addr(s.r.user, keyed);
	s.r.region = region_with(keyed, s.memory, &attr);
	auth_reaches(&s.r, keyed);
	/* what has no key is for all who get to the endpoint */
	s.r.region = conf_reg(keyed, s.memory, AUTH_LEN, CONF_ALL);
	auth_reaches(&s.r, keyed);
}

/* fi_mr(3): a sub-MR has its own authorization keys. */
static void attr_04_sub_mr_key(struct conf *c)
{
	struct fi_mr_attr attr = { AUTH_MR_KEY("2") }, plain = { .requested_key = 0 };
	struct scene s;

	auth_need(c);
	open_scene(c, OPTS(AUTH_KEY("1")), OPTS(AUTH_KEY("1")), &s);
	attr.base_mr = plain.base_mr = s.r.region->mr;
	s.r.region = region_with(s.b, s.memory, &attr);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	s.r.region = region_with(s.b, s.memory, &plain);
	auth_reaches(&s.r, s.b);
	/* a base out of reach may have parts that are not */
	attr.base_mr = NULL;
	s.r.region = region_with(s.b, s.memory, &attr);
	auth_refused(&s.r, s.b, s.memory, HMREG_AUTH_KEY);
	plain.base_mr = s.r.region->mr;
	s.r.region = region_with(s.b, s.memory, &plain);
	auth_reaches(&s.r, s.b);
}

/* One range of several is out of reach: nothing happens to the others. */
static void attr_04_all_regions_of_an_operation(struct conf *c)
{
	struct fi_mr_attr attr = { AUTH_MR_KEY("2") };
	struct conf_region *closed;
	struct fi_rma_iov to[2];
	struct fi_msg_rma msg;
	struct iovec from;
	struct scene s;

	auth_need(c);
	open_scene(c, OPTS(AUTH_KEY("1")), OPTS(AUTH_KEY("1")), &s);
	closed = region_with(s.b, s.memory, &attr);
	to[0] = (struct fi_rma_iov){ s.r.region->addr, 8, conf_key(s.r.user, s.r.region) };
	to[1] = (struct fi_rma_iov){ closed->addr + 8, 8, conf_key(s.r.user, closed) };
	from = (struct iovec){ s.r.mem, 16 };
	msg = (struct fi_msg_rma){ .msg_iov = &from,
				   .desc = &s.r.local->desc,
				   .iov_count = 1,
				   .addr = s.r.to,
				   .rma_iov = to,
				   .rma_iov_count = 2,
				   .context = &s };
	assert_ok(fi_writemsg(s.r.user->ep, &msg, FI_COMPLETION));
	conf_failed(s.r.user->tx, &s, FI_EACCES, HMREG_AUTH_KEY);
	for (int i = 0; i < 16; i++)
		assert_int_equal(s.memory[i], 0);
}

/* Causes come with their sentence. */
static void attr_04_cause_as_text(struct conf *c)
{
	struct fi_cq_err_entry entry;
	struct scene s;

	auth_need(c);
	open_scene(c, OPTS(AUTH_KEY("1")), NULL, &s);
	assert_ok(fi_inject(s.r.user->ep, s.r.mem, 8, s.r.to));
	conf_error(s.r.user->tx, &entry);
	assert_int_equal(entry.prov_errno, HMREG_AUTH_KEY);
	assert_non_null(strstr(fi_cq_strerror(s.r.user->tx, entry.prov_errno, NULL, NULL, 0),
			       "authorization key"));
	assert_non_null(strstr(fi_cq_strerror(s.r.user->tx, HMREG_AUTH_PEER, NULL, NULL, 0),
			       "another endpoint"));
}

static const struct conf_case cases[] = {
	CONF(attr_04_infos_carry_the_keys),
	CONF(attr_04_infos_with_keys_in_vectors),
	CONF(attr_04_infos_that_do_not_match),
	CONF(attr_04_ignored_before_1_5),
	CONF(attr_04_bad_keys),
	CONF(attr_04_bad_endpoint_keys),
	CONF(attr_04_keys_are_not_logged),
	CONF(attr_04_same_domain_key),
	CONF(attr_04_other_domain_key),
	CONF(attr_04_key_that_begins_alike),
	CONF(attr_04_key_with_a_zero_more),
	CONF(attr_04_key_against_none),
	CONF(attr_04_none_against_a_key),
	CONF(attr_04_keys_are_copied),
	CONF(attr_04_endpoint_key_comes_first),
	CONF(attr_04_endpoint_key_alone),
	CONF(attr_04_region_key),
	CONF(attr_04_region_key_without_domain_key),
	CONF(attr_04_sub_mr_key),
	CONF(attr_04_all_regions_of_an_operation),
	CONF(attr_04_cause_as_text),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
