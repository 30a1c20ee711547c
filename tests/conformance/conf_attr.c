/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration attributes: ATTR-01, ATTR-03, ATTR-06, ATTR-07. */
#include <dirent.h>
#include <linux/mman.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/harness.h"

/* ---- ATTR-01: every set of rights against every operation ---- */

#define LEN 32

/* What one operation is tried with: the region under test on one side, good ones elsewhere. */
struct scene {
	struct conf_link l;	    /* good regions on both sides */
	struct conf_region *tested; /* of b for remote rights, of a for local ones */
	uint64_t key;
	uint8_t *mem;
	fi_addr_t back; /* a, as b calls it */
	size_t n;	/* elements of 8 bytes that an atomic takes; 0: there are no atomics */
};

typedef ssize_t (*call_fn)(struct scene *s);

static ssize_t r_write(struct scene *s)
{
	return fi_write(s->l.a->ep, s->l.src, LEN, s->l.local->desc, s->l.to, s->tested->addr,
			s->key, s);
}

static ssize_t r_writedata(struct scene *s)
{
	return fi_writedata(s->l.a->ep, s->l.src, LEN, s->l.local->desc, 1, s->l.to,
			    s->tested->addr, s->key, s);
}

static ssize_t r_read(struct scene *s)
{
	return fi_read(s->l.a->ep, s->l.src, LEN, s->l.local->desc, s->l.to, s->tested->addr,
		       s->key, s);
}

static ssize_t r_atomic(struct scene *s)
{
	return fi_atomic(s->l.a->ep, s->l.src, s->n, s->l.local->desc, s->l.to, s->tested->addr,
			 s->key, FI_UINT64, FI_SUM, s);
}

static ssize_t r_fetch(struct scene *s)
{
	return fi_fetch_atomic(s->l.a->ep, s->l.src, s->n, s->l.local->desc, s->l.src + LEN,
			       s->l.local->desc, s->l.to, s->tested->addr, s->key, FI_UINT64,
			       FI_SUM, s);
}

static ssize_t r_fetch_read(struct scene *s)
{
	return fi_fetch_atomic(s->l.a->ep, NULL, s->n, NULL, s->l.src, s->l.local->desc, s->l.to,
			       s->tested->addr, s->key, FI_UINT64, FI_ATOMIC_READ, s);
}

static ssize_t r_compare(struct scene *s)
{
	return fi_compare_atomic(s->l.a->ep, s->l.src, s->n, s->l.local->desc, s->l.src + LEN,
				 s->l.local->desc, s->l.src + 2 * LEN, s->l.local->desc, s->l.to,
				 s->tested->addr, s->key, FI_UINT64, FI_CSWAP, s);
}

static const struct {
	const char *name;
	call_fn call;
	uint64_t need;
} remote_ops[] = {
	{ "write", r_write, FI_REMOTE_WRITE }, { "writedata", r_writedata, FI_REMOTE_WRITE },
	{ "read", r_read, FI_REMOTE_READ },    { "atomic", r_atomic, FI_REMOTE_WRITE },
	{ "fetch", r_fetch, CONF_REMOTE },     { "fetch read", r_fetch_read, FI_REMOTE_READ },
	{ "compare", r_compare, CONF_REMOTE },
};

static ssize_t l_write(struct scene *s)
{
	return fi_write(s->l.a->ep, s->mem, LEN, s->tested->desc, s->l.to, s->l.remote->addr,
			s->l.key, s);
}

static ssize_t l_read(struct scene *s)
{
	return fi_read(s->l.a->ep, s->mem, LEN, s->tested->desc, s->l.to, s->l.remote->addr,
		       s->l.key, s);
}

static ssize_t l_send(struct scene *s)
{
	return fi_send(s->l.a->ep, s->mem, LEN, s->tested->desc, s->l.to, s);
}

static ssize_t l_recv(struct scene *s)
{
	ssize_t ret = fi_recv(s->l.a->ep, s->mem, LEN, s->tested->desc, FI_ADDR_UNSPEC, s);

	/* the message that it waits for, so that none is left over */
	if (!ret) {
		ret = fi_send(s->l.b->ep, s->l.dst, LEN, s->l.remote->desc, s->back, s);
		conf_done(s->l.b->tx, s);
		conf_done(s->l.a->rx, s);
	}
	return ret;
}

static ssize_t l_atomic(struct scene *s)
{
	return fi_atomic(s->l.a->ep, s->mem, s->n, s->tested->desc, s->l.to, s->l.remote->addr,
			 s->l.key, FI_UINT64, FI_SUM, s);
}

static ssize_t l_result(struct scene *s)
{
	return fi_fetch_atomic(s->l.a->ep, s->l.src, s->n, s->l.local->desc, s->mem,
			       s->tested->desc, s->l.to, s->l.remote->addr, s->l.key, FI_UINT64,
			       FI_SUM, s);
}

static ssize_t l_compare(struct scene *s)
{
	return fi_compare_atomic(s->l.a->ep, s->l.src, s->n, s->l.local->desc, s->mem,
				 s->tested->desc, s->l.src + LEN, s->l.local->desc, s->l.to,
				 s->l.remote->addr, s->l.key, FI_UINT64, FI_CSWAP, s);
}

static const struct {
	const char *name;
	call_fn call;
	uint64_t need;
	bool done_already;
} local_ops[] = {
	{ "write from", l_write, FI_WRITE, false },
	{ "read into", l_read, FI_READ, false },
	{ "send from", l_send, FI_SEND, false },
	{ "receive into", l_recv, FI_RECV, true },
	{ "atomic operand", l_atomic, FI_WRITE, false },
	{ "fetched result", l_result, FI_READ, false },
	{ "compared with", l_compare, FI_WRITE, false },
};

/* Every set of rights there is, the six that transfers use and FI_COLLECTIVE. */
static uint64_t rights_of(unsigned int i)
{
	static const uint64_t bit[] = { FI_SEND,  FI_RECV,	  FI_READ,
					FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };
	uint64_t access = 0;

	for (unsigned int k = 0; k < count_of(bit); k++)
		access |= i >> k & 1 ? bit[k] : 0;
	/* a region for collectives also sends or receives */
	if (i >> 6 && (access & (FI_SEND | FI_RECV)))
		access |= FI_COLLECTIVE;
	return access;
}

static void open_scene(struct conf *c, struct scene *s)
{
	conf_link(c, NULL, 4 * LEN, &s->l);
	s->mem = conf_alloc(c, LEN);
	s->back = conf_addr(s->l.b, s->l.a);
	s->n = conf_atomic_count(s->l.a, FI_UINT64, FI_SUM, FI_FETCH_ATOMIC);
	if (s->n > 4)
		s->n = 4;
}

/*
 * A NIC that has one right for all atomics cannot tell those that only read or only write, so that
 * regions with one remote right may grant too much or too little of them.
 */
static bool may_pass(const struct conf *c, call_fn call, uint64_t access)
{
	uint64_t remote = access & CONF_REMOTE;

	if (c->profile->exact)
		return false;
	if (call == r_fetch_read)
		return remote == FI_REMOTE_READ || remote == FI_REMOTE_WRITE;
	return (call == r_fetch || call == r_compare) && remote == FI_REMOTE_WRITE;
}

/* Without atomics there is nothing to try with these. */
static bool is_atomic(call_fn call)
{
	return call == r_atomic || call == r_fetch || call == r_fetch_read || call == r_compare ||
	       call == l_atomic || call == l_result || call == l_compare;
}

static void attr_01_remote_rights(struct conf *c)
{
	struct scene s;

	open_scene(c, &s);
	for (unsigned int i = 0; i < 128; i += conf_brief() ? 5 : 1) {
		uint64_t access = rights_of(i);

		s.tested = conf_reg(s.l.b, s.mem, LEN, access);
		s.key = conf_key(s.l.a, s.tested);
		for (size_t op = 0; op < count_of(remote_ops); op++) {
			if ((!s.n && is_atomic(remote_ops[op].call)) ||
			    may_pass(c, remote_ops[op].call, access))
				continue;
			bool granted = (access & remote_ops[op].need) == remote_ops[op].need;
			uint8_t before[LEN];

			memset(s.mem, 0x11, LEN);
			memset(s.l.src, 0x22, 4 * LEN);
			memcpy(before, s.mem, LEN);
			assert_ok(remote_ops[op].call(&s));
			if (granted) {
				conf_done(s.l.a->tx, &s);
				continue;
			}
			conf_failed(s.l.a->tx, &s, FI_EACCES, HMREG_NO_RIGHT);
			assert_memory_equal(s.mem, before, LEN);
			for (size_t k = 0; k < 4 * LEN; k++)
				assert_int_equal(s.l.src[k], 0x22);
		}
		conf_drop_region(s.tested);
		while (fi_cq_read(s.l.b->rx, &(struct fi_cq_data_entry){ 0 }, 1) == 1)
			;
	}
}

/*
 * FI_ATOMIC_READ on a region with one remote right.  Hardware has one right for all atomics, which goes
 * with FI_REMOTE_WRITE since they write: a region that may only be read refuses them.  Both rights
 * together serve on every NIC.
 */
static void attr_01_atomic_read(struct conf *c)
{
	static const uint64_t rights[] = { CONF_REMOTE, FI_REMOTE_READ, FI_REMOTE_WRITE };
	struct scene s;

	open_scene(c, &s);
	if (!s.n)
		conf_skip(c, "atomics");
	for (size_t i = 0; i < count_of(rights); i++) {
		uint64_t needed = c->profile->exact ? FI_REMOTE_READ : FI_REMOTE_WRITE;

		s.tested = conf_reg(s.l.b, s.mem, LEN, rights[i]);
		s.key = conf_key(s.l.a, s.tested);
		memset(s.mem, 0x11, LEN);
		memset(s.l.src, 0x22, LEN);
		assert_ok(r_fetch_read(&s));
		if (rights[i] & needed)
			conf_done(s.l.a->tx, &s);
		else
			conf_failed(s.l.a->tx, &s, FI_EACCES, HMREG_NO_RIGHT);
		assert_int_equal(s.l.src[0], rights[i] & needed ? 0x11 : 0x22);
		for (size_t k = 0; k < LEN; k++)
			assert_int_equal(s.mem[k], 0x11);
		conf_drop_region(s.tested);
	}
}

/* fi_inject_write and fi_inject_atomic have no completion, only the error of a failure. */
static void attr_01_remote_rights_of_inject(struct conf *c)
{
	static const uint64_t rights[] = { 0, FI_REMOTE_READ, FI_REMOTE_WRITE, CONF_REMOTE };
	struct scene s;

	open_scene(c, &s);
	for (size_t i = 0; i < count_of(rights); i++) {
		s.tested = conf_reg(s.l.b, s.mem, LEN, rights[i]);
		s.key = conf_key(s.l.a, s.tested);
		for (int atomic = 0; atomic < (s.n ? 2 : 1); atomic++) {
			memset(s.mem, 0, LEN);
			if (atomic)
				assert_ok(fi_inject_atomic(s.l.a->ep, s.l.src, s.n, s.l.to,
							   s.tested->addr, s.key, FI_UINT64,
							   FI_SUM));
			else
				assert_ok(fi_inject_write(s.l.a->ep, s.l.src, LEN, s.l.to,
							  s.tested->addr, s.key));
			if (rights[i] & FI_REMOTE_WRITE) {
				conf_arrives(s.mem, s.l.src, atomic ? 8 * s.n : LEN);
				conf_quiet(s.l.a->tx);
			} else {
				conf_failed(s.l.a->tx, NULL, FI_EACCES, HMREG_NO_RIGHT);
				assert_int_equal(s.mem[0], 0);
			}
		}
		conf_drop_region(s.tested);
	}
}

static void attr_01_local_rights(struct conf *c)
{
	struct scene s;

	open_scene(c, &s);
	for (unsigned int i = 0; i < 128; i++) {
		uint64_t access = rights_of(i);
		/* without any right the NIC may still read for this side's own operations */
		uint64_t granted = access ? access : FI_SEND | FI_WRITE;

		s.tested = conf_reg(s.l.a, s.mem, LEN, access);
		for (size_t op = 0; op < count_of(local_ops); op++) {
			if (!s.n && is_atomic(local_ops[op].call))
				continue;
			if (!(granted & local_ops[op].need)) {
				assert_refused(local_ops[op].call(&s), -FI_EACCES);
				conf_quiet(s.l.a->tx);
				continue;
			}
			assert_ok(local_ops[op].call(&s));
			if (!local_ops[op].done_already)
				conf_done(s.l.a->tx, &s);
		}
		conf_drop_region(s.tested);
	}
}

/* One buffer, several regions: each has its own rights. */
static void attr_01_each_region_its_own_rights(struct conf *c)
{
	static const uint64_t rights[] = { FI_REMOTE_READ, FI_REMOTE_WRITE, CONF_REMOTE, 0 };
	struct conf_region *region[4];
	struct scene s;

	open_scene(c, &s);
	for (size_t i = 0; i < 4; i++)
		region[i] = conf_reg(s.l.b, s.mem, LEN, rights[i]);
	for (size_t i = 0; i < 4; i++) {
		s.tested = region[i];
		s.key = conf_key(s.l.a, region[i]);
		for (size_t op = 0; op < count_of(remote_ops); op++) {
			if ((!s.n && is_atomic(remote_ops[op].call)) ||
			    may_pass(c, remote_ops[op].call, rights[i]))
				continue;
			assert_ok(remote_ops[op].call(&s));
			if ((rights[i] & remote_ops[op].need) == remote_ops[op].need)
				conf_done(s.l.a->tx, &s);
			else
				conf_failed(s.l.a->tx, &s, FI_EACCES, HMREG_NO_RIGHT);
		}
	}
	/* rights of b's region are nothing that a's local side could use */
	assert_refused(fi_write(s.l.a->ep, s.mem, LEN, region[2]->desc, s.l.to, s.l.remote->addr,
				s.l.key, c),
		       -FI_EINVAL);
}

/* ---- ATTR-03 ---- */

static bool system_has_page(size_t size)
{
	DIR *dir = opendir("/sys/kernel/mm/hugepages");
	struct dirent *entry;
	bool found = size == (size_t)sysconf(_SC_PAGESIZE);
	size_t kb;

	while (dir && (entry = readdir(dir)) != NULL)
		if (sscanf(entry->d_name, "hugepages-%zukB", &kb) == 1 && kb * 1024 == size)
			found = true;
	if (dir)
		closedir(dir);
	return found;
}

static void attr_03_page_size(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	struct iovec iov = { conf_alloc(c, 64), 64 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = CONF_ALL };
	struct fid_mr *mr;

	assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
	assert_ok(fi_close(&mr->fid));
	for (unsigned int bit = 0; bit < 64; bit++) {
		attr.page_size = (size_t)1 << bit;
		if (system_has_page(attr.page_size)) {
			assert_ok(fi_mr_regattr(end->domain, &attr, 0, &mr));
			assert_ok(fi_close(&mr->fid));
		} else {
			assert_refused_with(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL,
					    "page size");
		}
		attr.page_size = ((size_t)1 << bit) + 1;
		if (bit > 0)
			assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	}
	attr.page_size = SIZE_MAX;
	assert_refused(fi_mr_regattr(end->domain, &attr, 0, &mr), -FI_EINVAL);
	conf_check_stats(end, 0, 0, 0);
}

/* ---- ATTR-03: huge pages ---- */

#define HUGE_PAGE  ((size_t)2 << 20)
#define HUGE_COUNT 3

static const char pool[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/* Pages of the kernel's pool; what was there before. */
static long size_of_pool(void)
{
	FILE *file = fopen(pool, "r");
	long count = -1;

	if (file && fscanf(file, "%ld", &count) != 1)
		count = -1;
	if (file)
		fclose(file);
	return count;
}

static void set_pool(long count)
{
	FILE *file = fopen(pool, "w");

	if (!file)
		return;
	fprintf(file, "%ld", count);
	fclose(file);
}

/* NULL: the machine has no such pages to give. */
static uint8_t *map_huge(void)
{
	void *mem = mmap(NULL, HUGE_COUNT * HUGE_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT, -1, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

static void use_huge(struct conf_link *l, uint8_t *mem)
{
	static const size_t at[] = { 1, HUGE_PAGE - 32, 2 * HUGE_PAGE - 1,
				     HUGE_COUNT * HUGE_PAGE - 64 };
	struct iovec iov = { mem, HUGE_COUNT * HUGE_PAGE };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .page_size = HUGE_PAGE
	};
	struct conf_region *region = conf_regattr(l->b, &attr, 0), *plain;
	uint64_t key = conf_key(l->a, region);

	for (size_t i = 0; i < count_of(at); i++) {
		conf_fill(l->a->conf, l->src, 64);
		assert_ok(fi_write(l->a->ep, l->src, 64, l->local->desc, l->to,
				   region->addr + at[i], key, l));
		conf_done(l->a->tx, l);
		assert_memory_equal(mem + at[i], l->src, 64);
	}
	/* the same memory with pages of the size that the library chooses, and inside one page */
	plain = conf_reg(l->b, mem + HUGE_PAGE + 5, 100, CONF_ALL);
	key = conf_key(l->a, plain);
	assert_ok(fi_write(l->a->ep, l->src, 64, l->local->desc, l->to, plain->addr, key, l));
	conf_done(l->a->tx, l);
	assert_memory_equal(mem + HUGE_PAGE + 5, l->src, 64);
	conf_drop_region(plain);
	conf_drop_region(region);
}

static void attr_03_huge_pages(struct conf *c)
{
	int turn = open(pool, O_RDONLY | O_CLOEXEC); /* the pool is every test's of this machine */
	struct conf_link l;
	uint8_t *mem;
	long before;

	conf_link(c, NULL, 64, &l);
	if (turn >= 0)
		flock(turn, LOCK_EX);
	before = size_of_pool();
	if (before >= 0)
		set_pool(before + HUGE_COUNT);
	mem = map_huge();
	if (mem) {
		use_huge(&l, mem);
		munmap(mem, HUGE_COUNT * HUGE_PAGE);
	}
	if (before >= 0)
		set_pool(before);
	if (turn >= 0)
		close(turn);
	if (!mem)
		conf_skip(c, before < 0 ? "the kernel has no pages of 2 MiB"
					: "no pages of 2 MiB can be reserved here");
}

/* ---- ATTR-06 ---- */

static void attr_06_sub_mr_count_is_a_hint(struct conf *c)
{
	static const size_t counts[] = { 0, 1, 1000, SIZE_MAX };
	struct iovec iov;
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	iov = (struct iovec){ l.dst, 64 };
	for (size_t i = 0; i < count_of(counts); i++) {
		struct fi_mr_attr attr = { .mr_iov = &iov,
					   .iov_count = 1,
					   .access = CONF_ALL,
					   .requested_key = 100 + i,
					   .sub_mr_cnt = counts[i] };
		struct conf_region region = { .end = l.b };

		assert_ok(fi_mr_regattr(l.b->domain, &attr, 0, &region.mr));
		conf_ready(l.b, region.mr, NULL);
		l.key = conf_key(l.a, &region);
		conf_works(&l);
		if (region.maps)
			assert_ok(fi_mr_unmap_key(l.a->domain, l.key));
		conf_close_region(&region);
	}
}

/* ---- ATTR-07 ---- */

static void attr_07_context_in_events_only(struct conf *c)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct conf_link l;
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	uint8_t *buf = conf_alloc(c, 64);
	struct fi_eq_entry entry;
	uint32_t event;
	struct fid_eq *eq;
	struct fid_mr *mr;
	int mark;

	/* a transfer's completion has the operation's context, never the region's */
	conf_link(c, NULL, 64, &l);
	conf_works(&l);

	assert_ok(fi_eq_open(end->fabric, &eq_attr, &eq, NULL));
	assert_ok(fi_domain_bind(end->domain, &eq->fid, FI_REG_MR));
	assert_ok(fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, 1, 0, &mr, &mark));
	assert_answer(fi_eq_sread(eq, &event, &entry, sizeof(entry), 5000, 0), sizeof(entry));
	assert_int_equal(event, FI_MR_COMPLETE);
	assert_ptr_equal(entry.context, &mark);
	assert_ptr_equal(entry.fid, &mr->fid);
	assert_ok(fi_close(&mr->fid));
	assert_answer(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	assert_ok(fi_close(&end->domain->fid));
	end->domain = NULL;
	assert_ok(fi_close(&eq->fid));
}

static const struct conf_case cases[] = {
	CONF(attr_01_remote_rights),
	CONF(attr_01_atomic_read),
	CONF(attr_01_remote_rights_of_inject),
	CONF(attr_01_local_rights),
	CONF(attr_01_each_region_its_own_rights),
	CONF(attr_03_page_size),
	CONF(attr_03_huge_pages),
	CONF(attr_06_sub_mr_count_is_a_hint),
	CONF(attr_07_context_in_events_only),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
