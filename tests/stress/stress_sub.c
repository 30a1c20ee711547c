/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs of shared bases, from many threads: made, written to, closed, while others try to close the bases.
 *
 *   - a base that has sub-MRs is never closed, and never the worse for the attempt
 *   - nothing is written by a key whose fi_close has returned: what the owner fills in then must stay
 *   - of making a base's first sub-MR and closing the base, at the same moment, one succeeds
 *   - figures of the domains and open files are at the end what they were before
 */
#include "tests/fds.h"
#include "tests/stress/world.h"

#define CANARY UINT64_C(0xcacacacacacacaca)
#define ALL    (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CHAIN  3

/* A thread's place in a world: a slice of the hub's memory, under bases that others share. */
struct agent {
	struct world *world;
	unsigned thread;
	uint64_t random;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint64_t value; /* what it writes */
	struct fid_mr *value_mr;
	fi_addr_t hub;
	struct fid_mr *chain
		[CHAIN]; /* of the slice, each of the one before it, the first of the hub's region */
	/* the window: a sub-MR that others write to, a lane for each thread */
	struct fid_mr *window;
	uint64_t *lanes;
	bool filled; /* closed, and lanes hold the canary */
	struct notice notice;
	uint64_t hits, misses, paused, refused, closed;
};

static struct world worlds[WORLDS];
static struct agent agents[WORLDS][THREADS_MAX];
static unsigned threads;
static double deadline;
static pthread_barrier_t all;

static unsigned below(struct agent *a, unsigned limit)
{
	return (unsigned)(stress_random(&a->random) % limit);
}

static int try_sub(struct world *w, struct fid_mr *base, void *buf, size_t len, struct fid_mr **mr)
{
	struct iovec iov = { buf, len };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = ALL,
				   .requested_key = atomic_fetch_add(&w->next_key, 1),
				   .base_mr = base };

	return fi_mr_regattr(w->domain, &attr, 0, mr);
}

static struct fid_mr *make_sub(struct world *w, struct fid_mr *base, void *buf, size_t len)
{
	struct fid_mr *mr;

	CHECK_OK(try_sub(w, base, buf, len, &mr));
	if (w->mode & FI_MR_ENDPOINT) {
		CHECK_OK(fi_mr_bind(mr, &w->hub->fid, 0));
		CHECK_OK(fi_mr_enable(mr));
	}
	return mr;
}

/* ---- what an agent does ---- */

static struct agent *anyone(struct agent *a)
{
	return &agents[a->world - worlds][below(a, threads)];
}

static void open_window(struct agent *a)
{
	struct world *w = a->world;
	struct notice *n = &a->notice;
	unsigned level = below(a, CHAIN + 1);

	for (unsigned i = 0; i < threads; i++) {
		if (a->filled)
			CHECK(a->lanes[i] == CANARY + i);
		a->lanes[i] = 0;
	}
	a->filled = false;
	a->window = make_sub(w, level ? a->chain[level - 1] : w->hub_mr, a->lanes,
			     threads * sizeof(*a->lanes));
	pthread_mutex_lock(&n->lock);
	n->generation++;
	n->addr = w->mode & FI_MR_VIRT_ADDR ? (uintptr_t)a->lanes : 0;
	export_key(w, a->window, &n->key, &n->base, n->raw, &n->raw_size);
	pthread_mutex_unlock(&n->lock);
}

static void close_window(struct agent *a)
{
	uint64_t generation = a->notice.generation; /* only this thread writes it */

	CHECK_OK(fi_close(&a->window->fid));
	a->window = NULL;
	atomic_store(&a->notice.closed, generation);
	for (unsigned i = 0; i < threads; i++) {
		CHECK(a->lanes[i] == 0 || a->lanes[i] == (generation << 8 | i));
		a->lanes[i] = CANARY + i;
	}
	a->filled = true;
	a->closed++;
}

static void turn_window(struct agent *a)
{
	if (a->window)
		close_window(a);
	else
		open_window(a);
}

/* Sub-MRs of anybody's bases, which nobody writes to; the last has one of its own. */
static void churn(struct agent *a)
{
	struct agent *host = anyone(a);
	struct fid_mr *base = host->chain[below(a, CHAIN)], *mr[4];

	for (unsigned i = 0; i < 4; i++)
		mr[i] = make_sub(a->world, i == 3 ? mr[2] : base, (char *)host->lanes + i, 64 - i);
	CHECK(fi_close(&mr[2]->fid) == -FI_EBUSY);
	for (unsigned i = 4; i > 0; i--)
		CHECK_OK(fi_close(&mr[i - 1]->fid));
}

static void close_bases(struct agent *a)
{
	CHECK(fi_close(&a->world->hub_mr->fid) == -FI_EBUSY);
	for (unsigned i = 0; i + 1 < CHAIN; i++)
		CHECK(fi_close(&anyone(a)->chain[i]->fid) == -FI_EBUSY);
	a->refused++;
}

/* By one thread alone, as the program has to order refreshing. */
static void refresh_base(struct agent *a)
{
	if (a->thread == 0 && (a->world->mode & FI_MR_MMU_NOTIFY))
		CHECK_OK(fi_mr_refresh(a->world->hub_mr, NULL, 0, 0));
}

static int write_value(struct agent *a, uint64_t addr, uint64_t key)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_msg_entry entry;
	ssize_t ret;

	CHECK_OK(fi_write(a->ep, &a->value, sizeof(a->value), fi_mr_desc(a->value_mr), a->hub, addr,
			  key, a));
	while ((ret = fi_cq_read(a->cq, &entry, 1)) == -FI_EAGAIN)
		sched_yield();
	if (ret == 1)
		return 0;
	CHECK(ret == -FI_EAVAIL && fi_cq_readerr(a->cq, &error, 0) == 1);
	CHECK(error.prov_errno > 0);
	return error.prov_errno;
}

static void visit(struct agent *a)
{
	struct agent *host = anyone(a);
	struct world *w = a->world;
	struct notice n;
	bool was_closed;
	uint64_t key;
	int cause;

	pthread_mutex_lock(&host->notice.lock);
	n.generation = host->notice.generation;
	n.addr = host->notice.addr, n.key = host->notice.key, n.base = host->notice.base;
	n.raw_size = host->notice.raw_size;
	memcpy(n.raw, host->notice.raw, sizeof(n.raw));
	pthread_mutex_unlock(&host->notice.lock);
	if (!n.generation)
		return;
	key = n.key;
	if (n.raw_size)
		CHECK_OK(fi_mr_map_raw(w->domain, n.base, n.raw, n.raw_size, &key, 0));
	a->value = n.generation << 8 | a->thread;
	was_closed = atomic_load(&host->notice.closed) >= n.generation;
	cause = write_value(a, n.addr + a->thread * sizeof(a->value), key);
	CHECK(cause == 0 || cause == HMREG_KEY_UNKNOWN || cause == HMREG_KEY_CLOSED ||
	      (cause == HMREG_REFRESHING && (w->mode & FI_MR_MMU_NOTIFY)));
	CHECK(cause != 0 || !was_closed);
	a->hits += cause == 0;
	a->paused += cause == HMREG_REFRESHING;
	a->misses += cause != 0 && cause != HMREG_REFRESHING;
	if (n.raw_size)
		CHECK_OK(fi_mr_unmap_key(w->domain, key));
}

static void act(struct agent *a)
{
	static void (*const acts[])(struct agent *) = {
		turn_window, turn_window, visit,       visit,	     visit,
		visit,	     churn,	  close_bases, refresh_base,
	};

	acts[below(a, sizeof(acts) / sizeof(acts[0]))](a);
}

/* ---- a thread ---- */

static void agent_open(struct agent *a, struct world *w, unsigned thread)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_MSG, .size = 16 };
	uint8_t name[NAME_MAX_], *slice = w->memory + thread * SLICE;

	*a = (struct agent){ .world = w, .thread = thread };
	a->random = UINT64_C(0x9e3779b97f4a7c15) * (thread + 1) ^ (uintptr_t)w->profile[3];
	CHECK_OK(fi_cq_open(w->domain, &attr, &a->cq, NULL));
	a->ep = make_ep(w, a->cq, name);
	a->value_mr = make_mr(w, a->ep, &a->value, sizeof(a->value), NULL);
	CHECK(fi_av_insert(w->av, w->hub_name, 1, &a->hub, 0, NULL) == 1);
	for (unsigned i = 0; i < CHAIN; i++)
		a->chain[i] =
			make_sub(w, i ? a->chain[i - 1] : w->hub_mr, slice + i, SLICE - 2 * i);
	a->lanes = (uint64_t *)(void *)(slice + 64);
	pthread_mutex_init(&a->notice.lock, NULL);
}

static void agent_close(struct agent *a)
{
	if (a->window)
		close_window(a);
	for (unsigned i = CHAIN; i > 0; i--)
		CHECK_OK(fi_close(&a->chain[i - 1]->fid));
	CHECK_OK(fi_av_remove(a->world->av, &a->hub, 1, 0));
	CHECK_OK(fi_close(&a->value_mr->fid));
	CHECK_OK(fi_close(&a->ep->fid));
	CHECK_OK(fi_close(&a->cq->fid));
	pthread_mutex_destroy(&a->notice.lock);
}

static void *run_agents(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg;

	for (unsigned w = 0; w < WORLDS; w++)
		agent_open(&agents[w][thread], &worlds[w], thread);
	pthread_barrier_wait(&all);
	while (stress_now() < deadline)
		for (unsigned w = 0; w < WORLDS; w++)
			act(&agents[w][thread]);
	pthread_barrier_wait(&all);
	for (unsigned w = 0; w < WORLDS; w++)
		agent_close(&agents[w][thread]);
	return NULL;
}

static void tell(unsigned w)
{
	uint64_t hits = 0, misses = 0, paused = 0, refused = 0, closed = 0;

	for (unsigned t = 0; t < threads; t++) {
		const struct agent *a = &agents[w][t];

		hits += a->hits, misses += a->misses, paused += a->paused;
		refused += a->refused, closed += a->closed;
	}
	printf("%-12s %lu writes, %lu more to closed windows, %lu during a refresh; %lu windows "
	       "closed, "
	       "%lu times all bases busy\n",
	       worlds[w].profile, hits, misses, paused, closed, refused);
	/* else nothing was put to the test */
	CHECK(hits > 0 && misses > 0 && refused > 0 && closed > 0);
}

static void open_worlds(void)
{
	static const char *const profiles[WORLDS] = { "sw-scalable", "sw-verbs", "sw-strict" };

	for (unsigned w = 0; w < WORLDS; w++)
		world_open(&worlds[w], profiles[w], threads);
}

static void sub_03_sub_06_api_19_shared_bases(void **state)
{
	pthread_t id[THREADS_MAX];
	size_t fds = test_fds();

	(void)state;
	open_worlds();
	pthread_barrier_init(&all, NULL, threads);
	deadline = stress_now() + stress_setting("HMREG_STRESS_SECONDS", 10);
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_create(&id[t], NULL, run_agents, (void *)(uintptr_t)t));
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_join(id[t], NULL));
	pthread_barrier_destroy(&all);
	for (unsigned w = 0; w < WORLDS; w++) {
		tell(w);
		world_close(&worlds[w]);
	}
	assert_int_equal(test_fds(), fds);
}

/* ---- the first sub-MR of a base against the base's end ---- */

#define MAKERS 2
#define ROUNDS 3000

static struct {
	struct fid_mr *base[WORLDS];
	struct fid_mr *sub[WORLDS][MAKERS];
	bool over;
} race;

static void *race_to_make(void *arg)
{
	unsigned m = (unsigned)(uintptr_t)arg;

	for (;;) {
		pthread_barrier_wait(&all);
		if (race.over)
			return NULL;
		for (unsigned w = 0; w < WORLDS; w++) {
			int ret = try_sub(&worlds[w], race.base[w], worlds[w].memory, 64,
					  &race.sub[w][m]);

			CHECK(ret == 0 || ret == -FI_EINVAL);
			if (ret != 0)
				race.sub[w][m] = NULL;
		}
		pthread_barrier_wait(&all);
	}
}

/* Where one or the other came first; closes what there is. */
static bool settle(unsigned w, int ret)
{
	unsigned made = 0;

	CHECK(ret == 0 || ret == -FI_EBUSY);
	for (unsigned m = 0; m < MAKERS; m++) {
		if (!race.sub[w][m])
			continue;
		made++;
		CHECK_OK(fi_close(&race.sub[w][m]->fid));
	}
	CHECK(ret == 0 ? made == 0 : made > 0);
	if (ret != 0)
		CHECK_OK(fi_close(&race.base[w]->fid));
	return ret == 0;
}

static void sub_03_api_19_making_against_closing(void **state)
{
	unsigned closed = 0, rounds = 0;
	pthread_t id[MAKERS];

	(void)state;
	open_worlds();
	race.over = false;
	pthread_barrier_init(&all, NULL, MAKERS + 1);
	for (unsigned m = 0; m < MAKERS; m++)
		CHECK_OK(pthread_create(&id[m], NULL, race_to_make, (void *)(uintptr_t)m));
	for (unsigned round = 0; round < ROUNDS; round++) {
		int ret[WORLDS];

		for (unsigned w = 0; w < WORLDS; w++)
			race.base[w] =
				make_mr(&worlds[w], worlds[w].hub, worlds[w].memory, 4096, NULL);
		pthread_barrier_wait(&all);
		for (unsigned w = 0; w < WORLDS; w++)
			ret[w] = fi_close(&race.base[w]->fid);
		pthread_barrier_wait(&all);
		for (unsigned w = 0; w < WORLDS; w++, rounds++)
			closed += settle(w, ret[w]);
	}
	race.over = true;
	pthread_barrier_wait(&all);
	for (unsigned m = 0; m < MAKERS; m++)
		CHECK_OK(pthread_join(id[m], NULL));
	pthread_barrier_destroy(&all);
	printf("the base was closed first %u times of %u\n", closed, rounds);
	for (unsigned w = 0; w < WORLDS; w++)
		world_close(&worlds[w]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sub_03_sub_06_api_19_shared_bases),
		cmocka_unit_test(sub_03_api_19_making_against_closing),
	};

	threads = stress_setting("HMREG_STRESS_THREADS", 8);
	threads = threads > THREADS_MAX ? THREADS_MAX : threads;
	return cmocka_run_group_tests_name("stress_sub", tests, NULL, NULL);
}
