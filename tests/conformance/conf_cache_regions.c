/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions that the program wants kept: HMREG_MR_CACHE. */
#include <fcntl.h>

#include "tests/conformance/cache.h"
#include "tests/fds.h"

#define OWN (FI_MR_RAW | FI_MR_ENDPOINT)

static struct fid_mr *reg(struct conf_end *end, const void *buf, size_t len, uint64_t access,
			  uint64_t flags)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = access,
				   .requested_key = 77,
				   .context = end };
	struct fid_mr *mr = NULL;

	assert_ok(fi_mr_regattr(end->domain, &attr, flags | HMREG_MR_CACHE, &mr));
	assert_non_null(mr);
	assert_ptr_equal(mr->fid.context, end);
	assert_int_equal(mr->fid.fclass, FI_CLASS_MR);
	return mr;
}

static void drop(struct fid_mr *mr)
{
	assert_ok(fi_close(&mr->fid));
}

/* An end whose cache follows host memory. */
static struct conf_end *open_kept(struct conf *c, uint64_t caps)
{
	struct conf_end *end;
	uint8_t *first = conf_alloc(c, 100);

	conf_need_caps(c, caps);
	end = conf_open(c, &(struct conf_opts){ .caps = caps, .no_ep = true });
	drop(reg(end, first, 100, CONF_LOCAL, 0));
	cache_need_kept(c, end);
	return end;
}

static bool is_shared(const struct fid_mr *a, const struct fid_mr *b)
{
	assert_int_equal(a->key == b->key, a->mem_desc == b->mem_desc);
	return a->key == b->key;
}

static void reg_07_the_same_again(struct conf *c)
{
	struct conf_end *end = open_kept(c, CONF_CAPS);
	uint8_t *buf = cache_map(c, NULL, BULK);
	long calls = cache_verb_calls("ibv_reg_mr_iova2"), ends = cache_verb_calls("ibv_dereg_mr");
	struct hmreg_cache_figures before = cache_figures(end), now;
	struct fid_mr *one = reg(end, buf, BULK, CONF_ALL, 0), *two, *three;

	two = reg(end, buf, BULK, CONF_ALL, 0);
	assert_ptr_not_equal(one, two);
	assert_true(is_shared(one, two));
	conf_check_stats(end, 2, 2 * BULK, 0);
	drop(one);
	conf_check_stats(end, 1, BULK, 0);
	drop(two);
	conf_check_stats(end, 0, 0, 0);
	three = reg(end, buf, BULK, CONF_ALL, 0);
	assert_int_equal(cache_verb_calls("ibv_reg_mr_iova2"), calls < 0 ? calls : calls + 1);
	assert_int_equal(cache_verb_calls("ibv_dereg_mr"), ends);
	now = cache_figures(end);
	assert_int_equal(now.misses, before.misses + 1);
	assert_int_equal(now.hits, before.hits + 2);
	drop(three);
	munmap(buf, BULK);
}

/* Rights of peers, ordering and page size are the same, or it is another one. */
static void fn_30_fn_35_what_is_the_same(struct conf *c)
{
	struct conf_end *end = open_kept(c, CONF_CAPS);
	uint8_t *buf = cache_map(c, NULL, BULK);
	struct fid_mr *all = reg(end, buf, BULK, CONF_ALL, 0), *other[4], *inside;
	bool virtual = end->mode & FI_MR_VIRT_ADDR;

	other[0] = reg(end, buf, BULK, CONF_ALL & ~FI_REMOTE_WRITE, 0);
	other[1] = reg(end, buf, BULK, CONF_LOCAL, 0);
	other[2] = reg(end, buf, BULK, CONF_ALL, HMREG_MR_RELAXED_ORDERING);
	other[3] = reg(end, buf, BULK + 0, FI_REMOTE_READ, HMREG_MR_RELAXED_ORDERING);
	for (size_t i = 0; i < count_of(other); i++) {
		assert_false(is_shared(all, other[i]));
		for (size_t k = 0; k < i; k++)
			assert_false(is_shared(other[k], other[i]));
	}
	/* fewer rights on this side do not matter */
	inside = reg(end, buf, BULK, FI_SEND | CONF_REMOTE, 0);
	assert_true(is_shared(all, inside));
	drop(inside);
	/* nor does a part, where peers address it as the program does */
	inside = reg(end, buf + 4096, 4096, CONF_ALL, 0);
	assert_int_equal(is_shared(all, inside), virtual);
	drop(inside);
	inside = reg(end, buf, 4096, CONF_ALL, 0);
	assert_true(is_shared(all, inside));
	drop(inside);
	for (size_t i = 0; i < count_of(other); i++)
		drop(other[i]);
	drop(all);
	munmap(buf, BULK);
}

/* A region whose memory is gone stays until it is closed; who asks again gets another. */
static void cache_02_fn_29_other_memory(struct conf *c)
{
	struct conf_end *end = open_kept(c, CONF_CAPS);
	uint8_t *buf = cache_map(c, NULL, BULK);
	struct fid_mr *one = reg(end, buf, BULK, CONF_ALL, 0), *two;

	munmap(buf, BULK);
	assert_ptr_equal(cache_map(c, buf, BULK), buf);
	two = reg(end, buf, BULK, CONF_ALL, 0);
	assert_false(is_shared(one, two));
	conf_check_stats(end, 2, 2 * BULK, 0);
	drop(one);
	drop(two);
	two = reg(end, buf, BULK, CONF_ALL, 0);
	drop(two);
	munmap(buf, BULK);
}

/* Peers reach it, and so do calls of this side by its descriptor. */
static void cache_03_it_works(struct conf *c)
{
	struct conf_link l;
	struct fid_mr *src, *dst;
	uint64_t addr;

	conf_link(c, NULL, BULK, &l);
	src = reg(l.a, l.src, BULK, CONF_ALL, 0);
	dst = reg(l.b, l.dst, BULK, CONF_ALL, 0);
	addr = l.b->mode & FI_MR_VIRT_ADDR ? (uintptr_t)l.dst : 0;
	for (int i = 0; i < 2; i++) {
		conf_fill(c, l.src, BULK);
		assert_posted(fi_write(l.a->ep, l.src, BULK, fi_mr_desc(src), l.to, addr,
				       fi_mr_key(dst), c));
		conf_done(l.a->tx, c);
		assert_memory_equal(l.dst, l.src, BULK);
		drop(dst);
		dst = reg(l.b, l.dst, BULK, CONF_ALL, 0);
	}
	drop(src);
	drop(dst);
}

/* An open one keeps the domain, a kept one does not. */
static void cache_04_the_domain_closes(struct conf *c)
{
	struct conf_end *end = open_kept(c, CONF_CAPS);
	uint8_t *buf = cache_map(c, NULL, BULK);
	struct fid_mr *mr = reg(end, buf, BULK, CONF_ALL, 0);

	assert_refused_with(fi_close(&end->domain->fid), -FI_EBUSY, "1 open regions");
	drop(mr);
	munmap(buf, BULK); /* the harness closes the domain */
}

static void api_20_what_it_does_not_go_with(struct conf *c)
{
	struct conf_end *end = open_kept(c, CONF_CAPS);
	uint8_t *buf = conf_alloc(c, BULK);
	struct iovec iov[2] = { { buf, 100 }, { buf + 200, 100 } };
	struct fi_mr_attr attr = { .mr_iov = iov, .iov_count = 2, .access = CONF_LOCAL };
	struct fid_mr *mr = NULL, *kept = reg(end, buf, BULK, CONF_ALL, 0);
	struct fi_mr_modify modify = { .attr = attr };

	assert_refused(fi_mr_regattr(end->domain, &attr, HMREG_MR_CACHE, &mr), -FI_EINVAL);
	attr.iov_count = 1;
	assert_refused(fi_mr_regattr(end->domain, &attr, HMREG_MR_CACHE | FI_MR_SINGLE_USE, &mr),
		       -FI_EBADFLAGS);
	attr.base_mr = kept;
	assert_refused_with(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL, "shared");
	assert_refused(fi_mr_regattr(end->domain, &attr, HMREG_MR_CACHE, &mr), -FI_EINVAL);
	assert_null(mr);
	assert_refused(fi_mr_enable(kept), -FI_EOPBADSTATE);
	assert_refused(fi_control(&kept->fid, FI_REFRESH, &modify), -FI_ENOSYS);
	assert_refused(fi_mr_bind(kept, &end->domain->fid, 0), -FI_EINVAL);
	drop(kept);
}

static void api_20_domains_that_cannot(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 100);
	struct iovec iov = { buf, 100 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_LOCAL };
	struct fid_mr *mr = NULL;

	if ((end->mode & FI_MR_PROV_KEY) && !(end->mode & OWN))
		conf_skip(c, "this one can");
	assert_refused_with(fi_mr_regattr(end->domain, &attr, HMREG_MR_CACHE, &mr), -FI_EBADFLAGS,
			    "FI_MR_PROV_KEY");
	assert_null(mr);
}

/* ---- dma-bufs ---- */

static struct fid_mr *reg_file(struct conf_end *end, int fd, uint64_t offset, size_t len)
{
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .offset = offset, .len = len };
	struct fi_mr_attr attr = { .access = CONF_ALL, .dmabuf = &dmabuf };
	struct fid_mr *mr = NULL;

	assert_ok(fi_mr_regattr(end->domain, &attr, HMREG_MR_CACHE | FI_MR_DMABUF, &mr));
	return mr;
}

static int a_file(void)
{
	int fd = memfd_create("kept", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BULK), 0);
	return fd;
}

/* It is the file that counts, not the number of a descriptor. */
static void fn_33_known_by_identity(struct conf *c)
{
	struct fid_mr *one, *two;
	struct conf_end *end;
	int fd, again, other;
	uint64_t key;

	if (!c->profile->exact && !getenv("HMREG_EMU_VERBS"))
		conf_skip(c, "the kernel takes no file for a dma-buf");
	end = open_kept(c, CONF_CAPS | FI_HMEM);
	fd = a_file();
	again = dup(fd);
	one = reg_file(end, fd, 0, BULK);
	two = reg_file(end, again, 0, BULK);
	key = one->key;
	assert_true(is_shared(one, two));
	drop(one);
	drop(two);
	close(again);
	close(fd);
	other = a_file(); /* another file, by the number that is free now */
	assert_int_equal(other, fd);
	two = reg_file(end, other, 0, BULK);
	assert_int_not_equal(two->key, key);
	one = reg_file(end, other, 4096, 4096); /* another place of it */
	assert_int_equal(is_shared(one, two), !!(end->mode & FI_MR_VIRT_ADDR));
	drop(one);
	drop(two);
	close(other);
	/* what is kept holds its files: the harness finds no descriptor left when the domain is closed */
}

static const struct conf_case cases[] = {
	{ "reg_07_the_same_again", reg_07_the_same_again, FI_MR_PROV_KEY, OWN },
	{ "fn_30_fn_35_what_is_the_same", fn_30_fn_35_what_is_the_same, FI_MR_PROV_KEY, OWN },
	{ "cache_02_fn_29_other_memory", cache_02_fn_29_other_memory, FI_MR_PROV_KEY, OWN },
	{ "cache_03_it_works", cache_03_it_works, FI_MR_PROV_KEY, OWN },
	{ "cache_04_the_domain_closes", cache_04_the_domain_closes, FI_MR_PROV_KEY, OWN },
	{ "api_20_what_it_does_not_go_with", api_20_what_it_does_not_go_with, FI_MR_PROV_KEY, OWN },
	CONF(api_20_domains_that_cannot),
	{ "fn_33_known_by_identity", fn_33_known_by_identity, FI_MR_PROV_KEY, OWN },
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
