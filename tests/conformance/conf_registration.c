/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that are for registration alone: how they are found, what they are good for, and what they refuse.
 * On other ports, where these cases have nothing to do, they are skipped.
 */
#include "tests/conformance/harness.h"

#define LENGTH 4096

static void need_none(struct conf *c)
{
	if (!c->profile->no_endpoints)
		conf_skip(c, "the port has endpoints");
}

static struct fi_info *plain_hints(const struct conf *c, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();

	assert_non_null(hints);
	hints->caps = caps;
	hints->domain_attr->mr_mode = CONF_MR_MODES;
	hints->domain_attr->name = strdup(c->profile->name);
	assert_non_null(hints->domain_attr->name);
	return hints;
}

static void api_03_found_by_who_asks_for_no_endpoints(struct conf *c)
{
	const uint64_t endpoint_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | CONF_ALL;
	struct fi_info *hints, *info;

	need_none(c);
	hints = plain_hints(c, 0);
	assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info));
	assert_null(info->next);
	assert_int_equal(info->caps & endpoint_caps, 0);
	assert_int_equal(info->ep_attr->type, FI_EP_UNSPEC);
	assert_int_equal(info->domain_attr->ep_cnt, 0);
	assert_null(info->src_addr);
	assert_non_null(info->nic);
	assert_true(info->domain_attr->mr_cnt > 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* A program that takes the first entry gets one with endpoints, if there is any. */
static void api_03_behind_all_others(struct conf *c)
{
	struct fi_info *info;
	bool bare = false, found = false;

	need_none(c);
	assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, 0, NULL, &info));
	assert_int_equal(info->ep_attr->type, FI_EP_RDM); /* the software NIC is always there */
	for (const struct fi_info *at = info; at; at = at->next) {
		if (at->ep_attr->type == FI_EP_UNSPEC)
			bare = true;
		else
			assert_false(bare);
		found |= strcmp(at->domain_attr->name, c->profile->name) == 0;
	}
	assert_true(found);
	fi_freeinfo(info);
}

static void api_20_who_asks_for_endpoints_is_told(struct conf *c)
{
	static const uint64_t caps[] = { FI_RMA, FI_MSG, FI_ATOMIC, FI_RMA | FI_HMEM, FI_TAGGED };

	need_none(c);
	for (size_t i = 0; i <= count_of(caps); i++) {
		struct fi_info *hints = plain_hints(c, i < count_of(caps) ? caps[i] : 0);
		struct fi_info untouched, *info = &untouched;

		if (i == count_of(caps))
			hints->ep_attr->type = FI_EP_RDM;
		assert_refused_with(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info),
				    -FI_ENODATA, c->profile->no_endpoints);
		assert_null(info);
		fi_freeinfo(hints);
	}
}

static void api_20_endpoint_is_refused(struct conf *c)
{
	struct conf_end *end;
	struct fid_ep *ep = NULL;

	need_none(c);
	end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	assert_refused_with(fi_endpoint(end->domain, end->info, &ep, NULL), -FI_EOPNOTSUPP,
			    c->profile->no_endpoints);
	assert_null(ep);
	assert_int_equal(conf_stats(end).endpoints, 0);
}

/* ---- regions ---- */

static struct hmreg_verbs_part only_part(struct fid_mr *mr)
{
	struct hmreg_verbs_part part = { .size = sizeof(part) }, none = { .size = sizeof(none) };
	struct hmreg_mr_ops *ops;

	assert_ok(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL));
	assert_ok(ops->verbs_part(&mr->fid, 0, &part));
	assert_refused(ops->verbs_part(&mr->fid, 1, &none), -FI_ENOENT);
	return part;
}

/* What a work request of the program's own says: keys, and what its first byte is called. */
static void check_part(const struct conf_end *end, struct fid_mr *mr, const uint8_t *first,
		       size_t len)
{
	struct hmreg_verbs_part part = only_part(mr);

	assert_non_null(part.mr);
	assert_int_equal(part.offset, 0);
	assert_int_equal(part.len, len);
	if (!(end->mode & FI_MR_VIRT_ADDR))
		return;
	assert_int_equal(part.iova, (uintptr_t)first);
	assert_int_equal(part.rkey, fi_mr_key(mr));
}

static void reg_01_any_range_for_local_use(struct conf *c)
{
	static const size_t lengths[] = { 1, 63, LENGTH - 200, LENGTH };
	struct conf_end *end;
	uint8_t *buf;

	need_none(c);
	end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	buf = conf_alloc(c, LENGTH);
	for (size_t i = 0; i < count_of(lengths); i++) {
		uint8_t *first = buf + (LENGTH - lengths[i]) / 2;
		struct fid_mr *mr;

		assert_ok(
			fi_mr_reg(end->domain, first, lengths[i], CONF_LOCAL, 0, i, 0, &mr, NULL));
		check_part(end, mr, first, lengths[i]);
		conf_check_stats(end, 1, lengths[i], 0);
		assert_ok(fi_close(&mr->fid));
	}
	conf_check_stats(end, 0, 0, 0);
}

/* Not every such device opens memory to peers: where it does not, that is said. */
static void reg_03_keys_for_peers(struct conf *c)
{
	struct conf_end *end;
	struct fid_mr *mr[2] = { NULL, NULL };
	uint8_t *buf;
	int ret;

	need_none(c);
	end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	buf = conf_alloc(c, LENGTH);
	conf_log_mark(__FILE__, __LINE__);
	ret = fi_mr_reg(end->domain, buf, LENGTH, CONF_ALL, 0, 1, 0, &mr[0], NULL);
	if (ret) {
		assert_int_equal(ret, -FI_EOPNOTSUPP);
		conf_log_expect(1, "access", "fi_mr_reg", __FILE__, __LINE__);
		assert_null(mr[0]);
		conf_check_stats(end, 0, 0, 0);
		conf_skip(c, "regions cannot be open to peers");
	}
	assert_ok(fi_mr_reg(end->domain, buf + 64, LENGTH - 64, FI_REMOTE_READ, 0, 2, 0, &mr[1],
			    NULL));
	check_part(end, mr[0], buf, LENGTH);
	check_part(end, mr[1], buf + 64, LENGTH - 64);
	assert_true(fi_mr_key(mr[0]) != fi_mr_key(mr[1]));
	assert_true(only_part(mr[0]).rkey != only_part(mr[1]).rkey);
	conf_check_stats(end, 2, 2 * LENGTH - 64, 0);
	assert_ok(fi_close(&mr[0]->fid));
	assert_ok(fi_close(&mr[1]->fid));
}

static const struct conf_case cases[] = {
	CONF(api_03_found_by_who_asks_for_no_endpoints),
	CONF(api_03_behind_all_others),
	CONF(api_20_who_asks_for_endpoints_is_told),
	CONF(api_20_endpoint_is_refused),
	CONF(reg_01_any_range_for_local_use),
	CONF(reg_03_keys_for_peers),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
