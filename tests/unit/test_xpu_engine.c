/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread of an XPU context, with parts that are the test's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/queues.h"
#include "tests/unit/xpu_scene.h"

#define MOMENT_US 30000u
#define THREADS	  4
#define SIGNALS	  200000
#define LOST_S	  10	 /* a signal that has not been heard by then is lost */
#define NEVER	  20000u /* looks, which take much longer than until it sleeps elsewhere */

/* pthread_create as the linker lets the library call it. */
static int create_error;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return create_error ? create_error : __real_pthread_create(thread, attr, run, arg);
}

struct toy {
	struct hm_xpu_part part;
	_Atomic uint64_t polled, moved;
	_Atomic unsigned left; /* what there is to move, one at a poll */
	bool endless;
	struct nic_cq *cq;     /* what it takes from, else NULL */
	struct nic_cntr *cntr; /* what it follows, else NULL */
	uint64_t counted;
};

static unsigned poll_toy(struct hm_xpu_part *part)
{
	struct toy *toy = (struct toy *)part;
	struct fi_cq_entry entry;
	unsigned moves = toy->endless;

	atomic_fetch_add(&toy->polled, 1);
	if (toy->cq && nic_cq_take(toy->cq, FI_CQ_FORMAT_CONTEXT, NULL, NULL, 0) == 0)
		moves += nic_cq_take(toy->cq, FI_CQ_FORMAT_CONTEXT, &entry, NULL, 1) == 1;
	if (toy->cntr && atomic_load(&toy->cntr->value) != toy->counted) {
		toy->counted++;
		moves++;
	}
	if (atomic_load(&toy->left) > 0) {
		atomic_fetch_sub(&toy->left, 1);
		moves++;
	}
	atomic_fetch_add(&toy->moved, moves);
	return moves;
}

/* Of a toy that the device moves on, at every look. */
static const uint64_t never_still = 1;
#define WATCHED .part.word = &never_still

static void await_more(_Atomic uint64_t *count)
{
	uint64_t before = atomic_load(count);

	while (atomic_load(count) == before)
		sched_yield();
}

static void *nothing(void *arg)
{
	return arg;
}

/* A sanitizer has a thread of its own from the first one on. */
static size_t threads_now(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (size_t n = test_threads();; n = test_threads()) {
		usleep(MOMENT_US);
		if (test_threads() == n)
			return n;
	}
}

static void xpu_02_a_thread_runs_from_the_first_part_to_the_end(void **state)
{
	struct toy toy = { .part.poll = poll_toy, WATCHED };
	size_t threads = threads_now();
	struct xpu_engine engine;
	uint64_t polled;

	(void)state;
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	assert_int_equal(test_threads(), threads);
	assert_int_equal(xpu_engine_add(&engine, &toy.part), 0);
	assert_int_equal(test_threads(), threads + 1);
	await_more(&toy.polled);
	await_more(&toy.polled);
	atomic_store(&toy.left, 100);
	while (atomic_load(&toy.moved) < 100)
		sched_yield();
	xpu_engine_remove(&engine, &toy.part);
	polled = atomic_load(&toy.polled);
	usleep(MOMENT_US);
	assert_int_equal(atomic_load(&toy.polled), polled);
	assert_int_equal(atomic_load(&toy.moved), 100);
	/* a second one needs no other thread */
	assert_int_equal(xpu_engine_add(&engine, &toy.part), 0);
	await_more(&toy.polled);
	assert_int_equal(test_threads(), threads + 1);
	xpu_engine_remove(&engine, &toy.part);
	xpu_engine_end(&engine);
	assert_true(test_threads_back(threads));
	/* nor does one that never had a part leave anything */
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	xpu_engine_end(&engine);
	assert_true(test_threads_back(threads));
}

/* Blocked: it has announced itself as asleep, and nothing asks the NIC to move on any more. */
static void xpu_02_without_parts_nothing_wakes_it(void **state)
{
	struct toy toy = { .part.poll = poll_toy, WATCHED };
	struct xpu_engine engine;
	unsigned count, signals;

	(void)state;
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	assert_int_equal(xpu_engine_add(&engine, &toy.part), 0);
	await_more(&toy.polled);
	xpu_engine_remove(&engine, &toy.part);
	usleep(MOMENT_US);
	while (atomic_load(&engine.wake.listeners) < HM_WAIT_SLEEPER)
		sched_yield();
	pthread_mutex_lock(&engine.lock); /* what progress counts is the thread's */
	count = progress_count;
	pthread_mutex_unlock(&engine.lock);
	signals = atomic_load(&engine.wake.signals);
	usleep(MOMENT_US);
	pthread_mutex_lock(&engine.lock);
	assert_int_equal(progress_count, count);
	pthread_mutex_unlock(&engine.lock);
	assert_int_equal(atomic_load(&engine.wake.signals), signals);
	xpu_engine_end(&engine);
}

/* Asleep, it has looked at everything once; what may be signalled it does not look at again. */
static void xpu_02_between_sleeps_it_looks_at_what_devices_move(void **state)
{
	_Atomic uint64_t word = 5;
	struct toy signalled = { .part.poll = poll_toy };
	struct toy still = { .part.poll = poll_toy,
			     .part.word = (const uint64_t *)&word,
			     .part.still = 5 };
	struct toy last = { .part.poll = poll_toy, WATCHED };
	uint64_t polled[2], count;
	struct xpu_engine engine;

	(void)state;
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	assert_int_equal(xpu_engine_add(&engine, &signalled.part), 0);
	assert_int_equal(xpu_engine_add(&engine, &still.part), 0);
	assert_int_equal(xpu_engine_add(&engine, &last.part), 0);
	await_more(&last.polled);
	while (atomic_load(&engine.wake.listeners) < HM_WAIT_SLEEPER)
		sched_yield();
	await_more(&last.polled); /* this may be the one look at everything */
	await_more(&last.polled);
	pthread_mutex_lock(&engine.lock);
	polled[0] = atomic_load(&signalled.polled);
	polled[1] = atomic_load(&still.polled);
	count = progress_count;
	pthread_mutex_unlock(&engine.lock);
	for (int i = 0; i < 3; i++)
		await_more(&last.polled);
	assert_int_equal(atomic_load(&signalled.polled), polled[0]);
	assert_int_equal(atomic_load(&still.polled), polled[1]);
	pthread_mutex_lock(&engine.lock);
	assert_int_equal(progress_count, count);
	pthread_mutex_unlock(&engine.lock);
	/* the device does something: there is more of it, so that everything is looked at again */
	atomic_store(&still.left, 1);
	atomic_store(&word, 6);
	while (atomic_load(&still.moved) == 0)
		sched_yield();
	while (atomic_load(&signalled.polled) == polled[0])
		sched_yield();
	xpu_engine_remove(&engine, &signalled.part);
	xpu_engine_remove(&engine, &still.part);
	xpu_engine_remove(&engine, &last.part);
	xpu_engine_end(&engine);
}

/* HMREG_XPU_MAX_SLEEP=0. */
static void xpu_02_it_never_sleeps_where_it_may_not(void **state)
{
	struct toy toy = { .part.poll = poll_toy };
	struct xpu_engine engine;

	(void)state;
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	engine.longest = 0;
	assert_int_equal(xpu_engine_add(&engine, &toy.part), 0);
	for (uint64_t polled = 0; polled < NEVER; polled = atomic_load(&toy.polled))
		assert_true(atomic_load(&engine.wake.listeners) < HM_WAIT_SLEEPER);
	xpu_engine_remove(&engine, &toy.part);
	/* with nothing to look at it does */
	while (atomic_load(&engine.wake.listeners) < HM_WAIT_SLEEPER)
		sched_yield();
	assert_int_equal(xpu_engine_add(&engine, &toy.part), 0);
	await_more(&toy.polled);
	xpu_engine_remove(&engine, &toy.part);
	xpu_engine_end(&engine);
}

/* The signal counts only where a sleeper hears it; sooner or later one comes in a sleep. */
static void xpu_11_a_completion_wakes_it(void **state)
{
	struct nic_comp comp = { .flags = FI_RMA };
	struct xpu_engine engine;
	struct nic_cq cq;
	struct toy toy = { .part.poll = poll_toy, .cq = &cq };
	unsigned signals;
	uint64_t pushed = 0;

	(void)state;
	assert_int_equal(nic_cq_init(&cq, 4, FI_WAIT_NONE), 0);
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	hm_wait_pass_on(&cq.wait, &engine.wake);
	assert_int_equal(xpu_engine_add(&engine, &toy.part), 0);
	signals = atomic_load(&engine.wake.signals);
	do {
		while (atomic_load(&engine.wake.listeners) < HM_WAIT_SLEEPER)
			sched_yield();
		assert_int_equal(nic_cq_reserve(&cq), 0);
		nic_cq_push(&cq, &comp);
		pushed++;
		while (atomic_load(&toy.moved) < pushed)
			sched_yield();
	} while (atomic_load(&engine.wake.signals) == signals);
	xpu_engine_remove(&engine, &toy.part);
	hm_wait_pass_on(&cq.wait, NULL);
	assert_int_equal(atomic_load(&cq.wait.listeners), 0);
	xpu_engine_end(&engine);
	nic_cq_destroy(&cq);
}

/* The engine sleeps, or is about to, or has just woken and waits for the lock. */
struct sleeper {
	struct xpu_engine engine;
	struct nic_cq cq;
	struct nic_cntr cntr;
	struct toy toy;
	uint64_t told;
};

/* longest, awake: see struct xpu_engine. */
static void sleeper_begin(struct sleeper *s, int64_t longest, int64_t awake)
{
	s->toy = (struct toy){ .part.poll = poll_toy, .cq = &s->cq, .cntr = &s->cntr };
	s->told = 0;
	assert_int_equal(nic_cq_init(&s->cq, 4, FI_WAIT_NONE), 0);
	assert_int_equal(nic_cntr_init(&s->cntr, FI_CNTR_EVENTS_COMP, FI_WAIT_NONE), 0);
	assert_int_equal(xpu_engine_init(&s->engine, &nic_domain), 0);
	s->engine.longest = longest;
	s->engine.awake = awake;
	hm_wait_pass_on(&s->cq.wait, &s->engine.wake);
	hm_wait_pass_on(&s->cntr.wait, &s->engine.wake);
	assert_int_equal(xpu_engine_add(&s->engine, &s->toy.part), 0);
}

/* One completion or count, which only its signal tells of. */
static void sleeper_tell(struct sleeper *s)
{
	struct nic_comp comp = { .flags = FI_RMA };

	if (s->told++ % 2) {
		nic_cntr_done(&s->cntr, 1);
		return;
	}
	assert_int_equal(nic_cq_reserve(&s->cq), 0);
	nic_cq_push(&s->cq, &comp);
}

static void sleeper_has_moved(struct sleeper *s)
{
	for (time_t since = time(NULL); atomic_load(&s->toy.moved) < s->told; sched_yield())
		assert_true(time(NULL) - since < LOST_S);
}

static void sleeper_end(struct sleeper *s)
{
	xpu_engine_remove(&s->engine, &s->toy.part);
	xpu_engine_end(&s->engine);
	nic_cntr_destroy(&s->cntr);
	nic_cq_destroy(&s->cq);
}

/* A sleep that is over when the signal comes, while another thread has the lock. */
static void xpu_11_a_signal_after_a_sleep_is_heard(void **state)
{
	struct sleeper s;

	(void)state;
	sleeper_begin(&s, XPU_MILLISECOND, XPU_MICROSECOND);
	for (int i = 0; i < 20; i++) {
		while (atomic_load(&s.engine.wake.listeners) < HM_WAIT_SLEEPER)
			sched_yield();
		pthread_mutex_lock(&s.engine.lock);
		usleep(5000);
		sleeper_tell(&s);
		pthread_mutex_unlock(&s.engine.lock);
		sleeper_has_moved(&s);
	}
	sleeper_end(&s);
}

/* At any moment. */
static void xpu_11_no_signal_is_lost(void **state)
{
	unsigned seed = 1;
	struct sleeper s;

	(void)state;
	sleeper_begin(&s, 100 * XPU_MILLISECOND, 0); /* it begins to sleep at once, and often */
	for (int i = 0; i < SIGNALS; i++) {
		for (int r = rand_r(&seed) % 64; r > 0; r--)
			xpu_load(&(uint64_t){ 0 });
		if (i % 16 == 0)
			usleep((useconds_t)(rand_r(&seed) % 256));
		sleeper_tell(&s);
		sleeper_has_moved(&s);
	}
	sleeper_end(&s);
}

/* ---- many callers ---- */

struct caller {
	struct xpu_engine *engine;
	pthread_t thread;
};

/* A part that is removed is not polled, although it is on this function's stack. */
static void *come_and_go(void *arg)
{
	struct caller *caller = arg;

	for (int i = 0; i < 300; i++) {
		struct toy toy = { .part.poll = poll_toy, WATCHED };

		if (xpu_engine_add(caller->engine, &toy.part) != 0)
			return caller;
		if (i % 3 == 0)
			await_more(&toy.polled);
		xpu_engine_remove(caller->engine, &toy.part);
		toy.part.poll = NULL;
	}
	return NULL;
}

static void xpu_10_parts_come_and_go_while_it_never_rests(void **state)
{
	struct toy busy = { .part.poll = poll_toy, .endless = true };
	struct caller caller[THREADS];
	struct xpu_engine engine;
	void *failed;

	(void)state;
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	assert_int_equal(xpu_engine_add(&engine, &busy.part), 0);
	for (int i = 0; i < THREADS; i++) {
		caller[i].engine = &engine;
		assert_int_equal(pthread_create(&caller[i].thread, NULL, come_and_go, &caller[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(caller[i].thread, &failed), 0);
		assert_null(failed);
	}
	xpu_engine_remove(&engine, &busy.part);
	assert_true(hm_list_empty(&engine.parts));
	xpu_engine_end(&engine);
}

static void xpu_07_no_thread_is_refused(void **state)
{
	static const int errors[][2] = { { EAGAIN, -FI_EAGAIN }, { ENOMEM, -FI_ENOMEM } };
	struct toy toy = { .part.poll = poll_toy, WATCHED };
	struct xpu_engine engine;

	(void)state;
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	for (size_t i = 0; i < count_of(errors); i++) {
		create_error = errors[i][0];
		assert_refused(xpu_engine_add(&engine, &toy.part), errors[i][1]);
		assert_true(hm_list_empty(&engine.parts));
	}
	create_error = 0;
	assert_int_equal(xpu_engine_add(&engine, &toy.part), 0);
	await_more(&toy.polled);
	xpu_engine_remove(&engine, &toy.part);
	xpu_engine_end(&engine);
}

/* All exports fail as a whole where no thread can be had, and succeed afterwards. */
static void xpu_07_an_export_without_a_thread_leaves_nothing(void **state)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_NONE, .flags = FI_XPU };
	struct fi_xpu_attr other = { .iface = FI_HMEM_SYSTEM };
	struct fid_xpu_cntr out = { .fid.prov_id = 77 };
	struct fid_xpu_ctx *ctx;
	struct fid_cntr *cntr;
	struct xpu_scene s;

	(void)state;
	xpu_scene_open(&s, "sw-scalable", 0);
	assert_int_equal(fi_xpu_ctx(s.domain, &other, &ctx, NULL), 0);
	attr.xpu_ctx = ctx;
	assert_int_equal(fi_cntr_open(s.domain, &attr, &cntr, NULL), 0);
	create_error = EAGAIN;
	assert_refused(fi_cntr_export_xpu(cntr, 0, &out), -FI_EAGAIN);
	assert_int_equal(out.fid.prov_id, 77);
	create_error = 0;
	assert_int_equal(fi_cntr_export_xpu(cntr, 0, &out), 0);
	assert_int_equal(out.fid.prov_id, FI_XPU_PROV_HMREG);
	assert_int_equal(fi_close(&cntr->fid), 0);
	assert_int_equal(fi_close(&ctx->fid), 0);
	xpu_scene_close(&s);
}

/* By the environment, of which a process has one: the program's arguments are what it must come to. */
static long expected_ms, expected_us;

static void xpu_02_sleep_and_spin_are_the_environment_s(void **state)
{
	struct xpu_engine engine;

	(void)state;
	assert_int_equal(xpu_engine_init(&engine, &nic_domain), 0);
	assert_int_equal(engine.longest, expected_ms * 1000000);
	assert_int_equal(engine.awake, expected_us * 1000);
	xpu_engine_end(&engine);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest setting[] = {
		cmocka_unit_test(xpu_02_sleep_and_spin_are_the_environment_s),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xpu_02_a_thread_runs_from_the_first_part_to_the_end),
		cmocka_unit_test(xpu_02_without_parts_nothing_wakes_it),
		cmocka_unit_test(xpu_02_between_sleeps_it_looks_at_what_devices_move),
		cmocka_unit_test(xpu_02_it_never_sleeps_where_it_may_not),
		cmocka_unit_test(xpu_11_a_completion_wakes_it),
		cmocka_unit_test(xpu_11_a_signal_after_a_sleep_is_heard),
		cmocka_unit_test(xpu_11_no_signal_is_lost),
		cmocka_unit_test(xpu_10_parts_come_and_go_while_it_never_rests),
		cmocka_unit_test(xpu_07_no_thread_is_refused),
		cmocka_unit_test(xpu_07_an_export_without_a_thread_leaves_nothing),
	};

	if (argc > 2) {
		expected_ms = atol(argv[1]);
		expected_us = atol(argv[2]);
		return cmocka_run_group_tests(setting, warnings_start, warnings_stop);
	}
	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
