/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ERRORS section of fi_mr(3), row by row, and the codes that its other sections promise.  ROWS is the
 * section, and makes the cases: a row without one does not compile, and one that provokes nothing fails.
 * After each provocation outputs, figures and descriptors are as before, and the neighbours still work.
 */
#include "tests/conformance/harness.h"
#include "tests/fds.h"

static void *const NOTHING = (void *)(uintptr_t)0x5a5a5a;

/* name, its code, what the page says of it */
#define ROWS(X)                                                                                    \
	X(mode_07_key_in_use, -FI_ENOKEY, "The requested_key is already in use.")                  \
	X(mode_07_key_not_available, -FI_EKEYREJECTED,                                             \
	  "The requested_key is not available: out of the range supported, or not supported.")     \
	X(api_12_no_events, -FI_ENOSYS,                                                            \
	  "fi_mr_bind: reporting events based on access to regions is not supported.")             \
	X(api_05_flags, -FI_EBADFLAGS, "The specified flags are not supported.")                   \
	X(api_17_short_descriptor, -FI_ETOOSMALL, "fi_mr_get_xpu_desc: the buffer is too small.")  \
	X(api_17_invalid_context, -FI_EINVAL, "fi_mr_get_xpu_desc: an invalid XPU context.")       \
	X(api_10_short_raw_key, -FI_ETOOSMALL, "fi_mr_raw_attr: the key does not fit.")            \
	X(sub_03_base_in_use, -FI_EBUSY, "fi_close: resources are associated with the region.")    \
	X(api_15_no_refresh, -FI_ENOSYS, "fi_mr_refresh: not supported.")                          \
	X(api_05_attributes, -FI_EINVAL, "Attributes: must be 0, NULL, contained, supported.")

struct row {
	int code;
	const char *text;
};

struct scene {
	struct conf_link l;
	const struct row *row;
	unsigned int provoked;
	struct fid_cntr *cntr;
	uint8_t *buf; /* 64 bytes that nobody has registered */
	struct fid_mr *mr;
	uint64_t key;
	uint8_t raw[64];
	size_t size, fds;
	struct hmreg_domain_stats stats;
};

static void before(struct scene *s)
{
	s->mr = NOTHING;
	s->key = 0x7777;
	memset(s->raw, 0xee, sizeof(s->raw));
	s->size = sizeof(s->raw);
	s->stats = conf_stats(s->l.b);
	s->fds = test_fds();
}

static void after(struct scene *s)
{
	struct hmreg_domain_stats now = conf_stats(s->l.b);

	assert_ptr_equal(s->mr, NOTHING);
	assert_int_equal(s->key, 0x7777);
	for (size_t i = 0; i < sizeof(s->raw); i++)
		assert_int_equal(s->raw[i], 0xee);
	assert_memory_equal(&now, &s->stats, sizeof(now));
	assert_int_equal(test_fds(), s->fds);
	conf_works(&s->l);
	s->provoked++;
}

/* The call gives the row's code and one log line, and changes nothing. */
#define PROVOKE(s, ...)                                                                            \
	do {                                                                                       \
		before(s);                                                                         \
		assert_refused((__VA_ARGS__), (s)->row->code);                                     \
		after(s);                                                                          \
	} while (0)

#define DOMAIN	    (s->l.b->domain)
#define REGION	    (s->l.remote->mr)
#define ATTR(...)   (&(struct fi_mr_attr){ .mr_iov = &iov, .iov_count = 1, __VA_ARGS__ })
#define WITH_KEY(x) .access = CONF_ALL, .requested_key = (x)
#define OF_BASE	    .access = CONF_ALL, .base_mr = REGION, .requested_key = 1000
#define IOV_OF(s)                                                                                  \
	{                                                                                          \
		(s)->buf, 64                                                                       \
	}
#define PART_OF(s)                                                                                 \
	{                                                                                          \
		(s)->l.dst, 32                                                                     \
	}
#define OUTSIDE FI_KEY_NOTAVAIL

static bool chooses_keys(const struct scene *s)
{
	return !(s->l.b->mode & (FI_MR_PROV_KEY | FI_MR_RAW));
}

/* With FI_MR_PROV_KEY the argument is ignored: what would be refused is taken. */
static void ignored(struct scene *s, uint64_t key)
{
	assert_ok(fi_mr_reg(DOMAIN, s->buf, 64, CONF_ALL, 0, key, 0, &s->mr, NULL));
	assert_ok(fi_close(&s->mr->fid));
	s->provoked++;
}

static void by_each_call(struct scene *s, uint64_t key, uint64_t flags)
{
	struct iovec iov = IOV_OF(s);

	PROVOKE(s, fi_mr_reg(DOMAIN, s->buf, 64, CONF_ALL, 0, key, flags, &s->mr, s));
	PROVOKE(s, fi_mr_regv(DOMAIN, &iov, 1, CONF_ALL, 0, key, flags, &s->mr, s));
	PROVOKE(s, fi_mr_regattr(DOMAIN, ATTR(WITH_KEY(key)), flags, &s->mr));
	iov = (struct iovec)PART_OF(s);
	PROVOKE(s, fi_mr_regattr(DOMAIN, ATTR(WITH_KEY(key), .base_mr = REGION), flags, &s->mr));
}

static void mode_07_key_in_use(struct scene *s)
{
	if (chooses_keys(s))
		by_each_call(s, fi_mr_key(REGION), 0);
	else
		ignored(s, fi_mr_key(REGION));
}

static void mode_07_key_not_available(struct scene *s)
{
	size_t bits = 8 * s->l.b->info->domain_attr->mr_key_size;

	if (!chooses_keys(s)) {
		ignored(s, OUTSIDE);
		return;
	}
	by_each_call(s, OUTSIDE, 0);
	for (; bits < 64; bits++)
		by_each_call(s, UINT64_C(1) << bits, 0);
}

static void api_12_no_events(struct scene *s)
{
	PROVOKE(s, fi_mr_bind(REGION, &s->cntr->fid, FI_REMOTE_WRITE));
}

static void api_05_flags(struct scene *s)
{
	static const uint64_t flags[] = {
		1,
		FI_RMA_PMEM,
		FI_RMA_EVENT,
		FI_HMEM_DEVICE_ONLY,
		FI_MR_DMABUF,
		FI_HMEM_HOST_ALLOC,
		FI_AUTH_KEY,
		UINT64_C(1) << 63,
	};
	uint64_t base;

	for (size_t i = 0; i < count_of(flags); i++)
		by_each_call(s, 1000, flags[i]);
	PROVOKE(s, fi_mr_raw_attr(REGION, &s->key, s->raw, &s->size, 1));
	PROVOKE(s, fi_mr_refresh(REGION, NULL, 0, 1));
	assert_ok(fi_mr_raw_attr(REGION, &base, s->raw, &s->size, 0));
	before(s);
	s->size = 8;
	assert_refused(fi_mr_map_raw(s->l.a->domain, base, s->raw, s->size, &s->key, 1),
		       s->row->code);
	after(s);
}

static void api_17_short_descriptor(struct scene *s)
{
	size_t need = sizeof(s->raw), room;

	assert_ok(fi_mr_get_xpu_desc(REGION, s->raw, &need, 0, NULL));
	assert_in_range(need, 1, sizeof(s->raw));
	for (room = 0; room < need; room++) {
		before(s);
		s->size = room;
		assert_refused(fi_mr_get_xpu_desc(REGION, s->raw, &s->size, 0, NULL), s->row->code);
		assert_int_equal(s->size, need);
		after(s);
	}
}

/* No context can be opened, so that none is valid. */
static void api_17_invalid_context(struct scene *s)
{
	struct fid_xpu_ctx *const loose = (void *)s->buf;
	struct fid_xpu_ctx *const other = (void *)s->l.b->domain;

	PROVOKE(s, fi_mr_get_xpu_desc(REGION, s->raw, &s->size, FI_XPU, NULL));
	PROVOKE(s, fi_mr_get_xpu_desc(REGION, s->raw, &s->size, FI_XPU, loose));
	PROVOKE(s, fi_mr_get_xpu_desc(REGION, s->raw, &s->size, FI_XPU, other));
	PROVOKE(s, fi_mr_get_xpu_desc(REGION, s->raw, &s->size, 0, loose));
}

static void api_10_short_raw_key(struct scene *s)
{
	size_t need = sizeof(s->raw), room;
	uint64_t base;

	assert_ok(fi_mr_raw_attr(REGION, &base, s->raw, &need, 0));
	for (room = 0; room < need; room++) {
		before(s);
		s->size = room;
		assert_refused(fi_mr_raw_attr(REGION, &s->key, s->raw, &s->size, 0), s->row->code);
		assert_int_equal(s->size, need);
		after(s);
	}
}

static void sub_03_base_in_use(struct scene *s)
{
	struct iovec iov = PART_OF(s);
	struct fid_mr *sub;

	assert_ok(fi_mr_regattr(DOMAIN, ATTR(OF_BASE), 0, &sub));
	PROVOKE(s, fi_close(&REGION->fid));
	assert_ok(fi_close(&sub->fid));
	if (s->l.b->mode & FI_MR_ENDPOINT)
		PROVOKE(s, fi_close(&s->l.b->ep->fid));
	assert_ok(fi_mr_regattr(DOMAIN, ATTR(WITH_KEY(1000)), 0, &sub));
	PROVOKE(s, fi_close(&DOMAIN->fid));
	assert_ok(fi_close(&sub->fid));
}

/* A device that can neither fetch pages nor pin others. */
static void api_15_no_refresh(struct scene *s)
{
	int ret;

	before(s);
	conf_log_mark(__FILE__, __LINE__);
	ret = fi_mr_refresh(REGION, NULL, 0, 0);
	conf_log_expect(ret ? 1 : 0, NULL, "fi_mr_refresh", __FILE__, __LINE__);
	if (ret == 0) {
		assert_ok(fi_close(&s->cntr->fid));
		conf_skip(s->l.b->conf, "every region of the NIC can be refreshed");
	}
	assert_int_equal(ret, s->row->code);
	after(s);
}

static void api_05_attributes(struct scene *s)
{
	uint8_t *dst = s->l.dst;
	struct iovec iov = IOV_OF(s);
	/* elsewhere, over the base's end, before its begin, around it */
	const struct iovec outside[] = { IOV_OF(s),	  { dst + 1, 64 },  { dst + 63, 2 },
					 { dst - 1, 64 }, { dst - 63, 64 }, { dst - 1, 66 },
					 { dst + 64, 1 }, { dst - 1, 1 } };

	PROVOKE(s, fi_mr_reg(DOMAIN, s->buf, 0, CONF_ALL, 0, 1000, 0, &s->mr, s));
	PROVOKE(s, fi_mr_reg(DOMAIN, s->buf, 64, CONF_ALL, 1, 1000, 0, &s->mr, s));
	PROVOKE(s, fi_mr_regattr(DOMAIN, ATTR(WITH_KEY(1000), .offset = 1), 0, &s->mr));
	PROVOKE(s, fi_mr_regattr(DOMAIN, ATTR(WITH_KEY(1000), .hmem_data = s), 0, &s->mr));
	PROVOKE(s, fi_mr_regattr(DOMAIN, ATTR(WITH_KEY(1000), .page_size = 3), 0, &s->mr));
	for (size_t i = 0; i < count_of(outside); i++) {
		iov = outside[i];
		PROVOKE(s, fi_mr_regattr(DOMAIN, ATTR(OF_BASE), 0, &s->mr));
	}
}

/* ---- rows and their cases ---- */

static void run_row(struct conf *c, const struct row *row, void (*fn)(struct scene *s))
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct scene s = { .row = row };

	conf_link(c, NULL, 64, &s.l);
	s.buf = conf_alloc(c, 64);
	assert_ok(fi_cntr_open(s.l.b->domain, &attr, &s.cntr, NULL));
	fn(&s);
	if (s.provoked == 0)
		fail_msg("nothing has provoked \"%s\"", row->text);
	assert_ok(fi_close(&s.cntr->fid));
}

#define CASE_OF(name, value, words)                                                                \
	static void api_20_##name(struct conf *c)                                                  \
	{                                                                                          \
		static const struct row row = { .code = (value), .text = (words) };                \
                                                                                                   \
		run_row(c, &row, name);                                                            \
	}
ROWS(CASE_OF)

#define ENTRY_OF(name, value, words) CONF(api_20_##name),
static const struct conf_case cases[] = { ROWS(ENTRY_OF) };

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
