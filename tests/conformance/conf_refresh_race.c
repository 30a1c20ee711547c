/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refreshing while peers are at work (API-15, MODE-08), and memory that goes away in the middle of a
 * transfer (MODE-06).
 *
 * What has to happen at one moment is made to wait there: a page under userfaultfd stops whoever touches
 * it until the test lets it go.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "tests/conformance/pages.h"

/* ---- pages that wait ---- */

/* Pages of which some are not there until they are let go. */
struct trap {
	uint8_t *mem;
	size_t pages, first; /* the page that stops */
	int uffd;
};

static void open_trap(struct conf *c, struct trap *trap, size_t pages, size_t first)
{
	struct uffdio_api api = { .api = UFFD_API };

	*trap = (struct trap){ .pages = pages, .first = first };
	trap->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (trap->uffd < 0)
		conf_skip(c, "the kernel lets no userfaultfd be opened");
	assert_int_equal(ioctl(trap->uffd, UFFDIO_API, &api), 0);
	trap->mem = conf_map_pages(pages, -1);
	memset(trap->mem, 0, first * conf_page()); /* these are there */
}

/* From now on the page stops who touches it: regions over it are registered already. */
static void set_trap(struct trap *trap)
{
	struct uffdio_register area = { .range = { (uintptr_t)trap->mem + trap->first * conf_page(),
						   conf_page() },
					.mode = UFFDIO_REGISTER_MODE_MISSING };

	assert_int_equal(madvise(trap->mem + trap->first * conf_page(), conf_page(), MADV_DONTNEED),
			 0);
	assert_int_equal(ioctl(trap->uffd, UFFDIO_REGISTER, &area), 0);
}

static void await_victim(struct trap *trap)
{
	struct pollfd ready = { .fd = trap->uffd, .events = POLLIN };
	struct uffd_msg msg;

	assert_int_equal(poll(&ready, 1, CONF_TIMEOUT_S * 1000), 1);
	assert_int_equal(read(trap->uffd, &msg, sizeof(msg)), sizeof(msg));
	assert_int_equal(msg.event, UFFD_EVENT_PAGEFAULT);
}

static void let_go(struct trap *trap)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)trap->mem + trap->first * conf_page(),
						   conf_page() } };

	assert_int_equal(ioctl(trap->uffd, UFFDIO_ZEROPAGE, &zero), 0);
}

/* The memory goes away under the one that waits there. */
static void take_away(struct trap *trap)
{
	struct uffdio_range range = { (uintptr_t)trap->mem + trap->first * conf_page(),
				      conf_page() };

	assert_int_equal(munmap(trap->mem, trap->pages * conf_page()), 0);
	ioctl(trap->uffd, UFFDIO_WAKE, &range); /* unmapping may have done so */
}

static void close_trap(struct trap *trap)
{
	munmap(trap->mem, trap->pages * conf_page());
	close(trap->uffd);
}

static void need_at_once(struct conf *c)
{
	if (!c->profile->at_once)
		conf_skip(c, "transfers are not carried out by the thread that starts them");
	if (conf_valgrind())
		conf_skip(c, "valgrind reports the faults that are meant to happen");
}

/* The usual scene, with a trap as the target. */
static void open_scene(struct conf *c, struct conf_link *l, struct trap *trap, size_t pages,
		       size_t first)
{
	need_at_once(c);
	open_trap(c, trap, pages, first);
	conf_link(c, NULL, pages * conf_page(), l);
	conf_drop_region(l->remote);
	l->dst = trap->mem;
	l->remote = conf_reg(l->b, l->dst, l->len, CONF_ALL);
	l->key = conf_key(l->a, l->remote);
}

/* ---- the region is disabled while it is refreshed ---- */

struct refresher {
	struct fid_mr *mr;
	int ret;
};

static void *refresh(void *arg)
{
	struct refresher *r = arg;

	r->ret = fi_mr_refresh(r->mr, NULL, 0, 0);
	return NULL;
}

/* A sub-MR of the first page, which never waits; or the region itself where base_mr is not taken. */
static struct conf_region *first_page(struct conf_link *l)
{
	struct iovec iov = { l->dst, conf_page() };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .base_mr = l->remote->mr
	};

	return conf_regattr(l->b, &attr, 0);
}

static void write_to(struct conf_link *l, struct conf_region *region, bool refused)
{
	assert_ok(fi_write(l->a->ep, l->src, 64, l->local->desc, l->to, region->addr,
			   conf_key(l->a, region), l));
	if (refused)
		conf_failed(l->a->tx, l, FI_EOPBADSTATE, HMREG_REFRESHING);
	else
		conf_done(l->a->tx, l);
}

static void api_15_mode_08_disabled_meanwhile(struct conf *c)
{
	struct refresher r;
	struct conf_region *part, *beside;
	struct conf_link l;
	struct trap trap;
	pthread_t thread;

	open_scene(c, &l, &trap, 4, 3);
	part = first_page(&l);
	beside = conf_reg(l.b, l.dst, conf_page(), CONF_ALL);
	r = (struct refresher){ .mr = l.remote->mr, .ret = 1 };
	set_trap(&trap);
	assert_int_equal(pthread_create(&thread, NULL, refresh, &r), 0);
	await_victim(&trap);
	for (int i = 0; i < 3; i++) {
		write_to(&l, l.remote, true);
		write_to(&l, part, true);    /* what it shares is being refreshed */
		write_to(&l, beside, false); /* another region of this memory */
	}
	let_go(&trap);
	pthread_join(thread, NULL);
	assert_int_equal(r.ret, 0);
	write_to(&l, l.remote, false);
	write_to(&l, part, false);
	/* a part of its own is refreshed by itself */
	assert_ok(fi_mr_refresh(part->mr, NULL, 0, 0));
	conf_works(&l);
	conf_drop_region(beside);
	conf_drop_region(part);
	conf_drop_region(l.remote);
	close_trap(&trap);
}

/* Two at the same time: who is first to end does not let peers in. */
static void api_15_mode_08_two_refresh(struct conf *c)
{
	struct iovec early;
	struct refresher r;
	struct conf_link l;
	struct trap trap;
	pthread_t thread;

	open_scene(c, &l, &trap, 4, 3);
	early = (struct iovec){ l.dst, 64 };
	r = (struct refresher){ .mr = l.remote->mr, .ret = 1 };
	set_trap(&trap);
	assert_int_equal(pthread_create(&thread, NULL, refresh, &r), 0);
	await_victim(&trap);
	assert_ok(fi_mr_refresh(l.remote->mr, &early, 1, 0));
	write_to(&l, l.remote, true);
	let_go(&trap);
	pthread_join(thread, NULL);
	assert_int_equal(r.ret, 0);
	conf_works(&l);
	conf_drop_region(l.remote);
	close_trap(&trap);
}

/* ---- a peer that goes on writing ---- */

#define REFRESHES 400

/* Its own endpoint, the target's region. */
struct writer {
	struct conf_link *l;
	atomic_bool stop;
	unsigned int done, refused, other;
};

/* One operation's end: 0, or prov_errno of the error. */
static int outcome(struct conf_end *end, struct fi_cq_err_entry *error)
{
	struct fi_cq_data_entry entry;
	ssize_t ret;

	memset(error, 0, sizeof(*error));
	while ((ret = fi_cq_read(end->tx, &entry, 1)) == -FI_EAGAIN)
		sched_yield();
	if (ret == 1)
		return 0;
	return fi_cq_readerr(end->tx, error, 0) == 1 ? error->prov_errno : -1;
}

static void *keep_writing(void *arg)
{
	struct writer *w = arg;
	struct conf_link *l = w->l;
	struct fi_cq_err_entry error;

	while (!atomic_load(&w->stop)) {
		int why = -1;

		if (!fi_write(l->a->ep, l->src, 64, l->local->desc, l->to, l->remote->addr, l->key,
			      w))
			why = outcome(l->a, &error);
		if (why == 0)
			w->done++;
		else if (why == HMREG_REFRESHING)
			w->refused++;
		else
			w->other++;
	}
	return NULL;
}

/* Success or "being refreshed", and the latter only with FI_MR_MMU_NOTIFY; else it stays enabled. */
static void api_15_mode_08_peer_sees_no_more_than_the_pause(struct conf *c)
{
	struct writer w = { .done = 0 };
	struct conf_link l;
	pthread_t thread;
	int ret = 0;

	conf_link(c, NULL, 64 * conf_page(), &l);
	w.l = &l;
	assert_int_equal(pthread_create(&thread, NULL, keep_writing, &w), 0);
	conf_log_mark(__FILE__, __LINE__);
	for (int i = 0; i < REFRESHES && ret == 0; i++)
		ret = fi_mr_refresh(l.remote->mr, NULL, 0, 0);
	atomic_store(&w.stop, true);
	pthread_join(thread, NULL);
	conf_log_expect(ret ? 1 : 0, NULL, "fi_mr_refresh", __FILE__, __LINE__);
	if (ret == -FI_ENOSYS && conf_holds_pages(c))
		conf_skip(c, "regions of this device cannot be refreshed (FI_ENOSYS)");
	assert_int_equal(ret, 0);
	assert_int_equal(w.other, 0);
	if (!(c->mode & FI_MR_MMU_NOTIFY))
		assert_int_equal(w.refused, 0);
	conf_works(&l);
}

/* ---- memory that goes away in the middle ---- */

enum {
	OPS = 4
};

/* Whole-length operations; the trap is the target, or the local buffer. */
static ssize_t post(unsigned int op, struct conf_link *l)
{
	void *desc = l->local->desc;
	uint64_t addr = l->remote->addr;

	switch (op) {
	case 0:
		return fi_write(l->a->ep, l->src, l->len, desc, l->to, addr, l->key, l);
	case 1:
		return fi_read(l->a->ep, l->src, l->len, desc, l->to, addr, l->key, l);
	case 2:
		return fi_atomic(l->a->ep, l->src, l->len / 8, desc, l->to, addr, l->key, FI_UINT64,
				 FI_SUM, l);
	default: /* elements that are updated under locks */
		return fi_atomic(l->a->ep, l->src, l->len / 16, desc, l->to, addr, l->key,
				 FI_DOUBLE_COMPLEX, FI_SUM, l);
	}
}

struct poster {
	struct conf_link *l;
	unsigned int op;
	ssize_t ret;
};

static void *post_one(void *arg)
{
	struct poster *p = arg;

	p->ret = post(p->op, p->l);
	return NULL;
}

/* The operation has begun and waits at the trap; there the memory is taken away. */
static void lose_in_the_middle(struct conf_link *l, struct trap *trap, unsigned int op)
{
	struct poster p = { .l = l, .op = op };
	pthread_t thread;

	set_trap(trap);
	assert_int_equal(pthread_create(&thread, NULL, post_one, &p), 0);
	await_victim(trap);
	take_away(trap);
	pthread_join(thread, NULL);
	assert_int_equal(p.ret, 0);
	conf_failed(l->a->tx, l, FI_EFAULT, HMREG_FAULT);
}

static void mode_06_target_is_unmapped_in_mid_transfer(struct conf *c)
{
	for (unsigned int op = 0; op < OPS; op++) {
		struct conf_link l;
		struct trap trap;

		open_scene(c, &l, &trap, 16, 9);
		lose_in_the_middle(&l, &trap, op);
		conf_quiet(l.b->rx);
		/* pages again: the key is as good as before, and the locks of long elements are free */
		conf_map_at(trap.mem, trap.pages, -1);
		conf_works(&l);
		assert_ok(post(3, &l));
		conf_done(l.a->tx, &l);
		conf_drop_region(l.remote);
		close_trap(&trap);
		conf_drop_region(l.local);
		conf_drop_end(l.b);
		conf_drop_end(l.a);
	}
}

static void mode_06_local_buffer_is_unmapped_in_mid_transfer(struct conf *c)
{
	for (unsigned int op = 0; op < OPS; op++) {
		struct conf_link l;
		struct trap trap;

		need_at_once(c);
		open_trap(c, &trap, 16, 9);
		conf_link(c, NULL, 16 * conf_page(), &l);
		l.src = trap.mem;
		l.local = conf_reg(l.a, l.src, l.len, CONF_ALL);
		lose_in_the_middle(&l, &trap, op);
		conf_map_at(trap.mem, trap.pages, -1);
		conf_works(&l);
		conf_drop_region(l.local);
		close_trap(&trap);
		conf_drop_region(l.remote);
		conf_drop_region(&c->region[0]);
		conf_drop_end(l.b);
		conf_drop_end(l.a);
	}
}

/* ---- the same without a moment that is chosen ---- */

#define BIG	  ((size_t)128 << 10)
#define TRANSFERS 200

struct mapper {
	uint8_t *mem;
	atomic_bool stop;
};

/* Away and back, all the time; the same addresses. */
static void *map_and_unmap(void *arg)
{
	struct mapper *m = arg;

	while (!atomic_load(&m->stop)) {
		munmap(m->mem, BIG);
		sched_yield();
		if (mmap(m->mem, BIG, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != m->mem)
			return m;
		usleep(3000); /* for some transfers to get through */
	}
	return NULL;
}

static bool can_post(unsigned int op, const struct conf_link *l)
{
	if (op < 2)
		return true;
	return conf_atomic_count(l->a, op == 2 ? FI_UINT64 : FI_DOUBLE_COMPLEX, FI_SUM, 0) >=
	       BIG / (op == 2 ? 8 : 16);
}

static void transfer_all(struct conf_link *l, unsigned int counts[2])
{
	for (unsigned int i = 0; i < TRANSFERS; i++) {
		struct fi_cq_err_entry error;
		int why;

		if (!can_post(i % OPS, l))
			continue;
		assert_int_equal(post(i % OPS, l), 0);
		why = outcome(l->a, &error);
		if (why != 0 && !conf_is_error(&error, FI_EFAULT, HMREG_FAULT))
			fail_msg("transfer %u: err %d, prov_errno %d", i, error.err, why);
		counts[why != 0]++;
	}
}

static void mode_06_mapped_and_unmapped_all_the_time(struct conf *c)
{
	unsigned int counts[2] = { 0, 0 };
	struct mapper m = { .mem = NULL };
	pthread_t thread;
	void *failed;

	if (conf_valgrind())
		conf_skip(c, "valgrind reports the faults that are meant to happen");
	if (conf_holds_pages(c))
		conf_skip(c, "a region holds its pages (FI_MR_ALLOCATED), so that nothing faults");
	for (int local = 0; local < 2; local++) {
		struct conf_region *region;
		struct conf_link l;

		conf_link(c, NULL, BIG, &l);
		m.mem = conf_map_pages(BIG / conf_page(), -1);
		region = conf_reg(local ? l.a : l.b, m.mem, BIG, CONF_ALL);
		if (local) {
			l.src = m.mem;
			l.local = region;
		} else {
			l.dst = m.mem;
			l.remote = region;
			l.key = conf_key(l.a, region);
		}
		atomic_store(&m.stop, false);
		assert_int_equal(pthread_create(&thread, NULL, map_and_unmap, &m), 0);
		transfer_all(&l, counts);
		atomic_store(&m.stop, true);
		pthread_join(thread, &failed);
		assert_null(failed);
		conf_works(&l);
		conf_drop_region(region);
		munmap(m.mem, BIG);
		conf_drop_region(&c->region[1]);
		conf_drop_region(&c->region[0]);
		conf_drop_end(l.b);
		conf_drop_end(l.a);
	}
	print_message("%u transfers found memory, %u lost it\n", counts[0], counts[1]);
}

static const struct conf_case cases[] = {
	CONF_NEED(api_15_mode_08_disabled_meanwhile, FI_MR_MMU_NOTIFY),
	CONF_NEED(api_15_mode_08_two_refresh, FI_MR_MMU_NOTIFY),
	CONF(api_15_mode_08_peer_sees_no_more_than_the_pause),
	CONF(mode_06_target_is_unmapped_in_mid_transfer),
	CONF(mode_06_local_buffer_is_unmapped_in_mid_transfer),
	CONF(mode_06_mapped_and_unmapped_all_the_time),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
