/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory is freed and its addresses are used again, in every way, by threads that hit a registration cache:
 * no hit is stale.  fresh.h says how that is told.
 *
 *   stress_fresh [--truth pin|tag] [--toy] [--raw] [--fork] [--stale] [WAY...]
 *
 *   --toy    the monitor is this program, which reports its own calls: it proves the program, not a monitor
 *   --raw    calls are made past the C library, so that memhooks cannot see them
 *   --fork   children are forked all the time
 *   --stale  invalidations are dropped: in every way that is run, one after the other, a stale hit must be
 *            found
 *   WAY      these alone
 *
 * The monitor is the one that FI_MR_CACHE_MONITOR names.  Exit status 77: it cannot be run here.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <unistd.h>

#include "core/mr/monitor.h"
#include "tests/stress/fresh.h"

#define ARENAS	       4096
#define PLACES	       24u /* the first is the main thread's */
#define WAYS	       32u
#define RECENT	       64u
#define CACHED	       512u
#define PATIENCE       120u /* seconds without progress */
#define TURN_MICROS    2000
#define STALE_ENOUGH   3u
#define REFUSED_ENOUGH 1000u /* the monitor does not follow such memory */
#define STALE_TURNS    30u   /* seconds that a way has to become stale in */
#define SKIPPED	       77

static struct fresh_place places[PLACES];
static const struct fresh_way *ways[WAYS];
static struct fresh_figures figures[WAYS];
static unsigned way_count;
static _Atomic uint64_t recent[RECENT];
static _Atomic unsigned recents;
static _Atomic uint64_t steps; /* of all threads but the main one */
static _Atomic bool stop;

static bool toy, stale, forks;
static enum fresh_truth truth = FRESH_PIN;

static bool comparable(const struct fresh_way *way)
{
	return truth == FRESH_PIN || !way->family->untagged;
}

static void count(unsigned way)
{
	atomic_fetch_add_explicit(&figures[way].changes, 1, memory_order_relaxed);
}

static unsigned number_of(const struct fresh_way *way)
{
	unsigned i = 0;

	while (ways[i] != way)
		i++;
	return i;
}

/* ---- one step: a place changes, or is hit ---- */

static void check_place(const struct fresh_place *place)
{
	fresh_check(place->begin, place->begin + place->len, comparable(place->way));
}

/* The place has new memory: it is registered, and hit. */
static void use(struct fresh_place *place)
{
	fresh_claim(place->begin, place->begin + place->len);
	atomic_store(&recent[atomic_fetch_add(&recents, 1) % RECENT], place->begin);
	check_place(place);
	check_place(place);
}

/* Something is there now, or was. */
static bool make(struct fresh_place *place, unsigned n, uint64_t *random)
{
	uint64_t before = atomic_load(&figures[n].registrations);
	bool there = ways[n]->family->make(place, random);

	if (there || atomic_load(&figures[n].registrations) > before)
		count(n);
	return there;
}

/* The thread has the place to itself. */
static void change(struct fresh_place *place, unsigned n, uint64_t *random)
{
	const struct fresh_way *way = ways[n];

	if (place->way)
		fresh_figures = &figures[number_of(place->way)];
	if (place->way && (place->way->family != way->family || !way->change)) {
		check_place(place);
		place->way->family->end(place);
		place->way = NULL;
	}
	fresh_figures = &figures[n];
	if (place->way) {
		check_place(place);
		way->change(place, random);
		count(n);
	} else if (!make(place, n, random)) {
		return;
	}
	place->way = way;
	use(place);
}

static void hit(struct fresh_place *place, uint64_t *random)
{
	uintptr_t begin, end;

	if (!place->way || place->len == 0)
		return;
	fresh_figures = &figures[number_of(place->way)];
	begin = place->begin + stress_random(random) % place->len;
	end = begin + stress_random(random) % (place->begin + place->len - begin) + 1;
	fresh_check(begin, end, comparable(place->way));
}

/* One of the ways that this thread may go; WAYS: none. */
static unsigned pick_way(bool is_main, uint64_t *random)
{
	for (unsigned i = 0; i < 4 * WAYS; i++) {
		unsigned n = (unsigned)(stress_random(random) % way_count);

		if (is_main || !ways[n]->family->main_only)
			return n;
	}
	return WAYS;
}

/* ---- threads ---- */

static void *work(void *seed)
{
	uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15 + 1;

	fresh_watch_me();
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct fresh_place *place = &places[stress_random(&random) % PLACES];
		unsigned n = pick_way(false, &random);

		if (place == places || n == WAYS || stress_random(&random) % 4 != 0) {
			pthread_rwlock_rdlock(&place->lock);
			hit(place, &random);
		} else {
			pthread_rwlock_wrlock(&place->lock);
			change(place, n, &random);
		}
		pthread_rwlock_unlock(&place->lock);
		atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
	}
	return NULL;
}

/* Memory of a few sizes comes and goes with no word between the threads: the kernel hands on the addresses. */
static void *be_lucky(void *seed)
{
	uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15 + 1;
	const struct fresh_way *way = ways[0];
	struct fresh_place place = { .way = way };

	fresh_watch_me();
	fresh_figures = &figures[0];
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		if (!make(&place, 0, &random))
			continue;
		use(&place);
		place.way->family->end(&place);
	}
	return NULL;
}

/* Registers memory that may be changing, as a wrong program does; that must not make others' hits stale. */
static void *poke(void *seed)
{
	uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15 + 1;
	static struct fresh_figures unused;

	fresh_watch_me();
	fresh_figures = &unused;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		uintptr_t begin = atomic_load(&recent[stress_random(&random) % RECENT]);

		if (begin != 0)
			fresh_check(begin, begin + fresh_size(&random), false);
	}
	return NULL;
}

static uint64_t changes_made(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < way_count; i++)
		sum += atomic_load(&figures[i].changes);
	return sum;
}

static bool stale_enough(void)
{
	if (!stale)
		return false;
	for (unsigned i = 0; i < way_count; i++)
		if (atomic_load(&figures[i].stale) < STALE_ENOUGH &&
		    atomic_load(&figures[i].refused) < REFUSED_ENOUGH)
			return false;
	return true;
}

/* A way that was gone without a hit proves nothing; one that cannot be gone here has nothing to prove. */
static bool was_hit(unsigned i)
{
	return !comparable(ways[i]) || atomic_load(&figures[i].changes) == 0 ||
	       atomic_load(&figures[i].hits) > 0 || atomic_load(&figures[i].refused) > 0;
}

static bool all_hit(void)
{
	for (unsigned i = 0; !stale && i < way_count; i++)
		if (!was_hit(i))
			return false;
	return true;
}

/* The main thread changes the first place, and moves the size from which on blocks are mappings of their own. */
static void lead(double seconds)
{
	double until = stress_now() + seconds, last = until + PATIENCE;
	uint64_t random = 88172645463325252, seen = 0;

	for (unsigned turn = 0; !stale_enough(); turn++) {
		unsigned n = pick_way(true, &random);
		double now = stress_now();

		if (now >= last || (now >= until && all_hit()))
			break;
		if (turn % 64 == 0)
			mallopt(M_MMAP_THRESHOLD, 32 * 1024 << stress_random(&random) % 8);
		pthread_rwlock_wrlock(&places->lock);
		change(places, n, &random);
		pthread_rwlock_unlock(&places->lock);
		usleep(TURN_MICROS);
		if (forks)
			fresh_fork(&random);
		if (atomic_load(&steps) > seen)
			fresh_watch_again();
		seen = atomic_load(&steps);
	}
}

static void run(double seconds)
{
	unsigned all = stress_setting("HMREG_STRESS_THREADS", 8), started = 0;
	pthread_t thread[64];

	all = all > 64 ? 64 : all < 3 ? 3 : all;
	atomic_store(&stop, false);
	for (uintptr_t i = 1; started < all; i++, started++) {
		void *(*function)(void *) = i == 1 ? poke : i <= 1 + all / 4 ? be_lucky : work;

		if (function == be_lucky && (ways[0]->family->main_only || ways[0]->change))
			function = work;
		CHECK_OK(pthread_create(&thread[started], NULL, function, (void *)i));
	}
	lead(seconds);
	atomic_store(&stop, true);
	while (started > 0)
		CHECK_OK(pthread_join(thread[--started], NULL));
	for (unsigned i = 0; i < PLACES; i++) {
		if (places[i].way)
			places[i].way->family->end(&places[i]);
		places[i].way = NULL;
	}
}

/* ---- what came of it ---- */

/* The file that a function of this name is in, without its folder. */
static const char *object_of(const char *name, char *text, size_t size)
{
	void *function = dlsym(RTLD_DEFAULT, name);
	const char *slash;
	Dl_info info;

	CHECK(function && dladdr(function, &info) != 0);
	slash = strrchr(info.dli_fname, '/');
	snprintf(text, size, "%s", slash ? slash + 1 : info.dli_fname);
	return text;
}

/* What was preloaded is what is used. */
static void check_preloaded(void)
{
	const char *allocator = getenv("HMREG_FRESH_ALLOCATOR");
	char text[128];

	if (allocator) {
		CHECK(strcmp(object_of("malloc", text, sizeof(text)), allocator) == 0);
		CHECK(strcmp(object_of("free", text, sizeof(text)), allocator) == 0);
	}
	if (getenv("HMREG_FRESH_INTERPOSER")) {
		unsigned long (*calls)(void) =
			(unsigned long (*)(void))dlsym(RTLD_DEFAULT, "fresh_interposed");

		CHECK(calls);
		printf("calls that the other library saw: %lu\n", calls());
		CHECK(calls() > 0);
	}
}

static void print_way(unsigned i)
{
	printf("  %-18s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "%s\n", ways[i]->name,
	       atomic_load(&figures[i].changes), atomic_load(&figures[i].registrations),
	       atomic_load(&figures[i].hits), atomic_load(&figures[i].stale),
	       atomic_load(&figures[i].refused)		? "  not followed"
	       : atomic_load(&figures[i].registrations) ? ""
							: "  not to be had here");
	fflush(stdout);
}

static void print_head(void)
{
	char text[256];

	printf("monitor %s, told by %s\n", hm_monitor_text(text, sizeof(text)),
	       truth == FRESH_PIN ? "pinned pages" : "tags");
	printf("  %-18s %9s %9s %9s %9s\n", "way", "changes", "misses", "hits", "stale");
}

static void print_total(unsigned seconds)
{
	uint64_t hits = 0, stale_hits = 0;
	char monitor[256], malloc_of[128];

	for (unsigned i = 0; i < way_count; i++) {
		hits += atomic_load(&figures[i].hits);
		stale_hits += atomic_load(&figures[i].stale);
	}
	printf("total: %s | %s | %s%s%s | %u s | %" PRIu64 " changes | %" PRIu64 " hits | %" PRIu64
	       " stale\n",
	       hm_monitor_text(monitor, sizeof(monitor)),
	       object_of("malloc", malloc_of, sizeof(malloc_of)),
	       truth == FRESH_PIN ? "pinned pages" : "tags", fresh_raw ? ", raw calls" : "",
	       forks ? ", forks" : "", seconds, changes_made(), hits, stale_hits);
}

static void run_all(void)
{
	unsigned seconds = stress_setting("HMREG_FRESH_SECONDS", 10);

	run(seconds);
	print_head();
	for (unsigned i = 0; i < way_count; i++)
		print_way(i);
	print_total(seconds);
	CHECK(all_hit());
}

/* 0: each way was found stale that was gone. */
static int run_stale(void)
{
	const struct fresh_way *chosen[WAYS];
	unsigned chosen_count = way_count;
	int ret = 0;

	memcpy(chosen, ways, sizeof(ways));
	print_head();
	way_count = 1;
	for (unsigned i = 0; i < chosen_count; i++) {
		ways[0] = chosen[i];
		if (!comparable(ways[0]) || (truth == FRESH_PIN && ways[0]->pages_stay))
			continue;
		memset(&figures[0], 0, sizeof(figures[0]));
		fresh_forget(0, UINTPTR_MAX); /* what the way before left behind */
		run(STALE_TURNS);
		print_way(0);
		if (atomic_load(&figures[0].changes) > 0 && atomic_load(&figures[0].stale) == 0 &&
		    atomic_load(&figures[0].refused) == 0)
			ret = 1;
	}
	if (ret != 0)
		printf("not found, though invalidations are dropped: stale hits of a way with 0\n");
	return ret;
}

/* ---- options ---- */

static bool chosen(const struct fresh_way *way, char *const *names)
{
	if (toy && way->family->hidden)
		return false;
	if (!*names)
		return true;
	for (; *names; names++)
		if (strcmp(*names, way->name) == 0)
			return true;
	return false;
}

static void choose(const struct fresh_way *way, char *const *names)
{
	for (; way->name; way++)
		if (chosen(way, names))
			ways[way_count++] = way;
}

/* The names of ways that follow. */
static char *const *options(char *const *word)
{
	for (; *word && strncmp(*word, "--", 2) == 0; word++) {
		if (strcmp(*word, "--toy") == 0) {
			toy = true;
		} else if (strcmp(*word, "--fork") == 0) {
			forks = true;
		} else if (strcmp(*word, "--raw") == 0) {
			fresh_raw = true;
		} else if (strcmp(*word, "--stale") == 0) {
			stale = true;
		} else if (strcmp(*word, "--truth") == 0 && word[1]) {
			truth = strcmp(*++word, "tag") == 0 ? FRESH_TAG : FRESH_PIN;
		} else {
			fprintf(stderr, "error: no option \"%s\"\n", *word);
			exit(2);
		}
	}
	return word;
}

static void skip_all(const char *why)
{
	printf("skipped: %s\n", why);
	exit(SKIPPED);
}

int main(int argc, char **argv)
{
	char why[256];
	char *const *names = options(argv + 1);
	int ret = 0;

	(void)argc;
	/* No thread but this one, which moves the end of the data segment itself, may allocate there meanwhile. */
	mallopt(M_ARENA_MAX, ARENAS);
	fresh_drop = fresh_hasty = fresh_expect_stale = stale;
	choose(fresh_map_ways, names);
	choose(fresh_heap_ways, names);
	CHECK(way_count > 0 && way_count < WAYS);
	for (unsigned i = 0; i < PLACES; i++)
		CHECK_OK(pthread_rwlock_init(&places[i].lock, NULL));
#ifdef __SANITIZE_ADDRESS__
	if (forks)
		skip_all("the address sanitizer's allocator may be locked for ever in a child");
#endif
	if (!fresh_truth_start(truth, why, sizeof(why)))
		skip_all(why);
	fresh_watch_start(PATIENCE);
	fresh_watch_me();
	fresh_cache_start(CACHED);
	if (toy)
		fresh_use_toy();
	if (!fresh_join(why, sizeof(why)))
		skip_all(why);
	if (stale)
		ret = run_stale();
	else
		run_all();
	check_preloaded();
	hm_monitor_leave(&fresh_cache);
	fresh_cache_end();
	return ret;
}
