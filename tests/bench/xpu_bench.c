/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers that a device starts: what a descriptor costs, how long a write of 8 bytes takes from the device's
 * call until the device sees that it is done, how many there are in a second, for 1 to 64 rings and by scope,
 * and what the engine takes of a processor.
 *
 *   xpu_bench [--tsv] [--device NAME] [--on DEVICE] [--part fetch|rings|scopes|engine]
 *
 * NAME: a NIC domain (default sw-scalable); DEVICE: cpu (default), threads, cuda:0.  The peer is an endpoint of the
 * host's, in this process.
 */
#include <sys/resource.h>

#include "samples/common.h"
#include "samples/xpu/device.h"
#include "samples/xpu/side.h"
#include "tests/bench/bench.h"
#include "tests/bench/xpu_kernel.h"

#define RINGS	   64
#define LEN	   4096 /* of each ring's memory */
#define FETCHES	   1000
#define SPELLS	   20 /* that they come in */
#define WAITS	   2000
#define REQUESTS   20000 /* of all rings together */
#define TIMEOUT_MS 120000
#define REPEATS	   5

#define LINKS_AT   ((size_t)RINGS * LEN)
#define RESULTS_AT (LINKS_AT + RINGS * sizeof(struct xpu_link))
#define WAITS_AT   (RESULTS_AT + RINGS * sizeof(struct bench_result))
#define ALL	   (WAITS_AT + sizeof(uint64_t[RINGS * WAITS]))

static struct xpu_device *device;
static const char *domain = "sw-scalable";
static struct xpu_side side;
static struct xpu_memory memory;
static struct xpu_channel channels[RINGS];
static unsigned rings; /* open */
static struct sample_end host;
static struct fid_mr *target;
static unsigned char target_bytes[LEN];
static struct xpu_offer offer;

static void open_all(void)
{
	uint64_t caps = FI_MSG | FI_RMA | FI_ATOMIC;

	check(xpu_device_alloc(device, ALL, &memory), "memory of the device");
	check(xpu_side_open(&side, domain, device), "the device's side");
	check(sample_open_named(&host, domain, caps, 0), "the host's side");
	check(fi_enable(host.ep), "fi_enable");
	check(sample_register_buffer(&host, target_bytes, LEN, FI_REMOTE_WRITE, &target),
	      "the host's memory");
	check(xpu_host_offer(&host, target, target_bytes, &offer), "the host's offer");
}

static void close_rings(void)
{
	while (rings > 0)
		check(xpu_channel_close(&channels[--rings]), "closing a channel");
}

static void close_all(void)
{
	close_rings();
	check(xpu_side_close(&side), "closing the device's side");
	check(fi_close(&target->fid), "closing the host's memory");
	check(sample_close(&host), "closing the host's side");
	xpu_device_free(device, &memory);
	xpu_device_close(device);
}

/* ---- requests ---- */

struct load {
	unsigned first;		  /* ring */
	unsigned blocks, threads; /* a ring for each block, or one for all */
	int scope;
	uint32_t count; /* of each ring */
	uint64_t pace;
	bool wait;
};

static void start(const struct load *load)
{
	struct bench_args args = {
		.links = (struct xpu_link *)(memory.on_device + LINKS_AT) + load->first,
		.results = (struct bench_result *)(memory.on_device + RESULTS_AT),
		.waits = load->wait ? (uint64_t *)(memory.on_device + WAITS_AT) : NULL,
		.pace = load->pace,
		.count = load->count,
		.scope = load->scope,
	};

	check(xpu_device_launch(device, XPU_CALL(bench_requests), &args, sizeof(args), load->blocks,
				load->threads),
	      "a kernel's start");
}

/* ns from the first request's beginning until the last was done. */
static double end(const struct load *load)
{
	unsigned used = load->scope == FI_XPU_DEVICE ? 1 : load->blocks;
	struct bench_result results[RINGS];
	uint64_t first, last;

	check(xpu_device_wait(device, TIMEOUT_MS), "a kernel");
	check(xpu_device_read(device, results, memory.on_host + RESULTS_AT,
			      used * sizeof(results[0])),
	      "results");
	first = results[0].begin;
	last = results[0].end;
	for (unsigned i = 0; i < used; i++) {
		if (results[i].error)
			xpu_channel_errors(&channels[load->first + i]);
		check(results[i].error, "requests of a ring");
		first = results[i].begin < first ? results[i].begin : first;
		last = results[i].end > last ? results[i].end : last;
	}
	return (double)(last - first);
}

static double run(const struct load *load)
{
	start(load);
	return end(load);
}

/* So many rings, from now on. */
static void open_rings(unsigned count)
{
	struct xpu_offer unused;

	for (; rings < count; rings++) {
		struct xpu_channel *channel = &channels[rings];
		size_t at = LINKS_AT + rings * sizeof(struct xpu_link);

		check(xpu_channel_open(channel, &side, false, &memory, (size_t)rings * LEN, LEN),
		      "a channel");
		check(xpu_channel_offer(channel, &unused), "a channel's offer");
		check(xpu_channel_reach(channel, &offer), "a channel's peer");
		check(xpu_device_write(device, memory.on_host + at, &channel->link,
				       sizeof(channel->link)),
		      "a link");
		run(&(struct load){ rings, 1, 1, FI_XPU_WORK_ITEM, 1, 0, false }); /* connects */
	}
}

/* ---- descriptors ---- */

static void fetch_desc(void *arg, long n)
{
	uint64_t desc[XPU_DESC_WORDS];
	size_t len;

	(void)arg;
	for (long i = 0; i < n; i++) {
		len = sizeof(desc);
		check(fi_mr_get_xpu_desc(channels[0].mr, desc, &len, FI_XPU, side.ctx),
		      "fi_mr_get_xpu_desc");
	}
}

static void fetch_addr(void *arg, long n)
{
	uint64_t addr[XPU_ADDR_WORDS];
	size_t len;

	(void)arg;
	for (long i = 0; i < n; i++) {
		len = sizeof(addr);
		check(fi_av_lookup2(channels[0].end.av, channels[0].end.peer, addr, &len, FI_XPU,
				    side.ctx),
		      "fi_av_lookup2");
	}
}

/* Runs short enough to be left alone by other work most often, and over two seconds. */
static double fetch_ns(bench_work *fetch)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	static double ns[FETCHES];

	for (int i = 0; i < FETCHES; i++) {
		if (i % (FETCHES / SPELLS) == 0)
			nanosleep(&pause, NULL);
		ns[i] = time_of(fetch, NULL, 10000);
	}
	return median_of(ns, FETCHES);
}

static void bench_fetch(void)
{
	open_rings(1);
	figure(fetch_ns(fetch_desc), "ns", "xpu_desc.%s", domain);
	figure(fetch_ns(fetch_addr), "ns", "xpu_addr.%s", domain);
}

/* ---- rings and scopes ---- */

/* The waits of the load that has run: the median, and the one at this part of all in order. */
static double waits(const struct load *load, double part, double *at_part)
{
	size_t used = load->scope == FI_XPU_DEVICE ? 1 : load->blocks, count = used * load->count;
	static uint64_t raw[RINGS * WAITS];
	static double sorted[RINGS * WAITS];

	check(xpu_device_read(device, raw, memory.on_host + WAITS_AT, count * sizeof(raw[0])),
	      "waits");
	for (size_t i = 0; i < count; i++)
		sorted[i] = (double)raw[i];
	qsort(sorted, count, sizeof(sorted[0]), by_value);
	*at_part = sorted[(size_t)(part * (double)(count - 1))];
	return sorted[count / 2];
}

/* Latency with one request at a time on each ring, and the rate with as many as fit. */
static void bench_load(struct load load, const char *name)
{
	const unsigned used = load.scope == FI_XPU_DEVICE ? 1 : load.blocks;
	double rate[REPEATS], median, late;

	load.wait = true;
	load.count = WAITS / used < 100 ? 100 : WAITS / used;
	run(&load); /* the first has faults of pages in it */
	run(&load);
	median = waits(&load, 0.99, &late);
	figure(median, "ns", "xpu_latency.%s.%s.%s", domain, device->name, name);
	figure(late, "ns", "xpu_latency.%s.%s.%s.percentile_99", domain, device->name, name);
	load.wait = false;
	load.count = REQUESTS / used;
	for (int i = 0; i < REPEATS; i++)
		rate[i] = (double)load.count * used / run(&load) * 1e6;
	figure(median_of(rate, REPEATS), "1000/s", "xpu_rate.%s.%s.%s", domain, device->name, name);
}

static void bench_rings(void)
{
	char name[32];

	for (unsigned count = 1; count <= RINGS; count *= 2) {
		open_rings(count);
		snprintf(name, sizeof(name), "rings_%u", count);
		bench_load((struct load){ .blocks = count, .threads = 1 }, name);
	}
	close_rings();
}

static void bench_scopes(void)
{
	const unsigned group = device->subgroup;

	open_rings(1);
	bench_load((struct load){ 0, 1, 1, FI_XPU_WORK_ITEM, 0, 0, false }, "scope_thread");
	bench_load((struct load){ 0, 1, group, FI_XPU_SUBGROUP, 0, 0, false }, "scope_subgroup");
	bench_load((struct load){ 0, 1, 4 * group, FI_XPU_WORK_GROUP, 0, 0, false }, "scope_block");
	bench_load((struct load){ 0, 4, group, FI_XPU_DEVICE, 0, 0, false }, "scope_device");
}

/* ---- the engine ---- */

static double seconds_of(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec * 1e-6;
}

/* What this process has taken of processors, but for this thread. */
static double processor_seconds(void)
{
	struct rusage all, own;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &own);
	return seconds_of(&all.ru_utime) + seconds_of(&all.ru_stime) - seconds_of(&own.ru_utime) -
	       seconds_of(&own.ru_stime);
}

/* Percent of a processor in the next seconds, and how often a second a thread began to sleep. */
static double engine_percent(time_t seconds, double *sleeps)
{
	const struct timespec pause = { .tv_sec = seconds };
	double began = now_ns(), before = processor_seconds();
	struct rusage then, now;

	getrusage(RUSAGE_SELF, &then);
	nanosleep(&pause, NULL);
	getrusage(RUSAGE_SELF, &now);
	*sleeps = (double)(now.ru_nvcsw - then.ru_nvcsw) / (double)seconds;
	return (processor_seconds() - before) / (now_ns() - began) * 1e11;
}

static void bench_engine(void)
{
	/* 100000 requests a second for 6 seconds; 30 after a pause each, and 3 after a long one */
	const struct load steady = { 0, 1, 1, FI_XPU_WORK_ITEM, 600000, 10000, false };
	const struct load rare = { 0, 1, 1, FI_XPU_WORK_ITEM, 30, 100000000, true };
	const struct load rarer = { 0, 1, 1, FI_XPU_WORK_ITEM, 4, 5000000000, true };
	const struct timespec settle = { .tv_sec = 1 }, idle = { .tv_sec = 4 };
	double percent, sleeps, ns, late;

	for (unsigned count = 1; count <= RINGS; count *= RINGS) {
		open_rings(count);
		nanosleep(&idle, NULL);
		percent = engine_percent(5, &sleeps);
		figure(percent, "%", "xpu_engine.%s.%s.idle_rings_%u", domain, device->name, count);
		figure(sleeps, "1/s", "xpu_engine.%s.%s.idle_rings_%u.sleeps", domain, device->name,
		       count);
	}
	close_rings();
	open_rings(1);
	run(&rare);
	ns = waits(&rare, 1, &late);
	figure(ns, "ns", "xpu_after_idle.%s.%s", domain, device->name);
	figure(late, "ns", "xpu_after_idle.%s.%s.longest", domain, device->name);
	run(&rarer); /* the first is at once */
	waits(&rarer, 1, &late);
	figure(late, "ns", "xpu_after_seconds.%s.%s.longest", domain, device->name);
	if (strcmp(device->name, "threads") == 0)
		return; /* the device is in this process: it cannot be told from the engine */
	start(&steady);
	nanosleep(&settle, NULL);
	percent = engine_percent(4, &sleeps);
	ns = end(&steady);
	figure(percent, "%", "xpu_engine.%s.%s.paced", domain, device->name);
	figure(steady.count / ns * 1e6, "1000/s", "xpu_engine.%s.%s.paced.rate", domain,
	       device->name);
}

/* ---- */

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
	for (int i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], name))
			return argv[i + 1];
	}
	return otherwise;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {
		{ "fetch", bench_fetch },
		{ "rings", bench_rings },
		{ "scopes", bench_scopes },
		{ "engine", bench_engine },
	};
	const char *part = option(argc, argv, "--part", "all");
	int ret = xpu_device_open(option(argc, argv, "--on", "cpu"), &device);

	if (ret == -FI_ENODEV)
		return 77;
	check(ret, "opening the device");
	for (int i = 1; i < argc; i++)
		tsv |= !strcmp(argv[i], "--tsv");
	domain = option(argc, argv, "--device", domain);
	open_all();
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!strcmp(part, "all") || !strcmp(part, parts[i].name))
			parts[i].run();
		close_rings();
	}
	close_all();
	return 0;
}
