/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two endpoints in domains of their own, over emulated devices, used by many threads both ways at once:
 * writes that are read back, sums, messages of all sizes, each among requests that the target must refuse.
 * Meanwhile one thread registers and closes a region that all write to, one closes and opens an endpoint
 * at the same address, and one inserts and removes addresses.
 *
 * A good request succeeds, with its bytes at their place, exactly once, whatever goes on beside it; a bad
 * one fails, with an error completion.
 */
#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"
#include "tests/stress/stress_verbs_load.h"

#define BATCH	    6
#define SLICE	    8192u
#define MESSAGE_MAX 20000u
#define RECEIVES    16
#define THREADS_MAX 32
#define GUEST_PORT  7471
#define CANARY	    0xc5

struct message {
	uint64_t thread, number, len;
};

/* What is at an end for the threads of the other one. */
struct side {
	struct vend end;
	fi_addr_t other, guest;
	uint8_t *memory; /* slices of threads, then the counter's page */
	struct fid_mr *mr;
	uint8_t *inbox;
	struct fid_mr *inbox_mr;
	struct vop receive[RECEIVES];
	uint64_t got[THREADS_MAX]; /* of each thread, with end.reading held */
};

struct worker {
	pthread_t thread;
	unsigned number;
	struct side *here, *there;
	uint64_t random;
	uint8_t *out, *in; /* local memory */
	struct fid_mr *mr;
	struct vop op[BATCH];
	uint64_t sent, added;
	uint64_t transfers, refused, visits, hits, reached, unreached;
};

static struct side side[2];
static struct worker worker[THREADS_MAX];
static unsigned workers;
static double until;

/* A region of side 1 that comes and goes; odd generation: open. */
static struct {
	_Atomic uint64_t generation;
	_Atomic uint64_t key;
	uint8_t *memory;
	uint64_t closed;
} shop;

/* An endpoint of its own domain that comes and goes. */
static struct {
	struct vend end;
	_Atomic uint64_t generation; /* odd: open */
	_Atomic uint64_t reached;    /* successes in this generation */
	uint64_t reopened;
} guest;

static uint64_t inserted;

static bool goes_on(void)
{
	return stress_now() < until;
}

static uint64_t counter_at(const struct side *s)
{
	return (uintptr_t)s->memory + THREADS_MAX * SLICE;
}

/* ---- receiving ---- */

static void post_receive(struct side *s, struct vop *op)
{
	uint8_t *at = s->inbox + (size_t)(op - s->receive) * MESSAGE_MAX;

	op->is_recv = true;
	VPOST(&s->end, op,
	      fi_recv(s->end.ep, at, MESSAGE_MAX, fi_mr_desc(s->inbox_mr), FI_ADDR_UNSPEC, op));
	CHECK(op->state != 2 || !op->err);
}

static uint8_t byte_at(uint64_t thread, uint64_t number, size_t at)
{
	return (uint8_t)(thread * 7 + number * 31 + at + at / 253);
}

static void on_receive(struct vend *end, struct vop *op)
{
	struct side *s = (struct side *)(void *)end;
	const uint8_t *at = s->inbox + (size_t)(op - s->receive) * MESSAGE_MAX;
	struct message head;

	CHECK(op->err == 0);
	CHECK(op->len >= sizeof(head));
	memcpy(&head, at, sizeof(head));
	CHECK(head.len == op->len && head.thread < workers);
	CHECK(head.number == s->got[head.thread] + 1); /* in order, once */
	s->got[head.thread]++;
	for (size_t i = sizeof(head); i < head.len; i += 1 + i / 64)
		CHECK(at[i] == byte_at(head.thread, head.number, i));
	/* not VPOST: the queue is being read by this thread */
	CHECK(atomic_exchange(&op->state, 1) == 2);
	CHECK_OK(fi_recv(s->end.ep, (void *)(uintptr_t)at, MESSAGE_MAX, fi_mr_desc(s->inbox_mr),
			 FI_ADDR_UNSPEC, op));
}

/* ---- a worker's requests ---- */

/* Is the batch to have a bad one, and which? */
static unsigned pick_bad(struct worker *w)
{
	return (unsigned)(stress_random(&w->random) % (2 * BATCH));
}

static uint64_t key_for(const struct worker *w, bool bad, uint64_t *addr)
{
	uint64_t key = fi_mr_key(w->there->mr);

	if (!bad)
		return key;
	if (w->transfers & 1)
		*addr += UINT64_C(1) << 40; /* a range out of the region */
	else
		key ^= 0x3300; /* a region that there is not */
	return key;
}

static void finish_batch(struct worker *w, unsigned bad)
{
	for (unsigned i = 0; i < BATCH; i++) {
		int err = vend_wait(&w->here->end, &w->op[i]);

		if (i == bad) {
			CHECK(err == FI_EACCES);
			w->refused++;
		} else if (err) {
			fprintf(stderr, "a good request fails: %d, cause %d\n", err,
				w->op[i].cause);
			CHECK(!err);
		}
		w->transfers++;
	}
}

/* Writes of pieces, then reads of them. */
static void write_and_read(struct worker *w)
{
	struct fid_ep *ep = w->here->end.ep;
	uint64_t base = (uintptr_t)w->there->memory + w->number * SLICE;
	size_t len = 1 + stress_random(&w->random) % (SLICE / BATCH);
	unsigned bad = pick_bad(w);

	for (size_t i = 0; i < BATCH * len; i++)
		w->out[i] = (uint8_t)(stress_random(&w->random));
	for (unsigned i = 0; i < BATCH; i++) {
		uint64_t addr = base + i * len, key = key_for(w, i == bad, &addr);

		VPOST(&w->here->end, &w->op[i],
		      fi_write(ep, w->out + i * len, len, fi_mr_desc(w->mr), w->here->other, addr,
			       key, &w->op[i]));
	}
	finish_batch(w, bad);
	memset(w->in, 0, BATCH * len);
	for (unsigned i = 0; i < BATCH; i++) {
		uint64_t addr = base + i * len, key = key_for(w, false, &addr);

		VPOST(&w->here->end, &w->op[i],
		      fi_read(ep, w->in + i * len, len, fi_mr_desc(w->mr), w->here->other, addr,
			      key, &w->op[i]));
	}
	finish_batch(w, BATCH);
	for (unsigned i = 0; i < BATCH; i++)
		CHECK(i == bad || memcmp(w->out + i * len, w->in + i * len, len) == 0);
}

static void add(struct worker *w)
{
	uint64_t one = 1;
	unsigned bad = pick_bad(w);

	memcpy(w->out, &one, sizeof(one));
	for (unsigned i = 0; i < BATCH; i++) {
		uint64_t addr = counter_at(w->there), key = key_for(w, i == bad, &addr);

		VPOST(&w->here->end, &w->op[i],
		      fi_fetch_atomic(w->here->end.ep, w->out, 1, fi_mr_desc(w->mr), w->in + 8 * i,
				      fi_mr_desc(w->mr), w->here->other, addr, key, FI_UINT64,
				      FI_SUM, &w->op[i]));
	}
	finish_batch(w, bad);
	w->added += BATCH - (bad < BATCH);
}

static void send(struct worker *w)
{
	static const size_t sizes[] = { 24, 300, 4096, 4097, 9000, MESSAGE_MAX };
	struct message head = { .thread = w->number };
	bool delivered = stress_random(&w->random) & 1;

	head.number = ++w->sent;
	head.len = sizes[stress_random(&w->random) % 6];
	memcpy(w->out, &head, sizeof(head));
	for (size_t i = sizeof(head); i < head.len; i++)
		w->out[i] = byte_at(head.thread, head.number, i);
	{
		struct iovec iov = { w->out, head.len };
		void *desc = fi_mr_desc(w->mr);
		struct fi_msg msg = { .msg_iov = &iov,
				      .desc = &desc,
				      .iov_count = 1,
				      .addr = w->here->other,
				      .context = &w->op[0] };

		VPOST(&w->here->end, &w->op[0],
		      fi_sendmsg(w->here->end.ep, &msg,
				 FI_COMPLETION | (delivered ? FI_DELIVERY_COMPLETE : 0)));
	}
	CHECK(vend_wait(&w->here->end, &w->op[0]) == 0);
	w->transfers++;
}

/* The region that comes and goes is side 1's. */
static void visit_shop(struct worker *w)
{
	uint64_t before = shop.generation, key = shop.key, after;
	int err;

	if (w->there != &side[1] || before == 0)
		return;
	VPOST(&w->here->end, &w->op[0],
	      fi_write(w->here->end.ep, w->out, 8, fi_mr_desc(w->mr), w->here->other,
		       (uintptr_t)shop.memory + 8 * w->number, key, &w->op[0]));
	err = vend_wait(&w->here->end, &w->op[0]);
	after = shop.generation;
	w->visits++;
	w->hits += err == 0;
	if (before == after && (before & 1))
		CHECK(err == 0);
	else
		CHECK(err == 0 || err == FI_EACCES);
}

static void visit_guest(struct worker *w)
{
	uint64_t before = guest.generation;
	int err;

	if (w->here == &side[1])
		return;
	VPOST(&w->here->end, &w->op[0],
	      fi_send(w->here->end.ep, w->out, 8, fi_mr_desc(w->mr), w->here->guest, &w->op[0]));
	err = vend_wait(&w->here->end, &w->op[0]);
	if (err == 0) {
		w->reached++;
		if (before == guest.generation && (before & 1))
			guest.reached++;
	} else {
		w->unreached++;
		CHECK(err == FI_EHOSTUNREACH || err == FI_ECONNABORTED);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (goes_on()) {
		switch (stress_random(&w->random) % 8) {
		case 0:
		case 1:
			write_and_read(w);
			break;
		case 2:
			add(w);
			break;
		case 3:
		case 4:
		case 5:
			send(w);
			break;
		case 6:
			visit_shop(w);
			break;
		default:
			visit_guest(w);
			break;
		}
		vend_read(&w->there->end); /* its receives */
	}
	return NULL;
}

/* ---- what comes and goes ---- */

static void *keep_shop(void *arg)
{
	(void)arg;
	while (goes_on()) {
		struct fid_mr *mr = vend_register(&side[1].end, shop.memory, 4096);

		memset(shop.memory, 0, 4096);
		shop.key = fi_mr_key(mr);
		shop.generation++;
		for (int i = 0; i < 20; i++)
			sched_yield();
		shop.generation++;
		CHECK_OK(fi_close(&mr->fid));
		memset(shop.memory, CANARY, 4096);
		for (int i = 0; i < 5; i++)
			sched_yield();
		for (int i = 0; i < 4096; i++)
			CHECK(shop.memory[i] == CANARY);
		shop.closed++;
	}
	return NULL;
}

static void *keep_guest(void *arg)
{
	uint8_t memory[64];
	struct vop receive = { .is_recv = true };
	struct fid_mr *mr = vend_register(&guest.end, memory, sizeof(memory));

	(void)arg;
	while (goes_on()) {
		double patience = stress_now() + PATIENCE;

		vend_open_ep(&guest.end, "127.0.0.3", GUEST_PORT);
		guest.reached = 0;
		guest.generation++;
		while (guest.reached < 2 && goes_on()) {
			receive.state = 0;
			VPOST(&guest.end, &receive,
			      fi_recv(guest.end.ep, memory, sizeof(memory), fi_mr_desc(mr),
				      FI_ADDR_UNSPEC, &receive));
			while (receive.state == 1 && goes_on() && guest.reached < 2) {
				vend_read(&guest.end);
				CHECK(stress_now() < patience); /* it must be reached again */
			}
			if (receive.state == 1)
				break;
			CHECK(receive.err == 0 && receive.len == 8);
		}
		guest.generation++;
		vend_close_ep(&guest.end); /* with its receive, if any */
		while (fi_cq_read(guest.end.cq, (struct fi_cq_msg_entry[1]){ { 0 } }, 1) == 1)
			;
		guest.reopened++;
	}
	CHECK_OK(fi_close(&mr->fid));
	return NULL;
}

static void *insert(void *arg)
{
	fi_addr_t addr;

	(void)arg;
	while (goes_on()) {
		addr = vend_insert(&side[0].end, &side[1].end);
		CHECK_OK(fi_av_remove(side[0].end.av, &addr, 1, 0));
		inserted++;
		sched_yield();
	}
	return NULL;
}

/* ---- all of it ---- */

static void open_side(struct side *s, const char *device)
{
	vend_open(&s->end, device, NULL, 0);
	s->end.received = on_receive;
	s->memory = calloc(1, THREADS_MAX * SLICE + 4096);
	s->inbox = calloc(RECEIVES, MESSAGE_MAX);
	CHECK(s->memory && s->inbox);
	s->mr = vend_register(&s->end, s->memory, THREADS_MAX * SLICE + 4096);
	s->inbox_mr = vend_register(&s->end, s->inbox, RECEIVES * MESSAGE_MAX);
	for (unsigned i = 0; i < RECEIVES; i++)
		post_receive(s, &s->receive[i]);
}

static void close_side(struct side *s)
{
	vend_close_ep(&s->end);
	CHECK_OK(fi_close(&s->inbox_mr->fid));
	CHECK_OK(fi_close(&s->mr->fid));
	vend_close(&s->end);
	free(s->inbox);
	free(s->memory);
}

static void open_worker(struct worker *w, unsigned number)
{
	*w = (struct worker){ .number = number,
			      .here = &side[number % 2],
			      .there = &side[1 - number % 2],
			      .random = UINT64_C(0x9e3779b97f4a7c15) * (number + 1) };
	w->out = calloc(2, MESSAGE_MAX);
	CHECK(w->out);
	w->in = w->out + MESSAGE_MAX;
	w->mr = vend_register(&w->here->end, w->out, (size_t)2 * MESSAGE_MAX);
}

/* Every message that was sent has come, before its receiver is closed. */
static void await_messages(void)
{
	double patience = stress_now() + PATIENCE;

	for (unsigned i = 0; i < workers; i++) {
		struct side *there = worker[i].there;

		for (uint64_t got = 0; got < worker[i].sent;) {
			vend_read(&there->end);
			pthread_mutex_lock(&there->end.reading);
			got = there->got[i];
			pthread_mutex_unlock(&there->end.reading);
			CHECK(stress_now() < patience);
		}
		CHECK(there->got[i] == worker[i].sent);
	}
}

static void report(void)
{
	struct worker all = { .number = 0 };
	uint64_t added[2] = { 0, 0 }, counter;

	for (unsigned i = 0; i < workers; i++) {
		struct worker *w = &worker[i];

		all.transfers += w->transfers;
		all.refused += w->refused;
		all.sent += w->sent;
		all.visits += w->visits;
		all.hits += w->hits;
		all.reached += w->reached;
		all.unreached += w->unreached;
		added[w->there - side] += w->added;
	}
	for (int i = 0; i < 2; i++) {
		memcpy(&counter, (void *)(uintptr_t)counter_at(&side[i]), sizeof(counter));
		CHECK(counter == added[i]); /* each exactly once */
	}
	printf("%u threads: %lu transfers, %lu refused, %lu messages, %lu sums; region closed %lu "
	       "times, %lu of %lu writes hit; endpoint reopened %lu times, %lu reached, %lu not; "
	       "%lu insertions\n",
	       workers, (unsigned long)all.transfers, (unsigned long)all.refused,
	       (unsigned long)all.sent, (unsigned long)(added[0] + added[1]),
	       (unsigned long)shop.closed, (unsigned long)all.hits, (unsigned long)all.visits,
	       (unsigned long)guest.reopened, (unsigned long)all.reached,
	       (unsigned long)all.unreached, (unsigned long)inserted);
	CHECK(all.refused > 0 && shop.closed > 0 && guest.reopened > 0 && all.sent > 0);
}

static void close_all(void)
{
	for (unsigned i = 0; i < workers; i++)
		CHECK_OK(fi_close(&worker[i].mr->fid));
	close_side(&side[0]);
	close_side(&side[1]);
	vend_close(&guest.end);
	for (unsigned i = 0; i < workers; i++)
		free(worker[i].out);
	free(shop.memory);
}

static void nic_nothing_is_disturbed(void **state)
{
	pthread_t others[3];
	size_t fds;

	(void)state;
	vend_open(&guest.end, "emu2", NULL, 0); /* devices have been looked for */
	vend_close(&guest.end);
	memset(&guest, 0, sizeof(guest));
	fds = test_fds();
	workers = stress_setting("HMREG_STRESS_THREADS", 6);
	workers = workers > THREADS_MAX ? THREADS_MAX : workers < 2 ? 2 : workers;
	open_side(&side[0], "emu0");
	open_side(&side[1], "emu1");
	vend_open(&guest.end, "emu2", "127.0.0.3", GUEST_PORT);
	side[0].guest = vend_insert(&side[0].end, &guest.end);
	vend_close_ep(&guest.end);
	side[0].other = vend_insert(&side[0].end, &side[1].end);
	side[1].other = vend_insert(&side[1].end, &side[0].end);
	shop.memory = aligned_alloc(4096, 4096);
	CHECK(shop.memory);
	for (unsigned i = 0; i < workers; i++)
		open_worker(&worker[i], i);
	until = stress_now() + stress_setting("HMREG_STRESS_SECONDS", 10);
	for (unsigned i = 0; i < workers; i++)
		CHECK_OK(pthread_create(&worker[i].thread, NULL, work, &worker[i]));
	CHECK_OK(pthread_create(&others[0], NULL, keep_shop, NULL));
	CHECK_OK(pthread_create(&others[1], NULL, keep_guest, NULL));
	CHECK_OK(pthread_create(&others[2], NULL, insert, NULL));
	for (unsigned i = 0; i < workers; i++)
		pthread_join(worker[i].thread, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], NULL);
	await_messages();
	report();
	close_all();
	vend_none_left(fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nic_nothing_is_disturbed) };

	vend_settings("devices=3");
	return cmocka_run_group_tests_name("stress_verbs_load", tests, NULL, NULL);
}
