/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring all-gather over all accelerators and NICs of a node, and of several nodes over RDMA devices: each rank starts
 * with a block of its own and ends with everybody's.  --help says what can be chosen.
 *
 * Exit status 0: every byte was right at every rank; 1: not, or something failed, which is on stderr; 2: wrong
 * options; 77: there is no accelerator of the interface that was named.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "allgather.h"

static const char usage[] =
	"Usage: ring_allgather [DOMAIN] [options]\n"
	"  DOMAIN           use this NIC domain alone; without, each rank takes the NIC nearest to "
	"its memory\n"
	"  --iface I        accelerators of this interface: cuda, rocr, ze, neuron or synapseai; "
	"without, of all\n"
	"  --ranks N        N ranks of host memory, whatever accelerators there are (without any: "
	"4)\n"
	"  --rails K        spread over K NICs of equal distance (default 1)\n"
	"  --size S         bytes of a block, with suffix K, M or G (default 1M)\n"
	"  --chunk S        bytes that are written and passed on at once (default 64K)\n"
	"  --iters N        all-gathers (default 3), after a first that is not timed\n"
	"  --timeout S      seconds without any progress that end it (default 10)\n"
	"  --nodes N --node I --at HOST:PORT\n"
	"                   N processes; node 0 listens at that place, the others connect to it\n"
	"  --spoil R        change a byte at rank R before it is checked: for a test of the check\n"
	"  --json           print one JSON object\n";

/* ---- options ---- */

/* 0 and a message when it is no number up to most. */
static bool number(const char *name, const char *text, uint64_t least, uint64_t most,
		   uint64_t *value)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	char *end;
	uint64_t n = strtoull(text, &end, 10), unit = 1;

	suffix = *end ? strchr(suffixes, *end) : NULL;
	if (suffix) {
		unit = UINT64_C(1) << 10 * (suffix - suffixes + 1);
		end++;
	}
	if (*text < '0' || *text > '9' || *end || n > most / unit || n * unit < least) {
		fprintf(stderr, "--%s: %s is not from %llu to %llu\n", name, text,
			(unsigned long long)least, (unsigned long long)most);
		return false;
	}
	*value = n * unit;
	return true;
}

/* Numbers: their limits and where they go. */
static bool set_number(struct ag_options *o, const char *name, const char *text)
{
	struct {
		const char *name;
		uint64_t least, most;
		unsigned int *small;
		uint64_t *large;
	} known[] = {
		{ "ranks", 1, AG_RANKS, &o->ranks, NULL },
		{ "rails", 1, AG_RAILS, &o->rails, NULL },
		{ "size", 0, UINT64_C(1) << 32, NULL, &o->size },
		{ "chunk", 1, UINT64_C(1) << 30, NULL, &o->chunk },
		{ "iters", 1, 1000000000, &o->iters, NULL },
		{ "timeout", 1, 3600, &o->timeout_s, NULL },
		{ "nodes", 1, AG_NODES, &o->nodes, NULL },
		{ "node", 0, AG_NODES - 1, &o->node, NULL },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint64_t value;

		if (strcmp(known[i].name, name) != 0)
			continue;
		if (!number(name, text, known[i].least, known[i].most, &value))
			return false;
		if (known[i].large)
			*known[i].large = value;
		else
			*known[i].small = (unsigned int)value;
	}
	return true;
}

static bool fit(const struct ag_options *o, int argc)
{
	const char *wrong = NULL;

	if (optind < argc)
		wrong = "one NIC domain at most";
	else if (o->node >= o->nodes)
		wrong = "--node is from 0 to --nodes less one";
	else if ((o->nodes > 1) != (o->at != NULL))
		wrong = "--nodes and --at belong together";
	else if (o->ranks && o->iface)
		wrong = "--ranks is of host memory, --iface of accelerators";
	else if (o->size / o->chunk > UINT32_MAX / AG_ALL - 1)
		wrong = "chunks are too small for this size";
	if (wrong)
		fprintf(stderr, "%s\n", wrong);
	return !wrong;
}

static bool parse(struct ag_options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{ "iface", 1, NULL, 'i' },   { "ranks", 1, NULL, 'n' },
		{ "rails", 1, NULL, 'n' },   { "size", 1, NULL, 'n' },
		{ "chunk", 1, NULL, 'n' },   { "iters", 1, NULL, 'n' },
		{ "timeout", 1, NULL, 'n' }, { "nodes", 1, NULL, 'n' },
		{ "node", 1, NULL, 'n' },    { "at", 1, NULL, 'a' },
		{ "spoil", 1, NULL, 's' },   { "json", 0, NULL, 'j' },
		{ "help", 0, NULL, 'h' },    { 0 },
	};
	uint64_t rank;
	int c, which;

	while ((c = getopt_long(argc, argv, "", options, &which)) != -1) {
		if (c == 'i')
			o->iface = optarg;
		else if (c == 'a')
			o->at = optarg;
		else if (c == 'j')
			o->json = true;
		else if (c == 'h') {
			fputs(usage, stdout);
			exit(0);
		} else if (c == 's' && number("spoil", optarg, 0, AG_ALL - 1, &rank))
			o->spoil = (int)rank;
		else if (c != 'n' || !set_number(o, options[which].name, optarg))
			return false;
	}
	if (optind < argc)
		o->domain = argv[optind++];
	return fit(o, argc);
}

/* ---- all nodes together ---- */

/* What nodes tell each other first. */
struct introduction {
	uint64_t size, chunk;
	uint32_t iters, count, rails;
};

static int compare(const struct introduction *one, const struct introduction *other,
		   unsigned int node)
{
	if (one->size == other->size && one->chunk == other->chunk && one->iters == other->iters)
		return 0;
	fprintf(stderr,
		"node 0 has --size %llu --chunk %llu --iters %u, and node %u %llu, %llu and %u: "
		"they must be equal\n",
		(unsigned long long)one->size, (unsigned long long)one->chunk, one->iters, node,
		(unsigned long long)other->size, (unsigned long long)other->chunk, other->iters);
	return -FI_EINVAL;
}

/* How many ranks there are everywhere, and how many rails all of them have. */
static int introduce(struct ag_world *w)
{
	struct introduction mine = { w->options.size, w->options.chunk, w->options.iters, w->count,
				     w->options.rails };
	struct introduction all[AG_NODES];
	int ret;

	for (unsigned int r = 0; r < w->count; r++)
		mine.rails = w->rank[r].card.rails < mine.rails ? w->rank[r].card.rails
								: mine.rails;
	ret = ag_exchange(w, &mine, sizeof(mine), all);
	w->rails = mine.rails;
	for (unsigned int n = 0; n < w->options.nodes && !ret; n++) {
		ret = compare(&all[0], &all[n], n);
		w->rails = all[n].rails < w->rails ? all[n].rails : w->rails;
		if (n == w->options.node)
			w->first = w->total;
		w->ranks_of[n] = all[n].count;
		w->total += all[n].count;
	}
	return ret;
}

static void make_ring(struct ag_world *w)
{
	unsigned int first = 0, at = 0;

	for (unsigned int n = 0; n < w->options.nodes; first += w->ranks_of[n++]) {
		for (unsigned int r = 0; r < w->ranks_of[n]; r++)
			w->ring[first + w->card[first + r].place] = first + r;
	}
	for (unsigned int r = 0; r < w->count; r++) {
		w->rank[r].number = w->first + r;
		for (at = 0; w->ring[at] != w->rank[r].number;)
			at++;
		w->rank[r].next = w->ring[(at + 1) % w->total];
	}
}

/* Everybody's addresses and keys. */
static int exchange_cards(struct ag_world *w)
{
	struct ag_card *all = calloc(AG_ALL, sizeof(*all)), *mine = calloc(AG_RANKS, sizeof(*mine));
	unsigned int k = 0;
	int ret = all && mine ? 0 : sample_fail("calloc", -FI_ENOMEM);

	for (unsigned int r = 0; r < w->count && !ret; r++)
		mine[r] = w->rank[r].card;
	if (!ret)
		ret = ag_exchange(w, mine, AG_RANKS * sizeof(*mine), all);
	for (unsigned int n = 0; n < w->options.nodes && !ret; n++) {
		for (unsigned int r = 0; r < w->ranks_of[n]; r++)
			w->card[k++] = all[n * AG_RANKS + r];
	}
	free(all);
	free(mine);
	if (!ret)
		make_ring(w);
	return ret;
}

/* ---- the work ---- */

static int verify_all(struct ag_world *w)
{
	int ret = 0;

	for (unsigned int r = 0; r < w->count && !ret; r++)
		ret = ag_verify(w, &w->rank[r]);
	return ret;
}

/* One all-gather; its time is that of the slowest node. */
static int gather_once(struct ag_world *w, double *slowest)
{
	double mine, all[AG_NODES];
	int ret = ag_gather(w, &mine);

	if (!ret)
		ret = ag_exchange(w, &mine, sizeof(mine), all);
	*slowest = mine;
	for (unsigned int n = 0; n < w->options.nodes && !ret; n++)
		*slowest = all[n] > *slowest ? all[n] : *slowest;
	return ret ? ret : verify_all(w);
}

/* The first makes the connections: it is verified as the others are, but its time is not counted. */
static int gather_all(struct ag_world *w)
{
	double seconds, sum = 0;
	int ret = 0;

	for (w->round = 0; w->round <= w->options.iters && !ret; w->round++) {
		ret = gather_once(w, &seconds);
		if (w->round == 0)
			continue;
		sum += seconds;
		w->best_s = w->round == 1 || seconds < w->best_s ? seconds : w->best_s;
	}
	w->mean_s = sum / w->options.iters;
	return ret;
}

/*
 * One pair after the other, over all nodes.  What a pair writes is the sender's block to where it belongs, in buffers
 * that were emptied before, so that afterwards everything can be compared once more.
 */
static int measure_all(struct ag_world *w)
{
	double(*row)[AG_ALL] = calloc(AG_NODES, sizeof(*row));
	double mine[AG_ALL] = { 0 };
	int ret = row ? 0 : sample_fail("calloc", -FI_ENOMEM);

	for (unsigned int r = 0; r < w->count && !ret; r++)
		ret = ag_prepare(w, &w->rank[r]);
	if (!ret)
		ret = ag_exchange(w, mine, sizeof(mine), row);
	for (unsigned int from = 0, node = 0, last = w->ranks_of[0]; from < w->total && !ret;
	     from++) {
		if (from == last)
			last += w->ranks_of[++node];
		memset(mine, 0, sizeof(mine));
		for (unsigned int to = 0; node == w->options.node && to < w->total && !ret; to++) {
			if (to != from)
				ret = ag_measure(w, &w->rank[from - w->first], to, &mine[to]);
		}
		if (!ret)
			ret = ag_exchange(w, mine, sizeof(mine), row);
		if (!ret)
			memcpy(w->pair[from], row[node], sizeof(mine));
	}
	free(row);
	return ret ? ret : verify_all(w);
}

static int run(struct ag_world *w)
{
	char done = 0, all[AG_NODES];
	int ret = ag_find_ranks(w);

	if (!ret && w->software && w->options.nodes > 1) {
		fprintf(stderr,
			"the software NIC (%s) reaches endpoints of one process only: several "
			"nodes need an RDMA device at each\n",
			w->rank[0].card.nic[0]);
		return -FI_EHOSTUNREACH;
	}
	if (!ret)
		ret = ag_order_ranks(w);
	if (!ret)
		ret = ag_boot_open(w);
	if (!ret)
		ret = introduce(w);
	if (!ret)
		ret = ag_open_ranks(w);
	if (!ret)
		ret = exchange_cards(w);
	if (!ret)
		ret = ag_meet(w);
	if (!ret)
		ret = gather_all(w);
	if (!ret)
		ret = measure_all(w);
	if (!ret) /* nobody leaves before all have found everything right */
		ret = ag_exchange(w, &done, 1, all);
	if (!ret)
		ag_report(w);
	return ret;
}

int main(int argc, char **argv)
{
	static struct ag_world w;
	int ret, failed;

	w.options = (struct ag_options){ .size = 1 << 20,
					 .chunk = 64 << 10,
					 .rails = 1,
					 .iters = 3,
					 .nodes = 1,
					 .timeout_s = 10,
					 .spoil = -1 };
	memset(w.boot.fd, -1, sizeof(w.boot.fd));
	if (!parse(&w.options, argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	w.chunks = (uint32_t)((w.options.size + w.options.chunk - 1) / w.options.chunk);
	sample_timeout_s = w.options.timeout_s;
	sample_cq_format = FI_CQ_FORMAT_DATA;
	ret = run(&w);
	ag_boot_close(&w); /* first of all: the others wait for it */
	failed = ag_close_ranks(&w);
	if (w.fabric && fi_close(&w.fabric->fid))
		failed = -FI_EOTHER;
	fi_freeinfo(w.list);
	if (ret == AG_SKIPPED && !failed)
		return AG_SKIPPED;
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
