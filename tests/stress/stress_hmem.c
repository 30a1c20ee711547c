/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accelerator memory used by many threads at once, of all interfaces that have a device, on the software
 * NIC and on an emulated RDMA device.  A slot is an allocation that all share: each thread registers it or
 * a part of it, lets the NIC move bytes into its own slice and out, and copies them, also several copies at
 * a time and from one interface to another; meanwhile others free it and allocate it anew, on any device.
 *
 *   - a thread's slice holds what it wrote last, byte by byte, as long as the allocation lives
 *   - an address is told to be of the interface and the device that it was allocated on
 *   - descriptors, objects of the drivers and regions are at the end what they were before
 */
#include "hmem/hmem.h"
#include "tests/stress/stress_hmem.h"

#define THREADS_MAX 16u
#define SLICE	    ((size_t)8192)
#define COPIES	    3u /* under way at a time */
#define PRIVATE	    ((size_t)65536)

/* Memory that all threads use; which it is changes with lock held for writing. */
struct slot {
	pthread_rwlock_t lock;
	enum fi_hmem_iface iface;
	int device;
	char *addr;
	uint64_t generation;
	struct fid_mr *mr[HMEM_WORLDS]; /* of all of it, for all threads */
};

struct worker {
	pthread_t id;
	unsigned number;
	uint64_t random;
	struct hmem_station station[HMEM_WORLDS];
	uint8_t *have; /* SLICE: read back */
	struct {
		uint64_t generation; /* of the slot's memory that bytes are in */
		uint8_t bytes[SLICE];
	} mine[HMEM_SLOTS];
	uint64_t registered, moved, copied, renewed, between;
};

static struct slot slots[HMEM_SLOTS];
static size_t slot_count;
static struct worker workers[THREADS_MAX];
static unsigned threads;
static double deadline;

static unsigned below(struct worker *w, unsigned limit)
{
	return (unsigned)(stress_random(&w->random) % limit);
}

/* ---- slots ---- */

static char *slice_of(const struct slot *slot, const struct worker *w)
{
	return slot->addr + w->number * SLICE;
}

/* The slot's lock is held for writing, or nobody else is there. */
static void fill_slot(struct slot *slot)
{
	size_t len = threads * SLICE;
	void *addr;

	CHECK_OK(hmem_public->alloc(hmem_fabric, slot->iface, slot->device, HMREG_HMEM_DEVICE, len,
				    &addr));
	slot->addr = addr;
	slot->generation++;
	for (unsigned i = 0; i < HMEM_WORLDS; i++)
		slot->mr[i] = hmem_region(&hmem_worlds[i], slot->iface, slot->device, addr, len);
}

static void empty_slot(struct slot *slot)
{
	for (unsigned i = 0; i < HMEM_WORLDS; i++)
		CHECK_OK(fi_close(&slot->mr[i]->fid));
	CHECK_OK(hmem_public->free(hmem_fabric, slot->iface, slot->device, HMREG_HMEM_DEVICE,
				   slot->addr));
}

static void open_slots(void)
{
	for (int iface = FI_HMEM_CUDA; iface <= FI_HMEM_SYNAPSEAI; iface++)
		for (unsigned i = 0; i < HMEM_SLOTS_EACH && hmem_devices(iface) > 0; i++) {
			struct slot *slot = &slots[slot_count++];

			pthread_rwlock_init(&slot->lock, NULL);
			slot->iface = iface;
			slot->device = hmem_device(iface, i);
			fill_slot(slot);
		}
}

static void close_slots(void)
{
	for (; slot_count > 0; slot_count--) {
		empty_slot(&slots[slot_count - 1]);
		pthread_rwlock_destroy(&slots[slot_count - 1].lock);
	}
}

/* ---- a thread's slice ---- */

static uint8_t *bytes_of(struct worker *w, const struct slot *slot)
{
	return w->mine[slot - slots].bytes;
}

static void check_slice(struct worker *w, const struct slot *slot)
{
	CHECK_OK(hmem_public->copy(hmem_fabric, w->have, slice_of(slot, w), SLICE));
	CHECK(memcmp(w->have, bytes_of(w, slot), SLICE) == 0);
	w->copied++;
}

/* A slot, held for reading, with the slice as this thread knows it. */
static struct slot *enter(struct worker *w)
{
	struct slot *slot = &slots[below(w, (unsigned)slot_count)];
	size_t at = (size_t)(slot - slots);

	CHECK_OK(pthread_rwlock_rdlock(&slot->lock));
	if (w->mine[at].generation == slot->generation) {
		check_slice(w, slot);
	} else {
		w->mine[at].generation = slot->generation;
		hmem_paint(&w->random, w->mine[at].bytes, SLICE);
		CHECK_OK(hmem_public->copy(hmem_fabric, slice_of(slot, w), w->mine[at].bytes,
					   SLICE));
	}
	return slot;
}

static void leave(struct worker *w, struct slot *slot)
{
	check_slice(w, slot);
	CHECK_OK(pthread_rwlock_unlock(&slot->lock));
}

/* ---- what threads do ---- */

/* Through a region, from offset at of it on: new bytes into the slice, and the same out of it again. */
static void move(struct worker *w, struct slot *slot, unsigned world, struct fid_mr *mr,
		 const char *begin)
{
	struct hmem_station *s = &w->station[world];
	size_t off = below(w, SLICE), len = 1 + below(w, (unsigned)(SLICE - off));
	char *to = slice_of(slot, w) + off;

	hmem_paint(&w->random, s->host, len);
	hmem_transfer(s, true, len, mr, (uint64_t)(to - begin), to);
	memcpy(bytes_of(w, slot) + off, s->host, len);
	memset(s->host, 0, len);
	hmem_transfer(s, false, len, mr, (uint64_t)(to - begin), to);
	CHECK(memcmp(s->host, bytes_of(w, slot) + off, len) == 0);
	w->moved++;
}

static void use_shared_region(struct worker *w)
{
	struct slot *slot = enter(w);
	unsigned world = below(w, HMEM_WORLDS);

	move(w, slot, world, slot->mr[world], slot->addr);
	leave(w, slot);
}

static void use_own_region(struct worker *w)
{
	struct slot *slot = enter(w);
	unsigned world = below(w, HMEM_WORLDS);
	char *begin = slot->addr + below(w, (unsigned)(w->number * SLICE) + 1);
	struct fid_mr *mr = hmem_region(&hmem_worlds[world], slot->iface, slot->device, begin,
					(size_t)(slice_of(slot, w) + SLICE - begin));

	move(w, slot, world, mr, begin);
	CHECK_OK(fi_close(&mr->fid));
	w->registered++;
	leave(w, slot);
}

/* Several at a time; they end in another order than they began, waited for or asked about. */
static void copies_under_way(struct worker *w)
{
	struct slot *slot = enter(w);
	size_t part = SLICE / COPIES;
	struct hmem_job *job[COPIES];
	bool in = below(w, 2);
	uint8_t *host = in ? bytes_of(w, slot) : w->have;

	if (in)
		hmem_paint(&w->random, host, SLICE);
	else
		memset(host, 0, SLICE);
	for (unsigned i = 0; i < COPIES; i++) {
		struct hmem_place there = { slice_of(slot, w) + i * part, slot->iface,
					    slot->device };
		struct hmem_place here = { host + i * part, FI_HMEM_SYSTEM, HMEM_NO_DEVICE };

		CHECK_OK(hmem_copy_start(in ? &there : &here, in ? &here : &there,
					 i + 1 < COPIES ? part : SLICE - i * part, &job[i]));
	}
	for (unsigned i = COPIES; i-- > 0;) {
		bool wait = below(w, 2);
		int ret;

		while ((ret = hmem_copy_end(job[i], wait)) == -FI_EAGAIN)
			CHECK(!wait);
		CHECK_OK(ret);
	}
	CHECK(memcmp(host, bytes_of(w, slot), SLICE) == 0);
	w->copied += COPIES;
	leave(w, slot);
}

/* Two slots at once: the second only if nobody is about to renew it, so that nobody waits in a circle. */
static void from_one_to_another(struct worker *w)
{
	struct slot *from = enter(w), *to = &slots[below(w, (unsigned)slot_count)];
	size_t at = (size_t)(to - slots);

	if (to != from && pthread_rwlock_tryrdlock(&to->lock) == 0) {
		CHECK_OK(hmem_public->copy(hmem_fabric, slice_of(to, w), slice_of(from, w), SLICE));
		w->mine[at].generation = to->generation;
		memcpy(w->mine[at].bytes, bytes_of(w, from), SLICE);
		w->between++;
		leave(w, to);
	}
	leave(w, from);
}

static void renew(struct worker *w)
{
	struct slot *slot = &slots[below(w, (unsigned)slot_count)];

	if (pthread_rwlock_trywrlock(&slot->lock) != 0)
		return;
	empty_slot(slot);
	slot->device = hmem_device(slot->iface, below(w, (unsigned)hmem_devices(slot->iface)));
	fill_slot(slot);
	w->renewed++;
	CHECK_OK(pthread_rwlock_unlock(&slot->lock));
}

/* Memory of this thread alone: registered, used, closed and freed. */
static void own_memory(struct worker *w)
{
	enum fi_hmem_iface iface = slots[below(w, (unsigned)slot_count)].iface;
	int device = hmem_device(iface, below(w, (unsigned)hmem_devices(iface)));
	unsigned world = below(w, HMEM_WORLDS);
	struct hmem_station *s = &w->station[world];
	struct fid_mr *mr;
	void *addr;

	CHECK_OK(hmem_public->alloc(hmem_fabric, iface, device, HMREG_HMEM_DEVICE, PRIVATE, &addr));
	mr = hmem_region(&hmem_worlds[world], iface, device, addr, PRIVATE);
	hmem_paint(&w->random, s->host, SLICE);
	hmem_transfer(s, true, SLICE, mr, 100, (char *)addr + 100);
	CHECK_OK(hmem_public->copy(hmem_fabric, w->have, (char *)addr + 100, SLICE));
	CHECK(memcmp(w->have, s->host, SLICE) == 0);
	CHECK_OK(fi_close(&mr->fid));
	CHECK_OK(hmem_public->free(hmem_fabric, iface, device, HMREG_HMEM_DEVICE, addr));
	w->registered++;
}

static void ask(struct worker *w)
{
	struct slot *slot = enter(w);
	struct hmreg_hmem_memory memory = { .size = sizeof(memory) };
	struct hmreg_hmem_path path = { .size = sizeof(path) };
	struct hmem_world *world = &hmem_worlds[below(w, HMEM_WORLDS)];

	CHECK_OK(hmem_public->query(hmem_fabric, slice_of(slot, w), SLICE, &memory));
	CHECK(memory.iface == slot->iface && memory.device == slot->device);
	CHECK_OK(hmem_public->path(hmem_fabric, world->info, slot->iface, slot->device, &path));
	CHECK(path.path != 0);
	CHECK_OK(hmem_public->query(hmem_fabric, w->have, SLICE, &memory));
	CHECK(memory.iface == FI_HMEM_SYSTEM);
	leave(w, slot);
}

static void *run_worker(void *arg)
{
	static void (*const acts[])(struct worker *) = {
		use_shared_region,
		use_shared_region,
		use_own_region,
		use_own_region,
		copies_under_way,
		from_one_to_another,
		own_memory,
		renew,
		ask,
	};
	struct worker *w = arg;

	while (stress_now() < deadline)
		acts[below(w, sizeof(acts) / sizeof(acts[0]))](w);
	return NULL;
}

/* ---- the run ---- */

static void run_all(double seconds)
{
	deadline = stress_now() + seconds;
	for (unsigned t = 0; t < threads; t++) {
		struct worker *w = &workers[t];

		w->number = t;
		w->random = 88172645463325252u + t * 977u;
		w->have = malloc(SLICE);
		CHECK(w->have);
		memset(w->mine, 0, sizeof(w->mine));
		for (unsigned i = 0; i < HMEM_WORLDS; i++)
			hmem_station_open(&w->station[i], &hmem_worlds[i], SLICE);
	}
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_create(&workers[t].id, NULL, run_worker, &workers[t]));
	for (unsigned t = 0; t < threads; t++)
		CHECK_OK(pthread_join(workers[t].id, NULL));
	for (unsigned t = 0; t < threads; t++) {
		for (unsigned i = 0; i < HMEM_WORLDS; i++)
			hmem_station_close(&workers[t].station[i]);
		free(workers[t].have);
	}
}

static void tell(void)
{
	struct worker sum = { .number = 0 };

	for (unsigned t = 0; t < threads; t++) {
		sum.registered += workers[t].registered;
		sum.moved += workers[t].moved;
		sum.copied += workers[t].copied;
		sum.renewed += workers[t].renewed;
		sum.between += workers[t].between;
	}
	print_message(
		"%zu slots: %lu regions, %lu writes and reads, %lu copies, %lu from one slot to "
		"another, %lu allocated anew\n",
		slot_count, (unsigned long)sum.registered, (unsigned long)sum.moved,
		(unsigned long)sum.copied, (unsigned long)sum.between, (unsigned long)sum.renewed);
	/* else nothing was put to the test */
	CHECK(sum.registered && sum.moved && sum.copied && sum.between && sum.renewed);
}

/* The first run makes what drivers and the library make once and keep. */
static void api_19_hmem_all_calls_at_once(void **state)
{
	unsigned seconds = stress_setting("HMREG_STRESS_SECONDS", 10);
	struct hmem_mark before, after;

	(void)state;
	threads = stress_setting("HMREG_STRESS_THREADS", 8);
	threads = threads > THREADS_MAX ? THREADS_MAX : threads;
	hmem_worlds_open();
	for (int run = 0; run < 2; run++) {
		hmem_look(&before);
		open_slots();
		if (slot_count == 0) {
			print_message("no interface has a device\n");
			hmem_worlds_close();
			skip();
		}
		run_all(run == 0 ? seconds * 0.2 : seconds * 0.8);
		if (run == 1)
			tell();
		close_slots();
	}
	hmem_look(&after);
	hmem_check(&before, &after);
	hmem_worlds_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(api_19_hmem_all_calls_at_once) };

	return cmocka_run_group_tests_name("stress_hmem", tests, NULL, NULL);
}
