/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys: plain ones, raw ones, and those that a peer has mapped (API-09 to API-11); descriptors (API-17). */
#include "tests/conformance/harness.h"

static void api_09_key(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 64);
	struct fid_mr *mr;

	assert_ok(fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, 0x1234, 0, &mr, NULL));
	assert_int_equal(fi_mr_key(mr), mr->key);
	if (c->mode & FI_MR_RAW)
		assert_true(fi_mr_key(mr) == FI_KEY_NOTAVAIL);
	else if (c->mode & FI_MR_PROV_KEY)
		assert_true(fi_mr_key(mr) != FI_KEY_NOTAVAIL);
	else
		assert_int_equal(fi_mr_key(mr), 0x1234);
	assert_ok(fi_close(&mr->fid));
}

static void api_10_raw_attr(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 64), raw[64], again[64];
	struct conf_region *region = conf_reg(end, buf, 64, CONF_ALL);
	size_t size = 0, need, mr_key_size = end->info->domain_attr->mr_key_size;
	uint64_t base = 1;

	memset(raw, 0xee, sizeof(raw));
	assert_refused(fi_mr_raw_attr(region->mr, &base, NULL, &size, 0), -FI_ETOOSMALL);
	need = size;
	assert_in_range(need, 1, mr_key_size);
	for (size_t room = 0; room < need; room++) {
		size = room;
		assert_refused(fi_mr_raw_attr(region->mr, &base, raw, &size, 0), -FI_ETOOSMALL);
		assert_int_equal(size, need);
	}
	assert_int_equal(base, 1);
	for (size_t i = 0; i < sizeof(raw); i++)
		assert_int_equal(raw[i], 0xee);
	for (size_t room = need; room <= sizeof(raw); room += 7) {
		size = room;
		assert_ok(fi_mr_raw_attr(region->mr, &base, raw, &size, 0));
		assert_int_equal(size, need);
		assert_int_equal(base, region->addr);
	}
	for (size_t i = need; i < sizeof(raw); i++)
		assert_int_equal(raw[i], 0xee);
	size = sizeof(again);
	assert_ok(fi_mr_raw_attr(region->mr, NULL, again, &size, 0));
	assert_memory_equal(raw, again, need);
	assert_refused(fi_mr_raw_attr(region->mr, &base, NULL, &size, 0), -FI_EINVAL);
	assert_refused(fi_mr_raw_attr(region->mr, &base, raw, NULL, 0), -FI_EINVAL);
	assert_refused(fi_mr_raw_attr(region->mr, &base, raw, &size, 1), -FI_EBADFLAGS);
}

static void api_11_map_any_raw_key(struct conf *c)
{
	struct conf_link l;
	uint8_t raw[64];
	size_t size = sizeof(raw);
	uint64_t base, key[3];

	conf_link(c, NULL, 64, &l);
	assert_ok(fi_mr_raw_attr(l.remote->mr, &base, raw, &size, 0));
	for (size_t i = 0; i < count_of(key); i++) {
		assert_ok(fi_mr_map_raw(l.a->domain, base, raw, size, &key[i], 0));
		assert_int_equal(key[i], key[0]); /* one mapping, counted */
		l.key = key[i];
		conf_works(&l);
	}
	assert_refused_with(fi_close(&l.a->domain->fid), -FI_EBUSY, "");
	for (size_t i = 0; i < count_of(key); i++) {
		l.key = key[i];
		conf_works(&l);
		assert_ok(fi_mr_unmap_key(l.a->domain, key[i]));
	}
	for (; l.remote->maps > 0; l.remote->maps--) { /* the link's own, which is the same */
		conf_works(&l);
		assert_ok(fi_mr_unmap_key(l.a->domain, key[0]));
	}
	assert_refused(fi_mr_unmap_key(l.a->domain, key[0]), -FI_EINVAL);
}

/* Told with another base address it is another key; a key that comes back has another number. */
static void api_11_mapped_keys_are_told_apart(struct conf *c)
{
	struct conf_link l;
	uint8_t raw[64];
	size_t size = sizeof(raw);
	uint64_t base, key, other, again;

	conf_link(c, NULL, 64, &l);
	assert_ok(fi_mr_raw_attr(l.remote->mr, &base, raw, &size, 0));
	assert_ok(fi_mr_map_raw(l.a->domain, base + 4096, raw, size, &other, 0));
	assert_int_not_equal(other, l.key);
	conf_works(&l);
	assert_ok(fi_mr_unmap_key(l.a->domain, other));
	assert_refused(fi_mr_unmap_key(l.a->domain, other), -FI_EINVAL);
	assert_ok(fi_mr_map_raw(l.a->domain, base, raw, size, &key, 0));
	assert_int_equal(key, l.key);
	assert_ok(fi_mr_unmap_key(l.a->domain, key));
	assert_ok(fi_mr_unmap_key(l.a->domain, key));
	l.remote->maps = 0;
	assert_ok(fi_mr_map_raw(l.a->domain, base, raw, size, &again, 0));
	assert_int_not_equal(again, key);
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr, key, c));
	conf_failed(l.a->tx, c, FI_EKEYREJECTED, HMREG_KEY_NOT_MAPPED);
	l.key = again;
	conf_works(&l);
	assert_ok(fi_mr_unmap_key(l.a->domain, again));
}

static void api_11_malformed_raw_keys(struct conf *c)
{
	struct conf_link l;
	uint8_t raw[64], bad[64];
	size_t size = sizeof(raw);
	uint64_t base, key = 77;

	conf_link(c, NULL, 64, &l);
	assert_ok(fi_mr_raw_attr(l.remote->mr, &base, raw, &size, 0));
	for (size_t len = 0; len < sizeof(raw); len++)
		if (len != 8 && len != 16)
			assert_refused(fi_mr_map_raw(l.a->domain, base, raw, len, &key, 0),
				       -FI_EINVAL);
	for (unsigned int bit = 0; size == 16 && bit < 128; bit++) {
		memcpy(bad, raw, size);
		bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_refused(fi_mr_map_raw(l.a->domain, base, bad, size, &key, 0), -FI_EINVAL);
	}
	memset(bad, 0xff, sizeof(bad));
	assert_refused(fi_mr_map_raw(l.a->domain, base, bad, 8, &key, 0), -FI_EINVAL);
	assert_refused(fi_mr_map_raw(l.a->domain, base, bad, 16, &key, 0), -FI_EINVAL);
	assert_refused(fi_mr_map_raw(l.a->domain, base, NULL, size, &key, 0), -FI_EINVAL);
	assert_refused(fi_mr_map_raw(l.a->domain, base, raw, size, NULL, 0), -FI_EINVAL);
	assert_refused(fi_mr_map_raw(l.a->domain, base, raw, size, &key, 1), -FI_EBADFLAGS);
	assert_int_equal(key, 77);
	assert_refused(fi_mr_unmap_key(l.a->domain, 0xdead), -FI_EINVAL);
	assert_refused(fi_mr_unmap_key(l.a->domain, FI_KEY_NOTAVAIL), -FI_EINVAL);
	conf_check_stats(l.a, 1, 64, l.remote->maps);
}

/* Where raw keys are required, a key that was not mapped here is worth nothing. */
static void api_11_unmapped_key_is_refused(struct conf *c)
{
	struct conf_link l;
	uint64_t key;

	conf_link(c, NULL, 64, &l);
	key = l.key;
	assert_ok(fi_mr_unmap_key(l.a->domain, key));
	l.remote->maps = 0;
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr, key, c));
	conf_failed(l.a->tx, c, FI_EKEYREJECTED, HMREG_KEY_NOT_MAPPED);
	l.key = conf_key(l.b, l.remote);
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr, l.key, c));
	conf_failed(l.a->tx, c, FI_EKEYREJECTED, HMREG_KEY_NOT_MAPPED);
	l.key = conf_key(l.a, l.remote);
	conf_works(&l);
}

/*
 * A guess at a key's secret part is well formed with one of 65536 check sums; that one can be mapped,
 * and opens nothing.
 */
static void api_11_forged_key_is_refused(struct conf *c)
{
	struct conf_link l;
	uint8_t raw[16];
	size_t size = sizeof(raw);
	uint64_t base, key = 0;
	int ret = -FI_EINVAL;

	conf_link(c, NULL, 64, &l);
	assert_ok(fi_mr_raw_attr(l.remote->mr, &base, raw, &size, 0));
	raw[8] ^= 1;
	for (unsigned sum = 0; sum < 65536 && ret != 0; sum++) {
		raw[14] = (uint8_t)sum;
		raw[15] = (uint8_t)(sum >> 8);
		conf_log_mark(__FILE__, __LINE__);
		ret = fi_mr_map_raw(l.a->domain, base, raw, size, &key, 0);
		conf_log_expect(ret != 0, NULL, "guess", __FILE__, __LINE__);
	}
	assert_ok(ret);
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr, key, c));
	conf_failed(l.a->tx, c, FI_EKEYREJECTED, HMREG_KEY_FORGED);
	assert_ok(fi_mr_unmap_key(l.a->domain, key));
	conf_works(&l);
}

/* ---- API-17 ---- */

static size_t raw_desc(struct fid_mr *mr, uint8_t raw[64])
{
	size_t need = 0, len;

	memset(raw, 0xee, 64);
	assert_refused(fi_mr_get_xpu_desc(mr, NULL, &need, 0, NULL), -FI_ETOOSMALL);
	assert_in_range(need, 1, 64);
	for (size_t room = need; room <= 64; room += 64 - need) {
		len = room;
		assert_ok(fi_mr_get_xpu_desc(mr, raw, &len, 0, NULL));
		assert_int_equal(len, need);
	}
	for (size_t i = need; i < 64; i++)
		assert_int_equal(raw[i], 0xee);
	return need;
}

/*
 * Without FI_XPU it is what the NIC's own work requests call the region: a device's lkey, or the number
 * that the software NIC knows it by.
 */
static void api_17_raw_descriptor(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 128), raw[2][64], again[64];
	struct conf_region *region[2];
	size_t size = 0;

	for (int i = 0; i < 2; i++) {
		struct hmreg_verbs_part part = { .size = sizeof(part) };
		struct hmreg_mr_ops *ops;

		region[i] = conf_reg(end, buf + 64 * i, 64, CONF_ALL);
		size = raw_desc(region[i]->mr, raw[i]);
		if (c->profile->exact) {
			assert_int_equal(size, sizeof(region[i]->desc));
			assert_memory_equal(raw[i], &region[i]->desc, size);
			continue;
		}
		assert_ok(fi_open_ops(&region[i]->mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL));
		assert_ok(ops->verbs_part(&region[i]->mr->fid, 0, &part));
		assert_int_equal(size, sizeof(part.lkey));
		assert_memory_equal(raw[i], &part.lkey, size);
	}
	assert_memory_not_equal(raw[0], raw[1], size);
	/* it belongs to the region, whatever comes and goes beside it */
	conf_drop_region(region[1]);
	raw_desc(region[0]->mr, again);
	assert_memory_equal(again, raw[0], size);
}

/* Several of the device's regions behind one key have no descriptor in common. */
static void api_17_of_several_buffers(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 256), raw[64];
	struct iovec iov[2] = { { buf + 128, 64 }, { buf, 64 } };
	struct conf_region *region;
	size_t len = sizeof(raw);

	if (end->info->domain_attr->mr_iov_limit < 2)
		conf_skip(c, "a region is one buffer");
	region = conf_regv(end, iov, 2, CONF_ALL, 0, NULL);
	if (c->profile->exact)
		assert_ok(fi_mr_get_xpu_desc(region->mr, raw, &len, 0, NULL));
	else
		assert_refused_with(fi_mr_get_xpu_desc(region->mr, raw, &len, 0, NULL),
				    -FI_EOPNOTSUPP, "lkey");
}

static const struct conf_case cases[] = {
	CONF(api_09_key),
	CONF(api_10_raw_attr),
	CONF(api_11_map_any_raw_key),
	CONF(api_11_malformed_raw_keys),
	CONF_NEED(api_11_mapped_keys_are_told_apart, FI_MR_RAW),
	CONF_NEED(api_11_unmapped_key_is_refused, FI_MR_RAW),
	CONF_NEED(api_11_forged_key_is_refused, FI_MR_RAW),
	CONF(api_17_raw_descriptor),
	CONF(api_17_of_several_buffers),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
