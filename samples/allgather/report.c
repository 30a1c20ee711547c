/* SPDX-License-Identifier: BSD-2-Clause */
/* What has been found, for people and as JSON. */
#include "allgather.h"

/* Bytes that a rank has in the end, by time; and what each link carried of them: all but one block. */
static double algorithm_rate(const struct ag_world *w)
{
	return w->best_s > 0 ? (double)w->options.size * w->total / w->best_s / 1e6 : 0;
}

static double bus_rate(const struct ag_world *w)
{
	return algorithm_rate(w) * (w->total - 1) / w->total;
}

static unsigned int node_of(const struct ag_world *w, unsigned int rank)
{
	unsigned int node = 0;

	while (rank >= w->ranks_of[node])
		rank -= w->ranks_of[node++];
	return node;
}

/* ---- text ---- */

static void nics(const struct ag_card *card, unsigned int rails, const char *between)
{
	for (unsigned int i = 0; i < rails; i++)
		printf("%s%s", i ? between : "", card->nic[i]);
}

static void text_ranks(const struct ag_world *w)
{
	puts("rank node memory       NIC: why");
	for (unsigned int r = 0; r < w->total; r++) {
		const struct ag_card *card = &w->card[r];

		printf("%4u %4u %-12s ", r, node_of(w, r), card->memory);
		nics(card, w->rails, "+");
		printf(": %s\n", card->why);
	}
	fputs("ring:", stdout);
	for (unsigned int i = 0; i < w->total; i++)
		printf(" %u (%s)", w->ring[i], w->card[w->ring[i]].next);
	printf(" %u\n", w->ring[0]);
	if (w->rails < w->options.rails)
		printf("%u rails were asked for, and each rank has %u NICs of equal distance\n",
		       w->options.rails, w->rails);
}

static void text_pairs(const struct ag_world *w)
{
	puts("MB/s from row to column:");
	fputs("     ", stdout);
	for (unsigned int to = 0; to < w->total; to++)
		printf(" %8u", to);
	putchar('\n');
	for (unsigned int from = 0; from < w->total; from++) {
		printf("%4u:", from);
		for (unsigned int to = 0; to < w->total; to++) {
			if (w->pair[from][to] > 0)
				printf(" %8.1f", w->pair[from][to]);
			else
				printf(" %8s", "-");
		}
		putchar('\n');
	}
}

static void text(const struct ag_world *w)
{
	text_ranks(w);
	printf("all-gather: %u rank%s of %llu bytes, %u rail%s, chunks of %llu bytes: %u time%s, "
	       "every byte right\n",
	       w->total, w->total == 1 ? "" : "s", (unsigned long long)w->options.size, w->rails,
	       w->rails == 1 ? "" : "s", (unsigned long long)w->options.chunk, w->options.iters,
	       w->options.iters == 1 ? "" : "s");
	if (w->total == 1) {
		puts("one rank has nobody to gather from");
		return;
	}
	printf("best %.3f ms, mean %.3f ms; algorithm bandwidth %.1f MB/s, bus bandwidth %.1f "
	       "MB/s\n",
	       w->best_s * 1e3, w->mean_s * 1e3, algorithm_rate(w), bus_rate(w));
	if (w->options.size)
		text_pairs(w);
}

/* ---- JSON ---- */

static void string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			printf("\\u%04x", (unsigned int)*s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void json_rank(const struct ag_world *w, unsigned int r)
{
	const struct ag_card *card = &w->card[r];

	printf("%s\n  {\"rank\": %u, \"node\": %u, \"memory\": ", r ? "," : "", r, node_of(w, r));
	string(card->memory);
	fputs(", \"nics\": [", stdout);
	for (unsigned int i = 0; i < w->rails; i++) {
		fputs(i ? ", " : "", stdout);
		string(card->nic[i]);
	}
	fputs("], \"why\": ", stdout);
	string(card->why);
	fputs(", \"to_next\": ", stdout);
	string(card->next);
	putchar('}');
}

static void json(const struct ag_world *w)
{
	fputs("{\"ranks\": [", stdout);
	for (unsigned int r = 0; r < w->total; r++)
		json_rank(w, r);
	fputs("],\n \"ring\": [", stdout);
	for (unsigned int i = 0; i < w->total; i++)
		printf("%s%u", i ? ", " : "", w->ring[i]);
	printf("],\n \"size\": %llu, \"chunk\": %llu, \"rails\": %u, \"times\": %u, \"verified\": "
	       "true,\n",
	       (unsigned long long)w->options.size, (unsigned long long)w->options.chunk, w->rails,
	       w->options.iters);
	printf(" \"best_ms\": %.6f, \"mean_ms\": %.6f, \"algorithm_mb_s\": %.3f, \"bus_mb_s\": "
	       "%.3f,\n",
	       w->best_s * 1e3, w->mean_s * 1e3, algorithm_rate(w), bus_rate(w));
	fputs(" \"pairs_mb_s\": [", stdout);
	for (unsigned int from = 0; from < w->total; from++) {
		printf("%s\n  [", from ? "," : "");
		for (unsigned int to = 0; to < w->total; to++) {
			if (w->pair[from][to] > 0)
				printf("%s%.3f", to ? ", " : "", w->pair[from][to]);
			else
				printf("%snull", to ? ", " : "");
		}
		putchar(']');
	}
	puts("]}");
}

void ag_report(const struct ag_world *w)
{
	if (w->options.json)
		json(w);
	else
		text(w);
}
