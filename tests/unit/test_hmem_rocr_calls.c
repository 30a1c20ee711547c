/* SPDX-License-Identifier: BSD-2-Clause */
/* ROCr: copies, each call failing in turn, many rounds and threads. */
#include <pthread.h>

#include "tests/unit/test_hmem_rocr.h"

/* ---- copies ---- */

/* Host memory that cannot be locked is copied all the same, by pieces. */
static void hmem_01_host_memory_that_cannot_be_locked(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, LARGE);
	unsigned char *host = malloc(LARGE), *back = malloc(LARGE);

	(void)state;
	for (size_t i = 0; i < LARGE; i++)
		host[i] = (unsigned char)(i * 7 + (i >> 9));
	hooks->reset();
	fail_call("hsa_amd_memory_lock", 1, ROCR_ERROR_OUT_OF_RESOURCES);
	assert_int_equal(ops->copy(made.addr, 0, host, HMEM_NO_DEVICE, LARGE), 0);
	fail_call("hsa_amd_memory_lock", 1, ROCR_ERROR_OUT_OF_RESOURCES);
	assert_int_equal(ops->copy(back, HMEM_NO_DEVICE, made.addr, 0, LARGE), 0);
	assert_memory_equal(host, back, LARGE);
	assert_int_equal(hooks->calls("hsa_amd_memory_lock"), 2);
	assert_int_equal(hooks->calls("hsa_amd_memory_unlock"), 0);
	assert_int_equal(warnings, 0);
	free(host);
	free(back);
	make_rocr.drop(&made);
}

/* Memory that the program made known to the runtime is not locked once more, and stays locked. */
static void hmem_01_known_host_memory(void **state)
{
	const enum make kinds[] = { MAKE_REGISTERED, MAKE_HOST };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct made made = make_of(MAKE_DEVICE, 0, LARGE);
		struct made host = make_of(kinds[i], 0, LARGE);
		unsigned char *bytes = malloc(LARGE);
		uint64_t event;

		fill(&host);
		hooks->reset();
		assert_int_equal(
			ops->copy_start(made.addr, 0, host.addr, HMEM_NO_DEVICE, LARGE, &event), 0);
		assert_int_equal(ops->copy_end(event, false), -FI_EAGAIN);
		assert_int_equal(ops->copy_end(event, true), 0);
		assert_int_equal(hooks->calls("hsa_amd_memory_lock"), 0);
		assert_int_equal(hooks->calls("hsa_amd_memory_unlock"), 0);
		assert_int_equal(make_rocr.read(&made, 0, bytes, LARGE), 0);
		assert_memory_equal(bytes, host.addr, LARGE);
		free(bytes);
		make_rocr.drop(&host);
		make_rocr.drop(&made);
	}
}

/* A copy never changes who has access to the program's memory. */
static void fn_18_access_lists_stay(void **state)
{
	struct made a = make_of(MAKE_DEVICE, 0, LARGE), b = make_of(MAKE_DEVICE, 1, LARGE);

	(void)state;
	fill(&a);
	hooks->reset();
	assert_int_equal(ops->copy(b.addr, 1, a.addr, 0, LARGE), 0);
	assert_int_equal(hooks->calls("hsa_amd_agents_allow_access"), 0);
	make_rocr.drop(&a);
	make_rocr.drop(&b);
}

static void engine_that_fails(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, LARGE);
	unsigned char *host = calloc(1, LARGE);
	const size_t sizes[] = { 8, LARGE };
	uint64_t event;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		warnings = 0;
		fail_call("engine", 1, 1);
		assert_int_equal(ops->copy(made.addr, 0, host, HMEM_NO_DEVICE, sizes[i]), -FI_EIO);
		assert_one_warning("hsa_amd_memory_async_copy");
	}
	fail_call("engine", 1, 1);
	assert_int_equal(ops->copy_start(made.addr, 0, host, HMEM_NO_DEVICE, LARGE, &event), 0);
	assert_int_equal(ops->copy_end(event, true), -FI_EIO);
	assert_one_warning("hsa_amd_memory_async_copy");
	assert_int_equal(ops->copy(made.addr, 0, host, HMEM_NO_DEVICE, LARGE), 0);
	free(host);
	make_rocr.drop(&made);
}

/* ---- each of the runtime's calls failing in turn ---- */

struct scene {
	struct made device, peer, mapped, managed;
	struct hmem_memory of_device, of_mapped;
	unsigned char *host;
};

static struct scene make_scene(void)
{
	struct scene s = { .device = make_of(MAKE_DEVICE, 0, LARGE),
			   .peer = make_of(MAKE_DEVICE, 1, LARGE),
			   .mapped = make_of(MAKE_VMM, 0, 2 * UNIT),
			   .managed = make_of(MAKE_MANAGED, 0, UNIT),
			   .host = calloc(1, LARGE) };

	s.of_device = classified(s.device.addr, 1);
	s.of_mapped = classified(s.mapped.addr, 1);
	return s;
}

static void drop_scene(struct scene *s)
{
	make_rocr.drop(&s->device);
	make_rocr.drop(&s->peer);
	make_rocr.drop(&s->mapped);
	make_rocr.drop(&s->managed);
	free(s->host);
}

static unsigned int failures;

/* What fails says so, and what does not says nothing. */
static int tried(int ret)
{
	assert_int_equal(ret < 0 && ret != -FI_ENOENT, warnings > 0);
	failures += ret < 0;
	warnings = 0;
	return ret;
}

static void export_and_back(const struct hmem_memory *memory, void *addr)
{
	struct hmem_export out;

	if (tried(ops->export_start(memory, addr, 100, HMEM_EXPORT_PCIE, &out)) != 0)
		return;
	ops->export_end(&out);
	tried(warnings ? -FI_EIO : 0);
}

/* One of every operation. */
static void play(struct scene *s)
{
	struct hmem_device device;
	struct hmem_facts facts;
	uint64_t event;
	void *addr;

	failures = 0;
	warnings = 0;
	tried(ops->device_info(0, &device));
	tried(ops->look(s->device.addr, &facts));
	tried(ops->look(s->managed.addr, &facts));
	tried(ops->copy(s->device.addr, 0, s->host, HMEM_NO_DEVICE, 100));
	tried(ops->copy(s->host, HMEM_NO_DEVICE, s->device.addr, 0, LARGE));
	tried(ops->copy(s->peer.addr, 1, s->device.addr, 0, LARGE));
	if (tried(ops->copy_start(s->device.addr, 0, s->host, HMEM_NO_DEVICE, LARGE, &event)) == 0)
		tried(ops->copy_end(event, true));
	export_and_back(&s->of_device, s->device.addr);
	export_and_back(&s->of_mapped, s->mapped.addr);
	if (tried(ops->host_register(s->host, LARGE)) == 0)
		tried(ops->host_unregister(s->host));
	for (int how = HMEM_ALLOC_DEVICE; how <= HMEM_ALLOC_HOST; how++)
		if (tried(ops->alloc(0, UNIT, how, &addr)) == 0)
			tried(ops->free(0, addr, how));
}

/* A call that gives something back and fails leaves it where it is. */
static bool gives_back(const char *name)
{
	const char *const names[] = { "hsa_amd_memory_unlock", "hsa_signal_destroy",
				      "hsa_amd_vmem_handle_release", "hsa_amd_memory_pool_free",
				      "hsa_amd_portable_close_dmabuf" };

	for (size_t i = 0; i < count_of(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	/* host_unregister asks what it is before */
	return strcmp(name, "hsa_amd_pointer_info") == 0;
}

/* An object that could not be given back is all that may stay. */
static void check_what_is_left(const char *name)
{
	long live = hooks->live("*"), most = gives_back(name) ? live_before + 1 : live_before;
	size_t fds = test_fds();

	assert_in_range(live, live_before, most);
	assert_in_range(fds, fds_before, fds_before + (live > live_before));
	live_before = live;
	fds_before = fds;
}

static void every_call_fails(void **state)
{
	const int codes[] = { ROCR_ERROR, ROCR_ERROR_OUT_OF_RESOURCES, 0x1026 /* unknown here */ };
	struct {
		char name[64];
		unsigned long calls;
	} called[64];
	struct scene s = make_scene();
	size_t count = 0;
	long outside = hooks->live("*");

	(void)state;
	hooks->reset();
	play(&s);
	assert_int_equal(failures, 0);
	for (const char *name; (name = hooks->name(count)) != NULL; count++) {
		snprintf(called[count].name, sizeof(called[count].name), "%s", name);
		called[count].calls = hooks->calls(name);
	}
	assert_true(count >= 15);
	live_before = outside;
	fds_before = test_fds();
	for (size_t i = 0; i < count; i++)
		for (unsigned int nth = 1; nth <= called[i].calls; nth++) {
			fail_call(called[i].name, nth, codes[nth % count_of(codes)]);
			play(&s);
			fail_call(called[i].name, 0, 0);
			if (failures > 1)
				print_error("%s %u: %u failures\n", called[i].name, nth, failures);
			assert_true(failures <= 1);
			check_what_is_left(called[i].name);
			play(&s);
			assert_int_equal(failures, 0);
		}
	outside = hooks->live("*");
	drop_scene(&s);
	/* the scene's own objects */
	live_before -= outside - hooks->live("*");
	fds_before = test_fds();
}

/* ---- many rounds, and two threads ---- */

static void fn_01_a_thousand_rounds(void **state)
{
	struct scene s = make_scene();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct hmem_facts facts;
		size_t fds = test_fds();
		long live = hooks->live("*");

		assert_int_equal(ops->look(s.device.addr, &facts), 0);
		assert_int_equal(ops->look(s.host, &facts), -FI_ENOENT);
		warnings = 0;
		export_and_back(&s.of_device, (char *)s.device.addr + i);
		export_and_back(&s.of_mapped, (char *)s.mapped.addr + i);
		assert_int_equal(failures, 0);
		assert_int_equal(test_fds(), fds);
		assert_int_equal(hooks->live("*"), live);
	}
	drop_scene(&s);
}

struct worker {
	pthread_t thread;
	int device;
	int failed;
};

/* Looks, exports and copies on its own device; bytes have to come back as they went. */
static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned char *to = malloc(LARGE), *from = malloc(LARGE);
	struct hmem_facts facts;
	struct hmem_memory memory;
	struct hmem_export out;
	void *addr;

	w->failed = ops->alloc(w->device, LARGE, HMEM_ALLOC_DEVICE, &addr) != 0;
	for (int round = 0; !w->failed && round < 300; round++) {
		size_t len = round % 2 ? LARGE : 1000;

		memset(to, round + w->device, len);
		w->failed |= ops->look(addr, &facts) != 0 || facts.device != w->device;
		w->failed |= hmem_classify(addr, len, &memory) != 0;
		w->failed |= ops->copy(addr, w->device, to, HMEM_NO_DEVICE, len) != 0;
		w->failed |= ops->copy(from, HMEM_NO_DEVICE, addr, w->device, len) != 0;
		w->failed |= memcmp(to, from, len) != 0;
		w->failed |= ops->export_start(&memory, addr, len, 0, &out) != 0;
		if (!w->failed)
			ops->export_end(&out);
	}
	w->failed |= ops->free(w->device, addr, HMEM_ALLOC_DEVICE) != 0;
	free(to);
	free(from);
	return NULL;
}

static void threads(void **state)
{
	struct worker workers[10]; /* more than there are slots for copies */

	(void)state;
	for (size_t i = 0; i < count_of(workers); i++) {
		workers[i] = (struct worker){ .device = (int)i % 4 };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (size_t i = 0; i < count_of(workers); i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].failed, 0);
	}
}

/* Device 0 has the register, and no other. */
static void xpu_11_writes_of_nics_are_flushed_by_the_register(void **state)
{
	rocr_hdp hdp;

	(void)state;
	assert_true(ops->needs_flush(0));
	assert_false(ops->needs_flush(1));
	assert_false(ops->needs_flush(-1));
	assert_int_equal(
		vendor_hsa_agent_get_info(list_agents().gpus[0], ROCR_AGENT_HDP_FLUSH, &hdp), 0);
	assert_int_equal(*hdp.memory, 0);
	assert_int_equal(ops->flush(1), 0);
	assert_int_equal(*hdp.memory, 0);
	assert_int_equal(ops->flush(0), 0);
	assert_int_equal(*hdp.memory, 1);
	assert_int_equal(*hdp.registers, 0);
	*hdp.memory = 0;
}

GROUP(call, TEST(xpu_11_writes_of_nics_are_flushed_by_the_register),
      TEST(hmem_01_host_memory_that_cannot_be_locked), TEST(hmem_01_known_host_memory),
      TEST(fn_18_access_lists_stay), TEST(engine_that_fails), TEST(every_call_fails),
      TEST(fn_01_a_thousand_rounds), TEST(threads))
