/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that allocate accelerator memory, use it without descriptors and free it, at once, on all
 * interfaces that have a device; all of them share a registration cache on each NIC.  Drivers give freed
 * addresses out again, the last one first, so that what one thread frees is soon another's.
 *
 *   - what leaves a buffer is what the driver was given for it, and what arrives is what the driver finds
 *   - at the end nothing is left of it with drivers and devices
 */
#include "tests/stress/stress_hmem.h"

#define THREADS_MAX 16u
#define PIECE	    ((size_t)65536)
#define LARGE	    (PIECE / 2) /* is copied into no frame */

struct worker {
	pthread_t id;
	uint64_t random;
	struct hmem_station station[HMEM_WORLDS];
	uint8_t *have, *want; /* PIECE */
	uint64_t used, freed, again;
};

static struct worker workers[THREADS_MAX];
static unsigned threads;
static double deadline;
static enum fi_hmem_iface ifaces[FI_HMEM_SYNAPSEAI];
static unsigned iface_count;

static unsigned below(struct worker *w, size_t limit)
{
	return (unsigned)(stress_random(&w->random) % limit);
}

/* Out of the buffer, or into it: past the driver, and seen by the driver. */
static void use(struct worker *w, struct hmem_station *s, char *addr, size_t room, bool interior)
{
	size_t offset = interior ? below(w, room - LARGE) : 0;
	char *at = addr + offset;

	hmem_paint(&w->random, w->want, LARGE);
	if (below(w, 2)) {
		CHECK_OK(hmem_public->copy(hmem_fabric, at, w->want, LARGE));
		memset(s->host, 0, LARGE);
		hmem_transfer_bare(s, true, at, LARGE);
		CHECK(memcmp(s->host, w->want, LARGE) == 0);
	} else {
		memcpy(s->host, w->want, LARGE);
		hmem_transfer_bare(s, false, at, LARGE);
		CHECK_OK(hmem_public->copy(hmem_fabric, w->have, at, LARGE));
		CHECK(memcmp(w->have, w->want, LARGE) == 0);
	}
	w->used++;
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	void *before = NULL;

	while (stress_now() < deadline) {
		enum fi_hmem_iface iface = ifaces[below(w, iface_count)];
		int device = hmem_device(iface, below(w, hmem_devices(iface)));
		size_t len = PIECE << below(w, 2);
		void *addr;

		CHECK_OK(hmem_public->alloc(hmem_fabric, iface, device, HMREG_HMEM_DEVICE, len,
					    &addr));
		w->again += addr == before;
		for (unsigned i = 1 + below(w, 4); i > 0; i--)
			use(w, &w->station[below(w, HMEM_WORLDS)], addr, len, iface <= FI_HMEM_ZE);
		CHECK_OK(hmem_public->free(hmem_fabric, iface, device, HMREG_HMEM_DEVICE, addr));
		w->freed++;
		before = addr;
	}
	return NULL;
}

static void run_all(double seconds)
{
	deadline = stress_now() + seconds;
	for (unsigned t = 0; t < threads; t++) {
		struct worker *w = &workers[t];

		*w = (struct worker){ .random = 88172645463325252u + t * 977u };
		w->have = malloc(PIECE);
		w->want = malloc(PIECE);
		CHECK(w->have && w->want);
		for (unsigned i = 0; i < HMEM_WORLDS; i++)
			hmem_station_open(&w->station[i], &hmem_worlds[i], PIECE);
	}
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_create(&workers[t].id, NULL, run_worker, &workers[t]));
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_join(workers[t].id, NULL));
	for (unsigned t = 0; t < threads; t++) {
		for (unsigned i = 0; i < HMEM_WORLDS; i++)
			hmem_station_close(&workers[t].station[i]);
		free(workers[t].have);
		free(workers[t].want);
	}
}

/* Hits of accelerator memory, in all caches. */
static uint64_t kept_hits(void)
{
	uint64_t hits = 0;

	for (unsigned i = 0; i < HMEM_WORLDS; i++) {
		struct hmreg_cache_stats stats = { .size = sizeof(stats) };
		struct hmem_world *w = &hmem_worlds[i];

		CHECK_OK(w->ops->cache(&w->domain->fid, &stats));
		for (int iface = FI_HMEM_CUDA; iface <= FI_HMEM_ZE; iface++)
			hits += stats.iface[iface].hits;
	}
	return hits;
}

static void tell(void)
{
	uint64_t used = 0, freed = 0, again = 0, hits = kept_hits();

	for (unsigned t = 0; t < threads; t++) {
		used += workers[t].used;
		freed += workers[t].freed;
		again += workers[t].again;
	}
	print_message("%lu transfers, %lu hits, %lu allocations freed, %lu at the address before\n",
		      (unsigned long)used, (unsigned long)hits, (unsigned long)freed,
		      (unsigned long)again);
	/* else nothing was put to the test */
	CHECK(used && hits && freed && again);
}

/* The first run makes what drivers and the library make once and keep. */
static void fn_29_cache_02_hmem_freed_and_used_at_once(void **state)
{
	unsigned seconds = stress_setting("HMREG_STRESS_SECONDS", 10);
	struct hmem_mark before, after;

	(void)state;
	threads = stress_setting("HMREG_STRESS_THREADS", 8);
	threads = threads > THREADS_MAX ? THREADS_MAX : threads;
	hmem_nics[1] = "sw-any"; /* sw-verbs wants descriptors */
	hmem_mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	for (int run = 0; run < 2; run++) {
		hmem_worlds_open();
		iface_count = 0;
		for (int iface = FI_HMEM_CUDA; iface <= FI_HMEM_SYNAPSEAI; iface++)
			if (hmem_devices(iface) > 0)
				ifaces[iface_count++] = iface;
		if (iface_count == 0) {
			print_message("no interface has a device\n");
			hmem_worlds_close();
			skip();
		}
		hmem_look(&before);
		hmem_reuse(true);
		run_all(run == 0 ? seconds * 0.2 : seconds * 0.8);
		hmem_reuse(false);
		if (run == 1)
			tell();
		hmem_worlds_close();
	}
	hmem_worlds_open();
	hmem_look(&after);
	hmem_check(&before, &after);
	hmem_worlds_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
		fn_29_cache_02_hmem_freed_and_used_at_once) };

	return cmocka_run_group_tests_name("stress_cache_hmem", tests, NULL, NULL);
}
