/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of several buffers that are unlike each other: far apart, tiny, backwards, overlapping (API-06). */
#include "tests/conformance/pages.h"

#define MOST  16
#define ARENA ((size_t)8 << 20)

/* Memory of its own for each case, so that buffers can be megabytes apart. */
static uint8_t *arena;

static void open_scene(struct conf *c, struct conf_link *l, size_t len)
{
	conf_link(c, NULL, len, l);
	if (l->b->info->domain_attr->mr_iov_limit < MOST)
		conf_skip(c, "regions have fewer than 16 buffers");
	arena = conf_map_pages(ARENA / conf_page(), -1);
}

static void close_scene(void)
{
	munmap(arena, ARENA);
}

static size_t total(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

/* Where byte off of the region is. */
static uint8_t *byte_at(const struct iovec *iov, size_t off)
{
	while (off >= iov->iov_len)
		off -= iov++->iov_len;
	return (uint8_t *)iov->iov_base + off;
}

/* One write and one read of [off, off + len), byte by byte compared. */
static void move(struct conf_link *l, const struct conf_region *region, uint64_t key,
		 const struct iovec *iov, size_t off, size_t len)
{
	conf_fill(l->a->conf, l->src, len);
	assert_ok(
		fi_write(l->a->ep, l->src, len, l->local->desc, l->to, region->addr + off, key, l));
	conf_done(l->a->tx, l);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(*byte_at(iov, off + i), l->src[i]);
	for (size_t i = 0; i < len; i++)
		*byte_at(iov, off + i) = (uint8_t)(l->src[i] + 1);
	assert_ok(
		fi_read(l->a->ep, l->src, len, l->local->desc, l->to, region->addr + off, key, l));
	conf_done(l->a->tx, l);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(*byte_at(iov, off + i), l->src[i]);
}

static void out_of_bounds(struct conf_link *l, uint64_t addr, size_t len, uint64_t key)
{
	assert_ok(fi_write(l->a->ep, l->src, len, l->local->desc, l->to, addr, key, l));
	conf_failed(l->a->tx, l, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
}

/* All of it, each seam, and one byte beyond. */
static void use_all(struct conf_link *l, const struct iovec *iov, size_t count)
{
	struct conf_region *region = conf_regv(l->b, iov, count, CONF_ALL, 0, NULL);
	uint64_t key = conf_key(l->a, region);
	size_t len = total(iov, count), seam = 0;

	move(l, region, key, iov, 0, len);
	for (size_t i = 0; i < count; i++) {
		move(l, region, key, iov, seam, 1);
		if (i > 0)
			move(l, region, key, iov, seam - 1, 2);
		seam += iov[i].iov_len;
		move(l, region, key, iov, seam - 1, 1);
	}
	out_of_bounds(l, region->addr + len, 1, key);
	out_of_bounds(l, region->addr + len - 1, 2, key);
	out_of_bounds(l, region->addr, len + 1, key);
	conf_drop_region(region);
}

/* ---- lists of buffers ---- */

static void one_byte_each(struct iovec *iov)
{
	for (size_t i = 0; i < MOST; i++)
		iov[i] = (struct iovec){ arena + i * 4097, 1 };
}

/* The same, the last first, without a gap: bytes in the opposite order of their addresses. */
static void bytes_backwards(struct iovec *iov)
{
	for (size_t i = 0; i < MOST; i++)
		iov[i] = (struct iovec){ arena + 100 + MOST - 1 - i, 1 };
}

static void pages_backwards(struct iovec *iov)
{
	for (size_t i = 0; i < MOST; i++)
		iov[i] = (struct iovec){ arena + (MOST - 1 - i) * conf_page(), conf_page() };
}

/* Each begins where the one before ends: one range in pieces. */
static void without_gaps(struct iovec *iov)
{
	size_t at = 13;

	for (size_t i = 0; i < MOST; i++) {
		iov[i] = (struct iovec){ arena + at, 1 + i * 37 };
		at += iov[i].iov_len;
	}
}

/* From a byte to half a megabyte, and the gaps as well. */
static void of_all_sizes(struct iovec *iov)
{
	size_t at = 1;

	for (size_t i = 0; i < MOST; i++) {
		iov[i] = (struct iovec){ arena + at, (size_t)1 << (i % 8 * 2) };
		at += iov[i].iov_len + ((size_t)1 << (i + 3));
	}
}

/* A large one between two tiny ones. */
static void tiny_and_large(struct iovec *iov)
{
	for (size_t i = 0; i < MOST; i++)
		iov[i] = (struct iovec){ arena + i * (ARENA / MOST) + 3,
					 i % 2 ? 1 : 20 * conf_page() };
}

static const struct {
	const char *name;
	void (*fill)(struct iovec *iov);
} lists[] = {
	{ "one byte each", one_byte_each },	{ "bytes backwards", bytes_backwards },
	{ "pages backwards", pages_backwards }, { "without gaps", without_gaps },
	{ "of all sizes", of_all_sizes },	{ "tiny and large", tiny_and_large },
};

static void api_06_any_buffers(struct conf *c)
{
	struct iovec iov[MOST];
	struct conf_link l;

	open_scene(c, &l, (size_t)2 << 20);
	for (size_t i = 0; i < count_of(lists); i++) {
		lists[i].fill(iov);
		assert_true(total(iov, MOST) < l.len);
		print_message("%s\n", lists[i].name);
		use_all(&l, iov, MOST);
	}
	close_scene();
}

/* Bytes between the buffers are never touched, whatever is written. */
static void api_06_gaps_stay(struct conf *c)
{
	static uint8_t before[MOST * 4097];
	struct iovec iov[MOST];
	struct conf_region *region;
	struct conf_link l;

	open_scene(c, &l, 4096);
	one_byte_each(iov);
	conf_fill(c, arena, sizeof(before));
	memcpy(before, arena, sizeof(before));
	region = conf_regv(l.b, iov, MOST, CONF_ALL, 0, NULL);
	memset(l.src, 0xee, MOST);
	assert_ok(fi_write(l.a->ep, l.src, MOST, l.local->desc, l.to, region->addr,
			   conf_key(l.a, region), c));
	conf_done(l.a->tx, c);
	for (size_t i = 0; i < MOST; i++)
		before[i * 4097] = 0xee;
	assert_memory_equal(arena, before, sizeof(before));
	conf_drop_region(region);
	close_scene();
}

/* Buffers may share bytes, or be the same one several times: each name leads to the memory. */
static void api_06_overlapping_buffers(struct conf *c)
{
	struct conf_region *region;
	struct iovec iov[MOST];
	struct conf_link l;
	uint64_t key;

	open_scene(c, &l, 4096);
	for (size_t i = 0; i < MOST; i++) /* half of each is the next one's as well, twice round */
		iov[i] = (struct iovec){ arena + i % 8 * 32, 64 };
	region = conf_regv(l.b, iov, MOST, CONF_ALL, 0, NULL);
	key = conf_key(l.a, region);
	for (size_t i = 0; i < MOST; i++) {
		move(&l, region, key, iov, i * 64, 64);
		memset(arena, (int)i, 512);
		/* the same bytes by the other names of this buffer */
		conf_fill(c, l.src, 64);
		assert_ok(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, region->addr + i * 64,
				   key, c));
		conf_done(l.a->tx, c);
		assert_ok(fi_read(l.a->ep, l.src + 64, 64, l.local->desc, l.to,
				  region->addr + (i + 8) % MOST * 64, key, c));
		conf_done(l.a->tx, c);
		assert_memory_equal(l.src, l.src + 64, 64);
	}
	conf_drop_region(region);
	close_scene();
}

/* Atomics over seams: each element lies in one buffer, or nothing is done. */
static void api_06_atomics_over_seams(struct conf *c)
{
	struct conf_region *region;
	struct iovec iov[MOST];
	struct conf_link l;
	uint64_t key, value;
	size_t n;

	open_scene(c, &l, 4096);
	n = conf_atomic_count(l.a, FI_UINT64, FI_SUM, 0);
	if (n < 2 * MOST)
		conf_skip(c, "atomic operations take fewer than 32 elements");
	for (size_t i = 0; i < MOST; i++)
		iov[i] = (struct iovec){ arena + (MOST - i) * 100 / 8 * 8, 16 };
	region = conf_regv(l.b, iov, MOST, CONF_ALL, 0, NULL);
	key = conf_key(l.a, region);
	memset(arena, 0, 4096);
	for (size_t i = 0; i < 2 * MOST; i++)
		memcpy(l.src + 8 * i, &(uint64_t){ i + 1 }, 8);
	assert_ok(fi_atomic(l.a->ep, l.src, 2 * MOST, l.local->desc, l.to, region->addr, key,
			    FI_UINT64, FI_SUM, c));
	conf_done(l.a->tx, c);
	for (size_t i = 0; i < 2 * MOST; i++) {
		memcpy(&value, byte_at(iov, 8 * i), 8);
		assert_int_equal(value, i + 1);
	}
	assert_ok(fi_atomic(l.a->ep, l.src, 1, l.local->desc, l.to, region->addr + 12, key,
			    FI_UINT64, FI_SUM, c));
	conf_failed(l.a->tx, c, FI_EINVAL, HMREG_MISALIGNED);
	conf_drop_region(region);
	close_scene();
}

static const struct conf_case cases[] = {
	CONF(api_06_any_buffers),
	CONF(api_06_gaps_stay),
	CONF(api_06_overlapping_buffers),
	CONF(api_06_atomics_over_seams),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
