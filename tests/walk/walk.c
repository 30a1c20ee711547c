/* SPDX-License-Identifier: BSD-2-Clause */
/* The walk as a program. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/fds.h"
#include "tests/walk/run.h"

static const char usage[] =
	"Usage: walk [options]\n"
	"  --seed S        what the walk is (1)\n"
	"  --steps N       how far it goes (100000)\n"
	"  --variant NAME  domains are of this kind; may be given several times\n"
	"  --episode N     only this episode\n"
	"  --break RULE    the model forgets a rule, so that a difference is found\n"
	"  --save FILE     where a difference is written to, as a program to read\n"
	"  --replay FILE   walk what such a file says\n"
	"  --tally         tell what was met\n"
	"  --print         tell of each call\n";

struct options {
	uint64_t seed, steps, episode;
	bool one_episode, print, tally;
	unsigned variants;
	enum model_break broken;
	const char *save, *replay;
};

_Noreturn static void refuse(const char *what, const char *word, const char *(*name)(int),
			     int count)
{
	fprintf(stderr, "walk: %s is no %s; there are", word, what);
	for (int i = 0; i < count; i++)
		fprintf(stderr, " %s", name(i));
	fputc('\n', stderr);
	exit(2);
}

static const char *label(int i)
{
	return walk_variants[i].label;
}

static const char *rule(int i)
{
	return model_break_names[i];
}

static void parse_word(struct options *o, int option, const char *word)
{
	int found = option == 'v' ? walk_find_variant(word) : walk_find_break(word);

	if (found < 0 && option == 'v')
		refuse("variant", word, label, WALK_VARIANTS);
	if (found < 0)
		refuse("rule", word, rule, MODEL_BREAKS);
	if (option == 'v')
		o->variants |= 1u << found;
	else
		o->broken = (enum model_break)found;
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option list[] = {
		{ "seed", 1, NULL, 's' },    { "steps", 1, NULL, 'n' }, { "variant", 1, NULL, 'v' },
		{ "episode", 1, NULL, 'e' }, { "break", 1, NULL, 'b' }, { "save", 1, NULL, 'o' },
		{ "replay", 1, NULL, 'r' },  { "print", 0, NULL, 'p' }, { "tally", 0, NULL, 't' },
		{ NULL, 0, NULL, 0 }
	};
	int option;

	while ((option = getopt_long(argc, argv, "", list, NULL)) != -1) {
		if (option == 's')
			o->seed = strtoull(optarg, NULL, 0);
		else if (option == 'n')
			o->steps = strtoull(optarg, NULL, 0);
		else if (option == 'e')
			o->episode = strtoull(optarg, NULL, 0), o->one_episode = true;
		else if (option == 'v' || option == 'b')
			parse_word(o, option, optarg);
		else if (option == 'o')
			o->save = optarg;
		else if (option == 'r')
			o->replay = optarg;
		else if (option == 't')
			o->tally = true;
		else if (option == 'p')
			o->print = true;
		else
			fputs(usage, stderr), exit(2);
	}
	if (!o->variants)
		o->variants = WALK_ALL_VARIANTS;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int found(struct walk_runner *r, const struct options *o, struct walk_trace *trace,
		 uint64_t episode, long step)
{
	FILE *out = o->save ? fopen(o->save, "w") : stdout;

	if (!out) {
		perror(o->save);
		out = stdout;
	}
	r->print = NULL;
	walk_report(out, r, trace, o->seed, episode, step);
	if (out == stdout)
		return 1;
	fclose(out);
	printf("DIFFERENCE: see %s\n", o->save);
	return 1;
}

static int replay(struct walk_runner *r, const struct options *o, struct walk_trace *trace)
{
	FILE *in = fopen(o->replay, "r");
	long step;

	if (!in) {
		perror(o->replay);
		return 2;
	}
	if (!walk_load(in, r, trace)) {
		fclose(in);
		return 2;
	}
	fclose(in);
	r->print = stdout;
	step = walk_trace(r, trace);
	if (step < 0) {
		printf("no difference in %u steps\n", trace->count);
		return 0;
	}
	printf("DIFFERENCE: step %ld: %s\n", step, r->why);
	return 1;
}

static int walk(struct walk_runner *r, const struct options *o, struct walk_trace *trace)
{
	uint64_t left = o->steps, episode = o->one_episode ? o->episode : 0;
	size_t fds = test_fds();
	double begin = now();

	for (; left > 0; episode++) {
		uint32_t steps = left < WALK_EPISODE ? (uint32_t)left : WALK_EPISODE;
		long step;

		walk_draw(o->seed, episode, o->variants, steps, trace);
		step = walk_trace(r, trace);
		if (step >= 0)
			return found(r, o, trace, episode, step);
		if (test_fds() != fds) {
			printf("DIFFERENCE: seed %lu, episode %lu: %zu descriptors are open, not "
			       "%zu\n",
			       (unsigned long)o->seed, (unsigned long)episode, test_fds(), fds);
			return 1;
		}
		left = o->one_episode ? 0 : left - steps;
	}
	if (o->tally)
		walk_print_tally(stdout, &r->tally);
	printf("seed %lu: %lu steps, %lu calls, no difference, %.0f steps a second\n",
	       (unsigned long)o->seed, (unsigned long)o->steps, (unsigned long)r->calls,
	       (double)o->steps / (now() - begin));
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .seed = 1, .steps = 100000 };
	struct walk_trace trace = {
		.step = calloc(WALK_EPISODE + WALK_CLOSING, sizeof(*trace.step)),
	};
	struct walk_runner *r = calloc(1, sizeof(*r));
	struct world_ground ground;
	int ret;

	parse(argc, argv, &o);
	if (!r || !trace.step)
		return 2;
	ret = world_ground_open(&ground);
	if (ret != 0)
		return ret;
	walk_runner_init(r, &ground);
	r->broken = o.broken;
	r->print = o.print ? stdout : NULL;
	ret = o.replay ? replay(r, &o, &trace) : walk(r, &o, &trace);
	if (ret != 0) { /* who knows what can be closed now */
		fflush(stdout);
		_exit(ret);
	}
	walk_runner_fini(r);
	world_ground_close(&ground);
	free(r);
	free(trace.step);
	return ret;
}
