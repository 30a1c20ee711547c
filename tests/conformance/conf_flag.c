/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration flags: FLAG-02, FLAG-06, and those that no domain of a profile takes. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/harness.h"

static void *const NOTHING = (void *)(uintptr_t)0x5a5a5a;

/* Registers by each of the calls, and takes the region away again where that succeeds. */
static void expect(struct conf_end *end, const uint8_t *buf, uint64_t flags, int code)
{
	struct iovec iov = { (void *)(uintptr_t)buf, 64 };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .requested_key = 9
	};

	for (int how = 0; how < 3; how++) {
		struct fid_mr *mr = NOTHING;
		int ret;

		conf_log_mark(__FILE__, __LINE__);
		if (how == 0)
			ret = fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, 9, flags, &mr, NULL);
		else if (how == 1)
			ret = fi_mr_regv(end->domain, &iov, 1, CONF_ALL, 0, 9, flags, &mr, NULL);
		else
			ret = fi_mr_regattr(end->domain, &attr, flags, &mr);
		conf_check_code(ret, code, "registration", __FILE__, __LINE__);
		conf_log_expect(code ? 1 : 0, NULL, "registration", __FILE__, __LINE__);
		if (code)
			assert_ptr_equal(mr, NOTHING);
		else
			assert_ok(fi_close(&mr->fid));
		conf_check_stats(end, 0, 0, 0);
	}
}

/* The software NIC cannot guarantee persistence; one that can has FI_RMA_PMEM among its capabilities. */
static void flag_02_persistent_memory(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t *buf = conf_alloc(c, 64);
	int code = end->info->caps & FI_RMA_PMEM ? 0 : -FI_EBADFLAGS;

	expect(end, buf, FI_RMA_PMEM, code);
	expect(end, buf, FI_RMA_PMEM | FI_MR_SINGLE_USE, code);
}

/*
 * Not for memory of a file either, which the kernel keeps: that a write has completed tells nothing of when
 * it is on the medium, and no completion does (FI_COMMIT_COMPLETE).
 */
static void flag_02_memory_of_a_file(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	int file = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct fid_mr *mr = NULL;
	void *mem;

	if (file < 0)
		file = memfd_create("persistent", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, 4096), 0);
	mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	assert_true(mem != MAP_FAILED);
	if (end->info->caps & FI_RMA_PMEM) {
		assert_ok(
			fi_mr_reg(end->domain, mem, 4096, CONF_ALL, 0, 1, FI_RMA_PMEM, &mr, NULL));
		assert_ok(fi_close(&mr->fid));
	} else {
		assert_refused_with(fi_mr_reg(end->domain, mem, 4096, CONF_ALL, 0, 1, FI_RMA_PMEM,
					      &mr, NULL),
				    -FI_EBADFLAGS, "persistence");
	}
	munmap(mem, 4096);
	conf_check_stats(end, 0, 0, 0);
}

static void flags_unknown_ones(struct conf *c)
{
	/* one that any domain takes, and those that it may take */
	const uint64_t good = HMREG_MR_RELAXED_ORDERING, may = FI_MR_SINGLE_USE | HMREG_MR_CACHE;
	struct conf_end *end = conf_open_for_regions(c), *events = NULL;
	uint8_t *buf = conf_alloc(c, 64);

	if (conf_offers(c, CONF_CAPS | FI_RMA_EVENT))
		events = conf_open(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_RMA_EVENT });
	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t flag = UINT64_C(1) << bit;

		if (flag & may)
			continue;
		expect(end, buf, flag, flag & good ? 0 : -FI_EBADFLAGS);
		if (events)
			expect(events, buf, flag, flag & (good | FI_RMA_EVENT) ? 0 : -FI_EBADFLAGS);
		/* a good one beside it changes nothing */
		if (!(flag & good))
			expect(end, buf, flag | good, -FI_EBADFLAGS);
	}
	expect(end, buf, UINT64_MAX, -FI_EBADFLAGS);
}

/* ---- FLAG-06 ---- */

static struct conf_region *single_use(struct conf_end *end, uint8_t *buf, size_t len)
{
	struct iovec iov = { buf, len };

	return conf_regv(end, &iov, 1, CONF_ALL, FI_MR_SINGLE_USE, NULL);
}

enum {
	USES = 6
};

static ssize_t use(unsigned int i, struct conf_link *l)
{
	void *desc = l->local->desc;
	uint64_t addr = l->remote->addr;

	switch (i) {
	case 0:
		return fi_write(l->a->ep, l->src, 8, desc, l->to, addr, l->key, l);
	case 1:
		return fi_read(l->a->ep, l->src, 8, desc, l->to, addr, l->key, l);
	case 2:
		return fi_writedata(l->a->ep, l->src, 8, desc, 3, l->to, addr, l->key, l);
	case 3:
		return fi_atomic(l->a->ep, l->src, 1, desc, l->to, addr, l->key, FI_UINT64, FI_SUM,
				 l);
	case 4:
		return fi_fetch_atomic(l->a->ep, l->src, 1, desc, l->src + 8, desc, l->to, addr,
				       l->key, FI_UINT64, FI_SUM, l);
	default:
		return fi_compare_atomic(l->a->ep, l->src, 1, desc, l->src + 8, desc, l->src + 16,
					 desc, l->to, addr, l->key, FI_UINT64, FI_CSWAP, l);
	}
}

static void flag_06_key_works_once(struct conf *c)
{
	struct conf_link l;

	conf_need_flag(c, FI_MR_SINGLE_USE);
	conf_link(c, NULL, 64, &l);
	for (unsigned int first = 0; first < USES; first++) {
		l.remote = single_use(l.b, l.dst, 64);
		l.key = conf_key(l.a, l.remote);
		assert_ok(use(first, &l));
		conf_done(l.a->tx, &l);
		for (unsigned int then = 0; then < USES; then++) {
			assert_ok(use(then, &l));
			conf_failed(l.a->tx, &l, FI_ENOKEY, HMREG_KEY_USED_UP);
		}
		/* the owner's own use does not ask for the key */
		assert_ok(fi_send(l.b->ep, l.dst, 8, l.remote->desc, conf_addr(l.b, l.a), c));
		conf_done(l.b->tx, c);
	}
}

/* What never reached the memory was no use. */
static void flag_06_refused_access_is_no_use(struct conf *c)
{
	struct iovec iov;
	struct conf_region *region;
	struct conf_link l;

	conf_need_flag(c, FI_MR_SINGLE_USE);
	conf_link(c, NULL, 64, &l);
	iov = (struct iovec){ l.dst, 64 };
	region = conf_regv(l.b, &iov, 1, CONF_LOCAL | FI_REMOTE_WRITE, FI_MR_SINGLE_USE, NULL);
	l.remote = region;
	l.key = conf_key(l.a, region);
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, region->addr + 60, l.key, c));
	conf_failed(l.a->tx, c, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	assert_ok(use(1, &l));
	conf_failed(l.a->tx, &l, FI_EACCES, HMREG_NO_RIGHT);
	assert_ok(fi_atomic(l.a->ep, l.src, 1, l.local->desc, l.to, region->addr + 1, l.key,
			    FI_UINT64, FI_SUM, c));
	conf_failed(l.a->tx, c, FI_EINVAL, HMREG_MISALIGNED);
	assert_ok(fi_write(l.a->ep, l.src, 0, l.local->desc, l.to, region->addr, l.key, c));
	conf_done(l.a->tx, c);
	assert_ok(use(0, &l));
	conf_done(l.a->tx, &l);
	assert_ok(use(0, &l));
	conf_failed(l.a->tx, &l, FI_ENOKEY, HMREG_KEY_USED_UP);
}

/* One operation that names the region more than once is one use. */
static void flag_06_one_operation_is_one_use(struct conf *c)
{
	struct conf_link l;
	struct iovec iov;
	struct fi_rma_iov rma[2];
	struct fi_msg_rma msg;

	conf_need_flag(c, FI_MR_SINGLE_USE);
	conf_link(c, NULL, 64, &l);
	if (l.a->info->tx_attr->rma_iov_limit < 2)
		conf_skip(c, "operations have one remote piece");
	l.remote = single_use(l.b, l.dst, 64);
	l.key = conf_key(l.a, l.remote);
	iov = (struct iovec){ l.src, 64 };
	rma[0] = (struct fi_rma_iov){ l.remote->addr + 32, 32, l.key };
	rma[1] = (struct fi_rma_iov){ l.remote->addr, 32, l.key };
	msg = (struct fi_msg_rma){ .msg_iov = &iov,
				   .desc = &l.local->desc,
				   .iov_count = 1,
				   .addr = l.to,
				   .rma_iov = rma,
				   .rma_iov_count = 2,
				   .context = c };
	assert_ok(fi_writemsg(l.a->ep, &msg, FI_COMPLETION));
	conf_done(l.a->tx, c);
	assert_memory_equal(l.dst + 32, l.src, 32);
	assert_memory_equal(l.dst, l.src + 32, 32);
	assert_ok(fi_writemsg(l.a->ep, &msg, FI_COMPLETION));
	conf_failed(l.a->tx, c, FI_ENOKEY, HMREG_KEY_USED_UP);
}

/* ---- racing for one use ---- */

#define RACERS 4
#define ROUNDS 200

struct racer {
	struct conf_link l; /* its own endpoint and buffer, the common target */
	pthread_barrier_t *barrier;
	uint64_t *keys;
	uint64_t addr;
	unsigned int won;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		ssize_t ret;

		pthread_barrier_wait(r->barrier);
		if (fi_write(r->l.a->ep, r->l.src, 8, r->l.local->desc, r->l.to, r->addr,
			     r->keys[i], NULL))
			return r;
		while ((ret = fi_cq_read(r->l.a->tx, &entry, 1)) == -FI_EAGAIN)
			;
		memset(&error, 0, sizeof(error));
		if (ret == 1)
			r->won++;
		else if (ret != -FI_EAVAIL || fi_cq_readerr(r->l.a->tx, &error, 0) != 1 ||
			 error.prov_errno != HMREG_KEY_USED_UP)
			return r;
	}
	return NULL;
}

static void flag_06_one_of_many_wins(struct conf *c)
{
	struct conf_end *target, *first;
	uint8_t *dst = conf_alloc(c, 8);
	struct conf_region store[ROUNDS];
	pthread_barrier_t barrier;
	uint64_t keys[ROUNDS];
	struct racer racer[RACERS];
	pthread_t thread[RACERS];
	unsigned int won = 0;

	conf_need_flag(c, FI_MR_SINGLE_USE);
	target = conf_open(c, NULL);
	first = conf_open(c, NULL);
	pthread_barrier_init(&barrier, NULL, RACERS);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		store[i] = *single_use(target, dst, 8);
		c->regions--; /* more of them than the harness has places for: closed below */
		keys[i] = conf_key(first, &store[i]);
	}
	for (unsigned int i = 0; i < RACERS; i++) {
		struct racer *r = &racer[i];

		*r = (struct racer){ .barrier = &barrier, .keys = keys, .addr = store[0].addr };
		/* keys are mapped per domain, so the racers share one */
		r->l.a = i ? conf_open(c, &(struct conf_opts){ .same_domain = first }) : first;
		r->l.to = conf_addr(r->l.a, target);
		r->l.src = conf_alloc(c, 8);
		r->l.local = conf_reg(r->l.a, r->l.src, 8, CONF_LOCAL);
	}
	for (unsigned int i = 0; i < RACERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, race, &racer[i]), 0);
	for (unsigned int i = 0; i < RACERS; i++) {
		void *failed;

		pthread_join(thread[i], &failed);
		assert_null(failed);
		won += racer[i].won;
	}
	pthread_barrier_destroy(&barrier);
	assert_int_equal(won, ROUNDS);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		if (store[i].maps)
			assert_ok(fi_mr_unmap_key(first->domain, keys[i]));
		conf_close_region(&store[i]);
	}
}

static const struct conf_case cases[] = {
	CONF(flag_02_memory_of_a_file),
	CONF(flag_02_persistent_memory),
	CONF(flags_unknown_ones),
	CONF(flag_06_key_works_once),
	CONF(flag_06_refused_access_is_no_use),
	CONF(flag_06_one_operation_is_one_use),
	CONF(flag_06_one_of_many_wins),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
