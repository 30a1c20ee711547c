/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything at once: threads register, transfer, bind, map, open and close over shared domains.
 *
 *   - a transfer that succeeded moved exactly its bytes; one with a closed key fails, and nothing is
 *     written after fi_close has returned: what the owner fills in then must stay
 *   - sums of atomics are exact
 *   - completions are neither lost nor doubled, messages neither lost, doubled nor out of order
 *   - figures of the domains and open files are at the end what they were before
 */
#include "tests/fds.h"
#include "tests/stress/world.h"

#define CANARY UINT64_C(0xcacacacacacacaca)
#define AHEAD  24 /* messages that may wait at the next thread */

static struct world worlds[WORLDS];
static unsigned threads;
static double deadline;
static pthread_barrier_t all;

static unsigned below(struct station *s, unsigned limit)
{
	return (unsigned)(stress_random(&s->random) % limit);
}

/* ---- messages ---- */

struct header {
	uint64_t sequence;
	uint32_t from, len;
};

static uint8_t byte_at(const struct header *h, unsigned i)
{
	return (uint8_t)(h->sequence * 7 + h->from * 31 + i);
}

static void make_message(struct station *s, uint8_t *buf, uint64_t sequence, uint32_t len)
{
	struct header h = { sequence, s->thread, len };

	memcpy(buf, &h, sizeof(h));
	for (unsigned i = sizeof(h); i < len; i++)
		buf[i] = byte_at(&h, i);
}

static void post_receive(struct station *s, struct op *op)
{
	uint8_t *buf = s->local + OUT_LEN + op->index * MESSAGE;

	op->pending = true;
	CHECK_OK(fi_recv(s->ep, buf, MESSAGE, fi_mr_desc(s->local_mr), FI_ADDR_UNSPEC, op));
}

static void on_message(struct station *s, struct op *op)
{
	const uint8_t *buf = s->local + OUT_LEN + op->index * MESSAGE;
	struct station *from = &s->world->station[(s->thread + threads - 1) % threads];
	struct header h;

	CHECK(op->err == 0);
	memcpy(&h, buf, sizeof(h));
	CHECK(h.from == from->thread);
	CHECK(h.sequence == s->received);
	CHECK(h.len == op->len);
	for (unsigned i = sizeof(h); i < h.len; i++)
		CHECK(buf[i] == byte_at(&h, i));
	s->received++;
	atomic_fetch_add(&from->taken, 1);
	post_receive(s, op);
}

/* ---- completions ---- */

static void completed(struct station *s, struct op *op, int err, int cause, size_t len)
{
	CHECK(op->pending); /* else it is doubled, or nobody's */
	op->pending = false;
	op->err = err;
	op->cause = cause;
	op->len = len;
	if (op->kind == OP_RECV)
		on_message(s, op);
	else if (op->kind == OP_SEND)
		CHECK(err == 0);
}

/* One completion, if there is one. */
static bool progress(struct station *s)
{
	struct fi_cq_msg_entry entry;
	struct fi_cq_err_entry error = { 0 };
	ssize_t ret = fi_cq_read(s->cq, &entry, 1);

	if (ret == -FI_EAGAIN)
		return false;
	if (ret == 1) {
		completed(s, entry.op_context, 0, 0, entry.len);
		return true;
	}
	CHECK(ret == -FI_EAVAIL);
	CHECK(fi_cq_readerr(s->cq, &error, 0) == 1);
	CHECK(error.err > 0 && error.prov_errno > 0);
	completed(s, error.op_context, error.err, error.prov_errno, error.len);
	return true;
}

static void finish(struct station *s, struct op *op)
{
	double late = stress_now() + 60;

	while (op->pending)
		if (!progress(s))
			CHECK(stress_now() < late);
}

/* Posts until there is room, and waits for the completion. */
#define RUN(s, call)                                                                               \
	do {                                                                                       \
		ssize_t posted_;                                                                   \
                                                                                                   \
		(s)->sync.pending = true;                                                          \
		while ((posted_ = (call)) == -FI_EAGAIN)                                           \
			progress(s);                                                               \
		CHECK_OK(posted_);                                                                 \
		finish(s, &(s)->sync);                                                             \
	} while (0)

/* ---- transfers with the hub ---- */

static void fill(struct station *s, uint8_t *buf, size_t len)
{
	uint64_t x = stress_random(&s->random);

	for (size_t i = 0; i < len; i++) {
		x += 0x61;
		buf[i] = (uint8_t)(x ^ x >> 9);
	}
}

static void write_slice(struct station *s)
{
	struct world *w = s->world;
	size_t off = below(s, SLICE), len = below(s, (unsigned)(SLICE - off) + 1);
	uint64_t addr = w->hub_addr + s->thread * SLICE + off;
	void *desc[2] = { fi_mr_desc(s->local_mr), fi_mr_desc(s->local_mr) };
	struct iovec iov[2] = { { s->local, len / 3 }, { s->local + len / 3, len - len / 3 } };

	fill(s, s->local, len);
	memcpy(s->shadow + off, s->local, len);
	switch (below(s, 3)) {
	case 0:
		RUN(s, fi_write(s->ep, s->local, len, desc[0], s->hub, addr, w->hub_use, &s->sync));
		break;
	case 1:
		RUN(s, fi_writev(s->ep, iov, desc, 2, s->hub, addr, w->hub_use, &s->sync));
		break;
	default: /* no completion */
		while (fi_inject_write(s->ep, s->local, len, s->hub, addr, w->hub_use) ==
		       -FI_EAGAIN)
			progress(s);
		s->sync.err = 0;
		break;
	}
	CHECK(s->sync.err == 0);
	CHECK(memcmp(w->memory + s->thread * SLICE, s->shadow, SLICE) == 0);
	s->transfers++;
}

static void read_slice(struct station *s)
{
	struct world *w = s->world;
	size_t off = below(s, SLICE), len = below(s, (unsigned)(SLICE - off) + 1);

	memset(s->local, 0x11, SLICE);
	RUN(s, fi_read(s->ep, s->local, len, fi_mr_desc(s->local_mr), s->hub,
		       w->hub_addr + s->thread * SLICE + off, w->hub_use, &s->sync));
	CHECK(s->sync.err == 0);
	CHECK(memcmp(s->local, s->shadow + off, len) == 0);
	CHECK(len == SLICE || s->local[len] == 0x11);
	s->transfers++;
}

static void add(struct station *s)
{
	struct world *w = s->world;
	unsigned cell = below(s, CELLS);
	uint64_t value = 1 + below(s, 1000), *operand = (uint64_t *)(void *)s->local;
	uint64_t addr = w->hub_addr + threads * SLICE + cell * sizeof(uint64_t);
	void *desc = fi_mr_desc(s->local_mr);

	*operand = value;
	if (below(s, 2))
		RUN(s, fi_atomic(s->ep, operand, 1, desc, s->hub, addr, w->hub_use, FI_UINT64,
				 FI_SUM, &s->sync));
	else
		RUN(s, fi_fetch_atomic(s->ep, operand, 1, desc, operand + 1, desc, s->hub, addr,
				       w->hub_use, FI_UINT64, FI_SUM, &s->sync));
	CHECK(s->sync.err == 0);
	s->added[cell] += value;
}

/* ---- messages to the next thread ---- */

static struct op *free_send(struct station *s)
{
	for (unsigned i = 0; i < SENDS; i++)
		if (!s->send[i].pending)
			return &s->send[i];
	return NULL;
}

static void send_one(struct station *s)
{
	uint64_t sequence = atomic_load(&s->sent);
	uint32_t len = (uint32_t)sizeof(struct header) +
		       below(s, MESSAGE - (unsigned)sizeof(struct header));
	struct op *op = free_send(s);
	uint8_t injected[MESSAGE], *buf;
	void *desc = fi_mr_desc(s->local_mr);
	struct iovec iov;
	struct fi_msg msg = { &iov, &desc, 1, s->next, op, 0 };
	bool inject = below(s, 3) == 0;
	ssize_t ret;

	if (!op || sequence - atomic_load(&s->taken) >= AHEAD)
		return;
	buf = inject ? injected : s->local + SLICE + op->index * MESSAGE;
	make_message(s, buf, sequence, len);
	iov = (struct iovec){ buf, len };
	op->pending = !inject;
	if (inject)
		ret = fi_inject(s->ep, buf, len, s->next);
	else
		ret = fi_sendmsg(s->ep, &msg, below(s, 2) ? FI_DELIVERY_COMPLETE : 0);
	if (ret == -FI_EAGAIN) { /* nothing is done, and nothing will come */
		op->pending = false;
		return;
	}
	CHECK_OK(ret);
	atomic_store(&s->sent, sequence + 1);
}

/* ---- the guest: registered, published, closed ---- */

static void publish(struct station *s)
{
	struct world *w = s->world;
	struct notice *n = &s->notice;

	pthread_mutex_lock(&n->lock);
	n->generation++;
	n->addr = w->mode & FI_MR_VIRT_ADDR ? (uintptr_t)s->lanes : 0;
	export_key(w, s->guest_mr, &n->key, &n->base, n->raw, &n->raw_size);
	pthread_mutex_unlock(&n->lock);
}

static void open_guest(struct station *s)
{
	struct world *w = s->world;

	if (!s->guest) {
		uint8_t name[NAME_MAX_];

		s->guest = make_ep(w, s->cq, name);
		pthread_mutex_lock(&s->notice.lock);
		memcpy(s->notice.name, name, NAME_MAX_);
		pthread_mutex_unlock(&s->notice.lock);
	}
	for (unsigned i = 0; i < threads; i++) {
		if (s->filled)
			CHECK(s->lanes[i] == CANARY + i);
		s->lanes[i] = 0;
	}
	s->filled = false;
	s->guest_mr = make_mr(w, s->guest, s->lanes, threads * sizeof(*s->lanes), s->guest_cntr);
	publish(s);
}

static void close_guest(struct station *s)
{
	uint64_t generation = s->notice.generation; /* only this thread writes it */

	CHECK_OK(fi_close(&s->guest_mr->fid));
	s->guest_mr = NULL;
	atomic_store(&s->notice.closed, generation);
	for (unsigned i = 0; i < threads; i++) {
		CHECK(s->lanes[i] == 0 || s->lanes[i] == (generation << 8 | i));
		s->lanes[i] = CANARY + i;
	}
	s->filled = true;
	if (below(s, 4) == 0) {
		CHECK_OK(fi_close(&s->guest->fid));
		s->guest = NULL;
		s->reopened++;
	}
}

static void turn_guest(struct station *s)
{
	if (s->guest_mr)
		close_guest(s);
	else
		open_guest(s);
}

/* ---- visits to guests ---- */

static bool may_fail_with(int cause)
{
	switch (cause) {
	case HMREG_KEY_UNKNOWN:
	case HMREG_KEY_CLOSED:
	case HMREG_PEER_GONE:
	case HMREG_OTHER_ENDPOINT: /* another endpoint has the guest's port by now */
		return true;
	default:
		return false;
	}
}

/* Maps the key as a peer would: a raw key to a number, an 8-byte key to itself. */
static uint64_t use_key(struct station *s, struct notice *n)
{
	uint8_t *raw = n->raw_size ? n->raw : (uint8_t *)&n->key;
	size_t size = n->raw_size ? n->raw_size : sizeof(n->key);
	uint64_t key;

	CHECK_OK(fi_mr_map_raw(s->world->domain, n->base, raw, size, &key, 0));
	CHECK(n->raw_size || key == n->key);
	s->mapped++;
	return key;
}

static void visit(struct station *s)
{
	struct world *w = s->world;
	struct station *host = &w->station[below(s, threads)];
	uint64_t *value = (uint64_t *)(void *)s->local, key;
	struct notice n;
	bool was_closed;
	fi_addr_t to;

	pthread_mutex_lock(&host->notice.lock);
	n.generation = host->notice.generation;
	n.addr = host->notice.addr, n.key = host->notice.key, n.base = host->notice.base;
	n.raw_size = host->notice.raw_size;
	memcpy(n.raw, host->notice.raw, sizeof(n.raw));
	memcpy(n.name, host->notice.name, sizeof(n.name));
	pthread_mutex_unlock(&host->notice.lock);
	if (!n.generation)
		return;
	CHECK(fi_av_insert(w->av, n.name, 1, &to, 0, NULL) == 1);
	key = use_key(s, &n);
	*value = n.generation << 8 | s->thread;
	was_closed = atomic_load(&host->notice.closed) >= n.generation;
	RUN(s, fi_write(s->ep, value, sizeof(*value), fi_mr_desc(s->local_mr), to,
			n.addr + s->thread * sizeof(*value), key, &s->sync));
	if (s->sync.err) {
		CHECK(may_fail_with(s->sync.cause));
		s->misses++;
	} else {
		CHECK(!was_closed);
		s->hits++;
	}
	s->visits++;
	CHECK_OK(fi_mr_unmap_key(w->domain, key));
	CHECK_OK(fi_av_remove(w->av, &to, 1, 0));
}

/* ---- registrations that nobody uses ---- */

static void churn(struct station *s)
{
	struct world *w = s->world;
	struct iovec iov[3] = { { s->local, 1 + below(s, 100) },
				{ s->local + 200, 1 + below(s, 1000) },
				{ s->lanes, 8 } };
	struct fid_mr *mr[4];

	for (unsigned i = 0; i < 4; i++) {
		CHECK_OK(fi_mr_regv(w->domain, iov, 1 + i % 3, FI_WRITE | FI_REMOTE_READ, 0,
				    atomic_fetch_add(&w->next_key, 1), 0, &mr[i], s));
		CHECK(fi_mr_desc(mr[i]));
	}
	for (unsigned i = 0; i < 4; i++)
		CHECK_OK(fi_close(&mr[i]->fid));
}

/* ---- a thread ---- */

static void act(struct station *s)
{
	static void (*const acts[])(struct station *) = {
		write_slice, write_slice, read_slice, add,   add,   send_one, send_one,
		send_one,    turn_guest,  turn_guest, visit, visit, visit,    churn,
	};

	acts[below(s, sizeof(acts) / sizeof(acts[0]))](s);
	for (unsigned i = 0; i < 4 && progress(s); i++)
		;
}

static bool drained(const struct station *s)
{
	const struct station *from = &s->world->station[(s->thread + threads - 1) % threads];

	for (unsigned i = 0; i < SENDS; i++)
		if (s->send[i].pending)
			return false;
	return s->received == atomic_load(&((struct station *)(uintptr_t)from)->sent);
}

/* After the last send: what is under way arrives, and then nothing comes any more. */
static void drain(unsigned thread)
{
	double late = stress_now() + 60;
	bool done;

	do {
		done = true;
		for (unsigned w = 0; w < WORLDS; w++) {
			struct station *s = &worlds[w].station[thread];

			while (progress(s))
				;
			done &= drained(s);
		}
		CHECK(stress_now() < late);
		sched_yield();
	} while (!done);
}

static void *run_thread(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg;
	struct fi_cq_msg_entry entry;

	for (unsigned w = 0; w < WORLDS; w++)
		station_open(&worlds[w].station[thread], &worlds[w], thread);
	pthread_barrier_wait(&all);
	for (unsigned w = 0; w < WORLDS; w++)
		station_meet(&worlds[w].station[thread], threads);
	pthread_barrier_wait(&all);
	while (stress_now() < deadline)
		for (unsigned w = 0; w < WORLDS; w++)
			act(&worlds[w].station[thread]);
	pthread_barrier_wait(&all);
	drain(thread);
	pthread_barrier_wait(&all);
	for (unsigned w = 0; w < WORLDS; w++)
		CHECK(fi_cq_read(worlds[w].station[thread].cq, &entry, 1) == -FI_EAGAIN);
	return NULL;
}

/* ---- the end ---- */

static void check_sums(struct world *w)
{
	uint64_t cells[CELLS] = { 0 }, counted = 0, hits = 0, misses = 0, reopened = 0, sent = 0;
	uint64_t transfers = 0, have;

	for (unsigned t = 0; t < threads; t++) {
		struct station *s = &w->station[t];

		for (unsigned c = 0; c < CELLS; c++)
			cells[c] += s->added[c];
		counted += fi_cntr_read(s->guest_cntr);
		CHECK(fi_cntr_readerr(s->guest_cntr) == 0);
		hits += s->hits, misses += s->misses, reopened += s->reopened;
		sent += atomic_load(&s->sent);
		transfers += s->transfers;
		CHECK(memcmp(w->memory + t * SLICE, s->shadow, SLICE) == 0);
	}
	for (unsigned c = 0; c < CELLS; c++) {
		memcpy(&have, w->memory + threads * SLICE + c * sizeof(have), sizeof(have));
		CHECK(have == cells[c]);
		CHECK(have > 0);
	}
	CHECK(counted == hits);
	/* else nothing was put to the test */
	CHECK(hits > 0 && misses > 0 && reopened > 0 && sent > 0 && transfers > 0);
	printf("%-12s %9lu transfers, %9lu messages, %8lu writes to guests, %8lu of them refused, "
	       "%lu guests closed\n",
	       w->profile, transfers, sent, hits + misses, misses, reopened);
}

static void api_19_api_07_all_calls_at_once(void **state)
{
	static const char *const profiles[WORLDS] = { "sw-scalable", "sw-verbs", "sw-strict" };
	pthread_t id[THREADS_MAX];
	size_t fds = test_fds();

	(void)state;
	threads = stress_setting("HMREG_STRESS_THREADS", 8);
	threads = threads > THREADS_MAX ? THREADS_MAX : threads;
	for (unsigned i = 0; i < WORLDS; i++)
		world_open(&worlds[i], profiles[i], threads);
	pthread_barrier_init(&all, NULL, threads);
	deadline = stress_now() + stress_setting("HMREG_STRESS_SECONDS", 10);
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_create(&id[t], NULL, run_thread, (void *)(uintptr_t)t));
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_join(id[t], NULL));
	pthread_barrier_destroy(&all);
	for (unsigned i = 0; i < WORLDS; i++) {
		check_sums(&worlds[i]);
		for (unsigned t = 0; t < threads; t++)
			station_close(&worlds[i].station[t]);
		world_close(&worlds[i]);
	}
	assert_int_equal(test_fds(), fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(api_19_api_07_all_calls_at_once) };

	return cmocka_run_group_tests_name("stress_mr", tests, NULL, NULL);
}
