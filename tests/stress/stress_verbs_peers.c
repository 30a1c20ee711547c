/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers of an endpoint of the verbs NIC, over the emulated device: a thousand of them, some that open
 * connections at the same moment, some that die, some that never answer, and a device that is pulled out
 * under load.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"
#include "tests/stress/stress_verbs_load.h"

#define PEERS	1000u
#define BYTES	4096u
#define RUNNERS 4u
#define DEPTH	8u
#define CLOSES	1000u

static size_t fds_before;

static uint64_t queue_pairs(void)
{
	struct emu_verbs_counts counts;

	emu_verbs_counts(&counts);
	return counts.qps;
}

/* Connections end in other threads. */
static void await_queue_pairs(uint64_t n)
{
	double patience = stress_now() + PATIENCE;

	while (queue_pairs() != n) {
		CHECK(stress_now() < patience);
		usleep(1000);
	}
}

static uint16_t port_of(const struct vend *end)
{
	struct sockaddr_in in;

	memcpy(&in, end->name, sizeof(in));
	return ntohs(in.sin_port);
}

/* ---- a thousand ---- */

/* As many as there are descriptors for: an endpoint here has five, and the emulated queues theirs. */
static unsigned peers_possible(void)
{
	struct rlimit limit;

	CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
	return limit.rlim_max > 16 * PEERS ? PEERS : (unsigned)(limit.rlim_max / 16);
}

/* One endpoint, and many in another domain, whose addresses it knows. */
static struct crowd {
	struct vend from, to;
	struct fid_ep *ep[PEERS];
	fi_addr_t addr[PEERS];
	uint8_t memory[BYTES], local[BYTES];
	struct fid_mr *mr, *local_mr;
	unsigned count;
} crowd;

static void open_crowd(struct crowd *c)
{
	c->count = peers_possible();
	vend_open(&c->from, "emu0", NULL, 0);
	vend_open(&c->to, "emu1", NULL, 0);
	c->mr = vend_register(&c->to, c->memory, BYTES);
	c->local_mr = vend_register(&c->from, c->local, BYTES);
	vend_close_ep(&c->to);
	for (unsigned i = 0; i < c->count; i++) {
		vend_open_ep(&c->to, NULL, 0);
		c->ep[i] = c->to.ep;
		c->addr[i] = vend_insert(&c->from, &c->to);
	}
}

static void close_crowd(struct crowd *c)
{
	for (unsigned i = 0; i < c->count; i++)
		CHECK_OK(fi_close(&c->ep[i]->fid));
	c->to.ep = NULL;
	await_queue_pairs(0);
	CHECK_OK(fi_close(&c->mr->fid));
	CHECK_OK(fi_close(&c->local_mr->fid));
	vend_close(&c->from);
	vend_close(&c->to);
	vend_none_left(fds_before);
}

/* A byte is written to this one, another sent as a message. */
static void contact(struct crowd *c, unsigned i)
{
	struct vop write = { 0 }, send = { 0 }, receive = { .is_recv = true };
	uint8_t *target = c->memory + i % (BYTES / 2), *inbox = target + BYTES / 2;

	c->local[0] = (uint8_t)(i + 1);
	*inbox = *target = 0;
	VPOST(&c->to, &receive,
	      fi_recv(c->ep[i], inbox, 1, fi_mr_desc(c->mr), FI_ADDR_UNSPEC, &receive));
	VPOST(&c->from, &write,
	      fi_write(c->from.ep, c->local, 1, fi_mr_desc(c->local_mr), c->addr[i],
		       (uintptr_t)target, fi_mr_key(c->mr), &write));
	VPOST(&c->from, &send,
	      fi_send(c->from.ep, c->local, 1, fi_mr_desc(c->local_mr), c->addr[i], &send));
	CHECK(vend_wait(&c->from, &write) == 0);
	CHECK(vend_wait(&c->from, &send) == 0);
	CHECK(vend_wait(&c->to, &receive) == 0);
	CHECK(*target == c->local[0] && *inbox == c->local[0]);
}

/* Every second one is contacted, then all: these have connections, no others. */
static void nic_a_connection_for_each_peer_that_is_used(void **state)
{
	struct crowd *c = &crowd;
	unsigned used = 0;

	(void)state;
	open_crowd(c);
	CHECK(queue_pairs() == 0); /* all are known, none is used */
	for (unsigned step = 2; step > 0; step--) {
		for (unsigned i = step % 2; i < c->count; i += 2) {
			contact(c, i);
			used++;
			if (used == 1 || used == 10)
				await_queue_pairs(2 * used); /* one at each end */
		}
		await_queue_pairs(2 * used);
		printf("%u peers known, %u contacted: %lu queue pairs\n", c->count, used,
		       (unsigned long)queue_pairs());
	}
	for (unsigned i = 0; i < c->count; i += 100) /* over the same connections */
		contact(c, i);
	CHECK(queue_pairs() == 2 * used);
	close_crowd(c);
	printf("all closed: %lu queue pairs\n", (unsigned long)queue_pairs());
}

/* ---- two at once ---- */

struct half {
	struct vend *end;
	fi_addr_t other;
	pthread_barrier_t *start;
	uint8_t out[8], in[8];
	bool closes; /* without waiting for anything */
};

static void *meet(void *arg)
{
	struct half *half = arg;
	struct vop send = { 0 }, receive = { .is_recv = true };
	struct fid_mr *mr = vend_register(half->end, half, sizeof(*half));

	VPOST(half->end, &receive,
	      fi_recv(half->end->ep, half->in, 8, fi_mr_desc(mr), FI_ADDR_UNSPEC, &receive));
	pthread_barrier_wait(half->start);
	VPOST(half->end, &send,
	      fi_send(half->end->ep, half->out, 8, fi_mr_desc(mr), half->other, &send));
	if (!half->closes) {
		CHECK(vend_wait(half->end, &send) == 0);
		CHECK(vend_wait(half->end, &receive) == 0);
		CHECK(receive.len == 8 && half->in[0] == (half->out[0] ^ 1));
		pthread_barrier_wait(half->start);
	}
	vend_close_ep(half->end);
	CHECK_OK(fi_close(&mr->fid));
	return NULL;
}

static void meet_for(double seconds, bool closes)
{
	struct vend end[2];
	struct half half[2];
	pthread_barrier_t start;
	pthread_t thread;
	double until = stress_now() + seconds;
	unsigned rounds = 0;

	vend_open(&end[0], "emu0", NULL, 0);
	vend_open(&end[1], "emu1", NULL, 0);
	pthread_barrier_init(&start, NULL, 2);
	for (; stress_now() < until; rounds++) {
		for (unsigned i = 0; i < 2; i++) {
			if (!end[i].ep)
				vend_open_ep(&end[i], NULL, 0);
			half[i] = (struct half){
				.end = &end[i], .start = &start, .out = { i }, .closes = closes
			};
		}
		half[0].other = vend_insert(&end[0], &end[1]);
		half[1].other = vend_insert(&end[1], &end[0]);
		CHECK_OK(pthread_create(&thread, NULL, meet, &half[1]));
		meet(&half[0]);
		pthread_join(thread, NULL);
		for (unsigned i = 0; i < 2; i++) {
			struct fi_cq_msg_entry entry;
			struct fi_cq_err_entry err = { .err = 0 };
			ssize_t n;

			while ((n = fi_cq_read(end[i].cq, &entry, 1)) != -FI_EAGAIN)
				if (n == -FI_EAVAIL)
					(void)fi_cq_readerr(end[i].cq, &err, 0);
			CHECK_OK(fi_av_remove(end[i].av, &half[i].other, 1, 0));
		}
		await_queue_pairs(0);
	}
	pthread_barrier_destroy(&start);
	vend_close(&end[0]);
	vend_close(&end[1]);
	vend_none_left(fds_before);
	printf("%u pairs met%s\n", rounds, closes ? ", and closed at once" : "");
}

static double some_seconds(void)
{
	return stress_setting("HMREG_STRESS_SECONDS", 10) / 6.0;
}

static void nic_two_connect_at_the_same_time(void **state)
{
	(void)state;
	meet_for(some_seconds(), false);
}

static void nic_closing_while_connecting(void **state)
{
	(void)state;
	meet_for(some_seconds(), true);
}

/* ---- load on a pair ---- */

struct runner {
	pthread_t thread;
	struct vend *from, *to;
	fi_addr_t addr;
	uint8_t *memory;
	uint64_t target, key;
	void *desc;
	unsigned number;
	uint64_t good, bad;
	struct vop op[DEPTH];
};

static struct vend pair[2];
static struct runner runner[RUNNERS];
static uint8_t *target, *source;
static struct fid_mr *target_mr, *source_mr;
static _Atomic bool stop;
static _Atomic uint64_t ended[2]; /* of all runners: well, or not */

/* What a request may end with, once its peer or device dies. */
static bool is_death(int err)
{
	return err == FI_ECONNABORTED || err == FI_EHOSTUNREACH || err == FI_ENODEV ||
	       err == FI_EIO;
}

static void *load(void *arg)
{
	struct runner *r = arg;

	while (!atomic_load(&stop)) {
		for (unsigned i = 0; i < DEPTH; i++)
			VPOST(r->from, &r->op[i],
			      fi_write(r->from->ep, r->memory + 64 * i, 64, r->desc, r->addr,
				       r->target + 64 * i, r->key, &r->op[i]));
		for (unsigned i = 0; i < DEPTH; i++) {
			int err = vend_wait(r->from, &r->op[i]);

			CHECK(err == 0 || is_death(err));
			r->good += err == 0;
			r->bad += err != 0;
			atomic_fetch_add(&ended[err != 0], 1);
		}
	}
	return NULL;
}

static void start_load(void)
{
	size_t each = DEPTH * 64;
	fi_addr_t addr;

	vend_open(&pair[0], "emu0", NULL, 0);
	vend_open(&pair[1], "emu1", NULL, 0);
	target = calloc(RUNNERS, each);
	source = calloc(RUNNERS, each);
	CHECK(target && source);
	target_mr = vend_register(&pair[1], target, RUNNERS * each);
	source_mr = vend_register(&pair[0], source, RUNNERS * each);
	addr = vend_insert(&pair[0], &pair[1]);
	stop = false;
	ended[0] = ended[1] = 0;
	for (unsigned i = 0; i < RUNNERS; i++) {
		runner[i] = (struct runner){ .from = &pair[0],
					     .to = &pair[1],
					     .addr = addr,
					     .number = i,
					     .memory = source + i * each,
					     .target = (uintptr_t)target + i * each,
					     .desc = fi_mr_desc(source_mr),
					     .key = fi_mr_key(target_mr) };
		CHECK_OK(pthread_create(&runner[i].thread, NULL, load, &runner[i]));
	}
}

static void end_load(uint64_t *good, uint64_t *bad)
{
	stop = true;
	*good = *bad = 0;
	for (unsigned i = 0; i < RUNNERS; i++) {
		pthread_join(runner[i].thread, NULL);
		*good += runner[i].good;
		*bad += runner[i].bad;
	}
}

static void close_load(void)
{
	vend_close_ep(&pair[0]);
	vend_close_ep(&pair[1]);
	CHECK_OK(fi_close(&target_mr->fid));
	CHECK_OK(fi_close(&source_mr->fid));
	vend_close(&pair[0]);
	vend_close(&pair[1]);
	free(target);
	free(source);
	vend_none_left(fds_before);
}

/* Writes go over again, though connections die under them. */
static void nic_a_peer_dies_and_is_back(void **state)
{
	double until = stress_now() + some_seconds();
	uint64_t good, bad, killed = 0;
	struct vop op = { 0 };

	(void)state;
	start_load();
	while (stress_now() < until) {
		usleep(20000);
		killed += (uint64_t)emu_verbs_kill_peer(port_of(&pair[1]));
	}
	end_load(&good, &bad);
	for (int tries = 0; tries < 10; tries++) {
		VPOST(&pair[0], &op,
		      fi_write(pair[0].ep, source, 64, fi_mr_desc(source_mr), runner[0].addr,
			       (uintptr_t)target, fi_mr_key(target_mr), &op));
		if (vend_wait(&pair[0], &op) == 0)
			break;
		CHECK(tries < 9);
	}
	printf("%lu connections killed: %lu writes done, %lu failed\n", (unsigned long)killed,
	       (unsigned long)good, (unsigned long)bad);
	CHECK(killed > 0 && good > 0);
	close_load();
}

static void await_ended(bool bad)
{
	double patience = stress_now() + PATIENCE;

	while (atomic_load(&ended[bad]) == 0) {
		CHECK(stress_now() < patience);
		usleep(1000);
	}
	usleep(100000);
}

static void remove_under_load(const char *device)
{
	uint64_t good, bad;

	start_load();
	await_ended(false);
	CHECK_OK(emu_verbs_remove_device(device));
	await_ended(true);
	end_load(&good, &bad);
	printf("%s removed: %lu writes done, %lu failed\n", device, (unsigned long)good,
	       (unsigned long)bad);
	CHECK(good > 0 && bad > 0);
	close_load();
	emu_verbs_reset();
}

static void fn_38_device_removed_under_load(void **state)
{
	double until = stress_now() + some_seconds();

	(void)state;
	do {
		remove_under_load("emu0");
		remove_under_load("emu1");
	} while (stress_now() < until);
}

/* Nobody answers: requests end with an error within the retry time, and closing does not wait longer. */
static void nic_a_silent_peer(void **state)
{
	struct vop op = { 0 };
	fi_addr_t addr;

	(void)state;
	vend_open(&pair[0], "emu0", NULL, 0);
	vend_open(&pair[1], "emu1", NULL, 0);
	addr = vend_insert(&pair[0], &pair[1]);
	emu_verbs_silence(port_of(&pair[1]), 1);
	VPOST(&pair[0], &op, fi_send(pair[0].ep, NULL, 0, NULL, addr, &op));
	CHECK(is_death(vend_wait(&pair[0], &op)));
	VPOST(&pair[0], &op, fi_send(pair[0].ep, NULL, 0, NULL, addr, &op));
	vend_close_ep(&pair[0]); /* while it asks */
	emu_verbs_silence(port_of(&pair[1]), 0);
	vend_close(&pair[0]);
	vend_close(&pair[1]);
	vend_none_left(fds_before);
}

static int look_once(void **state)
{
	(void)state;
	vend_open(&pair[0], "emu0", NULL, 0);
	vend_close(&pair[0]);
	fds_before = test_fds();
	return 0;
}

/* ---- the last ones ---- */

static pthread_barrier_t together;

static void *close_one(void *ep)
{
	pthread_barrier_wait(&together);
	CHECK_OK(fi_close((struct fid *)ep));
	return NULL;
}

/* Several threads close the last endpoints of a domain, whose thread ends with one of them. */
static void nic_last_endpoints_close_at_the_same_time(void **state)
{
	struct vend end;

	(void)state;
	vend_open(&end, "emu0", NULL, 0);
	vend_close_ep(&end);
	CHECK_OK(pthread_barrier_init(&together, NULL, RUNNERS));
	for (unsigned round = 0; round < CLOSES; round++) {
		pthread_t thread[RUNNERS];

		for (unsigned i = 0; i < RUNNERS; i++) {
			vend_open_ep(&end, NULL, 0);
			CHECK_OK(pthread_create(&thread[i], NULL, close_one, &end.ep->fid));
		}
		for (unsigned i = 0; i < RUNNERS; i++)
			CHECK_OK(pthread_join(thread[i], NULL));
	}
	end.ep = NULL;
	CHECK_OK(pthread_barrier_destroy(&together));
	vend_close(&end);
	vend_none_left(fds_before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nic_a_connection_for_each_peer_that_is_used),
		cmocka_unit_test(nic_two_connect_at_the_same_time),
		cmocka_unit_test(nic_closing_while_connecting),
		cmocka_unit_test(nic_a_peer_dies_and_is_back),
		cmocka_unit_test(fn_38_device_removed_under_load),
		cmocka_unit_test(nic_a_silent_peer),
		cmocka_unit_test(nic_last_endpoints_close_at_the_same_time),
	};

	vend_settings("devices=2,max_srq=4096");
	setenv("HMREG_VERBS_RX_BUFFERS", "8", 1);
	return cmocka_run_group_tests_name("stress_verbs_peers", tests, look_once, NULL);
}
