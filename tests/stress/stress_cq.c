/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many producers, few consumers, on each wait object: every completion is read exactly once, those of
 * one producer in order, and nobody sleeps on while something is there.  The queue is small, so that
 * it is full and empty all the time.
 */
#include <poll.h>

#include "tests/fds.h"
#include "tests/stress/stress.h"

#define PRODUCERS     4
#define CONSUMERS_MAX 2
#define LATE_MS	      20000 /* a sleep as long as this is a wake-up lost */

struct way {
	const char *name;
	enum fi_wait_obj wait_obj;
	unsigned consumers;
	bool polls; /* with fi_trywait and poll(2), else fi_cq_sread */
};

struct scene {
	const struct way *way;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq, *tx;
	struct fid_cntr *cntr;
	struct fid_ep *hub, *ep[PRODUCERS];
	struct fid_mr *mr;
	fi_addr_t to;
	uint64_t target, addr, key;
	double deadline;
	atomic_bool stop; /* no more will be produced */
	_Atomic uint64_t sent[PRODUCERS], read[PRODUCERS], total_read;
	_Atomic uint64_t reached; /* what fi_cntr_wait has seen */
	_Atomic unsigned sleeps;
};

/* ---- set-up ---- */

static struct fid_ep *make_ep(struct scene *s, struct fid_cq *tx, struct fid_cq *rx)
{
	struct fid_ep *ep;

	CHECK_OK(fi_endpoint(s->domain, s->info, &ep, NULL));
	CHECK_OK(fi_ep_bind(ep, &s->av->fid, 0));
	CHECK_OK(fi_ep_bind(ep, &tx->fid, FI_TRANSMIT));
	CHECK_OK(fi_ep_bind(ep, &rx->fid, FI_RECV));
	return ep;
}

static void open_queues(struct scene *s)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA,
				 .wait_obj = s->way->wait_obj,
				 .size = 16 };
	struct fi_cq_attr tx = { .format = FI_CQ_FORMAT_DATA,
				 .wait_obj = FI_WAIT_NONE,
				 .size = 64 };
	struct fi_cntr_attr cntr = { .wait_obj = s->way->wait_obj == FI_WAIT_NONE
							 ? FI_WAIT_UNSPEC
							 : s->way->wait_obj };
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	CHECK_OK(fi_av_open(s->domain, &av, &s->av, NULL));
	CHECK_OK(fi_cq_open(s->domain, &cq, &s->cq, NULL));
	CHECK_OK(fi_cq_open(s->domain, &tx, &s->tx, NULL));
	CHECK_OK(fi_cntr_open(s->domain, &cntr, &s->cntr, NULL));
}

static void scene_open(struct scene *s, const struct way *way)
{
	char name[64];
	size_t len = sizeof(name);

	s->way = way;
	s->info = stress_info("sw-verbs", FI_MSG | FI_RMA | FI_RMA_EVENT);
	CHECK_OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	CHECK_OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
	open_queues(s);
	s->hub = make_ep(s, s->tx, s->cq);
	CHECK_OK(fi_ep_bind(s->hub, &s->cntr->fid, FI_REMOTE_WRITE));
	CHECK_OK(fi_enable(s->hub));
	for (unsigned i = 0; i < PRODUCERS; i++) {
		s->ep[i] = make_ep(s, s->tx, s->tx);
		CHECK_OK(fi_enable(s->ep[i]));
	}
	CHECK_OK(fi_getname(&s->hub->fid, name, &len));
	CHECK(fi_av_insert(s->av, name, 1, &s->to, 0, NULL) == 1);
	CHECK_OK(fi_mr_reg(s->domain, &s->target, sizeof(s->target), FI_REMOTE_WRITE, 0, 0, 0,
			   &s->mr, NULL));
	s->addr = (uintptr_t)&s->target;
	s->key = fi_mr_key(s->mr);
}

static void scene_close(struct scene *s)
{
	CHECK_OK(fi_close(&s->mr->fid));
	CHECK_OK(fi_close(&s->hub->fid));
	for (unsigned i = 0; i < PRODUCERS; i++)
		CHECK_OK(fi_close(&s->ep[i]->fid));
	CHECK_OK(fi_close(&s->cntr->fid));
	CHECK_OK(fi_close(&s->cq->fid));
	CHECK_OK(fi_close(&s->tx->fid));
	CHECK_OK(fi_close(&s->av->fid));
	CHECK_OK(fi_close(&s->domain->fid));
	CHECK_OK(fi_close(&s->fabric->fid));
	fi_freeinfo(s->info);
}

/* ---- threads ---- */

struct job {
	struct scene *scene;
	unsigned index;
};

/* The write has no bytes, so that the producers do not race for the target's. */
static void *produce(void *arg)
{
	struct job *job = arg;
	struct scene *s = job->scene;
	uint64_t random = UINT64_C(88172645463325252) + job->index, n = 0;

	while (stress_now() < s->deadline) {
		ssize_t ret = fi_inject_writedata(s->ep[job->index], NULL, 0,
						  (uint64_t)job->index << 48 | n, s->to, s->addr,
						  s->key);

		if (ret == -FI_EAGAIN) {
			sched_yield();
			continue;
		}
		CHECK_OK(ret);
		atomic_store(&s->sent[job->index], ++n);
		if (stress_random(&random) % 32 == 0) /* let consumers fall asleep */
			nanosleep(&(struct timespec){ .tv_nsec = 30000 }, NULL);
	}
	return NULL;
}

/* With one consumer the order is seen as well. */
static void account(struct scene *s, const struct fi_cq_data_entry *entry)
{
	unsigned from = (unsigned)(entry->data >> 48);
	uint64_t n = entry->data & ((UINT64_C(1) << 48) - 1), before;

	CHECK(from < PRODUCERS);
	CHECK(entry->flags & FI_REMOTE_CQ_DATA);
	before = atomic_fetch_add(&s->read[from], 1);
	CHECK(s->way->consumers > 1 || n == before);
	atomic_fetch_add(&s->total_read, 1);
}

/* Returns when something may be there, or the end has come. */
static void wait_fd(struct scene *s, int fd)
{
	struct fid *fid = &s->cq->fid;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (fi_trywait(s->fabric, &fid, 1) != 0)
		return;
	atomic_fetch_add(&s->sleeps, 1);
	CHECK(poll(&p, 1, LATE_MS) == 1 || atomic_load(&s->stop));
}

static ssize_t read_some(struct scene *s, struct fi_cq_data_entry *entry, size_t count)
{
	double start = stress_now();
	ssize_t ret = fi_cq_read(s->cq, entry, count);

	if (ret != -FI_EAGAIN || s->way->polls || s->way->wait_obj == FI_WAIT_NONE)
		return ret;
	atomic_fetch_add(&s->sleeps, 1);
	ret = fi_cq_sread(s->cq, entry, count, NULL, LATE_MS);
	/* without an entry only when it was told to wake, which is long before the time is over */
	CHECK(ret != -FI_EAGAIN || stress_now() - start < LATE_MS / 1000.0 - 1);
	return ret;
}

static bool all_read(struct scene *s)
{
	uint64_t sent = 0;

	if (!atomic_load(&s->stop))
		return false;
	for (unsigned i = 0; i < PRODUCERS; i++)
		sent += atomic_load(&s->sent[i]);
	return atomic_load(&s->total_read) == sent;
}

static void *consume(void *arg)
{
	struct job *job = arg;
	struct scene *s = job->scene;
	struct fi_cq_data_entry entry[8];
	int fd = -1;

	if (s->way->polls)
		CHECK_OK(fi_control(&s->cq->fid, FI_GETWAIT, &fd));
	while (!all_read(s)) {
		ssize_t n = read_some(s, entry, 1 + job->index % 8);

		for (ssize_t i = 0; i < n; i++)
			account(s, &entry[i]);
		if (n > 0)
			continue;
		CHECK(n == -FI_EAGAIN);
		if (s->way->polls)
			wait_fd(s, fd);
		else if (s->way->wait_obj == FI_WAIT_NONE)
			sched_yield();
	}
	return NULL;
}

/* Sleeps for thresholds that the producers pass one after the other. */
static void *await(void *arg)
{
	struct scene *s = ((struct job *)arg)->scene;

	while (!atomic_load(&s->stop)) {
		uint64_t next = fi_cntr_read(s->cntr) + 50;
		int ret = fi_cntr_wait(s->cntr, next, 100);

		CHECK(ret == 0 || ret == -FI_ETIMEDOUT);
		CHECK(ret != 0 || fi_cntr_read(s->cntr) >= next);
		if (ret == 0)
			atomic_store(&s->reached, next);
	}
	return NULL;
}

/* ---- a case ---- */

static void run(struct scene *s)
{
	struct job jobs[PRODUCERS];
	pthread_t producer[PRODUCERS], consumer[CONSUMERS_MAX], waiter;
	uint64_t sent = 0;
	double late;

	for (unsigned i = 0; i < PRODUCERS; i++)
		jobs[i] = (struct job){ s, i };
	CHECK_OK(pthread_create(&waiter, NULL, await, &jobs[0]));
	for (unsigned i = 0; i < s->way->consumers; i++)
		CHECK_OK(pthread_create(&consumer[i], NULL, consume, &jobs[i]));
	for (unsigned i = 0; i < PRODUCERS; i++)
		CHECK_OK(pthread_create(&producer[i], NULL, produce, &jobs[i]));
	for (unsigned i = 0; i < PRODUCERS; i++)
		CHECK_OK(pthread_join(producer[i], NULL));
	atomic_store(&s->stop, true);
	late = stress_now() + 2 * LATE_MS / 1000.0;
	while (!all_read(s)) {
		CHECK(stress_now() < late);
		sched_yield();
	}
	/* a consumer that sleeps now has nothing to wait for any more */
	for (unsigned i = 0; i < s->way->consumers; i++) {
		while (s->way->wait_obj != FI_WAIT_NONE &&
		       pthread_tryjoin_np(consumer[i], NULL) != 0) {
			CHECK_OK(fi_cq_signal(s->cq));
			CHECK(stress_now() < late);
			sched_yield();
		}
		if (s->way->wait_obj == FI_WAIT_NONE)
			CHECK_OK(pthread_join(consumer[i], NULL));
	}
	CHECK_OK(pthread_join(waiter, NULL));
	for (unsigned i = 0; i < PRODUCERS; i++) {
		CHECK(s->sent[i] == s->read[i] && s->sent[i] > 0);
		sent += s->sent[i];
	}
	CHECK(fi_cntr_read(s->cntr) == sent);
	CHECK(s->reached > 0);
	printf("%-24s %9lu completions, %8u sleeps\n", s->way->name, sent, s->sleeps);
}

static const struct way ways[] = {
	{ "api_19_cq_none", FI_WAIT_NONE, 1, false },
	{ "api_19_cq_sleep", FI_WAIT_UNSPEC, 1, false },
	{ "api_19_cq_sleep_two", FI_WAIT_UNSPEC, 2, false },
	{ "api_19_cq_fd", FI_WAIT_FD, 1, false },
	{ "api_19_cq_fd_poll", FI_WAIT_FD, 1, true },
	{ "api_19_cq_fd_poll_two", FI_WAIT_FD, 2, true },
	{ "api_19_cq_yield", FI_WAIT_YIELD, 1, false },
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void one_way(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	size_t fds = test_fds();

	assert_non_null(s);
	scene_open(s, *state);
	s->deadline = stress_now() + (double)stress_setting("HMREG_STRESS_SECONDS", 10) / WAYS;
	run(s);
	scene_close(s);
	free(s);
	assert_int_equal(test_fds(), fds);
}

int main(void)
{
	struct CMUnitTest tests[WAYS];

	for (size_t i = 0; i < WAYS; i++)
		tests[i] = (struct CMUnitTest){ ways[i].name, one_way, NULL, NULL,
						(void *)(uintptr_t)&ways[i] };
	return cmocka_run_group_tests_name("stress_cq", tests, NULL, NULL);
}
