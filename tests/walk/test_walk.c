/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A difference between the library and its model is found, made short and written down so that it can be
 * walked again.  It is the model that is wrong here, in one rule at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fds.h"
#include "tests/walk/run.h"

#define STEPS	 500 /* of an episode */
#define EPISODES 60  /* within which a difference has to be there */
#define SHORT	 8   /* steps at most that are left of one */

static struct world_ground ground;
static struct walk_runner runner;
static struct walk_trace trace;

/* Under valgrind, faults that are meant to happen would be reported. */
static void draw(uint64_t episode)
{
	walk_draw(3, episode, WALK_ALL_VARIANTS, STEPS, &trace);
	trace.config.faults = !getenv("HMREG_VALGRIND");
}

static void find(enum model_break broken)
{
	runner.broken = broken;
	for (uint64_t episode = 0; episode < EPISODES; episode++) {
		long step;

		draw(episode);
		step = walk_trace(&runner, &trace);
		if (step < 0)
			continue;
		if (step < (long)trace.count)
			trace.count = (uint32_t)step + 1;
		return;
	}
	fail_msg("that the model forgets \"%s\" was not found", model_break_names[broken]);
}

/* What is left shows it again, and without the fault in the model it does not. */
static void check_short(enum model_break broken)
{
	assert_in_range(trace.count, 1, SHORT);
	assert_true(walk_trace(&runner, &trace) >= 0);
	runner.broken = MODEL_SOUND;
	assert_int_equal(walk_trace(&runner, &trace), -1);
	runner.broken = broken;
}

static void sub_03_api_07_broken_rules_are_found(void **state)
{
	(void)state;
	world_take_faults(&ground);
	for (int broken = MODEL_SOUND + 1; broken < MODEL_BREAKS; broken++) {
		find((enum model_break)broken);
		walk_shrink(&runner, &trace);
		check_short((enum model_break)broken);
		print_message("%-9s %u steps: %s\n", model_break_names[broken], trace.count,
			      runner.why);
	}
}

/* Every step that is left is needed. */
static void sub_03_nothing_can_be_left_out(void **state)
{
	struct walk_step kept[SHORT];
	uint32_t count;

	(void)state;
	world_take_faults(&ground);
	find(MODEL_FORGETS_BASE);
	walk_shrink(&runner, &trace);
	count = trace.count;
	assert_in_range(count, 1, SHORT);
	memcpy(kept, trace.step, count * sizeof(*kept));
	for (uint32_t out = 0; out < count; out++) {
		trace.count = 0;
		for (uint32_t i = 0; i < count; i++)
			if (i != out)
				trace.step[trace.count++] = kept[i];
		assert_int_equal(walk_trace(&runner, &trace), -1);
	}
}

static void sub_03_written_and_walked_again(void **state)
{
	struct walk_trace again = { .step = calloc(WALK_EPISODE + WALK_CLOSING,
						   sizeof(*again.step)) };
	FILE *file = tmpfile();
	char why[sizeof(runner.why)];

	(void)state;
	world_take_faults(&ground);
	assert_non_null(again.step);
	assert_non_null(file);
	find(MODEL_FORGETS_SINGLE);
	walk_shrink(&runner, &trace);
	strcpy(why, runner.why);
	walk_save(file, &runner, &trace);
	rewind(file);
	runner.broken = MODEL_SOUND;
	assert_true(walk_load(file, &runner, &again));
	assert_int_equal(runner.broken, MODEL_FORGETS_SINGLE);
	assert_int_equal(again.count, trace.count);
	assert_memory_equal(again.step, trace.step, trace.count * sizeof(*trace.step));
	assert_true(walk_trace(&runner, &again) >= 0);
	assert_string_equal(runner.why, why);
	fclose(file);
	free(again.step);
}

/* The same seed is the same walk, whatever addresses and handles the process has. */
static void sub_03_walks_are_repeatable(void **state)
{
	struct walk_tally first;

	(void)state;
	world_take_faults(&ground);
	runner.broken = MODEL_SOUND;
	for (int round = 0; round < 2; round++) {
		memset(&runner.tally, 0, sizeof(runner.tally));
		draw(7);
		assert_int_equal(walk_trace(&runner, &trace), -1);
		if (round == 0)
			first = runner.tally;
	}
	assert_memory_equal(&runner.tally, &first, sizeof(first));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sub_03_api_07_broken_rules_are_found),
		cmocka_unit_test(sub_03_nothing_can_be_left_out),
		cmocka_unit_test(sub_03_written_and_walked_again),
		cmocka_unit_test(sub_03_walks_are_repeatable),
	};
	size_t fds = test_fds();
	int ret = world_ground_open(&ground);

	if (ret != 0)
		return ret;
	trace.step = calloc(WALK_EPISODE + WALK_CLOSING, sizeof(*trace.step));
	if (!trace.step)
		return 1;
	walk_runner_init(&runner, &ground);
	ret = cmocka_run_group_tests_name("test_walk", tests, NULL, NULL);
	walk_runner_fini(&runner);
	world_ground_close(&ground);
	free(trace.step);
	return ret ? ret : test_fds() != fds;
}
