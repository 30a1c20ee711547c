/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The walk in earnest.  HMREG_WALK_STEPS and HMREG_WALK_SEED in the environment say how far and which;
 * with HMREG_STRESS_SECONDS left it goes on with other seeds.
 */
#include "tests/fds.h"
#include "tests/stress/stress.h"
#include "tests/walk/run.h"
#include "tests/walk/stalls.h"

#if defined(__SANITIZE_ADDRESS__)
#define STEPS 1000000u
#elif defined(__SANITIZE_THREAD__)
#define STEPS 200000u
#else
#define STEPS 10000000u
#endif

/* Signals in the midst of a copy are not for the thread sanitizer. */
#ifdef __SANITIZE_THREAD__
#define FAULTS false
#else
#define FAULTS true
#endif

static struct world_ground ground;

static struct walk_trace new_trace(void)
{
	struct walk_trace trace = { .step = calloc(WALK_EPISODE + WALK_CLOSING,
						   sizeof(*trace.step)) };

	CHECK(trace.step);
	return trace;
}

/* ---- one thread ---- */

/* No difference in an episode, or the end of the process, with a program that shows it. */
static void walk(struct walk_runner *r, struct walk_trace *trace, uint64_t seed, uint64_t episode)
{
	long step = walk_trace(r, trace);

	if (step < 0)
		return;
	walk_report(stderr, r, trace, seed, episode, step);
	CHECK(!"the library does what the model says");
}

static void walk_far(struct walk_runner *r, struct walk_trace *trace, uint64_t seed, uint64_t steps)
{
	size_t fds = test_fds();

	for (uint64_t episode = 0; episode * WALK_EPISODE < steps; episode++) {
		walk_draw(seed, episode, WALK_ALL_VARIANTS, WALK_EPISODE, trace);
		trace->config.faults = FAULTS;
		walk(r, trace, seed, episode);
		CHECK(test_fds() == fds);
	}
}

/* Else it went without meeting much. */
static void check_tally(const struct walk_tally *tally)
{
	static const int causes[] = {
		HMREG_KEY_UNKNOWN, HMREG_KEY_CLOSED,  HMREG_OUT_OF_BOUNDS,  HMREG_NO_RIGHT,
		HMREG_DISABLED,	   HMREG_KEY_USED_UP, HMREG_OTHER_ENDPOINT, HMREG_KEY_NOT_MAPPED,
		HMREG_KEY_FORGED,  HMREG_PEER_GONE,   HMREG_PEER_NO_CAP,    HMREG_LOCAL_REGION,
		HMREG_TRUNCATED,   HMREG_CANCELED,    HMREG_MISALIGNED,	    HMREG_PEER_REGION
	};

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		CHECK(tally->cause[causes[i]] > 0);
	for (int kind = WALK_REG; kind <= WALK_CANCEL; kind++)
		CHECK(tally->done[kind] > 0);
	for (int kind = WALK_REG; kind <= WALK_XPU_DESC; kind++)
		CHECK(tally->refused[kind] > 0);
	CHECK(tally->subs > 0 && tally->deepest > 3 && tally->moved > 0);
}

static void api_04_api_07_api_13_sub_01_sub_03_sub_04_random_walk(void **state)
{
	struct walk_runner *r = calloc(1, sizeof(*r));
	struct walk_trace trace = new_trace();
	uint64_t steps = stress_setting("HMREG_WALK_STEPS", STEPS);
	uint64_t seed = stress_setting("HMREG_WALK_SEED", 1);
	double begin = stress_now(), end = begin + stress_setting("HMREG_STRESS_SECONDS", 1);

	(void)state;
	CHECK(r);
	world_take_faults(&ground);
	walk_runner_init(r, &ground);
	do {
		walk_far(r, &trace, seed++, steps);
	} while (stress_now() < end);
	printf("%lu calls, %lu operations that moved bytes, %lu sub-MRs, %.0f calls a second\n",
	       (unsigned long)r->calls, (unsigned long)r->tally.moved, (unsigned long)r->tally.subs,
	       (double)r->calls / (stress_now() - begin));
	check_tally(&r->tally);
	walk_runner_fini(r);
	free(r);
	free(trace.step);
}

/* ---- many threads in the same domains ---- */

static struct world shared;
static struct stalls stalls;
static double deadline;

static void *run_thread(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg;
	struct walk_runner *r = calloc(1, sizeof(*r));
	struct walk_trace trace = new_trace();
	uint64_t seed = 1000 + thread;

	CHECK(r);
	walk_runner_init(r, &ground);
	r->shared = &shared;
	r->between = stall_act;
	r->between_arg = &stalls.stall[thread];
	for (uint64_t episode = 0; episode == 0 || stress_now() < deadline; episode++) {
		walk_draw(seed, episode, 7, WALK_EPISODE / 4, &trace);
		trace.config.shared = true;
		trace.config.faults = FAULTS;
		trace.config.first_key = 1 + 100 * thread;
		for (int d = 0; d < WALK_DOMAINS; d++)
			trace.config.variant[d] = (uint8_t)d;
		walk(r, &trace, seed, episode);
	}
	walk_runner_fini(r);
	free(r);
	free(trace.step);
	return NULL;
}

static void domains(enum walk_kind kind)
{
	struct world_result *result = calloc(1, sizeof(*result));

	CHECK(result);
	for (int d = 0; d < WALK_DOMAINS; d++) {
		struct walk_call call = { .kind = kind, .domain = d, .value = (uint64_t)d };

		world_call(&shared, &call, result);
		CHECK_OK(result->ret);
	}
	free(result);
}

static void check_stalls(unsigned threads)
{
	uint64_t hits = 0, misses = 0, busy = 0;

	for (unsigned t = 0; t < threads; t++) {
		hits += stalls.stall[t].hits;
		misses += stalls.stall[t].misses;
		busy += stalls.stall[t].busy;
	}
	printf("%lu writes to others' sub-MRs, %lu of them refused; %lu times a base was "
	       "busy\n",
	       (unsigned long)(hits + misses), (unsigned long)misses, (unsigned long)busy);
	CHECK(hits > 0 && misses > 0 && busy > 0);
}

static void check_empty(void)
{
	for (int d = 0; d < WALK_DOMAINS; d++) {
		struct hmreg_domain_stats stats = { .size = sizeof(stats) };

		CHECK_OK(shared.ops[d]->stats(&shared.domain[d]->fid, &stats));
		CHECK(stats.regions == 0 && stats.registered_bytes == 0);
		CHECK(stats.mapped_keys == 0 && stats.endpoints == 0);
	}
}

static void api_19_sub_03_sub_06_threads_walk(void **state)
{
	unsigned threads = stress_setting("HMREG_STRESS_THREADS", 4);
	pthread_t id[STALLS_MAX];
	size_t fds = test_fds();

	(void)state;
	world_take_faults(&ground);
	threads = threads > STALLS_MAX ? STALLS_MAX : threads;
	world_init(&shared, &ground);
	domains(WALK_DOMAIN_OPEN);
	stalls_open(&stalls, threads, &shared);
	deadline = stress_now() + stress_setting("HMREG_STRESS_SECONDS", 5);
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_create(&id[t], NULL, run_thread, (void *)(uintptr_t)t));
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_join(id[t], NULL));
	stalls_close(&stalls);
	check_stalls(threads);
	check_empty();
	domains(WALK_DOMAIN_CLOSE);
	world_fini(&shared);
	CHECK(test_fds() == fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_04_api_07_api_13_sub_01_sub_03_sub_04_random_walk),
		cmocka_unit_test(api_19_sub_03_sub_06_threads_walk),
	};
	int ret = world_ground_open(&ground);

	if (ret != 0)
		return ret;
	ret = cmocka_run_group_tests_name("stress_walk", tests, NULL, NULL);
	world_ground_close(&ground);
	return ret;
}
