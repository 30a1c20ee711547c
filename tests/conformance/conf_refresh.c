/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other pages at the addresses of a region, and none: fi_mr_refresh (API-15) with FI_MR_MMU_NOTIFY and
 * FI_MR_ALLOCATED in any combination (MODE-08).  conf_refresh_race.c has what happens at the same time.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/harness.h"
#include "tests/conformance/pages.h"
#include "tests/threads.h"

#define PAGES 24 /* more than the library probes one by one */

/* A region of b's that a reaches, over pages that are exchanged. */
struct scene {
	struct conf_link l; /* src: host memory of a; dst: the pages */
	int file;
	size_t size;
};

/* Refreshing is optional for a NIC that has pinned its pages. */
static void need_refresh(struct conf *c, struct conf_region *region)
{
	int ret;

	conf_log_mark(__FILE__, __LINE__);
	ret = fi_mr_refresh(region->mr, NULL, 0, 0);
	conf_log_expect(ret ? 1 : 0, NULL, "fi_mr_refresh", __FILE__, __LINE__);
	if (ret == -FI_ENOSYS && conf_holds_pages(c))
		conf_skip(c, "regions of this device cannot be refreshed (FI_ENOSYS)");
	conf_check_code(ret, 0, "fi_mr_refresh", __FILE__, __LINE__);
}

static void open_scene(struct conf *c, struct scene *s, bool of_file)
{
	s->size = PAGES * conf_page();
	s->file = of_file ? memfd_create("target", MFD_CLOEXEC) : -1;
	if (of_file)
		assert_int_equal(ftruncate(s->file, (off_t)s->size), 0);
	conf_link(c, NULL, s->size, &s->l);
	need_refresh(c, s->l.remote);
	conf_drop_region(s->l.remote);
	s->l.dst = conf_map_pages(PAGES, s->file);
	s->l.remote = conf_reg(s->l.b, s->l.dst, s->size, CONF_ALL);
	s->l.key = conf_key(s->l.a, s->l.remote);
}

static void close_scene(struct scene *s)
{
	conf_drop_region(s->l.remote);
	munmap(s->l.dst, s->size);
	if (s->file >= 0)
		close(s->file);
}

/* ---- other pages ---- */

static void moved_over(struct scene *s)
{
	uint8_t *other =
		mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(other != MAP_FAILED);
	memset(other, 0x11, s->size);
	assert_ptr_equal(mremap(other, s->size, s->size, MREMAP_MAYMOVE | MREMAP_FIXED, s->l.dst),
			 s->l.dst);
}

/* The old pages go on elsewhere, and must be left alone. */
static uint8_t *moved_away;

static void moved_elsewhere(struct scene *s)
{
	moved_away = conf_map_pages(PAGES, -1);
	assert_ptr_equal(mremap(s->l.dst, s->size, s->size, MREMAP_MAYMOVE | MREMAP_FIXED,
				moved_away),
			 moved_away);
	memset(moved_away, 0x22, s->size);
	assert_ptr_equal(conf_map_at(s->l.dst, PAGES, -1), s->l.dst);
}

static void unmapped_and_mapped(struct scene *s)
{
	assert_int_equal(munmap(s->l.dst, s->size), 0);
	assert_ptr_equal(conf_map_at(s->l.dst, PAGES, -1), s->l.dst);
}

static void given_back(struct scene *s)
{
	memset(s->l.dst, 0x33, s->size);
	assert_int_equal(madvise(s->l.dst, s->size, MADV_DONTNEED), 0);
}

/* The first to write after a fork gets other pages. */
static void forked(struct scene *s)
{
	int status;
	pid_t pid;

	memset(s->l.dst, 0x44, s->size);
	fflush(NULL);
	pid = test_fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (size_t i = 0; i < s->size; i += conf_page())
			s->l.dst[i] = 1;
		_exit(0);
	}
	for (size_t i = 0; i < s->size; i += conf_page())
		s->l.dst[i] = 0x55;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void truncated_and_grown(struct scene *s)
{
	assert_int_equal(ftruncate(s->file, 0), 0);
	assert_int_equal(ftruncate(s->file, (off_t)s->size), 0);
}

static void another_file(struct scene *s)
{
	int file = memfd_create("another", MFD_CLOEXEC);

	assert_int_equal(ftruncate(file, (off_t)s->size), 0);
	assert_ptr_equal(conf_map_at(s->l.dst, PAGES, file), s->l.dst);
	close(file);
}

static const struct change {
	const char *name;
	void (*fn)(struct scene *s);
	bool of_file;
} changes[] = {
	{ "mremap over it", moved_over, false },
	{ "mremap elsewhere", moved_elsewhere, false },
	{ "munmap and mmap", unmapped_and_mapped, false },
	{ "MADV_DONTNEED", given_back, false },
	{ "fork", forked, false },
	{ "truncation and growth of its file", truncated_and_grown, true },
	{ "MADV_DONTNEED of a file's", given_back, true },
	{ "another file", another_file, true },
};

/* What a peer writes is what the owner sees, and the other way round. */
static void sees_the_same(struct scene *s)
{
	conf_works(&s->l);
	conf_fill(s->l.a->conf, s->l.dst, s->size);
	conf_get(&s->l, 0, s->size);
	assert_memory_equal(s->l.src, s->l.dst, s->size);
}

static void api_15_mode_08_new_pages_are_reached(struct conf *c)
{
	for (size_t i = 0; i < count_of(changes); i++) {
		struct scene s;

		open_scene(c, &s, changes[i].of_file);
		sees_the_same(&s);
		moved_away = NULL;
		changes[i].fn(&s);
		print_message("%s\n", changes[i].name);
		assert_ok(fi_mr_refresh(s.l.remote->mr, NULL, 0, 0));
		sees_the_same(&s);
		for (size_t k = 0; moved_away && k < s.size; k++)
			assert_int_equal(moved_away[k], 0x22);
		if (moved_away)
			munmap(moved_away, s.size);
		close_scene(&s);
		conf_drop_region(s.l.local);
		conf_drop_end(s.l.b);
		conf_drop_end(s.l.a);
	}
}

/* Only some pages are others; they alone are told. */
static void api_15_parts(struct conf *c)
{
	size_t page = conf_page();
	struct iovec parts[2];
	struct scene s;

	open_scene(c, &s, false);
	sees_the_same(&s);
	assert_int_equal(munmap(s.l.dst + 2 * page, 2 * page), 0);
	conf_map_at(s.l.dst + 2 * page, 2, -1);
	assert_int_equal(madvise(s.l.dst + 9 * page, page, MADV_DONTNEED), 0);
	parts[0] = (struct iovec){ s.l.dst + 9 * page + 5, 7 };
	parts[1] = (struct iovec){ s.l.dst + 2 * page, 2 * page };
	assert_ok(fi_mr_refresh(s.l.remote->mr, parts, 2, 0));
	sees_the_same(&s);
	close_scene(&s);
}

/* ---- arguments ---- */

/* A part outside is refused, whatever is beside it, and changes nothing. */
static void api_15_arguments(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 256);
	struct conf_region *region = conf_reg(end, buf + 64, 128, CONF_ALL);
	const struct {
		struct iovec iov;
		int code;
	} parts[] = {
		{ { buf + 64, 128 }, 0 },	  { { buf + 100, 1 }, 0 },
		{ { buf + 63, 1 }, -FI_EINVAL },  { { buf + 64, 129 }, -FI_EINVAL },
		{ { buf + 192, 1 }, -FI_EINVAL }, { { buf + 100, 0 }, -FI_EINVAL },
		{ { NULL, 1 }, -FI_EINVAL },	  { { buf + 100, SIZE_MAX }, -FI_EINVAL },
		{ { buf, 256 }, -FI_EINVAL },
	};

	need_refresh(c, region);
	for (size_t i = 0; i < count_of(parts); i++) {
		struct iovec two[2] = { { buf + 64, 8 }, parts[i].iov };

		if (parts[i].code) {
			assert_refused(fi_mr_refresh(region->mr, two, 2, 0), parts[i].code);
			assert_refused(fi_mr_refresh(region->mr, &parts[i].iov, 1, 0),
				       parts[i].code);
		} else {
			assert_ok(fi_mr_refresh(region->mr, two, 2, 0));
		}
	}
	assert_refused(fi_mr_refresh(region->mr, NULL, 1, 0), -FI_EINVAL);
	assert_refused(fi_mr_refresh(region->mr, NULL, 0, 1), -FI_EBADFLAGS);
}

/* Parts are inside one buffer of a region of several, by the buffer's own address. */
static void api_15_parts_of_a_vector(struct conf *c)
{
	struct conf_link l;
	struct conf_region *whole;
	struct iovec iov[3], part;

	conf_link(c, NULL, 256, &l);
	if (l.b->info->domain_attr->mr_iov_limit < 3)
		conf_skip(c, "regions have one buffer");
	whole = l.remote;
	iov[0] = (struct iovec){ l.dst + 128, 32 };
	iov[1] = (struct iovec){ l.dst, 32 };
	iov[2] = (struct iovec){ l.dst + 160, 32 }; /* right behind the first */
	l.remote = conf_regv(l.b, iov, 3, CONF_ALL, 0, NULL);
	need_refresh(c, l.remote);
	assert_ok(fi_mr_refresh(l.remote->mr, iov, 3, 0));
	part = (struct iovec){ l.dst + 8, 8 };
	assert_ok(fi_mr_refresh(l.remote->mr, &part, 1, 0));
	part = (struct iovec){ l.dst + 32, 96 }; /* between them */
	assert_refused(fi_mr_refresh(l.remote->mr, &part, 1, 0), -FI_EINVAL);
	part = (struct iovec){ l.dst + 144, 32 }; /* over the border of two of them */
	assert_refused(fi_mr_refresh(l.remote->mr, &part, 1, 0), -FI_EINVAL);
	l.remote = whole;
	conf_works(&l);
}

/* ---- no pages ---- */

static void unmapped(struct scene *s)
{
	assert_int_equal(munmap(s->l.dst, s->size), 0);
}

static void truncated(struct scene *s)
{
	assert_int_equal(ftruncate(s->file, (off_t)conf_page()), 0);
}

static void forbidden(struct scene *s)
{
	assert_int_equal(mprotect(s->l.dst, s->size, PROT_NONE), 0);
}

static const struct change losses[] = {
	{ "munmap", unmapped, false },
	{ "truncation", truncated, true },
	{ "PROT_NONE", forbidden, false },
};

/* Bad address, where the mode has the NIC look; else only a transfer finds out. */
static void refresh_finds_none(struct conf *c, struct scene *s)
{
	bool looks = c->mode & (FI_MR_ALLOCATED | FI_MR_MMU_NOTIFY);

	if (looks)
		assert_refused_with(fi_mr_refresh(s->l.remote->mr, NULL, 0, 0), -FI_EFAULT,
				    "not mapped");
	else
		assert_ok(fi_mr_refresh(s->l.remote->mr, NULL, 0, 0));
}

static void fails_at_the_initiator(struct scene *s)
{
	struct conf_link *l = &s->l;
	uint64_t at = l->remote->addr + s->size - 128;

	assert_ok(fi_write(l->a->ep, l->src, 128, l->local->desc, l->to, at, l->key, l));
	conf_failed(l->a->tx, l, FI_EFAULT, HMREG_FAULT);
	assert_ok(fi_read(l->a->ep, l->src, 128, l->local->desc, l->to, at, l->key, l));
	conf_failed(l->a->tx, l, FI_EFAULT, HMREG_FAULT);
	if (conf_atomic_count(l->a, FI_UINT64, FI_SUM, 0) == 0)
		return;
	assert_ok(fi_atomic(l->a->ep, l->src, 1, l->local->desc, l->to, at, l->key, FI_UINT64,
			    FI_SUM, l));
	conf_failed(l->a->tx, l, FI_EFAULT, HMREG_FAULT);
}

static void api_15_mode_08_no_pages_is_an_error(struct conf *c)
{
	if (conf_valgrind())
		conf_skip(c, "valgrind reports the faults that are meant to happen");
	if (conf_holds_pages(c))
		conf_skip(c, "a region holds its pages (FI_MR_ALLOCATED), so that nothing faults");
	for (size_t i = 0; i < count_of(losses); i++) {
		struct scene s;

		open_scene(c, &s, losses[i].of_file);
		losses[i].fn(&s);
		print_message("%s\n", losses[i].name);
		refresh_finds_none(c, &s);
		fails_at_the_initiator(&s);
		/* with pages again, all is well: the failed refresh has left the region as it was */
		if (s.file >= 0)
			assert_int_equal(ftruncate(s.file, (off_t)s.size), 0);
		else
			conf_map_at(s.l.dst, PAGES, -1);
		assert_ok(fi_mr_refresh(s.l.remote->mr, NULL, 0, 0));
		sees_the_same(&s);
		close_scene(&s);
		conf_drop_region(s.l.local);
		conf_drop_end(s.l.b);
		conf_drop_end(s.l.a);
	}
}

/* Read-only pages are none for a region that peers may write to. */
static void api_15_read_only_pages(struct conf *c)
{
	struct scene s;

	if (!c->profile->at_once)
		conf_skip(c, "the driver judges what pages are good for");
	open_scene(c, &s, false);
	assert_int_equal(mprotect(s.l.dst, s.size, PROT_READ), 0);
	assert_refused_with(fi_mr_refresh(s.l.remote->mr, NULL, 0, 0), -FI_EACCES, "read only");
	assert_int_equal(mprotect(s.l.dst, s.size, PROT_READ | PROT_WRITE), 0);
	assert_ok(fi_mr_refresh(s.l.remote->mr, NULL, 0, 0));
	sees_the_same(&s);
	close_scene(&s);
}

static const struct conf_case cases[] = {
	CONF(api_15_mode_08_new_pages_are_reached),
	CONF(api_15_parts),
	CONF(api_15_arguments),
	CONF(api_15_parts_of_a_vector),
	CONF(api_15_mode_08_no_pages_is_an_error),
	CONF_NEED(api_15_read_only_pages, FI_MR_MMU_NOTIFY),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
