/* SPDX-License-Identifier: BSD-2-Clause */
/* Wait objects: every wake-up arrives, none comes early, the fd says what it should. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "core/base/wait.h"
#include "tests/unit/warnings.h"

enum {
	ROUNDS = 10000,
	LIMIT_MS = 60000, /* far beyond anything but a lost wake-up */
	SLEEPERS = 4
};

static const enum fi_wait_obj sleeping[] = { FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD };

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A number that one side raises and the other waits for, and its wait object. */
struct gate {
	struct hm_wait wait;
	_Atomic uint32_t value;
	pthread_mutex_t lock; /* protects plain */
	uint32_t plain;
	_Atomic uint32_t wanted;
};

static void gate_init(struct gate *gate, enum fi_wait_obj obj)
{
	memset(gate, 0, sizeof(*gate));
	pthread_mutex_init(&gate->lock, NULL);
	assert_int_equal(hm_wait_init(&gate->wait, obj), 0);
}

static void gate_destroy(struct gate *gate)
{
	hm_wait_destroy(&gate->wait);
	pthread_mutex_destroy(&gate->lock);
}

/* The two ways of making ready that wait.h allows. */
static bool reached_atomic(void *arg)
{
	struct gate *gate = arg;

	return atomic_load(&gate->value) >= atomic_load(&gate->wanted);
}

static void raise_atomic(struct gate *gate)
{
	atomic_fetch_add(&gate->value, 1);
	hm_wait_signal(&gate->wait);
}

static bool reached_locked(void *arg)
{
	struct gate *gate = arg;
	bool reached;

	pthread_mutex_lock(&gate->lock);
	reached = gate->plain >= atomic_load(&gate->wanted);
	pthread_mutex_unlock(&gate->lock);
	return reached;
}

static void raise_locked(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->plain++;
	pthread_mutex_unlock(&gate->lock);
	hm_wait_signal(&gate->wait);
}

/* ---- waking ---- */

struct pair {
	struct gate ping, pong;
	bool (*reached)(void *arg);
	void (*raise)(struct gate *gate);
	int failed; /* round in which a side's wait did not end well, 0: none */
};

/* Answers every ping with a pong. */
static void *answer(void *arg)
{
	struct pair *pair = arg;

	for (int i = 1; i <= ROUNDS && !pair->failed; i++) {
		atomic_store(&pair->ping.wanted, (uint32_t)i);
		if (hm_wait_until(&pair->ping.wait, pair->reached, &pair->ping, LIMIT_MS))
			pair->failed = i;
		pair->raise(&pair->pong);
	}
	return NULL;
}

static void ping_pong(enum fi_wait_obj obj, bool locked)
{
	struct pair pair = { .reached = locked ? reached_locked : reached_atomic,
			     .raise = locked ? raise_locked : raise_atomic };
	pthread_t thread;
	int failed = 0;

	gate_init(&pair.ping, obj);
	gate_init(&pair.pong, obj);
	assert_int_equal(pthread_create(&thread, NULL, answer, &pair), 0);
	for (int i = 1; i <= ROUNDS && !failed; i++) {
		pair.raise(&pair.ping);
		atomic_store(&pair.pong.wanted, (uint32_t)i);
		if (hm_wait_until(&pair.pong.wait, pair.reached, &pair.pong, LIMIT_MS))
			failed = i;
	}
	pthread_join(thread, NULL);
	assert_int_equal(failed, 0);
	assert_int_equal(pair.failed, 0);
	gate_destroy(&pair.ping);
	gate_destroy(&pair.pong);
}

static void wakes_every_time(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		ping_pong(sleeping[i], false);
		ping_pong(sleeping[i], true);
	}
}

/* It wakes for signals alone; its own pongs are some. */
static bool nap_until_reached(struct hm_wait *wake, struct pair *pair)
{
	for (;;) {
		unsigned heard = atomic_load(&wake->signals);

		if (pair->reached(&pair->ping))
			return true;
		hm_wait_nap(wake, heard, INT64_C(1000000) * LIMIT_MS);
		if (atomic_load(&wake->signals) == heard)
			return false;
	}
}

/* The other side sleeps on an object of its own, which both gates' signals are passed on to. */
static void *answer_from_afar(void *arg)
{
	struct pair *pair = arg;
	struct hm_wait *wake = pair->pong.wait.onward;

	hm_wait_listen(wake);
	for (int i = 1; i <= ROUNDS && !pair->failed; i++) {
		atomic_store(&pair->ping.wanted, (uint32_t)i);
		if (!nap_until_reached(wake, pair))
			pair->failed = i;
		pair->raise(&pair->pong);
	}
	hm_wait_ignore(wake);
	return NULL;
}

static void signals_are_passed_on(void **state)
{
	(void)state;
	for (int locked = 0; locked < 2; locked++) {
		struct pair pair = { .reached = locked ? reached_locked : reached_atomic,
				     .raise = locked ? raise_locked : raise_atomic };
		struct hm_wait wake;
		pthread_t thread;
		int failed = 0;

		assert_int_equal(hm_wait_init(&wake, FI_WAIT_UNSPEC), 0);
		gate_init(&pair.ping, FI_WAIT_NONE);
		gate_init(&pair.pong, FI_WAIT_FD);
		hm_wait_pass_on(&pair.ping.wait, &wake);
		hm_wait_pass_on(&pair.pong.wait, &wake);
		assert_int_equal(pthread_create(&thread, NULL, answer_from_afar, &pair), 0);
		for (int i = 1; i <= ROUNDS && !failed; i++) {
			pair.raise(&pair.ping);
			atomic_store(&pair.pong.wanted, (uint32_t)i);
			if (hm_wait_until(&pair.pong.wait, pair.reached, &pair.pong, LIMIT_MS))
				failed = i; /* which sleeps on its own object, as ever */
		}
		pthread_join(thread, NULL);
		assert_int_equal(failed, 0);
		assert_int_equal(pair.failed, 0);
		hm_wait_pass_on(&pair.ping.wait, NULL);
		hm_wait_pass_on(&pair.pong.wait, NULL);
		assert_int_equal(atomic_load(&pair.ping.wait.listeners), 0);
		gate_destroy(&pair.ping);
		gate_destroy(&pair.pong);
		hm_wait_destroy(&wake);
	}
}

static void *sleep_for_ever(void *arg)
{
	struct gate *gate = arg;

	return (void *)(intptr_t)hm_wait_until(&gate->wait, reached_atomic, gate, -1);
}

static void one_signal_wakes_all(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		pthread_t threads[SLEEPERS];
		struct gate gate;

		gate_init(&gate, sleeping[i]);
		atomic_store(&gate.wanted, 1);
		for (int t = 0; t < SLEEPERS; t++)
			assert_int_equal(pthread_create(&threads[t], NULL, sleep_for_ever, &gate),
					 0);
		/* Let them sleep, where that can be seen; it must work in any case. */
		while (sleeping[i] != FI_WAIT_YIELD &&
		       atomic_load(&gate.wait.listeners) / HM_WAIT_SLEEPER != SLEEPERS)
			sched_yield();
		raise_atomic(&gate);
		for (int t = 0; t < SLEEPERS; t++) {
			void *ret;

			pthread_join(threads[t], &ret);
			assert_int_equal((intptr_t)ret, 0);
		}
		assert_true(atomic_load(&gate.wait.listeners) < HM_WAIT_SLEEPER);
		gate_destroy(&gate);
	}
}

/* A thread that is cancelled leaves nothing locked or counted behind. */
static void sleep_is_cancelled(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		pthread_t cancelled, other;
		struct gate gate;
		void *ret;

		if (sleeping[i] == FI_WAIT_YIELD)
			continue;
		gate_init(&gate, sleeping[i]);
		atomic_store(&gate.wanted, 1);
		assert_int_equal(pthread_create(&cancelled, NULL, sleep_for_ever, &gate), 0);
		while (atomic_load(&gate.wait.listeners) < HM_WAIT_SLEEPER)
			sched_yield();
		pthread_cancel(cancelled);
		pthread_join(cancelled, &ret);
		assert_ptr_equal(ret, PTHREAD_CANCELED);
		assert_true(atomic_load(&gate.wait.listeners) < HM_WAIT_SLEEPER);
		assert_int_equal(pthread_create(&other, NULL, sleep_for_ever, &gate), 0);
		while (atomic_load(&gate.wait.listeners) < HM_WAIT_SLEEPER)
			sched_yield();
		raise_atomic(&gate);
		pthread_join(other, &ret);
		assert_int_equal((intptr_t)ret, 0);
		gate_destroy(&gate);
	}
}

static void kick_ends_sleeps(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		pthread_t thread;
		struct gate gate;
		void *ret = NULL;

		gate_init(&gate, sleeping[i]);
		atomic_store(&gate.wanted, 1);
		assert_int_equal(pthread_create(&thread, NULL, sleep_for_ever, &gate), 0);
		/* A kick is for sleeps that are on, and this one may not be yet. */
		while (pthread_tryjoin_np(thread, &ret)) {
			hm_wait_kick(&gate.wait);
			sched_yield();
		}
		assert_int_equal((intptr_t)ret, -FI_EAGAIN);
		/* Later sleeps know nothing of earlier kicks. */
		assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, 5), -FI_EAGAIN);
		atomic_store(&gate.value, 1);
		assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, -1), 0);
		gate_destroy(&gate);
	}
}

/* ---- time ---- */

static void timeouts(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		struct gate gate;
		double start;

		gate_init(&gate, sleeping[i]);
		atomic_store(&gate.wanted, 1);
		assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, 0), -FI_EAGAIN);
		start = now_ms();
		assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, 30), -FI_EAGAIN);
		assert_true(now_ms() - start >= 29);
		/* A signal that makes nothing ready does not end the sleep. */
		start = now_ms();
		hm_wait_signal(&gate.wait);
		assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, 30), -FI_EAGAIN);
		assert_true(now_ms() - start >= 29);
		atomic_store(&gate.value, 1);
		assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, 0), 0);
		assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, 1999), 0);
		gate_destroy(&gate);
	}
}

static void nobody_sleeps_on_none(void **state)
{
	struct gate gate;

	(void)state;
	gate_init(&gate, FI_WAIT_NONE);
	assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, -1), -FI_ENOSYS);
	hm_wait_signal(&gate.wait);
	hm_wait_kick(&gate.wait);
	assert_int_equal(hm_wait_try(&gate.wait, reached_atomic, &gate), -FI_EINVAL);
	gate_destroy(&gate);
}

/* ---- the fd ---- */

static bool readable(const struct hm_wait *wait)
{
	struct pollfd pollfd = { .fd = wait->fd, .events = POLLIN };

	return poll(&pollfd, 1, 0) == 1;
}

static void fd_follows_readiness(void **state)
{
	struct gate gate;

	(void)state;
	gate_init(&gate, FI_WAIT_FD);
	atomic_store(&gate.wanted, 1);
	assert_false(readable(&gate.wait));
	raise_atomic(&gate);
	assert_true(readable(&gate.wait));
	raise_atomic(&gate);
	/* Ready: the fd stays as it is for others that poll it. */
	assert_int_equal(hm_wait_try(&gate.wait, reached_atomic, &gate), -FI_EAGAIN);
	assert_true(readable(&gate.wait));
	/* Not ready: drained, and armed for the next signal. */
	atomic_store(&gate.value, 0);
	assert_int_equal(hm_wait_try(&gate.wait, reached_atomic, &gate), 0);
	assert_false(readable(&gate.wait));
	assert_int_equal(hm_wait_try(&gate.wait, reached_atomic, &gate), 0);
	raise_atomic(&gate);
	assert_true(readable(&gate.wait));
	atomic_store(&gate.value, 0);
	assert_int_equal(hm_wait_try(&gate.wait, reached_atomic, &gate), 0);
	hm_wait_kick(&gate.wait);
	assert_true(readable(&gate.wait));
	/* A sleep in the library leaves the fd alone. */
	raise_atomic(&gate);
	assert_int_equal(hm_wait_until(&gate.wait, reached_atomic, &gate, -1), 0);
	assert_true(readable(&gate.wait));
	gate_destroy(&gate);
}

/* True at the second look only: something came in between. */
static bool ready_at_last(void *arg)
{
	return ++*(int *)arg == 2;
}

static void fd_is_written_back(void **state)
{
	struct gate gate;
	int looks = 0;

	(void)state;
	gate_init(&gate, FI_WAIT_FD);
	hm_wait_signal(&gate.wait);
	assert_int_equal(hm_wait_try(&gate.wait, ready_at_last, &looks), -FI_EAGAIN);
	assert_int_equal(looks, 2);
	assert_true(readable(&gate.wait));
	gate_destroy(&gate);
}

static void *raise_many(void *arg)
{
	struct gate *gate = arg;

	for (int i = 0; i < ROUNDS; i++) {
		raise_atomic(gate);
		if (i % 3 == 0)
			sched_yield();
	}
	return NULL;
}

static void fd_wakes_every_time(void **state)
{
	pthread_t thread;
	struct gate gate;
	uint32_t seen = 0;
	bool lost = false;

	(void)state;
	gate_init(&gate, FI_WAIT_FD);
	assert_int_equal(pthread_create(&thread, NULL, raise_many, &gate), 0);
	while (seen < ROUNDS && !lost) {
		atomic_store(&gate.wanted, seen + 1);
		if (!hm_wait_try(&gate.wait, reached_atomic, &gate)) {
			struct pollfd pollfd = { .fd = gate.wait.fd, .events = POLLIN };

			lost = poll(&pollfd, 1, LIMIT_MS) != 1;
		}
		seen = atomic_load(&gate.value);
	}
	pthread_join(thread, NULL);
	assert_false(lost);
	gate_destroy(&gate);
}

/* ---- arguments ---- */

static void checks_the_kind(void **state)
{
	static const enum fi_wait_obj refused[] = { FI_WAIT_SET, FI_WAIT_MUTEX_COND,
						    FI_WAIT_POLLFD };

	(void)state;
	warning_count = 0;
	assert_int_equal(hm_wait_check(FI_WAIT_NONE, FI_LOG_CQ, "test"), 0);
	for (size_t i = 0; i < count_of(sleeping); i++)
		assert_int_equal(hm_wait_check(sleeping[i], FI_LOG_CQ, "test"), 0);
	assert_int_equal(warning_count, 0);
	for (size_t i = 0; i < count_of(refused); i++)
		assert_refused(hm_wait_check(refused[i], FI_LOG_CQ, "test"), -FI_ENOSYS);
	assert_refused(hm_wait_check((enum fi_wait_obj)99, FI_LOG_CQ, "test"), -FI_EINVAL);
}

static void control_gives_the_fd(void **state)
{
	enum fi_wait_obj obj = FI_WAIT_NONE;
	struct gate gate;
	int fd = -1;

	(void)state;
	gate_init(&gate, FI_WAIT_FD);
	warning_count = 0;
	assert_int_equal(hm_wait_control(&gate.wait, FI_LOG_CQ, FI_GETWAIT, &fd), 0);
	assert_int_equal(fd, gate.wait.fd);
	assert_int_equal(hm_wait_control(&gate.wait, FI_LOG_CQ, FI_GETWAITOBJ, &obj), 0);
	assert_int_equal(obj, FI_WAIT_FD);
	assert_int_equal(warning_count, 0);
	assert_refused(hm_wait_control(&gate.wait, FI_LOG_CQ, FI_GETWAIT, NULL), -FI_EINVAL);
	assert_refused(hm_wait_control(&gate.wait, FI_LOG_CQ, FI_GETWAITOBJ, NULL), -FI_EINVAL);
	assert_refused(hm_wait_control(&gate.wait, FI_LOG_CQ, FI_ENABLE, &fd), -FI_ENOSYS);
	gate_destroy(&gate);

	gate_init(&gate, FI_WAIT_UNSPEC);
	fd = -7;
	assert_refused(hm_wait_control(&gate.wait, FI_LOG_CQ, FI_GETWAIT, &fd), -FI_ENODATA);
	assert_int_equal(fd, -7);
	gate_destroy(&gate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wakes_every_time),	 cmocka_unit_test(one_signal_wakes_all),
		cmocka_unit_test(kick_ends_sleeps),	 cmocka_unit_test(timeouts),
		cmocka_unit_test(nobody_sleeps_on_none), cmocka_unit_test(fd_follows_readiness),
		cmocka_unit_test(fd_is_written_back),	 cmocka_unit_test(fd_wakes_every_time),
		cmocka_unit_test(checks_the_kind),	 cmocka_unit_test(control_gives_the_fd),
		cmocka_unit_test(sleep_is_cancelled),	 cmocka_unit_test(signals_are_passed_on),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
